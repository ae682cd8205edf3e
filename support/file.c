/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Whole files, on POSIX calls. */
#include "support/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "support/memory.h"
#include "support/text.h"

/* ---- Reading ---- */

/* Read from `stream` up to its end. The block grows by doubling. */
static enum sl_status read_stream(FILE *stream, const char *path, size_t limit, char **out, size_t *bytes_out)
{
    SL_FREED char *text = NULL;
    size_t room = 1 << 16;
    size_t have = 0;
    SL_CHECK(sl_alloc(room, 1, path, &text));
    for (;;) {
        have += fread(text + have, 1, room - 1 - have, stream);
        SL_FAIL_IF(have > limit, SL_EFILE, "%s: longer than the %zu bytes such a file may have", path, limit);
        if (have < room - 1) {
            break;
        }
        room *= 2;
        SL_CHECK(sl_realloc(&text, room, 1, path));
    }
    SL_FAIL_IF(ferror(stream), SL_EIO, "%s: cannot read: %s", path, strerror(errno));
    text[have] = '\0';
    *out = text;
    *bytes_out = have;
    text = NULL;
    return SL_OK;
}

enum sl_status sl_file_read(const char *path, size_t limit, char **out, size_t *bytes_out)
{
    FILE *stream = fopen(path, "rbe");
    SL_FAIL_IF(stream == NULL, SL_EIO, "%s: cannot open for reading: %s", path, strerror(errno));
    enum sl_status st = read_stream(stream, path, limit, out, bytes_out);
    fclose(stream);
    return st;
}

static void close_file(const int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}

enum sl_status sl_file_map(const char *path, struct sl_map *out)
{
    *out = (struct sl_map){0};
    struct stat info;
    SL_OWNED(close_file) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    SL_FAIL_IF(fd < 0, SL_EIO, "%s: cannot open for reading: %s", path, strerror(errno));
    SL_FAIL_IF(fstat(fd, &info) != 0 || !S_ISREG(info.st_mode), SL_EIO, "%s: cannot be mapped: expected a regular file",
               path);
    if (info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        SL_FAIL_IF(data == MAP_FAILED, SL_EIO, "%s: cannot map %lld bytes: %s", path, (long long)info.st_size,
                   strerror(errno));
        *out = (struct sl_map){.data = data, .bytes = (size_t)info.st_size};
    }
    return SL_OK;
}

void sl_file_forget(const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + bytes) / page * page;
    if (begin < end) {
        madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
}

void sl_file_unmap(struct sl_map *map)
{
    if (map->data != NULL) {
        munmap((void *)map->data, map->bytes);
    }
    *map = (struct sl_map){0};
}

/* ---- Writing ---- */

/* The path with symbolic links resolved, or unchanged if it does not exist. */
static enum sl_status resolve(const char *path, char **out)
{
    char *real = realpath(path, NULL);
    enum sl_status st = sl_strdup(sl_text_or(real, path), out);
    free(real);
    return st;
}

#define ADDED_BYTES 32 /* room for what a temporary name has more than the file's */

/* Make a new file next to `path`, with the mode of the replaced file. */
static enum sl_status open_temporary(const char *path, const struct stat *old, char **name_out, FILE **out)
{
    static atomic_uint counter;
    char *name;
    const char *slash = strrchr(path, '/');
    size_t folder = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    size_t length = strlen(path) - folder;
    length = length > NAME_MAX - ADDED_BYTES && length <= NAME_MAX ? NAME_MAX - ADDED_BYTES : length;
    enum sl_status st = SL_OK;
    SL_CHECK(sl_format(&name, "%.*s.tmp-%ld-%u", (int)(folder + length), path, (long)getpid(),
                       atomic_fetch_add(&counter, 1)));
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "wb");
    if (stream == NULL) {
        st = sl_fail(SL_EIO, "%s: cannot make a file in its folder: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
            unlink(name);
        }
        sl_free(name);
        return st;
    }
    if (old != NULL && fchmod(fd, old->st_mode & 07777) != 0) {
        /* The new file then has the default mode: better than no file. */
    }
    *name_out = name;
    *out = stream;
    return SL_OK;
}

