/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One class a vertex: softmax cross entropy; accuracy, macro F1, and for two classes the AUC. */
#include "runtime/objective/collect.h"

#include <math.h>
#include <string.h>

#include "codelets/ends/loss.h"
#include "codelets/ends/score.h"
#include "support/exact.h"
#include "support/memory.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

/* ---- the data ---- */

static void count_classes(const struct sl_dataset *dataset, double *counts)
{
    for (uint32_t i = 0; i < dataset->train.n; i++) {
        counts[dataset->targets.classes[dataset->train.ids[i]]]++;
    }
}

/* As scikit-learn's "balanced": n / (number of classes with a training vertex x vertices of the class). */
static enum sl_status balance(const double *counts, uint32_t n_classes, uint32_t n_train, float **out)
{
    uint32_t n_seen = 0;
    SL_CHECK(sl_alloc_zero(n_classes, sizeof **out, "class weights", out));
    for (uint32_t c = 0; c < n_classes; c++) {
        n_seen += counts[c] > 0;
    }
    for (uint32_t c = 0; c < n_classes; c++) {
        (*out)[c] = counts[c] > 0 ? (float)(n_train / (n_seen * counts[c])) : 0;
    }
    return SL_OK;
}

static enum sl_status weigh(const struct sl_settings *s, const struct sl_dataset *dataset, const double *counts,
                            struct sl_objective *out)
{
    if (s->class_weights == NULL) {
        return SL_OK;
    }
    if (strcmp(s->class_weights, SL_WEIGHTS_BALANCED) == 0) {
        SL_CHECK(balance(counts, out->n_outputs, dataset->train.n, &out->weights));
    } else {
        SL_CHECK(sl_objective_read_weights(s->class_weights, out->n_outputs, &out->weights));
    }
    SL_CHECK(sl_alloc_zero(out->n_rows, sizeof *out->mass, "weights of the vertices", &out->mass));
    for (uint32_t i = 0; i < dataset->train.n; i++) {
        sl_vertex v = dataset->train.ids[i];
        out->mass[v] = out->weights[dataset->targets.classes[v]];
    }
    return SL_OK;
}

static double weight_of(const struct sl_objective *o, uint32_t c)
{
    return o->weights != NULL ? (double)o->weights[c] : 1;
}

/* The loss of the best constant answer, in nats: without weights the entropy of the (smoothed) classes. Class c has the
 * share t_c of the loss. With weights and smoothing together the shares do not add up to 1. */
static double entropy_of(const struct sl_objective *o, const double *counts)
{
    double n = 0;
    double mass = 0;
    double total = 0;
    double sum = 0;
    for (uint32_t c = 0; c < o->n_outputs; c++) {
        n += counts[c];
        mass += counts[c] * weight_of(o, c);
    }
    for (uint32_t c = 0; c < o->n_outputs && mass > 0; c++) {
        double t = weight_of(o, c) * ((1 - o->smoothing) * counts[c] + o->smoothing / o->n_outputs * n) / mass;
        total += t;
        sum -= t > 0 ? t * log(t) : 0;
    }
    return total > 0 ? sum + total * log(total) : 0;
}

static enum sl_status count_empty(const struct sl_targets *targets, struct sl_objective *out)
{
    SL_FREED bool *seen = NULL;
    SL_CHECK(sl_alloc_zero(targets->n_classes, sizeof *seen, "classes", &seen));
    for (uint32_t v = 0; v < targets->n_rows; v++) {
        if (targets->classes[v] >= 0) {
            seen[targets->classes[v]] = true;
        }
    }
    for (uint32_t c = 0; c < targets->n_classes; c++) {
        if (!seen[c] && out->n_empty++ == 0) {
            out->first_empty = c;
        }
    }
    return SL_OK;
}

static enum sl_status open_classes(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                   struct sl_objective *out)
{
    SL_FREED double *counts = NULL;
    SL_FAIL_IF(dataset->targets.type != SL_TARGET_CLASS, SL_EINVAL,
               "--objective: found class, expected targets that are a single column of classes; %s has %u "
               "columns of numbers",
               dataset->name, dataset->targets.width);
    out->row_loss = SL_ROW_SOFTMAX;
    out->n_outputs = dataset->targets.n_classes;
    SL_CHECK(sl_alloc_zero(out->n_outputs, sizeof *counts, "classes", &counts));
    count_classes(dataset, counts);
    SL_CHECK(weigh(settings, dataset, counts, out));
    out->guess = entropy_of(out, counts);
    return count_empty(&dataset->targets, out);
}

/* ---- scores ---- */

static const struct sl_score_kind kinds[] = {
    {"acc", true, true, false}, {"f1", true, true, false}, {"auc", true, true, true}, {0}};

