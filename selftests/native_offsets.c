// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page with an offset for each CPU, read on this machine's real CPUs, on whose counters the
 * test plays that they differ: threads that go from CPU to CPU never see time go back, and do
 * if the table is wrong. Where the table can't help, readers fall back; where there is
 * none, or it does not count, it changes nothing.
 *
 * 5 million stamps; ten times as many with SOAK=1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* So many cycles is the counter of each CPU ahead. */
static int64_t fault_cycles[4096];
#define FASTCLK_COUNTER_FAULT(cpu)	fault_cycles[cpu]

#include "migrating.h"
#include "native_page.h"

#define STAMPS		5000000UL
#define WRONG_STAMPS	200000UL
#define SECOND		2500000000LL	/* in cycles, about */

static struct native_page native;
static unsigned int cpus;

static bool bind_to(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

static bool has_rdtscp(void)
{
	char line[4096];
	bool found = false;
	FILE *info = fopen("/proc/cpuinfo", "re");

	while (info && !found && fgets(line, sizeof(line), info))
		found = !strncmp(line, "flags", 5) && strstr(line, " rdtscp");
	if (info)
		fclose(info);
	return found;
}

/* A hypervisor may leave something else in TSC_AUX. */
static bool cpu_numbers_are_right(void)
{
	cpu_set_t before;
	unsigned int cpu;
	bool right = true;
	uint32_t found;

	sched_getaffinity(0, sizeof(before), &before);
	for (cpu = 0; cpu < cpus; cpu++) {
		if (!bind_to(cpu))
			return false;
		fastclk_counter_with_cpu(&found);
		right &= found == cpu;
	}
	sched_setaffinity(0, sizeof(before), &before);
	return right;
}

/* Counters that are off by so much, every other CPU the other way round, and a right table. */
static void set_faults(int64_t cycles)
{
	unsigned int cpu;

	for (cpu = 0; cpu < NATIVE_PAGE_CPUS; cpu++) {
		fault_cycles[cpu] = cpu & 1 ? cycles : -cycles;
		native.table[cpu].offset_cycles = -fault_cycles[cpu];
	}
}

static int destroy_page(void **state)
{
	(void)state;
	munmap(native.page, NATIVE_PAGE_SIZE);
	close(native.fd);
	return 0;
}

/* On a busy machine, the slope of a page may miss the clock's: then there is another one. */
static int create_page(void **state)
{
	struct fastclk clk;
	int tries, source;

	for (tries = 0; tries < 20; tries++) {
		native = native_page_create();
		set_faults(SECOND);
		native_page_set_offsets(&native);
		source = fastclk_open_at(&clk, native.path, 0);
		fastclk_close(&clk);
		if (source == FASTCLK_SOURCE_PAGE)
			return 0;
		destroy_page(state);
	}
	printf("# %s\n", fastclk_source_text(source));
	return -1;
}

static void open_page(struct fastclk *clk, unsigned int flags)
{
	int source = fastclk_open_at(clk, native.path, flags);

	if (source != FASTCLK_SOURCE_PAGE)
		fail_msg("%s", fastclk_why(clk));
}

static void never_goes_back_across_migrations(void **state)
{
	unsigned long stamps = getenv("SOAK") ? 10 * STAMPS : STAMPS;
	struct migrating_thread sum;
	struct fastclk clk;

	(void)state;
	open_page(&clk, 0);
	sum = migrating(&clk, stamps);
	printf("# %lu stamps, %lu migrations, %lu fallbacks, %lu backwards, by %llu ns at most\n",
	       sum.stamps, sum.moves, sum.fallbacks, sum.backwards,
	       (unsigned long long)sum.largest_ns);
	assert_true(sum.stamps >= stamps);
	assert_int_equal(sum.fallbacks, 0);
	assert_true(sum.moves >= stamps / STAMPS_PER_CPU);
	assert_int_equal(sum.backwards, 0);
	fastclk_close(&clk);
}

static void goes_back_with_a_wrong_table(void **state)
{
	struct migrating_thread sum;
	struct fastclk clk;

	(void)state;
	if (cpus < 2)
		skip();
	open_page(&clk, 0);
	/* 2 us: a hand-over takes less. */
	native.table[1].offset_cycles += 5000;
	sum = migrating(&clk, WRONG_STAMPS);
	printf("# a wrong table: %lu stamps, %lu backwards, by %llu ns at most\n", sum.stamps,
	       sum.backwards, (unsigned long long)sum.largest_ns);
	assert_true(sum.backwards > 0);
	assert_true(sum.largest_ns < 5000);
	fastclk_close(&clk);
}

/* All readers, on all CPUs, in between two values of clock_gettime(). */
static void all_readers_apply_it(void **state)
{
	static uint64_t (* const now[])(const struct fastclk *clk) = {
		fastclk_now_ns, fastclk_now_ns_relaxed, fastclk_raw_ns, fastclk_raw_ns_relaxed,
		fastclk_realtime_ns, fastclk_boottime_ns, fastclk_tai_ns,
	};
	static const clockid_t clocks[] = {
		CLOCK_MONOTONIC, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW,
		CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI,
	};
	struct fastclk clk, one;
	unsigned int cpu, i;
	int64_t apart;

	(void)state;
	open_page(&clk, 0);
	open_page(&one, FASTCLK_ONE_CPU);
	for (cpu = 0; cpu < cpus; cpu++) {
		assert_true(bind_to(cpu));
		assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_PAGE);
		assert_int_equal(fastclk_source(&one), FASTCLK_SOURCE_PAGE);
		for (i = 0; i < sizeof(now) / sizeof(now[0]); i++) {
			/* A second would be wrong; the page is a few ms old, and not steered. */
			apart = (int64_t)(now[i](&clk) - fastclk_gettime_ns(clocks[i]));
			assert_in_range(apart + 100000000, 0, 200000000);
			apart = (int64_t)(now[i](&one) - fastclk_gettime_ns(clocks[i]));
			assert_in_range(apart + 100000000, 0, 200000000);
		}
	}
	fastclk_close(&one);
	fastclk_close(&clk);
}

