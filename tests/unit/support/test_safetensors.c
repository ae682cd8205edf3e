/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/safetensors.h: round trips, the layout that other programs read, and hostile files. */
#include "support/safetensors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/file.h"
#include "support/memory.h"
#include "tests/support/test.h"

static char path[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(path, "/tmp/starling-tensors-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    remove(path);
    return sl_memory_live() == 0 ? 0 : -1;
}

/* ---- A file of every kind ---------------------------------------------------------------------------------------- */

static const uint8_t bytes[3] = {1, 2, 255};
static const float matrix[2][3] = {{1, -2, 3.5f}, {4, 5, 6e-38f}};
static const double doubles[4] = {1.0 / 3, -0.0, 1e300, 5e-324};
static const uint16_t halves[3] = {0x3f80, 0xc000, 0x7f80};
static const uint64_t wide[1] = {UINT64_MAX};
static const int64_t number = -7;

static const struct sl_metadata metadata[] = {{"format", "pt"}, {"options", "--lr \"0.1\"\n\xc3\xa9"}};

#define N_TENSORS 8

static void make_tensors(struct sl_tensor out[N_TENSORS])
{
    out[0] = sl_tensor_make("flags", SL_DTYPE_U8, 3, 0, bytes);
    out[1] = sl_tensor_make("layers.0.fc_self.weight", SL_DTYPE_F32, 2, 3, matrix);
    out[2] = sl_tensor_make("moments", SL_DTYPE_F64, 4, 0, doubles);
    out[3] = sl_tensor_make("wide", SL_DTYPE_U64, 1, 1, wide);
    out[4] = sl_tensor_make("number", SL_DTYPE_I64, 0, 0, &number);
    out[5] = sl_tensor_make("empty", SL_DTYPE_F32, 0, 5, NULL);
    out[6] = (struct sl_tensor){"heads", SL_DTYPE_F32, 3, {1, 3, 2}, matrix};
    out[7] = sl_tensor_make("halves", SL_DTYPE_BF16, 3, 1, halves);
}

static void write_all(void)
{
    struct sl_tensor tensors[N_TENSORS];
    make_tensors(tensors);
    assert_int_equal(sl_safetensors_write(path, tensors, N_TENSORS, metadata, 2), SL_OK);
}

static void check_written(enum sl_status read(const char *path, struct sl_tensors *out))
{
    struct sl_tensor tensors[N_TENSORS];
    OWNED(sl_tensors_free) struct sl_tensors found;
    make_tensors(tensors);
    write_all();
    assert_int_equal(read(path, &found), SL_OK);
    assert_int_equal(found.n, N_TENSORS);
    for (int i = 0; i < N_TENSORS; i++) {
        char copy[64];
        memset(copy, 0x5a, sizeof copy);
        assert_string_equal(found.tensors[i].name, tensors[i].name); /* in the order given */
        assert_int_equal(found.tensors[i].n_dims, tensors[i].n_dims);
        assert_int_equal(sl_tensors_get(&found, &tensors[i], copy), SL_OK);
        size_t n = sl_tensor_bytes(&tensors[i]);
        assert_true(n == 0 || memcmp(copy, tensors[i].data, n) == 0);
        assert_int_equal(copy[n], 0x5a);
    }
    assert_int_equal(sl_tensor_bytes(&tensors[1]), 24);
    assert_int_equal(found.n_metadata, 2);
    assert_string_equal(sl_tensors_metadata(&found, "format"), "pt");
    assert_string_equal(sl_tensors_metadata(&found, "options"), metadata[1].value);
    assert_null(sl_tensors_metadata(&found, "forma"));
    assert_null(sl_tensors_find(&found, "wid"));
    sl_tensors_free(NULL);
}

TEST_WITH(what_is_written_is_read, set_up, tear_down)
{
    check_written(sl_safetensors_read);
    check_written(sl_safetensors_map);
}

/* A mapped file: the data begin at a multiple of 64, and a file that is none is refused without a map left behind. */
TEST_WITH(a_map_is_aligned_or_refused, set_up, tear_down)
{
    struct sl_tensors found;
    write_all();
    assert_int_equal(sl_safetensors_map(path, &found), SL_OK);
    assert_int_equal((uintptr_t)sl_tensors_find(&found, "moments")->data % SL_TENSOR_ALIGNMENT, 0);
    sl_tensors_free(&found);
    FILE *stream = fopen(path, "w");
    fclose(stream);
    assert_int_equal(sl_safetensors_map(path, &found), SL_EFILE);
    assert_null(found.map.data);
    assert_int_equal(sl_safetensors_map("/nowhere/x", &found), SL_EIO);
}

/* Each dtype has a name in a file. */
TEST_WITH(every_dtype_comes_back, set_up, tear_down)
{
    for (int i = 0; i < SL_N_DTYPES; i++) {
        const struct sl_tensor made = sl_tensor_make("x", (enum sl_dtype)i, 2, 0, doubles);
        OWNED(sl_tensors_free) struct sl_tensors found;
        char copy[16];
        assert_int_equal(sl_safetensors_write(path, &made, 1, NULL, 0), SL_OK);
        assert_int_equal(sl_safetensors_read(path, &found), SL_OK);
        assert_int_equal(found.tensors[0].dtype, i);
        assert_int_equal(sl_tensors_get(&found, &made, copy), SL_OK);
        assert_memory_equal(copy, doubles, sl_tensor_bytes(&made));
    }
}

/* The bytes of a small file, as other programs write and expect them. */
TEST_WITH(the_layout_is_the_published_one, set_up, tear_down)
{
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"b\"},\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}";
    const float w[2] = {1, 2};
    const struct sl_metadata m = {"a", "b"};
    struct sl_tensor tensors[2] = {sl_tensor_make("u", SL_DTYPE_U8, 1, 0, bytes),
                                   sl_tensor_make("w", SL_DTYPE_F32, 2, 1, w)};
    assert_int_equal(sl_safetensors_write(path, tensors, 2, &m, 1), SL_OK);
    OWNED(sl_free_it) char *text;
    size_t n;
    assert_int_equal(sl_file_read(path, 1000, &text, &n), SL_OK);
    size_t length = (8 + sizeof header - 1 + 63) / 64 * 64 - 8; /* spaces, so that the data are at a multiple of 64 */
    assert_int_equal(n, 8 + length + 9);
    assert_int_equal((unsigned char)text[0], length);
    assert_memory_equal(text + 1, "\0\0\0\0\0\0\0", 7);
    assert_memory_equal(text + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < length; i++) {
        assert_int_equal(text[8 + i], ' ');
    }
    assert_memory_equal(text + 8 + length, "\0\0\x80\x3f\0\0\0\x40\x01",
                        9); /* 1.0f, 2.0f little-endian, then the byte */
}

TEST_WITH(the_same_input_gives_the_same_bytes, set_up, tear_down)
{
    OWNED(sl_free_it) char *first;
    OWNED(sl_free_it) char *second;
    size_t n;
    size_t m;
    write_all();
    assert_int_equal(sl_file_read(path, 10000, &first, &n), SL_OK);
    write_all();
    assert_int_equal(sl_file_read(path, 10000, &second, &m), SL_OK);
    assert_int_equal(n, m);
    assert_memory_equal(first, second, n);
}

TEST_WITH(float_and_double_convert, set_up, tear_down)
{
    OWNED(sl_tensors_free) struct sl_tensors found;
    double up[6];
    float down[4];
    write_all();
    assert_int_equal(sl_safetensors_read(path, &found), SL_OK);
    struct sl_tensor wanted = sl_tensor_make("layers.0.fc_self.weight", SL_DTYPE_F64, 2, 3, NULL);
    assert_int_equal(sl_tensors_get(&found, &wanted, up), SL_OK);
    assert_true(up[1] == -2 && up[2] == 3.5 && up[5] == (double)6e-38f);
    wanted = sl_tensor_make("moments", SL_DTYPE_F32, 4, 0, NULL);
    assert_int_equal(sl_tensors_get(&found, &wanted, down), SL_OK);
    assert_true(down[0] == (float)(1.0 / 3));
    wanted = sl_tensor_make("flags", SL_DTYPE_F32, 3, 0, NULL);
    assert_int_equal(sl_tensors_get(&found, &wanted, down), SL_EFILE);
    assert_non_null(strstr(sl_message(), "found type U8, expected F32"));
    wanted = sl_tensor_make("halves", SL_DTYPE_F32, 3, 1, NULL);
    assert_int_equal(sl_tensors_get(&found, &wanted, down), SL_EFILE);
    assert_non_null(strstr(sl_message(), "found type BF16, expected F32; save it as float32"));
}

TEST_WITH(another_shape_is_refused, set_up, tear_down)
{
    OWNED(sl_tensors_free) struct sl_tensors found;
    float out[6] = {42};
    write_all();
    assert_int_equal(sl_safetensors_read(path, &found), SL_OK);
    struct sl_tensor wanted = sl_tensor_make("layers.0.fc_self.weight", SL_DTYPE_F32, 3, 2, NULL);
    assert_int_equal(sl_tensors_get(&found, &wanted, out), SL_EFILE);
    assert_non_null(strstr(sl_message(), "found shape [2,3], expected [3,2]"));
    wanted = sl_tensor_make("layers.0.fc_self.weight", SL_DTYPE_F32, 6, 0, NULL);
    assert_int_equal(sl_tensors_get(&found, &wanted, out), SL_EFILE);
    assert_non_null(strstr(sl_message(), path));
    wanted = (struct sl_tensor){"heads", SL_DTYPE_F32, 3, {1, 2, 3}, NULL};
    assert_int_equal(sl_tensors_get(&found, &wanted, out), SL_EFILE);
    assert_non_null(strstr(sl_message(), "found shape [1,3,2], expected [1,2,3]"));
    wanted = sl_tensor_make("layers.1.fc_self.weight", SL_DTYPE_F32, 2, 3, NULL);
    assert_int_equal(sl_tensors_get(&found, &wanted, out), SL_EFILE);
    assert_non_null(strstr(sl_message(), "no tensor 'layers.1.fc_self.weight'"));
    assert_true(out[0] == 42);
}

TEST_WITH(a_failed_write_leaves_the_old_file, set_up, tear_down)
{
    struct sl_tensor tensors[2];
    OWNED(sl_tensors_free) struct sl_tensors found;
    write_all();
    tensors[0] = tensors[1] = sl_tensor_make("twice", SL_DTYPE_F32, 2, 3, matrix);
    assert_int_equal(sl_safetensors_write(path, tensors, 2, NULL, 0), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "'twice' is there twice"));
    const struct sl_metadata same[2] = {{"k", "1"}, {"k", "2"}};
    assert_int_equal(sl_safetensors_write(path, tensors, 1, same, 2), SL_EINVAL);
    tensors[1] = sl_tensor_make("huge", SL_DTYPE_F64, UINT64_MAX / 4, 2, matrix);
    assert_int_equal(sl_safetensors_write(path, tensors, 2, NULL, 0), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "huge"));
    assert_int_equal(sl_safetensors_write("/nowhere/x", tensors, 1, NULL, 0), SL_EIO);
    assert_int_equal(sl_safetensors_read(path, &found), SL_OK);
    assert_int_equal(found.n, N_TENSORS);
}

