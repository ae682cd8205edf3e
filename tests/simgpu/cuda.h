/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The stand-in for the driver's header, which a StarPU with CUDA includes: nothing of it is used.
 */
#ifndef SL_TESTS_CUDA_H
#define SL_TESTS_CUDA_H
#endif
