import hashlib
import pickle
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torchvision import datasets
from torchvision.datasets.utils import calculate_md5

from amcl.data import cifar10, load_dataset
from amcl.data.builtin import builtin
from amcl.data.named import DATASETS, data_root
from amcl.data.sets import stl10 as named_sets


def tensors(train=40, test=10):
    """A small set in the form of CIFAR-10; images are told apart by their first pixel."""
    pixels = torch.randint(0, 256, (train + test, 3, 32, 32), dtype=torch.uint8)
    pixels[:, 0, 0, 0] = torch.arange(train + test)
    labels = (torch.arange(train + test) % 10).to(torch.uint8)
    parts = (pixels[:train], labels[:train], pixels[train:], labels[train:])
    names = ("train_pixels", "train_labels", "test_pixels", "test_labels")
    return {name: part.clone() for name, part in zip(names, parts, strict=True)}


def trust(monkeypatch, content):
    """Make the checksums those of `content`."""
    sums = {name: hashlib.sha256(part.numpy().data).hexdigest() for name, part in content.items()}
    monkeypatch.setattr(cifar10, "SHA256", sums)


def which(images):
    return images[torch.arange(len(images))][:, 0, 0, 0].tolist()


def check_held_out(images):
    """Validation images come from the training split and are not trained on."""
    train, queries = which(images.train), which(images.probe.queries.images)
    assert sorted(train + queries) == list(range(40))
    assert len(queries) == 4
    assert which(images.probe.bank.images) == train
    assert images.probe.split == "validation"


def check_test(images):
    assert which(images.train) == list(range(40))
    assert which(images.probe.queries.images) == list(range(40, 50))
    assert which(images.probe.bank.images) == which(images.train)
    assert images.probe.queries.labels.tolist() == list(range(10))
    assert images.probe.split == "test"


def test_cifar10_from_its_file(tmp_path, monkeypatch):
    content = tensors()
    trust(monkeypatch, content)
    save_file(content, tmp_path / "cifar10.safetensors")
    images = load_dataset("cifar10", root=tmp_path)
    check_held_out(images)
    check_test(load_dataset("cifar10", root=tmp_path, probe="test"))
    assert (images.name, images.image_size) == ("cifar10", 32)
    assert images.probe.classes[3] == "cat"
    for everything in ({"validation": 0}, {"probe": "none"}, {"labels": "none"}):
        images = load_dataset("cifar10", root=tmp_path, **everything)
        assert (len(images.train), images.probe) == (40, None)
    images = load_dataset("cifar10", root=tmp_path, image_size=96)
    assert (images.image_size, images.train.canvas) == (96, (32, 32))
    with pytest.raises(ValueError, match="canvas=48: these images are stored at 32 pixels"):
        load_dataset("cifar10", root=tmp_path, canvas=48)


def test_cifar10_must_be_the_original(tmp_path, monkeypatch):
    content = tensors()
    trust(monkeypatch, content)
    content["train_pixels"][3, 1, 2, 2] ^= 1
    save_file(content, tmp_path / "cifar10.safetensors")
    with pytest.raises(ValueError, match=r"is not CIFAR-10: the SHA-256 of train_pixels.*Remove"):
        load_dataset("cifar10", root=tmp_path)
    save_file({"x": torch.zeros(1)}, tmp_path / "cifar10.safetensors")
    with pytest.raises(ValueError, match="holds x, not train_pixels"):
        load_dataset("cifar10", root=tmp_path)
    (tmp_path / "cifar10.safetensors").write_bytes(b"cut")
    with pytest.raises(ValueError, match="is not CIFAR-10"):
        load_dataset("cifar10", root=tmp_path)


def write_batches(folder, content, known, monkeypatch, key):
    """The content as torchvision's files, with their checksums put in place."""
    folder.mkdir()
    halves = {"train": content["train_pixels"].chunk(len(known.train_list))}
    halves["test"] = [content["test_pixels"]]
    for split, files in (("train", known.train_list), ("test", known.test_list)):
        labels = content[f"{split}_labels"].chunk(len(files))
        listed = []
        for (name, _), pixels, numbers in zip(files, halves[split], labels, strict=True):
            entry = {"data": pixels.flatten(1).numpy(), key: numbers.tolist()}
            (folder / name).write_bytes(pickle.dumps(entry))
            listed.append([name, calculate_md5(folder / name)])
        monkeypatch.setattr(known, f"{split}_list", listed)
    meta = folder / known.meta["filename"]
    meta.write_bytes(pickle.dumps({known.meta["key"]: [f"class{i}" for i in range(10)]}))
    monkeypatch.setattr(known, "meta", {**known.meta, "md5": calculate_md5(meta)})


