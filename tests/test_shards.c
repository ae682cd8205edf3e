/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/store/shards.h: which ranges go to which NUMA node, which tables are locked in memory. (What the tables hold is seen by every test that trains.)
 */
#include "partition/load.h"
#include "runtime/store/shards.h"

#include "runtime/machine/topology.h"
#include "tests/group_fixture.h"
#include "tests/lock_fixture.h"
#include "tests/starpu_fixture.h"

#define N_PARTS 4

/* On a machine of one node, 0: the ranges of parts that go to any other node are refused, and those alone. */
static void check_placement(bool dense)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 180, .sparse = true};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct sl_shards shards;
    uint32_t n_refused = 77;
    uint32_t parts[180];
    make_dataset(&shape, &dataset);
    for (uint32_t v = 0; v < 180; v++) {
        parts[v] = v % 3 + (v % 3 > 0); /* 0, 2, 3: part 1 is empty, and nothing of it is ever refused */
    }
    make_partition(&dataset.graph, N_PARTS, parts, &partition);
    expect_ok(sl_shards_open(&dataset, &partition, dense, &shards));
    assert_int_equal(shards.is_sparse, !dense);
    uint32_t n_ranges = dense ? 4 : 5; /* offsets, sources, labels, and the features in one array or two */
    expect_ok(sl_shards_place(&shards, 1, true, &n_refused));
    assert_int_equal(n_refused, 0);
    expect_ok(sl_shards_place(&shards, 1, false, &n_refused));
    assert_int_equal(n_refused, 0);
    expect_ok(sl_shards_place(&shards, 2, true, &n_refused)); /* nodes 0, 0, 1, 1 */
    assert_int_equal(n_refused, 2 * n_ranges);
    expect_ok(sl_shards_place(&shards, 4, true, &n_refused)); /* 0, 1, 2, 3 */
    assert_int_equal(n_refused, 2 * n_ranges);
    expect_ok(sl_shards_place(&shards, 4, false, &n_refused)); /* all nodes that there are */
    assert_int_equal(n_refused, 0);
    sl_shards_close(&shards);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* The most entries of a sparse row, part by part: what a GPU's working memory follows from. */
static void test_fullest_rows(void **state)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 180, .sparse = true};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct sl_shards shards;
    uint32_t parts[180];
    uint32_t most[N_PARTS] = {0};
    (void)state;
    make_dataset(&shape, &dataset);
    for (uint32_t v = 0; v < 180; v++) {
        parts[v] = v % 3 + (v % 3 > 0); /* part 1 is empty */
        uint32_t n = (uint32_t)(dataset.features.offsets[v + 1] - dataset.features.offsets[v]);
        most[parts[v]] = n > most[parts[v]] ? n : most[parts[v]];
    }
    make_partition(&dataset.graph, N_PARTS, parts, &partition);
    expect_ok(sl_shards_open(&dataset, &partition, false, &shards));
    for (uint32_t q = 0; q < N_PARTS; q++) {
        assert_int_equal(shards.part[q].sparse.max_row, most[q]);
    }
    assert_true(most[0] > 0 && most[1] == 0);
    sl_shards_close(&shards);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

static void test_place(void **state)
{
    struct sl_topology topology;
    static char page[4096];
    const struct sl_place place = {page, sizeof page, 0};
    (void)state;
    expect_ok(sl_topology_read(&topology));
    if (topology.n_numa != 1 || sl_topology_place(&place, 1) != 1) {
        skip(); /* several nodes, or a container that forbids it */
    }
    check_placement(true);
    check_placement(false);
}

static bool every_third(uint32_t wish)
{
    return wish % 3 == 0;
}

/* The memory behind a handle is large enough for pages of its own, or it is not locked. */
static uint32_t count_locked(starpu_data_handle_t handle)
{
    const char *memory = starpu_data_get_local_ptr(handle);
    size_t bytes = starpu_data_get_size(handle);
    for (uint32_t i = 0; i < n_locked; i++) {
        if (memory >= locked[i].memory && memory + bytes <= locked[i].memory + locked[i].bytes) {
            return 1;
        }
    }
    return 0;
}

static void test_pin(void **state)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 3000, .n_columns = 100};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct sl_shards shards;
    uint32_t parts[3000];
    (void)state;
    make_dataset(&shape, &dataset);
    for (uint32_t v = 0; v < 3000; v++) {
        parts[v] = v % N_PARTS;
    }
    make_partition(&dataset.graph, N_PARTS, parts, &partition);
    refuses = every_third;
    for (n_wishes = 0; n_wishes < 3; n_wishes += 2) { /* the third wish is refused, then the first */
        uint32_t before = n_wishes;
        expect_ok(sl_shards_open(&dataset, &partition, true, &shards));
        assert_int_equal(n_locked, 0); /* not without being asked */
        uint32_t n_refused = sl_shards_pin(&shards);
        assert_int_equal(n_wishes - before, 1); /* the features alone have a MiB */
        assert_int_equal(n_refused, before == 2);
        assert_int_equal(n_locked, before != 2);
        for (uint32_t q = 0; q < N_PARTS; q++) {
            assert_int_equal(count_locked(shards.part[q].features), before != 2);
            assert_int_equal(count_locked(shards.part[q].labels), 0);
        }
        sl_shards_close(&shards);
        assert_int_equal(n_locked, 0);
        n_wishes = before;
    }
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

static int up(void **state)
{
    (void)state;
    fixture_start(1);
    return 0;
}

static int down(void **state)
{
    (void)state;
    fixture_stop();
    return sl_memory_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fullest_rows), cmocka_unit_test(test_place),
                                       cmocka_unit_test(test_pin)};
    return cmocka_run_group_tests(tests, up, down);
}
