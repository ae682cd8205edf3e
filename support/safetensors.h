/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Safetensors files: named arrays with a JSON header. safetensors.torch.load_file reads such a file as a state
 * dict.
 *
 * Layout: the length of the header (8 bytes, little-endian), the header, then the arrays without gaps. The header
 * is a JSON object of name -> {dtype, shape, data_offsets}, with an optional "__metadata__" of strings. The caller
 * chooses names and metadata: the model its tensors' names, the trainer those of a checkpoint, the cache those of a
 * dataset.
 */
#ifndef SL_SUPPORT_SAFETENSORS_H
#define SL_SUPPORT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "support/dtype.h"
#include "support/file.h"
#include "support/status.h"

#define SL_TENSOR_NAME_BYTES 128
#define SL_TENSOR_DIMENSIONS 3
#define SL_TENSOR_ALIGNMENT 64 /* of the data in a file; spaces behind the header fill the gap */

/* A named array of at most three dimensions, row-major without gaps. No dimension: one number. */
struct sl_tensor {
    char name[SL_TENSOR_NAME_BYTES];
    enum sl_dtype dtype;
    uint32_t n_dims;                      /* 0 .. SL_TENSOR_DIMENSIONS */
    uint64_t shape[SL_TENSOR_DIMENSIONS]; /* the first n_dims count */
    /* When writing: an aligned array of the caller. When reading: a place in the file, maybe not aligned (use
     * sl_tensors_get). */
    const void *data;
};

/* One entry of "__metadata__", both strings UTF-8. */
struct sl_metadata {
    const char *key;
    const char *value;
};

/* The content of a file. */
struct sl_tensors {
    char *path; /* for messages */
    /* The whole file, in memory or in a map. The tensors point into it. */
    char *bytes;
    struct sl_map map;
    uint32_t n;
    struct sl_tensor *tensors; /* in the order of the header */
    uint32_t n_metadata;
    struct sl_metadata *metadata;
    void *header; /* private: the parsed header, which has the strings of `metadata` */
};

/* Make a tensor of two dimensions (columns > 0), one (columns 0) or none (rows and columns 0). Too long a name is
 * cut. For three dimensions the caller sets the members. */
struct sl_tensor sl_tensor_make(const char *name, enum sl_dtype dtype, uint64_t rows, uint64_t columns,
                                const void *data);

/* Bytes of the array. For a tensor that was not read from a file, the caller must know that the size does not
 * overflow. */
uint64_t sl_tensor_bytes(const struct sl_tensor *tensor);

/* Write tensors and metadata to `path`, atomically and to stable storage. In the data, tensors with larger entries
 * come first, so that all are aligned; the first of the data begins at a multiple of SL_TENSOR_ALIGNMENT. The
 * header keeps the caller's order. Equal input gives equal bytes. SL_EINVAL: two tensors or two keys have the same
 * name, or a size overflows. SL_EIO. SL_ENOMEM: also for a text that is not UTF-8. On failure the file at `path` is
 * unchanged. */
enum sl_status sl_safetensors_write(const char *path, const struct sl_tensor *tensors, uint32_t n,
                                    const struct sl_metadata *metadata, uint32_t n_metadata);

/* Write the same bytes to an open file. The caller closes or aborts the writer. SL_EINVAL, SL_EIO, SL_ENOMEM. */
enum sl_status sl_safetensors_put(struct sl_writer *writer, const struct sl_tensor *tensors, uint32_t n,
                                  const struct sl_metadata *metadata, uint32_t n_metadata);

/* Read a file. The file may be hostile. The caller frees *out (sl_tensors_free). SL_EIO: the file cannot be read.
 * SL_EFILE: not a safetensors file, or a tensor with a type outside enum sl_dtype or with more than three
 * dimensions. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_safetensors_read(const char *path, struct sl_tensors *out);

/* The same, but map the file into memory instead of reading it. */
enum sl_status sl_safetensors_map(const char *path, struct sl_tensors *out);

/* The same for `n` bytes in memory, allocated by sl_alloc or sl_file_read. On success *out owns the
 * bytes; on failure the caller keeps them. */
enum sl_status sl_safetensors_parse(const char *path, char *bytes, size_t n, struct sl_tensors *out);

/* The tensor with this name; NULL: none. */
const struct sl_tensor *sl_tensors_find(const struct sl_tensors *tensors, const char *name);

/* The value of a metadata key; NULL: none. Valid as long as `tensors`. */
const char *sl_tensors_metadata(const struct sl_tensors *tensors, const char *key);

/* Copy the array with the name of `wanted` to `out`, after a check of its shape. Float converts to double and
 * double to float; any further types must be equal. SL_EFILE: no such tensor, or another shape or type. `out` is
 * then unchanged. */
enum sl_status sl_tensors_get(const struct sl_tensors *tensors, const struct sl_tensor *wanted, void *out);

/* Release the file's bytes or map. Names, shapes and metadata stay; the tensors have no data then. */
void sl_tensors_drop(struct sl_tensors *tensors);

/* Release all memory and the map, and empty the struct. An empty struct is allowed. */
void sl_tensors_free(struct sl_tensors *tensors);

#endif
