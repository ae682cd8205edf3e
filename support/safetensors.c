/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing and reading safetensors. jansson parses the header; offsets and sizes are checked here. */
#include "support/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/convert.h"
#include "support/memory.h"
#include "support/text.h"

#define LENGTH_BYTES 8
#define HEADER_LIMIT ((size_t)16 << 20) /* longest header that is read: a hundred thousand tensors */
#define FILE_LIMIT ((size_t)1 << 40)
#define SHAPE_BYTES 80 /* text of a shape: three numbers of 20 digits */
#define METADATA_NAME "__metadata__"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are written as they lie in memory");

static const char *const type_names[SL_N_DTYPES] = {
    [SL_DTYPE_F32] = "F32", [SL_DTYPE_F64] = "F64", [SL_DTYPE_F16] = "F16", [SL_DTYPE_BF16] = "BF16",
    [SL_DTYPE_I8] = "I8",   [SL_DTYPE_U8] = "U8",   [SL_DTYPE_U16] = "U16", [SL_DTYPE_I32] = "I32",
    [SL_DTYPE_U32] = "U32", [SL_DTYPE_I64] = "I64", [SL_DTYPE_U64] = "U64", [SL_DTYPE_BOOL] = "BOOL",
    [SL_DTYPE_I16] = "I16",
};

/* ---- Shapes ------------------------------------------------------------------------------------------------------ */

/* Bytes of the array. False: overflow. */
static bool bytes_of(const struct sl_tensor *t, uint64_t *out)
{
    uint64_t bytes = sl_dtype_size(t->dtype);
    for (uint32_t d = 0; d < t->n_dims; d++) {
        if (__builtin_mul_overflow(bytes, t->shape[d], &bytes)) {
            return false;
        }
    }
    *out = bytes;
    return true;
}

uint64_t sl_tensor_bytes(const struct sl_tensor *tensor)
{
    uint64_t bytes = 0;
    return bytes_of(tensor, &bytes) ? bytes : 0;
}

/* "[40,256]" */
static void shape_text(const struct sl_tensor *t, char *out, size_t bytes)
{
    int used = snprintf(out, bytes, "[");
    for (uint32_t d = 0; d < t->n_dims; d++) {
        used += snprintf(out + used, bytes - (size_t)used, "%s%llu", d > 0 ? "," : "", (unsigned long long)t->shape[d]);
    }
    snprintf(out + used, bytes - (size_t)used, "]");
}