static void stamps_have_corrected_cycles(void **state)
{
	struct fastclk_stamp stamp;
	struct fastclk clk;
	uint64_t before;

	(void)state;
	open_page(&clk, 0);
	before = fastclk_counter_ordered();
	assert_int_equal(fastclk_stamp(&clk, CLOCK_MONOTONIC, &stamp), FASTCLK_SOURCE_PAGE);
	assert_true(stamp.cycles >= before);
	assert_true(stamp.cycles <= fastclk_counter_ordered());
	fastclk_close(&clk);
}

static void bare_values_are_not_converted(void **state)
{
	struct fastclk_snapshot snapshot;
	struct fastclk clk;
	uint64_t ns;
	int one;

	(void)state;
	for (one = 0; one < 2; one++) {
		open_page(&clk, one ? FASTCLK_ONE_CPU : 0);
		assert_int_equal(fastclk_snapshot(&clk, &snapshot), FASTCLK_SOURCE_NO_OFFSET);
		assert_int_equal(fastclk_cycles_to_ns(&clk, fastclk_cycles(),
						      fastclk_generation(&clk), &ns), -EAGAIN);
		fastclk_close(&clk);
	}
}

/* A value between two calls of clock_gettime(), which can't come from the page. */
static void assert_falls_back(const struct fastclk *clk, int source)
{
	struct fastclk_stamp stamp;
	uint64_t before, now;

	assert_int_equal(fastclk_source(clk), source);
	assert_int_equal(fastclk_stamp(clk, CLOCK_MONOTONIC, &stamp), source);
	assert_int_equal(stamp.generation, 0);
	before = fastclk_gettime_ns(CLOCK_MONOTONIC);
	now = fastclk_now_ns(clk);
	assert_true(before <= now && now <= fastclk_gettime_ns(CLOCK_MONOTONIC));
}

