// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events: who polls /dev/fastclk, or its files in sysfs, learns of each change of the
 * verdict, once, and of nothing else. Run by guest_device.sh, with the module's test build,
 * which can be told that a CPU's counter is wrong.
 */
#include "device.h"

#include <sys/epoll.h>
#include <sys/select.h>

#define READABLE	(POLLIN | POLLRDNORM)

/* Far beyond what two CPUs need to see. */
#define FAULT		"1:100000000"

static void set_fault(const char *fault)
{
	assert_int_equal(write_text("/sys/module/fastclk/parameters/fault", fault), 0);
}

/* The counters are to be found in order, or out of order, by a new measurement. */
static void reach_verdict(const char *verdict)
{
	char value[ATTRIBUTE_SIZE];

	/* An empty write would not get through to the module. */
	set_fault(strcmp(verdict, "synced") ? FAULT : "\n");
	/* Where CPUs are short, a measurement may end without a result. The deadline ends this. */
	for (;;) {
		read_attribute("verdict", value);
		if (!strcmp(value, verdict))
			return;
		recheck();
	}
}

/* Whatever it is, it is to be the other one. */
static void change_verdict(void)
{
	char value[ATTRIBUTE_SIZE];

	read_attribute("verdict", value);
	reach_verdict(strcmp(value, "synced") ? "synced" : "unsynced");
}

static void says_that_it_is_a_test_build(void **state)
{
	struct fastclk_page copy;

	(void)state;
	read_device(&copy);
	assert_true(copy.header.features & FASTCLK_FEATURE_FAULT_INJECTION);
	assert_true(copy.hot.status & FASTCLK_STATUS_TEST_BUILD);
}

static void is_not_ready_after_open(void **state)
{
	struct fastclk_page copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(poll_now(fd), 0);
	assert_int_equal(read(fd, &copy, sizeof(copy)), sizeof(copy));
	assert_int_equal(poll_now(fd), 0);
	fd = open_device(O_RDWR);
	assert_int_equal(poll_now(fd), 0);
}

static void is_not_ready_when_nothing_changed(void **state)
{
	struct fastclk_page before, after;
	int fd;

	(void)state;
	reach_verdict("synced");
	read_device(&before);
	fd = open_device(O_RDONLY);
	recheck();
	assert_int_equal(poll_now(fd), 0);
	assert_int_equal(poll_for(fd, POLLIN, 100), 0);
	read_device(&after);
	assert_int_equal(after.hot.generation, before.hot.generation);
	assert_int_equal(after.hot.status, before.hot.status);
}

static void is_ready_until_read(void **state)
{
	struct fastclk_page copy;
	int first, second;

	(void)state;
	first = open_device(O_RDONLY);
	second = open_device(O_RDONLY);
	change_verdict();
	assert_int_equal(poll_for(first, POLLIN, SOON_MS), POLLIN);
	assert_int_equal(poll_now(first), READABLE);
	assert_int_equal(poll_now(first), READABLE);

	/* These are not the read that counts. */
	assert_int_equal(read(first, &copy, 0), 0);
	assert_int_equal(pread(first, &copy, sizeof(copy), 1), 0);
	assert_int_equal(read(first, nowhere, sizeof(copy)), -1);
	assert_int_equal(poll_now(first), READABLE);

	/* This is, if only of a part. */
	assert_int_equal(read(first, &copy, 8), 8);
	assert_int_equal(poll_now(first), 0);
	/* Each open file has its own. */
	assert_int_equal(poll_now(second), READABLE);
	assert_int_equal(pread(second, &copy, sizeof(copy), 0), sizeof(copy));
	assert_int_equal(poll_now(second), 0);
	/* And a new one has seen nothing, so it has missed nothing. */
	assert_int_equal(poll_now(open_device(O_RDONLY)), 0);

	change_verdict();
	assert_int_equal(poll_for(first, POLLIN, SOON_MS), POLLIN);
	assert_int_equal(poll_for(second, POLLIN, SOON_MS), POLLIN);
}

static void duplicates_share_what_was_seen(void **state)
{
	struct fastclk_page copy;
	int fd, other;

	(void)state;
	fd = open_device(O_RDONLY);
	other = dup(fd);
	assert_true(other >= 0);
	change_verdict();
	assert_int_equal(poll_for(other, POLLIN, SOON_MS), POLLIN);
	assert_int_equal(read(fd, &copy, sizeof(copy)), sizeof(copy));
	assert_int_equal(poll_now(other), 0);
}

static void the_page_follows_the_verdict(void **state)
{
	struct fastclk_page synced, unsynced, again;

	(void)state;
	reach_verdict("synced");
	read_device(&synced);
	assert_int_equal(synced.verdict.verdict, FASTCLK_VERDICT_SYNCED);
	assert_int_equal(synced.verdict.reason, FASTCLK_REASON_USABLE);
	assert_int_equal(synced.hot.status, FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_COMPARABLE |
			 FASTCLK_STATUS_CONSTANT_RATE | FASTCLK_STATUS_LOCKSTEP |
			 FASTCLK_STATUS_TEST_BUILD);

	reach_verdict("unsynced");
	read_device(&unsynced);
	assert_int_equal(unsynced.verdict.verdict, FASTCLK_VERDICT_UNSYNCED);
	assert_int_equal(unsynced.verdict.reason, FASTCLK_REASON_UNSYNCED);
	assert_int_equal(unsynced.hot.status, synced.hot.status & ~FASTCLK_STATUS_COMPARABLE);
	assert_int_not_equal(unsynced.hot.generation, synced.hot.generation);
	assert_true(unsynced.verdict.measurements > synced.verdict.measurements);
	assert_true(unsynced.verdict.max_warp_cycles > 0);
	assert_true(unsynced.verdict.max_warp_cycles <= 100000000);
	assert_int_equal(unsynced.verdict.bad_cpus, 2);
	assert_attribute("bad_cpus", "0-1");
	assert_attribute("worst_pair", "0,1");
	assert_attribute("reason", "unsynced");
	assert_attribute("mode", "lockstep");

	reach_verdict("synced");
	read_device(&again);
	assert_int_equal(again.hot.status, synced.hot.status);
	assert_int_not_equal(again.hot.generation, unsynced.hot.generation);
	assert_int_not_equal(again.hot.generation, synced.hot.generation);
	assert_true(again.verdict.max_warp_cycles == 0);
	assert_attribute("bad_cpus", "");
}

