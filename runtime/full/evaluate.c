/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Scores of what a pass over all in-edges gives. */
#include "runtime/full/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/score.h"
#include "runtime/full/full.h"
#include "support/memory.h"

/* Copy rows of all parts to `out`, N x n_columns by renumbered id. */
static enum sl_status copy_rows(const struct sl_full *a, uint32_t i, sl_real *out)
{
    for (uint32_t q = 0; q < a->pass.shards->n_parts; q++) {
        const struct sl_rows *rows = sl_full_rows(a, i, q);
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            size_t first = a->pass.shards->part[q].first + ((size_t)c << rows->split.shift);
            size_t n = (size_t)sl_split_size(&rows->split, c) * rows->n_columns;
            if (starpu_data_acquire(rows->chunk[c], STARPU_R) != 0) {
                return sl_fail(SL_ESTARPU, "StarPU refused to hand out the rows of part %u", q);
            }
            memcpy(out + first * rows->n_columns, starpu_data_get_local_ptr(rows->chunk[c]), n * sizeof *out);
            starpu_data_release(rows->chunk[c]);
        }
    }
    return SL_OK;
}

/* ---- scores ---- */

struct margin {
    float value;
    bool positive;
};

static int compare_margins(const void *a, const void *b)
{
    float x = ((const struct margin *)a)->value;
    float y = ((const struct margin *)b)->value;
    return (x > y) - (x < y);
}

/* Area under the ROC curve: the chance that a vertex of class 1 has the larger margin. Sorts the margins. */
static double area(struct margin *margins, size_t n)
{
    double n_positive = 0;
    double below = 0; /* pairs won, ties half */
    qsort(margins, n, sizeof *margins, compare_margins);
    double n_negative = 0;
    for (size_t i = 0; i < n;) {
        double positive = 0;
        double negative = 0;
        size_t j = i;
        for (; j < n && margins[j].value == margins[i].value; j++) {
            positive += margins[j].positive;
            negative += !margins[j].positive;
        }
        below += positive * (n_negative + negative / 2);
        n_positive += positive;
        n_negative += negative;
        i = j;
    }
    return n_positive > 0 && n_negative > 0 ? below / (n_positive * n_negative) : NAN;
}

/* Accuracy and macro F1 of one set from its counts, C x (right, of the class, answers). */
static void rate(const uint64_t *counts, uint32_t n_classes, double *accuracy_out, double *f1_out)
{
    double right = 0;
    double total = 0;
    double f1 = 0;
    double n_seen = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        double hits = (double)counts[3 * c];
        double seen = (double)counts[3 * c + 1] + (double)counts[3 * c + 2];
        right += hits;
        total += (double)counts[3 * c + 1];
        f1 += seen > 0 ? 2 * hits / seen : 0;
        n_seen += seen > 0;
    }
    *accuracy_out = total > 0 ? right / total : NAN;
    *f1_out = total > 0 ? f1 / n_seen : NAN;
}

static const struct sl_rows *logits_of(const struct sl_full *a, uint32_t q)
{
    return sl_full_rows(a, a->pass.model->n_layers - 1, q);
}

/* What the scoring tasks of all chunks write. */
struct tally {
    uint32_t n_chunks;
    size_t n_counts;               /* of one chunk */
    uint64_t *counts;              /* n_chunks x n_counts */
    float *margins;                /* N, two classes only */
    starpu_data_handle_t *handles; /* counts, then margins, of each chunk */
};

static enum sl_status open_tally(const struct sl_full *a, struct tally *t)
{
    enum sl_status st;
    for (uint32_t q = 0; q < a->pass.shards->n_parts; q++) {
        t->n_chunks += logits_of(a, q)->split.n_chunks;
    }
    t->n_counts = (size_t)SL_N_SETS * 3 * a->pass.shards->n_classes;
    SL_TRY(st, sl_alloc(t->n_chunks * t->n_counts, sizeof *t->counts, "score counts", &t->counts), done);
    SL_TRY(st, sl_alloc_zero(2 * (size_t)t->n_chunks, sizeof *t->handles, "score handles", &t->handles), done);
    if (a->pass.shards->n_classes == 2) {
        SL_TRY(st, sl_alloc(a->pass.shards->n_vertices, sizeof *t->margins, "margins", &t->margins), done);
    }
done:
    return st;
}

static enum sl_status submit_scores(const struct sl_full *a, struct tally *t)
{
    enum sl_status st = SL_OK;
    uint32_t n = 0;
    for (uint32_t q = 0; q < a->pass.shards->n_parts; q++) {
        const struct sl_shard *part = &a->pass.shards->part[q];
        struct sl_task_args head = {.run = a->pass.run, .pe = q, .stage = SL_STAGE_EVALUATE};
        for (uint32_t c = 0; c < logits_of(a, q)->split.n_chunks; c++, n++) {
            uint32_t row = c << logits_of(a, q)->split.shift;
            starpu_data_handle_t *handle = &t->handles[2 * (size_t)n];
            starpu_vector_data_register(&handle[0], STARPU_MAIN_RAM, (uintptr_t)(t->counts + n * t->n_counts),
                                        (uint32_t)t->n_counts, sizeof *t->counts);
            if (t->margins != NULL) {
                starpu_vector_data_register(&handle[1], STARPU_MAIN_RAM, (uintptr_t)(t->margins + part->first + row),
                                            sl_split_size(&logits_of(a, q)->split, c), sizeof *t->margins);
            }
            SL_TRY(
                st,
                sl_score_submit(&head, logits_of(a, q)->chunk[c], part->sets, part->labels, row, handle[0], handle[1]),
                done);
        }
    }
done:
    return st;
}

