/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One measurement of all pairs of CPUs. See core/measure.c.
 */
#ifndef _FASTCLK_MEASURE_H
#define _FASTCLK_MEASURE_H

#include <linux/cpumask.h>
#include <linux/types.h>

#include "verdict.h"

/* Two CPUs, as indices into cpus[] of a measurement. */
struct fastclk_pair {
	u16 a;
	u16 b;
};

/*
 * struct fastclk_measurement - one measurement, complete or not
 * @n: how many CPUs are tested; indices below are from 0 to n - 1
 * @online: how many CPUs were online
 * @cpus: which CPUs are tested
 * @tested: the same as a mask
 * @bad: those that do not fit the others
 * @measured: what exchanges found
 * @bounds: the same, tightened
 * @conflicts: scratch for fastclk_judge()
 * @group: for each CPU, another one to which measured pairs connect it (union-find)
 * @groups: how many sets of connected CPUs there are
 * @todo: pairs that were not measured
 * @left: how many these are
 * @width: how many pairs may run at once
 * @round_trips: how many exchanges each pair makes
 * @era: of core/sync.c: what was found in another one means nothing
 * @exchanges: hand-overs evaluated
 * @passes: how often all CPUs were reached
 * @judgement: what follows
 * @has_offsets: with these offsets, to be added, the counters agree, as far as was measured
 * @offset_cycles: for each CPU
 */
struct fastclk_measurement {
	u32 n;
	u32 online;
	unsigned int *cpus;
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
	u32 round_trips;
	u32 era;
	u64 exchanges;
	u32 passes;
	struct fastclk_judgement judgement;
	bool has_offsets;
	s64 *offset_cycles;
};

u32 fastclk_pairs(u32 n);
struct fastclk_measurement *fastclk_measurement_new(const struct cpumask *wanted);
void fastclk_measurement_free(struct fastclk_measurement *m);
void fastclk_measurement_inherit(struct fastclk_measurement *m,
				 const struct fastclk_measurement *old,
				 const struct cpumask *these, const struct cpumask *those);
void fastclk_measurement_sparing(struct fastclk_measurement *m);
int fastclk_measure(struct fastclk_measurement *m, unsigned int budget_ms, bool may_idle,
		    const unsigned long *stop);
void fastclk_measure_again(struct fastclk_measurement *m);
void fastclk_conclude(struct fastclk_measurement *m);
bool fastclk_confirms(const struct fastclk_measurement *earlier, struct fastclk_measurement *m);

#endif /* _FASTCLK_MEASURE_H */
