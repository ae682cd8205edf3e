/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Memory for compute buffers in runs without GPUs. StarPU's allocation cache keeps no unpinned memory, so the
 * system would map, fault in and unmap every buffer again. The pool's hooks give StarPU blocks from free lists instead.
 * Block sizes are classes, eight per power of two. The pool keeps its blocks until sl_pool_trim,
 * sl_pool_release or the end.
 *
 * A process has one pool, as it has one StarPU. Call its functions while no task runs, unless their comment says
 * thread safe.
 */
#ifndef SL_RUNTIME_MACHINE_POOL_H
#define SL_RUNTIME_MACHINE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/failure.h"

/* Make StarPU allocate from the pool. Before starpu_init. */
void sl_pool_install(void);

/* Return all blocks to the system, and restore StarPU's own allocation. After starpu_shutdown. */
void sl_pool_remove(void);

/* Choose how the pool reports missing memory.
 * failure: report it as the run's failure. The buffer gets an address without write access. Tasks see the failure
 * and do not touch the buffer. The host must check the failure after acquiring a buffer. `failure` outlives the
 * pool. NULL, the default: tell StarPU; StarPU then retries forever. The default is necessary if StarPU copies buffers
 * to another memory node or rank. */
void sl_pool_report(struct sl_failure *failure);

/* Fill the reserve: add as many blocks as the pool took from the system since the last call, each one class larger.
 * Sizes of steps and overlaps of buffers vary, but by less than a class. An unused block of the reserve costs
 * address space and one page. The reserve is used only if no other block fits. No reserve is kept if address space
 * is short. Call this after an epoch. */
void sl_pool_reserve(void);

/* true: a block serves only sizes near its own. Large blocks then waste at most a quarter instead of a half, and no
 * blocks share huge pages. This is for runs whose steps repeat the same block sizes. false is the default. */
void sl_pool_borrow_near_only(bool near);

/* true, the default: free blocks keep their memory. false: a free block returns its pages to the system at once,
 * unless it shares huge pages; new blocks do not share huge pages. Use false in phases that need large blocks of
 * changing sizes for a short time. Thread safe. */
void sl_pool_keep(bool keep);

/* The smallest block. */
#define SL_POOL_SMALLEST_BYTES ((size_t)16 << 10)

/* sl_pool_trim keeps free blocks up to this many bytes, with one rank. Unused blocks of the reserve do not count.
 * With several ranks it keeps no free block, because ranks serve to save memory. */
#define SL_POOL_KEPT_BYTES ((uint64_t)1 << 30)

/* Return all free blocks to the system if they have more than SL_POOL_KEPT_BYTES. Otherwise keep them, because new
 * blocks cost time. Call this between training and evaluation. The two phases use blocks of different sizes, so the run
 * then needs memory for the larger phase, not for both. Thread safe. */
void sl_pool_trim(void);

/* Return all free blocks to the system. Call this when the pool will not be used for long, or for other work to the
 * end. Thread safe. */
void sl_pool_release(void);

/* Make the C allocator return freed memory to the system. Call this after freeing much. Thread safe. */
void sl_pool_purge(void);

/* The number of blocks taken from the system so far. Constant in a steady state. Thread safe. */
uint64_t sl_pool_blocks(void);

/* The bytes of the pool's blocks, including blocks without pages. Thread safe. */
uint64_t sl_pool_bytes(void);

#endif
