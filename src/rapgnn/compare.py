"""Methods side by side on one graph: what ``rapgnn fit`` makes, RAP-GNN as published, and what it is compared with.

Graph datasets are cross-validated. The paper's protocol (Xu et al., 2019): ten stratified folds, each held out once;
the epoch whose accuracy, averaged over the held-out folds, is best, and mean and standard deviation over the folds at
that epoch. The held-out folds choose the epoch they are judged at, so the figure is optimistic. The strict protocol:
each fold is the test set once, the next one validates and chooses the epoch, the other eight train. Settings found by a
search that used the same folds have still seen every label.
"""

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapgnn.datasets.catalog import BlockModel
from rapgnn.device import hardware, own_settings, versions
from rapgnn.errors import InputError, InputNotice, check_choice
from rapgnn.estimators.card import describe_model
from rapgnn.estimators.estimators import estimator_for
from rapgnn.estimators.evaluation import check_own_features, score_rows
from rapgnn.graph.backbones import BACKBONES
from rapgnn.graph.graph import Graph, make_graphs
from rapgnn.graph.rows import FOLDS, make_folds
from rapgnn.graph.tasks import average_precision
from rapgnn.graph.typed import flattened
from rapgnn.memory import PeakMemory
from rapgnn.network.config import Config
from rapgnn.network.encode import EMBEDDINGS
from rapgnn.network.weights import BY_WIDTH
from rapgnn.search.start import start_config, usual_embedding
from rapgnn.training.baselines import fit_embedding, fit_end_to_end
from rapgnn.training.fit import Fitted, fit_rap
from rapgnn.training.loop import Loop
from rapgnn.training.predict import Prediction, model_on

Record = dict[str, Any]
OnEpoch = Callable[[], None] | None
BEST = "best"  # stands for the embedding that a search of the paper's settings chose on validation


def fit_searched(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch = None) -> Fitted:
    """What ``rapgnn fit`` makes: the estimator of this task with nothing set. The settings do not apply."""
    estimator = estimator_for(graph.task)(seed=seed, device=str(graph.y.device), scoring=graph.objective.scoring)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputNotice)  # loading has said it
        estimator.fit_graph(replace(graph, folds=False), lambda settings, value: on_epoch() if on_epoch else None)
    predictor = model_on(estimator.model_, graph.to("cpu"))

    def predict(rows: Tensor) -> Prediction:
        prediction = predictor(rows.cpu())
        return Prediction(prediction.scores.to(rows.device), prediction.probabilities.to(rows.device))

    loop = Loop(0, len(estimator.trials_), float("nan"), float("nan"), [estimator.validation_score_])
    chosen = {"model": describe_model(estimator.model_), "candidates": len(estimator.trials_)}
    return Fitted(estimator.model_, predict, loop, estimator.engine_, estimator.engine_reason_, "expected", chosen)


def fit_no_edges(graph: Graph, config: Config, seed: int, on_epoch: OnEpoch = None) -> Fitted:
    """The same on the same rows without a single edge: what the features alone can tell."""
    check_own_features(graph)
    none = torch.zeros(2, 0, dtype=torch.int64, device=graph.edge_index.device)
    return fit_searched(
        replace(graph, edge_index=none, edge_weight=None, edge_attr=None, typed=None), config, seed, on_epoch
    )


@dataclass(frozen=True)
class Method:
    """A method.

    Args:
        fit: (graph, config, seed, on_epoch) -> the trained model.
        settings: what makes it what it is.
        trained: whether the weights of its layers are.
        configured: whether a ``Config`` describes it; others choose their settings themselves.
        steps: how often ``on_epoch`` is called in a fit, where a ``Config`` does not say it.
        numerics: counted up by hand when the method's numbers change, so that a stored measurement of other numbers
            is not taken for this one's. ``tests/test_golden.py`` fails when it must be.
    """

    title: str
    fit: Callable[..., Fitted]
    settings: dict[str, Any] = field(default_factory=dict)
    trained: bool = False
    configured: bool = True
    steps: int | None = None
    numerics: int = 1

    def configure(self, config: Config) -> Config:
        settings = self.settings
        if settings.get("structure", "full") != "full" and config.distribution in BY_WIDTH:
            settings = settings | {"distribution": "uniform"}  # a diagonal has no width
        return config.update(**settings)


