/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Datasets from arrays in memory: checks, then copies. Features stay in the caller's arrays. */
#include "data/arrays.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "data/features.h"
#include "data/leaks.h"
#include "data/names.h"
#include "data/random_split.h"
#include "data/text_lines.h"
#include "support/convert.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/text.h"

#define MOST_NAME 63 /* bytes */

/* ---- checks ---- */

static bool has_links(const struct sl_arrays *a)
{
    return a->train_links.n > 0 || a->valid_links.n > 0 || a->test_links.n > 0;
}

static enum sl_status check_numbers(struct sl_arrays *a)
{
    SL_FAIL_IF(a->name != NULL && strlen(a->name) > MOST_NAME, SL_EINVAL,
               "arrays: name has %zu bytes; expected at most %d", strlen(a->name), MOST_NAME);
    SL_FAIL_IF(a->n_classes > INT32_MAX, SL_EINVAL, "arrays: n_classes is %u; expected at most %d", a->n_classes,
               INT32_MAX);
    if (a->n_classes == 0 && a->labels != NULL && a->class_names != NULL) {
        a->n_classes = (uint32_t)sl_min_u64(sl_text_count_lines(a->class_names), INT32_MAX);
    }
    SL_FAIL_IF(a->n_vertices == 0 || a->n_features == 0, SL_EINVAL,
               "arrays: found %u vertices, %u features; expected some of each", a->n_vertices, a->n_features);
    SL_FAIL_IF(a->n_train > 0 && has_links(a), SL_EINVAL,
               "arrays: found %u training vertices and links; expected one of them", a->n_train);
    if (a->split != NULL && (a->n_train > 0 || a->n_valid > 0 || a->n_test > 0 || has_links(a))) {
        return sl_fail(SL_EINVAL,
                       "arrays: found a split '%.100s', and vertices or links of a split; expected one of them",
                       a->split);
    }
    return SL_OK;
}

static enum sl_status check_present(const struct sl_arrays *a)
{
    if ((a->offsets == NULL) == (a->destinations == NULL) && (a->n_edges > 0 || a->offsets != NULL)) {
        return sl_fail(SL_EINVAL, "arrays: found %s of offsets and destinations; expected one of them",
                       a->offsets == NULL ? "none" : "both");
    }
    const struct {
        const char *name;
        bool is_missing;
    } arrays[] = {
        {"sources", a->n_edges > 0 && a->sources == NULL},
        {"features", a->features == NULL && a->feature_offsets == NULL},
        {"feature_columns", a->feature_offsets != NULL && a->feature_columns == NULL},
        {"feature_values", a->feature_offsets != NULL && a->feature_values == NULL},
        {"train", a->n_train > 0 && a->train == NULL},
        {"valid", a->n_valid > 0 && a->valid == NULL},
        {"test", a->n_test > 0 && a->test == NULL},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        SL_FAIL_IF(arrays[i].is_missing, SL_EINVAL, "arrays: %s is NULL; expected an array", arrays[i].name);
    }
    if (a->targets != NULL && (a->labels != NULL || a->n_targets == 0 || a->n_targets > SL_MAX_CLASSES)) {
        return sl_fail(SL_EINVAL, "arrays: found targets with %s and n_targets %u; expected no labels, and 1 to %d",
                       a->labels != NULL ? "labels" : "no labels", a->n_targets, SL_MAX_CLASSES);
    }
    return SL_OK;
}

static enum sl_status check_ascending(const char *name, uint32_t n, const uint64_t *offsets)
{
    for (uint32_t v = 0; v < n; v++) {
        SL_FAIL_IF(offsets[v] > offsets[v + 1] || (v == 0 && offsets[0] != 0), SL_EINVAL,
                   "arrays: %s[%u] is %llu and %s[%u] %llu; expected 0 first, ascending", name, v,
                   (unsigned long long)offsets[v], name, v + 1, (unsigned long long)offsets[v + 1]);
    }
    return SL_OK;
}

