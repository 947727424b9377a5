"""Files are whole or absent."""

from pathlib import Path

import pytest


def test_links_and_pipes_are_written_to_not_replaced(tmp_path):
    from rapgnn.files import write_atomic

    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, lambda path: path.write_text("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_atomic(Path("/dev/null"), lambda path: path.write_text("gone"))
    assert Path("/dev/null").is_char_device()


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    from rapgnn.errors import InputError
    from rapgnn.files import write_atomic

    old = tmp_path / "old.json"
    old.write_text("precious")

    def full_disk(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left"):
        write_atomic(old, full_disk)
    assert old.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [old]
