"""What a model is judged on: its run's own held-out images, other sets, crops, workers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from amcl import recipes
from amcl.data import load_dataset
from amcl.models import open_model
from amcl.models.evaluate import JudgedOn, evaluation_of, transform_of


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
    config = replace(config, data=replace(config.data, data=data, **changed))
    return replace(subject, config=replace(config, run=replace(config.run, seed=7)))


def pixels(labelled):
    return labelled.images[torch.arange(len(labelled.labels))]


def test_a_run_is_judged_on_the_images_it_held_out(subject, folder):
    run = of_run(subject, folder, validation=4)
    trained = load_dataset(folder, validation=4, seed=7, image_size=32).probe
    for on in (None, JudgedOn(data=folder)):
        evaluation = evaluation_of(run, on, seed=1)
        assert torch.equal(pixels(evaluation.probe.queries), pixels(trained.queries))
        assert evaluation.notes == []
    others = evaluation_of(subject, JudgedOn(data=folder, validation=4), seed=1)
    assert not torch.equal(pixels(others.probe.queries), pixels(trained.queries))


@pytest.mark.parametrize("changed", [{"validation": 0}, {"probe": "none"}, {"labels": "none"}])
def test_images_that_were_trained_on_are_told(subject, folder, changed):
    evaluation = evaluation_of(of_run(subject, folder, **changed))
    assert evaluation.data.probe is not None
    assert "among those it was pre-trained on" in evaluation.notes[0]
    assert "pre-trained on" in evaluation.run("knn").details["notes"][0]
    more = of_run(subject, folder, validation=4)
    assert evaluation_of(more, JudgedOn(validation=6)).notes


def test_all_that_is_not_held_out_is_the_bank(subject, folder, monkeypatch):
    def few(*args, bank=5, **others):  # as if its usual bound were small
        return load_dataset(*args, bank=bank, **others)

    monkeypatch.setattr("amcl.models.evaluate.load_dataset", few)
    evaluation = evaluation_of(of_run(subject, folder))
    assert len(evaluation.probe.bank.labels) == 54


def test_the_runs_neighbours_are_asked(subject):
    run = of_run(subject, "builtin")
    assert run.config.run.knn_k != 200
    assert evaluation_of(run).settings.knn.k == run.config.run.knn_k
    assert evaluation_of(subject, JudgedOn(data="builtin")).settings.knn.k == 200


def test_other_models_need_data(subject):
    with pytest.raises(ValueError, match=r"is no run.*--data"):
        evaluation_of(subject)


def test_the_crop_is_for_pictures_larger_than_the_input(subject):
    from amcl.data import MemoryImages

    def images(side):
        return MemoryImages(torch.zeros(1, 3, side, side, dtype=torch.uint8))

    large = replace(subject, backbone=open_model("resnet10t", width=0.125, image_size=96).backbone)
    assert transform_of(subject, None, images(48)).crop is None
    assert transform_of(large, None, images(96)).crop is None
    assert transform_of(large, None, images(144)).crop == 0.875
    assert transform_of(large, 0, images(144)).crop is None
    assert transform_of(subject, 0.5, images(48)).crop == 0.5
    for wrong in (-1, 1.5):
        with pytest.raises(ValueError, match="crop must lie from 0"):
            transform_of(subject, wrong, images(48))


def test_normalisation_is_the_models(subject):
    other = replace(subject, mean=(0.1, 0.2, 0.3), std=(0.3, 0.2, 0.1))
    transform = evaluation_of(other, JudgedOn(data="builtin")).transform
    assert (transform.mean, transform.std) == ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1))
