/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One function for each reader. Their files are in memory, under names of /proc. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "tests/fuzz/fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "data/cache.h"
#include "data/csv.h"
#include "data/features.h"
#include "data/line_reader.h"
#include "data/load.h"
#include "data/npy.h"
#include "data/reader.h"
#include "runtime/files/checkpoint.h"
#include "runtime/machine/environment.h"
#include "runtime/plan/model_file.h"
#include "runtime/report/metrics.h"
#include "runtime/starling.h"
#include "runtime/train/adapt.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/number.h"
#include "tests/support/owned.h"

POINTER_OWNER(sl_dataset_delete, struct sl_dataset)
POINTER_OWNER(sl_settings_delete, struct sl_settings)

#define N 6 /* vertices that the readers are told of */
#define KEY 7
#define MOST_FILES 8 /* of one input */
#define CHECKPOINT_NAME "checkpoint.safetensors"
#define ARRAYS_NAME "arrays.safetensors"

/* Checksums are another matter: tests/unit/support/test_file.c and tests/unit/data/test_cache.c. */
uint64_t __wrap_sl_checksum(uint64_t start, const void *data, size_t bytes);
uint64_t __wrap_sl_checksum(uint64_t start, const void *data, size_t bytes)
{
    (void)start;
    (void)data;
    (void)bytes;
    return 0;
}

long fuzz_accepted;

/* ---- files ---- */

static void need(int good)
{
    if (!good) {
        perror("fuzz");
        abort();
    }
}

/* The i-th file in memory, with these bytes; its path. */
static const char *file_of(int i, const uint8_t *data, size_t n)
{
    static int files[MOST_FILES]; /* 0: not yet */
    static char paths[MOST_FILES][40];
    if (files[i] == 0) {
        files[i] = memfd_create("fuzz", MFD_CLOEXEC);
        need(fchmod(files[i], 0600) == 0); /* others' caches are not read */
        snprintf(paths[i], sizeof paths[i], "/proc/%ld/fd/%d", (long)getpid(), files[i]);
    }
    need(pwrite(files[i], data, n, 0) == (ssize_t)n && ftruncate(files[i], (off_t)n) == 0);
    return paths[i];
}

static char links[64]; /* a folder of links to files in memory */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *level)
{
    (void)info;
    (void)kind;
    (void)level;
    return remove(path);
}

