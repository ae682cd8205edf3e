/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/exchange.h: requests merged into frontiers, coverage of the vertices by a group, rows packed for those
 * who asked and put back, and the submissions. */
#include "codelets/exchange.h"
#include "data/load.h"

#include "tests/support/group_fixture.h"
#include "tests/support/order_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

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

static uint32_t merge(struct ask *ask)
{
    struct sl_requests requests = {.n_parts = ask->n_parts, .owner = ask->owner, .of_part = ask->of_part};
    struct sl_frontier frontier = {
        .first = ask->first, .n_part = ask->n_part, .ids = ask->frontier, .row_of = ask->row_of, .words = ask->words};
    for (uint32_t p = 0; p < ask->n_parts; p++) {
        requests.list[p] = ask->request[p];
    }
    return sl_merge_cpu(&requests, ask->n_rows, &frontier, ask->inverse);
}

static void check_merge(uint32_t first, uint32_t n_part, uint32_t n_parts, double density)
{
    struct ask ask = make_ask(first, n_part, n_parts, density);
    sl_vertex *frontier = need(n_part, 4);
    uint32_t *row_of = need(n_part, 4);
    uint32_t n_rows = expected_rows(&ask, frontier, row_of);
    assert_int_equal(merge(&ask), n_rows);
    expect_same("frontier", n_rows, 4, ask.frontier, frontier);
    expect_same("row of", n_part, 4, ask.row_of, row_of);
    for (uint32_t w = 0; w < (n_part + 63) / 64; w++) {
        assert_true(ask.words[w] == 0);
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
    free(frontier);
    free(row_of);
    free_ask(&ask);
}

static void test_merge(void **state)
{
    (void)state;
    const uint32_t sizes[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 300};
    const double densities[] = {0, 0.1, 0.6, 1};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int d = 0; d < 4; d++) {
            check_merge(0, sizes[s], 1, densities[d]);
            check_merge(1001, sizes[s], 3, densities[d]);
            check_merge(UINT32_MAX - 1 - sizes[s], sizes[s], 5, densities[d]);
        }
    }
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
        uint8_t *wanted_rows = need(n, 1);
        uint8_t *seen = need(n, 1);
        mark_rows(one, level, wanted_rows);
        mark_rows(group, level, seen);
        assert_memory_equal(seen, wanted_rows, n);
        for (uint32_t p = 0; level > 0 && p < group->n_parts; p++) {
            assert_true(group->pe[p].n_rows[level] >= group->pe[p].n_rows[level - 1]);
        }
        free(wanted_rows);
        free(seen);
    }
}

/* Each PE's requests are answered: the inverse leads to the row of the id; and each row is a seed or was asked for. */
static void expect_answers(const struct group *group)
{
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const struct group_pe *pe = &group->pe[q];
        uint8_t *asked = need(pe->n_rows[group->n_hops], 1);
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
        free(asked);
    }
}

static void check_coverage(const struct sl_dataset *dataset, enum sl_sample_method method)
{
    struct sl_sample_rule rules[3];
    struct sl_partition whole;
    struct group one;
    uint32_t n_seeds = dataset->train.n < 20 ? dataset->train.n : 20;
    for (uint32_t hop = 0; hop < 3; hop++) {
        rules[hop] = (struct sl_sample_rule){.method = method, .fanout = 2 + hop, .kappa = 1};
    }
    make_split_of(dataset, SPLIT_NONE, 1, &whole);
    group_sample(&whole, 3, rules, SEED, 5, n_seeds, dataset->train.ids, &one);
    for (int split = 0; split < N_SPLITS; split++) {
        const uint32_t part_counts[] = {1, 2, 4, 7};
        for (int i = 0; i < 4; i++) {
            struct sl_partition partition;
            struct group group;
            make_split_of(dataset, split, part_counts[i], &partition);
            group_sample(&partition, 3, rules, SEED, 5, n_seeds, dataset->train.ids, &group);
            expect_coverage(&one, &group);
            expect_answers(&group);
            group_free(&group);
            sl_partition_free(&partition);
        }
    }
    group_free(&one);
    sl_partition_free(&whole);
}

static void test_coverage(void **state)
{
    (void)state;
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {.kind = graph, .n_vertices = 200};
        struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        check_coverage(&dataset, SL_SAMPLE_NEIGHBOR);
        check_coverage(&dataset, SL_SAMPLE_LABOR);
        check_coverage(&dataset, SL_SAMPLE_FULL);
        sl_dataset_free(&dataset);
    }
}

