// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module's parameters: wrong ones are refused, by a message that names parameter,
 * value and what is allowed; right ones do what modinfo says. Run by guest_device.sh, in a
 * guest with two CPUs.
 */
#include "device.h"

#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))

static int unload(void **state)
{
	begin_test(state);
	unload_when_free();
	return 0;
}

static int load_again(void **state)
{
	if (!module_is_loaded())
		load_module("");
	return end_test(state);
}

#define parameter_test(function)	\
	cmocka_unit_test_setup_teardown(function, unload, load_again)

/* One message that has all the words. */
static bool log_has(int log, const char * const words[4])
{
	char line[2048];
	bool all, found = false;
	unsigned int i;

	while (next_log_line(log, line, sizeof(line))) {
		all = true;
		for (i = 0; i < 4 && words[i]; i++)
			all &= !!strstr(line, words[i]);
		found |= all;
		print_message("# log: %s", line);
	}
	return found;
}

static void refuses_what_is_wrong(void **state)
{
	static const struct {
		const char *parameters;
		int error;
		const char *words[4];
	} cases[] = {
		{ "budget_ms=5", -EINVAL, { "fastclk: ", "budget_ms=5 ", "10", "60000" } },
		{ "budget_ms=9", -EINVAL, { "fastclk: ", "budget_ms=9 ", "10", "60000" } },
		{ "budget_ms=60001", -EINVAL, { "fastclk: ", "budget_ms=60001 ", "10", "60000" } },
		{ "budget_ms=70000", -EINVAL, { "fastclk: ", "budget_ms=70000 ", "10", "60000" } },
		{ "budget_ms=abc", -EINVAL, { "fastclk: ", "budget_ms", "abc" } },
		{ "budget_ms=-1", -EINVAL, { "fastclk: ", "budget_ms", "-1" } },
		{ "budget_ms=4294967296", -ERANGE, { "fastclk: ", "budget_ms", "4294967296" } },
		{ "cpus=bogus", -EINVAL, { "fastclk: ", "cpus=\"bogus\"", "list", "below" } },
		{ "cpus=999", -EINVAL, { "fastclk: ", "cpus=\"999\"", "list", "below" } },
		{ "cpus=1-0", -EINVAL, { "fastclk: ", "cpus=\"1-0\"", "list", "below" } },
		{ "cpus=99999", -EINVAL, { "fastclk: ", "cpus=\"99999\"", "list", "below" } },
		{ "recheck_seconds=86401", -EINVAL,
		  { "fastclk: ", "recheck_seconds=86401 ", "1", "86400" } },
		{ "recheck_seconds=-1", -EINVAL, { "fastclk: ", "recheck_seconds", "-1" } },
		{ "idle_injection=maybe", -EINVAL, { "fastclk: ", "idle_injection", "maybe" } },
		{ "offsets=maybe", -EINVAL, { "fastclk: ", "offsets", "maybe" } },
	};
	unsigned int i;
	int log, ret;

	(void)state;
	log = open_log();
	for (i = 0; i < COUNT(cases); i++) {
		ret = load_module(cases[i].parameters);
		if (!log_has(log, cases[i].words))
			fail_msg("%s: the log does not say what is wrong", cases[i].parameters);
		if (ret != cases[i].error)
			fail_msg("%s: %d", cases[i].parameters, ret);
		/* And leaves nothing behind. */
		assert_false(module_is_loaded());
		assert_int_equal(access(DEVICE, F_OK), -1);
		assert_int_equal(access("/sys/kernel/debug/fastclk", F_OK), -1);
	}
	assert_int_equal(load_module(""), 0);
	assert_attribute("mode", "lockstep");
}

static void takes_the_ends_of_the_range(void **state)
{
	static const struct {
		const char *name;
		const char *value;
	} ends[] = {
		{ "budget_ms", "10" }, { "budget_ms", "60000" }, { "budget_ms", "0" },
		{ "recheck_seconds", "0" }, { "recheck_seconds", "1" },
		{ "recheck_seconds", "86400" },
	};
	char parameters[64], path[128], value[64];
	unsigned int i;

	(void)state;
	for (i = 0; i < COUNT(ends); i++) {
		snprintf(parameters, sizeof(parameters), "%s=%s", ends[i].name, ends[i].value);
		assert_int_equal(load_module(parameters), 0);
		snprintf(path, sizeof(path), "/sys/module/fastclk/parameters/%s", ends[i].name);
		assert_true(read_text(path, value, sizeof(value)) > 0);
		assert_int_equal(atoi(value), atoi(ends[i].value));
		unload(state);
	}
}

