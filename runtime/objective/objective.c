/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The choice of an objective, masses, and lists of scores. */
#include "runtime/objective/objective.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "codelets/ends/loss.h"
#include "codelets/ends/score.h"
#include "data/csv.h"
#include "support/file.h"
#include "support/lines.h"
#include "support/memory.h"
#include "support/number.h"
#include "tasks/rows.h"

/* ---- scores ---- */

/* The scores of a kind, all NaN. */
static void list_scores(const struct sl_objective *o, uint32_t n_outputs, struct sl_scores *out)
{
    *out = (struct sl_scores){.valid_loss = NAN, .best_by = o->best_by};
    for (const struct sl_score_kind *kind = o->kind->scores; kind->name != NULL; kind++) {
        if (!kind->of_two || n_outputs == 2) {
            struct sl_score *score = &out->score[out->n++];
            *score = (struct sl_score){.valid = NAN,
                                       .test = NAN,
                                       .larger_is_better = kind->larger_is_better,
                                       .is_fraction = kind->is_fraction};
            snprintf(score->name, sizeof score->name, "%s", kind->name);
        }
    }
}

struct sl_score *sl_scores_find(struct sl_scores *scores, const char *name)
{
    for (uint32_t i = 0; i < scores->n; i++) {
        if (strcmp(scores->score[i].name, name) == 0) {
            return &scores->score[i];
        }
    }
    return NULL;
}

void sl_scores_put(struct sl_scores *scores, const char *name, double valid, double test)
{
    struct sl_score *score = sl_scores_find(scores, name);
    score->valid = valid;
    score->test = test;
}

bool sl_scores_better(const struct sl_scores *a, const struct sl_scores *b)
{
    double now = a->score[a->best_by].valid;
    double before = b->score[a->best_by].valid;
    if (isnan(now) || isnan(before)) {
        return isnan(before) && !isnan(now);
    }
    return a->score[a->best_by].larger_is_better ? now > before : now < before;
}

void sl_objective_scores(const struct sl_objective *o, const struct sl_shards *shards, struct sl_scores *out)
{
    list_scores(o, shards->n_outputs, out);
}

void sl_objective_mark_scored(const struct sl_objective *o, const struct sl_shards *shards, uint16_t *hops)
{
    for (uint32_t v = 0; v < shards->n_vertices; v++) {
        const bool is_candidate = o->links.n_relations > 0; /* of ranks */
        if (is_candidate || shards->set_of[v] == SL_SET_VALID || shards->set_of[v] == SL_SET_TEST) {
            hops[v] = 0;
        }
    }
    for (int list = SL_LINKS_VALID; list < SL_N_LINK_LISTS; list++) {
        for (uint32_t i = 0; i < o->links.list[list].n; i++) {
            hops[o->links.list[list].from[i]] = 0;
            hops[o->links.list[list].to[i]] = 0;
        }
    }
}

/* ---- the choice ---- */

static const struct sl_objective_kind *choose(const struct sl_settings *s, const struct sl_targets *targets)
{
    static const struct sl_objective_kind *const kinds[] = {[SL_OBJECTIVE_CLASS] = &sl_classify,
                                                            [SL_OBJECTIVE_LABELS] = &sl_label_sets,
                                                            [SL_OBJECTIVE_REGRESSION] = &sl_regression,
                                                            [SL_OBJECTIVE_LINK] = &sl_link_prediction};
    if (s->objective != SL_OBJECTIVE_AUTO) {
        return kinds[s->objective];
    }
    if (targets->type == SL_TARGET_CLASS) {
        return &sl_classify;
    }
    return sl_targets_are_labels(targets) ? &sl_label_sets : &sl_regression;
}

/* Find --best-by among the scores. Not given: the first. */
static enum sl_status find_best_by(const struct sl_settings *s, struct sl_objective *o)
{
    struct sl_scores scores;
    char names[128] = "";
    if (s->best_by == NULL) {
        return SL_OK;
    }
    list_scores(o, o->n_outputs, &scores);
    for (uint32_t i = 0; i < scores.n; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", scores.score[i].name);
        if (strcmp(s->best_by, scores.score[i].name) == 0) {
            o->best_by = i;
            return SL_OK;
        }
    }
    return sl_fail(SL_EINVAL, "--best-by: found '%.40s', expected a score of the objective %s: %s", s->best_by,
                   o->kind->name, names);
}

