// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measuring whether the counters of all CPUs agree: which pairs meet when, within what
 * time, and what becomes of the result.
 *
 * Every pair of CPUs makes exchanges (core/exchange.h), as many pairs at once as possible
 * (core/schedule.h). Where CPUs are dedicated, one pass over all pairs is all. Where vCPUs
 * have to share, an exchange works only while both of a pair happen to run: then it takes
 * 0.2 to 0.5 ms, otherwise nearly nothing gets done in 50 ms. So a pair that makes no
 * progress is put back, fewer pairs run at once when most of them do not finish, and in
 * the end, if need be, all other vCPUs are put to idle for a moment. A budget of time, and
 * no count of tries, ends it. What could not be measured may still be bounded through
 * other CPUs; otherwise the verdict is "unknown", and the measurement is taken up again
 * in the background.
 *
 * Locks: the CPU hotplug lock, then fastclk_sync_mutex (one measurement at a time), then
 * fastclk_result_mutex (short: the last result).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "internal.h"
#include "schedule.h"
#include "verdict.h"
#include "workers.h"

/* 2 s were enough for 4 vCPUs that share 2 cores, 10 s for 32, with other load. */
#define FASTCLK_BUDGET_MS		2000
#define FASTCLK_BUDGET_CPUS		4
#define FASTCLK_BUDGET_MS_PER_CPU	286

/* Give a pair up, for now, when a hand-over takes so long. */
#define FASTCLK_PATIENCE_MS		1

/* How long other vCPUs are idled at a time: long enough for a pair, too short to notice. */
#define FASTCLK_IDLE_MIN_MS		5
#define FASTCLK_IDLE_MAX_MS		80

/* When to go on with an incomplete measurement in the background. */
#define FASTCLK_RETRY_MIN_S		1
#define FASTCLK_RETRY_MAX_S		60

/* How long to wait between two re-checks that users ask for. */
#define FASTCLK_RECHECK_S		1

struct fastclk_pair {
	u16 a;
	u16 b;
};

/*
 * struct fastclk_measurement - one measurement, complete or not
 * @cpus: the CPUs it is about; indices below are into this array
 * @n: how many
 * @tested: the same as a mask
 * @bad: those that do not fit
 * @measured: what exchanges found
 * @bounds: the same, tightened
 * @conflicts: scratch for fastclk_judge()
 * @group: for each CPU, another one to which measured pairs connect it (union-find)
 * @groups: how many sets of connected CPUs there are
 * @todo: pairs that were not measured
 * @left: how many these are
 * @width: how many pairs may run at once
 * @exchanges: hand-overs evaluated
 * @online: how many CPUs were online
 * @judgement: what follows
 */
struct fastclk_measurement {
	unsigned int *cpus;
	u32 n;
	cpumask_var_t tested;
	cpumask_var_t bad;
	struct fastclk_bounds measured;
	struct fastclk_bounds bounds;
	u32 *conflicts;
	u32 *group;
	u32 groups;
	struct fastclk_pair *todo;
	u32 left;
	u32 width;
	u64 exchanges;
	u32 online;
	struct fastclk_judgement judgement;
};

/* Set by fastclk_sync_init(). */
static cpumask_var_t fastclk_sync_cpus;
static unsigned int fastclk_sync_budget_ms;
static bool fastclk_sync_may_idle;

static DEFINE_MUTEX(fastclk_sync_mutex);
static bool fastclk_sync_stopping;
static unsigned long fastclk_sync_last;		/* jiffies at the end of the last one */
static unsigned int fastclk_sync_retry_s;

static DEFINE_MUTEX(fastclk_result_mutex);
static struct fastclk_measurement *fastclk_result;

static void fastclk_sync_retry(struct work_struct *work);
static DECLARE_DELAYED_WORK(fastclk_sync_work, fastclk_sync_retry);

/* Pairs among n CPUs. */
static u32 fastclk_pairs(u32 n)
{
	return n < 2 ? 0 : n / 2 * (n - 1 + (n & 1));
}

