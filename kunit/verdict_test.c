// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protects of core/verdict.c:
 *
 * - tightening gives the shortest paths, never excludes the truth, finds every
 *   contradiction and invents none, and overflows nowhere;
 * - when there is no contradiction, there are offsets that satisfy all bounds;
 * - the judgement: the verdict, who is bad, the largest skew and warp with their pair;
 *   counters that are further apart than can be hidden are never called synced;
 * - re-checks: in a day without drift none is seen, a drift is seen in the next minute.
 */
#include <kunit/test.h>

#include "../core/verdict.h"
#include <linux/fastclk.h>
#include "random.h"

#define CPUS_MAX	256

/* A hand-over takes at least 70 cycles between neighbours, and late ones any time. */
#define LATENCY_MIN	70
#define LATENCY_MAX	700
#define WIDTH_MAX	(2 * LATENCY_MAX)

/*
 * struct machine - simulated counters, and what is found out about them
 * @b: the bounds; tightened after judge()
 * @measured: copy of the bounds before they were tightened
 * @offset: what each counter really is ahead, in cycles
 * @conflicts, @judgement: from fastclk_judge()
 */
struct machine {
	struct kunit *test;
	u64 seed;
	struct fastclk_bounds b;
	s64 *measured;
	s64 *offset;
	u32 *conflicts;
	struct fastclk_judgement judgement;
};

static struct machine *new_machine(struct kunit *test, u32 cpus_max, u64 seed)
{
	struct machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	size_t pairs = (size_t)cpus_max * cpus_max;

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->test = test;
	m->seed = seed;
	m->b.bound_cycles = kunit_kzalloc(test, pairs * sizeof(s64), GFP_KERNEL);
	m->measured = kunit_kzalloc(test, pairs * sizeof(s64), GFP_KERNEL);
	m->offset = kunit_kzalloc(test, cpus_max * sizeof(s64), GFP_KERNEL);
	m->conflicts = kunit_kzalloc(test, cpus_max * sizeof(u32), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m->b.bound_cycles);
	KUNIT_ASSERT_NOT_NULL(test, m->measured);
	KUNIT_ASSERT_NOT_NULL(test, m->offset);
	KUNIT_ASSERT_NOT_NULL(test, m->conflicts);
	return m;
}

static s64 *bound(struct machine *m, u32 i, u32 j)
{
	return &m->b.bound_cycles[(size_t)i * m->b.n + j];
}

static s64 *measured(struct machine *m, u32 i, u32 j)
{
	return &m->measured[(size_t)i * m->b.n + j];
}

/* Start again, with @n counters that agree and have not been measured. */
static void reset(struct machine *m, u32 n)
{
	u32 i;

	m->b.n = n;
	for (i = 0; i < n; i++)
		m->offset[i] = 0;
	fastclk_bounds_clear(&m->b);
}

/* What a real exchange of i and j finds: the truth plus how long the hand-over took. */
static void measure(struct machine *m, u32 i, u32 j)
{
	s64 truth = m->offset[i] - m->offset[j];
	u64 spread = LATENCY_MAX - LATENCY_MIN + 1;

	fastclk_bounds_narrow(&m->b, i, j,
			      truth + LATENCY_MIN + (s64)random_below(&m->seed, spread));
	fastclk_bounds_narrow(&m->b, j, i,
			      -truth + LATENCY_MIN + (s64)random_below(&m->seed, spread));
}

static void measure_all(struct machine *m)
{
	u32 i, j;

	for (i = 0; i < m->b.n; i++)
		for (j = i + 1; j < m->b.n; j++)
			measure(m, i, j);
}

/* Some of the pairs, but enough to reach all. */
static void measure_some(struct machine *m)
{
	u64 of = 1 + random_below(&m->seed, 8);
	u32 i, j;

	for (i = 1; i < m->b.n; i++) {
		measure(m, i, random_below(&m->seed, i));
		for (j = 0; j < i; j++)
			if (!random_below(&m->seed, of))
				measure(m, i, j);
	}
}

static void remember(struct machine *m)
{
	size_t i;

	for (i = 0; i < (size_t)m->b.n * m->b.n; i++)
		m->measured[i] = m->b.bound_cycles[i];
}

static void tighten(struct machine *m)
{
	u32 k;

	remember(m);
	for (k = 0; k < m->b.n; k++)
		fastclk_bounds_tighten_through(&m->b, k);
}