/* ---- pack ---- */

#define MAX_CHUNKS 8

/* n_rows in chunks of 2^shift, each a block of its own. */
struct chunks {
    uint32_t n;
    sl_real *base[MAX_CHUNKS];
    struct sl_split split;
};

static struct chunks make_chunks(uint32_t n_rows, uint32_t n_columns, uint32_t shift, uint64_t seed)
{
    struct chunks chunks = {.split = sl_split_rows(n_rows, MAX_CHUNKS, shift)};
    chunks.n = chunks.split.n_chunks;
    for (uint32_t c = 0; c < chunks.n; c++) {
        chunks.base[c] = noisy((size_t)sl_split_size(&chunks.split, c) * n_columns, seed + c);
    }
    return chunks;
}

static void free_chunks(struct chunks *chunks)
{
    for (uint32_t c = 0; c < chunks->n; c++) {
        free(chunks->base[c]);
    }
}

static sl_real chunk_entry(const struct chunks *chunks, uint32_t row, uint32_t column, uint32_t n_columns)
{
    uint32_t size = 1u << chunks->split.shift;
    return chunks->base[row / size][(size_t)(row % size) * n_columns + column];
}

static void check_pack(uint32_t n, uint32_t n_rows, uint32_t n_columns, uint32_t shift)
{
    struct chunks rows = make_chunks(n_rows, n_columns, shift, 3);
    uint32_t *index = need(n, sizeof *index);
    sl_real *packed = poisoned((size_t)n * n_columns + 1);
    for (uint32_t i = 0; i < n; i++) {
        index[i] = (i * 7 + n_rows - 1) % n_rows;
    }
    struct sl_view view = {(const sl_real *const *)rows.base, rows.split.shift, index};
    sl_pack_cpu(SL_DTYPE_REAL, n, n_columns, &view, packed);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n_columns; j++) {
            assert_true(packed[(size_t)i * n_columns + j] == chunk_entry(&rows, index[i], j, n_columns));
        }
    }
    assert_true(packed[(size_t)n * n_columns] == (sl_real)-12345.5);
    free(index);
    free(packed);
    free_chunks(&rows);
}

static void test_pack(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 33, 256};
    for (int w = 0; w < 5; w++) {
        check_pack(0, 5, widths[w], 31);
        check_pack(40, 33, widths[w], 31);
        check_pack(40, 33, widths[w], 3); /* five chunks, the last of one row */
        check_pack(40, 32, widths[w], 2);
    }
}

/* Every other row of as many as there is room for, last to first. */
static uint32_t list_rows(uint32_t n_rows, uint32_t *list)
{
    uint32_t n = 0;
    for (uint32_t row = n_rows; row >= 1; row = row > 2 ? row - 2 : 0) {
        list[2 + n++] = row - 1;
    }
    list[0] = 0;
    list[1] = n;
    return n;
}

/* What unpack must leave of rows that were all -12345.5. */
static void expect_unpacked(uint32_t n_rows, uint32_t n_columns, const uint32_t *list, const sl_real *packed,
                            const sl_real *found)
{
    sl_real *wanted = poisoned((size_t)n_rows * n_columns + 1);
    for (uint32_t i = 0; i < list[1]; i++) {
        for (uint32_t j = 0; j < n_columns; j++) {
            wanted[(size_t)list[2 + i] * n_columns + j] = packed[(size_t)i * n_columns + j];
        }
    }
    expect_same("unpacked", (size_t)n_rows * n_columns + 1, sizeof *wanted, found, wanted);
    free(wanted);
}

static void check_unpack(uint32_t n_rows, uint32_t n_columns)
{
    uint32_t *list = need((size_t)n_rows + 2, sizeof *list);
    uint32_t n = list_rows(n_rows, list);
    sl_real *packed = noisy((size_t)n * n_columns, 6);
    sl_real *out = poisoned((size_t)n_rows * n_columns + 1);
    sl_unpack_cpu(SL_DTYPE_REAL, n, n_columns, list + 2, packed, out);
    expect_unpacked(n_rows, n_columns, list, packed, out);
    free(list);
    free(packed);
    free(out);
}

static void test_unpack(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 33, 256};
    for (int w = 0; w < 5; w++) {
        check_unpack(0, widths[w]);
        check_unpack(1, widths[w]);
        check_unpack(34, widths[w]);
    }
}

/* ---- launchers ---- */

#ifdef SL_CUDA

