// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault injection, only in test builds: the parameter "fault" adds an offset or a drift
 * to the counter of chosen CPUs, as the sync engine reads it. It may be changed while
 * the module is loaded, through /sys/module/fastclk/parameters/fault. The parameter
 * "stop_writer" keeps lines from being renewed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <fastclk/counter.h>
#include "fault.h"

/*
 * struct fastclk_fault - what is wrong with a CPU's counter
 * @offset: cycles that are added
 * @drift_ppb: and so many more per 1e9 cycles since @start
 * @start: when it began
 */
struct fastclk_fault {
	s64 offset;
	s64 drift_ppb;
	u64 start;
};

static DEFINE_PER_CPU(struct fastclk_fault, fastclk_faults);

/**
 * fastclk_fault_counter - the counter, as it is wrong on this CPU
 * @cycles: as it was read
 *
 * Called by a thread that stays on its CPU.
 */
u64 fastclk_fault_counter(u64 cycles)
{
	const struct fastclk_fault *fault = raw_cpu_ptr(&fastclk_faults);
	s64 drift = READ_ONCE(fault->drift_ppb);

	u64 wrong = cycles + READ_ONCE(fault->offset);

	/* In steps of 1,024 cycles, which keeps the product in 64 bits for a day and more. */
	if (drift)
		wrong += div_s64((s64)((cycles - fault->start) >> 10) * drift, NSEC_PER_SEC >> 10);
	return wrong;
}

/* "cpu:offset[:drift_ppb]", several of them separated by commas; the rest has no fault. */
static int fastclk_fault_set(const char *value, const struct kernel_param *kp)
{
	char *copy, *rest, *one;
	long long offset, drift;
	unsigned int cpu;
	int ret = 0, fields;

	copy = kstrdup(value, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&fastclk_faults, cpu), 0, sizeof(struct fastclk_fault));

	rest = strim(copy);
	while (*rest && (one = strsep(&rest, ","))) {
		struct fastclk_fault *fault;

		drift = 0;
		fields = sscanf(one, "%u:%lld:%lld", &cpu, &offset, &drift);
		if (fields < 2 || cpu >= nr_cpu_ids || !cpu_possible(cpu)) {
			pr_err("fault=\"%s\": \"%s\" is not CPU:CYCLES[:PPB] with a CPU below %u\n",
			       value, one, nr_cpu_ids);
			ret = -EINVAL;
			break;
		}
		fault = per_cpu_ptr(&fastclk_faults, cpu);
		fault->start = fastclk_counter_ordered();
		WRITE_ONCE(fault->offset, offset);
		WRITE_ONCE(fault->drift_ppb, drift);
		if (!rest)
			break;
	}
	kfree(copy);
	return ret;
}

static const struct kernel_param_ops fastclk_fault_ops = {
	.set = fastclk_fault_set,
};

module_param_cb(fault, &fastclk_fault_ops, NULL, 0200);
MODULE_PARM_DESC(fault, "TEST BUILD: errors of counters, CPU:CYCLES[:PPB],...");

static bool stop_writer;
module_param(stop_writer, bool, 0600);
MODULE_PARM_DESC(stop_writer, "TEST BUILD: no line is renewed any more");

/**
 * fastclk_fault_writer_stopped - is the page to become stale?
 *
 * Any context.
 */
bool fastclk_fault_writer_stopped(void)
{
	return READ_ONCE(stop_writer);
}

/**
 * fastclk_fault_init - say that this is a test build
 */
void fastclk_fault_init(void)
{
	pr_warn("this is a test build with fault injection; never use it for real\n");
}
