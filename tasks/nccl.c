/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Non-blocking communicators, as NCCL's user guide describes them: each call may answer "in progress", and the
 * caller polls the state of each communicator until it is settled. */
#include "tasks/nccl.h"

#ifdef SL_NCCL

#include <assert.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>
#include <stdio.h>

#include "support/clock.h"
#include "support/memory.h"
#include "support/text.h"

bool sl_nccl_built(void)
{
    return true;
}

struct sl_nccl {
    uint32_t n;
    double timeout_s;
    bool broken; /* an operation failed: all communicators are gone */
    struct {
        int device;
        ncclComm_t comm;
        cudaStream_t stream; /* of all operations of the GPU */
    } gpu[SL_NCCL_MAX_GPUS];
};

/* ---- failures ---- */

/* Abort all operations. An aborted communicator no longer exists. */
static void abort_all(struct sl_nccl *nccl)
{
    nccl->broken = true;
    for (uint32_t i = 0; i < nccl->n; i++) {
        if (nccl->gpu[i].comm != NULL) {
            ncclCommAbort(nccl->gpu[i].comm);
            nccl->gpu[i].comm = NULL;
        }
    }
}

static enum sl_status fail_nccl(struct sl_nccl *nccl, const char *operation, uint32_t rank, ncclResult_t result)
{
    const char *more = nccl->gpu[rank].comm != NULL ? ncclGetLastError(nccl->gpu[rank].comm) : NULL;
    enum sl_status st = sl_fail(
        SL_ENCCL, "NCCL, %s: GPU %d reports: %s%s%.300s; NCCL_DEBUG=WARN says more, --transport starpu does without",
        operation, nccl->gpu[rank].device, ncclGetErrorString(result), more != NULL && more[0] != '\0' ? ": " : "",
        sl_text_or(more, ""));
    abort_all(nccl);
    return st;
}

static enum sl_status fail_cuda(struct sl_nccl *nccl, const char *operation, uint32_t rank, cudaError_t error)
{
    enum sl_status st = sl_fail(SL_ECUDA, "NCCL, %s: CUDA reports for GPU %d: %s", operation, nccl->gpu[rank].device,
                                cudaGetErrorString(error));
    cudaGetLastError(); /* clear the error: no other code should find it */
    abort_all(nccl);
    return st;
}

/* "1, 3" */
static void list_gpus(const struct sl_nccl *nccl, const bool *chosen, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < nccl->n; i++) {
        if (chosen[i] && used < bytes) {
            used += (size_t)snprintf(out + used, bytes - used, "%s%d", used > 0 ? ", " : "", nccl->gpu[i].device);
        }
    }
}

static enum sl_status fail_late(struct sl_nccl *nccl, const char *operation, const bool *busy)
{
    char late[256];
    list_gpus(nccl, busy, late, sizeof late);
    enum sl_status st = sl_fail(SL_ENCCL,
                                "NCCL, %s: not done within %.0f s on GPU %s of %u; does another process hold it? "
                                "NCCL_DEBUG=INFO says more, --transport starpu does without",
                                operation, nccl->timeout_s, late, nccl->n);
    abort_all(nccl);
    return st;
}

/* ---- waiting ---- */

/* Whether rank i has no operation in flight. */
static enum sl_status settled(struct sl_nccl *nccl, const char *operation, uint32_t i, bool *out)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = ncclCommGetAsyncError(nccl->gpu[i].comm, &state);
    cudaError_t error;
    *out = false;
    if (result != ncclSuccess || (state != ncclSuccess && state != ncclInProgress)) {
        return fail_nccl(nccl, operation, i, result != ncclSuccess ? result : state);
    }
    if (state == ncclInProgress) {
        return SL_OK; /* NCCL may not have put the operation into the stream yet */
    }
    error = cudaStreamQuery(nccl->gpu[i].stream);
    *out = error == cudaSuccess;
    if (error != cudaSuccess && error != cudaErrorNotReady) {
        return fail_cuda(nccl, operation, i, error);
    }
    return SL_OK;
}

/* Wait until all ranks are settled, or until the timeout. */
static enum sl_status wait_for_all(struct sl_nccl *nccl, const char *operation)
{
    double end_s = sl_clock_s() + nccl->timeout_s;
    for (;;) {
        bool busy[SL_NCCL_MAX_GPUS] = {false};
        bool any = false;
        for (uint32_t i = 0; i < nccl->n; i++) {
            bool done;
            SL_CHECK(settled(nccl, operation, i, &done));
            busy[i] = !done;
            any = any || busy[i];
        }
        if (!any) {
            return SL_OK;
        }
        if (sl_clock_s() > end_s) {
            return fail_late(nccl, operation, busy);
        }
        sched_yield();
    }
}

/* ---- groups ---- */

