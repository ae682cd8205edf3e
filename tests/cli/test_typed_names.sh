#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Weights of rgcn and rgat in PyTorch Geometric's and DGL's layers (doc/guide/coming-from.md): a small model of each is trained on a
# typed dataset, and the library's scores of all vertices are those of --predict. $PYTHON says which interpreter has the libraries.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
need_layers

cat >typed.py <<'EOF' || exit 99
"""Three types of vertices, with features of one width, so that the types share the columns."""
import os
import numpy as np

TYPES = {'author': 40, 'paper': 90, 'venue': 12}
RELATIONS = [('author', 'writes', 'paper', 200), ('paper', 'cites', 'paper', 300), ('paper', 'in', 'venue', 80)]

def edges_of(r):
    """Sources and destinations of relation r, ids within the types. Some vertices have no edge."""
    source, _, destination, n = RELATIONS[r]
    draw = np.random.default_rng(r)
    return np.unique([draw.integers(TYPES[source], size=n), draw.integers(TYPES[destination], size=n)], axis=1)

def graph():
    """(edge_index, relation), with consecutive ids of all vertices. The reverse of relation r is R + r."""
    first = dict(zip(TYPES, np.cumsum([0, *TYPES.values()])))
    there = [edges_of(r) + [[first[source]], [first[destination]]] for r, (source, _, destination, _) in enumerate(RELATIONS)]
    both = there + [edges[::-1] for edges in there]
    return np.concatenate(both, axis=1), np.repeat(np.arange(len(both)), [edges.shape[1] for edges in both])

def features():
    return np.random.default_rng(9).normal(size=(sum(TYPES.values()), 8)).astype(np.float32)

def table(name, rows, form='%d'):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    np.savetxt(name, rows, form, ',')

if __name__ == '__main__':
    table('made/raw/num-node-dict.csv', [list(TYPES), list(TYPES.values())], '%s')
    table('made/raw/triplet-type-list.csv', [relation[:3] for relation in RELATIONS], '%s')
    for r, (source, name, destination, _) in enumerate(RELATIONS):
        table(f'made/raw/relations/{source}___{name}___{destination}/edge.csv', edges_of(r).T)
    for kind, rows in zip(TYPES, np.split(features(), np.cumsum(list(TYPES.values()))[:-1])):
        table(f'made/raw/node-feat/{kind}/node-feat.csv', rows, '%.9g')
    table('made/raw/node-label/paper/node-label.csv', np.arange(TYPES['paper']) % 3)
    for name, ids in (('train', range(60)), ('valid', range(60, 75)), ('test', range(75, 90))):
        table(f'made/split/any/paper/{name}.csv', list(ids))
EOF

cat >compare.py <<'EOF' || exit 99
import sys
import numpy as np, torch
from safetensors.torch import load_file
from torch.nn import Linear, Module, ModuleList
from typed import RELATIONS, features, graph

library, model = sys.argv[1:3]
pyg = library == 'torch_geometric'
HIDDEN, HEADS, BASES, N_RELATIONS = 16, 4, 2 if model == 'bases' else None, 2 * len(RELATIONS)
NAMES = [('v', f'r{r}', 'v') for r in range(N_RELATIONS)]
edges, relation = map(torch.from_numpy, graph())

class Convolution(Module):
    def __init__(self, n_in, n_out, heads):
        super().__init__()
        if pyg:
            from torch_geometric.nn import RGCNConv
            self.conv = RGCNConv(n_in, n_out, N_RELATIONS, BASES)
        else:
            from dgl.nn import RelGraphConv
            self.conv = RelGraphConv(n_in, n_out, N_RELATIONS, 'basis' if BASES else None, BASES)

    def load(self, arrays):
        self.conv.load_state_dict(arrays, strict=True)

    def forward(self, x):
        if pyg:
            return self.conv(x, edges, relation)
        import dgl
        both = edges[1] * N_RELATIONS + relation
        norm = 1 / torch.bincount(both)[both].to(x.dtype)  # the mean of each relation
        return self.conv(dgl.graph(tuple(edges), num_nodes=len(x)), x, relation, norm[:, None])

