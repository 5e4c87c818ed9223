"""An image is fed alike, whatever the processes and the parts of a batch."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from amcl.backbones import Backbone
from amcl.checkpoints import read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.config import Config
from amcl.data import Batch, load_dataset, stream
from amcl.methods import make_method
from amcl.training import pretrain
from amcl.training.hardware import make_fabric
from amcl.training.plan import Plan
from amcl.training.pretraining_task import PretrainingTask
from factories import small_run
from tiny_runs import picture_folder, tiny_vit

pytestmark = pytest.mark.usefixtures("few_images")


def task_of(config, data, plan):
    """The task on this process, as though it were one of several."""
    method = make_method(config.method, Backbone(config.backbone, data.image_size))
    config = replace(config, hardware=replace(config.hardware, channels_last=False))
    return PretrainingTask(make_fabric(config.hardware), config, plan, data, method)


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
    [
        "moco",
        *(
            pytest.param(m, marks=pytest.mark.slow)
            for m in ("simclr", "mae", "can", "byol", "nnclr", "dino")
        ),
    ],
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


@pytest.mark.parametrize("method", ["mae", "can"])
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


def labeled_folder(path: Path) -> Path:
    """Two classes of twelve pictures, of which one cannot be read."""
    for name in ("a", "b"):
        picture_folder(path / name, count=12)
    (path / "a" / "011.png").write_bytes(b"no picture")
    return path


def test_labels_are_those_of_the_images_that_were_read(tmp_path):
    """A file that cannot be read is replaced by the next one, here of another class."""
    folder = labeled_folder(tmp_path / "pictures")
    config = tiny_vit("supcon", folder)
    data = load_dataset(
        str(folder), image_size=16, workers=0, validation=0, memory=0, train_labels=True
    )
    task = task_of(config, data, Plan(24, 3, 1, 1, 0, 0, 1))
    (batch,) = stream(data.train, [torch.tensor([11, 0, 20])], workers=0)
    assert task.inputs(batch, 0)[1]["labels"].tolist() == [1, 0, 1]
    unlabeled = task_of(config, replace(data, labels=None), Plan(24, 3, 1, 1, 0, 0, 1))
    with pytest.raises(ValueError, match=r"SupCon learns from labels.*train_labels=True"):
        unlabeled.inputs(batch, 0)


def test_a_run_that_learns_from_labels_needs_them_before_it_begins(tmp_path):
    folder = picture_folder(tmp_path / "pictures")
    with pytest.raises(ValueError, match=r"do not all lie in <class>/<file>.*--labels folders"):
        pretrain(tiny_vit("supcon", folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_accumulated_steps_see_every_image_once(tmp_path):
    config = small_run(accumulate=2, epochs=1)
    pretrain(config, tmp_path / "run")
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 4
