/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A run of several ranks that gossip, one of which is late in one step, for tests/ranks/test_ranks.sh:
 *
 *   late_rank RANK STEP SECONDS OPTION ..      after mpirun; options as coop_sage has them, --depth 1
 *
 * The rank sleeps before it submits the sampling of that step, which nothing but the step itself waits for; the
 * steps before go on. Each rank prints a line of times in microseconds of the machine's clock: its number, the rank
 * whose array it mixes with in that step, when its last update or mixing of the step ended, and when the late rank
 * woke up, else 0. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codelets/sampling/sample.h"
#include "runtime/plan/partners.h"
#include "runtime/plan/settings.h"
#include "runtime/starling.h"
#include "support/clock.h"

static struct {
    uint32_t rank;
    uint64_t step;
    double seconds;
    bool slept;
    double woken_s;
    atomic_llong ended_us; /* the step's last update or mixing, of this rank */
} late;

enum sl_status __real_sl_seed_submit(const struct sl_task_args *head, starpu_data_handle_t order, uint32_t begin,
                                     uint32_t end, const struct sl_frontier_handles *frontier);
enum sl_status __wrap_sl_seed_submit(const struct sl_task_args *head, starpu_data_handle_t order, uint32_t begin,
                                     uint32_t end, const struct sl_frontier_handles *frontier);
enum sl_status __wrap_sl_seed_submit(const struct sl_task_args *head, starpu_data_handle_t order, uint32_t begin,
                                     uint32_t end, const struct sl_frontier_handles *frontier)
{
    if (head->step == late.step && sl_process_number() == late.rank && !late.slept) {
        late.slept = true;
        nanosleep(&(struct timespec){.tv_sec = (time_t)late.seconds,
                                     .tv_nsec = lrint(1e9 * (late.seconds - floor(late.seconds)))},
                  NULL);
        late.woken_s = sl_clock_s();
    }
    return __real_sl_seed_submit(head, order, begin, end, frontier);
}

void __real_sl_task_leave(const struct sl_task_args *args, double start_s);
void __wrap_sl_task_leave(const struct sl_task_args *args, double start_s);
void __wrap_sl_task_leave(const struct sl_task_args *args, double start_s)
{
    __real_sl_task_leave(args, start_s);
    if ((args->stage == SL_STAGE_OPTIMISE || args->stage == SL_STAGE_SYNC) && args->step == late.step) {
        atomic_store(&late.ended_us, llrint(1e6 * sl_clock_s())); /* one worker: the last is the latest */
    }
}

/* Whose array this rank mixes with in the step: ranks and replicas have the same numbers. */
static uint32_t partner(const struct sl_settings *s)
{
    enum { MOST_PES = 64 };
    struct sl_partners partners[MOST_PES];
    uint32_t nodes[MOST_PES];
    struct sl_permutation permutation = {0, nodes};
    if (s->pes > MOST_PES ||
        sl_gossip_schedule(SL_SYNC_DISSEMINATION, s->pes, late.step, s->seed, &permutation, partners) != SL_OK) {
        return UINT32_MAX;
    }
    return partners[sl_process_number()].from;
}

static enum sl_status train(struct sl_settings *settings)
{
    struct sl_session *session;
    enum sl_status st = sl_session_open(settings, NULL, &session);
    if (st == SL_OK) {
        st = sl_session_train(session, NULL);
        sl_session_close(session);
    }
    return st;
}

int main(int argc, char **argv)
{
    struct sl_settings *settings = NULL;
    bool run = argc > 4;
    enum sl_status st = sl_settings_new(&settings);
    if (run && st == SL_OK) {
        late.rank = (uint32_t)strtoul(argv[1], NULL, 10);
        late.step = strtoull(argv[2], NULL, 10);
        late.seconds = strtod(argv[3], NULL);
        st = sl_settings_parse(settings, argc - 3, argv + 3, stdout, &run);
    }
    st = run && st == SL_OK ? train(settings) : st;
    if (!run || st != SL_OK) {
        fprintf(stderr, "late_rank: %s\n", run ? sl_message() : "expected RANK STEP SECONDS OPTION ..");
        sl_process_abort(1);
        return 1;
    }
    printf("late %u %u %lld %lld\n", sl_process_number(), partner(settings), (long long)late.ended_us,
           llrint(1e6 * late.woken_s));
    sl_settings_delete(settings);
    return 0;
}
