/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Links: is there an edge between two vertices? A decoder makes the score of a pair from the vertices' outputs.
 * Training compares each link with its negatives (codelets/ends/pairs.h). The scores compare each link to find with its
 * own negatives, if the dataset has such, else with all negatives of its list, those of the dataset or as many drawn
 * ones. */
#include <math.h>
#include <string.h>

#include "codelets/ends/pairs.h"
#include "codelets/sampling/link_seeds.h"
#include "data/random_split.h"
#include "runtime/machine/watchdog.h"
#include "runtime/objective/collect.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

/* ---- the data ---- */

/* Take a list of negatives over, or draw one for each link. */
static enum sl_status take_negatives(const struct sl_dataset *dataset, enum sl_link_list links,
                                     enum sl_link_list negatives, struct sl_objective *out)
{
    const struct sl_links *given = &dataset->links.list[negatives];
    out->links.n_each[negatives] = dataset->links.n_each[negatives];
    if (given->n > 0 || dataset->links.list[links].n == 0) {
        return sl_links_copy(given, &out->links.list[negatives]);
    }
    return sl_links_draw_negatives(&dataset->links, links, &dataset->graph, &out->links.list[negatives]);
}

static enum sl_status open_links(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                 struct sl_objective *out)
{
    const double n = settings->negatives + 1;
    SL_FAIL_IF(!sl_dataset_has_links(dataset) && settings->epochs > 0, SL_EINVAL,
               "--objective: found link, expected a split that lists links; the split '%s' of %s lists none: "
               "draw one by " SL_RANDOM_SPLIT_OF_LINKS ", or list links in files, or as valid_links and "
               "test_links of arrays",
               dataset->split, dataset->name);
    out->n_outputs = settings->hidden;
    out->n_negatives = settings->negatives;
    out->decoder = settings->decoder;
    out->excludes_reverse = settings->link_exclude == SL_LINK_EXCLUDE_REVERSE;
    out->loss = settings->link_loss;
    if (out->loss == SL_PAIRS_BINARY) {
        out->mass_each = n; /* the loss is a mean over pairs */
        out->guess = (log(n) + (n - 1) * log(n / (n - 1))) / n;
    } else {
        out->guess = log(n);
    }
    SL_CHECK(sl_links_copy(&dataset->links.list[SL_LINKS_VALID], &out->links.list[SL_LINKS_VALID]));
    SL_CHECK(sl_links_copy(&dataset->links.list[SL_LINKS_TEST], &out->links.list[SL_LINKS_TEST]));
    SL_CHECK(take_negatives(dataset, SL_LINKS_VALID, SL_LINKS_VALID_NEGATIVE, out));
    SL_CHECK(take_negatives(dataset, SL_LINKS_TEST, SL_LINKS_TEST_NEGATIVE, out));
    out->links.n_relations = dataset->links.n_relations;
    if (out->links.n_relations > 0) {
        return sl_links_copy_ends(dataset->links.ends, out->links.n_relations, 0, &out->links.ends);
    }
    return SL_OK;
}

/* ---- seeds ---- */

static struct sl_link_range range_of(const struct sl_objective_seeds *seeds)
{
    return (struct sl_link_range){.order = seeds->order,
                                  .from = seeds->shards->link_from,
                                  .to = seeds->shards->link_to,
                                  .relation = seeds->shards->link_relation,
                                  .ends = seeds->shards->link_ends,
                                  .own_relations = seeds->relations,
                                  .begin = seeds->begin,
                                  .end = seeds->end};
}

/* The frontier is empty. The block has the links whose first end the PE owns; its sources are ends and negatives. */
static enum sl_status seed(const struct sl_objective *o, const struct sl_task_args *head,
                           const struct sl_objective_seeds *seeds)
{
    const struct sl_link_range links = range_of(seeds);
    struct sl_link_rule rule = {
        .n_negatives = o->n_negatives, .both_ways = !seeds->shards->directed_links, .draw = seeds->draw};
    rule.draw.purpose = SL_FOR_NEGATIVES;
    SL_CHECK(sl_seed_submit(head, links.order, 0, 0, &seeds->frontier));
    return sl_link_seed_submit(head, seeds->part, &links, seeds->shards->new_ids, &rule, &seeds->marks,
                               &seeds->frontier, seeds->block);
}

/* The links of all groups, so that groups change no figure. */
static enum sl_status exclude(const struct sl_objective *o, const struct sl_task_args *head,
                              const struct sl_objective_seeds *seeds, starpu_data_handle_t table)
{
    const struct sl_link_range links = range_of(seeds);
    return sl_exclude_submit(head, &links, o->excludes_reverse, table);
}

/* ---- loss ---- */

static enum sl_status lose(const struct sl_objective *o, const struct sl_task_args *head,
                           const struct sl_objective_rows *rows, double scale, starpu_data_handle_t gz,
                           starpu_data_handle_t loss)
{
    const struct sl_pairs rule = {.n_negatives = o->n_negatives,
                                  .loss = (enum sl_pairs_loss)o->loss,
                                  .both_ends = o->links.n_relations > 0,
                                  .decoder.name = (enum sl_decoder_name)o->decoder};
    struct sl_pairs_handles handles = {.z = rows->z, .gz = gz, .loss = loss, .relations = rows->relations};
    memcpy(handles.value, rows->decoder, sizeof handles.value);
    memcpy(handles.gradient, rows->decoder_gradient, sizeof handles.gradient);
    return sl_pairs_submit(head, &rule, scale, &handles);
}

