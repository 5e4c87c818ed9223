"""Shards as a source of images: what they have in common with a folder, and their errors."""

import gzip
import json
import logging
import multiprocessing
import os
import pickle
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from amcl.data import (
    DataSet,
    absolute_source,
    has_test_split,
    load_all_images,
    load_dataset,
    same_source,
    source_name,
    stream,
    validation_source,
)
from amcl.data.shards.index import load_index
from shard_files import folder_and_shards, picture, samples, write_shard


def load(source, **options) -> DataSet:
    settings = {"image_size": 24, "canvas": 24, "memory": 0, "workers": 0}
    return load_dataset(str(source), **settings | options)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return folder_and_shards(tmp_path_factory.mktemp("both"))


@pytest.mark.parametrize("pattern", ["", "/{0000..0001}.tar", "/*.tar", "/{0000,0001}.tar"])
def test_shards_are_read_as_the_folder_of_the_same_pictures(both, pattern):
    folder, shards = both
    expected, data = load(folder), load(shards + pattern)
    every = torch.arange(len(expected.train))
    assert torch.equal(data.train[every], expected.train[every])
    assert data.probe.classes == ("0", "1")
    for part in ("bank", "queries"):
        ours, theirs = getattr(data.probe, part), getattr(expected.probe, part)
        assert torch.equal(ours.labels, theirs.labels)
        every = torch.arange(len(ours.labels))
        assert torch.equal(ours.images[every], theirs.images[every])


def test_batches_do_not_depend_on_the_processes_that_decode(both):
    images = load(both[1]).train
    steps = torch.randperm(len(images), generator=torch.Generator().manual_seed(3)).split(5)
    alone, others = (list(stream(images, steps, workers=n)) for n in (0, 2))
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(alone, others, strict=True))


def _content(records, index):
    with records[index].open() as file:
        return file.read()


def test_new_processes_read_shards_too(both):
    records = load(both[1]).train._records
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        content = pool.apply(_content, (records, 3))
    assert content == _content(records, 3)


def test_large_images_are_read_in_parts(both, monkeypatch):
    expected = load(both[1]).train[torch.arange(5)]
    monkeypatch.setattr(sys.modules["amcl.data.shards.records"], "_BUFFER", 100)
    images = load(both[1]).train
    assert images.records[0].size > 100
    assert torch.equal(images[torch.arange(5)], expected)


def test_handles_are_few(tmp_path):
    for n in range(70):
        write_shard(tmp_path / f"{n:02}.tar", samples([n]))
    before = len(os.listdir("/proc/self/fd"))
    images = load(tmp_path, labels="none").train
    images[torch.arange(70)]
    assert len(os.listdir("/proc/self/fd")) <= before + 64


def test_a_million_images_take_tens_of_megabytes(both):
    """Without its name, an image takes 36 bytes, and nothing is a Python object."""
    records = load(both[1]).train._records
    assert records._rows.itemsize == 36
    assert not records._rows.dtype.hasobject
    small, large = (len(pickle.dumps(records.select(torch.zeros(n).long()))) for n in (0, 1000))
    assert large - small < 37_000


# -- splits and classes


def test_splits_by_names_and_by_folders(tmp_path):
    for split, seeds in (("train", range(20)), ("val", range(20, 30)), ("test", range(30, 36))):
        write_shard(tmp_path / "flat" / f"birds-{split}-0000.tar", samples(seeds))
        write_shard(tmp_path / "deep" / split / "0000.tar", samples(seeds))
    for source in (tmp_path / "flat", tmp_path / "deep", f"{tmp_path}/flat/*.tar"):
        data = load(source)
        assert len(data.train) == 20
        assert len(data.probe.queries.images) == 10
        assert len(load(source, probe="test").probe.queries.images) == 6
        assert has_test_split(str(source))
        assert validation_source(str(source)) == "split"
        assert "kept for evaluation" in data.describe()
    alone = f"{tmp_path}/flat/birds-test-{{0000..0000}}.tar"
    assert len(load(alone, labels="none").train) == 6
    (tmp_path / "flat/birds-train-0000.tar").unlink()
    with pytest.raises(
        ValueError, match=r"no files to train on.*validation, test|test, validation"
    ):
        load(tmp_path / "flat")


