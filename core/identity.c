// SPDX-License-Identifier: GPL-2.0-only
/*
 * Only in test builds: compares the page with the timekeeper, inside the kernel.
 *
 * The timekeeper's snapshot gives the counter value together with CLOCK_REALTIME and
 * CLOCK_MONOTONIC_RAW of the same instant, so the page's lines at that counter value must
 * give the same nanoseconds, with no tolerance. Writing a number of milliseconds to
 * /sys/kernel/debug/fastclk/identity compares for so long, on the CPU that writes; reading
 * it gives the numbers of all comparisons since the module was loaded.
 *
 * Where the line is fitted, the page cannot be equal, but must keep its bound: writing to
 * "bound" compares it with a reading of CLOCK_MONOTONIC between two reads of the counter,
 * which is much narrower here than from user space.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/timekeeping.h>

#include <fastclk/counter.h>
#include "compat.h"
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
				   const struct fastclk_snapshot *snapshot)
{
	return fastclk_identity_real(page, snapshot->cycles) == snapshot->real &&
	       fastclk_identity_raw(page, snapshot->cycles) == snapshot->raw;
}

/* Does the line that is published next give the snapshot's times? */
static bool fastclk_identity_holds_next(u32 seq, const struct fastclk_snapshot *snapshot)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FASTCLK_IDENTITY_WAIT_MS);
	struct fastclk_page page;

	do
		fastclk_page_read(&page);
	while (page.hot.seq == seq && time_before(jiffies, deadline));

	return page.hot.seq != seq && fastclk_identity_holds(&page, snapshot);
}

static void fastclk_identity_report(const struct fastclk_page *page,
				    const struct fastclk_snapshot *snapshot)
{
	pr_err("seq %u cycles %llu: real %lld, page %llu; raw %lld, page %llu\n", page->hot.seq,
	       snapshot->cycles, snapshot->real,
	       fastclk_identity_real(page, snapshot->cycles), snapshot->raw,
	       fastclk_identity_raw(page, snapshot->cycles));
}

static void fastclk_identity_compare(const struct fastclk_page *memory, unsigned int count)
{
	struct fastclk_snapshot snapshot;
	struct fastclk_page page;

	for (; count; count--) {
		fastclk_page_read(&page);
		if (!fastclk_snapshot_take(&snapshot))
			continue;
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

/* What became of the comparisons with a bound; repeated ones count once. */
static atomic64_t fastclk_bound_within = ATOMIC64_INIT(0);
static atomic64_t fastclk_bound_stale = ATOMIC64_INIT(0);
static atomic64_t fastclk_bound_outside = ATOMIC64_INIT(0);

/*
 * Turns of an idle loop between comparisons. QEMU's emulated counter is moved on whenever one
 * of two reads on different vCPUs is executed too early; with millions of reads a second it
 * gained 15 ppm and more, which no bound allows for.
 */
#define FASTCLK_BOUND_PAUSE		200

/* One is too far ahead of a reading that was stale, see core/sampler.c; several are wrong. */
#define FASTCLK_BOUND_REPEATS		16

static u64 fastclk_bound_mono(const struct fastclk_page *page, u64 cycles)
{
	const struct fastclk_line line = {
		page->hot.mult, page->hot.offset_lo, page->hot.offset_hi, page->hot.shift,
	};

	return fastclk_line_ns(&line, cycles);
}

/*
 * Return: 0 if the bound is kept, 1 if the page is too far ahead, -1 if it is too far behind,
 * -EAGAIN if it changed meanwhile or can't be used.
 */
static int fastclk_bound_once(const struct fastclk_page *memory)
{
	struct fastclk_page page;
	u64 before, ns, after, error;
	unsigned long flags;
	bool same;

	fastclk_page_read(&page);
	if (page.verdict.mode != FASTCLK_MODE_DISCIPLINED)
		return -EAGAIN;
	local_irq_save(flags);
	before = fastclk_counter_ordered();
	ns = ktime_get_ns();
	after = fastclk_counter_ordered();
	same = READ_ONCE(memory->hot.seq) == page.hot.seq;
	local_irq_restore(flags);
	if (!same)
		return -EAGAIN;

	error = page.verdict.error_ns + 1 +
		mul_u64_u32_div(fastclk_bound_mono(&page, after) -
				fastclk_bound_mono(&page, page.verdict.error_cycles),
				page.verdict.error_growth_ppb, NSEC_PER_SEC);
	if ((s64)(fastclk_bound_mono(&page, before) - error - ns) > 0)
		return 1;
	if ((s64)(ns - error - fastclk_bound_mono(&page, after)) > 0)
		return -1;
	return 0;
}

static void fastclk_bound_compare(const struct fastclk_page *memory, unsigned int count)
{
	unsigned int i, ahead;
	int ret;

	for (; count; count--) {
		for (i = 0; i < FASTCLK_BOUND_PAUSE; i++)
			cpu_relax();
		ret = fastclk_bound_once(memory);
		if (!ret)
			atomic64_inc(&fastclk_bound_within);
		if (ret == -1)
			atomic64_inc(&fastclk_bound_outside);
		if (ret != 1)
			continue;
		for (i = 0, ahead = 0; i < FASTCLK_BOUND_REPEATS; i++)
			ahead += fastclk_bound_once(memory) == 1;
		atomic64_inc(ahead ? &fastclk_bound_outside : &fastclk_bound_stale);
	}
}

/* For so many ms, as written, on this CPU. */
static ssize_t fastclk_compare_for(const char __user *buffer, size_t count,
				   void (*compare)(const struct fastclk_page *memory,
						   unsigned int count))
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
		compare(memory, 1000);
		if (signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return count;
}

static ssize_t bound_write(struct file *file, const char __user *buffer, size_t count,
			   loff_t *position)
{
	return fastclk_compare_for(buffer, count, fastclk_bound_compare);
}

static int bound_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "within %lld\nstale %lld\noutside %lld\n",
		   (s64)atomic64_read(&fastclk_bound_within),
		   (s64)atomic64_read(&fastclk_bound_stale),
		   (s64)atomic64_read(&fastclk_bound_outside));
	return 0;
}

static int bound_open(struct inode *inode, struct file *file)
{
	return single_open(file, bound_show, NULL);
}

static const struct file_operations bound_fops = {
	.owner = THIS_MODULE,
	.open = bound_open,
	.read = seq_read,
	.write = bound_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static ssize_t identity_write(struct file *file, const char __user *buffer, size_t count,
			      loff_t *position)
{
	return fastclk_compare_for(buffer, count, fastclk_identity_compare);
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
 * fastclk_identity_init - make the files
 * @dir: in which directory of debugfs
 *
 * May sleep.
 */
void fastclk_identity_init(struct dentry *dir)
{
	debugfs_create_file("identity", 0600, dir, NULL, &identity_fops);
	debugfs_create_file("bound", 0600, dir, NULL, &bound_fops);
}
