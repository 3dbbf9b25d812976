// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files below /sys/class/misc/fastclk/, one value each. What they mean is described
 * in docs/sysfs.md. All values of the page come from one consistent copy per read.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/time64.h>

#include <fastclk/counter.h>
#include "internal.h"

static const char *fastclk_word(const char * const *words, unsigned int count, u32 value)
{
	return value < count ? words[value] : "?";
}

static const char * const fastclk_verdicts[] = {
	[FASTCLK_VERDICT_UNKNOWN] = "unknown",
	[FASTCLK_VERDICT_SYNCED] = "synced",
	[FASTCLK_VERDICT_UNSYNCED] = "unsynced",
	[FASTCLK_VERDICT_OFFSET] = "offset",
};

static const char * const fastclk_modes[] = {
	[FASTCLK_MODE_UNKNOWN] = "unknown",
	[FASTCLK_MODE_UNUSABLE] = "unusable",
	[FASTCLK_MODE_LOCKSTEP] = "lockstep",
	[FASTCLK_MODE_DISCIPLINED] = "disciplined",
	[FASTCLK_MODE_VARIABLE] = "variable",
};

static const char * const fastclk_reasons[] = {
	[FASTCLK_REASON_UNKNOWN] = "unknown",
	[FASTCLK_REASON_USABLE] = "usable",
	[FASTCLK_REASON_MEASURING] = "measuring",
	[FASTCLK_REASON_INCOMPLETE] = "incomplete",
	[FASTCLK_REASON_UNSYNCED] = "unsynced",
	[FASTCLK_REASON_CLOCKSOURCE] = "clocksource",
	[FASTCLK_REASON_RATE] = "rate",
	[FASTCLK_REASON_REVOKED] = "revoked",
	[FASTCLK_REASON_SAMPLING] = "sampling",
	[FASTCLK_REASON_SUSPENDED] = "suspended",
};

/**
 * fastclk_mode_name - the name of enum fastclk_mode
 * @mode: value
 */
const char *fastclk_mode_name(u32 mode)
{
	return fastclk_word(fastclk_modes, ARRAY_SIZE(fastclk_modes), mode);
}

/**
 * fastclk_verdict_name - the name of enum fastclk_verdict
 * @verdict: value
 */
const char *fastclk_verdict_name(u32 verdict)
{
	return fastclk_word(fastclk_verdicts, ARRAY_SIZE(fastclk_verdicts), verdict);
}

/**
 * fastclk_reason_name - the name of enum fastclk_reason
 * @reason: value
 */
const char *fastclk_reason_name(u32 reason)
{
	return fastclk_word(fastclk_reasons, ARRAY_SIZE(fastclk_reasons), reason);
}

/* A file that shows something of the page: the values are expressions of p, the copy. */
#define FASTCLK_ATTR(name, format, ...)							\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf)\
{											\
	struct fastclk_page p;								\
											\
	fastclk_page_read(&p);								\
	return sysfs_emit(buf, format "\n", __VA_ARGS__);					\
}											\
static DEVICE_ATTR_RO(name)

FASTCLK_ATTR(verdict, "%s", fastclk_verdict_name(p.verdict.verdict));
FASTCLK_ATTR(reason, "%s", fastclk_reason_name(p.verdict.reason));
FASTCLK_ATTR(mode, "%s", fastclk_mode_name(p.verdict.mode));
FASTCLK_ATTR(frequency_hz, "%llu", p.clocks.frequency_hz);
FASTCLK_ATTR(mult, "%llu", p.hot.mult);
FASTCLK_ATTR(shift, "%u", p.hot.shift);
FASTCLK_ATTR(max_warp_cycles, "%llu", p.verdict.max_warp_cycles);
FASTCLK_ATTR(cpus, "%u", p.verdict.cpus);
FASTCLK_ATTR(pairs, "%u", p.verdict.pairs);
FASTCLK_ATTR(exchanges, "%llu", p.verdict.exchanges);
FASTCLK_ATTR(generation, "%u", p.hot.generation);
FASTCLK_ATTR(updates, "%llu", p.clocks.updates);
FASTCLK_ATTR(error_ns, "%llu", p.verdict.error_ns);
FASTCLK_ATTR(error_growth_ppb, "%u", p.verdict.error_growth_ppb);
FASTCLK_ATTR(invariant, "%d", !!(p.header.features & FASTCLK_FEATURE_INVARIANT));
FASTCLK_ATTR(assumed_invariant, "%d", !!(p.header.features & FASTCLK_FEATURE_ASSUMED));
FASTCLK_ATTR(abi_version, "%u.%u", p.header.abi_major, p.header.abi_minor);

