"""The loop: what it leaves behind, that it resumes bit for bit, how it stops."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from amcl import recipes
from amcl.backbones import Backbone, load_backbone
from amcl.checkpoints import read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.config import Config
from amcl.data.builtin import builtin
from amcl.errors import RunError
from amcl.methods import make_method
from amcl.training import pretrain
from amcl.training.watch import Watch
from factories import small_run
from tiny_runs import assert_same_run, picture_folder, tiny_vit

pytestmark = pytest.mark.usefixtures("few_images")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, few_images) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    config = small_run(keep_every=1, tensorboard=True)
    pretrain(replace(config, optimizer=replace(config.optimizer, clip=1.0)), run)
    return run


def test_run_folder(finished):
    names = {path.name for path in finished.iterdir()}
    assert names >= {
        *("config.toml", "environment.jsonl", "metrics.jsonl", "log.txt", "checkpoints"),
        *("backbone.safetensors", "tensorboard"),
    }
    assert Config.from_file(finished / "config.toml").method.heads == 3
    assert {p.name for p in (finished / "checkpoints").iterdir()} == {
        "last.pt",
        "last-1.pt",
        "epoch-0001.pt",
        "epoch-0002.pt",
    }
    log = (finished / "log.txt").read_text()
    assert "160 images" in log
    assert "epoch 2/2" in log
    assert "kNN probe with k = 20" in log
    environment = json.loads((finished / "environment.jsonl").read_text())
    assert environment["packages"]["torch"].startswith("2.")


def test_the_probe_has_as_many_neighbors_as_a_class_has_images_unless_told():
    data = builtin()
    (size,) = set(data.probe.bank.labels.bincount().tolist())
    assert Watch(data, knn_k=None).knn_k == min(size, 200)
    assert Watch(data, knn_k=5).describe() == ["kNN probe with k = 5"]
    large = replace(data.probe, bank=data.probe.bank.subset(torch.arange(1600) % 160))
    large = replace(large, bank=replace(large.bank, labels=torch.arange(1600) % 4))
    assert Watch(replace(data, probe=large), knn_k=None).knn_k == 200  # as on CIFAR-10
    assert recipes.recipe("cifar10-simclr").run.knn_k is None
    few = replace(data, probe=replace(large, bank=large.bank.subset(torch.arange(40))))
    assert Watch(few, None).describe() == ["kNN probe with k = 10"]
    assert Watch(replace(data, probe=None), None).describe() == []


def test_a_single_held_out_image_has_no_spread():
    data = builtin()
    alone = replace(data.probe, queries=data.probe.queries.subset(torch.tensor([3])))
    watch = Watch(replace(data, probe=alone), knn_k=5)
    config = small_run()
    method = make_method(config.method, Backbone(config.backbone, 32))
    found = watch.probe(method.trained_backbone, torch.device("cpu"))
    assert found.keys() == {"knn_validation"}
    assert watch.advice(method, found) == []


def test_a_broken_image_that_is_found_late_does_not_stop_a_probe(tmp_path):
    chance = torch.Generator().manual_seed(0)
    for name in ("a", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(20):
            pixels = torch.randint(256, (32, 32, 3), generator=chance, dtype=torch.uint8)
            Image.fromarray(pixels.numpy()).save(tmp_path / "set" / name / f"{i}.png")
    for i in (1, 5, 9):
        (tmp_path / "set" / "a" / f"{i}.png").write_bytes(b"broken")
    config = small_run(batch_size=8, epochs=1)
    folder = replace(config.data, source=str(tmp_path / "set"), memory=0.0, workers=0)
    pretrain(replace(config, data=folder), tmp_path / "run")
    assert "knn_validation" in read_metrics(tmp_path / "run")[-1]


def test_metrics_tell_loss_temperatures_and_probes(finished):
    rows = read_metrics(finished)
    epochs = [row for row in rows if row["kind"] == "epoch"]
    steps = [row["loss"] for row in rows if row["kind"] == "step"]
    assert [row["epoch"] for row in epochs] == [1, 2]
    assert epochs[0]["loss"] == pytest.approx(sum(steps[:4]) / 4)
    assert epochs[1]["loss"] < epochs[0]["loss"]
    assert 0.05 < epochs[1]["tau_positive/head3"] < 1.05
    probe = [row for row in rows if row["kind"] == "probe"][-1]
    assert 0 < probe["knn_validation"] < 1
    assert 0 < probe["spread"] < 1


def test_metrics_tell_the_terms_of_a_loss(tmp_path):
    folder, last = picture_folder(tmp_path / "pictures", count=32), {}
    for method in ("mae", "can"):
        config = tiny_vit(method, folder, epochs=1)
        pretrain(config, tmp_path / method)
        step, last[method] = (
            [row for row in read_metrics(tmp_path / method) if row["kind"] == kind][-1]
            for kind in ("step", "epoch")
        )
        last[method]["last"] = step["loss"]
    assert last["mae"]["term/reconstruction"] == pytest.approx(last["mae"]["last"])
    assert not any("tau" in name or "head" in name for name in last["mae"])
    weights, can = config.method, last["can"]
    assert weights.contrast_weight * can["term/contrast"] + (
        weights.reconstruction_weight * can["term/reconstruction"]
    ) + weights.denoising_weight * can["term/denoising"] == pytest.approx(can["last"])
    assert 0.05 < can["tau_positive/head2"] < 1.05


def test_backbone_loads_into_plain_timm(finished):
    tensors = load_file(finished / "backbone.safetensors")
    with safe_open(finished / "backbone.safetensors", "pt") as file:
        settings = json.loads(file.metadata()["amcl"])
    assert settings["backbone"] == "resnet10t"
    plain = timm.create_model("resnet10t", num_classes=0, channels=(8, 16, 32, 64), stem_width=4)
    plain.load_state_dict(tensors)
    trained = load_checkpoint(finished / "checkpoints/last.pt")["method"]
    assert torch.equal(tensors["conv1.0.weight"], trained["backbone.network.conv1.0.weight"])


def test_backbone_loads_by_run_folder(finished, tmp_path):
    backbone = load_backbone(finished)
    trained = load_checkpoint(finished / "checkpoints/last.pt")["method"]
    for name, value in backbone.network.state_dict().items():
        assert torch.equal(value, trained[f"backbone.network.{name}"]), name
    assert backbone(torch.zeros(1, 3, 32, 32)).shape == (1, 64)
    assert not backbone.training
    mean, std = backbone.normalization
    assert len(mean) == len(std) == 3
    with pytest.raises(FileNotFoundError, match="--resume"):
        load_backbone(tmp_path)
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"/other\.safetensors .*\bamcl\b"):
        load_backbone(tmp_path / "other.safetensors")


def test_a_folder_that_holds_a_run_is_never_written_over(finished, tmp_path):
    before = (finished / "metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match=r"holds a run already.*--resume"):
        pretrain(small_run(), finished)
    assert (finished / "metrics.jsonl").read_bytes() == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"empty folder.*--out"):
        pretrain(small_run(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_resuming_a_finished_run_changes_nothing(finished):
    before = (finished / "backbone.safetensors").read_bytes()
    pretrain(Config.from_file(finished / "config.toml"), finished, resume=True)
    assert (finished / "backbone.safetensors").read_bytes() == before


def unlabeled(folder: Path, memory: float, batch_size: int = 16) -> Config:
    config = small_run(batch_size=batch_size, epochs=1)
    return replace(config, data=replace(config.data, source=str(folder), memory=memory, workers=1))


@pytest.mark.parametrize("memory", [1.0, 0.0], ids=["in memory", "streamed"])
def test_unlabeled_folder_with_broken_pictures(tmp_path, memory, caplog):
    folder = picture_folder(tmp_path / "pictures" / "deep" / "er")
    (folder / "000a.jpg").write_bytes(b"no picture")
    pretrain(unlabeled(folder.parent.parent, memory), tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    assert not any("knn" in name for row in rows for name in row)
    assert any("spread" in row for row in rows)
    log = (tmp_path / "run/log.txt").read_text()
    assert "000a.jpg" in log
    assert "no labels" in log


def test_batches_larger_than_the_set(tmp_path):
    folder = picture_folder(tmp_path / "pictures", count=12)
    with pytest.raises(
        RunError, match=r"batch of 16 images does not fit into the 12.*--batch-size"
    ):
        pretrain(unlabeled(folder, 1.0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_same_seed_is_the_same_run_and_another_is_not(tmp_path):
    config = small_run(epochs=1)
    pretrain(config, tmp_path / "a")
    torch.manual_seed(123)  # what ran before does not matter
    pretrain(config, tmp_path / "b")
    assert_same_run(tmp_path / "a", tmp_path / "b")
    pretrain(replace(config, run=replace(config.run, seed=1)), tmp_path / "c")
    assert read_metrics(tmp_path / "c")[0]["loss"] != read_metrics(tmp_path / "a")[0]["loss"]


def test_two_processes_never_train_in_one_folder(finished):
    from amcl.checkpoints.run_folder import RunFolder

    folder = RunFolder(finished)
    folder.open(10**9)
    try:
        with pytest.raises(RunError, match=f"process .*{finished} "):
            RunFolder(finished).open(10**9)
    finally:
        folder.close()