static void fastclk_measurement_free(struct fastclk_measurement *m)
{
	if (!m)
		return;
	kvfree(m->cpus);
	kvfree(m->measured.bound_cycles);
	kvfree(m->bounds.bound_cycles);
	kvfree(m->conflicts);
	kvfree(m->group);
	kvfree(m->todo);
	free_cpumask_var(m->tested);
	free_cpumask_var(m->bad);
	kfree(m);
}

/* All pairs in the order of the tournament, so that neighbours in the list can run at once. */
static void fastclk_measurement_plan(struct fastclk_measurement *m)
{
	u32 round, slot, a, b;

	for (round = 0; round < fastclk_schedule_rounds(m->n); round++) {
		for (slot = 0; slot < fastclk_schedule_slots(m->n); slot++) {
			fastclk_schedule_pair(m->n, round, slot, &a, &b);
			m->todo[m->left].a = a;
			m->todo[m->left].b = b;
			m->left++;
		}
	}
	m->width = max(1U, fastclk_schedule_slots(m->n));
}

/* A measurement of the CPUs that are online. Return: NULL if there is no memory. */
static struct fastclk_measurement *fastclk_measurement_new(void)
{
	struct fastclk_measurement *m;
	unsigned int cpu;
	u32 i;

	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return NULL;
	if (!zalloc_cpumask_var(&m->tested, GFP_KERNEL) ||
	    !zalloc_cpumask_var(&m->bad, GFP_KERNEL))
		goto fail;

	cpumask_and(m->tested, cpu_online_mask, fastclk_sync_cpus);
	m->n = cpumask_weight(m->tested);
	m->online = num_online_cpus();
	m->measured.n = m->n;
	m->bounds.n = m->n;
	m->groups = m->n;

	m->cpus = kvcalloc(m->n, sizeof(*m->cpus), GFP_KERNEL);
	m->measured.bound_cycles = kvcalloc((size_t)m->n * m->n, sizeof(s64), GFP_KERNEL);
	m->bounds.bound_cycles = kvcalloc((size_t)m->n * m->n, sizeof(s64), GFP_KERNEL);
	m->conflicts = kvcalloc(m->n, sizeof(*m->conflicts), GFP_KERNEL);
	m->group = kvcalloc(m->n, sizeof(*m->group), GFP_KERNEL);
	m->todo = kvcalloc(fastclk_pairs(m->n) ?: 1, sizeof(*m->todo), GFP_KERNEL);
	if (!m->cpus || !m->measured.bound_cycles || !m->bounds.bound_cycles ||
	    !m->conflicts || !m->group || !m->todo)
		goto fail;

	i = 0;
	for_each_cpu(cpu, m->tested) {
		m->cpus[i] = cpu;
		m->group[i] = i;
		i++;
	}
	fastclk_bounds_clear(&m->measured);
	fastclk_measurement_plan(m);
	return m;

fail:
	fastclk_measurement_free(m);
	return NULL;
}

static u32 fastclk_group(const struct fastclk_measurement *m, u32 i)
{
	while (m->group[i] != i)
		i = m->group[i];
	return i;
}

static void fastclk_give_exchange(struct fastclk_crew *crew, u32 index, u32 side,
				  struct fastclk_exchange_line *line)
{
	struct fastclk_job *job = fastclk_crew_give(crew, index);

	*job = (struct fastclk_job) {
		.exchange = {
			.line = line,
			.side = side,
			.exchanges = FASTCLK_EXCHANGES,
			.patience_cycles = (u64)fastclk_counter_khz() * FASTCLK_PATIENCE_MS,
		},
	};
}

/*
 * Take in what a pair found. Return: whether that was a measurement. A warp counts
 * always, since it is a fact; other bounds only from a number of exchanges on, so that
 * "synced" never rests on a few slow ones.
 */
static bool fastclk_take_in(struct fastclk_measurement *m, struct fastclk_pair pair,
			    const struct fastclk_exchange *a, const struct fastclk_exchange *b)
{
	bool measured = min(a->received, b->received) >= FASTCLK_EXCHANGES_MIN;

	if (measured || a->bound_cycles < 0)
		fastclk_bounds_narrow(&m->measured, pair.a, pair.b, a->bound_cycles);
	if (measured || b->bound_cycles < 0)
		fastclk_bounds_narrow(&m->measured, pair.b, pair.a, b->bound_cycles);
	m->exchanges += a->received + b->received;

	if (measured && fastclk_group(m, pair.a) != fastclk_group(m, pair.b)) {
		m->group[fastclk_group(m, pair.a)] = fastclk_group(m, pair.b);
		m->groups--;
	}
	return measured;
}

