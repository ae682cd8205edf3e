/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Parsing the names of tasks. */
#include "runtime/report/trace_name.h"

#include <string.h>

#include "data/number.h"

bool sl_trace_skip(const char **p, const char *end, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(end - *p) < n || memcmp(*p, word, n) != 0) {
        return false;
    }
    *p += n;
    return true;
}

bool sl_trace_skip_number(const char **p, const char *end, const char *word, uint64_t *out)
{
    const char *next = NULL;
    if (sl_trace_skip(p, end, word)) {
        next = sl_number_u64(*p, end, out);
    }
    if (next == NULL || (next != end && *next != '.')) {
        return false;
    }
    *p = next;
    return true;
}

/* Skip the category at the name's start, and its dot. */
static bool skip_stage(const char **p, const char *end, enum sl_stage *out)
{
    for (int s = 0; s < SL_N_STAGES; s++) {
        const char *q = *p;
        if (sl_trace_skip(&q, end, sl_stage_name((enum sl_stage)s)) && sl_trace_skip(&q, end, ".")) {
            *p = q;
            *out = (enum sl_stage)s;
            return true;
        }
    }
    return false;
}

bool sl_trace_name_parse(const char *text, size_t n, struct sl_trace_name *out)
{
    char copy[SL_TASK_NAME_BYTES];
    uint64_t hop;
    uint64_t pe;
    if (n >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, n);
    copy[n] = '\0'; /* the end of any number */
    const char *end = copy + n;
    const char *p = copy;
    if (!skip_stage(&p, end, &out->stage) ||
        (!sl_trace_skip(&p, end, "fwd.") && !sl_trace_skip(&p, end, "bwd.") && !sl_trace_skip(&p, end, "upd."))) {
        return false;
    }
    const char *dot = memchr(p, '.', (size_t)(end - p)); /* after the operation */
    p = dot;
    if (dot == NULL || !sl_trace_skip_number(&p, end, ".hop", &hop) || !sl_trace_skip_number(&p, end, ".pe", &pe) ||
        !sl_trace_skip_number(&p, end, ".step", &out->step) || p != end || hop > UINT32_MAX || pe > UINT32_MAX) {
        return false;
    }
    out->hop = (uint32_t)hop;
    out->pe = (uint32_t)pe;
    return true;
}
