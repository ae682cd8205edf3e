/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing a dataset as one safetensors file, with the names and dtypes of PyG's Data. data/readers/arrays_file.c reads
 * it. */
#include <string.h>

#include "data/raw.h"
#include "support/memory.h"
#include "support/safetensors.h"

#define MOST_TENSORS 10

/* The tensors, and the arrays that were made for them. */
struct draft {
    struct sl_tensor tensors[MOST_TENSORS];
    uint32_t n;
    void *made[MOST_TENSORS];
    uint32_t n_made;
};

/* Add a tensor of the shape (), (rows) or (rows, columns). */
static void add(struct draft *draft, const char *name, enum sl_dtype dtype, uint64_t rows, uint64_t columns,
                const void *data)
{
    draft->tensors[draft->n++] = sl_tensor_make(name, dtype, rows, columns, data);
}

/* An array for a tensor, all zero. The draft owns it. */
static enum sl_status make_array(struct draft *draft, size_t n, size_t bytes, const char *name, void *out)
{
    void *array;
    SL_CHECK(sl_alloc_zero(n, bytes, name, &array));
    draft->made[draft->n_made++] = array;
    memcpy(out, &array, sizeof array);
    return SL_OK;
}

static enum sl_status add_edges(struct draft *draft, const struct sl_raw *raw)
{
    int64_t *ends;
    int64_t *count;
    SL_CHECK(make_array(draft, 1, sizeof *count, "num_nodes", &count));
    *count = raw->n_vertices;
    add(draft, "num_nodes", SL_DTYPE_I64, 0, 0, count);
    SL_CHECK(make_array(draft, 2 * raw->n_edges, sizeof *ends, "edge_index", &ends));
    for (uint64_t e = 0; e < raw->n_edges; e++) {
        ends[e] = raw->from[e];
        ends[raw->n_edges + e] = raw->to[e];
    }
    add(draft, "edge_index", SL_DTYPE_I64, 2, raw->n_edges, ends);
    if (raw->n_edges == 0) {
        draft->tensors[draft->n - 1].n_dims = 2; /* (2, 0) */
    }
    if (raw->weights.data != NULL) {
        add(draft, "edge_weight", SL_DTYPE_F32, raw->n_edges, 0, raw->weights.data);
    }
    return SL_OK;
}

/* A sparse table with its zeros. */
static enum sl_status add_sparse(struct draft *draft, const struct sl_features *features)
{
    size_t width = features->n_columns;
    float *dense;
    SL_CHECK(make_array(draft, features->n_rows * width, sizeof *dense, "x", &dense));
    for (uint32_t v = 0; v < features->n_rows; v++) {
        for (uint64_t k = features->offsets[v]; k < features->offsets[v + 1]; k++) {
            dense[v * width + features->columns[k]] = features->values[k];
        }
    }
    add(draft, "x", SL_DTYPE_F32, features->n_rows, width, dense);
    return SL_OK;
}

static enum sl_status add_features(struct draft *draft, const struct sl_features *features)
{
    const struct sl_column *dense = &features->dense;
    if (features->n_columns == 0) {
        return SL_OK;
    }
    if (features->offsets != NULL) {
        return add_sparse(draft, features);
    }
    add(draft, "x", dense->dtype, features->n_rows, features->n_columns, dense->data);
    if (dense->dtype == SL_DTYPE_I8) {
        add(draft, "x_scale", SL_DTYPE_F32, 0, 0, &dense->scale);
    }
    return SL_OK;
}

static enum sl_status add_targets(struct draft *draft, const struct sl_targets *targets, const char *class_names)
{
    int64_t *classes;
    if (targets->type == SL_TARGET_NUMBER) {
        add(draft, "y", SL_DTYPE_F32, targets->n_rows, targets->width > 1 ? targets->width : 0, targets->data);
        return SL_OK;
    }
    if (targets->data == NULL || sl_targets_count_classes(targets) == 0) {
        return SL_OK;
    }
    SL_CHECK(make_array(draft, targets->n_rows, sizeof *classes, "y", &classes));
    for (uint32_t v = 0; v < targets->n_rows; v++) {
        classes[v] = targets->classes[v];
    }
    add(draft, "y", SL_DTYPE_I64, targets->n_rows, 0, classes);
    if (class_names != NULL) {
        add(draft, "class_names", SL_DTYPE_U8, strlen(class_names), 0, class_names);
    }
    return SL_OK;
}

static enum sl_status add_split(struct draft *draft, const struct sl_raw *raw)
{
    static const char *const names[] = {"train_mask", "val_mask", "test_mask"};
    const struct sl_ids *lists[] = {&raw->train, &raw->valid, &raw->test};
    enum sl_status st = SL_OK;
    for (int i = 0; i < 3 && st == SL_OK && raw->split[0] != '\0'; i++) {
        unsigned char *mask;
        SL_CHECK(make_array(draft, raw->n_vertices, 1, names[i], &mask));
        for (uint32_t k = 0; k < lists[i]->n; k++) {
            mask[lists[i]->ids[k]] = 1;
        }
        add(draft, names[i], SL_DTYPE_BOOL, raw->n_vertices, 0, mask);
    }
    return st;
}

enum sl_status sl_raw_write_arrays(const struct sl_raw *raw, const char *path)
{
    static const struct sl_metadata metadata[] = {{"format", "pt"}};
    struct draft draft = {.n = 0};
    enum sl_status st;
    SL_TRY(st, add_edges(&draft, raw), done);
    SL_TRY(st, add_features(&draft, &raw->features), done);
    SL_TRY(st, add_targets(&draft, &raw->targets, raw->class_names), done);
    SL_TRY(st, add_split(&draft, raw), done);
    st = sl_safetensors_write(path, draft.tensors, draft.n, metadata, 1);
done:
    while (draft.n_made > 0) {
        sl_free(draft.made[--draft.n_made]);
    }
    return st;
}
