/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel files of fastclk call of each other. Each function is described where
 * it is defined.
 */
#ifndef _FASTCLK_INTERNAL_H
#define _FASTCLK_INTERNAL_H

#include <linux/cpumask.h>
#include <linux/fastclk.h>
#include "discipline.h"

struct attribute_group;
struct clocksource;
struct kobject;
struct page;
struct seq_file;

/* arch/<arch>/counter.c */
bool fastclk_counter_drives(const struct clocksource *cs);
u32 fastclk_counter_khz(void);
bool fastclk_counter_invariant(void);
bool fastclk_counter_has_cpu(void);
bool fastclk_counter_trusted(void);
bool fastclk_in_guest(void);

/* Entries in the table of offsets: as many CPUs as the 12 bits that readers get can name. */
#define FASTCLK_TABLE_MAX	4096U

/*
 * struct fastclk_lines - all that a timekeeping update changes on the page
 * Fields as on the page.
 */
struct fastclk_lines {
	struct fastclk_line monotonic;
	struct fastclk_line raw;
	s64 realtime_offset;
	s64 boottime_offset;
	s64 tai_offset;
	u64 valid_from;
	u64 valid_for;
	u64 frequency_hz;
	u32 clock_was_set;
};

/*
 * struct fastclk_clocks - the kernel's clocks when another clocksource than the counter
 *	drives them
 * @source: names the clocksource; never dereferenced, it may be gone
 * @granularity_ns: by so much its readings can be apart, rounded up
 * @monotonic, @raw: its clocks at one instant
 * Others as on the page.
 */
struct fastclk_clocks {
	const void *source;
	u32 granularity_ns;
	struct fastclk_clock_reading monotonic;
	struct fastclk_clock_reading raw;
	s64 realtime_offset;
	s64 boottime_offset;
	s64 tai_offset;
	u32 clock_was_set;
};

/*
 * struct fastclk_task - what the sampler has to do
 * @era: names the clocksource, and the time since the last jump; a fit is for one era only
 * @granularity_ns: of the clock
 * @khz: nominal rate of the counter
 * @variable: that may change at any time
 * @skew_cycles: by so much counters of CPUs differ at most; U64_MAX: it is not known
 */
struct fastclk_task {
	u32 era;
	u32 granularity_ns;
	u32 khz;
	bool variable;
	u64 skew_cycles;
};

/* core/page.c: the only writer of the page */
int fastclk_page_init(bool assume_invariant);
void fastclk_page_exit(void);
size_t fastclk_page_size(void);
struct page *fastclk_page_page(size_t offset);
void fastclk_page_read(struct fastclk_page *copy);
void fastclk_page_read_all(void *copy, size_t size);
u64 fastclk_page_counter(void);
void fastclk_page_set_lines(const struct fastclk_lines *lines);
void fastclk_page_set_no_line(enum fastclk_reason reason);
void fastclk_page_set_clocks(const struct fastclk_clocks *clocks);
bool fastclk_page_get_task(struct fastclk_task *task);
void fastclk_page_set_fit(u32 era, const struct fastclk_fit *fit, u64 interval_ns);
void fastclk_page_restart(void);
void fastclk_page_set_suspended(bool suspended);
void fastclk_page_set_verdict(const struct fastclk_page_verdict *found, const unsigned int *cpus,
			      const s64 *offset_cycles);
void fastclk_page_forget_verdict(void);
void fastclk_page_revoke(void);

/* core/timekeeper.c: lines from the kernel's timekeeper */
int fastclk_timekeeper_init(void);
void fastclk_timekeeper_exit(void);
void fastclk_timekeeper_clocksource(char *name, size_t size);

/* core/sampler.c: a fit where another clocksource drives the kernel's clocks */
int fastclk_sampler_init(unsigned int interval_ms);
void fastclk_sampler_exit(void);
void fastclk_sampler_wake(void);
int fastclk_sampler_show(struct seq_file *m);

/* core/sync.c: the measurement and its result */
struct fastclk_sync_parameters {
	const char *cpus;		/* list of CPUs to test, NULL or "": all */
	unsigned int budget_ms;		/* 0: by the number of CPUs */
	bool idle_injection;		/* may other vCPUs be idled in a guest? */
	unsigned int recheck_seconds;	/* how often all is checked again, 0: never */
	bool offsets;			/* may the verdict be FASTCLK_VERDICT_OFFSET? */
};

int fastclk_sync_init(const struct fastclk_sync_parameters *parameters);
void fastclk_sync_stop(void);
void fastclk_sync_exit(void);
int fastclk_sync_recheck(void);
void fastclk_sync_forget(void);
void fastclk_sync_pause(void);
void fastclk_sync_resume(void);
void fastclk_sync_cpu_online(unsigned int cpu);
void fastclk_sync_cpu_dead(void);
int fastclk_sync_bad_cpus(char *buffer);
int fastclk_sync_show(struct seq_file *m);

/* core/hotplug.c: CPUs come and go */
int fastclk_hotplug_init(void);
void fastclk_hotplug_exit(void);

/* core/suspend.c: the machine has slept, or was restored from a snapshot */
int fastclk_suspend_init(void);
void fastclk_suspend_exit(void);

/* core/chardev.c: /dev/fastclk */
int fastclk_chardev_init(void);
void fastclk_chardev_exit(void);
void fastclk_chardev_revoke(void);
void fastclk_chardev_wake(void);

/* core/events.c: telling others that verdict, mode or generation changed */
void fastclk_events_init(void);
void fastclk_events_exit(void);
u32 fastclk_events_count(void);
void fastclk_events_raise(void);
void fastclk_events_update(void);
void fastclk_events_hold(void);
void fastclk_events_release(void);
void fastclk_events_start(struct kobject *kobject);
void fastclk_events_stop(void);

/* core/sysfs.c, core/debugfs.c */
extern const struct attribute_group *fastclk_sysfs_groups[];
const char *fastclk_mode_name(u32 mode);
const char *fastclk_verdict_name(u32 verdict);
const char *fastclk_reason_name(u32 reason);
void fastclk_debugfs_init(void);
void fastclk_debugfs_exit(void);

#endif /* _FASTCLK_INTERNAL_H */
