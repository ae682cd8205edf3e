/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Operations on whole files: read, map, replace atomically, checksum. Also a few operations on paths.
 *
 * All functions are thread safe on different objects.
 */
#ifndef SL_SUPPORT_FILE_H
#define SL_SUPPORT_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "support/status.h"

/* Read a whole file or pipe. *out gets the bytes and a NUL after them; release it with sl_free.
 * SL_EIO: the file cannot be read. SL_EFILE: it is longer than `limit` bytes. SL_ENOMEM. */
enum sl_status sl_file_read(const char *path, size_t limit, char **out, size_t *bytes_out);

/* A file mapped for reading. */
struct sl_map {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
};

/* Map a whole regular file, read-only. SL_EIO: the file cannot be opened or mapped, or is no regular file. */
enum sl_status sl_file_map(const char *path, struct sl_map *out);

/* Release the whole pages in a range of a map. The next access reads the pages from the file again. Until then, the
 * pages do not count as memory of the process. */
void sl_file_forget(const void *data, size_t bytes);

/* Unmap a file. An empty map is allowed. */
void sl_file_unmap(struct sl_map *map);

/* A file being written. The target always has the complete new or the complete old content. Bytes go to a temporary
 * file in the same folder; sl_writer_close renames it. If the path is a symbolic link, the target of the link is
 * replaced. A target is written in place if it exists and is no regular file (a pipe, /dev/null), or if it is the file
 * of standard output or error (/dev/stdout). */
struct sl_writer {
    FILE *stream;    /* write here; sl_writer_close reports errors */
    char *path;      /* the caller's path, with links resolved */
    char *temporary; /* NULL: written in place */
};

/* Start to write `path`. Its folder must exist (sl_folder_make_parents). SL_EIO, SL_ENOMEM. On failure *out is
 * empty. */
enum sl_status sl_writer_open(const char *path, struct sl_writer *out);

/* Whether `path` can be written by a writer: before long work. Makes and removes the temporary file. SL_EIO: it cannot
 * (a folder, no such folder, a name that is too long). SL_ENOMEM. */
enum sl_status sl_writer_try(const char *path);

/* Write bytes. Like fwrite on the stream, but returns a status. SL_EIO. */
enum sl_status sl_writer_put(struct sl_writer *writer, const void *data, size_t bytes);

/* Flush the bytes so far to stable storage, so that they survive a power cut. SL_EIO. */
enum sl_status sl_writer_sync(struct sl_writer *writer);

/* Finish and rename. SL_EIO: a write or the rename failed. The target is then unchanged and the temporary file
 * removed. Releases the writer in any case. */
enum sl_status sl_writer_close(struct sl_writer *writer);

/* Give up: remove the temporary file and release the writer. An empty writer is allowed. */
void sl_writer_abort(struct sl_writer *writer);

/* Make a folder and the folders above it, if they do not exist. SL_EIO, SL_ENOMEM. */
enum sl_status sl_folder_make(const char *path);

/* The same. *n_made: how many folders were not there, the last ones of the path. On failure none of them stays. */
enum sl_status sl_folder_make_new(const char *path, uint32_t *n_made);

/* Remove the last n folders of a path, as far as they are empty. */
void sl_folder_remove_empty(const char *path, uint32_t n);

/* Make the folders above a file's path. SL_EIO, SL_ENOMEM. */
enum sl_status sl_folder_make_parents(const char *path);

/* Whether `path` is a folder in which files can be made. A folder whose mode has no write bit counts as not writable,
 * even for root. */
bool sl_folder_writable(const char *path);

/* Whether `path` is a folder; whether it is a regular file. */
bool sl_folder_exists(const char *path);
bool sl_file_exists(const char *path);

/* The next entry of a folder, without those that begin with a dot, in no order; valid until the next call. *folder is
 * NULL before the first call. NULL after the last entry, or if there is no such folder; *folder is NULL then. */
const char *sl_folder_next(const char *path, DIR **folder);

/* Whether two paths lead to one file that is there. NULL is no path. */
bool sl_file_same(const char *a, const char *b);

/* 1 or 2 if the standard output or the standard error goes to the regular file `path` (for example /dev/stdout);
 * otherwise -1. A caller then writes through that stream, so that its bytes come after the stream's own. */
int sl_file_stream(const char *path);

/* True if no stranger can have made or changed this file: its owner is this user, root, or the owner of its folder; the
 * file is not world-writable; and its folder is not world-writable, or has the sticky bit. */
bool sl_file_trusted(const char *path);

/* *out: "folder/name", or a copy of `name` if it is absolute or `folder` is empty. Release it with sl_free.
 * SL_ENOMEM. */
enum sl_status sl_path_join(const char *folder, const char *name, char **out);

/* printf into a new string. Release it with sl_free. SL_ENOMEM. */
enum sl_status sl_format(char **out, const char *format, ...) __attribute__((format(printf, 2, 3), nonnull(2)));

/* A 64-bit checksum of `bytes` bytes: XXH3 with the seed `start`. `start` is 0 at first, then the checksum so far. It
 * runs at about memory bandwidth. It detects accidents, not forgery: readers must still validate their input. */
uint64_t sl_checksum(uint64_t start, const void *data, size_t bytes);

#endif
