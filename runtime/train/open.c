/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Opening and closing of a session. */
#include "data/load.h"
#include "runtime/train/session.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "codelets/rows/gemm.h"
#include "data/cache.h"
#include "data/random_split.h"
#include "partition/metis.h"
#include "runtime/files/checkpoint.h"
#include "runtime/machine/limits.h"
#include "runtime/machine/pool.h"
#include "runtime/machine/watchdog.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/kinds.h"
#include "runtime/model/sums.h"
#include "runtime/pipe/boundary.h"
#include "runtime/plan/model_file.h"
#include "runtime/sync/replicas.h"
#include "support/clock.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/text.h"
#include "tasks/near.h"

#define WATCHDOG_S 300 /* default with several processes */
#define DATASET_SEED 1 /* of generated datasets; --seed is for training only */

/* ---- open ---- */

/* Random features of a model have the model's seed. */
static uint64_t feature_seed(const struct sl_settings *s)
{
    const struct sl_model_file *file = s->model_file;
    return file != NULL && sl_model_file_text(file, SL_KEY_SEED) != NULL ? file->feature_seed : s->seed;
}

static uint64_t least_of_run(const struct sl_raw_sizes *sizes, const void *settings)
{
    return sl_memory_least(settings, sizes);
}

/* A split left open is the split that the run in the checkpoint began with. */
static struct sl_dataset_options dataset_options(const struct sl_settings *s, const char *usual_split)
{
    static const enum sl_target_choice targets[] = {[SL_OBJECTIVE_AUTO] = SL_TARGETS_ANY,
                                                    [SL_OBJECTIVE_CLASS] = SL_TARGETS_CLASSES,
                                                    [SL_OBJECTIVE_LABELS] = SL_TARGETS_NUMBERS,
                                                    [SL_OBJECTIVE_REGRESSION] = SL_TARGETS_NUMBERS,
                                                    [SL_OBJECTIVE_LINK] = SL_TARGETS_ANY};
    static const enum sl_raw_need needs[2][2] = {{SL_RAW_FOR_INFERENCE, SL_RAW_FOR_TRAINING},
                                                 {SL_RAW_FOR_PAIRS, SL_RAW_FOR_LINKS}};
    return (struct sl_dataset_options){.dataset = s->dataset,
                                       .data_path = s->data_path,
                                       .split = s->split,
                                       .split_seed = s->seed,
                                       .drop_leaks = s->drop_leaks,
                                       .usual_split = usual_split[0] != '\0' ? usual_split : NULL,
                                       .features = s->features,
                                       .feature_seed = feature_seed(s),
                                       .cache = s->cache,
                                       .need = needs[sl_settings_trains_links(s)][s->epochs > 0],
                                       .directed = s->directed,
                                       .edge_features = s->edge_features != SL_EDGE_FEATURES_NONE,
                                       .normalize = (enum sl_normalize)s->normalize_features,
                                       .scaling = s->model_file != NULL ? &s->model_file->scaling : NULL,
                                       .targets = targets[s->objective],
                                       .seed = DATASET_SEED,
                                       .outputs = {s->metrics, s->save, s->predict, s->embed},
                                       .low_memory = sl_n_ranks() > 1};
}

/* Whether the run draws its split. A split left open is the usual one. */
static bool draws_split(const struct sl_settings *settings, const char *usual_split)
{
    struct sl_random_split rule;
    return sl_random_split_parse(sl_text_or(settings->split, usual_split), 0, &rule) == SL_OK && rule.wanted;
}

/* With the caller's dataset, options for selecting a dataset must be unset. `cache` is for the partition. */
static enum sl_status check_given(const struct sl_settings *settings, const struct sl_dataset *given)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    for (size_t i = 0; given != NULL && i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        char now[256];
        bool unset;
        if (!option->of_data || settings->adopted[i] || strcmp(option->name, "cache") == 0 ||
            (strcmp(option->name, "split") == 0 && draws_split(settings, ""))) {
            continue;
        }
        SL_CHECK(sl_settings_get(settings, option->name, now, sizeof now));
        SL_CHECK(sl_option_is_default(option, settings, &unset));
        SL_FAIL_IF(!unset && now[0] != '\0', SL_EINVAL,
                   "--%s '%.200s' cannot be used with the program's own dataset '%s'", option->name, now, given->name);
    }
    SL_FAIL_IF(given != NULL && sl_dataset_has_links(given) && !sl_settings_trains_links(settings), SL_EINVAL,
               "--objective: '%s' lists links; use --objective link or auto", given->name);
    return SL_OK;
}

/* Bytes that this process may use. */
static uint64_t memory_budget(const struct sl_settings *s)
{
    return s->memory > 0 ? sl_min_u64((uint64_t)(s->memory * 1e9), sl_limits_memory()) : sl_limits_memory();
}

/* While the session works, and not between the caller's calls, the process has a limit. A rank has tables as long as
 * all ranks', most of whose pages nobody touches: there the limit is for reading alone. */
