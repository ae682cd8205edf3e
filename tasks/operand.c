/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Operands: checks at submission, addresses inside tasks. */
#include "tasks/operand.h"

#include <stdio.h>
#include <string.h>

#include "tasks/rows.h"

/* ---- in a submission ---- */

struct sl_matrix sl_matrix_of(starpu_data_handle_t handle)
{
    struct sl_matrix m = {.handle = handle, .n_columns = 1};
    if (handle == NULL) {
        return (struct sl_matrix){0};
    }
    m.dtype = sl_handle_dtype(handle);
    m.element = (uint32_t)sl_handle_element(handle);
    if (starpu_data_get_interface_id(handle) == STARPU_MATRIX_INTERFACE_ID) {
        m.n_rows = starpu_matrix_get_ny(handle);
        m.n_columns = sl_handle_columns(handle);
    } else {
        m.n_rows = sl_handle_columns(handle);
    }
    m.n_all = m.n_rows;
    return m;
}

struct sl_matrix sl_matrix_rows(starpu_data_handle_t handle, uint32_t row0, uint32_t n_rows)
{
    struct sl_matrix m = sl_matrix_of(handle);
    m.is_kept = n_rows < m.n_rows;
    m.is_outside = (uint64_t)row0 + n_rows > m.n_rows;
    m.row0 = row0;
    m.n_rows = n_rows;
    m.n_all = n_rows;
    return m;
}

static const void *operand_of(const struct sl_buffer_role *role, const void *view)
{
    return (const char *)view + role->place;
}

uint32_t sl_operand_count(const struct sl_buffer_role *role, const void *view)
{
    return role->mode & SL_REPEATED ? ((const struct sl_matrices *)operand_of(role, view))->n : 1;
}

static bool is_empty(const struct sl_slice *slice)
{
    return slice->handle == NULL || slice->n_rows == 0;
}

static struct sl_matrix slice_at(const struct sl_matrices *each, uint32_t i)
{
    const struct sl_slice *slice = &each->slices[i];
    if (is_empty(slice)) {
        return (struct sl_matrix){0};
    }
    struct sl_matrix m = sl_matrix_rows(slice->handle, slice->row0, slice->n_rows);
    m.is_kept = slice->row0 > 0;
    while (i > 0 && is_empty(&each->slices[i - 1])) {
        i--;
    }
    m.is_again = i > 0 && each->slices[i - 1].handle == slice->handle;
    return m;
}

const struct sl_matrix *sl_operand_at(const struct sl_buffer_role *role, const void *view, uint32_t i,
                                      struct sl_matrix *room)
{
    const struct sl_matrices *each = operand_of(role, view);
    if ((role->mode & SL_REPEATED) == 0) {
        return operand_of(role, view);
    }
    *room = each->slices != NULL ? slice_at(each, i) : sl_matrix_of(each->handles[i]);
    return room;
}

/* ---- shapes ---- */

struct shape {
    char rows, columns;
    bool per_run; /* the rows are the rows of each segment */
};

/* "H", "D x H", "K x H" or "KF x H". */
static struct shape shape_of(const char *text)
{
    const bool per_run = *text == 'K';
    text += per_run;
    return (struct shape){.rows = *text == ' ' ? '1' : *text,
                          .columns = text[1] == '\0' ? '1' : text[*text == ' ' ? 3 : 4],
                          .per_run = per_run};
}

/* Sizes of the letters in a task's shapes. */
struct sizes {
    uint32_t known; /* a bit for each letter */
    uint32_t of['Z' - 'A' + 1];
};

static bool is_known(const struct sizes *sizes, char letter)
{
    return letter >= 'A' && letter <= 'Z' && sizes->known >> (letter - 'A') & 1;
}

/* Whether a dimension of n fits the letter. The first dimension sets the letter's size. */
static bool fits(struct sizes *sizes, char letter, uint32_t n)
{
    if (letter == '?') {
        return true;
    }
    if (letter >= '0' && letter <= '9') {
        return n == (uint32_t)(letter - '0');
    }
    if (!is_known(sizes, letter)) {
        sizes->known |= 1u << (letter - 'A');
        sizes->of[letter - 'A'] = n;
    }
    return sizes->of[letter - 'A'] == n;
}

static enum sl_status fail_shape(const struct sl_buffer_role *role, const struct sl_matrix *m, uint32_t n_runs,
                                 const struct sizes *sizes)
{
    char known[64] = "";
    size_t used = 0;
    for (const char *letter = role->shape; *letter != '\0'; letter++) {
        uint32_t size = n_runs;
        if (*letter != 'K' && !is_known(sizes, *letter)) {
            continue;
        }
        if (*letter != 'K') {
            size = sizes->of[*letter - 'A'];
        }
        used += (size_t)snprintf(known + used, sizeof known - used, ", %c = %u", *letter, size);
    }
    return sl_fail(SL_EINTERNAL, "buffer '%s' is [%u x %u]; expected [%s]%s", role->name, m->n_rows, m->n_columns,
                   role->shape, known);
}

