/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * starling_data: look at datasets, generate, split and partition them. One function per command; data/ and
 * partition/ do the work. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/program.h"
#include "config.h"
#include "data/generate/generate.h"
#include "data/load.h"
#include "data/names.h"
#include "data/random_split.h"
#include "data/raw.h"
#include "data/reader.h"
#include "data/statistics.h"
#include "partition/partition.h"
#include "runtime/files/checkpoint.h"
#include "runtime/machine/limits.h"
#include "runtime/plan/model_file.h"
#include "runtime/plan/settings.h"
#include "runtime/report/info.h"
#include "runtime/starling.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/lines.h"
#include "support/memory.h"
#include "support/option.h"
#include "support/safetensors.h"
#include "support/text.h"
#include "tasks/ranks.h"

/* The options of all commands. Each command's table lists its options. */
struct settings {
    struct sl_settings run; /* the options that coop_sage has, too */
    char *dataset;          /* the positional argument */
    bool links;             /* split: of links */
    /* output */
    char *out;
    /* generate */
    uint32_t vertices;
    uint64_t edges;
    uint32_t n_features;
    uint32_t classes;
    double homophily;
    bool sparse;
    uint64_t seed;
    /* partition */
    uint32_t parts;
    int method; /* enum sl_partition_method */
};
_Static_assert(offsetof(struct settings, run) == 0, "run is first");

/* ---- Options ----------------------------------------------------------------------------------------------------- */

#define MOST_NAMES 20 /* of classes that info prints */
#define MOST_OPTIONS 16
#define FIELD(name) offsetof(struct settings, name)
#define N_OPTIONS(table) (sizeof(table) / sizeof *(table))

/* clang-format off */
#define SEED_OPTION(name_of_group, text)                                                                               \
    {.name = "seed", .group = name_of_group, .kind = SL_OPTION_U64, .offset = FIELD(seed), .initial = "1",             \
     .argument = "N", .help = text}

#define DATA_OPTIONS                                                                                                   \
    {.name = "split", .group = "data", .kind = SL_OPTION_STRING, .offset = FIELD(run.split),                           \
     .shown = "the only split of the dataset", .argument = "NAME|random:N,N,N",                                        \
     .help = "Split into training, validation and test vertices. random:60,20,20 draws one, as for --seed 1"},         \
    {.name = "features", .group = "data", .kind = SL_OPTION_STRING, .offset = FIELD(run.features),                     \
     .shown = "the dataset's own", .argument = "FILE|none|degree|onehot|random:N",                                     \
     .help = "Feature file, relative to the dataset's folder, or made features. degree: ln(1 + in-degree). "           \
             "onehot: the vertex. random:N: N normal numbers"}

static const struct sl_option info_options[] = {DATA_OPTIONS};

static const struct sl_option generate_options[] = {
    {.name = "vertices", .group = "graph", .kind = SL_OPTION_U32, .offset = FIELD(vertices),
     .shown = "NAME's, else 10000", .min = 1, .argument = "N",
     .help = "Vertices; of a typed dataset, papers, and the rest in proportion"},
    {.name = "edges", .group = "graph", .kind = SL_OPTION_U64, .offset = FIELD(edges),
     .shown = "as many per vertex as NAME has, else 7", .argument = "N",
     .help = "Directed edges, before their reverses are added"},
    {.name = "features", .group = "graph", .kind = SL_OPTION_U32, .offset = FIELD(n_features),
     .shown = "NAME's, else 64", .min = 1, .argument = "N", .help = "Features per vertex"},
    {.name = "classes", .group = "graph", .kind = SL_OPTION_U32, .offset = FIELD(classes),
     .shown = "NAME's, else 8", .min = 1, .argument = "N", .help = "Classes, of unequal sizes"},
    {.name = "homophily", .group = "graph", .kind = SL_OPTION_REAL, .offset = FIELD(homophily),
     .shown = "NAME's, else 0.65", .max = 1, .argument = "X",
     .help = "Approximate fraction of the edges within a class"},
    {.name = "sparse", .group = "graph", .kind = SL_OPTION_FLAG, .offset = FIELD(sparse),
     .help = "Features are bags of words, nearly all of them zero"},
    SEED_OPTION("graph", "Equal seeds give equal graphs"),
    {.name = "out", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(out), .argument = "DIR",
     .help = "Folder to write, in OGB's raw layout; required. Its name is the dataset's name"},
};

