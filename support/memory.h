/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checked memory: sizes that cannot overflow, failures that become a status, and a count that tests can ration.
 *
 * Blocks that a whole run keeps (graphs, tables) and blocks of an error path alike come from here, so that a test can make the
 * n-th allocation fail and count what is left afterwards. Rows of compute buffers belong to StarPU, not here.
 */
#ifndef SL_SUPPORT_MEMORY_H
#define SL_SUPPORT_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "support/status.h"

/* From this size on, bytes, a block is aligned to the machine's pages and shares none of them with another block, so that it can
 * be locked in memory (pinned) by itself. */
#define SL_OWN_PAGES_BYTES ((size_t)1 << 20)

/* Allocate `count` elements of `size` bytes, aligned to 64 bytes, not cleared; *out is never NULL on success, also for a count
 * of 0. `what` names the block in the message ("graph offsets").
 * SL_ENOMEM: the product overflows or the memory is not there; *out is untouched. */
enum sl_status sl_alloc(size_t count, size_t size, const char *what, void *out);

/* The same, cleared to zero; pages not touched cost nothing where the block is large. */
enum sl_status sl_alloc_zero(size_t count, size_t size, const char *what, void *out);

/* Change *block (from sl_alloc, or NULL) to `count` elements, keeping its contents up to the smaller size.
 * On failure *block is as it was. */
enum sl_status sl_realloc(void *block, size_t count, size_t size, const char *what);

/* From now on refuse a block that does not fit `bytes` beside the memory that this process has touched (SL_ENOMEM with both figures).
 * The system would hand the block out and end the process later. UINT64_MAX, the default: no limit. Blocks of sl_alloc_zero do not count:
 * their pages may stay untouched. */
void sl_memory_limit(uint64_t bytes);

/* Refuse what blocks of so many bytes altogether would be refused for, before the first of them. SL_ENOMEM. */
enum sl_status sl_memory_check(uint64_t bytes, const char *what);

/* A copy of a string, to be given to sl_free. */
enum sl_status sl_strdup(const char *text, char **out);

/* Release a block; NULL is allowed. */
void sl_free(void *block);

/* For tests: let the next `allow` allocations succeed and all later ones fail; negative: no limit (the start). */
void sl_memory_ration(long allow);

/* For tests: blocks allocated here and not yet released. */
long sl_memory_live(void);

#endif