/* Wait for the counts and the margins. */
static void finish_scores(struct tally *t)
{
    for (size_t i = 0; t->handles != NULL && i < 2 * (size_t)t->n_chunks; i++) {
        if (t->handles[i] != NULL) {
            starpu_data_unregister(t->handles[i]);
            t->handles[i] = NULL;
        }
    }
}

static enum sl_status set_area(const struct sl_shards *shards, const float *margins, uint8_t set, double *out)
{
    struct margin *list;
    size_t n = 0;
    enum sl_status st = sl_alloc(shards->n_vertices, sizeof *list, "margins of a set", &list);
    if (st != SL_OK) {
        return st;
    }
    for (uint32_t v = 0; v < shards->n_vertices; v++) {
        if (shards->set_of[v] == set && !isnan(margins[v])) {
            list[n++] = (struct margin){margins[v], shards->label_of[v] == 1};
        }
    }
    *out = area(list, n);
    sl_free(list);
    return SL_OK;
}

/* Sum of the cross entropies of a chunk's validation vertices, and their number. */
static double chunk_loss(const struct sl_full *a, uint32_t first, uint32_t n_rows, const sl_real *z, uint64_t *n)
{
    uint32_t n_classes = a->pass.shards->n_classes;
    double loss = 0;
    for (uint32_t i = 0; i < n_rows; i++, z += n_classes) {
        int32_t label = a->pass.shards->label_of[first + i];
        if (a->pass.shards->set_of[first + i] == SL_SET_VALID && (uint32_t)label < n_classes) {
            sl_real top = z[0];
            double sum = 0;
            for (uint32_t c = 1; c < n_classes; c++) {
                top = z[c] > top ? z[c] : top;
            }
            for (uint32_t c = 0; c < n_classes; c++) {
                sum += exp((double)z[c] - (double)top);
            }
            loss += log(sum) + (double)top - (double)z[label];
            ++*n;
        }
    }
    return loss;
}

static enum sl_status valid_loss(const struct sl_full *a, double *out)
{
    double loss = 0;
    uint64_t n = 0;
    for (uint32_t q = 0; q < a->pass.shards->n_parts; q++) {
        for (uint32_t c = 0; c < logits_of(a, q)->split.n_chunks; c++) {
            starpu_data_handle_t z = logits_of(a, q)->chunk[c];
            uint32_t first = a->pass.shards->part[q].first + (c << logits_of(a, q)->split.shift);
            if (starpu_data_acquire(z, STARPU_R) != 0) {
                return sl_fail(SL_ESTARPU, "StarPU refused to hand out the logits of part %u", q);
            }
            loss += chunk_loss(a, first, sl_split_size(&logits_of(a, q)->split, c), starpu_data_get_local_ptr(z), &n);
            starpu_data_release(z);
        }
    }
    *out = n > 0 ? loss / (double)n : NAN;
    return SL_OK;
}

static enum sl_status add_up(const struct sl_full *a, struct tally *t, struct sl_metrics_scores *out)
{
    uint32_t n_classes = a->pass.shards->n_classes;
    enum sl_status st = SL_OK;
    for (uint32_t c = 1; c < t->n_chunks; c++) {
        for (size_t k = 0; k < t->n_counts; k++) {
            t->counts[k] += t->counts[c * t->n_counts + k];
        }
    }
    struct sl_metrics_scores scores = {.valid_auc = NAN, .test_auc = NAN};
    rate(t->counts + (size_t)SL_SET_VALID * 3 * n_classes, n_classes, &scores.valid_acc, &scores.valid_f1);
    rate(t->counts + (size_t)SL_SET_TEST * 3 * n_classes, n_classes, &scores.test_acc, &scores.test_f1);
    if (t->margins != NULL) {
        SL_TRY(st, set_area(a->pass.shards, t->margins, SL_SET_VALID, &scores.valid_auc), done);
        SL_TRY(st, set_area(a->pass.shards, t->margins, SL_SET_TEST, &scores.test_auc), done);
    }
    *out = scores;
done:
    return st;
}

enum sl_status sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                           const struct sl_inference *wanted, struct sl_metrics_scores *scores_out)
{
    struct sl_full a;
    struct tally t = {0};
    uint32_t last = model->n_layers - 1;
    enum sl_status st;
    SL_TRY(st, sl_full_open(run, shards, model, &a), done);
    for (uint32_t i = 0; i <= last; i++) {
        SL_TRY(st, sl_full_layer(&a, i), done);
        SL_TRY(st, i + 1 == last && wanted->hidden != NULL ? copy_rows(&a, i, wanted->hidden) : SL_OK, done);
    }
    SL_TRY(st, open_tally(&a, &t), done);
    SL_TRY(st, submit_scores(&a, &t), done);
    SL_TRY(st, wanted->scores != NULL ? copy_rows(&a, last, wanted->scores) : SL_OK, done);
    finish_scores(&t);
    SL_TRY(st, sl_failure_status(&run->failure), done);
    SL_TRY(st, add_up(&a, &t, scores_out), done);
    SL_TRY(st, valid_loss(&a, &scores_out->valid_loss), done);
done:
    finish_scores(&t);
    sl_full_close(&a);
    sl_free(t.counts);
    sl_free(t.margins);
    sl_free(t.handles);
    return st;
}
