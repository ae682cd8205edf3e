/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/cache.h: what is written comes back; anything else does not. */
#include "tests/support/data_fixture.h"

#include "data/load.h"

#include <sys/stat.h>

#include "data/cache.h"
#include "data/features.h"
#include "data/identity.h"
#include "support/convert.h"
#include "support/memory.h"
#include "support/parallel.h"
#include "support/safetensors.h"
#include "tests/support/floats.h"

#define KEY 0x1234567890abcdefu

/* The dataset of put_small_dataset, dense, or with a CSR table of 30 columns. */
static void load_small(bool sparse, struct sl_dataset *out)
{
    static const char *const tables[] = {"1,2\n0.5,-1\n3,4.25\n1e-3,7\n0,0\n-2,2\n", NULL};
    char words[6 * 64] = "";
    for (int r = 0; r < 6; r++) {
        for (int c = 0; c < 30; c++) {
            strcat(words, c == 5 * r ? "3" : "0");
            strcat(words, c < 29 ? "," : "\n");
        }
    }
    put_small_dataset("small");
    put_text("small/f.csv", sparse ? words : tables[0]);
    struct sl_dataset_options options = {.dataset = in_folder("small"), .cache = "none", .features = "f.csv"};
    assert_ok(sl_dataset_load(&options, out));
    assert_int_equal(out->features.offsets != NULL, sparse);
}

static void assert_same(const struct sl_dataset *a, const struct sl_dataset *b)
{
    const struct sl_ids *lists[][2] = {{&a->train, &b->train}, {&a->valid, &b->valid}, {&a->test, &b->test}};
    uint32_t n = a->graph.n_vertices;
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->split, b->split);
    assert_int_equal(a->synthetic, b->synthetic);
    assert_int_equal(a->targets.n_classes, b->targets.n_classes);
    assert_int_equal(n, b->graph.n_vertices);
    assert_int_equal(a->graph.n_edges, b->graph.n_edges);
    assert_memory_equal(a->graph.offsets, b->graph.offsets, (n + 1) * sizeof *a->graph.offsets);
    assert_memory_equal(a->graph.sources, b->graph.sources, a->graph.n_edges * sizeof *a->graph.sources);
    assert_int_equal(a->targets.type, b->targets.type);
    assert_int_equal(a->targets.width, b->targets.width);
    assert_int_equal(a->targets.n_rows, b->targets.n_rows);
    assert_memory_equal(a->targets.data, b->targets.data, sl_targets_bytes(&a->targets));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lists[i][0]->n, lists[i][1]->n);
        assert_memory_equal(lists[i][0]->ids, lists[i][1]->ids, lists[i][0]->n * sizeof(sl_vertex));
    }
    assert_int_equal(a->class_names == NULL, b->class_names == NULL);
    assert_int_equal(a->vertex_names == NULL, b->vertex_names == NULL);
    if (a->class_names != NULL) {
        assert_string_equal(a->class_names, b->class_names);
        assert_string_equal(a->vertex_names, b->vertex_names);
    }
    const struct sl_features *f = &a->features;
    const struct sl_features *g = &b->features;
    assert_int_equal(f->n_rows, g->n_rows);
    assert_int_equal(f->n_columns, g->n_columns);
    assert_int_equal(f->offsets == NULL, g->offsets == NULL);
    if (f->offsets == NULL) {
        assert_memory_equal(f->dense.data, g->dense.data, (size_t)f->n_rows * f->n_columns * sizeof(float));
    } else {
        assert_memory_equal(f->offsets, g->offsets, (n + 1) * sizeof(uint64_t));
        assert_memory_equal(f->columns, g->columns, f->offsets[n] * sizeof(uint32_t));
        assert_memory_equal(f->values, g->values, f->offsets[n] * sizeof(float));
    }
}