static void remove_links(void)
{
    nftw(links, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A folder in which that name is this file. */
static const char *folder_with(const char *name, const char *file)
{
    char path[128];
    if (links[0] == '\0') {
        snprintf(links, sizeof links, "/tmp/starling-fuzz-XXXXXX");
        need(mkdtemp(links) != NULL);
        atexit(remove_links);
    }
    snprintf(path, sizeof path, "%s/%s", links, name);
    need(access(path, F_OK) == 0 || (sl_folder_make_parents(path) == SL_OK && symlink(file, path) == 0));
    return links;
}

/* Files one behind the other, with a NUL between them; those are empty for which nothing is left. The last has the
 * rest. */
static void split_files(const uint8_t *data, size_t n, int n_files, const char **paths_out)
{
    for (int i = 0; i < n_files; i++) {
        const uint8_t *end = n > 0 && i + 1 < n_files ? memchr(data, 0, n) : NULL;
        size_t size = end != NULL ? (size_t)(end - data) : n;
        paths_out[i] = file_of(i, data, size);
        data += size + (end != NULL);
        n -= size + (end != NULL);
    }
}

static void put_seed(const char *folder, const char *name, const void *data, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    need(file != NULL && fwrite(data, 1, n, file) == n && fclose(file) == 0);
}

static void put_texts(const char *folder, const char *const *texts)
{
    char name[32];
    for (int i = 0; texts[i] != NULL; i++) {
        snprintf(name, sizeof name, "text%d", i);
        put_seed(folder, name, texts[i], strlen(texts[i]));
    }
}

/* A status and its message go together. */
static void judge(enum sl_status st)
{
    fuzz_accepted += st == SL_OK;
    need(st == SL_OK || sl_message()[0] != '\0');
}

/* ---- text ---- */

static const enum sl_target_choice choices[] = {SL_TARGETS_ANY, SL_TARGETS_CLASSES, SL_TARGETS_NUMBERS};

static void read_targets(const char *path)
{
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        OWNED(sl_targets_free) struct sl_targets targets = {0};
        OWNED(sl_free_it) char *names = NULL;
        judge(sl_csv_read_targets(path, N, choices[i], &targets, &names));
    }
}

static void read_table(int which, const char *path)
{
    uint64_t count;
    uint64_t n_edges = 3;
    OWNED(sl_free_it) sl_vertex *from = NULL;
    OWNED(sl_free_it) sl_vertex *to = NULL;
    struct sl_ids ids = {0};
    OWNED(sl_features_free) struct sl_features features = {0};
    switch (which) {
    case 0: judge(sl_csv_read_count(path, &count)); break;
    case 1: judge(sl_csv_read_edges(path, N, n_edges, &from, &to)); break;
    case 2: read_targets(path); break;
    case 3: judge(sl_csv_read_ids(path, N, &ids)); break;
    default: judge(sl_csv_read_features(path, N, &features)); break;
    }
    sl_free(ids.ids);
}

/* The first byte says which table. */
static void run_csv(const uint8_t *data, size_t n)
{
    if (n > 0) {
        read_table((uint8_t)(data[0] - '0') % 5, file_of(0, data + 1, n - 1));
    }
}

static void seed_csv(const char *folder)
{
    static const char *const texts[] = {"0"
                                        "6\n",
                                        "1"
                                        "0,1\n1,2\n3,2\n",
                                        "2"
                                        "0\n1\n2.0\n0\nnan\n1\n",
                                        "2"
                                        "gold\n\"a, \"\"b\"\"\"\n1\nnan\n\ngold\n",
                                        "2"
                                        "0,1\n1,nan\n,0\n0,0.5\n1,1\n-2,1e9\n",
                                        "3"
                                        "3\n0\n",
                                        "4"
                                        "1,2\n0.5,-1\n3,4.25\n1e-3,7\n0,0\n-2,2\n",
                                        "4"
                                        "0.1,0,0\r\n0,0,2\r\n0,1,0\r\n1,0,0\r\n0,0,1e30\r\n0,0,0",
                                        NULL};
    put_texts(folder, texts);
}

static enum sl_status count_bytes(void *context, const struct sl_lines *lines)
{
    (void)context;
    volatile char last = lines->bytes > 0 ? lines->text[lines->bytes - 1] : 0;
    return last == '!' ? sl_fail(SL_EFILE, "line %llu ends so", (unsigned long long)lines->first_line) : SL_OK;
}

static void run_lines(const uint8_t *data, size_t n)
{
    uint64_t n_lines;
    judge(sl_lines_read(file_of(0, data, n), 1000, count_bytes, NULL, &n_lines));
}

static void seed_lines(const char *folder)
{
    static const char *const texts[] = {"a\nb\n\nc", "a\r\nb!", NULL};
    char path[512];
    put_texts(folder, texts);
    snprintf(path, sizeof path, "%s/zipped", folder);
    gzFile file = gzopen(path, "wb9");
    need(file != NULL && gzputs(file, "1,2,3\n4,5,6\n") > 0 && gzclose(file) == Z_OK);
}

static void run_number(const uint8_t *data, size_t n)
{
    FREED char *text = malloc(n + 1); /* a reader that goes on beyond the end is seen */
    uint64_t whole;
    double real;
    need(text != NULL);
    memcpy(text, data, n);
    for (const char *p = text; p != NULL && p < text + n; p = sl_number_real(p, text + n, &real)) {
        fuzz_accepted++;
        sl_number_u64(p, text + n, &whole);
        sl_number_whole(p, text + n, &whole);
    }
}

static void seed_number(const char *folder)
{
    static const char *const texts[] = {"12",  "-0.5e-300", "1.7976931348623157e308", "nan", "18446744073709551615",
                                        "2.0", NULL};
    put_texts(folder, texts);
}

/* ---- arrays ---- */

static void run_npy(const uint8_t *data, size_t n)
{
    const char *path = file_of(0, data, n);
    struct sl_npy array;
    OWNED(sl_features_free) struct sl_features features = {0};
    uint32_t n_vertices = n % 2 == 0 ? N : SL_NONE;
    uint64_t n_edges;
    uint64_t count;
    struct sl_npy_counts counts;
    const char *name;
    OWNED(sl_free_it) sl_vertex *from = NULL;
    OWNED(sl_free_it) sl_vertex *to = NULL;
    struct sl_ids ids = {0};
    if (sl_npy_read(path, "x", &array) == SL_OK) {
        fuzz_accepted++;
        for (uint64_t i = 0; i < array.n_items && i < 100; i++) {
            sl_npy_real(&array, i);
            sl_npy_whole(&array, i, N);
        }
        sl_npy_free(&array);
    }
    judge(sl_npy_read_features(path, "node_feat", N, &features));
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        OWNED(sl_targets_free) struct sl_targets targets = {0};
        OWNED(sl_free_it) char *names = NULL;
        judge(sl_npy_read_targets(path, "node_label", N, choices[i], &targets));
    }
    judge(sl_npy_read_edges(path, "edge_index", n_vertices, &n_edges, &from, &to));
    judge(sl_npy_read_ids(path, "ids", N, &ids));
    OWNED(sl_free_it) char *names = NULL;
    judge(sl_npy_read_lines(path, "class_names", &names));
    judge(sl_npy_read_count(path, "num_nodes_list", N, &count));
    judge(sl_npy_count(path, "node_feat", &counts));
    judge(sl_npy_find(path, (const char *const[]){"edge_feat"}, 1, &name));
    sl_free(ids.ids);
}

