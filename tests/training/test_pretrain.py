"""The loop: what it leaves behind, that it resumes bit for bit, how it stops."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from amcl import recipes
from amcl.backbones import Backbone, BackboneSettings, load_backbone
from amcl.checkpoints import RunFolder, read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.cli import main
from amcl.config import Config
from amcl.data import Batch, load_dataset
from amcl.data.builtin import builtin
from amcl.errors import Interrupted, NonFiniteError, RunError
from amcl.losses import LossStats, PairStats
from amcl.methods import MAESettings, Method, make_method
from amcl.training import pretrain
from amcl.training import watch as watching
from amcl.training.display import Display
from amcl.training.hardware import make_fabric
from amcl.training.plan import Plan
from amcl.training.pretraining_task import PretrainingTask
from amcl.training.watch import Watch
from factories import small_config
from tiny_runs import assert_same_run, interrupt_at, picture_folder, tiny_vit

MASKED = ("mae", "can")
loop = sys.modules["amcl.training.pretrain"]
pytestmark = pytest.mark.usefixtures("few_images")


def task_of(config, data, plan):
    """The task on this process, as though it were one of several."""
    method = make_method(config.method, Backbone(config.backbone, data.image_size))
    config = replace(config, hardware=replace(config.hardware, channels_last=False))
    return PretrainingTask(make_fabric(config.hardware), config, plan, data, method)


def small(method: str = "simclr", amcl: bool = True, **run: object) -> Config:
    """Two epochs of four steps on a built-in set of few images."""
    settings = {"epochs": 2, "batch_size": 40, "probe_every": 1, "log_every": 1, **run}
    if method == "moco":
        settings["queue"] = 120
    return small_config(f"builtin-{method}{'-amcl' * amcl}", **settings)


@pytest.mark.parametrize("method", ["simclr", "moco", "simsiam", "barlow"])
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


@pytest.mark.slow
@pytest.mark.parametrize("method", [*MASKED, "mocov3"])
def test_resume_is_bit_exact_for_vision_transformers(tmp_path, monkeypatch, method):
    """LGP, which has two runs to resume, is in test_stages.py."""
    config = tiny_vit(method, picture_folder(tmp_path / "pictures", count=32))
    pretrain(config, tmp_path / "straight")
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=6)
        with pytest.raises(Interrupted, match=r"after step 6 of 8.*--resume"):
            pretrain(config, tmp_path / "stopped")
    pretrain(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "straight", tmp_path / "stopped")


# A run on few images that is killed, as `kill -9` would, during its sixth step.
_KILLED = """
import signal, sys
import pytest
from amcl.cli import main
from amcl.data import builtin
from tiny_runs import interrupt_at

