// SPDX-License-Identifier: GPL-2.0-only
/*
 * When CPUs are measured, and what becomes of the result: the verdict on the page, in
 * sysfs and in debugfs. How they are measured is in core/measure.c.
 *
 * The first measurement is made when the module is loaded, others when somebody asks for
 * it (the file "recheck"), when CPUs come and go (core/hotplug.c), when the machine has
 * slept or was restored (core/suspend.c), and every now and then, since counters may drift.
 * One that stayed incomplete is taken up again in the background.
 *
 * Locks: the CPU hotplug lock (in a callback of it, another task holds that for us), then
 * fastclk_sync_mutex (one measurement at a time), then
 * fastclk_result_mutex (the last result; held for a short time). A measurement that is taken
 * up again is the last result, too: while it goes on, what exchanges find is added to it
 * under the first two only, so debugfs may show some bounds that are newer than others.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "internal.h"
#include "measure.h"
#include "offsets.h"
#include "workers.h"

/* 2 s were enough for 4 vCPUs that share 2 cores, 10 s for 32, with other load. */
#define FASTCLK_BUDGET_MS		2000
#define FASTCLK_BUDGET_CPUS		4
#define FASTCLK_BUDGET_MS_PER_CPU	286

/* When to go on with an incomplete measurement in the background. */
#define FASTCLK_RETRY_MIN_S		1U
#define FASTCLK_RETRY_MAX_S		60U

/*
 * The part of a budget, 0.5 s with up to 4 CPUs, that a re-check takes at most, and that a CPU
 * which comes online waits for its verdict, and everybody who wants the hotplug lock with it.
 */
#define FASTCLK_SHORT_PART		4

/*
 * In so much time the counters must keep their distances before there are offsets for them: at
 * 2.5 GHz 10 ppm are 2,500 cycles then, and an interval is some 400 wide.
 */
#define FASTCLK_DRIFT_MS		100

/* How long to wait between two re-checks that users ask for. */
#define FASTCLK_RECHECK_S		1

/* How often the first measurement is begun, before loading fails. */
#define FASTCLK_FIRST_TRIES	3

/* Set by fastclk_sync_init(). */
static cpumask_var_t fastclk_sync_cpus;
static unsigned int fastclk_sync_budget_ms;
static bool fastclk_sync_may_idle;
static unsigned int fastclk_sync_period_s;
static bool fastclk_sync_may_offset;

/* Why a measurement has to end, and none may be planned. */
enum {
	FASTCLK_STOP_EXIT,
	FASTCLK_STOP_SLEEP,
};

static unsigned long fastclk_sync_stop_bits;

static DEFINE_MUTEX(fastclk_sync_mutex);
static unsigned long fastclk_sync_last;		/* jiffies at the end of the last one */
static unsigned int fastclk_sync_retry_s;

static DEFINE_MUTEX(fastclk_result_mutex);
static struct fastclk_measurement *fastclk_result;
static u32 fastclk_sync_era;	/* what was found in another one must not be used */

static void fastclk_sync_background(struct work_struct *work);
static DECLARE_DELAYED_WORK(fastclk_sync_work, fastclk_sync_background);

/* What a measurement may cost. */
enum fastclk_effort {
	FASTCLK_EFFORT_NONE,	/* conclude from what is known */
	FASTCLK_EFFORT_HOTPLUG,	/* others wait */
	FASTCLK_EFFORT_SPARING,	/* nobody is to notice */
	FASTCLK_EFFORT_FULL,
};

static unsigned int fastclk_budget_ms(u32 n)
{
	unsigned int ms = FASTCLK_BUDGET_MS;

	if (fastclk_sync_budget_ms)
		return fastclk_sync_budget_ms;
	if (n > FASTCLK_BUDGET_CPUS)
		ms += (n - FASTCLK_BUDGET_CPUS) * FASTCLK_BUDGET_MS_PER_CPU;
	return ms;
}