static const struct sl_option partition_options[] = {
    DATA_OPTIONS,
    {.name = "parts", .group = "partition", .kind = SL_OPTION_U32, .offset = FIELD(parts), .initial = "4", .min = 1,
     .max = 65535, .argument = "N", .help = "Parts"},
    {.name = "method", .group = "partition", .kind = SL_OPTION_CHOICE, .offset = FIELD(method),
     .choices = "metis,random,none,stream", .initial = "metis",
     .help = "How the graph is cut into parts. none: equal ranges of the dataset's order. "
             "stream: METIS cuts clusters of vertices, for large graphs"},
    SEED_OPTION("partition", "Equal seeds give equal parts"),
    {.name = "out", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(out), .argument = "FILE",
     .help = "Write the part of each vertex, one a line, as METIS does"},
};

static const struct sl_option split_options[] = {
    {.name = "links", .group = "split", .kind = SL_OPTION_FLAG, .offset = FIELD(links),
     .help = "Split the edges, as links, instead of the vertices"},
    SEED_OPTION("split", "Equal seeds give equal splits: those of coop_sage --seed N"),
    {.name = "out", .group = "output", .kind = SL_OPTION_STRING, .offset = FIELD(out), .argument = "DIR|FILE.csv",
     .help = "Folder for train.csv, valid.csv and test.csv, or a table of vertices: id,split; required"},
};
/* clang-format on */

enum { COMMAND_INFO, COMMAND_GENERATE, COMMAND_PARTITION, COMMAND_SPLIT, N_COMMANDS };

/* The options that a command shares with coop_sage, and its own. */
static const struct {
    const char *shared[MOST_OPTIONS];
    const struct sl_option *own;
    size_t n_own;
} tables[N_COMMANDS] = {
    [COMMAND_INFO] = {{"data-path", "directed", "normalize-features", "cache"}, info_options, N_OPTIONS(info_options)},
    [COMMAND_GENERATE] = {{NULL}, generate_options, N_OPTIONS(generate_options)},
    [COMMAND_PARTITION] = {{"data-path", "directed", "cache"}, partition_options, N_OPTIONS(partition_options)},
    [COMMAND_SPLIT] = {{"data-path", "directed", "cache"}, split_options, N_OPTIONS(split_options)},
};

static struct sl_option rows[N_COMMANDS][MOST_OPTIONS];

static struct sl_option_table commands[N_COMMANDS] = {
    {.program = "starling_data",
     .command = "info",
     .summary = "Describe a dataset or a model; without either, this build and this machine",
     .description = "Under mpirun, the command lists the ranks, the machine of each rank, and the cores, memory and "
                    "GPUs that the rank may use.",
     .arguments = "[DATASET|MODEL]",
     .max_arguments = 1,
     .env_prefix = SL_ENVIRONMENT_PREFIX},
    {.program = "starling_data",
     .command = "generate",
     .summary = "Make a synthetic dataset",
     .description =
         "NAME is arxiv-synthetic, products-synthetic or mag-synthetic. The options below change single properties of "
         "the graph; of mag-synthetic, which has several types of vertices, the properties of its papers. Without "
         "NAME, the command makes a small graph.",
     .arguments = "[NAME]",
     .max_arguments = 1},
    {.program = "starling_data",
     .command = "partition",
     .summary = "Cut a graph into parts, and print the cut and the balance",
     .description = "DATASET is a name on the data path, a folder or a file.",
     .arguments = "DATASET",
     .min_arguments = 1,
     .max_arguments = 1,
     .env_prefix = SL_ENVIRONMENT_PREFIX},
    {.program = "starling_data",
     .command = "split",
     .summary = "Draw a split of the vertices or of the links, and write it",
     .description =
         "random:60,20,20 are the percentages of training, validation and test. The lists have the numbers of the "
         "vertices; in a typed dataset, within their types. DATASET/split/NAME is a folder for them. A table has the "
         "ids of nodes.csv, for its column split.",
     .arguments = "DATASET random:N,N,N",
     .min_arguments = 2,
     .max_arguments = 2,
     .env_prefix = SL_ENVIRONMENT_PREFIX},
};

static void fill_tables(void)
{
    const struct sl_option_table *coop_sage = sl_settings_table(SL_SCHEDULE_MINIBATCH);
    for (int c = 0; c < N_COMMANDS; c++) {
        size_t n = 0;
        for (; tables[c].shared[n] != NULL; n++) {
            rows[c][n] = *sl_option_find(coop_sage, tables[c].shared[n]);
        }
        for (size_t i = 0; i < tables[c].n_own; i++) {
            rows[c][n++] = tables[c].own[i];
        }
        commands[c].options = rows[c];
        commands[c].n_options = n;
    }
}

