/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A set of labels a vertex: sigmoid cross entropy over the known entries; scores as scikit-learn defines them.
 *
 * A label is answered where its output is above 0. Micro F1 counts all known entries. Macro F1 is the mean over all
 * labels with a known entry; a label without positives and answers has F1 0 (zero_division=0). AP and AUC are means
 * over the labels with both positives and negatives in the set, as OGB's evaluator has it. */
#include "runtime/objective/collect.h"

#include <math.h>
#include <string.h>

#include "codelets/ends/loss.h"
#include "codelets/ends/score.h"
#include "support/memory.h"

/* ---- the data ---- */

/* Known training entries of each label: [0] negative, [1] positive. */
static void count_entries(const struct sl_dataset *dataset, double (*counts)[2])
{
    const struct sl_targets *t = &dataset->targets;
    for (uint32_t i = 0; i < dataset->train.n; i++) {
        const float *row = t->numbers + (size_t)dataset->train.ids[i] * t->width;
        for (uint32_t c = 0; c < t->width; c++) {
            if (!isnan(row[c])) {
                counts[c][row[c] > 0]++;
            }
        }
    }
}

/* The weight of a label's positive entries makes up for their rarity. */
static enum sl_status balance(double (*counts)[2], uint32_t n, float **out)
{
    SL_CHECK(sl_alloc(n, sizeof **out, "label weights", out));
    for (uint32_t c = 0; c < n; c++) {
        (*out)[c] = counts[c][1] > 0 ? (float)(counts[c][0] / counts[c][1]) : 1;
    }
    return SL_OK;
}

static enum sl_status weigh(const struct sl_settings *s, double (*counts)[2], struct sl_objective *out)
{
    if (s->class_weights == NULL) {
        return SL_OK;
    }
    if (strcmp(s->class_weights, SL_WEIGHTS_BALANCED) == 0) {
        return balance(counts, out->n_outputs, &out->weights);
    }
    return sl_objective_read_weights(s->class_weights, out->n_outputs, &out->weights);
}

/* The loss with the best constant probability of each label. */
static double guess_of(const struct sl_objective *o, double (*counts)[2])
{
    double loss = 0;
    double n = 0;
    for (uint32_t c = 0; c < o->n_outputs; c++) {
        double yes = counts[c][1] * (o->weights != NULL ? (double)o->weights[c] : 1);
        double all = yes + counts[c][0];
        loss -= yes > 0 ? yes * log(yes / all) : 0;
        loss -= counts[c][0] > 0 ? counts[c][0] * log(counts[c][0] / all) : 0;
        n += counts[c][0] + counts[c][1];
    }
    return n > 0 ? loss / n : 0;
}

static enum sl_status open_labels(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                  struct sl_objective *out)
{
    SL_FREED double(*counts)[2] = NULL;
    SL_CHECK(sl_objective_count_known(dataset, "labels", out));
    SL_FAIL_IF(!sl_targets_are_labels(&dataset->targets), SL_EINVAL,
               "--objective: found labels, expected targets of 0, 1 and nan; %s has other numbers", dataset->name);
    SL_CHECK(sl_alloc_zero(out->n_outputs, sizeof *counts, "labels", &counts));
    out->row_loss = SL_ROW_SIGMOID;
    count_entries(dataset, counts);
    SL_CHECK(weigh(settings, counts, out));
    out->guess = guess_of(out, counts);
    for (uint32_t c = 0; c < out->n_outputs; c++) {
        if (dataset->train.n > 0 && counts[c][1] == 0 && out->n_empty++ == 0) {
            out->first_empty = c;
        }
    }
    return SL_OK;
}

/* ---- scores ---- */

static const struct sl_score_kind kinds[] = {{"ap", true, true, false},
                                             {"auc", true, true, false},
                                             {"f1_micro", true, true, false},
                                             {"f1", true, true, false},
                                             {0}};

/* Sums over the labels of a set. */
struct sums {
    double hits, misses, alarms; /* true positives, false negatives, false positives */
    double f1, n_f1;
    double ap, auc, n_both;
    double loss, n;
};

static double f1_of(double hits, double misses, double alarms)
{
    double all = 2 * hits + misses + alarms;
    return all > 0 ? 2 * hits / all : 0;
}

static void add_label(void *context, struct sl_pair *pairs, size_t n)
{
    struct sums *sums = context;
    double hits = 0;
    double misses = 0;
    double alarms = 0;
    for (size_t i = 0; i < n; i++) {
        bool positive = pairs[i].y > 0;
        bool answer = pairs[i].z > 0;
        hits += positive && answer;
        misses += positive && !answer;
        alarms += !positive && answer;
        sums->loss += sl_loss_of_entry(SL_ROW_SIGMOID, pairs[i].z, pairs[i].y);
    }
    sums->n += (double)n;
    sums->hits += hits;
    sums->misses += misses;
    sums->alarms += alarms;
    sums->f1 += f1_of(hits, misses, alarms);
    sums->n_f1 += n > 0;
    double positive = hits + misses;
    if (positive > 0 && positive < (double)n) {
        sums->auc += sl_pairs_area(pairs, n);
        sums->ap += sl_pairs_precision(pairs, n);
        sums->n_both++;
    }
}

static double ratio(double sum, double n)
{
    return n > 0 ? sum / n : NAN;
}

static double micro_f1(const struct sums *sums)
{
    return sums->n > 0 ? f1_of(sums->hits, sums->misses, sums->alarms) : NAN;
}

static enum sl_status score(const struct sl_objective *o, const struct sl_outputs *outputs, struct sl_scores *out)
{
    struct sums valid = {0};
    struct sums test = {0};
    (void)o;
    SL_CHECK(sl_outputs_columns(outputs, SL_SET_VALID, add_label, &valid));
    SL_CHECK(sl_outputs_columns(outputs, SL_SET_TEST, add_label, &test));
    out->valid_loss = ratio(valid.loss, valid.n);
    sl_scores_put(out, "ap", ratio(valid.ap, valid.n_both), ratio(test.ap, test.n_both));
    sl_scores_put(out, "auc", ratio(valid.auc, valid.n_both), ratio(test.auc, test.n_both));
    sl_scores_put(out, "f1_micro", micro_f1(&valid), micro_f1(&test));
    sl_scores_put(out, "f1", ratio(valid.f1, valid.n_f1), ratio(test.f1, test.n_f1));
    return SL_OK;
}

const struct sl_objective_kind sl_label_sets = {.name = "labels",
                                                .output = "label",
                                                .outputs = "labels",
                                                .open = open_labels,
                                                .scores = kinds,
                                                .lose = sl_objective_lose,
                                                .score = score};
