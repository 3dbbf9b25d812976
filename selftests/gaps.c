// SPDX-License-Identifier: GPL-2.0-only
/*
 * How late real-time threads wake up, with the module at work and without: a FIFO thread on
 * each CPU sleeps for a millisecond, again and again, as in cyclictest. Reports, asserts
 * nothing: the guests' CPUs are threads of a busy host.
 *
 *	gaps SECONDS MODULE	without the module, while it is loaded again and again, and
 *				while CPUs are measured again and again
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS	1000000L
#define MOST_CPUS	64
#define MOST_WAKES	200000

static int cpus, over;
static unsigned int seconds;

static struct sleeper {
	pthread_t thread;
	int cpu;
	unsigned int wakes;
	long *late_ns;
} sleepers[MOST_CPUS];

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *sleep_and_wake(void *argument)
{
	const struct sched_param priority = { .sched_priority = 80 };
	struct sleeper *s = argument;
	long long next;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(s->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
	next = now_ns();
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED) && s->wakes < MOST_WAKES) {
		struct timespec until;

		next += PERIOD_NS;
		until.tv_sec = (time_t)(next / 1000000000);
		until.tv_nsec = (long)(next % 1000000000);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		s->late_ns[s->wakes++] = (long)(now_ns() - next);
		/* Late for more than one: that is one gap, not many. */
		if (now_ns() > next + PERIOD_NS)
			next = now_ns();
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return x < y ? -1 : x > y;
}

static int load(const char *module)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC);
	long ret = syscall(SYS_finit_module, fd, "", 0);

	close(fd);
	return (int)ret;
}

static void unload(void)
{
	syscall(SYS_delete_module, "fastclk", O_NONBLOCK);
}

static void measure_again(void)
{
	int fd = open("/sys/class/misc/fastclk/recheck", O_WRONLY | O_CLOEXEC);
	const struct timespec pause = { 0, 10000000 };

	if (write(fd, "1", 1) != 1)
		nanosleep(&pause, NULL);
	close(fd);
}

/* Return: how often it was done. */
static unsigned int watch(const char *what, const char *module, int loads, int rechecks)
{
	long long end = now_ns() + seconds * 1000000000LL;
	const struct timespec pause = { 0, 10000000 };
	unsigned int done = 0, wakes = 0, i;
	static long all[MOST_WAKES];
	int cpu;

	over = 0;
	for (cpu = 0; cpu < cpus; cpu++) {
		sleepers[cpu].cpu = cpu;
		sleepers[cpu].wakes = 0;
		pthread_create(&sleepers[cpu].thread, NULL, sleep_and_wake, &sleepers[cpu]);
	}
	while (now_ns() < end) {
		if (loads) {
			unload();
			load(module);
			done++;
		} else if (rechecks) {
			measure_again();
			done++;
		} else {
			nanosleep(&pause, NULL);
		}
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (cpu = 0; cpu < cpus; cpu++) {
		pthread_join(sleepers[cpu].thread, NULL);
		for (i = 0; i < sleepers[cpu].wakes && wakes < sizeof(all) / sizeof(all[0]); i++)
			all[wakes++] = sleepers[cpu].late_ns[i];
	}
	qsort(all, wakes, sizeof(all[0]), by_size);
	if (wakes)
		printf("# %-26s %6u wake-ups, late by %ld us in the median, %ld at the 99th percentile, %ld at most\n",
		       what, wakes, all[wakes / 2] / 1000, all[wakes - 1 - wakes / 100] / 1000,
		       all[wakes - 1] / 1000);
	return done;
}

int main(int argc, char **argv)
{
	unsigned int loads, rechecks;
	int cpu;

	cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (argc != 3 || cpus > MOST_CPUS) {
		fprintf(stderr, "usage: gaps SECONDS MODULE\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	seconds = (unsigned int)atoi(argv[1]);
	for (cpu = 0; cpu < cpus; cpu++) {
		sleepers[cpu].late_ns = calloc(MOST_WAKES, sizeof(long));
		if (!sleepers[cpu].late_ns)
			return 1;
	}
	printf("1..1\n");
	unload();
	watch("without the module", argv[2], 0, 0);
	loads = watch("while it is loaded", argv[2], 1, 0);
	load(argv[2]);
	watch("while it is there", argv[2], 0, 0);
	rechecks = watch("while CPUs are measured", argv[2], 0, 1);
	printf("# %u loads, %u re-checks asked for\n", loads, rechecks);
	printf("%sok 1 - real-time threads go on: reported only\n", loads && rechecks ? "" : "not ");
	return 0;
}