/* Options that only some objectives have. */
static enum sl_status check_options(const struct sl_settings *s, const struct sl_objective_kind *kind)
{
    const char *wrong = NULL;
    const char *needed = "class";
    if (kind != &sl_classify && s->label_smoothing > 0) {
        wrong = "label-smoothing";
    } else if (kind != &sl_classify && kind != &sl_label_sets && s->class_weights != NULL) {
        wrong = "class-weights";
        needed = "class or labels";
    } else if (kind != &sl_regression && s->loss != SL_LOSS_SQUARED) {
        wrong = "loss";
        needed = "regression";
    }
    SL_FAIL_IF(wrong != NULL, SL_EINVAL, "--%s cannot be used with --objective %s: it is for %s", wrong, kind->name,
               needed);
    return SL_OK;
}

static bool some_known(const struct sl_targets *targets)
{
    for (uint32_t v = 0; v < targets->n_rows; v++) {
        if (sl_targets_known(targets, v)) {
            return true;
        }
    }
    return false;
}

enum sl_status sl_objective_open(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                 struct sl_objective *out)
{
    enum sl_status st;
    *out = (struct sl_objective){.kind = choose(settings, &dataset->targets),
                                 .n_rows = dataset->graph.n_vertices,
                                 .loss = settings->loss,
                                 .smoothing = settings->label_smoothing,
                                 .mass_each = 1};
    if (settings->epochs == 0 && settings->objective != SL_OBJECTIVE_LINK && !some_known(&dataset->targets)) {
        out->n_outputs = sl_targets_outputs(&dataset->targets);
        out->unknown = true;
        return SL_OK;
    }
    SL_TRY(st, check_options(settings, out->kind), undo);
    SL_TRY(st, out->kind->open(settings, dataset, out), undo);
    SL_TRY(st, find_best_by(settings, out), undo);
    if (out->weights != NULL) {
        out->sum = sl_checksum(0, out->weights, out->n_outputs * sizeof *out->weights);
    }
    out->mass_all = out->mass_each * sl_dataset_n_train(dataset);
    if (out->mass != NULL) {
        out->mass_all = 0;
        for (uint32_t i = 0; i < dataset->train.n; i++) {
            out->mass_all += (double)out->mass[dataset->train.ids[i]];
        }
    }
    return SL_OK;
undo:
    sl_objective_close(out);
    return st;
}

const struct sl_objective *sl_objective_of(const struct sl_shards *shards)
{
    static const struct sl_objective plain = {.kind = &sl_classify, .mass_each = 1};
    return shards->objective != NULL ? shards->objective : &plain;
}

enum sl_status sl_objective_place(struct sl_objective *o, const struct sl_partition *partition)
{
    float *mass = NULL;
    if (o->mass != NULL) {
        SL_CHECK(sl_alloc(o->n_rows, sizeof *mass, "masses of the vertices", &mass));
        for (uint32_t v = 0; v < o->n_rows; v++) {
            mass[partition->new_ids[v]] = o->mass[v];
        }
        sl_free(o->mass);
        o->mass = mass;
    }
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        struct sl_links *links = &o->links.list[list];
        for (uint32_t i = 0; i < links->n; i++) {
            links->from[i] = partition->new_ids[links->from[i]];
            links->to[i] = partition->new_ids[links->to[i]];
        }
    }
    if (o->weights != NULL) {
        o->weights_handle = sl_vector_readable(o->weights, o->n_outputs, sizeof *o->weights);
    }
    return SL_OK;
}

void sl_objective_close(struct sl_objective *o)
{
    sl_handle_close(o->weights_handle);
    sl_free(o->weights);
    sl_free(o->mass);
    sl_link_split_free(&o->links);
    *o = (struct sl_objective){0};
}

void sl_objective_identify(const struct sl_objective *o, char out[SL_SUM_BYTES])
{
    if (o->weights == NULL) {
        snprintf(out, SL_SUM_BYTES, "no weights");
    } else {
        snprintf(out, SL_SUM_BYTES, "hash %016" PRIx64, o->sum);
    }
}

void sl_objective_warn(const struct sl_objective *o, FILE *stream)
{
    if (o->n_empty > 0 && o->kind == &sl_classify) {
        sl_print_line(stream, "warning",
                      "%u of %u classes have no vertex, %u%s: classes are numbered from 0 to the largest label",
                      o->n_empty, o->n_outputs, o->first_empty, o->n_empty > 1 ? " for one" : "");
    } else if (o->n_empty > 0) {
        sl_print_line(stream, "warning", "%u of %u labels have no positive training vertex, %u%s", o->n_empty,
                      o->n_outputs, o->first_empty, o->n_empty > 1 ? " for one" : "");
    }
}

/* ---- masses ---- */

/* No mass, no loss. */
static double inverse(double mass)
{
    return mass > 0 ? 1.0 / mass : 0;
}

