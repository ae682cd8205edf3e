/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Datasets in the terms of a model. */
#include "runtime/train/adapt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/names.h"
#include "data/text_lines.h"
#include "runtime/plan/model_file.h"
#include "support/compare.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/number.h"
#include "support/text.h"

static const char *name_normalization(enum sl_normalize normalize)
{
    static const char *const names[] = {"none", "row", "column"};
    return names[normalize];
}

/* Normalize features that are not normalized yet: files were, when they were read. */
static enum sl_status normalize(const struct sl_settings *s, struct sl_adapted *out)
{
    const enum sl_normalize wanted = (enum sl_normalize)s->normalize_features;
    struct sl_dataset *dataset = &out->dataset;
    const struct sl_scaling *of_model = s->model_file != NULL ? &s->model_file->scaling : NULL;
    if (dataset->normalized == SL_NORMALIZE_NONE && wanted != SL_NORMALIZE_NONE) {
        SL_FAIL_IF(dataset->types != NULL && wanted == SL_NORMALIZE_COLUMN, SL_EINVAL,
                   "--normalize-features column cannot be used with the typed graph %s: each type has its own "
                   "features; use row or none",
                   dataset->name);
        if (of_model != NULL) {
            SL_CHECK(sl_scaling_copy(of_model, &out->scaling));
        }
        if (out->features.n_rows == 0) {
            out->features = dataset->features;
            out->features.dense.hold = SL_HOLD_BORROWED;
            out->features.hold = SL_HOLD_BORROWED;
        }
        SL_CHECK(sl_features_normalize(&out->features, wanted, &out->scaling));
        SL_CHECK(sl_features_measure(&out->features, &dataset->range));
        dataset->features = out->features;
        dataset->hashed = false;
        dataset->normalized = wanted;
        dataset->scaling = out->scaling;
        return SL_OK;
    }
    /* A dataset that was opened normalized needs no option again. */
    const bool says = s->model_file != NULL && sl_model_file_option(s->model_file, "normalize-features") != NULL;
    SL_FAIL_IF(dataset->normalized != wanted && (says || wanted != SL_NORMALIZE_NONE), SL_EINVAL,
               "--normalize-features: found a dataset opened with '%s', expected '%s'",
               name_normalization(dataset->normalized), name_normalization(wanted));
    if (of_model != NULL && of_model->n > 0 && !sl_scaling_equal(of_model, &dataset->scaling)) {
        return sl_fail(SL_EINVAL,
                       "features: found a dataset normalized by its own means and deviations, expected those of the "
                       "model in %.300s; open it without --normalize-features",
                       s->load);
    }
    return SL_OK;
}

/* ---- names ---- */

/* Names of the dataset and of the model. */
struct match {
    struct sl_names here, there;
    uint32_t *place; /* [here.n]: the number in `there`; SL_NONE: it is not there */
};

static enum sl_status find_places(struct match *match)
{
    SL_CHECK(sl_alloc((size_t)match->here.n + 1, sizeof *match->place, "names", &match->place));
    for (uint32_t i = 0; i < match->here.n; i++) {
        match->place[i] = sl_names_find(&match->there, match->here.texts[i]);
    }
    return SL_OK;
}

static enum sl_status match_lines(const char *here, const char *there, struct match *out)
{
    SL_CHECK(sl_names_read(here, &out->here));
    SL_CHECK(sl_names_read(there, &out->there));
    return find_places(out);
}

static void free_match(struct match *match)
{
    sl_names_free(&match->here);
    sl_names_free(&match->there);
    sl_free(match->place);
}

/* For messages: "%.*s" of a name. */
static int shown(struct sl_text_cell name)
{
    return (int)sl_min_u64(name.n, 100);
}

/* ---- columns of types ---- */

struct types {
    struct type {
        uint32_t n, columns, first; /* vertices; columns, and the first of them */
    } * type;
    bool shares; /* all types have the same columns */
    uint64_t n_columns;
};

static void free_types(struct types *types)
{
    sl_free(types->type);
}

