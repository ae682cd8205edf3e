/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Files as wholes: read, map, replace atomically, checksum; and the few path operations that go with them.
 *
 * Formats live elsewhere; this file knows bytes only. All functions are thread safe on different objects.
 */
#ifndef SL_SUPPORT_FILE_H
#define SL_SUPPORT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "support/status.h"

/* Read a whole file, which may be a pipe. *out gets its bytes and a NUL behind them (sl_free).
 * SL_EIO: it cannot be read. SL_EFILE: it is longer than `limit` bytes. SL_ENOMEM. */
enum sl_status sl_file_read(const char *path, size_t limit, char **out, size_t *bytes_out);

/* A file mapped for reading. */
struct sl_map {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
};

/* Map a whole regular file, read-only. SL_EIO: it cannot be opened or mapped, or is no regular file. */
enum sl_status sl_file_map(const char *path, struct sl_map *out);

/* Bytes of a map, of which whole pages are given back to the system: they are read from the file again when somebody looks at them, and
 * count as nobody's memory until then. */
void sl_file_forget(const void *data, size_t bytes);

/* Undo sl_file_map; an empty map is allowed. */
void sl_file_unmap(struct sl_map *map);

/* A file being written. The target shows the whole new content or the old one, never a part: bytes go to a temporary
 * name in the same folder, which sl_writer_close renames. A symbolic link stays and its target is replaced. A target
 * that exists and is no regular file (a pipe, /dev/stdout) is written in place. */
struct sl_writer {
    FILE *stream;    /* write here; errors are gathered until sl_writer_close */
    char *path;      /* what the caller named, with links resolved */
    char *temporary; /* NULL: written in place */
};

/* Start writing `path`, whose folder must be there (sl_folder_make_parents). SL_EIO, SL_ENOMEM; on failure *out is
 * empty. */
enum sl_status sl_writer_open(const char *path, struct sl_writer *out);

/* Write bytes; as fwrite on the stream, but with a status. SL_EIO. */
enum sl_status sl_writer_put(struct sl_writer *writer, const void *data, size_t bytes);

/* Ask the system to put the bytes so far on stable storage, so that the file survives a power cut. SL_EIO. */
enum sl_status sl_writer_sync(struct sl_writer *writer);

/* Finish and rename. SL_EIO: some write failed, or the rename; the target is then as before and the temporary gone.
 * Releases the writer either way. */
enum sl_status sl_writer_close(struct sl_writer *writer);

/* Give up: remove the temporary, release the writer. An empty writer is allowed. */
void sl_writer_abort(struct sl_writer *writer);

/* Make a folder and the folders above it; one that exists is fine. SL_EIO, SL_ENOMEM. */
enum sl_status sl_folder_make(const char *path);

/* Make the folders above a file's path. SL_EIO, SL_ENOMEM. */
enum sl_status sl_folder_make_parents(const char *path);

/* True where `path` is a folder in which files may be made: the system allows it, and its mode has a write bit at all
 * (a folder without one is meant to stay as it is, also for root). */
bool sl_folder_writable(const char *path);

/* True where `path` is a folder, or a regular file. */
bool sl_folder_exists(const char *path);
bool sl_file_exists(const char *path);

/* Whether no other user can have put this file there or can write it: it and its folder are ours, root's, or both the same user's, whose
 * folder the caller has chosen; and all users may write neither (the folder: nor remove others' files). */
bool sl_file_trusted(const char *path);

/* "folder/name", or a copy of `name` where that is absolute or `folder` is empty. To be given to sl_free. SL_ENOMEM. */
enum sl_status sl_path_join(const char *folder, const char *name, char **out);

/* A printf into a fresh string, to be given to sl_free. SL_ENOMEM. */
enum sl_status sl_format(char **out, const char *format, ...) __attribute__((format(printf, 2, 3), nonnull(2)));

/* A 64-bit checksum of `bytes` bytes, continuing from `start` (0 at first). Made for speed (about memory bandwidth) and
 * against accidents, not against forgery: a reader still checks what it reads. The same on every machine of one byte
 * order. */
uint64_t sl_checksum(uint64_t start, const void *data, size_t bytes);

#endif
