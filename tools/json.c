// SPDX-License-Identifier: MIT
/*
 * Writing JSON to standard output, one member a line. See json.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "json.h"

static unsigned int depth;
static bool any;	/* is there a member before, on this level? */

static void quoted(const char *text)
{
	const unsigned char *c;

	putchar('"');
	for (c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			printf("\\%c", *c);
		else if (*c < 0x20 || *c >= 0x7f)	/* one that is not ASCII: as Latin-1 */
			printf("\\u%04x", *c);
		else
			putchar(*c);
	}
	putchar('"');
}

/* The beginning of a member. */
static void member(const char *name)
{
	if (depth)
		printf("%s\n%*s", any ? "," : "", 2 * (int)depth, "");
	any = true;
	if (name) {
		quoted(name);
		fputs(": ", stdout);
	}
}

/**
 * json_begin - start an object
 * @name: of the member that it is, NULL for the outermost
 */
void json_begin(const char *name)
{
	member(name);
	putchar('{');
	depth++;
	any = false;
}

/**
 * json_end - end the object that was started last
 */
void json_end(void)
{
	depth--;
	if (any)
		printf("\n%*s", 2 * (int)depth, "");
	putchar('}');
	if (!depth)
		putchar('\n');
	any = true;
}

/**
 * json_null - a member that is not known
 * @name: its name
 */
void json_null(const char *name)
{
	member(name);
	fputs("null", stdout);
}

/**
 * json_bool - a member that is true or false
 * @name: its name
 * @value: which
 */
void json_bool(const char *name, bool value)
{
	member(name);
	fputs(value ? "true" : "false", stdout);
}

/**
 * json_unsigned - a member that is a number
 * @name: its name
 * @value: the number
 */
void json_unsigned(const char *name, uint64_t value)
{
	member(name);
	printf("%" PRIu64, value);
}

/**
 * json_signed - a member that is a number
 * @name: its name
 * @value: the number
 */
void json_signed(const char *name, int64_t value)
{
	member(name);
	printf("%" PRId64, value);
}

/**
 * json_real - a member that is a number with a fraction
 * @name: its name
 * @value: the number, finite
 * @digits: behind the point
 */
void json_real(const char *name, double value, int digits)
{
	member(name);
	printf("%.*f", digits, value);
}

/**
 * json_string - a member that is text
 * @name: its name
 * @value: the text, NULL for null
 */
void json_string(const char *name, const char *value)
{
	if (!value) {
		json_null(name);
		return;
	}
	member(name);
	quoted(value);
}
