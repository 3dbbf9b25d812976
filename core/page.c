// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page: where it lives, and the only code that writes it. What may be said to
 * readers follows here from the three things that others report: lines or clocks
 * (core/timekeeper.c), the counter's fit to clocks (core/sampler.c), and the verdict
 * (core/sync.c).
 *
 * The lock is innermost, raw, and taken with interrupts off: the lines come from within
 * the timekeeper's own write section. Under it nothing may read a kernel clock (that
 * would wait for the timekeeper for ever), sleep, wake, print or trace; events are only
 * raised by fastclk_events_raise(), after it is released.
 */
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include <fastclk/counter.h>
#include "fault.h"
#include "internal.h"
#include "publish.h"
#include "trace.h"

/* Where the table begins: behind what is mapped by those who know of none. */
#define FASTCLK_TABLE_OFFSET	4096U

static DEFINE_RAW_SPINLOCK(fastclk_page_lock);
static struct fastclk_page *fastclk_page;
static struct fastclk_cpu_offset *fastclk_table;	/* behind the page */
static u32 fastclk_table_count;

/* Protected by the lock: what follows from them is on the page. */
static enum fastclk_reason fastclk_line_reason;		/* USABLE, or why there is no line */
static bool fastclk_suspended;
static bool fastclk_revoked;
static bool fastclk_has_offsets;			/* the table is to be applied */

/*
 * Where another clocksource drives the kernel's clocks: what they are, the counter's fit to
 * them, and the lines that were made of the two. An era ends when the clocksource changes or
 * a clock jumps, and a fit with it.
 */
static bool fastclk_is_fitted;				/* or else in lockstep */
static u32 fastclk_era;
static struct fastclk_clocks fastclk_clocks;
static bool fastclk_has_fit;
static struct fastclk_fit fastclk_fit;
static unsigned int fastclk_fit_cpu;
static u64 fastclk_fit_interval_ns;
static struct fastclk_fitted fastclk_fitted[2];
static struct fastclk_fitted *fastclk_fitted_now;	/* NULL: none in this era */

/* A fitted line is used for so long without an update: 1 s, or ten intervals. */
#define FASTCLK_FIT_VALID_MS		1000
#define FASTCLK_FIT_VALID_INTERVALS	10

/* Nobody says that the counter's rate is constant. */
static bool fastclk_page_variable(void)
{
	return !(fastclk_page->header.features &
		 (FASTCLK_FEATURE_INVARIANT | FASTCLK_FEATURE_ASSUMED));
}

/* Do the CPUs' counters agree, as they are or with offsets? */
static bool fastclk_page_agrees(void)
{
	return fastclk_page->verdict.verdict == FASTCLK_VERDICT_SYNCED ||
	       fastclk_page->verdict.verdict == FASTCLK_VERDICT_OFFSET;
}

/* Work out status, reason and mode; between begin and end. Return: did they change? */
static bool fastclk_page_settle(void)
{
	struct fastclk_page_verdict *v = &fastclk_page->verdict;
	u32 status = fastclk_page->hot.status & ~FASTCLK_STATUS_CAPABILITIES;
	u32 reason, mode = FASTCLK_MODE_UNUSABLE;
	bool changed;

	if (fastclk_page_agrees())
		reason = FASTCLK_REASON_USABLE;
	else if (v->verdict == FASTCLK_VERDICT_UNSYNCED)
		reason = FASTCLK_REASON_UNSYNCED;
	else
		reason = v->measurements ? FASTCLK_REASON_INCOMPLETE : FASTCLK_REASON_MEASURING;

	if (fastclk_suspended) {
		reason = FASTCLK_REASON_SUSPENDED;
	} else if (fastclk_line_reason != FASTCLK_REASON_USABLE) {
		reason = fastclk_line_reason;
	} else if (!fastclk_is_fitted) {
		mode = FASTCLK_MODE_LOCKSTEP;
		/* The rate is constant, since the kernel's own time depends on that. */
		status |= FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_LOCKSTEP |
			  FASTCLK_STATUS_CONSTANT_RATE;
	} else if (fastclk_page_variable()) {
		mode = FASTCLK_MODE_VARIABLE;
		status |= FASTCLK_STATUS_LINE_VALID;
	} else {
		mode = FASTCLK_MODE_DISCIPLINED;
		status |= FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_CONSTANT_RATE;
	}
	if (v->verdict == FASTCLK_VERDICT_SYNCED)
		status |= FASTCLK_STATUS_COMPARABLE;
	else if (v->verdict == FASTCLK_VERDICT_OFFSET)
		status |= FASTCLK_STATUS_OFFSETS;

	if (fastclk_revoked) {
		reason = FASTCLK_REASON_REVOKED;
		mode = FASTCLK_MODE_UNUSABLE;
		status &= ~FASTCLK_STATUS_CAPABILITIES;
	}

	changed = fastclk_publish_status(fastclk_page, status);
	if (v->reason == reason && v->mode == mode)
		return changed;
	v->reason = reason;
	v->mode = mode;
	return true;
}

