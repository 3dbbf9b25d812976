/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The comparison of page and timekeeper, which only test builds have.
 */
#ifndef _FASTCLK_IDENTITY_H
#define _FASTCLK_IDENTITY_H

struct dentry;

#ifdef FASTCLK_FAULT_INJECTION
void fastclk_identity_init(struct dentry *dir);
#else
static inline void fastclk_identity_init(struct dentry *dir)
{
}
#endif

#endif /* _FASTCLK_IDENTITY_H */
