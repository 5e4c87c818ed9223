"""Files that come from anywhere: every value in them is replaced by others, one at a time.

A command answers with an exit code and one line, whatever is in the files of a run; an exception
that reaches the test is a failure. Nothing outside of the run is touched.
"""

import copy
import json
import random
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import timm
import tomli_w
import torch
from PIL import Image

from amcl.checkpoints.files import read_safely, save_checkpoint
from amcl.cli import main
from amcl.data.shapes import shapes
from amcl.evaluation.detection import load_detector
from amcl.tensor_files import read_safetensors, tensor_bytes
from amcl.training import pretrain
from faults.test_images import UNREADABLE
from tiny_runs import picture_folder, tiny_vit

VALUES = [
    *(None, True, -1, 0, 2**70, 1.5, float("nan"), "", "x", "../../escape", "a\x1b[31mb\n<b>"),
    *([], ["x"], [[[]]], {}, {"x": 1}, {"../escape": {"images": 1}}),
]
FAST = 10  # replacements of each file in the fast tests
SLOW = 400  # and in the slow ones, at most
CPU = ["--threads", "1"]
FEW = ["--images", "8", *CPU]


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A folder with a run that is trained, evaluated and exported. Do not write into it."""
    folder = tmp_path_factory.mktemp("hostile")
    generator = torch.Generator().manual_seed(0)
    for i in range(24):
        name = ("caf\udce9", "b\x1b[31m", "c")[i % 3]  # not UTF-8; a color; nothing special
        path = folder / "pictures" / name / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(256, (16, 16, 3), dtype=torch.uint8, generator=generator)
        Image.fromarray(pixels.numpy()).save(path)
    config = tiny_vit("simclr", folder / "pictures", knn_k=3, epochs=1)
    pretrain(config, folder / "run")
    evaluate = ["evaluate", str(folder / "run"), "--protocols", "knn", "--workers", "0", *CPU]
    assert main(evaluate) == 0
    assert main(["export", str(folder / "run"), *CPU]) == 0
    return folder


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    """A copy of the run, beside a file that nobody may touch."""
    (tmp_path / "escape").write_text("thesis")
    return shutil.copytree(original / "run", tmp_path / "runs" / "run")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values within a value."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list) and len(value) < 20:
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    """A copy of a value that has another value at a place."""
    changed = copy.deepcopy(value)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = by
    return changed


def variants(value: Any, count: int) -> list[Any]:
    """Copies of a value with one replacement each, at most `count` of them."""
    pairs = [(path, by) for path in places(value) for by in VALUES]
    pairs = random.Random(count).sample(pairs, min(count, len(pairs)))
    return [replaced(value, path, by) for path, by in pairs]


def check(commands: list[list[str]], run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run commands; each must end with an exit code, and print nothing that a terminal acts on."""
    for words in commands:
        code = main(words)
        output = capsys.readouterr()
        assert code in (0, 1, 2, 3, 4), words
        assert "Traceback" not in output.err + output.out
        assert "there is no option" not in output.err
        assert "\x1b" not in output.err + output.out
        if code:
            # The error is the last message: others are on what is done before.
            assert re.search(r"^amcl \w+: .*\n(  .*\n)*\Z", output.err, re.MULTILINE), output.err
    assert (run.parents[1] / "escape").read_text() == "thesis"
    for page in run.parent.rglob("*.html"):
        assert "\x1b" not in page.read_text()


