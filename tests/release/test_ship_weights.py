"""A finished, evaluated run becomes a model that comes with amcl."""

import json
import shutil
import sys

import pytest
import torch

from amcl.checkpoints import open_model
from amcl.checkpoints.evaluations import read_results
from amcl.cli import main
from amcl.pretrained import checked_weights, index, names, pretrained_model
from tiny_runs import picture_folder

NAME = "noise-resnet10-simclr"
NOTE = "Trained on pictures of noise."
TRAIN = (
    "pretrain --method simclr --plain --backbone resnet10t --stem standard --width 0.125 "
    "--data all --image-size 16 --batch-size 8 --epochs 1 --probe none --workers 0 --threads 1 "
    "--out runs/first"
)
EVALUATE = "--data pictures --protocols knn linear --linear.min-steps 5 --workers 0 --threads 1"
UNTRAINED = (
    "evaluate resnet10t --stem standard --width 0.125 --image-size 16 --mean 0.485 0.456 0.406 "
    f"--std 0.229 0.224 0.225 {EVALUATE} --out untrained"
)


def amcl(line, monkeypatch):
    """Run a command of amcl, as the process that a user starts."""
    monkeypatch.setattr(sys, "argv", ["/somewhere/amcl/__main__.py", *line.split()])
    assert main(line.split()) == 0


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A working folder with an evaluated run and the results of an untrained network."""
    folder = tmp_path_factory.mktemp("work")
    picture_folder(folder / "all", count=16)
    for split in ("train", "test"):
        for name in ("a", "b"):
            picture_folder(folder / "pictures" / split / name, count=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        amcl(TRAIN, patch)
        amcl(f"evaluate runs/first {EVALUATE}", patch)
        amcl(UNTRAINED, patch)
    return folder


@pytest.fixture
def script(release, work, tmp_path, monkeypatch):
    """The script, in a copy of the working folder; what it ships goes to the folder `models`."""
    monkeypatch.chdir(shutil.copytree(work, tmp_path / "work"))
    monkeypatch.setattr(index, "FOLDER", tmp_path / "models")
    return release("ship_weights")


@pytest.fixture
def ship(script, tmp_path):
    """A function that ships the run, or changes of it."""

    def call(name=NAME, **options):
        options = {"notes": [NOTE], "baselines": {"untrained": "untrained"}} | options
        baselines = {
            label: tmp_path / "work" / path for label, path in options["baselines"].items()
        }
        run = tmp_path / "work/runs/first"
        folder = options.pop("folder", tmp_path / "models")
        return script.ship(run, name, **(options | {"baselines": baselines}), folder=folder)

    return call


def test_a_run_becomes_a_model(ship, tmp_path, capsys):
    paths = ship()
    assert {path.name for path in paths} == {f"{NAME}.safetensors", f"{NAME}.md", "index.json"}
    assert names() == (NAME,)
    run = open_model(tmp_path / "work/runs/first")
    assert checked_weights(NAME).read_bytes() == (run.folder / "backbone.safetensors").read_bytes()
    shipped = open_model(NAME)
    images = torch.randn(2, 3, 16, 16)
    assert torch.equal(shipped.backbone(images), run.backbone(images))
    assert (shipped.mean, shipped.std) == (run.mean, run.std)
    assert shipped.notes[0] == NOTE
    assert shipped.folder is None  # results and features are not written beside the weights
    assert main(["models"]) == 0
    assert NAME in capsys.readouterr().out


def test_numbers_and_commands_are_those_of_the_files(ship, tmp_path):
    ship()
    model = pretrained_model(NAME)
    card = model.card.read_text(encoding="utf-8")
    for entries, folder in (
        (model.results, "runs/first"),
        (model.baselines["untrained"], "untrained"),
    ):
        results = {result.protocol: result for result in read_results(tmp_path / "work" / folder)}
        assert {entry["protocol"] for entry in entries} == set(results) == {"knn", "linear"}
        for entry in entries:
            result = results[entry["protocol"]]
            assert entry["metrics"] == result.metrics
            assert entry["images"] == {"train": 16, "test": 16, "classes": 2}
    assert (
        model.accuracy("knn")
        == {r.protocol: r for r in read_results(tmp_path / "work/runs/first")}["knn"].metrics[
            "top1"
        ]
    )
    assert model.command == f"amcl {TRAIN}"
    assert {entry["command"] for entry in model.results} == {f"amcl evaluate runs/first {EVALUATE}"}
    assert {e["command"] for e in model.baselines["untrained"]} == {f"amcl {UNTRAINED}"}
    for text in (NOTE, model.command, f"amcl {UNTRAINED}", model.sha256, 'license: "mit"'):
        assert text in card
    assert "| by the same evaluation | this model | untrained |" in card
    assert str(tmp_path) not in card + (tmp_path / "models/index.json").read_text()


def test_the_same_run_gives_the_same_bytes(ship, tmp_path):
    first = {path.name: path.read_bytes() for path in ship()}
    again = {path.name: path.read_bytes() for path in ship(folder=tmp_path / "other")}
    assert first == again
    assert {path.name: path.read_bytes() for path in ship(replace=True)} == first


def test_models_stand_side_by_side_in_the_index(ship):
    ship()
    ship("another-model")
    assert names() == ("another-model", NAME)
    assert pretrained_model(NAME).sha256 == pretrained_model("another-model").sha256


def test_a_model_is_replaced_only_if_that_is_asked_for(ship):
    ship()
    with pytest.raises(ValueError, match=f"there is a model '{NAME}' already: give --replace"):
        ship(notes=["Other words."])
    assert pretrained_model(NAME).notes == [NOTE]
    ship(notes=["Other words."], replace=True)
    assert pretrained_model(NAME).notes == ["Other words."]


def remove(pattern):
    return lambda run: [path.unlink() for path in run.glob(pattern)]


def rewrite(name, **changes):
    """A change of a JSON file of a run, or of each line of one."""

    def change(run):
        for path in run.glob(name):
            text = path.read_text()
            tables = text.splitlines() if path.suffix == ".jsonl" else [text]
            changed = [json.dumps({**json.loads(table), **changes}) for table in tables]
            path.write_text("".join(f"{table}\n" for table in changed))

    return change


def twice(run):
    (path,) = (run / "evaluation").glob("knn-*.json")
    result = json.loads(path.read_text())
    result["settings"]["k"] = 3
    path.with_name("knn-other.json").write_text(json.dumps(result))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove("evaluation/*.json"), "has 0 results of knn on test images, and must have 1"),
        (remove("evaluation/linear*"), "has 0 results of linear on test images"),
        (rewrite("evaluation/*.json", split="validation"), "has 0 results of knn on test images"),
        (rewrite("evaluation/*.json", model={"sha256": "0"}), "has 0 results of knn"),
        (twice, "has 2 results of knn on test images"),
        (remove("backbone.safetensors"), "is no finished run: it has no backbone.safetensors"),
        (remove("config.toml"), "has 0 results|is no run folder"),
        (rewrite("environment.jsonl", changed={"epochs": [1, 2]}), "resumed with other settings"),
        (rewrite("environment.jsonl", command="train.py"), "which is no command of amcl"),
        (
            rewrite("environment.jsonl", command="amcl pretrain --data /mine/pictures"),
            "has the absolute path /mine/pictures",
        ),
        (
            rewrite("evaluation/*.json", environment={"command": "amcl evaluate --out=/mine"}),
            "has the absolute path --out=/mine",
        ),
        (rewrite("evaluation/*.json", seed=1), "untrained has 0 results of knn with the same"),
    ],
)
def test_what_is_not_ready_is_refused(ship, tmp_path, change, message):
    change(tmp_path / "work/runs/first")
    with pytest.raises(ValueError, match=message):
        ship()
    assert not (tmp_path / "models").exists()


def test_a_large_file_is_refused(ship, script, tmp_path, monkeypatch):
    size = (tmp_path / "work/runs/first/backbone.safetensors").stat().st_size
    monkeypatch.setattr(script, "LARGEST", size - 1)
    with pytest.raises(ValueError, match=f"has {size:,} bytes, and at most {size - 1:,} ship"):
        ship()
    monkeypatch.setattr(script, "LARGEST", size)
    ship()


@pytest.mark.parametrize("name", ["resnet18", "Noise", "../escape", "noise", "a b"])
def test_bad_names_are_refused(ship, tmp_path, name):
    with pytest.raises(ValueError, match="NAME must be lowercase words"):
        ship(name)
    assert not (tmp_path / "models").exists()


def test_names_of_timm_are_refused(ship, monkeypatch, script):
    monkeypatch.setattr(script.timm, "is_model", lambda name: name == NAME)
    with pytest.raises(ValueError, match=f"timm has a model '{NAME}'"):
        ship()


def test_a_model_without_a_note_is_refused(ship):
    with pytest.raises(ValueError, match="say with --note what the model was trained on"):
        ship(notes=[])


def test_the_command_line_of_the_script(script, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["ship_weights.py", "runs/none", NAME, "--note", NOTE])
    assert script.main() == 1
    assert "ship_weights: runs/none is no finished run" in capsys.readouterr().err
