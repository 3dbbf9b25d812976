/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The conversion of cycles to nanoseconds, for readers and for the kernel's own
 * tests. How a line is made is in core/line.h.
 */
#ifndef _FASTCLK_LINE_H
#define _FASTCLK_LINE_H

#include <linux/types.h>

/*
 * struct fastclk_line - ns = (cycles * mult + {offset_hi, offset_lo}) >> shift
 * @mult: 1/2^shift ns per cycle
 * @offset_lo: 1/2^shift ns, bits 0 to 63
 * @offset_hi: bits 64 to 127, two's complement
 * @shift: 0 to 64
 *
 * The sum is taken modulo 2^128, so an offset can be "negative".
 */
struct fastclk_line {
	__u64 mult;
	__u64 offset_lo;
	__u64 offset_hi;
	__u32 shift;
};

#if defined(__SIZEOF_INT128__) && !defined(FASTCLK_NO_INT128)

__extension__ typedef unsigned __int128 fastclk_u128;

/**
 * fastclk_line_ns - convert a counter value
 * @line: the line
 * @cycles: the counter value, any
 *
 * Any context, no side effects. Return: nanoseconds, the low 64 bits of them.
 */
static inline __u64 fastclk_line_ns(const struct fastclk_line *line, __u64 cycles)
{
	fastclk_u128 product = (fastclk_u128)cycles * line->mult;
	__u64 hi = (__u64)(product >> 64) + line->offset_hi;
	__u64 lo = (__u64)product + line->offset_lo;

	/* A sum in 128 bits would go through the stack with gcc 12. */
	hi += lo < line->offset_lo;
	/*
	 * The usual case apart: the high word as it is. A general 128-bit shift costs
	 * an ordered read 5 % (21.3 against 20.2 ns).
	 */
	if (__builtin_expect(line->shift == 64, 1))
		return hi;
	/* Else clang makes one general shift of both cases. */
	__asm__("" : "+r" (lo));
	return (__u64)(((fastclk_u128)hi << 64 | lo) >> line->shift);
}

#else /* a 32-bit machine: the same in pieces */

static inline __u64 fastclk_line_ns(const struct fastclk_line *line, __u64 cycles)
{
	const __u64 low = 0xffffffffU;
	__u64 ll = (cycles & low) * (line->mult & low);
	__u64 lh = (cycles & low) * (line->mult >> 32);
	__u64 hl = (cycles >> 32) * (line->mult & low);
	__u64 hh = (cycles >> 32) * (line->mult >> 32);
	__u64 middle = (ll >> 32) + (lh & low) + (hl & low);
	__u64 sum_lo = (middle << 32) | (ll & low);
	__u64 sum_hi = hh + (lh >> 32) + (hl >> 32) + (middle >> 32) + line->offset_hi;

	sum_lo += line->offset_lo;
	sum_hi += sum_lo < line->offset_lo;

	if (line->shift == 64)
		return sum_hi;
	if (line->shift == 0)
		return sum_lo;
	return sum_hi << (64 - line->shift) | sum_lo >> line->shift;
}

#endif

#endif /* _FASTCLK_LINE_H */
