/* SPDX-License-Identifier: MIT */
/*
 * fastclk: the time at the price of a counter read, as long as that can be trusted.
 *
 *	struct fastclk clk;
 *
 *	if (fastclk_open(&clk, 0))
 *		fprintf(stderr, "%s\n", fastclk_why(&clk));
 *	start = fastclk_now_ns(&clk);
 *	...
 *	fastclk_close(&clk);
 *
 * All functions work in any case: when the page of the fastclk module is not there or says
 * that it must not be used, they ask clock_gettime(), and fastclk_source() and
 * fastclk_why() tell.
 *
 * Where the counters of CPUs differ by constants, the readers add the offsets that are on the
 * page, and both orders are ordered. Bare counter values can't be converted there.
 *
 * A struct fastclk is only read after it was opened: threads may share it, and a child
 * process inherits it. The reading functions are async-signal-safe.
 *
 * Two orders are offered, for every clock:
 *
 *	fastclk_now_ns()		is ordered like clock_gettime(): a value that is read
 *					after another thread's was received is not smaller
 *	fastclk_now_ns_relaxed()	costs a bare counter read, but may be off by what
 *					the processor reorders (161 ns were seen)
 *
 * C99 or C++11, gcc or clang. Linux; with -std=c99, define _DEFAULT_SOURCE beforehand.
 */
#ifndef FASTCLK_H
#define FASTCLK_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/fastclk.h>
#include <fastclk/counter.h>
#include <fastclk/line.h>

#ifndef CLOCK_TAI
#error "fastclk.h needs _DEFAULT_SOURCE or _GNU_SOURCE to be defined before the first #include"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define FASTCLK_DEVICE		"/dev/fastclk"

/* Flags of fastclk_open(). */
#define FASTCLK_ONE_CPU		(1U << 0)	/* the counters of different CPUs need not agree:
						 * stamps are only compared on the same CPU
						 */
#define FASTCLK_TEST_BUILD	(1U << 1)	/* accept a module with fault injection */
#define FASTCLK_VARIABLE_RATE	(1U << 2)	/* accept a counter whose rate may change: the
						 * time is within the page's bound, which
						 * grows fast (see fastclk_stamp_error()),
						 * but counts of cycles mean little
						 */

/* Where the time comes from, or why it does not come from the page. */
enum fastclk_source {
	FASTCLK_SOURCE_PAGE		= 0,	/* the page */
	/* clock_gettime(), for good, since at opening */
	FASTCLK_SOURCE_NO_DEVICE	= 1,	/* there was no device */
	FASTCLK_SOURCE_NO_ACCESS	= 2,	/* it could not be opened or mapped */
	FASTCLK_SOURCE_NO_COUNTER	= 3,	/* prctl(PR_SET_TSC) forbids counter reads */
	FASTCLK_SOURCE_UNKNOWN_PAGE	= 4,	/* the page was of an unknown kind or version */
	FASTCLK_SOURCE_IS_TEST_BUILD	= 5,	/* it was of a test build */
	FASTCLK_SOURCE_NO_LINE		= 6,	/* it had no line that could be verified */
	FASTCLK_SOURCE_CONTRADICTION	= 7,	/* it disagreed with clock_gettime(), as in a time
						 * namespace
						 */
	/* clock_gettime(), for the time being */
	FASTCLK_SOURCE_STATUS		= 8,	/* the page says so, see its reason */
	FASTCLK_SOURCE_STALE		= 9,	/* the counter is outside of the window in which
						 * the line is valid
						 */
	FASTCLK_SOURCE_BUSY		= 10,	/* the page was being written all the time */
	FASTCLK_SOURCE_VARIABLE_RATE	= 11,	/* the counter's rate may change, and that was
						 * not accepted (FASTCLK_VARIABLE_RATE)
						 */
	FASTCLK_SOURCE_NO_OFFSET	= 12,	/* the counters of the CPUs differ, and the offset
						 * of this CPU's, or of the one that a bare
						 * counter value is of, is not known
						 */
};

/*
 * struct fastclk - an open clock
 * @page: what is read; a page of zeroes when the mapping is not used
 * @need: FASTCLK_STATUS_* that must be set
 * @opened: enum fastclk_source, as found at opening
 * @mapping: what is mapped, or NULL
 * @mapped: how many bytes of it
 */
struct fastclk {
	const struct fastclk_page *page;
	uint32_t need;
	uint32_t opened;
	void *mapping;
	size_t mapped;
};

/*
 * struct fastclk_stamp - a time, with what belongs to it
 * @ns: the time
 * @cycles: the counter value that it was made from, with its CPU's offset if there are
 *	offsets; 0 with @generation 0
 * @generation: of the page; 0: it came from clock_gettime()
 */
