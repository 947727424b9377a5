"""Hosts, archives, caches and data folders that mean no good: the next source is tried, or one sentence says why."""

import gzip
import hashlib
import http.server
import os
import struct
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rapgnn.datasets import DATASETS, gzipped, load_dataset, ogb, sources
from rapgnn.datasets.cache import parsed
from rapgnn.datasets.sources import SUMS, Archive, FileSet, Package, locate, unchecked, verify
from rapgnn.datasets.tu import read_tu
from rapgnn.errors import InputError
from rapgnn.files import sha256

CONTENT = b"right" * 200
DIGEST = hashlib.sha256(CONTENT).hexdigest()
NAME = "raw/a.txt"


def zipped(path: Path, compression: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in ({"x/raw/a.txt": CONTENT} | members).items():
            file.writestr(name, content)
    return path


def encrypted(path: Path) -> Path:
    data = bytearray(zipped(path).read_bytes())
    for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flags of a file here and in the directory
        data[data.index(sign) + offset] |= 1
    path.write_bytes(data)
    return path


def wrong_crc(path: Path) -> Path:
    data = zipped(path, zipfile.ZIP_STORED).read_bytes()
    path.write_bytes(data.replace(CONTENT, b"wrong" * 200))
    return path


def damaged_stream(path: Path) -> Path:
    data = bytearray(zipped(path).read_bytes())
    begin = 30 + len("x/raw/a.txt")
    data[begin : begin + 8] = b"\xff" * 8
    path.write_bytes(data)
    return path


def unknown_method(path: Path) -> Path:
    data = bytearray(zipped(path).read_bytes())
    for sign, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        struct.pack_into("<H", data, data.index(sign) + offset, 97)
    path.write_bytes(data)
    return path


def half(path: Path) -> Path:
    path.write_bytes(zipped(path).read_bytes()[:100])
    return path


BAD_ZIPS = {
    encrypted: "is encrypted",
    wrong_crc: "truncated or no zip",
    damaged_stream: "is damaged",
    unknown_method: "is damaged",
    half: "truncated or no zip",
}


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Package:
    """What pip is made to download."""
    path = zipped(tmp_path / "tiny-1.0-py3-none-any.whl", **{"tiny/raw/a.txt": CONTENT})
    return pip_gives(path, monkeypatch)


def pip_gives(path: Path, monkeypatch) -> Package:
    def run(command: list[str], **options: object):
        import shutil
        import subprocess

        shutil.copy(path, command[command.index("--dest") + 1])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(sources.subprocess, "run", run)
    return Package("tiny==1.0", "3.8", "any", sha256(path), "tiny")


def dataset(archive: Path, package: Package | None = None, **options) -> FileSet:
    return FileSet(
        "tiny", "kind/tiny", {NAME: (DIGEST,)}, archive=Archive(archive.as_uri()), package=package, **options
    )


@pytest.mark.parametrize("spoil", BAD_ZIPS, ids=lambda spoil: spoil.__name__)
def test_a_bad_archive_leads_to_the_next_source(tmp_path, cache, wheel, spoil):
    said: list[str] = []
    folder = locate(dataset(spoil(tmp_path / "a.zip"), wheel), say=said.append)
    assert (folder / NAME).read_bytes() == CONTENT
    assert any(BAD_ZIPS[spoil] in line and "official host failed" in line for line in said)


@pytest.mark.parametrize("spoil", BAD_ZIPS, ids=lambda spoil: spoil.__name__)
def test_a_bad_archive_alone_is_one_sentence(tmp_path, cache, spoil):
    with pytest.raises(InputError, match=BAD_ZIPS[spoil]):
        locate(dataset(spoil(tmp_path / "a.zip")))
    assert not cache.exists()


@pytest.mark.parametrize("spoil", [*BAD_ZIPS, zipped], ids=lambda spoil: spoil.__name__)
def test_a_bad_wheel_is_one_sentence(tmp_path, cache, monkeypatch, spoil):
    package = pip_gives(spoil(tmp_path / "tiny-1.0-py3-none-any.whl"), monkeypatch)
    with pytest.raises(InputError, match=BAD_ZIPS.get(spoil, "holds no") if spoil in (half, zipped) else "holds no"):
        locate(FileSet("tiny", "kind/tiny", {NAME: (DIGEST,)}, "http://127.0.0.1:1", package=package))


def test_an_archive_that_unpacks_to_too_much(tmp_path, cache):
    path = zipped(tmp_path / "a.zip", **{"x/raw/b.txt": b"\0" * 5_000_000})
    files = FileSet("tiny", "kind/tiny", {"raw/b.txt": ()}, archive=Archive(path.as_uri()), open=True, most=1_000_000)
    assert path.stat().st_size < files.most
    with pytest.raises(InputError, match=r"raw/b\.txt: it is larger than 1,000,000 bytes"):
        locate(files)
    assert not cache.exists()


@contextmanager
def host(announce: int | None, send: int):
    """A server that sends zeros, for ever if need be."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if announce is not None:
                self.send_header("Content-Length", str(announce))
            self.end_headers()
            try:
                for _ in range(send // 10_000):
                    self.wfile.write(b"\0" * 10_000)
            except OSError:
                pass

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(("announce", "send"), [(None, 10**12), (10**12, 10**12), (10**12, 0)])
@pytest.mark.parametrize("archive", [False, True])
def test_a_host_that_sends_too_much(cache, announce, send, archive):
    with host(announce, send) as url:
        where = {"archive": Archive(f"{url}/a.zip")} if archive else {"url": url}
        files = FileSet("tiny", "kind/tiny", {NAME: (DIGEST,)}, most=1_000_000, **where)
        with pytest.raises(InputError, match="larger than 1,000,000 bytes"):
            locate(files)


def test_the_limits_leave_room_for_the_published_files(data_dir):
    for entry in DATASETS.values():
        for name in entry.files.files:
            path = data_dir / entry.files.folder / name
            assert not path.is_file() or path.stat().st_size * 4 < entry.files.most


def open_set(tmp_path: Path) -> FileSet:
    return FileSet("tiny", "kind/tiny", {NAME: ()}, archive=Archive(zipped(tmp_path / "a.zip").as_uri()), open=True)


GARBAGE = [b"\xff\xfe\0", b"no sums\n", b"abc", b"0" * 64 + b"\n", b"x" * 64 + b"  raw/a.txt\n", b"\n" * 2_000_000]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_instead_of_checksums(tmp_path, cache, garbage):
    files = open_set(tmp_path)
    folder = locate(files)
    (folder / SUMS).write_bytes(garbage)
    with pytest.raises(InputError, match="no list of SHA-256 checksums"):
        verify(files, folder)
    said: list[str] = []
    assert locate(files, say=said.append) == folder  # fetched again, and noted anew
    assert "fetching tiny again" in said[0]
    verify(files, folder)
    assert not unchecked(files, folder)


@pytest.mark.parametrize("own", [False, True])
def test_data_check_says_where_no_checksum_is_known(rapgnn, tmp_path, cache, monkeypatch, own):
    from dataclasses import replace

    files = open_set(tmp_path)
    folder = locate(files)
    monkeypatch.setitem(DATASETS, "cora", replace(DATASETS["cora"], files=files))
    where = ["--data-dir", folder] if own else []
    code, out, _ = rapgnn("data", "check", "cora", *where)
    assert (code, "are intact" in out) == (0, True)
    (folder / SUMS).unlink()
    said: list[str] = []
    locate(files, folder if own else None, said.append)
    assert said == [f"no checksum is known for 1 files in {folder}: they are used as they are"]
    code, out, _ = rapgnn("data", "check", "cora", *where)
    assert code == 1
    assert "no checksum known for 1 of 1 files" in out
    (folder / SUMS).write_text(f"{'0' * 64}  {NAME}\n")
    assert rapgnn("data", "check", "cora", *where)[0] == 2


def test_a_pipe_in_the_cache_is_replaced(tmp_path, cache):
    for name in (NAME, SUMS):
        path = cache / "kind/tiny" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    folder = locate(open_set(tmp_path))
    assert (folder / NAME).read_bytes() == CONTENT


def test_pipes_in_a_data_folder_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "T_A.txt")
    with pytest.raises(InputError, match=r"graph_indicator|T_A"):
        read_tu("t", tmp_path)
    (tmp_path / "T_graph_indicator.txt").write_text("1\n1\n2\n")
    (tmp_path / "T_graph_labels.txt").write_text("1\n2\n")
    (tmp_path / "T_node_labels.txt").write_text("0\n1\n0\n")
    with pytest.raises(InputError, match=r"T_A\.txt: not a regular file"):
        read_tu("t", tmp_path)


def test_nothing_is_fetched_offline(rapgnn, tmp_path, cache, monkeypatch):
    files = open_set(tmp_path)
    monkeypatch.setenv("RAPGNN_OFFLINE", "1")
    with pytest.raises(InputError, match=r"cannot get tiny.*--offline"):
        locate(files)
    monkeypatch.setenv("RAPGNN_OFFLINE", "0")
    folder = locate(files)
    monkeypatch.setattr(sources, "_from_archive", None)
    monkeypatch.setattr(sources, "_from_host", None)
    code, _, err = rapgnn("--offline", "data", "get", "cora")
    assert code == 2
    assert "--offline" in err
    assert os.environ["RAPGNN_OFFLINE"] == "1"
    assert locate(files) == folder  # what is in the cache is used


@pytest.mark.parametrize("damage", ["flip", "swap", "pipe", "no checksum", "garbage"])
def test_an_altered_cache_of_parsed_files_is_not_used(tmp_path, cache, damage):
    source = tmp_path / "file"
    source.write_text("1")
    calls = []

    def parse(folder: Path) -> dict[str, np.ndarray]:
        calls.append(folder)
        return {"a": np.arange(1000), "b": np.ones(3)}

    for _ in range(2):
        parsed("t", tmp_path, [source], parse)
    assert len(calls) == 1
    kept = next((cache / "parsed").glob("*.npz"))
    if damage == "flip":
        content = bytearray(kept.read_bytes())
        content[400] ^= 1
        kept.write_bytes(content)
    elif damage == "swap":
        np.savez(kept, a=np.zeros(1000, dtype=int), b=np.ones(3))  # whole, but not what was parsed
    elif damage == "pipe":
        kept.unlink()
        os.mkfifo(kept)
    elif damage == "garbage":
        kept.with_name(f"{kept.name}.sha256").write_bytes(b"\xff" * 5000)
    else:
        kept.with_name(f"{kept.name}.sha256").unlink()
    for _ in range(2):
        found = parsed("t", tmp_path, [source], parse)
        assert found["a"].tolist() == list(range(1000))
    assert len(calls) == 2


def test_a_table_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(gzipped, "MOST", 100_000)
    path = tmp_path / "edge.csv.gz"
    path.write_bytes(gzip.compress(b"0,1\n" * 20_000))
    assert len(ogb._table(path, np.int64)) == 20_000
    path.write_bytes(gzip.compress(b"0,1\n" * 2_000_000))
    with pytest.raises(InputError, match="it unpacks to more than"):
        ogb._table(path, np.int64)
    path.write_bytes(gzip.compress(b"0" * 8_000_000))  # one line
    with pytest.raises(InputError, match="it unpacks to more than"):
        ogb._table(path, np.int64)


@pytest.mark.parametrize("name", ["n" * 300, "d/" * 3000, "a\0b"])
def test_names_that_no_folder_can_have(name, tmp_path):
    with pytest.raises(InputError, match="is unknown"):
        load_dataset(name)
    with pytest.raises(InputError, match="does not exist"):
        load_dataset("cora", tmp_path / name)
