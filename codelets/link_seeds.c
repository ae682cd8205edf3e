/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Blocks of links, and tables of excluded edges. */
#include "codelets/link_seeds.h"

#include <string.h>

#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

static void mark(uint64_t *words, sl_vertex id)
{
    words[id / 64] |= UINT64_C(1) << id % 64;
}

static sl_vertex negative(const struct sl_step_links *links, const struct sl_link_rule *rule, uint32_t link, uint32_t j,
                          uint32_t n_vertices)
{
    if (links->relation == NULL) {
        return sl_link_negative(rule, link, j, n_vertices);
    }
    return sl_triple_negative(rule, link, j, links->ends + (size_t)links->relation[link] * SL_ENDS);
}

uint32_t sl_link_seed_cpu(const struct sl_sample_part *part, const struct sl_step_links *links,
                          const struct sl_link_rule *rule, const struct sl_sample_marks *marks,
                          const struct sl_sample_block *block, uint32_t *relations_out)
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
        mark(marks->words, rows[d]);
    }
    sl_block_close_cpu(part, n_rows, n_rows, marks, block);
    return n_rows;
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

/* ---- arguments ---- */

struct link_seed_args {
    struct sl_task_args head;
    struct sl_link_rule rule;
    uint32_t n_hops;
    uint32_t n_parts, part;
    uint32_t n_vertices;
    uint32_t max_fanout;
    uint32_t begin, end;
    bool triples;
};

struct exclude_args {
    struct sl_task_args head;
    uint32_t begin, end;
    bool reverse;
};

/* ---- implementations ---- */

enum {
    SEED_ORDER,
    SEED_FROM,
    SEED_TO,
    SEED_NEW_IDS,
    SEED_FIRST,
    SEED_MARKS,
    SEED_COUNTS,
    SEED_EDGE_OFFSETS,
    SEED_EDGE_SOURCES,
    SEED_BACK_OFFSETS,
    SEED_BACK_ROWS,
    SEED_REQUEST,
    SEED_RELATION,
    SEED_ENDS,
    SEED_OWN_RELATIONS
};
enum { EXCLUDE_ORDER, EXCLUDE_FROM, EXCLUDE_TO, EXCLUDE_TABLE };

/* What a task of either processor works on. */
struct link_seed {
    struct sl_sample_part part;
    struct sl_step_links links;
    struct sl_sample_marks marks;
    struct sl_sample_block block;
    uint32_t *counts;
    uint32_t *relations;
};

static struct link_seed task_seed(void *buffers[], const struct link_seed_args *args)
{
    struct link_seed seed = {
        .part = {.first = sl_buffer_data(buffers[SEED_FIRST]), .n_parts = args->n_parts, .part = args->part},
        .links = {.n = args->end - args->begin,
                  .order = (const uint32_t *)sl_buffer_data(buffers[SEED_ORDER]) + args->begin,
                  .from = sl_buffer_data(buffers[SEED_FROM]),
                  .to = sl_buffer_data(buffers[SEED_TO]),
                  .new_ids = sl_buffer_data(buffers[SEED_NEW_IDS])},
        .marks = sl_marks_in(sl_buffer_data(buffers[SEED_MARKS]), args->n_vertices, args->max_fanout),
        .block = sl_block_in(buffers + SEED_EDGE_OFFSETS),
        .counts = sl_buffer_data(buffers[SEED_COUNTS])};
    if (args->triples) {
        seed.links.relation = sl_buffer_data(buffers[SEED_RELATION]);
        seed.links.ends = sl_buffer_data(buffers[SEED_ENDS]);
        seed.relations = sl_buffer_data(buffers[SEED_OWN_RELATIONS]);
    }
    return seed;
}

static enum sl_status link_seed_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct link_seed_args *args = cl_arg;
    struct link_seed seed = task_seed(buffers, args);
    const uint32_t n_edges =
        sl_link_seed_cpu(&seed.part, &seed.links, &args->rule, &seed.marks, &seed.block, seed.relations);
    sl_block_count(&seed.block, n_edges, args->n_hops, args->n_parts, 0, seed.counts);
    return SL_OK;
}

static struct sl_step_links task_links(void *buffers[], const struct exclude_args *args)
{
    return (struct sl_step_links){.n = args->end - args->begin,
                                  .order = (const uint32_t *)sl_buffer_data(buffers[EXCLUDE_ORDER]) + args->begin,
                                  .from = sl_buffer_data(buffers[EXCLUDE_FROM]),
                                  .to = sl_buffer_data(buffers[EXCLUDE_TO])};
}

static enum sl_status exclude_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct exclude_args *args = cl_arg;
    const struct sl_step_links links = task_links(buffers, args);
    return SL_RUN(stream, sl_exclude, &links, args->reverse, sl_buffer_columns(buffers[EXCLUDE_TABLE]),
                  sl_buffer_data(buffers[EXCLUDE_TABLE]));
}

#ifdef SL_CUDA
static enum sl_status link_seed_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct link_seed_args *args = cl_arg;
    struct link_seed seed = task_seed(buffers, args);
    return sl_link_seed_cuda(stream, &seed.part, &seed.links, &args->rule, &seed.marks, args->n_hops, seed.counts,
                             &seed.block, seed.relations);
}
#endif

/* ---- operations ---- */

