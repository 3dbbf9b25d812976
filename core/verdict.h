/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From the intervals that exchanges found to a verdict: the matrix of bounds, its
 * tightening, and the judgement. Pure code; used by core/measure.c.
 */
#ifndef _FASTCLK_VERDICT_H
#define _FASTCLK_VERDICT_H

#include "types.h"

/* Nothing is known about a pair. */
#define FASTCLK_UNBOUNDED	S64_MAX

/*
 * struct fastclk_bounds - what is known of the skew between any two of n counters
 * @n: how many counters
 * @bound_cycles: n * n of them, row by row: counter i minus counter j is at most
 *	bound_cycles[i * n + j]; 0 on the diagonal
 *
 * Together, (i, j) and (j, i) are an interval for the skew of i against j.
 */
struct fastclk_bounds {
	u32 n;
	s64 *bound_cycles;
};

/*
 * struct fastclk_judgement - what follows from the bounds
 * @verdict: enum fastclk_verdict
 * @max_skew_cycles: no two counters differ by more; U64_MAX if that is not known
 * @max_warp_cycles: two of them differ by at least this; 0 if they may agree
 * @worst: indices of the pair with the largest warp or, without one, skew; U32_MAX: none
 * @bad: how many counters do not fit the others
 */
struct fastclk_judgement {
	u32 verdict;
	u64 max_skew_cycles;
	u64 max_warp_cycles;
	u32 worst[2];
	u32 bad;
};

void fastclk_bounds_clear(struct fastclk_bounds *b);
void fastclk_bounds_narrow(struct fastclk_bounds *b, u32 i, u32 j, s64 bound_cycles);
void fastclk_bounds_tighten_through(struct fastclk_bounds *b, u32 k);
bool fastclk_bounds_contradict(const struct fastclk_bounds *b);
bool fastclk_bounds_connected(const struct fastclk_bounds *b, u32 i, u32 j);
void fastclk_judge(const struct fastclk_bounds *b, u32 *conflicts,
		   struct fastclk_judgement *judgement);
bool fastclk_is_bad(const u32 *conflicts, u32 i);

#endif /* _FASTCLK_VERDICT_H */