int sl_file_stream(const char *path)
{
    struct stat named;
    struct stat open;
    for (int fd = 1; fd <= 2 && stat(path, &named) == 0 && S_ISREG(named.st_mode); fd++) {
        if (fstat(fd, &open) == 0 && open.st_dev == named.st_dev && open.st_ino == named.st_ino) {
            return fd;
        }
    }
    return -1;
}

static enum sl_status open_in_place(const char *path, FILE **out)
{
    int stream = sl_file_stream(path);
    *out = NULL;
    if (stream >= 0) {
        int copy = fcntl(stream, F_DUPFD_CLOEXEC, 0);
        *out = copy < 0 ? NULL : fdopen(copy, "wb");
    } else {
        *out = fopen(path, "wbe");
    }
    SL_FAIL_IF(*out == NULL, SL_EIO, "%s: cannot open for writing: %s", path, strerror(errno));
    return SL_OK;
}

enum sl_status sl_writer_open(const char *path, struct sl_writer *out)
{
    *out = (struct sl_writer){0};
    struct sl_writer writer = {0};
    struct stat info;
    enum sl_status st = SL_OK;
    SL_CHECK(resolve(path, &writer.path));
    bool exists = stat(path, &info) == 0;
    if (exists && (!S_ISREG(info.st_mode) || sl_file_stream(path) >= 0)) {
        /* Use the caller's path: the target of /dev/stdout may be no valid path. */
        st = open_in_place(path, &writer.stream);
    } else {
        st = open_temporary(writer.path, exists ? &info : NULL, &writer.temporary, &writer.stream);
    }
    if (st != SL_OK) {
        sl_free(writer.path);
        return st;
    }
    *out = writer;
    return SL_OK;
}

enum sl_status sl_writer_try(const char *path)
{
    struct sl_writer writer;
    struct stat info;
    if (stat(path, &info) == 0) {
        SL_FAIL_IF(S_ISDIR(info.st_mode), SL_EIO, "%s: cannot be written: %s", path, strerror(EISDIR));
        if (!S_ISREG(info.st_mode) || sl_file_stream(path) >= 0) {
            return SL_OK; /* opening a pipe would wait */
        }
    } else if (errno != ENOENT) {
        return sl_fail(SL_EIO, "%s: cannot be written: %s", path, strerror(errno));
    }
    SL_CHECK(sl_writer_open(path, &writer));
    sl_writer_abort(&writer);
    return SL_OK;
}

static enum sl_status write_failed(const struct sl_writer *writer)
{
    return sl_fail(SL_EIO, "%s: cannot write: %s", writer->path, strerror(errno));
}

enum sl_status sl_writer_put(struct sl_writer *writer, const void *data, size_t bytes)
{
    if (bytes == 0 || fwrite(data, 1, bytes, writer->stream) == bytes) {
        return SL_OK;
    }
    return write_failed(writer);
}

enum sl_status sl_writer_sync(struct sl_writer *writer)
{
    if (fflush(writer->stream) != 0) {
        return write_failed(writer);
    }
    /* A pipe or a terminal has no stable storage: not a failure. */
    if (fsync(fileno(writer->stream)) == 0 || errno == EINVAL || errno == ENOTSUP) {
        return SL_OK;
    }
    return write_failed(writer);
}

enum sl_status sl_writer_close(struct sl_writer *writer)
{
    enum sl_status st = SL_OK;
    bool bad = ferror(writer->stream) != 0;
    if (fclose(writer->stream) != 0 || bad) {
        st = write_failed(writer);
    }
    writer->stream = NULL;
    if (st == SL_OK && writer->temporary != NULL && rename(writer->temporary, writer->path) != 0) {
        st = sl_fail(SL_EIO, "%s: cannot rename the finished file to this name: %s", writer->path, strerror(errno));
    }
    if (st == SL_OK) {
        sl_free(writer->temporary);
        writer->temporary = NULL;
    }
    sl_writer_abort(writer);
    return st;
}

void sl_writer_abort(struct sl_writer *writer)
{
    if (writer->stream != NULL) {
        fclose(writer->stream);
    }
    if (writer->temporary != NULL) {
        unlink(writer->temporary);
    }
    sl_free(writer->temporary);
    sl_free(writer->path);
    *writer = (struct sl_writer){0};
}

/* ---- Folders and paths ---- */

