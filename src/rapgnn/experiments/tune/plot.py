"""What mattered in a search: the settings' importances, and the validation metric over the trials."""

import math
from itertools import accumulate
from pathlib import Path
from typing import Any

from scipy.stats import rankdata

from rapgnn.experiments.run import Record
from rapgnn.experiments.tune.study import finished, import_optuna, open_storage
from rapgnn.files import write_atomic
from rapgnn.graph.scores import Metric, metrics_for
from rapgnn.graph.tasks import TASKS

TOO_FEW, ROUGH = 20, 50  # finished trials below which importances say nothing, or little
SHOWN = 12
BLUE, RED, GREY = "#4c72b0", "#c44e52", "#999999"


def importances(study: Any) -> dict[str, float]:
    """{setting: share of the differences between trials that it explains on its own}, greatest first; they add up to 1.

    fANOVA on the trials' ranks, so that an error that exploded counts as the worst and no more. It needs every setting
    in every trial: where one plays no part any value would have done as well, so one is drawn. Empty where there are
    too few trials, or all are as good.
    """
    optuna, trials = import_optuna(), finished(study)
    if len(trials) < TOO_FEW or len({t.value for t in trials}) < 2:
        return {}
    domains = {name: domain for t in trials for name, domain in t.distributions.items()}
    whole, sampler = optuna.create_study(), optuna.samplers.RandomSampler(seed=0)
    for trial, rank in zip(trials, rankdata([t.value for t in trials]), strict=True):
        params = {
            name: trial.params[name]
            if trial.distributions.get(name) == domain
            else sampler.sample_independent(whole, trial, name, domain)
            for name, domain in domains.items()
        }
        whole.add_trial(optuna.trial.create_trial(params=params, distributions=domains, value=float(rank)))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    found = optuna.importance.get_param_importances(whole, evaluator=evaluator)
    return {name: float(share) for name, share in sorted(found.items(), key=lambda item: (-item[1], item[0]))}


def plot_study(storage: Path, best: Record, task: str, path: Path) -> None:
    """Draw the study that ``search`` chose ``best`` from."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    study = import_optuna().load_study(study_name=best["study"], storage=open_storage(storage))
    found = importances(study)
    rows = min(len(found), SHOWN)
    figure = Figure(figsize=(11, max(3.6, 0.3 * rows + 1.6)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    _draw_importances(left, found, len(finished(study)))
    _draw_trials(right, study, best, metrics_for(task)[best.get("metric", TASKS[task].metric)])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower right", ncols=3, fontsize=9, frameon=False)
    figure.suptitle(f"{best['dataset']}: search for {best['method']}, space {best['space']}")
    write_atomic(path, lambda temporary: figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower()))


def _draw_importances(axes: Any, found: dict[str, float], count: int) -> None:
    axes.set_title("what mattered", fontsize=11)
    if not found:
        few = f"too few trials to tell:\n{count} finished, at least {TOO_FEW} needed"
        reason = few if count < TOO_FEW else "all trials are equally good"
        axes.text(0.5, 0.5, reason, ha="center", va="center", transform=axes.transAxes)
        axes.axis("off")
        return
    shown = dict(list(found.items())[:SHOWN])
    names = [name.replace("_", " ") for name in shown]
    axes.barh(names, shown.values(), color=BLUE)
    most = max(shown.values())
    for i, share in enumerate(shown.values()):
        axes.text(share + most / 60, i, f"{share:.0%}" if share >= 0.005 else "<1%", va="center", fontsize=9)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.15 * most), xticks=[])
    rough = f"\nfrom {count} trials only: a rough guide" if count < ROUGH else f"\nfrom {count} trials"
    rest = f", {SHOWN} of {len(found)} settings" if len(found) > SHOWN else ""
    axes.set_xlabel(f"share of the differences explained{rest}{rough}", color=RED if count < ROUGH else "black")


def _draw_trials(axes: Any, study: Any, best: Record, task: Metric) -> None:
    trials, factor = finished(study), 100 if task.percent else 1
    numbers, values = [t.number for t in trials], [factor * t.value for t in trials]
    so_far = list(accumulate(values, max if task.higher else min))
    axes.scatter(numbers, values, s=18, color=GREY, label="one trial", zorder=2)
    axes.step(numbers, so_far, where="post", color=BLUE, lw=2, label="best so far", zorder=3)
    chosen = [(n, v) for n, v in zip(numbers, values, strict=True) if n == best["trial"]]
    axes.scatter(*zip(*chosen, strict=True), s=140, marker="*", color=RED, zorder=4, label="chosen on further seeds")
    refused = sum("refused" in t.user_attrs for t in study.get_trials(deepcopy=False))
    note = f" ({refused} refused)" if refused else ""
    unit = " (%)" if task.percent else "" if task.higher else " (lower is better)"
    axes.set(xlabel=f"trial{note}", ylabel=f"validation {task.title}{unit}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    low, high = _view(values, task.higher)
    axes.set(ylim=(low, high))
    outside = sum(not low <= v <= high for v in values)
    axes.set_title(f"validation over trials{f', {outside} outside the view' if outside else ''}", fontsize=11)


def _view(values: list[float], higher: bool) -> tuple[float, float]:
    """Limits that show the good trials: a few errors that exploded must not flatten all others."""
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    if not higher:
        high = min(high, low + 5 * (ordered[len(ordered) // 2] - low or math.inf))
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin
