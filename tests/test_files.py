"""Files are whole or absent: modes are kept, nothing is left behind, what cannot be written is one sentence."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from rapgnn.errors import InputError, OutputError
from rapgnn.files import check_writable, locked, open_regular, read_regular, sha256, write_atomic


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """Set the umask for a test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("kept", [0o600, 0o664])
def test_a_replaced_file_keeps_its_mode(tmp_path, kept):
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(kept)
    write_atomic(path, lambda temporary: temporary.write_text("new"))
    assert (path.read_text(), mode(path)) == ("new", kept)


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_has_what_the_umask_leaves(tmp_path, umask, mask, expected):
    umask(mask)
    write_atomic(tmp_path / "a.json", lambda temporary: temporary.write_text("new"))
    assert mode(tmp_path / "a.json") == expected


def test_a_private_file_is_private_while_it_is_written(tmp_path):
    path, seen = tmp_path / "a.json", []
    path.write_text("old")
    path.chmod(0o600)
    write_atomic(path, lambda temporary: seen.append(mode(temporary)))
    assert seen == [0o600]


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()]
)
def test_what_fails_leaves_no_folders(tmp_path, failure):
    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise failure

    with pytest.raises(OutputError if isinstance(failure, OSError) else type(failure)):
        write_atomic(tmp_path / "a" / "b" / "c.json", fail)
    assert not list(tmp_path.iterdir())


def test_folders_that_were_there_or_hold_something_stay(tmp_path):
    (tmp_path / "a").mkdir()

    def fail(temporary: Path) -> None:
        (tmp_path / "a" / "b" / "other").write_text("of another process")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a" / "b" / "c.json", fail)
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["other"]


def test_looking_whether_a_file_can_be_written_leaves_nothing(tmp_path):
    check_writable(tmp_path / "a" / "b" / "c.json")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write.*Not a directory"):
        check_writable(tmp_path / "file" / "b" / "c.json")


@pytest.mark.parametrize("name", ["a\0b.json", "n" * 300, "n" * 300 + "/b.json", "new/" + "n" * 300, "d/" * 3000])
def test_names_that_no_file_can_have(tmp_path, name):
    for attempt in (check_writable, lambda path: write_atomic(path, lambda temporary: temporary.write_text(""))):
        with pytest.raises(InputError, match="cannot write"):
            attempt(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_full_device_is_not_the_users_mistake():
    with pytest.raises(OutputError, match="No space left"):
        write_atomic(Path("/dev/full"), lambda path: path.write_text("x"))
    check_writable(Path("/dev/null"))


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (sha256, open_regular, read_regular):
        for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "a\0b"):
            with pytest.raises(OSError, match=r"regular|null|directory"):
                read(path)
    (tmp_path / "large").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match="too large"):
        read_regular(tmp_path / "large", most=99)
    assert len(read_regular(tmp_path / "large", most=100)) == 100


def test_a_folder_is_held_by_one_at_a_time(tmp_path, monkeypatch):
    inside, most = [0], [0]

    def hold() -> None:
        for _ in range(20):
            with locked(tmp_path):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=hold) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    monkeypatch.setattr("rapgnn.files.LOCK_SECONDS", 0.05)
    with locked(tmp_path), pytest.raises(OutputError, match="another process"), locked(tmp_path):
        pass


def test_links_and_pipes_are_written_to_not_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, lambda path: path.write_text("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_atomic(Path("/dev/null"), lambda path: path.write_text("gone"))
    assert Path("/dev/null").is_char_device()