static int wait_in_poll(int says, void *argument)
{
	int fd = open(DEVICE, O_RDONLY);

	(void)argument;
	say(says);
	return poll_for(fd, POLLIN, -1) == POLLIN ? 0 : 1;
}

static int wait_in_select(int says, void *argument)
{
	int fd = open(DEVICE, O_RDONLY);
	fd_set set;

	(void)argument;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	say(says);
	return select(fd + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &set) ? 0 : 1;
}

static int wait_in_epoll(int says, void *argument)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int fd = open(DEVICE, O_RDONLY), epoll = epoll_create1(0);

	(void)argument;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		return 2;
	say(says);
	if (epoll_wait(epoll, &event, 1, -1) != 1 || event.events != EPOLLIN)
		return 3;
	/* Edge-triggered, and the edge was told. */
	return epoll_wait(epoll, &event, 1, 0) == 0 ? 0 : 4;
}

static void sleepers_are_woken(void **state)
{
	struct child poller, selector, epoller;

	(void)state;
	poller = start_child(wait_in_poll, NULL);
	selector = start_child(wait_in_select, NULL);
	epoller = start_child(wait_in_epoll, NULL);
	await_child(&poller);
	await_child(&selector);
	await_child(&epoller);
	assert_true(await_sleep(&poller));
	assert_true(await_sleep(&selector));
	assert_true(await_sleep(&epoller));
	change_verdict();
	assert_int_equal(end_child(&poller), 0);
	assert_int_equal(end_child(&selector), 0);
	assert_int_equal(end_child(&epoller), 0);
}

static int epoll_for(int epoll, int timeout_ms)
{
	struct epoll_event event;
	int ret = epoll_wait(epoll, &event, 1, timeout_ms);

	return ret == 1 ? (int)event.events : ret;
}

static void epoll_by_level_and_by_edge(void **state)
{
	struct epoll_event event = { .events = EPOLLIN };
	int level, edge, fd;
	struct fastclk_page copy;

	(void)state;
	level = epoll_create1(EPOLL_CLOEXEC);
	edge = epoll_create1(EPOLL_CLOEXEC);
	fd = open_device(O_RDONLY);
	assert_int_equal(epoll_ctl(level, EPOLL_CTL_ADD, fd, &event), 0);
	event.events = EPOLLIN | EPOLLET;
	assert_int_equal(epoll_ctl(edge, EPOLL_CTL_ADD, fd, &event), 0);
	assert_int_equal(epoll_for(level, 0), 0);
	assert_int_equal(epoll_for(edge, 0), 0);

	change_verdict();
	assert_int_equal(epoll_for(level, SOON_MS), EPOLLIN);
	assert_int_equal(epoll_for(level, 0), EPOLLIN);
	assert_int_equal(epoll_for(edge, SOON_MS), EPOLLIN);
	assert_int_equal(epoll_for(edge, 0), 0);

	assert_int_equal(pread(fd, &copy, sizeof(copy), 0), sizeof(copy));
	assert_int_equal(epoll_for(level, 0), 0);

	change_verdict();
	assert_int_equal(epoll_for(level, SOON_MS), EPOLLIN);
	assert_int_equal(epoll_for(edge, SOON_MS), EPOLLIN);
}

static void files_in_sysfs_can_be_polled(void **state)
{
	static const char * const names[] = { "verdict", "reason", "generation" };
	char path[256], text[ATTRIBUTE_SIZE];
	unsigned int i;
	int fds[3];

	(void)state;
	for (i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), ATTRIBUTES "%s", names[i]);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fds[i] >= 0);
		/* A file in sysfs is ready until it is read. */
		assert_true(read(fds[i], text, sizeof(text)) > 0);
		assert_int_equal(poll_for(fds[i], POLLPRI, 0), 0);
	}
	change_verdict();
	for (i = 0; i < 3; i++) {
		assert_int_equal(poll_for(fds[i], POLLPRI, SOON_MS), POLLPRI | POLLERR);
		assert_true(pread(fds[i], text, sizeof(text), 0) > 0);
		assert_int_equal(poll_for(fds[i], POLLPRI, 0), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		bounded_test(says_that_it_is_a_test_build),
		bounded_test(is_not_ready_after_open),
		bounded_test(is_not_ready_when_nothing_changed),
		bounded_test(is_ready_until_read),
		bounded_test(duplicates_share_what_was_seen),
		bounded_test(the_page_follows_the_verdict),
		bounded_test(sleepers_are_woken),
		bounded_test(epoll_by_level_and_by_edge),
		bounded_test(files_in_sysfs_can_be_polled),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
