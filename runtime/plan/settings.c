/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The option tables of coop_sage and pipe_gnn, and checks that concern several options. */
#include "runtime/plan/settings.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "codelets/ends/pairs.h"
#include "codelets/sampling/importance.h"
#include "codelets/sums/attend.h"
#include "config.h"
#include "data/load.h"
#include "data/random_split.h"
#include "runtime/plan/model_file.h"
#include "runtime/plan/rate.h"
#include "runtime/starling.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/number.h"
#include "support/text.h"
#include "tasks/task.h"

#define FANOUT_PER_LAYER 10
#define LAYERS 3            /* without --layers and --fanout */
#define MAX_WIDTH 65536     /* hidden units: a weight matrix has at most 2^33 entries */
#define MAX_BATCH (1 << 24) /* seeds */
#define MAX_PES 65536       /* numbers of ranks have 16 bits in tags of messages (runtime/full/halo_lists.c) */
#define MAX_NEGATIVES 4096

#define FIELD(name) offsetof(struct sl_settings, name)

/* --model and --layers have a row for each program, as their help differs. */
#define MODELS "sage,gcn,gat,gatv2,gcnii,resgcn,gin,rgcn,rgat"
#define MODEL_SYNONYMS "graphsage=sage,gcn2=gcnii,deepgcn=resgcn"

/* Bits of `programs`. */
#define COOP (1U << SL_SCHEDULE_MINIBATCH)
#define PIPE (1U << SL_SCHEDULE_PIPE)

#define DATA SL_CHANGE_DATA
#define LONGER SL_CHANGE_LONGER
#define FREELY SL_CHANGE_FREELY
#define PATH SL_SPREAD_PATH
#define OWN SL_SPREAD_OWN

/* The options of both programs, and all that the code knows about an option beside its effect.
 *
 * change: a run continues to the bit only if data, model and order of additions stay the same.
 * - `transport` is part of the order: nccl adds gradients by GPU, other transports by PE. `means` fastest may use
 *   cuSPARSE's order.
 * - Place and time of tasks, and place of rows, change no bit: every sum has a fixed order.
 * - `cpus` and `gpus` are free, although GPUs round differently from CPUs. The bits equal those of an uninterrupted
 *   run if the same kind of device continues, with nccl the same number of GPUs, and without --cpus beside GPUs.
 * - `load` is free: the checkpoint brings the weights.
 * doc/guide/resume.md has `change` and `spread` with a reason each; tests/unit/runtime/test_rules.c compares. */