struct fastclk_stamp {
	uint64_t ns;
	uint64_t cycles;
	uint32_t generation;
};

/*
 * struct fastclk_snapshot - what is needed to convert counter values later
 * @line: CLOCK_MONOTONIC
 * @realtime_offset: ns to be added for CLOCK_REALTIME
 * @generation: only stamps of this generation may be converted
 */
struct fastclk_snapshot {
	struct fastclk_line line;
	int64_t realtime_offset;
	uint32_t generation;
};

/* CPU numbers of 12 bits: no table has more entries. */
#define FASTCLK_TABLE_MOST	4096

/* How often a read is tried while the page is being written, which takes some 100 ns. */
#define FASTCLK_TRIES		100

#define FASTCLK_LIKELY(x)	__builtin_expect(!!(x), 1)
#define FASTCLK_INLINE		static inline __attribute__((__always_inline__))
#define FASTCLK_OUTLINE		static __attribute__((__noinline__, __unused__))
#define FASTCLK_COLD		static __attribute__((__noinline__, __cold__, __unused__))

/* Once, from memory that others write; torn values are caught by seq. */
#define FASTCLK_LOAD32(x)	(*(const volatile uint32_t *)&(x))
#define FASTCLK_LOAD64(x)	(*(const volatile __u64 *)&(x))

/*
 * May the page be used? Usually by those who do not look at the table, @table being 0: then
 * there must be no offsets, whatever is needed otherwise, since lines are about counters with
 * offsets if there are any. This is as many instructions as if that did not matter.
 */
FASTCLK_INLINE int fastclk_status_allows(uint32_t status, uint32_t need, int table)
{
	if (!table)
		return !((status ^ ~FASTCLK_STATUS_OFFSETS) & (need | FASTCLK_STATUS_OFFSETS));
	/* With offsets, counters compare as well as if they agreed. */
	need = (need & ~FASTCLK_STATUS_COMPARABLE) | FASTCLK_STATUS_OFFSETS;
	return !(~status & need);
}

/*
 * The counter without offset. A test program that plays CPUs whose counters differ defines
 * FASTCLK_COUNTER_FAULT(cpu) before it includes this file: so many cycles are added to what
 * is read on that CPU.
 */
FASTCLK_INLINE uint64_t fastclk_counter_plain(int ordered)
{
#ifdef FASTCLK_COUNTER_FAULT
	uint32_t cpu;
	uint64_t cycles = fastclk_counter_with_cpu(&cpu);

	(void)ordered;
	return cycles + (uint64_t)FASTCLK_COUNTER_FAULT(cpu);
#else
	return ordered ? fastclk_counter_ordered() : fastclk_counter();
#endif
}

#ifdef FASTCLK_HAVE_COUNTER_WITH_CPU

/*
 * The counter with its CPU's offset, ordered, as it is on a page with FASTCLK_STATUS_OFFSETS.
 * Return: 0 if the CPU has no offset.
 */
FASTCLK_INLINE int fastclk_counter_corrected(const struct fastclk_page *page, uint64_t *cycles)
{
	const struct fastclk_cpu_offset *table;
	uint32_t cpu;

	*cycles = fastclk_counter_with_cpu(&cpu);
#ifdef FASTCLK_COUNTER_FAULT
	*cycles += (uint64_t)FASTCLK_COUNTER_FAULT(cpu);
#endif
	if (!FASTCLK_LIKELY(cpu < page->header.table_count))
		return 0;
	/* Entries are 8 bytes apart, and inside of the mapping: fastclk_map() has checked that. */
	table = (const struct fastclk_cpu_offset *)
		((const char *)page + page->header.table_offset);
	/* Or else the compiler adds the CPU first, for which the processor has to wait. */
	__asm__("" : "+r" (table));
	*cycles += (uint64_t)table[cpu].offset_cycles;
	return 1;
}

#else

FASTCLK_INLINE int fastclk_counter_corrected(const struct fastclk_page *page, uint64_t *cycles)
{
	(void)page;
	*cycles = 0;
	return 0;
}

#endif

/*
 * One try to read one clock from the page. Return: enum fastclk_source; the stamp is only
 * written for FASTCLK_SOURCE_PAGE. @clock, @ordered, @table (apply it) and @whole (the
 * generation, too) are constants where this is used, so that only what is needed remains:
 * each load before the counter read delays it.
 */
