// SPDX-License-Identifier: GPL-2.0-only
/*
 * When CPUs are measured, and what becomes of the result: the verdict on the page, in
 * sysfs and in debugfs. How they are measured is in core/measure.c.
 *
 * The first measurement is made when the module is loaded, others when somebody asks for
 * it (the file "recheck"). One that stayed incomplete is taken up again in the background.
 *
 * Locks: the CPU hotplug lock, then fastclk_sync_mutex (one measurement at a time), then
 * fastclk_result_mutex (the last result; held for a short time). A measurement that is taken
 * up again is the last result, too: while it goes on, what exchanges find is added to it
 * under the first two only, so debugfs may show some bounds that are newer than others.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

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
 * In so much time the counters must keep their distances before there are offsets for them: at
 * 2.5 GHz 10 ppm are 2,500 cycles then, and an interval is some 400 wide.
 */
#define FASTCLK_DRIFT_MS		100

/* How long to wait between two re-checks that users ask for. */
#define FASTCLK_RECHECK_S		1

/* Set by fastclk_sync_init(). */
static cpumask_var_t fastclk_sync_cpus;
static unsigned int fastclk_sync_budget_ms;
static bool fastclk_sync_may_idle;
static bool fastclk_sync_may_offset;

static DEFINE_MUTEX(fastclk_sync_mutex);
static bool fastclk_sync_stopping;
static unsigned long fastclk_sync_last;		/* jiffies at the end of the last one */
static unsigned int fastclk_sync_retry_s;

static DEFINE_MUTEX(fastclk_result_mutex);
static struct fastclk_measurement *fastclk_result;