static enum sl_status begin(struct sl_nccl *nccl, const char *operation)
{
    SL_FAIL_IF(nccl->broken, SL_ENCCL, "NCCL, %s: an operation before this one failed", operation);
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) {
        return fail_nccl(nccl, operation, 0, result);
    }
    return SL_OK;
}

/* Record the first failure. The group must be ended in any case. */
static void note(ncclResult_t result, uint32_t rank, ncclResult_t *first, uint32_t *first_rank)
{
    if (*first == ncclSuccess && result != ncclSuccess && result != ncclInProgress) {
        *first = result;
        *first_rank = rank;
    }
}

/* End the group and wait for its operations. first: the first failure in the group, on GPU `rank`. */
static enum sl_status end(struct sl_nccl *nccl, const char *operation, ncclResult_t first, uint32_t rank)
{
    note(ncclGroupEnd(), rank, &first, &rank);
    if (first != ncclSuccess) {
        return fail_nccl(nccl, operation, rank, first);
    }
    return wait_for_all(nccl, operation);
}

enum sl_status sl_nccl_move(struct sl_nccl *nccl, uint32_t n, const struct sl_nccl_message *messages)
{
    const char *operation = "rows between GPUs";
    ncclResult_t first = ncclSuccess;
    uint32_t rank = 0;
    SL_CHECK(begin(nccl, operation));
    for (uint32_t k = 0; k < n && first == ncclSuccess; k++) {
        const struct sl_nccl_message *m = &messages[k];
        assert(m->from < nccl->n && m->to < nccl->n);
        if (m->bytes > 0) {
            note(
                ncclSend(m->source, m->bytes, ncclInt8, (int)m->to, nccl->gpu[m->from].comm, nccl->gpu[m->from].stream),
                m->from, &first, &rank);
            note(ncclRecv(m->target, m->bytes, ncclInt8, (int)m->from, nccl->gpu[m->to].comm, nccl->gpu[m->to].stream),
                 m->to, &first, &rank);
        }
    }
    return end(nccl, operation, first, rank);
}

enum sl_status sl_nccl_sum(struct sl_nccl *nccl, size_t n_entries, const sl_real *const *source, sl_real *target)
{
    const char *operation = "sum over GPUs";
    ncclResult_t first = ncclSuccess;
    uint32_t rank = 0;
    SL_CHECK(begin(nccl, operation));
    for (uint32_t i = 0; i < nccl->n && first == ncclSuccess; i++) {
        note(ncclReduce(source[i], i == 0 ? target : NULL, n_entries, ncclFloat, ncclSum, 0, nccl->gpu[i].comm,
                        nccl->gpu[i].stream),
             i, &first, &rank);
    }
    return end(nccl, operation, first, rank);
}

/* ---- open, close ---- */

static enum sl_status check_devices(uint32_t n, const int *devices)
{
    SL_FAIL_IF(n == 0 || n > SL_NCCL_MAX_GPUS, SL_EINVAL, "NCCL: found %u GPUs, expected 1 to %d", n, SL_NCCL_MAX_GPUS);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            SL_FAIL_IF(devices[i] == devices[j], SL_EINVAL, "NCCL: found GPU %d twice, expected different ones",
                       devices[i]);
        }
    }
    return SL_OK;
}

static enum sl_status open_streams(struct sl_nccl *nccl)
{
    for (uint32_t i = 0; i < nccl->n; i++) {
        cudaError_t error = cudaSetDevice(nccl->gpu[i].device);
        if (error == cudaSuccess) {
            error = cudaStreamCreateWithFlags(&nccl->gpu[i].stream, cudaStreamNonBlocking);
        }
        if (error != cudaSuccess) {
            return fail_cuda(nccl, "a stream for each GPU", i, error);
        }
    }
    return SL_OK;
}

static enum sl_status open_communicators(struct sl_nccl *nccl)
{
    const char *operation = "a communicator of all GPUs";
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclResult_t first = ncclGetUniqueId(&id);
    uint32_t rank = 0;
    if (first != ncclSuccess) {
        return fail_nccl(nccl, operation, 0, first);
    }
    SL_CHECK(begin(nccl, operation));
    config.blocking = 0;
    for (uint32_t i = 0; i < nccl->n && first == ncclSuccess; i++) {
        ncclResult_t result = ncclUnhandledCudaError;
        if (cudaSetDevice(nccl->gpu[i].device) == cudaSuccess) {
            result = ncclCommInitRankConfig(&nccl->gpu[i].comm, (int)nccl->n, id, (int)i, &config);
        }
        note(result, i, &first, &rank);
    }
    return end(nccl, operation, first, rank);
}

/* NCCL connects two GPUs at their first exchange, and allocates memory on both. A thread that allocates or frees GPU
 * memory at that moment can deadlock with NCCL. Therefore all GPUs connect while nothing else runs. */

#define WARM_ENTRIES 256 /* elements of a message, and of the sum */