struct sl_tensor sl_tensor_make(const char *name, enum sl_dtype dtype, uint64_t rows, uint64_t columns,
                                const void *data)
{
    struct sl_tensor t = {.dtype = dtype, .shape = {rows, columns}, .data = data};
    if (columns > 0) {
        t.n_dims = 2;
    } else if (rows > 0) {
        t.n_dims = 1;
    }
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* Set the start of each tensor in the data: tensors with 8-byte entries first, then smaller entries. */
static enum sl_status lay_out(const struct sl_tensor *tensors, uint32_t n, uint64_t *begins)
{
    uint64_t end = 0;
    for (size_t size = 8; size > 0; size /= 2) {
        for (uint32_t i = 0; i < n; i++) {
            uint64_t bytes;
            if (sl_dtype_size(tensors[i].dtype) != size) {
                continue;
            }
            begins[i] = end;
            if (!bytes_of(&tensors[i], &bytes) || __builtin_add_overflow(end, bytes, &end) || end > INT64_MAX) {
                return sl_fail(SL_EINVAL, "tensor %s: its size overflows", tensors[i].name);
            }
        }
    }
    return SL_OK;
}

static json_t *tensor_json(const struct sl_tensor *t, uint64_t begin)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < t->n_dims; d++) {
        if (json_array_append_new(shape, json_integer((json_int_t)t->shape[d])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_names[t->dtype], "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + sl_tensor_bytes(t)));
}

/* Add a member with a new name. Takes over `value`. */
static enum sl_status add(json_t *object, const char *name, json_t *value)
{
    SL_FAIL_IF(value == NULL, SL_ENOMEM, "safetensors: no memory for '%.200s', or its text is no UTF-8", name);
    if (json_object_get(object, name) != NULL) {
        json_decref(value);
        return sl_fail(SL_EINVAL, "safetensors: the name '%.200s' is there twice", name);
    }
    SL_FAIL_IF(json_object_set_new(object, name, value) != 0, SL_ENOMEM,
               "safetensors: no memory for the name '%.200s', or it is no UTF-8", name);
    return SL_OK;
}

static enum sl_status header_json(const struct sl_tensor *tensors, uint32_t n, const uint64_t *begins,
                                  const struct sl_metadata *metadata, uint32_t n_metadata, json_t *header)
{
    if (n_metadata > 0) {
        json_t *strings = json_object();
        SL_CHECK(add(header, METADATA_NAME, strings));
        for (uint32_t i = 0; i < n_metadata; i++) {
            SL_CHECK(add(strings, metadata[i].key, json_string(metadata[i].value)));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        SL_CHECK(add(header, tensors[i].name, tensor_json(&tensors[i], begins[i])));
    }
    return SL_OK;
}

static void release_text(char **text)
{
    json_free_t release;
    json_get_alloc_funcs(NULL, &release);
    release(*text);
}

static void release_json(json_t **json)
{
    json_decref(*json);
}

/* Write length and header. Spaces pad the header, so that the data are aligned. */
static enum sl_status put_header(struct sl_writer *writer, const json_t *header)
{
    char spaces[SL_TENSOR_ALIGNMENT];
    SL_OWNED(release_text) char *text = json_dumps(header, JSON_COMPACT);
    SL_FAIL_IF(text == NULL, SL_ENOMEM, "safetensors header: no memory");
    size_t n = strlen(text);
    size_t padding = (SL_TENSOR_ALIGNMENT - (LENGTH_BYTES + n) % SL_TENSOR_ALIGNMENT) % SL_TENSOR_ALIGNMENT;
    uint64_t length = n + padding;
    memset(spaces, ' ', sizeof spaces);
    SL_CHECK(sl_writer_put(writer, &length, LENGTH_BYTES));
    SL_CHECK(sl_writer_put(writer, text, n));
    return sl_writer_put(writer, spaces, padding);
}

/* The order of lay_out. */
static enum sl_status put_data(struct sl_writer *writer, const struct sl_tensor *tensors, uint32_t n)
{
    for (size_t size = 8; size > 0; size /= 2) {
        for (uint32_t i = 0; i < n; i++) {
            uint64_t bytes = sl_tensor_bytes(&tensors[i]);
            if (sl_dtype_size(tensors[i].dtype) != size || bytes == 0) {
                continue;
            }
            SL_CHECK(sl_writer_put(writer, tensors[i].data, bytes));
        }
    }
    return SL_OK;
}

enum sl_status sl_safetensors_put(struct sl_writer *writer, const struct sl_tensor *tensors, uint32_t n,
                                  const struct sl_metadata *metadata, uint32_t n_metadata)
{
    SL_OWNED(release_json) json_t *header = json_object();
    SL_FREED uint64_t *begins = NULL;
    SL_CHECK(sl_alloc(n, sizeof *begins, "tensor offsets", &begins));
    SL_CHECK(lay_out(tensors, n, begins));
    SL_CHECK(header_json(tensors, n, begins, metadata, n_metadata, header));
    SL_CHECK(put_header(writer, header));
    return put_data(writer, tensors, n);
}

enum sl_status sl_safetensors_write(const char *path, const struct sl_tensor *tensors, uint32_t n,
                                    const struct sl_metadata *metadata, uint32_t n_metadata)
{
    SL_OWNED(sl_writer_abort) struct sl_writer writer = {0};
    SL_CHECK(sl_writer_open(path, &writer));
    SL_CHECK(sl_safetensors_put(&writer, tensors, n, metadata, n_metadata));
    SL_CHECK(sl_writer_sync(&writer));
    return sl_writer_close(&writer);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* A file being read: its data, and the tensors so far. */
struct reader {
    const char *path;
    const char *data;
    uint64_t data_bytes;
    struct sl_tensors *out;
};

static enum sl_status bad_tensor(const struct reader *r, const char *name, const char *expected)
{
    return sl_fail(SL_EFILE, "%s: tensor '%.127s': expected %s", r->path, name, expected);
}

static enum sl_status read_dtype(const struct reader *r, const char *name, const json_t *value, struct sl_tensor *t)
{
    const char *type = json_string_value(value);
    for (int i = 0; i < SL_N_DTYPES; i++) {
        if (type != NULL && strcmp(type, type_names[i]) == 0) {
            t->dtype = (enum sl_dtype)i;
            return SL_OK;
        }
    }
    return sl_fail(
        SL_EFILE,
        "%s: tensor '%.127s': found type '%.20s', expected F64, F32, F16, BF16, BOOL, or a whole number of 8 to 64 "
        "bits; save it as float32",
        r->path, name, sl_text_or(type, "none"));
}

static enum sl_status read_shape(const struct reader *r, const char *name, const json_t *value, struct sl_tensor *t)
{
    size_t n = json_array_size(value); /* 0 if it is not an array */
    if (!json_is_array(value) || n > SL_TENSOR_DIMENSIONS) {
        return bad_tensor(r, name, "a shape of at most three dimensions");
    }
    for (size_t d = 0; d < n; d++) {
        const json_t *size = json_array_get(value, d);
        if (!json_is_integer(size) || json_integer_value(size) < 0) {
            return bad_tensor(r, name, "a shape of whole numbers");
        }
        t->shape[d] = (uint64_t)json_integer_value(size);
    }
    t->n_dims = (uint32_t)n;
    return SL_OK;
}

/* Check that the offsets lie inside the data and agree with the shape, and set the tensor's data. */
static enum sl_status read_place(const struct reader *r, const char *name, json_t *value, struct sl_tensor *t)
{
    json_int_t first;
    json_int_t second;
    uint64_t bytes;
    if (json_unpack(value, "[I, I!]", &first, &second) != 0) {
        return bad_tensor(r, name, "two data_offsets, whole numbers");
    }
    const uint64_t begin = (uint64_t)first; /* a negative number is too large now */
    const uint64_t end = (uint64_t)second;
    if (begin > end || end > r->data_bytes) {
        return bad_tensor(r, name, "data_offsets inside the file; is it cut short?");
    }
    if (!bytes_of(t, &bytes) || bytes != end - begin) {
        return bad_tensor(r, name, "data_offsets that span what its shape and type need");
    }
    t->data = r->data + begin;
    return SL_OK;
}

static enum sl_status read_tensor(const struct reader *r, const char *name, const json_t *value, struct sl_tensor *t)
{
    *t = (struct sl_tensor){0};
    if (strlen(name) >= sizeof t->name) {
        return bad_tensor(r, name, "a name of at most 127 bytes");
    }
    if (!json_is_object(value)) {
        return bad_tensor(r, name, "an object of dtype, shape and data_offsets");
    }
    snprintf(t->name, sizeof t->name, "%s", name);
    SL_CHECK(read_dtype(r, name, json_object_get(value, "dtype"), t));
    SL_CHECK(read_shape(r, name, json_object_get(value, "shape"), t));
    return read_place(r, name, json_object_get(value, "data_offsets"), t);
}

static enum sl_status read_metadata(struct reader *r, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (metadata == NULL) {
        return SL_OK;
    }
    SL_FAIL_IF(!json_is_object(metadata), SL_EFILE, "%s: expected " METADATA_NAME " to be an object of strings",
               r->path);
    SL_CHECK(sl_alloc(json_object_size(metadata), sizeof *r->out->metadata, "metadata", &r->out->metadata));
    json_object_foreach(metadata, key, value)
    {
        SL_FAIL_IF(!json_is_string(value), SL_EFILE, "%s: metadata '%.100s': expected a string", r->path, key);
        r->out->metadata[r->out->n_metadata++] = (struct sl_metadata){key, json_string_value(value)};
    }
    return SL_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct sl_tensor *s = *(const struct sl_tensor *const *)a;
    const struct sl_tensor *t = *(const struct sl_tensor *const *)b;
    if (s->data != t->data) {
        return (const char *)s->data < (const char *)t->data ? -1 : 1;
    }
    return (sl_tensor_bytes(s) > 0) - (sl_tensor_bytes(t) > 0); /* empty ones first */
}

/* The format asks that the arrays cover the data without gaps or overlap. */
static enum sl_status check_cover(const struct reader *r)
{
    SL_FREED const struct sl_tensor **sorted = NULL;
    uint32_t n = r->out->n;
    SL_CHECK(sl_alloc(n, sizeof(void *), "tensor order", &sorted));
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = &r->out->tensors[i];
    }
    qsort(sorted, n, sizeof(void *), compare_places);
    const char *end = r->data;
    for (uint32_t i = 0; i < n; i++) {
        if (sorted[i]->data != end) {
            return bad_tensor(r, sorted[i]->name, "its data right behind another's, without gap or overlap");
        }
        end = (const char *)sorted[i]->data + sl_tensor_bytes(sorted[i]);
    }
    SL_FAIL_IF(end != r->data + r->data_bytes, SL_EFILE,
               "%s: found %llu bytes of data, expected the tensors to end there, not at %llu", r->path,
               (unsigned long long)r->data_bytes, (unsigned long long)(end - r->data));
    return SL_OK;
}

static enum sl_status read_header(struct reader *r, json_t *header)
{
    const char *name;
    json_t *value;
    struct sl_tensors *out = r->out;
    SL_CHECK(sl_alloc(json_object_size(header), sizeof *out->tensors, "tensors", &out->tensors));
    SL_CHECK(read_metadata(r, json_object_get(header, METADATA_NAME)));
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, METADATA_NAME) != 0) {
            SL_CHECK(read_tensor(r, name, value, &out->tensors[out->n]));
            out->n++;
        }
    }
    return check_cover(r);
}