static void fastclk_sync_retry(struct work_struct *work);
static DECLARE_DELAYED_WORK(fastclk_sync_work, fastclk_sync_retry);

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
	       old->judgement.verdict != FASTCLK_VERDICT_UNKNOWN &&
	       cpumask_equal(m->tested, old->tested) && m->online == old->online;
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
static int fastclk_sync_check_offsets(struct fastclk_measurement *m)
{
	const struct fastclk_measurement *earlier = fastclk_result;
	int ret;

	if (!m->has_offsets || !fastclk_sync_may_offset || m->groups != 1)
		return 0;
	if (earlier && earlier != m && earlier->passes && earlier->online == m->online &&
	    cpumask_equal(earlier->tested, m->tested)) {
		if (!fastclk_confirms(earlier, m))
			return 0;
	} else if (m->passes < 2) {
		if (msleep_interruptible(FASTCLK_DRIFT_MS))
			return 0;
		fastclk_measure_again(m);
		ret = fastclk_measure(m, fastclk_budget_ms(m->n), fastclk_sync_may_idle,
				      &fastclk_sync_stopping);
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

/*
 * With the hotplug lock and fastclk_sync_mutex held: measure, and publish the result. @m is
 * either the last result or new, and is freed if it does not become the result.
 */
static int fastclk_sync_measure(struct fastclk_measurement *m)
{
	bool stands;
	int ret;

	ret = fastclk_measure(m, fastclk_budget_ms(m->n), fastclk_sync_may_idle,
			      &fastclk_sync_stopping);
	if (!ret) {
		fastclk_sync_conclude(m);
		ret = fastclk_sync_check_offsets(m);
	}
	if (ret) {
		if (m != fastclk_result)
			fastclk_measurement_free(m);
		return ret;
	}

	mutex_lock(&fastclk_result_mutex);
	stands = fastclk_sync_stands(fastclk_result, m);
	if (!stands)
		fastclk_sync_publish(m);
	mutex_unlock(&fastclk_result_mutex);
	if (stands) {
		fastclk_measurement_free(m);
		return -ETIMEDOUT;
	}
	return 0;
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
 * Go on in the background as long as pairs are missing for a verdict, or for telling who is
 * wrong: that two CPUs disagree is known from one pair, but not which of them.
 */
static void fastclk_sync_plan(void)
{
	if (READ_ONCE(fastclk_sync_stopping))
		return;
	if (!fastclk_result || !fastclk_result->left || fastclk_result->groups == 1) {
		fastclk_sync_retry_s = FASTCLK_RETRY_MIN_S;
		return;
	}
	/* Not while the machine falls asleep or wakes up, with only some of its CPUs. */
	queue_delayed_work(system_freezable_wq, &fastclk_sync_work, fastclk_sync_retry_s * HZ);
	fastclk_sync_retry_s = min(fastclk_sync_retry_s * 2, FASTCLK_RETRY_MAX_S);
}

static bool fastclk_sync_same_cpus(const struct fastclk_measurement *m)
{
	return m->online == num_online_cpus() && cpumask_subset(m->tested, cpu_online_mask);
}

/*
 * With the hotplug lock and fastclk_sync_mutex held: measure all, or, with @go_on, what is
 * missing, unless there are other CPUs now.
 */
static int fastclk_sync_update(bool go_on)
{
	struct fastclk_measurement *m = fastclk_result;
	u32 before = m ? m->judgement.verdict : U32_MAX;
	int ret;

	if (!go_on || !fastclk_sync_same_cpus(m))
		m = fastclk_measurement_new(fastclk_sync_cpus);
	ret = m ? fastclk_sync_measure(m) : -ENOMEM;
	if (!ret && fastclk_result->judgement.verdict != before)
		fastclk_sync_log();
	fastclk_sync_plan();
	return ret;
}

static void fastclk_sync_retry(struct work_struct *work)
{
	cpus_read_lock();
	mutex_lock(&fastclk_sync_mutex);
	fastclk_sync_update(true);
	mutex_unlock(&fastclk_sync_mutex);
	cpus_read_unlock();
}

/**
 * fastclk_sync_recheck - measure again
 *
 * Sleeps until the verdict is published, for the budget at most. Return: 0, -EBUSY if the
 * last one ended less than a second ago, -EINTR on a signal, -ETIMEDOUT if the CPUs
 * could not be reached, so that the previous verdict stands, or another negative errno.
 */
int fastclk_sync_recheck(void)
{
	int ret;

	cpus_read_lock();
	ret = mutex_lock_interruptible(&fastclk_sync_mutex);
	if (ret)
		goto out;
	if (time_before(jiffies, fastclk_sync_last + FASTCLK_RECHECK_S * HZ)) {
		ret = -EBUSY;
	} else {
		ret = fastclk_sync_update(false);
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
	int ret;

	ret = fastclk_sync_parse_cpus(parameters->cpus);
	if (ret)
		return ret;
	fastclk_sync_budget_ms = parameters->budget_ms;
	fastclk_sync_may_idle = parameters->idle_injection && fastclk_in_guest();
	fastclk_sync_may_offset = parameters->offsets && fastclk_counter_has_cpu() &&
				  nr_cpu_ids <= FASTCLK_TABLE_MAX;
	fastclk_sync_retry_s = FASTCLK_RETRY_MIN_S;
	fastclk_sync_stopping = false;

	cpus_read_lock();
	mutex_lock(&fastclk_sync_mutex);
	ret = fastclk_sync_update(false);
	fastclk_sync_last = jiffies - FASTCLK_RECHECK_S * HZ;
	mutex_unlock(&fastclk_sync_mutex);
	cpus_read_unlock();

	if (ret) {
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
	WRITE_ONCE(fastclk_sync_stopping, true);
}

/**
 * fastclk_sync_exit - no more measurements
 *
 * Sleeps until the one in the background, if any, has ended. Users can't ask for any more
 * (the files in sysfs are gone).
 */
void fastclk_sync_exit(void)
{
	fastclk_sync_stop();
	cancel_delayed_work_sync(&fastclk_sync_work);
	fastclk_crews_exit();
	fastclk_measurement_free(fastclk_result);
	fastclk_result = NULL;
	free_cpumask_var(fastclk_sync_cpus);
}
