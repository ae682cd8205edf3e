/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A claim is a lock on one byte of a file that all runs of the machine share. The byte's number is a hash of the
 * output's folder and name. The system ends the locks of a killed process. */
#include "runtime/train/claims.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "support/file.h"
#include "support/memory.h"
#include "support/text.h"

#define LOCKS "/dev/shm/starling-outputs"
#define MAX_OUTPUTS 16

/* An option's file or folder. */
struct output {
    const struct sl_option *option;
    const char *path;
    uint64_t key; /* equal for all names of one file */
};

struct outputs {
    uint32_t n;
    struct output output[MAX_OUTPUTS];
};

/* ---- names ---- */

/* *folder_out: the folder of a path. Release it with sl_free. Returns the name in the folder. */
static const char *split_path(const char *path, char **folder_out, enum sl_status *st)
{
    const char *slash = strrchr(path, '/');
    int length = slash == NULL || slash == path ? 1 : (int)(slash - path);
    *st = sl_format(folder_out, "%.*s", length, slash == NULL ? "." : path);
    return slash == NULL ? path : slash + 1;
}

/* The key of a file: a hash of its folder and its name, with links resolved. Without a folder: of the path's text. */
static enum sl_status find_key(const char *path, uint64_t *out)
{
    struct stat info;
    SL_FREED char *folder = NULL;
    char *real = realpath(path, NULL);
    enum sl_status st;
    const char *name = split_path(sl_text_or(real, path), &folder, &st);
    if (st == SL_OK && stat(folder, &info) == 0) {
        const uint64_t place[] = {(uint64_t)info.st_dev, (uint64_t)info.st_ino};
        *out = sl_checksum(sl_checksum(0, place, sizeof place), name, strlen(name));
    } else if (st == SL_OK) {
        *out = sl_checksum(0, path, strlen(path));
    }
    free(real);
    return st;
}

/* The file that stands for an output: of a folder, a file that the run writes into the folder. */
static enum sl_status name_file(const struct sl_option *option, const char *path, char **out)
{
    if (strcmp(option->argument, "DIR") != 0) {
        return sl_strdup(path, out);
    }
    return sl_path_join(path, strcmp(option->name, "trace") == 0 ? "paje.trace" : "checkpoint.safetensors", out);
}

/* A pipe, a device, or where a standard stream goes. */
static bool is_shared(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode) && (!S_ISREG(info.st_mode) || sl_file_stream(path) >= 0);
}

/* ---- checks ---- */

static enum sl_status cannot_write(const struct sl_option *option, const char *path, int error)
{
    return sl_fail(SL_EIO, "--%s %.300s: cannot be written: %s; give another name", option->name, path,
                   strerror(error));
}

/* Metrics are written in place: open the file and leave it as it is. */
static enum sl_status try_in_place(const struct sl_option *option, const char *path)
{
    bool made = true;
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) {
        made = false;
        file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK);
    }
    if (file < 0) {
        return cannot_write(option, path, errno);
    }
    close(file);
    if (made) {
        unlink(path);
    }
    return SL_OK;
}

static enum sl_status check_file(const struct sl_option *option, const char *path)
{
    struct stat info;
    SL_FREED char *folder = NULL;
    bool there = stat(path, &info) == 0;
    int error = there ? 0 : errno;
    enum sl_status st;
    split_path(path, &folder, &st);
    if (st != SL_OK) {
        return st;
    }
    if ((there && S_ISDIR(info.st_mode)) || (!sl_folder_writable(folder) && error != ENAMETOOLONG)) {
        st = sl_fail(SL_EIO, "--%s %.300s: expected a file name in a folder that can be written", option->name, path);
    } else if (!there && error != ENOENT) {
        st = cannot_write(option, path, error);
    } else if (strcmp(option->name, "metrics") == 0) {
        st = try_in_place(option, path);
    } else {
        st = sl_writer_try(path);
    }
    return st;
}

/* Make the folder of traces: only a folder that is there has a key. A checkpoint's has a lock of its own. */
static enum sl_status make_folder(const struct sl_option *option, const char *path, struct sl_claims *claims)
{
    if (strcmp(option->name, "trace") != 0) {
        return SL_OK;
    }
    claims->folder = path;
    return sl_folder_make_new(path, &claims->n_made);
}

/* List the outputs, and check each. */
static enum sl_status list_outputs(const struct sl_settings *settings, struct outputs *out, struct sl_claims *claims)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    for (size_t i = 0; i < table->n_options && out->n < MAX_OUTPUTS; i++) {
        const struct sl_option *option = &table->options[i];
        const char *path = sl_settings_path(settings, option);
        SL_FREED char *file = NULL;
        if (path == NULL || is_shared(path)) {
            continue;
        }
        if (strcmp(option->argument, "DIR") != 0) {
            SL_CHECK(check_file(option, path));
        } else {
            SL_CHECK(make_folder(option, path, claims));
        }
        struct output *output = &out->output[out->n++];
        *output = (struct output){option, path, 0};
        SL_CHECK(name_file(option, path, &file));
        SL_CHECK(find_key(file, &output->key));
    }
    return SL_OK;
}

