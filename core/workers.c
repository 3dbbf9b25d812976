// SPDX-License-Identifier: GPL-2.0-only
/*
 * The threads that measure: one on each CPU, each attending the meetings it is told to.
 * Who meets whom is up to core/measure.c, the only caller.
 *
 * They run as SCHED_FIFO, of the lowest priority: as ordinary tasks they starved on a loaded
 * machine. Something of a higher priority can still keep one from running for any time, so
 * nobody waits for a worker without a bound. A crew with a worker that is late holds the
 * module, and is looked after once a second until all of its threads have ended.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include <fastclk/counter.h>
#include "fault.h"

#define FASTCLK_EXCHANGE_COUNTER(x)	fastclk_fault_counter(fastclk_counter_ordered())
#define FASTCLK_EXCHANGE_RELAX(x)	cpu_relax()
#include "workers.h"

/* How long to wait for threads that were told to end. */
#define FASTCLK_CREW_STOP_MS	5000

/* How often to look after crews that are late. */
#define FASTCLK_CREW_LATE_MS	1000

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
 * @list: on fastclk_crews_late
 * @pending: workers that are not done, and threads that have not ended while stopping
 * @done: completed when @pending comes to 0
 * @quit: no more meetings
 * @idle_until_ns: ktime until which CPUs idle when they have nothing to do; 0: they don't
 * @n: how many CPUs, each with its place in @worker
 * @threads: how many of them have a thread
 * @meetings: how many meetings are arranged
 */
struct fastclk_crew {
	struct list_head list;
	atomic_t pending;
	struct completion done;
	bool quit;
	u64 idle_until_ns;
	u32 n;
	u32 threads;
	u32 meetings;
	struct fastclk_meeting *meeting;
	struct fastclk_worker worker[];
};

static DEFINE_MUTEX(fastclk_crews_mutex);
static LIST_HEAD(fastclk_crews_late);

static void fastclk_crews_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(fastclk_crews_work, fastclk_crews_look);

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
	return 0;
}

static int fastclk_worker_start(struct fastclk_worker *worker)
{
	struct task_struct *task;

	task = kthread_create_on_node(fastclk_worker_run, worker, cpu_to_node(worker->cpu),
				      "fastclk/%u", worker->cpu);
	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, worker->cpu);
	sched_set_fifo_low(task);
	/* It ends by itself, and is waited for afterwards. */
	worker->task = get_task_struct(task);
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
 * @cpus: the CPUs, which must stay online (CPU hotplug is held off)
 * @needed: which of them get a worker: a bit for each; the others can't meet anybody
 * @n: how many
 * @meetings: how many meetings there can be at a time
 *
 * Sleeps. Return: the crew, or an error pointer.
 */
struct fastclk_crew *fastclk_crew_start(const unsigned int *cpus, const unsigned long *needed,
					u32 n, u32 meetings)
{
	struct fastclk_crew *crew;
	int ret;
	u32 i;

	crew = kvzalloc(struct_size(crew, worker, n), GFP_KERNEL);
	if (!crew)
		return ERR_PTR(-ENOMEM);
	init_completion(&crew->done);
	crew->meeting = kvcalloc(meetings, sizeof(*crew->meeting), GFP_KERNEL);
	ret = crew->meeting ? 0 : -ENOMEM;

	crew->n = n;
	for (i = 0; i < n && !ret; i++) {
		crew->worker[i].crew = crew;
		crew->worker[i].cpu = cpus[i];
		if (!test_bit(i, needed))
			continue;
		ret = fastclk_worker_start(&crew->worker[i]);
		if (!ret)
			crew->threads++;
	}
	if (ret) {
		fastclk_crew_stop(crew);
		return ERR_PTR(ret);
	}
	fastclk_crew_clear(crew);
	return crew;
}