/* With fastclk_result_mutex held: this is the result now. */
static void fastclk_sync_publish(struct fastclk_measurement *m)
{
	const struct fastclk_judgement *j = &m->judgement;
	bool offset = j->verdict == FASTCLK_VERDICT_OFFSET;
	struct fastclk_page_verdict found = {
		.verdict = j->verdict,
		.max_skew_cycles = j->max_skew_cycles,
		.max_warp_cycles = j->max_warp_cycles,
		.worst_cpu = { U32_MAX, U32_MAX },
		.cpus = m->n,
		.bad_cpus = j->bad,
		.pairs = fastclk_pairs(m->n) - m->left,
		.pairs_total = fastclk_pairs(m->online),
		.exchanges = m->exchanges,
	};

	if (j->worst[0] != U32_MAX) {
		found.worst_cpu[0] = m->cpus[j->worst[0]];
		found.worst_cpu[1] = m->cpus[j->worst[1]];
	}
	if (fastclk_result != m)
		fastclk_measurement_free(fastclk_result);
	fastclk_result = m;
	fastclk_page_set_verdict(&found, m->cpus, offset ? m->offset_cycles : NULL);
}

/* A re-check that starved must not take a good clock away. */
static bool fastclk_sync_stands(const struct fastclk_measurement *old,
				const struct fastclk_measurement *m)
{
	return old && old != m && m->judgement.verdict == FASTCLK_VERDICT_UNKNOWN &&
	       old->judgement.verdict != FASTCLK_VERDICT_UNKNOWN && old->era == m->era &&
	       cpumask_equal(m->tested, old->tested) && m->online == old->online;
}

/* Take the time for it. */
static int fastclk_sync_try(struct fastclk_measurement *m, enum fastclk_effort effort)
{
	unsigned int budget_ms = fastclk_budget_ms(m->n);
	bool may_idle = fastclk_sync_may_idle && effort != FASTCLK_EFFORT_SPARING;

	if (effort == FASTCLK_EFFORT_NONE)
		return 0;
	if (effort != FASTCLK_EFFORT_FULL)
		budget_ms /= FASTCLK_SHORT_PART;
	return fastclk_measure(m, budget_ms, may_idle, &fastclk_sync_stop_bits);
}

/* @m may be the last result, which others look at. */
static void fastclk_sync_conclude(struct fastclk_measurement *m)
{
	mutex_lock(&fastclk_result_mutex);
	fastclk_conclude(m);
	mutex_unlock(&fastclk_result_mutex);
}

/*
 * Offsets count only if the counters kept their distances over some time: since the previous
 * measurement or, if there was none of the same CPUs, while all pairs are measured once more.
 * An earlier measurement that contradicts this one says that something moved; the next one
 * will show whether it still does. Return: 0 or a negative errno.
 */
static int fastclk_sync_check_offsets(struct fastclk_measurement *m, enum fastclk_effort effort)
{
	const struct fastclk_measurement *earlier = fastclk_result;
	int ret;

	if (!m->has_offsets || !fastclk_sync_may_offset || m->groups != 1)
		return 0;
	if (earlier && earlier != m && earlier->passes && earlier->era == m->era &&
	    earlier->online == m->online &&
	    cpumask_equal(earlier->tested, m->tested)) {
		if (!fastclk_confirms(earlier, m))
			return 0;
	} else if (m->passes < 2) {
		if (effort == FASTCLK_EFFORT_NONE || msleep_interruptible(FASTCLK_DRIFT_MS))
			return 0;
		fastclk_measure_again(m);
		ret = fastclk_sync_try(m, effort);
		if (ret)
			return ret;
		fastclk_sync_conclude(m);
		if (!m->has_offsets || m->passes < 2)
			return 0;
	}
	m->judgement.verdict = FASTCLK_VERDICT_OFFSET;
	m->judgement.max_skew_cycles = fastclk_offsets_skew(&m->bounds, m->offset_cycles);
	return 0;
}

/* With all locks held: the result of @m, if it is worth it. */
static int fastclk_sync_take(struct fastclk_measurement *m)
{
	if (m->era != fastclk_sync_era)
		return -EAGAIN;
	if (fastclk_sync_stands(fastclk_result, m))
		return -ETIMEDOUT;
	fastclk_sync_publish(m);
	return 0;
}

