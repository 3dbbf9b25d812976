/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Does everybody learn of an event? Watches all the ways in which the module tells that
 * something changed: poll() on the device, poll() on files in sysfs, uevents and tracepoints.
 *
 *	struct events events;
 *
 *	events_open(&events);
 *	... do what is an event ...
 *	text = events_missing(&events, EVENTS_CHANGE, "FASTCLK_MODE=disciplined", SOON_MS);
 *	if (text)
 *		... was not told: text
 *	... next event ...
 *	events_close(&events);
 *
 * Runs as root, in a guest of its own, with the module loaded. Needs neither cmocka nor
 * device.h; all waits are bounded.
 */
#ifndef _SELFTESTS_EVENTS_H
#define _SELFTESTS_EVENTS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <linux/fastclk.h>
#include <linux/netlink.h>

/* Who is to be told. */
#define EVENTS_POLL		(1U << 0)	/* poll() on /dev/fastclk */
#define EVENTS_VERDICT		(1U << 1)	/* poll() on the files in sysfs */
#define EVENTS_REASON		(1U << 2)
#define EVENTS_MODE		(1U << 3)
#define EVENTS_GENERATION	(1U << 4)
#define EVENTS_UEVENT		(1U << 5)
#define EVENTS_TRACE_VERDICT	(1U << 6)	/* tracepoints: the verdict changed */
#define EVENTS_TRACE_MODE	(1U << 7)	/* mode, reason or generation did */
#define EVENTS_TRACE_UPDATE	(1U << 8)	/* a line was published */
#define EVENTS_TRACE_EXCHANGE	(1U << 9)	/* a pair of CPUs was measured */

/* Who is told whenever mode, reason or generation change; all other changes are of these, too. */
#define EVENTS_CHANGE	(EVENTS_POLL | EVENTS_VERDICT | EVENTS_REASON | EVENTS_MODE |	\
			 EVENTS_GENERATION | EVENTS_UEVENT | EVENTS_TRACE_MODE)
/* And when the verdict does. */
#define EVENTS_VERDICT_CHANGE	(EVENTS_CHANGE | EVENTS_TRACE_VERDICT | EVENTS_TRACE_EXCHANGE)

#define EVENTS_KINDS	10
#define EVENTS_FILES	6			/* those of the first ones that are polled */

#define EVENTS_TRACING	"/sys/kernel/tracing/"
#define EVENTS_INSTANCE	EVENTS_TRACING "instances/fastclk_test/"
#define EVENTS_DEVPATH	"DEVPATH=/devices/virtual/misc/fastclk"

static const char * const events_names[EVENTS_KINDS] = {
	"poll() on /dev/fastclk", "verdict in sysfs", "reason in sysfs", "mode in sysfs",
	"generation in sysfs", "uevent", "tracepoint verdict", "tracepoint mode",
	"tracepoint update", "tracepoint exchange",
};

/*
 * struct events - watchers
 * @files: device, sysfs, uevents
 * @trace: trace_pipe
 * @seen: EVENTS_* since events_open() or the last events_missing()
 * @count: how often each was seen since events_open()
 * @uevent: the last one, its variables separated by newlines
 * @lines: of each tracepoint, the last line
 * @partial, @length: a line of which the end is to come
 * @text: for events_missing()
 */
struct events {
	struct pollfd files[EVENTS_FILES];
	int trace;
	unsigned int seen;
	unsigned long count[EVENTS_KINDS];
	char uevent[2048];
	char lines[EVENTS_KINDS][256];
	char partial[4096];
	size_t length;
	char text[1024];
};

static inline unsigned int events_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done;

	if (fd < 0)
		return errno;
	done = write(fd, text, strlen(text)) > 0;
	close(fd);
	return done ? 0 : EIO;
}

static inline void events_die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	fflush(NULL);
	_exit(99);
}

static inline int events_netlink(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		events_die("NETLINK_KOBJECT_UEVENT");
	return fd;
}

