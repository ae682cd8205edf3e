/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The binary cache: one file that is mapped, with a dataset or the parts of a partition.
 *
 * A cache is a copy. If anything is wrong with the file, the reader returns false and the caller makes the data
 * anew. Examples: the file is absent, cut short, damaged, has another version, or was made of other
 * files or options. The reader checks everything in the file before it uses it.
 *
 * Layout: a safetensors file (support/safetensors.h) with the arrays as they are in memory:
 *   colptr [N + 1], row [E], edge_weight [E]    in-edges of each vertex, sorted by destination
 *   edge_type [E]                               their relations, of a typed graph
 *   x [N, F], or x.rowptr, x.col, x.value       features, dense or CSR
 *   y [N] or [N, width]; train, valid, test     targets and split
 *   class_names, vertex_names                   a line each, with the zero at the end; absent if there are none
 *   parts [N]                                   of a partition
 *   starling.facts                              key, counts, names, and a checksum of each tensor and of the facts
 */
#ifndef SL_DATA_CACHE_H
#define SL_DATA_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"

/* Read the dataset with this key. The arrays of *out lie in a read-only map of the file. False: the file is not
 * valid, or another user may have written the file (sl_file_trusted). *out is then empty.
 *
 * low_memory: the process needs only a part of the dataset, and little of the file is in memory at a time. Later
 * readers of *out call sl_dataset_drop_pages, so that little of it stays in memory. */
bool sl_cache_read_dataset(const char *path, uint64_t key, bool low_memory, struct sl_dataset *out);

/* Write a dataset (atomically), and make the folder if it is missing. False: the write failed. */
bool sl_cache_write_dataset(const char *path, uint64_t key, const struct sl_dataset *dataset);

/* Hash the parts of a dataset. The hashes depend only on the contents: they combine the checksums that a cache file of
 * the dataset has. The dtype of dense features does not count, their values as float32 do. */
void sl_cache_hash_dataset(const struct sl_dataset *dataset, uint64_t out[SL_N_DATA_PARTS]);

/* The key of a partition: a checksum of everything that decides the parts. */
uint64_t sl_cache_parts_key(const struct sl_dataset *dataset, int method, uint32_t n_parts, uint64_t seed);

/* Read parts[n_vertices], each below n_parts. False: the file is not valid, and `parts` is undefined. */
bool sl_cache_read_parts(const char *path, uint64_t key, uint32_t n_vertices, uint32_t n_parts, uint32_t *parts);

/* Write parts[n_vertices] (atomically). False: the write failed. */
bool sl_cache_write_parts(const char *path, uint64_t key, uint32_t n_vertices, uint32_t n_parts, const uint32_t *parts);

#endif
