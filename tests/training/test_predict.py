"""Inference: one draw, the mean of many, the exact expectation."""

import pytest
import torch

from rapgnn import fit
from rapgnn.layers.inputs import Inputs
from rapgnn.propagation.stepwise import propagate
from samples import NODE_CONFIG as CONFIG


def test_inference_modes(small_graph):
    config, rows = CONFIG.update(num_samples=400), small_graph.test
    expected, mean, sample = (
        fit("rap", small_graph, config.update(inference=i), 0) for i in ("expected", "mean", "sample")
    )
    averaged = mean.predict(rows)
    assert averaged.spread is not None
    assert float(averaged.spread.mean()) > 0
    assert expected.predict(rows).spread is None
    assert torch.equal(expected.predict(rows).scores, expected.predict(rows).scores)
    # Draws scatter around their mean, and the expectation lies near it.
    one, many = sample.predict(rows).probabilities, averaged.probabilities
    assert float((expected.predict(rows).probabilities - many).abs().mean()) < float((one - many).abs().mean())


@pytest.mark.parametrize("engine", ["polynomial", "stepwise"])
def test_a_kept_draw_gives_the_scores_of_the_best_epoch(small_graph, engine):
    config = CONFIG.update(epochs=40, inference="sample", engine=engine)
    new, kept = (fit("rap", small_graph, config.update(keep_draw=keep), 0) for keep in (False, True))
    assert new.loop.history == kept.loop.history
    rule, rows = small_graph.objective, small_graph.val
    again = rule.score(kept.predict(rows).scores, small_graph.y[rows])
    assert again == pytest.approx(max(kept.loop.history)) == pytest.approx(kept.loop.history[kept.loop.best_epoch])
    assert not torch.equal(new.predict(rows).scores, kept.predict(rows).scores)


@pytest.mark.parametrize("inference", ["mean", "sample"])
def test_predicting_in_parts_changes_nothing(inference, small_graph, monkeypatch):
    import rapgnn.training.predict as inferring

    fitted = fit("rap", small_graph, CONFIG.update(inference=inference, epochs=5, num_samples=3), 0)
    whole = fitted.predict(small_graph.test)
    monkeypatch.setattr(inferring, "HOP_BYTES", 4 * 16 * 5 * 7)  # seven rows at a time
    torch.testing.assert_close(fitted.predict(small_graph.test).probabilities, whole.probabilities)


def test_fixed_weights_predict_with_their_own_draw(small_graph):
    fitted = fit("fixed-diagonal", small_graph, CONFIG, 0)
    model, operator = fitted.model, small_graph.operator("gcn")
    h = propagate(model.spec, operator, model.embedding(Inputs(small_graph.x)), 0)[small_graph.test]
    torch.testing.assert_close(fitted.predict(small_graph.test).scores, model.head(h), rtol=1e-4, atol=1e-5)


def test_weights_drawn_once_per_epoch_still_spread_at_inference(small_graph):
    fitted = fit("rap", small_graph, CONFIG.update(schedule="epoch", inference="mean", epochs=5), 0)
    assert float(fitted.predict(small_graph.test).spread.mean()) > 0
