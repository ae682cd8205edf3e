/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Feature tables, dense and CSR. */
#include "data/features.h"

#include <math.h>
#include <string.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "support/parallel.h"

#define MAX_COLUMNS (1 << 30)
#define GRAIN 4096      /* rows that one thread normalizes at a time */
#define COLUMN_GRAIN 16 /* columns: the floats of a cache line */

bool sl_features_sparse(uint64_t n_nonzeros, uint32_t n_rows, uint32_t n_columns)
{
    return (double)n_nonzeros < 0.1 * (double)n_rows * (double)n_columns;
}

/* Entries of the block that begins at entry i of n. */
static uint32_t block_size(uint64_t n, uint64_t i)
{
    return (uint32_t)sl_min_u64(SL_COLUMN_BLOCK, n - i);
}

uint64_t sl_features_nonzeros(const struct sl_features *features)
{
    const struct sl_column *dense = &features->dense;
    float block[SL_COLUMN_BLOCK];
    uint64_t count = 0;
    if (features->offsets != NULL) {
        return features->offsets[features->n_rows];
    }
    if (dense->data == NULL) {
        return 0;
    }
    uint64_t n = (uint64_t)features->n_rows * features->n_columns;
    for (uint64_t i = 0; i < n; i += SL_COLUMN_BLOCK) {
        uint32_t size = block_size(n, i);
        const float *x = sl_column_floats(dense, i, size, block);
        for (uint32_t k = 0; k < size; k++) {
            count += x[k] != 0;
        }
    }
    return count;
}

void sl_features_row(const struct sl_features *features, uint64_t r, float *out)
{
    const uint32_t n = features->n_columns;
    if (features->dense.data != NULL) {
        const float *row = sl_column_floats(&features->dense, r * n, n, out);
        if (row != out) {
            memcpy(out, row, n * sizeof *out);
        }
        return;
    }
    memset(out, 0, n * sizeof *out);
    for (uint64_t k = features->offsets[r]; k < features->offsets[r + 1]; k++) {
        out[features->columns[k]] = features->values[k];
    }
}

enum sl_status sl_features_start_csr(uint32_t n_rows, uint32_t n_columns, uint64_t n_values, struct sl_features *out)
{
    SL_OWNED(sl_features_free) struct sl_features csr = {.n_rows = n_rows, .n_columns = n_columns};
    SL_CHECK(sl_alloc((size_t)n_rows + 1, sizeof *csr.offsets, "feature offsets", &csr.offsets));
    SL_CHECK(sl_alloc(n_values, sizeof *csr.columns, "feature columns", &csr.columns));
    SL_CHECK(sl_alloc(n_values, sizeof *csr.values, "feature values", &csr.values));
    csr.offsets[0] = 0;
    *out = SL_TAKE(csr);
    return SL_OK;
}

void sl_features_append(const struct sl_features *table, uint32_t i, uint32_t first, float *room,
                        struct sl_features *out)
{
    uint64_t n = out->offsets[out->n_rows];
    if (table->n_columns == 0) {
        out->columns[n] = first + i;
        out->values[n++] = 1;
    } else if (table->dense.data != NULL) {
        sl_features_row(table, i, room);
        for (uint32_t c = 0; c < table->n_columns; c++) {
            if (room[c] != 0) {
                out->columns[n] = first + c;
                out->values[n++] = room[c];
            }
        }
    } else {
        for (uint64_t k = table->offsets[i]; k < table->offsets[i + 1]; k++) {
            out->columns[n] = first + table->columns[k];
            out->values[n++] = table->values[k];
        }
    }
    out->offsets[++out->n_rows] = n;
}

static enum sl_status append_rows(const struct sl_features *table, uint32_t first, struct sl_features *out)
{
    SL_FREED float *room = NULL;
    SL_CHECK(sl_alloc(table->n_columns, sizeof *room, "a row of features", &room));
    for (uint32_t i = 0; i < table->n_rows; i++) {
        sl_features_append(table, i, first, room, out);
    }
    return SL_OK;
}

static enum sl_status make_csr(struct sl_features *features, uint64_t n_nonzeros)
{
    SL_OWNED(sl_features_free) struct sl_features csr = {0};
    SL_CHECK(sl_features_start_csr(features->n_rows, features->n_columns, n_nonzeros, &csr));
    csr.n_rows = 0;
    SL_CHECK(append_rows(features, 0, &csr));
    sl_features_free(features);
    *features = SL_TAKE(csr);
    return SL_OK;
}