def test_names_of_classes(tmp_path):
    write_shard(tmp_path / "0.tar", samples(range(20)))
    (tmp_path / "classes.txt").write_text("crow\nrook\n")
    assert load(tmp_path).probe.classes == ("crow", "rook")
    (tmp_path / "classes.json").write_text(json.dumps({"classes": ["owl"]}))
    with pytest.raises(ValueError, match=r"classes.json has 1 names, and there are labels up to 1"):
        load(tmp_path)


def test_labels_that_are_texts_or_folders_or_missing(tmp_path):
    texts = [(f"{n}.png", picture(n)) for n in range(20)]
    labels = [(f"{n}.cls", b"crow\n" if n % 3 else b"rook") for n in range(20)]
    write_shard(tmp_path / "texts/0.tar", texts + labels)
    assert load(tmp_path / "texts").probe.classes == ("crow", "rook")
    write_shard(tmp_path / "some/0.tar", texts + labels[:19])
    data = load(tmp_path / "some")
    assert data.probe is None
    assert "1 of 20 images have no label (.cls beside the image)" in data.describe()
    write_shard(
        tmp_path / "folders/0.tar", [(f"{'ab'[n % 2]}/{n}.png", picture(n)) for n in range(9)]
    )
    assert load(tmp_path / "folders").probe is None  # too few to hold one out
    names = load_all_images(f"{tmp_path}/folders", image_size=24)
    assert names.labels[:2] == ["a", "b"]
    with pytest.raises(ValueError, match=r"probe='test'|no test split"):
        load(tmp_path / "texts", probe="test")


# -- names of sources


def test_names_of_images_and_sources(both, tmp_path, monkeypatch):
    folder, shards = both
    images = load_all_images(shards, image_size=24)
    assert images.names[0] == "0000.tar/000.png"
    assert (len(images.names), images.paths, images.labels[-1]) == (40, [], "1")
    pattern = f"{shards}/{{0000..0001}}.tar"
    assert same_source(shards, pattern)
    assert not same_source(shards, folder)
    assert same_source(f"{tmp_path}/x/{{0..3}}.tar", f"{tmp_path}/./x/{{0..3}}.tar")
    monkeypatch.chdir(os.path.dirname(shards))
    assert absolute_source("shards/{0000..0001}.tar") == pattern
    assert absolute_source("shards/*.tar") == f"{shards}/*.tar"
    assert source_name(pattern) == "shards"


def test_what_hashes_depend_on(both, tmp_path):
    images = load(both[1]).train
    moved = load(shutil.copytree(both[1], tmp_path / "moved")).train
    assert images.identity() == moved.identity()
    assert images.fingerprint() != moved.fingerprint()
    again = load(both[1]).train
    assert images.fingerprint() == again.fingerprint()
    assert (
        images.subset(torch.tensor([1, 0])).identity() != images.subset(torch.arange(2)).identity()
    )


# -- the index


def test_an_index_is_kept_until_its_shard_changes(tmp_path, monkeypatch):
    shard = write_shard(tmp_path / "0.tar", samples(range(3)))
    first = load_index(shard)
    kept = tmp_path / ".amcl/0.tar.index"
    monkeypatch.setattr("amcl.data.shards.index.build_index", lambda path: pytest.fail("built"))
    assert load_index(shard).to_bytes() == first.to_bytes() == kept.read_bytes()
    monkeypatch.undo()
    write_shard(shard, samples(range(5)))
    assert len(load_index(shard).rows) == 5
    whole = kept.read_bytes()
    line, _, rest = whole.partition(b"\n")
    for damaged in (b"", b"{}\n", whole[:-1], line + b"\n" + b"\xff" * len(rest), b"[1]\n" + rest):
        kept.write_bytes(damaged)
        assert load_index(shard).to_bytes() == whole == kept.read_bytes()


