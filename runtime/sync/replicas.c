/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rounds of gossip as submissions. All replicas mix into their spare arrays, which then replace the mixed arrays. */
#include "runtime/sync/replicas.h"

#include <string.h>

#include "codelets/ends/gossip.h"
#include "runtime/plan/plan.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/rows.h"

/* ---- making ---- */

enum sl_status sl_replicas_init(const struct sl_settings *settings, uint32_t n, const struct sl_model_data *data,
                                struct sl_model **out)
{
    struct sl_model *replicas;
    enum sl_status st;
    *out = NULL;
    SL_CHECK(sl_alloc_zero(n, sizeof *replicas, "replicas of the model", &replicas));
    for (uint32_t r = 0; r < n; r++) {
        SL_TRY(st, sl_model_init(settings, data, &replicas[r]), undo);
        SL_TRY(st, sl_model_make_replica(&replicas[r], r), undo);
    }
    *out = replicas;
    return SL_OK;
undo:
    sl_replicas_free(replicas, n);
    return st;
}

void sl_replicas_free(struct sl_model *replicas, uint32_t n)
{
    if (replicas == NULL) {
        return;
    }
    for (uint32_t r = 0; r < n; r++) {
        sl_model_free(&replicas[r]);
    }
    sl_free(replicas);
}

enum sl_status sl_replicas_spread(struct sl_model *replicas, uint32_t n, const struct sl_model *model)
{
    SL_FREED sl_real *values = NULL;
    SL_CHECK(sl_alloc(sl_model_entries(model), sizeof *values, "a model's values", &values));
    sl_model_read(model, values);
    for (uint32_t r = 0; r < n; r++) {
        SL_CHECK(sl_model_acquire(&replicas[r], STARPU_RW));
        sl_model_write(&replicas[r], values);
        sl_model_release(&replicas[r]);
    }
    return SL_OK;
}

/* ---- replicas that other ranks train ---- */

#define N_MIXES 3 /* topics of mixed arrays: gradient, weight, average */

static size_t n_mirrors(const struct sl_replicas *s)
{
    return (size_t)N_MIXES * SL_MAX_MODEL_LAYERS * SL_MAX_PARAMETERS * s->plan->n_replicas;
}

static enum sl_status open_round(uint32_t n, struct sl_round *round)
{
    SL_CHECK(sl_alloc(n, sizeof *round->from, "gossip", &round->from));
    return sl_alloc(n, sizeof *round->scale, "gossip", &round->scale);
}

enum sl_status sl_replicas_open(struct sl_replicas *s)
{
    const uint32_t n = s->plan->n_replicas;
    if (n == 1) {
        return SL_OK;
    }
    SL_CHECK(open_round(n, &s->rounds.gradient));
    SL_CHECK(open_round(n, &s->rounds.weight));
    SL_CHECK(sl_alloc(n, sizeof *s->permutation.node, "gossip", &s->permutation.node));
    SL_CHECK(sl_alloc(n, sizeof *s->partners, "gossip", &s->partners));
    SL_CHECK(sl_alloc_zero(n, sizeof *s->sums, "gossip", &s->sums));
    SL_CHECK(sl_alloc(n, sizeof *s->sources, "gossip", &s->sources));
    SL_CHECK(sl_alloc(n, sizeof *s->sent_to, "gossip", &s->sent_to));
    if (s->plan->n_ranks > 1) {
        return sl_alloc_zero(n_mirrors(s), sizeof *s->mirror, "replicas of other ranks", &s->mirror);
    }
    return SL_OK;
}

void sl_replicas_close(struct sl_replicas *s)
{
    for (size_t i = 0; s->mirror != NULL && i < n_mirrors(s); i++) {
        sl_handle_close(s->mirror[i]);
    }
    void *memory[] = {s->rounds.gradient.from,
                      s->rounds.gradient.scale,
                      s->rounds.weight.from,
                      s->rounds.weight.scale,
                      s->permutation.node,
                      s->partners,
                      s->sums,
                      s->sources,
                      s->sent_to,
                      s->mirror};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        sl_free(memory[i]);
    }
}

