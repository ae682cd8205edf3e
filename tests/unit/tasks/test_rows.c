/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * tasks/rows.h: splits, registration with size classes, shapes, views. */
#include "tasks/rows.h"

#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/starpu_fixture.h"

/* ---- splits ---- */

static void check_split(uint32_t n_rows, uint32_t max_chunks, uint32_t min_shift)
{
    struct sl_split split = sl_split_rows(n_rows, max_chunks, min_shift);
    uint64_t covered = 0;
    assert_int_equal(split.n_rows, n_rows);
    assert_in_range(split.shift, min_shift, 31);
    assert_true(split.n_chunks <= max_chunks);
    for (uint32_t c = 0; c < split.n_chunks; c++) {
        uint32_t size = sl_split_size(&split, c);
        assert_true(size > 0);
        assert_true(c + 1 == split.n_chunks ? size <= 1u << split.shift : size == 1u << split.shift);
        covered += size;
    }
    assert_int_equal(covered, n_rows);
    if (split.shift > min_shift) { /* half as large would be too many */
        assert_true((((uint64_t)n_rows - 1) >> (split.shift - 1)) + 1 > max_chunks);
    }
}

TEST(test_split)
{
    for (uint32_t n = 0; n < 300; n++) {
        for (uint32_t chunks = 1; chunks < 20; chunks++) {
            for (uint32_t shift = 0; shift < 10; shift++) {
                check_split(n, chunks, shift);
            }
        }
    }
    check_split(UINT32_C(1) << 31, 1, 0);
    check_split(UINT32_MAX, 2, 0);
    check_split(UINT32_MAX - 1, 2, 31);
    check_split(1000000007, 5, 3);
    assert_int_equal(sl_split_rows(UINT32_MAX, 1, 40).shift, 31);
    assert_int_equal(sl_split_rows(UINT32_MAX, 1, 40).n_chunks, 2);
}

/* The rows of a chunk lie within one chunk of the level above, whose shift is at least as large. */
TEST(test_levels_nest)
{
    struct sl_split low = sl_split_rows(1000, 7, 4);
    struct sl_split high = sl_split_rows(5000, 7, low.shift);
    assert_true(high.shift >= low.shift);
    for (uint32_t c = 0; c < low.n_chunks; c++) {
        uint32_t begin = c << low.shift;
        uint32_t last = begin + sl_split_size(&low, c) - 1;
        assert_int_equal(begin >> high.shift, last >> high.shift);
    }
}

/* ---- registration ---- */

TEST(test_size_classes)
{
    for (uint32_t n = 1; n < 3000; n += 1 + n / 7) {
        OWNED(sl_handle_drop) starpu_data_handle_t handle;
        expect_ok(sl_matrix_register(n, 13, SL_DTYPE_REAL, &handle));
        size_t exact = (size_t)n * 13 * sizeof(sl_real);
        size_t taken = starpu_matrix_get_allocsize(handle);
        assert_in_range(taken, exact, exact + exact / 8);
        size_t power = 1;
        while (power * 2 <= taken) {
            power *= 2;
        }
        assert_int_equal(taken % (power < 8 ? 1 : power / 8), 0);
        assert_int_equal(sl_handle_rows(handle), n);
        assert_int_equal(sl_handle_columns(handle), 13);
        assert_int_equal(sl_handle_element(handle), sizeof(sl_real));
        sl_handle_drop(&handle);
        assert_null(handle);
    }
}

TEST(test_sizes_that_do_not_fit)
{
    OWNED(sl_handle_drop) starpu_data_handle_t handle = NULL;
    assert_int_equal(sl_matrix_register(65536, 65537, SL_DTYPE_F32, &handle), SL_EINVAL);
    expect_message(sl_message(), "65536", "65537");
    assert_int_equal(sl_matrix_register(65536, 65536, SL_DTYPE_F32, &handle), SL_EINVAL);
    assert_int_equal(sl_matrix_register(UINT32_MAX, UINT32_MAX, SL_DTYPE_F64, &handle), SL_EINVAL);
    assert_int_equal(sl_matrix_register(0, 5, SL_DTYPE_F32, &handle), SL_EINVAL);
    assert_int_equal(sl_matrix_register(5, 0, SL_DTYPE_F32, &handle), SL_EINVAL);
    assert_null(handle);
    expect_ok(sl_matrix_register(65535, 65537, SL_DTYPE_U8,
                                 &handle)); /* 2^32 - 1; nothing is allocated before a task writes */
}

