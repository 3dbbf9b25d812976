// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading: what is open or mapped holds the module, and nothing else does;
 * nothing is left behind, neither threads nor memory nor remarks in the kernel log; and a
 * loader that is killed does no harm. Run by guest_device.sh.
 */
#include "device.h"

#include <ctype.h>
#include <dirent.h>
#include <sys/resource.h>

#define MANY	1000

/* How many threads of the module there are. */
static unsigned int count_threads(void)
{
	const struct dirent *entry;
	char path[300], name[64];
	unsigned int count = 0;
	DIR *dir;

	dir = opendir("/proc");
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (!isdigit(entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		if (read_text(path, name, sizeof(name)) > 0)
			count += !strncmp(name, "fastclk", 7);
	}
	closedir(dir);
	return count;
}

/* The page and, behind it, the beginning of the table. */
#define MAPPED	8192

static void *page[MANY];

static int end_many(void **state)
{
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		if (page[i] && page[i] != MAP_FAILED)
			munmap(page[i], MAPPED);
		page[i] = NULL;
	}
	return end_quiet(state);
}

#define many_test(function)	\
	cmocka_unit_test_setup_teardown(function, begin_quiet, end_many)

static void many_files_and_mappings(void **state)
{
	const struct rlimit limit = { 2 * MANY, 2 * MANY };
	static int fd[MANY];
	unsigned int i;

	(void)state;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(module_references(), 0);
	for (i = 0; i < MANY; i++) {
		fd[i] = open_device(O_RDONLY);
		page[i] = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, fd[i], 0);
		assert_ptr_not_equal(page[i], MAP_FAILED);
	}
	assert_int_equal(module_references(), MANY);
	for (i = 0; i < MANY; i++)
		close(fd[i]);
	/* Each mapping holds its file. */
	assert_int_equal(module_references(), MANY);
	assert_int_equal(memcmp(page[0], page[MANY - 1], sizeof(struct fastclk_page_header)), 0);
	for (i = 0; i < MANY; i++) {
		munmap(page[i], MAPPED);
		page[i] = NULL;
	}
	assert_int_equal(module_references(), 0);
}

static void many_mappings_of_one_file(void **state)
{
	unsigned int i;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	for (i = 0; i < MANY; i++) {
		page[i] = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(page[i], MAP_FAILED);
	}
	assert_int_equal(module_references(), 1);
	close(fd);
	assert_int_equal(module_references(), 1);
	for (i = 0; i < MANY; i++) {
		munmap(page[i], MAPPED);
		page[i] = NULL;
	}
	assert_int_equal(module_references(), 0);
}

static void assert_in_use(void)
{
	char text[256] = "";
	FILE *rmmod;
	size_t length;

	assert_int_equal(unload_module(), -EWOULDBLOCK);
	rmmod = popen("rmmod fastclk 2>&1", "r");
	assert_non_null(rmmod);
	length = fread(text, 1, sizeof(text) - 1, rmmod);
	text[length] = 0;
	assert_int_not_equal(pclose(rmmod), 0);
	if (!strstr(text, "in use"))
		fail_msg("rmmod says \"%s\"", text);
	/* It was only a question. */
	assert_true(module_is_loaded());
	assert_attribute("mode", "lockstep");
}

static void an_open_file_holds_the_module(void **state)
{
	struct fastclk_page copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_in_use();
	assert_int_equal(read(fd, &copy, sizeof(copy)), sizeof(copy));
	assert_true(copy.hot.status & FASTCLK_STATUS_LINE_VALID);
	close(fd);
	assert_int_equal(unload_module(), 0);
	assert_int_equal(load_module(QUIETLY), 0);
}

static void a_mapping_holds_the_module(void **state)
{
	const struct fastclk_page *mapped;
	struct fastclk_page first, copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	mapped = map_device(fd);
	close(fd);
	assert_in_use();
	copy_page(mapped, &first);
	assert_true(first.hot.status & FASTCLK_STATUS_LINE_VALID);
	do
		copy_page(mapped, &copy);
	while (copy.clocks.updates == first.clocks.updates);
	unmap_device(mapped);
	assert_int_equal(unload_module(), 0);
	assert_int_equal(load_module(QUIETLY), 0);
}

static int hold_mapping(int says, void *argument)
{
	(void)argument;
	say(says);
	pause();
	return 0;
}

static void a_childs_mapping_holds_the_module(void **state)
{
	const struct fastclk_page *mapped;
	struct child child;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	mapped = map_device(fd);
	close(fd);
	child = start_child(hold_mapping, NULL);
	await_child(&child);
	unmap_device(mapped);
	assert_in_use();
	kill(child.pid, SIGKILL);
	end_child(&child);
	assert_int_equal(unload_module(), 0);
	assert_int_equal(load_module(QUIETLY), 0);
}

