/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What several ranks need of MPI and StarPU-MPI: tasks/ranks.c calls it, with more than one rank only. A build without
 * MPI has none of it. The functions are those of tasks/ranks.h without the case of one rank. */
#ifndef SL_TASKS_MPI_H
#define SL_TASKS_MPI_H

#include <stddef.h>

#include "support/status.h"
#include "tasks/handle.h"
#include "tasks/joined.h"

struct starpu_conf;

/* ---- of tasks/mpi_join.c ---- */

enum sl_status sl_mpi_join(void);
enum sl_status sl_mpi_share(uint32_t n, const uint64_t *names, struct sl_ranks_share *out);
void sl_mpi_abort(int code);

/* ---- of tasks/mpi_starpu.c ---- */

/* spare: as sl_ranks_spare. */
int sl_mpi_start_starpu(struct starpu_conf *conf, bool spare);
void sl_mpi_stop_starpu(void);

/* Sleep for some 20 us. */
void sl_mpi_nap(void);

/* ---- of tasks/mpi_collective.c ---- */

enum sl_status sl_mpi_broadcast(void *data, size_t bytes);
enum sl_status sl_mpi_sum(uint32_t n, double *data);
enum sl_status sl_mpi_add_up(uint32_t n, uint32_t *counts);
enum sl_status sl_mpi_gather(const void *mine, size_t bytes, void *all);
enum sl_status sl_mpi_swap_counts(const uint32_t *n_to, uint32_t *n_from);
enum sl_status sl_mpi_swap(const uint32_t *n_to, const uint32_t *to, const uint32_t *n_from, uint32_t *from);
enum sl_status sl_mpi_barrier(void);

/* ---- of tasks/mpi_messages.c ---- */

enum sl_status sl_mpi_send(starpu_data_handle_t handle, uint32_t to, int64_t tag);
enum sl_status sl_mpi_offer(starpu_data_handle_t handle, uint32_t to, int64_t tag);
enum sl_status sl_mpi_receive(starpu_data_handle_t handle, uint32_t from, int64_t tag);
void sl_mpi_drain(void);

/* The number to add to this rank's clock to get rank 0's, in seconds. Collective. */
double sl_mpi_clock_ahead(void);

#endif
