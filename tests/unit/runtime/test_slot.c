/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/store/slot.h: room for the worst case and no more than was promised, what a fresh slot holds, sampling
 * through it, and what it does without memory. */
#include "data/load.h"
#include "runtime/store/slot.h"

#include "codelets/sampling/exchange.h"
#include "tests/support/group_fixture.h"
#include "tests/support/lock_fixture.h"
#include "tests/support/starpu_fixture.h"

#define SEED 12

/* A dataset, its partition and shards. */
struct data {
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct sl_shards shards;
};

static void open_data(enum graph_kind kind, uint32_t n_parts, struct data *data)
{
    struct graph_shape shape = {.kind = kind, .n_vertices = 180};
    make_dataset(&shape, &data->dataset);
    make_uneven_partition(&data->dataset.graph, n_parts, 3, 4, &data->partition); /* part 2 is empty */
    expect_ok(sl_shards_open(&data->dataset, &data->partition, SL_FEATURES_DENSE, SL_DTYPE_REAL, NULL, &data->shards));
}

static void close_data(struct data *data)
{
    sl_shards_close(&data->shards);
    sl_partition_free(&data->partition);
    sl_dataset_free(&data->dataset);
}

static uint32_t at_least_one(uint64_t n)
{
    return n > 0 ? (uint32_t)n : 1;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- sizes ---- */

/* The most vertices of all parts that `hop` hops reach from the seeds. */
static uint64_t reached(const struct data *data, const struct sl_slot_shape *shape, uint32_t hop)
{
    uint64_t n = shape->n_seeds;
    for (uint32_t h = 0; h < hop; h++) {
        n = shape->full ? data->shards.n_vertices : least(n + n * shape->fanout[h], data->shards.n_vertices);
    }
    return n;
}

/* The worst that a hop can bring: all that is reached lies in the part (hop 0: as many seeds as train there), and each
 * vertex has the fanout or all its in-edges. */
static void check_block(const struct data *data, const struct sl_slot_shape *shape, const struct sl_block *block,
                        uint32_t p, uint32_t hop)
{
    uint32_t n_parts = data->partition.n_parts;
    uint32_t q = p % n_parts;
    const uint32_t *first = data->partition.first;
    uint64_t n_part = first[q + 1] - first[q];
    uint64_t n_rows = 0;
    uint64_t n_edges = 0;
    uint64_t n_asked = 0; /* of q, by the whole group */
    for (uint32_t i = 0; i < n_parts; i++) {
        uint64_t rows = hop == 0 ? data->shards.part[i].n_train : first[i + 1] - first[i];
        rows = least(rows, reached(data, shape, hop));
        uint64_t edges = data->partition.graph.offsets[first[i + 1]] - data->partition.graph.offsets[first[i]];
        edges = shape->full ? edges : least(edges, rows * shape->fanout[hop]);
        n_asked += least(edges, n_part);
        n_rows = i == q ? rows : n_rows;
        n_edges = i == q ? edges : n_edges;
    }
    assert_int_equal(starpu_vector_get_nx(block->edge_offsets), n_rows + 1);
    assert_int_equal(starpu_vector_get_nx(block->edge_sources), at_least_one(n_edges));
    assert_int_equal(block->back_rows != NULL && block->back_offsets != NULL, shape->returns[hop]);
    if (shape->returns[hop]) {
        assert_int_equal(starpu_vector_get_nx(block->back_rows), at_least_one(n_edges));
        assert_int_equal(starpu_vector_get_nx(block->back_offsets), least(n_edges, data->shards.n_vertices) + 1);
    }
    assert_int_equal(starpu_vector_get_nx(block->request), n_parts + 1 + least(n_edges, data->shards.n_vertices));
    assert_int_equal(starpu_vector_get_nx(block->inverse), n_parts + 1 + n_asked);
}

static void check_sizes(const struct data *data, const struct sl_slot_shape *shape)
{
    struct sl_slot slot;
    expect_ok(sl_slot_open(shape, &slot));
    assert_int_equal(slot.n_pes, shape->plan->n_pes);
    for (uint32_t p = 0; p < slot.n_pes; p++) {
        const struct sl_shard *part = &data->shards.part[p % slot.n_parts];
        uint32_t n_part = part->end - part->first;
        const struct sl_slot_pe *pe = &slot.pe[p];
        assert_int_equal(starpu_vector_get_nx(pe->frontier), at_least_one(n_part));
        assert_int_equal(starpu_vector_get_nx(pe->index), at_least_one(sl_index_bytes(n_part)));
        assert_int_equal(starpu_vector_get_nx(pe->marks), sl_marks_bytes(180, shape->max_fanout));
        assert_int_equal(starpu_vector_get_nx(pe->counts), sl_counts_size(shape->plan->n_layers, slot.n_parts));
        for (uint32_t hop = 0; hop < shape->plan->n_layers; hop++) {
            check_block(data, shape, &pe->block[hop], p, hop);
        }
    }
    sl_slot_close(&slot);
    sl_slot_close(&slot); /* an empty one */
}

TEST(test_sizes)
{
    struct data data;
    fixture_start(1);
    open_data(GRAPH_POWER_LAW, 4, &data);
    struct sl_plan plan = {.n_pes = 8, .n_parts = 4, .end_pe = 8, .n_layers = 3};
    struct sl_slot_shape shape = {.plan = &plan,
                                  .shards = &data.shards,
                                  .n_seeds = 10,
                                  .fanout = {2, 3, 100},
                                  .max_fanout = 100,
                                  .returns = {true, true}};
    check_sizes(&data, &shape);
    shape.full = true;
    check_sizes(&data, &shape);
    shape.n_seeds = 1000;
    plan.n_pes = plan.end_pe = 4;
    check_sizes(&data, &shape);
    close_data(&data);
    fixture_stop();
}

/* A rank with the second PE of four in the first of two groups. */
TEST(test_other_ranks)
{
    struct data data;
    struct sl_slot slot;
    fixture_start(1);
    open_data(GRAPH_POWER_LAW, 4, &data);
    const struct sl_plan plan = {.n_pes = 8, .n_parts = 4, .first_pe = 1, .end_pe = 2, .n_layers = 2};
    const struct sl_slot_shape shape = {
        .plan = &plan, .shards = &data.shards, .n_seeds = 10, .fanout = {2, 3}, .max_fanout = 3, .importance = true};
    expect_ok(sl_slot_open(&shape, &slot));
    for (uint32_t p = 0; p < 8; p++) {
        const struct sl_slot_pe *pe = &slot.pe[p];
        const bool here = p == 1;
        const bool near = p < 4;
        assert_non_null(pe->counts);
        assert_true(pe->importance.list != NULL && slot.lists[p] == pe->importance.list);
        assert_true(pe->importance.most != NULL && slot.lists[8 + p] == pe->importance.most);
        assert_int_equal(pe->importance.costs != NULL && pe->importance.room != NULL, near);
        assert_int_equal(pe->block[1].request != NULL, near);
        assert_int_equal(pe->block[1].edge_offsets != NULL || pe->block[1].inverse != NULL, here);
        assert_int_equal(pe->block[1].of_sample && pe->block[1].edge_weights != NULL, here);
        assert_int_equal(pe->frontier != NULL || pe->index != NULL || pe->marks != NULL, here);
        assert_int_equal(pe->importance.candidates != NULL || pe->importance.bounds != NULL, here);
    }
    sl_slot_close(&slot);
    data.shards.weighs_edges = true; /* the dataset's weights are factors of the sample's */
    expect_ok(sl_slot_open(&shape, &slot));
    assert_true(slot.pe[1].block[1].edge_weights != NULL && !slot.pe[1].block[1].of_sample);
    sl_slot_close(&slot);
    close_data(&data);
    fixture_stop();
}

/* Nothing is in a frontier, no word is marked, all counts are zero. */
TEST(test_a_fresh_slot_is_clean)
{
    struct data data;
    struct sl_slot slot;
    fixture_start(1);
    open_data(GRAPH_PATH, 4, &data);
    const struct sl_plan plan = {.n_pes = 4, .n_parts = 4, .end_pe = 4, .n_layers = 1};
    struct sl_slot_shape shape = {.plan = &plan, .shards = &data.shards, .n_seeds = 10, .fanout = {2}, .max_fanout = 2};
    expect_ok(sl_slot_open(&shape, &slot));
    for (uint32_t p = 0; p < 4; p++) {
        uint32_t n_part = data.shards.part[p].end - data.shards.part[p].first;
        const unsigned char *index = starpu_data_get_local_ptr(slot.pe[p].index);
        const unsigned char *marks = starpu_data_get_local_ptr(slot.pe[p].marks);
        const uint32_t *counts = starpu_data_get_local_ptr(slot.pe[p].counts);
        for (size_t i = 0; i < sl_index_bytes(n_part); i++) {
            if (i < 4 * (size_t)n_part || i >= 4 * ((size_t)n_part + (n_part & 1))) {
                assert_int_equal(index[i], i < 4 * (size_t)n_part ? 0xff : 0);
            }
        }
        for (size_t i = 0; i < sl_marks_bytes(180, 2); i++) {
            assert_int_equal(marks[i], 0);
        }
        for (uint32_t i = 0; i < sl_counts_size(1, 4); i++) {
            assert_int_equal(counts[i], 0);
        }
    }
    sl_slot_close(&slot);
    close_data(&data);
    fixture_stop();
}

/* ---- sampling through a slot ---- */

static struct sl_frontier_handles frontier_of(const struct data *data, const struct sl_slot *slot, uint32_t p)
{
    const struct sl_slot_pe *pe = &slot->pe[p];
    const struct sl_shard *part = &data->shards.part[p % slot->n_parts];
    return (struct sl_frontier_handles){.ids = pe->frontier,
                                        .index = pe->index,
                                        .counts = pe->counts,
                                        .n_hops = slot->n_hops,
                                        .first = part->first,
                                        .end = part->end};
}

static void submit_hop(const struct data *data, const struct sl_slot_shape *shape, const struct sl_slot *slot,
                       const struct sl_sample_rule *rule, uint64_t step, uint32_t hop)
{
    uint32_t n_parts = slot->n_parts;
    struct sl_task_args here = head;
    here.hop = hop;
    here.step = step;
    for (uint32_t p = 0; p < slot->n_pes; p++) {
        const struct sl_slot_pe *pe = &slot->pe[p];
        struct sl_frontier_handles frontier = frontier_of(data, slot, p);
        struct sl_marks_handles marks = {
            .bytes = pe->marks, .n_vertices = data->shards.n_vertices, .max_fanout = shape->max_fanout};
        expect_ok(sl_sample_submit(&here, &data->shards.part[p % n_parts].graph, rule, SEED, &frontier, &marks,
                                   &pe->block[hop]));
    }
    for (uint32_t p = 0; p < slot->n_pes; p++) {
        const struct sl_slot_pe *group = &slot->pe[p - p % n_parts];
        struct sl_frontier_handles frontier = frontier_of(data, slot, p);
        starpu_data_handle_t request[8];
        for (uint32_t i = 0; i < n_parts; i++) {
            request[i] = group[i].block[hop].request;
        }
        struct sl_merging owner = {p % n_parts, frontier, slot->pe[p].block[hop].inverse, false};
        expect_ok(sl_merge_submit(&here, n_parts, request, 1, &owner));
    }
}

/* Two groups of four parts, the first with these seeds and the second with none; every hop as the kernels do it. */
static void check_sampling(const struct data *data, const struct sl_slot_shape *shape, const struct sl_slot *slot,
                           enum sl_sample_method method, uint64_t step, uint32_t n_seeds)
{
    struct sl_sample_rule rules[3];
    FREED sl_vertex *order = need(n_seeds, sizeof *order);
    OWNED(group_free) struct group group;
    struct sl_task_args here = head;
    here.step = step;
    for (uint32_t i = 0; i < n_seeds; i++) {
        order[i] = data->partition.new_ids[data->dataset.train.ids[i]];
    }
    for (uint32_t hop = 0; hop < 3; hop++) {
        rules[hop] = (struct sl_sample_rule){.method = method, .fanout = shape->fanout[hop], .kappa = 1};
    }
    group_sample(&data->partition, 3, rules, SEED, step, n_seeds, data->dataset.train.ids, &group);
    starpu_data_handle_t handle = vector_of(order, n_seeds, 4);
    for (uint32_t p = 0; p < 8; p++) {
        struct sl_frontier_handles frontier = frontier_of(data, slot, p);
        expect_ok(sl_seed_submit(&here, handle, p < 4 ? 0 : n_seeds, n_seeds, &frontier));
    }
    for (uint32_t hop = 0; hop < 3; hop++) {
        submit_hop(data, shape, slot, &rules[hop], step, hop);
    }
    unregister(1, &handle);
    starpu_task_wait_for_all();
    expect_no_failure();
    for (uint32_t p = 0; p < 8; p++) {
        const starpu_data_handle_t read[] = {slot->pe[p].counts, slot->pe[p].frontier};
        const uint32_t *counts = starpu_data_get_local_ptr(slot->pe[p].counts);
        bring_home(2, read);
        for (uint32_t level = 0; level <= 3; level++) {
            assert_int_equal(counts[sl_counts_rows(level)], p < 4 ? group.pe[p].n_rows[level] : 0);
        }
        if (p < 4) {
            expect_same("frontier", group.pe[p].n_rows[3], 4, starpu_data_get_local_ptr(slot->pe[p].frontier),
                        group.pe[p].frontier);
        }
    }
}

/* All training vertices at once fill a slot to its limits; then a smaller step runs in the same slot. */
TEST(test_the_worst_case_fits)
{
    const enum sl_sample_method methods[] = {SL_SAMPLE_NEIGHBOR, SL_SAMPLE_LABOR, SL_SAMPLE_FULL};
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct data data;
        fixture_start(2);
        open_data(graph, 4, &data);
        for (int m = 0; m < 3; m++) {
            uint32_t n_train = data.dataset.train.n;
            OWNED(sl_slot_close) struct sl_slot slot;
            const struct sl_plan plan = {.n_pes = 8, .n_parts = 4, .end_pe = 8, .n_layers = 3};
            struct sl_slot_shape shape = {.plan = &plan, .shards = &data.shards, .n_seeds = n_train};
            shape.full = methods[m] == SL_SAMPLE_FULL;
            shape.returns[m] = true;
            shape.max_fanout = 4;
            memcpy(shape.fanout, (uint32_t[]){2, 4, 3}, 3 * sizeof(uint32_t));
            expect_ok(sl_slot_open(&shape, &slot));
            check_sampling(&data, &shape, &slot, methods[m], 0, n_train);
            check_sampling(&data, &shape, &slot, methods[m], 1, 5);
            check_sampling(&data, &shape, &slot, methods[m], 2, n_train / 2);
        }
        close_data(&data);
        fixture_stop();
    }
}

