// SPDX-License-Identifier: MIT
/*
 * The command `fastclk`: finds the subcommand. Described in man/fastclk.1.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"

const char *argp_program_version = "fastclk 0.1.0, page ABI 1.1";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "status", status_main },
	{ "now", now_main },
	{ "bench", bench_main },
};

static const char doc[] =
	"The cycle clock of the fastclk module: can it be used, what time is it, what does "
	"reading it cost?"
	"\vCommands:\n"
	"  status   whether the clock can be used and, if not, why, and what to do\n"
	"  now      the time in ns\n"
	"  bench    what reading the clock costs\n"
	"\n"
	"`fastclk COMMAND --help' tells more, and so does fastclk(1).\n"
	"\n"
	"Exit status: 0 the clock can be used, 1 it can't and clock_gettime() is used instead, "
	"2 wrong usage, 3 there is no device, 4 the output could not be written.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	int *command = state->input;
	size_t i;

	switch (key) {
	case ARGP_KEY_ARG:
		for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
			if (!strcmp(arg, commands[i].name)) {
				/* What follows is the command's. */
				*command = (int)i;
				state->next = state->argc;
				return 0;
			}
		}
		argp_error(state, "there is no command '%s': use status, now or bench", arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "a command is missing: use status, now or bench");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "COMMAND [OPTION...]",
		.doc = doc,
	};
	char name[32];
	int command = 0, first;

	if (atexit(command_check_output)) {
		fprintf(stderr, "fastclk: out of memory\n");
		return EXIT_NOT_USABLE;
	}
	argp_err_exit_status = EXIT_USAGE;
	/* In order: an option behind the command is the command's. */
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &command);

	/* The command is the first word that is not an option, since we have none with values. */
	for (first = 1; argv[first][0] == '-'; first++)
		;
	snprintf(name, sizeof(name), "fastclk %s", commands[command].name);
	argv[first] = name;
	return commands[command].run(argc - first, argv + first);
}
