/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Runs a pass over all in-edges and scores the logits. */
#include "runtime/full/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/score.h"
#include "runtime/full/full.h"
#include "runtime/full/halo.h"
#include "runtime/machine/pool.h"
#include "support/memory.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

struct sl_evaluated sl_evaluated_here(const struct sl_shards *shards)
{
    const uint32_t *first = shards->partition->first;
    uint32_t begin = 0;
    uint32_t end = shards->n_vertices;
    if (shards->halo != NULL) {
        begin = first[sl_halo_begin(shards->halo)];
        end = first[sl_halo_end(shards->halo)];
    }
    return (struct sl_evaluated){.first = begin, .n = end - begin};
}

/* Copy layer i's output of this rank's parts to `out`, row-major, in ascending order of renumbered ids. */
static enum sl_status copy_rows(const struct sl_full *a, uint32_t i, sl_real *out)
{
    sl_vertex start = sl_evaluated_here(a->pass.shards).first;
    enum sl_status st = SL_OK;
    for (uint32_t q = a->plan.first_pe; q < a->plan.end_pe; q++) {
        const struct sl_rows *rows = sl_full_rows(a, i, q);
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            size_t first = a->pass.shards->part[q].first - start + ((size_t)c << rows->split.shift);
            size_t n = (size_t)sl_split_size(&rows->split, c) * rows->n_columns;
            SL_TRY(st, sl_chunk_acquire(&a->pass.run->failure, rows->chunk[c], STARPU_R), done);
            const void *from = starpu_data_get_local_ptr(rows->chunk[c]);
            if (sl_handle_is_bf16(rows->chunk[c])) {
                sl_bf16_widen(n, from, out + first * rows->n_columns);
            } else {
                memcpy(out + first * rows->n_columns, from, n * sizeof *out);
            }
            starpu_data_release(rows->chunk[c]);
        }
    }
done:
    return st;
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

/* Area under the ROC curve: the probability that a vertex of class 1 has a larger margin than a vertex of class 0.
 * Sorts the margins. */