/*
 * With the hotplug lock and fastclk_sync_mutex held: measure, and publish the result. @m is
 * either the last result or new, and is freed if it does not become the result.
 */
static int fastclk_sync_measure(struct fastclk_measurement *m, enum fastclk_effort effort)
{
	int ret = fastclk_sync_try(m, effort);

	if (!ret) {
		fastclk_sync_conclude(m);
		ret = fastclk_sync_check_offsets(m, effort);
	}
	if (!ret) {
		mutex_lock(&fastclk_result_mutex);
		ret = fastclk_sync_take(m);
		mutex_unlock(&fastclk_result_mutex);
	}
	if (ret && m != fastclk_result)
		fastclk_measurement_free(m);
	return ret;
}

static void fastclk_sync_log(void)
{
	char skew[96] = "";
	struct fastclk_page p;

	fastclk_page_read(&p);
	if (p.verdict.max_warp_cycles)
		snprintf(skew, sizeof(skew), ", counters differ by %llu cycles or more",
			 p.verdict.max_warp_cycles);
	else if (p.verdict.verdict == FASTCLK_VERDICT_SYNCED)
		snprintf(skew, sizeof(skew), ", counters differ by %llu cycles at most",
			 p.verdict.max_skew_cycles);
	if (p.verdict.verdict == FASTCLK_VERDICT_OFFSET)
		snprintf(skew, sizeof(skew),
			 ", counters differ by constants and, corrected, by %llu cycles at most",
			 p.verdict.max_skew_cycles);
	pr_info("%s (%s), CPUs %s: %u of %u pairs measured%s\n",
		fastclk_mode_name(p.verdict.mode), fastclk_reason_name(p.verdict.reason),
		fastclk_verdict_name(p.verdict.verdict), p.verdict.pairs, p.verdict.pairs_total,
		skew);
}

/*
 * Are pairs missing for a verdict, or for telling who is wrong? That two CPUs disagree is
 * known from one pair, but not which of them.
 */
static bool fastclk_sync_unfinished(void)
{
	return fastclk_result->era != READ_ONCE(fastclk_sync_era) ||
	       (fastclk_result->left && fastclk_result->groups > 1);
}

/*
 * Go on in the background: soon with what is unfinished, otherwise when it is time to check
 * all again. That time does not move away with every CPU that comes or goes.
 */
static void fastclk_sync_plan(void)
{
	if (READ_ONCE(fastclk_sync_stop_bits) || !fastclk_result)
		return;
	/* Not while the machine falls asleep or wakes up, with only some of its CPUs. */
	if (fastclk_sync_unfinished()) {
		mod_delayed_work(system_freezable_wq, &fastclk_sync_work,
				 fastclk_sync_retry_s * HZ);
		fastclk_sync_retry_s = min(fastclk_sync_retry_s * 2, FASTCLK_RETRY_MAX_S);
		return;
	}
	fastclk_sync_retry_s = FASTCLK_RETRY_MIN_S;
	if (fastclk_sync_period_s)
		queue_delayed_work(system_freezable_wq, &fastclk_sync_work,
				   fastclk_sync_period_s * HZ);
}

static bool fastclk_sync_same_cpus(const struct fastclk_measurement *m)
{
	return m->era == READ_ONCE(fastclk_sync_era) && m->online == num_online_cpus() &&
	       cpumask_subset(m->tested, cpu_online_mask);
}

/* With the hotplug lock held: nothing is known yet. Return: NULL if there is no memory. */
static struct fastclk_measurement *fastclk_sync_new(void)
{
	struct fastclk_measurement *m = fastclk_measurement_new(fastclk_sync_cpus);

	if (m)
		m->era = READ_ONCE(fastclk_sync_era);
	return m;
}

/* The same, but what is known is kept, except for pairs of one of these CPUs with one of those. */
static struct fastclk_measurement *fastclk_sync_derive(const struct cpumask *these,
						       const struct cpumask *those)
{
	struct fastclk_measurement *m = fastclk_sync_new();

	if (m && fastclk_result->era == m->era)
		fastclk_measurement_inherit(m, fastclk_result, these, those);
	return m;
}