static void check_merge_launcher(uint32_t first, uint32_t n_part, uint32_t n_parts, double density)
{
    struct ask ask = make_ask(first, n_part, n_parts, density);
    const size_t n_words = ((size_t)n_part + 63) / 64;
    struct sl_requests requests = {.n_parts = n_parts, .owner = ask.owner, .of_part = ask.of_part};
    uint32_t counts[4] = {77, ask.n_rows, 77, 77};
    for (uint32_t p = 0; p < n_parts; p++) {
        requests.list[p] = on_device(ask.request[p], (n_parts + 1 + ask.request[p][n_parts]) * 4);
    }
    void *there[] = {on_device(ask.frontier, n_part * 4), on_device(ask.row_of, n_part * 4),
                     on_device(ask.words, n_words * 8), on_device(counts, sizeof counts),
                     device_room(ask.n_inverse * 4)};
    struct sl_frontier frontier = {
        .first = first, .n_part = n_part, .ids = there[0], .row_of = there[1], .words = there[2]};
    expect_launched(sl_merge_cuda(NULL, &requests, 1, there[3], &frontier, there[4]));
    counts[2] = merge(&ask);
    expect_on_device("frontier", there[0], n_part, 4, ask.frontier);
    expect_on_device("row of", there[1], n_part, 4, ask.row_of);
    expect_on_device("words", there[2], n_words, 8, ask.words);
    expect_on_device("counts", there[3], 4, 4, counts);
    expect_on_device("inverse", there[4], ask.n_inverse, 4, ask.inverse);
    for (uint32_t p = 0; p < n_parts; p++) {
        cudaFree((void *)(uintptr_t)requests.list[p]);
    }
    free_ask(&ask);
}

static void test_merge_launcher(void **state)
{
    (void)state;
    const uint32_t sizes[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 300, 2000};
    const double densities[] = {0, 0.1, 0.6, 1};
    need_device();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int d = 0; d < 4; d++) {
            check_merge_launcher(0, sizes[s], 1, densities[d]);
            check_merge_launcher(1001, sizes[s], 3, densities[d]);
            check_merge_launcher(UINT32_MAX - 1 - sizes[s], sizes[s], 5, densities[d]);
        }
    }
    check_merge_launcher(50, 100, SL_MAX_GROUP, 0.3);
}

static const enum sl_dtype row_dtypes[] = {SL_DTYPE_REAL, SL_DTYPE_BF16};

/* Every other PE of n_parts is a requester, of 0, 1, 2 .. rows; `skew` puts the bases of all rows so many numbers
 * off their alignment. */
static void check_pack_launcher(enum sl_dtype dtype, uint32_t n_parts, uint32_t n_rows, uint32_t n_columns,
                                uint32_t shift, uint32_t skew)
{
    const size_t row_bytes = sl_dtype_bytes(dtype, n_columns);
    const size_t skipped = sl_dtype_bytes(dtype, skew);
    struct chunks rows = make_chunks(n_rows, n_columns, shift, 3);
    const uint32_t n_requesters = n_parts / 2;
    uint32_t *inverse = need((size_t)n_parts + 1 + (size_t)n_parts * n_parts, sizeof *inverse);
    uint32_t *entries = sl_list_entries(inverse, n_parts);
    uint32_t *requester = need(n_requesters, sizeof *requester);
    uint32_t *n = need(n_requesters, sizeof *n);
    void **packed = need(n_requesters, sizeof *packed);
    const void *chunk[MAX_CHUNKS];
    char *chunk_there[MAX_CHUNKS];
    for (uint32_t p = 0; p < n_parts; p++) {
        inverse[p + 1] = inverse[p] + p / 2;
        for (uint32_t i = inverse[p]; i < inverse[p + 1]; i++) {
            entries[i] = (i * 7 + n_rows - 1) % n_rows;
        }
    }
    for (uint32_t r = 0; r < n_requesters; r++) {
        requester[r] = 2 * r + 1;
        n[r] = sl_list_count(inverse, requester[r]);
        packed[r] = device_room(n[r] * row_bytes);
    }
    for (uint32_t c = 0; c < rows.n; c++) {
        size_t bytes = sl_split_size(&rows.split, c) * row_bytes;
        chunk_there[c] = device_room(bytes + skipped);
        chunk[c] = chunk_there[c] + skipped;
        assert_int_equal(cudaMemcpy(chunk_there[c] + skipped, rows.base[c], bytes, cudaMemcpyHostToDevice),
                         cudaSuccess);
    }
    uint32_t *inverse_there = on_device(inverse, ((size_t)n_parts + 1 + inverse[n_parts]) * 4);
    expect_launched(sl_pack_cuda(NULL, row_bytes, rows.n, shift, chunk, n_parts, inverse_there, n_requesters, requester,
                                 n, packed));
    for (uint32_t r = 0; r < n_requesters; r++) {
        void *wanted = need(n[r], row_bytes);
        struct sl_view view = {(const sl_real *const *)rows.base, shift, sl_list_of(inverse, n_parts, requester[r])};
        sl_pack_cpu(dtype, n[r], n_columns, &view, wanted);
        expect_on_device("packed", packed[r], n[r], row_bytes, wanted);
        free(wanted);
    }
    for (uint32_t c = 0; c < rows.n; c++) {
        cudaFree(chunk_there[c]);
    }
    cudaFree(inverse_there);
    free(inverse);
    free(requester);
    free(n);
    free(packed);
    free_chunks(&rows);
}

