/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sampling/exchange.h: requests merged into frontiers, coverage of the vertices by a group, rows packed for
 * those who asked and put back. */
#include "codelets/sampling/exchange.h"
#include "data/load.h"

#include "tests/support/phase_fixture.h"

#define SEED 77

/* ---- merge ---- */

/* A part with some rows in its frontier, and what the PEs of a group ask of it. */
struct ask {
    uint32_t first, n_part, n_parts, owner, n_rows;
    bool of_part; /* the inverse is to be of rows of the part */
    sl_vertex *frontier;
    uint32_t *row_of;
    uint64_t *words;
    uint32_t **request;
    uint32_t *inverse;
    uint32_t n_inverse; /* its room */
};

/* What PE p requests: of the part's owner ids with probability `density`, of other owners some that merge must not
 * touch. */
static uint32_t *make_request(const struct ask *ask, uint32_t p, double density)
{
    uint32_t *request = need(4 * (size_t)ask->n_parts + 1 + ask->n_part, 4);
    uint32_t *entries = sl_list_entries(request, ask->n_parts);
    uint32_t n = 0;
    for (uint32_t q = 0; q < ask->n_parts; q++) {
        request[q] = n;
        for (uint32_t i = 0; q != ask->owner && i < (p + q) % 4; i++) {
            entries[n++] = SL_NONE;
        }
        for (uint32_t i = 0; q == ask->owner && i < ask->n_part; i++) {
            if (fabs(noise(1000 + p, i)) < density) {
                entries[n++] = ask->first + i;
            }
        }
    }
    request[ask->n_parts] = n;
    return request;
}

/* Half as many ids as are asked for are in the frontier already. Of an odd number of vertices the inverse is of
 * rows of the part. */
static struct ask make_ask(uint32_t first, uint32_t n_part, uint32_t n_parts, double density)
{
    struct ask ask = {.first = first, .n_part = n_part, .n_parts = n_parts, .owner = n_parts / 2};
    ask.of_part = n_part % 2 == 1;
    ask.frontier = need(n_part, 4);
    ask.row_of = need(n_part, 4);
    ask.words = need(((size_t)n_part + 63) / 64, 8);
    ask.request = need(n_parts, sizeof *ask.request);
    ask.n_inverse = n_parts + 1;
    for (uint32_t i = n_part; i-- > 0;) { /* the frontier of before need not be ascending */
        int held = fabs(noise(n_part, i)) < density / 2;
        ask.row_of[i] = held ? ask.n_rows : SL_NONE;
        if (held) {
            ask.frontier[ask.n_rows++] = first + i;
        }
    }
    for (uint32_t p = 0; p < n_parts; p++) {
        ask.request[p] = make_request(&ask, p, density);
        ask.n_inverse += sl_list_count(ask.request[p], ask.owner);
    }
    ask.inverse = need(ask.n_inverse, 4);
    return ask;
}

static void free_ask(struct ask *ask)
{
    for (uint32_t p = 0; p < ask->n_parts; p++) {
        free(ask->request[p]);
    }
    free(ask->request);
    free(ask->inverse);
    free(ask->frontier);
    free(ask->row_of);
    free(ask->words);
}

/* Is the id asked for by anyone? */
static bool wanted(const struct ask *ask, sl_vertex id)
{
    for (uint32_t p = 0; p < ask->n_parts; p++) {
        const uint32_t *ids = sl_list_of(ask->request[p], ask->n_parts, ask->owner);
        for (uint32_t i = 0; i < sl_list_count(ask->request[p], ask->owner); i++) {
            if (ids[i] == id) {
                return true;
            }
        }
    }
    return false;
}

/* What merge must make of an ask, the slow way: for each id in order, a new row if it is wanted and has none. */
static uint32_t expected_rows(const struct ask *ask, sl_vertex *frontier, uint32_t *row_of)
{
    uint32_t n = ask->n_rows;
    memcpy(frontier, ask->frontier, n * sizeof *frontier);
    memcpy(row_of, ask->row_of, ask->n_part * sizeof *row_of);
    for (uint32_t i = 0; i < ask->n_part; i++) {
        if (row_of[i] == SL_NONE && wanted(ask, ask->first + i)) {
            row_of[i] = n;
            frontier[n++] = ask->first + i;
        }
    }
    return n;
}

