/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Ranks: the MPI processes of one run, started by mpirun or srun, and the messages between them. Only tasks/mpi_*.c
 * call MPI and StarPU-MPI. There is one rank in a build without MPI, in a process without a launcher, and in a process
 * that its launcher started alone. A process belongs to one run, from sl_ranks_open to its exit.
 *
 * Messages are StarPU-MPI messages of data handles. A handle is sent when the tasks that write it have finished.
 * Tasks that read a received handle wait for it. The submitting thread never waits. Both sides name a message by a
 * tag. A tag belongs to one handle of the receiver for the whole run, because StarPU-MPI keeps a few bytes for each
 * tag that it has seen.
 */
#ifndef SL_TASKS_RANKS_H
#define SL_TASKS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/status.h"
#include "tasks/handle.h"
#include "tasks/joined.h"
#include "tasks/waits.h"

/* Join the other ranks: starts MPI. Further calls do nothing. Collective. SL_ENOTSUP: there are other processes, but
 * this build has no MPI. SL_EINVAL: MPI and the environment disagree on the number of ranks. SL_EIO, SL_ENOMEM. At
 * exit the process leaves MPI, which waits until all ranks leave. */
enum sl_status sl_ranks_open(void);

/* Find the ranks that share resources. names: identifiers of this rank's n resources, n <= SL_RANKS_MOST_SHARED,
 * equal on all ranks of the machine. A rank without resources is alone. Collective; after sl_ranks_open. SL_ENOMEM. */
enum sl_status sl_ranks_share(uint32_t n, const uint64_t *names, struct sl_ranks_share *out);

/* Say whether this rank has a spare processor for its messages. Call it before StarPU starts; the default is no.
 * StarPU-MPI's thread polls without pause while messages are expected. Without a spare processor that thread is also
 * the first CPU worker: it polls between two tasks, and idle workers sleep briefly. */
void sl_ranks_spare(bool spare);

/* End all ranks at once. Any thread. Returns only if there is one rank. */
void sl_ranks_abort(int code);

/* The function that a failing task (struct sl_failure) and the watchdog call if there are several ranks. NULL: none
 * set. */
void sl_ranks_on_failure(void (*hook)(void));
void (*sl_ranks_failure_hook(void))(void);

struct starpu_conf;

/* starpu_init, starpu_shutdown and starpu_task_wait_for_all, extended by StarPU-MPI. With several ranks all three
 * are collective, and sl_ranks_drain also waits for all messages. */
int sl_ranks_start_starpu(struct starpu_conf *conf);
void sl_ranks_stop_starpu(void);
void sl_ranks_drain(void);

/* ---- collective operations: no message may be in flight: before StarPU starts, or after sl_ranks_drain ----
 *
 * SL_EINVAL: a rank, or all ranks together at rank 0, have 2^31 bytes or elements or more. */

/* Broadcast rank 0's bytes to all ranks. SL_EIO. */
enum sl_status sl_ranks_broadcast(void *data, size_t bytes);

/* Sum n numbers over the ranks. Rank 0 gets the sums; on other ranks `data` is unchanged. SL_EIO. */
enum sl_status sl_ranks_sum(uint32_t n, double *data);

/* Sum n counts over the ranks. All ranks get the sums, each below 2^32. SL_EIO. */
enum sl_status sl_ranks_add_up(uint32_t n, uint32_t *counts);

/* Gather the bytes of all ranks at rank 0, in the order of ranks. Ranks may have different numbers of bytes. all: on
 * rank 0, room for the bytes of all ranks; on other ranks not used. SL_EIO, SL_ENOMEM. */
enum sl_status sl_ranks_gather(const void *mine, size_t bytes, void *all);

/* All-to-all exchange of lists. `to` has a list of n_to[r] numbers for each rank r, list after list. *from_out gets a
 * list of n_from_out[r] numbers from each. The caller frees it (sl_free), also after a failure. SL_EIO, SL_ENOMEM. */
enum sl_status sl_ranks_swap(const uint32_t *n_to, const uint32_t *to, uint32_t *n_from_out, uint32_t **from_out);

/* Compare a text with rank 0's. With one rank: do nothing. SL_EINVAL: the texts differ (message: "WHAT: found '..',
 * expected '..' as rank 0 has; REMEDY"). SL_EIO, SL_ENOMEM. */
enum sl_status sl_ranks_match_text(const char *label, const char *mine, const char *remedy);

/* Message times of this rank since the last call, sl_waits_drop or sl_waits_open (tasks/waits.h); all zero with
 * one rank. Ranks tell each other when they had written their messages. Each call measures the clock offset to rank
 * 0 of ranks on other machines. Collective. SL_EIO, SL_ENOMEM. */
enum sl_status sl_ranks_take_waits(struct sl_waits *out);

/* Barrier of all ranks. SL_EIO. */
enum sl_status sl_ranks_barrier(void);

/* ---- messages; local, one thread submits ---- */

/* First tag of passes over all edges (runtime/full/halo_lists.h) and of pipeline stages (runtime/pipe/stages.h). The
 * transport uses lower tags. */
#define SL_RANKS_TAGS_OF_HALOS (INT64_C(1) << 62)
#define SL_RANKS_TAGS_OF_STAGES (SL_RANKS_TAGS_OF_HALOS | INT64_C(1) << 61)

/* Send a handle, or receive it. A sent message may arrive before its receive is posted, and then takes extra memory
 * at the receiver. sl_ranks_offer transfers the message only after its receive is posted. SL_EINVAL: a message of 2
 * GiB or more. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_ranks_send(starpu_data_handle_t handle, uint32_t to, int64_t tag);
enum sl_status sl_ranks_offer(starpu_data_handle_t handle, uint32_t to, int64_t tag);
enum sl_status sl_ranks_receive(starpu_data_handle_t handle, uint32_t from, int64_t tag);

#endif