double sl_objective_scale(const struct sl_objective *o, uint32_t n, const sl_vertex *vertices)
{
    double mass = n * o->mass_each;
    if (o->mass != NULL) {
        mass = 0;
        for (uint32_t i = 0; i < n; i++) {
            mass += (double)o->mass[vertices[i]];
        }
    }
    return inverse(mass);
}

double sl_objective_scale_all(const struct sl_objective *o, const struct sl_shards *shards)
{
    return inverse(o->mass != NULL ? o->mass_all : shards->n_train * o->mass_each);
}

/* Read numbers with commas between them, the first `n` of them into weights. The result is their count; 0: the text is
 * something else, for example a path. */
static uint32_t read_numbers(const char *text, uint32_t n, float *weights)
{
    const char *end = text + strlen(text);
    const char *p = text;
    for (uint32_t count = 1;; count++, p++) {
        double number;
        p = sl_number_real(p, end, &number);
        if (p == NULL || (*p != ',' && p != end)) {
            return 0;
        }
        if (count <= n) {
            weights[count - 1] = (float)number;
        }
        if (p == end) {
            return count;
        }
    }
}

static enum sl_status check_weights(const float *weights, uint32_t n_found, uint32_t n_outputs)
{
    float most = 0;
    SL_FAIL_IF(n_found != n_outputs, SL_EINVAL,
               "--class-weights: found %u numbers, expected %u, one for each class or label", n_found, n_outputs);
    for (uint32_t c = 0; c < n_outputs; c++) {
        SL_FAIL_IF(!(weights[c] >= 0 && isfinite(weights[c])), SL_EINVAL,
                   "--class-weights: found %g, expected numbers of 0 or more", (double)weights[c]);
        most = fmaxf(most, weights[c]);
    }
    SL_FAIL_IF(most == 0, SL_EINVAL, "--class-weights: found only zeros, expected a number above 0");
    return SL_OK;
}

enum sl_status sl_objective_read_weights(const char *text, uint32_t n_outputs, float **out)
{
    SL_OWNED(sl_targets_free) struct sl_targets table = {0};
    const char *path = text;
    SL_CHECK(sl_alloc(n_outputs, sizeof **out, "class weights", out));
    uint32_t n_found = read_numbers(text, n_outputs, *out);
    if (n_found > 0) {
        return check_weights(*out, n_found, n_outputs);
    }
    SL_CHECK(sl_csv_read_targets(path, n_outputs, SL_TARGETS_NUMBERS, &table, NULL));
    SL_FAIL_IF(table.width != 1, SL_EFILE, "%s: expected one weight a line, found %u numbers a line", path,
               table.width);
    for (uint32_t c = 0; c < n_outputs; c++) {
        (*out)[c] = table.numbers[c];
        SL_FAIL_IF(!((*out)[c] >= 0), SL_EFILE, "%s:%u: expected one weight, 0 or more, found %g", path, c + 1,
                   (double)(*out)[c]);
    }
    return SL_OK;
}

/* ---- loss ---- */

enum sl_status sl_objective_lose(const struct sl_objective *o, const struct sl_task_args *head,
                                 const struct sl_objective_rows *rows, double scale, starpu_data_handle_t gz,
                                 starpu_data_handle_t loss)
{
    const struct sl_loss_handles handles = {.kind = (enum sl_row_loss)o->row_loss,
                                            .targets = rows->targets,
                                            .first = rows->first,
                                            .frontier = rows->frontier,
                                            .weights = o->weights_handle,
                                            .smoothing = o->smoothing};
    return sl_loss_submit(head, rows->z, &handles, rows->row0, scale, gz, loss);
}

/* ---- masses ---- */

enum sl_status sl_objective_count_known(const struct sl_dataset *dataset, const char *name, struct sl_objective *out)
{
    const struct sl_targets *t = &dataset->targets;
    bool all = true;
    SL_FAIL_IF(t->type != SL_TARGET_NUMBER, SL_EINVAL,
               "--objective: found %s, expected targets that are numbers; %s has classes", name, dataset->name);
    out->n_outputs = t->width;
    out->mass_each = t->width;
    SL_CHECK(sl_alloc_zero(t->n_rows, sizeof *out->mass, "known targets", &out->mass));
    for (uint32_t i = 0; i < dataset->train.n; i++) {
        sl_vertex v = dataset->train.ids[i];
        uint32_t n = 0;
        for (uint32_t c = 0; c < t->width; c++) {
            n += !isnan(t->numbers[(size_t)v * t->width + c]);
        }
        out->mass[v] = (float)n;
        all = all && n == t->width;
    }
    if (all) {
        sl_free(out->mass);
        out->mass = NULL;
    }
    return SL_OK;
}