/* The index of a frontier: the rows of the part's vertices, and a filler if they are an odd number, which is nobody's;
 * then the words. */
static void submit_merge(struct ask *ask, char *index, uint32_t *counts)
{
    const uint32_t n_part = ask->n_part;
    struct sl_task_args here = head;
    starpu_data_handle_t request[SL_MAX_GROUP];
    starpu_data_handle_t h[] = {
        vector_of(ask->frontier, n_part + 1, 4), vector_of(index, (uint32_t)sl_index_bytes(n_part) + 1, 1),
        vector_of(counts, sl_counts_size(2, ask->n_parts), 4), vector_of(ask->inverse, ask->n_inverse, 4)};
    const struct sl_frontier_handles frontier = {
        .ids = h[0], .index = h[1], .counts = h[2], .n_hops = 2, .first = ask->first, .end = ask->first + n_part};
    const struct sl_merging owner = {ask->owner, frontier, h[3], ask->of_part};
    here.hop = 1;
    for (uint32_t p = 0; p < ask->n_parts; p++) {
        request[p] = vector_of(ask->request[p], ask->n_parts + 1 + ask->request[p][ask->n_parts], 4);
    }
    expect_ok(sl_merge_submit(&here, ask->n_parts, request, 1, &owner));
    unregister(ask->n_parts, request);
    UNREGISTER(h);
    expect_no_failure();
}

static void check_merge(uint32_t first, uint32_t n_part, uint32_t n_parts, double density)
{
    OWNED(free_ask) struct ask ask = make_ask(first, n_part, n_parts, density);
    FREED sl_vertex *frontier = need(n_part, 4);
    FREED uint32_t *row_of = need(n_part, 4);
    const size_t filled = 4 * (size_t)(n_part + (n_part & 1));
    FREED char *index = need(sl_index_bytes(n_part) + 1, 1);
    FREED uint32_t *counts = need(sl_counts_size(2, n_parts), sizeof *counts);
    const uint32_t n_rows = expected_rows(&ask, frontier, row_of);
    memset(index, 0xff, filled);
    memcpy(index, ask.row_of, 4 * (size_t)n_part);
    counts[sl_counts_rows(1)] = ask.n_rows;
    submit_merge(&ask, index, counts);
    assert_int_equal(counts[sl_counts_rows(1)], ask.n_rows);
    assert_int_equal(counts[sl_counts_rows(2)], n_rows);
    expect_same("frontier", n_rows, 4, ask.frontier, frontier);
    expect_same("row of", n_part, 4, index, row_of);
    for (size_t i = filled; i < sl_index_bytes(n_part); i++) {
        assert_int_equal(index[i], 0);
    }
    assert_int_equal(ask.inverse[0], 0);
    for (uint32_t p = 0; p < n_parts; p++) {
        const uint32_t *ids = sl_list_of(ask.request[p], n_parts, ask.owner);
        assert_int_equal(sl_list_count(ask.inverse, p), sl_list_count(ask.request[p], ask.owner));
        for (uint32_t i = 0; i < sl_list_count(ask.inverse, p); i++) {
            uint32_t row = sl_list_of(ask.inverse, n_parts, p)[i];
            assert_int_equal(ask.of_part ? first + row : frontier[row], ids[i]);
        }
    }
}

TEST(test_merge)
{
    FIXTURE(1);
    const uint32_t sizes[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 300, 2000};
    const double densities[] = {0, 0.1, 0.6, 1};
    fixture_watch();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int d = 0; d < 4; d++) {
            check_merge(0, sizes[s], 1, densities[d]);
            check_merge(1001, sizes[s], 3, densities[d]);
            check_merge(UINT32_MAX - 1 - sizes[s], sizes[s], 5, densities[d]);
        }
    }
    check_merge(50, 100, SL_MAX_GROUP, 0.3);
}

/* ---- coverage ---- */