static void test_pack_launcher(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 33, 128, 256, 516};
    need_device();
    for (int w = 0; w < 7; w++) {
        for (int k = 0; k < 2; k++) {
            const enum sl_dtype dtype = row_dtypes[k];
            check_pack_launcher(dtype, 1, 5, widths[w], 31, 0);
            check_pack_launcher(dtype, 20, 33, widths[w], 31, 0);
            check_pack_launcher(dtype, 20, 33, widths[w], 3, 0);
            check_pack_launcher(dtype, 20, 32, widths[w], 2, 1);
            check_pack_launcher(dtype, 20, 32, widths[w], 2, 2);
        }
    }
    check_pack_launcher(SL_DTYPE_REAL, SL_MAX_GROUP, 33, 8, 3, 0); /* in two launches */
}

/* skew puts both bases off their alignment. */
static void check_unpack_launcher(enum sl_dtype dtype, uint32_t n_rows, uint32_t n_columns, uint32_t skew)
{
    const size_t row_bytes = sl_dtype_bytes(dtype, n_columns);
    const size_t skipped = sl_dtype_bytes(dtype, skew);
    uint32_t *list = need((size_t)n_rows + 2, sizeof *list);
    uint32_t n = list_rows(n_rows, list);
    const size_t bytes = skipped + (n_rows + 1) * row_bytes;
    sl_real *packed = noisy(bytes / sizeof *packed + 1, 6);
    sl_real *out = noisy(bytes / sizeof *out + 1, 7);
    char *packed_there = on_device(packed, bytes);
    char *out_there = on_device(out, bytes);
    uint32_t *list_there = on_device(list, ((size_t)n_rows + 2) * sizeof *list);
    expect_launched(sl_unpack_cuda(NULL, row_bytes, n, list_there + 2, packed_there + skipped, out_there + skipped));
    sl_unpack_cpu(dtype, n, n_columns, list + 2, (char *)packed + skipped, (char *)out + skipped);
    expect_on_device("unpacked", out_there, bytes, 1, out);
    cudaFree(packed_there);
    cudaFree(list_there);
    free(list);
    free(packed);
    free(out);
}

static void test_unpack_launcher(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 33, 128, 516};
    need_device();
    for (int w = 0; w < 6; w++) {
        for (int k = 0; k < 2; k++) {
            const enum sl_dtype dtype = row_dtypes[k];
            check_unpack_launcher(dtype, 0, widths[w], 0);
            check_unpack_launcher(dtype, 77, widths[w], 0);
            check_unpack_launcher(dtype, 77, widths[w], 1);
            check_unpack_launcher(dtype, 77, widths[w], 2);
        }
    }
}

#endif /* SL_CUDA */

/* ---- submissions ---- */

