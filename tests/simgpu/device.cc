/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Simulated GPUs behind the functions of CUDA's runtime that StarPU and Starling call, compiled against CUDA's own
 * header. A program that has these functions offers them to the shared libraries it is linked with, in place of
 * libcudart's. One lock: one piece of work at a time. */
#include "tests/simgpu/device.h"

#include <cuda_runtime_api.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

struct CUstream_st {
    int gpu;
    bool waits_for_default; /* and the default stream for it */
    std::deque<sl_device_work> work;
};

struct CUevent_st {
    CUstream_st *stream;
    std::shared_ptr<double> done_s; /* 0: not yet; NULL: never recorded */
};

namespace
{

enum { ALIGNMENT = 256, GUARD_BYTES = 256, RUBBISH = 0xa5, MOST_GPUS = 32, PAGE = 4096, WINDOW = 64 << 20 };
constexpr uintptr_t SMALL = 1 << 20; /* no address ends in a number below: where GPUs have theirs, for certain */

struct Gpu {
    size_t number;                   /* the machine's */
    char *base;                      /* the addresses that the program has: always closed */
    char *behind;                    /* the same memory, for the GPU's own work */
    size_t bytes, used, next;        /* next: where to look for room first */
    std::map<size_t, size_t> pieces; /* from where to how many bytes, as asked for */
    std::set<CUstream_st *> streams;
    CUstream_st by_default;
};

std::mutex transport;
std::vector<Gpu> gpus;
std::map<uintptr_t, size_t> pinned; /* main memory: from where to how many bytes */
std::once_flag begun;
thread_local int current;
thread_local cudaError_t last = cudaSuccess;

cudaError_t answer(cudaError_t error)
{
    if (error != cudaSuccess) {
        last = error;
    }
    return error;
}

[[noreturn]] void stop(const char *label, size_t bytes)
{
    fprintf(stderr, "simulated GPU: %s (%zu)\n", label, bytes);
    abort();
}

/* ---- the machine ---- */

size_t number_from(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text == nullptr ? otherwise : strtoul(text, nullptr, 10);
}

/* The machine's numbers of those that the program sees. */
std::vector<size_t> see(size_t n)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    std::vector<size_t> seen;
    for (size_t g = 0; visible == nullptr && g < n; g++) {
        seen.push_back(g);
    }
    for (const char *at = visible; at != nullptr && *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        size_t g = strtoul(at, nullptr, 10);
        if (g >= n) { /* CUDA, too, sees none after one that is not there */
            break;
        }
        seen.push_back(g);
    }
    return seen;
}

