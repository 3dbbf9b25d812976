// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measuring whether the counters of all CPUs agree: which pairs meet when, and what
 * follows from what they found. Called by core/sync.c.
 *
 * Every pair of CPUs makes exchanges (core/exchange.h), as many pairs at once as possible
 * (core/schedule.h). Where CPUs are dedicated, one pass over all pairs is all. Where vCPUs
 * have to share, an exchange works only while both of a pair happen to run: then it takes
 * 0.2 to 0.5 ms, otherwise nearly nothing gets done in 50 ms. So a pair that makes no
 * progress is put back, and fewer pairs run at once when most of them do not finish. When
 * even single pairs starve, since other vCPUs are busy, all CPUs are put to idle for a
 * moment, in which pair after pair wakes at its appointed time ("quiet" below).
 *
 * A budget of time, and no count of tries, ends it. What could not be measured may still
 * be bounded through other CPUs; otherwise the verdict is "unknown".
 */
#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "internal.h"
#include "measure.h"
#include "offsets.h"
#include "schedule.h"
#include "trace.h"
#include "workers.h"

/*
 * Give a pair up, for now, when a hand-over takes so long. The first may take twice as long,
 * since the partner has to wake up: a halted vCPU took more than 1 ms for that. On a host
 * that is busy with other things, a vCPU that wakes waits for somebody's time slice to
 * end, 3 ms or more, and both of a pair have to run at once. So the patience is doubled
 * whenever nothing could be measured.
 */
#define FASTCLK_PATIENCE_MS		1U
#define FASTCLK_PATIENCE_MAX_MS		16U

/*
 * The fastest round trip of a pair whose CPUs run at the same time takes 0.1 to 0.4 us, and
 * 1.5 us across the largest machines. Two vCPUs that share a core can do hundreds of them,
 * of 10 us each, and would hide a skew of that size: that is not a measurement.
 */
#define FASTCLK_ROUND_TRIP_MAX_US	2

/*
 * A meeting ends after this many times the patience, 32 ms to 0.5 s, and with the budget, so
 * that it is bounded although each of its 2,000 hand-overs may take that long.
 */
#define FASTCLK_LIMIT			32U

/*
 * Single pairs starve when of so many less than a quarter could be measured: with busy
 * vCPUs it is none or one of eight, with idle ones six of them. More tries cost more time
 * than to idle for once where it was not needed.
 */
#define FASTCLK_STARVING		4

/*
 * A quiet stretch: all CPUs idle for up to 100 ms, too short to be noticed by most. They
 * need some time to get there, as each has to be scheduled once by the hypervisor: up to
 * 3 ms for each that shares a core, with 16 and 32 on 2 cores. Then there is one meeting
 * after the other. The pause after it is as long as the stretch.
 */
#define FASTCLK_QUIET_MS		100U
#define FASTCLK_QUIET_GATHER_MS		50U
#define FASTCLK_QUIET_GATHER_MS_PER_CPU	3

/*
 * Beyond the deadline: a batch that was begun may end, which takes 0.4 s with 32 busy vCPUs
 * on 2 cores. Only CPUs that are kept busy by something of a higher priority take longer.
 */
#define FASTCLK_GRACE_MS		2000

/*
 * A re-check while the machine works: few pairs at a time, that is a quarter of the CPUs and
 * no more than eight.
 */
#define FASTCLK_SPARING_PART		8
#define FASTCLK_SPARING_PAIRS		4U

/*
 * struct fastclk_coordinator - a measurement that is going on
 * @m: what is known so far
 * @crew: those who measure
 * @deadline: no further batch after this
 * @may_idle: may CPUs be idled?
 * @quiet: measure in quiet stretches from now on
 * @tried, @done: how single pairs did lately
 * @patience_ms: how long a hand-over may take
 * @stop: becomes other than 0 when it is to end early
 * @done_all: it is over
 */
