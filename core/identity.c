// SPDX-License-Identifier: GPL-2.0-only
/*
 * Only in test builds: compares the page with the timekeeper, inside the kernel.
 *
 * ktime_get_snapshot() gives the counter value together with CLOCK_REALTIME and
 * CLOCK_MONOTONIC_RAW of the same instant, so the page's lines at that counter value must
 * give the same nanoseconds, with no tolerance. Writing a number of milliseconds to
 * /sys/kernel/debug/fastclk/identity compares for so long, on the CPU that writes; reading
 * it gives the numbers of all comparisons since the module was loaded.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/timekeeping.h>

#include "internal.h"
#include "identity.h"

#define FASTCLK_IDENTITY_MAX_MS		60000

/* The page is written at least every 10 ms while CPUs are busy; then something is broken. */
#define FASTCLK_IDENTITY_WAIT_MS	1000

/*
 * What became of the comparisons. "Next": equal to the line that was published next,
 * since the timekeeper's own data change a moment before the page does.
 */
static atomic64_t fastclk_identity_equal = ATOMIC64_INIT(0);
static atomic64_t fastclk_identity_next = ATOMIC64_INIT(0);
static atomic64_t fastclk_identity_different = ATOMIC64_INIT(0);

static u64 fastclk_identity_real(const struct fastclk_page *page, u64 cycles)
{
	const struct fastclk_line line = {
		page->hot.mult, page->hot.offset_lo, page->hot.offset_hi, page->hot.shift,
	};

	return fastclk_line_ns(&line, cycles) + page->hot.realtime_offset;
}

static u64 fastclk_identity_raw(const struct fastclk_page *page, u64 cycles)
{
	const struct fastclk_line line = {
		page->clocks.raw_mult, page->clocks.raw_offset_lo, page->clocks.raw_offset_hi,
		page->clocks.raw_shift,
	};

	return fastclk_line_ns(&line, cycles);
}

static bool fastclk_identity_holds(const struct fastclk_page *page,
				   const struct system_time_snapshot *snapshot)
{
	return fastclk_identity_real(page, snapshot->cycles) == ktime_to_ns(snapshot->real) &&
	       fastclk_identity_raw(page, snapshot->cycles) == ktime_to_ns(snapshot->raw);
}

/* Does the line that is published next give the snapshot's times? */
static bool fastclk_identity_holds_next(u32 seq, const struct system_time_snapshot *snapshot)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FASTCLK_IDENTITY_WAIT_MS);
	struct fastclk_page page;

	do
		fastclk_page_read(&page);
	while (page.hot.seq == seq && time_before(jiffies, deadline));

	return page.hot.seq != seq && fastclk_identity_holds(&page, snapshot);
}

static void fastclk_identity_report(const struct fastclk_page *page,
				    const struct system_time_snapshot *snapshot)
{
	pr_err("seq %u cycles %llu: real %lld, page %llu; raw %lld, page %llu\n", page->hot.seq,
	       snapshot->cycles, ktime_to_ns(snapshot->real),
	       fastclk_identity_real(page, snapshot->cycles), ktime_to_ns(snapshot->raw),
	       fastclk_identity_raw(page, snapshot->cycles));
}

static void fastclk_identity_compare(const struct fastclk_page *memory, unsigned int count)
{
	struct system_time_snapshot snapshot;
	struct fastclk_page page;

	for (; count; count--) {
		fastclk_page_read(&page);
		ktime_get_snapshot(&snapshot);
		if (READ_ONCE(memory->hot.seq) != page.hot.seq)
			continue;
		if (fastclk_identity_holds(&page, &snapshot))
			atomic64_inc(&fastclk_identity_equal);
		else if (fastclk_identity_holds_next(page.hot.seq, &snapshot))
			atomic64_inc(&fastclk_identity_next);
		else if (atomic64_inc_return(&fastclk_identity_different) == 1)
			fastclk_identity_report(&page, &snapshot);
	}
}

static ssize_t identity_write(struct file *file, const char __user *buffer, size_t count,
			      loff_t *position)
{
	const struct fastclk_page *memory = page_address(fastclk_page_page(0));
	unsigned long deadline;
	unsigned int ms;
	int ret;

	ret = kstrtouint_from_user(buffer, count, 0, &ms);
	if (ret)
		return ret;
	if (ms > FASTCLK_IDENTITY_MAX_MS)
		return -EINVAL;

	deadline = jiffies + msecs_to_jiffies(ms);
	while (time_before(jiffies, deadline)) {
		fastclk_identity_compare(memory, 1000);
		if (signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return count;
}

static int identity_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "equal %lld\nnext %lld\ndifferent %lld\n",
		   (s64)atomic64_read(&fastclk_identity_equal),
		   (s64)atomic64_read(&fastclk_identity_next),
		   (s64)atomic64_read(&fastclk_identity_different));
	return 0;
}

static int identity_open(struct inode *inode, struct file *file)
{
	return single_open(file, identity_show, NULL);
}

static const struct file_operations identity_fops = {
	.owner = THIS_MODULE,
	.open = identity_open,
	.read = seq_read,
	.write = identity_write,
	.llseek = seq_lseek,
	.release = single_release,
};

/**
 * fastclk_identity_init - make the file
 * @dir: in which directory of debugfs
 *
 * May sleep.
 */
void fastclk_identity_init(struct dentry *dir)
{
	debugfs_create_file("identity", 0600, dir, NULL, &identity_fops);
}
