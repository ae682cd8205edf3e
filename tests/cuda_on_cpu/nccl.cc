/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The stand-in for NCCL: what a group holds is matched and carried out a few questions after its end. */
#include "tests/cuda_on_cpu/nccl.h"

#include <unistd.h>

#include <vector>

enum { QUESTIONS = 3 /* that are answered "in progress" first */ };

struct operation {
    enum { SEND, RECV, REDUCE } kind;
    const float *source;
    float *target;
    size_t n;
    int rank, peer; /* of a reduction: its root */
    bool done;
};

struct ncclComm {
    int n, rank;
    int questions; /* left until it may be settled */
};

struct sl_nccl_fault sl_nccl_fault;
int sl_nccl_alive;

static bool in_group;
static std::vector<operation> pending;

/* ---- carrying out ---- */

static bool send_and_receive(operation &send)
{
    for (operation &recv : pending) {
        if (!recv.done && recv.kind == operation::RECV && recv.rank == send.peer && recv.peer == send.rank) {
            if (recv.n != send.n) {
                return false; /* undefined there; never done here */
            }
            memcpy(recv.target, send.source, send.n * sizeof *send.source);
            send.done = recv.done = true;
            return true;
        }
    }
    return false;
}

/* The reduction of which `first` is the earliest call left, if all n ranks take part and agree. */
static bool reduce(operation &first, int n)
{
    std::vector<operation *> by_rank(n);
    float *target = NULL;
    for (operation &o : pending) {
        if (!o.done && o.kind == operation::REDUCE && by_rank[o.rank] == NULL) {
            by_rank[o.rank] = &o;
            target = o.rank == o.peer ? o.target : target;
        }
    }
    for (const operation *o : by_rank) {
        if (o == NULL || o->n != first.n || o->peer != first.peer) {
            return false;
        }
    }
    for (size_t i = 0; i < first.n; i++) {
        float sum = by_rank[n - 1]->source[i]; /* another order than ours */
        for (int r = n - 1; r-- > 0;) {
            sum += by_rank[r]->source[i];
        }
        target[i] = sum;
    }
    for (operation *o : by_rank) {
        o->done = true;
    }
    return true;
}

static bool is_stuck(int rank)
{
    return sl_nccl_fault.kind == SL_NCCL_STUCK && sl_nccl_fault.rank == rank;
}

static void carry_out(int n)
{
    for (operation &o : pending) {
        if (o.done || is_stuck(o.rank)) {
            continue;
        }
        if (o.kind == operation::SEND && !is_stuck(o.peer)) {
            send_and_receive(o);
        } else if (o.kind == operation::REDUCE && sl_nccl_fault.kind != SL_NCCL_STUCK) {
            reduce(o, n);
        }
    }
}

static bool has_pending(int rank)
{
    for (const operation &o : pending) {
        if (!o.done && o.rank == rank) {
            return true;
        }
    }
    return false;
}

/* ---- NCCL's functions ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    memset(out, 1, sizeof *out);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    (void)id;
    if (!in_group || rank < 0 || rank >= n || config->blocking != 0) {
        return ncclInvalidUsage; /* outside of a group the first rank would wait for the others */
    }
    *out = new ncclComm{n, rank, QUESTIONS};
    sl_nccl_alive++;
    return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    std::vector<operation> rest;
    for (const operation &o : pending) {
        if (o.rank != comm->rank && !o.done) {
            rest.push_back(o);
        }
    }
    pending = rest;
    sl_nccl_alive--;
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    *out = ncclSuccess;
    if (sl_nccl_fault.kind == SL_NCCL_REPORTS && sl_nccl_fault.rank == comm->rank) {
        *out = ncclSystemError;
        return ncclSuccess;
    }
    if (comm->questions > 0) {
        comm->questions--;
        *out = ncclInProgress;
        return ncclSuccess;
    }
    carry_out(comm->n);
    *out = has_pending(comm->rank) || is_stuck(comm->rank) ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess: return "no error";
    case ncclSystemError: return "unhandled system error";
    case ncclInvalidUsage: return "invalid usage";
    default: return "an error of the stand-in";
    }
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "the last error";
}

ncclResult_t ncclGroupStart(void)
{
    std::vector<operation> rest;
    for (const operation &o : pending) {
        if (!o.done) {
            rest.push_back(o);
        }
    }
    pending = rest;
    if (in_group || !pending.empty()) {
        return ncclInvalidUsage; /* NCCL would queue; we expect that what came before was waited for */
    }
    in_group = true;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!in_group) {
        return ncclInvalidUsage;
    }
    usleep(50); /* another thread, which should not call now, gets the time to */
    in_group = false;
    return ncclInProgress;
}

static ncclResult_t add(ncclComm_t comm, operation o)
{
    if (!in_group || o.peer < 0 || o.peer >= comm->n) {
        return ncclInvalidUsage;
    }
    comm->questions = QUESTIONS;
    pending.push_back(o);
    return ncclInProgress;
}

ncclResult_t ncclSend(const void *source, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    (void)type;
    (void)stream;
    return add(comm, {operation::SEND, static_cast<const float *>(source), NULL, n, comm->rank, peer, false});
}

ncclResult_t ncclRecv(void *target, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    (void)type;
    (void)stream;
    return add(comm, {operation::RECV, NULL, static_cast<float *>(target), n, comm->rank, peer, false});
}

ncclResult_t ncclReduce(const void *source, void *target, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    (void)type;
    (void)op;
    (void)stream;
    return add(comm, {operation::REDUCE, static_cast<const float *>(source), static_cast<float *>(target), n,
                      comm->rank, root, false});
}
