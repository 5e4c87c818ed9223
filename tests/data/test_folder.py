import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from amcl.data import (
    FileImages,
    MemoryImages,
    UnreadableImage,
    load_dataset,
    same_source,
    validation_source,
)


def load(root, **settings):
    return load_dataset(str(root), **{"workers": 0, **settings})


def fingerprints(images):
    """What is in each image, to tell them apart."""
    return [
        hashlib.sha256(image.numpy()).hexdigest() for image in images[torch.arange(len(images))]
    ]


def test_any_nesting_without_labels(tmp_path, picture):
    for number, name in enumerate(["b.PNG", "a.jpg", "x/c.JPeG", "x/y/z/d.webp", "e.e.bmp"]):
        picture(tmp_path / name, number)
    for name in (".hidden.png", "__MACOSX/f.png", ".cache/g.png", "notes.txt", "h.png.part"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("no picture")
    images = load(tmp_path)
    assert (len(images.train), images.probe, images.unreadable) == (5, None, ())
    assert isinstance(images.train, MemoryImages)
    assert images.name == tmp_path.name
    assert "taken as unlabeled" in images.describe()
    expected = ["a.jpg", "b.PNG", "e.e.bmp", "x/c.JPeG", "x/y/z/d.webp"]
    files = FileImages([str(tmp_path / name) for name in expected], images.train.canvas[0])
    assert fingerprints(images.train) == fingerprints(files)


def test_links_in_circles_and_linked_folders(tmp_path, picture):
    root = tmp_path / "root"
    picture(root / "a" / "1.png")
    (root / "a" / "up").symlink_to(root)
    (root / "b").symlink_to(root / "a")
    picture(tmp_path / "elsewhere" / "2.png")
    (root / "c").symlink_to(tmp_path / "elsewhere")
    assert len(load(root).train) == 2


def test_class_folders_hold_out_without_a_leak(tmp_path, class_folders):
    images = load(class_folders(tmp_path, ["cat", "ant"], each=40), validation=1000)
    probe = images.probe
    assert probe.classes == ("ant", "cat")
    assert probe.split == "validation"
    assert probe.queries.labels.bincount().tolist() == [4, 4]  # a tenth
    assert probe.bank.labels.bincount().tolist() == [36, 36]
    train, queries = fingerprints(images.train), fingerprints(probe.queries.images)
    assert len(set(train)) == 72
    assert not set(train) & set(queries)
    assert sorted(train) == sorted(fingerprints(probe.bank.images))
    # Labels stay with their images.
    files = sorted(tmp_path.glob("cat/*.png"))
    cats = fingerprints(FileImages([str(path) for path in files], images.train.canvas[0]))
    for query, label in zip(queries, probe.queries.labels.tolist(), strict=True):
        assert (query in cats) == (label == 1)


def test_how_many_are_held_out(tmp_path, class_folders):
    class_folders(tmp_path, ["a", "b"], each=20)
    assert len(load(tmp_path, validation=2).probe.queries.labels) == 2
    first, again = (fingerprints(load(tmp_path).probe.queries.images) for _ in range(2))
    assert first == again
    assert first != fingerprints(load(tmp_path, seed=1).probe.queries.images)
    for everything in ({"validation": 0}, {"probe": "none"}, {"labels": "none"}):
        images = load(tmp_path, **everything)
        assert (len(images.train), images.probe) == (40, None)


def test_too_few_to_hold_any_out(tmp_path, class_folders):
    images = load(class_folders(tmp_path, ["a", "b"], each=3))
    assert (len(images.train), images.probe) == (6, None)
    assert "too few labeled images" in images.describe()


@pytest.mark.parametrize(
    "options", [{}, {"probe": "none"}, {"validation": 0}, {"subset": 10}, {"memory": 0}], ids=str
)
def test_labels_of_training_images_stay_with_them(tmp_path, class_folders, options):
    class_folders(tmp_path, ["ant", "cat"], each=20)
    assert load(tmp_path, **options).labels is None  # unless a method learns from them
    images = load(tmp_path, train_labels=True, **options)
    assert len(images.train) == len(load(tmp_path, **options).train)
    assert (images.probe is None) == (load(tmp_path, **options).probe is None)
    assert "too few" not in images.describe()
    files = [str(path) for path in sorted(tmp_path.glob("cat/*.png"))]
    cats = fingerprints(FileImages(files, images.train.canvas[0]))
    is_cat = [fingerprint in cats for fingerprint in fingerprints(images.train)]
    assert images.labels.tolist() == is_cat


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (["a/1.png", "a/2.png"], "there is one class, a/"),
        (["a/1.png", "b/c/2.png"], "do not all lie in <class>/<file>"),
        (["1.png"], "do not all lie in <class>/<file>"),
    ],
)
def test_a_method_that_learns_from_labels_needs_classes(tmp_path, picture, layout, reason):
    for number, name in enumerate(layout):
        picture(tmp_path / name, number)
    for options in ({}, {"probe": "none"}):
        with pytest.raises(ValueError, match=rf"{reason}.*--labels folders.*--method simclr"):
            load(tmp_path, train_labels=True, **options)
    with pytest.raises(ValueError, match="labels='none' leaves them out: sort them into"):
        load(tmp_path, train_labels=True, labels="none")


