/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The smaller and the larger of two unsigned numbers.
 */
#ifndef SL_SUPPORT_MINMAX_H
#define SL_SUPPORT_MINMAX_H

#include <stdint.h>

static inline uint32_t sl_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t sl_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline uint64_t sl_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t sl_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
