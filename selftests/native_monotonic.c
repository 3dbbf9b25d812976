// SPDX-License-Identifier: GPL-2.0-only
/*
 * On this machine's real counters: the ordered reader never goes back across threads, while
 * the page is rewritten all the time with other slopes. The relaxed reader does go back,
 * which shows that the test can fail.
 *
 * 20 million stamps; ten times as many with SOAK=1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>
#include "monotonic.h"
#include "native_page.h"

#define STAMPS		20000000UL
#define ATTEMPTS	10		/* to get CPUs that agree, or the relaxed reader caught */

static struct native_page native;
static struct fastclk clk;
static bool stop;
static unsigned long rewrites;

static unsigned long stamps_wanted(void)
{
	return getenv("SOAK") ? 10 * STAMPS : STAMPS;
}

static u64 ordered_counter(void)
{
	return fastclk_counter_ordered();
}

/*
 * A new slope, from half to one and a half of the first one, from where the old line is
 * now. The joint is exact: no reader can use the old line for a counter value behind it.
 * (Joined some 200 ns too late, 20 million stamps went back 30 to 170 times. With a full barrier
 * and the next counter value for a joint, 6 of 100 runs went back, once or twice each.)
 */
static void rewrite(uint64_t slope, uint32_t random)
{
	u32 khz = (u32)(((fastclk_u128)1000000 << 64) / slope);
	struct fastclk_page *page = native.page;
	struct fastclk_line line = {
		page->hot.mult, page->hot.offset_lo, page->hot.offset_hi, page->hot.shift,
	};
	uint64_t mult = slope / 2 + (slope >> 16) * (random & 0xffff);
	fastclk_u128 offset, at;
	uint64_t joint;

	fastclk_publish_begin(page);
	joint = fastclk_publish_joint(page, ordered_counter, khz);
	at = (fastclk_u128)joint * line.mult +
	     ((fastclk_u128)line.offset_hi << 64 | line.offset_lo);
	offset = at - (fastclk_u128)joint * mult;
	line.mult = mult;
	line.offset_lo = (uint64_t)offset;
	line.offset_hi = (uint64_t)(offset >> 64);
	fastclk_publish_line(page, &line);
	fastclk_publish_end(page);
}

static void *write_page(void *unused)
{
	const struct timespec pause = { 0, 100000 };
	uint64_t slope = native.page->hot.mult;
	uint32_t random = 1;

	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		random = random * 1664525 + 1013904223;
		rewrite(slope, random >> 16);
		rewrites++;
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static struct hand_over_thread run(bool relaxed)
{
	uint64_t begin = fastclk_gettime_ns(CLOCK_MONOTONIC_RAW), ms;
	struct hand_over_thread sum;
	pthread_t writer;

	stop = false;
	rewrites = 0;
	assert_int_equal(pthread_create(&writer, NULL, write_page, NULL), 0);
	sum = hand_over(&clk, relaxed, stamps_wanted());
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(writer, NULL);
	ms = (fastclk_gettime_ns(CLOCK_MONOTONIC_RAW) - begin) / 1000000;
	printf("# %s: %lu stamps in %llu ms, %lu fallbacks, page rewritten %lu times, %lu backwards, by %llu ns at most, %lu of the counter itself\n",
	       relaxed ? "relaxed" : "ordered", sum.stamps, (unsigned long long)ms, sum.fallbacks,
	       rewrites, sum.backwards, (unsigned long long)sum.largest_ns,
	       sum.counter_backwards);
	assert_true(sum.stamps >= stamps_wanted());
	/* At 1 kHz and more. */
	assert_true(rewrites >= ms);
	return sum;
}

static void ordered_never_goes_back(void **state)
{
	struct hand_over_thread sum;
	int attempt;

	(void)state;
	for (attempt = 0; attempt < ATTEMPTS; attempt++) {
		sum = run(false);
		/* What the counter does is no fault of the reader, and shows nothing about it. */
		if (!sum.counter_backwards) {
			assert_int_equal(sum.backwards, 0);
			return;
		}
	}
	printf("# the counters of this machine disagree\n");
	skip();
}

static void relaxed_goes_back(void **state)
{
	int attempt;

	(void)state;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	for (attempt = 0; attempt < ATTEMPTS; attempt++)
		if (run(true).backwards)
			return;
	fail_msg("the relaxed reader was not seen to go back: does this test work?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordered_never_goes_back),
		cmocka_unit_test(relaxed_goes_back),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	native = native_page_create();
	if (fastclk_open_at(&clk, native.path, 0)) {
		printf("Bail out! %s\n", fastclk_why(&clk));
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
