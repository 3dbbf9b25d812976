// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protects of core/offsets.c:
 *
 * - where constant offsets satisfy all bounds, some are found, up to seconds and years apart;
 *   where none do, none are;
 * - those that are found satisfy the bound of every pair, measured or tightened, the
 *   reference's is 0, and they are near the truth;
 * - the largest skew that is stated for afterwards is true, and as small as it can be.
 */
#include <kunit/test.h>

#include "../core/offsets.h"
#include "random.h"

#define CPUS_MAX	256

/* A hand-over takes at least 70 cycles between neighbours, and late ones any time. */
#define LATENCY_MIN	70
#define LATENCY_MAX	700

/*
 * struct machine - simulated counters, and what is found out about them
 * @b: the bounds, tightened
 * @measured: before that
 * @ahead: what each counter really is ahead
 * @offset: result
 */
struct machine {
	struct kunit *test;
	u64 seed;
	struct fastclk_bounds b;
	struct fastclk_bounds measured;
	s64 *ahead;
	s64 *offset;
};

static struct machine *new_machine(struct kunit *test, u32 cpus_max, u64 seed)
{
	struct machine *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	size_t pairs = (size_t)cpus_max * cpus_max;

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->test = test;
	m->seed = seed;
	m->b.bound_cycles = kunit_kzalloc(test, pairs * sizeof(s64), GFP_KERNEL);
	m->measured.bound_cycles = kunit_kzalloc(test, pairs * sizeof(s64), GFP_KERNEL);
	m->ahead = kunit_kzalloc(test, cpus_max * sizeof(s64), GFP_KERNEL);
	m->offset = kunit_kzalloc(test, cpus_max * sizeof(s64), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m->b.bound_cycles);
	KUNIT_ASSERT_NOT_NULL(test, m->measured.bound_cycles);
	KUNIT_ASSERT_NOT_NULL(test, m->ahead);
	KUNIT_ASSERT_NOT_NULL(test, m->offset);
	return m;
}

/* Start again, with @n counters up to @range apart. */
static void reset(struct machine *m, u32 n, u64 range)
{
	u32 i;

	m->b.n = n;
	m->measured.n = n;
	for (i = 0; i < n; i++)
		m->ahead[i] = (s64)random_below(&m->seed, range) - (s64)(range / 2);
	fastclk_bounds_clear(&m->measured);
}

static void measure(struct machine *m, u32 i, u32 j)
{
	s64 truth = m->ahead[i] - m->ahead[j];
	u64 spread = LATENCY_MAX - LATENCY_MIN + 1;

	fastclk_bounds_narrow(&m->measured, i, j,
			      truth + LATENCY_MIN + (s64)random_below(&m->seed, spread));
	fastclk_bounds_narrow(&m->measured, j, i,
			      -truth + LATENCY_MIN + (s64)random_below(&m->seed, spread));
}

/* One of @of pairs, and enough to reach all. */
static void measure_some(struct machine *m, u64 of)
{
	u32 i, j;

	for (i = 1; i < m->b.n; i++) {
		measure(m, i, random_below(&m->seed, i));
		for (j = 0; j < i; j++)
			if (!random_below(&m->seed, of))
				measure(m, i, j);
	}
}

static void tighten(struct machine *m)
{
	size_t i;
	u32 k;

	for (i = 0; i < (size_t)m->b.n * m->b.n; i++)
		m->b.bound_cycles[i] = m->measured.bound_cycles[i];
	for (k = 0; k < m->b.n; k++)
		fastclk_bounds_tighten_through(&m->b, k);
}

static s64 bound(const struct fastclk_bounds *b, u32 i, u32 j)
{
	return b->bound_cycles[(size_t)i * b->n + j];
}

/* What the offsets leave of a bound, worked out in more bits than anything needs. */
__extension__ typedef __int128 s128;

static s128 rest(struct machine *m, const struct fastclk_bounds *b, u32 i, u32 j)
{
	return (s128)bound(b, i, j) + m->offset[i] - m->offset[j];
}

/* They satisfy all that was measured, and the skew that is stated is the right one. */
static void check_found(struct machine *m, u32 reference)
{
	struct kunit *test = m->test;
	u64 skew = fastclk_offsets_skew(&m->b, m->offset);
	s128 most = -1;
	u32 i, j;

	KUNIT_ASSERT_EQ(test, m->offset[reference], 0LL);
	for (i = 0; i < m->b.n; i++) {
		for (j = 0; j < m->b.n; j++) {
			if (i == j)
				continue;
			KUNIT_ASSERT_TRUE_MSG(test, rest(m, &m->measured, i, j) >= 0,
					      "%u, %u of %u", i, j, m->b.n);
			KUNIT_ASSERT_TRUE_MSG(test, rest(m, &m->b, i, j) >= 0, "%u, %u of %u",
					      i, j, m->b.n);
			if (rest(m, &m->b, i, j) > most)
				most = rest(m, &m->b, i, j);
		}
	}
	KUNIT_ASSERT_TRUE(test, (s128)skew == most + 1);
	KUNIT_ASSERT_TRUE(test, fastclk_offsets_fit(&m->b, m->offset));
	KUNIT_ASSERT_TRUE(test, fastclk_offsets_fit(&m->measured, m->offset));
}