static void mark_rows(const struct group *group, uint32_t level, uint8_t *seen)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_pe *pe = &group->pe[p];
        for (uint32_t r = 0; r < pe->n_rows[level]; r++) {
            sl_vertex id = pe->frontier[r];
            assert_int_equal(sl_partition_owner(group->partition->first, group->n_parts, id), p);
            assert_int_equal(seen[group->partition->dataset_ids[id]]++, 0); /* in one frontier, once */
        }
    }
}

/* Each level's frontiers are disjoint, owned, and together those of a single PE; levels never shrink. */
static void expect_coverage(const struct group *one, const struct group *group)
{
    uint32_t n = one->partition->graph.n_vertices;
    for (uint32_t level = 0; level <= one->n_hops; level++) {
        FREED uint8_t *wanted_rows = need(n, 1);
        FREED uint8_t *seen = need(n, 1);
        mark_rows(one, level, wanted_rows);
        mark_rows(group, level, seen);
        assert_memory_equal(seen, wanted_rows, n);
        for (uint32_t p = 0; level > 0 && p < group->n_parts; p++) {
            assert_true(group->pe[p].n_rows[level] >= group->pe[p].n_rows[level - 1]);
        }
    }
}

/* Each PE's requests are answered: the inverse leads to the row of the id; and each row is a seed or was asked for. */
static void expect_answers(const struct group *group)
{
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const struct group_pe *pe = &group->pe[q];
        FREED uint8_t *asked = need(pe->n_rows[group->n_hops], 1);
        for (uint32_t hop = 0; hop < group->n_hops; hop++) {
            for (uint32_t p = 0; p < group->n_parts; p++) {
                const uint32_t *request = group->pe[p].block[hop].request;
                const uint32_t *inverse = pe->block[hop].inverse;
                assert_int_equal(sl_list_count(inverse, p), sl_list_count(request, q));
                for (uint32_t i = 0; i < sl_list_count(request, q); i++) {
                    uint32_t row = sl_list_of(inverse, group->n_parts, p)[i];
                    assert_true(row < pe->n_rows[hop + 1]);
                    assert_int_equal(pe->frontier[row], sl_list_of(request, group->n_parts, q)[i]);
                    asked[row] = 1;
                }
            }
            for (uint32_t row = pe->n_rows[hop]; row < pe->n_rows[hop + 1]; row++) {
                assert_true(asked[row]);
                assert_true(row == pe->n_rows[hop] || pe->frontier[row - 1] < pe->frontier[row]);
            }
        }
    }
}

static void check_coverage(const struct sl_dataset *dataset, enum sl_sample_method method)
{
    struct sl_sample_rule rules[3];
    OWNED(sl_partition_free) struct sl_partition whole;
    OWNED(group_free) struct group one;
    uint32_t n_seeds = dataset->train.n < 20 ? dataset->train.n : 20;
    for (uint32_t hop = 0; hop < 3; hop++) {
        rules[hop] = (struct sl_sample_rule){.method = method, .fanout = 2 + hop, .kappa = 1};
    }
    make_split_of(dataset, SPLIT_NONE, 1, &whole);
    group_sample(&whole, 3, rules, SEED, 5, n_seeds, dataset->train.ids, &one);
    for (int split = 0; split < N_SPLITS; split++) {
        const uint32_t part_counts[] = {1, 2, 4, 7};
        for (int i = 0; i < 4; i++) {
            OWNED(sl_partition_free) struct sl_partition partition;
            OWNED(group_free) struct group group;
            make_split_of(dataset, split, part_counts[i], &partition);
            group_sample(&partition, 3, rules, SEED, 5, n_seeds, dataset->train.ids, &group);
            expect_coverage(&one, &group);
            expect_answers(&group);
        }
    }
}

TEST(test_coverage)
{
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {.kind = graph, .n_vertices = 200};
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        check_coverage(&dataset, SL_SAMPLE_NEIGHBOR);
        check_coverage(&dataset, SL_SAMPLE_LABOR);
        check_coverage(&dataset, SL_SAMPLE_FULL);
    }
}

/* ---- pack ---- */

#define MAX_CHUNKS 8

static const enum sl_dtype row_dtypes[] = {SL_DTYPE_REAL, SL_DTYPE_BF16};

