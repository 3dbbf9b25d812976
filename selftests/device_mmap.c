// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mapping /dev/fastclk: what is refused and with which error, that nobody can ever write
 * or execute the page, and that it stays alive through close(), fork() and mremap().
 * Run by guest_device.sh.
 */
#include "device.h"

#include <sys/personality.h>

static const int open_flags[] = { O_RDONLY, O_RDWR };

static size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

/* Try a mapping of its own, for each way to open the device. */
static void assert_refused(size_t length, int protection, int flags, off_t offset, int error)
{
	unsigned int i;
	void *address;
	int fd;

	for (i = 0; i < 2; i++) {
		fd = open_device(open_flags[i]);
		errno = 0;
		address = mmap(NULL, length, protection, flags, fd, offset);
		if (address != MAP_FAILED) {
			munmap(address, length);
			errno = 0;
		}
		if (errno != error)
			fail_msg("%zu bytes, protection %d, flags %d, offset %lld, opened %s: "
				 "errno is %d and not %d", length, protection, flags,
				 (long long)offset, i ? "O_RDWR" : "O_RDONLY", errno, error);
		close(fd);
	}
}

static void shows_the_page_to_readers(void **state)
{
	struct fastclk_page copy;
	unsigned int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		const struct fastclk_page *page = map_device(open_device(open_flags[i]));

		copy_page(page, &copy);
		assert_true(copy.header.magic == FASTCLK_MAGIC);
		assert_int_equal(copy.header.abi_major, FASTCLK_ABI_MAJOR);
		assert_int_equal(copy.header.size, sizeof(copy));
		assert_true(copy.hot.status & FASTCLK_STATUS_LINE_VALID);
	}
}

/* What can be mapped: whole pages. */
static size_t whole_size(void)
{
	return (device_size() + page_size() - 1) / page_size() * page_size();
}

static void maps_any_length_up_to_the_whole(void **state)
{
	(void)state;
	assert_refused(device_size(), PROT_READ, MAP_SHARED, 0, 0);
	assert_refused(whole_size(), PROT_READ, MAP_SHARED, 0, 0);
	assert_refused(whole_size(), PROT_READ, MAP_SHARED | MAP_POPULATE, 0, 0);
	assert_refused(1, PROT_READ, MAP_SHARED, 0, 0);
	assert_refused(sizeof(struct fastclk_page), PROT_READ, MAP_SHARED, 0, 0);
	assert_refused(page_size(), PROT_READ, MAP_SHARED, 0, 0);
	assert_refused(page_size(), PROT_READ, MAP_SHARED | MAP_POPULATE, 0, 0);
	assert_refused(page_size(), PROT_READ, MAP_SHARED | MAP_LOCKED, 0, 0);
	assert_refused(page_size(), PROT_NONE, MAP_SHARED, 0, 0);
}

static void refuses_more_than_the_whole(void **state)
{
	(void)state;
	assert_refused(whole_size() + 1, PROT_READ, MAP_SHARED, 0, EINVAL);
	assert_refused(2 * whole_size(), PROT_READ, MAP_SHARED, 0, EINVAL);
	assert_refused(1 << 30, PROT_READ, MAP_SHARED, 0, EINVAL);
	assert_refused(0, PROT_READ, MAP_SHARED, 0, EINVAL);
}

static void refuses_an_offset(void **state)
{
	(void)state;
	assert_refused(page_size(), PROT_READ, MAP_SHARED, page_size(), EINVAL);
	assert_refused(1, PROT_READ, MAP_SHARED, page_size(), EINVAL);
	assert_refused(page_size(), PROT_READ, MAP_SHARED, 1LL << 40, EINVAL);
}

static void refuses_write(void **state)
{
	(void)state;
	assert_refused(page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, 0, EACCES);
	assert_refused(page_size(), PROT_WRITE, MAP_SHARED, 0, EACCES);
	assert_refused(page_size(), PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, 0, EACCES);
}

static void refuses_exec(void **state)
{
	(void)state;
	assert_refused(page_size(), PROT_READ | PROT_EXEC, MAP_SHARED, 0, EACCES);
	assert_refused(page_size(), PROT_EXEC, MAP_SHARED, 0, EACCES);
}

static void refuses_private(void **state)
{
	(void)state;
	assert_refused(page_size(), PROT_READ, MAP_PRIVATE, 0, EINVAL);
	assert_refused(page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, 0, EINVAL);
	assert_refused(page_size(), PROT_READ | PROT_EXEC, MAP_PRIVATE, 0, EINVAL);
}