static void check_merge_submission(uint32_t first, uint32_t n_part)
{
    struct ask ask = make_ask(first, n_part, 3, 0.5);
    struct ask plain = make_ask(first, n_part, 3, 0.5);
    struct sl_task_args here = head;
    uint32_t counts[8] = {0}; /* two hops and one part need 7 */
    char *index = need(sl_index_bytes(n_part), 1);
    starpu_data_handle_t handles[7];
    here.hop = 1;
    counts[sl_counts_rows(1)] = ask.n_rows;
    memset(index, 0xff, 4 * (size_t)(n_part + (n_part & 1))); /* the filler too: it is nobody's */
    memcpy(index, ask.row_of, 4 * (size_t)n_part);
    handles[0] = vector_of(ask.frontier, n_part, 4);
    handles[1] = vector_of(index, (uint32_t)sl_index_bytes(n_part), 1);
    handles[2] = vector_of(counts, 8, 4);
    handles[3] = vector_of(ask.inverse, ask.n_inverse, 4);
    for (int p = 0; p < 3; p++) {
        handles[4 + p] = vector_of(ask.request[p], 4 + ask.request[p][3], 4);
    }
    struct sl_frontier_handles frontier = {.ids = handles[0],
                                           .index = handles[1],
                                           .counts = handles[2],
                                           .n_hops = 2,
                                           .first = first,
                                           .end = first + n_part};
    struct sl_merging owner = {ask.owner, frontier, handles[3], ask.of_part};
    expect_ok(sl_merge_submit(&here, 3, handles + 4, 1, &owner));
    unregister(7, handles);
    expect_no_failure();
    uint32_t n_rows = merge(&plain);
    assert_int_equal(counts[sl_counts_rows(2)], n_rows);
    assert_int_equal(counts[sl_counts_rows(1)], plain.n_rows);
    expect_same("frontier", n_rows, 4, ask.frontier, plain.frontier);
    expect_same("row of", n_part, 4, index, plain.row_of);
    for (size_t i = 4 * (size_t)(n_part + (n_part & 1)); i < sl_index_bytes(n_part); i++) {
        assert_int_equal(index[i], 0);
    }
    expect_same("inverse", plain.n_inverse, 4, ask.inverse, plain.inverse);
    free(index);
    free_ask(&ask);
    free_ask(&plain);
}

/* One task for the second and the fourth of five PEs, whose rows are side by side in a matrix that has others' rows
 * around them. */
static void check_pack_submission(uint32_t shift)
{
    struct chunks rows = make_chunks(29, 6, shift, 4);
    uint32_t index[] = {0, 2, 10, 11, 15, 15, 99, 99, 28, 0, 7, 8, 8, 15, 16, 1, 99, 3, 28, 9, 2};
    const uint32_t requester[2] = {1, 3};
    const uint32_t n[2] = {8, 4};
    sl_real *packed = poisoned((2 + 8 + 4 + 3) * 6);
    sl_real *untouched = poisoned(3 * 6);
    sl_real *plain = poisoned(8 * 6);
    starpu_data_handle_t chunk[MAX_CHUNKS];
    starpu_data_handle_t inverse = vector_of(index, sizeof index / sizeof *index, 4);
    starpu_data_handle_t out = rows_of(packed, 2 + 8 + 4 + 3, 6);
    const struct sl_slice slices[2] = {{out, 2, n[0]}, {out, 2 + n[0], n[1]}};
    for (uint32_t c = 0; c < rows.n; c++) {
        chunk[c] = rows_of(rows.base[c], sl_split_size(&rows.split, c), 6);
    }
    struct sl_rows all = {.split = rows.split, .n_columns = 6, .chunk = chunk};
    expect_ok(sl_pack_submit(&head, &all, 5, inverse, 2, requester, slices));
    unregister(1, &inverse);
    unregister(1, &out);
    unregister(rows.n, chunk);
    expect_no_failure();
    for (int r = 0; r < 2; r++) {
        struct sl_view view = {(const sl_real *const *)rows.base, rows.split.shift, index + (r == 0 ? 8 : 17)};
        sl_pack_cpu(SL_DTYPE_REAL, n[r], 6, &view, plain);
        expect_same("packed", n[r] * 6, sizeof *plain, packed + slices[r].row0 * 6, plain);
    }
    expect_same("rows before", 2 * 6, sizeof *plain, packed, untouched);
    expect_same("rows behind", 3 * 6, sizeof *plain, packed + (2 + 8 + 4) * 6, untouched);
    free(packed);
    free(untouched);
    free(plain);
    free_chunks(&rows);
}

static void check_unpack_submission(void)
{
    uint32_t list[2 + 7];
    const uint32_t n = list_rows(13, list);
    sl_real *packed = noisy((size_t)n * 6, 6);
    sl_real *out = poisoned(13 * 6 + 1);
    starpu_data_handle_t handles[] = {rows_of(packed, n, 6), vector_of(list, n + 2, 4), rows_of(out, 13, 6)};
    expect_ok(sl_unpack_submit(&head, handles[0], handles[1], handles[2]));
    unregister(3, handles);
    expect_no_failure();
    expect_unpacked(13, 6, list, packed, out);
    free(packed);
    free(out);
}