/* clang-format off */
static const struct sl_option options[] = {
    {.name = "dataset", .group = "data", .kind = SL_OPTION_STRING, .offset = FIELD(dataset), .initial = "arxiv",
     .argument = "NAME|DIR",
     .help = "Dataset: a name on the data path, or its folder. Only arxiv-synthetic, products-synthetic and "
             "mag-synthetic are generated, and, with a warning, arxiv, products and mag if they are not found",
     .change = DATA, .spread = OWN, .of_data = true, .common = true, .brief = "A name on the data path, or a folder"},
    {.name = "data-path", .group = "data", .kind = SL_OPTION_STRING, .offset = FIELD(data_path),
     .shown = "$STARLING_DATA, ./data, ~/.local/share/starling", .argument = "DIR[:DIR]",
     .help = "Folders that are searched for datasets",
     .change = FREELY, .spread = OWN, .of_data = true},
    {.name = "split", .group = "data", .kind = SL_OPTION_STRING, .offset = FIELD(split),
     .shown = "the only split of the dataset", .argument = "NAME|random:N,N,N",
     .help = "Split into training, validation and test vertices, or links. random:60,20,20 draws one by --seed: "
             "percentages of the vertices with a label, class by class, or of the links",
     .change = DATA, .spread = OWN, .of_data = true},
    {.name = "drop-leaks", .group = "data", .kind = SL_OPTION_FLAG, .offset = FIELD(drop_leaks),
     .help = "Of links to find: drop those that are among the edges or training links from there, repeated ones, and "
             "negatives that are links, with a notice. By default they are refused",
     .programs = COOP, .change = DATA, .of_data = true},
    {.name = "features", .group = "data", .kind = SL_OPTION_STRING, .offset = FIELD(features),
     .shown = "the dataset's own", .argument = "FILE|degree|onehot|random:N",
     .help = "Feature file, relative to the dataset's folder, or made features. degree: ln(1 + in-degree). onehot: the "
             "vertex. random:N: N normal numbers of --seed and the vertex",
     .change = DATA, .spread = OWN, .of_data = true, .of_model = true},
    {.name = "directed", .group = "data", .kind = SL_OPTION_FLAG, .offset = FIELD(directed),
     .help = "Keep the edges of the file. By default the reverse of each edge is added",
     .of_data = true, .of_model = true},
    {.name = "normalize-features", .group = "data", .kind = SL_OPTION_CHOICE, .offset = FIELD(normalize_features),
     .choices = "none,row,column", .initial = "none",
     .help = "Scale features. row: divide each vertex's features by their sum, if it is above 1 (as PyG's "
             "NormalizeFeatures). column: subtract each column's mean and divide by its standard deviation. A model "
             "keeps the means and deviations of its training",
     .of_model = true},
    {.name = "cache", .group = "data", .kind = SL_OPTION_STRING, .offset = FIELD(cache),
     .shown = "beside the data, else the user's cache folder", .argument = "DIR|none",
     .help = "Folder for the binary copies of datasets and partitions. none: keep no copies",
     .change = FREELY, .spread = OWN, .of_data = true},

    {.name = "model", .group = "model", .programs = COOP, .kind = SL_OPTION_CHOICE, .offset = FIELD(model),
     .choices = MODELS, .initial = "sage",
     .help = "sage: GraphSAGE with the mean over in-neighbours. gcn: graph convolution. gat: graph attention. gatv2: "
             "the same with dynamic scores. gcnii: deep graph convolution with initial residual and identity mapping. "
             "resgcn: residual graph convolutions after layer norm. gin: graph isomorphism network, a sum and two "
             "products. rgcn: a mean and a weight matrix for each relation of a typed dataset. rgat: attention for "
             "each relation. The sampled sums of gcn, gcnii, resgcn and gin estimate the exact sums without bias",
     .of_model = true, .common = true,
     .brief = "sage: GraphSAGE with means. gcn, gcnii, resgcn: graph convolutions. gat, gatv2: attention. gin: sums. "
              "rgcn, rgat: means, attention by relation",
     .synonyms = MODEL_SYNONYMS},
    {.name = "model", .group = "model", .programs = PIPE, .kind = SL_OPTION_CHOICE, .offset = FIELD(model),
     .choices = MODELS, .initial = "sage", .argument = "sage|gcn|gcnii|resgcn|gin",
     .help = "sage: GraphSAGE with the mean over in-neighbours. gcn: graph convolution. gcnii: deep "
             "graph convolution with initial residual and identity mapping. resgcn: residual graph convolutions "
             "after layer norm. gin: graph isomorphism network, a sum and two products",
     .of_model = true, .common = true,
     .brief = "sage: GraphSAGE with means. gcn, gcnii, resgcn: graph convolutions. gin: sums",
     .synonyms = MODEL_SYNONYMS},
    {.name = "heads", .group = "model", .kind = SL_OPTION_U32, .offset = FIELD(heads), .initial = "8", .min = 1,
     .max = SL_MAX_HEADS, .argument = "N", .unit = "heads",
     .help = "Attention heads of a hidden layer. They share its --hidden units, so N must divide --hidden "
             "(gat, gatv2 and rgat only)",
     .programs = COOP, .of_model = true, .needs = "model=gat,gatv2,rgat"},
    {.name = "skip", .group = "model", .kind = SL_OPTION_FLAG, .offset = FIELD(skip),
     .help = "Add a product of the vertex's own row to each layer's output, with a matrix of its own (gat and gatv2 "
             "only; rgat always has it)",
     .programs = COOP, .of_model = true, .needs = "model=gat,gatv2"},
    {.name = "bases", .group = "model", .kind = SL_OPTION_U32, .offset = FIELD(bases), .initial = "0",
     .max = SL_MAX_RELATIONS, .argument = "N", .unit = "matrices",
     .help = "Make the matrices of all relations as weighted sums of N shared matrices. 0: each relation has its own "
             "(rgcn only)",
     .programs = COOP, .of_model = true, .needs = "model=rgcn"},
    {.name = "decoder", .group = "model", .kind = SL_OPTION_CHOICE, .offset = FIELD(decoder),
     .choices = "dot,distmult,mlp", .initial = "dot",
     .help = "The score of a link, from the outputs of its ends. dot: their dot product. distmult: the same with a "
             "trained weight for each output and relation. mlp: two trained layers, of the product entry by entry "
             "(link only)",
     .programs = COOP, .of_model = true, .needs = "objective=link"},
    {.name = "alpha", .group = "model", .kind = SL_OPTION_REAL, .offset = FIELD(alpha), .initial = "0.1", .max = 1,
     .argument = "X", .help = "Weight of the first layer's output in the sums of all later layers (gcnii only)",
     .of_model = true, .needs = "model=gcnii"},
    {.name = "lambda", .group = "model", .kind = SL_OPTION_REAL, .offset = FIELD(lambda), .initial = "0.5",
     .argument = "X",
     .help = "Layer l takes beta = ln(lambda / l + 1) of its weights and 1 - beta of the identity (gcnii only)",
     .of_model = true, .needs = "model=gcnii"},
    {.name = "learn-epsilon", .group = "model", .kind = SL_OPTION_FLAG, .offset = FIELD(learn_epsilon),
     .help = "Learn epsilon, the extra weight of a vertex in its own sum. Without it epsilon stays 0, or as loaded "
             "(gin only)",
     .needs = "model=gin"},
    {.name = "layers", .group = "model", .programs = COOP, .kind = SL_OPTION_U32, .offset = FIELD(layers), .min = 1,
     .max = SL_MAX_LAYERS, .shown = "as many as --fanout has numbers, else 3", .argument = "N",
     .help = "Layers that aggregate; also the hops that are sampled",
     .of_model = true, .common = true},
    {.name = "layers", .group = "model", .programs = PIPE, .kind = SL_OPTION_U32, .offset = FIELD(layers), .min = 1,
     .max = SL_MAX_LAYERS, .shown = "3", .argument = "N",
     .help = "Layers that aggregate",
     .of_model = true, .common = true},
    {.name = "hidden", .group = "model", .kind = SL_OPTION_U32, .offset = FIELD(hidden), .initial = "256", .min = 1,
     .max = MAX_WIDTH, .argument = "N", .unit = "units", .help = "Width of the hidden layers",
     .of_model = true, .common = true},
    {.name = "dropout", .group = "model", .kind = SL_OPTION_REAL, .offset = FIELD(dropout), .initial = "0.5",
     .max = 0.9999, .argument = "X", .help = "Probability of dropping a hidden unit in training",
     .common = true},
    {.name = "input-dropout", .group = "model", .kind = SL_OPTION_REAL, .offset = FIELD(input_dropout),
     .initial = "0", .max = 0.9999, .argument = "X", .help = "Probability of dropping an input feature in training",
     .programs = COOP},
    {.name = "activation", .group = "model", .kind = SL_OPTION_CHOICE, .offset = FIELD(activation),
     .choices = "relu,elu,gelu,leaky_relu", .initial = "relu",
     .help = "Activation of the hidden layers, and of the layer inside gin. elu: exp(x) - 1 below 0. gelu: x times the "
             "normal distribution function. leaky_relu: x / 100 below 0",
     .of_model = true},
    {.name = "norm", .group = "model", .kind = SL_OPTION_CHOICE, .offset = FIELD(norm), .choices = "none,layer,batch",
     .initial = "none", .help = "Norm of the hidden layers, before the activation",
     .of_model = true, .synonyms = "layernorm=layer,batchnorm=batch"},
    {.name = "residual", .group = "model", .kind = SL_OPTION_FLAG, .offset = FIELD(residual),
     .help = "Add a layer's input to its output if both have the same width",
     .of_model = true},
    {.name = "input-layer", .group = "model", .programs = COOP, .kind = SL_OPTION_FLAG, .offset = FIELD(input_layer),
     .help = "Put a product and the activation before the first layer (not with gcnii and resgcn, whose first layer "
             "is such). In a typed dataset each type with features thus gets a projection to --hidden, and each "
             "vertex without features a trained vector. If features are sparse, Adam leaves vectors that a step did "
             "not read as they are",
     .of_model = true},
    {.name = "output-layers", .group = "model", .kind = SL_OPTION_U32, .offset = FIELD(output_layers), .initial = "0",
     .max = SL_MAX_LAYERS - 2, .argument = "N",
     .help = "Dense layers behind those that aggregate (not with gcnii and resgcn, whose last layer is such). All but "
             "the last are hidden layers. 0: the last layer that aggregates gives the outputs",
     .of_model = true},
    {.name = "edge-weights", .group = "model", .kind = SL_OPTION_CHOICE, .offset = FIELD(edge_weights),
     .choices = "none,probability,factor,both", .initial = "none",
     .help = "Use of the dataset's edge weights. none: no use. probability: in-neighbours are sampled in proportion to "
             "the weights (coop_sage, --sampler neighbor). factor: sums multiply each in-neighbour's row by its weight "
             "(all models but gat). both: a factor, and --sampler labor, ladies or pladies draws by the weights, too: "
             "weighted LABOR (all models but gat and rgat)",
     .of_model = true},
    {.name = "edge-features", .group = "model", .programs = COOP, .kind = SL_OPTION_CHOICE,
     .offset = FIELD(edge_features), .choices = "none,concat,add", .initial = "none",
     .help = "Use of the dataset's features of edges. none: no use. concat: a message is the in-neighbour's row with "
             "the features of the edge beside it (sage, rgcn), or the scores of attention have them (gat, rgat). add: "
             "the features, times a matrix of the layer, are added to the row; gat and rgat score them, too",
     .of_model = true, .needs = "model=sage,gat,rgcn,rgat"},
    {.name = "precision", .group = "model", .kind = SL_OPTION_CHOICE, .offset = FIELD(precision),
     .choices = "float,bf16,tf32", .initial = "float",
     .help = "Element type of rows: dense features, hidden rows, finished sums, rows that travel between PEs, chunks "
             "and epochs, and the factors of products. bf16: half the bytes, and at least twice the rate on "
             "processors and GPUs that multiply bf16. Sums are added up in float. Weights and sums of "
             "gradients stay float. tf32: rows are float; GPUs round the factors of products to 10 bits",
     .kept = true, .common = true, .brief = "Element type of rows; weights stay float",
     .synonyms = "float32=float,fp32=float,f32=float,bfloat16=bf16"},
    {.name = "load", .group = "model", .kind = SL_OPTION_STRING, .offset = FIELD(load), .argument = "FILE",
     .help = "Start from the model in this safetensors file, written by --save. It brings all options that change a "
             "score, so they need not be given",
     .change = FREELY, .spread = PATH, .common = true, .brief = "Start from the model in this safetensors file"},

    {.name = "pes", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(pes), .min = 1, .max = MAX_PES,
     .shown = "one per GPU; else 2, or the NUMA nodes if more", .argument = "N",
     .help = "Processing elements (PEs). Each owns a part of the graph and has a frontier of its own",
     .programs = COOP, .common = true, .brief = "Processing elements. Each owns a part of the graph"},
    {.name = "group-size", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(group_size), .min = 1,
     .max = SL_MAX_GROUP, .shown = "all PEs; 1 with gossip", .argument = "N",
     .help = "PEs that cooperate on one minibatch, at most 256. 1: independent minibatches. Must divide --pes",
     .programs = COOP},
    {.name = "batch-size", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(batch_size),
     .initial = "1024", .min = 1, .max = MAX_BATCH, .argument = "N", .unit = "seeds",
     .help = "Seed vertices or links per PE and step",
     .programs = COOP, .common = true},
    {.name = "drop-last", .group = "minibatch", .kind = SL_OPTION_FLAG, .offset = FIELD(drop_last),
     .help = "Leave out the last step of an epoch if it has fewer seeds than the others",
     .programs = COOP},
    {.name = "vertex-budget", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(vertex_budget),
     .initial = "0", .argument = "N", .unit = "vertices",
     .help = "Change the seeds of a step after an epoch, so that the minibatch of a group has N input vertices on "
             "average. --batch-size is for the first epoch. 0: keep --batch-size",
     .programs = COOP, .needs = "sync=allreduce"},
    {.name = "fanout", .group = "minibatch", .kind = SL_OPTION_U32_LIST, .offset = FIELD(fanout),
     .offset_n = FIELD(n_fanout), .capacity = SL_MAX_LAYERS, .min = 1, .word = "-1", .shown = "10 per layer",
     .argument = "N,N,...",
     .help = "In-neighbours sampled per vertex, one number per layer, input side first (the last is for the seeds). "
             "-1: all of them. A single number is for all layers; -1 does not need --layers. Without --layers, the "
             "length of the list is the number of layers",
     .programs = COOP, .common = true,
     .brief = "In-neighbours sampled per vertex, one number per layer, the seeds' layer last. -1: all"},
    {.name = "relation-fanout", .group = "minibatch", .kind = SL_OPTION_STRING, .offset = FIELD(relation_fanout),
     .shown = "over all relations", .argument = "each|RELATION:N,N,...[/...]",
     .help = "Fanouts by relation (rgcn and rgat). each: the numbers of --fanout hold for each relation. "
             "RELATION:N,N,...: this relation has numbers of its own; more relations follow a /. A RELATION is a name "
             "in raw/triplet-type-list, rev_NAME for the reverse, SOURCE___NAME___DESTINATION, or a number",
     .programs = COOP, .needs = "model=rgcn,rgat"},
    {.name = "sampler", .group = "minibatch", .kind = SL_OPTION_CHOICE, .offset = FIELD(sampler),
     .choices = "neighbor,labor,full,ladies,pladies", .initial = "neighbor",
     .help = "neighbor: uniform without replacement. labor: LABOR-0, which draws sources that many destinations "
             "share. full: all in-neighbours. ladies: --layer-size sources for all vertices of a layer. pladies: the "
             "same, so many on average, each by itself. Not with attention or rgcn",
     .programs = COOP, .common = true,
     .brief = "neighbor: uniform. labor: LABOR-0. full: all in-neighbours. ladies, pladies: --layer-size sources",
     .synonyms = "neighbour=neighbor"},
    {.name = "layer-size", .group = "minibatch", .kind = SL_OPTION_U32_LIST, .offset = FIELD(layer_size),
     .offset_n = FIELD(n_layer_size), .capacity = SL_MAX_LAYERS, .min = 1, .argument = "N,N,...",
     .unit = "vertices",
     .help = "Sources that each group draws for each layer of a step (ladies and pladies), input side first (the last "
             "is for the seeds). A single number is for all layers. Without --layers, the length of the list is the "
             "number of layers",
     .programs = COOP, .needs = "sampler=ladies,pladies"},
    {.name = "replace", .group = "minibatch", .kind = SL_OPTION_FLAG, .offset = FIELD(replace),
     .help = "Draw with replacement (neighbor only): a vertex may have several edges from the same in-neighbour. Each "
             "vertex with in-neighbours has as many edges as --fanout says",
     .programs = COOP, .needs = "sampler=neighbor"},
    {.name = "layer-dependency", .group = "minibatch", .kind = SL_OPTION_FLAG, .offset = FIELD(layer_dependency),
     .help = "Use the same random numbers at every hop (labor only)",
     .programs = COOP, .needs = "sampler=labor"},
    {.name = "kappa", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(kappa), .initial = "1",
     .argument = "N", .unit = "steps",
     .help = "Steps over which samples change slowly (neighbor and labor). 1: independent steps. 0: the same samples "
             "in all steps",
     .programs = COOP, .needs = "sampler=neighbor,labor"},
    {.name = "labor-iterations", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(labor_iterations),
     .initial = "0", .max = SL_IMPORTANCE_ROUNDS, .word = "converge", .argument = "N|converge",
     .help = "Rounds that make sources likelier which many destinations share (labor only): fewer vertices, more "
             "edges. 0: LABOR-0. converge: LABOR-*, at most 20 rounds",
     .programs = COOP, .needs = "sampler=labor"},
    {.name = "depth", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(depth), .initial = "2", .min = 1,
     .max = 64, .argument = "N", .unit = "batches",
     .help = "Minibatches in flight. 1: a minibatch is sampled after the step before has ended",
     .programs = COOP, .change = FREELY},
    {.name = "chunks", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(chunks), .min = 1, .max = 64,
     .shown = "enough for all workers", .argument = "N",
     .help = "Chunks of rows for each PE. One task computes one chunk",
     .programs = COOP},
    {.name = "feature-cache", .group = "minibatch", .kind = SL_OPTION_U32, .offset = FIELD(feature_cache),
     .max = UINT32_MAX - 1, .initial = "auto", .word = "auto", .argument = "N|auto",
     .help = "Keep the feature table in main memory, and a cache of N rows for each PE on its device. 0: each device "
             "has the whole table of its parts. auto: as 0, but if the table is too large for the GPUs, each GPU "
             "caches as many rows as fit",
     .programs = COOP, .change = FREELY},
    {.name = "feature-cache-policy", .group = "minibatch", .kind = SL_OPTION_CHOICE,
     .offset = FIELD(feature_cache_policy), .choices = "lru,degree,s3-fifo,sieve,clock",
     .initial = "lru",
     .help = "lru: drop the least recently used rows. degree: keep the rows of the vertices that are sources most "
             "often, for the whole run. s3-fifo: drop rows that were used once, soon. sieve and clock: a hand passes "
             "over the rows, and drops those not used since it last passed",
     .programs = COOP, .change = FREELY},
    {.name = "partition", .group = "minibatch", .programs = COOP, .kind = SL_OPTION_CHOICE, .offset = FIELD(partition),
     .choices = "metis,random,none,stream", .initial = "metis",
     .help = "How the graph is cut into parts, one per PE of a group. none: equal ranges of the dataset's order. "
             "stream: METIS cuts clusters of vertices, for large graphs; it is taken if METIS has too little memory"},

    {.name = "stages", .group = "pipeline", .kind = SL_OPTION_U32, .offset = FIELD(stages), .min = 1,
     .max = SL_MAX_LAYERS, .shown = "2, but 1 with one layer", .argument = "N",
     .help = "Stages. Each has consecutive layers; at most one stage per layer",
     .programs = PIPE, .change = FREELY, .common = true},
    {.name = "stages-cut", .group = "pipeline", .kind = SL_OPTION_U32_LIST, .offset = FIELD(stages_cut),
     .offset_n = FIELD(n_stages_cut), .capacity = SL_MAX_LAYERS, .min = 1, .max = SL_MAX_LAYERS - 1,
     .shown = "by the time that layers take", .argument = "N,N,...",
     .help = "First layer of each stage but the first, counted from 0",
     .programs = PIPE, .change = FREELY},
    {.name = "ways", .group = "pipeline", .kind = SL_OPTION_U32, .offset = FIELD(ways), .initial = "1", .min = 1,
     .max = SL_MAX_PARTS, .argument = "N",
     .help = "Ways of a stage. Each has chunks of its own, and the ways exchange rows in every layer. With as many "
             "ways as chunks, training is exact",
     .programs = PIPE, .common = true, .brief = "Ways of a stage. As many ways as chunks: exact training"},
    {.name = "chunks", .group = "pipeline", .kind = SL_OPTION_U32, .offset = FIELD(graph_chunks), .min = 1,
     .max = SL_MAX_PARTS, .shown = "4 times stages times ways", .argument = "N",
     .help = "Chunks of the graph, at most 512; a multiple of --ways",
     .programs = PIPE, .common = true},
    {.name = "chunk-order", .group = "pipeline", .kind = SL_OPTION_CHOICE, .offset = FIELD(chunk_order),
     .choices = "shuffle,fixed", .initial = "shuffle",
     .help = "Order in which a way takes its chunks. shuffle: drawn anew in each epoch. fixed: as numbered",
     .programs = PIPE},
    {.name = "gradient-factor", .group = "pipeline", .kind = SL_OPTION_REAL, .offset = FIELD(gradient_factor),
     .initial = "2", .min = 1, .max = 2, .argument = "1|2",
     .help = "Factor of the gradients that come back from later chunks. It makes up for the gradients that never "
             "come back",
     .programs = PIPE},
    {.name = "recompute", .group = "pipeline", .kind = SL_OPTION_FLAG, .offset = FIELD(recompute),
     .help = "Keep only the input of each stage and the rows on chunk boundaries, and compute the other rows again "
             "in the backward pass: less memory, the same bits",
     .programs = PIPE, .change = FREELY, .common = true,
     .brief = "Use less memory: compute rows again in the backward pass"},
    {.name = "guard", .group = "pipeline", .kind = SL_OPTION_CHOICE, .offset = FIELD(guard), .choices = "on,off",
     .initial = "on",
     .help = "Compare the loss with the exact loss every --history-every epochs (10 at least). If history misleads, "
             "continue exactly from the best weights so far",
     .programs = PIPE},
    {.name = "history-every", .group = "pipeline", .kind = SL_OPTION_U32, .offset = FIELD(history_every),
     .initial = "23", .min = 1, .argument = "N", .unit = "epochs",
     .help = "Epochs between snapshots of the history, the rows that replace rows of later chunks. 1: rows of the last "
             "epoch",
     .programs = PIPE},
    {.name = "partition", .group = "pipeline", .programs = PIPE, .kind = SL_OPTION_CHOICE, .offset = FIELD(partition),
     .choices = "metis,random,none,stream", .initial = "metis",
     .help = "How the graph is cut into chunks. none: equal ranges of the dataset's order. "
             "stream: METIS cuts clusters of vertices, for large graphs"},

    {.name = "sync", .group = "gradients", .kind = SL_OPTION_CHOICE, .offset = FIELD(sync),
     .choices = "allreduce,dissemination,cube", .initial = "allreduce",
     .help = "How the groups' gradients are combined. allreduce: summed in every step. dissemination and cube are "
             "gossip (GossipGraD): each group trains a replica of its own and mixes with one partner a step. Scores, "
             "--save, --predict and --embed are then of the average of all replicas",
     .programs = COOP, .leads = true, .synonyms = "all-reduce=allreduce"},
    {.name = "gossip-what", .group = "gradients", .kind = SL_OPTION_CHOICE, .offset = FIELD(gossip_what),
     .choices = "grad,weight", .initial = "weight",
     .help = "What partners mix. weight: weights after the update. grad: gradients before the update, as "
             "GossipGraD's public code does (replicas drift apart)",
     .programs = COOP},
    {.name = "gossip-average-every", .group = "gradients", .kind = SL_OPTION_U32,
     .offset = FIELD(gossip_average_every), .initial = "0", .argument = "N", .unit = "steps",
     .help = "Steps between averages of the weights of all replicas. 0: never",
     .programs = COOP, .needs = "sync=dissemination,cube"},
    {.name = "gossip-local-size", .group = "gradients", .kind = SL_OPTION_U32, .offset = FIELD(gossip_local_size),
     .initial = "1", .min = 1, .max = MAX_PES, .argument = "N", .unit = "replicas",
     .help = "Replicas that are averaged in every step and gossip as a single replica. Must divide the number of "
             "replicas",
     .programs = COOP, .needs = "sync=dissemination,cube"},
    {.name = "gossip-ring", .group = "gradients", .kind = SL_OPTION_FLAG, .offset = FIELD(gossip_ring),
     .help = "Pass the seeds of a minibatch to the next group after use, instead of shuffling all seeds every epoch",
     .programs = COOP, .needs = "sync=dissemination,cube"},

    {.name = "objective", .group = "training", .kind = SL_OPTION_CHOICE, .offset = FIELD(objective),
     .choices = "auto,class,labels,regression,link", .initial = "auto",
     .help = "What the model learns. class: one class a vertex. labels: a set of labels, columns of 0 and 1. "
             "regression: columns of numbers. link: the links of a split that lists pairs of vertices (coop_sage). "
             "auto: by the targets (raw/node-label). A single column of whole numbers has classes. Numbers 0 and 1 in "
             "several columns are labels. Unknown entries (nan) are left out",
     .common = true, .brief = "What is learned: a class, a set of labels, numbers, or links. auto: by the targets"},
    {.name = "loss", .group = "training", .kind = SL_OPTION_CHOICE, .offset = FIELD(loss),
     .choices = "squared,absolute", .initial = "squared", .help = "Error of a number (regression only)",
     .needs = "objective=auto,regression"},
    {.name = "negatives", .group = "training", .kind = SL_OPTION_U32, .offset = FIELD(negatives), .initial = "1",
     .min = 1, .max = MAX_NEGATIVES, .argument = "K", .unit = "vertices",
     .help = "Negatives of a training link (link only). In a negative, a vertex drawn uniformly replaces one end. Of "
             "typed links, half of the negatives replace the head, half the tail",
     .programs = COOP, .needs = "objective=link"},
    {.name = "link-loss", .group = "training", .kind = SL_OPTION_CHOICE, .offset = FIELD(link_loss),
     .choices = "binary,softmax", .initial = "binary",
     .help = "binary: cross entropy of links and negatives, each a yes or no. softmax: cross entropy of the link among "
             "its negatives",
     .programs = COOP, .needs = "objective=link"},
    {.name = "link-exclude", .group = "training", .kind = SL_OPTION_CHOICE, .offset = FIELD(link_exclude),
     .choices = "reverse,self,none", .initial = "reverse",
     .help = "Edges that a step does not sample, in any hop. reverse: the links it trains on, and their reverses. "
             "self: the links alone. none: all edges may be sampled, so the model can read the answers",
     .programs = COOP, .needs = "objective=link"},
    {.name = "class-weights", .group = "training", .kind = SL_OPTION_STRING, .offset = FIELD(class_weights),
     .argument = "balanced|N,N,...|FILE",
     .help = "Weights in the loss: of the classes, or of the positive entries of each label. balanced: rare ones weigh "
             "more. N,N,...: a number for each class. FILE: one number a line",
     .change = DATA, .spread = PATH},
    {.name = "label-smoothing", .group = "training", .kind = SL_OPTION_REAL, .offset = FIELD(label_smoothing),
     .initial = "0", .max = 0.9999, .argument = "X",
     .help = "Share of a vertex's target that is spread over all classes (class only)"},
    {.name = "best-by", .group = "training", .kind = SL_OPTION_STRING, .offset = FIELD(best_by),
     .shown = "acc, ap, mse or auc", .argument = "NAME",
     .help = "Validation score that selects the best epoch. class: acc, f1, and auc if there are two classes. labels: "
             "ap, auc, f1_micro, f1. regression: mse, mae, r2. link: auc, ap, mrr, and hits1, hits3, "
             "hits10, hits20, hits50 and hits100"},
    {.name = "epochs", .group = "training", .kind = SL_OPTION_U32, .offset = FIELD(epochs), .initial = "10",
     .argument = "N", .unit = "epochs", .help = "Passes over the training vertices. 0: only evaluate (and predict)",
     .change = LONGER, .common = true},
    {.name = "lr", .group = "training", .kind = SL_OPTION_REAL, .offset = FIELD(lr), .initial = "0.003",
     .argument = "X", .help = "Learning rate",
     .common = true},
    {.name = "lr-schedule", .group = "training", .kind = SL_OPTION_STRING, .offset = FIELD(lr_schedule),
     .initial = "none", .argument = "none|cosine|step|step:N:X",
     .help = "Learning rate over the epochs. cosine: goes down to 0. step: is divided by ten after each third of the "
             "epochs. step:N:X: is multiplied by X after each N epochs",
     .leads = true},
    {.name = "lr-warmup", .group = "training", .kind = SL_OPTION_U32, .offset = FIELD(lr_warmup), .initial = "0",
     .argument = "N", .unit = "steps", .help = "The learning rate rises evenly over the first N steps"},
    {.name = "optimizer", .group = "training", .kind = SL_OPTION_CHOICE, .offset = FIELD(optimizer),
     .choices = "adam,adamw", .initial = "adam",
     .help = "adamw: --weight-decay shrinks the weights themselves, by the learning rate times the decay in each step "
             "that changes them"},
    {.name = "weight-decay", .group = "training", .kind = SL_OPTION_REAL, .offset = FIELD(weight_decay),
     .initial = "0", .argument = "X", .help = "adam: L2 penalty, added to the gradients. adamw: see --optimizer",
     .common = true},
    {.name = "patience", .group = "training", .kind = SL_OPTION_U32, .offset = FIELD(patience), .initial = "0",
     .argument = "N", .unit = "evaluations",
     .help = "Stop after N evaluations without a better validation score. 0: never",
     .change = FREELY},
    {.name = "seed", .group = "training", .kind = SL_OPTION_U64, .offset = FIELD(seed), .initial = "1",
     .argument = "N", .help = "Seed of all random choices",
     .common = true},
    {.name = "eval-every", .group = "training", .kind = SL_OPTION_U32, .offset = FIELD(eval_every), .initial = "1",
     .argument = "N", .unit = "epochs", .help = "Epochs between evaluations. 0: only after the last epoch",
     .change = FREELY},
    {.name = "score-fanout", .group = "training", .kind = SL_OPTION_U32_LIST, .offset = FIELD(score_fanout),
     .offset_n = FIELD(n_score_fanout), .capacity = SL_MAX_LAYERS, .min = 1, .max = SL_MAX_SCORE_FANOUT, .word = "-1",
     .shown = "exact scores", .argument = "N,N,...",
     .help = "Score on samples: in-neighbours per vertex, one number per layer, input side first. -1: all of them. A "
             "single number is for all layers. A sample depends on --seed and the vertex. Files of outputs stay exact. "
             "By CPUs, and not over several processes",
     .programs = COOP, .change = FREELY},

    {.name = "metrics", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(metrics), .argument = "FILE",
     .help = "Write metrics, one JSON object a line. -: to standard output. With --resume the file is first cut back "
             "to the checkpoint, then appended to",
     .change = FREELY, .spread = PATH, .written = true, .common = true,
     .brief = "Write metrics, one JSON object a line"},
    {.name = "metrics-steps", .group = "output", .kind = SL_OPTION_FLAG, .offset = FIELD(metrics_steps),
     .help = "Write the metrics of each step, too",
     .change = FREELY},
    {.name = "save", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(save), .argument = "FILE",
     .help = "Save the weights of the best epoch at the end, as safetensors",
     .change = FREELY, .spread = PATH, .written = true, .common = true},
    {.name = "save-names", .group = "output", .kind = SL_OPTION_CHOICE, .offset = FIELD(save_names),
     .choices = "dgl,pyg", .initial = "dgl",
     .help = "Names and shapes in the --save file: of DGL's layers or of PyTorch Geometric's. --load reads both",
     .change = FREELY},
    {.name = "predict", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(predict), .argument = "FILE",
     .help = "Write the outputs of all vertices at the end, as .npy or .csv: class scores, label scores (logits) or "
             "numbers. With --objective link: the scores of --pairs. They are of the best epoch. .csv has a header, "
             "the vertices' ids and the names of their classes",
     .change = FREELY, .spread = PATH, .written = true, .common = true,
     .brief = "Write the outputs of all vertices, as .npy or .csv"},
    {.name = "predict-vertices", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(predict_vertices),
     .argument = "FILE",
     .help = "The vertices that --predict writes, in the order of the dataset: a mask of all, their names if the "
             "dataset has some, or their numbers, .csv, .csv.gz or .npy",
     .change = FREELY, .spread = PATH},
    {.name = "pairs", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(pairs), .argument = "FILE",
     .help = "The pairs of vertices that --predict scores (link only): .csv, .csv.gz or .npy, as the lists of "
             "the split",
     .programs = COOP, .change = FREELY, .spread = PATH, .needs = "objective=link"},
    {.name = "embed", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(embed), .argument = "FILE",
     .help = "Write the last hidden rows of all vertices at the end, as .npy; of links the outputs, which scores are "
             "made of. The rows are of the best epoch",
     .change = FREELY, .spread = PATH, .written = true},
    {.name = "checkpoint", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(checkpoint),
     .argument = "DIR",
     .help = "Save the whole state in this folder after each epoch and when interrupted. Only a single run at a time "
             "may use the folder",
     .change = FREELY, .spread = PATH, .written = true, .common = true,
     .brief = "Save the whole state in this folder after each epoch and when interrupted"},
    {.name = "resume", .group = "output", .kind = SL_OPTION_CHOICE, .offset = FIELD(resume), .choices = "no,yes,auto",
     .initial = "no", .bare = "yes", .argument = "auto",
     .help = "Continue from the state in the --checkpoint folder. auto: start afresh if the folder has no state",
     .change = FREELY, .needs = "checkpoint", .common = true,
     .brief = "Continue from the --checkpoint folder. auto: or start afresh"},
    {.name = "trace", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(trace), .argument = "DIR",
     .help = "Trace steps with StarPU's FxT. Write the traces, a timeline and a report into this folder",
     .change = FREELY, .written = true},
    {.name = "trace-steps", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(trace_steps),
     .shown = "the first epoch", .argument = "FIRST:LAST", .unit = "steps",
     .help = "Steps to trace, counted from 0 over the whole run, first and last included",
     .change = FREELY, .needs = "trace"},
    {.name = "quiet", .group = "output", .kind = SL_OPTION_FLAG, .offset = FIELD(quiet),
     .help = "Print nothing but errors and warnings about the data",
     .change = FREELY, .spread = OWN},
    {.name = "json", .group = "output", .kind = SL_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print the metrics on standard output instead of lines for people",
     .change = FREELY, .spread = OWN},

    {.name = "cpus", .group = "StarPU", .kind = SL_OPTION_U32, .offset = FIELD(cpus), .max = 4096,
     .shown = "one per core allowed; one beside GPUs", .argument = "N",
     .help = "CPU workers. 0 without GPUs: one per core of the cpuset, or fewer under a CPU quota. 0 with GPUs: one "
             "worker, for the few tasks that GPUs cannot run. $STARPU_NCPU overrides 0. With GPUs, any other number "
             "lets CPUs share all work",
     .change = FREELY, .spread = OWN, .common = true, .brief = "CPU workers"},
    {.name = "memory", .group = "StarPU", .kind = SL_OPTION_REAL, .offset = FIELD(memory), .max = 1e6,
     .shown = "what the machine and its limits allow", .argument = "GB",
     .help = "Memory of this process. A run that may need more does not start, and one that grows beyond it ends with "
             "a line that says who has reserved how much. 0: what the machine, its control groups and `ulimit` allow",
     .change = FREELY, .spread = OWN},
    {.name = "gpus", .group = "StarPU", .kind = SL_OPTION_U32, .offset = FIELD(gpus), .max = 4096, .initial = "all",
     .word = "all", .argument = "N|all",
     .help = "GPUs. all: every GPU that CUDA finds (none in a build without CUDA). Several processes on a machine "
             "divide the GPUs. 0: only CPUs",
     .change = FREELY, .spread = OWN, .common = true, .brief = "GPUs. 0: only CPUs"},
    {.name = "sched", .group = "StarPU", .kind = SL_OPTION_STRING, .offset = FIELD(sched),
     .shown = "near; dmdas with GPUs", .argument = "NAME",
     .help = "Scheduler. near is Starling's own, for CPUs: it keeps tasks close to the rows of their PE. Other names "
             "are StarPU's. $STARPU_SCHED overrides the default",
     .change = FREELY, .spread = OWN},
    {.name = "placement", .group = "StarPU", .kind = SL_OPTION_CHOICE, .offset = FIELD(placement),
     .choices = "free,home,auto", .initial = "auto",
     .help = "free: the scheduler chooses the worker of a PE's tasks. home: a PE's tasks run only on its own worker "
             "(or GPU, if GPUs are used), and its part's tables stay in that worker's memory. auto: home if there "
             "are several GPUs, each with at least one PE, and --cpus does not let CPUs share their work; otherwise "
             "free",
     .change = FREELY},
    {.name = "transport", .group = "StarPU", .kind = SL_OPTION_CHOICE, .offset = FIELD(transport),
     .choices = "starpu,nccl", .initial = "starpu",
     .help = "How rows and gradients travel between GPUs. starpu: StarPU's copies. nccl: NCCL, which needs --gpus",
     .programs = COOP},
    {.name = "means", .group = "StarPU", .kind = SL_OPTION_CHOICE, .offset = FIELD(means),
     .choices = "kernel,fastest", .initial = "kernel",
     .help = "Means over neighbours on GPUs. kernel: Starling's kernel, the same bits in every run. fastest: this "
             "kernel or cuSPARSE, whichever a scheduler with performance models (dmdas) finds faster; two runs may "
             "differ in the last bits",
     .programs = COOP},
    {.name = "watchdog", .group = "StarPU", .kind = SL_OPTION_U32, .offset = FIELD(watchdog), .initial = "auto",
     .word = "auto", .max = UINT32_MAX - 1, .argument = "N|auto", .unit = "seconds",
     .help = "Seconds without a finished task or an arriving message after which the run ends and prints the tasks "
             "of its workers. 0: never. auto: 300 with several processes, never with one. After SIGTERM, one of "
             "several processes ends after 8 seconds if its workers are idle",
     .change = FREELY},
};
/* clang-format on */

