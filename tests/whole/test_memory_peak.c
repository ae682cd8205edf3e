/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a run says it may need (runtime/train/memory_need.h) against the peak of its process, for whole runs of many
 * settings: not much less, and not much more. A process with less is refused at its start, with both figures.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/train/session.h" /* before a name of the fixture's that its own would shadow */

#include "tests/support/whole_fixture.h"
#include "tests/support/written_fixture.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define TOO_LITTLE 0.75 /* of the peak, which is not the same in every run */
#define TOO_MUCH 1.3    /* times the peak; on a quiet machine all are within 0.81 and 1.21 (doc/results.md) */
#define REFUSED_AT 0.6  /* of what is needed */
#define N_VERTICES 10000
#define N_LINKS 400000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0 /* a sanitizer's own memory would count */
#else
#define COUNTS 1
#endif

struct setting {
    bool pipe;
    const char *options;
};

static const struct setting settings[] = {
    {false, "dataset=%dense hidden=256 pes=1"},
    {false, "dataset=%dense hidden=256 pes=2"},
    {false, "dataset=%dense hidden=256 pes=2 precision=bf16"},
    {false, "dataset=%dense hidden=256 pes=4"},
    {false, "dataset=%dense hidden=256 pes=4 group-size=1 batch-size=512"},
    {false, "dataset=%dense hidden=256 pes=4 group-size=2 batch-size=512"},
    {false, "dataset=%dense hidden=64 pes=2"},
    {false, "dataset=%dense hidden=256 pes=2 eval-every=0"},
    {false, "dataset=%dense hidden=512 pes=2 norm=batch"},
    {false, "dataset=%dense hidden=256 pes=2 feature-cache=5000"},
    {false, "dataset=%dense hidden=256 pes=2 sampler=labor"},
    {false, "dataset=%dense hidden=256 pes=2 sampler=labor labor-iterations=2"},
    {false, "dataset=%dense hidden=256 pes=2 sampler=ladies fanout=-1,-1 layer-size=4000"},
    {false, "dataset=%dense hidden=256 pes=2 depth=4 chunks=4"},
    {false, "dataset=%dense hidden=256 pes=2 model=gcn"},
    {false, "dataset=%dense hidden=256 pes=2 model=gat output-layers=2"},
    {false, "dataset=%dense hidden=256 pes=2 model=gcnii"},
    {false, "dataset=%dense hidden=256 pes=2 model=resgcn"},
    {false, "dataset=%dense hidden=256 pes=2 model=gin learn-epsilon"},
    {false, "dataset=%dense hidden=256 pes=4 group-size=1 batch-size=512 sync=dissemination"},
    {false, "dataset=%sparse hidden=256 pes=2"},
    {false, "dataset=%int8 hidden=64 pes=2 batch-size=128 fanout=5,5"},
    {false, "dataset=%sparse hidden=256 pes=4 model=gcn"},
    {false, "dataset=%sparse hidden=256 pes=2 model=gat"},
    {true, "dataset=%dense hidden=128 layers=4 stages=2 ways=1 chunks=4"},
    {true, "dataset=%dense hidden=128 layers=8 stages=2 ways=2 chunks=4 recompute"},
    {true, "dataset=%dense hidden=128 layers=16 stages=4 ways=1 chunks=16 history-every=1 partition=random recompute"},
    {true, "dataset=%dense hidden=128 layers=14 stages=2 ways=1 chunks=8 history-every=1 model=resgcn precision=bf16"},
    {true, "dataset=%dense hidden=128 layers=16 stages=2 ways=4 chunks=4 model=gcn precision=bf16 recompute"},
    {true, "dataset=%dense hidden=128 layers=30 stages=4 ways=1 chunks=8 history-every=1 model=gcnii precision=bf16"},
    {true, "dataset=%dense hidden=128 layers=30 stages=4 ways=1 chunks=8 history-every=1 model=sage"},
    {true, "dataset=%dense hidden=128 layers=8 stages=2 ways=1 chunks=4 history-every=1 model=gin learn-epsilon "
           "output-layers=2"},
    {false, "dataset=%links features=random:100 objective=link hidden=32 pes=2 batch-size=8192"},
    {false, "dataset=%triples features=random:100 objective=link hidden=32 pes=2 batch-size=8192 decoder=distmult"},
};

static void put_dataset(const char *name, uint32_t n_columns, bool sparse)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = N_VERTICES,
                                .n_columns = n_columns,
                                .n_classes = 10,
                                .sparse = sparse,
                                .seed = 3};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    assert_ok(write_dataset(&dataset, false, in_folder(name)));
}

/* A dataset whose features are int8, in NumPy's format. */
static void put_int8_dataset(const char *name, uint32_t n_columns)
{
    char path[64];
    char header[128];
    int8_t row[1024];
    assert_true(n_columns <= sizeof row);
    put_dataset(name, 1, false);
    snprintf(path, sizeof path, "%s/raw/node-feat.npy", name);
    FILE *file = fopen(in_folder(path), "wb");
    assert_non_null(file);
    snprintf(header, sizeof header, "{'descr': '|i1', 'fortran_order': False, 'shape': (%d, %u), }", N_VERTICES,
             n_columns);
    fprintf(file, "\x93NUMPY\x01%c%c%c%-117s\n", 0, 118, 0, header);
    for (uint32_t v = 0; v < N_VERTICES; v++) {
        for (uint32_t c = 0; c < n_columns; c++) {
            row[c] = (int8_t)((v * 7 + c * 13) % 5) - 2;
        }
        assert_int_equal(fwrite(row, 1, n_columns, file), n_columns);
    }
    assert_int_equal(fclose(file), 0);
}

/* Lines of a list of links, some of them equal, among the vertices from `first` on. With `relations` they are
 * triples. */
