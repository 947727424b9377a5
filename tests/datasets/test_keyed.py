"""Folders of tables, and databases: keys by name and content, what is declared, what is refused."""

import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from rapgnn import InputError, RAPNodeClassifier, RAPNodeRegressor, load_dataset, load_model
from rapgnn.compare import default_config, fit
from rapgnn.datasets.database import write_table
from rapgnn.datasets.keyed import drawn, find_keys, singular, stem_of
from rapgnn.graph.typed import flattened

POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) if Path("/usr/lib/postgresql").is_dir() else []
SERVER = [Path(found) for found in [shutil.which("initdb")] if found] or POSTGRES[-1:]


def shop(n: int = 150) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    home = rng.integers(0, 2, n)
    orders = rng.integers(0, n, 4 * n)
    taste = np.where(rng.random(4 * n) < 0.9, home[orders], rng.integers(0, 2, 4 * n))
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 4 * n), unit="D")
    return {
        "customers": pd.DataFrame(
            {"id": np.arange(n) + 100, "age": rng.integers(20, 70, n), "churned": np.where(home == 1, "yes", "no")}
        ),
        "orders": pd.DataFrame(
            {
                "order_id": np.arange(4 * n),
                "customer_id": orders + 100,
                "amount": rng.random(4 * n) * 50,
                "created_at": day.strftime("%Y-%m-%d"),
            }
        ),
        "products": pd.DataFrame({"sku": [f"p{i}" for i in range(10)], "price": rng.random(10)}),
        "lines": pd.DataFrame(
            {"order_id": np.arange(4 * n), "sku": [f"p{2 * (i % 5) + t}" for i, t in enumerate(taste)]}
        ),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, table in shop().items():
        (tmp_path / "shop").mkdir(exist_ok=True)
        table.to_csv(tmp_path / "shop" / f"{name}.csv", index=False)
    return tmp_path / "shop"


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        for name, table in shop().items():
            table.to_sql(name, connection, index=False)
    return f"sqlite:///{tmp_path / 'shop.db'}"


@pytest.mark.parametrize(
    ("plural", "one"),
    [("customers", "customer"), ("categories", "category"), ("addresses", "address"), ("Boxes", "box"), ("bus", "bu")],
)
def test_singular(plural, one):
    assert singular(plural) == one


@pytest.mark.parametrize(
    ("column", "stem"), [("customer_id", "customer"), ("customerID", "customer"), ("shopId", "shop"), ("paid", None)]
)
def test_names_of_keys(column, stem):
    assert stem_of(column) == stem


def test_keys_are_found_by_name_and_content():
    notes = list[str]()
    tables = shop()
    tables["orders"]["product_id"] = "nothing"  # its name fits, its content does not
    tables["notes"] = pd.DataFrame({"customer_id": [100.0, np.nan, 5.0], "text": list("abc")})
    keys = find_keys(tables, {}, notes)
    assert {name: one.key for name, one in keys.items() if one.key} == {
        "customers": "id", "orders": "order_id", "products": "sku",
    }  # fmt: skip
    assert keys["orders"].foreign == {"customer_id": "customers"}
    assert keys["lines"].foreign == {"order_id": "orders", "sku": "products"}
    assert keys["notes"].foreign == {}
    assert any("notes.customer_id" in note for note in notes)


def test_link_tables_are_edges_and_others_nodes(folder):
    graph = load_dataset(folder, table="customers", label="churned")
    assert graph.typed is not None
    assert set(graph.typed.counts) == {"customers", "orders", "products"}
    names = {one.key for one in graph.typed.relations}
    assert {"orders lines products", "orders customer_id customers", "customers rev_customer_id orders"} <= names
    assert graph.ids is not None
    assert graph.ids[0] == 100
    assert any("customer_id -> customers" in note for note in graph.notes)


def test_schema_toml_says_it_instead(folder):
    (folder / "schema.toml").write_text('[orders]\nkey = "order_id"\nforeign = {}\nignore = ["amount"]\n')
    graph = load_dataset(folder, table="customers", label="churned")
    assert graph.typed is not None
    assert [one.key for one in graph.typed.relations] == ["orders lines products", "products rev_lines orders"]
    for text, reason in (("[orders]\nkeys = 1", "orders"), ("[other]", "other"), ("[orders", "read")):
        (folder / "schema.toml").write_text(text)
        with pytest.raises(InputError, match=reason):
            load_dataset(folder, table="customers", label="churned")


def test_a_model_reads_other_tables_as_its_own(folder, tmp_path):
    model = RAPNodeClassifier().fit(folder, table="customers", label="churned")
    test = model.split_["test"]
    assert (model.predict(folder)[test] == shop()["customers"].churned.to_numpy()[test]).mean() > 0.7
    model.save(tmp_path / "model")
    table = pd.read_csv(folder / "customers.csv")
    table.drop(columns="churned").to_csv(folder / "customers.csv", index=False)
    (folder / "further.csv").write_text("customer_id,x\n100,1\n")
    assert np.array_equal(load_model(tmp_path / "model").predict_proba(folder), model.predict_proba(folder))
    (folder / "products.csv").unlink()
    with pytest.raises(InputError, match="products"):
        model.predict(folder)


def test_tables_by_name_are_read_as_a_folder_is(folder):
    tables = shop()
    model = RAPNodeClassifier(search=False).fit(tables, "churned", table="customers")
    same = RAPNodeClassifier(search=False).fit(folder, table="customers", label="churned")
    assert np.array_equal(model.predict_proba(tables), same.predict_proba(folder))
    numbers = RAPNodeRegressor(search=False).fit(tables, table="customers", label="age")
    assert numbers.predict_interval(tables).shape == (150, 2)


def test_relations_that_tell_the_label_matter(folder):
    model = RAPNodeClassifier(search=False).fit(folder, table="customers", label="churned")
    table = model.importances(folder).columns
    assert set(table.column) >= {"features of customers", "orders lines products", "orders customer_id customers"}
    assert table.column[:2].isin(["orders lines products", "orders customer_id customers"]).all()
    assert table.importance[0] > table.noise[0]


def test_what_moved_a_prediction_is_what_changes_without_it(folder):
    model = RAPNodeClassifier(search=False).fit(folder, table="customers", label="churned")
    one, other = model.explain(folder, [100, 107])
    moved = dict(one.columns.itertuples(index=False))
    assert set(moved) >= {"features of customers", "orders lines products", "orders customer_id customers"}
    assert one.columns.column[0] != "features of customers"
    assert (one.row, other.row) == (100, 107)
    assert one.value == pytest.approx(1 / (1 + np.exp(-2 * one.score)), abs=1e-6)
    (folder / "lines.csv").write_text("order_id,sku\n")
    without = model.predict_proba(folder)[0][list(model.classes_).index(one.label)]
    assert without == pytest.approx(1 / (1 + np.exp(-2 * (one.score - moved["orders lines products"]))), abs=1e-5)


def test_tables_are_drawn_without_a_label_and_methods_compared(folder):
    graph = load_dataset(folder)
    assert "customer_id --> customers" in drawn(graph)
    graph = load_dataset(folder, table="customers", label="churned")
    flat = flattened(graph)
    assert flat.num_nodes == sum(graph.typed.counts.values())
    assert torch.equal(flat.y[: graph.num_rows], graph.y)
    assert flat.edge_index.shape[1] == graph.typed.num_edges
    methods = [fit(name, graph, default_config(graph, name).update(epochs=3), 0) for name in ("rap", "end-to-end")]
    assert all(len(one.predict(graph.test).probabilities) == len(graph.test) for one in methods)


def test_times_are_found_and_rows_divided_by_them(folder):
    orders = pd.read_csv(folder / "orders.csv").assign(late=lambda t: np.where(t.amount > 25, "yes", "no"))
    orders.to_csv(folder / "orders.csv", index=False)
    graph = load_dataset(folder, table="orders", label="late", time="created_at")
    assert graph.typed is not None
    assert graph.typed.clock is not None
    assert any(note.startswith("times: orders.created_at") for note in graph.notes)
    clock = graph.typed.clock
    assert clock[graph.train].max() <= clock[graph.val].min() <= clock[graph.test].min()


def test_facts_that_tables_date_later_than_a_row_do_not_move_its_prediction(folder):
    """Orders are predicted as of their time; lines are dated by ``created_at``, and reviews by a date of their own."""
    rng, orders = np.random.default_rng(0), pd.read_csv(folder / "orders.csv")
    orders["late"] = np.where(orders.amount * (orders.customer_id % 2) > 15, "yes", "no")
    orders.drop(columns="amount").to_csv(folder / "orders.csv", index=False)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 400), unit="D")
    reviews = pd.DataFrame({"customer_id": rng.integers(100, 250, 400), "stars": rng.integers(1, 6, 400)})
    reviews = reviews.assign(wrote_on=day.strftime("%Y-%m-%d"))
    lines = pd.read_csv(folder / "lines.csv").assign(created_at=orders.created_at)
    cut, answers = "2024-08-01", []
    for change in (False, True):
        after = (reviews.wrote_on > cut) & change
        reviews.assign(
            stars=np.where(after, 99, reviews.stars), customer_id=np.where(after, 100, reviews.customer_id)
        ).to_csv(folder / "reviews.csv", index=False)
        moved = lines.assign(sku=np.where((lines.created_at > cut) & change, "p0", lines.sku))
        moved.to_csv(folder / "lines.csv", index=False)
        if not change:
            model = RAPNodeClassifier(search=False).fit(folder, table="orders", label="late", time="created_at")
            assert any("lines.created_at" in note and "reviews.wrote_on" in note for note in model.notes_)
        answers.append(model.predict_proba(folder, time="created_at"))
    before = (orders.created_at <= cut).to_numpy()
    assert np.array_equal(answers[0][before], answers[1][before])
    assert not np.array_equal(answers[0][~before], answers[1][~before])


