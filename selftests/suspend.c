// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine suspends to RAM and resumes, again and again, while a thread reads the page as
 * fast as it can: the page cannot be used before the machine falls asleep, and then, in this
 * order, is usable again, with another generation; CLOCK_BOOTTIME counted the sleep; all who
 * want to know are told. A counter that was set during the sleep is found before the page can
 * be used.
 *
 * With more than one CPU, the kernel does all that it does for S3 except asking the firmware
 * (pm_test): QEMU's starts the other CPUs itself when the machine wakes up, and on a busy host
 * may leave one behind that the kernel cannot start any more. With one CPU, the machine really
 * sleeps, and is woken by its clock; then nobody can watch the order.
 *
 *	suspend [CYCLES]	2 by default
 *
 * Run by guest_suspend.sh, in guests with two CPUs and with one, and the module's test build.
 */
#include "hotplug.h"

#include <pthread.h>

#define PM_TEST		"/sys/power/pm_test"
#define PM_TEST_DELAY	"/sys/module/suspend/parameters/pm_test_delay"

#define ALARM		"/sys/class/rtc/rtc0/wakealarm"
/* It has seconds, and must not come before the machine sleeps. */
#define SLEEP_S		"+3"

static unsigned int cycles = 2;
static struct fastclk clk;

/*
 * What a thread sees of the page: one entry for each change.
 */
#define MOST_SEEN	64
static const struct fastclk_page *page;
static struct sight {
	uint32_t status;
	uint32_t generation;
	uint32_t reason;
} seen[MOST_SEEN];
static unsigned int sights;
static pthread_t watcher;
static bool watching, over;

