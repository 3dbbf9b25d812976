/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Making a line out of what the kernel's timekeeper has. Pure arithmetic; used by
 * core/timekeeper.c on each update, and by tests.
 */
#ifndef _FASTCLK_CORE_LINE_H
#define _FASTCLK_CORE_LINE_H

#include "types.h"
#include <fastclk/line.h>

#define FASTCLK_LINE_MAX_SHIFT	64

/*
 * struct fastclk_clock_reading - one of the timekeeper's clocks (struct tk_read_base)
 * @cycle_last: counter value of the last update
 * @base_ns: the clock then, whole nanoseconds; negative in the first second after boot,
 *	as the seconds are counted from there and the fraction is in @fraction
 * @fraction: what is added to it, 1/2^shift ns
 * @mult: 1/2^shift ns per cycle, not 0
 * @shift: 0 to 32
 */
struct fastclk_clock_reading {
	u64 cycle_last;
	s64 base_ns;
	u64 fraction;
	u32 mult;
	u32 shift;
};

/**
 * fastclk_line_shift - the shift at which lines of a clocksource are published
 * @mult_max: the largest mult that is to be expected, with all adjustments; not 0
 * @shift: the timekeeper's shift
 *
 * The largest shift for which the scaled mult still fits 64 bits. With a counter above
 * 1 GHz that is 64, where a reader takes the high word and does not shift at all.
 *
 * Any context. Return: @shift to 64.
 */
static inline u32 fastclk_line_shift(u64 mult_max, u32 shift)
{
	u32 room = __builtin_clzll(mult_max);

	return room < FASTCLK_LINE_MAX_SHIFT - shift ? shift + room : FASTCLK_LINE_MAX_SHIFT;
}

/**
 * fastclk_line_make - the line that is bit-identical to the timekeeper's conversion
 * @line: result
 * @clock: the timekeeper's values
 * @shift: from fastclk_line_shift() of a mult that is not smaller than @clock->mult
 *
 * The kernel computes base + (((cycles - cycle_last) * mult + fraction) >> shift). As
 * base << shift has no fraction bits, it may be added before the shift, and so may the
 * product of cycle_last; scaling mult and offset by the same power of two changes
 * nothing either. Equal for all cycles >= cycle_last whose nanoseconds fit 64 bits.
 *
 * Any context.
 */
static inline void fastclk_line_make(struct fastclk_line *line,
				     const struct fastclk_clock_reading *clock, u32 shift)
{
	u32 up = shift - clock->shift;
	fastclk_u128 offset;

	/* Sign-extended, since the sum wraps. */
	offset = ((fastclk_u128)clock->base_ns << clock->shift) + clock->fraction -
		 (fastclk_u128)clock->cycle_last * clock->mult;
	offset <<= up;

	line->mult = (u64)clock->mult << up;
	line->offset_lo = (u64)offset;
	line->offset_hi = (u64)(offset >> 64);
	line->shift = shift;
}

#endif /* _FASTCLK_CORE_LINE_H */
