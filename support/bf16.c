/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Conversion of arrays. */
#include "support/bf16.h"

SL_CLONES void sl_bf16_round(size_t n, const sl_real *from, sl_bf16 *to)
{
    const sl_real *restrict x = from;
    sl_bf16 *restrict rounded = to;
    for (size_t i = 0; i < n; i++) {
        rounded[i] = sl_bf16_of(x[i]);
    }
}

SL_CLONES void sl_bf16_widen(size_t n, const sl_bf16 *from, sl_real *to)
{
    const sl_bf16 *restrict x = from;
    sl_real *restrict wide = to;
    for (size_t i = 0; i < n; i++) {
        wide[i] = sl_bf16_real(x[i]);
    }
}