/* Send one array of a replica to rank 0, unless rank 0 trains the replica. number: index of the array in the
 * replica. */
static enum sl_status gather(struct sl_transport *transport, uint32_t replica, uint32_t number,
                             starpu_data_handle_t handle)
{
    struct sl_task_args head = {0};
    struct sl_shared state = {.topic = SL_TOPIC_STATE,
                              .from = sl_plan_first_of(transport->plan, replica),
                              .number = number,
                              .to = {0, 1},
                              .handle = handle};
    return sl_transport_share(transport, &head, &state);
}

enum sl_status sl_replicas_gather(struct sl_transport *transport, struct sl_model *replicas, bool moments)
{
    for (uint32_t r = 0; r < transport->plan->n_replicas; r++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < replicas->n_layers; i++) {
            const struct sl_layer *layer = &replicas[r].layer[i];
            for (int k = 0; k < SL_MAX_PARAMETERS; k++, n += 3) {
                const struct sl_parameter *p = &layer->parameter[k];
                if (!sl_parameter_trained(p)) {
                    continue;
                }
                SL_CHECK(gather(transport, r, n, p->value_handle));
                if (moments) {
                    SL_CHECK(gather(transport, r, n + 1, p->moment1_handle));
                    SL_CHECK(gather(transport, r, n + 2, p->moment2_handle));
                }
            }
            if (layer->running != NULL) {
                SL_CHECK(gather(transport, r, n++, layer->running_handle));
            }
        }
    }
    return SL_OK;
}

/* ---- the average of all ---- */

enum sl_status sl_replicas_average(struct sl_run *run, const struct sl_model *replicas, uint32_t n,
                                   struct sl_model *model)
{
    struct sl_task_args head = {.run = run, .stage = SL_STAGE_EVALUATE};
    SL_FREED starpu_data_handle_t *sources = NULL;
    SL_CHECK(sl_alloc(n, sizeof *sources, "the average of replicas", &sources));
    for (uint32_t i = 0; i < model->n_layers; i++) {
        struct sl_layer *layer = &model->layer[i];
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            for (uint32_t r = 0; r < n; r++) {
                sources[r] = replicas[r].layer[i].parameter[k].value_handle;
            }
            if (sl_parameter_trained(&layer->parameter[k])) {
                SL_CHECK(sl_gossip_mix_submit(&head, n, sources, 1.0 / n, layer->parameter[k].value_handle));
            }
        }
        for (uint32_t r = 0; r < n; r++) {
            sources[r] = replicas[r].layer[i].running_handle;
        }
        if (layer->running != NULL) {
            SL_CHECK(sl_gossip_mix_submit(&head, n, sources, 1.0 / n, layer->running_handle));
        }
    }
    return SL_OK;
}

/* ---- the plan of a step ---- */

static void plan_alone(uint32_t n, struct sl_round *round)
{
    round->local = 1;
    round->inner = 1;
    for (uint32_t b = 0; b < n; b++) {
        round->from[b] = b;
        round->scale[b] = 1;
    }
}

static enum sl_status plan_gossip(struct sl_replicas *s, uint64_t step, struct sl_round *round)
{
    const enum sl_sync topology = (enum sl_sync)s->settings->sync;
    uint32_t local = s->settings->gossip_local_size;
    uint32_t n = s->plan->n_replicas / local;
    SL_CHECK(sl_gossip_schedule(topology, n, step, s->settings->seed, &s->permutation, s->partners));
    round->local = local;
    round->inner = 1;
    for (uint32_t b = 0; b < n; b++) {
        round->from[b] = s->partners[b].from;
    }
    return SL_OK;
}

