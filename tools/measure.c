// SPDX-License-Identifier: MIT
/*
 * What reading the clock costs: the page's reads against the bare counter and
 * clock_gettime(), all in one run on one CPU.
 *
 * The method. A sample is the time of a batch of calls, by CLOCK_MONOTONIC_RAW. Samples of
 * all readers alternate, in another order each time, so that what slows the machine down
 * hits all of them alike. A round is some tens of samples of each reader, of which the
 * median counts, which an interrupt or a preemption cannot move. The result of the run is the
 * median of the rounds.
 *
 * Behind a counter read the speed of a loop depends on how its instructions happen to fall
 * into the processor's dispatch groups: one and the same ordered read took 70 to 79 cycles as
 * the code around it moved. A program's layout is not ours to choose, so each reader is
 * measured in several loops that differ in padding, and the mean of their medians counts.
 *
 * The loop is the same for all readers and is not subtracted: a processor that executes out
 * of order does most of it while it waits for the counter.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define ROUNDS			25
#define MIN_ROUNDS		5
#define SAMPLES			11	/* of each loop, in each round */
#define MIN_SAMPLES		3
#define PADDINGS		8

/* A sample: long against the two clock reads around it, short against a time slice. */
#define SAMPLE_NS		100000
#define CLOCK_READS_PER_SAMPLE	300
#define MAX_CALLS		20000
#define MIN_CALLS		20

/* For all rounds. Exceeded where the machine is so slow that the least of all takes longer. */
#define BUDGET_NS		3000000000ULL

#define OPENS			301

#if defined(__x86_64__) || defined(__i386__)
#define BARE_NAME		"rdtsc"
#define BARE_ORDERED_NAME	"lfence; rdtsc"
#else
#define BARE_NAME		"bare counter"
#define BARE_ORDERED_NAME	"ordered counter"
#endif

/*
 * Loops over one reader. All have the same shape: the value is wanted in a register, and
 * nothing else is done with it; each starts a 64-byte line.
 */
