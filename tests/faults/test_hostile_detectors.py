"""Annotations, results and detectors of `amcl detect` with hostile values."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from amcl.cli import main
from amcl.data.shapes import shapes
from amcl.evaluation.detection import load_detector
from amcl.tensor_files import read_safetensors, tensor_bytes
from faults.hostile_values import (
    CPU,
    FAST,
    VALUES,
    amounts,
    attack,
    check,
    commands_on,
    dumped,
    places,
    replaced,
    variants,
)
from faults.test_images import UNREADABLE

DETECTOR = [
    *("--epochs", "1", "--batch-size", "2", "--image-size", "64", "--channels", "16"),
    *("--samples", "8", "--workers", "0", "--accelerator", "cpu", *CPU),
]
ODD = [  # of which COCO's files have others
    *(2**31, 1e308, 5e-324, "\ud800", "x" * 5000, "a/" * 3000, "\0"),
    *("./000000.jpg", "000000.jpg/x", [0, 0, 0, 0], [1e17] * 4, [True] * 4, [[0, 0]]),
    *([[0, 0, 1e6, 0, 0, 1e6]], {"size": [96, 96], "counts": [96 * 96]}),
    {"size": [96, 96], "counts": "o" * 999},
]


@pytest.fixture(scope="module")
def detected(original: Path, tmp_path_factory) -> Path:
    """A folder with shapes, and a run from which a detector was trained. Do not write into it."""
    folder = tmp_path_factory.mktemp("detected")
    shapes(folder / "shapes", train=2, test=2, size=(64, 96))
    shutil.copytree(original / "run", folder / "run")
    (result,) = (folder / "run/evaluation").glob("*.json")
    result.unlink()  # of another protocol
    assert main(detect(folder / "run", folder / "shapes")) == 0
    return folder


@pytest.fixture
def detector_run(detected: Path, tmp_path: Path) -> Path:
    """A copy of the run with the detector, beside the shapes and a file that nobody may touch."""
    (tmp_path / "escape").write_text("thesis")
    shutil.copytree(detected / "shapes", tmp_path / "runs" / "shapes")
    return shutil.copytree(detected / "run", tmp_path / "runs" / "run")


def detect(run: Path, data: Path) -> list[str]:
    return ["detect", str(run), "--data", str(data), *DETECTOR]


def result_of(run: Path) -> Path:
    (file,) = (run / "evaluation").glob("*.json")
    return file


def small_annotations(file: Path) -> dict[str, Any]:
    """Annotations of two images: a polygon, a crowd of run lengths, and a mask as text."""
    table: dict[str, Any] = json.loads(file.read_text())
    (first, second) = table["images"]
    height, width = first["height"], first["width"]
    own = [
        {"bbox": [5, 6, 20, 30], "area": 300.5, "segmentation": [[5, 6, 25, 6, 25, 36]]},
        {
            "bbox": [0, 0, 2, height],
            "iscrowd": 1,
            "segmentation": {"size": [height, width], "counts": [0, height, height * (width - 1)]},
        },
        {"bbox": [3, 3, 9, 9], "iscrowd": 0, "segmentation": [[3, 3, 12, 3, 12, 12]]},
    ]
    table["annotations"] = [
        {"id": i, "image_id": image["id"], "category_id": i + 1, **annotation}
        for i, (image, annotation) in enumerate(zip((first, first, second), own, strict=True))
    ]
    return table


@amounts
def test_annotations(detector_run, count, capsys, record):
    """Each value that is not refused is trained on."""
    data = detector_run.parent / "shapes"
    file = data / "annotations/instances_train2017.json"
    table = small_annotations(file)
    file.write_text(dumped(table))
    command = detect(detector_run, data)
    assert main(command) == 0
    pairs = [(path, by) for path in places(table) for by in (*VALUES, *ODD)]
    chosen = random.Random(count).sample(pairs, min(count, len(pairs)))
    texts = [dumped(replaced(table, path, by)) for path, by in chosen]
    texts += ["", "null", "[]", "\x00", "[" * 100_000, '{"images": 1e999}', "9" * 5000]
    shutil.rmtree(detector_run / "evaluation")
    for text in texts:
        file.write_text(text)
        check([command], detector_run, capsys)
        shutil.rmtree(detector_run / "evaluation", ignore_errors=True)
    record("annotations in COCO's format with another value", len(texts))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("area", 10**400),
        ("bbox", [0, 0, 10**400, 1]),
        ("segmentation", [[10**400, 1]]),
        ("segmentation", [[1, 2, 3, 4, 10**400, 1]]),
    ],
    ids=["area", "box", "short polygon", "polygon"],
)
def test_numbers_that_no_float_holds(name, value, detector_run, capsys):
    data = detector_run.parent / "shapes"
    file = data / "annotations/instances_train2017.json"
    table = small_annotations(file)
    file.write_text(dumped(replaced(table, ("annotations", 0, name), value)))
    assert main(detect(detector_run, data)) == 2
    message = capsys.readouterr().err
    assert "annotation 0" in message
    assert str(file) in message


@amounts
def test_results_of_detectors(detector_run, count, capsys, record):
    file = result_of(detector_run)
    result = json.loads(file.read_text())
    texts = [dumped(v) for v in variants(result, count)]
    for name in ("box_classes", "mask_classes", "pictures"):
        for by in (*VALUES, {"a\x1b[31m<b>": 0.5, "b": None}, ["../../x", "<img src=x>"]):
            texts.append(dumped(replaced(result, ("details", name), by)))
    texts += ["", "{", "[" * 100_000]
    again = detect(detector_run, detector_run.parent / "shapes")
    attack(detector_run, file, texts, commands_on(detector_run, "compare"), capsys)
    attack(detector_run, file, texts[:: 400 // count], [again], capsys)
    few = texts[-40:] if count > FAST else texts[-2:]  # a report takes seconds
    attack(detector_run, file, few, commands_on(detector_run, "report"), capsys)
    record("results of detectors with another value", len(texts))


@amounts
def test_metadata_of_detectors(detector_run, count, capsys, record):
    """The detector is there and its result is not: it is read, and measured if it can be."""
    result = result_of(detector_run)
    file = result.with_suffix("") / "detector.safetensors"
    tensors, metadata = read_safetensors(file)
    command = detect(detector_run, detector_run.parent / "shapes")
    changed = variants(metadata, count)
    changed += [replaced(metadata, ("num_classes",), 10**6)]
    for variant in changed:
        try:
            file.write_bytes(tensor_bytes(tensors, variant))
        except ValueError:  # NaN is no JSON
            continue
        result.unlink(missing_ok=True)
        check([command], detector_run, capsys)
    for other in ({}, {name: value[:0] for name, value in tensors.items() if value.ndim}):
        file.write_bytes(tensor_bytes(other, metadata))
        result.unlink(missing_ok=True)
        check([command], detector_run, capsys)
    record("detectors with other metadata or tensors", len(changed) + 2)


def test_another_detector_in_place_of_this_one_is_refused(detector_run, capsys):
    result = result_of(detector_run)
    file = result.with_suffix("") / "detector.safetensors"
    data = detector_run.parent / "shapes"
    words = detect(detector_run, data)
    wide = [*words, "--channels", "32", "--out", str(detector_run.parent / "wide")]
    assert main(wide) == 0
    other = result_of(detector_run.parent / "wide").with_suffix("") / "detector.safetensors"
    shutil.copy(other, file)
    assert load_detector(file).classes  # it is whole
    result.unlink()
    capsys.readouterr()
    assert main(words) == 1
    message = capsys.readouterr().err
    assert "is another detector than this command trains: remove" in message
    assert not result.exists()


def test_pictures_of_a_report(detector_run, capsys, record):
    """Pictures that are none are counted, and the others are shown."""
    file = result_of(detector_run)
    folder = file.with_suffix("") / "pictures"
    result = json.loads(file.read_text())
    first = len(result["details"]["pictures"])
    shutil.copy(folder / "00.png", folder / "000.png")  # what some kinds start from
    for number, write in enumerate(UNREADABLE.values(), first):
        write(folder)
        (odd,) = (path for path in folder.iterdir() if path.stem == "odd")
        odd.rename(folder / f"{number:02d}.png")
        result["details"]["pictures"].append(f"picture {number}")
    file.write_text(dumped(result))
    check(commands_on(detector_run, "report"), detector_run, capsys)
    page = (detector_run.parent / "page.html").read_text()
    assert f"{len(UNREADABLE)} pictures are missing from" in page
    assert "000000.jpg" in page
    assert f"picture {first}" not in page
    record("pictures of a report that are none", len(UNREADABLE))