/* ---- scores ---- */

static const struct sl_score_kind kinds[] = {{"auc", true, true, false},     {"ap", true, true, false},
                                             {"mrr", true, true, false},     {"hits1", true, true, false},
                                             {"hits3", true, true, false},   {"hits10", true, true, false},
                                             {"hits20", true, true, false},  {"hits50", true, true, false},
                                             {"hits100", true, true, false}, {0}};

/* The new ids of a chunk's rows. */
static const sl_vertex *ids_of(const struct sl_shards *shards, const struct sl_output_chunk *chunk)
{
    return shards->iota + shards->part[chunk->part].first + chunk->row;
}

/* The vertices of this rank: begin .. end - 1. */
static void find_own(const struct sl_outputs *outputs, sl_vertex *begin, sl_vertex *end)
{
    *begin = *end = 0;
    if (outputs->n_chunks > 0) {
        const struct sl_output_chunk *first = &outputs->chunk[0];
        const struct sl_output_chunk *last = &outputs->chunk[outputs->n_chunks - 1];
        *begin = *ids_of(outputs->shards, first);
        *end = ids_of(outputs->shards, last)[last->n - 1] + 1;
    }
}

/* The ends that scores need, with their outputs, at rank 0. */
struct wanted {
    struct sl_chosen ends;
    const struct sl_decoder *decoder;
};

static void close_wanted(struct wanted *w)
{
    sl_chosen_close(&w->ends);
}

/* Gather the outputs of the vertices that scores need, at rank 0. */
static enum sl_status take_rows(const struct sl_objective *o, const struct sl_outputs *outputs, struct wanted *w)
{
    const struct sl_shards *shards = outputs->shards;
    sl_vertex begin;
    sl_vertex end;
    w->decoder = outputs->decoder;
    SL_CHECK(sl_chosen_open(shards->n_vertices, o->n_outputs, &w->ends));
    for (uint32_t v = 0; v < shards->n_vertices && o->links.n_relations > 0; v++) {
        sl_chosen_add(&w->ends, v); /* candidates of ranks */
    }
    for (int list = SL_LINKS_VALID; list < SL_N_LINK_LISTS; list++) {
        for (uint32_t i = 0; i < o->links.list[list].n; i++) {
            sl_chosen_add(&w->ends, o->links.list[list].from[i]);
            sl_chosen_add(&w->ends, o->links.list[list].to[i]);
        }
    }
    find_own(outputs, &begin, &end);
    SL_CHECK(sl_chosen_number(&w->ends, shards->n_vertices, begin, end));
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        const struct sl_output_chunk *chunk = &outputs->chunk[k];
        SL_CHECK(sl_chunk_acquire(&outputs->run->failure, chunk->z, STARPU_R));
        sl_chosen_take(&w->ends, chunk->n, ids_of(shards, chunk), starpu_data_get_local_ptr(chunk->z));
        starpu_data_release(chunk->z);
    }
    if (shards->halo != NULL) {
        sl_ranks_drain();
    }
    return sl_chosen_gather(&w->ends);
}

/* The score of each pair of a list. Adds the pairs' losses to *loss. */
static enum sl_status score_list(const struct wanted *w, const struct sl_links *links, bool is_link,
                                 struct sl_pair *out, double *loss)
{
    double scores[SL_CHOSEN_TILE];
    uint32_t n;
    for (uint32_t i = 0; i < links->n; i += n) {
        SL_CHECK(sl_chosen_score(&w->ends, w->decoder, links, NULL, i, &n, scores));
        for (uint32_t k = 0; k < n; k++) {
            *loss += sl_pairs_loss_of(scores[k], is_link);
            out[i + k] = (struct sl_pair){(sl_real)scores[k], is_link};
        }
    }
    return SL_OK;
}

/* The scores and the mean loss of a list of links and its negatives. */
struct link_scores {
    double auc, ap, loss;
    struct sl_pair_ranks ranks;
};

/* The rank of a link among n negatives: 1 more than the number of better ones, ties count half. This is the mean of
 * the best and the worst rank of OGB's evaluator. NaN: a score is no number. */
static double rank_among(sl_real z, uint32_t n, const struct sl_pair *negatives)
{
    double rank = isnan((double)z) ? (double)NAN : 1;
    for (uint32_t k = 0; k < n; k++) {
        const sl_real other = negatives[k].z;
        rank += isnan((double)other) ? (double)NAN : (other > z) + 0.5 * (other == z);
    }
    return rank;
}

