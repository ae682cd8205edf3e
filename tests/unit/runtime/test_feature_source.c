/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/store/feature_source.h: a row's address, its bytes, parts that are not held, handles, and the lock.
 */
#include "runtime/store/feature_source.h"

#include "support/convert.h"
#include "tests/support/group_fixture.h"
#include "tests/support/lock_fixture.h"
#include "tests/support/starpu_fixture.h"

#define N 90
#define N_PARTS 4

/* A dataset of N vertices and a partition whose part 1 is empty. */
struct made {
    struct sl_dataset dataset;
    struct sl_partition partition;
};

static void make(bool sparse, struct made *out)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = N, .sparse = sparse};
    uint32_t parts[N];
    make_dataset(&shape, &out->dataset);
    for (uint32_t v = 0; v < N; v++) {
        parts[v] = v % 3 + (v % 3 > 0);
    }
    make_partition(&out->dataset.graph, N_PARTS, parts, &out->partition);
}

static void unmake(struct made *made)
{
    sl_partition_free(&made->partition);
    sl_dataset_free(&made->dataset);
}

static float feature(const struct sl_features *f, uint32_t v, uint32_t c)
{
    float value = 0;
    if (f->offsets == NULL) {
        float block[1];
        return *sl_column_floats(&f->dense, (uint64_t)v * f->n_columns + c, 1, block);
    }
    for (uint64_t k = f->offsets[v]; k < f->offsets[v + 1]; k++) {
        value = f->columns[k] == c ? f->values[k] : value;
    }
    return value;
}

/* Each row of a held part is the vertex's, by id and by part and row; rows of other parts are zero. */
static void check_rows(const struct made *m, const struct sl_feature_source *s, const bool *held)
{
    for (uint32_t q = 0; q < N_PARTS; q++) {
        for (uint32_t v = m->partition.first[q]; v < m->partition.first[q + 1]; v++) {
            const char *row = sl_feature_row(s, v);
            const char *table = sl_feature_table(s, q);
            assert_ptr_equal(row, table + (v - m->partition.first[q]) * sl_feature_row_bytes(s));
            for (uint32_t c = 0; c < s->n_columns; c++) {
                float wanted = feature(&m->dataset.features, m->partition.dataset_ids[v], c);
                wanted = held == NULL || held[q] ? wanted : 0;
                if (s->dtype == SL_DTYPE_BF16) {
                    assert_int_equal(((const sl_bf16 *)(const void *)row)[c], sl_bf16_of(wanted));
                } else {
                    assert_true(((const sl_real *)(const void *)row)[c] == (sl_real)wanted);
                }
            }
        }
    }
}

TEST(rows)
{
    static const bool some[N_PARTS] = {false, true, true, false};
    for (int sparse = 0; sparse < 2; sparse++) {
        struct made m;
        make(sparse, &m);
        for (int bf16 = 0; bf16 < 2; bf16++) {
            enum sl_dtype dtype = bf16 ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
            for (int k = 0; k < 2; k++) {
                const bool *held = k == 0 ? NULL : some;
                struct sl_feature_source s;
                expect_ok(sl_feature_source_open(&m.dataset, &m.partition, dtype, true, held, &s));
                assert_false(sl_feature_source_empty(&s));
                assert_int_equal(s.dtype, dtype);
                assert_int_equal(sl_feature_source_bytes(&s), N * s.n_columns * sl_dtype_size(dtype));
                check_rows(&m, &s, held);
                sl_feature_source_close(&s);
                assert_true(sl_feature_source_empty(&s));
            }
        }
        unmake(&m);
    }
}

/* Handles read the source's memory in place. */
TEST(handles)
{
    struct made m;
    struct sl_feature_source s;
    make(false, &m);
    expect_ok(sl_feature_source_open(&m.dataset, &m.partition, SL_DTYPE_REAL, true, NULL, &s));
    for (uint32_t q = 0; q < N_PARTS; q++) {
        uint32_t n = m.partition.first[q + 1] - m.partition.first[q];
        struct sl_split split = sl_split_rows(n, 4, 2);
        struct sl_rows chunks;
        starpu_data_handle_t table = sl_feature_table_register(&s, q);
        assert_int_equal(sl_handle_rows(table), n == 0 ? 1 : n);
        assert_int_equal(sl_handle_columns(table), s.n_columns);
        assert_ptr_equal(starpu_data_get_local_ptr(table), sl_feature_table(&s, q));
        expect_ok(sl_feature_rows_register(&s, q, &split, &chunks));
        for (uint32_t c = 0; c < split.n_chunks; c++) {
            assert_ptr_equal(starpu_data_get_local_ptr(chunks.chunk[c]),
                             sl_feature_row(&s, m.partition.first[q] + (c << split.shift)));
        }
        sl_rows_drop(&chunks);
        sl_handle_close(table);
    }
    starpu_task_wait_for_all();
    sl_feature_source_close(&s);
    unmake(&m);
}

/* An empty source (sparse features) takes every call. */
TEST(empty)
{
    OWNED(sl_feature_source_close) struct sl_feature_source s = {0};
    assert_true(sl_feature_source_empty(&s));
    assert_true(sl_feature_source_pin(&s));
    assert_false(s.pinned);
    assert_false(sl_feature_source_reached(&s));
}

static bool refuse_all(uint32_t wish)
{
    (void)wish;
    return true;
}

/* The lock covers all rows, and goes with the source. */
TEST(lock)
{
    struct made m;
    struct sl_feature_source s;
    make(false, &m);
    expect_ok(sl_feature_source_open(&m.dataset, &m.partition, SL_DTYPE_REAL, true, NULL, &s));
    assert_false(s.pinned || sl_feature_source_reached(&s));
    refuses = refuse_all;
    assert_false(sl_feature_source_pin(&s));
    assert_false(s.pinned || sl_feature_source_reached(&s));
    refuses = NULL;
    assert_true(sl_feature_source_pin(&s) && s.pinned);
    assert_int_equal(n_locked, 1);
    assert_ptr_equal(locked[0].memory, sl_feature_table(&s, 0));
    assert_int_equal(locked[0].bytes, sl_feature_source_bytes(&s));
    sl_feature_source_close(&s);
    assert_int_equal(n_locked, 0);
    unmake(&m);
}

TEST(no_memory)
{
    struct made m;
    struct sl_feature_source s;
    make(false, &m);
    long live = sl_memory_live();
    sl_memory_ration(0);
    assert_int_equal(sl_feature_source_open(&m.dataset, &m.partition, SL_DTYPE_BF16, true, NULL, &s), SL_ENOMEM);
    sl_memory_ration(-1);
    assert_true(sl_feature_source_empty(&s) && sl_memory_live() == live);
    unmake(&m);
}

TEST_MAIN(lock_up, lock_down)
