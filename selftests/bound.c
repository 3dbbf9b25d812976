// SPDX-License-Identifier: GPL-2.0-only
/*
 * The published bound holds: a page read between two clock_gettime() is between their values,
 * give or take the error that the page itself states, for every clock, on all CPUs, whatever
 * the mode; and page stamps of one generation never go back, from thread to thread.
 *
 *	bound [OPTION]... SECONDS CHECKS
 *
 *	--switch MS	meanwhile, change the clocksource to and fro every MS milliseconds,
 *			between the present one and the first other one; the mode must follow
 *	--busy		meanwhile, keep all CPUs busy
 *
 * Ends after SECONDS, or later if there were fewer than CHECKS by then, but not for ever.
 *
 *	bound rest LIMIT
 *
 * waits until the bound of a machine at rest is below LIMIT ns, for 10 s at most.
 *
 *	bound kernel MS
 *
 * has the test build of the module compare inside the kernel, where a bracket is much
 * narrower, on one CPU for MS milliseconds.
 *
 * A change of rate reaches the page a moment after the kernel's clock. So what looks like a
 * violation is judged once more, with what is published next, if that is soon: its bound says
 * by how much the line was off where it ended, and the clock's offset may be another one.
 *
 * And a clock can be behind itself. The kernel's hpet code lets a CPU that has to wait for
 * another CPU's reading take that one, which may be older than the call; 89 us were seen
 * where the other was a vCPU that lost its core. So where the page is ahead of a clock that
 * has no vDSO form, the check is repeated at once, several times: a line that is wrong is
 * wrong for many milliseconds, and one more failure is enough.
 *
 * QEMU's emulation makes up for a counter that would go back, and so gains whenever vCPUs read it
 * at the same time: 300 to 9,000 ppm were seen where two did nothing else. No line can follow
 * that within microseconds, and no real counter does it. So one thread here reads it at a time,
 * and vm/run keeps system calls from reading it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <fastclk.h>

#define CLOCKSOURCE	"/sys/devices/system/clocksource/clocksource0/"

#define BOUND		"/sys/kernel/debug/fastclk/bound"

#define SECOND_NS	1000000000ULL

/* Longer than the vCPU that updates the page has to wait for its core. */
#define MOMENT_NS	10000000ULL

/* Where the rate is constant, a bound may be so large now and then, but not often. */
#define LARGE_NS	20000ULL
#define OFTEN		20	/* one in so many */

/* Checks of one clock in a row. */
#define CHAIN		8

/* A line that is wrong is so for longer than these take. */
#define REPEATS		32

/* When to give up, in times of SECONDS. */
#define PATIENCE	6

static const clockid_t clocks[] = {
	CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI, CLOCK_MONOTONIC_RAW,
};

#define CLOCKS	(sizeof(clocks) / sizeof(clocks[0]))

static struct fastclk clk;
static unsigned long seconds, checks_wanted;
static unsigned int switch_ms;
static bool busy, over;

/* One look at everything. */
struct look {
	struct fastclk_page_hot hot;
	struct fastclk_page_clocks clocks;
	struct fastclk_page_verdict verdict;
	uint64_t cycles;
};

struct worker {
	pthread_t thread;
	int cpu;
	unsigned long checked, judged, discarded, stale, fallbacks, violations, backwards;
	unsigned long large, joints, jumps;
	uint64_t largest_bound;
};

/* The last stamp of any thread. */
static pthread_mutex_t hand_over_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t hand_over_generation;
static uint64_t hand_over_ns;

static pthread_mutex_t counter_lock = PTHREAD_MUTEX_INITIALIZER;

static void look(struct look *l)
{
	const struct fastclk_page *page = (const struct fastclk_page *)clk.mapping;
	uint32_t seq;

	for (;;) {
		seq = __atomic_load_n(&page->hot.seq, __ATOMIC_ACQUIRE);
		memcpy(&l->hot, (const void *)&page->hot, sizeof(l->hot));
		memcpy(&l->clocks, (const void *)&page->clocks, sizeof(l->clocks));
		memcpy(&l->verdict, (const void *)&page->verdict, sizeof(l->verdict));
		pthread_mutex_lock(&counter_lock);
		l->cycles = fastclk_counter_ordered();
		pthread_mutex_unlock(&counter_lock);
		fastclk_read_barrier();
		if (!(seq & 1) && seq == FASTCLK_LOAD32(page->hot.seq))
			return;
		sched_yield();
	}
}

