// SPDX-License-Identifier: GPL-2.0-only
/*
 * Following a kernel clock that another clocksource drives. Pure code, any context, nothing
 * sleeps; called by core/sampler.c and core/page.c, and by tests.
 *
 * The counter is fitted to CLOCK_MONOTONIC_RAW. No NTP steers that, so what is between the
 * two is physics alone: two oscillators, or a hypervisor's idea of them. How CLOCK_MONOTONIC
 * runs against CLOCK_MONOTONIC_RAW is known exactly, at each moment, from the timekeeper's two
 * mults, and is applied afterwards (fastclk_fit_lines()). So adjtimex() never disturbs a fit,
 * and is followed at once.
 *
 * A sample is a reading of the clock between two reads of the counter. When in between the
 * clock was read is not known, so a sample is an interval, as wide as it took. A preempted
 * vCPU or an SMI makes a sample wide, but never wrong, so nothing has to be guessed about
 * outliers. What is known of the clock is a set: phases and rates that are consistent with
 * the samples (set-membership estimation; F. Schweppe, "Recursive state estimation: unknown
 * but bounded errors and system inputs", 1968). From sample to sample the set of phases grows
 * by the limits of the rate, and is cut with the interval of the next sample. If nothing is
 * left, one of the two clocks has jumped (a machine that was stopped, restored or migrated),
 * or its rate has changed by more than was assumed: the fit is lost and must be begun anew.
 *
 * The set gives the bound. The estimate inside of it is the least-squares line through the
 * narrow ones of the remembered samples, where there are enough of them.
 *
 * All "readings" of the clock are centred: a clock of coarse steps shows between nothing and
 * one step less than it would if it was continuous. The fit follows the middle.
 */
#include "discipline.h"

#define FASTCLK_PPB		1000000000ULL

/* Phases are kept below this, so that sums and the products below do not overflow. */
#define FASTCLK_PHASE_MAX	((s64)1 << 54)

/* Rates need no more: a factor of 32. */
#define FASTCLK_RATE_MAX	((s64)1 << 37)

/* A counter that is more than 32 times faster than before is another counter. */
#define FASTCLK_RATE_MIN	(((s64)1 << (FASTCLK_RATE_SHIFT - 5)) - ((s64)1 << FASTCLK_RATE_SHIFT))

/* For least squares. */
#define FASTCLK_SAMPLES_LEAST	2

/*
 * An invariant counter and a clock of the kernel are both driven by crystals, which wander by
 * some 10 ppb a second at most; the step is for what nobody thought of. 1 % is what the kernel allows between two calibrations of the TSC;
 * 500 ppm is NTP's own limit for slewing.
 */
const struct fastclk_tuning fastclk_tuning_disciplined = {
	.prior_ppb = 10000000,
	.step_ppb = 1000,
	.wander_ppb_per_s = 100,
	.slew_ppb = 500000,
	.samples = FASTCLK_SAMPLES,
};

/*
 * In a virtual machine the clock may be one that the host steers, and the counter may be an
 * emulation: QEMU's, without KVM, gains up to 4 ppm while several vCPUs read it all the time.
 */
const struct fastclk_tuning fastclk_tuning_guest = {
	.prior_ppb = 10000000,
	.step_ppb = 5000,
	.wander_ppb_per_s = 100,
	.slew_ppb = 500000,
	.samples = FASTCLK_SAMPLES,
};

/*
 * The counter may go five times slower at any moment, or stop. Nothing but the last samples
 * tells the rate.
 */
const struct fastclk_tuning fastclk_tuning_variable = {
	.prior_ppb = 4000000000U,
	.step_ppb = 0,
	.wander_ppb_per_s = 4000000000ULL * 100000,
	.slew_ppb = 200000000,
	.samples = 6,
};

static s64 fastclk_clamp(fastclk_s128 x, s64 least, s64 most)
{
	return x < least ? least : x > most ? most : (s64)x;
}

static s64 fastclk_larger(s64 x, s64 y)
{
	return x > y ? x : y;
}

static s64 fastclk_smaller(s64 x, s64 y)
{
	return x < y ? x : y;
}

