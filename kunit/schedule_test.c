// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protects of core/schedule.h: with 2 to 256 CPUs, each pair meets exactly once, no CPU is
 * in two places in a round, and there are no more rounds than needed.
 */
#include <kunit/test.h>

#include "../core/schedule.h"

#define PLAYERS_MAX	256

/*
 * struct tournament - who has met whom
 * @met: by both players
 * @round_of: the last round a player was in, plus one
 */
struct tournament {
	bool met[PLAYERS_MAX][PLAYERS_MAX];
	u32 round_of[PLAYERS_MAX];
};

static void play(struct kunit *test, struct tournament *t, u32 n)
{
	u32 round, slot, a, b;

	for (a = 0; a < n; a++) {
		t->round_of[a] = 0;
		for (b = 0; b < n; b++)
			t->met[a][b] = false;
	}

	for (round = 0; round < fastclk_schedule_rounds(n); round++) {
		for (slot = 0; slot < fastclk_schedule_slots(n); slot++) {
			fastclk_schedule_pair(n, round, slot, &a, &b);
			KUNIT_ASSERT_LT(test, a, b);
			KUNIT_ASSERT_LT(test, b, n);
			KUNIT_ASSERT_FALSE_MSG(test, t->met[a][b], "%u and %u of %u meet again",
					       a, b, n);
			KUNIT_ASSERT_TRUE_MSG(test, t->round_of[a] <= round &&
					      t->round_of[b] <= round,
					      "%u or %u of %u twice in round %u", a, b, n, round);
			t->met[a][b] = true;
			t->round_of[a] = round + 1;
			t->round_of[b] = round + 1;
		}
	}

	for (a = 0; a < n; a++)
		for (b = a + 1; b < n; b++)
			KUNIT_ASSERT_TRUE_MSG(test, t->met[a][b], "%u and %u of %u never meet",
					      a, b, n);
}

static void each_pair_meets_exactly_once(struct kunit *test)
{
	struct tournament *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	u32 n;

	KUNIT_ASSERT_NOT_NULL(test, t);
	for (n = 2; n <= PLAYERS_MAX; n++)
		play(test, t, n);
}

static void rounds_are_as_few_as_can_be(struct kunit *test)
{
	u32 n;

	for (n = 2; n <= PLAYERS_MAX; n++) {
		KUNIT_EXPECT_EQ(test, fastclk_schedule_rounds(n), n % 2 ? n : n - 1);
		KUNIT_EXPECT_EQ(test, fastclk_schedule_slots(n), n / 2);
	}
}

static void nobody_and_one_alone_have_no_rounds(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, fastclk_schedule_rounds(0), 0U);
	KUNIT_EXPECT_EQ(test, fastclk_schedule_rounds(1), 0U);
	KUNIT_EXPECT_EQ(test, fastclk_schedule_slots(0), 0U);
	KUNIT_EXPECT_EQ(test, fastclk_schedule_slots(1), 0U);
}

static struct kunit_case schedule_cases[] = {
	KUNIT_CASE(each_pair_meets_exactly_once),
	KUNIT_CASE(rounds_are_as_few_as_can_be),
	KUNIT_CASE(nobody_and_one_alone_have_no_rounds),
	{ .run_case = NULL }
};

static struct kunit_suite schedule_suite = {
	.name = "fastclk_schedule",
	.test_cases = schedule_cases,
};
kunit_test_suite(schedule_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of fastclk's tournament");
