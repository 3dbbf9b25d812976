// SPDX-License-Identifier: GPL-2.0-only
/*
 * A virtual machine stands still for a while, or is restored from a snapshot, while threads on
 * all CPUs read the page: what they read is right, and they can read it again soon. After a
 * restore of which the hypervisor tells, nothing that was measured before counts: another
 * generation, and with it no verdict until there is a new one.
 *
 *	restore stop SECONDS	the machine is stopped for so long
 *	restore restore		it is restored, and the hypervisor tells
 *	restore fault		the same, and the counters differ afterwards: the page must not be
 *				usable then, for no moment. Takes the module's test build.
 *	restore jump SECONDS	it is restored, and nobody tells, but the counter has jumped
 *				against the clock, which another clocksource drives
 *
 * Run by guest_restore.sh, in a guest whose host does what it is asked for (selftests/host).
 *
 * A stamp is right if it is between two clock_gettime(), give or take the page's own error. What
 * seems to be wrong is looked at again, at once: hpet's reading may be older than the call, and
 * the kernel may be about to publish a line (selftests/bound.c). What a jump makes wrong, is so
 * for milliseconds. A hypervisor that stops a machine may move its counter against its clock by
 * a fraction of a microsecond (QEMU stops one after the other), of which the module can't know
 * before its next sample: where it samples, a stamp may be wrong until then. And one thread takes
 * a stamp at a time, since QEMU's counter gains where several read it (selftests/bound.c).
 */
#include "events.h"
#include "hotplug.h"

#include <pthread.h>
#include <termios.h>

/* The first serial line that is not vm/run's. */
#define HOST		"/dev/ttyS3"

#define CPUS		2
#define REPEATS		32

/* So many stamps of each thread, before and after. */
#define ENOUGH		2000UL

/* A host that is busy may take so long to stop a machine's counter after its clock. */
#define SHIFT_NS	100000000ULL

/* An error above that is no lie, but nothing that anybody could use. */
#define VAGUE_NS	1000000ULL

static const clockid_t clocks[] = {
	CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI, CLOCK_MONOTONIC_RAW,
};

static struct fastclk clk;
static const struct fastclk_page *page;
static struct events events;
static const char *argument_s;
static bool over;

/* --- readers */

static struct reader {
	pthread_t thread;
	int cpu;
	unsigned long right, vague, again, fallbacks, wrong, shifted;
	uint64_t shifted_updates;	/* the page's, at the last of those */
} readers[CPUS];

static pthread_mutex_t counter_lock = PTHREAD_MUTEX_INITIALIZER;

/* Adds up what is found. Return: is there anything wrong with this stamp? */
static bool is_wrong(struct reader *r, clockid_t clock, bool last)
{
	uint64_t before, after, error, updates;
	struct fastclk_stamp stamp;
	int source;

	before = fastclk_gettime_ns(clock);
	pthread_mutex_lock(&counter_lock);
	updates = FASTCLK_LOAD64(page->clocks.updates);
	source = fastclk_stamp_error(&clk, clock, &stamp, &error);
	pthread_mutex_unlock(&counter_lock);
	if (source != FASTCLK_SOURCE_PAGE) {
		r->fallbacks++;
		return false;
	}
	after = fastclk_gettime_ns(clock);
	if ((int64_t)(stamp.ns + error - before) >= 0 && (int64_t)(after + error - stamp.ns) >= 0) {
		if (error > VAGUE_NS)
			r->vague++;
		else
			__atomic_store_n(&r->right, r->right + 1, __ATOMIC_RELAXED);
		return false;
	}
	if (!last)
		return true;
	if (stamp.ns + SHIFT_NS - before < 2 * SHIFT_NS) {
		r->shifted++;
		r->shifted_updates = updates;
	} else {
		r->wrong++;
	}
	if (r->wrong + r->shifted == 1)
		printf("# wrong on CPU %d, clock %d: %llu is not in %llu to %llu; error %llu, generation %u\n",
		       r->cpu, (int)clock, (unsigned long long)stamp.ns,
		       (unsigned long long)before, (unsigned long long)after,
		       (unsigned long long)error, stamp.generation);
	return true;
}

