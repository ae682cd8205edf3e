/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Seeds, shares, rules. */
#include "runtime/plan/plan.h"

struct sl_seeds sl_step_seeds(const struct sl_steps *s, uint64_t step)
{
    uint64_t batch = (uint64_t)s->n_pes * s->settings->batch_size;
    uint64_t first = step % s->n_per_epoch * batch;
    uint64_t rest = s->shards->n_train - first;
    return (struct sl_seeds){step / s->n_per_epoch, (uint32_t)first, (uint32_t)(rest < batch ? rest : batch)};
}

struct sl_seeds sl_step_share(const struct sl_steps *s, uint64_t step, uint32_t r)
{
    struct sl_seeds all = sl_step_seeds(s, step);
    uint64_t share = sl_step_ring(s) ? (r + s->n_groups - all.epoch % s->n_groups) % s->n_groups : r;
    uint32_t begin = (uint32_t)(share * all.n / s->n_groups);
    uint32_t end = (uint32_t)((share + 1) * all.n / s->n_groups);
    return (struct sl_seeds){all.epoch, all.first + begin, end - begin};
}

struct sl_task_args sl_step_head(const struct sl_steps *s, uint64_t step, uint32_t pe, uint32_t hop)
{
    return (struct sl_task_args){.run = s->run, .step = step, .pe = pe, .hop = hop};
}

struct sl_sample_rule sl_step_rule(const struct sl_steps *s, uint32_t hop)
{
    static const enum sl_sample_method methods[] = {[SL_SAMPLER_NEIGHBOR] = SL_SAMPLE_NEIGHBOR,
                                                    [SL_SAMPLER_LABOR] = SL_SAMPLE_LABOR,
                                                    [SL_SAMPLER_FULL] = SL_SAMPLE_FULL};
    return (struct sl_sample_rule){.method = methods[s->settings->sampler],
                                   .fanout = s->settings->fanout[s->n_hops - 1 - hop],
                                   .layer_dependency = s->settings->layer_dependency,
                                   .kappa = s->settings->kappa};
}