TEST(test_rows_without_memory)
{
    struct sl_split split = sl_split_rows(100, 4, 0);
    struct sl_split huge = {.n_rows = UINT32_MAX, .shift = 31, .n_chunks = 2};
    struct sl_rows rows;
    long live = sl_memory_live();
    sl_memory_ration(0);
    assert_int_equal(sl_rows_register(&split, 3, SL_DTYPE_REAL, &rows), SL_ENOMEM);
    sl_memory_ration(-1);
    assert_null(rows.chunk);
    assert_int_equal(sl_rows_register(&huge, 3, SL_DTYPE_REAL, &rows), SL_EINVAL);
    assert_null(rows.chunk);
    sl_rows_drop(&rows);
    assert_int_equal(sl_memory_live(), live);
}

/* Each chunk begins at its first row of the memory, which is left alone when the chunks go. */
TEST(test_rows_over_memory)
{
    enum { N = 21, F = 3 };
    struct sl_split split = sl_split_rows(N, 4, 1);
    struct sl_rows rows;
    sl_real memory[N * F];
    for (int i = 0; i < N * F; i++) {
        memory[i] = (sl_real)i;
    }
    expect_ok(sl_rows_register_over(&split, F, SL_DTYPE_REAL, memory, &rows));
    assert_true(rows.split.n_chunks > 1 && rows.n_columns == F);
    for (uint32_t c = 0; c < split.n_chunks; c++) {
        assert_int_equal(sl_handle_rows(rows.chunk[c]), sl_split_size(&split, c));
        assert_int_equal(sl_handle_columns(rows.chunk[c]), F);
        assert_ptr_equal(starpu_data_get_local_ptr(rows.chunk[c]), memory + ((size_t)c << split.shift) * F);
    }
    sl_rows_drop(&rows);
    starpu_task_wait_for_all();
    assert_null(rows.chunk);
    for (int i = 0; i < N * F; i++) {
        assert_true(memory[i] == (sl_real)i);
    }
    struct sl_split huge = {.n_rows = UINT32_MAX, .shift = 31, .n_chunks = 2};
    assert_int_equal(sl_rows_register_over(&huge, F, SL_DTYPE_REAL, memory, &rows), SL_EINVAL);
    assert_null(rows.chunk);
}

/* As many rows as there is memory for come in the same handle; more in another, with some to spare. */
TEST(test_reshape)
{
    enum { F = 7 };
    OWNED(sl_handle_drop) starpu_data_handle_t handle = NULL;
    expect_ok(sl_matrix_reshape(80, F, SL_DTYPE_REAL, &handle));
    starpu_data_handle_t first = handle;
    size_t room = starpu_matrix_get_allocsize(handle);
    assert_in_range(room, 90 * F * sizeof(sl_real), 80 * F * sizeof(sl_real) * 4 / 3);
    const uint32_t rows[] = {1, 90, 80, (uint32_t)(room / (F * sizeof(sl_real)))};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_ok(sl_matrix_reshape(rows[i], F, SL_DTYPE_REAL, &handle));
        assert_ptr_equal(handle, first);
        assert_int_equal(sl_handle_rows(handle), rows[i]);
        assert_int_equal(sl_handle_columns(handle), F);
        assert_int_equal(starpu_matrix_get_allocsize(handle), room);
        for (unsigned node = 0; node < starpu_memory_nodes_get_count(); node++) {
            assert_int_equal(sl_buffer_rows(starpu_data_get_interface_on_node(handle, node)), rows[i]);
        }
    }
    expect_ok(sl_matrix_reshape(rows[3] + 1, F, SL_DTYPE_REAL, &handle));
    assert_int_equal(sl_handle_rows(handle), rows[3] + 1);
    assert_true(starpu_matrix_get_allocsize(handle) > room);
    assert_int_equal(sl_matrix_reshape(0, F, SL_DTYPE_REAL, &handle), SL_EINVAL);
    assert_null(handle);
    assert_int_equal(sl_matrix_reshape(65536, 65537, SL_DTYPE_F32, &handle), SL_EINVAL);
    assert_null(handle);
    expect_ok(sl_matrix_reshape(UINT32_MAX, 1, SL_DTYPE_U8, &handle));
    assert_true(starpu_matrix_get_allocsize(handle) > UINT32_MAX);
}

