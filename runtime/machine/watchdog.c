/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers that move, looked at a few times a second. */
#include "runtime/machine/watchdog.h"

#include <pthread.h>
#include <starpu.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "codelets/ranks.h"
#include "runtime/starling.h"
#include "support/clock.h"

#define LOOK_NS 200000000
#define SECONDS_AFTER_A_SIGNAL 5

static struct {
    bool started;
    pthread_t thread;
    uint32_t seconds;
    const struct sl_run *run;
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

static bool waits_for_nothing(const struct signs *now)
{
    return atomic_load(&watch.rests) || (sl_n_ranks() == 1 && now->n_submitted == 0);
}

/* A signal may be a launcher's, as another rank has died: then a rank whose workers are at nothing waits in vain. */
static uint32_t patience(void)
{
    char at_work[600];
    bool soon = sl_n_ranks() > 1 && sl_signals_seen() != 0 && watch.seconds > SECONDS_AFTER_A_SIGNAL &&
                !sl_run_at_work(watch.run, at_work, sizeof at_work);
    return soon ? SECONDS_AFTER_A_SIGNAL : watch.seconds;
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
            seconds < watch.seconds ? " since a signal came" : "", at_work);
}

static void *guard(void *unused)
{
    struct signs last = look();
    double last_s = sl_clock_s();
    (void)unused;
    while (!atomic_load(&watch.ends)) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        struct signs now = look();
        if (moved(&last, &now) || waits_for_nothing(&now)) {
            last = now;
            last_s = sl_clock_s();
        } else if (sl_clock_s() - last_s > patience()) {
            tell(patience());
            watch.lost();
            break;
        }
    }
    return NULL;
}

enum sl_status sl_watchdog_start(uint32_t seconds, const struct sl_run *run, void (*lost)(void))
{
    watch.seconds = seconds;
    watch.run = run;
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