static bool usable(const struct look *l)
{
	return (l->hot.status & FASTCLK_STATUS_LINE_VALID) &&
	       l->cycles - l->hot.valid_from <= l->hot.valid_for;
}

static uint64_t offset(const struct look *l, clockid_t clock)
{
	return clock == CLOCK_REALTIME ? (uint64_t)l->hot.realtime_offset :
	       clock == CLOCK_BOOTTIME ? (uint64_t)l->clocks.boottime_offset :
	       clock == CLOCK_TAI ? (uint64_t)l->clocks.tai_offset : 0;
}

static uint64_t convert(const struct look *l, clockid_t clock, uint64_t cycles)
{
	struct fastclk_line line = {
		l->hot.mult, l->hot.offset_lo, l->hot.offset_hi, l->hot.shift,
	};

	if (clock == CLOCK_MONOTONIC_RAW) {
		line.mult = l->clocks.raw_mult;
		line.offset_lo = l->clocks.raw_offset_lo;
		line.offset_hi = l->clocks.raw_offset_hi;
		line.shift = l->clocks.raw_shift;
	}
	return fastclk_line_ns(&line, cycles) + offset(l, clock);
}

/* As the uapi header says. */
static uint64_t bound(const struct look *l, uint64_t cycles)
{
	const struct fastclk_page_verdict *v = &l->verdict;
	uint64_t age;

	if (!v->error_growth_ppb || (int64_t)(cycles - v->error_cycles) < 0)
		return v->error_ns;
	age = convert(l, CLOCK_MONOTONIC, cycles) - convert(l, CLOCK_MONOTONIC, v->error_cycles);
	return v->error_ns + (uint64_t)((double)age * v->error_growth_ppb / 1e9) + 1;
}

static bool between(uint64_t before, uint64_t ns, uint64_t after, uint64_t error)
{
	return (int64_t)(ns + error - before) >= 0 && (int64_t)(after + error - ns) >= 0;
}

static void wait_for_next(const struct look *now, struct look *next)
{
	uint64_t begin = fastclk_gettime_ns(CLOCK_MONOTONIC_RAW);

	do {
		look(next);
	} while (next->clocks.updates == now->clocks.updates &&
		 fastclk_gettime_ns(CLOCK_MONOTONIC_RAW) - begin < 2 * SECOND_NS);
}

/* Is the page ahead of the clock by more than the bound in any of some more checks? */
static bool still_ahead(clockid_t clock)
{
	uint64_t before, after;
	struct look l;
	int i;

	for (i = 0; i < REPEATS; i++) {
		before = fastclk_gettime_ns(clock);
		look(&l);
		after = fastclk_gettime_ns(clock);
		if (usable(&l) && after - before < SECOND_NS &&
		    (int64_t)(convert(&l, clock, l.cycles) - after - bound(&l, l.cycles)) > 0)
			return true;
	}
	return false;
}

static void judge(struct worker *w, clockid_t clock, uint64_t before, const struct look *l,
		  uint64_t after)
{
	uint64_t error = bound(l, l->cycles), next_error, ns = convert(l, clock, l->cycles);
	struct look next;

	/* The clock was set in between: by much more than a thread is kept waiting here. */
	if ((int64_t)(after - before) < 0 || after - before > SECOND_NS) {
		w->discarded++;
		return;
	}
	wait_for_next(l, &next);
	/* It was set twice: the offset in between is not known. */
	if (next.clocks.clock_was_set - l->clocks.clock_was_set > 1) {
		w->discarded++;
		return;
	}
	w->judged++;
	next_error = error;
	if (next.verdict.error_ns > error &&
	    convert(l, CLOCK_MONOTONIC_RAW, next.cycles) - convert(l, CLOCK_MONOTONIC_RAW,
								   l->cycles) < MOMENT_NS)
		next_error = next.verdict.error_ns;
	if (between(before, ns, after, next_error) ||
	    between(before, ns - offset(l, clock) + offset(&next, clock), after, next_error))
		return;
	/* In lockstep there is no error, but the next line. */
	if (next.hot.generation == l->hot.generation &&
	    between(before, convert(&next, clock, l->cycles), after, next_error))
		return;
	if (l->verdict.mode != FASTCLK_MODE_LOCKSTEP && (int64_t)(ns - after) > 0 &&
	    !still_ahead(clock)) {
		w->stale++;
		return;
	}
	w->violations++;
	printf("# violation on CPU %d, clock %d: %llu, %llu, %llu; bound %llu and next %llu, mode %u and next %u, generation %u and %u\n",
	       w->cpu, (int)clock, (unsigned long long)before, (unsigned long long)ns,
	       (unsigned long long)after, (unsigned long long)error,
	       (unsigned long long)next.verdict.error_ns, l->verdict.mode, next.verdict.mode,
	       l->hot.generation, next.hot.generation);
}