METHODS = {
    "rap": Method("RAP-GNN", fit_rap),  # diagonal, every forward, unless the settings say otherwise
    "end-to-end": Method("End-to-End", fit_end_to_end, trained=True),
    "pretrained-embedding": Method("Pretrained Embedding", fit_embedding),
    "fixed-diagonal": Method("Fixed Random Diagonal", fit_rap, {"structure": "diagonal", "schedule": "fixed"}),
    "fixed-full": Method("Fixed Random Weights", fit_rap, {"structure": "full", "schedule": "fixed"}),
    "random-full": Method("Random Weights", fit_rap, {"structure": "full", "schedule": "forward"}),
    "identity": Method("Identity Weights", fit_rap, {"structure": "identity", "schedule": "fixed"}),
    "fit": Method("rapgnn fit", fit_searched, configured=False),
    "no-edges": Method("rapgnn fit, no edges", fit_no_edges, configured=False),
}
"""The methods by name; a new one is a row here, or in the entry-point group ``rapgnn.methods`` of another package."""

STRATEGIES = tuple(name for name, method in METHODS.items() if method.configured)
"""RAP-GNN and what the paper compares it with in its own settings."""

USUAL = ("fit", "rap", "end-to-end", "no-edges")
"""What is compared where the user names nothing."""


@cache
def methods() -> dict[str, Method]:
    """``METHODS`` and those of installed packages."""
    return METHODS | {name: one for e in entry_points(group="rapgnn.methods") for name, one in e.load().items()}


def named_methods(names: str) -> list[str]:
    """The methods of a comma-separated list; ``all``: those of this library, and any name of a group elsewhere."""
    groups = {"all": ["fit", *(name for name in METHODS if name != "fit")]}
    groups |= {entry.name: list(entry.load()) for entry in entry_points(group="rapgnn.methods")}
    words = [word.strip() for word in names.split(",") if word.strip()]
    if not words:
        raise InputError(f"no method named: choose from {', '.join(methods())}.")
    chosen = list(dict.fromkeys(name for word in words for name in groups.get(word, [word])))
    for name in chosen:
        check_choice("method", name, methods())
    return chosen


@own_settings()
def fit(method: str, graph: Graph, config: Config, seed: int, on_epoch: Callable[[], None] | None = None) -> Fitted:
    """Train one method once."""
    check_choice("method", method, methods())
    chosen = methods()[method]
    graph = flattened(graph) if chosen.configured and graph.typed is not None else graph
    return chosen.fit(graph, chosen.configure(config), seed, on_epoch)


# What goes through the whole graph in every epoch is narrower, and stops when validation stalls.
_SLOW = {"hidden_channels": 64, "patience": 100}
_GENERAL: dict[str, dict[str, Any]] = {
    "end-to-end": {"num_layers": 2, **_SLOW},
    "random-full": _SLOW,
    "random": _SLOW,
    "learnable": _SLOW,
}
QUICK_EPOCHS = {"end-to-end": 100, "random-full": 100}  # `--quick` cuts only what goes through the graph every epoch


def default_config(graph: Graph, method: str, embedding: str | None = None) -> Config:
    """The settings for a method on a graph: tuned ones, where an installed package has them (entry-point group
    ``rapgnn.settings``: graph, method, embedding -> settings or None), else general ones.

    Args:
        embedding: a name from ``EMBEDDINGS``, ``"best"``, or None for the paper's choice.
    """
    if embedding is not None:
        check_choice("embedding", embedding, [*EMBEDDINGS, BEST])
    trained = methods()[method].trained
    # Trained layers come with an embedding of their own; its searches are filed under the first name.
    usual = "pretrained" if trained else usual_embedding(graph)
    wanted, base = embedding or usual, start_config(graph, trained)
    for entry in entry_points(group="rapgnn.settings"):
        if (tuned := entry.load()(graph, method, wanted)) is not None:
            return base.update(**tuned)
    chosen = base.update(embedding=usual if wanted == BEST else wanted)
    if graph.ptr is not None:
        return chosen
    return chosen.update(**(_GENERAL.get(method, {}) | _GENERAL.get(wanted, {})))


def plan(
    graph: Graph, names: Sequence[str], embedding: str | None, overrides: dict[str, Any], quick: bool = False
) -> dict[str, Config]:
    """The configuration of every method: the dataset's defaults, then what the user sets."""
    configs = {}
    for name in names:
        method = methods()[name]
        if not method.configured:
            configs[name] = Config()
            continue
        config = default_config(graph, name, embedding if _takes(name, embedding) else None)
        clash = [key for key, value in method.settings.items() if overrides.get(key, value) != value]
        if clash:
            raise InputError(f"{name} fixes {clash[0]}, so it cannot be set: leave {name} out with `methods`.")
        other = BACKBONES.get(overrides.get("backbone", ""))
        if other is not None and len(other.terms) > 1:
            config = config.update(factors=1)  # weights side by side cannot follow one another too
        config = config.update(**overrides)
        if "epochs" in overrides and "pretrain_epochs" not in overrides:  # so many are enough for phase 1 too
            config = config.update(pretrain_epochs=min(config.epochs, config.pretrain_epochs))
        if config.head == "ridge" and name == "random-full":
            raise InputError("random-full has no exact mean for the ridge head: leave it out with `methods`.")
        if quick and name in QUICK_EPOCHS:
            config = config.update(epochs=min(config.epochs, QUICK_EPOCHS[name]))
        configs[name] = config
    return configs