FASTCLK_INLINE int fastclk_try(const struct fastclk_page *page, uint32_t need, clockid_t clock,
			       int ordered, int table, int whole, struct fastclk_stamp *stamp)
{
	const struct fastclk_page_hot *hot = &page->hot;
	const struct fastclk_page_clocks *clocks = &page->clocks;
	struct fastclk_line line;
	uint64_t cycles, from, limit, offset;
	uint32_t seq;
	int known = 1;

	/* Pairs with fastclk_publish_begin() and _end() of the writer. */
	seq = __atomic_load_n(&hot->seq, __ATOMIC_ACQUIRE);
	if (!FASTCLK_LIKELY(!(seq & 1)))
		return FASTCLK_SOURCE_BUSY;
	/*
	 * Before the counter is touched, which may be forbidden when there is no page. What
	 * can't be used now need not be consistent.
	 */
	if (!FASTCLK_LIKELY(fastclk_status_allows(FASTCLK_LOAD32(hot->status), need, table)))
		return FASTCLK_SOURCE_STATUS;
	if (clock == CLOCK_MONOTONIC_RAW) {
		line.mult = FASTCLK_LOAD64(clocks->raw_mult);
		line.offset_lo = FASTCLK_LOAD64(clocks->raw_offset_lo);
		line.offset_hi = FASTCLK_LOAD64(clocks->raw_offset_hi);
		line.shift = FASTCLK_LOAD32(clocks->raw_shift);
	} else {
		line.mult = FASTCLK_LOAD64(hot->mult);
		line.offset_lo = FASTCLK_LOAD64(hot->offset_lo);
		line.offset_hi = FASTCLK_LOAD64(hot->offset_hi);
		line.shift = FASTCLK_LOAD32(hot->shift);
	}
	offset = 0;
	if (clock == CLOCK_REALTIME)
		offset = (uint64_t)FASTCLK_LOAD64(hot->realtime_offset);
	else if (clock == CLOCK_BOOTTIME)
		offset = (uint64_t)FASTCLK_LOAD64(clocks->boottime_offset);
	else if (clock == CLOCK_TAI)
		offset = (uint64_t)FASTCLK_LOAD64(clocks->tai_offset);
	from = FASTCLK_LOAD64(hot->valid_from);
	limit = FASTCLK_LOAD64(hot->valid_for);
	stamp->generation = whole ? FASTCLK_LOAD32(hot->generation) : 0;

	if (table)
		known = fastclk_counter_corrected(page, &cycles);
	else
		cycles = fastclk_counter_plain(ordered);

	/* Pairs with the writer's barriers: all of the above, then seq again. */
	fastclk_read_barrier();
	if (!FASTCLK_LIKELY(seq == FASTCLK_LOAD32(hot->seq)))
		return FASTCLK_SOURCE_BUSY;
	if (table && !FASTCLK_LIKELY(known))
		return FASTCLK_SOURCE_NO_OFFSET;
	if (!FASTCLK_LIKELY(cycles - from <= limit))
		return FASTCLK_SOURCE_STALE;
	stamp->ns = fastclk_line_ns(&line, cycles) + offset;
	stamp->cycles = cycles;
	return FASTCLK_SOURCE_PAGE;
}

/* As long as the page is being written, some more tries. */
FASTCLK_INLINE int fastclk_read_page(const struct fastclk_page *page, uint32_t need,
				     clockid_t clock, int ordered, struct fastclk_stamp *stamp)
{
	int tries, source = FASTCLK_SOURCE_BUSY;

	for (tries = 0; tries < FASTCLK_TRIES; tries++) {
		source = fastclk_try(page, need, clock, ordered, 0, 1, stamp);
		if (!FASTCLK_LIKELY(source != FASTCLK_SOURCE_STATUS))
			source = fastclk_try(page, need, clock, ordered, 1, 1, stamp);
		if (FASTCLK_LIKELY(source != FASTCLK_SOURCE_BUSY))
			break;
		fastclk_relax();
	}
	return source;
}

/*
 * The same, with what the page says of the error at that counter value, all under one seq.
 * CLOCK_MONOTONIC_RAW has the same bound.
 */
