"""What mattered in a search: the settings' importances, and the validation metric over the trials."""

import statistics
from itertools import accumulate
from pathlib import Path
from typing import Any

import optuna
from matplotlib.figure import Figure
from scipy.stats import rankdata

from rapgnn.compare import Record
from rapgnn.files import write_atomic
from rapgnn.graph.scores import Metric, metrics_for
from rapgnn.graph.tasks import TASKS
from rapgnn_lab.tune.search import finished, open_storage

TOO_FEW = 20  # finished trials below which importances say nothing


def importances(study: optuna.Study) -> dict[str, float]:
    """{setting: share of the differences between trials that it explains}, greatest first; they add up to 1.

    fANOVA on the trials' ranks, so that an error that exploded counts as the worst and no more, of the settings that
    every trial has. Empty where there are too few trials, or all are as good.
    """
    trials = [t for t in finished(study) if t.params]
    if len(trials) < TOO_FEW or len({t.value for t in trials}) < 2:
        return {}
    ranked = optuna.create_study()
    for t, rank in zip(trials, rankdata([t.value for t in trials]), strict=True):
        ranked.add_trial(optuna.trial.create_trial(params=t.params, distributions=t.distributions, value=rank))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return optuna.importance.get_param_importances(ranked, evaluator=evaluator)


def plot_study(storage: Path, best: Record, task: str, path: Path) -> None:
    """Draw the study that ``search`` chose ``best`` from."""
    study = optuna.load_study(study_name=best["study"], storage=open_storage(storage))
    shares, count = importances(study), len(finished(study))
    figure = Figure(figsize=(11, max(3.6, 0.3 * len(shares) + 1.6)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    left.barh([name.replace("_", " ") for name in shares], [100 * share for share in shares.values()])
    left.invert_yaxis()
    few = f"{count} trials finished, at least {TOO_FEW} needed,\nand not all equally good"
    left.set(title="what mattered", xlabel=f"% of the differences between {count} trials" if shares else few)
    draw_trials(right, study, best, metrics_for(task)[best.get("metric", TASKS[task].metric)])
    figure.legend(loc="outside lower right", ncols=3)
    figure.suptitle(f"{best['dataset']}: search for {best['method']}, space {best['space']}")
    write_atomic(path, lambda temporary: figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower()))


def draw_trials(axes: Any, study: optuna.Study, best: Record, metric: Metric) -> None:
    """Every trial, the best so far, and the one that was chosen."""
    factor = 100 if metric.percent else 1
    values = {t.number: factor * t.values[0] for t in finished(study)}
    so_far = list(accumulate(values.values(), max if metric.higher else min))
    axes.scatter(values.keys(), values.values(), s=18, color="#999999", label="one trial")
    axes.step(values.keys(), so_far, where="post", label="best so far")
    axes.scatter(best["trial"], values[best["trial"]], s=140, marker="*", label="chosen on further seeds", zorder=3)
    unit = " (%)" if metric.percent else "" if metric.higher else " (lower is better)"
    axes.set(title="validation over trials", xlabel="trial", ylabel=f"validation {metric.title}{unit}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    spread = statistics.median(values.values()) - so_far[-1]
    if not metric.higher and spread:  # a few errors that exploded must not flatten all others
        axes.set_ylim(so_far[-1] - 0.3 * spread, so_far[-1] + 5 * spread)
