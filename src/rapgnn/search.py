"""Hyperparameter search on validation alone: every trial kept in SQLite, resumable, one budget for all strategies."""

import json
import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rapgnn.config import Config
from rapgnn.defaults import MANY_GRAPHS, base_config
from rapgnn.embedding import EMBEDDINGS
from rapgnn.errors import InputError, check_choice
from rapgnn.experiment import Record, run
from rapgnn.graph import Graph
from rapgnn.methods import METHODS
from rapgnn.paper.ranges import RANGES, WIDE, WIDE_GRAPHS, Range

SPACES = ("paper", "wide")
GRAPH_EPOCHS = 200
CONFIRM_SEED = 100  # the seeds that decide among the best trials are not those of the search


def find_range(space: str, graph: Graph) -> Range:
    """The range to search: the paper's for its datasets, the wide one for any graph."""
    check_choice("search space", space, SPACES)
    wide = WIDE if graph.ptr is None else WIDE_GRAPHS
    return RANGES.get(graph.name, wide) if space == "paper" else wide


def suggest(trial: Any, method: str, embedding: str, space: str, graph: Graph) -> dict[str, Any]:
    """One point of the space, as settings of ``Config``."""
    r = find_range(space, graph)
    graphs, trained = graph.ptr is not None, METHODS[method].trained
    settings: dict[str, Any] = {"embedding": embedding, "epochs": r.epochs}
    if graphs:  # many batches make an epoch of many steps, and one through trained layers is dear
        share = (4 if len(graph.train) > MANY_GRAPHS else 1) * (2 if trained else 1)
        settings["epochs"] = min(r.epochs, GRAPH_EPOCHS // share)
    if not graphs:
        settings["normalize_features"] = trial.suggest_categorical("normalize_features", [True, False])
    else:
        settings["batch_size"] = trial.suggest_categorical("batch_size", list(r.batch_size))
    trains_embedding = method in ("end-to-end", "pretrained-embedding") or EMBEDDINGS[embedding].trained != "never"
    if method == "end-to-end" or EMBEDDINGS[embedding].mlp:
        settings["hidden_channels"] = trial.suggest_categorical("hidden_channels", r.hidden_channels)
        if embedding != "pretrained-gnn" or graphs:
            settings["embedding_layers"] = trial.suggest_categorical("embedding_layers", r.embedding_layers)
    if trains_embedding and method != "end-to-end" and embedding != "learnable":
        settings["pretrain_lr"] = trial.suggest_float("pretrain_lr", r.lr[0], max(r.lr[1], 0.01), log=True)
        settings["pretrain_dropout"] = trial.suggest_float("pretrain_dropout", 0.0, 0.5 if graphs else 0.8)
        decay = (1e-7, 1e-2) if graphs else (1e-5, 1e-1)
        settings["pretrain_weight_decay"] = trial.suggest_float("pretrain_weight_decay", *decay, log=True)
        if space == "wide" and method != "pretrained-embedding":
            settings["embedding_output"] = trial.suggest_categorical("embedding_output", ["relu", "split"])
        lengths = [5, 10, 25, 50, 200] if space == "wide" and not graphs else [50, 200]
        settings["pretrain_epochs"] = trial.suggest_categorical("pretrain_epochs", [10, 30, 100] if graphs else lengths)
    if method == "pretrained-embedding":
        if graphs:
            settings["pooling"] = trial.suggest_categorical("pooling", ["sum", "mean"])
        return settings
    settings["num_layers"] = trial.suggest_categorical("num_layers", r.num_layers)
    if graphs:
        settings |= _suggest_graph_layers(trial, method, space, graph)
    else:
        settings["self_loops"] = trial.suggest_categorical("self_loops", [False, True])
    heads = ["linear"] if not graphs else ["linear", "mlp"]
    if space == "paper" and graphs:
        heads = ["mlp"] if r.head_layers > 1 else ["linear"]
    if space == "wide" and not trained and method != "random-full" and embedding not in ("learnable", "random"):
        heads = [*heads, "ridge"]
    head = trial.suggest_categorical("head", heads) if len(heads) > 1 else heads[0]
    settings["head"] = head
    if head == "mlp" and graphs and space == "wide":
        settings["head_layers"] = trial.suggest_categorical("head_layers", [2, 3])
    if head == "ridge":
        settings["ridge"] = trial.suggest_float("ridge", 1e-6 if graphs else 1e-4, 1e2, log=True)
        return settings
    settings["lr"] = trial.suggest_float("lr", *r.lr, log=True)
    settings["dropout"] = trial.suggest_float("dropout", *r.dropout)
    settings["weight_decay"] = trial.suggest_float(
        "weight_decay", *((1e-7, 1e-2) if graphs else (1e-6, 1e-1)), log=True
    )
    if method in ("end-to-end", "random-full") or embedding in ("learnable", "random"):
        settings["patience"] = (
            40 if graphs else 100
        )  # an epoch through the graph is dear; the cheap ones run to the end
    return settings


def _suggest_graph_layers(trial: Any, method: str, space: str, graph: Graph) -> dict[str, Any]:
    """What only layers on graph batches have: their MLP, pooling, jumping knowledge, normalisation."""
    settings: dict[str, Any] = {}
    trained = METHODS[method].trained
    settings["batch_norm"] = trial.suggest_categorical("batch_norm", [True, False])
    if not trained:
        settings["factors"] = trial.suggest_categorical("factors", [1, 2, 3])
        settings["standardize"] = trial.suggest_categorical("standardize", [True, False])
    if space == "wide":
        settings["pooling"] = trial.suggest_categorical("pooling", ["sum", "mean"])
        settings["jumping"] = trial.suggest_categorical("jumping", ["last", "cat"])
        if trained:
            settings["factors"] = trial.suggest_categorical("factors", [1, 2, 3])
    else:
        settings |= {"pooling": "sum", "jumping": "last"}
    return settings


def search(
    graph: Graph,
    method: str,
    storage: Path,
    *,
    trials: int,
    seeds: int = 3,
    space: str = "paper",
    embedding: str = "pretrained",
    base: Config | None = None,
    confirm: int = 5,
    minutes: float | None = None,
    on_trial: Callable[[int, float], None] | None = None,
) -> Record:
    """Search until the study holds ``trials`` finished trials, then decide among the best on further seeds.

    Args:
        storage: the SQLite file; a study that is already there is gone on with.
        seeds: a trial's value is the mean validation metric over so many seeds.
        confirm: how many of the best trials are run again on five further seeds; the test nodes stay untouched.
        minutes: begin no new trial after so long, even if there are fewer than ``trials``.

    Returns:
        The chosen trial: ``settings``, ``val_mean``, ``val_values``, ``trials`` and the study's name.
    """
    optuna = _optuna()
    check_choice("embedding", embedding, EMBEDDINGS)
    find_range(space, graph)
    base = base or base_config(graph, method)
    storage.parent.mkdir(parents=True, exist_ok=True)
    if not len(graph.val):
        raise InputError("a search needs validation rows, and this graph has none.")
    merit = graph.rule.merit
    # Another graph, or another number of seeds, is another study, whatever the names.
    name = f"{graph.name}/{method}/{embedding}/{space}/{seeds} seeds/{graph.fingerprint()}"
    address = f"sqlite:///{storage}"
    direction = "maximize" if graph.rule.higher else "minimize"
    try:
        study = optuna.create_study(study_name=name, storage=address, direction=direction, load_if_exists=True)
    except (sqlite3.DatabaseError, optuna.exceptions.StorageInternalError, _sqlalchemy_error()) as error:
        raise InputError(f"{storage} is not a database of trials: name another file with --storage.") from error
    # A resumed study goes on from another point of the random sequence instead of repeating its beginning.
    study.sampler = optuna.samplers.TPESampler(seed=len(study.trials), n_startup_trials=20)

    def objective(trial: Any) -> float:
        settings = suggest(trial, method, embedding, space, graph)
        trial.set_user_attr("settings", json.dumps(settings))
        try:
            record = run(method, graph, base.update(**settings), range(seeds), splits=("val",))
        except InputError as error:
            # A point of the space that this graph does not admit, such as the ridge head without the shortcut.
            trial.set_user_attr("refused", json.dumps(str(error)))
            raise optuna.TrialPruned from error
        for key in ("val_values", "fit_seconds", "train_ms_per_epoch", "engine", "epochs"):
            trial.set_user_attr(key, json.dumps(record[key]))
        if record["val_mean"] != record["val_mean"]:
            trial.set_user_attr("refused", json.dumps("the validation nodes give no metric (one class only)."))
            raise optuna.TrialPruned
        return record["val_mean"]

    start = time.monotonic()
    while len(_ended(optuna, study)) < trials and (minutes is None or time.monotonic() - start < 60 * minutes):
        study.optimize(objective, n_trials=1)
        if on_trial:
            values = [t.value for t in study.trials if t.value is not None]
            on_trial(len(_ended(optuna, study)), max(values, key=merit, default=float("nan")))
    finished = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    if not finished:
        refused = json.loads(study.trials[-1].user_attrs.get("refused", '"no reason given"'))
        raise InputError(f"not one of {trials} trials could run: {refused}")
    best = sorted(finished, key=lambda t: -merit(t.value))[: max(1, confirm)]
    chosen = None
    for trial in best:
        settings, values = json.loads(trial.user_attrs["settings"]), json.loads(trial.user_attrs["val_values"])
        if confirm > 1:
            again = range(CONFIRM_SEED, CONFIRM_SEED + (1 if graph.folds else 5))
            values = values + run(method, graph, base.update(**settings), again, splits=("val",))["val_values"]
        mean = statistics.fmean(values)
        if chosen is None or merit(mean) > merit(chosen["val_mean"]):
            chosen = {"trial": trial.number, "settings": settings, "val_mean": mean, "val_values": values}
    assert chosen is not None
    return (
        {"dataset": graph.name, "method": method, "embedding": embedding, "space": space, "study": name}
        | {"metric": graph.rule.metric}
        | chosen
        | {"trials": len(finished)}
    )


def trial_records(storage: Path) -> list[Record]:
    """Every trial of every study in the file, as flat records."""
    optuna = _optuna()
    records = []
    for name in optuna.get_all_study_names(f"sqlite:///{storage}"):
        for trial in optuna.load_study(study_name=name, storage=f"sqlite:///{storage}").trials:
            attributes = {key: json.loads(value) for key, value in trial.user_attrs.items()}
            records.append(
                {"study": name, "trial": trial.number, "state": trial.state.name, "value": trial.value} | attributes
            )
    return records


def _ended(optuna: Any, study: Any) -> list[Any]:
    """Trials that came to an end; one that was killed while running does not count and is made up for."""
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return [t for t in study.trials if t.state in states]


def _sqlalchemy_error() -> type[Exception]:
    from sqlalchemy.exc import DatabaseError  # comes with optuna

    return DatabaseError


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError("tuning needs optuna: install it with pip install 'rapgnn[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
