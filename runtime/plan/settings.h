/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The settings of a run: one field per option of coop_sage, `--batch-size` = STARLING_BATCH_SIZE = batch_size.
 */
#ifndef SL_RUNTIME_PLAN_SETTINGS_H
#define SL_RUNTIME_PLAN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/plan/fanouts.h"
#include "support/dtype.h"
#include "support/option.h"

#define SL_LABOR_CONVERGE UINT32_MAX
#define SL_GPUS_ALL UINT32_MAX
#define SL_FEATURE_CACHE_AUTO UINT32_MAX
#define SL_WATCHDOG_AUTO UINT32_MAX

/* Choices of options. The table names the values in this order. */
enum sl_model_name {
    SL_MODEL_SAGE,
    SL_MODEL_GCN,
    SL_MODEL_GAT,
    SL_MODEL_GATV2,
    SL_MODEL_GCNII,
    SL_MODEL_RESGCN,
    SL_MODEL_GIN,
    SL_MODEL_RGCN,
    SL_MODEL_RGAT
};
enum sl_norm { SL_NORM_NONE, SL_NORM_LAYER, SL_NORM_BATCH };
enum sl_sampler { SL_SAMPLER_NEIGHBOR, SL_SAMPLER_LABOR, SL_SAMPLER_FULL, SL_SAMPLER_LADIES, SL_SAMPLER_PLADIES };
enum sl_edge_weights_use {
    SL_EDGE_WEIGHTS_NONE,
    SL_EDGE_WEIGHTS_PROBABILITY,
    SL_EDGE_WEIGHTS_FACTOR,
    SL_EDGE_WEIGHTS_BOTH
};
enum sl_edge_features_use { SL_EDGE_FEATURES_NONE, SL_EDGE_FEATURES_CONCAT, SL_EDGE_FEATURES_ADD };
enum sl_sync { SL_SYNC_ALLREDUCE, SL_SYNC_DISSEMINATION, SL_SYNC_CUBE };
enum sl_gossip_what { SL_GOSSIP_GRAD, SL_GOSSIP_WEIGHT };
enum sl_optimizer { SL_OPTIMIZER_ADAM, SL_OPTIMIZER_ADAMW };
enum sl_placement { SL_PLACEMENT_FREE, SL_PLACEMENT_HOME, SL_PLACEMENT_AUTO };
enum sl_transport_by { SL_TRANSPORT_STARPU, SL_TRANSPORT_NCCL };
enum sl_means_by { SL_MEANS_KERNEL, SL_MEANS_FASTEST };
enum sl_save_names { SL_NAMES_DGL, SL_NAMES_PYG, SL_N_NAMES };
enum sl_precision { SL_PRECISION_FLOAT, SL_PRECISION_BF16, SL_PRECISION_TF32 };
enum sl_resume { SL_RESUME_NO, SL_RESUME_YES, SL_RESUME_AUTO };

enum sl_objective_name {
    SL_OBJECTIVE_AUTO,
    SL_OBJECTIVE_CLASS,
    SL_OBJECTIVE_LABELS,
    SL_OBJECTIVE_REGRESSION,
    SL_OBJECTIVE_LINK
};
enum sl_link_exclude { SL_LINK_EXCLUDE_REVERSE, SL_LINK_EXCLUDE_SELF, SL_LINK_EXCLUDE_NONE };
enum sl_loss_name { SL_LOSS_SQUARED, SL_LOSS_ABSOLUTE };
#define SL_WEIGHTS_BALANCED "balanced" /* of --class-weights */

enum sl_schedule_name { SL_SCHEDULE_MINIBATCH, SL_SCHEDULE_PIPE };
enum sl_guard_switch { SL_GUARD_ON, SL_GUARD_OFF };
enum sl_chunk_order { SL_CHUNK_ORDER_SHUFFLE, SL_CHUNK_ORDER_FIXED };

#define SL_ENVIRONMENT_PREFIX "STARLING_"
#define SL_MAX_OPTIONS 128
struct sl_model_file; /* runtime/plan/model_file.h */