static s64 fastclk_abs(s64 x)
{
	return x < 0 ? -x : x;
}

/* Rounded up. */
static s64 fastclk_rate_from_ppb(u64 ppb)
{
	u64 whole = ppb / FASTCLK_PPB, rest = ppb % FASTCLK_PPB;

	if (whole >= FASTCLK_RATE_MAX >> FASTCLK_RATE_SHIFT)
		return FASTCLK_RATE_MAX;
	return (s64)((whole << FASTCLK_RATE_SHIFT) +
		     ((rest << FASTCLK_RATE_SHIFT) + FASTCLK_PPB - 1) / FASTCLK_PPB);
}

static u64 fastclk_rate_to_ppb(s64 rate)
{
	return (u64)(((fastclk_u128)fastclk_abs(rate) * FASTCLK_PPB) >> FASTCLK_RATE_SHIFT) + 1;
}

/* What a difference of rates makes of @ns; towards minus infinity. */
static s64 fastclk_phase(s64 rate, u64 ns)
{
	return fastclk_clamp((fastclk_s128)rate * ns >> (FASTCLK_RATE_SHIFT - FASTCLK_PHASE_SHIFT),
			     -FASTCLK_PHASE_MAX, FASTCLK_PHASE_MAX);
}

/* The rate that makes @phase of @ns, which is not 0; towards 0. */
static s64 fastclk_rate(s64 phase, u64 ns)
{
	const s64 most = (s64)1 << (62 - (FASTCLK_RATE_SHIFT - FASTCLK_PHASE_SHIFT));

	if (ns > (u64)S64_MAX)
		return 0;
	phase = fastclk_clamp(phase, -most, most);
	return fastclk_clamp((phase * ((s64)1 << (FASTCLK_RATE_SHIFT - FASTCLK_PHASE_SHIFT))) /
			     (s64)ns, -FASTCLK_RATE_MAX, FASTCLK_RATE_MAX);
}

/* A difference of two times, of 1/2^shift ns each, as a phase. */
static s64 fastclk_difference(fastclk_u128 x, fastclk_u128 y, u32 shift)
{
	return fastclk_clamp((fastclk_s128)(x - y) >> (shift - FASTCLK_PHASE_SHIFT),
			     -FASTCLK_PHASE_MAX, FASTCLK_PHASE_MAX);
}

static fastclk_u128 fastclk_shifted(s64 phase, u32 shift)
{
	return (fastclk_u128)(fastclk_s128)phase << (shift - FASTCLK_PHASE_SHIFT);
}

/* @mult at a rate that is higher by @rate. Never 0, never wraps. */
static u64 fastclk_faster(u64 mult, s64 rate)
{
	fastclk_s128 faster = mult + ((fastclk_s128)mult * rate >> FASTCLK_RATE_SHIFT);

	return faster < 1 ? 1 : faster > (fastclk_s128)U64_MAX ? U64_MAX : (u64)faster;
}

/* x * m / r, of which the quotient must fit. The kernel has no division of 128 bits. */
static fastclk_u128 fastclk_multiply_divide(fastclk_u128 x, u32 m, u32 r)
{
	fastclk_u128 quotient = 0;
	u64 rest = 0;
	int i;

	for (i = 96; i >= 0; i -= 32) {
		rest = rest << 32 | (u32)(x >> i);
		quotient = quotient << 32 | rest / r;
		rest %= r;
	}
	return quotient * m + rest * m / r;
}

/**
 * fastclk_discipline_mult - the line of a counter's nominal rate
 * @khz: the rate, not 0
 * @room: by so many times mult may grow, 1 to 16
 * @shift: result, the largest for which it fits: 64 above @room GHz
 *
 * Return: mult, 1/2^shift ns per cycle.
 */
u64 fastclk_discipline_mult(u32 khz, u32 room, u32 *shift)
{
	/* 10^6 / khz ns per cycle, at a shift of 32, rounded up. */
	u64 most = ((1000000ULL << 32) / khz + 1) * room;

	*shift = fastclk_line_shift(most, 32);
	return (u64)fastclk_multiply_divide((fastclk_u128)1 << *shift, 1000000, khz);
}

