/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A crew of threads, one on each CPU that is tested. See core/workers.c.
 */
#ifndef _FASTCLK_WORKERS_H
#define _FASTCLK_WORKERS_H

#include <linux/list.h>
#include <linux/types.h>

#include "exchange.h"

/*
 * struct fastclk_meeting - an exchange between two workers
 * @line: what they share
 * @a, @b: indices of the workers
 * @side: what each does; @side[0] is @a and makes the first move
 * @side.exchange: task and results
 * @side.list: on the worker's list of meetings
 * @side.start_ns: ktime at which it starts, if the CPU is to idle until then; 0: at once
 */
struct fastclk_meeting {
	struct fastclk_exchange_line line;
	u32 a;
	u32 b;
	struct fastclk_meeting_side {
		struct fastclk_exchange exchange;
		struct list_head list;
		u64 start_ns;
	} side[2];
};

struct fastclk_crew;

struct fastclk_crew *fastclk_crew_start(const unsigned int *cpus, const unsigned long *needed,
					u32 n, u32 meetings);
void fastclk_crew_stop(struct fastclk_crew *crew);
void fastclk_crews_exit(void);
bool fastclk_crew_busy(const struct fastclk_crew *crew, u32 index);
void fastclk_crew_meet(struct fastclk_crew *crew, u32 a, u32 b, u64 start_ns,
		       const struct fastclk_exchange *task);
bool fastclk_crew_run(struct fastclk_crew *crew, u64 idle_until_ns, unsigned int timeout_ms);
const struct fastclk_meeting *fastclk_crew_meeting(const struct fastclk_crew *crew, u32 which);

#endif /* _FASTCLK_WORKERS_H */
