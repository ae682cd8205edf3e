/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Layer by layer: all chunks of a layer are submitted, then the rows they came from are dropped, once their readers are done. */
#include "runtime/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/activate.h"
#include "codelets/aggregate.h"
#include "codelets/batchnorm.h"
#include "codelets/score.h"
#include "support/memory.h"

#define CHUNK_SHIFT 11 /* 2048 rows */

/* One evaluation under way: rows of the level in hand, part by part. */
struct pass {
    struct sl_run *run;
    const struct sl_shards *shards;
    const struct sl_model *model;
    const struct sl_layer *layer; /* in hand */
    uint32_t i;
    struct sl_split *split;
    struct sl_rows *h;         /* G: the layer's input; empty where that is sparse features */
    struct sl_rows *projected; /* G */
    struct sl_rows *out;       /* G: the layer's output; of the last, the logits */
    starpu_data_handle_t statistics;
};

static struct sl_task_args head_of(const struct pass *a, uint32_t q)
{
    return (struct sl_task_args){.run = a->run, .pe = q, .hop = a->i, .stage = SL_STAGE_EVALUATE};
}

struct sl_split sl_evaluate_split(const struct sl_run *run, uint32_t n_parts, uint32_t n_rows)
{
    bool by_gpus = run->gpus_first && !run->evaluate_on_cpus;
    return sl_split_rows(n_rows, SL_MAX_FULL_CHUNKS / n_parts, by_gpus ? SL_EVALUATE_GPU_SHIFT : CHUNK_SHIFT);
}

static enum sl_status open_pass(struct pass *a)
{
    uint32_t n_parts = a->shards->n_parts;
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero(n_parts, sizeof *a->split, "chunks of the parts", &a->split), done);
    SL_TRY(st, sl_alloc_zero(n_parts, sizeof *a->h, "rows of the parts", &a->h), done);
    SL_TRY(st, sl_alloc_zero(n_parts, sizeof *a->projected, "rows of the parts", &a->projected), done);
    SL_TRY(st, sl_alloc_zero(n_parts, sizeof *a->out, "rows of the parts", &a->out), done);
    for (uint32_t q = 0; q < n_parts; q++) {
        a->split[q] = sl_evaluate_split(a->run, n_parts, a->shards->part[q].end - a->shards->part[q].first);
    }
done:
    return st;
}

static void drop_rows(struct sl_rows *rows, uint32_t n)
{
    for (uint32_t q = 0; rows != NULL && q < n; q++) {
        sl_rows_drop(&rows[q]);
    }
}

static void close_pass(struct pass *a)
{
    drop_rows(a->h, a->shards->n_parts);
    drop_rows(a->projected, a->shards->n_parts);
    drop_rows(a->out, a->shards->n_parts);
    sl_handle_drop(&a->statistics);
    sl_free(a->split);
    sl_free(a->h);
    sl_free(a->projected);
    sl_free(a->out);
}

/* The first layer reads the dense feature table where it is. */
static enum sl_status open_features(struct pass *a)
{
    enum sl_status st = SL_OK;
    for (uint32_t q = 0; !a->shards->is_sparse && q < a->shards->n_parts; q++) {
        sl_real *table = a->shards->table + (size_t)a->shards->part[q].first * a->shards->n_features;
        SL_TRY(st, sl_rows_register_over(&a->split[q], a->shards->n_features, table, &a->h[q]), done);
    }
done:
    return st;
}

/* z of chunk c = h W (+ bias), or z += h W. */
static enum sl_status multiply(const struct pass *a, uint32_t q, uint32_t c, int parameter, starpu_data_handle_t b,
                               int beta, starpu_data_handle_t z)
{
    struct sl_task_args head = head_of(a, q);
    starpu_data_handle_t w = a->layer->parameter[parameter].value_handle;
    if (a->i == 0 && a->shards->is_sparse) {
        struct sl_sparse x = a->shards->part[q].sparse;
        x.frontier = a->shards->ids;
        return sl_dense_sparse_forward_submit(&head, &x, x.first + (c << a->split[q].shift), 0, 0, w, b, beta, z);
    }
    return sl_dense_forward_submit(&head, a->h[q].chunk[c], 0, w, b, beta, z);
}

