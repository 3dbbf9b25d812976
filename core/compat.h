/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything that differs between kernels, and nothing else. The other files are written
 * for the newest kernel. What is there is found out by looking into headers, since
 * stable and distribution kernels change APIs without changing their major version:
 * here with #ifdef where the new thing is a macro, otherwise by the Kbuild file.
 *
 * Each entry says which kernels need it, so that it can go when they do.
 */
#ifndef _FASTCLK_COMPAT_H
#define _FASTCLK_COMPAT_H

#include <linux/mm.h>
#include <linux/notifier.h>
#include <linux/random.h>
#include <linux/sched/isolation.h>
#include <linux/time.h>
#include <linux/timekeeping.h>
#include <linux/types.h>
#include <linux/workqueue.h>

/* Before 6.3 (Debian 11 and 12): vm_flags was a plain field. */
#ifndef FASTCLK_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* Before 5.18 (Debian 11): another name, for flags. */
#ifndef FASTCLK_HAVE_HK_TYPE
#define HK_TYPE_DOMAIN	HK_FLAG_DOMAIN
#define HK_TYPE_TIMER	HK_FLAG_TIMER
#endif

/* Before 5.19 (Debian 11): nobody tells that a virtual machine was restored or cloned. */
#ifndef FASTCLK_HAVE_VMFORK
static inline int register_random_vmfork_notifier(struct notifier_block *nb)
{
	return 0;
}

static inline int unregister_random_vmfork_notifier(struct notifier_block *nb)
{
	return 0;
}
#endif

/*
 * Before 6.17, where it was not backported (Debian 11 and 12): queues were bound to CPUs without
 * saying so, for which 7.2 prints a warning.
 */
#ifndef FASTCLK_HAVE_WQ_PERCPU
#define WQ_PERCPU	0
#endif

/* CLOCK_REALTIME and CLOCK_MONOTONIC_RAW at one value of the clocksource's counter. */
struct fastclk_snapshot {
	u64 cycles;
	s64 real;
	s64 raw;
};

/*
 * Before 7.2 (Debian 11 to 13): another function, with other fields and always successful.
 *
 * Return: false if the timekeeper can't tell now.
 */
static inline bool fastclk_snapshot_take(struct fastclk_snapshot *snapshot)
{
	struct system_time_snapshot now;

#ifdef FASTCLK_HAVE_SNAP_ID
	ktime_get_snapshot_id(CLOCK_REALTIME, &now);
	if (!now.valid)
		return false;
	snapshot->real = ktime_to_ns(now.systime);
	snapshot->raw = ktime_to_ns(now.monoraw);
#else
	ktime_get_snapshot(&now);
	snapshot->real = ktime_to_ns(now.real);
	snapshot->raw = ktime_to_ns(now.raw);
#endif
	snapshot->cycles = now.cycles;
	return true;
}

#endif /* _FASTCLK_COMPAT_H */
