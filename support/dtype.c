/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Names of dtypes. */
#include "support/dtype.h"

const char *sl_dtype_name(enum sl_dtype dtype)
{
    static const char *const names[SL_N_DTYPES + 1] = {
        [SL_DTYPE_F32] = "float32",   [SL_DTYPE_F64] = "float64", [SL_DTYPE_F16] = "float16",
        [SL_DTYPE_BF16] = "bfloat16", [SL_DTYPE_I8] = "int8",     [SL_DTYPE_U8] = "uint8",
        [SL_DTYPE_U16] = "uint16",    [SL_DTYPE_I32] = "int32",   [SL_DTYPE_U32] = "uint32",
        [SL_DTYPE_I64] = "int64",     [SL_DTYPE_U64] = "uint64",  [SL_DTYPE_BOOL] = "bool",
        [SL_DTYPE_I16] = "int16",     [SL_N_DTYPES] = "no dtype",
    };
    return names[dtype];
}
