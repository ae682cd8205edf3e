/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Free lists by size class. Sizes vary from step to step, so an empty class borrows from larger classes. Each block
 * remembers its own class. A worker first takes its last freed block of a class, because its core's caches hold
 * this block.
 *
 * Blocks larger than a huge page have huge pages of their own. Smaller blocks share huge pages in arenas. Huge
 * pages save TLB misses: with small pages, copies of travelling rows above all take longer. Blocks of the reserve
 * are not in arenas: reserved blocks must use no memory before the first use. */
#include "runtime/machine/pool.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <starpu.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"

#define NEAR_CLASSES 16      /* small requests: a block of up to four times the size serves */
#define LARGE_CLASS 144      /* 256 KiB: larger requests waste less */
#define NEAR_CLASSES_LARGE 8 /* large requests: up to twice the size */
#define NEAR_CLASSES_LEAST 2 /* large requests in near-only mode: up to a quarter more (sl_pool_borrow_near_only) */
#define N_CLASSES 512
#define N_HOMES 16 /* free lists per class; more workers share lists */
#define LINE_BYTES 64
#define HUGE_PAGE (2u << 20)
#define HOLDER "compute buffers"
#define ARENA_BYTES ((size_t)16 << 20) /* address space; memory is used huge page by huge page */

/* jemalloc's function, if the program is linked with jemalloc. */
extern int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes) __attribute__((weak));

/* Huge pages, cut into blocks in sequence. */
struct arena {
    struct arena *next;
    char *memory;
    size_t used;
    uint32_t n_blocks, n_free; /* n_free: used only while blocks are released */
};

