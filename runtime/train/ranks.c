/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Broadcasts from rank 0, and comparisons. */
#include "runtime/train/ranks.h"

#include <inttypes.h>
#include <stdio.h>
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

/* How an option compares between ranks. */
enum rule {
    EQUAL, /* the same value at all ranks */
    GIVEN, /* a path, which may differ. All ranks have it or none has, because all take part in the work for it */
    LOCAL  /* location of a rank's own files, its processors, what rank 0 prints */
};

static enum rule rule_of(const struct sl_option *option)
{
    static const char *const local[] = {"data-path", "cache", "cpus", "gpus", "sched", "quiet", "json"};
    static const char *const given[] = {"checkpoint", "save", "predict", "embed", "metrics"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        if (strcmp(option->name, local[i]) == 0) {
            return LOCAL;
        }
    }
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (strcmp(option->name, given[i]) == 0) {
            return GIVEN;
        }
    }
    return EQUAL;
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
    if (rule_of(option) == GIVEN && (mine[0] == '\0') != (first[0] == '\0')) {
        st = sl_fail(SL_EINVAL,
                     "--%s: found %s, expected %s as rank 0 has; give it to all ranks or to none (mpirun -x carries "
                     "STARLING_ variables to other machines)",
                     option->name, mine[0] == '\0' ? "none" : "one", first[0] == '\0' ? "none" : "one");
    } else if (rule_of(option) == EQUAL && strcmp(mine, first) != 0) {
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
    char mine[64];
    snprintf(mine, sizeof mine, "%s %s", table->program, PACKAGE_VERSION);
    SL_TRY(st, take_text_of_rank0(mine, &first), done);
    if (strcmp(first, mine) != 0) {
        st = sl_fail(SL_EINVAL, "found %s, expected %.60s as rank 0 has; start the same program everywhere", mine,
                     first);
        goto done;
    }
    size_t n_options = sl_n_ranks() > 1 ? table->n_options : 0;
    for (size_t i = 0; i < n_options; i++) {
        if (rule_of(&table->options[i]) != LOCAL) {
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

uint64_t sl_ranks_hash_parts(const struct sl_dataset *dataset, const struct sl_partition *partition)
{
    uint64_t n = dataset->graph.n_vertices;
    const uint64_t numbers[] = {partition->n_cut, n};
    if (sl_n_ranks() == 1) {
        return 0;
    }
    return sl_checksum(sl_checksum(0, numbers, sizeof numbers), partition->new_ids, n * sizeof *partition->new_ids);
}

enum sl_status sl_ranks_match_data(const struct sl_session *t)
{
    struct sl_identity first = t->identity;
    enum sl_status st;
    SL_TRY(st, sl_ranks_broadcast(&first, sizeof first), done);
    enum sl_identity_part part = sl_identity_compare(&first, &t->identity);
    if (part != SL_N_IDENTITIES) {
        st = sl_fail(SL_EFILE,
                     "dataset %s: found %s than rank 0 has; give all ranks the same files, --split and "
                     "--features",
                     t->name, sl_identity_others[part]);
    }
done:
    return st;
}

enum sl_status sl_ranks_match_parts(const struct sl_session *t)
{
    uint64_t first = t->parts_hash;
    enum sl_status st;
    SL_TRY(st, sl_ranks_broadcast(&first, sizeof first), done);
    if (first != t->parts_hash) {
        st = sl_fail(SL_EFILE, "dataset %s: found other parts than rank 0 has; give all ranks the same --cache",
                     t->name);
    }
done:
    return st;
}

enum sl_status sl_ranks_match_model(struct sl_session *t)
{
    size_t n = sl_model_entries(&t->model);
    sl_real *values = NULL;
    enum sl_status st = SL_OK;
    if (sl_n_ranks() == 1) {
        return SL_OK;
    }
    SL_TRY(st, sl_alloc(n, sizeof *values, "the model's entries", &values), done);
    SL_TRY(st, sl_model_acquire(&t->model, STARPU_R), done);
    sl_model_read(&t->model, values);
    sl_model_release(&t->model);
    const uint64_t mine = sl_checksum(0, values, n * sizeof *values);
    uint64_t first = mine;
    SL_TRY(st, sl_ranks_broadcast(&first, sizeof first), done);
    if (first != mine) {
        st = sl_fail(SL_EFILE,
                     "found other initial weights than rank 0 has; give all ranks the same file in --load, and "
                     "one folder that all share in --checkpoint");
    }
done:
    sl_free(values);
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
