"""The settings: five records under one roof of flat names, which survive JSON and refuse what they cannot be."""

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rapgnn import Config, InputError
from rapgnn.network.config import LARGEST, RECORDS, SETTINGS
from rapgnn.network.weights import DISTRIBUTIONS
from rapgnn.search.start import HOPS

ABOUT = {f.name: f for record in RECORDS.values() for f in fields(record)}
NAMED = {
    "structure": ("diagonal", "identity"),
    "schedule": ("forward", "epoch", "fixed"),
    "distribution": DISTRIBUTIONS,
}


def values(name):
    """Whatever a setting may be."""
    about, limits = ABOUT[name], ABOUT[name].metadata
    if name in NAMED:
        return st.sampled_from(sorted(NAMED[name])[:2] if name == "distribution" else NAMED[name])
    if name == "params":
        return st.tuples(st.floats(0, 1), st.floats(2, 3))
    if name == "previous":
        return st.sampled_from([None, HOPS, HOPS.update(scaling="tfidf", components=7)])
    if name == "relations":
        return st.sampled_from(["", "a to b + b rev_to a | a to a"])
    if "names" in limits:
        return st.sampled_from(list(limits["names"]))
    if isinstance(about.default, bool) or name == "residual":
        found = st.booleans()
    elif limits["kind"] is int:
        found = st.integers(limits["least"], min(limits["most"], 1 << 30))
    else:
        found = st.floats(max(limits["least"], -1e6), min(limits["below"], 1e6), exclude_min=True, exclude_max=True)
    return st.none() | found if about.default is None or name == "ridge" else found


def different(name):
    """Points where one setting may be other than its default."""
    bases = [Config(), HOPS, HOPS.update(units=3), HOPS.update(kernel="gauss", landmarks=2), Config(backbone="gin")]
    bases += [HOPS.update(coefficients=kind) for kind in ("layers", "colours")]
    bases += [HOPS.update(relations="a to a", jumping="ppr")]
    return st.tuples(st.sampled_from(bases), values(name))


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_survives_json(name):
    """With values that are not its default among them."""
    seen = []

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(pair=different(name))
    def some(pair):
        base, value = pair
        try:
            config = base.update(**{name: value})
        except InputError:  # settings that contradict each other
            return
        again = Config(**json.loads(json.dumps(config.to_dict())))
        assert (again, hash(again), getattr(again, name)) == (config, hash(config), value)
        assert list(config.to_dict()) == list(SETTINGS)
        seen.append(value)

    some()
    assert any(value != ABOUT[name].default for value in seen)


def test_flat_names_are_unique_and_those_of_no_record_or_method():
    every = [f.name for record in RECORDS.values() for f in fields(record)]
    assert len(every) == len(set(every)) == len(SETTINGS)
    assert not set(every) & (set(RECORDS) | set(dir(Config)))


@pytest.mark.parametrize(("name", "about"), [(n, a) for n, a in ABOUT.items() if a.metadata.get("kind") is int])
def test_whole_numbers_stay_between_their_bounds(name, about):
    for wrong in (about.metadata["least"] - 1, about.metadata["most"] + 1, 1.5, True, "3", float("nan")):
        with pytest.raises(InputError, match=name):
            Config(**{name: wrong})


@pytest.mark.parametrize(("name", "about"), [(n, a) for n, a in ABOUT.items() if a.metadata.get("kind") is float])
def test_numbers_stay_between_their_bounds(name, about):
    limits = about.metadata
    wrong = [float("nan"), float("inf"), 2 * LARGEST, True, "1", limits["least"] - 1 if limits["least"] == 0 else "x"]
    wrong += [limits["least"]] if limits["open"] else []
    wrong += [limits["below"]] if limits["below"] < LARGEST else []
    for value in wrong:
        with pytest.raises(InputError, match=name):
            Config(**{name: value})


@pytest.mark.parametrize("name", [n for n, a in ABOUT.items() if "names" in a.metadata])
def test_names_are_those_there_are(name):
    for wrong in ("magic", 3, None, ["gcn"]):
        with pytest.raises(InputError, match=name.replace("_", "[ _]")):
            Config(**{name: wrong})


def test_unknown_settings_are_refused_with_one_that_is_alike():
    with pytest.raises(InputError, match="num_layers"):
        Config(num_layer=3)
    with pytest.raises(AttributeError):
        _ = Config().num_layer


@pytest.mark.parametrize(
    "wrong",
    [
        {"units": 5},
        {"landmarks": 5, "kernel": "gauss"},
        {"known_labels": 1},
        {"previous": HOPS},
        {"node_columns": 4},
        {"jumping": "ppr"},
        {"edges": "both"},
        {"pooling": "log"},
        {"coefficients": "fixed"},
        {"backbone": "gin", "self_loops": True},
    ],
)
def test_random_coefficients_refuse_what_only_fixed_ones_have(wrong):
    with pytest.raises(InputError):
        Config(**wrong)
    rest = {name: value for name, value in wrong.items() if name != "self_loops"}
    assert HOPS.update(**rest).coefficients == "fixed"


@pytest.mark.parametrize(
    "wrong",
    [
        {"backbone": "gine"},
        {"coefficients": "layers", "jumping": "last"},
        {"coefficients": "colours", "pooling": "mean"},
        {"coefficients": "colours", "units": 8},
        {"unit_hops": 1},
        {"kernel": "gauss"},
        {"landmarks": 9},
        {"kernel": "gauss", "landmarks": 9, "head": "mlp"},
        {"embedding": "pretrained"},
        {"pooling": "max"},
        {"edges": "both", "jumping": "last"},
        {"previous": HOPS.update(previous=HOPS)},
        {"previous": HOPS.update(known_labels=1)},
    ],
)
def test_fixed_coefficients_refuse_what_contradicts_them(wrong):
    with pytest.raises(InputError):
        HOPS.update(**wrong)