/* ---- refusals ---- */

/* A part with 2^32 in-edges: a fanout without bound is refused before memory is asked for, a small one is not. */
TEST(test_too_many_edges)
{
    uint64_t offsets[] = {0, 0, UINT64_C(1) << 32};
    struct sl_partition partition = {.graph = {.n_vertices = 2, .offsets = offsets}};
    struct sl_shard part = {.first = 0, .end = 2, .n_train = 2};
    struct sl_shards shards = {.n_parts = 1, .n_vertices = 2, .part = &part, .partition = &partition};
    const struct sl_plan plan = {.n_pes = 1, .n_parts = 1, .end_pe = 1, .n_layers = 1};
    struct sl_slot_shape shape = {
        .plan = &plan, .shards = &shards, .n_seeds = 2, .full = true, .fanout = {5}, .max_fanout = 5};
    struct sl_slot slot;
    fixture_start(1);
    assert_int_equal(sl_slot_open(&shape, &slot), SL_EINVAL);
    expect_message(sl_message(), "4294967296", "--pes");
    assert_null(slot.pe);
    assert_int_equal(sl_memory_live(), 1); /* the run's log */
    shape.full = false;
    expect_ok(sl_slot_open(&shape, &slot));
    sl_slot_close(&slot);
    fixture_stop();
}