/* ---- claims ---- */

/* O_CREAT on another user's file in a shared folder is refused (fs.protected_regular), so that opening and making are
 * two calls. */
static int open_locks(void)
{
    int file = open(LOCKS, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 && errno == ENOENT) {
        file = open(LOCKS, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (file >= 0) {
            fchmod(file, 0666); /* whatever the umask */
        } else if (errno == EEXIST) {
            file = open(LOCKS, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        }
    }
    return file;
}

static enum sl_status claim(int file, const struct output *output)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(output->key >> 2), .l_len = 1};
    if (fcntl(file, F_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES)) {
        return SL_OK; /* also if the system has no locks */
    }
    bool known = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0;
    return sl_fail(SL_EINVAL,
                   "--%s %.300s: found process %ld about to write it, expected none; wait for it, or give "
                   "another name",
                   output->option->name, output->path, known ? (long)lock.l_pid : 0L);
}

/* Two outputs of this run that are one file, or an output that is an input. --save, and the
 * file of --checkpoint, may replace --load. */
static enum sl_status check_distinct(const struct sl_settings *settings, const struct outputs *outputs)
{
    for (uint32_t i = 0; i < outputs->n; i++) {
        const char *path = outputs->output[i].path;
        const char *name = outputs->output[i].option->name;
        bool read = sl_file_same(path, settings->pairs) || sl_file_same(path, settings->predict_vertices) ||
                    sl_file_same(path, settings->class_weights) ||
                    (strcmp(name, "save") != 0 && sl_file_same(path, settings->load));
        SL_FAIL_IF(read, SL_EINVAL, "--%s: found '%.200s', which this run reads; expected another file", name, path);
        for (uint32_t j = 0; j < i; j++) {
            const struct output *a = &outputs->output[j];
            const struct output *b = &outputs->output[i];
            SL_FAIL_IF(a->key == b->key, SL_EINVAL,
                       "--%s: found '%.200s', which --%s writes too; expected another file", b->option->name, b->path,
                       a->option->name);
        }
    }
    return SL_OK;
}

enum sl_status sl_claims_take(const struct sl_settings *settings, struct sl_claims *out)
{
    struct outputs outputs = {0};
    SL_OWNED(sl_claims_release) struct sl_claims claims = {0};
    *out = claims;
    SL_CHECK(list_outputs(settings, &outputs, &claims));
    SL_CHECK(check_distinct(settings, &outputs));
    claims.file = outputs.n > 0 ? open_locks() : -1;
    claims.open = claims.file >= 0;
    for (uint32_t i = 0; claims.open && i < outputs.n; i++) {
        if (strcmp(outputs.output[i].option->name, "checkpoint") != 0) { /* has a lock of its own */
            SL_CHECK(claim(claims.file, &outputs.output[i]));
        }
    }
    *out = claims;
    claims = (struct sl_claims){0};
    return SL_OK;
}

void sl_claims_release(struct sl_claims *claims)
{
    if (claims->open) {
        close(claims->file);
    }
    if (claims->n_made > 0) {
        sl_folder_remove_empty(claims->folder, claims->n_made);
    }
    *claims = (struct sl_claims){0};
}

/* ---- room ---- */

/* The disk of a file's folder. *free_out: UINT64_MAX if the disk does not tell. */
static enum sl_status find_disk(const char *path, uint64_t *disk_out, uint64_t *free_out)
{
    struct stat info;
    struct statvfs disk;
    SL_FREED char *folder = NULL;
    enum sl_status st;
    split_path(path, &folder, &st);
    *disk_out = 0;
    *free_out = UINT64_MAX;
    if (st == SL_OK && stat(folder, &info) == 0 && statvfs(folder, &disk) == 0 && disk.f_blocks > 0) {
        *disk_out = (uint64_t)info.st_dev;
        *free_out = (uint64_t)disk.f_bfree * disk.f_frsize;
    }
    return st;
}

enum sl_status sl_claims_check_room(const struct sl_claims_file *files, uint32_t n)
{
    uint64_t disks[MAX_OUTPUTS];
    for (uint32_t i = 0; i < n; i++) {
        uint64_t room = UINT64_MAX;
        uint64_t wanted = 0;
        disks[i] = 0;
        if (files[i].path == NULL || is_shared(files[i].path)) {
            continue;
        }
        SL_CHECK(find_disk(files[i].path, &disks[i], &room));
        for (uint32_t j = 0; j <= i; j++) {
            wanted += files[j].path != NULL && disks[j] == disks[i] ? files[j].bytes : 0;
        }
        SL_FAIL_IF(room < wanted, SL_EIO,
                   "--%s %.300s: found %" PRIu64 " KiB free on its disk, expected at least %" PRIu64
                   " for the files at the end; free some, or name another folder",
                   files[i].option, files[i].path, room >> 10, (wanted >> 10) + 1);
    }
    return SL_OK;
}
