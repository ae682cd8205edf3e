/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Feature tables, dense and CSR. */
#include "partition/features.h"

#include <math.h>

#include "support/memory.h"
#include "support/parallel.h"

#define GRAIN 4096 /* rows that one thread normalizes at a time */

bool sl_features_sparse(uint64_t n_nonzeros, uint32_t n_rows, uint32_t n_columns)
{
    return (double)n_nonzeros < 0.1 * (double)n_rows * (double)n_columns;
}

static uint64_t row_nonzeros(const float *row, uint32_t n)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += row[i] != 0;
    }
    return count;
}

uint64_t sl_features_nonzeros(const struct sl_features *features)
{
    if (features->offsets != NULL) {
        return features->offsets[features->n_rows];
    }
    uint64_t count = 0;
    if (features->dense == NULL) {
        return 0;
    }
    for (uint64_t r = 0; r < features->n_rows; r++) {
        count += row_nonzeros(features->dense + r * features->n_columns, features->n_columns);
    }
    return count;
}

static void fill_csr(const struct sl_features *dense, struct sl_features *csr)
{
    uint64_t k = 0;
    for (uint64_t r = 0; r < dense->n_rows; r++) {
        const float *row = dense->dense + r * dense->n_columns;
        csr->offsets[r] = k;
        for (uint32_t c = 0; c < dense->n_columns; c++) {
            if (row[c] != 0) {
                csr->columns[k] = c;
                csr->values[k] = row[c];
                k++;
            }
        }
    }
    csr->offsets[dense->n_rows] = k;
}

static enum sl_status make_csr(struct sl_features *features, uint64_t n_nonzeros)
{
    struct sl_features csr = {.n_rows = features->n_rows, .n_columns = features->n_columns};
    enum sl_status st;
    SL_TRY(st, sl_alloc((size_t)csr.n_rows + 1, sizeof *csr.offsets, "feature offsets", &csr.offsets), fail);
    SL_TRY(st, sl_alloc(n_nonzeros, sizeof *csr.columns, "feature columns", &csr.columns), fail);
    SL_TRY(st, sl_alloc(n_nonzeros, sizeof *csr.values, "feature values", &csr.values), fail);
    fill_csr(features, &csr);
    sl_features_free(features);
    *features = csr;
    return SL_OK;
fail:
    sl_features_free(&csr);
    return st;
}

static enum sl_status make_dense(struct sl_features *features)
{
    struct sl_features dense = {.n_rows = features->n_rows, .n_columns = features->n_columns};
    size_t n = (size_t)dense.n_rows * dense.n_columns;
    enum sl_status st = sl_alloc_zero(n, sizeof *dense.dense, "features", &dense.dense);
    if (st != SL_OK) {
        return st;
    }
    for (uint64_t r = 0; r < dense.n_rows; r++) {
        for (uint64_t k = features->offsets[r]; k < features->offsets[r + 1]; k++) {
            dense.dense[r * dense.n_columns + features->columns[k]] = features->values[k];
        }
    }
    sl_features_free(features);
    *features = dense;
    return SL_OK;
}

enum sl_status sl_features_settle(struct sl_features *features)
{
    uint64_t n_nonzeros = sl_features_nonzeros(features);
    bool sparse = sl_features_sparse(n_nonzeros, features->n_rows, features->n_columns);
    if (sparse && features->dense != NULL) {
        return make_csr(features, n_nonzeros);
    }
    if (!sparse && features->offsets != NULL) {
        return make_dense(features);
    }
    return SL_OK;
}

static void normalize_row(float *values, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        sum += values[i];
    }
    if (sum <= 1) {
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        values[i] = (float)(values[i] / sum);
    }
}

static void normalize_range(void *context, uint64_t begin, uint64_t end)
{
    struct sl_features *features = context;
    for (uint64_t r = begin; r < end; r++) {
        if (features->dense != NULL) {
            normalize_row(features->dense + r * features->n_columns, features->n_columns);
        } else {
            uint64_t first = features->offsets[r];
            normalize_row(features->values + first, features->offsets[r + 1] - first);
        }
    }
}

void sl_features_normalize_rows(struct sl_features *features)
{
    sl_parallel_for(features->n_rows, GRAIN, normalize_range, features);
}

/* Raise largest[c] to the magnitude of entry c of row r. */
static void raise_by_row(const struct sl_features *features, uint64_t r, float *largest)
{
    uint32_t n = features->n_columns;
    if (features->dense != NULL) {
        const float *row = features->dense + r * n;
        for (uint32_t c = 0; c < n; c++) {
            largest[c] = fmaxf(largest[c], fabsf(row[c]));
        }
        return;
    }
    for (uint64_t k = features->offsets[r]; k < features->offsets[r + 1]; k++) {
        float *of = &largest[features->columns[k]];
        *of = fmaxf(*of, fabsf(features->values[k]));
    }
}

enum sl_status sl_features_measure(const struct sl_features *features, struct sl_feature_range *out)
{
    struct sl_feature_range range = {0};
    float *largest;
    enum sl_status st = sl_alloc_zero(features->n_columns, sizeof *largest, "largest features", &largest);
    if (st != SL_OK) {
        return st;
    }
    for (uint64_t r = 0; r < features->n_rows; r++) {
        raise_by_row(features, r, largest);
    }
    for (uint32_t c = 0; c < features->n_columns; c++) {
        if (c == 0 || largest[c] > range.largest[0]) {
            range.largest[1] = c == 0 ? 0 : range.largest[0];
            range.largest[0] = largest[c];
            range.column = c;
        } else {
            range.largest[1] = fmaxf(range.largest[1], largest[c]);
        }
    }
    sl_free(largest);
    *out = range;
    return SL_OK;
}

void sl_features_free(struct sl_features *features)
{
    sl_free(features->dense);
    sl_free(features->offsets);
    sl_free(features->columns);
    sl_free(features->values);
    *features = (struct sl_features){0};
}