static const struct sl_option_note files[] = {
    {"DIR/raw, DIR/split",
     "A dataset in OGB's raw layout: edges, features, labels; the split into training, validation and test vertices."},
    {"FILE.safetensors, DIR/edges.csv", "Datasets in other forms: starling-data(5)."},
    {"DIR/starling-cache", "Binary copies of the dataset and its partitions. --cache names another folder."},
    {"~/.cache/starling", "The same, if the dataset's folder is read-only."},
    {"~/.local/share/starling", "The last folder of the default data path."},
};

static const struct sl_option_note examples[] = {
    {"starling_data info", "Describe this build and this machine."},
    {"starling_data info ./mine", "Describe the dataset in the folder mine."},
    {"starling_data info model.safetensors", "Describe a saved model, or a checkpoint."},
    {"starling_data generate --vertices 2000 --edges 12000 --features 32 --classes 5 --out mine",
     "Make a small dataset in the folder mine."},
    {"starling_data partition ./mine --parts 8 --out parts.txt",
     "Cut the graph into 8 parts, print the cut and the balance, and write the part of each vertex."},
    {"starling_data split ./mine random:60,20,20 --out ./mine/split/random",
     "Draw a split of the vertices, and add it to the dataset."},
};

static const struct sl_option_table overview = {
    .program = "starling_data",
    .summary = "Look at datasets, generate, split and partition them",
    .commands = commands,
    .n_commands = N_COMMANDS,
    .examples = examples,
    .n_examples = N_OPTIONS(examples),
    .files = files,
    .n_files = N_OPTIONS(files),
    .see_also = "coop_sage(1), pipe_gnn(1), starling-data(5), gpmetis(1)",
};

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static struct sl_dataset_options options_of(const struct settings *settings)
{
    return (struct sl_dataset_options){.dataset = settings->dataset,
                                       .data_path = settings->run.data_path,
                                       .split = settings->run.split,
                                       .features = settings->run.features,
                                       .feature_seed = 1,
                                       .split_seed = 1,
                                       .cache = settings->run.cache,
                                       .need = SL_RAW_FOR_LOOKS,
                                       .directed = settings->run.directed,
                                       .normalize = (enum sl_normalize)settings->run.normalize_features,
                                       .seed = 1,
                                       .outputs = {settings->out}};
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* End all ranks if a collective step failed on this rank: the others would wait for its messages. */
static enum sl_status end_all_if_failed(enum sl_status st)
{
    if (st != SL_OK && sl_process_count() > 1) {
        fprintf(stderr, "starling_data: rank %u: %s\n", sl_process_number(), sl_message());
        fflush(stderr);
        sl_process_abort(EXIT_FAILED);
    }
    return st;
}

/* ---- info -------------------------------------------------------------------------------------------------------- */

/* The classes that no vertex has, n of them. */
static enum sl_status print_missing(const struct sl_targets *targets, uint32_t n)
{
    SL_FREED bool *seen = NULL;
    SL_CHECK(sl_alloc_zero(targets->n_classes, sizeof *seen, "classes", &seen));
    for (uint32_t v = 0; v < targets->n_rows; v++) {
        if (targets->classes[v] >= 0) {
            seen[targets->classes[v]] = true;
        }
    }
    printf("labels      0 to %u; a model counts the classes that no vertex has, too:", targets->n_classes - 1);
    for (uint32_t c = 0, k = 0; c < targets->n_classes && k < MOST_NAMES; c++) {
        if (!seen[c]) {
            printf("%s %u", k++ == 0 ? "" : ",", c);
        }
    }
    if (n > MOST_NAMES) {
        printf(", and %u more", n - MOST_NAMES);
    }
    printf("\n");
    return SL_OK;
}

static enum sl_status print_targets(const struct sl_dataset *dataset, const struct sl_statistics *statistics)
{
    const struct sl_targets *targets = &dataset->targets;
    if (targets->type != SL_TARGET_CLASS) {
        printf("%s     %u a vertex; %u vertices without any\n", sl_targets_are_labels(targets) ? "labels " : "numbers",
               targets->width, dataset->graph.n_vertices - statistics->n_labelled);
        return SL_OK;
    }
    printf("classes     %u, of %u to %u vertices; %u vertices without a label\n", statistics->n_classes,
           statistics->smallest_class, statistics->largest_class, dataset->graph.n_vertices - statistics->n_labelled);
    if (statistics->n_classes < targets->n_classes) {
        return print_missing(targets, targets->n_classes - statistics->n_classes);
    }
    return SL_OK;
}

/* Names, a line each, on one line. numbered: with their numbers. */
static void print_list(const char *label, const char *names, bool numbered)
{
    uint32_t n = 0;
    if (names == NULL) {
        return;
    }
    printf("%-11s ", label);
    for (const char *name = names; *name != '\0'; n++) {
        const size_t length = strcspn(name, "\n");
        if (n < MOST_NAMES) {
            printf("%s", n > 0 ? ", " : "");
            if (numbered) {
                printf("%u ", n);
            }
            printf("%.*s", (int)length, name);
        }
        name += length;
        name += *name != '\0';
    }
    if (n > MOST_NAMES) {
        printf(", and %u more", n - MOST_NAMES);
    }
    printf("\n");
}

static void print_weights(const struct sl_graph *graph)
{
    const float *weights = graph->weights;
    float least = FLT_MAX;
    float most = 0;
    double sum = 0;
    if (graph->n_relations > 0) {
        printf("relations   %u\n", graph->n_relations);
    }
    for (uint64_t e = 0; weights != NULL && e < graph->n_edges; e++) {
        least = fminf(least, weights[e]);
        most = fmaxf(most, weights[e]);
        sum += (double)weights[e];
    }
    if (weights != NULL && graph->n_edges > 0) {
        printf("weights     of edges: %.3g to %.3g, mean %.3g\n", (double)least, (double)most,
               sum / (double)graph->n_edges);
    }
}

static enum sl_status print_dataset(const struct sl_dataset *dataset, const struct sl_statistics *statistics)
{
    const struct sl_graph *graph = &dataset->graph;
    const struct sl_features *features = &dataset->features;
    double n_values = (double)features->n_rows * features->n_columns;
    printf("dataset     %s%s\n", dataset->name, dataset->synthetic ? " (generated)" : "");
    printf("vertices    %u, %u of them without an in-edge\n", graph->n_vertices, statistics->n_isolated);
    printf("edges       %llu directed, %llu of them self loops\n", (unsigned long long)graph->n_edges,
           (unsigned long long)statistics->n_self_loops);
    print_weights(graph);
    printf("in-degree   mean %.2f, largest %llu\n",
           graph->n_vertices > 0 ? (double)graph->n_edges / graph->n_vertices : 0,
           (unsigned long long)statistics->max_in_degree);
    if (features->n_columns > 0) {
        printf("features    %u, %s %s, %.2f %% non-zero, largest magnitude %.3g\n", features->n_columns,
               features->offsets != NULL ? "CSR" : "dense", sl_dtype_name(sl_features_dtype(features)),
               n_values > 0 ? 100 * (double)statistics->n_nonzeros / n_values : 0, (double)dataset->range.largest[0]);
    } else {
        printf("features    none\n");
    }
    const enum sl_status st = print_targets(dataset, statistics);
    print_list("names", dataset->class_names, true);
    printf("split       %s: train %u, valid %u, test %u\n", dataset->split[0] != '\0' ? dataset->split : "none",
           dataset->train.n, dataset->valid.n, dataset->test.n);
    printf("homophily   %.4f\n", statistics->homophily);
    return st;
}

static void print_fact(const struct sl_model_file *file, const char *label, const char *key)
{
    const char *text = sl_model_file_text(file, key);
    if (text != NULL) {
        printf("%-11s %s\n", label, text);
    }
}

/* The options of the model that are not a default of coop_sage. */
static enum sl_status print_options(const struct sl_model_file *file)
{
    struct sl_settings *settings;
    const char *between = "options     ";
    SL_CHECK(sl_settings_new(&settings));
    for (uint32_t i = 0; i < file->tensors.n_metadata; i++) {
        const struct sl_metadata *entry = &file->tensors.metadata[i];
        char usual[256];
        if (strncmp(entry->key, SL_KEY_OPTION, strlen(SL_KEY_OPTION)) == 0) {
            const char *name = entry->key + strlen(SL_KEY_OPTION);
            const bool known = sl_settings_get(settings, name, usual, sizeof usual) == SL_OK;
            if (known && strcmp(usual, entry->value) != 0) {
                printf("%s--%s %s", between, name, entry->value);
                between = " ";
            }
        }
    }
    printf("%s", between[1] == '\0' ? "\n" : "");
    sl_settings_delete(settings);
    return SL_OK;
}

/* Describe a model or a checkpoint. */
static enum sl_status print_model(const char *path)
{
    SL_OWNED(sl_model_file_free) struct sl_model_file file = {0};
    uint64_t bytes = 0;
    SL_CHECK(sl_model_file_read(path, &file));
    for (uint32_t i = 0; i < file.tensors.n; i++) {
        bytes += sl_tensor_bytes(&file.tensors.tensors[i]);
    }
    printf("file        a model%s, %u arrays, %llu bytes\n", sl_is_checkpoint(&file.tensors) ? " in a checkpoint" : "",
           file.tensors.n, (unsigned long long)bytes);
    sl_model_file_warn(&file);
    printf("model       %s\n", sl_text_or(sl_model_file_option(&file, "model"), "unknown"));
    print_fact(&file, "trained by", SL_KEY_PROGRAM);
    print_fact(&file, "dataset", "dataset");
    print_fact(&file, "objective", SL_KEY_OBJECTIVE);
    print_fact(&file, "features", SL_KEY_FEATURES);
    print_fact(&file, "outputs", SL_KEY_OUTPUTS);
    if (file.scaling.n > 0) {
        printf("normalized  with the means and deviations of %u columns\n", file.scaling.n);
    }
    print_list("classes", sl_model_file_text(&file, SL_KEY_CLASSES), false);
    print_list("relations", sl_model_file_text(&file, SL_KEY_RELATIONS), false);
    print_list("types", sl_model_file_text(&file, SL_KEY_TYPES), false);
    return print_options(&file);
}

/* Whether a file is a model: a safetensors file without edges. */
static bool is_model(const char *path)
{
    SL_OWNED(sl_tensors_free) struct sl_tensors tensors = {0};
    if (!sl_file_exists(path) || sl_safetensors_map(path, &tensors) != SL_OK) {
        return false;
    }
    return sl_tensors_find(&tensors, "edge_index") == NULL &&
           (sl_tensors_metadata(&tensors, SL_KEY_VERSION) != NULL || sl_is_checkpoint(&tensors) ||
            sl_tensors_metadata(&tensors, SL_KEY_OPTION "model") != NULL);
}

static enum sl_status run_info(const struct settings *settings)
{
    SL_OWNED(sl_dataset_free) struct sl_dataset dataset = {0};
    struct sl_statistics statistics;
    if (settings->dataset == NULL) {
        return end_all_if_failed(sl_info_print(stdout));
    }
    if (is_model(settings->dataset)) {
        return end_all_if_failed(print_model(settings->dataset));
    }
    const struct sl_dataset_options options = options_of(settings);
    SL_CHECK(sl_dataset_load(&options, &dataset));
    SL_CHECK(sl_statistics_count(&dataset, &statistics));
    return print_dataset(&dataset, &statistics);
}

/* ---- generate ---------------------------------------------------------------------------------------------------- */

static const struct sl_recipe small = {.name = "synthetic",
                                       .split = "random",
                                       .n_vertices = 10000,
                                       .n_edges = 70000,
                                       .n_features = 64,
                                       .n_classes = 8,
                                       .homophily = 0.65,
                                       .n_train = 6000,
                                       .n_valid = 2000,
                                       .n_test = 2000};

static bool is_given(const struct sl_option_table *table, const struct sl_option_parse *parse, const char *name)
{
    return parse->sources[sl_option_find(table, name) - table->options] != SL_FROM_DEFAULT;
}

/* Apply the command line to the recipe of NAME. */
static void change_recipe(const struct settings *settings, const struct sl_option_parse *parse,
                          struct sl_recipe *recipe)
{
    const struct sl_option_table *table = &commands[COMMAND_GENERATE];
    if (is_given(table, parse, "vertices")) {
        sl_recipe_scale(recipe, settings->vertices);
    }
    if (is_given(table, parse, "edges")) {
        recipe->n_edges = settings->edges;
    }
    if (is_given(table, parse, "features")) {
        recipe->n_features = settings->n_features;
    }
    if (is_given(table, parse, "classes")) {
        recipe->n_classes = settings->classes;
    }
    if (is_given(table, parse, "homophily")) {
        recipe->homophily = settings->homophily;
    }
    recipe->sparse = settings->sparse;
    recipe->seed = settings->seed;
}

static enum sl_status run_generate(const struct settings *settings, const struct sl_option_parse *parse)
{
    struct sl_recipe recipe = small;
    SL_OWNED(sl_raw_free) struct sl_raw raw = {0};
    SL_FAIL_IF(settings->dataset != NULL && !sl_recipe_find(settings->dataset, &recipe), SL_EINVAL,
               "the generator does not know '%s'; it knows %s", settings->dataset, sl_recipe_names);
    change_recipe(settings, parse, &recipe);
    SL_CHECK(sl_generate(&recipe, &raw));
    return sl_recipe_write(&recipe, &raw, settings->out);
}

/* ---- partition --------------------------------------------------------------------------------------------------- */

static void print_partition(const struct settings *settings, const struct sl_dataset *dataset,
                            const struct sl_partition *partition, double seconds)
{
    static const char *const methods[] = {"metis", "random", "none", "stream"};
    static const char *const weights[] = {"vertices", "in-edges", "train", "valid"};
    uint64_t n_edges = dataset->graph.n_edges;
    printf("dataset     %s\n", dataset->name);
    printf("partition   %s, %u %s, %.2f s\n", methods[settings->method], partition->n_parts,
           sl_noun(partition->n_parts, "part", "parts"), seconds);
    printf("cut         %llu of %llu directed edges\n", (unsigned long long)partition->n_cut,
           (unsigned long long)n_edges);
    printf("cross-edge  %.4f\n", n_edges > 0 ? (double)partition->n_cut / (double)n_edges : 0);
    for (int i = 0; i < 4; i++) {
        printf("balance     %-8s  %.4f\n", weights[i], partition->balance[i]);
    }
}

static enum sl_status write_parts(const char *path, const struct sl_partition *partition)
{
    uint32_t n = partition->graph.n_vertices;
    struct sl_writer writer;
    SL_CHECK(sl_writer_open(path, &writer));
    for (uint32_t v = 0; v < n; v++) {
        fprintf(writer.stream, "%u\n", sl_partition_owner(partition->first, partition->n_parts, partition->new_ids[v]));
    }
    return sl_writer_close(&writer);
}

static enum sl_status run_partition(const struct settings *settings)
{
    SL_OWNED(sl_dataset_free) struct sl_dataset dataset = {0};
    SL_OWNED(sl_partition_free) struct sl_partition partition = {0};
    const struct sl_dataset_options options = options_of(settings);
    const struct sl_partition_rule rule = {
        .method = (enum sl_partition_method)settings->method, .n_parts = settings->parts, .seed = settings->seed};
    SL_CHECK(sl_dataset_load(&options, &dataset));
    double start = sl_clock_s();
    SL_CHECK(sl_partition_make(&dataset, &rule, &partition));
    print_partition(settings, &dataset, &partition, sl_clock_s() - start);
    if (settings->out != NULL) {
        SL_CHECK(write_parts(settings->out, &partition));
    }
    return SL_OK;
}

/* ---- split ------------------------------------------------------------------------------------------------------- */

/* The first vertex of the type of a list: files number the vertices of each type from 0. */
static sl_vertex first_of(const struct sl_dataset *dataset, const struct sl_ids *ids)
{
    const uint32_t n = dataset->graph.n_relations / (dataset->directed ? 1 : 2);
    for (uint32_t r = 0; dataset->ends != NULL && ids->n > 0 && r < n; r++) {
        for (int end = 0; end < 2; end++) {
            const struct sl_link_ends *ends = &dataset->ends[r];
            if (ids->ids[0] >= ends->first[end] && ids->ids[0] - ends->first[end] < ends->n[end]) {
                return ends->first[end];
            }
        }
    }
    return 0;
}

static void put_vertices(FILE *stream, const struct sl_dataset *dataset, int list)
{
    const struct sl_ids *ids = &dataset->lists[list];
    const sl_vertex first = first_of(dataset, ids);
    for (uint32_t i = 0; i < ids->n; i++) {
        fprintf(stream, "%u\n", ids->ids[i] - first);
    }
}

static void put_links(FILE *stream, const struct sl_dataset *dataset, int list)
{
    const struct sl_links *links = &dataset->links.list[SL_LINKS_TRAIN + list];
    for (uint32_t i = 0; i < links->n; i++) {
        if (links->relation == NULL) {
            fprintf(stream, "%u,%u\n", links->from[i], links->to[i]);
        } else {
            const struct sl_link_ends *ends = &dataset->links.ends[links->relation[i]];
            fprintf(stream, "%u,%u,%u\n", links->from[i] - ends->first[0], links->relation[i],
                    links->to[i] - ends->first[1]);
        }
    }
}

static enum sl_status write_list(const struct settings *settings, const struct sl_dataset *dataset, int list)
{
    struct sl_writer writer;
    SL_FREED char *path = NULL;
    SL_CHECK(sl_format(&path, "%s/%s.csv", settings->out, sl_list_names[list]));
    SL_CHECK(sl_folder_make_parents(path));
    SL_CHECK(sl_writer_open(path, &writer));
    if (settings->links) {
        put_links(writer.stream, dataset, list);
    } else {
        put_vertices(writer.stream, dataset, list);
    }
    return sl_writer_close(&writer);
}

/* A line for each vertex: its id in the files, and its list. */
static enum sl_status write_table(const char *path, const struct sl_dataset *dataset)
{
    const char *names = dataset->vertex_names;
    struct sl_writer writer;
    SL_CHECK(sl_writer_open(path, &writer));
    fprintf(writer.stream, "id,split\n");
    for (sl_vertex v = 0; v < dataset->graph.n_vertices; v++) {
        const char *set = "";
        for (int list = 0; list < SL_N_LISTS; list++) {
            set = sl_ids_hold(&dataset->lists[list], v) ? sl_list_names[list] : set;
        }
        if (names != NULL) {
            const size_t n = strcspn(names, "\n");
            (void)sl_names_put(&writer, (struct sl_text_cell){names, n}); /* sl_writer_close reports errors */
            names += n + 1;
        } else {
            fprintf(writer.stream, "%u", v);
        }
        fprintf(writer.stream, ",%s\n", set);
    }
    return sl_writer_close(&writer);
}

static void print_split(const struct settings *settings, const struct sl_dataset *dataset)
{
    const struct sl_links *links = dataset->links.list;
    printf("split       %s of %s: ", dataset->split, settings->links ? "links" : "vertices");
    for (int i = 0; i < SL_N_LISTS; i++) {
        printf("%s%s %u", i > 0 ? ", " : "", sl_list_names[i], settings->links ? links[i].n : dataset->lists[i].n);
    }
    printf("\n");
}

/* Whether `split` writes a table instead of a folder. */
static bool is_table(const char *path)
{
    return sl_text_ends_in(path, ".csv");
}

/* A folder of lists: refuse a name of another table, and lists of another ending, which would be there twice. */
static enum sl_status check_lists(const char *folder)
{
    static const char *const endings[] = {".csv.gz", ".npy"};
    enum sl_status st = SL_OK;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        SL_FAIL_IF(sl_text_ends_in(folder, endings[i]), SL_EINVAL,
                   "--out: found '%.200s', expected a folder, or a table FILE.csv", folder);
    }
    for (int i = 0; i < SL_N_LISTS && st == SL_OK; i++) {
        st = sl_raw_check_place(folder, sl_list_names[i], ".csv");
    }
    if (st == SL_EFILE) {
        char why[SL_MESSAGE_BYTES];
        snprintf(why, sizeof why, "%s", sl_message());
        st = sl_fail(st, "--out: %.600s", why);
    }
    return st;
}

