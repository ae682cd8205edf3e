/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Datasets in the terms of a model. */
#include "runtime/train/adapt.h"

#include <stdlib.h>
#include <string.h>

#include "data/text_lines.h"
#include "runtime/plan/model_file.h"
#include "support/memory.h"
#include "support/minmax.h"
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
    enum sl_status st;
    if (dataset->normalized == SL_NORMALIZE_NONE && wanted != SL_NORMALIZE_NONE) {
        if (dataset->graph.n_relations > 0 && wanted == SL_NORMALIZE_COLUMN) {
            return sl_fail(SL_EINVAL,
                           "--normalize-features: found column, expected none or row: in the typed graph %s each type "
                           "has features of its own",
                           dataset->name);
        }
        if (of_model != NULL) {
            SL_TRY(st, sl_scaling_copy(of_model, &out->scaling), done);
        }
        if (out->features.n_rows == 0) {
            out->features = dataset->features;
            out->features.dense.hold = SL_HOLD_BORROWED;
            out->features.hold = SL_HOLD_BORROWED;
        }
        SL_TRY(st, sl_features_normalize(&out->features, wanted, &out->scaling), done);
        SL_TRY(st, sl_features_measure(&out->features, &dataset->range), done);
        dataset->features = out->features;
        dataset->hashed = false;
        dataset->normalized = wanted;
        dataset->scaling = out->scaling;
        return SL_OK;
    }
    /* A dataset that was opened normalized needs no option again. */
    const bool says = s->model_file != NULL && sl_model_file_option(s->model_file, "normalize-features") != NULL;
    if (dataset->normalized != wanted && (says || wanted != SL_NORMALIZE_NONE)) {
        return sl_fail(SL_EINVAL, "--normalize-features: found a dataset opened with '%s', expected '%s'",
                       name_normalization(dataset->normalized), name_normalization(wanted));
    }
    if (of_model != NULL && of_model->n > 0 && !sl_scaling_equal(of_model, &dataset->scaling)) {
        return sl_fail(SL_EINVAL,
                       "features: found a dataset normalized by its own means and deviations, expected those of the "
                       "model in %.300s; open it without --normalize-features",
                       s->load);
    }
    st = SL_OK;
done:
    return st;
}

/* ---- names ---- */

/* Line i of a list of names; its length without the end of line. *length 0: no such line. */
static const char *line_of(const char *names, uint32_t i, size_t *length)
{
    for (; i > 0 && *names != '\0'; i--) {
        names += strcspn(names, "\n");
        names += *names != '\0';
    }
    *length = strcspn(names, "\n");
    return names;
}

/* For each of the n lines of `from`, its place among the lines of `to`; SL_NONE: it is not there. Equal lines have
 * different places. The search begins behind the last place, so lists of one order take one pass. *out is the caller's
 * (sl_free). */
static enum sl_status match_lines(const char *from, const char *to, uint32_t *n_out, uint32_t **out)
{
    const uint32_t n = (uint32_t)sl_text_count_lines(from);
    const uint32_t n_to = (uint32_t)sl_text_count_lines(to);
    bool *used = NULL;
    uint32_t *place = NULL;
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero((size_t)n_to + 1, sizeof *used, "names", &used), done);
    SL_TRY(st, sl_alloc((size_t)n + 1, sizeof *place, "names", &place), done);
    const char *name = from;
    const char *other = to;
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) {
        const size_t length = strcspn(name, "\n");
        place[i] = SL_NONE;
        for (uint32_t tries = 0; tries < n_to && place[i] == SL_NONE; tries++, k++) {
            if (k == n_to) {
                k = 0;
                other = to;
            }
            const size_t other_length = strcspn(other, "\n");
            if (!used[k] && length == other_length && memcmp(name, other, length) == 0) {
                place[i] = k;
                used[k] = true;
            }
            other += other_length + 1;
        }
        name += length + 1;
    }
    *n_out = n;
    *out = place;
    place = NULL;
