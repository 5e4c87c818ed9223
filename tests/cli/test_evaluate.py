"""`amcl evaluate`, `embed`, `export` and `compare`: a run, and what may be wrong."""

import json
import shutil

import pytest
import torch

import amcl
from amcl.cli import main
from amcl.evaluation import read_results
from evaluations import KNN, refused

pytestmark = pytest.mark.usefixtures("few_images")


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
    [("lineer", "did you mean 'linear'?"), ("xyz", "there are detect, few-labels, finetune")],
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
        assert "--threads must be a whole number, at least 0, got -1" in told


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


def test_options_of_protocols_that_do_not_run_are_refused(capsys):
    assert main(["evaluate", "resnet10t", "--protocols", "knn", "--linear.epochs", "3"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "--linear.epochs belongs to the protocol linear" in message
    assert main(["evaluate", "resnet10t", "--few-labels.draws", "3"]) == 2
    assert "add few-labels to --protocols" in " ".join(capsys.readouterr().err.split())
