/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A user's program, which `make installcheck` compiles against the installed header and library and runs: it trains
 * on arrays that it made, two crowds on a ring, and asks for what was learnt. */
#include <starling.h>
#define N 2000 /* vertices of two crowds by turns; each knows the two next of its own, and one of the other */
#define F 8

static uint32_t from[3 * N], to[3 * N], ids[N];
static int32_t labels[N];
static float features[N * F], logits[2 * N];

static int complain(void)
{
    fprintf(stderr, "installed: %s\n", sl_message());
    return 1;
}

static int tell(void *context, const struct sl_epoch_news *news)
{
    ++*(int *)context;
    printf("epoch %u: loss %.4f, %.1f %% right\n", news->epoch, news->loss, 100 * news->scores.score[0].test);
    return 0;
}

int main(void)
{
    static const char *const options[][2] = {{"layers", "2"}, {"hidden", "16"}, {"fanout", "4,4"}, {"lr", "0.02"}};
    const struct sl_arrays arrays = {.size = sizeof arrays,
                                     .name = "crowds",
                                     .n_vertices = N,
                                     .n_edges = 3 * N,
                                     .sources = from,
                                     .destinations = to,
                                     .n_features = F,
                                     .features = features,
                                     .labels = labels,
                                     .n_train = N / 2,
                                     .n_valid = N / 4,
                                     .n_test = N / 4,
                                     .train = ids,
                                     .valid = ids + N / 2,
                                     .test = ids + 3 * N / 4};
    struct sl_settings *settings;
    struct sl_dataset *dataset;
    struct sl_session *session;
    struct sl_scores scores;
    int n_epochs = 0;
    const struct sl_report report = {.size = sizeof report, .context = &n_epochs, .epoch = tell};
    for (uint32_t v = 0; v < N; v++) {
        ids[v] = v;
        labels[v] = (int32_t)(v % 2);
        for (uint32_t k = 0; k < 3; k++) {
            from[3 * v + k] = v;
            to[3 * v + k] = (v + (k < 2 ? 2 * k + 2 : 1)) % N;
        }
        for (uint32_t c = 0; c < F; c++) { /* noise, and a hint that one vertex alone does not decide by */
            features[v * F + c] = (float)((v * 7919 + c * 104729) % 1000) / 1000 + 0.4f * (float)(v % 2);
        }
    }
    bool good = sl_settings_new(&settings) == SL_OK && sl_dataset_new(&arrays, &dataset) == SL_OK;
    for (size_t i = 0; good && i < sizeof options / sizeof *options; i++) {
        good = sl_settings_set(settings, options[i][0], options[i][1]) == SL_OK;
    }
    if (!good || sl_session_open(settings, dataset, &session) != SL_OK || sl_session_train(session, &report) != SL_OK ||
        sl_session_evaluate(session, &scores, logits, NULL) != SL_OK) {
        return complain();
    }
    sl_session_close(session);
    sl_dataset_delete(dataset);
    sl_settings_delete(settings);
    return n_epochs == 10 && scores.score[0].test > 0.85 && (logits[0] > logits[1]) == (labels[0] == 0) ? 0 : 1;
}