/* With the hotplug lock and fastclk_sync_mutex held: a new verdict from @m, NULL: no memory. */
static int fastclk_sync_update(struct fastclk_measurement *m, enum fastclk_effort effort)
{
	u32 before = fastclk_result ? fastclk_result->judgement.verdict : U32_MAX;
	int ret = m ? fastclk_sync_measure(m, effort) : -ENOMEM;

	if (!ret && fastclk_result->judgement.verdict != before)
		fastclk_sync_log();
	fastclk_sync_plan();
	return ret;
}

/* Do counters still agree? CPUs that are not to be disturbed are left alone. */
static void fastclk_sync_look_again(void)
{
	struct fastclk_measurement *m;
	cpumask_var_t mask;

	if (!alloc_cpumask_var(&mask, GFP_KERNEL)) {
		fastclk_sync_plan();
		return;
	}
	/* Since 7.0 that of domains may be replaced at any time. */
	rcu_read_lock();
	cpumask_and(mask, housekeeping_cpumask(HK_TYPE_DOMAIN),
		    housekeeping_cpumask(HK_TYPE_TIMER));
	rcu_read_unlock();
	m = fastclk_sync_derive(mask, mask);
	free_cpumask_var(mask);
	if (m)
		fastclk_measurement_sparing(m);
	fastclk_sync_update(m, FASTCLK_EFFORT_SPARING);
}

static void fastclk_sync_background(struct work_struct *work)
{
	cpus_read_lock();
	mutex_lock(&fastclk_sync_mutex);
	/* It may be forgotten before there was any. */
	if (READ_ONCE(fastclk_sync_stop_bits) || !fastclk_result)
		;
	else if (!fastclk_sync_unfinished())
		fastclk_sync_look_again();
	else if (fastclk_sync_same_cpus(fastclk_result))
		fastclk_sync_update(fastclk_result, FASTCLK_EFFORT_FULL);
	else
		fastclk_sync_update(fastclk_sync_new(), FASTCLK_EFFORT_FULL);
	mutex_unlock(&fastclk_sync_mutex);
	cpus_read_unlock();
}

/**
 * fastclk_sync_forget - nothing that was measured must be relied on any more
 *
 * The page has no verdict when this returns, and gets one from a new measurement in the
 * background. One that goes on at the moment is not used. May sleep.
 */
void fastclk_sync_forget(void)
{
	mutex_lock(&fastclk_result_mutex);
	WRITE_ONCE(fastclk_sync_era, fastclk_sync_era + 1);
	if (fastclk_result)
		cpumask_clear(fastclk_result->bad);
	fastclk_page_forget_verdict();
	if (!READ_ONCE(fastclk_sync_stop_bits))
		mod_delayed_work(system_freezable_wq, &fastclk_sync_work, 0);
	mutex_unlock(&fastclk_result_mutex);
}

/* In a callback of CPU hotplug: what follows from CPUs that are new, or are gone? */
static void fastclk_sync_follow(const struct cpumask *fresh, enum fastclk_effort effort)
{
	int ret;

	mutex_lock(&fastclk_sync_mutex);
	/* Before the first measurement there is no verdict that could be wrong. */
	if (fastclk_result) {
		fastclk_sync_retry_s = FASTCLK_RETRY_MIN_S;
		ret = fastclk_sync_update(fastclk_sync_derive(fresh, cpu_possible_mask), effort);
		/* What is on the page is not about the CPUs that are there. */
		if (ret && ret != -ETIMEDOUT) {
			fastclk_sync_forget();
			fastclk_sync_log();
		}
	}
	mutex_unlock(&fastclk_sync_mutex);
}

/**
 * fastclk_sync_cpu_online - compare a CPU with the others
 * @cpu: it is online now
 *
 * In a callback of CPU hotplug, so the hotplug lock must not be taken. Sleeps until the
 * verdict is on the page, for a quarter of the budget at most; if the CPU could not be
 * compared by then, the verdict is "unknown", and it goes on in the background.
 */
void fastclk_sync_cpu_online(unsigned int cpu)
{
	fastclk_sync_follow(cpumask_of(cpu), FASTCLK_EFFORT_HOTPLUG);
}

