// SPDX-License-Identifier: MIT
/*
 * Opening the clock in a command: which exit status it means, and why, in more words than
 * the header can have. Called by status.c, now.c and bench.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "command.h"

/* The header tells a missing device from one that can't be opened; people need to know more. */
static int open_error(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/**
 * command_set_source - take note of where the time comes from
 * @clock: the clock, opened
 * @source: enum fastclk_source
 */
void command_set_source(struct command_clock *clock, int source)
{
	const char *module = strcmp(clock->path, FASTCLK_DEVICE) ? "" :
			     ": the fastclk module is not loaded";

	clock->source = source;
	clock->status = source == FASTCLK_SOURCE_PAGE ? EXIT_USABLE : EXIT_NOT_USABLE;
	if (source == FASTCLK_SOURCE_NO_DEVICE && clock->error == ENODEV) {
		/* The module is there, but lets nobody in any more. */
		snprintf(clock->why, sizeof(clock->why), "%s was revoked by the administrator",
			 clock->path);
	} else if (source == FASTCLK_SOURCE_NO_DEVICE) {
		snprintf(clock->why, sizeof(clock->why), "there is no %s%s", clock->path, module);
		clock->status = EXIT_NO_DEVICE;
	} else if (source == FASTCLK_SOURCE_NO_ACCESS) {
		snprintf(clock->why, sizeof(clock->why), "%s can't be %s", clock->path,
			 clock->error ? "opened: " : "mapped");
		if (clock->error)
			strncat(clock->why, strerror(clock->error),
				sizeof(clock->why) - strlen(clock->why) - 1);
	} else {
		snprintf(clock->why, sizeof(clock->why), "%s", fastclk_why(&clock->clk));
	}
}

/**
 * command_open - open the clock
 * @clock: result
 * @path: of the page
 */
void command_open(struct command_clock *clock, const char *path)
{
	clock->path = path;
	clock->error = open_error(path);
	command_set_source(clock, fastclk_open_at(&clock->clk, path, 0));
}

/**
 * command_check_output - at exit: was all that was printed written?
 *
 * A full disk or a closed standard output is not passed over in silence.
 */
void command_check_output(void)
{
	bool failed = ferror(stdout);

	if (fclose(stdout))
		failed = true;
	if (failed) {
		fprintf(stderr, "fastclk: standard output can't be written: %s\n",
			errno ? strerror(errno) : "an earlier write failed");
		_exit(EXIT_OUTPUT);
	}
}
