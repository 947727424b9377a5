"""The first trial of a search: what the estimator's own short search chooses, so that no search ends below it."""

import json
import time
from typing import Any

from rapgnn.errors import InputError
from rapgnn.estimators.select import CLASS_WEIGHT, choose
from rapgnn.experiments.tune.space import ANY
from rapgnn.experiments.tune.study import ORIGIN, SearchPlan, import_optuna
from rapgnn.experiments.tune.trials import kept_values, measured
from rapgnn.graph.goals import BALANCED

SHARE = 0.5  # of the time that the estimator's search may take
SEED = 0
TRIED = "estimator's choice"  # marks a study that has had it


def add_first_trial(plan: SearchPlan, study: Any) -> None:
    """Run the estimator's choice as a trial of its own kind; once per study, and only where its settings may be chosen.

    Its settings need not be a point of the space: they are stored with the trial, which has no parameters.
    """
    if plan.method != "rap" or plan.space != ANY or TRIED in study.user_attrs:
        return
    _add(plan, study)
    study.set_user_attr(TRIED, json.dumps(True))


def _add(plan: SearchPlan, study: Any) -> None:
    optuna = import_optuna()
    fixed: dict[str, Any] = {} if plan.embedding is None else {"embedding": plan.embedding}
    budget = None if plan.deadline is None else SHARE * max(0.0, plan.deadline - time.time())
    objective = plan.graph.objective
    reweigh = objective.scoring is not None and objective.class_weight is None and objective.metric == "accuracy"
    try:
        found = choose(plan.graph, plan.base, fixed, SEED, budget, reweigh=reweigh)
    except InputError:  # nothing that the estimator tries suits this graph: the space may have something
        return
    base = plan.base.to_dict()
    changed = {key: value for key, value in found.config.to_dict().items() if value != base[key]}
    settings = {"embedding": found.config.embedding} | changed
    if found.graph.objective.class_weight != objective.class_weight:
        settings[CLASS_WEIGHT] = BALANCED
    record = measured(plan, settings, range(plan.seeds), stop=False)
    if record["val_mean"] != record["val_mean"]:
        return
    stored = {"settings": json.dumps(settings), ORIGIN: json.dumps("estimator"), **kept_values(record)}
    study.add_trial(optuna.trial.create_trial(value=record["val_mean"], user_attrs=stored))
