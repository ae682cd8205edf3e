/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What tests ask of the stand-in for NCCL, and NCCL has not.
 */
#ifndef SL_TESTS_NCCL_FAULT_H
#define SL_TESTS_NCCL_FAULT_H

#ifdef __cplusplus
extern "C" {
#endif

/* What goes wrong at this rank. */
enum sl_nccl_fault_kind { SL_NCCL_WELL, SL_NCCL_STUCK, SL_NCCL_REPORTS };
struct sl_nccl_fault {
    enum sl_nccl_fault_kind kind;
    int rank;
};
extern struct sl_nccl_fault sl_nccl_fault;

/* Communicators that are alive. */
extern int sl_nccl_alive;

/* Messages and sums for which GPUs had to be connected first. */
extern int sl_nccl_connections;

#ifdef __cplusplus
}
#endif

#endif