TEST_WITH(no_tensors_is_a_file_too, set_up, tear_down)
{
    OWNED(sl_tensors_free) struct sl_tensors found;
    assert_int_equal(sl_safetensors_write(path, NULL, 0, NULL, 0), SL_OK);
    assert_int_equal(sl_safetensors_read(path, &found), SL_OK);
    assert_int_equal(found.n, 0);
}

/* ---- Hostile files ----------------------------------------------------------------------------------------------- */

/* Parse a header with some bytes of data behind it; the message must hold `word` (NULL: it must succeed). */
static void parse(const char *header, size_t n_data, const char *word)
{
    size_t length = strlen(header);
    uint64_t little = length;
    char *file;
    struct sl_tensors found;
    assert_int_equal(sl_alloc_zero(8 + length + n_data, 1, "test", &file), SL_OK);
    memcpy(file, &little, 8);
    memcpy(file + 8, header, length);
    enum sl_status st = sl_safetensors_parse("test file", file, 8 + length + n_data, &found);
    if (word == NULL) {
        assert_int_equal(st, SL_OK);
        sl_tensors_free(&found);
        return;
    }
    assert_int_equal(st, SL_EFILE);
    if (strstr(sl_message(), word) == NULL || strstr(sl_message(), "test file") == NULL) {
        fail_msg("'%s' lacks '%s'", sl_message(), word);
    }
    assert_int_equal(found.n, 0);
    assert_null(found.tensors);
    sl_free(file);
}

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"x\":" ENTRY(dtype, shape, offsets) "}"

