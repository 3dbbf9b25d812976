// SPDX-License-Identifier: GPL-2.0-only
/*
 * The threads that measure: one on each CPU, each doing one job at a time. Which jobs,
 * in which order, is up to core/sync.c, the only caller.
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
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include <fastclk/counter.h>
#include "compat.h"
#include "fault.h"

#define FASTCLK_EXCHANGE_COUNTER(x)	fastclk_fault_counter(fastclk_counter_ordered())
#define FASTCLK_EXCHANGE_RELAX(x)	cpu_relax()
#include "workers.h"

/* How long to wait for threads that were told to end. */
#define FASTCLK_CREW_STOP_MS	1000

enum fastclk_worker_state {
	FASTCLK_WORKER_FREE,
	FASTCLK_WORKER_GIVEN,	/* it has a job, but was not told yet */
	FASTCLK_WORKER_BUSY,
};

struct fastclk_worker {
	struct fastclk_crew *crew;
	struct task_struct *task;
	struct fastclk_exchange_line line;
	struct fastclk_job job;
	unsigned int cpu;
	int state;			/* enum fastclk_worker_state */
} ____cacheline_aligned;

/*
 * struct fastclk_crew - the workers
 * @ref: one for whoever started it, one for each worker
 * @pending: jobs that are not done, and threads that have not ended while stopping
 * @done: completed when @pending comes to 0
 * @quit: no more jobs
 * @n: how many workers
 */
struct fastclk_crew {
	struct kref ref;
	atomic_t pending;
	struct completion done;
	bool quit;
	u32 n;
	struct fastclk_worker worker[];
};

static void fastclk_crew_free(struct kref *ref)
{
	kvfree(container_of(ref, struct fastclk_crew, ref));
}

static void fastclk_crew_count_down(struct fastclk_crew *crew)
{
	if (atomic_dec_and_test(&crew->pending))
		complete(&crew->done);
}

static int fastclk_worker_run(void *data)
{
	struct fastclk_worker *worker = data;
	struct fastclk_crew *crew = worker->crew;

	for (;;) {
		set_current_state(TASK_IDLE);
		if (READ_ONCE(crew->quit))
			break;
		/* Pairs with the release in fastclk_crew_run(): the job is there. */
		if (smp_load_acquire(&worker->state) != FASTCLK_WORKER_BUSY) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);

		if (worker->job.idle_ns)
			play_idle_precise(worker->job.idle_ns, U64_MAX);
		else
			fastclk_exchange_run(&worker->job.exchange);

		/* Pairs with the acquire in fastclk_crew_run(): the results are there. */
		smp_store_release(&worker->state, FASTCLK_WORKER_FREE);
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

/**
 * fastclk_crew_start - start a worker on each of some CPUs
 * @cpus: the CPUs, which must stay online (cpus_read_lock())
 * @n: how many
 *
 * Sleeps. Return: the crew, or an error pointer.
 */
struct fastclk_crew *fastclk_crew_start(const unsigned int *cpus, u32 n)
{
	struct fastclk_crew *crew;
	int ret;
	u32 i;

	crew = kvzalloc(struct_size(crew, worker, n), GFP_KERNEL);
	if (!crew)
		return ERR_PTR(-ENOMEM);
	kref_init(&crew->ref);
	init_completion(&crew->done);

	for (i = 0; i < n; i++) {
		crew->worker[i].crew = crew;
		crew->worker[i].cpu = cpus[i];
		ret = fastclk_worker_start(&crew->worker[i]);
		if (ret) {
			fastclk_crew_stop(crew);
			return ERR_PTR(ret);
		}
		crew->n++;
	}
	return crew;
}

/**
 * fastclk_crew_stop - end all workers
 * @crew: the crew, which may not be used afterwards
 *
 * Sleeps, for a second at most: a worker that is kept from running ends later.
 */
void fastclk_crew_stop(struct fastclk_crew *crew)
{
	u32 i;

	/* Each thread counts down once more when it ends, late jobs before that. */
	reinit_completion(&crew->done);
	atomic_add(crew->n, &crew->pending);
	WRITE_ONCE(crew->quit, true);
	for (i = 0; i < crew->n; i++)
		wake_up_process(crew->worker[i].task);
	if (crew->n && !wait_for_completion_timeout(&crew->done,
						    msecs_to_jiffies(FASTCLK_CREW_STOP_MS)))
		pr_warn("test threads are kept from running by others of higher priority\n");
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
		msleep(10);
}

/**
 * fastclk_crew_line - a line for an exchange in which this worker takes part
 * @crew: the crew
 * @index: which worker
 *
 * Reset. Not to be asked for while the worker is busy.
 */
struct fastclk_exchange_line *fastclk_crew_line(struct fastclk_crew *crew, u32 index)
{
	struct fastclk_exchange_line *line = &crew->worker[index].line;

	line->turn = 0;
	line->value = 0;
	return line;
}

/**
 * fastclk_crew_is_free - has this worker no job?
 * @crew: the crew
 * @index: which worker
 */
bool fastclk_crew_is_free(const struct fastclk_crew *crew, u32 index)
{
	return crew->worker[index].state == FASTCLK_WORKER_FREE;
}

/**
 * fastclk_crew_give - give a worker a job
 * @crew: the crew
 * @index: which worker; it has no job yet
 *
 * Return: the job, to be filled in before fastclk_crew_run().
 */
struct fastclk_job *fastclk_crew_give(struct fastclk_crew *crew, u32 index)
{
	crew->worker[index].state = FASTCLK_WORKER_GIVEN;
	return &crew->worker[index].job;
}

/**
 * fastclk_crew_job - the last job of a worker, with its results
 * @crew: the crew
 * @index: which worker
 */
const struct fastclk_job *fastclk_crew_job(const struct fastclk_crew *crew, u32 index)
{
	return &crew->worker[index].job;
}

/**
 * fastclk_crew_run - have all jobs done that were given
 * @crew: the crew
 * @timeout_ms: give up after that
 *
 * Sleeps. Return: whether all are done. If not, the crew is good for nothing but
 * fastclk_crew_stop().
 */
bool fastclk_crew_run(struct fastclk_crew *crew, unsigned int timeout_ms)
{
	struct fastclk_worker *worker;
	u32 i, jobs = 0;

	for (i = 0; i < crew->n; i++)
		jobs += crew->worker[i].state == FASTCLK_WORKER_GIVEN;
	reinit_completion(&crew->done);
	atomic_set(&crew->pending, jobs);

	for (i = 0; i < crew->n; i++) {
		worker = &crew->worker[i];
		if (worker->state != FASTCLK_WORKER_GIVEN)
			continue;
		/* Pairs with the acquire in fastclk_worker_run(). */
		smp_store_release(&worker->state, FASTCLK_WORKER_BUSY);
		wake_up_process(worker->task);
	}
	if (wait_for_completion_timeout(&crew->done, msecs_to_jiffies(timeout_ms)))
		return true;

	for (i = 0; i < crew->n; i++) {
		worker = &crew->worker[i];
		/* Pairs with the release in fastclk_worker_run(). */
		if (smp_load_acquire(&worker->state) == FASTCLK_WORKER_BUSY)
			pr_warn("CPU %u did not run its test thread for %u ms\n", worker->cpu,
				timeout_ms);
	}
	return false;
}
