// SPDX-License-Identifier: GPL-2.0-only
/*
 * The TSC as the kernel knows it. How it is read is in include/fastclk/counter.h.
 */
#include <linux/clocksource.h>
#include <asm/cpufeature.h>
#include <asm/tsc.h>

#include "../../core/internal.h"

/**
 * fastclk_counter_drives - is this clocksource the counter that user space reads?
 * @cs: a clocksource
 *
 * True for "tsc" and for "tsc-early", which it is until the rate was refined, about a
 * second after boot. kvm-clock and the Hyper-V page have a vDSO form too, but count
 * nanoseconds. Any context.
 */
bool fastclk_counter_drives(const struct clocksource *cs)
{
	return cs->vdso_clock_mode == VDSO_CLOCKMODE_TSC;
}

/**
 * fastclk_counter_khz - the nominal rate of the counter
 *
 * Any context. Return: kHz, 0 if the kernel does not know.
 */
u32 fastclk_counter_khz(void)
{
	return tsc_khz;
}

/**
 * fastclk_counter_invariant - is the counter's rate constant, by what the processor says?
 *
 * In all states: constant while the processor changes its clock, and counting while it
 * sleeps (CPUID 8000_0007h, EDX bit 8, and equivalents that the kernel knows). Any context.
 */
bool fastclk_counter_invariant(void)
{
	return boot_cpu_has(X86_FEATURE_CONSTANT_TSC) && boot_cpu_has(X86_FEATURE_NONSTOP_TSC);
}

/**
 * fastclk_counter_has_cpu - does an instruction read the counter together with the CPU's number?
 *
 * RDTSCP does; Linux puts the number into the low 12 bits of TSC_AUX. That is for user space:
 * the kernel must not use it, since KVM leaves a guest's TSC_AUX there. Any context.
 */
bool fastclk_counter_has_cpu(void)
{
	return boot_cpu_has(X86_FEATURE_RDTSCP);
}

/**
 * fastclk_counter_trusted - does the kernel trust the counter?
 *
 * Any context.
 */
bool fastclk_counter_trusted(void)
{
	return !check_tsc_unstable();
}

/**
 * fastclk_in_guest - are our CPUs some hypervisor's threads?
 *
 * Any context.
 */
bool fastclk_in_guest(void)
{
	return boot_cpu_has(X86_FEATURE_HYPERVISOR);
}
