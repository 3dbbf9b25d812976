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

/* There is fastclk_counter_with_cpu(). */
#define FASTCLK_HAVE_COUNTER_WITH_CPU

/**
 * fastclk_counter_with_cpu - read the counter, ordered, and the number of the CPU it is of
 * @cpu: result, 0 to 4095
 *
 * RDTSCP waits for all preceding loads by itself, and takes TSC_AUX in the same step, so that
 * no migration comes in between. Linux keeps the CPU's number in the low 12 bits of that. For
 * user space only: in the kernel, TSC_AUX may be that of a KVM guest.
 */
static inline __u64 fastclk_counter_with_cpu(__u32 *cpu)
{
	unsigned long low, high;
	unsigned int aux;

	__asm__ __volatile__("rdtscp" : "=a" (low), "=d" (high), "=c" (aux) : : "memory");
	*cpu = aux & 0xfff;
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