/* After correction, no two counters are further apart than stated. */
static void check_truth(struct machine *m)
{
	u64 skew = fastclk_offsets_skew(&m->b, m->offset);
	s128 apart;
	u32 i, j;

	for (i = 0; i < m->b.n; i++) {
		for (j = 0; j < m->b.n; j++) {
			apart = (s128)m->ahead[i] + m->offset[i] - m->ahead[j] - m->offset[j];
			KUNIT_ASSERT_TRUE_MSG(m->test, apart < (s128)skew, "%u, %u of %u", i, j,
					      m->b.n);
		}
	}
}

static void nobody_and_one_alone_need_none(struct kunit *test)
{
	struct machine *m = new_machine(test, 1, 1);

	reset(m, 0, 1);
	KUNIT_EXPECT_TRUE(test, fastclk_offsets_find(&m->b, 0, m->offset));
	KUNIT_EXPECT_EQ(test, fastclk_offsets_skew(&m->b, m->offset), 0ULL);
	reset(m, 1, 1);
	tighten(m);
	m->offset[0] = 77;
	KUNIT_EXPECT_TRUE(test, fastclk_offsets_find(&m->b, 0, m->offset));
	KUNIT_EXPECT_EQ(test, m->offset[0], 0LL);
	KUNIT_EXPECT_EQ(test, fastclk_offsets_skew(&m->b, m->offset), 0ULL);
}

/* The signs: an offset is added to the counter that is ahead, so it is negative. */
static void the_one_that_is_ahead_is_set_back(struct kunit *test)
{
	static const s64 ahead[] = { 2500000000LL, -2500000000LL, 10000, -10000, 1, -1 };
	struct machine *m = new_machine(test, 2, 1);
	u32 i, latency = 100;

	for (i = 0; i < ARRAY_SIZE(ahead); i++) {
		reset(m, 2, 1);
		fastclk_bounds_narrow(&m->measured, 1, 0, ahead[i] + latency);
		fastclk_bounds_narrow(&m->measured, 0, 1, -ahead[i] + latency);
		tighten(m);
		KUNIT_EXPECT_TRUE(test, fastclk_offsets_find(&m->b, 0, m->offset));
		KUNIT_EXPECT_EQ(test, m->offset[0], 0LL);
		KUNIT_EXPECT_EQ(test, m->offset[1], -ahead[i]);
		KUNIT_EXPECT_EQ(test, fastclk_offsets_skew(&m->b, m->offset), latency + 1ULL);
		KUNIT_EXPECT_TRUE(test, fastclk_offsets_find(&m->b, 1, m->offset));
		KUNIT_EXPECT_EQ(test, m->offset[0], ahead[i]);
		KUNIT_EXPECT_EQ(test, m->offset[1], 0LL);
	}
}

static void counters_of_any_distance_can_be_put_right(struct kunit *test)
{
	struct machine *m = new_machine(test, 64, 2);
	u32 round, reference;

	for (round = 0; round < 4000; round++) {
		/* At most 2^62 - 2^20 apart. */
		reset(m, 2 + random_below(&m->seed, round % 16 ? 15 : 63),
		      1 + (random_length(&m->seed) >> 2) / 16 * 15);
		measure_some(m, 1 + random_below(&m->seed, 8));
		tighten(m);
		reference = random_below(&m->seed, m->b.n);
		KUNIT_ASSERT_TRUE(test, fastclk_offsets_find(&m->b, reference, m->offset));
		check_found(m, reference);
		check_truth(m);
	}
}

static void large_machines_can_be_put_right(struct kunit *test)
{
	/* +-1 s at 5 GHz; sockets; as far as it goes */
	static const u64 ranges[] = { 10000000000ULL, 20000, 1, 15ULL << 58 };
	struct machine *m = new_machine(test, CPUS_MAX, 3);
	s64 error;
	u32 i, k;

	for (k = 0; k < ARRAY_SIZE(ranges); k++) {
		reset(m, CPUS_MAX - k, ranges[k]);
		measure_some(m, 1 + 7 * (k & 1));
		tighten(m);
		KUNIT_ASSERT_TRUE(test, fastclk_offsets_find(&m->b, k, m->offset));
		check_found(m, k);
		check_truth(m);
		/* Centred: off by half of the latencies' difference, and not by a latency. */
		for (i = 0; i < m->b.n; i++) {
			error = m->ahead[i] - m->ahead[k] + m->offset[i];
			KUNIT_ASSERT_LE(test, error < 0 ? -error : error,
					(LATENCY_MAX - LATENCY_MIN) / 2 + 1);
		}
	}
}

