// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exchange of core/exchange.h between two real CPUs of this machine, with their real
 * counters. Protects:
 *
 * - counters that agree never warp, and the truth is in the interval every time, on an idle
 *   machine and beside three busy programs that fight for the two CPUs;
 * - both sides get their results;
 * - the control: a skew that is put in, larger than the width measured without it, is found
 *   every time, in both directions.
 *
 * The threads are ordinary tasks and not FIFO ones as in the kernel, so that they are
 * descheduled in the middle of exchanges: nothing that happens then may falsify a result.
 * Only what they have not got done after some time is left to FIFO threads.
 *
 * The truth is 0 where one clock drives both counters. In a virtual machine it need not be:
 * see TRUTH_NS.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <fastclk/counter.h>

#define FASTCLK_EXCHANGE_COUNTER(x)	(fastclk_counter_ordered() + *(const u64 *)(x)->context)
#define FASTCLK_EXCHANGE_RELAX(x)	fastclk_relax()
#include "core/exchange.h"

#define RUNS		1000
#define BUSY_PROGRAMS	3

/* As in core/measure.c. */
#define PATIENCE_MS	1
#define LIMIT_MS	32
#define START_MS	2

/*
 * For RUNS runs that count, of which ordinary threads make all in 3 s, beside three
 * programs. Beside six more they had half of them after 120 s, FIFO threads all in 1 s.
 */
#define ORDINARY_S	5
#define LONGEST_S	120

/*
 * In a virtual machine, how far the counters may really be apart: its hypervisor sets each
 * of them by itself. On one whose counters stepped by 24 cycles (10 ns), CPU 1 was ahead by
 * something from 5 to 28 cycles, which all of a million runs agreed on; the fastest
 * hand-over in ten thousand runs, one step, was fast enough to see 5 of them.
 */
#define TRUTH_NS	25

/* How many results to show that are wrong. */
#define SHOWN		5

/*
 * struct side - one of the two that make exchanges
 * @skew_cycles: is added to its counter
 */
struct side {
	struct fastclk_exchange exchange;
	u64 skew_cycles;
	int cpu;
};

/*
 * struct series - what RUNS runs gave
 * @width_cycles: of each interval, sorted
 * @received: how many values, by both sides of all
 * @warps: how many excluded that the counters agree
 * @odd: how many excluded the skew that was put in, or its absence
 * @outside: how many also did with truth_max to either side
 * @least, @most: what the skew that was not put in can be, by all of them
 * @uneven: how many gave one side more than one value more than the other
 * @starved: how many more were made, but are no measurement
 * @wide: and how many were as wide as the skew, so that it could hide in them
 */
struct series {
	u64 width_cycles[RUNS];
	u64 received;
	unsigned int warps;
	unsigned int odd;
	unsigned int outside;
	s64 least;
	s64 most;
	unsigned int uneven;
	unsigned int starved;
	unsigned int wide;
};

static struct fastclk_exchange_line line;
static struct side sides[2];
static pthread_barrier_t barrier;
static pthread_t partner;
static int policy;
static bool quit;
static u64 khz;
static s64 truth_max;		/* in cycles; 0 unless in a virtual machine */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* The counter and the time that belongs to it, also where threads are descheduled. */
static u64 counter_at(double *now)
{
	double before;
	u64 cycles;

	do {
		before = seconds();
		cycles = fastclk_counter_ordered();
		*now = seconds();
	} while (*now - before > 1e-5);
	return cycles;
}

/* For patience only: within 1 % is more than enough. */
static u64 measure_khz(void)
{
	double begin, end;
	u64 cycles = counter_at(&begin);

	usleep(20000);
	cycles = counter_at(&end) - cycles;
	return cycles / ((end - begin) * 1e3);
}

/*
 * Needs privileges to become FIFO, and goes on without. The busy programs must never
 * inherit it: they would leave nothing to anybody.
 */
static void set_policy(int new_policy)
{
	const struct sched_param priority = { .sched_priority = new_policy == SCHED_FIFO };

	if (policy == new_policy)
		return;
	policy = new_policy;
	pthread_setschedparam(pthread_self(), policy | SCHED_RESET_ON_FORK, &priority);
	pthread_setschedparam(partner, policy | SCHED_RESET_ON_FORK, &priority);
}