/* By how much counters of CPUs may differ, if they were compared. */
static u64 fastclk_page_skew_ns(void)
{
	const struct fastclk_page_verdict *v = &fastclk_page->verdict;
	u32 khz = fastclk_counter_khz();

	if (!fastclk_page_agrees() || v->max_skew_cycles > U32_MAX || !khz)
		return 0;
	return v->max_skew_cycles * 1000000 / khz + 1;
}

/**
 * fastclk_page_counter - the ordered counter of this CPU, as the lines are about it
 *
 * With its offset, if there are any. Interrupts off. What was read before the table changed
 * must not be used together with what was read later; there is another era, then.
 */
u64 fastclk_page_counter(void)
{
	u64 cycles = fastclk_counter_ordered();
	unsigned int cpu = smp_processor_id();

	if (!READ_ONCE(fastclk_has_offsets) || cpu >= fastclk_table_count)
		return cycles;
	/* Test builds err on both sides alike; without offsets, errors are only looked for. */
	return fastclk_fault_counter(cycles) + READ_ONCE(fastclk_table[cpu].offset_cycles);
}

/*
 * Between begin and end: from here on, other lines, which begin where the present ones are.
 */
static void fastclk_page_join(void)
{
	struct fastclk_fitted *next = fastclk_fitted_now == &fastclk_fitted[0] ?
				      &fastclk_fitted[1] : &fastclk_fitted[0];
	struct fastclk_page *page = fastclk_page;
	u32 khz = fastclk_counter_khz();
	u64 joint = fastclk_publish_joint(page, fastclk_page_counter, khz);

	fastclk_fit_lines(&fastclk_fit, &fastclk_clocks.monotonic, &fastclk_clocks.raw, joint,
			  fastclk_fitted_now, fastclk_fit_interval_ns, next);
	fastclk_fitted_now = next;

	fastclk_publish_line(page, &next->monotonic);
	fastclk_publish_raw_line(page, &next->raw);
	page->hot.realtime_offset = fastclk_clocks.realtime_offset;
	page->clocks.boottime_offset = fastclk_clocks.boottime_offset;
	page->clocks.tai_offset = fastclk_clocks.tai_offset;
	page->clocks.clock_was_set = fastclk_clocks.clock_was_set;
	page->clocks.frequency_hz = (u64)khz * 1000;
	page->clocks.updates++;
	/* 1 ms back, as in core/timekeeper.c. */
	page->hot.valid_from = joint - khz;
	page->hot.valid_for = khz * max_t(u64, FASTCLK_FIT_VALID_MS, fastclk_fit_interval_ns /
					  (NSEC_PER_MSEC / FASTCLK_FIT_VALID_INTERVALS));
	page->verdict.error_cycles = joint;
	/* The samples were taken on one CPU, readers are on any. */
	page->verdict.error_ns = next->error_ns + fastclk_page_skew_ns();
	page->verdict.error_growth_ppb = next->growth_ppb;
}

/* Between begin and end: what was fitted is no longer true. */
static void fastclk_page_forget(enum fastclk_reason reason)
{
	fastclk_era++;
	fastclk_has_fit = false;
	fastclk_fitted_now = NULL;
	fastclk_line_reason = reason;
}

