/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters that differ by constants: one offset for each of them, so that they agree.
 * Pure code; used by core/measure.c and core/sync.c.
 */
#ifndef _FASTCLK_OFFSETS_H
#define _FASTCLK_OFFSETS_H

#include "verdict.h"

/* Up to here bounds, and what follows from them, are exact: 29 years at 5 GHz. */
#define FASTCLK_OFFSETS_MAX	(1LL << 62)

bool fastclk_offsets_find(const struct fastclk_bounds *b, u32 reference, s64 *offset_cycles);
bool fastclk_offsets_fit(const struct fastclk_bounds *b, const s64 *offset_cycles);
u64 fastclk_offsets_skew(const struct fastclk_bounds *b, const s64 *offset_cycles);

#endif /* _FASTCLK_OFFSETS_H */
