// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where another clocksource than the counter drives the kernel's clocks: looks at both now
 * and then, fits the counter to them (core/discipline.c), and hands the fit to the page.
 *
 * All samples are taken on one CPU, since the counters of CPUs may differ. A sample is the
 * best of several looks; interrupts are off for one look at a time, which is two reads
 * of the counter and one of the clock.
 *
 * Locks: fastclk_sampler_mutex, around all of it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>

#include <fastclk/counter.h>
#include "compat.h"
#include "fault.h"
#include "internal.h"

#define FASTCLK_LOOKS			8

/* Ten times a second is what an idle machine may be woken without being asked. */
#define FASTCLK_INTERVAL_MS		100U

/*
 * A counter of a variable rate is looked at as often, but by a timer that does not wake an
 * idle CPU.
 */
#define FASTCLK_INTERVAL_VARIABLE_MS	10U

/*
 * No rate that changes makes so much of one interval: a clock was set, as when a machine is
 * restored by a hypervisor that does not tell. Then counters may have been set one by one.
 */
#define FASTCLK_JUMP_NS			NSEC_PER_MSEC

static DEFINE_MUTEX(fastclk_sampler_mutex);
static struct fastclk_discipline fastclk_sampler_fit;
static u32 fastclk_sampler_era;
static unsigned int fastclk_sampler_cpu = UINT_MAX;	/* none yet */
static unsigned int fastclk_sampler_interval_ms;	/* 0: the default */
static u64 fastclk_sampler_lost;
static struct workqueue_struct *fastclk_sampler_queue;

static void fastclk_sampler_run(struct work_struct *work);
static void fastclk_sampler_run_deferrable(struct work_struct *work);
static DECLARE_DELAYED_WORK(fastclk_sampler_work, fastclk_sampler_run);
static DECLARE_DEFERRABLE_WORK(fastclk_sampler_work_deferrable, fastclk_sampler_run_deferrable);

static void fastclk_sampler_look(struct fastclk_sample *sample)
{
	unsigned long flags;

	local_irq_save(flags);
	sample->before = fastclk_page_counter();
	sample->ns = ktime_get_raw_ns();
	sample->after = fastclk_page_counter();
	local_irq_restore(flags);
}

/*
 * The look that puts the clock furthest ahead. Of looks that are right that is the one in
 * which the least time passed after the clock was read, a narrow one. But a look can be
 * wrong: the kernel's hpet code lets a CPU that has to wait for another one's reading take
 * that reading, which may be older than the call (89 us were seen in a guest). Such a look
 * is narrow, too, but behind. A CPU is never given a reading of the future.
 */
static void fastclk_sampler_sample(u32 khz, struct fastclk_sample *sample)
{
	struct fastclk_sample other;
	unsigned int i;
	s64 ahead;

	fastclk_sampler_look(sample);
	for (i = 1; i < FASTCLK_LOOKS; i++) {
		fastclk_sampler_look(&other);
		ahead = (s64)(other.ns - sample->ns) -
			(s64)div_u64((other.after - sample->after) * (NSEC_PER_SEC / 1000), khz);
		if (ahead > 0)
			*sample = other;
	}
}

/* Frequent ones at first: the rate is known better from one to the next. */
static unsigned int fastclk_sampler_next_ms(bool variable)
{
	unsigned int ms = fastclk_sampler_interval_ms ?: FASTCLK_INTERVAL_MS;

	if (variable && !fastclk_sampler_interval_ms)
		ms = FASTCLK_INTERVAL_VARIABLE_MS;
	return fastclk_sampler_fit.samples < 8 ?
	       min(1U << fastclk_sampler_fit.samples >> 1 ?: 1U, ms) : ms;
}

static void fastclk_sampler_start(const struct fastclk_task *task)
{
	const struct fastclk_tuning *tuning = &fastclk_tuning_disciplined;
	u32 shift;
	u64 mult;

	if (task->variable)
		tuning = &fastclk_tuning_variable;
	else if (fastclk_in_guest())
		tuning = &fastclk_tuning_guest;
	mult = fastclk_discipline_mult(task->khz, task->variable ? 8 : 2, &shift);
	fastclk_discipline_start(&fastclk_sampler_fit, tuning, mult, shift, task->granularity_ns);
	fastclk_sampler_era = task->era;
	WRITE_ONCE(fastclk_sampler_cpu, raw_smp_processor_id());
}

