/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the command `fastclk` share.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include <fastclk.h>

/* Exit status. fastclk(1) documents it. */
enum {
	EXIT_USABLE = 0,
	EXIT_NOT_USABLE = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DEVICE = 3,
	EXIT_OUTPUT = 4,		/* standard output could not be written */
};

/*
 * struct command_clock - the clock that a command is about
 * @clk: as opened; to be closed
 * @path: of the page
 * @source: enum fastclk_source
 * @error: errno of opening @path, 0 if it could be opened
 * @status: what to exit with
 * @why: source, as a sentence
 */
struct command_clock {
	struct fastclk clk;
	const char *path;
	int source;
	int error;
	int status;
	char why[256];
};

/* command.c */
void command_open(struct command_clock *clock, const char *path);
void command_set_source(struct command_clock *clock, int source);
void command_check_output(void);

/* status.c, now.c, bench.c: take what follows `fastclk` on the command line */
int status_main(int argc, char **argv);
int now_main(int argc, char **argv);
int bench_main(int argc, char **argv);

struct measure_result;
void bench_print(const struct measure_result *result);

#endif /* TOOLS_COMMAND_H */