static unsigned int fastclk_ms_left(ktime_t deadline)
{
	s64 left = ktime_ms_delta(deadline, ktime_get());

	return READ_ONCE(fastclk_sync_stopping) || left < 0 ? 0 : left;
}

/*
 * One pass over the pairs that are left, in batches of pairs that have no CPU in common.
 * With @idle_ms, one pair at a time while all other CPUs idle.
 *
 * While there are CPUs that no chain of measured pairs connects, and pairs have to go one
 * by one, only those that connect are tried: they decide whether there will be a verdict.
 *
 * Return: false if the crew is lost.
 */
static bool fastclk_pass(struct fastclk_measurement *m, struct fastclk_crew *crew,
			 ktime_t deadline, unsigned int idle_ms)
{
	u32 next = 0, kept = 0, first, last, done, i;
	bool connecting = m->width == 1 && m->groups > 1;
	bool alive = true;

	while (alive && next < m->left && fastclk_ms_left(deadline)) {
		struct fastclk_pair *todo = &m->todo[next];
		const struct fastclk_job *job[2];

		if (connecting && fastclk_group(m, todo->a) == fastclk_group(m, todo->b)) {
			m->todo[kept++] = m->todo[next++];
			continue;
		}

		first = next;
		for (last = first; last < m->left && last - first < m->width; last++) {
			todo = &m->todo[last];
			if (!fastclk_crew_is_free(crew, todo->a) ||
			    !fastclk_crew_is_free(crew, todo->b))
				break;
			fastclk_give_exchange(crew, todo->a, 0, fastclk_crew_line(crew, todo->a));
			fastclk_give_exchange(crew, todo->b, 1, fastclk_crew_line(crew, todo->a));
		}
		for (i = 0; idle_ms && i < m->n; i++)
			if (fastclk_crew_is_free(crew, i))
				fastclk_crew_give(crew, i)->idle_ns = idle_ms * (u64)NSEC_PER_MSEC;

		alive = fastclk_crew_run(crew, max(fastclk_ms_left(deadline),
						   2 * FASTCLK_IDLE_MAX_MS));
		if (!alive)
			break;

		for (done = 0, next = first; next < last; next++) {
			job[0] = fastclk_crew_job(crew, m->todo[next].a);
			job[1] = fastclk_crew_job(crew, m->todo[next].b);
			if (fastclk_take_in(m, m->todo[next], &job[0]->exchange,
					    &job[1]->exchange))
				done++;
			else
				m->todo[kept++] = m->todo[next];
		}
		if (done * 2 < last - first)
			m->width = max(1U, (last - first) / 2);

		/* Let those CPUs do their own work for as long as they were kept from it. */
		if (idle_ms)
			msleep(idle_ms);
	}

	while (next < m->left)
		m->todo[kept++] = m->todo[next++];
	m->left = kept;
	return alive;
}

/* Measure, until all is done or the budget is used up. */
static void fastclk_measure(struct fastclk_measurement *m, struct fastclk_crew *crew,
			    unsigned int budget_ms)
{
	ktime_t deadline = ktime_add_ms(ktime_get(), budget_ms);
	unsigned int idle_ms = 0;
	u32 before;

	while (m->left && fastclk_ms_left(deadline)) {
		before = m->left;
		if (!fastclk_pass(m, crew, deadline, idle_ms))
			return;
		/* Starving even one by one? */
		if (fastclk_sync_may_idle && m->width == 1 && m->left * 2 > before)
			idle_ms = clamp(idle_ms * 2, FASTCLK_IDLE_MIN_MS, FASTCLK_IDLE_MAX_MS);
	}
}

