/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Where PEs live. Homes are StarPU's workers, one after the other: the GPUs' if there are any, else all. PE p of P is at home at home
 * floor(p n / P) of n, so that PEs spread evenly over GPUs, and over all NUMA nodes.
 */
#ifndef SL_CODELETS_HOME_H
#define SL_CODELETS_HOME_H

#include <stdbool.h>
#include <stdint.h>

/* Place i of n things that are spread over as many places, each of which gets neighbours. */
static inline uint32_t sl_spread(uint32_t i, uint32_t n, uint32_t n_places)
{
    return (uint32_t)((uint64_t)i * n_places / n);
}

struct sl_homes {
    uint32_t n_pes;    /* P; with several ranks those of this one, */
    uint32_t first_pe; /* from here on: PEs of others count as the first or the last of these */
    uint32_t n;
    uint32_t first_worker;
    bool gpus; /* they are GPUs' */
};

/* Look StarPU's workers up for n_pes PEs; StarPU is up. */
void sl_homes_find(uint32_t n_pes, struct sl_homes *out);

/* The number of a PE among these. */
static inline uint32_t sl_homes_number(const struct sl_homes *homes, uint32_t pe)
{
    uint32_t i = pe < homes->first_pe ? 0 : pe - homes->first_pe;
    return i < homes->n_pes ? i : homes->n_pes - 1;
}

/* The homes that a PE has to itself where there are more homes than PEs; else its home. */
struct sl_home_range {
    uint32_t first, n;
};
static inline struct sl_home_range sl_home_range(const struct sl_homes *homes, uint32_t pe)
{
    uint32_t i = sl_homes_number(homes, pe);
    uint32_t first = sl_spread(i, homes->n_pes, homes->n);
    uint32_t end = sl_spread(i + 1, homes->n_pes, homes->n);
    return (struct sl_home_range){first, end > first ? end - first : 1};
}

/* The home of a PE, which with GPUs is the number of its GPU, and its worker. */
static inline uint32_t sl_home_of(const struct sl_homes *homes, uint32_t pe)
{
    return sl_home_range(homes, pe).first;
}

static inline int sl_home_worker(const struct sl_homes *homes, uint32_t pe)
{
    return (int)(homes->first_worker + sl_home_of(homes, pe));
}

/* The first PE at this home or, where there is none, after it; the last PE where there is none either. */
static inline uint32_t sl_home_first_pe(const struct sl_homes *homes, uint32_t home)
{
    uint32_t p = (uint32_t)(((uint64_t)home * homes->n_pes + homes->n - 1) / homes->n);
    return p < homes->n_pes ? p : homes->n_pes - 1;
}

#endif
