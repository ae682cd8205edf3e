/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The last layer of a model that is trained on links: the rows of the links' ends (codelets/links.h). Each row of the
 * output has one edge, so that the mean over its edges is the row of its vertex. The layer has no parameters, and runs
 * in training only.
 *
 *   forward   H of the ends travels; z = the row of each end
 *   backward  gz travels back; gh = the sum of gz over all rows of a vertex */
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    enum sl_status st;
    SL_TRY(st, lp->pass->source->send(lp), done);
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        const struct sl_rows *z = sl_layer_pass_rows(lp, p, SL_ROWS_Z);
        SL_TRY(st, sl_layer_pass_shape(lp, p, SL_ROWS_Z), done);
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            SL_TRY(st, lp->pass->source->sum(lp, p, c, 0, z->chunk[c]), done);
        }
    }
    lp->pass->source->arrived(lp);
done:
    return st;
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    enum sl_status st;
    SL_TRY(st, lp->pass->source->send_back(lp), done);
    for (uint32_t k = 0, p = 0; st == SL_OK && sl_layer_pass_pe(lp, k, &p); k++) {
        st = lp->pass->source->sum_back(lp, p, sl_layer_pass_input_gradient(lp, p));
    }
done:
    return st;
}

static void rows(const struct sl_layer *layer, struct sl_layer_order *order)
{
    (void)layer;
    order->returning = SL_ROWS_GZ;
}

const struct sl_layer_kind sl_ends = {
    .name = "ends", .sum = &sl_sum_mean, .rows = rows, .forward = forward, .backward = backward};
