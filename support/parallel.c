/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Threads take ranges from a common counter. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* the cpuset */
#endif
#include "support/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "support/decimal.h"
#include "support/minmax.h"

#define MAX_THREADS 64

static atomic_uint thread_limit;

unsigned sl_parallel_threads(void)
{
    cpu_set_t allowed;
    unsigned n = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? (unsigned)CPU_COUNT(&allowed) : MAX_THREADS;
    unsigned limit = atomic_load(&thread_limit);
    if (limit > 0) {
        n = sl_min_u32(n, limit);
    }
    return sl_max_u32(1, sl_min_u32(n, MAX_THREADS));
}

void sl_parallel_limit(unsigned threads)
{
    atomic_store(&thread_limit, threads);
}

struct loop {
    _Atomic uint64_t next; /* first item that is not taken yet */
    uint64_t n;
    uint64_t grain;
    void (*body)(void *context, uint64_t begin, uint64_t end);
    void *context;
};

static void *work(void *argument)
{
    SL_IN_C_LOCALE;
    struct loop *loop = argument;
    for (;;) {
        uint64_t begin = atomic_fetch_add(&loop->next, loop->grain);
        if (begin >= loop->n) {
            return NULL;
        }
        uint64_t left = loop->n - begin;
        loop->body(loop->context, begin, begin + (left < loop->grain ? left : loop->grain));
    }
}

void sl_parallel_for(uint64_t n, uint64_t grain, void (*body)(void *context, uint64_t begin, uint64_t end),
                     void *context)
{
    struct loop loop = {.n = n, .grain = grain, .body = body, .context = context};
    pthread_t helpers[MAX_THREADS];
    unsigned n_helpers = 0;
    unsigned wanted = sl_parallel_threads() - 1;
    while (n_helpers < wanted && (uint64_t)(n_helpers + 1) * grain < n &&
           pthread_create(&helpers[n_helpers], NULL, work, &loop) == 0) {
        n_helpers++;
    }
    work(&loop);
    for (unsigned i = 0; i < n_helpers; i++) {
        pthread_join(helpers[i], NULL);
    }
}
