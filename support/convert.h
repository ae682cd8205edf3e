/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Conversion of numbers between dtypes. The dtypes here are float32, float16, bfloat16, and int8 with a scale. Every
 * entry has an exact value as float: of int8, the float product scale * entry. So a narrow table gives the same bits as
 * the table of its floats.
 */
#ifndef SL_SUPPORT_CONVERT_H
#define SL_SUPPORT_CONVERT_H

#include <stdbool.h>

#include "support/dtype.h"

typedef uint16_t sl_f16;

/* Exact. The product by 2^112 gives the exponent its bias. Subnormal numbers do not go through subnormal floats,
 * which a process may take as zero. */
SL_INLINE SL_HOST_DEVICE float sl_f16_float(sl_f16 x)
{
    uint32_t bits = (uint32_t)(x & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(x & 0x8000) << 16;
    uint32_t special = UINT32_C(0x7f800000) | bits; /* infinite, or NaN */
    bool is_special = bits >= UINT32_C(0x0f800000);
    bool is_subnormal = bits < UINT32_C(0x00800000);
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112F;
    value = is_subnormal ? (float)(x & 0x3ff) * 0x1p-24F : value;
    memcpy(&bits, &value, sizeof bits);
    bits = (is_special ? special : bits) | sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

SL_INLINE SL_HOST_DEVICE float sl_i8_float(int8_t x, float scale)
{
    return (float)x * scale;
}

/* Entry i of an array of any dtype, maybe not aligned. Integers beyond 2^53 are rounded. */
SL_INLINE double sl_dtype_number(enum sl_dtype dtype, const void *data, size_t i)
{
    union {
        float f32;
        double f64;
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
    } entry;
    memcpy(&entry, (const char *)data + sl_dtype_bytes(dtype, i), sl_dtype_size(dtype));
    switch (dtype) {
    case SL_DTYPE_F32: return (double)entry.f32;
    case SL_DTYPE_F64: return entry.f64;
    case SL_DTYPE_F16: return (double)sl_f16_float(entry.u16);
    case SL_DTYPE_BF16: return (double)sl_bf16_real(entry.u16);
    case SL_DTYPE_I8: return entry.i8;
    case SL_DTYPE_I16: return entry.i16;
    case SL_DTYPE_U16: return entry.u16;
    case SL_DTYPE_I32: return entry.i32;
    case SL_DTYPE_U32: return entry.u32;
    case SL_DTYPE_I64: return (double)entry.i64;
    case SL_DTYPE_U64: return (double)entry.u64;
    default: return entry.u8; /* uint8 and bool */
    }
}

/* Whether a table of this dtype may hold features. */
SL_INLINE bool sl_dtype_is_convertible(enum sl_dtype dtype)
{
    return dtype == SL_DTYPE_F32 || dtype == SL_DTYPE_F16 || dtype == SL_DTYPE_BF16 || dtype == SL_DTYPE_I8;
}

/* Convert n numbers of `dtype`. scale: read if the dtype is int8. The arrays do not overlap. To bfloat16: each float is
 * rounded. */
void sl_convert_to_floats(enum sl_dtype dtype, float scale, size_t n, const void *from, float *to);
void sl_convert_to_reals(enum sl_dtype dtype, float scale, size_t n, const void *from, sl_real *to);
void sl_convert_to_bf16(enum sl_dtype dtype, float scale, size_t n, const void *from, sl_bf16 *to);

#endif
