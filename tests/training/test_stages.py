"""Where a run starts: random weights, another run's backbone, or LGP's first stage, a MAE."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from amcl import recipes
from amcl.backbones import BackboneSettings, load_backbone
from amcl.checkpoints import RunFolder, open_model, read_metrics
from amcl.config import Config
from amcl.errors import RunError
from amcl.methods import METHODS, LGPSettings, MAESettings, Method
from amcl.temperature import AdaptiveSettings
from amcl.training import pretrain
from amcl.training.start import first_stage, first_weights
from stages import assert_anchored, assert_equal, stopped, weights
from tiny_runs import assert_same_run, tiny_vit

STEPS = 4  # of each stage


@pytest.fixture(scope="module")
def straight(pictures):
    """LGP, both stages in one go. Do not write into it."""
    path = pictures.parent / "runs/straight"
    pretrain(tiny_vit("lgp", pictures), path)
    return path


# -- LGP's two stages


@pytest.mark.parametrize("method", METHODS.names())
def test_only_lgp_without_init_has_a_first_stage(method, tmp_path):
    config = recipes.recipe(f"imagenet-{method}" if method != "lgp" else "imagenet-lgp-amcl")
    given = replace(config, run=replace(config.run, init="runs/mae"))
    folder = RunFolder(tmp_path)
    assert first_stage(given) is None
    with pytest.raises(FileNotFoundError, match="'runs/mae'"):
        first_weights(given, folder, 224)
    assert (first_stage(config) is None) == (method != "lgp")
    if method == "lgp":
        with pytest.raises(FileNotFoundError, match=r"mae/backbone\.safetensors'"):
            first_weights(config, folder, 224)
    else:
        assert first_weights(config, folder, 224) is None


def test_the_first_stage_is_mae_as_published():
    config = recipes.recipe("imagenet-lgp-large-amcl")
    config = replace(
        config,
        method=replace(
            config.method, mask_ratio=0.6, decoder_dim=256, mae_epochs=77, mae_lr=3e-4, pull=0.1
        ),
        optimizer=replace(config.optimizer, clip=1.0),
        views=replace(config.views, crop_scale=(0.5, 1.0), overlap=0.5),
        run=replace(config.run, seed=9),
    )
    stage, published = first_stage(config), recipes.recipe("imagenet-mae-large")
    assert stage.method == MAESettings(mask_ratio=0.6, decoder_dim=256)
    assert (stage.views.operations, stage.views.crop_scale) == ("ae", (0.2, 1.0))
    assert (stage.views.min_overlap, stage.views.overlap) == (0.0, None)
    assert stage.optimizer == replace(published.optimizer, lr=3e-4, clip=1.0)
    assert stage.run == replace(config.run, epochs=77)
    assert (stage.data, stage.backbone, stage.hardware) == (
        config.data,
        config.backbone,
        config.hardware,
    )
    plain = recipes.recipe("imagenet-lgp-large")  # of its views, what is switched off may differ
    run = replace(plain.run, epochs=plain.method.mae_epochs)  # its batches are those of LGP
    published = replace(published, hardware=plain.hardware, views=stage.views, run=run)
    assert first_stage(plain) == published


@pytest.mark.parametrize(("letters", "kept"), [("bcd", ""), ("ace", "ae"), ("dea", "ea")])
def test_views_that_are_switched_off_stay_off(letters, kept):
    config = recipes.recipe("builtin-lgp")
    stage = first_stage(replace(config, views=replace(config.views, operations=letters)))
    assert sorted(stage.views.operations) == sorted(kept)


def test_lgp_is_two_whole_runs(straight, pictures):
    first, second = straight / "mae", straight
    config = tiny_vit("lgp", pictures)
    assert Config.from_file(second / "config.toml") == config
    assert Config.from_file(first / "config.toml") == first_stage(config)
    for run, name in ((first, "mae"), (second, "lgp")):
        assert (run / "environment.jsonl").is_file()
        log = (run / "log.txt").read_text()
        assert f"{name}" in log
        assert "epoch 2/2" in log
        steps = [row["step"] for row in read_metrics(run) if row["kind"] == "step"]
        assert steps == list(range(1, STEPS + 1))
        assert open_model(run).config.method.name == name
        assert load_backbone(run).settings == config.backbone
    epochs = [row for row in read_metrics(second) if row["kind"] == "epoch"]
    assert {"term/distance", "tau_positive/head2"} <= epochs[-1].keys()
    assert "term/reconstruction" not in epochs[-1]
    assert_anchored(second, first)


def test_the_length_of_both_stages_is_told_before_the_first(
    pictures, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(sys.modules["amcl.training.pretrain"], "_train", lambda *args: None)
    with caplog.at_level("INFO", logger="amcl"):
        pretrain(tiny_vit("lgp", pictures, epochs=3), tmp_path / "run")
    first = next(message for message in caplog.messages if "two stages" in message)
    assert "2 epochs of MAE (--mae-epochs), then 3 of lgp (--epochs)" in first


def test_the_first_stage_is_the_run_of_its_configuration(straight, pictures, tmp_path):
    """Beside the run it belongs to, or alone: the same."""
    pretrain(first_stage(tiny_vit("lgp", pictures)), tmp_path / "alone")
    assert_same_run(tmp_path / "alone", straight / "mae")
    config = tiny_vit("lgp", pictures, init=str(tmp_path / "alone"))
    pretrain(config, tmp_path / "second")
    assert_equal(weights(tmp_path / "second"), weights(straight))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "message"),
    [
        (3, "after step 3 of 4"),
        (STEPS, "after step 4 of 4"),
        (STEPS + 1, "after step 1 of 4"),
        (STEPS + 3, "after step 3 of 4"),
    ],
    ids=["in the first stage", "at its end", "at the second's start", "in the second"],
)
def test_one_folder_goes_on_in_the_stage_it_was(
    straight, pictures, tmp_path, monkeypatch, step, message
):
    config, out = tiny_vit("lgp", pictures), tmp_path / "out"
    stopped(monkeypatch, config, out, step, message)
    assert (out / "mae/backbone.safetensors").exists() == (step > STEPS)
    assert not (out / "backbone.safetensors").exists()
    assert (out / "checkpoints/last.pt").exists() == (step > STEPS)
    with pytest.raises(RunError, match=rf"--resume {re.escape(str(out))}"):
        pretrain(config, out)
    pretrain(RunFolder(out).read_config(), out, resume=True)
    assert_same_run(straight / "mae", out / "mae")
    assert_same_run(straight, out)


def test_a_first_stage_that_served_is_not_made_again(straight, pictures, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(straight, out)
    shutil.rmtree(out / "mae")
    (out / "backbone.safetensors").unlink()
    pretrain(tiny_vit("lgp", pictures), out, resume=True)
    assert not (out / "mae").exists()
    assert (out / "backbone.safetensors").exists()


_LATE = """
import sys, time
import amcl.training
from amcl.cli.pretrain import main


