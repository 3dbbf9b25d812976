/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The cycle counter of x86, the TSC: how it is read. The same for the kernel and for
 * user space, which must not pull in asm/tsc.h or asm/msr.h (their contents moved
 * between kernels, and User Mode Linux has neither).
 */
#ifndef _FASTCLK_COUNTER_H
#define _FASTCLK_COUNTER_H

#include <linux/types.h>

#define FASTCLK_COUNTER		FASTCLK_COUNTER_X86_TSC
#define FASTCLK_COUNTER_NAME	"tsc"		/* as the kernel names its clocksource */
#define FASTCLK_ORDER		FASTCLK_ORDER_LFENCE_RDTSC

/**
 * fastclk_counter - read the counter, in no order
 *
 * The processor may execute it before preceding loads or after following ones are
 * done: differences of 161 ns were seen between threads. (The compiler keeps its place.)
 * Any context; SIGSEGV in a task for which prctl(PR_SET_TSC) forbids it. Return: cycles.
 */
static inline __u64 fastclk_counter(void)
{
	unsigned long low, high;	/* rdtsc clears the upper halves of 64-bit registers */

	__asm__ __volatile__("rdtsc" : "=a" (low), "=d" (high) : : "memory");
	return (__u64)high << 32 | low;
}

/**
 * fastclk_counter_ordered - read the counter behind all preceding loads
 *
 * LFENCE lets no later instruction start before all earlier ones are complete (AMD:
 * with the serialising bit that Linux sets at boot). Context and value as
 * fastclk_counter().
 */
static inline __u64 fastclk_counter_ordered(void)
{
	unsigned long low, high;

	__asm__ __volatile__("lfence; rdtsc" : "=a" (low), "=d" (high) : : "memory");
	return (__u64)high << 32 | low;
}

/*
 * The second look at the page's seq must not come before the first. x86 does not
 * reorder loads, so only the compiler has to be told.
 */
static inline void fastclk_read_barrier(void)
{
	__asm__ __volatile__("" : : : "memory");
}

/* Tell the processor that this is a busy wait. */
static inline void fastclk_relax(void)
{
	__asm__ __volatile__("pause" : : : "memory");
}

#endif /* _FASTCLK_COUNTER_H */