/* All threads have ended, or are about to: wait for that, and free what they used. */
static void fastclk_crew_free(struct fastclk_crew *crew)
{
	u32 i;

	for (i = 0; i < crew->n; i++) {
		if (!crew->worker[i].task)
			continue;
		kthread_stop(crew->worker[i].task);
		put_task_struct(crew->worker[i].task);
	}
	kvfree(crew->meeting);
	kvfree(crew);
}

/* Free the crews that were late and are no longer. */
static void fastclk_crews_look(struct work_struct *work)
{
	struct fastclk_crew *crew, *next;

	mutex_lock(&fastclk_crews_mutex);
	list_for_each_entry_safe(crew, next, &fastclk_crews_late, list) {
		if (!completion_done(&crew->done))
			continue;
		list_del(&crew->list);
		fastclk_crew_free(crew);
		module_put(THIS_MODULE);
	}
	if (!list_empty(&fastclk_crews_late))
		schedule_delayed_work(&fastclk_crews_work,
				      msecs_to_jiffies(FASTCLK_CREW_LATE_MS));
	mutex_unlock(&fastclk_crews_mutex);
}

/**
 * fastclk_crew_stop - end all workers
 * @crew: the crew, which may not be used afterwards
 *
 * Sleeps, for five seconds at most: a worker that is kept from running ends later, and
 * until then the module can't be unloaded.
 */
void fastclk_crew_stop(struct fastclk_crew *crew)
{
	u32 i;

	/* Each thread counts down once more when it ends, after what it still has to do. */
	reinit_completion(&crew->done);
	atomic_add(crew->threads, &crew->pending);
	WRITE_ONCE(crew->quit, true);
	for (i = 0; i < crew->n; i++)
		if (crew->worker[i].task)
			wake_up_process(crew->worker[i].task);

	if (!crew->threads || wait_for_completion_timeout(&crew->done,
						    msecs_to_jiffies(FASTCLK_CREW_STOP_MS))) {
		fastclk_crew_free(crew);
		return;
	}
	__module_get(THIS_MODULE);
	mutex_lock(&fastclk_crews_mutex);
	list_add(&crew->list, &fastclk_crews_late);
	schedule_delayed_work(&fastclk_crews_work, msecs_to_jiffies(FASTCLK_CREW_LATE_MS));
	mutex_unlock(&fastclk_crews_mutex);
}

/**
 * fastclk_crews_exit - wait until no crew is late any more
 *
 * Before the module's code goes. When it is unloaded none is, as they hold it; but a module
 * that fails to load, or is unloaded by force, goes nevertheless. Sleeps, as long as it
 * takes.
 */
void fastclk_crews_exit(void)
{
	struct fastclk_crew *crew, *next;

	cancel_delayed_work_sync(&fastclk_crews_work);
	list_for_each_entry_safe(crew, next, &fastclk_crews_late, list) {
		list_del(&crew->list);
		fastclk_crew_free(crew);
		module_put(THIS_MODULE);
	}
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

/* Has this worker something to do in the next run? */
static bool fastclk_crew_wants(const struct fastclk_crew *crew, u32 index)
{
	return crew->worker[index].task &&
	       (crew->idle_until_ns || fastclk_crew_busy(crew, index));
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
	unsigned int late = UINT_MAX;
	u32 i, workers = 0, count = 0;

	crew->idle_until_ns = idle_until_ns;
	for (i = 0; i < crew->n; i++)
		workers += fastclk_crew_wants(crew, i);
	reinit_completion(&crew->done);
	atomic_set(&crew->pending, workers);

	for (i = 0; i < crew->n; i++) {
		worker = &crew->worker[i];
		if (!fastclk_crew_wants(crew, i))
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
		if (smp_load_acquire(&crew->worker[i].go)) {
			late = min(late, crew->worker[i].cpu);
			count++;
		}
	}
	pr_warn_ratelimited("%u CPUs, CPU %u the first of them, kept their test threads from running for %u ms\n",
			    count, late, timeout_ms);
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