static void hand_over(struct worker *w)
{
	struct look l;
	uint64_t ns;

	pthread_mutex_lock(&hand_over_lock);
	look(&l);
	if (usable(&l) && (l.hot.status & FASTCLK_STATUS_COMPARABLE)) {
		ns = convert(&l, CLOCK_MONOTONIC, l.cycles);
		if (l.hot.generation == hand_over_generation && ns < hand_over_ns) {
			w->backwards++;
			printf("# backwards on CPU %d: %llu after %llu, mode %u, generation %u\n",
			       w->cpu, (unsigned long long)ns, (unsigned long long)hand_over_ns,
			       l.verdict.mode, l.hot.generation);
		}
		hand_over_generation = l.hot.generation;
		hand_over_ns = ns;
	}
	pthread_mutex_unlock(&hand_over_lock);
}

static void bind_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static fastclk_u128 exact(const struct fastclk_page_hot *hot, uint64_t cycles)
{
	return (fastclk_u128)cycles * hot->mult +
	       ((fastclk_u128)hot->offset_hi << 64 | hot->offset_lo);
}

/* Does a fitted line begin exactly where the one before it was? The error is stated for there. */
static void check_joint(struct worker *w, const struct look *before, const struct look *after)
{
	if (after->clocks.updates != before->clocks.updates + 1 ||
	    after->hot.generation != before->hot.generation || !after->verdict.error_cycles)
		return;
	w->joints++;
	w->jumps += exact(&before->hot, after->verdict.error_cycles) !=
		    exact(&after->hot, after->verdict.error_cycles);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	uint64_t before, after, error;
	unsigned int turn, i;
	struct look l, last;

	bind_to(w->cpu);
	look(&last);
	for (turn = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); turn++) {
		clockid_t clock = clocks[turn % CLOCKS];

		hand_over(w);
		/* A clock_gettime() may cost microseconds: what ends one check begins the next. */
		before = fastclk_gettime_ns(clock);
		for (i = 0; i < CHAIN; i++) {
			look(&l);
			check_joint(w, &last, &l);
			last = l;
			if (!usable(&l)) {
				w->fallbacks++;
				break;
			}
			after = fastclk_gettime_ns(clock);
			error = bound(&l, l.cycles);
			if (error > w->largest_bound)
				w->largest_bound = error;
			w->large += error > LARGE_NS && (l.hot.status & FASTCLK_STATUS_CONSTANT_RATE);
			__atomic_store_n(&w->checked, w->checked + 1, __ATOMIC_RELAXED);
			if (!between(before, convert(&l, clock, l.cycles), after, error)) {
				judge(w, clock, before, &l, after);
				break;
			}
			before = after;
		}
	}
	return NULL;
}

static void *be_busy(void *argument)
{
	bind_to((int)(intptr_t)argument);
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		fastclk_relax();
	return NULL;
}

/* --- clocksources */

static void read_word(const char *path, char *word, size_t size)
{
	FILE *file = fopen(path, "r");

	word[0] = 0;
	if (file) {
		if (fgets(word, (int)size, file))
			word[strcspn(word, " \n")] = 0;
		fclose(file);
	}
}