/* Cut the line NAME,VERTICES,COLUMNS. False: another line. */
static bool cut_type(struct sl_text_cell *line, struct type *out)
{
    const char *end = line->p + line->n;
    const char *comma = memchr(line->p, ',', line->n);
    uint64_t n = 0, columns = 0;
    if (comma == NULL) {
        return false;
    }
    const char *p = sl_number_u64(comma + 1, end, &n);
    if (p == NULL || *p != ',' || sl_number_u64(p + 1, end, &columns) != end || n >= UINT32_MAX ||
        columns >= UINT32_MAX) {
        return false;
    }
    line->n = (size_t)(comma - line->p);
    *out = (struct type){.n = (uint32_t)n, .columns = (uint32_t)columns};
    return true;
}

/* Read the lines NAME,VERTICES,COLUMNS. SL_EFILE: other lines. The names point into the text. */
static enum sl_status read_types(const char *where, const char *text, struct sl_names *names, struct types *out)
{
    SL_CHECK(sl_alloc(sl_text_count_lines(text) + 1, sizeof *out->type, "types", &out->type));
    out->shares = true;
    for (uint32_t t = 0; *text != '\0'; t++) {
        struct sl_text_cell name = {text, strcspn(text, "\n")};
        text += name.n + 1;
        SL_FAIL_IF(text[-1] == '\0' || !cut_type(&name, &out->type[t]), SL_EFILE,
                   "%.300s: types: expected lines NAME,VERTICES,COLUMNS", where);
        SL_CHECK(sl_names_add(names, name, &t));
        out->shares &= out->type[t].columns > 0 && out->type[t].columns == out->type[0].columns;
    }
    for (uint32_t t = 0; t < names->n; t++) {
        struct type *type = &out->type[t];
        type->first = out->shares ? 0 : (uint32_t)out->n_columns;
        out->n_columns = type->first + (uint64_t)(type->columns > 0 ? type->columns : type->n);
    }
    return SL_OK;
}

/* A type of the dataset has the columns that it has in the model. */
static enum sl_status check_type(const struct sl_settings *s, struct sl_text_cell name, const struct type *here,
                                 const struct type *there)
{
    SL_FAIL_IF(here->columns != there->columns, SL_EINVAL,
               "features: found %u columns of type '%.*s', expected %u, with which the model in %.300s was trained",
               here->columns, shown(name), name.p, there->columns, s->load);
    SL_FAIL_IF(here->columns == 0 && here->n != there->n, SL_EINVAL,
               "features: found %u vertices of type '%.*s', expected the %u of the model in %.300s: vertices "
               "without features have trained vectors of their own",
               here->n, shown(name), name.p, there->n, s->load);
    return SL_OK;
}

/* The last row of a table has columns of its type alone. first, n: these columns. */
static enum sl_status check_row(const struct sl_features *table, struct sl_text_cell name, uint32_t first, uint32_t n)
{
    const uint32_t row = table->n_rows - 1;
    for (uint64_t k = table->offsets[row]; k < table->offsets[row + 1]; k++) {
        SL_FAIL_IF(table->columns[k] - first >= n, SL_EINVAL,
                   "features: found vertex %u of type '%.*s' with features in columns of other types, expected its own "
                   "%u columns alone",
                   row, shown(name), name.p, n);
    }
    return SL_OK;
}

/* The features with the columns of each type where the model has them. */
static enum sl_status move_columns(const struct sl_features *from, const struct types *here, const struct types *there,
                                   const struct match *match, struct sl_features *out)
{
    SL_FREED float *room = NULL;
    SL_CHECK(sl_alloc(from->n_columns, sizeof *room, "a row of features", &room));
    SL_CHECK(sl_features_start_csr(from->n_rows, (uint32_t)there->n_columns, sl_features_nonzeros(from), out));
    out->n_rows = 0;
    for (uint32_t t = 0; t < match->here.n; t++) {
        const struct type *type = &here->type[t];
        const uint32_t first = type->n > 0 ? there->type[match->place[t]].first : 0;
        for (uint32_t i = 0; i < type->n; i++) {
            sl_features_append(from, out->n_rows, first - type->first, room, out);
            SL_CHECK(check_row(out, match->here.texts[t], first, type->columns > 0 ? type->columns : type->n));
        }
    }
    return sl_features_settle(out);
}

