// SPDX-License-Identifier: GPL-2.0-only
/*
 * From the intervals that exchanges found to a verdict. Pure code, any context, nothing
 * sleeps; called by core/measure.c and by tests.
 */
#include "verdict.h"
#include <linux/fastclk.h>

/* In the conflicts[] of fastclk_judge(): this counter does not fit the others. */
#define FASTCLK_BAD	U32_MAX

static s64 *fastclk_bound(const struct fastclk_bounds *b, u32 i, u32 j)
{
	return &b->bound_cycles[(size_t)i * b->n + j];
}

/* Sums saturate: contradictory bounds grow exponentially while they are tightened. */
static s64 fastclk_bound_sum(s64 x, s64 y)
{
	s64 sum;

	if (x == FASTCLK_UNBOUNDED || y == FASTCLK_UNBOUNDED)
		return FASTCLK_UNBOUNDED;
	if (__builtin_add_overflow(x, y, &sum))
		return x < 0 ? S64_MIN : FASTCLK_UNBOUNDED;
	return sum;
}

/* Does the interval of i and j exclude that they agree? */
static bool fastclk_warps(const struct fastclk_bounds *b, u32 i, u32 j)
{
	return i != j && (*fastclk_bound(b, i, j) < 0 || *fastclk_bound(b, j, i) < 0);
}

/**
 * fastclk_bounds_clear - forget everything
 * @b: the bounds, with n and bound_cycles set
 */
void fastclk_bounds_clear(struct fastclk_bounds *b)
{
	u32 i, j;

	for (i = 0; i < b->n; i++)
		for (j = 0; j < b->n; j++)
			*fastclk_bound(b, i, j) = i == j ? 0 : FASTCLK_UNBOUNDED;
}

/**
 * fastclk_bounds_narrow - take in what one side of an exchange found
 * @b: the bounds
 * @i: index of the side whose bound it is
 * @j: index of its partner
 * @bound_cycles: counter i minus counter j is at most this
 */
void fastclk_bounds_narrow(struct fastclk_bounds *b, u32 i, u32 j, s64 bound_cycles)
{
	if (bound_cycles < *fastclk_bound(b, i, j))
		*fastclk_bound(b, i, j) = bound_cycles;
}

/**
 * fastclk_bounds_tighten_through - use what is known of k for all others
 * @b: the bounds
 * @k: an index
 *
 * One step of Floyd and Warshall's shortest paths: i - j = (i - k) + (k - j). Done for
 * every k once, in any order, all bounds are as tight as they can be, pairs that were not
 * measured are bounded through others, and a diagonal element is negative exactly if no
 * offsets satisfy all bounds (difference constraints, Cormen et al., "Introduction to
 * Algorithms", 24.4). A step takes n * n sums, so that the caller can have a rest between.
 */
void fastclk_bounds_tighten_through(struct fastclk_bounds *b, u32 k)
{
	u32 i, j;
	s64 ik, sum;

	for (i = 0; i < b->n; i++) {
		ik = *fastclk_bound(b, i, k);
		if (ik == FASTCLK_UNBOUNDED)
			continue;
		for (j = 0; j < b->n; j++) {
			sum = fastclk_bound_sum(ik, *fastclk_bound(b, k, j));
			if (sum < *fastclk_bound(b, i, j))
				*fastclk_bound(b, i, j) = sum;
		}
	}
}

/**
 * fastclk_bounds_contradict - is there no set of constant offsets at all?
 * @b: bounds, tightened
 *
 * Exact as long as the sums of bounds fit into 64 bits: always if all pairs were measured and
 * their bounds are of 2^62 at most. Return: true if the counters can not have kept their
 * distances.
 */
bool fastclk_bounds_contradict(const struct fastclk_bounds *b)
{
	u32 i;

	for (i = 0; i < b->n; i++)
		if (*fastclk_bound(b, i, i) < 0)
			return true;
	return false;
}

/**
 * fastclk_bounds_connected - is the skew of i and j bounded on both sides?
 * @b: the bounds
 * @i: an index
 * @j: another
 */
