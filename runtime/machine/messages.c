/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Ping-pong messages for latency and bandwidth, bursts for the message rate. */
#include "runtime/machine/messages.h"

#include "runtime/machine/machine.h"
#include "support/clock.h"
#include "support/memory.h"
#include "tasks/ranks.h"

enum {
    N_WARM_UP = 50,
    N_ROUNDS = 500,     /* small messages */
    N_LONG_ROUNDS = 20, /* long messages */
    LONG_BYTES = 4 << 20,
    N_AT_ONCE = 64, /* small messages of a burst, each with its own handle */
    N_BURSTS = 20,
    TO = N_AT_ONCE, /* tags; smaller tags are for bursts */
    FRO,
    LONG_TO,
    LONG_FRO
};

/* This rank's side of a pair. */
struct pair {
    bool first; /* sends first */
    uint32_t other;
    starpu_data_handle_t small[N_AT_ONCE], large;
};

/* One round trip: the peer answers after receiving. */
static enum sl_status to_and_fro(const struct pair *p, starpu_data_handle_t handle, int64_t to, int64_t fro)
{
    if (p->first) {
        SL_CHECK(sl_ranks_send(handle, p->other, to));
        return sl_ranks_receive(handle, p->other, fro);
    }
    SL_CHECK(sl_ranks_receive(handle, p->other, to));
    return sl_ranks_send(handle, p->other, fro);
}

static enum sl_status rounds(const struct pair *p, starpu_data_handle_t handle, int64_t to, uint32_t n)
{
    enum sl_status st = SL_OK;
    if (p == NULL) {
        return SL_OK;
    }
    for (uint32_t i = 0; i < n && st == SL_OK; i++) {
        st = to_and_fro(p, handle, to, to + 1);
    }
    return st;
}

static enum sl_status bursts(const struct pair *p)
{
    enum sl_status st = SL_OK;
    if (p == NULL) {
        return SL_OK;
    }
    for (uint32_t i = 0; i < N_BURSTS * N_AT_ONCE && st == SL_OK; i++) {
        starpu_data_handle_t handle = p->small[i % N_AT_ONCE];
        if (p->first) {
            st = sl_ranks_send(handle, p->other, i % N_AT_ONCE);
        } else {
            st = sl_ranks_receive(handle, p->other, i % N_AT_ONCE);
        }
    }
    return st;
}

/* The seconds from `start_s` until all ranks have completed their submitted messages. */
static enum sl_status finish(enum sl_status submitted, double start_s, double *out)
{
    enum sl_status st = submitted;
    if (st == SL_OK) {
        sl_ranks_drain();
        st = sl_ranks_barrier();
        *out = sl_clock_s() - start_s;
    }
    return st;
}

/* p NULL: an idle rank; only takes part in barriers. */
static enum sl_status measure(const struct pair *p, double seconds[3])
{
    starpu_data_handle_t small = p != NULL ? p->small[0] : NULL;
    starpu_data_handle_t large = p != NULL ? p->large : NULL;
    double start_s = sl_clock_s();
    SL_CHECK(finish(rounds(p, small, TO, N_WARM_UP), start_s, &seconds[0]));
    start_s = sl_clock_s();
    SL_CHECK(finish(rounds(p, small, TO, N_ROUNDS), start_s, &seconds[0]));
    start_s = sl_clock_s();
    SL_CHECK(finish(bursts(p), start_s, &seconds[1]));
    start_s = sl_clock_s();
    SL_CHECK(finish(rounds(p, large, LONG_TO, 2), start_s, &seconds[2]));
    start_s = sl_clock_s();
    return finish(rounds(p, large, LONG_TO, N_LONG_ROUNDS), start_s, &seconds[2]);
}

static enum sl_status open_pair(struct pair *p, void **memory_out)
{
    static uint32_t words[N_AT_ONCE];
    SL_CHECK(sl_alloc_zero(LONG_BYTES, 1, "a long message", memory_out));
    p->first = sl_rank() % 2 == 0;
    p->other = p->first ? sl_rank() + 1 : sl_rank() - 1;
    starpu_vector_data_register(&p->large, STARPU_MAIN_RAM, (uintptr_t)*memory_out, LONG_BYTES, 1);
    for (uint32_t i = 0; i < N_AT_ONCE; i++) {
        starpu_vector_data_register(&p->small[i], STARPU_MAIN_RAM, (uintptr_t)&words[i], 1, sizeof words[i]);
    }
    return SL_OK;
}

static void close_pair(struct pair *p)
{
    starpu_data_unregister(p->large);
    for (uint32_t i = 0; i < N_AT_ONCE; i++) {
        starpu_data_unregister(p->small[i]);
    }
}

static enum sl_status measure_started(double seconds[3])
{
    struct pair pair;
    void *memory = NULL;
    bool looks_on = sl_rank() % 2 == 0 && sl_rank() + 1 == sl_n_ranks();
    enum sl_status st = SL_OK;
    if (!looks_on) {
        st = open_pair(&pair, &memory);
    }
    if (st == SL_OK) {
        st = measure(looks_on ? NULL : &pair, seconds);
    }
    if (memory != NULL) {
        close_pair(&pair);
    }
    sl_free(memory);
    return st;
}

/* seconds: sums over the pairs. */
static struct sl_link link_of(const double seconds[3], double n_pairs)
{
    struct sl_link link = {.latency_s = seconds[0] / n_pairs / (2 * N_ROUNDS),
                           .message_s = seconds[1] / n_pairs / (N_BURSTS * N_AT_ONCE)};
    double long_s = seconds[2] / n_pairs / (2 * N_LONG_ROUNDS);
    link.bytes_per_s = LONG_BYTES / (long_s > link.latency_s ? long_s - link.latency_s : long_s);
    return link;
}

enum sl_status sl_messages_measure(struct sl_link *out)
{
    struct sl_settings settings;
    struct sl_machine machine = {0};
    double seconds[3] = {0};
    enum sl_status st = SL_OK;
    if (sl_n_ranks() < 2) {
        return sl_fail(SL_EINVAL, "found one rank, expected two or more to measure what messages take");
    }
    SL_TRY(st, sl_settings_init(&settings), done);
    settings.cpus = 1;
    settings.gpus = 0;
    SL_TRY(st, sl_machine_start(&settings, &machine), free_settings);
    st = measure_started(seconds);
    for (int i = 0; i < 3; i++) {
        seconds[i] = sl_rank() % 2 == 0 && sl_rank() + 1 < sl_n_ranks() ? seconds[i] : 0;
    }
    if (st != SL_OK) {
        goto stop;
    }
    SL_TRY(st, sl_ranks_sum(3, seconds), stop);
    *out = link_of(seconds, sl_n_ranks() / 2);
stop:
    sl_machine_stop(&machine);
free_settings:
    sl_settings_free(&settings);
done:
    return st;
}