/* Columns of types in another order, or of types that the dataset lacks. */
static enum sl_status match_types(const struct sl_settings *s, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const char *known = sl_model_file_text(s->model_file, SL_KEY_TYPES);
    SL_OWNED(free_types) struct types here = {0};
    SL_OWNED(free_types) struct types there = {0};
    SL_OWNED(free_match) struct match match = {.place = NULL};
    uint64_t n_vertices = 0;
    if (known == NULL || dataset->types == NULL || strcmp(known, dataset->types) == 0) {
        return SL_OK;
    }
    SL_CHECK(read_types(s->load, known, &match.there, &there));
    SL_CHECK(read_types(dataset->name, dataset->types, &match.here, &here));
    SL_CHECK(find_places(&match));
    bool moved = here.n_columns != there.n_columns;
    for (uint32_t t = 0; t < match.here.n; t++) {
        const struct sl_text_cell name = match.here.texts[t];
        if (here.type[t].n == 0) {
            continue; /* no vertex has its columns */
        }
        SL_FAIL_IF(match.place[t] == SL_NONE, SL_EINVAL,
                   "features: found type '%.*s', which the model in %.300s does not know", shown(name), name.p,
                   s->load);
        const struct type *type = &there.type[match.place[t]];
        SL_CHECK(check_type(s, name, &here.type[t], type));
        moved |= type->first != here.type[t].first;
        n_vertices += here.type[t].n;
    }
    SL_FAIL_IF(n_vertices != dataset->features.n_rows || here.n_columns != dataset->features.n_columns ||
                   there.n_columns != s->model_file->n_features,
               SL_EFILE, "%.300s: types: expected as many columns as the %u features of the model", s->load,
               s->model_file->n_features);
    if (moved) {
        SL_CHECK(move_columns(&dataset->features, &here, &there, &match, &out->features));
        dataset->features = out->features;
        dataset->hashed = false;
        out->moved = true;
    }
    dataset->types = (char *)(uintptr_t)known;
    return SL_OK;
}

/* ---- relations ---- */

/* The entries of a list of sources, to be sorted by relation, then by source. */
struct entry {
    uint32_t relation, source;
    uint64_t edge;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return sl_order(x->relation, y->relation, x->source, y->source);
}

/* The graph with other numbers of relations. place: of each relation without reverses, among n of the model. */
static enum sl_status renumber_edges(const struct sl_graph *from, bool reverses, const uint32_t *place, uint32_t n,
                                     struct sl_graph *out)
{
    const uint32_t n_from = reverses ? from->n_relations / 2 : from->n_relations;
    SL_FREED struct entry *list = NULL;
    uint64_t longest = 0;
    for (uint32_t v = 0; v < from->n_vertices; v++) {
        longest = sl_max_u64(longest, from->offsets[v + 1] - from->offsets[v]);
    }
    *out = *from;
    out->sources = NULL;
    out->relations = NULL;
    out->weights = NULL;
    out->rows = NULL;
    out->n_relations = reverses ? 2 * n : n;
    SL_CHECK(sl_alloc(longest + 1, sizeof *list, "edges", &list));
    SL_CHECK(sl_graph_alloc_edges(from->n_edges, from, out));
    for (uint32_t v = 0; v < from->n_vertices; v++) {
        const uint64_t first = from->offsets[v];
        const uint64_t n_list = from->offsets[v + 1] - first;
        for (uint64_t i = 0; i < n_list; i++) {
            const uint32_t r = from->relations[first + i];
            list[i].relation = r < n_from ? place[r] : n + place[r - n_from];
            list[i].source = from->sources[first + i];
            list[i].edge = first + i;
        }
        qsort(list, n_list, sizeof *list, compare_entries);
        for (uint64_t i = 0; i < n_list; i++) {
            sl_graph_copy_edges(from, list[i].edge, 1, out, first + i);
            out->sources[first + i] = list[i].source;
            out->relations[first + i] = (uint16_t)list[i].relation;
        }
    }
    return SL_OK;
}