TEST(test_keep)
{
    OWNED(sl_handle_drop) starpu_data_handle_t small = NULL;
    starpu_data_handle_t large = NULL;
    sl_matrix_keep(&small);
    assert_null(small);
    expect_ok(sl_matrix_register(SL_KEPT_BYTES / sizeof(sl_real), 1, SL_DTYPE_REAL, &small));
    expect_ok(sl_matrix_register(SL_KEPT_BYTES / sizeof(sl_real) + 1, 1, SL_DTYPE_REAL, &large));
    sl_matrix_keep(&small);
    sl_matrix_keep(&large);
    assert_non_null(small);
    assert_null(large);
}

/* The chunks of rows that came again, of which none may be in use twice. */
static void expect_chunks(const struct sl_rows *rows, const struct sl_split *split, uint32_t n_columns)
{
    assert_memory_equal(&rows->split, split, sizeof *split);
    assert_int_equal(rows->n_columns, n_columns);
    for (uint32_t c = 0; c < split->n_chunks; c++) {
        assert_int_equal(sl_handle_rows(rows->chunk[c]), sl_split_size(split, c));
        assert_int_equal(sl_handle_columns(rows->chunk[c]), n_columns);
        for (uint32_t k = 0; k < c; k++) {
            assert_ptr_not_equal(rows->chunk[c], rows->chunk[k]);
        }
    }
}

/* Rows of any number of chunks come in the handles that are there, as far as these have room. */
TEST(test_rows_again)
{
    enum { F = 6, MOST = 8 };
    const uint32_t sizes[] = {200, 130, 1, 0, 255, 256, 90, 17};
    starpu_data_handle_t first[MOST];
    struct sl_rows rows = {0};
    struct sl_split split = sl_split_rows(256, MOST, 5);
    sl_rows_keep(&rows);
    expect_ok(sl_rows_reshape(&split, F, SL_DTYPE_REAL, &rows));
    expect_chunks(&rows, &split, F);
    assert_int_equal(split.n_chunks, MOST);
    memcpy(first, rows.chunk, sizeof first);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sl_rows_keep(&rows);
        assert_int_equal(rows.split.n_chunks, 0);
        split = sl_split_rows(sizes[i], MOST, 5);
        expect_ok(sl_rows_reshape(&split, F, SL_DTYPE_REAL, &rows));
        expect_chunks(&rows, &split, F);
        assert_memory_equal(rows.chunk, first, sizeof first);
    }
    sl_rows_keep(&rows);
    split = sl_split_rows(400, MOST, 5); /* 64 rows a chunk, where there is room for 32 */
    expect_ok(sl_rows_reshape(&split, F, SL_DTYPE_REAL, &rows));
    expect_chunks(&rows, &split, F);
    for (uint32_t c = 0; c < split.n_chunks; c++) { /* the last one is short, but may not stay so */
        assert_true(starpu_matrix_get_allocsize(rows.chunk[c]) >=
                    (c + 1 < split.n_chunks ? 64 : 16) * F * sizeof(sl_real));
    }
    sl_rows_drop(&rows);
    assert_null(rows.chunk);
}

