/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The threads of a block as coroutines. A barrier of a block or of a warp is passed when all of its threads that
 * still run have come to it; a thread that has returned waits nowhere. */
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include <cstdio>
#include <memory>
#include <vector>

#include "tests/simgpu/cuda_runtime.h"
#include "tests/simgpu/cusparse.h"

unsigned sl_emulated_products;

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace
{

enum { WARP = 32, STACK_BYTES = 256 * 1024 };
enum class State { runs, waits_for_block, waits_for_warp, done };

/* A coroutine, and where its stack is; the scheduler's is the calling thread's own. A jump costs no system call,
 * but begins nothing: the first time a context is set. */
struct Routine {
    ucontext_t context;
    void *jump[5];
    bool entered;
    const void *bottom;
    size_t bytes;
};

struct Thread {
    Routine routine;
    std::unique_ptr<char[]> stack;
    State state;
    uint64_t given; /* to a shuffle */
};

/* What one worker of StarPU simulates a GPU with; kept from kernel to kernel. */
struct Block {
    std::vector<Thread> threads;
    Routine scheduler;
    unsigned n, current;
    uint32_t rounds; /* what the next order is drawn from */
    void (*body)(void *);
    void *argument;
};

__thread Block *block;

/* The library's longjmp, and the compiler where it sees one or a function that it knows not to return, would have
 * the address sanitizer forget the whole stack, which takes longer than all else. */
#ifdef __clang__
__attribute__((noinline, no_sanitize_address))
#else
__attribute__((noipa, no_sanitize_address))
#endif
void jump(void **to)
{
    __builtin_longjmp(to, 1);
}

/* Go on in `to` until it, or another, comes back to `from`. */
void go_on(Routine *from, Routine *to)
{
    if (__builtin_setjmp(from->jump) != 0) {
        return;
    }
    from->entered = true;
    if (to->entered) {
        jump(to->jump);
    }
    setcontext(&to->context);
}

/* The same, telling the address sanitizer whose stack is in use. */
void change(Routine *from, Routine *to)
{
#ifdef __SANITIZE_ADDRESS__
    void *kept = nullptr;
    __sanitizer_start_switch_fiber(&kept, to->bottom, to->bytes);
    go_on(from, to);
    __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#else
    go_on(from, to);
#endif
}

/* One thread of block after block. */
void run_thread()
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &block->scheduler.bottom, &block->scheduler.bytes);
#endif
    for (;;) {
        block->body(block->argument);
        block->threads[block->current].state = State::done;
        change(&block->threads[block->current].routine, &block->scheduler);
    }
}

void start_thread(Thread *thread)
{
    Routine *routine = &thread->routine;
    thread->state = State::runs;
    if (thread->stack != nullptr) {
        return; /* it waits for its next block */
    }
    thread->stack.reset(new char[STACK_BYTES]);
    routine->bottom = thread->stack.get();
    routine->bytes = STACK_BYTES;
    getcontext(&routine->context);
    routine->context.uc_stack.ss_sp = thread->stack.get();
    routine->context.uc_stack.ss_size = STACK_BYTES;
    routine->context.uc_link = nullptr;
    makecontext(&routine->context, run_thread, 0);
}

void wait(State state)
{
    unsigned self = block->current;
    block->threads[self].state = state;
    change(&block->threads[self].routine, &block->scheduler);
    threadIdx.x = self;
}

/* Let the threads begin .. end - 1 go on if none of them runs and all that are not done wait for `state`. */
bool release(unsigned begin, unsigned end, State state)
{
    bool any = false;
    for (unsigned t = begin; t < end; t++) {
        if (block->threads[t].state != state && block->threads[t].state != State::done) {
            return false;
        }
        any = any || block->threads[t].state == state;
    }
    for (unsigned t = begin; any && t < end; t++) {
        if (block->threads[t].state == state) {
            block->threads[t].state = State::runs;
        }
    }
    return any;
}

bool release_some()
{
    bool any = release(0, block->n, State::waits_for_block);
    for (unsigned w = 0; w < block->n; w += WARP) {
        any |= release(w, w + WARP < block->n ? w + WARP : block->n, State::waits_for_warp);
    }
    return any;
}

/* Between two barriers threads go on in an order of which they can rely on nothing: from another one each time, and
 * up or down. */
class Order
{
  public:
    Order()
    {
        block->rounds = block->rounds * 1664525 + 1013904223; /* Numerical Recipes' generator */
        first_ = (block->rounds >> 8) % block->n;
        down_ = (block->rounds >> 31) != 0;
    }
    unsigned thread(unsigned i) const
    {
        return (first_ + (down_ ? block->n - i : i)) % block->n;
    }

  private:
    unsigned first_;
    bool down_;
};

void run_block()
{
    for (unsigned t = 0; t < block->n; t++) {
        start_thread(&block->threads[t]);
    }
    do {
        Order order;
        for (unsigned i = 0; i < block->n; i++) {
            unsigned t = order.thread(i);
            if (block->threads[t].state == State::runs) {
                block->current = t;
                threadIdx = {t, 0, 0};
                change(&block->scheduler, &block->threads[t].routine);
            }
        }
    } while (release_some());
    for (unsigned t = 0; t < block->n; t++) {
        if (block->threads[t].state != State::done) {
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
    block->threads[block->current].given = predicate != 0;
    wait(State::waits_for_block);
    int any = 0;
    for (unsigned t = 0; t < block->n; t++) {
        any |= (int)block->threads[t].given;
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
    unsigned warp = block->current / WARP * WARP;
    block->threads[block->current].given = bits;
    wait(State::waits_for_warp);
    uint64_t result = block->threads[warp + (unsigned)from].given;
    wait(State::waits_for_warp); /* none may give its next before all have taken this one */
    return result;
}

unsigned __ballot_sync(unsigned mask, int flag)
{
    unsigned warp = block->current / WARP * WARP;
    unsigned flags = 0;
    block->threads[block->current].given = flag != 0;
    wait(State::waits_for_warp);
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (mask != 0xffffffffu || warp + lane >= block->n || block->threads[warp + lane].state == State::done) {
            fprintf(stderr, "a kernel's ballot wants all lanes, but lane %u of block %u has gone\n", lane, blockIdx.x);
            abort();
        }
        flags |= (unsigned)block->threads[warp + lane].given << lane;
    }
    wait(State::waits_for_warp);
    return flags;
}

void sl_emulate_grid(dim3 grid, dim3 size, void (*thread)(void *), void *argument)
{
    static thread_local Block of_this_worker; /* each mention of it asks whether it is begun: one a launch */
    block = &of_this_worker;
    if (block->threads.size() < size.x) {
        block->threads = std::vector<Thread>(size.x);
    }
    block->n = size.x;
    block->body = thread;
    block->argument = argument;
    block->rounds = (grid.x * 31 + size.x) * 2654435761u; /* the same orders each time that it is launched */
    grid.x = 1 + (block->rounds >> 8) % grid.x; /* our kernels are right for any grid: fewer blocks, more rounds */
    blockDim = {size.x, size.y, size.z};
    gridDim = {grid.x, grid.y, grid.z};
    for (unsigned i = grid.x; i-- > 0;) {
        blockIdx = {i, 0, 0};
        run_block();
    }
}
