/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The tables of the OGB raw layout: text without a header, one record per line, values separated by commas, plain
 * or gzip.
 *
 * Ids and labels may be written `3` or `3.0`. Lines may end in CR LF. The file may begin with a UTF-8 byte order mark
 * and end in blank lines. A header line is refused. Every message about a line starts "FILE:LINE:". Common returns:
 * SL_EIO: the file cannot be opened or read. SL_EFILE: the content is not as described below. SL_ENOMEM.
 */
#ifndef SL_DATA_CSV_H
#define SL_DATA_CSV_H

#include <stdint.h>

#include "data/dataset.h"

/* Read a num-node-list or num-edge-list file: one number. */
enum sl_status sl_csv_read_count(const char *path, uint64_t *out);

/* Count the lines that are not blank. */
enum sl_status sl_csv_count_lines(const char *path, uint64_t *out);

/* Read exactly n_edges lines "source,destination" with ids below n_vertices. *from_out and *to_out get n_edges
 * sources and destinations (sl_free). */
enum sl_status sl_csv_read_edges(const char *path, uint32_t n_vertices, uint64_t n_edges, sl_vertex **from_out,
                                 sl_vertex **to_out);

/* Read exactly n lines "source,destination" or, if the first line has three numbers, "head,relation,tail". Ids are
 * below n_vertices. *relations_out gets NULL if there are none. The caller frees the arrays (sl_free). */
enum sl_status sl_csv_read_links(const char *path, uint32_t n_vertices, uint64_t n, sl_vertex **from_out,
                                 uint32_t **relations_out, sl_vertex **to_out);

/* Read exactly n_edges lines of one weight each: a finite number, 0 or more. *out gets n_edges weights (sl_free). */
enum sl_status sl_csv_read_weights(const char *path, uint64_t n_edges, float **out);

/* Read exactly n_rows lines with the same number of targets each, 1 .. 2^16, separated by commas. `nan` and an empty
 * place mean "unknown", for classes also -1 and -100. Numbers are rounded to float, before sl_targets_take looks for
 * classes. One label a line may be a name (data/names.h). *names gets the names of the classes (sl_free), and else
 * stays; `names` NULL or the choice NUMBERS: names are refused. A name may be quoted. The caller frees *out
 * (sl_targets_free). */
enum sl_status sl_csv_read_targets(const char *path, uint32_t n_rows, enum sl_target_choice choice,
                                   struct sl_targets *out, char **names);

/* Read a list of distinct ids below n_vertices, one per line, and sort it. n_vertices lines of 0 and 1 are a mask (of
 * three vertices or more). The caller frees out->ids (sl_free). */
enum sl_status sl_csv_read_ids(const char *path, uint32_t n_vertices, struct sl_ids *out);

/* Read exactly n_rows lines with the same number of finite values, 1 .. 2^24. The result has the form of
 * sl_features_settle. The caller frees it (sl_features_free). */
enum sl_status sl_csv_read_features(const char *path, uint32_t n_rows, struct sl_features *out);

#endif
