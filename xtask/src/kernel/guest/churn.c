/*
 * Trees with every kind of entry, and long changes to them. Both follow from the seed alone, except where the volume is full: then what
 * is deleted depends on the file system.
 */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { DIRECTORIES = 8, MOST = 96 * 1024 };

static const char *top;
static uint64_t written, names = 384;
/* mkfs.jffs2 knows no larger device number; Linux does. */
static uint64_t majors = 255;

/* Noise, text, runs of one byte, or a mixture, so that compressors meet what they pack well, badly and not at all. */
static void content(char *to, size_t bytes)
{
	static const char *words[] = { "flash ", "erase ", "block ", "page ", "node ", "the ", "of ", "log\n" };
	uint64_t kind = below(4);
	for (size_t at = 0; at < bytes;) {
		char run[256];
		size_t length = 1 + below(sizeof run - 1);
		uint64_t now = kind == 3 ? below(3) : kind;
		if (now == 1)
			length = snprintf(run, sizeof run, "%s", words[below(8)]);
		else if (now == 2)
			memset(run, next() & 0xff, length);
		else
			for (size_t i = 0; i < length; i++)
				run[i] = next() >> 24;
		length = length < bytes - at ? length : bytes - at;
		memcpy(to + at, run, length);
		at += length;
	}
}

/* Writes so many bytes at an offset of the file, in pieces of uneven length; false where the volume is full. */
static int put(const char *path, int flags, off_t offset, size_t bytes)
{
	static char buffer[MOST];
	int file = open(path, flags | O_WRONLY, 0600 | below(0200));
	if (file < 0) {
		if (errno == ENOSPC)
			return 0;
		die("open", path);
	}
	content(buffer, bytes);
	int whole = 1;
	for (size_t at = 0; at < bytes && whole;) {
		size_t piece = 1 + below(20000);
		piece = piece < bytes - at ? piece : bytes - at;
		ssize_t done = pwrite(file, buffer + at, piece, offset + at);
		if (done < 0 && errno != ENOSPC)
			die("pwrite", path);
		whole = done == (ssize_t)piece;
		at += whole ? piece : 0;
		written += done > 0 ? done : 0;
	}
	if (close(file))
		die("close", path);
	return whole;
}

static const char *directory_path(uint64_t number)
{
	static char path[PATH_MAX];
	if (number == 0)
		snprintf(path, sizeof path, "%s/churn", top);
	else
		snprintf(path, sizeof path, "%s/churn/d%llu", top, (unsigned long long)number);
	return path;
}

/* The path of a name: each number has one directory; now and then a long name, and one in UTF-8. */
static void name_path(char path[PATH_MAX], uint64_t number)
{
	static const char filler[] = "-long-names-take-more-than-one-look-and-fill-a-node-of-their-own";
	int length = number % 7 == 0 ? (int)(number % sizeof filler) : 0;
	snprintf(path, PATH_MAX, "%s/n%llu%.*s%s", directory_path(number % DIRECTORIES), (unsigned long long)number, length,
		filler, number % 11 == 0 ? "-\xc3\xa9\xe2\x82\xac" : "");
}

static void free_some(void)
{
	char path[PATH_MAX];
	for (int i = 0; i < 64; i++) {
		name_path(path, below(names));
		if (unlink(path) && errno != ENOENT && errno != ENOSPC)
			die("unlink", path);
	}
}

/* Fails on any error but those that a random choice of names explains, and those of a full volume. */
static void allow(int result, const char *what, const char *path)
{
	if (result && errno == ENOSPC)
		free_some();
	else if (result && errno != ENOENT && errno != EEXIST && errno != ENODATA && errno != EMLINK)
		die(what, path);
}

static void set_attribute(const char *path)
{
	char name[64], value[600];
	size_t bytes = below(below(8) ? 40 : sizeof value);
	snprintf(name, sizeof name, "user.a%llu", (unsigned long long)below(5));
	content(value, bytes);
	if (below(4) == 0)
		allow(lremovexattr(path, name), "lremovexattr", path);
	else
		allow(lsetxattr(path, name, value, bytes, 0), "lsetxattr", path);
}

static void set_metadata(const char *path)
{
	struct timespec times[2] = { { .tv_sec = 1000000000 + below(500000000) }, { .tv_sec = 1000000000 + below(500000000) } };
	switch (below(3)) {
	case 0:
		allow(fchmodat(AT_FDCWD, path, 0400 | below(07400), 0), "chmod", path);
		break;
	case 1:
		allow(lchown(path, below(70000), below(70000)), "lchown", path);
		break;
	default:
		allow(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), "utimensat", path);
	}
}

/* Changes to names: all that the directory tree can be asked for. */
static void change_name(const char *path, const char *other, struct stat *stat, int exists)
{
	/* The most that JFFS2 takes is 254. */
	char target[255];
	switch (below(8)) {
	case 0:
	case 1:
		allow(rename(path, other), "rename", path);
		break;
	case 2:
		allow(link(path, other), "link", path);
		break;
	case 3:
		memset(target, 'a' + below(26), sizeof target);
		target[1 + below(sizeof target - 1)] = 0;
		allow(symlink(target, path), "symlink", path);
		break;
	case 4:
		allow(mknod(path, below(2) ? S_IFIFO | 0600 : S_IFCHR | 0600, makedev(1 + below(majors), below(majors + 1))), "mknod", path);
		break;
	case 5:
		allow(exists ? unlink(path) : 0, "unlink", path);
		break;
	default:
		if (exists && S_ISREG(stat->st_mode))
			set_attribute(path);
		if (exists && !S_ISLNK(stat->st_mode))
			set_metadata(path);
	}
}

