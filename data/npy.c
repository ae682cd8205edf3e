/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Files of arrays. */
#include "data/npy.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/features.h"
#include "data/made_features.h"
#include "support/convert.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/number.h"
#include "support/parallel.h"

#define MAGIC_BYTES 8 /* magic and version */
#define MAX_HEADER_BYTES 65536
#define MAX_COLUMNS (1 << 24)
#define NAME_BYTES 512
#define GRAIN 65536 /* items that one thread converts at a time */

/* NumPy's names, without the byte order. */
static const char *const type_names[SL_N_DTYPES] = {
    [SL_DTYPE_F32] = "f4", [SL_DTYPE_F64] = "f8", [SL_DTYPE_F16] = "f2",  [SL_DTYPE_I8] = "i1",
    [SL_DTYPE_U8] = "u1",  [SL_DTYPE_U16] = "u2", [SL_DTYPE_I32] = "i4",  [SL_DTYPE_U32] = "u4",
    [SL_DTYPE_I64] = "i8", [SL_DTYPE_U64] = "u8", [SL_DTYPE_BOOL] = "b1", [SL_DTYPE_I16] = "i2",
};

/* ---- The header -------------------------------------------------------------------------------------------------- */

/* The value of a key in the header's dictionary, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }". */
static const char *find_value(const char *header, const char *key)
{
    const char *p = strstr(header, key);
    if (p == NULL) {
        return NULL;
    }
    p += strlen(key);
    p += strspn(p, " ");
    if (*p != ':') {
        return NULL;
    }
    p++;
    return p + strspn(p, " ");
}

/* "'<f4'": byte order, kind, item size. */
static bool read_type(const char *p, struct sl_npy *out)
{
    if (p == NULL || p[0] != '\'' || p[1] == '\0' || strchr("<|=", p[1]) == NULL) {
        return false;
    }
    for (int i = 0; i < SL_N_DTYPES; i++) {
        if (type_names[i] != NULL && strncmp(p + 2, type_names[i], 2) == 0 && p[4] == '\'') {
            out->dtype = (enum sl_dtype)i;
            return true;
        }
    }
    return false;
}

/* "(3, 4)", "(3,)" or "()". */
static bool read_shape(const char *p, const char *end, struct sl_npy *out)
{
    if (p == NULL || *p != '(') {
        return false;
    }
    p++;
    out->n_items = 1;
    for (p += strspn(p, " "); *p != ')'; p += strspn(p, " ")) {
        uint64_t length;
        if (out->n_dimensions == SL_NPY_MAX_DIMENSIONS) {
            return false;
        }
        p = sl_number_u64(p, end, &length);
        if (p == NULL || __builtin_mul_overflow(out->n_items, length, &out->n_items)) {
            return false;
        }
        out->shape[out->n_dimensions++] = length;
        p += strspn(p, " ");
        if (*p != ',' && *p != ')') {
            return false;
        }
        p += *p == ',';
    }
    return true;
}

static enum sl_status read_header(const char *where, const char *text, size_t bytes, struct sl_npy *out)
{
    const char *order = find_value(text, "'fortran_order'");
    const char *type = find_value(text, "'descr'");
    SL_FAIL_IF(!read_type(type, out), SL_EFILE,
               "%s: expected little-endian integers or floats of 1, 2, 4 or 8 bytes, found %.60s; starling convert "
               "makes them of a dataset's folder",
               where, text);
    SL_FAIL_IF(!read_shape(find_value(text, "'shape'"), text + bytes, out), SL_EFILE,
               "%s: expected a shape of at most %d lengths, found %.100s", where, SL_NPY_MAX_DIMENSIONS, text);
    if (order == NULL ||
        (strncmp(order, "False", 5) != 0 && (out->n_dimensions > 1 || strncmp(order, "True", 4) != 0))) {
        return sl_fail(
            SL_EFILE,
            "%s: expected C order, found %.100s; numpy.save(FILE, numpy.ascontiguousarray(array)), or starling "
            "convert the dataset's folder",
            where, text);
    }
    return SL_OK;
}

