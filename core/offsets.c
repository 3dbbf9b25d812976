// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters that differ by constants: from the bounds of all pairs to one offset for each
 * counter, to be added to what is read from it. Pure code, any context, nothing sleeps;
 * called by core/measure.c, core/sync.c and tests.
 */
#include "offsets.h"

static s64 fastclk_bound(const struct fastclk_bounds *b, u32 i, u32 j)
{
	return b->bound_cycles[(size_t)i * b->n + j];
}

/* Are offsets of j and i that far apart no more than the bound of i against j? */
static bool fastclk_offset_fits(s64 bound, s64 offset_i, s64 offset_j)
{
	s64 difference;

	/* What does not fit into 64 bits is beyond the bound of i against j or of j against i. */
	return !__builtin_sub_overflow(offset_j, offset_i, &difference) && difference <= bound;
}

/**
 * fastclk_offsets_fit - do all counters agree with these offsets, as far as can be seen?
 * @b: bounds, tightened or not
 * @offset_cycles: n offsets
 *
 * Any offsets, any bounds.
 */
bool fastclk_offsets_fit(const struct fastclk_bounds *b, const s64 *offset_cycles)
{
	u32 i, j;

	for (i = 0; i < b->n; i++)
		for (j = 0; j < b->n; j++)
			if (!fastclk_offset_fits(fastclk_bound(b, i, j), offset_cycles[i],
						 offset_cycles[j]))
				return false;
	return true;
}

/**
 * fastclk_offsets_find - offsets with which all counters agree
 * @b: bounds, tightened
 * @reference: the counter that is to have offset 0
 * @offset_cycles: result, n of them
 *
 * The bound of i against the reference is the length d(i, r) of a shortest path, so
 * d(i, r) - d(j, r) <= d(i, j) for all i and j: as an estimate of how much each counter is
 * ahead, these satisfy all bounds. So do the -d(r, i), from the other side, and the middle of
 * the two, which is where counter i most likely is. The middle may be rounded down: of two
 * integers that differ by 2 d at most, the halves rounded down differ by d at most.
 *
 * Return: true if every counter is bounded on both sides, within FASTCLK_OFFSETS_MAX, and
 * the bounds do not contradict each other.
 */
bool fastclk_offsets_find(const struct fastclk_bounds *b, u32 reference, s64 *offset_cycles)
{
	s64 most, least;
	u32 i;

	for (i = 0; i < b->n; i++) {
		most = fastclk_bound(b, i, reference);
		least = fastclk_bound(b, reference, i);
		if (most > FASTCLK_OFFSETS_MAX || most < -FASTCLK_OFFSETS_MAX ||
		    least > FASTCLK_OFFSETS_MAX || least < -FASTCLK_OFFSETS_MAX)
			return false;
		least = -least;
		/* Half of the sum, rounded down, without the sum. */
		offset_cycles[i] = -((most & least) + ((most ^ least) >> 1));
	}
	/* Where sums did not fit, or the bounds contradict each other, this finds out. */
	return fastclk_offsets_fit(b, offset_cycles);
}

/**
 * fastclk_offsets_skew - how far apart counters can still be
 * @b: bounds, tightened
 * @offset_cycles: offsets that fit, of FASTCLK_OFFSETS_MAX at most
 *
 * Return: after the offsets were added no two counters differ by more; one more than that,
 * since counters are read as whole counts. U64_MAX if two are not bounded.
 */
u64 fastclk_offsets_skew(const struct fastclk_bounds *b, const s64 *offset_cycles)
{
	u64 most = 0, skew;
	u32 i, j;

	for (i = 0; i < b->n; i++) {
		for (j = 0; j < b->n; j++) {
			if (i == j)
				continue;
			if (fastclk_bound(b, i, j) == FASTCLK_UNBOUNDED)
				return U64_MAX;
			/* Not negative, since they fit, so it does not matter if it wraps. */
			skew = (u64)fastclk_bound(b, i, j) + (u64)offset_cycles[i] -
			       (u64)offset_cycles[j] + 1;
			if (skew > most)
				most = skew;
		}
	}
	return most;
}
