// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reader and the error that a page admits: the bound that belongs to a stamp is the
 * page's, grown since; it is never mixed with another line's; a page is believed when it is
 * off by no more than it admits; and a variable rate is only for those who ask for it.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <setjmp.h>
#include <cmocka.h>

#include "native_page.h"

#define LOOKS		100000
#define PATIENCE_NS	30000000000

static struct native_page native;

/* As in disciplined mode: the clock is ahead by @ahead_ns, and the page admits an error. */
static void publish(int64_t ahead_ns, uint64_t error_ns, uint32_t growth_ppb, uint64_t begin)
{
	static int64_t ahead;
	struct fastclk_page *page = native.page;
	fastclk_u128 offset = (fastclk_u128)page->hot.offset_hi << 64 | page->hot.offset_lo;
	fastclk_u128 raw = (fastclk_u128)page->clocks.raw_offset_hi << 64 |
			   page->clocks.raw_offset_lo;

	offset += (fastclk_u128)(uint64_t)(ahead_ns - ahead) << 64;
	raw += (fastclk_u128)(uint64_t)(ahead_ns - ahead) << 64;
	ahead = ahead_ns;

	fastclk_publish_begin(page);
	page->hot.offset_hi = (uint64_t)(offset >> 64);
	page->clocks.raw_offset_hi = (uint64_t)(raw >> 64);
	page->verdict.mode = FASTCLK_MODE_DISCIPLINED;
	page->verdict.error_ns = error_ns;
	page->verdict.error_growth_ppb = growth_ppb;
	page->verdict.error_cycles = begin;
	fastclk_publish_generation(page);
	fastclk_publish_end(page);
}

static void publish_status(uint32_t status)
{
	fastclk_publish_begin(native.page);
	fastclk_publish_status(native.page, status);
	fastclk_publish_end(native.page);
}

#define CONSTANT	(FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_COMPARABLE |	\
			 FASTCLK_STATUS_CONSTANT_RATE)

static int begin(void **state)
{
	(void)state;
	publish_status(CONSTANT);
	publish(0, 0, 0, 0);
	return 0;
}

static int open_with(struct fastclk *clk, unsigned int flags)
{
	return fastclk_open_at(clk, native.path, flags);
}

static void the_bound_grows(void **state)
{
	uint64_t hz = native.page->clocks.frequency_hz, error, since, expected;
	struct fastclk_stamp stamp;
	struct fastclk clk;
	unsigned int i;

	(void)state;
	publish(0, 1000000, 0, fastclk_counter_ordered());
	assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_PAGE);
	assert_int_equal(fastclk_stamp_error(&clk, CLOCK_MONOTONIC, &stamp, &error), 0);
	assert_true(error == 1000000);

	/* Since 0, 1, 2 ... 9 s, by 50 ppm, and by a factor of 4. */
	for (i = 0; i < 20; i++) {
		uint32_t growth = i % 2 ? 50000 : 4000000000U;

		since = fastclk_counter_ordered() - i / 2 * hz;
		publish(0, 700, growth, since);
		assert_int_equal(fastclk_stamp_error(&clk, CLOCK_TAI, &stamp, &error), 0);
		assert_int_equal(stamp.generation, native.page->hot.generation);
		expected = 700 + (uint64_t)((double)(stamp.cycles - since) / (double)hz * growth);
		assert_true(error >= expected);
		/* Rounded up: by a MHz, and by 1 us of growth. */
		assert_true(error <= expected + expected / (hz / 1000000 - 1) + growth / 1000000 + 2);
	}

	/* Not begun yet, where a CPU's counter is behind. */
	publish(0, 700, 4000000000U, fastclk_counter_ordered() + hz);
	assert_int_equal(fastclk_stamp_error(&clk, CLOCK_TAI, &stamp, &error), 0);
	assert_true(error >= 700 && error <= 700 + 4001);
	fastclk_close(&clk);
}

static void a_fallback_has_no_error(void **state)
{
	struct fastclk_stamp stamp;
	struct fastclk clk;
	uint64_t error = 1, before;

	(void)state;
	publish(0, 1000000, 0, 0);
	assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_PAGE);
	publish_status(0);
	before = fastclk_gettime_ns(CLOCK_MONOTONIC);
	assert_int_equal(fastclk_stamp_error(&clk, CLOCK_MONOTONIC, &stamp, &error),
			 FASTCLK_SOURCE_STATUS);
	assert_true(before <= stamp.ns && stamp.ns <= fastclk_gettime_ns(CLOCK_MONOTONIC));
	assert_int_equal(stamp.generation, 0);
	assert_true(error == 0);
	fastclk_close(&clk);
}