static u32 judge(struct machine *m)
{
	tighten(m);
	fastclk_judge(&m->b, m->conflicts, &m->judgement);
	return m->judgement.verdict;
}

static bool is_bad(struct machine *m, u32 i)
{
	return fastclk_is_bad(m->conflicts, i);
}

static u64 distance(s64 x, s64 y)
{
	return x < y ? (u64)y - x : (u64)x - y;
}

/* --- the judgement */

static void nobody_and_one_alone_are_synced(struct kunit *test)
{
	struct machine *m = new_machine(test, 1, 1);
	u32 n;

	for (n = 0; n <= 1; n++) {
		reset(m, n);
		KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_SYNCED);
		KUNIT_EXPECT_EQ(test, m->judgement.max_skew_cycles, 0ULL);
		KUNIT_EXPECT_EQ(test, m->judgement.max_warp_cycles, 0ULL);
		KUNIT_EXPECT_EQ(test, m->judgement.worst[0], U32_MAX);
		KUNIT_EXPECT_EQ(test, m->judgement.worst[1], U32_MAX);
		KUNIT_EXPECT_EQ(test, m->judgement.bad, 0U);
	}
}

static void two_that_disagree_are_both_bad(struct kunit *test)
{
	struct machine *m = new_machine(test, 2, 1);
	u32 ahead;

	for (ahead = 0; ahead < 2; ahead++) {
		reset(m, 2);
		m->offset[ahead] = 5000;
		measure_all(m);
		KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_UNSYNCED);
		KUNIT_EXPECT_EQ(test, m->judgement.bad, 2U);
		KUNIT_EXPECT_TRUE(test, is_bad(m, 0));
		KUNIT_EXPECT_TRUE(test, is_bad(m, 1));
		KUNIT_EXPECT_EQ(test, m->judgement.worst[0], 0U);
		KUNIT_EXPECT_EQ(test, m->judgement.worst[1], 1U);
		KUNIT_EXPECT_GE(test, m->judgement.max_skew_cycles, 5000ULL);
		KUNIT_EXPECT_LE(test, m->judgement.max_skew_cycles, 5001ULL + LATENCY_MAX);
		KUNIT_EXPECT_LE(test, m->judgement.max_warp_cycles, 5000ULL);
		KUNIT_EXPECT_GE(test, m->judgement.max_warp_cycles, 5000ULL - LATENCY_MAX);
	}
}

/* [0, 0] does not exclude that they agree, and is what coarse counters give. */
static void two_that_agree_to_the_count_are_synced(struct kunit *test)
{
	struct machine *m = new_machine(test, 2, 1);

	reset(m, 2);
	fastclk_bounds_narrow(&m->b, 0, 1, 0);
	fastclk_bounds_narrow(&m->b, 1, 0, 0);
	KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_SYNCED);
	KUNIT_EXPECT_EQ(test, m->judgement.max_skew_cycles, 1ULL);
	KUNIT_EXPECT_EQ(test, m->judgement.max_warp_cycles, 0ULL);
	KUNIT_EXPECT_EQ(test, m->judgement.bad, 0U);

	/* One count is a warp. */
	reset(m, 2);
	fastclk_bounds_narrow(&m->b, 0, 1, 1);
	fastclk_bounds_narrow(&m->b, 1, 0, -1);
	KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_UNSYNCED);
	KUNIT_EXPECT_EQ(test, m->judgement.max_warp_cycles, 1ULL);
}

static void the_one_that_does_not_fit_is_named(struct kunit *test)
{
	struct machine *m = new_machine(test, 64, 2);
	u32 n, odd, i;

	for (n = 3; n <= 64; n += 1 + n / 8) {
		for (odd = 0; odd < n; odd++) {
			reset(m, n);
			m->offset[odd] = odd & 1 ? 5000 : -5000;
			measure_some(m);
			KUNIT_ASSERT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_UNSYNCED);
			KUNIT_ASSERT_EQ(test, m->judgement.bad, 1U);
			for (i = 0; i < n; i++)
				KUNIT_ASSERT_EQ_MSG(test, is_bad(m, i), i == odd,
						    "%u of %u, odd is %u", i, n, odd);
			KUNIT_ASSERT_TRUE(test, m->judgement.worst[0] == odd ||
					  m->judgement.worst[1] == odd);
			KUNIT_ASSERT_LT(test, m->judgement.worst[0], m->judgement.worst[1]);
		}
	}
}

