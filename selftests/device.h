/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of the device share. They run as root in a guest of their own, in which
 * /fastclk.ko is loaded when they begin and when they end.
 */
#ifndef _SELFTESTS_DEVICE_H
#define _SELFTESTS_DEVICE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/fastclk.h>

#define DEVICE		"/dev/fastclk"
#define ATTRIBUTES	"/sys/class/misc/fastclk/"
#define MODULE_FILE	"/fastclk.ko"

/* More than any test takes, even where CPUs are short: what hangs is ended by SIGALRM. */
#define DEADLINE_S	120

/* How long to wait for what should come at once. */
#define SOON_MS		20000

#define CAPABILITIES	(FASTCLK_STATUS_LINE_VALID | FASTCLK_STATUS_COMPARABLE |	\
			 FASTCLK_STATUS_OFFSETS | FASTCLK_STATUS_CONSTANT_RATE |	\
			 FASTCLK_STATUS_LOCKSTEP)

/* A test with a deadline, whose files, mappings and processes do not outlive it. */
#define bounded_test(function)	cmocka_unit_test_setup_teardown(function, begin_test, end_test)

#define MOST_KEPT	64
static void *kept_mappings[MOST_KEPT];
static pid_t kept_children[MOST_KEPT];

static inline int begin_test(void **state)
{
	(void)state;
	alarm(DEADLINE_S);
	return 0;
}

static inline int end_test(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < MOST_KEPT; i++) {
		if (kept_children[i]) {
			kill(kept_children[i], SIGKILL);
			waitpid(kept_children[i], NULL, 0);
		}
		if (kept_mappings[i])
			munmap(kept_mappings[i], sysconf(_SC_PAGESIZE));
		kept_children[i] = 0;
		kept_mappings[i] = NULL;
	}
	syscall(SYS_close_range, 3, ~0U, 0);
	alarm(0);
	return 0;
}

/* NULL, which the compiler does not know. */
static void *volatile nowhere __attribute__((unused));

/* For what has no event to wait for. */
static inline void pause_ms(unsigned int ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&time, NULL);
}

/* --- the device */

static inline int open_device(int flags)
{
	int fd = open(DEVICE, flags | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s does not open: %s", DEVICE, strerror(errno));
	return fd;
}

static inline const struct fastclk_page *map_device(int fd)
{
	size_t length = sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	unsigned int i;

	if (page == MAP_FAILED)
		fail_msg("%s can't be mapped: %s", DEVICE, strerror(errno));
	for (i = 0; i < MOST_KEPT && kept_mappings[i]; i++)
		;
	assert_true(i < MOST_KEPT);
	kept_mappings[i] = page;
	return page;
}

/* How much there is to be read: the page, the table of offsets, and what is between. */
static inline size_t device_size(void)
{
	struct fastclk_page_header header;
	int fd = open_device(O_RDONLY);

	assert_int_equal(read(fd, &header, sizeof(header)), sizeof(header));
	close(fd);
	return header.table_count ? header.table_offset + header.table_count *
				    header.table_entry_size : header.size;
}

static inline void unmap_device(const struct fastclk_page *page)
{
	unsigned int i;

	for (i = 0; i < MOST_KEPT; i++)
		if (kept_mappings[i] == page)
			kept_mappings[i] = NULL;
	munmap((void *)(uintptr_t)page, sysconf(_SC_PAGESIZE));
}

/* A consistent copy of a mapped page. The writer may lose its CPU in between: wait for it. */
static inline void copy_page(const struct fastclk_page *page, struct fastclk_page *copy)
{
	uint32_t seq;

	do {
		while ((seq = __atomic_load_n(&page->hot.seq, __ATOMIC_ACQUIRE)) & 1)
			;
		memcpy(copy, page, sizeof(*copy));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&page->hot.seq, __ATOMIC_RELAXED) != seq);
	copy->hot.seq = seq;
}

