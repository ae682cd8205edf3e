/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checked allocation. A block starts at a cache line or a page. Its header is on the preceding line or page. */
#include "support/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE_BYTES 64
#define LIMITED_BYTES ((size_t)16 << 20) /* fewer new bytes are not worth a look at the system's count */
#define LISTED_BYTES 5000000             /* 0.01 GB */
#define HUGE_PAGE ((size_t)2 << 20)

static atomic_long live;
static atomic_long ration = -1;
static _Atomic uint64_t limit = UINT64_MAX;
static const char *_Atomic advice = "";
static void (*_Atomic on_shortage)(void);
static _Atomic uint64_t unchecked; /* bytes of blocks since the last look */

/* The header directly before a block: start of the system's block, size of ours, and whom a large one is counted for.
 */
struct header {
    void *start;
    size_t bytes;
    struct holder *holder;
};

/* ---- who holds how much ---- */

#define MOST_HOLDERS 96 /* names of large blocks; all further names count as "others" */
#define MOST_LISTED 4

static struct holder {
    char name[40];           /* empty: free */
    uint64_t bytes, at_peak; /* now; when all holders together had most */
} holders[MOST_HOLDERS];
static uint64_t n_held, most_held;
static pthread_mutex_t holders_lock = PTHREAD_MUTEX_INITIALIZER;

/* The lock is held. */
static struct holder *find_holder(const char *name)
{
    uint32_t i = 0;
    while (i + 1 < MOST_HOLDERS && holders[i].name[0] != '\0' &&
           strncmp(holders[i].name, name, sizeof holders[i].name - 1) != 0) {
        i++;
    }
    if (holders[i].name[0] == '\0') {
        snprintf(holders[i].name, sizeof holders[i].name, "%s", i + 1 < MOST_HOLDERS ? name : "others");
    }
    return &holders[i];
}

static struct holder *hold(const char *name, uint64_t bytes)
{
    pthread_mutex_lock(&holders_lock);
    struct holder *holder = find_holder(name);
    holder->bytes += bytes;
    n_held += bytes;
    for (uint32_t i = 0; n_held > most_held && i < MOST_HOLDERS; i++) {
        holders[i].at_peak = holders[i].bytes;
    }
    most_held = n_held > most_held ? n_held : most_held;
    pthread_mutex_unlock(&holders_lock);
    return holder;
}

static void release(struct holder *holder, uint64_t bytes)
{
    pthread_mutex_lock(&holders_lock);
    holder->bytes -= bytes;
    n_held -= bytes;
    pthread_mutex_unlock(&holders_lock);
}

void sl_memory_hold(const char *name, uint64_t bytes)
{
    hold(name, bytes);
}

void sl_memory_release(const char *name, uint64_t bytes)
{
    release(hold(name, 0), bytes);
}

static uint64_t held_by(const struct holder *holder, bool at_peak)
{
    return at_peak ? holder->at_peak : holder->bytes;
}

/* The holder with most bytes of those after `last` in descending order. NULL: there is none. */
static const struct holder *next_holder(const struct holder *last, bool at_peak)
{
    const struct holder *next = NULL;
    for (const struct holder *h = holders; h < holders + MOST_HOLDERS; h++) {
        const uint64_t bytes = held_by(h, at_peak);
        const uint64_t least = next != NULL ? held_by(next, at_peak) : 0;
        const uint64_t most = last != NULL ? held_by(last, at_peak) : UINT64_MAX;
        if (bytes > least && (bytes < most || (bytes == most && h > last))) {
            next = h;
        }
    }
    return next;
}

void sl_memory_list(bool at_peak, char out[SL_HOLDERS_BYTES])
{
    size_t used = 0;
    out[0] = '\0';
    pthread_mutex_lock(&holders_lock);
    const struct holder *h = next_holder(NULL, at_peak);
    for (int n = 0; n < MOST_LISTED && h != NULL && held_by(h, at_peak) >= LISTED_BYTES; n++) {
        used += (size_t)snprintf(out + used, SL_HOLDERS_BYTES - used, "%s%s %.2f GB", n > 0 ? ", " : "", h->name,
                                 (double)held_by(h, at_peak) / 1e9);
        h = next_holder(h, at_peak);
    }
    pthread_mutex_unlock(&holders_lock);
}

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
    uint64_t counted = bytes < LIMITED_BYTES ? bytes : LIMITED_BYTES;
    if (most == UINT64_MAX || atomic_fetch_add(&unchecked, counted) + counted < LIMITED_BYTES) {
        return SL_OK;
    }
    uint64_t used = touched();
    if (used <= most && bytes <= most - used) {
        atomic_store(&unchecked, 0);
        return SL_OK;
    }
    char list[SL_HOLDERS_BYTES];
    sl_memory_list(false, list);
    return sl_fail(SL_ENOMEM,
                   "%s: need %.2f GB of memory beside the %.2f GB in use%s%s%s, and this process may use %.2f GB; %s",
                   name, (double)bytes / 1e9, (double)used / 1e9, list[0] != '\0' ? " (reserved: " : "", list,
                   list[0] != '\0' ? ")" : "", (double)most / 1e9, atomic_load(&advice));
}

/* The same, for a block that may take the place of memory nobody uses. */
static enum sl_status check_block(uint64_t bytes, const char *name)
{
    void (*make_room)(void) = atomic_load(&on_shortage);
    enum sl_status st = sl_memory_check(bytes, name);
    if (st != SL_OK && make_room != NULL) {
        make_room();
        st = sl_memory_check(bytes, name);
    }
    return st;
}

static enum sl_status allocate(size_t count, size_t size, const char *name, int zero, void **out)
{
    size_t bytes;
    size_t room;
    bool fits = !__builtin_mul_overflow(count, size, &bytes);
    size_t unit = fits ? alignment_of(bytes) : 0;
    SL_FAIL_IF(!fits || __builtin_add_overflow(bytes, 3 * unit, &room), SL_ENOMEM,
               "%s: %zu elements of %zu bytes are more than this machine can address", name, count, size);
    SL_CHECK(zero ? SL_OK : check_block(bytes, name));
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
    struct holder *holder = bytes >= SL_OWN_PAGES_BYTES ? hold(name, bytes) : NULL;
    ((struct header *)(void *)block)[-1] = (struct header){.start = start, .bytes = bytes, .holder = holder};
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
        const struct header header = ((struct header *)block)[-1];
        if (header.holder != NULL) {
            release(header.holder, header.bytes);
        }
        free(header.start);
        atomic_fetch_sub(&live, 1);
    }
}

void sl_memory_limit(uint64_t bytes, const char *instead)
{
    atomic_store(&limit, bytes);
    atomic_store(&advice, instead);
}

void sl_memory_on_shortage(void (*make_room)(void))
{
    atomic_store(&on_shortage, make_room);
}

void sl_memory_ration(long allow)
{
    atomic_store(&ration, allow);
}

long sl_memory_live(void)
{
    return atomic_load(&live);
}
