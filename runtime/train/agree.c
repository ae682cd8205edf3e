/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Broadcasts from rank 0, and comparisons. */
#include "runtime/train/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "support/decimal.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/real.h"
#include "tasks/ranks.h"

/* ---- limits ---- */

enum sl_status sl_ranks_check_settings(const struct sl_settings *s)
{
    uint32_t n = sl_ranks_started();
    if (n > 1) {
        return sl_schedule_of(s)->check_ranks(s, n);
    }
    return SL_OK;
}

enum sl_status sl_process_join(const struct sl_settings *settings)
{
    SL_IN_C_LOCALE;
    SL_CHECK(sl_ranks_check_settings(settings));
    return sl_ranks_open();
}

uint32_t sl_process_number(void)
{
    return sl_ranks_number();
}

uint32_t sl_process_count(void)
{
    return sl_ranks_started();
}

void sl_process_on_failure(void (*hook)(void))
{
    sl_ranks_on_failure(hook);
}

void sl_process_abort(int code)
{
    sl_ranks_abort(code);
}

/* ---- options ---- */

static enum sl_status match_option(const struct sl_option *option, const struct sl_settings *settings)
{
    char label[64];
    SL_FREED char *mine = NULL;
    enum sl_status st;
    snprintf(label, sizeof label, "--%s", option->name);
    SL_CHECK(sl_option_text(option, settings, &mine));
    if (option->spread == SL_SPREAD_EQUAL) {
        st = sl_ranks_match_text(label, mine, "give all ranks the same options (mpirun -x NAME passes a variable on)");
    } else {
        st = sl_ranks_match_text(label, mine[0] != '\0' ? "given" : "not given",
                                 "give it to all ranks or to none (mpirun -x NAME passes a variable on)");
    }
    return st;
}

/* Ranks with other options, in number or name, would lose step in match_option. */
static enum sl_status match_program(const struct sl_option_table *table, bool given)
{
    char mine[128];
    uint64_t sum = 0;
    for (size_t i = 0; i < table->n_options; i++) {
        sum = sl_checksum(sum, table->options[i].name, strlen(table->options[i].name));
    }
    snprintf(mine, sizeof mine, "%s %s, reals of %zu bytes, options %08" PRIx32 ", data from %s", table->program,
             PACKAGE_VERSION, sizeof(sl_real), (uint32_t)sum, given ? "arrays" : "files");
    return sl_ranks_match_text("program", mine, "start the same program everywhere");
}

/* The paths of --load may differ. */
static enum sl_status match_weights(const struct sl_settings *s)
{
    struct sl_map map;
    char mine[32];
    if (s->load == NULL || sl_n_ranks() == 1) {
        return SL_OK;
    }
    SL_CHECK(sl_file_map(s->load, &map));
    snprintf(mine, sizeof mine, "hash %016" PRIx64, sl_checksum(0, map.data, map.bytes));
    sl_file_unmap(&map);
    return sl_ranks_match_text("--load", mine, "give all ranks the same weights");
}

enum sl_status sl_ranks_match_settings(const struct sl_settings *settings, bool given)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    SL_CHECK(match_program(table, given));
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = sl_option_in_order(table, i);
        if (option->spread != SL_SPREAD_OWN) {
            SL_CHECK(match_option(option, settings));
        }
    }
    return match_weights(settings);
}

enum sl_status sl_ranks_take_decisions(struct sl_settings *s)
{
    struct {
        uint32_t pes, group_size, chunks;
        int placement;
    } decided = {s->pes, s->group_size, s->chunks, s->placement};
    SL_CHECK(sl_ranks_broadcast(&decided, sizeof decided));
    s->pes = decided.pes;
    s->group_size = decided.group_size;
    s->chunks = decided.chunks;
    s->placement = decided.placement;
    if (sl_n_ranks() > 1) {
        return sl_schedule_of(s)->check_ranks(s, sl_n_ranks());
    }
    return SL_OK;
}

/* ---- data ---- */

enum sl_status sl_ranks_match_checkpoint(const struct sl_tensors *checkpoint)
{
    char mine[64] = "no checkpoint";
    uint64_t step;
    if (checkpoint->n > 0) {
        SL_CHECK(sl_checkpoint_whole(checkpoint, "step", &step));
        snprintf(mine, sizeof mine, "step %" PRIu64 ", checksum %.16s", step, sl_checkpoint_checksum(checkpoint));
    }
    return sl_ranks_match_text("--resume", mine, "--checkpoint has to be a folder that all ranks share");
}

/* The paths of --class-weights may differ. */
static enum sl_status match_class_weights(const struct sl_objective *objective)
{
    char mine[SL_SUM_BYTES];
    sl_objective_identify(objective, mine);
    return sl_ranks_match_text("--class-weights", mine, "give all ranks the same weights");
}

/* The paths of --pairs may differ. */
static enum sl_status match_pairs(const struct sl_links *pairs)
{
    const struct sl_link_split split = {.list = {*pairs}};
    char mine[64];
    snprintf(mine, sizeof mine, "%u pairs, hash %016" PRIx64, pairs->n, sl_links_hash(&split));
    return sl_ranks_match_text("--pairs", mine, "give all ranks the same pairs");
}

/* The same of --predict-vertices. */
static enum sl_status match_listed(const struct sl_ids *listed)
{
    char mine[64];
    snprintf(mine, sizeof mine, "%u vertices, hash %016" PRIx64, listed->n,
             listed->n > 0 ? sl_checksum(0, listed->ids, listed->n * sizeof *listed->ids) : 0);
    return sl_ranks_match_text("--predict-vertices", mine, "give all ranks the same vertices");
}

enum sl_status sl_ranks_match_data(const struct sl_session *t)
{
    char label[96];
    for (size_t i = 0; i < SL_N_DATA_PARTS; i++) {
        snprintf(label, sizeof label, "dataset %s, %s", t->name, sl_data_part_names[i]);
        SL_CHECK(sl_ranks_match_text(label, t->identity.text[i],
                                     "give all ranks the same --dataset, --split and --features"));
    }
    snprintf(label, sizeof label, "dataset %s, dtype of features", t->name);
    SL_CHECK(sl_ranks_match_text(label, t->identity.feature_dtype, "give all ranks the same file of features"));
    SL_CHECK(match_class_weights(&t->objective));
    SL_CHECK(match_listed(&t->listed));
    return match_pairs(&t->pairs);
}

enum sl_status sl_ranks_match_parts(const struct sl_session *t)
{
    const struct sl_partition *p = &t->partition;
    char label[96];
    char mine[96];
    snprintf(label, sizeof label, "dataset %s, its partition", t->name);
    snprintf(mine, sizeof mine, "%" PRIu64 " cut edges, hash %016" PRIx64, p->n_cut,
             sl_checksum(0, p->new_ids, p->graph.n_vertices * sizeof *p->new_ids));
    return sl_ranks_match_text(label, mine, "ranks without a common --cache need the same METIS");
}

/* ---- numbers ---- */

enum sl_status sl_ranks_max(uint64_t mine, uint64_t *most_out)
{
    SL_FREED uint64_t *numbers = NULL;
    *most_out = 0;
    SL_CHECK(sl_alloc_zero(sl_n_ranks(), sizeof *numbers, "a number of each rank", &numbers));
    SL_CHECK(sl_ranks_gather(&mine, sizeof mine, numbers));
    for (uint32_t r = 0; r < sl_n_ranks(); r++) {
        *most_out = sl_max_u64(*most_out, numbers[r]);
    }
    return SL_OK;
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