done:
    sl_free(used);
    sl_free(place);
    return st;
}

/* ---- columns of types ---- */

struct types {
    uint32_t n;
    struct type {
        const char *name; /* not terminated */
        size_t length;
        uint32_t n, columns, first; /* vertices; columns, and the first of them */
    } * type;
    bool shares; /* all types have the same columns */
    uint64_t n_columns;
};

/* A number up to the next character that is none. False: no number. */
static bool take_number(const char **p, char end, uint32_t *out)
{
    uint64_t value = 0;
    const char *stop = *p;
    while (*stop >= '0' && *stop <= '9' && value < UINT32_MAX) {
        value = 10 * value + (uint64_t)(*stop++ - '0');
    }
    if (stop == *p || *stop != end || value >= UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)value;
    *p = stop + 1;
    return true;
}

/* Read the lines NAME,VERTICES,COLUMNS. SL_EFILE: other lines. The types point into the text. */
static enum sl_status read_types(const char *where, const char *text, struct types *out)
{
    const uint32_t n = (uint32_t)sl_text_count_lines(text);
    *out = (struct types){.n = n, .shares = true};
    enum sl_status st = sl_alloc((size_t)n + 1, sizeof *out->type, "types", &out->type);
    for (uint32_t t = 0; t < n && st == SL_OK; t++) {
        struct type *type = &out->type[t];
        *type = (struct type){.name = text, .length = strcspn(text, ",\n")};
        text += type->length;
        if (*text++ != ',' || !take_number(&text, ',', &type->n) || !take_number(&text, '\n', &type->columns)) {
            st = sl_fail(SL_EFILE, "%.300s: types: expected lines NAME,VERTICES,COLUMNS", where);
            sl_free(out->type);
            out->type = NULL;
            return st;
        }
        out->shares &= type->columns > 0 && type->columns == out->type[0].columns;
    }
    for (uint32_t t = 0; t < n && st == SL_OK; t++) {
        struct type *type = &out->type[t];
        type->first = out->shares ? 0 : (uint32_t)out->n_columns;
        out->n_columns = type->first + (uint64_t)(type->columns > 0 ? type->columns : type->n);
    }
    return st;
}

static const struct type *find_type(const struct types *types, const struct type *wanted)
{
    for (uint32_t t = 0; t < types->n; t++) {
        if (types->type[t].length == wanted->length && memcmp(types->type[t].name, wanted->name, wanted->length) == 0) {
            return &types->type[t];
        }
    }
    return NULL;
}

/* A type of the dataset has the columns that it has in the model. */
static enum sl_status check_type(const struct sl_settings *s, const struct type *here, const struct type *there)
{
    const int length = (int)sl_min_u64(here->length, 100);
    if (there == NULL) {
        return sl_fail(SL_EINVAL, "features: found type '%.*s', which the model in %.300s does not know", length,
                       here->name, s->load);
    }
    if (here->columns != there->columns) {
        return sl_fail(
            SL_EINVAL,
            "features: found %u columns of type '%.*s', expected %u, with which the model in %.300s was trained",
            here->columns, length, here->name, there->columns, s->load);
    }
    if (here->columns == 0 && here->n != there->n) {
        return sl_fail(SL_EINVAL,
                       "features: found %u vertices of type '%.*s', expected the %u of the model in %.300s: vertices "
                       "without features have trained vectors of their own",
                       here->n, length, here->name, there->n, s->load);
    }
    return SL_OK;
}

