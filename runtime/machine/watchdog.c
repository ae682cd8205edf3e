/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Counters are compared a few times a second. */
#include "runtime/machine/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <starpu.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "runtime/starling.h"
#include "support/clock.h"
#include "support/decimal.h"
#include "tasks/ranks.h"

#define LOOK_NS 200000000
#define SECONDS_AFTER_SIGTERM 8

static struct {
    bool started;
    pthread_t thread;
    uint32_t seconds;
    bool in_step; /* ranks wait for each other in each step */
    const struct sl_run *run;
    void (*lost)(void);
    atomic_bool ends, rests;
} watch;

/* Counters of progress. */
struct signs {
    int n_submitted, n_ready; /* unfinished tasks; ready tasks */
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

static bool waits_for_nothing(const struct signs *now)
{
    return atomic_load(&watch.rests) || (sl_n_ranks() == 1 && now->n_submitted == 0);
}

/* A launcher sends SIGTERM when another rank has died. A rank without a running task then waits in vain. */
static bool waits_in_vain(void)
{
    char at_work[600];
    return watch.in_step && sl_n_ranks() > 1 && sl_signals_seen() == SIGTERM && watch.seconds > SECONDS_AFTER_SIGTERM &&
           !sl_run_at_work(watch.run, at_work, sizeof at_work);
}

static void tell(uint32_t seconds)
{
    char at_work[600];
    if (!sl_run_at_work(watch.run, at_work, sizeof at_work)) {
        snprintf(at_work, sizeof at_work, "no worker is at a task%s",
                 sl_n_ranks() > 1 ? ": another rank has stopped, or its messages do not get here" : "");
    }
    sl_fail(SL_EIO, "no task has ended%s for %u s%s: %s; --watchdog sets how long to wait",
            sl_n_ranks() > 1 ? " and no message has come" : "", seconds,
            seconds < watch.seconds ? " after SIGTERM" : "", at_work);
}

static void *guard(void *unused)
{
    SL_IN_C_LOCALE;
    struct signs last = look();
    double last_s = sl_clock_s();
    double vain_s = last_s; /* start of the wait without progress */
    (void)unused;
    while (!atomic_load(&watch.ends)) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        struct signs now = look();
        double now_s = sl_clock_s();
        if (moved(&last, &now) || waits_for_nothing(&now)) {
            last = now;
            last_s = vain_s = now_s;
        }
        vain_s = waits_in_vain() ? vain_s : now_s;
        if (now_s - last_s > watch.seconds || now_s - vain_s > SECONDS_AFTER_SIGTERM) {
            tell(now_s - last_s > watch.seconds ? watch.seconds : SECONDS_AFTER_SIGTERM);
            watch.lost();
            break;
        }
    }
    return NULL;
}

enum sl_status sl_watchdog_start(uint32_t seconds, bool in_step, const struct sl_run *run, void (*lost)(void))
{
    watch.seconds = seconds;
    watch.in_step = in_step;
    watch.run = run;
    watch.lost = lost;
    atomic_store(&watch.ends, false);
    atomic_store(&watch.rests, false);
    watch.started = pthread_create(&watch.thread, NULL, guard, NULL) == 0;
    SL_FAIL_IF(!watch.started, SL_ENOMEM, "the system gives no thread for --watchdog");
    return SL_OK;
}

void sl_watchdog_suspend(bool rests)
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