static ssize_t counter_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", FASTCLK_COUNTER_NAME);
}
static DEVICE_ATTR_RO(counter);

static ssize_t kernel_trusts_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", fastclk_counter_trusted());
}
static DEVICE_ATTR_RO(kernel_trusts);

static ssize_t clocksource_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	char name[32];

	fastclk_timekeeper_clocksource(name, sizeof(name));
	return sysfs_emit(buf, "%s\n", name);
}
static DEVICE_ATTR_RO(clocksource);

static ssize_t max_skew_cycles_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct fastclk_page p;

	fastclk_page_read(&p);
	if (p.verdict.max_skew_cycles == U64_MAX)
		return sysfs_emit(buf, "unbounded\n");
	return sysfs_emit(buf, "%llu\n", p.verdict.max_skew_cycles);
}
static DEVICE_ATTR_RO(max_skew_cycles);

static ssize_t max_skew_ns_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct fastclk_page p;
	u64 khz, ns;

	fastclk_page_read(&p);
	if (p.verdict.max_skew_cycles == U64_MAX)
		return sysfs_emit(buf, "unbounded\n");
	if (!p.clocks.frequency_hz)
		return sysfs_emit(buf, "unknown\n");
	/* Rounded up: it is a bound. Beyond two hours, by 1 ms. */
	khz = div_u64(p.clocks.frequency_hz, 1000);
	if (p.verdict.max_skew_cycles <= div_u64(U64_MAX, NSEC_PER_MSEC) - khz)
		ns = div64_u64(p.verdict.max_skew_cycles * NSEC_PER_MSEC + khz - 1, khz);
	else if (check_mul_overflow(div64_u64(p.verdict.max_skew_cycles, khz) + 1,
				    (u64)NSEC_PER_MSEC, &ns))
		return sysfs_emit(buf, "unbounded\n");
	return sysfs_emit(buf, "%llu\n", ns);
}
static DEVICE_ATTR_RO(max_skew_ns);

static ssize_t worst_pair_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct fastclk_page p;

	fastclk_page_read(&p);
	if (p.verdict.worst_cpu[0] == U32_MAX)
		return sysfs_emit(buf, "none\n");
	return sysfs_emit(buf, "%u,%u\n", p.verdict.worst_cpu[0], p.verdict.worst_cpu[1]);
}
static DEVICE_ATTR_RO(worst_pair);

static ssize_t bad_cpus_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return fastclk_sync_bad_cpus(buf);
}
static DEVICE_ATTR_RO(bad_cpus);

static ssize_t recheck_store(struct device *dev, struct device_attribute *attr, const char *buf,
			     size_t count)
{
	bool yes;
	int ret;

	if (kstrtobool(buf, &yes) || !yes)
		return -EINVAL;
	ret = fastclk_sync_recheck();
	return ret ?: count;
}
static DEVICE_ATTR_WO(recheck);

static ssize_t revoke_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	bool yes;

	if (kstrtobool(buf, &yes) || !yes)
		return -EINVAL;
	fastclk_page_revoke();
	fastclk_chardev_revoke();
	pr_info("revoked: readers have fallen back, the module can be unloaded\n");
	return count;
}
static DEVICE_ATTR_WO(revoke);

static struct attribute *fastclk_attrs[] = {
	&dev_attr_verdict.attr,
	&dev_attr_reason.attr,
	&dev_attr_mode.attr,
	&dev_attr_counter.attr,
	&dev_attr_invariant.attr,
	&dev_attr_assumed_invariant.attr,
	&dev_attr_kernel_trusts.attr,
	&dev_attr_clocksource.attr,
	&dev_attr_frequency_hz.attr,
	&dev_attr_mult.attr,
	&dev_attr_shift.attr,
	&dev_attr_error_ns.attr,
	&dev_attr_error_growth_ppb.attr,
	&dev_attr_max_skew_cycles.attr,
	&dev_attr_max_skew_ns.attr,
	&dev_attr_max_warp_cycles.attr,
	&dev_attr_worst_pair.attr,
	&dev_attr_bad_cpus.attr,
	&dev_attr_cpus.attr,
	&dev_attr_pairs.attr,
	&dev_attr_exchanges.attr,
	&dev_attr_generation.attr,
	&dev_attr_updates.attr,
	&dev_attr_abi_version.attr,
	&dev_attr_recheck.attr,
	&dev_attr_revoke.attr,
	NULL
};

static const struct attribute_group fastclk_attr_group = {
	.attrs = fastclk_attrs,
};

const struct attribute_group *fastclk_sysfs_groups[] = {
	&fastclk_attr_group,
	NULL
};
