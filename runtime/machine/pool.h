/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Memory of compute buffers on runs without GPUs: StarPU's own allocation cache keeps no unpinned memory, so every buffer would
 * be mapped, faulted and unmapped anew. These hooks give StarPU blocks of size classes (an eighth of a power of two) from free
 * lists, which are kept until the end.
 *
 * One pool in a process, as StarPU is one. All functions but the hooks: when no task runs.
 */
#ifndef SL_RUNTIME_MACHINE_POOL_H
#define SL_RUNTIME_MACHINE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/failure.h"

/* Hand the pool to StarPU; before starpu_init. */
void sl_pool_install(void);

/* Give all blocks back to the system and StarPU its own allocation; after starpu_shutdown. */
void sl_pool_remove(void);

/* Where there is no memory for a buffer, StarPU would ask for it again and again, for ever. From here on that is reported as the run's
 * failure, and the buffer gets an address where nothing may be written: its tasks see the failure and leave it alone, and so must the
 * host, which looks at the failure after it has acquired a buffer and before it reads or writes it. `failure` outlives the pool;
 * NULL, at first: no memory is what StarPU is told, as it has to be where it copies buffers itself, to other memory or other ranks.
 * When no task runs. */
void sl_pool_report(struct sl_failure *failure);

/* Put as many blocks in reserve as were taken since the last time, each a class above: steps differ in size, and so do the moments
 * in which buffers are alive together, but not by that much. A block that is never used costs address space and a page, and is
 * taken last, so that memory which is there serves first; where even address space is short, there is no reserve. When no task
 * runs, after an epoch. */
void sl_pool_reserve(void);

/* Whether blocks are lent to sizes near theirs alone, large ones with a quarter wasted at the most instead of half, and none lie side by
 * side in huge pages: for runs whose steps take blocks of the same sizes, again and again. When no task runs; false at first. */
void sl_pool_borrow_near_only(bool near);

/* Whether free blocks are kept with their memory, as at first. If not, the pages of a block go back to the system as soon as it is free,
 * but for those in huge pages beside others, and no further blocks come to lie there: for what has much memory for a moment, and another
 * much of other sizes in the next. Thread safe. */
void sl_pool_keep(bool keep);

/* The smallest block. */
#define SL_POOL_SMALLEST_BYTES ((size_t)16 << 10)

/* Free blocks that sl_pool_trim leaves alone, bytes; a reserve that was never used does not count. With several ranks, which are there
 * to hold little each, none. */
#define SL_POOL_KEPT_BYTES ((uint64_t)1 << 30)

/* Between training and evaluation, whose blocks have other sizes: give the free blocks back to the system where they are more than
 * these, so that the run holds the larger of the two needs, not their sum. Below that they are kept, since blocks fresh from the system
 * cost time. Thread safe. */
void sl_pool_trim(void);

/* What the allocator keeps of memory that was freed goes back to the system: after what took much and is done with. Thread safe. */
void sl_pool_purge(void);

/* ---- classes, for estimates ---- */

#define SL_POOL_CLASSES 512

/* The class of the blocks that so many bytes are given, and those blocks' size. */
unsigned sl_pool_class(size_t bytes, size_t *block_bytes_out);

/* The largest class of a free block that may serve where one of `class` is wanted, and near it alone or not (sl_pool_borrow_near_only). */
unsigned sl_pool_largest(unsigned class, bool near);

/* Blocks taken from the system so far: does not grow in a steady state. Thread safe. */
uint64_t sl_pool_blocks(void);

/* Bytes the pool holds: of those blocks, less those that were given back; not those of which the pages alone were, as they lie in huge
 * pages beside blocks in use. Thread safe. */
uint64_t sl_pool_bytes(void);

#endif
