"""Resumed runs: made longer, without their last checkpoint, killed before they had a config."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from amcl.checkpoints import RunFolder, read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.cli import main
from amcl.config import Config
from amcl.errors import Interrupted, RunError
from amcl.methods import Method
from amcl.training import pretrain
from factories import small_run
from tiny_runs import assert_same_run, interrupt_at, picture_folder, tiny_vit

pytestmark = pytest.mark.usefixtures("few_images")


def small(**run: object) -> Config:
    """Two epochs of two steps."""
    return small_run(**{"batch_size": 80, "probe_every": 9} | run)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, few_images) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    pretrain(small(keep_every=1), run)
    return run


@pytest.fixture
def run(finished, tmp_path) -> Path:
    """A run of two epochs that has ended, with both checkpoints kept."""
    return shutil.copytree(finished, tmp_path / "run")


def starts(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "environment.jsonl").read_text().splitlines()]


def no_training(self, *args, **kwargs):
    raise AssertionError("a step was taken")


# -- longer runs


def test_a_finished_run_can_be_made_longer(run, capsys):
    before = read_metrics(run)
    assert main(["pretrain", "--resume", str(run), "--epochs", "4"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "the run has 4 epochs now instead of 2: from step 4 on" in said
    assert "has 4 epochs now" in (run / "log.txt").read_text()
    assert load_checkpoint(run / "checkpoints/last.pt")["step"] == 8
    assert Config.from_file(run / "config.toml").run.epochs == 4
    assert starts(run)[-1]["changed"] == {"epochs": [2, 4]}
    assert starts(run)[-1]["step"] == 4
    after = read_metrics(run)
    assert after[: len(before)] == before
    rates = [row["lr"] for row in after if row["kind"] == "step"]
    assert rates[4] == pytest.approx(0.5 * 5e-3)  # the middle of a cosine of four epochs
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert (run / "checkpoints/epoch-0004.pt").is_file()  # which the run keeps doing


def test_a_longer_run_resumes_bit_for_bit(run, tmp_path, monkeypatch):
    longer = small(keep_every=1, epochs=4)
    stopped = shutil.copytree(run, tmp_path / "stopped")
    pretrain(longer, run, resume=True)
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=2)
        with pytest.raises(Interrupted, match="after step 6 of 8"):
            pretrain(longer, stopped, resume=True)
    assert main(["pretrain", "--resume", str(stopped)]) == 0
    assert_same_run(run, stopped)


def test_a_run_whose_loss_has_a_parameter_resumes_bit_for_bit(tmp_path, monkeypatch):
    config = small(form="sigmoid", sigmoid_bias=-4.0)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    pretrain(config, whole)
    bias = load_checkpoint(whole / "checkpoints/last.pt")["method"]["loss.contrast_form.bias"]
    assert bias != -4.0
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=2)
        with pytest.raises(Interrupted):
            pretrain(config, stopped)
    assert main(["pretrain", "--resume", str(stopped)]) == 0
    assert_same_run(whole, stopped)


def test_an_unfinished_run_can_be_made_longer_or_shorter(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=3)
        with pytest.raises(Interrupted):
            pretrain(small(epochs=4), run)
    resume = ["pretrain", "--resume", str(run), "--epochs"]
    assert main([*resume, "1"]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "has trained for 3 steps, more than --epochs 1 has: use --epochs 2 or more" in told
    assert Config.from_file(run / "config.toml").run.epochs == 4
    assert main([*resume, "2"]) == 0
    assert load_checkpoint(run / "checkpoints/last.pt")["step"] == 4
    assert starts(run)[-1]["changed"] == {"epochs": [4, 2]}
    assert main([*resume, "3"]) == 0
    assert load_checkpoint(run / "checkpoints/last.pt")["step"] == 6


def test_what_is_not_learned_may_change_on_resuming(run, capsys):
    told = ["--keep-every", "0", "--save-minutes", "5", "--log-every", "7", "--save-every", "2"]
    assert main(["pretrain", "--resume", str(run), *told, "--tensorboard", "--epochs", "3"]) == 0
    config = Config.from_file(run / "config.toml")
    assert (config.run.keep_every, config.run.save_minutes, config.run.log_every) == (0, 5.0, 7)
    assert starts(run)[-1]["changed"]["keep_every"] == [1, 0]
    assert not (run / "checkpoints/epoch-0003.pt").exists()
    assert (run / "tensorboard").is_dir()
    before = (run / "config.toml").read_bytes()
    assert main(["pretrain", "--resume", str(run), "--epochs", "4", "--lr", "1"]) == 2
    assert "--lr would change it" in " ".join(capsys.readouterr().err.split())
    assert (run / "config.toml").read_bytes() == before


def test_the_second_stage_of_lgp_can_be_made_longer(tmp_path):
    config = tiny_vit("lgp", picture_folder(tmp_path / "pictures", count=16), epochs=1)
    pretrain(config, tmp_path / "run")
    first = (tmp_path / "run/mae/backbone.safetensors").read_bytes()
    assert main(["pretrain", "--resume", str(tmp_path / "run"), "--epochs", "2"]) == 0
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 4
    assert (tmp_path / "run/mae/backbone.safetensors").read_bytes() == first


# -- lost checkpoints


def test_a_finished_run_without_checkpoints_is_left_alone(run, capsys, monkeypatch):
    shutil.rmtree(run / "checkpoints")
    before = {path.name: path.read_bytes() for path in run.glob("*.*")}
    monkeypatch.setattr(Method, "__call__", no_training)
    assert main(["pretrain", "--resume", str(run)]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "has finished its 2 epochs: nothing is left to do" in told
    assert {path.name: path.read_bytes() for path in run.glob("*.*")} == before


def test_a_finished_run_without_checkpoints_cannot_be_made_longer(run, capsys):
    shutil.rmtree(run / "checkpoints")
    before = {path.name: path.read_bytes() for path in run.glob("*.*")}
    assert main(["pretrain", "--resume", str(run), "--epochs", "4"]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "checkpoints of" in told
    assert "are gone" in told
    assert f"amcl pretrain --config {run}/config.toml --init {run}" in told
    assert {path.name: path.read_bytes() for path in run.glob("*.*")} == before


def test_a_run_without_its_last_checkpoint_goes_on_from_the_newest_that_was_kept(run, finished):
    for name in ("last.pt", "last-1.pt", "epoch-0002.pt"):
        (run / "checkpoints" / name).unlink()
    (run / "backbone.safetensors").unlink()
    assert main(["pretrain", "--resume", str(run)]) == 0
    log = (run / "log.txt").read_text()
    assert "last.pt is missing: the run is resumed from epoch-0001.pt" in log
    assert_same_run(finished, run)


def test_an_unfinished_run_that_lost_its_checkpoints_keeps_its_metrics(run):
    shutil.rmtree(run / "checkpoints")
    (run / "backbone.safetensors").unlink()
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match=r"are gone.*--config \S+config.toml$"):
        pretrain(small(), run, resume=True)
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_run_that_never_began_starts_from_step_0_and_says_so(tmp_path, caplog):
    RunFolder(tmp_path / "run").create(small(epochs=1))
    with caplog.at_level("INFO", logger="amcl"):
        pretrain(small(epochs=1), tmp_path / "run", resume=True)
    assert "has no checkpoint yet: it starts from step 0" in caplog.text


def test_every_run_with_metrics_has_a_checkpoint(tmp_path, monkeypatch):
    """Killed long before its first periodic checkpoint, a run still resumes."""
    seen = []

    def write(self, row):
        seen.append(self.checkpoint.is_file())

    monkeypatch.setattr(RunFolder, "write", write)
    pretrain(small(epochs=1), tmp_path / "run")
    assert seen
    assert all(seen)


def test_images_that_are_gone_are_no_reason_to_end_early(tmp_path, monkeypatch):
    folder = picture_folder(tmp_path / "pictures", count=32, size=16)
    config = tiny_vit("mae", folder, epochs=2)
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=6)
        with pytest.raises(Interrupted):
            pretrain(config, tmp_path / "run")
    for path in sorted(folder.iterdir())[8:]:
        path.unlink()
    with pytest.raises(RunError, match="there were 32 training images and there are 8"):
        pretrain(config, tmp_path / "run", resume=True)
    with pytest.raises(RunError, match="8 images make only 2: the images have changed"):
        pretrain(config, tmp_path / "run", resume=True, accept_changes=True)
    assert not (tmp_path / "run/backbone.safetensors").exists()


# -- folders that a kill left without their first file


@pytest.mark.parametrize("stage", ["run", "first stage"])
def test_leftovers_of_a_kill_do_not_count(tmp_path, stage):
    config = small(epochs=1)
    folder = tmp_path / "run"
    if stage == "first stage":
        config = tiny_vit("lgp", picture_folder(tmp_path / "pictures", count=8), epochs=1)
        RunFolder(folder).create(config)
    where = folder / "mae" if stage == "first stage" else folder
    where.mkdir()
    (where / ".config.toml.123.writing").write_text("[da")
    pretrain(config, folder, resume=stage == "first stage")
    assert (folder / "backbone.safetensors").is_file()


@pytest.mark.parametrize(
    "name", [".config.toml.writing", "a.1.writing", ".hidden", "config.toml.1"]
)
def test_other_files_do_count(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(RunError, match=r"empty folder.*--out"):
        RunFolder(tmp_path).check_free()


# The command line on few images, killed when a file is about to take its name.
_KILLED = """
import os, pathlib, signal, sys
from amcl.cli import main
from amcl.data import builtin