static inline void read_device(struct fastclk_page *copy)
{
	int fd = open_device(O_RDONLY);

	assert_int_equal(read(fd, copy, sizeof(*copy)), sizeof(*copy));
	close(fd);
}

/* What poll() says of a file at once, or when something comes soon. */
static inline short poll_for(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (poll(&p, 1, timeout_ms) < 0)
		fail_msg("poll: %s", strerror(errno));
	return p.revents;
}

static inline short poll_now(int fd)
{
	return poll_for(fd, POLLIN | POLLPRI | POLLOUT | POLLRDNORM, 0);
}

/* --- files below /sys and /proc */

/* The text of a file, or a negative errno. */
static inline int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return -errno;
	length = read(fd, text, size - 1);
	if (length < 0)
		length = -errno;
	text[length < 0 ? 0 : length] = 0;
	close(fd);
	return length;
}

static inline int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

#define ATTRIBUTE_SIZE	4096

/* An attribute's value, without the newline at its end. */
static inline void read_attribute(const char *name, char value[ATTRIBUTE_SIZE])
{
	char path[256];
	int length;

	snprintf(path, sizeof(path), ATTRIBUTES "%s", name);
	length = read_text(path, value, ATTRIBUTE_SIZE);
	if (length < 0)
		fail_msg("%s can't be read: %s", path, strerror(-length));
	if (!length || value[length - 1] != '\n')
		fail_msg("%s is \"%s\", which does not end with a newline", path, value);
	value[length - 1] = 0;
}

static inline void assert_attribute(const char *name, const char *expected)
{
	char value[ATTRIBUTE_SIZE];

	read_attribute(name, value);
	if (strcmp(value, expected))
		fail_msg("%s is \"%s\" and not \"%s\"", name, value, expected);
}

static inline int write_attribute(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), ATTRIBUTES "%s", name);
	return write_text(path, text);
}

/*
 * Have the CPUs measured again, as soon as the rate limit allows. Return: 0, or -ETIMEDOUT
 * where they could not be reached.
 */
static inline int recheck(void)
{
	int ret;

	while ((ret = write_attribute("recheck", "1")) == -EBUSY)
		pause_ms(20);
	if (ret && ret != -ETIMEDOUT)
		fail_msg("recheck: %s", strerror(-ret));
	return ret;
}

/* --- the module */

