"""The built-in set of shapes."""

import numpy as np
import pytest
import torch

from amcl.data import shapes as module
from amcl.data.coco import load_coco
from amcl.data.coco_masks import dense_masks
from amcl.data.shapes import builtin_shapes, shapes


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return load_coco(shapes(tmp_path_factory.mktemp("sets") / "shapes", train=48, test=16))


@pytest.fixture
def few(monkeypatch, tmp_path):
    monkeypatch.setenv("AMCL_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(module, "_TRAIN", 3)
    monkeypatch.setattr(module, "_TEST", 2)
    monkeypatch.setattr(shapes, "__kwdefaults__", shapes.__kwdefaults__ | {"train": 3, "test": 2})


def all_objects(data):
    return [(data.shape(i), data.objects(i)) for i in range(len(data))]


def test_boxes_are_around_the_masks(drawn):
    kinds = set()
    for data in drawn:
        for size, objects in all_objects(data):
            masks = dense_masks(objects.masks, size)
            for mask, box, area in zip(masks, objects.boxes, objects.areas, strict=True):
                rows, columns = mask.nonzero().T
                found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
                # Polygons are filled by another rule than pictures: to within a pixel.
                assert (torch.stack(found) - box).abs().max() <= 1
                assert abs(int(mask.sum()) - area) <= max(8, 0.15 * area)
                kinds.add(bool(int(mask.sum()) == area))
    assert len(kinds) == 2


def test_masks_are_where_the_shapes_are(drawn):
    """A shape differs in color from what is around it, more often than not clearly."""
    differences = []
    for index in range(len(drawn[0])):
        pixels = drawn[0].read(index).float()
        objects = drawn[0].objects(index)
        masks = dense_masks(objects.masks, drawn[0].shape(index)).bool()
        background = pixels[:, ~masks.any(0)].mean(1)
        differences += [(pixels[:, m].mean(1) - background).abs().max() for m in masks]
    assert torch.stack(differences).median() > 40


def test_hidden_parts_are_no_part_of_a_mask(drawn):
    overlaps = 0
    for size, objects in all_objects(drawn[0]):
        masks = dense_masks(objects.masks, size)
        assert (masks.sum(0) > 1).sum() <= 0.03 * masks.sum()  # borders that polygons share
        boxes = objects.boxes
        for i, j in torch.triu_indices(len(boxes), len(boxes), 1).T:
            corner = torch.minimum(boxes[i, 2:], boxes[j, 2:]) - torch.maximum(
                boxes[i, :2], boxes[j, :2]
            )
            overlaps += bool((corner > 2).all())
    assert overlaps > 5


def test_pictures_differ_in_size_number_and_class(drawn):
    sizes = [size for size, _ in all_objects(drawn[0])]
    assert {side for size in sizes for side in size} <= set(range(96, 129))
    assert len(set(sizes)) > 20
    counts = [len(objects.labels) for _, objects in all_objects(drawn[0])]
    assert counts.count(0) == 3
    assert max(counts) >= 5
    labels = torch.cat([objects.labels for _, objects in all_objects(drawn[0])])
    assert labels.bincount(minlength=3).min() > 20
    areas = torch.cat([objects.areas for _, objects in all_objects(drawn[0])])
    assert (areas < 400).any()
    assert (areas > 1024).any()


def test_color_tells_nothing_of_the_class(tmp_path):
    train, _ = load_coco(shapes(tmp_path / "shapes", train=150, test=1))
    colors, labels = [], []
    for index in range(len(train)):
        objects = train.objects(index)
        masks = dense_masks(objects.masks, train.shape(index)).bool()
        pixels = train.read(index).float()
        colors += [pixels[:, mask].mean(1) for mask in masks]
        labels += objects.labels.tolist()
    of_class = [torch.stack(colors)[torch.tensor(labels) == k].mean(0) for k in range(3)]
    spread = torch.stack(colors).std(0).max()
    assert (torch.stack(of_class).std(0) < 0.25 * spread).all()


def files(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_the_same_seed_draws_the_same_pictures(tmp_path):
    first, again, longer, other = (
        files(shapes(tmp_path / name, train=count, test=2, seed=seed))
        for name, count, seed in [("a", 3, 0), ("b", 3, 0), ("c", 5, 0), ("d", 3, 1)]
    )
    assert first == again
    picture = "train2017/000002.jpg"
    assert first[picture] == longer[picture] != other[picture]
    assert first[picture] != first["val2017/000001.jpg"]


def test_a_folder_that_exists_is_left_alone(tmp_path):
    with pytest.raises(FileExistsError, match="give a folder that does not"):
        shapes(tmp_path)


def test_the_built_in_set_is_drawn_once(few, monkeypatch, tmp_path):
    train, test = load_coco("builtin")
    assert (train.name, len(train), len(test)) == ("builtin", 3, 2)
    assert train.path(0).startswith(str(tmp_path / "data"))
    monkeypatch.setattr(module, "shapes", lambda folder: pytest.fail("was drawn again"))
    assert load_coco("builtin")[1].fingerprint() == test.fingerprint()


def test_a_built_in_set_that_lost_files_is_drawn_again(few):
    folder = builtin_shapes()
    whole = files(folder)
    (folder / "val2017/000001.jpg").unlink()
    assert files(builtin_shapes()) == whole
    (folder / "annotations/instances_train2017.json").unlink()
    assert files(builtin_shapes()) == whole


def test_an_error_leaves_no_folder(few, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "write_text", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        builtin_shapes()
    assert not list((tmp_path / "data").iterdir())


def test_another_process_may_be_faster(few, monkeypatch, tmp_path):
    write = module.write_text

    def write_and_be_late(path, text):
        write(path, text)
        other = tmp_path / "data" / f"shapes-{module.VERSION}"
        other.mkdir(exist_ok=True)
        (other / "file").touch()

    monkeypatch.setattr(module, "write_text", write_and_be_late)
    assert (builtin_shapes() / "file").exists()


def test_run_lengths_begin_with_zeros():
    mask = np.zeros((2, 3), dtype=np.bool_)
    assert module._runs(mask)["counts"] == [6]
    mask[0, 0] = True
    assert module._runs(mask)["counts"] == [0, 1, 5]
