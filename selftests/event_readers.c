// SPDX-License-Identifier: GPL-2.0-only
/*
 * While the kernel's clocksource is switched back and forth, readers on all CPUs get no
 * wrong time: what they get from the page is within its bound of clock_gettime(), and never
 * goes back within a generation, on whatever CPU. The mode follows each switch, and in
 * between, readers fall back.
 *
 *	event_readers [SECONDS]		for each of disciplined and variable mode; default 4
 *
 * Stamps whose generation ended before they were compared are counted apart, to tell an error of
 * the line from what happens in the moment of a switch, in which the kernel's own clock may not be
 * continuous. Both are failures. Once, a stamp was 1.2 us outside, and it is not known of which
 * kind it was.
 */
#include "device.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>

#include <fastclk.h>

#define CLOCKSOURCE	"/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define MOST_CPUS	64
#define PERIOD_MS	100

static unsigned int seconds = 4;
static struct fastclk clk;
static bool stop;

/* The last stamp that anybody took, on a lock. */
static pthread_spinlock_t last_lock;
static struct fastclk_stamp last;

/*
 * struct reader - a thread on one CPU
 * @failed: it could not be bound to that
 * @inside, @outside: stamps within, and not within the bound
 * @worst_ns: by so much not within
 * @across, @across_ns: the same of those whose generation ended meanwhile
 * @fallbacks: times that came from clock_gettime()
 * @ordered, @backwards: stamps that were compared with the last one, and went back
 */
struct reader {
	pthread_t thread;
	int cpu;
	bool failed;
	unsigned long inside, outside, fallbacks, ordered, backwards;
	uint64_t worst_ns;
	unsigned long across;
	uint64_t across_ns;
};

static void bracket(struct reader *r)
{
	uint64_t before, after, error, off = 0;
	struct fastclk_stamp stamp;
	int source;

	before = fastclk_gettime_ns(CLOCK_MONOTONIC);
	source = fastclk_stamp_error(&clk, CLOCK_MONOTONIC, &stamp, &error);
	after = fastclk_gettime_ns(CLOCK_MONOTONIC);
	if (source != FASTCLK_SOURCE_PAGE) {
		r->fallbacks++;
		return;
	}
	if (stamp.ns + error < before)
		off = before - stamp.ns - error;
	else if (stamp.ns > after + error)
		off = stamp.ns - after - error;
	if (!off) {
		r->inside++;
		return;
	}
	if (fastclk_generation(&clk) != stamp.generation) {
		r->across++;
		if (off > r->across_ns)
			r->across_ns = off;
		return;
	}
	r->outside++;
	if (off > r->worst_ns)
		r->worst_ns = off;
}

static void hand_over(struct reader *r)
{
	struct fastclk_stamp stamp;

	pthread_spin_lock(&last_lock);
	if (fastclk_stamp(&clk, CLOCK_MONOTONIC, &stamp) == FASTCLK_SOURCE_PAGE) {
		if (stamp.generation == last.generation) {
			r->ordered++;
			r->backwards += stamp.ns < last.ns;
		}
		last = stamp;
	}
	pthread_spin_unlock(&last_lock);
}

