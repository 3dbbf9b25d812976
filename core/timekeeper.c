// SPDX-License-Identifier: GPL-2.0-only
/*
 * Following the kernel's timekeeper: each of its updates becomes a line on the page
 * (lockstep) or, where another clocksource than the counter drives it, the state of clocks
 * to which the counter is fitted (core/sampler.c).
 *
 * The notifier is the one that KVM uses to keep its guests' clocks. It is called with the
 * timekeeper's raw spinlock held, interrupts off and the timekeeper's seqcount
 * write-held: nothing here may read a kernel clock, print, wake, queue work or sleep. The
 * timekeeper that it gets may be a shadow copy, so nothing keeps a pointer into it.
 */
#include <linux/clocksource.h>
#include <linux/pvclock_gtod.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timekeeper_internal.h>

#include "fault.h"
#include "internal.h"
#include "line.h"

/* Name of the current clocksource; its memory may go with the module that it is from. */
static char fastclk_clocksource[32];
static DEFINE_RAW_SPINLOCK(fastclk_clocksource_lock);

/* Only noted when it changes. Written by the notifier alone, which does not run twice. */
static void fastclk_timekeeper_note(const struct clocksource *cs)
{
	if (!strncmp(fastclk_clocksource, cs->name, sizeof(fastclk_clocksource) - 1))
		return;
	raw_spin_lock(&fastclk_clocksource_lock);
	strscpy(fastclk_clocksource, cs->name, sizeof(fastclk_clocksource));
	raw_spin_unlock(&fastclk_clocksource_lock);
}

static void fastclk_timekeeper_reading(struct fastclk_clock_reading *reading,
				       const struct tk_read_base *tkr)
{
	reading->cycle_last = tkr->cycle_last;
	reading->base_ns = ktime_to_ns(tkr->base);
	reading->fraction = tkr->xtime_nsec;
	reading->mult = tkr->mult;
	reading->shift = tkr->shift;
}

/* The clocks of another clocksource, for the counter to be fitted to. */
static void fastclk_timekeeper_clocks(const struct timekeeper *tk)
{
	const struct clocksource *cs = tk->tkr_mono.clock;
	struct fastclk_clocks clocks = {
		.source = cs,
		/* One step, and what rounding to whole nanoseconds may add. */
		.granularity_ns = (cs->mult >> cs->shift) + 2,
		.realtime_offset = ktime_to_ns(tk->offs_real),
		.boottime_offset = ktime_to_ns(tk->offs_boot),
		.tai_offset = ktime_to_ns(tk->offs_tai),
		.clock_was_set = tk->clock_was_set_seq,
	};

	fastclk_timekeeper_reading(&clocks.monotonic, &tk->tkr_mono);
	fastclk_timekeeper_reading(&clocks.raw, &tk->tkr_raw);
	fastclk_page_set_clocks(&clocks);
}

/*
 * The kernel's own limit for adjustments is 11 %, and it only warns. Beyond a factor of
 * two something is broken, and a clock that stands still or races must not be published.
 */
static bool fastclk_timekeeper_sane(const struct tk_read_base *tkr)
{
	u32 nominal = tkr->clock->mult;

	return tkr->mult && tkr->mult >= nominal / 2 && tkr->mult / 2 <= nominal &&
	       tkr->shift <= 32;
}

static int fastclk_timekeeper_update(struct notifier_block *nb, unsigned long was_set, void *data)
{
	const struct timekeeper *tk = data;
	const struct tk_read_base *mono = &tk->tkr_mono;
	const struct clocksource *cs = mono->clock;
	struct fastclk_clock_reading reading;
	struct fastclk_lines lines;
	u32 khz, shift;

	if (fastclk_fault_writer_stopped())
		return NOTIFY_DONE;
	fastclk_timekeeper_note(cs);

	khz = fastclk_counter_khz();
	if (!khz || !fastclk_timekeeper_sane(mono) || !fastclk_timekeeper_sane(&tk->tkr_raw)) {
		fastclk_page_set_no_line(FASTCLK_REASON_RATE);
		return NOTIFY_DONE;
	}
	if (!fastclk_counter_drives(cs)) {
		fastclk_timekeeper_clocks(tk);
		return NOTIFY_DONE;
	}
	/* It is on its way out, and the kernel's clocks may jump. */
	if (cs->flags & CLOCK_SOURCE_UNSTABLE) {
		fastclk_page_set_no_line(FASTCLK_REASON_CLOCKSOURCE);
		return NOTIFY_DONE;
	}

	/* The same for all updates of a clocksource, as long as NTP stays within its limit. */
	shift = fastclk_line_shift(max_t(u64, (u64)cs->mult + cs->maxadj, mono->mult), mono->shift);

	fastclk_timekeeper_reading(&reading, mono);
	fastclk_line_make(&lines.monotonic, &reading, shift);
	fastclk_timekeeper_reading(&reading, &tk->tkr_raw);
	fastclk_line_make(&lines.raw, &reading, shift);

	/* Not base_real: it is stale here on some kernels (5.10). */
	lines.realtime_offset = ktime_to_ns(tk->offs_real);
	lines.boottime_offset = ktime_to_ns(tk->offs_boot);
	lines.tai_offset = ktime_to_ns(tk->offs_tai);

	/*
	 * A reader on another CPU may have read its counter shortly before this update: 1 ms
	 * (khz cycles) is plenty. The timekeeper is updated at least every max_idle_ns, which
	 * is half of max_cycles, even if all CPUs are idle; past max_cycles the vDSO of some
	 * kernels wraps. 7/8 of it is safely between the two.
	 */
	lines.valid_from = mono->cycle_last - khz;
	lines.valid_for = cs->max_cycles - cs->max_cycles / 8;
	lines.frequency_hz = (u64)khz * 1000;
	lines.clock_was_set = tk->clock_was_set_seq;

	fastclk_page_set_lines(&lines);
	return NOTIFY_DONE;
}

static struct notifier_block fastclk_timekeeper_notifier = {
	.notifier_call = fastclk_timekeeper_update,
};

/**
 * fastclk_timekeeper_clocksource - the name of the kernel's current clocksource
 * @name: result, a string
 * @size: its size, bytes
 *
 * Process context.
 */
void fastclk_timekeeper_clocksource(char *name, size_t size)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&fastclk_clocksource_lock, flags);
	strscpy(name, fastclk_clocksource, size);
	raw_spin_unlock_irqrestore(&fastclk_clocksource_lock, flags);
}

/**
 * fastclk_timekeeper_init - follow the timekeeper
 *
 * The notifier is called once from within, so there is a line, or a reason why not, when
 * this returns. May sleep. Return: 0 or a negative errno.
 */
int fastclk_timekeeper_init(void)
{
	return pvclock_gtod_register_notifier(&fastclk_timekeeper_notifier);
}

/**
 * fastclk_timekeeper_exit - no longer follow the timekeeper
 *
 * Takes the lock under which the notifier runs: it is not running any more when this
 * returns. May sleep.
 */
void fastclk_timekeeper_exit(void)
{
	pvclock_gtod_unregister_notifier(&fastclk_timekeeper_notifier);
}