static bool in_virtual_machine(void)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char text[4096];
	bool found = false;

	while (file && !found && fgets(text, sizeof(text), file))
		found = strstr(text, " hypervisor ");
	if (file)
		fclose(file);
	return found;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0);
}

/* Side 1. It waits asleep, so that it costs the other nothing between runs. */
static void *answer(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_barrier_wait(&barrier);
		if (quit)
			return NULL;
		fastclk_exchange_run(&sides[1].exchange);
		pthread_barrier_wait(&barrier);
	}
}

/* One run; side 1's counter is ahead by @skew_cycles. */
static void run(s64 skew_cycles)
{
	u32 i;

	line.turn = 0;
	line.value = 0;
	for (i = 0; i < 2; i++) {
		sides[i].skew_cycles = i ? (u64)skew_cycles : 0;
		sides[i].exchange = (struct fastclk_exchange) {
			.line = &line,
			.side = i,
			.exchanges = FASTCLK_EXCHANGES,
			.start_cycles = khz * START_MS,
			.patience_cycles = khz * PATIENCE_MS,
			.limit_cycles = khz * LIMIT_MS,
			.context = &sides[i].skew_cycles,
		};
	}
	pthread_barrier_wait(&barrier);
	fastclk_exchange_run(&sides[0].exchange);
	pthread_barrier_wait(&barrier);
}

static int by_size(const void *x, const void *y)
{
	u64 a = *(const u64 *)x, b = *(const u64 *)y;

	return a < b ? -1 : a > b;
}

/* Take one result in. Return: whether it counts. */
static bool add_run(struct series *series, unsigned int n, s64 skew_cycles)
{
	const struct fastclk_exchange *a = &sides[0].exchange, *b = &sides[1].exchange;
	/* How far side 1's counter is ahead of side 0's. */
	s64 lo = -a->bound_cycles, hi = b->bound_cycles;

	/* Side 1 receives first, and gives what the other then receives. */
	series->uneven += b->received < a->received || b->received > a->received + 1;
	if (a->received < FASTCLK_EXCHANGES_MIN || b->received < FASTCLK_EXCHANGES_MIN) {
		series->starved++;
		return false;
	}
	if (skew_cycles && hi - lo >= llabs(skew_cycles) - truth_max) {
		series->wide++;
		return false;
	}
	if ((lo > skew_cycles || hi < skew_cycles) && series->odd++ < SHOWN)
		printf("# run %u: skew of %lld is not in %lld to %lld, received %u and %u\n", n,
		       skew_cycles, lo, hi, a->received, b->received);
	series->outside += lo - truth_max > skew_cycles || hi + truth_max < skew_cycles;
	if (lo - skew_cycles > series->least)
		series->least = lo - skew_cycles;
	if (hi - skew_cycles < series->most)
		series->most = hi - skew_cycles;
	series->warps += lo > 0 || hi < 0;
	series->received += a->received + b->received;
	series->width_cycles[n] = hi - lo;
	return true;
}

/* To be called before each run: @n of RUNS were made since @begin. */
static void watch_time(double begin, unsigned int n)
{
	double elapsed = seconds() - begin;

	if (elapsed > LONGEST_S) {
		printf("# only %u runs of %u in %d s: too little CPU time is left\n", n, RUNS,
		       LONGEST_S);
		fail();
	}
	if (elapsed > ORDINARY_S && policy == SCHED_OTHER) {
		printf("# %u runs of %u in %d s: the others as FIFO threads\n", n, RUNS,
		       ORDINARY_S);
		set_policy(SCHED_FIFO);
	}
}

static void report_truth(const struct series *series)
{
	printf("# by all of them, CPU %d is ahead of CPU %d by %lld to %lld cycles\n",
	       sides[1].cpu, sides[0].cpu, series->least, series->most);
}

static void check_series(const struct series *series)
{
	assert_int_equal(series->outside, 0);
	/* One truth is in all intervals. */
	assert_true(series->least <= series->most);
	assert_int_equal(series->uneven, 0);
}

