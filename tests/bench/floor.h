/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The work that an epoch cannot do without, counted from the sizes of its blocks alone and never from what codelets
 * say of themselves. What a machine needs for it is tests/bench/ceilings.h.
 *
 * Level l of a step is its frontier: level 0 the seeds, level L the input rows; hop l joins level l + 1 to level l.
 * Layer i takes level L - i to level L - i - 1. V_l vertices, E_l edges and T_l references (ids that a PE asks of
 * an owner, itself included) are sums over the steps and PEs of an epoch. With F columns in and H out, and w =
 * min(F, H), the width of the rows that are averaged:
 *
 *   sample    two random cache lines per destination and one per edge            2 V_l + E_l lines
 *   merge     id, place, row and inverse of each reference                       16 T_l bytes
 *   gather    each input row is read and written                                 8 F V_L bytes
 *   dense     2 m n k flops a product: self rows in forward, W in backward, X in backward but not at the first
 *             layer; the neighbours' products on V_l rows of means, or, where F > H, on the V_(l+1) rows before they
 *               are averaged
 *   aggregate read along the edges, written once, each way                       4 w (E_l + V_l) bytes
 *
 * These five make the floor. Pack, activation, loss, reduction and optimiser are counted so that their rates can be
 * judged, but a perfect program could fuse them away.
 *
 * What sampling cannot do without besides lines is counted for its own ceiling, not for the floor. R_l draws of hop
 * l: four random numbers each, for the destinations with more in-neighbours than the fanout, k of them:
 *
 *   draws     the random numbers, by counter                                     ceil(k / 4) each
 *   marks     each edge's source is marked among all ids, so that it is listed once, and looked up for its place
 *             in the list
 *   order     the edges by source, the block of backward: a stable counting sort of E_l edges by T_l sources
 *   writing   offsets, sources, back offsets and request, in order               4 (V_l + E_l + 2 T_l) bytes
 *
 * The picks' own arithmetic, none twice and in order, is left out, as are the reads of what was written a moment
 * before.
 */
#ifndef SL_TESTS_BENCH_FLOOR_H
#define SL_TESTS_BENCH_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/plan/settings.h"

/* What bounds a piece of work, and the unit it is counted in. */
enum bench_limit {
    BENCH_PRODUCT,        /* flops of C [m x n] = A [m x k] B [k x n] */
    BENCH_PRODUCT_INPUT,  /* flops of C [m x n] = A [m x k] B^T, B [n x k] */
    BENCH_PRODUCT_WEIGHT, /* flops of C [m x n] = A^T B, A [k x m], B [k x n] */
    BENCH_ROWS,           /* bytes read and written: m rows of n numbers, picked at random from k */
    BENCH_LINES,          /* cache lines read at random from k */
    BENCH_COPY,           /* bytes read and written, k of each in one go */
    BENCH_DRAWS,          /* times four random numbers */
    BENCH_MARKS,          /* m ids below k, each marked in a bitmap and looked up */
    BENCH_ORDER,          /* m items brought into the order of their keys, which are below k */
};

/* One kind of work of an epoch: what one codelet does in one layer or hop. */
struct bench_work {
    const char *codelet; /* its name in StarPU, which is where its time is counted */
    int layer;           /* or hop; -1: none */
    enum bench_limit limit;
    double units;       /* flops, bytes, lines, .. of `limit`, that this codelet has to do */
    double floor_units; /* those of them that count for the floor */
    uint32_t m, n, k;   /* the shape of one task, for the ceiling; each at least 1 */
};

/* The sizes of an epoch. */
struct bench_shape {
    uint32_t n_layers;                 /* L */
    uint32_t width[SL_MAX_LAYERS + 1]; /* layer i: width[i] in, width[i + 1] out */
    uint32_t n_vertices, n_parts;      /* the graph's */
    uint64_t n_edges;
    uint64_t n_steps;                     /* of the epoch */
    uint32_t n_pes, n_chunks;             /* tasks that a level is split into: P x chunks a step */
    uint64_t vertices[SL_MAX_LAYERS + 1]; /* V_l */
    uint64_t edges[SL_MAX_LAYERS];        /* E_l, by hop */
    uint64_t references[SL_MAX_LAYERS];   /* T_l */
    uint64_t remote[SL_MAX_LAYERS];       /* those of them that another PE owns */
    uint64_t draws[SL_MAX_LAYERS];        /* R_l; none where the sampler is not `neighbor` */
    bool is_sparse;      /* input rows as CSR: the first layer projects first and nothing is gathered */
    uint64_t n_nonzeros; /* entries of the input rows, where sparse */
};

#define BENCH_MAX_WORK (18 * SL_MAX_LAYERS + 4) /* of a layer, and of an epoch */

struct bench_floor {
    uint32_t n;
    struct bench_work work[BENCH_MAX_WORK];
};

/* Count an epoch's work. n_layers is at most SL_MAX_LAYERS, n_steps, n_pes, n_chunks and n_parts are at least 1. */
void bench_floor_count(const struct bench_shape *shape, struct bench_floor *out);

/* Seconds of one worker for all of the floor; rates[i] in units of work[i] a second. */
double bench_floor_seconds(const struct bench_floor *floor, const double *rates);

#endif
