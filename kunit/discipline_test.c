// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protects of core/discipline.c, with simulated clocks:
 *
 * - the published bound holds, at every moment, whatever the samples are like: wide, late,
 *   lost, with a rate that wanders and steps, a clock of coarse steps, NTP steering it;
 * - each line begins exactly where the one before it was, never stands still or goes back,
 *   and is never bent by more than the limit;
 * - the bound is useful from the first sample on, and final within 2 s;
 * - clocks that jump, and rates that change by more than was assumed, are noticed.
 */
#include <kunit/test.h>

#include "../core/discipline.h"
#include "random.h"

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL

/* The clocksource: what it counts, and how the kernel makes time of it. */
struct source {
	const char *name;
	u64 khz;
	u32 mult;
	u32 shift;
};

/* As clocks_calc_mult_shift() has it for 600 s, and acpi_pm for its 24 bits. */
static const struct source hpet = { "hpet", 100000, 83886080, 23 };
static const struct source acpi_pm = { "acpi_pm", 3580, 2343484438U, 23 };
static const struct source nanoseconds = { "ns", 1000000, 8388608, 23 };

/*
 * A machine. The truth is real time, ps: the counter and the clocksource are derived from it.
 * @now_ps: real time
 * @counter_hz: the counter's nominal rate; @off_ppb: it really is so much faster
 * @cycles_fp: the counter, 2^-20 cycles
 * @tk_mono, @tk_raw: the timekeeper
 */
struct machine {
	u64 seed;
	const struct source *source;
	u64 now_ps;
	u64 counter_hz;
	s64 off_ppb;
	fastclk_u128 cycles_fp;
	struct fastclk_clock_reading mono;
	struct fastclk_clock_reading raw;
};

static void machine_init(struct machine *m, const struct source *source, u64 seed)
{
	*m = (struct machine) {
		.seed = seed,
		.source = source,
		.now_ps = 1000000000000ULL,
		.counter_hz = 2445000000ULL,
		.cycles_fp = (fastclk_u128)1 << 60,
	};
	m->mono.mult = source->mult;
	m->mono.shift = source->shift;
	m->raw = m->mono;
}

static u64 counter(const struct machine *m)
{
	return (u64)(m->cycles_fp >> 20);
}

static void pass(struct machine *m, u64 ps)
{
	/* Hz * 2^20 / 10^12 per ps, in steps that fit. */
	u64 fp_per_us = m->counter_hz / 1000 * 1048576 / 1000;
	u64 really = fp_per_us + (s64)(fp_per_us / 1000) * m->off_ppb / 1000000;

	m->now_ps += ps;
	m->cycles_fp += (fastclk_u128)ps * really / 1000000;
}

static u64 source_cycles(const struct machine *m)
{
	return (u64)((fastclk_u128)m->now_ps * m->source->khz / 1000000000ULL);
}

/* As the kernel computes it, rounded down. */
static u64 read_clock(const struct machine *m, const struct fastclk_clock_reading *clock)
{
	fastclk_u128 ns = (fastclk_u128)(source_cycles(m) - clock->cycle_last) * clock->mult +
			  clock->fraction;

	return clock->base_ns + (u64)(ns >> clock->shift);
}

static void accumulate(const struct machine *m, struct fastclk_clock_reading *clock, u32 mult)
{
	u64 cycles = source_cycles(m);
	fastclk_u128 ns = (fastclk_u128)(cycles - clock->cycle_last) * clock->mult +
			  clock->fraction;

	clock->base_ns += (s64)(ns >> clock->shift);
	clock->fraction = (u64)ns & ((1ULL << clock->shift) - 1);
	clock->cycle_last = cycles;
	clock->mult = mult;
}

/* A timekeeping update; from now on the clock runs @ppm faster than it would. */
static void tick(struct machine *m, s64 ppm)
{
	accumulate(m, &m->mono, m->source->mult + (s64)m->source->mult * ppm / 1000000);
	accumulate(m, &m->raw, m->source->mult);
}

/* A sample of @ns from end to end, the clock being read anywhere in it. */
static struct fastclk_sample look(struct machine *m, u64 ns)
{
	u64 first = random_below(&m->seed, ns * 1000 + 1);
	struct fastclk_sample sample;

	sample.before = counter(m);
	pass(m, first);
	sample.ns = read_clock(m, &m->raw);
	pass(m, ns * 1000 - first);
	sample.after = counter(m);
	return sample;
}

