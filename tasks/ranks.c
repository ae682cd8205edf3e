/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Ranks: what one rank does alone, and what several do by MPI (tasks/mpi.h). */
#include "tasks/ranks.h"

#include <starpu.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/clock.h"
#include "support/memory.h"
#include "support/text.h"
#include "tasks/mpi.h"
#include "tasks/waits.h"

static atomic_bool spare;
static void (*failure_hook)(void);

/* In a build without MPI a constant, so that no call of MPI is left. */
#ifdef SL_MPI
#define SEVERAL (sl_n_ranks() > 1)
#else
#define SEVERAL false
#endif

void sl_ranks_on_failure(void (*hook)(void))
{
    failure_hook = hook;
}

void (*sl_ranks_failure_hook(void))(void)
{
    return failure_hook;
}

void sl_ranks_spare(bool is_spare)
{
    atomic_store(&spare, is_spare);
}

/* ---- joining ---- */

enum sl_status sl_ranks_open(void)
{
    if (sl_n_ranks() > 1 || sl_ranks_started() == 1) {
        return SL_OK;
    }
#ifdef SL_MPI
    return sl_mpi_join();
#else
    return sl_fail(SL_ENOTSUP,
                   "found %u processes of one run ($%s), but this build has no MPI; build with ./bootstrap "
                   "--with-mpi, or start one process",
                   sl_ranks_started(), sl_ranks_launcher()->n);
#endif
}

void sl_ranks_abort(int code)
{
    if (SEVERAL) {
        sl_mpi_abort(code);
    }
}

enum sl_status sl_ranks_share(uint32_t n, const uint64_t *names, struct sl_ranks_share *out)
{
    *out = (struct sl_ranks_share){0, 1};
    return SEVERAL ? sl_mpi_share(n, names, out) : SL_OK;
}

/* ---- StarPU ---- */

int sl_ranks_start_starpu(struct starpu_conf *conf)
{
    return SEVERAL ? sl_mpi_start_starpu(conf, atomic_load(&spare)) : starpu_init(conf);
}

void sl_ranks_stop_starpu(void)
{
    if (SEVERAL) {
        sl_mpi_stop_starpu();
    } else {
        starpu_shutdown();
    }
}

void sl_ranks_drain(void)
{
    if (SEVERAL) {
        sl_mpi_drain();
    } else {
        starpu_task_wait_for_all();
    }
}

/* ---- collective operations ---- */

enum sl_status sl_ranks_broadcast(void *data, size_t bytes)
{
    return SEVERAL ? sl_mpi_broadcast(data, bytes) : SL_OK;
}

enum sl_status sl_ranks_sum(uint32_t n, double *data)
{
    return SEVERAL ? sl_mpi_sum(n, data) : SL_OK;
}

enum sl_status sl_ranks_add_up(uint32_t n, uint32_t *counts)
{
    return SEVERAL ? sl_mpi_add_up(n, counts) : SL_OK;
}

enum sl_status sl_ranks_gather(const void *mine, size_t bytes, void *all)
{
    if (SEVERAL) {
        return sl_mpi_gather(mine, bytes, all);
    }
    memcpy(all, mine, bytes);
    return SL_OK;
}

enum sl_status sl_ranks_swap(const uint32_t *n_to, const uint32_t *to, uint32_t *n_from_out, uint32_t **from_out)
{
    size_t n = 0;
    *from_out = NULL;
    *n_from_out = *n_to;
    if (SEVERAL) {
        SL_CHECK(sl_mpi_swap_counts(n_to, n_from_out));
    }
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        n += n_from_out[r];
    }
    SL_CHECK(sl_alloc(n + 1, sizeof **from_out, "lists of other ranks", from_out));
    if (SEVERAL) {
        return sl_mpi_swap(n_to, to, n_from_out, *from_out);
    }
    memcpy(*from_out, to, n * sizeof *to);
    return SL_OK;
}

enum sl_status sl_ranks_barrier(void)
{
    return SEVERAL ? sl_mpi_barrier() : SL_OK;
}

/* ---- comparisons ---- */

/* Copy rank 0's `text` to `out`, at all ranks. */
static enum sl_status take_text_of_rank0(const char *text, char **out)
{
    uint64_t bytes = strlen(text) + 1;
    SL_CHECK(sl_ranks_broadcast(&bytes, sizeof bytes));
    SL_CHECK(sl_alloc(bytes, 1, "rank 0's text", out));
    if (sl_rank() == 0) {
        memcpy(*out, text, bytes);
    }
    return sl_ranks_broadcast(*out, bytes);
}

enum sl_status sl_ranks_match_text(const char *label, const char *mine, const char *remedy)
{
    SL_FREED char *first = NULL;
    char found[SL_QUOTED_BYTES], expected[SL_QUOTED_BYTES];
    if (!SEVERAL) {
        return SL_OK;
    }
    SL_CHECK(take_text_of_rank0(mine, &first));
    SL_FAIL_IF(strcmp(mine, first) != 0, SL_EINVAL, "%s: found %s, expected %s as rank 0 has; %s", label,
               sl_text_quoted(mine, found), sl_text_quoted(first, expected), remedy);
    return SL_OK;
}

enum sl_status sl_ranks_take_waits(struct sl_waits *out)
{
    struct sl_waits_lists lists = {.n_ranks = sl_n_ranks()};
    double now_s = sl_clock_s();
    SL_FREED uint32_t *n = NULL; /* lengths of the lists to each rank, then from each rank */
    SL_FREED uint32_t *to = NULL;
    SL_FREED uint32_t *from = NULL;
    *out = (struct sl_waits){0};
    if (!SEVERAL) {
        return SL_OK;
    }
    lists.ahead_s = sl_mpi_clock_ahead();
    SL_CHECK(sl_alloc(2 * (size_t)sl_n_ranks(), sizeof *n, "times of messages", &n));
    SL_CHECK(sl_waits_list(lists.ahead_s, sl_n_ranks(), n, &to));
    SL_CHECK(sl_ranks_swap(n, to, n + sl_n_ranks(), &from));
    lists.n_from = n + sl_n_ranks();
    lists.from = from;
    return sl_waits_take(now_s, &lists, out);
}

/* ---- messages ---- */

static enum sl_status alone(void)
{
    return sl_fail(SL_EINTERNAL, "a message to another rank, but there is one");
}

enum sl_status sl_ranks_send(starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    return SEVERAL ? sl_mpi_send(handle, to, tag) : alone();
}

enum sl_status sl_ranks_offer(starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    return SEVERAL ? sl_mpi_offer(handle, to, tag) : alone();
}

enum sl_status sl_ranks_receive(starpu_data_handle_t handle, uint32_t from, int64_t tag)
{
    return SEVERAL ? sl_mpi_receive(handle, from, tag) : alone();
}
