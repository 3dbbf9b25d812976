/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A crew of threads, one on each CPU that is tested. See core/workers.c.
 */
#ifndef _FASTCLK_WORKERS_H
#define _FASTCLK_WORKERS_H

#include <linux/types.h>

#include "exchange.h"

/*
 * struct fastclk_job - what a worker does next
 * @exchange: one side of an exchange, if @idle_ns is 0
 * @idle_ns: idle the CPU for so long
 */
struct fastclk_job {
	struct fastclk_exchange exchange;
	u64 idle_ns;
};

struct fastclk_crew;

struct fastclk_crew *fastclk_crew_start(const unsigned int *cpus, u32 n);
void fastclk_crew_stop(struct fastclk_crew *crew);
void fastclk_crew_wait(void);
struct fastclk_exchange_line *fastclk_crew_line(struct fastclk_crew *crew, u32 index);
bool fastclk_crew_is_free(const struct fastclk_crew *crew, u32 index);
struct fastclk_job *fastclk_crew_give(struct fastclk_crew *crew, u32 index);
const struct fastclk_job *fastclk_crew_job(const struct fastclk_crew *crew, u32 index);
bool fastclk_crew_run(struct fastclk_crew *crew, unsigned int timeout_ms);

#endif /* _FASTCLK_WORKERS_H */