static enum sl_status check_offsets(const struct sl_arrays *a)
{
    SL_CHECK(check_ascending("offsets", a->n_vertices, a->offsets));
    SL_FAIL_IF(a->offsets[a->n_vertices] != a->n_edges, SL_EINVAL,
               "arrays: offsets end at %llu; expected %llu, the number of edges",
               (unsigned long long)a->offsets[a->n_vertices], (unsigned long long)a->n_edges);
    return SL_OK;
}

static enum sl_status check_targets(const struct sl_arrays *a)
{
    size_t n = (size_t)a->n_vertices * a->n_targets;
    for (size_t i = 0; i < n; i++) {
        SL_FAIL_IF(isinf(a->targets[i]), SL_EINVAL,
                   "arrays: target %zu of vertex %zu is %g; expected a finite number, or nan", i % a->n_targets,
                   i / a->n_targets, (double)a->targets[i]);
    }
    return SL_OK;
}

static enum sl_status check_labels(const struct sl_arrays *a)
{
    int32_t most = (int32_t)(a->n_classes > 0 ? a->n_classes : SL_MAX_CLASSES) - 1;
    for (uint32_t v = 0; v < a->n_vertices; v++) {
        SL_FAIL_IF((a->labels[v] < -1 && a->labels[v] != SL_IGNORED_CLASS) || a->labels[v] > most, SL_EINVAL,
                   "arrays: labels[%u] is %d; expected -1 (unknown), or a class of 0 to %d", v, a->labels[v], most);
    }
    return SL_OK;
}

static enum sl_status check_sparse_row(const struct sl_arrays *a, uint32_t v)
{
    for (uint64_t k = a->feature_offsets[v]; k < a->feature_offsets[v + 1]; k++) {
        uint32_t column = a->feature_columns[k];
        if (column >= a->n_features || (k > a->feature_offsets[v] && column <= a->feature_columns[k - 1])) {
            return sl_fail(SL_EINVAL, "arrays: feature_columns[%llu] of vertex %u is %u; expected ascending, below %u",
                           (unsigned long long)k, v, column, a->n_features);
        }
        SL_FAIL_IF(!isfinite(a->feature_values[k]), SL_EINVAL,
                   "arrays: feature %u of vertex %u is %g; expected a finite number", column, v,
                   (double)a->feature_values[k]);
    }
    return SL_OK;
}

static enum sl_status check_sparse(const struct sl_arrays *a)
{
    SL_CHECK(check_ascending("feature_offsets", a->n_vertices, a->feature_offsets));
    for (uint32_t v = 0; v < a->n_vertices; v++) {
        SL_CHECK(check_sparse_row(a, v));
    }
    return SL_OK;
}

#define FEATURE_DTYPES                                                                                                 \
    "float32, float16, bfloat16, int8, float64, uint8, int16, uint16, int32, uint32, int64, uint64 or bool"

static enum sl_status find_dtype(const struct sl_arrays *a, enum sl_dtype *out)
{
    const char *name = sl_text_or(a->feature_dtype, "float32");
    for (int i = 0; i < SL_N_DTYPES; i++) {
        if (strcmp(name, sl_dtype_name((enum sl_dtype)i)) == 0) {
            *out = (enum sl_dtype)i;
            return SL_OK;
        }
    }
    return sl_fail(SL_EINVAL, "arrays: feature_dtype is '%.40s'; expected " FEATURE_DTYPES, name);
}

/* Convert features of a dtype that no kernel reads to float32. *out (sl_free) has them, and `a` refers to them; NULL:
 * they stay as they are. */
static enum sl_status widen_features(struct sl_arrays *a, float **out)
{
    size_t n = (size_t)a->n_vertices * a->n_features;
    enum sl_dtype dtype = SL_DTYPE_F32;
    if (a->features != NULL) {
        SL_CHECK(find_dtype(a, &dtype));
    }
    if (sl_dtype_is_convertible(dtype)) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc(n, sizeof **out, "features", out));
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = (float)sl_dtype_number(dtype, a->features, i);
    }
    a->features = *out;
    a->feature_dtype = NULL;
    return SL_OK;
}

