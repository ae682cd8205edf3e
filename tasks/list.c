/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lists by PE: StarPU's vector, but a message carries only the used part. */
#include "tasks/list.h"

#include <string.h>

#include "tasks/joined.h"

struct list {
    struct starpu_vector_interface vector;
    uint32_t n_parts;
};

static struct starpu_data_interface_ops list_ops;

static void list_register(starpu_data_handle_t handle, int home, void *source)
{
    starpu_interface_vector_ops.register_data_handle(handle, home, source);
    for (unsigned node = 0; node < STARPU_MAXNODES; node++) {
        struct list *list = starpu_data_get_interface_on_node(handle, node);
        list->n_parts = ((const struct list *)source)->n_parts;
    }
}

/* StarPU first asks with NULL `out` for the size alone. */
static int list_pack(starpu_data_handle_t handle, unsigned node, void **out, starpu_ssize_t *bytes)
{
    const struct list *list = starpu_data_get_interface_on_node(handle, node);
    const uint32_t *data = (const uint32_t *)list->vector.ptr;
    *bytes = (starpu_ssize_t)(sizeof *data * ((size_t)list->n_parts + 1 + data[list->n_parts]));
    if (out != NULL) {
        *out = (void *)starpu_malloc_on_node_flags(node, (size_t)*bytes, 0);
        memcpy(*out, data, (size_t)*bytes);
        sl_ranks_sent((uint64_t)*bytes);
    }
    return 0;
}

static int list_peek(starpu_data_handle_t handle, unsigned node, void *data, size_t bytes)
{
    const struct list *list = starpu_data_get_interface_on_node(handle, node);
    memcpy((void *)list->vector.ptr, data, bytes);
    return 0;
}

static int list_unpack(starpu_data_handle_t handle, unsigned node, void *data, size_t bytes)
{
    list_peek(handle, node, data, bytes);
    starpu_free_on_node_flags(node, (uintptr_t)data, bytes, 0);
    return 0;
}

/* Lists are vectors, except in messages. StarPU-MPI sends interfaces with known ids, such as vectors, whole; a new
 * id makes it call pack_data. */
static void make_list_ops(void)
{
    list_ops = starpu_interface_vector_ops;
    list_ops.interfaceid = (enum starpu_data_interface_id)starpu_data_interface_get_next_id();
    list_ops.interface_size = sizeof(struct list);
    list_ops.register_data_handle = list_register;
    list_ops.pack_data = list_pack;
    list_ops.peek_data = list_peek;
    list_ops.unpack_data = list_unpack;
    list_ops.name = "SL_LIST";
}

void sl_list_register(void *memory, uint32_t room, uint32_t n_parts, starpu_data_handle_t *out)
{
    struct list list = {.vector = {.id = STARPU_VECTOR_INTERFACE_ID,
                                   .ptr = (uintptr_t)memory,
                                   .dev_handle = (uintptr_t)memory,
                                   .nx = room,
                                   .elemsize = sizeof(uint32_t),
                                   .allocsize = room * sizeof(uint32_t)},
                        .n_parts = n_parts};
    if (list_ops.register_data_handle == NULL) {
        make_list_ops();
    }
    starpu_data_register(out, STARPU_MAIN_RAM, &list, &list_ops);
}

bool sl_list_is(starpu_data_handle_t handle)
{
    return list_ops.register_data_handle != NULL && starpu_data_get_interface_id(handle) == list_ops.interfaceid;
}
