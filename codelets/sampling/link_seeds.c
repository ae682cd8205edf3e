/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Blocks of links, and tables of excluded edges. */
#include "codelets/sampling/link_seeds.h"

#include <assert.h>
#include <string.h>

/* ---- kernels, CPU ---- */

static sl_vertex negative(const struct sl_step_links *links, const struct sl_link_rule *rule, uint32_t link, uint32_t j,
                          uint32_t n_vertices)
{
    if (links->relation == NULL) {
        return sl_link_negative(rule, link, j, n_vertices);
    }
    return sl_triple_negative(rule, link, j, links->ends + (size_t)links->relation[link] * SL_ENDS);
}

void sl_link_seed_cpu(const struct sl_sample_part *part, const struct sl_step_links *links,
                      const struct sl_link_rule *rule, const struct sl_sample_marks *marks,
                      const struct sl_sample_sizes *sizes, const struct sl_sample_block *block, uint32_t *relations_out)
{
    const sl_vertex first = part->first[part->part];
    const sl_vertex end = part->first[part->part + 1];
    sl_vertex *rows = block->edge_sources;
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < links->n; i++) {
        const uint32_t link = links->order[i];
        const bool turns = links->relation == NULL && sl_link_turns(rule, link);
        const sl_vertex from = turns ? links->to[link] : links->from[link];
        if (from < first || from >= end) {
            continue;
        }
        rows[n_rows++] = from;
        rows[n_rows++] = turns ? links->from[link] : links->to[link];
        if (links->relation != NULL) {
            *relations_out++ = links->relation[link];
        }
        for (uint32_t j = 0; j < rule->n_negatives; j++) {
            rows[n_rows++] = links->new_ids[negative(links, rule, link, j, marks->n_vertices)];
        }
    }
    block->edge_offsets[0] = 0;
    for (uint32_t d = 0; d < n_rows; d++) {
        block->edge_offsets[d + 1] = d + 1;
        sl_mark_cpu(marks->words, rows[d]);
    }
    sl_block_close_cpu(part, n_rows, n_rows, marks, sizes, block);
}

static void insert(sl_vertex source, sl_vertex destination, uint32_t mask, uint64_t *table)
{
    const uint64_t key = sl_edge_key(source, destination);
    uint32_t i = sl_edge_entry(key, mask);
    while (table[i] != SL_NO_EDGE && table[i] != key) {
        i = (i + 1) & mask;
    }
    table[i] = key;
}

void sl_exclude_cpu(const struct sl_step_links *links, bool reverse, uint32_t n_entries, uint64_t *table_out)
{
    memset(table_out, 0xff, n_entries * sizeof *table_out);
    for (uint32_t i = 0; i < links->n; i++) {
        const uint32_t link = links->order[i];
        insert(links->from[link], links->to[link], n_entries - 1, table_out);
        if (reverse) {
            insert(links->to[link], links->from[link], n_entries - 1, table_out);
        }
    }
}

/* ---- operations ---- */

/* One view for both operations: each has some of the operands. */
struct link_seed {
    struct sl_hop hop;
    struct sl_matrix order, from, to, new_ids;
    struct sl_matrix relation, ends, own_relations; /* of triples */
    struct sl_link_rule rule;
    struct sl_matrix table;
    bool reverse;
};

static struct sl_step_links links_of(const struct link_seed *v)
{
    return (struct sl_step_links){.n = v->order.n_rows,
                                  .order = v->order.data,
                                  .from = v->from.data,
                                  .to = v->to.data,
                                  .new_ids = v->new_ids.data,
                                  .relation = v->relation.data,
                                  .ends = v->ends.data};
}

static enum sl_status link_seed(const void *view, const void *stream)
{
    const struct link_seed *v = view;
    const struct sl_sample_part part = sl_hop_part(&v->hop);
    const struct sl_step_links links = links_of(v);
    const struct sl_sample_marks marks = sl_marks_in(v->hop.marks.data, v->hop.n_vertices, v->hop.max_fanout);
    const struct sl_sample_sizes sizes = sl_hop_sizes(&v->hop);
    const struct sl_sample_block block = sl_hop_block(&v->hop);
    return SL_RUN(stream, sl_link_seed, &part, &links, &v->rule, &marks, &sizes, &block, v->own_relations.data);
}