/* With the mutex held, on a thread bound to a CPU. Return: the interval until the next, 0: none. */
static unsigned int fastclk_sampler_update(struct fastclk_task *task)
{
	struct fastclk_sample sample;
	unsigned int ms;
	int ret;

	if (!fastclk_page_get_task(task) || !task->khz)
		return 0;
	if (fastclk_fault_writer_stopped())
		return FASTCLK_INTERVAL_MS;
	if (!fastclk_sampler_fit.samples || fastclk_sampler_era != task->era) {
		fastclk_sampler_start(task);
	} else if (fastclk_sampler_cpu != raw_smp_processor_id()) {
		/* That CPU went offline. */
		if (task->skew_cycles != U64_MAX) {
			fastclk_discipline_disturb(&fastclk_sampler_fit, task->skew_cycles);
			WRITE_ONCE(fastclk_sampler_cpu, raw_smp_processor_id());
		} else {
			fastclk_page_set_fit(task->era, NULL, 1);
			return 1;
		}
	}

	fastclk_sampler_sample(task->khz, &sample);
	ret = fastclk_discipline_add(&fastclk_sampler_fit, &sample);
	/* The counter was set while we looked. */
	if (ret == -EINVAL)
		return 1;
	if (ret) {
		fastclk_sampler_lost++;
		/* First the verdict: with the new generation it must not be seen. */
		if (fastclk_sampler_fit.gap_ns >= FASTCLK_JUMP_NS)
			fastclk_sync_forget();
		fastclk_page_set_fit(task->era, NULL, 1);
		/* The next era begins at once. */
		if (!fastclk_page_get_task(task))
			return 0;
		fastclk_sampler_start(task);
		fastclk_discipline_add(&fastclk_sampler_fit, &sample);
	}
	ms = fastclk_sampler_next_ms(task->variable);
	fastclk_page_set_fit(task->era, &fastclk_sampler_fit.fit, ms * (u64)NSEC_PER_MSEC);
	return ms;
}

static void fastclk_sampler_run(struct work_struct *work)
{
	struct fastclk_task task;
	unsigned int ms;

	mutex_lock(&fastclk_sampler_mutex);
	ms = fastclk_sampler_update(&task);
	mutex_unlock(&fastclk_sampler_mutex);
	if (!ms)
		return;
	if (ms == FASTCLK_INTERVAL_VARIABLE_MS && !fastclk_sampler_interval_ms && task.variable) {
		queue_delayed_work_on(raw_smp_processor_id(), fastclk_sampler_queue,
				      &fastclk_sampler_work_deferrable, msecs_to_jiffies(ms));
		ms = FASTCLK_INTERVAL_MS;
	}
	queue_delayed_work_on(raw_smp_processor_id(), fastclk_sampler_queue,
			      &fastclk_sampler_work, msecs_to_jiffies(ms));
}

static void fastclk_sampler_run_deferrable(struct work_struct *work)
{
	struct fastclk_task task;
	unsigned int ms;

	mutex_lock(&fastclk_sampler_mutex);
	ms = fastclk_sampler_update(&task);
	mutex_unlock(&fastclk_sampler_mutex);
	if (ms)
		queue_delayed_work_on(raw_smp_processor_id(), fastclk_sampler_queue,
				      &fastclk_sampler_work_deferrable, msecs_to_jiffies(ms));
}

/**
 * fastclk_sampler_wake - there may be something to be sampled now
 *
 * Any context in which work can be queued; not under the timekeeper's lock.
 */
void fastclk_sampler_wake(void)
{
	unsigned int cpu = READ_ONCE(fastclk_sampler_cpu);
	struct fastclk_task task;

	if (!fastclk_page_get_task(&task))
		return;
	/* The same CPU as before, if it can be. */
	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		cpu = raw_smp_processor_id();
	mod_delayed_work_on(cpu, fastclk_sampler_queue, &fastclk_sampler_work, 0);
}

/**
 * fastclk_sampler_show - how the fit is
 * @m: where to
 *
 * May sleep. Return: 0.
 */
int fastclk_sampler_show(struct seq_file *m)
{
	struct fastclk_statistics s;

	mutex_lock(&fastclk_sampler_mutex);
	fastclk_discipline_statistics(&fastclk_sampler_fit, &s);
	seq_printf(m, "samples %llu\n", fastclk_sampler_fit.samples);
	seq_printf(m, "lost %llu\n", fastclk_sampler_lost);
	seq_printf(m, "forgotten %llu\n", fastclk_sampler_fit.forgotten);
	seq_printf(m, "cpu %u\n", fastclk_sampler_cpu);
	mutex_unlock(&fastclk_sampler_mutex);

	seq_printf(m, "remembered %u\n", s.count);
	seq_printf(m, "width_min_ns %llu\n", s.width_min_ns);
	seq_printf(m, "width_max_ns %llu\n", s.width_max_ns);
	seq_printf(m, "width_mean_ns %llu\n", s.width_mean_ns);
	seq_printf(m, "rate_mean_ppb %lld\n", s.rate_mean_ppb);
	seq_printf(m, "rate_error_ppb %llu\n", s.rate_error_ppb);
	seq_printf(m, "rate_trimmed_ppb %lld\n", s.rate_trimmed_ppb);
	return 0;
}

/**
 * fastclk_sampler_init - before the timekeeper is followed
 * @interval_ms: between samples, 0: the default
 *
 * May sleep. Return: 0 or -ENOMEM.
 */
int fastclk_sampler_init(unsigned int interval_ms)
{
	fastclk_sampler_interval_ms = interval_ms;
	/* Bound to CPUs, and first in line: a sample that comes late is a wide bound. */
	fastclk_sampler_queue = alloc_workqueue("fastclk", WQ_HIGHPRI | WQ_PERCPU, 0);
	return fastclk_sampler_queue ? 0 : -ENOMEM;
}

/**
 * fastclk_sampler_exit - no more samples
 *
 * After the page was revoked, so that nothing is queued any more. May sleep.
 */
void fastclk_sampler_exit(void)
{
	cancel_delayed_work_sync(&fastclk_sampler_work);
	cancel_delayed_work_sync(&fastclk_sampler_work_deferrable);
	destroy_workqueue(fastclk_sampler_queue);
}