FASTCLK_COLD int fastclk_read_error(const struct fastclk_page *page, uint32_t need,
				    clockid_t clock, struct fastclk_stamp *stamp,
				    uint64_t *error_ns)
{
	const struct fastclk_page_verdict *v = &page->verdict;
	uint64_t hz, mhz, begin, cycles, us, growth_ppb;
	uint32_t seq;
	int tries, source;

	for (tries = 0; tries < FASTCLK_TRIES; tries++) {
		/* Even, or else the try fails. Pairs as in fastclk_try(). */
		seq = __atomic_load_n(&page->hot.seq, __ATOMIC_ACQUIRE);
		source = fastclk_try(page, need, clock, 1, 0, 1, stamp);
		if (source == FASTCLK_SOURCE_STATUS)
			source = fastclk_try(page, need, clock, 1, 1, 1, stamp);
		*error_ns = FASTCLK_LOAD64(v->error_ns);
		growth_ppb = FASTCLK_LOAD32(v->error_growth_ppb);
		begin = FASTCLK_LOAD64(v->error_cycles);
		hz = FASTCLK_LOAD64(page->clocks.frequency_hz);
		fastclk_read_barrier();
		if (source == FASTCLK_SOURCE_BUSY || seq != FASTCLK_LOAD32(page->hot.seq)) {
			fastclk_relax();
			continue;
		}
		if (source != FASTCLK_SOURCE_PAGE || !growth_ppb)
			return source;
		/* On a CPU whose counter is behind it may not have begun yet. */
		cycles = (int64_t)(stamp->cycles - begin) > 0 ? stamp->cycles - begin : 0;
		/* Whole MHz and us, rounded so that the bound gets larger. */
		mhz = hz < 1000000 ? 1 : hz / 1000000;
		us = cycles / mhz + 1;
		*error_ns += us / 1000000 * growth_ppb + us % 1000000 * growth_ppb / 1000000 + 1;
		return source;
	}
	return FASTCLK_SOURCE_BUSY;
}

/* More exactly, when the page has not all that is needed. */
FASTCLK_COLD int fastclk_refine_source(const struct fastclk *clk, int source)
{
	uint32_t missing = clk->need & ~FASTCLK_LOAD32(clk->page->hot.status);

	return source == FASTCLK_SOURCE_STATUS && missing == FASTCLK_STATUS_CONSTANT_RATE ?
	       FASTCLK_SOURCE_VARIABLE_RATE : source;
}

/*
 * What remains when the page can't be used. Where the counter must not be read the C
 * library's clock_gettime() must not be called either: it reads it, too.
 */
FASTCLK_COLD uint64_t fastclk_gettime_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

FASTCLK_COLD uint64_t fastclk_fallback_ns(const struct fastclk *clk, clockid_t clock)
{
	struct timespec now = { 0, 0 };

	if (clk->opened != FASTCLK_SOURCE_NO_COUNTER)
		return fastclk_gettime_ns(clock);
	syscall(SYS_clock_gettime, clock, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* The first try has failed. */
FASTCLK_COLD uint64_t fastclk_slow_ns(const struct fastclk *clk, clockid_t clock)
{
	struct fastclk_stamp stamp;

	if (fastclk_read_page(clk->page, clk->need, clock, 1, &stamp) == FASTCLK_SOURCE_PAGE)
		return stamp.ns;
	return fastclk_fallback_ns(clk, clock);
}

/*
 * The same where counters have offsets. Not inline, since that is rare, but quick: it costs what
 * the ordered read costs elsewhere, and is ordered in any case.
 */
FASTCLK_OUTLINE uint64_t fastclk_offset_ns(const struct fastclk *clk, clockid_t clock)
{
	struct fastclk_stamp stamp;

	if (FASTCLK_LIKELY(fastclk_try(clk->page, clk->need, clock, 1, 1, 0, &stamp) ==
			   FASTCLK_SOURCE_PAGE))
		return stamp.ns;
	return fastclk_slow_ns(clk, clock);
}

FASTCLK_INLINE uint64_t fastclk_clock_ns(const struct fastclk *clk, clockid_t clock, int ordered)
{
	struct fastclk_stamp stamp;

	if (FASTCLK_LIKELY(fastclk_try(clk->page, clk->need, clock, ordered, 0, 0, &stamp) ==
			   FASTCLK_SOURCE_PAGE))
		return stamp.ns;
	return fastclk_offset_ns(clk, clock);
}

/**
 * fastclk_now_ns - CLOCK_MONOTONIC, ordered
 * @clk: the clock
 *
 * A value that is read after another thread handed over its own is not smaller than that
 * one, on whatever CPU, as long as fastclk_open() was not called with FASTCLK_ONE_CPU.
 * Return: ns since some time in the past, usually boot.
 */
static inline uint64_t fastclk_now_ns(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_MONOTONIC, 1);
}

/**
 * fastclk_now_ns_relaxed - CLOCK_MONOTONIC, in no order
 * @clk: the clock
 *
 * The processor may read the counter before preceding loads and after following ones, so
 * that a value may be smaller than one that another thread read before. Return: ns.
 */
static inline uint64_t fastclk_now_ns_relaxed(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_MONOTONIC, 0);
}

/* CLOCK_REALTIME, ns since 1970-01-01 UTC; may jump when the clock is set. */
static inline uint64_t fastclk_realtime_ns(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_REALTIME, 1);
}

