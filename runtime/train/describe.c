/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines for people about a session's decisions, and warnings. */
#include <errno.h>
#include <string.h>

#include "runtime/machine/gpus.h"
#include "runtime/train/session.h"
#include "support/decimal.h"
#include "support/lines.h"

static void describe_gpus(const struct sl_machine *machine, FILE *stream)
{
    int devices[STARPU_MAXCUDADEVS + 1];
    int nodes[STARPU_MAXCUDADEVS + 1];
    uint32_t n = sl_gpus_list(devices, nodes);
    for (uint32_t i = 0; i < n; i++) {
        char text[96];
        sl_gpus_describe((uint32_t)devices[i], text, sizeof text);
        sl_print_line(stream, "gpu", "%s%s", text,
                      machine->gpus_first ? "; CPUs do what it cannot" : "; CPUs share all work");
    }
}

/* Work that does not fit a GPU. */
static void describe_room(const struct sl_session *t, FILE *stream)
{
    if (t->settings->n_score_fanout > 0) {
        sl_print_line(stream, "scores", "of samples of in-neighbours (--score-fanout); files of outputs are exact");
    }
    if (t->run.evaluate_on_cpus) {
        sl_print_line(stream, "evaluation",
                      "by CPUs: a GPU of %.1f GB does not hold the rows of all vertices (--cpus N: by so many)",
                      (double)t->run.gpu_bytes / 1e9);
    }
}

#define LARGE_FEATURE 1000.0F /* scaled features stay well below */
#define SMALL_FEATURE 1e-4F   /* and above */

/* Warn of data that are hard to train on. */
static void describe_data(const struct sl_session *t, FILE *stream)
{
    const float *largest = t->range.largest;
    if (largest[0] > LARGE_FEATURE) {
        sl_print_line(stream, "warning",
                      "feature column %u reaches %.3g, the largest of the other columns %.3g: scale each column to "
                      "mean 0 and deviation 1, or training suffers",
                      t->range.column, (double)largest[0], (double)largest[1]);
    }
    if (largest[0] < SMALL_FEATURE) {
        sl_print_line(stream, "warning", "no feature is larger than %.3g: scale each column to mean 0 and deviation 1",
                      (double)largest[0]);
    }
    if (t->settings->epochs > 0) {
        sl_objective_warn(&t->objective, stream);
    }
    const uint64_t n_loops = t->shards.n_self_loops;
    const bool plain = t->settings->model == SL_MODEL_GIN;
    if (n_loops > 0 && (plain || (sl_settings_weighs_sums(t->settings) && t->settings->model != SL_MODEL_SAGE))) {
        sl_print_line(stream, "warning", "the graph's %llu %s left out: %s", (unsigned long long)n_loops,
                      sl_noun(n_loops, "self loop is", "self loops are"),
                      plain ? "gin adds each vertex once to its sum; GINConv adds it again for a self loop"
                            : "each vertex has one self loop of weight 1; GCNConv keeps their weights");
    }
}

enum sl_status sl_session_describe(const struct sl_session *t, FILE *stream)
{
    SL_IN_C_LOCALE;
    const struct sl_settings *s = t->settings;
    uint64_t n_edges = t->partition.graph.n_edges;
    uint64_t batch = t->plan.batch;
    sl_print_line(stream, "dataset", "%s%s: %u %s, %llu %s, %u %s %s, %u %s, split %s %u/%u/%u", t->name,
                  t->synthetic ? " (SYNTHETIC: generated, not the real data)" : "", t->shards.n_vertices,
                  sl_noun(t->shards.n_vertices, "vertex", "vertices"), (unsigned long long)n_edges,
                  sl_noun(n_edges, "edge", "edges"), t->shards.n_features, t->shards.is_sparse ? "sparse" : "dense",
                  sl_noun(t->shards.n_features, "feature", "features"), t->shards.n_outputs,
                  sl_noun(t->shards.n_outputs, t->objective.kind->output, t->objective.kind->outputs),
                  t->split[0] != '\0' ? t->split : "none", t->shards.n_train, t->shards.n_valid, t->shards.n_test);
    t->schedule.kind->describe(t->schedule.own, stream);
    if (t->n_replicas > 1) {
        sl_print_line(stream, "gossip", "%u replicas of the model; scores and files are of the average of all of them",
                      t->n_replicas);
    }
    sl_print_line(stream, "machine", "%u %s, scheduler %s, %u %s a PE, needs about %.2f GB of %.1f GB",
                  t->machine.n_workers, sl_noun(t->machine.n_workers, "worker", "workers"), t->machine.sched, s->chunks,
                  sl_noun(s->chunks, "chunk", "chunks"), (double)t->memory_bytes / 1e9,
                  (double)t->machine.topology.memory_bytes / 1e9);
    describe_data(t, stream);
    describe_gpus(&t->machine, stream);
    describe_room(t, stream);
    if (t->machine.loose) {
        const struct sl_cores *cores = &t->machine.cores;
        sl_print_line(stream, "warning",
                      "other runs have bound %u of the %u cores of this process: the workers of this run are not "
                      "bound, "
                      "and share cores%s",
                      cores->n_of_others, cores->n_there,
                      cores->n_of_others < cores->n_there ? "; use fewer --cpus" : "");
    }
    if (t->n_unplaced > 0) {
        sl_print_line(stream, "warning",
                      "the system refused to place the tables on its NUMA nodes (%u): some workers will wait for "
                      "memory",
                      t->machine.topology.n_numa);
    }
    if (t->n_unpinned > 0) {
        sl_print_line(
            stream, "warning",
            "the system refused to lock tables and buffers (%u) in memory (ulimit -l?): GPUs are slow to fetch "
            "them",
            t->n_unpinned);
    }
    if (starpu_cpu_worker_get_count() > t->machine.topology.n_workers) {
        sl_print_line(stream, "warning",
                      "%u workers share the %u %s of this process: they wait for each other; leave out --cpus",
                      t->machine.n_workers, t->machine.topology.n_workers,
                      sl_noun(t->machine.topology.n_workers, "processor", "processors"));
    }
    if (s->epochs > 0 && t->run.gpu_bytes > 0 && t->gpu_need.training > t->run.gpu_bytes) {
        sl_print_line(stream, "warning",
                      "a step may need %.2f GB of a GPU, where data may take %.2f GB: StarPU will move them to and "
                      "fro; consider a smaller --batch-size or --fanout",
                      (double)t->gpu_need.training / 1e9, (double)t->run.gpu_bytes / 1e9);
    }
    if (t->state.step > 0) {
        sl_print_line(stream, "resuming", "after step %llu", (unsigned long long)t->state.step);
    }
    if (s->epochs > 0 && s->schedule == SL_SCHEDULE_MINIBATCH && batch > t->shards.n_train / 4) {
        sl_print_line(stream, "warning",
                      "a step's %llu seeds are more than a quarter of the %u training vertices: few steps an epoch; "
                      "consider a smaller --batch-size or --pes",
                      (unsigned long long)batch, t->shards.n_train);
    }
    SL_FAIL_IF(fflush(stream) != 0 || ferror(stream), SL_EIO,
               "the run's lines cannot be written: %s; is the disk full, or standard output closed?", strerror(errno));
    return SL_OK;
}