/* The features with the columns of each type where the model has them. */
static enum sl_status move_columns(const struct sl_features *from, const struct types *here, const struct types *there,
                                   struct sl_features *out)
{
    struct sl_features wide;
    uint64_t n = 0;
    uint32_t row = 0;
    enum sl_status st;
    const uint64_t most = sl_features_nonzeros(from);
    float block[SL_COLUMN_BLOCK];
    SL_TRY(st, sl_features_start_csr(from->n_rows, (uint32_t)there->n_columns, most, &wide), done);
    wide.offsets[0] = 0;
    for (uint32_t t = 0; t < here->n; t++) {
        const struct type *type = &here->type[t];
        const uint32_t first = find_type(there, type)->first;
        for (uint32_t i = 0; i < type->n && row < from->n_rows; i++) {
            if (from->offsets != NULL) {
                for (uint64_t k = from->offsets[row]; k < from->offsets[row + 1]; k++) {
                    wide.columns[n] = from->columns[k] - type->first + first;
                    wide.values[n++] = from->values[k];
                }
            } else {
                for (uint32_t c = 0; c < type->columns; c++) {
                    const uint64_t entry = (uint64_t)row * from->n_columns + type->first + c;
                    const float x = *sl_column_floats(&from->dense, entry, 1, block);
                    if (x != 0) {
                        wide.columns[n] = first + c;
                        wide.values[n++] = x;
                    }
                }
                if (type->columns == 0) {
                    wide.columns[n] = first + i;
                    wide.values[n++] = 1;
                }
            }
            wide.offsets[++row] = n;
        }
    }
    *out = wide;
    st = sl_features_settle(out);
done:
    return st;
}

/* Columns of types in another order, or of types that the dataset lacks. */
static enum sl_status match_types(const struct sl_settings *s, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const char *known = sl_model_file_text(s->model_file, SL_KEY_TYPES);
    struct types here = {0}, there = {0};
    uint64_t n_vertices = 0;
    bool moved;
    enum sl_status st = SL_OK;
    if (known == NULL || dataset->types == NULL || strcmp(known, dataset->types) == 0) {
        return SL_OK;
    }
    SL_TRY(st, read_types(s->load, known, &there), done);
    SL_TRY(st, read_types(dataset->name, dataset->types, &here), done);
    moved = here.n_columns != there.n_columns;
    for (uint32_t t = 0; t < here.n; t++) {
        const struct type *type = find_type(&there, &here.type[t]);
        SL_TRY(st, check_type(s, &here.type[t], type), done);
        moved |= type->first != here.type[t].first;
        n_vertices += here.type[t].n;
    }
    if (n_vertices != dataset->features.n_rows || here.n_columns != dataset->features.n_columns ||
        there.n_columns != s->model_file->n_features) {
        st = sl_fail(SL_EFILE, "%.300s: types: expected as many columns as the %u features of the model", s->load,
                     s->model_file->n_features);
        goto done;
    }
    if (moved) {
        SL_TRY(st, move_columns(&dataset->features, &here, &there, &out->features), done);
        dataset->features = out->features;
        dataset->hashed = false;
    }
    dataset->types = (char *)(uintptr_t)known;
done:
    sl_free(here.type);
    sl_free(there.type);
    return st;
}

/* ---- relations ---- */

/* The entries of a list of sources, to be sorted by relation, then by source. */
struct entry {
    uint32_t relation, source;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->relation != y->relation) {
        return x->relation > y->relation ? 1 : -1;
    }
    return (x->source > y->source) - (x->source < y->source);
}