def _takes(method: str, embedding: str | None) -> bool:
    if method == "end-to-end" or (embedding == BEST and method != "rap"):
        return False
    pretrained = embedding in EMBEDDINGS and EMBEDDINGS[embedding].trained == "before"
    return method != "pretrained-embedding" or pretrained


def total_steps(method: str, config: Config, seeds: int, folds: bool = False, protocol: str = "both") -> int | None:
    """How often ``on_epoch`` is called at most; None where a method does not know it before."""
    steps = methods()[method].steps
    if methods()[method].configured:
        solved = config.head == "ridge" and method != "end-to-end"
        steps = config.pretrain_epochs if method == "pretrained-embedding" else 1 if solved else config.epochs
    fits = seeds * (FOLDS * (2 if protocol == "both" else 1) if folds else 1)
    return None if steps is None else fits * steps


def compare(
    graph: Graph,
    configs: dict[str, Config],
    seeds: Sequence[int],
    protocol: str = "both",
    on_start: Callable[[str], None] = lambda method: None,
    on_epoch: Callable[[], None] | None = None,
) -> list[Record]:
    """Train every method once per seed."""
    warm_up(list(configs), str(graph.y.device), graphs=graph.ptr is not None)
    records = []
    for method, config in configs.items():
        on_start(method)
        try:
            records.append(run(method, graph, config, seeds, protocol=protocol, on_epoch=on_epoch))
        except InputError as error:
            raise InputError(f"{method}: {error}") from error
    return records


def run(
    method: str,
    graph: Graph,
    config: Config,
    seeds: Sequence[int],
    *,
    splits: Sequence[str] = ("val", "test"),
    protocol: str = "both",
    on_epoch: OnEpoch = None,
) -> Record:
    """Train once per seed (and fold), score the splits once each, and say what it took.

    Args:
        splits: ``("val",)`` never looks at the test rows, as a search must not.
        protocol: for graphs evaluated by cross-validation, which of the two; ``"both"``: the paper's is the record's
            figure, the strict one stands beside it.

    Returns:
        A flat record; metrics are fractions or errors, ``mean``, ``std`` and ``values`` are those of the last split.
    """
    if graph.folds and protocol == "strict" and "test" not in splits:
        raise InputError("the strict protocol scores test folds, so it cannot leave them out.")
    if graph.folds:
        fits, figures = _cross_validate(method, graph, config, seeds, "test" in splits, protocol, on_epoch)
    else:
        fits = [_fit_once(method, graph, config, seed, splits, on_epoch) for seed in seeds]
        figures = _figures_of_splits(graph, fits, splits)
    described, chosen, device = methods()[method].configured, methods()[method].configure(config), str(graph.y.device)
    peaks = [one["peak"] for one in fits]
    own = [one["chosen"] for one in fits if one["chosen"]]  # where a method has settings of its own
    return {
        "dataset": graph.name,
        "task": graph.task,
        "method": method,
        "backbone": chosen.backbone if described else None,
        "metric": graph.objective.chosen_by,
        **figures,
        "seeds": list(seeds),
        "fit_seconds": statistics.median(one["seconds"] for one in fits),
        "total_seconds": sum(one["seconds"] for one in fits),
        "train_ms_per_epoch": statistics.median(one["loop"].train_ms_per_epoch for one in fits),
        "eval_ms_per_epoch": statistics.median(one["loop"].eval_ms_per_epoch for one in fits),
        "peak_memory_mb": None if None in peaks else max(peaks),
        **fits[-1]["engine"],
        "epochs": [one["loop"].epochs for one in fits],
        "device": device,
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "config": chosen.to_dict() if described else fits[-1]["chosen"],
        **({"chosen": own} if own else {}),
        "versions": versions(),
    }


def _fit_once(
    method: str, graph: Graph, config: Config, seed: int, splits: Sequence[str], on_epoch: OnEpoch
) -> dict[str, Any]:
    with PeakMemory(graph.y.device) as peak:
        start = time.perf_counter()
        fitted = fit(method, graph, config, seed, on_epoch)
        seconds = time.perf_counter() - start
    engine = {"engine": fitted.engine, "engine_reason": fitted.reason, "inference": fitted.inference}
    one = {"seconds": seconds, "peak": peak.megabytes, "loop": fitted.loop, "chosen": fitted.chosen, "engine": engine}
    for split in splits:
        rows = graph.rows(split)
        prediction = fitted.predict(rows)
        one[split] = score_rows(graph, prediction, rows, graph.objective.scoring)
        if graph.objective.metric == "rocauc":
            one["average_precision"] = average_precision(prediction.scores, graph.y[rows])
    return one