/**
 * fastclk_discipline_start - begin a fit
 * @d: the fit; no line can be made before the first sample was taken in
 * @tuning: what is assumed
 * @mult: the counter's nominal rate, 1/2^shift ns per cycle, not 0
 * @shift: FASTCLK_PHASE_SHIFT to 64
 * @granularity_ns: how far apart the clock's readings are
 */
void fastclk_discipline_start(struct fastclk_discipline *d, const struct fastclk_tuning *tuning,
			      u64 mult, u32 shift, u32 granularity_ns)
{
	*d = (struct fastclk_discipline) {
		.tuning = tuning,
		.prior = fastclk_rate_from_ppb(tuning->prior_ppb),
		.fit = {
			.mult = mult,
			.shift = shift,
			.granularity_ns = granularity_ns,
			.step = fastclk_rate_from_ppb(tuning->step_ppb),
			.slew = fastclk_rate_from_ppb(tuning->slew_ppb),
		},
	};
	d->fit.rate_lo = fastclk_larger(-d->prior, FASTCLK_RATE_MIN);
	d->fit.rate_hi = d->prior;
}

/* How long a sample took, and half of a step of the clock's, as a phase; rounded up. */
static s64 fastclk_half_width(const struct fastclk_discipline *d, u64 width_cycles)
{
	const struct fastclk_fit *fit = &d->fit;
	fastclk_u128 half = (fastclk_u128)(width_cycles / 2 + 1) * fit->mult;
	s64 phase;

	half >>= fit->shift - FASTCLK_PHASE_SHIFT;
	phase = half > (fastclk_u128)FASTCLK_PHASE_MAX / 64 ? FASTCLK_PHASE_MAX / 64 : (s64)half;
	/* The rate may be higher than nominal. */
	phase += fastclk_clamp((fastclk_s128)phase * d->prior >> FASTCLK_RATE_SHIFT, 0,
			       FASTCLK_PHASE_MAX / 64);
	return phase + 1 + ((s64)fit->granularity_ns << FASTCLK_PHASE_SHIFT) / 2;
}

static const struct fastclk_remembered *fastclk_remembered(const struct fastclk_discipline *d,
							   u32 age)
{
	return &d->remembered[(d->next + FASTCLK_SAMPLES - 1 - age) % FASTCLK_SAMPLES];
}

/* How much older than the fit it is, ns. */
static u64 fastclk_age_ns(const struct fastclk_fit *fit, const struct fastclk_remembered *r)
{
	return (u64)((fastclk_u128)(fit->cycles - r->cycles) * fit->mult >> fit->shift);
}

/* Where its middle is, seen from the fit's line continued backwards. */
static s64 fastclk_residual(const struct fastclk_fit *fit, const struct fastclk_remembered *r)
{
	fastclk_u128 line = fit->time - (fastclk_u128)(fit->cycles - r->cycles) * fit->mult;

	return fastclk_difference((fastclk_u128)r->ns << fit->shift, line, fit->shift);
}

/* By how much the present rate may differ from the mean rate since @ns ago. */
static s64 fastclk_wander(const struct fastclk_tuning *tuning, u64 ns)
{
	/* ppb per s, times ns, is 10^-18. */
	fastclk_u128 product = (fastclk_u128)tuning->wander_ppb_per_s * ns;

	return product >> 64 ? FASTCLK_RATE_MAX :
			       fastclk_rate_from_ppb((u64)product / FASTCLK_PPB);
}

/*
 * What the remembered samples say about the rate, each together with the present set of
 * phases. From the newest on: where an older one contradicts, the rate has changed since.
 */