/* Read the header's length, and check it against the file's. */
static enum sl_status header_length(const char *path, const char *bytes, size_t n, uint64_t *out)
{
    SL_FAIL_IF(n < LENGTH_BYTES, SL_EFILE, "%s: found %zu bytes, expected a safetensors file", path, n);
    uint64_t length;
    memcpy(&length, bytes, LENGTH_BYTES);
    if (length <= n - LENGTH_BYTES && length <= HEADER_LIMIT) {
        *out = length;
        return SL_OK;
    }
    if (memcmp(bytes, "PK\3\4", 4) == 0 || (unsigned char)bytes[0] == 0x80) { /* a zip archive, or a pickle */
        return sl_fail(
            SL_EFILE,
            "%s: found a PyTorch file, expected a safetensors file: torch.load it, then safetensors.torch.save_file",
            path);
    }
    SL_FAIL_IF(n == LENGTH_BYTES || bytes[LENGTH_BYTES] != '{', SL_EFILE,
               "%s: not a safetensors file: expected the length of a header and a {", path);
    return sl_fail(SL_EFILE, "%s: found a header of %llu bytes in a file of %zu, expected a whole safetensors file",
                   path, (unsigned long long)length, n);
}

static enum sl_status load_header(const char *path, const char *text, size_t n, json_t **out)
{
    json_error_t error;
    json_t *header = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    /* jansson has a message for every other error */
    SL_FAIL_IF(header == NULL && error.text[0] == '\0', SL_ENOMEM, "safetensors header: no memory");
    if (!json_is_object(header)) {
        json_decref(header);
        return sl_fail(SL_EFILE, "%s: expected a JSON object as the header: %s", path,
                       header == NULL ? error.text : "it is another value");
    }
    *out = header;
    return SL_OK;
}

