// SPDX-License-Identifier: GPL-2.0-only
/*
 * In a guest, with the page that the module writes: the ordered reader never goes back
 * across threads, while the kernel's clock is slewed (selftests/disturb --slew).
 *
 *	monotonic [STAMPS]	default 2 million
 *
 * Only slewed, since what is promised is what the kernel's own clock gives, and that may
 * go back when the rate changes: by the old rate minus the new one, times the microsecond
 * of the update. With 1,000 ppm that is a nanosecond, with the 10 % of a tick change 100.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>
#include "monotonic.h"

static unsigned long stamps = 2000000;
static struct fastclk clk;

static void ordered_never_goes_back(void **state)
{
	uint64_t updates = FASTCLK_LOAD64(clk.page->clocks.updates);
	struct hand_over_thread sum = hand_over(&clk, false, stamps);

	(void)state;
	updates = FASTCLK_LOAD64(clk.page->clocks.updates) - updates;
	printf("# ordered: %lu stamps, %lu fallbacks, page rewritten %llu times, %lu backwards, by %llu ns at most\n",
	       sum.stamps, sum.fallbacks, (unsigned long long)updates, sum.backwards,
	       (unsigned long long)sum.largest_ns);
	assert_true(sum.stamps >= stamps);
	assert_int_equal(sum.backwards, 0);
	assert_true(updates > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordered_never_goes_back),
	};

	if (argc > 1)
		stamps = strtoul(argv[1], NULL, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	/* FASTCLK_ONE_CPU: on a busy host there may be no verdict yet, which is not needed here. */
	if (fastclk_open(&clk, FASTCLK_ONE_CPU | FASTCLK_TEST_BUILD)) {
		printf("Bail out! %s\n", fastclk_why(&clk));
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
