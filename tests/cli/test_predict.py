"""`amcl evaluate --protocols finetune` and `amcl predict`."""

import csv
import os
import signal
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from amcl.cli import main
from amcl.evaluation import read_results
from amcl.evaluation.finetuning.task import FinetuningTask
from evaluations import refused

pytestmark = pytest.mark.usefixtures("few_images")


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
