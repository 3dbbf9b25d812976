// SPDX-License-Identifier: GPL-2.0-only
/*
 * In lockstep the page shows what clock_gettime() shows: a clock_gettime() between two
 * ordered page reads lies between their values, for every clock, on all CPUs, while
 * somebody changes the clock's rate and sets it (selftests/disturb).
 *
 *	bracket [CHECKS]	how many for each clock, default 10 million
 *
 * The page is written a moment after the vDSO's data, and the clock may be set between two
 * reads. So what looks like a violation is judged once more: clock_gettime() used one line,
 * at a counter value between those of the two page reads, so its value must lie between
 * what one line gives for these, be it the line before the first read, the one after the
 * second, or the one that is published next. When more than one line was published
 * between the reads (the thread was descheduled), the one that was used may be unknown;
 * then the check is discarded and made again.
 */
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <fastclk.h>

#define NAME(clock)	{ clock, #clock }

static const struct {
	clockid_t clock;
	const char *name;
} clocks[] = {
	NAME(CLOCK_MONOTONIC), NAME(CLOCK_REALTIME), NAME(CLOCK_BOOTTIME), NAME(CLOCK_TAI),
	NAME(CLOCK_MONOTONIC_RAW),
};

static unsigned long checks_wanted = 10000000;
static struct fastclk clk;

struct worker {
	pthread_t thread;
	struct fastclk_page lines;	/* as they were before the first read */
	int cpu;
	clockid_t clock;
	unsigned long wanted;
	unsigned long checked;
	unsigned long judged;		/* again, with other lines */
	unsigned long discarded;
	unsigned long violations;
	unsigned long fallbacks;
};

/* A consistent copy of the page's lines. */
static void copy_lines(struct fastclk_page *copy)
{
	const struct fastclk_page *page = clk.page;
	uint32_t seq;

	do {
		seq = __atomic_load_n(&page->hot.seq, __ATOMIC_ACQUIRE);
		memcpy(&copy->hot, (const void *)&page->hot, sizeof(copy->hot));
		memcpy(&copy->clocks, (const void *)&page->clocks, sizeof(copy->clocks));
		fastclk_read_barrier();
	} while ((seq & 1) || seq != FASTCLK_LOAD32(page->hot.seq));
}

static uint64_t convert(const struct fastclk_page *lines, clockid_t clock, uint64_t cycles)
{
	struct fastclk_line line = {
		lines->hot.mult, lines->hot.offset_lo, lines->hot.offset_hi, lines->hot.shift,
	};

	if (clock == CLOCK_MONOTONIC_RAW) {
		line.mult = lines->clocks.raw_mult;
		line.offset_lo = lines->clocks.raw_offset_lo;
		line.offset_hi = lines->clocks.raw_offset_hi;
		line.shift = lines->clocks.raw_shift;
	}
	return fastclk_line_ns(&line, cycles) +
	       (clock == CLOCK_REALTIME ? (uint64_t)lines->hot.realtime_offset :
		clock == CLOCK_BOOTTIME ? (uint64_t)lines->clocks.boottime_offset :
		clock == CLOCK_TAI ? (uint64_t)lines->clocks.tai_offset : 0);
}

/* Wait, for a second at most, until another line is published than @now. */
static bool wait_for_next(const struct fastclk_page *now, struct fastclk_page *next)
{
	uint64_t begin = fastclk_gettime_ns(CLOCK_MONOTONIC_RAW);

	do {
		copy_lines(next);
		if (next->clocks.updates != now->clocks.updates)
			return true;
	} while (fastclk_gettime_ns(CLOCK_MONOTONIC_RAW) - begin < 1000000000);
	return false;
}

/* Does this line give @between at a counter value between the two reads? */
static bool explains(const struct fastclk_page *lines, clockid_t clock,
		     const struct fastclk_stamp *first, uint64_t between,
		     const struct fastclk_stamp *second)
{
	return convert(lines, clock, first->cycles) <= between &&
	       between <= convert(lines, clock, second->cycles);
}

