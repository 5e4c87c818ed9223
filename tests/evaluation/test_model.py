"""What a model is judged on: its run's own held-out images, other sets, crops, workers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from amcl import recipes
from amcl.checkpoints import open_model
from amcl.data import load_dataset
from amcl.errors import RunError
from amcl.evaluation.build import EvaluationData, input_transform, make_evaluation
from amcl.evaluation.embed import embed
from amcl.methods import SupConSettings


@pytest.fixture
def subject():
    return open_model("resnet10t", width=0.125, image_size=32)


@pytest.fixture
def folder(tmp_path):
    """Thirty pictures in each of two classes, without splits."""
    for name in ("a", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(30):
            pixels = np.random.default_rng(i).integers(256, size=(32, 32, 3), dtype="uint8")
            Image.fromarray(pixels).save(tmp_path / "set" / name / f"{i}.png")
    return str(tmp_path / "set")


def of_run(subject, data, **changed):
    config = recipes.default(data, "simclr")
    config = replace(config, data=replace(config.data, source=data, **changed))
    return replace(subject, config=replace(config, run=replace(config.run, seed=7)))


def pixels(labeled):
    return labeled.images[torch.arange(len(labeled.labels))]


def test_a_run_is_judged_on_the_images_it_held_out(subject, folder):
    run = of_run(subject, folder, validation=4)
    trained = load_dataset(folder, validation=4, seed=7, image_size=32).probe
    for on in (
        None,
        EvaluationData(data=folder),
        EvaluationData(data=f"{folder}/../set/", memory=0),
    ):
        evaluation = make_evaluation(run, on, seed=1)
        assert torch.equal(pixels(evaluation.probe.queries), pixels(trained.queries))
        assert evaluation.notes == []
    others = make_evaluation(subject, EvaluationData(data=folder, validation=4), seed=1)
    assert not torch.equal(pixels(others.probe.queries), pixels(trained.queries))


@pytest.mark.parametrize("changed", [{"validation": 0}, {"probe": "none"}, {"labels": "none"}])
def test_images_that_were_trained_on_are_told(subject, folder, changed):
    evaluation = make_evaluation(of_run(subject, folder, **changed))
    assert evaluation.data.probe is not None
    assert "among those it was pre-trained on" in evaluation.notes[0]
    assert "pre-trained on" in evaluation.run("knn").details["notes"][0]


def test_images_that_were_trained_on_with_labels_are_told(subject, folder):
    run = of_run(subject, folder, probe="none")
    run = replace(run, config=replace(run.config, method=SupConSettings()))
    assert "pre-trained on, with their labels" in make_evaluation(run).notes[0]
    unlabeled = make_evaluation(run, EvaluationData(labels="none"))
    assert unlabeled.data.probe is None


def test_validation_images_of_stl10_may_have_been_trained_on_with_labels(subject, monkeypatch):
    """They are none of its unlabeled images, but are of those that SupCon is trained on."""
    data = replace(load_dataset("builtin"), name="stl10")
    monkeypatch.setattr("amcl.evaluation.build.load_dataset", lambda *args, **options: data)
    run = of_run(subject, "stl10", probe="none")
    on = EvaluationData(split="validation")
    assert make_evaluation(run, on).notes == []
    labeled = replace(run, config=replace(run.config, method=SupConSettings()))
    assert "pre-trained on, with their labels" in make_evaluation(labeled, on).notes[0]


def test_another_hold_out_than_the_runs_is_told(subject, folder):
    run = replace(of_run(subject, folder, validation=4), images=56)
    assert make_evaluation(run).notes == []
    assert make_evaluation(run, EvaluationData(validation=6)).notes
    everything = replace(of_run(subject, folder), images=60)  # it had found no labels
    assert make_evaluation(everything, EvaluationData(labels="folders")).notes
    assert make_evaluation(of_run(subject, "builtin", probe="none")).notes == []


def test_options_that_would_do_nothing_are_refused(subject, folder):
    with pytest.raises(ValueError, match=r"^builtin .*--validation"):
        make_evaluation(subject, EvaluationData(data="builtin", validation=100))
    with pytest.raises(ValueError, match="no labeled test split: use --split validation"):
        make_evaluation(subject, EvaluationData(data=folder, split="test"))


def test_a_folder_that_is_not_found_from_here(subject, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = of_run(subject, "set")
    monkeypatch.chdir("/")
    assert make_evaluation(run).data.name == "set"  # the run knows the absolute path
    old = of_run(subject, "set")  # as a run of an older version has it
    named = r"'set' is neither .* \(from here: /set\)\..*was trained on.*--data"
    with pytest.raises(FileNotFoundError, match=named):
        make_evaluation(old)
    monkeypatch.chdir(tmp_path)
    assert make_evaluation(old).data.name == "set"
    with pytest.raises(FileNotFoundError, match=r"'elsewhere'.*builtin, cifar10"):
        make_evaluation(run, EvaluationData(data="elsewhere"))


def test_results_cannot_pass_for_those_of_another_run(subject, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.toml").write_text("")
    on = EvaluationData(data="builtin")
    with pytest.raises(RunError, match=r"/other .*--out"):
        make_evaluation(subject, on, folder=tmp_path / "other")
    own = replace(subject, folder=tmp_path / "other")
    assert make_evaluation(own, on, folder=tmp_path / "other").folder == tmp_path / "other"
    assert make_evaluation(own, on, folder=tmp_path / "new").folder == tmp_path / "new"


def test_a_run_that_cannot_be_written_to(subject, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    run, on = replace(subject, folder=tmp_path), EvaluationData(data="builtin")
    with pytest.raises(RunError, match=r"cannot be written to: .* --out"):
        make_evaluation(run, on)
    assert make_evaluation(run, on, folder=tmp_path / "results").folder == tmp_path / "results"
    embed(run, "builtin", tmp_path / "f.npz", workers=0)
    assert not (tmp_path / "features").exists()


def test_all_that_is_not_held_out_is_the_bank(subject, folder, monkeypatch):
    def few(*args, bank=5, **others):  # as if its usual bound were small
        return load_dataset(*args, bank=bank, **others)

    monkeypatch.setattr("amcl.evaluation.build.load_dataset", few)
    evaluation = make_evaluation(of_run(subject, folder))
    assert len(evaluation.probe.bank.labels) == 54


def test_the_runs_neighbors_are_asked(subject):
    run = of_run(subject, "builtin")
    assert run.config.run.knn_k is not None
    assert make_evaluation(run).settings_for("knn").k == run.config.run.knn_k
    assert make_evaluation(subject, EvaluationData(data="builtin")).settings_for("knn").k is None


def test_other_models_need_data(subject):
    with pytest.raises(ValueError, match=r"is no run.*--data"):
        make_evaluation(subject)


def test_the_crop_is_for_pictures_larger_than_the_input(subject):
    from amcl.data import MemoryImages

    def images(side):
        return MemoryImages(torch.zeros(1, 3, side, side, dtype=torch.uint8))

    large = replace(subject, backbone=open_model("resnet10t", width=0.125, image_size=96).backbone)
    assert input_transform(subject, None, images(48)).crop is None
    assert input_transform(large, None, images(96)).crop is None
    assert input_transform(large, None, images(144)).crop == 0.875
    assert input_transform(large, 0, images(144)).crop is None
    assert input_transform(subject, 0.5, images(48)).crop == 0.5
    for wrong in (-1, 1.5):
        with pytest.raises(ValueError, match="crop must lie from 0"):
            input_transform(subject, wrong, images(48))


def test_normalization_is_the_models(subject):
    other = replace(subject, mean=(0.1, 0.2, 0.3), std=(0.3, 0.2, 0.1))
    transform = make_evaluation(other, EvaluationData(data="builtin")).transform
    assert (transform.mean, transform.std) == ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1))