static void falls_back_on_cpus_beyond_the_table(void **state)
{
	struct fastclk clk;

	(void)state;
	if (cpus < 2)
		skip();
	native.page->header.table_count = 1;
	assert_true(bind_to(0));
	open_page(&clk, 0);
	assert_true(bind_to(1));
	assert_falls_back(&clk, FASTCLK_SOURCE_NO_OFFSET);
	assert_true(bind_to(0));
	assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_PAGE);
	fastclk_close(&clk);
}

static void falls_back_on_cpus_that_were_not_tested(void **state)
{
	struct fastclk clk;

	(void)state;
	if (cpus < 2)
		skip();
	native.table[1].offset_cycles = FASTCLK_OFFSET_UNKNOWN;
	assert_true(bind_to(0));
	open_page(&clk, 0);
	assert_true(bind_to(1));
	assert_falls_back(&clk, FASTCLK_SOURCE_STALE);
	fastclk_close(&clk);
}

static void offsets_do_not_replace_what_else_is_needed(void **state)
{
	struct fastclk clk;

	(void)state;
	open_page(&clk, 0);
	native.page->hot.status &= ~FASTCLK_STATUS_CONSTANT_RATE;
	assert_falls_back(&clk, FASTCLK_SOURCE_STATUS);
	native.page->hot.status &= ~(FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_OFFSETS);
	assert_falls_back(&clk, FASTCLK_SOURCE_STATUS);
	fastclk_close(&clk);
}

static void a_table_without_status_means_nothing(void **state)
{
	struct migrating_thread sum;
	struct fastclk clk;

	(void)state;
	set_faults(0);
	native.page->hot.status ^= FASTCLK_STATUS_OFFSETS | FASTCLK_STATUS_COMPARABLE;
	native.table[0].offset_cycles = 123456789;
	open_page(&clk, 0);
	sum = migrating(&clk, WRONG_STAMPS);
	assert_int_equal(sum.fallbacks, 0);
	assert_int_equal(sum.backwards, 0);
	fastclk_close(&clk);
}

static void refuses_tables_it_does_not_know(void **state)
{
	struct fastclk_page_header *header = &native.page->header;
	struct fastclk clk;

	(void)state;
	header->table_entry_size = 16;
	assert_int_equal(fastclk_open_at(&clk, native.path, 0), FASTCLK_SOURCE_UNKNOWN_PAGE);
	fastclk_close(&clk);
	header->table_entry_size = 8;
	header->table_count = 4097;
	assert_int_equal(fastclk_open_at(&clk, native.path, 0), FASTCLK_SOURCE_UNKNOWN_PAGE);
	fastclk_close(&clk);
	/* Behind the end of the file. */
	header->table_count = NATIVE_PAGE_CPUS + 1;
	assert_int_equal(fastclk_open_at(&clk, native.path, 0), FASTCLK_SOURCE_UNKNOWN_PAGE);
	fastclk_close(&clk);
	header->table_count = NATIVE_PAGE_CPUS;
	header->table_offset = 4092;
	assert_int_equal(fastclk_open_at(&clk, native.path, 0), FASTCLK_SOURCE_UNKNOWN_PAGE);
	fastclk_close(&clk);
}

#define page_test(function)	cmocka_unit_test_setup_teardown(function, create_page, destroy_page)

int main(void)
{
	const struct CMUnitTest tests[] = {
		page_test(never_goes_back_across_migrations),
		page_test(goes_back_with_a_wrong_table),
		page_test(all_readers_apply_it),
		page_test(stamps_have_corrected_cycles),
		page_test(bare_values_are_not_converted),
		page_test(falls_back_on_cpus_beyond_the_table),
		page_test(falls_back_on_cpus_that_were_not_tested),
		page_test(offsets_do_not_replace_what_else_is_needed),
		page_test(a_table_without_status_means_nothing),
		page_test(refuses_tables_it_does_not_know),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	if (!has_rdtscp()) {
		printf("1..0 # SKIP the processor has no rdtscp\n");
		return 0;
	}
	if (cpus > NATIVE_PAGE_CPUS || !cpu_numbers_are_right()) {
		printf("1..0 # SKIP TSC_AUX is not the CPU's number, or there are too many CPUs\n");
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