static void limit_memory(struct sl_session *t)
{
    sl_memory_limit(memory_budget(t->settings), sl_schedule_of(t->settings)->advice);
    t->limited = true;
}

static void lift_limit(struct sl_session *t)
{
    if (t->limited) {
        sl_memory_limit(UINT64_MAX, "");
    }
    t->limited = false;
}

/* Take the options of --load and check all. Files that do not say the number of outputs have arrays that show it. */
static enum sl_status check_settings(struct sl_settings *s)
{
    SL_CHECK(sl_settings_adopt(s));
    SL_CHECK(sl_settings_check(s));
    if (s->model_file != NULL && s->model_file->n_outputs == 0 && !sl_settings_trains_links(s)) {
        s->model_file->n_outputs = sl_model_outputs_in(s, &s->model_file->tensors);
    }
    return SL_OK;
}

enum sl_status sl_dataset_open(struct sl_settings *settings, struct sl_dataset **out)
{
    SL_IN_C_LOCALE;
    struct sl_dataset *dataset;
    enum sl_status st;
    *out = NULL;
    SL_TRY(st, check_settings(settings), done);
    SL_TRY(st, sl_alloc_zero(1, sizeof *dataset, "a dataset", &dataset), done);
    /* Else readers would fill the memory until the system kills the process. */
    sl_memory_limit(memory_budget(settings), sl_schedule_of(settings)->advice);
    const struct sl_dataset_options options = dataset_options(settings, "");
    st = sl_dataset_load(&options, dataset);
    sl_memory_limit(UINT64_MAX, "");
    SL_TRY(st, st, undo);
    if (settings->model_file != NULL && !sl_settings_trains_links(settings)) {
        sl_targets_widen(&dataset->targets, settings->model_file->n_outputs);
    }
    *out = dataset;
    return SL_OK;
undo:
    sl_dataset_delete(dataset);
done:
    return st;
}

enum sl_status sl_dataset_describe(const struct sl_dataset *dataset, struct sl_dataset_sizes *out)
{
    SL_IN_C_LOCALE;
    struct sl_dataset_sizes all = {.size = out->size,
                                   .n_vertices = dataset->graph.n_vertices,
                                   .n_edges = dataset->graph.n_edges,
                                   .n_features = dataset->features.n_columns,
                                   .n_outputs = sl_targets_outputs(&dataset->targets),
                                   .has_classes = dataset->targets.type == SL_TARGET_CLASS,
                                   .has_edge_weights = dataset->graph.weights != NULL,
                                   .synthetic = dataset->synthetic,
                                   .n_train = sl_dataset_n_train(dataset),
                                   .n_valid = dataset->valid.n + dataset->links.list[SL_LINKS_VALID].n,
                                   .n_test = dataset->test.n + dataset->links.list[SL_LINKS_TEST].n,
                                   .class_names = dataset->class_names,
                                   .vertex_names = dataset->vertex_names,
                                   .n_relations = dataset->graph.n_relations,
                                   .directed = dataset->directed};
    SL_FAIL_IF(out->size == 0, SL_EINVAL,
               "sl_dataset_describe: found a size of 0, expected sizeof(struct sl_dataset_sizes)");
    snprintf(all.name, sizeof all.name, "%s", dataset->name);
    snprintf(all.split, sizeof all.split, "%s", dataset->split);
    memcpy(out, &all, sl_min_u64(out->size, sizeof all));
    return SL_OK;
}

/* A dataset has weights of its edges if the run uses them. */
static enum sl_status check_weights(const struct sl_session *t)
{
    bool used = t->settings->edge_weights != SL_EDGE_WEIGHTS_NONE;
    bool typed = t->dataset->graph.n_relations > 0;
    bool there = t->dataset->graph.weights != NULL;
    SL_FAIL_IF(typed && sl_schedule_of(t->settings)->whole_graph, SL_EINVAL,
               "'%s': found a typed dataset, which pipe_gnn does not take; use coop_sage", t->name);
    SL_FAIL_IF(sl_model_reads_relations(t->settings) && !typed, SL_EINVAL,
               "--model %s: expected a typed dataset (raw/triplet-type-list.csv.gz, or relations of the edges "
               "of arrays), found one kind of edge in '%s'; try --model sage",
               sl_model_kind(t->settings->model)->name, t->name);
    SL_FAIL_IF(used && !there, SL_EINVAL,
               "--edge-weights: expected a dataset with weights of its edges (%s), found none in '%s'",
               typed ? "raw/relations/RELATION/edge-weight.csv.gz" : "raw/edge-weight.csv.gz", t->name);
    SL_FAIL_IF(typed && t->settings->edge_weights == SL_EDGE_WEIGHTS_PROBABILITY &&
                   !sl_model_reads_relations(t->settings),
               SL_EINVAL,
               "--edge-weights probability: expected --model rgcn or rgat with the typed dataset '%s', found %s, which "
               "does not tell relations apart; or use factor",
               t->name, sl_model_kind(t->settings->model)->name);
    if (!used && there && t->settings->model_file == NULL) { /* a model has said so in training */
        sl_notify(SL_NOTICE_WARNING,
                  "%s: the weights of edges are not used; --edge-weights factor, probability or both uses them",
                  t->name);
    }
    return SL_OK;
}