def test_an_index_that_cannot_lie_beside_its_shard_is_kept_in_the_cache(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("AMCL_DATA", str(tmp_path / "cache"))
    for n in range(2):
        write_shard(tmp_path / "set" / f"{n}.tar", samples(range(3)))
    (tmp_path / "set/.amcl").write_text("no folder")
    with caplog.at_level(logging.INFO):
        load(tmp_path / "set", labels="none")
    assert sum("are kept in" in line for line in caplog.messages) == 1
    assert len([*(tmp_path / "cache").rglob("*.index")]) == 2
    monkeypatch.setattr("amcl.data.shards.index.build_index", lambda path: pytest.fail("built"))
    assert len(load_index(tmp_path / "set/0.tar").rows) == 3


def test_a_note_of_several_threads_is_logged_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("AMCL_DATA", str(tmp_path / "cache"))
    shards = [write_shard(tmp_path / "set" / f"{n}.tar", samples([0])) for n in range(4)]
    (tmp_path / "set/.amcl").write_text("no folder")
    monkeypatch.setattr(caplog.handler, "filter", lambda record: time.sleep(0.2) or True)
    with ThreadPoolExecutor(len(shards)) as pool:
        list(pool.map(load_index, shards))
    assert sum("are kept in" in line for line in caplog.messages) == 1


def test_a_shard_that_changes_is_not_read_by_its_old_index(tmp_path):
    shard = write_shard(tmp_path / "0.tar", samples(range(4)))
    images = load(tmp_path, labels="none").train
    write_shard(shard, samples(range(4, 8)))
    with pytest.raises(Exception, match="has changed since its index was read"):
        images[torch.tensor([0])]


# -- errors


def test_shards_that_are_not_there(tmp_path):
    write_shard(tmp_path / "00.tar", samples([0]))
    with pytest.raises(FileNotFoundError, match=r"no file matches '.*/x-\*.tar'"):
        load(f"{tmp_path}/x-*.tar")
    with pytest.raises(FileNotFoundError, match=r"14 of the 15 files .*/01.tar.* and 4 more"):
        load(f"{tmp_path}/{{00..14}}.tar")
    with pytest.raises(ValueError, match="stands for 100,000,001 files"):
        load(f"{tmp_path}/{{0..100000000}}.tar")
    for source in ("https://host/{0..9}.tar", "s3://bucket/0.tar", "pipe:cat 0.tar", "s3://images"):
        with pytest.raises(ValueError, match=rf"^'{re.escape(source)}' is not a path.*mount"):
            load(source)
        assert absolute_source(source) == source  # errors quote it as it was typed


def test_files_that_are_no_shards(tmp_path):
    shard = write_shard(tmp_path / "plain/0.tar", samples([0]))
    for name in ("0.tar.gz", "0.tgz", "1.tar"):
        path = tmp_path / f"of {name}" / name
        path.parent.mkdir()
        path.write_bytes(gzip.compress(shard.read_bytes()))
        for source in (path, path.parent):
            with pytest.raises(ValueError, match=r"compressed \(gzip\).*gunzip"):
                load(source)
    (tmp_path / "x.tar").write_bytes(b"not an archive" * 100)
    with pytest.raises(ValueError, match=r"No images in .*x.tar.*damaged header"):
        load(tmp_path / "x.tar")
    write_shard(tmp_path / "y.tar", [("a.1.png", picture(0)), ("b.bin", b"")])
    with pytest.raises(ValueError, match=r"1 files in shards not read.*….1.png.*1 .bin"):
        load(tmp_path / "y.tar")


def test_a_folder_with_pictures_beside_archives_stays_a_folder(tmp_path):
    write_shard(tmp_path / "0.tar", samples(range(3)))
    (tmp_path / "deep/er").mkdir(parents=True)
    for n in range(5):
        (tmp_path / f"deep/er/{n}.png").write_bytes(picture(n))
    assert len(load(tmp_path).train) == 5
