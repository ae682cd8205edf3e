/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The floats of a table of features. */
#ifndef SL_TESTS_FLOATS_H
#define SL_TESTS_FLOATS_H

#include "data/features.h"

/* The dense table if it is float32. NULL: CSR, or another dtype. */
static inline float *floats_of(const struct sl_features *features)
{
    return features->dense.dtype == SL_DTYPE_F32 ? features->dense.data : NULL;
}

#endif