/* The caller's dense table. */
static enum sl_status find_dense(const struct sl_arrays *a, struct sl_column *out)
{
    enum sl_dtype dtype = SL_DTYPE_F32;
    SL_CHECK(find_dtype(a, &dtype));
    *out = sl_column_take(dtype, a->n_vertices, a->n_features, (void *)(uintptr_t)a->features);
    out->hold = SL_HOLD_BORROWED;
    out->scale = a->feature_scale != 0 ? a->feature_scale : 1;
    SL_FAIL_IF(!isfinite(out->scale), SL_EINVAL, "arrays: feature_scale is %g; expected a finite number",
               (double)out->scale);
    return SL_OK;
}

static enum sl_status check_dense(const struct sl_arrays *a)
{
    struct sl_column dense;
    float block[1];
    SL_CHECK(find_dense(a, &dense));
    uint64_t i = sl_column_first_infinite(&dense);
    SL_FAIL_IF(i < dense.n_rows * dense.width, SL_EINVAL,
               "arrays: feature %u of vertex %u is %g; expected a finite number", (uint32_t)(i % a->n_features),
               (uint32_t)(i / a->n_features), (double)*sl_column_floats(&dense, i, 1, block));
    return SL_OK;
}

static enum sl_status check_features(const struct sl_arrays *a)
{
    if (a->features == NULL) {
        return check_sparse(a);
    }
    SL_FAIL_IF(a->feature_offsets != NULL, SL_EINVAL,
               "arrays: found both of features and feature_offsets; expected one of them");
    return check_dense(a);
}

/* ---- parts ---- */

/* The destinations of edges in the form of offsets. */
static enum sl_status list_destinations(const struct sl_arrays *a, uint32_t **out)
{
    SL_CHECK(check_offsets(a));
    SL_CHECK(sl_alloc((size_t)a->n_edges + 1, sizeof **out, "edges", out));
    for (uint32_t v = 0; v < a->n_vertices; v++) {
        for (uint64_t e = a->offsets[v]; e < a->offsets[v + 1]; e++) {
            (*out)[e] = v;
        }
    }
    return SL_OK;
}

/* Copy the features of the edges: the graph adds up rows of duplicates. */
static enum sl_status copy_edge_features(const struct sl_arrays *a, struct sl_edge_features *out)
{
    const size_t n = (size_t)a->n_edges * a->n_edge_features;
    SL_FAIL_IF((a->n_edge_features > 0) != (a->edge_features != NULL), SL_EINVAL,
               "arrays: found n_edge_features %u and %s edge_features; expected both or neither", a->n_edge_features,
               a->edge_features != NULL ? "an array of" : "no");
    if (a->edge_features == NULL) {
        return SL_OK;
    }
    for (size_t i = 0; i < n; i++) {
        SL_FAIL_IF(!isfinite(a->edge_features[i]), SL_EINVAL,
                   "arrays: feature %zu of edge %zu is %g; expected a finite number", i % a->n_edge_features,
                   i / a->n_edge_features, (double)a->edge_features[i]);
    }
    *out = (struct sl_edge_features){.n_rows = a->n_edges, .n_columns = a->n_edge_features};
    SL_CHECK(sl_alloc(n + 1, sizeof *out->values, "features of edges", &out->values));
    memcpy(out->values, a->edge_features, n * sizeof *out->values);
    return SL_OK;
}

static enum sl_status make_graph(const struct sl_arrays *a, const struct sl_edge_features *features,
                                 struct sl_graph *out)
{
    const bool typed = a->edge_relations != NULL;
    const struct sl_edge_list edges = {.n_vertices = a->n_vertices,
                                       .n = a->n_edges,
                                       .from = a->sources,
                                       .to = a->destinations,
                                       .weights = a->edge_weights,
                                       .relations = a->edge_relations,
                                       .n_relations = typed ? a->n_relations : 0,
                                       .reverse = !a->directed,
                                       .features = features->values,
                                       .n_columns = features->n_columns};
    return sl_graph_build_list(&edges, out);
}