/* Parse a file's bytes. On success the tensors of *out point into them. On failure *out is empty. */
static enum sl_status parse(const char *path, const char *bytes, size_t n, struct sl_tensors *out)
{
    SL_OWNED(sl_tensors_free) struct sl_tensors made = {0};
    uint64_t length = 0;
    json_t *header = NULL;
    *out = (struct sl_tensors){0};
    SL_CHECK(header_length(path, bytes, n, &length));
    SL_CHECK(load_header(path, bytes + LENGTH_BYTES, length, &header));
    made.header = header;
    struct reader reader = {
        .path = path,
        .data = bytes + LENGTH_BYTES + length,
        .data_bytes = n - LENGTH_BYTES - length,
        .out = &made,
    };
    SL_CHECK(sl_strdup(path, &made.path));
    SL_CHECK(read_header(&reader, header));
    *out = SL_TAKE(made);
    return SL_OK;
}

enum sl_status sl_safetensors_parse(const char *path, char *bytes, size_t n, struct sl_tensors *out)
{
    SL_CHECK(parse(path, bytes, n, out));
    out->bytes = bytes;
    return SL_OK;
}

enum sl_status sl_safetensors_map(const char *path, struct sl_tensors *out)
{
    struct sl_map map;
    *out = (struct sl_tensors){0};
    enum sl_status st = SL_OK;
    SL_CHECK(sl_file_map(path, &map));
    st = parse(path, (const char *)map.data, map.bytes, out);
    if (st != SL_OK) {
        sl_file_unmap(&map);
        return st;
    }
    out->map = map;
    return SL_OK;
}

