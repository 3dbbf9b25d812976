/* SPDX-License-Identifier: MIT */
/*
 * Writing JSON to standard output: an object whose members are values, objects and arrays of
 * strings. Used by the commands that know --json.
 *
 * Integers are written as JSON numbers, whatever their size: up to 2^64-1, of which programs
 * that put all numbers into a double lose the last digits above 2^53.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>

void json_begin(const char *name);
void json_end(void);
void json_null(const char *name);
void json_bool(const char *name, bool value);
void json_unsigned(const char *name, uint64_t value);
void json_signed(const char *name, int64_t value);
void json_real(const char *name, double value, int digits);
void json_string(const char *name, const char *value);

#endif /* TOOLS_JSON_H */
