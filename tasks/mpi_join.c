/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Joining the other ranks, leaving them, and what the ranks of one machine share. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/memory.h"
#include "tasks/mpi.h"

static bool ours; /* MPI was started here, so it is ended here */

static void leave(void)
{
    int ended = 0;
    MPI_Finalized(&ended);
    if (ours && !ended) {
        MPI_Finalize();
    }
}

/* Under a bare srun, Open MPI aborts the process in MPI_Init, with a message that does not name the missing option. */
static bool srun_is_bare(void)
{
#ifdef OPEN_MPI
    return strcmp(sl_ranks_launcher()->number, "SLURM_PROCID") == 0 && getenv("PMIX_RANK") == NULL;
#else
    return false;
#endif
}

static enum sl_status start_mpi(void)
{
    int begun = 0;
    int level = MPI_THREAD_MULTIPLE;
    MPI_Initialized(&begun);
    SL_FAIL_IF(!begun && srun_is_bare(), SL_EINVAL,
               "found %u tasks of srun's without PMIx, by which Open MPI starts; use srun --mpi=pmix, or mpirun "
               "in salloc or sbatch",
               sl_ranks_started());
    if (begun) {
        MPI_Query_thread(&level);
    } else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return sl_fail(SL_EIO, "MPI does not start");
    }
    ours = !begun;
    SL_FAIL_IF(ours && atexit(leave) != 0, SL_ENOMEM, "no memory for what is done at exit");
    SL_FAIL_IF(level != MPI_THREAD_MULTIPLE, SL_ENOTSUP,
               "MPI: found thread level %d, expected MPI_THREAD_MULTIPLE (%d); use an MPI that has it", level,
               MPI_THREAD_MULTIPLE);
    return SL_OK;
}

/* Count the ranks on other machines than rank 0's. machine: communicator of the ranks on this machine. */
static void count_far(MPI_Comm machine, struct sl_joined *out)
{
    int first = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &first);
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, machine);
    out->far = first > 0;
    uint32_t n_far = out->far;
    MPI_Reduce(&n_far, &out->n_far, 1, MPI_UINT32_T, MPI_SUM, 0, MPI_COMM_WORLD);
}

/* Count the ranks on this machine whose processor sets overlap this rank's. */
static enum sl_status count_sharing(struct sl_joined *out)
{
    SL_OWNED(MPI_Comm_free) MPI_Comm machine;
    cpu_set_t own;
    cpu_set_t common;
    SL_FREED cpu_set_t *all = NULL;
    int n = 0;
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof own, &own);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &n);
    SL_CHECK(sl_alloc((size_t)n, sizeof *all, "processors of ranks", &all));
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, machine);
    out->n_sharing = 0;
    for (int i = 0; i < n; i++) {
        CPU_AND(&common, &own, &all[i]);
        out->n_sharing += CPU_COUNT(&common) > 0;
    }
    count_far(machine, out);
    return SL_OK;
}

/* Names of one rank's resources. */
struct names {
    uint32_t n;
    uint64_t name[SL_RANKS_MOST_SHARED];
};

static bool have_common(const struct names *a, const struct names *b)
{
    bool common = false;
    for (uint32_t i = 0; i < a->n; i++) {
        for (uint32_t k = 0; k < b->n; k++) {
            common |= a->name[i] == b->name[k];
        }
    }
    return common;
}

static enum sl_status share_on(MPI_Comm machine, const struct names *own, struct sl_ranks_share *out)
{
    SL_FREED struct names *all = NULL;
    int n = 0;
    int index = 0;
    MPI_Comm_size(machine, &n);
    MPI_Comm_rank(machine, &index);
    SL_CHECK(sl_alloc((size_t)n, sizeof *all, "what ranks share", &all));
    MPI_Allgather(own, sizeof *own, MPI_BYTE, all, sizeof *own, MPI_BYTE, machine);
    *out = (struct sl_ranks_share){0, own->n == 0 ? 1 : 0};
    for (int i = 0; i < n; i++) {
        bool shares = have_common(own, &all[i]);
        out->n += shares;
        out->index += shares && i < index;
    }
    return SL_OK;
}

enum sl_status sl_mpi_share(uint32_t n, const uint64_t *names, struct sl_ranks_share *out)
{
    struct names own = {.n = n};
    SL_OWNED(MPI_Comm_free) MPI_Comm machine;
    memcpy(own.name, names, n * sizeof *names);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    return share_on(machine, &own, out);
}

enum sl_status sl_mpi_join(void)
{
    struct sl_joined joined = {0};
    int n = 1;
    int rank = 0;
    SL_CHECK(start_mpi());
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    SL_FAIL_IF((uint32_t)n != sl_ranks_started(), SL_EINVAL,
               "MPI found %d ranks, expected the %u that $%s speaks of; start with the mpirun of the MPI that "
               "Starling was built with, or with srun --mpi=pmix",
               n, sl_ranks_started(), sl_ranks_launcher()->n);
    joined.n = (uint32_t)n;
    joined.rank = (uint32_t)rank;
    SL_CHECK(count_sharing(&joined));
    sl_join(&joined);
    return SL_OK;
}

void sl_mpi_abort(int code)
{
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}
