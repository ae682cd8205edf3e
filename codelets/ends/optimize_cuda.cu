/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The sum in a tree, and Adam's step with it: each thread sums some entries, partial sum after partial sum. The
 * addresses of the partial sums are kernel parameters, so a launch takes only some of them. More are added by several
 * launches: subtree by subtree, and inside a leaf from the result so far on. */
#include "codelets/kernel.cuh"

#include "codelets/ends/optimize.h"
#include "codelets/ends/reduce.h"
#include "codelets/ends/tree.h"

#define AT_ONCE 256 /* partial sums per launch: 2.5 of the 4 KiB of parameters */
#define IN_FLIGHT 8 /* partial sums that a thread loads at a time */

struct array {
    size_t n_entries;
    sl_real *sum, *w, *m, *v; /* sum or the others may be NULL */
    uint32_t first, end;      /* terms */
};

struct table {
    struct sl_adam_step step;
    bool more; /* the terms are of one leaf, and sum += term_0, then += term_1 .. */
    uint32_t n_arrays, n_terms;
    size_t n_entries; /* of all arrays */
    struct array array[SL_OPTIMIZE_MOST];
    const sl_real *partial[AT_ONCE];
    uint8_t begins[AT_ONCE]; /* the first of its leaf */
    uint8_t n_met[AT_ONCE];  /* sl_tree_meet */
};

static __device__ sl_real sum_entry(const struct table &t, const struct array &a, size_t i)
{
    sl_real waiting[SL_TREE_DEPTH];
    sl_real sum = t.more ? a.sum[i] : 0;
    uint32_t n_waiting = 0;
    for (uint32_t first = a.first; first < a.end; first += IN_FLIGHT) {
        const uint32_t n_here = sl_least<uint32_t>(a.end - first, IN_FLIGHT);
        sl_real entry[IN_FLIGHT];
#pragma unroll
        for (uint32_t j = 0; j < IN_FLIGHT; j++) { /* past the end: load the last again, but do not add it */
            entry[j] = t.partial[first + (j < n_here ? j : n_here - 1)][i];
        }
#pragma unroll
        for (uint32_t j = 0; j < IN_FLIGHT; j++) {
            if (j < n_here) {
                const uint32_t k = first + j;
                if (t.begins[k] && k > a.first) {
                    waiting[n_waiting++] = sum;
                    sum = 0;
                }
                sum += entry[j];
                for (uint32_t met = t.n_met[k]; met > 0; met--) {
                    sum = waiting[--n_waiting] + sum;
                }
            }
        }
    }
    return sum;
}

/* One array after the other. */
static __global__ void take_entries(const struct table t)
{
    for (uint64_t at = sl_thread(); at < t.n_entries; at += sl_n_threads()) {
        size_t i = at;
        uint32_t k = 0;
        for (; i >= t.array[k].n_entries; k++) {
            i -= t.array[k].n_entries;
        }
        const struct array &a = t.array[k];
        const sl_real sum = sum_entry(t, a, i);
        if (a.sum != nullptr) {
            a.sum[i] = sum;
        }
        if (a.w != nullptr) {
            sl_adam_entry(&t.step, sum, &a.w[i], &a.m[i], &a.v[i]);
        }
    }
}

/* Append an array with at most AT_ONCE terms. */
static void append(const struct sl_optimize_array *a, struct table *t)
{
    struct sl_tree tree = {};
    t->array[t->n_arrays++] = {a->n_entries, a->sum, a->w, a->m, a->v, t->n_terms, t->n_terms + a->n};
    t->n_entries += a->n_entries;
    for (uint32_t k = 0; k < a->n; k++, t->n_terms++) {
        t->partial[t->n_terms] = a->partials[k];
        t->begins[t->n_terms] = sl_tree_begins(a->leaf, k);
        t->n_met[t->n_terms] = (uint8_t)sl_tree_meet(&tree, a->n, a->leaf, k);
    }
}

static enum sl_status launch(cudaStream_t stream, const char *name, const struct table *t)
{
    return sl_start(name, stream, sl_blocks(t->n_entries), take_entries, *t);
}

/* At most AT_ONCE terms. */
static enum sl_status sum_once(cudaStream_t stream, uint32_t n, bool more, size_t n_entries,
                               const sl_real *const *partials, const uint32_t *leaf, sl_real *out)
{
    const struct sl_optimize_array array = {n_entries, n, partials, leaf, out, nullptr, nullptr, nullptr};
    struct table t = {};
    t.more = more;
    append(&array, &t);
    return launch(stream, "sl_reduce", &t);
}

enum sl_status sl_reduce_cuda(cudaStream_t stream, uint32_t n, size_t n_entries, const sl_real *const *partials,
                              const uint32_t *leaf, sl_real *out)
{
    const uint32_t one[] = {0};
    sl_scratch right(stream);
    uint32_t n_left = 0;
    if (n <= AT_ONCE) {
        return sum_once(stream, n, false, n_entries, partials, leaf, out);
    }
    if (leaf[0] == leaf[n - 1]) {
        for (uint32_t k = 0; k < n; k += AT_ONCE) {
            const uint32_t n_here = sl_least<uint32_t>(n - k, AT_ONCE);
            SL_CHECK(sum_once(stream, n_here, k > 0, n_entries, partials + k, leaf + k, out));
        }
        return SL_OK;
    }
    while (sl_tree_meets(leaf[0], leaf[n_left]) < sl_tree_meets(leaf[0], leaf[n - 1])) {
        n_left++;
    }
    SL_CHECK(right.take(n_entries * sizeof *out, "sl_reduce"));
    const sl_real *sum = right.as<sl_real>();
    SL_CHECK(sl_reduce_cuda(stream, n_left, n_entries, partials, leaf, out));
    SL_CHECK(sl_reduce_cuda(stream, n - n_left, n_entries, partials + n_left, leaf + n_left, right.as<sl_real>()));
    return sum_once(stream, 1, true, n_entries, &sum, one, out);
}

/* More terms: first the sum, which is then the only term. */
static enum sl_status update_sum(cudaStream_t stream, const struct sl_adam *adam, const struct sl_optimize_array *a)
{
    const uint32_t one[] = {0};
    sl_scratch room(stream);
    sl_real *out = a->sum;
    if (out == nullptr) {
        SL_CHECK(room.take(a->n_entries * sizeof *out, "sl_optimize"));
        out = room.as<sl_real>();
    }
    const sl_real *sum = out;
    const struct sl_optimize_array summed = {a->n_entries, 1, &sum, one, nullptr, a->w, a->m, a->v};
    SL_CHECK(sl_reduce_cuda(stream, a->n, a->n_entries, a->partials, a->leaf, out));
    return sl_optimize_cuda(stream, adam, 1, &summed);
}

enum sl_status sl_optimize_cuda(cudaStream_t stream, const struct sl_adam *adam, uint32_t n,
                                const struct sl_optimize_array *arrays)
{
    struct table t = {};
    t.step = sl_adam_step(adam);
    for (uint32_t i = 0; i < n; i++) {
        if (arrays[i].n > AT_ONCE) {
            SL_CHECK(update_sum(stream, adam, &arrays[i]));
            continue;
        }
        if (t.n_terms + arrays[i].n > AT_ONCE) {
            SL_CHECK(launch(stream, "sl_optimize", &t));
            t.n_arrays = t.n_terms = 0;
            t.n_entries = 0;
        }
        append(&arrays[i], &t);
    }
    return launch(stream, "sl_optimize", &t);
}
