/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * An objective: what a model is trained for. A table of its kind says what it needs of the dataset, its loss, and its
 * scores. One file for each kind: classify.c (one class a vertex), labels.c (a set of labels), regress.c (numbers),
 * link.c (links).
 *
 * The loss of a step is a weighted mean over the seeds. The mass of a vertex is its share in the divisor: 1, the
 * weight of its class, or the number of its known targets.
 */
#ifndef SL_RUNTIME_OBJECTIVE_OBJECTIVE_H
#define SL_RUNTIME_OBJECTIVE_OBJECTIVE_H

#include "codelets/ends/pairs.h"
#include "codelets/sampling/sample.h"
#include "runtime/plan/settings.h"
#include "runtime/starling.h"
#include "runtime/store/shards.h"

struct sl_objective_kind;

struct sl_objective {
    const struct sl_objective_kind *kind;
    uint32_t n_outputs; /* width of the last layer */
    uint32_t best_by;   /* the score that selects the best epoch: an index of the list of scores */
    int loss;           /* enum sl_loss_name, or enum sl_pairs_loss */
    int row_loss;       /* enum sl_row_loss; not of links */
    double smoothing;
    double guess;     /* loss of the best answer that is the same for all training vertices */
    double mass_each; /* if `mass` is NULL: of every vertex */
    double mass_all;  /* of all training vertices */
    float *mass;      /* [N], by new id; before sl_objective_place by dataset id. NULL: all are equal */
    uint32_t n_rows;  /* N */
    float *weights;   /* [n_outputs]; NULL: all 1 */
    uint64_t sum;     /* checksum of the weights; 0: none */
    bool unknown;     /* no target is known: the session only predicts */
    starpu_data_handle_t weights_handle;
    struct sl_link_split links; /* link: the lists for scores; by new id after sl_objective_place */
    uint32_t n_negatives;       /* link: k */
    int decoder;                /* link: enum sl_decoder_name */
    bool excludes_reverse;      /* link: --link-exclude reverse */
    uint32_t n_empty; /* outputs without a vertex: classes of no vertex, labels without a positive training vertex */
    uint32_t first_empty;
};

/* The seeds of a group, or of all groups, in a step: entries begin .. end - 1 of the epoch's order. What a PE makes of
 * them: its frontier of level 0 and, of links, the block of hop 0. */
struct sl_objective_seeds {
    const struct sl_shards *shards;
    starpu_data_handle_t order;
    uint32_t begin, end;
    struct sl_draw draw; /* the run's seed, and the epoch */
    struct sl_frontier_handles frontier;
    struct sl_marks_handles marks;
    const struct sl_part_handles *part;
    const struct sl_block *block;
    starpu_data_handle_t relations; /* of the links of the PE */
};

/* Rows of the last layer whose loss is wanted: a chunk of a frontier in one part. */
struct sl_objective_rows {
    starpu_data_handle_t z; /* [D x n_outputs] */
    starpu_data_handle_t frontier;
    uint32_t row0;                /* the chunk's first row in the frontier */
    starpu_data_handle_t targets; /* of the part whose first id is `first` */
    uint32_t first;
    /* Links: uint32, the relation of each link of the chunk, NULL: 0; the decoder's arrays, and room for a partial
     * gradient of each. */
    starpu_data_handle_t relations, decoder[SL_DECODER_ARRAYS], decoder_gradient[SL_DECODER_ARRAYS];
};

/* Outputs of the last layer for consecutive rows of a part. Row r of part q has the new id iota[part[q].first + r], and
 * its target, of the shards. */
struct sl_output_chunk {
    starpu_data_handle_t z; /* [n x n_outputs] */
    uint32_t part;
    uint32_t row; /* of the part */
    uint32_t n;
};

/* The outputs of this rank's vertices, in ascending order of new ids. Rank r has vertices before rank r + 1. */
struct sl_outputs {
    struct sl_run *run;
    const struct sl_shards *shards;
    const struct sl_output_chunk *chunk;
    uint32_t n_chunks;
    uint32_t first_chunk;             /* chunks of lower ranks */
    uint32_t n_all;                   /* chunks of all ranks */
    const struct sl_decoder *decoder; /* of links; its arrays are in main memory */
};

/* A score of an objective. The last entry of a list has no name. */
struct sl_score_kind {
    const char *name;
    bool larger_is_better, is_fraction;
    bool of_two; /* only with two outputs */
};

struct sl_objective_kind {
    const char *name;             /* of --objective */
    const char *output, *outputs; /* what an output is: "class", "classes" */
    const struct sl_score_kind *scores;