/**
 * fastclk_sync_cpu_dead - what is known of the CPUs that remain?
 *
 * In a callback of CPU hotplug. Sleeps, but not for long: nothing is measured.
 */
void fastclk_sync_cpu_dead(void)
{
	fastclk_sync_follow(cpu_none_mask, FASTCLK_EFFORT_NONE);
}

/**
 * fastclk_sync_pause - no verdict, and no measurement, until fastclk_sync_resume()
 *
 * Sleeps until the measurement in the background, if any, has ended.
 */
void fastclk_sync_pause(void)
{
	set_bit(FASTCLK_STOP_SLEEP, &fastclk_sync_stop_bits);
	fastclk_sync_forget();
	cancel_delayed_work_sync(&fastclk_sync_work);
}

/**
 * fastclk_sync_resume - measure again
 *
 * Sleeps until there is a verdict, for the budget at most. If there is none by then, it goes
 * on in the background.
 */
void fastclk_sync_resume(void)
{
	clear_bit(FASTCLK_STOP_SLEEP, &fastclk_sync_stop_bits);
	cpus_read_lock();
	mutex_lock(&fastclk_sync_mutex);
	fastclk_sync_retry_s = FASTCLK_RETRY_MIN_S;
	fastclk_sync_update(fastclk_sync_new(), FASTCLK_EFFORT_FULL);
	mutex_unlock(&fastclk_sync_mutex);
	cpus_read_unlock();
}

/**
 * fastclk_sync_recheck - measure again
 *
 * Sleeps until the verdict is published, for the budget at most. Return: 0, -EBUSY if the
 * last one ended less than a second ago or the machine is about to sleep, -EINTR on a signal,
 * -ETIMEDOUT if the CPUs could not be reached, so that the previous verdict stands, -EAGAIN if
 * the machine slept or was restored meanwhile, or another negative errno.
 */
int fastclk_sync_recheck(void)
{
	int ret;

	cpus_read_lock();
	ret = mutex_lock_interruptible(&fastclk_sync_mutex);
	if (ret)
		goto out;
	if (READ_ONCE(fastclk_sync_stop_bits) ||
	    time_before(jiffies, fastclk_sync_last + FASTCLK_RECHECK_S * HZ)) {
		ret = -EBUSY;
	} else {
		ret = fastclk_sync_update(fastclk_sync_new(), FASTCLK_EFFORT_FULL);
		fastclk_sync_last = jiffies;
	}
	mutex_unlock(&fastclk_sync_mutex);
out:
	cpus_read_unlock();
	return ret;
}

/**
 * fastclk_sync_bad_cpus - list the CPUs whose counters do not fit the others
 * @buffer: a page, for sysfs
 *
 * May sleep. Return: length of the text: a list as in "0,3-5", empty if there are none.
 */
int fastclk_sync_bad_cpus(char *buffer)
{
	int length;

	mutex_lock(&fastclk_result_mutex);
	if (fastclk_result)
		length = sysfs_emit(buffer, "%*pbl\n", cpumask_pr_args(fastclk_result->bad));
	else
		length = sysfs_emit(buffer, "\n");
	mutex_unlock(&fastclk_result_mutex);
	return length;
}

static void fastclk_show_bound(struct seq_file *m, s64 bound_cycles)
{
	if (bound_cycles == FASTCLK_UNBOUNDED)
		seq_puts(m, " -");
	else
		seq_printf(m, " %lld", bound_cycles);
}

/**
 * fastclk_sync_show - the matrix of pairs, one a line
 * @m: where to
 *
 * May sleep. Return: 0.
 */
int fastclk_sync_show(struct seq_file *m)
{
	const struct fastclk_measurement *r;
	u32 i, j;

	mutex_lock(&fastclk_result_mutex);
	r = fastclk_result;
	seq_puts(m, "# cpu_a cpu_b: a-b and b-a in cycles are at most: measured, tightened\n");
	for (i = 0; r && i < r->n; i++) {
		for (j = i + 1; j < r->n; j++) {
			seq_printf(m, "%u %u:", r->cpus[i], r->cpus[j]);
			fastclk_show_bound(m, r->measured.bound_cycles[(size_t)i * r->n + j]);
			fastclk_show_bound(m, r->measured.bound_cycles[(size_t)j * r->n + i]);
			fastclk_show_bound(m, r->bounds.bound_cycles[(size_t)i * r->n + j]);
			fastclk_show_bound(m, r->bounds.bound_cycles[(size_t)j * r->n + i]);
			seq_putc(m, '\n');
		}
		cond_resched();
	}
	mutex_unlock(&fastclk_result_mutex);
	return 0;
}

