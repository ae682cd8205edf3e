/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The threads of a block as coroutines. A barrier of a block or of a warp is passed when all of its threads that still run have
 * come to it; a thread that has returned waits nowhere. */
#include <ucontext.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "tests/cuda_on_cpu/cuda_runtime.h"
#include "tests/cuda_on_cpu/cusparse.h"

unsigned sl_emulated_products;

thread_local uint3 threadIdx, blockIdx;
thread_local dim3 blockDim, gridDim;

namespace
{

enum { WARP = 32, STACK_BYTES = 256 * 1024 };
enum class State { runs, waits_for_block, waits_for_warp, done };

struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    State state;
    uint64_t given; /* to a shuffle */
};

/* What one worker of StarPU emulates with; kept from kernel to kernel. */
struct Block {
    std::vector<Thread> threads;
    ucontext_t scheduler;
    unsigned n, current;
    void (*body)(void *);
    void *what;
};

thread_local Block block;

void run_thread()
{
    block.body(block.what);
    block.threads[block.current].state = State::done;
    swapcontext(&block.threads[block.current].context, &block.scheduler);
}

void start_thread(Thread *thread)
{
    if (thread->stack == nullptr) {
        thread->stack.reset(new char[STACK_BYTES]);
    }
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack.get();
    thread->context.uc_stack.ss_size = STACK_BYTES;
    thread->context.uc_link = nullptr;
    thread->state = State::runs;
    makecontext(&thread->context, run_thread, 0);
}

void wait(State state)
{
    unsigned self = block.current;
    block.threads[self].state = state;
    swapcontext(&block.threads[self].context, &block.scheduler);
    threadIdx.x = self;
}

/* Let the threads begin .. end - 1 go on if none of them runs and all that are not done wait for `state`. */
bool release(unsigned begin, unsigned end, State state)
{
    bool any = false;
    for (unsigned t = begin; t < end; t++) {
        if (block.threads[t].state != state && block.threads[t].state != State::done) {
            return false;
        }
        any = any || block.threads[t].state == state;
    }
    for (unsigned t = begin; any && t < end; t++) {
        if (block.threads[t].state == state) {
            block.threads[t].state = State::runs;
        }
    }
    return any;
}

bool release_some()
{
    bool any = release(0, block.n, State::waits_for_block);
    for (unsigned w = 0; w < block.n; w += WARP) {
        any |= release(w, w + WARP < block.n ? w + WARP : block.n, State::waits_for_warp);
    }
    return any;
}

void run_block()
{
    for (unsigned t = 0; t < block.n; t++) {
        start_thread(&block.threads[t]);
    }
    do {
        for (unsigned t = 0; t < block.n; t++) {
            if (block.threads[t].state == State::runs) {
                block.current = t;
                threadIdx = {t, 0, 0};
                swapcontext(&block.scheduler, &block.threads[t].context);
            }
        }
    } while (release_some());
    for (unsigned t = 0; t < block.n; t++) {
        if (block.threads[t].state != State::done) {
            fprintf(stderr, "a kernel hangs: thread %u of block %u waits for one that has gone another way\n", t,
                    blockIdx.x);
            abort();
        }
    }
}

} // namespace

void __syncthreads()
{
    wait(State::waits_for_block);
}

int __syncthreads_or(int predicate)
{
    block.threads[block.current].given = predicate != 0;
    wait(State::waits_for_block);
    int any = 0;
    for (unsigned t = 0; t < block.n; t++) {
        any |= (int)block.threads[t].given;
    }
    wait(State::waits_for_block); /* none may give its next before all have seen these */
    return any;
}

void __syncwarp(unsigned mask)
{
    (void)mask;
    wait(State::waits_for_warp);
}

uint64_t sl_emulate_shuffle(uint64_t bits, int from)
{
    unsigned warp = block.current / WARP * WARP;
    block.threads[block.current].given = bits;
    wait(State::waits_for_warp);
    uint64_t result = block.threads[warp + (unsigned)from].given;
    wait(State::waits_for_warp); /* none may give its next before all have taken this one */
    return result;
}

unsigned __ballot_sync(unsigned mask, int flag)
{
    unsigned warp = block.current / WARP * WARP;
    unsigned flags = 0;
    block.threads[block.current].given = flag != 0;
    wait(State::waits_for_warp);
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (mask != 0xffffffffu || warp + lane >= block.n || block.threads[warp + lane].state == State::done) {
            fprintf(stderr, "a kernel's ballot wants all lanes, but lane %u of block %u has gone\n", lane, blockIdx.x);
            abort();
        }
        flags |= (unsigned)block.threads[warp + lane].given << lane;
    }
    wait(State::waits_for_warp);
    return flags;
}

void sl_emulate_grid(dim3 grid, dim3 size, void (*thread)(void *), void *what)
{
    if (block.threads.size() < size.x) {
        block.threads = std::vector<Thread>(size.x);
    }
    block.n = size.x;
    block.body = thread;
    block.what = what;
    blockDim = size;
    gridDim = grid;
    for (unsigned i = grid.x; i-- > 0;) {
        blockIdx = {i, 0, 0};
        run_block();
    }
}
