"""Features: the test transform, files that cannot be read, random views, the cache."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.data import FileImages, Labeled, MemoryImages
from amcl.evaluation.cache import FeatureCache
from amcl.metrics.features import (
    AugmentedFeatures,
    Transform,
    extract,
    feature_batches,
    features_of,
    fingerprint,
    pair_features,
)
from amcl.views import Views, ViewSettings

TRANSFORM = Transform(image_size=4)


def images(n=10, side=8):
    return MemoryImages(torch.randint(256, (n, 3, side, side), dtype=torch.uint8))


@pytest.fixture
def files(tmp_path):
    """Twelve pictures, of which two are broken."""
    paths = []
    for number in range(12):
        path = tmp_path / "pictures" / f"{number:02d}.png"
        path.parent.mkdir(exist_ok=True)
        pixels = np.random.default_rng(number).integers(256, size=(8, 8 + number, 3), dtype="uint8")
        Image.fromarray(pixels).save(path)
        paths.append(str(path))
    for broken in (3, 7):
        with open(paths[broken], "wb") as file:
            file.write(b"no picture")
    return FileImages(paths, 8)


def test_a_transform_is_that_of_views():
    pixels, shapes = images()[torch.arange(10)], torch.tensor([[30, 40]]).repeat(10, 1)
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    transform = Transform(image_size=4, mean=mean, std=std, crop=0.5)
    expected = Views(4, mean=mean, std=std).plain(pixels, shapes, 0.5)
    assert torch.equal(transform(pixels, shapes), expected)
    assert not torch.equal(transform(pixels), expected)  # the shapes count
    assert not torch.equal(TRANSFORM(pixels), Transform(image_size=4, crop=0.5)(pixels))


@pytest.mark.parametrize("crop", [0, -1, 1.5, float("nan")])
def test_a_crop_is_a_share(crop):
    with pytest.raises(ValueError, match=rf"\bcrop\b.*{crop}"):
        Transform(image_size=4, crop=crop)


def test_features_come_in_order_whatever_the_batch(monkeypatch):
    model, some = nn.Sequential(nn.Flatten(), nn.Linear(48, 5)), images(23)
    whole = features_of(model, some, TRANSFORM)
    monkeypatch.setattr("amcl.metrics.features.BATCH", 4)
    parts = features_of(model, some, TRANSFORM)
    torch.testing.assert_close(parts.values, whole.values)
    expected = extract(model, [some[torch.arange(23)]], TRANSFORM)
    torch.testing.assert_close(whole.values, expected)
    assert whole.indices.tolist() == list(range(23))


@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_files_are_left_out_and_named(files, workers, monkeypatch):
    monkeypatch.setattr("amcl.metrics.features.BATCH", 4)
    found = features_of(nn.Flatten(), files, TRANSFORM, workers=workers)
    assert found.indices.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    assert [os.path.basename(path) for path, _ in found.unreadable] == ["03.png", "07.png"]
    for row, index in zip(found.values, found.indices, strict=True):
        pixels, shape = files.decode(int(index))
        expected = TRANSFORM(pixels[None], torch.tensor([shape])).flatten()
        assert torch.equal(row, expected)


def test_no_readable_image_is_an_error(files):
    with pytest.raises(ValueError, match=r"none of 1 can be read; .*03\.png"):
        features_of(nn.Flatten(), files.subset(torch.tensor([3])), TRANSFORM)


def test_a_model_must_give_vectors():
    with pytest.raises(ValueError, match=r"10 images into \(10, 3, 4, 4\).*num_classes=0"):
        features_of(nn.Identity(), images(), TRANSFORM)


def test_features_that_are_not_finite_are_an_error():
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    nn.init.constant_(model[1].weight, float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        features_of(model, images(), TRANSFORM)


def test_augmented_features_are_those_of_fresh_views():
    data = Labeled(images(), torch.arange(10))
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48))
    views = Views(4, ViewSettings(operations="ae"))
    augmented = AugmentedFeatures(model, data, views, dim=48, seed=5)
    steps = torch.randperm(10).split(4)
    first, again, later = (list(augmented.batches(epoch, steps)) for epoch in (0, 0, 1))
    for step, (a, indices), (b, _), (c, _) in zip(steps, first, again, later, strict=True):
        assert torch.equal(indices, step)
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
        assert not a.requires_grad
    assert model.training
    assert model[1].num_batches_tracked == 0


def test_augmented_features_leave_out_what_cannot_be_read(files):
    data = Labeled(files, torch.arange(12))
    augmented = AugmentedFeatures(nn.Flatten(), data, Views(4), dim=48)
    ((values, indices),) = augmented.batches(0, [torch.tensor([9, 3, 1, 7])])
    assert indices.tolist() == [9, 1]
    assert values.shape == (2, 48)


def test_pairs_are_views_of_the_same_images(files, monkeypatch):
    monkeypatch.setattr("amcl.metrics.features.BATCH", 4)
    whole = Views(4, ViewSettings(operations=""))  # both views are the image itself
    for some in (images(), files):
        (h, h0, h1), unreadable = pair_features(nn.Flatten(), some, TRANSFORM, whole)
        assert len(unreadable) == (0 if isinstance(some, MemoryImages) else 2)
        assert torch.equal(h, features_of(nn.Flatten(), some, TRANSFORM).values)
        assert torch.equal(h0, h)
        assert torch.equal(h1, h)
    some = images()
    (_, h0, h1), _ = pair_features(nn.Flatten(), some, TRANSFORM, Views(4), seed=1)
    (_, again, _), _ = pair_features(nn.Flatten(), some, TRANSFORM, Views(4), seed=2)
    assert not torch.equal(h0, h1)
    assert not torch.equal(h0, again)


def test_a_fingerprint_tells_weights_and_kinds_apart():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = fingerprint(model)
    assert fingerprint(model) == before
    model[1].num_batches_tracked += 1
    assert fingerprint(model) != before
    torch.manual_seed(0)
    small = Backbone(BackboneSettings(name="resnet10t", width=0.125), 32)
    torch.manual_seed(0)
    large = Backbone(BackboneSettings(name="resnet10t", width=0.125), 64)
    assert fingerprint(small) != fingerprint(large)
    assert fingerprint(nn.Linear(2, 2).bfloat16())
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())  # the same weights: none
    assert fingerprint(pooled) != fingerprint(nn.Sequential(nn.Flatten()))


class Counting(nn.Module):
    """How often it is called tells whether features were taken anew."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x.flatten(1) * self.scale


