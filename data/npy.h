/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Files of arrays: NumPy's .npy, of one array, and safetensors, of several.
 *
 * Supported are little-endian integers of 1 to 8 bytes, signed or not, booleans, and floats of 2, 4 and 8 bytes, in C
 * order. Safetensors also have bfloat16. Messages start with the file, and name the array if the file has several.
 * Common returns: SL_EIO: the file cannot be opened or mapped. SL_EFILE: the content is not as described below.
 * SL_ENOMEM.
 */
#ifndef SL_DATA_NPY_H
#define SL_DATA_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"
#include "support/safetensors.h"

#define SL_NPY_MAX_DIMENSIONS 8

/* An array of a file. */
struct sl_npy {
    enum sl_dtype dtype;
    uint32_t n_dimensions;
    uint64_t shape[SL_NPY_MAX_DIMENSIONS];
    uint64_t n_items;          /* the product of the shape */
    const unsigned char *data; /* maybe not aligned */
    struct sl_map map;         /* private: the file */
    struct sl_tensors tensors; /* private: of a safetensors file, with a map of its own */
};

#define SL_NPY_HEADER_BYTES 128

/* Make the header of a .npy file of rows x columns items; columns 0: of one dimension. The dtype is not bfloat16. */
void sl_npy_header(enum sl_dtype dtype, uint64_t rows, uint64_t columns, char out[SL_NPY_HEADER_BYTES]);

/* Find which of the `n` names of a table is an array of a safetensors file. The list may end early with NULL. *out is
 * NULL if the file has none, or is no such file, or cannot be read. SL_EFILE: the file has two. SL_ENOMEM. */
enum sl_status sl_npy_find(const char *path, const char *const *names, int n, const char **out);

/* Read one array of numbers: the array of a .npy file, or the array `name` ("x") of a safetensors file.
 * The content decides between them, not the file's name. The caller frees *out (sl_npy_free). */
enum sl_status sl_npy_read(const char *path, const char *name, struct sl_npy *out);

/* Release the memory and empty the struct. An empty struct is allowed. */
void sl_npy_free(struct sl_npy *array);

/* Item i as a double, whatever its type. Integers beyond 2^53 are rounded. */
double sl_npy_real(const struct sl_npy *array, uint64_t i);

/* Item i as an integer below `limit` (at most 2^53). If it is negative, a fraction, NaN or too large: `limit`. */
uint64_t sl_npy_whole(const struct sl_npy *array, uint64_t i, uint64_t limit);

/* Read a feature table of shape [n_rows, columns >= 1] with finite values. float16, bfloat16 and int8 stay as they are.
 * If the file has an array NAME_scale of one number, it is the scale of int8. The result has the form of
 * sl_features_settle. */
enum sl_status sl_npy_read_features(const char *path, const char *name, uint32_t n_rows, struct sl_features *out);

/* Read the targets of n_rows vertices, of shape [n_rows] or [n_rows, 1 .. 2^16]; nan means "unknown", for classes also
 * -1 and -100. Numbers are rounded to float, before sl_targets_take looks for classes. The caller frees *out
 * (sl_targets_free). */
enum sl_status sl_npy_read_targets(const char *path, const char *name, uint32_t n_rows, enum sl_target_choice choice,
                                   struct sl_targets *out);

/* Read lines, an array of their bytes, as class_names of struct sl_dataset. The caller frees *out (sl_free). */
enum sl_status sl_npy_read_lines(const char *path, const char *name, char **out);

/* What the header of an array says: its first length, its items, and their bytes as a feature table in memory. */
struct sl_npy_counts {
    uint64_t rows, items, feature_bytes;
};
enum sl_status sl_npy_count(const char *path, const char *name, struct sl_npy_counts *out);

/* Read an array of one whole number below `limit`. */
enum sl_status sl_npy_read_count(const char *path, const char *name, uint64_t limit, uint64_t *out);

/* Read a list of vertices and sort it: distinct ids below n_vertices (shape [n] or [n, 1]), or a mask of shape
 * [n_vertices]: booleans or, of three vertices or more, numbers 0 and 1 alone. out->ids goes to sl_free. */
enum sl_status sl_npy_read_ids(const char *path, const char *name, uint32_t n_vertices, struct sl_ids *out);

/* Read the weights of n_edges edges, of shape [n_edges] or [n_edges, 1]: finite numbers, 0 or more. *out gets n_edges
 * weights (sl_free). */
enum sl_status sl_npy_read_weights(const char *path, const char *name, uint64_t n_edges, float **out);

/* Read edges of shape [2, edges] or [edges, 2]; 2 x 2 counts as the former. Ids are below n_vertices.
 * *from_out and *to_out get the sources and destinations (sl_free). */
enum sl_status sl_npy_read_edges(const char *path, const char *name, uint32_t n_vertices, uint64_t *n_edges_out,
                                 sl_vertex **from_out, sl_vertex **to_out);

#endif