/* Bounds that no counters gave: offsets are found exactly when they do not contradict. */
static void contradictory_bounds_have_none(struct kunit *test)
{
	struct machine *m = new_machine(test, CPUS_MAX, 4);
	u32 round, i, j, none = 0, rounds = 4000;
	s64 scale, least;
	bool found;

	for (round = 0; round < rounds; round++) {
		reset(m, round % 500 ? 2 + random_below(&m->seed, 11) : CPUS_MAX, 1);
		/* All pairs, up to 2^62. */
		scale = 1 + (random_length(&m->seed) >> 1) / 20;
		least = -scale * (s64)random_below(&m->seed, 4);
		for (i = 0; i < m->b.n; i++)
			for (j = 0; j < m->b.n; j++)
				if (i != j)
					fastclk_bounds_narrow(&m->measured, i, j, least +
							(s64)random_below(&m->seed, 10 * scale));
		tighten(m);
		i = random_below(&m->seed, m->b.n);
		found = fastclk_offsets_find(&m->b, i, m->offset);
		KUNIT_ASSERT_EQ(test, found, !fastclk_bounds_contradict(&m->b));
		if (found)
			check_found(m, i);
		else
			none++;
	}
	/* Or else this test does not test what it says. */
	KUNIT_EXPECT_GT(test, none, rounds / 8);
	KUNIT_EXPECT_LT(test, none, rounds - rounds / 8);
}

static void the_smallest_contradiction_counts(struct kunit *test)
{
	/* Three counters that were measured round a ring, in which the bounds add up to @sum. */
	static const s64 sizes[] = { 0, 1, 5000000000LL, 1LL << 60, (1LL << 61) };
	struct machine *m = new_machine(test, 3, 5);
	u32 k;
	s64 sum;

	for (k = 0; k < ARRAY_SIZE(sizes); k++) {
		for (sum = -2; sum <= 2; sum++) {
			reset(m, 3, 1);
			fastclk_bounds_narrow(&m->measured, 0, 1, sizes[k]);
			fastclk_bounds_narrow(&m->measured, 1, 2, sizes[k]);
			fastclk_bounds_narrow(&m->measured, 2, 0, -2 * sizes[k] + sum);
			tighten(m);
			KUNIT_EXPECT_EQ(test, fastclk_offsets_find(&m->b, 0, m->offset), sum >= 0);
			if (sum >= 0)
				check_found(m, 0);
		}
	}
}

static void who_was_not_reached_has_none(struct kunit *test)
{
	struct machine *m = new_machine(test, 4, 6);
	u32 i;

	for (i = 0; i < 4; i++) {
		reset(m, 4, 1000);
		measure(m, 0, 1);
		measure(m, 2, 3);
		/* One side is not enough. */
		fastclk_bounds_narrow(&m->measured, 1, 2, 5000);
		tighten(m);
		KUNIT_EXPECT_FALSE(test, fastclk_offsets_find(&m->b, i, m->offset));
	}
}

static void fitting_is_exact(struct kunit *test)
{
	static const s64 huge[] = {
		S64_MIN, S64_MIN + 1, -FASTCLK_OFFSETS_MAX, -1, 0, 1, FASTCLK_OFFSETS_MAX,
		S64_MAX - 1,
	};
	struct machine *m = new_machine(test, 2, 7);
	u32 round;
	bool fits;

	for (round = 0; round < 20000; round++) {
		reset(m, 2, 1);
		m->b.bound_cycles[0] = 0;
		m->b.bound_cycles[3] = 0;
		m->b.bound_cycles[1] = huge[random_below(&m->seed, ARRAY_SIZE(huge))];
		m->b.bound_cycles[2] = huge[random_below(&m->seed, ARRAY_SIZE(huge))];
		m->offset[0] = huge[random_below(&m->seed, ARRAY_SIZE(huge))];
		m->offset[1] = huge[random_below(&m->seed, ARRAY_SIZE(huge))];
		fits = rest(m, &m->b, 0, 1) >= 0 && rest(m, &m->b, 1, 0) >= 0;
		KUNIT_ASSERT_EQ(test, fastclk_offsets_fit(&m->b, m->offset), fits);
		/* Nothing overflows. */
		fastclk_offsets_find(&m->b, 0, m->offset);
	}
}

static struct kunit_case offsets_cases[] = {
	KUNIT_CASE(nobody_and_one_alone_need_none),
	KUNIT_CASE(the_one_that_is_ahead_is_set_back),
	KUNIT_CASE(counters_of_any_distance_can_be_put_right),
	KUNIT_CASE(large_machines_can_be_put_right),
	KUNIT_CASE(contradictory_bounds_have_none),
	KUNIT_CASE(the_smallest_contradiction_counts),
	KUNIT_CASE(who_was_not_reached_has_none),
	KUNIT_CASE(fitting_is_exact),
	{ .run_case = NULL }
};

static struct kunit_suite offsets_suite = {
	.name = "fastclk_offsets",
	.test_cases = offsets_cases,
};
kunit_test_suite(offsets_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of fastclk's offsets");
