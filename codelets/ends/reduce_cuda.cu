/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The sum in a tree: each thread sums some entries, partial sum after partial sum. The addresses of the partial sums
 * are kernel parameters, so a launch takes only some of them. More are added by several launches: subtree by subtree,
 * and inside a leaf from the result so far on. */
#include "codelets/bf16.cuh"

#include "codelets/ends/reduce.h"
#include "codelets/ends/tree.h"

#define AT_ONCE 256 /* partial sums per launch: 2.5 of the 4 KiB of parameters */
#define IN_FLIGHT 8 /* partial sums that a thread loads at a time */

struct terms {
    const void *partial[AT_ONCE];
    uint8_t begins[AT_ONCE]; /* the first of its leaf */
    uint8_t n_met[AT_ONCE];  /* sl_tree_meet */
};

static __device__ float zero(float)
{
    return 0;
}

static __device__ float4 zero(float4)
{
    return make_float4(0, 0, 0, 0);
}

/* out = the sum of n terms; with `more`, they are of one leaf, and out += term_0, then += term_1 .. */
template <typename T>
static __global__ void sum_terms(struct terms terms, uint32_t n, bool more, size_t n_items, T *out)
{
    for (size_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        T waiting[SL_TREE_DEPTH];
        T sum = more ? out[i] : zero(T());
        uint32_t n_waiting = 0;
        for (uint32_t first = 0; first < n; first += IN_FLIGHT) {
            const uint32_t n_here = n - first < IN_FLIGHT ? n - first : IN_FLIGHT;
            T item[IN_FLIGHT];
#pragma unroll
            for (uint32_t j = 0; j < IN_FLIGHT; j++) { /* past the end: load the last again, but do not add it */
                item[j] = static_cast<const T *>(terms.partial[first + (j < n_here ? j : n_here - 1)])[i];
            }
#pragma unroll
            for (uint32_t j = 0; j < IN_FLIGHT; j++) {
                if (j < n_here) {
                    const uint32_t k = first + j;
                    if (terms.begins[k] && k > 0) {
                        waiting[n_waiting++] = sum;
                        sum = zero(T());
                    }
                    sum = sl_plus(sum, item[j]);
                    for (uint32_t met = terms.n_met[k]; met > 0; met--) {
                        sum = sl_plus(waiting[--n_waiting], sum);
                    }
                }
            }
        }
        out[i] = sum;
    }
}

static const char *const name = "sl_reduce";

static bool all_aligned(uint32_t n, const sl_real *const *partials, const sl_real *out)
{
    uintptr_t bits = (uintptr_t)out;
    for (uint32_t k = 0; k < n; k++) {
        bits |= (uintptr_t)partials[k];
    }
    return bits % sizeof(float4) == 0;
}

/* At most AT_ONCE terms. */
static enum sl_status launch(cudaStream_t stream, uint32_t n, bool more, size_t n_entries,
                             const sl_real *const *partials, const uint32_t *leaf, sl_real *out)
{
    const bool quads = n_entries % 4 == 0 && all_aligned(n, partials, out);
    const size_t n_items = quads ? n_entries / 4 : n_entries;
    struct terms terms = {};
    struct sl_tree tree = {};
    for (uint32_t k = 0; k < n; k++) {
        terms.partial[k] = partials[k];
        terms.begins[k] = sl_tree_begins(leaf, k);
        terms.n_met[k] = (uint8_t)sl_tree_meet(&tree, n, leaf, k);
    }
    if (quads) {
        return sl_start(name, stream, sl_blocks(n_items), sum_terms<float4>, terms, n, more, n_items, (float4 *)out);
    }
    return sl_start(name, stream, sl_blocks(n_items), sum_terms<float>, terms, n, more, n_items, out);
}

enum sl_status sl_reduce_cuda(cudaStream_t stream, uint32_t n, size_t n_entries, const sl_real *const *partials,
                              const uint32_t *leaf, sl_real *out)
{
    const uint32_t one[] = {0};
    sl_scratch right(stream);
    uint32_t n_left = 0;
    if (n == 0) {
        return sl_cuda_status(cudaMemsetAsync(out, 0, n_entries * sizeof *out, stream), name);
    }
    if (n <= AT_ONCE) {
        return launch(stream, n, false, n_entries, partials, leaf, out);
    }
    if (leaf[0] == leaf[n - 1]) {
        for (uint32_t k = 0; k < n; k += AT_ONCE) {
            SL_CHECK(launch(stream, sl_least<uint32_t>(n - k, AT_ONCE), k > 0, n_entries, partials + k, leaf + k, out));
        }
        return SL_OK;
    }
    while (sl_tree_meets(leaf[0], leaf[n_left]) < sl_tree_meets(leaf[0], leaf[n - 1])) {
        n_left++;
    }
    SL_CHECK(right.take(n_entries * sizeof *out, name));
    const sl_real *sum = right.as<sl_real>();
    SL_CHECK(sl_reduce_cuda(stream, n_left, n_entries, partials, leaf, out));
    SL_CHECK(sl_reduce_cuda(stream, n - n_left, n_entries, partials + n_left, leaf + n_left, right.as<sl_real>()));
    return launch(stream, 1, true, n_entries, &sum, one, out);
}
