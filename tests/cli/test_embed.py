"""`amcl embed`, `export` and `compare` on runs."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import amcl
from amcl.cli import main
from amcl.evaluation import read_results
from amcl.training import pretrain
from evaluations import KNN, refused
from tiny_runs import tiny_vit

pytestmark = pytest.mark.usefixtures("few_images")


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