TEST_IN_FOLDER(brings_it_back)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        OWNED(sl_dataset_free) struct sl_dataset made;
        OWNED(sl_dataset_free) struct sl_dataset read;
        const char *path = in_folder("deep/down/cache.slc");
        load_small(sparse, &made);
        made.synthetic = sparse;
        if (sparse) {
            assert_ok(sl_strdup("a\n\nc\n", &made.class_names));
            assert_ok(sl_strdup("x\ny\nz\n0\n1\n2\n", &made.vertex_names));
        }
        assert_true(sl_cache_write_dataset(path, KEY, &made));
        assert_true(sl_cache_read_dataset(path, KEY, false, &read));
        assert_non_null(read.mapping);
        assert_same(&made, &read);
        assert_int_equal((uintptr_t)read.graph.offsets % 64, 0);
        sl_dataset_free(&read);
        assert_true(sl_cache_read_dataset(path, KEY, true, &read));
        assert_same(&made, &read);
        sl_dataset_drop_pages(&read);
        assert_same(&made, &read);
        assert_int_equal(sl_cache_parts_key(&read, 0, 2, 1), sl_cache_parts_key(&made, 0, 2, 1));
        sl_dataset_free(&read);
        assert_false(sl_cache_read_dataset(path, KEY + 1, false, &read)); /* of other files or options */
        assert_null(read.targets.data);
    }
}

/* The file is a safetensors file with the names that are documented. */
TEST_IN_FOLDER(other_programs_can_read_it)
{
    static const struct {
        const char *name;
        enum sl_dtype dtype;
        uint32_t n_dims;
        uint64_t shape[2];
    } expected[] = {
        {"colptr", SL_DTYPE_U64, 1, {7, 0}},
        {"x", SL_DTYPE_F32, 2, {6, 2}},
        {"y", SL_DTYPE_I32, 1, {6, 0}},
        {"train", SL_DTYPE_U32, 1, {2, 0}},
        {"starling.facts", SL_DTYPE_U8, 1, {0, 0}},
    };
    OWNED(sl_dataset_free) struct sl_dataset made;
    OWNED(sl_tensors_free) struct sl_tensors read;
    load_small(false, &made);
    assert_true(sl_cache_write_dataset(in_folder("cache.slc"), KEY, &made));
    assert_ok(sl_safetensors_read(in_folder("cache.slc"), &read));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct sl_tensor *found = sl_tensors_find(&read, expected[i].name);
        assert_non_null(found);
        assert_int_equal(found->dtype, expected[i].dtype);
        assert_int_equal(found->n_dims, expected[i].n_dims);
        for (uint32_t d = 0; d < found->n_dims && expected[i].shape[d] > 0; d++) {
            assert_int_equal(found->shape[d], expected[i].shape[d]);
        }
    }
    assert_memory_equal(sl_tensors_find(&read, "x")->data, made.features.dense.data, 6 * 2 * sizeof(float));
    assert_null(sl_tensors_find(&read, "edge_weight"));
}

/* Sets of the split may be empty. */
TEST_IN_FOLDER(an_empty_set_comes_back)
{
    OWNED(sl_dataset_free) struct sl_dataset made;
    OWNED(sl_dataset_free) struct sl_dataset read;
    struct sl_identity of_files;
    struct sl_identity of_cache;
    const char *path = in_folder("cache.slc");
    load_small(true, &made);
    made.test.n = 0;
    assert_true(sl_cache_write_dataset(path, KEY, &made));
    assert_true(sl_cache_read_dataset(path, KEY, false, &read));
    assert_same(&made, &read);
    sl_dataset_identify(&made, &of_files);
    sl_dataset_identify(&read, &of_cache);
    for (int i = 0; i < SL_N_DATA_PARTS; i++) {
        assert_string_equal(of_files.text[i], of_cache.text[i]);
    }
}

/* ---- identities ---- */

/* Bit i is set if part i of the two identities differs. */
static unsigned differing(const struct sl_identity *a, const struct sl_identity *b)
{
    unsigned bits = 0;
    for (int i = 0; i < SL_N_DATA_PARTS; i++) {
        bits |= (unsigned)(strcmp(a->text[i], b->text[i]) != 0) << i;
    }
    return bits;
}