TEST(test_out_of_memory)
{
    struct data data;
    struct sl_slot slot;
    fixture_start(1);
    open_data(GRAPH_PATH, 2, &data);
    const struct sl_plan plan = {.n_pes = 2, .n_parts = 2, .end_pe = 2, .n_layers = 2};
    struct sl_slot_shape shape = {
        .plan = &plan, .shards = &data.shards, .n_seeds = 9, .fanout = {2, 2}, .max_fanout = 2};
    long live = sl_memory_live();
    long allowed = 0;
    enum sl_status st = SL_ENOMEM;
    for (; st != SL_OK; allowed++) {
        assert_true(allowed < 1000);
        sl_memory_ration(allowed);
        st = sl_slot_open(&shape, &slot);
        sl_memory_ration(-1);
        assert_true(st == SL_OK || (st == SL_ENOMEM && slot.pe == NULL && sl_memory_live() == live));
    }
    assert_true(allowed > 2 + 2 * (4 + 2 * 4));
    sl_slot_close(&slot);
    assert_int_equal(sl_memory_live(), live);
    close_data(&data);
    fixture_stop();
}

/* ---- what is locked in memory ---- */

static bool all(uint32_t wish)
{
    (void)wish;
    return true;
}

static bool is_locked(starpu_data_handle_t handle)
{
    for (uint32_t i = 0; i < n_locked; i++) {
        if (locked[i].memory == starpu_data_get_local_ptr(handle)) {
            assert_int_equal(locked[i].bytes, starpu_data_get_size(handle));
            return true;
        }
    }
    return false;
}

