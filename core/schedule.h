/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who meets whom in which round: the round-robin tournament, so that all pairs of n
 * CPUs are measured in a time that grows with n and not with its square. Pure
 * arithmetic; used by core/measure.c.
 */
#ifndef _FASTCLK_SCHEDULE_H
#define _FASTCLK_SCHEDULE_H

#include "types.h"

/* Any context. Return: how many rounds n players need: n - 1, or n where it is odd. */
static inline u32 fastclk_schedule_rounds(u32 n)
{
	return n < 2 ? 0 : n - 1 + (n & 1);
}

/* Any context. Return: how many pairs meet in a round. */
static inline u32 fastclk_schedule_slots(u32 n)
{
	return n / 2;
}

/**
 * fastclk_schedule_pair - one pair of one round
 * @n: players, 2 or more
 * @round: 0 to fastclk_schedule_rounds() - 1
 * @slot: 0 to fastclk_schedule_slots() - 1
 * @a: result, a player from 0 to @n - 1
 * @b: result, its partner, larger than @a
 *
 * The circle method, as chess tournaments use it: all but one sit in a circle that turns
 * by one seat a round, and those at the same distance from the top meet. The top meets
 * the one who does not turn; with an odd number nobody does that, and the top rests.
 *
 * Any context.
 */
static inline void fastclk_schedule_pair(u32 n, u32 round, u32 slot, u32 *a, u32 *b)
{
	u32 seats = fastclk_schedule_rounds(n);
	bool odd = n & 1;
	u32 distance = odd ? slot + 1 : slot;
	u32 x = (round + distance) % seats;
	u32 y = distance ? (round + seats - distance) % seats : n - 1;

	*a = x < y ? x : y;
	*b = x < y ? y : x;
}

#endif /* _FASTCLK_SCHEDULE_H */
