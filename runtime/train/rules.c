/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The table of rules. */
#include "runtime/train/rules.h"

#include <stddef.h>
#include <string.h>

#define NEVER SL_CHANGE_NEVER
#define DATA SL_CHANGE_DATA
#define LONGER SL_CHANGE_LONGER
#define FREELY SL_CHANGE_FREELY
#define EQUAL SL_SPREAD_EQUAL
#define PATH SL_SPREAD_PATH
#define OWN SL_SPREAD_OWN

/* A run continues to the bit only if data, model and order of additions stay the same.
 * - `transport` is part of the order: nccl adds gradients by GPU, other transports by PE. `means` fastest may use
 *   cuSPARSE's order.
 * - Place and time of tasks, and place of rows, change no bit: every sum has a fixed order.
 * - `cpus` and `gpus` are free, although GPUs round differently from CPUs. The bits equal those of an uninterrupted
 *   run if the same kind of device continues, with nccl the same number of GPUs, and without --cpus beside GPUs.
 * - `load` is free: the checkpoint brings the weights. */
const struct sl_rule sl_rules[SL_N_RULES] = {
    {"dataset", DATA, OWN},
    {"data-path", FREELY, OWN},
    {"split", DATA, OWN},
    {"features", DATA, OWN},
    {"directed", NEVER, EQUAL},
    {"normalize-features", NEVER, EQUAL},
    {"cache", FREELY, OWN},
    {"model", NEVER, EQUAL},
    {"heads", NEVER, EQUAL},
    {"alpha", NEVER, EQUAL},
    {"lambda", NEVER, EQUAL},
    {"layers", NEVER, EQUAL},
    {"hidden", NEVER, EQUAL},
    {"dropout", NEVER, EQUAL},
    {"input-dropout", NEVER, EQUAL},
    {"norm", NEVER, EQUAL},
    {"residual", NEVER, EQUAL},
    {"precision", NEVER, EQUAL},
    {"load", FREELY, PATH},
    {"sync", NEVER, EQUAL},
    {"pes", NEVER, EQUAL},
    {"group-size", NEVER, EQUAL},
    {"batch-size", NEVER, EQUAL},
    {"fanout", NEVER, EQUAL},
    {"sampler", NEVER, EQUAL},
    {"layer-dependency", NEVER, EQUAL},
    {"kappa", NEVER, EQUAL},
    {"depth", FREELY, EQUAL},
    {"chunks", NEVER, EQUAL},
    {"feature-cache", FREELY, EQUAL},
    {"feature-cache-policy", FREELY, EQUAL},
    {"stages", FREELY, EQUAL},
    {"stages-cut", FREELY, EQUAL},
    {"ways", NEVER, EQUAL},
    {"chunk-order", NEVER, EQUAL},
    {"gradient-factor", NEVER, EQUAL},
    {"recompute", FREELY, EQUAL},
    {"guard", NEVER, EQUAL},
    {"history-every", NEVER, EQUAL},
    {"partition", NEVER, EQUAL},
    {"gossip-what", NEVER, EQUAL},
    {"gossip-average-every", NEVER, EQUAL},
    {"gossip-local-size", NEVER, EQUAL},
    {"gossip-ring", NEVER, EQUAL},
    {"lr", NEVER, EQUAL},
    {"lr-schedule", NEVER, EQUAL},
    {"objective", NEVER, EQUAL},
    {"loss", NEVER, EQUAL},
    {"class-weights", NEVER, PATH},
    {"label-smoothing", NEVER, EQUAL},
    {"best-by", NEVER, EQUAL},
    {"epochs", LONGER, EQUAL},
    {"weight-decay", NEVER, EQUAL},
    {"patience", FREELY, EQUAL},
    {"seed", NEVER, EQUAL},
    {"eval-every", FREELY, EQUAL},
    {"metrics", FREELY, PATH},
    {"metrics-steps", FREELY, EQUAL},
    {"save", FREELY, PATH},
    {"save-names", FREELY, EQUAL},
    {"predict", FREELY, PATH},
    {"embed", FREELY, PATH},
    {"checkpoint", FREELY, PATH},
    {"resume", FREELY, EQUAL},
    {"trace", FREELY, EQUAL},
    {"trace-steps", FREELY, EQUAL},
    {"quiet", FREELY, OWN},
    {"json", FREELY, OWN},
    {"cpus", FREELY, OWN},
    {"gpus", FREELY, OWN},
    {"sched", FREELY, OWN},
    {"placement", FREELY, EQUAL},
    {"transport", NEVER, EQUAL},
    {"means", NEVER, EQUAL},
    {"watchdog", FREELY, EQUAL},
};

const struct sl_rule *sl_rule_of(const char *option)
{
    for (size_t i = 0; i < SL_N_RULES; i++) {
        if (strcmp(sl_rules[i].option, option) == 0) {
            return &sl_rules[i];
        }
    }
    return NULL;
}
