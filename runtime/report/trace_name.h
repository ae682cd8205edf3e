/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Names of tasks in a trace, read back.
 */
#ifndef SL_RUNTIME_REPORT_TRACE_NAME_H
#define SL_RUNTIME_REPORT_TRACE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tasks/task.h"

/* The parts of a task's name. */
struct sl_trace_name {
    enum sl_stage stage;
    uint32_t hop;
    uint32_t pe;
    uint64_t step;
};

/* Parse one of our task names. False: a foreign name. `text` need not be NUL-terminated. */
bool sl_trace_name_parse(const char *text, size_t n, struct sl_trace_name *out);

/* Skip `word` at *p, before `end`. False: another text, and *p stays. */
bool sl_trace_skip(const char **p, const char *end, const char *word);

/* Skip "WORD<number>" before a dot or the end. False: another text, and *p stays. */
bool sl_trace_skip_number(const char **p, const char *end, const char *word, uint64_t *out);

#endif
