"""Reading of annotations in COCO's format."""

import gc
import json
import logging
import os
import pickle
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from amcl.data.coco import load_coco
from amcl.data.coco_masks import dense_masks, run_lengths
from amcl.data.decode import UnreadableImage, decode_whole
from amcl.data.records import FileRecord
from amcl.errors import RunError
from coco_sets import HEIGHT, WIDTH, annotation, table, write_images, write_json, write_set

LAYOUTS = {
    "COCO 2017": ("annotations/instances_{split}2017.json", "{split}2017", "val"),
    "COCO 2014": ("annotations/instances_{split}2014.json", "{split}2014", "val"),
    "images/ of splits": ("annotations/instances_{split}2017.json", "images/{split}2017", "val"),
    "Roboflow": ("{split}/_annotations.coco.json", "{split}", "valid"),
    "Roboflow with a test split": ("{split}/_annotations.coco.json", "{split}", "test"),
    "plain": ("{split}.json", "{split}", "val"),
    "plain, annotations/": ("annotations/{split}.json", "{split}", "val"),
    "plain, one images/": ("annotations/{split}.json", "images", "val"),
    "plain, below images/": ("{split}.json", "images/{split}", "validation"),
    "beside the images": ("{split}.json", ".", "val"),
}


def train_set(root):
    return load_coco(root)[0]


def test_objects_of_every_kind(tmp_path):
    data, test = load_coco(write_set(tmp_path))
    assert (len(data), len(test), data.name) == (4, 3, tmp_path.name)
    assert data.classes == ("cat", "dog", "bird")
    assert data.class_ids == (2, 9, 40)
    assert data.has_masks
    assert [data.image_id(i) for i in range(4)] == [1, 11, 21, 31]
    first, crowd, empty, thin = (data.objects(i) for i in range(4))
    assert first.boxes.tolist() == [[1.5, 2.25, 11.5, 10.25], [0, 0, 4, 4], [2, 2, 16, 6]]
    assert first.boxes.dtype == first.areas.dtype == torch.float32
    assert first.labels.tolist() == [0, 2, 1]
    assert first.labels.dtype == torch.int64
    assert crowd.crowd.tolist() == [True, False]
    assert crowd.areas.tolist() == [200, 20.5]
    assert first.areas.tolist() == [
        80,
        16,
        32,
    ]  # the last is that of the mask, as the file has none
    assert empty.boxes.shape == (0, 4)
    assert empty.masks == []
    assert thin.boxes.tolist() == [[7, 7, 7, 12]]


def test_masks_of_every_kind(tmp_path):
    data = train_set(write_set(tmp_path))
    masks = [dense_masks(data.objects(i).masks, data.shape(i)) for i in range(4)]
    two_parts = torch.zeros(HEIGHT, WIDTH, dtype=torch.uint8)
    two_parts[2:6, 2:6] = two_parts[2:6, 12:16] = 1
    assert torch.equal(masks[0][2], two_parts)
    corner = torch.zeros(HEIGHT, WIDTH, dtype=torch.uint8)
    corner[:4, :4] = 1
    assert torch.equal(masks[0][1], corner)  # compressed
    assert masks[1][0].sum(0).tolist() == [0] * 20 + [HEIGHT] * 10  # not compressed
    assert masks[2].shape == (0, HEIGHT, WIDTH)
    assert not masks[3].any()  # two points have no pixels


def test_masks_are_those_of_pycocotools(tmp_path):
    mask = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(0)
    content = table(images=1)
    rings = [
        [(rng.uniform(-5, 35, 2 * n)).round(int(n) % 3).tolist() for n in rng.integers(3, 9, count)]
        for count in rng.integers(1, 4, 50)
    ]
    content["annotations"] = [
        annotation(n, 1, 2, [0, 0, 1, 1], segmentation=r) for n, r in enumerate(rings, 1)
    ]
    masks = train_set(write_set(tmp_path, content)).objects(0).masks
    for ring, found in zip(rings, masks, strict=True):
        expected = mask.merge(mask.frPyObjects(ring, HEIGHT, WIDTH))
        assert found["counts"] == expected["counts"]


