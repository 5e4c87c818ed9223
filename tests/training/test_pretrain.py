"""The loop: what it leaves behind, that it resumes bit for bit, how it stops."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file

from amcl import recipes
from amcl.backbones import Backbone, BackboneSettings, load_backbone
from amcl.data.builtin import builtin
from amcl.methods import Method, make_method
from amcl.training import (
    Config,
    Interrupted,
    NonFiniteError,
    RunError,
    pretrain,
    read_metrics,
)
from amcl.training.checkpoint import load_checkpoint, save_tensors
from amcl.training.watch import Watch

METHODS = ("simclr", "moco", "simsiam", "barlow")


def small(method: str = "simclr", amcl: bool = True, **run: object) -> Config:
    """Two epochs of four steps on the built-in set."""
    config = recipes.recipe(f"builtin-{method}{'-amcl' * amcl}")
    settings = {"epochs": 2, "batch_size": 500, "probe_every": 1, "log_every": 1, **run}
    if method == "moco":
        config = replace(config, method=replace(config.method, queue=1500))
    return replace(
        config,
        run=replace(config.run, **settings),
        backbone=replace(config.backbone, width=0.125),
    )


def picture_folder(path: Path, count: int = 40, size: int = 32) -> Path:
    path.mkdir(parents=True)
    chance = torch.Generator().manual_seed(0)
    for i in range(count):
        pixels = torch.randint(256, (size, size, 3), dtype=torch.uint8, generator=chance)
        Image.fromarray(pixels.numpy()).save(path / f"{i:03d}.png")
    return path


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int, number: int = signal.SIGINT) -> None:
    """Send this process a signal during a step, as Ctrl-C would."""
    seen = {"steps": 0}
    plain = Method.__call__

    def call(self, *args, **kwargs):
        seen["steps"] += 1
        if seen["steps"] == step:
            os.kill(os.getpid(), number)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Method, "__call__", call)


def assert_same_run(first: Path, second: Path) -> None:
    """Weights, queue, φ, optimiser, backbone and metrics are equal, bit for bit."""

    def flat(value, name=""):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flat(inner, f"{name}/{key}")
        elif isinstance(value, list | tuple):
            for key, inner in enumerate(value):
                yield from flat(inner, f"{name}/{key}")
        else:
            yield name, value

    a, b = (dict(flat(load_checkpoint(run / "checkpoints/last.pt"))) for run in (first, second))
    assert a.keys() == b.keys()
    for name, value in a.items():
        equal = torch.equal(value, b[name]) if torch.is_tensor(value) else value == b[name]
        assert equal, name
    assert (first / "backbone.safetensors").read_bytes() == (
        second / "backbone.safetensors"
    ).read_bytes()

    def rows(run):
        return [{k: v for k, v in r.items() if k != "images_per_second"} for r in read_metrics(run)]

    assert rows(first) == rows(second)


@pytest.mark.parametrize("method", METHODS)
def test_resume_is_bit_exact(tmp_path, monkeypatch, method):
    config = small(method)
    pretrain(config, tmp_path / "straight")
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=6)
        with pytest.raises(Interrupted, match=r"after step 6 of 8.*--resume"):
            pretrain(config, tmp_path / "stopped")
    assert not (tmp_path / "stopped/backbone.safetensors").exists()
    pretrain(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "straight", tmp_path / "stopped")
    steps = [row["step"] for row in read_metrics(tmp_path / "stopped") if row["kind"] == "step"]
    assert steps == list(range(1, 9))


def test_resume_after_kill(tmp_path):
    config = small("moco", save_minutes=0.0)
    pretrain(config, tmp_path / "straight")
    (tmp_path / "config.toml").write_text(config.to_toml())
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "amcl", "pretrain"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--config", str(tmp_path / "config.toml"), "--out", str(killed)],
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    metrics = killed / "metrics.jsonl"
    deadline = time.monotonic() + 100
    while not (metrics.exists() and len(metrics.read_text().splitlines()) >= 3):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # What a kill in the middle of writing leaves: a part of a checkpoint, a part of a line.
    (killed / "checkpoints/last.pt.writing").write_bytes(b"half")
    with metrics.open("a") as file:
        file.write('{"kind": "st')
    assert 0 < load_checkpoint(killed / "checkpoints/last.pt")["step"] < 8
    done = subprocess.run(
        [*command, "--resume", str(killed)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "straight", killed)


def test_a_run_that_never_saved_begins_again(tmp_path):
    config = small(epochs=1)
    pretrain(config, tmp_path / "straight")
    (tmp_path / "early/checkpoints").mkdir(parents=True)
    (tmp_path / "early/config.toml").write_text(config.to_toml())
    pretrain(config, tmp_path / "early", resume=True)
    assert_same_run(tmp_path / "straight", tmp_path / "early")


def test_sigterm_saves_too(tmp_path, monkeypatch):
    interrupt_at(monkeypatch, step=2, number=signal.SIGTERM)
    with pytest.raises(Interrupted) as stopped:
        pretrain(small(), tmp_path / "run")
    assert stopped.value.exit_code == 143
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 2


@pytest.mark.parametrize("method", [pytest.param("simclr", marks=pytest.mark.slow), "moco"])
def test_two_processes_give_the_curve_of_one(tmp_path, method):
    """Without batch norm, half a batch on each of two processes is the whole batch on one."""
    folder = picture_folder(tmp_path / "pictures")
    config = replace(
        recipes.default(str(folder), method),
        backbone=BackboneSettings(backbone="vit_tiny_patch16_224", width=0.3),
    )
    method_settings = replace(config.method, heads=2, temperature="adaptive", projector=(32, 16))
    if method == "moco":
        method_settings = replace(method_settings, queue=32)
    config = replace(
        config,
        method=method_settings,
        optimiser=replace(config.optimiser, warmup_epochs=0),
        data=replace(config.data, workers=0),
        run=replace(config.run, epochs=2, batch_size=16, log_every=1, accumulate=2),
    )
    pretrain(config, tmp_path / "one")
    (tmp_path / "config.toml").write_text(config.to_toml())
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "amcl", "pretrain"),
            *("--config", str(tmp_path / "config.toml"), "--out", str(tmp_path / "two")),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr
    one, two = (
        [r["loss"] for r in read_metrics(tmp_path / run) if r["kind"] == "step"]
        for run in ("one", "two")
    )
    assert len(one) == 4
    assert two == pytest.approx(one, rel=1e-4)
    a, b = (load_file(tmp_path / run / "backbone.safetensors") for run in ("one", "two"))
    for name in a:
        torch.testing.assert_close(b[name], a[name], rtol=0, atol=2e-3)


def test_accumulated_steps_see_every_image_once(tmp_path):
    config = small(accumulate=2, epochs=1)
    pretrain(config, tmp_path / "run")
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    config = small(keep_every=1, tensorboard=True)
    pretrain(replace(config, optimiser=replace(config.optimiser, clip=1.0)), run)
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
        "epoch-0001.pt",
        "epoch-0002.pt",
    }
    log = (finished / "log.txt").read_text()
    assert "2,000 images" in log
    assert "epoch 2/2" in log
    environment = json.loads((finished / "environment.jsonl").read_text())
    assert environment["packages"]["torch"].startswith("2.")


def test_a_single_held_out_image_has_no_spread():
    data = builtin()
    alone = replace(data.probe, queries=data.probe.queries.subset(torch.tensor([3])))
    watch = Watch(replace(data, probe=alone), knn_k=5)
    config = small()
    method = make_method(config.method, Backbone(config.backbone, 32))
    found = watch.probe(method, torch.device("cpu"))
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
    config = small(batch_size=8, epochs=1)
    folder = replace(config.data, data=str(tmp_path / "set"), memory=0.0, workers=0)
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
    mean, std = backbone.normalisation
    assert len(mean) == len(std) == 3
    with pytest.raises(FileNotFoundError, match="--resume"):
        load_backbone(tmp_path)
    save_tensors(tmp_path / "other.safetensors", {"a": torch.zeros(1)}, {})
    with pytest.raises(ValueError, match="not written by amcl"):
        load_backbone(tmp_path / "other.safetensors")


def test_a_folder_that_holds_a_run_is_never_written_over(finished, tmp_path):
    before = (finished / "metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match=r"holds a run already.*--resume"):
        pretrain(small(), finished)
    assert (finished / "metrics.jsonl").read_bytes() == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not an empty folder"):
        pretrain(small(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_resuming_a_finished_run_changes_nothing(finished):
    before = (finished / "backbone.safetensors").read_bytes()
    pretrain(Config.from_file(finished / "config.toml"), finished, resume=True)
    assert (finished / "backbone.safetensors").read_bytes() == before


def test_divergence_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    config = small(save_minutes=0.0)
    plain = Method.__call__
    seen = {"steps": 0}

    def call(self, *args, **kwargs):
        seen["steps"] += 1
        return plain(self, *args, **kwargs) * (float("nan") if seen["steps"] == 4 else 1.0)

    monkeypatch.setattr(Method, "__call__", call)
    with pytest.raises(NonFiniteError, match=r"not finite after step 4.*--lr") as stopped:
        pretrain(config, tmp_path / "run")
    assert stopped.value.exit_code == 3
    state = load_checkpoint(tmp_path / "run/checkpoints/last.pt")
    assert state["step"] == 3
    assert all(torch.isfinite(v).all() for v in state["method"].values() if v.is_floating_point())


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    config = small(save_minutes=0.0)
    config = replace(config, optimiser=replace(config.optimiser, optimiser="sgd", lr=1e38))
    with pytest.raises(NonFiniteError, match="is not finite"):
        pretrain(config, tmp_path / "run")


def test_full_disk_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    plain, calls = torch.save, {"saves": 0}

    def save(state, file):
        calls["saves"] += 1
        if calls["saves"] == 2:
            file.write(b"half of a checkpoint")
            raise OSError(28, "No space left on device")
        plain(state, file)

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(RunError, match="No space left"):
        pretrain(small(save_minutes=0.0), tmp_path / "run")
    assert [p.name for p in (tmp_path / "run/checkpoints").iterdir()] == ["last.pt"]
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 1


def unlabelled(folder: Path, memory: float, batch_size: int = 16) -> Config:
    config = small(batch_size=batch_size, epochs=1)
    return replace(config, data=replace(config.data, data=str(folder), memory=memory, workers=1))


@pytest.mark.parametrize("memory", [1.0, 0.0], ids=["in memory", "streamed"])
def test_unlabelled_folder_with_broken_pictures(tmp_path, memory, caplog):
    folder = picture_folder(tmp_path / "pictures" / "deep" / "er")
    (folder / "000a.jpg").write_bytes(b"no picture")
    pretrain(unlabelled(folder.parent.parent, memory), tmp_path / "run")
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
        pretrain(unlabelled(folder, 1.0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_same_seed_is_the_same_run_and_another_is_not(tmp_path):
    config = small(epochs=1)
    pretrain(config, tmp_path / "a")
    torch.manual_seed(123)  # what ran before does not matter
    pretrain(config, tmp_path / "b")
    assert_same_run(tmp_path / "a", tmp_path / "b")
    pretrain(replace(config, run=replace(config.run, seed=1)), tmp_path / "c")
    assert read_metrics(tmp_path / "c")[0]["loss"] != read_metrics(tmp_path / "a")[0]["loss"]


def test_collapse_is_told_with_its_remedy(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("amcl.training.watch.spread", lambda features: 0.01)
    with caplog.at_level("WARNING", logger="amcl"):
        pretrain(small(epochs=1), tmp_path / "run")
    assert "collapsed" in caplog.text
    assert "--tau-lower" in caplog.text


def test_two_processes_never_train_in_one_folder(finished):
    from amcl.training.run_folder import RunFolder

    folder = RunFolder(finished)
    folder.open(10**9)
    try:
        with pytest.raises(RunError, match="another process is training"):
            RunFolder(finished).open(10**9)
    finally:
        folder.close()
