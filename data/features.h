/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Feature tables: their form in memory, dense or CSR.
 */
#ifndef SL_DATA_FEATURES_H
#define SL_DATA_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "data/column.h"
#include "support/status.h"

/* The features of n_rows vertices, n_columns each. The table is dense, or CSR if under 10 % of the values are non-zero.
 * Either `dense.data` or `offsets` is NULL, never both. */
struct sl_features {
    uint32_t n_rows;
    uint32_t n_columns;
    struct sl_column dense;   /* n_rows x n_columns of float32, float16, bfloat16 or int8, whatever sl_real is */
    enum sl_column_hold hold; /* of the three arrays of CSR */
    uint64_t *offsets;        /* n_rows + 1 */
    uint32_t *columns;        /* ascending within a row */
    float *values;
};

/* The largest magnitudes of a table: [0] in `column`, [1] in all other columns. */
struct sl_feature_range {
    uint32_t column;
    float largest[2];
};

/* True if a table with n_nonzeros non-zeros belongs in CSR form: under 10 % of n_rows x n_columns. */
bool sl_features_sparse(uint64_t n_nonzeros, uint32_t n_rows, uint32_t n_columns);

/* The number of values other than zero. For a CSR table: the number of stored values. */
uint64_t sl_features_nonzeros(const struct sl_features *features);

/* Convert a table to the form of sl_features_sparse, if its form is another. SL_ENOMEM: the table is unchanged. */
enum sl_status sl_features_settle(struct sl_features *features);

/* Allocate a CSR table for n_values values. Its offsets but the first, columns and values are not set. SL_ENOMEM. */
enum sl_status sl_features_start_csr(uint32_t n_rows, uint32_t n_columns, uint64_t n_values, struct sl_features *out);

/* Append row i of a table, from column `first` on, to a CSR table. A table without columns gives each row a column of
 * its own. room: n_columns of the table. */
void sl_features_append(const struct sl_features *table, uint32_t i, uint32_t first, float *room,
                        struct sl_features *out);

/* Join the tables of n types of vertices. If all have one width, types share the columns. Otherwise each type has
 * columns of its own, in order; a table of n_rows without columns gives one column, which is 1, to each row. Zeros are
 * not stored. `where` starts the message. SL_EFILE: too many columns. SL_ENOMEM. */
enum sl_status sl_features_join(const char *where, uint32_t n, const struct sl_features *tables,
                                struct sl_features *out);

/* Copy row r, as floats with its zeros, to `out`, which has room for n_columns. */
void sl_features_row(const struct sl_features *features, uint64_t r, float *out);

/* The dtype of the values; of a CSR table, float32. */
static inline enum sl_dtype sl_features_dtype(const struct sl_features *features)
{
    return features->dense.data != NULL ? features->dense.dtype : SL_DTYPE_F32;
}

enum sl_normalize { SL_NORMALIZE_NONE, SL_NORMALIZE_ROW, SL_NORMALIZE_COLUMN }; /* as --normalize-features lists */

/* Statistics of columns: an entry x of column c becomes (x - mean[c]) * scale[c]. n 0: none. */
struct sl_scaling {
    uint32_t n; /* columns */
    double *mean, *scale;
};

/* Copy statistics; sl_scaling_free releases them. SL_ENOMEM: *out is empty. */
enum sl_status sl_scaling_copy(const struct sl_scaling *scaling, struct sl_scaling *out);
bool sl_scaling_equal(const struct sl_scaling *a, const struct sl_scaling *b);
void sl_scaling_free(struct sl_scaling *scaling);

/* ROW: divide each row by its sum if the sum is above 1. PyTorch Geometric's NormalizeFeatures does the same with
 * features that are not negative. A row of both signs may have a sum near zero; a division would let its values
 * explode. COLUMN: subtract each column's mean, and divide by its standard deviation over all rows, unless it is 0
 * (as scikit-learn's StandardScaler). CSR becomes dense. A borrowed or narrow table is replaced by an owned table of
 * float32.
 * *scaling, with COLUMN: empty, it takes the statistics of this table. Else it has those of another table, which are
 * used. SL_EINVAL: they have another number of columns. SL_ENOMEM: the table is unchanged. */
enum sl_status sl_features_normalize(struct sl_features *features, enum sl_normalize normalize,
                                     struct sl_scaling *scaling);

/* Find the largest magnitudes. SL_ENOMEM. */
enum sl_status sl_features_measure(const struct sl_features *features, struct sl_feature_range *out);

/* Release the owned arrays and empty the struct. An empty struct is allowed. */
void sl_features_free(struct sl_features *features);

#endif
