/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Dtypes: the type of an entry of rows (tasks/rows.h), of a dataset's columns (data/column.h) and of arrays in
 * files.
 */
#ifndef SL_SUPPORT_DTYPE_H
#define SL_SUPPORT_DTYPE_H

#include <stddef.h>

#include "support/bf16.h"
#include "support/real.h"

enum sl_dtype {
    SL_DTYPE_F32,
    SL_DTYPE_F64,
    SL_DTYPE_F16,
    SL_DTYPE_BF16,
    SL_DTYPE_I8,
    SL_DTYPE_U8,
    SL_DTYPE_U16,
    SL_DTYPE_I32,
    SL_DTYPE_U32,
    SL_DTYPE_I64,
    SL_DTYPE_U64,
    SL_DTYPE_BOOL, /* a byte, 0 or 1: masks in files */
    SL_DTYPE_I16,
    SL_N_DTYPES
};

/* The dtype of sl_real. */
#ifdef SL_REAL_DOUBLE
#define SL_DTYPE_REAL SL_DTYPE_F64
#else
#define SL_DTYPE_REAL SL_DTYPE_F32
#endif

/* Bytes of one entry. */
SL_INLINE size_t sl_dtype_size(enum sl_dtype dtype)
{
    switch (dtype) {
    case SL_DTYPE_I8:
    case SL_DTYPE_U8:
    case SL_DTYPE_BOOL: return 1;
    case SL_DTYPE_F16:
    case SL_DTYPE_BF16:
    case SL_DTYPE_I16:
    case SL_DTYPE_U16: return 2;
    case SL_DTYPE_F64:
    case SL_DTYPE_I64:
    case SL_DTYPE_U64: return 8;
    default: return 4;
    }
}

/* Bytes of n entries. */
SL_INLINE size_t sl_dtype_bytes(enum sl_dtype dtype, size_t n)
{
    return n * sl_dtype_size(dtype);
}

/* The name that numpy has for it: "float32". */
SL_EXTERN_C const char *sl_dtype_name(enum sl_dtype dtype);

#endif
