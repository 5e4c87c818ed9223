"""Views of images of any number of channels and type of pixels."""

import json
from pathlib import Path

import pytest
import torch
from torchvision.transforms.v2 import functional as V

from amcl.views import ViewGroups, Views, ViewSettings, operations, suited
from amcl.views.channels import FITTED, check_channels

CHANNELS = (1, 2, 4, 13)
RECORD = Path(__file__).with_name("rgb_views.json")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def stored(channels, dtype=torch.uint8, n=6, size=24):
    """Random images as they are stored."""
    values = torch.rand(n, channels, size, size, generator=generator(channels))
    if dtype == torch.float32:
        return values
    top = torch.iinfo(dtype).max
    return (values * (top + 0.999)).to(torch.int32).to(dtype)


def views_of(channels, size=24, **settings):
    """Views that are not normalized."""
    flat = {"mean": (0.0,) * channels, "std": (1.0,) * channels}
    return Views(size, ViewSettings(**settings), **flat)


@pytest.mark.parametrize(
    ("operations", "channels", "expected"),
    [
        ("abcde", 3, "abcde"),
        ("edcba", 3, "edcba"),
        ("abcde", 1, "abden"),
        ("abcde", 2, "abdehn"),
        ("abcdes", 13, "abdehn"),
        ("abcdes", 1, "abdens"),
        ("aes", 4, "aen"),
        ("ace", 4, "aeh"),
        ("ace", 1, "aen"),
        ("ae", 13, "ae"),
        ("ea", 13, "ea"),
        ("ah", 1, "an"),
        ("", 4, ""),
    ],
)
def test_operations_on_color_are_replaced(operations, channels, expected):
    settings, notes = suited(ViewSettings(operations=operations), channels)
    assert settings.operations == expected
    check_channels(settings, channels)
    assert bool(notes) == (expected != operations)
    assert suited(settings, channels) == (settings, [])
    if set(operations) - set(expected):
        assert "in the place of" in notes[0]


def test_the_jitter_keeps_brightness_and_contrast():
    settings, notes = suited(ViewSettings(jitter=(0.8, 0.7, 0.6, 0.2)), 13)
    assert settings.jitter == (0.8, 0.7, 0.0, 0.0)
    assert "images have 13 channels: views are abdehn instead of abcde" in notes[0]
    assert "jitter of images of 13 channels changes brightness and contrast" in notes[1]


@pytest.mark.parametrize(
    ("settings", "fixed", "message"),
    [
        ({}, ["views"], r"views abcde have c \(color.*13 channels.*use abdeh\b"),
        ({"operations": "as"}, ["views"], r"views as have s \(solarize\).*use an\b"),
        ({}, ["jitter"], r"jitter 0\.4 0\.4 0\.4 0\.1 ends in .*use 0\.4 0\.4 0 0 \(--jitter\)"),
        ({"gray_p": 0.5}, ["gray_p"], r"--gray-p belongs to color.*--views is abdehn"),
        ({"operations": "ade", "noise_p": 0.1}, FITTED, "0.4 0.4 0 0"),
        ({"operations": "ae", "noise_p": 0.1}, ["views"], r"--noise-p belongs to noise"),
    ],
)
def test_what_a_user_set_is_not_changed(settings, fixed, message):
    with pytest.raises(ValueError, match=message):
        suited(ViewSettings(**settings), 13, fixed)


def test_what_a_user_set_rightly_is_kept():
    typed = ViewSettings(operations="adh", jitter=(0.5, 0.2, 0, 0), channel_drop_p=0.7)
    assert suited(typed, 13, FITTED) == (typed, [])
    assert suited(ViewSettings(operations="hn", noise_p=0.1), 3, FITTED)[1] == []
    with pytest.raises(ValueError, match="--channel-drop-p belongs to channel drop"):
        suited(ViewSettings(channel_drop_p=0.5), 3)