/* Parse an array: magic, version, length of the header, header, items. */
static enum sl_status parse(const char *where, const unsigned char *data, size_t bytes, struct sl_npy *out)
{
    char text[MAX_HEADER_BYTES + 1];
    if (bytes < MAGIC_BYTES + 4 || memcmp(data, "\x93NUMPY", 6) != 0 || data[6] < 1 || data[6] > 3) {
        return sl_fail(SL_EFILE, "%s: expected a NumPy array (version 1 to 3), found something else", where);
    }
    size_t length_bytes = data[6] == 1 ? 2 : 4;
    size_t length = data[8] | (size_t)data[9] << 8;
    if (length_bytes == 4) {
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    }
    size_t start = MAGIC_BYTES + length_bytes;
    SL_FAIL_IF(length > MAX_HEADER_BYTES || length > bytes - start, SL_EFILE,
               "%s: expected a header of at most %zu bytes, found one of %zu", where,
               (size_t)sl_min_u64(bytes - start, MAX_HEADER_BYTES), length);
    memcpy(text, data + start, length);
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    SL_CHECK(read_header(where, text, strlen(text), out));
    uint64_t needed;
    if (__builtin_mul_overflow(out->n_items, sl_dtype_size(out->dtype), &needed) || needed != bytes - start - length) {
        return sl_fail(SL_EFILE, "%s: expected %llu items of %zu bytes behind the header, found %zu bytes", where,
                       (unsigned long long)out->n_items, sl_dtype_size(out->dtype), bytes - start - length);
    }
    out->data = data + start + length;
    return SL_OK;
}