/* Sockets whose counters started at different times: @n0 CPUs in one, the others not. */
static void two_sockets(struct machine *m, u32 n, u32 n0)
{
	u32 i;

	reset(m, n);
	for (i = n0; i < n; i++)
		m->offset[i] = 1000000;
	measure_all(m);
	KUNIT_ASSERT_EQ(m->test, judge(m), (u32)FASTCLK_VERDICT_UNSYNCED);
}

static void of_two_halves_all_are_bad(struct kunit *test)
{
	struct machine *m = new_machine(test, 64, 3);
	u32 n, i;

	for (n = 2; n <= 64; n *= 2) {
		two_sockets(m, n, n / 2);
		KUNIT_EXPECT_EQ(test, m->judgement.bad, n);
		for (i = 0; i < n; i++)
			KUNIT_EXPECT_TRUE(test, is_bad(m, i));
	}
}

static void the_smaller_socket_is_bad(struct kunit *test)
{
	struct machine *m = new_machine(test, 17, 4);
	u32 n0, i;

	for (n0 = 1; n0 < 17; n0++) {
		two_sockets(m, 17, n0);
		for (i = 0; i < 17; i++)
			KUNIT_EXPECT_EQ_MSG(test, is_bad(m, i), (i < n0) == (n0 < 9),
					    "%u, sockets of %u and %u", i, n0, 17 - n0);
	}
}

static void whoever_was_not_reached_makes_it_unknown(struct kunit *test)
{
	struct machine *m = new_machine(test, 16, 5);
	u32 lonely, i, j;

	for (lonely = 0; lonely < 16; lonely++) {
		reset(m, 16);
		for (i = 0; i < 16; i++)
			for (j = i + 1; j < 16; j++)
				if (i != lonely && j != lonely)
					measure(m, i, j);
		KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_UNKNOWN);
		KUNIT_EXPECT_EQ(test, m->judgement.max_skew_cycles, U64_MAX);
		KUNIT_EXPECT_EQ(test, m->judgement.max_warp_cycles, 0ULL);
		KUNIT_EXPECT_EQ(test, m->judgement.bad, 0U);
		for (i = 0; i < 16; i++)
			KUNIT_EXPECT_EQ(test, fastclk_bounds_connected(&m->b, i, (i + 1) % 16),
					i != lonely && (i + 1) % 16 != lonely);

		/* Half an exchange is none. */
		fastclk_bounds_narrow(&m->b, lonely, (lonely + 1) % 16, 100);
		KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_UNKNOWN);
		KUNIT_EXPECT_FALSE(test, fastclk_bounds_connected(&m->b, lonely,
								  (lonely + 1) % 16));
		fastclk_bounds_narrow(&m->b, (lonely + 2) % 16, lonely, 100);
		KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_SYNCED);
	}
}

static void nothing_measured_is_unknown(struct kunit *test)
{
	struct machine *m = new_machine(test, CPUS_MAX, 6);
	u32 n;

	for (n = 2; n <= CPUS_MAX; n *= 2) {
		reset(m, n);
		KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_UNKNOWN);
		KUNIT_EXPECT_EQ(test, m->judgement.max_skew_cycles, U64_MAX);
	}
}

/* A warp is a fact, whatever was not measured. */
static void a_warp_counts_even_if_some_were_not_reached(struct kunit *test)
{
	struct machine *m = new_machine(test, 16, 7);
	u32 i;

	reset(m, 16);
	m->offset[3] = 5000;
	measure(m, 3, 4);
	KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_UNSYNCED);
	KUNIT_EXPECT_EQ(test, m->judgement.max_skew_cycles, U64_MAX);
	KUNIT_EXPECT_GE(test, m->judgement.max_warp_cycles, 5000ULL - LATENCY_MAX);
	KUNIT_EXPECT_EQ(test, m->judgement.worst[0], 3U);
	KUNIT_EXPECT_EQ(test, m->judgement.worst[1], 4U);
	for (i = 0; i < 16; i++)
		KUNIT_EXPECT_EQ(test, is_bad(m, i), i == 3 || i == 4);

	/* One side is enough to see one. */
	reset(m, 16);
	fastclk_bounds_narrow(&m->b, 9, 2, -1);
	KUNIT_EXPECT_EQ(test, judge(m), (u32)FASTCLK_VERDICT_UNSYNCED);
	KUNIT_EXPECT_EQ(test, m->judgement.max_warp_cycles, 1ULL);
	KUNIT_EXPECT_EQ(test, m->judgement.worst[0], 2U);
	KUNIT_EXPECT_EQ(test, m->judgement.worst[1], 9U);
}

