/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checksums of a dataset's arrays. */
#include "partition/identity.h"

#include <stdatomic.h>

#include "support/file.h"
#include "support/minmax.h"
#include "support/parallel.h"

#define CHUNK_BYTES ((size_t)4 << 20) /* one thread's piece of a checksum */

const char *const sl_identity_names[SL_N_IDENTITIES] = {"graph", "features", "labels", "split"};
const char *const sl_identity_others[SL_N_IDENTITIES] = {"another graph", "other features", "other labels",
                                                         "another split"};

struct summing {
    const unsigned char *data;
    size_t bytes;
    bool low_memory; /* the data are in a map: give the pages back after reading */
    _Atomic uint64_t sum;
};

/* Each chunk's checksum starts from its number. The sum does not depend on the order of the threads. */
static void sum_chunks(void *context, uint64_t begin, uint64_t end)
{
    struct summing *summing = context;
    for (uint64_t i = begin; i < end; i++) {
        size_t start = i * CHUNK_BYTES;
        size_t left = summing->bytes - start;
        size_t bytes = sl_min_u64(left, CHUNK_BYTES);
        atomic_fetch_add(&summing->sum, sl_checksum(i + 1, summing->data + start, bytes));
        if (summing->low_memory) {
            sl_file_forget(summing->data + start, bytes);
        }
    }
}

uint64_t sl_checksum_array(uint64_t start, const void *data, uint64_t bytes, bool low_memory)
{
    struct summing summing = {.data = data, .bytes = bytes, .low_memory = low_memory};
    sl_parallel_for((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, 1, sum_chunks, &summing);
    const uint64_t result[] = {bytes, atomic_load(&summing.sum)};
    return sl_checksum(start, result, sizeof result);
}

static uint64_t identify_features(const struct sl_features *f, bool low_memory)
{
    const uint64_t numbers[] = {f->n_rows, f->n_columns, f->offsets != NULL};
    const uint64_t sum = sl_checksum(0, numbers, sizeof numbers);
    const uint64_t n_rows = f->n_rows;
    if (f->dense != NULL) {
        return sl_checksum_array(sum, f->dense, n_rows * f->n_columns * sizeof *f->dense, low_memory);
    }
    if (f->offsets == NULL) {
        return sum;
    }
    const uint64_t n = f->offsets[n_rows];
    const uint64_t offsets = sl_checksum_array(sum, f->offsets, (n_rows + 1) * sizeof *f->offsets, low_memory);
    const uint64_t columns = sl_checksum_array(offsets, f->columns, n * sizeof *f->columns, low_memory);
    return sl_checksum_array(columns, f->values, n * sizeof *f->values, low_memory);
}

struct sl_identity sl_identity_of(const struct sl_dataset *d)
{
    const struct sl_graph *graph = &d->graph;
    const struct sl_ids *lists[] = {&d->train, &d->valid, &d->test};
    const uint64_t n = graph->n_vertices;
    const bool low_memory = d->low_memory && d->mapping != NULL;
    struct sl_identity out = {{0}};
    out.part[SL_IDENTITY_GRAPH] = sl_checksum_array(0, graph->offsets, (n + 1) * sizeof *graph->offsets, low_memory);
    out.part[SL_IDENTITY_GRAPH] = sl_checksum_array(out.part[SL_IDENTITY_GRAPH], graph->sources,
                                                    graph->n_edges * sizeof *graph->sources, low_memory);
    out.part[SL_IDENTITY_FEATURES] = identify_features(&d->features, low_memory);
    out.part[SL_IDENTITY_LABELS] = sl_checksum_array(0, d->labels, n * sizeof *d->labels, low_memory);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        out.part[SL_IDENTITY_SPLIT] = sl_checksum_array(out.part[SL_IDENTITY_SPLIT], lists[i]->ids,
                                                        lists[i]->n * sizeof *lists[i]->ids, low_memory);
    }
    return out;
}

enum sl_identity_part sl_identity_compare(const struct sl_identity *a, const struct sl_identity *b)
{
    int i = 0;
    while (i < SL_N_IDENTITIES && a->part[i] == b->part[i]) {
        i++;
    }
    return (enum sl_identity_part)i;
}