/* Starved runs are no measurement, to the kernel either, and are repeated. */
static void counters_agree(void **state)
{
	double begin = seconds();
	struct series series = { .least = S64_MIN, .most = S64_MAX };
	unsigned int n = 0;

	(void)state;
	set_policy(SCHED_OTHER);
	while (n < RUNS) {
		watch_time(begin, n);
		run(0);
		n += add_run(&series, n, 0);
	}

	qsort(series.width_cycles, RUNS, sizeof(u64), by_size);
	printf("# width %llu to %llu, median %llu cycles; %llu exchanges a run; "
	       "%u starved and repeated\n", series.width_cycles[0], series.width_cycles[RUNS - 1],
	       series.width_cycles[RUNS / 2], series.received / (2 * RUNS), series.starved);
	report_truth(&series);
	check_series(&series);
	if (!truth_max)
		assert_int_equal(series.warps, 0);
}

/*
 * Each run has a skew one larger than the width of the run before it, which had none: on
 * virtual machines the width changes as their vCPUs move. A run that is so wide itself that
 * the skew can hide in it is repeated.
 */
static void skew_is_found(void **state)
{
	static struct series without, with;
	double begin = seconds();
	unsigned int n = 0;
	s64 skew_cycles;

	(void)state;
	set_policy(SCHED_OTHER);
	without = (struct series) { .least = S64_MIN, .most = S64_MAX };
	with = without;
	while (n < RUNS) {
		watch_time(begin, n);
		run(0);
		if (!add_run(&without, n, 0))
			continue;
		skew_cycles = without.width_cycles[n] + 1 + truth_max;
		if (n & 1)
			skew_cycles = -skew_cycles;
		run(skew_cycles);
		n += add_run(&with, n, skew_cycles);
	}

	qsort(without.width_cycles, RUNS, sizeof(u64), by_size);
	printf("# skew of %lld more than widths of %llu to %llu, median %llu cycles, "
	       "found %u times of %u; %u wider runs repeated\n", 1 + truth_max,
	       without.width_cycles[0], without.width_cycles[RUNS - 1],
	       without.width_cycles[RUNS / 2], with.warps, RUNS, with.wide);
	report_truth(&with);
	check_series(&with);
	assert_int_equal(with.warps, RUNS);
}

static pid_t programs[BUSY_PROGRAMS];

static int start_programs(void **state)
{
	pid_t parent = getpid();
	cpu_set_t set;
	int i;

	(void)state;
	set_policy(SCHED_OTHER);
	CPU_ZERO(&set);
	CPU_SET(sides[0].cpu, &set);
	CPU_SET(sides[1].cpu, &set);
	for (i = 0; i < BUSY_PROGRAMS; i++) {
		programs[i] = fork();
		if (programs[i] < 0)
			return -1;
		if (programs[i] > 0)
			continue;
		/* Not to be left behind if the test is killed. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || sched_setaffinity(0, sizeof(set), &set))
			_exit(1);
		for (;;)
			fastclk_relax();
	}
	return 0;
}

static int end_programs(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < BUSY_PROGRAMS; i++) {
		if (programs[i] <= 0)
			continue;
		kill(programs[i], SIGKILL);
		waitpid(programs[i], NULL, 0);
	}
	return 0;
}

/* Return: how many CPUs there are to run on, of which the first two are noted. */
static int find_cpus(void)
{
	cpu_set_t set;
	int cpu, found = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			sides[found++].cpu = cpu;
	return found;
}

static int start_partner(void **state)
{
	(void)state;
	khz = measure_khz();
	if (in_virtual_machine())
		truth_max = khz * TRUTH_NS / 1000000;
	printf("# CPUs %d and %d, counter of %llu kHz\n", sides[0].cpu, sides[1].cpu, khz);
	pthread_barrier_init(&barrier, NULL, 2);
	pin(sides[1].cpu);		/* the thread inherits it */
	if (pthread_create(&partner, NULL, answer, NULL))
		return -1;
	pin(sides[0].cpu);
	return 0;
}

static int end_partner(void **state)
{
	(void)state;
	quit = true;
	pthread_barrier_wait(&barrier);
	pthread_join(partner, NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "idle_counters_agree", counters_agree, NULL, NULL, NULL },
		{ "idle_skew_is_found", skew_is_found, NULL, NULL, NULL },
		{ "busy_counters_agree", counters_agree, start_programs, end_programs, NULL },
		{ "busy_skew_is_found", skew_is_found, start_programs, end_programs, NULL },
	};

	if (find_cpus() < 2) {
		printf("1..0 # SKIP an exchange needs two CPUs, and this program may run on one only\n");
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, start_partner, end_partner) != 0;
}
