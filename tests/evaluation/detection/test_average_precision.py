"""Average precision, against pycocotools."""

import contextlib
import io
import json
import logging
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from amcl.data.coco import load_coco
from amcl.data.coco_masks import run_lengths
from amcl.errors import RunError
from amcl.evaluation.detection.average_precision import (
    Detections,
    average_precision,
    to_coco_results,
)
from coco_sets import random_box, random_table, write_images, write_json

NAMES = ("AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large")
needs_pycocotools = pytest.mark.skipif(
    find_spec("pycocotools") is None, reason="pycocotools is not installed"
)


def load(root, content):
    """Load annotations that are for training and for evaluation, and the second path."""
    write_images(root / "images", content)
    write_json(root / "train.json", content)
    path = write_json(root / "val.json", content)
    return load_coco(root)[1], path


def random_detections(data, seed, most=40, *, masks=True):
    """Detections near objects and elsewhere; scores with ties, boxes of no size, empty images."""
    rng = np.random.default_rng(seed)
    detections = []
    for index in range(len(data)):
        objects = data.objects(index)
        size = data.shape(index)
        count = 0 if rng.random() < 0.15 else int(rng.integers(1, most + 1))
        boxes, labels = [], []
        for _ in range(count):
            if len(objects.labels) and rng.random() < 0.7:
                near = int(rng.integers(len(objects.labels)))
                box = objects.boxes[near].double().numpy() + rng.normal(0, 3, 4)
                box[2:] = np.maximum(box[:2], box[2:])
                label = int(objects.labels[near])
            else:
                x, y, width, height = random_box(rng, size[0])
                box = np.array([x, y, x + width, y + height])
                label = int(rng.integers(len(data.classes)))
            if rng.random() < 0.05:
                box[2] = box[0]
            boxes.append(box)
            labels.append(label)
        found = torch.tensor(np.array(boxes), dtype=torch.float32).reshape(-1, 4)
        pixels = torch.zeros(count, *size, dtype=torch.uint8)
        for mask, (x0, y0, x1, y1) in zip(pixels, found.clamp(min=0).int().tolist(), strict=True):
            mask[y0:y1, x0:x1] = 1
            mask[y1 - 2 :, x0 : x0 + 2] = 0
        scores = torch.from_numpy(rng.random(count).round(1)).float()
        rles = run_lengths(pixels) if masks else None
        detections.append(Detections(found, scores, torch.tensor(labels, dtype=torch.long), rles))
    return detections


