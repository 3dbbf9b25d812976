// SPDX-License-Identifier: MIT
/*
 * fastclk status: whether the clock can be used and, if not, why and what to do about it,
 * in sentences. status_json.c says it to programs.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "facts.h"

/* What follows a label begins here, and ends before WIDTH. */
#define INDENT	14
#define WIDTH	96

struct status_arguments {
	const char *page;
	bool json;
};

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print a JSON object. 64-bit integers are JSON numbers, of which "
	  "programs that take doubles lose the last digits above 2^53", 0 },
	{ "page", 'p', "FILE", 0, "the page, in the place of " FASTCLK_DEVICE, 0 },
	{ NULL, 0, NULL, 0, NULL, 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct status_arguments *arguments = state->input;

	switch (key) {
	case 'j':
		arguments->json = true;
		return 0;
	case 'p':
		arguments->page = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much: there are only options", arg);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* A label and a text, which is broken between words. */
__attribute__((__format__(__printf__, 2, 3)))
static void say(const char *label, const char *format, ...)
{
	char text[1024], *word, *rest;
	size_t column = INDENT;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);

	printf("%-*s", INDENT, label);
	for (word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		size_t length = strlen(word);

		if (column > INDENT && column + 1 + length > WIDTH) {
			printf("\n%*s", INDENT, "");
			column = INDENT;
		}
		column += (size_t)printf("%s%s", column > INDENT ? " " : "", word);
	}
	printf("\n");
}

/* "286 cycles (111 ns)" */
static const char *cycles_text(const struct facts *facts, uint64_t cycles, char *text, size_t size)
{
	uint64_t ns = facts_ns(facts, cycles);

	if (ns == FACTS_UNKNOWN)
		snprintf(text, size, "%" PRIu64 " cycles", cycles);
	else if (ns < 1000000)
		snprintf(text, size, "%" PRIu64 " cycles (%" PRIu64 " ns)", cycles, ns);
	else
		snprintf(text, size, "%" PRIu64 " cycles (%.3f s)", cycles, (double)ns / 1e9);
	return text;
}

static void say_verdict(const struct facts *facts)
{
	const struct fastclk_page_verdict *v = &facts->page.verdict;
	char skew[64], warp[64];

	cycles_text(facts, v->max_skew_cycles, skew, sizeof(skew));
	cycles_text(facts, v->max_warp_cycles, warp, sizeof(warp));
	switch (v->verdict) {
	case FASTCLK_VERDICT_SYNCED:
		if (v->cpus == 1)
			say("verdict", "synced: there is only one CPU to compare");
		else
			say("verdict", "synced: no two ordered timestamps on the %u tested CPUs "
			    "can be seen going back; their counters differ by at most %s",
			    v->cpus, skew);
		break;
	case FASTCLK_VERDICT_UNSYNCED:
		say("verdict", "unsynced: an ordered timestamp on one CPU can be smaller than an "
		    "earlier one on another; the counters of CPUs %u and %u differ by at least %s",
		    v->worst_cpu[0], v->worst_cpu[1], warp);
		break;
	case FASTCLK_VERDICT_OFFSET:
		say("verdict", "offset: the counters of the CPUs differ by constants, by %s or more; "
		    "with the offsets that are on the page, no two ordered timestamps on the %u "
		    "tested CPUs can be seen going back, and counters differ by at most %s",
		    warp, v->cpus, skew);
		break;
	default:
		say("verdict", "unknown: whether the counters of all CPUs agree could not be said "
		    "so far");
	}
}

static void say_mode(const struct facts *facts)
{
	const struct fastclk_page_verdict *v = &facts->page.verdict;

	switch (v->mode) {
	case FASTCLK_MODE_LOCKSTEP:
		say("mode", "lockstep: the page gives what clock_gettime() gives, to the "
		    "nanosecond");
		break;
	case FASTCLK_MODE_DISCIPLINED:
	case FASTCLK_MODE_VARIABLE:
		say("mode", "%s: the page was within %" PRIu64 " ns of the kernel's clock when it "
		    "was published, and may leave it by %u ns per second from then on",
		    facts_mode(facts), (uint64_t)v->error_ns, v->error_growth_ppb);
		break;
	case FASTCLK_MODE_UNUSABLE:
		say("mode", "unusable: the page gives no time");
		break;
	default:
		say("mode", "unknown to this program (%u)", v->mode);
	}
}

/* What processor, administrator and kernel think of the counter; the verdict is ours. */
static void say_trust(const struct facts *facts)
{
	uint64_t features = facts->page.header.features;

	if (features & FASTCLK_FEATURE_INVARIANT)
		say("rate", "invariant: the processor says that the counter's rate is constant");
	else if (features & FASTCLK_FEATURE_ASSUMED)
		say("rate", "assumed by the administrator to be constant (assume_invariant); the "
		    "processor does not say so");
	else if (facts->page.hot.status & FASTCLK_STATUS_LOCKSTEP)
		say("rate", "constant enough for the kernel to keep time with it; the processor "
		    "does not say that it is constant");
	else
		say("rate", "may change at any time, since the processor does not say that it is "
		    "constant");
	if (!facts->kernel_trusts)
		return;
	say("trust", strcmp(facts->kernel_trusts, "1") ?
	    "the kernel does not trust the counter: it found it unstable" :
	    "the kernel trusts the counter, and would keep time with it");
}

static void say_measurement(const struct facts *facts)
{
	const struct fastclk_page_verdict *v = &facts->page.verdict;
	char text[64];

	say("tested", "%u CPUs, %u of %u pairs directly, %" PRIu64 " exchanges, measured %u %s "
	    "since the module was loaded", v->cpus, v->pairs, v->pairs_total,
	    (uint64_t)v->exchanges, v->measurements, v->measurements == 1 ? "time" : "times");
	if (v->cpus > 1) {
		if (v->max_skew_cycles == UINT64_MAX)
			say("skew", "not bounded");
		else
			say("skew", "at most %s between any two CPUs",
			    cycles_text(facts, v->max_skew_cycles, text, sizeof(text)));
	}
	if (!v->pairs)
		say("warp", "not measured");
	else if (v->max_warp_cycles)
		say("warp", "at least %s, between CPUs %u and %u",
		    cycles_text(facts, v->max_warp_cycles, text, sizeof(text)),
		    v->worst_cpu[0], v->worst_cpu[1]);
	else
		say("warp", "none was seen");
	if (facts->bad_cpus && *facts->bad_cpus)
		say("bad CPUs", "%s: their counters do not fit those of the others",
		    facts->bad_cpus);
	else
		say("bad CPUs", v->bad_cpus ? "%u of them" : "none", v->bad_cpus);
}

static void say_line(const struct facts *facts)
{
	const struct fastclk_page_hot *hot = &facts->page.hot;
	uint64_t age = facts_age_cycles(facts), age_ns, left_ns;

	if (!facts_has_line(facts)) {
		say("line", "none");
		return;
	}
	say("line", "ns = (cycles * %" PRIu64 " + offset) >> %u", (uint64_t)hot->mult, hot->shift);
	if (age == FACTS_UNKNOWN) {
		say("window", "not known, since this process must not read the counter");
		return;
	}
	age_ns = facts_ns(facts, age);
	left_ns = facts_ns(facts, hot->valid_for - age);
	if (age > hot->valid_for)
		say("window", "the counter is outside of it: the line is stale");
	else if (age_ns == FACTS_UNKNOWN || left_ns == FACTS_UNKNOWN)
		say("window", "%" PRIu64 " cycles old, valid for another %" PRIu64 " cycles", age,
		    (uint64_t)hot->valid_for - age);
	else
		say("window", "%.6f s old, valid for another %.3f s if the kernel did not renew it",
		    (double)age_ns / 1e9, (double)left_ns / 1e9);
}

static void say_page(const struct facts *facts)
{
	const struct fastclk_page *page = &facts->page;
	char rate[64] = "at an unknown frequency";

	if (page->clocks.frequency_hz)
		snprintf(rate, sizeof(rate), "at %.6f MHz",
			 (double)page->clocks.frequency_hz / 1e6);
	say_verdict(facts);
	say_mode(facts);
	say("counter", "%s %s", facts_counter(facts), rate);
	if (facts->clocksource)
		say("clocksource", "%s is the kernel's", facts->clocksource);
	say_trust(facts);
	say_measurement(facts);
	say_line(facts);
	say("generation", "%u", page->hot.generation);
	say("updates", "%" PRIu64 " since the module was loaded", (uint64_t)page->clocks.updates);
	say("page", "%s, ABI %u.%u", facts->clock.path, page->header.abi_major,
	    page->header.abi_minor);
}

/* --- what to do */

#define RECHECK	"echo 1 > /sys/class/misc/fastclk/recheck"
#define RELOAD	"Load the module anew: modprobe -r fastclk; modprobe fastclk"
#define REPORT	"Report it, with the output of fastclk status --json and of dmesg."

static void advise_clocksource(const struct facts *facts)
{
	const char *counter = facts_counter(facts);
	const char *available = facts->clocksources ? facts->clocksources : "";

	say("", "The kernel's clocksource is %s; it has %s.",
	    facts->clocksource ? facts->clocksource : "unknown",
	    *available ? available : "no others");
	if (strstr(available, counter))
		say("what to do", "Find out why %s was not taken (clocksource= on the kernel's "
		    "command line, see /proc/cmdline); to change it for now: echo %s > "
		    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
		    counter, counter);
	else
		say("what to do", "Find out why the kernel does not trust %s: dmesg | grep -iE "
		    "'tsc|clocksource'", counter);
}

static void advise_variable(const struct facts *facts)
{
	advise_clocksource(facts);
	say("", "If you know that the counter's rate is constant, say so: modprobe -r fastclk; "
	    "modprobe fastclk assume_invariant=1");
	say("", "Programs that can do with a rate which may change can use the clock: see "
	    "FASTCLK_VARIABLE_RATE.");
}

static void advise_unsynced(const struct facts *facts)
{
	const char *bad = facts->bad_cpus && *facts->bad_cpus ? facts->bad_cpus : NULL;

	if (bad)
		say("what to do", "Look for a newer firmware; do without CPU %s (echo 0 > "
		    "/sys/devices/system/cpu/cpuN/online, then " RECHECK "). Programs that compare "
		    "times only on one CPU can use the clock: see FASTCLK_ONE_CPU.", bad);
	else
		say("what to do", "Look for a newer firmware. Programs that compare times only on "
		    "one CPU can use the clock: see FASTCLK_ONE_CPU.");
}

static void advise_incomplete(const struct facts *facts)
{
	if (facts->cpus_parameter && *facts->cpus_parameter &&
	    strcmp(facts->cpus_parameter, "(null)"))
		say("", "The module was told to test only CPUs %s.", facts->cpus_parameter);
	say("", "%u of %u pairs of CPUs were measured.", facts->page.verdict.pairs,
	    facts->page.verdict.pairs_total);
	say("what to do", "Nothing: the measurement goes on by itself, at least once a minute. To "
	    "have it at once: " RECHECK);
}

/* For what the page says of itself. */
static void advise_reason(const struct facts *facts)
{
	switch (facts->page.verdict.reason) {
	case FASTCLK_REASON_MEASURING:
		say("what to do", "Wait: this takes a few seconds at most.");
		break;
	case FASTCLK_REASON_INCOMPLETE:
		advise_incomplete(facts);
		break;
	case FASTCLK_REASON_UNSYNCED:
		advise_unsynced(facts);
		break;
	case FASTCLK_REASON_CLOCKSOURCE:
		advise_clocksource(facts);
		break;
	case FASTCLK_REASON_RATE:
		say("what to do", REPORT);
		break;
	case FASTCLK_REASON_SAMPLING:
	case FASTCLK_REASON_SUSPENDED:
		say("what to do", "Try again: this takes a moment only.");
		break;
	case FASTCLK_REASON_REVOKED:
		say("what to do", RELOAD);
		break;
	}
}

static void advise_no_access(const struct facts *facts)
{
	struct stat info;

	if (facts->clock.error == EACCES && !stat(facts->clock.path, &info))
		say("what to do", "Its mode is %04o: let all users read it (chmod a+r %s), and "
		    "see whether a udev rule took that away.", info.st_mode & 07777U,
		    facts->clock.path);
	else
		say("what to do", "See whether a container or a security policy keeps this process "
		    "away from it.");
}

/* For what keeps this process from using it. */
static void advise(const struct facts *facts)
{
	switch (facts->clock.source) {
	case FASTCLK_SOURCE_NO_DEVICE:
		if (facts->clock.error == ENODEV)
			say("what to do", RELOAD);
		else if (!strcmp(facts->clock.path, FASTCLK_DEVICE))
			say("what to do", "Load it: modprobe fastclk. In a container, let the "
			    "device in (--device " FASTCLK_DEVICE ").");
		break;
	case FASTCLK_SOURCE_NO_ACCESS:
		advise_no_access(facts);
		break;
	case FASTCLK_SOURCE_NO_COUNTER:
		say("what to do", "Call prctl(PR_SET_TSC, PR_TSC_ENABLE) in it, or start it from a "
		    "process that may: children inherit this.");
		break;
	case FASTCLK_SOURCE_UNKNOWN_PAGE:
		say("what to do", "Use a module and a program of the same version (this one knows "
		    "ABI %u).", FASTCLK_ABI_MAJOR);
		break;
	case FASTCLK_SOURCE_IS_TEST_BUILD:
		say("what to do", "Build the module without FAULT_INJECTION=1, and load that.");
		break;
	case FASTCLK_SOURCE_CONTRADICTION:
		if (facts->timens && *facts->timens)
			say("what to do", "Nothing: this is a time namespace (%s), and the page "
			    "has the clocks of the initial one.", facts->timens);
		else
			say("what to do", REPORT);
		break;
	case FASTCLK_SOURCE_STALE:
		say("what to do", "If it stays like that: " RELOAD);
		break;
	case FASTCLK_SOURCE_BUSY:
		say("what to do", "Try again.");
		break;
	case FASTCLK_SOURCE_VARIABLE_RATE:
		advise_variable(facts);
		break;
	}
}

static void status_text(const struct facts *facts)
{
	if (facts->clock.source == FASTCLK_SOURCE_PAGE) {
		say("usable", "yes: the time is read from the counter");
	} else {
		say("usable", "no: programs get clock_gettime() instead");
		say("why", "%s", facts->clock.why);
		advise(facts);
		if (facts->have_page && !facts_usable_page(facts)) {
			/* Behind a test build, say, there may be more that is wrong. */
			if (strcmp(facts->clock.why,
				   fastclk_reason_text(facts->page.verdict.reason)))
				say("besides", "%s",
				    fastclk_reason_text(facts->page.verdict.reason));
			advise_reason(facts);
		}
		printf("\n");
	}
	if (facts->have_page)
		say_page(facts);
	else if (facts->clocksource)
		say("clocksource", "%s is the kernel's", facts->clocksource);
}

/**
 * status_main - the subcommand
 * @argc: of its own words
 * @argv: these
 *
 * Return: exit status.
 */
int status_main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Says whether the clock can be used and, if not, why and what to do about "
		       "it, and what the module found out.",
	};
	struct status_arguments arguments = { .page = FASTCLK_DEVICE };
	struct facts facts;
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	facts_collect(&facts, arguments.page);
	status = facts.clock.status;
	if (arguments.json)
		status_json(&facts);
	else
		status_text(&facts);
	facts_free(&facts);
	return status;
}
