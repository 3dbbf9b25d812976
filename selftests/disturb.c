// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disturbs the kernel's clock as hard as it can be while a command runs: for guests only.
 *
 *	disturb [--slew] COMMAND [ARGUMENT...]
 *
 * Once a millisecond it changes, in turn, the rate (+-500 ppm), the length of the tick
 * (-1 % and +5 %) and CLOCK_REALTIME (steps of 1.5 s to and fro). With --slew, only the
 * rate. Afterwards all is as before. Exit status: the command's, 2 for wrong usage, 1 if
 * the clock can't be changed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PPM_500		(500L << 16)

static void adjust(unsigned int modes, long value)
{
	struct timex tx;

	memset(&tx, 0, sizeof(tx));
	tx.modes = modes;
	if (modes & ADJ_FREQUENCY)
		tx.freq = value;
	if (modes & ADJ_TICK)
		tx.tick = value;
	if (adjtimex(&tx) < 0) {
		perror("disturb: adjtimex");
		exit(1);
	}
}

static void step(long ms)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += ms / 1000;
	now.tv_nsec += ms % 1000 * 1000000;
	if (now.tv_nsec < 0) {
		now.tv_nsec += 1000000000;
		now.tv_sec--;
	} else if (now.tv_nsec >= 1000000000) {
		now.tv_nsec -= 1000000000;
		now.tv_sec++;
	}
	if (clock_settime(CLOCK_REALTIME, &now)) {
		perror("disturb: clock_settime");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static const long ticks[] = { 9900, 10000, 10500, 10000 };
	const struct timespec pause = { 0, 1000000 };
	bool only_slew = argc > 1 && !strcmp(argv[1], "--slew");
	unsigned long turn;
	int status;
	pid_t pid;

	argv += 1 + only_slew;
	if (!*argv) {
		fprintf(stderr, "usage: disturb [--slew] COMMAND [ARGUMENT...]\n");
		return 2;
	}
	pid = fork();
	if (pid < 0) {
		perror("disturb: fork");
		return 1;
	}
	if (!pid) {
		execvp(argv[0], argv);
		fprintf(stderr, "disturb: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}

	for (turn = 0; !waitpid(pid, &status, WNOHANG); turn++) {
		adjust(ADJ_FREQUENCY, turn & 1 ? PPM_500 : -PPM_500);
		if (!only_slew && turn % 2 == 0)
			adjust(ADJ_TICK, ticks[turn / 2 % 4]);
		if (!only_slew && turn % 4 == 3)
			step(turn & 4 ? 1500 : -1500);
		nanosleep(&pause, NULL);
	}
	adjust(ADJ_FREQUENCY, 0);
	adjust(ADJ_TICK, 10000);
	/* On stderr: stdout is the command's. */
	fprintf(stderr, "# the clock was disturbed %lu times\n", turn);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
