// SPDX-License-Identifier: MIT
/*
 * fastclk bench: shows what measure.c found. bench/reader.c shows the same table.
 */
#include <argp.h>
#include <stdio.h>

#include "command.h"
#include "json.h"
#include "measure.h"

struct bench_arguments {
	const char *page;
	bool json;
};

static const struct argp_option options[] = {
	{ "page", 'p', "FILE", 0, "the page, in the place of " FASTCLK_DEVICE, 0 },
	{ "json", 'j', NULL, 0, "print a JSON object", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench_arguments *arguments = state->input;

	switch (key) {
	case 'p':
		arguments->page = arg;
		return 0;
	case 'j':
		arguments->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much: there are only options", arg);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* What to divide by what. */
static const struct {
	enum measure_reader reader;
	enum measure_reader base;
	const char *key;
} ratios[] = {
	{ MEASURE_RELAXED, MEASURE_BARE, "relaxed_per_bare" },
	{ MEASURE_RELAXED, MEASURE_GETTIME, "relaxed_per_clock_gettime" },
	{ MEASURE_ORDERED, MEASURE_BARE_ORDERED, "ordered_per_bare_ordered" },
	{ MEASURE_ORDERED, MEASURE_GETTIME, "ordered_per_clock_gettime" },
};

#define RATIOS	(sizeof(ratios) / sizeof(ratios[0]))

static const char * const keys[MEASURE_READERS] = {
	[MEASURE_EMPTY] = "empty_loop",
	[MEASURE_BARE] = "bare",
	[MEASURE_RELAXED] = "relaxed",
	[MEASURE_BARE_ORDERED] = "bare_ordered",
	[MEASURE_ORDERED] = "ordered",
	[MEASURE_GETTIME] = "clock_gettime",
};

/**
 * bench_print - the table
 * @result: what is in it
 */
void bench_print(const struct measure_result *result)
{
	size_t i;

	printf("%-24s %10s %10s\n", "reader", "ns/call", "spread");
	for (i = 0; i < MEASURE_READERS; i++)
		if (result->calls[i])
			printf("%-24s %10.2f %10.2f\n", measure_reader_name(i), result->ns[i],
			       result->spread_ns[i]);
	printf("\n");
	for (i = 0; i < RATIOS; i++)
		printf("%-24s %10.3f x %s\n", measure_reader_name(ratios[i].reader),
		       measure_ratio(result, ratios[i].reader, ratios[i].base),
		       measure_reader_name(ratios[i].base));
	printf("\nopen and first read: %.1f us\n", result->open_us);
	printf("On CPU %d, medians of %u rounds with %u samples of up to %u calls; spread is that "
	       "of the\nrounds. The loop around the calls is part of all figures.\n", result->cpu,
	       result->rounds, result->samples, result->calls[MEASURE_BARE]);
}

static void bench_json(const struct command_clock *clock, const struct measure_result *result)
{
	size_t i;

	json_begin(NULL);
	json_bool("usable", clock->status == EXIT_USABLE);
	json_string("source", clock->source == FASTCLK_SOURCE_PAGE ? "page" : "clock_gettime");
	json_string("why", clock->why);
	json_string("page_file", clock->path);
	json_begin("ns_per_call");
	for (i = 0; i < MEASURE_READERS; i++)
		if (keys[i])
			json_real(keys[i], result->ns[i], 3);
	json_end();
	json_begin("spread_ns");
	for (i = 0; i < MEASURE_READERS; i++)
		if (keys[i])
			json_real(keys[i], result->spread_ns[i], 3);
	json_end();
	json_begin("ratios");
	for (i = 0; i < RATIOS; i++)
		json_real(ratios[i].key,
			  measure_ratio(result, ratios[i].reader, ratios[i].base), 4);
	json_end();
	json_real("open_and_first_read_us", result->open_us, 3);
	json_signed("cpu", result->cpu);
	json_unsigned("rounds", result->rounds);
	json_unsigned("samples_per_round", result->samples);
	json_bool("loop_subtracted", false);
	json_end();
}

/**
 * bench_main - the subcommand
 * @argc: of its own words
 * @argv: these
 *
 * Return: exit status.
 */
int bench_main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Measures what reading the clock costs, next to the bare counter and "
		       "clock_gettime(). Takes some seconds, all of them on one CPU.",
	};
	struct bench_arguments arguments = { .page = FASTCLK_DEVICE };
	struct measure_result result;
	struct command_clock clock;
	int error;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	command_open(&clock, arguments.page);
	error = measure(arguments.page, NULL, &result);
	if (error) {
		if (clock.source == FASTCLK_SOURCE_NO_COUNTER)
			fprintf(stderr, "fastclk bench: nothing can be measured: %s\n", clock.why);
		else
			fprintf(stderr, "fastclk bench: can't stay on one CPU: %s\n",
				strerror(-error));
		fastclk_close(&clock.clk);
		return EXIT_NOT_USABLE;
	}
	if (result.source != clock.source)
		command_set_source(&clock, result.source);

	if (arguments.json) {
		bench_json(&clock, &result);
	} else {
		if (clock.source == FASTCLK_SOURCE_PAGE)
			printf("source: the page %s\n\n", clock.path);
		else
			printf("source: clock_gettime(), since %s.\n"
			       "        The lines of fastclk show what falling back costs.\n\n",
			       clock.why);
		bench_print(&result);
	}
	fastclk_close(&clock.clk);
	return clock.status;
}
