// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/fastclk: mmap, read and poll.
 *
 * An open file pins the module, and so does a mapping, since it pins the file. Revoking
 * ends that: from then on the files answer with errors and no longer count, so that the
 * module can be unloaded while they are still open.
 *
 * How unloading under open files can work: their operations are exchanged twice. Revoking
 * gives them operations without an owner, which only say that there is nothing any more.
 * On exit, what is still open gets operations without any code of ours. Those live,
 * with the wait queue on which a poller may still be, in struct fastclk_remains, which is
 * left behind in that case (some 300 bytes; there is nobody left who could free it).
 */
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/personality.h>
#include <linux/poll.h>
#include <linux/rcupdate.h>
#include <linux/rcupdate_wait.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "internal.h"

/*
 * struct fastclk_file - an open file
 * @list: on fastclk_files, as long as the file exists
 * @file: the file
 * @seen: events that its last read() has seen
 * @buried: the module is going; fastclk_chardev_exit() frees this
 */
struct fastclk_file {
	struct list_head list;
	struct file *file;
	u32 seen;
	bool buried;
};

struct fastclk_remains {
	struct wait_queue_head queue;
	struct file_operations operations;
};

/*
 * All open files, and whether they are revoked. Raw, so that no code that runs with
 * operations without an owner sleeps (see fastclk_chardev_exit()). Revoking walks the list
 * under it, some 10 ns for each open file.
 */
static DEFINE_RAW_SPINLOCK(fastclk_files_lock);
static LIST_HEAD(fastclk_files);
static bool fastclk_files_revoked;

static struct fastclk_remains *fastclk_remains;

static int fastclk_open(struct inode *inode, struct file *file)
{
	struct fastclk_file *f;
	bool revoked;

	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	f->file = file;
	f->seen = fastclk_events_count();
	file->private_data = f;

	raw_spin_lock(&fastclk_files_lock);
	revoked = fastclk_files_revoked;
	if (!revoked)
		list_add(&f->list, &fastclk_files);
	raw_spin_unlock(&fastclk_files_lock);

	if (revoked) {
		kfree(f);
		return -ENODEV;
	}
	return 0;
}

static int fastclk_release(struct inode *inode, struct file *file)
{
	struct fastclk_file *f = file->private_data;
	bool buried;

	raw_spin_lock(&fastclk_files_lock);
	buried = f->buried;
	if (!buried)
		list_del(&f->list);
	raw_spin_unlock(&fastclk_files_lock);

	if (!buried)
		kfree(f);
	return 0;
}

static loff_t fastclk_llseek(struct file *file, loff_t offset, int whence)
{
	return fixed_size_llseek(file, offset, whence, fastclk_page_size());
}

/*
 * What may sleep holds the module, since the file's own hold goes when it is revoked
 * meanwhile. This fails once the module is going.
 */
static bool fastclk_enter(void)
{
	return try_module_get(THIS_MODULE);
}

static void fastclk_leave(void)
{
	module_put(THIS_MODULE);
}

/* At the start, a consistent snapshot, cut to the count; anywhere else, end of file. */
static ssize_t fastclk_read(struct file *file, char __user *buffer, size_t count, loff_t *position)
{
	struct fastclk_file *f = file->private_data;
	ssize_t ret = -ENOMEM;
	void *copy;
	u32 seen;

	if (*position || !count)
		return 0;
	if (!fastclk_enter())
		return -ENODEV;

	/* Counted before copied, so that no event is lost in between. */
	seen = fastclk_events_count();
	count = min(count, fastclk_page_size());
	copy = kvmalloc(count, GFP_KERNEL_ACCOUNT);
	if (!copy)
		goto out;
	fastclk_page_read_all(copy, count);
	if (copy_to_user(buffer, copy, count)) {
		ret = -EFAULT;
	} else {
		WRITE_ONCE(f->seen, seen);
		*position = count;
		ret = count;
	}
	kvfree(copy);
out:
	fastclk_leave();
	return ret;
}

static __poll_t fastclk_poll(struct file *file, struct poll_table_struct *wait)
{
	struct fastclk_file *f = file->private_data;
	__poll_t mask = 0;

	if (!fastclk_enter())
		return EPOLLERR | EPOLLHUP;
	poll_wait(file, &fastclk_remains->queue, wait);
	if (READ_ONCE(fastclk_files_revoked))
		mask |= EPOLLERR | EPOLLHUP;
	if (READ_ONCE(f->seen) != fastclk_events_count())
		mask |= EPOLLIN | EPOLLRDNORM;
	fastclk_leave();
	return mask;
}

static int fastclk_mmap_page(struct vm_area_struct *vma)
{
	size_t length = vma->vm_end - vma->vm_start, offset;
	int ret = 0;

	if (vma->vm_pgoff || length > PAGE_ALIGN(fastclk_page_size()))
		return -EINVAL;
	/* VM_SHARED is not set for files that were opened read-only. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	if (vma->vm_flags & VM_EXEC) {
		/* Old programs with executable stacks get it unasked: take it away again. */
		if (!(current->personality & READ_IMPLIES_EXEC))
			return -EACCES;
		vm_flags_clear(vma, VM_EXEC);
		vma->vm_page_prot = vm_get_page_prot(vma->vm_flags);
	}
	/* Nor by a later mprotect(); not in core dumps; no larger by mremap(). */
	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);

	/*
	 * Takes references on the pages. There are no vm_ops, so that nothing of this mapping
	 * points into the module.
	 */
	for (offset = 0; !ret && offset < length; offset += PAGE_SIZE)
		ret = vm_insert_page(vma, vma->vm_start + offset, fastclk_page_page(offset));
	return ret;
}

