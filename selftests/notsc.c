// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs a subcommand of `fastclk` in a process that must not read the counter. Called by
 * guest_command.sh: notsc status|now|bench [OPTION]...
 *
 * The subcommands are linked in, since no program that needs a dynamic loader can be started
 * in such a process: the loader itself reads the counter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tools/command.h"

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{ "status", status_main }, { "now", now_main }, { "bench", bench_main },
	};
	size_t i;

	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)) {
		perror("notsc: prctl");
		return 125;
	}
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (argc > 1 && !strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "notsc: say status, now or bench\n");
	return 125;
}