class Attention(Module):
    """A GATConv for each relation, their sum, and a linear layer."""
    def __init__(self, n_in, n_out, heads):
        super().__init__()
        self.linear = Linear(n_in, n_out)
        if pyg:
            from torch_geometric.nn import GATConv, HeteroConv
            make = lambda: GATConv(n_in, n_out // heads, heads, add_self_loops=False, bias=False)
            self.convs = ModuleList(make() for _ in NAMES)
            self.all = HeteroConv(dict(zip(NAMES, self.convs)), 'sum')
        else:
            from dgl.nn import GATConv, HeteroGraphConv
            make = lambda: GATConv(n_in, n_out // heads, heads, bias=False, allow_zero_in_degree=True)
            self.convs = ModuleList(make() for _ in NAMES)
            self.all = HeteroGraphConv({name: conv for (_, name, _), conv in zip(NAMES, self.convs)}, 'sum')

    def load(self, arrays):
        """Arrays of all relations are stacked."""
        names = {'lin.weight': 'weight', 'att_src': 'att_src', 'att_dst': 'att_dst'}
        own, bias = 'root', 'bias'
        if not pyg:
            names = {'fc.weight': 'linear_r.W', 'attn_l': 'attn_l', 'attn_r': 'attn_r'}
            own, bias = 'loop_weight', 'h_bias'
        assert set(arrays) == {own, bias, *names.values()}, arrays.keys()
        self.linear.load_state_dict({'weight': arrays[own].T, 'bias': arrays[bias]})
        matrix, source, target = names
        for r, conv in enumerate(self.convs):
            conv.load_state_dict({matrix: arrays[names[matrix]][r].T, source: arrays[names[source]][r:r + 1],
                                  target: arrays[names[target]][r:r + 1]}, strict=True)

    def forward(self, x):
        of = {name: edges[:, relation == r] for r, name in enumerate(NAMES)}
        if pyg:
            return self.linear(x) + self.all({'v': x}, of)['v']
        import dgl
        together = dgl.heterograph({name: tuple(ends) for name, ends in of.items()}, {'v': len(x)})
        return self.linear(x) + self.all(together, {'v': x})['v'].flatten(1)

expected = torch.from_numpy(np.load('scores.npy')).double()
weights = load_file('model.safetensors')
Layer = Attention if model == 'rgat' else Convolution
net = [Layer(8, HIDDEN, HEADS), Layer(HIDDEN, HIDDEN, HEADS) if model == 'rgat' else Layer(HIDDEN, expected.shape[1], 1)]
for i, layer in enumerate(net):
    prefix = f'{"convs" if pyg else "layers"}.{i}.'
    layer.load({name[len(prefix):]: weights.pop(name) for name in list(weights) if name.startswith(prefix)})
    layer.double().eval()
out = torch.nn.Identity()
if model == 'rgat':  # --output-layers 1
    out = torch.nn.Sequential(torch.nn.ReLU(), Linear(HIDDEN, expected.shape[1]).double())
    out[1].load_state_dict({name: weights.pop('out.lins.0.' + name) for name in ('weight', 'bias')})
assert not weights, weights.keys()
with torch.no_grad():
    found = out(net[1](torch.relu(net[0](torch.from_numpy(features()).double()))))
worst = float((found - expected).abs().max())
print(f'{library} {model}: largest difference {worst:.2e}, largest score {float(expected.abs().max()):.3g}')
if float(expected.std(dim=0).max()) < 1e-3:
    sys.exit('expected scores that differ from vertex to vertex')
sys.exit(not worst <= 1e-4)
EOF

"$python" typed.py || exit 99
declare -A options=([rgcn]='--model rgcn' [bases]='--model rgcn --bases 2' [rgat]='--model rgat --heads 4 --output-layers 1')
for library in $libraries; do
    names=dgl
    [[ $library == torch_geometric ]] && names=pyg
    for model in rgcn bases rgat; do
        "$coop_sage" --dataset ./made --cache none ${options[$model]} --layers 2 --hidden 16 --lr 0.02 --epochs 3 --batch-size 16 \
            --pes 2 --cpus 1 --quiet --save model.safetensors --save-names $names --predict scores.npy || exit 1
        "$python" -W ignore compare.py "$library" "$model" || complain "$library: scores of $model"
    done
done
exit $failed
