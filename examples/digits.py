"""Writes digits/nodes.csv and digits/edges.csv: handwritten digits, linked where the left halves look alike.

The images come with scikit-learn (Alpaydin and Kaynak, 1998). Ten of each digit are for training, 300 for validation.
"""

from pathlib import Path

import pandas as pd
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

found = load_digits(as_frame=True)
nodes = found.data.astype(int)
nodes.insert(0, "id", [f"image{i:04}" for i in range(len(nodes))])
nodes["digit"] = found.target
train = nodes.groupby("digit").sample(10, random_state=0).index
nodes["split"] = "test"
nodes.loc[nodes.index.difference(train).to_series().sample(300, random_state=0), "split"] = "val"
nodes.loc[train, "split"] = "train"

left = found.images[:, :, :4].reshape(len(nodes), -1)
similar = kneighbors_graph(left, 8).tocoo()
edges = pd.DataFrame({"source": nodes["id"].values[similar.row], "target": nodes["id"].values[similar.col]})

folder = Path("digits")
folder.mkdir(exist_ok=True)
nodes.to_csv(folder / "nodes.csv", index=False)
edges.to_csv(folder / "edges.csv", index=False)
print(f"wrote {len(nodes)} nodes and {len(edges)} edges to {folder}/")