static bool write_word(const char *path, const char *word)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, word, strlen(word)) == (ssize_t)strlen(word);

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool find_other(const char *present, char *other, size_t size)
{
	char line[256], *word, *rest = line;
	FILE *file = fopen(CLOCKSOURCE "available_clocksource", "r");

	if (!file || !fgets(line, sizeof(line), file))
		return false;
	fclose(file);
	while ((word = strsep(&rest, " \n")))
		if (*word && strcmp(word, present)) {
			snprintf(other, size, "%s", word);
			return true;
		}
	return false;
}

/* Does the page's mode become what belongs to the clocksource, within a second? */
static bool mode_follows(const char *source)
{
	uint64_t begin = fastclk_gettime_ns(CLOCK_MONOTONIC);
	struct look l;
	bool lockstep;

	do {
		look(&l);
		lockstep = l.verdict.mode == FASTCLK_MODE_LOCKSTEP;
		if (l.verdict.mode > FASTCLK_MODE_UNUSABLE && lockstep == !strcmp(source, "tsc"))
			return true;
		sched_yield();
	} while (fastclk_gettime_ns(CLOCK_MONOTONIC) - begin < 10 * SECOND_NS);
	printf("# mode %u, reason %u, with clocksource %s\n", l.verdict.mode, l.verdict.reason,
	       source);
	return false;
}

static unsigned long switches, did_not_follow;

static void switch_clocksource(void)
{
	static char names[2][32];
	const struct timespec pause = { 0, switch_ms * 1000000L };

	if (!names[0][0]) {
		read_word(CLOCKSOURCE "current_clocksource", names[0], sizeof(names[0]));
		assert_true(find_other(names[0], names[1], sizeof(names[1])));
		printf("# %s and %s\n", names[0], names[1]);
	}
	switches++;
	assert_true(write_word(CLOCKSOURCE "current_clocksource", names[switches % 2]));
	did_not_follow += !mode_follows(names[switches % 2]);
	nanosleep(&pause, NULL);
}

/* --- the tests */

static unsigned long count_checks(const struct worker *workers, int cpus)
{
	unsigned long checks = 0;
	int cpu;

	for (cpu = 0; cpu < cpus; cpu++)
		checks += __atomic_load_n(&workers[cpu].checked, __ATOMIC_RELAXED);
	return checks;
}

static void bound_holds(void **state)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), cpu;
	struct worker *workers = calloc((size_t)cpus, sizeof(*workers)), sum = { 0 };
	pthread_t *burners = calloc((size_t)cpus, sizeof(*burners));
	uint64_t begin = fastclk_gettime_ns(CLOCK_MONOTONIC), elapsed;
	const struct timespec pause = { 0, 100000000 };

	(void)state;
	assert_non_null(workers);
	assert_non_null(burners);
	for (cpu = 0; cpu < cpus; cpu++) {
		workers[cpu].cpu = cpu;
		assert_int_equal(0, pthread_create(&workers[cpu].thread, NULL, work,
						   &workers[cpu]));
		if (busy)
			assert_int_equal(0, pthread_create(&burners[cpu], NULL, be_busy,
							   (void *)(intptr_t)cpu));
	}
	do {
		if (switch_ms)
			switch_clocksource();
		else
			nanosleep(&pause, NULL);
		elapsed = fastclk_gettime_ns(CLOCK_MONOTONIC) - begin;
	} while (elapsed < seconds * SECOND_NS ||
		 (count_checks(workers, cpus) < checks_wanted &&
		  elapsed < PATIENCE * seconds * SECOND_NS));
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);

	for (cpu = 0; cpu < cpus; cpu++) {
		pthread_join(workers[cpu].thread, NULL);
		if (busy)
			pthread_join(burners[cpu], NULL);
		sum.checked += workers[cpu].checked;
		sum.judged += workers[cpu].judged;
		sum.discarded += workers[cpu].discarded;
		sum.joints += workers[cpu].joints;
		sum.jumps += workers[cpu].jumps;
		sum.large += workers[cpu].large;
		sum.stale += workers[cpu].stale;
		sum.fallbacks += workers[cpu].fallbacks;
		sum.violations += workers[cpu].violations;
		sum.backwards += workers[cpu].backwards;
		if (workers[cpu].largest_bound > sum.largest_bound)
			sum.largest_bound = workers[cpu].largest_bound;
	}
	free(workers);
	free(burners);
	printf("# %lu checks, %lu judged again, %lu discarded, %lu times a stale clock, %lu fallbacks, %lu violations, %lu backwards; bound above %llu ns %lu times, up to %llu ns\n",
	       sum.checked, sum.judged, sum.discarded, sum.stale, sum.fallbacks, sum.violations,
	       sum.backwards, (unsigned long long)LARGE_NS, sum.large,
	       (unsigned long long)sum.largest_bound);
	printf("# %lu joints of lines, %lu of them jumps\n", sum.joints, sum.jumps);
	if (switch_ms)
		printf("# the clocksource was changed %lu times, the mode did not follow %lu times\n",
		       switches, did_not_follow);
	assert_true(sum.checked >= checks_wanted);
	assert_int_equal(sum.violations, 0);
	assert_int_equal(sum.backwards, 0);
	assert_int_equal(sum.jumps, 0);
	assert_true(sum.large <= sum.checked / OFTEN);
	assert_int_equal(did_not_follow, 0);
}

