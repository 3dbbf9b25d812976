// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protects of core/exchange.h, with simulated counters and a simulated partner, for both
 * sides of an exchange:
 *
 * - the interval is exactly as wide as the fastest hand-overs, whatever the counters'
 *   skew and wherever they wrap, and the truth is always inside;
 * - a late partner only makes it wider; no delay makes a warp out of counters that agree;
 * - a skew larger than the width that is measured without it is a warp, every time;
 * - each side receives exactly as many values as were asked for;
 * - it ends: without a partner, when the partner stops, and when the counter stands still.
 */
#include <kunit/test.h>

#include "../core/types.h"

struct fastclk_exchange;
static u64 simulated_counter(struct fastclk_exchange *x);
static void simulated_relax(struct fastclk_exchange *x);

#define FASTCLK_EXCHANGE_COUNTER(x)	simulated_counter(x)
#define FASTCLK_EXCHANGE_RELAX(x)	simulated_relax(x)
#include "../core/exchange.h"
#include "random.h"

#define MOVES_MAX	(2 * FASTCLK_EXCHANGES + 1)
#define NEVER		U64_MAX

/*
 * struct simulation - an exchange of which one side is real and the other simulated
 * @test: the case it belongs to
 * @seed: of random numbers
 * @x: the real side
 * @skew_cycles: by how much the counter of each side is ahead of the time
 * @now_cycles: the time
 * @pause_cycles: how much time passes while the real side waits once
 * @at_cycles: when the counter is read for each move; only if @timetable, otherwise now
 * @polls: how often the real side looks in vain before each move; 0: random
 * @stop: the move from which on the partner makes none
 * @answer_in: how often the real side will still look in vain
 * @relaxed: how often it did
 * @received: how many values the partner got
 * @wrong: values it got that are not the real side's counter at the time of its move
 *
 * Move k is the k-th time that a value is handed over; side 0 makes the even ones. The
 * last, 2 * exchanges, is not a hand-over but the last look at the counter.
 */
struct simulation {
	struct kunit *test;
	u64 seed;
	struct fastclk_exchange x;
	u64 skew_cycles[2];
	u64 now_cycles;
	u64 pause_cycles;
	bool timetable;
	u64 at_cycles[MOVES_MAX];
	u32 polls;
	u64 stop;
	u64 answer_in;
	u64 relaxed;
	u32 received;
	u32 wrong;
};

/* Alone on its cache line, which memory from an allocator need not be. */
static struct fastclk_exchange_line line;

static struct simulation *simulation_of(struct fastclk_exchange *x)
{
	return x->context;
}

static bool is_partners(struct simulation *s, u64 move)
{
	return (move & 1) != s->x.side;
}

/* Mostly soon, sometimes after more looks than there are between two at the clock. */
static void plan_answer(struct simulation *s)
{
	if (s->polls)
		s->answer_in = s->polls;
	else
		s->answer_in = random_below(&s->seed, random_below(&s->seed, 50) ? 6 : 300);
}

/* The partner makes its move, if it is its turn. */
static void make_move(struct simulation *s)
{
	u64 move = line.turn;

	if (!is_partners(s, move) || move >= s->stop || move > 2ULL * s->x.exchanges)
		return;
	if (s->answer_in) {
		s->answer_in--;
		return;
	}
	plan_answer(s);

	if (s->timetable)
		s->now_cycles = s->at_cycles[move];
	if (move) {
		s->received++;
		if (s->timetable &&
		    line.value != s->at_cycles[move - 1] + s->skew_cycles[s->x.side])
			s->wrong++;
	}
	if (move == 2ULL * s->x.exchanges) {
		s->stop = move;
		return;
	}
	line.value = s->now_cycles + s->skew_cycles[!s->x.side];
	line.turn = move + 1;
}

static void simulated_relax(struct fastclk_exchange *x)
{
	struct simulation *s = simulation_of(x);

	s->relaxed++;
	s->now_cycles += s->pause_cycles;
	make_move(s);
}

