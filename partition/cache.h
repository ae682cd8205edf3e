/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The binary cache: a dataset, or the parts of a partition, as one file that can be mapped.
 *
 * A cache is a copy. Whatever is wrong with it (absent, of another version or byte order, cut short, damaged, made of
 * other files or options, not writable), the answer is to do without, never an error. Nothing in it is believed
 * unchecked.
 *
 * Layout: a header with magic, version, byte order, key, counts and the place, length and checksum of each section;
 * then the sections, each starting at a multiple of 64 bytes, as the arrays are in memory.
 */
#ifndef SL_PARTITION_CACHE_H
#define SL_PARTITION_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/dataset.h"

/* Read a dataset whose key is `key`; the arrays of *out then lie in a read-only map of the file. False: there is no
 * such valid file, or another user may have written it (sl_file_trusted), and *out is empty. */
bool sl_cache_read_dataset(const char *path, uint64_t key, struct sl_dataset *out);

/* The same, for a process that needs a part of it: little of the file is in memory at a time, here and, if those who read *out see to it
 * (sl_dataset_drop_pages), afterwards. */
bool sl_cache_read_dataset_low_memory(const char *path, uint64_t key, struct sl_dataset *out);

/* Write a dataset (atomically), the folder too where needed. False: it could not be written. */
bool sl_cache_write_dataset(const char *path, uint64_t key, const struct sl_dataset *dataset);

/* The key of a partition: everything that decides which parts come out. */
uint64_t sl_cache_parts_key(const struct sl_dataset *dataset, int method, uint32_t n_parts, uint64_t seed);

/* Read parts[n_vertices], each below n_parts. False: there is no such valid file; parts is then undefined. */
bool sl_cache_read_parts(const char *path, uint64_t key, uint32_t n_vertices, uint32_t n_parts, uint32_t *parts);

/* Write them. False: they could not be written. */
bool sl_cache_write_parts(const char *path, uint64_t key, uint32_t n_vertices, uint32_t n_parts, const uint32_t *parts);

#endif