enum sl_status sl_safetensors_read(const char *path, struct sl_tensors *out)
{
    char *bytes;
    size_t n;
    *out = (struct sl_tensors){0};
    enum sl_status st = SL_OK;
    SL_CHECK(sl_file_read(path, FILE_LIMIT, &bytes, &n));
    st = sl_safetensors_parse(path, bytes, n, out);
    if (st != SL_OK) {
        sl_free(bytes);
    }
    return st;
}

void sl_tensors_drop(struct sl_tensors *tensors)
{
    sl_free(tensors->bytes);
    tensors->bytes = NULL;
    sl_file_unmap(&tensors->map);
    for (uint32_t i = 0; i < tensors->n; i++) {
        tensors->tensors[i].data = NULL;
    }
}

void sl_tensors_free(struct sl_tensors *tensors)
{
    if (tensors != NULL) {
        sl_free(tensors->path);
        sl_free(tensors->bytes);
        sl_file_unmap(&tensors->map);
        sl_free(tensors->tensors);
        sl_free(tensors->metadata);
        json_decref(tensors->header);
        *tensors = (struct sl_tensors){0};
    }
}

/* ---- Access ------------------------------------------------------------------------------------------------------ */

const struct sl_tensor *sl_tensors_find(const struct sl_tensors *tensors, const char *name)
{
    for (uint32_t i = 0; i < tensors->n; i++) {
        if (strcmp(tensors->tensors[i].name, name) == 0) {
            return &tensors->tensors[i];
        }
    }
    return NULL;
}

const char *sl_tensors_metadata(const struct sl_tensors *tensors, const char *key)
{
    for (uint32_t i = 0; i < tensors->n_metadata; i++) {
        if (strcmp(tensors->metadata[i].key, key) == 0) {
            return tensors->metadata[i].value;
        }
    }
    return NULL;
}

/* Copy n entries: of float to double, or of double to float. */
static void convert(const struct sl_tensor *from, uint64_t n, enum sl_dtype dtype, void *out)
{
    for (uint64_t i = 0; i < n; i++) {
        const double value = sl_dtype_number(from->dtype, from->data, i);
        if (dtype == SL_DTYPE_F64) {
            ((double *)out)[i] = value;
        } else {
            ((float *)out)[i] = (float)value;
        }
    }
}

static bool is_float(enum sl_dtype dtype)
{
    return dtype == SL_DTYPE_F32 || dtype == SL_DTYPE_F64;
}

enum sl_status sl_tensors_get(const struct sl_tensors *tensors, const struct sl_tensor *wanted, void *out)
{
    char found_shape[SHAPE_BYTES];
    char wanted_shape[SHAPE_BYTES];
    const struct sl_tensor *found = sl_tensors_find(tensors, wanted->name);
    SL_FAIL_IF(found == NULL, SL_EFILE, "%s: no tensor '%s' among its %u; expected a model of the same options",
               tensors->path, wanted->name, tensors->n);
    shape_text(found, found_shape, sizeof found_shape);
    shape_text(wanted, wanted_shape, sizeof wanted_shape);
    SL_FAIL_IF(strcmp(found_shape, wanted_shape) != 0, SL_EFILE,
               "%s: tensor '%s': found shape %s, expected %s; were the model's options the same?", tensors->path,
               wanted->name, found_shape, wanted_shape);
    const uint64_t bytes = sl_tensor_bytes(found);
    if (found->dtype == wanted->dtype) {
        memcpy(out, found->data, bytes);
    } else if (is_float(found->dtype) && is_float(wanted->dtype)) {
        convert(found, bytes / sl_dtype_size(found->dtype), wanted->dtype, out);
    } else {
        return sl_fail(SL_EFILE, "%s: tensor '%s': found type %s, expected %s%s", tensors->path, wanted->name,
                       type_names[found->dtype], type_names[wanted->dtype],
                       wanted->dtype == SL_DTYPE_F32 ? "; save it as float32" : "");
    }
    return SL_OK;
}
