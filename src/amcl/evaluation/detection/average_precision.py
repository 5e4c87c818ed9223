"""Average precision of boxes and masks, as COCO defines it."""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from amcl.data.coco import CocoSet
from amcl.data.coco_masks import Rle, mask_areas, require_coco_evaluator

Kind = Literal["box", "mask"]

MOST = 100
"""Detections of a class in an image that count: those of the highest scores."""

_SIZES = ("", "_small", "_medium", "_large")  # the areas that COCO tells apart, the first all
_THRESHOLDS = {"": slice(None), "50": slice(0, 1), "75": slice(5, 6)}  # of 0.50, 0.55, …, 0.95


@dataclass(frozen=True, eq=False)
class Detections:
    """Objects that a detector sees in one image.

    Args:
        boxes: Left, top, right and bottom in pixels of the image as its file has it (n, 4).
        scores: Confidence (n,).
        labels: Indices of the classes of the set (n,).
        masks: Run lengths of each mask; None for boxes only.
    """

    boxes: Tensor
    scores: Tensor
    labels: Tensor
    masks: list[Rle] | None = None


@dataclass(frozen=True)
class AveragePrecision:
    """Metrics of detections as shares from 0 to 1.

    Args:
        metrics: By name: `box_AP`, the mean over classes and over thresholds of the overlap from
            0.50 to 0.95; `box_AP50` and `box_AP75` at one; `box_AP_small`, `_medium` and `_large`,
            of objects below 32², below 96², and above; `box_AR`, the recall. `mask_AP` and so on
            where there are masks. A size that no object has is left out.
        box_classes: `box_AP` of each class; None for one without objects.
        mask_classes: `mask_AP` of each class; None for one without objects; empty without masks.
    """

    metrics: dict[str, float]
    box_classes: dict[str, float | None]
    mask_classes: dict[str, float | None]


def average_precision(data: CocoSet, detections: Sequence[Detections]) -> AveragePrecision:
    """Compare detections with the annotated objects of a set.

    Numbers are those of pycocotools, to rounding. Masks are compared as run lengths. They are
    compared only if the set and the detections both have them.

    Args:
        data: The set.
        detections: Those of each of its images.

    Returns:
        The metrics.

    Raises:
        ValueError: The detections are not those of the set.
        RunError: faster-coco-eval is not installed.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import torch
        >>> from amcl.data.coco import load_coco
        >>> from amcl.data.shapes import shapes
        >>> with TemporaryDirectory() as folder:
        ...     _, test = load_coco(shapes(Path(folder) / "shapes", train=2, test=4))
        >>> truth = [test.objects(index) for index in range(len(test))]
        >>> perfect = [Detections(o.boxes, torch.ones(len(o.labels)), o.labels) for o in truth]
        >>> average_precision(test, perfect).metrics["box_AP"]
        1.0
    """
    require_coco_evaluator("average precision")
    _check(data, detections)
    metrics, box_classes = _metrics(data, detections, "box")
    mask_classes: dict[str, float | None] = {}
    if _have_masks(data, detections):
        of_masks, mask_classes = _metrics(data, detections, "mask")
        metrics |= of_masks
    return AveragePrecision(metrics, box_classes, mask_classes)


def to_coco_results(
    data: CocoSet, detections: Sequence[Detections], kind: Kind = "box"
) -> list[dict[str, Any]]:
    """Return detections in COCO's format of results, which JSON can hold.

    Boxes and masks are separate results, as COCO's tools would take the area of a mask for that of
    its box if they were given both.

    Args:
        data: The set.
        detections: Those of each of its images.
        kind: "box" or "mask".

    Returns:
        An entry for each detection.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import torch
        >>> from amcl.data.coco import load_coco
        >>> from amcl.data.shapes import shapes
        >>> with TemporaryDirectory() as folder:
        ...     _, test = load_coco(shapes(Path(folder) / "shapes", train=2, test=1))
        >>> box = torch.tensor([[1.0, 2.0, 4.0, 6.0]])
        >>> to_coco_results(test, [Detections(box, torch.tensor([0.5]), torch.tensor([2]))])
        [{'image_id': 1, 'category_id': 3, 'score': 0.5, 'bbox': [1.0, 2.0, 3.0, 4.0]}]
    """
    _check(data, detections)
    results = []
    for index, of_image in enumerate(detections):
        identity = data.image_id(index)
        boxes = _left_top_width_height(of_image.boxes).tolist()
        rows = zip(of_image.scores.tolist(), of_image.labels.tolist(), strict=True)
        for number, (score, label) in enumerate(rows):
            row: dict[str, Any] = {"image_id": identity, "category_id": data.class_ids[label]}
            row["score"] = score
            if kind == "box":
                row["bbox"] = boxes[number]
            elif of_image.masks is None:
                raise ValueError("the detections have no masks: give kind='box'.")
            else:
                mask = of_image.masks[number]
                counts = mask["counts"]
                text = counts.decode() if isinstance(counts, bytes) else counts
                row["segmentation"] = {"size": list(mask["size"]), "counts": text}
            results.append(row)
    return results