builtin._TRAIN, builtin._QUERIES = 160, 40
interrupt_at(pytest.MonkeyPatch(), 6, signal.SIGKILL)
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_resume_after_kill(tmp_path):
    config = small("moco", save_minutes=0.0)
    pretrain(config, tmp_path / "straight")
    (tmp_path / "config.toml").write_text(config.to_toml())
    killed = tmp_path / "killed"
    told = ["pretrain", "--config", str(tmp_path / "config.toml"), "--out", str(killed)]
    paths = [str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        [sys.executable, "-c", _KILLED, *told],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    # What a kill in the middle of writing leaves: a part of a checkpoint, a part of a line.
    (killed / "checkpoints/.last.pt.123.writing").write_bytes(b"half")
    with (killed / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "st')
    assert load_checkpoint(killed / "checkpoints/last.pt")["step"] == 5
    assert main(["pretrain", "--resume", str(killed)]) == 0
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


def without_batch_norm(method: str, folder: Path) -> Config:
    """Two epochs of two steps of 16 images, in two parts each."""
    config = tiny_vit(method, folder, batch_size=16, accumulate=2)
    plain = {"projector_norm": False, "projector_last_norm": "none"} if method != "mae" else {}
    if method == "moco":
        plain["queue"] = 32
    return replace(config, method=replace(config.method, **plain))


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    ["moco", *(pytest.param(m, marks=pytest.mark.slow) for m in ("simclr", "mae", "can"))],
)
def test_two_processes_give_the_curve_of_one(tmp_path, method):
    """Without batch norm, half a batch on each of two processes is the whole batch on one."""
    config = without_batch_norm(method, picture_folder(tmp_path / "pictures"))
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
        torch.testing.assert_close(b[name], a[name], rtol=0, atol=2e-4)


@pytest.mark.parametrize("method", MASKED)
def test_an_image_is_fed_alike_whatever_the_parts_and_processes(tmp_path, method):
    """Views, masks, σ and noise of an image depend on neither."""
    config = tiny_vit(method, picture_folder(tmp_path / "pictures", count=8))
    data = load_dataset(config.data.source, image_size=16, workers=0, validation=0)
    pixels = data.train[torch.arange(8)]
    shapes = torch.arange(16).view(8, 2) + 10.0

    def fed(world_size: int, accumulate: int) -> list[torch.Tensor]:
        found = []
        for part in range(accumulate):
            for rank in range(world_size):
                plan = Plan(8, 8, accumulate, 1, 0, rank, world_size)
                task = task_of(config, data, plan)
                rows = slice(*plan.rows(part))
                seen, beside = task.inputs(Batch(pixels[rows], shapes[rows]), 3, part)
                found.append([torch.stack(seen), *beside["drawn"]])
        return [torch.cat(values, dim=1) for values in zip(*found, strict=True)]

    whole = fed(1, 1)
    count = 1 if method == "mae" else 2
    assert [len(value) for value in whole] == [count] * 4
    assert len(whole[3].unique()) == 8 * count  # no two views share their noise
    assert (whole[2] > 0).any() == (method == "can")
    for world_size, accumulate in ((2, 1), (1, 2), (2, 2), (4, 2)):
        for one, several in zip(whole, fed(world_size, accumulate), strict=True):
            assert torch.equal(one, several)


def test_steps_draw_anew(tmp_path):
    config = tiny_vit("can", picture_folder(tmp_path / "pictures", count=8))
    data = load_dataset(config.data.source, image_size=16, workers=0, validation=0)
    task = task_of(config, data, Plan(8, 8, 1, 1, 0, 0, 1))
    batch = Batch(torch.zeros(8, 3, 16, 16, dtype=torch.uint8), None)

    def drawn(step: int):
        return task.inputs(batch, step)[1]["drawn"]

    first, again, later = (drawn(step) for step in (3, 3, 4))
    for a, b, c in zip(first, again, later, strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


def test_a_masked_batch_in_parts_is_the_same_batch(tmp_path):
    folder = picture_folder(tmp_path / "pictures", count=32)
    for parts in (1, 4):
        pretrain(tiny_vit("mae", folder, epochs=1, accumulate=parts), tmp_path / f"{parts}")
    whole, cut = (
        [r["loss"] for r in read_metrics(tmp_path / run) if r["kind"] == "step"]
        for run in ("1", "4")
    )
    assert len(set(whole)) == 4
    assert cut == pytest.approx(whole, rel=1e-5)


def test_accumulated_steps_see_every_image_once(tmp_path):
    config = small(accumulate=2, epochs=1)
    pretrain(config, tmp_path / "run")
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory, few_images) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    config = small(keep_every=1, tensorboard=True)
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
    for method in MASKED:
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
    config = replace(config, optimizer=replace(config.optimizer, name="sgd", lr=1e38))
    with pytest.raises(NonFiniteError, match="is not finite"):
        pretrain(config, tmp_path / "run")


def test_full_disk_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    plain, calls = torch.save, {"saves": 0}

    def save(state, file):
        calls["saves"] += 1
        if calls["saves"] == 3:  # after those of steps 0 and 1
            file.write(b"half of a checkpoint")
            raise OSError(28, "No space left on device")
        plain(state, file)

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(RunError, match="No space left"):
        pretrain(small(save_minutes=0.0), tmp_path / "run")
    names = {p.name for p in (tmp_path / "run/checkpoints").iterdir()}
    assert names == {"last.pt", "last-1.pt"}
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 1


def unlabeled(folder: Path, memory: float, batch_size: int = 16) -> Config:
    config = small(batch_size=batch_size, epochs=1)
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


def test_collapse_without_temperatures_speaks_of_none(monkeypatch):
    backbone = Backbone(BackboneSettings(name="test_vit"), 16)
    decoder = {"decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
    method = make_method(MAESettings(**decoder), backbone)
    (told,) = Watch(builtin(), knn_k=5).advice(method, {"spread": 0.01})
    assert "Lower the learning rate" in told
    assert "temperature" not in told


def watched(method: Method, s: float = 0.0, at_lower: float | None = None) -> Method:
    """The method after a step in which it saw these similarities of negatives."""
    share = None if at_lower is None else torch.tensor([at_lower])
    zero, one = torch.zeros(1), torch.ones(1)
    pairs = PairStats(one, zero + s, 0.1 * one, 0.01 * one, share, None if share is None else zero)
    method.stats = LossStats(replace(pairs, s=one), pairs, {})
    return method


@pytest.fixture(scope="module")
def any_method() -> Method:
    config = small(amcl=False)
    return make_method(config.method, Backbone(config.backbone, 32))


def test_projections_that_are_alike_are_no_collapse_of_features(any_method):
    """One sentence without a remedy, where the features are spread out."""
    watch = Watch(builtin(), knn_k=5)
    method = watched(any_method, s=0.955)
    (told,) = watch.advice(method, {"spread": 0.456, "effective_rank": 34.0})
    assert "mean s⁻ 0.955" in told
    assert "collapsed" not in told
    for measured in ({"spread": 0.456, "effective_rank": 1.2}, {"spread": 0.05}):
        assert any("nearly all alike" in each for each in watch.advice(method, measured))
    assert watch.advice(watched(method, s=0.3), {"spread": 0.5, "effective_rank": 30.0}) == []


def test_advice_on_temperatures_is_for_adaptive_ones(any_method):
    watch = Watch(builtin(), knn_k=5)
    spread = {"spread": 0.5, "effective_rank": 30.0}
    assert watch.advice(watched(any_method, at_lower=0.99), spread)
    constant = watch.advice(watched(any_method), {"spread": 0.01, "effective_rank": 1.0})
    adaptive = watch.advice(watched(any_method, at_lower=0.5), {"spread": 0.01})
    assert not any("tau" in each or "temperature" in each for each in constant)
    assert any("--tau-lower" in each for each in adaptive)


@pytest.mark.parametrize(("warmup", "told"), [(0.0, [2, 3, 4, 5]), (3.0, [3, 4, 5])])
def test_nothing_is_told_while_the_run_is_young(tmp_path, caplog, monkeypatch, warmup, told):
    """Neither in the first tenth of the steps nor in the warm-up."""
    monkeypatch.setattr(watching, "_EARLY", 0.3)
    monkeypatch.setattr(Watch, "probe", lambda *args: {"spread": 0.01})
    config = small(amcl=False, epochs=5, batch_size=160)
    config = replace(config, optimizer=replace(config.optimizer, warmup_epochs=warmup))
    with caplog.at_level("WARNING", logger="amcl"):
        pretrain(config, tmp_path / "run")
    epochs = re.findall(r"epoch (\d): the features have collapsed", caplog.text)
    assert [int(epoch) for epoch in epochs] == told


@pytest.mark.parametrize(("amcl", "speaks"), [(True, True), (False, False)])
def test_divergence_speaks_of_temperatures_that_adapt(tmp_path, amcl, speaks):
    config = small(amcl=amcl)
    config = replace(config, optimizer=replace(config.optimizer, name="sgd", lr=1e38))
    with pytest.raises(NonFiniteError) as stopped:
        pretrain(config, tmp_path / "run")
    assert ("--tau-lower" in str(stopped.value)) == speaks


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [(0.1, []), (4.0, [8, 16, 28, 36]), (100.0, [2, 4, 6, 8, 10, 12, 14, 16, 18])],
    ids=["short epochs", "at most each 30 s", "at most each tenth"],
)
def test_long_epochs_are_told_of_in_lines(caplog, monkeypatch, seconds, steps):
    """Two epochs of 20 steps; the first only where each takes long."""
    clock = {"now": 0.0}
    monkeypatch.setattr("amcl.training.display.time.perf_counter", lambda: clock["now"])
    monkeypatch.setattr("amcl.training.display.console", Console(file=io.StringIO()))
    display, told = Display(40, 20, 8, shown=True), []
    with caplog.at_level("INFO", logger="amcl"), display:
        display.start(0)
        for step in range(1, 41 if seconds < 100 else 21):
            clock["now"] += seconds
            display.advance(step, 1.5)
            told += [step] * len(caplog.records)
            caplog.clear()
            if step % 20 == 0:
                display.mark(step)
    assert told == steps


def test_a_line_within_an_epoch_tells_how_far_it_is(caplog, monkeypatch):
    clock = {"now": 0.0}
    monkeypatch.setattr("amcl.training.display.time.perf_counter", lambda: clock["now"])
    monkeypatch.setattr("amcl.training.display.console", Console(file=io.StringIO()))
    display = Display(40, 20, 8, shown=True)
    display.start(0)
    clock["now"] = 60.0
    with caplog.at_level("INFO", logger="amcl"):
        display.advance(5, 1.5)
        Display(40, 20, 8, shown=False)
    assert caplog.messages == ["epoch 1/2  25 %  loss 1.5000  1 images/s  7 min left"]


@pytest.mark.parametrize(("package", "value"), [("tensorboard", True), ("wandb", "mine")])
def test_a_missing_tracker_is_told_first(tmp_path, monkeypatch, package, value):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(loop, "load_data", lambda config: pytest.fail("too late"))
    with pytest.raises(RunError, match=f"--{package} needs {package}"):
        pretrain(small(**{package: value}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_processes_never_train_in_one_folder(finished):
    from amcl.checkpoints.run_folder import RunFolder

    folder = RunFolder(finished)
    folder.open(10**9)
    try:
        with pytest.raises(RunError, match="another process is training"):
            RunFolder(finished).open(10**9)
    finally:
        folder.close()


def test_metrics_of_a_killed_run_are_read_up_to_its_last_whole_line(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n{"ste')
    assert read_metrics(tmp_path) == [{"step": 1}, {"step": 2}]
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"ste\n{"step": 2}\n')
    with pytest.raises(ValueError, match="line 1"):
        read_metrics(tmp_path)


def test_a_run_killed_as_its_folder_was_made_goes_on(tmp_path):
    config = tiny_vit("simclr", picture_folder(tmp_path / "pictures"))
    RunFolder(tmp_path / "run").create(config)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.toml"]
    pretrain(config, tmp_path / "run", resume=True)
    assert (tmp_path / "run/backbone.safetensors").is_file()