static void all_goes_with_the_module(void **state)
{
	struct fastclk_page before, after;

	(void)state;
	read_device(&before);
	assert_int_equal(unload_module(), 0);
	assert_int_equal(open(DEVICE, O_RDONLY), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(access(ATTRIBUTES, F_OK), -1);
	assert_int_equal(access("/sys/kernel/debug/fastclk", F_OK), -1);
	assert_int_equal(unload_module(), -ENOENT);
	assert_int_equal(count_threads(), 0);

	assert_int_equal(load_module(""), 0);
	/* Nobody can take stamps from before for ones of now. */
	read_device(&after);
	assert_int_not_equal(after.hot.generation, before.hot.generation);
	/* Threads only live while CPUs are measured. The deadline ends this. */
	while (count_threads())
		;
	assert_int_equal(load_module(""), -EEXIST);
}

/* Unless something goes on in the background, as the verdict is not final. */
static void is_free_right_after_loading(void **state)
{
	unsigned int i, unknown = 0;
	struct fastclk_page copy;
	int ret;

	(void)state;
	for (i = 0; i < 20; i++) {
		read_device(&copy);
		ret = unload_module();
		if (copy.verdict.verdict == FASTCLK_VERDICT_UNKNOWN) {
			unknown++;
			if (ret)
				unload_when_free();
		} else if (ret) {
			fail_msg("in round %u: %s", i, strerror(-ret));
		}
		assert_int_equal(load_module(""), 0);
	}
	print_message("# %u of 20 times unknown\n", unknown);
}

static int load(int says, void *argument)
{
	(void)argument;
	say(says);
	return load_module(QUICKLY) ? 1 : 0;
}

static void a_killed_loader_does_no_harm(void **state)
{
	unsigned int i, spins, loaded = 0;
	struct child loader;
	volatile int spin;
	int status;

	(void)state;
	unload_when_free();
	for (i = 0; i < 20; i++) {
		loader = start_child(load, NULL);
		await_child(&loader);
		if (i & 1)
			await_sleep(&loader);
		else
			for (spin = 0, spins = i * 20000; spins; spins--)
				spin++;
		kill(loader.pid, SIGKILL);
		status = end_child(&loader);
		assert_true(status == 0 || status == 128 + SIGKILL);
		if (!module_is_loaded())
			continue;
		loaded++;
		/* All or nothing: what is loaded works. */
		assert_attribute("mode", "lockstep");
		unload_when_free();
	}
	print_message("# %u of 20 were loaded nevertheless\n", loaded);
}

/* --- under fire */

#define ROUNDS	50

static int use_the_device(int says, void *argument)
{
	struct fastclk_page copy;
	char value[64];
	void *mapped;
	int fd;

	(void)argument;
	say(says);
	for (;;) {
		fd = open(DEVICE, O_RDONLY);
		if (fd < 0) {
			if (errno != ENOENT && errno != ENODEV && errno != ENXIO)
				return 1;
			pause_ms(1);
			continue;
		}
		mapped = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, fd, 0);
		if (mapped == MAP_FAILED)
			return 2;
		if (read(fd, &copy, sizeof(copy)) != sizeof(copy))
			return 3;
		if (copy.header.magic != FASTCLK_MAGIC ||
		    ((struct fastclk_page *)mapped)->header.magic != FASTCLK_MAGIC)
			return 4;
		if (poll_now(fd) & ~(POLLIN | POLLRDNORM))
			return 5;
		read_text(ATTRIBUTES "bad_cpus", value, sizeof(value));
		munmap(mapped, MAPPED);
		close(fd);
		/* Or there would be no moment in which nobody has it open. */
		pause_ms(1);
	}
}

/* What is left behind would show here: objects of general size, and pages. */
struct memory {
	long objects[64];
	char caches[64][32];
	unsigned int count;
	long pages;
};

/* Those of the kernel; others, named kmalloc-cg-..., are charged to processes. */
static bool is_general(const char *name)
{
	return !strncmp(name, "kmalloc-", 8) && strncmp(name, "kmalloc-cg", 10);
}

/*
 * Pages in use that none of the kernel's counters is about, less a constant: what
 * alloc_page() gave to a module is among them.
 */
