/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the environment, and later MPI, says of the ranks. */
#include "tasks/joined.h"

#include <stdatomic.h>
#include <stdlib.h>

static struct sl_joined joined = {.n = 1, .n_sharing = 1};
static atomic_uint_least64_t sent_bytes;
static atomic_uint_least64_t n_moves;

const struct sl_joined *sl_joined(void)
{
    return &joined;
}

void sl_join(const struct sl_joined *ranks)
{
    joined = *ranks;
}

uint32_t sl_n_ranks(void)
{
    return joined.n;
}

uint32_t sl_rank(void)
{
    return joined.rank;
}

uint32_t sl_ranks_sharing(void)
{
    return joined.n_sharing;
}

uint64_t sl_ranks_sent_bytes(void)
{
    return atomic_load(&sent_bytes);
}

void sl_ranks_sent(uint64_t bytes)
{
    atomic_fetch_add(&sent_bytes, bytes);
}

uint64_t sl_ranks_moves(void)
{
    return atomic_load_explicit(&n_moves, memory_order_relaxed);
}

void sl_ranks_moved(void)
{
    atomic_fetch_add_explicit(&n_moves, 1, memory_order_relaxed);
}

/* For Slurm, the variables of a step: a batch script is one process but also has the number of the job's tasks. */
static const struct sl_ranks_launcher launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                                     {"PMI_SIZE", "PMI_RANK"},
                                                     {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};

static uint32_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

const struct sl_ranks_launcher *sl_ranks_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (number_of(launchers[i].n) > 1 && getenv(launchers[i].number) != NULL) {
            return &launchers[i];
        }
    }
    return NULL;
}

uint32_t sl_ranks_started(void)
{
    const struct sl_ranks_launcher *launcher = sl_ranks_launcher();
    return launcher != NULL ? number_of(launcher->n) : 1;
}

uint32_t sl_ranks_number(void)
{
    const struct sl_ranks_launcher *launcher = sl_ranks_launcher();
    return launcher != NULL ? number_of(launcher->number) : 0;
}