def test_views_refuse_operations_for_other_channels():
    for channels, letters in ((13, "c"), (13, "s"), (1, "h"), (2, "s")):
        with pytest.raises(ValueError, match=f"views {letters} have {letters}"):
            views_of(channels, operations=letters)
    with pytest.raises(ValueError, match="saturation and hue, which"):
        views_of(4, operations="d")
    with pytest.raises(ValueError, match=r"views are of images of 4 channels.*13, 24, 24"):
        views_of(4, operations="").plain(stored(13))
    with pytest.raises(ValueError, match="mean has 2 numbers and std has 1"):
        Views(24, ViewSettings(operations="a"), mean=(0.5, 0.5), std=(0.5,))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
@pytest.mark.parametrize("channels", [*CHANNELS, 3])
def test_views_of_any_images(channels, dtype):
    settings, _ = suited(ViewSettings(operations="abcdes", local_crops=2), channels)
    mean, std = (0.5,) * channels, (0.3,) * channels
    groups = ViewGroups(24, settings, 2, mean=mean, std=std)
    images = stored(channels, dtype)
    before = images.clone()
    views = groups(images, groups.draw(6, generator=generator()))
    assert [tuple(view.shape) for view in views] == [
        *[(6, channels, 24, 24)] * 2,
        *[(6, channels, 10, 10)] * 2,
    ]
    assert all(view.isfinite().all() and view.dtype == torch.float32 for view in views)
    assert torch.equal(images, before)
    again = groups(images, groups.draw(6, generator=generator()))
    assert all(torch.equal(view, other) for view, other in zip(views, again, strict=True))


@pytest.mark.parametrize("channels", CHANNELS)
def test_crops_are_those_of_torchvision_in_each_channel(channels):
    views = views_of(channels, operations="a", size=16)
    images = stored(channels, torch.uint16)
    drawn = views.draw(6, generator=generator())
    result = views(images, drawn)
    for one in range(channels):
        alone = views_of(1, operations="a", size=16)(images[:, one : one + 1], drawn)
        torch.testing.assert_close(result[:, :, one : one + 1], alone)
    plain = views.plain(images)
    expected = V.resize(images.float() / 65535, [16, 16], antialias=True)
    torch.testing.assert_close(plain, expected, rtol=1e-5, atol=1e-5)


def test_sixteen_bits_are_not_squeezed_to_eight():
    ramp = torch.arange(65536).to(torch.uint16).view(1, 1, 256, 256)
    views = views_of(1, operations="", size=256)
    assert torch.equal(views.plain(ramp).flatten() * 65535, torch.arange(65536).float())


def test_values_outside_of_the_range_are_kept():
    images = torch.linspace(-3, 9, 2 * 4 * 24 * 24).view(2, 4, 24, 24)
    assert torch.equal(views_of(4, operations="").plain(images), images)
    jittered = views_of(4, operations="d", jitter=(0.4, 0.4, 0, 0), jitter_p=1.0)(images)
    assert jittered.min() < -1
    assert jittered.max() > 3


@pytest.mark.parametrize("channels", CHANNELS)
def test_brightness_and_contrast(channels):
    images = torch.rand(channels, 5, 8, 8, generator=generator())
    factors = torch.rand(5, 2, generator=generator(1)) + 0.5
    expected = images.clone()
    for n in range(5):
        for c in range(channels):
            brightness, contrast = factors[n].tolist()
            plane = images[c, n]
            expected[c, n] = brightness * (contrast * plane + (1 - contrast) * plane.mean())
    result = operations.scale_contrast(images.clone(), factors)
    torch.testing.assert_close(result, expected)
    unchanged = operations.scale_contrast(images.clone(), torch.ones(5, 2))
    torch.testing.assert_close(unchanged, images)


def test_noise_has_its_sigma_in_each_channel():
    images = torch.zeros(2, 3, 200, 200)
    sigma = torch.tensor([[1.0, 2.0, 0.0], [10.0, 20.0, 0.0]])
    seeds = torch.tensor([1, 2, 3])
    noisy = operations.add_noise(images, sigma, seeds)
    torch.testing.assert_close(noisy.std((2, 3)), sigma, rtol=0.02, atol=0)
    assert noisy.mean((2, 3)).abs().max() < 0.3
    one = operations.add_noise(images[:, 1:2], sigma[:, 1:2], seeds[1:2])
    assert torch.equal(one, noisy[:, 1:2])


