/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Files of --metrics, read back. */
#include "apps/report/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/report/jsonl.h"
#include "support/memory.h"

/* The last run of one file. */
struct lines {
    const char *path;
    json_t *config;
    json_t *epochs; /* array of the epochs with training */
};

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void close_lines(struct lines *l)
{
    json_decref(l->config);
    json_decref(l->epochs);
    *l = (struct lines){.path = l->path};
}

/* A config begins a run. */
static enum sl_status take_line(void *context, json_t *line)
{
    struct lines *l = context;
    int failed = 0;
    if (sl_jsonl_is(line, "config")) {
        close_lines(l);
        l->config = json_incref(line);
        l->epochs = json_array();
    } else if (l->config != NULL && sl_jsonl_is(line, "epoch") && json_is_number(json_object_get(line, "train_loss"))) {
        failed = json_array_append(l->epochs, line);
    }
    if (failed) {
        return sl_fail(SL_ENOMEM, "%s: no memory for its epochs", l->path);
    }
    return SL_OK;
}

static enum sl_status open_lines(const char *path, struct lines *out)
{
    enum sl_status st;
    *out = (struct lines){.path = path};
    SL_TRY(st, sl_jsonl_read(path, take_line, out), done);
    if (out->config == NULL) {
        st = sl_fail(SL_EFILE, "%.150s: expected a file that coop_sage --metrics has written, found no line of a run",
                     path);
    } else if (json_array_size(out->epochs) == 0) {
        st = sl_fail(SL_EFILE, "%.150s: found no trained epoch, expected one or more", path);
    }
done:
    return st;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static enum sl_status number(const char *path, const json_t *object, const char *name, double *out)
{
    const json_t *value = json_object_get(object, name);
    double found = json_number_value(value);
    if (!json_is_number(value) || !(found >= 0) || isinf(found)) {
        return sl_fail(SL_EFILE,
                       "%.150s: found no number '%s' in it, expected one; write the file anew with this version's "
                       "coop_sage",
                       path, name);
    }
    *out = found;
    return SL_OK;
}

static enum sl_status whole(const char *path, const json_t *object, const char *name, uint32_t *out)
{
    double value = 0;
    enum sl_status st = number(path, object, name, &value);
    if (st == SL_OK && (value < 1 || value > UINT32_MAX || value != floor(value))) {
        st = sl_fail(SL_EFILE, "%.150s: found %g as '%s', expected a whole number of 1 or more", path, value, name);
    }
    *out = st == SL_OK ? (uint32_t)value : 0;
    return st;
}

static enum sl_status numbers(const char *path, const json_t *object, const char *name, size_t n, double *out)
{
    const json_t *list = json_object_get(object, name);
    if (json_array_size(list) != n) {
        return sl_fail(SL_EFILE, "%.150s: found %zu numbers in '%s', expected %zu", path, json_array_size(list), name,
                       n);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        out[i] = json_number_value(entry);
        if (!json_is_number(entry) || !(out[i] > 0)) {
            return sl_fail(SL_EFILE, "%.150s: expected a number above 0 for hop %zu in '%s'", path, i, name);
        }
    }
    return SL_OK;
}

static enum sl_status read_config(const struct lines *l, struct sl_measured *out)
{
    const json_t *options = json_object_get(l->config, "options");
    enum sl_status st;
    if (json_object_get(options, "stages") != NULL) {
        return sl_fail(SL_EFILE,
                       "%.150s: found a run of pipe_gnn, expected one of coop_sage, whose minibatches are projected",
                       l->path);
    }
    if (json_number_value(json_object_get(options, "vertex_budget")) > 0) {
        return sl_fail(SL_EFILE, "%.150s: found a run with --vertex-budget, whose steps change; expected one without",
                       l->path);
    }
    SL_TRY(st, number(l->path, l->config, "vertices", &out->n_vertices), done);
    SL_TRY(st, number(l->path, l->config, "edges", &out->n_edges), done);
    SL_TRY(st, number(l->path, l->config, "parameter_bytes", &out->parameter_bytes), done);
    SL_TRY(st, whole(l->path, l->config, "parameters", &out->n_parameters), done);
    SL_TRY(st, whole(l->path, l->config, "features", &out->features), done);
    SL_TRY(st, whole(l->path, l->config, "classes", &out->classes), done);
    SL_TRY(st, whole(l->path, l->config, "pes", &out->pes), done);
    SL_TRY(st, whole(l->path, l->config, "group_size", &out->group_size), done);
    SL_TRY(st, whole(l->path, options, "batch_size", &out->batch_size), done);
    SL_TRY(st, whole(l->path, options, "hidden", &out->hidden), done);
    SL_TRY(st, whole(l->path, options, "layers", &out->layers), done);
    out->n_workers = (uint32_t)json_array_size(json_object_get(l->config, "devices"));
    if (out->layers > SL_MAX_LAYERS || out->n_workers == 0 || out->pes % out->group_size != 0) {
        st = sl_fail(SL_EFILE, "%.150s: found %u layers, %u devices and %u PEs in groups of %u, which is no run's",
                     l->path, out->layers, out->n_workers, out->pes, out->group_size);
    }
done:
    return st;
}

static enum sl_status read_stages(const struct lines *l, const json_t *epoch, double *out)
{
    const json_t *stages = json_object_get(epoch, "stage_seconds");
    enum sl_status st = SL_OK;
    for (int s = 0; s < SL_STAGE_EVALUATE; s++) {
        SL_TRY(st, number(l->path, stages, sl_stage_name((enum sl_stage)s), &out[s]), done);
    }
done:
    return st;
}

static enum sl_status read_epoch(const struct lines *l, const json_t *epoch, struct sl_measured *out)
{
    const json_t *bytes = json_object_get(epoch, "bytes");
    const json_t *messages = json_object_get(epoch, "messages");
    enum sl_status st;
    out->n_ranks = 1;
    if (messages != NULL) {
        out->n_ranks = (uint32_t)json_array_size(json_object_get(messages, "seconds_of"));
    }
    SL_TRY(st, number(l->path, epoch, "seconds", &out->seconds), done);
    SL_TRY(st, numbers(l->path, epoch, "vertices", out->layers + 1, out->vertices), done);
    SL_TRY(st, numbers(l->path, epoch, "edges", out->layers, out->edges), done);
    SL_TRY(st, number(l->path, bytes, "ids", &out->id_bytes), done);
    SL_TRY(st, number(l->path, bytes, "rows", &out->row_bytes), done);
    SL_TRY(st, number(l->path, bytes, "row_gradients", &out->row_gradient_bytes), done);
    SL_TRY(st, read_stages(l, epoch, out->stage_s), done);
    for (uint32_t h = 0; h <= out->layers; h++) {
        if (!(out->vertices[h] > 0) || out->seconds <= 0) {
            return sl_fail(SL_EFILE, "%.150s: found %g vertices of hop %u in %g s, expected some", l->path,
                           out->vertices[h], h, out->seconds);
        }
    }
done:
    return st;
}

/* ---- the median epoch -------------------------------------------------------------------------------------------- */

static double seconds_of(const json_t *epoch)
{
    return json_number_value(json_object_get(epoch, "seconds"));
}

static int by_seconds(const void *a, const void *b)
{
    double x = seconds_of(*(json_t *const *)a);
    double y = seconds_of(*(json_t *const *)b);
    return (x > y) - (x < y);
}

/* The epoch of median time; the faster one of two in the middle. */
static enum sl_status median_epoch(const struct lines *l, const json_t **out)
{
    size_t n = json_array_size(l->epochs);
    size_t first = n > 1;
    const json_t **sorted;
    enum sl_status st = sl_alloc(n, sizeof(const json_t *), "epochs", &sorted);
    if (st != SL_OK) {
        return st;
    }
    for (size_t i = first; i < n; i++) {
        sorted[i - first] = json_array_get(l->epochs, i);
    }
    n -= first;
    qsort(sorted, n, sizeof *sorted, by_seconds);
    *out = sorted[(n - 1) / 2];
    sl_free(sorted);
    return SL_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* True if the members are equal, or both are absent. */
static bool same_member(const json_t *a, const json_t *b, const char *name)
{
    const json_t *x = json_object_get(a, name);
    const json_t *y = json_object_get(b, name);
    return x == y || json_equal(x, y);
}

/* Check that dataset, model and sampler are the first run's: only then their counts are comparable. */
static enum sl_status check_same(const struct lines *l, const struct lines *first)
{
    static const char *const members[] = {"dataset", "vertices", "edges", "features"};
    const struct sl_option_table *table = sl_settings_table(SL_SCHEDULE_MINIBATCH);
    const json_t *mine = json_object_get(l->config, "options");
    const json_t *theirs = json_object_get(first->config, "options");
    const char *differs = NULL;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (!same_member(l->config, first->config, members[i])) {
            differs = members[i];
        }
    }
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        char key[48];
        sl_option_key(option, key, sizeof key);
        if (option->of_shape && !same_member(mine, theirs, key)) {
            differs = option->name;
        }
    }
    if (differs != NULL) {
        return sl_fail(SL_EINVAL, "%.100s: found another '%s' than in %.100s, expected the same", l->path, differs,
                       first->path);
    }
    return SL_OK;
}

static enum sl_status measure(const struct lines *l, struct sl_measured *out)
{
    const json_t *epoch;
    enum sl_status st;
    *out = (struct sl_measured){0};
    SL_TRY(st, read_config(l, out), done);
    SL_TRY(st, median_epoch(l, &epoch), done);
    st = read_epoch(l, epoch, out);
done:
    return st;
}

enum sl_status sl_measured_read(const char *const *paths, uint32_t n, struct sl_measured *out)
{
    struct lines first = {0};
    enum sl_status st;
    SL_TRY(st, open_lines(paths[0], &first), done);
    SL_TRY(st, measure(&first, &out[0]), done);
    for (uint32_t i = 1; i < n && st == SL_OK; i++) {
        struct lines more;
        st = open_lines(paths[i], &more);
        if (st == SL_OK) {
            st = check_same(&more, &first);
        }
        if (st == SL_OK) {
            st = measure(&more, &out[i]);
        }
        close_lines(&more);
    }
done:
    close_lines(&first);
    return st;
}

double sl_measured_steps(const struct sl_measured *run)
{
    return ceil(run->vertices[0] / ((double)run->pes * run->batch_size));
}