static struct sl_operation link_seed_op = {
    SL_OPERATION(link_seed_op, "sl_link_seed", SL_STAGE_SAMPLE),
    .cpu = link_seed_cpu_task,
    SL_CUDA_FUNC(link_seed_cuda_task),
    .role = {{"order", STARPU_R},
             {"from", STARPU_R},
             {"to", STARPU_R},
             {"new ids", STARPU_R},
             {"first", STARPU_R},
             {"marks", STARPU_RW},
             {"counts", STARPU_RW},
             {"edge offsets", STARPU_W},
             {"edge sources", STARPU_W},
             {"back offsets", STARPU_W},
             {"back rows", STARPU_W},
             {"request", STARPU_W},
             {"relations", STARPU_R | SL_OPTIONAL},
             {"ends", STARPU_R | SL_OPTIONAL},
             {"own relations", STARPU_W | SL_OPTIONAL}},
};

static struct sl_operation exclude_op = {
    SL_OPERATION(exclude_op, "sl_exclude", SL_STAGE_SAMPLE),
    SL_BOTH(exclude_task),
    .role = {{"order", STARPU_R}, {"from", STARPU_R}, {"to", STARPU_R}, {"table", STARPU_W}},
};

/* ---- submissions ---- */

static enum sl_status check_range(const struct sl_link_range *links)
{
    if (links->begin > links->end || links->end > starpu_vector_get_nx(links->order) ||
        starpu_vector_get_nx(links->from) != starpu_vector_get_nx(links->to)) {
        return sl_fail(SL_EINVAL, "links: entries %u to %u of an order of %u", links->begin, links->end,
                       starpu_vector_get_nx(links->order));
    }
    return SL_OK;
}

enum sl_status sl_link_seed_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                   const struct sl_link_range *links, starpu_data_handle_t new_ids,
                                   const struct sl_link_rule *rule, const struct sl_marks_handles *marks,
                                   const struct sl_frontier_handles *frontier, const struct sl_block *block)
{
    struct link_seed_args args = {.head = *head,
                                  .rule = *rule,
                                  .n_hops = frontier->n_hops,
                                  .n_parts = part->n_parts,
                                  .part = part->part,
                                  .n_vertices = marks->n_vertices,
                                  .max_fanout = marks->max_fanout,
                                  .begin = links->begin,
                                  .end = links->end,
                                  .triples = links->relation != NULL};
    struct sl_task task;
    SL_CHECK(check_range(links));
    if (args.triples && starpu_vector_get_nx(links->own_relations) < links->end - links->begin) {
        return sl_fail(SL_EINVAL, "sl_link_seed: %u triples, but room for %u relations", links->end - links->begin,
                       starpu_vector_get_nx(links->own_relations));
    }
    if ((uint64_t)(links->end - links->begin) * sl_link_rows(rule) > starpu_vector_get_nx(block->edge_sources)) {
        return sl_fail(SL_EINVAL, "sl_link_seed: %u links of %u rows, but room for %u", links->end - links->begin,
                       sl_link_rows(rule), starpu_vector_get_nx(block->edge_sources));
    }
    args.head.work = 64 * (uint64_t)starpu_vector_get_nx(block->edge_sources);
    sl_task_begin(&task, &link_seed_op);
    sl_task_add(&task, SEED_ORDER, links->order, STARPU_R);
    sl_task_add(&task, SEED_FROM, links->from, STARPU_R);
    sl_task_add(&task, SEED_TO, links->to, STARPU_R);
    sl_task_add(&task, SEED_NEW_IDS, new_ids, STARPU_R);
    sl_task_add(&task, SEED_FIRST, part->first, STARPU_R);
    sl_task_add(&task, SEED_MARKS, marks->bytes, STARPU_RW);
    sl_task_add(&task, SEED_COUNTS, frontier->counts, STARPU_RW);
    sl_block_add(&task, SEED_EDGE_OFFSETS, block);
    if (args.triples) {
        sl_task_add(&task, SEED_RELATION, links->relation, STARPU_R);
        sl_task_add(&task, SEED_ENDS, links->ends, STARPU_R);
        sl_task_add(&task, SEED_OWN_RELATIONS, links->own_relations, STARPU_W);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_exclude_submit(const struct sl_task_args *head, const struct sl_link_range *links, bool reverse,
                                 starpu_data_handle_t table)
{
    struct exclude_args args = {.head = *head, .begin = links->begin, .end = links->end, .reverse = reverse};
    struct sl_task task;
    uint32_t n_entries = starpu_vector_get_nx(table);
    uint64_t n_edges = (uint64_t)(links->end - links->begin) * (reverse ? 2 : 1);
    SL_CHECK(check_range(links));
    SL_FAIL_IF((n_entries & (n_entries - 1)) != 0 || n_entries < 2 * n_edges, SL_EINVAL,
               "sl_exclude: %llu edges and %u entries; expected a power of two, at least twice as "
               "many",
               (unsigned long long)n_edges, n_entries);
    args.head.work = 8 * (uint64_t)n_entries;
    sl_task_begin(&task, &exclude_op);
    sl_task_add(&task, EXCLUDE_ORDER, links->order, STARPU_R);
    sl_task_add(&task, EXCLUDE_FROM, links->from, STARPU_R);
    sl_task_add(&task, EXCLUDE_TO, links->to, STARPU_R);
    sl_task_add(&task, EXCLUDE_TABLE, table, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}