/* An .npy file's bytes. Returns their number. */
static size_t make_npy(const char *type, bool fortran, const char *shape, const void *items, size_t bytes,
                       unsigned char *out)
{
    char header[128];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", type,
                     fortran ? "True" : "False", shape);
    memset(header + n, ' ', sizeof header - (size_t)n);
    header[117] = '\n';
    memcpy(out, "\x93NUMPY\1\0\x76\0", 10);
    memcpy(out + 10, header, 118);
    memcpy(out + 128, items, bytes);
    return 128 + bytes;
}

static void seed_npy(const char *folder)
{
    static const float features[N * 2] = {1, 2, 0.5f, -1};
    static const int64_t labels[N] = {0, 1, 2, -1, 1, 0};
    unsigned char array[512];
    size_t n = make_npy("<f4", false, "(6, 2)", features, sizeof features, array);
    put_seed(folder, "features", array, n);
    n = make_npy("<i8", false, "(6, 1)", labels, sizeof labels, array);
    put_seed(folder, "labels", array, n);
    n = make_npy("|u1", false, "(4,)", "a\nb\n", 4, array);
    put_seed(folder, "names", array, n);
    n = make_npy("|b1", false, "(6,)", "\0\1\1\0\1\0", 6, array);
    put_seed(folder, "mask", array, n);
    n = make_npy("<i8", false, "(2, 3)", labels, sizeof labels, array);
    put_seed(folder, "edges", array, n);
}

static void run_safetensors(const uint8_t *data, size_t n)
{
    struct sl_tensors tensors;
    double entries[64];
    enum sl_status st = sl_safetensors_read(file_of(0, data, n), &tensors);
    judge(st);
    if (st != SL_OK) {
        return;
    }
    for (uint32_t i = 0; i < tensors.n; i++) {
        if (sl_tensor_bytes(&tensors.tensors[i]) <= sizeof entries) {
            judge(sl_tensors_get(&tensors, &tensors.tensors[i], entries));
        }
    }
    sl_tensors_metadata(&tensors, "format");
    sl_tensors_free(&tensors);
}

