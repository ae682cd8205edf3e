/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The datasets of a test program that runs all models: dense and sparse, and the same with relations.
 */
#ifndef SL_TESTS_SETS_FIXTURE_H
#define SL_TESTS_SETS_FIXTURE_H

#include "tests/support/run_fixture.h"

static struct sl_dataset dense_set, sparse_set, typed_dense_set, typed_sparse_set;

/* Typed for rgcn and rgat. */
static MAYBE_UNUSED const struct sl_dataset *set_of(int model, bool sparse)
{
    if (is_typed(model)) {
        return sparse ? &typed_sparse_set : &typed_dense_set;
    }
    return sparse ? &sparse_set : &dense_set;
}

static MAYBE_UNUSED void make_sets(struct graph_shape dense, struct graph_shape sparse)
{
    make_dataset(&dense, &dense_set);
    make_dataset(&sparse, &sparse_set);
    dense.n_relations = 3;
    sparse.n_relations = 2;
    make_dataset(&dense, &typed_dense_set);
    make_dataset(&sparse, &typed_sparse_set);
}

static MAYBE_UNUSED void free_sets(void)
{
    forget_partitions();
    sl_dataset_free(&dense_set);
    sl_dataset_free(&sparse_set);
    sl_dataset_free(&typed_dense_set);
    sl_dataset_free(&typed_sparse_set);
}

/* The end of a program that brings StarPU up and down itself. */
static MAYBE_UNUSED int sets_down(void **state)
{
    (void)state;
    free_sets();
    assert_int_equal(sl_memory_live(), 0);
    return 0;
}

#endif