/* A buffer of its own, so that nobody else's events are in it. */
static inline int events_tracing(void)
{
	int fd;

	if (access(EVENTS_TRACING "instances", F_OK) &&
	    mount("tracefs", EVENTS_TRACING, "tracefs", 0, NULL))
		events_die("tracefs");
	if (mkdir(EVENTS_INSTANCE, 0700) && errno != EEXIST)
		events_die(EVENTS_INSTANCE);
	fd = open(EVENTS_INSTANCE "trace_pipe", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		events_die("trace_pipe");
	if (events_write(EVENTS_INSTANCE "events/fastclk/enable", "1"))
		events_die("events/fastclk");
	return fd;
}

/* All of what is to be read is read, so that the next event is seen. */
static inline void events_drain(int fd)
{
	char text[4096];

	if (pread(fd, text, sizeof(text), 0) < 0)
		return;
}

/**
 * events_open - begin to watch
 * @e: result; whatever happened before is not seen
 *
 * Ends the program if it can't be done.
 */
static inline void events_open(struct events *e)
{
	static const char * const paths[EVENTS_FILES - 1] = {
		"/dev/fastclk", "/sys/class/misc/fastclk/verdict",
		"/sys/class/misc/fastclk/reason", "/sys/class/misc/fastclk/mode",
		"/sys/class/misc/fastclk/generation",
	};
	unsigned int i;

	memset(e, 0, sizeof(*e));
	for (i = 0; i < EVENTS_FILES - 1; i++) {
		e->files[i].fd = open(paths[i], O_RDONLY | O_CLOEXEC);
		if (e->files[i].fd < 0)
			events_die(paths[i]);
		e->files[i].events = i ? POLLPRI : POLLIN;
		events_drain(e->files[i].fd);
	}
	e->files[i].fd = events_netlink();
	e->files[i].events = POLLIN;
	e->trace = events_tracing();
}

static inline void events_note(struct events *e, unsigned int kind)
{
	e->seen |= 1U << kind;
	e->count[kind]++;
}

/* The value of a variable of the last uevent, or NULL. */
static inline const char *events_variable(const struct events *e, const char *name)
{
	static char value[128];
	const char *at = e->uevent;
	size_t length = strlen(name);

	for (; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (!strncmp(at, name, length) && at[length] == '=') {
			snprintf(value, sizeof(value), "%.*s",
				 (int)strcspn(at + length + 1, "\n"), at + length + 1);
			return value;
		}
	return NULL;
}

/* Is "NAME=VALUE" in the last uevent? */
static inline bool events_says(const struct events *e, const char *variable)
{
	char name[64];
	const char *value = strchr(variable, '='), *found;

	snprintf(name, sizeof(name), "%.*s", (int)(value - variable), variable);
	found = events_variable(e, name);
	return found && !strcmp(found, value + 1);
}

static inline void events_read_uevents(struct events *e, const char *expected)
{
	char text[sizeof(e->uevent)];
	ssize_t length;
	char *at;

	/* ENOBUFS says that some were lost; what comes next is read as well. */
	while ((length = recv(e->files[EVENTS_FILES - 1].fd, text, sizeof(text) - 1, 0)) > 0 ||
	       (length < 0 && errno == ENOBUFS)) {
		if (length < 0)
			continue;
		text[length] = '\0';
		for (at = text; at < text + length; at++)
			if (!*at)
				*at = '\n';
		if (!strstr(text, "\n" EVENTS_DEVPATH "\n") || !strstr(text, "\nACTION=change\n"))
			continue;
		memcpy(e->uevent, text, (size_t)length + 1);
		e->count[EVENTS_FILES - 1]++;
		if (!expected || events_says(e, expected))
			e->seen |= EVENTS_UEVENT;
	}
}

static inline void events_read_line(struct events *e, const char *line)
{
	static const char * const names[] = { ": verdict: ", ": mode: ", ": update: ",
					      ": exchange: " };
	const char *at;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		at = strstr(line, names[i]);
		if (!at)
			continue;
		snprintf(e->lines[EVENTS_FILES + i], sizeof(e->lines[0]), "%s",
			 at + strlen(names[i]));
		events_note(e, EVENTS_FILES + i);
	}
}

static inline void events_read_trace(struct events *e)
{
	char *line, *end;
	ssize_t length;

	while ((length = read(e->trace, e->partial + e->length,
			      sizeof(e->partial) - 1 - e->length)) > 0) {
		e->length += (size_t)length;
		e->partial[e->length] = '\0';
		for (line = e->partial; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			events_read_line(e, line);
		}
		e->length = strlen(line);
		memmove(e->partial, line, e->length + 1);
		if (e->length == sizeof(e->partial) - 1)
			e->length = 0;
	}
}

/* Take in what there is, and wait for more for up to @ms. */
static inline void events_look(struct events *e, const char *expected, int ms)
{
	unsigned int i;

	if (poll(e->files, EVENTS_FILES, ms) > 0) {
		for (i = 0; i < EVENTS_FILES - 1; i++) {
			if (!(e->files[i].revents & (e->files[i].events | POLLHUP)))
				continue;
			events_note(e, i);
			events_drain(e->files[i].fd);
		}
		events_read_uevents(e, expected);
	}
	/* After the uevents, which come later than what is traced. */
	events_read_trace(e);
}

static inline long events_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000L + now.tv_nsec / 1000000L;
}

/**
 * events_missing - wait until all that are wanted were told of an event
 * @e: watchers
 * @wanted: EVENTS_*
 * @expected: what the uevent must say to count, "FASTCLK_VERDICT=unsynced"; NULL: whatever
 * @timeout_ms: wait for so long
 *
 * What happened since events_open(), or since this was called the last time, counts. Where
 * one event follows another, @expected tells which is meant. Return: NULL, or a text that
 * says who was not told.
 */
static inline const char *events_missing(struct events *e, unsigned int wanted,
					 const char *expected, int timeout_ms)
{
	long end = events_now_ms() + timeout_ms;
	const char *mode;
	unsigned int i;

	for (;;) {
		events_look(e, expected, 10);
		if (!(wanted & ~e->seen)) {
			e->seen = 0;
			return NULL;
		}
		if (events_now_ms() > end)
			break;
	}

	e->text[0] = '\0';
	for (i = 0; i < EVENTS_KINDS; i++)
		if (wanted & ~e->seen & (1U << i))
			snprintf(e->text + strlen(e->text), sizeof(e->text) - strlen(e->text),
				 "%s%s", *e->text ? ", " : "not told: ", events_names[i]);
	mode = events_variable(e, "FASTCLK_MODE");
	if (wanted & ~e->seen & EVENTS_UEVENT)
		snprintf(e->text + strlen(e->text), sizeof(e->text) - strlen(e->text),
			 " (wanted %s; %lu came, the last with mode %s)",
			 expected ? expected : "any", e->count[EVENTS_FILES - 1],
			 mode ? mode : "none");
	e->seen = 0;
	return e->text;
}

/**
 * events_forget - what happened so far does not count
 * @e: watchers
 */
static inline void events_forget(struct events *e)
{
	events_look(e, NULL, 0);
	e->seen = 0;
}

/**
 * events_close - the end
 * @e: watchers
 */
static inline void events_close(struct events *e)
{
	unsigned int i;

	for (i = 0; i < EVENTS_FILES; i++)
		close(e->files[i].fd);
	events_write(EVENTS_INSTANCE "events/fastclk/enable", "0");
	close(e->trace);
	rmdir(EVENTS_INSTANCE);
}

#endif /* _SELFTESTS_EVENTS_H */