/* ---- Man pages ---- */

#define DATASET_FILES                                                                                                  \
    {"DIR/raw, DIR/split", "A dataset in OGB's raw layout: edges, features, targets; the split into training, "        \
                           "validation and test vertices."},                                                           \
        {"DIR/starling-cache", "Binary copies of the dataset and its partitions. --cache names another folder."},      \
        {"~/.cache/starling", "The same, if the dataset's folder is read-only."},                                      \
    {                                                                                                                  \
        "~/.local/share/starling", "The last folder of the default data path."                                         \
    }

#define CHECKPOINT_FILES                                                                                               \
    {"checkpoint.safetensors", "In the --checkpoint folder: the state of the run."},                                   \
        {"lock", "In the --checkpoint folder: locked by the run that uses the folder."},                               \
    {                                                                                                                  \
        "paje.trace, tasks.rec, trace.rec, dag.dot", "In the --trace folder: StarPU's files. See starling report."     \
    }

static const struct sl_option_note coop_files[] = {DATASET_FILES, CHECKPOINT_FILES};

static const struct sl_option_note coop_examples[] = {
    {"coop_sage --dataset arxiv-synthetic", "Train on a generated graph, with the defaults."},
    {"coop_sage --dataset ./mine --layers 2 --hidden 128 --fanout 10,5 --epochs 20 --save model.safetensors",
     "Train on the dataset in the folder mine, and save the best weights."},
    {"coop_sage --dataset ./mine --layers 2 --hidden 128 --load model.safetensors --epochs 0 --predict scores.npy",
     "Write the outputs for all vertices, without training."},
    {"coop_sage --dataset ./mine --checkpoint state --resume=auto",
     "Continue from the last checkpoint, or begin if there is none."},
    {"coop_sage --dataset ./mine --pes 4 --batch-size 512 --sampler labor --precision bf16",
     "Four PEs cooperate on minibatches of 2048 seeds, with LABOR sampling and rows of bf16."},
    {"mpirun -np 2 coop_sage --dataset ./mine --pes 4", "Train one model in two processes (a build with MPI)."},
    {"coop_sage --dataset ./mine --epochs 1 --trace out", "Trace an epoch, and write a report and a timeline."},
};