/* The numbers, worked out once more without any cleverness. */
static void numbers_are_those_of_the_bounds(struct kunit *test)
{
	struct machine *m = new_machine(test, 24, 8);
	s64 largest, smallest;
	u32 i, j, round, bad, expected;
	bool skew_found, warp_found;

	for (round = 0; round < 3000; round++) {
		reset(m, 2 + random_below(&m->seed, 23));
		for (i = 0; i < m->b.n; i++)
			if (!random_below(&m->seed, 16))
				m->offset[i] = random_below(&m->seed, 3000);
		if (random_below(&m->seed, 4))
			measure_some(m);
		else
			measure(m, 0, 1);
		judge(m);

		largest = S64_MIN;
		smallest = S64_MAX;
		bad = 0;
		for (i = 0; i < m->b.n; i++) {
			bad += is_bad(m, i);
			for (j = 0; j < m->b.n; j++) {
				if (i == j)
					continue;
				largest = *bound(m, i, j) > largest ? *bound(m, i, j) : largest;
				smallest = *bound(m, i, j) < smallest ? *bound(m, i, j) : smallest;
			}
		}
		i = m->judgement.worst[0];
		j = m->judgement.worst[1];
		KUNIT_ASSERT_LT(test, i, j);
		KUNIT_ASSERT_LT(test, j, m->b.n);
		skew_found = *bound(m, i, j) == largest || *bound(m, j, i) == largest;
		warp_found = *bound(m, i, j) == smallest || *bound(m, j, i) == smallest;

		if (smallest < 0)
			expected = FASTCLK_VERDICT_UNSYNCED;
		else if (largest == FASTCLK_UNBOUNDED)
			expected = FASTCLK_VERDICT_UNKNOWN;
		else
			expected = FASTCLK_VERDICT_SYNCED;
		KUNIT_ASSERT_EQ(test, m->judgement.verdict, expected);
		KUNIT_ASSERT_TRUE(test, smallest < 0 ? warp_found : skew_found);
		KUNIT_ASSERT_EQ(test, m->judgement.bad, bad);
		KUNIT_ASSERT_EQ(test, bad != 0, smallest < 0);
		KUNIT_ASSERT_EQ(test, m->judgement.max_warp_cycles,
				smallest < 0 ? (u64)-smallest : 0);
		KUNIT_ASSERT_EQ(test, m->judgement.max_skew_cycles,
				largest == FASTCLK_UNBOUNDED ? U64_MAX : (u64)largest + 1);
	}
}

/* However many pairs were measured: what is further apart than they can hide is seen. */
static void a_counter_that_is_off_is_never_synced(struct kunit *test)
{
	struct machine *m = new_machine(test, 32, 9);
	u32 round, i, j, odd;
	s64 by;

	for (round = 0; round < 4000; round++) {
		reset(m, 2 + random_below(&m->seed, 31));
		odd = random_below(&m->seed, m->b.n);
		by = WIDTH_MAX + 1 + (random_length(&m->seed) >> 3);
		m->offset[odd] = random_below(&m->seed, 2) ? by : -by;
		measure_some(m);
		KUNIT_ASSERT_EQ_MSG(test, judge(m), (u32)FASTCLK_VERDICT_UNSYNCED,
				    "%u of %u is off by %lld", odd, m->b.n, m->offset[odd]);

		/* Any offsets: "synced" and the skew it states are always true. */
		reset(m, 2 + random_below(&m->seed, 31));
		for (i = 0; i < m->b.n; i++)
			m->offset[i] = random_below(&m->seed, 1000);
		measure_some(m);
		judge(m);
		for (i = 0; i < m->b.n; i++)
			for (j = 0; j < m->b.n; j++)
				KUNIT_ASSERT_LE(test, distance(m->offset[i], m->offset[j]),
						m->judgement.max_skew_cycles);
	}
}