static uint32_t n_seeds_of(const struct sl_replicas *s, uint64_t step, const struct sl_round *round, uint32_t b)
{
    uint32_t n = 0;
    for (uint32_t r = b * round->local; r < (b + 1) * round->local; r++) {
        n += sl_plan_share(s->plan, step, r).n;
    }
    return n;
}

/* Gradients are terms of the mean over all m seeds. Rescale them to means over the seeds that they come from. */
static void scale_gradients(const struct sl_replicas *s, uint64_t step, struct sl_round *round)
{
    for (uint32_t b = 0; b < s->plan->n_replicas / round->local; b++) {
        uint32_t n = n_seeds_of(s, step, round, b);
        if (round->from[b] != b) {
            n += n_seeds_of(s, step, round, round->from[b]);
        }
        round->scale[b] = n == 0 ? 0 : (double)sl_plan_seeds(s->plan, step).n / n;
    }
}

static void scale_weights(const struct sl_replicas *s, struct sl_round *round)
{
    round->inner = 1.0 / round->local;
    for (uint32_t b = 0; b < s->plan->n_replicas / round->local; b++) {
        round->scale[b] = round->from[b] == b ? 1 : 0.5;
    }
}

enum sl_status sl_replicas_plan(struct sl_replicas *s, uint64_t step)
{
    uint64_t every = s->settings->gossip_average_every;
    struct sl_rounds *rounds = &s->rounds;
    bool weights = s->settings->gossip_what == SL_GOSSIP_WEIGHT;
    if (s->plan->n_replicas == 1) {
        return SL_OK;
    }
    plan_alone(s->plan->n_replicas, weights ? &rounds->gradient : &rounds->weight);
    SL_CHECK(plan_gossip(s, step, weights ? &rounds->weight : &rounds->gradient));
    scale_gradients(s, step, &rounds->gradient);
    scale_weights(s, &rounds->weight);
    rounds->average = every > 0 && (step + 1) % every == 0;
    return SL_OK;
}

/* ---- rounds ---- */

/* Exchange a parameter's array and its spare array. */
static void swap(struct sl_parameter *p, sl_real **array, starpu_data_handle_t *handle)
{
    sl_real *spare = p->spare;
    starpu_data_handle_t spare_handle = p->spare_handle;
    p->spare = *array;
    p->spare_handle = *handle;
    *array = spare;
    *handle = spare_handle;
}

/* One parameter of one layer, and the array of it that mixes. */
struct subject {
    uint32_t layer;
    int parameter;
    enum sl_topic topic; /* gradient, weight, or average of all weights */
};

static struct sl_parameter *parameter_of(const struct sl_replicas *s, const struct subject *subject, uint32_t r)
{
    return &s->replica[r].layer[subject->layer].parameter[subject->parameter];
}

/* Index of a parameter in its model. */
static uint32_t number_of(const struct subject *subject)
{
    return subject->layer * SL_MAX_PARAMETERS + (uint32_t)subject->parameter;
}

/* The last array received of a replica that other ranks train. */
static starpu_data_handle_t *mirror_of(const struct sl_replicas *s, const struct subject *subject, uint32_t r)
{
    size_t mix = subject->topic - SL_TOPIC_GRADIENT;
    return &s->mirror[(mix * SL_MAX_MODEL_LAYERS * SL_MAX_PARAMETERS + number_of(subject)) * s->plan->n_replicas + r];
}

static starpu_data_handle_t array_of(const struct sl_replicas *s, const struct subject *subject, uint32_t r)
{
    const struct sl_parameter *p = parameter_of(s, subject, r);
    if (!sl_plan_trains(s->plan, r)) {
        return *mirror_of(s, subject, r);
    }
    return subject->topic == SL_TOPIC_GRADIENT ? p->gradient_handle : p->value_handle;
}

/* Head of the tasks for replica r, which its first PE runs. */
static struct sl_task_args head_of(const struct sl_replicas *s, uint64_t step, uint32_t r)
{
    return (struct sl_task_args){.run = s->run, .step = step, .pe = sl_plan_first_of(s->plan, r)};
}

