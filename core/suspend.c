// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine has slept, or is a virtual one that was restored from a snapshot or cloned:
 * counters may have stopped, gone on, begun anew or been set, each for itself. So nothing
 * that was measured before counts any longer, and stamps from before and after must not be
 * compared.
 *
 * Sleep is announced, and readers have fallen back before anything stops. They can use the
 * page again when there is a new verdict, a few ms after they have woken up. A restore is
 * only known when it has happened, and only where the hypervisor tells.
 */
#include <linux/notifier.h>
#include <linux/random.h>
#include <linux/suspend.h>

#include "compat.h"
#include "internal.h"

static int fastclk_suspend_notify(struct notifier_block *nb, unsigned long event, void *unused)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		fastclk_page_set_suspended(true);
		fastclk_sync_pause();
		fastclk_events_hold();
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		fastclk_events_release();
		fastclk_sync_resume();
		fastclk_page_set_suspended(false);
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block fastclk_suspend_notifier = {
	.notifier_call = fastclk_suspend_notify,
};

static int fastclk_vmfork_notify(struct notifier_block *nb, unsigned long event, void *unused)
{
	/* First the verdict: with the new generation it must not be seen. */
	fastclk_sync_forget();
	fastclk_page_restart();
	return NOTIFY_OK;
}

static struct notifier_block fastclk_vmfork_notifier = {
	.notifier_call = fastclk_vmfork_notify,
};

/**
 * fastclk_suspend_init - hear of it from now on
 *
 * Sleeps. Return: 0 or a negative errno.
 */
int fastclk_suspend_init(void)
{
	int ret = register_pm_notifier(&fastclk_suspend_notifier);

	if (ret)
		return ret;
	ret = register_random_vmfork_notifier(&fastclk_vmfork_notifier);
	if (ret)
		unregister_pm_notifier(&fastclk_suspend_notifier);
	return ret;
}

/**
 * fastclk_suspend_exit - no more of that
 *
 * Sleeps until the last notification has been dealt with.
 */
void fastclk_suspend_exit(void)
{
	unregister_random_vmfork_notifier(&fastclk_vmfork_notifier);
	unregister_pm_notifier(&fastclk_suspend_notifier);
}
