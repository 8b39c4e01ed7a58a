/* The standalone binary: unpacks the program into a folder, unless it is there, and becomes it.
 *
 * It becomes it by exec, so there is one process: signals, the exit status and kill -9 mean what they
 * mean anywhere. `build.py` puts two files into it: `index`, a line for each thing to unpack, and
 * `payload`, the files' contents one after the other, deflated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#define PROGRAM "pyrbacproxy"
#define SETTING "PYRBACPROXY_UNPACK_FOLDER"
#define NAME_BYTES 256

__asm__(".section .rodata\n"
	".global index_start\nindex_start: .incbin \"index\"\n.byte 0\n"
	".global payload_start\npayload_start: .incbin \"payload\"\n"
	".global payload_end\npayload_end:\n"
	".previous\n");
extern const char index_start[];
extern unsigned char payload_start[], payload_end[];

/* The first line of the index: which payload this is, its size, where the program names its loader. */
static char identity[33], loader[NAME_BYTES];
static long long unpacked_bytes, interpreter_at;
static const char *entries;

static char folder[PATH_MAX];         /* the setting: what we unpack into */
static char unpacked[PATH_MAX + 128]; /* our own folder in it, which is there whole or not at all */
static char partial[PATH_MAX + 256];  /* where it grows; empty when there is none */

struct entry {
	char kind; /* d: folder, f: file, l: symbolic link */
	unsigned mode;
	long long size;
	char name[NAME_BYTES];
	char target[NAME_BYTES];
};

static char *path_of(const char *base, const char *name)
{
	char *path;
	if (asprintf(&path, "%s/%s", base, name) < 0)
		abort();
	return path;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
	(void)about, (void)kind, (void)where;
	return remove(path);
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *why, ...)
{
	va_list words;
	if (*partial)
		remove_tree(partial);
	fprintf(stderr, PROGRAM ": cannot unpack into %s: ", folder);
	va_start(words, why);
	vfprintf(stderr, why, words);
	va_end(words);
	fprintf(stderr,
		"\nSet " SETTING " to a folder that can be written, has %lld MB free and is not mounted noexec.\n",
		unpacked_bytes / 1000000 + 1);
	exit(1);
}

/* The entry at a place in the index; NULL at the end, else the place of the next one. */
static const char *next(const char *place, struct entry *entry)
{
	int length = 0;
	if (!*place)
		return NULL;
	if (sscanf(place, "%c\t%o\t%lld\t%255[^\t\n]\t%255[^\t\n]%n", &entry->kind, &entry->mode, &entry->size, entry->name,
		   entry->target, &length) != 5)
		abort();
	return place + length + 1;
}

static int names_its_loader(const char *program)
{
	char found[PATH_MAX] = "", *wanted = path_of(unpacked, loader);
	int file = open(program, O_RDONLY | O_CLOEXEC);
	int same = file >= 0 && pread(file, found, sizeof found - 1, interpreter_at) > 0 && !strcmp(found, wanted);
	if (file >= 0)
		close(file);
	free(wanted);
	return same;
}

/* Whether all is there: a folder below /tmp may have been tidied in the meantime. */
static int is_whole(void)
{
	struct entry entry;
	for (const char *place = entries; (place = next(place, &entry));) {
		struct stat about;
		char *path = path_of(unpacked, entry.name);
		int is_there = !lstat(path, &about) && (entry.kind != 'f' || about.st_size == entry.size) &&
			       (strcmp(entry.name, PROGRAM) || names_its_loader(path));
		free(path);
		if (!is_there)
			return 0;
	}
	return 1;
}

/* Nobody else may have made the folder, or be able to change what we are about to run from it. */
static int exists(void)
{
	struct stat about;
	if (lstat(unpacked, &about)) {
		if (errno != ENOENT)
			fail("%s: %s", unpacked, strerror(errno));
		return 0;
	}
	if (!S_ISDIR(about.st_mode) || about.st_uid != geteuid() || about.st_mode & (S_IWGRP | S_IWOTH))
		fail("%s is there and is not ours alone; remove it", unpacked);
	return 1;
}

