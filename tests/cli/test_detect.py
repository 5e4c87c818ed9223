"""`amcl detect`: what is printed, where results go, a second run, and mistakes."""

import json

import pytest

from amcl.checkpoints.evaluations import read_results
from amcl.cli import main
from amcl.training.trainer import Trainer
from toy_detection import shapes_folder

QUICK = (
    *("--epochs", "1", "--batch-size", "4", "--image-size", "64", "--channels", "16"),
    *("--samples", "8", "--workers", "0", "--threads", "1", "--accelerator", "cpu"),
)
NETWORK = ("resnet10t", "--width", "0.125", "--stem", "standard", "--scratch")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return shapes_folder(tmp_path_factory.mktemp("data"), train=8, test=3)


def test_a_timm_model_and_a_second_run(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["detect", *NETWORK, "--data", str(data), *QUICK]
    assert main(command) == 0
    output = capsys.readouterr()
    for word in ("boxes", "masks", "AP50", "shapes, test", "8 train, 3 test, 3 classes"):
        assert word in output.out
    assert "results go to detections/resnet10t" in output.err
    [result] = read_results(tmp_path / "detections/resnet10t")
    assert result.protocol == "detect"
    assert result.settings["scratch"]
    assert set(result.details["box_classes"]) == {"circle", "square", "triangle"}
    monkeypatch.setattr(Trainer, "train_step", lambda *_: pytest.fail("it is trained again"))
    [file] = (tmp_path / "detections/resnet10t/evaluation").glob("*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model": {}}))
    assert main(command) == 0
    output = capsys.readouterr()
    assert "has this result" in output.err
    assert "resnet10t on shapes, test" in output.out


def test_seeds_are_compared(data, tmp_path, capsys):
    categories = ["--categories", "square", "circle"]
    for seed in ("0", "1"):
        out = ["--seed", seed, "--out", str(tmp_path / seed)]
        assert main(["detect", *NETWORK, "--data", str(data), *QUICK, *categories, *out]) == 0
    output = capsys.readouterr()
    assert "Mask R-CNN on 8 images of 2 classes" in output.err
    assert "categories square, circle" in output.out
    words = ["compare", str(tmp_path / "0"), str(tmp_path / "1"), "--metrics", "box_AP"]
    assert main([*words, "--json", str(tmp_path / "compare.json")]) == 0
    [row] = json.loads((tmp_path / "compare.json").read_text())["rows"]
    assert (row["protocol"], row["metric"]) == ("detect", "box_AP")
    assert len(row["cells"]) == 1  # two seeds of one group
    assert row["cells"][0]["n"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resnet10t", "--scratch"], "--data"),
        (["resnet10t", "--data", "DATA"], "--scratch trains a detector"),
        (["resnet10t", "--scratch", "--data", "no/folder"], "There is no folder 'no/folder'"),
        (["resnet10t", "--scratch", "--data", "DATA", "--image-size", "100"], "--image-size"),
        (["resnet10t", "--scratch", "--data", "DATA", "--batch-size", "99"], "--batch-size"),
        (["resnet10t", "--data", "DATA", "--epoch", "3"], "did you mean --epochs"),
        (
            ["resnet10t", "--scratch", "--data", "DATA", "--categories", "cirle"],
            "did you mean circle",
        ),
        (["resnet10t", "--data", "DATA", "--categories", "square", "square"], "each be named once"),
        (["no-such-model", "--data", "DATA"], "there is no timm model"),
    ],
)
def test_mistakes_are_one_line(data, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    words = [str(data) if word == "DATA" else word for word in words]
    assert main(["detect", *words]) == 2
    error = capsys.readouterr().err
    assert message in " ".join(error.split())
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


def without_name(table):
    del table["categories"][1]["name"]


def with_absent_images(table):
    for number, image in enumerate(table["images"]):
        image["file_name"] = f"absent-{number}.jpg"


def with_large_mask(table):
    image = table["images"][0]
    height, width = 2 * image["height"], 2 * image["width"]
    table["annotations"][0]["image_id"] = image["id"]
    table["annotations"][0]["segmentation"] = {"size": [height, width], "counts": [height * width]}


def without_objects(table):
    table["annotations"].clear()


def with_crowds_and_lines_alone(table):
    for number, annotation in enumerate(table["annotations"]):
        if number % 2:
            annotation["iscrowd"] = 1
        else:
            annotation["bbox"][2] = 0


@pytest.mark.parametrize("option", ["train", "test"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (None, "annotations bad.json: there is no such file"),
        (without_name, "bad.json is damaged: category 2 has no name"),
        (with_absent_images, "are not in"),
        (with_large_mask, "both must be of one size"),
        (without_objects, "has an object: crowds and boxes without area do not count"),
        (with_crowds_and_lines_alone, "has an object: crowds and boxes without area"),
        (dict.clear, "bad.json is not in COCO's format: it has no images"),
    ],
)
def test_bad_annotations_are_one_line(data, tmp_path, monkeypatch, capsys, option, damage, message):
    monkeypatch.chdir(tmp_path)
    split = {"train": "train2017", "test": "val2017"}[option]
    if damage is not None:
        table = json.loads((data / f"annotations/instances_{split}.json").read_text())
        damage(table)
        (tmp_path / "bad.json").write_text(json.dumps(table))
    files = [f"--{option}-annotations", "bad.json", f"--{option}-images", str(data / split)]
    assert main(["detect", *NETWORK, "--data", str(data), *QUICK, *files]) == 2
    error = capsys.readouterr().err
    [line] = [line for line in error.splitlines() if line.startswith("amcl detect: ")]
    assert message in line
    if damage is with_absent_images:
        assert "absent-0.jpg" in line
        assert f"--{option}-images" in line
    assert "Traceback" not in error
    assert not (tmp_path / "detections").exists()