@pytest.mark.parametrize("layout", [["a/1.png", "a/2.png"], ["a/1.png", "b/c/2.png"], ["1.png"]])
def test_what_is_not_labeled_by_itself(tmp_path, picture, layout):
    for number, name in enumerate(layout * 1):
        picture(tmp_path / name, number)
    assert load(tmp_path).probe is None


def test_labels_from_folders_at_any_depth(tmp_path, class_folders, picture):
    class_folders(tmp_path / "a" / "deep", ["x", "y"], each=10)
    class_folders(tmp_path / "b", ["z"], each=20, first=50)
    assert load(tmp_path).probe is None
    images = load(tmp_path, labels="folders")
    assert images.probe.classes == ("a", "b")
    picture(tmp_path / "loose.png")
    with pytest.raises(ValueError, match=r"labels='folders'.*loose\.png lies in none: move it"):
        load(tmp_path, labels="folders")


def test_one_folder_is_no_class(tmp_path, picture):
    picture(tmp_path / "only" / "a.png")
    with pytest.raises(ValueError, match=r"at least 2 folders in .* found only: use labels='none'"):
        load(tmp_path, labels="folders")


@pytest.mark.parametrize("name", ["val", "valid", "validation", "dev", "VAL"])
def test_train_beside_validation(tmp_path, class_folders, name):
    class_folders(tmp_path / "train", ["a", "b"], each=5)
    class_folders(tmp_path / name, ["b"], each=3, first=100)
    images = load(tmp_path)
    assert len(images.train) == 10
    assert images.probe.split == "validation"
    assert images.probe.classes == ("a", "b")
    assert images.probe.queries.labels.tolist() == [1, 1, 1]
    assert images.probe.bank.labels.bincount().tolist() == [5, 5]
    assert f"train/: 10 images taken for training; {name}/: 3 images kept for validation" in (
        images.describe()
    )


def test_the_test_split_is_used_only_on_demand(tmp_path, class_folders):
    class_folders(tmp_path / "train", ["a", "b"], each=10)
    class_folders(tmp_path / "test", ["a", "b"], each=2, first=100)
    images = load(tmp_path)
    assert images.probe.split == "validation"
    assert (len(images.train), len(images.probe.queries.labels)) == (18, 2)
    images = load(tmp_path, probe="test")
    assert images.probe.split == "test"
    assert (len(images.train), len(images.probe.queries.labels)) == (20, 4)


def test_no_test_split(tmp_path, class_folders):
    class_folders(tmp_path / "train", ["a", "b"], each=2)
    class_folders(tmp_path / "val", ["a", "b"], each=2)
    with pytest.raises(ValueError, match=r"has no test split: put one in .*use probe='validation'"):
        load(tmp_path, probe="test")
    class_folders(tmp_path / "test" / "deep", ["a", "b"], each=2)
    with pytest.raises(ValueError, match="probe='test' needs labels"):
        load(tmp_path, probe="test")


def test_a_validation_split_without_classes_or_with_others(tmp_path, class_folders, picture):
    class_folders(tmp_path / "train", ["a", "b"], each=2)
    picture(tmp_path / "val" / "1.png")
    images = load(tmp_path)
    assert (len(images.train), images.probe) == (4, None)
    (tmp_path / "val" / "1.png").unlink()
    class_folders(tmp_path / "val", ["a", "c"], each=2)
    with pytest.raises(ValueError, match=r"/val .*\bclasses c\b.*labels='none'"):
        load(tmp_path)


def test_broken_files_are_counted_and_named(tmp_path, class_folders, picture):
    class_folders(tmp_path, ["a", "b"], each=15)
    (tmp_path / "a" / "zero.jpg").touch()
    (tmp_path / "b" / "text.png").write_text("no")
    (tmp_path / "b" / "folder.jpg").mkdir()
    (tmp_path / "b" / "gone.png").symlink_to("nowhere")
    whole = picture(tmp_path / "a" / "cut.jpg").read_bytes()
    (tmp_path / "a" / "cut.jpg").write_bytes(whole[:-300])
    images = load(tmp_path)
    reasons = {os.path.basename(path): reason for path, reason in images.unreadable}
    assert sorted(reasons) == ["cut.jpg", "folder.jpg", "gone.png", "text.png", "zero.jpg"]
    assert reasons["folder.jpg"] == "a folder, not an image file"
    assert len(images.train) + len(images.probe.queries.labels) == 30
    labels = torch.cat([images.probe.bank.labels, images.probe.queries.labels])
    assert labels.bincount().tolist() == [15, 15]
    assert "5 unreadable files skipped" in images.describe()