static u32 granularity(const struct source *source)
{
	return (source->mult >> source->shift) + 2;
}

static void start(const struct machine *m, const struct fastclk_tuning *tuning,
		  struct fastclk_discipline *d)
{
	/* 1/2^62 ns per cycle. */
	u64 mult = (u64)((((fastclk_u128)1 << 94) / m->counter_hz * 1000000000ULL) >> 32);

	fastclk_discipline_start(d, tuning, mult, 62, granularity(m->source));
}

/* How a run was. */
struct outcome {
	u64 lines;
	u64 outside;		/* the bound did not hold */
	u64 jumps;		/* a line did not begin where the one before was */
	u64 bent;		/* a line was too fast or too slow */
	u64 lost;		/* the fit was */
	u64 worst_error_ns;
	u64 worst_bound_ns;
};

static bool same_time(const struct fastclk_line *x, const struct fastclk_line *y, u64 cycles)
{
	fastclk_u128 tx = (fastclk_u128)cycles * x->mult +
			  ((fastclk_u128)x->offset_hi << 64 | x->offset_lo);
	fastclk_u128 ty = (fastclk_u128)cycles * y->mult +
			  ((fastclk_u128)y->offset_hi << 64 | y->offset_lo);

	return tx == ty;
}

/* At a counter value, as a reader works it out: it grows with the time that the line shows. */
static u64 bound(const struct fastclk_fitted *fitted, u64 joint, u64 cycles)
{
	u64 age_ns = fastclk_line_ns(&fitted->monotonic, cycles) -
		     fastclk_line_ns(&fitted->monotonic, joint) + 1;

	return fitted->error_ns +
	       (u64)((fastclk_u128)age_ns * fitted->growth_ppb / NSEC_PER_SEC);
}

static void check_clock(const struct machine *m, const struct fastclk_line *line, u64 limit_ns,
			u64 truth_ns, struct outcome *o)
{
	s64 error = (s64)(fastclk_line_ns(line, counter(m)) - truth_ns);
	u64 size = error < 0 ? -error : error;

	if (size > o->worst_error_ns)
		o->worst_error_ns = size;
	if (limit_ns > o->worst_bound_ns)
		o->worst_bound_ns = limit_ns;
	o->outside += size > limit_ns;
}

/* What happens to a machine. */
struct story {
	u64 interval_ns;	/* between samples */
	u64 joints;		/* between samples, the timekeeper is updated so often */
	u64 width_ns;		/* a sample takes at least so long */
	u32 wide_one_in;	/* and one of so many up to 1,000 times longer */
	u32 lost_one_in;	/* one of so many is lost */
	u32 late_one_in;	/* one line of so many is used for up to ten times longer */
	s64 wander_ppb;		/* the counter's rate changes by up to this a sample */
	s64 ntp_ppm;		/* the clock's rate changes by up to this, at any time */
};