def cached(folder, model, some, transform=TRANSFORM):
    return FeatureCache(folder).get(
        model, some, transform, lambda: feature_batches(model, some, transform)
    )


def test_features_are_taken_once(tmp_path, files):
    for some in (images(), files):
        model = Counting()
        fresh = features_of(model, some, TRANSFORM)
        model.calls = 0
        first, second = (cached(tmp_path / "features", model, some) for _ in range(2))
        assert model.calls == 1
        for found in (first, second):
            assert torch.equal(found.values, fresh.values)
            assert torch.equal(found.indices, fresh.indices)
            assert found.unreadable == fresh.unreadable
    stored = np.load(next((tmp_path / "features").glob("*.npy")), mmap_mode="r")
    assert stored.dtype == np.float32


def test_stored_features_are_mapped_and_never_written_to(tmp_path):
    model, some = Counting(), images()
    found = cached(tmp_path, model, some)
    before = next(tmp_path.glob("*.npy")).read_bytes()
    found.values.zero_()
    assert next(tmp_path.glob("*.npy")).read_bytes() == before
    assert cached(tmp_path, model, some).values.any()


def test_the_cache_knows_weights_images_and_transform(tmp_path, files):
    model, some = Counting(), images()
    cached(tmp_path, model, some)
    cached(tmp_path, model, some, Transform(image_size=4, crop=0.9))
    cached(tmp_path, model, some.subset(torch.arange(9)))
    cached(tmp_path, model, some.subset(torch.arange(10).flip(0)))
    with torch.no_grad():
        model.scale += 1
    cached(tmp_path, model, some)
    assert model.calls == 5
    cached(tmp_path, model, files)
    shutil.copy(files.path(0), files.path(3))  # mended
    assert len(cached(tmp_path, model, files).indices) == 11
    assert model.calls == 7
    assert len(list(tmp_path.glob("*.npy"))) == 7


@pytest.mark.parametrize("what", ["bit", "short", "gone", "json", "other", "keys", "missing"])
def test_a_damaged_cache_is_an_error_and_says_what_to_do(tmp_path, what):
    model, some = Counting(), images()
    cached(tmp_path, model, some)
    values, about = next(tmp_path.glob("*.npy")), next(tmp_path.glob("*.json"))
    kept = json.loads(about.read_text())
    if what == "bit":
        content = bytearray(values.read_bytes())
        content[-3] ^= 1
        values.write_bytes(content)
    elif what == "short":
        values.write_bytes(values.read_bytes()[:-4])
    elif what == "gone":
        values.unlink()
    elif what == "json":
        about.write_text(about.read_text()[:-9])
    elif what == "other":
        about.write_text(json.dumps({**kept, "model": "another"}))
    elif what == "keys":
        about.write_text("[]")
    else:
        about.write_text(json.dumps({**kept, "missing": [99]}))
    with pytest.raises(ValueError, match=f"{about.name} .*remove .*{tmp_path} "):
        cached(tmp_path, model, some)
    assert model.calls == 1


def test_an_interrupted_cache_leaves_nothing(tmp_path):
    model, some = Counting(), images(600)

    def stopped():
        yield next(feature_batches(model, some, TRANSFORM))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FeatureCache(tmp_path).get(model, some, TRANSFORM, stopped)
    assert list(tmp_path.iterdir()) == []
    assert len(cached(tmp_path, model, some).values) == 600


def test_values_without_their_description_are_written_anew(tmp_path):
    model, some = Counting(), images()
    expected = cached(tmp_path, model, some).values.clone()
    next(tmp_path.glob("*.json")).unlink()
    assert torch.equal(cached(tmp_path, model, some).values, expected)
    assert model.calls == 2
