"""Numbers at the edge of what 32 bits hold, and settings of the wrong kind."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from fuzzing import REFUSED, Tally, examples, finite, outcome
from rapgnn import Config, RAPGraphRegressor, RAPNodeClassifier
from samples import FAST, graph_list
from spoiled import NODES, QUICK, E, N, W, X, put

GRAPHS = graph_list(12, regression=True)
EXTREMES = st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e-40, 1e-20, -1e5, 1e10, 1e19, -1e25, 3e38, -3.4e38])
SHAPES = {"backbone": ["gcn", "sage", "gin"], "jumping": ["last", "cat"], "head": ["ridge", "linear"]}
SHAPES |= {
    "embedding": ["identity", "fixed-random", "pretrained"],
    "activation": ["identity", "relu"],
    "ridge": [0.0, 1.0, None],
}


def test_extreme_numbers_give_finite_predictions_or_a_refusal():
    tally = Tally()

    @examples("extremes")
    @given(data=st.data())
    def one(data):
        shape = {name: data.draw(st.sampled_from(values)) for name, values in SHAPES.items()}
        shape |= {
            "hidden_channels": 4,
            "epochs": 2,
            "pretrain_epochs": 2,
            "normalize_features": data.draw(st.booleans()),
        }
        quick = {"search": False, "num_layers": data.draw(st.sampled_from([1, 3, 40])), "settings": shape}
        at = [data.draw(st.integers(0, 20)) for _ in range(3)]
        value = [data.draw(EXTREMES) for _ in range(3)]
        everywhere = data.draw(st.booleans())
        if data.draw(st.booleans()):
            x, w = (X * value[0] if everywhere else put(X, value[0], at[0])), put(W, value[1], at[1])
            w = w * value[2] if data.draw(st.booleans()) else w
            given = NODES | {"data": x, "edge_weight": w}
            fitted = outcome(lambda: RAPNodeClassifier(**quick).fit(**given))
            found = (
                REFUSED if fitted is REFUSED else outcome(lambda: fitted.predict_proba(x, edge_index=E, edge_weight=w))
            )
            rows = N
        else:
            graphs = [(g.x.numpy().astype(float), g.edge_index.numpy()) for g in GRAPHS]
            graphs = [(x * value[0] if everywhere else put(x, value[0], at[0] % x.size), e) for x, e in graphs]
            y = put(np.linspace(1, 2, 12), value[1], at[1] % 12) * (value[2] or 1.0)
            fitted = outcome(lambda: RAPGraphRegressor(**quick).fit(graphs, y))
            found = REFUSED if fitted is REFUSED else outcome(lambda: fitted.predict(graphs))
            rows = 12
        if tally.count(found) is not REFUSED:
            finite(found, rows)

    one()
    tally.check(accepted=0.3, refused=0.3)


# Settings
LEARNED = RAPNodeClassifier(**QUICK).fit(**NODES)
NEVER = [
    object(), b"x", [], {}, np.nan, np.inf, -np.inf, 10**40, -(10**40), 10**5000, "nonsense", 1j, np.zeros(3),
    ["relu"], lambda: 0,
]  # fmt: skip
OTHERS = {
    "seed": [-1, 2**64, None],
    "search": [None, 1],
    "time_budget": [-1, True],
    "device": ["tpu", None],
    "settings": [5, {1: 2}],
}
NO_SETTINGS = [
    [], "abc", {"nonsense": 1}, {"": 1}, {"num_layers": "2"}, {"w" * 3000: 1}, {"head": None},
]  # fmt: skip


def test_settings_of_the_wrong_kind():
    """And of the right one: the value that a setting has anyway."""
    tally = Tally()

    @examples("settings")
    @given(data=st.data())
    def one(data):
        estimator, good = RAPNodeClassifier(**QUICK), data.draw(st.integers(0, 3)) == 0
        own = estimator.get_params()
        name = data.draw(st.sampled_from([*Config.__dataclass_fields__, *OTHERS]))
        value = data.draw(st.sampled_from([*NEVER, *OTHERS.get(name, [])]))
        if name == "settings":
            value = data.draw(st.sampled_from([*NO_SETTINGS, *OTHERS[name]]))
        assume(not (name == "time_budget" and isinstance(value, int | float) and value > 0))
        if good:
            value = own[name] if name in OTHERS else getattr(LEARNED.config_, name)
        if (name in own and data.draw(st.booleans())) or name in OTHERS:
            estimator.set_params(**{name: value})
        else:
            estimator.set_params(settings=FAST["settings"] | {name: value})
        found = tally.count(outcome(lambda: estimator.fit(**NODES)))
        assert (found is not REFUSED) == good
        if good:
            assert estimator.config_ == LEARNED.config_

    one()
    tally.check(accepted=0.1, refused=0.5)