/* A dataset has features of its edges if the run uses them. */
static enum sl_status check_edge_features(const struct sl_session *t)
{
    const bool used = t->settings->edge_features != SL_EDGE_FEATURES_NONE;
    const bool there = t->dataset->graph.rows != NULL;
    SL_FAIL_IF(used && !there, SL_EINVAL,
               "--edge-features: expected a dataset with features of its edges (%s), found none in '%s'",
               t->dataset->graph.n_relations > 0 ? "raw/relations/RELATION/edge-feat.csv.gz" : "raw/edge-feat.csv.gz",
               t->name);
    if (!used && there && t->settings->model_file == NULL) {
        sl_notify(SL_NOTICE_WARNING, "%s: the features of edges are not used; --edge-features concat uses them",
                  t->name);
    }
    return SL_OK;
}

/* Draw a split of the caller's dataset, whose arrays are lent to `out`. */
static enum sl_status draw_split(const struct sl_session *t, const struct sl_dataset *given, struct sl_dataset *out)
{
    const struct sl_settings *s = t->settings;
    struct sl_random_split rule;
    SL_CHECK(sl_random_split_parse(sl_text_or(s->split, t->split), s->seed, &rule));
    sl_dataset_lend(given, out);
    if (sl_settings_trains_links(s)) {
        return sl_random_split_links(&rule, out);
    }
    return sl_random_split_vertices(&rule, out);
}

/* Load the dataset, or take the caller's. */
static enum sl_status find_dataset(struct sl_session *t, const struct sl_dataset *given)
{
    const bool drawn = given != NULL && draws_split(t->settings, t->split);
    if (given == NULL) {
        struct sl_dataset_options options = dataset_options(t->settings, t->split);
        options.least = sl_n_ranks() == 1 ? least_of_run : NULL;
        options.context = t->settings;
        SL_CHECK(sl_dataset_load(&options, &t->loaded));
    } else if (drawn) {
        SL_CHECK(draw_split(t, given, &t->loaded));
    }
    t->given = given != NULL;
    t->source = given == NULL || drawn ? &t->loaded : given;
    SL_CHECK(sl_adapt(t->settings, t->source, &t->adapted));
    t->dataset = &t->adapted.dataset;
    t->moved = t->adapted.moved;
    t->relation_of = t->adapted.relation_of;
    t->n_relations = t->adapted.n_relations;
    t->adapted.relation_of = NULL;
    if (sl_settings_predicts_csv(t->settings) && t->dataset->vertex_names != NULL) {
        SL_CHECK(sl_strdup(t->dataset->vertex_names, &t->vertex_names));
    }
    SL_CHECK(sl_dataset_copy_facts(t->dataset, &t->facts));
    bool labelled = !sl_settings_trains_links(t->settings);
    SL_FAIL_IF(labelled && sl_targets_outputs(&t->dataset->targets) == 0, SL_EFILE,
               "%s: found no label, expected labels, or with --epochs 0 a trained model in --load", t->dataset->name);
    t->synthetic = t->dataset->synthetic;
    t->range = t->dataset->range;
    snprintf(t->name, sizeof t->name, "%s", t->dataset->name);
    snprintf(t->split, sizeof t->split, "%s", t->dataset->split);
    SL_CHECK(check_weights(t));
    SL_CHECK(check_edge_features(t));
    SL_FAIL_IF(sl_dataset_n_train(t->dataset) == 0 && t->settings->epochs > 0, SL_EFILE,
               "%s: the split '%s' has no training %s", t->name, t->split,
               sl_settings_trains_links(t->settings) ? "links" : "vertices");
    return sl_objective_open(t->settings, t->dataset, &t->objective);
}

/* Compare the data with the other ranks' and with the checkpoint's. Without ranks and checkpoints: do nothing. */
static enum sl_status compare_data(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    if (sl_n_ranks() == 1 && t->settings->checkpoint == NULL) {
        return SL_OK;
    }
    sl_dataset_identify(t->dataset, &t->identity);
    SL_CHECK(sl_ranks_match_data(t));
    if (checkpoint->n > 0) {
        return sl_state_match_data(t, checkpoint);
    }
    return SL_OK;
}