/* n bytes of a pattern, beginning `skipped` bytes behind an aligned address. */
static char *make_bytes(size_t n, size_t skipped, uint32_t seed)
{
    char *data = (char *)need(n + skipped, 1) + skipped;
    for (size_t i = 0; i < n; i++) {
        data[i] = (char)((i * 31 + seed * 7) % 251);
    }
    return data;
}

/* One task for every other PE of n_parts, which asks for 0, 1, 2 .. rows. Their rows are side by side in a matrix that
 * has others' rows around them. skew: entries by which the bases of all rows are off their alignment. */
static void check_pack(enum sl_dtype dtype, uint32_t n_parts, uint32_t n_rows, uint32_t n_columns, uint32_t shift,
                       uint32_t skew)
{
    enum { BEFORE = 2, BEHIND = 3 };
    const size_t row_bytes = sl_dtype_bytes(dtype, n_columns), skipped = sl_dtype_bytes(dtype, skew);
    const struct sl_split split = sl_split_rows(n_rows, MAX_CHUNKS, shift);
    FREED uint32_t *inverse = need((size_t)n_parts + 1 + (size_t)n_parts * n_parts, sizeof *inverse);
    uint32_t *entries = sl_list_entries(inverse, n_parts);
    uint32_t requester[SL_MAX_GROUP / 2];
    struct sl_slice slices[SL_MAX_GROUP / 2];
    char *rows[MAX_CHUNKS];
    starpu_data_handle_t chunk[MAX_CHUNKS];
    uint32_t n_packed = BEFORE;
    for (uint32_t p = 0; p < n_parts; p++) {
        inverse[p + 1] = inverse[p] + p / 2;
        for (uint32_t i = inverse[p]; i < inverse[p + 1]; i++) {
            entries[i] = (i * 7 + n_rows - 1) % n_rows;
        }
    }
    for (uint32_t r = 0; r < n_parts / 2; r++) {
        requester[r] = 2 * r + 1;
        slices[r] = (struct sl_slice){NULL, n_packed, sl_list_count(inverse, requester[r])};
        n_packed += slices[r].n_rows;
    }
    char *packed = make_bytes((n_packed + BEHIND) * row_bytes, skipped, 99);
    FREED char *wanted = make_bytes((n_packed + BEHIND) * row_bytes, 0, 99);
    starpu_data_handle_t h[] = {vector_of(inverse, n_parts + 1 + inverse[n_parts], 4),
                                sl_matrix_over(packed, n_packed + BEHIND, n_columns, dtype)};
    for (uint32_t r = 0; r < n_parts / 2; r++) {
        slices[r].handle = h[1];
    }
    for (uint32_t c = 0; c < split.n_chunks; c++) {
        const uint32_t n = sl_split_size(&split, c);
        rows[c] = make_bytes(n * row_bytes, skipped, c);
        chunk[c] = sl_matrix_over(rows[c], n, n_columns, dtype);
    }
    const struct sl_rows all = {.split = split, .n_columns = n_columns, .chunk = chunk};
    expect_ok(sl_pack_submit(&head, &all, n_parts, h[0], n_parts / 2, requester, slices));
    unregister(split.n_chunks, chunk);
    UNREGISTER(h);
    expect_no_failure();
    for (uint32_t r = 0; r < n_parts / 2; r++) {
        for (uint32_t i = 0; i < slices[r].n_rows; i++) {
            const uint32_t row = sl_list_of(inverse, n_parts, requester[r])[i];
            memcpy(wanted + (slices[r].row0 + i) * row_bytes,
                   rows[row >> split.shift] + (row & ((1u << split.shift) - 1)) * row_bytes, row_bytes);
        }
    }
    expect_same("packed", n_packed + BEHIND, row_bytes, packed, wanted);
    for (uint32_t c = 0; c < split.n_chunks; c++) {
        free(rows[c] - skipped);
    }
    free(packed - skipped);
}

