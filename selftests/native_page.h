/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A page made by the test itself, in memory, on this machine's own counter: for tests and
 * measurements of the reader that need neither a module nor a virtual machine. The same
 * code as in the kernel writes it (core/publish.h).
 */
#ifndef NATIVE_PAGE_H
#define NATIVE_PAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <fastclk.h>
#include "core/publish.h"

/* As many CPUs as the table of offsets has room for. */
#define NATIVE_PAGE_CPUS	64
#define NATIVE_PAGE_SIZE	(4096 + NATIVE_PAGE_CPUS * sizeof(struct fastclk_cpu_offset))

/*
 * struct native_page - the page and its file
 * @page: to write
 * @table: the same, of NATIVE_PAGE_CPUS offsets; all 0, and without effect, at first
 * @path: to open, as long as this process lives
 * @fd: the file
 */
struct native_page {
	struct fastclk_page *page;
	struct fastclk_cpu_offset *table;
	char path[32];
	int fd;
};

/* A counter value and the time that clock_gettime() gave then: narrowest of many. */
struct native_sample {
	uint64_t cycles;
	uint64_t ns;
};

static inline struct native_sample native_sample(clockid_t clock)
{
	struct native_sample best = { 0, 0 };
	uint64_t before, after, ns, width = ~0ULL;
	int i;

	for (i = 0; i < 200; i++) {
		before = fastclk_counter_ordered();
		ns = fastclk_gettime_ns(clock);
		after = fastclk_counter_ordered();
		if (after - before < width) {
			width = after - before;
			best.cycles = before + width / 2;
			best.ns = ns;
		}
	}
	return best;
}

/* The line with a slope in 1/2^64 ns per cycle that passes through a sample. */
static inline struct fastclk_line native_line(uint64_t mult, struct native_sample at)
{
	fastclk_u128 offset = ((fastclk_u128)at.ns << 64) - (fastclk_u128)at.cycles * mult;
	struct fastclk_line line = {
		.mult = mult,
		.offset_lo = (uint64_t)offset,
		.offset_hi = (uint64_t)(offset >> 64),
		.shift = 64,
	};

	return line;
}

/* The slope of a clock over some 20 ms, in 1/2^64 ns per cycle. */
static inline uint64_t native_slope(clockid_t clock)
{
	struct native_sample first = native_sample(clock), last;

	do
		last = native_sample(clock);
	while (last.ns - first.ns < 20000000);
	return (uint64_t)(((fastclk_u128)(last.ns - first.ns) << 64) /
			  (last.cycles - first.cycles));
}

/* By how much a clock is ahead of CLOCK_MONOTONIC's line. */
static inline int64_t native_offset(const struct fastclk_line *mono, clockid_t clock)
{
	struct native_sample sample = native_sample(clock);

	return (int64_t)(sample.ns - fastclk_line_ns(mono, sample.cycles));
}

/* A usable page that shows all clocks of now. Ends the program if that fails. */
static inline struct native_page native_page_create(void)
{
	struct native_page native;
	struct native_sample mono, raw;
	struct fastclk_page *page;
	struct fastclk_line line, mono_line;
	uint64_t mult, raw_mult;

	native.fd = memfd_create("fastclk", MFD_CLOEXEC);
	if (native.fd < 0 || ftruncate(native.fd, NATIVE_PAGE_SIZE)) {
		perror("memfd_create");
		exit(1);
	}
	page = mmap(NULL, NATIVE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, native.fd, 0);
	if (page == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	native.page = page;
	native.table = (struct fastclk_cpu_offset *)((char *)page + 4096);
	snprintf(native.path, sizeof(native.path), "/proc/self/fd/%d", native.fd);

	mult = native_slope(CLOCK_MONOTONIC);
	raw_mult = native_slope(CLOCK_MONOTONIC_RAW);

	page->header.magic = FASTCLK_MAGIC;
	page->header.abi_major = FASTCLK_ABI_MAJOR;
	page->header.abi_minor = FASTCLK_ABI_MINOR;
	page->header.size = sizeof(*page);
	page->header.counter = FASTCLK_COUNTER;
	page->header.order = FASTCLK_ORDER;
	page->header.table_offset = 4096;
	page->header.table_entry_size = sizeof(*native.table);
	page->header.table_count = NATIVE_PAGE_CPUS;

	fastclk_publish_begin(page);
	mono = native_sample(CLOCK_MONOTONIC);
	mono_line = native_line(mult, mono);
	fastclk_publish_line(page, &mono_line);
	raw = native_sample(CLOCK_MONOTONIC_RAW);
	line = native_line(raw_mult, raw);
	fastclk_publish_raw_line(page, &line);
	page->hot.realtime_offset = native_offset(&mono_line, CLOCK_REALTIME);
	page->clocks.boottime_offset = native_offset(&mono_line, CLOCK_BOOTTIME);
	page->clocks.tai_offset = native_offset(&mono_line, CLOCK_TAI);
	page->hot.valid_from = mono.cycles;
	page->hot.valid_for = ~0ULL >> 2;
	page->verdict.verdict = FASTCLK_VERDICT_SYNCED;
	page->verdict.reason = FASTCLK_REASON_USABLE;
	page->verdict.mode = FASTCLK_MODE_LOCKSTEP;
	fastclk_publish_status(page, FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_COMPARABLE |
				     FASTCLK_STATUS_CONSTANT_RATE | FASTCLK_STATUS_LOCKSTEP);
	fastclk_publish_end(page);
	return native;
}

/* From now on the table has to be applied. */
static inline void native_page_set_offsets(struct native_page *native)
{
	struct fastclk_page *page = native->page;

	fastclk_publish_begin(page);
	page->verdict.verdict = FASTCLK_VERDICT_OFFSET;
	fastclk_publish_status(page, (page->hot.status & ~FASTCLK_STATUS_COMPARABLE) |
				     FASTCLK_STATUS_OFFSETS);
	fastclk_publish_end(page);
}

#endif /* NATIVE_PAGE_H */
