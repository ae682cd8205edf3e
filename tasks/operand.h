/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Operands: the matrices of an operation, as a submission names them and as its kernels see them.
 *
 * An operation has one struct, its view. The view begins with struct sl_task_args and has a struct sl_matrix for each
 * operand, and the numbers that the kernels need. The table of roles (tasks/task.h) declares each operand once: name,
 * access mode, place in the view, shape, dtype. A submission fills the view with handles. The task layer checks them
 * against the table, and sets the addresses in the task, on either device.
 */
#ifndef SL_TASKS_OPERAND_H
#define SL_TASKS_OPERAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/dtype.h"
#include "support/status.h"
#include "tasks/handle.h"

/* A task's rows in segments (`runs`): segment k has rows first[k] - first[0] .. first[k + 1] - first[0] - 1. */
struct sl_runs {
    uint32_t n;
    const uint32_t *first; /* [n + 1] */
};

/* All rows of a handle, or some of them. A vector of n entries is a matrix of n rows and one column. */
struct sl_matrix {
    void *data; /* row 0 of the view, in the memory of the task's device. NULL: the task lacks this optional operand */
    uint32_t n_rows, n_columns;
    enum sl_dtype dtype; /* of an entry: sl_handle_dtype */
    uint32_t element;    /* bytes of an entry */
    /* This task reads and writes the operand, where other tasks of the operation only write it (beta 0) or only read
     * it. Its mode is then STARPU_RW. */
    bool is_kept;
    bool is_outside; /* the handle lacks some of the rows */
    bool is_again;   /* a slice of the same matrix as the slice before */
    starpu_data_handle_t handle;
    uint32_t row0;  /* of the view, in the handle */
    uint32_t n_all; /* rows of all segments; n_rows are the rows of one */
};

static inline size_t sl_matrix_entries(const struct sl_matrix *m)
{
    return (size_t)m->n_rows * m->n_columns;
}

/* Any number of matrices, in order: an operand whose role has SL_REPEATED. A submission gives `handles`, or `slices`
 * for some rows of each. Slices of one matrix follow each other, the lowest rows first: the task has this matrix once.
 * If the role has SL_OPTIONAL, slices may be empty. */
struct sl_matrices {
    uint32_t n;
    const starpu_data_handle_t *handles;
    const struct sl_slice *slices;
    /* A number of each, if a kernel needs one, otherwise NULL. The task has a copy. */
    const uint32_t *numbers;
    /* In the task: address and number of rows of each. Segments do not divide them. data NULL: an empty slice. */
    void **data;
    uint32_t *n_rows;
};

/* ---- in a submission ---- */

/* All rows. handle NULL: no operand. */
struct sl_matrix sl_matrix_of(starpu_data_handle_t handle);

/* Rows row0 .. row0 + n_rows - 1. If an output has other rows, too, its is_kept is set. */
struct sl_matrix sl_matrix_rows(starpu_data_handle_t handle, uint32_t row0, uint32_t n_rows);

/* ---- the declaration ---- */

/* Flags of a buffer's mode. SL_OPTIONAL: a task may lack the buffer. SL_REPEATED: a task has any number of such
 * buffers. SL_OR_RW: a task may also use STARPU_RW. */
#define SL_OPTIONAL (1u << 28)
#define SL_REPEATED (1u << 29)
#define SL_OR_RW (1u << 30)

#define SL_MAX_ROLES 26

/* Entries of an operand. */
enum sl_operand_entries {
    SL_REALS,         /* sl_real */
    SL_ROWS,          /* the dtype of a run's rows, sl_real or bf16, or of features that are read in place. All such
                       * operands of a task have the same */
    SL_ROWS_OR_REALS, /* sl_real, or the dtype of the operands with SL_ROWS */
    SL_INTS_8,        /* these and the next: the number of bytes counts, not the dtype */
    SL_INTS_16,
    SL_INTS_32,
    SL_INTS_64,
    SL_FLOATS,
    SL_DOUBLES,
    SL_ANY /* the submission checks it */
};

/* A buffer of an operation. */
struct sl_buffer_role {
    const char *name; /* for messages; NULL: end of the list */
    unsigned mode;    /* a StarPU mode and the flags above */
    /* If the operation has a view: */
    size_t place; /* of the operand, in the view: a struct sl_matrix or, with SL_REPEATED, a struct sl_matrices */
    /* Rows and columns, "D x H". A capital letter is a size: it has one value in all shapes of a task. A digit is that
     * number, and ? is any number. One letter alone: a vector.
     *   R: the rows that a task's segments (sl_task_args.runs) divide. The task runs once for each segment, and sees
     *      these rows of it.
     *   K: the number of segments. Of an operand with K x H or KF x H, each segment sees its 1 or F rows. */
    const char *shape;
    enum sl_operand_entries entries;
};

/* Number of matrices of an operand, and matrix i. Its handle is NULL: the task lacks it. room: for a matrix of a
 * list. */
uint32_t sl_operand_count(const struct sl_buffer_role *role, const void *view);
const struct sl_matrix *sl_operand_at(const struct sl_buffer_role *role, const void *view, uint32_t i,
                                      struct sl_matrix *room);

/* The mode of an operand: STARPU_RW if it is kept. */
static inline unsigned sl_operand_mode(const struct sl_buffer_role *role, const struct sl_matrix *m)
{
    const unsigned mode = role->mode & ~(SL_OPTIONAL | SL_REPEATED | SL_OR_RW);
    return m->is_kept && (mode == STARPU_W || role->mode & SL_OR_RW) ? STARPU_RW : mode;
}

/* Check all operands of a view against the table of roles. SL_EINTERNAL: a range of rows, a shape, or a dtype does not
 * fit. The message names the operand, and has what was found and what was expected. */
enum sl_status sl_operands_check(const struct sl_buffer_role *roles, const struct sl_runs *runs, const void *view);

/* Bytes behind a view, for the lists of its struct sl_matrices. sl_operands_copy copies the view, of view_bytes, to
 * memory that has them, too. */
size_t sl_operands_list_bytes(const struct sl_buffer_role *roles, const void *view);
void sl_operands_copy(const struct sl_buffer_role *roles, size_t view_bytes, const void *view, void *copy);

/* Bytes that a task moves: of all operands, twice if it reads and writes them. A vector of any length ("?") is a table
 * of which a task reads a few entries, and does not count. */
uint64_t sl_operands_bytes(const struct sl_buffer_role *roles, const void *view);

/* Segments of a task: runs->n if an operand has R rows and runs is not NULL, otherwise 1. */
uint32_t sl_operands_n_runs(const struct sl_buffer_role *roles, const struct sl_runs *runs);

/* Inside a task: let the view's matrices show the rows of segment k. runs NULL: all rows. buffers: in the order of the
 * roles. The view has view_bytes, and room for its lists behind it. */
void sl_operands_bind(const struct sl_buffer_role *roles, const struct sl_runs *runs, uint32_t k, void *buffers[],
                      size_t view_bytes, void *view);

#endif
