"""Backbones for the Hugging Face hub: saved, fetched, pushed, without a network."""

import json
import os

import pytest
import torch
from huggingface_hub import HfApi, ModelCard, constants
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from safetensors.torch import load_file

from amcl.checkpoints import hub, open_model
from amcl.checkpoints.hub import HubBackbone

IMAGES = torch.randn(2, 3, 32, 32)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def saved(trained, tmp_path):
    HubBackbone.of(open_model(trained)).save_pretrained(tmp_path / "hub")
    return tmp_path / "hub"


def test_what_was_saved_comes_back(trained, saved, capsys):
    assert sorted(os.listdir(saved)) == ["README.md", "config.json", "model.safetensors"]
    again, subject = HubBackbone.from_pretrained(saved), open_model(trained)
    assert torch.equal(again(IMAGES), subject.backbone(IMAGES))
    assert not again.training
    assert again.backbone.normalization == (subject.mean, subject.std)
    assert again.loaded_model.metadata() == subject.metadata()
    assert capsys.readouterr().out == ""  # the mixin would print


def test_the_weights_have_timms_keys_and_open_by_themselves(trained, saved):
    subject = open_model(trained)
    assert load_file(saved / "model.safetensors").keys() == (
        subject.backbone.network.state_dict().keys()
    )
    again = open_model(saved / "model.safetensors")
    assert torch.equal(again.backbone(IMAGES), subject.backbone(IMAGES))


def test_its_configuration_is_plain_json(trained, saved):
    subject = open_model(trained)
    assert json.loads((saved / "config.json").read_text()) == {
        **subject.backbone.metadata(),
        "mean": list(subject.mean),
        "std": list(subject.std),
    }


def test_saving_again_what_was_loaded(saved, tmp_path):
    HubBackbone.from_pretrained(saved).save_pretrained(tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (saved / name).read_bytes()


def test_the_card_is_the_runs_and_its_code_runs(trained, saved, monkeypatch):
    card = ModelCard.load(saved / "README.md")
    assert card.data.library_name == "amcl"
    assert "pre-trained with MoCo" in card.text
    monkeypatch.chdir(saved)
    expected = open_model(trained).backbone(IMAGES)
    for block in card.text.split("```python\n")[1:]:
        made = {}
        exec(block.split("```")[0], made)
        model = made.get("model") or made["backbone"]
        assert torch.equal(model(IMAGES), expected)


def test_a_card_that_is_there_stays(trained, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    HubBackbone.of(open_model(trained)).save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_pushing_sends_the_same_files(trained, monkeypatch):
    sent = {}

    def create_repo(self, repo_id, **options):
        return type("Repo", (), {"repo_id": repo_id})()

    def upload_folder(self, repo_id, folder_path, **options):
        sent[repo_id] = sorted(os.listdir(folder_path))
        return "done"

    monkeypatch.setattr(HfApi, "create_repo", create_repo)
    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    assert HubBackbone.of(open_model(trained)).push_to_hub("me/first") == "done"
    assert sent == {"me/first": ["README.md", "config.json", "model.safetensors"]}


def test_fetching_takes_safetensors_alone(saved, monkeypatch):
    asked = []

    def download(repo_id, filename, **options):
        asked.append(filename)
        return str(saved / filename)

    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", download)
    monkeypatch.setattr(hub, "hf_hub_download", download)
    again = HubBackbone.from_pretrained("me/first")
    assert torch.equal(again(IMAGES), HubBackbone.from_pretrained(saved)(IMAGES))
    assert asked == ["config.json", "model.safetensors"]

    def only_pickles(repo_id, filename, **options):
        asked.append(filename)
        raise EntryNotFoundError("404")

    monkeypatch.setattr(hub, "hf_hub_download", only_pickles)
    with pytest.raises(ValueError, match=r"me/first has no model.safetensors. Pickled weights"):
        HubBackbone.from_pretrained("me/first")
    assert "pytorch_model.bin" not in asked


def test_pickled_weights_in_a_folder_are_refused(saved):
    tensors = load_file(saved / "model.safetensors")
    torch.save(tensors, saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no model.safetensors. Pickled weights are not read"):
        HubBackbone.from_pretrained(saved)


def test_weights_are_never_taken_in_part(saved):
    with pytest.raises(ValueError, match="not those of resnet10t as it is made here"):
        HubBackbone.from_pretrained(saved, width=0.25)


def test_a_folder_without_configuration(saved):
    (saved / "config.json").unlink()
    with pytest.raises(ValueError, match=r"has no config.json"):
        HubBackbone.from_pretrained(saved)


def test_without_a_network_the_hub_says_so(tmp_path):
    with pytest.raises(LocalEntryNotFoundError):
        HubBackbone.from_pretrained("nobody/nothing", cache_dir=tmp_path)
