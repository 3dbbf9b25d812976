/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the pure files (line, exchange, schedule, verdict, publish) need from the kernel,
 * and the same for user space, so that they can be tested and measured there.
 */
#ifndef _FASTCLK_TYPES_H
#define _FASTCLK_TYPES_H

#ifdef __KERNEL__

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/types.h>
#include <asm/barrier.h>

#else

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#define S64_MAX			((s64)(~0ULL >> 1))
#define S64_MIN			(-S64_MAX - 1)
#define U64_MAX			(~0ULL)
#define U32_MAX			(~0U)

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define smp_load_acquire(p)	__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	__atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define smp_wmb()		__atomic_thread_fence(__ATOMIC_RELEASE)
#define xchg(p, v)		__atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)

#endif /* __KERNEL__ */

#endif /* _FASTCLK_TYPES_H */
