// SPDX-License-Identifier: GPL-2.0-only
/*
 * fastclk: a calibrated cycle clock for user space, and a verdict on whether it may be
 * trusted. This file has the module's parameters, and the order in which its parts are
 * brought up and torn down, and nothing else; docs/architecture.md tells which part does
 * what.
 */
/* Kbuild takes the object's name, fastclk-module, for the module's here. */
#define pr_fmt(fmt) "fastclk: " fmt

#include <linux/kernel.h>
#include <linux/module.h>

#include "core/fault.h"
#include "core/internal.h"

#define FASTCLK_BUDGET_MIN_MS	10
#define FASTCLK_BUDGET_MAX_MS	60000
#define FASTCLK_SAMPLE_MAX_MS	10000
#define FASTCLK_RECHECK_MAX_S	86400

static char *cpus = "";
module_param(cpus, charp, 0444);
MODULE_PARM_DESC(cpus, "List of CPUs to test, e.g. 0-3,8 (default: all). The verdict is unknown while a CPU is online that is not in the list");

static unsigned int budget_ms;
module_param(budget_ms, uint, 0444);
MODULE_PARM_DESC(budget_ms, "Longest time that a measurement may take, 10 to 60000 ms (default 0: 2000 for up to 4 CPUs, 286 more for each further one)");

static bool idle_injection = true;
module_param(idle_injection, bool, 0444);
MODULE_PARM_DESC(idle_injection, "In a virtual machine in which pairs of CPUs starve: idle all CPUs for up to 100 ms at a time while pairs are measured (default Y)");

static unsigned int recheck_seconds = 60;
module_param(recheck_seconds, uint, 0444);
MODULE_PARM_DESC(recheck_seconds, "How often all pairs of CPUs are checked again, 1 to 86400 s, or 0: never (default 60)");

static bool offsets = true;
module_param(offsets, bool, 0444);
MODULE_PARM_DESC(offsets, "Where counters differ by constants: publish an offset for each CPU, for readers to add (default Y; N: the verdict is unsynced)");

static bool assume_invariant;
module_param(assume_invariant, bool, 0444);
MODULE_PARM_DESC(assume_invariant, "The counter's rate is constant although the processor does not say so (default N)");

static unsigned int sample_ms;
module_param(sample_ms, uint, 0444);
MODULE_PARM_DESC(sample_ms, "How often the kernel's clock is sampled where the counter is not its clocksource, 1 to 10000 ms (default 0: 100, or 10 while CPUs are busy if the counter's rate is variable)");

static int __init fastclk_check_parameters(void)
{
	if (sample_ms > FASTCLK_SAMPLE_MAX_MS) {
		pr_err("sample_ms=%u is not from 1 to %u, nor 0 for the default\n", sample_ms,
		       FASTCLK_SAMPLE_MAX_MS);
		return -EINVAL;
	}
	if (recheck_seconds > FASTCLK_RECHECK_MAX_S) {
		pr_err("recheck_seconds=%u is not from 1 to %u, nor 0 for never\n",
		       recheck_seconds, FASTCLK_RECHECK_MAX_S);
		return -EINVAL;
	}
	if (budget_ms && (budget_ms < FASTCLK_BUDGET_MIN_MS || budget_ms > FASTCLK_BUDGET_MAX_MS)) {
		pr_err("budget_ms=%u is not from %u to %u, nor 0 for the default\n", budget_ms,
		       FASTCLK_BUDGET_MIN_MS, FASTCLK_BUDGET_MAX_MS);
		return -EINVAL;
	}
	return 0;
}

static int __init fastclk_init(void)
{
	const struct fastclk_sync_parameters parameters = {
		.cpus = cpus,
		.budget_ms = budget_ms,
		.idle_injection = idle_injection,
		.recheck_seconds = recheck_seconds,
		.offsets = offsets,
	};
	int ret;

	ret = fastclk_check_parameters();
	if (ret)
		return ret;

	fastclk_fault_init();
	fastclk_events_init();
	ret = fastclk_page_init(assume_invariant);
	if (ret)
		return ret;
	ret = fastclk_sampler_init(sample_ms);
	if (ret)
		goto out_page;
	ret = fastclk_timekeeper_init();
	if (ret)
		goto out_sampler;
	/* Before CPUs are measured, so that none comes unnoticed afterwards. */
	ret = fastclk_hotplug_init();
	if (ret)
		goto out_timekeeper;
	ret = fastclk_sync_init(&parameters);
	if (ret)
		goto out_hotplug;
	ret = fastclk_suspend_init();
	if (ret)
		goto out_sync;
	ret = fastclk_chardev_init();
	if (ret)
		goto out_suspend;
	fastclk_debugfs_init();
	return 0;

out_suspend:
	fastclk_suspend_exit();
out_sync:
	/* First, what calls it. */
	fastclk_hotplug_exit();
	fastclk_sync_exit();
	goto out_timekeeper;
out_hotplug:
	fastclk_hotplug_exit();
out_timekeeper:
	fastclk_timekeeper_exit();
out_sampler:
	/* So that nothing wakes the sampler any more. */
	fastclk_page_revoke();
	fastclk_events_stop();
	fastclk_sampler_exit();
out_page:
	fastclk_page_exit();
	fastclk_events_exit();
	return ret;
}

static void __exit fastclk_exit(void)
{
	/* First of all, nobody may start to use anything any more. */
	fastclk_page_revoke();
	fastclk_sync_stop();
	fastclk_debugfs_exit();
	fastclk_chardev_exit();
	fastclk_suspend_exit();
	fastclk_hotplug_exit();
	fastclk_sync_exit();
	fastclk_timekeeper_exit();
	fastclk_sampler_exit();
	fastclk_page_exit();
	fastclk_events_exit();
}

module_init(fastclk_init);
module_exit(fastclk_exit);

MODULE_DESCRIPTION("Calibrated cycle clock with a sync verdict, in a vDSO-like page");
MODULE_AUTHOR("The fastclk developers");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("GPL");