static void seed_safetensors(const char *folder)
{
    static const sl_real entries[6] = {1, 2, 3, 4, 5, 6};
    static const uint64_t step = 3;
    const struct sl_tensor tensors[] = {sl_tensor_make("a.weight", SL_DTYPE_REAL, 2, 3, entries),
                                        sl_tensor_make("a.bias", SL_DTYPE_REAL, 3, 0, entries),
                                        sl_tensor_make("step", SL_DTYPE_U64, 0, 0, &step)};
    const struct sl_metadata metadata[] = {{"format", "pt"}, {"epoch", "3"}, {"loss", "0.25"}};
    char path[512];
    snprintf(path, sizeof path, "%s/tensors", folder);
    need(sl_safetensors_write(path, tensors, 3, metadata, 3) == SL_OK);
    need(sl_checkpoint_save(folder, tensors, 3, metadata, 3) == SL_OK);
}

/* Adapt a typed graph of six vertices, 0 .. 3 of type a and 4, 5 of type b, to a model. */
static void adapt_tiny(const struct sl_settings *settings)
{
    static const uint32_t sources[] = {0, 1, 4, 5}, destinations[] = {4, 5, 2, 3};
    static const uint16_t relations[] = {0, 0, 1, 1};
    static const float features[N * 3] = {1, 2, 3, 4};
    static const int32_t labels[N] = {0, 1, -1, 0, 1, 0};
    const struct sl_arrays arrays = {.size = sizeof arrays,
                                     .n_vertices = N,
                                     .n_edges = 4,
                                     .sources = sources,
                                     .destinations = destinations,
                                     .edge_relations = relations,
                                     .n_relations = 2,
                                     .relation_names = "b,y,a\na,x,b\n",
                                     .n_features = 3,
                                     .features = features,
                                     .labels = labels,
                                     .class_names = "blue\nred\n"};
    struct sl_adapted adapted;
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset;
    need(sl_dataset_new(&arrays, &dataset) == SL_OK);
    need(sl_strdup("a,4,1\nb,2,2\n", &dataset->types) == SL_OK);
    enum sl_status st = sl_adapt(settings, dataset, &adapted);
    judge(st);
    if (st == SL_OK) {
        const struct sl_graph *graph = &adapted.dataset.graph;
        for (uint64_t e = 0; e < graph->n_edges; e++) {
            need(graph->sources[e] < N && graph->relations[e] < graph->n_relations);
        }
        sl_adapted_free(&adapted);
    }
}

/* A model's file brings options, statistics and names. */
static void run_model(const uint8_t *data, size_t n)
{
    const char *path = file_of(0, data, n);
    for (int pipe = 0; pipe < 2; pipe++) {
        OWNED(sl_settings_delete_it) struct sl_settings *settings;
        enum sl_status st;
        if (pipe) {
            need(sl_settings_new_pipe(&settings) == SL_OK);
        } else {
            need(sl_settings_new(&settings) == SL_OK);
        }
        need(sl_settings_set(settings, "load", path) == SL_OK);
        st = sl_settings_adopt(settings);
        judge(st);
        if (st == SL_OK) {
            adapt_tiny(settings);
        }
    }
}

