/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Counter-based random numbers: a number depends only on its counter, not on earlier draws.
 *
 * The generator is Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) from
 * Random123, whose header also works in CUDA. The key is the run's seed. The counter is (purpose, step, hop,
 * vertex, draw). `vertex` is always the dataset's own id, so partitions, schedulers, threads and devices cannot
 * change a draw. All functions are pure and thread safe.
 */
#ifndef SL_SUPPORT_RANDOM_H
#define SL_SUPPORT_RANDOM_H

#include <Random123/philox.h>
#include <math.h>
#include <stdint.h>

#include "support/ln.h" /* SL_HOST_DEVICE too */

/* The purpose of a number. Equal counters with different purposes give independent numbers. At most 255. */
enum sl_purpose {
    SL_FOR_INITIALISATION = 1, /* weights: step = parameter, vertex = row, draw = column */
    SL_FOR_PERMUTATION = 2,    /* order of the training vertices: step = epoch */
    SL_FOR_SAMPLING = 3,       /* in-neighbours: step, hop, vertex; draw = number of the pick */
    SL_FOR_DROPOUT = 4,        /* masks: step, hop, vertex; draw = column / 8 */
    SL_FOR_KAPPA = 5,          /* slowly changing variates of dependent minibatches */
    SL_FOR_GENERATOR = 6,      /* synthetic datasets */
    SL_FOR_GOSSIP = 7,         /* gossip positions: step = number of the shuffle, vertex = position */
    SL_FOR_CHUNKS = 8,         /* order of a way's chunks: step = epoch, vertex = way, draw = position */
    SL_FOR_FEATURES = 9,       /* --features random: draw = column */
    SL_FOR_NEGATIVES = 10,     /* of links: step = epoch, vertex = link; codelets/sampling/link_seeds.h */
    SL_FOR_SCORES = 11,        /* negatives for scores: vertex = link */
    SL_FOR_EVALUATION = 13,    /* in-neighbours of --score-fanout: vertex; draw = number of the pick / 4 */
    SL_FOR_SPLIT = 12          /* random splits: vertices, step = 0; links, step = 1 + relation, the two ends */
};

/* The part of a counter that many draws share. `step` counts over the whole run. */
struct sl_draw {
    uint64_t seed;
    uint64_t step;    /* below 2^48 */
    uint32_t purpose; /* enum sl_purpose */
    uint32_t hop;     /* 0 at the seeds; below 256 */
};

/* Four independent uniform 32-bit numbers for (where, vertex, draw). */
static inline SL_HOST_DEVICE void sl_random4(const struct sl_draw *where, uint32_t vertex, uint32_t draw,
                                             uint32_t out[4])
{
    philox4x32_key_t key;
    philox4x32_ctr_t counter;
    key.v[0] = (uint32_t)where->seed;
    key.v[1] = (uint32_t)(where->seed >> 32);
    counter.v[0] = vertex;
    counter.v[1] = draw;
    counter.v[2] = (uint32_t)where->step;
    counter.v[3] = (uint32_t)(where->step >> 32) | where->hop << 16 | where->purpose << 24;
    counter = philox4x32(counter, key);
    for (int i = 0; i < 4; i++) {
        out[i] = counter.v[i];
    }
}

/* One uniform 64-bit number for (where, vertex, draw). */
static inline SL_HOST_DEVICE uint64_t sl_random_u64(const struct sl_draw *where, uint32_t vertex, uint32_t draw)
{
    uint32_t r[4];
    sl_random4(where, vertex, draw, r);
    return (uint64_t)r[0] << 32 | r[1];
}

/* A uniform number in [0, 1), 53 bits. */
static inline SL_HOST_DEVICE double sl_random_unit(const struct sl_draw *where, uint32_t vertex, uint32_t draw)
{
    return (double)(sl_random_u64(where, vertex, draw) >> 11) * 0x1p-53;
}

/* A uniform number in the open interval (0, 1), 52 bits, from 64 random bits. The normal quantile of the result is
 * finite. */
static inline SL_HOST_DEVICE double sl_unit_open(uint64_t bits)
{
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

/* A uniform number in (0, 1), 52 bits. */
static inline SL_HOST_DEVICE double sl_random_open(const struct sl_draw *where, uint32_t vertex, uint32_t draw)
{
    return sl_unit_open(sl_random_u64(where, vertex, draw));
}

/* A uniform integer in [0, n), n >= 1, from 32 random bits (Lemire 2019, without rejection: a pick must take a fixed
 * number of draws). The relative error of a value's probability is below n / 2^32. */
static inline SL_HOST_DEVICE uint32_t sl_random_below(uint32_t bits, uint32_t n)
{
    return (uint32_t)((uint64_t)bits * n >> 32);
}

/* ---- the standard normal quantile ----
 *
 * Acklam's rational approximations for u in (0, 1), with a relative error below 1.2e-9. They use only +, *, /, sqrt
 * and sl_ln, so CPU and GPU get the same bits (compile without contraction). */

#define SL_NORMAL_TAIL 0.02425 /* the tails are u < 0.02425 and u > 1 - 0.02425 */

static inline SL_HOST_DEVICE int sl_normal_in_tail(double u)
{
    return u < SL_NORMAL_TAIL || u > 1 - SL_NORMAL_TAIL;
}

/* The quantile of u in a tail. */
static inline SL_HOST_DEVICE double sl_normal_quantile_tail(double u)
{
    const double c[6] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                         -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
    const double d[4] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
    double q = sqrt(-2 * sl_ln(u < SL_NORMAL_TAIL ? u : 1 - u));
    double x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
               ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    return u < SL_NORMAL_TAIL ? x : -x;
}

/* The quantile of u outside the tails. */
static inline SL_HOST_DEVICE double sl_normal_quantile_middle(double u)
{
    const double a[6] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                         1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
    const double b[5] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                         -1.328068155288572e+01};
    double q = u - 0.5;
    double r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

static inline SL_HOST_DEVICE double sl_normal_quantile(double u)
{
    return sl_normal_in_tail(u) ? sl_normal_quantile_tail(u) : sl_normal_quantile_middle(u);
}

#endif