static void put_links(const char *path, uint32_t n, uint32_t first, uint32_t relations)
{
    uint64_t state = first + 1;
    put_text(path, "");
    FILE *file = fopen(in_folder(path), "w");
    assert_non_null(file);
    for (uint32_t i = 0; i < n; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t from = first + (uint32_t)(state >> 40) % (N_VERTICES / 2);
        uint32_t to = first + (uint32_t)(state >> 20) % (N_VERTICES / 2);
        if (relations > 0) {
            fprintf(file, "%u,%u,%u\n", from, i % relations, to);
        } else {
            fprintf(file, "%u,%u\n", from, to);
        }
    }
    assert_int_equal(fclose(file), 0);
}

/* The links to train on join half of the vertices, the others the other half. */
static void put_links_dataset(const char *name, uint32_t relations)
{
    char path[64];
    char text[16];
    snprintf(path, sizeof path, "%s/raw/num-node-list.csv", name);
    snprintf(text, sizeof text, "%d\n", N_VERTICES);
    put_text(path, text);
    snprintf(path, sizeof path, "%s/split/only/train.csv", name);
    put_links(path, N_LINKS, 0, relations);
    snprintf(path, sizeof path, "%s/split/only/valid.csv", name);
    put_links(path, 100, N_VERTICES / 2, relations);
    snprintf(path, sizeof path, "%s/split/only/test.csv", name);
    put_text(path, relations > 0 ? "9999,0,9999\n" : "9999,9999\n");
}

/* In bytes: what a session says that it needs, and what it would say at the least before it reads the data. */
struct estimate {
    uint64_t need, least;
};

/* Open a session; train where that is wanted. */
static enum sl_status run_one(const struct setting *setting, bool train, struct estimate *out)
{
    struct sl_settings *s = NULL;
    struct sl_session *session = NULL;
    char options[400];
    enum sl_status st;
    snprintf(options, sizeof options, "%s%s cache=none cpus=2 epochs=4", setting->pipe ? "" : "layers=2 fanout=10,10 ",
             setting->options);
    SL_TRY(st, (setting->pipe ? sl_settings_new_pipe : sl_settings_new)(&s), done);
    SL_TRY(st, set_words(s, options), done);
    SL_TRY(st, sl_session_open(s, NULL, &session), done);
    const struct sl_raw_sizes sizes = {.n_vertices = N_VERTICES, .n_edges = session->partition.graph.n_edges / 2};
    *out = (struct estimate){session->memory_bytes, sl_memory_least(session->settings, &sizes)};
    st = train ? sl_session_train(session, NULL) : SL_OK;
done:
    sl_session_close(session);
    sl_settings_delete(s);
    return st;
}

static void expect_peak(const struct setting *setting)
{
    struct rusage usage;
    struct estimate of = {0};
    int ends[2];
    int status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        enum sl_status st = run_one(setting, true, &of);
        _exit(st != SL_OK || write(ends[1], &of, sizeof of) != sizeof of);
    }
    assert_true(child > 0);
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &of, sizeof of), sizeof of);
    close(ends[0]);
    close(ends[1]);
    uint64_t peak = (uint64_t)usage.ru_maxrss << 10;
    print_message("%.2f: %4llu MB of %4llu, %4llu at the least  %s\n", (double)of.need / (double)peak,
                  (unsigned long long)peak / 1000000, (unsigned long long)of.need / 1000000,
                  (unsigned long long)of.least / 1000000, setting->options);
    if ((double)of.need < TOO_LITTLE * (double)peak || (double)of.need > TOO_MUCH * (double)peak || of.least > peak) {
        fail_msg("%s: took %llu bytes, estimated at %llu, at %llu at the least", setting->options,
                 (unsigned long long)peak, (unsigned long long)of.need, (unsigned long long)of.least);
    }
}

TEST_IN_FOLDER(test_peaks)
{
    if (!COUNTS) {
        skip();
    }
    put_dataset("dense", 100, false);
    put_dataset("sparse", 1000, true);
    put_int8_dataset("int8", 800);
    put_links_dataset("links", 0);
    put_links_dataset("triples", 3);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i += (size_t)stride(3)) {
        expect_peak(&settings[i]);
    }
}

/* In a process of its own: with less than it needs by so much. 0: refused, with both figures. */
static int refuse(const struct setting *setting, uint64_t need)
{
    struct estimate none;
    rlim_t given = (rlim_t)(REFUSED_AT * (double)need);
    struct rlimit limit = {given, given};
    char words[100];
    snprintf(words, sizeof words, "the run may need %.2f GB and this process may use %.2f GB", (double)need / 1e9,
             (double)given / 1e9);
    if (setrlimit(RLIMIT_AS, &limit) != 0 || run_one(setting, false, &none) != SL_ENOMEM) {
        return 1;
    }
    return strstr(sl_message(), words) != NULL ? 0 : 2;
}

TEST_IN_FOLDER(test_refused)
{
    static const struct setting large = {false, "dataset=%dense hidden=16384 pes=2"};
    struct estimate of = {0};
    int status;
    if (!COUNTS) {
        skip();
    }
    put_dataset("dense", 100, false);
    enum sl_status st = run_one(&large, false, &of);
    if (st == SL_ENOMEM) { /* a machine, or a control group, with less than a process without a limit needs here */
        print_message("%s\n", sl_message());
        skip();
    }
    assert_ok(st);
    assert_true(REFUSED_AT * (double)of.need > 1e9); /* below which libraries would find no room */
    pid_t child = fork();
    if (child == 0) {
        int refused = refuse(&large, of.need);
        fprintf(stderr, "%s\n", sl_message());
        _exit(refused);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    return run_listed_tests(NULL, NULL);
}