/* A single chunk has some to spare; one that is too large to keep has not, and goes. */
TEST(test_rows_to_spare)
{
    OWNED(sl_rows_drop) struct sl_rows rows = {0};
    uint32_t many = SL_KEPT_BYTES / sizeof(sl_real) + 1;
    for (uint32_t n = 80; n <= 90; n++) {
        struct sl_split split = sl_split_rows(n, 1, 3);
        starpu_data_handle_t before = n == 80 ? NULL : rows.chunk[0];
        expect_ok(sl_rows_reshape(&split, 5, SL_DTYPE_U8, &rows));
        assert_true(before == NULL || before == rows.chunk[0]);
        assert_true(starpu_matrix_get_allocsize(rows.chunk[0]) >= 90 * 5);
        sl_rows_keep(&rows);
    }
    struct sl_split split = sl_split_rows(many, 1, 3);
    expect_ok(sl_rows_reshape(&split, 1, SL_DTYPE_REAL, &rows));
    assert_int_equal(sl_handle_rows(rows.chunk[0]), many);
    assert_in_range(starpu_matrix_get_allocsize(rows.chunk[0]), many * sizeof(sl_real), SL_KEPT_BYTES * 9 / 8);
    sl_rows_keep(&rows);
    assert_null(rows.chunk[0]);
}

/* What cannot be had leaves rows of which none is in use, and which may be asked for again. */
TEST(test_rows_again_refused)
{
    long live = sl_memory_live();
    struct sl_rows rows = {0};
    struct sl_split small = sl_split_rows(30, 3, 2);
    struct sl_split huge = {.n_rows = UINT32_MAX, .shift = 31, .n_chunks = 2};
    sl_memory_ration(0);
    assert_int_equal(sl_rows_reshape(&small, 3, SL_DTYPE_REAL, &rows), SL_ENOMEM);
    sl_memory_ration(-1);
    assert_int_equal(rows.split.n_chunks, 0);
    expect_ok(sl_rows_reshape(&small, 3, SL_DTYPE_REAL, &rows));
    sl_rows_keep(&rows);
    assert_int_equal(sl_rows_reshape(&huge, 3, SL_DTYPE_REAL, &rows), SL_EINVAL);
    assert_int_equal(rows.split.n_chunks, 0);
    expect_ok(sl_rows_reshape(&small, 3, SL_DTYPE_REAL, &rows));
    expect_chunks(&rows, &small, 3);
    sl_rows_drop(&rows);
    assert_int_equal(sl_memory_live(), live);
}

TEST(test_no_rows)
{
    struct sl_split split = sl_split_rows(0, 4, 3);
    OWNED(sl_rows_drop) struct sl_rows rows;
    assert_int_equal(split.n_chunks, 0);
    expect_ok(sl_rows_register(&split, 3, SL_DTYPE_REAL, &rows));
    sl_rows_drop(&rows);
    assert_null(rows.chunk);
}

/* ---- buffers inside tasks ---- */

struct stamp_args {
    struct sl_task_args head;
    uint32_t row0;
};

static enum sl_status stamp_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct stamp_args *args = cl_arg;
    sl_real *x = sl_buffer_data(buffers[0]);
    uint32_t n_columns = sl_buffer_columns(buffers[0]);
    for (uint32_t i = 0; i < sl_buffer_rows(buffers[0]); i++) {
        for (uint32_t c = 0; c < n_columns; c++) {
            x[i * n_columns + c] = (sl_real)(100 * (args->row0 + i) + c);
        }
    }
    return SL_OK;
}

struct read_args {
    struct sl_task_args head;
    struct sl_split split;
    uint32_t n_columns;
};

static uint32_t n_wrong;

/* buffers: chunks, then an index vector. */
static enum sl_status read_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct read_args *args = cl_arg;
    uint32_t n = args->split.n_chunks;
    const uint32_t *index = sl_buffer_data(buffers[n]);
    const sl_real *chunk[SL_MAX_CHUNKS];
    if (sl_buffer_columns(buffers[n]) != args->split.n_rows || n > SL_MAX_CHUNKS) {
        n_wrong++; /* CMocka's assertions belong to the main thread */
        return SL_OK;
    }
    for (uint32_t c = 0; c < n; c++) {
        chunk[c] = sl_buffer_data(buffers[c]);
    }
    struct sl_view plain = {chunk, args->split.shift, NULL};
    struct sl_view indexed = {chunk, args->split.shift, index};
    for (uint32_t r = 0; r < args->split.n_rows; r++) {
        for (uint32_t c = 0; c < args->n_columns; c++) {
            n_wrong += sl_view_row(&plain, r, args->n_columns)[c] != (sl_real)(100 * r + c);
            n_wrong += sl_view_row(&indexed, r, args->n_columns)[c] != (sl_real)(100 * index[r] + c);
        }
    }
    return SL_OK;
}

