// SPDX-License-Identifier: GPL-2.0-only
/*
 * The threads that measure: one on each CPU, each attending the meetings it is told to.
 * Who meets whom is up to core/measure.c, the only caller.
 *
 * They run as SCHED_FIFO: as ordinary tasks they starved on a loaded machine. Something
 * of a higher priority can still keep one from running for any time, so nobody waits for
 * a worker without a bound. One that is late is left alone: it holds the module and the
 * crew's memory, and goes when it gets to run.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>

#include <fastclk/counter.h>
#include "compat.h"
#include "fault.h"

#define FASTCLK_EXCHANGE_COUNTER(x)	fastclk_fault_counter(fastclk_counter_ordered())
#define FASTCLK_EXCHANGE_RELAX(x)	cpu_relax()
#include "workers.h"

/* How long to wait for threads that were told to end. */
#define FASTCLK_CREW_STOP_MS	5000

/* Not worth idling for. */
#define FASTCLK_IDLE_MIN_NS	(20 * NSEC_PER_USEC)

struct fastclk_worker {
	struct fastclk_crew *crew;
	struct task_struct *task;
	struct list_head meetings;
	unsigned int cpu;
	bool go;		/* attend your meetings; cleared when done */
} ____cacheline_aligned;

/*
 * struct fastclk_crew - the workers
 * @ref: one for whoever started it, one for each worker
 * @pending: workers that are not done, and threads that have not ended while stopping
 * @done: completed when @pending comes to 0
 * @quit: no more meetings
 * @idle_until_ns: ktime until which CPUs idle when they have nothing to do; 0: they don't
 * @n: how many workers
 * @meetings: how many meetings are arranged
 */
struct fastclk_crew {
	struct kref ref;
	atomic_t pending;
	struct completion done;
	bool quit;
	u64 idle_until_ns;
	u32 n;
	u32 meetings;
	struct fastclk_meeting *meeting;
	struct fastclk_worker worker[];
};

static void fastclk_crew_free(struct kref *ref)
{
	struct fastclk_crew *crew = container_of(ref, struct fastclk_crew, ref);

	kvfree(crew->meeting);
	kvfree(crew);
}

static void fastclk_crew_count_down(struct fastclk_crew *crew)
{
	if (atomic_dec_and_test(&crew->pending))
		complete(&crew->done);
}

static void fastclk_worker_idle_until(u64 until_ns)
{
	s64 ns = until_ns - ktime_get_ns();

	if (ns > FASTCLK_IDLE_MIN_NS)
		play_idle_precise(ns, U64_MAX);
}

static void fastclk_worker_attend(struct fastclk_worker *worker)
{
	struct fastclk_meeting_side *side;

	list_for_each_entry(side, &worker->meetings, list) {
		if (side->start_ns)
			fastclk_worker_idle_until(side->start_ns);
		fastclk_exchange_run(&side->exchange);
	}
	if (worker->crew->idle_until_ns)
		fastclk_worker_idle_until(worker->crew->idle_until_ns);
}

static int fastclk_worker_run(void *data)
{
	struct fastclk_worker *worker = data;
	struct fastclk_crew *crew = worker->crew;

	for (;;) {
		set_current_state(TASK_IDLE);
		if (READ_ONCE(crew->quit))
			break;
		/* Pairs with the release in fastclk_crew_run(): the meetings are there. */
		if (!smp_load_acquire(&worker->go)) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);

		fastclk_worker_attend(worker);

		/* Pairs with the acquire in fastclk_crew_run(); the results are there. */
		smp_store_release(&worker->go, false);
		fastclk_crew_count_down(crew);
	}
	__set_current_state(TASK_RUNNING);

	fastclk_crew_count_down(crew);
	kref_put(&crew->ref, fastclk_crew_free);
	module_put_and_kthread_exit(0);
}

static int fastclk_worker_start(struct fastclk_worker *worker)
{
	struct task_struct *task;

	task = kthread_create_on_node(fastclk_worker_run, worker, cpu_to_node(worker->cpu),
				      "fastclk/%u", worker->cpu);
	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, worker->cpu);
	sched_set_fifo(task);
	worker->task = task;
	kref_get(&worker->crew->ref);
	__module_get(THIS_MODULE);
	wake_up_process(task);
	return 0;
}

/* Forget the meetings. Only while no worker is busy. */
static void fastclk_crew_clear(struct fastclk_crew *crew)
{
	u32 i;

	for (i = 0; i < crew->n; i++)
		INIT_LIST_HEAD(&crew->worker[i].meetings);
	crew->meetings = 0;
}

/**
 * fastclk_crew_start - start a worker on each of some CPUs
 * @cpus: the CPUs, which must stay online (cpus_read_lock())
 * @n: how many
 * @meetings: how many meetings there can be at a time
 *
 * Sleeps. Return: the crew, or an error pointer.
 */
struct fastclk_crew *fastclk_crew_start(const unsigned int *cpus, u32 n, u32 meetings)
{
	struct fastclk_crew *crew;
	int ret;
	u32 i;

