/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Links: a split that lists pairs of vertices, for --objective link.
 *
 *   split/NAME/train.csv.gz, valid.csv.gz, test.csv.gz     one link per line: source,destination
 *   split/NAME/valid_neg.csv.gz, test_neg.csv.gz           pairs that are no links; may be missing
 *   split/NAME/valid_head_neg.npy, valid_tail_neg.npy      negatives of each link, of test, too; may be missing
 *
 * Each file may also be .csv, or .npy of shape (2, n) or (n, 2). The training links are the graph. The
 * edges of raw/ are not read as such: they may contain the links to find. If raw/ has weights, a training link has the
 * weight of its edge.
 *
 * Negatives of each link are ids, of shape (links, K): row i has the vertices that replace the head, or the tail, of
 * link i. OGB's ogbl-citation2 (tails) and ogbl-wikikg2 (both) have such. Each link is ranked among its own negatives.
 * They are taken as they are, also if some are links.
 *
 * Lines of three numbers head,relation,tail are typed links: triples. Relations are numbers from 0. All files have
 * triples, or none has. In a typed dataset (data/readers/typed.c) a split lists triples: the relation is a line of
 * triplet-type-list, and the ends are ids within their types. The relations of training links have no other edges;
 * other relations keep the edges of raw/.
 */
#ifndef SL_DATA_LINKS_H
#define SL_DATA_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/graph.h"
#include "support/real.h"
#include "support/status.h"

/* n pairs from[i] -> to[i], in the order of the file. */
struct sl_links {
    uint32_t n;
    sl_vertex *from, *to;
    uint32_t *relation; /* NULL: pairs have none */
};

/* The ends that a relation may have: `n` ids from `first` on, of heads [0] and of tails [1]. */
struct sl_link_ends {
    sl_vertex first[2];
    uint32_t n[2];
};

enum sl_link_list {
    SL_LINKS_TRAIN,
    SL_LINKS_VALID,
    SL_LINKS_TEST,
    SL_LINKS_VALID_NEGATIVE,
    SL_LINKS_TEST_NEGATIVE,
    SL_N_LINK_LISTS
};

/* Files of a split: one for each list, then those of negatives of each link, of heads and tails of valid and test. */
enum { SL_N_LINK_FILES = SL_N_LINK_LISTS + 4 };

/* The lists of a split. No link: the split lists vertices. */
struct sl_link_split {
    struct sl_links list[SL_N_LINK_LISTS];
    /* By list of negatives. If it has negatives of each link: the link has a block of n_each negatives, or two, of the
     * head and of the tail. The blocks of a link are consecutive. 0: all links share the negatives. */
    uint32_t n_each[SL_N_LINK_LISTS];
    uint32_t n_relations;      /* of triples; 0: pairs */
    struct sl_link_ends *ends; /* [n_relations]; NULL: pairs */
    bool own_ids;              /* ends have one type each; files number the vertices of each type from 0 */
    bool directed;             /* a pair is not the same in the other direction. A triple never is */
};

/* The name of a file below SL_N_LINK_FILES, "train". */
const char *sl_links_name(uint32_t file);

/* Read a list of pairs of ids below n_vertices, or of triples (.csv). SL_EFILE, SL_EIO, SL_ENOMEM. On failure *out
 * is empty. */
enum sl_status sl_links_read(const char *path, uint32_t n_vertices, struct sl_links *out);

/* The same of a dataset whose vertices have names, a line each; NULL: none. If the first line of text begins with a
 * name, all lines are "name,name", quoted as in nodes.csv. Otherwise the ends are numbers. SL_EFILE also: no such
 * name. */
enum sl_status sl_links_read_named(const char *path, const char *names, uint32_t n_vertices, struct sl_links *out);

struct sl_ids;

/* Read a list of vertices. names: a line for each of n_vertices; NULL: none. If the first line of the file is a name,
 * each line must be one. Numbers may be names. Masks, other text and .npy are read as by sl_csv_read_ids and
 * sl_npy_read_ids, with their errors. SL_EFILE also: no such name, or a name comes twice. */