enum { CHUNKS, INDEX };

static struct sl_operation stamp_op = {SL_PLAIN_OPERATION("sl_test_stamp", SL_N_STAGES), .cpu = stamp_cpu_task,
                                       .role = {{"chunk", STARPU_W}}};
static struct sl_operation read_op = {SL_PLAIN_OPERATION("sl_test_read", SL_N_STAGES), .cpu = read_cpu_task,
                                      .role = {{"chunks", STARPU_R | SL_REPEATED}, {"index", STARPU_R}}};

TEST(test_chunks_are_one_matrix)
{
    enum { ROWS = 53, COLUMNS = 5 };
    struct sl_split split = sl_split_rows(ROWS, 8, 2);
    struct read_args read = {.head = head, .split = split, .n_columns = COLUMNS};
    uint32_t index[ROWS];
    struct sl_rows rows;
    struct sl_task task;
    assert_int_equal(split.n_chunks, 7);
    for (uint32_t i = 0; i < ROWS; i++) {
        index[i] = (i * 20 + 3) % ROWS;
    }
    expect_ok(sl_rows_register(&split, COLUMNS, SL_DTYPE_REAL, &rows));
    for (uint32_t c = 0; c < split.n_chunks; c++) {
        struct stamp_args args = {.head = head, .row0 = c << split.shift};
        sl_task_begin(&task, &stamp_op);
        sl_task_add(&task, 0, rows.chunk[c], STARPU_W);
        expect_ok(sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL));
    }
    starpu_data_handle_t order = vector_of(index, ROWS, sizeof *index);
    sl_task_begin(&task, &read_op);
    for (uint32_t c = 0; c < split.n_chunks; c++) {
        sl_task_add(&task, CHUNKS, rows.chunk[c], STARPU_R);
    }
    sl_task_add(&task, INDEX, order, STARPU_R);
    n_wrong = 0;
    expect_ok(sl_task_submit(&task, &read, sizeof read, SL_PRIORITY_NORMAL));
    sl_rows_drop(&rows); /* does not wait, and does not take the rows from under the task */
    unregister(1, &order);
    starpu_task_wait_for_all();
    assert_int_equal(n_wrong, 0);
}

static atomic_uint n_done;

/* Takes its time, and finds the shape it was submitted with. */
static enum sl_status slow_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct stamp_args *args = cl_arg;
    usleep(20000);
    n_wrong += sl_buffer_rows(buffers[0]) != args->row0;
    atomic_fetch_add(&n_done, 1);
    return SL_OK;
}

static struct sl_operation slow_op = {
    SL_PLAIN_OPERATION("sl_test_slow", SL_N_STAGES),
    .cpu = slow_cpu_task,
    .role = {{"read", STARPU_R | SL_OPTIONAL}, {"written", STARPU_W | SL_OPTIONAL}},
};

static void submit_slow(enum starpu_data_access_mode mode, starpu_data_handle_t handle)
{
    struct stamp_args args = {.head = head, .row0 = sl_handle_rows(handle)};
    struct sl_task task;
    sl_task_begin(&task, &slow_op);
    sl_task_add(&task, mode == STARPU_W, handle, mode);
    expect_ok(sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL));
}

/* Rows get another shape when the tasks that write and read them are over, and not before. */
TEST(test_rows_wait)
{
    struct sl_rows rows = {0};
    n_wrong = 0;
    atomic_store(&n_done, 0);
    for (uint32_t i = 0; i < 6; i++) {
        struct sl_split split = sl_split_rows(40 - 5 * i, 1, 2);
        expect_ok(sl_rows_reshape(&split, 3, SL_DTYPE_REAL, &rows));
        assert_int_equal(atomic_load(&n_done), 3 * i);
        submit_slow(STARPU_W, rows.chunk[0]);
        submit_slow(STARPU_R, rows.chunk[0]);
        submit_slow(STARPU_R, rows.chunk[0]);
        sl_rows_keep(&rows);
    }
    sl_rows_drop(&rows);
    starpu_task_wait_for_all();
    assert_int_equal(atomic_load(&n_done), 3 * 6);
    assert_int_equal(n_wrong, 0);
}

