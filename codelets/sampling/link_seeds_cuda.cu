/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Blocks of links, and tables of excluded edges: one thread per link. */
#include "codelets/sampling/marks.cuh"

#include "codelets/sampling/link_seeds.h"

/* ---- the block ---- */

static inline __device__ bool turns_link(const struct sl_step_links &links, const struct sl_link_rule &rule,
                                         uint32_t link)
{
    return links.relation == NULL && sl_link_turns(&rule, link);
}

static inline __device__ sl_vertex negative(const struct sl_step_links &links, const struct sl_link_rule &rule,
                                            uint32_t link, uint32_t j, uint32_t n_vertices)
{
    if (links.relation == NULL) {
        return sl_link_negative(&rule, link, j, n_vertices);
    }
    return sl_triple_negative(&rule, link, j, links.ends + (uint64_t)links.relation[link] * SL_ENDS);
}

static inline __device__ sl_vertex first_end(const struct sl_step_links &links, bool turns, uint32_t link)
{
    return turns ? links.to[link] : links.from[link];
}

/* The rows of the links whose first end the part owns. The last item is no link: it tells their number. */
struct link_rows {
    struct sl_sample_part part;
    struct sl_step_links links;
    struct sl_link_rule rule;
    uint64_t n_vertices; /* without padding */
    sl_vertex *rows_out;
    uint32_t *relations_out, *n_out;

    __device__ uint32_t number(uint64_t i) const
    {
        if (i == links.n) {
            return 0;
        }
        const uint32_t link = links.order[i];
        const sl_vertex from = first_end(links, turns_link(links, rule, link), link);
        return from >= part.first[part.part] && from < part.first[part.part + 1];
    }
    __device__ void take(uint64_t i, uint32_t before, uint32_t number) const
    {
        if (i == links.n) {
            *n_out = before;
        }
        if (number == 0) {
            return;
        }
        const uint32_t link = links.order[i];
        const bool turns = turns_link(links, rule, link);
        sl_vertex *row = rows_out + (uint64_t)before * sl_link_rows(&rule);
        row[0] = first_end(links, turns, link);
        row[1] = first_end(links, !turns, link);
        for (uint32_t j = 0; j < rule.n_negatives; j++) {
            row[2 + j] = links.new_ids[negative(links, rule, link, j, (uint32_t)n_vertices)];
        }
        if (links.relation != NULL) {
            relations_out[before] = links.relation[link];
        }
    }
};

/* One edge for each row. */
static __global__ void place_offsets(uint32_t max_rows, const uint32_t *n_links, uint32_t rows_of_link,
                                     uint32_t *offsets_out)
{
    for (uint64_t d = sl_thread(); d <= max_rows; d += sl_n_threads()) {
        offsets_out[d] = sl_least((uint32_t)d, *n_links * rows_of_link);
    }
}

enum sl_status sl_link_seed_cuda(cudaStream_t stream, const struct sl_sample_part *part,
                                 const struct sl_step_links *links, const struct sl_link_rule *rule,
                                 const struct sl_sample_marks *marks, const struct sl_sample_sizes *sizes,
                                 const struct sl_sample_block *block, uint32_t *relations_out)
{
    const char *name = "sl_link_seed";
    sl_scratch n_own(stream);
    SL_CHECK(n_own.take(sizeof(uint32_t), name));
    const struct link_rows rows = {
        *part, *links, *rule, marks->n_vertices, block->edge_sources, relations_out, n_own.as<uint32_t>()};
    SL_CHECK(sl_scan_each(name, stream, (uint64_t)links->n + 1, rows));
    SL_CHECK(sl_start(name, stream, sl_blocks((uint64_t)block->max_rows + 1), place_offsets, block->max_rows,
                      n_own.as<uint32_t>(), sl_link_rows(rule), block->edge_offsets));
    return sl_block_close_cuda(stream, part, block->max_rows, block->max_rows, marks, sizes, block);
}

/* ---- the table ---- */

static inline __device__ void insert(sl_vertex source, sl_vertex destination, uint32_t mask, uint64_t *table)
{
    const unsigned long long key = sl_edge_key(source, destination);
    uint32_t i = sl_edge_entry(key, mask);
    for (;;) {
        unsigned long long old = atomicCAS((unsigned long long *)table + i, (unsigned long long)SL_NO_EDGE, key);
        if (old == SL_NO_EDGE || old == key) {
            return;
        }
        i = (i + 1) & mask;
    }
}

static __global__ void insert_links(struct sl_step_links links, bool reverse, uint32_t mask, uint64_t *table)
{
    for (uint64_t i = sl_thread(); i < links.n; i += sl_n_threads()) {
        const uint32_t link = links.order[i];
        insert(links.from[link], links.to[link], mask, table);
        if (reverse) {
            insert(links.to[link], links.from[link], mask, table);
        }
    }
}

enum sl_status sl_exclude_cuda(cudaStream_t stream, const struct sl_step_links *links, bool reverse, uint32_t n_entries,
                               uint64_t *table_out)
{
    const char *name = "sl_exclude";
    SL_CHECK(sl_cuda_status(cudaMemsetAsync(table_out, 0xff, n_entries * sizeof *table_out, stream), name));
    return sl_start(name, stream, sl_blocks(links->n), insert_links, *links, reverse, n_entries - 1, table_out);
}
