"""Detectors are trained, resumed bit for bit, measured once and kept."""

import json
import logging
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file

from amcl.backbones import Backbone, BackboneSettings
from amcl.checkpoints.training_folder import read_metrics
from amcl.data.coco import load_coco
from amcl.errors import Interrupted, NonFiniteError, RunError
from amcl.evaluation.detection import Detections, DetectorSettings, detect, load_detector
from amcl.evaluation.detection.batches import detection_batches
from amcl.evaluation.detection.folder import DetectionFolder
from amcl.evaluation.detection.pictures import side_by_side
from amcl.training.trainer import Trainer
from toy_detection import MEAN, STD, resnet, settings_for, shapes_folder, signal_at, trained, vit

COUNTING = torch.tensor([[0, 0], [3, 1], [1, 2], [2, 3]])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return shapes_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The folder of a training that nothing stopped, and its result."""
    folder = tmp_path_factory.mktemp("undisturbed") / "detector"
    return folder, trained(data, folder)


def test_what_a_training_leaves(data, undisturbed):
    folder, result = undisturbed
    names = {path.name for path in folder.iterdir()}
    assert {"detector.safetensors", "boxes.json", "masks.json", "metrics.jsonl", "log.txt"} <= names
    assert not list((folder / "checkpoints").glob("*.pt"))  # of no use any more
    assert {"box_AP", "box_AP50", "mask_AP", "box_AR"} <= set(result.metrics())
    rows = read_metrics(folder)
    assert [row["step"] for row in rows if row["kind"] == "epoch"] == [3, 6]
    assert {"loss_mask", "loss_classifier"} <= set(rows[-1])
    assert list(result.losses) == [row["loss"] for row in rows if row["kind"] == "epoch"]
    assert len(list((folder / "pictures").glob("*.png"))) == len(result.pictures) > 0


def test_what_a_killed_process_left_beside_the_detector_is_removed(data, undisturbed, tmp_path):
    folder = shutil.copytree(undisturbed[0], tmp_path / "copy")
    before = {path.name for path in folder.iterdir()}
    for place in (folder, folder / "checkpoints"):
        (place / ".detector.safetensors.320705205.writing.lock").touch()
    trained(data, folder)
    assert {path.name for path in folder.iterdir()} == before
    assert not list((folder / "checkpoints").iterdir())
    _, test = load_coco(str(data))
    results = json.loads((folder / "boxes.json").read_text())
    assert {row["image_id"] for row in results} <= {test.image_id(i) for i in range(len(test))}


def test_the_detector_can_be_used(data, undisturbed):
    folder, _ = undisturbed
    detector = load_detector(folder / "detector.safetensors")
    assert detector.classes == ("circle", "square", "triangle")
    [output] = detector([torch.rand(3, 50, 70)])
    assert output["masks"].shape[1:] == (1, 50, 70)


@pytest.mark.parametrize("at", [1, 3])
def test_a_stopped_training_is_resumed_to_the_same_weights(
    data, undisturbed, tmp_path, monkeypatch, at
):
    folder, result = undisturbed
    with monkeypatch.context() as patch:
        signal_at(patch, at, signal.SIGINT)
        with pytest.raises(Interrupted, match=f"after step {at + 1} of 6.*saved") as error:
            trained(data, tmp_path / "detector")
    assert error.value.exit_code == 130
    again = trained(data, tmp_path / "detector")
    assert again.metrics() == result.metrics()
    assert again.losses == result.losses
    weights = load_file(tmp_path / "detector" / "detector.safetensors")
    expected = load_file(folder / "detector.safetensors")
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_a_detector_that_is_there_is_not_trained_again(data, undisturbed, monkeypatch, caplog):
    folder, result = undisturbed
    monkeypatch.setattr(Trainer, "train_step", lambda *_: pytest.fail("it is trained again"))
    with caplog.at_level(logging.INFO, "amcl"):
        assert trained(data, folder).metrics() == result.metrics()
    assert "nothing is trained again" in caplog.text


def test_a_checkpoint_of_other_settings_is_refused(data, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        signal_at(patch, 1, signal.SIGTERM)
        with pytest.raises(Interrupted):
            trained(data, tmp_path)
    with pytest.raises(RunError, match="a training with other settings"):
        trained(data, tmp_path, lr=0.5)
    with pytest.raises(RunError, match="a training with other seed, weights"):
        trained(data, tmp_path, seed=1)


def test_seeds_and_the_global_generators(data, undisturbed):
    _, result = undisturbed
    backbone = resnet()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    same = trained(data, backbone=backbone)
    assert torch.equal(before, torch.get_rng_state())
    assert same.metrics() == result.metrics()
    other = trained(data, epochs=1, seed=3)
    assert other.settings.epochs == 1
    assert other.losses == ()  # without a folder nothing is written


def test_the_backbone_is_left_as_it_is(data):
    backbone = vit()
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    trained(data, backbone=backbone, epochs=1, scratch=True)
    assert all(torch.equal(before[name], value) for name, value in backbone.state_dict().items())


def test_boxes_alone(data, tmp_path):
    text = json.loads((data / "annotations/instances_train2017.json").read_text())
    for annotation in text["annotations"]:
        del annotation["segmentation"]
    file = tmp_path / "boxes.json"
    file.write_text(json.dumps(text))
    result = trained(
        data,
        tmp_path / "detector",
        epochs=1,
        train_annotations=str(file),
        train_images=str(data / "train2017"),
    )
    assert {name.partition("_")[0] for name in result.metrics()} == {"box"}
    assert not (tmp_path / "detector" / "masks.json").exists()


def test_batches_do_not_depend_on_the_number_of_workers(data):
    train, _ = load_coco(str(data))
    settings = settings_for(data).resolved(images=len(train), longest=64)
    batches = []
    for workers in (0, 2):
        steps = iter([COUNTING[:2], COUNTING[2:]])
        batches.append(
            list(detection_batches(train, steps, settings, seed=0, fill=(1, 2, 3), workers=workers))
        )
    for one, two in zip(*batches, strict=True):
        assert torch.equal(one.pixels, two.pixels)
        for first, second in zip(one.examples, two.examples, strict=True):
            assert first.keys() == second.keys() == {"boxes", "labels", "masks"}
            assert all(torch.equal(first[name], second[name]) for name in first)


def test_an_image_that_cannot_be_read_is_replaced_and_named(tmp_path, caplog):
    data = shapes_folder(tmp_path)
    for split in ("train", "val"):
        broken = sorted((data / f"{split}2017").iterdir())[0]
        broken.write_bytes(b"no picture")
    with caplog.at_level(logging.WARNING, "amcl"):
        result = trained(data, epochs=1)
    assert caplog.text.count("skipped") == 1
    assert any("1 test image cannot be read" in note for note in result.notes)
    for image in (data / "train2017").iterdir():
        image.write_bytes(b"")
    with pytest.raises(ValueError, match="none of the 12 training images can be read"):
        trained(data, epochs=1)


def test_a_training_that_diverges_says_what_may_help(data):
    with pytest.raises(NonFiniteError, match="--lr below 1e"):
        trained(data, lr=1e8, clip=0.0, warmup_epochs=0.0)


def test_evaluations_during_training_are_for_the_log_alone(data, undisturbed, tmp_path):
    _, result = undisturbed
    watched = trained(data, tmp_path, evaluate_every=1)
    [probe] = [row for row in read_metrics(tmp_path) if row["kind"] == "probe"]
    assert probe["epoch"] == 1
    assert "box_AP50" in probe
    assert watched.metrics() == result.metrics()  # looking changes nothing


def test_normalization_must_be_known(data):
    with pytest.raises(ValueError, match="give mean and std"):
        detect(resnet(), settings_for(data))
    backbone = resnet()
    backbone.normalization = (MEAN, STD)  # as that of a run
    own = detect(backbone, settings_for(data, epochs=1))
    assert own.metrics() == trained(data, epochs=1).metrics()


def test_files_that_are_no_detector(undisturbed, tmp_path):
    folder, _ = undisturbed
    with pytest.raises(FileNotFoundError, match="no file"):
        load_detector(tmp_path / "detector.safetensors")
    damaged = bytearray((folder / "detector.safetensors").read_bytes())
    damaged[-100] ^= 1
    (tmp_path / "detector.safetensors").write_bytes(damaged)
    with pytest.raises(ValueError, match="damaged"):
        load_detector(tmp_path / "detector.safetensors")


def test_a_folder_with_damaged_checkpoints_is_an_error(data, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        signal_at(patch, 2, signal.SIGINT)
        with pytest.raises(Interrupted):
            trained(data, tmp_path)
    for path in DetectionFolder(tmp_path).checkpoints():
        path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(RunError, match=r"cannot be resumed.*start again with the same command"):
        trained(data, tmp_path)


@pytest.mark.slow
def test_it_learns_shapes(tmp_path):
    """A few minutes of training reach a precision clearly above that of an untrained detector."""
    data = shapes_folder(tmp_path, train=200, test=50)
    torch.manual_seed(0)
    network = BackboneSettings(name="resnet10t", width=0.25, stem="standard")
    backbone = Backbone(network, image_size=64)
    values = {
        "backbone": backbone,
        "batch_size": 8,
        "image_size": 96,
        "scale_jitter": (0.7, 1.3),
        "scratch": True,
        "detector": DetectorSettings(channels=32, samples=32),
    }
    start = trained(data, epochs=1, lr=1e-9, **values)
    result = trained(data, epochs=30, lr=2e-3, **values)
    assert start.metrics()["box_AP50"] < 0.01
    assert result.metrics()["box_AP50"] > 0.06
    assert result.metrics()["mask_AP50"] > 0.06


def test_pictures_show_truth_and_detections(data):
    _, test = load_coco(str(data))
    perfect = [
        Detections(o.boxes, torch.ones(len(o.labels)), o.labels, o.masks)
        for o in map(test.objects, range(len(test)))
    ]
    pictures, indices = side_by_side(test, perfect, count=3)
    assert len(pictures) == len(indices) <= 3
    for picture, index in zip(pictures, indices, strict=True):
        assert len(test.objects(index).labels)
        width = (picture.shape[2] - 6) // 2
        left, right = picture[:, :, :width], picture[:, :, -width:]
        assert (left != right).any()  # scores stand on the right alone
        plain, _ = side_by_side(test, [nothing(test)] * len(test), count=3)
        assert (plain[indices.index(index)][:, :, -width:] != right).any()
        assert torch.equal(plain[indices.index(index)][:, :, :width], left)


def nothing(data):
    """No detections."""
    none = torch.zeros(0)
    return Detections(none.view(0, 4), none, none.long(), [] if data.has_masks else None)