/* Names are what models are matched by. */
static enum sl_status refuse_repeated(const char *lines, const char *member)
{
    SL_OWNED(sl_names_free) struct sl_names names = {0};
    SL_CHECK(sl_names_read(lines, &names));
    for (uint32_t i = 0; i < names.n; i++) {
        const struct sl_text_cell name = names.texts[i];
        SL_FAIL_IF(sl_names_find(&names, name) != i, SL_EINVAL, "arrays: %s has '%.*s' twice; expected each name once",
                   member, (int)sl_min_u64(name.n, 100), name.p);
    }
    return SL_OK;
}

/* Copy the names of the relations: a line with two commas for each. */
static enum sl_status copy_names(const struct sl_arrays *a, char **out)
{
    uint32_t n = 0;
    if (a->relation_names == NULL) {
        return SL_OK;
    }
    for (const char *line = a->relation_names; *line != '\0'; n++) {
        const size_t length = strcspn(line, "\n");
        uint32_t n_commas = 0;
        for (size_t i = 0; i < length; i++) {
            n_commas += line[i] == ',';
        }
        SL_FAIL_IF(n_commas != 2 || line[length] != '\n', SL_EINVAL,
                   "arrays: line %u of relation_names is '%.*s'; expected SOURCE,NAME,DESTINATION and an end "
                   "of line",
                   n, (int)sl_min_u64(length, 100), line);
        line += length + 1;
    }
    SL_FAIL_IF(a->edge_relations == NULL || n != a->n_relations, SL_EINVAL,
               "arrays: relation_names has %u lines; expected %u, the number of relations", n,
               a->edge_relations == NULL ? 0 : a->n_relations);
    SL_CHECK(refuse_repeated(a->relation_names, "relation_names"));
    return sl_strdup(a->relation_names, out);
}

/* Describe the types of vertices as struct sl_dataset does. */
static enum sl_status describe_types(const struct sl_arrays *a, char **out)
{
    uint64_t n_vertices = 0, n_columns = 0;
    bool share = true;
    if (a->n_types == 0) {
        return SL_OK;
    }
    SL_FAIL_IF(a->type_names == NULL || a->type_vertices == NULL || a->type_columns == NULL, SL_EINVAL,
               "arrays: n_types is %u; expected type_names, type_vertices and type_columns", a->n_types);
    for (uint32_t t = 0; t < a->n_types; t++) {
        share &= a->type_columns[t] > 0 && a->type_columns[t] == a->type_columns[0];
        n_vertices += a->type_vertices[t];
        n_columns += a->type_columns[t] > 0 ? a->type_columns[t] : a->type_vertices[t];
    }
    n_columns = share ? a->type_columns[0] : n_columns;
    SL_FAIL_IF(n_vertices != a->n_vertices || n_columns != a->n_features, SL_EINVAL,
               "arrays: types have %llu vertices and %llu columns; expected %u and %u", (unsigned long long)n_vertices,
               (unsigned long long)n_columns, a->n_vertices, a->n_features);
    const uint64_t n_lines = sl_text_count_lines(a->type_names);
    SL_FAIL_IF(n_lines != a->n_types || strchr(a->type_names, ',') != NULL, SL_EINVAL,
               "arrays: type_names has %llu lines; expected %u, a name without commas on each",
               (unsigned long long)n_lines, a->n_types);
    const size_t bytes = strlen(a->type_names) + (size_t)a->n_types * 24 + 1;
    SL_CHECK(sl_alloc_zero(bytes, 1, "names of types", out));
    const char *name = a->type_names;
    for (size_t t = 0, used = 0; t < a->n_types; t++) {
        const size_t length = strcspn(name, "\n");
        used += (size_t)snprintf(*out + used, bytes - used, "%.*s,%u,%u\n", (int)length, name, a->type_vertices[t],
                                 a->type_columns[t]);
        name += length + 1;
    }
    return SL_OK;
}

/* Copy `expected` lines, one for each `what`. lines NULL: none. */
static enum sl_status copy_lines(const char *member, const char *lines, uint32_t expected, const char *what, char **out)
{
    if (lines == NULL) {
        return SL_OK;
    }
    const uint64_t n = sl_text_count_lines(lines);
    const char *last = strrchr(lines, '\n');
    SL_FAIL_IF(last != NULL && last[1] != '\0', SL_EINVAL,
               "arrays: %s ends in '%.40s'; expected an end of line behind it", member, last + 1);
    SL_FAIL_IF(n != expected, SL_EINVAL, "arrays: %s has %llu lines; expected %u, a line for each %s", member,
               (unsigned long long)n, expected, what);
    return sl_strdup(lines, out);
}