/* Make an owned dense table of float32. */
static enum sl_status make_dense(struct sl_features *features)
{
    struct sl_features dense = {.n_rows = features->n_rows, .n_columns = features->n_columns};
    float *data;
    SL_CHECK(sl_alloc((size_t)dense.n_rows * dense.n_columns, sizeof *data, "features", &data));
    for (uint64_t r = 0; r < dense.n_rows; r++) {
        sl_features_row(features, r, data + r * dense.n_columns);
    }
    dense.dense = sl_column_take(SL_DTYPE_F32, dense.n_rows, dense.n_columns, data);
    sl_features_free(features);
    *features = dense;
    return SL_OK;
}

enum sl_status sl_features_settle(struct sl_features *features)
{
    uint64_t n_nonzeros = sl_features_nonzeros(features);
    bool sparse = sl_features_sparse(n_nonzeros, features->n_rows, features->n_columns);
    if (sparse && features->dense.data != NULL) {
        return make_csr(features, n_nonzeros);
    }
    if (!sparse && features->offsets != NULL) {
        return make_dense(features);
    }
    return SL_OK;
}

/* ---- Types ------------------------------------------------------------------------------------------------------- */

/* Whether all tables have one width. */
static bool share_columns(uint32_t n, const struct sl_features *tables)
{
    bool shares = tables[0].n_columns > 0;
    for (uint32_t t = 1; t < n; t++) {
        shares &= tables[t].n_columns == tables[0].n_columns;
    }
    return shares;
}

/* Columns of a type's own. */
static uint32_t own_columns(const struct sl_features *table)
{
    return table->n_columns > 0 ? table->n_columns : table->n_rows;
}

enum sl_status sl_features_join(const char *where, uint32_t n, const struct sl_features *tables,
                                struct sl_features *out)
{
    const bool shares = share_columns(n, tables);
    SL_OWNED(sl_features_free) struct sl_features all = {0};
    uint32_t n_rows = 0;
    uint64_t n_columns = 0;
    uint64_t n_nonzeros = 0;
    for (uint32_t t = 0; t < n; t++) {
        n_rows += tables[t].n_rows;
        n_columns = shares ? tables[t].n_columns : n_columns + own_columns(&tables[t]);
        n_nonzeros += tables[t].n_columns > 0 ? sl_features_nonzeros(&tables[t]) : tables[t].n_rows;
    }
    SL_FAIL_IF(n_columns > MAX_COLUMNS, SL_EFILE,
               "%s: expected at most %d columns of features and vertices without features", where, MAX_COLUMNS);
    SL_CHECK(sl_features_start_csr(n_rows, (uint32_t)n_columns, n_nonzeros, &all));
    all.n_rows = 0;
    for (uint32_t t = 0, first = 0; t < n; t++) {
        SL_CHECK(append_rows(&tables[t], first, &all));
        first += shares ? 0 : own_columns(&tables[t]);
    }
    SL_CHECK(sl_features_settle(&all));
    *out = SL_TAKE(all);
    return SL_OK;
}

/* ---- Normalizing ------------------------------------------------------------------------------------------------- */

/* Replace a borrowed or narrow table, so that its floats may be changed. */
static enum sl_status make_own(struct sl_features *features)
{
    const struct sl_column *dense = &features->dense;
    if (dense->data != NULL && (dense->hold != SL_HOLD_OWNED || dense->dtype != SL_DTYPE_F32)) {
        return make_dense(features);
    }
    if (features->offsets != NULL && features->hold != SL_HOLD_OWNED) {
        return make_csr(features, features->offsets[features->n_rows]);
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
        if (features->dense.data != NULL) {
            normalize_row(sl_column_row(&features->dense, r), features->n_columns);
        } else {
            uint64_t first = features->offsets[r];
            normalize_row(features->values + first, features->offsets[r + 1] - first);
        }
    }
}

/* A table and the statistics of its columns. */
struct scaled {
    struct sl_features *features;
    struct sl_scaling *scaling;
};

/* Sums in double, row after row: the same bits with any number of threads. */
static void measure_columns(void *context, uint64_t begin, uint64_t end)
{
    const struct scaled *scaled = context;
    const uint64_t n_rows = scaled->features->n_rows, n_columns = scaled->features->n_columns;
    const float *x = scaled->features->dense.data;
    double mean[COLUMN_GRAIN] = {0}, squares[COLUMN_GRAIN] = {0};
    for (uint64_t r = 0; r < n_rows; r++) {
        for (uint64_t c = begin; c < end; c++) {
            mean[c - begin] += x[r * n_columns + c];
        }
    }
    for (uint64_t c = begin; c < end; c++) {
        mean[c - begin] /= (double)n_rows;
    }
    for (uint64_t r = 0; r < n_rows; r++) {
        for (uint64_t c = begin; c < end; c++) {
            double d = x[r * n_columns + c] - mean[c - begin];
            squares[c - begin] += d * d;
        }
    }
    for (uint64_t c = begin; c < end; c++) {
        double deviation = sqrt(squares[c - begin] / (double)n_rows);
        scaled->scaling->mean[c] = mean[c - begin];
        scaled->scaling->scale[c] = deviation > 0 ? 1 / deviation : 1;
    }
}