/* From files, from the cache, by however many threads: one identity. */
TEST_IN_FOLDER(identity_is_of_contents)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        OWNED(sl_dataset_free) struct sl_dataset made;
        OWNED(sl_dataset_free) struct sl_dataset read;
        struct sl_identity of_files;
        struct sl_identity of_cache;
        const char *path = in_folder("kept.slc");
        load_small(sparse, &made);
        sl_dataset_identify(&made, &of_files);
        assert_true(strncmp(of_files.text[SL_DATA_GRAPH], "6 vertices, ", 12) == 0);
        assert_true(sl_cache_write_dataset(path, KEY, &made));
        assert_true(sl_cache_read_dataset(path, KEY, false, &read));
        sl_dataset_identify(&read, &of_cache);
        assert_int_equal(differing(&of_files, &of_cache), 0);
        read.hashed = false;
        sl_parallel_limit(1);
        sl_dataset_identify(&read, &of_cache);
        sl_parallel_limit(0);
        assert_int_equal(differing(&of_files, &of_cache), 0);
        sl_dataset_free(&read);
        assert_true(sl_cache_read_dataset(path, KEY, true, &read));
        sl_dataset_identify(&read, &of_cache);
        assert_int_equal(differing(&of_files, &of_cache), 0);
    }
}

/* Narrow features come back in their dtype, with their scale. */
TEST_IN_FOLDER(keeps_narrow_features)
{
    static const enum sl_dtype dtypes[] = {SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};
    static int8_t entries[24] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, -1, -2, -3};
    struct sl_dataset made, read;
    const char *path = in_folder("narrow.slc");
    load_small(false, &made);
    sl_column_free(&made.features.dense);
    for (int i = 0; i < 3; i++) {
        made.features.dense = sl_column_take(dtypes[i], 6, 2, entries);
        made.features.dense.hold = SL_HOLD_BORROWED;
        made.features.dense.scale = 0.25f;
        assert_true(sl_cache_write_dataset(path, KEY, &made));
        assert_true(sl_cache_read_dataset(path, KEY, false, &read));
        assert_int_equal(read.features.dense.dtype, dtypes[i]);
        assert_true(dtypes[i] != SL_DTYPE_I8 || read.features.dense.scale == 0.25f);
        assert_memory_equal(read.features.dense.data, entries,
                            sl_column_bytes_of(&read.features.dense, read.features.dense.n_rows));
        sl_dataset_free(&read);
    }
    sl_dataset_free(&made);
}

#define N_WIDE 9000 /* columns: several blocks of a checksum, the last one not full */

/* Features of another dtype have the identity of their values as float32, from memory and from the cache. Other values
 * have another. */
TEST_IN_FOLDER(identity_is_of_values)
{
    static const enum sl_dtype dtypes[] = {SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};
    static const char *const texts[] = {"float16", "bfloat16", "int8 times 0.25"};
    static uint16_t narrow[6 * N_WIDE];
    static float wide[6 * N_WIDE];
    struct sl_dataset made, read;
    struct sl_identity of_floats, of_narrow, of_cache;
    const char *path = in_folder("values.slc");
    load_small(false, &made);
    sl_column_free(&made.features.dense);
    made.features.n_columns = N_WIDE;
    for (int i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < 6 * N_WIDE; k++) {
            narrow[k] = (uint16_t)(k * 7 % 15000 + k % 2 * 0x8000);
        }
        struct sl_column column = sl_column_take(dtypes[i], 6, N_WIDE, narrow);
        column.hold = SL_HOLD_BORROWED;
        column.scale = 0.25f;
        for (int changed = 0; changed < 3; changed++) {
            sl_convert_to_floats(dtypes[i], column.scale, (size_t)6 * N_WIDE, narrow, wide);
            made.features.dense = sl_column_take(SL_DTYPE_F32, 6, N_WIDE, wide);
            made.features.dense.hold = SL_HOLD_BORROWED;
            sl_dataset_identify(&made, &of_floats);
            assert_string_equal(of_floats.feature_dtype, "float32");
            made.features.dense = column;
            sl_dataset_identify(&made, &of_narrow);
            assert_string_equal(of_narrow.feature_dtype, texts[i]);
            assert_int_equal(differing(&of_floats, &of_narrow), 0);
            assert_true(sl_cache_write_dataset(path, KEY, &made));
            assert_true(sl_cache_read_dataset(path, KEY, false, &read));
            sl_dataset_identify(&read, &of_cache);
            assert_int_equal(differing(&of_floats, &of_cache), 0);
            assert_string_equal(of_cache.feature_dtype, texts[i]);
            sl_dataset_free(&read);
            ((unsigned char *)narrow)[changed * 20000] ^= 1;
            sl_dataset_identify(&made, &of_narrow);
            assert_int_equal(differing(&of_floats, &of_narrow), 1 << SL_DATA_FEATURES);
        }
    }
    made.features.dense.scale = 0.5f; /* of int8 */
    sl_dataset_identify(&made, &of_cache);
    assert_int_equal(differing(&of_narrow, &of_cache), 1 << SL_DATA_FEATURES);
    sl_dataset_free(&made);
}

