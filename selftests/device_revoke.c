// SPDX-License-Identifier: GPL-2.0-only
/*
 * Revoking: root can take the page back from all who use it, so that the module can be
 * unloaded while they still have it open and mapped. They see it at once, fall back, and
 * nothing happens to them or to the kernel, whatever they do with what they still have.
 * Run by guest_device.sh.
 */
#include "device.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#define SIZE	sizeof(struct fastclk_page)

static void revoke_all(void)
{
	assert_int_equal(write_attribute("revoke", "1"), 0);
}

static void unload(void)
{
	int ret = unload_module();

	if (ret)
		fail_msg("the module does not unload: %s", strerror(-ret));
	assert_false(module_is_loaded());
	assert_int_equal(access(DEVICE, F_OK), -1);
}

static void assert_revoked(const struct fastclk_page *p)
{
	assert_true(p->header.magic == FASTCLK_MAGIC);
	assert_int_equal(p->hot.seq & 1, 0);
	assert_int_equal(p->hot.status & CAPABILITIES, 0);
	assert_int_equal(p->verdict.reason, FASTCLK_REASON_REVOKED);
	assert_int_equal(p->verdict.mode, FASTCLK_MODE_UNUSABLE);
}

static void takes_the_capabilities_away(void **state)
{
	const struct fastclk_page *page;
	struct fastclk_page before, after;

	(void)state;
	page = map_device(open_device(O_RDONLY));
	copy_page(page, &before);
	assert_true(before.hot.status & FASTCLK_STATUS_LINE_VALID);
	revoke_all();
	copy_page(page, &after);
	assert_revoked(&after);
	assert_int_not_equal(after.hot.generation, before.hot.generation);
	assert_attribute("reason", "revoked");
	assert_attribute("mode", "unusable");
}

static void stays_revoked(void **state)
{
	const struct fastclk_page *page;
	struct fastclk_page first, copy;

	(void)state;
	page = map_device(open_device(O_RDONLY));
	revoke_all();
	copy_page(page, &first);
	/* Neither further measurements nor updates give anything back. */
	recheck();
	do {
		copy_page(page, &copy);
		assert_revoked(&copy);
		assert_int_equal(copy.hot.generation, first.hot.generation);
	} while (copy.clocks.updates < first.clocks.updates + 10);
	/* Once more changes nothing, and unloading still works. */
	revoke_all();
	copy_page(page, &copy);
	assert_int_equal(copy.hot.generation, first.hot.generation);
	assert_int_equal(module_references(), 0);
	unload();
}