void begin()
{
    const std::vector<size_t> seen = see(number_from("SL_EMULATED_GPUS", 1));
    if (seen.size() > MOST_GPUS) {
        stop("more of them than there can be", seen.size());
    }
    gpus = std::vector<Gpu>(seen.size());
    for (size_t g = 0; g < gpus.size(); g++) {
        gpus[g].number = seen[g];
        gpus[g].bytes = number_from("SL_EMULATED_GPU_MIB", 2048) << 20;
        if (gpus[g].bytes + SMALL > UINT64_C(1) << 32) {
            stop("more memory than it can have", gpus[g].bytes);
        }
        int file = memfd_create("simulated GPU", 0);
        if (file < 0 || ftruncate(file, (off_t)gpus[g].bytes) != 0) {
            stop("no memory for it", gpus[g].bytes);
        }
        char *room = (char *)mmap(nullptr, gpus[g].bytes + (UINT64_C(1) << 33), PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        char *from = (char *)((((uintptr_t)room >> 32) + 1) << 32) + SMALL;
        gpus[g].base = (char *)mmap(from, gpus[g].bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0);
        gpus[g].behind = (char *)mmap(nullptr, gpus[g].bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (room == MAP_FAILED || gpus[g].base == MAP_FAILED || gpus[g].behind == MAP_FAILED) {
            stop("no room in the process for its memory", gpus[g].bytes);
        }
        gpus[g].by_default = {(int)g, false, {}};
    }
}

/* Every function of CUDA's begins here: one at a time, and the machine is there. */
std::unique_lock<std::mutex> enter()
{
    std::call_once(begun, begin);
    return std::unique_lock<std::mutex>(transport);
}

bool exists(int gpu)
{
    return gpu >= 0 && (size_t)gpu < gpus.size();
}

/* ---- memory ---- */

/* Whose memory this is; -1: main memory. */
int gpu_of(const void *address)
{
    for (size_t g = 0; g < gpus.size(); g++) {
        const char *a = (const char *)address;
        if (a >= gpus[g].base && a < gpus[g].base + gpus[g].bytes) {
            return (int)g;
        }
    }
    return -1;
}

/* Where this file reaches what the program knows by this address. */
void *reached(const void *address)
{
    int g = gpu_of(address);
    return g < 0 ? (void *)(uintptr_t)address : gpus[(size_t)g].behind + ((const char *)address - gpus[(size_t)g].base);
}

size_t room_for(size_t bytes)
{
    return (bytes + GUARD_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The beginning of a gap at or behind `from`; the GPU's size if there is none. */
size_t find_gap(const Gpu &gpu, size_t from, size_t room)
{
    auto piece = gpu.pieces.upper_bound(from);
    if (piece != gpu.pieces.begin()) {
        auto before = std::prev(piece);
        size_t end = before->first + room_for(before->second);
        from = end > from ? end : from;
    }
    while (piece != gpu.pieces.end() && piece->first < from + room) {
        from = piece->first + room_for(piece->second);
        ++piece;
    }
    return from + room <= gpu.bytes ? from : gpu.bytes;
}

cudaError_t take(int g, size_t bytes, void **out)
{
    Gpu &gpu = gpus[(size_t)g];
    size_t room = room_for(bytes);
    size_t at = find_gap(gpu, gpu.next, room);
    *out = nullptr;
    if (at == gpu.bytes) {
        at = find_gap(gpu, 0, room);
    }
    if (at == gpu.bytes) {
        return cudaErrorMemoryAllocation;
    }
    gpu.pieces[at] = bytes;
    gpu.used += room;
    gpu.next = at + room < gpu.used + WINDOW ? at + room : 0;
    *out = gpu.base + at;
    memset(gpu.behind + at, RUBBISH, room);
    return cudaSuccess;
}

cudaError_t put_back(void *address)
{
    int g = gpu_of(address);
    if (g < 0) {
        return cudaErrorInvalidValue;
    }
    Gpu &gpu = gpus[(size_t)g];
    auto piece = gpu.pieces.find((size_t)((char *)address - gpu.base));
    if (piece == gpu.pieces.end()) {
        return cudaErrorInvalidValue;
    }
    size_t bytes = piece->second;
    unsigned char *data = (unsigned char *)reached(address);
    for (size_t i = bytes; i < room_for(bytes); i++) {
        if (data[i] != RUBBISH) {
            stop("something wrote beyond the end of an allocation", bytes);
        }
    }
    memset(data, RUBBISH, bytes);
    gpu.used -= room_for(bytes);
    gpu.pieces.erase(piece);
    return cudaSuccess;
}

/* Whether these bytes are within one allocation of that GPU. */
bool is_allocated(int g, const void *address, size_t bytes)
{
    const Gpu &gpu = gpus[(size_t)g];
    size_t at = (size_t)((const char *)address - gpu.base);
    auto piece = gpu.pieces.upper_bound(at);
    return piece != gpu.pieces.begin() && at + bytes <= std::prev(piece)->first + std::prev(piece)->second;
}

bool is_pinned(const void *address, size_t bytes)
{
    auto next = pinned.upper_bound((uintptr_t)address);
    return next != pinned.begin() && (uintptr_t)address + bytes <= std::prev(next)->first + std::prev(next)->second;
}

/* CUDA pins whole pages, each once. */
bool shares_page(uintptr_t from, size_t bytes)
{
    for (const auto &other : pinned) {
        if (from / PAGE <= (other.first + other.second - 1) / PAGE && other.first / PAGE <= (from + bytes - 1) / PAGE) {
            return true;
        }
    }
    return false;
}

/* ---- streams ---- */

/* Do the first piece of work; false: there is none, or it waits for another stream. */
bool step(CUstream_st *stream)
{
    if (stream->work.empty()) {
        return false;
    }
    if (!stream->work.front()()) {
        return false;
    }
    stream->work.pop_front();
    return true;
}

bool step_others(const CUstream_st *stream)
{
    bool any = false;
    for (Gpu &gpu : gpus) {
        any |= &gpu.by_default != stream && step(&gpu.by_default);
        for (CUstream_st *other : gpu.streams) {
            any |= other != stream && step(other);
        }
    }
    return any;
}

void drain(std::unique_lock<std::mutex> &lock, CUstream_st *stream)
{
    while (!stream->work.empty()) {
        if (!step(stream) && !step_others(stream)) {
            lock.unlock();
            sched_yield();
            lock.lock();
        }
    }
}

void drain_gpu(std::unique_lock<std::mutex> &lock, Gpu *gpu)
{
    drain(lock, &gpu->by_default);
    for (CUstream_st *stream : std::set<CUstream_st *>(gpu->streams)) {
        if (gpu->streams.count(stream) > 0) { /* it may have been destroyed meanwhile */
            drain(lock, stream);
        }
    }
}

/* The stream meant, ready to be given something: the default stream and those that wait for it take turns. */
CUstream_st *turn(std::unique_lock<std::mutex> &lock, cudaStream_t stream)
{
    Gpu *gpu = &gpus[(size_t)(stream != nullptr ? stream->gpu : current)];
    if (stream != nullptr && stream->waits_for_default) {
        drain(lock, &gpu->by_default);
    }
    for (CUstream_st *other : std::set<CUstream_st *>(stream == nullptr ? gpu->streams : std::set<CUstream_st *>())) {
        if (other->waits_for_default) {
            drain(lock, other);
        }
    }
    return stream != nullptr ? stream : &gpu->by_default;
}

double now_s()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- copies ---- */

/* Rows of `width` bytes, from pitch to pitch. */
struct Copy {
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, height;

    size_t span(size_t pitch) const
    {
        return height == 0 ? 0 : (height - 1) * pitch + width;
    }
    void run() const
    {
        for (size_t i = 0; i < height; i++) {
            memmove((char *)reached(to) + i * to_pitch, (const char *)reached(from) + i * from_pitch, width);
        }
    }
};

cudaError_t check_copy(const Copy &copy, cudaMemcpyKind kind)
{
    int from = gpu_of(copy.from);
    int to = gpu_of(copy.to);
    cudaMemcpyKind found = from >= 0 ? to >= 0 ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost
                           : to >= 0 ? cudaMemcpyHostToDevice
                                     : cudaMemcpyHostToHost;
    if (kind != cudaMemcpyDefault && kind != found) {
        return cudaErrorInvalidMemcpyDirection;
    }
    if ((from >= 0 && !is_allocated(from, copy.from, copy.span(copy.from_pitch))) ||
        (to >= 0 && !is_allocated(to, copy.to, copy.span(copy.to_pitch)))) {
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

/* A copy within main memory is none of a GPU's. */
void count_copy(const Copy &copy, bool pageable)
{
    int from = gpu_of(copy.from);
    int to = gpu_of(copy.to);
    if (from >= 0 || to >= 0) {
        sl_count_copy(from < 0     ? SL_COUNTED_TO_GPU
                      : to < 0     ? SL_COUNTED_TO_HOST
                      : from == to ? SL_COUNTED_WITHIN_GPU
                                   : SL_COUNTED_BETWEEN_GPUS,
                      copy.width * copy.height, pageable);
    }
}

/* From main memory that is not pinned CUDA takes a copy before it returns; to such memory it returns when all is
 * there. */
cudaError_t give_copy(std::unique_lock<std::mutex> &lock, Copy copy, cudaMemcpyKind kind, cudaStream_t stream,
                      bool waits)
{
    cudaError_t error = check_copy(copy, kind);
    if (error != cudaSuccess || copy.width == 0 || copy.height == 0) {
        return answer(error);
    }
    const bool from_pageable = gpu_of(copy.from) < 0 && !is_pinned(copy.from, copy.span(copy.from_pitch));
    const bool to_pageable = gpu_of(copy.to) < 0 && !is_pinned(copy.to, copy.span(copy.to_pitch));
    count_copy(copy, from_pageable || to_pageable);
    CUstream_st *given = turn(lock, stream);
    std::shared_ptr<std::vector<char>> kept;
    if (from_pageable) {
        const char *begin = (const char *)copy.from;
        kept = std::make_shared<std::vector<char>>(begin, begin + copy.span(copy.from_pitch));
        copy.from = kept->data();
    }
    given->work.push_back([copy, kept] {
        copy.run();
        return true;
    });
    if (waits) {
        sl_count(SL_COUNTED_WAITS);
    }
    if (waits || to_pageable) {
        drain(lock, given);
    }
    return cudaSuccess;
}

Copy copy_of(const cudaMemcpy3DPeerParms *p)
{
    if (p->srcArray != nullptr || p->dstArray != nullptr || p->extent.depth != 1 || p->srcPos.y + p->srcPos.z > 0 ||
        p->dstPos.y + p->dstPos.z > 0) {
        stop("a copy in three dimensions", p->extent.depth);
    }
    return {(char *)p->dstPtr.ptr + p->dstPos.x,
            (const char *)p->srcPtr.ptr + p->srcPos.x,
            p->dstPtr.pitch,
            p->srcPtr.pitch,
            p->extent.width,
            p->extent.height};
}

} // namespace

/* ---- to the stand-ins of kernels and libraries ---- */

void sl_device_give(CUstream_st *stream, enum sl_counted kind, sl_device_work work)
{
    auto lock = enter();
    sl_count(kind);
    turn(lock, stream)->work.push_back(std::move(work));
}

void *sl_device_find(CUstream_st *stream, const void *address)
{
    int g = gpu_of(address);
    if (address != nullptr && (g < 0 ? !is_pinned(address, 1) : stream != nullptr && g != stream->gpu)) {
        stop("a library works on memory that is not its GPU's, nor pinned", (size_t)address);
    }
    return reached(address);
}

static bool is_mapped(uintptr_t address)
{
    unsigned char resident;
    return mincore((void *)(address / PAGE * PAGE), 1, &resident) == 0;
}

/* Whether this is an address of the process that is neither a GPU's nor pinned. 0x55.. and 0x7f.. is where Linux
 * puts programs, heaps, libraries and stacks; a small number below what is left of one in a struct's padding is
 * none. */
static bool is_main_memory(uintptr_t word)
{
    uintptr_t top = word >> 40;
    bool may_be = (top == 0x7f || top == 0x7e || top == 0x55 || top == 0x56) && (word & 0xffffffff) >= SMALL;
    return may_be && gpu_of((void *)word) < 0 && !is_pinned((void *)word, 1) && is_mapped(word);
}

/* Whether this is an address in, or just behind, something allocated on that GPU; a number beside what is left of
 * an address in a struct's padding is none. */
static bool is_own(int g, uintptr_t word)
{
    const Gpu &gpu = gpus[(size_t)g];
    if (gpu_of((void *)word) != g || (word & 0xffffffff) < SMALL) {
        return false;
    }
    size_t at = (size_t)((char *)word - gpu.base);
    auto piece = gpu.pieces.upper_bound(at);
    return piece != gpu.pieces.begin() && at < std::prev(piece)->first + room_for(std::prev(piece)->second);
}

bool sl_device_takes(CUstream_st *stream, void *argument, size_t bytes)
{
    auto lock = enter();
    if (stream != nullptr && stream->gpu != current) {
        fprintf(stderr, "simulated GPU: a kernel for GPU %d is started while GPU %d is chosen\n", stream->gpu, current);
        return false;
    }
    for (size_t i = 0; i + sizeof(uintptr_t) <= bytes; i += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)argument + i, sizeof word);
        if (is_main_memory(word)) {
            fprintf(stderr, "simulated GPU: a kernel is given %p, main memory that is not pinned\n", (void *)word);
            return false;
        }
        if (is_own(stream != nullptr ? stream->gpu : current, word)) {
            word = (uintptr_t)reached((void *)word);
            memcpy((char *)argument + i, &word, sizeof word);
        }
    }
    return true;
}

/* ---- CUDA's functions ---- */

extern "C" {

cudaError_t cudaGetDeviceCount(int *out)
{
    auto lock = enter();
    *out = (int)gpus.size();
    return answer(gpus.empty() ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int gpu)
{
    auto lock = enter();
    if (!exists(gpu)) {
        return answer(cudaErrorInvalidDevice);
    }
    current = gpu;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *out)
{
    auto lock = enter();
    *out = current;
    return answer(gpus.empty() ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int gpu)
{
    auto lock = enter();
    if (!exists(gpu)) {
        return answer(cudaErrorInvalidDevice);
    }
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "simulated GPU %d", gpu);
    out->totalGlobalMem = gpus[(size_t)gpu].bytes;
    out->major = 9;
    out->warpSize = 32;
    out->maxThreadsPerBlock = 1024;
    out->multiProcessorCount = 2;
    out->asyncEngineCount = 2;
    out->concurrentKernels = 1;
    out->canMapHostMemory = 1;
    out->unifiedAddressing = 1;
    out->pciBusID = gpu + 1;
    memcpy(out->uuid.bytes, &gpus[(size_t)gpu].number, sizeof(size_t));
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr attribute, int gpu)
{
    auto lock = enter();
    *out = attribute == cudaDevAttrComputeCapabilityMajor
               ? 9
               : attribute == cudaDevAttrMemoryPoolsSupported || attribute == cudaDevAttrUnifiedAddressing;
    return answer(exists(gpu) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceCanAccessPeer(int *out, int gpu, int peer)
{
    auto lock = enter();
    *out = gpu != peer;
    return answer(exists(gpu) && exists(peer) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    auto lock = enter();
    return answer(exists(peer) && peer != current && flags == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize(void)
{
    auto lock = enter();
    sl_count(SL_COUNTED_WAITS);
    drain_gpu(lock, &gpus[(size_t)current]);
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    auto lock = enter();
    Gpu *gpu = &gpus[(size_t)current];
    drain_gpu(lock, gpu);
    gpu->pieces.clear();
    gpu->used = 0;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_out, size_t *bytes_out)
{
    auto lock = enter();
    const Gpu &gpu = gpus[(size_t)current];
    *bytes_out = gpu.bytes;
    *free_out = gpu.bytes - gpu.used;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int gpu)
{
    auto lock = enter();
    if (!exists(gpu)) {
        return answer(cudaErrorInvalidDevice);
    }
    *out = (cudaMemPool_t)&gpus[(size_t)gpu];
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return answer(pool != nullptr && attribute == cudaMemPoolAttrReleaseThreshold && value != nullptr
                      ? cudaSuccess
                      : cudaErrorInvalidValue);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    auto lock = enter();
    sl_count(SL_COUNTED_ALLOCATIONS);
    return answer(gpus.empty() ? cudaErrorNoDevice : take(current, bytes, out));
}

/* Waits for whatever may still use it. */
cudaError_t cudaFree(void *data)
{
    auto lock = enter();
    sl_count(SL_COUNTED_ALLOCATIONS);
    int gpu = gpu_of(data);
    if (gpu >= 0) {
        drain_gpu(lock, &gpus[(size_t)gpu]);
    }
    return answer(data == nullptr ? cudaSuccess : put_back(data));
}

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    auto lock = enter();
    sl_count(SL_COUNTED_POOL_CALLS);
    return answer(take(turn(lock, stream)->gpu, bytes, out));
}

cudaError_t cudaFreeAsync(void *data, cudaStream_t stream)
{
    auto lock = enter();
    sl_count(SL_COUNTED_POOL_CALLS);
    turn(lock, stream)->work.push_back([data] {
        if (put_back(data) != cudaSuccess) {
            stop("cudaFreeAsync of what was not allocated", 0);
        }
        return true;
    });
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    auto lock = enter();
    sl_count(SL_COUNTED_ALLOCATIONS);
    *out = aligned_alloc(PAGE, (bytes + PAGE) / PAGE * PAGE);
    if (*out == nullptr) {
        return answer(cudaErrorMemoryAllocation);
    }
    memset(*out, RUBBISH, bytes);
    pinned[(uintptr_t)*out] = bytes;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return cudaHostAlloc(out, bytes, 0);
}

cudaError_t cudaFreeHost(void *data)
{
    auto lock = enter();
    sl_count(SL_COUNTED_ALLOCATIONS);
    for (Gpu &gpu : gpus) {
        drain_gpu(lock, &gpu);
    }
    if (data != nullptr && pinned.erase((uintptr_t)data) == 0) {
        return answer(cudaErrorInvalidValue);
    }
    free(data);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *data, size_t bytes, unsigned flags)
{
    (void)flags;
    auto lock = enter();
    sl_count(SL_COUNTED_ALLOCATIONS);
    if (data == nullptr || bytes == 0) {
        return answer(cudaErrorInvalidValue);
    }
    if (shares_page((uintptr_t)data, bytes)) {
        return answer(cudaErrorHostMemoryAlreadyRegistered);
    }
    pinned[(uintptr_t)data] = bytes;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *data)
{
    auto lock = enter();
    sl_count(SL_COUNTED_ALLOCATIONS);
    for (Gpu &gpu : gpus) {
        drain_gpu(lock, &gpu);
    }
    return answer(pinned.erase((uintptr_t)data) > 0 ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void **out, void *data, unsigned flags)
{
    (void)flags;
    auto lock = enter();
    *out = data;
    return answer(is_pinned(data, 1) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *data)
{
    auto lock = enter();
    int gpu = gpu_of(data);
    memset(out, 0, sizeof *out);
    out->type = gpu >= 0 ? cudaMemoryTypeDevice : is_pinned(data, 1) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    out->device = gpu;
    out->devicePointer = out->type == cudaMemoryTypeUnregistered ? nullptr : (void *)(uintptr_t)data;
    out->hostPointer = gpu >= 0 ? nullptr : (void *)(uintptr_t)data;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    auto lock = enter();
    return give_copy(lock, {to, from, bytes, bytes, bytes, 1}, kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    auto lock = enter();
    return give_copy(lock, {to, from, bytes, bytes, bytes, 1}, kind, nullptr, true);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    auto lock = enter();
    return give_copy(lock, {to, from, to_pitch, from_pitch, width, height}, kind, stream, false);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    auto lock = enter();
    return give_copy(lock, {to, from, to_pitch, from_pitch, width, height}, kind, nullptr, true);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_gpu, const void *from, int from_gpu, size_t bytes, cudaStream_t stream)
{
    auto lock = enter();
    if (gpu_of(to) != to_gpu || gpu_of(from) != from_gpu) {
        return answer(cudaErrorInvalidValue);
    }
    return give_copy(lock, {to, from, bytes, bytes, bytes, 1}, cudaMemcpyDeviceToDevice, stream, false);
}

cudaError_t cudaMemcpyPeer(void *to, int to_gpu, const void *from, int from_gpu, size_t bytes)
{
    auto lock = enter();
    if (gpu_of(to) != to_gpu || gpu_of(from) != from_gpu) {
        return answer(cudaErrorInvalidValue);
    }
    return give_copy(lock, {to, from, bytes, bytes, bytes, 1}, cudaMemcpyDeviceToDevice, nullptr, true);
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    auto lock = enter();
    return give_copy(lock, copy_of(p), cudaMemcpyDeviceToDevice, stream, false);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    auto lock = enter();
    return give_copy(lock, copy_of(p), cudaMemcpyDeviceToDevice, nullptr, true);
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream)
{
    auto lock = enter();
    int gpu = gpu_of(data);
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (gpu < 0 || !is_allocated(gpu, data, bytes)) {
        return answer(cudaErrorInvalidValue);
    }
    sl_count(SL_COUNTED_CLEARS);
    turn(lock, stream)->work.push_back([=] {
        memset(reached(data), value, bytes);
        return true;
    });
    return cudaSuccess;
}

cudaError_t cudaMemset(void *data, int value, size_t bytes)
{
    return cudaMemsetAsync(data, value, bytes, nullptr);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    auto lock = enter();
    *out = nullptr;
    if (gpus.empty()) {
        return answer(cudaErrorNoDevice);
    }
    *out = new CUstream_st{current, flags != cudaStreamNonBlocking, {}};
    gpus[(size_t)current].streams.insert(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    auto lock = enter();
    drain(lock, stream);
    gpus[(size_t)stream->gpu].streams.erase(stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    auto lock = enter();
    CUstream_st *asked = turn(lock, stream);
    step(asked);
    return answer(asked->work.empty() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    auto lock = enter();
    sl_count(SL_COUNTED_WAITS);
    drain(lock, turn(lock, stream));
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    *out = new CUevent_st();
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    auto lock = enter();
    sl_count(SL_COUNTED_EVENTS);
    auto done_s = std::make_shared<double>(0);
    event->stream = turn(lock, stream);
    event->done_s = done_s;
    event->stream->work.push_back([done_s] {
        *done_s = now_s();
        return true;
    });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    auto lock = enter();
    if (event->done_s != nullptr && *event->done_s == 0) {
        step(event->stream);
    }
    return answer(event->done_s == nullptr || *event->done_s != 0 ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t before = last;
    sl_count(SL_COUNTED_WAITS);
    while (cudaEventQuery(event) == cudaErrorNotReady) {
        sched_yield();
    }
    last = before;
    return cudaSuccess;
}

/* The stream goes on when the event has come, and whoever asks for it asks for the event. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    auto lock = enter();
    turn(lock, stream)->work.push_back([source = event->stream, done_s = event->done_s] {
        return done_s == nullptr || *done_s != 0 || (step(source) && *done_s != 0);
    });
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    auto lock = enter();
    if (begin->done_s == nullptr || end->done_s == nullptr) {
        return answer(cudaErrorInvalidResourceHandle);
    }
    *ms = (float)(1e3 * (*end->done_s - *begin->done_s));
    return answer(*begin->done_s == 0 || *end->done_s == 0 ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "cudaErrorOfAMadeUpGpu";
}

const char *cudaGetErrorString(cudaError_t error)
{
    static thread_local char text[64];
    snprintf(text, sizeof text, error == cudaSuccess ? "no error" : "error %d of a simulated GPU", (int)error);
    return text;
}

/* ---- handles of cuBLAS and cuSPARSE; their headers' types, which matter to nobody here ---- */

static int open_library(sl_device_library **out)
{
    *out = new sl_device_library();
    return 0;
}

static int close_library(sl_device_library *library)
{
    delete library;
    return 0;
}

static int set_stream(sl_device_library *library, cudaStream_t stream)
{
    library->stream = stream;
    return 0;
}

int cublasCreate_v2(sl_device_library **out)
{
    return open_library(out);
}

int cublasDestroy_v2(sl_device_library *library)
{
    return close_library(library);
}

int cublasSetStream_v2(sl_device_library *library, cudaStream_t stream)
{
    return set_stream(library, stream);
}

int cublasLtCreate(sl_device_library **out)
{
    return open_library(out);
}

int cublasLtDestroy(sl_device_library *library)
{
    return close_library(library);
}

int cusparseCreate(sl_device_library **out)
{
    return open_library(out);
}

int cusparseDestroy(sl_device_library *library)
{
    return close_library(library);
}

int cusparseSetStream(sl_device_library *library, cudaStream_t stream)
{
    return set_stream(library, stream);
}

/* Of cuBLAS's first interface, which StarPU also starts. */
int cublasInit(void)
{
    return 0;
}

int cublasShutdown(void)
{
    return 0;
}

int cublasSetKernelStream(cudaStream_t stream)
{
    (void)stream;
    return 0;
}

} /* extern "C" */