def test_rows_without_a_time_are_there_since_those_are_that_they_name(folder):
    """Customers are asked in summer. What a line of a later order holds tells of its product, which others bought."""
    customers, orders = (pd.read_csv(folder / f"{name}.csv") for name in ("customers", "orders"))
    day = pd.Timestamp("2024-06-01") + pd.to_timedelta(np.arange(len(customers)) % 60, unit="D")
    customers.assign(asked=day.strftime("%Y-%m-%d")).to_csv(folder / "customers.csv", index=False)
    lines, answers = pd.read_csv(folder / "lines.csv").assign(count=1, id=range(len(orders))), []
    for many in (1, 50):
        late = (orders.created_at > "2024-08-01").to_numpy()
        lines.assign(count=np.where(late, many, 1 + lines.id % 3)).to_csv(folder / "lines.csv", index=False)
        if many == 1:
            model = RAPNodeClassifier(search=False).fit(folder, table="customers", label="churned", time="asked")
        answers.append(model.predict_proba(folder, time="asked"))
    assert np.array_equal(*answers)


def test_a_database_is_read_as_a_folder_is_and_never_written(folder, sqlite):
    before = Path(sqlite.removeprefix("sqlite:///")).read_bytes()
    mine, other = (load_dataset(str(data), table="customers", label="churned") for data in (folder, sqlite))
    assert mine.typed is not None
    assert other.typed is not None
    assert mine.typed.described() == other.typed.described()
    assert Path(sqlite.removeprefix("sqlite:///")).read_bytes() == before