/* Follow a machine for @samples samples, from when it has settled or from the first one on. */
static void follow(struct machine *m, struct fastclk_discipline *d, const struct story *story,
		   u64 samples, bool settled, struct outcome *o)
{
	struct fastclk_fitted lines[2];
	struct fastclk_fitted *now = NULL, *next;
	u64 i, j, joint = 0, interval = story->interval_ns;
	s64 ppm = 0;

	for (i = 0; i < samples; i++) {
		u64 width = story->width_ns + random_below(&m->seed, story->width_ns + 1);
		struct fastclk_sample sample;

		/* Short intervals at first, as the sampler makes them. */
		if (!settled && i < 7)
			interval = (NSEC_PER_MSEC << i) < story->interval_ns ?
				   NSEC_PER_MSEC << i : story->interval_ns;
		else
			interval = story->interval_ns;
		if (story->wide_one_in && !random_below(&m->seed, story->wide_one_in))
			width *= 1 + random_below(&m->seed, 1000);
		if (!i || !story->lost_one_in || random_below(&m->seed, story->lost_one_in)) {
			sample = look(m, width);
			if (fastclk_discipline_add(d, &sample)) {
				o->lost++;
				return;
			}
		}
		if (story->wander_ppb)
			m->off_ppb += (s64)random_below(&m->seed, 2 * story->wander_ppb + 1) -
				      story->wander_ppb;

		for (j = 0; j < story->joints; j++) {
			s64 slope;

			if (story->ntp_ppm && j)
				ppm = (s64)random_below(&m->seed, 2 * story->ntp_ppm + 1) -
				      story->ntp_ppm;
			/* The sampler makes lines between two ticks. */
			if (j % 3 != 2)
				tick(m, ppm);
			joint = counter(m);
			next = now == &lines[0] ? &lines[1] : &lines[0];
			fastclk_fit_lines(&d->fit, &m->mono, &m->raw, joint, now, interval, next);
			o->lines++;
			if (now) {
				o->jumps += !same_time(&now->monotonic, &next->monotonic, joint) ||
					    !same_time(&now->raw, &next->raw, joint);
				/* Against the steered rate: the slew, and 1/4 ppm of rounding. */
				slope = (s64)(((fastclk_s128)next->monotonic.mult << 20) /
					      (s64)(((fastclk_s128)d->fit.mult * m->mono.mult) /
						    m->raw.mult)) - (1 << 20);
				o->bent += slope > (d->fit.slew >> 12) + 1 ||
					   -slope > (d->fit.slew >> 12) + 1 ||
					   next->monotonic.mult == 0;
			}
			now = next;
			/* Somewhere in between, and at its end. */
			pass(m, random_below(&m->seed, interval * 500 / story->joints));
			check_clock(m, &now->monotonic, bound(now, joint, counter(m)),
				    read_clock(m, &m->mono), o);
			check_clock(m, &now->raw, bound(now, joint, counter(m)),
				    read_clock(m, &m->raw), o);
			pass(m, interval * 500 / story->joints);
			if (story->late_one_in && !random_below(&m->seed, story->late_one_in))
				pass(m, random_below(&m->seed, interval * 10000));
			check_clock(m, &now->monotonic, bound(now, joint, counter(m)),
				    read_clock(m, &m->mono), o);
		}
	}
}

static void expect_kept(struct kunit *test, const struct outcome *o)
{
	KUNIT_EXPECT_EQ(test, o->outside, 0ULL);
	KUNIT_EXPECT_EQ(test, o->jumps, 0ULL);
	KUNIT_EXPECT_EQ(test, o->bent, 0ULL);
	KUNIT_EXPECT_EQ(test, o->lost, 0ULL);
}

static void tell(struct kunit *test, const char *name, const struct outcome *o)
{
	kunit_info(test, "%s: %llu lines, error up to %llu ns, bound up to %llu ns\n", name,
		   o->lines, o->worst_error_ns, o->worst_bound_ns);
}

/* Each kind of clocksource, the counter off by 300 ppm, from the first sample on. */
static void discipline_keeps_its_bound(struct kunit *test)
{
	static const struct source *const sources[] = { &hpet, &acpi_pm, &nanoseconds };
	const struct story story = {
		.interval_ns = 100 * NSEC_PER_MSEC, .joints = 5, .width_ns = 160,
		.wide_one_in = 10, .lost_one_in = 10, .late_one_in = 20, .wander_ppb = 5,
		.ntp_ppm = 500,
	};
	struct fastclk_discipline *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct machine m;
	u32 i;

	for (i = 0; i < 3 * 8; i++) {
		struct outcome o = { 0 };

		machine_init(&m, sources[i % 3], i + 1);
		m.off_ppb = (i & 8 ? 300000 : -300000) + (s64)i;
		start(&m, &fastclk_tuning_disciplined, d);
		follow(&m, d, &story, 2000, false, &o);
		expect_kept(test, &o);
		if (i < 3)
			tell(test, sources[i]->name, &o);
	}
}

/* A million lines, while adjtimex() changes the rate by 10 %, up and down. */
static void discipline_never_jumps(struct kunit *test)
{
	const struct story story = {
		.interval_ns = 100 * NSEC_PER_MSEC, .joints = 20, .width_ns = 160,
		.wide_one_in = 50, .wander_ppb = 5, .ntp_ppm = 100000,
	};
	struct fastclk_discipline *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct outcome o = { 0 };
	struct machine m;

	machine_init(&m, &hpet, 7);
	m.off_ppb = 20000;
	start(&m, &fastclk_tuning_disciplined, d);
	follow(&m, d, &story, 50000, false, &o);
	expect_kept(test, &o);
	KUNIT_EXPECT_EQ(test, o.lines, 1000000ULL);
	tell(test, "hpet, 10 %", &o);
}

