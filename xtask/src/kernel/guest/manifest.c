/*
 * The canonical listing of a tree, one line per entry, fields separated by tabs:
 *
 *   path type mode uid gid size nlink mtime rdev target sha256 xattrs first-name
 *
 * path is relative ("." the root), bytes outside 0x21..0x7e and backslashes as \xHH; type one of f d l c b p s; mode the twelve
 * permission bits in octal; size of regular files only and nlink of all but directories, since both depend on the file system
 * otherwise; mtime in seconds; rdev as major:minor; xattrs as name=hex joined by commas in the order of their names; first-name
 * the first path of the same inode where it has several. A field that does not apply is "-".
 */
#include "helper.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct entry {
	char *path;
	struct stat stat;
};

static struct entry *entries;
static size_t count, room;

static void collect(const char *path)
{
	if (count == room) {
		room = room ? 2 * room : 256;
		entries = realloc(entries, room * sizeof *entries);
		if (!entries)
			die("realloc", path);
	}
	struct entry *entry = &entries[count++];
	entry->path = strdup(path);
	if (!entry->path || lstat(path, &entry->stat))
		die("lstat", path);
	if (!S_ISDIR(entry->stat.st_mode))
		return;
	DIR *directory = opendir(path);
	if (!directory)
		die("opendir", path);
	errno = 0;
	for (struct dirent *name; (name = readdir(directory)); errno = 0) {
		char below[PATH_MAX];
		if (!strcmp(name->d_name, ".") || !strcmp(name->d_name, ".."))
			continue;
		if (snprintf(below, sizeof below, "%s/%s", path, name->d_name) >= (int)sizeof below) {
			errno = ENAMETOOLONG;
			die("path", path);
		}
		collect(below);
	}
	if (errno)
		die("readdir", path);
	closedir(directory);
}

static int by_path(const void *left, const void *right)
{
	return strcmp(((const struct entry *)left)->path, ((const struct entry *)right)->path);
}

static int by_name(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

static void escaped(const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		printf(*c > 0x20 && *c < 0x7f && *c != '\\' ? "%c" : "\\x%02x", *c);
}

static void print_xattrs(const char *path)
{
	static char names[65536], value[65536];
	char *sorted[1024];
	size_t found = 0;
	ssize_t length = llistxattr(path, names, sizeof names);
	if (length < 0 && errno != ENOTSUP)
		die("llistxattr", path);
	for (ssize_t at = 0; at < length && found < 1024; at += strlen(names + at) + 1)
		sorted[found++] = names + at;
	qsort(sorted, found, sizeof *sorted, by_name);
	for (size_t i = 0; i < found; i++) {
		ssize_t bytes = lgetxattr(path, sorted[i], value, sizeof value);
		if (bytes < 0)
			die("lgetxattr", path);
		printf(i ? "," : "");
		escaped(sorted[i]);
		printf("=");
		for (ssize_t k = 0; k < bytes; k++)
			printf("%02x", (unsigned char)value[k]);
	}
	if (!found)
		printf("-");
}

static char letter(mode_t mode)
{
	return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : S_ISCHR(mode) ? 'c'
		: S_ISBLK(mode) ? 'b' : S_ISFIFO(mode) ? 'p' : S_ISSOCK(mode) ? 's' : '?';
}

static const char *relative(const char *path, size_t root)
{
	return path[root] ? path + root + 1 : ".";
}

static void print_entry(size_t index, size_t root)
{
	const struct entry *entry = &entries[index];
	const struct stat *stat = &entry->stat;
	char type = letter(stat->st_mode), text[PATH_MAX] = "";
	escaped(relative(entry->path, root));
	printf("\t%c\t%04o\t%u\t%u\t", type, stat->st_mode & 07777, stat->st_uid, stat->st_gid);
	printf(type == 'f' ? "%lld\t" : "-\t", (long long)stat->st_size);
	printf(type != 'd' ? "%lu\t" : "-\t", (unsigned long)stat->st_nlink);
	printf("%lld\t", (long long)stat->st_mtime);
	printf(type == 'c' || type == 'b' ? "%u:%u\t" : "-\t", major(stat->st_rdev), minor(stat->st_rdev));
	if (type == 'l') {
		if (readlink(entry->path, text, sizeof text - 1) < 0)
			die("readlink", entry->path);
		escaped(text);
	} else {
		printf("-");
	}
	char hex[65] = "-";
	if (type == 'f')
		sha256_file(entry->path, hex);
	printf("\t%s\t", hex);
	print_xattrs(entry->path);
	printf("\t");
	size_t first = index;
	if (type != 'd' && stat->st_nlink > 1)
		for (first = 0; entries[first].stat.st_ino != stat->st_ino || entries[first].stat.st_dev != stat->st_dev;)
			first++;
	if (first == index)
		printf("-\n");
	else
		escaped(relative(entries[first].path, root)), printf("\n");
}

int manifest(const char *root)
{
	collect(root);
	qsort(entries, count, sizeof *entries, by_path);
	for (size_t i = 0; i < count; i++)
		print_entry(i, strlen(root));
	return fflush(stdout) ? 1 : 0;
}
