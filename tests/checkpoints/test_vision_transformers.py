"""Runs of masked and grafted vision transformers, as models: loaded, exported, described."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import amcl
from amcl import recipes
from amcl.checkpoints import load_method, open_model
from amcl.checkpoints.card import model_card
from amcl.checkpoints.export import export
from amcl.checkpoints.files import load_checkpoint
from amcl.checkpoints.hub import HubBackbone
from amcl.methods import CAN, LGP, MAE
from amcl.training import pretrain
from tiny_runs import picture_folder, tiny_vit

IMAGES = torch.randn(4, 3, 16, 16)
KINDS = {"mae": MAE, "can": CAN, "lgp": LGP}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """An epoch of two steps of each. Do not write into them."""
    folder = tmp_path_factory.mktemp("runs")
    pictures = picture_folder(folder / "pictures", count=16)
    for method in ("mae", "can"):
        pretrain(tiny_vit(method, pictures, epochs=1), folder / method)
    pretrain(tiny_vit("lgp", pictures, epochs=1, init=str(folder / "mae")), folder / "lgp")
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_the_backbone_is_the_one_that_was_trained(runs, name):
    state = load_checkpoint(runs / name / "checkpoints/last.pt")["method"]
    for source in ("", "backbone.safetensors", "checkpoints/last.pt"):
        backbone = amcl.load(runs / name / source)
        for key, value in backbone.network.state_dict().items():
            assert torch.equal(value, state[f"backbone.network.{key}"]), key
        tokens = backbone.network.forward_features(IMAGES)
        torch.testing.assert_close(backbone(IMAGES), tokens[:, 1:].mean(1))


@pytest.mark.parametrize("name", KINDS)
def test_the_whole_method_comes_back(runs, name):
    method, state = load_method(runs / name), load_checkpoint(runs / name / "checkpoints/last.pt")
    assert isinstance(method, KINDS[name])
    assert method.state_dict().keys() == state["method"].keys()
    for key, value in method.state_dict().items():
        assert torch.equal(value, state["method"][key]), key
    views = (IMAGES,) if name == "mae" else (IMAGES, IMAGES.flip(0))
    assert torch.isfinite(method(views))


@pytest.mark.parametrize("name", KINDS)
def test_an_export_opens_again_and_its_code_runs(runs, tmp_path, monkeypatch, name):
    subject = open_model(runs / name)
    export(subject, tmp_path / "out")
    tensors = load_file(tmp_path / "out/method.safetensors")
    assert tensors.keys() == load_method(runs / name).state_dict().keys()
    assert isinstance(load_method(tmp_path / "out"), KINDS[name])
    expected = subject.backbone(IMAGES)
    assert torch.equal(open_model(tmp_path / "out").backbone(IMAGES), expected)
    monkeypatch.chdir(tmp_path / "out")
    for code in re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.S):
        made = {}
        exec(code, made)
        found = (made.get("model") or made["backbone"])(IMAGES)
        assert torch.equal(found, expected)


def rows(run):
    """The card's table of settings."""
    table = model_card(open_model(run)).split("## Training\n\n")[1].split("\n\n")[0]
    return dict(line.strip("| ").split(" | ", 1) for line in table.splitlines()[2:])


def test_the_card_of_mae_has_no_heads(runs):
    said = rows(runs / "mae")
    assert (said["method"], said["masked"]) == ("MAE", "75% of the patches")
    assert said["views"] == "ae"
    assert not {"heads", "temperature", "projector", "starts from"} & said.keys()
    card = model_card(open_model(runs / "mae"))
    assert "# test_vit, pre-trained with MAE" in card
    assert "contrastive-learning" not in card


def test_the_card_of_can_has_heads_and_masks(runs):
    said = rows(runs / "can")
    assert (said["method"], said["heads"], said["projector"]) == ("CAN", "2", "16–8")
    assert said["masked"] == "50% of the patches"
    assert said["temperature"].startswith("adaptive")
    assert '- "contrastive-learning"' in model_card(open_model(runs / "can"))


def test_the_card_of_lgp_says_what_it_started_from(runs):
    said = rows(runs / "lgp")
    assert (said["method"], said["starts from"]) == ("LGP", "mae")  # of a path, its last part
    assert "masked" not in said
    subject = open_model(runs / "lgp")
    both = replace(subject.config, run=replace(subject.config.run, init=None))
    card = model_card(replace(subject, config=both))
    assert "| starts from | MAE, 2 epochs, 75% of the patches masked |" in card


@pytest.mark.parametrize("name", ["mocov3", "simclr"])
def test_the_card_names_the_method(runs, name):
    subject = open_model(runs / "lgp")
    card = model_card(replace(subject, config=recipes.recipe(f"imagenet-{name}")))
    assert f"pre-trained with {'MoCo v3' if name == 'mocov3' else 'SimCLR'}" in card
    assert "starts from" not in card


def test_weights_alone_need_to_be_told_how_features_are_pooled(runs, tmp_path):
    """A file of other tools says nothing of itself; pool=mean is then the user's to say."""
    torch.save(load_file(runs / "mae/backbone.safetensors"), tmp_path / "w.pt")
    told = {"backbone": "test_vit", "image_size": 16}
    mean = open_model(tmp_path / "w.pt", pool="mean", **told).backbone
    assert torch.equal(mean(IMAGES), amcl.load(runs / "mae")(IMAGES))
    token = open_model(tmp_path / "w.pt", **told).backbone
    assert torch.equal(token(IMAGES), mean.network.forward_features(IMAGES)[:, 0])


def test_the_hub_keeps_how_features_are_pooled(runs, tmp_path):
    subject = open_model(runs / "can")
    HubBackbone.of(subject).save_pretrained(tmp_path / "hub")
    again = HubBackbone.from_pretrained(tmp_path / "hub")
    assert again.backbone.settings == subject.backbone.settings
    assert torch.equal(again(IMAGES), subject.backbone(IMAGES))


def test_a_first_stage_is_a_model_of_its_own(runs, tmp_path):
    """LGP's folder holds the run of MAE in `mae`; each is opened by its own path."""
    shutil.copytree(runs / "lgp", tmp_path / "lgp")
    shutil.copytree(runs / "mae", tmp_path / "lgp/mae")
    assert open_model(tmp_path / "lgp").config.method.name == "lgp"
    assert open_model(tmp_path / "lgp/mae").config.method.name == "mae"