static u64 bound_now(const struct machine *m, const struct fastclk_discipline *d)
{
	struct fastclk_fitted fitted;

	fastclk_fit_lines(&d->fit, &m->mono, &m->raw, counter(m), NULL, NSEC_PER_SEC, &fitted);
	return fitted.error_ns;
}

/* Useful at once, final within 2 s; the limits are those of the documentation. */
static void discipline_converges(struct kunit *test)
{
	static const struct {
		const struct source *source;
		u64 first_ns, final_ns, error_ns;
	} cases[] = {
		{ &hpet, 200, 500, 150 }, { &acpi_pm, 500, 900, 350 }, { &nanoseconds, 200, 500, 100 },
	};
	const struct story story = {
		.interval_ns = 100 * NSEC_PER_MSEC, .joints = 1, .width_ns = 160,
	};
	struct fastclk_discipline *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct machine m;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct outcome o = { 0 };
		struct fastclk_sample sample;

		machine_init(&m, cases[i].source, i + 1);
		m.off_ppb = 200000;
		start(&m, &fastclk_tuning_disciplined, d);
		tick(&m, 0);
		sample = look(&m, 160);
		KUNIT_EXPECT_EQ(test, fastclk_discipline_add(d, &sample), 0);
		KUNIT_EXPECT_LE(test, bound_now(&m, d), cases[i].first_ns);

		/* 1 + 2 + 4 + ... + 64 ms, and then 100 ms each: 1.93 s. */
		start(&m, &fastclk_tuning_disciplined, d);
		follow(&m, d, &story, 7 + 18, false, &o);
		expect_kept(test, &o);
		o = (struct outcome) { 0 };
		follow(&m, d, &story, 1000, true, &o);
		expect_kept(test, &o);
		tell(test, cases[i].source->name, &o);
		KUNIT_EXPECT_LE(test, o.worst_bound_ns, cases[i].final_ns);
		KUNIT_EXPECT_LE(test, o.worst_error_ns, cases[i].error_ns);
	}
}

/* The host steers its clock, by no more than was assumed: nothing is lost. */
static void discipline_survives_steps_of_rate(struct kunit *test)
{
	const struct story story = {
		.interval_ns = 100 * NSEC_PER_MSEC, .joints = 2, .width_ns = 160,
	};
	struct fastclk_discipline *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct outcome o = { 0 };
	struct machine m;
	u32 i;

	machine_init(&m, &hpet, 3);
	start(&m, &fastclk_tuning_disciplined, d);
	follow(&m, d, &story, 30, false, &o);
	for (i = 0; i < 200; i++) {
		m.off_ppb += i & 1 ? -900 : 900;
		follow(&m, d, &story, 1 + i % 60, true, &o);
	}
	expect_kept(test, &o);
	KUNIT_EXPECT_GT(test, d->forgotten, 0ULL);
}

/* What can't be kept is noticed with the next sample. */
static void discipline_notices_what_it_cannot_keep(struct kunit *test)
{
	const struct story story = {
		.interval_ns = 100 * NSEC_PER_MSEC, .joints = 1, .width_ns = 160,
	};
	struct fastclk_discipline *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	u32 i;

	for (i = 0; i < 6; i++) {
		struct fastclk_sample sample;
		struct outcome o = { 0 };
		struct machine m;

		machine_init(&m, &hpet, i + 1);
		start(&m, &fastclk_tuning_disciplined, d);
		follow(&m, d, &story, 40, false, &o);
		expect_kept(test, &o);
		switch (i) {
		case 0:	/* a stopped machine: the counter went on */
			m.cycles_fp += (fastclk_u128)m.counter_hz << 20;
			break;
		case 1:	/* restored: it was set back */
			m.cycles_fp -= (fastclk_u128)m.counter_hz << 20;
			break;
		case 2:	/* the counter of another machine */
			m.cycles_fp = (fastclk_u128)~0ULL << 19;
			break;
		case 3:	/* the clock jumped by 2 us */
			m.now_ps += 2000000;
			break;
		case 4:	/* the counter is 50 ppm faster */
			m.off_ppb = 50000;
			pass(&m, 100 * NSEC_PER_MSEC * 1000);
			break;
		case 5:	/* the counter stands still */
			m.off_ppb = -1000000000;
			pass(&m, 100 * NSEC_PER_MSEC * 1000);
			break;
		}
		sample = look(&m, 160);
		KUNIT_EXPECT_EQ_MSG(test, fastclk_discipline_add(d, &sample), -ERANGE,
				    "case %u", i);
		/* By how much: a second or more, or some us. */
		if (i < 3)
			KUNIT_EXPECT_GE_MSG(test, d->gap_ns, 900 * NSEC_PER_MSEC, "case %u", i);
		else if (i < 5)
			KUNIT_EXPECT_LE_MSG(test, d->gap_ns, NSEC_PER_MSEC, "case %u", i);
	}
}