def test_a_folder_that_may_not_be_listed(tmp_path, picture, monkeypatch):
    picture(tmp_path / "a.png")
    (tmp_path / "closed").mkdir()
    listed = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert load(tmp_path).unreadable == ((str(tmp_path / "closed"), "folder: permission denied"),)


def test_no_images(tmp_path):
    with pytest.raises(ValueError, match=r"No images in .*\.jpg, .*found nothing at all\. Give"):
        load(tmp_path)
    (tmp_path / "a.txt").touch()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.TXT").touch()
    (tmp_path / "b" / "README").touch()
    with pytest.raises(ValueError, match=r"found 2 \.txt, 1 files without an extension\."):
        load(tmp_path)


def test_none_readable(tmp_path, picture):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"None of the 2 image files .*a\.jpg: empty file"):
        load(tmp_path)
    for name in ("a.jpg", "b.jpg"):  # sound headers, broken pixels
        path = picture(tmp_path / name, width=99, height=99)
        path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(ValueError, match=r"None of the 2 image files .*a\.jpg: .*truncated"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("width", "height", "view", "canvas"),
    [
        (20, 20, 32, 20),  # all squares of one size: as they are
        (48, 48, 32, 48),
        (40, 50, 32, 48),
        (70, 300, 64, 96),
        (400, 300, 224, 336),
        (336, 336, 224, 336),
        (340, 340, 224, 336),
    ],
)
def test_sizes_are_chosen_by_the_pictures(tmp_path, picture, width, height, view, canvas):
    for number in range(2):
        picture(tmp_path / f"{number}.png", number, width=width, height=height)
    images = load(tmp_path)
    assert images.image_size == view
    assert images.train.canvas == (canvas, canvas)
    assert f"views of {view}: chosen for a median short side of {min(width, height)} pixels" in (
        images.describe()
    )
    expected = None if width == height else [[height, width]] * 2
    shapes = images.train.shapes
    assert expected == (None if shapes is None else shapes.tolist())


def test_sizes_that_are_given(tmp_path, picture):
    picture(tmp_path / "a.png", width=90, height=70)
    images = load(tmp_path, image_size=48)
    assert (images.image_size, images.train.canvas) == (48, (72, 72))
    images = load(tmp_path, canvas=50)
    assert (images.image_size, images.train.canvas) == (64, (50, 50))


def test_large_sets_stay_on_disk(tmp_path, class_folders):
    class_folders(tmp_path, ["a", "b"], each=30)
    small, large = load(tmp_path), load(tmp_path, memory=60 * 3 * 40 * 40 / 2**30 - 1e-9)
    assert isinstance(small.train, MemoryImages)
    assert isinstance(large.train, FileImages)
    assert "decoded as they are used" in large.describe()
    assert fingerprints(small.train) == fingerprints(large.train)
    # What is probed with is decoded all the same, and holds the same images.
    assert isinstance(large.probe.queries.images, MemoryImages)
    assert fingerprints(small.probe.queries.images) == fingerprints(large.probe.queries.images)
    assert torch.equal(small.probe.bank.labels, large.probe.bank.labels)
    tiny = load(tmp_path, memory=1e-9)
    assert isinstance(tiny.probe.bank.images, FileImages)


def test_unreadable_files_of_large_sets_leave_the_probe(tmp_path, class_folders):
    class_folders(tmp_path, ["a", "b"], each=30)
    limit = {"memory": 60 * 3 * 40 * 40 / 2**30 - 1e-9}
    (tmp_path / "a" / "000.png").write_bytes(b"")
    images = load(tmp_path, **limit)
    probe = images.probe
    assert len(probe.bank.labels) + len(probe.queries.labels) == 59
    assert [os.path.basename(path) for path, _ in images.unreadable] == ["000.png"]


def test_the_bank_is_bounded(tmp_path, class_folders):
    folder = class_folders(tmp_path, ["a", "b"], each=10)
    for bank, expected in ((7, 7), (None, 18)):
        images = load(folder, bank=bank)
        assert (len(images.train), len(images.probe.bank.labels)) == (18, expected)
    with pytest.raises(ValueError, match=r"\bbank\b.*\b0\b"):
        load(folder, bank=0)


