"""What an estimator logs while it works."""

import logging

from rapgnn import RAPNodeClassifier


def test_candidates_are_logged(small_graph, caplog):
    with caplog.at_level(logging.INFO, logger="rapgnn"):
        model = RAPNodeClassifier().fit(small_graph)
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("candidate") for line in lines) == len(model.trials_)
    assert lines[-1].startswith("trained: ")


def test_verbose_reaches_the_screen_and_silence_is_the_default(small_graph, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("rapgnn"), "propagate", False)  # as in a program without logging
    RAPNodeClassifier().fit(small_graph)
    assert capsys.readouterr().err == ""
    RAPNodeClassifier(verbose=True).fit(small_graph)
    assert "rapgnn: candidate 1: " in capsys.readouterr().err
    assert logging.getLogger("rapgnn").handlers == []
