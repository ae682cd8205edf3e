/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The log: what the library does, for whoever looks for a cause. STARLING_LOG=all+warn,comm+trace: levels per module.
 *
 * Silent until a program opens it with a stream (standard error): the library itself never prints. Errors are not logged but
 * returned as a status; results go to standard output by the program, not through here.
 */
#ifndef SL_SUPPORT_LOG_H
#define SL_SUPPORT_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "support/status.h"

enum sl_log_level {
    SL_LOG_OFF,
    SL_LOG_WARN,  /* it goes on, but the user should know: a setting that will hurt, a fallback taken */
    SL_LOG_INFO,  /* once per run: what was found and decided */
    SL_LOG_DEBUG, /* once per epoch or file */
    SL_LOG_TRACE, /* once per step or task */
};

/* Named in STARLING_LOG without the prefix, in small letters. */
enum sl_log_module {
    SL_LOG_DATA,      /* reading, generating and caching datasets */
    SL_LOG_PARTITION, /* parts */
    SL_LOG_RUN,       /* machine, workers, StarPU */
    SL_LOG_STEP,      /* batches: sizes, slots that grow */
    SL_LOG_COMM,      /* what goes between PEs */
    SL_LOG_TRAIN,     /* epochs, evaluation */
    SL_LOG_OUTPUT,    /* files written */
    SL_LOG_N_MODULES
};

/* Levels as they are now; read them with sl_log_on. */
extern atomic_int sl_log_levels[SL_LOG_N_MODULES];

/* Log to `stream` (must stay open; NULL: no more) as `spec` says: "module+level" separated by commas, later ones winning,
 * "all" for every module; modules not named are at warn. NULL or "": all+warn.
 * SL_EINVAL: a module or level that does not exist (the message lists those that do); nothing has changed then.
 * Not thread safe: call it before threads log. */
enum sl_status sl_log_open(const char *spec, FILE *stream);

/* Whether a line of this level would be written; for lines that cost something to prepare. Thread safe. */
static inline bool sl_log_on(enum sl_log_module module, enum sl_log_level level)
{
    return (int)level <= atomic_load_explicit(&sl_log_levels[module], memory_order_relaxed);
}

/* Write one line "[seconds since sl_log_open] level module: text" (printf rules, no newline). Lines of several threads do not
 * mix. Thread safe. */
void sl_log(enum sl_log_module module, enum sl_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
