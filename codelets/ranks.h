/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Ranks: the processes of a run of several, which mpirun or srun has started, and the messages between them. MPI and StarPU-MPI are
 * behind this header and in no other file; in a build without them there is one rank, and so there is where the environment speaks of
 * none or one. A process is of one run of ranks, from sl_ranks_open to its exit.
 *
 * Messages are StarPU's: a handle is sent when the tasks that write it have run, tasks that read a received one wait for it, and the
 * thread that submits waits for nothing. Both sides name a message by a tag, which belongs to one handle of the receiver for good:
 * StarPU-MPI keeps a few bytes for each tag it has seen.
 */
#ifndef SL_CODELETS_RANKS_H
#define SL_CODELETS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codelets/handle.h"
#include "codelets/waits.h"
#include "support/status.h"

/* Processes that the environment says were started together with this one, and its number among them; 1 and 0 where it says nothing.
 * They may be asked before sl_ranks_open. */
uint32_t sl_ranks_started(void);
uint32_t sl_ranks_number(void);

/* Join the others, once in a process; further calls do nothing. SL_ENOTSUP: there are others, and this build has no MPI. SL_EINVAL: MPI
 * finds another number of them than the environment says. At exit the process leaves, and waits until all others do. */
enum sl_status sl_ranks_open(void);

/* What has been joined: R, 1 before sl_ranks_open; this process's rank. */
uint32_t sl_n_ranks(void);
uint32_t sl_rank(void);

/* Ranks that share processors with this one, on its machine, itself included; after sl_ranks_open. */
uint32_t sl_ranks_sharing(void);

/* Ranks of this machine that have one of some things in common with this one, itself included, and its place among them. */
#define SL_RANKS_MOST_SHARED 64
struct sl_ranks_share {
    uint32_t index, n;
};

/* names: numbers of n things, up to SL_RANKS_MOST_SHARED, by which all ranks of the machine know them. Where this rank has none of them
 * it is alone. After sl_ranks_open; collective. SL_ENOMEM. */
enum sl_status sl_ranks_share(uint32_t n, const uint64_t *names, struct sl_ranks_share *out);

/* Whether this rank has a processor to spare for its messages, before StarPU's start. While messages are awaited StarPU-MPI's thread
 * asks for them without pause. Where it has no processor of its own for that, as is assumed until this is called, it is the first CPU's
 * worker as well, which asks between two tasks, and workers that find no task sleep a little. */
void sl_ranks_spare(bool spare);

/* End all ranks at once, from any thread. Returns where there is one rank only. */
void sl_ranks_abort(int code);

/* What a task that fails calls where there are several ranks (struct sl_failure), and the watchdog; NULL: nobody has said. */
void sl_ranks_on_failure(void (*hook)(void));
void (*sl_ranks_failure_hook(void))(void);

struct starpu_conf;

/* starpu_init, starpu_shutdown and starpu_task_wait_for_all, with what StarPU-MPI has for them: the first and the second are the calls
 * of all ranks, and so is the third, which waits for all messages, too. */
int sl_ranks_start_starpu(struct starpu_conf *conf);
void sl_ranks_stop_starpu(void);
void sl_ranks_drain(void);

/* ---- collective; while no message is on its way: before StarPU's start, or after sl_ranks_drain ----
 *
 * SL_EINVAL: 2^31 bytes or numbers and more of a rank, or of all at rank 0. */

/* Rank 0's bytes to all. SL_EIO. */
enum sl_status sl_ranks_broadcast(void *data, size_t bytes);

/* n sums over the ranks, at rank 0; elsewhere `data` stays. SL_EIO. */
enum sl_status sl_ranks_sum(uint32_t n, double *data);

/* n sums of counts, which all get, below 2^32 each. SL_EIO. */
enum sl_status sl_ranks_add_up(uint32_t n, uint32_t *counts);

/* Each rank's bytes at rank 0, one rank's after the other's. bytes_of[R] and all: rank 0's alone. SL_EIO. */
enum sl_status sl_ranks_gather(const void *mine, size_t bytes, const size_t *bytes_of, void *all);

/* To each rank r a list of n_to[r] numbers, list after list in `to`, and one from each, of n_from[r]. SL_EIO, SL_ENOMEM. */
enum sl_status sl_ranks_swap_counts(const uint32_t *n_to, uint32_t *n_from);
enum sl_status sl_ranks_swap(const uint32_t *n_to, const uint32_t *to, const uint32_t *n_from, uint32_t *from);

/* What messages took this rank since the last call, sl_waits_drop or sl_waits_open (codelets/waits.h), all in zero with one
 * rank. Ranks tell each other when they had written what they sent; clocks of other machines are compared with rank 0's each
 * time. SL_EIO, SL_ENOMEM. */
enum sl_status sl_ranks_take_waits(struct sl_waits *out);

/* All have come here. SL_EIO. */
enum sl_status sl_ranks_barrier(void);

/* ---- messages; one thread submits ---- */

/* Bytes that this rank has sent so far. */
uint64_t sl_ranks_sent_bytes(void);

/* A number that changes with each message that has left or come, those to all included. Any thread. */
uint64_t sl_ranks_moves(void);

/* Tags from here on are those of passes over all edges (runtime/full/halo.h), and of stages (runtime/pipe/stages.h); those below the
 * transport's. */
#define SL_RANKS_TAGS_OF_HALOS (INT64_C(1) << 62)
#define SL_RANKS_TAGS_OF_STAGES (SL_RANKS_TAGS_OF_HALOS | INT64_C(1) << 61)

/* What is sent may come before its receive, and takes memory of its own there until then; what is offered leaves when its receive is there.
 * SL_ESTARPU, SL_ENOMEM; SL_EINVAL: a message of 2 GiB or more. */
enum sl_status sl_ranks_send(starpu_data_handle_t handle, uint32_t to, int64_t tag);
enum sl_status sl_ranks_offer(starpu_data_handle_t handle, uint32_t to, int64_t tag);
enum sl_status sl_ranks_receive(starpu_data_handle_t handle, uint32_t from, int64_t tag);

/* A vector of uint32 over `memory` with room for `room` of them, which holds a list by PE of n_parts (codelets/sample.h): a message of it
 * carries what is used of it. For tasks it is a vector. */
void sl_list_register(void *memory, uint32_t room, uint32_t n_parts, starpu_data_handle_t *out);

#endif
