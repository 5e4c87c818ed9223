"""Splits of a folder, whatever they are called and wherever they lie."""

import pytest

from amcl.data import has_test_split, load_all_images, load_dataset, validation_source


def load(root, **settings):
    return load_dataset(str(root), **{"workers": 0, **settings})


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("Train", "Test"),
        ("TRAINING", "TESTING"),
        ("training", "test"),
        ("images/train", "images/test"),
        ("images/Training", "images/Testing"),
    ],
)
def test_any_spelling_of_train_and_test(tmp_path, class_folders, train, test):
    class_folders(tmp_path / train, ["a", "b"], each=10)
    class_folders(tmp_path / test, ["a", "b"], each=3, first=100)
    (tmp_path / "labels" / "train").mkdir(parents=True)  # as beside images/ for detection
    images = load(tmp_path)
    assert (len(images.train), len(images.probe.queries.labels)) == (18, 2)  # a tenth of train
    assert f"{train}/: 20 images taken for training; {test}/: 6 images kept for evaluation" in (
        images.describe()
    )
    assert images.warnings == ()
    assert has_test_split(str(tmp_path))
    judged = load(tmp_path, probe="test").probe
    assert (len(judged.bank.labels), len(judged.queries.labels)) == (20, 6)
    # To embed a folder is to embed all of it.
    names = load_all_images(str(tmp_path), image_size=32).names
    assert len(names) == 26
    assert f"{test}/a/000.png" in names


def test_train_alone_is_a_split(tmp_path, class_folders):
    class_folders(tmp_path / "train", ["a", "b"], each=10)
    images = load(tmp_path)
    assert images.probe.classes == ("a", "b")
    assert len(images.train) == 18
    assert "train/: 20 images taken for training" in images.describe()
    assert not has_test_split(str(tmp_path))


def test_a_class_called_train(tmp_path, class_folders):
    images = load(class_folders(tmp_path, ["bus", "car", "train"], each=10))
    assert images.probe.classes == ("bus", "car", "train")
    (warning,) = images.warnings
    assert warning.startswith("train/ is taken as a class, not as a split")


def test_a_test_folder_without_train_is_never_trained_on(tmp_path, class_folders):
    class_folders(tmp_path, ["a", "b"], each=10)
    class_folders(tmp_path / "Test", ["a", "b"], each=4, first=50)
    class_folders(tmp_path / "a" / "val", ["c"], each=1, first=90)
    images = load(tmp_path)
    assert len(images.train) + len(images.probe.queries.labels) == 20
    assert [warning.split(" looks like a ")[0] for warning in images.warnings] == [
        "a/val/",
        "Test/",
    ]
    assert "Test/ looks like a test split and is not trained on" in images.warnings[1]
    assert not has_test_split(str(tmp_path))
    # Whoever names it, or says that folders are classes, trains on it.
    assert len(load(tmp_path / "Test", validation=0).train) == 8
    images = load(tmp_path, labels="folders", validation=0)
    assert (len(images.train), images.warnings) == (29, ())


def test_nothing_but_a_test_folder(tmp_path, class_folders):
    class_folders(tmp_path / "test", ["a", "b"], each=2)
    with pytest.raises(ValueError, match=r"no images but those in test/.*use --data .*/test to"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["train2", "test_old", "val-2017", "testset", "eval.1"])
def test_what_looks_like_a_split_is_named(tmp_path, class_folders, name):
    class_folders(tmp_path, ["a", name], each=5)
    (warning,) = load(tmp_path).warnings
    assert warning.startswith(f"{name}/ looks like a split, but")
    assert "it is trained on" in warning
    class_folders(tmp_path / "train", ["a", "b"], each=5)
    class_folders(tmp_path / "test", ["a", "b"], each=5)
    images = load(tmp_path, probe="none")
    assert len(images.train) == 10
    assert any(f"{name}/" in w and "it is not used" in w for w in images.warnings)


@pytest.mark.parametrize("name", ["trainer", "testudo", "valley", "devil", "contest"])
def test_names_that_only_begin_alike(tmp_path, class_folders, name):
    assert load(class_folders(tmp_path, ["a", name], each=5)).warnings == ()


def test_a_second_spelling_is_not_used(tmp_path, class_folders):
    for split in ("train", "val", "validation"):
        class_folders(tmp_path / split, ["a", "b"], each=3)
    images = load(tmp_path)
    assert images.warnings == ("validation/ is not used: another folder is taken for that split.",)
    assert len(images.probe.queries.labels) == 6
    assert validation_source(str(tmp_path)) == "split"


def test_splits_inside_of_each_class(tmp_path, class_folders, picture):
    for number, name in enumerate(["cat", "dog"]):
        for index in range(10):
            picture(tmp_path / name / "train" / f"{index}.png", seed=20 * number + index)
        picture(tmp_path / name / "test" / "0.png", seed=50 + number)
    images = load(tmp_path, probe="test")
    assert images.probe.classes == ("cat", "dog")
    assert (len(images.train), images.probe.queries.labels.tolist()) == (20, [0, 1])


def test_an_empty_split_is_none(tmp_path, class_folders):
    class_folders(tmp_path / "train", ["a", "b"], each=10)
    (tmp_path / "test").mkdir()
    (tmp_path / "val").mkdir()
    assert len(load(tmp_path).probe.queries.labels) == 2
    with pytest.raises(ValueError, match=r"/test\b.*probe='validation'"):
        load(tmp_path, probe="test")


def test_links_do_not_lead_to_the_test_split(tmp_path, class_folders):
    class_folders(tmp_path / "train", ["a", "b"], each=5)
    class_folders(tmp_path / "test", ["a", "b"], each=2, first=50)
    (tmp_path / "train" / "a" / "more").symlink_to(tmp_path / "test")
    (tmp_path / "val").symlink_to(tmp_path / "test")
    images = load(tmp_path)
    assert (len(images.train), len(images.probe.queries.labels)) == (10, 4)
    (warning,) = images.warnings
    assert "train/a/more was not followed" in warning


@pytest.mark.parametrize("target", ["..", "../..", "/"])
def test_links_that_lead_upwards(tmp_path, class_folders, picture, target):
    root = tmp_path / "data" / "mine"
    class_folders(root, ["a", "b"], each=5)
    picture(tmp_path / "data" / "train" / "other.png")
    picture(tmp_path / "data" / "test" / "other.png")
    (root / "loop").symlink_to(target)
    (root / "here").symlink_to(".")
    images = load(root, validation=0)
    assert len(images.train) == 10
    (warning,) = images.warnings
    assert f"The link {root / 'loop'} was not followed" in warning
    assert len(load_all_images(str(root), image_size=32).names) == 10
    assert len(load(root / ".." / "mine", validation=0).train) == 10
    # Also where the folder itself is reached through a link.
    (tmp_path / "link").symlink_to(root)
    assert len(load(tmp_path / "link", validation=0).train) == 10


def test_one_class(tmp_path, class_folders):
    text = load(class_folders(tmp_path, ["dog"], each=5)).describe()
    assert "there is one class, dog/, and accuracies need two" in text
    assert "<class>/<file>" not in text


def test_the_smallest_and_largest_class_are_told_where_they_differ(tmp_path, class_folders):
    class_folders(tmp_path, ["a"], each=22)
    class_folders(tmp_path, ["b"], each=2, first=50)
    assert "classes differ in size: a has 22 images, b has 2" in load(tmp_path).describe()
    class_folders(tmp_path, ["b"], each=3, first=50)
    assert "differ in size" not in load(tmp_path).describe()