@pytest.mark.parametrize(
    ("url", "reason"),
    [("sqlite:///none.db", "no file"), ("nodb://x", "nodb"), ("postgresql://me:secret@localhost:1/x", "me:\\*\\*\\*")],
)
def test_databases_that_are_not_there(url, reason):
    with pytest.raises(InputError, match=reason):
        load_dataset(url, table="customers", label="churned")


def test_declared_keys_win(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE people (code TEXT PRIMARY KEY, kind TEXT)")
        connection.execute("CREATE TABLE deals (n INTEGER PRIMARY KEY, buyer TEXT REFERENCES people(code), x REAL)")
        connection.executemany("INSERT INTO people VALUES (?, ?)", [(f"c{i}", "ab"[i % 2]) for i in range(20)])
        connection.executemany("INSERT INTO deals VALUES (?, ?, ?)", [(i, f"c{i % 20}", i / 7) for i in range(60)])
    graph = load_dataset(f"sqlite:///{tmp_path / 'shop.db'}", table="people", label="kind")
    assert graph.typed is not None
    assert {one.key for one in graph.typed.relations} == {"deals buyer people", "people rev_buyer deals"}


def test_columns_of_a_database_are_numbers_dates_and_words(tmp_path):
    days = [f"2024-01-{i + 1:02d}" for i in range(20)]
    rows = [(i, b"x", i % 2 if i % 3 else None, days[i] if i % 4 else None, i if i % 2 else "b") for i in range(20)]
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, photo BLOB, paid BOOLEAN, born DATE, kind)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute("CREATE TABLE photos (photo BLOB)")
    url = f"sqlite:///{tmp_path / 't.db'}"
    graph = load_dataset(url, table="people", label="kind")
    assert graph.typed is not None
    assert {c.name: c.read_as for c in graph.typed.encodings["people"].columns} == {"paid": "number", "born": "date"}
    assert graph.num_outputs == 11
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("UPDATE people SET born = 'soon'")
    with pytest.raises(InputError, match="soon"):
        load_dataset(url, table="people", label="kind")