static enum sl_status run_split(const struct settings *settings, const char *split)
{
    SL_OWNED(sl_dataset_free) struct sl_dataset dataset = {0};
    struct sl_dataset_options options = options_of(settings);
    struct sl_random_split rule;
    const bool table = is_table(settings->out);
    SL_CHECK(sl_random_split_parse(split, settings->seed, &rule));
    SL_FAIL_IF(!rule.wanted, SL_EINVAL, "split: found '%.100s', expected percentages to draw: random:60,20,20", split);
    SL_FAIL_IF(table && settings->links, SL_EINVAL, "--out: found '%.200s', expected a folder for lists of links",
               settings->out);
    if (!table) {
        SL_CHECK(check_lists(settings->out));
    }
    options.split = split;
    options.split_seed = settings->seed;
    options.draw_links = settings->links;
    SL_CHECK(sl_dataset_load(&options, &dataset));
    if (table) {
        SL_CHECK(write_table(settings->out, &dataset));
    }
    for (int list = 0; list < SL_N_LISTS && !table; list++) {
        SL_CHECK(write_list(settings, &dataset, list));
    }
    print_split(settings, &dataset);
    return SL_OK;
}

/* ---- main -------------------------------------------------------------------------------------------------------- */

static int complain(int code)
{
    if (code != EXIT_USAGE || sl_process_number() == 0) { /* an error in the command line is the same on all ranks */
        fprintf(stderr, "starling_data: %s\n", sl_message());
    }
    return code;
}