def by_pycocotools(root, path, data, detections, kind):
    """The twelve numbers and AP by class of the original, from files."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    results = write_json(root / f"{kind}.json", to_coco_results(data, detections, kind))
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(path))
        evaluation = COCOeval(
            truth, truth.loadRes(str(results)), "bbox" if kind == "box" else "segm"
        )
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision = evaluation.eval["precision"][:, :, :, 0, 2]
    classes = [p[p > -1].mean() if (p > -1).any() else None for p in precision.transpose(2, 0, 1)]
    stats = evaluation.stats
    numbers = dict(zip(NAMES, stats[:6], strict=True)) | {"AR": stats[8]}
    return {f"{kind}_{name}": v for name, v in numbers.items() if v > -1}, classes


@needs_pycocotools
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("seed", range(5))
def test_equal_to_pycocotools(tmp_path, seed):
    content = random_table(seed, images=12, objects=8)
    data, path = load(tmp_path, content)
    # In two cases, some images have more than 100 detections of a class.
    found = random_detections(data, seed, most=400 if seed < 2 else 30)
    result = average_precision(data, found)
    expected, classes = {}, {}
    for kind in ("box", "mask"):
        numbers, classes[kind] = by_pycocotools(tmp_path, path, data, found, kind)
        expected |= numbers
    assert result.metrics == pytest.approx(expected, abs=1e-12)
    assert list(result.metrics) == list(expected)
    assert expected["box_AP"] > 0.02
    assert expected["mask_AP"] > 0.01
    for found_classes, kind in [(result.box_classes, "box"), (result.mask_classes, "mask")]:
        assert list(found_classes) == list(data.classes)
        for value, other in zip(found_classes.values(), classes[kind], strict=True):
            assert value == (None if other is None else pytest.approx(other, abs=1e-12))


@needs_pycocotools
def test_equal_to_pycocotools_on_ties_between_images(tmp_path):
    """Of detections of one score, those of the image with the lowest id come first."""
    content = random_table(0, images=8, objects=3)
    data, path = load(tmp_path, content)
    found = [
        Detections(f.boxes, torch.full_like(f.scores, 0.5), f.labels)
        for f in random_detections(data, 0, most=8, masks=False)
    ]
    expected, _ = by_pycocotools(tmp_path, path, data, found, "box")
    assert average_precision(data, found).metrics == pytest.approx(expected, abs=1e-12)
    order = torch.arange(len(data)).flip(0)
    turned = average_precision(data.subset(order), [found[i] for i in order]).metrics
    assert turned == pytest.approx(expected, abs=1e-12)


def perfect(data):
    """The objects themselves, but for crowds."""
    detections = []
    for index in range(len(data)):
        objects = data.objects(index)
        keep = (~objects.crowd).nonzero()[:, 0]
        masks = None if objects.masks is None else [objects.masks[i] for i in keep]
        boxes, labels = objects.boxes[keep], objects.labels[keep]
        detections.append(Detections(boxes, torch.ones(len(keep)), labels, masks))
    return detections


def empty(masks=True):
    return Detections(
        torch.zeros(0, 4), torch.zeros(0), torch.zeros(0).long(), [] if masks else None
    )


@pytest.fixture
def plain(tmp_path):
    """A set with a small and a large cat, and no other class."""
    content = random_table(0, images=3, objects=1, size=150)
    content["annotations"] = [
        {
            "id": number,
            "image_id": content["images"][number]["id"],
            "category_id": 2,
            "bbox": [10, 10, side, side],
            "area": side**2,
            "iscrowd": 0,
            "segmentation": [[10, 10, 10 + side, 10, 10 + side, 10 + side, 10, 10 + side]],
        }
        for number, side in [(0, 20), (1, 120)]
    ]
    return load(tmp_path, content)[0]


def test_the_objects_themselves_are_perfect(plain):
    result = average_precision(plain, perfect(plain))
    names = ["AP", "AP50", "AP75", "AP_small", "AP_large", "AR"]
    assert result.metrics == {f"{kind}_{n}": 1 for kind in ("box", "mask") for n in names}
    assert result.box_classes == {"cat": 1, "dog": None, "bird": None}
    assert result.mask_classes == result.box_classes


def test_no_detections_are_worth_nothing(plain):
    result = average_precision(plain, [empty()] * 3)
    assert set(result.metrics.values()) == {0}
    assert len(result.metrics) == 12
    assert result.box_classes == {"cat": 0, "dog": None, "bird": None}


def test_detections_without_masks_are_judged_by_their_boxes(plain):
    boxes = [Detections(f.boxes, f.scores, f.labels) for f in perfect(plain)]
    result = average_precision(plain, boxes)
    assert all(name.startswith("box_") for name in result.metrics)
    assert result.mask_classes == {}
    result = average_precision(plain.without_masks(), perfect(plain))
    assert all(name.startswith("box_") for name in result.metrics)


def test_a_set_without_objects_has_no_metrics(tmp_path):
    content = random_table(0, images=3, objects=2)
    data, _ = load(tmp_path, content | {"annotations": []})
    result = average_precision(data, [empty()] * 3)
    assert result.metrics == {}
    assert set(result.box_classes.values()) == {None}


def test_an_object_without_an_area_has_that_of_its_mask(tmp_path):
    content = random_table(1, images=6, objects=5)
    for row in content["annotations"]:
        del row["area"]
    data, _ = load(tmp_path, content)
    assert len(average_precision(data, perfect(data)).metrics) >= 10


def test_nothing_is_printed(plain, capsys, caplog):
    with caplog.at_level(logging.INFO):
        average_precision(plain, perfect(plain))
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


def test_results_in_json(plain):
    found = perfect(plain)
    boxes = json.loads(json.dumps(to_coco_results(plain, found)))
    assert boxes[0] == {
        "image_id": 1000,
        "category_id": 2,
        "score": 1.0,
        "bbox": [10.0, 10.0, 20.0, 20.0],
    }
    masks = json.loads(json.dumps(to_coco_results(plain, found, "mask")))
    counts = found[1].masks[0]["counts"].decode()
    assert masks[1]["segmentation"] == {"size": [150, 150], "counts": counts}
    assert "bbox" not in masks[1]
    with pytest.raises(ValueError, match="no masks: give kind='box'"):
        to_coco_results(plain, [Detections(f.boxes, f.scores, f.labels) for f in found], "mask")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scores": torch.ones(2)}, r"has 2 scores, boxes \(1, 4\), 1 labels and 1 masks"),
        ({"labels": torch.zeros(0).long()}, "1 scores.* 0 labels"),
        ({"masks": []}, "0 masks"),
        ({"boxes": torch.zeros(4)}, r"boxes \(4,\)"),
        ({"labels": torch.tensor([3])}, "labels from 3 to 3: those of the set are 0 to 2"),
        ({"labels": torch.tensor([-1])}, "labels from -1 to -1"),
        ({"scores": torch.tensor([torch.nan])}, "not finite"),
        ({"boxes": torch.tensor([[0, 0, 1, torch.inf]])}, "not finite"),
    ],
)
@pytest.mark.parametrize("function", [average_precision, to_coco_results])
def test_detections_that_do_not_fit(plain, function, values, message):
    found = perfect(plain)
    found[1] = Detections(**(vars(found[1]) | values))
    with pytest.raises(ValueError, match=message):
        function(plain, found)


def test_each_image_has_detections_once(plain):
    with pytest.raises(ValueError, match="2 detections for 3 images"):
        average_precision(plain, perfect(plain)[:2])
    twice = plain.subset([0, 0])
    with pytest.raises(ValueError, match="twice"):
        average_precision(twice, perfect(twice))


def test_the_package_is_named_where_it_is_missing(plain, monkeypatch):
    monkeypatch.setattr("amcl.data.coco_masks.missing", lambda *names: list(names))
    with pytest.raises(RunError, match=r"average precision needs faster-coco-eval.*\[detection\]"):
        average_precision(plain, perfect(plain.without_masks()))
