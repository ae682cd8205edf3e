/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Gathering, and scores of rankings. */
#include "runtime/objective/collect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/score.h"
#include "support/memory.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

/* ---- rows of a set ---- */

/* Rows of this rank's vertices in one set, in ascending order of ids. */
struct set_rows {
    uint32_t n;
    sl_vertex *id;
    sl_real *z; /* [n x n_outputs] */
};

static uint32_t count_rows(const struct sl_outputs *outputs, uint8_t set)
{
    const struct sl_shards *shards = outputs->shards;
    uint32_t n = 0;
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        const struct sl_output_chunk *chunk = &outputs->chunk[k];
        const uint8_t *sets = shards->set_of + shards->part[chunk->part].first + chunk->row;
        for (uint32_t i = 0; i < chunk->n; i++) {
            n += sets[i] == set;
        }
    }
    return n;
}

static void take_chunk(const struct sl_outputs *outputs, const struct sl_output_chunk *chunk, uint8_t set,
                       struct set_rows *out)
{
    const struct sl_shards *shards = outputs->shards;
    const sl_real *z = starpu_data_get_local_ptr(chunk->z);
    uint32_t width = shards->n_outputs;
    for (uint32_t i = 0; i < chunk->n; i++) {
        sl_vertex id = shards->part[chunk->part].first + chunk->row + i;
        if (shards->set_of[id] == set) {
            memcpy(out->z + (size_t)out->n * width, z + (size_t)i * width, width * sizeof *z);
            out->id[out->n++] = id;
        }
    }
}

static enum sl_status take_rows(const struct sl_outputs *outputs, uint8_t set, struct set_rows *out)
{
    size_t n = count_rows(outputs, set);
    *out = (struct set_rows){0};
    SL_CHECK(sl_alloc(n, sizeof *out->id, "vertices of a set", &out->id));
    SL_CHECK(sl_alloc(n * outputs->shards->n_outputs, sizeof *out->z, "outputs of a set", &out->z));
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        SL_CHECK(sl_chunk_acquire(&outputs->run->failure, outputs->chunk[k].z, STARPU_R));
        take_chunk(outputs, &outputs->chunk[k], set, out);
        starpu_data_release(outputs->chunk[k].z);
    }
    return SL_OK;
}

enum sl_status sl_pairs_gather(const struct sl_pair *mine, size_t n, struct sl_pair **out, size_t *n_out)
{
    double n_all = (double)n;
    SL_CHECK(sl_ranks_sum(1, &n_all));
    *n_out = sl_rank() == 0 ? (size_t)n_all : 0;
    SL_CHECK(sl_alloc(*n_out, sizeof **out, "outputs of all ranks", out));
    return sl_ranks_gather(mine, n * sizeof *mine, *out);
}

/* The known entries of column c. Returns their number. */
static size_t take_column(const struct sl_targets *targets, const struct set_rows *rows, uint32_t c,
                          struct sl_pair *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < rows->n; i++) {
        float y = targets->numbers[(size_t)rows->id[i] * targets->width + c];
        if (!isnan(y)) {
            out[n++] = (struct sl_pair){rows->z[(size_t)i * targets->width + c], y};
        }
    }
    return n;
}

static int compare(double x, double y)
{
    if (isnan(x) || isnan(y)) {
        return (isnan(x) != 0) - (isnan(y) != 0); /* nan is the largest */
    }
    return (x > y) - (x < y);
}

static int compare_pairs(const void *a, const void *b)
{
    const struct sl_pair *x = a;
    const struct sl_pair *y = b;
    const int by_z = compare((double)x->z, (double)y->z);
    return by_z != 0 ? by_z : compare((double)x->y, (double)y->y);
}