static void a_page_is_believed_within_its_error(void **state)
{
	static const int64_t aheads[] = { 10000000, -10000000 };
	struct fastclk clk;
	unsigned int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		publish(aheads[i], 0, 0, 0);
		assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_CONTRADICTION);
		fastclk_close(&clk);
		publish(aheads[i], 9000000, 0, 0);
		assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_CONTRADICTION);
		fastclk_close(&clk);
		publish(aheads[i], 11000000, 0, 0);
		assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_PAGE);
		fastclk_close(&clk);
		/* 10 ms and more have grown since a second ago. */
		publish(aheads[i], 0, 11000000,
			fastclk_counter_ordered() - native.page->clocks.frequency_hz);
		assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_PAGE);
		fastclk_close(&clk);
	}
}

static void a_variable_rate_must_be_asked_for(void **state)
{
	struct fastclk_snapshot snapshot;
	struct fastclk_stamp stamp;
	struct fastclk clk;

	(void)state;
	publish_status(CONSTANT & ~FASTCLK_STATUS_CONSTANT_RATE);
	assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_VARIABLE_RATE);
	assert_non_null(strstr(fastclk_why(&clk), "rate"));
	assert_non_null(strstr(fastclk_why(&clk), "FASTCLK_VARIABLE_RATE"));
	assert_int_equal(fastclk_stamp(&clk, CLOCK_MONOTONIC, &stamp),
			 FASTCLK_SOURCE_VARIABLE_RATE);
	assert_int_equal(stamp.generation, 0);
	assert_int_equal(fastclk_snapshot(&clk, &snapshot), FASTCLK_SOURCE_VARIABLE_RATE);
	/* It is used as soon as the rate is constant. */
	publish_status(CONSTANT);
	assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_PAGE);
	fastclk_close(&clk);

	publish_status(CONSTANT & ~FASTCLK_STATUS_CONSTANT_RATE);
	assert_int_equal(open_with(&clk, FASTCLK_VARIABLE_RATE), FASTCLK_SOURCE_PAGE);
	assert_int_equal(fastclk_stamp(&clk, CLOCK_MONOTONIC, &stamp), FASTCLK_SOURCE_PAGE);
	assert_int_equal(stamp.generation, native.page->hot.generation);
	/* More is missing: then that is why. */
	publish_status(FASTCLK_STATUS_LINE_VALID);
	assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_STATUS);
	fastclk_close(&clk);
	assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_STATUS);
	fastclk_close(&clk);
}

/* Far more than a thread waits for a CPU. */
#define FAR_NS		1000000000000

/* By turns, the page is right to 1 ms, and wrong, but admits it. */
static void *flip(void *stop)
{
	uint64_t until;
	unsigned int i;

	for (i = 0; !__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE); i++) {
		publish(i % 2 ? FAR_NS : 0, 1000000 + (i % 2 ? FAR_NS : 0), 0, 0);
		/* So that the reader gets its turn, at any moment of it. */
		until = fastclk_counter() + i % 64 * 100;
		while (fastclk_counter() < until)
			;
	}
	return NULL;
}

static void a_stamp_has_the_error_of_its_own_line(void **state)
{
	uint64_t error, real, begin, wrong = 0, looks[2] = { 0, 0 };
	struct fastclk_stamp stamp;
	bool stop = false, ahead;
	struct fastclk clk;
	pthread_t writer;

	(void)state;
	publish(0, 1000000, 0, 0);
	assert_int_equal(open_with(&clk, 0), FASTCLK_SOURCE_PAGE);
	assert_int_equal(pthread_create(&writer, NULL, flip, &stop), 0);
	begin = fastclk_gettime_ns(CLOCK_MONOTONIC);
	do {
		real = fastclk_gettime_ns(CLOCK_MONOTONIC);
		if (fastclk_stamp_error(&clk, CLOCK_MONOTONIC, &stamp, &error) !=
		    FASTCLK_SOURCE_PAGE)
			continue;
		ahead = stamp.ns > real + FAR_NS / 2;
		looks[ahead]++;
		wrong += error != 1000000 + (ahead ? FAR_NS : 0);
	} while ((looks[0] < LOOKS || looks[1] < LOOKS) && real - begin < PATIENCE_NS);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(writer, NULL);
	print_message("# %lu looks at the right clock, %lu at the wrong one, %lu mixed\n",
		      (unsigned long)looks[0], (unsigned long)looks[1], (unsigned long)wrong);
	assert_true(looks[0] >= LOOKS);
	assert_true(looks[1] >= LOOKS);
	assert_true(wrong == 0);
	fastclk_close(&clk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_bound_grows, begin),
		cmocka_unit_test_setup(a_fallback_has_no_error, begin),
		cmocka_unit_test_setup(a_page_is_believed_within_its_error, begin),
		cmocka_unit_test_setup(a_variable_rate_must_be_asked_for, begin),
		cmocka_unit_test_setup(a_stamp_has_the_error_of_its_own_line, begin),
	};

	native = native_page_create();
	/* As accurate as the bound needs it. */
	native.page->clocks.frequency_hz = (uint64_t)(18446744073709551616.0 * 1e9 /
						      (double)native.page->hot.mult);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