def _check(data: CocoSet, detections: Sequence[Detections]) -> None:
    """Raise an error unless detections are those of the images of a set."""
    if len(detections) != len(data):
        raise ValueError(
            f"there are {len(detections):,} detections for {len(data):,} images: give those of "
            "each image, in their order."
        )
    for index, of_image in enumerate(detections):
        count = len(of_image.scores)
        masks = count if of_image.masks is None else len(of_image.masks)
        if of_image.boxes.shape != (count, 4) or len(of_image.labels) != count or masks != count:
            raise ValueError(
                f"{data.path(index)} has {count} scores, boxes {tuple(of_image.boxes.shape)}, "
                f"{len(of_image.labels)} labels and {masks} masks: give each detection one of each."
            )
        if not (of_image.boxes.isfinite().all() and of_image.scores.isfinite().all()):
            raise ValueError(f"{data.path(index)}: a box or score is not finite.")
        if count and not 0 <= int(of_image.labels.min()) <= int(of_image.labels.max()) < len(
            data.classes
        ):
            raise ValueError(
                f"{data.path(index)} has labels from {int(of_image.labels.min())} to "
                f"{int(of_image.labels.max())}: those of the set are 0 to {len(data.classes) - 1}."
            )


def _have_masks(data: CocoSet, detections: Sequence[Detections]) -> bool:
    return data.has_masks and all(of_image.masks is not None for of_image in detections)


def _metrics(
    data: CocoSet, detections: Sequence[Detections], kind: Kind
) -> tuple[dict[str, float], dict[str, float | None]]:
    """Return the metrics of boxes or masks by name, and AP by class."""
    precision, recall = _evaluate(data, detections, kind)
    values: dict[str, float | None] = {}
    for name, thresholds in _THRESHOLDS.items():
        values[f"{kind}_AP{name}"] = _mean(precision[thresholds, :, :, 0])
    for size, area in enumerate(_SIZES[1:], 1):
        values[f"{kind}_AP{area}"] = _mean(precision[:, :, :, size])
    values[f"{kind}_AR"] = _mean(recall[:, :, 0])
    metrics = {name: value for name, value in values.items() if value is not None}
    classes = {name: _mean(precision[:, :, k, 0]) for k, name in enumerate(data.classes)}
    return metrics, classes


def _mean(values: NDArray[np.float64]) -> float | None:
    """Return the mean over classes that have objects; None if none has."""
    measured = values[values > -1]
    return float(measured.mean()) if measured.size else None


def _evaluate(
    data: CocoSet, detections: Sequence[Detections], kind: Kind
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return precision (thresholds, recalls, K, areas) and recall (thresholds, K, areas).

    They are −1 for a class without objects of an area.
    """
    evaluator = importlib.import_module("faster_coco_eval")
    # Ranks instead of ids: of images in the order of their ids, which decides between detections
    # of one score, and from 1, as 0 would mean that there is no match.
    ids = [data.image_id(index) for index in range(len(data))]
    rank_of = {identity: number for number, identity in enumerate(sorted(ids), 1)}
    if len(rank_of) < len(ids):
        raise ValueError("an image is in the set twice: average precision counts it once.")
    images = []
    for index, identity in enumerate(ids):
        height, width = data.shape(index)
        images.append({"id": rank_of[identity], "height": height, "width": width})
    categories = [{"id": number} for number in range(1, len(data.classes) + 1)]

    def table(rows: Iterator[dict[str, Any]]) -> Any:
        annotations = [row | {"id": number} for number, row in enumerate(rows, 1)]
        dataset = {"images": images, "categories": categories, "annotations": annotations}
        return evaluator.COCO(dataset, print_function=_say_nothing)

    truth = table(_truth(data, [rank_of[i] for i in ids], kind))
    detected = table(_detected(detections, [rank_of[i] for i in ids], kind))
    evaluation = evaluator.COCOeval_faster(
        truth, detected, "bbox" if kind == "box" else "segm", print_function=_say_nothing
    )
    evaluation.params.maxDets = [MOST]
    evaluation.evaluate()
    evaluation.accumulate()
    shape = (10, 101, len(categories), len(_SIZES))
    precision = np.asarray(evaluation.eval["precision"], np.float64).reshape(shape)
    recall = np.asarray(evaluation.eval["recall"], np.float64).reshape(shape[:1] + shape[2:])
    return precision, recall


def _truth(data: CocoSet, ranks: Sequence[int], kind: Kind) -> Iterator[dict[str, Any]]:
    for index, rank in enumerate(ranks):
        objects = data.objects(index)
        boxes, areas = data.file_values(index)
        numbers = zip(
            boxes.tolist(),
            areas.tolist(),
            objects.labels.tolist(),
            objects.crowd.tolist(),
            strict=True,
        )
        for number, (box, area, label, crowd) in enumerate(numbers):
            row = {"image_id": rank, "category_id": label + 1, "bbox": box, "area": area}
            row["iscrowd"] = int(crowd)
            if kind == "mask" and objects.masks is not None:
                row["segmentation"] = objects.masks[number]
            yield row


def _detected(
    detections: Sequence[Detections], ranks: Sequence[int], kind: Kind
) -> Iterator[dict[str, Any]]:
    for rank, of_image in zip(ranks, detections, strict=True):
        boxes = _left_top_width_height(of_image.boxes)
        areas = boxes[:, 2] * boxes[:, 3]
        masks = of_image.masks if kind == "mask" else None
        if masks is not None:
            areas = mask_areas(masks)
        numbers = zip(
            boxes.tolist(),
            areas.tolist(),
            of_image.labels.tolist(),
            of_image.scores.tolist(),
            strict=True,
        )
        for number, (box, area, label, score) in enumerate(numbers):
            row = {"image_id": rank, "category_id": label + 1, "bbox": box, "area": area}
            row |= {"score": score, "iscrowd": 0}
            if masks is not None:
                row["segmentation"] = masks[number]
            yield row


def _left_top_width_height(boxes: Tensor) -> NDArray[np.float64]:
    corners = boxes.detach().cpu().double().numpy()
    return np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)


def _say_nothing(*_: object) -> None:
    pass
