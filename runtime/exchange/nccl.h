/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --transport nccl: what crosses from one GPU to another in a step, as tasks of its own (codelets/nccl_lane.h).
 *
 *   ids   StarPU's: only the device knows how many they are
 *   rows  between PEs of a group that live on different GPUs: what one has packed is copied into a buffer of the other's. One task
 *         for each group, layer and direction
 *   sums  with --sync allreduce: the partials of each GPU's PEs are added up there, and these sums over the GPUs. With
 *         gossip sums are StarPU's, since a replica's PEs may be on any GPUs
 *
 * With several ranks rows between GPUs of one rank alone (mpi.c).
 */
#ifndef SL_RUNTIME_EXCHANGE_NCCL_H
#define SL_RUNTIME_EXCHANGE_NCCL_H

#include "codelets/nccl_lane.h"
#include "runtime/exchange/transport.h"

/* Connect these GPUs, CUDA's numbers of them and StarPU's memory nodes, and put them behind the transport: what its open does with those
 * that StarPU drives. The plan's homes are as many. As sl_nccl_lane_open. */
enum sl_status sl_transport_nccl_connect(struct sl_transport *transport, uint32_t n_gpus, const int *devices,
                                         const int *nodes);

#endif