/* What the host reads is locked, or everything, or nothing; what the system refuses is counted. */
static void check_locks(const struct data *data, enum sl_slot_lock lock, bool counts, bool others)
{
    const struct sl_plan plan = {.n_pes = 2, .n_parts = 2, .end_pe = 2, .n_layers = 2};
    struct sl_slot_shape shape = {.plan = &plan,
                                  .shards = &data->shards,
                                  .n_seeds = 9,
                                  .fanout = {2, 2},
                                  .returns = {true, true},
                                  .max_fanout = 2,
                                  .lock = lock};
    struct sl_slot slot;
    uint64_t n_bytes = 0;
    n_wishes = 0;
    expect_ok(sl_slot_open(&shape, &slot));
    for (uint32_t p = 0; p < 2; p++) {
        const struct sl_slot_pe *pe = &slot.pe[p];
        assert_int_equal(is_locked(pe->frontier), others);
        assert_int_equal(is_locked(pe->counts), counts);
        assert_int_equal(is_locked(pe->index), others);
        assert_int_equal(is_locked(pe->marks), others);
        n_bytes += starpu_data_get_size(pe->frontier) + starpu_data_get_size(pe->counts) +
                   starpu_data_get_size(pe->index) + starpu_data_get_size(pe->marks);
        for (uint32_t hop = 0; hop < 2; hop++) {
            const struct sl_block *b = &pe->block[hop];
            const starpu_data_handle_t all[] = {b->edge_offsets, b->edge_sources, b->back_offsets,
                                                b->back_rows,    b->request,      b->inverse};
            for (int i = 0; i < 6; i++) {
                assert_int_equal(is_locked(all[i]), others);
                n_bytes += starpu_data_get_size(all[i]);
            }
        }
    }
    assert_int_equal(slot.n_bytes, n_bytes);
    assert_int_equal(slot.n_refused, n_wishes - n_locked);
    sl_slot_close(&slot);
    assert_int_equal(n_locked, 0);
}

TEST(test_locks)
{
    struct data data;
    fixture_start(1);
    open_data(GRAPH_PATH, 2, &data);
    check_locks(&data, SL_SLOT_LOCK_NONE, false, false);
    assert_int_equal(n_wishes, 0);
    check_locks(&data, SL_SLOT_LOCK_READ, true, false);
    assert_int_equal(n_wishes, 2);
    check_locks(&data, SL_SLOT_LOCK_ALL, true, true);
    assert_int_equal(n_wishes, 2 * (4 + 2 * 6));
    refuses = all;
    check_locks(&data, SL_SLOT_LOCK_READ, false, false);
    assert_int_equal(n_wishes, 2);
    refuses = NULL;
    close_data(&data);
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
