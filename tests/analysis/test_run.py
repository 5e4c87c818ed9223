"""From a run folder to all that can be seen of it."""

import math
import shutil
import subprocess
import sys

import pytest
import torch

from amcl.analysis import (
    PairSettings,
    agreement,
    hard_negatives,
    neighbors,
    pair_sample,
    plane,
    retrieval,
    sample_of_run,
    separations,
    temperatures,
    uncertain_positives,
)
from amcl.checkpoints import load_method, read_metrics
from amcl.config.fields import with_values
from amcl.data import load_dataset
from amcl.errors import RunError
from amcl.training import pretrain
from factories import small_config
from tiny_runs import picture_folder, tiny_vit

FEW = PairSettings(images=20, seed=3)


def tiny(method, epochs=1, **options):
    options = {"heads": 2, "projector": (16, 8), "backbone": "resnet10t"} | options
    return small_config(
        f"builtin-{method}-amcl", epochs=epochs, batch_size=40, probe_every=10, **options
    )


@pytest.fixture(scope="module")
def trained(few_images, tmp_path_factory):
    """MoCo with AMCL on the built-in set. Do not write into it."""
    path = tmp_path_factory.mktemp("runs") / "moco"
    pretrain(tiny("moco", queue=80), path)
    return path


@pytest.fixture(scope="module")
def folder_run(tmp_path_factory):
    """MAE on a folder without classes. Do not write into it."""
    place = tmp_path_factory.mktemp("folder")
    pictures = picture_folder(place / "pictures", count=16)
    pretrain(tiny_vit("mae", pictures, epochs=1), place / "run")
    return place


def test_a_run_shows_all_there_is(trained):
    sample = sample_of_run(trained, FEW, device="cpu")
    n = len(sample)
    assert n == 20
    assert sample.s.shape == sample.tau.shape == (2, n, n)
    assert sample.bounds == pytest.approx((0.05 + 0.1 * 0.1192, 0.05 + 0.1 * 0.8808), abs=1e-4)
    assert sample.classes[0] == "stripes across"
    apart = separations(sample)
    assert list(apart) == ["heads", "backbone"]
    for found in apart.values():
        assert 0 <= found.overlap <= 1
        assert 0.5 < found.auroc <= 1  # views of one image are more alike, even untrained
    assert len(temperatures(sample).heads) == 4
    assert agreement(sample).correlation.shape == (2, 2)
    assert [row.name for row in retrieval(sample)][-2:] == ["mean of heads", "backbone"]
    assert len(uncertain_positives(sample, 5)) == len(hard_negatives(sample, 5)) == 5
    assert neighbors(sample.h, 3, 4)[1].shape == (3, 4)
    assert plane(sample.h).shape == (n, 2)


def test_it_is_the_method_of_the_checkpoint_on_the_images_held_out(trained, few_images):
    config = tiny("moco", queue=80)
    data = load_dataset("builtin")
    expected = pair_sample(load_method(trained), data, config.views, FEW)
    sample = sample_of_run(str(trained), FEW, device="cpu")
    for field in ("h", "h0", "h1", "s", "tau", "views", "images", "labels"):
        assert torch.equal(getattr(sample, field), getattr(expected, field)), field
    everything = sample_of_run(trained, device="cpu")
    assert len(everything) == 40  # there are no 500
    queries = data.probe.queries
    assert torch.equal(everything.images, queries.images[torch.arange(40)])
    assert torch.equal(everything.labels, queries.labels)


def test_a_scheduled_temperature_is_that_of_the_last_step(few_images, tmp_path):
    config = tiny("simclr", epochs=2, temperature="scheduled", tau_lower=0.1, tau_upper=0.9)
    config = with_values(config, {"tau_period": 4.0})
    pretrain(config, tmp_path / "run")
    epoch = 2 - 1 / 4  # two epochs of four steps: the last begins at 1¾
    tau = 0.1 + 0.4 * (1 + math.cos(2 * math.pi * epoch / 4))
    sample = sample_of_run(tmp_path / "run", FEW, device="cpu")
    torch.testing.assert_close(sample.tau, torch.full((2, 20, 20), tau))
    last = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "epoch"][-1]
    assert last["tau_positive/head1"] == pytest.approx(tau, rel=1e-5)


def test_a_run_without_labels_and_heads_shows_the_rest(folder_run):
    sample = sample_of_run(folder_run / "run", device="cpu")
    assert len(sample) == 16
    assert sample.labels is sample.s is None
    assert sample.views.shape == (2, 16, 3, 16, 16)
    assert separations(sample)["backbone"].auroc > 0
    assert [row.same_class for row in retrieval(sample)] == [None]
    assert len(uncertain_positives(sample, 3)) == len(hard_negatives(sample, 3)) == 3


def test_images_that_moved_are_found_where_they_are_said_to_lie(folder_run, tmp_path, monkeypatch):
    before = sample_of_run(folder_run / "run", device="cpu")
    moved = shutil.copytree(folder_run / "pictures", tmp_path / "elsewhere")
    config = folder_run / "run" / "config.toml"
    run = shutil.copytree(folder_run / "run", tmp_path / "run")
    gone = config.read_text().replace(str(folder_run / "pictures"), str(tmp_path / "gone"))
    (run / "config.toml").write_text(gone)
    with pytest.raises(FileNotFoundError, match=r"gone' is neither .* It is what the run in .*run"):
        sample_of_run(run)
    (moved / "005.png").write_bytes(b"no picture")
    after = sample_of_run(run, data=str(moved), device="cpu")
    assert torch.equal(after.images, torch.cat([before.images[:5], before.images[6:]]))
    assert [path for path, _ in after.unreadable] == [str(moved / "005.png")]
    with pytest.raises(
        FileNotFoundError, match="nowhere' is neither a folder nor a known data set"
    ):
        sample_of_run(run, data=str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"cifar-100-python .*`amcl data cifar100 --root"):
        sample_of_run(run, data="cifar100", data_root=str(tmp_path))


def test_a_run_without_a_checkpoint_is_an_error_that_says_so(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RunError, match=r"/run .*checkpoint"):
        sample_of_run(run)
    (run / "backbone.safetensors").unlink()
    with pytest.raises(RunError, match=r"amcl pretrain --resume .*/run$"):
        sample_of_run(run)
    with pytest.raises(RunError, match=r"no config\.toml"):
        sample_of_run(tmp_path)


def test_the_package_does_not_come_with_amcl():
    code = "import sys, amcl; sys.exit('amcl.analysis' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
