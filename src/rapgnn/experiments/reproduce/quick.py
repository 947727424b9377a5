"""What a quick run leaves out of a training: epochs, the more of them the more work one is, and most of many graphs."""

from dataclasses import dataclass

from rapgnn.estimators.start import MANY_GRAPHS
from rapgnn.experiments.reproduce.item import Scale
from rapgnn.graph.graph import Graph
from rapgnn.layers.embedding import EMBEDDINGS
from rapgnn.models.config import Config
from rapgnn.training.methods import METHODS


@dataclass(frozen=True)
class Budget:
    """Epochs of a quick run: as many as the work allows, but not fewer and not more than these.

    Args:
        work: multiply-adds of all epochs.
    """

    work: float
    fewest: int
    most: int

    def epochs(self, wanted: int, work: float) -> int:
        """How many of the wanted epochs there are, one of which is so much work."""
        return min(wanted, max(self.fewest, min(self.most, int(self.work / max(work, 1)))))


WALKED = Budget(1e10, 5, 100)  # every epoch walks through the graph, and is one step
BATCHED = Budget(3e9, 5, 30)  # the same in batches of graphs, a step each
STORED = Budget(6e8, 30, 200)  # epochs on stored hops
PRETRAINED = Budget(6e7, 5, 100)  # phase 1
THINNED = 20  # of many graphs, every so many are kept to train on and to validate with


def walks(method: str, config: Config) -> bool:
    """Whether every epoch goes through the graph, because the shortcut cannot be taken."""
    chosen, kind = METHODS[method].configure(config), EMBEDDINGS[config.embedding]
    if METHODS[method].trained:
        return True
    linear = chosen.activation == "identity"
    if kind.trained == "with":
        return not (linear and chosen.embedding_output == "none" and chosen.embedding_layers == 1)
    if kind.redrawn or chosen.random_features or chosen.layer_dropout:
        return True
    if chosen.schedule == "fixed" or chosen.structure == "identity" or method == "pretrained-embedding":
        return False
    return chosen.structure == "full" or (signed(chosen) and not linear)


def signed(config: Config) -> bool:
    """Whether h⁰ has negative entries, so that there is no exact expectation behind a ReLU."""
    return config.embedding_output == "none" and EMBEDDINGS[config.embedding].mlp


def keep_every(graph: Graph, scale: Scale) -> int:
    """Of the training and validation rows every so many are used."""
    return THINNED if scale.quick and graph.ptr is not None and graph.num_rows > MANY_GRAPHS else 1


def cut(graph: Graph, method: str, config: Config, scale: Scale) -> tuple[Config, str]:
    """The settings of a quick run, and what was cut in words; unchanged in a full run, and where there is no epoch."""
    if not scale.quick or METHODS[method].reservoir:
        return config, ""
    every, trained = keep_every(graph, scale), METHODS[method].trained
    epochs, before = config.epochs, config.pretrain_epochs
    nodes, rows = graph.num_nodes / every, (len(graph.train) + len(graph.val)) / every
    if method != "pretrained-embedding" and (trained or config.head != "ridge"):  # a solved head has no epochs
        if walks(method, config):
            budget = WALKED if graph.ptr is None else BATCHED
            epochs = budget.epochs(epochs, _walked(graph, method, config) / every)
        else:
            epochs = STORED.epochs(epochs, rows * (config.num_layers + 1) * _width(graph, config))
    if not trained and EMBEDDINGS[config.embedding].trained == "before":
        before = PRETRAINED.epochs(before, (rows if graph.ptr is None else nodes) * config.hidden_channels)
    said = [f"{epochs} of {config.epochs} epochs"] if epochs < config.epochs else []
    said += [f"{before} of {config.pretrain_epochs} of phase 1"] if before < config.pretrain_epochs else []
    said += [f"every {every}th graph of training and validation"] if every > 1 else []
    return config.update(epochs=epochs, pretrain_epochs=before), ", ".join(said)


def _walked(graph: Graph, method: str, config: Config) -> float:
    """Multiply-adds of all layers on the whole graph."""
    chosen, d = METHODS[method].configure(config), _width(graph, config)
    full = METHODS[method].trained or chosen.structure == "full"
    maps = graph.num_nodes * d * chosen.factors * (d if full else 1)
    return chosen.num_layers * (maps + graph.edge_index.shape[1] * d)


def _width(graph: Graph, config: Config) -> int:
    """d, with both signs of the embedding where they stand side by side."""
    if not EMBEDDINGS[config.embedding].mlp:
        return graph.num_features
    return config.hidden_channels * (2 if config.embedding_output == "split" else 1)