/* StarPU evicts data from a full GPU. If eviction cannot make enough room, StarPU waits forever: so check first. */
static enum sl_status check_gpu_memory(struct sl_session *t)
{
    uint64_t found = t->run.gpu_bytes;
    if (found == 0) {
        return SL_OK;
    }
    t->gpu_need = sl_memory_need_gpu(t->settings, t->dataset, t->run.n_gpus * t->plan.n_ranks);
    t->run.evaluate_on_cpus = t->gpu_need.evaluation > found;
    SL_FAIL_IF(found < SL_GPU_PIECES_BYTES, SL_ENOMEM,
               "a GPU: expected room for %llu MiB of data at the least, found %llu MiB; try a larger "
               "$STARPU_LIMIT_CUDA_MEM if that is set, other GPUs ($CUDA_VISIBLE_DEVICES), or --gpus 0",
               (unsigned long long)SL_GPU_PIECES_BYTES >> 20, (unsigned long long)found >> 20);
    return SL_OK;
}

/* Without address space (`ulimit -v`) OpenBLAS waits forever, and so does StarPU unless sl_pool_report is set: so
 * check first. A rank's tables are as long as for all parts. */
static enum sl_status check_space(const struct sl_session *t)
{
    uint64_t bytes = sl_memory_need(t->settings, t->dataset, NULL, t->machine.n_workers, SL_PARTITION_NONE);
    uint64_t blas = t->machine.n_workers * SL_GEMM_SPACE_BYTES;
    SL_FAIL_IF(!sl_limits_have_room(bytes + blas), SL_ENOMEM,
               "the run may need %.2f GB, and %.2f GB of address space for OpenBLAS's buffers, expected as much "
               "below the limits of `ulimit -v` and `-d`, found less: raise them, or use fewer --cpus",
               (double)bytes / 1e9, (double)blas / 1e9);
    return SL_OK;
}

/* Estimate the memory, and check that it is there. cut: as for sl_memory_need. */
static enum sl_status check_memory(struct sl_session *t, enum sl_partition_method cut)
{
    uint64_t found = t->machine.topology.memory_bytes;
    const char *variable;
    uint64_t limit = sl_environment_memory(&variable);
    t->memory_bytes = sl_memory_need(t->settings, t->dataset, &t->plan, t->machine.n_workers, cut);
    SL_FAIL_IF(limit < t->memory_bytes, SL_ENOMEM,
               "$%s: found %llu MiB, expected at least the %llu MiB that the run may need; raise it, or unset it",
               variable, (unsigned long long)limit >> 20, ((unsigned long long)t->memory_bytes >> 20) + 1);
    SL_FAIL_IF(t->memory_bytes > found, SL_ENOMEM, "the run may need %.2f GB and this process may use %.2f GB: %s",
               (double)t->memory_bytes / 1e9, (double)found / 1e9, sl_schedule_of(t->settings)->advice);
    SL_CHECK(check_space(t));
    return check_gpu_memory(t);
}

/* Find the file that keeps the parts, in *file_out (sl_free); NULL: none does. *cut_out: the method if the graph has to
 * be cut, else SL_PARTITION_NONE. dataset: what is cut, into n parts. */
static enum sl_status find_parts(const struct sl_session *t, const struct sl_dataset *dataset,
                                 enum sl_partition_method method, uint32_t n, char **file_out,
                                 enum sl_partition_method *cut_out)
{
    const struct sl_settings *s = t->settings;
    const struct sl_dataset_options options = dataset_options(s, t->split);
    const bool cuts = (method == SL_PARTITION_METIS || method == SL_PARTITION_STREAM) && n > 1;
    char name[16];
    char stem[64];
    sl_free(SL_TAKE(*file_out));
    sl_option_choice_name(sl_option_find(sl_settings_table_of(s), "partition"), (int)method, name, sizeof name);
    snprintf(stem, sizeof stem, "%s-%u%s", name, n, s->epochs > 0 ? "" : "-unsplit");
    if (!t->given) {
        SL_CHECK(sl_dataset_cache_file(&options, stem, file_out));
    } else if (cuts) {
        uint64_t key = sl_cache_parts_key(dataset, (int)method, n, s->seed);
        SL_CHECK(sl_dataset_cache_file_of_arrays(s->cache, key, dataset->graph.n_vertices, stem, file_out));
    }
    const bool kept = *file_out != NULL && access(*file_out, R_OK) == 0;
    *cut_out = cuts && !kept ? method : SL_PARTITION_NONE;
    return SL_OK;
}

/* Whether METIS has the integers and the memory to cut the graph. */
static bool metis_fits(const struct sl_session *t)
{
    const struct sl_dataset *dataset = t->dataset;
    const char *variable;
    const uint64_t room = sl_min_u64(t->machine.topology.memory_bytes, sl_environment_memory(&variable));
    return dataset->graph.n_edges < sl_metis_most_edges() &&
           sl_memory_need(t->settings, dataset, &t->plan, t->machine.n_workers, SL_PARTITION_METIS) <= room;
}

