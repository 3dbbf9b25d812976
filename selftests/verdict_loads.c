// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads the module again and again and counts the verdicts; prints one line of TAP for
 * each condition. Run in guests by guest_verdict.sh and guest_scale.sh:
 *
 *   verdict_loads synced COUNT MODULE       idle, then with a busy loop on each CPU: the
 *                                           verdict is "synced", if need be after re-checks
 *   verdict_loads unsynced COUNT MODULE     the test build: CPU after CPU is off by +-5,000
 *                                           cycles, idle and busy: the verdict is
 *                                           "unsynced" and names that CPU, or both of two,
 *                                           since offsets are forbidden
 *   verdict_loads offset COUNT MODULE       the same, with offsets, as is the default: "offset"
 *   verdict_loads scale COUNT MODULE        idle and busy: a load takes its budget at most,
 *                                           and the verdict is never "unsynced"
 *   verdict_loads busy SECONDS              keeps all CPUs busy, loads nothing
 *
 * A fourth argument is the time for each of the conditions, in seconds: where the host is
 * so busy that COUNT loads take longer, there are fewer of them, but at least three.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/fastclk.h>

#define ATTRIBUTES	"/sys/class/misc/fastclk/"

/* An overcommitted host may starve a measurement, but hardly so many in a row. */
#define MOST_RECHECKS	10

#define FAULT_CYCLES	5000

#define MOST_CPUS	1024
static pid_t busy[MOST_CPUS];
static unsigned int cpus, points;

#define FEWEST	3
static double limit_ms;

static void die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void pause_ms(unsigned int ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&time, NULL);
}

static void point(bool ok, const char *name)
{
	printf("%sok %u - %s\n", ok ? "" : "not ", ++points, name);
	fflush(stdout);
}

/* --- the module */

/* With a pause of 1 ms each; far more than it takes, also on a busy host. */
#define UNLOAD_TRIES	60000

static void unload(void)
{
	unsigned int tries = 0;

	while (syscall(SYS_delete_module, "fastclk", O_NONBLOCK)) {
		if (errno == ENOENT)
			return;
		/* Its threads still measure in the background. */
		if (errno != EWOULDBLOCK || ++tries > UNLOAD_TRIES)
			die("unload");
		pause_ms(1);
	}
}

/* Return: how long it took, ms. */
static double load(const char *module, const char *parameters)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC);
	double begin = now_ms();

	if (fd < 0)
		die(module);
	if (syscall(SYS_finit_module, fd, parameters, 0))
		die("load");
	close(fd);
	return now_ms() - begin;
}

static void read_page(struct fastclk_page *page)
{
	int fd = open("/dev/fastclk", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, page, sizeof(*page)) != sizeof(*page))
		die("/dev/fastclk");
	close(fd);
}

static uint32_t read_verdict(void)
{
	struct fastclk_page page;

	read_page(&page);
	return page.verdict.verdict;
}

static bool is_complete(void)
{
	struct fastclk_page page;

	read_page(&page);
	return page.verdict.pairs == page.verdict.pairs_total;
}

/* Return: whether the CPUs were measured. */
static bool recheck(void)
{
	int fd = open(ATTRIBUTES "recheck", O_WRONLY | O_CLOEXEC);
	ssize_t ret;

	if (fd < 0)
		die("recheck");
	/* One a second is allowed. */
	while ((ret = write(fd, "1", 1)) < 0 && errno == EBUSY)
		pause_ms(50);
	if (ret < 0 && errno != ETIMEDOUT)
		die("recheck");
	close(fd);
	return ret == 1;
}

