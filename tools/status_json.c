// SPDX-License-Identifier: MIT
/*
 * fastclk status --json. The names of "page" are those of linux/fastclk.h; fastclk(1)
 * describes the others. Called by status.c.
 */
#include "facts.h"
#include "json.h"

static void page_header(const struct fastclk_page_header *header)
{
	json_begin("header");
	json_unsigned("magic", header->magic);
	json_unsigned("abi_major", header->abi_major);
	json_unsigned("abi_minor", header->abi_minor);
	json_unsigned("size", header->size);
	json_unsigned("counter", header->counter);
	json_unsigned("order", header->order);
	json_unsigned("table_offset", header->table_offset);
	json_unsigned("table_entry_size", header->table_entry_size);
	json_unsigned("table_count", header->table_count);
	json_unsigned("features", header->features);
	json_end();
}

static void page_hot(const struct fastclk_page_hot *hot)
{
	json_begin("hot");
	json_unsigned("seq", hot->seq);
	json_unsigned("status", hot->status);
	json_unsigned("mult", hot->mult);
	json_unsigned("offset_lo", hot->offset_lo);
	json_unsigned("offset_hi", hot->offset_hi);
	json_signed("realtime_offset", hot->realtime_offset);
	json_unsigned("valid_from", hot->valid_from);
	json_unsigned("valid_for", hot->valid_for);
	json_unsigned("shift", hot->shift);
	json_unsigned("generation", hot->generation);
	json_end();
}

static void page_clocks(const struct fastclk_page_clocks *clocks)
{
	json_begin("clocks");
	json_unsigned("raw_mult", clocks->raw_mult);
	json_unsigned("raw_offset_lo", clocks->raw_offset_lo);
	json_unsigned("raw_offset_hi", clocks->raw_offset_hi);
	json_signed("boottime_offset", clocks->boottime_offset);
	json_signed("tai_offset", clocks->tai_offset);
	json_unsigned("frequency_hz", clocks->frequency_hz);
	json_unsigned("updates", clocks->updates);
	json_unsigned("raw_shift", clocks->raw_shift);
	json_unsigned("clock_was_set", clocks->clock_was_set);
	json_end();
}

static void page_verdict(const struct fastclk_page_verdict *verdict)
{
	json_begin("verdict");
	json_unsigned("verdict", verdict->verdict);
	json_unsigned("reason", verdict->reason);
	json_unsigned("mode", verdict->mode);
	json_unsigned("measurements", verdict->measurements);
	json_unsigned("max_skew_cycles", verdict->max_skew_cycles);
	json_unsigned("max_warp_cycles", verdict->max_warp_cycles);
	json_unsigned("worst_cpu_0", verdict->worst_cpu[0]);
	json_unsigned("worst_cpu_1", verdict->worst_cpu[1]);
	json_unsigned("cpus", verdict->cpus);
	json_unsigned("bad_cpus", verdict->bad_cpus);
	json_unsigned("pairs", verdict->pairs);
	json_unsigned("pairs_total", verdict->pairs_total);
	json_unsigned("exchanges", verdict->exchanges);
	json_unsigned("error_cycles", verdict->error_cycles);
	json_unsigned("error_ns", verdict->error_ns);
	json_unsigned("error_growth_ppb", verdict->error_growth_ppb);
	json_end();
}

static void known(const char *name, uint64_t value)
{
	if (value == FACTS_UNKNOWN)
		json_null(name);
	else
		json_unsigned(name, value);
}

static void capabilities(uint32_t status)
{
	json_begin("capabilities");
	json_bool("line_valid", status & FASTCLK_STATUS_LINE_VALID);
	json_bool("comparable", status & FASTCLK_STATUS_COMPARABLE);
	json_bool("offsets", status & FASTCLK_STATUS_OFFSETS);
	json_bool("constant_rate", status & FASTCLK_STATUS_CONSTANT_RATE);
	json_bool("lockstep", status & FASTCLK_STATUS_LOCKSTEP);
	json_bool("test_build", status & FASTCLK_STATUS_TEST_BUILD);
	json_end();
}

static void derived(const struct facts *facts)
{
	const struct fastclk_page *page = &facts->page;
	uint64_t age = facts_age_cycles(facts);
	bool inside = age != FACTS_UNKNOWN && age <= page->hot.valid_for;

	json_string("counter", facts_counter(facts));
	json_string("mode", facts_mode(facts));
	json_string("verdict", facts_verdict(facts));
	json_string("reason", facts_reason(facts));
	json_string("reason_text", fastclk_reason_text(page->verdict.reason));
	capabilities(page->hot.status);
	json_bool("invariant", page->header.features & FASTCLK_FEATURE_INVARIANT);
	json_bool("assumed_invariant", page->header.features & FASTCLK_FEATURE_ASSUMED);
	known("max_skew_ns", facts_ns(facts, page->verdict.max_skew_cycles));
	known("max_warp_ns", facts_ns(facts, page->verdict.max_warp_cycles));
	known("line_age_ns", age == FACTS_UNKNOWN ? age : facts_ns(facts, age));
	known("line_left_ns", inside ? facts_ns(facts, page->hot.valid_for - age) : FACTS_UNKNOWN);
}

/**
 * status_json - print it
 * @facts: what was collected
 *
 * The members are the same whether there is a page or not; what is not known is null.
 */
void status_json(const struct facts *facts)
{
	json_begin(NULL);
	json_bool("usable", facts->clock.status == EXIT_USABLE);
	json_unsigned("source", (uint64_t)facts->clock.source);
	json_string("why", facts->clock.why);
	json_string("page_file", facts->clock.path);
	json_string("kernel_clocksource", facts->clocksource);
	json_string("kernel_clocksources", facts->clocksources);
	json_string("bad_cpus", facts->bad_cpus);
	json_string("cpus_parameter", facts->cpus_parameter);
	json_string("time_namespace", facts->timens);
	if (facts->kernel_trusts)
		json_bool("kernel_trusts", !strcmp(facts->kernel_trusts, "1"));
	else
		json_null("kernel_trusts");
	if (facts->have_page) {
		known("cycles", facts->have_cycles ? facts->cycles : FACTS_UNKNOWN);
		derived(facts);
		json_begin("page");
		page_header(&facts->page.header);
		page_hot(&facts->page.hot);
		page_clocks(&facts->page.clocks);
		page_verdict(&facts->page.verdict);
		json_end();
	} else {
		static const char * const names[] = {
			"cycles", "counter", "mode", "verdict", "reason", "reason_text",
			"capabilities", "invariant", "assumed_invariant", "max_skew_ns", "max_warp_ns", "line_age_ns",
			"line_left_ns", "page",
		};
		size_t i;

		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			json_null(names[i]);
	}
	json_end();
}
