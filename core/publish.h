/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writing the page: its seqcount. Pure; used by core/page.c, and by test programs that
 * play the writer.
 */
#ifndef _FASTCLK_PUBLISH_H
#define _FASTCLK_PUBLISH_H

#include "types.h"
#include "line.h"
#include <linux/fastclk.h>

/* What a reader may be told: all that depends on agreement, rate and mode. */
#define FASTCLK_STATUS_CAPABILITIES						\
	(FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_COMPARABLE |		\
	 FASTCLK_STATUS_OFFSETS | FASTCLK_STATUS_CONSTANT_RATE | FASTCLK_STATUS_LOCKSTEP)

/**
 * fastclk_publish_begin - the page is going to be written
 * @page: the page
 *
 * One writer at a time, which must not be interrupted until fastclk_publish_end().
 */
static inline void fastclk_publish_begin(struct fastclk_page *page)
{
	WRITE_ONCE(page->hot.seq, page->hot.seq + 1);
	/* seq is odd before anything changes. Pairs with the reader's load-acquire of seq. */
	smp_wmb();
}

/**
 * fastclk_publish_end - the page is whole again
 * @page: the page
 */
static inline void fastclk_publish_end(struct fastclk_page *page)
{
	/* All is written before seq is even. Pairs with the barrier before its second look. */
	smp_wmb();
	WRITE_ONCE(page->hot.seq, page->hot.seq + 1);
}

/* Longest that the counter may stand still in fastclk_publish_joint(). */
#define FASTCLK_JOINT_TRIES	1000

/**
 * fastclk_publish_joint - from which counter value on may there be other lines?
 * @page: the page, between begin and end
 * @counter: reads the counter, ordered
 * @khz: its rate
 *
 * No reader gets away with the present lines and a later value, wherever it runs. Two things
 * are needed for that, neither of which a full barrier does. Reading the counter is no memory
 * access: an AMD EPYC was seen to be through with "lock or", lfence and rdtsc before seq was
 * odd for others (in 1 of 4 cases, by up to 557 cycles), but a counter read does wait for what
 * an exchange returns, and so for the cache line that seq is in. And a reader's second look at
 * seq is not behind its counter read (rdtsc is no load): it came up to 258 cycles before. The
 * joint lies half a microsecond after seq is odd, since waiting here, sometimes, costs less than
 * a reader's wait for the counter before each second look (1 ns).
 *
 * Return: the counter value.
 */
static inline u64 fastclk_publish_joint(struct fastclk_page *page, u64 (*counter)(void), u32 khz)
{
	u64 odd, joint;
	int tries = 0;

	(void)xchg(&page->hot.seq, page->hot.seq);
	odd = counter();
	do
		joint = counter();
	while (joint - odd < khz / 2000 && ++tries < FASTCLK_JOINT_TRIES);
	return joint;
}

/**
 * fastclk_publish_generation - stamps from before and after must not be compared
 * @page: the page, between begin and end
 */
static inline void fastclk_publish_generation(struct fastclk_page *page)
{
	if (!++page->hot.generation)	/* 0 means unknown */
		page->hot.generation = 1;
}

/**
 * fastclk_publish_status - change what readers may do
 * @page: the page, between begin and end
 * @status: new FASTCLK_STATUS_*
 *
 * Stamps from before and after a change of capabilities must not be compared, hence a
 * new generation. Return: whether anything changed.
 */
static inline bool fastclk_publish_status(struct fastclk_page *page, u32 status)
{
	if (page->hot.status == status)
		return false;
	page->hot.status = status;
	fastclk_publish_generation(page);
	return true;
}

/**
 * fastclk_publish_line - CLOCK_MONOTONIC's line
 * @page: the page, between begin and end
 * @line: the line
 */
static inline void fastclk_publish_line(struct fastclk_page *page, const struct fastclk_line *line)
{
	page->hot.mult = line->mult;
	page->hot.offset_lo = line->offset_lo;
	page->hot.offset_hi = line->offset_hi;
	page->hot.shift = line->shift;
}

/**
 * fastclk_publish_raw_line - CLOCK_MONOTONIC_RAW's line
 * @page: the page, between begin and end
 * @line: the line
 */
static inline void fastclk_publish_raw_line(struct fastclk_page *page,
					    const struct fastclk_line *line)
{
	page->clocks.raw_mult = line->mult;
	page->clocks.raw_offset_lo = line->offset_lo;
	page->clocks.raw_offset_hi = line->offset_hi;
	page->clocks.raw_shift = line->shift;
}

#endif /* _FASTCLK_PUBLISH_H */
