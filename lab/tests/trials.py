"""The trials of a search as records."""

from pathlib import Path
from typing import Any

import optuna

from rapgnn_lab.tune.search import open_storage


def trial_records(storage: Path) -> list[dict[str, Any]]:
    """Every trial of every study in the file, as flat records."""
    opened = open_storage(storage)
    return [
        {"study": name, "trial": t.number, "state": t.state.name, "value": t.value} | t.user_attrs
        for name in optuna.get_all_study_names(opened)
        for t in optuna.load_study(study_name=name, storage=opened).trials
    ]