/* The graph with other numbers of relations. place: of each relation without reverses, among n of the model. */
static enum sl_status renumber_edges(const struct sl_graph *from, bool reverses, const uint32_t *place, uint32_t n,
                                     struct sl_graph *out)
{
    const float *relations = sl_graph_weights(from);
    const uint32_t n_from = reverses ? from->n_relations / 2 : from->n_relations;
    struct entry *list = NULL;
    float *numbers = NULL;
    uint64_t longest = 0;
    enum sl_status st;
    for (uint32_t v = 0; v < from->n_vertices; v++) {
        longest = sl_max_u64(longest, from->offsets[v + 1] - from->offsets[v]);
    }
    *out = *from;
    out->sources = NULL;
    out->weights = (struct sl_column){0};
    out->n_relations = reverses ? 2 * n : n;
    SL_TRY(st, sl_alloc(longest + 1, sizeof *list, "edges", &list), done);
    SL_TRY(st, sl_alloc(from->n_edges + 1, sizeof *out->sources, "graph edges", &out->sources), done);
    SL_TRY(st, sl_alloc(from->n_edges + 1, sizeof *numbers, "relations of edges", &numbers), done);
    out->weights = sl_column_take(SL_DTYPE_F32, from->n_edges, 1, numbers);
    for (uint32_t v = 0; v < from->n_vertices; v++) {
        const uint64_t first = from->offsets[v];
        const uint64_t n_list = from->offsets[v + 1] - first;
        for (uint64_t i = 0; i < n_list; i++) {
            const uint32_t r = (uint32_t)relations[first + i];
            list[i].relation = r < n_from ? place[r] : n + place[r - n_from];
            list[i].source = from->sources[first + i];
        }
        qsort(list, n_list, sizeof *list, compare_entries);
        for (uint64_t i = 0; i < n_list; i++) {
            out->sources[first + i] = list[i].source;
            numbers[first + i] = (float)list[i].relation;
        }
    }
done:
    sl_free(list);
    return st;
}

/* Ends of the model's n relations. A relation that the dataset lacks may have all vertices as ends. */
static enum sl_status make_ends(const struct sl_link_ends *from, uint32_t n_from, uint32_t n_vertices,
                                const uint32_t *place, uint32_t n, struct sl_link_ends **out)
{
    enum sl_status st = sl_alloc((size_t)n + 1, sizeof **out, "ends of relations", out);
    for (uint32_t r = 0; st == SL_OK && r < n; r++) {
        (*out)[r] = (struct sl_link_ends){{0, 0}, {n_vertices, n_vertices}};
    }
    for (uint32_t r = 0; st == SL_OK && from != NULL && r < n_from; r++) {
        (*out)[place != NULL ? place[r] : r] = from[r];
    }
    return st;
}

static enum sl_status renumber_links(const struct sl_dataset *dataset, const uint32_t *place, uint32_t n,
                                     struct sl_link_split *out)
{
    const struct sl_link_split *from = &dataset->links;
    enum sl_status st;
    *out = (struct sl_link_split){.n_relations = n, .own_ids = from->own_ids, .directed = from->directed};
    SL_TRY(st, make_ends(from->ends, from->n_relations, dataset->graph.n_vertices, place, n, &out->ends), done);
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        struct sl_links *links = &out->list[list];
        SL_TRY(st, sl_links_copy(&from->list[list], links), done);
        for (uint32_t i = 0; links->relation != NULL && i < links->n; i++) {
            links->relation[i] = place[links->relation[i]];
        }
    }
done:
    return st;
}

/* Each relation of the dataset is one of the model's. The model may have more: they have no edges here. */
static enum sl_status check_names(const struct sl_settings *s, const char *what, const char *have, uint32_t n,
                                  const uint32_t *place, const char *known)
{
    const uint32_t n_known = (uint32_t)sl_text_count_lines(known);
    size_t length;
    for (uint32_t i = 0; i < n; i++) {
        if (place[i] == SL_NONE) {
            const char *name = line_of(have, i, &length);
            size_t n_first;
            const char *first = line_of(known, 0, &n_first);
            return sl_fail(SL_EINVAL,
                           "%s: found '%.*s', which the model in %.200s does not know; expected its %u: %.*s%s", what,
                           (int)sl_min_u64(length, 100), name, s->load, n_known, (int)sl_min_u64(n_first, 100), first,
                           n_known > 1 ? ", .." : "");
        }
    }
    for (uint32_t k = 0; k < n_known; k++) {
        bool there = false;
        for (uint32_t i = 0; i < n && !there; i++) {
            there = place[i] == k;
        }
        if (!there) {
            const char *name = line_of(known, k, &length);
            sl_notify(SL_NOTICE_WARNING, "%s '%.*s' of the model is not in the dataset: it has no edges there", what,
                      (int)sl_min_u64(length, 100), name);
        }
    }
    return SL_OK;
}