@pytest.mark.parametrize("seed", range(4))
def test_run_lengths_come_back_from_a_file(tmp_path, seed):
    drawn = (
        torch.rand(12, HEIGHT, WIDTH, generator=torch.manual_seed(seed))
        < [0.01, 0.5, 0.9][seed % 3]
    )
    drawn[0] = False
    drawn[1] = True
    content = table(images=1)
    rles = run_lengths(drawn)
    content["annotations"] = [
        annotation(n, 1, 2, [0, 0, 1, 1], segmentation=r | {"counts": r["counts"].decode()})
        for n, r in enumerate(rles, 1)
    ]
    objects = train_set(write_set(tmp_path, content)).objects(0)
    assert objects.masks == rles
    assert torch.equal(dense_masks(objects.masks, (HEIGHT, WIDTH)), drawn.to(torch.uint8))


def test_dense_masks_must_fit():
    with pytest.raises(ValueError, match=r"\[2, 3\] does not fit .* \[3, 2\]"):
        dense_masks([{"size": [2, 3], "counts": b"132"}], (3, 2))


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(tmp_path, name):
    layout, images, test_split = LAYOUTS[name]
    train, test = load_coco(
        write_set(tmp_path, layout=layout, images=images, test_split=test_split)
    )
    assert (len(train), len(test)) == (4, 3)
    assert train.read(1)[0].unique().tolist() == [11]
    assert test.read(0)[0].unique().tolist() == [5]


def test_a_folder_of_other_images_is_passed_over(tmp_path):
    write_set(tmp_path, images="images/{split}2017")
    write_images(tmp_path / "train2017", table(first=2))
    assert train_set(tmp_path).path(0) == str(tmp_path / "images/train2017/001.png")


def test_files_by_option(tmp_path):
    train = write_json(tmp_path / "a/few.json", table())
    test = write_json(tmp_path / "b/others.json", table(first=5))
    write_images(tmp_path / "pictures", table())
    write_images(tmp_path / "more", table(first=5))
    data, others = load_coco(
        None,
        train_annotations=train,
        train_images=tmp_path / "pictures",
        test_annotations=str(test),
        test_images=str(tmp_path / "more"),
    )
    assert data.name == "few"
    assert os.path.dirname(data.path(0)) == str(tmp_path / "pictures")
    assert os.path.dirname(others.path(0)) == str(tmp_path / "more")


def test_an_option_goes_before_the_folder(tmp_path):
    root = write_set(tmp_path)
    few = write_json(tmp_path / "few.json", table(images=2))
    train, test = load_coco(root, train_annotations=few, train_images=root / "train2017")
    assert (len(train), len(test)) == (2, 3)
    train, test = load_coco(root, test_annotations=few, test_images=root / "train2017")
    assert (len(train), len(test)) == (4, 2)


def test_without_annotations_to_evaluate_on_images_are_held_out(tmp_path, caplog):
    content = table(images=25)
    write_json(tmp_path / "result.json", content)
    write_images(tmp_path / "images", content)
    ids = set()
    for seed in (0, 0, 1):
        with caplog.at_level(logging.INFO, "amcl"):
            train, test = load_coco(tmp_path, seed=seed)
        held_out = tuple(test.image_id(i) for i in range(len(test)))
        assert (len(train), len(held_out)) == (23, 2)
        assert not {train.image_id(i) for i in range(23)} & set(held_out)
        ids.add(held_out)
    assert len(ids) == 2
    assert "a tenth of its images is held out (2 images)" in caplog.text
    chosen = [load_coco(tmp_path, seed=seed, subset=5)[0] for seed in (0, 1)]
    assert [chosen[0].image_id(i) for i in range(5)] == [chosen[1].image_id(i) for i in range(5)]


def test_one_image_cannot_be_divided(tmp_path):
    write_json(tmp_path / "train.json", table(images=1))
    write_images(tmp_path / "train", table(images=1))
    with pytest.raises(ValueError, match=r"only image.*--test-annotations"):
        load_coco(tmp_path)


def test_subset_to_train_on(tmp_path):
    write_set(tmp_path)
    train, test = load_coco(tmp_path, subset=2)
    assert (len(train), len(test)) == (2, 3)
    again = load_coco(tmp_path, subset=2, seed=5)[0]
    assert [train.path(i) for i in range(2)] == [again.path(i) for i in range(2)]
    with pytest.raises(ValueError, match=r"subset=5 .* 4 images"):
        load_coco(tmp_path, subset=5)
    with pytest.raises(ValueError, match="subset must be a whole number, at least 1"):
        load_coco(tmp_path, subset=0)


