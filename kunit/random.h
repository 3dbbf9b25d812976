/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random numbers for the suites, the same ones in each run: a failure can be repeated.
 */
#ifndef _FASTCLK_KUNIT_RANDOM_H
#define _FASTCLK_KUNIT_RANDOM_H

#include "../core/types.h"

/* Marsaglia's xorshift64*. @state: any seed but 0. */
static inline u64 random_u64(u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* Return: 0 to @n - 1, all (nearly) equally likely. */
static inline u64 random_below(u64 *state, u64 n)
{
	return random_u64(state) % n;
}

/* Return: a number of 0 to 64 bits, all lengths equally likely. */
static inline u64 random_length(u64 *state)
{
	u32 bits = random_below(state, 65);

	return bits ? random_u64(state) >> (64 - bits) : 0;
}

#endif /* _FASTCLK_KUNIT_RANDOM_H */
