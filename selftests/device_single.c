// SPDX-License-Identifier: GPL-2.0-only
/*
 * A machine with one CPU: it agrees with itself, without a measurement. Run by
 * guest_device.sh, in such a guest.
 */
#include "device.h"

static void assert_alone_and_synced(void)
{
	struct fastclk_page copy;

	read_device(&copy);
	assert_int_equal(copy.verdict.verdict, FASTCLK_VERDICT_SYNCED);
	assert_int_equal(copy.verdict.reason, FASTCLK_REASON_USABLE);
	assert_true(copy.hot.status & FASTCLK_STATUS_COMPARABLE);
	assert_int_equal(copy.verdict.cpus, 1);
	assert_int_equal(copy.verdict.pairs, 0);
	assert_int_equal(copy.verdict.pairs_total, 0);
	assert_true(copy.verdict.exchanges == 0);
	assert_true(copy.verdict.max_skew_cycles == 0);
	assert_true(copy.verdict.max_warp_cycles == 0);
	assert_attribute("verdict", "synced");
	assert_attribute("pairs", "0");
	assert_attribute("worst_pair", "none");
	assert_attribute("bad_cpus", "");
}

static void one_cpu_is_synced(void **state)
{
	(void)state;
	assert_int_equal(sysconf(_SC_NPROCESSORS_ONLN), 1);
	assert_alone_and_synced();
}

static void and_stays_so_when_checked_again(void **state)
{
	(void)state;
	assert_int_equal(recheck(), 0);
	assert_alone_and_synced();
}

static void loads_again(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		assert_int_equal(unload_module(), 0);
		assert_int_equal(load_module(""), 0);
		assert_alone_and_synced();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		bounded_test(one_cpu_is_synced),
		bounded_test(and_stays_so_when_checked_again),
		bounded_test(loads_again),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
