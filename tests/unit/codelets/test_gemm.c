/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/gemm.h: against three loops on both sides of the size at which another library multiplies; in one
 * thread, whatever the environment allows; the same bits twice; a row's bits with any rows beside it; no memory. */
#include "codelets/rows/gemm.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codelets/rows/rowwise.h"
#include "tests/support/kernel.h"

/* m, n, k: small ones, odd ones, and ones just below and above a million multiplications. */
static const uint32_t shapes[][3] = {{1, 1, 1},      {17, 7, 13},   {125, 64, 125},  {126, 64, 125},  {1025, 32, 32},
                                     {4099, 40, 64}, {333, 96, 97}, {40, 256, 3001}, {1, 1500, 1001}, {2100, 1, 513}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

struct product {
    uint32_t m, n, k;
    struct sl_factor a, b;
    sl_real *c;
    int beta;
};

static sl_real at(const struct sl_factor *f, uint32_t row, uint32_t column)
{
    const sl_real *entries = f->entries;
    return f->is_transposed ? entries[(size_t)column * f->n_columns + row]
                            : entries[(size_t)row * f->n_columns + column];
}

static struct product make(const uint32_t shape[3], int ops, int beta)
{
    struct product p = {.m = shape[0], .n = shape[1], .k = shape[2], .beta = beta};
    int t_a = ops & 1;
    int t_b = ops >> 1;
    p.a = (struct sl_factor){noisy((size_t)p.m * p.k, 1), t_a ? p.m : p.k, t_a, false};
    p.b = (struct sl_factor){noisy((size_t)p.k * p.n, 2), t_b ? p.k : p.n, t_b, false};
    p.c = noisy((size_t)p.m * p.n, 3);
    return p;
}

static enum sl_status compute(const struct product *p)
{
    return sl_gemm(p->m, p->n, p->k, p->a, p->b, p->beta, p->c);
}

static void drop(struct product *p)
{
    free((void *)(uintptr_t)p->a.entries);
    free((void *)(uintptr_t)p->b.entries);
    free(p->c);
}

static void check(const uint32_t shape[3], int ops, int beta)
{
    struct product p = make(shape, ops, beta);
    size_t n = (size_t)p.m * p.n;
    FREED double *wanted = need(n, sizeof *wanted);
    for (size_t i = 0; i < n; i++) {
        wanted[i] = beta * (double)p.c[i];
        p.c[i] = beta == 0 ? (sl_real)NAN : p.c[i];
        for (uint32_t l = 0; l < p.k; l++) {
            wanted[i] += (double)at(&p.a, (uint32_t)(i / p.n), l) * (double)at(&p.b, l, (uint32_t)(i % p.n));
        }
    }
    assert_int_equal(compute(&p), SL_OK);
    /* Each of k additions may lose half an epsilon of a sum that is about sqrt(k) / 3. */
    expect_rows("C", n, p.c, wanted, EPSILON * (p.k + 8.0));
    drop(&p);
}

TEST(test_product)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (int ops = 0; ops < 4; ops++) {
            check(shapes[s], ops, 0);
            check(shapes[s], ops, 1);
        }
    }
}

/* Of this process, helpers of libraries included. */
static int n_threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        n += entry->d_name[0] != '.';
    }
    closedir(tasks);
    return n;
}

static void *compute_all(void *argument)
{
    (void)argument;
    for (int ops = 0; ops < 4; ops++) {
        struct product p = make((const uint32_t[]){2048, 128, 128}, ops, 0);
        assert_int_equal(compute(&p), SL_OK);
        drop(&p);
    }
    return NULL;
}

/* On the thread that set up and on a new one, which has OpenMP's settings from the environment: see main. Teams of
 * threads stay once they are started. */