/* Ends of the model's n relations. A relation that the dataset lacks may have all vertices as ends. */
static enum sl_status make_ends(const struct sl_link_ends *from, uint32_t n_from, uint32_t n_vertices,
                                const uint32_t *place, uint32_t n, struct sl_link_ends **out)
{
    SL_CHECK(sl_links_copy_ends(NULL, n, n_vertices, out));
    for (uint32_t r = 0; from != NULL && r < n_from; r++) {
        (*out)[place != NULL ? place[r] : r] = from[r];
    }
    return SL_OK;
}

static enum sl_status renumber_links(const struct sl_dataset *dataset, const uint32_t *place, uint32_t n,
                                     struct sl_link_split *out)
{
    const struct sl_link_split *from = &dataset->links;
    *out = (struct sl_link_split){.n_relations = n, .own_ids = from->own_ids, .directed = from->directed};
    memcpy(out->n_each, from->n_each, sizeof out->n_each);
    SL_CHECK(make_ends(from->ends, from->n_relations, dataset->graph.n_vertices, place, n, &out->ends));
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        struct sl_links *links = &out->list[list];
        SL_CHECK(sl_links_copy(&from->list[list], links));
        for (uint32_t i = 0; links->relation != NULL && i < links->n; i++) {
            links->relation[i] = place[links->relation[i]];
        }
    }
    return SL_OK;
}

/* Each relation of the dataset is one of the model's. The model may have more: they have no edges here. */
static enum sl_status check_relations(const struct sl_settings *s, const struct match *match)
{
    const struct sl_names *there = &match->there;
    for (uint32_t i = 0; i < match->here.n; i++) {
        SL_FAIL_IF(match->place[i] == SL_NONE, SL_EINVAL,
                   "relation: found '%.*s', which the model in %.200s does not know; expected its %u: %.*s%s",
                   shown(match->here.texts[i]), match->here.texts[i].p, s->load, there->n, shown(there->texts[0]),
                   there->texts[0].p, there->n > 1 ? ", .." : "");
    }
    for (uint32_t k = 0; k < there->n; k++) {
        if (sl_names_find(&match->here, there->texts[k]) == SL_NONE) {
            sl_notify(SL_NOTICE_WARNING, "relation '%.*s' of the model is not in the dataset: it has no edges there",
                      shown(there->texts[k]), there->texts[k].p);
        }
    }
    return SL_OK;
}

static enum sl_status renumber_relations(const struct sl_settings *s, const struct match *match, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const uint32_t n = match->here.n, n_model = match->there.n;
    SL_FAIL_IF(n_model == 0 || n_model > SL_MAX_RELATIONS / 2, SL_EFILE,
               "%.300s: found %u names of relations, expected 1 to %u", s->load, n_model, SL_MAX_RELATIONS / 2);
    SL_CHECK(check_relations(s, match));
    SL_FAIL_IF(dataset->graph.n_relations != n * (dataset->directed ? 1U : 2U), SL_EINVAL,
               "relations: found %u names and %u relations of edges in '%s', expected as many", n,
               dataset->graph.n_relations, dataset->name);
    SL_CHECK(renumber_edges(&dataset->graph, !dataset->directed, match->place, n_model, &out->graph));
    dataset->graph = out->graph;
    if (dataset->links.n_relations > 0) {
        SL_CHECK(renumber_links(dataset, match->place, n_model, &out->links));
        dataset->links = out->links;
    }
    dataset->hashed = false;
    return SL_OK;
}

static enum sl_status match_relations(const struct sl_settings *s, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const struct sl_model_file *file = s->model_file;
    const char *known = sl_model_file_text(file, SL_KEY_RELATIONS);
    SL_OWNED(free_match) struct match match = {.place = NULL};
    if (dataset->graph.n_relations == 0) {
        return SL_OK;
    }
    if (known == NULL || dataset->relations == NULL) {
        SL_FAIL_IF(file->n_relations > 0 && file->n_relations != dataset->graph.n_relations, SL_EINVAL,
                   "relations: found %u in '%s', expected %u, with which the model in %.300s was trained (with "
                   "the reverse ones)",
                   dataset->graph.n_relations, dataset->name, file->n_relations, s->load);
        return SL_OK;
    }
    if (strcmp(known, dataset->relations) == 0) {
        return SL_OK;
    }
    SL_CHECK(match_lines(dataset->relations, known, &match));
    SL_CHECK(renumber_relations(s, &match, out));
    dataset->relations = (char *)(uintptr_t)known;
    out->relation_of = match.place;
    out->n_relations = match.here.n;
    match.place = NULL;
    return SL_OK;
}