def test_duckdb(folder, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        for name in shop():
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{folder / name}.csv')")
    graph = load_dataset(f"duckdb:///{tmp_path / 'shop.duckdb'}", table="customers", label="churned")
    assert graph.typed is not None
    assert graph.typed.counts == {"customers": 150, "orders": 600, "products": 10}
    url = f"duckdb:///{tmp_path / 'shop.duckdb'}"
    write_table(pd.DataFrame({"id": [1], "label": ["yes"]}), url, "predictions")
    assert len(duckdb.connect(str(tmp_path / "shop.duckdb")).execute("SELECT * FROM predictions").fetchall()) == 1
    with pytest.raises(InputError, match="already"):
        write_table(pd.DataFrame({"id": [1]}), url, "predictions")


@pytest.fixture
def postgres():
    """A server of its own on a local socket, in a short path that its user can reach."""
    if not SERVER:
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    tools = SERVER[0].resolve().parent
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        home, how = Path(folder), {"check": True, "capture_output": True, "cwd": folder}
        if os.geteuid() == 0:  # which the server refuses to be run by
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
            os.chown(home, user.pw_uid, user.pw_gid)
            how |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            how |= {"env": {"PATH": os.environ["PATH"], "HOME": folder}}
        kind = ["-U", "me", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run([tools / "initdb", "-D", home / "data", *kind], **how)
        control = [tools / "pg_ctl", "-D", home / "data"]
        settings = f"-k {home} -c listen_addresses= -c fsync=off"
        subprocess.run([*control, "-o", settings, "-w", "-l", home / "log", "start"], **how)
        try:
            yield f"postgresql://me@/postgres?host={home}"
        finally:
            subprocess.run([*control, "-m", "immediate", "-w", "stop"], **how)


def test_postgresql(postgres, folder):
    """About 5 s: a server is made and started."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(postgres.replace("postgresql:", "postgresql+psycopg:"))
    for name, table in shop().items():
        dated = table.assign(created_at=pd.to_datetime(table.created_at)) if name == "orders" else table
        dated.to_sql(name, engine, index=False)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE customers ADD PRIMARY KEY (id)")
        connection.exec_driver_sql("ALTER TABLE orders ADD PRIMARY KEY (order_id)")
        connection.exec_driver_sql("ALTER TABLE orders ADD FOREIGN KEY (customer_id) REFERENCES customers(id)")
    engine.dispose()
    graph, same = (load_dataset(str(d), table="customers", label="churned") for d in (postgres, folder))
    assert graph.typed is not None
    assert same.typed is not None
    assert sorted(graph.typed.counts.items()) == sorted(same.typed.counts.items())
    assert {one.key for one in graph.typed.relations} == {one.key for one in same.typed.relations}


def test_a_table_by_itself_is_a_graph_of_its_rows(tmp_path):
    tables = {"customers": shop()["customers"]}
    model = RAPNodeClassifier(search=False).fit(tables, table="customers", label="churned")
    assert len(model.predict(tables)) == len(tables["customers"])
    model.report(tmp_path / "page.html", tables)