static void *read_clocks(void *argument)
{
	struct reader *r = argument;
	unsigned int turn, i;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(r->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	for (turn = 0; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); turn++) {
		if (!is_wrong(r, clocks[turn % 5], false))
			continue;
		r->again++;
		for (i = 0; i < REPEATS && !is_wrong(r, clocks[turn % 5], true); i++)
			;
	}
	return NULL;
}

/* Until each thread has so many more right stamps. */
static void await_stamps(unsigned long count)
{
	unsigned long from[CPUS];
	unsigned int i, ms = 0;

	for (i = 0; i < CPUS; i++)
		from[i] = __atomic_load_n(&readers[i].right, __ATOMIC_RELAXED);
	for (i = 0; i < CPUS; i++)
		while (__atomic_load_n(&readers[i].right, __ATOMIC_RELAXED) - from[i] < count) {
			if (ms++ > SOON_MS)
				fail_msg("there are too few stamps that are right");
			pause_ms(1);
		}
}

/* --- what happens to the page: one entry for each change */

#define MOST_SEEN	64
static struct sight {
	uint32_t status;
	uint32_t generation;
	uint32_t verdict;
	uint32_t reason;
	uint32_t measurements;
} seen[MOST_SEEN];
static unsigned int sights;
static pthread_t watcher;