static void seed_model(const char *folder)
{
    static const sl_real entries[6] = {1, 2, 3, 4, 5, 6};
    const struct sl_tensor tensors[] = {sl_tensor_make("layers.0.fc_self.weight", SL_DTYPE_REAL, 2, 3, entries),
                                        sl_tensor_make("layers.0.fc_self.bias", SL_DTYPE_REAL, 2, 0, entries)};
    const struct sl_metadata metadata[] = {{"starling_model", "1"},
                                           {"program", "coop_sage"},
                                           {"objective", "class"},
                                           {"n_features", "3"},
                                           {"n_outputs", "2"},
                                           {"n_relations", "4"},
                                           {"features.seed", "7"},
                                           {"normalize.mean", "0 1.5 -2e-3"},
                                           {"normalize.scale", "1 0.5 2"},
                                           {"classes", "red\nblue\n"},
                                           {"relations", "a,x,b\nb,y,a\n"},
                                           {"types", "b,2,2\na,4,1\n"},
                                           {"option.layers", "1"},
                                           {"option.model", "sage"},
                                           {"option.normalize-features", "row"}};
    char path[512];
    snprintf(path, sizeof path, "%s/model", folder);
    need(sl_safetensors_write(path, tensors, 2, metadata, sizeof metadata / sizeof *metadata) == SL_OK);
}

/* ---- datasets ---- */

/* Find and read a dataset in each way. What a reader lets through, others believe. */
static void run_reader(const struct sl_reader *reader, const char *path)
{
    static const char *const features[] = {NULL, NULL, "degree"};
    for (int i = 0; i < 3; i++) {
        const struct sl_dataset_options request = {
            .dataset = path, .features = features[i], .need = (enum sl_raw_need)i, .targets = choices[i]};
        struct sl_raw_files files;
        struct sl_raw raw;
        enum sl_status st = reader->find(&request, &files);
        judge(st);
        if (st != SL_OK) {
            continue;
        }
        st = reader->read(&files, &raw);
        judge(st);
        sl_raw_files_free(&files);
        if (st == SL_OK) {
            for (uint64_t e = 0; e < raw.n_edges; e++) {
                need(raw.from[e] < raw.n_vertices && raw.to[e] < raw.n_vertices);
            }
            need(raw.data.targets.n_rows == raw.n_vertices);
            const struct sl_raw_files all = {.need = SL_RAW_FOR_TRAINING};
            need(raw.data.features.n_rows == 0 || raw.data.features.n_rows == raw.n_vertices);
            need(sl_raw_settle(&all, "what was read", &raw) == SL_OK);
            sl_raw_free(&raw);
        }
    }
}

static void run_arrays(const uint8_t *data, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/" ARRAYS_NAME, folder_with(ARRAYS_NAME, file_of(0, data, n)));
    sl_reader_arrays.recognise(path);
    run_reader(&sl_reader_arrays, path);
}

static void seed_arrays(const char *folder)
{
    static const int64_t edges[] = {0, 1, 1, 2, 1, 1, 2, 3};
    static const float numbers[N * 2] = {1, 2, 3, 4, 0.5F};
    static const int64_t classes[N] = {0, 1, 2, -1, 1, 0};
    static const unsigned char masks[2][N] = {{1, 1, 0}, {0, 0, 1}};
    static const enum sl_dtype dtypes[] = {SL_DTYPE_F32, SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const struct sl_tensor tensors[] = {sl_tensor_make("edge_index", SL_DTYPE_I64, 2, 4, edges),
                                            sl_tensor_make("x", dtypes[i], N, 2, numbers),
                                            sl_tensor_make("x_scale", SL_DTYPE_F32, 1, 0, numbers),
                                            sl_tensor_make("y", SL_DTYPE_I64, N, 0, classes),
                                            sl_tensor_make("class_names", SL_DTYPE_U8, 6, 0, "a\nb\nc\n"),
                                            sl_tensor_make("node_ids", SL_DTYPE_U8, 12, 0, "a\nb\nc\nd\ne\nf\n"),
                                            sl_tensor_make("train_mask", SL_DTYPE_BOOL, N, 0, masks[0]),
                                            sl_tensor_make("test_mask", SL_DTYPE_BOOL, N, 0, masks[1])};
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, sl_dtype_name(dtypes[i]));
        need(sl_safetensors_write(path, tensors, sizeof tensors / sizeof *tensors, NULL, 0) == SL_OK);
    }
}