loop = sys.modules["amcl.training.pretrain"]
write = loop.export_backbone
loop.export_backbone = lambda path, *rest: (time.sleep(3), write(path, *rest))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_all_processes_wait_for_the_weights_of_the_first_stage(pictures, tmp_path):
    config = tiny_vit("lgp", pictures)
    (tmp_path / "config.toml").write_text(config.to_toml())
    (tmp_path / "late.py").write_text(_LATE)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(tmp_path / "late.py")),
            *("--config", str(tmp_path / "config.toml"), "--out", str(tmp_path / "out")),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/backbone.safetensors").exists()


def test_the_second_stage_is_checked_before_the_first(tmp_path):
    wrong = AdaptiveSettings(tau_lower=2.0, tau_upper=1.0)
    with pytest.raises(ValueError, match=r"lower=2\.0, upper=1\.0"):
        Config(method=LGPSettings(temperature=wrong))


def test_the_first_stage_has_maes_optimizer_whatever_the_second_has():
    config = recipes.recipe("imagenet-lgp")
    lars = replace(config, optimizer=replace(config.optimizer, name="lars", lr=0.3))
    assert first_stage(lars) == first_stage(config)


def test_stopped_between_the_stages(straight, pictures, tmp_path):
    """Killed when the first had ended and the second had saved nothing yet."""
    out = tmp_path / "out"
    shutil.copytree(straight / "mae", out / "mae")
    (out / "checkpoints").mkdir()
    shutil.copy(straight / "config.toml", out)
    pretrain(tiny_vit("lgp", pictures), out, resume=True)
    assert_same_run(straight, out)


def test_killed_before_the_first_stage_began(straight, pictures, tmp_path):
    config = tiny_vit("lgp", pictures)
    RunFolder(tmp_path / "out").create(config)
    pretrain(config, tmp_path / "out", resume=True)
    assert_same_run(straight, tmp_path / "out")


def test_the_first_stage_can_be_finished_alone(straight, pictures, tmp_path, monkeypatch):
    config, out = tiny_vit("lgp", pictures), tmp_path / "out"
    stopped(monkeypatch, config, out, 3, "after step 3 of 4")
    pretrain(RunFolder(out / "mae").read_config(), out / "mae", resume=True)
    pretrain(config, out, resume=True)
    assert_same_run(straight, out)


def test_resuming_both_when_they_have_ended_changes_nothing(
    straight, pictures, tmp_path, monkeypatch
):
    out = shutil.copytree(straight, tmp_path / "out")

    def trains(self, *args, **kwargs):
        raise AssertionError("a run that has ended trained again")

    monkeypatch.setattr(Method, "__call__", trains)
    pretrain(tiny_vit("lgp", pictures), out, resume=True)
    assert_same_run(straight, out)
    assert_same_run(straight / "mae", out / "mae")
    assert (out / "mae/log.txt").read_bytes() == (straight / "mae/log.txt").read_bytes()


def test_a_finished_pair_is_never_written_over(straight, pictures):
    before = weights(straight)
    for path in (straight, straight / "mae"):
        with pytest.raises(RunError, match=f"--resume {path};.*--out"):
            pretrain(tiny_vit("lgp", pictures), path)
    assert_equal(weights(straight), before)


@pytest.mark.parametrize("wrong", ["batch size", "network"])
def test_a_pair_that_cannot_start_leaves_nothing(pictures, tmp_path, wrong):
    config = tiny_vit("lgp", pictures)
    if wrong == "network":
        config = replace(config, backbone=BackboneSettings(name="resnet10t", width=0.25))
    else:
        config = replace(config, run=replace(config.run, batch_size=64))
    with pytest.raises((RunError, ValueError), match=r"64 images|vision transformer"):
        pretrain(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