/* While it is the partner's turn, the real side only looks for how long it has waited. */
static u64 simulated_counter(struct fastclk_exchange *x)
{
	struct simulation *s = simulation_of(x);

	if (s->timetable && !is_partners(s, line.turn))
		s->now_cycles = s->at_cycles[line.turn];
	return s->now_cycles + s->skew_cycles[x->side];
}

static struct simulation *new_simulation(struct kunit *test, u64 seed)
{
	struct simulation *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->test = test;
	s->seed = seed;
	s->stop = NEVER;
	s->x.exchanges = FASTCLK_EXCHANGES;
	s->x.start_cycles = 1ULL << 62;
	s->x.patience_cycles = 1ULL << 62;
	s->x.limit_cycles = 1ULL << 62;
	return s;
}

static void run(struct simulation *s, u32 side)
{
	u64 stop = s->stop;

	line.turn = 0;
	line.value = random_u64(&s->seed);	/* nobody may use it */
	s->relaxed = 0;
	s->received = 0;
	s->wrong = 0;
	s->x.line = &line;
	s->x.side = side;
	s->x.context = s;
	/* Left over from the last time. */
	s->x.received = 12345;
	s->x.bound_cycles = -12345;
	if (s->timetable)
		s->now_cycles = s->at_cycles[0];
	plan_answer(s);

	fastclk_exchange_run(&s->x);

	/* The partner takes the last value, too. */
	s->answer_in = 0;
	make_move(s);
	s->stop = stop;
}

/*
 * When moves are made: hand-overs take @fastest cycles or more, in each direction
 * something else, and now and then very long, by a descheduled vCPU for example.
 */
static void make_timetable(struct simulation *s, u64 begin, u64 fastest, u64 late)
{
	u64 direction[2], at = begin, moves = 2ULL * s->x.exchanges;
	u32 k;

	direction[0] = fastest + random_below(&s->seed, 500);
	direction[1] = fastest + random_below(&s->seed, 500);
	s->timetable = true;
	for (k = 0; k <= moves; k++) {
		s->at_cycles[k] = at;
		at += direction[k & 1] + random_below(&s->seed, 200);
		if (late && !random_below(&s->seed, 16))
			at += random_below(&s->seed, late);
	}
}

/* The fastest hand-over to a side, of all that are in the timetable. */
static u64 fastest_to(struct simulation *s, u32 side)
{
	u64 fastest = U64_MAX, took;
	u32 k;

	for (k = side ? 1 : 2; k <= 2 * s->x.exchanges; k += 2) {
		took = s->at_cycles[k] - s->at_cycles[k - 1];
		fastest = took < fastest ? took : fastest;
	}
	return fastest;
}

/* Both sides' bounds, from two runs of the same timetable: each side is real once. */
static void run_both(struct simulation *s, u64 skew_0, u64 skew_1, s64 bound_cycles[2])
{
	struct kunit *test = s->test;
	u32 side;

	s->skew_cycles[0] = skew_0;
	s->skew_cycles[1] = skew_1;
	for (side = 0; side < 2; side++) {
		run(s, side);
		KUNIT_ASSERT_EQ(test, s->x.received, s->x.exchanges);
		KUNIT_ASSERT_EQ(test, s->received, s->x.exchanges);
		KUNIT_ASSERT_EQ(test, line.turn, 2ULL * s->x.exchanges);
		KUNIT_ASSERT_EQ(test, s->wrong, 0U);
		bound_cycles[side] = s->x.bound_cycles;
	}
}

static const s64 skews[] = {
	0, 1, -1, 5000, -5000, 1LL << 40, -(1LL << 40), 1LL << 62, -(1LL << 62),
	/* as far as the slowest hand-over of these tests can be told from the other side */
	S64_MAX - (1LL << 50), S64_MIN + (1LL << 50),
};

static const u32 lengths[] = {
	1, 2, 3, FASTCLK_EXCHANGES_MIN - 1, FASTCLK_EXCHANGES_MIN, FASTCLK_EXCHANGES,
};

