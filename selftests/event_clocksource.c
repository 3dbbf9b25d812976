// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's clocksource is switched: the mode follows, all who are to be told of an event
 * are told of each, and what they are told is what the page says. When nothing changes,
 * nobody is told. Run by guest_events.sh, in a guest with the clocksources tsc and hpet.
 */
#include "device.h"
#include "events.h"

#include <inttypes.h>

#define CLOCKSOURCE	"/sys/devices/system/clocksource/clocksource0/current_clocksource"

static struct events events;

static void take_clocksource(const char *name)
{
	assert_int_equal(write_text(CLOCKSOURCE, name), 0);
}

static int end_watched(void **state)
{
	write_text(CLOCKSOURCE, "tsc");
	return end_test(state);
}

#define watched_test(begin, function)	\
	cmocka_unit_test_setup_teardown(function, begin, end_watched)

static void load(const char *parameters)
{
	if (module_is_loaded())
		unload_when_free();
	assert_int_equal(load_module(parameters), 0);
}

/* In a guest under emulation the processor does not say that its counter is invariant. */
static int begin_variable(void **state)
{
	begin_test(state);
	load(QUIETLY);
	return 0;
}

static int begin_disciplined(void **state)
{
	begin_test(state);
	load(QUIETLY " assume_invariant=1");
	return 0;
}

static void assert_told(unsigned int wanted, const char *expected)
{
	const char *text = events_missing(&events, wanted, expected, SOON_MS);

	if (text)
		fail_msg("%s", text);
}

static void assert_variable(const char *name, const char *expected)
{
	const char *value = events_variable(&events, name);

	if (!value || strcmp(value, expected))
		fail_msg("%s is %s in the uevent, and not %s", name, value ? value : "not", expected);
}

/* The uevent says what the files in sysfs say, once nothing changes any more. */
static void assert_uevent_is_true(void)
{
	char value[ATTRIBUTE_SIZE];

	read_attribute("verdict", value);
	assert_variable("FASTCLK_VERDICT", value);
	read_attribute("reason", value);
	assert_variable("FASTCLK_REASON", value);
	read_attribute("mode", value);
	assert_variable("FASTCLK_MODE", value);
	read_attribute("generation", value);
	assert_variable("FASTCLK_GENERATION", value);
}

static void assert_traced(unsigned int kind, const char *expected)
{
	unsigned int i = 0;

	while (kind >> i != 1)
		i++;
	if (!strstr(events.lines[i], expected))
		fail_msg("%s is \"%s\", without \"%s\"", events_names[i], events.lines[i],
			 expected);
}

/* Until the counter is fitted to hpet, and back, with everybody told of all of it. */
static void switch_there_and_back(const char *mode)
{
	struct fastclk_page before, there, back;
	char expected[64], traced[64];

	snprintf(expected, sizeof(expected), "FASTCLK_MODE=%s", mode);
	snprintf(traced, sizeof(traced), " new=%s ", mode);

	assert_attribute("mode", "lockstep");
	read_device(&before);
	events_open(&events);

	take_clocksource("hpet");
	assert_told(EVENTS_CHANGE | EVENTS_TRACE_UPDATE, expected);
	assert_uevent_is_true();
	assert_attribute("mode", mode);
	assert_attribute("clocksource", "hpet");
	assert_traced(EVENTS_TRACE_MODE, traced);
	read_device(&there);
	assert_true(there.hot.generation != before.hot.generation);
	assert_true(there.hot.status & FASTCLK_STATUS_LINE_VALID);
	assert_false(there.hot.status & FASTCLK_STATUS_LOCKSTEP);
	assert_true(there.verdict.error_ns > 0);
	assert_true(there.verdict.error_growth_ppb > 0);

	take_clocksource("tsc");
	assert_told(EVENTS_CHANGE | EVENTS_TRACE_UPDATE, "FASTCLK_MODE=lockstep");
	assert_uevent_is_true();
	assert_attribute("mode", "lockstep");
	assert_traced(EVENTS_TRACE_MODE, " new=lockstep ");
	assert_traced(EVENTS_TRACE_UPDATE, " error_ns=0");
	read_device(&back);
	assert_true(back.hot.generation != there.hot.generation);
	assert_true(back.hot.generation != before.hot.generation);
	assert_int_equal(back.hot.status, before.hot.status);
	assert_true(back.verdict.error_ns == 0);
	events_close(&events);
}

