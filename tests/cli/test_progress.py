"""Progress where output is piped: a line now and then, none for short work, none when quiet."""

from rapgnn.cli import shared


def test_a_line_now_and_then():
    lines, now = [], [0.0]
    track = shared.Track(write=lines.append, clock=lambda: now[0])
    track.start("cora", 100)
    for _ in range(100):
        now[0] += shared.LINE_SECONDS / 40
        track.advance()
    assert len(lines) == 2
    assert lines[0] == "rapgnn: cora: 40 of 100, 10 s\n"
    track.start("short", None)
    track.set(3, "short: best 0.5")
    assert len(lines) == 2
    now[0] += shared.LINE_SECONDS
    track.set(4, "short: best 0.6")
    assert lines[2] == "rapgnn: short: best 0.6: 4, 10 s\n"


def test_piped_output_gets_lines_and_quiet_none(capsys, monkeypatch):
    monkeypatch.setattr(shared, "LINE_SECONDS", 0.0)
    for quiet in (False, True):
        shared.set_quiet(quiet)
        with shared.show_progress() as track:
            track.start("work", 2)
            track.advance()
    shared.set_quiet(False)
    assert capsys.readouterr().err == "rapgnn: work: 1 of 2, 0 s\n"


def test_quiet_is_quiet(rapgnn, plants, tmp_path):
    """Only scores that are asked for are printed."""
    model, quiet = tmp_path / "model", "--quiet"
    assert rapgnn("fit", plants, "--out", model, "--no-search", quiet) == (0, "", "")
    assert rapgnn("predict", model, plants, "--out", tmp_path / "p.csv", quiet) == (0, "", "")
    code, out, err = rapgnn("evaluate", model, plants, quiet)
    assert (code, out.split()[1], err) == (0, "accuracy", "")