static void closes_the_device(void **state)
{
	struct fastclk_page copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(module_references(), 1);
	revoke_all();
	assert_int_equal(module_references(), 0);

	assert_int_equal(read(fd, &copy, SIZE), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(pread(fd, &copy, SIZE, 0), -1);
	assert_int_equal(errno, ENODEV);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(poll_now(fd) & (POLLHUP | POLLERR), POLLHUP | POLLERR);
	assert_int_equal(open(DEVICE, O_RDONLY), -1);
	assert_int_equal(errno, ENODEV);

	close(fd);
	assert_int_equal(module_references(), 0);
	unload();
}

static int wait_for_hangup(int says, void *argument)
{
	int fd = open(DEVICE, O_RDONLY);
	short events;

	(void)argument;
	say(says);
	/* Nothing but what can't be left out. */
	events = poll_for(fd, 0, -1);
	return events == (POLLHUP | POLLERR) ? 0 : 1;
}

static int wait_for_readable(int says, void *argument)
{
	int fd = open(DEVICE, O_RDONLY);

	(void)argument;
	say(says);
	/* The page goes first, which is an event, and then the file. */
	return poll_for(fd, POLLIN, -1) & (POLLIN | POLLHUP) ? 0 : 1;
}

static void wakes_who_polls(void **state)
{
	struct child hangup, readable;

	(void)state;
	hangup = start_child(wait_for_hangup, NULL);
	readable = start_child(wait_for_readable, NULL);
	await_child(&hangup);
	await_child(&readable);
	assert_true(await_sleep(&hangup));
	assert_true(await_sleep(&readable));
	revoke_all();
	assert_int_equal(end_child(&hangup), 0);
	assert_int_equal(end_child(&readable), 0);
	unload();
}

static int poll_until_readable(int says, void *argument)
{
	int fd = open(DEVICE, O_RDONLY);
	short events;

	(void)argument;
	say(says);
	/* Wakes with POLLHUP, and polls again, until the module is gone. */
	do
		events = poll_for(fd, POLLIN, -1);
	while (events & POLLHUP);
	return events == POLLIN ? 0 : 1;
}

static void unloads_under_a_busy_poller(void **state)
{
	struct child child;

	(void)state;
	child = start_child(poll_until_readable, NULL);
	await_child(&child);
	assert_true(await_sleep(&child));
	revoke_all();
	unload();
	assert_int_equal(end_child(&child), 0);
}

/* What can be done with a file of a module that is gone. */
static void assert_buried(int fd)
{
	struct fastclk_page copy;
	int other, value;

	assert_int_equal(read(fd, &copy, SIZE), -1);
	assert_int_equal(errno, EISDIR);
	assert_int_equal(pread(fd, &copy, SIZE, 0), -1);
	assert_int_equal(errno, EISDIR);
	/* Vectored reads do not look whether there is a function for reading. */
	assert_int_equal(readv(fd, &(struct iovec){ &copy, SIZE }, 1), -1);
	assert_int_equal(errno, EISDIR);
	assert_int_equal(preadv(fd, &(struct iovec){ &copy, SIZE }, 1, 0), -1);
	assert_int_equal(errno, EISDIR);
	assert_int_equal(poll_now(fd) & (POLLIN | POLLRDNORM), POLLIN | POLLRDNORM);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(ioctl(fd, FIONREAD, &value), -1);
	lseek(fd, 0, SEEK_SET);
	other = dup(fd);
	assert_true(other >= 0);
	close(other);
	assert_true(fcntl(fd, F_GETFL) >= 0);
}

static void the_page_outlives_the_module(void **state)
{
	const struct fastclk_page *page;
	struct fastclk_page before, after;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	page = map_device(fd);
	revoke_all();
	unload();
	copy_page(page, &before);
	assert_revoked(&before);
	assert_buried(fd);
	/* Whatever else gets memory now, does not get this. */
	assert_int_equal(load_module(QUIETLY), 0);
	unload();
	copy_page(page, &after);
	assert_memory_equal(&before, &after, SIZE);
	close(fd);
	copy_page(page, &after);
	assert_memory_equal(&before, &after, SIZE);
}

static void a_new_module_does_not_know_the_old_page(void **state)
{
	const struct fastclk_page *old, *new;
	struct fastclk_page first, copy, fresh;
	int fd, fd_new;

	(void)state;
	fd = open_device(O_RDONLY);
	old = map_device(fd);
	revoke_all();
	unload();
	copy_page(old, &first);

	assert_int_equal(load_module(QUIETLY), 0);
	fd_new = open_device(O_RDONLY);
	new = map_device(fd_new);
	copy_page(new, &fresh);
	assert_true(fresh.hot.status & FASTCLK_STATUS_LINE_VALID);
	assert_int_not_equal(fresh.hot.generation, first.hot.generation);
	do
		copy_page(new, &copy);
	while (copy.clocks.updates < fresh.clocks.updates + 3);
	copy_page(old, &copy);
	assert_memory_equal(&copy, &first, SIZE);

	/* Nor does the old file count for the new module. */
	assert_buried(fd);
	close(fd);
	unmap_device(old);
	assert_int_equal(module_references(), 1);
}

static void an_epoll_set_may_keep_the_file(void **state)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll[2], fd[2], i;

	(void)state;
	for (i = 0; i < 2; i++) {
		epoll[i] = epoll_create1(EPOLL_CLOEXEC);
		fd[i] = open_device(O_RDONLY);
		event.events = i ? EPOLLIN | EPOLLET : EPOLLIN;
		assert_int_equal(epoll_ctl(epoll[i], EPOLL_CTL_ADD, fd[i], &event), 0);
		assert_int_equal(epoll_wait(epoll[i], &event, 1, 0), 0);
	}
	revoke_all();
	for (i = 0; i < 2; i++) {
		assert_int_equal(epoll_wait(epoll[i], &event, 1, SOON_MS), 1);
		assert_true(event.events & EPOLLHUP);
	}
	unload();
	/* Ready, as a file that can't be polled is. */
	assert_int_equal(epoll_wait(epoll[0], &event, 1, SOON_MS), 1);
	assert_true(event.events & EPOLLIN);
	assert_int_equal(load_module(QUIETLY), 0);

	/* The set goes first, or the file. */
	close(epoll[0]);
	close(fd[0]);
	close(fd[1]);
	assert_int_equal(epoll_wait(epoll[1], &event, 1, 0), 0);
	close(epoll[1]);
	assert_int_equal(module_references(), 0);
}

