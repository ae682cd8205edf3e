/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checked allocation. A block starts at a cache line or a page. Its header is on the preceding line or page. */
#include "support/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE_BYTES 64
#define LIMITED_BYTES ((size_t)16 << 20) /* smaller blocks are not worth a look at the system's count */
#define HUGE_PAGE ((size_t)2 << 20)

static atomic_long live;
static atomic_long ration = -1;
static _Atomic uint64_t limit = UINT64_MAX;

/* The header directly before a block: start of the system's block, and size of ours. */
struct header {
    void *start;
    size_t bytes;
};

static int rationed(void)
{
    long left = atomic_load(&ration);
    while (left >= 0) {
        if (left == 0) {
            return 1;
        }
        if (atomic_compare_exchange_weak(&ration, &left, left - 1)) {
            return 0;
        }
    }
    return 0;
}

/* Ask for huge pages, so that random access to rows causes fewer TLB misses. Best effort: a kernel may refuse. */
static void wish_huge_pages(char *start, size_t bytes)
{
    uintptr_t first = ((uintptr_t)start + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)start + bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
    if (first < end) {
        madvise((void *)first, end - first, MADV_HUGEPAGE);
    }
}

static size_t alignment_of(size_t bytes)
{
    return bytes < SL_OWN_PAGES_BYTES ? LINE_BYTES : (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes of this process in memory without a file behind them. 0: the system does not say. */
static uint64_t touched(void)
{
    unsigned long long resident = 0;
    unsigned long long shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fscanf(file, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident) {
            resident = shared = 0;
        }
        fclose(file);
    }
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

enum sl_status sl_memory_check(uint64_t bytes, const char *name)
{
    uint64_t most = atomic_load(&limit);
    if (bytes < LIMITED_BYTES || most == UINT64_MAX) {
        return SL_OK;
    }
    uint64_t used = touched();
    SL_FAIL_IF(used > most || bytes > most - used, SL_ENOMEM,
               "%s: need %.2f GB of memory beside the %.2f GB in use, and this process may use %.2f GB; use a "
               "smaller graph, batch or width, or a larger machine",
               name, (double)bytes / 1e9, (double)used / 1e9, (double)most / 1e9);
    return SL_OK;
}

static enum sl_status allocate(size_t count, size_t size, const char *name, int zero, void **out)
{
    size_t bytes;
    size_t room;
    bool fits = !__builtin_mul_overflow(count, size, &bytes);
    size_t unit = fits ? alignment_of(bytes) : 0;
    SL_FAIL_IF(!fits || __builtin_add_overflow(bytes, 3 * unit, &room), SL_ENOMEM,
               "%s: %zu elements of %zu bytes are more than this machine can address", name, count, size);
    SL_CHECK(zero ? SL_OK : sl_memory_check(bytes, name));
    char *start;
    if (rationed()) {
        start = NULL;
    } else if (zero) {
        start = calloc(1, room);
    } else {
        start = malloc(room);
    }
    SL_FAIL_IF(start == NULL, SL_ENOMEM,
               "%s: no memory for %zu bytes; free some, or use a smaller graph, batch or width", name, bytes);
    wish_huge_pages(start, bytes);
    char *block = start + (unit - (uintptr_t)start % unit) % unit + unit;
    ((struct header *)(void *)block)[-1] = (struct header){.start = start, .bytes = bytes};
    atomic_fetch_add(&live, 1);
    *out = block;
    return SL_OK;
}

enum sl_status sl_alloc(size_t count, size_t size, const char *name, void *out)
{
    return allocate(count, size, name, 0, out);
}

enum sl_status sl_alloc_zero(size_t count, size_t size, const char *name, void *out)
{
    return allocate(count, size, name, 1, out);
}

enum sl_status sl_realloc(void *block, size_t count, size_t size, const char *name)
{
    void *old = *(void **)block;
    void *fresh = NULL;
    SL_CHECK(allocate(count, size, name, 0, &fresh));
    if (old != NULL) {
        size_t had = ((struct header *)old)[-1].bytes;
        memcpy(fresh, old, had < count * size ? had : count * size);
        sl_free(old);
    }
    *(void **)block = fresh;
    return SL_OK;
}

enum sl_status sl_strdup(const char *text, char **out)
{
    size_t bytes = strlen(text) + 1;
    SL_CHECK(sl_alloc(bytes, 1, "a string", out));
    memcpy(*out, text, bytes);
    return SL_OK;
}

void sl_free(void *block)
{
    if (block != NULL) {
        free(((struct header *)block)[-1].start);
        atomic_fetch_sub(&live, 1);
    }
}

void sl_memory_limit(uint64_t bytes)
{
    atomic_store(&limit, bytes);
}

void sl_memory_ration(long allow)
{
    atomic_store(&ration, allow);
}

long sl_memory_live(void)
{
    return atomic_load(&live);
}
