/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Datasets in the terms of a model. */
#include "runtime/train/adapt.h"

#include "runtime/plan/model_file.h"

static const char *name_normalization(enum sl_normalize normalize)
{
    static const char *const names[] = {"none", "row", "column"};
    return names[normalize];
}

/* Normalize features that are not normalized yet: files were, when they were read. */
static enum sl_status normalize(const struct sl_settings *s, struct sl_adapted *out)
{
    const enum sl_normalize wanted = (enum sl_normalize)s->normalize_features;
    struct sl_dataset *dataset = &out->dataset;
    const struct sl_scaling *of_model = s->model_file != NULL ? &s->model_file->scaling : NULL;
    enum sl_status st;
    if (dataset->normalized == SL_NORMALIZE_NONE && wanted != SL_NORMALIZE_NONE) {
        if (dataset->graph.n_relations > 0 && wanted == SL_NORMALIZE_COLUMN) {
            return sl_fail(SL_EINVAL,
                           "--normalize-features: found column, expected none or row: in the typed graph %s each type "
                           "has features of its own",
                           dataset->name);
        }
        if (of_model != NULL) {
            SL_TRY(st, sl_scaling_copy(of_model, &out->scaling), done);
        }
        out->features = dataset->features;
        out->features.dense.hold = SL_HOLD_BORROWED;
        out->features.hold = SL_HOLD_BORROWED;
        SL_TRY(st, sl_features_normalize(&out->features, wanted, &out->scaling), done);
        SL_TRY(st, sl_features_measure(&out->features, &dataset->range), done);
        dataset->features = out->features;
        dataset->hashed = false;
        dataset->normalized = wanted;
        dataset->scaling = out->scaling;
        return SL_OK;
    }
    /* A dataset that was opened normalized needs no option again. */
    const bool says = s->model_file != NULL && sl_model_file_option(s->model_file, "normalize-features") != NULL;
    if (dataset->normalized != wanted && (says || wanted != SL_NORMALIZE_NONE)) {
        return sl_fail(SL_EINVAL, "--normalize-features: found a dataset opened with '%s', expected '%s'",
                       name_normalization(dataset->normalized), name_normalization(wanted));
    }
    if (of_model != NULL && of_model->n > 0 && !sl_scaling_equal(of_model, &dataset->scaling)) {
        return sl_fail(SL_EINVAL,
                       "features: found a dataset normalized by its own means and deviations, expected those of the "
                       "model in %.300s; open it without --normalize-features",
                       s->load);
    }
    st = SL_OK;
done:
    return st;
}

static enum sl_status match_features(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    const uint32_t expected = s->model_file->n_features;
    if (expected > 0 && dataset->features.n_columns != expected) {
        return sl_fail(SL_EINVAL,
                       "features: found %u columns in '%s', expected %u, with which the model in %.300s was trained",
                       dataset->features.n_columns, dataset->name, expected, s->load);
    }
    return SL_OK;
}

enum sl_status sl_adapt(const struct sl_settings *s, const struct sl_dataset *dataset, struct sl_adapted *out)
{
    enum sl_status st;
    *out = (struct sl_adapted){.dataset = *dataset};
    if (s->model_file != NULL) {
        SL_TRY(st, match_features(s, dataset), fail);
        if (!sl_settings_trains_links(s)) {
            sl_targets_widen(&out->dataset.targets, s->model_file->n_outputs);
        }
    }
    SL_TRY(st, normalize(s, out), fail);
    return SL_OK;
fail:
    sl_adapted_free(out);
    return st;
}

void sl_adapted_free(struct sl_adapted *adapted)
{
    sl_features_free(&adapted->features); /* borrowed ones stay */
    sl_scaling_free(&adapted->scaling);
    *adapted = (struct sl_adapted){0};
}