TEST(test_pack)
{
    const uint32_t widths[] = {1, 7, 8, 33, 128, 256, 516};
    for (size_t n = 0; n < N_WORKER_COUNTS; n++) {
        FIXTURE(worker_counts[n]);
        for (int w = 0; w < 7; w++) {
            for (int k = 0; k < 2; k++) {
                check_pack(row_dtypes[k], 20, 33, widths[w], 31, 0);
                check_pack(row_dtypes[k], 20, 33, widths[w], 3, 0); /* five chunks, the last of one row */
                check_pack(row_dtypes[k], 20, 32, widths[w], 2, 1);
                check_pack(row_dtypes[k], 20, 32, widths[w], 2, 2);
            }
        }
        check_pack(SL_DTYPE_REAL, SL_MAX_GROUP, 33, 8, 3, 0); /* in two launches */
    }
}

/* Every other row of n_rows, last to first; the others stay. */
static void check_unpack(enum sl_dtype dtype, uint32_t n_rows, uint32_t n_columns, uint32_t skew)
{
    const size_t row_bytes = sl_dtype_bytes(dtype, n_columns), skipped = sl_dtype_bytes(dtype, skew);
    FREED uint32_t *list = need((size_t)n_rows + 2, sizeof *list);
    for (uint32_t row = n_rows; row >= 1; row = row > 2 ? row - 2 : 0) {
        list[2 + list[1]++] = row - 1;
    }
    const uint32_t n = list[1];
    char *packed = make_bytes(n * row_bytes, skipped, 6);
    char *out = make_bytes(n_rows * row_bytes, skipped, 7);
    FREED char *wanted = make_bytes(n_rows * row_bytes, 0, 7);
    starpu_data_handle_t h[] = {sl_matrix_over(packed, n, n_columns, dtype), vector_of(list, n + 2, 4),
                                sl_matrix_over(out, n_rows, n_columns, dtype)};
    expect_ok(sl_unpack_submit(&head, h[0], h[1], h[2]));
    UNREGISTER(h);
    expect_no_failure();
    for (uint32_t i = 0; i < n; i++) {
        memcpy(wanted + list[2 + i] * row_bytes, packed + i * row_bytes, row_bytes);
    }
    expect_same("unpacked", n_rows, row_bytes, out, wanted);
    free(packed - skipped);
    free(out - skipped);
}

TEST(test_unpack)
{
    FIXTURE(1);
    const uint32_t widths[] = {1, 7, 8, 33, 128, 516};
    fixture_watch();
    for (int w = 0; w < 6; w++) {
        for (int k = 0; k < 2; k++) {
            check_unpack(row_dtypes[k], 1, widths[w], 0);
            check_unpack(row_dtypes[k], 77, widths[w], 0);
            check_unpack(row_dtypes[k], 77, widths[w], 1);
            check_unpack(row_dtypes[k], 77, widths[w], 2);
        }
    }
}

/* ---- a slot ---- */

/* The hops of a group through StarPU, as one graph of tasks: sample on all PEs, merge on all, sample again, without
 * a wait. */
struct piped {
    struct phase phase;
    struct group_block arrays[2];
    struct sl_block block[2];
};

#define PARTS 4
#define ROOM 2000

static void open_piped(const struct sl_partition *partition, uint32_t p, struct piped *pe)
{
    const struct sl_sample_part part = part_of(partition, p);
    const uint32_t n = partition->graph.n_vertices;
    const uint32_t n_part = partition->first[p + 1] - part.first[p];
    const size_t n_inverse = PARTS + 1 + PARTS * (size_t)n_part;
    open_phase(&part, 2, 8, 0, &pe->phase);
    for (int hop = 0; hop < 2; hop++) {
        pe->arrays[hop] = make_block(n_part, ROOM, n, PARTS, false, false);
        pe->arrays[hop].inverse = need(n_inverse, 4);
        pe->block[hop] = phase_block(&pe->phase, &pe->arrays[hop], n_part, ROOM, n);
        pe->block[hop].inverse = phase_vector(&pe->phase, pe->arrays[hop].inverse, n_inverse, 4);
    }
}

