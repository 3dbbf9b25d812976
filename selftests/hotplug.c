// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs go off and on while threads read the page, and each time it is wrong when it returns:
 * the first thread that runs there finds that the page says so and names the CPU, and nobody
 * ever reads on that CPU that its counter may be compared with others. When it has left, the
 * others are synced again. All who want to know of both are told.
 *
 *	hotplug [ROUNDS]	10 by default
 *
 * Run by guest_hotplug.sh, in a guest with four CPUs and the module's test build.
 */
#include "hotplug.h"

#include <pthread.h>
#include <sched.h>

#define NOBODY		(-1)
#define SPECTATORS	2
#define CPUS		4

static unsigned int rounds = 10;
static struct fastclk clk;

/* The CPU whose counter is wrong, and for the spectators: what they saw there. */
static int wrong_cpu;
static unsigned long sightings, violations, reads;
static pthread_t spectators[SPECTATORS];
static unsigned int looking;
static bool over;

/*
 * Reads wherever the scheduler likes, and on the wrong CPU as soon and as long as that is
 * possible.
 */
static void *look_on(void *argument)
{
	struct fastclk_stamp stamp;
	cpu_set_t everywhere, set;
	int cpu, source;

	(void)argument;
	sched_getaffinity(0, sizeof(everywhere), &everywhere);
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		cpu = __atomic_load_n(&wrong_cpu, __ATOMIC_ACQUIRE);
		if (cpu == NOBODY) {
			fastclk_now_ns(&clk);
			__atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
			continue;
		}
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			continue;
		/* Until the CPU is taken from under it. */
		while (sched_getcpu() == cpu && !__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
			source = fastclk_read_page(clk.page, clk.need, CLOCK_MONOTONIC, 1, &stamp);
			if (sched_getcpu() != cpu)
				break;
			__atomic_fetch_add(&sightings, 1, __ATOMIC_RELAXED);
			if (source == FASTCLK_SOURCE_PAGE)
				__atomic_fetch_add(&violations, 1, __ATOMIC_RELAXED);
		}
		sched_setaffinity(0, sizeof(everywhere), &everywhere);
	}
	return NULL;
}

/*
 * struct first - the first on a CPU
 * @cpu: where
 * @page: what it found
 * @bad: and in sysfs
 */
struct first {
	pthread_t thread;
	unsigned int cpu;
	struct fastclk_page page;
	char bad[64];
};

static void *be_the_first(void *argument)
{
	struct first *first = argument;
	cpu_set_t set;
	int length;

	CPU_ZERO(&set);
	CPU_SET(first->cpu, &set);
	/* It is refused until user tasks may run there. */
	while (sched_setaffinity(0, sizeof(set), &set))
		;
	copy_page(clk.page, &first->page);
	length = read_text(ATTRIBUTES "bad_cpus", first->bad, sizeof(first->bad));
	first->bad[length > 0 ? length - 1 : 0] = 0;
	return NULL;
}

/* Return: false if it could not be measured in time. */
static bool return_wrong(unsigned int cpu, int offset)
{
	struct first first = { .cpu = cpu };
	const struct fastclk_page_verdict *v = &first.page.verdict;
	char text[64];

	snprintf(text, sizeof(text), "%u:%d", cpu, offset);
	set_fault(text);
	__atomic_store_n(&wrong_cpu, (int)cpu, __ATOMIC_RELEASE);
	assert_int_equal(pthread_create(&first.thread, NULL, be_the_first, &first), 0);
	set_online(cpu, true);
	pthread_join(first.thread, NULL);

	assert_false(first.page.hot.status & FASTCLK_STATUS_COMPARABLE);
	if (v->verdict == FASTCLK_VERDICT_UNKNOWN)
		return false;
	snprintf(text, sizeof(text), "%u", cpu);
	assert_int_equal(v->verdict, FASTCLK_VERDICT_UNSYNCED);
	assert_int_equal(v->reason, FASTCLK_REASON_UNSYNCED);
	assert_int_equal(v->cpus, CPUS);
	assert_true(v->max_warp_cycles > 0 && v->max_warp_cycles <= (unsigned int)abs(offset));
	/* Of two that were compared alone, nobody knows who is wrong. */
	if (v->pairs < v->pairs_total)
		return false;
	assert_int_equal(v->bad_cpus, 1);
	assert_string_equal(first.bad, text);
	return true;
}

static void stop_looking(void)
{
	__atomic_store_n(&wrong_cpu, NOBODY, __ATOMIC_RELEASE);
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	while (looking)
		pthread_join(spectators[--looking], NULL);
	fastclk_close(&clk);
}