static enum sl_status project(struct pass *a)
{
    enum sl_status st = SL_OK;
    for (uint32_t q = 0; a->layer->project_first && q < a->shards->n_parts; q++) {
        SL_TRY(st, sl_rows_register(&a->split[q], a->layer->n_out, sizeof(sl_real), &a->projected[q]), done);
        for (uint32_t c = 0; c < a->split[q].n_chunks; c++) {
            SL_TRY(st, multiply(a, q, c, SL_NEIGH, NULL, 0, a->projected[q].chunk[c]), done);
        }
    }
done:
    return st;
}

static enum sl_status aggregate(const struct pass *a, uint32_t q, uint32_t c, int beta, starpu_data_handle_t m)
{
    const struct sl_shard *part = &a->shards->part[q];
    const uint64_t *offsets = a->shards->partition->graph.offsets + part->first;
    uint32_t row = c << a->split[q].shift;
    struct sl_task_args head = head_of(a, q);
    struct sl_full_sources sources = {.offsets = part->graph.offsets,
                                      .sources = part->graph.sources,
                                      .first = a->shards->first,
                                      .n_parts = a->shards->n_parts,
                                      .rows = a->layer->project_first ? a->projected : a->h,
                                      .n_edges = offsets[row + sl_split_size(&a->split[q], c)] - offsets[row]};
    return sl_aggregate_full_submit(&head, &sources, row, beta, m);
}

/* z of one chunk. Products have the higher priority: where they follow the aggregation, a chunk is done before the next one's
 * mean takes memory. */
static enum sl_status combine(const struct pass *a, uint32_t q, uint32_t c, starpu_data_handle_t z)
{
    starpu_data_handle_t mean = NULL;
    starpu_data_handle_t bias = a->layer->parameter[SL_BIAS].value_handle;
    starpu_data_handle_t w = a->layer->parameter[SL_NEIGH].value_handle;
    struct sl_task_args head = head_of(a, q);
    enum sl_status st;
    if (a->layer->project_first) {
        SL_TRY(st, multiply(a, q, c, SL_SELF, bias, 0, z), done);
        SL_TRY(st, aggregate(a, q, c, 1, z), done);
    } else {
        SL_TRY(st, sl_matrix_register(sl_split_size(&a->split[q], c), a->layer->n_in, sizeof(sl_real), &mean), done);
        SL_TRY(st, aggregate(a, q, c, 0, mean), done);
        SL_TRY(st, sl_dense_forward_submit(&head, mean, 0, w, bias, 0, z), done);
        SL_TRY(st, multiply(a, q, c, SL_SELF, NULL, 1, z), done);
    }
done:
    sl_handle_drop(&mean);
    return st;
}

static enum sl_status fix_statistics(struct pass *a)
{
    struct sl_task_args head = head_of(a, 0);
    enum sl_status st;
    SL_TRY(st, sl_matrix_register(2, a->layer->n_out, sizeof(sl_real), &a->statistics), done);
    SL_TRY(st, sl_batchnorm_fixed_submit(&head, a->layer->running_handle, a->statistics), done);
done:
    return st;
}

/* What activate needs to know of the layer; nothing is dropped. */
static struct sl_activate_layer activation(const struct pass *a)
{
    static const enum sl_activate_norm norms[] = {
        [SL_NORM_NONE] = SL_ACTIVATE_PLAIN, [SL_NORM_LAYER] = SL_ACTIVATE_LAYER, [SL_NORM_BATCH] = SL_ACTIVATE_BATCH};
    struct sl_activate_layer layer = {.norm = norms[a->model->norm], .statistics = a->statistics};
    layer.weight = a->layer->parameter[SL_NORM_WEIGHT].value_handle;
    layer.bias = a->layer->parameter[SL_NORM_BIAS].value_handle;
    return layer;
}