/* Check the memory, then cut the graph. held: by part, whether this rank is an owner; NULL: of all. */
static enum sl_status make_partition(struct sl_session *t, const bool *held)
{
    struct sl_settings *s = t->settings;
    enum sl_partition_method method = (enum sl_partition_method)s->partition;
    enum sl_partition_method cut;
    bool whole = sl_schedule_of(s)->whole_graph;
    uint32_t n = whole ? sl_partition_pieces(method, t->dataset->graph.n_vertices, s->group_size) : s->group_size;
    SL_FREED char *file = NULL;
    /* Inference ignores the split, which METIS balances for training. The parts decide the order of sums, so scores
     * with and without a split are then equal to the bit. */
    struct sl_dataset used = *t->dataset;
    const struct sl_dataset *dataset = &used;
    if (s->epochs == 0) {
        used.train.n = used.valid.n = used.test.n = 0;
    }
    if (s->edge_weights == SL_EDGE_WEIGHTS_NONE) {
        used.graph.weights = NULL;
    }
    if (s->edge_features == SL_EDGE_FEATURES_NONE) {
        used.graph.rows = NULL;
    }
    if (!sl_model_reads_relations(s)) {
        used.graph.relations = NULL;
    }
    SL_CHECK(find_parts(t, dataset, method, n, &file, &cut));
    /* A run that goes on has the parts that it began with, whose sums have an order. */
    const bool instead = cut == SL_PARTITION_METIS && !whole && sl_n_ranks() == 1 && !t->resumes && !metis_fits(t);
    if (instead) {
        method = SL_PARTITION_STREAM;
        s->partition = SL_PARTITION_STREAM;
        SL_CHECK(find_parts(t, dataset, method, n, &file, &cut));
    }
    SL_CHECK(check_memory(t, cut));
    if (instead) {
        sl_notify(SL_NOTICE_WARNING, "%s: too large for METIS: --partition stream is taken", t->name);
    }
    const struct sl_partition_rule rule = {method, s->group_size, s->seed, file, held, whole};
    return sl_partition_make(dataset, &rule, &t->partition);
}

enum sl_status sl_session_open_losses(struct sl_session *t)
{
    uint32_t n = t->plan.n_per_epoch;
    SL_CHECK(sl_alloc_zero(n, sizeof *t->losses, "losses of an epoch", &t->losses));
    SL_CHECK(sl_alloc_zero(n, sizeof *t->loss_handle, "losses of an epoch", &t->loss_handle));
    for (uint32_t i = 0; i < n; i++) {
        t->loss_handle[i] = sl_matrix_over(&t->losses[i], 1, 1, SL_DTYPE_F64);
    }
    return SL_OK;
}

void sl_session_close_losses(struct sl_session *t)
{
    uint32_t n = t->loss_handle != NULL ? t->plan.n_per_epoch : 0;
    for (uint32_t i = 0; i < n; i++) {
        if (t->loss_handle[i] != NULL) {
            starpu_data_unregister(t->loss_handle[i]);
        }
    }
    sl_free(t->loss_handle);
    sl_free(t->losses);
    t->loss_handle = NULL;
    t->losses = NULL;
}

/* A single replica is the model itself. Several replicas start as copies of the model. */
static enum sl_status open_replicas(struct sl_session *t)
{
    uint32_t n = t->plan.n_replicas;
    if (n == 1) {
        t->replica = &t->model;
    } else {
        const struct sl_model_data data = sl_model_data_of(&t->shards);
        SL_CHECK(sl_replicas_init(t->settings, n, &data, &t->replica));
        t->n_replicas = n;
        SL_CHECK(sl_replicas_spread(t->replica, n, &t->model));
    }
    t->n_replicas = n;
    return SL_OK;
}

/* Load the checkpoint to resume from. SL_OK with an empty *out: the run starts from the beginning. */
static enum sl_status find_checkpoint(const struct sl_settings *s, struct sl_tensors *out)
{
    *out = (struct sl_tensors){0};
    if (s->resume == SL_RESUME_NO) {
        return SL_OK;
    }
    enum sl_status st = sl_checkpoint_load(s->checkpoint, out);
    if (st == SL_ENOTFOUND && s->resume == SL_RESUME_AUTO) {
        return SL_OK;
    }
    return st;
}

/* StarPU must be down: no other session, and no StarPU of the program. */
static enum sl_status check_alone(void)
{
    SL_FAIL_IF(starpu_is_initialized(), SL_EINVAL,
               "StarPU is up already: expected the program's other session, or "
               "its own StarPU, to be closed first");
    return SL_OK;
}

/* Check and claim the outputs, and lock the checkpoint folder. */
static enum sl_status open_files(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    SL_CHECK(sl_claims_take(s, &t->claims));
    if (s->checkpoint != NULL) {
        SL_CHECK(sl_folder_make_new(s->checkpoint, &t->n_made));
        return sl_checkpoint_acquire(s->checkpoint, &t->lock);
    }
    return SL_OK;
}

static void close_files(struct sl_session *t)
{
    sl_checkpoint_release(&t->lock);
    if (t->n_made > 0) { /* empty if nothing was saved */
        sl_folder_remove_empty(t->settings->checkpoint, t->n_made);
    }
    sl_claims_release(&t->claims);
}

