"""Parquet and Arrow tables as a source of images."""

import gc
import json
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from amcl.cli import main
from amcl.data import DataSet, load_all_images, load_dataset, stream
from amcl.data.shards.check import Check
from amcl.data.shards.pack import pack
from amcl.data.tables import readers
from amcl.errors import RunError
from shard_files import folder_and_shards, picture
from table_files import IMAGE, save_to_disk, table, write_arrow, write_parquet

ORDER = [*range(0, 40, 2), *range(1, 40, 2)]  # that of `folder_and_shards`


def load(source, **options) -> DataSet:
    settings = {"image_size": 24, "canvas": 24, "memory": 0, "workers": 0}
    return load_dataset(str(source), **settings | options)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same pictures as a folder, as Parquet files of the hub, and as Arrow files."""
    root = tmp_path_factory.mktemp("stored")
    folder_and_shards(root)
    for number, part in enumerate((ORDER[:18], ORDER[18:])):
        write_parquet(root / f"hub/data/train-{number:05}-of-00002.parquet", table(part))
    save_to_disk(root / "disk", table(ORDER))
    return root


@pytest.mark.parametrize(
    "name", ["hub", "hub/data", "hub/data/train-{00000..00001}-of-00002.parquet", "disk"]
)
def test_tables_are_read_as_the_folder_of_the_same_pictures(stored, name):
    expected, data = load(stored / "folder"), load(stored / name)
    every = torch.arange(len(expected.train))
    assert torch.equal(data.train[every], expected.train[every])
    assert data.probe.classes == ("0", "1")
    for part in ("bank", "queries"):
        ours, theirs = getattr(data.probe, part), getattr(expected.probe, part)
        assert torch.equal(ours.labels, theirs.labels)
        every = torch.arange(len(ours.labels))
        assert torch.equal(ours.images[every], theirs.images[every])


@pytest.mark.parametrize("name", ["hub", "disk"])
def test_batches_do_not_depend_on_the_processes_that_decode(stored, name):
    images = load(stored / name).train
    steps = torch.randperm(len(images), generator=torch.Generator().manual_seed(3)).split(5)
    alone, others = (list(stream(images, steps, workers=n)) for n in (0, 2))
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(alone, others, strict=True))


def _content(records, index):
    with records[index].open() as file:
        return file.read()


def test_new_processes_read_tables_too(stored):
    """What a spawned process gets is a copy, and it has opened nothing yet."""
    for name in ("hub", "disk"):
        records = load(stored / name).train.records
        expected = _content(records, 3)
        copied = pickle.dumps(records)
        readers.open_table.cache_clear()
        readers._groups = readers._Groups()
        assert _content(pickle.loads(copied), 3) == expected


def test_a_million_images_take_tens_of_megabytes(stored):
    records = load(stored / "hub").train.records
    small, large = (len(pickle.dumps(records.select(torch.zeros(n).long()))) for n in (0, 1000))
    assert large - small < 17_000


def test_groups_of_rows_that_are_kept_are_bounded(tmp_path, monkeypatch):
    write_parquet(tmp_path / "a.parquet", table(range(60)), group=4)
    size = 4 * len(picture(0))
    monkeypatch.setattr(readers, "_KEPT", 3 * size)
    groups = readers._Groups()
    monkeypatch.setattr(readers, "_groups", groups)
    images = load(tmp_path / "a.parquet", labels="none").train
    plain = [picture(n) for n in range(60)]
    for index in torch.randperm(60).tolist():
        assert _content(images.records, index) == plain[index]
        assert len(groups._groups) <= 3
        assert groups._size == sum(group.nbytes for group in groups._groups.values()) <= 4 * size
    gc.collect()
    pool = pa.total_allocated_bytes()
    for index in torch.randperm(60).tolist():
        _content(images.records, index)
    assert pa.total_allocated_bytes() - pool < 2 * size


def test_threads_take_turns(tmp_path, monkeypatch):
    write_parquet(tmp_path / "a.parquet", table(range(60)), group=4)
    monkeypatch.setattr(readers, "_KEPT", 1)
    records = load(tmp_path / "a.parquet", labels="none").train.records
    order = torch.randperm(60).tolist() * 3
    with ThreadPoolExecutor(8) as pool:
        contents = list(pool.map(lambda index: _content(records, index), order))
    assert contents == [picture(index) for index in order]


# -- splits, columns, classes


def test_splits(tmp_path):
    for split, numbers in (("train", range(20)), ("validation", range(30)), ("test", range(6))):
        write_parquet(tmp_path / f"hub/data/{split}-00000-of-00001.parquet", table(numbers))
        save_to_disk(tmp_path / f"disk/{split}", table(numbers))
    (tmp_path / "disk/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for name in ("hub", "disk"):
        data = load(tmp_path / name)
        assert (len(data.train), len(data.probe.queries.images)) == (20, 30)
        assert len(load(tmp_path / name, probe="test").probe.queries.images) == 6


def columns_of(tmp_path, labels, **columns) -> DataSet:
    count = len(labels)
    images = [picture(n) for n in range(count)]
    content = pa.table({"image": pa.array(images), **columns, "label": labels})
    return load(write_parquet(tmp_path / "table.parquet", content))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (pa.array(["rook", "crow"] * 15), ("crow", "rook")),
        (pa.array(["rook", "crow"] * 15).dictionary_encode(), ("crow", "rook")),
        (pa.array([10, 2] * 15, pa.int32()), ("2", "10")),
        (pa.array([10, 2] * 15, pa.uint8()), ("2", "10")),
    ],
)
def test_labels_of_any_kind(tmp_path, labels, classes):
    data = columns_of(tmp_path, labels)
    assert data.probe.classes == classes
    first = load_all_images(str(tmp_path / "table.parquet"), image_size=24)
    assert first.labels[:2] == list(classes[::-1])
    assert first.names[:2] == ["table.parquet/0", "table.parquet/1"]


def test_names_of_classes_and_rows_without_labels(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", table(range(20), names=("crow", "rook")))
    assert load(path).probe.classes == ("crow", "rook")
    labels = [None, -1] + [0, 1] * 9
    data = load(write_parquet(path, table(range(20), labels=labels)))
    assert data.probe is None
    assert "2 of 20 images have no label (a column `label`)" in data.describe()


def test_columns_by_what_hugging_face_says_or_by_name(tmp_path):
    content = table(range(20))
    renamed = content.rename_columns(["photograph", "bird"])
    features = {"photograph": {"_type": "Image"}, "bird": {"_type": "ClassLabel", "names": "x"}}
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    masks = pa.array([picture(0)] * 20)
    both = renamed.append_column("mask", masks)
    path = write_parquet(tmp_path / "a.parquet", both.replace_schema_metadata(about))
    assert load(path).probe.classes == ("0", "1")
    write_parquet(path, both.replace_schema_metadata({"huggingface": "{"}))
    with pytest.raises(ValueError, match=r"several columns may hold the images, photograph, mask"):
        load(path)
    write_parquet(path, content.append_column("fine_label", content.column("label")))
    assert load(path).warnings == (
        "The labels are those of the column 'label', not of fine_label.",
    )
    write_parquet(path, pa.table({"name": ["a"], "label": [1]}))
    with pytest.raises(ValueError, match=r"no column of encoded images"):
        load(path)


def test_large_groups_are_advised_against(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "a.parquet", table(range(20)), group=20)
    assert not load(path).warnings
    monkeypatch.setattr("amcl.data.sources.tables._LARGE_GROUP", 1000)
    (warning,) = load(path).warnings
    assert "write smaller groups (row_group_size=100), or pack" in warning


# -- damage


def test_a_damaged_table_costs_its_images_and_nothing_else(tmp_path, capsys):
    for number in range(3):
        write_parquet(
            tmp_path / f"set/{number}.parquet", table(range(20 * number, 20 * number + 20))
        )
    content = bytearray((tmp_path / "set/1.parquet").read_bytes())
    start = content.index(picture(20)[:60])
    content[start - 40 : start] = bytes(40)  # the header of a page
    (tmp_path / "set/1.parquet").write_bytes(content)
    half = (tmp_path / "set/2.parquet").read_bytes()[:5000]
    (tmp_path / "set/2.parquet").write_bytes(half)
    data = load(tmp_path / "set", labels="none")
    assert [path for path, _ in data.unreadable] == [str(tmp_path / "set/2.parquet")]
    assert len(data.train) == 40
    batch = next(stream(data.train, [torch.arange(40)], workers=0, replace=False))
    assert [path for path, _ in batch.unreadable] == [
        f"{tmp_path}/set/1.parquet/{row}" for row in range(7)
    ]
    assert main(["data", "check", str(tmp_path / "set"), "--workers", "0"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 8


def test_rows_that_are_no_images_are_named(tmp_path):
    images = [{"bytes": picture(0)}, {"path": "/etc/passwd"}, None, {"bytes": b""}, {"bytes": b"x"}]
    path = tmp_path / "a.arrow"
    write_arrow(path, pa.table({"image": pa.array(images, IMAGE)}))
    reasons = [fault.reason for fault in Check(str(path), workers=0).faults()]
    assert reasons[:2] == 2 * ["no bytes in the table: an image has to be in it, not beside it"]
    assert reasons[2] == "empty (0 bytes)"
    assert reasons[3].startswith("not an image")
    assert len(reasons) == 4


def test_offsets_that_lie_outside_are_refused(tmp_path):
    path = write_arrow(tmp_path / "a.arrow", table(range(5)))
    content = path.read_bytes()
    size = len(picture(0))
    offsets = np.array([0, size], np.int32).tobytes()
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, np.array([0, 2**30], np.int32).tobytes()))
    with pytest.raises(ValueError, match=r"No images in .*offset"):
        load(path)


def test_a_table_that_changes_is_not_read(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", table(range(20)))
    images = load(path, labels="none").train
    os.utime(path, (1, 1))
    batch = next(stream(images, [torch.arange(2)], workers=0, replace=False))
    assert "the file has changed since" in batch.unreadable[0][1]


class _Trap:
    def __reduce__(self):
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("write", [write_parquet, write_arrow])
def test_nothing_pickled_is_executed(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    about = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(_Trap()),
    }
    content = table(range(20))
    field = content.schema.field("label").with_metadata(about)
    ending = "parquet" if write is write_parquet else "arrow"
    path = write(
        tmp_path / f"a.{ending}", content.cast(pa.schema([content.schema.field(0), field]))
    )
    load(path).train[torch.arange(3)]
    assert not (tmp_path / "trapped").exists()


def test_selections_of_other_tables_are_refused(tmp_path):
    folder = save_to_disk(tmp_path / "disk", table(range(20)))
    state = json.loads((folder / "state.json").read_text())
    state["_indices_data_files"] = [{"filename": "indices.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match=r"flatten_indices"):
        load(folder)


def test_without_pyarrow_the_extra_is_named(stored, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    readers.open_table.cache_clear()
    with pytest.raises(RunError, match=r"pip install '.\[parquet\]'"):
        load(stored / "hub")


# -- other formats


def test_tables_are_packed_into_shards(stored, tmp_path):
    pack(str(stored / "hub"), tmp_path / "shards")
    data, expected = load(tmp_path / "shards"), load(stored / "hub")
    every = torch.arange(len(expected.train))
    assert torch.equal(data.train[every], expected.train[every])
    assert torch.equal(data.probe.bank.labels, expected.probe.bank.labels)


def test_the_format_of_files(stored, tmp_path):
    content = table(ORDER)
    path = str(tmp_path / "a.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, content.schema) as writer:
        writer.write_table(content, 7)
    data, expected = load(tmp_path / "a.arrow"), load(stored / "disk")
    assert torch.equal(data.train[torch.arange(36)], expected.train[torch.arange(36)])


def test_folders_that_datasets_writes(stored, tmp_path):
    """Hugging Face's own package, where it is installed."""
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    content = table(ORDER)
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["0", "1"])}
    )
    data = datasets.Dataset(content, datasets.DatasetInfo(features=features))
    data.save_to_disk(tmp_path / "single", num_shards=2)
    datasets.DatasetDict(train=data).save_to_disk(tmp_path / "dict")
    data.to_parquet(tmp_path / "hub/data/train-00000-of-00001.parquet")
    data.select(range(39, -1, -1)).save_to_disk(tmp_path / "reversed")
    expected = load(stored / "folder", labels="none").train
    every = torch.arange(40)
    for name in ("single", "dict", "hub"):
        assert torch.equal(load(tmp_path / name, labels="none").train[every], expected[every])
        assert load(tmp_path / name).probe.classes == ("0", "1")
    reversed_images = load(tmp_path / "reversed", labels="none").train
    assert torch.equal(reversed_images[every], expected[every.flip(0)])


def test_tables_without_columns_are_still_parquet(tmp_path):
    parquet.write_table(pa.table({}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="no column of encoded images"):
        load(tmp_path / "a.parquet")