#define N_NOTES(notes) (sizeof(notes) / sizeof(notes)[0])

static const struct sl_option_note pipe_files[] = {DATASET_FILES, CHECKPOINT_FILES};

static const struct sl_option_note pipe_examples[] = {
    {"pipe_gnn --dataset ./mine --model resgcn --layers 8 --hidden 64 --stages 4",
     "Train eight layers in four stages, on the dataset in the folder mine."},
    {"pipe_gnn --dataset ./mine --model resgcn --layers 8 --hidden 64 --stages 1 --ways 8 --chunks 8",
     "Train exactly: with as many ways as chunks, no rows of earlier epochs are used."},
    {"pipe_gnn --dataset ./mine --model gcnii --layers 32 --hidden 64 --stages 8 --recompute --precision bf16",
     "Use less memory: compute rows again in the backward pass, and keep them in bf16."},
    {"pipe_gnn --dataset ./mine --model gcnii --layers 8 --checkpoint state --resume=auto",
     "Continue from the last checkpoint, or begin if there is none."},
    {"mpirun -np 2 pipe_gnn --dataset ./mine --model resgcn --layers 8 --stages 2",
     "Train one model in two processes, a stage each (a build with MPI)."},
};

/* Names in DGL, PyTorch Geometric and their examples that the rules of support/nearest.h do not find. */
/* clang-format off */
static const struct sl_option_alias aliases[] = {
    {"data-path", "root,data-dir,dataset-dir,data-root,dataset-path"}, {"dataset", "graph"}, {"model", "arch,gnn,conv"},
    {"layers", "hops"}, {"hidden", "nhid,hid,units"}, {"decoder", "predictor,score"},
    {"dropout", "drop,drop-rate,feat-drop,attn-drop,attention-dropout"}, {"input-dropout", "in-drop"},
    {"skip", "res,residual-connection"}, {"input-layer", "projection,embed-layer,use-embedding"},
    {"output-layers", "mlp,mlp-layers,decoder-layers,post-layers"},
    {"edge-weights", "edge-weight,weighted,prob"}, {"edge-features", "edge-feat,edge-attr,edge-dim"},
    {"activation", "act,nonlinearity"}, {"precision", "dtype,dt,data-type,amp,mixed-precision,fp16,half,bf16"},
    {"load", "pretrained,model-path,load-model"}, {"pes", "parts,partitions"}, {"chunks", "parts,partitions"},
    {"batch-size", "bs,minibatch-size"}, {"fanout", "neighbors,neighbours,neighs,samples,sample-sizes"},
    {"relation-fanout", "fanout-dict,etype-fanout"}, {"sampler", "sampling,sample-type"},
    {"replace", "replacement"}, {"kappa", "dependency"}, {"labor-iterations", "importance-sampling"},
    {"depth", "prefetch"}, {"vertex-budget", "vertex-limit,max-vertices"},
    {"feature-cache", "cache-size,gpu-cache-size,cached-features,mode,feature-device,graph-device,data-device"},
    {"partition", "part-method"}, {"objective", "task,problem-type"}, {"loss", "criterion"},
    {"negatives", "negs,neg-ratio,negative-ratio,neg-sampling-ratio"}, {"link-exclude", "exclude"},
    {"class-weights", "pos-weight,balance"}, {"label-smoothing", "smoothing,smooth"}, {"best-by", "monitor,metric"},
    {"lr", "learning-rate,learn-rate"}, {"lr-schedule", "scheduler,lr-policy"},
    {"lr-warmup", "warmup,warmup-steps"}, {"weight-decay", "wd,l2"},
    {"patience", "early-stop,early-stopping"}, {"epochs", "epoch"},
    {"eval-every", "eval-steps,eval-interval,eval-freq,evaluate-every"}, {"metrics", "log,logfile"},
    {"metrics-steps", "log-every,log-interval,log-steps"}, {"save", "output,model-out,model-dir,save-model"},
    {"predict", "pred-file,save-pred,save-predictions"}, {"embed", "save-embed,save-embeddings"},
    {"checkpoint", "ckpt"}, {"resume", "continue"}, {"trace", "profile"}, {"cpus", "workers,threads,nthreads,cores"},
    {"memory", "mem,max-memory,memory-limit,ram"}, {"gpus", "gpu,devices,device,device-id,cuda,cpu"},
    {"--model sage takes the mean over in-neighbours", "aggr,aggregator,agg"},
    {"evaluation takes all in-neighbours, without batches", "eval-batch-size,val-batch-size,test-batch-size"},
    {"optimizer", "optim"}, {"the optimisers are adam and adamw", "momentum"},
    {"reverse edges are added unless --directed is given", "undirected,bidirected,reverse-edges"},
    {"the seeds are shuffled in every epoch", "shuffle"}, {"run it once for each --seed", "runs,repeat"},
    {"--split random:60,20,20 draws a split", "train-ratio,val-ratio,test-ratio,train-size,val-size,test-size"},
    {"it prints a line for each epoch unless --quiet is given", "verbose"},
    {"mpirun or srun starts the processes of a run", "world-size,nproc,nprocs,rank,nodes,nnodes,trainers,master-addr"},
    {"the dataset has this number", "in-feats,in-dim,in-channels,num-features,out-dim,out-channels,classes"},
    {"with --load and 0 --epochs it only evaluates", "inference,eval-only,evaluate,test-only"},
};
/* clang-format on */
#define N_ALIASES (sizeof aliases / sizeof *aliases)

