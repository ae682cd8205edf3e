/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The binary cache: checksums, writing, and reading with every number checked. */
#include "data/cache.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "data/text_lines.h"
#include "support/convert.h"
#include "support/file.h"
#include "support/minmax.h"
#include "support/parallel.h"
#include "support/safetensors.h"

#define VERSION                                                                                                        \
    14 /* add one if the layout changes, or if a reader or the generator makes something else of its input */
#define CUTS_VERSION (2 << 16) /* add as much if graphs are cut otherwise */
#define FACTS "starling.facts"
#define BLOCK_FLOATS ((size_t)4096) /* an array's checksum is the sum of its blocks' */
#define BLOCK_BYTES (BLOCK_FLOATS * sizeof(float))
#define SUM_GRAIN 256    /* blocks that one thread sums at a time */
#define CHECK_GRAIN 4096 /* lists that one thread checks at a time */

enum kind { KIND_DATASET = 1, KIND_PARTS = 2 };

enum section {
    SECTION_OFFSETS,
    SECTION_SOURCES,
    SECTION_DENSE,
    SECTION_FEATURE_OFFSETS,
    SECTION_COLUMNS,
    SECTION_VALUES,
    SECTION_TARGETS,
    SECTION_TRAIN,
    SECTION_VALID,
    SECTION_TEST,
    SECTION_PARTS,
    SECTION_WEIGHTS,
    SECTION_RELATIONS,
    SECTION_CLASS_NAMES,
    SECTION_VERTEX_NAMES,
    SECTION_MEAN,
    SECTION_SCALE,
    SECTION_TYPES,
    SECTION_FEATURE_NAMES,
    SECTION_EDGE_ROWS,
    SECTION_EDGE_FEATURES,
    N_SECTIONS
};

/* The names of the tensors, PyG's if it has one. */
static const char *const section_names[N_SECTIONS] = {
    [SECTION_OFFSETS] = "colptr",
    [SECTION_SOURCES] = "row",
    [SECTION_DENSE] = "x",
    [SECTION_FEATURE_OFFSETS] = "x.rowptr",
    [SECTION_COLUMNS] = "x.col",
    [SECTION_VALUES] = "x.value",
    [SECTION_TARGETS] = "y",
    [SECTION_TRAIN] = "train",
    [SECTION_VALID] = "valid",
    [SECTION_TEST] = "test",
    [SECTION_PARTS] = "parts",
    [SECTION_WEIGHTS] = "edge_weight",
    [SECTION_RELATIONS] = "edge_type",
    [SECTION_CLASS_NAMES] = "class_names",
    [SECTION_VERTEX_NAMES] = "vertex_names",
    [SECTION_MEAN] = "x.mean",
    [SECTION_TYPES] = "types",
    [SECTION_FEATURE_NAMES] = "feature_names",
    [SECTION_SCALE] = "x.inverse_deviation",
    [SECTION_EDGE_ROWS] = "edge_attr.row",
    [SECTION_EDGE_FEATURES] = "edge_attr",
};

/* The content of the tensor FACTS, byte for byte (no padding). */
struct facts {
    uint64_t key;
    uint64_t checksum[N_SECTIONS]; /* 0: absent, as it is empty */
    uint64_t values;               /* checksum of the dense features as float32 */
    uint64_t n_edges;
    uint64_t n_nonzeros;
    uint64_t n_relations;             /* of a typed graph; else 0 */
    uint64_t edge_rows, edge_columns; /* of the table of edge features */
    uint32_t kind;
    uint32_t synthetic;
    uint32_t n_vertices;
    uint32_t n_columns;
    uint32_t target_type; /* enum sl_target_type */
    uint32_t target_width;
    uint32_t n_classes;
    uint32_t n_lists[3]; /* train, valid, test */
    uint32_t n_parts;
    uint32_t largest_column; /* struct sl_feature_range */
    float largest[2];
    uint32_t dtype; /* enum sl_dtype, of dense features */
    float scale;    /* of int8 */
    char name[64];
    char split[64];
    uint64_t own_checksum; /* of all members above */
};