static unsigned long rest_limit_ns;

static void bound_at_rest(void **state)
{
	uint64_t begin = fastclk_gettime_ns(CLOCK_MONOTONIC), error;
	const struct timespec pause = { 0, 10000000 };
	struct look l;

	(void)state;
	do {
		nanosleep(&pause, NULL);
		look(&l);
		error = bound(&l, l.cycles);
	} while ((!usable(&l) || error >= rest_limit_ns) &&
		 fastclk_gettime_ns(CLOCK_MONOTONIC) - begin < 10 * SECOND_NS);
	printf("# at rest: within %llu ns, of which %llu at the last joint, and %u ppb\n",
	       (unsigned long long)error, (unsigned long long)l.verdict.error_ns,
	       l.verdict.error_growth_ppb);
	assert_true(usable(&l));
	assert_true(error < rest_limit_ns);
}

static const char *kernel_ms;

static void bound_in_kernel(void **state)
{
	unsigned long within = 0, stale = 0, outside = 0;
	FILE *file;
	int found;

	(void)state;
	assert_true(write_word(BOUND, kernel_ms));
	file = fopen(BOUND, "r");
	assert_non_null(file);
	found = fscanf(file, "within %lu stale %lu outside %lu", &within, &stale, &outside);
	fclose(file);
	printf("# in the kernel: %lu within, %lu times a stale clock, %lu outside\n", within,
	       stale, outside);
	assert_int_equal(found, 3);
	assert_true(within >= strtoul(kernel_ms, NULL, 0));
	assert_int_equal(outside, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest holds[] = {
		{ "bound holds, nothing goes back", bound_holds, NULL, NULL, NULL },
	};
	const struct CMUnitTest rests[] = {
		{ "bound at rest", bound_at_rest, NULL, NULL, NULL },
	};
	const struct CMUnitTest in_kernel[] = {
		{ "bound holds in the kernel", bound_in_kernel, NULL, NULL, NULL },
	};
	const char *what = argc > 1 ? argv[1] : "";
	int i = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	/* The page is read here, whatever the reader thinks of it. */
	fastclk_open(&clk, FASTCLK_ONE_CPU | FASTCLK_TEST_BUILD);
	if (!clk.mapping) {
		printf("Bail out! %s\n", fastclk_why(&clk));
		return 1;
	}
	if (argc == 3 && !strcmp(what, "rest")) {
		rest_limit_ns = strtoul(argv[2], NULL, 0);
		return cmocka_run_group_tests(rests, NULL, NULL);
	}
	if (argc == 3 && !strcmp(what, "kernel")) {
		kernel_ms = argv[2];
		return cmocka_run_group_tests(in_kernel, NULL, NULL);
	}
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--busy"))
			busy = true;
		else if (!strcmp(argv[i], "--switch") && i + 1 < argc)
			switch_ms = (unsigned int)strtoul(argv[++i], NULL, 0);
		else
			break;
	}
	if (argc - i != 2) {
		fprintf(stderr, "usage: bound [--switch MS] [--busy] SECONDS CHECKS\n"
			"       bound rest LIMIT\n       bound kernel MS\n");
		return 2;
	}
	seconds = strtoul(argv[i], NULL, 0);
	checks_wanted = strtoul(argv[i + 1], NULL, 0);
	return cmocka_run_group_tests(holds, NULL, NULL);
}
