// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verdict is about the CPUs that are online, from the first on: one CPU is synced, the
 * others join as they are brought up, and a CPU that must not be tested (cpus=) makes it
 * unknown for as long as it is online. Run by guest_hotplug.sh, in a guest that has four CPUs
 * of which one was started (maxcpus=1), and the module's test build.
 */
#include "hotplug.h"

#define CPUS	4

static void expect_cpus(unsigned int tested, unsigned int online)
{
	struct fastclk_page copy;

	read_device(&copy);
	assert_int_equal(copy.verdict.cpus, tested);
	assert_int_equal(copy.verdict.pairs_total, online * (online - 1) / 2);
}

static void cpus_join_as_they_are_brought_up(void **state)
{
	unsigned int cpu;

	(void)state;
	assert_int_equal(load_with(""), 0);
	assert_attribute("verdict", "synced");
	assert_attribute("reason", "usable");
	expect_cpus(1, 1);
	for (cpu = 1; cpu < CPUS; cpu++) {
		if (cpu == CPUS - 1)
			set_fault("3:-100000");
		set_online(cpu, true);
		expect_cpus(cpu + 1, cpu + 1);
		await_attribute("verdict", cpu == CPUS - 1 ? "offset" : "synced");
	}
	await_attribute("bad_cpus", "3");
	/* And leave. */
	for (cpu = CPUS - 1; cpu; cpu--) {
		set_online(cpu, false);
		await_attribute("verdict", "synced");
		expect_cpus(cpu, cpu);
	}
	set_fault("");
}

static void a_cpu_left_out_makes_it_unknown_while_it_is_there(void **state)
{
	int turn;

	(void)state;
	assert_int_equal(load_with("cpus=0-1"), 0);
	assert_attribute("verdict", "synced");
	for (turn = 0; turn < 2; turn++) {
		set_online(2, true);
		assert_attribute("verdict", "unknown");
		assert_attribute("reason", "incomplete");
		expect_cpus(1, 2);
		set_online(1, true);
		assert_attribute("verdict", "unknown");
		expect_cpus(2, 3);
		set_online(2, false);
		await_attribute("verdict", "synced");
		expect_cpus(2, 2);
		set_online(1, false);
		assert_attribute("verdict", "synced");
		expect_cpus(1, 1);
	}
}

static void all_tested_cpus_may_leave(void **state)
{
	(void)state;
	set_online(1, true);
	assert_int_equal(load_with("cpus=1"), 0);
	assert_attribute("verdict", "unknown");
	set_online(1, false);
	assert_attribute("verdict", "unknown");
	expect_cpus(0, 1);
	assert_int_equal(recheck(), 0);
	assert_attribute("verdict", "unknown");
	set_online(1, true);
	assert_attribute("verdict", "unknown");
	expect_cpus(1, 2);
}

/* As the guest was started. */
static int leave_one(void **state)
{
	char path[128];
	unsigned int cpu;

	begin_test(state);
	for (cpu = 1; cpu < CPUS; cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
		write_text(path, "0");
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cpus_join_as_they_are_brought_up, leave_one,
						load_plainly),
		cmocka_unit_test_setup_teardown(a_cpu_left_out_makes_it_unknown_while_it_is_there,
						leave_one, load_plainly),
		cmocka_unit_test_setup_teardown(all_tested_cpus_may_leave, leave_one,
						load_plainly),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
