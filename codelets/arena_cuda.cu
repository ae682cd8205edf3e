/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The working memory of threads. The variable is in one object: an inline function's would be a global symbol. */
#include "codelets/kernel.cuh"

namespace
{

/* A thread's arenas, one for each stream. A thread has no more streams than it drives GPUs, unless a test makes some:
 * the first then goes. */
struct arenas {
    struct sl_arena list[8] = {};
    uint32_t n = 0;

    ~arenas()
    {
        for (uint32_t i = 0; i < n; i++) {
            cudaFree(list[i].data);
            cudaFree(list[i].scan);
        }
    }
};

} // namespace

struct sl_arena *sl_arena_of(cudaStream_t stream)
{
    static thread_local struct arenas own;
    for (uint32_t i = 0; i < own.n; i++) {
        if (own.list[i].stream == stream) {
            return &own.list[i];
        }
    }
    struct sl_arena *arena = &own.list[0];
    if (own.n < sizeof own.list / sizeof *own.list) {
        arena = &own.list[own.n++];
    } else {
        cudaDeviceSynchronize(); /* cudaFree does not wait for memory of a pool */
        cudaFree(arena->data);
        cudaFree(arena->scan);
    }
    *arena = {};
    arena->stream = stream;
    return arena;
}
