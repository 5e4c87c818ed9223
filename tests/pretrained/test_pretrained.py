"""The models that come with amcl: their files, and what takes their names."""

import json
import re
import shutil
import socket

import pytest
import timm
import torch

import amcl
from amcl.checkpoints import open_model
from amcl.cli import main
from amcl.pretrained import checked_weights, index, names, pretrained_model
from amcl.tensor_files import read_safetensors
from tiny_runs import picture_folder

NAME = "cifar10-resnet10-simclr-amcl"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the models that a test may change."""
    copy = shutil.copytree(index.FOLDER, tmp_path / "models")
    monkeypatch.setattr(index, "FOLDER", copy)
    return copy


@pytest.fixture
def classes(tmp_path, monkeypatch):
    """A working folder with the folder `pictures`: two splits of two classes."""
    monkeypatch.chdir(tmp_path)
    for split in ("train", "test"):
        for name in ("a", "b"):
            picture_folder(tmp_path / "pictures" / split / name, count=12)


# -- the files


def test_the_folder_holds_what_the_index_lists_and_no_more():
    files = {path.name for path in index.FOLDER.iterdir() if path.suffix != ".py"}
    files.discard("__pycache__")
    listed = {f"{name}{ending}" for name in names() for ending in (".safetensors", ".md")}
    assert files == listed | {"index.json"}
    assert NAME in names()


@pytest.mark.parametrize("name", names())
def test_a_model_is_small_and_has_a_name_of_its_own(name):
    model = pretrained_model(name)
    assert model.size == checked_weights(name).stat().st_size <= 5_000_000
    assert not timm.is_model(name)


@pytest.mark.parametrize("name", names())
def test_the_index_agrees_with_the_weights(name):
    model = pretrained_model(name)
    loaded = open_model(name)
    backbone = loaded.backbone
    assert (model.image_size, model.features) == (backbone.image_size, backbone.dim)
    assert model.parameters == sum(p.numel() for p in backbone.parameters())
    assert (model.images, model.epochs) == (loaded.images, loaded.epoch)
    assert model.network.startswith(backbone.settings.name)


@pytest.mark.parametrize("name", names())
def test_the_card_has_the_numbers_of_the_index(name):
    model = pretrained_model(name)
    card = model.card.read_text(encoding="utf-8")
    for protocol in ("knn", "linear"):
        (row,) = re.findall(rf"^\| {protocol} \| .*, test \| .*", card, re.M)
        assert f"top1 {model.accuracy(protocol):.1%}" in row
    for text in (model.sha256, model.command, f"amcl.load({json.dumps(name)})", *model.notes):
        assert text in card
    (result,) = [r for r in model.results if (r["protocol"], r["split"]) == ("knn", "test")]
    assert f"{result['images']['test']:,} test" in card
    assert all(len(others) == len(model.results) for others in model.baselines.values())


def test_nothing_names_a_path_of_one_machine():
    for path in (index.FOLDER / "index.json", *index.FOLDER.glob("*.md")):
        assert not re.findall(r"[\s\"'=](?:/[\w.-]+)+", path.read_text(encoding="utf-8"))


# -- loading


def test_a_model_loads_by_its_name_without_a_network(monkeypatch, recwarn):
    def refuse(*args):
        raise AssertionError("no connection is needed")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    backbone = amcl.load(NAME)
    tensors, metadata = read_safetensors(checked_weights(NAME))
    assert backbone.image_size == metadata["image_size"]
    assert backbone.normalization == (tuple(metadata["mean"]), tuple(metadata["std"]))
    for key, value in backbone.network.state_dict().items():
        assert torch.equal(value, tensors[key])
    size = backbone.image_size
    assert backbone(torch.randn(2, 3, size, size)).shape == (2, backbone.dim)
    assert not backbone.training
    assert not recwarn.list


def test_what_a_model_was_trained_on_reaches_its_users():
    model = open_model(NAME)
    assert model.name == NAME
    assert model.notes[0] == pretrained_model(NAME).notes[0]
    assert model.notes[1] == f"`amcl models show {NAME}` shows its card"
    assert not model.untrained


def test_a_damaged_file_is_refused(folder):
    path = folder / f"{NAME}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged: its SHA-256 is not that of the index"):
        amcl.load(NAME)


def test_a_file_that_is_whole_and_another_is_refused(folder):
    shutil.copy(folder / f"{NAME}.safetensors", folder / "other.safetensors")
    entries = json.loads((folder / "index.json").read_text())
    entries[NAME]["sha256"] = "0" * 64
    (folder / "index.json").write_text(json.dumps(entries))
    with pytest.raises(ValueError, match="Install amcl again"):
        amcl.load(NAME)


def test_files_and_folders_come_before_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    with pytest.raises(Exception, match=rf"{NAME} is no run folder|no .*backbone"):
        amcl.load(NAME)


def test_names_come_before_those_of_timm_and_leave_them_alone():
    assert open_model("test_vit").untrained


def test_a_misspelled_name_gets_the_right_one():
    with pytest.raises(ValueError, match=rf"no model that comes .*: did you mean {NAME}"):
        amcl.load("cifar10-resnet10-simclr")
    with pytest.raises(ValueError, match="there is no timm model called 'resnet1o'"):
        amcl.load("resnet1o")


def test_a_model_takes_no_options_of_a_network():
    with pytest.raises(ValueError, match=rf"{NAME} says itself what it holds: leave out width"):
        open_model(NAME, width=0.5)


# -- commands


@pytest.mark.usefixtures("classes")
def test_every_command_that_takes_a_model_takes_the_name(tmp_path, capsys):
    data = ["--data", "pictures", "--threads", "1"]
    cpu = [*data, "--accelerator", "cpu"]
    evaluate = ["evaluate", NAME, *cpu, "--protocols", "knn", "--out", "results"]
    assert main(evaluate) == 0
    (path,) = (tmp_path / "results/evaluation").glob("knn-*.json")
    assert json.loads(path.read_text())["model"]["name"] == NAME
    assert main(["embed", NAME, *cpu, "--out", "features.npz"]) == 0
    assert main(["export", NAME, "--out", "export"]) == 0
    exported = amcl.load("export/backbone.safetensors")
    original = amcl.load(NAME).network.state_dict()
    for key, value in exported.network.state_dict().items():
        assert torch.equal(value, original[key])
    card = (tmp_path / "export/README.md").read_text()
    assert pretrained_model(NAME).notes[0] in card
    assert main(["curate", NAME, *cpu, "--out", "curation"]) == 0
    train = ["--epochs", "1", "--batch-size", "12", "--out", "run"]
    assert main(["pretrain", "--init", NAME, *cpu, *train]) == 0
    assert amcl.load("run").image_size == pretrained_model(NAME).image_size
    assert 'init = "' + NAME in (tmp_path / "run/config.toml").read_text()
    assert main(["evaluate", f"{NAME}s", *cpu]) == 2
    assert f"did you mean {NAME}?" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "words", [["report", NAME], ["compare", NAME], ["analyze", "overlap", NAME], ["cost", NAME]]
)
def test_commands_on_runs_say_that_a_model_is_none(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) in (1, 2)
    shown = " ".join(capsys.readouterr().err.split())
    assert f"{NAME} is a model that comes with amcl, which has weights and no run" in shown
    assert f"amcl models show {NAME}" in shown
