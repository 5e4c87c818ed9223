"""A fixed subset of a data set to train on."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from amcl.data import cifar10, load_dataset
from amcl.data.split import choose_subset, split_train_validation

from .test_named import stl10, tensors, trust, which  # noqa: F401


def test_a_subset_takes_each_class_by_its_share():
    labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 9 + [3])
    chosen = choose_subset(labels, 50)
    assert labels[chosen].bincount(minlength=4).tolist() in ([30, 15, 5, 0], [30, 15, 4, 1])
    assert torch.equal(chosen, chosen.unique())
    assert len(choose_subset(labels, 100)) == 100  # even classes of one image


def test_what_is_held_out_lies_outside_of_the_subset():
    labels = torch.arange(200) % 5
    trained = []
    for seed in (0, 1):
        kept, held = split_train_validation(labels, 20, seed, 100)
        assert not set(kept.tolist()) & set(held.tolist())
        assert labels[held].bincount().tolist() == [4] * 5
        trained.append((kept, held))
    assert torch.equal(trained[0][0], trained[1][0])
    assert not torch.equal(trained[0][1], trained[1][1])
    with pytest.raises(ValueError, match="subset=190 of 200 images leaves 10 to hold 20 out of"):
        split_train_validation(labels, 20, 0, 190)


def test_subset_of_cifar10(tmp_path, monkeypatch):
    content = tensors()
    trust(monkeypatch, content)
    save_file(content, tmp_path / cifar10.FILE)
    images = load_dataset("cifar10", root=tmp_path, subset=20)
    train = which(images.train)
    assert len(train) == 20
    assert which(images.probe.bank.images) == train
    assert images.probe.bank.labels.bincount().tolist() == [2] * 10
    assert len(which(images.probe.queries.images)) == 4
    assert not set(train) & set(which(images.probe.queries.images))
    assert which(load_dataset("cifar10", root=tmp_path, subset=20, seed=7).train) == train
    test = load_dataset("cifar10", root=tmp_path, subset=20, probe="test")
    assert which(test.train) == which(test.probe.bank.images) == train
    assert len(test.probe.queries.labels) == 10
    assert which(load_dataset("cifar10", root=tmp_path, subset=20, labels="none").train) == train
    with pytest.raises(ValueError, match="subset=41 is more than the 40 images there are"):
        load_dataset("cifar10", root=tmp_path, subset=41)


def test_subset_of_unlabeled_images(stl10):  # noqa: F811
    images = load_dataset("stl10", root=stl10, subset=3)
    assert len(images.train) == 3
    assert len(images.probe.bank.images) == 40  # labeled images are others


def test_subset_of_a_folder(tmp_path, class_folders, monkeypatch):
    class_folders(tmp_path, ["cats", "dogs"], 20)
    images = load_dataset(str(tmp_path), subset=10, workers=0)
    assert len(images.train) == 10
    assert images.probe.bank.labels.bincount().tolist() == [5, 5]
    assert len(images.probe.queries.labels) == 4
    on_disk = load_dataset(str(tmp_path), subset=10, workers=0, memory=0)
    everything = torch.arange(10)
    assert torch.equal(on_disk.train[everything], images.train[everything])
    plain = load_dataset(str(tmp_path), subset=10, labels="none", workers=0)
    assert (len(plain.train), plain.probe) == (10, None)


def test_a_subset_is_of_readable_files(tmp_path, class_folders):
    class_folders(tmp_path, ["cats", "dogs"], 20)
    whole = load_dataset(str(tmp_path), subset=10, workers=0, memory=0).train
    paths = [Path(whole.path(index)) for index in range(10)]
    paths[3].write_bytes(b"")
    paths[7].write_bytes(paths[7].read_bytes()[:200])  # its header is sound
    for memory in (0, 4):
        for labels in ("auto", "none"):
            images = load_dataset(str(tmp_path), subset=10, workers=0, memory=memory, labels=labels)
            assert len(images.train) == 10
            assert set(dict(images.unreadable)) <= {str(paths[3]), str(paths[7])}
    on_disk = load_dataset(str(tmp_path), subset=10, workers=0, memory=0)
    now = [Path(on_disk.train.path(index)) for index in range(10)]
    assert set(paths) - set(now) == {paths[3], paths[7]}  # the others are the same
    assert len(dict(on_disk.unreadable)) == 2
    assert on_disk.probe.bank.labels.bincount().tolist() == [5, 5]
    on_disk.train[torch.arange(10)]  # all of them can be read
    with pytest.raises(ValueError, match="subset=39 is more than the 38 images there are"):
        load_dataset(str(tmp_path), subset=39, workers=0, labels="none")


def test_subset_of_the_builtin_set(few_images):
    images = load_dataset("builtin", subset=30)
    assert (len(images.train), len(images.probe.bank.labels)) == (30, 30)
    assert len(images.probe.queries.labels) == 40
    with pytest.raises(ValueError, match=r"\bsubset\b.*\b0\b"):
        load_dataset("builtin", subset=0)
