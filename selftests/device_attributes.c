// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files below /sys/class/misc/fastclk and /sys/kernel/debug/fastclk: that all are
 * there, one value each, the same that the page has; who may open them and the device;
 * what can be written to them. Run by guest_device.sh, in a guest with two CPUs.
 */
#include "device.h"

#include <dirent.h>
#include <inttypes.h>

static const char * const readable[] = {
	"verdict", "reason", "mode", "counter", "clocksource", "frequency_hz", "mult", "shift",
	"max_skew_cycles", "max_skew_ns", "max_warp_cycles", "worst_pair", "bad_cpus", "cpus",
	"pairs", "exchanges", "generation", "updates", "abi_version", "invariant",
	"assumed_invariant", "kernel_trusts", "error_ns", "error_growth_ppb",
};

static const char * const writable[] = { "recheck", "revoke" };

#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))

static unsigned int mode_of(const char *path)
{
	struct stat s;

	if (stat(path, &s))
		fail_msg("%s: %s", path, strerror(errno));
	assert_int_equal(s.st_uid, 0);
	return s.st_mode & 07777;
}

static void all_are_there_and_have_one_value(void **state)
{
	char value[ATTRIBUTE_SIZE], path[256];
	unsigned int i;

	(void)state;
	for (i = 0; i < COUNT(readable); i++) {
		read_attribute(readable[i], value);
		/* Only the list of CPUs may be empty. */
		if (strpbrk(value, " \t\n") || (!*value && strcmp(readable[i], "bad_cpus")))
			fail_msg("%s has not one value, but \"%s\"", readable[i], value);
		snprintf(path, sizeof(path), ATTRIBUTES "%s", readable[i]);
		assert_int_equal(mode_of(path), 0444);
	}
	for (i = 0; i < COUNT(writable); i++) {
		snprintf(path, sizeof(path), ATTRIBUTES "%s", writable[i]);
		assert_int_equal(mode_of(path), 0200);
	}
}

/* What is not known to this test is not tested by it: add it above. */
static void there_are_no_others(void **state)
{
	static const char * const general[] = { ".", "..", "dev", "power", "subsystem", "uevent" };
	const struct dirent *entry;
	unsigned int i;
	bool known;
	DIR *dir;

	(void)state;
	dir = opendir(ATTRIBUTES);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		known = false;
		for (i = 0; i < COUNT(readable); i++)
			known |= !strcmp(entry->d_name, readable[i]);
		for (i = 0; i < COUNT(writable); i++)
			known |= !strcmp(entry->d_name, writable[i]);
		for (i = 0; i < COUNT(general); i++)
			known |= !strcmp(entry->d_name, general[i]);
		if (!known)
			fail_msg("%s is not known to this test", entry->d_name);
	}
	closedir(dir);
}

/* The value that the page had before or after, as it changes all the time. */
static void assert_number(const char *name, uint64_t (*of)(const struct fastclk_page *p))
{
	struct fastclk_page before, after;
	char value[ATTRIBUTE_SIZE];

	do {
		read_device(&before);
		read_attribute(name, value);
		read_device(&after);
	} while (of(&before) != of(&after));
	if (strtoull(value, NULL, 10) != of(&before))
		fail_msg("%s is \"%s\" and not %" PRIu64, name, value, of(&before));
}

#define FIELD(name, expression)							\
static uint64_t name(const struct fastclk_page *p)				\
{										\
	return expression;							\
}

FIELD(frequency_hz, p->clocks.frequency_hz)
FIELD(mult, p->hot.mult)
FIELD(shift, p->hot.shift)
FIELD(max_skew_cycles, p->verdict.max_skew_cycles)
FIELD(max_warp_cycles, p->verdict.max_warp_cycles)
FIELD(cpus, p->verdict.cpus)
FIELD(pairs, p->verdict.pairs)
FIELD(exchanges, p->verdict.exchanges)
FIELD(generation, p->hot.generation)
FIELD(updates, p->clocks.updates)
FIELD(error_ns, p->verdict.error_ns)
FIELD(error_growth_ppb, p->verdict.error_growth_ppb)
FIELD(invariant, !!(p->header.features & FASTCLK_FEATURE_INVARIANT))
FIELD(assumed_invariant, !!(p->header.features & FASTCLK_FEATURE_ASSUMED))