/* --- tightening */

/*
 * Bellman and Ford's shortest paths from one to all others, an edge from i to j being
 * as long as what was measured: slow, and nothing like what is tested.
 *
 * @from: U32_MAX starts everywhere at once.
 * Return: whether there is a contradiction (a negative cycle) that is reached.
 */
static bool shortest_paths(struct machine *m, u32 from, s64 *length)
{
	u32 i, j, pass;
	bool changed = true;
	s64 sum;

	for (i = 0; i < m->b.n; i++)
		length[i] = from == U32_MAX || from == i ? 0 : FASTCLK_UNBOUNDED;

	for (pass = 0; changed && pass < m->b.n; pass++) {
		changed = false;
		for (i = 0; i < m->b.n; i++) {
			if (length[i] == FASTCLK_UNBOUNDED)
				continue;
			for (j = 0; j < m->b.n; j++) {
				if (*measured(m, i, j) == FASTCLK_UNBOUNDED)
					continue;
				sum = length[i] + *measured(m, i, j);
				if (sum < length[j]) {
					length[j] = sum;
					changed = true;
				}
			}
		}
	}
	return changed;
}

static void check_shortest(struct machine *m, s64 *length)
{
	struct kunit *test = m->test;
	u32 i, j;

	KUNIT_ASSERT_FALSE(test, fastclk_bounds_contradict(&m->b));
	for (i = 0; i < m->b.n; i++) {
		KUNIT_ASSERT_FALSE(test, shortest_paths(m, i, length));
		for (j = 0; j < m->b.n; j++)
			KUNIT_ASSERT_EQ_MSG(test, *bound(m, i, j), length[j], "%u, %u of %u",
					    i, j, m->b.n);
	}
}

static void random_offsets(struct machine *m, u64 range)
{
	u32 i;

	for (i = 0; i < m->b.n; i++)
		m->offset[i] = (s64)random_below(&m->seed, range) - (s64)(range / 2);
}

static void tightened_bounds_are_shortest_paths(struct kunit *test)
{
	struct machine *m = new_machine(test, CPUS_MAX, 10);
	s64 *length = kunit_kzalloc(test, CPUS_MAX * sizeof(*length), GFP_KERNEL);
	u32 n;

	KUNIT_ASSERT_NOT_NULL(test, length);
	for (n = 0; n <= CPUS_MAX; n += 1 + n / 16) {
		/* complete */
		reset(m, n);
		random_offsets(m, 100000);
		measure_all(m);
		tighten(m);
		check_shortest(m, length);

		/* with gaps */
		reset(m, n);
		random_offsets(m, 1ULL << 40);
		measure_some(m);
		tighten(m);
		check_shortest(m, length);
	}

	/* in parts that nothing connects, or in one direction only */
	for (n = 2; n <= 64; n++) {
		reset(m, n);
		random_offsets(m, 1000);
		measure(m, 0, 1);
		fastclk_bounds_narrow(&m->b, n - 1, n / 2, 5000);
		tighten(m);
		check_shortest(m, length);
	}

	reset(m, CPUS_MAX);
	random_offsets(m, 100000);
	measure_some(m);
	tighten(m);
	check_shortest(m, length);
}

static void the_order_of_tightening_does_not_matter(struct kunit *test)
{
	struct machine *m = new_machine(test, 32, 11);
	s64 *forward = kunit_kzalloc(test, 32 * 32 * sizeof(*forward), GFP_KERNEL);
	u32 round, i;

	KUNIT_ASSERT_NOT_NULL(test, forward);
	for (round = 0; round < 300; round++) {
		reset(m, 2 + random_below(&m->seed, 31));
		random_offsets(m, 2000);
		measure_some(m);
		tighten(m);
		for (i = 0; i < m->b.n * m->b.n; i++) {
			forward[i] = m->b.bound_cycles[i];
			m->b.bound_cycles[i] = m->measured[i];
		}
		for (i = m->b.n; i-- > 0; )
			fastclk_bounds_tighten_through(&m->b, i);
		for (i = 0; i < m->b.n * m->b.n; i++)
			KUNIT_ASSERT_EQ(test, m->b.bound_cycles[i], forward[i]);
	}
}

