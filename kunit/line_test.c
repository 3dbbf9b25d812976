// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protects of core/line.h and include/fastclk/line.h:
 *
 * - a line gives what the kernel's own formula gives, bit for bit, for every clock that a
 *   timekeeper can have and every counter value from its last update on;
 * - the shift at which lines are published keeps all that a mult can become, and is the
 *   largest that does: 64 above 1.13 GHz;
 * - machines without 128-bit integers compute the same.
 */
#include <kunit/test.h>

/* The header once more, as it is for machines without 128-bit integers. */
#define FASTCLK_NO_INT128
#define fastclk_line	line_in_pieces
#define fastclk_line_ns	line_in_pieces_ns
#include "../include/fastclk/line.h"
#undef FASTCLK_NO_INT128
#undef fastclk_line
#undef fastclk_line_ns
#undef _FASTCLK_LINE_H

#include "../core/line.h"
#include "random.h"

#define THIRTY_YEARS_NS		946728000000000000ULL

#define TUPLES			400000
#define LINES			400000

static const u64 edges[] = {
	0, 1, 2, 1ULL << 31, U32_MAX, 1ULL << 32, THIRTY_YEARS_NS, (1ULL << 63) - 1, 1ULL << 63,
	U64_MAX - U32_MAX, U64_MAX - 1, U64_MAX,
};

static u64 random_or_edge(u64 *seed)
{
	return random_below(seed, 4) ? random_length(seed) :
				       edges[random_below(seed, ARRAY_SIZE(edges))];
}

/* The formula of timekeeping_cycles_to_ns(), which must not overflow here. */
static u64 kernel_ns(const struct fastclk_clock_reading *clock, u64 cycles)
{
	fastclk_u128 product = (fastclk_u128)(cycles - clock->cycle_last) * clock->mult;

	return clock->base_ns + (u64)((product + clock->fraction) >> clock->shift);
}

static void random_clock(u64 *seed, struct fastclk_clock_reading *clock)
{
	u64 fraction_max;

	clock->cycle_last = random_or_edge(seed);
	clock->base_ns = random_or_edge(seed);
	clock->shift = random_below(seed, 33);
	clock->mult = random_or_edge(seed);
	if (!clock->mult)
		clock->mult = 1;

	/* Less than 1 ns usually; what the field can hold at most, too. */
	fraction_max = (1ULL << clock->shift) - 1;
	switch (random_below(seed, 8)) {
	case 0:
		clock->fraction = U64_MAX;
		break;
	case 1:
		clock->fraction = random_u64(seed);
		break;
	case 2:
		clock->fraction = fraction_max;
		break;
	default:
		clock->fraction = random_u64(seed) & fraction_max;
	}
}

/* From the last update on: soon after it, or as late as the counter goes. */
static u64 random_cycles(u64 *seed, u64 from)
{
	u64 room = U64_MAX - from;
	u64 after = random_length(seed);

	if (!random_below(seed, 8))
		after = room - random_below(seed, 16);
	return from + (after <= room ? after : room);
}

static void line_equals_the_kernels_formula(struct kunit *test)
{
	struct fastclk_clock_reading clock;
	struct fastclk_line line;
	bool published[FASTCLK_LINE_MAX_SHIFT + 1] = { false };
	u64 cycles, seed = 1;
	u32 i, shift;

	for (i = 0; i < TUPLES; i++) {
		random_clock(&seed, &clock);
		cycles = random_cycles(&seed, clock.cycle_last);
		shift = fastclk_line_shift(clock.mult, clock.shift);
		shift -= random_below(&seed, shift - clock.shift + 1);
		published[shift] = true;

		fastclk_line_make(&line, &clock, shift);
		KUNIT_ASSERT_EQ(test, line.shift, shift);
		KUNIT_ASSERT_EQ_MSG(test, fastclk_line_ns(&line, cycles),
				    kernel_ns(&clock, cycles),
				    "cycles %llx last %llx base %llx fraction %llx mult %x shift %u to %u",
				    cycles, clock.cycle_last, clock.base_ns, clock.fraction,
				    clock.mult, clock.shift, shift);
	}
	for (shift = 0; shift <= FASTCLK_LINE_MAX_SHIFT; shift++)
		KUNIT_EXPECT_TRUE_MSG(test, published[shift], "shift %u was never tried", shift);
}

