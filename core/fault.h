/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fault injection: errors in the counters of chosen CPUs, as the sync engine reads them.
 * Only in test builds (make modules FAULT_INJECTION=1); otherwise there is none of it.
 */
#ifndef _FASTCLK_FAULT_H
#define _FASTCLK_FAULT_H

#include <linux/types.h>

#ifdef FASTCLK_FAULT_INJECTION
u64 fastclk_fault_counter(u64 cycles);
bool fastclk_fault_writer_stopped(void);
void fastclk_fault_init(void);
#else
static inline u64 fastclk_fault_counter(u64 cycles)
{
	return cycles;
}

static inline bool fastclk_fault_writer_stopped(void)
{
	return false;
}

static inline void fastclk_fault_init(void)
{
}
#endif

#endif /* _FASTCLK_FAULT_H */