/* Rows in bf16; in and out are of one precision. */
static void test_unpack_bf16(void **state)
{
    sl_bf16 packed[7 * 6];
    sl_bf16 out[13 * 6];
    sl_bf16 wanted[13 * 6];
    sl_real data[13 * 6] = {0};
    uint32_t list[2 + 7];
    const uint32_t n = list_rows(13, list);
    (void)state;
    for (uint32_t i = 0; i < 13 * 6; i++) {
        out[i] = wanted[i] = (sl_bf16)(0x4000 + i);
    }
    for (uint32_t i = 0; i < n * 6; i++) {
        packed[i] = wanted[list[2 + i / 6] * 6 + i % 6] = (sl_bf16)(0x3f00 + i);
    }
    fixture_start(2);
    starpu_data_handle_t handles[] = {matrix_of(packed, n, 6, sizeof *packed), vector_of(list, n + 2, 4),
                                      matrix_of(out, 13, 6, sizeof *out), rows_of(data, 13, 6)};
    expect_ok(sl_unpack_submit(&head, handles[0], handles[1], handles[2]));
    unregister(4, handles);
    expect_no_failure();
    fixture_stop();
    expect_same("unpacked", 13 * 6, sizeof *out, out, wanted);
}

static void test_submissions(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        check_merge_submission(0, 64);
        check_merge_submission(1001, 65); /* odd: the words of the index are aligned by a filler */
        check_merge_submission(1001, 300);
        check_pack_submission(31);
        check_pack_submission(3);
        check_unpack_submission();
        fixture_stop();
    }
}

/* The hops of a group through StarPU, as one graph of tasks: sample on all PEs, merge on all, sample again, without
 * a wait. */
struct piped {
    struct sl_part_handles part;
    starpu_data_handle_t frontier, index, marks, counts;
    starpu_data_handle_t order;
    struct sl_block block[2];
    uint32_t *counts_data;
    sl_vertex *frontier_data;
};

#define PARTS 4
#define ROOM 2000

/* Handles and memory of a test, given back all at once. */
static struct {
    starpu_data_handle_t handle[256];
    void *memory[256];
    unsigned n_handles, n_memory;
} pool;

static starpu_data_handle_t pool_handle(const void *data, uint32_t n, size_t element)
{
    assert_true(pool.n_handles < 256);
    return pool.handle[pool.n_handles++] = vector_of(data, n > 0 ? n : 1, element);
}

static starpu_data_handle_t pool_vector(uint32_t n, size_t element, void *data_out)
{
    void *data = need(n, element);
    assert_true(pool.n_memory < 256);
    pool.memory[pool.n_memory++] = data;
    if (data_out != NULL) {
        *(void **)data_out = data;
    }
    return pool_handle(data, n, element);
}

static void pool_free(void)
{
    unregister(pool.n_handles, pool.handle);
    while (pool.n_memory > 0) {
        free(pool.memory[--pool.n_memory]);
    }
    pool.n_handles = 0;
}

static void open_piped(const struct sl_partition *partition, uint32_t p, starpu_data_handle_t order, struct piped *pe)
{
    struct sl_sample_part part = part_of(partition, p);
    uint32_t n = partition->graph.n_vertices;
    uint32_t n_part = partition->first[p + 1] - part.first[p];
    uint32_t n_edges = (uint32_t)(part.offsets[n_part] - part.offsets[0]);
    void *index;
    pe->part = (struct sl_part_handles){.offsets = pool_handle(part.offsets, n_part + 1, 8),
                                        .sources = pool_handle(part.sources, n_edges, 4),
                                        .dataset_ids = pool_handle(part.dataset_ids, n, 4),
                                        .first = pool_handle(part.first, PARTS + 1, 4),
                                        .n_parts = PARTS,
                                        .part = p};
    pe->order = order;
    pe->frontier = pool_vector(n_part + 1, 4, &pe->frontier_data);
    pe->index = pool_vector((uint32_t)sl_index_bytes(n_part) + 1, 1, &index);
    memset(index, 0xff, 4 * (size_t)n_part);
    pe->marks = pool_vector((uint32_t)sl_marks_bytes(n, 8), 1, NULL);
    pe->counts = pool_vector(sl_counts_size(2, PARTS), 4, &pe->counts_data);
    for (int hop = 0; hop < 2; hop++) {
        struct sl_block *block = &pe->block[hop];
        *block = (struct sl_block){0};
        block->edge_offsets = pool_vector(n_part + 1, 4, NULL);
        block->edge_sources = pool_vector(ROOM, 4, NULL);
        block->back_offsets = pool_vector(n + 1, 4, NULL);
        block->back_rows = pool_vector(ROOM, 4, NULL);
        block->request = pool_vector(PARTS + 1 + n, 4, NULL);
        block->inverse = pool_vector(PARTS + 1 + PARTS * n_part, 4, NULL);
    }
}

