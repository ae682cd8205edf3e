/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * NumPy's files: one array (.npy), or a zip archive of several (.npz), stored or deflated.
 *
 * Read are integers of 1 to 8 bytes, signed or not, booleans, and floats of 2, 4 and 8 bytes, of either byte order, in C or
 * Fortran order.
 * Messages start with the file, and the array's name where it is one of several.
 * Common returns: SL_EIO: the file cannot be opened or mapped. SL_EFILE: it does not hold what is described. SL_ENOMEM.
 */
#ifndef SL_PARTITION_NPY_H
#define SL_PARTITION_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "partition/dataset.h"

#define SL_NPY_MAX_DIMENSIONS 8

/* An array as a file has it. */
struct sl_npy {
    char kind;           /* 'i', 'u', 'f', 'b' as in NumPy's type strings */
    uint32_t item_bytes; /* 1, 2, 4 or 8 */
    uint32_t n_dimensions;
    uint64_t shape[SL_NPY_MAX_DIMENSIONS];
    uint64_t n_items;          /* the product of the shape */
    bool fortran;              /* the first index varies fastest in `data` */
    bool swapped;              /* items are big-endian */
    const unsigned char *data; /* n_items * item_bytes bytes, not aligned */
    void *owner;               /* private: what `data` points into */
};

/* Whether the file is a zip archive with an array `name`; false also if it cannot be read. */
bool sl_npy_holds(const char *path, const char *name);

/* Read one array: all of a .npy file, or the array `name` ("node_feat") of a .npz file; which it is the content
 * decides. */
enum sl_status sl_npy_read(const char *path, const char *name, struct sl_npy *out);

/* Release all of it and empty the struct; an empty one is allowed. */
void sl_npy_free(struct sl_npy *array);

/* Items are counted in C order, whatever the file's order. */

/* Item i as a double, whatever its type; integers beyond 2^53 are rounded. */
double sl_npy_real(const struct sl_npy *array, uint64_t i);

/* Item i as an integer below `limit` (at most 2^53); limit where it is none (negative, a fraction, NaN, too large). */
uint64_t sl_npy_whole(const struct sl_npy *array, uint64_t i, uint64_t limit);

/* Read a feature table of n_rows rows (shape [n_rows, columns >= 1], finite), in the form sl_features_settle asks
 * for. */
enum sl_status sl_npy_read_features(const char *path, const char *name, uint32_t n_rows, struct sl_features *out);

/* Read n_rows classes (shape [n_rows] or [n_rows, 1]); NaN and -1 are "unknown". */
enum sl_status sl_npy_read_labels(const char *path, const char *name, uint32_t n_rows, int32_t **out);

/* Read the rows of an array (its first length) without its items. */
enum sl_status sl_npy_count_rows(const char *path, const char *name, uint64_t *out);

/* Read an array of one whole number below `limit`. */
enum sl_status sl_npy_read_count(const char *path, const char *name, uint64_t limit, uint64_t *out);

/* Read the ids of different vertices (shape [n] or [n, 1], below n_vertices), or a mask (booleans, shape [n_vertices]), and sort
 * them. out->ids goes to sl_free. */
enum sl_status sl_npy_read_ids(const char *path, const char *name, uint32_t n_vertices, struct sl_ids *out);

/* Read edges: shape [2, edges] or [edges, 2]; 2 x 2 counts as the former. Ids are below n_vertices. If *n_vertices is SL_NONE,
 * it gets the largest id + 1. */
enum sl_status sl_npy_read_edges(const char *path, const char *name, uint32_t *n_vertices, uint64_t *n_edges_out,
                                 sl_vertex **from_out, sl_vertex **to_out);

#endif
