/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time that threads hand to each other must not go back although they go from CPU to CPU all
 * the time: as monotonic.h, with threads that are not bound. Used by native_offsets.c and
 * offsets.c.
 */
#ifndef MIGRATING_H
#define MIGRATING_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <fastclk.h>

/* Stamps between two migrations: some 10 us, or 100 where the CPU is emulated. */
#define STAMPS_PER_CPU	500

/* A generation has a place of its own for its last stamp; stamps of others don't compare. */
#define GENERATIONS	64

/*
 * struct migrating - a run
 * @last: the last stamp of each generation, on cache lines of their own
 * @clk: the clock
 * @cpus: how many CPUs
 * @wanted: stamps for each thread
 */
struct migrating {
	uint64_t last[GENERATIONS] __attribute__((aligned(128)));
	const struct fastclk *clk __attribute__((aligned(128)));
	unsigned int cpus;
	unsigned long wanted;
};

/*
 * struct migrating_thread - one thread
 * @cpu: where it starts
 * @stamps: taken from the page
 * @fallbacks: taken from clock_gettime(), which don't count
 * @changes: of the generation, at most; what was just taken does not count then
 * @moves: from CPU to CPU
 * @backwards: were smaller than the last one
 * @largest_ns: by so much at most
 */
struct migrating_thread {
	pthread_t thread;
	struct migrating *run;
	unsigned int cpu;
	unsigned long stamps;
	unsigned long fallbacks;
	unsigned long changes;
	unsigned long moves;
	unsigned long backwards;
	uint64_t largest_ns;
};

static inline void migrate(struct migrating_thread *t)
{
	cpu_set_t set;

	t->cpu = (t->cpu + 1) % t->run->cpus;
	CPU_ZERO(&set);
	CPU_SET(t->cpu, &set);
	if (!sched_setaffinity(0, sizeof(set), &set))
		t->moves++;
}

static inline void *migrating_thread(void *argument)
{
	struct migrating_thread *t = argument;
	struct migrating *run = t->run;
	struct fastclk_stamp stamp;
	uint32_t generation;
	uint64_t last, *place;

	while (t->stamps < run->wanted && t->fallbacks + t->changes < run->wanted) {
		if ((t->stamps + t->fallbacks) % STAMPS_PER_CPU == 0)
			migrate(t);
		generation = fastclk_generation(run->clk);
		place = &run->last[generation % GENERATIONS];
		last = __atomic_load_n(place, __ATOMIC_ACQUIRE);
		if (fastclk_stamp(run->clk, CLOCK_MONOTONIC, &stamp)) {
			t->fallbacks++;
			continue;
		}
		if (stamp.generation != generation) {
			t->changes++;
			continue;
		}
		t->stamps++;
		if (stamp.ns < last) {
			t->backwards++;
			if (last - stamp.ns > t->largest_ns)
				t->largest_ns = last - stamp.ns;
		}
		__atomic_compare_exchange_n(place, &last, stamp.ns, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Take @stamps with twice as many threads as CPUs. Return: what all threads saw, in sum. */
static inline struct migrating_thread migrating(const struct fastclk *clk, unsigned long stamps)
{
	unsigned int cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN), i;
	struct migrating *run = aligned_alloc(128, sizeof(*run));
	struct migrating_thread *t = calloc(2UL * cpus, sizeof(*t));
	struct migrating_thread sum;

	memset(&sum, 0, sizeof(sum));
	if (!run || !t)
		abort();
	memset(run, 0, sizeof(*run));
	run->clk = clk;
	run->cpus = cpus;
	run->wanted = stamps / (2UL * cpus) + 1;
	for (i = 0; i < 2 * cpus; i++) {
		t[i].run = run;
		t[i].cpu = i;
		if (pthread_create(&t[i].thread, NULL, migrating_thread, &t[i]))
			abort();
	}
	for (i = 0; i < 2 * cpus; i++) {
		pthread_join(t[i].thread, NULL);
		sum.stamps += t[i].stamps;
		sum.fallbacks += t[i].fallbacks;
		sum.moves += t[i].moves;
		sum.backwards += t[i].backwards;
		if (t[i].largest_ns > sum.largest_ns)
			sum.largest_ns = t[i].largest_ns;
	}
	free(t);
	free(run);
	return sum;
}

#endif /* MIGRATING_H */
