/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the stand-ins of CUDA's libraries know of types of numbers.
 */
#ifndef SL_TESTS_LIBRARY_TYPES_H
#define SL_TESTS_LIBRARY_TYPES_H

typedef enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType;

#endif