static void check_interval(struct simulation *s, s64 truth)
{
	struct kunit *test = s->test;
	u64 skew_1 = random_u64(&s->seed);
	s64 bound_cycles[2];

	run_both(s, skew_1 + (u64)truth, skew_1, bound_cycles);
	KUNIT_ASSERT_LE(test, -bound_cycles[1], truth);
	KUNIT_ASSERT_GE(test, bound_cycles[0], truth);
	/* And no wider than it has to be. */
	KUNIT_ASSERT_EQ(test, bound_cycles[0], truth + (s64)fastest_to(s, 0));
	KUNIT_ASSERT_EQ(test, bound_cycles[1], -truth + (s64)fastest_to(s, 1));
}

static void the_truth_is_inside(struct kunit *test)
{
	struct simulation *s = new_simulation(test, 1);
	u32 i, j, round;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (j = 0; j < ARRAY_SIZE(skews); j++) {
			for (round = 0; round < 8; round++) {
				s->x.exchanges = lengths[i];
				make_timetable(s, random_u64(&s->seed), round & 1 ? 70 : 0, 0);
				check_interval(s, skews[j]);
			}
		}
	}
}

static void a_late_partner_only_widens(struct kunit *test)
{
	struct simulation *s = new_simulation(test, 2);
	u32 i, j, round;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (j = 0; j < ARRAY_SIZE(skews); j++) {
			for (round = 0; round < 8; round++) {
				s->x.exchanges = lengths[i];
				make_timetable(s, random_u64(&s->seed), 70, 1ULL << (5 * round));
				check_interval(s, skews[j]);
			}
		}
	}
}

/* Both counters, or one before the other, come to 2^64 in the middle of it. */
static void a_counter_may_wrap(struct kunit *test)
{
	struct simulation *s = new_simulation(test, 3);
	s64 bound_cycles[2];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(skews); i++) {
		make_timetable(s, 0, 70, 100000);
		make_timetable(s, -(s->at_cycles[FASTCLK_EXCHANGES]), 70, 100000);
		KUNIT_ASSERT_LT(test, s->at_cycles[2 * FASTCLK_EXCHANGES], s->at_cycles[0]);

		run_both(s, (u64)skews[i], 0, bound_cycles);
		KUNIT_ASSERT_EQ(test, bound_cycles[0], skews[i] + (s64)fastest_to(s, 0));
		KUNIT_ASSERT_EQ(test, bound_cycles[1], -skews[i] + (s64)fastest_to(s, 1));
	}
}

static void a_skew_larger_than_the_width_is_a_warp(struct kunit *test)
{
	struct simulation *s = new_simulation(test, 4);
	s64 without[2], with[2];
	u64 width, skew;
	u32 round;

	for (round = 0; round < 100; round++) {
		make_timetable(s, random_u64(&s->seed), 70, 10000);
		run_both(s, 0, 0, without);
		KUNIT_ASSERT_GE(test, without[0], 0LL);
		KUNIT_ASSERT_GE(test, without[1], 0LL);
		width = (u64)without[0] + (u64)without[1];

		/* By one, by more, and by 2^63 and its neighbours, which are ahead and behind. */
		switch (round % 4) {
		case 0:
			skew = width + 1;
			break;
		case 1:
			skew = width + 1 + (random_length(&s->seed) >> 2);
			break;
		default:
			skew = (1ULL << 63) - random_below(&s->seed, 4 * width);
		}
		run_both(s, skew, 0, with);
		KUNIT_ASSERT_TRUE(test, with[0] < 0 || with[1] < 0);
		run_both(s, 0, skew, with);
		KUNIT_ASSERT_TRUE(test, with[0] < 0 || with[1] < 0);
	}
}