static void read_bad_cpus(char *text, size_t size)
{
	int fd = open(ATTRIBUTES "bad_cpus", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

	if (length < 1)
		die("bad_cpus");
	text[length - 1] = 0;
	close(fd);
}

/* --- load on the CPUs */

static void be_busy(unsigned int cpu)
{
	volatile unsigned int count = 0;
	cpu_set_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/*
	 * The measurement's FIFO threads come before it, nice or not. But this program, and the
	 * rest of loading a module, are ordinary tasks.
	 */
	if (nice(19) < 0)
		_exit(1);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(1);
	for (;;)
		count++;
}

static void set_busy(bool on)
{
	unsigned int cpu;

	fflush(stdout);
	for (cpu = 0; cpu < cpus; cpu++) {
		if (on) {
			busy[cpu] = fork();
			if (busy[cpu] < 0)
				die("fork");
			if (!busy[cpu])
				be_busy(cpu);
		} else {
			kill(busy[cpu], SIGKILL);
			waitpid(busy[cpu], NULL, 0);
		}
	}
}

/* --- conditions */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/*
 * struct count - what became of some loads
 * @at_once, @later: loads whose verdict was the expected one, at once or after re-checks
 * @wrong: the opposite verdict
 * @unknown: no verdict after all re-checks
 * @misnamed: other CPUs were blamed
 */
struct count {
	unsigned int at_once;
	unsigned int later;
	unsigned int wrong;
	unsigned int unknown;
	unsigned int misnamed;
};

/* Load once, and go on until there is a verdict. */
static double load_and_count(const char *module, const char *parameters, uint32_t expected,
			     const char *bad, struct count *count)
{
	unsigned int rechecks = 0;
	char text[256];
	uint32_t found;
	double ms;

	unload();
	ms = load(module, parameters);
	for (;;) {
		found = read_verdict();
		read_bad_cpus(text, sizeof(text));
		/*
		 * Before all CPUs were compared, it may not be known who of two is wrong, nor, before
		 * they were compared twice, that they only have offsets.
		 */
		if (found != FASTCLK_VERDICT_UNKNOWN &&
		    (found == expected || expected != FASTCLK_VERDICT_OFFSET) &&
		    (!strcmp(text, bad) || is_complete()))
			break;
		if (rechecks == MOST_RECHECKS)
			break;
		recheck();
		rechecks++;
	}
	if (found == FASTCLK_VERDICT_UNKNOWN)
		count->unknown++;
	else if (found != expected)
		count->wrong++;
	else if (strcmp(text, bad))
		count->misnamed++;
	else if (rechecks)
		count->later++;
	else
		count->at_once++;
	if ((found != expected && found != FASTCLK_VERDICT_UNKNOWN) ||
	    (found == expected && strcmp(text, bad))) {
		printf("# loaded with \"%s\": verdict %u, bad CPUs \"%s\"\n", parameters, found,
		       text);
		fflush(stdout);
	}
	return ms;
}

static void show_count(const struct count *count, double *ms, unsigned int n)
{
	qsort(ms, n, sizeof(*ms), compare);
	printf("# %u at once, %u after re-checks, %u wrong, %u unknown, %u misnamed; "
	       "load time %.0f ms median, %.0f ms at most\n", count->at_once, count->later,
	       count->wrong, count->unknown, count->misnamed, ms[n / 2], ms[n - 1]);
	fflush(stdout);
}

/* The same again and again. Return: whether all was as expected. */
static bool load_many(const char *module, const char *parameters, uint32_t expected,
		      const char *bad, double *ms, unsigned int n)
{
	struct count count = { 0 };
	double begin = now_ms();
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (limit_ms && i >= FEWEST && now_ms() - begin > limit_ms) {
			printf("# the host is busy: %u loads in %.0f s, and not %u\n", i,
			       limit_ms / 1000, n);
			break;
		}
		ms[i] = load_and_count(module, parameters, expected, bad, &count);
	}
	show_count(&count, ms, i);
	return count.at_once + count.later == i;
}

static void test_synced(const char *module, unsigned int n, double *ms)
{
	char name[128];
	int loaded;
	bool ok;

	printf("1..2\n");
	for (loaded = 0; loaded < 2; loaded++) {
		if (loaded)
			set_busy(true);
		ok = load_many(module, "", FASTCLK_VERDICT_SYNCED, "", ms, n);
		if (loaded)
			set_busy(false);
		snprintf(name, sizeof(name), "%u CPUs, %s: synced in each load", cpus,
			 loaded ? "busy" : "idle");
		point(ok, name);
	}
}

