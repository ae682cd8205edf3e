/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/machine/pool: blocks are as large as asked for, apart from each other, given again, and do not grow in
 * number while a run repeats itself. A build with a sanitizer has no pool.
 */
#include "tests/support/run_fixture.h"

#include <sys/mman.h>
#include <unistd.h>

#include "data/load.h"

#include "runtime/machine/pool.h"
#include "support/memory.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_WITHOUT_POOL() skip()
#else
#define SKIP_WITHOUT_POOL() ((void)0)
#endif

/* A block of StarPU's, through the hooks. */
static void *take(size_t bytes)
{
    void *block = NULL;
    assert_int_equal(starpu_malloc_flags(&block, bytes, 0), 0);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    return block;
}

static void give(void *block, size_t bytes)
{
    assert_int_equal(starpu_free_flags(block, bytes, 0), 0);
}

/* A block of the reserve is of the class above, and may be of one that is in use: what has memory goes first. The
 * first test: it takes the first blocks of its class. */
TEST(test_reserve_last)
{
    SKIP_WITHOUT_POOL();
    const size_t bytes = (size_t)32 << 20;
    const size_t above = bytes + bytes / 8;
    void *small = take(bytes);
    void *large = take(above);
    give(small, bytes);
    give(large, above);
    sl_pool_reserve();
    assert_ptr_equal(take(above), large);
    assert_ptr_equal(take(bytes), small);
    give(large, above);
    assert_ptr_equal(take(bytes), large);
    give(small, bytes);
    give(large, bytes);
}

