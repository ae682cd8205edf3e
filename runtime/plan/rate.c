/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Schedules of the learning rate. */
#include "runtime/plan/rate.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "support/number.h"

#define STEP "step:"

/* "step:30:0.5". */
static struct sl_rate rate_of_step(const char *text)
{
    struct sl_rate rate = {.kind = SL_RATE_STEP};
    const char *end = text + strlen(text);
    const char *p = sl_number_u64(text + strlen(STEP), end, &rate.every);
    p = p != NULL && *p == ':' ? sl_number_real(p + 1, end, &rate.factor) : NULL;
    if (p != end || rate.every == 0 || !(rate.factor > 0 && rate.factor <= 1)) {
        rate.kind = SL_RATE_UNKNOWN;
    }
    return rate;
}

struct sl_rate sl_rate_of(const char *text)
{
    static const struct {
        const char *name;
        enum sl_rate_kind kind;
    } names[] = {{"none", SL_RATE_CONSTANT}, {"cosine", SL_RATE_COSINE}, {"step", SL_RATE_THIRDS}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (text == NULL || strcasecmp(text, names[i].name) == 0) {
            return (struct sl_rate){.kind = names[i].kind};
        }
    }
    return strncasecmp(text, STEP, strlen(STEP)) == 0 ? rate_of_step(text) : (struct sl_rate){.kind = SL_RATE_UNKNOWN};
}

double sl_rate_share(const struct sl_rate *rate, uint64_t epoch, uint32_t n_epochs)
{
    const double share = (double)epoch / n_epochs;
    switch (rate->kind) {
    case SL_RATE_COSINE: return 0.5 * (1 + cos(M_PI * share));
    case SL_RATE_THIRDS: return pow(0.1, floor(3 * share));
    case SL_RATE_STEP: return pow(rate->factor, (double)(epoch / rate->every));
    case SL_RATE_CONSTANT:
    case SL_RATE_UNKNOWN: break;
    }
    return 1;
}