_Static_assert(sizeof(struct facts) == 8 + 8 * N_SECTIONS + 48 + 64 + 128 + 8, "the facts have no padding");

/* ---- Checksums --------------------------------------------------------------------------------------------------- */

struct summing {
    const unsigned char *data;
    const struct sl_column *column; /* whose floats count instead; or NULL */
    size_t bytes;
    bool low_memory; /* the data are in a map: give the pages back after reading */
    _Atomic uint64_t sum;
};

/* Each block's checksum starts from its number. The sum does not depend on the order of the threads. */
static void sum_blocks(void *context, uint64_t begin, uint64_t end)
{
    struct summing *summing = context;
    float floats[BLOCK_FLOATS];
    size_t start = begin * BLOCK_BYTES;
    size_t stop = sl_min_u64(end * BLOCK_BYTES, summing->bytes);
    uint64_t sum = 0;
    for (uint64_t i = begin; i < end; i++) {
        const size_t at = i * BLOCK_BYTES;
        const size_t n = sl_min_u64(stop - at, BLOCK_BYTES);
        const void *block;
        if (summing->column != NULL) {
            block = sl_column_floats(summing->column, at / sizeof *floats, (uint32_t)(n / sizeof *floats), floats);
        } else {
            block = summing->data + at;
        }
        sum += sl_checksum(i + 1, block, n);
    }
    atomic_fetch_add(&summing->sum, sum);
    if (summing->low_memory) {
        sl_file_forget(summing->data + start, stop - start);
    }
}