/* A directory that comes and goes. */
static void change_directory(void)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/e%llu", directory_path(below(DIRECTORIES)), (unsigned long long)below(16));
	if (below(2))
		allow(mkdir(path, 0700 | below(0100)), "mkdir", path);
	else
		allow(rmdir(path), "rmdir", path);
}

/* Changes to a regular file's bytes; false where the volume is full. */
static int change_bytes(const char *path, off_t size)
{
	uint64_t bytes = 1 + below(below(4) ? 12000 : 60000);
	switch (below(4)) {
	case 0:
		return size > 256 * 1024 || put(path, 0, size, bytes);
	case 1:
		allow(truncate(path, below(size + 20000)), "truncate", path);
		return 1;
	default:
		return put(path, 0, below(size + 1), bytes);
	}
}

static void change(int full)
{
	char path[PATH_MAX], other[PATH_MAX];
	struct stat stat;
	name_path(path, below(names));
	name_path(other, below(names));
	int exists = !lstat(path, &stat), whole = 1;
	uint64_t what = below(10);
	if (what == 9)
		change_directory();
	else if (what >= 6)
		change_name(path, other, &stat, exists);
	else if (exists && !S_ISREG(stat.st_mode))
		allow(unlink(path), "unlink", path);
	else if (exists && (full || below(3)))
		whole = full && below(2) ? !unlink(path) : change_bytes(path, stat.st_size);
	else if (!full)
		whole = put(path, O_CREAT, 0, below(below(4) ? 20000 : MOST));
	if (!whole)
		free_some();
}

static struct statvfs look(void)
{
	struct statvfs volume;
	if (statvfs(top, &volume))
		die("statvfs", top);
	return volume;
}

static uint64_t percent_used(void)
{
	struct statvfs volume = look();
	return volume.f_blocks ? 100 - 100 * volume.f_bfree / volume.f_blocks : 0;
}

static void prepare(const char *root, uint64_t seed)
{
	top = root;
	generator = (seed + 1) * 0x9E3779B97F4A7C15u | 1;
	umask(0);
	for (uint64_t i = 0; i < DIRECTORIES; i++)
		if (mkdir(directory_path(i), 0755) && errno != EEXIST)
			die("mkdir", directory_path(i));
}

int churn(const char *root, uint64_t seed, uint64_t percent, uint64_t mib)
{
	int full = 0;
	uint64_t most = 0;
	prepare(root, seed);
	/* Enough names that their files can fill the volume. */
	majors = 4000;
	names = 64 + look().f_blocks * look().f_frsize / 16384;
	for (uint64_t k = 0; written < mib << 20; k++) {
		if (k % 16 == 0) {
			uint64_t used = percent_used();
			full = used >= percent;
			most = used > most ? used : most;
		}
		change(full);
	}
	printf("churn: %llu bytes written, volume at most %llu %% full\n", (unsigned long long)written, (unsigned long long)most);
	return 0;
}

/* One of each kind that the changes above make rarely or never. */
static void particular(const char *root)
{
	char path[PATH_MAX], name[256];
	struct timespec times[2] = { { .tv_sec = 1234567890 }, { .tv_sec = 1234567890 } };
	memset(name, 'n', 254);
	name[254] = 0;
	snprintf(path, sizeof path, "%s/%s", root, name);
	put(path, O_CREAT, 0, 0);
	snprintf(path, sizeof path, "%s/sparse", root);
	put(path, O_CREAT, 300000, 5000);
	snprintf(path, sizeof path, "%s/block", root);
	allow(mknod(path, S_IFBLK | 0640, makedev(31, 7)), "mknod", path);
	snprintf(path, sizeof path, "%s/socket", root);
	allow(mknod(path, S_IFSOCK | 0777, 0), "mknod", path);
	snprintf(path, sizeof path, "%s/strange \\ name\t\x01\xff", root);
	put(path, O_CREAT, 0, 4097);
	snprintf(path, sizeof path, "%s/empty", root);
	allow(mkdir(path, 01777), "mkdir", path);
	allow(utimensat(AT_FDCWD, path, times, 0), "utimensat", path);
	snprintf(path, sizeof path, "%s/setuid", root);
	put(path, O_CREAT, 0, 10);
	allow(chmod(path, 06755), "chmod", path);
	/* Attributes whose nodes end at each place of a word, of a file and of a directory, two of them alike. */
	for (size_t bytes = 0; bytes < 6; bytes++) {
		snprintf(name, sizeof name, "user.of%zu", bytes);
		allow(lsetxattr(path, name, "value", bytes, 0), "lsetxattr", path);
	}
	snprintf(path, sizeof path, "%s/empty", root);
	allow(lsetxattr(path, "user.of3", "value", 3, 0), "lsetxattr", path);
}

int tree(const char *root, uint64_t seed, uint64_t mib)
{
	prepare(root, seed);
	particular(root);
	while (written < mib << 20)
		change(0);
	return 0;
}
