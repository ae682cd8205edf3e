/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The passes of a layer z = h_self W_self + sum(h) W + b, for any sum: those of GraphSAGE (sage.c), R-GCN (rgcn.c) and
 * R-GAT (gat.c).
 */
#ifndef SL_RUNTIME_MODEL_SAGE_H
#define SL_RUNTIME_MODEL_SAGE_H

#include "runtime/model/pass.h"

/* The parameters of such a layer. */
enum { SL_SAGE_SELF, SL_SAGE_NEIGH, SL_SAGE_BIAS, SL_SAGE_PARAMETERS };

/* The components of a layer with bases, which its sum reads; or the matrices for features of edges. If the features are
 * added to rows, those are derived from the encoder's and from W. sl_sage_backward makes their gradients if the layer
 * has SL_ROWS_EDGES. */
enum { SL_SAGE_COMPONENTS = SL_SAGE_PARAMETERS, SL_SAGE_EDGES = SL_SAGE_PARAMETERS, SL_SAGE_ENCODER };

/* For the kind's table (runtime/model/layer.h). */
enum sl_status sl_sage_forward(const struct sl_layer_pass *lp);
enum sl_status sl_sage_backward(const struct sl_layer_pass *lp);

/* For the table of a layer that adds features of edges to rows. */
enum sl_status sl_sage_derive(const struct sl_layer_pass *lp, uint32_t replica);
enum sl_status sl_sage_derive_back(const struct sl_layer_pass *lp, uint32_t replica);
#define SL_SAGE_DERIVES .also_derived = SL_SAGE_NEIGH, .derive = sl_sage_derive, .derive_back = sl_sage_derive_back

#endif