/* The settings own their strings (sl_settings_free). NULL: not given. */
struct sl_settings {
    /* enum sl_schedule_name: which program's options these are. Not an option itself. */
    int schedule;
    /* By position in the option table: set by the user; taken from the model's file (runtime/plan/adopt.c). */
    bool given[SL_MAX_OPTIONS], adopted[SL_MAX_OPTIONS];
    /* The file of `load`, owned; NULL: not read yet. */
    struct sl_model_file *model_file;
    /* data */
    char *dataset; /* "arxiv" */
    char *data_path;
    char *split;
    bool drop_leaks;
    char *features;
    bool directed;
    int normalize_features; /* enum sl_normalize */
    char *cache;
    /* model */
    uint32_t heads;       /* gat, hidden layers */
    double alpha, lambda; /* gcnii */
    bool learn_epsilon;   /* gin */
    int model;            /* enum sl_model_name */
    uint32_t layers;      /* 1 .. SL_MAX_LAYERS; 0 until sl_settings_check: n_fanout, or 3 */
    uint32_t hidden;
    double dropout;       /* [0, 0.9999]: codelets/rows/dropout.h */
    double input_dropout; /* the same */
    int activation;       /* enum sl_activate_kind */
    int norm;             /* enum sl_norm */
    bool residual;
    bool skip; /* gat, gatv2 */
    bool input_layer;
    uint32_t output_layers; /* dense layers, behind those that aggregate */
    uint32_t bases;         /* rgcn; 0: none */
    int edge_weights;       /* enum sl_edge_weights_use */
    int edge_features;      /* enum sl_edge_features_use */
    int precision;          /* enum sl_precision */
    char *load;
    /* minibatch */
    uint32_t pes;                       /* P; 0 until sl_session_open decides */
    uint32_t group_size;                /* G; 0: = pes with all-reduce, 1 with gossip */
    uint32_t batch_size;                /* B, seeds per PE and step; with a vertex budget: of the first epoch */
    uint32_t vertex_budget;             /* input vertices of a minibatch; 0: none */
    uint32_t fanout[SL_MAX_LAYERS];     /* input side first, as typed; every entry >= 1; SL_FANOUT_ALL: all */
    uint32_t n_fanout;                  /* 0: 10 per layer */
    char *relation_fanout;              /* runtime/plan/fanouts.h; NULL: fanouts are over all relations */
    int sampler;                        /* enum sl_sampler */
    uint32_t layer_size[SL_MAX_LAYERS]; /* of ladies and pladies, input side first */
    uint32_t n_layer_size;              /* 0: another sampler */
    bool layer_dependency;
    uint32_t kappa;            /* 0: the variates never change */
    bool replace;              /* with --sampler neighbor */
    uint32_t labor_iterations; /* rounds of codelets/sampling/importance.h; SL_LABOR_CONVERGE: until they end */
    bool drop_last;            /* no step has fewer seeds than the others */
    uint32_t depth;            /* ring slots: minibatches in flight, >= 1 */
    uint32_t chunks;           /* of a PE's frontier; 0 until sl_session_open decides */
    int partition;             /* enum sl_partition_method */
    uint32_t feature_cache;    /* rows per PE; 0: none; SL_FEATURE_CACHE_AUTO until sl_session_open decides */
    int feature_cache_policy;  /* enum sl_row_cache_policy */
    /* gradients */
    int sync;                      /* enum sl_sync: all-reduce, or a kind of gossip (runtime/sync/replicas.h) */
    int gossip_what;               /* enum sl_gossip_what */
    uint32_t gossip_average_every; /* steps; 0: never */
    uint32_t gossip_local_size;    /* replicas of a node, >= 1 */
    bool gossip_ring;
    /* pipeline */
    uint32_t stages;                    /* S; 0: 2, or 1 with one layer */
    uint32_t stages_cut[SL_MAX_LAYERS]; /* the first layer of each stage after the first */
    uint32_t n_stages_cut;              /* 0: cut by measured time; otherwise S - 1 */
    uint32_t ways;                      /* W */
    uint32_t graph_chunks;              /* K; 0 until sl_session_open decides (4 S W) */
    int chunk_order;                    /* enum sl_chunk_order */
    double gradient_factor;             /* 1 or 2 */
    bool recompute;                     /* compute rows of a stage again in the backward pass */
    int guard;                          /* enum sl_guard_switch */
    uint32_t history_every;             /* R, epochs */
    /* training */
    int objective;          /* enum sl_objective_name */
    int loss;               /* enum sl_loss_name: of regression */
    uint32_t negatives;     /* k of a link, >= 1 */
    int link_loss;          /* enum sl_pairs_loss */
    int decoder;            /* enum sl_decoder_name, codelets/ends/pairs.h: of links */
    int link_exclude;       /* enum sl_link_exclude */
    char *class_weights;    /* SL_WEIGHTS_BALANCED, numbers or a file; NULL: all 1 */
    double label_smoothing; /* [0, 0.9999] */
    char *best_by;          /* a score's name; NULL: the objective's first score */
    uint32_t epochs;
    double lr;
    char *lr_schedule;   /* runtime/plan/rate.h; NULL: none */
    uint32_t lr_warmup;  /* steps */
    int optimizer;       /* enum sl_optimizer */
    double weight_decay; /* adam: coupled L2; adamw: decoupled */
    uint32_t patience;   /* stop after so many evaluations without a better validation score; 0: never */
    uint64_t seed;
    uint32_t eval_every;                  /* epochs; 0: only after the last */
    uint32_t score_fanout[SL_MAX_LAYERS]; /* input side first; SL_FANOUT_ALL: all */
    uint32_t n_score_fanout;              /* 0: scores are exact */
    /* output */
    char *metrics;
    bool metrics_steps;
    char *save;
    int save_names; /* enum sl_save_names */
    char *predict;
    char *pairs;            /* of --objective link: the pairs that `predict` scores */
    char *predict_vertices; /* the vertices whose rows `predict` has; NULL: all */
    char *embed;
    char *checkpoint;
    int resume;        /* enum sl_resume */
    char *trace;       /* folder; NULL: no trace */
    char *trace_steps; /* "FIRST:LAST", as typed; NULL: the run's first epoch */
    bool quiet;
    bool json; /* metrics on standard output instead of lines for people */
    /* StarPU */
    /* CPU workers. 0: one per core of the cpuset; with GPUs one, for tasks that GPUs cannot run. */
    uint32_t cpus;
    double memory; /* GB of this process; 0: what the machine and its limits allow */
    /* SL_GPUS_ALL: all GPUs, if the build can use them. sl_session_open replaces it by their number. */
    uint32_t gpus;
    /* NULL: $STARPU_SCHED; if not set, dmdas with GPUs and near without */
    char *sched;
    int placement; /* enum sl_placement; SL_PLACEMENT_AUTO until sl_session_open decides */
    int transport; /* enum sl_transport_by */
    int means;     /* enum sl_means_by */
    /* end the run after so many seconds without progress; 0: never. SL_WATCHDOG_AUTO: 300 with several ranks,
     * otherwise 0. */
    uint32_t watchdog;
};

