// SPDX-License-Identifier: GPL-2.0-only
/*
 * In a guest, with the test build of the module, which believes that counters differ, as
 * this program's reader does: constant offsets, of seconds or of microseconds, of one CPU or of
 * all, make the verdict "offset", with a table that is right within the skew that is stated, and
 * time never goes back across migrations. Offsets that wander make it "unsynced".
 *
 *   offsets one|all|wander MODULE [STAMPS]
 *
 * "one": one CPU is off. "all": each by something else; in lockstep the kernel's clock is not
 * off with them, so the page may only be used where another clocksource drives that. Run by
 * guest_offsets.sh.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* So many cycles is the counter of each CPU ahead: for the module, and for the reader here. */
static int64_t fault_cycles[4096];
#define FASTCLK_COUNTER_FAULT(cpu)	fault_cycles[cpu]

#include "migrating.h"

#define ATTRIBUTES	"/sys/class/misc/fastclk/"
#define FAULT_FILE	"/sys/module/fastclk/parameters/fault"
#define SECOND		2500000000LL	/* in cycles, about */

#define MOST_CPUS	64

/* A host that is busy may starve a measurement, but hardly so many in a row. */
#define MOST_RECHECKS	20

struct device {
	struct fastclk_page page;
	char gap[4096 - sizeof(struct fastclk_page)];
	struct fastclk_cpu_offset table[MOST_CPUS];
};

static const char *module;
static unsigned long stamps = 1000000;
static unsigned int cpus;

static void pause_ms(unsigned int ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&time, NULL);
}

/* With a pause of 1 ms each; far more than it takes, also on a busy host. */
#define UNLOAD_TRIES	60000

static void unload(void)
{
	unsigned int tries = 0;

	while (syscall(SYS_delete_module, "fastclk", O_NONBLOCK)) {
		if (errno == ENOENT)
			return;
		/* Its threads still measure in the background. */
		if (errno != EWOULDBLOCK || ++tries > UNLOAD_TRIES)
			fail_msg("unload: %s", strerror(errno));
		pause_ms(1);
	}
}

static void load(const char *parameters)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC);

	unload();
	if (fd < 0 || syscall(SYS_finit_module, fd, parameters, 0))
		fail_msg("%s %s: %s", module, parameters, strerror(errno));
	close(fd);
}

static void read_device(struct device *device)
{
	int fd = open(FASTCLK_DEVICE, O_RDONLY | O_CLOEXEC);
	ssize_t size = sizeof(device->page) + sizeof(device->gap);

	memset(device, 0, sizeof(*device));
	if (fd < 0 || read(fd, device, sizeof(*device)) < size + 8 * (ssize_t)cpus)
		fail_msg(FASTCLK_DEVICE ": %s", strerror(errno));
	close(fd);
}

static uint32_t read_verdict(void)
{
	struct device device;

	read_device(&device);
	return device.page.verdict.verdict;
}

static void recheck(void)
{
	int fd = open(ATTRIBUTES "recheck", O_WRONLY | O_CLOEXEC);
	ssize_t ret;

	assert_true(fd >= 0);
	/* One a second is allowed. */
	while ((ret = write(fd, "1", 1)) < 0 && errno == EBUSY)
		pause_ms(20);
	if (ret < 0 && errno != ETIMEDOUT)
		fail_msg("recheck: %s", strerror(errno));
	close(fd);
}

static void assert_verdict(uint32_t expected)
{
	unsigned int tries;

	for (tries = 0; tries < MOST_RECHECKS && read_verdict() != expected; tries++)
		recheck();
	if (tries)
		printf("# measured %u times more\n", tries);
	assert_int_equal(read_verdict(), expected);
}

static void assert_bad_cpus(const char *expected)
{
	int fd = open(ATTRIBUTES "bad_cpus", O_RDONLY | O_CLOEXEC);
	ssize_t length;
	char text[256];

	length = read(fd, text, sizeof(text) - 1);
	assert_true(length > 0);
	text[length - 1] = 0;
	close(fd);
	assert_string_equal(text, expected);
}

static uint64_t distance(int64_t x, int64_t y)
{
	return x < y ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y;
}

/* With the offsets, no two CPUs are further apart than is stated. */
static void assert_table_is_right(void)
{
	const struct fastclk_page_verdict *v;
	struct device device;
	unsigned int i, j;
	uint64_t apart;

	read_device(&device);
	v = &device.page.verdict;
	assert_int_equal(v->verdict, FASTCLK_VERDICT_OFFSET);
	assert_true(device.page.hot.status & FASTCLK_STATUS_OFFSETS);
	assert_false(device.page.hot.status & FASTCLK_STATUS_COMPARABLE);
	assert_int_equal(device.page.header.table_offset, 4096);
	assert_int_equal(device.page.header.table_entry_size, 8);
	assert_true(device.page.header.table_count >= cpus);
	assert_true(v->max_warp_cycles > 0);
	/* A round trip of 2 us is no measurement. */
	assert_true(v->max_skew_cycles < SECOND / 100000);
	for (i = 0; i < cpus; i++) {
		for (j = 0; j < cpus; j++) {
			apart = distance(fault_cycles[i] + device.table[i].offset_cycles,
					 fault_cycles[j] + device.table[j].offset_cycles);
			if (apart >= v->max_skew_cycles)
				fail_msg("CPUs %u and %u: %" PRIu64 " cycles apart, stated %" PRIu64,
					 i, j, apart, (uint64_t)v->max_skew_cycles);
		}
	}
}

