/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints: /sys/kernel/tracing/events/fastclk/. docs/sysfs.md describes them.
 *
 * The first three are made of what the page says when core/events.c comes to tell, outside
 * of the page's lock and of the timekeeper's notifier. Names are not copied, but printed
 * from numbers, since the macros for strings differ between kernels.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM fastclk

#if !defined(_FASTCLK_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _FASTCLK_TRACE_H

#include <linux/tracepoint.h>
#include <linux/fastclk.h>

#define FASTCLK_TRACE_VERDICTS					\
	EM(FASTCLK_VERDICT_UNKNOWN,	"unknown")		\
	EM(FASTCLK_VERDICT_SYNCED,	"synced")		\
	EM(FASTCLK_VERDICT_UNSYNCED,	"unsynced")		\
	EMe(FASTCLK_VERDICT_OFFSET,	"offset")

#define FASTCLK_TRACE_MODES					\
	EM(FASTCLK_MODE_UNKNOWN,	"unknown")		\
	EM(FASTCLK_MODE_UNUSABLE,	"unusable")		\
	EM(FASTCLK_MODE_LOCKSTEP,	"lockstep")		\
	EM(FASTCLK_MODE_DISCIPLINED,	"disciplined")		\
	EMe(FASTCLK_MODE_VARIABLE,	"variable")

#define FASTCLK_TRACE_REASONS					\
	EM(FASTCLK_REASON_UNKNOWN,	"unknown")		\
	EM(FASTCLK_REASON_USABLE,	"usable")		\
	EM(FASTCLK_REASON_MEASURING,	"measuring")		\
	EM(FASTCLK_REASON_INCOMPLETE,	"incomplete")		\
	EM(FASTCLK_REASON_UNSYNCED,	"unsynced")		\
	EM(FASTCLK_REASON_CLOCKSOURCE,	"clocksource")		\
	EM(FASTCLK_REASON_RATE,		"rate")			\
	EM(FASTCLK_REASON_REVOKED,	"revoked")		\
	EM(FASTCLK_REASON_SAMPLING,	"sampling")		\
	EMe(FASTCLK_REASON_SUSPENDED,	"suspended")

/* Programs that read the raw records do not know the enumerations: tell them the numbers. */
#undef EM
#undef EMe
#define EM(value, name)		TRACE_DEFINE_ENUM(value);
#define EMe(value, name)	TRACE_DEFINE_ENUM(value);

FASTCLK_TRACE_VERDICTS
FASTCLK_TRACE_MODES
FASTCLK_TRACE_REASONS

#undef EM
#undef EMe
#define EM(value, name)		{ value, name },
#define EMe(value, name)	{ value, name }

TRACE_EVENT(verdict,

	TP_PROTO(u32 old, const struct fastclk_page_verdict *now),

	TP_ARGS(old, now),

	TP_STRUCT__entry(
		__field(u32, old)
		__field(u32, verdict)
		__field(u64, max_skew_cycles)
		__field(u64, max_warp_cycles)
		__field(u32, pairs)
		__field(u32, pairs_total)
		__field(u32, bad_cpus)
	),

	TP_fast_assign(
		__entry->old = old;
		__entry->verdict = now->verdict;
		__entry->max_skew_cycles = now->max_skew_cycles;
		__entry->max_warp_cycles = now->max_warp_cycles;
		__entry->pairs = now->pairs;
		__entry->pairs_total = now->pairs_total;
		__entry->bad_cpus = now->bad_cpus;
	),

	TP_printk("old=%s new=%s max_skew_cycles=%llu max_warp_cycles=%llu pairs=%u pairs_total=%u bad_cpus=%u",
		  __print_symbolic(__entry->old, FASTCLK_TRACE_VERDICTS),
		  __print_symbolic(__entry->verdict, FASTCLK_TRACE_VERDICTS),
		  __entry->max_skew_cycles, __entry->max_warp_cycles,
		  __entry->pairs, __entry->pairs_total, __entry->bad_cpus)
);

TRACE_EVENT(mode,

	TP_PROTO(u32 old, const struct fastclk_page *now),

	TP_ARGS(old, now),

	TP_STRUCT__entry(
		__field(u32, old)
		__field(u32, mode)
		__field(u32, reason)
		__field(u32, generation)
	),

	TP_fast_assign(
		__entry->old = old;
		__entry->mode = now->verdict.mode;
		__entry->reason = now->verdict.reason;
		__entry->generation = now->hot.generation;
	),

	TP_printk("old=%s new=%s reason=%s generation=%u",
		  __print_symbolic(__entry->old, FASTCLK_TRACE_MODES),
		  __print_symbolic(__entry->mode, FASTCLK_TRACE_MODES),
		  __print_symbolic(__entry->reason, FASTCLK_TRACE_REASONS),
		  __entry->generation)
);

TRACE_EVENT(update,

	TP_PROTO(const struct fastclk_page *now),

	TP_ARGS(now),

	TP_STRUCT__entry(
		__field(u64, updates)
		__field(u64, mult)
		__field(u64, error_ns)
		__field(u32, seq)
		__field(u32, shift)
	),

	TP_fast_assign(
		__entry->updates = now->clocks.updates;
		__entry->mult = now->hot.mult;
		__entry->error_ns = now->verdict.error_ns;
		__entry->seq = now->hot.seq;
		__entry->shift = now->hot.shift;
	),

	TP_printk("updates=%llu seq=%u mult=%llu shift=%u error_ns=%llu",
		  __entry->updates, __entry->seq, __entry->mult, __entry->shift,
		  __entry->error_ns)
);

/* The counter of the first CPU minus that of the second is from lo to hi cycles. */
TRACE_EVENT(exchange,

	TP_PROTO(u32 cpu_a, u32 cpu_b, s64 lo, s64 hi, u32 exchanges),

	TP_ARGS(cpu_a, cpu_b, lo, hi, exchanges),

	TP_STRUCT__entry(
		__field(s64, lo)
		__field(s64, hi)
		__field(u32, cpu_a)
		__field(u32, cpu_b)
		__field(u32, exchanges)
	),

	TP_fast_assign(
		__entry->lo = lo;
		__entry->hi = hi;
		__entry->cpu_a = cpu_a;
		__entry->cpu_b = cpu_b;
		__entry->exchanges = exchanges;
	),

	TP_printk("cpus=%u,%u lo=%lld hi=%lld exchanges=%u",
		  __entry->cpu_a, __entry->cpu_b, __entry->lo, __entry->hi, __entry->exchanges)
);

#endif /* _FASTCLK_TRACE_H */

/* Kbuild adds the directory of core/events.c to where headers are looked for. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
