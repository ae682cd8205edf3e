/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Levels per module, one stream. */
#include "support/log.h"

#include <stdarg.h>
#include <string.h>

#include "support/clock.h"

static const char *const level_names[] = {"off", "warn", "info", "debug", "trace"};
static const char *const module_names[] = {"data", "partition", "run", "step", "comm", "train", "output"};
_Static_assert(sizeof level_names / sizeof *level_names == SL_LOG_TRACE + 1, "a name for each level");
_Static_assert(sizeof module_names / sizeof *module_names == SL_LOG_N_MODULES, "a name for each module");

atomic_int sl_log_levels[SL_LOG_N_MODULES];

static FILE *log_stream;
static double log_start_s;

/* The name's position among `n`; -1: it is none of them. */
static int find(const char *name, size_t length, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            return i;
        }
    }
    return -1;
}

/* Read one "module+level" of `length` characters into `levels`. */
static enum sl_status read_entry(const char *entry, size_t length, int *levels)
{
    const char *plus = memchr(entry, '+', length);
    size_t n = plus != NULL ? (size_t)(plus - entry) : length;
    int module = find(entry, n, module_names, SL_LOG_N_MODULES);
    int level = plus != NULL ? find(plus + 1, length - n - 1, level_names, SL_LOG_TRACE + 1) : -1;
    bool all = n == 3 && memcmp(entry, "all", 3) == 0;
    if (level < 0 || (module < 0 && !all)) {
        return sl_fail(
            SL_EINVAL,
            "STARLING_LOG: found '%.*s', expected MODULE+LEVEL with a module of all, data, partition, run, step, "
            "comm, train, output and a level of off, warn, info, debug, trace",
            (int)length, entry);
    }
    for (int i = all ? 0 : module; i < (all ? SL_LOG_N_MODULES : module + 1); i++) {
        levels[i] = level;
    }
    return SL_OK;
}

enum sl_status sl_log_open(const char *spec, FILE *stream)
{
    int levels[SL_LOG_N_MODULES];
    for (int i = 0; i < SL_LOG_N_MODULES; i++) {
        levels[i] = SL_LOG_WARN;
    }
    while (spec != NULL && *spec != '\0') {
        size_t length = strcspn(spec, ",");
        enum sl_status st = read_entry(spec, length, levels);
        if (st != SL_OK) {
            return st;
        }
        spec += length + (spec[length] == ',');
    }
    log_stream = stream;
    log_start_s = sl_clock_s();
    for (int i = 0; i < SL_LOG_N_MODULES; i++) {
        atomic_store(&sl_log_levels[i], stream != NULL ? levels[i] : SL_LOG_OFF);
    }
    return SL_OK;
}

void sl_log(enum sl_log_module module, enum sl_log_level level, const char *format, ...)
{
    char text[SL_MESSAGE_BYTES];
    if (!sl_log_on(module, level) || level == SL_LOG_OFF) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(log_stream, "[%9.3f] %s %s: %s\n", sl_clock_s() - log_start_s, level_names[level], module_names[module],
            text);
}