/* "fault=0:1000,1:-50", and that the rate is constant, which matters outside of lockstep. */
static void faults_text(char *text, size_t size)
{
	unsigned int cpu;
	size_t length = (size_t)snprintf(text, size, "assume_invariant=1 fault=");

	for (cpu = 0; cpu < cpus; cpu++)
		length += (size_t)snprintf(text + length, size - length, "%s%u:%" PRId64,
					   cpu ? "," : "", cpu, fault_cycles[cpu]);
}

/* The first sample of the clock, in other modes than lockstep, comes a moment later. */
static int open_page(struct fastclk *clk)
{
	int tries, source;

	for (tries = 0; tries < 500; tries++) {
		source = fastclk_open(clk, FASTCLK_TEST_BUILD);
		if (source == FASTCLK_SOURCE_PAGE)
			return source;
		fastclk_close(clk);
		pause_ms(10);
	}
	return source;
}

static void assert_monotonic(void)
{
	struct migrating_thread sum;
	struct fastclk clk;
	int source = open_page(&clk);
	uint32_t generation = fastclk_generation(&clk);

	if (source)
		fail_msg("%s", fastclk_source_text(source));
	sum = migrating(&clk, stamps);
	printf("# %lu stamps, %lu migrations, %lu fallbacks, %u generations, %lu backwards, by %"
	       PRIu64 " ns at most\n", sum.stamps, sum.moves, sum.fallbacks,
	       fastclk_generation(&clk) - generation + 1, sum.backwards, sum.largest_ns);
	fastclk_close(&clk);
	assert_true(sum.stamps >= stamps);
	assert_int_equal(sum.backwards, 0);
}

static void load_and_check(const char *bad)
{
	char parameters[1024];

	faults_text(parameters, sizeof(parameters));
	load(parameters);
	assert_verdict(FASTCLK_VERDICT_OFFSET);
	assert_bad_cpus(bad);
	assert_table_is_right();
	assert_monotonic();
}

/* --- one: a CPU of several */

static void check_one(unsigned int cpu, int64_t cycles)
{
	char bad[16];

	cpu %= cpus;
	memset(fault_cycles, 0, sizeof(fault_cycles));
	fault_cycles[cpu] = cycles;
	snprintf(bad, sizeof(bad), "%u", cpu);
	load_and_check(bad);
}

static void one_is_a_second_ahead(void **state)
{
	(void)state;
	check_one(1, SECOND);
}

static void one_is_a_second_behind(void **state)
{
	(void)state;
	check_one(2, -SECOND);
}

static void one_is_10000_cycles_ahead(void **state)
{
	(void)state;
	/* In lockstep the others have the kernel's time, so their offsets must be 0. */
	check_one(0, 10000);
}

static void one_is_10000_cycles_behind(void **state)
{
	(void)state;
	check_one(3, -10000);
}

/* --- all: each CPU has something else */

static const int64_t all_cycles[] = { SECOND, -SECOND, 10000, -10000 };

static void set_all(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < cpus; cpu++)
		fault_cycles[cpu] = all_cycles[cpu % 4] * (1 + cpu / 4);
}

static void all_are_off(void **state)
{
	char bad[16];

	(void)state;
	set_all();
	snprintf(bad, sizeof(bad), "0-%u", cpus - 1);
	load_and_check(bad);
}

static void all_but_the_first_are_off(void **state)
{
	char bad[16];

	(void)state;
	set_all();
	fault_cycles[0] = 0;
	snprintf(bad, sizeof(bad), "0-%u", cpus - 1);
	load_and_check(bad);
}

/* No change without need: readers would have to begin anew. */
static void offsets_stay_when_measured_again(void **state)
{
	struct device before, after;
	unsigned int i;

	(void)state;
	set_all();
	fault_cycles[0] = 0;
	load_and_check("0-3");
	read_device(&before);
	for (i = 0; i < 2; i++) {
		recheck();
		read_device(&after);
		assert_int_equal(after.page.verdict.verdict, FASTCLK_VERDICT_OFFSET);
	}
	assert_table_is_right();
	/* They may change where a measurement was much better. */
	if (!memcmp(before.table, after.table, sizeof(before.table)))
		assert_int_equal(after.page.hot.generation, before.page.hot.generation);
	else
		assert_int_not_equal(after.page.hot.generation, before.page.hot.generation);
}

/* --- wander */

static void set_fault(const char *fault)
{
	int fd = open(FAULT_FILE, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, fault, strlen(fault)), strlen(fault));
	close(fd);
}

