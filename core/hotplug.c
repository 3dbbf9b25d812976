// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs come and go: the verdict is always about those on which programs can run. What
 * follows for the verdict is in core/sync.c.
 *
 * A CPU that comes online is compared with the others in CPUHP_AP_ONLINE_DYN, on its own
 * hotplug thread. That is before the scheduler lets any user task onto it
 * (CPUHP_AP_ACTIVE), and the bring-up waits for us, so the first program that runs there
 * finds a verdict which includes the CPU. Until then the old one is true for everybody.
 *
 * On the way down, the corresponding step would be too early: programs may still run on the
 * CPU then, and must not be told that all is well because the bad one is leaving. So that is
 * left to a callback which is made, by a state from before the CPU is started, when it is
 * dead. If bringing it up fails halfway, that is made as well; if taking it down fails, the
 * CPU is measured again.
 *
 * While the machine falls asleep or wakes up, all is left to core/suspend.c.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>

#include "internal.h"

static int fastclk_hotplug_state_dead;
static int fastclk_hotplug_state_online;

static int fastclk_hotplug_online(unsigned int cpu)
{
	if (!cpuhp_tasks_frozen)
		fastclk_sync_cpu_online(cpu);
	return 0;
}

static int fastclk_hotplug_dead(unsigned int cpu)
{
	if (!cpuhp_tasks_frozen)
		fastclk_sync_cpu_dead();
	return 0;
}

/**
 * fastclk_hotplug_init - follow CPUs from now on
 *
 * Those that are online already are not reported. Sleeps. Return: 0 or a negative errno.
 */
int fastclk_hotplug_init(void)
{
	int ret;

	ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "fastclk:dead", NULL,
					fastclk_hotplug_dead);
	if (ret < 0)
		return ret;
	fastclk_hotplug_state_dead = ret;

	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "fastclk:online",
					fastclk_hotplug_online, NULL);
	if (ret < 0) {
		cpuhp_remove_state_nocalls(fastclk_hotplug_state_dead);
		return ret;
	}
	fastclk_hotplug_state_online = ret;
	return 0;
}

/**
 * fastclk_hotplug_exit - no more callbacks
 *
 * Sleeps until the last one has ended.
 */
void fastclk_hotplug_exit(void)
{
	cpuhp_remove_state_nocalls(fastclk_hotplug_state_online);
	cpuhp_remove_state_nocalls(fastclk_hotplug_state_dead);
}