TEST(test_one_thread)
{
    pthread_t thread;
    assert_string_equal(getenv("OMP_NUM_THREADS"), "3");
    int before = n_threads();
    compute_all(NULL);
    assert_int_equal(n_threads(), before);
    assert_int_equal(pthread_create(&thread, NULL, compute_all, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(n_threads(), before);
}

/* Whatever the memory that the factors and the result are in. */
TEST(test_same_bits)
{
    for (int ops = 0; ops < 4; ops++) {
        for (uint32_t shift = 1; shift <= 16; shift *= 4) {
            struct product p = make((const uint32_t[]){1111, 96, 100}, ops, 1);
            size_t n_a = (size_t)p.m * p.k;
            size_t n_c = (size_t)p.m * p.n;
            FREED sl_real *a = need(n_a + shift, sizeof *a);
            FREED sl_real *c = need(n_c + shift, sizeof *c);
            struct product moved = p;
            memcpy(a + shift, p.a.entries, n_a * sizeof *a);
            memcpy(c + shift, p.c, n_c * sizeof *c);
            moved.a.entries = a + shift;
            moved.c = c + shift;
            assert_int_equal(compute(&p), SL_OK);
            assert_int_equal(compute(&moved), SL_OK);
            expect_same("C", n_c, sizeof *c, moved.c, p.c);
            drop(&p);
        }
    }
}

#define MOST_ROWS 200

/* n and k of products of rows: vectors in part, several tiles, several stretches of k, several copies of B. */
static const uint32_t widths[][2] = {{1, 1},   {1, 50},   {3, 602},  {7, 16},  {8, 8},    {16, 17},  {40, 128},
                                     {47, 31}, {64, 256}, {65, 257}, {97, 96}, {100, 40}, {513, 33}, {1030, 300}};
#define N_WIDTHS (sizeof widths / sizeof widths[0])

/* Row `from` and the m - 1 rows after it. */
static struct product rows_of(const struct product *all, uint32_t from, uint32_t m, sl_real *c)
{
    struct product some = *all;
    some.m = m;
    some.a.entries = (const sl_real *)some.a.entries + (size_t)from * all->k;
    some.c = memcpy(c, all->c + (size_t)from * all->n, (size_t)m * all->n * sizeof *c);
    return some;
}

static enum sl_status by_kernel(const struct sl_rowwise_kernel *kernel, const struct product *p)
{
    const struct sl_rowwise_product product = {
        p->m,    p->n, p->k, p->a.entries, p->b.entries, p->a.n_columns, p->b.n_columns, p->b.is_transposed,
        p->beta, p->c};
    return kernel == NULL ? compute(p) : sl_rowwise_multiply(kernel, &product);
}

/* Each number of rows once, from many places: the bits of each row are those of a product of MOST_ROWS rows. */
static void check_rows(const struct sl_rowwise_kernel *kernel, const uint32_t width[2], int b_is_transposed, int beta)
{
    struct product all = make((const uint32_t[]){MOST_ROWS, width[0], width[1]}, 2 * b_is_transposed, beta);
    const struct product before = make((const uint32_t[]){MOST_ROWS, width[0], width[1]}, 2 * b_is_transposed, beta);
    FREED sl_real *room = need((size_t)MOST_ROWS * all.n, sizeof *room);
    assert_int_equal(by_kernel(kernel, &all), SL_OK);
    for (uint32_t m = 1; m < MOST_ROWS; m += 1 + m / 20) {
        const uint32_t from = 37 * m % (MOST_ROWS - m);
        struct product some = rows_of(&before, from, m, room);
        assert_int_equal(by_kernel(kernel, &some), SL_OK);
        expect_same("C", (size_t)m * all.n, sizeof *room, some.c, all.c + (size_t)from * all.n);
    }
    drop(&all);
    drop((struct product *)(uintptr_t)&before);
}

TEST(test_rows_alone)
{
    for (size_t w = 0; w < N_WIDTHS; w++) {
        for (int i = 0; i < 4; i++) {
            check_rows(NULL, widths[w], i & 1, i >> 1);
            for (uint32_t k = 0; sl_rowwise_kernel(k) != NULL; k++) {
                check_rows(sl_rowwise_kernel(k), widths[w], i & 1, i >> 1);
            }
        }
    }
}

/* Scores of some candidates are those of all: columns of C that come from rows of a transposed B. */
TEST(test_columns_alone)
{
    struct product all = make((const uint32_t[]){5, 1000, 70}, 2, 0);
    FREED sl_real *room = need((size_t)all.m * all.n, sizeof *room);
    assert_int_equal(compute(&all), SL_OK);
    for (uint32_t n = 1; n < all.n; n += 1 + n / 10) {
        struct product some = all;
        const uint32_t from = 101 * n % (all.n - n);
        some.n = n;
        some.b.entries = (const sl_real *)some.b.entries + (size_t)from * all.k;
        some.c = room;
        assert_int_equal(compute(&some), SL_OK);
        for (uint32_t i = 0; i < all.m; i++) {
            expect_same("C", n, sizeof *room, some.c + (size_t)i * n, all.c + (size_t)i * all.n + from);
        }
    }
    drop(&all);
}

/* The kernels with fused multiply-adds give the same bits. All kernels agree. */
TEST(test_kernels)
{
    assert_null(sl_rowwise_kernel(3));
    for (size_t w = 0; w < N_WIDTHS; w++) {
        struct product p = make((const uint32_t[]){41, widths[w][0], widths[w][1]}, 0, 0);
        const size_t n = (size_t)p.m * p.n;
        FREED sl_real *first = need(n, sizeof *first);
        assert_int_equal(by_kernel(sl_rowwise_kernel(0), &p), SL_OK);
        memcpy(first, p.c, n * sizeof *first);
        for (uint32_t k = 1; sl_rowwise_kernel(k) != NULL; k++) {
            assert_int_equal(by_kernel(sl_rowwise_kernel(k), &p), SL_OK);
            if (sl_rowwise_kernel(k + 1) != NULL) {
                expect_same("C", n, sizeof *first, p.c, first);
            }
            for (size_t i = 0; i < n; i++) {
                expect_near_at("C", i, (double)p.c[i], (double)first[i], 1e-5);
            }
        }
        drop(&p);
    }
}

static sl_bf16 *rounded(size_t n, const sl_real *from)
{
    sl_bf16 *to = need(n, sizeof *to);
    sl_bf16_round(n, from, to);
    return to;
}

static void check_bf16_rows(const uint32_t width[2], int b_is_transposed, int beta)
{
    const struct product p = make((const uint32_t[]){MOST_ROWS, width[0], width[1]}, 2 * b_is_transposed, beta);
    const size_t n = (size_t)p.m * p.n;
    FREED sl_bf16 *a = rounded((size_t)p.m * p.k, p.a.entries);
    FREED sl_bf16 *b = rounded((size_t)p.k * p.n, p.b.entries);
    FREED sl_real *all = memcpy(need(n, sizeof *all), p.c, n * sizeof *all);
    FREED sl_real *room = need(n, sizeof *room);
    const struct sl_factor weights = {b, p.b.n_columns, b_is_transposed, true};
    assert_int_equal(sl_gemm_bf16(p.m, p.n, p.k, (struct sl_factor){a, p.k, 0, true}, weights, beta, all), SL_OK);
    for (uint32_t m = 1; m < MOST_ROWS; m += 1 + m / 20) {
        const uint32_t from = 37 * m % (MOST_ROWS - m);
        const struct sl_factor rows = {a + (size_t)from * p.k, p.k, 0, true};
        memcpy(room, p.c + (size_t)from * p.n, (size_t)m * p.n * sizeof *room);
        assert_int_equal(sl_gemm_bf16(m, p.n, p.k, rows, weights, beta, room), SL_OK);
        expect_same("C", (size_t)m * p.n, sizeof *room, room, all + (size_t)from * p.n);
    }
    drop((struct product *)(uintptr_t)&p);
}

TEST(test_bf16_rows_alone)
{
    for (size_t w = 0; w < N_WIDTHS; w++) {
        for (int i = 0; i < 4; i++) {
            check_bf16_rows(widths[w], i & 1, i >> 1);
        }
    }
}

#if defined(SL_DNNL) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* In a process that may have no more memory than it has used up: 0 where the product says so. */
static int starve(struct product *p)
{
    const struct rlimit none = {1, 1};
    void *volatile rest;
    if (setrlimit(RLIMIT_AS, &none) != 0) {
        return 77;
    }
    do {
        rest = malloc(4096);
    } while (rest != NULL);
    return compute(p) == SL_ENOMEM && strstr(sl_message(), "[4000 x 1000] and [1000 x 1000]") != NULL ? 0 : 1;
}

TEST(test_no_memory)
{
    struct product p = make((const uint32_t[]){4000, 1000, 1000}, 1, 0); /* as of weights */
    int status;
    compute_all(NULL); /* its kernels are there */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(starve(&p));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    drop(&p);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}
#else
TEST(test_no_memory)
{
    skip(); /* OpenBLAS has its memory from the start, and sanitizers need some of their own */
}
#endif

TEST(test_describe)
{
    char text[256];
    sl_gemm_describe(text, sizeof text);
    assert_non_null(strstr(text, "rows by "));
    assert_non_null(strstr(text, "OpenBLAS"));
    assert_non_null(strstr(text, "; bf16 "));
#ifdef SL_DNNL
    assert_non_null(strstr(text, "oneDNN"));
#endif
    assert_null(strchr(text, '\n'));
}

/* Libraries read the environment before main: it starts itself again with more threads allowed than a product may
 * have. */
int main(int argc, char **argv)
{
    (void)argc;
    if (getenv("SL_TEST_AGAIN") == NULL) {
        setenv("SL_TEST_AGAIN", "1", 1);
        setenv("OMP_NUM_THREADS", "3", 1);
        setenv("OPENBLAS_NUM_THREADS", "3", 1);
        execv("/proc/self/exe", argv);
        return 99;
    }
    sl_gemm_setup();
    return run_listed_tests(NULL, NULL);
}