/* Place the tables on the NUMA nodes, if several. */
static enum sl_status place_parts(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    uint32_t n_numa = t->machine.topology.n_numa;
    /* With several groups, a part's PEs may live on several nodes. */
    bool by_part = s->placement == SL_PLACEMENT_HOME && s->gpus == 0 && s->pes == s->group_size;
    if (n_numa >= 2) {
        return sl_shards_place(&t->shards, n_numa, by_part, &t->n_unplaced);
    }
    return SL_OK;
}

/* Make the plan, the common struct of tasks, and the transport. */
static enum sl_status open_run(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    t->plan = sl_plan_make(s, sl_dataset_n_train(t->dataset));
    SL_FAIL_IF(t->plan.n_per_epoch == 0, SL_EINVAL,
               "--drop-last: found %u training %s, expected at least the %llu of a step; try a smaller --batch-size",
               t->plan.n_train, sl_settings_trains_links(s) ? "links" : "vertices", (unsigned long long)t->plan.batch);
    SL_CHECK(sl_alloc_zero(t->plan.n_ranks, sizeof *t->waits, "times of messages", &t->waits));
    SL_CHECK(sl_run_init(&t->run));
    t->run_ready = true;
    sl_waits_open(t->plan.n_ranks > 1 ? t->run.n_workers : 0, sl_clock_s());
    t->run.failure.hook = t->plan.n_ranks > 1 ? sl_ranks_failure_hook() : NULL;
    /* A buffer without memory must not be copied: neither to another rank, nor by StarPU between NUMA nodes
     * ($STARPU_USE_NUMA). */
    bool alone = t->plan.n_ranks == 1 && starpu_memory_nodes_get_count() == 1;
    sl_pool_report(alone ? &t->run.failure : NULL);
    t->run.homes = s->placement == SL_PLACEMENT_HOME ? &t->plan.homes : NULL;
    t->run.near = strcmp(t->machine.sched, SL_NEAR) == 0 ? &t->plan.homes : NULL;
    /* Evaluation works on parts. Here a part does not belong to exactly one PE with a home. */
    t->run.evaluate_anywhere = s->group_size < s->pes || sl_schedule_of(s)->whole_graph;
    t->run.gpus_first = t->machine.gpus_first;
    t->run.traced = s->trace != NULL;
    t->run.sample_first = sl_n_ranks() > 1;
    t->run.fastest_means = s->means == SL_MEANS_FASTEST;
    t->run.row_dtype = sl_settings_row_dtype(s);
    t->run.tf32 = s->precision == SL_PRECISION_TF32;
    return sl_transport_open(s, &t->plan, SL_MAX_MODEL_LAYERS * SL_MAX_PARAMETERS, &t->transport);
}

/* Decide whether the first layer reads narrow features in place. Only CPU kernels do. Other ranks get rows of the
 * layers' dtype. */
static void read_narrow(struct sl_session *t)
{
    struct sl_feature_source *features = &t->shards.features;
    features->reads_narrow = features->dtype != features->row_dtype && !t->run.has_cuda && t->plan.n_ranks == 1 &&
                             sl_model_reads_narrow(t->settings, t->shards.n_features, features->dtype);
}

/* Partition the graph, and lay its tables out by part, near the workers. */
static enum sl_status open_shards(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    enum sl_feature_form form = SL_FEATURES_AS_THEY_ARE;
    bool held_here[SL_MAX_PARTS];
    const bool *held = t->plan.n_ranks > 1 ? held_here : NULL;
    const struct sl_fanouts fanouts = sl_settings_fanouts(s);
    SL_FREED uint32_t *fanout_of = NULL;
    for (uint32_t q = 0; q < t->plan.n_parts; q++) {
        held_here[q] = sl_plan_holds(&t->plan, q);
    }
    SL_CHECK(sl_fanouts_read(&fanouts, t->dataset, &fanout_of));
    SL_CHECK(sl_ranks_rank0_first());
    SL_CHECK(make_partition(t, held));
    SL_CHECK(sl_ranks_rank0_done());
    if (sl_model_adds_features(s, t->dataset->features.n_columns)) {
        form = SL_FEATURES_DENSE;
    }
    if (sl_schedule_of(s)->whole_graph && t->dataset->features.dense.data != NULL) {
        form = SL_FEATURES_WIDE;
    }
    SL_CHECK(sl_shards_open(t->dataset, &t->partition, form, sl_settings_row_dtype(s), held, &t->shards));
    SL_CHECK(sl_shards_take_fanouts(fanout_of, s->layers, &t->shards));
    fanout_of = NULL;
    t->shards.n_outputs = t->objective.n_outputs;
    read_narrow(t);
    SL_CHECK(sl_objective_place(&t->objective, &t->partition));
    t->shards.objective = &t->objective;
    t->shards.weighs_edges = sl_settings_weighs_sums(s);
    if (sl_schedule_of(s)->reads_factors || sl_model_reads_factors(s)) {
        SL_CHECK(sl_shards_weigh(t->dataset, sl_model_kind(s->model)->layer->sum->factor, &t->shards));
    }
    if (held != NULL) {
        sl_dataset_drop_pages(t->dataset);
        SL_CHECK(sl_ranks_match_parts(t));
        SL_CHECK(sl_halo_open(&t->plan, &t->shards, &t->partition.graph, &t->halo));
    }
    t->shards.halo = held != NULL ? &t->halo : NULL;
    t->dataset = NULL; /* from here on its data are in the shards */
    sl_adapted_free(&t->adapted);
    sl_dataset_free(&t->loaded);
    sl_pool_purge();
    SL_CHECK(place_parts(t));
    t->n_unpinned = s->gpus > 0 ? sl_shards_pin(&t->shards) : 0;
    return SL_OK;
}

