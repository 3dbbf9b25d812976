// SPDX-License-Identifier: MIT
/*
 * Collects what `fastclk status` shows. Called by status.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "facts.h"

#define CLOCKSOURCES	"/sys/devices/system/clocksource/clocksource0/"
#define ATTRIBUTES	"/sys/class/misc/fastclk/"

/* A small file of sysfs or procfs without its last newline; to be freed. NULL: unreadable. */
static char *file_text(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return NULL;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got < 0)
		return NULL;
	while (got && (text[got - 1] == '\n' || text[got - 1] == ' '))
		got--;
	text[got] = '\0';
	return strdup(text);
}

/* "monotonic +1000.000000000 s, boottime ...", "" for those of the initial namespace. */
static char *timens_text(void)
{
	char *offsets = file_text("/proc/self/timens_offsets");
	char *line, *rest, text[256] = "";

	if (!offsets)
		return NULL;
	for (line = strtok_r(offsets, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		long long seconds;
		long nanoseconds;
		char name[32];
		size_t length = strlen(text);

		if (sscanf(line, "%31s %lld %ld", name, &seconds, &nanoseconds) == 3 &&
		    (seconds || nanoseconds))
			snprintf(text + length, sizeof(text) - length, "%s%s %+lld.%09ld s",
				 length ? ", " : "", name, seconds, nanoseconds);
	}
	free(offsets);
	return strdup(text);
}

/*
 * Read, not mapped: the device gives a consistent copy, even to a process that must not
 * read the counter. A file that another process writes is looked at until its seq stands
 * still.
 */
static bool page_copy(const char *path, struct fastclk_page *page)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), tries;
	bool done = false;
	struct fastclk_page again;

	if (fd < 0)
		return false;
	for (tries = 0; tries < FASTCLK_TRIES && !done; tries++)
		done = pread(fd, page, sizeof(*page), 0) == sizeof(*page) &&
		       !(page->hot.seq & 1) &&
		       (!strcmp(path, FASTCLK_DEVICE) ||
			(pread(fd, &again, sizeof(again), 0) == sizeof(again) &&
			 again.hot.seq == page->hot.seq));
	close(fd);
	return done && page->header.magic == FASTCLK_MAGIC &&
	       page->header.abi_major == FASTCLK_ABI_MAJOR &&
	       page->header.size >= sizeof(*page);
}

/**
 * facts_collect - look at everything
 * @facts: result
 * @path: of the page; what sysfs says is about the module's
 */
void facts_collect(struct facts *facts, const char *path)
{
	memset(facts, 0, sizeof(*facts));
	command_open(&facts->clock, path);
	facts->have_page = page_copy(path, &facts->page);
	facts->have_cycles = !fastclk_counter_forbidden();
	if (facts->have_cycles)
		facts->cycles = fastclk_counter_ordered();
	facts->clocksource = file_text(CLOCKSOURCES "current_clocksource");
	facts->clocksources = file_text(CLOCKSOURCES "available_clocksource");
	facts->timens = timens_text();
	if (strcmp(path, FASTCLK_DEVICE))
		return;
	facts->bad_cpus = file_text(ATTRIBUTES "bad_cpus");
	facts->cpus_parameter = file_text("/sys/module/fastclk/parameters/cpus");
	facts->kernel_trusts = file_text(ATTRIBUTES "kernel_trusts");
}

/**
 * facts_free - the opposite
 * @facts: what was collected
 */
void facts_free(struct facts *facts)
{
	fastclk_close(&facts->clock.clk);
	free(facts->clocksource);
	free(facts->clocksources);
	free(facts->bad_cpus);
	free(facts->cpus_parameter);
	free(facts->timens);
	free(facts->kernel_trusts);
}

/**
 * facts_usable_page - does the page itself say that it can be used?
 * @facts: what was collected
 *
 * It may, and still not be used here: by a test build, in a time namespace ...
 */
bool facts_usable_page(const struct facts *facts)
{
	return facts->have_page && facts->page.verdict.reason == FASTCLK_REASON_USABLE;
}

/**
 * facts_has_line - is there a line?
 * @facts: what was collected
 */
bool facts_has_line(const struct facts *facts)
{
	return facts->have_page && (facts->page.hot.status & FASTCLK_STATUS_LINE_VALID);
}

/**
 * facts_ns - how long a number of cycles takes
 * @facts: what was collected
 * @cycles: the number
 *
 * Return: ns, rounded up; FACTS_UNKNOWN if there is no rate, or more than 580 years.
 */
uint64_t facts_ns(const struct facts *facts, uint64_t cycles)
{
	uint64_t hz = facts->page.clocks.frequency_hz, seconds, rest;

	if (!facts->have_page || !hz || cycles == UINT64_MAX)
		return FACTS_UNKNOWN;
	seconds = cycles / hz;
	rest = cycles % hz;
	if (seconds >= UINT64_MAX / 1000000000U)
		return FACTS_UNKNOWN;
	/* Below 2^63 for any counter below 9.2 GHz. */
	return seconds * 1000000000U + (rest * 1000000000U + hz - 1) / hz;
}

/**
 * facts_age_cycles - how far the counter is into the line's window
 * @facts: what was collected
 *
 * Return: cycles; FACTS_UNKNOWN if there is no line, or the counter can't be read.
 */
uint64_t facts_age_cycles(const struct facts *facts)
{
	if (!facts_has_line(facts) || !facts->have_cycles)
		return FACTS_UNKNOWN;
	return facts->cycles - facts->page.hot.valid_from;
}

static const char *word(const char * const *words, size_t count, uint32_t value)
{
	return value < count ? words[value] : "unknown";
}

#define WORD(words, value)	word(words, sizeof(words) / sizeof((words)[0]), value)

/**
 * facts_counter - the name of the counter
 * @facts: what was collected, with a page
 */
const char *facts_counter(const struct facts *facts)
{
	static const char * const names[] = {
		[FASTCLK_COUNTER_UNKNOWN] = "unknown",
		[FASTCLK_COUNTER_X86_TSC] = "tsc",
		[FASTCLK_COUNTER_ARM_CNTVCT] = "cntvct",
		[FASTCLK_COUNTER_RISCV_TIME] = "time",
	};

	return WORD(names, facts->page.header.counter);
}

/**
 * facts_mode - the name of the mode, as in sysfs
 * @facts: what was collected, with a page
 */
const char *facts_mode(const struct facts *facts)
{
	static const char * const names[] = {
		[FASTCLK_MODE_UNKNOWN] = "unknown",
		[FASTCLK_MODE_UNUSABLE] = "unusable",
		[FASTCLK_MODE_LOCKSTEP] = "lockstep",
		[FASTCLK_MODE_DISCIPLINED] = "disciplined",
		[FASTCLK_MODE_VARIABLE] = "variable",
	};

	return WORD(names, facts->page.verdict.mode);
}

/**
 * facts_verdict - the name of the verdict, as in sysfs
 * @facts: what was collected, with a page
 */
const char *facts_verdict(const struct facts *facts)
{
	static const char * const names[] = {
		[FASTCLK_VERDICT_UNKNOWN] = "unknown",
		[FASTCLK_VERDICT_SYNCED] = "synced",
		[FASTCLK_VERDICT_UNSYNCED] = "unsynced",
		[FASTCLK_VERDICT_OFFSET] = "offset",
	};

	return WORD(names, facts->page.verdict.verdict);
}

/**
 * facts_reason - the name of the reason, as in sysfs
 * @facts: what was collected, with a page
 */
const char *facts_reason(const struct facts *facts)
{
	static const char * const names[] = {
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

	return WORD(names, facts->page.verdict.reason);
}
