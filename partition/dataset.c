/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The memory of a loaded dataset: arrays of its own, or a map of the cache file. */
#include "partition/dataset.h"

#include <sys/mman.h>

#include "partition/features.h"
#include "support/file.h"
#include "support/memory.h"

void sl_dataset_drop_pages(const struct sl_dataset *dataset)
{
    if (dataset->low_memory) {
        sl_file_forget(dataset->mapping, dataset->mapping_bytes);
    }
}

void sl_dataset_free(struct sl_dataset *dataset)
{
    if (dataset->mapping != NULL) {
        munmap(dataset->mapping, dataset->mapping_bytes);
    } else {
        dataset->features.dense = dataset->features.dense == dataset->lent ? NULL : dataset->features.dense;
        sl_graph_free(&dataset->graph);
        sl_features_free(&dataset->features);
        sl_targets_free(&dataset->targets);
        sl_free(dataset->train.ids);
        sl_free(dataset->valid.ids);
        sl_free(dataset->test.ids);
    }
    *dataset = (struct sl_dataset){0};
}
