/*
 * The pattern workload: files of 256 KiB, filled in their order, then aligned overwrites of 4096 bytes. The sequence is fixed: the
 * same pattern, number of files and amount give the same bytes everywhere. docs/guide/kernel.md describes it.
 */
#define _GNU_SOURCE
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD = 4096, RECORDS_PER_FILE = 64 };

static uint64_t step(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Version v of record i: noise, so that nothing compresses. */
static void put(int *files, uint64_t i, uint64_t v)
{
	uint64_t content[RECORD / 8];
	uint64_t s = (i + 1) * 0x9E3779B97F4A7C15u ^ (v + 1) * 0xD1B54A32D192ED03u;
	s = s ? s : 1;
	for (int k = 0; k < RECORD / 8; k++)
		content[k] = s = step(s);
	if (pwrite(files[i / RECORDS_PER_FILE], content, RECORD, i % RECORDS_PER_FILE * RECORD) != RECORD)
		die("pwrite", "record");
}

static int *open_files(const char *root, uint64_t count, int flags)
{
	int *files = get(count * sizeof *files);
	for (uint64_t i = 0; i < count; i++) {
		char path[PATH_MAX];
		snprintf(path, sizeof path, "%s/f%04llu", root, (unsigned long long)i);
		files[i] = open(path, flags, 0644);
		if (files[i] < 0)
			die("open", path);
	}
	return files;
}

int fill(const char *root, uint64_t count)
{
	int *files = open_files(root, count, O_CREAT | O_WRONLY | O_EXCL);
	for (uint64_t i = 0; i < count * RECORDS_PER_FILE; i++)
		put(files, i, 0);
	return 0;
}

/* 640-116: 60 % of the writes on one eighth of the records, 40 % on another, the rest never. */
static uint64_t choose(const char *pattern, uint64_t k, uint64_t n)
{
	if (!strcmp(pattern, "seq"))
		return k % n;
	if (!strcmp(pattern, "rnd"))
		return next() % n;
	uint64_t u = next() % 100, c = u < 60 ? 0 : 1, j = next() % (n / 8);
	if (!strcmp(pattern, "hcf"))
		return (8 * (j / RECORDS_PER_FILE) + c) * RECORDS_PER_FILE + j % RECORDS_PER_FILE;
	if (!strcmp(pattern, "hcc"))
		return c * (n / 8) + j;
	if (!strcmp(pattern, "hci"))
		return j * 8 + c;
	errno = EINVAL;
	die("pattern", pattern);
}

/* One processor: whether the kernel's flusher runs as soon as sync(2) wakes it, or when that waits for it. */
void schedule(const char *how)
{
	int gives_way = !strcmp(how, "yielding");
	struct sched_param param = { .sched_priority = gives_way ? 0 : 1 };
	if (sched_setscheduler(0, gives_way ? SCHED_IDLE : SCHED_FIFO, &param))
		die("sched_setscheduler", how);
}

/* After every so many records everything is synced, unless that is 0. */
int overwrite(const char *root, const char *pattern, uint64_t count, uint64_t mib, uint64_t sync_every)
{
	uint64_t n = count * RECORDS_PER_FILE;
	int *files = open_files(root, count, O_WRONLY);
	for (uint64_t k = 0; k < mib * 256; k++) {
		uint64_t i = choose(pattern, k, n);
		if (k < 4)
			printf("%llu%s", (unsigned long long)i, k < 3 ? " " : "\n");
		put(files, i, k + 1);
		if (sync_every && (k + 1) % sync_every == 0)
			sync();
	}
	return 0;
}