/* All sizes round the powers of two: written to the last byte, and none overlaps another. */
TEST(test_sizes)
{
    static const int offsets[] = {-1, 0, 1};
    size_t sizes[3 * 24];
    unsigned char *blocks[3 * 24];
    size_t n = 0;
    SKIP_WITHOUT_POOL();
    for (unsigned power = 0; power < 22; power++) {
        for (int i = 0; i < 3; i++) {
            size_t bytes = ((size_t)1 << power) + (size_t)offsets[i];
            if (bytes > 0) {
                sizes[n] = bytes;
                blocks[n] = take(bytes);
                memset(blocks[n], (int)n, bytes);
                n++;
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t b = 0; b < sizes[i]; b += sizes[i] < 4096 ? 1 : 509) {
            assert_int_equal(blocks[i][b], (unsigned char)i);
        }
        assert_int_equal(blocks[i][sizes[i] - 1], (unsigned char)i);
        give(blocks[i], sizes[i]);
    }
}

TEST(test_given_again)
{
    SKIP_WITHOUT_POOL();
    for (size_t bytes = 1; bytes < 5000000; bytes = bytes * 3 + 1) {
        void *first = take(bytes);
        void *second = take(bytes);
        uint64_t n = sl_pool_blocks();
        uint64_t n_bytes = sl_pool_bytes();
        assert_ptr_not_equal(first, second);
        give(first, bytes);
        assert_ptr_equal(take(bytes), first);
        assert_int_equal(sl_pool_blocks(), n);
        assert_int_equal(sl_pool_bytes(), n_bytes);
        give(first, bytes);
        give(second, bytes);
    }
}

/* A block that a worker gives back (before), or takes. */
struct by_worker {
    size_t bytes;
    void *block;
};

static void give_on_worker(void *arg)
{
    struct by_worker *b = arg;
    give(b->block, b->bytes);
}

static void take_on_worker(void *arg)
{
    struct by_worker *b = arg;
    b->block = take(b->bytes);
}

static void *on_worker(unsigned worker, void (*function)(void *), void *block, size_t bytes)
{
    struct by_worker b = {bytes, block};
    starpu_execute_on_specific_workers(function, &b, 1, &worker, "test_pool");
    return b.block;
}

/* Of two free blocks each worker takes the one that it gave back, whichever was the first; the other's where it has
 * none. */
static void test_own_first(void **state)
{
    const size_t bytes = (size_t)11 << 20; /* a size that no other test takes */
    (void)state;
    SKIP_WITHOUT_POOL();
    assert_true(starpu_worker_get_count() >= 2);
    void *blocks[] = {take(bytes), take(bytes)};
    uint64_t n = sl_pool_blocks();
    for (unsigned first = 0; first < 2; first++) {
        for (unsigned i = 0; i < 2; i++) {
            on_worker(i ^ first, give_on_worker, blocks[i ^ first], bytes);
        }
        assert_ptr_equal(on_worker(0, take_on_worker, NULL, bytes), blocks[0]);
        assert_ptr_equal(on_worker(1, take_on_worker, NULL, bytes), blocks[1]);
    }
    on_worker(0, give_on_worker, blocks[0], bytes);
    assert_ptr_equal(on_worker(1, take_on_worker, NULL, bytes), blocks[0]);
    on_worker(1, give_on_worker, blocks[0], bytes);
    on_worker(1, give_on_worker, blocks[1], bytes);
    assert_ptr_equal(take(bytes), blocks[1]);
    give(blocks[1], bytes);
    assert_int_equal(sl_pool_blocks(), n);
}

/* A block of twice the size serves where there is none nearer, and goes back to where it came from. */
TEST(test_borrowed)
{
    SKIP_WITHOUT_POOL();
    const size_t bytes = (size_t)7 << 20; /* a size that no other test takes */
    void *large = take(2 * bytes);
    give(large, 2 * bytes);
    uint64_t n = sl_pool_blocks();
    assert_ptr_equal(take(bytes), large);
    assert_int_equal(sl_pool_blocks(), n);
    void *other = take(bytes);
    assert_int_equal(sl_pool_blocks(), n + 1);
    give(other, bytes);
    give(large, bytes);
    assert_ptr_equal(take(2 * bytes), large);
    assert_ptr_equal(take(bytes), other);
    give(large, 2 * bytes);
    give(other, bytes);
}

/* One of four times the size does not: too much would be wasted. */
TEST(test_not_borrowed)
{
    const size_t bytes = (size_t)5 << 20;
    SKIP_WITHOUT_POOL();
    void *large = take(4 * bytes);
    give(large, 4 * bytes);
    void *other = take(bytes);
    assert_ptr_not_equal(other, large);
    give(other, bytes);
}

/* Where blocks are lent to sizes near theirs alone, one of a quarter more serves, and none of half more. */
TEST(test_lent_near)
{
    const size_t bytes = (size_t)9 << 20;
    SKIP_WITHOUT_POOL();
    void *large = take(bytes / 2 * 3);
    give(large, bytes / 2 * 3);
    sl_pool_borrow_near_only(true);
    void *other = take(bytes);
    assert_ptr_not_equal(other, large);
    give(other, bytes);
    assert_ptr_equal(take(bytes / 8 * 7), other);
    give(other, bytes / 8 * 7);
    sl_pool_borrow_near_only(false);
    assert_ptr_equal(take(bytes / 4 * 5), large);
    give(large, bytes / 4 * 5);
}

/* A fresh block is at most an eighth larger than what is asked for. */
TEST(test_waste)
{
    SKIP_WITHOUT_POOL();
    for (size_t bytes = 16384; bytes < 3000000; bytes = bytes * 5 / 4 + 1) {
        uint64_t n = sl_pool_blocks();
        uint64_t before = sl_pool_bytes();
        void *block[3];
        for (int i = 0; i < 3; i++) {
            block[i] = take(bytes);
        }
        assert_true(sl_pool_bytes() - before <= (sl_pool_blocks() - n) * (bytes + bytes / 8 + 1));
        for (int i = 0; i < 3; i++) {
            give(block[i], bytes);
        }
    }
}

/* Beyond the limit of the process a buffer has no memory, and the run's failure says who holds the rest. Free blocks go
 * back first. */
TEST(test_limit)
{
    const size_t bytes = (size_t)200 << 20;
    SKIP_WITHOUT_POOL();
    struct sl_failure failure = {0};
    sl_pool_release();
    char *block = take(bytes);
    memset(block, 1, bytes);
    sl_pool_report(&failure);
    sl_memory_limit(2 * bytes, "use less");
    void *none = NULL;
    assert_int_equal(starpu_malloc_flags(&none, 3 * bytes / 2, 0), 0);
    assert_int_equal(sl_failure_status(&failure), SL_ENOMEM);
    assert_non_null(strstr(sl_message(), "compute buffers: need 0.3"));
    assert_non_null(strstr(sl_message(), " in use (reserved: compute buffers 0.2"));
    starpu_free_flags(none, 3 * bytes / 2, 0);
    give(block, bytes);
    block = take(bytes);
    memset(block, 1, bytes);
    sl_memory_limit(1, "use less");
    failure = (struct sl_failure){0};
    for (int i = 0; i < 64 && sl_failure_status(&failure) == SL_OK; i++) { /* small ones add up */
        assert_int_equal(starpu_malloc_flags(&none, (size_t)1 << 20, 0), 0);
    }
    assert_int_equal(sl_failure_status(&failure), SL_ENOMEM);
    failure = (struct sl_failure){0};
    assert_int_equal(starpu_malloc_flags(&none, (size_t)1 << 20, 0), 0);
    assert_int_equal(sl_failure_status(&failure), SL_ENOMEM);
    sl_memory_limit(2 * bytes, "use less");
    give(block, bytes);
    failure = (struct sl_failure){0};
    void *other = take(3 * bytes / 2); /* the free block has made room */
    assert_int_equal(sl_failure_status(&failure), SL_OK);
    give(other, 3 * bytes / 2);
    sl_memory_limit(UINT64_MAX, "");
    sl_pool_report(NULL);
    sl_pool_release();
}

/* Few free blocks are kept; many go back to the system, but none that is in use. */
TEST(test_trim)
{
    enum { N = 5 };
    size_t bytes = (size_t)SL_POOL_KEPT_BYTES / 4 + 4096;
    unsigned char *blocks[N];
    SKIP_WITHOUT_POOL();
    sl_pool_trim();
    for (int i = 0; i < N; i++) { /* untouched pages cost nothing */
        blocks[i] = take(bytes);
    }
    blocks[0][bytes - 1] = 77;
    uint64_t held = sl_pool_bytes();
    give(blocks[1], bytes);
    sl_pool_trim();
    assert_int_equal(sl_pool_bytes(), held);
    for (int i = 2; i < N; i++) {
        give(blocks[i], bytes);
    }
    uint64_t n = sl_pool_blocks();
    sl_pool_trim();
    assert_true(sl_pool_bytes() >= bytes && sl_pool_bytes() < held - (N - 1) * (uint64_t)bytes + 1);
    assert_int_equal(blocks[0][bytes - 1], 77);
    blocks[1] = take(bytes); /* fresh again */
    assert_int_equal(sl_pool_blocks(), n + 1);
    give(blocks[1], bytes);
    give(blocks[0], bytes);
    sl_pool_trim();
}

/* Whether the page in the middle of a block is there. */
static bool is_resident(const unsigned char *block, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char there;
    uintptr_t middle = ((uintptr_t)block + bytes / 2) / page * page;
    assert_int_equal(mincore((void *)middle, page, &there), 0);
    return (there & 1) != 0;
}

/* All free blocks go back, however few: large ones, and the pages of those that share huge pages with used ones. */
TEST(test_release)
{
    const size_t large = 9 << 20;
    const size_t small = 700 << 10;
    SKIP_WITHOUT_POOL();
    sl_pool_release();
    uint64_t before = sl_pool_bytes();
    unsigned char *used = take(small);
    memset(used, 77, small);
    unsigned char *beside = take(small);
    memset(beside, 1, small);
    uint64_t held = sl_pool_bytes();
    give(take(large), large);
    assert_true(sl_pool_bytes() >= held + large);
    give(beside, small);
    sl_pool_release();
    assert_int_equal(sl_pool_bytes(), held);
    assert_false(is_resident(beside, small));
    assert_true(used[0] == 77 && used[small - 1] == 77);
    give(used, small);
    sl_pool_release();
    assert_int_equal(sl_pool_bytes(), before);
}

/* Blocks that share huge pages: those that are given back lose their pages although others of them are in use,
 * which lose nothing, and are there again. */
TEST(test_side_by_side)
{
    enum { N = 40 };
    const size_t bytes = 700 << 10;
    const size_t many = (size_t)SL_POOL_KEPT_BYTES / 8 * 9; /* a whole class */
    unsigned char *blocks[N];
    SKIP_WITHOUT_POOL();
    give(take(many), many); /* so much that it is trimmed, and with it what else is free */
    sl_pool_trim();
    uint64_t before = sl_pool_bytes();
    unsigned char *large = take(many);
    int n_beside = 0;
    for (int i = 0; i < N; i++) {
        blocks[i] = take(bytes);
        memset(blocks[i], i + 1, bytes);
        n_beside += i > 0 && blocks[i] > blocks[i - 1] && blocks[i] - blocks[i - 1] < 1 << 20;
    }
    assert_true(n_beside > N / 2);
    for (int i = 0; i < N; i++) {
        if (i % 8 != 0) {
            give(blocks[i], bytes);
        }
    }
    give(large, many);
    uint64_t n = sl_pool_blocks();
    sl_pool_trim();
    for (int i = 0; i < N; i++) {
        assert_int_equal(is_resident(blocks[i], bytes), i % 8 == 0);
        assert_int_equal(i % 8 == 0 ? blocks[i][bytes - 1] : i + 1, i + 1);
    }
    for (int i = 0; i < N; i++) {
        if (i % 8 != 0) {
            blocks[i] = take(bytes);
            memset(blocks[i], i + 1, bytes);
        }
    }
    assert_int_equal(sl_pool_blocks(), n);
    for (int i = 0; i < N; i++) {
        assert_int_equal(blocks[i][0], i + 1);
        assert_int_equal(blocks[i][bytes - 1], i + 1);
        give(blocks[i], bytes);
    }
    give(take(many), many);
    sl_pool_trim();
    assert_int_equal(sl_pool_bytes(), before);
}

/* Where they are not kept, free blocks have no memory, large ones and small ones, and are taken again. */
TEST(test_not_kept)
{
    static const size_t sizes[] = {(size_t)11 << 20, (size_t)300 << 10};
    const size_t many = (size_t)SL_POOL_KEPT_BYTES / 8 * 9; /* a whole class */
    SKIP_WITHOUT_POOL();
    give(take(many), many); /* so many that all that is free goes */
    sl_pool_trim();
    for (int i = 0; i < 2; i++) {
        const size_t bytes = sizes[i];
        sl_pool_keep(false);
        unsigned char *block = take(bytes);
        memset(block, 1, bytes);
        assert_true(is_resident(block, bytes));
        give(block, bytes);
        assert_false(is_resident(block, bytes));
        assert_ptr_equal(take(bytes), block);
        memset(block, 2, bytes);
        sl_pool_keep(true);
        give(block, bytes);
        assert_true(is_resident(block, bytes));
    }
}

/* Every block taken is matched once, and blocks of the reserve serve. */
TEST(test_reserve)
{
    SKIP_WITHOUT_POOL();
    const size_t bytes = (size_t)50 << 20;
    void *block = take(bytes);
    give(block, bytes);
    sl_pool_reserve();
    uint64_t n = sl_pool_blocks();
    sl_pool_reserve();
    assert_int_equal(sl_pool_blocks(), n);
    block = take(bytes);
    void *other = take(bytes);
    assert_ptr_not_equal(block, other);
    assert_int_equal(sl_pool_blocks(), n);
    give(block, bytes);
    give(other, bytes);
}

/* The same step over and over: after the first two no block is taken from the system. */
TEST(test_steady)
{
    SKIP_WITHOUT_POOL();
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 400, .n_columns = 10, .seed = 7};
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_step_sizes sizes;
    OWNED(sl_dataset_free) struct sl_dataset d;
    OWNED(world_close) struct world w;
    uint64_t n = 0;
    make_dataset(&shape, &d);
    settings_with("hidden=16 pes=2 chunks=2 batch-size=60 norm=batch", &settings);
    world_open(&d, &settings, 1, &w);
    expect_ok(sl_step_sample(w.steps, 0));
    for (uint32_t i = 0; i < 8; i++) {
        struct sl_adam adam = adam_of(&settings, i);
        starpu_data_handle_t loss;
        expect_ok(sl_matrix_register(1, 1, SL_DTYPE_F64, &loss));
        expect_ok(sl_step_compute(w.steps, 0, &adam, loss, &sizes));
        starpu_data_unregister_no_coherency(loss);
        starpu_task_wait_for_all();
        if (i == 1) {
            sl_pool_reserve();
            n = sl_pool_blocks();
            assert_true(n > 10);
        }
    }
    assert_int_equal(sl_pool_blocks(), n);
    world_healthy(&w);
    forget_partitions();
}

static int up(void **state)
{
    (void)state;
    machine_up("eager", 1); /* one worker: the order of tasks, and so of blocks, is the same each time */
    return 0;
}

static int down(void **state)
{
    (void)state;
    machine_down();
    assert_int_equal(sl_pool_blocks(), 0);
    assert_int_equal(sl_memory_live(), 0);
    return 0;
}

static int up_two(void **state)
{
    (void)state;
    machine_up("eager", 2);
    return 0;
}

int main(void)
{
    const struct CMUnitTest of_two_workers[] = {cmocka_unit_test(test_own_first)};
    int failed = run_listed_tests(up, down);
    return failed + cmocka_run_group_tests(of_two_workers, up_two, down);
}