static inline uint64_t fastclk_realtime_ns_relaxed(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_REALTIME, 0);
}

/* CLOCK_BOOTTIME: as CLOCK_MONOTONIC, but goes on while the machine sleeps. */
static inline uint64_t fastclk_boottime_ns(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_BOOTTIME, 1);
}

static inline uint64_t fastclk_boottime_ns_relaxed(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_BOOTTIME, 0);
}

/* CLOCK_TAI: as CLOCK_REALTIME, without leap seconds. */
static inline uint64_t fastclk_tai_ns(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_TAI, 1);
}

static inline uint64_t fastclk_tai_ns_relaxed(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_TAI, 0);
}

/* CLOCK_MONOTONIC_RAW: as CLOCK_MONOTONIC, but not steered by NTP. */
static inline uint64_t fastclk_raw_ns(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_MONOTONIC_RAW, 1);
}

static inline uint64_t fastclk_raw_ns_relaxed(const struct fastclk *clk)
{
	return fastclk_clock_ns(clk, CLOCK_MONOTONIC_RAW, 0);
}

/**
 * fastclk_stamp - a time, ordered, with the counter value and the generation
 * @clk: the clock
 * @clock: CLOCK_MONOTONIC, _REALTIME, _BOOTTIME, _TAI or _MONOTONIC_RAW
 * @stamp: result
 *
 * For those who must know that two stamps can be compared: they can if their generations
 * are equal and not 0. Return: FASTCLK_SOURCE_PAGE, or why it is clock_gettime()'s time.
 */
static inline int fastclk_stamp(const struct fastclk *clk, clockid_t clock,
				struct fastclk_stamp *stamp)
{
	int source = fastclk_read_page(clk->page, clk->need, clock, 1, stamp);

	if (!FASTCLK_LIKELY(source == FASTCLK_SOURCE_PAGE)) {
		source = fastclk_refine_source(clk, source);
		stamp->ns = fastclk_fallback_ns(clk, clock);
		stamp->cycles = 0;
		stamp->generation = 0;
	}
	return source;
}

/**
 * fastclk_stamp_error - a stamp, with by how much it may be off
 * @clk: the clock
 * @clock: as fastclk_stamp()
 * @stamp: result
 * @error_ns: result: at that moment the kernel's clock shows @stamp->ns plus or minus this;
 *	0 in lockstep, and where the time is clock_gettime()'s
 *
 * All of it comes from one look at the page, so it can be relied on even while the mode
 * changes. Slower than fastclk_stamp(). With FASTCLK_ONE_CPU the bound holds on all CPUs
 * only if their counters agree. Return: as fastclk_stamp().
 */
static inline int fastclk_stamp_error(const struct fastclk *clk, clockid_t clock,
				      struct fastclk_stamp *stamp, uint64_t *error_ns)
{
	int source = fastclk_read_error(clk->page, clk->need, clock, stamp, error_ns);

	if (source != FASTCLK_SOURCE_PAGE) {
		source = fastclk_refine_source(clk, source);
		stamp->ns = fastclk_fallback_ns(clk, clock);
		stamp->cycles = 0;
		stamp->generation = 0;
		*error_ns = 0;
	}
	return source;
}

/**
 * fastclk_cycles - the bare counter, in no order
 *
 * To be converted later. Only where the clock's source is the page: elsewhere the counter
 * may be of no use, or forbidden. Where the counters of CPUs need offsets it can not be
 * converted, and fastclk_stamp() has to be used. Return: cycles.
 */
static inline uint64_t fastclk_cycles(void)
{
	return fastclk_counter();
}

/* fastclk_cycles_ordered - the bare counter, ordered as in fastclk_now_ns() */
static inline uint64_t fastclk_cycles_ordered(void)
{
	return fastclk_counter_ordered();
}

/**
 * fastclk_generation - the present generation
 * @clk: the clock
 *
 * To be kept along with counter values. Return: 0 if the page is not used since opening.
 */
static inline uint32_t fastclk_generation(const struct fastclk *clk)
{
	return FASTCLK_LOAD32(clk->page->hot.generation);
}

/**
 * fastclk_snapshot - the present line, for converting many counter values
 * @clk: the clock
 * @snapshot: result
 *
 * A conversion is exact while the line is the current one, which may be for a few ms.
 * Afterwards it is off by the change of rate times the age: 60 us after 60 s for 1 ppm.
 * Return: FASTCLK_SOURCE_PAGE, or why there is none: FASTCLK_SOURCE_NO_OFFSET where counters
 * need offsets, since a bare value does not tell of which CPU it is.
 */