static double area(struct margin *margins, size_t n)
{
    double n_positive = 0;
    double below = 0; /* pairs in the right order; ties count half */
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

/* Accuracy and macro F1 of one set. counts: C x (right answers, vertices of the class, answers with the class). */
static void rate(const double *counts, uint32_t n_classes, double *accuracy_out, double *f1_out)
{
    double right = 0;
    double total = 0;
    double f1 = 0;
    double n_seen = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        double hits = counts[3 * c];
        double seen = counts[3 * c + 1] + counts[3 * c + 2];
        right += hits;
        total += counts[3 * c + 1];
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

/* The output of all scoring tasks. */
struct tally {
    uint32_t n_chunks;
    /* Counts of one chunk. */
    size_t n_counts;
    /* [n_chunks x n_counts]. */
    uint64_t *counts;
    /* Id of the first margin. */
    sl_vertex first;
    /* Margins of this rank's vertices. NULL unless the dataset has two classes. */
    float *margins;
    /* Per chunk: counts, then margins. */
    starpu_data_handle_t *handles;
};

static enum sl_status open_tally(const struct sl_full *a, struct tally *t)
{
    struct sl_evaluated here = sl_evaluated_here(a->pass.shards);
    enum sl_status st;
    for (uint32_t q = a->plan.first_pe; q < a->plan.end_pe; q++) {
        t->n_chunks += logits_of(a, q)->split.n_chunks;
    }
    t->first = here.first;
    t->n_counts = (size_t)SL_N_SETS * 3 * a->pass.shards->n_classes;
    SL_TRY(st, sl_alloc(t->n_chunks * t->n_counts, sizeof *t->counts, "score counts", &t->counts), done);
    SL_TRY(st, sl_alloc_zero(2 * (size_t)t->n_chunks, sizeof *t->handles, "score handles", &t->handles), done);
    if (a->pass.shards->n_classes == 2) {
        SL_TRY(st, sl_alloc(here.n, sizeof *t->margins, "margins", &t->margins), done);
    }
done:
    return st;
}

static enum sl_status submit_scores(const struct sl_full *a, struct tally *t)
{
    enum sl_status st = SL_OK;
    uint32_t n = 0;
    for (uint32_t q = a->plan.first_pe; q < a->plan.end_pe; q++) {
        const struct sl_shard *part = &a->pass.shards->part[q];
        struct sl_task_args head = {.run = a->pass.run, .pe = q, .stage = SL_STAGE_EVALUATE};
        for (uint32_t c = 0; c < logits_of(a, q)->split.n_chunks; c++, n++) {
            uint32_t row = c << logits_of(a, q)->split.shift;
            starpu_data_handle_t *handle = &t->handles[2 * (size_t)n];
            starpu_vector_data_register(&handle[0], STARPU_MAIN_RAM, (uintptr_t)(t->counts + n * t->n_counts),
                                        (uint32_t)t->n_counts, sizeof *t->counts);
            if (t->margins != NULL) {
                starpu_vector_data_register(&handle[1], STARPU_MAIN_RAM,
                                            (uintptr_t)(t->margins + (part->first - t->first) + row),
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

/* Wait for the scoring tasks. */
static void finish_scores(struct tally *t)
{
    if (t->handles != NULL) {
        for (size_t i = 0; i < 2 * (size_t)t->n_chunks; i++) {
            if (t->handles[i] != NULL) {
                starpu_data_unregister(t->handles[i]);
                t->handles[i] = NULL;
            }
        }
    }
}

/* Gather the margins of all ranks at rank 0, in ascending order of ids. */
static enum sl_status gather_margins(const struct margin *mine, size_t n, struct margin **all, size_t *n_out)
{
    size_t bytes = n * sizeof *mine;
    size_t each[SL_MAX_PES];
    size_t bytes_of[SL_MAX_PES] = {0};
    enum sl_status st;
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        each[r] = sizeof bytes;
    }
    SL_TRY(st, sl_ranks_gather(&bytes, sizeof bytes, each, bytes_of), done);
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        *n_out += bytes_of[r] / sizeof *mine;
    }
    SL_TRY(st, sl_alloc(*n_out, sizeof **all, "margins of all ranks", all), done);
    st = sl_ranks_gather(mine, bytes, bytes_of, *all);
done:
    return st;
}

static enum sl_status set_area(const struct sl_shards *shards, const struct tally *t, uint8_t set, double *out)
{
    struct sl_evaluated here = sl_evaluated_here(shards);
    struct margin *mine = NULL;
    struct margin *all = NULL;
    size_t n = 0;
    size_t n_all = 0;
    enum sl_status st;
    SL_TRY(st, sl_alloc(here.n, sizeof *mine, "margins of a set", &mine), done);
    for (uint32_t i = 0; i < here.n; i++) {
        sl_vertex v = here.first + i;
        if (shards->set_of[v] == set && !isnan(t->margins[i])) {
            mine[n++] = (struct margin){t->margins[i], shards->label_of[v] == 1};
        }
    }
    SL_TRY(st, gather_margins(mine, n, &all, &n_all), done);
    *out = area(all, n_all);
done:
    sl_free(mine);
    sl_free(all);
    return st;
}

/* Summed cross entropy of a chunk's validation vertices, and their number. */
struct chunk_loss {
    double sum, n;
};

static struct chunk_loss chunk_loss(const struct sl_full *a, uint32_t first, uint32_t n_rows, const sl_real *z)
{
    uint32_t n_classes = a->pass.shards->n_classes;
    struct chunk_loss loss = {0};
    for (uint32_t i = 0; i < n_rows; i++, z += n_classes) {
        int32_t label = a->pass.shards->label_of[first + i];
        if (a->pass.shards->set_of[first + i] == SL_SET_VALID && (uint32_t)label < n_classes) {
            sl_real top = z[0];
            double sum = 0;
            for (uint32_t c = 1; c < n_classes; c++) {
                if (z[c] > top) {
                    top = z[c];
                }
            }
            for (uint32_t c = 0; c < n_classes; c++) {
                sum += exp((double)z[c] - (double)top);
            }
            loss.sum += log(sum) + (double)top - (double)z[label];
            loss.n++;
        }
    }
    return loss;
}

/* The loss of each chunk of this rank. */
static enum sl_status find_losses(const struct sl_full *a, struct chunk_loss *out)
{
    enum sl_status st = SL_OK;
    for (uint32_t q = a->plan.first_pe; q < a->plan.end_pe; q++) {
        for (uint32_t c = 0; c < logits_of(a, q)->split.n_chunks; c++) {
            starpu_data_handle_t z = logits_of(a, q)->chunk[c];
            uint32_t first = a->pass.shards->part[q].first + (c << logits_of(a, q)->split.shift);
            SL_TRY(st, sl_chunk_acquire(&a->pass.run->failure, z, STARPU_R), done);
            *out++ = chunk_loss(a, first, sl_split_size(&logits_of(a, q)->split, c), starpu_data_get_local_ptr(z));
            starpu_data_release(z);
        }
    }
done:
    return st;
}

/* Number of chunks in the parts before `end`, on all ranks. */
static uint32_t chunks_before(const struct sl_full *a, uint32_t end)
{
    const struct sl_shards *shards = a->pass.shards;
    uint32_t n = 0;
    for (uint32_t q = 0; q < end; q++) {
        n += sl_evaluate_split(a->pass.run, shards->n_parts, shards->part[q].end - shards->part[q].first).n_chunks;
    }
    return n;
}

/* Gather counts and losses at rank 0. Losses stay separate by chunk and are added in the order of chunks, so the sum
 * does not depend on the number of ranks. */
static enum sl_status add_up(const struct sl_full *a, const struct tally *t, struct sl_metrics_scores *out)
{
    uint32_t n_classes = a->pass.shards->n_classes;
    uint32_t n_chunks = chunks_before(a, a->plan.n_parts);
    size_t n_numbers = t->n_counts + 2 * (size_t)n_chunks;
    double *counts;
    struct chunk_loss all = {0};
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero(n_numbers, sizeof *counts, "scores", &counts), done);
    struct chunk_loss *loss = (struct chunk_loss *)(counts + t->n_counts);
    for (uint32_t c = 0; c < t->n_chunks; c++) {
        for (size_t k = 0; k < t->n_counts; k++) {
            counts[k] += (double)t->counts[c * t->n_counts + k];
        }
    }
    SL_TRY(st, find_losses(a, loss + chunks_before(a, a->plan.first_pe)), free_counts);
    if (a->pass.shards->halo != NULL) {
        sl_ranks_drain();
    }
    SL_TRY(st, sl_ranks_sum((uint32_t)n_numbers, counts), free_counts);
    for (uint32_t c = 0; c < n_chunks; c++) {
        all.sum += loss[c].sum;
        all.n += loss[c].n;
    }
    *out =
        (struct sl_metrics_scores){.valid_loss = all.n > 0 ? all.sum / all.n : NAN, .valid_auc = NAN, .test_auc = NAN};
    rate(counts + (size_t)SL_SET_VALID * 3 * n_classes, n_classes, &out->valid_acc, &out->valid_f1);
    rate(counts + (size_t)SL_SET_TEST * 3 * n_classes, n_classes, &out->test_acc, &out->test_f1);
free_counts:
    sl_free(counts);
done:
    return st;
}

/* AUC, for two classes. */
static enum sl_status find_areas(const struct sl_full *a, const struct tally *t, struct sl_metrics_scores *out)
{
    enum sl_status st;
    SL_TRY(st, set_area(a->pass.shards, t, SL_SET_VALID, &out->valid_auc), done);
    st = set_area(a->pass.shards, t, SL_SET_TEST, &out->test_auc);
done:
    return st;
}

/* The host has overwritten the edges' sources in main memory. An acquisition for writing invalidates the GPUs'
 * copies. */
static enum sl_status invalidate_copies(const struct sl_shards *shards)
{
    enum sl_status st = SL_OK;
    for (uint32_t q = sl_halo_begin(shards->halo); q < sl_halo_end(shards->halo); q++) {
        starpu_data_handle_t sources = shards->part[q].graph.sources;
        SL_TRY(st, sl_handle_acquire(sources, STARPU_MAIN_RAM, STARPU_RW), done);
        starpu_data_release_on_node(sources, STARPU_MAIN_RAM);
    }
done:
    return st;
}

/* Prepare the halo for a pass. No task may be running. */
static enum sl_status enter(const struct sl_shards *shards)
{
    if (shards->halo == NULL) {
        return SL_OK;
    }
    /* Save memory: a layer frees blocks of sizes that the next layer cannot use, so the pool should not keep freed
     * blocks. */
    sl_pool_keep(false);
    sl_halo_enter(shards->halo, &shards->partition->graph);
    return invalidate_copies(shards);
}

static enum sl_status leave(const struct sl_shards *shards)
{
    if (shards->halo == NULL) {
        return SL_OK;
    }
    starpu_task_wait_for_all();
    sl_pool_keep(true);
    sl_halo_leave(shards->halo, &shards->partition->graph);
    return invalidate_copies(shards);
}

enum sl_status sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                           const struct sl_inference *wanted, struct sl_metrics_scores *scores_out)
{
    struct sl_full a = {0};
    struct tally t = {0};
    uint32_t last = model->n_layers - 1;
    enum sl_status st;
    SL_TRY(st, enter(shards), done);
    SL_TRY(st, sl_full_open(run, shards, model, &a), done);
    for (uint32_t i = 0; i <= last; i++) {
        SL_TRY(st, sl_full_layer(&a, i), done);
        if (i + 1 == last && wanted->hidden != NULL) {
            SL_TRY(st, copy_rows(&a, i, wanted->hidden), done);
        }
    }
    SL_TRY(st, open_tally(&a, &t), done);
    SL_TRY(st, submit_scores(&a, &t), done);
    if (wanted->scores != NULL) {
        SL_TRY(st, copy_rows(&a, last, wanted->scores), done);
    }
    finish_scores(&t);
    SL_TRY(st, sl_failure_status(&run->failure), done);
    SL_TRY(st, add_up(&a, &t, scores_out), done);
    if (t.margins != NULL) {
        SL_TRY(st, find_areas(&a, &t, scores_out), done);
    }
    st = sl_ranks_broadcast(scores_out, sizeof *scores_out);
done:
    finish_scores(&t);
    sl_full_close(&a);
    sl_free(t.counts);
    sl_free(t.margins);
    sl_free(t.handles);
    enum sl_status left = leave(shards);
    return st == SL_OK ? left : st;
}
