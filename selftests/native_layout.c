// SPDX-License-Identifier: GPL-2.0-only
/*
 * The layout of the page is an ABI: every field stays where it is, for 64- and 32-bit
 * readers, and the header compiles alone in each dialect of C and C++ that readers are
 * written in. The offsets are checked when this file is compiled, which its tests do with
 * other compilers and options; run from the top of the tree.
 */
#include <stddef.h>
#include <linux/fastclk.h>

#ifdef __cplusplus
#define _Static_assert	static_assert
#endif

#define SIZE(type, size)		\
	_Static_assert(sizeof(struct type) == (size), #type)
#define AT(group, field, offset)	\
	_Static_assert(offsetof(struct fastclk_page, group.field) == (offset), #group "." #field)

SIZE(fastclk_page_header, 64);
SIZE(fastclk_page_hot, 64);
SIZE(fastclk_page_clocks, 64);
SIZE(fastclk_page_verdict, 128);
SIZE(fastclk_page, 320);
SIZE(fastclk_cpu_offset, 8);

AT(header, magic, 0);
AT(header, abi_major, 8);
AT(header, abi_minor, 12);
AT(header, size, 16);
AT(header, counter, 20);
AT(header, order, 24);
AT(header, table_offset, 28);
AT(header, table_entry_size, 32);
AT(header, table_count, 36);
AT(header, features, 40);
AT(header, reserved, 48);

AT(hot, seq, 64);
AT(hot, status, 68);
AT(hot, mult, 72);
AT(hot, offset_lo, 80);
AT(hot, offset_hi, 88);
AT(hot, realtime_offset, 96);
AT(hot, valid_from, 104);
AT(hot, valid_for, 112);
AT(hot, shift, 120);
AT(hot, generation, 124);

AT(clocks, raw_mult, 128);
AT(clocks, raw_offset_lo, 136);
AT(clocks, raw_offset_hi, 144);
AT(clocks, boottime_offset, 152);
AT(clocks, tai_offset, 160);
AT(clocks, frequency_hz, 168);
AT(clocks, updates, 176);
AT(clocks, raw_shift, 184);
AT(clocks, clock_was_set, 188);

AT(verdict, verdict, 192);
AT(verdict, reason, 196);
AT(verdict, mode, 200);
AT(verdict, measurements, 204);
AT(verdict, max_skew_cycles, 208);
AT(verdict, max_warp_cycles, 216);
AT(verdict, worst_cpu, 224);
AT(verdict, cpus, 232);
AT(verdict, bad_cpus, 236);
AT(verdict, pairs, 240);
AT(verdict, pairs_total, 244);
AT(verdict, exchanges, 248);
AT(verdict, error_cycles, 256);
AT(verdict, error_ns, 264);
AT(verdict, error_growth_ppb, 272);
AT(verdict, reserved0, 276);
AT(verdict, reserved1, 280);

/* Numbers that readers have compiled in. */
_Static_assert(FASTCLK_MAGIC == 0x314b4c4354534146ULL && FASTCLK_ABI_MAJOR == 1, "version");
_Static_assert(FASTCLK_STATUS_LINE_VALID == 1 && FASTCLK_STATUS_COMPARABLE == 2 &&
	       FASTCLK_STATUS_OFFSETS == 4 && FASTCLK_STATUS_CONSTANT_RATE == 8 &&
	       FASTCLK_STATUS_LOCKSTEP == 16 && FASTCLK_STATUS_TEST_BUILD == 32, "status");
_Static_assert(FASTCLK_MODE_UNUSABLE == 1 && FASTCLK_MODE_LOCKSTEP == 2 &&
	       FASTCLK_MODE_DISCIPLINED == 3 && FASTCLK_MODE_VARIABLE == 4, "mode");
_Static_assert(FASTCLK_VERDICT_SYNCED == 1 && FASTCLK_VERDICT_UNSYNCED == 2 &&
	       FASTCLK_VERDICT_OFFSET == 3, "verdict");
_Static_assert(FASTCLK_REASON_USABLE == 1 && FASTCLK_REASON_MEASURING == 2 &&
	       FASTCLK_REASON_INCOMPLETE == 3 && FASTCLK_REASON_UNSYNCED == 4 &&
	       FASTCLK_REASON_CLOCKSOURCE == 5 && FASTCLK_REASON_RATE == 6 &&
	       FASTCLK_REASON_REVOKED == 7, "reason");
_Static_assert(FASTCLK_COUNTER_X86_TSC == 1 && FASTCLK_ORDER_LFENCE_RDTSC == 1, "counter");

/* Only the layout is of interest to the compilers that the tests call. */
#ifndef FASTCLK_ONLY_LAYOUT

#include <stdio.h>
#include <stdlib.h>

#define COMPILE	" -Wall -Wextra -Werror -fsyntax-only -Iinclude/uapi "
#define HEADER	COMPILE "-include linux/fastclk.h /dev/null"
#define LAYOUT	COMPILE "-DFASTCLK_ONLY_LAYOUT selftests/native_layout.c"

static const struct {
	const char *name;
	const char *command;
	const char *needs;	/* otherwise skipped */
} tests[] = {
	{ "the header alone is C99", "gcc -x c -std=c99 -pedantic" HEADER, "gcc" },
	{ "the header alone is C11", "gcc -x c -std=c11 -pedantic" HEADER, "gcc" },
	{ "the header alone is C++11", "g++ -x c++ -std=c++11" HEADER, "g++" },
	{ "the header alone is C++20", "g++ -x c++ -std=c++20" HEADER, "g++" },
	{ "the header alone is clang's C99", "clang -x c -std=c99" HEADER, "clang" },
	{ "the layout is the same for C11", "gcc -x c -std=c11" LAYOUT, "gcc" },
	{ "the layout is the same for C++11", "g++ -x c++ -std=c++11" LAYOUT, "g++" },
	{ "the layout is the same for clang", "clang -x c -std=c11" LAYOUT, "clang" },
	/* Without their libraries; the kernel's headers are the same for both. */
	{ "the layout is the same for 32 bits",
	  "gcc -m32 -x c -std=c11 -idirafter /usr/include/$(gcc -print-multiarch)" LAYOUT, "gcc" },
	{ "the layout is the same for x32",
	  "gcc -mx32 -x c -std=c11 -idirafter /usr/include/$(gcc -print-multiarch)" LAYOUT, "gcc" },
};

int main(void)
{
	const unsigned int count = sizeof(tests) / sizeof(tests[0]);
	unsigned int i, failed = 0;
	char command[512];

	printf("1..%u\n", count);
	for (i = 0; i < count; i++) {
		snprintf(command, sizeof(command), "command -v %s > /dev/null", tests[i].needs);
		if (system(command)) {
			printf("ok %u - %s # SKIP there is no %s\n", i + 1, tests[i].name,
			       tests[i].needs);
			continue;
		}
		/* The compiler's status, its messages as remarks. */
		snprintf(command, sizeof(command),
			 "m=$(%s 2>&1); s=$?; test -z \"$m\" || echo \"$m\" | sed 's/^/# /'; exit $s",
			 tests[i].command);
		fflush(stdout);
		if (system(command)) {
			failed++;
			printf("not ");
		}
		printf("ok %u - %s\n", i + 1, tests[i].name);
	}
	return failed != 0;
}

#endif /* FASTCLK_ONLY_LAYOUT */
