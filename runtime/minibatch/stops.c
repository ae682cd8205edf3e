/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A word of each rank for each slot of the ring. */
#include "runtime/minibatch/stops.h"

#include "codelets/rows.h"
#include "support/memory.h"

enum sl_status sl_stops_open(uint32_t n_ranks, uint32_t rank, uint32_t depth, struct sl_stops *out)
{
    size_t n = (size_t)depth * n_ranks;
    enum sl_status st = SL_OK;
    *out = (struct sl_stops){0};
    if (n_ranks == 1) {
        return SL_OK;
    }
    SL_TRY(st, sl_alloc_zero(n, sizeof *out->wanted, "words of ranks", &out->wanted), done);
    SL_TRY(st, sl_alloc_zero(n, sizeof *out->handle, "words of ranks", &out->handle), done);
    for (size_t i = 0; i < n; i++) {
        starpu_variable_data_register(&out->handle[i], STARPU_MAIN_RAM, (uintptr_t)&out->wanted[i],
                                      sizeof *out->wanted);
    }
    out->n_ranks = n_ranks;
    out->rank = rank;
    out->depth = depth;
done:
    return st;
}

void sl_stops_close(struct sl_stops *stops)
{
    for (size_t i = 0; i < (size_t)stops->depth * stops->n_ranks; i++) {
        sl_handle_close(stops->handle[i]);
    }
    sl_free(stops->handle);
    sl_free(stops->wanted);
    *stops = (struct sl_stops){0};
}

enum sl_status sl_stops_write(const struct sl_stops *stops, uint64_t step, bool wanted)
{
    starpu_data_handle_t own = sl_stops_of(stops, step, stops->rank);
    enum sl_status st;
    SL_TRY(st, sl_handle_acquire(own, STARPU_MAIN_RAM, STARPU_W), done);
    *(uint32_t *)starpu_data_get_local_ptr(own) = wanted;
    starpu_data_release(own);
done:
    return st;
}

enum sl_status sl_stops_read(const struct sl_stops *stops, uint64_t step, bool *wanted_out)
{
    bool wanted = false;
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; r < stops->n_ranks; r++) {
        starpu_data_handle_t word = sl_stops_of(stops, step, r);
        SL_TRY(st, sl_handle_acquire(word, STARPU_MAIN_RAM, STARPU_R), done);
        wanted |= *(const uint32_t *)starpu_data_get_local_ptr(word) != 0;
        starpu_data_release(word);
    }
    *wanted_out = wanted;
done:
    return st;
}