/* h of one chunk, by way of its z, which nothing else needs. */
static enum sl_status activate(const struct pass *a, uint32_t q, uint32_t c, starpu_data_handle_t h)
{
    starpu_data_handle_t z = NULL;
    starpu_data_handle_t gate = NULL;
    struct sl_task_args head = head_of(a, q);
    struct sl_activate_layer layer = activation(a);
    uint32_t n_rows = sl_split_size(&a->split[q], c);
    starpu_data_handle_t residual = a->layer->residual ? a->h[q].chunk[c] : NULL;
    enum sl_status st;
    SL_TRY(st, sl_matrix_register(n_rows, a->layer->n_out, sizeof(sl_real), &z), done);
    SL_TRY(st, sl_matrix_register(n_rows, a->layer->n_out, 1, &gate), done);
    SL_TRY(st, combine(a, q, c, z), done);
    SL_TRY(st, sl_activate_forward_submit(&head, &layer, c << a->split[q].shift, z, residual, 0, gate, h), done);
done:
    sl_handle_drop(&z);
    sl_handle_drop(&gate);
    return st;
}

/* One layer, from h to h. */
static enum sl_status layer_forward(struct pass *a)
{
    enum sl_status st;
    SL_TRY(st, project(a), done);
    SL_TRY(st, a->layer->running != NULL ? fix_statistics(a) : SL_OK, done);
    for (uint32_t q = 0; q < a->shards->n_parts; q++) {
        struct sl_rows *out = &a->out[q];
        SL_TRY(st, sl_rows_register(&a->split[q], a->layer->n_out, sizeof(sl_real), out), done);
        for (uint32_t c = 0; c < a->split[q].n_chunks; c++) {
            SL_TRY(st, a->layer->hidden ? activate(a, q, c, out->chunk[c]) : combine(a, q, c, out->chunk[c]), done);
        }
    }
    drop_rows(a->projected, a->shards->n_parts);
    drop_rows(a->h, a->shards->n_parts);
    struct sl_rows *spent = a->h;
    a->h = a->out;
    a->out = spent;
    sl_handle_drop(&a->statistics);
done:
    return st;
}