/* The edges, a NUL, the nodes. */
static void run_table(const uint8_t *data, size_t n)
{
    const char *paths[2];
    split_files(data, n, 2, paths);
    folder_with("nodes.csv", paths[1]);
    run_reader(&sl_reader_table, folder_with("edges.csv", paths[0]));
}

static void seed_table(const char *folder)
{
    static const char plain[] = "src,dst,weight\na,b,1\nb,\"c\"\"\",2.5\r\n\na,a,0\0"
                                "id,x,label,split\na,1,0,train\nb,2,1,val\n\"c\"\"\",0,,\n";
    static const char tabs[] =
        "\xef\xbb\xbfsource\ttarget\n7\t12\n\0node_id\ty\tsplit\tf\n12\t0.5\ttest\t3\n7\tnan\t\t1";
    put_seed(folder, "plain", plain, sizeof plain - 1);
    put_seed(folder, "tabs", tabs, sizeof tabs - 1);
}

/* The tables of a typed dataset; the name of a relation that is in the links is `b___r___a`, another relation has no
 * edges. */
static void run_typed(const uint8_t *data, size_t n)
{
    static const char *const names[] = {"raw/num-node-dict.csv",
                                        "raw/triplet-type-list.csv",
                                        "raw/relations/b___r___a/edge.csv",
                                        "raw/node-feat/a/node-feat.csv",
                                        "raw/node-label/a/node-label.csv",
                                        "raw/nodetype-has-feat.csv",
                                        "split/s/a/train.csv",
                                        "split/s/a/test.csv"};
    const char *paths[MOST_FILES];
    char path[128];
    split_files(data, n, MOST_FILES, paths);
    for (int i = 0; i < MOST_FILES; i++) {
        snprintf(path, sizeof path, "typed/%s", names[i]);
        folder_with(path, paths[i]);
    }
    snprintf(path, sizeof path, "%s/typed", folder_with("typed/split/s/a/valid.csv", paths[MOST_FILES - 1]));
    run_reader(&sl_reader_typed, path);
}

static void seed_typed(const char *folder)
{
    static const char all[] = "a,b\n3,2\0b,r,a\n\0"
                              "0,1\n1,2\n0,0\n\0"
                              "1,2.5\n0,0\n-1,3\n\0"
                              "0\n1\n1\n\0"
                              "a,b\nTrue,False\n\0"
                              "0\n2\n";
    static const char sets[] = "b,a\r\n2,3\r\n\0b,r,a\n\0"
                               "1,2\n\0"
                               "1\n2\n3\n\0"
                               "0,1\nnan,1\n1,0\n\0\0"
                               "0\n\0";
    put_seed(folder, "all", all, sizeof all - 1);
    put_seed(folder, "sets", sets, sizeof sets - 1);
}

static void run_checkpoint(const uint8_t *data, size_t n)
{
    struct sl_tensors found;
    uint64_t whole;
    double real;
    enum sl_status st = sl_checkpoint_load(folder_with(CHECKPOINT_NAME, file_of(0, data, n)), &found);
    judge(st);
    if (st == SL_OK) {
        judge(sl_checkpoint_whole(&found, "epoch", &whole));
        judge(sl_checkpoint_real(&found, "loss", &real));
        sl_tensors_free(&found);
    }
}

/* ---- caches ---- */

static void run_cache(const uint8_t *data, size_t n)
{
    const char *path = file_of(0, data, n);
    struct sl_dataset dataset = {0};
    uint32_t parts[N];
    if (sl_cache_read_dataset(path, KEY, false, &dataset)) {
        fuzz_accepted++;
        /* What a reader lets through, others believe. */
        const struct sl_graph *g = &dataset.graph;
        for (uint32_t v = 0; v < g->n_vertices; v++) {
            for (uint64_t e = g->offsets[v]; e < g->offsets[v + 1]; e++) {
                need(g->sources[e] < g->n_vertices);
            }
            need(dataset.targets.type == SL_TARGET_NUMBER ||
                 dataset.targets.classes[v] < (int32_t)dataset.targets.n_classes);
        }
        sl_dataset_free(&dataset);
    }
    fuzz_accepted += sl_cache_read_parts(path, KEY, N, 2, parts);
}