/* After the lock is released: tell what changed. A new line is news only for who traces it. */
static void fastclk_page_tell(bool changed)
{
	if (changed)
		fastclk_events_raise();
	if (trace_update_enabled())
		fastclk_events_update();
}

/**
 * fastclk_page_set_lines - a timekeeping update in lockstep
 * @lines: the new lines
 *
 * Interrupts may be on or off, the timekeeper's lock may be held.
 */
void fastclk_page_set_lines(const struct fastclk_lines *lines)
{
	struct fastclk_page *page = fastclk_page;
	unsigned long flags;
	bool changed;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	fastclk_publish_begin(page);
	fastclk_publish_line(page, &lines->monotonic);
	page->hot.realtime_offset = lines->realtime_offset;
	page->hot.valid_from = lines->valid_from;
	page->hot.valid_for = lines->valid_for;
	fastclk_publish_raw_line(page, &lines->raw);
	page->clocks.boottime_offset = lines->boottime_offset;
	page->clocks.tai_offset = lines->tai_offset;
	page->clocks.frequency_hz = lines->frequency_hz;
	page->clocks.clock_was_set = lines->clock_was_set;
	page->clocks.updates++;
	page->verdict.error_cycles = 0;
	page->verdict.error_ns = 0;
	page->verdict.error_growth_ppb = 0;
	if (fastclk_is_fitted)
		fastclk_page_forget(FASTCLK_REASON_USABLE);
	fastclk_is_fitted = false;
	fastclk_line_reason = FASTCLK_REASON_USABLE;
	changed = fastclk_page_settle();
	fastclk_publish_end(page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_page_tell(changed);
}

/**
 * fastclk_page_set_no_line - the counter can't be turned into time at present
 * @reason: why
 *
 * Context as fastclk_page_set_lines().
 */
void fastclk_page_set_no_line(enum fastclk_reason reason)
{
	unsigned long flags;
	bool changed;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	fastclk_publish_begin(fastclk_page);
	fastclk_page_forget(reason);
	fastclk_is_fitted = false;
	changed = fastclk_page_settle();
	fastclk_publish_end(fastclk_page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_page_tell(changed);
}

static bool fastclk_page_same_clocks(const struct fastclk_clocks *x, const struct fastclk_clocks *y)
{
	return x->monotonic.mult == y->monotonic.mult && x->raw.mult == y->raw.mult &&
	       x->realtime_offset == y->realtime_offset &&
	       x->boottime_offset == y->boottime_offset && x->tai_offset == y->tai_offset &&
	       x->clock_was_set == y->clock_was_set;
}

/**
 * fastclk_page_set_clocks - a timekeeping update, with another clocksource than the counter
 * @clocks: the clocks
 *
 * The counter's fit to CLOCK_MONOTONIC_RAW remains what it was, but the other clocks may
 * have changed against that. Context as fastclk_page_set_lines().
 */
void fastclk_page_set_clocks(const struct fastclk_clocks *clocks)
{
	bool other, join, changed = false;
	unsigned long flags;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	other = !fastclk_is_fitted || fastclk_clocks.source != clocks->source;
	/* A joint needs a counter that agrees with the one that samples are taken with. */
	join = fastclk_has_fit && !other && !fastclk_page_same_clocks(&fastclk_clocks, clocks) &&
	       (fastclk_page_agrees() || smp_processor_id() == fastclk_fit_cpu);
	fastclk_clocks = *clocks;
	if (other || join) {
		fastclk_publish_begin(fastclk_page);
		if (join) {
			fastclk_page_join();
		} else {
			fastclk_is_fitted = true;
			fastclk_page_forget(FASTCLK_REASON_SAMPLING);
		}
		changed = fastclk_page_settle();
		fastclk_publish_end(fastclk_page);
	}
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_page_tell(changed);
}

/**
 * fastclk_page_get_task - is the counter to be fitted to the kernel's clocks?
 * @task: result, if it is
 *
 * Any context.
 */
bool fastclk_page_get_task(struct fastclk_task *task)
{
	unsigned long flags;
	bool wanted;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	wanted = fastclk_is_fitted && !fastclk_suspended && !fastclk_revoked;
	*task = (struct fastclk_task) {
		.era = fastclk_era,
		.granularity_ns = fastclk_clocks.granularity_ns,
		.khz = fastclk_counter_khz(),
		.variable = fastclk_page_variable(),
		.skew_cycles = fastclk_page_agrees() ? fastclk_page->verdict.max_skew_cycles :
						       U64_MAX,
	};
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);
	return wanted;
}

/**
 * fastclk_page_set_fit - the counter was fitted to the kernel's clocks
 * @era: of the task; nothing happens if there is another one by now
 * @fit: the fit, or NULL if it was lost: the era ends
 * @interval_ns: until when there will be another one, not 0
 *
 * Preemption off, or on a thread that is bound to the CPU whose counter was used.
 */
void fastclk_page_set_fit(u32 era, const struct fastclk_fit *fit, u64 interval_ns)
{
	unsigned long flags;
	bool changed = false;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	if (era == fastclk_era && fastclk_is_fitted) {
		fastclk_publish_begin(fastclk_page);
		if (fit) {
			fastclk_fit = *fit;
			fastclk_fit_cpu = smp_processor_id();
			fastclk_fit_interval_ns = interval_ns;
			fastclk_has_fit = true;
			fastclk_line_reason = FASTCLK_REASON_USABLE;
			fastclk_page_join();
		} else {
			fastclk_page_forget(FASTCLK_REASON_SAMPLING);
		}
		changed = fastclk_page_settle();
		fastclk_publish_end(fastclk_page);
	}
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_page_tell(changed);
}

/**
 * fastclk_page_restart - stamps from before and from now on must not be compared
 *
 * A clock has jumped. What was fitted is fitted anew. Any context.
 */
void fastclk_page_restart(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	fastclk_publish_begin(fastclk_page);
	if (fastclk_is_fitted)
		fastclk_page_forget(FASTCLK_REASON_SAMPLING);
	fastclk_publish_generation(fastclk_page);
	fastclk_page_settle();
	fastclk_publish_end(fastclk_page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_events_raise();
}

/**
 * fastclk_page_set_suspended - the machine is going to sleep, or has woken up
 * @suspended: which of the two
 *
 * The kernel's clocks stand still while the machine sleeps, and the counter may go on,
 * stop, or begin anew. Any context.
 */
void fastclk_page_set_suspended(bool suspended)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	fastclk_publish_begin(fastclk_page);
	fastclk_suspended = suspended;
	if (fastclk_is_fitted)
		fastclk_page_forget(FASTCLK_REASON_SAMPLING);
	fastclk_publish_generation(fastclk_page);
	fastclk_page_settle();
	fastclk_publish_end(fastclk_page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_events_raise();
}

/* Between begin and end. Return: is anything to be added to counters that was not before? */
static bool fastclk_page_set_offsets(u32 n, const unsigned int *cpus, const s64 *offset_cycles)
{
	bool changed = fastclk_has_offsets != !!offset_cycles;
	u32 cpu, i = 0;
	s64 offset;

	WRITE_ONCE(fastclk_has_offsets, !!offset_cycles);
	if (!offset_cycles)
		return changed;
	/* @cpus is in ascending order. */
	for (cpu = 0; cpu < fastclk_table_count; cpu++) {
		offset = FASTCLK_OFFSET_UNKNOWN;
		if (i < n && cpus[i] == cpu)
			offset = offset_cycles[i++];
		if (fastclk_table[cpu].offset_cycles == offset)
			continue;
		WRITE_ONCE(fastclk_table[cpu].offset_cycles, offset);
		changed = true;
	}
	return changed;
}

/* Between begin and end: other offsets, NULL: none. Return: did they change? */
static bool fastclk_page_correct(u32 n, const unsigned int *cpus, const s64 *offset_cycles)
{
	if (!fastclk_page_set_offsets(n, cpus, offset_cycles))
		return false;
	/* Counter values from before mean something else now. */
	fastclk_publish_generation(fastclk_page);
	if (fastclk_is_fitted)
		fastclk_page_forget(FASTCLK_REASON_SAMPLING);
	return true;
}

/**
 * fastclk_page_set_verdict - a measurement is over
 * @found: what it found; reason, mode, measurements and errors are not looked at
 * @cpus: found->cpus CPUs that were tested, in ascending order
 * @offset_cycles: their offsets, if the verdict is FASTCLK_VERDICT_OFFSET; otherwise NULL
 *
 * Any context.
 */
void fastclk_page_set_verdict(const struct fastclk_page_verdict *found, const unsigned int *cpus,
			      const s64 *offset_cycles)
{
	struct fastclk_page_verdict *v = &fastclk_page->verdict;
	struct fastclk_page_verdict now = *found;
	unsigned long flags;
	bool changed;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	fastclk_publish_begin(fastclk_page);
	changed = v->verdict != found->verdict;
	now.reason = v->reason;
	now.mode = v->mode;
	now.measurements = v->measurements + 1;
	now.error_cycles = v->error_cycles;
	now.error_ns = v->error_ns;
	now.error_growth_ppb = v->error_growth_ppb;
	*v = now;
	changed |= fastclk_page_correct(found->cpus, cpus, offset_cycles);
	/*
	 * Other skews, other bounds. Not on a CPU whose counter may differ from the one that
	 * samples are taken with, as that of a CPU which has just come online.
	 */
	if (fastclk_has_fit && (found->verdict == FASTCLK_VERDICT_SYNCED ||
				smp_processor_id() == fastclk_fit_cpu))
		fastclk_page_join();
	changed |= fastclk_page_settle();
	fastclk_publish_end(fastclk_page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_page_tell(changed);
}

/**
 * fastclk_page_forget_verdict - what was measured need not be true any more
 *
 * Any context.
 */
void fastclk_page_forget_verdict(void)
{
	struct fastclk_page_verdict *v = &fastclk_page->verdict;
	unsigned long flags;
	bool changed;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	fastclk_publish_begin(fastclk_page);
	changed = v->verdict != FASTCLK_VERDICT_UNKNOWN;
	v->verdict = FASTCLK_VERDICT_UNKNOWN;
	v->max_skew_cycles = U64_MAX;
	v->max_warp_cycles = 0;
	v->worst_cpu[0] = U32_MAX;
	v->worst_cpu[1] = U32_MAX;
	v->bad_cpus = 0;
	v->pairs = 0;
	changed |= fastclk_page_correct(0, NULL, NULL);
	changed |= fastclk_page_settle();
	fastclk_publish_end(fastclk_page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_page_tell(changed);
}

/**
 * fastclk_page_revoke - take all capabilities away, for good
 *
 * Any context.
 */
void fastclk_page_revoke(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&fastclk_page_lock, flags);
	fastclk_publish_begin(fastclk_page);
	fastclk_revoked = true;
	fastclk_page_settle();
	fastclk_publish_end(fastclk_page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	fastclk_events_raise();
}

/**
 * fastclk_page_read - a consistent copy
 * @copy: result
 *
 * As any reader does it, without the lock: everybody may ask for it as often as they like,
 * and the timekeeper must not wait for them. Process context.
 */
void fastclk_page_read(struct fastclk_page *copy)
{
	u32 seq;

	do {
		cpu_relax();
		/* Pairs with fastclk_publish_begin() and _end(). */
		seq = smp_load_acquire(&fastclk_page->hot.seq);
		memcpy(copy, fastclk_page, sizeof(*copy));
		/* Pairs with the same: the copy before the second look. */
		smp_rmb();
	} while ((seq & 1) || seq != READ_ONCE(fastclk_page->hot.seq));
	copy->hot.seq = seq;
}

/**
 * fastclk_page_read_all - a consistent copy, with the table
 * @copy: result
 * @size: how much of it, fastclk_page_size() at most
 *
 * As fastclk_page_read().
 */
void fastclk_page_read_all(void *copy, size_t size)
{
	u32 seq;

	do {
		cpu_relax();
		/* The barriers pair as in fastclk_page_read(). */
		seq = smp_load_acquire(&fastclk_page->hot.seq);
		memcpy(copy, fastclk_page, size);
		smp_rmb();
	} while ((seq & 1) || seq != READ_ONCE(fastclk_page->hot.seq));
}

/**
 * fastclk_page_size - how much there is to be read, in bytes
 */
size_t fastclk_page_size(void)
{
	if (!fastclk_table_count)
		return sizeof(*fastclk_page);
	return FASTCLK_TABLE_OFFSET + fastclk_table_count * sizeof(*fastclk_table);
}

/**
 * fastclk_page_page - the memory, for mapping it
 * @offset: where, in bytes, below fastclk_page_size()
 *
 * Whoever maps it takes a reference, so that it outlives the module.
 */
struct page *fastclk_page_page(size_t offset)
{
	return virt_to_page((char *)fastclk_page + offset);
}

/**
 * fastclk_page_init - make the page
 * @assume_invariant: the administrator says that the counter's rate is constant
 *
 * And the table behind it, where it can be used. Zeroed to the end of the last page, since
 * all of it can be mapped. May sleep. Return: 0 or -ENOMEM.
 */
int fastclk_page_init(bool assume_invariant)
{
	BUILD_BUG_ON(sizeof(struct fastclk_page_header) != 64);
	BUILD_BUG_ON(sizeof(struct fastclk_page_hot) != 64);
	BUILD_BUG_ON(sizeof(struct fastclk_page_clocks) != 64);
	BUILD_BUG_ON(sizeof(struct fastclk_page_verdict) != 128);

	BUILD_BUG_ON(sizeof(struct fastclk_page) > FASTCLK_TABLE_OFFSET);

	if (fastclk_counter_has_cpu())
		fastclk_table_count = min_t(u32, nr_cpu_ids, FASTCLK_TABLE_MAX);
	fastclk_page = alloc_pages_exact(fastclk_page_size(), GFP_KERNEL | __GFP_ZERO);
	if (!fastclk_page)
		return -ENOMEM;
	fastclk_table = (void *)fastclk_page + FASTCLK_TABLE_OFFSET;

	fastclk_page->header = (struct fastclk_page_header) {
		.magic = FASTCLK_MAGIC,
		.abi_major = FASTCLK_ABI_MAJOR,
		.abi_minor = FASTCLK_ABI_MINOR,
		.size = sizeof(struct fastclk_page),
		.counter = FASTCLK_COUNTER,
		.order = FASTCLK_ORDER,
	};
	if (fastclk_table_count) {
		fastclk_page->header.table_offset = FASTCLK_TABLE_OFFSET;
		fastclk_page->header.table_entry_size = sizeof(*fastclk_table);
		fastclk_page->header.table_count = fastclk_table_count;
	}
	fastclk_page->clocks.frequency_hz = (u64)fastclk_counter_khz() * 1000;
	fastclk_page->verdict.worst_cpu[0] = ~0U;
	fastclk_page->verdict.worst_cpu[1] = ~0U;
	fastclk_page->verdict.max_skew_cycles = ~0ULL;
	/* Readers may have kept stamps from when the module was loaded before. */
	fastclk_page->hot.generation = get_random_u32() | 1;
	if (fastclk_counter_invariant())
		fastclk_page->header.features |= FASTCLK_FEATURE_INVARIANT;
	else if (assume_invariant)
		fastclk_page->header.features |= FASTCLK_FEATURE_ASSUMED;
#ifdef FASTCLK_FAULT_INJECTION
	fastclk_page->header.features |= FASTCLK_FEATURE_FAULT_INJECTION;
	fastclk_page->hot.status |= FASTCLK_STATUS_TEST_BUILD;
#endif
	fastclk_line_reason = FASTCLK_REASON_CLOCKSOURCE;
	return 0;
}

/**
 * fastclk_page_exit - let go of the page
 *
 * Those who have it mapped keep it. May sleep.
 */
void fastclk_page_exit(void)
{
	fastclk_page_revoke();
	free_pages_exact(fastclk_page, fastclk_page_size());
}