TEST_WITH(lies_in_the_header_are_refused, set_up, tear_down)
{
    parse(ONE("F32", "[2]", "[0,8]"), 8, NULL);
    parse(ONE("F32", "[]", "[0,4]"), 4, NULL);
    parse("  " ONE("F32", "[0,3]", "[0,0]") "\n ", 0, NULL);
    parse("", 0, "JSON");
    parse("{", 0, "JSON");
    parse("[]", 0, "JSON");
    parse("{\"x\":3}", 0, "an object");
    parse("{\"x\":{}}", 0, "type 'none'");
    parse(ONE("F8_E5M2", "[4]", "[0,4]"), 4, "type 'F8_E5M2'");
    parse(ONE("F8_E4M3", "[4]", "[0,4]"), 4, "float32");
    parse("{\"x\":{\"dtype\":7,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "type 'none'");
    parse(ONE("F32", "[1,2,1]", "[0,8]"), 8, NULL);
    parse(ONE("F32", "[1,2,3]", "[0,8]"), 8, "what its shape");
    parse(ONE("F32", "[1,1,1,1]", "[0,4]"), 4, "three dimensions");
    parse(ONE("F32", "2", "[0,8]"), 8, "three dimensions");
    parse(ONE("F32", "[-1]", "[0,4]"), 4, "whole numbers");
    parse(ONE("F32", "[1.0]", "[0,4]"), 4, "whole numbers");
    parse(ONE("F32", "[\"1\"]", "[0,4]"), 4, "whole numbers");
    parse(ONE("F32", "[1]", "[0]"), 4, "data_offsets");
    parse(ONE("F32", "[1]", "[0,4,8]"), 4, "data_offsets");
    parse(ONE("F32", "[1]", "[-4,0]"), 4, "data_offsets");
    parse(ONE("F32", "[1]", "[4,0]"), 4, "inside the file");
    parse(ONE("F32", "[1]", "[0,-1]"), 4, "inside the file");
    parse(ONE("F32", "[2]", "[0,8]"), 4, "cut short");
    parse(ONE("F32", "[1]", "[9223372036854775803,9223372036854775807]"), 4, "inside the file");
    parse(ONE("F32", "[3]", "[0,8]"), 8, "what its shape");
    parse(ONE("F64", "[1]", "[0,4]"), 4, "what its shape");
    parse(ONE("F32", "[4611686018427387905]", "[0,4]"), 4, "what its shape"); /* 2^62 + 1: times 4 wraps to 4 */
    parse(ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, "what its shape");
    parse(ONE("F32", "[1]", "[0,4]"), 8, "expected the tensors to end there");
    parse(ONE("F32", "[1]", "[4,8]"), 8, "without gap");
    parse("{\"x\":" ENTRY("F32", "[2]", "[0,8]") ",\"y\":" ENTRY("F32", "[2]", "[4,12]") "}", 12, "overlap");
    parse("{\"x\":" ENTRY("F32", "[1]", "[0,4]") ",\"y\":" ENTRY("F32", "[1]", "[0,4]") "}", 4, "overlap");
    parse("{\"x\":" ENTRY("F32", "[1]", "[0,4]") ",\"x\":" ENTRY("F32", "[1]", "[4,8]") "}", 8, "duplicate");
    parse("{\"__metadata__\":3}", 0, "__metadata__");
    parse("{\"__metadata__\":{\"a\":1}}", 0, "metadata 'a'");
    parse("{\"y\":" ENTRY("F32", "[1]", "[4,8]") ",\"e\":" ENTRY("F32", "[0]", "[4,4]") ",\"x\":" ENTRY("U8", "[4]",
                                                                                                        "[0,4]") "}",
          8, NULL);
    parse("{\"n12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234"
          "5678901"
          "2345678901234567\":" ENTRY("F32", "[1]", "[0,4]") "}",
          4, "127 bytes");
}

TEST_WITH(deep_nesting_is_refused, set_up, tear_down)
{
    static char deep[100001];
    memset(deep, '[', sizeof deep - 1);
    parse(deep, 0, "JSON");
}

TEST_WITH(lies_about_the_length_are_refused, set_up, tear_down)
{
    static const uint64_t lengths[] = {3, 100, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63};
    struct sl_tensors found;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        OWNED(sl_free_it) char *file;
        assert_int_equal(sl_alloc_zero(10, 1, "test", &file), SL_OK);
        memcpy(file, &lengths[i], 8);
        memcpy(file + 8, "{}", 2);
        assert_int_equal(sl_safetensors_parse("test", file, 10, &found), SL_EFILE);
        assert_non_null(strstr(sl_message(), "found a header of "));
        for (size_t n = 0; n < 8; n++) {
            assert_int_equal(sl_safetensors_parse("test", file, n, &found), SL_EFILE);
        }
        file[8] = '7'; /* bytes of anything */
        assert_int_equal(sl_safetensors_parse("test", file, 10, &found), SL_EFILE);
        assert_non_null(strstr(sl_message(), "test: not a safetensors file"));
    }
    assert_int_equal(sl_safetensors_read("/nowhere", &found), SL_EIO);
    assert_int_equal(sl_safetensors_read("/", &found), SL_EIO);
}