static void test_off(const char *module, uint32_t expected, unsigned int n, double *ms)
{
	bool offset = expected == FASTCLK_VERDICT_OFFSET;
	char name[128], parameters[64], bad[16];
	unsigned int cpu;
	int loaded, sign;
	bool ok;

	printf("1..%u\n", 4 * cpus);
	for (loaded = 0; loaded < 2; loaded++) {
		if (loaded)
			set_busy(true);
		for (cpu = 0; cpu < cpus; cpu++) {
			for (sign = 1; sign >= -1; sign -= 2) {
				snprintf(parameters, sizeof(parameters), "fault=%u:%d%s", cpu,
					 sign * FAULT_CYCLES, offset ? "" : " offsets=0");
				/* Of two, nobody can say which one is wrong. */
				if (cpus == 2)
					strcpy(bad, "0-1");
				else
					snprintf(bad, sizeof(bad), "%u", cpu);
				ok = load_many(module, parameters, expected, bad, ms, n);
				snprintf(name, sizeof(name),
					 "%u CPUs, %s, CPU %u off by %+d: %s and named",
					 cpus, loaded ? "busy" : "idle", cpu, sign * FAULT_CYCLES,
					 offset ? "offset" : "unsynced");
				point(ok, name);
			}
		}
		if (loaded)
			set_busy(false);
	}
}

/* As modinfo says. */
static unsigned int budget_ms(void)
{
	return 2000 + (cpus > 4 ? (cpus - 4) * 286 : 0);
}

/*
 * Threads are started and stopped outside of the budget. How long that takes here, is seen
 * from a load whose budget is 10 ms, if it matters; a batch that was begun may end, too.
 */
static double overhead_ms(const char *module)
{
	unload();
	return load(module, "budget_ms=10");
}

#define SLACK_MS	1000

static double longest_ms(double overhead)
{
	return budget_ms() + 3 * overhead + SLACK_MS;
}

static void test_scale(const char *module, unsigned int n)
{
	struct fastclk_page page;
	double ms, overhead;
	char name[128];
	unsigned int i;
	int loaded;

	printf("1..4\n");
	for (loaded = 0; loaded < 2; loaded++) {
		bool in_time = true, judged = true;

		if (loaded)
			set_busy(true);
		for (i = 0; i < n; i++) {
			unload();
			ms = load(module, "");
			read_page(&page);
			overhead = ms > longest_ms(0) ? overhead_ms(module) : 0;
			printf("# %u CPUs, %s: %.0f ms (with a budget of 10: %.0f); verdict %u, "
			       "%u pairs of %u, skew %" PRId64 " cycles\n", cpus,
			       loaded ? "busy" : "idle", ms, overhead, page.verdict.verdict,
			       page.verdict.pairs, page.verdict.pairs_total,
			       (int64_t)page.verdict.max_skew_cycles);
			fflush(stdout);
			in_time &= ms <= longest_ms(overhead);
			/* Not measured in full: then bounded through others, or not known. */
			judged &= page.verdict.verdict == FASTCLK_VERDICT_UNKNOWN ||
				  (page.verdict.verdict == FASTCLK_VERDICT_SYNCED &&
				   page.verdict.max_skew_cycles != UINT64_MAX &&
				   page.verdict.pairs >= cpus - 1);
			judged &= page.verdict.pairs_total == cpus * (cpus - 1) / 2 &&
				  page.verdict.cpus == cpus;
		}
		unload();
		if (loaded)
			set_busy(false);
		snprintf(name, sizeof(name), "%u CPUs, %s: loads within the budget", cpus,
			 loaded ? "busy" : "idle");
		point(in_time, name);
		snprintf(name, sizeof(name), "%u CPUs, %s: synced or unknown", cpus,
			 loaded ? "busy" : "idle");
		point(judged, name);
	}
}

int main(int argc, char **argv)
{
	unsigned int n = argc > 2 ? atoi(argv[2]) : 0;
	const char *what = argc > 1 ? argv[1] : "";
	double *ms = calloc(n + 1, sizeof(*ms));

	limit_ms = argc > 4 ? atoi(argv[4]) * 1000.0 : 0;
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (!ms || !n || cpus > MOST_CPUS || (argc < 4 && strcmp(what, "busy"))) {
		fprintf(stderr, "Usage: verdict_loads synced|unsynced|offset|scale COUNT MODULE [SECONDS]\n"
			"       verdict_loads busy SECONDS\n");
		return 2;
	}
	if (!strcmp(what, "busy")) {
		set_busy(true);
		pause_ms(n * 1000);
		set_busy(false);
	} else if (!strcmp(what, "synced")) {
		test_synced(argv[3], n, ms);
	} else if (!strcmp(what, "unsynced")) {
		test_off(argv[3], FASTCLK_VERDICT_UNSYNCED, n, ms);
	} else if (!strcmp(what, "offset")) {
		test_off(argv[3], FASTCLK_VERDICT_OFFSET, n, ms);
	} else {
		test_scale(argv[3], n);
	}
	free(ms);
	return 0;
}