/* Turn what was measured into a verdict. */
static void fastclk_conclude(struct fastclk_measurement *m)
{
	u32 i;

	memcpy(m->bounds.bound_cycles, m->measured.bound_cycles,
	       (size_t)m->n * m->n * sizeof(s64));
	for (i = 0; i < m->n; i++) {
		fastclk_bounds_tighten_through(&m->bounds, i);
		cond_resched();
	}
	fastclk_judge(&m->bounds, m->conflicts, &m->judgement);
	for (i = 0; i < m->n; i++)
		if (fastclk_is_bad(m->conflicts, i))
			cpumask_set_cpu(m->cpus[i], m->bad);
		else
			cpumask_clear_cpu(m->cpus[i], m->bad);

	/* Nothing is known of CPUs that were left out. */
	if (m->n < m->online && m->judgement.verdict == FASTCLK_VERDICT_SYNCED)
		m->judgement.verdict = FASTCLK_VERDICT_UNKNOWN;
}

struct fastclk_coordinator {
	struct fastclk_measurement *m;
	struct fastclk_crew *crew;
	unsigned int budget_ms;
	struct completion done;
};

static int fastclk_coordinate(void *data)
{
	struct fastclk_coordinator *c = data;

	fastclk_measure(c->m, c->crew, c->budget_ms);
	fastclk_conclude(c->m);
	complete(&c->done);

	set_current_state(TASK_IDLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_IDLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static unsigned int fastclk_budget_ms(u32 n)
{
	unsigned int ms = FASTCLK_BUDGET_MS;

	if (fastclk_sync_budget_ms)
		return fastclk_sync_budget_ms;
	if (n > FASTCLK_BUDGET_CPUS)
		ms += (n - FASTCLK_BUDGET_CPUS) * FASTCLK_BUDGET_MS_PER_CPU;
	return ms;
}

/*
 * Run a measurement, new or to be continued. The coordinator is a FIFO thread like the
 * workers: as an ordinary task it starved. Return: 0 or a negative errno.
 */
static int fastclk_sync_run(struct fastclk_measurement *m)
{
	struct fastclk_coordinator c = { .m = m, .budget_ms = fastclk_budget_ms(m->n) };
	struct task_struct *task;

	if (m->n < 2) {
		fastclk_conclude(m);
		return 0;
	}

	init_completion(&c.done);
	c.crew = fastclk_crew_start(m->cpus, m->n);
	if (IS_ERR(c.crew))
		return PTR_ERR(c.crew);
	task = kthread_create(fastclk_coordinate, &c, "fastclk");
	if (IS_ERR(task)) {
		fastclk_crew_stop(c.crew);
		return PTR_ERR(task);
	}
	sched_set_fifo(task);
	wake_up_process(task);
	wait_for_completion(&c.done);
	kthread_stop(task);
	fastclk_crew_stop(c.crew);
	return 0;
}

static void fastclk_sync_publish(struct fastclk_measurement *m)
{
	const struct fastclk_judgement *j = &m->judgement;
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

	mutex_lock(&fastclk_result_mutex);
	if (fastclk_result != m) {
		fastclk_measurement_free(fastclk_result);
		fastclk_result = m;
	}
	fastclk_page_set_verdict(&found);
	mutex_unlock(&fastclk_result_mutex);
}

/*
 * With the hotplug lock and fastclk_sync_mutex held: measure, and publish what was found,
 * unless that is nothing against a verdict that stands: a re-check that starved must not
 * take a good clock away.
 */
static int fastclk_sync_measure(struct fastclk_measurement *m)
{
	struct fastclk_measurement *old = fastclk_result;
	int ret;

	ret = fastclk_sync_run(m);
	if (ret) {
		if (m != old)
			fastclk_measurement_free(m);
		return ret;
	}

	if (m != old && old && m->judgement.verdict == FASTCLK_VERDICT_UNKNOWN &&
	    old->judgement.verdict != FASTCLK_VERDICT_UNKNOWN &&
	    cpumask_equal(m->tested, old->tested) && m->online == old->online) {
		fastclk_measurement_free(m);
		return -ETIMEDOUT;
	}
	fastclk_sync_publish(m);

	if (m->judgement.verdict == FASTCLK_VERDICT_UNKNOWN && m->left &&
	    !READ_ONCE(fastclk_sync_stopping)) {
		schedule_delayed_work(&fastclk_sync_work, fastclk_sync_retry_s * HZ);
		fastclk_sync_retry_s = min(fastclk_sync_retry_s * 2, FASTCLK_RETRY_MAX_S);
	} else {
		fastclk_sync_retry_s = FASTCLK_RETRY_MIN_S;
	}
	return 0;
}

static void fastclk_sync_log(void)
{
	char skew[64] = "";
	struct fastclk_page p;

	fastclk_page_read(&p);
	if (p.verdict.max_warp_cycles)
		snprintf(skew, sizeof(skew), ", counters differ by %llu cycles or more",
			 p.verdict.max_warp_cycles);
	else if (p.verdict.max_skew_cycles != U64_MAX)
		snprintf(skew, sizeof(skew), ", counters differ by %llu cycles at most",
			 p.verdict.max_skew_cycles);
	pr_info("%s (%s), CPUs %s: %u of %u pairs measured%s\n",
		fastclk_mode_name(p.verdict.mode), fastclk_reason_name(p.verdict.reason),
		fastclk_verdict_name(p.verdict.verdict), p.verdict.pairs, p.verdict.pairs_total,
		skew);
}

/* Go on with an incomplete measurement, or start again if there are other CPUs now. */
static void fastclk_sync_retry(struct work_struct *work)
{
	struct fastclk_measurement *m;

	cpus_read_lock();
	mutex_lock(&fastclk_sync_mutex);
	m = fastclk_result;
	if (m->online != num_online_cpus() || !cpumask_subset(m->tested, cpu_online_mask))
		m = fastclk_measurement_new();
	if (m && !fastclk_sync_measure(m) &&
	    fastclk_result->judgement.verdict != FASTCLK_VERDICT_UNKNOWN)
		fastclk_sync_log();
	mutex_unlock(&fastclk_sync_mutex);
	cpus_read_unlock();
}

/**
 * fastclk_sync_recheck - measure again
 *
 * Sleeps until the verdict is published, for the budget at most. Return: 0, -EBUSY if the
 * last measurement was less than a second ago, -EINTR on a signal, -ETIMEDOUT if the CPUs
 * could not be reached, so that the previous verdict stands, or another negative errno.
 */
int fastclk_sync_recheck(void)
{
	struct fastclk_measurement *m;
	int ret;

	cpus_read_lock();
	ret = mutex_lock_interruptible(&fastclk_sync_mutex);
	if (ret)
		goto out;
	if (time_before(jiffies, fastclk_sync_last + FASTCLK_RECHECK_S * HZ)) {
		ret = -EBUSY;
	} else {
		m = fastclk_measurement_new();
		ret = m ? fastclk_sync_measure(m) : -ENOMEM;
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
	struct fastclk_measurement *m;
	int ret;

	ret = fastclk_sync_parse_cpus(parameters->cpus);
	if (ret)
		return ret;
	fastclk_sync_budget_ms = parameters->budget_ms;
	fastclk_sync_may_idle = parameters->idle_injection && fastclk_in_guest();
	fastclk_sync_retry_s = FASTCLK_RETRY_MIN_S;
	fastclk_sync_stopping = false;

	cpus_read_lock();
	mutex_lock(&fastclk_sync_mutex);
	m = fastclk_measurement_new();
	ret = m ? fastclk_sync_measure(m) : -ENOMEM;
	fastclk_sync_last = jiffies - FASTCLK_RECHECK_S * HZ;
	mutex_unlock(&fastclk_sync_mutex);
	cpus_read_unlock();

	if (ret) {
		fastclk_crew_wait();
		free_cpumask_var(fastclk_sync_cpus);
		return ret;
	}
	fastclk_sync_log();
	return 0;
}

/**
 * fastclk_sync_exit - no more measurements
 *
 * Sleeps until the one in the background, if any, has ended, which it does at its next
 * batch. Users can't ask for any more (the files in sysfs are gone).
 */
void fastclk_sync_exit(void)
{
	WRITE_ONCE(fastclk_sync_stopping, true);
	cancel_delayed_work_sync(&fastclk_sync_work);
	fastclk_crew_wait();
	fastclk_measurement_free(fastclk_result);
	fastclk_result = NULL;
	free_cpumask_var(fastclk_sync_cpus);
}
