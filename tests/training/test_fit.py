"""Settings that follow from the number of images and from the length of a run."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amcl import recipes
from amcl.checkpoints import read_metrics
from amcl.cli import main
from amcl.cli.pretrain import parse
from amcl.cli.start import length_notes
from amcl.config import Config
from amcl.config.fields import differing, with_values
from amcl.errors import RunError
from amcl.sweep.single_run import train_or_resume
from amcl.training import pretrain
from amcl.training.fit import at_length, fitted, suitable_batch
from amcl.views.channels import FITTED
from tiny_runs import interrupt_at, picture_folder

TINY = ["--backbone", "resnet10t", "--width", "0.125", "--image-size", "16", "--workers", "0"]


# -- the batch


@given(st.integers(2, 3000), st.integers(1, 512))
def test_a_suitable_batch_fits_and_leaves_little_over(images, most):
    size = suitable_batch(images, most)
    assert 1 <= size <= min(images, most)
    steps = images // size
    if size < most:  # it was lowered
        assert images - steps * size < 8
        assert steps <= 8
        assert steps >= min(8, images // 64)
    assert suitable_batch(images, size) == size  # nothing is left to change


def test_a_batch_is_divided_among_processes_and_parts():
    config = recipes.default("FOLDER", "simclr")
    config = replace(config, run=replace(config.run, fit=("batch_size",), accumulate=2))
    changed, notes = fitted(config, 360, processes=3)
    assert changed.run.batch_size == 42
    assert changed.run.fit is None
    assert "42 instead of 256, to suit 360 images" in notes[0]
    many, notes = fitted(config, 10**5, processes=3)
    assert many.run.batch_size == 252
    assert len(notes) == 1


def test_only_what_is_named_is_fitted():
    config = recipes.default("FOLDER", "moco")
    assert fitted(config, 40) == (config, [])
    queue, _ = fitted(replace(config, run=replace(config.run, fit=("queue",))), 300)
    assert (queue.run.batch_size, queue.method.queue) == (256, 512)
    both = replace(config, run=replace(config.run, fit=("batch_size", "queue")))
    changed, notes = fitted(both, 40)
    assert (changed.run.batch_size, changed.method.queue) == (40, 80)
    assert "the queue holds 80 projections instead of 4096" in notes[1]
    assert fitted(both, 10**5) == (config, [])


def test_negatives_are_as_many_as_are_asked_for():
    config = recipes.with_amcl(recipes.default("FOLDER", "simclr"))
    config = with_values(config, {"form": "top_k", "top_k": 100})
    config = replace(config, run=replace(config.run, fit=("batch_size",)))
    changed, _ = fitted(config, 200)
    assert changed.negatives == 100
    moco = with_values(recipes.default("FOLDER", "moco"), {"form": "top_k", "top_k": 300})
    moco = replace(moco, run=replace(moco.run, fit=("batch_size", "queue")))
    assert fitted(moco, 40)[0].method.queue == 300


def test_nnclr_keeps_the_projections_of_one_view_and_takes_negatives_from_the_batch():
    config = with_values(recipes.default("FOLDER", "nnclr"), {"form": "top_k", "top_k": 30})
    config = replace(config, run=replace(config.run, fit=("batch_size", "queue")))
    changed, notes = fitted(config, 40)
    assert (changed.run.batch_size, changed.method.queue, changed.negatives) == (40, 40, 39)
    assert "the queue holds 40 projections instead of 16384" in notes[1]


@pytest.mark.parametrize(
    ("args", "fit"),
    [
        (["--data", "some"], ("batch_size", *FITTED)),
        (["--method", "moco"], ("batch_size", "queue", *FITTED)),
        (["--method", "moco", "--queue", "512"], ("batch_size", *FITTED)),
        (["--method", "moco", "--batch_size=64"], ("queue", *FITTED)),
        (["--recipe", "cifar10-simclr", "--batch-size", "64"], FITTED),
        (["--views", "ae", "--batch-size", "64"], FITTED[1:]),
        (["--jitter", "0.4", "0.4", "0", "0"], ("batch_size", "views", *FITTED[2:])),
        (["--batch-size", "64", "--fit", "batch_size"], ("batch_size",)),
    ],
)
def test_what_is_typed_is_not_fitted(args, fit):
    assert parse(args).settings.run.fit == fit


def test_what_a_file_says_is_not_fitted(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(recipes.recipe("builtin-moco").to_toml())
    assert parse(["--config", str(file)]).settings.run.fit == FITTED
    file.write_text('[method]\nname = "moco"\n[run]\nfit = ["queue", "batch_size"]\n')
    assert parse(["--config", str(file), "--queue", "999"]).settings.run.fit == (
        "batch_size",
        *FITTED,
    )
    file.write_text('[views]\noperations = "ac"\ngray_p = 0.5\n')
    written = ("views", "gray_p")
    assert parse(["--config", str(file)]).settings.run.fit == tuple(
        name for name in FITTED if name not in written
    )


def test_values_of_a_grid_are_not_fitted():
    config = parse(["--method", "moco"]).settings
    assert with_values(config, {"tau": 0.5}).run.fit == ("batch_size", "queue", *FITTED)
    assert with_values(config, {"batch_size": 64}).run.fit == ("queue", *FITTED)
    assert with_values(config, {"batch_size": 64, "queue": 512}).run.fit == FITTED


@pytest.mark.parametrize("method", ["simclr", "moco", "nnclr"])
def test_a_folder_of_few_images_trains_by_default(tmp_path, capsys, method):
    """The first command of README, on 34 images."""
    folder = picture_folder(tmp_path / "pictures", count=34, size=16)
    told = ["--data", str(folder), "--method", method, "--heads", "3", "--temperature", "adaptive"]
    out = tmp_path / "run"
    assert main(["pretrain", *told, *TINY, "--epochs", "2", "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "the batch size is 34 instead of 256, to suit 34 images" in said
    assert "2 epochs of 1 step of 34 images: 2 steps" in said
    assert "learning rate 0.000364 (--lr 0.001, scaled to batches of 34)" in said
    config = Config.from_file(out / "config.toml")
    assert (config.run.batch_size, config.run.fit) == (34, None)
    assert main(["pretrain", "--resume", str(out)]) == 0


def test_a_typed_batch_that_does_not_fit_is_an_error_with_a_suggestion(tmp_path, capsys):
    folder = picture_folder(tmp_path / "pictures", count=34, size=16)
    out = tmp_path / "run"
    told = ["--data", str(folder), *TINY, "--batch-size", "64", "--out", str(out)]
    assert main(["pretrain", *told]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "a batch of 64 images does not fit into the 34 there are" in said
    assert "Use --batch-size 34, which makes 1 step an epoch" in said
    assert not out.exists()


def test_images_that_an_epoch_leaves_out_are_told(tmp_path, capsys):
    folder = picture_folder(tmp_path / "pictures", count=34, size=16)
    told = ["--data", str(folder), *TINY, "--batch-size", "10", "--epochs", "1"]
    assert main(["pretrain", *told, "--out", str(tmp_path / "run")]) == 0
    assert "each epoch leaves out 4 of 34 images, others each time" in capsys.readouterr().err
    assert "leaves out 4 of 34" in (tmp_path / "run/log.txt").read_text()


def test_a_run_of_a_sweep_goes_on_with_its_fitted_batch(tmp_path, monkeypatch):
    folder = picture_folder(tmp_path / "pictures", count=34, size=16)
    config = parse(["--data", str(folder), *TINY, "--epochs", "2"]).settings
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=1)
        with pytest.raises(RunError, match="after step 1 of 2"):
            train_or_resume(config, tmp_path / "run")
    assert train_or_resume(config, tmp_path / "run").status == "complete"
    assert Config.from_file(tmp_path / "run/config.toml").run.batch_size == 34
    (tmp_path / "run/backbone.safetensors").unlink()
    with pytest.raises(RunError, match=r"/run .*\(tau\)"):
        train_or_resume(with_values(config, {"tau": 0.3}), tmp_path / "run")


# -- the length


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_of_its_own_length_is_the_recipe(name):
    config = recipes.recipe(name)
    assert at_length(config, config.run.epochs) == config
    longer = at_length(config, 2 * config.run.epochs)
    assert longer.optimizer == config.optimizer


@pytest.mark.parametrize(
    ("epochs", "warmup"), [(200, 5.0), (400, 5.0), (50, 5.0), (20, 2.0), (2, 0.2), (1, 0.1)]
)
def test_the_warm_up_follows_the_length(epochs, warmup):
    config = parse(["--data", "some", "--epochs", str(epochs)]).settings
    assert config.optimizer.warmup_epochs == pytest.approx(warmup)
    typed = parse(["--data", "some", "--epochs", str(epochs), "--warmup-epochs", "0.5"]).settings
    assert typed.optimizer.warmup_epochs == 0.5


def test_a_shortened_warm_up_is_told(tmp_path, capsys):
    folder = picture_folder(tmp_path / "pictures", count=64, size=16)
    told = ["--data", str(folder), *TINY, "--epochs", "2", "--batch-size", "8"]
    assert main(["pretrain", *told, "--log-every", "1", "--out", str(tmp_path / "run")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "the warm-up is shortened from 5 to 0.2 epochs" in said
    assert "after a warm-up of 0.2 epochs, 2 steps" in said
    rates = [row["lr"] for row in read_metrics(tmp_path / "run") if row["kind"] == "step"]
    assert max(rates) == pytest.approx(1e-3 * (8 / 256) ** 0.5, rel=0.02)
    assert rates[-1] < 0.1 * max(rates)
    assert length_notes(["--data", "some", "--epochs", "2", "--warmup-epochs", "1"]) == []
    assert length_notes(["--data", "some", "--epochs", "100"]) == []


@pytest.mark.parametrize(
    "args",
    [
        ["--epochs", "3", "--warmup-epochs", "3"],
        ["--warmup-epochs", "1000"],
        ["--method", "lgp", "--mae-epochs", "2", "--warmup-epochs", "2"],
    ],
)
def test_a_typed_warm_up_as_long_as_the_run_is_an_error(args):
    with pytest.raises(ValueError, match=r"--warmup-epochs \d+ leaves none of --(mae-)?epochs \d+"):
        parse(["--data", "some", *args])


@pytest.mark.parametrize(
    ("args", "mae", "warmup"),
    [
        ([], 800, 20.0),
        (["--epochs", "100"], 200, 10.0),
        (["--epochs", "1"], 2, 0.1),
        (["--epochs", "1", "--mae-epochs", "5"], 5, 0.1),
        (["--mae-epochs", "5"], 5, 0.5),
    ],
)
def test_the_first_stage_of_lgp_follows_the_length(args, mae, warmup):
    config = parse(["--data", "some", "--method", "lgp", *args]).settings
    assert config.method.mae_epochs == mae
    assert config.optimizer.warmup_epochs == pytest.approx(warmup)


def test_a_run_within_its_warm_up_is_warned_of(tmp_path, caplog):
    folder = picture_folder(tmp_path / "pictures", count=16, size=16)
    config = parse(["--data", str(folder), *TINY]).settings
    with caplog.at_level("WARNING", logger="amcl"):
        pretrain(replace(config, run=replace(config.run, epochs=2)), tmp_path / "run")
    assert "the whole run lies within its warm-up of 5 epochs" in caplog.text


def test_fitted_settings_are_what_the_run_records(tmp_path):
    folder = picture_folder(tmp_path / "pictures", count=34, size=16)
    config = parse(["--data", str(folder), *TINY, "--epochs", "1"]).settings
    pretrain(config, tmp_path / "run")
    stored = Config.from_file(tmp_path / "run/config.toml")
    assert set(differing(config, stored)) == {"batch_size", "fit"}
    start = json.loads((tmp_path / "run/environment.jsonl").read_text())
    assert "changed" not in start