static void a_cpu_that_returns_wrong_is_known_before_it_runs_anything(void **state)
{
	unsigned int done = 0, tried = 0, cpu;
	struct fastclk_page copy;
	char count[16];

	(void)state;
	alarm(rounds * 30);
	assert_int_equal(fastclk_open(&clk, FASTCLK_TEST_BUILD), 0);
	over = false;
	wrong_cpu = NOBODY;
	for (looking = 0; looking < SPECTATORS; looking++)
		assert_int_equal(pthread_create(&spectators[looking], NULL, look_on, NULL), 0);

	while (done < rounds) {
		cpu = 1 + tried % (CPUS - 1);
		set_online(cpu, false);
		await_attribute("verdict", "synced");
		read_device(&copy);
		assert_int_equal(copy.verdict.cpus, CPUS - 1);
		assert_int_equal(fastclk_source(&clk), FASTCLK_SOURCE_PAGE);

		done += return_wrong(cpu, tried & 1 ? -5000 - (int)tried : 5000 + (int)tried);
		/* An overcommitted host may starve a measurement, but hardly every other. */
		assert_true(++tried <= 2 * rounds + 5);

		/* It is not to be trusted to the end; the others do not suffer when it has gone. */
		set_online(cpu, false);
		__atomic_store_n(&wrong_cpu, NOBODY, __ATOMIC_RELEASE);
		await_attribute("verdict", "synced");
		await_attribute("bad_cpus", "");
		set_fault("");
		set_online(cpu, true);
		await_attribute("verdict", "synced");
		snprintf(count, sizeof(count), "%u", CPUS);
		assert_attribute("cpus", count);
	}
	stop_looking();
	print_message("# %u of %u known at once; %lu reads on it, %lu elsewhere\n", done, tried,
		      sightings, reads);
	assert_int_equal(violations, 0);
	assert_true(sightings > 0);
}

/* What was measured for two CPUs, as the module shows it: both bounds. */
static void read_pair(unsigned int a, unsigned int b, char bounds[2][32])
{
	FILE *pairs = fopen("/sys/kernel/debug/fastclk/pairs", "r");
	unsigned int x, y;
	char line[256];

	assert_non_null(pairs);
	do {
		assert_non_null(fgets(line, sizeof(line), pairs));
	} while (sscanf(line, "%u %u: %31s %31s", &x, &y, bounds[0], bounds[1]) != 4 ||
		 x != a || y != b);
	fclose(pairs);
}

/* Only pairs with that CPU are measured again, and readers notice nothing. */
static void a_cpu_that_returns_right_changes_nothing(void **state)
{
	static const unsigned int pairs[][2] = { { 0, 2 }, { 0, 3 }, { 2, 3 } };
	struct fastclk_page before, after;
	char old[3][2][32], new[2][32];
	unsigned int i;

	(void)state;
	do {
		/* No pair is missing that would be measured later. */
		do {
			settle();
			read_device(&before);
		} while (before.verdict.pairs < before.verdict.pairs_total && !recheck());
		for (i = 0; i < 3; i++)
			read_pair(pairs[i][0], pairs[i][1], old[i]);
		set_online(1, false);
		set_online(1, true);
		read_device(&after);
	} while (after.verdict.verdict == FASTCLK_VERDICT_UNKNOWN);
	assert_int_equal(after.verdict.verdict, FASTCLK_VERDICT_SYNCED);
	assert_int_equal(after.hot.generation, before.hot.generation);
	assert_int_equal(after.hot.status, before.hot.status);
	assert_true(after.verdict.exchanges > before.verdict.exchanges);
	for (i = 0; i < 3; i++) {
		read_pair(pairs[i][0], pairs[i][1], new);
		assert_string_equal(new[0], old[i][0]);
		assert_string_equal(new[1], old[i][1]);
	}
}

/* The first CPU that is compared with it accuses both, so there may be more than one event. */
static void all_are_told_of_a_cpu_that_returns_wrong(void **state)
{
	struct events events;

	(void)state;
	set_online(1, false);
	await_attribute("verdict", "synced");
	events_open(&events);
	set_fault("1:5000");
	set_online(1, true);
	await_attribute("verdict", "unsynced");
	assert_told(&events, EVENTS_VERDICT_CHANGE, "FASTCLK_VERDICT=unsynced");
	set_online(1, false);
	await_attribute("verdict", "synced");
	assert_told(&events, EVENTS_VERDICT_CHANGE & ~EVENTS_TRACE_EXCHANGE,
		    "FASTCLK_VERDICT=synced");
	events_close(&events);
}

static int set_up(void **state)
{
	begin_test(state);
	/* The time that hotplug takes of this is enough even where CPUs are short. */
	return load_with("budget_ms=20000 recheck_seconds=0 offsets=0");
}

static int tear_down(void **state)
{
	stop_looking();
	return load_plainly(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_cpu_that_returns_wrong_is_known_before_it_runs_anything, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(a_cpu_that_returns_right_changes_nothing, set_up,
						load_plainly),
		cmocka_unit_test_setup_teardown(all_are_told_of_a_cpu_that_returns_wrong, set_up,
						load_plainly),
	};

	if (argc > 1)
		rounds = (unsigned int)atoi(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