/* A change of any value is a change of its part alone. */
TEST_IN_FOLDER(identity_tells_parts_apart)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        OWNED(sl_dataset_free) struct sl_dataset made;
        struct sl_identity before;
        struct sl_identity after;
        load_small(sparse, &made);
        sl_dataset_identify(&made, &before);
        const struct sl_features *f = &made.features;
        float *value = sparse ? &f->values[f->offsets[f->n_rows] - 1] : &floats_of(f)[f->n_rows * f->n_columns - 1];
        *value += 1;
        sl_dataset_identify(&made, &after);
        assert_int_equal(differing(&before, &after), 1 << SL_DATA_FEATURES);
        *value -= 1;
        made.graph.sources[0] ^= 1;
        sl_dataset_identify(&made, &after);
        assert_int_equal(differing(&before, &after), 1 << SL_DATA_GRAPH);
        made.graph.sources[0] ^= 1;
        made.targets.classes[5] += 1;
        sl_dataset_identify(&made, &after);
        assert_int_equal(differing(&before, &after), 1 << SL_DATA_LABELS);
        made.targets.classes[5] -= 1;
        assert_ok(sl_strdup("a\nb\nc\n", &made.class_names));
        sl_dataset_identify(&made, &after);
        assert_int_equal(differing(&before, &after), 1 << SL_DATA_LABELS);
        made.class_names[0] = 'A';
        sl_dataset_identify(&made, &before);
        assert_int_equal(differing(&before, &after), 1 << SL_DATA_LABELS);
        struct sl_ids kept = made.valid; /* two sets change places */
        made.valid = made.test;
        made.test = kept;
        sl_dataset_identify(&made, &after);
        assert_int_equal(differing(&before, &after), 1 << SL_DATA_SPLIT);
        made.test.n = 0;
        sl_dataset_identify(&made, &after);
        assert_int_equal(differing(&before, &after), 1 << SL_DATA_SPLIT);
    }
}

/* Cut short anywhere, longer, or with any byte changed, the file is refused. Only the text that says what the file is
 * may differ. */
TEST_IN_FOLDER(refuses_any_damage)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        OWNED(sl_dataset_free) struct sl_dataset made;
        struct sl_dataset read;
        OWNED(sl_free_it) char *data;
        size_t bytes;
        load_small(sparse, &made);
        assert_true(sl_cache_write_dataset(in_folder("whole"), KEY, &made));
        assert_ok(sl_file_read(in_folder("whole"), 1 << 20, &data, &bytes));
        const char *path = in_folder("broken");
        for (size_t n = 0; n < bytes; n += n < 700 ? 13 : 3) {
            assert_false(sl_cache_read_dataset(put_bytes("broken", data, n), KEY, false, &read));
        }
        size_t accepted = 0;
        for (size_t at = 0; at < bytes; at++) {
            data[at] ^= 0x41;
            if (sl_cache_read_dataset(put_bytes("broken", data, bytes), KEY, false, &read)) {
                assert_same(&made, &read);
                sl_dataset_free(&read);
                accepted++;
            }
            data[at] ^= 0x41;
        }
        assert_true(accepted <= sizeof "format: starling cache");
        assert_false(sl_cache_read_dataset(folder, KEY, false, &read));
        assert_false(sl_cache_read_dataset(in_folder("none"), KEY, false, &read));
        put_bytes("broken", data, bytes);
        FILE *stream = fopen(path, "ab");
        fputc(0, stream);
        fclose(stream);
        assert_false(sl_cache_read_dataset(path, KEY, false, &read));
    }
}

