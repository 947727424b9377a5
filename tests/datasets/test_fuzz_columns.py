"""Odd arrays in npz files and odd columns in parquet files."""

import io

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import REFUSED, Tally, examples
from tables import FILES, TABLES, read

ODD_ARRAYS = [
    np.array(3.0), np.zeros((2, 3, 4)), np.zeros(0), np.full(24, np.nan), np.full(24, 1e300), np.zeros((24, 0)),
    np.arange(24) * 1j, np.array([b"a"] * 24), np.array(["x"] * 24), np.zeros(24, dtype="i4,f8"), np.arange(23),
    np.arange(24).astype("M8[D]"), np.full((24, 2), np.inf), np.arange(24) % 2 == 0, np.arange(48).reshape(24, 2),
    np.array(["a", 1] * 12, dtype=object), np.full(24, 2**63, dtype=np.uint64), np.full(24, -1), np.ones(24, "f2"),
]  # fmt: skip

GOOD = {
    "nodes": {"height": np.linspace(0, 1, 24), "width": np.arange(24) * 2.0, "label": np.array(["a", "b", "c"] * 8)},
    "edges": {"weight": np.linspace(0, 1, 40)},
}


def test_odd_arrays_in_npz_files(tmp_path):
    tally = Tally()

    @examples("arrays")
    @given(data=st.data())
    def one(data):
        stem = data.draw(st.sampled_from(["nodes", "edges"]))
        arrays = dict(np.load(io.BytesIO(FILES["one", stem, "npz"])))
        names = st.sampled_from([*arrays, "x", "label_0", "y_1", "id", "weight", "train_mask", "split", ""])
        odd = data.draw(st.dictionaries(names, st.sampled_from(ODD_ARRAYS), max_size=2))
        good = data.draw(st.dictionaries(st.sampled_from(sorted(GOOD[stem])), st.none(), min_size=not odd, max_size=2))
        arrays |= odd | {name: GOOD[stem][name] for name in good}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        found = tally.count(read(tmp_path / "f", "one", {stem: buffer.getvalue()}, "npz"))
        if not odd.keys() - good.keys():
            assert found is not REFUSED

    one()
    tally.check(accepted=0.1, refused=0.3)


ODD_CELLS = [
    [1, 2],
    {"a": 1},
    b"\xff\x00",
    pd.Timestamp("2020-01-01", tz="UTC"),
    pd.Timedelta(days=1),
    1e300,
    np.nan,
    None,
]
ODD_CELLS += [True, 2**62, "", "w" * 2000, "\n\t", np.inf, -1, 0.5, [], "train", __import__("decimal").Decimal("1.5")]


def test_odd_columns_in_parquet_files(tmp_path):
    tally = Tally()

    @examples("columns")
    @given(data=st.data())
    def one(data):
        kind = data.draw(st.sampled_from(sorted(TABLES)))
        stem = data.draw(st.sampled_from(sorted(TABLES[kind])))
        frame = TABLES[kind][stem].reset_index(drop=True)
        name = data.draw(st.sampled_from([*frame.columns, "new", "label_0", "train_mask", "ID"]))
        cell = data.draw(st.sampled_from(ODD_CELLS))
        frame[name] = [cell] * len(frame) if data.draw(st.booleans()) else [None, *([cell] * (len(frame) - 1))]
        frame = frame.set_index("id") if "id" in frame and data.draw(st.booleans()) else frame
        buffer = io.BytesIO()
        frame.to_parquet(buffer)
        tally.count(read(tmp_path / "f", kind, {stem: buffer.getvalue()}, "parquet"))

    one()
    tally.check(accepted=0.15, refused=0.3)