/* Tasks see the new shape, of what was written in another one. */
TEST(test_reshaped_in_tasks)
{
    enum { COLUMNS = 3 };
    const uint32_t sizes[] = {40, 11, 44};
    starpu_data_handle_t handle = NULL;
    starpu_data_handle_t first = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n = sizes[i];
        uint32_t index[44];
        struct read_args read = {.head = head, .split = sl_split_rows(n, 1, 31), .n_columns = COLUMNS};
        struct stamp_args stamp = {.head = head};
        struct sl_task task;
        for (uint32_t r = 0; r < n; r++) {
            index[r] = n - 1 - r;
        }
        expect_ok(sl_matrix_reshape(n, COLUMNS, SL_DTYPE_REAL, &handle));
        first = i == 0 ? handle : first;
        assert_ptr_equal(handle, first);
        sl_task_begin(&task, &stamp_op);
        sl_task_add(&task, 0, handle, STARPU_W);
        expect_ok(sl_task_submit(&task, &stamp, sizeof stamp, SL_PRIORITY_NORMAL));
        starpu_data_handle_t order = vector_of(index, n, sizeof *index);
        sl_task_begin(&task, &read_op);
        sl_task_add(&task, CHUNKS, handle, STARPU_R);
        sl_task_add(&task, INDEX, order, STARPU_R);
        n_wrong = 0;
        expect_ok(sl_task_submit(&task, &read, sizeof read, SL_PRIORITY_NORMAL));
        sl_matrix_keep(&handle);
        unregister(1, &order);
        starpu_task_wait_for_all();
        assert_int_equal(n_wrong, 0);
    }
    sl_handle_close(handle);
}

/* A view of one buffer has shift 31: every row is in chunk 0. */
TEST(test_view_of_one_buffer)
{
    sl_real x[12] = {0};
    const sl_real *chunk = x;
    const uint32_t index[] = {3, 0};
    struct sl_view view = {&chunk, 31, NULL};
    assert_ptr_equal(sl_view_row(&view, 2, 3), x + 6);
    view.index = index;
    assert_ptr_equal(sl_view_row(&view, 0, 3), x + 9);
    assert_ptr_equal(sl_view_row(&view, 1, 3), x);
}

TEST(test_shapes_of_interfaces)
{
    double number = 0;
    uint32_t list[6] = {0};
    starpu_data_handle_t variable;
    starpu_data_handle_t vector = vector_of(list, 6, sizeof *list);
    starpu_data_handle_t matrix = sl_matrix_over(list, 2, 3, SL_DTYPE_U32);
    starpu_variable_data_register(&variable, STARPU_MAIN_RAM, (uintptr_t)&number, sizeof number);
    assert_int_equal(sl_handle_rows(variable), 1);
    assert_int_equal(sl_handle_columns(variable), 1);
    assert_int_equal(sl_handle_element(variable), sizeof number);
    assert_int_equal(sl_handle_rows(vector), 1);
    assert_int_equal(sl_handle_columns(vector), 6);
    assert_int_equal(sl_handle_element(vector), 4);
    assert_int_equal(sl_handle_rows(matrix), 2);
    assert_int_equal(sl_handle_columns(matrix), 3);
    const starpu_data_handle_t handles[] = {variable, vector, matrix};
    void *wanted[] = {&number, list, list};
    for (int i = 0; i < 3; i++) {
        void *interface = starpu_data_get_interface_on_node(handles[i], STARPU_MAIN_RAM);
        assert_ptr_equal(sl_buffer_data(interface), wanted[i]);
        assert_int_equal(sl_buffer_rows(interface), sl_handle_rows(handles[i]));
        assert_int_equal(sl_buffer_columns(interface), sl_handle_columns(handles[i]));
    }
    UNREGISTER(handles);
}

static int start(void **state)
{
    (void)state;
    fixture_start(2);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fixture_stop();
    return 0;
}

TEST_MAIN(start, stop)