/* `out` has its targets. */
static enum sl_status copy_class_names(const struct sl_arrays *a, struct sl_dataset *out)
{
    const char *what = out->targets.type == SL_TARGET_CLASS ? "class" : "target";
    SL_CHECK(copy_lines("class_names", a->class_names, sl_targets_outputs(&out->targets), what, &out->class_names));
    return refuse_repeated(sl_text_or(a->class_names, ""), "class_names");
}

/* ---- links ---- */

/* The lists by name. */
struct named_links {
    const char *name;
    const struct sl_array_links *links;
};

static void name_lists(const struct sl_arrays *a, struct named_links out[SL_N_LINK_LISTS])
{
    out[SL_LINKS_TRAIN] = (struct named_links){"train_links", &a->train_links};
    out[SL_LINKS_VALID] = (struct named_links){"valid_links", &a->valid_links};
    out[SL_LINKS_TEST] = (struct named_links){"test_links", &a->test_links};
    out[SL_LINKS_VALID_NEGATIVE] = (struct named_links){"valid_negatives", &a->valid_negatives};
    out[SL_LINKS_TEST_NEGATIVE] = (struct named_links){"test_negatives", &a->test_negatives};
}

/* Lists have ends, and relations exactly if the edges have. */
static enum sl_status check_lists(const struct sl_arrays *a)
{
    const bool typed = a->n_edges > 0 ? a->edge_relations != NULL : a->train_links.relations != NULL;
    struct named_links lists[SL_N_LINK_LISTS];
    name_lists(a, lists);
    for (int i = 0; i < SL_N_LINK_LISTS; i++) {
        const struct sl_array_links *links = lists[i].links;
        SL_FAIL_IF(links->n > 0 && (links->from == NULL || links->to == NULL), SL_EINVAL,
                   "arrays: %s.%s is NULL; expected an array", lists[i].name, links->from == NULL ? "from" : "to");
        SL_FAIL_IF(links->n > 0 && (links->relations != NULL) != typed, SL_EINVAL,
                   "arrays: found %s with%s relations; expected as the edges, with%s", lists[i].name,
                   typed ? "out" : "", typed ? "" : "out");
    }
    return SL_OK;
}

/* If one of edges and training links is absent, it is the other. */
static enum sl_status join_links(struct sl_arrays *a)
{
    struct sl_array_links *train = &a->train_links;
    if (!has_links(a)) {
        return SL_OK;
    }
    SL_CHECK(check_lists(a));
    if (a->n_edges == 0) {
        a->n_edges = train->n;
        a->sources = train->from;
        a->destinations = train->to;
        a->edge_relations = train->relations;
        a->edge_weights = NULL; /* of no edge */
        a->edge_features = NULL;
        a->n_edge_features = 0;
    } else if (train->n == 0 && a->n_edges < SL_NONE) {
        *train = (struct sl_array_links){(uint32_t)a->n_edges, a->sources, a->destinations, a->edge_relations};
    }
    SL_FAIL_IF(train->n == 0, SL_EINVAL,
               "arrays: found no training links and %llu edges; expected 1 to 2^32 - 2 of either",
               (unsigned long long)a->n_edges);
    return SL_OK;
}

/* Check link i of a list against the ends of its relation. */
static enum sl_status check_link(const struct sl_link_split *split, const char *name, const struct sl_links *links,
                                 uint32_t i, uint32_t n_vertices)
{
    struct sl_link_ends ends = {{0, 0}, {n_vertices, n_vertices}};
    SL_FAIL_IF(links->relation != NULL && links->relation[i] >= split->n_relations, SL_EINVAL,
               "arrays: %s.relations[%u] is %u; expected a relation below %u", name, i, links->relation[i],
               split->n_relations);
    if (links->relation != NULL) {
        ends = split->ends[links->relation[i]];
    }
    for (int end = 0; end < 2; end++) {
        const sl_vertex id = end == 0 ? links->from[i] : links->to[i];
        SL_FAIL_IF(id < ends.first[end] || id - ends.first[end] >= ends.n[end], SL_EINVAL,
                   "arrays: %s.%s[%u] is %u; expected an id of %u .. %u", name, end == 0 ? "from" : "to", i, id,
                   ends.first[end], ends.first[end] + ends.n[end] - 1);
    }
    return SL_OK;
}