static void write_file(const char *path, const struct entry *entry, z_stream *stream)
{
	static unsigned char piece[1 << 16];
	int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, entry->mode);
	if (file < 0)
		fail("%s", strerror(errno));
	for (long long left = entry->size; left > 0;) {
		stream->next_out = piece;
		stream->avail_out = left < (long long)sizeof piece ? (unsigned)left : sizeof piece;
		int outcome = inflate(stream, Z_NO_FLUSH);
		size_t length = stream->next_out - piece;
		if (outcome != Z_OK && !(outcome == Z_STREAM_END && length))
			fail("the binary is damaged");
		for (size_t written = 0; written < length;) {
			ssize_t count = write(file, piece + written, length - written);
			if (count < 0)
				fail("%s", strerror(errno));
			written += count;
		}
		left -= length;
	}
	if (!strcmp(entry->name, PROGRAM)) {
		char *name = path_of(unpacked, loader);
		if (pwrite(file, name, strlen(name) + 1, interpreter_at) < 0)
			fail("%s", strerror(errno));
		free(name);
	}
	if (close(file))
		fail("%s", strerror(errno));
}

static void unpack(void)
{
	z_stream stream = {.next_in = payload_start, .avail_in = payload_end - payload_start};
	struct entry entry;
	if (inflateInit(&stream) != Z_OK)
		fail("out of memory");
	for (const char *place = entries; (place = next(place, &entry));) {
		char *path = path_of(partial, entry.name);
		if (entry.kind == 'f')
			write_file(path, &entry, &stream);
		else if (entry.kind == 'd' ? mkdir(path, entry.mode) : symlink(entry.target, path))
			fail("%s", strerror(errno));
		free(path);
	}
	inflateEnd(&stream);
}

/* Unpack beside the final place and move it there; of two at the same time the second uses what the first made. */
static void provide(void)
{
	struct statvfs about;
	if (exists() && is_whole())
		return;
	if (!statvfs(folder, &about) && about.f_flag & ST_NOEXEC)
		fail("it is mounted noexec");
	snprintf(partial, sizeof partial, "%s.XXXXXX", unpacked);
	if (!mkdtemp(partial)) {
		*partial = 0;
		fail("%s", strerror(errno));
	}
	unpack();
	if (rename(partial, unpacked)) {
		int why = errno;
		if (!exists())
			fail("%s", strerror(why));
		if (!is_whole() && renameat2(AT_FDCWD, partial, AT_FDCWD, unpacked, RENAME_EXCHANGE))
			fail("%s", strerror(errno));
		remove_tree(partial);
	}
	*partial = 0;
}

static void read_settings(void)
{
	const char *wanted = getenv(SETTING);
	int length = 0;
	if (!wanted || !*wanted)
		wanted = getenv("TMPDIR");
	if (!wanted || !*wanted)
		wanted = "/tmp";
	if (sscanf(index_start, "%32s %lld %lld %255s%n", identity, &unpacked_bytes, &interpreter_at, loader, &length) != 4)
		abort();
	entries = index_start + length + 1;
	snprintf(folder, sizeof folder, "%s", wanted);
	if (!realpath(wanted, folder)) {
		snprintf(folder, sizeof folder, "%s", wanted);
		fail("%s", strerror(errno));
	}
	if (strlen(folder) > INTERPRETER_BYTES - 128)
		fail("its path is too long");
	snprintf(unpacked, sizeof unpacked, "%s/" PROGRAM "-%u-%s", folder, geteuid(), identity);
}

int main(int count, char **words)
{
	(void)count;
	if (access("/proc/self/exe", F_OK)) {
		fputs(PROGRAM ": /proc is not mounted: the loader finds the unpacked libraries by it\n", stderr);
		return 1;
	}
	read_settings();
	provide();
	/* systemd-tmpfiles leaves alone what somebody holds a lock on; the lock lasts as long as the process. */
	int held = open(unpacked, O_RDONLY | O_DIRECTORY);
	if (held >= 0)
		flock(held, LOCK_SH);
	execv(path_of(unpacked, PROGRAM), words);
	fail("%s", errno == EACCES ? "nothing may be run from it" : strerror(errno));
}
