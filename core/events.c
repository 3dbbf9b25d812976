// SPDX-License-Identifier: GPL-2.0-only
/*
 * Telling others that verdict, mode, reason or generation changed: those who poll
 * /dev/fastclk or the files in sysfs, udev, and those who trace.
 *
 * Changes happen where nothing may be woken (the timekeeper's notifier), so there are
 * three steps: whoever changes the page raises an event, an irq_work traces and wakes
 * pollers, and a work item does what has to sleep. The irq_work is not of the HARD kind, so
 * that it may wake on PREEMPT_RT as well. All tell what the page says by then, so changes
 * that follow each other fast are told as one.
 */
#include <linux/atomic.h>
#include <linux/irq_work.h>
#include <linux/kobject.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "internal.h"
#define CREATE_TRACE_POINTS
#include "trace.h"

static atomic_t fastclk_event_count = ATOMIC_INIT(0);
static struct kobject *fastclk_event_kobject;

/* What was traced last; an irq_work may run on two CPUs at once. */
static DEFINE_RAW_SPINLOCK(fastclk_traced_lock);
static struct fastclk_page fastclk_traced;

/* For udev: one event, with what is the case now. */
static void fastclk_events_udev(struct kobject *kobject)
{
	char verdict[32], mode[32], reason[32], generation[32];
	char *environment[] = { verdict, mode, reason, generation, NULL };
	struct fastclk_page p;

	fastclk_page_read(&p);
	snprintf(verdict, sizeof(verdict), "FASTCLK_VERDICT=%s",
		 fastclk_verdict_name(p.verdict.verdict));
	snprintf(mode, sizeof(mode), "FASTCLK_MODE=%s", fastclk_mode_name(p.verdict.mode));
	snprintf(reason, sizeof(reason), "FASTCLK_REASON=%s",
		 fastclk_reason_name(p.verdict.reason));
	snprintf(generation, sizeof(generation), "FASTCLK_GENERATION=%u", p.hot.generation);
	/* Nobody to tell it to if it fails. */
	kobject_uevent_env(kobject, KOBJ_CHANGE, environment);
}

static void fastclk_events_tell(struct work_struct *work)
{
	static const char * const files[] = { "verdict", "reason", "mode", "generation" };
	struct kobject *kobject = READ_ONCE(fastclk_event_kobject);
	unsigned int i;

	if (!kobject)
		return;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		sysfs_notify(kobject, NULL, files[i]);
	fastclk_events_udev(kobject);
}

static DECLARE_WORK(fastclk_event_work, fastclk_events_tell);

/* What the page said when this was called for the last time, and what it says now. */
static void fastclk_events_look(struct fastclk_page *old, struct fastclk_page *now)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&fastclk_traced_lock, flags);
	fastclk_page_read(now);
	*old = fastclk_traced;
	fastclk_traced = *now;
	raw_spin_unlock_irqrestore(&fastclk_traced_lock, flags);
}

/* Traces whatever changed since it was called for the last time. */
static void fastclk_events_trace(void)
{
	struct fastclk_page old, now;

	fastclk_events_look(&old, &now);
	if (old.verdict.verdict != now.verdict.verdict)
		trace_verdict(old.verdict.verdict, &now.verdict);
	if (old.verdict.mode != now.verdict.mode || old.verdict.reason != now.verdict.reason ||
	    old.hot.generation != now.hot.generation)
		trace_mode(old.verdict.mode, &now);
	if (old.clocks.updates != now.clocks.updates)
		trace_update(&now);
}

static void fastclk_events_wake(struct irq_work *work)
{
	fastclk_events_trace();
	fastclk_sampler_wake();
	/* The device, and those who wait for it, are there as long as the attributes are. */
	if (!READ_ONCE(fastclk_event_kobject))
		return;
	fastclk_chardev_wake();
	schedule_work(&fastclk_event_work);
}

static void fastclk_events_updated(struct irq_work *work)
{
	fastclk_events_trace();
}

static struct irq_work fastclk_event_irq_work;
static struct irq_work fastclk_update_irq_work;

/* The machine is about to sleep, or asleep. */
static bool fastclk_events_held;

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
	if (!READ_ONCE(fastclk_events_held))
		irq_work_queue(&fastclk_event_irq_work);
}

/**
 * fastclk_events_update - a line was published, and somebody traces that
 *
 * Any context, the timekeeper's notifier included. Only to be called if
 * trace_update_enabled() says so, since each call means an interrupt.
 */
void fastclk_events_update(void)
{
	if (!READ_ONCE(fastclk_events_held))
		irq_work_queue(&fastclk_update_irq_work);
}

/**
 * fastclk_events_hold - the machine is going to sleep: tell what is to be told, then nothing
 *
 * The timekeeper suspends and resumes with interrupts off and the interrupt controller saved or
 * not restored yet. An irq_work that is queued then waits for an interrupt that is lost: it
 * would never run, nor be queued again, and irq_work_sync() would wait for it forever. Sleeps.
 */
void fastclk_events_hold(void)
{
	WRITE_ONCE(fastclk_events_held, true);
	irq_work_sync(&fastclk_event_irq_work);
	irq_work_sync(&fastclk_update_irq_work);
}

/**
 * fastclk_events_release - the machine is awake again: tell what happened meanwhile
 *
 * Any context.
 */
void fastclk_events_release(void)
{
	WRITE_ONCE(fastclk_events_held, false);
	irq_work_queue(&fastclk_event_irq_work);
}

/**
 * fastclk_events_init - before the first event
 */
void fastclk_events_init(void)
{
	init_irq_work(&fastclk_event_irq_work, fastclk_events_wake);
	init_irq_work(&fastclk_update_irq_work, fastclk_events_updated);
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
	irq_work_sync(&fastclk_update_irq_work);
	irq_work_sync(&fastclk_event_irq_work);
	cancel_work_sync(&fastclk_event_work);
}