static enum sl_status check_shape(const struct sl_buffer_role *role, const struct sl_runs *runs, struct sizes *sizes,
                                  const struct sl_matrix *m)
{
    const struct shape shape = shape_of(role->shape);
    const uint32_t n_runs = runs == NULL ? 1 : runs->n;
    uint32_t n_rows = m->n_rows;
    bool is_right = true;
    if (m->handle == NULL) {
        return SL_OK;
    }
    if (shape.per_run) {
        is_right = n_runs > 0 && n_rows % n_runs == 0;
        n_rows = m->n_rows / (n_runs > 0 ? n_runs : 1);
    }
    is_right = is_right && fits(sizes, shape.rows, n_rows) && fits(sizes, shape.columns, m->n_columns);
    if (!is_right) {
        return fail_shape(role, m, n_runs, sizes);
    }
    SL_FAIL_IF(m->is_outside, SL_EINTERNAL, "buffer '%s': rows %u to %llu; expected at most %u rows", role->name,
               m->row0, (unsigned long long)m->row0 + m->n_rows, sl_matrix_of(m->handle).n_rows);
    SL_FAIL_IF(shape.rows == 'R' && runs != NULL && runs->first[n_runs] - runs->first[0] != n_rows, SL_EINTERNAL,
               "buffer '%s' has %u rows; expected the %u rows of %u segments", role->name, n_rows,
               runs->first[n_runs] - runs->first[0], n_runs);
    return SL_OK;
}

/* ---- dtypes ---- */

/* The dtype of the first operand with the dtype of rows. Without one, results may be bf16, too. */
static enum sl_dtype dtype_of_rows(const struct sl_buffer_role *roles, const void *view)
{
    struct sl_matrix each;
    for (const struct sl_buffer_role *role = roles; role->name != NULL; role++) {
        const uint32_t n = role->entries == SL_ROWS ? sl_operand_count(role, view) : 0;
        for (uint32_t i = 0; i < n; i++) {
            const struct sl_matrix *m = sl_operand_at(role, view, i, &each);
            if (m->handle != NULL) {
                const bool is_half = m->dtype == SL_DTYPE_BF16 || m->dtype == SL_DTYPE_F16;
                return is_half ? m->dtype : SL_DTYPE_REAL;
            }
        }
    }
    return SL_DTYPE_BF16;
}

static enum sl_status check_dtype(const struct sl_buffer_role *role, enum sl_dtype rows, const struct sl_matrix *m)
{
    static const enum sl_dtype expected[] = {
        [SL_REALS] = SL_DTYPE_REAL,  [SL_ROWS] = SL_DTYPE_REAL,   [SL_ROWS_OR_REALS] = SL_DTYPE_REAL,
        [SL_INTS_8] = SL_DTYPE_I8,   [SL_INTS_16] = SL_DTYPE_U16, [SL_INTS_32] = SL_DTYPE_U32,
        [SL_INTS_64] = SL_DTYPE_U64, [SL_FLOATS] = SL_DTYPE_F32,  [SL_DOUBLES] = SL_DTYPE_F64,
    };
    if (role->entries == SL_ANY || m->handle == NULL) {
        return SL_OK;
    }
    enum sl_dtype dtype = expected[role->entries];
    if (role->entries > SL_ROWS_OR_REALS) {
        SL_FAIL_IF(m->element != sl_dtype_size(dtype), SL_EINTERNAL, "buffer '%s' has entries of %u bytes; expected %s",
                   role->name, m->element, sl_dtype_name(dtype));
        return SL_OK;
    }
    if (role->entries == SL_ROWS || (role->entries == SL_ROWS_OR_REALS && m->dtype != SL_DTYPE_REAL)) {
        dtype = rows;
    }
    SL_FAIL_IF(m->dtype != dtype, SL_EINTERNAL, "buffer '%s' has entries of %s; expected %s", role->name,
               sl_dtype_name(m->dtype), sl_dtype_name(dtype));
    return SL_OK;
}

/* ---- all operands ---- */

enum sl_status sl_operands_check(const struct sl_buffer_role *roles, const struct sl_runs *runs, const void *view)
{
    const enum sl_dtype rows = dtype_of_rows(roles, view);
    struct sizes sizes;
    struct sl_matrix each;
    sizes.known = 0;
    for (const struct sl_buffer_role *role = roles; role->name != NULL; role++) {
        const uint32_t n = sl_operand_count(role, view);
        for (uint32_t i = 0; i < n; i++) {
            const struct sl_matrix *m = sl_operand_at(role, view, i, &each);
            SL_CHECK(check_shape(role, runs, &sizes, m));
            SL_CHECK(check_dtype(role, rows, m));
        }
    }
    return SL_OK;
}

uint64_t sl_operands_bytes(const struct sl_buffer_role *roles, const void *view)
{
    uint64_t bytes = 0;
    struct sl_matrix each;
    for (const struct sl_buffer_role *role = roles; role->name != NULL; role++) {
        const uint32_t n = strcmp(role->shape, "?") == 0 ? 0 : sl_operand_count(role, view);
        for (uint32_t i = 0; i < n; i++) {
            const struct sl_matrix *m = sl_operand_at(role, view, i, &each);
            const unsigned ways = sl_operand_mode(role, m) == STARPU_RW ? 2 : 1;
            bytes += ways * sl_matrix_entries(m) * m->element;
        }
    }
    return bytes;
}