static int print(const struct sl_option_table *table, enum sl_option_action action)
{
    if (sl_option_print(table, action, PACKAGE_VERSION, stdout) != SL_OK) {
        return complain(EXIT_FAILED);
    }
    return EXIT_GOOD;
}

/* Before long work: whether --out can be written. */
static enum sl_status check_out(int command, const struct settings *settings)
{
    bool folder = command == COMMAND_GENERATE;
    struct stat info;
    if (settings->out == NULL) {
        return SL_OK;
    }
    folder |= command == COMMAND_SPLIT && !is_table(settings->out);
    if (!folder) {
        return sl_writer_try(settings->out);
    }
    SL_FAIL_IF(stat(settings->out, &info) != 0 && errno != ENOENT, SL_EIO,
               "--out %.300s: cannot be made: %s; give another name", settings->out, strerror(errno));
    SL_FAIL_IF(command == COMMAND_GENERATE && sl_reader_of(settings->out) == &sl_reader_table, SL_EINVAL,
               "--out %.300s: found a dataset of tables, expected another folder", settings->out);
    return SL_OK;
}

static enum sl_status run(int command, const struct settings *settings, const struct sl_option_parse *parse,
                          char **arguments)
{
    SL_CHECK(check_out(command, settings));
    switch (command) {
    case COMMAND_INFO: return run_info(settings);
    case COMMAND_GENERATE: return run_generate(settings, parse);
    case COMMAND_PARTITION: return run_partition(settings);
    default: return run_split(settings, arguments[1]);
    }
}

