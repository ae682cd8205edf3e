/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers that move, looked at a few times a second. */
#include "runtime/machine/watchdog.h"

#include <pthread.h>
#include <starpu.h>
#include <stdatomic.h>
#include <time.h>

#include "codelets/ranks.h"
#include "support/clock.h"

#define LOOK_NS 200000000

static struct {
    bool started;
    pthread_t thread;
    uint32_t seconds;
    void (*lost)(void);
    atomic_bool ends, rests;
} watch;

/* What moves. */
struct signs {
    int n_submitted, n_ready; /* tasks that have not ended; those that could run */
    uint64_t n_messages;
};

static struct signs look(void)
{
    return (struct signs){starpu_task_nsubmitted(), starpu_task_nready(), sl_ranks_moves()};
}

static bool moved(const struct signs *before, const struct signs *now)
{
    return now->n_submitted != before->n_submitted || now->n_ready != before->n_ready ||
           now->n_messages != before->n_messages;
}

static void *guard(void *unused)
{
    struct signs last = look();
    double last_s = sl_clock_s();
    (void)unused;
    while (!atomic_load(&watch.ends)) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        struct signs now = look();
        if (moved(&last, &now) || atomic_load(&watch.rests)) {
            last = now;
            last_s = sl_clock_s();
        } else if (sl_clock_s() - last_s > watch.seconds) {
            sl_fail(SL_EIO,
                    "no task has ended and no message has come for %u s: another rank has stopped, or its messages do "
                    "not get here; --watchdog sets how long to wait",
                    watch.seconds);
            watch.lost();
            break;
        }
    }
    return NULL;
}

enum sl_status sl_watchdog_start(uint32_t seconds, void (*lost)(void))
{
    watch.seconds = seconds;
    watch.lost = lost;
    atomic_store(&watch.ends, false);
    atomic_store(&watch.rests, false);
    watch.started = pthread_create(&watch.thread, NULL, guard, NULL) == 0;
    return watch.started ? SL_OK : sl_fail(SL_ENOMEM, "the system gives no thread for --watchdog");
}

void sl_watchdog_rest(bool rests)
{
    atomic_store(&watch.rests, rests);
}

void sl_watchdog_end(void)
{
    if (watch.started) {
        atomic_store(&watch.ends, true);
        pthread_join(watch.thread, NULL);
        watch.started = false;
    }
}
