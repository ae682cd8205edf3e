/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sampling/exchange.h: packing the rows that a list names, or columns of them, from few chunks and from more
 * than a launch takes. */
#include "codelets/sampling/exchange.h"

#include <string.h>

#include "codelets/sums/aggregate.h"

#include "tests/support/starpu_fixture.h"

enum { ROWS = 1203, LISTED = 700, FIRST = 9 };

/* Columns of the rows of the list from entry FIRST on, of chunks of 2^shift rows, as many as there are
 * of `width`. */
static void check_pack(enum sl_dtype dtype, uint32_t shift, uint32_t n_columns, uint32_t column, uint32_t width)
{
    const size_t element = sl_dtype_size(dtype);
    uint32_t list[LISTED];
    uint32_t n_taken = n_columns - column < width ? n_columns - column : width;
    FREED char *x = (char *)noisy((size_t)ROWS * n_columns, 1); /* any bytes */
    FREED sl_real *got = poisoned((size_t)(LISTED - FIRST) * width);
    FREED char *wanted = need((size_t)(LISTED - FIRST) * width, element);
    struct sl_split split = sl_split_rows(ROWS, SL_MAX_FULL_CHUNKS, shift);
    struct sl_rows rows;
    for (uint32_t i = 0; i < LISTED; i++) {
        list[i] = (uint32_t)((uint64_t)i * ROWS / LISTED);
    }
    for (uint32_t i = FIRST; i < LISTED; i++) {
        memcpy(wanted + (i - FIRST) * width * element, x + ((size_t)list[i] * n_columns + column) * element,
               n_taken * element);
    }
    expect_ok(sl_rows_register_over(&split, n_columns, dtype, x, &rows));
    starpu_data_handle_t handles[] = {vector_of(list, LISTED, sizeof *list),
                                      sl_matrix_over(got, LISTED - FIRST, width, dtype)};
    expect_ok(sl_pack_listed_submit(&head, &rows, column, handles[0], FIRST, handles[1]));
    sl_rows_drop(&rows);
    UNREGISTER(handles);
    starpu_task_wait_for_all();
    expect_no_failure();
    expect_same("packed", (size_t)(LISTED - FIRST) * width, element, got, wanted);
}

TEST(test_pack)
{
    fixture_start(2);
    const enum sl_dtype dtypes[] = {SL_DTYPE_BF16, SL_DTYPE_REAL};
    for (uint32_t shift = 1; shift <= 11; shift += 2) {
        for (int k = 0; k < 2; k++) {
            check_pack(dtypes[k], shift, 7, 0, 7);
            check_pack(dtypes[k], shift, 8, 0, 8);
            check_pack(dtypes[k], shift, 7, 2, 3);
            check_pack(dtypes[k], shift, 7, 6, 3);
            check_pack(dtypes[k], shift, 12, 4, 4);
            check_pack(dtypes[k], shift, 12, 8, 8);
            check_pack(dtypes[k], shift, 16, 8, 16);
        }
    }
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
