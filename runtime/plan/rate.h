/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The learning rate over the epochs (--lr-schedule), as PyTorch's CosineAnnealingLR and StepLR have it.
 */
#ifndef SL_RUNTIME_PLAN_RATE_H
#define SL_RUNTIME_PLAN_RATE_H

#include <stdint.h>

enum sl_rate_kind {
    SL_RATE_CONSTANT, /* "none": 1 */
    SL_RATE_COSINE,   /* "cosine": (1 + cos(pi e / E)) / 2 */
    SL_RATE_THIRDS,   /* "step": 0.1^floor(3 e / E) */
    SL_RATE_STEP,     /* "step:N:X": X^floor(e / N) */
    SL_RATE_UNKNOWN,
};

struct sl_rate {
    enum sl_rate_kind kind;
    uint64_t every; /* N >= 1, and X in (0, 1]: of SL_RATE_STEP */
    double factor;
};

/* SL_RATE_UNKNOWN: the text is none of those above. NULL counts as "none". */
struct sl_rate sl_rate_of(const char *text);

/* The share of --lr in epoch e = epoch of E = n_epochs, counted from 0. */
double sl_rate_share(const struct sl_rate *rate, uint64_t epoch, uint32_t n_epochs);

#endif
