/* gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/store/shards.h: which ranges go to which NUMA node, which tables are locked in memory. (What the tables
 * hold is seen by every test that trains.)
 */
#include "data/load.h"
#include "runtime/store/shards.h"

#include <sys/mman.h>

#include "runtime/machine/topology.h"
#include "tests/support/group_fixture.h"
#include "tests/support/lock_fixture.h"
#include "tests/support/starpu_fixture.h"

#define N_PARTS 4

/* On a machine of one node, 0: the ranges of parts that go to any other node are refused, and those alone. */
static void check_placement(bool dense)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 180, .sparse = true};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    OWNED(sl_shards_close) struct sl_shards shards;
    uint32_t n_refused = 77;
    uint32_t parts[180];
    make_dataset(&shape, &dataset);
    for (uint32_t v = 0; v < 180; v++) {
        parts[v] = v % 3 + (v % 3 > 0); /* 0, 2, 3: part 1 is empty, and nothing of it is ever refused */
    }
    make_partition(&dataset.graph, N_PARTS, parts, &partition);
    expect_ok(sl_shards_open(&dataset, &partition, dense, SL_DTYPE_REAL, NULL, &shards));
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
}

/* The most entries of a sparse row, part by part: what a GPU's working memory follows from. */
TEST(test_fullest_rows)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 180, .sparse = true};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    OWNED(sl_shards_close) struct sl_shards shards;
    uint32_t parts[180];
    uint32_t most[N_PARTS] = {0};
    make_dataset(&shape, &dataset);
    for (uint32_t v = 0; v < 180; v++) {
        parts[v] = v % 3 + (v % 3 > 0); /* part 1 is empty */
        uint32_t n = (uint32_t)(dataset.features.offsets[v + 1] - dataset.features.offsets[v]);
        most[parts[v]] = n > most[parts[v]] ? n : most[parts[v]];
    }
    make_partition(&dataset.graph, N_PARTS, parts, &partition);
    expect_ok(sl_shards_open(&dataset, &partition, SL_FEATURES_AS_THEY_ARE, SL_DTYPE_REAL, NULL, &shards));
    for (uint32_t q = 0; q < N_PARTS; q++) {
        assert_int_equal(shards.part[q].sparse.max_row, most[q]);
    }
    assert_true(most[0] > 0 && most[1] == 0);
}

#define HUGE_PAGE ((uintptr_t)2 << 20)
#define N_LARGE 2000000

/* Pages of begin .. end that the process has touched; the huge ones at both ends, which are others', too, left out. */
static size_t count_touched(const void *begin, const void *end)
{
    static unsigned char resident[HUGE_PAGE / 4096];
    size_t n = 0;
    uintptr_t first = ((uintptr_t)begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    assert_true(first + HUGE_PAGE <= (uintptr_t)end);
    for (; first + HUGE_PAGE <= (uintptr_t)end; first += HUGE_PAGE) {
        assert_int_equal(mincore((void *)first, HUGE_PAGE, resident), 0);
        for (size_t i = 0; i < sizeof resident; i++) {
            n += resident[i] & 1;
        }
    }
    return n;
}

/* Of two parts the first is held; of the second's rows there is nothing in memory, but for where they begin. */
TEST(test_held)
{
    static const bool held[] = {true, false};
    OWNED(sl_dataset_free)
    struct sl_dataset dataset = {.graph.n_vertices = N_LARGE,
                                 .features = {.n_rows = N_LARGE, .n_columns = 3},
                                 .targets = {.n_rows = N_LARGE, .width = 1}};
    OWNED(sl_partition_free) struct sl_partition partition;
    OWNED(sl_shards_close) struct sl_shards shards;
    expect_ok(sl_alloc_zero(N_LARGE + 1, sizeof(uint64_t), "offsets", &dataset.graph.offsets));
    expect_ok(sl_alloc_zero(1, sizeof(sl_vertex), "sources", &dataset.graph.sources));
    expect_ok(sl_alloc_zero(N_LARGE + 1, sizeof(uint64_t), "offsets", &dataset.features.offsets));
    expect_ok(sl_alloc_zero(N_LARGE, sizeof(uint32_t), "columns", &dataset.features.columns));
    expect_ok(sl_alloc_zero(N_LARGE, sizeof(float), "values", &dataset.features.values));
    expect_ok(sl_alloc_zero(N_LARGE, sizeof(int32_t), "labels", &dataset.targets.classes));
    for (uint32_t v = 0; v < N_LARGE; v++) {
        dataset.features.offsets[v + 1] = v + 1;
    }
    expect_ok(sl_partition_make(
        &dataset, &(struct sl_partition_rule){.method = SL_PARTITION_NONE, .n_parts = 2, .seed = 1}, &partition));
    expect_ok(sl_shards_open(&dataset, &partition, SL_FEATURES_AS_THEY_ARE, SL_DTYPE_REAL, held, &shards));
    const uint64_t *offsets = shards.sparse_offsets;
    assert_true(count_touched(offsets, offsets + N_LARGE / 2) > 0);
    assert_int_equal(count_touched(offsets + N_LARGE / 2 + 2, offsets + N_LARGE + 2), 0);
    assert_int_equal(shards.part[0].sparse.max_row, 1);
}

TEST(test_place)
{
    struct sl_topology topology;
    static char page[4096];
    const struct sl_memory_range place = {page, sizeof page, 0};
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

TEST(test_pin)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 3000, .n_columns = 100};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    struct sl_shards shards;
    uint32_t parts[3000];
    make_dataset(&shape, &dataset);
    for (uint32_t v = 0; v < 3000; v++) {
        parts[v] = v % N_PARTS;
    }
    make_partition(&dataset.graph, N_PARTS, parts, &partition);
    refuses = every_third;
    for (n_wishes = 0; n_wishes < 3; n_wishes += 2) { /* the third wish is refused, then the first */
        uint32_t before = n_wishes;
        expect_ok(sl_shards_open(&dataset, &partition, SL_FEATURES_DENSE, SL_DTYPE_REAL, NULL, &shards));
        assert_int_equal(n_locked, 0); /* not without being asked */
        uint32_t n_refused = sl_shards_pin(&shards);
        assert_int_equal(n_wishes - before, 1); /* the features alone have a MiB */
        assert_int_equal(n_refused, before == 2);
        assert_int_equal(n_locked, before != 2);
        for (uint32_t q = 0; q < N_PARTS; q++) {
            assert_int_equal(count_locked(shards.part[q].features), before != 2);
            assert_int_equal(count_locked(shards.part[q].targets), 0);
        }
        sl_shards_close(&shards);
        assert_int_equal(n_locked, 0);
        n_wishes = before;
    }
}

TEST_MAIN(lock_up, lock_down)