/* Send replica q's array to rank `to`, unless the rank trains q. */
static enum sl_status cross(struct sl_replicas *s, const struct subject *subject, uint32_t q, uint32_t to)
{
    struct sl_rank_range owners = sl_plan_trainers(s->plan, q);
    struct sl_task_args head = {0};
    struct sl_shared array = {.topic = subject->topic,
                              .from = sl_plan_first_of(s->plan, q),
                              .number = number_of(subject),
                              .to = {to, to + 1}};
    const struct sl_parameter *p = parameter_of(s, subject, q);
    if (to >= owners.begin && to < owners.end) {
        return SL_OK;
    }
    if (to == s->plan->rank && *mirror_of(s, subject, q) == NULL) {
        SL_CHECK(sl_matrix_register(p->n_rows, p->n_columns, SL_DTYPE_REAL, mirror_of(s, subject, q)));
    }
    array.handle = array_of(s, subject, q);
    return sl_transport_share(s->transport, &head, &array);
}

/* Send the arrays of node b to the ranks that train replica r. Replica r + 1 has the last of these ranks, or later
 * ranks. So `sent_to` says which ranks have an array already. */
static enum sl_status cross_node(struct sl_replicas *s, const struct sl_round *round, const struct subject *subject,
                                 uint32_t b, uint32_t r)
{
    struct sl_rank_range readers = sl_plan_trainers(s->plan, r);
    for (uint32_t q = b * round->local; q < (b + 1) * round->local; q++) {
        for (uint32_t to = sl_max_u32(readers.begin, s->sent_to[q]); to < readers.end; to++) {
            SL_CHECK(cross(s, subject, q, to));
            s->sent_to[q] = to + 1;
        }
    }
    return SL_OK;
}

/* Send every array to the ranks that read it and do not train it. */
static enum sl_status cross_all(struct sl_replicas *s, const struct sl_round *round, const struct subject *subject)
{
    if (s->plan->n_ranks == 1) {
        return SL_OK;
    }
    memset(s->sent_to, 0, s->plan->n_replicas * sizeof *s->sent_to);
    for (uint32_t r = 0; r < s->plan->n_replicas; r++) {
        uint32_t b = r / round->local;
        SL_CHECK(cross_node(s, round, subject, b, r));
        SL_CHECK(cross_node(s, round, subject, round->from[b], r));
    }
    return SL_OK;
}

/* Whether a replica of this rank is in node b, or in a node that receives from node b. */
static bool node_is_read(const struct sl_replicas *s, const struct sl_round *round, uint32_t b)
{
    uint32_t last = sl_plan_replica(s->plan, s->plan->end_pe - 1);
    bool read = false;
    for (uint32_t r = sl_plan_replica(s->plan, s->plan->first_pe); r <= last; r++) {
        uint32_t node = r / round->local;
        read |= node == b || round->from[node] == b;
    }
    return read;
}

/* The contribution of each node to the exchange: the array of its only replica, or a new sum over its replicas. */
static enum sl_status add_inside(struct sl_replicas *s, uint64_t step, const struct sl_round *round,
                                 const struct subject *subject)
{
    for (uint32_t b = 0; b < s->plan->n_replicas / round->local; b++) {
        const struct sl_parameter *p = parameter_of(s, subject, b * round->local);
        struct sl_task_args head = head_of(s, step, b * round->local);
        for (uint32_t i = 0; i < round->local; i++) {
            s->sources[i] = array_of(s, subject, b * round->local + i);
        }
        if (round->local == 1) {
            s->sums[b] = s->sources[0];
            continue;
        }
        if (!node_is_read(s, round, b)) {
            continue;
        }
        SL_CHECK(sl_matrix_register(p->n_rows, p->n_columns, SL_DTYPE_REAL, &s->sums[b]));
        SL_CHECK(sl_gossip_mix_submit(&head, round->local, s->sources, round->inner, s->sums[b]));
    }
    return SL_OK;
}