#define N_OPTIONS (sizeof options / sizeof *options)
_Static_assert(N_OPTIONS <= SL_MAX_OPTIONS, "struct sl_settings");
static struct sl_option options_of[2][N_OPTIONS];

static struct sl_option_table tables[2] = {
    {
        .program = "coop_sage",
        .summary =
            "train graph neural networks by cooperative minibatches on a partitioned graph, as a StarPU task graph",
        .description =
            "coop_sage trains a graph neural network (--model) on the vertices of a graph: to classify them, or to "
            "answer sets of labels or numbers (--objective). The graph is cut into parts. The processing elements "
            "(PEs) of a group expand one minibatch together: each PE works on the vertices of its own part and gets "
            "the other rows from their owners. A step is a graph of StarPU tasks. Later minibatches are sampled "
            "while earlier minibatches compute.\n\n"
            "Scores are always measured with all in-neighbours, without sampling. The same seed gives the same "
            "losses for every partition and every number of workers.\n\n"
            "--save, --predict and --embed write the best epoch: the epoch with the best validation score "
            "(--best-by), the earliest of equals. If no score is defined they write the last evaluated epoch, and the "
            "last epoch if nothing was evaluated. An option with an "
            "empty value counts as not given.\n\n"
            "The first SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 or SIGXCPU finishes the step and saves. A second "
            "signal ends at once. The exit code is then 130 after SIGINT and 0 after the others. It is 1 after a "
            "failure, and 2 if an option is wrong.",
        .env_prefix = SL_ENVIRONMENT_PREFIX,
        .examples = coop_examples,
        .n_examples = N_NOTES(coop_examples),
        .files = coop_files,
        .n_files = N_NOTES(coop_files),
        .see_also = "pipe_gnn(1), starling_data(1), starling-data(5), mpirun(1)",
    },
    {
        .program = "pipe_gnn",
        .summary = "train deep graph neural networks on the full graph, chunks of it in flight between layers",
        .description =
            "pipe_gnn trains a graph neural network (--model, without attention) on all vertices of a graph in every "
            "epoch (GNNPipe). The graph is cut into chunks, and the layers are dealt to stages. A chunk enters the "
            "next layer as soon as its rows are there. For rows of later chunks it reads the rows of an earlier "
            "epoch (history).\n\n"
            "With as many ways as chunks no history is used, and training is exact. The number of stages and of "
            "workers changes no figure. The chunks and their order do.\n\n"
            "The first SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 or SIGXCPU finishes the epoch and saves. A second "
            "signal ends at once. The exit code is then 130 after SIGINT and 0 after the others. It is 1 after a "
            "failure, and 2 if an option is wrong.",
        .env_prefix = SL_ENVIRONMENT_PREFIX,
        .examples = pipe_examples,
        .n_examples = N_NOTES(pipe_examples),
        .files = pipe_files,
        .n_files = N_NOTES(pipe_files),
        .see_also = "coop_sage(1), starling_data(1), starling-data(5), mpirun(1)",
    }};

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    for (unsigned program = 0; program < 2; program++) {
        struct sl_option_table *table = &tables[program];
        table->n_options = sl_option_select(options, N_OPTIONS, 1U << program, options_of[program]);
        table->options = options_of[program];
        table->aliases = aliases;
        table->n_aliases = N_ALIASES;
        table->sibling = &tables[!program];
        table->stray = "dataset";
    }
}