static int fastclk_mmap(struct file *file, struct vm_area_struct *vma)
{
	int ret;

	if (!fastclk_enter())
		return -ENODEV;
	ret = READ_ONCE(fastclk_files_revoked) ? -ENODEV : fastclk_mmap_page(vma);
	fastclk_leave();
	return ret;
}

static const struct file_operations fastclk_operations = {
	.owner = THIS_MODULE,
	.open = fastclk_open,
	.release = fastclk_release,
	.llseek = fastclk_llseek,
	.read = fastclk_read,
	.poll = fastclk_poll,
	.mmap = fastclk_mmap,
};

/* Operations of revoked files, and for opening the revoked device. None of them may sleep. */

static int fastclk_revoked_open(struct inode *inode, struct file *file)
{
	return -ENODEV;
}

static ssize_t fastclk_revoked_read(struct file *file, char __user *buffer, size_t count,
				    loff_t *position)
{
	return -ENODEV;
}

static __poll_t fastclk_revoked_poll(struct file *file, struct poll_table_struct *wait)
{
	return EPOLLERR | EPOLLHUP;
}

static int fastclk_revoked_mmap(struct file *file, struct vm_area_struct *vma)
{
	return -ENODEV;
}

static const struct file_operations fastclk_revoked_operations = {
	.open = fastclk_revoked_open,
	.release = fastclk_release,
	.llseek = noop_llseek,
	.read = fastclk_revoked_read,
	.poll = fastclk_revoked_poll,
	.mmap = fastclk_revoked_mmap,
};

static struct miscdevice fastclk_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "fastclk",
	.fops = &fastclk_operations,
	.mode = 0444,
	.groups = fastclk_sysfs_groups,
};

/**
 * fastclk_chardev_wake - wake all who poll the device
 *
 * Any context where waking is allowed.
 */
void fastclk_chardev_wake(void)
{
	wake_up_interruptible_poll(&fastclk_remains->queue, EPOLLIN | EPOLLRDNORM);
}

/**
 * fastclk_chardev_revoke - withdraw the device from all who have it open
 *
 * The page must have lost its capabilities before. Process context; does not sleep.
 * Idempotent.
 */
void fastclk_chardev_revoke(void)
{
	struct fastclk_file *f;

	raw_spin_lock(&fastclk_files_lock);
	if (!fastclk_files_revoked) {
		WRITE_ONCE(fastclk_files_revoked, true);
		/* Attempts to open it do not hold the module any more either. */
		WRITE_ONCE(fastclk_device.fops, &fastclk_revoked_operations);
		list_for_each_entry(f, &fastclk_files, list) {
			/*
			 * A close() in progress either reads the new operations when it comes to
			 * let the module go, or has left the list before.
			 */
			WRITE_ONCE(f->file->f_op, &fastclk_revoked_operations);
			module_put(THIS_MODULE);
		}
	}
	raw_spin_unlock(&fastclk_files_lock);

	wake_up_poll(&fastclk_remains->queue, EPOLLHUP | EPOLLERR);
}

/**
 * fastclk_chardev_init - make the device
 *
 * From here on others may open it. May sleep. Return: 0 or a negative errno.
 */
int fastclk_chardev_init(void)
{
	int ret;

	fastclk_remains = kzalloc(sizeof(*fastclk_remains), GFP_KERNEL);
	if (!fastclk_remains)
		return -ENOMEM;
	init_waitqueue_head(&fastclk_remains->queue);
	fastclk_remains->operations = (struct file_operations) {
		.llseek = noop_llseek,
		/* Not NULL: what a file can do was noted when it was opened. */
		.read = generic_read_dir,	/* EISDIR */
		.mmap = generic_file_mmap,	/* ENOEXEC */
	};

	ret = misc_register(&fastclk_device);
	if (ret) {
		kfree(fastclk_remains);
		return ret;
	}
	fastclk_events_start(&fastclk_device.this_device->kobj);
	return 0;
}

/**
 * fastclk_chardev_exit - take the device away
 *
 * Files that are still open were revoked (or the unloading is forced). They get
 * operations in which there is no code of ours: polling them shows "readable", reading
 * them fails with EISDIR, mapping with ENOEXEC, for want of better functions in the kernel
 * proper. Then wait for those who are still in our code: nothing in there
 * sleeps without holding the module, so each of them has left when all tasks have
 * once gone to sleep or to user space. Sleeps.
 */
void fastclk_chardev_exit(void)
{
	struct fastclk_file *f, *next;
	LIST_HEAD(buried);

	fastclk_events_stop();
	misc_deregister(&fastclk_device);

	raw_spin_lock(&fastclk_files_lock);
	list_for_each_entry(f, &fastclk_files, list) {
		WRITE_ONCE(f->file->f_op, &fastclk_remains->operations);
		f->buried = true;
	}
	list_splice_init(&fastclk_files, &buried);
	raw_spin_unlock(&fastclk_files_lock);

	if (fastclk_files_revoked || !list_empty(&buried))
		synchronize_rcu_tasks();

	if (list_empty(&buried)) {
		kfree(fastclk_remains);
		return;
	}
	list_for_each_entry_safe(f, next, &buried, list)
		kfree(f);
}
