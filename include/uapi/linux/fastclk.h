/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * The page that /dev/fastclk maps: a line that turns cycle counter values into
 * nanoseconds, and what is known about whether it may be trusted.
 *
 * Everything a reader needs is said here; include/fastclk.h is one reader.
 *
 *
 * Layout
 * ------
 *
 * All fields are in the byte order of the machine. The layout is the same for
 * 32- and 64-bit readers. Fields are only ever appended: a reader finds out what
 * is there by @size, and refuses a page whose @magic or @abi_major it does not
 * know. Reserved fields are 0. A page of zeroes is never usable, and 0 means
 * "unknown" in every enumeration.
 *
 * The first 64 bytes never change while the page is mapped. Everything behind them
 * changes under @seq:
 *
 *	do {
 *		s = load-acquire(seq);		odd: being written, start again
 *		read fields;
 *		ordered read of the counter	(see @order)
 *	} while (load(seq) != s);		after all of the above
 *
 * The writer holds @seq odd for well under a microsecond, with interrupts off; in
 * a virtual machine it may be descheduled in the middle, so a reader gives up
 * after a bounded number of tries and asks clock_gettime() instead.
 *
 *
 * Reading a clock
 * ---------------
 *
 * A line gives, in 128-bit unsigned arithmetic that wraps, the offset being
 * {offset_hi, offset_lo},
 *
 *	ns = (cycles * mult + offset) >> shift,		0 <= shift <= 64,
 *
 * of which the low 64 bits are kept. @mult with @offset is CLOCK_MONOTONIC,
 * @raw_mult with @raw_offset CLOCK_MONOTONIC_RAW. CLOCK_REALTIME, CLOCK_BOOTTIME and
 * CLOCK_TAI are CLOCK_MONOTONIC plus @realtime_offset, @boottime_offset and
 * @tai_offset. All times are those of the initial time namespace.
 *
 * The line may be used when
 *
 *	(status & need) == need		for all the capabilities the caller needs, and
 *	cycles - valid_from <= valid_for	(unsigned, wraps),
 *
 * both looked at under the same @seq as the line. The second catches, in one
 * comparison, a writer that has stopped, a counter that was set back and one that
 * wrapped. A reader for which either fails takes clock_gettime().
 *
 *
 * Counters that differ by constants
 * ---------------------------------
 *
 * If FASTCLK_STATUS_OFFSETS is set (and FASTCLK_STATUS_COMPARABLE is not), the lines and the
 * window are about the counter plus the offset of the CPU that it was read on. The offset
 * is in a table, @table_count entries of struct fastclk_cpu_offset, @table_entry_size bytes
 * apart, of which the first is @table_offset bytes behind the page's start and belongs to
 * CPU 0; all of it can be mapped. Counter and CPU must be read at once, by one instruction:
 * on x86 RDTSCP, which gives the CPU in the low 12 bits of TSC_AUX, and is ordered after
 * preceding loads. The entry is read under the same @seq as the line. A CPU whose number is
 * not below @table_count has none; a CPU that was not tested has FASTCLK_OFFSET_UNKNOWN, which
 * takes the sum out of any window. On both a reader takes clock_gettime(). One that does not
 * apply the table must not use the lines at all, even if it stays on one CPU.
 *
 * Without FASTCLK_STATUS_OFFSETS the table means nothing. Where no instruction gives
 * counter and CPU, there is none.
 *
 *
 * What is promised
 * ----------------
 *
 * In FASTCLK_MODE_LOCKSTEP the page gives what clock_gettime() would have given for
 * the same counter value, to the nanosecond, from the start of the line on. (Up to 1 ms
 * before it, where a reader on another CPU may just have been, the line is continued
 * backwards; some kernels' vDSO stands still there.) Each update reaches the page up to a
 * few hundred nanoseconds after it reached the vDSO; a value read in between is the
 * one that the previous line gives, as in a clock_gettime() which began earlier.
 *
 * With FASTCLK_STATUS_OFFSETS all of this is about clock_gettime() on the CPU whose offset is
 * 0; on the others the kernel's own clock is off, if their counters drive it.
 *
 * With FASTCLK_STATUS_COMPARABLE or _OFFSETS, within one @generation, a value that is read (with
 * the ordered read) after another thread on any tested CPU has handed over its own is never
 * smaller than that one, apart from what the kernel's own clock does when its rate is
 * changed: the old rate minus the new one, times the time the update takes. Values,
 * and counts of cycles, of different generations must not be compared.
 */
#ifndef _UAPI_LINUX_FASTCLK_H
#define _UAPI_LINUX_FASTCLK_H

#include <linux/types.h>

/* "FASTCLK1" when read as bytes on a little-endian machine. */
#define FASTCLK_MAGIC		0x314b4c4354534146ULL

#define FASTCLK_ABI_MAJOR	1	/* a reader refuses any other */
#define FASTCLK_ABI_MINOR	1	/* grows when fields are appended; 1: the table */

/* @counter: what instruction reads the counter. */
enum fastclk_counter {
	FASTCLK_COUNTER_UNKNOWN		= 0,
	FASTCLK_COUNTER_X86_TSC		= 1,	/* rdtsc */
	FASTCLK_COUNTER_ARM_CNTVCT	= 2,	/* mrs cntvct_el0 */
	FASTCLK_COUNTER_RISCV_TIME	= 3,	/* rdtime */
};

/*
 * @order: the sequence whose counter value is not read before the loads that precede
 * it are done. The sync verdict is about counters read in this way.
 */
enum fastclk_order {
	FASTCLK_ORDER_UNKNOWN		= 0,
	FASTCLK_ORDER_LFENCE_RDTSC	= 1,	/* lfence; rdtsc */
	FASTCLK_ORDER_ISB_MRS		= 2,	/* isb; mrs; and the second look at @seq
						 * behind a load that depends on the value
						 */
	FASTCLK_ORDER_FENCE_RDTIME	= 3,	/* fence r,i; rdtime; fence i,r */
};

/* @features: bits that are set once and for all. */
#define FASTCLK_FEATURE_FAULT_INJECTION	(1ULL << 0)	/* test build, see below */
#define FASTCLK_FEATURE_INVARIANT	(1ULL << 1)	/* the processor says that the counter's
							 * rate is constant, in all states
							 */
#define FASTCLK_FEATURE_ASSUMED		(1ULL << 2)	/* the administrator says so
							 * (assume_invariant)
							 */

/* @status: what the page can do at present. Bits are only ever added. */
#define FASTCLK_STATUS_LINE_VALID	(1U << 0)	/* the lines may be used */
#define FASTCLK_STATUS_COMPARABLE	(1U << 1)	/* ordered reads of all tested CPUs
							 * compare: verdict is SYNCED
							 */
#define FASTCLK_STATUS_OFFSETS		(1U << 2)	/* they compare after the per-CPU
							 * offsets were applied, which must be
							 * done: verdict is OFFSET
							 */
#define FASTCLK_STATUS_CONSTANT_RATE	(1U << 3)	/* the counter's rate is constant */
#define FASTCLK_STATUS_LOCKSTEP		(1U << 4)	/* mode is LOCKSTEP */
#define FASTCLK_STATUS_TEST_BUILD	(1U << 5)	/* faults may have been injected: only
							 * for tests, refuse it otherwise
							 */

/* @mode: how the lines are made. */
enum fastclk_mode {
	FASTCLK_MODE_UNKNOWN		= 0,
	FASTCLK_MODE_UNUSABLE		= 1,	/* there is no line */
	FASTCLK_MODE_LOCKSTEP		= 2,	/* copied from the kernel's timekeeper, whose
						 * clocksource is this counter
						 */
	FASTCLK_MODE_DISCIPLINED	= 3,	/* fitted to a kernel clock that is driven by
						 * another clocksource
						 */
	FASTCLK_MODE_VARIABLE		= 4,	/* the same, the counter's rate may change */
};

/* @verdict: whether the counters of the CPUs agree. */
enum fastclk_verdict {
	FASTCLK_VERDICT_UNKNOWN		= 0,	/* not measured, or not all CPUs reached */
	FASTCLK_VERDICT_SYNCED		= 1,	/* no two ordered reads can be seen to go
						 * back between CPUs
						 */
	FASTCLK_VERDICT_UNSYNCED	= 2,	/* they were seen to go back */
	FASTCLK_VERDICT_OFFSET		= 3,	/* they differ by constants, see the table */
};

/* @reason: why not FASTCLK_STATUS_LINE_VALID and one of _COMPARABLE and _OFFSETS are set. */
enum fastclk_reason {
	FASTCLK_REASON_UNKNOWN		= 0,
	FASTCLK_REASON_USABLE		= 1,	/* they are */
	FASTCLK_REASON_MEASURING	= 2,	/* the first measurement is not over */
	FASTCLK_REASON_INCOMPLETE	= 3,	/* not all CPUs could be measured in time */
	FASTCLK_REASON_UNSYNCED		= 4,	/* the CPUs' counters disagree */
	FASTCLK_REASON_CLOCKSOURCE	= 5,	/* the clocksource, the counter, was found unstable */
	FASTCLK_REASON_RATE		= 6,	/* the timekeeper's rate makes no sense */
	FASTCLK_REASON_REVOKED		= 7,	/* the administrator withdrew the page */
	FASTCLK_REASON_SAMPLING		= 8,	/* no sample of the kernel's clock yet, since the
						 * module was loaded, the clocksource changed,
						 * or the counter jumped
						 */
	FASTCLK_REASON_SUSPENDED	= 9,	/* the machine falls asleep or wakes up */
};

/* Constant: 64 bytes. */
struct fastclk_page_header {
	__aligned_u64 magic;		/* FASTCLK_MAGIC */
	__u32 abi_major;		/* FASTCLK_ABI_MAJOR */
	__u32 abi_minor;		/* FASTCLK_ABI_MINOR */
	__u32 size;			/* bytes of struct fastclk_page; not 0 */
	__u32 counter;			/* enum fastclk_counter */
	__u32 order;			/* enum fastclk_order */
	__u32 table_offset;		/* per-CPU table: bytes from the start, 0: none */
	__u32 table_entry_size;		/* bytes */
	__u32 table_count;		/* entries */
	__aligned_u64 features;		/* FASTCLK_FEATURE_* */
	__aligned_u64 reserved[2];
};

/* All that CLOCK_MONOTONIC and CLOCK_REALTIME need, on one line: 64 bytes. */
struct fastclk_page_hot {
	__u32 seq;			/* odd: the page is being written */
	__u32 status;			/* FASTCLK_STATUS_* */
	__aligned_u64 mult;		/* CLOCK_MONOTONIC: 1/2^shift ns per cycle */
	__aligned_u64 offset_lo;	/* 1/2^shift ns, bits 0 to 63 */
	__aligned_u64 offset_hi;	/* bits 64 to 127, two's complement */
	__s64 realtime_offset;	/* ns, CLOCK_REALTIME - CLOCK_MONOTONIC */
	__aligned_u64 valid_from;	/* cycles, about 1 ms before the line's start */
	__aligned_u64 valid_for;	/* cycles, from @valid_from on */
	__u32 shift;			/* 0 to 64 */
	__u32 generation;		/* changes when stamps from before and after must
					 * not be compared; never 0, does not return
					 */
};

/* The other clocks: 64 bytes. */
struct fastclk_page_clocks {
	__aligned_u64 raw_mult;		/* CLOCK_MONOTONIC_RAW: 1/2^raw_shift ns per cycle */
	__aligned_u64 raw_offset_lo;	/* 1/2^raw_shift ns, bits 0 to 63 */
	__aligned_u64 raw_offset_hi;	/* bits 64 to 127, two's complement */
	__s64 boottime_offset;	/* ns, CLOCK_BOOTTIME - CLOCK_MONOTONIC */
	__s64 tai_offset;	/* ns, CLOCK_TAI - CLOCK_MONOTONIC */
	__aligned_u64 frequency_hz;	/* nominal rate of the counter, 0: unknown */
	__aligned_u64 updates;		/* lines published since the module was loaded */
	__u32 raw_shift;		/* 0 to 64 */
	__u32 clock_was_set;		/* changes when CLOCK_REALTIME is set, wraps */
};

/* What the measurement found: 128 bytes. */
struct fastclk_page_verdict {
	__u32 verdict;			/* enum fastclk_verdict */
	__u32 reason;			/* enum fastclk_reason */
	__u32 mode;			/* enum fastclk_mode */
	__u32 measurements;		/* how many were done since the module was loaded */
	__aligned_u64 max_skew_cycles;	/* no two tested CPUs' counters differ by more, with
					 * verdict OFFSET after the offsets were applied;
					 * ~0: not bounded
					 */
	__aligned_u64 max_warp_cycles;	/* two of them differ by at least so much, without
					 * offsets; 0: no difference can be seen
					 */
	__u32 worst_cpu[2];		/* the pair with the largest warp or, without any,
					 * skew; ~0: none
					 */
	__u32 cpus;			/* tested CPUs */
	__u32 bad_cpus;			/* how many of them do not fit the others */
	__u32 pairs;			/* pairs of CPUs measured directly */
	__u32 pairs_total;		/* pairs that there are */
	__aligned_u64 exchanges;	/* hand-overs between CPUs that were evaluated */
	__aligned_u64 error_cycles;	/* at this counter value the lines are off by at */
	__aligned_u64 error_ns;		/* most this against the kernel's clocks; 0 in lockstep */
	__u32 error_growth_ppb;		/* and by so much more with time, in 1e-9 */
	__u32 reserved0;
	__aligned_u64 reserved1[5];
};

/* An entry of the table: 8 bytes. */
struct fastclk_cpu_offset {
	__s64 offset_cycles;		/* to be added to the counter */
};

#define FASTCLK_OFFSET_UNKNOWN	(-0x7fffffffffffffffLL - 1)

struct fastclk_page {
	struct fastclk_page_header header;
	struct fastclk_page_hot hot;
	struct fastclk_page_clocks clocks;
	struct fastclk_page_verdict verdict;
};

#endif /* _UAPI_LINUX_FASTCLK_H */