static bool is_identity(uint32_t n, const uint32_t *place, uint32_t n_model)
{
    for (uint32_t i = 0; i < n; i++) {
        if (place[i] != i) {
            return false;
        }
    }
    return n == n_model;
}

static enum sl_status match_relations(const struct sl_settings *s, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const struct sl_model_file *file = s->model_file;
    const char *known = sl_model_file_text(file, SL_KEY_RELATIONS);
    const bool reverses = !dataset->directed;
    uint32_t n_model = 0;
    enum sl_status st = SL_OK;
    if (dataset->graph.n_relations == 0) {
        return SL_OK;
    }
    if (known == NULL || dataset->relations == NULL) {
        if (file->n_relations > 0 && file->n_relations != dataset->graph.n_relations) {
            return sl_fail(SL_EINVAL,
                           "relations: found %u in '%s', expected %u, with which the model in %.300s was trained (with "
                           "the reverse ones)",
                           dataset->graph.n_relations, dataset->name, file->n_relations, s->load);
        }
        return SL_OK;
    }
    n_model = (uint32_t)sl_text_count_lines(known);
    if (n_model == 0 || n_model > SL_MAX_RELATIONS / 2) {
        return sl_fail(SL_EFILE, "%.300s: found %u names of relations, expected 1 to %u", s->load, n_model,
                       SL_MAX_RELATIONS / 2);
    }
    SL_TRY(st, match_lines(dataset->relations, known, &out->n_relations, &out->relation_of), done);
    SL_TRY(st, check_names(s, "relation", dataset->relations, out->n_relations, out->relation_of, known), done);
    if (is_identity(out->n_relations, out->relation_of, n_model)) {
        sl_free(out->relation_of);
        out->relation_of = NULL;
        goto done;
    }
    if (dataset->graph.n_relations != out->n_relations * (reverses ? 2U : 1U)) {
        st = sl_fail(SL_EINVAL, "relations: found %u names and %u relations of edges in '%s', expected as many",
                     out->n_relations, dataset->graph.n_relations, dataset->name);
        goto done;
    }
    SL_TRY(st, renumber_edges(&dataset->graph, reverses, out->relation_of, n_model, &out->graph), done);
    dataset->graph = out->graph;
    if (dataset->links.n_relations > 0) {
        SL_TRY(st, renumber_links(dataset, out->relation_of, n_model, &out->links), done);
        dataset->links = out->links;
    }
    dataset->relations = (char *)(uintptr_t)known;
    dataset->hashed = false;
done:
    return st;
}

/* A model of links scores pairs of a graph without lists of links. */
static enum sl_status allow_pairs(struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const uint32_t n_all = dataset->graph.n_relations;
    const uint32_t n = dataset->directed ? n_all : n_all / 2;
    const uint32_t n_ends = out->relation_of != NULL ? out->n_relations : n;
    enum sl_status st = SL_OK;
    if (sl_dataset_has_links(dataset) || n == 0) {
        return SL_OK;
    }
    out->links = (struct sl_link_split){.n_relations = n, .own_ids = true, .directed = dataset->directed};
    SL_TRY(st, make_ends(dataset->ends, n_ends, dataset->graph.n_vertices, out->relation_of, n, &out->links.ends),
           done);
    dataset->links = out->links;
done:
    return st;
}

/* ---- classes ---- */

