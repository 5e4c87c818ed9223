"""What masked methods draw: masks and noise, own for each image and view."""

import math

import pytest
import torch

from amcl.backbones import Backbone, BackboneSettings
from amcl.methods import METHODS, CANSettings, Drawn, MAESettings, make_method
from amcl.methods.masked import noise_like
from amcl.seeds import generator
from reference import masked as literal
from toy_masked_methods import (
    IMAGES,
    SIZE,
    L,
    drawn_for,
    loss_of,
    make,
    seen_by,
    terms_of,
    views,
)

# what is drawn


def test_sigma_is_uniform_and_own_for_each_view_and_image():
    drawn = drawn_for(make("can", noise=0.05), n=4000)
    assert drawn.sigma.shape == drawn.seeds.shape == (2, 4000)
    levels = drawn.sigma.flatten().double().sort().values
    assert len(levels.unique()) > 7900
    assert len(drawn.seeds.unique()) == 8000
    uniform = 0.05 * (torch.arange(8000) + 0.5) / 8000
    distance = (levels - uniform).abs().max() / 0.05
    assert distance < 1.63 / math.sqrt(8000)  # Kolmogorov and Smirnov, 1 %
    assert abs(torch.corrcoef(drawn.sigma)[0, 1]) < 5 / math.sqrt(4000)


def test_masks_are_own_for_each_view():
    masked = drawn_for(make("can")).masked
    assert masked.shape == (2, IMAGES, L)
    assert len(masked.flatten(0, 1).unique(dim=0)) == 2 * IMAGES


def test_without_noise_there_is_none():
    method, x = make("can", noise=0.0), views()
    drawn = drawn_for(method)
    assert not drawn.sigma.any()
    assert not noise_like(x[0], drawn.sigma[0], drawn.seeds[0]).any()


def test_noise_of_an_image_follows_from_its_seed_alone():
    images, sigma = torch.zeros(5, 3, SIZE, SIZE), torch.rand(5) + 0.1
    seeds = torch.tensor([3, 2**61, 0, 7, 3])
    state = torch.get_rng_state()
    noise = noise_like(images, sigma, seeds)
    assert torch.equal(torch.get_rng_state(), state)
    order = torch.tensor([4, 0, 3, 1, 2])
    assert torch.equal(noise_like(images, sigma[order], seeds[order]), noise[order])
    parts = [noise_like(images[s], sigma[s], seeds[s]) for s in (slice(0, 2), slice(2, 5))]
    assert torch.equal(torch.cat(parts), noise)
    scaled = noise / sigma.view(-1, 1, 1, 1)
    torch.testing.assert_close(scaled[0], scaled[4])  # the same seed
    assert (scaled[0] - scaled[3]).abs().max() > 1


def test_noise_is_gaussian_with_its_sigma():
    sigma = torch.tensor([0.05, 1.0, 3.0], dtype=torch.float64)
    images = torch.randn(3, 3, 64, 64, dtype=torch.float64)
    noise = noise_like(images, sigma, torch.tensor([1, 2, 3])).flatten(1) / sigma.unsqueeze(1)
    normal = torch.distributions.Normal(0.0, 1.0)
    places = (torch.arange(noise.shape[1], dtype=torch.float64) + 0.5) / noise.shape[1]
    distance = (normal.cdf(noise.sort(dim=1).values) - places).abs().amax(1)
    assert (distance < 1.63 / math.sqrt(noise.shape[1])).all()


def test_the_decoder_is_told_the_noise_level_of_each_view():
    method, x = make("can"), views()
    drawn = drawn_for(method)
    waves = [literal.noise_level(sigma, 64) for sigma in drawn.sigma.flatten().tolist()]
    level = method.noise_embedding.layers(torch.tensor(waves, dtype=torch.float64))
    torch.testing.assert_close(seen_by(method, x, drawn)["level"], level)
    mae = make("mae")
    assert seen_by(mae, x, drawn_for(mae))["level"] is None


@pytest.mark.parametrize("name", ["mae", "can"])
def test_what_is_drawn_follows_from_the_generator_alone(name):
    method, state = make(name), torch.get_rng_state()
    first, again = drawn_for(method), drawn_for(method)
    other = method.draw(IMAGES, generator("other"))
    assert torch.equal(torch.get_rng_state(), state)
    for value, same in zip(first, again, strict=True):
        assert torch.equal(value, same)
    assert not torch.equal(first.masked, other.masked)
    assert not torch.equal(first.seeds, other.seeds)
    assert first.masked.shape == (method.num_views, IMAGES, L)


@pytest.mark.parametrize("name", ["mae", "can"])
def test_parts_of_a_batch_get_their_rows_of_what_is_drawn(name):
    """Mean losses of parts are the mean loss of the whole, where no image looks at another."""
    method, x = make(name), views()
    drawn = drawn_for(method)
    whole = terms_of(method, x, drawn)
    parts = []
    for start in (0, 2):
        rows = drawn.rows(start, start + 2)
        assert isinstance(rows, Drawn)
        parts.append(terms_of(method, x[:, start : start + 2], rows))
    for term in whole.keys() - {"contrast"}:
        halves = [part[term] for part in parts]
        torch.testing.assert_close(sum(halves) / 2, whole[term])
        assert abs(halves[0] - halves[1]) > 1e-6


def test_what_was_drawn_for_another_batch_is_refused():
    method = make("can")
    with pytest.raises(ValueError, match=r"\(2, 5\), and there are two views of 4.* draw\(4,"):
        loss_of(method, views(), drawn_for(method, 5))


def test_a_pooling_that_mae_would_not_train_is_refused():
    with torch.device("meta"):
        backbone = Backbone(BackboneSettings(name="vit_base_patch16_siglip_224"), 224)
        with pytest.raises(ValueError, match="pools by attention, which MAE would never train"):
            make_method(MAESettings(), backbone)


@pytest.mark.parametrize("settings", [MAESettings, CANSettings])
def test_one_patch_cannot_be_masked_in_part(settings):
    backbone = Backbone(BackboneSettings(name="test_vit", patch=16), 16)
    with pytest.raises(ValueError, match=r"'test_vit'.*--patch\b"):
        make_method(settings(), backbone)


def test_a_norm_behind_the_pooling_is_refused():
    with torch.device("meta"):
        backbone = Backbone(BackboneSettings(name="vit_base_patch16_rpn_224"), 224)
        with pytest.raises(ValueError, match=r"'vit_base_patch16_rpn_224'.*vit_tiny_patch16_224"):
            make_method(MAESettings(), backbone)


@pytest.mark.parametrize("name", ["mae", "can"])
def test_who_gives_nothing_drawn_gets_torchs_own_chance(name):
    method, x, losses = make(name), views()[: METHODS[name].num_views], []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        losses.append(method(x).item())
    assert losses[0] == losses[1] != losses[2]