/* The corners that random numbers seldom meet all at once. */
static void line_equals_the_kernels_formula_at_the_edges(struct kunit *test)
{
	static const u32 mults[] = { 1, 2, 1U << 31, U32_MAX };
	struct fastclk_clock_reading clock;
	struct fastclk_line line;
	u32 i, j, k, m, shift;

	for (i = 0; i < ARRAY_SIZE(edges); i++)
	for (j = 0; j < ARRAY_SIZE(edges); j++)
	for (k = i; k < ARRAY_SIZE(edges); k++)
	for (m = 0; m < ARRAY_SIZE(mults); m++)
	for (shift = 0; shift <= 32; shift += 8) {
		clock.cycle_last = edges[i];
		clock.base_ns = edges[j];
		clock.mult = mults[m];
		clock.shift = shift;
		clock.fraction = (1ULL << shift) - 1;
		fastclk_line_make(&line, &clock, fastclk_line_shift(clock.mult, shift));
		KUNIT_ASSERT_EQ(test, fastclk_line_ns(&line, edges[k]),
				kernel_ns(&clock, edges[k]));
	}
}

/*
 * mult and shift of a clocksource as clocks_calc_mult_shift() finds them for the kernel,
 * which wants ten minutes without an overflow.
 */
static void kernel_mult_shift(u32 khz, u32 *mult, u32 *shift)
{
	u64 cycles = (600ULL * 1000 * khz) >> 32;
	u64 quotient;
	u32 bits = 32;

	for (; cycles; cycles >>= 1)
		bits--;
	for (*shift = 32; ; --*shift) {
		quotient = ((1000000ULL << *shift) + khz / 2) / khz;
		if (!*shift || !(quotient >> bits))
			break;
	}
	*mult = quotient;
}

static void check_shift(struct kunit *test, u64 mult_max, u32 shift)
{
	u32 published = fastclk_line_shift(mult_max, shift);

	KUNIT_ASSERT_GE(test, published, shift);
	KUNIT_ASSERT_LE(test, published, (u32)FASTCLK_LINE_MAX_SHIFT);
	KUNIT_ASSERT_LE_MSG(test, mult_max, U64_MAX >> (published - shift),
			    "does not fit, shift %u to %u", shift, published);
	if (published < FASTCLK_LINE_MAX_SHIFT)
		KUNIT_ASSERT_GT(test, mult_max, U64_MAX >> (published - shift) >> 1);
}

/* NTP may change mult by 11 % (clocksource_max_adjustment()). */
static void shift_fits_every_counter_and_adjustment(struct kunit *test)
{
	struct fastclk_clock_reading clock = { .base_ns = THIRTY_YEARS_NS };
	u32 khz, mult, adjustment, published, i;
	struct fastclk_line line;
	u64 cycles, seed = 2;

	for (khz = 1000; khz <= 10000000; khz += 1 + khz / 1000) {
		kernel_mult_shift(khz, &mult, &clock.shift);
		adjustment = mult / 100 * 11;
		check_shift(test, (u64)mult + adjustment, clock.shift);
		published = fastclk_line_shift((u64)mult + adjustment, clock.shift);
		if (khz >= 1130000)
			KUNIT_ASSERT_EQ_MSG(test, published, 64U, "at %u kHz", khz);

		for (i = 0; i < 3; i++) {
			clock.mult = mult - adjustment + i * adjustment;
			clock.cycle_last = random_u64(&seed);
			clock.fraction = random_u64(&seed) & ((1ULL << clock.shift) - 1);
			cycles = random_cycles(&seed, clock.cycle_last);
			fastclk_line_make(&line, &clock, published);
			KUNIT_ASSERT_EQ_MSG(test, fastclk_line_ns(&line, cycles),
					    kernel_ns(&clock, cycles), "at %u kHz", khz);
		}
	}
}

static void shift_is_the_largest_that_fits(struct kunit *test)
{
	u32 shift, bits;
	u64 mult;

	for (shift = 0; shift <= 32; shift++) {
		for (bits = 0; bits <= 32; bits++) {
			mult = 1ULL << bits;
			check_shift(test, mult, shift);
			check_shift(test, mult + 1, shift);
			check_shift(test, 2 * mult - 1, shift);
		}
	}
	KUNIT_EXPECT_EQ(test, fastclk_line_shift(1, 0), 63U);
	KUNIT_EXPECT_EQ(test, fastclk_line_shift(1, 1), 64U);
	KUNIT_EXPECT_EQ(test, fastclk_line_shift(U32_MAX, 32), 64U);
	KUNIT_EXPECT_EQ(test, fastclk_line_shift(1ULL << 32, 32), 63U);
	KUNIT_EXPECT_EQ(test, fastclk_line_shift(U32_MAX, 24), 56U);
}

