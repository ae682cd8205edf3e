/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * coop_sage, which lays sparse features out dense, to see what that would cost. The linker wraps the function. */
#include "runtime/store/shards.h"

enum sl_status __real_sl_shards_open(const struct sl_dataset *dataset, struct sl_partition *partition,
                                     enum sl_feature_form form, enum sl_dtype row_dtype, const bool *held,
                                     struct sl_shards *out);
enum sl_status __wrap_sl_shards_open(const struct sl_dataset *dataset, struct sl_partition *partition,
                                     enum sl_feature_form form, enum sl_dtype row_dtype, const bool *held,
                                     struct sl_shards *out);

enum sl_status __wrap_sl_shards_open(const struct sl_dataset *dataset, struct sl_partition *partition,
                                     enum sl_feature_form form, enum sl_dtype row_dtype, const bool *held,
                                     struct sl_shards *out)
{
    (void)form;
    return __real_sl_shards_open(dataset, partition, SL_FEATURES_DENSE, row_dtype, held, out);
}