/* Copy rows of all parts to `out`, N x n_columns by renumbered id. */
static enum sl_status copy_rows(const struct pass *a, const struct sl_rows *rows, sl_real *out)
{
    for (uint32_t q = 0; q < a->shards->n_parts; q++) {
        for (uint32_t c = 0; c < rows[q].split.n_chunks; c++) {
            size_t first = a->shards->part[q].first + ((size_t)c << rows[q].split.shift);
            size_t n = (size_t)sl_split_size(&rows[q].split, c) * rows[q].n_columns;
            if (starpu_data_acquire(rows[q].chunk[c], STARPU_R) != 0) {
                return sl_fail(SL_ESTARPU, "StarPU refused to hand out the rows of part %u", q);
            }
            memcpy(out + first * rows[q].n_columns, starpu_data_get_local_ptr(rows[q].chunk[c]), n * sizeof *out);
            starpu_data_release(rows[q].chunk[c]);
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

/* What the scoring tasks of all chunks write. */
struct tally {
    uint32_t n_chunks;
    size_t n_counts;               /* of one chunk */
    uint64_t *counts;              /* n_chunks x n_counts */
    float *margins;                /* N, two classes only */
    starpu_data_handle_t *handles; /* counts, then margins, of each chunk */
};

static enum sl_status open_tally(const struct pass *a, struct tally *t)
{
    enum sl_status st;
    for (uint32_t q = 0; q < a->shards->n_parts; q++) {
        t->n_chunks += a->split[q].n_chunks;
    }
    t->n_counts = (size_t)SL_N_SETS * 3 * a->shards->n_classes;
    SL_TRY(st, sl_alloc(t->n_chunks * t->n_counts, sizeof *t->counts, "score counts", &t->counts), done);
    SL_TRY(st, sl_alloc_zero(2 * (size_t)t->n_chunks, sizeof *t->handles, "score handles", &t->handles), done);
    if (a->shards->n_classes == 2) {
        SL_TRY(st, sl_alloc(a->shards->n_vertices, sizeof *t->margins, "margins", &t->margins), done);
    }
done:
    return st;
}

static enum sl_status submit_scores(const struct pass *a, struct tally *t)
{
    enum sl_status st = SL_OK;
    uint32_t n = 0;
    for (uint32_t q = 0; q < a->shards->n_parts; q++) {
        const struct sl_shard *part = &a->shards->part[q];
        struct sl_task_args head = head_of(a, q);
        for (uint32_t c = 0; c < a->split[q].n_chunks; c++, n++) {
            uint32_t row = c << a->split[q].shift;
            starpu_data_handle_t *handle = &t->handles[2 * (size_t)n];
            starpu_vector_data_register(&handle[0], STARPU_MAIN_RAM, (uintptr_t)(t->counts + n * t->n_counts),
                                        (uint32_t)t->n_counts, sizeof *t->counts);
            if (t->margins != NULL) {
                starpu_vector_data_register(&handle[1], STARPU_MAIN_RAM, (uintptr_t)(t->margins + part->first + row),
                                            sl_split_size(&a->split[q], c), sizeof *t->margins);
            }
            SL_TRY(st, sl_score_submit(&head, a->h[q].chunk[c], part->sets, part->labels, row, handle[0], handle[1]),
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
static double chunk_loss(const struct pass *a, uint32_t first, uint32_t n_rows, const sl_real *z, uint64_t *n)
{
    uint32_t n_classes = a->shards->n_classes;
    double loss = 0;
    for (uint32_t i = 0; i < n_rows; i++, z += n_classes) {
        int32_t label = a->shards->label_of[first + i];
        if (a->shards->set_of[first + i] == SL_SET_VALID && (uint32_t)label < n_classes) {
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

static enum sl_status valid_loss(const struct pass *a, double *out)
{
    double loss = 0;
    uint64_t n = 0;
    for (uint32_t q = 0; q < a->shards->n_parts; q++) {
        for (uint32_t c = 0; c < a->split[q].n_chunks; c++) {
            starpu_data_handle_t z = a->h[q].chunk[c];
            uint32_t first = a->shards->part[q].first + (c << a->split[q].shift);
            if (starpu_data_acquire(z, STARPU_R) != 0) {
                return sl_fail(SL_ESTARPU, "StarPU refused to hand out the logits of part %u", q);
            }
            loss += chunk_loss(a, first, sl_split_size(&a->split[q], c), starpu_data_get_local_ptr(z), &n);
            starpu_data_release(z);
        }
    }
    *out = n > 0 ? loss / (double)n : NAN;
    return SL_OK;
}

static enum sl_status add_up(const struct pass *a, struct tally *t, struct sl_metrics_scores *out)
{
    uint32_t n_classes = a->shards->n_classes;
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
        SL_TRY(st, set_area(a->shards, t->margins, SL_SET_VALID, &scores.valid_auc), done);
        SL_TRY(st, set_area(a->shards, t->margins, SL_SET_TEST, &scores.test_auc), done);
    }
    *out = scores;
done:
    return st;
}

enum sl_status sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                           const struct sl_inference *wanted, struct sl_metrics_scores *scores_out)
{
    struct pass a = {.run = run, .shards = shards, .model = model, .layer = &model->layer[0]};
    struct tally t = {0};
    enum sl_status st;
    SL_TRY(st, open_pass(&a), done);
    SL_TRY(st, open_tally(&a, &t), done);
    SL_TRY(st, open_features(&a), done);
    for (a.i = 0; a.i < model->n_layers; a.i++) {
        a.layer = &model->layer[a.i];
        SL_TRY(st, layer_forward(&a), done);
        if (a.i + 2 == model->n_layers && wanted->hidden != NULL) {
            SL_TRY(st, copy_rows(&a, a.h, wanted->hidden), done);
        }
    }
    SL_TRY(st, submit_scores(&a, &t), done);
    SL_TRY(st, wanted->scores != NULL ? copy_rows(&a, a.h, wanted->scores) : SL_OK, done);
    finish_scores(&t);
    SL_TRY(st, sl_failure_status(&run->failure), done);
    SL_TRY(st, add_up(&a, &t, scores_out), done);
    SL_TRY(st, valid_loss(&a, &scores_out->valid_loss), done);
done:
    finish_scores(&t);
    close_pass(&a);
    sl_free(t.counts);
    sl_free(t.margins);
    sl_free(t.handles);
    return st;
}