/* The option table of a program: order, groups, defaults, help, rules. The tables share most options. */
const struct sl_option_table *sl_settings_table(enum sl_schedule_name program);

/* The option table of these settings. */
const struct sl_option_table *sl_settings_table_of(const struct sl_settings *settings);

/* The path of an option of output (struct sl_option, written); NULL: another option, or not given. */
const char *sl_settings_path(const struct sl_settings *settings, const struct sl_option *option);

/* Fill in the defaults of coop_sage or of pipe_gnn. SL_ENOMEM. */
enum sl_status sl_settings_init(struct sl_settings *settings);
enum sl_status sl_settings_init_pipe(struct sl_settings *settings);

/* Check all options before any work is done. Refuse values outside the command line's rules; a program may have
 * filled the struct by itself. Refuse contradictions: a wrong fanout length, kappa with full in-neighbourhoods, a group
 * size not dividing pes, resume without checkpoint, and so on. Derive dependent fields (layers, group_size, fanout).
 * SL_EINVAL: the message names the option, its value, and valid values. */
enum sl_status sl_settings_check(struct sl_settings *settings);

/* The dtype of rows (--precision): dense features, and the rows that products or other PEs read. */
static inline enum sl_dtype sl_settings_row_dtype(const struct sl_settings *settings)
{
    return settings->precision == SL_PRECISION_BF16 ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
}

/* Whether the sources of a layer are drawn together (codelets/sampling/ladies.h). */
static inline bool sl_settings_by_layers(const struct sl_settings *settings)
{
    return settings->sampler == SL_SAMPLER_LADIES || settings->sampler == SL_SAMPLER_PLADIES;
}

/* Whether edges are drawn by their weights, and sums multiply by them; whether edges are drawn by any rule of
 * codelets/sampling/importance.h or ladies.h; whether sums read weights of edges. */
static inline bool sl_settings_weighted_labor(const struct sl_settings *settings)
{
    return settings->edge_weights == SL_EDGE_WEIGHTS_BOTH;
}
static inline bool sl_settings_by_importance(const struct sl_settings *settings)
{
    return settings->labor_iterations > 0 || sl_settings_weighted_labor(settings) || sl_settings_by_layers(settings);
}
static inline bool sl_settings_weighs_sums(const struct sl_settings *settings)
{
    return settings->edge_weights == SL_EDGE_WEIGHTS_FACTOR || sl_settings_weighted_labor(settings);
}

/* --relation-fanout. The layers and fanouts are derived. */
static inline struct sl_fanouts sl_settings_fanouts(const struct sl_settings *settings)
{
    const struct sl_fanouts fanouts = {settings->relation_fanout, settings->layers, settings->fanout,
                                       settings->replace};
    return fanouts;
}

/* Whether --predict writes .csv. */
bool sl_settings_predicts_csv(const struct sl_settings *settings);

/* Hops of a minibatch: one for each layer and, if links are trained, a first hop from the links to their ends. */
static inline bool sl_settings_trains_links(const struct sl_settings *settings)
{
    return settings->objective == SL_OBJECTIVE_LINK;
}
static inline uint32_t sl_settings_hops(const struct sl_settings *settings)
{
    return settings->layers + sl_settings_trains_links(settings);
}
/* Whether there is a hidden layer, or links: rows for --embed. */
static inline bool sl_settings_embeds(const struct sl_settings *settings)
{
    return settings->layers != 1 || settings->output_layers > 0 || sl_settings_trains_links(settings);
}
/* Vertices of a link in a step: its two ends and its negatives. */
static inline uint32_t sl_settings_link_ends(const struct sl_settings *settings)
{
    return settings->negatives + 2;
}

/* Read --trace-steps, counted from 0 over the whole run. True if the option was given and is valid. */
bool sl_settings_trace_steps(const struct sl_settings *settings, uint64_t *first_out, uint64_t *last_out);

/* Release the strings and empty the struct. */
void sl_settings_free(struct sl_settings *settings);

#endif
