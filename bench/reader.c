// SPDX-License-Identifier: GPL-2.0-only
/*
 * What reading the clock costs on this machine, without a module: on a page in memory
 * that this program writes itself. Says which of the project's limits are kept. Called
 * by make bench.
 *
 * Exit status: 0 all kept, 1 some are not, or it could not be measured.
 */
#include <stdio.h>
#include <string.h>

#include "selftests/native_page.h"
#include "tools/command.h"
#include "tools/measure.h"

/*
 * struct limit - what the project has set itself
 * @what: is measured
 * @limit: it may be no more
 * @unit: of both
 * @found: what it is
 */
struct limit {
	const char *what;
	double limit;
	const char *unit;
	double found;
};

static int judge(const struct measure_result *result)
{
	const struct limit limits[] = {
		{ "relaxed / rdtsc", 1.03, "",
		  measure_ratio(result, MEASURE_RELAXED, MEASURE_BARE) },
		{ "ordered / lfence; rdtsc", 1.08, "",
		  measure_ratio(result, MEASURE_ORDERED, MEASURE_BARE_ORDERED) },
		{ "ordered / clock_gettime", 0.90, "",
		  measure_ratio(result, MEASURE_ORDERED, MEASURE_GETTIME) },
		{ "with offsets / ordered", 1.05, "",
		  measure_ratio(result, MEASURE_OFFSETS, MEASURE_ORDERED) },
		{ "open and first read", 100, " us", result->open_us },
	};
	int missed = 0;
	size_t i;

	printf("\n%-26s %10s %10s\n", "limit", "at most", "found");
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int kept = limits[i].found > 0 && limits[i].found <= limits[i].limit;

		printf("%-26s %7.3f%-3s %7.3f%-3s %s\n", limits[i].what, limits[i].limit,
		       limits[i].unit, limits[i].found, limits[i].unit, kept ? "kept" : "MISSED");
		missed |= !kept;
	}
	return missed;
}

int main(void)
{
	struct native_page native = native_page_create(), offsets = native_page_create();
	struct measure_result result;
	int error, missed;

	native_page_set_offsets(&offsets);
	error = measure(native.path, offsets.path, &result);
	if (error) {
		fprintf(stderr, "bench/reader: staying on one CPU: %s\n", strerror(-error));
		return 1;
	}
	if (result.source != FASTCLK_SOURCE_PAGE) {
		fprintf(stderr, "bench/reader: the page in memory was not used: %s\n",
			fastclk_source_text(result.source));
		return 1;
	}
	bench_print(&result);
	missed = judge(&result);
	if (fflush(stdout) || ferror(stdout)) {
		perror("bench/reader: writing to standard output");
		return 1;
	}
	return missed;
}