const struct sl_option_table *sl_settings_table(enum sl_schedule_name program)
{
    pthread_once(&tables_once, fill_tables);
    return &tables[program];
}

const struct sl_option_table *sl_settings_table_of(const struct sl_settings *settings)
{
    return sl_settings_table((enum sl_schedule_name)settings->schedule);
}

enum sl_status sl_settings_init_pipe(struct sl_settings *settings)
{
    SL_CHECK(sl_settings_init(settings));
    sl_option_free(sl_settings_table(SL_SCHEDULE_MINIBATCH), settings);
    settings->schedule = SL_SCHEDULE_PIPE;
    return sl_option_defaults(sl_settings_table_of(settings), settings);
}

enum sl_status sl_settings_init(struct sl_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    return sl_option_defaults(sl_settings_table(SL_SCHEDULE_MINIBATCH), settings);
}

void sl_settings_free(struct sl_settings *settings)
{
    if (settings != NULL) {
        sl_option_free(sl_settings_table_of(settings), settings);
        if (settings->model_file != NULL) {
            sl_model_file_free(settings->model_file);
            sl_free(settings->model_file);
        }
        memset(settings, 0, sizeof *settings);
    }
}

/* ---- Checks of several options ---- */

/* A single number of a list stands for all layers. */
static void repeat(uint32_t n_layers, uint32_t *list, uint32_t *n)
{
    for (uint32_t l = 1; l < n_layers && *n == 1; l++) {
        list[l] = list[0];
    }
    if (*n == 1) {
        *n = n_layers;
    }
}

/* Without --layers, --layer-size or any --fanout but -1 says how many layers there are. */
static void derive_layers(struct sl_settings *s)
{
    const bool all = s->n_fanout == 1 && s->fanout[0] == SL_FANOUT_ALL;
    const uint32_t n_listed = s->n_layer_size > 0 ? s->n_layer_size : s->n_fanout;
    if (s->layers == 0) {
        s->layers = n_listed > 0 && !all ? n_listed : LAYERS;
    }
    repeat(s->layers, s->fanout, &s->n_fanout);
    repeat(s->layers, s->layer_size, &s->n_layer_size);
    repeat(s->layers, s->score_fanout, &s->n_score_fanout);
}

/* " VALUE" of an option; a flag has none. */
static void value_of(const struct sl_settings *s, const char *name, char *out, size_t bytes)
{
    out[0] = ' ';
    if (sl_settings_get(s, name, out + 1, bytes - 1) != SL_OK || strcmp(out, " yes") == 0) {
        out[0] = '\0';
    }
}

/* The model's sums read the relations of edges. */
static bool by_relation(const struct sl_settings *s)
{
    return s->model == SL_MODEL_RGCN || s->model == SL_MODEL_RGAT;
}

/* Attention without relations; any. */
static bool attends_alone(const struct sl_settings *s)
{
    return s->model == SL_MODEL_GAT || s->model == SL_MODEL_GATV2;
}
static bool attends(const struct sl_settings *s)
{
    return attends_alone(s) || s->model == SL_MODEL_RGAT;
}

/* Refuse an option beside another: "--norm layer cannot be used with --model resgcn: .." */
static enum sl_status check_pairs(const struct sl_settings *s)
{
    const bool begun = s->model == SL_MODEL_RESGCN || s->model == SL_MODEL_GCNII;
    const bool layers = sl_settings_by_layers(s);
    bool bounded = false;
    for (uint32_t l = 0; l < s->n_fanout; l++) {
        bounded = bounded || s->fanout[l] != SL_FANOUT_ALL;
    }
    const bool both = s->edge_weights == SL_EDGE_WEIGHTS_BOTH;
    const bool drawn = s->edge_weights == SL_EDGE_WEIGHTS_PROBABILITY;
    const bool featured = s->edge_features != SL_EDGE_FEATURES_NONE;
    const struct {
        bool found;
        const char *option, *other, *why;
    } pairs[] = {
        {s->relation_fanout != NULL && s->sampler == SL_SAMPLER_FULL, "relation-fanout", "sampler",
         "full takes all in-neighbours"},
        {s->relation_fanout != NULL && layers, "relation-fanout", "sampler", "use --layer-size"},
        {s->model == SL_MODEL_RESGCN && s->norm != SL_NORM_NONE, "norm", "model",
         "its layers already begin with a layer norm"},
        {begun && s->input_layer, "input-layer", "model", "the model already begins with such a layer"},
        {begun && s->output_layers > 0, "output-layers", "model", "the model already ends in such a layer"},
        {begun && s->residual, "residual", "model", "the model already has residuals"},
        {featured && s->bases > 0, "edge-features", "bases",
         "each relation has its own matrix for them; leave --bases out"},
        {featured && sl_settings_trains_links(s), "edge-features", "objective",
         "the training links are the graph, and have no features"},
        {both && s->model == SL_MODEL_RGAT, "edge-weights", "model",
         "rgat does not take both; use factor, probability or none"},
        {s->model == SL_MODEL_RGAT && sl_settings_weighs_sums(s) && (layers || s->labor_iterations > 0), "edge-weights",
         "model", "weights of the sample take their place; use none, or --sampler labor --labor-iterations 0"},
        {sl_settings_weighs_sums(s) && attends_alone(s), "edge-weights", "model",
         "attention weighs the edges; use probability or none"},
        {drawn && s->replace, "edge-weights", "replace", "draws in proportion to weights are without replacement"},
        {drawn && s->sampler == SL_SAMPLER_LABOR, "edge-weights", "sampler",
         "use --sampler neighbor, or --edge-weights both, which is weighted LABOR"},
        {drawn && s->sampler != SL_SAMPLER_NEIGHBOR, "edge-weights", "sampler", "use --sampler neighbor"},
        {layers && attends_alone(s), "sampler", "model", "it adds the vertex itself, which the sample does not weigh"},
        {layers && bounded, "fanout", "sampler", "use --layer-size"},
        {both && s->sampler != SL_SAMPLER_LABOR && !layers && s->epochs > 0, "edge-weights", "sampler",
         "use --sampler labor"},
        {s->kappa != 1 && s->replace, "kappa", "replace", "these draws do not change slowly"},
        {s->kappa != 1 && drawn, "kappa", "edge-weights", "these draws do not change slowly"},
        {s->labor_iterations > 0 && attends_alone(s), "labor-iterations", "model",
         "it adds the vertex itself, which the sample does not weigh"},
        {s->precision == SL_PRECISION_TF32 && s->gpus == 0, "precision", "gpus",
         "only GPUs round to tf32; use float or bf16"},
        {s->resume == SL_RESUME_YES && s->load != NULL, "resume", "load", "a checkpoint brings its own weights"},
        {s->patience > 0 && s->eval_every == 0, "patience", "eval-every", "evaluations decide when to stop"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i].found) {
            char value[100];
            char other[100];
            value_of(s, pairs[i].option, value, sizeof value);
            value_of(s, pairs[i].other, other, sizeof other);
            return sl_fail(SL_EINVAL, "--%s%s cannot be used with --%s%s: %s", pairs[i].option, value, pairs[i].other,
                           other, pairs[i].why);
        }
    }
    return SL_OK;
}