static struct sl_operation link_seed_op = {
    SL_OPERATION(link_seed_op, "sl_link_seed", SL_STAGE_SAMPLE),
    SL_BODY(link_seed, struct link_seed),
    .role = {{"order", STARPU_R, offsetof(struct link_seed, order), "?", SL_INTS_32},
             {"from", STARPU_R, offsetof(struct link_seed, from), "N", SL_INTS_32},
             {"to", STARPU_R, offsetof(struct link_seed, to), "N", SL_INTS_32},
             {"new ids", STARPU_R, offsetof(struct link_seed, new_ids), "?", SL_INTS_32},
             {"first", STARPU_R, offsetof(struct link_seed, hop.first), "?", SL_INTS_32},
             {"marks", STARPU_RW, offsetof(struct link_seed, hop.marks), "?", SL_INTS_8},
             {"counts", STARPU_RW, offsetof(struct link_seed, hop.counts), "?", SL_INTS_32},
             SL_BLOCK_ROLES(struct link_seed),
             {"relations", STARPU_R | SL_OPTIONAL, offsetof(struct link_seed, relation), "N", SL_INTS_32},
             {"ends", STARPU_R | SL_OPTIONAL, offsetof(struct link_seed, ends), "?", SL_INTS_32},
             {"own relations", STARPU_W | SL_OPTIONAL, offsetof(struct link_seed, own_relations), "?", SL_INTS_32}},
};

static enum sl_status exclude(const void *view, const void *stream)
{
    const struct link_seed *v = view;
    const struct sl_step_links links = links_of(v);
    return SL_RUN(stream, sl_exclude, &links, v->reverse, v->table.n_rows, v->table.data);
}

static struct sl_operation exclude_op = {
    SL_OPERATION(exclude_op, "sl_exclude", SL_STAGE_SAMPLE),
    SL_BODY(exclude, struct link_seed),
    .role = {{"order", STARPU_R, offsetof(struct link_seed, order), "L", SL_INTS_32},
             {"from", STARPU_R, offsetof(struct link_seed, from), "N", SL_INTS_32},
             {"to", STARPU_R, offsetof(struct link_seed, to), "N", SL_INTS_32},
             {"table", STARPU_W, offsetof(struct link_seed, table), "?", SL_INTS_64}},
};

/* ---- submissions ---- */

enum sl_status sl_link_seed_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                   const struct sl_link_range *links, starpu_data_handle_t new_ids,
                                   const struct sl_link_rule *rule, const struct sl_marks_handles *marks,
                                   const struct sl_frontier_handles *frontier, const struct sl_block *block)
{
    struct link_seed v = {.hop = sl_hop_of(head, 0, part, frontier, marks, block),
                          .order = sl_matrix_rows(links->order, links->begin, links->end - links->begin),
                          .from = sl_matrix_of(links->from),
                          .to = sl_matrix_of(links->to),
                          .new_ids = sl_matrix_of(new_ids),
                          .rule = *rule};
    if (links->relation != NULL) {
        v.relation = sl_matrix_of(links->relation);
        v.ends = sl_matrix_of(links->ends);
        v.own_relations = sl_matrix_of(links->own_relations);
        assert(v.order.n_rows <= v.own_relations.n_rows);
    }
    assert((uint64_t)v.order.n_rows * sl_link_rows(rule) <= v.hop.edge_sources.n_rows);
    v.hop.head.work = 64 * (uint64_t)v.hop.edge_sources.n_rows;
    return sl_view_submit(&link_seed_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_exclude_submit(const struct sl_task_args *head, const struct sl_link_range *links, bool reverse,
                                 starpu_data_handle_t table)
{
    struct link_seed v = {.hop.head = *head,
                          .order = sl_matrix_rows(links->order, links->begin, links->end - links->begin),
                          .from = sl_matrix_of(links->from),
                          .to = sl_matrix_of(links->to),
                          .table = sl_matrix_of(table),
                          .reverse = reverse};
    assert((v.table.n_rows & (v.table.n_rows - 1)) == 0 &&
           v.table.n_rows >= 2 * (uint64_t)v.order.n_rows * (reverse ? 2 : 1));
    v.hop.head.work = 8 * (uint64_t)v.table.n_rows;
    return sl_view_submit(&exclude_op, &v, SL_PRIORITY_SAMPLE);
}
