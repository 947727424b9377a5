"""Every threshold of the search in one place, each with its reason. None was chosen on test rows of a user's graph."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """When a candidate is tried, and how many are averaged."""

    # What rows can tell
    few_rows: int = 200
    """Training rows below which random non-linear features and trained heads have nothing to learn from."""
    enough_validation: int = 100
    """Validation rows that need no others beside them, and that can stop a trained head."""
    left_out_rows: int = 1000
    """Training rows up to which each is left out in turn, where validation rows are few."""
    many_rows: int = 1000
    """Training rows from which twice as many components pay."""
    scarce: int = 4
    """Nodes for each training row from which labels are scarce: far hops and self-training are tried."""
    labelled: float = 0.05
    """Share of the nodes that are training rows from which neighbours' labels say something about a node."""
    most_outputs: int = 200
    """Classes up to which labels and predictions of neighbours are inputs: more would be most of the columns."""
    rare: float = 0.3
    """Share of one of two classes below which accuracy says little, and candidates are ranked by ROC-AUC."""

    # Features
    narrow: int = 384
    """Columns up to which features go through the graph as they are."""
    components: int = 256
    """Components of wider features."""
    most_components: int = 1024
    """Of trained heads and of the widest filters."""
    covered: int = 64
    """Columns up to which random features of a few of them each say what a trained layer would."""
    node_columns: int = 256
    """Random columns of graphs without features."""

    # Types of nodes
    type_components: int = 192
    """Of the features of each type, and of who its nodes' neighbours are."""
    most_numbers: int = 1 << 26
    """That all types' nodes begin with, from which there are fewer components."""
    places: tuple[int, ...] = (8, 24, 96)
    """Eigenvectors that tell where nodes are."""
    anchors: int = 512
    """Rows whose personalised PageRank tells who is near."""
    placed_edges: int = 2_000_000
    """Up to which there are eigenvectors."""
    chains: int = 6
    """Of relations that are tried one by one; of more, ``subsets`` at random too."""
    half_lives: tuple[float, ...] = (0.0, 1.0, 4.0)
    """Of facts with times; 0: they do not age."""
    subsets: int = 8
    few_words: int = 64
    """Columns that are mostly 0 up to which they count like others."""

    # Filters
    far: tuple[int, float] = (16, 0.1)
    """Hops and α of personalised PageRank where labels are scarce."""
    label_hops: int = 2
    """Hops of known labels."""

    # Heads
    hidden: int = 128
    """Channels of a trained head."""
    learning_rate: float = 5e-3
    weight_decay: float = 1e-4
    batch: int = 512
    steps: int = 400
    """Of a trained head, about, for few rows as for many; its learning rate falls to 0, so that few are enough."""
    patience: int = 40
    tree_outputs: int = 10
    """Classes up to which trees are grown: each has trees of its own."""
    head_views: int = 2
    """Ways to see a node that heads are trained on."""
    least_epochs: int = 6
    """Of many rows, where an epoch is many steps."""

    # Kernels
    landmarks: int = 2000
    most_landmarks: int = 4000
    """Of the best kernel."""
    bandwidths: tuple[float, ...] = (0.7, 1.4)
    """Tried beside 1."""
    buckets: tuple[int, ...] = (1024, 512, 256)
    """For the colours of nodes: the most whose counts stay below ``count_bytes``."""
    count_bytes: int = 1 << 29

    # Shares of what all candidates may cost
    of_training: float = 0.5
    """Share of the nominal seconds of a GCN's training, zeros skipped, that a search on one graph may cost."""
    of_sets: float = 0.8
    """On a set of graphs, whose networks have more layers and put batches together."""
    most_seconds: float = 30.0
    """Of a search on a graph with types: more rows make it no longer, a time budget does."""
    filters_share: float = 0.4
    """Of linear filters, where heads can be trained after them."""
    previous_share: float = 0.25
    """Of networks on another network's predictions."""
    most_bytes: int = 1 << 30
    """Of the hops of all nodes, and of what a head sees, beyond which a candidate is not tried."""
    stored: tuple[int, float] = (768 << 20, 1.5)
    """Bytes of the hops that candidates share: so many, or so many times the features' where that is more."""

    # The average
    members: int = 8
    pool: int = 16
    """How many of the best candidates may be members."""
    sizes: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    clear: float = 2.0
    """Standard errors of a difference that is not chance."""
    gain: float = 1.0
    """Standard errors by which the average's loss must fall, or else the next of its stage is less worth while."""
    judges: int = 5000
    """Rows that judge which members join an average: more would not choose others."""
    draws: int = 3
    """Of a member's random layers, where training rows are few."""
    seed_step: int = 1000
    """From one draw, or one member, to the next."""

    # Self-training
    sharper: float = 2.0
    """Power of the probabilities that are learned from."""
    pseudo_candidates: int = 6
    """That learn from one average."""
    rounds: int = 3
    """In which what was learned is learned from."""


PRESET = Preset()
