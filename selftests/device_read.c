// SPDX-License-Identifier: GPL-2.0-only
/*
 * read() and its relatives on /dev/fastclk: one consistent copy of the page, and of the table
 * of offsets behind it, at the start,
 * the end of the file anywhere else, and errors for all that is not offered.
 * Run by guest_device.sh.
 */
#include "device.h"

#include <sys/ioctl.h>
#include <sys/timex.h>

#define SIZE	sizeof(struct fastclk_page)

static void gives_the_page(void **state)
{
	struct fastclk_page copy = { 0 };
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(read(fd, &copy, SIZE), SIZE);
	assert_true(copy.header.magic == FASTCLK_MAGIC);
	assert_int_equal(copy.header.abi_major, FASTCLK_ABI_MAJOR);
	assert_int_equal(copy.header.abi_minor, FASTCLK_ABI_MINOR);
	assert_int_equal(copy.header.size, SIZE);
	assert_int_equal(copy.header.counter, FASTCLK_COUNTER_X86_TSC);
	assert_int_equal(copy.header.order, FASTCLK_ORDER_LFENCE_RDTSC);
	assert_int_equal(copy.hot.seq & 1, 0);
	assert_int_not_equal(copy.hot.generation, 0);
	assert_true(copy.hot.status & FASTCLK_STATUS_LINE_VALID);
	assert_true(copy.hot.status & FASTCLK_STATUS_LOCKSTEP);
}

static void is_over_after_one_read(void **state)
{
	struct fastclk_page copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(read(fd, &copy, SIZE), SIZE);
	assert_int_equal(read(fd, &copy, SIZE), 0);
	assert_int_equal(read(fd, &copy, SIZE), 0);
}

static void cuts_to_the_count(void **state)
{
	const size_t whole = device_size();
	const size_t counts[] = {
		1, 7, 64, SIZE - 1, SIZE, SIZE + 1, 4096, whole - 1, whole, whole + 1, 65536,
	};
	char buffer[65536];
	unsigned int i;
	size_t wanted;
	int fd;

	(void)state;
	assert_true(whole < sizeof(buffer));
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		wanted = counts[i] < whole ? counts[i] : whole;
		fd = open_device(O_RDONLY);
		memset(buffer, 0x5a, sizeof(buffer));
		assert_int_equal(read(fd, buffer, counts[i]), wanted);
		/* The header is the same in each copy; "FASTCLK1" are its first bytes. */
		assert_memory_equal(buffer, "FASTCLK1", wanted < 8 ? wanted : 8);
		if (wanted < sizeof(buffer))
			assert_int_equal(buffer[wanted], 0x5a);
		/* No second part: it would be of another copy. */
		assert_int_equal(read(fd, buffer, sizeof(buffer)), 0);
		close(fd);
	}
}

