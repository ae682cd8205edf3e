/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Homes of PEs. A home is a StarPU worker: homes are the GPUs' workers if there are any, otherwise all workers. A GPU
 * that is the only one may have two workers; the first is the home. With n homes, PE p of P lives at home
 * floor(p n / P). PEs therefore spread evenly over the GPUs, or over the cores of all NUMA nodes.
 */
#ifndef SL_TASKS_HOME_H
#define SL_TASKS_HOME_H

#include <stdbool.h>
#include <stdint.h>

/* The place of item i if n items are spread evenly over n_places places. Adjacent items get the same or adjacent
 * places. */
static inline uint32_t sl_spread(uint32_t i, uint32_t n, uint32_t n_places)
{
    return (uint32_t)((uint64_t)i * n_places / n);
}

struct sl_homes {
    uint32_t n_pes; /* P; with several ranks: PEs of this rank */
    /* First PE of this rank. A PE of a lower or higher rank counts as this rank's first or last PE. */
    uint32_t first_pe;
    uint32_t n;
    uint32_t first_worker;
    bool gpus; /* the homes are GPUs */
};

/* The number of StarPU's GPUs; workers of one GPU follow each other. StarPU is running. */
uint32_t sl_homes_count_gpus(void);

/* Look up StarPU's workers for n_pes PEs. StarPU is running. */
void sl_homes_find(uint32_t n_pes, struct sl_homes *out);

/* Index of a PE among the PEs of this rank. */
static inline uint32_t sl_homes_number(const struct sl_homes *homes, uint32_t pe)
{
    uint32_t i = pe < homes->first_pe ? 0 : pe - homes->first_pe;
    return i < homes->n_pes ? i : homes->n_pes - 1;
}

/* The homes that a PE has to itself if there are more homes than PEs; otherwise its one home, which other PEs may
 * share. */
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

/* First home of a PE. With GPUs this is also the index of its GPU. */
static inline uint32_t sl_home_of(const struct sl_homes *homes, uint32_t pe)
{
    return sl_home_range(homes, pe).first;
}

static inline int sl_home_worker(const struct sl_homes *homes, uint32_t pe)
{
    return (int)(homes->first_worker + sl_home_of(homes, pe));
}

/* First PE of a home. If no PE lives there: the next PE of a later home, or the last PE. */
static inline uint32_t sl_home_first_pe(const struct sl_homes *homes, uint32_t home)
{
    uint32_t p = (uint32_t)(((uint64_t)home * homes->n_pes + homes->n - 1) / homes->n);
    return p < homes->n_pes ? p : homes->n_pes - 1;
}

#endif