/* The header of a block, in the preceding cache line. */
struct header {
    struct header *next; /* in its free list */
    struct arena *arena; /* NULL: the block has its own memory */
    size_t bytes;        /* without the header's line */
    unsigned class;
    bool used; /* only a used block takes memory */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct header *free_lists[N_HOMES][N_CLASSES]; /* used before, by freeing worker */
static struct header *reserve_lists[N_CLASSES];       /* blocks without memory pages */
static struct arena *arenas;                          /* blocks are cut from the first */
static bool lends_near;
static bool keeps = true;
static uint64_t n_blocks;
static uint64_t n_bytes;
static uint64_t n_free_bytes;                         /* bytes on the free lists */
static uint32_t n_unmatched[N_CLASSES];               /* blocks taken since the last reserve */
static struct sl_failure *failure;                    /* NULL: StarPU is told about missing memory */
static _Alignas(LINE_BYTES) char nowhere[LINE_BYTES]; /* the address of buffers without memory */

/* The class of the block for `bytes`, and the size of such a block. Eight classes per power of two, and one class for
 * all small sizes. */
static unsigned class_of(size_t bytes, size_t *rounded)
{
    size_t n = sl_max_u64(bytes, SL_POOL_SMALLEST_BYTES);
    unsigned power = 63 - (unsigned)__builtin_clzll(n);
    size_t step = (size_t)1 << (power - 3);
    *rounded = (n + step - 1) / step * step;
    power = 63 - (unsigned)__builtin_clzll(*rounded);
    return power * 8 + (unsigned)((*rounded >> (power - 3)) & 7);
}

/* The largest class of a free block for a request of `class`. near: as after sl_pool_borrow_near_only(true). */
static unsigned largest_of(unsigned class, bool near)
{
    unsigned n_large = near ? NEAR_CLASSES_LEAST : NEAR_CLASSES_LARGE;
    return class + (class < LARGE_CLASS ? NEAR_CLASSES : n_large);
}

void sl_pool_borrow_near_only(bool near)
{
    lends_near = near;
}

void sl_pool_keep(bool keep)
{
    pthread_mutex_lock(&lock);
    keeps = keep;
    pthread_mutex_unlock(&lock);
}

/* 4096 stands for all arenas of jemalloc. */
void sl_pool_purge(void)
{
    if (mallctl != NULL) {
        mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
    } else {
        malloc_trim(0);
    }
}

static struct header *own_block(unsigned class, size_t bytes)
{
    void *header = NULL;
    size_t whole = bytes + LINE_BYTES;
    if (posix_memalign(&header, whole >= HUGE_PAGE ? HUGE_PAGE : LINE_BYTES, whole) != 0) {
        return NULL;
    }
    *(struct header *)header = (struct header){.bytes = bytes, .class = class};
    return header;
}

/* Add an arena in front of the list. The lock is held. */
static bool add_arena(void)
{
    void *memory = NULL;
    struct arena *arena = malloc(sizeof *arena);
    if (arena == NULL || posix_memalign(&memory, HUGE_PAGE, ARENA_BYTES) != 0) {
        free(arena);
        return false;
    }
    madvise(memory, ARENA_BYTES, MADV_HUGEPAGE);
    *arena = (struct arena){.next = arenas, .memory = memory};
    arenas = arena;
    return true;
}

/* Cut a block smaller than a huge page from an arena; NULL: no memory. The lock is held. */
static struct header *cut_block(unsigned class, size_t bytes)
{
    size_t whole = bytes + LINE_BYTES;
    if ((arenas == NULL || ARENA_BYTES - arenas->used < whole) && !add_arena()) {
        return NULL;
    }
    struct header *header = (struct header *)(void *)(arenas->memory + arenas->used);
    *header = (struct header){.bytes = bytes, .class = class, .arena = arenas};
    arenas->used += whole;
    arenas->n_blocks++;
    return header;
}

/* A new block for immediate use; NULL: no memory. Untouched bytes of a block take memory only inside a huge page.
 * So arenas are not used in near-only mode, nor if free blocks return their pages. The lock is held. */
static struct header *fresh_block(unsigned class, size_t bytes)
{
    bool beside = bytes + LINE_BYTES < HUGE_PAGE && !lends_near && keeps;
    struct header *header = NULL;
    if (beside) {
        header = cut_block(class, bytes);
    }
    if (header == NULL) {
        header = own_block(class, bytes);
    }
    return header;
}

/* Mark a block as used. Only used blocks may take huge pages: otherwise the header of an unused block would take a
 * whole huge page. */
static void put_to_use(struct header *header)
{
    size_t whole = header->bytes + LINE_BYTES;
    if (!header->used && whole >= HUGE_PAGE) {
        madvise(header, whole, MADV_HUGEPAGE);
    }
    if (!header->used) {
        sl_memory_hold(HOLDER, header->bytes);
    }
    header->used = true;
}

/* Its pages return to the system. */
static void out_of_use(struct header *header)
{
    if (header->used) {
        sl_memory_release(HOLDER, header->bytes);
    }
    header->used = false;
}

/* The lists of the calling thread: a worker's own, or the common one of all other threads. */
static unsigned home(void)
{
    return (unsigned)(starpu_worker_get_id() + 1) % N_HOMES;
}

static struct header *pop(struct header **list)
{
    struct header *header = *list;
    if (header != NULL) {
        *list = header->next;
    }
    return header;
}

/* Take the smallest fitting used block, the calling thread's own first; NULL: none fits. The lock is held. */
static struct header *take_used(unsigned class)
{
    const unsigned own = home();
    for (unsigned c = class; c <= largest_of(class, lends_near) && c < N_CLASSES; c++) {
        for (unsigned i = 0; i < N_HOMES; i++) {
            struct header *header = pop(&free_lists[(own + i) % N_HOMES][c]);
            if (header != NULL) {
                return header;
            }
        }
    }
    return NULL;
}

static struct header *take_reserved(unsigned class)
{
    for (unsigned c = class; c <= largest_of(class, lends_near) && c < N_CLASSES; c++) {
        struct header *header = pop(&reserve_lists[c]);
        if (header != NULL) {
            return header;
        }
    }
    return NULL;
}

/* Take a free block, from the reserve only if no other fits; NULL: none fits. The lock is held. */
static struct header *take_free(unsigned class)
{
    struct header *header = take_used(class);
    if (header == NULL) {
        return take_reserved(class);
    }
    n_free_bytes -= header->bytes;
    return header;
}

/* Count the blocks of each arena on the lists. */
static void count_free(struct header *const *lists)
{
    for (unsigned c = 0; c < N_CLASSES; c++) {
        for (const struct header *header = lists[c]; header != NULL; header = header->next) {
            if (header->arena != NULL) {
                header->arena->n_free++;
            }
        }
    }
}

/* Return a block's own pages to the system. Afterwards the block counts as never used. */
static void empty_block(struct header *header)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)header + LINE_BYTES + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)header + LINE_BYTES + header->bytes) / page * page;
    if (header->used && first < end) {
        madvise((char *)header + (first - (uintptr_t)header), end - first, MADV_DONTNEED);
    }
    out_of_use(header);
}

