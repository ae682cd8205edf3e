/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Indices of GraphSAGE's parameters (runtime/model/sage.c).
 */
#ifndef SL_TESTS_SAGE_FIXTURE_H
#define SL_TESTS_SAGE_FIXTURE_H

enum { SAGE_SELF, SAGE_NEIGH, SAGE_BIAS };

#endif
