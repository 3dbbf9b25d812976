// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs one KUnit suite as a program and prints TAP: the other half of kunit/native/kunit/test.h,
 * built on cmocka. Linked to each kunit/NAME_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <kunit/test.h>

/* A case that fails in a loop need not say so a million times. */
#define MESSAGES_MAX	10

/*
 * struct kunit - a case that runs
 * @failures: checks that failed
 * @memory: what kunit_kzalloc() gave out, linked
 */
struct kunit {
	unsigned long failures;
	struct kunit_memory *memory;
};

struct kunit_memory {
	struct kunit_memory *next;
	max_align_t data[];
};

void *kunit_kzalloc(struct kunit *test, size_t size, gfp_t flags)
{
	struct kunit_memory *memory = calloc(1, sizeof(*memory) + size);

	(void)flags;
	if (!memory)
		abort();
	memory->next = test->memory;
	test->memory = memory;
	return memory->data;
}

/* As cmocka does, to where TAP has its remarks. */
void kunit_info(struct kunit *test, const char *format, ...)
{
	va_list arguments;

	(void)test;
	printf("# ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
}

void kunit_native_failed(struct kunit *test, const struct kunit_native_check *check,
			 long long left, long long right, const char *format, ...)
{
	char message[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (test->failures++ < MESSAGES_MAX) {
		printf("# %s:%d: expected %s", check->file, check->line, check->text);
		if (check->compares)
			printf(", got %lld (0x%llx) and %lld (0x%llx)", left, left, right, right);
		printf("%s%s\n", *message ? ": " : "", message);
	}
	if (check->fatal)
		_fail(check->file, check->line);
}

/* The case that runs. Not on a stack, which is gone after a fatal failure. */
static struct kunit running;

static void run_case(void **state)
{
	struct kunit_case *test_case = *state;

	running.failures = 0;
	test_case->run_case(&running);
	if (running.failures)
		fail();
}

static int free_memory(void **state)
{
	struct kunit_memory *next;

	(void)state;
	for (; running.memory; running.memory = next) {
		next = running.memory->next;
		free(running.memory);
	}
	return 0;
}

int main(void)
{
	struct kunit_case *test_case = kunit_native_suite->test_cases;
	struct CMUnitTest *tests;
	size_t n = 0, i;
	int failed;

	while (test_case[n].run_case)
		n++;
	tests = calloc(n, sizeof(*tests));
	if (!tests)
		abort();
	for (i = 0; i < n; i++) {
		tests[i].name = test_case[i].name;
		tests[i].test_func = run_case;
		tests[i].teardown_func = free_memory;
		tests[i].initial_state = &test_case[i];
	}

	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = _cmocka_run_group_tests(kunit_native_suite->name, tests, n, NULL, NULL);
	free(tests);
	return failed != 0;
}