/* Make the model and its replicas, with their initial weights and state. */
static enum sl_status open_model(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    const struct sl_settings *s = t->settings;
    const struct sl_model_data data = sl_model_data_of(&t->shards);
    SL_CHECK(sl_model_init(s, &data, &t->model));
    if (s->load != NULL) {
        SL_CHECK(sl_outputs_load_model(t));
    }
    SL_CHECK(open_replicas(t));
    if (checkpoint->n > 0) {
        SL_CHECK(sl_state_load(t, checkpoint));
    }
    if (sl_rank() == 0) {
        return sl_outputs_check_room(t);
    }
    return SL_OK;
}

/* Idle workers spin. Pause the workers, because METIS and the copying of tables need the cores. A worker with message
 * handling sleeps for short intervals (tasks/mpi_starpu.c). */
static enum sl_status open_data(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    enum sl_status st;
    starpu_pause();
    SL_TRY(st, sl_schedule_of(t->settings)->decide(t->settings, &t->machine), done);
    SL_TRY(st, sl_ranks_take_decisions(t->settings), done);
    SL_TRY(st, open_run(t), done);
    SL_TRY(st, open_shards(t), done);
    st = open_model(t, checkpoint);
done:
    starpu_resume();
    return st;
}

static enum sl_status open_schedule(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    struct sl_settings *s = t->settings;
    struct sl_work work = {s, &t->plan, &t->run, &t->shards, t->replica, &t->transport, 0};
    const uint64_t epoch_end = sl_plan_first_step(&t->plan, sl_plan_epoch(&t->plan, t->state.step) + 1);
    /* An evaluation on the GPU must not evict the caches. */
    work.gpu_bytes = sl_max_u64(t->gpu_need.training, t->run.evaluate_on_cpus ? 0 : t->gpu_need.evaluation);
    SL_CHECK(sl_schedule_of(s)->open(&work, t->state.step, &t->schedule));
    t->n_unpinned += t->schedule.n_refused;
    SL_CHECK(sl_trace_open(s, t->state.step, t->plan.n_steps, epoch_end, &t->trace));
    SL_CHECK(sl_session_open_losses(t));
    if (checkpoint->n > 0) {
        return sl_state_load_epoch(t, checkpoint);
    }
    return SL_OK;
}

struct sl_session *sl_session_wake(struct sl_session *t)
{
    if (!t->rests) {
        return NULL;
    }
    starpu_resume();
    limit_memory(t);
    t->rests = false;
    return t;
}

void sl_session_rest(struct sl_session *t)
{
    if (t->plan.n_ranks == 1 && !t->rests) {
        starpu_task_wait_for_all();
        starpu_pause();
        sl_pool_release();
        lift_limit(t);
        t->rests = true;
    }
}

void sl_session_rest_again(struct sl_session **slept)
{
    if (*slept != NULL) {
        sl_session_rest(*slept);
    }
}

/* Start the watchdog for steps, evaluations, and rank 0's wait for rows of output files. Work of rank 0 alone
 * suspends the watchdog (sl_watchdog_suspend). */
static enum sl_status watch(const struct sl_session *t)
{
    uint32_t asked = t->settings->watchdog;
    uint32_t automatic = t->plan.n_ranks > 1 ? WATCHDOG_S : 0;
    uint32_t seconds = asked != SL_WATCHDOG_AUTO ? asked : automatic;
    void (*lost)(void) = sl_ranks_failure_hook();
    enum sl_status st = SL_OK;
    if (seconds > 0 && lost != NULL) {
        bool in_step = !sl_schedule_of(t->settings)->agrees_late && !sl_plan_decoupled(&t->plan);
        st = sl_watchdog_start(seconds, in_step, &t->run, lost);
        sl_watchdog_suspend(true);
    }
    return st;
}

static enum sl_status check_watchdog(const struct sl_settings *s)
{
    if (s->watchdog == 0 || s->watchdog == SL_WATCHDOG_AUTO || sl_ranks_failure_hook() != NULL) {
        return SL_OK;
    }
    return sl_fail(SL_EINVAL,
                   "--watchdog: expected a program that says what to do then (sl_process_on_failure), found none");
}

