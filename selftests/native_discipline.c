// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fit of core/discipline.c on real clocks: this machine's counter is fitted to
 * CLOCK_MONOTONIC, as the module fits it to a clock that another clocksource drives. The bound
 * holds, is small, and the real error is much smaller. Within a thread, no sleeps but those
 * between two samples, which are the thing itself.
 *
 * NTP may steer CLOCK_MONOTONIC here, by less than the fit allows for: the module's fit does
 * without that, since it is to CLOCK_MONOTONIC_RAW.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>
#include <fastclk/counter.h>
#include "core/discipline.h"

#define NSEC_PER_SEC		1000000000ULL
#define NSEC_PER_MSEC		1000000ULL

#define INTERVAL_NS		(100 * NSEC_PER_MSEC)
#define LOOKS			8
#define SETTLED			25	/* samples: 2 s */
#define SAMPLES			(getenv("SOAK") ? 600U : 50U)
#define CHECKS			2000	/* after each of them */

#define BOUND_LIMIT_NS		200
#define ERROR_LIMIT_NS		50

static u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * NSEC_PER_SEC + (u64)now.tv_nsec;
}

static struct fastclk_sample look(void)
{
	struct fastclk_sample sample, other;
	int i;

	for (i = 0; i < LOOKS; i++) {
		other.before = fastclk_counter_ordered();
		other.ns = now_ns();
		other.after = fastclk_counter_ordered();
		if (!i || other.after - other.before < sample.after - sample.before)
			sample = other;
	}
	return sample;
}

static u32 measure_khz(void)
{
	u64 begin_ns = now_ns(), begin = fastclk_counter(), ns;

	do
		ns = now_ns() - begin_ns;
	while (ns < 20 * NSEC_PER_MSEC);
	return (u32)((fastclk_counter() - begin) * 1000000 / ns);
}

static void wait_ns(u64 ns)
{
	const struct timespec time = { 0, (long)ns };

	nanosleep(&time, NULL);
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* The clock is read in a bracket of counter reads: how far is the line from it? */
static u64 check(const struct fastclk_fitted *lines, u64 joint, u64 *outside, u64 *largest_bound)
{
	struct fastclk_sample sample = look();
	u64 before = fastclk_line_ns(&lines->monotonic, sample.before);
	u64 after = fastclk_line_ns(&lines->monotonic, sample.after);
	u64 middle = before + (after - before) / 2;
	u64 age = after - fastclk_line_ns(&lines->monotonic, joint) + 1;
	u64 bound = lines->error_ns + age * lines->growth_ppb / NSEC_PER_SEC;

	if (bound > *largest_bound)
		*largest_bound = bound;
	*outside += before > sample.ns + bound || after + bound < sample.ns;
	return middle > sample.ns ? middle - sample.ns : sample.ns - middle;
}

static void follows_the_clock(void **state)
{
	/* The identity: the clock is steered by nobody but itself. */
	const struct fastclk_clock_reading clock = { .mult = 1U << 23, .shift = 23 };
	u64 *errors = calloc((size_t)SAMPLES * CHECKS, sizeof(*errors));
	struct fastclk_fitted lines[2], *now = NULL, *next;
	u64 outside = 0, backwards = 0, largest_bound = 0, joint, n = 0, last, lost = 0;
	struct fastclk_discipline d;
	u32 shift, i, j, settled = 0;
	u64 mult = fastclk_discipline_mult(measure_khz(), 2, &shift);

	(void)state;
	assert_non_null(errors);
	fastclk_discipline_start(&d, &fastclk_tuning_disciplined, mult, shift, 2);
	for (i = 0; settled < SAMPLES; i++) {
		struct fastclk_sample sample = look();
		u64 interval = i < 7 ? NSEC_PER_MSEC << i : INTERVAL_NS;

		if (fastclk_discipline_add(&d, &sample)) {
			/* Starved for so long that an old sample is useless, or NTP. */
			assert_true(++lost < 3);
			fastclk_discipline_start(&d, &fastclk_tuning_disciplined, mult, shift, 2);
			now = NULL;
			i = 0;
			continue;
		}
		next = now == &lines[0] ? &lines[1] : &lines[0];
		joint = fastclk_counter_ordered();
		last = now ? fastclk_line_ns(&now->monotonic, joint) : 0;
		fastclk_fit_lines(&d.fit, &clock, &clock, joint, now, interval, next);
		now = next;
		backwards += fastclk_line_ns(&now->monotonic, joint) < last;
		if (i < SETTLED) {
			wait_ns(interval);
			continue;
		}
		wait_ns(interval / 2);
		for (j = 0; j < CHECKS; j++)
			errors[n++] = check(now, joint, &outside, &largest_bound);
		wait_ns(interval / 3);
		settled++;
	}

	qsort(errors, n, sizeof(*errors), compare);
	printf("# %llu checks: bound up to %llu ns at their time, error %llu ns in the median, %llu at the 99.9th percentile, %llu at most; %llu outside\n",
	       n, largest_bound, errors[n / 2], errors[n - 1 - n / 1000], errors[n - 1], outside);
	printf("# the fit: phase -%lld to %lld/256 ns, bound at the joint %llu ns, %u ppb\n",
	       -d.fit.phase_lo, d.fit.phase_hi, now->error_ns, now->growth_ppb);
	assert_int_equal(outside, 0);
	assert_int_equal(backwards, 0);
	assert_true(now->error_ns < BOUND_LIMIT_NS);
	assert_true(errors[n - 1 - n / 1000] < ERROR_LIMIT_NS);
	free(errors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(follows_the_clock),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