static struct sl_frontier_handles frontier_of(const struct sl_partition *partition, uint32_t p, const struct piped *pe)
{
    return (struct sl_frontier_handles){.ids = pe->frontier,
                                        .index = pe->index,
                                        .counts = pe->counts,
                                        .n_hops = 2,
                                        .first = partition->first[p],
                                        .end = partition->first[p + 1]};
}

static struct sl_marks_handles marks_of(const struct sl_partition *partition, const struct piped *pe)
{
    return (struct sl_marks_handles){.bytes = pe->marks, .n_vertices = partition->graph.n_vertices, .max_fanout = 8};
}

static void submit_piped(const struct sl_partition *partition, const struct sl_sample_rule *rules, uint64_t step,
                         uint32_t n_seeds, struct piped *pes)
{
    struct sl_task_args here = head;
    here.step = step;
    for (uint32_t p = 0; p < PARTS; p++) {
        struct sl_frontier_handles frontier = frontier_of(partition, p, &pes[p]);
        expect_ok(sl_seed_submit(&here, pes[p].order, 0, n_seeds, &frontier));
    }
    for (uint32_t hop = 0; hop < 2; hop++) {
        here.hop = hop;
        for (uint32_t p = 0; p < PARTS; p++) {
            struct sl_frontier_handles frontier = frontier_of(partition, p, &pes[p]);
            struct sl_marks_handles marks = marks_of(partition, &pes[p]);
            expect_ok(sl_sample_submit(&here, &pes[p].part, &rules[hop], SEED, &frontier, &marks, &pes[p].block[hop]));
        }
        starpu_data_handle_t request[PARTS];
        struct sl_merging owners[PARTS];
        for (uint32_t p = 0; p < PARTS; p++) {
            request[p] = pes[p].block[hop].request;
            owners[p] = (struct sl_merging){p, frontier_of(partition, p, &pes[p]), pes[p].block[hop].inverse, false};
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
            assert_int_equal(pes[p].counts_data[sl_counts_rows(level)], pe->n_rows[level]);
        }
        for (uint32_t hop = 0; hop < 2; hop++) {
            assert_int_equal(pes[p].counts_data[sl_counts_edges(2, hop)], pe->block[hop].n_edges);
            expect_same("request", PARTS + 1, 4, pes[p].counts_data + sl_counts_request(2, PARTS, hop),
                        pe->block[hop].request);
        }
        expect_same("frontier", pe->n_rows[2], 4, pes[p].frontier_data, pe->frontier);
    }
}

/* The same slot serves three steps: what a step leaves in marks and index must not show in the next. */
static void check_piped(const struct sl_dataset *dataset, const struct sl_partition *partition)
{
    const struct sl_sample_rule rules[2] = {{SL_SAMPLE_LABOR, 4, false, 1}, {SL_SAMPLE_NEIGHBOR, 3, false, 1}};
    struct piped pes[PARTS];
    sl_vertex *ids;
    uint32_t n_seeds = 20;
    starpu_data_handle_t order = pool_vector(n_seeds, 4, &ids);
    for (uint32_t p = 0; p < PARTS; p++) {
        open_piped(partition, p, order, &pes[p]);
    }
    for (uint64_t step = 0; step < 3; step++) {
        struct group group;
        const sl_vertex *seeds = dataset->train.ids + step * n_seeds;
        assert_int_equal(starpu_data_acquire(order, STARPU_W), 0);
        for (uint32_t i = 0; i < n_seeds; i++) {
            ids[i] = partition->new_ids[seeds[i]];
        }
        starpu_data_release(order);
        group_sample(partition, 2, rules, SEED, step, n_seeds, seeds, &group);
        submit_piped(partition, rules, step, n_seeds, pes);
        starpu_task_wait_for_all();
        expect_no_failure();
        bring_home(pool.n_handles, pool.handle);
        expect_piped(&group, pes);
        group_free(&group);
    }
    pool_free();
}

static void test_slot_is_used_again(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 250};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct sl_dataset dataset;
        struct sl_partition partition;
        make_dataset(&shape, &dataset);
        make_uneven_partition(&dataset.graph, PARTS, 4, 3, &partition); /* the last part is empty */
        fixture_start(worker_counts[w]);
        check_piped(&dataset, &partition);
        sl_partition_free(&partition);
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