static inline int fastclk_snapshot(const struct fastclk *clk, struct fastclk_snapshot *snapshot)
{
	const struct fastclk_page_hot *hot = &clk->page->hot;
	uint32_t seq, status;
	int tries;

	for (tries = 0; tries < FASTCLK_TRIES; tries++) {
		seq = __atomic_load_n(&hot->seq, __ATOMIC_ACQUIRE);
		status = FASTCLK_LOAD32(hot->status);
		snapshot->line.mult = FASTCLK_LOAD64(hot->mult);
		snapshot->line.offset_lo = FASTCLK_LOAD64(hot->offset_lo);
		snapshot->line.offset_hi = FASTCLK_LOAD64(hot->offset_hi);
		snapshot->line.shift = FASTCLK_LOAD32(hot->shift);
		snapshot->realtime_offset = (int64_t)FASTCLK_LOAD64(hot->realtime_offset);
		snapshot->generation = FASTCLK_LOAD32(hot->generation);
		fastclk_read_barrier();
		if (!(seq & 1) && seq == FASTCLK_LOAD32(hot->seq)) {
			if (fastclk_status_allows(status, clk->need, 0))
				return FASTCLK_SOURCE_PAGE;
			return status & FASTCLK_STATUS_OFFSETS ? FASTCLK_SOURCE_NO_OFFSET :
				fastclk_refine_source(clk, FASTCLK_SOURCE_STATUS);
		}
		fastclk_relax();
	}
	return FASTCLK_SOURCE_BUSY;
}

/**
 * fastclk_snapshot_ns - convert a counter value
 * @snapshot: the line
 * @cycles: of the snapshot's generation
 *
 * Return: CLOCK_MONOTONIC, ns.
 */
static inline uint64_t fastclk_snapshot_ns(const struct fastclk_snapshot *snapshot,
					   uint64_t cycles)
{
	return fastclk_line_ns(&snapshot->line, cycles);
}

/**
 * fastclk_cycles_to_ns - convert one counter value with the present line
 * @clk: the clock
 * @cycles: the value
 * @generation: the generation when it was read
 * @ns: result, CLOCK_MONOTONIC
 *
 * Return: 0, -ESTALE if the generation is another one now, -EAGAIN if there is no line.
 */
static inline int fastclk_cycles_to_ns(const struct fastclk *clk, uint64_t cycles,
				       uint32_t generation, uint64_t *ns)
{
	struct fastclk_snapshot snapshot;

	if (fastclk_snapshot(clk, &snapshot) != FASTCLK_SOURCE_PAGE)
		return -EAGAIN;
	if (snapshot.generation != generation)
		return -ESTALE;
	*ns = fastclk_snapshot_ns(&snapshot, cycles);
	return 0;
}

/**
 * fastclk_source - where the time comes from at present
 * @clk: the clock
 *
 * Return: enum fastclk_source.
 */
static inline int fastclk_source(const struct fastclk *clk)
{
	struct fastclk_stamp stamp;

	if (clk->opened != FASTCLK_SOURCE_PAGE)
		return (int)clk->opened;
	return fastclk_refine_source(clk, fastclk_read_page(clk->page, clk->need, CLOCK_MONOTONIC,
							    1, &stamp));
}

/**
 * fastclk_reason_text - enum fastclk_reason as a sentence
 * @reason: as on the page
 */
FASTCLK_COLD const char *fastclk_reason_text(uint32_t reason)
{
	switch (reason) {
	case FASTCLK_REASON_USABLE:
		return "the page can be used";
	case FASTCLK_REASON_MEASURING:
		return "the counters of the CPUs are being compared";
	case FASTCLK_REASON_INCOMPLETE:
		return "not all CPUs could be compared yet";
	case FASTCLK_REASON_UNSYNCED:
		return "the counters of the CPUs disagree";
	case FASTCLK_REASON_CLOCKSOURCE:
		return "the kernel found the counter, its clocksource, unstable";
	case FASTCLK_REASON_RATE:
		return "the kernel's rate for the counter makes no sense";
	case FASTCLK_REASON_REVOKED:
		return "the page was revoked by the administrator or the module was unloaded";
	case FASTCLK_REASON_SAMPLING:
		return "the counter is being compared with the kernel's clock";
	case FASTCLK_REASON_SUSPENDED:
		return "the machine is falling asleep or waking up";
	}
	return "the page does not say why";
}

/**
 * fastclk_source_text - enum fastclk_source as a sentence
 * @source: the value
 */