static int fastclk_sync_parse_cpus(const char *cpus)
{
	if (!zalloc_cpumask_var(&fastclk_sync_cpus, GFP_KERNEL))
		return -ENOMEM;
	if (!cpus || !*cpus) {
		cpumask_copy(fastclk_sync_cpus, cpu_possible_mask);
		return 0;
	}
	if (cpulist_parse(cpus, fastclk_sync_cpus) ||
	    !cpumask_intersects(fastclk_sync_cpus, cpu_online_mask)) {
		pr_err("cpus=\"%s\" is not a list like 0-3,8 with an online CPU, of CPUs below %u\n",
		       cpus, nr_cpu_ids);
		free_cpumask_var(fastclk_sync_cpus);
		return -EINVAL;
	}
	return 0;
}

/**
 * fastclk_sync_init - the first measurement
 * @parameters: of the module
 *
 * Sleeps until there is a verdict, for the budget at most. If there is none by then, it
 * goes on in the background. Return: 0 or a negative errno.
 */
int fastclk_sync_init(const struct fastclk_sync_parameters *parameters)
{
	unsigned int tries = 0;
	int ret;

	ret = fastclk_sync_parse_cpus(parameters->cpus);
	if (ret)
		return ret;
	fastclk_sync_budget_ms = parameters->budget_ms;
	fastclk_sync_may_idle = parameters->idle_injection && fastclk_in_guest();
	fastclk_sync_period_s = parameters->recheck_seconds;
	fastclk_sync_may_offset = parameters->offsets && fastclk_counter_has_cpu() &&
				  nr_cpu_ids <= FASTCLK_TABLE_MAX;
	fastclk_sync_retry_s = FASTCLK_RETRY_MIN_S;

	cpus_read_lock();
	mutex_lock(&fastclk_sync_mutex);
	/* A clock that is set meanwhile makes all of it void. */
	do
		ret = fastclk_sync_update(fastclk_sync_new(), FASTCLK_EFFORT_FULL);
	while (ret == -EAGAIN && ++tries < FASTCLK_FIRST_TRIES);
	fastclk_sync_last = jiffies - FASTCLK_RECHECK_S * HZ;
	mutex_unlock(&fastclk_sync_mutex);
	cpus_read_unlock();

	if (ret) {
		fastclk_sync_stop();
		cancel_delayed_work_sync(&fastclk_sync_work);
		fastclk_crews_exit();
		free_cpumask_var(fastclk_sync_cpus);
	}
	return ret;
}

/**
 * fastclk_sync_stop - end the measurement that runs, at its next batch, and start no other
 *
 * Before the files in sysfs are removed, which waits for those who use them. Any context.
 */
void fastclk_sync_stop(void)
{
	set_bit(FASTCLK_STOP_EXIT, &fastclk_sync_stop_bits);
}

/**
 * fastclk_sync_exit - no more measurements
 *
 * Sleeps until the one in the background, if any, has ended. Nobody can ask for any more:
 * the files in sysfs are gone, and so is what calls us when something happens.
 */
void fastclk_sync_exit(void)
{
	fastclk_sync_stop();
	/* The sampler may still forget the verdict: it has queued the work, or won't. */
	mutex_lock(&fastclk_result_mutex);
	mutex_unlock(&fastclk_result_mutex);
	cancel_delayed_work_sync(&fastclk_sync_work);
	fastclk_crews_exit();
	mutex_lock(&fastclk_result_mutex);
	fastclk_measurement_free(fastclk_result);
	fastclk_result = NULL;
	mutex_unlock(&fastclk_result_mutex);
	free_cpumask_var(fastclk_sync_cpus);
}