static void *watch(void *argument)
{
	struct fastclk_page copy;
	struct sight now;

	(void)argument;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		copy_page(page, &copy);
		now.status = copy.hot.status & CAPABILITIES;
		now.generation = copy.hot.generation;
		now.verdict = copy.verdict.verdict;
		now.reason = copy.verdict.reason;
		now.measurements = copy.verdict.measurements;
		if ((!sights || memcmp(&now, &seen[sights - 1], sizeof(now))) &&
		    sights < MOST_SEEN) {
			seen[sights] = now;
			__atomic_fetch_add(&sights, 1, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

static bool usable(const struct sight *s)
{
	const uint32_t need = FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_COMPARABLE;

	return (s->status & need) == need;
}

static void show_sights(void)
{
	unsigned int i;

	for (i = 0; i < sights; i++)
		print_message("# status %#x, generation %u, verdict %u, reason %u, measurements %u\n",
			      seen[i].status, seen[i].generation, seen[i].verdict, seen[i].reason,
			      seen[i].measurements);
}

/* --- threads */

static bool running;

static void start_threads(void)
{
	int i;

	over = false;
	sights = 0;
	memset(readers, 0, sizeof(readers));
	assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
	for (i = 0; i < CPUS; i++) {
		readers[i].cpu = i;
		assert_int_equal(pthread_create(&readers[i].thread, NULL, read_clocks, &readers[i]), 0);
	}
	running = true;
	while (!__atomic_load_n(&sights, __ATOMIC_ACQUIRE))
		pause_ms(1);
}

static void end_threads(void)
{
	unsigned int i;

	if (!running)
		return;
	running = false;
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	pthread_join(watcher, NULL);
	for (i = 0; i < CPUS; i++) {
		pthread_join(readers[i].thread, NULL);
		print_message("# CPU %u: %lu right, %lu vague, %lu looked at again, %lu wrong, %lu shifted, %lu fallbacks\n",
			      i, readers[i].right, readers[i].vague, readers[i].again,
			      readers[i].wrong, readers[i].shifted, readers[i].fallbacks);
	}
	show_sights();
}

/* What the page had when the guest was told that it had been stopped. */
static uint64_t resumed_updates;

static void expect_right(void)
{
	unsigned int i;

	for (i = 0; i < CPUS; i++) {
		assert_int_equal(readers[i].wrong, 0);
		if (page->verdict.mode == FASTCLK_MODE_DISCIPLINED)
			assert_true(readers[i].shifted_updates <= resumed_updates);
		else
			assert_int_equal(readers[i].shifted, 0);
	}
}

/* --- the host */

/*
 * Returns when it is done, and the guest goes on. An answer that comes while a snapshot is
 * being loaded may be lost.
 */
static void ask_host(const char *request)
{
	int fd = open(HOST, O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios raw;
	char answer[256];
	ssize_t got, length = 0;

	if (fd < 0 || tcgetattr(fd, &raw))
		fail_msg("%s: %s", HOST, strerror(errno));
	cfmakeraw(&raw);
	raw.c_cflag |= CLOCAL;
	tcflush(fd, TCIFLUSH);
	assert_int_equal(tcsetattr(fd, TCSANOW, &raw), 0);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	do {
		if (!poll_for(fd, POLLIN, 500)) {
			assert_int_equal(write(fd, "\n", 1), 1);
			continue;
		}
		got = read(fd, answer + length, sizeof(answer) - 1 - (size_t)length);
		assert_true(got > 0);
		length += got;
	} while (!memchr(answer, '\n', (size_t)length));
	answer[length] = 0;
	close(fd);
	if (strncmp(answer, "done\n", 5))
		fail_msg("the host can't do it: %s", answer);
}

/* How far counter and clocks went, meanwhile. */
static double ask_and_compare(const char *request)
{
	uint64_t raw = fastclk_gettime_ns(CLOCK_MONOTONIC_RAW), cycles = fastclk_counter_ordered();
	struct fastclk_page copy;
	double by_counter, by_clock;

	ask_host(request);
	resumed_updates = FASTCLK_LOAD64(page->clocks.updates);
	by_counter = (double)(int64_t)(fastclk_counter_ordered() - cycles);
	by_clock = (double)(fastclk_gettime_ns(CLOCK_MONOTONIC_RAW) - raw) / 1e9;
	read_device(&copy);
	by_counter /= (double)copy.clocks.frequency_hz;
	print_message("# meanwhile the counter went on by %.3f s, the clock by %.3f s\n", by_counter,
		      by_clock);
	return by_counter - by_clock;
}

/* In lockstep with the timekeeper's next tick, otherwise with the next sample. */
static void await_update(void)
{
	unsigned int ms = 0;

	while (FASTCLK_LOAD64(page->clocks.updates) == resumed_updates) {
		if (ms++ > SOON_MS)
			fail_msg("no line was published");
		pause_ms(1);
	}
}

static void await_usable(void)
{
	unsigned int ms = 0;
	uint64_t begin = fastclk_gettime_ns(CLOCK_MONOTONIC_RAW);

	while (fastclk_source(&clk) != FASTCLK_SOURCE_PAGE) {
		if (ms++ > SOON_MS)
			fail_msg("the page is not used again: %s", fastclk_why(&clk));
		pause_ms(1);
	}
	print_message("# the page is used after %.3f s\n",
		      (double)(fastclk_gettime_ns(CLOCK_MONOTONIC_RAW) - begin) / 1e9);
}

/* --- the tests */

static void begin(void)
{
	settle();
	assert_int_equal(fastclk_open(&clk, FASTCLK_TEST_BUILD), 0);
	page = map_device(open_device(O_RDONLY));
	start_threads();
}

static void stamps_are_right_after_a_stop(void **state)
{
	char request[32];
	double jump;

	(void)state;
	alarm(DEADLINE_S + (unsigned int)atoi(argument_s));
	begin();
	await_stamps(ENOUGH);
	snprintf(request, sizeof(request), "stop %s\n", argument_s);
	jump = ask_and_compare(request);
	await_update();
	await_usable();
	await_stamps(ENOUGH);
	end_threads();
	expect_right();
	/* Where the counter went on without the clock, stamps can't be compared. */
	if (jump > 0.01 || jump < -0.01)
		assert_int_not_equal(seen[sights - 1].generation, seen[0].generation);
}

/* From the first generation to others, in which there is no verdict but a new one. */
static void expect_new_verdict(void)
{
	const struct sight *old = &seen[0], *now = &seen[sights - 1];
	unsigned int i;

	assert_true(sights > 1 && sights < MOST_SEEN);
	assert_true(usable(old));
	assert_int_not_equal(now->generation, old->generation);
	assert_true(now->measurements > old->measurements);
	for (i = 1; i < sights; i++)
		if (seen[i].generation != old->generation && seen[i].measurements == old->measurements)
			assert_int_equal(seen[i].verdict, FASTCLK_VERDICT_UNKNOWN);
}

static void expect_told(unsigned int wanted, const char *variable)
{
	const char *text = events_missing(&events, wanted, variable, SOON_MS);

	if (text)
		fail_msg("%s", text);
}

static bool has_new_generation(const struct sight *now)
{
	return now->generation != seen[0].generation;
}

static bool has_new_verdict(const struct sight *now)
{
	return has_new_generation(now) && now->measurements != seen[0].measurements &&
	       now->verdict != FASTCLK_VERDICT_UNKNOWN;
}

static bool is_usable_again(const struct sight *now)
{
	return has_new_generation(now) && now->measurements != seen[0].measurements && usable(now);
}

/* Until it was seen, or should have been. What was seen is judged later. */
static void await_sight(bool (*has)(const struct sight *now))
{
	unsigned int ms;

	for (ms = 0; ms < SOON_MS; ms++) {
		if (has(&seen[__atomic_load_n(&sights, __ATOMIC_ACQUIRE) - 1]))
			break;
		pause_ms(1);
	}
}

static void the_verdict_is_made_anew(void **state)
{
	char variable[64];

	(void)state;
	begin();
	await_stamps(ENOUGH);
	events_open(&events);
	ask_and_compare("restore 0\n");
	await_sight(is_usable_again);
	await_update();
	await_usable();
	await_stamps(ENOUGH);
	end_threads();
	expect_right();
	expect_new_verdict();
	assert_true(usable(&seen[sights - 1]));
	snprintf(variable, sizeof(variable), "FASTCLK_GENERATION=%u", seen[sights - 1].generation);
	expect_told(EVENTS_CHANGE | EVENTS_TRACE_EXCHANGE, variable);
	events_close(&events);
}

static void counters_that_differ_are_found(void **state)
{
	unsigned int i;

	(void)state;
	begin();
	set_fault("1:100000000");
	assert_attribute("verdict", "synced");
	events_open(&events);
	ask_and_compare("restore 0\n");
	await_sight(has_new_verdict);
	end_threads();
	set_fault("");
	expect_new_verdict();
	expect_told(EVENTS_VERDICT_CHANGE, "FASTCLK_VERDICT=unsynced");
	events_close(&events);
	for (i = 1; i < sights; i++)
		if (seen[i].generation != seen[0].generation)
			assert_false(usable(&seen[i]));
	assert_int_equal(seen[sights - 1].verdict, FASTCLK_VERDICT_UNSYNCED);
}

static void a_jump_is_seen(void **state)
{
	int seconds = atoi(argument_s);
	struct fastclk_page copy, after;
	char request[64];
	double jump;

	(void)state;
	begin();
	await_stamps(ENOUGH);
	read_device(&copy);
	events_open(&events);
	snprintf(request, sizeof(request), "restore %lld\n",
		 (long long)copy.clocks.frequency_hz * seconds);
	jump = ask_and_compare(request);
	assert_true(jump > seconds - 0.5 && jump < seconds + 0.5);
	await_sight(is_usable_again);
	await_update();
	await_usable();
	await_stamps(ENOUGH);
	end_threads();
	expect_right();
	assert_true(has_new_generation(&seen[sights - 1]));
	assert_true(usable(&seen[sights - 1]));
	/* And the CPUs were compared again. */
	read_device(&after);
	assert_true(after.verdict.measurements > copy.verdict.measurements);
	expect_told(EVENTS_CHANGE, NULL);
	events_close(&events);
}

static int set_up(void **state)
{
	return begin_test(state);
}

static int tear_down(void **state)
{
	end_threads();
	fastclk_close(&clk);
	return end_test(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest stop[] = {
		cmocka_unit_test_setup_teardown(stamps_are_right_after_a_stop, set_up, tear_down),
	};
	const struct CMUnitTest restore[] = {
		cmocka_unit_test_setup_teardown(the_verdict_is_made_anew, set_up, tear_down),
	};
	const struct CMUnitTest jump[] = {
		cmocka_unit_test_setup_teardown(a_jump_is_seen, set_up, tear_down),
	};
	const struct CMUnitTest fault[] = {
		cmocka_unit_test_setup_teardown(counters_that_differ_are_found, set_up, tear_down),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (argc == 3)
		argument_s = argv[2];
	if (argc == 3 && !strcmp(argv[1], "stop"))
		return cmocka_run_group_tests(stop, NULL, NULL);
	if (argc == 3 && !strcmp(argv[1], "jump"))
		return cmocka_run_group_tests(jump, NULL, NULL);
	if (argc == 2 && !strcmp(argv[1], "restore"))
		return cmocka_run_group_tests(restore, NULL, NULL);
	if (argc == 2 && !strcmp(argv[1], "fault"))
		return cmocka_run_group_tests(fault, NULL, NULL);
	fprintf(stderr, "usage: restore stop SECONDS | restore | fault | jump SECONDS\n");
	return 2;
}
