"""Values of settings that are left out, and settings that do not fit."""

import pytest

from amcl.evaluation.detection import DetectionSettings


@pytest.mark.parametrize(
    ("values", "images", "expected"),
    [
        ({}, 318, {"batch_size": 8, "epochs": 52, "image_size": 320, "warmup_epochs": 1.0}),
        ({}, 118_000, {"epochs": 12, "lr": 2e-4, "weight_decay": 0.05, "clip": 1.0}),
        ({"epochs": 4}, 20, {"epochs": 4, "warmup_epochs": 0.4}),
        ({"lr": 1e-3, "image_size": 64}, 99, {"lr": 1e-3, "image_size": 64}),
        (
            {"recipe": "paper"},
            118_000,
            {
                "image_size": 1024,
                "epochs": 100,
                "batch_size": 64,
                "lr": 8e-5,
                "weight_decay": 0.1,
                "scale_jitter": (0.1, 2.0),
                "warmup_epochs": 0.25,
            },
        ),
        ({"recipe": "paper", "epochs": 25}, 118_000, {"epochs": 25, "batch_size": 64}),
    ],
)
def test_what_is_left_out_follows_from_recipe_and_images(values, images, expected):
    settings = DetectionSettings(**values).resolved(images=images, longest=320)
    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(("longest", "size"), [(20, 64), (100, 128), (640, 640), (5000, 640)])
def test_images_are_as_large_as_those_of_the_set_up_to_a_limit(longest, size):
    assert DetectionSettings().resolved(images=50, longest=longest).image_size == size


def test_few_images_make_small_batches_and_processes_share_them():
    assert DetectionSettings().resolved(images=3, longest=64).batch_size == 3
    settings = DetectionSettings(accumulate=2).resolved(images=50, longest=64, processes=3)
    assert settings.batch_size == 6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image_size": 100}, "image_size=100 is no multiple of 32.*use 96"),
        ({"recipe": "large"}, "recipe must be one of 'small', 'paper'"),
        ({"scale_jitter": (2.0, 0.5)}, "scale_jitter goes from the least.*use 0.5 2"),
        ({"lr": 0.0}, "lr must be"),
        ({"layer_decay": 1.5}, "layer_decay must be at most 1"),
        ({"flip_p": 2.0}, "flip_p must be at most 1"),
        ({"epochs": 0}, "epochs must be"),
        ({"clip": -1.0}, "clip must be"),
    ],
)
def test_settings_that_mean_nothing(values, message):
    with pytest.raises(ValueError, match=message):
        DetectionSettings(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 30}, "a batch of 30 images does not fit into the 20"),
        ({"batch_size": 5, "accumulate": 2}, "multiple of 2"),
        ({"epochs": 2, "warmup_epochs": 2.0}, "warmup_epochs=2 leaves none of epochs=2"),
    ],
)
def test_settings_that_do_not_fit_the_images(values, message):
    with pytest.raises(ValueError, match=message):
        DetectionSettings(**values).resolved(images=20, longest=64)


def test_images_must_be_named():
    with pytest.raises(ValueError, match="--data"):
        DetectionSettings().check()
    DetectionSettings(data="builtin").check()
    DetectionSettings(train_annotations="a.json").check()
