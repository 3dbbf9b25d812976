/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time that threads hand to each other must not go back: threads on all CPUs take stamps,
 * and each compares its own with the last one that any of them published, through one
 * contended variable. This is the form in which even a plain rdtsc is caught going back
 * (an exchange turn by turn does not show that). Used by native_monotonic.c and
 * monotonic.c.
 */
#ifndef MONOTONIC_H
#define MONOTONIC_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <fastclk.h>

/*
 * struct hand_over - a run
 * @last: the last stamp, on a cache line of its own
 * @last_cycles: the last counter value, in the same way
 * @clk: the clock
 * @relaxed: take the relaxed reader, which is not ordered
 * @wanted: stamps for each thread
 * @failed: a thread could not be bound to its CPU
 */
struct hand_over {
	uint64_t last __attribute__((aligned(128)));
	uint64_t last_cycles __attribute__((aligned(128)));
	const struct fastclk *clk __attribute__((aligned(128)));
	bool relaxed;
	unsigned long wanted;
	bool failed;
};

/*
 * struct hand_over_thread - one thread
 * @stamps: taken from the page
 * @fallbacks: taken from clock_gettime(), which don't count
 * @backwards: were smaller than the last one
 * @largest_ns: by so much at most
 * @counter_backwards: so many bare counter values were smaller than the last one
 */
struct hand_over_thread {
	pthread_t thread;
	struct hand_over *run;
	int cpu;
	unsigned long stamps;
	unsigned long fallbacks;
	unsigned long backwards;
	uint64_t largest_ns;
	unsigned long counter_backwards;
};

/*
 * The counters themselves, handed over in between. Where they go back this machine is not synced, and
 * no reader could help it. (A virtual machine was seen to be like that for a second or two, by up to 5 ns,
 * in 4 of 150 runs; its CPUs move.)
 */
static inline void hand_over_counter(struct hand_over_thread *t)
{
	uint64_t *shared = &t->run->last_cycles;
	uint64_t last = __atomic_load_n(shared, __ATOMIC_ACQUIRE);
	uint64_t cycles = fastclk_counter_ordered();

	if (cycles < last)
		t->counter_backwards++;
	__atomic_compare_exchange_n(shared, &last, cycles, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

/*
 * The loop is the same for both readers, up to the counter read. @ordered is constant. A
 * fallback is no page stamp and is neither compared nor handed over.
 */
FASTCLK_INLINE void hand_over_loop(struct hand_over_thread *t, int ordered)
{
	struct hand_over *run = t->run;
	const struct fastclk *clk = run->clk;
	struct fastclk_stamp stamp;
	uint64_t last;

	while (t->stamps < run->wanted && t->fallbacks < run->wanted) {
		last = __atomic_load_n(&run->last, __ATOMIC_ACQUIRE);
		if (fastclk_read_page(clk->page, clk->need, CLOCK_MONOTONIC, ordered, &stamp)) {
			t->fallbacks++;
			continue;
		}
		t->stamps++;
		if (stamp.ns < last) {
			t->backwards++;
			if (last - stamp.ns > t->largest_ns)
				t->largest_ns = last - stamp.ns;
		}
		__atomic_compare_exchange_n(&run->last, &last, stamp.ns, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
		hand_over_counter(t);
	}
}

static inline void *hand_over_thread(void *argument)
{
	struct hand_over_thread *t = argument;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(t->cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set)) {
		t->run->failed = true;
		return NULL;
	}
	if (t->run->relaxed)
		hand_over_loop(t, 0);
	else
		hand_over_loop(t, 1);
	return NULL;
}

/*
 * Take @stamps on all CPUs together, two threads on each. Return: what all threads saw in
 * sum; stamps is 0 if it could not be done.
 */
static inline struct hand_over_thread hand_over(const struct fastclk *clk, bool relaxed,
						unsigned long stamps)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	int threads = 2 * cpus, i;
	struct hand_over *run = aligned_alloc(128, sizeof(*run));
	struct hand_over_thread *t = calloc((size_t)threads, sizeof(*t));
	struct hand_over_thread sum;

	memset(&sum, 0, sizeof(sum));
	if (!run || !t)
		abort();
	memset(run, 0, sizeof(*run));
	run->clk = clk;
	run->relaxed = relaxed;
	run->wanted = stamps / (unsigned long)threads + 1;
	for (i = 0; i < threads; i++) {
		t[i].run = run;
		t[i].cpu = i % cpus;
		if (pthread_create(&t[i].thread, NULL, hand_over_thread, &t[i]))
			abort();
	}
	for (i = 0; i < threads; i++) {
		pthread_join(t[i].thread, NULL);
		sum.stamps += t[i].stamps;
		sum.fallbacks += t[i].fallbacks;
		sum.backwards += t[i].backwards;
		sum.counter_backwards += t[i].counter_backwards;
		if (t[i].largest_ns > sum.largest_ns)
			sum.largest_ns = t[i].largest_ns;
	}
	if (run->failed)
		sum.stamps = 0;
	free(t);
	free(run);
	return sum;
}

#endif /* MONOTONIC_H */
