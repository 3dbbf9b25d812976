/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests share that take CPUs off and on, or make their counters wrong: in guests
 * with the module's test build only.
 */
#ifndef _SELFTESTS_HOTPLUG_H
#define _SELFTESTS_HOTPLUG_H

#include "device.h"
#include "events.h"

#include <fastclk.h>

/* A CPU is expected to come and go. */
static inline void set_online(unsigned int cpu, bool online)
{
	char path[128];
	int ret;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	ret = write_text(path, online ? "1" : "0");
	if (ret)
		fail_msg("CPU %u does not go %s: %s", cpu, online ? "on" : "off", strerror(-ret));
}

/* "CPU:CYCLES[:PPB]", or nothing. An empty write would not get through to the module. */
static inline void set_fault(const char *fault)
{
	assert_int_equal(write_text("/sys/module/fastclk/parameters/fault", *fault ? fault : "\n"),
			 0);
}

static inline int load_with(const char *parameters)
{
	if (module_is_loaded())
		unload_when_free();
	return load_module(parameters);
}

/* Where CPUs are short, the module may have to go on in the background. The deadline ends this. */
static inline void await_attribute(const char *name, const char *expected)
{
	char value[ATTRIBUTE_SIZE];

	for (;;) {
		read_attribute(name, value);
		if (!strcmp(value, expected))
			return;
		pause_ms(10);
	}
}

/* Wherever somebody may wait for it, an event was told; @expected as in events_missing(). */
static inline void assert_told(struct events *events, unsigned int wanted, const char *expected)
{
	const char *text = events_missing(events, wanted, expected, SOON_MS);

	if (text)
		fail_msg("%s", text);
}

/* As it was, whatever the test came to. */
static inline int load_plainly(void **state)
{
	char path[128];
	unsigned int cpu;

	end_test(state);
	alarm(DEADLINE_S);
	for (cpu = 1; cpu < (unsigned int)sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
		write_text(path, "1");
	}
	write_text("/sys/module/fastclk/parameters/fault", "\n");
	if (load_with(""))
		return -1;
	alarm(0);
	return 0;
}

#endif /* _SELFTESTS_HOTPLUG_H */