def test_noise_is_in_standard_deviations_of_the_channels():
    settings = ViewSettings(operations="n", noise_p=1.0, noise_sigma=(0.5, 0.5))
    views = Views(64, settings, mean=(0.1, 0.7), std=(0.01, 0.2))
    images = torch.zeros(8, 2, 64, 64)
    noise = views(images) - views.plain(images)
    assert noise.std((0, 1, 3, 4)).tolist() == pytest.approx([0.5, 0.5], rel=0.02)


def test_dropped_channels_become_their_mean():
    settings = ViewSettings(operations="h", channel_drop_p=1.0)
    views = Views(24, settings, mean=(0.2, 0.4, 0.6, 0.8), std=(0.1, 0.2, 0.3, 0.4))
    images = stored(4)
    drawn = views.draw(6, generator=generator())
    result = views(images, drawn)
    dropped = drawn.dropped[..., None, None].expand_as(result)
    assert result[dropped].abs().max() < 1e-6
    assert torch.equal(result[~dropped], views.plain(images).expand_as(result)[~dropped])


def test_up_to_half_of_the_channels_are_dropped():
    counts = views_of(13, operations="h", channel_drop_p=0.5).draw(4000, generator=generator())
    number = counts.dropped.sum(-1).flatten()
    assert (number > 0).float().mean().item() == pytest.approx(0.5, abs=0.02)
    shares = number[number > 0].bincount(minlength=14).float() / (number > 0).sum()
    assert shares[1:7].tolist() == pytest.approx([1 / 6] * 6, abs=0.02)
    assert shares[7:].sum() == 0
    each = counts.dropped.float().mean((0, 1))
    assert each.min() > 0.9 * each.max()
    noise = views_of(2, operations="n", noise_p=0.3).draw(4000, generator=generator()).noise
    assert (noise > 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert [noise[noise > 0].min(), noise.max()] == pytest.approx([0.02, 0.2], abs=1e-3)


@pytest.mark.parametrize("channels", [1, 13])
def test_parts_of_the_batch_are_parts_of_the_views(channels, monkeypatch):
    settings, _ = suited(ViewSettings(noise_p=1.0), channels)
    views = Views(24, settings, mean=(0.5,) * channels, std=(0.3,) * channels)
    images = stored(channels, torch.uint16, n=11)
    drawn = views.draw(11, generator=generator())
    everything = views(images, drawn)
    for start, stop in [(0, 1), (1, 3), (3, 11)]:
        part = views(images[start:stop], drawn.rows(start, stop))
        assert torch.equal(part, everything[:, start:stop])
    monkeypatch.setattr("amcl.views.views._CPU_CHUNK", channels * 24 * 24 * 4)
    assert torch.equal(views(images, drawn), everything)


def test_operations_on_channels_do_not_change_the_others():
    """What is drawn for crops, flips and jitter is the same with noise and without."""
    with_them, without = (views_of(4, operations=letters) for letters in ("aehn", "ae"))
    first, second = (views.draw(8, generator=generator()) for views in (with_them, without))
    for name in ("boxes", "flip", "jitter", "sigma"):
        assert torch.equal(getattr(first, name), getattr(second, name))
    states = []
    for letters in ("aehn", "ae"):
        chance = generator()
        views_of(4, operations=letters).draw(8, generator=chance)
        states.append(torch.rand(3, generator=chance))
    assert torch.equal(*states)


def test_views_of_rgb_are_those_that_were_recorded():
    """A record of the views of 0.1, before images had other channels."""
    record = json.loads(RECORD.read_text())
    images = torch.arange(2 * 3 * 16 * 16).mul(37).remainder(256).to(torch.uint8)
    views = Views(8, ViewSettings(operations="abcdes", jitter_p=1.0, gray_p=0.3))
    drawn = views.draw(2, generator=generator(3))
    for name, values in record["parameters"].items():
        expected = torch.tensor(values).view_as(getattr(drawn, name))
        torch.testing.assert_close(getattr(drawn, name).float(), expected.float())
    result = views(images.view(2, 3, 16, 16), drawn)
    expected = torch.tensor(record["views"]).view_as(result)
    torch.testing.assert_close(result, expected, rtol=0, atol=2e-5)