void sl_npy_header(enum sl_dtype dtype, uint64_t rows, uint64_t columns, char out[SL_NPY_HEADER_BYTES])
{
    const int prefix = MAGIC_BYTES + 2;
    char shape[24] = "";
    if (columns > 0) {
        snprintf(shape, sizeof shape, " %llu", (unsigned long long)columns);
    }
    memcpy(out, "\x93NUMPY\x01\x00", MAGIC_BYTES);
    out[MAGIC_BYTES] = (char)(SL_NPY_HEADER_BYTES - prefix);
    out[MAGIC_BYTES + 1] = 0;
    const int n = snprintf(out + prefix, (size_t)(SL_NPY_HEADER_BYTES - prefix),
                           "{'descr': '<%s', 'fortran_order': False, 'shape': (%llu,%s), }", type_names[dtype],
                           (unsigned long long)rows, shape);
    memset(out + prefix + n, ' ', (size_t)(SL_NPY_HEADER_BYTES - prefix - n));
    out[SL_NPY_HEADER_BYTES - 1] = '\n';
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

/* A safetensors file: the length of its header in 8 bytes, and a JSON object. */
static bool is_safetensors(const struct sl_map *map)
{
    const unsigned char *data = map->data;
    return map->bytes > 8 && data[8] == '{' && memcmp(data, "\x93NUMPY", 6) != 0;
}

static enum sl_status find_tensor(const char *path, const char *name, struct sl_npy *out)
{
    SL_CHECK(sl_safetensors_map(path, &out->tensors));
    const struct sl_tensor *tensor = sl_tensors_find(&out->tensors, name);
    SL_FAIL_IF(tensor == NULL, SL_EFILE, "%s: no tensor '%s' among its %u", path, name, out->tensors.n);
    out->dtype = tensor->dtype;
    out->n_dimensions = tensor->n_dims;
    out->n_items = sl_tensor_bytes(tensor) / sl_dtype_size(tensor->dtype);
    out->data = tensor->data;
    memcpy(out->shape, tensor->shape, tensor->n_dims * sizeof *out->shape);
    return SL_OK;
}

enum sl_status sl_npy_read(const char *path, const char *name, struct sl_npy *out)
{
    enum sl_status st;
    *out = (struct sl_npy){0};
    SL_CHECK(sl_file_map(path, &out->map));
    if (is_safetensors(&out->map)) {
        st = find_tensor(path, name, out);
    } else {
        st = parse(path, out->map.data, out->map.bytes, out);
    }
    if (st != SL_OK) {
        sl_npy_free(out);
    }
    return st;
}

enum sl_status sl_npy_find(const char *path, const char *const *names, int n, const char **out)
{
    SL_OWNED(sl_tensors_free) struct sl_tensors tensors = {0}; /* empty if the file is another one */
    const char *found = NULL;
    *out = NULL;
    if (sl_safetensors_map(path, &tensors) == SL_ENOMEM) {
        return SL_ENOMEM;
    }
    for (int i = 0; i < n && names[i] != NULL; i++) {
        if (sl_tensors_find(&tensors, names[i]) != NULL) {
            SL_FAIL_IF(found != NULL, SL_EFILE,
                       "%.300s: the table is there twice, as arrays %s and %s; expected one of them", path, found,
                       names[i]);
            found = names[i];
        }
    }
    *out = found;
    return SL_OK;
}

void sl_npy_free(struct sl_npy *array)
{
    sl_file_unmap(&array->map);
    sl_tensors_free(&array->tensors);
    *array = (struct sl_npy){0};
}

/* ---- Items ------------------------------------------------------------------------------------------------------- */

static bool is_real(const struct sl_npy *array)
{
    return array->dtype == SL_DTYPE_F32 || array->dtype == SL_DTYPE_F64 || array->dtype == SL_DTYPE_F16 ||
           array->dtype == SL_DTYPE_BF16;
}

/* The first length of an array; a single number is a row. */
static uint64_t count_rows(const struct sl_npy *array)
{
    return array->n_dimensions > 0 ? array->shape[0] : 1;
}

double sl_npy_real(const struct sl_npy *array, uint64_t i)
{
    return sl_dtype_number(array->dtype, array->data, i);
}

uint64_t sl_npy_whole(const struct sl_npy *array, uint64_t i, uint64_t limit)
{
    const double value = sl_npy_real(array, i);
    return value >= 0 && value < (double)limit && value == floor(value) ? (uint64_t)value : limit;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

/* A parallel conversion of items. `bad` records the first wrong item. */
struct conversion {
    const struct sl_npy *array;
    void *out;
    uint64_t first;           /* index of the item that goes to out[0] */
    uint64_t step;            /* from one converted item to the next */
    uint64_t limit;           /* of ids */
    bool (*is_good)(float x); /* of floats */
    _Atomic uint64_t bad;     /* UINT64_MAX: none */
};

static void to_ids(void *context, uint64_t begin, uint64_t end)
{
    struct conversion *conversion = context;
    sl_vertex *out = conversion->out;
    for (uint64_t i = begin; i < end; i++) {
        uint64_t value = sl_npy_whole(conversion->array, conversion->first + i * conversion->step, conversion->limit);
        if (value == conversion->limit) {
            sl_parallel_lower(&conversion->bad, i);
            return;
        }
        out[i] = (sl_vertex)value;
    }
}

static void to_floats(void *context, uint64_t begin, uint64_t end)
{
    struct conversion *conversion = context;
    float *out = conversion->out;
    for (uint64_t i = begin; i < end; i++) {
        out[i] = (float)sl_npy_real(conversion->array, i);
        if (!conversion->is_good(out[i])) {
            sl_parallel_lower(&conversion->bad, i);
            return;
        }
    }
}

/* Convert n items into a new block of elements of `bytes` bytes, conversion->out; sl_free. SL_EFILE: an item is wrong
 * (message: the first). On failure conversion->out is NULL. */
static enum sl_status convert(const char *path, const char *name, struct conversion *conversion, uint64_t n,
                              size_t bytes, void (*body)(void *context, uint64_t begin, uint64_t end),
                              const char *expected)
{
    char block[NAME_BYTES];
    snprintf(block, sizeof block, "%.400s: %s", path, name);
    SL_CHECK(sl_alloc(n, bytes, block, &conversion->out));
    atomic_store(&conversion->bad, UINT64_MAX);
    sl_parallel_for(n, GRAIN, body, conversion);
    uint64_t bad = atomic_load(&conversion->bad);
    if (bad == UINT64_MAX) {
        return SL_OK;
    }
    sl_free(conversion->out);
    conversion->out = NULL;
    bad = conversion->first + bad * conversion->step;
    return sl_fail(SL_EFILE, "%s: %s: item %llu: expected %s, found %g", path, name, (unsigned long long)bad, expected,
                   sl_npy_real(conversion->array, bad));
}

/* Copy items as they are, in row-major order. */
static void to_items(void *context, uint64_t begin, uint64_t end)
{
    struct conversion *conversion = context;
    const struct sl_npy *array = conversion->array;
    const size_t size = sl_dtype_size(array->dtype);
    for (uint64_t i = begin; i < end; i++) {
        if (is_real(array) && !isfinite(sl_npy_real(array, i))) {
            sl_parallel_lower(&conversion->bad, i);
            return;
        }
    }
    memcpy((char *)conversion->out + begin * size, array->data + begin * size, (end - begin) * size);
}

/* The scale of int8, from the array NAME_scale; 1 if there is none. */
static enum sl_status read_scale(const char *path, const char *name, float *out)
{
    char scale[64];
    const char *found;
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    *out = 1;
    snprintf(scale, sizeof scale, "%.50s_scale", name);
    SL_CHECK(sl_npy_find(path, (const char *const[]){scale}, 1, &found));
    if (found == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_npy_read(path, scale, &array));
    if (array.n_items == 1) {
        *out = (float)sl_npy_real(&array, 0);
    }
    SL_FAIL_IF(array.n_items != 1 || !isfinite(*out), SL_EFILE, "%s: %s: expected one finite number, the scale of %s",
               path, scale, name);
    return SL_OK;
}

static bool is_finite(float x)
{
    return isfinite(x);
}

static enum sl_dtype feature_dtype(const struct sl_npy *array)
{
    return sl_dtype_is_convertible(array->dtype) ? array->dtype : SL_DTYPE_F32;
}

static enum sl_status convert_features(const char *path, const char *name, const struct sl_npy *array,
                                       struct sl_features *out)
{
    SL_OWNED(sl_features_free)
    struct sl_features features = {.n_rows = (uint32_t)array->shape[0], .n_columns = (uint32_t)array->shape[1]};
    struct conversion conversion = {.array = array, .step = 1, .is_good = is_finite};
    const enum sl_dtype dtype = feature_dtype(array);
    SL_CHECK(convert(path, name, &conversion, array->n_items, sl_dtype_size(dtype),
                     dtype == array->dtype ? to_items : to_floats, "a finite number"));
    features.dense = sl_column_take(dtype, features.n_rows, features.n_columns, conversion.out);
    if (dtype == SL_DTYPE_I8) {
        SL_CHECK(read_scale(path, name, &features.dense.scale));
    }
    SL_CHECK(sl_features_settle(&features));
    *out = SL_TAKE(features);
    return SL_OK;
}

enum sl_status sl_npy_read_features(const char *path, const char *name, uint32_t n_rows, struct sl_features *out)
{
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    *out = (struct sl_features){0};
    SL_CHECK(sl_npy_read(path, name, &array));
    SL_FAIL_IF(
        array.n_dimensions == 2 && array.shape[1] == 0, SL_EFILE,
        "%s: %s: expected the shape (%u, 1 to %d), found no columns; or make features: --features " SL_FEATURE_WORDS,
        path, name, n_rows, MAX_COLUMNS);
    SL_FAIL_IF(array.n_dimensions != 2 || array.shape[0] != n_rows || array.shape[1] > MAX_COLUMNS, SL_EFILE,
               "%s: %s: expected the shape (%u, 1 to %d), found %u dimensions and %llu rows", path, name, n_rows,
               MAX_COLUMNS, array.n_dimensions, (unsigned long long)count_rows(&array));
    return convert_features(path, name, &array, out);
}

enum sl_status sl_npy_read_targets(const char *path, const char *name, uint32_t n_rows, enum sl_target_choice choice,
                                   struct sl_targets *out)
{
    const bool classes = choice == SL_TARGETS_CLASSES;
    const uint64_t most = classes ? 1 : SL_MAX_CLASSES;
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    struct conversion conversion = {
        .array = &array, .step = 1, .is_good = classes ? sl_target_is_class : sl_target_is_number};
    SL_CHECK(sl_npy_read(path, name, &array));
    uint64_t width = array.n_dimensions == 2 ? array.shape[1] : 1;
    bool fits =
        (array.n_dimensions == 1 || array.n_dimensions == 2) && array.shape[0] == n_rows && width > 0 && width <= most;
    SL_FAIL_IF(!fits, SL_EFILE, "%s: %s: expected the shape (%u,) or (%u, %s), found %llu items", path, name, n_rows,
               n_rows, classes ? "1" : "1 to 65536", (unsigned long long)array.n_items);
    SL_CHECK(convert(path, name, &conversion, array.n_items, sizeof(float), to_floats,
                     classes ? "a class from 0 to 65535, or nan" : "a finite number, or nan"));
    SL_CHECK(sl_targets_take(path, conversion.out, n_rows, (uint32_t)width, choice, out));
    if (choice == SL_TARGETS_ANY && is_real(&array)) {
        sl_targets_tell_whole(path, out);
    }
    return SL_OK;
}

enum sl_status sl_npy_read_lines(const char *path, const char *name, char **out)
{
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    SL_CHECK(sl_npy_read(path, name, &array));
    const char *bytes = (const char *)array.data;
    const uint64_t n = array.n_items;
    SL_FAIL_IF(array.dtype != SL_DTYPE_U8 || n == 0 || bytes[n - 1] != '\n' || memchr(bytes, '\0', n) != NULL, SL_EFILE,
               "%s: %s: expected the bytes of lines", path, name);
    SL_CHECK(sl_alloc(n + 1, 1, "lines", out));
    memcpy(*out, bytes, n);
    (*out)[n] = '\0';
    return SL_OK;
}

/* ---- Counts, ids, edges ------------------------------------------------------------------------------------------ */

enum sl_status sl_npy_count(const char *path, const char *name, struct sl_npy_counts *out)
{
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    SL_CHECK(sl_npy_read(path, name, &array));
    out->rows = count_rows(&array);
    out->items = array.n_items;
    out->feature_bytes = array.n_items * sl_dtype_size(feature_dtype(&array));
    return SL_OK;
}

enum sl_status sl_npy_read_count(const char *path, const char *name, uint64_t limit, uint64_t *out)
{
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    SL_CHECK(sl_npy_read(path, name, &array));
    const uint64_t n = array.n_items == 1 ? sl_npy_whole(&array, 0, limit) : limit;
    SL_FAIL_IF(n == limit, SL_EFILE, "%s: %s: expected one number below %llu", path, name, (unsigned long long)limit);
    *out = n;
    return SL_OK;
}

enum sl_status sl_npy_read_ids(const char *path, const char *name, uint32_t n_vertices, struct sl_ids *out)
{
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    SL_CHECK(sl_npy_read(path, name, &array));
    const bool mask = array.dtype == SL_DTYPE_BOOL;
    const uint64_t n = array.n_items;
    struct conversion conversion = {.array = &array, .step = 1, .limit = mask ? 256 : n_vertices};
    char expected[48];
    snprintf(expected, sizeof expected, "an id below %u", n_vertices);
    SL_FAIL_IF(array.n_dimensions == 0 || n != array.shape[0] || n > n_vertices || (mask && n != n_vertices), SL_EFILE,
               "%s: %s: expected at most %u ids, or a mask of %u booleans, found %llu items", path, name, n_vertices,
               n_vertices, (unsigned long long)n);
    SL_CHECK(convert(path, name, &conversion, n, sizeof *out->ids, to_ids, expected));
    return sl_ids_take(path, n_vertices, mask, n, conversion.out, out);
}

static enum sl_status convert_edges(const char *path, const char *name, const struct sl_npy *array, uint32_t n_vertices,
                                    sl_vertex **ends[2])
{
    bool two_rows = array->shape[0] == 2;
    uint64_t n = two_rows ? array->shape[1] : array->shape[0];
    char expected[48];
    snprintf(expected, sizeof expected, "an id below %u", n_vertices);
    for (uint64_t i = 0; i < 2; i++) {
        struct conversion conversion = {
            .array = array, .first = two_rows ? i * n : i, .step = two_rows ? 1 : 2, .limit = n_vertices};
        SL_CHECK(convert(path, name, &conversion, n, sizeof(sl_vertex), to_ids, expected));
        *ends[i] = conversion.out;
    }
    return SL_OK;
}

enum sl_status sl_npy_read_weights(const char *path, const char *name, uint64_t n_edges, float **out)
{
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    struct conversion conversion = {.array = &array, .step = 1, .is_good = sl_weight_is_valid};
    SL_CHECK(sl_npy_read(path, name, &array));
    SL_FAIL_IF(array.n_items != n_edges || array.n_dimensions == 0 || array.shape[0] != n_edges, SL_EFILE,
               "%s: %s: expected the shape (%llu,), one weight per edge, found %llu items", path, name,
               (unsigned long long)n_edges, (unsigned long long)array.n_items);
    SL_CHECK(convert(path, name, &conversion, n_edges, sizeof **out, to_floats, SL_WEIGHT_EXPECTED));
    *out = conversion.out;
    return SL_OK;
}

enum sl_status sl_npy_read_edges(const char *path, const char *name, uint32_t n_vertices, uint64_t *n_edges_out,
                                 sl_vertex **from_out, sl_vertex **to_out)
{
    SL_OWNED(sl_npy_free) struct sl_npy array = {0};
    SL_FREED sl_vertex *from = NULL;
    SL_FREED sl_vertex *to = NULL;
    SL_CHECK(sl_npy_read(path, name, &array));
    SL_FAIL_IF(array.n_dimensions != 2 || (array.shape[0] != 2 && array.shape[1] != 2), SL_EFILE,
               "%s: %s: expected the shape (2, edges) or (edges, 2), found %u dimensions and %llu items", path, name,
               array.n_dimensions, (unsigned long long)array.n_items);
    SL_CHECK(convert_edges(path, name, &array, n_vertices, (sl_vertex * *[]){&from, &to}));
    if (array.shape[0] == 2 && array.shape[1] == 2) {
        sl_notify(SL_NOTICE_WARNING,
                  "%s: %s: found the shape (2, 2), taken as a row of sources and a row of destinations", path, name);
    }
    *n_edges_out = array.n_items / 2;
    *from_out = SL_TAKE(from);
    *to_out = SL_TAKE(to);
    return SL_OK;
}
