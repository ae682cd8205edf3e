/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Safetensors files: named arrays with a JSON header, which safetensors.torch.load_file reads as a state dict.
 *
 * Layout: 8 bytes little-endian length of the header; the header, a JSON object of name -> {dtype, shape, data_offsets} with an
 * optional "__metadata__" of strings; the arrays without gaps. Which names a model has is model.c's business, what a checkpoint
 * holds is the trainer's.
 */
#ifndef SL_RUNTIME_FILES_SAFETENSORS_H
#define SL_RUNTIME_FILES_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

#define SL_TENSOR_NAME_BYTES 128
#define SL_TENSOR_DIMENSIONS 3

/* What an array's entries are. */
enum sl_tensor_kind {
    SL_TENSOR_F32, /* float */
    SL_TENSOR_F64, /* double */
    SL_TENSOR_U8,  /* uint8_t */
    SL_TENSOR_I64, /* int64_t */
    SL_TENSOR_U64, /* uint64_t */
    SL_TENSOR_BF16 /* sl_bf16 (support/bf16.h) */
};

#ifdef SL_REAL_DOUBLE
#define SL_TENSOR_REAL SL_TENSOR_F64
#else
#define SL_TENSOR_REAL SL_TENSOR_F32 /* what sl_real is in this build */
#endif

/* A named array of at most three dimensions, row major without gaps. No dimension: one number. */
struct sl_tensor {
    char name[SL_TENSOR_NAME_BYTES];
    enum sl_tensor_kind kind;
    uint32_t n_dims;                      /* 0 .. SL_TENSOR_DIMENSIONS */
    uint64_t shape[SL_TENSOR_DIMENSIONS]; /* the first n_dims count */
    const void *data; /* writing: the caller's, aligned; read: inside the file's bytes, not aligned (sl_tensors_get) */
};

/* One line of "__metadata__"; both UTF-8. */
struct sl_metadata {
    const char *key;
    const char *value;
};

/* A file that was read. */
struct sl_tensors {
    char *path;  /* as it was opened, for messages */
    char *bytes; /* the whole file; the tensors point into it */
    uint32_t n;
    struct sl_tensor *tensors; /* in the order of the header */
    uint32_t n_metadata;
    struct sl_metadata *metadata;
    char *metadata_text; /* what the metadata point into */
};

/* Name a tensor of 2 (columns > 0), 1 (columns 0) or no (rows and columns 0) dimensions; a name that is too long is cut. Three
 * dimensions are set by the caller. */
struct sl_tensor sl_tensor_make(const char *name, enum sl_tensor_kind kind, uint64_t rows, uint64_t columns,
                                const void *data);

/* Bytes of the array's entries, of a tensor that was read or whose sizes do not overflow. */
uint64_t sl_tensor_bytes(const struct sl_tensor *tensor);

/* Write tensors and metadata to `path`, atomically and onto stable storage. Tensors with large entries come first in the data,
 * so that all are aligned; the header keeps the order given. Equal input gives equal bytes.
 * SL_EINVAL: two tensors or two keys of one name, a size that overflows. SL_EIO. SL_ENOMEM: also for names and texts that are
 * no UTF-8. The target is then as before. */
enum sl_status sl_safetensors_write(const char *path, const struct sl_tensor *tensors, uint32_t n,
                                    const struct sl_metadata *metadata, uint32_t n_metadata);

/* Read a file, which may be hostile. SL_EIO: it cannot be read. SL_EFILE: it is no safetensors file, or holds types other than
 * the above or more than three dimensions. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_safetensors_read(const char *path, struct sl_tensors *out);

/* The same from `n` bytes in memory that came from sl_alloc or sl_file_read; they become the tensors' on success only. */
enum sl_status sl_safetensors_parse(const char *path, char *bytes, size_t n, struct sl_tensors *out);

/* The tensor of that name; NULL: none. */
const struct sl_tensor *sl_tensors_find(const struct sl_tensors *tensors, const char *name);

/* The metadata's value; NULL: none. Valid as long as the tensors. */
const char *sl_tensors_metadata(const struct sl_tensors *tensors, const char *key);

/* Copy the array named as `wanted` to `out` after checking its shape against `wanted`'s; float and double convert into each
 * other, other kinds must be equal. SL_EFILE: no such tensor, or another shape or kind. `out` is untouched then. */
enum sl_status sl_tensors_get(const struct sl_tensors *tensors, const struct sl_tensor *wanted, void *out);

/* Release all of it and empty the struct; an empty one is allowed. */
void sl_tensors_free(struct sl_tensors *tensors);

#endif