/* Return the blocks of these lists to the system. If an arena still has blocks in use, its free blocks return only
 * their pages and join the reserve. The lock is held. */
static void release_lists(struct header **lists)
{
    struct header *stay = NULL;
    for (unsigned c = 0; c < N_CLASSES; c++) {
        while (lists[c] != NULL) {
            struct header *header = lists[c];
            lists[c] = header->next;
            if (header->arena != NULL && header->arena->n_free < header->arena->n_blocks) {
                empty_block(header);
                header->next = stay;
                stay = header;
                continue;
            }
            n_bytes -= header->bytes;
            out_of_use(header);
            if (header->arena == NULL) {
                free(header);
            }
        }
    }
    while (stay != NULL) {
        struct header *header = stay;
        stay = header->next;
        header->next = reserve_lists[header->class];
        reserve_lists[header->class] = header;
    }
}

/* Free the arenas without blocks. The lock is held. */
static void release_arenas(void)
{
    for (struct arena **link = &arenas; *link != NULL;) {
        struct arena *arena = *link;
        if (arena->n_free == arena->n_blocks) {
            *link = arena->next;
            free(arena->memory);
            free(arena);
        } else {
            arena->n_free = 0;
            link = &arena->next;
        }
    }
}

/* Release the reserve. The lock is held. */
static void release_reserve(void)
{
    count_free(reserve_lists);
    release_lists(reserve_lists);
    release_arenas();
    sl_pool_purge();
}

/* Release all free blocks. The lock is held. */
static void release_free_blocks(void)
{
    for (unsigned h = 0; h < N_HOMES; h++) {
        count_free(free_lists[h]);
    }
    count_free(reserve_lists);
    for (unsigned h = 0; h < N_HOMES; h++) {
        release_lists(free_lists[h]);
    }
    release_lists(reserve_lists);
    release_arenas();
    n_free_bytes = 0;
    sl_pool_purge();
}

/* Take a block from the system. On failure release the free blocks of all sizes and try again. The lock is held. */
static struct header *take_fresh(unsigned class, size_t bytes)
{
    struct header *header = fresh_block(class, bytes);
    if (header == NULL) {
        release_free_blocks();
        header = fresh_block(class, bytes);
    }
    if (header != NULL) {
        n_blocks++;
        n_bytes += bytes;
        n_unmatched[class]++;
    }
    return header;
}

void sl_pool_report(struct sl_failure *to)
{
    failure = to;
}

/* The calling thread's last sl_fail says why. */
static int without_memory(void **out)
{
    if (failure == NULL) {
        return -ENOMEM;
    }
    sl_failure_set(failure, SL_ENOMEM);
    *out = nowhere;
    return 0;
}

static enum sl_status no_memory(size_t bytes)
{
    return sl_fail(
        SL_ENOMEM,
        "no memory for a buffer of %zu bytes; free some, raise 'ulimit -v', or use a smaller graph, batch or "
        "width",
        bytes);
}

/* Take a block, a used one if one is free. SL_ENOMEM: the system has none, or the limit of this process allows no more
 * memory. If StarPU would be told, which then waits forever, there is no such limit. The lock is held. */
static enum sl_status take(unsigned class, size_t bytes, struct header **out)
{
    struct header *header = take_free(class);
    enum sl_status st = SL_OK;
    if (failure != NULL && (header == NULL || !header->used)) {
        st = sl_memory_check(bytes, HOLDER);
    }
    if (st != SL_OK) {
        release_free_blocks();
        st = sl_memory_check(bytes, HOLDER);
    }
    if (st == SL_OK && header == NULL) {
        header = take_fresh(class, bytes);
        st = header != NULL ? SL_OK : no_memory(bytes);
    }
    if (st != SL_OK && header != NULL) {
        header->next = reserve_lists[header->class];
        reserve_lists[header->class] = header;
    }
    *out = header;
    return st;
}