static void check_truth_inside(struct machine *m)
{
	struct kunit *test = m->test;
	u32 i, j;

	for (i = 0; i < m->b.n; i++) {
		for (j = 0; j < m->b.n; j++) {
			KUNIT_ASSERT_GE_MSG(test, *bound(m, i, j), m->offset[i] - m->offset[j],
					    "%u, %u of %u", i, j, m->b.n);
			KUNIT_ASSERT_LE(test, *bound(m, i, j), *measured(m, i, j));
		}
	}
}

static void the_truth_stays_inside(struct kunit *test)
{
	struct machine *m = new_machine(test, 64, 12);
	u32 round;

	for (round = 0; round < 1000; round++) {
		reset(m, 1 + random_below(&m->seed, 64));
		/* up to 2^62: differences fit */
		random_offsets(m, 1 + (random_length(&m->seed) >> 2));
		if (round & 1)
			measure_some(m);
		else
			measure_all(m);
		tighten(m);
		check_truth_inside(m);
		KUNIT_ASSERT_FALSE(test, fastclk_bounds_contradict(&m->b));
	}
}

/* Several measurements of a pair: the smallest counts, in whichever order they come. */
static void narrowing_keeps_the_smallest(struct kunit *test)
{
	struct machine *m = new_machine(test, 2, 13);

	reset(m, 2);
	KUNIT_EXPECT_EQ(test, *bound(m, 0, 1), FASTCLK_UNBOUNDED);
	KUNIT_EXPECT_EQ(test, *bound(m, 0, 0), 0LL);
	fastclk_bounds_narrow(&m->b, 0, 1, 300);
	fastclk_bounds_narrow(&m->b, 0, 1, 200);
	fastclk_bounds_narrow(&m->b, 0, 1, 400);
	fastclk_bounds_narrow(&m->b, 0, 1, FASTCLK_UNBOUNDED);
	KUNIT_EXPECT_EQ(test, *bound(m, 0, 1), 200LL);
	KUNIT_EXPECT_EQ(test, *bound(m, 1, 0), FASTCLK_UNBOUNDED);
	fastclk_bounds_narrow(&m->b, 0, 1, -200);
	KUNIT_EXPECT_EQ(test, *bound(m, 0, 1), -200LL);
}

/* --- contradictions and offsets */

/* Offsets o with o[i] - o[j] <= bound for all: those to any one counter will do. */
static void check_offsets_exist(struct machine *m, u32 reference)
{
	struct kunit *test = m->test;
	s64 oi, oj;
	u32 i, j;

	for (i = 0; i < m->b.n; i++) {
		for (j = 0; j < m->b.n; j++) {
			oi = *bound(m, i, reference);
			oj = *bound(m, j, reference);
			if (*measured(m, i, j) == FASTCLK_UNBOUNDED)
				continue;
			KUNIT_ASSERT_NE(test, oi, FASTCLK_UNBOUNDED);
			KUNIT_ASSERT_NE(test, oj, FASTCLK_UNBOUNDED);
			KUNIT_ASSERT_LE_MSG(test, oi - oj, *measured(m, i, j), "%u, %u of %u",
					    i, j, m->b.n);
		}
	}
}

/* Bounds that no counters ever gave: between @least and @least + @range. */
static void random_bounds(struct machine *m, s64 least, u64 range)
{
	u64 of = 1 + random_below(&m->seed, 4);
	u32 i, j;

	for (i = 0; i < m->b.n; i++)
		for (j = 0; j < m->b.n; j++)
			if (i != j && !random_below(&m->seed, of))
				fastclk_bounds_narrow(&m->b, i, j,
						      least + (s64)random_below(&m->seed, range));
	/* A ring, so that all reach all. */
	for (i = 0; i < m->b.n; i++)
		fastclk_bounds_narrow(&m->b, i, (i + 1) % m->b.n, least + (s64)range);
}