/* The checksum of all blocks, continuing from `start`. Several threads compute it. */
static uint64_t sum_all(uint64_t start, struct summing *summing)
{
    sl_parallel_for((summing->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES, SUM_GRAIN, sum_blocks, summing);
    const uint64_t result[] = {summing->bytes, atomic_load(&summing->sum)};
    return sl_checksum(start, result, sizeof result);
}

static uint64_t array_checksum(uint64_t start, const void *data, uint64_t bytes, bool low_memory)
{
    struct summing summing = {.data = data, .bytes = bytes, .low_memory = low_memory};
    return sum_all(start, &summing);
}

/* The checksum that the column's floats have as an array. */
static uint64_t value_checksum(const struct sl_column *column)
{
    struct summing summing = {.column = column, .bytes = column->n_rows * column->width * sizeof(float)};
    return sum_all(0, &summing);
}

static uint64_t facts_checksum(const struct facts *facts)
{
    return sl_checksum(VERSION, facts, offsetof(struct facts, own_checksum));
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* A file in preparation. */
struct draft {
    struct facts facts;
    struct sl_tensor tensors[N_SECTIONS + 1]; /* the facts last */
    enum section sections[N_SECTIONS];        /* of the tensors */
    uint32_t n;                               /* tensors without the facts */
    const struct sl_column *narrow;           /* dense features of another dtype than float32, or NULL */
};

/* Add a table of rows; width 0: a list. An empty table and NULL stay away. */
static void add(struct draft *draft, enum section section, enum sl_dtype dtype, uint64_t rows, uint32_t width,
                const void *data)
{
    if (rows > 0 && data != NULL) {
        draft->tensors[draft->n] = sl_tensor_make(section_names[section], dtype, rows, width, data);
        draft->sections[draft->n++] = section;
    }
}

/* Compute all checksums, and add the facts. */
static void finish(struct draft *draft)
{
    for (uint32_t i = 0; i < draft->n; i++) {
        const struct sl_tensor *tensor = &draft->tensors[i];
        draft->facts.checksum[draft->sections[i]] = array_checksum(0, tensor->data, sl_tensor_bytes(tensor), false);
    }
    draft->facts.values = draft->narrow != NULL ? value_checksum(draft->narrow) : draft->facts.checksum[SECTION_DENSE];
    draft->facts.own_checksum = facts_checksum(&draft->facts);
    draft->tensors[draft->n] = sl_tensor_make(FACTS, SL_DTYPE_U8, sizeof draft->facts, 0, &draft->facts);
}

static bool put(const char *path, struct draft *draft)
{
    static const struct sl_metadata metadata[] = {{"format", "starling cache"}};
    struct sl_writer writer;
    finish(draft);
    if (sl_folder_make_parents(path) != SL_OK || sl_writer_open(path, &writer) != SL_OK) {
        return false;
    }
    if (sl_safetensors_put(&writer, draft->tensors, draft->n + 1, metadata, 1) != SL_OK) {
        sl_writer_abort(&writer);
        return false;
    }
    return sl_writer_close(&writer) == SL_OK;
}

static enum sl_dtype target_dtype(uint32_t type)
{
    return type == SL_TARGET_CLASS ? SL_DTYPE_I32 : SL_DTYPE_F32;
}

static void add_names(struct draft *draft, enum section section, const char *names)
{
    if (names != NULL) {
        add(draft, section, SL_DTYPE_U8, strlen(names) + 1, 0, names);
    }
}

static void draft_dataset(const struct sl_dataset *dataset, uint64_t key, struct draft *draft)
{
    struct facts *facts = &draft->facts;
    const struct sl_graph *graph = &dataset->graph;
    const struct sl_features *features = &dataset->features;
    const struct sl_targets *targets = &dataset->targets;
    *draft = (struct draft){.facts = {.key = key, .kind = KIND_DATASET}};
    facts->synthetic = dataset->synthetic;
    facts->n_vertices = graph->n_vertices;
    facts->n_edges = graph->n_edges;
    facts->n_relations = graph->n_relations;
    facts->n_columns = features->n_columns;
    facts->n_nonzeros = features->offsets != NULL ? features->offsets[features->n_rows] : 0;
    facts->target_type = targets->type;
    facts->target_width = targets->width;
    facts->n_classes = targets->n_classes;
    facts->largest_column = dataset->range.column;
    memcpy(facts->largest, dataset->range.largest, sizeof facts->largest);
    snprintf(facts->name, sizeof facts->name, "%s", dataset->name);
    snprintf(facts->split, sizeof facts->split, "%s", dataset->split);
    add(draft, SECTION_OFFSETS, SL_DTYPE_U64, (uint64_t)graph->n_vertices + 1, 0, graph->offsets);
    add(draft, SECTION_SOURCES, SL_DTYPE_U32, graph->n_edges, 0, graph->sources);
    add(draft, SECTION_WEIGHTS, SL_DTYPE_F32, graph->n_edges, 0, graph->weights);
    add(draft, SECTION_RELATIONS, SL_DTYPE_U16, graph->n_edges, 0, graph->relations);
    if (graph->rows != NULL) {
        const struct sl_edge_features *table = &dataset->edge_features;
        facts->edge_rows = table->n_rows;
        facts->edge_columns = table->n_columns;
        add(draft, SECTION_EDGE_ROWS, SL_DTYPE_U32, graph->n_edges, 0, graph->rows);
        add(draft, SECTION_EDGE_FEATURES, SL_DTYPE_F32, table->n_rows, table->n_columns, table->values);
    }
    if (features->offsets == NULL) {
        facts->dtype = features->dense.dtype;
        facts->scale = features->dense.dtype == SL_DTYPE_I8 ? features->dense.scale : 1;
        draft->narrow = features->dense.dtype != SL_DTYPE_F32 ? &features->dense : NULL;
        add(draft, SECTION_DENSE, features->dense.dtype, features->n_rows, features->n_columns, features->dense.data);
    } else {
        add(draft, SECTION_FEATURE_OFFSETS, SL_DTYPE_U64, (uint64_t)features->n_rows + 1, 0, features->offsets);
        add(draft, SECTION_COLUMNS, SL_DTYPE_U32, facts->n_nonzeros, 0, features->columns);
        add(draft, SECTION_VALUES, SL_DTYPE_F32, facts->n_nonzeros, 0, features->values);
    }
    const uint32_t width = targets->width == 1 ? 0 : targets->width;
    add(draft, SECTION_TARGETS, target_dtype(targets->type), graph->n_vertices, width, targets->data);
    for (int i = 0; i < SL_N_LISTS; i++) {
        facts->n_lists[i] = dataset->lists[i].n;
        add(draft, (enum section)(SECTION_TRAIN + i), SL_DTYPE_U32, dataset->lists[i].n, 0, dataset->lists[i].ids);
    }
    add_names(draft, SECTION_CLASS_NAMES, dataset->class_names);
    add_names(draft, SECTION_VERTEX_NAMES, dataset->vertex_names);
    add_names(draft, SECTION_TYPES, dataset->types);
    add_names(draft, SECTION_FEATURE_NAMES, dataset->feature_names);
    add(draft, SECTION_MEAN, SL_DTYPE_F64, dataset->scaling.n, 0, dataset->scaling.mean);
    add(draft, SECTION_SCALE, SL_DTYPE_F64, dataset->scaling.n, 0, dataset->scaling.scale);
}

bool sl_cache_write_dataset(const char *path, uint64_t key, const struct sl_dataset *dataset)
{
    struct draft draft;
    draft_dataset(dataset, key, &draft);
    return put(path, &draft);
}

/* ---- Hashes of contents ------------------------------------------------------------------------------------------ */

static void hash_parts(const struct facts *facts, uint64_t out[SL_N_DATA_PARTS])
{
    const uint64_t *sums = facts->checksum;
    const enum section edge_tables[] = {SECTION_WEIGHTS, SECTION_RELATIONS, SECTION_EDGE_ROWS, SECTION_EDGE_FEATURES};
    uint64_t graph[6] = {sums[SECTION_OFFSETS], sums[SECTION_SOURCES]};
    size_t n_graph = 2;
    for (int i = 0; i < 4; i++) {
        graph[n_graph] = sums[edge_tables[i]];
        n_graph += graph[n_graph] != 0;
    }
    const uint64_t features[] = {facts->n_columns, facts->values, sums[SECTION_FEATURE_OFFSETS], sums[SECTION_COLUMNS],
                                 sums[SECTION_VALUES]};
    const uint64_t labels[] = {sums[SECTION_TARGETS], sums[SECTION_CLASS_NAMES]};
    size_t label_bytes = labels[1] != 0 ? sizeof labels : sizeof labels - sizeof *labels;
    const uint64_t split[] = {sums[SECTION_TRAIN], sums[SECTION_VALID], sums[SECTION_TEST]};
    out[SL_DATA_GRAPH] = sl_checksum(facts->n_relations, graph, n_graph * sizeof *graph);
    out[SL_DATA_FEATURES] = sl_checksum(0, features, sizeof features);
    out[SL_DATA_LABELS] = sl_checksum(0, labels, label_bytes);
    out[SL_DATA_SPLIT] = sl_checksum(0, split, sizeof split);
}

void sl_cache_hash_dataset(const struct sl_dataset *dataset, uint64_t out[SL_N_DATA_PARTS])
{
    struct draft draft;
    if (dataset->hashed) {
        memcpy(out, dataset->hash, sizeof dataset->hash);
        return;
    }
    draft_dataset(dataset, 0, &draft);
    finish(&draft);
    hash_parts(&draft.facts, out);
}

bool sl_cache_write_parts(const char *path, uint64_t key, uint32_t n_vertices, uint32_t n_parts, const uint32_t *parts)
{
    struct draft draft = {.facts = {.key = key, .kind = KIND_PARTS, .n_vertices = n_vertices, .n_parts = n_parts}};
    add(&draft, SECTION_PARTS, SL_DTYPE_U32, n_vertices, 0, parts);
    return put(path, &draft);
}

/* ---- Reading: the file ------------------------------------------------------------------------------------------- */

/* A cache file open for reading. */
struct reading {
    struct sl_tensors tensors;
    struct facts facts;
    bool low_memory;
};

/* True if the file has facts of this version, kind and key. */
static bool read_facts(struct reading *file, enum kind kind, uint64_t key)
{
    struct facts *facts = &file->facts;
    const struct sl_tensor *found = sl_tensors_find(&file->tensors, FACTS);
    if (found == NULL || found->dtype != SL_DTYPE_U8 || sl_tensor_bytes(found) != sizeof *facts) {
        return false;
    }
    memcpy(facts, found->data, sizeof *facts);
    return facts->own_checksum == facts_checksum(facts) && facts->kind == (uint32_t)kind && facts->key == key &&
           memchr(facts->name, '\0', sizeof facts->name) != NULL &&
           memchr(facts->split, '\0', sizeof facts->split) != NULL;
}

/* Map a cache file and check its facts. False: not valid, and nothing is left open. */
static bool open_file(const char *path, enum kind kind, uint64_t key, struct reading *file)
{
    if (!sl_file_trusted(path) || sl_safetensors_map(path, &file->tensors) != SL_OK) {
        return false;
    }
    if (!read_facts(file, kind, key)) {
        sl_tensors_free(&file->tensors);
        return false;
    }
    return true;
}

/* The section `which`, with `count` entries. NULL: another dtype or size, or damaged. An empty section has an address,
 * too. */
static const void *section(const struct reading *file, enum section which, enum sl_dtype dtype, uint64_t count)
{
    if (count == 0 && file->facts.checksum[which] == 0) {
        return file->tensors.map.data;
    }
    const struct sl_tensor *found = sl_tensors_find(&file->tensors, section_names[which]);
    uint64_t bytes;
    if (found == NULL || found->dtype != dtype || __builtin_mul_overflow(count, sl_dtype_size(dtype), &bytes) ||
        sl_tensor_bytes(found) != bytes || (uintptr_t)found->data % sl_dtype_size(dtype) != 0 ||
        array_checksum(0, found->data, bytes, file->low_memory) != file->facts.checksum[which]) {
        return NULL;
    }
    return found->data;
}

/* ---- Reading: the dataset ---------------------------------------------------------------------------------------- */

/* Lists one after another: list i is entries[offsets[i]] .. entries[offsets[i + 1] - 1]. */
struct lists {
    const uint64_t *offsets; /* n + 1 */
    const uint32_t *entries;
    uint64_t n_entries;
    uint32_t limit;
    const uint16_t *relations; /* of the entries of a typed graph; else NULL */
    uint64_t n_relations;
    const float *weights; /* of the entries; or NULL */
    const uint32_t *rows; /* the same */
    uint64_t n_rows;      /* which they are below */
    bool low_memory;
    atomic_bool wrong;
};

/* A list ascends; of a typed graph by relation, then by entry. */
static bool list_fits(const struct lists *lists, uint64_t begin, uint64_t end)
{
    const uint32_t *entries = lists->entries;
    const uint16_t *relations = lists->relations;
    bool fits = true;
    for (uint64_t k = begin; k < end; k++) {
        const bool later = relations != NULL && k > begin && relations[k] > relations[k - 1];
        const bool same = relations == NULL || k == begin || relations[k] == relations[k - 1];
        fits &= later || (same && (k == begin || entries[k] > entries[k - 1]));
        fits &= entries[k] < lists->limit && (relations == NULL || relations[k] < lists->n_relations);
        fits &= lists->weights == NULL || sl_weight_is_valid(lists->weights[k]);
        fits &= lists->rows == NULL || lists->rows[k] < lists->n_rows;
    }
    return fits;
}

static void forget(const struct lists *lists, const void *array, size_t size, uint64_t begin, uint64_t end)
{
    if (lists->low_memory && array != NULL) {
        sl_file_forget((const char *)array + begin * size, (end - begin) * size);
    }
}

static void check_lists(void *context, uint64_t begin, uint64_t end)
{
    struct lists *lists = context;
    const uint64_t *offsets = lists->offsets;
    for (uint64_t i = begin; i < end; i++) {
        if (offsets[i + 1] < offsets[i] || offsets[i + 1] > lists->n_entries ||
            !list_fits(lists, offsets[i], offsets[i + 1])) {
            atomic_store(&lists->wrong, true);
            return;
        }
    }
    forget(lists, lists->entries, sizeof *lists->entries, offsets[begin], offsets[end]);
    forget(lists, lists->relations, sizeof *lists->relations, offsets[begin], offsets[end]);
    forget(lists, lists->weights, sizeof *lists->weights, offsets[begin], offsets[end]);
    forget(lists, lists->rows, sizeof *lists->rows, offsets[begin], offsets[end]);
    forget(lists, offsets, sizeof *offsets, begin, end);
}

/* True if the n lists' offsets ascend from 0 to n_entries and each list's entries ascend, below `limit`. */
static bool lists_fit(struct lists *lists, uint64_t n)
{
    if (lists->offsets[0] != 0 || lists->offsets[n] != lists->n_entries) {
        return false;
    }
    sl_parallel_for(n, CHECK_GRAIN, check_lists, lists);
    return !atomic_load(&lists->wrong);
}

static bool read_graph(const struct reading *file, struct sl_graph *graph)
{
    const struct facts *facts = &file->facts;
    uint64_t n = facts->n_vertices;
    struct lists lists = {.n_entries = facts->n_edges, .limit = facts->n_vertices, .low_memory = file->low_memory};
    lists.n_relations = facts->n_relations;
    lists.offsets = section(file, SECTION_OFFSETS, SL_DTYPE_U64, n + 1);
    lists.entries = section(file, SECTION_SOURCES, SL_DTYPE_U32, facts->n_edges);
    const bool weighted = facts->checksum[SECTION_WEIGHTS] != 0;
    if (weighted) {
        lists.weights = section(file, SECTION_WEIGHTS, SL_DTYPE_F32, facts->n_edges);
    }
    const bool typed = facts->n_relations > 0;
    if (typed) {
        lists.relations = section(file, SECTION_RELATIONS, SL_DTYPE_U16, facts->n_edges);
    }
    const bool featured = facts->checksum[SECTION_EDGE_ROWS] != 0;
    if (featured) {
        lists.n_rows = facts->edge_rows;
        lists.rows = section(file, SECTION_EDGE_ROWS, SL_DTYPE_U32, facts->n_edges);
    }
    if (lists.offsets == NULL || lists.entries == NULL || (typed && lists.relations == NULL) ||
        (featured && lists.rows == NULL) || (weighted && lists.weights == NULL) ||
        facts->n_relations > SL_MAX_RELATIONS || !lists_fit(&lists, n)) {
        return false;
    }
    *graph = (struct sl_graph){.n_vertices = facts->n_vertices,
                               .n_edges = facts->n_edges,
                               .offsets = (uint64_t *)lists.offsets,
                               .sources = (sl_vertex *)lists.entries,
                               .weights = (float *)lists.weights,
                               .relations = (uint16_t *)lists.relations,
                               .n_relations = (uint32_t)facts->n_relations,
                               .rows = (uint32_t *)(uintptr_t)lists.rows};
    return true;
}

static bool read_edge_features(const struct reading *file, struct sl_edge_features *out)
{
    const struct facts *facts = &file->facts;
    uint64_t n;
    if (facts->checksum[SECTION_EDGE_ROWS] == 0) {
        return true;
    }
    if (facts->edge_columns > UINT32_MAX || __builtin_mul_overflow(facts->edge_rows, facts->edge_columns, &n)) {
        return false;
    }
    *out = (struct sl_edge_features){facts->edge_rows, (uint32_t)facts->edge_columns, NULL};
    out->values = (float *)(uintptr_t)section(file, SECTION_EDGE_FEATURES, SL_DTYPE_F32, n);
    return out->values != NULL;
}

static bool read_features(const struct reading *file, struct sl_features *features)
{
    const struct facts *facts = &file->facts;
    uint64_t n = facts->n_vertices;
    uint64_t n_nonzeros = facts->n_nonzeros;
    struct sl_features read = {.n_rows = facts->n_vertices, .n_columns = facts->n_columns};
    if (facts->checksum[SECTION_DENSE] != 0) {
        enum sl_dtype dtype = (enum sl_dtype)facts->dtype;
        if (!sl_dtype_is_convertible(dtype) || !isfinite(facts->scale)) {
            return false;
        }
        void *dense = (void *)section(file, SECTION_DENSE, dtype, n * facts->n_columns);
        read.dense = sl_column_take(dtype, n, facts->n_columns, dense);
        read.dense.hold = SL_HOLD_MAPPED;
        read.dense.scale = facts->scale;
        *features = read;
        return dense != NULL;
    }
    read.offsets = (uint64_t *)section(file, SECTION_FEATURE_OFFSETS, SL_DTYPE_U64, n + 1);
    read.columns = (uint32_t *)section(file, SECTION_COLUMNS, SL_DTYPE_U32, n_nonzeros);
    read.values = (float *)section(file, SECTION_VALUES, SL_DTYPE_F32, n_nonzeros);
    *features = read;
    struct lists lists = {.offsets = read.offsets,
                          .entries = read.columns,
                          .n_entries = n_nonzeros,
                          .limit = facts->n_columns,
                          .low_memory = file->low_memory};
    return read.offsets != NULL && read.columns != NULL && read.values != NULL && lists_fit(&lists, n);
}

static bool read_targets(const struct reading *file, struct sl_targets *out)
{
    const struct facts *facts = &file->facts;
    uint64_t n = (uint64_t)facts->n_vertices * facts->target_width;
    struct sl_targets read = {.type = (enum sl_target_type)facts->target_type,
                              .n_rows = facts->n_vertices,
                              .width = facts->target_width,
                              .n_classes = facts->n_classes};
    bool classes = read.type == SL_TARGET_CLASS;
    if ((!classes && read.type != SL_TARGET_NUMBER) || read.n_classes > INT32_MAX || (classes && read.width != 1)) {
        return false;
    }
    read.data = (void *)section(file, SECTION_TARGETS, target_dtype(facts->target_type), n);
    if (read.data == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (classes ? read.classes[i] < -1 || (int64_t)read.classes[i] >= (int64_t)read.n_classes
                    : isinf(read.numbers[i])) {
            return false;
        }
    }
    *out = read;
    return true;
}

static bool read_lists(const struct reading *file, struct sl_dataset *dataset)
{
    for (int i = 0; i < SL_N_LISTS; i++) {
        uint64_t n = file->facts.n_lists[i];
        const sl_vertex *ids = section(file, (enum section)(SECTION_TRAIN + i), SL_DTYPE_U32, n);
        struct lists list = {
            .offsets = (const uint64_t[]){0, n}, .entries = ids, .n_entries = n, .limit = file->facts.n_vertices};
        if (ids == NULL || !lists_fit(&list, 1)) {
            return false;
        }
        for (uint64_t k = 0; k < n; k++) {
            if (!sl_targets_known(&dataset->targets, ids[k])) {
                return false;
            }
        }
        dataset->lists[i] = (struct sl_ids){.n = (uint32_t)n, .ids = (sl_vertex *)ids};
    }
    return true;
}

#define ANY_LINES UINT64_MAX

/* Names, `n` lines; NULL: none. */
static bool read_names(const struct reading *file, enum section which, uint64_t n, char **out)
{
    if (file->facts.checksum[which] == 0) {
        return true;
    }
    const struct sl_tensor *found = sl_tensors_find(&file->tensors, section_names[which]);
    uint64_t bytes = found != NULL ? sl_tensor_bytes(found) : 0;
    const char *names = bytes > 1 ? section(file, which, SL_DTYPE_U8, bytes) : NULL;
    *out = (char *)(uintptr_t)names;
    return names != NULL && memchr(names, '\0', bytes) == names + bytes - 1 && names[bytes - 2] == '\n' &&
           (n == ANY_LINES || sl_text_count_lines(names) == n);
}

/* Statistics of the columns, copied; empty: none. */
static bool read_scaling(const struct reading *file, uint32_t n, struct sl_scaling *out)
{
    const uint64_t *sums = file->facts.checksum;
    if (sums[SECTION_MEAN] == 0 && sums[SECTION_SCALE] == 0) {
        return true;
    }
    const double *mean = section(file, SECTION_MEAN, SL_DTYPE_F64, n);
    const double *scale = section(file, SECTION_SCALE, SL_DTYPE_F64, n);
    const struct sl_scaling found = {n, (double *)(uintptr_t)mean, (double *)(uintptr_t)scale};
    return mean != NULL && scale != NULL && sl_scaling_copy(&found, out) == SL_OK;
}

bool sl_cache_read_dataset(const char *path, uint64_t key, bool low_memory, struct sl_dataset *out)
{
    struct reading file = {.low_memory = low_memory};
    *out = (struct sl_dataset){0};
    if (!open_file(path, KIND_DATASET, key, &file)) {
        return false;
    }
    struct sl_dataset read = {.synthetic = file.facts.synthetic != 0, .low_memory = low_memory};
    read.range.column = file.facts.largest_column;
    memcpy(read.range.largest, file.facts.largest, sizeof read.range.largest);
    memcpy(read.name, file.facts.name, sizeof read.name);
    memcpy(read.split, file.facts.split, sizeof read.split);
    if (!read_graph(&file, &read.graph) || !read_edge_features(&file, &read.edge_features) ||
        !read_features(&file, &read.features) || !read_targets(&file, &read.targets) || !read_lists(&file, &read) ||
        !read_names(&file, SECTION_CLASS_NAMES, sl_targets_outputs(&read.targets), &read.class_names) ||
        !read_names(&file, SECTION_VERTEX_NAMES, read.graph.n_vertices, &read.vertex_names) ||
        !read_names(&file, SECTION_TYPES, ANY_LINES, &read.types) ||
        !read_names(&file, SECTION_FEATURE_NAMES, ANY_LINES, &read.feature_names) ||
        !read_scaling(&file, read.features.n_columns, &read.scaling)) {
        sl_tensors_free(&file.tensors);
        return false;
    }
    read.mapping = (void *)file.tensors.map.data;
    read.mapping_bytes = file.tensors.map.bytes;
    file.tensors.map = (struct sl_map){0}; /* now the dataset's */
    sl_tensors_free(&file.tensors);
    hash_parts(&file.facts, read.hash); /* the checksums in the facts fit the data (section) */
    read.hashed = true;
    sl_dataset_drop_pages(&read);
    *out = read;
    return true;
}

/* ---- Parts ------------------------------------------------------------------------------------------------------- */

uint64_t sl_cache_parts_key(const struct sl_dataset *dataset, int method, uint32_t n_parts, uint64_t seed)
{
    const struct sl_graph *graph = &dataset->graph;
    const uint64_t numbers[] = {graph->n_vertices, graph->n_edges,   (uint64_t)method, n_parts, seed,
                                dataset->train.n,  dataset->valid.n, dataset->test.n};
    uint64_t key = sl_checksum(VERSION + CUTS_VERSION, numbers, sizeof numbers);
    uint64_t n_bounds = (uint64_t)graph->n_vertices + 1;
    key = array_checksum(key, graph->offsets, n_bounds * sizeof *graph->offsets, dataset->low_memory);
    key = array_checksum(key, graph->sources, graph->n_edges * sizeof *graph->sources, dataset->low_memory);
    for (int i = 0; i < SL_N_LISTS; i++) {
        key = array_checksum(key, dataset->lists[i].ids, dataset->lists[i].n * sizeof(sl_vertex), dataset->low_memory);
    }
    return key;
}

bool sl_cache_read_parts(const char *path, uint64_t key, uint32_t n_vertices, uint32_t n_parts, uint32_t *parts)
{
    struct reading file = {.low_memory = false};
    if (!open_file(path, KIND_PARTS, key, &file)) {
        return false;
    }
    const uint32_t *stored = section(&file, SECTION_PARTS, SL_DTYPE_U32, n_vertices);
    bool fits = stored != NULL && file.facts.n_vertices == n_vertices && file.facts.n_parts == n_parts;
    for (uint64_t v = 0; fits && v < n_vertices; v++) {
        parts[v] = stored[v];
        fits = stored[v] < n_parts;
    }
    sl_tensors_free(&file.tensors);
    return fits;
}