static void numbers_are_those_of_the_page(void **state)
{
	(void)state;
	assert_number("frequency_hz", frequency_hz);
	assert_number("mult", mult);
	assert_number("shift", shift);
	assert_number("max_skew_cycles", max_skew_cycles);
	assert_number("max_warp_cycles", max_warp_cycles);
	assert_number("cpus", cpus);
	assert_number("pairs", pairs);
	assert_number("exchanges", exchanges);
	assert_number("generation", generation);
	assert_number("updates", updates);
	assert_number("error_ns", error_ns);
	assert_number("error_growth_ppb", error_growth_ppb);
	assert_number("invariant", invariant);
	assert_number("assumed_invariant", assumed_invariant);
}

/* Two CPUs, clocksource tsc: what is to be expected. */
static void values_make_sense(void **state)
{
	char value[ATTRIBUTE_SIZE], kernels[64];
	struct fastclk_page p;
	uint64_t ns;
	int length;

	(void)state;
	read_device(&p);
	assert_attribute("verdict", "synced");
	assert_attribute("reason", "usable");
	assert_attribute("mode", "lockstep");
	assert_attribute("counter", "tsc");
	assert_attribute("abi_version", "1.1");
	assert_attribute("cpus", "2");
	assert_attribute("pairs", "1");
	assert_attribute("max_warp_cycles", "0");
	assert_attribute("bad_cpus", "");
	assert_attribute("worst_pair", "0,1");
	assert_attribute("assumed_invariant", "0");
	/* It would not be the clocksource otherwise. */
	assert_attribute("kernel_trusts", "1");

	length = read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource",
			   kernels, sizeof(kernels));
	assert_true(length > 0);
	kernels[length - 1] = 0;
	assert_attribute("clocksource", kernels);

	assert_int_equal(p.verdict.pairs_total, 1);
	assert_true(p.verdict.exchanges >= 2 * 64);
	assert_true(p.verdict.max_skew_cycles > 0);
	assert_true(p.clocks.frequency_hz > 100000000);
	assert_true(p.verdict.error_ns == 0);
	assert_int_equal(p.verdict.error_growth_ppb, 0);

	/* A bound, so it may be larger, but not by more than a nanosecond. */
	read_attribute("max_skew_ns", value);
	ns = strtoull(value, NULL, 10);
	assert_true((double)ns * p.clocks.frequency_hz >= p.verdict.max_skew_cycles * 1e9);
	assert_true((double)(ns - 2) * p.clocks.frequency_hz <= p.verdict.max_skew_cycles * 1e9);
}

static void pairs_are_for_root(void **state)
{
	static const char path[] = "/sys/kernel/debug/fastclk/pairs";
	long long measured[2], tightened[2];
	struct fastclk_page p;
	char text[4096];
	const char *line;
	int fields;

	(void)state;
	assert_int_equal(mode_of(path), 0400);
	assert_true(read_text(path, text, sizeof(text)) > 0);
	line = strchr(text, '\n');
	assert_int_equal(text[0], '#');
	assert_non_null(line);
	fields = sscanf(line, " 0 1: %lld %lld %lld %lld", &measured[0], &measured[1],
			&tightened[0], &tightened[1]);
	assert_int_equal(fields, 4);
	/* There is no third CPU to tighten through. */
	assert_true(tightened[0] == measured[0] && tightened[1] == measured[1]);
	/* The bound is the wider one, and a count. */
	read_device(&p);
	assert_true(p.verdict.max_skew_cycles ==
		    (uint64_t)(measured[0] > measured[1] ? measured[0] : measured[1]) + 1);
	/* One pair, one line. */
	assert_ptr_equal(strchr(line + 1, '\n'), text + strlen(text) - 1);
}

