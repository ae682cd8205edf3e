/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/memory.h: alignment, sizes that overflow, contents kept, the ration and the count. */
#include "support/memory.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"

static void expect_aligned(const void *block)
{
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
}

TEST(test_blocks_are_aligned)
{
    for (size_t bytes = 0; bytes < 300; bytes++) {
        OWNED(sl_free_it) char *block;
        OWNED(sl_free_it) char *zero;
        assert_int_equal(sl_alloc(bytes, 1, "a block", &block), SL_OK);
        assert_int_equal(sl_alloc_zero(1, bytes, "a block", &zero), SL_OK);
        expect_aligned(block);
        expect_aligned(zero);
        memset(block, 1, bytes);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(zero[i], 0);
        }
    }
    assert_int_equal(sl_memory_live(), 0);
}

/* A large block has its pages for itself: it can be locked and unlocked without its neighbours. */
TEST(test_own_pages)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {SL_OWN_PAGES_BYTES, SL_OWN_PAGES_BYTES + 1, 3 * SL_OWN_PAGES_BYTES - 7};
    char *block[3][4];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) {
            assert_int_equal((j % 2 == 0 ? sl_alloc : sl_alloc_zero)(sizes[i], 1, "a block", &block[i][j]), SL_OK);
            assert_int_equal((uintptr_t)block[i][j] % page, 0);
            memset(block[i][j], i + j, (sizes[i] + page - 1) / page * page); /* the last page's rest is ours, too */
        }
    }
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) {
            assert_int_equal(block[i][j][0], i + j);
            assert_int_equal(block[i][j][sizes[i] - 1], i + j);
            sl_free(block[i][j]);
        }
    }
    assert_int_equal(sl_memory_live(), 0);
}

/* A product beyond the machine, and one that only the header takes beyond it, are refused and leave the pointer
 * alone. */
TEST(test_overflow)
{
    const size_t sizes[][2] = {{SIZE_MAX, 2}, {SIZE_MAX / 8 + 1, 8}, {(size_t)1 << 32, (size_t)1 << 32},
                               {SIZE_MAX, 1}, {SIZE_MAX - 64, 1},    {1, SIZE_MAX - 127}};
    char kept;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *block = &kept;
        assert_int_equal(sl_alloc(sizes[i][0], sizes[i][1], "the rows", &block), SL_ENOMEM);
        assert_non_null(strstr(sl_message(), "the rows"));
        assert_int_equal(sl_alloc_zero(sizes[i][0], sizes[i][1], "the rows", &block), SL_ENOMEM);
        assert_ptr_equal(block, &kept);
    }
    assert_int_equal(sl_memory_live(), 0);
}

/* Larger and smaller: what both sizes hold is kept; a failure keeps all of it. */
TEST(test_resizing)
{
    uint32_t *block = NULL;
    assert_int_equal(sl_realloc(&block, 100, sizeof *block, "numbers"), SL_OK);
    expect_aligned(block);
    for (uint32_t i = 0; i < 100; i++) {
        block[i] = i;
    }
    assert_int_equal(sl_realloc(&block, 100000, sizeof *block, "numbers"), SL_OK);
    expect_aligned(block);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(block[i], i);
    }
    assert_int_equal(sl_realloc(&block, 7, sizeof *block, "numbers"), SL_OK);
    uint32_t *before = block;
    assert_int_equal(sl_realloc(&block, SIZE_MAX / 2, sizeof *block, "numbers"), SL_ENOMEM);
    sl_memory_ration(0);
    assert_int_equal(sl_realloc(&block, 8, sizeof *block, "numbers"), SL_ENOMEM);
    sl_memory_ration(-1);
    assert_ptr_equal(block, before);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(block[i], i);
    }
    assert_int_equal(sl_memory_live(), 1);
    sl_free(block);
    assert_int_equal(sl_memory_live(), 0);
}

TEST(test_strdup)
{
    char text[] = "a name";
    char *copy;
    char *empty;
    assert_int_equal(sl_strdup(text, &copy), SL_OK);
    assert_int_equal(sl_strdup("", &empty), SL_OK);
    text[0] = 'b';
    assert_string_equal(copy, "a name");
    assert_string_equal(empty, "");
    sl_free(copy);
    sl_free(empty);
    sl_free(NULL);
    assert_int_equal(sl_memory_live(), 0);
}

TEST(test_ration)
{
    char *block[3];
    sl_memory_ration(2);
    assert_int_equal(sl_alloc(1, 1, "a block", &block[0]), SL_OK);
    assert_int_equal(sl_strdup("text", &block[1]), SL_OK);
    for (int i = 0; i < 3; i++) { /* and so for ever */
        assert_int_equal(sl_alloc(1, 1, "the third", &block[2]), SL_ENOMEM);
        assert_non_null(strstr(sl_message(), "the third"));
    }
    assert_int_equal(sl_memory_live(), 2);
    sl_memory_ration(-1);
    assert_int_equal(sl_alloc(1, 1, "a block", &block[2]), SL_OK);
    for (int i = 0; i < 3; i++) {
        sl_free(block[i]);
    }
    assert_int_equal(sl_memory_live(), 0);
}

#define BLOCKS 2000

/* What one thread was given. */
struct share {
    int n;
    void *block[BLOCKS];
};

static void *take(void *arg)
{
    struct share *share = arg;
    for (int i = 0; i < BLOCKS; i++) {
        share->n += sl_alloc(16, 1, "a block", &share->block[share->n]) == SL_OK;
    }
    return NULL;
}

static void *give_back(void *arg)
{
    struct share *share = arg;
    while (share->n > 0) {
        sl_free(share->block[--share->n]);
    }
    return NULL;
}

