/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything that differs between kernels, and nothing else. The other files are written
 * for the newest kernel. What is there is found out by looking into headers, since
 * stable and distribution kernels change APIs without changing their major version:
 * here with #ifdef where the new thing is a macro, otherwise by the Kbuild file.
 *
 * Each entry says which kernels need it, so that it can go when they do.
 */
#ifndef _FASTCLK_COMPAT_H
#define _FASTCLK_COMPAT_H

#include <linux/mm.h>

/* Before 6.3 (Debian 11 and 12): vm_flags was a plain field. */
#ifndef FASTCLK_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#endif /* _FASTCLK_COMPAT_H */