/* Coarse counters stand still for a whole hand-over. */
static void no_time_at_all_is_no_warp(struct kunit *test)
{
	struct simulation *s = new_simulation(test, 5);
	s64 bound_cycles[2];
	u32 k;

	make_timetable(s, random_u64(&s->seed), 70, 0);
	for (k = 0; k < MOVES_MAX; k++)
		s->at_cycles[k] = s->at_cycles[0];
	run_both(s, 0, 0, bound_cycles);
	KUNIT_EXPECT_EQ(test, bound_cycles[0], 0LL);
	KUNIT_EXPECT_EQ(test, bound_cycles[1], 0LL);

	/* One count off is one. */
	run_both(s, 1, 0, bound_cycles);
	KUNIT_EXPECT_EQ(test, bound_cycles[0], 1LL);
	KUNIT_EXPECT_EQ(test, bound_cycles[1], -1LL);
}

/* --- patience */

#define PAUSE	10
#define START	200000
#define PATIENCE 100000
/* The clock is looked at this often. */
#define SLACK	(2 * PAUSE * FASTCLK_EXCHANGE_POLLS)

static struct simulation *new_waiting(struct kunit *test, u64 seed)
{
	struct simulation *s = new_simulation(test, seed);

	s->x.start_cycles = START;
	s->x.patience_cycles = PATIENCE;
	s->pause_cycles = PAUSE;
	s->now_cycles = -(u64)START / 2;	/* it wraps while waiting */
	return s;
}

static void it_ends_without_a_partner(struct kunit *test)
{
	struct simulation *s = new_waiting(test, 6);
	u64 begin;
	u32 side;

	s->stop = 0;
	for (side = 0; side < 2; side++) {
		begin = s->now_cycles;
		run(s, side);
		KUNIT_EXPECT_EQ(test, s->x.received, 0U);
		KUNIT_EXPECT_EQ(test, s->x.bound_cycles, S64_MAX);
		KUNIT_EXPECT_GE(test, s->now_cycles - begin, (u64)START);
		KUNIT_EXPECT_LE(test, s->now_cycles - begin, (u64)START + SLACK);
	}
}

/* A partner that is slow but not too slow would make it take for ever. */
static void it_ends_at_its_limit(struct kunit *test)
{
	struct simulation *s = new_waiting(test, 8);
	u64 begin = s->now_cycles;

	s->polls = PATIENCE / PAUSE / 2;
	s->x.limit_cycles = 20 * PATIENCE;
	run(s, 0);
	KUNIT_EXPECT_GT(test, s->x.received, 1U);
	KUNIT_EXPECT_LT(test, s->x.received, (u32)FASTCLK_EXCHANGES);
	KUNIT_EXPECT_GE(test, s->now_cycles - begin, 20ULL * PATIENCE);
	KUNIT_EXPECT_LE(test, s->now_cycles - begin, 20ULL * PATIENCE + SLACK);
}

static void it_ends_when_the_partner_stops(struct kunit *test)
{
	struct simulation *s = new_waiting(test, 7);
	u32 side, stop;
	u64 waited;

	for (side = 0; side < 2; side++) {
		for (stop = 2; stop < 2 * FASTCLK_EXCHANGES; stop += 1 + stop / 2) {
			/* The partner answers at once, until it does not answer any more. */
			s->stop = stop;
			s->polls = 1;
			run(s, side);
			KUNIT_EXPECT_EQ_MSG(test, s->x.received, (stop + side) / 2,
					    "side %u, stopped at %u", side, stop);
			KUNIT_EXPECT_LE(test, s->x.bound_cycles, (s64)(2 * PAUSE));
			KUNIT_EXPECT_GE(test, s->x.bound_cycles, 0LL);
			waited = (s->relaxed - 2ULL * s->x.received) * PAUSE;
			KUNIT_EXPECT_GE(test, waited, (u64)PATIENCE);
			KUNIT_EXPECT_LE(test, waited, (u64)PATIENCE + SLACK);
		}
	}
}

