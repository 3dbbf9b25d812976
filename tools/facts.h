/* SPDX-License-Identifier: MIT */
/*
 * What `fastclk status` shows: the page, and what the kernel says about it.
 */
#ifndef TOOLS_FACTS_H
#define TOOLS_FACTS_H

#include "command.h"

/* A bound that is not known. */
#define FACTS_UNKNOWN	UINT64_MAX

/*
 * struct facts - all of it
 * @clock: as opened, and why it can be used or not
 * @have_page: is @page there?
 * @page: a consistent copy
 * @have_cycles: may the counter be read here?
 * @cycles: its value, read after @page
 * @clocksource: the kernel's
 * @clocksources: those that it has to choose from
 * @bad_cpus: list of CPUs, "" if there are none
 * @cpus_parameter: CPUs that the module was told to test, "" for all
 * @timens: offsets of this process's time namespace, "" if it has none
 * @kernel_trusts: "1" if the kernel would keep time with the counter, "0" if not
 *
 * Texts that could not be read are NULL.
 */
struct facts {
	struct command_clock clock;
	bool have_page;
	struct fastclk_page page;
	bool have_cycles;
	uint64_t cycles;
	char *clocksource;
	char *clocksources;
	char *bad_cpus;
	char *cpus_parameter;
	char *timens;
	char *kernel_trusts;
};

void facts_collect(struct facts *facts, const char *path);
void facts_free(struct facts *facts);

bool facts_usable_page(const struct facts *facts);
bool facts_has_line(const struct facts *facts);
uint64_t facts_ns(const struct facts *facts, uint64_t cycles);
uint64_t facts_age_cycles(const struct facts *facts);

const char *facts_counter(const struct facts *facts);
const char *facts_mode(const struct facts *facts);
const char *facts_verdict(const struct facts *facts);
const char *facts_reason(const struct facts *facts);

void status_json(const struct facts *facts);

#endif /* TOOLS_FACTS_H */
