/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers: squared or absolute error over the known entries; mean squared and absolute error, and R2.
 *
 * The errors are means over all known entries of a set. R2 is the mean over the columns with two known entries or
 * more, as scikit-learn's "uniform_average": a column of equal targets has 1 if all answers are right, otherwise 0. */
#include "runtime/objective/collect.h"

#include <math.h>
#include <stdlib.h>

#include "codelets/ends/loss.h"
#include "codelets/ends/score.h"
#include "support/memory.h"

/* ---- the data ---- */

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The sum of a column's errors with its best constant answer: its mean, or for absolute errors its median. */
static double guess_column(double *y, size_t n, int loss)
{
    double best = 0;
    double sum = 0;
    if (n > 0 && loss == SL_LOSS_ABSOLUTE) {
        qsort(y, n, sizeof *y, compare_numbers);
        best = y[n / 2];
    }
    for (size_t i = 0; i < n && loss == SL_LOSS_SQUARED; i++) {
        best += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        double off = y[i] - best;
        sum += loss == SL_LOSS_SQUARED ? off * off : fabs(off);
    }
    return sum;
}

static enum sl_status guess_of(const struct sl_dataset *dataset, int loss, double *out)
{
    const struct sl_targets *t = &dataset->targets;
    SL_FREED double *y = NULL;
    double sum = 0;
    double n_all = 0;
    SL_CHECK(sl_alloc(dataset->train.n, sizeof *y, "training targets", &y));
    for (uint32_t c = 0; c < t->width; c++) {
        size_t n = 0;
        for (uint32_t i = 0; i < dataset->train.n; i++) {
            float value = t->numbers[(size_t)dataset->train.ids[i] * t->width + c];
            if (!isnan(value)) {
                y[n++] = (double)value;
            }
        }
        sum += guess_column(y, n, loss);
        n_all += (double)n;
    }
    *out = n_all > 0 ? sum / n_all : 0;
    return SL_OK;
}

static enum sl_status open_numbers(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                   struct sl_objective *out)
{
    SL_CHECK(sl_objective_count_known(dataset, "regression", out));
    out->row_loss = settings->loss == SL_LOSS_SQUARED ? SL_ROW_SQUARED : SL_ROW_ABSOLUTE;
    return guess_of(dataset, settings->loss, &out->guess);
}

/* ---- scores ---- */

static const struct sl_score_kind kinds[] = {
    {"mse", false, false, false}, {"mae", false, false, false}, {"r2", true, false, false}, {0}};

/* Sums over the columns of a set. */
struct sums {
    double squared, absolute, n;
    double r2, n_columns;
};

static double r2_of(double squared, double spread)
{
    if (spread > 0) {
        return 1 - squared / spread;
    }
    return isnan(squared) ? NAN : squared > 0 ? 0 : 1;
}

static void add_column(void *context, struct sl_pair *pairs, size_t n)
{
    struct sums *sums = context;
    double mean = 0;
    double squared = 0;
    double spread = 0;
    bool equal = true;
    for (size_t i = 0; i < n; i++) {
        double off = (double)pairs[i].z - (double)pairs[i].y;
        mean += (double)pairs[i].y;
        equal = equal && pairs[i].y == pairs[0].y;
        squared += off * off;
        sums->absolute += fabs(off);
    }
    mean /= (double)n;
    for (size_t i = 0; i < n && !equal; i++) { /* equal targets have no spread, whatever the rounding of their mean */
        double off = (double)pairs[i].y - mean;
        spread += off * off;
    }
    sums->squared += squared;
    sums->n += (double)n;
    if (n >= 2) {
        sums->r2 += r2_of(squared, spread);
        sums->n_columns++;
    }
}

static enum sl_status score(const struct sl_objective *o, const struct sl_outputs *outputs, struct sl_scores *out)
{
    struct sums valid = {0};
    struct sums test = {0};
    SL_CHECK(sl_outputs_columns(outputs, SL_SET_VALID, add_column, &valid));
    SL_CHECK(sl_outputs_columns(outputs, SL_SET_TEST, add_column, &test));
    /* NaN for an empty set */
    sl_scores_put(out, "mse", valid.squared / valid.n, test.squared / test.n);
    sl_scores_put(out, "mae", valid.absolute / valid.n, test.absolute / test.n);
    sl_scores_put(out, "r2", valid.r2 / valid.n_columns, test.r2 / test.n_columns);
    out->valid_loss = (o->loss == SL_LOSS_SQUARED ? valid.squared : valid.absolute) / valid.n;
    return SL_OK;
}

const struct sl_objective_kind sl_regression = {.name = "regression",
                                                .output = "number",
                                                .outputs = "numbers",
                                                .open = open_numbers,
                                                .scores = kinds,
                                                .lose = sl_objective_lose,
                                                .score = score};