static __attribute__((unused)) int pool_malloc(unsigned node, void **out, size_t bytes, int flags)
{
    size_t rounded;
    struct header *header;
    unsigned class = class_of(bytes, &rounded);
    (void)node;
    (void)flags;
    pthread_mutex_lock(&lock);
    enum sl_status st = take(class, rounded, &header);
    pthread_mutex_unlock(&lock);
    if (st != SL_OK) {
        return without_memory(out);
    }
    put_to_use(header);
    *out = (char *)header + LINE_BYTES;
    return 0;
}

static __attribute__((unused)) int pool_free(unsigned node, void *block, size_t bytes, int flags)
{
    struct header *header = (void *)((char *)block - LINE_BYTES);
    (void)node;
    (void)bytes;
    (void)flags;
    if (block == nowhere) {
        return 0;
    }
    pthread_mutex_lock(&lock);
    if (!keeps && header->arena == NULL) {
        empty_block(header);
        header->next = reserve_lists[header->class];
        reserve_lists[header->class] = header;
    } else {
        struct header **list = &free_lists[home()][header->class];
        header->next = *list;
        *list = header;
        n_free_bytes += header->bytes;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static __attribute__((unused)) int system_malloc(unsigned node, void **out, size_t bytes, int flags)
{
    (void)node;
    (void)flags;
    *out = malloc(bytes);
    if (*out == NULL) {
        no_memory(bytes);
        return without_memory(out);
    }
    return 0;
}

static __attribute__((unused)) int system_free(unsigned node, void *block, size_t bytes, int flags)
{
    (void)node;
    (void)bytes;
    (void)flags;
    if (block != nowhere) {
        free(block);
    }
    return 0;
}

void sl_pool_install(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    starpu_malloc_set_hooks(system_malloc, system_free); /* a pool would hide overruns of buffers */
#else
    starpu_malloc_set_hooks(pool_malloc, pool_free);
    sl_memory_on_shortage(sl_pool_release);
#endif
}

void sl_pool_remove(void)
{
    starpu_malloc_set_hooks(NULL, NULL);
    sl_memory_on_shortage(NULL);
    sl_pool_report(NULL);
    release_free_blocks();
    sl_pool_borrow_near_only(false);
    sl_pool_keep(true);
    /* Buffers never freed by StarPU (32 MB with CUDA) are leaked, with the free blocks in their arenas. */
    memset(reserve_lists, 0, sizeof reserve_lists);
    arenas = NULL;
    n_blocks = 0;
    n_bytes = 0;
    memset(n_unmatched, 0, sizeof n_unmatched);
}

void sl_pool_release(void)
{
    pthread_mutex_lock(&lock);
    release_free_blocks();
    pthread_mutex_unlock(&lock);
}

void sl_pool_trim(void)
{
    pthread_mutex_lock(&lock);
    if (n_free_bytes > (sl_n_ranks() == 1 ? SL_POOL_KEPT_BYTES : 0)) {
        release_free_blocks();
    }
    pthread_mutex_unlock(&lock);
}

/* Add a block to the reserve of a class. The lock is held. */
static bool add_block(unsigned class)
{
    size_t bytes = (size_t)(8 + class % 8) << (class / 8 - 3);
    struct header *header = own_block(class, bytes);
    if (header == NULL) {
        return false;
    }
    header->next = reserve_lists[class];
    reserve_lists[class] = header;
    n_blocks++;
    n_bytes += bytes;
    return true;
}

void sl_pool_reserve(void)
{
    bool more = true;
    pthread_mutex_lock(&lock);
    for (unsigned c = 0; more && c + 1 < N_CLASSES; c++) {
        for (; more && n_unmatched[c] > 0; n_unmatched[c]--) {
            more = add_block(c + 1);
        }
    }
    if (!more) {
        memset(n_unmatched, 0, sizeof n_unmatched);
        release_reserve();
    }
    pthread_mutex_unlock(&lock);
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