/* A model of links scores pairs of a graph without lists of links. */
static enum sl_status allow_pairs(struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const uint32_t n_all = dataset->graph.n_relations;
    const uint32_t n = dataset->directed ? n_all : n_all / 2;
    const uint32_t n_ends = out->relation_of != NULL ? out->n_relations : n;
    if (sl_dataset_has_links(dataset) || n == 0) {
        return SL_OK;
    }
    out->links = (struct sl_link_split){.n_relations = n, .own_ids = true, .directed = dataset->directed};
    SL_CHECK(make_ends(dataset->ends, n_ends, dataset->graph.n_vertices, out->relation_of, n, &out->links.ends));
    dataset->links = out->links;
    return SL_OK;
}

/* ---- classes ---- */

static enum sl_status renumber_classes(const struct match *match, const struct sl_targets *from, struct sl_targets *out,
                                       uint32_t *n_dropped)
{
    SL_CHECK(sl_targets_make_unknown(from->n_rows, out));
    out->n_classes = match->there.n;
    for (uint32_t v = 0; v < from->n_rows; v++) {
        const int32_t class = from->classes[v];
        if (class >= 0 && (uint32_t) class < match->here.n && match->place[class] != SL_NONE) {
            out->classes[v] = (int32_t)match->place[class];
        }
        *n_dropped += class >= 0 && out->classes[v] < 0;
    }
    return SL_OK;
}

static enum sl_status move_target_columns(const struct match *match, const struct sl_targets *from,
                                          struct sl_targets *out, uint32_t *n_dropped)
{
    const uint64_t n = match->there.n;
    float *numbers;
    SL_CHECK(sl_alloc((size_t)(from->n_rows * n) + 1, sizeof *numbers, "targets", &numbers));
    for (uint64_t i = 0; i < from->n_rows * n; i++) {
        numbers[i] = NAN;
    }
    for (uint32_t c = 0; c < from->width; c++) {
        for (uint64_t v = 0; v < from->n_rows && match->place[c] != SL_NONE; v++) {
            numbers[v * n + match->place[c]] = from->numbers[v * from->width + c];
        }
        *n_dropped += match->place[c] == SL_NONE;
    }
    return sl_targets_take("", numbers, from->n_rows, match->there.n, SL_TARGETS_NUMBERS, out);
}

/* Give targets the model's order. Those that the model does not know become unknown. */
static enum sl_status move_targets(const struct match *match, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const bool classes = dataset->targets.type == SL_TARGET_CLASS;
    uint32_t n_dropped = 0;
    uint32_t i = 0;
    if (classes) {
        SL_CHECK(renumber_classes(match, &dataset->targets, &out->targets, &n_dropped));
    } else {
        SL_CHECK(move_target_columns(match, &dataset->targets, &out->targets, &n_dropped));
    }
    while (i < match->here.n && match->place[i] != SL_NONE) {
        i++;
    }
    if (n_dropped > 0 && i < match->here.n) {
        const struct sl_text_cell name = match->here.texts[i];
        const struct sl_text_cell known = match->there.texts[0];
        sl_notify(
            SL_NOTICE_WARNING,
            "%s: %u %s that the model does not know ('%.*s'; the model has '%.*s'%s): they have no share in scores",
            dataset->name, n_dropped, classes ? "vertices have classes" : "columns of targets have names", shown(name),
            name.p, shown(known), known.p, match->there.n > 1 ? ", .." : "");
    }
    dataset->targets = out->targets;
    dataset->hashed = false;
    return SL_OK;
}