uint32_t sl_operands_n_runs(const struct sl_buffer_role *roles, const struct sl_runs *runs)
{
    bool has_runs = false;
    for (const struct sl_buffer_role *role = roles; role->name != NULL && runs != NULL; role++) {
        has_runs = has_runs || *role->shape == 'R';
    }
    return has_runs ? runs->n : 1;
}

/* ---- inside tasks ---- */

/* Where the rows of a matrix of a list are: from a row of a buffer of the list's on. */
struct place {
    uint32_t buffer, row0; /* SL_NONE: no buffer */
};

/* The lists of n matrices: data, numbers, rows and places. */
static size_t list_bytes(uint32_t n)
{
    return n * (sizeof(void *) + 2 * sizeof(uint32_t) + sizeof(struct place));
}

static uint32_t *numbers_in(char *lists, uint32_t n)
{
    return (uint32_t *)(void *)(lists + n * sizeof(void *));
}

static uint32_t *rows_in(char *lists, uint32_t n)
{
    return numbers_in(lists, n) + n;
}

static struct place *places_in(char *lists, uint32_t n)
{
    return (struct place *)(void *)(rows_in(lists, n) + n);
}

size_t sl_operands_list_bytes(const struct sl_buffer_role *roles, const void *view)
{
    size_t bytes = 0;
    for (const struct sl_buffer_role *role = roles; role->name != NULL; role++) {
        if (role->mode & SL_REPEATED) {
            bytes += list_bytes(sl_operand_count(role, view));
        }
    }
    return bytes;
}

static void copy_list(const struct sl_buffer_role *role, const void *view, char *lists)
{
    const struct sl_matrices *each = operand_of(role, view);
    struct sl_matrix room;
    uint32_t n_buffers = 0;
    if (each->numbers != NULL) {
        memcpy(numbers_in(lists, each->n), each->numbers, each->n * sizeof *each->numbers);
    }
    for (uint32_t i = 0; i < each->n; i++) {
        const struct sl_matrix *m = sl_operand_at(role, view, i, &room);
        struct place *place = &places_in(lists, each->n)[i];
        rows_in(lists, each->n)[i] = m->n_rows;
        *place = (struct place){SL_NONE, m->row0};
        if (m->handle != NULL) {
            n_buffers += !m->is_again;
            place->buffer = n_buffers - 1;
        }
    }
}

void sl_operands_copy(const struct sl_buffer_role *roles, size_t view_bytes, const void *view, void *copy)
{
    char *lists = (char *)copy + view_bytes;
    memcpy(copy, view, view_bytes);
    for (const struct sl_buffer_role *role = roles; role->name != NULL; role++) {
        if (role->mode & SL_REPEATED) {
            copy_list(role, view, lists);
            lists += list_bytes(sl_operand_count(role, view));
        }
    }
}

static void bind_matrix(const struct sl_buffer_role *role, const struct sl_runs *runs, uint32_t k, void *buffer,
                        struct sl_matrix *m)
{
    size_t row = m->row0;
    if (runs != NULL && *role->shape == 'R') {
        row += runs->first[k] - runs->first[0];
        m->n_rows = runs->first[k + 1] - runs->first[k];
    } else if (runs != NULL && *role->shape == 'K') {
        m->n_rows = m->n_all / runs->n;
        row += (size_t)k * m->n_rows;
    }
    m->data = (char *)sl_buffer_data(buffer) + row * m->n_columns * m->element;
}

/* Returns the number of buffers. */
static uint32_t bind_matrices(void *buffers[], char *lists, struct sl_matrices *each)
{
    const struct place *places = places_in(lists, each->n);
    uint32_t n_buffers = 0;
    each->data = (void **)(void *)lists;
    if (each->numbers != NULL) {
        each->numbers = numbers_in(lists, each->n);
    }
    each->n_rows = rows_in(lists, each->n);
    for (uint32_t i = 0; i < each->n; i++) {
        each->data[i] = NULL;
        if (places[i].buffer != SL_NONE) {
            each->data[i] = sl_buffer_row(buffers[places[i].buffer], places[i].row0);
            n_buffers = places[i].buffer + 1;
        }
    }
    return n_buffers;
}

void sl_operands_bind(const struct sl_buffer_role *roles, const struct sl_runs *runs, uint32_t k, void *buffers[],
                      size_t view_bytes, void *view)
{
    char *lists = (char *)view + view_bytes;
    for (const struct sl_buffer_role *role = roles; role->name != NULL; role++) {
        void *operand = (char *)view + role->place;
        if (role->mode & SL_REPEATED) {
            buffers += bind_matrices(buffers, lists, operand);
            lists += list_bytes(sl_operand_count(role, view));
        } else if (((const struct sl_matrix *)operand)->handle != NULL) {
            bind_matrix(role, runs, k, *buffers++, operand);
        }
    }
}