static void submit_piped(const struct sl_sample_rule *rules, uint64_t step, starpu_data_handle_t order,
                         uint32_t n_seeds, struct piped *pes)
{
    struct sl_task_args here = head;
    here.step = step;
    for (uint32_t p = 0; p < PARTS; p++) {
        expect_ok(sl_seed_submit(&here, order, 0, n_seeds, &pes[p].phase.frontier));
    }
    for (uint32_t hop = 0; hop < 2; hop++) {
        here.hop = hop;
        for (uint32_t p = 0; p < PARTS; p++) {
            const struct phase *phase = &pes[p].phase;
            expect_ok(sl_sample_submit(&here, &phase->part, &rules[hop], SEED, &phase->frontier, &phase->marks,
                                       &pes[p].block[hop]));
        }
        starpu_data_handle_t request[PARTS];
        struct sl_merging owners[PARTS];
        for (uint32_t p = 0; p < PARTS; p++) {
            request[p] = pes[p].block[hop].request;
            owners[p] = (struct sl_merging){p, pes[p].phase.frontier, pes[p].block[hop].inverse, false};
        }
        for (uint32_t q = 0, n = 1; q < PARTS; q += n) {
            n = hop == 0 ? 1 : PARTS - q < 3 ? PARTS - q : 3; /* alone, or three in one task */
            expect_ok(sl_merge_submit(&here, PARTS, request, n, owners + q));
        }
    }
}

static void expect_piped(const struct group *group, const struct piped *pes)
{
    for (uint32_t p = 0; p < PARTS; p++) {
        const struct group_pe *pe = &group->pe[p];
        for (uint32_t level = 0; level <= 2; level++) {
            assert_int_equal(pes[p].phase.counts[sl_counts_rows(level)], pe->n_rows[level]);
        }
        for (uint32_t hop = 0; hop < 2; hop++) {
            assert_int_equal(pes[p].phase.counts[sl_counts_edges(2, hop)], pe->block[hop].n_edges);
            expect_same("request", PARTS + 1, 4, pes[p].phase.counts + sl_counts_request(2, PARTS, hop),
                        pe->block[hop].request);
        }
        expect_same("frontier", pe->n_rows[2], 4, pes[p].phase.ids, pe->frontier);
    }
}

/* The same slot serves three steps: what a step leaves in marks and index must not show in the next. */
static void check_piped(const struct sl_dataset *dataset, const struct sl_partition *partition)
{
    const struct sl_sample_rule rules[2] = {{SL_SAMPLE_LABOR, 4, false, 1}, {SL_SAMPLE_NEIGHBOR, 3, false, 1}};
    struct piped pes[PARTS];
    sl_vertex ids[20];
    const uint32_t n_seeds = 20;
    const starpu_data_handle_t order = vector_of(ids, n_seeds, 4);
    for (uint32_t p = 0; p < PARTS; p++) {
        open_piped(partition, p, &pes[p]);
    }
    for (uint64_t step = 0; step < 3; step++) {
        OWNED(group_free) struct group group;
        const sl_vertex *seeds = dataset->train.ids + step * n_seeds;
        assert_int_equal(starpu_data_acquire(order, STARPU_W), 0);
        for (uint32_t i = 0; i < n_seeds; i++) {
            ids[i] = partition->new_ids[seeds[i]];
        }
        starpu_data_release(order);
        group_sample(partition, 2, rules, SEED, step, n_seeds, seeds, &group);
        submit_piped(rules, step, order, n_seeds, pes);
        starpu_task_wait_for_all();
        expect_no_failure();
        for (uint32_t p = 0; p < PARTS; p++) {
            bring_home(pes[p].phase.n, pes[p].phase.all);
        }
        expect_piped(&group, pes);
    }
    starpu_data_unregister(order);
    for (uint32_t p = 0; p < PARTS; p++) {
        close_phase(&pes[p].phase);
        free_block(&pes[p].arrays[0]);
        free_block(&pes[p].arrays[1]);
    }
}

TEST(test_slot_is_used_again)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 250};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        FIXTURE(worker_counts[w]);
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        OWNED(sl_partition_free) struct sl_partition partition;
        make_dataset(&shape, &dataset);
        make_uneven_partition(&dataset.graph, PARTS, 4, 3, &partition); /* the last part is empty */
        if (w == 0) {
            fixture_watch();
        }
        check_piped(&dataset, &partition);
    }
}

TEST_MAIN(NULL, NULL)