/* The names of classes that have numbers alone are the numbers. *out is the caller's (sl_free). */
static enum sl_status name_numbers(uint32_t n, char **out)
{
    enum { BYTES = 12 }; /* of a line */
    size_t used = 0;
    SL_CHECK(sl_alloc((size_t)n + 1, BYTES, "names of classes", out));
    (*out)[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        used += (size_t)snprintf(*out + used, BYTES, "%u\n", i);
    }
    return SL_OK;
}

/* Classes, and columns of targets. */
static enum sl_status match_target_names(const struct sl_settings *s, struct sl_adapted *out)
{
    const char *known = sl_model_file_text(s->model_file, SL_KEY_CLASSES);
    const char *here = out->dataset.class_names;
    const char *there = known;
    const uint32_t n_here = sl_targets_outputs(&out->dataset.targets);
    const uint32_t n_there = s->model_file->n_outputs;
    const bool counts = out->dataset.targets.type == SL_TARGET_CLASS && n_here > 0 && n_there > 0;
    SL_FREED char *numbers = NULL;
    SL_OWNED(free_match) struct match match = {.place = NULL};
    SL_FAIL_IF(known != NULL && sl_text_count_lines(known) != n_there, SL_EFILE,
               "%.300s: found %llu names of classes, expected %u, one for each output", s->load,
               (unsigned long long)sl_text_count_lines(known), n_there);
    if (counts && here == NULL && there != NULL) {
        SL_CHECK(name_numbers(n_here, &numbers));
        here = numbers;
    } else if (counts && here != NULL && there == NULL) {
        SL_CHECK(name_numbers(n_there, &numbers));
        there = numbers;
    }
    out->dataset.class_names = (char *)(uintptr_t)known;
    if (here == NULL || there == NULL || n_here == 0 || strcmp(here, there) == 0) {
        return SL_OK;
    }
    SL_CHECK(match_lines(here, there, &match));
    if (match.here.n == n_here) {
        return move_targets(&match, out);
    }
    return SL_OK;
}

/* Vertices without a target leave the split. */
static enum sl_status drop_unknown(struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    for (int i = 0; i < SL_N_LISTS; i++) {
        const struct sl_ids *ids = &dataset->lists[i];
        struct sl_ids kept = {.n = 0};
        SL_CHECK(sl_alloc((size_t)ids->n + 1, sizeof *kept.ids, "a split", &kept.ids));
        for (uint32_t k = 0; k < ids->n; k++) {
            if (sl_targets_known(&dataset->targets, ids->ids[k])) {
                kept.ids[kept.n++] = ids->ids[k];
            }
        }
        out->lists[i] = dataset->lists[i] = kept;
    }
    return SL_OK;
}

/* Labels beyond the model's classes: a score would compare other things. */
static enum sl_status check_classes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    const uint32_t n = s->model_file->n_outputs;
    SL_FAIL_IF(n > 0 && dataset->targets.type == SL_TARGET_CLASS && dataset->targets.n_classes > n, SL_EINVAL,
               "labels: found class %u in '%s', expected at most %u: the model in %.300s has %u classes",
               dataset->targets.n_classes - 1, dataset->name, n - 1, s->load, n);
    return SL_OK;
}

static enum sl_status adapt_targets(const struct sl_settings *s, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    SL_CHECK(match_target_names(s, out));
    if (out->targets.data != NULL) {
        SL_CHECK(drop_unknown(out));
    }
    sl_targets_widen(&dataset->targets, s->model_file->n_outputs);
    return check_classes(s, dataset);
}

/* ---- all ---- */

/* Columns of nodes.csv in another order are refused. Columns of other names may be the same. */
static enum sl_status check_columns(const struct sl_settings *s, const char *dataset, const struct match *match)
{
    for (uint32_t i = 0; i < match->here.n && i < match->there.n; i++) {
        const struct sl_text_cell here = match->here.texts[i];
        const struct sl_text_cell there = match->there.texts[i];
        if (match->place[i] == SL_NONE) {
            sl_notify(SL_NOTICE_WARNING, "%s: the column '%.*s' is taken for '%.*s' of the model", dataset, shown(here),
                      here.p, shown(there), there.p);
        } else if (match->place[i] != i) {
            return sl_fail(SL_EINVAL,
                           "features: found the column '%.*s' in '%s' where the model in %.300s has '%.*s'; put the "
                           "columns in the order of training",
                           shown(here), here.p, dataset, s->load, shown(there), there.p);
        }
    }
    return SL_OK;
}