static enum sl_status copy_links(const struct sl_array_links *from, const char *name, uint32_t n_vertices,
                                 const struct sl_link_split *split, struct sl_links *out)
{
    const struct sl_links given = {from->n, (sl_vertex *)(uintptr_t)from->from, (sl_vertex *)(uintptr_t)from->to, NULL};
    const bool typed = split->ends != NULL;
    if (from->n == 0) {
        return SL_OK;
    }
    SL_CHECK(sl_links_copy(&given, out));
    if (typed) {
        SL_CHECK(sl_alloc(from->n, sizeof *out->relation, "relations of links", &out->relation));
    }
    for (uint32_t i = 0; i < from->n; i++) {
        if (typed) {
            out->relation[i] = from->relations[i];
        }
        SL_CHECK(check_link(split, name, out, i, n_vertices));
    }
    return SL_OK;
}

/* Copy the ends of the relations, or let all vertices be ends. */
static enum sl_status copy_ends(const struct sl_arrays *a, struct sl_link_ends **out)
{
    if (a->edge_relations == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_links_copy_ends(NULL, a->n_relations, a->n_vertices, out));
    for (uint32_t r = 0; a->relation_ends != NULL && r < a->n_relations; r++) {
        struct sl_link_ends *ends = &(*out)[r];
        for (uint32_t end = 0; end < 2; end++) {
            ends->first[end] = a->relation_ends[4 * r + end];
            ends->n[end] = a->relation_ends[4 * r + 2 + end];
            SL_FAIL_IF((uint64_t)ends->first[end] + ends->n[end] > a->n_vertices, SL_EINVAL,
                       "arrays: relation_ends has %u ids from %u on for relation %u; expected ids of 0 .. %u",
                       ends->n[end], ends->first[end], r, a->n_vertices - 1);
        }
    }
    return SL_OK;
}

/* Each link has a block of `each` negatives, or two. */
static enum sl_status check_each(const char *name, uint32_t each, uint32_t n_links, uint32_t n_negatives)
{
    const uint64_t n = (uint64_t)each * n_links;
    SL_FAIL_IF(each > 0 && (n == 0 || (n_negatives != n && n_negatives != 2 * n)), SL_EINVAL,
               "arrays: found %u %s_negatives with %s_each %u; expected %llu for %u links, or twice as many",
               n_negatives, name, name, each, (unsigned long long)n, n_links);
    return SL_OK;
}

static enum sl_status make_links(const struct sl_arrays *a, struct sl_link_split *out)
{
    struct named_links lists[SL_N_LINK_LISTS];
    if (!has_links(a)) {
        return SL_OK;
    }
    name_lists(a, lists);
    out->directed = a->directed;
    SL_CHECK(copy_ends(a, &out->ends));
    if (out->ends != NULL) {
        out->n_relations = a->n_relations;
        out->own_ids = true; /* relations without links may have edges */
    }
    for (int i = 0; i < SL_N_LINK_LISTS; i++) {
        SL_CHECK(copy_links(lists[i].links, lists[i].name, a->n_vertices, out, &out->list[i]));
    }
    SL_CHECK(check_each("valid", a->valid_each, a->valid_links.n, a->valid_negatives.n));
    SL_CHECK(check_each("test", a->test_each, a->test_links.n, a->test_negatives.n));
    out->n_each[SL_LINKS_VALID_NEGATIVE] = a->valid_each;
    out->n_each[SL_LINKS_TEST_NEGATIVE] = a->test_each;
    return SL_OK;
}