static void gives_nothing_for_a_count_of_zero(void **state)
{
	struct fastclk_page copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(read(fd, &copy, 0), 0);
	assert_int_equal(read(fd, NULL, 0), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	assert_int_equal(read(fd, &copy, SIZE), SIZE);
}

static void has_positions(void **state)
{
	struct fastclk_page copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(pread(fd, &copy, SIZE, 0), SIZE);
	assert_int_equal(pread(fd, &copy, SIZE, 0), SIZE);
	assert_int_equal(pread(fd, &copy, SIZE, 1), 0);
	assert_int_equal(pread(fd, &copy, SIZE, SIZE), 0);
	assert_int_equal(pread(fd, &copy, SIZE, 4096), 0);
	assert_int_equal(pread(fd, &copy, SIZE, INT64_MAX - SIZE), 0);
	assert_int_equal(pread(fd, &copy, SIZE, -1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
}

static void seeks(void **state)
{
	const size_t whole = device_size();
	struct fastclk_page copy;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(read(fd, &copy, SIZE), SIZE);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), SIZE);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(read(fd, &copy, SIZE), SIZE);
	assert_int_equal(lseek(fd, 0, SEEK_END), whole);
	assert_int_equal(lseek(fd, -1, SEEK_END), whole - 1);
	assert_int_equal(read(fd, &copy, SIZE), 0);
	assert_int_equal(lseek(fd, 10, SEEK_SET), 10);
	assert_int_equal(lseek(fd, 5, SEEK_CUR), 15);
	assert_int_equal(read(fd, &copy, SIZE), 0);
	assert_int_equal(lseek(fd, -1, SEEK_SET), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(lseek(fd, whole + 1, SEEK_SET), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(lseek(fd, 0, 77), -1);
	assert_int_equal(errno, EINVAL);
}

static void refuses_bad_buffers(void **state)
{
	struct fastclk_page copy;
	const void *page;
	char *two;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	page = map_device(fd);

	assert_int_equal(read(fd, nowhere, SIZE), -1);
	assert_int_equal(errno, EFAULT);
	/* Into the page itself, which is read-only. */
	assert_int_equal(read(fd, (void *)(uintptr_t)page, SIZE), -1);
	assert_int_equal(errno, EFAULT);
	/* The kernel's memory. */
	assert_int_equal(read(fd, (void *)0xffff888000000000UL, SIZE), -1);
	assert_int_equal(errno, EFAULT);
	/* The second half is missing. */
	two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(two, MAP_FAILED);
	assert_int_equal(munmap(two + 4096, 4096), 0);
	assert_int_equal(read(fd, two + 4096 - SIZE / 2, SIZE), -1);
	assert_int_equal(errno, EFAULT);
	munmap(two, 4096);

	/* None of these was a read. */
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	assert_int_equal(read(fd, &copy, SIZE), SIZE);
	assert_true(copy.header.magic == FASTCLK_MAGIC);
}

static void can_not_be_written(void **state)
{
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(errno, EBADF);
	fd = open_device(O_RDWR);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(errno, EINVAL);
	fd = open_device(O_WRONLY);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(errno, EINVAL);
}

static void has_no_ioctls(void **state)
{
	int fd, value = 0;

	(void)state;
	fd = open_device(O_RDONLY);
	assert_int_equal(ioctl(fd, FIONREAD, &value), -1);
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(ioctl(fd, _IOR('F', 0, int), &value), -1);
	assert_int_equal(errno, ENOTTY);
}

/* Slew and step CLOCK_REALTIME as fast as possible. */
static int move_the_clock(int says, void *argument)
{
	struct timespec time;
	struct timex slew;
	unsigned int i;

	(void)says;
	(void)argument;
	for (i = 0;; i++) {
		slew = (struct timex) {
			.modes = ADJ_FREQUENCY | ADJ_TICK,
			.freq = (i & 1 ? 500L : -500L) << 16,
			.tick = i & 2 ? 9900 : 10100,
		};
		if (adjtimex(&slew) < 0)
			return 1;
		clock_gettime(CLOCK_REALTIME, &time);
		time.tv_sec += i & 1 ? 1 : -1;
		time.tv_nsec = i * 123456789ULL % 1000000000;
		if (clock_settime(CLOCK_REALTIME, &time))
			return 2;
		if (!i)
			say(says);
	}
}

static void stop_moving_the_clock(const struct child *child)
{
	struct timex slew = { .modes = ADJ_FREQUENCY | ADJ_TICK, .freq = 0, .tick = 10000 };

	kill(child->pid, SIGKILL);
	assert_int_equal(end_child(child), 128 + SIGKILL);
	assert_true(adjtimex(&slew) >= 0);
}

/*
 * What holds in each state of the page while only the timekeeper writes it, and hardly
 * ever in a mixture of two: TAI is a constant ahead of REALTIME, which is stepped all the
 * time, and each update makes two steps of seq.
 */
static void assert_whole(const struct fastclk_page *p, const struct fastclk_page *first)
{
	assert_int_equal(p->hot.seq & 1, 0);
	assert_memory_equal(&p->header, &first->header, sizeof(p->header));
	assert_int_equal(p->hot.generation, first->hot.generation);
	assert_true(p->clocks.tai_offset - p->hot.realtime_offset ==
		    first->clocks.tai_offset - first->hot.realtime_offset);
	assert_true(p->clocks.updates - first->clocks.updates ==
		    (p->hot.seq - first->hot.seq) / 2);
	assert_true(p->clocks.boottime_offset == first->clocks.boottime_offset);
}

#define COPIES	100000

static void copies_are_consistent(void **state)
{
	struct fastclk_page first, copy;
	unsigned int i, different = 0;
	struct child mover;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	mover = start_child(move_the_clock, NULL);
	await_child(&mover);
	assert_int_equal(pread(fd, &first, SIZE, 0), SIZE);
	for (i = 0; i < COPIES; i++) {
		assert_int_equal(pread(fd, &copy, SIZE, 0), SIZE);
		assert_whole(&copy, &first);
		different += copy.hot.seq != first.hot.seq;
	}
	stop_moving_the_clock(&mover);
	assert_true(copy.clocks.clock_was_set != first.clocks.clock_was_set);
	/* Nothing else would have been a test. */
	assert_true(different > COPIES / 2);
	assert_true(copy.hot.seq - first.hot.seq > 1000);
}

static void mapped_copies_are_consistent(void **state)
{
	struct fastclk_page first, copy;
	const struct fastclk_page *page;
	struct child mover;
	unsigned int i;

	(void)state;
	page = map_device(open_device(O_RDONLY));
	mover = start_child(move_the_clock, NULL);
	await_child(&mover);
	copy_page(page, &first);
	for (i = 0; i < COPIES; i++) {
		copy_page(page, &copy);
		assert_whole(&copy, &first);
	}
	stop_moving_the_clock(&mover);
}

static void agrees_with_the_mapping(void **state)
{
	struct fastclk_page copy, mapped;
	const struct fastclk_page *page;
	int fd;

	(void)state;
	fd = open_device(O_RDONLY);
	page = map_device(fd);
	/* Until there was no update between the two. */
	do {
		copy_page(page, &mapped);
		assert_int_equal(pread(fd, &copy, SIZE, 0), SIZE);
	} while (copy.hot.seq != mapped.hot.seq);
	assert_memory_equal(&copy, &mapped, SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		bounded_test(gives_the_page),
		bounded_test(is_over_after_one_read),
		bounded_test(cuts_to_the_count),
		bounded_test(gives_nothing_for_a_count_of_zero),
		bounded_test(has_positions),
		bounded_test(seeks),
		bounded_test(refuses_bad_buffers),
		bounded_test(can_not_be_written),
		bounded_test(has_no_ioctls),
		quiet_test(copies_are_consistent),
		quiet_test(mapped_copies_are_consistent),
		bounded_test(agrees_with_the_mapping),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
