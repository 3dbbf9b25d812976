// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verdict changes, the module is revoked, and unloaded: all who are to be told are, also
 * of what was measured. Run by guest_events.sh, with the module's test build, which can be
 * told that a CPU's counter is wrong.
 */
#include "device.h"
#include "events.h"

/* Far beyond what two CPUs need to see. */
#define FAULT_CYCLES	100000000

static struct events events;

static void set_fault(const char *fault)
{
	assert_int_equal(write_text("/sys/module/fastclk/parameters/fault", fault), 0);
}

static void reach_verdict(const char *verdict)
{
	char value[ATTRIBUTE_SIZE];

	/* Where CPUs are short, a measurement may end without a result. The deadline ends this. */
	do {
		recheck();
		read_attribute("verdict", value);
	} while (strcmp(value, verdict));
}

static void assert_told(unsigned int wanted, const char *expected)
{
	const char *text = events_missing(&events, wanted, expected, SOON_MS);

	if (text)
		fail_msg("%s", text);
}

static void assert_line(unsigned int kind, const char *expected)
{
	if (!strstr(events.lines[kind], expected))
		fail_msg("%s is \"%s\", without \"%s\"", events_names[kind], events.lines[kind],
			 expected);
}

/* What is traced is what was injected, give or take a round trip. */
static void assert_exchange(bool wrong)
{
	const char *line = strstr(events.lines[9], "cpus=");
	unsigned int a, b, exchanges;
	long long lo, hi;

	assert_non_null(line);
	assert_int_equal(sscanf(line, "cpus=%u,%u lo=%lld hi=%lld exchanges=%u", &a, &b, &lo, &hi,
				&exchanges), 5);
	assert_true((a == 0 && b == 1) || (a == 1 && b == 0));
	assert_true(lo <= hi);
	assert_true(exchanges > 0);
	if (!wrong)
		assert_true(lo <= 0 && hi >= 0);
	else if (a == 0)
		assert_true(lo <= -FAULT_CYCLES && hi >= -FAULT_CYCLES && hi < 0);
	else
		assert_true(lo <= FAULT_CYCLES && hi >= FAULT_CYCLES && lo > 0);
}

static void all_are_told_of_the_verdict(void **state)
{
	char fault[32];

	(void)state;
	snprintf(fault, sizeof(fault), "1:%d", FAULT_CYCLES);
	events_open(&events);
	set_fault(fault);
	reach_verdict("unsynced");
	assert_told(EVENTS_VERDICT_CHANGE, "FASTCLK_VERDICT=unsynced");
	assert_line(6, "old=synced new=unsynced ");
	assert_line(6, " pairs=1 pairs_total=1 bad_cpus=2");
	assert_line(7, "old=lockstep new=lockstep reason=unsynced ");
	assert_exchange(true);
	assert_string_equal(events_variable(&events, "FASTCLK_REASON"), "unsynced");

	/* An empty write would not get through to the module. */
	set_fault("\n");
	reach_verdict("synced");
	assert_told(EVENTS_VERDICT_CHANGE, "FASTCLK_VERDICT=synced");
	assert_line(6, "old=unsynced new=synced ");
	assert_line(6, " max_warp_cycles=0 pairs=1 pairs_total=1 bad_cpus=0");
	assert_line(7, "old=lockstep new=lockstep reason=usable ");
	assert_exchange(false);
	assert_string_equal(events_variable(&events, "FASTCLK_REASON"), "usable");
	events_close(&events);
}

static void all_are_told_of_revoking(void **state)
{
	(void)state;
	events_open(&events);
	assert_int_equal(write_attribute("revoke", "1"), 0);
	assert_told(EVENTS_CHANGE, "FASTCLK_REASON=revoked");
	assert_string_equal(events_variable(&events, "FASTCLK_MODE"), "unusable");
	assert_line(7, "old=lockstep new=unusable reason=revoked ");
	events_close(&events);
}

/* The buffer, with records of tracepoints that are gone, can still be read. */
static void it_can_be_unloaded_while_it_is_traced(void **state)
{
	char text[256];
	int trace;

	(void)state;
	trace = events_tracing();
	assert_int_equal(write_attribute("revoke", "1"), 0);
	unload_when_free();
	read_text(EVENTS_INSTANCE "trace", text, sizeof(text));
	close(trace);
	assert_int_equal(rmdir(EVENTS_INSTANCE), 0);
	assert_int_equal(load_module(""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		settled_test(all_are_told_of_the_verdict),
		settled_test(all_are_told_of_revoking),
		settled_test(it_can_be_unloaded_while_it_is_traced),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