/* room[i]: memory on GPU i, WARM_ENTRIES elements to send and WARM_ENTRIES to receive from each of the n GPUs. */
static enum sl_status connect_all(struct sl_nccl *nccl, sl_real *const *room)
{
    SL_FREED struct sl_nccl_message *messages = NULL;
    const sl_real *source[SL_NCCL_MAX_GPUS];
    uint32_t n = nccl->n;
    uint32_t count = 0;
    SL_CHECK(sl_alloc((size_t)n * n, sizeof *messages, "messages", &messages));
    for (uint32_t i = 0; i < n * n; i++) {
        uint32_t from = i / n;
        uint32_t to = i % n;
        if (from != to) {
            messages[count++] = (struct sl_nccl_message){from, to, WARM_ENTRIES * sizeof(sl_real), room[from],
                                                         room[to] + (1 + from) * WARM_ENTRIES};
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        source[i] = room[i];
    }
    SL_CHECK(sl_nccl_move(nccl, count, messages));
    return sl_nccl_sum(nccl, WARM_ENTRIES, source, room[0] + WARM_ENTRIES);
}

static enum sl_status warm_up(struct sl_nccl *nccl)
{
    sl_real *room[SL_NCCL_MAX_GPUS] = {NULL};
    size_t bytes = (1 + (size_t)nccl->n) * WARM_ENTRIES * sizeof(sl_real);
    cudaError_t error = cudaSuccess;
    enum sl_status st = SL_OK;
    for (uint32_t i = 0; i < nccl->n && error == cudaSuccess; i++) {
        error = cudaSetDevice(nccl->gpu[i].device);
        if (error == cudaSuccess) {
            error = cudaMalloc((void **)&room[i], bytes);
        }
        if (error == cudaSuccess) {
            error = cudaMemsetAsync(room[i], 0, bytes, nccl->gpu[i].stream);
        }
        if (error != cudaSuccess) {
            st = fail_cuda(nccl, "memory to connect all GPUs", i, error);
        }
    }
    if (st == SL_OK) {
        st = connect_all(nccl, room);
    }
    for (uint32_t i = 0; i < nccl->n; i++) {
        cudaFree(room[i]);
    }
    return st;
}

enum sl_status sl_nccl_open(uint32_t n, const int *devices, double timeout_s, struct sl_nccl **out)
{
    struct sl_nccl *nccl = NULL;
    int current = 0; /* the caller's device, restored at the end */
    enum sl_status st;
    *out = NULL;
    cudaGetDevice(&current);
    SL_TRY(st, check_devices(n, devices), failed);
    SL_TRY(st, sl_alloc_zero(1, sizeof *nccl, "a communicator", &nccl), failed);
    nccl->n = n;
    nccl->timeout_s = timeout_s;
    for (uint32_t i = 0; i < n; i++) {
        nccl->gpu[i].device = devices[i];
    }
    SL_TRY(st, open_streams(nccl), failed);
    SL_TRY(st, open_communicators(nccl), failed);
    SL_TRY(st, warm_up(nccl), failed);
    *out = nccl;
    cudaSetDevice(current);
    return SL_OK;
failed:
    sl_nccl_close(nccl);
    cudaSetDevice(current);
    cudaGetLastError(); /* clear the error: no other code should find it */
    return st;
}

/* No operation is in flight, so abort releases at once. Unlike ncclCommDestroy, it waits for no other rank. */
void sl_nccl_close(struct sl_nccl *nccl)
{
    if (nccl == NULL) {
        return;
    }
    abort_all(nccl);
    for (uint32_t i = 0; i < nccl->n; i++) {
        if (nccl->gpu[i].stream != NULL) {
            cudaStreamDestroy(nccl->gpu[i].stream);
        }
    }
    sl_free(nccl);
}

#else

bool sl_nccl_built(void)
{
    return false;
}

static enum sl_status no_nccl(void)
{
    return sl_fail(SL_ENOTSUP, "NCCL: this build has none; configure says where it looked (--with-nccl=DIR)");
}

enum sl_status sl_nccl_open(uint32_t n, const int *devices, double timeout_s, struct sl_nccl **out)
{
    (void)n;
    (void)devices;
    (void)timeout_s;
    *out = NULL;
    return no_nccl();
}

void sl_nccl_close(struct sl_nccl *nccl)
{
    (void)nccl;
}

enum sl_status sl_nccl_move(struct sl_nccl *nccl, uint32_t n, const struct sl_nccl_message *messages)
{
    (void)nccl;
    (void)n;
    (void)messages;
    return no_nccl();
}

enum sl_status sl_nccl_sum(struct sl_nccl *nccl, size_t n_entries, const sl_real *const *source, sl_real *target)
{
    (void)nccl;
    (void)n_entries;
    (void)source;
    (void)target;
    return no_nccl();
}

#endif