#define LOOP(name, padding, ...)							\
static __attribute__((__noinline__, __aligned__(64)))					\
void name##_##padding(const struct fastclk *clk, unsigned int calls)			\
{											\
	(void)clk;									\
	do {										\
		__VA_ARGS__;								\
		__asm__ __volatile__(".rept " #padding "; nop; .endr");			\
	} while (--calls);								\
}

#define READER(name, ...)								\
	LOOP(name, 0, __VA_ARGS__) LOOP(name, 1, __VA_ARGS__)				\
	LOOP(name, 2, __VA_ARGS__) LOOP(name, 3, __VA_ARGS__)				\
	LOOP(name, 4, __VA_ARGS__) LOOP(name, 5, __VA_ARGS__)				\
	LOOP(name, 6, __VA_ARGS__) LOOP(name, 7, __VA_ARGS__)

#define LOOPS(name)									\
	{ name##_0, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7 }

/* The compiler must have the value, and knows nothing about memory any more. */
#define CONSUME(value)		__asm__ __volatile__("" : : "r" (value) : "memory")

READER(empty, CONSUME(calls))
READER(bare, uint64_t cycles = fastclk_counter(); CONSUME(cycles))
READER(relaxed, uint64_t ns = fastclk_now_ns_relaxed(clk); CONSUME(ns))
READER(bare_ordered, uint64_t cycles = fastclk_counter_ordered(); CONSUME(cycles))
READER(ordered, uint64_t ns = fastclk_now_ns(clk); CONSUME(ns))
READER(offsets, uint64_t ns = fastclk_now_ns(clk); CONSUME(ns))
READER(gettime, struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); CONSUME(now.tv_nsec))

static const struct {
	const char *name;
	void (*loops[PADDINGS])(const struct fastclk *clk, unsigned int calls);
} readers[MEASURE_READERS] = {
	[MEASURE_EMPTY] = { "empty loop", LOOPS(empty) },
	[MEASURE_BARE] = { BARE_NAME, LOOPS(bare) },
	[MEASURE_RELAXED] = { "fastclk_now_ns_relaxed", LOOPS(relaxed) },
	[MEASURE_BARE_ORDERED] = { BARE_ORDERED_NAME, LOOPS(bare_ordered) },
	[MEASURE_ORDERED] = { "fastclk_now_ns", LOOPS(ordered) },
	[MEASURE_OFFSETS] = { "... with offsets of CPUs", LOOPS(offsets) },
	[MEASURE_GETTIME] = { "clock_gettime", LOOPS(gettime) },
};

/*
 * struct clocks - what is read
 * @clk: by most readers
 * @offsets: by MEASURE_OFFSETS, which is left out if it is NULL
 */
struct clocks {
	const struct fastclk *clk;
	const struct fastclk *offsets;
};

/**
 * measure_reader_name - what to call a reader in a table
 * @reader: which
 */
const char *measure_reader_name(enum measure_reader reader)
{
	return readers[reader].name;
}

/**
 * measure_ratio - the cost of one reader in units of another one's
 * @result: of measure()
 * @reader: the one
 * @base: the other
 *
 * Return: 0 if the other one cost nothing that could be measured.
 */
double measure_ratio(const struct measure_result *result, enum measure_reader reader,
		     enum measure_reader base)
{
	return result->ns[base] > 0 ? result->ns[reader] / result->ns[base] : 0;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sorts the values. */
static double median(double *values, unsigned int count)
{
	qsort(values, count, sizeof(*values), compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static int is_left_out(const struct clocks *clocks, unsigned int reader)
{
	return reader == MEASURE_OFFSETS && !clocks->offsets;
}

/* Ns per call. */
static double sample(const struct clocks *clocks, unsigned int reader, unsigned int padding,
		     unsigned int calls)
{
	const struct fastclk *clk = reader == MEASURE_OFFSETS ? clocks->offsets : clocks->clk;
	uint64_t start;

	if (is_left_out(clocks, reader))
		return 0;
	start = now_ns();
	readers[reader].loops[padding](clk, calls);
	return (double)(now_ns() - start) / calls;
}

/* Ns that one of the clock reads around a sample takes. */
static double timer_cost_ns(void)
{
	double costs[31];
	unsigned int i;

	for (i = 0; i < 31; i++) {
		uint64_t start = now_ns();

		now_ns();
		now_ns();
		costs[i] = (double)(now_ns() - start) / 3;
	}
	return median(costs, 31);
}

/* How many calls fill a sample. Also warms up what the reader needs. */
static unsigned int calls_for(const struct clocks *clocks, unsigned int reader, double sample_ns)
{
	double costs[PADDINGS], cost, calls;
	unsigned int i;

	if (is_left_out(clocks, reader))
		return 0;
	for (i = 0; i < PADDINGS; i++)
		costs[i] = sample(clocks, reader, i, 200);
	cost = median(costs, PADDINGS);
	calls = cost > 0 ? sample_ns / cost : MAX_CALLS;
	if (calls > MAX_CALLS)
		return MAX_CALLS;
	return calls < MIN_CALLS ? MIN_CALLS : (unsigned int)calls;
}

static void one_round(const struct clocks *clocks, const struct measure_result *result,
		      unsigned int samples, double found[MEASURE_READERS])
{
	static double costs[MEASURE_READERS][PADDINGS][SAMPLES];
	unsigned int i, padding, j, reader;

	for (i = 0; i < samples; i++) {
		for (padding = 0; padding < PADDINGS; padding++) {
			for (j = 0; j < MEASURE_READERS; j++) {
				reader = (i + padding + j) % MEASURE_READERS;
				costs[reader][padding][i] =
					sample(clocks, reader, padding, result->calls[reader]);
			}
		}
	}
	for (reader = 0; reader < MEASURE_READERS; reader++) {
		found[reader] = 0;
		for (padding = 0; padding < PADDINGS; padding++)
			found[reader] += median(costs[reader][padding], samples) / PADDINGS;
	}
}

static void all_rounds(const struct clocks *clocks, struct measure_result *result)
{
	static double found[MEASURE_READERS][ROUNDS];
	double sample_ns = CLOCK_READS_PER_SAMPLE * timer_cost_ns();
	double pass_ns = 0, fitting, of_round[MEASURE_READERS];
	unsigned int reader, samples;
	uint64_t start;

	if (sample_ns < SAMPLE_NS)
		sample_ns = SAMPLE_NS;
	for (reader = 0; reader < MEASURE_READERS; reader++) {
		result->calls[reader] = calls_for(clocks, reader, sample_ns);
		pass_ns += PADDINGS * result->calls[reader] *
			   sample(clocks, reader, 0, result->calls[reader]);
	}
	fitting = (double)BUDGET_NS / (pass_ns * ROUNDS);
	samples = fitting > SAMPLES ? SAMPLES :
		  fitting < MIN_SAMPLES ? MIN_SAMPLES : (unsigned int)fitting;
	result->samples = samples * PADDINGS;

	start = now_ns();
	do {
		one_round(clocks, result, samples, of_round);
		for (reader = 0; reader < MEASURE_READERS; reader++)
			found[reader][result->rounds] = of_round[reader];
		result->rounds++;
	} while (result->rounds < ROUNDS &&
		 (result->rounds < MIN_ROUNDS || now_ns() - start < BUDGET_NS));

	for (reader = 0; reader < MEASURE_READERS; reader++) {
		result->ns[reader] = median(found[reader], result->rounds);
		result->spread_ns[reader] = found[reader][result->rounds - 1] - found[reader][0];
	}
}

/* What a program pays at its start, in us. */
static double open_cost_us(const char *path)
{
	static double costs[OPENS];
	struct fastclk clk;
	unsigned int i;

	for (i = 0; i < OPENS; i++) {
		uint64_t start = now_ns();

		fastclk_open_at(&clk, path, 0);
		CONSUME(fastclk_now_ns(&clk));
		costs[i] = (double)(now_ns() - start) / 1000;
		fastclk_close(&clk);
	}
	return median(costs, OPENS);
}

/**
 * measure - do it
 * @path: as for fastclk_open_at()
 * @offsets_path: of a page with FASTCLK_STATUS_OFFSETS, or NULL
 * @result: result
 *
 * Takes about three seconds, on the CPU that this thread is on. Return: 0, -EPERM if this
 * process must not read the counter, or another negative errno if the thread cannot be kept
 * on its CPU.
 */
int measure(const char *path, const char *offsets_path, struct measure_result *result)
{
	struct fastclk clk, offsets;
	struct clocks clocks = { &clk, NULL };
	cpu_set_t before, one;

	memset(result, 0, sizeof(*result));
	/* The C library's clock_gettime() reads it as well. */
	if (fastclk_counter_forbidden())
		return -EPERM;
	result->cpu = sched_getcpu();
	if (result->cpu < 0 || sched_getaffinity(0, sizeof(before), &before))
		return -errno;
	CPU_ZERO(&one);
	CPU_SET((unsigned int)result->cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return -errno;

	result->open_us = open_cost_us(path);
	result->source = fastclk_open_at(&clk, path, 0);
	if (offsets_path) {
		int source = fastclk_open_at(&offsets, offsets_path, 0);

		if (result->source == FASTCLK_SOURCE_PAGE)
			result->source = source;
		clocks.offsets = &offsets;
	}
	all_rounds(&clocks, result);
	if (result->source == FASTCLK_SOURCE_PAGE)
		result->source = fastclk_source(&clk);
	if (offsets_path) {
		if (result->source == FASTCLK_SOURCE_PAGE)
			result->source = fastclk_source(&offsets);
		fastclk_close(&offsets);
	}
	fastclk_close(&clk);

	sched_setaffinity(0, sizeof(before), &before);
	return 0;
}