/* Sizes of layers take the place of fanouts. */
static enum sl_status check_layer_size(struct sl_settings *s)
{
    if (!sl_settings_by_layers(s)) {
        return SL_OK;
    }
    SL_FAIL_IF(s->n_layer_size == 0, SL_EINVAL,
               "--layer-size: expected numbers of vertices, one per layer, as --sampler draws whole layers");
    SL_FAIL_IF(s->n_layer_size != s->layers, SL_EINVAL,
               "--layer-size: found %u numbers, expected one per layer, and --layers is %u", s->n_layer_size,
               s->layers);
    if (s->n_fanout == 0) {
        s->n_fanout = s->layers;
        memset(s->fanout, 0xff, sizeof s->fanout); /* SL_FANOUT_ALL */
    }
    return SL_OK;
}

static enum sl_status check_fanout(struct sl_settings *s)
{
    if (s->n_fanout == 0) {
        for (uint32_t l = 0; l < s->layers; l++) {
            s->fanout[l] = FANOUT_PER_LAYER;
        }
        s->n_fanout = s->layers;
    }
    SL_FAIL_IF(s->n_fanout != s->layers, SL_EINVAL,
               "--fanout: found %u numbers, expected one per layer, and --layers is %u", s->n_fanout, s->layers);
    SL_FAIL_IF(s->n_score_fanout > 0 && s->n_score_fanout != s->layers, SL_EINVAL,
               "--score-fanout: found %u numbers, expected one per layer, and --layers is %u", s->n_score_fanout,
               s->layers);
    const struct sl_fanouts fanouts = sl_settings_fanouts(s);
    return sl_fanouts_check(&fanouts);
}

static enum sl_status check_model(const struct sl_settings *s)
{
    SL_FAIL_IF(attends(s) && s->hidden % s->heads != 0, SL_EINVAL,
               "--heads: found %u, expected a divisor of --hidden, which is %u", s->heads, s->hidden);
    SL_FAIL_IF(s->output_layers > 0 && sl_settings_hops(s) + s->output_layers >= SL_MAX_LAYERS, SL_EINVAL,
               "--output-layers: found %u, expected fewer than %d together with --layers, which is %u",
               s->output_layers, SL_MAX_LAYERS - sl_settings_trains_links(s), s->layers);
    SL_FAIL_IF(s->schedule == SL_SCHEDULE_PIPE && s->edge_weights == SL_EDGE_WEIGHTS_BOTH, SL_EINVAL,
               "--edge-weights both cannot be used with pipe_gnn, which does not sample; use factor or none");
    SL_FAIL_IF(s->schedule == SL_SCHEDULE_PIPE && s->edge_weights == SL_EDGE_WEIGHTS_PROBABILITY, SL_EINVAL,
               "--edge-weights probability cannot be used with pipe_gnn, which does not sample; use factor or none");
    return SL_OK;
}

/* What links do not go together with. */
static enum sl_status check_links(const struct sl_settings *s)
{
    SL_FAIL_IF(s->predict_vertices != NULL && s->predict == NULL, SL_EINVAL,
               "--predict-vertices: expected --predict, too: where to write the rows");
    if (!sl_settings_trains_links(s)) {
        return SL_OK;
    }
    SL_FAIL_IF(s->predict_vertices != NULL, SL_EINVAL,
               "--predict-vertices cannot be used with --objective link, whose scores are of --pairs");
    SL_FAIL_IF(s->schedule == SL_SCHEDULE_PIPE, SL_EINVAL,
               "--objective link cannot be used with pipe_gnn, which trains on vertices; use "
               "coop_sage");
    SL_FAIL_IF(s->layers >= SL_MAX_LAYERS, SL_EINVAL, "--layers: found %u, expected at most %d with --objective link",
               s->layers, SL_MAX_LAYERS - 1);
    SL_FAIL_IF(s->predict != NULL && s->pairs == NULL, SL_EINVAL,
               "--predict: expected --pairs, too, with --objective link: which scores to write");
    SL_FAIL_IF(s->pairs != NULL && s->predict == NULL, SL_EINVAL,
               "--pairs: expected --predict, too: where to write the scores");
    return SL_OK;
}

/* The largest group size that divides the PEs. */
static uint32_t largest_group(uint32_t pes)
{
    uint32_t n = SL_MAX_GROUP;
    while (pes % n != 0) {
        n--;
    }
    return n;
}

static enum sl_status check_groups(struct sl_settings *s)
{
    if (s->pes == 0) {
        return SL_OK; /* sl_session_open decides, then checks again */
    }
    if (s->group_size == 0) {
        SL_FAIL_IF(s->sync == SL_SYNC_ALLREDUCE && s->pes > SL_MAX_GROUP, SL_EINVAL,
                   "--group-size: found none with --pes %u, expected one, as a group has at most %d PEs; use "
                   "--group-size %u, or a smaller divisor of --pes",
                   s->pes, SL_MAX_GROUP, largest_group(s->pes));
        s->group_size = s->sync == SL_SYNC_ALLREDUCE ? s->pes : 1;
    }
    SL_FAIL_IF(s->group_size > s->pes || s->pes % s->group_size != 0, SL_EINVAL,
               "--group-size: found %u, expected a divisor of --pes, which is %u", s->group_size, s->pes);
    return SL_OK;
}

static enum sl_status check_gossip(const struct sl_settings *s)
{
    uint32_t n = s->pes == 0 ? 0 : s->pes / s->group_size;
    uint32_t local = s->gossip_local_size;
    if (s->sync == SL_SYNC_ALLREDUCE) {
        return SL_OK;
    }
    SL_FAIL_IF(n > 0 && n % local != 0, SL_EINVAL,
               "--gossip-local-size: found %u, expected a divisor of the replicas, which are %u", local, n);
    SL_FAIL_IF(s->sync == SL_SYNC_CUBE && n / local > 1 && n / local % 2 == 1, SL_EINVAL,
               "--sync: found cube with %u nodes (--pes / --group-size / --gossip-local-size), expected an even "
               "number; use dissemination",
               n / local);
    return SL_OK;
}

/* The ending of a file's name, ".csv"; "": none. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash != NULL ? slash + 1 : path, '.');
    return sl_text_or(dot, "");
}

bool sl_settings_predicts_csv(const struct sl_settings *settings)
{
    return settings->predict != NULL && strcasecmp(ending_of(settings->predict), ".csv") == 0;
}

/* Another ending would promise another format. A name without an ending, or a device, gets .npy. */
static enum sl_status check_ending(const struct sl_settings *s)
{
    const char *ending = s->predict != NULL ? ending_of(s->predict) : "";
    SL_FAIL_IF(ending[0] != '\0' && strcasecmp(ending, ".npy") != 0 && !sl_settings_predicts_csv(s), SL_EINVAL,
               "--predict: found '%.200s', expected a name that ends in .npy or .csv", s->predict);
    return SL_OK;
}

/* Hidden rows are .npy alone. */
static enum sl_status check_embed(const struct sl_settings *s)
{
    const char *ending = s->embed != NULL ? ending_of(s->embed) : "";
    SL_FAIL_IF(ending[0] != '\0' && strcasecmp(ending, ".npy") != 0, SL_EINVAL,
               "--embed: found '%.200s', expected a name that ends in .npy", s->embed);
    SL_FAIL_IF(s->embed != NULL && !sl_settings_embeds(s), SL_EINVAL,
               "--embed: found --layers 1, which has no hidden rows; expected at least 2 layers");
    return SL_OK;
}

static enum sl_status check_outputs(const struct sl_settings *s)
{
    SL_CHECK(check_ending(s));
    SL_CHECK(check_embed(s));
    SL_FAIL_IF(s->metrics_steps && s->metrics == NULL && !s->json, SL_EINVAL,
               "--metrics-steps: expected --metrics FILE or --json with it, to say where they go");
    return SL_OK;
}

bool sl_settings_trace_steps(const struct sl_settings *s, uint64_t *first_out, uint64_t *last_out)
{
    if (s->trace_steps == NULL) {
        return false;
    }
    const char *end = s->trace_steps + strlen(s->trace_steps);
    const char *colon = sl_number_u64(s->trace_steps, end, first_out);
    if (colon == NULL || *colon != ':' || sl_number_u64(colon + 1, end, last_out) != end) {
        return false;
    }
    return *first_out <= *last_out;
}