static void *read_clock(void *argument)
{
	struct reader *r = argument;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(r->cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		r->failed = true;
	while (!r->failed && !__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		bracket(r);
		hand_over(r);
	}
	return NULL;
}

static int64_t now_ms(void)
{
	return (int64_t)(fastclk_gettime_ns(CLOCK_MONOTONIC) / 1000000);
}

/* Return: false if the mode does not follow soon. */
static bool await_mode(uint32_t mode)
{
	int64_t begin = now_ms();
	struct fastclk_page page;

	do {
		copy_page(clk.page, &page);
		if (page.verdict.mode == mode && (page.hot.status & FASTCLK_STATUS_LINE_VALID))
			return true;
		pause_ms(1);
	} while (now_ms() - begin < SOON_MS);
	print_message("# mode is %u and not %u\n", page.verdict.mode, mode);
	return false;
}

/* Return: how often, 0 if a mode did not follow. */
static unsigned int switch_clocksources(uint32_t mode)
{
	int64_t begin = now_ms(), start;
	unsigned int done = 0;

	while (now_ms() - begin < seconds * 1000 || done % 2) {
		start = now_ms();
		if (write_text(CLOCKSOURCE, done % 2 ? "tsc" : "hpet") ||
		    !await_mode(done % 2 ? FASTCLK_MODE_LOCKSTEP : mode))
			return 0;
		done++;
		while (now_ms() - start < PERIOD_MS)
			pause_ms(1);
	}
	return done;
}

static void run(unsigned int flags, uint32_t mode)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), i;
	struct reader readers[MOST_CPUS], sum;
	unsigned int switches;

	memset(readers, 0, sizeof(readers));
	memset(&sum, 0, sizeof(sum));
	memset(&last, 0, sizeof(last));
	assert_int_equal(fastclk_open(&clk, flags), FASTCLK_SOURCE_PAGE);
	pthread_spin_init(&last_lock, PTHREAD_PROCESS_PRIVATE);
	stop = false;
	for (i = 0; i < cpus && i < MOST_CPUS; i++) {
		readers[i].cpu = i;
		assert_int_equal(pthread_create(&readers[i].thread, NULL, read_clock, &readers[i]),
				 0);
	}
	switches = switch_clocksources(mode);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (i = 0; i < cpus && i < MOST_CPUS; i++) {
		pthread_join(readers[i].thread, NULL);
		sum.failed |= readers[i].failed;
		sum.inside += readers[i].inside;
		sum.outside += readers[i].outside;
		sum.fallbacks += readers[i].fallbacks;
		sum.ordered += readers[i].ordered;
		sum.backwards += readers[i].backwards;
		sum.across += readers[i].across;
		if (readers[i].worst_ns > sum.worst_ns)
			sum.worst_ns = readers[i].worst_ns;
		if (readers[i].across_ns > sum.across_ns)
			sum.across_ns = readers[i].across_ns;
	}
	fastclk_close(&clk);
	print_message("# %u switches: %lu stamps within the bound, %lu outside (by %" PRIu64
		      " ns), %lu across a switch (by %" PRIu64 " ns), %lu fallbacks; %lu in order, "
		      "%lu went back\n", switches, sum.inside, sum.outside, sum.worst_ns, sum.across,
		      sum.across_ns, sum.fallbacks, sum.ordered, sum.backwards);
	assert_false(sum.failed);
	assert_true(switches > 0);
	assert_true(sum.inside > 0);
	assert_true(sum.ordered > 0);
	assert_true(sum.outside == 0);
	assert_true(sum.across == 0);
	assert_true(sum.backwards == 0);
}

static int begin_run(const char *parameters)
{
	begin_test(NULL);
	alarm(DEADLINE_S + 2 * seconds);
	if (module_is_loaded())
		unload_when_free();
	assert_int_equal(load_module(parameters), 0);
	settle();
	return 0;
}

static int begin_disciplined(void **state)
{
	(void)state;
	return begin_run("assume_invariant=1");
}

static int begin_variable(void **state)
{
	(void)state;
	return begin_run("");
}

static int end_run(void **state)
{
	write_text(CLOCKSOURCE, "tsc");
	return end_test(state);
}

static void readers_are_right_in_disciplined_mode(void **state)
{
	(void)state;
	run(0, FASTCLK_MODE_DISCIPLINED);
}

static void readers_are_right_in_variable_mode(void **state)
{
	(void)state;
	run(FASTCLK_VARIABLE_RATE, FASTCLK_MODE_VARIABLE);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(readers_are_right_in_disciplined_mode,
						begin_disciplined, end_run),
		cmocka_unit_test_setup_teardown(readers_are_right_in_variable_mode,
						begin_variable, end_run),
	};

	if (argc > 1)
		seconds = (unsigned int)strtoul(argv[1], NULL, 10);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
