"""What mattered in a search, and the plot of it."""

import matplotlib as mpl
import pytest

from rapgnn.experiments.tune.plot import TOO_FEW, importances, plot_study
from rapgnn.experiments.tune.space import suggest
from samples import KINDS

optuna = pytest.importorskip("optuna")
FAST = "pretrained-embedding"  # the strategy whose trials take least


def test_importances_find_what_matters(small_graph):
    def objective(trial) -> float:
        settings = suggest(trial, "rap", None, "any", small_graph)
        return 10.0 * (settings["embedding"] == "identity") + 0.1 * settings["num_layers"]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=TOO_FEW - 1)
    assert importances(study) == {}
    study.optimize(objective, n_trials=40)
    found = importances(study)
    assert next(iter(found)) == "embedding"
    assert sum(found.values()) == pytest.approx(1.0)
    assert {"pretrain_lr", "ridge", "lr"} <= set(found)  # settings that only some trials have


@pytest.mark.parametrize(("kind", "trials"), [("sparse 0/1", 3), ("signed graphs with edges", TOO_FEW + 2)])
def test_the_plot_is_written(kind, trials, readable, tmp_path):
    graph = KINDS[kind]
    direction, storage = "maximize" if graph.objective.higher else "minimize", f"sqlite:///{tmp_path / 'p.db'}"
    study = optuna.create_study(study_name="s", storage=storage, direction=direction)
    for trial in (study.ask() for _ in range(trials)):
        study.tell(trial, 1.0 / suggest(trial, FAST, None, "any", graph)["hidden_channels"])
    best = {"study": "s", "trial": 0, "dataset": "d", "method": FAST, "space": "any"}
    for suffix, begins in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        plot_study(tmp_path / "p.db", best, graph.task, tmp_path / f"p{suffix}")
        assert (tmp_path / f"p{suffix}").read_bytes().startswith(begins)
    readable(tmp_path / "p.png")


def test_the_plot_says_what_mattered_and_what_was_chosen(small_graph, tmp_path):
    study = optuna.create_study(study_name="s", storage=f"sqlite:///{tmp_path / 'p.db'}", direction="maximize")
    best = {"study": "s", "trial": 1, "dataset": "meadow", "method": FAST, "space": "any"}

    def words(trials: int, value) -> str:
        for trial in (study.ask() for _ in range(trials)):
            suggest(trial, FAST, None, "any", small_graph)
            study.tell(trial, value(trial))
        with mpl.rc_context({"svg.fonttype": "none"}):
            plot_study(tmp_path / "p.db", best, small_graph.task, tmp_path / "p.svg")
        return (tmp_path / "p.svg").read_text()

    few = words(3, lambda trial: 0.5)
    assert f"3 finished, at least {TOO_FEW} needed" in few
    assert "meadow: search for pretrained-embedding, space any" in few
    assert "validation accuracy (%)" in few
    assert "all trials are equally good" in words(TOO_FEW, lambda trial: 0.5)
    told = words(10, lambda trial: 0.5 + trial.params["pretrain_lr"])
    assert "a rough guide" in told
    assert ">pretrain lr<" in told
