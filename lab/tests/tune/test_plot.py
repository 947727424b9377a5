"""What mattered in a search, and the plot of it."""

import matplotlib as mpl
import optuna
import pytest
from matplotlib.figure import Figure

from rapgnn.graph.scores import metrics_for
from rapgnn_lab.tune.plot import TOO_FEW, draw_trials, importances, plot_study
from rapgnn_lab.tune.search import open_study
from rapgnn_lab.tune.space import suggest

FAST = "pretrained-embedding"  # the strategy whose trials take least


def test_importances_show_what_matters(small_graph):
    def objective(trial) -> float:
        settings = suggest(trial, "rap", None, "any", small_graph)
        return 10.0 * (settings["embedding"] == "identity") + 0.1 * settings["num_layers"]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=TOO_FEW - 1)
    assert importances(study) == {}
    study.optimize(objective, n_trials=40)
    shares = importances(study)
    assert next(iter(shares)) == "embedding"
    assert sum(shares.values()) == pytest.approx(1.0)


def test_the_plot_says_what_mattered_and_what_was_chosen(small_graph, readable_plot, tmp_path):
    study = open_study(tmp_path / "p.db", "s", higher=True)
    best = {"study": "s", "trial": 1, "dataset": "meadow", "method": FAST, "space": "any"}

    def words(trials: int, value) -> str:
        for trial in (study.ask() for _ in range(trials)):
            suggest(trial, FAST, None, "any", small_graph)
            study.tell(trial, value(trial))
        with mpl.rc_context({"svg.fonttype": "none"}):
            plot_study(tmp_path / "p.db", best, small_graph.task, tmp_path / "p.svg")
        return (tmp_path / "p.svg").read_text()

    few = words(3, lambda trial: 0.5)
    assert all(text in few for text in (f"at least {TOO_FEW} needed", "meadow", "pretrained-embedding", "accuracy"))
    assert ">pretrain lr<" in words(TOO_FEW, lambda trial: 0.5 + trial.params["pretrain_lr"])
    plot_study(tmp_path / "p.db", best, small_graph.task, tmp_path / "p.png")
    readable_plot(tmp_path / "p.png")


def test_an_error_that_exploded_does_not_flatten_the_plot(tmp_path):
    study, axes = open_study(tmp_path / "p.db", "s", higher=False), Figure().subplots()
    for value in (1.0, 0.9, 1e9, 0.8):
        study.tell(study.ask(), value)
    draw_trials(axes, study, {"trial": 3}, metrics_for("graph-regression")["rmse"])
    low, high = axes.get_ylim()
    assert low < 0.8 < 1.0 < high < 2.0
