/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The memory of a loaded dataset: arrays of its own, or a map of the cache file. */
#include "data/dataset.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "data/features.h"
#include "support/compare.h"
#include "support/file.h"
#include "support/memory.h"

const char *const sl_list_names[SL_N_LISTS] = {"train", "valid", "test"};

static bool is_mask(uint32_t n_vertices, uint64_t n, const sl_vertex *entries)
{
    bool mask = n == n_vertices && n > 2;
    for (uint64_t i = 0; mask && i < n; i++) {
        mask = entries[i] <= 1;
    }
    return mask;
}

/* Sort ids. *n: those that are left. */
static enum sl_status sort_ids(const char *path, uint32_t n_vertices, uint64_t *n, sl_vertex *ids)
{
    qsort(ids, *n, sizeof *ids, sl_order_u32);
    while (*n > 0 && ids[*n - 1] == SL_NONE) {
        --*n;
    }
    for (uint64_t i = 1; i < *n; i++) {
        SL_FAIL_IF(ids[i] == ids[i - 1], SL_EFILE,
                   "%s: vertex %u is listed twice, expected each id once, or a mask of %u vertices", path, ids[i],
                   n_vertices);
    }
    return SL_OK;
}

enum sl_status sl_ids_take(const char *path, uint32_t n_vertices, bool mask, uint64_t n, sl_vertex *entries,
                           struct sl_ids *out)
{
    SL_FREED sl_vertex *ids = entries;
    if (mask || is_mask(n_vertices, n, ids)) {
        const uint64_t n_entries = n;
        n = 0;
        for (uint64_t v = 0; v < n_entries; v++) {
            if (ids[v] != 0) {
                ids[n++] = (sl_vertex)v;
            }
        }
    } else {
        SL_CHECK(sort_ids(path, n_vertices, &n, ids));
    }
    SL_CHECK(sl_realloc(&ids, n, sizeof *ids, "split"));
    *out = (struct sl_ids){.n = (uint32_t)n, .ids = SL_TAKE(ids)};
    return SL_OK;
}

bool sl_ids_hold(const struct sl_ids *ids, sl_vertex v)
{
    return ids->n > 0 && bsearch(&v, ids->ids, ids->n, sizeof v, sl_order_u32) != NULL;
}

enum sl_status sl_ids_list(const unsigned char *set_of, uint32_t n, unsigned char set, struct sl_ids *out)
{
    struct sl_ids list = {.n = 0};
    for (uint32_t v = 0; v < n; v++) {
        list.n += set_of[v] == set;
    }
    SL_CHECK(sl_alloc((size_t)list.n + 1, sizeof *list.ids, "a split", &list.ids));
    *out = list;
    list.n = 0;
    for (uint32_t v = 0; v < n; v++) {
        if (set_of[v] == set) {
            list.ids[list.n++] = v;
        }
    }
    return SL_OK;
}

static enum sl_status copy_text(const char *text, char **out)
{
    return text != NULL ? sl_strdup(text, out) : SL_OK;
}

enum sl_status sl_dataset_copy_facts(const struct sl_dataset *dataset, struct sl_dataset *out)
{
    SL_OWNED(sl_dataset_free)
    struct sl_dataset facts = {.synthetic = dataset->synthetic,
                               .directed = dataset->directed,
                               .normalized = dataset->normalized,
                               .feature_seed = dataset->feature_seed,
                               .serial = dataset->serial};
    *out = (struct sl_dataset){0};
    memcpy(facts.name, dataset->name, sizeof facts.name);
    memcpy(facts.split, dataset->split, sizeof facts.split);
    SL_CHECK(sl_scaling_copy(&dataset->scaling, &facts.scaling));
    SL_CHECK(copy_text(dataset->feature_words, &facts.feature_words));
    SL_CHECK(copy_text(dataset->relations, &facts.relations));
    SL_CHECK(copy_text(dataset->class_names, &facts.class_names));
    SL_CHECK(copy_text(dataset->types, &facts.types));
    SL_CHECK(copy_text(dataset->feature_names, &facts.feature_names));
    *out = SL_TAKE(facts);
    return SL_OK;
}

uint64_t sl_dataset_serial(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

void sl_dataset_drop_pages(const struct sl_dataset *dataset)
{
    if (dataset->low_memory) {
        sl_file_forget(dataset->mapping, dataset->mapping_bytes);
    }
}

/* Whether the arrays, unless replaced, are the dataset's to free. */
static bool owns_arrays(const struct sl_dataset *dataset)
{
    return dataset->mapping == NULL && !dataset->lent;
}

static void free_lists(struct sl_dataset *dataset)
{
    if (dataset->own_lists || owns_arrays(dataset)) {
        for (int i = 0; i < SL_N_LISTS; i++) {
            sl_free(dataset->lists[i].ids);
        }
        sl_link_split_free(&dataset->links);
    }
}

static void free_graph(struct sl_dataset *dataset)
{
    if (dataset->own_graph || owns_arrays(dataset)) {
        sl_graph_free(&dataset->graph);
    }
}

void sl_dataset_lend(const struct sl_dataset *from, struct sl_dataset *out)
{
    *out = *from;
    out->lent = true;
    out->own_lists = out->own_graph = out->low_memory = false;
    out->mapping = NULL;
    out->mapping_bytes = 0;
}

void sl_dataset_set_split(struct sl_dataset *dataset, const char *name, struct sl_dataset *drawn)
{
    free_lists(dataset);
    snprintf(dataset->split, sizeof dataset->split, "%s", name);
    memcpy(dataset->lists, drawn->lists, sizeof dataset->lists);
    dataset->links = drawn->links;
    dataset->own_lists = true;
    if (drawn->graph.offsets != NULL) {
        free_graph(dataset);
        dataset->graph = drawn->graph;
        dataset->own_graph = true;
    }
    *drawn = (struct sl_dataset){0};
    dataset->hashed = false;
}

void sl_dataset_free(struct sl_dataset *dataset)
{
    free_lists(dataset);
    free_graph(dataset);
    if (owns_arrays(dataset)) {
        sl_features_free(&dataset->features);
        sl_free(dataset->edge_features.values);
        sl_targets_free(&dataset->targets);
        sl_free(dataset->class_names);
        sl_free(dataset->vertex_names);
        sl_free(dataset->types);
        sl_free(dataset->feature_names);
    }
    if (dataset->mapping != NULL) {
        munmap(dataset->mapping, dataset->mapping_bytes);
    }
    if (!dataset->lent) {
        sl_free(dataset->relations);
        sl_free(dataset->ends);
        sl_free(dataset->feature_words);
        sl_scaling_free(&dataset->scaling);
    }
    *dataset = (struct sl_dataset){0};
}