static void scale_columns(void *context, uint64_t begin, uint64_t end)
{
    const struct scaled *scaled = context;
    const uint64_t n_rows = scaled->features->n_rows, n_columns = scaled->features->n_columns;
    const double *mean = scaled->scaling->mean, *scale = scaled->scaling->scale;
    float *x = scaled->features->dense.data;
    for (uint64_t c = begin; c < end; c++) {
        for (uint64_t r = 0; r < n_rows; r++) {
            float *value = &x[r * n_columns + c];
            *value = (float)((*value - mean[c]) * scale[c]);
        }
    }
}

static enum sl_status start_scaling(uint32_t n, struct sl_scaling *out)
{
    SL_OWNED(sl_scaling_free) struct sl_scaling made = {.n = n};
    SL_CHECK(sl_alloc(n, sizeof *made.mean, "statistics of features", &made.mean));
    SL_CHECK(sl_alloc(n, sizeof *made.scale, "statistics of features", &made.scale));
    *out = SL_TAKE(made);
    return SL_OK;
}

enum sl_status sl_scaling_copy(const struct sl_scaling *scaling, struct sl_scaling *out)
{
    *out = (struct sl_scaling){0};
    if (scaling->n == 0) {
        return SL_OK;
    }
    SL_CHECK(start_scaling(scaling->n, out));
    memcpy(out->mean, scaling->mean, scaling->n * sizeof *out->mean);
    memcpy(out->scale, scaling->scale, scaling->n * sizeof *out->scale);
    return SL_OK;
}

bool sl_scaling_equal(const struct sl_scaling *a, const struct sl_scaling *b)
{
    return a->n == b->n && (a->n == 0 || (memcmp(a->mean, b->mean, a->n * sizeof *a->mean) == 0 &&
                                          memcmp(a->scale, b->scale, a->n * sizeof *a->scale) == 0));
}

void sl_scaling_free(struct sl_scaling *scaling)
{
    sl_free(scaling->mean);
    sl_free(scaling->scale);
    *scaling = (struct sl_scaling){0};
}

enum sl_status sl_features_normalize(struct sl_features *features, enum sl_normalize normalize,
                                     struct sl_scaling *scaling)
{
    SL_OWNED(sl_scaling_free) struct sl_scaling measured = {0};
    struct scaled scaled = {features, scaling};
    const bool by_column = normalize == SL_NORMALIZE_COLUMN;
    const bool measures = by_column && scaling->n == 0;
    if (normalize == SL_NORMALIZE_NONE) {
        return SL_OK;
    }
    SL_FAIL_IF(by_column && !measures && scaling->n != features->n_columns, SL_EINVAL,
               "features: found %u columns, expected the %u whose statistics the model has", features->n_columns,
               scaling->n);
    if (measures) {
        SL_CHECK(start_scaling(features->n_columns, &measured));
    }
    SL_CHECK(make_own(features));
    if (!by_column) {
        sl_parallel_for(features->n_rows, GRAIN, normalize_range, features);
        return SL_OK;
    }
    if (features->offsets != NULL) {
        SL_CHECK(make_dense(features));
    }
    if (measures) {
        *scaling = SL_TAKE(measured);
        sl_parallel_for(features->n_columns, COLUMN_GRAIN, measure_columns, &scaled);
    }
    sl_parallel_for(features->n_columns, COLUMN_GRAIN, scale_columns, &scaled);
    return SL_OK;
}

/* Raise largest[c] to the magnitude of entry c of row r. */
static void raise_by_row(const struct sl_features *features, uint64_t r, float *largest)
{
    uint32_t n = features->n_columns;
    float block[SL_COLUMN_BLOCK];
    if (features->dense.data != NULL) {
        for (uint32_t c = 0; c < n; c += SL_COLUMN_BLOCK) {
            uint32_t size = block_size(n, c);
            const float *x = sl_column_floats(&features->dense, r * n + c, size, block);
            for (uint32_t i = 0; i < size; i++) {
                largest[c + i] = fmaxf(largest[c + i], fabsf(x[i]));
            }
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
    SL_FREED float *largest = NULL;
    SL_CHECK(sl_alloc_zero(features->n_columns, sizeof *largest, "largest features", &largest));
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
    *out = range;
    return SL_OK;
}

void sl_features_free(struct sl_features *features)
{
    sl_column_free(&features->dense);
    if (features->hold == SL_HOLD_OWNED) {
        sl_free(features->offsets);
        sl_free(features->columns);
        sl_free(features->values);
    }
    *features = (struct sl_features){0};
}
