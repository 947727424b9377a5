"""The card beside a model says what is so, is written with it, and is never read."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rapgnn import RAPNodeClassifier, load_model
from rapgnn.estimators.card import model_card
from rapgnn.graph.graph import Graph
from rapgnn.training.checkpoint import CARD, INDEX
from samples import FAST


@pytest.fixture(scope="module")
def fitted(small_graph) -> RAPNodeClassifier:
    return RAPNodeClassifier(**FAST, num_layers=2).fit(small_graph)


def test_the_card_says_the_data_the_rows_the_choice_and_the_scores(rapgnn, plants, tmp_path):
    code, _, _ = rapgnn("fit", plants, "--out", tmp_path / "m", "--json", tmp_path / "r.json")
    assert code == 0
    card = (tmp_path / "m" / CARD).read_text()
    model = RAPNodeClassifier().fit(plants)
    for split, rows in model.split_.items():
        assert f"* {split}: **{len(rows)}**" in card
    assert f"among {len(model.trials_)} candidates" in card
    assert f"accuracy, test: **{100 * model.score(plants, split='test'):.2f} %**" in card
    for note in model.notes_:
        assert note[1:] in card
    assert next((tmp_path / "m").glob("*.safetensors")).name in card


def test_the_words_of_the_data_stay_words(small_graph):
    named = replace(small_graph, name="a\n# b <script>", classes=("x](y", "<img src=z>", "c"))
    card = model_card(RAPNodeClassifier(**FAST, num_layers=2).fit(named))
    assert card.count("\n# ") == 0
    assert "<script" not in card
    assert "<img" not in card


def test_a_model_that_holds_labels_says_so(small_graph):
    def labels_warned(graph: Graph, **settings: object) -> bool:
        return "labels of its training rows" in model_card(RAPNodeClassifier(search=False, **settings).fit(graph))

    many = replace(small_graph, train=torch.arange(200), val=torch.arange(200, 250), test=torch.arange(250, 300))
    assert labels_warned(many, known_labels=1, head="ridge", coefficients="fixed")
    assert not labels_warned(many, head="ridge", coefficients="fixed")


def test_loading_never_reads_the_card_and_a_save_writes_it_anew(fitted, small_graph, tmp_path):
    fitted.save(tmp_path / "m")
    card = tmp_path / "m" / CARD
    first = card.read_text()
    card.unlink()
    os.mkfifo(card)  # whoever opens it would wait for ever
    loaded = load_model(tmp_path / "m")
    assert (loaded.predict(small_graph) == fitted.predict(small_graph)).all()
    card.unlink()
    card.write_text("another's")
    loaded.save(tmp_path / "m")
    assert card.read_text() != first  # what a loaded model does not know of its training is left out
    assert "Node classification" in card.read_text()
    fitted.save(tmp_path / "m")
    assert card.read_text() == first


def test_a_save_that_fails_at_the_card_leaves_a_whole_model(fitted, small_graph, tmp_path, monkeypatch):
    fitted.save(tmp_path / "m")
    replaced = Path.replace

    def fails(self: Path, target: Path) -> Path:
        if Path(target).name == CARD:
            raise OSError(28, "No space left on device")
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(Exception, match=CARD):
        fitted.save(tmp_path / "m")
    monkeypatch.undo()
    assert {path.name for path in (tmp_path / "m").iterdir()} >= {INDEX, CARD}
    assert (load_model(tmp_path / "m").predict(small_graph) == fitted.predict(small_graph)).all()