/* PyTorch's files are named; a header of 128 bytes begins as a pickle does, and is read. */
TEST_WITH(pytorch_files_are_named, set_up, tear_down)
{
    static const char *const heads[] = {"PK\3\4\0\0\10\10\0\0", "\x80\2\x8a\x0al\xfc\x9c\x46\xf9\x20"};
    OWNED(sl_tensors_free) struct sl_tensors found;
    char *file;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        assert_int_equal(sl_alloc(10, 1, "test", &file), SL_OK);
        memcpy(file, heads[i], 10);
        assert_int_equal(sl_safetensors_parse("model.pt", file, 10, &found), SL_EFILE);
        assert_non_null(strstr(sl_message(), "model.pt: found a PyTorch file"));
        sl_free(file);
    }
    assert_int_equal(sl_alloc_zero(8 + 128, 1, "test", &file), SL_OK);
    file[0] = (char)0x80;
    memset(file + 8, ' ', 128);
    memcpy(file + 8, "{}", 2);
    assert_int_equal(sl_safetensors_parse("test", file, 8 + 128, &found), SL_OK);
    assert_int_equal(found.n, 0);
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Look at every byte that a parsed file says it has. */
static void read_all(const struct sl_tensors *found)
{
    static char out[4096];
    for (uint32_t i = 0; i < found->n; i++) {
        assert_true(sl_tensor_bytes(&found->tensors[i]) <= sizeof out);
        assert_int_equal(sl_tensors_get(found, &found->tensors[i], out), SL_OK);
    }
}

