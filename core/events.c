// SPDX-License-Identifier: GPL-2.0-only
/*
 * Telling others that verdict, mode, reason or generation changed: those who poll
 * /dev/fastclk or the files in sysfs.
 *
 * Changes happen where nothing may be woken (the timekeeper's notifier), so there are
 * three steps: whoever changes the page raises an event, an irq_work wakes pollers, and
 * a work item does what has to sleep. The irq_work is not of the HARD kind, so that it
 * may wake on PREEMPT_RT as well.
 */
#include <linux/atomic.h>
#include <linux/irq_work.h>
#include <linux/poll.h>
#include <linux/sysfs.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "internal.h"

static atomic_t fastclk_event_count = ATOMIC_INIT(0);
static struct kobject *fastclk_event_kobject;

static void fastclk_events_tell(struct work_struct *work)
{
	static const char * const files[] = { "verdict", "reason", "mode", "generation" };
	struct kobject *kobject = READ_ONCE(fastclk_event_kobject);
	unsigned int i;

	if (!kobject)
		return;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		sysfs_notify(kobject, NULL, files[i]);
}

static DECLARE_WORK(fastclk_event_work, fastclk_events_tell);

static void fastclk_events_wake(struct irq_work *work)
{
	fastclk_sampler_wake();
	/* The device, and those who wait for it, are there as long as the attributes are. */
	if (!READ_ONCE(fastclk_event_kobject))
		return;
	fastclk_chardev_wake();
	schedule_work(&fastclk_event_work);
}

static struct irq_work fastclk_event_irq_work;

/**
 * fastclk_events_count - how many events there were, modulo 2^32
 *
 * Any context.
 */
u32 fastclk_events_count(void)
{
	return atomic_read(&fastclk_event_count);
}

/**
 * fastclk_events_raise - something changed that others want to know
 *
 * Any context, the timekeeper's notifier included.
 */
void fastclk_events_raise(void)
{
	atomic_inc(&fastclk_event_count);
	irq_work_queue(&fastclk_event_irq_work);
}

/**
 * fastclk_events_init - before the first event
 */
void fastclk_events_init(void)
{
	init_irq_work(&fastclk_event_irq_work, fastclk_events_wake);
}

/**
 * fastclk_events_start - the device is there, others may wait for events
 * @kobject: where its attributes are
 */
void fastclk_events_start(struct kobject *kobject)
{
	WRITE_ONCE(fastclk_event_kobject, kobject);
}

/**
 * fastclk_events_stop - the device is going to vanish
 *
 * Sleeps until nobody is being told any more.
 */
void fastclk_events_stop(void)
{
	WRITE_ONCE(fastclk_event_kobject, NULL);
	/* Whoever still wakes has either seen that, or is waited for. */
	smp_mb();
	irq_work_sync(&fastclk_event_irq_work);
	flush_work(&fastclk_event_work);
}

/**
 * fastclk_events_exit - after the last event
 *
 * May sleep.
 */
void fastclk_events_exit(void)
{
	irq_work_sync(&fastclk_event_irq_work);
	cancel_work_sync(&fastclk_event_work);
}
