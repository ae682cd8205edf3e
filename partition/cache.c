/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The binary cache: checksums, writing, and reading with every number checked. */
#include "partition/cache.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "support/convert.h"
#include "support/file.h"
#include "support/minmax.h"
#include "support/parallel.h"

#define MAGIC "SLCACHE"
#define VERSION 5 /* add one if the layout changes, or if a reader or the generator makes something else of its input */
#define BYTE_ORDER_MARK 0x01020304u
#define ALIGNMENT 64
#define CHUNK_BYTES ((size_t)4 << 20) /* one thread's piece of a checksum */
#define CHECK_WEIGHTS ((uint64_t)1 << 20)
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
    N_SECTIONS
};

/* The header, byte for byte (no padding). An absent section has offset 0. */
struct header {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint32_t kind;
    uint32_t synthetic;
    uint64_t key;
    uint64_t file_bytes;
    uint64_t offset[N_SECTIONS];
    uint64_t bytes[N_SECTIONS];
    uint64_t checksum[N_SECTIONS];
    uint64_t n_edges;
    uint64_t n_nonzeros;
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
    uint64_t header_checksum; /* of all members above */
};

_Static_assert(sizeof(struct header) == 48 - 8 + 24 * N_SECTIONS + 16 + 56 + 128 + 8, "the header has no padding");

/* ---- Checksums --------------------------------------------------------------------------------------------------- */

struct summing {
    const unsigned char *data;
    size_t bytes;
    bool low_memory; /* the data are in a map: give the pages back after reading */
    _Atomic uint64_t sum;
};

/* Each chunk's checksum starts from its number. The sum does not depend on the order of the threads. */
static void sum_chunks(void *context, uint64_t begin, uint64_t end)
{
    struct summing *summing = context;
    for (uint64_t i = begin; i < end; i++) {
        size_t start = i * CHUNK_BYTES;
        size_t left = summing->bytes - start;
        size_t bytes = sl_min_u64(left, CHUNK_BYTES);
        atomic_fetch_add(&summing->sum, sl_checksum(i + 1, summing->data + start, bytes));
        if (summing->low_memory) {
            sl_file_forget(summing->data + start, bytes);
        }
    }
}