static void fastclk_limit_rate(struct fastclk_discipline *d)
{
	struct fastclk_fit *fit = &d->fit;
	s64 lo = fastclk_larger(-d->prior - d->drift, FASTCLK_RATE_MIN);
	s64 hi = d->prior - d->drift;
	u32 age;

	for (age = 1; age < d->count; age++) {
		const struct fastclk_remembered *r = fastclk_remembered(d, age);
		s64 residual = fastclk_residual(fit, r), new_lo, new_hi, wander;
		u64 ns = fastclk_age_ns(fit, r);

		if (!ns)
			continue;
		wander = fastclk_wander(d->tuning, ns);
		new_lo = fastclk_rate(fit->phase_lo - (residual + r->half), ns) - 1 - wander;
		new_hi = fastclk_rate(fit->phase_hi - (residual - r->half), ns) + 1 + wander;
		if (new_lo > hi || new_hi < lo) {
			d->count = age;
			d->forgotten++;
			break;
		}
		lo = fastclk_larger(lo, new_lo);
		hi = fastclk_smaller(hi, new_hi);
	}
	fit->rate_lo = lo;
	fit->rate_hi = hi;
}

/* The least-squares line through the narrow samples. Return: whether there are enough. */
static bool fastclk_least_squares(const struct fastclk_discipline *d, s64 *phase, s64 *rate)
{
	const struct fastclk_fit *fit = &d->fit;
	s64 narrowest = S64_MAX, x_sum = 0, y_sum = 0, xx = 0, n = 0;
	s64 x[FASTCLK_SAMPLES], y[FASTCLK_SAMPLES];	/* 1,024 ns; phase */
	s64 x_mean, y_mean;
	fastclk_s128 xy = 0;
	u32 age;
	s64 i;

	for (age = 0; age < d->count; age++)
		narrowest = fastclk_smaller(narrowest, fastclk_remembered(d, age)->half);
	for (age = 0; age < d->count; age++) {
		const struct fastclk_remembered *r = fastclk_remembered(d, age);
		u64 ns = fastclk_age_ns(fit, r);

		/* Up to 64 s, so that the sums below fit. */
		if (r->half > 2 * narrowest || ns >> 36)
			continue;
		x[n] = -(s64)(ns >> 10);
		y[n] = fastclk_residual(fit, r);
		x_sum += x[n];
		y_sum += y[n];
		n++;
	}
	if (n < FASTCLK_SAMPLES_LEAST)
		return false;
	x_mean = x_sum / n;
	y_mean = y_sum / n;
	for (i = 0; i < n; i++) {
		xx += (x[i] - x_mean) * (x[i] - x_mean);
		xy += (fastclk_s128)(x[i] - x_mean) * (y[i] - y_mean);
	}
	if (xx < (s64)1 << 14)
		return false;
	/* A phase per us, of 1,024 ns, as a rate: times 2^24 / 2^10. */
	*rate = fastclk_clamp(fastclk_clamp(xy, -S64_MAX, S64_MAX) / (xx >> 14),
			      -FASTCLK_RATE_MAX, FASTCLK_RATE_MAX);
	*phase = y_mean + fastclk_phase(*rate, (u64)-x_mean << 10);
	return true;
}

/* A @difference of rates, relative to a rate that is now higher by @rate; away from 0. */
static s64 fastclk_relative(s64 difference, s64 rate)
{
	s64 more = fastclk_clamp((fastclk_s128)fastclk_abs(difference) * fastclk_abs(rate) >>
				 (FASTCLK_RATE_SHIFT - 1), 0, FASTCLK_RATE_MAX) + 1;

	return fastclk_clamp((fastclk_s128)difference + (difference < 0 ? -more : more),
			     -FASTCLK_RATE_MAX, FASTCLK_RATE_MAX);
}

/* Move the estimate inside of the sets. */
static void fastclk_move(struct fastclk_discipline *d, s64 phase, s64 rate)
{
	struct fastclk_fit *fit = &d->fit;

	phase = fastclk_clamp(phase, fit->phase_lo, fit->phase_hi);
	fit->time += fastclk_shifted(phase, fit->shift);
	fit->phase_lo -= phase;
	fit->phase_hi -= phase;

	rate = fastclk_clamp(rate, fit->rate_lo, fit->rate_hi);
	fit->mult = fastclk_faster(fit->mult, rate);
	fit->rate_lo = fastclk_relative(fit->rate_lo - rate, rate);
	fit->rate_hi = fastclk_relative(fit->rate_hi - rate, rate);
	/* Where the rate is free, there is nothing from which it could drift away. */
	if (d->prior < (s64)1 << FASTCLK_RATE_SHIFT)
		d->drift += rate;
}