static int run_command(int command, int argc, char **argv)
{
    const struct sl_option_table *table = &commands[command];
    struct settings settings = {0};
    struct sl_option_parse parse = {0};
    int code = EXIT_GOOD;
    if (sl_option_defaults(table, &settings) != SL_OK) {
        return complain(EXIT_FAILED);
    }
    if (sl_option_parse(table, argc, argv, &settings, &parse) != SL_OK) {
        code = complain(EXIT_USAGE);
    } else if (parse.action != SL_OPTION_RUN) {
        code = print(table, parse.action);
    } else if ((command == COMMAND_GENERATE || command == COMMAND_SPLIT) && settings.out == NULL) {
        sl_fail(SL_EINVAL, "--out: %s needs to know where to write", table->command);
        code = complain(EXIT_USAGE);
    } else if (command == COMMAND_INFO && parse.n_arguments == 0 && sl_process_count() > 1 &&
               sl_ranks_open() != SL_OK) {
        code = complain(EXIT_USAGE);
    } else {
        sl_settings_check_environment(true);
        sl_memory_limit(sl_limits_memory(), "use a smaller graph, or a larger machine");
        settings.dataset = parse.n_arguments > 0 ? argv[1] : NULL;
        if (run(command, &settings, &parse, argv + 1) != SL_OK) {
            code = complain(EXIT_FAILED);
        }
    }
    sl_free(parse.sources);
    sl_option_free(table, &settings);
    return flush_output("starling_data", code);
}

