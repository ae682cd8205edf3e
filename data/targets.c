/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Tables of targets. */
#include "data/targets.h"

#include <math.h>
#include <string.h>

#include "support/memory.h"

bool sl_targets_known(const struct sl_targets *t, uint32_t v)
{
    if (t->type == SL_TARGET_CLASS) {
        return t->classes[v] >= 0;
    }
    for (uint32_t c = 0; c < t->width; c++) {
        if (!isnan(t->numbers[(size_t)v * t->width + c])) {
            return true;
        }
    }
    return false;
}

bool sl_targets_are_labels(const struct sl_targets *t)
{
    size_t n = (size_t)t->n_rows * t->width;
    if (t->type != SL_TARGET_NUMBER) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        float y = t->numbers[i];
        if (!isnan(y) && y != 0 && y != 1) {
            return false;
        }
    }
    return true;
}

enum sl_status sl_targets_make_unknown(uint32_t n_rows, struct sl_targets *out)
{
    struct sl_targets made = {.type = SL_TARGET_CLASS, .n_rows = n_rows, .width = 1};
    SL_CHECK(sl_alloc(n_rows, SL_TARGET_BYTES, "targets", &made.data));
    memset(made.data, 0xff, sl_targets_bytes(&made));
    *out = made;
    return SL_OK;
}

enum sl_status sl_targets_place(uint32_t first, uint32_t n_rows, struct sl_targets *targets)
{
    struct sl_targets all = *targets;
    all.n_rows = n_rows;
    SL_CHECK(sl_alloc((size_t)n_rows * all.width, SL_TARGET_BYTES, "targets", &all.data));
    memset(all.data, 0xff, sl_targets_bytes(&all));
    memcpy((char *)all.data + (size_t)first * all.width * SL_TARGET_BYTES, targets->data, sl_targets_bytes(targets));
    sl_free(targets->data);
    *targets = all;
    return SL_OK;
}

bool sl_target_is_class(float x)
{
    return isnan(x) || x == SL_IGNORED_CLASS || (x >= -1 && x < SL_MAX_CLASSES && x == floorf(x));
}

bool sl_target_is_number(float x)
{
    return !isinf(x);
}

uint32_t sl_targets_count_classes(const struct sl_targets *t)
{
    int32_t most = -1;
    for (uint32_t v = 0; v < t->n_rows; v++) {
        most = t->classes[v] > most ? t->classes[v] : most;
    }
    return (uint32_t)(most + 1);
}

struct sl_targets sl_targets_take_classes(int32_t *classes, uint32_t n_rows)
{
    struct sl_targets t = {.type = SL_TARGET_CLASS, .n_rows = n_rows, .width = 1, .classes = classes};
    t.n_classes = sl_targets_count_classes(&t);
    return t;
}

static bool all_whole(const float *numbers, uint32_t n)
{
    for (uint32_t v = 0; v < n; v++) {
        if (!isnan(numbers[v]) && numbers[v] != floorf(numbers[v])) {
            return false;
        }
    }
    return true;
}

enum sl_status sl_targets_take(const char *where, float *numbers, uint32_t n_rows, uint32_t width,
                               enum sl_target_choice choice, struct sl_targets *out)
{
    struct sl_targets t = {.type = SL_TARGET_NUMBER, .n_rows = n_rows, .width = width, .numbers = numbers};
    if (width == 1 && choice != SL_TARGETS_NUMBERS && all_whole(numbers, n_rows)) {
        for (uint32_t v = 0; v < n_rows; v++) {
            if (!sl_target_is_class(numbers[v])) {
                enum sl_status st = sl_fail(SL_EFILE,
                                            "%s: targets are whole numbers, but not classes from 0 to %d (vertex %u "
                                            "has %.9g); say --objective regression if they are numbers",
                                            where, SL_MAX_CLASSES - 1, v, (double)numbers[v]);
                sl_targets_free(&t);
                return st;
            }
            int32_t class = isnan(numbers[v]) || numbers[v] < 0 ? -1 : (int32_t)numbers[v];
            memcpy(&t.classes[v], &class, sizeof class);
        }
        t = sl_targets_take_classes(t.classes, n_rows);
    }
    if (choice == SL_TARGETS_CLASSES && t.type != SL_TARGET_CLASS) {
        sl_targets_free(&t);
        return sl_fail(SL_EFILE, "%.300s: expected one column of classes from 0 to 65535, found other numbers", where);
    }
    *out = t;
    return SL_OK;
}

void sl_targets_tell_whole(const char *where, const struct sl_targets *t)
{
    if (t->type == SL_TARGET_CLASS) {
        sl_notify(
            SL_NOTICE_WARNING,
            "%s: labels are floats without fractions: taken as %u classes; for numbers say --objective regression",
            where, t->n_classes);
    }
}

void sl_targets_widen(struct sl_targets *t, uint32_t n)
{
    if (t->type == SL_TARGET_CLASS && n > t->n_classes) {
        t->n_classes = n;
    }
}

void sl_targets_free(struct sl_targets *t)
{
    sl_free(t->data);
    *t = (struct sl_targets){0};
}