/* Whether the caller's dataset is for links: it lists some, or has nothing else to draw a split of. */
static bool has_links(const struct sl_settings *settings, const struct sl_dataset *given)
{
    return sl_dataset_has_links(given) || (draws_split(settings, "") && sl_targets_outputs(&given->targets) == 0);
}

/* ---- the session that answers of a loaded model leave open ---- */

static struct sl_session *kept;

void sl_kept_keep(struct sl_session *session)
{
    kept = session;
}

struct sl_session *sl_kept_session(void)
{
    return kept;
}

void sl_kept_close(void)
{
    struct sl_session *session = kept;
    kept = NULL;
    sl_session_close(session);
}

enum sl_status sl_session_open(struct sl_settings *settings, const struct sl_dataset *dataset, struct sl_session **out)
{
    SL_IN_C_LOCALE;
    struct sl_session *t = NULL;
    struct sl_tensors checkpoint = {0};
    enum sl_status st;
    *out = NULL;
    SL_TRY(st, sl_alloc_zero(1, sizeof *t, "a session", &t), done);
    t->settings = settings;
    sl_kept_close();
    SL_TRY(st, check_alone(), done);
    if (settings->objective == SL_OBJECTIVE_AUTO && dataset != NULL && has_links(settings, dataset)) {
        settings->objective = SL_OBJECTIVE_LINK;
    }
    SL_TRY(st, check_settings(settings), done);
    SL_TRY(st, check_given(settings, dataset), done);
    SL_TRY(st, check_watchdog(settings), done);
    limit_memory(t);
    SL_TRY(st, sl_process_join(settings), done);
    SL_TRY(st, sl_ranks_match_settings(settings, dataset != NULL), done);
    if (sl_rank() == 0) {
        SL_TRY(st, open_files(t), done);
    }
    SL_TRY(st, sl_transport_check(settings), done);
    SL_TRY(st, find_checkpoint(settings, &checkpoint), done);
    SL_TRY(st, sl_ranks_match_checkpoint(&checkpoint), done);
    t->resumes = checkpoint.n > 0;
    if (t->resumes) {
        SL_TRY(st, sl_state_match(settings, &checkpoint), done);
        snprintf(t->split, sizeof t->split, "%s", sl_text_or(sl_state_split(&checkpoint), ""));
    }
    SL_TRY(st, sl_ranks_rank0_first(), done);
    SL_TRY(st, find_dataset(t, dataset), done);
    SL_TRY(st, sl_outputs_read_lists(t), done);
    SL_TRY(st, sl_ranks_rank0_done(), done);
    if (sl_n_ranks() > 1) {
        lift_limit(t);
    }
    SL_TRY(st, compare_data(t, &checkpoint), done);
    SL_TRY(st, sl_trace_prepare(settings), done);
    SL_TRY(st, sl_machine_start(settings, &t->machine), done);
    t->machine.topology.memory_bytes = sl_min_u64(t->machine.topology.memory_bytes, memory_budget(settings));
    SL_TRY(st, open_data(t, &checkpoint), done);
    SL_TRY(st, open_schedule(t, &checkpoint), done);
    SL_TRY(st, watch(t), done);
    sl_session_rest(t);
    *out = t;
done:
    sl_tensors_free(&checkpoint);
    if (st != SL_OK && sl_n_ranks() == 1) {
        sl_session_close(t);
    } else if (st != SL_OK && t != NULL) { /* with several ranks, closing would wait forever */
        lift_limit(t);
        close_files(t);
    }
    return st;
}

void sl_session_close(struct sl_session *t)
{
    SL_IN_C_LOCALE;
    if (t == NULL) {
        return;
    }
    sl_watchdog_end();
    sl_session_wake(t);
    lift_limit(t);
    if (t->machine.started) {
        starpu_task_wait_for_all();
        sl_trace_stop(&t->trace);
    }
    sl_session_close_losses(t);
    if (t->schedule.own != NULL) {
        t->schedule.kind->close(t->schedule.own);
    }
    if (t->n_replicas > 1) {
        sl_replicas_free(t->replica, t->n_replicas);
    }
    sl_model_free(&t->model);
    sl_halo_close(&t->halo);
    sl_shards_close(&t->shards);
    sl_objective_close(&t->objective);
    sl_links_free(&t->pairs);
    sl_links_free(&t->asked);
    sl_free(t->listed.ids);
    sl_free(t->relation_of);
    sl_free(t->vertex_names);
    sl_transport_close(&t->transport);
    sl_machine_stop(&t->machine);
    if (t->run_ready) {
        sl_waits_open(0, sl_clock_s());
        sl_run_free(&t->run);
    }
    sl_partition_free(&t->partition);
    sl_adapted_free(&t->adapted);
    sl_dataset_free(&t->facts);
    sl_dataset_free(&t->loaded);
    sl_free(t->waits);
    sl_free(t->best);
    close_files(t);
    sl_free(t);
}