static int be_stopped(int says, void *argument)
{
	int fd = open(DEVICE, O_RDONLY);
	const struct fastclk_page *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	struct fastclk_page copy;

	(void)argument;
	if (page == MAP_FAILED)
		return 1;
	say(says);
	/* Is stopped in here, and sees nothing of what happens. */
	if (!(poll_for(fd, POLLIN, -1) & POLLIN))
		return 2;
	copy_page(page, &copy);
	if (copy.hot.status & CAPABILITIES || copy.verdict.reason != FASTCLK_REASON_REVOKED)
		return 3;
	if (read(fd, &copy, SIZE) != -1 || errno != EISDIR)
		return 4;
	return 0;
}

static void a_stopped_process_wakes_in_another_world(void **state)
{
	struct child child;
	int status;

	(void)state;
	child = start_child(be_stopped, NULL);
	await_child(&child);
	assert_true(await_sleep(&child));
	kill(child.pid, SIGSTOP);
	assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
	assert_true(WIFSTOPPED(status));
	revoke_all();
	unload();
	assert_int_equal(load_module(QUIETLY), 0);
	kill(child.pid, SIGCONT);
	assert_int_equal(end_child(&child), 0);
	assert_int_equal(module_references(), 0);
}

/* From opening until long after the end of it: in each call when the module goes. */
static int keep_using(int says, void *argument)
{
	struct fastclk_page copy;
	bool alive, buried;
	void *page;
	int fd;

	(void)argument;
	say(says);
	for (;;) {
		fd = open(DEVICE, O_RDONLY);
		buried = fd < 0;
		while (!buried) {
			page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
			alive = pread(fd, &copy, SIZE, 0) == SIZE;
			buried = !alive && errno == EISDIR;
			if (alive && copy.header.magic != FASTCLK_MAGIC)
				return 1;
			poll_for(fd, POLLIN, 0);
			if (page == MAP_FAILED)
				continue;
			if (((struct fastclk_page *)page)->header.magic != FASTCLK_MAGIC)
				return 2;
			munmap(page, 4096);
		}
		close(fd);
	}
}

/* The same, but closing all the time. */
static int keep_closing(int says, void *argument)
{
	struct fastclk_page copy;
	int fd;

	(void)argument;
	say(says);
	for (;;) {
		fd = open(DEVICE, O_RDONLY);
		if (pread(fd, &copy, SIZE, 0) == SIZE && copy.header.magic != FASTCLK_MAGIC)
			return 1;
		close(fd);
	}
}

#define USERS	6
#define ROUNDS	10

static void can_be_revoked_under_fire(void **state)
{
	static int (* const run[3])(int says, void *argument) = {
		poll_until_readable, keep_using, keep_closing,
	};
	struct child users[USERS];
	unsigned int i, busy = 0;
	int ret;

	(void)state;
	for (i = 0; i < USERS; i++) {
		users[i] = start_child(run[i % 3], NULL);
		await_child(&users[i]);
	}
	for (i = 0; i < ROUNDS; i++) {
		revoke_all();
		/* Who is inside at the moment holds it, but nobody does for long. */
		while ((ret = unload_module()) == -EWOULDBLOCK)
			busy++;
		assert_int_equal(ret, 0);
		assert_int_equal(load_module(QUIETLY), 0);
	}
	print_message("# %u times in use\n", busy);
	for (i = 0; i < USERS; i++) {
		if (i % 3 == 0)
			continue;
		kill(users[i].pid, SIGKILL);
		assert_int_equal(end_child(&users[i]), 128 + SIGKILL);
	}
	for (i = 0; i < USERS; i += 3)
		assert_int_equal(end_child(&users[i]), 0);
	assert_int_equal(module_references(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		quiet_test(takes_the_capabilities_away),
		quiet_test(stays_revoked),
		quiet_test(closes_the_device),
		quiet_test(wakes_who_polls),
		quiet_test(unloads_under_a_busy_poller),
		quiet_test(the_page_outlives_the_module),
		quiet_test(a_new_module_does_not_know_the_old_page),
		quiet_test(an_epoll_set_may_keep_the_file),
		quiet_test(a_stopped_process_wakes_in_another_world),
		quiet_test(can_be_revoked_under_fire),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