struct fastclk_coordinator {
	struct fastclk_measurement *m;
	struct fastclk_crew *crew;
	ktime_t deadline;
	bool may_idle;
	bool quiet;
	u32 tried;
	u32 done;
	unsigned int patience_ms;
	const unsigned long *stop;
	struct completion done_all;
};

/**
 * fastclk_pairs - how many pairs there are among CPUs
 * @n: how many CPUs
 */
u32 fastclk_pairs(u32 n)
{
	return fastclk_schedule_rounds(n) * fastclk_schedule_slots(n);
}

/**
 * fastclk_measurement_free - forget a measurement
 * @m: may be NULL
 */
void fastclk_measurement_free(struct fastclk_measurement *m)
{
	if (!m)
		return;
	kvfree(m->cpus);
	kvfree(m->measured.bound_cycles);
	kvfree(m->bounds.bound_cycles);
	kvfree(m->conflicts);
	kvfree(m->offset_cycles);
	kvfree(m->group);
	kvfree(m->todo);
	free_cpumask_var(m->tested);
	free_cpumask_var(m->bad);
	kfree(m);
}

/* All pairs in the order of the tournament, so that neighbours in the list can run at once. */
static void fastclk_measurement_plan(struct fastclk_measurement *m)
{
	u32 round, slot, a, b, i;

	for (i = 0; i < m->n; i++)
		m->group[i] = i;
	m->groups = m->n;
	m->left = 0;
	for (round = 0; round < fastclk_schedule_rounds(m->n); round++) {
		for (slot = 0; slot < fastclk_schedule_slots(m->n); slot++) {
			fastclk_schedule_pair(m->n, round, slot, &a, &b);
			m->todo[m->left].a = a;
			m->todo[m->left].b = b;
			m->left++;
		}
	}
	m->width = max(1U, fastclk_schedule_slots(m->n));
	m->round_trips = FASTCLK_EXCHANGES;
}

/**
 * fastclk_measurement_new - prepare to measure CPUs that are online
 * @wanted: which CPUs may be tested
 *
 * With CPU hotplug held off (cpus_read_lock(), or in one of its callbacks); may sleep.
 * Return: NULL if there is no memory.
 */