enum sl_status sl_outputs_columns(const struct sl_outputs *outputs, uint8_t set,
                                  void (*add)(void *context, struct sl_pair *pairs, size_t n), void *context)
{
    struct set_rows rows;
    struct sl_pair *mine = NULL;
    enum sl_status st;
    SL_TRY(st, take_rows(outputs, set, &rows), done);
    SL_TRY(st, sl_alloc(rows.n, sizeof *mine, "a column of outputs", &mine), done);
    if (outputs->shards->halo != NULL) {
        sl_ranks_drain();
    }
    for (uint32_t c = 0; c < outputs->shards->n_outputs; c++) {
        struct sl_pair *all = NULL;
        size_t n = 0;
        st = sl_pairs_gather(mine, take_column(&outputs->shards->targets, &rows, c, mine), &all, &n);
        if (st == SL_OK && n > 1) {
            qsort(all, n, sizeof *all, compare_pairs);
        }
        if (st == SL_OK) {
            add(context, all, n);
        }
        sl_free(all);
        if (st != SL_OK) {
            goto done;
        }
    }
done:
    sl_free(mine);
    sl_free(rows.id);
    sl_free(rows.z);
    return st;
}

/* ---- rankings ---- */

/* Sort the pairs. Returns false if a z is nan: it has no rank. */
static bool order(struct sl_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (isnan(pairs[i].z)) {
            return false;
        }
    }
    qsort(pairs, n, sizeof *pairs, compare_pairs);
    return true;
}

/* Pairs with the same z. */
struct tie {
    double positive, negative;
    size_t end;
};

static struct tie tie_at(const struct sl_pair *pairs, size_t n, size_t i)
{
    struct tie tie = {0, 0, i};
    for (; tie.end < n && pairs[tie.end].z == pairs[i].z; tie.end++) {
        bool positive = pairs[tie.end].y > 0;
        tie.positive += positive;
        tie.negative += !positive;
    }
    return tie;
}

double sl_pairs_area(struct sl_pair *pairs, size_t n)
{
    double n_positive = 0;
    double n_negative = 0;
    double below = 0; /* pairs in the right order; ties count half */
    if (!order(pairs, n)) {
        return NAN;
    }
    for (size_t i = 0; i < n;) {
        struct tie tie = tie_at(pairs, n, i);
        below += tie.positive * (n_negative + tie.negative / 2);
        n_positive += tie.positive;
        n_negative += tie.negative;
        i = tie.end;
    }
    return n_positive > 0 && n_negative > 0 ? below / (n_positive * n_negative) : NAN;
}

double sl_pairs_precision(struct sl_pair *pairs, size_t n)
{
    double n_positive = 0;
    double found = 0;
    double seen = 0;
    double sum = 0;
    if (!order(pairs, n)) {
        return NAN;
    }
    for (size_t i = 0; i < n; i++) {
        n_positive += pairs[i].y > 0;
    }
    if (n_positive == 0 || n_positive == (double)n) {
        return NAN;
    }
    for (size_t end = n; end > 0;) {
        double before = found;
        sl_real z = pairs[end - 1].z;
        for (; end > 0 && pairs[end - 1].z == z; end--) {
            found += pairs[end - 1].y > 0;
            seen++;
        }
        sum += (found - before) / n_positive * (found / seen);
    }
    return sum;
}

struct sl_pair_ranks sl_pairs_ranks(struct sl_pair *pairs, size_t n)
{
    const struct sl_pair_ranks none = {NAN, NAN, NAN, NAN};
    struct sl_pair_ranks sum = {0};
    double n_positive = 0;
    double n_above = 0;
    size_t n_negative = 0;
    if (!order(pairs, n)) {
        return none;
    }
    for (size_t i = 0; i < n; i++) {
        n_negative += !(pairs[i].y > 0);
    }
    n_above = (double)n_negative;
    for (size_t i = 0; i < n;) {
        struct tie tie = tie_at(pairs, n, i);
        n_above -= tie.negative;
        double rank = 1 + n_above + tie.negative / 2;
        sum.mrr += tie.positive / rank;
        sum.hits1 += rank <= 1 ? tie.positive : 0;
        sum.hits3 += rank <= 3 ? tie.positive : 0;
        sum.hits10 += rank <= 10 ? tie.positive : 0;
        n_positive += tie.positive;
        i = tie.end;
    }
    if (n_positive == 0 || n_negative == 0) {
        return none;
    }
    return (struct sl_pair_ranks){sum.mrr / n_positive, sum.hits1 / n_positive, sum.hits3 / n_positive,
                                  sum.hits10 / n_positive};
}