/**
 * fastclk_discipline_add - take in a sample
 * @d: the fit
 * @sample: newer than those before
 *
 * Return: 0; -EINVAL if it is no sample (the counter went back, or took longer than one can
 * wait), which changes nothing; -ERANGE if it contradicts what is known, by @d->gap_ns, so
 * that the fit is lost and must be begun anew.
 */
int fastclk_discipline_add(struct fastclk_discipline *d, const struct fastclk_sample *sample)
{
	u64 width = sample->after - sample->before;
	struct fastclk_fit *fit = &d->fit;
	struct fastclk_remembered now;
	s64 phase, rate, seen;
	u64 ns;

	if (sample->after < sample->before)
		return -EINVAL;
	now = (struct fastclk_remembered) {
		.cycles = sample->before + width / 2,
		.ns = sample->ns,
		.half = fastclk_half_width(d, width),
	};

	if (!d->samples) {
		fit->cycles = now.cycles;
		fit->time = (fastclk_u128)now.ns << fit->shift;
		fit->phase_lo = -now.half;
		fit->phase_hi = now.half;
	} else {
		if (now.cycles <= fit->cycles) {
			d->gap_ns = U64_MAX;
			return -ERANGE;
		}
		ns = (u64)((fastclk_u128)(now.cycles - fit->cycles) * fit->mult >> fit->shift);
		fit->time += (fastclk_u128)(now.cycles - fit->cycles) * fit->mult;
		fit->cycles = now.cycles;
		seen = fastclk_difference((fastclk_u128)now.ns << fit->shift, fit->time,
					  fit->shift);
		/* Grown with time, cut with the sample. */
		fit->phase_lo = fastclk_larger(fit->phase_lo - 1 +
					       fastclk_phase(fit->rate_lo - fit->step, ns),
					       seen - now.half);
		fit->phase_hi = fastclk_smaller(fit->phase_hi + 1 +
						fastclk_phase(fit->rate_hi + fit->step, ns),
						seen + now.half);
		if (fit->phase_lo > fit->phase_hi) {
			d->gap_ns = (u64)(fit->phase_lo - fit->phase_hi) >> FASTCLK_PHASE_SHIFT;
			return -ERANGE;
		}
	}

	d->remembered[d->next] = now;
	d->next = (d->next + 1) % FASTCLK_SAMPLES;
	if (d->count < d->tuning->samples)
		d->count++;
	d->samples++;

	fastclk_limit_rate(d);
	if (!fastclk_least_squares(d, &phase, &rate)) {
		phase = (fit->phase_lo + fit->phase_hi) / 2;
		rate = 0;
	}
	fastclk_move(d, phase, rate);
	return 0;
}

/**
 * fastclk_discipline_disturb - from now on samples are taken with another CPU's counter
 * @d: the fit
 * @cycles: by so much the counters may differ
 */
void fastclk_discipline_disturb(struct fastclk_discipline *d, u64 cycles)
{
	fastclk_u128 ns = (fastclk_u128)cycles * d->fit.mult >>
			  (d->fit.shift - FASTCLK_PHASE_SHIFT);
	s64 phase = fastclk_clamp((fastclk_s128)ns, 0, FASTCLK_PHASE_MAX / 64) + 1;
	u32 i;

	d->fit.phase_lo -= phase;
	d->fit.phase_hi += phase;
	for (i = 0; i < FASTCLK_SAMPLES; i++)
		d->remembered[i].half += phase;
}

static fastclk_u128 fastclk_reading_time(const struct fastclk_clock_reading *clock, u32 shift)
{
	/* Sign-extended, see there. */
	return ((fastclk_u128)clock->base_ns << shift) +
	       ((fastclk_u128)clock->fraction << (shift - clock->shift));
}