/* Accuracy and macro F1 of one set. counts: C x (right answers, vertices of the class, answers with the class). */
static void rate(const double *counts, uint32_t n_classes, double *accuracy_out, double *f1_out)
{
    double right = 0;
    double total = 0;
    double f1 = 0;
    double n_seen = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        double hits = counts[SL_N_COUNTS * c + SL_COUNT_RIGHT];
        double of_class = counts[SL_N_COUNTS * c + SL_COUNT_OF_CLASS];
        double seen = of_class + counts[SL_N_COUNTS * c + SL_COUNT_ANSWERS];
        right += hits;
        total += of_class;
        f1 += seen > 0 ? 2 * hits / seen : 0;
        n_seen += seen > 0;
    }
    *accuracy_out = total > 0 ? right / total : NAN;
    *f1_out = total > 0 ? f1 / n_seen : NAN;
}

/* The output of all scoring tasks. */
struct tally {
    /* Counts of one chunk. */
    size_t n_counts;
    /* [n_chunks x n_counts]. */
    uint64_t *counts;
    /* Margins of this rank's vertices, chunk after chunk. NULL unless the dataset has two classes. */
    float *margins;
    /* Per chunk: counts, then margins. */
    starpu_data_handle_t *handles;
    uint32_t n_chunks;
};

static enum sl_status open_tally(const struct sl_outputs *outputs, struct tally *t)
{
    uint32_t n_classes = outputs->shards->n_outputs;
    size_t n_rows = 0;
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        n_rows += outputs->chunk[k].n;
    }
    *t = (struct tally){.n_counts = (size_t)SL_N_SETS * SL_N_COUNTS * n_classes, .n_chunks = outputs->n_chunks};
    SL_CHECK(sl_alloc(t->n_chunks * t->n_counts, sizeof *t->counts, "score counts", &t->counts));
    SL_CHECK(sl_alloc_zero(2 * (size_t)t->n_chunks, sizeof *t->handles, "score handles", &t->handles));
    if (n_classes == 2) {
        SL_CHECK(sl_alloc(n_rows, sizeof *t->margins, "margins", &t->margins));
    }
    return SL_OK;
}

static enum sl_status submit_counts(const struct sl_outputs *outputs, struct tally *t)
{
    size_t row = 0;
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        const struct sl_output_chunk *chunk = &outputs->chunk[k];
        const struct sl_shard *part = &outputs->shards->part[chunk->part];
        struct sl_task_args head = {.run = outputs->run, .pe = chunk->part, .stage = SL_STAGE_EVALUATE};
        starpu_data_handle_t *handle = &t->handles[2 * (size_t)k];
        starpu_vector_data_register(&handle[0], STARPU_MAIN_RAM, (uintptr_t)(t->counts + k * t->n_counts),
                                    (uint32_t)t->n_counts, sizeof *t->counts);
        if (t->margins != NULL) {
            starpu_vector_data_register(&handle[1], STARPU_MAIN_RAM, (uintptr_t)(t->margins + row), chunk->n,
                                        sizeof *t->margins);
        }
        SL_CHECK(sl_score_submit(&head, chunk->z, part->sets, part->targets, chunk->row, handle[0], handle[1]));
        row += chunk->n;
    }
    return SL_OK;
}

/* Wait for the scoring tasks. */
static void finish_counts(struct tally *t)
{
    for (size_t i = 0; t->handles != NULL && i < 2 * (size_t)t->n_chunks; i++) {
        if (t->handles[i] != NULL) {
            starpu_data_unregister(t->handles[i]);
            t->handles[i] = NULL;
        }
    }
}

static void close_tally(struct tally *t)
{
    finish_counts(t);
    sl_free(t->counts);
    sl_free(t->margins);
    sl_free(t->handles);
}

/* The area of one set, at rank 0. */
static enum sl_status set_area(const struct sl_outputs *outputs, const struct tally *t, uint8_t set, double *out)
{
    const struct sl_shards *shards = outputs->shards;
    SL_FREED struct sl_pair *mine = NULL;
    SL_FREED struct sl_pair *all = NULL;
    size_t n_all = 0;
    size_t n = 0;
    size_t row = 0;
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        n += outputs->chunk[k].n;
    }
    SL_CHECK(sl_alloc(n, sizeof *mine, "margins of a set", &mine));
    n = 0;
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        sl_vertex first = shards->part[outputs->chunk[k].part].first + outputs->chunk[k].row;
        for (uint32_t i = 0; i < outputs->chunk[k].n; i++, row++) {
            if (shards->set_of[first + i] == set) {
                mine[n++] = (struct sl_pair){(sl_real)t->margins[row], shards->targets.classes[first + i] == 1};
            }
        }
    }
    SL_CHECK(sl_pairs_gather(mine, n, &all, &n_all));
    *out = sl_pairs_area(all, n_all);
    return SL_OK;
}

