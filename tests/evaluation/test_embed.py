"""Features with names, as files."""

import sys

import numpy as np
import pytest
import torch
from pyarrow import parquet

from amcl.evaluation.embed import write_embeddings
from amcl.evaluation.features import Features

NAMES = ["a/b c.png", "broken.png", "ü.jpg", "bad\udcff.png"]
FOUND = Features(torch.randn(3, 5), torch.tensor([0, 2, 3]), (("broken.png", "no picture"),))
KEPT = ["a/b c.png", "ü.jpg", "bad\\xff.png"]


def test_npz_is_read_by_numpy_without_pickle(tmp_path):
    write_embeddings(tmp_path / "new" / "f.npz", NAMES, FOUND)
    with np.load(tmp_path / "new" / "f.npz", allow_pickle=False) as file:
        assert file["names"].tolist() == KEPT
        assert np.array_equal(file["features"], FOUND.values.numpy())
        assert file["features"].dtype == np.float32


def test_parquet_is_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr("amcl.evaluation.embed._ROWS", 2)
    write_embeddings(tmp_path / "f.parquet", NAMES, FOUND)
    table = parquet.read_table(tmp_path / "f.parquet")
    assert table.column("name").to_pylist() == KEPT
    features = np.array(table.column("feature").to_pylist(), dtype=np.float32)
    assert np.array_equal(features, FOUND.values.numpy())


def test_files_are_new_and_of_a_known_kind(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.npz or \.parquet"):
        write_embeddings(tmp_path / "f.csv", NAMES, FOUND)
    (tmp_path / "f.npz").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already"):
        write_embeddings(tmp_path / "f.npz", NAMES, FOUND)
    assert (tmp_path / "f.npz").read_text() == "mine"


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[parquet\]'"):
        write_embeddings(tmp_path / "f.parquet", NAMES, FOUND)
    assert not (tmp_path / "f.parquet").exists()