/* The ranks of the first n pairs among their own negatives, the other pairs. */
static struct sl_pair_ranks rank_own(const struct sl_pair *pairs, uint32_t n, uint32_t n_negatives, uint32_t n_each)
{
    struct sl_pair_ranks ranks = {{0}};
    const uint32_t n_blocks = n_negatives / n_each;
    for (uint32_t b = 0; b < n_blocks; b++) {
        const sl_real z = pairs[b / (n_blocks / n)].z;
        sl_pair_ranks_add(&ranks, rank_among(z, n_each, pairs + n + (size_t)b * n_each), 1);
    }
    sl_pair_ranks_mean(&ranks, n_blocks);
    return ranks;
}

static enum sl_status score_set(const struct sl_objective *o, const struct wanted *w, enum sl_link_list links,
                                enum sl_link_list negatives, struct link_scores *out)
{
    const struct sl_links *lists = o->links.list;
    const size_t n = (size_t)lists[links].n + lists[negatives].n;
    SL_FREED struct sl_pair *pairs = NULL;
    double loss = 0;
    *out = (struct link_scores){.auc = NAN, .ap = NAN, .loss = NAN};
    sl_pair_ranks_mean(&out->ranks, 0);
    if (n == 0) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc(n, sizeof *pairs, "scores of links", &pairs));
    SL_CHECK(score_list(w, &lists[links], true, pairs, &loss));
    SL_CHECK(score_list(w, &lists[negatives], false, pairs + lists[links].n, &loss));
    out->loss = loss / (double)n;
    if (o->links.n_each[negatives] > 0) {
        out->ranks = rank_own(pairs, lists[links].n, lists[negatives].n, o->links.n_each[negatives]);
    } else {
        out->ranks = sl_pairs_ranks(pairs, n);
    }
    out->auc = sl_pairs_area(pairs, n);
    out->ap = sl_pairs_precision(pairs, n);
    return SL_OK;
}

/* The rows of all vertices in the order of dataset ids. */
static enum sl_status sort_rows(const struct wanted *w, const struct sl_shards *shards, sl_real **out)
{
    const size_t n = w->ends.n_columns;
    SL_CHECK(sl_alloc(shards->n_vertices * n, sizeof **out, "outputs by dataset id", out));
    for (uint32_t v = 0; v < shards->n_vertices; v++) {
        memcpy(*out + shards->partition->dataset_ids[v] * n, sl_chosen_row(&w->ends, v), n * sizeof **out);
    }
    return SL_OK;
}

/* Replace the ranks among shared negatives of the lists by filtered ranks. */
static enum sl_status rank_triples(const struct sl_objective *o, const struct sl_shards *shards, const struct wanted *w,
                                   struct link_scores *valid, struct link_scores *test)
{
    const struct sl_links *const lists[] = {&shards->links, &o->links.list[SL_LINKS_VALID],
                                            &o->links.list[SL_LINKS_TEST]};
    struct sl_triple_scorer scorer = {
        .decoder = w->decoder, .ends = o->links.ends, .dataset_ids = shards->partition->dataset_ids};
    SL_OWNED(sl_triples_close) struct sl_triples triples = {0};
    SL_FREED sl_real *rows = NULL;
    SL_CHECK(sort_rows(w, shards, &rows));
    scorer.rows = rows;
    SL_CHECK(sl_triples_open(3, lists, scorer.dataset_ids, &triples));
    if (o->links.n_each[SL_LINKS_VALID_NEGATIVE] == 0) {
        SL_CHECK(sl_triples_rank(&triples, &scorer, lists[1], &valid->ranks));
    }
    if (o->links.n_each[SL_LINKS_TEST_NEGATIVE] == 0) {
        SL_CHECK(sl_triples_rank(&triples, &scorer, lists[2], &test->ranks));
    }
    return SL_OK;
}

static enum sl_status score(const struct sl_objective *o, const struct sl_outputs *outputs, struct sl_scores *out)
{
    struct link_scores valid;
    struct link_scores test;
    SL_OWNED(close_wanted) struct wanted w = {0};
    SL_CHECK(take_rows(o, outputs, &w));
    sl_watchdog_suspend(true); /* rank 0 scores alone, which may take long */
    if (sl_rank() > 0) {
        return SL_OK; /* rank 0 has the rows */
    }
    SL_CHECK(score_set(o, &w, SL_LINKS_VALID, SL_LINKS_VALID_NEGATIVE, &valid));
    SL_CHECK(score_set(o, &w, SL_LINKS_TEST, SL_LINKS_TEST_NEGATIVE, &test));
    if (o->links.n_relations > 0) {
        SL_CHECK(rank_triples(o, outputs->shards, &w, &valid, &test));
    }
    out->valid_loss = valid.loss;
    sl_scores_put(out, "auc", valid.auc, test.auc);
    sl_scores_put(out, "ap", valid.ap, test.ap);
    for (int i = 0; i < SL_N_PAIR_RANKS; i++) {
        sl_scores_put(out, sl_pair_rank_names[i], valid.ranks.score[i], test.ranks.score[i]);
    }
    return SL_OK;
}

const struct sl_objective_kind sl_link_prediction = {.name = "link",
                                                     .output = "output",
                                                     .outputs = "outputs",
                                                     .open = open_links,
                                                     .scores = kinds,
                                                     .seed = seed,
                                                     .exclude = exclude,
                                                     .lose = lose,
                                                     .score = score};