FASTCLK_COLD const char *fastclk_source_text(int source)
{
	switch (source) {
	case FASTCLK_SOURCE_PAGE:
		return "the time comes from the fastclk page";
	case FASTCLK_SOURCE_NO_DEVICE:
		return "there is no " FASTCLK_DEVICE ": is the fastclk module loaded, and not revoked?";
	case FASTCLK_SOURCE_NO_ACCESS:
		return FASTCLK_DEVICE " can't be opened or mapped";
	case FASTCLK_SOURCE_NO_COUNTER:
		return "this process must not read the counter (prctl PR_SET_TSC)";
	case FASTCLK_SOURCE_UNKNOWN_PAGE:
		return "the page is of an unknown kind or version";
	case FASTCLK_SOURCE_IS_TEST_BUILD:
		return "the fastclk module is a test build with fault injection";
	case FASTCLK_SOURCE_NO_LINE:
		return "the page could not be used when it was opened";
	case FASTCLK_SOURCE_CONTRADICTION:
		return "the page contradicts clock_gettime(); is this a time namespace?";
	case FASTCLK_SOURCE_STATUS:
		return "the page says that it must not be used";
	case FASTCLK_SOURCE_STALE:
		return "the page is not up to date, or the counter has jumped";
	case FASTCLK_SOURCE_BUSY:
		return "the page was being written for too long";
	case FASTCLK_SOURCE_VARIABLE_RATE:
		return "the counter's rate may change at any time, and the program did not say "
		       "that this will do (FASTCLK_VARIABLE_RATE)";
	case FASTCLK_SOURCE_NO_OFFSET:
		return "the counters of the CPUs differ, and the offset of this one is not known";
	}
	return "unknown";
}

/**
 * fastclk_why - in a sentence, where the time comes from at present, or why not the page
 * @clk: the clock
 */
FASTCLK_COLD const char *fastclk_why(const struct fastclk *clk)
{
	const struct fastclk_page *page = (const struct fastclk_page *)clk->mapping;
	int source = fastclk_source(clk);

	if (page && (source == FASTCLK_SOURCE_STATUS || source == FASTCLK_SOURCE_NO_LINE))
		return fastclk_reason_text(FASTCLK_LOAD32(page->verdict.reason));
	return fastclk_source_text(source);
}

/*
 * Is a clock of the page where clock_gettime() is? A read between two calls must lie
 * between their values, give or take the error that the page admits. It may miss for once: the page is written a moment after the
 * vDSO's data, and the clock may be set. And a bracket says little when it is wide, so one
 * that was torn apart by a preemption is tried again; if all of them are wide, as on a
 * machine that is short of CPUs, they must do, but a narrow one that misses outweighs them.
 */
FASTCLK_COLD int fastclk_verify_clock(const struct fastclk_page *page, clockid_t clock)
{
	const uint64_t narrow_ns = 20000;
	struct fastclk_stamp stamp;
	uint64_t before, after, error_ns;
	int tries, inside, narrow, missed = 0, wide = 0;

	for (tries = 0; tries < 16; tries++) {
		before = fastclk_gettime_ns(clock);
		if (fastclk_read_error(page, FASTCLK_STATUS_LINE_VALID, clock, &stamp,
				       &error_ns) != FASTCLK_SOURCE_PAGE)
			continue;
		after = fastclk_gettime_ns(clock);
		inside = before <= stamp.ns + error_ns && stamp.ns <= after + error_ns;
		narrow = after - before <= narrow_ns;
		if (inside && narrow)
			return 1;
		missed |= narrow;
		wide |= inside;
	}
	return wide && !missed;
}

FASTCLK_COLD int fastclk_verify(const struct fastclk_page *page, unsigned int flags)
{
	static const clockid_t clocks[] = {
		CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI, CLOCK_MONOTONIC_RAW,
	};
	unsigned int i;

	if (page->header.magic != FASTCLK_MAGIC ||
	    page->header.abi_major != FASTCLK_ABI_MAJOR ||
	    page->header.size < sizeof(struct fastclk_page) ||
	    page->header.counter != FASTCLK_COUNTER || page->header.order != FASTCLK_ORDER)
		return FASTCLK_SOURCE_UNKNOWN_PAGE;
	if ((FASTCLK_LOAD32(page->hot.status) & FASTCLK_STATUS_TEST_BUILD) &&
	    !(flags & FASTCLK_TEST_BUILD))
		return FASTCLK_SOURCE_IS_TEST_BUILD;
	if (!(FASTCLK_LOAD32(page->hot.status) & FASTCLK_STATUS_LINE_VALID))
		return FASTCLK_SOURCE_NO_LINE;
	for (i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++)
		if (!fastclk_verify_clock(page, clocks[i]))
			return FASTCLK_SOURCE_CONTRADICTION;
	return FASTCLK_SOURCE_PAGE;
}