/* A sample that ends before it began changes nothing. */
static void discipline_refuses_what_is_no_sample(struct kunit *test)
{
	struct fastclk_discipline *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct fastclk_sample sample;
	struct machine m;

	machine_init(&m, &hpet, 1);
	start(&m, &fastclk_tuning_disciplined, d);
	sample = look(&m, 160);
	KUNIT_EXPECT_EQ(test, fastclk_discipline_add(d, &sample), 0);
	sample.after = sample.before - 1;
	KUNIT_EXPECT_EQ(test, fastclk_discipline_add(d, &sample), -EINVAL);
	KUNIT_EXPECT_EQ(test, d->samples, 1ULL);
}

/* The rate changes by factors, every now and then; a sample each 10 ms. */
static void discipline_follows_a_variable_rate(struct kunit *test)
{
	const struct story story = {
		.interval_ns = 10 * NSEC_PER_MSEC, .joints = 2, .width_ns = 160,
		.wide_one_in = 10, .ntp_ppm = 500,
	};
	struct fastclk_discipline *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct outcome o = { 0 };
	struct machine m;
	u32 i;

	machine_init(&m, &hpet, 5);
	start(&m, &fastclk_tuning_variable, d);
	for (i = 0; i < 300; i++) {
		/* Between a third of the nominal rate and a third more than it. */
		m.off_ppb = (s64)random_below(&m.seed, 1000000000) - 666666666;
		follow(&m, d, &story, 1 + random_below(&m.seed, 40), true, &o);
	}
	expect_kept(test, &o);
	tell(test, "variable", &o);
}

/* Counters that wrap, slow ones, and clocks that have run for 30 years. */
static void discipline_at_the_edges(struct kunit *test)
{
	static const u64 rates[] = { 10000000, 62500000, 1000000000, 5000000000ULL };
	const struct story story = {
		.interval_ns = 100 * NSEC_PER_MSEC, .joints = 3, .width_ns = 300, .ntp_ppm = 500,
	};
	struct fastclk_discipline *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(rates); i++) {
		fastclk_u128 mult = ((fastclk_u128)NSEC_PER_SEC << 64) / rates[i];
		struct outcome o = { 0 };
		struct machine m;
		u32 shift = 64;

		machine_init(&m, &nanoseconds, i + 1);
		m.counter_hz = rates[i];
		m.raw.base_ns = 946728000000000000LL;
		m.mono.base_ns = m.raw.base_ns - 1234567890123LL;
		while (mult >> 62) {
			mult >>= 1;
			shift--;
		}
		fastclk_discipline_start(d, &fastclk_tuning_disciplined, (u64)mult, shift, 2);
		follow(&m, d, &story, 200, false, &o);
		KUNIT_EXPECT_EQ_MSG(test, o.outside + o.jumps + o.lost, 0ULL,
				    "counter of %llu Hz", rates[i]);
	}
}

static struct kunit_case discipline_cases[] = {
	KUNIT_CASE(discipline_keeps_its_bound),
	KUNIT_CASE(discipline_never_jumps),
	KUNIT_CASE(discipline_converges),
	KUNIT_CASE(discipline_survives_steps_of_rate),
	KUNIT_CASE(discipline_notices_what_it_cannot_keep),
	KUNIT_CASE(discipline_refuses_what_is_no_sample),
	KUNIT_CASE(discipline_follows_a_variable_rate),
	KUNIT_CASE(discipline_at_the_edges),
	{ .run_case = NULL }
};

static struct kunit_suite discipline_suite = {
	.name = "fastclk_discipline",
	.test_cases = discipline_cases,
};
kunit_test_suite(discipline_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of fastclk's fit to another clock");