static enum sl_status settle_leaks(const struct sl_arrays *a, struct sl_dataset *out)
{
    enum sl_status st = sl_leaks_settle(out, a->drop_leaks, "arrays");
    return st == SL_EFILE ? SL_EINVAL : st;
}

/* ---- split, features, targets ---- */

static enum sl_status mark_set(const struct sl_targets *targets, const char *name, const struct sl_ids *ids,
                               uint8_t set, uint8_t *set_of)
{
    for (uint32_t i = 0; i < ids->n; i++) {
        uint32_t v = ids->ids[i];
        const char *wrong = NULL;
        if (v >= targets->n_rows) {
            wrong = "is not there";
        } else if (set_of[v] != 0) {
            wrong = "the split has already";
        } else if (!sl_targets_known(targets, v)) {
            wrong = targets->type == SL_TARGET_CLASS ? "has no label" : "has no known target";
        }
        SL_FAIL_IF(wrong != NULL, SL_EINVAL,
                   "arrays: %s[%u] is vertex %u, which %s; expected vertices with %s, each once", name, i, v, wrong,
                   targets->type == SL_TARGET_CLASS ? "labels" : "known targets");
        set_of[v] = set;
    }
    return SL_OK;
}

static enum sl_status make_split(const struct sl_arrays *a, struct sl_dataset *out)
{
    const struct sl_ids given[] = {{a->n_train, (sl_vertex *)(uintptr_t)a->train},
                                   {a->n_valid, (sl_vertex *)(uintptr_t)a->valid},
                                   {a->n_test, (sl_vertex *)(uintptr_t)a->test}};
    SL_FREED uint8_t *set_of = NULL;
    SL_CHECK(sl_alloc_zero(a->n_vertices, 1, "a split", &set_of));
    for (int i = 0; i < SL_N_LISTS; i++) {
        SL_CHECK(mark_set(&out->targets, sl_list_names[i], &given[i], (uint8_t)(i + 1), set_of));
    }
    for (int i = 0; i < SL_N_LISTS; i++) {
        SL_CHECK(sl_ids_list(set_of, a->n_vertices, (uint8_t)(i + 1), &out->lists[i]));
    }
    return SL_OK;
}

static enum sl_status draw_split(const struct sl_arrays *a, struct sl_dataset *out)
{
    struct sl_random_split rule;
    enum sl_status st = sl_random_split_parse(a->split, a->split_seed, &rule);
    if (st != SL_OK || a->split == NULL) {
        return st;
    }
    SL_FAIL_IF(!rule.wanted, SL_EINVAL,
               "arrays: split is '%.100s'; expected random:TRAIN,VALID,TEST, as random:60,20,20", a->split);
    if (a->labels == NULL && a->targets == NULL) {
        return sl_random_split_links(&rule, out);
    }
    return sl_random_split_vertices(&rule, out);
}

/* Borrow the caller's arrays. If their form does not suit the number of non-zeros, a copy of the other form replaces
 * them. */
static enum sl_status make_features(const struct sl_arrays *a, struct sl_dataset *out)
{
    struct sl_features *features = &out->features;
    *features = (struct sl_features){.n_rows = a->n_vertices, .n_columns = a->n_features};
    if (a->features != NULL) {
        SL_CHECK(find_dense(a, &features->dense));
    } else {
        features->hold = SL_HOLD_BORROWED;
        features->offsets = (uint64_t *)(uintptr_t)a->feature_offsets;
        features->columns = (uint32_t *)(uintptr_t)a->feature_columns;
        features->values = (float *)(uintptr_t)a->feature_values;
    }
    SL_CHECK(sl_features_measure(features, &out->range));
    return sl_features_settle(features);
}