bool fastclk_bounds_connected(const struct fastclk_bounds *b, u32 i, u32 j)
{
	return *fastclk_bound(b, i, j) != FASTCLK_UNBOUNDED &&
	       *fastclk_bound(b, j, i) != FASTCLK_UNBOUNDED;
}

/*
 * Find those that do not fit: as long as any two warp against each other, take out
 * whoever warps against most. One counter that is off warps against all others, and they
 * only against it. All that are tied go at once, so that nobody is picked by its number:
 * of two CPUs that disagree, both are bad, and of two halves, all.
 *
 * conflicts[i] counts the remaining counters that i warps against.
 */
static u32 fastclk_find_bad(const struct fastclk_bounds *b, u32 *conflicts)
{
	u32 i, j, most, bad = 0;

	for (i = 0; i < b->n; i++) {
		conflicts[i] = 0;
		for (j = 0; j < b->n; j++)
			conflicts[i] += fastclk_warps(b, i, j);
	}

	for (;;) {
		most = 0;
		for (i = 0; i < b->n; i++)
			if (conflicts[i] != FASTCLK_BAD && conflicts[i] > most)
				most = conflicts[i];
		if (!most)
			return bad;

		for (i = 0; i < b->n; i++) {
			if (conflicts[i] == most) {
				conflicts[i] = FASTCLK_BAD;
				bad++;
			}
		}
		for (i = 0; i < b->n; i++) {
			if (conflicts[i] == FASTCLK_BAD)
				continue;
			conflicts[i] = 0;
			for (j = 0; j < b->n; j++)
				conflicts[i] += conflicts[j] != FASTCLK_BAD &&
						fastclk_warps(b, i, j);
		}
	}
}

/**
 * fastclk_judge - the verdict
 * @b: bounds, tightened
 * @conflicts: n elements of scratch; tells fastclk_is_bad() afterwards
 * @judgement: result
 *
 * A warp anywhere is final: it is a fact, whatever was not measured. Without one, and with
 * every pair bounded from both sides, directly or through others, the counters are
 * synced. Fewer than two counters always are.
 *
 * The largest skew is the largest bound plus one: counters are read as whole counts, and
 * those of 10 to 62 MHz are coarse.
 */
void fastclk_judge(const struct fastclk_bounds *b, u32 *conflicts,
		   struct fastclk_judgement *judgement)
{
	s64 bound, skew = -1, warp = 0;
	u32 i, j;

	judgement->worst[0] = U32_MAX;
	judgement->worst[1] = U32_MAX;

	for (i = 0; i < b->n; i++) {
		for (j = 0; j < b->n; j++) {
			if (i == j)
				continue;
			bound = *fastclk_bound(b, i, j);
			if (bound < -warp || (!warp && bound > skew)) {
				judgement->worst[0] = i < j ? i : j;
				judgement->worst[1] = i < j ? j : i;
			}
			if (bound < -warp)
				warp = bound == S64_MIN ? S64_MAX : -bound;
			if (bound > skew)
				skew = bound;
		}
	}

	judgement->bad = fastclk_find_bad(b, conflicts);
	judgement->max_warp_cycles = warp;
	judgement->max_skew_cycles = skew == FASTCLK_UNBOUNDED ? U64_MAX : (u64)(skew + 1);

	if (warp || fastclk_bounds_contradict(b))
		judgement->verdict = FASTCLK_VERDICT_UNSYNCED;
	else if (skew == FASTCLK_UNBOUNDED)
		judgement->verdict = FASTCLK_VERDICT_UNKNOWN;
	else
		judgement->verdict = FASTCLK_VERDICT_SYNCED;
}

/**
 * fastclk_is_bad - does this counter not fit the others?
 * @conflicts: from fastclk_judge()
 * @i: index
 */
bool fastclk_is_bad(const u32 *conflicts, u32 i)
{
	return conflicts[i] == FASTCLK_BAD;
}