static void all_are_told_of_lockstep_and_variable(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++)
		switch_there_and_back("variable");
}

static void all_are_told_of_lockstep_and_disciplined(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++)
		switch_there_and_back("disciplined");
}

/* Events that come fast may be told as one, but what is told last is how it ends. */
static void a_storm_ends_with_the_truth(void **state)
{
	const unsigned int switches = 100;
	unsigned long uevents;
	unsigned int i;

	(void)state;
	events_open(&events);
	for (i = 0; i < switches; i++)
		take_clocksource(i % 2 ? "tsc" : "hpet");
	/* Only then, so that the sockets and buffers take it all. */
	take_clocksource("hpet");
	assert_told(EVENTS_CHANGE, "FASTCLK_MODE=disciplined");
	take_clocksource("tsc");
	assert_told(EVENTS_CHANGE, "FASTCLK_MODE=lockstep");
	assert_uevent_is_true();
	uevents = events.count[EVENTS_FILES - 1];
	print_message("# %lu uevents after %u switches\n", uevents, switches + 2);
	/* To hpet there are two changes, to no line and to the first fit; back, one. */
	assert_true(uevents <= (switches + 2) * 3 / 2);
	events_close(&events);
}

static void nobody_is_told_of_nothing(void **state)
{
	const char *text;

	(void)state;
	events_open(&events);
	recheck();
	text = events_missing(&events, EVENTS_TRACE_UPDATE | EVENTS_TRACE_EXCHANGE, NULL, SOON_MS);
	if (text)
		fail_msg("%s", text);
	/* Time for what would be told by mistake. */
	events_missing(&events, EVENTS_UEVENT, NULL, 200);
	assert_int_equal(events.count[EVENTS_FILES - 1], 0);
	assert_int_equal(events.count[0], 0);
	assert_int_equal(events.count[1], 0);
	assert_int_equal(events.count[3], 0);
	assert_string_equal(events.lines[6], "");
	assert_string_equal(events.lines[7], "");
	events_close(&events);
}

/* irq_works, which interrupt; of all CPUs. */
static unsigned long irq_works(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	unsigned long sum = 0;
	char line[4096], *at, *end;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		at = strstr(line, "IWI:");
		if (!at)
			continue;
		for (at += 4;; at = end) {
			unsigned long one = strtoul(at, &end, 10);

			if (at == end)
				break;
			sum += one;
		}
	}
	fclose(file);
	return sum;
}

static uint64_t updates(void)
{
	struct fastclk_page page;

	read_device(&page);
	return page.clocks.updates;
}

/* How many irq_works there were while 100 lines were published. */
static unsigned long irq_works_in_updates(void)
{
	unsigned long works = irq_works();
	uint64_t start = updates();

	while (updates() - start < 100)
		pause_ms(10);
	return irq_works() - works;
}

static void an_update_costs_nothing_that_is_not_traced(void **state)
{
	unsigned long off, on;

	(void)state;
	off = irq_works_in_updates();
	events_open(&events);
	on = irq_works_in_updates();
	events_close(&events);
	print_message("# irq_works in 100 updates: %lu, traced %lu\n", off, on);
	assert_true(on >= 90);
	assert_true(off < 50);
	off = irq_works_in_updates();
	assert_true(off < 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		watched_test(begin_variable, all_are_told_of_lockstep_and_variable),
		watched_test(begin_disciplined, all_are_told_of_lockstep_and_disciplined),
		watched_test(begin_disciplined, a_storm_ends_with_the_truth),
		settled_test(nobody_is_told_of_nothing),
		settled_test(an_update_costs_nothing_that_is_not_traced),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
