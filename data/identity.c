/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Identities as texts. */
#include "data/identity.h"

#include <inttypes.h>
#include <stdio.h>

#include "data/cache.h"

const char *const sl_data_part_names[SL_N_DATA_PARTS] = {"graph", "features", "labels", "split"};

static void write_dtype(const struct sl_features *features, size_t bytes, char *out)
{
    enum sl_dtype dtype = features->offsets != NULL ? SL_DTYPE_F32 : features->dense.dtype;
    if (dtype == SL_DTYPE_I8) {
        snprintf(out, bytes, "%s times %.9g", sl_dtype_name(dtype), (double)features->dense.scale);
    } else {
        snprintf(out, bytes, "%s", sl_dtype_name(dtype));
    }
}

void sl_dataset_identify(const struct sl_dataset *dataset, struct sl_identity *out)
{
    const struct sl_graph *graph = &dataset->graph;
    const size_t bytes = sizeof out->text[0];
    uint64_t hash[SL_N_DATA_PARTS];
    sl_cache_hash_dataset(dataset, hash);
    write_dtype(&dataset->features, sizeof out->feature_dtype, out->feature_dtype);
    snprintf(out->text[SL_DATA_GRAPH], bytes, "%u vertices, %" PRIu64 " edges, hash %016" PRIx64, graph->n_vertices,
             graph->n_edges, hash[SL_DATA_GRAPH]);
    snprintf(out->text[SL_DATA_FEATURES], bytes, "%u columns, hash %016" PRIx64, dataset->features.n_columns,
             hash[SL_DATA_FEATURES]);
    snprintf(out->text[SL_DATA_LABELS], bytes, "%u %s, hash %016" PRIx64, sl_targets_outputs(&dataset->targets),
             dataset->targets.type == SL_TARGET_CLASS ? "classes" : "columns", hash[SL_DATA_LABELS]);
    snprintf(out->text[SL_DATA_SPLIT], bytes, "%u/%u/%u vertices, hash %016" PRIx64, dataset->train.n, dataset->valid.n,
             dataset->test.n, hash[SL_DATA_SPLIT]);
    if (sl_dataset_has_links(dataset)) {
        const struct sl_links *links = dataset->links.list;
        snprintf(out->text[SL_DATA_SPLIT], bytes, "%u/%u/%u links, hash %016" PRIx64, links[SL_LINKS_TRAIN].n,
                 links[SL_LINKS_VALID].n, links[SL_LINKS_TEST].n, sl_links_hash(&dataset->links));
    }
}