	crew = kvzalloc(struct_size(crew, worker, n), GFP_KERNEL);
	if (!crew)
		return ERR_PTR(-ENOMEM);
	kref_init(&crew->ref);
	init_completion(&crew->done);
	crew->meeting = kvcalloc(meetings, sizeof(*crew->meeting), GFP_KERNEL);
	ret = crew->meeting ? 0 : -ENOMEM;

	for (i = 0; i < n && !ret; i++) {
		crew->worker[i].crew = crew;
		crew->worker[i].cpu = cpus[i];
		ret = fastclk_worker_start(&crew->worker[i]);
		if (!ret)
			crew->n++;
	}
	if (ret) {
		fastclk_crew_stop(crew);
		return ERR_PTR(ret);
	}
	fastclk_crew_clear(crew);
	return crew;
}

/**
 * fastclk_crew_stop - end all workers
 * @crew: the crew, which may not be used afterwards
 *
 * Sleeps, for five seconds at most: a worker that is kept from running ends later.
 */
void fastclk_crew_stop(struct fastclk_crew *crew)
{
	u32 i;

	/* Each thread counts down once more when it ends, after what it still has to do. */
	reinit_completion(&crew->done);
	atomic_add(crew->n, &crew->pending);
	WRITE_ONCE(crew->quit, true);
	for (i = 0; i < crew->n; i++)
		wake_up_process(crew->worker[i].task);
	if (crew->n && !wait_for_completion_timeout(&crew->done,
						    msecs_to_jiffies(FASTCLK_CREW_STOP_MS)))
		pr_warn("test threads are kept from running; they end when they can\n");
	kref_put(&crew->ref, fastclk_crew_free);
}

/**
 * fastclk_crew_wait - wait until no worker is left, not even a late one
 *
 * For a module that fails to load: its code goes although threads hold it. (Otherwise
 * they keep it, and there is nothing to wait for.) While a module loads, one reference is
 * the loader's. Sleeps, as long as it takes.
 */
void fastclk_crew_wait(void)
{
	while (module_refcount(THIS_MODULE) > 1)
		msleep(20);
}

/**
 * fastclk_crew_busy - has this worker a meeting already?
 * @crew: the crew
 * @index: which worker
 */
bool fastclk_crew_busy(const struct fastclk_crew *crew, u32 index)
{
	return !list_empty(&crew->worker[index].meetings);
}

/**
 * fastclk_crew_meet - arrange a meeting, the last one so far for both
 * @crew: the crew, not running
 * @a: the worker that makes the first move
 * @b: the other
 * @start_ns: ktime at which they meet, and until which they idle; 0: as soon as possible
 * @task: exchanges, start_cycles and patience_cycles
 */
void fastclk_crew_meet(struct fastclk_crew *crew, u32 a, u32 b, u64 start_ns,
		       const struct fastclk_exchange *task)
{
	struct fastclk_meeting *meeting = &crew->meeting[crew->meetings++];
	u32 side;

	meeting->line = (struct fastclk_exchange_line) { 0 };
	meeting->a = a;
	meeting->b = b;
	for (side = 0; side < 2; side++) {
		meeting->side[side].exchange = *task;
		meeting->side[side].exchange.line = &meeting->line;
		meeting->side[side].exchange.side = side;
		meeting->side[side].start_ns = start_ns;
		list_add_tail(&meeting->side[side].list, &crew->worker[side ? b : a].meetings);
	}
}

/**
 * fastclk_crew_run - have all meetings held, and forget them
 * @crew: the crew
 * @idle_until_ns: ktime until which all CPUs idle that are not meeting; 0: they don't
 * @timeout_ms: give up after that
 *
 * Sleeps. Return: whether all were held. If not, the crew is good for nothing but
 * fastclk_crew_stop(). The results stay until the next meeting is arranged.
 */
bool fastclk_crew_run(struct fastclk_crew *crew, u64 idle_until_ns, unsigned int timeout_ms)
{
	struct fastclk_worker *worker;
	u32 i, workers = 0;

	crew->idle_until_ns = idle_until_ns;
	for (i = 0; i < crew->n; i++)
		workers += idle_until_ns || fastclk_crew_busy(crew, i);
	reinit_completion(&crew->done);
	atomic_set(&crew->pending, workers);

	for (i = 0; i < crew->n; i++) {
		worker = &crew->worker[i];
		if (!idle_until_ns && !fastclk_crew_busy(crew, i))
			continue;
		/* Pairs with the acquire in fastclk_worker_run(). */
		smp_store_release(&worker->go, true);
		wake_up_process(worker->task);
	}
	if (wait_for_completion_timeout(&crew->done, msecs_to_jiffies(timeout_ms))) {
		fastclk_crew_clear(crew);
		return true;
	}

	for (i = 0; i < crew->n; i++) {
		/* Pairs with the release in fastclk_worker_run(). */
		if (smp_load_acquire(&crew->worker[i].go))
			pr_warn("CPU %u kept its test thread from running for %u ms\n",
				crew->worker[i].cpu, timeout_ms);
	}
	return false;
}

/**
 * fastclk_crew_meeting - the results of a meeting
 * @crew: the crew, after fastclk_crew_run()
 * @which: which meeting, in the order in which they were arranged
 */
const struct fastclk_meeting *fastclk_crew_meeting(const struct fastclk_crew *crew, u32 which)
{
	return &crew->meeting[which];
}