static void contradictions_are_found_exactly_when_there_are_any(struct kunit *test)
{
	struct machine *m = new_machine(test, 64, 14);
	s64 *length = kunit_kzalloc(test, 64 * sizeof(*length), GFP_KERNEL);
	u32 round, n, found = 0, rounds = 6000;
	bool expected;
	s64 scale;

	KUNIT_ASSERT_NOT_NULL(test, length);
	for (round = 0; round < rounds; round++) {
		n = 2 + random_below(&m->seed, round % 64 ? 11 : 63);
		reset(m, n);
		/*
		 * About half of them contradict. Up to the largest bounds of which a path through
		 * all can be added up.
		 */
		scale = 1 + (random_length(&m->seed) >> 1) / 20 / n;
		random_bounds(m, -scale * (s64)random_below(&m->seed, 4), 10 * scale);
		judge(m);

		expected = shortest_paths(m, U32_MAX, length);
		KUNIT_ASSERT_EQ_MSG(test, fastclk_bounds_contradict(&m->b), expected,
				    "round %u, %u CPUs", round, n);
		if (expected) {
			found++;
			KUNIT_ASSERT_EQ(test, m->judgement.verdict, (u32)FASTCLK_VERDICT_UNSYNCED);
		} else {
			check_offsets_exist(m, random_below(&m->seed, n));
		}
	}
	/* Or else this test does not test what it says. */
	KUNIT_EXPECT_GT(test, found, rounds / 8);
	KUNIT_EXPECT_LT(test, found, rounds - rounds / 8);
}

static void the_smallest_contradiction_is_found(struct kunit *test)
{
	struct machine *m = new_machine(test, CPUS_MAX, 15);
	u32 n, i;

	/* A ring round which the bounds add up to 0, which is possible, and to -1. */
	for (n = 2; n <= CPUS_MAX; n *= 2) {
		reset(m, n);
		for (i = 0; i < n; i++)
			fastclk_bounds_narrow(&m->b, i, (i + 1) % n, i ? 7 : -7 * (s64)(n - 1));
		tighten(m);
		KUNIT_EXPECT_FALSE_MSG(test, fastclk_bounds_contradict(&m->b), "%u CPUs", n);
		check_offsets_exist(m, n / 2);

		reset(m, n);
		for (i = 0; i < n; i++)
			fastclk_bounds_narrow(&m->b, i, (i + 1) % n, i ? 7 : -7 * (s64)(n - 1) - 1);
		tighten(m);
		KUNIT_EXPECT_TRUE_MSG(test, fastclk_bounds_contradict(&m->b), "%u CPUs", n);
	}
}

/*
 * Sums that do not fit: with the sanitizer, that nothing overflows; and that they err on
 * the safe side, never inventing a contradiction or excluding the truth.
 */
static void huge_bounds_do_not_overflow(struct kunit *test)
{
	static const s64 huge[] = {
		S64_MIN, S64_MIN + 1, S64_MIN / 2, -1, 0, 1, S64_MAX / 2, S64_MAX - 1, S64_MAX,
	};
	struct machine *m = new_machine(test, 12, 16);
	u32 round, i, j;
	s64 truth, late, sum;

	for (round = 0; round < 2000; round++) {
		reset(m, 2 + random_below(&m->seed, 11));
		for (i = 0; i < m->b.n; i++)
			for (j = 0; j < m->b.n; j++)
				if (i != j)
					fastclk_bounds_narrow(&m->b, i, j,
						huge[random_below(&m->seed, ARRAY_SIZE(huge))]);
		judge(m);
		KUNIT_ASSERT_NE(test, m->judgement.verdict, (u32)FASTCLK_VERDICT_OFFSET);

		/* Counters as far apart as can be, hand-overs as late as can be. */
		reset(m, 2 + random_below(&m->seed, 11));
		for (i = 0; i < m->b.n; i++)
			m->offset[i] = random_below(&m->seed, 2) ? S64_MAX / 2 : S64_MIN / 2;
		for (i = 0; i < m->b.n; i++) {
			for (j = 0; j < m->b.n; j++) {
				truth = m->offset[i] - m->offset[j];
				late = random_length(&m->seed) >> 1;
				if (i != j && !__builtin_add_overflow(truth, late, &sum))
					fastclk_bounds_narrow(&m->b, i, j, sum);
			}
		}
		judge(m);
		check_truth_inside(m);
		KUNIT_ASSERT_FALSE(test, fastclk_bounds_contradict(&m->b));
	}

	/* What is stated about them fits, too. */
	reset(m, 2);
	fastclk_bounds_narrow(&m->b, 0, 1, S64_MIN);
	fastclk_bounds_narrow(&m->b, 1, 0, S64_MAX - 1);
	fastclk_judge(&m->b, m->conflicts, &m->judgement);
	KUNIT_EXPECT_EQ(test, m->judgement.verdict, (u32)FASTCLK_VERDICT_UNSYNCED);
	KUNIT_EXPECT_EQ(test, m->judgement.max_warp_cycles, (u64)S64_MAX);
	KUNIT_EXPECT_EQ(test, m->judgement.max_skew_cycles, (u64)S64_MAX);
}

