/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Three numbers, and the time that they stand. */
#include "codelets/waits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static struct {
    atomic_uint n_workers;
    pthread_mutex_t lock; /* of the rest */
    int n[SL_WAITS_N];
    double last_s; /* up to which it is added up */
    struct sl_waits sums;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Times come from several threads, each of which has read the clock before it got the lock. */
static void add_up(double now_s)
{
    double seconds = now_s - watch.last_s;
    int n_idle = (int)atomic_load(&watch.n_workers) - watch.n[SL_WAITS_BUSY];
    if (seconds <= 0) {
        return;
    }
    if (watch.n[SL_WAITS_ON_THEIR_WAY] > 0) {
        watch.sums.message_s += seconds;
        watch.sums.hidden_s += watch.n[SL_WAITS_BUSY] > 0 ? seconds : 0;
    }
    if (watch.n[SL_WAITS_AWAITED] > 0) {
        watch.sums.waited_s += n_idle * seconds;
    }
    watch.last_s = now_s;
}

void sl_waits_open(uint32_t n_workers, double now_s)
{
    pthread_mutex_lock(&watch.lock);
    memset(watch.n, 0, sizeof watch.n);
    watch.last_s = now_s;
    watch.sums = (struct sl_waits){0};
    atomic_store(&watch.n_workers, n_workers);
    pthread_mutex_unlock(&watch.lock);
}

void sl_waits_change(enum sl_waits_of what, int by, double now_s)
{
    if (atomic_load_explicit(&watch.n_workers, memory_order_relaxed) == 0) {
        return;
    }
    pthread_mutex_lock(&watch.lock);
    add_up(now_s);
    watch.n[what] += by;
    pthread_mutex_unlock(&watch.lock);
}

void sl_waits_take(double now_s, struct sl_waits *out)
{
    pthread_mutex_lock(&watch.lock);
    add_up(now_s);
    *out = watch.sums;
    watch.sums = (struct sl_waits){0};
    pthread_mutex_unlock(&watch.lock);
}