static enum sl_status copy_targets(const struct sl_arrays *a, struct sl_targets *out)
{
    struct sl_targets made = {.type = SL_TARGET_CLASS, .n_rows = a->n_vertices, .width = 1};
    const void *from = a->labels;
    if (a->targets != NULL) {
        made.type = SL_TARGET_NUMBER;
        made.width = a->n_targets;
        from = a->targets;
    }
    if (from == NULL) {
        return sl_targets_make_unknown(a->n_vertices, out);
    }
    SL_CHECK(sl_alloc((size_t)a->n_vertices * made.width, SL_TARGET_BYTES, "targets", &made.data));
    memcpy(made.data, from, sl_targets_bytes(&made));
    if (made.type == SL_TARGET_CLASS) {
        for (uint32_t v = 0; v < made.n_rows; v++) {
            made.classes[v] = made.classes[v] < 0 ? SL_UNKNOWN_CLASS : made.classes[v];
        }
        made.n_classes = a->n_classes > 0 ? a->n_classes : sl_targets_count_classes(&made);
    }
    *out = made;
    return SL_OK;
}

/* ---- the dataset ---- */

static enum sl_status check_values(const struct sl_arrays *a)
{
    if (a->targets != NULL) {
        return check_targets(a);
    }
    return a->labels == NULL ? SL_OK : check_labels(a);
}

/* destinations: of edges in the form of offsets; sl_free. */
static enum sl_status fill(struct sl_arrays *a, uint32_t **destinations, struct sl_dataset *out)
{
    snprintf(out->name, sizeof out->name, "%s", sl_text_or(a->name, "arrays"));
    snprintf(out->split, sizeof out->split, "arrays");
    out->directed = a->directed;
    out->serial = sl_dataset_serial();
    SL_CHECK(check_numbers(a));
    SL_CHECK(check_present(a));
    SL_CHECK(check_values(a));
    SL_CHECK(check_features(a));
    if (a->offsets != NULL) {
        SL_CHECK(list_destinations(a, destinations));
        a->destinations = *destinations;
    }
    SL_CHECK(join_links(a));
    SL_CHECK(copy_edge_features(a, &out->edge_features));
    SL_CHECK(make_graph(a, &out->edge_features, &out->graph));
    SL_CHECK(copy_names(a, &out->relations));
    SL_CHECK(describe_types(a, &out->types));
    SL_CHECK(copy_ends(a, &out->ends));
    SL_CHECK(make_links(a, &out->links));
    SL_CHECK(settle_leaks(a, out));
    SL_CHECK(copy_targets(a, &out->targets));
    SL_CHECK(copy_class_names(a, out));
    SL_CHECK(copy_lines("feature_names", a->feature_names, a->n_features, "column", &out->feature_names));
    SL_CHECK(make_split(a, out));
    SL_CHECK(make_features(a, out));
    return draw_split(a, out);
}

enum sl_status sl_arrays_copy(const struct sl_arrays *from, struct sl_arrays *out)
{
    const size_t least = offsetof(struct sl_arrays, targets) + sizeof from->targets; /* the struct's first form */
    SL_FAIL_IF(from->size < least || from->size > sizeof *from, SL_EINVAL,
               "arrays: size is %zu; expected %zu, sizeof(struct sl_arrays) of this library", from->size, sizeof *from);
    *out = (struct sl_arrays){0};
    memcpy(out, from, from->size);
    return SL_OK;
}

static void delete_dataset(struct sl_dataset **dataset)
{
    sl_dataset_delete(*dataset);
}

enum sl_status sl_dataset_new(const struct sl_arrays *arrays, struct sl_dataset **out)
{
    SL_IN_C_LOCALE;
    SL_OWNED(delete_dataset) struct sl_dataset *dataset = NULL;
    struct sl_arrays copy;
    SL_FREED float *widened = NULL;
    SL_FREED uint32_t *destinations = NULL;
    *out = NULL;
    SL_CHECK(sl_arrays_copy(arrays, &copy));
    SL_CHECK(widen_features(&copy, &widened));
    SL_CHECK(sl_alloc_zero(1, sizeof *dataset, "a dataset", &dataset));
    SL_CHECK(fill(&copy, &destinations, dataset));
    if (widened != NULL && dataset->features.dense.data == widened) {
        dataset->features.dense.hold = SL_HOLD_OWNED;
        widened = NULL;
    }
    *out = SL_TAKE(dataset);
    return SL_OK;
}

void sl_dataset_delete(struct sl_dataset *dataset)
{
    if (dataset != NULL) {
        sl_dataset_free(dataset);
        sl_free(dataset);
    }
}