    /* Check the dataset and the settings. Fill in n_outputs, weights, masses by dataset id (mass, mass_each) and
     * guess. SL_EINVAL: the data or an option do not fit. SL_EFILE: the file of --class-weights. SL_ENOMEM. */
    enum sl_status (*open)(const struct sl_settings *settings, const struct sl_dataset *dataset,
                           struct sl_objective *out);

    /* Submit the seeds of a PE. NULL: seeds are vertices. */
    enum sl_status (*seed)(const struct sl_objective *objective, const struct sl_task_args *head,
                           const struct sl_objective_seeds *seeds);

    /* Submit the table of the edges that the step must not sample. Only with `seed`. */
    enum sl_status (*exclude)(const struct sl_objective *objective, const struct sl_task_args *head,
                              const struct sl_objective_seeds *seeds, starpu_data_handle_t table);

    /* Submit loss and gradient of rows: *loss = scale times the sum of losses; gz [D x n_outputs] its gradient. */
    enum sl_status (*lose)(const struct sl_objective *objective, const struct sl_task_args *head,
                           const struct sl_objective_rows *rows, double scale, starpu_data_handle_t gz,
                           starpu_data_handle_t loss);

    /* Compute the values of the listed scores, and the mean loss of the validation vertices without class weights and
     * smoothing. Collective; rank 0 gets the values. A set without a known target has NaN. Waits for its own tasks.
     * SL_ENOMEM, SL_ESTARPU, SL_EIO, the failure of a task. */
    enum sl_status (*score)(const struct sl_objective *objective, const struct sl_outputs *outputs,
                            struct sl_scores *out);
};

/* Print warnings about the targets for people: whole lines. */
void sl_objective_warn(const struct sl_objective *objective, FILE *stream);

extern const struct sl_objective_kind sl_classify, sl_label_sets, sl_regression, sl_link_prediction;

/* Choose the objective that the settings and the type of the targets ask for. With 0 epochs and no known target the
 * options of the objective are not checked: there are no scores. SL_EINVAL, SL_EFILE, SL_ENOMEM. On failure *out is
 * empty. */
enum sl_status sl_objective_open(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                 struct sl_objective *out);

/* Bring the masses into the order of new ids, and register the weights. StarPU is up. SL_ENOMEM. */
enum sl_status sl_objective_place(struct sl_objective *objective, const struct sl_partition *partition);

/* Wait for the readers of the weights, free everything. An empty struct is allowed. */
void sl_objective_close(struct sl_objective *objective);

/* Identify the weights in a text for comparisons and messages. */
#define SL_SUM_BYTES 32
void sl_objective_identify(const struct sl_objective *objective, char out[SL_SUM_BYTES]);

/* The objective of the shards. */
const struct sl_objective *sl_objective_of(const struct sl_shards *shards);

/* The factor that makes a mean of a sum of losses: over n training vertices (new ids); over all training vertices. */
double sl_objective_scale(const struct sl_objective *objective, uint32_t n, const sl_vertex *vertices);
double sl_objective_scale_all(const struct sl_objective *objective, const struct sl_shards *shards);

/* The scores of an objective, all values NaN. */
void sl_objective_scores(const struct sl_objective *objective, const struct sl_shards *shards, struct sl_scores *out);

/* Set hops[v] to 0 for each vertex v whose outputs the scores need, by new id. */
void sl_objective_mark_scored(const struct sl_objective *objective, const struct sl_shards *shards, uint16_t *hops);

/* Whether the validation score of `a` is better than the score of `b`, by the score that selects. Any number is better
 * than NaN. */
bool sl_scores_better(const struct sl_scores *a, const struct sl_scores *b);

/* ---- for the kinds ---- */

/* `lose` of vertices, by the objective's row_loss, weights and smoothing. */
enum sl_status sl_objective_lose(const struct sl_objective *objective, const struct sl_task_args *head,
                                 const struct sl_objective_rows *rows, double scale, starpu_data_handle_t gz,
                                 starpu_data_handle_t loss);

/* The score of this name. NULL: none. */
struct sl_score *sl_scores_find(struct sl_scores *scores, const char *name);

/* Set the values of the score of this name, which is in the list. */
void sl_scores_put(struct sl_scores *scores, const char *name, double valid, double test);

/* Read --class-weights: numbers of 0 or more, one for each output. `text` has the numbers with commas between them, or
 * the path of a file with a number on each line. The caller frees *out (sl_free), also on failure. SL_EINVAL: the text
 * has a wrong number. SL_EFILE, SL_EIO, SL_ENOMEM. */
enum sl_status sl_objective_read_weights(const char *text, uint32_t n_outputs, float **out);

/* Check that the split's training targets are numbers, and set the masses to the numbers of known targets. `name` is
 * for messages. SL_EINVAL, SL_ENOMEM. */
enum sl_status sl_objective_count_known(const struct sl_dataset *dataset, const char *name, struct sl_objective *out);

#endif