/* Without a command: --help, --version and the like. */
static int run_bare(int argc, char **argv)
{
    struct settings settings = {0};
    struct sl_option_parse parse;
    if (sl_option_parse(&overview, argc, argv, &settings, &parse) != SL_OK) {
        return complain(EXIT_USAGE);
    }
    sl_free(parse.sources);
    if (parse.action == SL_OPTION_RUN) {
        sl_fail(SL_EINVAL, "expected a command: info, generate, partition or split; "
                           "--help tells more");
        return complain(EXIT_USAGE);
    }
    return print(&overview, parse.action);
}

/* Commands that the Python package has. */
static const char *const moved[] = {"convert", "plot", "report"};

int main(int argc, char **argv)
{
    if (start_program("starling_data") != EXIT_GOOD) {
        return EXIT_FAILED;
    }
    show_notices("starling_data", false);
    fill_tables();
    if (argc < 2 || argv[1][0] == '-') {
        return run_bare(argc, argv);
    }
    for (int command = 0; command < N_COMMANDS; command++) {
        if (strcmp(argv[1], commands[command].command) == 0) {
            return run_command(command, argc - 1, argv + 1);
        }
    }
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        if (strcmp(argv[1], moved[i]) == 0) {
            sl_fail(SL_EINVAL, "%s: this is a command of the Python package now: starling %s", moved[i], moved[i]);
            return complain(EXIT_USAGE);
        }
    }
    sl_fail(SL_EINVAL,
            "%.100s: expected a command: info, generate, partition or split; --help "
            "tells more",
            argv[1]);
    return complain(EXIT_USAGE);
}