/* A file whose checksums are right but whose contents are not: as somebody else could have made it. */
TEST_IN_FOLDER(refuses_forgeries)
{
    OWNED(sl_dataset_free) struct sl_dataset made;
    OWNED(sl_dataset_free) struct sl_dataset read;
    const char *path = in_folder("forged");
    load_small(true, &made);
#define ASSERT_NOTICED(field, wrong)                                                                                   \
    do {                                                                                                               \
        __typeof__(field) right = (field);                                                                             \
        (field) = (wrong);                                                                                             \
        assert_true(sl_cache_write_dataset(path, KEY, &made));                                                         \
        assert_false(sl_cache_read_dataset(path, KEY, false, &read));                                                  \
        (field) = right;                                                                                               \
    } while (0)
    ASSERT_NOTICED(made.graph.offsets[0], 1);
    ASSERT_NOTICED(made.graph.offsets[2], (uint64_t)1 << 40);
    ASSERT_NOTICED(made.graph.offsets[2], 0);
    ASSERT_NOTICED(made.graph.offsets[6], 6);
    ASSERT_NOTICED(made.graph.sources[0], 6);
    ASSERT_NOTICED(made.graph.sources[1], 2); /* of vertex 1: 0, 2 */
    ASSERT_NOTICED(made.targets.classes[0], 3);
    ASSERT_NOTICED(made.targets.classes[0], -2);
    ASSERT_NOTICED(made.targets.classes[0], -1); /* a training vertex */
    ASSERT_NOTICED(made.train.ids[1], 6);
    ASSERT_NOTICED(made.train.ids[1], 0);
    ASSERT_NOTICED(made.features.columns[0], 30);
    ASSERT_NOTICED(made.features.offsets[1], 2000);
    assert_true(sl_cache_write_dataset(path, KEY, &made));
    assert_true(sl_cache_read_dataset(path, KEY, false, &read));
}

TEST_IN_FOLDER(survives_mutations)
{
    OWNED(sl_dataset_free) struct sl_dataset made;
    OWNED(sl_free_it) char *data;
    size_t bytes;
    load_small(true, &made);
    assert_true(sl_cache_write_dataset(in_folder("whole"), KEY, &made));
    assert_ok(sl_file_read(in_folder("whole"), 1 << 20, &data, &bytes));
    for (int i = 0; i < 1500; i++) {
        static unsigned char mutant[1 << 14];
        struct sl_dataset read;
        memcpy(mutant, data, bytes);
        size_t n = mutate(mutant, bytes, sizeof mutant);
        if (sl_cache_read_dataset(put_bytes("mutant", mutant, n), KEY, false, &read)) {
            assert_same(&made, &read);
            sl_dataset_free(&read);
        }
    }
}

TEST_IN_FOLDER(parts)
{
    const uint32_t made[] = {0, 1, 2, 1, 0};
    uint32_t read[5] = {9, 9, 9, 9, 9};
    const char *path = in_folder("parts.slc");
    assert_true(sl_cache_write_parts(path, KEY, 5, 3, made));
    assert_true(sl_cache_read_parts(path, KEY, 5, 3, read));
    assert_memory_equal(made, read, sizeof made);
    assert_false(sl_cache_read_parts(path, KEY + 1, 5, 3, read));
    assert_false(sl_cache_read_parts(path, KEY, 4, 3, read));
    assert_false(sl_cache_read_parts(path, KEY, 5, 4, read));
    assert_true(sl_cache_write_parts(path, KEY, 5, 2, made)); /* a part that is not there */
    assert_false(sl_cache_read_parts(path, KEY, 5, 2, read));
    struct sl_dataset dataset; /* nor is it taken for a dataset */
    assert_false(sl_cache_read_dataset(path, KEY, false, &dataset));
}

