"""Features with names, as files."""

import csv
import sys

import numpy as np
import pytest
import torch
from pyarrow import parquet

from amcl.evaluation.embeddings_file import write_embeddings
from amcl.metrics.features import Features

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
    monkeypatch.setattr("amcl.evaluation.embeddings_file._ROWS", 2)
    write_embeddings(tmp_path / "f.parquet", NAMES, FOUND)
    table = parquet.read_table(tmp_path / "f.parquet")
    assert table.column("name").to_pylist() == KEPT
    features = np.array(table.column("feature").to_pylist(), dtype=np.float32)
    assert np.array_equal(features, FOUND.values.numpy())


def test_files_are_new_and_of_a_known_kind(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.csv or \.npz or \.parquet"):
        write_embeddings(tmp_path / "f.txt", NAMES, FOUND)
    (tmp_path / "f.npz").write_text("mine")
    with pytest.raises(FileExistsError, match=r"/f\.npz .*remove"):
        write_embeddings(tmp_path / "f.npz", NAMES, FOUND)
    assert (tmp_path / "f.npz").read_text() == "mine"


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[parquet\]'"):
        write_embeddings(tmp_path / "f.parquet", NAMES, FOUND)
    assert not (tmp_path / "f.parquet").exists()


LABELS, PATHS = ["a", "", "", "b"], [f"/there/{name}" for name in NAMES]


def test_csv_is_a_table_of_files_labels_and_numbers(tmp_path):
    write_embeddings(tmp_path / "f.csv", NAMES, FOUND, paths=PATHS, labels=LABELS)
    with (tmp_path / "f.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["file", "label", "f0", "f1", "f2", "f3", "f4"]
    assert [row[:2] for row in rows] == [[KEPT[0], "a"], [KEPT[1], ""], [KEPT[2], "b"]]
    values = np.array([row[2:] for row in rows], dtype=np.float32)
    assert np.array_equal(values, FOUND.values.numpy())
    write_embeddings(tmp_path / "bare.csv", NAMES, FOUND)
    assert (tmp_path / "bare.csv").read_text(encoding="utf-8").startswith("file,f0,")


def test_paths_and_labels_are_kept_where_they_are_known(tmp_path):
    for ending in ("npz", "parquet"):
        write_embeddings(tmp_path / f"f.{ending}", NAMES, FOUND, paths=PATHS, labels=LABELS)
    with np.load(tmp_path / "f.npz", allow_pickle=False) as file:
        assert file["labels"].tolist() == ["a", "", "b"]
        assert file["paths"][0] == "/there/a/b c.png"
    table = parquet.read_table(tmp_path / "f.parquet")
    assert table.column_names == ["name", "path", "label", "feature"]
    assert table.column("label").to_pylist() == ["a", "", "b"]
