/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Collective operations of all ranks (tasks/ranks.h). */
#include <limits.h>
#include <mpi.h>

#include "support/memory.h"
#include "tasks/mpi.h"

/* Sleep between polls; MPI's own waiting calls spin. */
static enum sl_status await(int error, MPI_Request *request)
{
    int done = 0;
    while (error == MPI_SUCCESS && !done) {
        error = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            sl_mpi_nap();
        }
    }
    sl_ranks_moved();
    return error == MPI_SUCCESS ? SL_OK : sl_fail(SL_EIO, "MPI error %d in a message between all ranks", error);
}

/* MPI counts in int. */
static enum sl_status check_count(size_t n)
{
    SL_FAIL_IF(n > INT_MAX, SL_EINVAL,
               "found %zu bytes or numbers between all ranks at once, expected less than 2^31; use "
               "one process, or another number of them",
               n);
    return SL_OK;
}

enum sl_status sl_mpi_broadcast(void *data, size_t bytes)
{
    MPI_Request request;
    SL_CHECK(check_count(bytes));
    return await(MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request), &request);
}

enum sl_status sl_mpi_sum(uint32_t n, double *data)
{
    MPI_Request request;
    const void *from = sl_rank() == 0 ? MPI_IN_PLACE : data;
    SL_CHECK(check_count(n));
    return await(MPI_Ireduce(from, data, (int)n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD, &request), &request);
}

enum sl_status sl_mpi_add_up(uint32_t n, uint32_t *counts)
{
    MPI_Request request;
    SL_CHECK(check_count(n));
    return await(MPI_Iallreduce(MPI_IN_PLACE, counts, (int)n, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD, &request),
                 &request);
}

/* Counts of consecutive lists, one of each rank, then their offsets: as MPI expects them. */
static enum sl_status open_layout(int **out)
{
    return sl_alloc_zero(2 * (size_t)sl_n_ranks(), sizeof **out, "places of messages", out);
}

/* Append rank r's `count` elements to the layout. */
static enum sl_status lay_out(uint32_t r, size_t count, int *layout)
{
    int *offsets = layout + sl_n_ranks();
    size_t offset = r == 0 ? 0 : (size_t)offsets[r - 1] + (size_t)layout[r - 1];
    SL_CHECK(check_count(offset + count));
    layout[r] = (int)count;
    offsets[r] = (int)offset;
    return SL_OK;
}

enum sl_status sl_mpi_gather(const void *mine, size_t bytes, void *all)
{
    SL_FREED int *from = NULL;
    const int n = (int)bytes;
    MPI_Request request;
    SL_CHECK(check_count(bytes));
    SL_CHECK(open_layout(&from));
    SL_CHECK(await(MPI_Igather(&n, 1, MPI_INT, from, 1, MPI_INT, 0, MPI_COMM_WORLD, &request), &request));
    for (uint32_t r = 0; sl_rank() == 0 && r < sl_n_ranks(); r++) {
        SL_CHECK(lay_out(r, (size_t)from[r], from));
    }
    return await(MPI_Igatherv(mine, n, MPI_BYTE, all, from, from + sl_n_ranks(), MPI_BYTE, 0, MPI_COMM_WORLD, &request),
                 &request);
}

enum sl_status sl_mpi_swap_counts(const uint32_t *n_to, uint32_t *n_from)
{
    MPI_Request request;
    return await(MPI_Ialltoall(n_to, 1, MPI_UINT32_T, n_from, 1, MPI_UINT32_T, MPI_COMM_WORLD, &request), &request);
}

enum sl_status sl_mpi_swap(const uint32_t *n_to, const uint32_t *to, const uint32_t *n_from, uint32_t *from)
{
    const uint32_t n = sl_n_ranks();
    SL_FREED int *sent = NULL;
    SL_FREED int *received = NULL;
    MPI_Request request;
    SL_CHECK(open_layout(&sent));
    SL_CHECK(open_layout(&received));
    for (uint32_t r = 0; r < n; r++) {
        SL_CHECK(lay_out(r, n_to[r], sent));
        SL_CHECK(lay_out(r, n_from[r], received));
    }
    return await(MPI_Ialltoallv(to, sent, sent + n, MPI_UINT32_T, from, received, received + n, MPI_UINT32_T,
                                MPI_COMM_WORLD, &request),
                 &request);
}

enum sl_status sl_mpi_barrier(void)
{
    MPI_Request request;
    return await(MPI_Ibarrier(MPI_COMM_WORLD, &request), &request);
}
