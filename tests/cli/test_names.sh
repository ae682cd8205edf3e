#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# What --save writes is what PyTorch Geometric's and DGL's layers load: of each model a small one is trained, load_state_dict takes its
# file strictly, and the library's scores of all vertices are those of --predict. $PYTHON says which interpreter has them.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
need_layers
program=$coop_sage

cat >compare.py <<'END' || exit 99
import csv, gzip, sys
import numpy as np, torch
from safetensors.torch import load_file
from torch.nn import BatchNorm1d, LayerNorm, Linear, Module, ModuleList, Sequential
from torch.nn import functional

library, model, norm, activation = sys.argv[1:5]
dense = '--output-layers' in sys.argv
featured = '--edge-features' in sys.argv
f = getattr(functional, activation)
HIDDEN, LAYERS, HEADS, ALPHA, LAMBDA = 16, 3, 4, 0.1, 0.5

def table(path, kind):
    with gzip.open(path, 'rt') as file:
        return np.array(list(csv.reader(file)), dtype=kind)

class F(Module):
    def forward(self, x):
        return f(x)

def conv(n_in, n_out, i):
    """Layer i of the library."""
    heads = 1 if i == LAYERS - 1 and not dense else HEADS
    if library == 'torch_geometric':
        from torch_geometric import nn
        if model == 'sage':
            return nn.SAGEConv(n_in, n_out)
        if model == 'gat':
            return nn.GATConv(n_in, n_out // heads, heads, residual=True, edge_dim=3 if featured else None, fill_value=0.0)
        if model == 'gatv2':
            return nn.GATv2Conv(n_in, n_out // heads, heads, residual=True)
        if model == 'gcnii':
            return nn.GCN2Conv(n_in, ALPHA, LAMBDA, i + 1)
        if model == 'gin':
            return nn.GINConv(Sequential(Linear(n_in, n_out), F(), Linear(n_out, n_out)), train_eps=True)
        return nn.GCNConv(n_in, n_out)
    from dgl import nn
    if model == 'sage':
        return nn.SAGEConv(n_in, n_out, 'mean')
    if model == 'gat' and featured:
        return nn.EdgeGATConv(n_in, 3, n_out // heads, heads, residual=True)
    if model == 'gat':
        return nn.GATConv(n_in, n_out // heads, heads)
    if model == 'gatv2':
        return nn.GATv2Conv(n_in, n_out // heads, heads)
    if model == 'gcnii':
        return nn.GCN2Conv(n_in, i + 1, alpha=ALPHA, lambda_=LAMBDA, bias=False)
    if model == 'gin':
        return nn.GINConv(Sequential(Linear(n_in, n_out), F(), Linear(n_out, n_out)), 'sum', learn_eps=True)
    return nn.GraphConv(n_in, n_out)

def graph_of(edges, n):
    edges = torch.from_numpy(edges)
    if featured:  # as they are listed
        features = torch.from_numpy(table('made/raw/edge-feat.csv.gz', np.float32)).double()
        if library == 'torch_geometric':
            return edges.T, features
        import dgl
        kept, own = edges[:, 0] != edges[:, 1], torch.arange(n)
        graph = dgl.graph((torch.cat([edges[kept, 0], own]), torch.cat([edges[kept, 1], own])), num_nodes=n)
        return graph, torch.cat([features[kept], torch.zeros(n, features.shape[1])])  # the own term has none
    edges = edges[edges[:, 0] != edges[:, 1]]
    edges = torch.unique(torch.cat([edges, edges.flip(1)]), dim=0).T.contiguous()
    if library == 'torch_geometric':
        return (edges,)
    import dgl
    graph = dgl.graph((edges[0], edges[1]), num_nodes=n)
    return graph if model in ('sage', 'gin') else dgl.add_self_loop(graph)

class Mlp(Module):
    def __init__(self, n_classes):
        super().__init__()
        self.lins = ModuleList([Linear(HIDDEN, HIDDEN), Linear(HIDDEN, n_classes)])
        self.norms = ModuleList([(BatchNorm1d if norm == 'batch' else LayerNorm)(HIDDEN)])

    def forward(self, h):
        return self.lins[1](f(self.norms[0](self.lins[0](h))))

def mlp(n_classes):
    if library != 'torch_geometric' or norm == 'batch':  # whose MLP calls the arrays norms.0.module
        return Mlp(n_classes)
    from torch_geometric.nn import MLP
    return MLP([HIDDEN, HIDDEN, n_classes], act=activation, norm='layer_norm', norm_kwargs={'mode': 'node'})

class Net(Module):
    def __init__(self, n_features, n_classes):
        super().__init__()
        self.ends = model in ('gcnii', 'resgcn')
        widths = [HIDDEN] * (LAYERS + 1) if self.ends else [n_features] + [HIDDEN] * (LAYERS - 1) + [HIDDEN if dense else n_classes]
        convs = ModuleList(conv(widths[i], widths[i + 1], i) for i in range(LAYERS))
        self.add_module('convs' if library == 'torch_geometric' else 'layers', convs)
        n_norms = LAYERS + 1 if model == 'resgcn' else 0 if norm == 'none' else LAYERS if self.ends or dense else LAYERS - 1
        make = BatchNorm1d if norm == 'batch' else LayerNorm
        self.norms = ModuleList(make(HIDDEN) for _ in range(n_norms))
        if self.ends:
            self.add_module('in', Linear(n_features, HIDDEN))
            self.add_module('out', Linear(HIDDEN, n_classes))
        if dense:
            self.out = mlp(n_classes)

    def apply_conv(self, i, graph, *rows):
        if library == 'torch_geometric':
            return self.convs[i](*rows, *graph)
        if featured:
            return self.layers[i](graph[0], *rows, graph[1]).flatten(1)
        return self.layers[i](graph, *rows).flatten(1)

    def forward(self, x, graph):
        h = getattr(self, 'in')(x) if self.ends else x
        if model == 'resgcn':
            for i in range(LAYERS):
                h = h + self.apply_conv(i, graph, f(self.norms[i](h)))
            return self.out(f(self.norms[LAYERS](h)))
        first = h = f(h) if self.ends else h
        for i in range(LAYERS):
            h = self.apply_conv(i, graph, h, first) if model == 'gcnii' else self.apply_conv(i, graph, h)
            if i < len(self.norms):
                h = self.norms[i](h)
            if self.ends or dense or i < LAYERS - 1:
                h = f(h)
        return self.out(h) if self.ends or dense else h

x = torch.from_numpy(table('made/raw/node-feat.csv.gz', np.float32))
expected = torch.from_numpy(np.load('scores.npy')).double()
net = Net(x.shape[1], expected.shape[1])
net.load_state_dict(load_file('model.safetensors'), strict=True)
net.double().eval()
with torch.no_grad():
    found = net(x.double(), graph_of(table('made/raw/edge.csv.gz', np.int64), len(x)))
worst = float((found - expected).abs().max())
print(f'{library} {model} --norm {norm} --activation {activation}: largest difference {worst:.2e}, largest score {float(expected.abs().max()):.3g}')
if float(expected.std(dim=0).max()) < 1e-3:
    sys.exit('expected scores that differ from vertex to vertex')
sys.exit(not worst <= 1e-4 * max(1, float(expected.abs().max())))
END

generate made --vertices 400 --edges 1600 --classes 5 --features 12 --seed 3
gzip -dc made/raw/edge.csv.gz | awk 'BEGIN { srand(5) } { print rand() * 4 - 2 "," rand() "," rand() }' | gzip >made/raw/edge-feat.csv.gz
declare -A only=([gat]="--heads 4" [gatv2]="--heads 4" [gcnii]="--alpha 0.1 --lambda 0.5" [gin]="--learn-epsilon --lr 0.002")
for library in $libraries; do
    names=dgl
    [[ $library == torch_geometric ]] && names=pyg
    for model in sage gcn gat gatv2 gcnii resgcn gin; do
        for norm in none layer batch; do
            case $norm in none) activation=gelu ;; layer) activation=elu ;; *) activation=leaky_relu ;; esac
            [[ $model == sage ]] && activation=relu
            [[ $model == resgcn && $norm != none ]] && continue
            dense=
            [[ $norm == none || $model == gcnii || $model == resgcn ]] || dense="--output-layers 2"
            skip=
            [[ $names == pyg && $model == gat* ]] && skip=--skip
            featured=
            [[ $names == pyg && $model == gat && $norm == layer ]] && featured="--directed --edge-features concat"
            [[ $names == dgl && $model == gat && $norm == layer ]] && featured="--directed --edge-features add --skip"
            "$program" --dataset ./made --cache none --model $model --norm $norm --activation $activation --layers 3 --hidden 16 --lr 0.02 ${only[$model]-} $skip $dense $featured \
                --epochs 2 --batch-size 64 --pes 2 --cpus 1 --quiet --save model.safetensors \
                --save-names $names --predict scores.npy || exit 1
            "$python" -W ignore compare.py "$library" "$model" "$norm" "$activation" $dense $featured || failed=1
        done
    done
done
exit $failed
