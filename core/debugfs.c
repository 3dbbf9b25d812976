// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/fastclk/pairs: what was measured of every pair of CPUs; fit: how the
 * counter fits to the kernel's clock. Only for root, since it tells how CPUs are placed.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "identity.h"
#include "internal.h"

static struct dentry *fastclk_debugfs;

static int pairs_show(struct seq_file *m, void *unused)
{
	return fastclk_sync_show(m);
}
DEFINE_SHOW_ATTRIBUTE(pairs);

static int fit_show(struct seq_file *m, void *unused)
{
	return fastclk_sampler_show(m);
}
DEFINE_SHOW_ATTRIBUTE(fit);

/**
 * fastclk_debugfs_init - make the files
 *
 * Not an error if it fails: nothing depends on them. May sleep.
 */
void fastclk_debugfs_init(void)
{
	fastclk_debugfs = debugfs_create_dir("fastclk", NULL);
	debugfs_create_file("pairs", 0400, fastclk_debugfs, NULL, &pairs_fops);
	debugfs_create_file("fit", 0400, fastclk_debugfs, NULL, &fit_fops);
	fastclk_identity_init(fastclk_debugfs);
}

/**
 * fastclk_debugfs_exit - remove them
 *
 * Waits for those who read them. May sleep.
 */
void fastclk_debugfs_exit(void)
{
	debugfs_remove(fastclk_debugfs);
}