def test_cifar10_from_torchvisions_folder(tmp_path, monkeypatch):
    content = tensors()
    folder = tmp_path / "cifar-10-batches-py"
    write_batches(folder, content, datasets.CIFAR10, monkeypatch, "labels")
    with pytest.raises(ValueError, match="the SHA-256 of train_pixels"):
        load_dataset("cifar10", root=tmp_path)
    trust(monkeypatch, content)
    check_test(load_dataset("cifar10", root=tmp_path, probe="test"))
    (folder / "data_batch_2").write_bytes(b"not to be unpickled")
    with pytest.raises(ValueError, match=r"checksums: remove it and run `amcl data cifar10`"):
        load_dataset("cifar10", root=tmp_path)


def test_cifar100(tmp_path, monkeypatch):
    folder = tmp_path / "cifar-100-python"
    write_batches(folder, tensors(), datasets.CIFAR100, monkeypatch, "fine_labels")
    check_held_out(load_dataset("cifar100", root=tmp_path))
    check_test(load_dataset("cifar100", root=tmp_path, probe="test"))
    assert load_dataset("cifar100", root=tmp_path).probe.classes[1] == "class1"
    (folder / "train").write_bytes(b"not to be unpickled")
    with pytest.raises(ValueError, match="checksums: remove it and run `amcl data cifar100`"):
        load_dataset("cifar100", root=tmp_path)


@pytest.fixture
def stl10(tmp_path, monkeypatch):
    counts = {"unlabeled": 7, "train": 50, "test": 20}
    monkeypatch.setattr(named_sets, "COUNTS", counts)
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for split, count in counts.items():
        pixels = generator.integers(0, 256, (count, 3, 96, 96), dtype=np.uint8)
        pixels[:, :, 5, 2] = 7  # row 2, column 5: columns are stored first
        pixels[:, 0, 0, 0] = np.arange(count)
        pixels.tofile(folder / f"{split}_X.bin")
        if split != "unlabeled":
            (1 + np.arange(count) % 10).astype(np.uint8).tofile(folder / f"{split}_y.bin")
    return tmp_path


def test_stl10(stl10):
    images = load_dataset("stl10", root=stl10)
    assert (len(images.train), images.train.canvas, images.image_size) == (7, (96, 96), 96)
    pixels = images.train[torch.tensor([6, 1])]
    assert pixels[:, :, 2, 5].unique().tolist() == [7]
    assert pixels[:, 0, 0, 0].tolist() == [6, 1]
    bank, queries = which(images.probe.bank.images), which(images.probe.queries.images)
    assert sorted(bank + queries) == list(range(50))
    assert images.probe.queries.labels.bincount().tolist() == [1] * 10  # a fifth
    assert images.probe.bank.labels.tolist() == [index % 10 for index in bank]
    images = load_dataset("stl10", root=stl10, probe="test")
    assert which(images.probe.bank.images) == list(range(50))
    assert which(images.probe.queries.images) == list(range(20))
    assert images.probe.split == "test"
    assert load_dataset("stl10", root=stl10, probe="none").probe is None


def test_a_method_that_learns_from_labels_trains_on_the_labeled_part_of_stl10(stl10):
    plain = load_dataset("stl10", root=stl10).probe
    images = load_dataset("stl10", root=stl10, train_labels=True)
    assert which(images.train) == which(plain.bank.images)
    assert torch.equal(images.labels, plain.bank.labels)
    assert which(images.probe.queries.images) == which(plain.queries.images)
    everything = load_dataset("stl10", root=stl10, train_labels=True, probe="none")
    assert len(everything.labels) == len(everything.train) == named_sets.COUNTS["train"]
    assert everything.probe is None
    few = load_dataset("stl10", root=stl10, train_labels=True, subset=5)
    assert len(few.labels) == len(few.train) == 5


def test_labels_of_cifar10_stay_with_its_images(tmp_path, monkeypatch):
    content = tensors()
    trust(monkeypatch, content)
    save_file(content, tmp_path / "cifar10.safetensors")
    for options in ({}, {"probe": "none"}, {"probe": "test", "subset": 20}):
        images = load_dataset("cifar10", root=tmp_path, train_labels=True, **options)
        assert images.labels.tolist() == [number % 10 for number in which(images.train)]
    assert load_dataset("cifar10", root=tmp_path).labels is None