def attack(
    run: Path,
    file: Path,
    texts: list[str],
    commands: list[list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Write each text to a file of the run, and run the commands."""
    before = file.read_bytes()
    for words in commands:
        assert main(words) == 0, words  # as it is, the run is fine
    capsys.readouterr()
    for text in texts:
        file.write_text(text, encoding="utf-8")
        check(commands, run, capsys)
        for page in run.parent.glob("*.html"):
            page.unlink()
    file.write_bytes(before)


def commands_on(run: Path, *names: str) -> list[list[str]]:
    every = {
        "compare": ["compare", str(run)],
        "report": [
            "report",
            str(run),
            "--images",
            "8",
            *CPU,
            "--out",
            str(run.parent / "page.html"),
        ],
        "export": ["export", str(run), "--overwrite", *CPU],
        "cost": ["cost", str(run), *CPU],
        "resume": ["pretrain", "--resume", str(run)],
    }
    return [every[name] for name in names]


def dumped(variant: Any) -> str:
    return json.dumps(variant)


def amounts(function: Callable[..., None]) -> Callable[..., None]:
    """Run a test with a few replacements, and as a slow test with many."""
    mark = pytest.mark.parametrize("count", [FAST, pytest.param(SLOW, marks=pytest.mark.slow)])
    return mark(function)


@amounts
def test_results(run, count, capsys, record):
    (file,) = (run / "evaluation").glob("*.json")
    texts = [dumped(v) for v in variants(json.loads(file.read_text()), count)]
    texts += ["", "{", "[" * 100_000, "\x00", '{"a": 1, "a": 2}', "null"]
    attack(run, file, texts, commands_on(run, "compare"), capsys)
    attack(run, file, texts[:3], commands_on(run, "report"), capsys)
    record("results of an evaluation with another value", len(texts))


@amounts
def test_metrics_and_starts(run, count, capsys, record):
    total = 0
    for name in ("metrics.jsonl", "environment.jsonl"):
        file = run / name
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        few = count // 5  # a report takes seconds
        texts = ["\n".join(map(dumped, v)) + "\n" for v in variants(rows, few)]
        texts += ["{\n", "[" * 100_000 + "\n"]
        attack(run, file, texts, commands_on(run, "report"), capsys)
        total += len(texts)
    record("metrics and environment with another value", total)


@amounts
def test_configurations(run, count, capsys, record):
    file = run / "config.toml"
    texts = []
    for variant in variants(tomllib.loads(file.read_text()), count):
        try:
            texts.append(tomli_w.dumps(variant))
        except TypeError:  # TOML has no null
            continue
    texts += ["[run", "a = " + "[" * 10_000, "seed = 1", "\x00", "[run]\nseed = 0\n[run]"]
    attack(run, file, texts, commands_on(run, "compare", "resume"), capsys)
    record("configurations with another value", len(texts))


@amounts
def test_lists_of_exports(run, count, capsys, record):
    file = run / "export/export.json"
    texts = [dumped(v) for v in variants(json.loads(file.read_text()), count)]
    listing = json.loads(file.read_text())
    for name in ("../../escape", str(run.parents[1] / "escape"), ".", "a/b"):
        files = {**listing["files"], name: "0" * 64}
        texts.append(dumped({**listing, "weights": "f" * 64, "files": files}))
        texts.append(dumped({**listing, "before": {name: "0" * 64}}))
    attack(run, file, texts, commands_on(run, "export"), capsys)
    record("lists of exports with another value, or with paths out of the folder", len(texts))


@amounts
def test_metadata_of_backbones(run, count, capsys, record):
    file = run / "backbone.safetensors"
    tensors, metadata = read_safetensors(file)
    changed = variants(metadata, count)
    before = file.read_bytes()
    for variant in changed:
        try:
            file.write_bytes(tensor_bytes(tensors, variant))
        except ValueError:  # NaN is no JSON
            continue
        check(commands_on(run, *(["export"] if count == FAST else ["export", "cost"])), run, capsys)
    file.write_bytes(before)
    record("backbones with other metadata", len(changed))


@amounts
def test_contents_of_checkpoints(run, count, capsys, record, original):
    file = run / "checkpoints/last.pt"
    state = read_safely(file)
    outer = {key: value for key, value in state.items() if key != "method"}
    states = variants(outer, 2 * count)
    (run / "backbone.safetensors").unlink()
    weights = next(iter(state["method"]))
    states += [{**outer, "method": {}}, {**outer, "method": 3}]
    other_shape = {**state["method"], weights: torch.zeros(3)}
    states += [{**outer, "method": other_shape}, {"format": outer["format"]}]
    for variant in states:
        for other in (run / "checkpoints").iterdir():
            other.unlink()
        save_checkpoint(file, {"method": state["method"], **variant}, 1)
        check(commands_on(run, "resume"), run, capsys)
        (run / "backbone.safetensors").unlink(missing_ok=True)
    record("checkpoints with another value", len(states))


def test_a_link_in_place_of_a_file_is_not_followed(run, capsys, record):
    victim = run.parents[1] / "escape"
    for name in ("metrics.jsonl", "log.txt", "environment.jsonl", ".lock"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(victim)
        (run / "backbone.safetensors").unlink(missing_ok=True)
        assert main(["pretrain", "--resume", str(run)]) in (1, 2)
        assert victim.read_text() == "thesis"
        (run / name).unlink()
        capsys.readouterr()
    record("links out of the run folder", 4)


def test_names_that_are_no_utf_8_work_everywhere(run, tmp_path, capsys):
    renamed = run.rename(run.with_name("b\x1b[31m\n<i>"))
    other = shutil.copytree(renamed, tmp_path / "runs" / "plain")
    page = tmp_path / "page.html"
    assert main(["report", str(renamed), str(other), *FEW, "--out", str(page)]) == 0
    assert main(["compare", str(renamed), str(other)]) == 0
    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err + page.read_text()
    assert "<i>" not in page.read_text()
    assert "caf\\xe9" in page.read_text()


def test_a_folder_of_images_that_is_no_utf_8_is_refused_before_anything_is_made(tmp_path, capsys):
    pictures = picture_folder(tmp_path / "caf\udce9", count=16)
    words = ["--width", "0.125", "--epochs", "1", "--workers", "0", *CPU]
    run = tmp_path / "run"
    assert main(["pretrain", "--data", str(pictures), *words, "--out", str(run)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "caf\\xe9" in message
    assert "this is not UTF-8. Rename the file or folder." in message
    assert not run.exists()


def test_names_of_images_cannot_forge_lines_of_a_log(tmp_path, capsys):
    pictures = picture_folder(tmp_path / "pictures", count=16)
    (pictures / "000\x1b]0;title\x07\nERROR forged\n.png").write_text("no picture")
    config = tiny_vit("simclr", pictures, epochs=1)
    (tmp_path / "config.toml").write_text(config.to_toml(), encoding="utf-8")
    words = ["--config", str(tmp_path / "config.toml"), "--out", str(tmp_path / "run")]
    assert main(["pretrain", *words]) == 0
    output = capsys.readouterr()
    for text in (output.err + output.out, (tmp_path / "run/log.txt").read_text(encoding="utf-8")):
        assert "000\\x1b]0;title\\x07\\nERROR forged\\n.png" in text
        assert "\x1b" not in text
        assert "\nERROR forged" not in text


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


@amounts
def test_configurations_of_hub_folders(tmp_path, count, capsys, record):
    folder = tmp_path / "runs/hub"
    timm.models.save_for_hf(timm.create_model("test_vit"), folder, safe_serialization=True)
    (tmp_path / "escape").write_text("thesis")
    file = folder / "config.json"
    texts = [dumped(v) for v in variants(json.loads(file.read_text()), count)]
    texts += ["", "{", "[" * 100_000, "null", '{"backbone": "resnet10t"}', '{"architecture": "x"}']
    for text in texts:
        file.write_text(text, encoding="utf-8")
        out = folder / "export"
        check([["export", str(folder), "--out", str(out), *CPU]], folder, capsys)
        shutil.rmtree(out, ignore_errors=True)
    record("configurations of a folder of the hub with another value", len(texts))
