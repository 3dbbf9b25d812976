// SPDX-License-Identifier: GPL-2.0-only
/*
 * The periodic check: a counter that begins to drift after the module was loaded is found
 * by the second check at the latest, its CPU is named, all are told, and readers fall back;
 * counters that do not drift stay synced, and readers notice nothing. Run by guest_hotplug.sh,
 * in a guest with four CPUs and the module's test build.
 */
#include "hotplug.h"

/* 10 ppm: 20 us in the two seconds between checks. */
#define DRIFT	"2:0:10000"

static uint32_t measurements(void)
{
	struct fastclk_page copy;

	read_device(&copy);
	return copy.verdict.measurements;
}

static void await_measurements(uint32_t count)
{
	while ((int32_t)(measurements() - count) < 0)
		pause_ms(20);
}

static void no_drift_no_alarm(void **state)
{
	struct fastclk_page before, after;

	(void)state;
	assert_int_equal(load_with("recheck_seconds=1"), 0);
	settle();
	read_device(&before);
	await_measurements(before.verdict.measurements + 3);
	read_device(&after);
	assert_int_equal(after.verdict.verdict, FASTCLK_VERDICT_SYNCED);
	assert_int_equal(after.hot.generation, before.hot.generation);
	/*
	 * 64 exchanges a pair, both ways, and some more when pairs have to be tried again, but
	 * not the 1,000 that others make.
	 */
	assert_true(after.verdict.exchanges >= 6 * 2 * 64);
	while (after.verdict.exchanges >= 6 * 2 * 1000) {
		await_measurements(after.verdict.measurements + 1);
		read_device(&after);
	}
}

static void drift_is_found_named_and_told(void **state)
{
	struct events events;
	struct fastclk clk;
	uint32_t before;

	(void)state;
	assert_int_equal(load_with("recheck_seconds=2"), 0);
	settle();
	assert_int_equal(fastclk_open(&clk, FASTCLK_TEST_BUILD), 0);
	assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_PAGE);
	events_open(&events);
	set_fault(DRIFT);
	before = measurements();
	await_attribute("verdict", "unsynced");
	assert_true(measurements() - before <= 2);
	await_attribute("bad_cpus", "2");
	assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_STATUS);
	assert_told(&events, EVENTS_VERDICT_CHANGE, "FASTCLK_VERDICT=unsynced");

	/* A drift that ended is found as well. */
	set_fault("");
	await_attribute("verdict", "synced");
	assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_PAGE);
	assert_told(&events, EVENTS_VERDICT_CHANGE, "FASTCLK_VERDICT=synced");
	events_close(&events);
	fastclk_close(&clk);
}

static void zero_is_never(void **state)
{
	uint32_t before;

	(void)state;
	assert_int_equal(load_with("recheck_seconds=0"), 0);
	settle();
	before = measurements();
	pause_ms(1500);
	assert_int_equal(measurements(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_drift_no_alarm, begin_test, load_plainly),
		cmocka_unit_test_setup_teardown(drift_is_found_named_and_told, begin_test,
						load_plainly),
		cmocka_unit_test_setup_teardown(zero_is_never, begin_test, load_plainly),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
