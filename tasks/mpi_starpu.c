/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU with StarPU-MPI: whose thread polls for messages, and how threads wait. */
#define _GNU_SOURCE /* SCHED_BATCH */
#include <errno.h>
#include <sched.h>
#include <starpu_mpi.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "tasks/mpi.h"

/* ---- waiting ---- */

#define NAP_NS 20000
#define SLACK_NS 1000
#define PATIENCE_NS 5000000 /* time for which an idle worker keeps polling before it sleeps */

/* Linux may add 50 us to a sleep, unless the thread asks for a smaller timer slack. */
void sl_mpi_nap(void)
{
    static _Thread_local bool prompt;
    if (!prompt) {
        prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
        prompt = true;
    }
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Idle hook of StarPU: called on a worker that found no task, while other threads want its processor. A gap of more
 * than two naps between calls means that the worker has run a task. */
static unsigned idle(void *unused)
{
    static _Thread_local int64_t since_ns;
    static _Thread_local int64_t last_ns;
    int64_t ns = now_ns();
    (void)unused;
    since_ns = ns - last_ns > 2 * NAP_NS ? ns : since_ns;
    if (ns - since_ns > PATIENCE_NS) {
        sl_mpi_nap();
    } else {
        sched_yield();
    }
    last_ns = now_ns();
    return 1;
}

/* ---- starting, stopping ---- */

/* Without a spare processor, StarPU-MPI's thread is also the first CPU worker. It polls for messages between two
 * tasks, so no thread has to be woken. StarPU-MPI lets it run tasks only while it waits for a message. So one
 * receive is always pending: a message to itself, sent at the end. */
static struct {
    bool on;
    bool batch; /* the submitting thread has become a batch thread */
    int idle_hook;
    starpu_data_handle_t sent, awaited;
    uint32_t word[2];
} driving;

#define TAG_OF_END (INT64_C(1) << 60)

static void await_end(void)
{
    starpu_variable_data_register(&driving.sent, STARPU_MAIN_RAM, (uintptr_t)&driving.word[0], sizeof *driving.word);
    starpu_variable_data_register(&driving.awaited, STARPU_MAIN_RAM, (uintptr_t)&driving.word[1], sizeof *driving.word);
    starpu_mpi_irecv_detached(driving.awaited, (int)sl_rank(), TAG_OF_END, MPI_COMM_WORLD, NULL, NULL);
}

static void send_end(void)
{
    starpu_mpi_isend_detached(driving.sent, (int)sl_rank(), TAG_OF_END, MPI_COMM_WORLD, NULL, NULL);
    starpu_data_unregister(driving.sent);
    starpu_data_unregister(driving.awaited);
}

/* The submitting thread wakes when a message or a task is done. It would then preempt the worker that is about to
 * take its next task. A batch thread waits for its turn instead. */
static void wait_for_turns(bool on)
{
    const struct sched_param none = {0};
    if (on) {
        driving.batch = sched_getscheduler(0) == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
    } else if (driving.batch) {
        sched_setscheduler(0, SCHED_OTHER, &none);
    }
}

/* Tell StarPU-MPI through the environment whether its thread is a worker. As a worker it looks for a task, or runs
 * the task whose data it has, after each poll for messages. Also disable GPUDirect: a GPU-aware MPI would pack lists
 * in GPU memory, where the processor cannot read them. */
static int tell_mpi(bool drives)
{
    static const char *const calls = "STARPU_MPI_DRIVER_CALL_FREQUENCY";
    static const char *const looks = "STARPU_MPI_DRIVER_TASK_FREQUENCY";
    int error = setenv("STARPU_MPI_GPUDIRECT", "0", 1);
    if (drives) {
        error |= setenv(calls, "1", 1) | setenv(looks, "1", 1);
    } else {
        error |= unsetenv(calls) | unsetenv(looks);
    }
    return error == 0 ? 0 : -ENOMEM;
}

int sl_mpi_start_starpu(struct starpu_conf *conf, bool spare)
{
    bool drives = !spare && conf->ncpus > 0;
    int error = tell_mpi(drives);
    if (error == 0) {
        error = starpu_mpi_init_conf(NULL, NULL, 0, MPI_COMM_WORLD, conf);
    }
    tell_mpi(false);
    driving.on = drives && error == 0;
    if (driving.on) {
        driving.idle_hook = starpu_idle_hook_register(idle, NULL);
        await_end();
        wait_for_turns(true);
    }
    return error;
}

void sl_mpi_stop_starpu(void)
{
    if (driving.on) {
        if (driving.idle_hook >= 0) {
            starpu_idle_hook_deregister(driving.idle_hook);
        }
        send_end();
        wait_for_turns(false);
        driving.on = false;
    }
    starpu_mpi_shutdown();
}
