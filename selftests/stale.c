// SPDX-License-Identifier: GPL-2.0-only
/*
 * When the page is not renewed any more, readers on all CPUs fall back to clock_gettime() at
 * the end of its window, and say so; none of them waits for anything. When it is renewed
 * again, so are they. For the test build of the module, in disciplined mode, where the window
 * is a second.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>
#include <fastclk.h>

#define STOP_WRITER	"/sys/module/fastclk/parameters/stop_writer"
#define PATIENCE_NS	20000000000ULL
#define MOST_CPUS	64

static struct fastclk clk;
static int cpus, over;

static struct reader {
	pthread_t thread;
	int cpu;
	int source;			/* of the last read */
	unsigned long reads;
	unsigned long backwards;	/* in the same generation */
	unsigned long beyond;		/* the page was used outside of its window */
} readers[MOST_CPUS];

static void stop_writer(const char *value)
{
	int fd = open(STOP_WRITER, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, value, 1), 1);
	close(fd);
}

static void *read_always(void *argument)
{
	struct fastclk_stamp stamp, last = { 0, 0, 0 };
	struct reader *r = argument;
	uint64_t window = FASTCLK_LOAD64(clk.page->hot.valid_for), from;
	cpu_set_t set;
	int source;

	CPU_ZERO(&set);
	CPU_SET(r->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		source = fastclk_stamp(&clk, CLOCK_MONOTONIC, &stamp);
		/* Only once it is renewed can it begin later than the stamp. */
		from = FASTCLK_LOAD64(clk.page->hot.valid_from);
		if (source == FASTCLK_SOURCE_PAGE) {
			r->beyond += (int64_t)(stamp.cycles - from) > (int64_t)window;
			if (stamp.generation == last.generation)
				r->backwards += stamp.ns < last.ns;
			last = stamp;
		}
		__atomic_store_n(&r->source, source, __ATOMIC_RELAXED);
		__atomic_store_n(&r->reads, r->reads + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Until all readers have it from there, and have read again since they were asked. */
static void wait_for_source(int source)
{
	uint64_t begin = fastclk_gettime_ns(CLOCK_MONOTONIC);
	int cpu, there;

	do {
		sched_yield();
		for (cpu = 0, there = 0; cpu < cpus; cpu++)
			there += __atomic_load_n(&readers[cpu].source, __ATOMIC_RELAXED) == source;
	} while (there < cpus && fastclk_gettime_ns(CLOCK_MONOTONIC) - begin < PATIENCE_NS);
	if (there < cpus)
		printf("# %d of %d readers: %s\n", there, cpus, fastclk_source_text(source));
	assert_int_equal(there, cpus);
}

static void readers_fall_back(void **state)
{
	unsigned long reads;
	int cpu;

	(void)state;
	for (cpu = 0; cpu < cpus; cpu++) {
		readers[cpu].cpu = cpu;
		readers[cpu].source = -1;
		assert_int_equal(0, pthread_create(&readers[cpu].thread, NULL, read_always,
						   &readers[cpu]));
	}
	wait_for_source(FASTCLK_SOURCE_PAGE);
	stop_writer("1");
	wait_for_source(FASTCLK_SOURCE_STALE);
	assert_string_equal(fastclk_why(&clk), fastclk_source_text(FASTCLK_SOURCE_STALE));
	/* They go on. */
	for (cpu = 0; cpu < cpus; cpu++) {
		reads = __atomic_load_n(&readers[cpu].reads, __ATOMIC_RELAXED);
		while (__atomic_load_n(&readers[cpu].reads, __ATOMIC_RELAXED) < reads + 1000)
			sched_yield();
	}
	stop_writer("0");
	wait_for_source(FASTCLK_SOURCE_PAGE);
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (cpu = 0; cpu < cpus; cpu++) {
		pthread_join(readers[cpu].thread, NULL);
		assert_int_equal(readers[cpu].beyond, 0);
		assert_int_equal(readers[cpu].backwards, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "readers fall back when the page becomes stale", readers_fall_back, NULL, NULL,
		  NULL },
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > MOST_CPUS || fastclk_open(&clk, FASTCLK_ONE_CPU | FASTCLK_TEST_BUILD)) {
		printf("Bail out! %s\n", fastclk_why(&clk));
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