/* Give labels the model's numbers of their names. Labels that the model does not know become unknown. */
static enum sl_status match_classes(const struct sl_settings *s, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    const char *known = sl_model_file_text(s->model_file, SL_KEY_CLASSES);
    const struct sl_targets *from = &dataset->targets;
    uint32_t *place = NULL;
    uint32_t n = 0, n_dropped = 0;
    enum sl_status st = SL_OK;
    if (known != NULL && sl_text_count_lines(known) != s->model_file->n_outputs) {
        return sl_fail(SL_EFILE, "%.300s: found %llu names of classes, expected %u, one for each output", s->load,
                       (unsigned long long)sl_text_count_lines(known), s->model_file->n_outputs);
    }
    if (known != NULL && dataset->class_names == NULL) {
        dataset->class_names = (char *)(uintptr_t)known;
        goto done;
    }
    if (known == NULL || from->type != SL_TARGET_CLASS) {
        goto done;
    }
    SL_TRY(st, match_lines(dataset->class_names, known, &n, &place), done);
    dataset->class_names = (char *)(uintptr_t)known;
    if (is_identity(n, place, (uint32_t)sl_text_count_lines(known))) {
        goto done;
    }
    SL_TRY(st, sl_targets_make_unknown(from->n_rows, &out->targets), done);
    out->targets.n_classes = (uint32_t)sl_text_count_lines(known);
    for (uint32_t v = 0; v < from->n_rows; v++) {
        const int32_t class = from->classes[v];
        if (class >= 0 && (uint32_t) class < n && place[class] != SL_NONE) {
            out->targets.classes[v] = (int32_t)place[class];
        }
        n_dropped += class >= 0 && out->targets.classes[v] < 0;
    }
    if (n_dropped > 0) {
        sl_notify(SL_NOTICE_WARNING,
                  "%s: %u vertices have classes that the model does not know: they have no share in scores",
                  dataset->name, n_dropped);
    }
    dataset->targets = out->targets;
    dataset->hashed = false;
done:
    sl_free(place);
    return st;
}

/* Vertices without a target leave the split. */
static enum sl_status drop_unknown(struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    struct sl_ids *lists[] = {&dataset->train, &dataset->valid, &dataset->test};
    enum sl_status st = SL_OK;
    for (int i = 0; i < 3; i++) {
        struct sl_ids kept = {.n = 0};
        SL_TRY(st, sl_alloc((size_t)lists[i]->n + 1, sizeof *kept.ids, "a split", &kept.ids), done);
        for (uint32_t k = 0; k < lists[i]->n; k++) {
            if (sl_targets_known(&dataset->targets, lists[i]->ids[k])) {
                kept.ids[kept.n++] = lists[i]->ids[k];
            }
        }
        out->lists[i] = *lists[i] = kept;
    }
done:
    return st;
}

/* Labels beyond the model's classes: a score would compare other things. */
static enum sl_status check_classes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    const uint32_t n = s->model_file->n_outputs;
    if (n > 0 && dataset->targets.type == SL_TARGET_CLASS && dataset->targets.n_classes > n) {
        return sl_fail(SL_EINVAL,
                       "labels: found class %u in '%s', expected at most %u: the model in %.300s has %u classes",
                       dataset->targets.n_classes - 1, dataset->name, n - 1, s->load, n);
    }
    return SL_OK;
}

static enum sl_status adapt_targets(const struct sl_settings *s, struct sl_adapted *out)
{
    struct sl_dataset *dataset = &out->dataset;
    enum sl_status st;
    SL_TRY(st, match_classes(s, out), done);
    if (out->targets.data != NULL) {
        SL_TRY(st, drop_unknown(out), done);
    }
    sl_targets_widen(&dataset->targets, s->model_file->n_outputs);
    st = check_classes(s, dataset);
done:
    return st;
}

/* ---- all ---- */

/* Whether a line is in a list. */
static bool has_line(const char *list, const char *line, size_t n)
{
    while (*list != '\0') {
        const size_t length = strcspn(list, "\n");
        if (length == n && memcmp(list, line, n) == 0) {
            return true;
        }
        list += length + (list[length] != '\0');
    }
    return false;
}