static void run_two(void *(*work)(void *), struct share shares[2])
{
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, work, &shares[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
}

/* Threads share the count and the ration: together they get what is allowed and no more. */
TEST(test_threads)
{
    static struct share shares[2];
    sl_memory_ration(BLOCKS + 77);
    run_two(take, shares);
    sl_memory_ration(-1);
    assert_int_equal(shares[0].n + shares[1].n, BLOCKS + 77);
    assert_int_equal(sl_memory_live(), BLOCKS + 77);
    run_two(give_back, shares);
    assert_int_equal(sl_memory_live(), 0);
}

/* A block that would not fit beside what is in use is refused before a page of it is touched; cleared blocks pass. */
TEST(test_limit)
{
    const size_t large = (size_t)64 << 20;
    char *block = NULL;
    sl_memory_limit(large / 2, "use less");
    assert_int_equal(sl_alloc(large, 1, "features", &block), SL_ENOMEM);
    assert_non_null(strstr(sl_message(), "features: need 0.07 GB"));
    assert_non_null(strstr(sl_message(), "this process may use 0.03 GB"));
    assert_null(block);
    assert_int_equal(sl_memory_check(UINT64_MAX, "all"), SL_ENOMEM);
    assert_int_equal(sl_realloc(&block, large, 1, "features"), SL_ENOMEM);
    assert_int_equal(sl_alloc_zero(large, 1, "features", &block), SL_OK);
    sl_free(block);
    sl_memory_limit((uint64_t)1 << 40, "use less");
    block = NULL;
    assert_int_equal(sl_alloc(1000, 1, "a block", &block), SL_OK);
    sl_free(block);
    block = NULL;
    assert_int_equal(sl_alloc(large, 1, "features", &block), SL_OK);
    sl_free(block);
    sl_memory_limit(UINT64_MAX, "");
    assert_int_equal(sl_memory_check(UINT64_MAX, "all"), SL_OK);
    assert_int_equal(sl_memory_live(), 0);
}

/* Many small blocks are looked at together. */
TEST(test_small_blocks_add_up)
{
    enum { MOST = 40 };
    char *blocks[MOST] = {NULL};
    uint32_t n = 0;
    enum sl_status st = SL_OK;
    sl_memory_limit(1, "use less");
    while (st == SL_OK && n < MOST) {
        st = sl_alloc((size_t)2 << 20, 1, "rows", &blocks[n++]);
    }
    for (int i = 0; i < 3 && st == SL_ENOMEM; i++) { /* a refusal is not forgotten */
        st = sl_alloc((size_t)2 << 20, 1, "rows", &blocks[n - 1]);
    }
    sl_memory_limit(UINT64_MAX, "");
    assert_true(st == SL_ENOMEM && n <= 8);
    while (n > 0) {
        sl_free(blocks[--n]);
    }
}

static char *spare;

static void give_spare(void)
{
    sl_free(spare);
    spare = NULL;
}

/* Memory that nobody uses goes back before a block is refused. */
TEST(test_shortage)
{
    const size_t bytes = (size_t)256 << 20;
    char *block = NULL;
    assert_int_equal(sl_alloc(bytes, 1, "spare", &spare), SL_OK);
    memset(spare, 1, bytes);
    sl_memory_limit(bytes + bytes / 2, "use less");
    assert_int_equal(sl_alloc(bytes, 1, "rows", &block), SL_ENOMEM);
    assert_non_null(strstr(sl_message(), " GB; use less"));
    sl_memory_on_shortage(give_spare);
    assert_int_equal(sl_alloc(bytes, 1, "rows", &block), SL_OK);
    assert_null(spare);
    sl_memory_on_shortage(NULL);
    sl_memory_limit(UINT64_MAX, "");
    sl_free(block);
}

/* The names of large blocks, with most bytes first; one of another name with equal bytes, and memory of others. */
TEST(test_holders)
{
    const size_t mib = (size_t)1 << 20;
    char *rows = NULL, *ids = NULL, *more = NULL, *same = NULL;
    char text[SL_HOLDERS_BYTES];
    sl_memory_list(false, text);
    assert_string_equal(text, "");
    assert_int_equal(sl_alloc(20 * mib, 1, "rows", &rows), SL_OK);
    assert_int_equal(sl_alloc(30 * mib, 1, "ids", &ids), SL_OK);
    assert_int_equal(sl_alloc(20 * mib, 1, "rows", &more), SL_OK);
    assert_int_equal(sl_alloc_zero(30 * mib, 1, "a name that is longer than forty characters are", &same), SL_OK);
    sl_memory_hold("a library", 1000 * mib);
    sl_memory_list(false, text);
    assert_string_equal(text, "a library 1.05 GB, rows 0.04 GB, ids 0.03 GB, a name that is longer than forty charac "
                              "0.03 GB");
    sl_memory_limit(1, "use less");
    assert_int_equal(sl_memory_check(64 * mib, "METIS"), SL_ENOMEM);
    sl_memory_limit(UINT64_MAX, "");
    assert_non_null(strstr(sl_message(), "METIS: need 0.07 GB of memory beside the "));
    assert_non_null(strstr(sl_message(), " in use (reserved: a library 1.05 GB, rows 0.04 GB, "));
    sl_memory_release("a library", 1000 * mib);
    sl_free(rows);
    sl_free(ids);
    sl_free(same);
    sl_memory_list(false, text);
    assert_string_equal(text, "rows 0.02 GB");
    sl_memory_list(true, text);
    assert_non_null(strstr(text, "a library 1.05 GB, rows 0.04 GB"));
    sl_free(more);
    assert_int_equal(sl_memory_live(), 0);
}

TEST_MAIN(NULL, NULL)
