// SPDX-License-Identifier: MIT
/*
 * fastclk now: the time, for scripts, and to try the reader out.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>

#include "command.h"

static const struct {
	const char *name;
	uint64_t (*ordered)(const struct fastclk *clk);
	uint64_t (*relaxed)(const struct fastclk *clk);
} clocks[] = {
	{ "monotonic", fastclk_now_ns, fastclk_now_ns_relaxed },
	{ "realtime", fastclk_realtime_ns, fastclk_realtime_ns_relaxed },
	{ "boottime", fastclk_boottime_ns, fastclk_boottime_ns_relaxed },
	{ "tai", fastclk_tai_ns, fastclk_tai_ns_relaxed },
	{ "raw", fastclk_raw_ns, fastclk_raw_ns_relaxed },
};

#define CLOCKS	(sizeof(clocks) / sizeof(clocks[0]))

struct now_arguments {
	const char *page;
	size_t clock;
	bool relaxed;
};

static const struct argp_option options[] = {
	{ "clock", 'c', "CLOCK", 0,
	  "monotonic (the default), realtime, boottime, tai, or raw (CLOCK_MONOTONIC_RAW)", 0 },
	{ "relaxed", 'r', NULL, 0, "read the counter in no order", 0 },
	{ "page", 'p', "FILE", 0, "the page, in the place of " FASTCLK_DEVICE, 0 },
	{ NULL, 0, NULL, 0, NULL, 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct now_arguments *arguments = state->input;
	size_t i;

	switch (key) {
	case 'c':
		for (i = 0; i < CLOCKS; i++) {
			if (!strcmp(arg, clocks[i].name)) {
				arguments->clock = i;
				return 0;
			}
		}
		argp_error(state, "there is no clock '%s': use monotonic, realtime, boottime, tai "
			   "or raw", arg);
		return 0;
	case 'r':
		arguments->relaxed = true;
		return 0;
	case 'p':
		arguments->page = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much: there are only options", arg);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/**
 * now_main - the subcommand
 * @argc: of its own words
 * @argv: these
 *
 * Return: exit status.
 */
int now_main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Prints the time in ns. When the page can't be used, it comes from "
		       "clock_gettime(), and a message and the exit status say so.",
	};
	struct now_arguments arguments = { .page = FASTCLK_DEVICE };
	struct command_clock clock;
	uint64_t ns;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	command_open(&clock, arguments.page);
	if (arguments.relaxed)
		ns = clocks[arguments.clock].relaxed(&clock.clk);
	else
		ns = clocks[arguments.clock].ordered(&clock.clk);
	printf("%" PRIu64 "\n", ns);
	if (clock.status != EXIT_USABLE)
		fprintf(stderr, "fastclk now: this is clock_gettime()'s: %s\n", clock.why);
	fastclk_close(&clock.clk);
	return clock.status;
}