/* Columns of nodes.csv in another order are refused. Columns of other names may be the same. */
static enum sl_status match_columns(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    const char *there = sl_model_file_text(s->model_file, SL_KEY_FEATURE_NAMES);
    const char *here = dataset->feature_names;
    const char *all = there;
    if (there == NULL || here == NULL || sl_text_or(dataset->feature_words, "")[0] != '\0') {
        return SL_OK;
    }
    while (*here != '\0' && *there != '\0') {
        const size_t n = strcspn(here, "\n");
        const size_t m = strcspn(there, "\n");
        const bool same = n == m && memcmp(here, there, n) == 0;
        if (!same && has_line(all, here, n)) {
            return sl_fail(SL_EINVAL,
                           "features: found the column '%.*s' in '%s' where the model in %.300s has '%.*s'; put the "
                           "columns in the order of training",
                           (int)sl_min_u64(n, 100), here, dataset->name, s->load, (int)sl_min_u64(m, 100), there);
        }
        if (!same) {
            sl_notify(SL_NOTICE_WARNING, "%s: the column '%.*s' is taken for '%.*s' of the model", dataset->name,
                      (int)sl_min_u64(n, 100), here, (int)sl_min_u64(m, 100), there);
        }
        here += n + (here[n] != '\0');
        there += m + (there[m] != '\0');
    }
    return SL_OK;
}

static enum sl_status match_features(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    const uint32_t expected = s->model_file->n_features;
    if (expected > 0 && dataset->features.n_columns != expected) {
        return sl_fail(SL_EINVAL,
                       "features: found %u columns in '%s', expected %u, with which the model in %.300s was trained",
                       dataset->features.n_columns, dataset->name, expected, s->load);
    }
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
    enum sl_status st = SL_OK;
    if (same) {
        return SL_OK;
    }
    if (dataset->graph.n_relations > 0) {
        return sl_fail(SL_EINVAL,
                       "--directed: found '%s' with%s reverse relations, expected it with%s, as the model in "
                       "%.300s was trained",
                       dataset->name, dataset->directed ? "out" : "", dataset->directed ? "" : "out", s->load);
    }
    if (dataset->directed) {
        SL_TRY(st, sl_graph_is_symmetric(&dataset->graph, &same), done);
    }
    if (!same) {
        sl_notify(SL_NOTICE_WARNING,
                  "%s: the edges have %s reverse ones added, unlike those that the model was trained on (--directed)",
                  dataset->name, dataset->directed ? "no" : "their");
    }
done:
    return st;
}

enum sl_status sl_adapt(const struct sl_settings *s, const struct sl_dataset *dataset, struct sl_adapted *out)
{
    enum sl_status st;
    *out = (struct sl_adapted){.dataset = *dataset};
    if (s->model_file != NULL) {
        SL_TRY(st, match_types(s, out), fail);
        SL_TRY(st, match_features(s, &out->dataset), fail);
        SL_TRY(st, match_columns(s, dataset), fail);
        SL_TRY(st, match_direction(s, dataset), fail);
        SL_TRY(st, match_relations(s, out), fail);
        if (!sl_settings_trains_links(s)) {
            SL_TRY(st, adapt_targets(s, out), fail);
        }
    }
    if (sl_settings_trains_links(s) && s->epochs == 0) {
        SL_TRY(st, allow_pairs(out), fail);
    }
    SL_TRY(st, normalize(s, out), fail);
    return SL_OK;
fail:
    sl_adapted_free(out);
    return st;
}

void sl_adapted_free(struct sl_adapted *adapted)
{
    sl_features_free(&adapted->features); /* borrowed ones stay */
    sl_scaling_free(&adapted->scaling);
    sl_free(adapted->graph.sources);
    sl_column_free(&adapted->graph.weights);
    sl_link_split_free(&adapted->links);
    sl_targets_free(&adapted->targets);
    for (int i = 0; i < 3; i++) {
        sl_free(adapted->lists[i].ids);
    }
    sl_free(adapted->relation_of);
    *adapted = (struct sl_adapted){0};
}
