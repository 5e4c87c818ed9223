"""The section of a report on detectors."""

from dataclasses import replace

import pytest
from PIL import Image

from amcl.checkpoints.evaluations import Result
from amcl.cli import main
from amcl.report.blocks import Gallery, Note
from amcl.report.runs import ReportSettings, read_runs
from amcl.report.sections.detection import detection
from amcl.results import Table
from toy_detection import SMALL, settings_for, shapes_folder


def result(**values) -> Result:
    """A result as `amcl detect` writes it."""
    defaults = {
        "protocol": "detect",
        "data": "shapes",
        "split": "test",
        "metrics": {"box_AP": 0.25, "box_AP50": 0.5, "mask_AP": 0.125},
        "details": {
            "box_classes": {"circle": 0.25, "square": 0.5, "triangle": None},
            "mask_classes": {"circle": 0.125, "square": None, "triangle": None},
            "pictures": ["one.jpg", "two.jpg"],
        },
        "model": {"name": "runs/first", "sha256": "0"},
        "settings": settings_for("shapes").training(),
        "seed": 0,
        "images": {"train": 12, "test": 4, "sha256": "1"},
    }
    return Result(**(defaults | values))


@pytest.fixture
def run(tmp_path):
    words = ["--data", "builtin", "--subset", "32", "--epochs", "1", "--batch-size", "16"]
    network = ["--backbone", "resnet10t", "--width", "0.125", "--probe", "none", "--threads", "1"]
    assert main(["pretrain", *words, *network, "--out", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def test_precisions_classes_and_pictures(run):
    written = result()
    path = written.write(run)
    pictures = path.with_suffix("") / "pictures"
    pictures.mkdir(parents=True)
    Image.new("RGB", (900, 400), "red").save(pictures / "00.png")
    runs = read_runs([run], ReportSettings(images=8))
    section = detection(runs)
    assert section is not None
    tables = [block for block in section.blocks if isinstance(block, Table)]
    assert [row[:3] for row in tables[0].rows] == [
        ["boxes", "25.0", "50.0"],
        ["masks", "12.5", "–"],
    ]
    assert tables[1].rows == [["square", "50.0", "–"], ["circle", "25.0", "12.5"]]
    [gallery] = [block for block in section.blocks if isinstance(block, Gallery)]
    assert gallery.large
    assert [picture.title for picture in gallery.items] == ["one.jpg"]
    assert gallery.items[0].images[0].shape == (3, 400, 900)
    [note] = [block for block in section.blocks if isinstance(block, Note)]
    assert "1 pictures are missing" in note.text


def test_of_many_classes_those_at_both_ends(run):
    classes = {f"class {i:02d}": i / 100 for i in range(30)}
    result(details={"box_classes": classes, "mask_classes": {}}).write(run)
    section = detection(read_runs([run], ReportSettings(images=8)))
    assert section is not None
    table = section.blocks[2]
    assert len(table.rows) == 20
    assert (table.rows[0][0], table.rows[-1][0]) == ("class 29", "class 00")
    assert table.header == ["class", "boxes"]


def test_runs_without_a_detector_have_no_section(run):
    replace(result(), protocol="knn", metrics={"top1": 0.5}).write(run)
    assert detection(read_runs([run], ReportSettings(images=8))) is None


@pytest.mark.slow
def test_a_detector_of_a_run_is_on_its_page(run, tmp_path):
    data = str(shapes_folder(tmp_path))
    small = ["--channels", str(SMALL.channels), "--samples", str(SMALL.samples)]
    words = ["--epochs", "1", "--image-size", "64", "--workers", "0", *small]
    assert main(["detect", str(run), "--data", data, *words]) == 0
    assert main(["report", str(run), "--images", "16"]) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert 'id="detection"' in page
    assert page.count('alt="annotated and detected objects"') > 0