static void refuses_mprotect_to_write_or_exec(void **state)
{
	static const int protections[] = {
		PROT_READ | PROT_WRITE, PROT_WRITE, PROT_READ | PROT_EXEC, PROT_EXEC,
		PROT_READ | PROT_WRITE | PROT_EXEC,
	};
	unsigned int i, j;

	(void)state;
	for (i = 0; i < 2; i++) {
		void *page = (void *)(uintptr_t)map_device(open_device(open_flags[i]));

		for (j = 0; j < sizeof(protections) / sizeof(protections[0]); j++) {
			errno = 0;
			assert_int_equal(mprotect(page, page_size(), protections[j]), -1);
			assert_int_equal(errno, EACCES);
		}
		assert_int_equal(mprotect(page, page_size(), PROT_NONE), 0);
		assert_int_equal(mprotect(page, page_size(), PROT_READ), 0);
		assert_true(((struct fastclk_page *)page)->header.magic == FASTCLK_MAGIC);
	}
}

static void refuses_to_grow(void **state)
{
	char *page;

	(void)state;
	page = (char *)(uintptr_t)map_device(open_device(O_RDONLY));
	assert_ptr_equal(mremap(page, page_size(), 2 * page_size(), 0), MAP_FAILED);
	assert_ptr_equal(mremap(page, page_size(), 2 * page_size(), MREMAP_MAYMOVE), MAP_FAILED);
	assert_ptr_equal(mremap(page, 0, page_size(), MREMAP_MAYMOVE), MAP_FAILED);
}

static void can_be_moved(void **state)
{
	struct fastclk_page *page, *place;
	uint64_t updates;

	(void)state;
	page = (void *)(uintptr_t)map_device(open_device(O_RDONLY));
	place = mmap(NULL, page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(place, MAP_FAILED);
	assert_ptr_equal(mremap(page, page_size(), page_size(), MREMAP_MAYMOVE | MREMAP_FIXED,
				place), place);
	assert_true(place->header.magic == FASTCLK_MAGIC);
	updates = __atomic_load_n(&place->clocks.updates, __ATOMIC_RELAXED);
	while (__atomic_load_n(&place->clocks.updates, __ATOMIC_RELAXED) == updates)
		;
	munmap(place, page_size());
}

/* As seen by the kernel: "r--s" and the like, and the line VmFlags of /proc/self/smaps. */
static void find_mapping(const void *page, char permissions[8], char flags[256])
{
	unsigned long from, to;
	bool found = false;
	char line[512];
	FILE *smaps;

	permissions[0] = 0;
	flags[0] = 0;
	smaps = fopen("/proc/self/smaps", "re");
	while (smaps && fgets(line, sizeof(line), smaps)) {
		char word[8];

		if (sscanf(line, "%lx-%lx %7s", &from, &to, word) == 3) {
			found = from == (uintptr_t)page;
			if (found)
				strcpy(permissions, word);
		} else if (found && !strncmp(line, "VmFlags:", 8)) {
			snprintf(flags, 256, "%.254s", line + 8);
		}
	}
	if (smaps)
		fclose(smaps);
}

static void has_no_right_in_reserve(void **state)
{
	char permissions[8], flags[256];
	unsigned int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		find_mapping(map_device(open_device(open_flags[i])), permissions, flags);
		assert_string_equal(permissions, "r--s");
		assert_null(strstr(flags, " mw"));	/* may write */
		assert_null(strstr(flags, " me"));	/* may execute */
		assert_non_null(strstr(flags, " de"));	/* does not expand */
		assert_non_null(strstr(flags, " dd"));	/* does not go into core dumps */
		assert_null(strstr(flags, " dc"));	/* does go to children */
	}
}

static void *touched;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	_exit(info->si_addr == touched && info->si_code == SEGV_ACCERR ? 0 : 1);
}

static int execute_page(int says, void *page)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	(void)says;
	touched = page;
	sigaction(SIGSEGV, &action, NULL);
	((void (*)(void))(uintptr_t)page)();
	return 2;
}

static int write_page(int says, void *page)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	(void)says;
	touched = page;
	sigaction(SIGSEGV, &action, NULL);
	*(volatile char *)page = 0;
	return 2;
}

static void faults_when_written_or_executed(void **state)
{
	void *page;

	(void)state;
	page = (void *)(uintptr_t)map_device(open_device(O_RDWR));
	assert_int_equal(run_child(write_page, page), 0);
	assert_int_equal(run_child(execute_page, page), 0);
}

/* As a debugger would do it. */
static void can_not_be_written_through_proc(void **state)
{
	const struct fastclk_page *page;
	unsigned int i;
	int mem;

	(void)state;
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	assert_true(mem >= 0);
	for (i = 0; i < 2; i++) {
		page = map_device(open_device(open_flags[i]));
		assert_int_equal(pwrite(mem, "", 1, (uintptr_t)page), -1);
		assert_true(page->header.magic == FASTCLK_MAGIC);
	}
}