static void seed_cache(const char *folder)
{
    uint64_t offsets[N + 1] = {0, 1, 3, 5, 6, 7, 7};
    sl_vertex sources[7] = {1, 0, 2, 1, 3, 2, 4};
    float features[N * 2] = {1, 2, 3};
    uint64_t row_ends[N + 1] = {0, 1, 1, 2, 2, 3, 3};
    uint32_t columns[3] = {1, 0, 2};
    int32_t labels[N] = {0, 1, 2, -1, 1, 0};
    uint32_t ids[N] = {3, 0, 1, 2, 5, 4};
    uint32_t parts[N] = {0, 1, 0, 1, 1, 0};
    char path[512];
    struct sl_dataset d = {.name = "small", .split = "one"};
    d.targets = (struct sl_targets){.n_rows = N, .width = 1, .n_classes = 3, .classes = labels};
    d.graph = (struct sl_graph){.n_vertices = N, .n_edges = 7, .offsets = offsets, .sources = sources};
    d.features =
        (struct sl_features){.n_rows = N, .n_columns = 2, .dense = sl_column_take(SL_DTYPE_F32, N, 2, features)};
    d.train = (struct sl_ids){.n = 2, .ids = ids};
    d.valid = (struct sl_ids){.n = 1, .ids = ids + 2};
    d.test = (struct sl_ids){.n = 2, .ids = ids + 3};
    snprintf(path, sizeof path, "%s/dense", folder);
    need(sl_cache_write_dataset(path, KEY, &d));
    d.features =
        (struct sl_features){.n_rows = N, .n_columns = 4, .offsets = row_ends, .columns = columns, .values = features};
    snprintf(path, sizeof path, "%s/sparse", folder);
    need(sl_cache_write_dataset(path, KEY, &d));
    snprintf(path, sizeof path, "%s/parts", folder);
    need(sl_cache_write_parts(path, KEY, N, 2, parts));
}

/* ---- metrics ---- */

static void run_metrics(const uint8_t *data, size_t n)
{
    struct sl_metrics metrics;
    enum sl_status st = sl_metrics_open(file_of(0, data, n), NULL, true, &metrics);
    judge(st);
    if (st == SL_OK) {
        judge(sl_metrics_rewind(&metrics, 1, 3));
        judge(sl_metrics_close(&metrics));
    }
}

static void seed_metrics(const char *folder)
{
    static const char *const texts[] = {"{\"event\":\"run\",\"dataset\":\"x\"}\n{\"event\":\"step\",\"step\":2,"
                                        "\"loss\":1}\n{\"event\":\"epoch\",\"epoch\":1}\n"
                                        "{\"event\":\"epoch\",\"epoch\":2}\n{\"event\":\"summary\"}\n",
                                        "{\"event\":\"epoch\",\"epoch\":1}\nnot ours\n{\"event\":\"st", NULL};
    put_texts(folder, texts);
}

/* ---- options and the environment ---- */

#define MOST_WORDS 40

/* Lines become words; returns how many. The text is changed. */
static int split_lines(char *text, char *words[MOST_WORDS])
{
    int n = 0;
    char *rest;
    for (char *word = strtok_r(text, "\n", &rest); word != NULL && n < MOST_WORDS - 1;
         word = strtok_r(NULL, "\n", &rest)) {
        words[n++] = word;
    }
    words[n] = NULL;
    return n;
}

static char *text_of(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);
    need(text != NULL);
    memcpy(text, data, n);
    text[n] = '\0';
    return text;
}