/* Whether node b's replicas change. */
static bool mixes(const struct sl_round *round, uint32_t b)
{
    return round->from[b] != b || round->local > 1 || round->scale[b] != 1;
}

static enum sl_status mix(struct sl_replicas *s, uint64_t step, const struct sl_round *round,
                          const struct subject *subject)
{
    enum sl_status st;
    memset(s->sums, 0, s->plan->n_replicas * sizeof *s->sums);
    SL_TRY(st, cross_all(s, round, subject), done);
    SL_TRY(st, add_inside(s, step, round, subject), done);
    for (uint32_t r = 0; r < s->plan->n_replicas; r++) {
        uint32_t b = r / round->local;
        uint32_t n = round->from[b] == b ? 1 : 2;
        starpu_data_handle_t sources[2] = {s->sums[b], s->sums[round->from[b]]};
        struct sl_task_args head = head_of(s, step, r);
        if (mixes(round, b) && sl_plan_trains(s->plan, r)) {
            SL_TRY(st,
                   sl_gossip_mix_submit(&head, n, sources, round->scale[b], parameter_of(s, subject, r)->spare_handle),
                   done);
        }
    }
    for (uint32_t r = 0; r < s->plan->n_replicas; r++) {
        struct sl_parameter *p = parameter_of(s, subject, r);
        if (mixes(round, r / round->local) && sl_plan_trains(s->plan, r)) {
            bool gradient = subject->topic == SL_TOPIC_GRADIENT;
            swap(p, gradient ? &p->gradient : &p->value, gradient ? &p->gradient_handle : &p->value_handle);
        }
    }
done:
    if (round->local > 1) {
        for (uint32_t b = 0; b < s->plan->n_replicas / round->local; b++) {
            sl_handle_drop(&s->sums[b]);
        }
    }
    return st;
}

enum sl_status sl_replicas_mix_gradients(struct sl_replicas *s, uint64_t step, uint32_t layer, int parameter)
{
    if (s->plan->n_replicas == 1) {
        return SL_OK;
    }
    return mix(s, step, &s->rounds.gradient, &(struct subject){layer, parameter, SL_TOPIC_GRADIENT});
}

enum sl_status sl_replicas_mix_weights(struct sl_replicas *s, uint64_t step, uint32_t layer, int parameter)
{
    struct sl_round all = {.local = s->plan->n_replicas,
                           .inner = 1.0 / s->plan->n_replicas,
                           .from = &(uint32_t){0},
                           .scale = &(double){1}};
    struct subject weight = {layer, parameter, SL_TOPIC_WEIGHT};
    struct subject average = {layer, parameter, SL_TOPIC_AVERAGE};
    if (s->plan->n_replicas > 1) {
        SL_CHECK(mix(s, step, &s->rounds.weight, &weight));
        if (s->rounds.average) {
            SL_CHECK(mix(s, step, &all, &average));
        }
    }
    return SL_OK;
}

/* ---- what travels ---- */

static uint64_t round_traffic(uint32_t n_replicas, const struct sl_round *round)
{
    uint32_t n_nodes = n_replicas / round->local;
    uint64_t n = 2 * (uint64_t)n_nodes * (round->local - 1);
    for (uint32_t b = 0; b < n_nodes; b++) {
        n += round->from[b] != b;
    }
    return n;
}

uint64_t sl_replicas_traffic(const struct sl_replicas *s)
{
    uint64_t n = 2 * (uint64_t)(s->plan->n_pes - s->plan->n_replicas); /* inside the groups */
    if (s->plan->n_replicas > 1) {
        n += round_traffic(s->plan->n_replicas, &s->rounds.gradient) +
             round_traffic(s->plan->n_replicas, &s->rounds.weight);
        if (s->rounds.average) {
            n += 2 * (uint64_t)(s->plan->n_replicas - 1);
        }
    }
    return n;
}