static void parameters_can_be_read_and_not_written(void **state)
{
	static const char * const names[] = {
		"budget_ms", "cpus", "idle_injection", "recheck_seconds",
	};
	char path[128], value[64];
	unsigned int i;
	struct stat s;

	(void)state;
	assert_int_equal(load_module("budget_ms=1500 cpus=0-1 idle_injection=N"), 0);
	for (i = 0; i < COUNT(names); i++) {
		snprintf(path, sizeof(path), "/sys/module/fastclk/parameters/%s", names[i]);
		assert_int_equal(stat(path, &s), 0);
		assert_int_equal(s.st_mode & 07777, 0444);
	}
	assert_true(read_text("/sys/module/fastclk/parameters/cpus", value, sizeof(value)) > 0);
	assert_string_equal(value, "0-1\n");
	assert_true(read_text("/sys/module/fastclk/parameters/idle_injection", value,
			      sizeof(value)) > 0);
	assert_string_equal(value, "N\n");
}

static void a_cpu_left_out_makes_it_unknown(void **state)
{
	struct fastclk_page copy;
	unsigned int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(load_module(i ? "cpus=1" : "cpus=0"), 0);
		read_device(&copy);
		assert_int_equal(copy.verdict.verdict, FASTCLK_VERDICT_UNKNOWN);
		assert_int_equal(copy.verdict.reason, FASTCLK_REASON_INCOMPLETE);
		assert_int_equal(copy.hot.status & CAPABILITIES, FASTCLK_STATUS_LINE_VALID |
				 FASTCLK_STATUS_CONSTANT_RATE | FASTCLK_STATUS_LOCKSTEP);
		assert_int_equal(copy.verdict.cpus, 1);
		assert_int_equal(copy.verdict.pairs, 0);
		assert_int_equal(copy.verdict.pairs_total, 1);
		assert_attribute("verdict", "unknown");
		assert_attribute("reason", "incomplete");
		assert_attribute("cpus", "1");
		assert_attribute("bad_cpus", "");
		/* Measuring again does not help. */
		assert_int_equal(recheck(), 0);
		assert_attribute("verdict", "unknown");
		unload(state);
	}
}

static void cpus_can_be_listed(void **state)
{
	static const char * const lists[] = { "cpus=0-1", "cpus=0,1", "cpus=1,0", "cpus=" };
	unsigned int i;

	(void)state;
	for (i = 0; i < COUNT(lists); i++) {
		assert_int_equal(load_module(lists[i]), 0);
		assert_attribute("cpus", "2");
		unload(state);
	}
}

static void modinfo_describes_them(void **state)
{
	static const struct {
		const char *name;
		const char *type;
		const char *word;
	} parameters[] = {
		{ "cpus:", "(charp)", "List of CPUs" },
		{ "budget_ms:", "(uint)", "10 to 60000 ms" },
		{ "idle_injection:", "(bool)", "default Y" },
		{ "recheck_seconds:", "(uint)", "1 to 86400 s" },
		{ "assume_invariant:", "(bool)", "default N" },
		{ "sample_ms:", "(uint)", "1 to 10000 ms" },
		{ "offsets:", "(bool)", "default Y" },
	};
	unsigned int i, found = 0, lines = 0;
	char line[1024];
	FILE *modinfo;

	(void)state;
	modinfo = popen("modinfo -p " MODULE_FILE, "r");
	assert_non_null(modinfo);
	while (fgets(line, sizeof(line), modinfo)) {
		lines++;
		for (i = 0; i < COUNT(parameters); i++)
			found += !strncmp(line, parameters[i].name, strlen(parameters[i].name)) &&
				 strstr(line, parameters[i].type) &&
				 strstr(line, parameters[i].word);
	}
	assert_int_equal(pclose(modinfo), 0);
	assert_int_equal(found, COUNT(parameters));
	/* No other, which would have to be described here. */
	assert_int_equal(lines, COUNT(parameters));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		parameter_test(refuses_what_is_wrong),
		parameter_test(takes_the_ends_of_the_range),
		parameter_test(parameters_can_be_read_and_not_written),
		parameter_test(a_cpu_left_out_makes_it_unknown),
		parameter_test(cpus_can_be_listed),
		bounded_test(modinfo_describes_them),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