def test_a_set_that_brings_no_labels_says_so(monkeypatch):
    monkeypatch.setattr("amcl.data.load.load_builtin", lambda options: builtin())
    with pytest.raises(ValueError, match=r"those of builtin have none.*--method simclr"):
        load_dataset("builtin", train_labels=True)


def test_stl10_cut_short(stl10):
    path = stl10 / "stl10_binary" / "unlabeled_X.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"must be 193,536 bytes, found 193,535: remove"):
        load_dataset("stl10", root=stl10)
    path.unlink()
    with pytest.raises(ValueError, match="found 0: remove"):
        load_dataset("stl10", root=stl10)


def test_tiny_imagenet(tmp_path, class_folders):
    root = tmp_path / "tiny-imagenet-200"
    class_folders(root / "train", ["n02/images", "n01/images"], each=3, width=64, height=64)
    class_folders(root / "val", ["images"], each=2, first=50, width=64, height=64)
    (root / "train" / "n01" / "n01_boxes.txt").touch()
    with pytest.raises(FileNotFoundError, match=r"val_annotations\.txt does not exist: unpack"):
        load_dataset("tinyimagenet", root=tmp_path, workers=0)
    annotations = root / "val" / "val_annotations.txt"
    annotations.write_text("000.png\tn02\t0\t0\t9\t9\n001.png\tn01\t0\t0\t9\t9\n")
    images = load_dataset("tinyimagenet", root=tmp_path, workers=0)
    assert (images.name, len(images.train), images.train.canvas) == ("tinyimagenet", 6, (64, 64))
    assert images.image_size == 64
    assert images.probe.classes == ("n01", "n02")
    assert images.probe.queries.labels.tolist() == [1, 0]
    assert images.probe.bank.labels.tolist() == [0, 0, 0, 1, 1, 1]
    for options in ({}, {"probe": "none"}):
        labeled = load_dataset(
            "tinyimagenet", root=tmp_path, workers=0, train_labels=True, **options
        )
        assert labeled.labels.tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="test split of tiny-imagenet-200 are not public: use"):
        load_dataset("tinyimagenet", root=tmp_path, probe="test", workers=0)
    annotations.write_text("000.png\tn99\t0\t0\t9\t9\n")
    with pytest.raises(ValueError, match="names the class n99, which has no folder"):
        load_dataset("tinyimagenet", root=tmp_path, workers=0)


def test_imagenet(tmp_path, class_folders, picture):
    class_folders(tmp_path / "imagenet" / "train", ["n02", "n01"], each=2, height=50)
    class_folders(tmp_path / "imagenet" / "val", ["n02"], each=2, first=50)
    images = load_dataset("imagenet", root=tmp_path, workers=0)
    assert (images.image_size, images.train.canvas) == (224, (336, 336))
    assert images.probe.queries.labels.tolist() == [1, 1]
    picture(tmp_path / "imagenet" / "val" / "ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(ValueError, match=r"val_00000001\.JPEG lies in none: move it into one"):
        load_dataset("imagenet", root=tmp_path, workers=0)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("cifar10", "run `amcl data cifar10 --root {root}`"),
        ("cifar100", "run `amcl data cifar100 --root {root}`"),
        ("stl10", "run `amcl data stl10 --root {root}`"),
        ("tinyimagenet", "get cs231n.stanford.edu/tiny-imagenet-200.zip and unpack it in {root}"),
        ("imagenet", "get ILSVRC2012 from image-net.org"),
    ],
)
def test_what_is_missing_says_how_to_get_it(tmp_path, name, way):
    path = re.escape(str(tmp_path / DATASETS[name].path))
    message = f"^{path} does not exist: {re.escape(way.format(root=tmp_path))}"
    with pytest.raises(FileNotFoundError, match=message):
        load_dataset(name, root=tmp_path)


def test_where_known_sets_lie(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AMCL_DATA", raising=False)
    assert data_root() == tmp_path / ".cache" / "amcl"
    monkeypatch.setenv("AMCL_DATA", "~/sets")
    assert data_root() == tmp_path / "sets"
    assert data_root(tmp_path / "own") == tmp_path / "own"
