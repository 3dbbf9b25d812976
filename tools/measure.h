/* SPDX-License-Identifier: MIT */
/*
 * What reading the clock costs. Used by `fastclk bench` and by bench/reader.c.
 */
#ifndef TOOLS_MEASURE_H
#define TOOLS_MEASURE_H

#include <fastclk.h>

/* What is measured. The order is that of the tables that show it. */
enum measure_reader {
	MEASURE_EMPTY,			/* the loop alone */
	MEASURE_BARE,			/* the bare counter, in no order */
	MEASURE_RELAXED,		/* fastclk_now_ns_relaxed() */
	MEASURE_BARE_ORDERED,		/* the bare counter, ordered */
	MEASURE_ORDERED,		/* fastclk_now_ns() */
	MEASURE_OFFSETS,		/* the same on a page with FASTCLK_STATUS_OFFSETS */
	MEASURE_GETTIME,		/* clock_gettime(CLOCK_MONOTONIC) */
	MEASURE_READERS
};

/*
 * struct measure_result - what was found
 * @ns: per call, loop included: median of the rounds; 0: not measured
 * @spread_ns: of the rounds, largest minus smallest
 * @open_us: from fastclk_open_at() to the end of the first read, median
 * @source: enum fastclk_source: that of the beginning or, if it was the page, of the end
 * @cpu: where all of it ran
 * @rounds: how many there were
 * @samples: in each round, of each reader
 * @calls: in each sample
 */
struct measure_result {
	double ns[MEASURE_READERS];
	double spread_ns[MEASURE_READERS];
	double open_us;
	int source;
	int cpu;
	unsigned int rounds;
	unsigned int samples;
	unsigned int calls[MEASURE_READERS];
};

int measure(const char *path, const char *offsets_path, struct measure_result *result);
const char *measure_reader_name(enum measure_reader reader);
double measure_ratio(const struct measure_result *result, enum measure_reader reader,
		     enum measure_reader base);

#endif /* TOOLS_MEASURE_H */
