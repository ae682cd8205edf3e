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

/* Counts and offsets of consecutive lists, as MPI expects them. */
struct layout {
    int *count, *offset;
};

static enum sl_status open_layout(struct layout *out)
{
    enum sl_status st = sl_alloc_zero(2 * (size_t)sl_n_ranks(), sizeof *out->count, "places of messages", &out->count);
    out->offset = st == SL_OK ? out->count + sl_n_ranks() : NULL;
    return st;
}

/* Append rank r's `count` elements to the layout. */
static enum sl_status lay_out(uint32_t r, size_t count, const struct layout *out)
{
    size_t offset = r == 0 ? 0 : (size_t)out->offset[r - 1] + (size_t)out->count[r - 1];
    SL_CHECK(check_count(offset + count));
    out->count[r] = (int)count;
    out->offset[r] = (int)offset;
    return SL_OK;
}

enum sl_status sl_mpi_gather(const void *mine, size_t bytes, void *all)
{
    struct layout from = {0};
    const int n = (int)bytes;
    MPI_Request request;
    enum sl_status st;
    SL_TRY(st, check_count(bytes), done);
    SL_TRY(st, open_layout(&from), done);
    SL_TRY(st, await(MPI_Igather(&n, 1, MPI_INT, from.count, 1, MPI_INT, 0, MPI_COMM_WORLD, &request), &request), done);
    for (uint32_t r = 0; sl_rank() == 0 && r < sl_n_ranks(); r++) {
        SL_TRY(st, lay_out(r, (size_t)from.count[r], &from), done);
    }
    st = await(MPI_Igatherv(mine, n, MPI_BYTE, all, from.count, from.offset, MPI_BYTE, 0, MPI_COMM_WORLD, &request),
               &request);
done:
    sl_free(from.count);
    return st;
}

enum sl_status sl_mpi_swap_counts(const uint32_t *n_to, uint32_t *n_from)
{
    MPI_Request request;
    return await(MPI_Ialltoall(n_to, 1, MPI_UINT32_T, n_from, 1, MPI_UINT32_T, MPI_COMM_WORLD, &request), &request);
}

enum sl_status sl_mpi_swap(const uint32_t *n_to, const uint32_t *to, const uint32_t *n_from, uint32_t *from)
{
    struct layout sent = {0};
    struct layout received = {0};
    MPI_Request request;
    enum sl_status st;
    SL_TRY(st, open_layout(&sent), done);
    SL_TRY(st, open_layout(&received), done);
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        SL_TRY(st, lay_out(r, n_to[r], &sent), done);
        SL_TRY(st, lay_out(r, n_from[r], &received), done);
    }
    st = await(MPI_Ialltoallv(to, sent.count, sent.offset, MPI_UINT32_T, from, received.count, received.offset,
                              MPI_UINT32_T, MPI_COMM_WORLD, &request),
               &request);
done:
    sl_free(sent.count);
    sl_free(received.count);
    return st;
}

enum sl_status sl_mpi_barrier(void)
{
    MPI_Request request;
    return await(MPI_Ibarrier(MPI_COMM_WORLD, &request), &request);
}
