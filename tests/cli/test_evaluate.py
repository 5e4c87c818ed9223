"""`amcl evaluate`, `embed`, `export` and `compare`: a run, and what may be wrong."""

import csv
import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.testing import assert_close

import amcl
from amcl.cli import main
from amcl.evaluation import read_results
from amcl.evaluation.finetuning.task import FinetuningTask
from amcl.training import pretrain
from tiny_runs import tiny_vit

QUICK = ["--epochs", "1", "--batch-size", "80", "--width", "0.125"]
KNN = ["--protocols", "knn"]
pytestmark = pytest.mark.usefixtures("few_images")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, few_images):
    """Two seeds of a tiny run."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in ("0", "1"):
        args = ["--seed", seed, "--out", str(folder / f"seed-{seed}")]
        assert main(["pretrain", "--data", "builtin", *QUICK, *args]) == 0
    return folder


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    """A copy of the first run, as `run` in the working folder."""
    shutil.copytree(trained / "seed-0", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.fixture
def pictures(tmp_path):
    """Two classes of pictures in train/ and test/, dark and light."""
    chance = np.random.default_rng(0)
    for split, n in (("train", 12), ("test", 4)):
        for number, name in enumerate(("dark", "light")):
            folder = tmp_path / "pictures" / split / name
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = chance.integers(100, size=(40, 50, 3)) + 150 * number
                Image.fromarray(pixels.astype("uint8")).save(folder / f"{i}.png")
    return tmp_path / "pictures"


def refused(capsys, *args, code=2):
    try:
        found = main(list(args))
    except SystemExit as left:
        found = left.code
    assert found == code
    return re.sub(r"[\s│╭╮╰╯─]+", " ", capsys.readouterr().err)


def test_a_run_needs_nothing_retyped(run, capsys):
    assert main(["evaluate", "run", "--linear.min-steps", "20", "--threads", "1"]) == 0
    shown = capsys.readouterr().out
    assert "run on builtin, validation" in shown
    found = {result.protocol: result for result in read_results(run)}
    assert set(found) == {"knn", "linear", "logistic", "unlabeled"}  # there are few images
    assert "↑ higher is better" in shown
    probed = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][-1]
    assert found["knn"].metrics["top1"] == pytest.approx(probed["knn_validation"])
    assert f"top1 {probed['knn_validation']:.1%}" in shown
    assert found["unlabeled"].metrics["effective_rank"] == pytest.approx(
        probed["effective_rank"], rel=1e-4
    )


def test_a_checkpoint_and_an_exported_file_are_the_same_model(run, capsys):
    assert main(["export", "run"]) == 0
    for source in ("run", "run/checkpoints/last.pt", "run/export/backbone.safetensors"):
        args = [*KNN, "--knn.k", "9", "--data", "builtin", "--out", "all"]
        assert main(["evaluate", source, *args]) == 0
        capsys.readouterr()
    first, second = read_results("all")  # a checkpoint has a result of its own
    assert {first.checkpoint, second.checkpoint} == {"", "last.pt"}
    assert first.model["sha256"] == second.model["sha256"]
    assert first.metrics == second.metrics
    images = torch.randn(2, 3, 32, 32)
    expected = amcl.load("run")(images)
    for source in (run / "checkpoints" / "last.pt", "run/export/backbone.safetensors"):
        assert torch.equal(amcl.load(source)(images), expected)


def test_another_set_and_its_test_split(run, pictures, capsys):
    assert main(["evaluate", "run", "--data", "pictures", *KNN, "--knn.k", "3"]) == 0
    assert "run on pictures, test" in capsys.readouterr().out
    (result,) = read_results(run)
    assert result.images["train"], result.images["test"] == (24, 8)
    assert result.metrics["top1"] == 1
    assert result.settings["k"] == 3


def test_any_timm_model_and_any_weights(pictures, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["--data", "pictures", "--image-size", "32", *KNN]
    assert main(["evaluate", "resnet10t", *small]) == 0
    assert "untrained" in capsys.readouterr().err
    import timm

    model = timm.create_model("resnet10t", num_classes=7)
    torch.save({"state_dict": {f"module.{k}": v for k, v in model.state_dict().items()}}, "w.pth")
    args = ["evaluate", "w.pth", "--backbone", "resnet10t", "--stem", "standard", *small]
    assert main([*args, "--out", "results"]) == 0
    assert "fc.weight" in capsys.readouterr().err
    assert len(read_results("results")) == 1


def test_without_labels_only_what_needs_none(run, pictures, capsys):
    loose = pictures.parent / "loose"
    loose.mkdir()
    for number, path in enumerate(sorted(pictures.rglob("*.png"))):
        shutil.copy(path, loose / f"{number}.png")
    assert main(["evaluate", "run", "--data", "loose"]) == 0
    assert [result.protocol for result in read_results(run)] == ["unlabeled"]
    capsys.readouterr()
    told = refused(capsys, "evaluate", "run", "--data", "loose", *KNN)
    assert "needs labels, and loose has none in use" in told
    assert "loose/CLASS/FILE" in told
    assert len(told.split()) < 45


def test_a_protocol_that_cannot_run_is_named_and_the_others_are_shown(run, pictures, capsys):
    loose = pictures.parent / "loose"
    loose.mkdir()
    for number, path in enumerate(sorted(pictures.rglob("*.png"))):
        shutil.copy(path, loose / f"{number}.png")
    asked = ["evaluate", "run", "--data", "loose", "--protocols", "knn", "unlabeled"]
    assert main(asked) == 4
    shown = capsys.readouterr()
    assert "effective_rank" in shown.out
    assert "knn could not run: this needs labels" in " ".join(shown.err.split())
    assert [result.protocol for result in read_results(run)] == ["unlabeled"]


def test_one_tiny_class_leaves_few_labels_possible(run, pictures, capsys):
    for path in sorted((pictures / "train/dark").iterdir())[2:]:
        path.unlink()
    for number in range(5):  # a third class, so that more than half have enough
        for split in ("train", "test"):
            (pictures / split / "gray").mkdir(exist_ok=True)
            shutil.copy(pictures / "test/light/0.png", pictures / split / "gray" / f"{number}.png")
    asked = ["--protocols", "few-labels", "logistic", "--few-labels.per-class", "4"]
    assert main(["evaluate", "run", "--data", "pictures", *asked]) == 0
    found = {result.protocol: result for result in read_results(run)}
    assert set(found) == {"few-labels", "logistic"}
    assert "n=4" in found["few-labels"].metrics
    assert "balanced_top1" in found["logistic"].metrics
    shown = " ".join(capsys.readouterr().out.split())
    assert "smaller classes give all they have (dark 2)" in shown
    assert "balanced_top1" in shown
    assert "95 % interval" in shown


@pytest.mark.parametrize(
    ("name", "hint"),
    [("lineer", "did you mean 'linear'?"), ("xyz", "there are few-labels, finetune")],
)
def test_an_unknown_protocol_is_answered_with_the_nearest(run, capsys, name, hint):
    told = refused(capsys, "evaluate", "run", "--protocols", "knn", name)
    assert f"there is no protocol {name!r}: {hint}" in told
    assert read_results(run) == []


@pytest.mark.parametrize("command", ["evaluate", "embed", "predict", "report", "export"])
def test_threads_are_those_asked_for(run, capsys, monkeypatch, command):
    set_to = []
    monkeypatch.setattr("torch.set_num_threads", set_to.append)
    more = ["--data", "builtin", "--out", "x.csv"] if command in ("embed", "predict") else []
    more += KNN if command == "evaluate" else []
    code = main([command, "run", "--threads", "3", *more])
    assert code == (1 if command == "predict" else 0)  # there is no classifier yet
    assert set_to[:1] == [3]
    if command == "embed":
        told = refused(capsys, "embed", "run", "--threads", "-1", *more)
        assert "--threads must be 0 or more, got -1" in told


@pytest.fixture
def tuned(run, pictures, capsys):
    """The run with a classifier that was fine-tuned on the pictures."""
    asked = [
        "--finetune.min-steps",
        "30",
        "--finetune.epochs",
        "1",
        "--finetune.warmup-epochs",
        "0",
    ]
    asked += ["--finetune.mixup", "0", "--finetune.cutmix", "0", "--finetune.drop-path", "0"]
    args = ["evaluate", "run", "--data", "pictures", "--protocols", "finetune", *asked]
    assert main(args) == 0
    return capsys.readouterr().out


def test_a_fine_tuned_classifier_names_the_classes_of_new_pictures(run, pictures, tuned, capsys):
    (path,) = (run / "evaluation").glob("finetune-*.safetensors")
    assert f"classifier: {Path('run/evaluation') / path.name}" in tuned
    assert f"amcl predict run/evaluation/{path.name}" in tuned
    (pictures / "test" / "broken.png").write_bytes(b"broken")
    for number, source in enumerate(("run", str(path))):
        out = f"predictions-{number}.csv"
        assert main(["predict", source, "--data", "pictures/test", "--out", out]) == 0
    assert "left out" in capsys.readouterr().err
    assert Path("predictions-0.csv").read_text() == Path("predictions-1.csv").read_text()
    with open("predictions-0.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows][:2] == ["dark/0.png", "dark/1.png"]
    assert len(rows) == 8
    (result,) = read_results(run)
    right = sum(row["file"].startswith(row["class"]) for row in rows)
    assert right / 8 == pytest.approx(result.metrics["top1"])
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)


def test_predictions_have_as_many_classes_as_asked_for(run, tuned):
    assert main(["predict", "run", "--data", "pictures", "--out", "p.csv", "--top", "5"]) == 0
    with open("p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["file", "class", "probability", "class_2", "probability_2"]
    assert {rows[0]["class"], rows[0]["class_2"]} == {"dark", "light"}
    total = float(rows[0]["probability"]) + float(rows[0]["probability_2"])
    assert total == pytest.approx(1, abs=1e-4)


def test_what_cannot_predict_is_told(run, pictures, tuned, capsys):
    Path("mine.csv").write_text("mine")
    on = ["--data", "pictures", "--out"]
    told = refused(capsys, "predict", "run", *on, "mine.csv", code=1)
    assert "mine.csv exists already" in told
    assert Path("mine.csv").read_text() == "mine"
    assert "must end in .csv" in refused(capsys, "predict", "run", *on, "p.txt")
    assert "no file or folder 'rnu'" in refused(capsys, "predict", "rnu", *on, "p.csv")
    told = refused(capsys, "predict", "run/backbone.safetensors", *on, "p.csv")
    assert "does not say its classes, network, transform" in told
    for file in (run / "evaluation").iterdir():
        file.unlink()
    told = refused(capsys, "predict", "run", *on, "p.csv", code=1)
    assert "amcl evaluate run --protocols finetune" in told
    assert "not a run folder" in refused(capsys, "predict", "pictures", *on, "p.csv", code=1)
    assert not Path("p.csv").exists()


def test_what_is_wrong_is_told(run, pictures, tmp_path, capsys):
    shutil.rmtree(pictures / "test" / "light")
    told = refused(capsys, "evaluate", "run", "--data", "pictures", *KNN)
    assert "the test split has no readable image of 1 of the classes (light)" in told
    (pictures / "test" / "other").mkdir()
    shutil.copy(pictures / "test/dark/0.png", pictures / "test/other/0.png")
    told = refused(capsys, "evaluate", "run", "--data", "pictures", *KNN)
    assert "has the classes other, which the training split has not" in told
    assert "--protocols" in refused(capsys, "evaluate", "run", "--protocol", "knn")
    assert "--knn.k" in refused(capsys, "evaluate", "run", "--knn.kk", "3")
    told = refused(capsys, "evaluate", "run", "--split", "test")
    assert "builtin has no labeled test split: use --split validation" in told
    told = refused(capsys, "evaluate", "rnu")
    assert "there is no file or folder 'rnu'" in told
    told = refused(capsys, "evaluate", "run", *KNN, "--accelerator", "cuda", code=1)
    assert "this machine has none" in told
    assert read_results(run) == []


def test_a_run_without_checkpoints_is_told_how_to_go_on(run, capsys):
    (run / "backbone.safetensors").unlink()
    told = refused(capsys, "evaluate", "run", code=1)
    assert "run/checkpoints/last.pt" in told
    (run / "checkpoints" / "last.pt").unlink()
    assert "amcl pretrain --resume run" in refused(capsys, "evaluate", "run", code=1)
    shutil.rmtree(run)
    run.mkdir()
    assert "run" in refused(capsys, "evaluate", "run", code=1)


def test_a_damaged_cache_gives_no_number(run, capsys):
    assert main(["evaluate", "run", *KNN]) == 0
    for values in (run / "features").glob("*.npy"):
        content = bytearray(values.read_bytes())
        content[-1] ^= 1
        values.write_bytes(content)
    shutil.rmtree(run / "evaluation")
    capsys.readouterr()
    told = refused(capsys, "evaluate", "run", *KNN)
    assert "are damaged" in told
    assert "remove the folder run/features" in told
    assert read_results(run) == []
    shutil.rmtree(run / "features")
    assert main(["evaluate", "run", *KNN]) == 0


def test_runs_are_compared_over_seeds(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        shutil.copytree(trained / f"seed-{seed}", tmp_path / f"seed-{seed}")
        assert main(["evaluate", f"seed-{seed}", *KNN]) == 0
    tops = [read_results(f"seed-{seed}")[0].metrics["top1"] for seed in (0, 1)]
    capsys.readouterr()
    assert main(["compare", "seed-0", "seed-1"]) == 0
    shown = capsys.readouterr().out
    assert f"{100 * np.mean(tops):.1f} ± {100 * np.std(tops, ddof=1):.1f}" in shown


@pytest.fixture
def vits(pictures, monkeypatch):
    """An epoch of MAE and of CAN with AMCL, over two seeds, on the pictures."""
    monkeypatch.chdir(pictures.parent)
    for method in ("mae", "can"):
        for seed in (0, 1):
            config = tiny_vit(method, pictures, epochs=1, seed=seed, batch_size=10)
            pretrain(config, pictures.parent / f"{method}-{seed}")
    return pictures.parent


def test_masked_methods_are_judged_and_compared(vits, capsys):
    runs = ["mae-0", "mae-1", "can-0", "can-1"]
    for run in runs:
        assert main(["evaluate", run, *KNN, "unlabeled", "--knn.k", "3"]) == 0
        assert {result.protocol for result in read_results(run)} == {"knn", "unlabeled"}
    capsys.readouterr()
    assert main(["compare", *runs, "--metrics", "top1", "--json", "compared.json"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    found = json.loads(Path("compared.json").read_text())
    # MAE has no heads to tell of: they are in the name of CAN alone.
    names = [group["name"] for group in found["groups"]]
    assert names == ["mae", "can heads=2 temperature=adaptive"]
    assert [group["seeds"] for group in found["groups"]] == [[0, 1], [0, 1]]
    assert "mask_ratio (0.75, 0.5)" in shown
    assert "heads (" not in shown  # that a method has them is no other setting of the same


def test_masked_methods_embed_and_export(vits, capsys):
    for method in ("mae-0", "can-0"):
        out = f"{method}.npz"
        assert main(["embed", method, "--data", "pictures/test", "--out", out]) == 0
        with np.load(out) as file:
            assert file["features"].shape == (8, 64)
        capsys.readouterr()
        assert main(["export", method]) == 0
        told = capsys.readouterr().out
        made = {}
        exec(told.split("To load it:\n\n")[1], made)
        images = torch.randn(2, 3, 16, 16)
        assert torch.equal(made["model"](images), amcl.load(method)(images))
        assert (Path(method) / "export/method.safetensors").is_file()


def test_features_with_file_names(run, pictures, capsys):
    (pictures / "broken.png").write_bytes(b"broken")
    assert main(["embed", "run", "--data", "pictures", "--out", "f.npz"]) == 0
    assert "left out" in capsys.readouterr().err
    with np.load("f.npz") as file:
        names, features = file["names"].tolist(), file["features"]
        assert file["labels"].tolist() == (["dark"] * 4 + ["light"] * 4) + (
            ["dark"] * 12 + ["light"] * 12
        )
        assert file["paths"][0] == str(pictures / "test/dark/0.png")
    assert len(names) == 32
    assert names[0] == str(Path("test/dark/0.png"))
    assert features.shape == (32, amcl.load("run").dim)
    assert "exists already" in refused(
        capsys, "embed", "run", "--data", "pictures", "--out", "f.npz", code=1
    )
    assert main(["embed", "run", "--data", "builtin", "--out", "b.npz"]) == 0
    with np.load("b.npz") as file:
        assert file["names"][[0, 160]].tolist() == ["train/00000", "validation/00000"]
        assert len(file["labels"]) == len(file["names"])
        assert "paths" not in file
    assert main(["embed", "run", "--data", "pictures/test", "--out", "t.csv"]) == 0
    with open("t.csv", newline="") as file:
        header, first, *_ = csv.reader(file)
    assert header[:3] == ["file", "label", "f0"]
    assert first[:2] == ["dark/0.png", "dark"]
    np.testing.assert_allclose(np.array(first[2:], dtype=np.float32), features[0], rtol=1e-5)


def test_an_export_is_timms(pictures, tmp_path, monkeypatch):
    """The file loads unchanged where the network is as timm has it."""
    import timm

    monkeypatch.chdir(tmp_path)
    args = ["--backbone", "resnet10t", "--width", "1", "--stem", "standard", "--out", "run"]
    args += ["--data", "pictures", "--epochs", "1", "--batch-size", "8"]
    assert main(["pretrain", *args]) == 0
    assert main(["export", "run"]) == 0
    model = timm.create_model("resnet10t", num_classes=0)
    model.load_state_dict(load_file("run/export/backbone.safetensors"))
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(model.eval()(images), amcl.load("run")(images))
    assert "knn" not in Path("run/export/README.md").read_text()


def test_options_of_protocols_that_do_not_run_are_refused(capsys):
    assert main(["evaluate", "resnet10t", "--protocols", "knn", "--linear.epochs", "3"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "--linear.epochs belongs to the protocol linear" in message
    assert main(["evaluate", "resnet10t", "--few-labels.draws", "3"]) == 2
    assert "add few-labels to --protocols" in " ".join(capsys.readouterr().err.split())


TUNE = ["--finetune.min-steps", "6", "--finetune.epochs", "1", "--finetune.warmup-epochs", "0"]


def test_a_fine_tuning_that_diverges_leaves_the_other_results(run, pictures, capsys):
    args = ["evaluate", "run", "--data", "pictures", *TUNE, "--finetune.lr", "1e30", "--protocols"]
    assert main([*args, "knn", "finetune"]) == 4
    shown = capsys.readouterr()
    assert "finetune could not run" in shown.err
    assert "knn" in shown.out
    assert "is not finite" in refused(capsys, *args, "finetune", code=3)


def test_a_fine_tuning_that_is_stopped_is_resumed_by_the_same_command(
    run, pictures, capsys, monkeypatch
):
    args = ["evaluate", "run", "--data", "pictures", *TUNE, "--protocols", "finetune"]
    assert main([*args, "--out", "straight"]) == 0
    steps, loss = [], FinetuningTask.loss

    def signalled(self, model, batch, step, *rest, **kwargs):
        steps.append(step)
        if steps == [0, 1, 2]:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss(self, model, batch, step, *rest, **kwargs)

    monkeypatch.setattr(FinetuningTask, "loss", signalled)
    assert "after step 3 of" in refused(capsys, *args, "--out", "stopped", code=143)
    assert main([*args, "--out", "stopped"]) == 0
    assert steps == list(range(len(steps)))
    straight, resumed = (
        next(Path(folder).rglob("finetune-*.safetensors")) for folder in ("straight", "stopped")
    )
    assert_close(load_file(resumed), load_file(straight), rtol=0, atol=0)
    assert not list(Path("stopped").rglob("*.pt"))