/* Seed, sample and merge, each with what it reads held back. */
static void check_outputs(const struct sl_partition *partition, struct piped *pe, starpu_data_handle_t order)
{
    const struct sl_sample_rule rule = {SL_SAMPLE_NEIGHBOR, 3, false, 1};
    const struct sl_frontier_handles frontier = frontier_of(partition, 0, pe);
    const struct sl_marks_handles marks = marks_of(partition, pe);
    struct sl_block *block = &pe->block[0];
    struct sl_task_args here = head;
    here.hop = 0;
    const starpu_data_handle_t seeded[] = {pe->frontier, pe->index, pe->counts};
    hold(order);
    expect_ok(sl_seed_submit(&here, order, 0, 20, &frontier));
    release(order, 3, seeded);
    const starpu_data_handle_t sampled[] = {block->edge_offsets, block->edge_sources, block->back_offsets,
                                            block->back_rows,    block->request,      pe->marks,
                                            pe->counts};
    hold(pe->frontier);
    expect_ok(sl_sample_submit(&here, &pe->part, &rule, SEED, &frontier, &marks, block));
    release(pe->frontier, 7, sampled);
    const starpu_data_handle_t merged[] = {pe->frontier, pe->index, pe->counts, block->inverse};
    const starpu_data_handle_t requests[] = {block->request, block->request, block->request, block->request};
    hold(block->request);
    const struct sl_merging owner = {0, frontier, block->inverse, false};
    expect_ok(sl_merge_submit(&here, PARTS, requests, 1, &owner));
    release(block->request, 4, merged);
    expect_no_failure();
}

static void test_outputs_are_written(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 250};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct piped pe;
    make_dataset(&shape, &dataset);
    make_uneven_partition(&dataset.graph, PARTS, 4, 3, &partition);
    fixture_start(1);
    sl_vertex *ids;
    starpu_data_handle_t order = pool_vector(20, 4, &ids);
    for (uint32_t i = 0; i < 20; i++) {
        ids[i] = partition.new_ids[dataset.train.ids[i]];
    }
    open_piped(&partition, 0, order, &pe);
    check_outputs(&partition, &pe, order);
    pool_free();
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
    fixture_stop();
}

static void test_failure(void **state)
{
    (void)state;
    struct ask ask = make_ask(10, 64, 1, 0.5);
    uint32_t counts[8] = {0};
    char *index = need(sl_index_bytes(64), 1);
    sl_real *packed = poisoned(4 * 6);
    sl_real *base = noisy(8 * 6, 1);
    uint32_t rows[] = {0, 3, 0, 1, 2, 3};
    const uint32_t who[] = {0};
    fixture_start(1);
    starpu_data_handle_t handles[] = {
        vector_of(ask.frontier, 64, 4),
        vector_of(index, (uint32_t)sl_index_bytes(64), 1),
        vector_of(counts, 8, 4),
        vector_of(ask.inverse, ask.n_inverse, 4),
        vector_of(ask.request[0], 2 + ask.request[0][1], 4),
        vector_of(rows, 6, 4),
        rows_of(packed, 4, 6),
        rows_of(base, 8, 6),
    };
    const starpu_data_handle_t *h = handles;
    const struct sl_slice to = slice_of(handles[6]);
    const struct sl_rows all = {.split = sl_split_rows(8, 1, 3), .n_columns = 6, .chunk = &handles[7]};
    const struct sl_merging owner = {
        0, {.ids = h[0], .index = h[1], .counts = h[2], .n_hops = 2, .first = 10, .end = 74}, h[3], false};
    fixture_fail();
    expect_ok(sl_merge_submit(&head, 1, h + 4, 1, &owner));
    expect_ok(sl_pack_submit(&head, &all, 1, h[5], 1, who, &to));
    unregister(8, handles);
    assert_int_equal(counts[sl_counts_rows(2)], 0);
    expect_still(packed[0], (sl_real)-12345.5);
    fixture_stop();
    free(index);
    free(packed);
    free(base);
    free_ask(&ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_unpack),
#ifdef SL_CUDA
        cmocka_unit_test(test_merge_launcher),
        cmocka_unit_test(test_pack_launcher),
        cmocka_unit_test(test_unpack_launcher),
#endif
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_unpack_bf16),
        cmocka_unit_test(test_slot_is_used_again),
        cmocka_unit_test(test_outputs_are_written),
        cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
