// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page: where it lives, and the only code that writes it. What may be said to
 * readers follows here from the two things that others report: the lines
 * (core/timekeeper.c) and the verdict (core/sync.c).
 *
 * The lock is innermost, raw, and taken with interrupts off: the lines come from within
 * the timekeeper's own write section. Under it nothing may read a kernel clock (that
 * would wait for the timekeeper for ever), sleep, wake, print or trace; events are only
 * raised by fastclk_events_raise(), after it is released.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include <fastclk/counter.h>
#include "internal.h"
#include "publish.h"

static DEFINE_RAW_SPINLOCK(fastclk_page_lock);
static struct page *fastclk_page_memory;
static struct fastclk_page *fastclk_page;

/* Protected by the lock: what follows from them is on the page. */
static enum fastclk_reason fastclk_line_reason;		/* USABLE, or why there is no line */
static bool fastclk_revoked;

/* Work out status, reason and mode; between begin and end. Return: did they change? */
static bool fastclk_page_settle(void)
{
	struct fastclk_page_verdict *v = &fastclk_page->verdict;
	u32 status = fastclk_page->hot.status & ~FASTCLK_STATUS_CAPABILITIES;
	u32 reason, mode = FASTCLK_MODE_UNUSABLE;
	bool changed;

	if (v->verdict == FASTCLK_VERDICT_SYNCED)
		reason = FASTCLK_REASON_USABLE;
	else if (v->verdict == FASTCLK_VERDICT_UNSYNCED)
		reason = FASTCLK_REASON_UNSYNCED;
	else
		reason = v->measurements ? FASTCLK_REASON_INCOMPLETE : FASTCLK_REASON_MEASURING;

	if (fastclk_line_reason != FASTCLK_REASON_USABLE) {
		reason = fastclk_line_reason;
	} else {
		mode = FASTCLK_MODE_LOCKSTEP;
		status |= FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_LOCKSTEP;
		/* The kernel's own time depends on it. */
		status |= FASTCLK_STATUS_CONSTANT_RATE;
	}
	if (v->verdict == FASTCLK_VERDICT_SYNCED)
		status |= FASTCLK_STATUS_COMPARABLE;

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

/**
 * fastclk_page_set_lines - a timekeeping update
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
	fastclk_line_reason = FASTCLK_REASON_USABLE;
	changed = fastclk_page_settle();
	fastclk_publish_end(page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	if (changed)
		fastclk_events_raise();
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
	fastclk_line_reason = reason;
	changed = fastclk_page_settle();
	fastclk_publish_end(fastclk_page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	if (changed)
		fastclk_events_raise();
}

/**
 * fastclk_page_set_verdict - a measurement is over
 * @found: what it found; reason, mode and measurements are not looked at
 *
 * Any context.
 */
void fastclk_page_set_verdict(const struct fastclk_page_verdict *found)
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
	*v = now;
	changed |= fastclk_page_settle();
	fastclk_publish_end(fastclk_page);
	raw_spin_unlock_irqrestore(&fastclk_page_lock, flags);

	if (changed)
		fastclk_events_raise();
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
 * fastclk_page_page - the memory, for mapping it
 *
 * Whoever maps it takes a reference, so that it outlives the module.
 */
struct page *fastclk_page_page(void)
{
	return fastclk_page_memory;
}

/**
 * fastclk_page_init - make the page
 *
 * Zeroed to its end, since all of it can be mapped. May sleep. Return: 0 or -ENOMEM.
 */
int fastclk_page_init(void)
{
	BUILD_BUG_ON(sizeof(struct fastclk_page_header) != 64);
	BUILD_BUG_ON(sizeof(struct fastclk_page_hot) != 64);
	BUILD_BUG_ON(sizeof(struct fastclk_page_clocks) != 64);
	BUILD_BUG_ON(sizeof(struct fastclk_page_verdict) != 128);

	fastclk_page_memory = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!fastclk_page_memory)
		return -ENOMEM;
	fastclk_page = page_address(fastclk_page_memory);

	fastclk_page->header = (struct fastclk_page_header) {
		.magic = FASTCLK_MAGIC,
		.abi_major = FASTCLK_ABI_MAJOR,
		.abi_minor = FASTCLK_ABI_MINOR,
		.size = sizeof(struct fastclk_page),
		.counter = FASTCLK_COUNTER,
		.order = FASTCLK_ORDER,
	};
	fastclk_page->clocks.frequency_hz = (u64)fastclk_counter_khz() * 1000;
	fastclk_page->verdict.worst_cpu[0] = ~0U;
	fastclk_page->verdict.worst_cpu[1] = ~0U;
	fastclk_page->verdict.max_skew_cycles = ~0ULL;
	/* Readers may have kept stamps from when the module was loaded before. */
	fastclk_page->hot.generation = get_random_u32() | 1;
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
	put_page(fastclk_page_memory);
}