static enum sl_status match_columns(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    const char *known = sl_model_file_text(s->model_file, SL_KEY_FEATURE_NAMES);
    SL_OWNED(free_match) struct match match = {.place = NULL};
    if (known == NULL || dataset->feature_names == NULL || sl_text_or(dataset->feature_words, "")[0] != '\0' ||
        strcmp(known, dataset->feature_names) == 0) {
        return SL_OK;
    }
    SL_CHECK(match_lines(dataset->feature_names, known, &match));
    return check_columns(s, dataset->name, &match);
}

static enum sl_status match_features(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    const uint32_t expected = s->model_file->n_features;
    SL_FAIL_IF(expected > 0 && dataset->features.n_columns != expected, SL_EINVAL,
               "features: found %u columns in '%s', expected %u, with which the model in %.300s was trained",
               dataset->features.n_columns, dataset->name, expected, s->load);
    if (strcmp(sl_text_or(dataset->feature_words, ""), "onehot") == 0 &&
        sl_model_file_text(s->model_file, SL_KEY_SEED) != NULL &&
        dataset->feature_seed != s->model_file->feature_seed) {
        return sl_fail(SL_EINVAL,
                       "--features onehot: found other vertices in '%s', or in another order, expected those of the "
                       "model in %.300s: each has a column of its own",
                       dataset->name, s->load);
    }
    return SL_OK;
}

/* Edges that get reverse ones here and got none in training, or the other way round. */
static enum sl_status match_direction(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    const char *then = sl_model_file_option(s->model_file, "directed");
    bool same = then == NULL || dataset->directed == (strcmp(then, "yes") == 0);
    if (same) {
        return SL_OK;
    }
    SL_FAIL_IF(dataset->graph.n_relations > 0, SL_EINVAL,
               "--directed: found '%s' with%s reverse relations, expected it with%s, as the model in "
               "%.300s was trained",
               dataset->name, dataset->directed ? "out" : "", dataset->directed ? "" : "out", s->load);
    if (dataset->directed) {
        SL_CHECK(sl_graph_is_symmetric(&dataset->graph, &same));
    }
    if (!same) {
        sl_notify(SL_NOTICE_WARNING,
                  "%s: the edges have %s reverse ones added, unlike those that the model was trained on (--directed)",
                  dataset->name, dataset->directed ? "no" : "their");
    }
    return SL_OK;
}

enum sl_status sl_adapt(const struct sl_settings *s, const struct sl_dataset *dataset, struct sl_adapted *out)
{
    SL_OWNED(sl_adapted_free) struct sl_adapted made = {.dataset = *dataset};
    *out = (struct sl_adapted){0};
    if (s->model_file != NULL) {
        SL_CHECK(match_types(s, &made));
        SL_CHECK(match_features(s, &made.dataset));
        SL_CHECK(match_columns(s, dataset));
        SL_CHECK(match_direction(s, dataset));
        SL_CHECK(match_relations(s, &made));
        if (!sl_settings_trains_links(s)) {
            SL_CHECK(adapt_targets(s, &made));
        }
    }
    if (sl_settings_trains_links(s) && s->epochs == 0) {
        SL_CHECK(allow_pairs(&made));
    }
    SL_CHECK(normalize(s, &made));
    *out = SL_TAKE(made);
    return SL_OK;
}

void sl_adapted_free(struct sl_adapted *adapted)
{
    sl_features_free(&adapted->features); /* borrowed ones stay */
    sl_scaling_free(&adapted->scaling);
    sl_free(adapted->graph.sources);
    sl_free(adapted->graph.relations);
    sl_free(adapted->graph.weights);
    sl_free(adapted->graph.rows);
    sl_link_split_free(&adapted->links);
    sl_targets_free(&adapted->targets);
    for (int i = 0; i < SL_N_LISTS; i++) {
        sl_free(adapted->lists[i].ids);
    }
    sl_free(adapted->relation_of);
    *adapted = (struct sl_adapted){0};
}