static void assert_no_offsets(void)
{
	struct device device;
	struct fastclk clk;
	int source;

	read_device(&device);
	assert_int_equal(device.page.verdict.verdict, FASTCLK_VERDICT_UNSYNCED);
	assert_int_equal(device.page.verdict.reason, FASTCLK_REASON_UNSYNCED);
	assert_false(device.page.hot.status & (FASTCLK_STATUS_OFFSETS |
					       FASTCLK_STATUS_COMPARABLE));
	/* On the CPU whose counter is off, that is seen first. */
	source = fastclk_open(&clk, FASTCLK_TEST_BUILD);
	assert_true(source == FASTCLK_SOURCE_STATUS || source == FASTCLK_SOURCE_CONTRADICTION);
	fastclk_close(&clk);
}

/* 10 ppm, from 10,000 cycles on. */
static void a_counter_that_wanders_is_unsynced(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		load("fault=1:10000:10000");
		assert_verdict(FASTCLK_VERDICT_UNSYNCED);
		assert_no_offsets();
		assert_bad_cpus(cpus > 2 ? "1" : "0-1");
	}
	/* Nor is it when measured again. */
	for (i = 0; i < 2; i++) {
		recheck();
		assert_no_offsets();
	}
}

/* Offsets that were constant until now. */
static void a_counter_that_begins_to_wander_is_unsynced(void **state)
{
	struct device before, after;

	(void)state;
	load("fault=1:-10000");
	assert_verdict(FASTCLK_VERDICT_OFFSET);
	read_device(&before);
	set_fault("1:-10000:10000");
	/* Some 24,000 cycles later, or more. */
	pause_ms(1000);
	assert_verdict(FASTCLK_VERDICT_UNSYNCED);
	assert_no_offsets();
	read_device(&after);
	assert_int_not_equal(after.page.hot.generation, before.page.hot.generation);
	pause_ms(1000);
	recheck();
	assert_no_offsets();
}

/* A step is a wander, until it is seen that there is no other. */
static void a_step_is_unsynced_until_it_is_confirmed(void **state)
{
	struct fastclk_stamp stamp;
	struct fastclk clk;

	(void)state;
	memset(fault_cycles, 0, sizeof(fault_cycles));
	fault_cycles[1] = 10000;
	load("fault=1:10000");
	assert_verdict(FASTCLK_VERDICT_OFFSET);
	assert_int_equal(open_page(&clk), FASTCLK_SOURCE_PAGE);
	assert_int_equal(fastclk_stamp(&clk, CLOCK_MONOTONIC, &stamp), FASTCLK_SOURCE_PAGE);

	fault_cycles[1] = -20000;
	set_fault("1:-20000");
	assert_verdict(FASTCLK_VERDICT_UNSYNCED);
	assert_no_offsets();
	assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_STATUS);
	assert_verdict(FASTCLK_VERDICT_OFFSET);
	assert_table_is_right();
	assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_PAGE);
	assert_int_not_equal(fastclk_generation(&clk), stamp.generation);
	fastclk_close(&clk);

	/* And back to none. */
	set_fault("\n");
	assert_verdict(FASTCLK_VERDICT_SYNCED);
}

static void offsets_can_be_forbidden(void **state)
{
	(void)state;
	load("fault=1:10000 offsets=0");
	assert_verdict(FASTCLK_VERDICT_UNSYNCED);
	assert_no_offsets();
	recheck();
	assert_no_offsets();
}

/* As long as a CPU is online that was not tested, nothing is known of it. */
static void a_cpu_left_out_means_no_offsets(void **state)
{
	(void)state;
	if (cpus < 3)
		skip();
	load("fault=1:10000 cpus=0-1");
	assert_verdict(FASTCLK_VERDICT_UNSYNCED);
	assert_no_offsets();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest one[] = {
		cmocka_unit_test(one_is_a_second_ahead),
		cmocka_unit_test(one_is_a_second_behind),
		cmocka_unit_test(one_is_10000_cycles_ahead),
		cmocka_unit_test(one_is_10000_cycles_behind),
		cmocka_unit_test(all_but_the_first_are_off),
	};
	const struct CMUnitTest all[] = {
		cmocka_unit_test(one_is_a_second_ahead),
		cmocka_unit_test(all_are_off),
		cmocka_unit_test(offsets_stay_when_measured_again),
	};
	const struct CMUnitTest wander[] = {
		cmocka_unit_test(a_counter_that_wanders_is_unsynced),
		cmocka_unit_test(a_counter_that_begins_to_wander_is_unsynced),
		cmocka_unit_test(a_step_is_unsynced_until_it_is_confirmed),
		cmocka_unit_test(offsets_can_be_forbidden),
		cmocka_unit_test(a_cpu_left_out_means_no_offsets),
	};
	const char *what = argc > 1 ? argv[1] : "";

	cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	if (argc < 3 || cpus < 2 || cpus > MOST_CPUS) {
		fprintf(stderr, "Usage: offsets one|all|wander MODULE [STAMPS]\n");
		return 2;
	}
	module = argv[2];
	if (argc > 3)
		stamps = strtoul(argv[3], NULL, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!strcmp(what, "one"))
		return cmocka_run_group_tests(one, NULL, NULL);
	if (!strcmp(what, "all"))
		return cmocka_run_group_tests(all, NULL, NULL);
	return cmocka_run_group_tests(wander, NULL, NULL);
}