def test_subsets_keep_their_objects(tmp_path):
    data = train_set(write_set(tmp_path))
    part = data.subset(torch.tensor([3, 0])).subset([1])
    assert part.image_id(0) == 1
    assert part.path(0) == data.path(0)
    assert part.objects(0).labels.tolist() == [0, 2, 1]
    assert part.without_masks().subset([0]).objects(0).masks is None
    copied = pickle.loads(pickle.dumps(part))
    assert copied.objects(0).masks == data.objects(0).masks
    assert torch.equal(copied.read(0), data.read(0))


def test_the_fingerprint_is_of_everything(tmp_path):
    prints = [train_set(write_set(tmp_path / name)).fingerprint() for name in "ab"]
    assert prints.pop() == prints[0]
    for name, values in [
        ("annotations", {"bbox": [1.5, 2.25, 10, 8.01]}),
        ("annotations", {"area": 80.1}),
        ("annotations", {"iscrowd": 1}),
        ("annotations", {"category_id": 9}),
        ("annotations", {"segmentation": [[0, 0, 1, 0, 1, 1.5]]}),
        ("images", {"file_name": "other.png"}),
        ("images", {"height": 40}),
        ("categories", {"name": "lynx"}),
    ]:
        content = table()
        content["annotations"][0]["segmentation"] = [[0, 0, 9, 0, 9, 9]]  # fits any size
        content[name][1] |= values
        root = write_set(tmp_path / f"{len(prints)}", content, content)
        prints.append(train_set(root).fingerprint())
    data = train_set(tmp_path / "a")
    prints += [data.subset([0, 1]).fingerprint(), data.subset([1, 0]).fingerprint()]
    prints.append(data.without_masks().fingerprint())
    assert len(set(prints)) == len(prints)


def boxes_only(content):
    for row in content["annotations"]:
        row.pop("segmentation")
        row["area"] = row.get("area")
    return content


def test_boxes_only(tmp_path, caplog):
    data = write_set(tmp_path, boxes_only(table()), boxes_only(table(first=5, images=3)))
    with caplog.at_level(logging.INFO, "amcl"):
        train, test = load_coco(data)
    assert not train.has_masks
    assert not test.has_masks
    assert train.objects(0).masks is None
    assert train.objects(0).areas.tolist() == [80, 16, 56]  # the last is that of the box
    assert not caplog.records


def test_some_objects_without_a_mask(tmp_path, caplog):
    content = table()
    content["annotations"][1]["segmentation"] = []
    with caplog.at_level(logging.WARNING, "amcl"):
        train, test = load_coco(write_set(tmp_path, content))
    assert not train.has_masks
    assert not test.has_masks  # one network is for both
    assert "1 of 6 objects have no mask" in caplog.text
    content = table()
    content["annotations"][0]["segmentation"] = []  # a crowd
    assert train_set(write_set(tmp_path / "crowd", content)).has_masks


def test_a_split_without_objects_has_no_say_on_masks(tmp_path):
    empty = table(first=5, images=3) | {"annotations": []}
    train, test = load_coco(write_set(tmp_path, test=empty))
    assert train.has_masks
    assert test.has_masks


def test_classes_are_those_to_train_on(tmp_path):
    others = table(first=5, images=3)
    others["categories"] = [row for row in others["categories"] if row["name"] != "cat"]
    others["annotations"] = [annotation(1, 5, 40, [0, 0, 1, 1]), annotation(2, 5, 9, [0, 0, 1, 1])]
    train, test = load_coco(write_set(tmp_path / "fewer", test=others))
    assert test.classes == train.classes
    assert test.objects(0).labels.tolist() == [2, 1]
    others["categories"][0]["name"] = "wolf"
    with pytest.raises(ValueError, match=r"1 of 2 categories .* wolf \(id 9\)"):
        load_coco(write_set(tmp_path / "other", test=others))


def test_categories_that_are_kept(tmp_path):
    root = write_set(tmp_path)
    everything, _ = load_coco(root)
    train, test = load_coco(root, categories=("dog", "cat"))
    assert train.classes == test.classes == ("cat", "dog")  # in the order of the file
    assert train.class_ids == (2, 9)
    assert len(train) == len(everything)  # images without them stay
    for index in range(len(train)):
        before, after = everything.objects(index), train.objects(index)
        kept = [i for i, k in enumerate(before.labels) if everything.classes[k] != "bird"]
        assert torch.equal(after.boxes, before.boxes[kept])
        assert torch.equal(after.areas, before.areas[kept])
        assert torch.equal(after.crowd, before.crowd[kept])
        assert after.masks == [before.masks[i] for i in kept]
        names = [train.classes[k] for k in after.labels]
        assert names == [everything.classes[before.labels[i]] for i in kept]
    assert sum(len(train.objects(i).labels) for i in range(len(train))) > 0
    assert train.fingerprint() != everything.fingerprint()
    [bird], _ = (part.classes for part in load_coco(root, categories=["bird"]))
    assert bird == "bird"