static void judge(struct worker *w, const struct fastclk_stamp *first, uint64_t between,
		  const struct fastclk_stamp *second)
{
	struct fastclk_page now, next;

	copy_lines(&now);
	if (now.clocks.updates > w->lines.clocks.updates + 1 || !wait_for_next(&now, &next) ||
	    next.clocks.updates != now.clocks.updates + 1) {
		w->discarded++;
		return;
	}
	w->judged++;
	w->checked++;
	if (explains(&w->lines, w->clock, first, between, second) ||
	    explains(&now, w->clock, first, between, second) ||
	    explains(&next, w->clock, first, between, second))
		return;
	w->violations++;
	printf("# violation on CPU %d: %llu, %llu, %llu\n", w->cpu, (unsigned long long)first->ns,
	       (unsigned long long)between, (unsigned long long)second->ns);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	struct fastclk_stamp first, second;
	uint64_t between;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(w->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);

	while (w->checked < w->wanted && w->fallbacks + w->discarded < w->wanted) {
		if (FASTCLK_LOAD64(clk.page->clocks.updates) != w->lines.clocks.updates)
			copy_lines(&w->lines);
		if (fastclk_stamp(&clk, w->clock, &first)) {
			w->fallbacks++;
			continue;
		}
		between = fastclk_gettime_ns(w->clock);
		if (fastclk_stamp(&clk, w->clock, &second)) {
			w->fallbacks++;
			continue;
		}
		if (first.ns <= between && between <= second.ns)
			w->checked++;
		else
			judge(w, &first, between, &second);
	}
	return NULL;
}

/* One clock, on all CPUs at once. */
static void bracket_clock(void **state)
{
	int index = *(int *)*state;
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), cpu;
	struct worker *workers = calloc((size_t)cpus, sizeof(*workers));
	struct worker sum = { 0 };

	assert_non_null(workers);
	for (cpu = 0; cpu < cpus; cpu++) {
		workers[cpu].cpu = cpu;
		workers[cpu].clock = clocks[index].clock;
		workers[cpu].wanted = checks_wanted / (unsigned long)cpus + 1;
		assert_int_equal(0, pthread_create(&workers[cpu].thread, NULL, work,
						   &workers[cpu]));
	}
	for (cpu = 0; cpu < cpus; cpu++) {
		pthread_join(workers[cpu].thread, NULL);
		sum.checked += workers[cpu].checked;
		sum.judged += workers[cpu].judged;
		sum.discarded += workers[cpu].discarded;
		sum.fallbacks += workers[cpu].fallbacks;
		sum.violations += workers[cpu].violations;
	}
	free(workers);
	printf("# %s: %lu checks, %lu of them judged with other lines, %lu discarded, %lu fallbacks, %lu violations\n",
	       clocks[index].name, sum.checked, sum.judged, sum.discarded, sum.fallbacks,
	       sum.violations);
	assert_true(sum.checked >= checks_wanted);
	assert_int_equal(sum.violations, 0);
}

int main(int argc, char **argv)
{
	static int index[] = { 0, 1, 2, 3, 4 };
	const struct CMUnitTest tests[] = {
		{ "bracket CLOCK_MONOTONIC", bracket_clock, NULL, NULL, &index[0] },
		{ "bracket CLOCK_REALTIME", bracket_clock, NULL, NULL, &index[1] },
		{ "bracket CLOCK_BOOTTIME", bracket_clock, NULL, NULL, &index[2] },
		{ "bracket CLOCK_TAI", bracket_clock, NULL, NULL, &index[3] },
		{ "bracket CLOCK_MONOTONIC_RAW", bracket_clock, NULL, NULL, &index[4] },
	};

	if (argc > 1)
		checks_wanted = strtoul(argv[1], NULL, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	/* FASTCLK_ONE_CPU: on a busy host there may be no verdict yet, which is not needed here. */
	if (fastclk_open(&clk, FASTCLK_ONE_CPU | FASTCLK_TEST_BUILD)) {
		printf("Bail out! %s\n", fastclk_why(&clk));
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