/* Smallest first. */
static void fastclk_sort(s64 *x, u32 n)
{
	u32 i, j;

	for (i = 1; i < n; i++) {
		s64 moving = x[i];

		for (j = i; j && x[j - 1] > moving; j--)
			x[j] = x[j - 1];
		x[j] = moving;
	}
}

/* Rounded up. */
static u64 fastclk_square_root(u64 x)
{
	u64 root = 0, bit;

	for (bit = 1ULL << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) <= x)
			root += bit;
	return root * root < x ? root + 1 : root;
}

/**
 * fastclk_discipline_statistics - what the remembered samples are like
 * @d: the fit
 * @statistics: result; all 0 without samples
 */
void fastclk_discipline_statistics(const struct fastclk_discipline *d,
				   struct fastclk_statistics *statistics)
{
	s64 step = ((s64)d->fit.granularity_ns << FASTCLK_PHASE_SHIFT) / 2;
	s64 rates[FASTCLK_SAMPLES], sum = 0, squares = 0;
	u32 age, n = 0, i, cut;
	u64 widths = 0;

	*statistics = (struct fastclk_statistics) { .count = d->count };
	for (age = 0; age < d->count; age++) {
		const struct fastclk_remembered *r = fastclk_remembered(d, age), *older;
		u64 width = (u64)(r->half - step) >> (FASTCLK_PHASE_SHIFT - 1), ns;

		widths += width;
		if (!age || width < statistics->width_min_ns)
			statistics->width_min_ns = width;
		if (width > statistics->width_max_ns)
			statistics->width_max_ns = width;
		if (age + 1 == d->count)
			break;
		older = fastclk_remembered(d, age + 1);
		ns = fastclk_age_ns(&d->fit, older) - fastclk_age_ns(&d->fit, r);
		if (!ns)
			continue;
		/* In ppb, up to 1,000 ppm, which squared and summed up fits. */
		rates[n] = fastclk_rate(fastclk_residual(&d->fit, r) -
					fastclk_residual(&d->fit, older), ns);
		rates[n] = rates[n] < 0 ? -(s64)fastclk_rate_to_ppb(rates[n]) :
					  (s64)fastclk_rate_to_ppb(rates[n]);
		rates[n] = fastclk_clamp(rates[n], -1000000000, 1000000000);
		n++;
	}
	if (d->count)
		statistics->width_mean_ns = widths / d->count;
	if (n < 2)
		return;

	fastclk_sort(rates, n);
	for (i = 0; i < n; i++)
		sum += rates[i];
	statistics->rate_mean_ppb = sum / (s64)n;
	for (i = 0; i < n; i++)
		squares += (rates[i] - statistics->rate_mean_ppb) *
			   (rates[i] - statistics->rate_mean_ppb) / n;
	statistics->rate_error_ppb = fastclk_square_root((u64)squares / (n - 1));
	cut = n / 4;
	sum = 0;
	for (i = cut; i < n - cut; i++)
		sum += rates[i];
	statistics->rate_trimmed_ppb = sum / (s64)(n - 2 * cut);
}

static fastclk_u128 fastclk_line_time(const struct fastclk_line *line, u64 cycles)
{
	return (fastclk_u128)cycles * line->mult +
	       ((fastclk_u128)line->offset_hi << 64 | line->offset_lo);
}

/*
 * One line: it begins at @joint where the old one is, and is where it should be after the
 * horizon, if it may be bent so much. Return: by how much its rate is changed for that;
 * @phase is how far it is off at the joint.
 */
static s64 fastclk_fit_line(const struct fastclk_fit *fit, fastclk_u128 time, u64 mult, u64 joint,
			    const struct fastclk_line *old, u64 horizon_ns,
			    struct fastclk_line *line, s64 *phase)
{
	fastclk_u128 begin = time, offset;
	s64 slew = 0;

	*phase = 0;
	if (old) {
		begin = fastclk_line_time(old, joint);
		*phase = fastclk_difference(time, begin, fit->shift);
		slew = fastclk_clamp(fastclk_rate(*phase, horizon_ns), -fit->slew, fit->slew);
	}
	line->mult = fastclk_faster(mult, slew);
	line->shift = fit->shift;
	offset = begin - (fastclk_u128)joint * line->mult;
	line->offset_lo = (u64)offset;
	line->offset_hi = (u64)(offset >> 64);
	return fastclk_abs(slew);
}

