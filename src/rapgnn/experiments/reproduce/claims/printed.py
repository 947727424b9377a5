"""The paper's printed figures compared with each other."""

from scipy import stats

from rapgnn.experiments.markdown import ONE_DIGIT
from rapgnn.experiments.published import Published, find_published, one_published
from rapgnn.experiments.reproduce.tables import DATASETS as TITLES
from rapgnn.graph.scores import CLASS_METRICS, NUMBER_METRICS
from rapgnn.graph.splits import FOLDS

METRICS = CLASS_METRICS | NUMBER_METRICS
TABLES = {"planetoid": 5, "tu": FOLDS, "molecules": 5, "ogbn": 5}  # methods on datasets, and runs behind a figure


def table_of(dataset: str) -> str:
    """The table of methods that a dataset is in."""
    return next(table for table in TABLES if find_published(table, dataset=dataset))


def cell(dataset: str, method: str) -> Published:
    """The figure of a method in the main tables."""
    return one_published(table_of(dataset), dataset=dataset, method=method)


def datasets(table: str) -> tuple[str, ...]:
    """In the paper's order."""
    return tuple(dict.fromkeys(c.dataset for c in find_published(table)))


def advantage(first: Published, second: Published) -> float:
    """How much better the first figure is: positive also where lower is better."""
    assert first.mean is not None, first
    assert second.mean is not None, second
    return (first.mean - second.mean) * (1 if METRICS[first.metric].higher else -1)


def printed_better(first: str, second: str) -> tuple[str, ...]:
    """The datasets on which the paper prints a better figure for the first method than for the second."""
    every = (dataset for table in TABLES for dataset in datasets(table))
    return tuple(d for d in every if advantage(cell(d, first), cell(d, second)) > 0)


def printed_p(first: Published, second: Published, runs: int) -> float:
    """Welch's p of two printed figures, their standard deviations taken as those of so many runs each."""
    sides = [(c.mean, c.std, runs) for c in (first, second)]
    return float(stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False).pvalue)


def number(found: Published) -> str:
    """A printed mean with its digits."""
    assert found.mean is not None, "a cell without a number"
    if found.metric.endswith("_ms_per_epoch"):
        return f"{found.mean:,.0f}"
    return f"{found.mean:.{3 if found.metric == 'rmse' else 1 if found.table in ONE_DIGIT else 2}f}"


def versus(dataset: str, first: str, second: str) -> str:
    """Two figures of a dataset: ``Cora 58.70 against 56.55``."""
    return f"{TITLES.get(dataset, dataset)} {number(cell(dataset, first))} against {number(cell(dataset, second))}"