/* Make every folder in `path`, one after each '/'. The string is changed; on success it is restored. */
static enum sl_status make_folders(char *path, uint32_t *n_made)
{
    for (char *end = path + 1;; end++) {
        if (*end != '/' && *end != '\0') {
            continue;
        }
        char kept = *end;
        *end = '\0';
        bool made = mkdir(path, 0777) == 0;
        int why = errno;
        bool bad = !made && why != EEXIST;
        *n_made += made;
        SL_FAIL_IF((bad || kept == '\0') && !sl_folder_exists(path), SL_EIO, "%s: cannot make this folder: %s", path,
                   strerror(bad ? why : ENOTDIR));
        *end = kept;
        if (kept == '\0') {
            return SL_OK;
        }
    }
}

enum sl_status sl_folder_make_new(const char *path, uint32_t *n_made)
{
    SL_FREED char *copy = NULL;
    enum sl_status st = SL_OK;
    *n_made = 0;
    SL_CHECK(sl_strdup(path, &copy));
    if (copy[0] != '\0') {
        st = make_folders(copy, n_made);
    }
    if (st != SL_OK) {
        sl_folder_remove_empty(copy, *n_made + 1); /* the last one in `copy` was not made */
        *n_made = 0;
    }
    return st;
}

enum sl_status sl_folder_make(const char *path)
{
    uint32_t n_made;
    return sl_folder_make_new(path, &n_made);
}

void sl_folder_remove_empty(const char *path, uint32_t n)
{
    SL_FREED char *copy = NULL;
    size_t length = strlen(path);
    if (n == 0 || sl_strdup(path, &copy) != SL_OK) {
        return;
    }
    for (uint32_t i = 0; i < n && length > 0; i++) {
        while (length > 1 && copy[length - 1] == '/') {
            copy[--length] = '\0';
        }
        rmdir(copy);
        while (length > 0 && copy[length - 1] != '/') {
            copy[--length] = '\0';
        }
    }
}

enum sl_status sl_folder_make_parents(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) {
        return SL_OK;
    }
    SL_FREED char *folder = NULL;
    SL_CHECK(sl_format(&folder, "%.*s", (int)(slash - path), path));
    return sl_folder_make(folder);
}

bool sl_folder_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool sl_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

const char *sl_folder_next(const char *path, DIR **folder)
{
    const struct dirent *entry = NULL;
    if (*folder == NULL) {
        *folder = opendir(path);
    }
    while (*folder != NULL && (entry = readdir(*folder)) != NULL && entry->d_name[0] == '.') {
    }
    if (*folder != NULL && entry == NULL) {
        closedir(*folder);
        *folder = NULL;
    }
    return entry != NULL ? entry->d_name : NULL;
}

bool sl_file_same(const char *a, const char *b)
{
    struct stat of_a;
    struct stat of_b;
    return a != NULL && b != NULL && stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

bool sl_file_trusted(const char *path)
{
    struct stat file;
    struct stat above;
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash != NULL) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
    }
    if (stat(path, &file) != 0 || stat(folder, &above) != 0) {
        return false;
    }
    bool owned = file.st_uid == geteuid() || file.st_uid == 0 || file.st_uid == above.st_uid;
    bool folder_open = (above.st_mode & S_IWOTH) != 0 && (above.st_mode & S_ISVTX) == 0;
    return owned && (file.st_mode & S_IWOTH) == 0 && !folder_open;
}

bool sl_folder_writable(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && (info.st_mode & 0222) != 0 &&
           access(path, W_OK | X_OK) == 0;
}

enum sl_status sl_path_join(const char *folder, const char *name, char **out)
{
    size_t length = strlen(folder);
    if (name[0] == '/' || length == 0) {
        return sl_strdup(name, out);
    }
    return sl_format(out, "%s%s%s", folder, folder[length - 1] == '/' ? "" : "/", name);
}

enum sl_status sl_format(char **out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text;
    SL_CHECK(sl_alloc((size_t)length + 1, 1, "a string", &text));
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    *out = text;
    return SL_OK;
}

/* ---- Checksum ---- */

uint64_t sl_checksum(uint64_t start, const void *data, size_t bytes)
{
    return XXH3_64bits_withSeed(data, bytes, start);
}