builtin._TRAIN, builtin._QUERIES = 160, 40
count, name = int(sys.argv[1]), sys.argv[2]
plain = pathlib.Path.replace

def replace(self, target):
    global count
    if pathlib.Path(target).name == name:
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, target)

pathlib.Path.replace = replace
sys.exit(main(sys.argv[3:]))
"""
_TINY = ["--data", "builtin", "--width", "0.125", "--epochs", "1", "--batch-size", "80"]
_TINY += ["--knn-k", "5", "--threads", "1"]
_SEARCH = ["search", *_TINY, "--space", "tau=0.1:0.5", "--trials", "1"]


@pytest.mark.parametrize(
    ("command", "file"),
    [
        pytest.param(["pretrain", *_TINY], "config.toml", marks=pytest.mark.slow),
        # Another process takes up a run after a minute without a sign of life.
        pytest.param(["sweep", *_TINY, "--grid", "tau=0.1"], "config.toml", marks=pytest.mark.slow),
        pytest.param(_SEARCH, "base.toml", marks=pytest.mark.slow),
        pytest.param(_SEARCH, "study.toml", marks=pytest.mark.slow),
    ],
    ids=["a run", "a sweep", "a study's base", "a study's listing"],
)
def test_a_kill_while_the_first_file_is_written_leaves_nothing_stuck(tmp_path, command, file):
    told = [*command, "--out", str(tmp_path / "out")]

    def carried_out(count: int) -> int:
        return subprocess.run(
            [sys.executable, "-c", _KILLED, str(count), file, *told],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
        ).returncode

    assert carried_out(1) == -signal.SIGKILL
    left = [path.name for path in (tmp_path / "out").rglob("*.writing")]
    assert any(re.fullmatch(rf"\.{file}\.\d+\.writing", name) for name in left)
    assert carried_out(0) == 0
    assert list((tmp_path / "out").rglob("backbone.safetensors"))
