"""Models of PyTorch Geometric, and one of a user's own."""

import torch
import torch_geometric.nn as pyg
from torch import nn

N, EDGES = 12, torch.randint(0, 12, (2, 40), generator=torch.Generator().manual_seed(0))
X = torch.rand(N, 8, generator=torch.Generator().manual_seed(1))


class OwnConv(pyg.MessagePassing):
    """A user's layer: a bare matrix, a nested network, and an attention vector that is no linear map."""

    def __init__(self, channels: int):
        super().__init__(aggr="add")
        self.weight = nn.Parameter(torch.rand(channels, channels))
        self.network = nn.Sequential(nn.Linear(channels, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, channels))
        self.gate = nn.Parameter(torch.rand(channels))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.network(x @ self.weight) * self.gate)

    def message(self, x_j):
        return x_j


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([nn.ModuleDict({"conv": OwnConv(8), "norm": nn.LayerNorm(8)}) for _ in range(2)])

    def forward(self, x, edge_index):
        h = self.embedding(x)
        for block in self.blocks:
            h = block["norm"](block["conv"](h, edge_index))
        return h


def model(name: str) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {
            "gcn": lambda: pyg.GCN(8, 8, 2),
            "gat": lambda: pyg.GAT(8, 8, 2, heads=2),
            "gatv2": lambda: pyg.GAT(8, 8, 2, v2=True),
            "sage": lambda: pyg.GraphSAGE(8, 8, 2, out_channels=3),
            "gin": lambda: pyg.GIN(8, 8, 2),
            "transformer": lambda: pyg.TransformerConv(8, 4, heads=2),
            "own": Own,
        }[name]()
