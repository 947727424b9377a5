"""Datasets that come as one archive."""

import zipfile
from pathlib import Path

import pytest

from rapgnn import InputError
from rapgnn.datasets import DATASETS, sources
from rapgnn.datasets.sources import Archive, FileSet, locate, verify
from rapgnn.datasets.tu import read_tu


def archive(path: Path, members: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path.as_uri()


def test_an_archive_is_unpacked_and_verified(tmp_path):
    url = archive(tmp_path / "a.zip", {"hiv/raw/edge.csv.gz": b"right", "hiv/raw/other": b"-"})
    import hashlib

    good = FileSet("t", "ogb/t", {"raw/edge.csv.gz": (hashlib.sha256(b"right").hexdigest(),)}, archive=Archive(url))
    assert (locate(good) / "raw/edge.csv.gz").read_bytes() == b"right"
    bad = FileSet("u", "ogb/u", {"raw/edge.csv.gz": ("0" * 64,)}, archive=Archive(url))
    with pytest.raises(InputError, match=r"refused raw/edge\.csv\.gz"):
        locate(bad)
    missing = FileSet("v", "ogb/v", {"raw/none.csv.gz": ("0" * 64,)}, archive=Archive(url))
    with pytest.raises(InputError, match=r"holds no raw/none\.csv\.gz"):
        locate(missing)


def test_a_truncated_archive_is_refused(tmp_path):
    url = archive(tmp_path / "a.zip", {"x/raw/edge.csv.gz": b"right" * 1000})
    path = tmp_path / "a.zip"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match="truncated or no zip"):
        locate(FileSet("t", "ogb/t", {"raw/edge.csv.gz": ("0" * 64,)}, archive=Archive(url)))


def test_what_has_no_published_checksum_is_noted_at_the_first_fetch(tmp_path):
    url = archive(tmp_path / "a.zip", {"x/raw/edge.csv.gz": b"first"})
    files = FileSet("t", "ogb/t", {"raw/edge.csv.gz": ()}, archive=Archive(url), open=True)
    folder = locate(files)
    verify(files, folder)
    (folder / "raw/edge.csv.gz").write_bytes(b"tampered")
    with pytest.raises(InputError, match="truncated or altered"):
        verify(files, folder)
    assert (locate(files) / "raw/edge.csv.gz").read_bytes() == b"first"  # fetched again


def test_mutag_comes_from_the_package_index_where_there_is_one(monkeypatch):
    files = DATASETS["mutag"].files
    monkeypatch.setattr(sources, "HOST_TIMEOUT", 1.0)
    silent = FileSet(
        files.name, files.folder, files.files, archive=Archive("http://127.0.0.1:1/x.zip"), package=files.package
    )
    try:
        folder = locate(silent)
    except InputError as error:
        if "could not download" in str(error) or "did not answer" in str(error):
            pytest.skip(f"no package index: {error}")
        raise
    graph = read_tu("mutag", folder)
    assert (graph.num_rows, graph.num_nodes) == (188, 3371)