static int be_nobody(int says, void *argument)
{
	struct fastclk_page copy;
	char value[64];
	unsigned int i;
	int fd;

	(void)says;
	(void)argument;
	if (become_nobody())
		return 10;
	fd = open(DEVICE, O_RDONLY);
	if (fd < 0)
		return 11;
	if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		return 12;
	if (read(fd, &copy, sizeof(copy)) != sizeof(copy))
		return 13;
	if (poll_now(fd))
		return 14;
	if (open(DEVICE, O_RDWR) >= 0 || errno != EACCES)
		return 15;
	if (open(DEVICE, O_WRONLY) >= 0 || errno != EACCES)
		return 16;
	if (read_text(ATTRIBUTES "verdict", value, sizeof(value)) <= 0)
		return 17;
	for (i = 0; i < COUNT(writable); i++) {
		char path[64];

		snprintf(path, sizeof(path), ATTRIBUTES "%s", writable[i]);
		if (write_text(path, "1") != -EACCES)
			return 18;
		if (read_text(path, value, sizeof(value)) != -EACCES)
			return 19;
	}
	if (read_text("/sys/kernel/debug/fastclk/pairs", value, sizeof(value)) != -EACCES)
		return 20;
	return 0;
}

static void nobody_may_read_and_root_may_write(void **state)
{
	(void)state;
	assert_int_equal(mode_of(DEVICE), 0444);
	assert_int_equal(run_child(be_nobody, NULL), 0);
	assert_attribute("reason", "usable");
}

static void recheck_takes_yes_only(void **state)
{
	static const char * const others[] = { "garbage", "0", "2", "-1", "n", "off", "\n", " 1" };
	struct fastclk_page before, after;
	unsigned int i, j;

	(void)state;
	read_device(&before);
	for (i = 0; i < COUNT(others); i++)
		for (j = 0; j < COUNT(writable); j++)
			if (write_attribute(writable[j], others[i]) != -EINVAL)
				fail_msg("%s took \"%s\"", writable[j], others[i]);
	read_device(&after);
	assert_int_equal(after.verdict.measurements, before.verdict.measurements);
	assert_int_equal(after.verdict.reason, FASTCLK_REASON_USABLE);
}

static void recheck_measures(void **state)
{
	static const char * const yes[] = { "1", "1\n", "y", "on\n" };
	struct fastclk_page before, after;
	unsigned int i;
	int ret;

	(void)state;
	for (i = 0; i < COUNT(yes); i++) {
		read_device(&before);
		/* The deadline ends it where CPUs are short. */
		do
			ret = write_attribute("recheck", yes[i]);
		while (ret == -EBUSY || ret == -ETIMEDOUT);
		assert_int_equal(ret, 0);
		read_device(&after);
		assert_int_equal(after.verdict.measurements, before.verdict.measurements + 1);
		assert_int_equal(after.verdict.verdict, FASTCLK_VERDICT_SYNCED);
	}
}

static void recheck_is_limited(void **state)
{
	struct fastclk_page before, after;
	struct timespec begin, end;
	int64_t ms;

	(void)state;
	recheck();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	read_device(&before);
	do {
		int ret = write_attribute("recheck", "1");

		clock_gettime(CLOCK_MONOTONIC, &end);
		ms = (end.tv_sec - begin.tv_sec) * 1000LL +
		     (end.tv_nsec - begin.tv_nsec) / 1000000;
		/* A second, counted in ticks. */
		if (ms < 900 && ret != -EBUSY)
			fail_msg("%" PRId64 " ms after the last: %d", ms, ret);
		read_device(&after);
		if (ms < 900)
			assert_int_equal(after.verdict.measurements, before.verdict.measurements);
	} while (ms < 900);
	recheck();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		bounded_test(all_are_there_and_have_one_value),
		bounded_test(there_are_no_others),
		settled_test(numbers_are_those_of_the_page),
		settled_test(values_make_sense),
		settled_test(pairs_are_for_root),
		settled_test(nobody_may_read_and_root_may_write),
		settled_test(recheck_takes_yes_only),
		settled_test(recheck_measures),
		settled_test(recheck_is_limited),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