static enum sl_status check_trace(const struct sl_settings *s)
{
    uint64_t first;
    uint64_t last;
    SL_FAIL_IF(s->trace_steps != NULL && !sl_settings_trace_steps(s, &first, &last), SL_EINVAL,
               "--trace-steps: found '%.100s', expected FIRST:LAST, two steps counted from 0, such as 10:14",
               s->trace_steps);
    return SL_OK;
}

const char *sl_settings_path(const struct sl_settings *settings, const struct sl_option *option)
{
    if (!option->written) {
        return NULL;
    }
    return *(char *const *)(const void *)((const char *)settings + option->offset);
}

/* Refuse "-", which the user most likely did not mean as a file's name, and a file that two options write. */
static enum sl_status check_written(const struct sl_settings *s)
{
    const struct sl_option_table *table = sl_settings_table_of(s);
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        const char *path = sl_settings_path(s, option);
        SL_FAIL_IF(path != NULL && strcmp(path, "-") == 0, SL_EINVAL,
                   "--%s: found '-', expected a name; only --metrics goes to standard output (./- is a file of "
                   "that name)",
                   option->name);
        bool is_file = path != NULL && strcmp(option->argument, "FILE") == 0 && strncmp(path, "/dev/", 5) != 0;
        for (size_t j = 0; is_file && j < i; j++) {
            const struct sl_option *before = &table->options[j];
            const char *other = sl_settings_path(s, before);
            SL_FAIL_IF(other != NULL && strcmp(other, path) == 0, SL_EINVAL,
                       "--%s: found '%.200s', which --%s writes too; expected another file", option->name, path,
                       before->name);
        }
    }
    return SL_OK;
}

/* `--metrics -` means --json. */
static void name_standard_output(struct sl_settings *s)
{
    if (s->metrics != NULL && strcmp(s->metrics, "-") == 0) {
        sl_free(s->metrics);
        s->metrics = NULL;
        s->json = true;
    }
}

static enum sl_status check_stages(struct sl_settings *s)
{
    if (s->stages == 0) {
        s->stages = s->layers > 1 ? 2 : 1;
        if (s->n_stages_cut > 0) {
            s->stages = s->n_stages_cut + 1;
        }
    }
    SL_FAIL_IF(s->stages > s->layers, SL_EINVAL,
               "--stages: found %u, expected at most one for each layer, and --layers is %u", s->stages, s->layers);
    SL_FAIL_IF(s->n_stages_cut > 0 && s->n_stages_cut + 1 != s->stages, SL_EINVAL,
               "--stages-cut: found %u number%s, expected %u, one for each of --stages %u but the first",
               s->n_stages_cut, s->n_stages_cut == 1 ? "" : "s", s->stages - 1, s->stages);
    for (uint32_t k = 0; k < s->n_stages_cut; k++) {
        uint32_t before = k > 0 ? s->stages_cut[k - 1] : 0;
        SL_FAIL_IF(s->stages_cut[k] <= before || s->stages_cut[k] >= s->layers, SL_EINVAL,
                   "--stages-cut: found %u, expected layers in ascending order, from 1 to %u", s->stages_cut[k],
                   s->layers - 1);
    }
    return SL_OK;
}

static enum sl_status check_pipe(struct sl_settings *s)
{
    SL_CHECK(check_stages(s));
    uint32_t n_chunks = s->graph_chunks > 0 ? s->graph_chunks : 4 * s->stages * s->ways;
    SL_FAIL_IF(by_relation(s), SL_EINVAL, "--model %s cannot be used with pipe_gnn, which has no relations of edges",
               s->model == SL_MODEL_RGAT ? "rgat" : "rgcn");
    SL_FAIL_IF(attends(s), SL_EINVAL,
               "--model %s cannot be used with pipe_gnn, which cannot compute attention in chunks",
               s->model == SL_MODEL_GAT ? "gat" : "gatv2");
    SL_FAIL_IF(s->norm == SL_NORM_BATCH, SL_EINVAL,
               "--norm batch cannot be used with pipe_gnn, which cannot compute a norm over all vertices in chunks");
    SL_FAIL_IF(n_chunks > SL_MAX_PARTS || n_chunks % s->ways != 0, SL_EINVAL,
               "--chunks: found %u with --stages %u and --ways %u, expected a multiple of the ways, at most %d",
               n_chunks, s->stages, s->ways, SL_MAX_PARTS);
    SL_FAIL_IF(s->gradient_factor != 1 && s->gradient_factor != 2, SL_EINVAL,
               "--gradient-factor: found %g, expected 1 or 2", s->gradient_factor);
    return SL_OK;
}

static enum sl_status check_split(const struct sl_settings *s)
{
    struct sl_random_split rule;
    return sl_random_split_parse(s->split, s->seed, &rule);
}

/* Values may be in any case. The text becomes the one that checkpoints compare. */
static enum sl_status check_rate(char *schedule)
{
    if (schedule != NULL && strcasecmp(schedule, "constant") == 0) {
        strcpy(schedule, "none");
    }
    SL_FAIL_IF(sl_rate_of(schedule).kind == SL_RATE_UNKNOWN, SL_EINVAL,
               "--lr-schedule: found '%.100s', expected none, cosine, step or step:N:X, times X (above 0, at most 1) "
               "after each N epochs: step:30:0.5",
               schedule);
    for (char *p = schedule; p != NULL && *p != '\0'; p++) {
        *p = (char)tolower((unsigned char)*p);
    }
    return SL_OK;
}

enum sl_status sl_settings_check(struct sl_settings *settings)
{
    name_standard_output(settings);
    SL_CHECK(sl_option_check(sl_settings_table_of(settings), settings));
    derive_layers(settings);
    SL_CHECK(sl_option_check_needs(sl_settings_table_of(settings), settings));
    if (settings->schedule == SL_SCHEDULE_PIPE) {
        SL_CHECK(check_pipe(settings));
    }
    SL_CHECK(check_layer_size(settings));
    SL_CHECK(check_fanout(settings));
    SL_CHECK(check_model(settings));
    SL_CHECK(check_links(settings));
    SL_CHECK(check_pairs(settings));
    SL_CHECK(check_split(settings));
    SL_CHECK(check_rate(settings->lr_schedule));
    SL_CHECK(check_groups(settings));
    SL_CHECK(check_gossip(settings));
    SL_CHECK(check_outputs(settings));
    SL_CHECK(check_trace(settings));
    return check_written(settings);
}

/* ---- by name ---- */

static enum sl_status make(enum sl_status (*init)(struct sl_settings *), struct sl_settings **out)
{
    SL_FREED struct sl_settings *settings = NULL;
    *out = NULL;
    SL_CHECK(sl_alloc_zero(1, sizeof *settings, "settings", &settings));
    SL_CHECK(init(settings));
    *out = settings;
    settings = NULL;
    return SL_OK;
}

enum sl_status sl_settings_new(struct sl_settings **out)
{
    SL_IN_C_LOCALE;
    return make(sl_settings_init, out);
}

enum sl_status sl_settings_new_pipe(struct sl_settings **out)
{
    SL_IN_C_LOCALE;
    return make(sl_settings_init_pipe, out);
}

void sl_settings_delete(struct sl_settings *settings)
{
    if (settings != NULL) {
        sl_settings_free(settings);
        sl_free(settings);
    }
}

enum sl_status sl_settings_set(struct sl_settings *settings, const char *name, const char *value)
{
    SL_IN_C_LOCALE;
    const struct sl_option_table *table = sl_settings_table_of(settings);
    SL_CHECK(sl_option_set(table, name, value, settings));
    const size_t i = (size_t)(sl_option_find(table, name) - table->options);
    settings->given[i] = true;
    settings->adopted[i] = false;
    return SL_OK;
}

enum sl_status sl_settings_get(const struct sl_settings *settings, const char *name, char *text, size_t bytes)
{
    SL_IN_C_LOCALE;
    SL_FREED char *value = NULL;
    SL_CHECK(sl_option_get(sl_settings_table_of(settings), name, settings, &value));
    snprintf(text, bytes, "%s", value);
    return SL_OK;
}

static const char *kind_name(enum sl_option_kind kind)
{
    switch (kind) {
    case SL_OPTION_FLAG: return "flag";
    case SL_OPTION_U32: return "whole";
    case SL_OPTION_U64: return "long";
    case SL_OPTION_REAL: return "real";
    case SL_OPTION_STRING: return "text";
    case SL_OPTION_CHOICE: return "choice";
    case SL_OPTION_U32_LIST: return "list";
    }
    return "text";
}

enum sl_status sl_settings_list(const struct sl_settings *settings, uint32_t index, struct sl_option_news *news)
{
    SL_IN_C_LOCALE;
    const struct sl_option_table *table = sl_settings_table_of(settings);
    size_t size = news->size;
    SL_FAIL_IF(size == 0, SL_EINVAL, "sl_settings_list: found a size of 0, expected sizeof(struct sl_option_news)");
    SL_FAIL_IF(index >= table->n_options, SL_ENOTFOUND, "%s has %zu options, found index %u", table->program,
               table->n_options, index);
    const struct sl_option *o = &table->options[index];
    const struct sl_option_news all = {.size = size,
                                       .name = o->name,
                                       .group = o->group,
                                       .kind = kind_name(o->kind),
                                       .choices = o->choices,
                                       .initial = o->initial,
                                       .shown = o->shown,
                                       .word = o->word,
                                       .help = o->help,
                                       .min = o->min,
                                       .max = o->max,
                                       .common = o->common,
                                       .of_model = o->of_model,
                                       .of_data = o->of_data};
    memcpy(news, &all, size < sizeof all ? size : sizeof all);
    return SL_OK;
}

const char *sl_version(void)
{
    return PACKAGE_VERSION;
}