def _figures_of_splits(graph: Graph, fits: list[dict[str, Any]], splits: Sequence[str]) -> Record:
    figures = {"protocol": "fixed split", **_figures([one[splits[-1]] for one in fits])}
    if "val" in splits:
        values = [one["val"] for one in fits]
        figures |= {"val_mean": float(np.mean(values)), "val_values": values}
    if graph.objective.metric == "rocauc":  # where positives are rare the curve flatters; chance level is their share
        known = graph.y[graph.rows(splits[-1])]
        precision = float(np.mean([one["average_precision"] for one in fits]))
        share = float(known.nanmean()) if len(known) else float("nan")
        figures |= {"average_precision": precision, "positive_share": share}
    return figures


def _cross_validate(
    method: str, graph: Graph, config: Config, seeds: Sequence[int], test: bool, protocol: str, on_epoch: OnEpoch
) -> tuple[list[dict[str, Any]], Record]:
    fits, values, best_epochs = [], [], []
    whole = config.update(patience=None)  # the best mean epoch is only known when every fold ran to the end
    for seed in seeds if protocol != "strict" else ():
        fits += [_fit_once(method, fold, whole, seed, (), on_epoch) for fold in paper_folds(graph, seed)]
        histories = [one["loop"].history for one in fits[-FOLDS:]]
        epoch, at_epoch = at_best_mean_epoch(histories, graph.objective.higher)
        best_epochs.append(epoch)
        values += at_epoch
    folds = [(fold, seed) for seed in seeds for fold in strict_folds(graph, seed) if test and protocol != "paper"]
    strict = [_fit_once(method, fold, config, seed, ("test",), on_epoch) for fold, seed in folds]
    scores = [one["test"] for one in strict]
    if not values:
        return strict, {"protocol": f"{FOLDS}-fold, inner validation, held-out test", **_figures(scores)}
    figures: Record = {"protocol": f"{FOLDS}-fold, epoch of the best mean validation", **_figures(values)}
    figures |= {"val_mean": figures["mean"], "val_values": values, "best_epochs": best_epochs}
    figures |= {f"strict_{key}": value for key, value in _figures(scores).items()} if scores else {}
    return [*fits, *strict], figures


def _figures(values: list[float]) -> Record:
    """``std`` is that of these values; tables show that of what they are a sample of."""
    return {"mean": float(np.mean(values)), "std": float(np.std(values)), "values": values}


def warm_up(methods: Sequence[str], device: str = "cpu", graphs: bool = False) -> None:
    """Run each method for a moment on a tiny graph, so that loading libraries is not charged to the first one."""
    config = Config(num_layers=2, hidden_channels=8, epochs=2, pretrain_epochs=2)
    if graphs:
        rng = np.random.default_rng(0)
        edges = np.concatenate([rng.integers(4 * i, 4 * i + 4, (2, 6)) for i in range(30)], axis=1)
        kinds = np.eye(2)[rng.integers(0, 2, edges.shape[1])]
        sizes, classes = np.full(30, 4), np.arange(30) % 2
        tiny = make_graphs(rng.random((120, 3)), edges, sizes, classes, edge_attr=kinds).to(device)
        config = config.update(backbone="gine", batch_size=16)
    else:
        tiny = BlockModel(nodes=40, classes=2, features=8, train=5, val=10, test=10).generate().to(device)
    for method in methods:
        run(method, tiny, config, [0])


def paper_folds(graph: Graph, seed: int) -> Iterator[Graph]:
    """Each fold validates once, and there is no test set."""
    folds = make_folds(graph, seed)
    for i, fold in enumerate(folds):
        yield replace(graph, train=_join(folds, {i}), val=fold, test=fold[:0])


def strict_folds(graph: Graph, seed: int) -> Iterator[Graph]:
    """Each fold is the test set once; the next one validates."""
    folds = make_folds(graph, seed)
    for i, fold in enumerate(folds):
        after = (i + 1) % len(folds)
        yield replace(graph, train=_join(folds, {i, after}), val=folds[after], test=fold)


def at_best_mean_epoch(histories: list[list[float]], higher: bool = True) -> tuple[int, list[float]]:
    """The epoch whose mean over the runs is best, and every run's value there.

    A run that stopped early counts with its last value.
    """
    if not all(histories):
        raise InputError("there is no epoch to choose: a run had none.")
    longest = max(len(history) for history in histories)
    curves = np.array([history + history[-1:] * (longest - len(history)) for history in histories])
    means = np.nan_to_num(curves.mean(axis=0), nan=-np.inf if higher else np.inf)  # a diverged run cannot be best
    best = int(means.argmax() if higher else means.argmin())
    return best, curves[:, best].tolist()


def _join(folds: list[Tensor], without: set[int]) -> Tensor:
    return torch.cat([fold for i, fold in enumerate(folds) if i not in without]).sort().values