static inline int load_module(const char *parameters)
{
	int fd = open(MODULE_FILE, O_RDONLY | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		fail_msg("%s: %s", MODULE_FILE, strerror(errno));
	if (syscall(SYS_finit_module, fd, parameters, 0))
		ret = -errno;
	close(fd);
	return ret;
}

/* What is enough where the verdict does not matter: a load then takes no longer on a busy host. */
#define QUICKLY		"budget_ms=10"

/* No measurement at all, so no threads, and nothing goes on in the background. */
#define QUIETLY		"cpus=0"

static inline int unload_module(void)
{
	return syscall(SYS_delete_module, "fastclk", O_NONBLOCK) ? -errno : 0;
}

static inline bool module_is_loaded(void)
{
	return !access("/sys/module/fastclk", F_OK);
}

static inline int module_references(void)
{
	char text[32];
	int ret = read_text("/sys/module/fastclk/refcnt", text, sizeof(text));

	return ret < 0 ? ret : atoi(text);
}

/*
 * Unload it as soon as nobody uses it. While a measurement goes on in the background, since
 * CPUs are short, its threads do.
 */
static inline void unload_when_free(void)
{
	int ret;

	while ((ret = unload_module())) {
		if (ret != -EWOULDBLOCK)
			fail_msg("the module does not unload: %s", strerror(-ret));
		pause_ms(1);
	}
}

/* Until the verdict is final, and nothing goes on in the background. */
static inline void settle(void)
{
	struct fastclk_page copy;
	unsigned int failed = 0;

	for (;;) {
		read_device(&copy);
		if (copy.verdict.verdict == FASTCLK_VERDICT_SYNCED)
			break;
		recheck();
		if (++failed % 5 == 0) {
			print_message("# measured %u times, and no verdict: CPUs are short\n",
				      failed);
			fflush(stdout);
		}
	}
	while (module_references() > 0)
		;
}

static inline int begin_settled(void **state)
{
	begin_test(state);
	if (module_is_loaded())
		unload_when_free();
	assert_int_equal(load_module(""), 0);
	settle();
	return 0;
}

/* A test that needs the verdict. */
#define settled_test(function)	\
	cmocka_unit_test_setup_teardown(function, begin_settled, end_test)

static inline int begin_quiet(void **state)
{
	begin_test(state);
	if (module_is_loaded())
		unload_when_free();
	assert_int_equal(load_module(QUIETLY), 0);
	return 0;
}

static inline int end_quiet(void **state)
{
	end_test(state);
	if (!module_is_loaded())
		load_module(QUIETLY);
	return 0;
}

/* A test with a module that was just loaded, and on which nothing but the test acts. */
#define quiet_test(function)	\
	cmocka_unit_test_setup_teardown(function, begin_quiet, end_quiet)

/* --- the kernel log */

/* From here on. */
static inline int open_log(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	assert_true(fd >= 0);
	lseek(fd, 0, SEEK_END);
	return fd;
}

static inline bool next_log_line(int log, char *line, size_t size)
{
	ssize_t length;

	do {
		length = read(log, line, size - 1);
	} while (length < 0 && errno == EPIPE);
	if (length < 0)
		return false;
	line[length] = 0;
	return true;
}

/* --- other processes */

/*
 * struct child - a process of the test
 * @pid: the process
 * @says: from it; ends with it
 */
struct child {
	pid_t pid;
	int says;
};

/*
 * Have a function run in another process. It returns the exit status and must not use
 * assertions, which would go on with the next test. What it writes to @says, can be
 * waited for.
 */
static inline struct child start_child(int (*run)(int says, void *argument), void *argument)
{
	struct child child;
	unsigned int i;
	int ends[2];

	for (i = 0; i < MOST_KEPT && kept_children[i]; i++)
		;
	assert_true(i < MOST_KEPT);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fflush(NULL);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (!child.pid) {
		close(ends[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(DEADLINE_S);
		_exit(run(ends[1], argument));
	}
	close(ends[1]);
	child.says = ends[0];
	kept_children[i] = child.pid;
	return child;
}

static inline void say(int says)
{
	if (write(says, "", 1) != 1)
		_exit(99);
}

/* Until it has said so once more. */
static inline void await_child(const struct child *child)
{
	char byte;

	if (read(child->says, &byte, 1) != 1)
		fail_msg("process %d ended early", child->pid);
}

/* Until it ends. Return: its exit status, or 128 and the signal. */
static inline int end_child(const struct child *child)
{
	unsigned int i;
	int status;

	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	close(child->says);
	for (i = 0; i < MOST_KEPT; i++)
		if (kept_children[i] == child->pid)
			kept_children[i] = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int run_child(int (*run)(int says, void *argument), void *argument)
{
	struct child child = start_child(run, argument);

	return end_child(&child);
}

/* Until a process sleeps in a system call. Return: false if it has ended. */
static inline bool await_sleep(const struct child *child)
{
	char path[64], text[256];
	const char *state;

	for (;;) {
		snprintf(path, sizeof(path), "/proc/%d/syscall", child->pid);
		if (read_text(path, text, sizeof(text)) > 0 && text[0] >= '0' && text[0] <= '9')
			return true;
		snprintf(path, sizeof(path), "/proc/%d/stat", child->pid);
		assert_true(read_text(path, text, sizeof(text)) > 0);
		state = strrchr(text, ')');
		if (state && state[2] == 'Z')
			return false;
	}
}

static inline int become_nobody(void)
{
	return setgroups(0, NULL) || setgid(65534) || setuid(65534);
}

#endif /* _SELFTESTS_DEVICE_H */