enum sl_status sl_ids_read_named(const char *path, const char *names, uint32_t n_vertices, struct sl_ids *out);

/* Read the lists of a split by file; a path may be NULL. n_vertices: of the dataset. Unless the split has its ends
 * already, triples get them. SL_EFILE, SL_EIO, SL_ENOMEM. */
enum sl_status sl_links_read_split(char *const paths[SL_N_LINK_FILES], uint32_t n_vertices, struct sl_link_split *out);

/* Make room in an empty list for n links and one more; typed: with relations. The caller frees *out, also on failure.
 * SL_ENOMEM. */
enum sl_status sl_links_alloc(uint64_t n, bool typed, struct sl_links *out);

/* Copy a list. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_links_copy(const struct sl_links *links, struct sl_links *out);

/* Copy the ends of n relations. ends NULL: all n_vertices are ends. The caller frees *out (sl_free). SL_ENOMEM. */
enum sl_status sl_links_copy_ends(const struct sl_link_ends *ends, uint32_t n, uint32_t n_vertices,
                                  struct sl_link_ends **out);

/* Give a split of triples, among n_vertices of one type, its number of relations and its ends. `where` starts the
 * messages. SL_EFILE: more relations than SL_MAX_RELATIONS. SL_ENOMEM. */
enum sl_status sl_links_set_ends(struct sl_link_split *split, uint32_t n_vertices, const char *where);

/* Check that a list has relations exactly if the split has, each below n_relations, and ends of the relations' types.
 * With own_ids ends become ids of the whole dataset. `path` starts the messages. SL_EFILE. */
enum sl_status sl_links_place(const struct sl_link_split *split, const char *path, struct sl_links *links);

/* A link for comparisons: its pair from << 32 | to, its relation (0: none), its list and its place there. */
struct sl_link_entry {
    uint64_t pair;
    uint32_t relation;
    uint32_t list, place;
};

/* The links of lists first .. end - 1 without negatives of each link, sorted in the order of the members (sl_free). If
 * the split is not directed, the smaller id of a pair without a relation comes first. SL_ENOMEM. */
enum sl_status sl_links_sort(const struct sl_link_split *split, uint32_t first, uint32_t end,
                             struct sl_link_entry **out, size_t *n_out);

/* Whether a pair of a relation is among sorted links. */
bool sl_links_have(const struct sl_link_entry *entries, size_t n, uint64_t pair, uint32_t relation);

/* Check the lists. A validation or test link is in no other list of links. A training link may be listed twice. No
 * negative is a link. Each relation of a list has a training link. `where` starts the messages. SL_EFILE, SL_ENOMEM. */
enum sl_status sl_links_check(const struct sl_link_split *split, const char *where);

/* What lists have lost: links to find that were training links, links of valid that were in test or twice in a list,
 * and negatives that were links. */
struct sl_links_dropped {
    uint32_t n_trained, n_repeated, n_negatives;
};

/* Drop all that sl_links_check refuses, but for relations without training links. both_ways: training links are also
 * dropped if their reverse is to be found. SL_ENOMEM: the lists are unchanged. */
enum sl_status sl_links_drop_repeats(struct sl_link_split *split, bool both_ways, struct sl_links_dropped *out);

/* Draw a pair of distinct vertices, neither a link of any list nor an edge of the graph, for each link of a list. The
 * pairs depend on the links and edges alone. Of a triple one end is drawn, of the relation's type; a draw says which.
 * SL_EINVAL: hardly any pair has no link. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_links_draw_negatives(const struct sl_link_split *split, enum sl_link_list list,
                                       const struct sl_graph *graph, struct sl_links *out);

/* A checksum of all lists. */
uint64_t sl_links_hash(const struct sl_link_split *split);

void sl_links_free(struct sl_links *links);
void sl_link_split_free(struct sl_link_split *split);

#endif