/*
 * The counter of one CPU drifts. Between two re-checks of all pairs, of 64 round trips each,
 * a minute of 3 GHz passes.
 */
#define PERIOD_CYCLES	(60 * 3000000000LL)
#define ROUND_TRIPS	64

static void recheck(struct machine *m, u32 bad, s64 ppb)
{
	u32 i, j, trip;

	m->offset[bad] += PERIOD_CYCLES / 1000000000 * ppb;
	fastclk_bounds_clear(&m->b);
	for (i = 0; i < m->b.n; i++)
		for (j = i + 1; j < m->b.n; j++)
			for (trip = 0; trip < ROUND_TRIPS; trip++)
				measure(m, i, j);
	judge(m);
}

static void a_day_without_drift_gives_no_alarm(struct kunit *test)
{
	struct machine *m = new_machine(test, 8, 61);
	u32 minute;

	reset(m, 8);
	/* What no exchange can see need not be 0. */
	m->offset[3] = LATENCY_MIN / 2;
	for (minute = 0; minute < 24 * 60; minute++) {
		recheck(m, 0, 0);
		KUNIT_ASSERT_EQ(test, m->judgement.verdict, (u32)FASTCLK_VERDICT_SYNCED);
		KUNIT_ASSERT_EQ(test, m->judgement.bad, 0U);
		KUNIT_ASSERT_GE(test, m->judgement.max_skew_cycles, (u64)LATENCY_MIN / 2);
	}
}

static void a_drift_is_found_at_once_and_named(struct kunit *test)
{
	static const s64 ppb[] = { 10000, -10000, 10, -10 };
	struct machine *m = new_machine(test, 8, 62);
	u32 bad, way;

	for (way = 0; way < ARRAY_SIZE(ppb); way++) {
		for (bad = 0; bad < 8; bad++) {
			reset(m, 8);
			recheck(m, bad, 0);
			KUNIT_ASSERT_EQ(test, m->judgement.verdict, (u32)FASTCLK_VERDICT_SYNCED);
			recheck(m, bad, ppb[way]);
			KUNIT_ASSERT_EQ(test, m->judgement.verdict, (u32)FASTCLK_VERDICT_UNSYNCED);
			KUNIT_ASSERT_EQ(test, m->judgement.bad, 1U);
			KUNIT_ASSERT_TRUE(test, is_bad(m, bad));
		}
	}
}

static struct kunit_case verdict_cases[] = {
	KUNIT_CASE(nobody_and_one_alone_are_synced),
	KUNIT_CASE(two_that_disagree_are_both_bad),
	KUNIT_CASE(two_that_agree_to_the_count_are_synced),
	KUNIT_CASE(the_one_that_does_not_fit_is_named),
	KUNIT_CASE(of_two_halves_all_are_bad),
	KUNIT_CASE(the_smaller_socket_is_bad),
	KUNIT_CASE(whoever_was_not_reached_makes_it_unknown),
	KUNIT_CASE(nothing_measured_is_unknown),
	KUNIT_CASE(a_warp_counts_even_if_some_were_not_reached),
	KUNIT_CASE(numbers_are_those_of_the_bounds),
	KUNIT_CASE(a_counter_that_is_off_is_never_synced),
	KUNIT_CASE(tightened_bounds_are_shortest_paths),
	KUNIT_CASE(the_order_of_tightening_does_not_matter),
	KUNIT_CASE(the_truth_stays_inside),
	KUNIT_CASE(narrowing_keeps_the_smallest),
	KUNIT_CASE(contradictions_are_found_exactly_when_there_are_any),
	KUNIT_CASE(the_smallest_contradiction_is_found),
	KUNIT_CASE(huge_bounds_do_not_overflow),
	KUNIT_CASE(a_day_without_drift_gives_no_alarm),
	KUNIT_CASE(a_drift_is_found_at_once_and_named),
	{ .run_case = NULL }
};

static struct kunit_suite verdict_suite = {
	.name = "fastclk_verdict",
	.test_cases = verdict_cases,
};
kunit_test_suite(verdict_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of fastclk's verdict");
