#ifndef SL_RUNTIME_EXCHANGE_NCCL_TRANSPORT_H
#define SL_RUNTIME_EXCHANGE_NCCL_TRANSPORT_H

#include "runtime/exchange/transport.h"
#include "tasks/nccl_lane.h"

/* Connect n_gpus GPUs and attach them to the transport. devices: CUDA device numbers; nodes: StarPU memory nodes.
 * The transport's open calls this with the GPUs that StarPU drives. The plan must have as many homes. Errors of
 * sl_nccl_lane_open. */
enum sl_status sl_transport_nccl_connect(struct sl_transport *transport, uint32_t n_gpus, const int *devices,
                                         const int *nodes);

#endif