/* The checksum of an array, continuing from `start`. Several threads compute it. */
static uint64_t array_checksum(uint64_t start, const void *data, uint64_t bytes, bool low_memory)
{
    struct summing summing = {.data = data, .bytes = bytes, .low_memory = low_memory};
    sl_parallel_for((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, 1, sum_chunks, &summing);
    const uint64_t result[] = {bytes, atomic_load(&summing.sum)};
    return sl_checksum(start, result, sizeof result);
}

static uint64_t header_checksum(const struct header *header)
{
    return sl_checksum(VERSION, header, offsetof(struct header, header_checksum));
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* A file in preparation: its header, and the data of each section. */
struct draft {
    struct header header;
    const void *data[N_SECTIONS];
};

static void start(struct draft *draft, enum kind kind, uint64_t key)
{
    *draft =
        (struct draft){.header = {.magic = MAGIC, .byte_order = BYTE_ORDER_MARK, .version = VERSION, .kind = kind}};
    draft->header.key = key;
}

static void add(struct draft *draft, enum section section, const void *data, uint64_t count, uint64_t size)
{
    draft->data[section] = data;
    draft->header.bytes[section] = count * size;
}

/* Set the sections' offsets, and compute all checksums. */
static void finish(struct draft *draft)
{
    struct header *header = &draft->header;
    uint64_t offset = sizeof *header;
    for (int i = 0; i < N_SECTIONS; i++) {
        if (draft->data[i] == NULL) {
            continue;
        }
        offset = (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        header->offset[i] = offset;
        offset += header->bytes[i];
        header->checksum[i] = array_checksum(0, draft->data[i], header->bytes[i], false);
    }
    header->file_bytes = offset;
    header->header_checksum = header_checksum(header);
}

static bool put_sections(struct sl_writer *writer, const struct draft *draft)
{
    static const char zeros[ALIGNMENT];
    const struct header *header = &draft->header;
    uint64_t offset = sizeof *header;
    if (sl_writer_put(writer, header, sizeof *header) != SL_OK) {
        return false;
    }
    for (int i = 0; i < N_SECTIONS; i++) {
        if (draft->data[i] == NULL) {
            continue;
        }
        if (sl_writer_put(writer, zeros, header->offset[i] - offset) != SL_OK ||
            sl_writer_put(writer, draft->data[i], header->bytes[i]) != SL_OK) {
            return false;
        }
        offset = header->offset[i] + header->bytes[i];
    }
    return true;
}

static bool put(const char *path, struct draft *draft)
{
    struct sl_writer writer;
    finish(draft);
    if (sl_folder_make_parents(path) != SL_OK || sl_writer_open(path, &writer) != SL_OK) {
        return false;
    }
    if (!put_sections(&writer, draft)) {
        sl_writer_abort(&writer);
        return false;
    }
    return sl_writer_close(&writer) == SL_OK;
}

static void draft_dataset(const struct sl_dataset *dataset, uint64_t key, struct draft *draft)
{
    struct header *header = &draft->header;
    const struct sl_graph *graph = &dataset->graph;
    const struct sl_features *features = &dataset->features;
    const struct sl_ids *lists[] = {&dataset->train, &dataset->valid, &dataset->test};
    uint64_t n_dense = (uint64_t)features->n_rows * features->n_columns;
    start(draft, KIND_DATASET, key);
    header->synthetic = dataset->synthetic;
    header->n_vertices = graph->n_vertices;
    header->n_edges = graph->n_edges;
    header->n_columns = features->n_columns;
    header->n_nonzeros = features->offsets != NULL ? features->offsets[features->n_rows] : 0;
    header->target_type = dataset->targets.type;
    header->target_width = dataset->targets.width;
    header->n_classes = dataset->targets.n_classes;
    header->largest_column = dataset->range.column;
    memcpy(header->largest, dataset->range.largest, sizeof header->largest);
    snprintf(header->name, sizeof header->name, "%s", dataset->name);
    snprintf(header->split, sizeof header->split, "%s", dataset->split);
    add(draft, SECTION_OFFSETS, graph->offsets, (uint64_t)graph->n_vertices + 1, sizeof *graph->offsets);
    add(draft, SECTION_SOURCES, graph->sources, graph->n_edges, sizeof *graph->sources);
    if (graph->weights.data != NULL) {
        add(draft, SECTION_WEIGHTS, graph->weights.data, graph->n_edges, sizeof(float));
    }
    if (features->offsets == NULL) {
        header->dtype = features->dense.dtype;
        header->scale = features->dense.dtype == SL_DTYPE_I8 ? features->dense.scale : 1;
        add(draft, SECTION_DENSE, features->dense.data, n_dense, sl_dtype_size(features->dense.dtype));
    } else {
        add(draft, SECTION_FEATURE_OFFSETS, features->offsets, (uint64_t)features->n_rows + 1, sizeof(uint64_t));
        add(draft, SECTION_COLUMNS, features->columns, header->n_nonzeros, sizeof *features->columns);
        add(draft, SECTION_VALUES, features->values, header->n_nonzeros, sizeof *features->values);
    }
    add(draft, SECTION_TARGETS, dataset->targets.data, (uint64_t)graph->n_vertices * dataset->targets.width,
        SL_TARGET_BYTES);
    for (int i = 0; i < 3; i++) {
        header->n_lists[i] = lists[i]->n;
        add(draft, (enum section)(SECTION_TRAIN + i), lists[i]->ids, lists[i]->n, sizeof *lists[i]->ids);
    }
}

bool sl_cache_write_dataset(const char *path, uint64_t key, const struct sl_dataset *dataset)
{
    struct draft draft;
    draft_dataset(dataset, key, &draft);
    return put(path, &draft);
}

/* ---- Hashes of contents ------------------------------------------------------------------------------------------ */

/* An absent section equals an empty section. */
static uint64_t sum_of(const struct header *header, enum section section)
{
    return header->bytes[section] > 0 ? header->checksum[section] : 0;
}

static void hash_parts(const struct header *header, uint64_t out[SL_N_DATA_PARTS])
{
    const uint64_t graph[] = {sum_of(header, SECTION_OFFSETS), sum_of(header, SECTION_SOURCES),
                              sum_of(header, SECTION_WEIGHTS)};
    size_t graph_bytes = graph[2] != 0 ? sizeof graph : sizeof graph - sizeof *graph;
    const uint64_t features[] = {header->n_columns, sum_of(header, SECTION_DENSE),
                                 sum_of(header, SECTION_FEATURE_OFFSETS), sum_of(header, SECTION_COLUMNS),
                                 sum_of(header, SECTION_VALUES)};
    const uint64_t labels[] = {sum_of(header, SECTION_TARGETS)};
    const uint64_t split[] = {sum_of(header, SECTION_TRAIN), sum_of(header, SECTION_VALID),
                              sum_of(header, SECTION_TEST)};
    out[SL_DATA_GRAPH] = sl_checksum(0, graph, graph_bytes);
    out[SL_DATA_FEATURES] = sl_checksum(0, features, sizeof features);
    if (header->dtype != SL_DTYPE_F32) {
        uint64_t sum = sl_checksum(out[SL_DATA_FEATURES], &header->dtype, sizeof header->dtype);
        out[SL_DATA_FEATURES] = sl_checksum(sum, &header->scale, sizeof header->scale);
    }
    out[SL_DATA_LABELS] = sl_checksum(0, labels, sizeof labels);
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
    hash_parts(&draft.header, out);
}

bool sl_cache_write_parts(const char *path, uint64_t key, uint32_t n_vertices, uint32_t n_parts, const uint32_t *parts)
{
    struct draft draft;
    start(&draft, KIND_PARTS, key);
    draft.header.n_vertices = n_vertices;
    draft.header.n_parts = n_parts;
    add(&draft, SECTION_PARTS, parts, n_vertices, sizeof *parts);
    return put(path, &draft);
}

/* ---- Reading: the file ------------------------------------------------------------------------------------------- */

/* True if the header is ours, has this key and describes this file. */
static bool header_fits(const struct header *header, enum kind kind, uint64_t key, uint64_t file_bytes)
{
    return memcmp(header->magic, MAGIC, sizeof header->magic) == 0 && header->byte_order == BYTE_ORDER_MARK &&
           header->version == VERSION && header->kind == (uint32_t)kind && header->key == key &&
           header->file_bytes == file_bytes && header->header_checksum == header_checksum(header) &&
           memchr(header->name, '\0', sizeof header->name) != NULL &&
           memchr(header->split, '\0', sizeof header->split) != NULL;
}

/* Open a cache file and check its header. False: not valid, and the map is empty. */
static bool open_map(const char *path, enum kind kind, uint64_t key, struct sl_map *map, struct header *header)
{
    if (!sl_file_trusted(path) || sl_file_map(path, map) != SL_OK) {
        return false;
    }
    if (map->bytes >= sizeof *header) {
        memcpy(header, map->data, sizeof *header);
        if (header_fits(header, kind, key, map->bytes)) {
            return true;
        }
    }
    sl_file_unmap(map);
    return false;
}

/* A cache file open for reading. */
struct reading {
    struct sl_map map;
    struct header header;
    bool low_memory;
};

/* The section `which`, with `count` elements of `size` bytes. NULL: another size, or damaged. */
static const void *section(const struct reading *file, enum section which, uint64_t count, uint64_t size)
{
    const struct header *header = &file->header;
    uint64_t bytes;
    uint64_t offset = header->offset[which];
    if (__builtin_mul_overflow(count, size, &bytes) || header->bytes[which] != bytes || offset < sizeof *header ||
        offset % ALIGNMENT != 0 || offset > file->map.bytes || bytes > file->map.bytes - offset) {
        return NULL;
    }
    const unsigned char *data = file->map.data + offset;
    if (array_checksum(0, data, bytes, file->low_memory) != header->checksum[which]) {
        return NULL;
    }
    return data;
}

/* ---- Reading: the dataset ---------------------------------------------------------------------------------------- */

/* Lists one after another: list i is entries[offsets[i]] .. entries[offsets[i + 1] - 1]. */
struct lists {
    const uint64_t *offsets; /* n + 1 */
    const uint32_t *entries;
    uint64_t n_entries;
    uint32_t limit;
    bool low_memory;
    atomic_bool wrong;
};

static bool list_fits(const struct lists *lists, uint64_t begin, uint64_t end)
{
    const uint32_t *entries = lists->entries;
    bool fits = begin == end || entries[end - 1] < lists->limit;
    for (uint64_t k = begin + 1; k < end; k++) {
        fits &= entries[k] > entries[k - 1];
    }
    return fits;
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
    if (lists->low_memory) {
        sl_file_forget(offsets + begin, (end - begin) * sizeof *offsets);
        sl_file_forget(lists->entries + offsets[begin], (offsets[end] - offsets[begin]) * sizeof *lists->entries);
    }
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

static bool read_weights(const struct reading *file, struct sl_column *out)
{
    uint64_t n = file->header.n_edges;
    const float *weights = section(file, SECTION_WEIGHTS, n, sizeof *weights);
    bool fits = weights != NULL;
    for (uint64_t begin = 0; fits && begin < n; begin += CHECK_WEIGHTS) {
        uint64_t end = sl_min_u64(n, begin + CHECK_WEIGHTS);
        for (uint64_t e = begin; e < end; e++) {
            fits &= sl_weight_is_valid(weights[e]);
        }
        if (file->low_memory) {
            sl_file_forget(weights + begin, (end - begin) * sizeof *weights);
        }
    }
    *out = sl_column_take(SL_DTYPE_F32, n, 1, (void *)(uintptr_t)weights);
    out->hold = SL_HOLD_MAPPED;
    return fits;
}

static bool read_graph(const struct reading *file, struct sl_graph *graph)
{
    const struct header *header = &file->header;
    uint64_t n = header->n_vertices;
    struct lists lists = {.n_entries = header->n_edges, .limit = header->n_vertices, .low_memory = file->low_memory};
    lists.offsets = section(file, SECTION_OFFSETS, n + 1, sizeof *lists.offsets);
    lists.entries = section(file, SECTION_SOURCES, header->n_edges, sizeof *lists.entries);
    if (lists.offsets == NULL || lists.entries == NULL || !lists_fit(&lists, n)) {
        return false;
    }
    *graph = (struct sl_graph){.n_vertices = header->n_vertices,
                               .n_edges = header->n_edges,
                               .offsets = (uint64_t *)lists.offsets,
                               .sources = (sl_vertex *)lists.entries};
    return header->offset[SECTION_WEIGHTS] == 0 || read_weights(file, &graph->weights);
}

static bool read_features(const struct reading *file, struct sl_features *features)
{
    const struct header *header = &file->header;
    uint64_t n = header->n_vertices;
    uint64_t n_nonzeros = header->n_nonzeros;
    struct sl_features read = {.n_rows = header->n_vertices, .n_columns = header->n_columns};
    if (header->offset[SECTION_DENSE] != 0) {
        enum sl_dtype dtype = (enum sl_dtype)header->dtype;
        if (!sl_dtype_is_convertible(dtype) || !isfinite(header->scale)) {
            return false;
        }
        void *dense = (void *)section(file, SECTION_DENSE, n * header->n_columns, sl_dtype_size(dtype));
        read.dense = sl_column_take(dtype, n, header->n_columns, dense);
        read.dense.hold = SL_HOLD_MAPPED;
        read.dense.scale = header->scale;
        *features = read;
        return dense != NULL;
    }
    read.offsets = (uint64_t *)section(file, SECTION_FEATURE_OFFSETS, n + 1, sizeof *read.offsets);
    read.columns = (uint32_t *)section(file, SECTION_COLUMNS, n_nonzeros, sizeof *read.columns);
    read.values = (float *)section(file, SECTION_VALUES, n_nonzeros, sizeof *read.values);
    *features = read;
    struct lists lists = {.offsets = read.offsets,
                          .entries = read.columns,
                          .n_entries = n_nonzeros,
                          .limit = header->n_columns,
                          .low_memory = file->low_memory};
    return read.offsets != NULL && read.columns != NULL && read.values != NULL && lists_fit(&lists, n);
}

static bool read_targets(const struct reading *file, struct sl_targets *out)
{
    const struct header *header = &file->header;
    uint64_t n = (uint64_t)header->n_vertices * header->target_width;
    struct sl_targets read = {.type = (enum sl_target_type)header->target_type,
                              .n_rows = header->n_vertices,
                              .width = header->target_width,
                              .n_classes = header->n_classes};
    bool classes = read.type == SL_TARGET_CLASS;
    if ((!classes && read.type != SL_TARGET_NUMBER) || read.n_classes > INT32_MAX || (classes && read.width != 1)) {
        return false;
    }
    read.data = (void *)section(file, SECTION_TARGETS, n, SL_TARGET_BYTES);
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
    struct sl_ids *lists[] = {&dataset->train, &dataset->valid, &dataset->test};
    for (int i = 0; i < 3; i++) {
        uint64_t n = file->header.n_lists[i];
        const sl_vertex *ids = section(file, (enum section)(SECTION_TRAIN + i), n, sizeof *ids);
        struct lists list = {
            .offsets = (const uint64_t[]){0, n}, .entries = ids, .n_entries = n, .limit = file->header.n_vertices};
        if (ids == NULL || !lists_fit(&list, 1)) {
            return false;
        }
        for (uint64_t k = 0; k < n; k++) {
            if (!sl_targets_known(&dataset->targets, ids[k])) {
                return false;
            }
        }
        *lists[i] = (struct sl_ids){.n = (uint32_t)n, .ids = (sl_vertex *)ids};
    }
    return true;
}

static bool read_dataset(const char *path, uint64_t key, bool low_memory, struct sl_dataset *out)
{
    struct reading file = {.low_memory = low_memory};
    *out = (struct sl_dataset){0};
    if (!open_map(path, KIND_DATASET, key, &file.map, &file.header)) {
        return false;
    }
    struct sl_dataset read = {.synthetic = file.header.synthetic != 0, .low_memory = low_memory};
    read.range.column = file.header.largest_column;
    memcpy(read.range.largest, file.header.largest, sizeof read.range.largest);
    memcpy(read.name, file.header.name, sizeof read.name);
    memcpy(read.split, file.header.split, sizeof read.split);
    if (!read_graph(&file, &read.graph) || !read_features(&file, &read.features) ||
        !read_targets(&file, &read.targets) || !read_lists(&file, &read)) {
        sl_file_unmap(&file.map);
        return false;
    }
    read.mapping = (void *)file.map.data;
    read.mapping_bytes = file.map.bytes;
    hash_parts(&file.header, read.hash); /* the checksums in the header fit the data (section) */
    read.hashed = true;
    sl_dataset_drop_pages(&read);
    *out = read;
    return true;
}

bool sl_cache_read_dataset(const char *path, uint64_t key, struct sl_dataset *out)
{
    return read_dataset(path, key, false, out);
}

bool sl_cache_read_dataset_low_memory(const char *path, uint64_t key, struct sl_dataset *out)
{
    return read_dataset(path, key, true, out);
}

/* ---- Parts ------------------------------------------------------------------------------------------------------- */

uint64_t sl_cache_parts_key(const struct sl_dataset *dataset, int method, uint32_t n_parts, uint64_t seed)
{
    const struct sl_graph *graph = &dataset->graph;
    const struct sl_ids *lists[] = {&dataset->train, &dataset->valid, &dataset->test};
    const uint64_t numbers[] = {graph->n_vertices, graph->n_edges,   (uint64_t)method, n_parts, seed,
                                dataset->train.n,  dataset->valid.n, dataset->test.n};
    uint64_t key = sl_checksum(VERSION, numbers, sizeof numbers);
    uint64_t n_bounds = (uint64_t)graph->n_vertices + 1;
    key = array_checksum(key, graph->offsets, n_bounds * sizeof *graph->offsets, dataset->low_memory);
    key = array_checksum(key, graph->sources, graph->n_edges * sizeof *graph->sources, dataset->low_memory);
    for (int i = 0; i < 3; i++) {
        key = array_checksum(key, lists[i]->ids, lists[i]->n * sizeof *lists[i]->ids, dataset->low_memory);
    }
    return key;
}

bool sl_cache_read_parts(const char *path, uint64_t key, uint32_t n_vertices, uint32_t n_parts, uint32_t *parts)
{
    struct reading file = {.low_memory = false};
    if (!open_map(path, KIND_PARTS, key, &file.map, &file.header)) {
        return false;
    }
    const uint32_t *stored = section(&file, SECTION_PARTS, n_vertices, sizeof *stored);
    bool fits = stored != NULL && file.header.n_vertices == n_vertices && file.header.n_parts == n_parts;
    for (uint64_t v = 0; fits && v < n_vertices; v++) {
        parts[v] = stored[v];
        fits = stored[v] < n_parts;
    }
    sl_file_unmap(&file.map);
    return fits;
}