TEST_WITH(mutated_files_are_refused_or_read, set_up, tear_down)
{
    static const char letters[] = "{}[]\",:0123456789-.eFU \\\x00\xff";
    OWNED(sl_free_it) char *whole;
    size_t n;
    uint32_t seed = 20260101;
    int good = 0;
    write_all();
    assert_int_equal(sl_file_read(path, 10000, &whole, &n), SL_OK);
    for (int round = 0; round < 5000; round++) {
        char *file;
        size_t length = round % 5 == 0 ? next_random(&seed) % (n + 1) : n;
        struct sl_tensors found;
        assert_int_equal(sl_alloc(length, 1, "test", &file), SL_OK);
        memcpy(file, whole, length);
        for (uint32_t k = next_random(&seed) % 4; k < 4 && length > 0; k++) {
            file[next_random(&seed) % length] = letters[next_random(&seed) % (sizeof letters - 1)];
        }
        if (sl_safetensors_parse("fuzz", file, length, &found) == SL_OK) {
            read_all(&found);
            sl_tensors_free(&found);
            good++;
        } else {
            assert_true(sl_message()[0] != '\0' && strchr(sl_message(), '\n') == NULL);
            sl_free(file);
        }
    }
    assert_true(good > 50 && good < 4900); /* both outcomes were met */
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void *rationed_malloc(size_t size)
{
    void *block = NULL;
    return sl_alloc(size, 1, "jansson", &block) == SL_OK ? block : NULL;
}

TEST_WITH(memory_may_run_out, set_up, tear_down)
{
    struct sl_tensor tensors[N_TENSORS];
    struct sl_tensors found;
    make_tensors(tensors);
    json_set_alloc_funcs(rationed_malloc, sl_free);
    for (int which = 0; which < 2; which++) {
        enum sl_status st = SL_ENOMEM;
        for (long allow = 0; st != SL_OK; allow++) {
            sl_memory_ration(allow);
            st = which == 0 ? sl_safetensors_write(path, tensors, N_TENSORS, metadata, 2)
                            : sl_safetensors_read(path, &found);
            sl_memory_ration(-1);
            /* jansson says "invalid token" where it has no memory to keep one. */
            assert_true(st == SL_OK || st == SL_ENOMEM || (which == 1 && st == SL_EFILE));
            if (st == SL_OK && which == 1) {
                sl_tensors_free(&found);
            }
            assert_int_equal(sl_memory_live(), 0);
            assert_true(allow < 2000);
        }
    }
    json_set_alloc_funcs(malloc, free);
}

TEST_MAIN(NULL, NULL)