static void parse(enum sl_status (*defaults)(struct sl_settings **), int argc, char **argv)
{
    static FILE *nowhere;
    OWNED(sl_settings_delete_it) struct sl_settings *settings = NULL;
    char value[64];
    bool runs;
    nowhere = nowhere == NULL ? fopen("/dev/null", "we") : nowhere;
    need(nowhere != NULL);
    need(defaults(&settings) == SL_OK);
    judge(sl_settings_parse(settings, argc, argv, nowhere, &runs));
    judge(sl_settings_get(settings, "fanout", value, sizeof value));
}

static void run_options(const uint8_t *data, size_t n)
{
    FREED char *text = text_of(data, n);
    char *words[MOST_WORDS];
    char *again[MOST_WORDS];
    int argc = split_lines(text, words);
    if (argc > 0) {
        memcpy(again, words, sizeof words);
        parse(sl_settings_new, argc, words);
        parse(sl_settings_new_pipe, argc, again);
    }
}

static void seed_options(const char *folder)
{
    static const char *const texts[] = {"p\n--dataset\ncora\n--fanout=3,3\n--layers\n2\n",
                                        "p\n--model=gat\n--heads=2\n--no-directed\n",
                                        "p\n--resume=auto\n--checkpoint\nx\n--lr=1e-3",
                                        "p\n--help",
                                        "p\n--print-man",
                                        "p\n--\n-x",
                                        NULL};
    put_texts(folder, texts);
}

/* "NAME=VALUE" lines. */
static void run_environment(const uint8_t *data, size_t n)
{
    FREED char *text = text_of(data, n);
    char *words[MOST_WORDS];
    char *none[] = {(char *)(uintptr_t) "p", NULL};
    int n_words = split_lines(text, words);
    const char *variable;
    for (int i = 0; i < n_words; i++) {
        char *value = strchr(words[i], '=');
        if (value != NULL && (strncmp(words[i], "STARLING_", 9) == 0 || strncmp(words[i], "STARPU_", 7) == 0)) {
            *value++ = '\0';
            need(setenv(words[i], value, 1) == 0);
        } else {
            words[i] = NULL;
        }
    }
    parse(sl_settings_new, 1, none);
    judge(sl_environment_check(false));
    judge(sl_environment_check(true));
    sl_environment_memory(&variable);
    for (int i = 0; i < n_words; i++) {
        if (words[i] != NULL) {
            unsetenv(words[i]);
        }
    }
}

static void seed_environment(const char *folder)
{
    static const char *const texts[] = {
        "STARLING_FANOUT=3,3\nSTARLING_LAYERS=2\n", "STARPU_NCPU=2\nSTARPU_LIMIT_CPU_MEM=500\n",
        "STARPU_WORKERS_CPUID=0 1-3\nSTARPU_SCHED=lws\n", "STARPU_TRACE_BUFFER_SIZE=64\n", NULL};
    put_texts(folder, texts);
}

const struct fuzz_target fuzz_targets[] = {
    {"csv", run_csv, seed_csv},
    {"lines", run_lines, seed_lines},
    {"model", run_model, seed_model},
    {"number", run_number, seed_number},
    {"npy", run_npy, seed_npy},
    {"safetensors", run_safetensors, seed_safetensors},
    {"arrays", run_arrays, seed_arrays},
    {"table", run_table, seed_table},
    {"typed", run_typed, seed_typed},
    {"checkpoint", run_checkpoint, seed_safetensors},
    {"cache", run_cache, seed_cache},
    {"metrics", run_metrics, seed_metrics},
    {"options", run_options, seed_options},
    {"environment", run_environment, seed_environment},
    {NULL, NULL, NULL},
};

const struct fuzz_target *fuzz_target_find(const char *name)
{
    const struct fuzz_target *target = fuzz_targets;
    while (target->name != NULL && (name == NULL || strcmp(target->name, name) != 0)) {
        target++;
    }
    return target->name != NULL ? target : NULL;
}