/*
 * What a program with an executable stack gets: each PROT_READ becomes PROT_EXEC, too,
 * and is not refused for that. An exec would take the personality away again.
 */
static int map_as_an_old_program(int says, void *argument)
{
	char permissions[8], flags[256];
	int fd, explicitly;
	void *page;

	(void)says;
	(void)argument;
	if (personality(READ_IMPLIES_EXEC) < 0)
		return 10;
	for (explicitly = 0; explicitly < 2; explicitly++) {
		fd = open(DEVICE, O_RDONLY);
		page = mmap(NULL, page_size(), PROT_READ | (explicitly ? PROT_EXEC : 0), MAP_SHARED,
			    fd, 0);
		if (page == MAP_FAILED)
			return 11;
		if (((struct fastclk_page *)page)->header.magic != FASTCLK_MAGIC)
			return 12;
		find_mapping(page, permissions, flags);
		if (strcmp(permissions, "r--s") || strstr(flags, " me") || strstr(flags, " mw"))
			return 13;
		if (!mprotect(page, page_size(), PROT_READ | PROT_EXEC) || errno != EACCES)
			return 14;
		if (mprotect(page, page_size(), PROT_READ))
			return 15;
		find_mapping(page, permissions, flags);
		if (strcmp(permissions, "r--s"))
			return 16;
		if (mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) !=
		    MAP_FAILED || errno != EACCES)
			return 17;
	}
	return execute_page(says, page);
}

static void old_programs_map_without_exec(void **state)
{
	(void)state;
	assert_int_equal(run_child(map_as_an_old_program, NULL), 0);
}

static int see_updates(int says, void *argument)
{
	const struct fastclk_page *page = argument;
	struct fastclk_page first, copy;

	(void)says;
	copy_page(page, &first);
	if (first.header.magic != FASTCLK_MAGIC)
		return 1;
	/* The deadline ends it. */
	do
		copy_page(page, &copy);
	while (copy.clocks.updates < first.clocks.updates + 3 || copy.hot.seq == first.hot.seq);
	return copy.hot.generation != first.hot.generation;
}

static void children_inherit_the_living_page(void **state)
{
	const struct fastclk_page *page;
	struct child child;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	page = map_device(fd);
	child = start_child(see_updates, (void *)(uintptr_t)page);
	/* Theirs does not depend on ours. */
	close(fd);
	unmap_device(page);
	assert_int_equal(end_child(&child), 0);
}

static void outlives_close(void **state)
{
	const struct fastclk_page *page;
	struct fastclk_page first, copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	page = map_device(fd);
	close(fd);
	copy_page(page, &first);
	do
		copy_page(page, &copy);
	while (copy.clocks.updates < first.clocks.updates + 3);
}

/* And so is the table, as long as there are no offsets. */
static void is_zero_behind_what_is_defined(void **state)
{
	size_t i, whole = whole_size();
	const char *page;

	(void)state;
	page = mmap(NULL, whole, PROT_READ, MAP_SHARED, open_device(O_RDONLY), 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	for (i = sizeof(struct fastclk_page); i < whole; i++)
		assert_int_equal(page[i], 0);
	munmap((void *)(uintptr_t)page, whole);
}

static void has_a_table_for_all_cpus(void **state)
{
	const struct fastclk_page *page;

	(void)state;
	page = map_device(open_device(O_RDONLY));
	assert_int_equal(page->header.table_offset, 4096);
	assert_int_equal(page->header.table_entry_size, sizeof(struct fastclk_cpu_offset));
	assert_true(page->header.table_count >= sysconf(_SC_NPROCESSORS_CONF));
	assert_true(page->header.table_count <= 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		bounded_test(shows_the_page_to_readers),
		bounded_test(maps_any_length_up_to_the_whole),
		bounded_test(refuses_more_than_the_whole),
		bounded_test(refuses_an_offset),
		bounded_test(refuses_write),
		bounded_test(refuses_exec),
		bounded_test(refuses_private),
		bounded_test(refuses_mprotect_to_write_or_exec),
		bounded_test(refuses_to_grow),
		bounded_test(can_be_moved),
		bounded_test(has_no_right_in_reserve),
		bounded_test(faults_when_written_or_executed),
		bounded_test(can_not_be_written_through_proc),
		bounded_test(old_programs_map_without_exec),
		bounded_test(children_inherit_the_living_page),
		bounded_test(outlives_close),
		bounded_test(is_zero_behind_what_is_defined),
		bounded_test(has_a_table_for_all_cpus),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
