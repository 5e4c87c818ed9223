"""What is saved: runs resume bit for bit, and the last good checkpoint stays."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from amcl.checkpoints import RunFolder, read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.cli import main
from amcl.errors import Interrupted, NonFiniteError, RunError
from amcl.methods import Method
from amcl.training import pretrain
from factories import small_run
from tiny_runs import assert_same_run, interrupt_at, picture_folder, tiny_vit

pytestmark = pytest.mark.usefixtures("few_images")


@pytest.mark.parametrize(
    "method",
    ["simclr", "moco", "simsiam", "barlow", "byol", "nnclr", "supcon", "vicreg", "dino"],
)
def test_resume_is_bit_exact(tmp_path, monkeypatch, method):
    check_resume(small_run(method), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": "isogclr"},
        {"temperature": "macl"},
        {"prior_tau": (0.05, 0.1, 0.2), "head_diversity": 0.3},
    ],
    ids=["isogclr", "macl", "heads that differ"],
)
def test_resume_is_bit_exact_with_other_temperatures(tmp_path, monkeypatch, options):
    config = small_run("simclr", **options)
    check_resume(config, tmp_path, monkeypatch)
    state = load_checkpoint(tmp_path / "straight/checkpoints/last.pt")["method"]
    taus = state.get("loss.temperature.individual_tau")
    if options.get("temperature") == "isogclr":  # one for each head and image, and they have moved
        assert taus.shape == (3, 160)
        assert (taus != config.method.temperature.tau).any()


def check_resume(config, tmp_path, monkeypatch):
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
@pytest.mark.parametrize("method", ["mae", "can", "mocov3", "dino"])
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
    config = small_run("moco", save_minutes=0.0)
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
    config = small_run(epochs=1)
    pretrain(config, tmp_path / "straight")
    (tmp_path / "early/checkpoints").mkdir(parents=True)
    (tmp_path / "early/config.toml").write_text(config.to_toml())
    pretrain(config, tmp_path / "early", resume=True)
    assert_same_run(tmp_path / "straight", tmp_path / "early")


def test_sigterm_saves_too(tmp_path, monkeypatch):
    interrupt_at(monkeypatch, step=2, number=signal.SIGTERM)
    with pytest.raises(Interrupted) as stopped:
        pretrain(small_run(), tmp_path / "run")
    assert stopped.value.exit_code == 143
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 2


def test_divergence_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    config = small_run(save_minutes=0.0)
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
    config = small_run(save_minutes=0.0)
    config = replace(config, optimizer=replace(config.optimizer, name="sgd", lr=1e9))
    with pytest.raises(NonFiniteError, match=r"--lr\b.*--clip 1"):
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
        pretrain(small_run(save_minutes=0.0), tmp_path / "run")
    names = {p.name for p in (tmp_path / "run/checkpoints").iterdir()}
    assert names == {"last.pt", "last-1.pt"}
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 1


def test_metrics_of_a_killed_run_are_read_up_to_its_last_whole_line(tmp_path):
    rows = [{"kind": "step", "step": step, "loss": 1.0} for step in (1, 2)]
    first, second = (json.dumps(row) + "\n" for row in rows)
    (tmp_path / "metrics.jsonl").write_text(first + second + second[:9])
    assert read_metrics(tmp_path) == rows
    (tmp_path / "metrics.jsonl").write_text(first + second[:9] + "\n" + second)
    with pytest.raises(ValueError, match=r"line 2 of .*metrics\.jsonl is damaged"):
        read_metrics(tmp_path)


def test_a_run_killed_as_its_folder_was_made_goes_on(tmp_path):
    config = tiny_vit("simclr", picture_folder(tmp_path / "pictures"))
    RunFolder(tmp_path / "run").create(config)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.toml"]
    pretrain(config, tmp_path / "run", resume=True)
    assert (tmp_path / "run/backbone.safetensors").is_file()
