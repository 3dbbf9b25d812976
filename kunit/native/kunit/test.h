/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for the kernel's <kunit/test.h>: as much of it as the suites in kunit/ use, so
 * that they also are ordinary programs, with sanitizers. The other half is in
 * kunit/native/test.c, so that no suite gets to see the C library, which the kernel lacks.
 *
 * Names and meanings are the kernel's, see Documentation/dev-tools/kunit/api/test.rst there.
 */
#ifndef _FASTCLK_NATIVE_KUNIT_TEST_H
#define _FASTCLK_NATIVE_KUNIT_TEST_H

#include "core/types.h"

typedef unsigned int gfp_t;
#define GFP_KERNEL	0U

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Only native/test.c looks inside. */
struct kunit;

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(function)	{ .run_case = function, .name = #function }

/* One suite is one program is one plan. */
#define kunit_test_suite(suite)							\
	struct kunit_suite *const kunit_native_suite = &(suite)

extern struct kunit_suite *const kunit_native_suite;

#define MODULE_LICENSE(text)		_Static_assert(sizeof(text) > 1, "empty")
#define MODULE_DESCRIPTION(text)	_Static_assert(sizeof(text) > 1, "empty")

/* Freed when the case ends. Never NULL: a program without memory ends. */
void *kunit_kzalloc(struct kunit *test, size_t size, gfp_t flags);

__attribute__((format(printf, 2, 3)))
void kunit_info(struct kunit *test, const char *format, ...);

struct kunit_native_check {
	const char *file;
	int line;
	bool fatal;		/* ends the case */
	bool compares;
	const char *text;
};

__attribute__((format(printf, 5, 6)))
void kunit_native_failed(struct kunit *test, const struct kunit_native_check *check,
			 long long left, long long right, const char *format, ...);

#define KUNIT_NATIVE_CHECK(test, is_fatal, is_comparison, what, left, op, right, ...)	\
do {										\
	__typeof__(left) _left = (left);					\
	__typeof__(right) _right = (right);					\
	static const struct kunit_native_check _check = {			\
		.file = __FILE__, .line = __LINE__, .fatal = is_fatal,		\
		.compares = is_comparison, .text = what,			\
	};									\
										\
	if (!(_left op _right))							\
		kunit_native_failed(test, &_check, (long long)_left,		\
				    (long long)_right, __VA_ARGS__);		\
} while (0)

#define KUNIT_NATIVE_COMPARE(test, fatal, left, op, right, ...)			\
	KUNIT_NATIVE_CHECK(test, fatal, true, #left " " #op " " #right,		\
			   left, op, right, __VA_ARGS__)
#define KUNIT_NATIVE_BOOLEAN(test, fatal, condition, expected, ...)		\
	KUNIT_NATIVE_CHECK(test, fatal, false, #condition " is " #expected,	\
			   !!(condition), ==, expected, __VA_ARGS__)

#define KUNIT_EXPECT_EQ(t, l, r)	KUNIT_NATIVE_COMPARE(t, false, l, ==, r, "%s", "")
#define KUNIT_EXPECT_NE(t, l, r)	KUNIT_NATIVE_COMPARE(t, false, l, !=, r, "%s", "")
#define KUNIT_EXPECT_LT(t, l, r)	KUNIT_NATIVE_COMPARE(t, false, l, <, r, "%s", "")
#define KUNIT_EXPECT_LE(t, l, r)	KUNIT_NATIVE_COMPARE(t, false, l, <=, r, "%s", "")
#define KUNIT_EXPECT_GT(t, l, r)	KUNIT_NATIVE_COMPARE(t, false, l, >, r, "%s", "")
#define KUNIT_EXPECT_GE(t, l, r)	KUNIT_NATIVE_COMPARE(t, false, l, >=, r, "%s", "")
#define KUNIT_EXPECT_TRUE(t, c)		KUNIT_NATIVE_BOOLEAN(t, false, c, true, "%s", "")
#define KUNIT_EXPECT_FALSE(t, c)	KUNIT_NATIVE_BOOLEAN(t, false, c, false, "%s", "")

#define KUNIT_ASSERT_EQ(t, l, r)	KUNIT_NATIVE_COMPARE(t, true, l, ==, r, "%s", "")
#define KUNIT_ASSERT_NE(t, l, r)	KUNIT_NATIVE_COMPARE(t, true, l, !=, r, "%s", "")
#define KUNIT_ASSERT_LT(t, l, r)	KUNIT_NATIVE_COMPARE(t, true, l, <, r, "%s", "")
#define KUNIT_ASSERT_LE(t, l, r)	KUNIT_NATIVE_COMPARE(t, true, l, <=, r, "%s", "")
#define KUNIT_ASSERT_GT(t, l, r)	KUNIT_NATIVE_COMPARE(t, true, l, >, r, "%s", "")
#define KUNIT_ASSERT_GE(t, l, r)	KUNIT_NATIVE_COMPARE(t, true, l, >=, r, "%s", "")
#define KUNIT_ASSERT_TRUE(t, c)		KUNIT_NATIVE_BOOLEAN(t, true, c, true, "%s", "")
#define KUNIT_ASSERT_FALSE(t, c)	KUNIT_NATIVE_BOOLEAN(t, true, c, false, "%s", "")
#define KUNIT_ASSERT_NOT_NULL(t, p)	KUNIT_NATIVE_BOOLEAN(t, true, p, true, "%s", "")

#define KUNIT_EXPECT_EQ_MSG(t, l, r, ...) KUNIT_NATIVE_COMPARE(t, false, l, ==, r, __VA_ARGS__)
#define KUNIT_EXPECT_LE_MSG(t, l, r, ...) KUNIT_NATIVE_COMPARE(t, false, l, <=, r, __VA_ARGS__)
#define KUNIT_EXPECT_GE_MSG(t, l, r, ...) KUNIT_NATIVE_COMPARE(t, false, l, >=, r, __VA_ARGS__)
#define KUNIT_EXPECT_TRUE_MSG(t, c, ...)  KUNIT_NATIVE_BOOLEAN(t, false, c, true, __VA_ARGS__)
#define KUNIT_EXPECT_FALSE_MSG(t, c, ...) KUNIT_NATIVE_BOOLEAN(t, false, c, false, __VA_ARGS__)

#define KUNIT_ASSERT_EQ_MSG(t, l, r, ...) KUNIT_NATIVE_COMPARE(t, true, l, ==, r, __VA_ARGS__)
#define KUNIT_ASSERT_LE_MSG(t, l, r, ...) KUNIT_NATIVE_COMPARE(t, true, l, <=, r, __VA_ARGS__)
#define KUNIT_ASSERT_GE_MSG(t, l, r, ...) KUNIT_NATIVE_COMPARE(t, true, l, >=, r, __VA_ARGS__)
#define KUNIT_ASSERT_TRUE_MSG(t, c, ...)  KUNIT_NATIVE_BOOLEAN(t, true, c, true, __VA_ARGS__)
#define KUNIT_ASSERT_FALSE_MSG(t, c, ...) KUNIT_NATIVE_BOOLEAN(t, true, c, false, __VA_ARGS__)

#endif /* _FASTCLK_NATIVE_KUNIT_TEST_H */
