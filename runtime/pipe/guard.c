/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The guard's conditions. */
#include "runtime/pipe/guard.h"

#include "support/minmax.h"

#include <math.h>

#define LAG 0.2        /* fraction of H by which the exact loss may exceed the stale loss */
#define PROGRESS 0.9   /* fraction of B below which an exact loss is good in any case */
#define GUESSING 0.95  /* fraction of H above which answers are as good as a constant */
#define LEAST_EVERY 10 /* epochs between checks, at least */
#define LATE 50        /* first epoch in which guessing counts, at least */

struct sl_guard sl_guard_of(double guess)
{
    return (struct sl_guard){guess, guess};
}

bool sl_guard_due(uint64_t epoch, uint32_t history_every)
{
    return (epoch + 1) % sl_max_u32(history_every, LEAST_EVERY) == 0;
}

bool sl_guard_good(const struct sl_guard *g, double exact)
{
    return exact < PROGRESS * g->guess;
}

bool sl_guard_check(struct sl_guard *g, uint64_t epoch, uint32_t history_every, double stale, double exact)
{
    uint64_t late = 3 * (uint64_t)history_every > LATE ? 3 * (uint64_t)history_every : LATE;
    bool behind = exact - stale > LAG * g->guess && exact > PROGRESS * g->least;
    bool guessing = epoch >= late && exact > GUESSING * g->guess;
    bool fires = !isfinite(stale) || !isfinite(exact) || (g->guess > 0 && (behind || guessing));
    g->least = exact < g->least ? exact : g->least;
    return fires;
}
