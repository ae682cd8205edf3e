/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The model, predictions, embeddings. */
#include "runtime/train/outputs.h"

#include <string.h>
#include <sys/stat.h>

#include "runtime/files/npyout.h"
#include "runtime/full/evaluate.h"
#include "runtime/model/kinds.h"
#include "runtime/train/state.h"
#include "support/file.h"
#include "support/memory.h"

/* Options that a model's scores follow from, as a checkpoint has them: in the metadata as option.NAME. */
static const char *const model_options[] = {"model",  "heads",  "alpha", "lambda",
                                            "layers", "hidden", "norm",  "residual"};
#define N_MODEL_OPTIONS (sizeof model_options / sizeof *model_options)
#define KEY_BYTES 48

/* A file from elsewhere does not say how it was made: its tensors have to do. */
static enum sl_status match_options(const struct sl_settings *settings, const struct sl_tensors *file)
{
    enum sl_status st = SL_OK;
    for (size_t i = 0; i < N_MODEL_OPTIONS && st == SL_OK; i++) {
        const char *name = model_options[i];
        char key[KEY_BYTES];
        char *now = NULL;
        snprintf(key, sizeof key, "option.%s", name);
        const char *then = sl_tensors_metadata(file, key);
        const struct sl_option *option = sl_option_find(sl_settings_table_of(settings), name);
        if (then == NULL || option == NULL) {
            continue;
        }
        st = sl_option_text(option, settings, &now);
        if (st == SL_OK && strcmp(now, then) != 0) {
            st =
                sl_fail(SL_EFILE, "--%s: found '%.100s', expected '%.100s', with which the model in %.300s was trained",
                        name, now, then, file->path);
        }
        sl_free(now);
    }
    return st;
}

enum sl_status sl_outputs_load_model(struct sl_session *t)
{
    struct sl_tensors tensors;
    enum sl_status st = sl_safetensors_read(t->settings->load, &tensors);
    if (st != SL_OK) {
        return st;
    }
    SL_TRY(st, match_options(t->settings, &tensors), done);
    SL_TRY(st, sl_model_acquire(&t->model, STARPU_RW), done);
    st = sl_model_set_tensors(&t->model, false, &tensors);
    sl_model_release(&t->model);
done:
    sl_tensors_free(&tensors);
    return st;
}

/* The folder a file would be made in can be written; what exists and is no regular file is written in place. */
static enum sl_status check_target(const char *option, const char *path)
{
    struct stat status;
    char *folder = NULL;
    bool exists = stat(path, &status) == 0;
    const char *slash = strrchr(path, '/');
    enum sl_status st;
    if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        return SL_OK;
    }
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    SL_TRY(st, sl_format(&folder, "%.*s", length, slash == NULL ? "." : path), done);
    if ((exists && S_ISDIR(status.st_mode)) || !sl_folder_writable(folder)) {
        st = sl_fail(SL_EIO, "--%s %.300s: expected a file name in a folder that can be written", option, path);
    }
done:
    sl_free(folder);
    return st;
}

enum sl_status sl_outputs_check(const struct sl_settings *settings)
{
    enum sl_status st = SL_OK;
    SL_TRY(st, settings->save != NULL ? check_target("save", settings->save) : SL_OK, done);
    SL_TRY(st, settings->predict != NULL ? check_target("predict", settings->predict) : SL_OK, done);
    SL_TRY(st, settings->embed != NULL ? check_target("embed", settings->embed) : SL_OK, done);
    SL_TRY(st, settings->metrics != NULL ? check_target("metrics", settings->metrics) : SL_OK, done);
    SL_TRY(st, settings->checkpoint != NULL ? sl_folder_make(settings->checkpoint) : SL_OK, done);
done:
    return st;
}

enum sl_status sl_outputs_settle(struct sl_session *t)
{
    enum sl_status st;
    if (t->best == NULL) {
        SL_TRY(st, sl_state_average(t), done);
    } else {
        SL_TRY(st, sl_model_acquire(&t->model, STARPU_RW), done);
        sl_model_write(&t->model, t->best);
        sl_model_release(&t->model);
    }
    t->settled = true;
done:
    return st;
}

static enum sl_status save_model(struct sl_session *t)
{
    struct sl_tensor tensors[SL_MODEL_TENSORS];
    struct sl_metadata metadata[3 + N_MODEL_OPTIONS] = {
        {"format", "pt"}, {"dataset", t->name}, {"model", sl_model_kind(t->settings->model)->name}};
    char key[N_MODEL_OPTIONS][KEY_BYTES];
    char *value[N_MODEL_OPTIONS] = {0};
    uint32_t n_metadata = 3;
    uint32_t n = 0;
    enum sl_status st;
    for (size_t i = 0; i < N_MODEL_OPTIONS; i++) {
        const struct sl_option *option = sl_option_find(sl_settings_table_of(t->settings), model_options[i]);
        if (option != NULL) {
            SL_TRY(st, sl_option_text(option, t->settings, &value[i]), done);
            snprintf(key[i], sizeof key[i], "option.%s", model_options[i]);
            metadata[n_metadata++] = (struct sl_metadata){key[i], value[i]};
        }
    }
    SL_TRY(st, sl_model_acquire(&t->model, STARPU_R), done);
    st = sl_model_tensors(&t->model, (enum sl_tensors_for)t->settings->save_names, tensors, &n);
    sl_model_release(&t->model);
    SL_TRY(st, st, done);
    st = sl_safetensors_write(t->settings->save, tensors, n, metadata, n_metadata);
done:
    for (size_t i = 0; i < N_MODEL_OPTIONS; i++) {
        sl_free(value[i]);
    }
    sl_model_tensors_free(tensors, n);
    return st;
}

static enum sl_status write_inference(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    uint32_t n = t->shards.n_vertices;
    uint32_t n_classes = t->shards.n_classes;
    struct sl_inference wanted = {0};
    struct sl_metrics_scores scores;
    enum sl_status st;
    if (s->predict != NULL) {
        SL_TRY(st, sl_alloc((size_t)n * n_classes, sizeof *wanted.scores, "class scores", &wanted.scores), done);
    }
    if (s->embed != NULL) {
        SL_TRY(st, sl_alloc((size_t)n * s->hidden, sizeof *wanted.hidden, "embeddings", &wanted.hidden), done);
    }
    SL_TRY(st, sl_evaluate(&t->run, &t->shards, &t->model, &wanted, &scores), done);
    if (s->predict != NULL) {
        SL_TRY(st, sl_npy_write_block(s->predict, n, n_classes, wanted.scores, n_classes, t->partition.new_ids), done);
    }
    if (s->embed != NULL) {
        SL_TRY(st, sl_npy_write_block(s->embed, n, s->hidden, wanted.hidden, s->hidden, t->partition.new_ids), done);
    }
done:
    sl_free(wanted.scores);
    sl_free(wanted.hidden);
    return st;
}

enum sl_status sl_outputs_write(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    enum sl_status st;
    SL_TRY(st, s->save != NULL ? save_model(t) : SL_OK, done);
    SL_TRY(st, s->predict != NULL || s->embed != NULL ? write_inference(t) : SL_OK, done);
done:
    return st;
}