static long count_lost_pages(void)
{
	static const char * const counters[] = {
		"nr_free_pages", "nr_file_pages", "nr_anon_pages", "nr_slab_reclaimable",
		"nr_slab_unreclaimable", "nr_page_table_pages", "nr_kernel_stack",
	};
	long value, lost = 0;
	char line[512], name[64];
	unsigned int i;
	FILE *file;

	write_text("/proc/sys/vm/stat_refresh", "1");
	file = fopen("/proc/vmstat", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s %ld", name, &value) != 2)
			continue;
		for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
			if (!strcmp(name, counters[i]))
				lost -= strcmp(name, "nr_kernel_stack") ? value : value / 4;
	}
	fclose(file);
	/* Free pages that a CPU keeps to itself. */
	file = fopen("/proc/zoneinfo", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %ld", &value) == 1)
			lost -= value;
	fclose(file);
	return lost;
}

static void measure_memory(struct memory *m)
{
	char line[512], path[128], name[64];
	long active;
	FILE *file;

	/* Give back what is only kept for later. */
	sync();
	assert_int_equal(write_text("/proc/sys/vm/drop_caches", "3"), 0);
	m->count = 0;
	file = fopen("/proc/slabinfo", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) && m->count < 64) {
		if (sscanf(line, "%63s %ld", name, &active) != 2 || !is_general(name))
			continue;
		snprintf(path, sizeof(path), "/sys/kernel/slab/%.31s/shrink", name);
		write_text(path, "1");
		snprintf(m->caches[m->count++], 32, "%.31s", name);
	}
	fclose(file);
	m->count = 0;
	file = fopen("/proc/slabinfo", "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) && m->count < 64) {
		if (sscanf(line, "%63s %ld", name, &active) != 2 || !is_general(name))
			continue;
		m->objects[m->count++] = active;
	}
	fclose(file);

	m->pages = count_lost_pages();
}

static unsigned int reload(unsigned int rounds)
{
	unsigned int i, busy = 0;
	int ret;

	for (i = 0; i < rounds; i++) {
		/* As often as it takes until nobody has it open. */
		while ((ret = unload_module()) == -EWOULDBLOCK) {
			busy++;
			pause_ms(1);
		}
		assert_int_equal(ret, 0);
		assert_int_equal(load_module(QUICKLY), 0);
	}
	return busy;
}

/* One line for each time, and another if the measurement was completed later. */
static void assert_quiet_log(int log)
{
	unsigned int loads = 0, incomplete = 0;
	char line[2048];

	while (next_log_line(log, line, sizeof(line))) {
		if (strstr(line, "WARNING") || strstr(line, "BUG"))
			fail_msg("the kernel says: %s", line);
		if (strstr(line, "fastclk: ")) {
			loads++;
			incomplete += !!strstr(line, "CPUs unknown");
		} else {
			print_message("# log: %s", line);
		}
	}
	print_message("# %u lines in the log, %u times incomplete\n", loads, incomplete);
	assert_true(loads >= ROUNDS && loads <= ROUNDS + incomplete);
}

static void loads_50_times_under_fire(void **state)
{
	unsigned int i, busy;
	struct child users[4];
	int log;

	(void)state;
	log = open_log();
	for (i = 0; i < 4; i++) {
		users[i] = start_child(use_the_device, NULL);
		await_child(&users[i]);
	}
	busy = reload(ROUNDS);
	for (i = 0; i < 4; i++) {
		kill(users[i].pid, SIGKILL);
		assert_int_equal(end_child(&users[i]), 128 + SIGKILL);
	}
	print_message("# %u times in use\n", busy);
	assert_quiet_log(log);
}

#define SERIES	3

/* More of something, enough for a leak of one at each load? */
static bool has_grown(const struct memory *before, const struct memory *after)
{
	unsigned int i;

	for (i = 0; i < after->count; i++)
		if (after->objects[i] - before->objects[i] > ROUNDS / 2)
			return true;
	return after->pages - before->pages > ROUNDS / 2;
}

/* What the kernel frees after a grace period, or in batches, takes up to some seconds. */
#define LATER		20
#define LATER_MS	300

/*
 * A leak shows in each series of loads, and the caching of others only in some: one series
 * without is enough.
 */
static void leaks_nothing(void **state)
{
	struct memory before, after;
	unsigned int series, i;

	(void)state;
	reload(10);
	measure_memory(&before);
	for (series = 0; series < SERIES; series++) {
		reload(ROUNDS);
		measure_memory(&after);
		for (i = 0; i < LATER && has_grown(&before, &after); i++) {
			pause_ms(LATER_MS);
			measure_memory(&after);
		}
		assert_int_equal(before.count, after.count);
		print_message("# %ld pages\n", after.pages - before.pages);
		if (!has_grown(&before, &after))
			return;
		for (i = 0; i < after.count; i++)
			if (after.objects[i] - before.objects[i] > ROUNDS / 2)
				print_message("# %ld of %s\n", after.objects[i] - before.objects[i],
					      after.caches[i]);
		before = after;
	}
	fail_msg("each %d loads leave something behind, see above", ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		many_test(many_files_and_mappings),
		many_test(many_mappings_of_one_file),
		quiet_test(an_open_file_holds_the_module),
		quiet_test(a_mapping_holds_the_module),
		quiet_test(a_childs_mapping_holds_the_module),
		quiet_test(all_goes_with_the_module),
		quiet_test(is_free_right_after_loading),
		bounded_test(a_killed_loader_does_no_harm),
		quiet_test(loads_50_times_under_fire),
		quiet_test(leaks_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