FASTCLK_COLD int fastclk_counter_forbidden(void)
{
#ifdef PR_GET_TSC
	int permission = 0;

	return !prctl(PR_GET_TSC, &permission, 0, 0, 0) && permission == PR_TSC_SIGSEGV;
#else
	return 0;
#endif
}

FASTCLK_COLD int fastclk_map_part(struct fastclk *clk, int fd, size_t size)
{
	struct stat info;
	void *mapping;

	/* Behind the end of a file there is SIGBUS. */
	if (!fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size < (off_t)size)
		return FASTCLK_SOURCE_UNKNOWN_PAGE;
	mapping = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED)
		return FASTCLK_SOURCE_NO_ACCESS;
	if (clk->mapping)
		munmap(clk->mapping, clk->mapped);
	clk->mapping = mapping;
	clk->mapped = size;
	return FASTCLK_SOURCE_PAGE;
}

/* First what all pages have, then, if the page says where it is, with the table. */
FASTCLK_COLD int fastclk_map(struct fastclk *clk, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), source;
	const struct fastclk_page_header *header;

	if (fd < 0)
		return errno == ENOENT || errno == ENXIO || errno == ENODEV ?
		       FASTCLK_SOURCE_NO_DEVICE : FASTCLK_SOURCE_NO_ACCESS;
	source = fastclk_map_part(clk, fd, sizeof(struct fastclk_page));
	header = (const struct fastclk_page_header *)clk->mapping;
	if (source == FASTCLK_SOURCE_PAGE && header->magic == FASTCLK_MAGIC &&
	    header->table_count) {
		if (header->table_entry_size != sizeof(struct fastclk_cpu_offset) ||
		    header->table_offset % sizeof(struct fastclk_cpu_offset) ||
		    header->table_count > FASTCLK_TABLE_MOST)
			source = FASTCLK_SOURCE_UNKNOWN_PAGE;
		else
			source = fastclk_map_part(clk, fd, (size_t)header->table_offset +
						  header->table_count * sizeof(struct fastclk_cpu_offset));
	}
	close(fd);
	return source;
}

/**
 * fastclk_open_at - open a clock
 * @clk: the clock
 * @path: a file to map, usually FASTCLK_DEVICE
 * @flags: FASTCLK_ONE_CPU, FASTCLK_TEST_BUILD, FASTCLK_VARIABLE_RATE
 *
 * Maps the page, and compares each of its clocks once with clock_gettime(), so that a page
 * that is not about this process's clocks (another time namespace) is not believed. If
 * that fails, or there is nothing to compare, clock_gettime() is used until the clock is
 * opened again. Takes some microseconds; nothing is calibrated. Not async-signal-safe.
 *
 * Return: FASTCLK_SOURCE_PAGE (0), or why it is clock_gettime() for now or for good. The
 * clock can be read, and must be closed, in any case.
 */
FASTCLK_COLD int fastclk_open_at(struct fastclk *clk, const char *path, unsigned int flags)
{
	static struct fastclk_page none;
	int source;

	memset(clk, 0, sizeof(*clk));
	clk->page = &none;
	clk->need = FASTCLK_STATUS_LINE_VALID;
	if (!(flags & FASTCLK_VARIABLE_RATE))
		clk->need |= FASTCLK_STATUS_CONSTANT_RATE;
	if (!(flags & FASTCLK_ONE_CPU))
		clk->need |= FASTCLK_STATUS_COMPARABLE;

	if (fastclk_counter_forbidden())
		source = FASTCLK_SOURCE_NO_COUNTER;
	else
		source = fastclk_map(clk, path);
	if (source == FASTCLK_SOURCE_PAGE)
		source = fastclk_verify((const struct fastclk_page *)clk->mapping, flags);
	clk->opened = (uint32_t)source;
	if (source == FASTCLK_SOURCE_PAGE)
		clk->page = (const struct fastclk_page *)clk->mapping;
	return fastclk_source(clk);
}

/**
 * fastclk_open - open the clock of the fastclk module
 * @clk: the clock
 * @flags: as fastclk_open_at()
 */
static inline int fastclk_open(struct fastclk *clk, unsigned int flags)
{
	return fastclk_open_at(clk, FASTCLK_DEVICE, flags);
}

/**
 * fastclk_close - close a clock
 * @clk: the clock, not to be used any more by any thread
 */
static inline void fastclk_close(struct fastclk *clk)
{
	if (clk->mapping)
		munmap(clk->mapping, clk->mapped);
	memset(clk, 0, sizeof(*clk));
}

#ifdef __cplusplus
}
#endif

#endif /* FASTCLK_H */