/* What it got before is a measurement, if it is enough. */
static void what_was_received_before_the_end_counts(struct kunit *test)
{
	struct simulation *s = new_simulation(test, 8);
	u64 fastest, took;
	u32 side, stop, k;

	for (side = 0; side < 2; side++) {
		for (stop = 3; stop < 2 * FASTCLK_EXCHANGES; stop += 1 + stop / 2) {
			make_timetable(s, random_u64(&s->seed), 70, 10000);
			s->stop = stop;
			run(s, side);

			fastest = U64_MAX;
			for (k = side ? 1 : 2; k <= stop; k += 2) {
				if (is_partners(s, k - 1) && k - 1 < stop) {
					took = s->at_cycles[k] - s->at_cycles[k - 1];
					fastest = took < fastest ? took : fastest;
				}
			}
			KUNIT_EXPECT_EQ(test, s->x.bound_cycles, (s64)fastest);
			KUNIT_EXPECT_EQ(test, s->wrong, 0U);
		}
	}
}

/* Only the looks at it are counted then. */
static void it_ends_when_the_counter_stands_still(struct kunit *test)
{
	struct simulation *s = new_waiting(test, 9);
	u64 most = (u64)FASTCLK_EXCHANGE_LOOKS * FASTCLK_EXCHANGE_POLLS;
	u32 side;

	s->pause_cycles = 0;
	for (side = 0; side < 2; side++) {
		s->stop = 0;
		run(s, side);
		KUNIT_EXPECT_EQ(test, s->x.received, 0U);
		KUNIT_EXPECT_EQ(test, s->x.bound_cycles, S64_MAX);
		KUNIT_EXPECT_LE(test, s->relaxed, most);

		s->stop = 101;
		s->polls = 1;
		run(s, side);
		KUNIT_EXPECT_EQ(test, s->x.received, 50U + side);
		KUNIT_EXPECT_EQ(test, s->x.bound_cycles, 0LL);
		KUNIT_EXPECT_LE(test, s->relaxed, most + 2 * 51);
	}
}

/* A partner that is slow, but not slower than that, is waited for each time. */
static void it_is_patient(struct kunit *test)
{
	struct simulation *s = new_waiting(test, 10);
	u32 side;

	s->polls = PATIENCE / PAUSE - 1;
	for (side = 0; side < 2; side++) {
		run(s, side);
		KUNIT_EXPECT_EQ(test, s->x.received, (u32)FASTCLK_EXCHANGES);
		KUNIT_EXPECT_EQ(test, s->received, (u32)FASTCLK_EXCHANGES);
	}
}

/* The first move may take longer: the partner has to wake up. */
static void the_first_move_may_take_longer(struct kunit *test)
{
	struct simulation *s = new_waiting(test, 11);
	u32 side;

	s->polls = START / PAUSE - 1;
	for (side = 0; side < 2; side++) {
		s->stop = NEVER;
		run(s, side);
		KUNIT_EXPECT_EQ(test, s->x.received, 1U);
	}

	s->polls = START / PAUSE + SLACK;
	for (side = 0; side < 2; side++) {
		run(s, side);
		KUNIT_EXPECT_EQ(test, s->x.received, 0U);
	}
}

static struct kunit_case exchange_cases[] = {
	KUNIT_CASE(the_truth_is_inside),
	KUNIT_CASE(a_late_partner_only_widens),
	KUNIT_CASE(a_counter_may_wrap),
	KUNIT_CASE(a_skew_larger_than_the_width_is_a_warp),
	KUNIT_CASE(no_time_at_all_is_no_warp),
	KUNIT_CASE(it_ends_without_a_partner),
	KUNIT_CASE(it_ends_when_the_partner_stops),
	KUNIT_CASE(it_ends_at_its_limit),
	KUNIT_CASE(what_was_received_before_the_end_counts),
	KUNIT_CASE(it_ends_when_the_counter_stands_still),
	KUNIT_CASE(it_is_patient),
	KUNIT_CASE(the_first_move_may_take_longer),
	{ .run_case = NULL }
};

static struct kunit_suite exchange_suite = {
	.name = "fastclk_exchange",
	.test_cases = exchange_cases,
};
kunit_test_suite(exchange_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of fastclk's exchange");
