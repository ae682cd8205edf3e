/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checked memory: sizes cannot overflow, failures become a status, and tests can limit the number of allocations.
 *
 * The library allocates here, on error paths too, so a test can make the n-th allocation fail and count the leaked
 * blocks. Exceptions: memory that StarPU or the C library allocates or frees, and compute buffers
 * (runtime/machine/pool.h).
 */
#ifndef SL_SUPPORT_MEMORY_H
#define SL_SUPPORT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/status.h"

/* A block of at least this size is aligned to pages and shares no page with another block, so that it can be locked
 * in memory (pinned) alone. */
#define SL_OWN_PAGES_BYTES ((size_t)1 << 20)

/* Allocate `count` elements of `size` bytes, aligned to 64 bytes, not cleared. On success *out is not NULL, even if
 * count is 0.
 * name: names the block in the error message ("graph offsets").
 * SL_ENOMEM: the product overflows, or there is not enough memory; *out is unchanged. */
enum sl_status sl_alloc(size_t count, size_t size, const char *name, void *out);

/* The same, cleared to zero. Untouched pages of a large block take no memory. */
enum sl_status sl_alloc_zero(size_t count, size_t size, const char *name, void *out);

/* Resize *block (from sl_alloc, or NULL) to `count` elements. The contents are kept up to the smaller size.
 * SL_ENOMEM: *block is unchanged. */
enum sl_status sl_realloc(void *block, size_t count, size_t size, const char *name);

/* From now on refuse a block if it and the memory in use exceed `bytes`: SL_ENOMEM with both figures, who has reserved
 * most, and the advice, a literal. Without a limit the system may hand out the block and kill the process later.
 * UINT64_MAX, the default: no limit. Blocks of sl_alloc_zero are exempt, because their pages may stay untouched. */
void sl_memory_limit(uint64_t bytes, const char *advice);

/* Before a block is refused, make_room may give unused memory back to the system. NULL, the default: nothing does. */
void sl_memory_on_shortage(void (*make_room)(void));

/* Check the limit for memory that others allocate, or for several blocks before the first of them. The system is asked
 * once in some MB. SL_ENOMEM. */
enum sl_status sl_memory_check(uint64_t bytes, const char *name);

/* Who has reserved memory: blocks of SL_OWN_PAGES_BYTES and more count by their names, with their untouched pages.
 * Count more, or less, of other memory. name: a literal. Thread safe. */
void sl_memory_hold(const char *name, uint64_t bytes);
void sl_memory_release(const char *name, uint64_t bytes);

/* List those who have most: "features 1.20 GB, graph edges 0.80 GB". at_peak: when all together had most, else now.
 * Empty: nobody has much. Thread safe. */
#define SL_HOLDERS_BYTES 256
void sl_memory_list(bool at_peak, char out[SL_HOLDERS_BYTES]);

/* Copy a string. Release the copy with sl_free. SL_ENOMEM. */
enum sl_status sl_strdup(const char *text, char **out);

/* Release a block; NULL is allowed. */
void sl_free(void *block);

/* Before a variable's declaration: at the end of its scope it is released by release(&variable), in the reverse order
 * of declarations. SL_FREED: a pointer, by sl_free. Initialise the variable. */
#define SL_OWNED(release) __attribute__((cleanup(release)))
#define SL_FREED SL_OWNED(sl_free_it)
static inline void sl_free_it(void *pointer)
{
    sl_free(*(void *const *)pointer);
}

/* The value of a variable, which becomes empty: such a variable then releases nothing. */
#define SL_TAKE(variable)                                                                                              \
    ({                                                                                                                 \
        const __typeof__(variable) sl_taken = (variable);                                                              \
        (variable) = (__typeof__(variable)){0};                                                                        \
        sl_taken;                                                                                                      \
    })

/* For tests: let the next `allow` allocations succeed and all later allocations fail. Negative, the default: no
 * limit. */
void sl_memory_ration(long allow);

/* For tests: the number of blocks that are allocated and not yet released. */
long sl_memory_live(void);

#endif
