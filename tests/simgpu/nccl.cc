/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The stand-in for NCCL: what a group holds is matched and given to the streams a few questions after its end, and
 * done when the streams of all who take part have come to it. */
#if defined(SL_NCCL) || !defined(SL_EMULATED_GPU)
#ifdef SL_EMULATED_GPU
#include <nccl.h>
#include <string.h>
#else
#include "tests/simgpu/nccl.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "tests/simgpu/device.h"
#include "tests/simgpu/nccl_fault.h"

enum { QUESTIONS = 3 /* that are answered "in progress" first */ };

struct operation {
    enum { SEND, RECV, REDUCE } kind;
    const void *source;
    void *target;
    size_t n;       /* bytes, of a reduction floats */
    int rank, peer; /* of a reduction: its root */
    cudaStream_t stream;
    bool done;
};

/* What the streams of several ranks do together: the last of them to come does it, and none goes on before. */
struct meeting {
    size_t missing;
    std::function<void()> act;
};

struct ncclComm {
    int n, rank;
    int questions; /* left until it may be settled */
};

struct sl_nccl_fault sl_nccl_fault;
int sl_nccl_alive;
int sl_nccl_connections;

/* For tests of whole programs. */
static __attribute__((destructor)) void tell(void)
{
    if (getenv("SL_EMULATED_NCCL_TELLS") != NULL) {
        fprintf(stderr, "simulated NCCL: %d connections\n", sl_nccl_connections);
    }
}

static std::set<std::pair<int, int>> connected; /* sender and receiver; the root of a reduction and all */
static bool in_group;
static std::vector<operation> pending;

/* ---- carrying out ---- */

static void meet(const std::set<cudaStream_t> &streams, std::function<void()> act)
{
    auto all = std::make_shared<meeting>(meeting{streams.size(), std::move(act)});
    for (cudaStream_t stream : streams) {
        auto came = std::make_shared<bool>(false);
        sl_device_give(stream, SL_COUNTED_NCCL, [all, came] {
            if (!*came) {
                *came = true;
                if (--all->missing == 0) {
                    all->act();
                }
            }
            return all->missing == 0;
        });
    }
}

static bool send_and_receive(operation &send)
{
    for (operation &recv : pending) {
        if (!recv.done && recv.kind == operation::RECV && recv.rank == send.peer && recv.peer == send.rank) {
            if (recv.n != send.n) {
                return false; /* undefined there; never done here */
            }
            meet({send.stream, recv.stream}, [there = recv, here = send] {
                memcpy(sl_device_at(there.stream, there.target), sl_device_at(here.stream, here.source), here.n);
            });
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
    for (operation &o : pending) {
        if (!o.done && o.kind == operation::REDUCE && by_rank[o.rank] == NULL) {
            by_rank[o.rank] = &o;
        }
    }
    for (const operation *o : by_rank) {
        if (o == NULL || o->n != first.n || o->peer != first.peer) {
            return false;
        }
    }
    std::set<cudaStream_t> streams;
    std::vector<operation> calls;
    for (operation *o : by_rank) {
        o->done = true;
        streams.insert(o->stream);
        calls.push_back(*o);
    }
    meet(streams, [calls, n, root = first.peer] {
        float *to = static_cast<float *>(sl_device_at(calls[root].stream, calls[root].target));
        std::vector<const float *> from;
        for (const operation &call : calls) {
            from.push_back(static_cast<const float *>(sl_device_at(call.stream, call.source)));
        }
        for (size_t i = 0; i < calls[root].n; i++) {
            float sum = from[n - 1][i]; /* another order than ours */
            for (int r = n - 1; r-- > 0;) {
                sum += from[r][i];
            }
            to[i] = sum;
        }
    });
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
    if (rank == 0) {
        connected.clear();
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
    if (o.kind != operation::RECV && o.rank != o.peer) {
        sl_nccl_connections += connected.insert({o.kind == operation::SEND ? o.rank : -1, o.peer}).second;
    }
    comm->questions = QUESTIONS;
    pending.push_back(o);
    return ncclInProgress;
}

ncclResult_t ncclSend(const void *source, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return type != ncclInt8 ? ncclInvalidArgument
                            : add(comm, {operation::SEND, source, NULL, n, comm->rank, peer, stream, false});
}

ncclResult_t ncclRecv(void *target, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return type != ncclInt8 ? ncclInvalidArgument
                            : add(comm, {operation::RECV, NULL, target, n, comm->rank, peer, stream, false});
}

ncclResult_t ncclReduce(const void *source, void *target, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return type != ncclFloat || op != ncclSum
               ? ncclInvalidArgument
               : add(comm, {operation::REDUCE, source, target, n, comm->rank, root, stream, false});
}

#endif