struct fastclk_measurement *fastclk_measurement_new(const struct cpumask *wanted)
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

	cpumask_and(m->tested, cpu_online_mask, wanted);
	m->n = cpumask_weight(m->tested);
	m->online = num_online_cpus();
	m->measured.n = m->n;
	m->bounds.n = m->n;

	m->cpus = kvcalloc(m->n, sizeof(*m->cpus), GFP_KERNEL);
	m->measured.bound_cycles = kvcalloc((size_t)m->n * m->n, sizeof(s64), GFP_KERNEL);
	m->bounds.bound_cycles = kvcalloc((size_t)m->n * m->n, sizeof(s64), GFP_KERNEL);
	m->conflicts = kvcalloc(m->n, sizeof(*m->conflicts), GFP_KERNEL);
	m->offset_cycles = kvcalloc(m->n, sizeof(*m->offset_cycles), GFP_KERNEL);
	m->group = kvcalloc(m->n, sizeof(*m->group), GFP_KERNEL);
	m->todo = kvcalloc(fastclk_pairs(m->n) ?: 1, sizeof(*m->todo), GFP_KERNEL);
	if (!m->cpus || !m->measured.bound_cycles || !m->bounds.bound_cycles ||
	    !m->conflicts || !m->offset_cycles || !m->group || !m->todo)
		goto fail;

	i = 0;
	for_each_cpu(cpu, m->tested) {
		m->cpus[i] = cpu;
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

/* A chain of measured pairs connects them now. */
static void fastclk_connect(struct fastclk_measurement *m, u32 a, u32 b)
{
	u32 group_a = fastclk_group(m, a);
	u32 group_b = fastclk_group(m, b);

	if (group_a != group_b) {
		m->group[group_a] = group_b;
		m->groups--;
	}
}

/* Return: the index of a CPU, or n if it is not tested. They are in ascending order. */
static u32 fastclk_index(const struct fastclk_measurement *m, unsigned int cpu)
{
	u32 low = 0, high = m->n, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (m->cpus[middle] < cpu)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->n && m->cpus[low] == cpu ? low : m->n;
}

/**
 * fastclk_measurement_inherit - take over what another measurement found
 * @m: a new measurement
 * @old: the other
 * @these: pairs of one of these CPUs ...
 * @those: ... and one of those are to be measured all the same
 *
 * May sleep.
 */
void fastclk_measurement_inherit(struct fastclk_measurement *m,
				 const struct fastclk_measurement *old,
				 const struct cpumask *these, const struct cpumask *those)
{
	u32 i, kept = 0, old_a, old_b;

	for (i = 0; i < m->left; i++) {
		struct fastclk_pair pair = m->todo[i];
		unsigned int a = m->cpus[pair.a], b = m->cpus[pair.b];

		cond_resched();
		old_a = fastclk_index(old, a);
		old_b = fastclk_index(old, b);
		if (old_a == old->n || old_b == old->n ||
		    (cpumask_test_cpu(a, these) && cpumask_test_cpu(b, those)) ||
		    (cpumask_test_cpu(b, these) && cpumask_test_cpu(a, those))) {
			m->todo[kept++] = pair;
			continue;
		}
		/* A warp is known from one side alone, and then the pair is still to be measured. */
		fastclk_bounds_narrow(&m->measured, pair.a, pair.b,
				      old->measured.bound_cycles[(size_t)old_a * old->n + old_b]);
		fastclk_bounds_narrow(&m->measured, pair.b, pair.a,
				      old->measured.bound_cycles[(size_t)old_b * old->n + old_a]);
		if (fastclk_bounds_connected(&m->measured, pair.a, pair.b))
			fastclk_connect(m, pair.a, pair.b);
		else
			m->todo[kept++] = pair;
	}
	m->left = kept;
	m->exchanges = old->exchanges;
	/* Nothing is new: what was confirmed is so still. */
	if (!kept)
		m->passes = old->passes;
}

/**
 * fastclk_measurement_sparing - disturb the machine as little as can be
 * @m: a new measurement
 *
 * Few pairs at a time, and no more exchanges than make a measurement.
 */
void fastclk_measurement_sparing(struct fastclk_measurement *m)
{
	m->width = clamp(m->n / FASTCLK_SPARING_PART, 1U, FASTCLK_SPARING_PAIRS);
	m->round_trips = FASTCLK_EXCHANGES_MIN;
	m->exchanges = 0;	/* nearly all is measured again, time after time */
}

/* Both bounds together are the fastest round trip, whatever the skew. */
static bool fastclk_is_measured(const struct fastclk_exchange *a, const struct fastclk_exchange *b)
{
	u64 round_trip_max = (u64)fastclk_counter_khz() * FASTCLK_ROUND_TRIP_MAX_US / 1000;

	return min(a->received, b->received) >= FASTCLK_EXCHANGES_MIN &&
	       (u64)a->bound_cycles + (u64)b->bound_cycles <= round_trip_max;
}

/*
 * Take in what a pair found. Return: whether that was a measurement. A warp counts
 * always, since it is a fact; other bounds only if it was one, so that "synced" never
 * rests on a few slow exchanges.
 */
static bool fastclk_take_in(struct fastclk_measurement *m, const struct fastclk_meeting *meeting)
{
	const struct fastclk_exchange *a = &meeting->side[0].exchange;
	const struct fastclk_exchange *b = &meeting->side[1].exchange;
	bool measured = fastclk_is_measured(a, b);

	if (measured || a->bound_cycles < 0)
		fastclk_bounds_narrow(&m->measured, meeting->a, meeting->b, a->bound_cycles);
	if (measured || b->bound_cycles < 0)
		fastclk_bounds_narrow(&m->measured, meeting->b, meeting->a, b->bound_cycles);
	m->exchanges += a->received + b->received;
	trace_exchange(m->cpus[meeting->a], m->cpus[meeting->b], -b->bound_cycles, a->bound_cycles,
		       a->received + b->received);

	if (measured)
		fastclk_connect(m, meeting->a, meeting->b);
	return measured;
}

static unsigned int fastclk_ms_left(const struct fastclk_coordinator *c)
{
	s64 left = ktime_ms_delta(c->deadline, ktime_get());

	return READ_ONCE(*c->stop) || left < 0 ? 0 : left;
}

/*
 * While there are CPUs that no chain of measured pairs connects, and pairs have to go one
 * by one, only those that connect are tried: they decide whether there will be a verdict.
 */
static bool fastclk_may_skip(const struct fastclk_measurement *m, struct fastclk_pair pair)
{
	return m->width == 1 && m->groups > 1 &&
	       fastclk_group(m, pair.a) == fastclk_group(m, pair.b);
}

/* Starving? Then, if it is allowed, all further batches are quiet ones. */
static void fastclk_adapt(struct fastclk_coordinator *c, u32 tried, u32 done)
{
	struct fastclk_measurement *m = c->m;

	if (c->quiet)
		return;
	if (m->width > 1) {
		if (done * 2 < tried)
			m->width = max(1U, m->width / 2);
		return;
	}
	c->tried += tried;
	c->done += done;
	if (c->tried < FASTCLK_STARVING)
		return;
	if (c->done * 4 < c->tried)
		c->quiet = c->may_idle;
	c->tried = 0;
	c->done = 0;
}

/*
 * Measure some of the pairs from m->todo[*next] on: either pairs that have no CPU in
 * common, all at once, or, in a quiet stretch, one after the other. What was not measured
 * goes to m->todo[*kept].
 *
 * Return: false if the crew is lost.
 */
static bool fastclk_batch(struct fastclk_coordinator *c, u32 *next, u32 *kept)
{
	const struct fastclk_exchange task = {
		.exchanges = c->m->round_trips,
		.start_cycles = (u64)fastclk_counter_khz() * 2 * c->patience_ms,
		.patience_cycles = (u64)fastclk_counter_khz() * c->patience_ms,
		.limit_cycles = (u64)fastclk_counter_khz() *
				min(FASTCLK_LIMIT * c->patience_ms, fastclk_ms_left(c)),
	};
	struct fastclk_measurement *m = c->m;
	struct fastclk_crew *crew = c->crew;
	unsigned int gather_ms = min(m->n * FASTCLK_QUIET_GATHER_MS_PER_CPU,
				     FASTCLK_QUIET_GATHER_MS);
	unsigned int meeting_ms = 2 * c->patience_ms;
	u32 most = c->quiet ? (FASTCLK_QUIET_MS - gather_ms) / meeting_ms : m->width;
	u64 begin = ktime_get_ns();
	u64 start = c->quiet ? begin + gather_ms * (u64)NSEC_PER_MSEC : 0;
	u32 tried = 0, done = 0, i;
	struct fastclk_pair pair;
	bool alive;

	for (; *next < m->left && tried < most; (*next)++) {
		pair = m->todo[*next];
		if (fastclk_may_skip(m, pair)) {
			m->todo[(*kept)++] = pair;
			continue;
		}
		if (!c->quiet &&
		    (fastclk_crew_busy(crew, pair.a) || fastclk_crew_busy(crew, pair.b)))
			break;
		fastclk_crew_meet(crew, pair.a, pair.b, start, &task);
		tried++;
		if (c->quiet)
			start += meeting_ms * (u64)NSEC_PER_MSEC;
	}
	if (!tried)
		return true;

	alive = fastclk_crew_run(crew, start, fastclk_ms_left(c) + FASTCLK_GRACE_MS);

	for (i = 0; i < tried; i++) {
		const struct fastclk_meeting *meeting = fastclk_crew_meeting(crew, i);

		if (alive && fastclk_take_in(m, meeting))
			done++;
		else
			m->todo[(*kept)++] = (struct fastclk_pair) { meeting->a, meeting->b };
	}
	if (!alive)
		return false;
	fastclk_adapt(c, tried, done);

	/* Let the CPUs do their own work for as long as they were kept from it. */
	if (c->quiet && start)
		msleep(min3((unsigned int)div_u64(ktime_get_ns() - begin, NSEC_PER_MSEC),
			    FASTCLK_QUIET_MS, fastclk_ms_left(c)));
	return true;
}

/* Measure what is left, again and again, until all is done or the time is over. */
static void fastclk_coordinate(struct fastclk_coordinator *c)
{
	struct fastclk_measurement *m = c->m;
	bool alive = true;
	u32 before, next, kept;

	while (alive && m->left && fastclk_ms_left(c)) {
		before = m->left;
		next = 0;
		kept = 0;
		while (alive && next < m->left && fastclk_ms_left(c))
			alive = fastclk_batch(c, &next, &kept);
		while (next < m->left)
			m->todo[kept++] = m->todo[next++];
		m->left = kept;
		if (m->left < before)
			c->patience_ms = FASTCLK_PATIENCE_MS;
		else
			c->patience_ms = min(c->patience_ms * 2, FASTCLK_PATIENCE_MAX_MS);
	}
}

static int fastclk_coordinator_run(void *data)
{
	struct fastclk_coordinator *c = data;

	fastclk_coordinate(c);
	complete(&c->done_all);

	set_current_state(TASK_IDLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_IDLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/*
 * Threads for CPUs that meet others, so that the rest is left alone; and for all where they
 * may have to idle.
 */
static struct fastclk_crew *fastclk_hire(const struct fastclk_measurement *m, bool may_idle)
{
	u32 room = max_t(u32, fastclk_schedule_slots(m->n),
			 FASTCLK_QUIET_MS / (2 * FASTCLK_PATIENCE_MS));
	unsigned long *needed = bitmap_zalloc(m->n, GFP_KERNEL);
	struct fastclk_crew *crew;
	u32 i;

	if (!needed)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < m->left; i++) {
		__set_bit(m->todo[i].a, needed);
		__set_bit(m->todo[i].b, needed);
	}
	if (may_idle)
		bitmap_fill(needed, m->n);
	crew = fastclk_crew_start(m->cpus, needed, m->n, room);
	bitmap_free(needed);
	return crew;
}

/**
 * fastclk_measure - measure what is left to be measured
 * @m: a new measurement, or one that is to be continued
 * @budget_ms: the longest time for that; threads are started and stopped outside of it
 * @may_idle: may CPUs be idled in quiet stretches?
 * @stop: becomes other than 0 when it is to end early
 *
 * With CPU hotplug held off; sleeps. The coordinator is a FIFO thread like the workers,
 * since as an ordinary task it starved. Return: 0 or a negative errno.
 */
int fastclk_measure(struct fastclk_measurement *m, unsigned int budget_ms, bool may_idle,
		    const unsigned long *stop)
{
	struct fastclk_coordinator c = {
		.m = m,
		.may_idle = may_idle,
		.patience_ms = FASTCLK_PATIENCE_MS,
		.stop = stop,
	};
	struct task_struct *task;

	if (!m->left)
		return 0;

	init_completion(&c.done_all);
	c.crew = fastclk_hire(m, may_idle);
	if (IS_ERR(c.crew))
		return PTR_ERR(c.crew);
	task = kthread_create(fastclk_coordinator_run, &c, "fastclk");
	if (IS_ERR(task)) {
		fastclk_crew_stop(c.crew);
		return PTR_ERR(task);
	}
	c.deadline = ktime_add_ms(ktime_get(), budget_ms);
	sched_set_fifo_low(task);
	wake_up_process(task);
	wait_for_completion(&c.done_all);
	kthread_stop(task);
	fastclk_crew_stop(c.crew);
	if (m->groups == 1)
		m->passes++;
	return 0;
}

/**
 * fastclk_measure_again - have fastclk_measure() measure all pairs once more
 * @m: the measurement, which keeps what was found
 */
void fastclk_measure_again(struct fastclk_measurement *m)
{
	fastclk_measurement_plan(m);
}

static void fastclk_tighten(struct fastclk_bounds *b)
{
	u32 i;

	for (i = 0; i < b->n; i++) {
		fastclk_bounds_tighten_through(b, i);
		cond_resched();
	}
}

/*
 * Offsets that are to be added to the counters. The reference is one of those that fit most
 * others: in lockstep that is whose time the kernel's clock has on most CPUs.
 */
static void fastclk_find_offsets(struct fastclk_measurement *m)
{
	u32 reference = 0;

	while (reference < m->n && fastclk_is_bad(m->conflicts, reference))
		reference++;
	m->has_offsets = fastclk_offsets_find(&m->bounds, reference < m->n ? reference : 0,
					      m->offset_cycles);
}

/**
 * fastclk_confirms - does an earlier measurement allow that counters kept their distances?
 * @earlier: of the same CPUs
 * @m: a later one that was concluded, with offsets; takes over the earlier ones if they are
 *	still right, so that they do not change without need
 *
 * May sleep.
 */
bool fastclk_confirms(const struct fastclk_measurement *earlier, struct fastclk_measurement *m)
{
	size_t size = (size_t)m->n * m->n * sizeof(s64);
	bool contradict;
	u32 i, j;

	if (earlier->has_offsets && fastclk_offsets_fit(&m->bounds, earlier->offset_cycles))
		memcpy(m->offset_cycles, earlier->offset_cycles, m->n * sizeof(s64));

	for (i = 0; i < m->n; i++)
		for (j = 0; j < m->n; j++)
			fastclk_bounds_narrow(&m->bounds, i, j,
				earlier->measured.bound_cycles[(size_t)i * m->n + j]);
	fastclk_tighten(&m->bounds);
	contradict = fastclk_bounds_contradict(&m->bounds);

	/* As it was. */
	memcpy(m->bounds.bound_cycles, m->measured.bound_cycles, size);
	fastclk_tighten(&m->bounds);
	return !contradict;
}

/**
 * fastclk_conclude - turn what was measured into a verdict
 * @m: the measurement
 *
 * Even if there are offsets, the verdict is about the counters as they are. May sleep.
 */
void fastclk_conclude(struct fastclk_measurement *m)
{
	size_t size = (size_t)m->n * m->n * sizeof(s64);
	bool drifts;
	u32 i;

	memcpy(m->bounds.bound_cycles, m->measured.bound_cycles, size);
	fastclk_tighten(&m->bounds);
	/*
	 * No constant offsets fit: some counter drifts. Tightened, such bounds accuse everybody;
	 * as they were measured, they name the culprit.
	 */
	drifts = fastclk_bounds_contradict(&m->bounds);
	if (drifts)
		memcpy(m->bounds.bound_cycles, m->measured.bound_cycles, size);
	fastclk_judge(&m->bounds, m->conflicts, &m->judgement);
	if (drifts) {
		m->judgement.verdict = FASTCLK_VERDICT_UNSYNCED;
		m->judgement.max_skew_cycles = U64_MAX;	/* nothing bounds it */
	}

	for (i = 0; i < m->n; i++)
		if (fastclk_is_bad(m->conflicts, i))
			cpumask_set_cpu(m->cpus[i], m->bad);
		else
			cpumask_clear_cpu(m->cpus[i], m->bad);

	/* Nothing is known of CPUs that were left out. */
	if (m->n < m->online && m->judgement.verdict == FASTCLK_VERDICT_SYNCED)
		m->judgement.verdict = FASTCLK_VERDICT_UNKNOWN;

	m->has_offsets = false;
	if (m->n == m->online && !drifts && m->judgement.verdict == FASTCLK_VERDICT_UNSYNCED)
		fastclk_find_offsets(m);
}