static u64 ns_in_pieces(const struct fastclk_line *line, u64 cycles)
{
	struct line_in_pieces pieces = {
		.mult = line->mult,
		.offset_lo = line->offset_lo,
		.offset_hi = line->offset_hi,
		.shift = line->shift,
	};

	return line_in_pieces_ns(&pieces, cycles);
}

/* Worked out on paper, so that both ways can be wrong. */
static void conversion_gives_known_answers(struct kunit *test)
{
	static const struct {
		struct fastclk_line line;
		u64 cycles, ns;
	} known[] = {
		/* (2^64 - 1)^2 = 2^128 - 2^65 + 1 */
		{ { U64_MAX, 0, 0, 64 }, U64_MAX, U64_MAX - 1 },
		{ { U64_MAX, 0, 0, 0 }, U64_MAX, 1 },
		{ { U64_MAX, 0, 0, 1 }, U64_MAX, 0 },
		{ { U64_MAX, 0, 0, 63 }, U64_MAX, U64_MAX - 3 },
		/* a carry out of the low word, and one that ends in it */
		{ { U64_MAX, U64_MAX, 0, 64 }, U64_MAX, U64_MAX },
		{ { 1, U64_MAX, 0, 64 }, 1, 1 },
		{ { 1, U64_MAX - 1, 0, 64 }, 1, 0 },
		/* the sum wraps: offset -1, -2^64 */
		{ { 1, U64_MAX, U64_MAX, 0 }, 1, 0 },
		{ { 1ULL << 63, 0, U64_MAX, 64 }, 4, 1 },
		/* half a nanosecond a cycle */
		{ { 1ULL << 63, 0, 7, 64 }, 5, 9 },
		{ { 1ULL << 31, 0, 0, 32 }, 5, 2 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		KUNIT_EXPECT_EQ_MSG(test, fastclk_line_ns(&known[i].line, known[i].cycles),
				    known[i].ns, "number %u", i);
		KUNIT_EXPECT_EQ_MSG(test, ns_in_pieces(&known[i].line, known[i].cycles),
				    known[i].ns, "number %u, in pieces", i);
	}
}

static void conversion_without_int128_is_the_same(struct kunit *test)
{
	struct fastclk_line line;
	u64 cycles, seed = 3;
	u32 i, j, k, m;

	for (i = 0; i < LINES; i++) {
		line.mult = random_or_edge(&seed);
		line.offset_lo = random_or_edge(&seed);
		line.offset_hi = random_or_edge(&seed);
		line.shift = random_below(&seed, FASTCLK_LINE_MAX_SHIFT + 1);
		cycles = random_or_edge(&seed);
		KUNIT_ASSERT_EQ_MSG(test, ns_in_pieces(&line, cycles),
				    fastclk_line_ns(&line, cycles),
				    "cycles %llx mult %llx offset %llx:%llx shift %u",
				    cycles, line.mult, line.offset_hi, line.offset_lo, line.shift);
	}

	line.offset_hi = 0;
	for (i = 0; i < ARRAY_SIZE(edges); i++)
	for (j = 0; j < ARRAY_SIZE(edges); j++)
	for (k = 0; k < ARRAY_SIZE(edges); k++)
	for (m = 0; m <= FASTCLK_LINE_MAX_SHIFT; m++) {
		line.mult = edges[i];
		line.offset_lo = edges[j];
		line.shift = m;
		KUNIT_ASSERT_EQ(test, ns_in_pieces(&line, edges[k]),
				fastclk_line_ns(&line, edges[k]));
	}
}

static struct kunit_case line_cases[] = {
	KUNIT_CASE(line_equals_the_kernels_formula),
	KUNIT_CASE(line_equals_the_kernels_formula_at_the_edges),
	KUNIT_CASE(shift_fits_every_counter_and_adjustment),
	KUNIT_CASE(shift_is_the_largest_that_fits),
	KUNIT_CASE(conversion_gives_known_answers),
	KUNIT_CASE(conversion_without_int128_is_the_same),
	{ .run_case = NULL }
};

static struct kunit_suite line_suite = {
	.name = "fastclk_line",
	.test_cases = line_cases,
};
kunit_test_suite(line_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of fastclk's lines");