def test_categories_that_are_not_there(tmp_path):
    root = write_set(tmp_path)
    with pytest.raises(
        ValueError, match=r"--categories 'dgo': .* did you mean dog\? They have cat"
    ):
        load_coco(root, categories=("cat", "dgo"))
    content = table()
    content["categories"].append({"id": 77, "name": "unicorn"})
    root = write_set(tmp_path / "rare", content, content)
    with pytest.raises(
        ValueError, match=r"'unicorn': none of the .* training images has an object"
    ):
        load_coco(root, categories=("unicorn",))


def test_two_classes_of_one_name_stay_apart(tmp_path):
    content = table()
    content["categories"][0]["name"] = "cat"  # as exports of Roboflow have it
    data, _ = load_coco(write_set(tmp_path, content, content))
    assert data.classes == ("cat (category 2)", "cat (category 9)", "bird")


def damaged(name, index, /, **values):
    content = table()
    content[name][index] |= values
    return content


def without(name, index, key):
    content = table()
    del content[name][index][key]
    return content


def square(side):
    return [0, 0, side, 0, side, side, 0, side]


def rle(height=HEIGHT, width=WIDTH, counts=None):
    counts = [height * width] if counts is None else counts
    return {"size": [height, width], "counts": counts}


def doubled(name):
    content = table()
    content[name].append(content[name][0])
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "is not in COCO's format: it is a list"),
        ({"images": [], "categories": []}, "it has no annotations"),
        ({"categories": [], "annotations": []}, "it has no images"),
        ({"images": [], "annotations": []}, "it has no categories"),
        (table() | {"images": {}}, r"images is \{\}"),
        (table() | {"images": []}, "has no images"),
        (table() | {"categories": []}, "has no categories"),
        (table() | {"annotations": [3]}, "annotation number 1 in the file is 3"),
        (table() | {"images": [3]}, "image number 1 in the file is 3"),
        (damaged("images", 0, id="1"), "id of image number 1 in the file is '1'"),
        (damaged("images", 0, id=1 << 70), "more than 64 bits"),
        (without("images", 0, "width"), "width of image 1 is missing"),
        (damaged("images", 0, width=True), "width of image 1 is True"),
        (damaged("images", 0, width=0), "0 × 20 pixels"),
        (damaged("images", 0, width=60_000, height=60_000), "160 megapixels"),
        (damaged("images", 0, file_name="../001.png"), "must be a path below"),
        (damaged("images", 0, file_name="a/../../001.png"), "must be a path below"),
        (damaged("images", 0, file_name="/etc/passwd"), "must be a path below"),
        (damaged("images", 0, file_name="a\0b"), "must be a path below"),
        (damaged("images", 0, file_name=""), "must be a path below"),
        (doubled("images"), "two images have one id, 1"),
        (damaged("categories", 0, name=" "), "category 9 has no name"),
        (without("categories", 0, "name"), "category 9 has no name"),
        (damaged("categories", 1, id=9), "'dog' and 'cat' have one id, 9"),
        (damaged("annotations", 1, image_id=7), "annotation 2 is of the image 7, which"),
        (damaged("annotations", 1, category_id=1), "annotation 2 is of the category 1, which"),
        (without("annotations", 1, "bbox"), "bbox of annotation 2 is missing"),
        (damaged("annotations", 1, bbox=[1, 2, 3]), r"instead of \[x, y, width, height\]"),
        (damaged("annotations", 1, bbox=[1, 2, 3, "4"]), "has '4' for a number"),
        (damaged("annotations", 1, bbox=[1, 2, 3, -0.5]), "cannot be negative"),
        (damaged("annotations", 1, bbox=[1, 2, 3, 1e30]), "beyond any image"),
        (damaged("annotations", 1, bbox=[1, 2, 3, float("nan")]), "no JSON .*NaN"),
        (damaged("annotations", 1, area=-1), "area of annotation 2 is negative"),
        (damaged("annotations", 1, area="1"), "area of annotation 2 has '1'"),
        (damaged("annotations", 1, iscrowd=2), "iscrowd of annotation 2 is 2"),
        (damaged("annotations", 1, segmentation="x"), "'x' instead of polygons or an RLE"),
        (damaged("annotations", 1, segmentation=[[0, 1, 2, 3, 4]]), "instead of a polygon"),
        (damaged("annotations", 1, segmentation=[0, 1, 2, 3, 4, 5]), "0 instead of a polygon"),
        (damaged("annotations", 1, segmentation=[[0, 1, 2, 3, 4, "5"]]), "else than numbers"),
        (damaged("annotations", 1, segmentation=[[0, 1, 2, 3, 4, 1e7]]), "coordinate 1e.07"),
        (damaged("annotations", 1, segmentation=[[-1e6, 0, 1e6, 1] * 9]), "outline of"),
        (damaged("annotations", 1, segmentation=[square(50)]), "a polygon, is 50 × 50 .* 30 × 20"),
        (damaged("annotations", 1, segmentation=rle(40, 30)), "30 × 40 pixels .* 30 × 20"),
        (damaged("annotations", 1, segmentation=rle(counts=[5, 6])), "add up to 11 instead of 600"),
        (damaged("annotations", 1, segmentation=rle(counts=[-1, 601])), "whole numbers from 0"),
        (damaged("annotations", 1, segmentation=rle(counts="04")), "add up to 4 instead of 600"),
        (damaged("annotations", 1, segmentation=rle(counts="P")), "no compressed RLE"),
        (damaged("annotations", 1, segmentation=rle(counts="é")), "no compressed RLE"),
        (damaged("annotations", 1, segmentation=rle(counts="")), "no compressed RLE"),
        (damaged("annotations", 1, segmentation=rle(counts="ooooooooo0")), "no compressed RLE"),
        (  # 600 with more digits than C shifts by
            damaged("annotations", 1, segmentation=rle(counts=f"hb{'P' * 20}0")),
            "no compressed RLE",
        ),
        (damaged("annotations", 1, segmentation={"size": 3}), "the size of its mask is 3"),
        (damaged("annotations", 1, segmentation={"size": [20, 30]}), "counts of its mask are None"),
    ],
)
def test_what_is_not_in_the_format(tmp_path, content, message):
    write_images(tmp_path / "images", table())
    path = write_json(tmp_path / "train.json", content)
    with pytest.raises(ValueError, match=message) as error:
        load_coco(tmp_path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe{", "is no JSON"),
        ('{"images": 1e999999', "is no JSON"),
    ],
)
def test_what_is_no_json(tmp_path, text, message):
    (tmp_path / "train.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        load_coco(tmp_path)


def test_garbage_is_collected_again(tmp_path, monkeypatch):
    enabled = []
    loads = json.loads
    monkeypatch.setattr(
        json, "loads", lambda *a, **k: enabled.append(gc.isenabled()) or loads(*a, **k)
    )
    write_set(tmp_path)
    train_set(tmp_path)
    assert enabled == [False, False]
    assert gc.isenabled()
    (tmp_path / "annotations/instances_val2017.json").write_text("{")
    with pytest.raises(ValueError, match="is no JSON"):
        load_coco(tmp_path)
    assert gc.isenabled()


def test_infinite_boxes(tmp_path):
    text = json.dumps(table()).replace("2.25", "1e999")
    write_json(tmp_path / "train.json", table()).write_text(text)
    write_images(tmp_path / "train", table())
    with pytest.raises(ValueError, match="bbox of annotation 2 has a number that is not finite"):
        load_coco(tmp_path)


def test_absent_images_are_counted_and_listed_up_to_ten(tmp_path):
    content = table(images=25)
    write_set(tmp_path, content)
    for number in range(0, 24, 2):
        (tmp_path / "train2017" / f"{1 + 10 * number:03}.png").unlink()
    with pytest.raises(FileNotFoundError) as error:
        load_coco(tmp_path)
    message = str(error.value)
    assert "12 images of 25" in message
    assert message.count(".png'") == 10
    assert "and 2 more" in message
    assert "--train-images" in message
    (tmp_path / "val2017/015.png").unlink()
    write_images(tmp_path / "train2017", content)
    with pytest.raises(
        FileNotFoundError, match=r"1 image of 3 .* is not in .*'015.png'\. .*--test-images"
    ):
        load_coco(tmp_path)


def test_images_in_folders_below(tmp_path):
    content = table()
    for number, row in enumerate(content["images"]):
        row["file_name"] = f"./{number % 2}/{row['file_name']}"
    data = train_set(write_set(tmp_path, content))
    assert data.read(3)[0].unique().tolist() == [31]
    (tmp_path / "train2017/1/031.png").unlink()
    with pytest.raises(FileNotFoundError, match="1 image of 4"):
        load_coco(tmp_path)


def test_what_is_missing(tmp_path):
    nowhere = tmp_path / "nowhere"
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere"):
        load_coco(nowhere)
    with pytest.raises(FileNotFoundError, match=r"looked for annotations.*--train-annotations"):
        load_coco(tmp_path)
    with pytest.raises(ValueError, match="--train-annotations"):
        load_coco(None)
    file = write_json(tmp_path / "a.json", table())
    with pytest.raises(ValueError, match=r"is a file.*--train-annotations"):
        load_coco(file)
    with pytest.raises(FileNotFoundError, match=r"--train-annotations .*nowhere.*no such file"):
        load_coco(tmp_path, train_annotations=nowhere)
    with pytest.raises(FileNotFoundError, match=r"--test-annotations .*nowhere.*no such file"):
        load_coco(tmp_path, test_annotations=nowhere)
    with pytest.raises(FileNotFoundError, match=r"--train-images .*nowhere.*no such folder"):
        load_coco(None, train_annotations=file, train_images=nowhere)
    write_images(tmp_path, table())
    with pytest.raises(ValueError, match=r"--test-images .*--test-annotations"):
        load_coco(tmp_path, test_images=tmp_path)
    write_json(tmp_path / "b.json", table())
    with pytest.raises(FileNotFoundError, match=r"there is a\.json, b\.json"):
        load_coco(tmp_path)
    write_json(tmp_path / "val.json", table())
    with pytest.raises(FileNotFoundError, match=r"val\.json to evaluate on, and none to train on"):
        load_coco(tmp_path)


def test_without_the_package_masks_are_an_error(tmp_path, monkeypatch):
    train = boxes_only(table())
    write_set(tmp_path / "boxes", train, boxes_only(table(first=5, images=3)))
    write_set(tmp_path / "masks")
    monkeypatch.setattr("amcl.data.coco_masks.missing", lambda *names: list(names))
    monkeypatch.setitem(sys.modules, "faster_coco_eval", None)
    assert len(train_set(tmp_path / "boxes").objects(0).labels) == 3
    with pytest.raises(RunError, match=r"faster-coco-eval.*\[detection\]"):
        load_coco(tmp_path / "masks")


def test_pixels_are_decoded_whole(tmp_path, picture):
    path = picture(tmp_path / "a.png", width=70, height=31)
    pixels = decode_whole(FileRecord(str(path)), (31, 70))
    assert torch.equal(pixels.permute(1, 2, 0), torch.from_numpy(np.array(Image.open(path))))
    with pytest.raises(UnreadableImage, match=r"70 × 31 pixels instead of 31 × 70"):
        decode_whole(FileRecord(str(path)), (70, 31))
    with pytest.raises(UnreadableImage, match="folder"):
        decode_whole(FileRecord(str(tmp_path)), (31, 70))


def test_limits_hold_for_whole_images(tmp_path, monkeypatch, picture):
    path = picture(tmp_path / "a.png", width=70, height=31)
    monkeypatch.setattr("amcl.data.decoding.limits.MAX_SIDE", 69)
    with pytest.raises(UnreadableImage, match="limit of 69 a side"):
        decode_whole(FileRecord(str(path)), (31, 70))


def test_boxes_are_of_the_upright_image_or_of_the_stored_one(tmp_path, picture):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    path = str(picture(tmp_path / "a.png", width=40, height=20, exif=exif))
    stored = torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)
    assert torch.equal(decode_whole(FileRecord(path), (20, 40)), stored)
    assert torch.equal(decode_whole(FileRecord(path), (40, 20)), stored.rot90(-1, (1, 2)))
    with pytest.raises(UnreadableImage, match=r"20 × 40 pixels instead of 40 × 40"):
        decode_whole(FileRecord(path), (40, 40))
    exif[0x0112] = 3
    path = str(picture(tmp_path / "b.png", width=40, height=20, exif=exif))
    assert torch.equal(decode_whole(FileRecord(path), (20, 40)), stored.rot90(2, (1, 2)))


def test_a_file_of_another_size_is_unreadable(tmp_path):
    data = train_set(write_set(tmp_path))
    Image.new("RGB", (WIDTH, HEIGHT + 1)).save(data.path(2))
    with pytest.raises(UnreadableImage, match=r"021\.png: 30 × 21 pixels instead of 30 × 20"):
        data.read(2)
