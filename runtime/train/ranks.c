/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Broadcasts from rank 0, and comparisons. */
#include "runtime/train/ranks.h"

#include <inttypes.h>
#include <string.h>

#include "codelets/ranks.h"
#include "config.h"
#include "support/file.h"
#include "support/memory.h"

/* ---- limits ---- */

/* Ranks of a common stage need at least one way each. */
static enum sl_status check_pipe(const struct sl_settings *s, uint32_t n)
{
    uint32_t most =
        s->stages > 0 ? sl_plan_largest_crew(n, s->stages) : 0; /* 0: not yet decided, and checked once it is */
    if (s->ways < most) {
        return sl_fail(SL_EINVAL,
                       "--ways: found %u, expected at least %u for %u processes of one run with --stages "
                       "%u; each has a way of a stage",
                       s->ways, most, n, s->stages);
    }
    return SL_OK;
}

enum sl_status sl_ranks_check_settings(const struct sl_settings *s)
{
    uint32_t n = sl_ranks_started();
    bool pipe = s->schedule == SL_SCHEDULE_PIPE;
    enum sl_status st = SL_OK;
    if (pipe && n > 1) {
        st = check_pipe(s, n);
    }
    if (n > SL_MAX_PES) {
        return sl_fail(SL_EINVAL, "found %u processes of one run, expected at most %u", n, SL_MAX_PES);
    }
    if (n == 1 || st != SL_OK) {
        return st;
    }
    if (!pipe && s->pes > 0 && s->pes < n) {
        return sl_fail(SL_EINVAL, "--pes: found %u, expected at least one for each of %u processes of one run", s->pes,
                       n);
    }
    return SL_OK;
}

enum sl_status sl_process_join(const struct sl_settings *settings)
{
    enum sl_status st = sl_ranks_check_settings(settings);
    if (st != SL_OK) {
        return st;
    }
    return sl_ranks_open();
}

/* ---- options ---- */

/* File locations, options of one machine, and outputs of rank 0 may differ. */
static bool must_match(const struct sl_option *option)
{
    static const char *const free[] = {"data-path", "cache", "cpus", "gpus", "sched"};
    for (size_t i = 0; i < sizeof free / sizeof *free; i++) {
        if (strcmp(option->name, free[i]) == 0) {
            return false;
        }
    }
    return strcmp(option->group, "output") != 0 || strcmp(option->name, "resume") == 0 ||
           strncmp(option->name, "trace", strlen("trace")) == 0;
}

/* Copy rank 0's `text` to `out`, at all ranks. */
static enum sl_status take_text_of_rank0(const char *text, char **out)
{
    uint64_t bytes = strlen(text) + 1;
    enum sl_status st;
    SL_TRY(st, sl_ranks_broadcast(&bytes, sizeof bytes), done);
    SL_TRY(st, sl_alloc(bytes, 1, "rank 0's text", out), done);
    if (sl_rank() == 0) {
        memcpy(*out, text, bytes);
    }
    st = sl_ranks_broadcast(*out, bytes);
done:
    return st;
}

static enum sl_status match_option(const struct sl_option *option, const struct sl_settings *settings)
{
    char *mine = NULL;
    char *first = NULL;
    enum sl_status st;
    SL_TRY(st, sl_option_text(option, settings, &mine), done);
    SL_TRY(st, take_text_of_rank0(mine, &first), done);
    if (strcmp(mine, first) != 0) {
        st =
            sl_fail(SL_EINVAL, "--%s: found '%.100s', expected '%.100s' as rank 0 has; give all ranks the same options",
                    option->name, mine, first);
    }
done:
    sl_free(mine);
    sl_free(first);
    return st;
}

enum sl_status sl_ranks_match_settings(const struct sl_settings *settings)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    char *first = NULL;
    enum sl_status st;
    SL_TRY(st, take_text_of_rank0(PACKAGE_VERSION, &first), done);
    if (strcmp(first, PACKAGE_VERSION) != 0) {
        st = sl_fail(SL_EINVAL, "found Starling %s, expected %.40s as rank 0 has; start the same program everywhere",
                     PACKAGE_VERSION, first);
        goto done;
    }
    size_t n_options = sl_n_ranks() > 1 ? table->n_options : 0;
    for (size_t i = 0; i < n_options; i++) {
        if (must_match(&table->options[i])) {
            SL_TRY(st, match_option(&table->options[i], settings), done);
        }
    }