def test_workers_read_the_same(tmp_path, class_folders, monkeypatch):
    monkeypatch.setattr(sys.modules["amcl.data.stream"], "CHUNK", 4)
    class_folders(tmp_path, ["a", "b"], each=8)
    (tmp_path / "b" / "003.png").write_bytes(b"")
    alone, helped = load(tmp_path), load(tmp_path, workers=2)
    assert fingerprints(alone.train) == fingerprints(helped.train)
    assert alone.unreadable == helped.unreadable


def test_pictures_are_never_touched(tmp_path, class_folders):
    class_folders(tmp_path, ["a", "b"], each=10)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    load(tmp_path)
    assert before == {
        path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")
    }


def test_unknown_sources(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"'cfar10' is neither.*Did you mean 'cifar10'\?"):
        load_dataset("cfar10")
    with pytest.raises(FileNotFoundError, match="builtin, cifar10, cifar100, imagenet, stl10"):
        load_dataset(str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="'' is neither a folder nor a known data set"):
        load_dataset("")
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(NotADirectoryError, match=r"'a\.png'.*builtin, cifar10"):
        load_dataset("a.png")
    assert load_dataset(".").name == tmp_path.name


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"labels": "yes"}, "labels must be one of 'auto', 'folders', 'none'; got 'yes'"),
        ({"probe": "train"}, "probe must be one of 'validation', 'test', 'none'"),
        ({"image_size": 0}, "image_size must be a whole number"),
        ({"canvas": 1.5}, "canvas must be a whole number"),
        ({"validation": -1}, "validation must be a whole number, at least 0, got -1"),
        ({"validation": 0.1}, "validation must be a whole number, at least 0, got 0.1"),
        ({"workers": -1}, "workers must be a whole number, at least 0"),
        ({"memory": -1}, "memory must be a finite number, at least 0"),
    ],
)
def test_settings_are_checked_first(setting, message):
    with pytest.raises(ValueError, match=message):
        load_dataset("nowhere", **setting)


def test_builtin():
    images = load_dataset("builtin")
    assert images.name == "builtin"
    assert not set(fingerprints(images.train)) & set(fingerprints(images.probe.queries.images))
    assert load_dataset("builtin", probe="none").probe is None
    assert load_dataset("builtin", image_size=96).image_size == 96
    with pytest.raises(ValueError, match="has no test split: use probe='validation'"):
        load_dataset("builtin", probe="test")
    with pytest.raises(ValueError, match="canvas=7: these images are stored at 32 pixels"):
        load_dataset("builtin", canvas=7)


def test_what_is_held_out_does_not_depend_on_where_images_are_kept(tmp_path, class_folders):
    """Files that cannot be read are found early in memory, late on disk."""
    folder = class_folders(tmp_path, ["a", "b"], each=30)
    for broken in sorted(folder.rglob("*.png"))[3:50:9]:
        broken.write_bytes(b"broken")
    in_memory = load(folder, seed=5).probe
    on_disk = load(folder, seed=5, memory=0).probe
    for part in ("bank", "queries"):
        stored, files = getattr(in_memory, part), getattr(on_disk, part).images
        readable = []
        for index in range(len(files)):
            try:
                readable.append(files.decode(index)[0])
            except UnreadableImage:
                continue
        every = stored.images[torch.arange(len(stored.images))]
        assert torch.equal(every, torch.stack(readable))


def test_where_validation_images_come_from(tmp_path, class_folders):
    assert [validation_source(name) for name in ("builtin", "imagenet", "stl10", "cifar10")] == [
        *("split", "split", "unused", "training")
    ]
    class_folders(tmp_path / "flat", ["a", "b"], each=2)
    assert validation_source(str(tmp_path / "flat")) == "training"
    for split in ("train", "valid"):
        class_folders(tmp_path / "split" / split, ["a", "b"], each=2)
    assert validation_source(str(tmp_path / "split")) == "split"


def test_a_folder_is_the_same_by_any_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "cifar10")
    assert same_source("./cifar10", str(tmp_path / "cifar10"))
    assert same_source("link", "cifar10/.")
    assert not same_source("cifar10", "./cifar10")  # the named set, and a folder


def test_the_identity_of_files_is_the_same_elsewhere(tmp_path, class_folders):
    first = class_folders(tmp_path / "here", ["a", "b"], each=3)
    second = tmp_path / "there" / "deeper"
    shutil.copytree(first, second)
    one, two = (load(folder, memory=0).train for folder in (first, second))
    assert one.identity() == two.identity()
    assert one.fingerprint() != two.fingerprint()
    path = Path(two.path(0))
    path.write_bytes(path.read_bytes() + b"\0")
    assert one.identity() != two.identity()
