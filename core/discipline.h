/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A line for a kernel clock that another clocksource drives: fitted to samples of both.
 * See core/discipline.c.
 */
#ifndef _FASTCLK_DISCIPLINE_H
#define _FASTCLK_DISCIPLINE_H

#include "types.h"
#include "line.h"

__extension__ typedef __int128 fastclk_s128;

/* How many samples are remembered: 3.2 s at the default interval. */
#define FASTCLK_SAMPLES		32

/* Phases are counted in 1/256 ns, rates in 1/2^32 of the rate they are relative to. */
#define FASTCLK_PHASE_SHIFT	8
#define FASTCLK_RATE_SHIFT	32

/*
 * struct fastclk_sample - one look at both clocks
 * @before: the counter before the clock was read, cycles
 * @ns: the clock
 * @after: the counter after that
 */
struct fastclk_sample {
	u64 before;
	u64 ns;
	u64 after;
};

/*
 * struct fastclk_tuning - what is assumed of the counter's rate
 * @prior_ppb: it is known to this at the beginning
 * @step_ppb: it may change so much at any time, once between two samples
 * @wander_ppb_per_s: and so fast all the time
 * @slew_ppb: by so much the line's rate may differ, to catch up with the clock
 * @samples: fit to so many, up to FASTCLK_SAMPLES
 */
struct fastclk_tuning {
	u32 prior_ppb;
	u32 step_ppb;
	u64 wander_ppb_per_s;
	u32 slew_ppb;
	u32 samples;
};

extern const struct fastclk_tuning fastclk_tuning_disciplined;
extern const struct fastclk_tuning fastclk_tuning_guest;
extern const struct fastclk_tuning fastclk_tuning_variable;

/*
 * struct fastclk_fit - what is known of the clock at present
 * @cycles: at this counter value
 * @time: the clock is estimated to show this, 1/2^shift ns
 * @mult: and to go on at this rate, 1/2^shift ns per cycle
 * @shift: 8 to 64
 * @phase_lo, @phase_hi: the clock is between @time plus these, 1/256 ns
 * @rate_lo, @rate_hi: its rate is between @mult and these, relative to it, 1/2^32
 * @step: and may step by so much until the next sample, 1/2^32
 * @slew: limit for catching up, 1/2^32
 * @granularity_ns: the clock's readings are up to so much apart
 */
struct fastclk_fit {
	u64 cycles;
	fastclk_u128 time;
	u64 mult;
	u32 shift;
	u32 granularity_ns;
	s64 phase_lo;
	s64 phase_hi;
	s64 rate_lo;
	s64 rate_hi;
	s64 step;
	s64 slew;
};

/* A sample that is remembered: at @cycles the clock was @ns plus or minus @half, 1/256 ns. */
struct fastclk_remembered {
	u64 cycles;
	u64 ns;
	s64 half;
};

/*
 * struct fastclk_discipline - a fit that goes on
 * @tuning: as given
 * @fit: the present state
 * @remembered: samples, a ring
 * @count: how many there are
 * @next: where the next one goes
 * @prior: the limits of the rate that are known from the beginning, 1/2^32
 * @drift: how far @fit.mult is from where it began, 1/2^32
 * @samples: taken in so far
 * @gap_ns: by so much the sample that was refused last misses what is known, rounded down
 * @forgotten: how often old ones contradicted newer ones, so that the rate had changed
 */
struct fastclk_discipline {
	const struct fastclk_tuning *tuning;
	struct fastclk_fit fit;
	struct fastclk_remembered remembered[FASTCLK_SAMPLES];
	u32 count;
	u32 next;
	s64 prior;
	s64 drift;
	u64 samples;
	u64 gap_ns;
	u64 forgotten;
};

/*
 * struct fastclk_fitted - lines made from a fit
 * @monotonic, @raw: the lines
 * @error_ns: by so much they are off at most, at the counter value where they begin
 * @growth_ppb: and by so much more with time
 */
struct fastclk_fitted {
	struct fastclk_line monotonic;
	struct fastclk_line raw;
	u64 error_ns;
	u32 growth_ppb;
};

/*
 * struct fastclk_statistics - what the remembered samples are like
 * @count: how many
 * @width_min_ns, @width_max_ns, @width_mean_ns: how long a sample took
 * @rate_mean_ppb: mean of the rates from sample to sample, relative to the fit's rate
 * @rate_error_ppb: standard error of that
 * @rate_trimmed_ppb: mean without the smallest and the largest quarter
 */
struct fastclk_statistics {
	u32 count;
	u64 width_min_ns;
	u64 width_max_ns;
	u64 width_mean_ns;
	s64 rate_mean_ppb;
	u64 rate_error_ppb;
	s64 rate_trimmed_ppb;
};

u64 fastclk_discipline_mult(u32 khz, u32 room, u32 *shift);
void fastclk_discipline_start(struct fastclk_discipline *d, const struct fastclk_tuning *tuning,
			      u64 mult, u32 shift, u32 granularity_ns);
int fastclk_discipline_add(struct fastclk_discipline *d, const struct fastclk_sample *sample);
void fastclk_discipline_disturb(struct fastclk_discipline *d, u64 cycles);
void fastclk_discipline_statistics(const struct fastclk_discipline *d,
				   struct fastclk_statistics *statistics);
void fastclk_fit_lines(const struct fastclk_fit *fit, const struct fastclk_clock_reading *monotonic,
		       const struct fastclk_clock_reading *raw, u64 joint,
		       const struct fastclk_fitted *old, u64 horizon_ns,
		       struct fastclk_fitted *fitted);

#endif /* _FASTCLK_DISCIPLINE_H */
