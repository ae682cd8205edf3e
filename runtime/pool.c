/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Free lists by size class; a free block holds the link to the next. */
#include "runtime/pool.h"

#include <errno.h>
#include <pthread.h>
#include <starpu.h>
#include <stdlib.h>
#include <sys/mman.h>

#define N_CLASSES 512
#define LINE_BYTES 64
#define HUGE_PAGE (2u << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *free_lists[N_CLASSES];
static uint64_t n_blocks;
static uint64_t n_bytes;

/* The class of a size and its blocks' size: eight steps to a power of two. */
static unsigned size_class(size_t bytes, size_t *rounded)
{
    size_t n = bytes < LINE_BYTES ? LINE_BYTES : bytes;
    unsigned power = 63 - (unsigned)__builtin_clzll(n);
    size_t step = (size_t)1 << (power - 3);
    *rounded = (n + step - 1) / step * step;
    power = 63 - (unsigned)__builtin_clzll(*rounded);
    return power * 8 + (unsigned)((*rounded >> (power - 3)) & 7);
}

static void *fresh_block(size_t bytes)
{
    void *block = NULL;
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : LINE_BYTES;
    if (posix_memalign(&block, align, bytes) != 0) {
        return NULL;
    }
    if (bytes >= HUGE_PAGE) {
        madvise(block, bytes, MADV_HUGEPAGE);
    }
    return block;
}

static __attribute__((unused)) int pool_malloc(unsigned node, void **out, size_t bytes, int flags)
{
    size_t rounded;
    unsigned class = size_class(bytes, &rounded);
    (void)node;
    (void)flags;
    pthread_mutex_lock(&lock);
    void *block = free_lists[class];
    if (block != NULL) {
        free_lists[class] = *(void **)block;
    } else {
        n_blocks++;
        n_bytes += rounded;
    }
    pthread_mutex_unlock(&lock);
    if (block == NULL) {
        block = fresh_block(rounded);
    }
    *out = block;
    return block == NULL ? -ENOMEM : 0;
}

static __attribute__((unused)) int pool_free(unsigned node, void *block, size_t bytes, int flags)
{
    size_t rounded;
    unsigned class = size_class(bytes, &rounded);
    (void)node;
    (void)flags;
    pthread_mutex_lock(&lock);
    *(void **)block = free_lists[class];
    free_lists[class] = block;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int system_malloc(unsigned node, void **out, size_t bytes, int flags)
{
    (void)node;
    (void)flags;
    *out = malloc(bytes);
    return *out == NULL ? -ENOMEM : 0;
}

static int system_free(unsigned node, void *block, size_t bytes, int flags)
{
    (void)node;
    (void)bytes;
    (void)flags;
    free(block);
    return 0;
}

void sl_pool_install(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    starpu_malloc_set_hooks(system_malloc, system_free); /* a pool would hide what runs over a block's end */
#else
    starpu_malloc_set_hooks(pool_malloc, pool_free);
#endif
}

void sl_pool_remove(void)
{
    starpu_malloc_set_hooks(system_malloc, system_free);
    for (unsigned c = 0; c < N_CLASSES; c++) {
        while (free_lists[c] != NULL) {
            void *block = free_lists[c];
            free_lists[c] = *(void **)block;
            free(block);
        }
    }
    n_blocks = 0;
    n_bytes = 0;
}

uint64_t sl_pool_blocks(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = n_blocks;
    pthread_mutex_unlock(&lock);
    return n;
}

uint64_t sl_pool_bytes(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = n_bytes;
    pthread_mutex_unlock(&lock);
    return n;
}