static void *watch(void *argument)
{
	struct fastclk_page copy;
	struct sight now;

	(void)argument;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		copy_page(page, &copy);
		now.status = copy.hot.status & CAPABILITIES;
		now.generation = copy.hot.generation;
		now.reason = copy.verdict.reason;
		if ((!sights || memcmp(&now, &seen[sights - 1], sizeof(now))) &&
		    sights < MOST_SEEN) {
			seen[sights] = now;
			__atomic_fetch_add(&sights, 1, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

static void start_watch(void)
{
	sights = 0;
	over = false;
	assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
	watching = true;
	while (!__atomic_load_n(&sights, __ATOMIC_ACQUIRE))
		;
}

static void end_watch(void)
{
	if (!watching)
		return;
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	pthread_join(watcher, NULL);
	watching = false;
}

static bool usable(const struct sight *s)
{
	const uint32_t need = FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_COMPARABLE;

	return (s->status & need) == need;
}

static void suspend(void)
{
	int ret = write_text("/sys/power/state", "mem");

	if (ret)
		fail_msg("the machine does not sleep: %s", strerror(-ret));
}

static void sleep_without_firmware(void)
{
	/* Two seconds, since the kernel learns from the CMOS clock, to the second, how many. */
	assert_int_equal(write_text(PM_TEST_DELAY, "2"), 0);
	assert_int_equal(write_text(PM_TEST, "core"), 0);
	suspend();
}

static void sleep_with_firmware(void)
{
	assert_int_equal(write_text(ALARM, "0"), 0);
	assert_int_equal(write_text(ALARM, SLEEP_S), 0);
	suspend();
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Every clock of the page is where the kernel's is. */
static void expect_right_clocks(void)
{
	static const clockid_t clocks[] = {
		CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_TAI, CLOCK_MONOTONIC_RAW,
	};
	struct fastclk_stamp stamp;
	uint64_t before, after, bound;
	struct fastclk_page copy;
	unsigned int i;

	read_device(&copy);
	/* Without a lockstep, there is an error, for which the bound allows. */
	bound = copy.verdict.mode == FASTCLK_MODE_LOCKSTEP ? 0 : 100000;
	for (i = 0; i < 5000; i++) {
		before = clock_ns(clocks[i % 5]);
		if (fastclk_stamp(&clk, clocks[i % 5], &stamp) != FASTCLK_SOURCE_PAGE)
			continue;
		after = clock_ns(clocks[i % 5]);
		if (stamp.ns + bound < before || stamp.ns > after + bound)
			fail_msg("clock %d: %llu is not in %llu to %llu", (int)clocks[i % 5],
				 (unsigned long long)stamp.ns, (unsigned long long)before,
				 (unsigned long long)after);
	}
}

/*
 * From a usable page to a usable page: what lies between must not be usable, and begin with
 * the reason "suspended".
 */
static void expect_order(void)
{
	unsigned int count = __atomic_load_n(&sights, __ATOMIC_ACQUIRE), first, last, i;

	assert_true(count < MOST_SEEN);
	for (first = 0; first < count && usable(&seen[first]); first++)
		;
	for (last = first; last < count && !usable(&seen[last]); last++)
		;
	for (i = 0; i < count; i++)
		print_message("# status %#x, generation %u, reason %u\n", seen[i].status,
			      seen[i].generation, seen[i].reason);
	/* Once off and once on again. */
	assert_true(first > 0 && first < last && last < count);
	for (i = last; i < count; i++)
		assert_true(usable(&seen[i]));
	assert_int_equal(seen[first].reason, FASTCLK_REASON_SUSPENDED);
	assert_int_not_equal(seen[first].generation, seen[first - 1].generation);
	assert_int_not_equal(seen[last].generation, seen[first - 1].generation);
	assert_int_not_equal(seen[last].generation, seen[last - 1].generation);
}

/* The machine slept, and woke up with right clocks; whoever waited for that was told. */
static void sleep_and_wake_up(void (*sleep_once)(void), int fd)
{
	uint64_t before = clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC), slept;
	struct events events;

	events_open(&events);
	sleep_once();
	/* At once, unless CPUs are short. */
	await_attribute("verdict", "synced");
	await_attribute("reason", "usable");
	while (fastclk_source(&clk) != FASTCLK_SOURCE_PAGE)
		;
	expect_right_clocks();
	slept = clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC) - before;
	print_message("# slept for %.3f s\n", (double)slept / 1e9);
	assert_true(slept > 100000000);
	assert_int_equal(poll_for(fd, POLLIN, SOON_MS), POLLIN);
	/* Here, that it can be used again; that it can't be is what a watcher sees. */
	assert_told(&events, EVENTS_CHANGE, "FASTCLK_REASON=usable");
	events_close(&events);
}

static int open_all(void)
{
	int fd;

	alarm(DEADLINE_S + cycles * 20);
	settle();
	assert_int_equal(fastclk_open(&clk, FASTCLK_TEST_BUILD), 0);
	fd = open_device(O_RDONLY);
	page = map_device(fd);
	return fd;
}

static void readers_fall_back_and_return(void **state)
{
	int fd = open_all();
	unsigned int i;

	(void)state;
	for (i = 0; i < cycles; i++) {
		start_watch();
		sleep_and_wake_up(sleep_without_firmware, fd);
		while (!usable(&seen[__atomic_load_n(&sights, __ATOMIC_ACQUIRE) - 1]))
			;
		end_watch();
		expect_order();
	}
}

static void a_machine_that_really_slept_is_right_again(void **state)
{
	uint32_t generation;
	int fd = open_all();
	unsigned int i;

	(void)state;
	for (i = 0; i < cycles; i++) {
		generation = page->hot.generation;
		sleep_and_wake_up(sleep_with_firmware, fd);
		assert_int_not_equal(page->hot.generation, generation);
	}
}

/* The page is never usable again, not even between waking up and the new verdict. */
static void a_counter_that_was_set_is_found(void **state)
{
	unsigned int i;

	(void)state;
	settle();
	page = map_device(open_device(O_RDONLY));
	set_fault("1:100000000");
	assert_attribute("verdict", "synced");
	start_watch();
	sleep_without_firmware();
	await_attribute("verdict", "unsynced");
	end_watch();
	set_fault("");
	assert_true(sights > 1 && sights < MOST_SEEN);
	for (i = 1; i < sights; i++)
		assert_false(usable(&seen[i]));
	assert_false(page->hot.status & FASTCLK_STATUS_COMPARABLE);
}

static int set_up(void **state)
{
	begin_test(state);
	return load_with("recheck_seconds=0 offsets=0");
}

static int tear_down(void **state)
{
	end_watch();
	fastclk_close(&clk);
	return load_plainly(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(readers_fall_back_and_return, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_counter_that_was_set_is_found, set_up,
						tear_down),
	};

	const struct CMUnitTest tests_of_one_cpu[] = {
		cmocka_unit_test_setup_teardown(a_machine_that_really_slept_is_right_again,
						set_up, tear_down),
	};

	if (argc > 1)
		cycles = (unsigned int)atoi(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (sysconf(_SC_NPROCESSORS_CONF) == 1)
		return cmocka_run_group_tests(tests_of_one_cpu, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
