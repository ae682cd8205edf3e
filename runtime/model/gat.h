/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The parameter of graph attention (gat.c), also by relation, that its sum reads (sums/attention.c).
 */
#ifndef SL_RUNTIME_MODEL_GAT_H
#define SL_RUNTIME_MODEL_GAT_H

/* W_edge attn_edge. */
enum { SL_GAT_SCORES = 8 };

#endif
