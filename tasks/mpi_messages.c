/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Messages of handles, and the clocks of their senders. */
#include <math.h>
#include <starpu_mpi.h>
#include <stdatomic.h>

#include "support/clock.h"
#include "support/memory.h"
#include "tasks/list.h"
#include "tasks/mpi.h"
#include "tasks/waits.h"

/* Messages submitted and not yet completed. */
static atomic_uint_least64_t n_under_way;

/* StarPU-MPI counts the bytes of early messages in int. */
static enum sl_status check_size(starpu_data_handle_t handle)
{
    size_t bytes = starpu_data_get_size(handle);
    SL_FAIL_IF(bytes > INT32_MAX, SL_EINVAL,
               "a message of %zu bytes between ranks: expected less than 2 GiB; use a smaller --batch-size "
               "or --fanout, or more --pes; of pipe_gnn more --ways and --chunks",
               bytes);
    return SL_OK;
}

static enum sl_status translate(int error)
{
    return error == 0 ? SL_OK : sl_fail(SL_ESTARPU, "StarPU-MPI refused a message (%d)", error);
}

static void is_over(void *unused)
{
    (void)unused;
    sl_ranks_moved();
    atomic_fetch_sub(&n_under_way, 1);
}

/* Argument of is_written. */
struct written {
    starpu_data_handle_t handle;
    uint64_t ticket;
};

static void is_written(void *arg)
{
    struct written written = *(struct written *)arg;
    sl_free(arg);
    sl_waits_written(written.ticket, sl_clock_s());
    starpu_data_release_on_node(written.handle, STARPU_ACQUIRE_NO_NODE);
}

/* Record the time when StarPU-MPI may send the handle. */
static enum sl_status tell_when_written(starpu_data_handle_t handle, uint64_t ticket)
{
    struct written *written;
    if (ticket == SL_WAITS_NO_TICKET) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc(1, sizeof *written, "a message", &written));
    *written = (struct written){handle, ticket};
    if (starpu_data_acquire_on_node_cb(handle, STARPU_ACQUIRE_NO_NODE, STARPU_R, is_written, written) != 0) {
        sl_free(written);
        return sl_fail(SL_ESTARPU, "StarPU refused to say when a message is written");
    }
    return SL_OK;
}

/* Type of starpu_mpi_isend_detached and starpu_mpi_issend_detached. */
typedef int send_detached(starpu_data_handle_t handle, int to, starpu_mpi_tag_t tag, MPI_Comm among,
                          void (*over)(void *), void *ticket);

static enum sl_status send_by(send_detached *by, starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    enum sl_status st = SL_OK;
    SL_CHECK(check_size(handle));
    if (!sl_list_is(handle)) { /* the size of a list is known when it is packed */
        sl_ranks_sent(starpu_data_get_size(handle));
    }
    SL_CHECK(tell_when_written(handle, sl_waits_send(to, tag)));
    atomic_fetch_add(&n_under_way, 1);
    st = translate(by(handle, (int)to, tag, MPI_COMM_WORLD, is_over, NULL));
    if (st != SL_OK) {
        is_over(NULL);
    }
    return st;
}

enum sl_status sl_mpi_send(starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    return send_by(starpu_mpi_isend_detached, handle, to, tag);
}

enum sl_status sl_mpi_offer(starpu_data_handle_t handle, uint32_t to, int64_t tag)
{
    return send_by(starpu_mpi_issend_detached, handle, to, tag);
}

static void has_come(void *ticket)
{
    sl_waits_come((uintptr_t)ticket, sl_clock_s());
    is_over(NULL);
}

enum sl_status sl_mpi_receive(starpu_data_handle_t handle, uint32_t from, int64_t tag)
{
    enum sl_status st = SL_OK;
    SL_CHECK(check_size(handle));
    uint64_t ticket = sl_waits_ask(from, tag, sl_clock_s());
    atomic_fetch_add(&n_under_way, 1);
    st = translate(
        starpu_mpi_irecv_detached(handle, (int)from, tag, MPI_COMM_WORLD, has_come, (void *)(uintptr_t)ticket));
    if (st != SL_OK) {
        has_come((void *)(uintptr_t)ticket);
    }
    return st;
}

/* starpu_mpi_wait_for_all waits until StarPU-MPI's thread is idle, but a thread that is a worker never is. A receive
 * is waited for by the tasks that read it; nothing waits for sends, so count messages instead. */
void sl_mpi_drain(void)
{
    starpu_task_wait_for_all();
    while (atomic_load(&n_under_way) > 0) {
        sl_mpi_nap();
    }
}

/* ---- clocks ---- */

#define N_LOOKS 8
#define TAG_OF_CLOCKS 4711 /* a tag that StarPU-MPI does not use */

/* Ranks on one machine share a clock. A rank on another machine asks several times, and uses the answer with the
 * shortest round trip. */
double sl_mpi_clock_ahead(void)
{
    double ahead_s = 0;
    double fastest_s = INFINITY;
    for (uint32_t i = 0, source = 0; i < sl_joined()->n_far * N_LOOKS; i++) {
        MPI_Status status;
        double asked_s;
        /* only a rank's first question may come from any rank */
        int from = i % N_LOOKS == 0 ? MPI_ANY_SOURCE : (int)source;
        MPI_Recv(&asked_s, 1, MPI_DOUBLE, from, TAG_OF_CLOCKS, MPI_COMM_WORLD, &status);
        double now_s = sl_clock_s();
        source = (uint32_t)status.MPI_SOURCE;
        MPI_Send(&now_s, 1, MPI_DOUBLE, status.MPI_SOURCE, TAG_OF_CLOCKS, MPI_COMM_WORLD);
    }
    if (!sl_joined()->far) {
        return 0;
    }
    for (int i = 0; i < N_LOOKS; i++) {
        double first_s = 0;
        double asked_s = sl_clock_s();
        MPI_Send(&asked_s, 1, MPI_DOUBLE, 0, TAG_OF_CLOCKS, MPI_COMM_WORLD);
        MPI_Recv(&first_s, 1, MPI_DOUBLE, 0, TAG_OF_CLOCKS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double now_s = sl_clock_s();
        if (now_s - asked_s < fastest_s) {
            fastest_s = now_s - asked_s;
            ahead_s = first_s - (asked_s + now_s) / 2;
        }
    }
    return ahead_s;
}