done:
    sl_free(first);
    return st;
}

enum sl_status sl_ranks_take_decisions(struct sl_settings *s)
{
    struct {
        uint32_t pes, group_size, chunks;
        int placement;
    } decided = {s->pes, s->group_size, s->chunks, s->placement};
    enum sl_status st;
    SL_TRY(st, sl_ranks_broadcast(&decided, sizeof decided), done);
    s->pes = decided.pes;
    s->group_size = decided.group_size;
    s->chunks = decided.chunks;
    s->placement = decided.placement;
    if (s->schedule != SL_SCHEDULE_PIPE && s->pes < sl_n_ranks()) {
        st = sl_fail(SL_EINVAL, "found %u PEs, expected at least one for each of %u ranks; ask for more with --pes",
                     s->pes, sl_n_ranks());
    }
done:
    return st;
}

/* ---- data ---- */

uint64_t sl_ranks_hash_data(const struct sl_dataset *dataset, const struct sl_partition *partition)
{
    const struct sl_graph *graph = &dataset->graph;
    uint64_t n = graph->n_vertices;
    const struct sl_ids *sets[] = {&dataset->train, &dataset->valid, &dataset->test};
    const uint64_t numbers[] = {graph->n_edges,     partition->n_cut, dataset->features.n_columns,
                                dataset->n_classes, dataset->train.n, dataset->valid.n,
                                dataset->test.n};
    uint64_t sum = sl_checksum(0, numbers, sizeof numbers);
    if (sl_n_ranks() == 1) {
        return 0;
    }
    sum = sl_checksum(sum, graph->offsets, (n + 1) * sizeof *graph->offsets);
    sum = sl_checksum(sum, dataset->labels, n * sizeof *dataset->labels);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        sum = sl_checksum(sum, sets[i]->ids, sets[i]->n * sizeof *sets[i]->ids);
    }
    sum = sl_checksum(sum, partition->new_ids, n * sizeof *partition->new_ids);
    sl_dataset_drop_pages(dataset);
    return sum;
}

enum sl_status sl_ranks_match_data(const struct sl_session *t)
{
    uint64_t first = t->data_hash;
    enum sl_status st;
    SL_TRY(st, sl_ranks_broadcast(&first, sizeof first), done);
    if (first != t->data_hash) {
        st = sl_fail(SL_EFILE,
                     "dataset %s: found other vertices, edges, parts or another split than rank 0 has; give all ranks "
                     "the same files and --cache",
                     t->name);
    }
done:
    return st;
}

enum sl_status sl_ranks_match_step(const struct sl_session *t)
{
    uint64_t step = t->state.step;
    enum sl_status st;
    SL_TRY(st, sl_ranks_broadcast(&step, sizeof step), done);
    if (step != t->state.step) {
        st = sl_fail(SL_EFILE,
                     "--resume: found a checkpoint of step %" PRIu64 ", expected step %" PRIu64
                     " as rank 0 has; --checkpoint has to be a folder that all ranks share",
                     t->state.step, step);
    }
done:
    return st;
}

/* ---- numbers ---- */

enum sl_status sl_ranks_max(uint64_t mine, uint64_t *most_out)
{
    size_t each[SL_MAX_PES];
    uint64_t numbers[SL_MAX_PES] = {mine};
    enum sl_status st;
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        each[r] = sizeof mine;
    }
    st = sl_ranks_gather(&mine, sizeof mine, each, numbers);
    *most_out = 0;
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        *most_out = numbers[r] > *most_out ? numbers[r] : *most_out;
    }
    return st;
}

/* ---- turns ---- */

enum sl_status sl_ranks_rank0_first(void)
{
    if (sl_rank() != 0) {
        return sl_ranks_barrier();
    }
    return SL_OK;
}

enum sl_status sl_ranks_rank0_done(void)
{
    if (sl_rank() == 0) {
        return sl_ranks_barrier();
    }
    return SL_OK;
}