/**
 * fastclk_fit_lines - make lines from a fit
 * @fit: of the counter to CLOCK_MONOTONIC_RAW, with a sample taken in
 * @monotonic: the timekeeper's clock
 * @raw: the other one, at the same instant; both have the same shift, and it is not larger
 *	than the fit's
 * @joint: the counter value from which on the lines are going to be used
 * @old: the lines that were used until then, with the fit's shift, or NULL
 * @horizon_ns: when the lines are to have caught up with the clocks, not 0
 * @fitted: result; not the same memory as @old
 *
 * The new lines begin at @joint exactly where the old ones are, so that they never jump.
 */
void fastclk_fit_lines(const struct fastclk_fit *fit, const struct fastclk_clock_reading *monotonic,
		       const struct fastclk_clock_reading *raw, u64 joint,
		       const struct fastclk_fitted *old, u64 horizon_ns,
		       struct fastclk_fitted *fitted)
{
	/* A joint is made on any CPU, so it may lie a little before the last sample. */
	bool before = joint < fit->cycles;
	fastclk_u128 since = (fastclk_u128)(before ? fit->cycles - joint : joint - fit->cycles) *
			     fit->mult;
	fastclk_u128 time = before ? fit->time - since : fit->time + since;
	u64 since_ns = (u64)(since >> fit->shift);
	fastclk_u128 raw_begin = fastclk_reading_time(raw, fit->shift), ahead, growth_ppb;
	s64 rate = fastclk_larger(fastclk_abs(fit->rate_lo), fastclk_abs(fit->rate_hi)) + fit->step;
	s64 error = fastclk_larger(fastclk_abs(fit->phase_lo), fastclk_abs(fit->phase_hi));
	s64 phase_mono, phase_raw, slew_mono, slew_raw;
	fastclk_u128 mono_time;
	u64 mono_mult;

	/* How far the steered clock is, from how far the other one is. */
	ahead = time - raw_begin;
	if ((fastclk_s128)ahead >= 0)
		mono_time = fastclk_reading_time(monotonic, fit->shift) +
			    fastclk_multiply_divide(ahead, monotonic->mult, raw->mult);
	else
		mono_time = fastclk_reading_time(monotonic, fit->shift) -
			    fastclk_multiply_divide(-ahead, monotonic->mult, raw->mult);
	mono_mult = (u64)fastclk_multiply_divide(fit->mult, monotonic->mult, raw->mult);

	slew_mono = fastclk_fit_line(fit, mono_time, mono_mult, joint,
				     old ? &old->monotonic : NULL, horizon_ns,
				     &fitted->monotonic, &phase_mono);
	slew_raw = fastclk_fit_line(fit, time, fit->mult, joint, old ? &old->raw : NULL,
				    horizon_ns, &fitted->raw, &phase_raw);

	/* One step of the clock, half on each side, and whole nanoseconds. */
	error += fastclk_phase(rate, since_ns) + 1 +
		 ((s64)fit->granularity_ns << FASTCLK_PHASE_SHIFT) / 2;
	growth_ppb = fastclk_rate_to_ppb(rate);
	if (monotonic->mult > raw->mult) {
		error = (s64)fastclk_multiply_divide((u64)error, monotonic->mult, raw->mult) + 1;
		growth_ppb = fastclk_multiply_divide(growth_ppb, monotonic->mult, raw->mult) + 1;
	}
	error += fastclk_larger(fastclk_abs(phase_mono), fastclk_abs(phase_raw));
	growth_ppb += fastclk_rate_to_ppb(fastclk_larger(slew_mono, slew_raw));
	fitted->error_ns = (u64)((error >> FASTCLK_PHASE_SHIFT) + 2);
	fitted->growth_ppb = growth_ppb > U32_MAX ? U32_MAX : (u32)growth_ppb;
}