/* Whatever decides the parts changes the key. */
TEST_IN_FOLDER(parts_key)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    load_small(false, &d);
    uint64_t key = sl_cache_parts_key(&d, 0, 2, 1);
    assert_true(key == sl_cache_parts_key(&d, 0, 2, 1));
    assert_true(key != sl_cache_parts_key(&d, 1, 2, 1));
    assert_true(key != sl_cache_parts_key(&d, 0, 3, 1));
    assert_true(key != sl_cache_parts_key(&d, 0, 2, 2));
    d.graph.sources[1]++;
    assert_true(key != sl_cache_parts_key(&d, 0, 2, 1));
    d.graph.sources[1]--;
    d.train.ids[0]++;
    assert_true(key != sl_cache_parts_key(&d, 0, 2, 1));
    d.train.ids[0]--;
    d.train.n--;
    assert_true(key != sl_cache_parts_key(&d, 0, 2, 1));
    d.train.n++;
}

/* Large arrays are summed in pieces by several threads: any number of them, the same key; and each piece has its
 * place. */
TEST_IN_FOLDER(parts_key_of_many_edges)
{
    enum { N = 3 << 20, PIECE = N / 3 }; /* three pieces of 4 MiB */
    uint64_t offsets[] = {0, N};
    OWNED(sl_free_it) sl_vertex *sources;
    assert_ok(sl_alloc(N, sizeof *sources, "sources", &sources));
    for (uint32_t i = 0; i < N; i++) {
        sources[i] = i;
    }
    struct sl_dataset d = {.graph = {.n_vertices = 1, .n_edges = N, .offsets = offsets, .sources = sources}};
    uint64_t key = sl_cache_parts_key(&d, 0, 2, 1);
    sl_parallel_limit(1);
    assert_true(key == sl_cache_parts_key(&d, 0, 2, 1));
    sl_parallel_limit(0);
    for (uint32_t i = 0; i < PIECE; i++) { /* the first piece and the second change places */
        sources[i] = PIECE + i;
        sources[PIECE + i] = i;
    }
    assert_true(key != sl_cache_parts_key(&d, 0, 2, 1));
}

/* A file that another user put there, or can write, is not believed. */
TEST_IN_FOLDER(trusts_nobody)
{
    OWNED(sl_dataset_free) struct sl_dataset made;
    struct sl_dataset read;
    load_small(false, &made);
    const char *path = in_folder("shared/cache.slc");
    assert_true(sl_cache_write_dataset(path, KEY, &made));
    assert_int_equal(chmod(path, 0666), 0);
    assert_false(sl_cache_read_dataset(path, KEY, false, &read));
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(in_folder("shared"), 0777), 0);
    assert_false(sl_cache_read_dataset(path, KEY, false, &read)); /* anybody may have put it in place of ours */
    assert_int_equal(chmod(in_folder("shared"), 01777), 0);
    assert_true(sl_cache_read_dataset(path, KEY, false, &read));
    sl_dataset_free(&read);
    if (chown(path, 12345, 12345) == 0) { /* who may do that: root, as a rule */
        assert_false(sl_cache_read_dataset(path, KEY, false, &read));
        assert_int_equal(chown(in_folder("shared"), 12345, 12345), 0); /* who owns the data may own their cache */
        assert_true(sl_cache_read_dataset(path, KEY, false, &read));
        sl_dataset_free(&read);
    }
}

TEST_IN_FOLDER(does_without_a_place_or_memory)
{
    OWNED(sl_dataset_free) struct sl_dataset made;
    struct sl_dataset read;
    load_small(false, &made);
    put_text("file", "");
    assert_false(sl_cache_write_dataset(in_folder("file/x.slc"), KEY, &made));
    assert_true(sl_cache_write_dataset(in_folder("x.slc"), KEY, &made));
    long live = sl_memory_live();
    for (long allowed = 0; allowed < 30; allowed++) {
        sl_memory_ration(allowed);
        bool found = sl_cache_read_dataset(in_folder("x.slc"), KEY, false, &read);
        sl_cache_write_dataset(in_folder("y.slc"), KEY, &made);
        sl_memory_ration(-1);
        if (found) {
            assert_same(&made, &read);
        }
        sl_dataset_free(&read);
        assert_int_equal(sl_memory_live(), live);
    }
}

TEST_MAIN(NULL, nothing_left)
