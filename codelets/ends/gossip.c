/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The scaled sum, one block of entries at a time: the sums stay in the cache while the sources stream past. */
#include "codelets/ends/gossip.h"

#include "support/minmax.h"

#define BLOCK 512 /* entries */

/* ---- kernels, CPU ---- */

static inline void add_block(size_t n, const sl_real *restrict from, double *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += (double)from[i];
    }
}

void sl_gossip_mix_cpu(uint32_t n, size_t n_entries, const sl_real *const *sources, double scale, sl_real *out)
{
    for (size_t begin = 0; begin < n_entries; begin += BLOCK) {
        double sum[BLOCK] = {0};
        size_t size = sl_min_u64(n_entries - begin, BLOCK);
        for (uint32_t i = 0; i < n; i++) {
            add_block(size, sources[i] + begin, sum);
        }
        for (size_t i = 0; i < size; i++) {
            out[begin + i] = (sl_real)(scale * sum[i]);
        }
    }
}

/* ---- operations ---- */

struct mix {
    struct sl_task_args head;
    struct sl_matrix out;
    struct sl_matrices sources;
    double scale;
};

static enum sl_status mix(const void *view, const void *stream)
{
    const struct mix *v = view;
    return SL_RUN(stream, sl_gossip_mix, v->sources.n, sl_matrix_entries(&v->out),
                  (const sl_real *const *)v->sources.data, v->scale, v->out.data);
}

static struct sl_operation mix_op = {
    SL_OPERATION(mix_op, "sl_gossip_mix", SL_STAGE_SYNC),
    SL_BODY(mix, struct mix),
    .role = {{"out", STARPU_W, offsetof(struct mix, out), "D x F"},
             {"sources", STARPU_R | SL_REPEATED, offsetof(struct mix, sources), "D x F"}},
};

/* ---- submissions ---- */

enum sl_status sl_gossip_mix_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *sources,
                                    double scale, starpu_data_handle_t out)
{
    struct mix v = {.head = *head, .out = sl_matrix_of(out), .sources = {.n = n, .handles = sources}, .scale = scale};
    return sl_view_submit(&mix_op, &v, SL_PRIORITY_COMPUTE);
}