/* Summed cross entropy of a chunk's validation vertices, and their number. */
struct chunk_loss {
    struct sl_exact sum;
    double n;
};

#define LOSS_NUMBERS (sizeof(struct chunk_loss) / sizeof(double))

static struct chunk_loss chunk_loss(const struct sl_shards *shards, sl_vertex first, uint32_t n_rows, const sl_real *z)
{
    uint32_t n_classes = shards->n_outputs;
    struct chunk_loss loss = {0};
    for (uint32_t i = 0; i < n_rows; i++, z += n_classes) {
        int32_t label = shards->targets.classes[first + i];
        if (shards->set_of[first + i] == SL_SET_VALID && (uint32_t)label < n_classes) {
            sl_exact_add(&loss.sum, sl_loss_of_row(n_classes, z, (uint32_t)label));
            loss.n++;
        }
    }
    return loss;
}

/* The loss of each chunk of this rank. */
static enum sl_status find_losses(const struct sl_outputs *outputs, struct chunk_loss *out)
{
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        const struct sl_output_chunk *chunk = &outputs->chunk[k];
        sl_vertex first = outputs->shards->part[chunk->part].first + chunk->row;
        SL_CHECK(sl_chunk_acquire(&outputs->run->failure, chunk->z, STARPU_R));
        out[k] = chunk_loss(outputs->shards, first, chunk->n, starpu_data_get_local_ptr(chunk->z));
        starpu_data_release(chunk->z);
    }
    return SL_OK;
}

/* Gather counts and losses at rank 0. Losses stay separate by chunk and are added in the order of chunks, so that even
 * a sum that is not exact does not depend on the number of ranks. */
static enum sl_status add_up(const struct sl_outputs *outputs, const struct tally *t, struct sl_scores *out)
{
    uint32_t n_classes = outputs->shards->n_outputs;
    size_t of_set = (size_t)SL_N_COUNTS * n_classes;
    size_t n_numbers = t->n_counts + LOSS_NUMBERS * outputs->n_all;
    SL_FREED double *counts = NULL;
    struct chunk_loss all = {0};
    SL_CHECK(sl_alloc_zero(n_numbers, sizeof *counts, "scores", &counts));
    struct chunk_loss *loss = (struct chunk_loss *)(counts + t->n_counts);
    for (uint32_t c = 0; c < t->n_chunks; c++) {
        for (size_t k = 0; k < t->n_counts; k++) {
            counts[k] += (double)t->counts[c * t->n_counts + k];
        }
    }
    SL_CHECK(find_losses(outputs, loss + outputs->first_chunk));
    if (outputs->shards->halo != NULL) {
        sl_ranks_drain();
    }
    SL_CHECK(sl_ranks_sum((uint32_t)n_numbers, counts));
    for (uint32_t c = 0; c < outputs->n_all; c++) {
        sl_exact_add_sum(&all.sum, loss[c].sum);
        all.n += loss[c].n;
    }
    struct sl_score *accuracy = sl_scores_find(out, "acc");
    struct sl_score *f1 = sl_scores_find(out, "f1");
    out->valid_loss = all.n > 0 ? sl_exact_value(all.sum) / all.n : NAN;
    rate(counts + SL_SET_VALID * of_set, n_classes, &accuracy->valid, &f1->valid);
    rate(counts + SL_SET_TEST * of_set, n_classes, &accuracy->test, &f1->test);
    return SL_OK;
}

static enum sl_status score(const struct sl_objective *o, const struct sl_outputs *outputs, struct sl_scores *out)
{
    struct sl_score *auc = sl_scores_find(out, "auc");
    SL_OWNED(close_tally) struct tally t = {0};
    (void)o;
    SL_CHECK(open_tally(outputs, &t));
    SL_CHECK(submit_counts(outputs, &t));
    finish_counts(&t);
    SL_CHECK(sl_failure_status(&outputs->run->failure));
    SL_CHECK(add_up(outputs, &t, out));
    if (auc != NULL) {
        SL_CHECK(set_area(outputs, &t, SL_SET_VALID, &auc->valid));
        SL_CHECK(set_area(outputs, &t, SL_SET_TEST, &auc->test));
    }
    return SL_OK;
}

const struct sl_objective_kind sl_classify = {.name = "class",
                                              .output = "class",
                                              .outputs = "classes",
                                              .open = open_classes,
                                              .scores = kinds,
                                              .lose = sl_objective_lose,
                                              .score = score};
