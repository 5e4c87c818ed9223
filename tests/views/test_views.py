"""The class: chance, letters, parts of a batch, and what it refuses."""

import dataclasses

import pytest
import torch
from torchvision.transforms.v2 import functional as V

from amcl.views import IMAGENET_MEAN, IMAGENET_STD, ViewGroups, Views, ViewSettings, operations


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def photos(n=8, height=24, width=24):
    return torch.randint(256, (n, 3, height, width), dtype=torch.uint8, generator=generator(9))


def named(parameters):
    return {f.name: getattr(parameters, f.name) for f in dataclasses.fields(parameters)}


def literal(views, images, p):
    """One view at a time, by torchvision; boxes are of whole pixels."""
    out = torch.empty(2, len(images), 3, views.size, views.size)
    height, width = images.shape[-2:]
    functions = (V.adjust_brightness, V.adjust_contrast, V.adjust_saturation, V.adjust_hue)
    for v in range(2):
        for i, image in enumerate(V.to_dtype(images, torch.float32, scale=True)):
            box = p.boxes[v, i] * torch.tensor([height, width, height, width])
            x = V.resized_crop(image, *box.round().int().tolist(), [views.size] * 2)
            x = V.horizontal_flip(x) if p.flip[v, i] else x
            for which in p.order[v, i].tolist():
                x = functions[which](x, p.jitter[v, i, which].item())
            x = V.rgb_to_grayscale(x, 3) if p.gray[v, i] else x
            if p.sigma[v, i] > 0:
                x = V.gaussian_blur(x, [views.taps] * 2, [p.sigma[v, i].item()])
            x = V.solarize(x, views.settings.solarize_threshold) if p.solarize[v, i] else x
            out[v, i] = V.normalize(x, IMAGENET_MEAN, IMAGENET_STD)
    return out


@pytest.mark.parametrize(("height", "width", "size"), [(24, 24, 24), (40, 30, 16)])
def test_views_are_torchvisions_operations_in_order(height, width, size):
    settings = ViewSettings(operations="abcdes", solarize_p=(0.5, 0.5), gray_p=0.3)
    views, images = Views(size, settings), photos(24, height, width)
    p = views.draw(24, generator=generator(), shapes=torch.tensor([[height, width]] * 24))
    sides = torch.tensor([height, width])
    long = (p.boxes[..., 2:] * sides).round().clamp_min(1)
    start = torch.minimum((p.boxes[..., :2] * sides).round(), sides - long)
    p = dataclasses.replace(p, boxes=torch.cat([start / sides, long / sides], -1))
    result = views(images, p)
    assert result.shape == (2, 24, 3, size, size)
    assert result.dtype == torch.float32
    # One pixel in a thousand may fall on the other side of solarize's threshold.
    wrong = (result - literal(views, images, p)).abs() > 1e-3
    assert wrong.float().mean() < 1e-3


def test_plain_resizes_and_normalizes():
    images = photos(5, 40, 30)
    expected = V.resize(V.to_dtype(images, torch.float32, scale=True), [16, 16], antialias=True)
    expected = V.normalize(expected, IMAGENET_MEAN, IMAGENET_STD)
    assert torch.allclose(Views(16).plain(images), expected, atol=1e-4)


def test_mean_and_std_normalize_each_channel():
    images, mean, std = photos(), (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
    raw = Views(24, mean=(0, 0, 0), std=(1, 1, 1)).plain(images)
    expected = V.normalize(raw, list(mean), list(std))
    assert torch.allclose(Views(24, mean=mean, std=std).plain(images), expected, atol=1e-6)


@pytest.mark.parametrize("size", [24, 10])
def test_no_letters_is_plain(size):
    views, images = Views(size, ViewSettings(operations="")), photos()
    result = views(images, views.draw(8, generator=generator()))
    assert torch.equal(result, views.plain(images).expand_as(result))


FIELDS = {"a": "boxes", "b": "sigma", "c": "gray", "d": "jitter", "e": "flip", "s": "solarize"}


@pytest.mark.parametrize("letter", FIELDS)
def test_a_letter_switches_its_operation_off_and_no_other(letter):
    images, always = photos(64), ViewSettings(operations="abcdes", solarize_p=(0.5, 0.5))
    full = Views(24, always)
    less = Views(24, dataclasses.replace(always, operations=always.operations.replace(letter, "")))
    with_it, without = (v.draw(64, generator=generator()) for v in (full, less))
    for name, value in named(with_it).items():
        assert torch.equal(value, named(without)[name]) == (name != FIELDS[letter])
    neutral = dataclasses.replace(
        with_it, **{FIELDS[letter]: getattr(without, FIELDS[letter]).clone()}
    )
    assert torch.equal(less(images, without), full(images, neutral))
    assert not torch.equal(less(images, without), full(images, with_it))


def test_operations_have_their_probabilities():
    settings = ViewSettings(
        operations="abcdes", flip_p=0.3, jitter_p=0.7, gray_p=0.1, blur_p=(0.9, 0.4)
    )
    n = 20_000
    p = Views(32, settings).draw(n, generator=generator())
    assert p.flip.float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert p.gray.float().mean().item() == pytest.approx(0.1, abs=0.01)
    assert (p.sigma > 0).float().mean(1).tolist() == pytest.approx([0.9, 0.4], abs=0.015)
    assert p.solarize.float().mean(1).tolist() == pytest.approx([0.0, 0.2], abs=0.015)
    neutral = torch.tensor([1.0, 1.0, 1.0, 0.0])
    changed = (p.jitter != neutral).any(-1)
    assert changed.float().mean().item() == pytest.approx(0.7, abs=0.01)
    strength = (p.jitter - neutral)[changed]
    assert strength.amax(0).tolist() == pytest.approx([0.4, 0.4, 0.4, 0.1], rel=0.01)
    assert strength.amin(0).tolist() == pytest.approx([-0.4, -0.4, -0.4, -0.1], rel=0.01)
    assert strength.mean(0).abs().max() < 0.01
    code = (p.order * torch.tensor([64, 16, 4, 1])).sum(-1).flatten().bincount()
    assert (code > 0).sum() == 24
    assert code[code > 0].min() > 0.8 * 2 * n / 24
    sigma = p.sigma[p.sigma > 0]
    assert [sigma.min().item(), sigma.max().item()] == pytest.approx([0.1, 2.0], abs=0.01)


def test_strong_jitter_has_no_negative_factors():
    p = Views(32, ViewSettings(jitter=(2.0, 2.0, 2.0, 0.5))).draw(500, generator=generator())
    assert p.jitter[..., :3].min() >= 0
    assert p.jitter[..., 3].abs().max() <= 0.5


def test_images_and_views_differ_from_each_other():
    views, images = Views(24), photos(1).expand(32, -1, -1, -1)
    result = views(images, views.draw(32, generator=generator())).flatten(0, 1).flatten(1)
    assert torch.pdist(result).min() > 0.1


def test_same_seed_same_views():
    views, images = Views(24), photos()
    first, again, other = (
        views(images, views.draw(8, generator=generator(seed))) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_generator_moves_alike_whatever_is_on():
    states = []
    for settings in (ViewSettings(), ViewSettings(operations=""), ViewSettings(min_overlap=0.9)):
        chance = generator()
        Views(24, settings).draw(8, generator=chance)
        states.append(torch.rand(3, generator=chance))
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[0], states[2])


@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (50, 40, 24), (64, 64, 224)])
def test_parts_of_the_batch_are_parts_of_the_views(height, width, size):
    n = 11
    views = Views(size, ViewSettings(operations="abcdes", solarize_p=(0.5, 0.5)))
    images, p = photos(n, height, width), views.draw(n, generator=generator())
    everything = views(images, p)
    for start, stop in [(0, 1), (1, 3), (3, 10), (10, 11), (4, 5)]:
        part = views(images[start:stop], p.rows(start, stop))
        assert torch.equal(part, everything[:, start:stop])
    assert torch.equal(views.plain(images)[3:5], views.plain(images[3:5]))


def test_chunks_do_not_show(monkeypatch):
    views, images = Views(32), photos(20, 32, 32)
    p = views.draw(20, generator=generator())
    expected = views(images, p)
    monkeypatch.setattr("amcl.views.views._CPU_CHUNK", 2 * 3 * 32 * 32 * 3)
    assert torch.equal(views(images, p), expected)


def test_images_stay_and_views_feed_autograd():
    views, images = Views(24), photos()
    before = images.clone()
    result = views(images, views.draw(8, generator=generator()))
    assert torch.equal(images, before)
    assert not result.requires_grad
    weight = torch.ones(3, requires_grad=True)
    (result * weight[:, None, None]).square().sum().backward()
    assert weight.grad is not None


def test_no_images_no_views():
    views = Views(24)
    result = views(photos(0), views.draw(0, generator=generator()))
    assert result.shape == (2, 0, 3, 24, 24)


def test_crops_overlap_as_set():
    for settings in (ViewSettings(min_overlap=0.7), ViewSettings(overlap=0.7)):
        overlap = Views(32, settings).draw(500, generator=generator()).overlap()
        assert overlap.shape == (500,)
        assert overlap.min() >= 0.7 - 1e-3
        assert (overlap.max() < 0.71) == (settings.overlap is not None)


def test_parameters_go_to_a_device():
    p = Views(32).draw(3, generator=generator())
    assert {value.device.type for value in named(p.to("meta")).values()} == {"meta"}
    assert len(p.rows(1, 3)) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operations": "abx"}, r"no operation for 'x'.*a = random resized crop.*s = solarize"),
        ({"flip_p": 1.5}, r"flip_p must lie from 0 to 1, got 1.5"),
        ({"blur_p": (0.5, -1.0)}, r"blur_p must lie from 0 to 1, got \(0.5, -1.0\)"),
        ({"blur_p": 0.5}, r"blur_p must be 2 numbers, got 0.5"),
        ({"jitter": (0.4, 0.4, 0.4)}, r"jitter must be 4 numbers"),
        ({"jitter": (0.4, 0.4, 0.4, 0.6)}, r"hue must lie from 0 to 0.5"),
        ({"crop_scale": (0.5, 0.2)}, r"crop_scale must be the least and the most.*\(0.5, 0.2\)"),
        ({"crop_scale": (0.5, 1.2)}, r"crop_scale.*at most 1"),
        ({"crop_ratio": (0.0, 1.2)}, r"crop_ratio.*above 0"),
        ({"jitter": (float("inf"), 0.4, 0.4, 0.1)}, r"jitter must be finite and at least 0"),
        ({"blur_sigma": (0.1, float("inf"))}, r"blur_sigma must be the least and the most"),
        ({"blur_kernel": 4}, r"blur_kernel must be odd.*got 4"),
        ({"min_overlap": 0.5, "overlap": 0.5}, r"min_overlap or overlap, not both"),
        ({"overlap": 0.0}, r"overlap must be above 0.*got 0.0"),
        ({"overlap": 0.1, "crop_scale": (0.8, 1.0)}, r"out of reach.*Lower crop_scale"),
        ({"overlap": 0.5, "operations": "b"}, r"does not crop.*add 'a'"),
    ],
)
def test_settings_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ViewSettings(**change)


def test_calls_that_are_refused():
    views = Views(24)
    p = views.draw(8, generator=generator())
    with pytest.raises(ValueError, match=r"must be uint8, uint16 or float32 .*got torch.float64"):
        views(photos().double(), p)
    with pytest.raises(ValueError, match=r"3 channels.*images are \(8, 24, 24, 3\)"):
        views.plain(photos().permute(0, 2, 3, 1))
    with pytest.raises(ValueError, match=r"5 images came with the parameters of 8.*rows"):
        views(photos(5), p)
    with pytest.raises(ValueError, match=r"shapes must be \(8, 2\).*got \(3, 2\)"):
        views.draw(8, generator=generator(), shapes=torch.ones(3, 2))
    with pytest.raises(ValueError, match=r"shapes must be .* above 0"):
        views.draw(8, generator=generator(), shapes=torch.zeros(8, 2))
    with pytest.raises(ValueError, match=r"blur of 3 pixels is too wide for views of size = 1"):
        Views(1)
    with pytest.raises(ValueError, match=r"\bsize\b.*\b0\b"):
        Views(0)
    with pytest.raises(ValueError, match=r"std must be above 0"):
        Views(24, std=(1.0, 0.0, 1.0))
    with pytest.raises(ValueError, match=r"mean has 1 numbers and std has 3"):
        Views(24, mean=(0.5,))


def test_settings_show_a_line_for_each_field():
    from pathlib import Path

    import amcl.views.settings as module

    source = Path(module.__file__).read_text()
    for field in dataclasses.fields(ViewSettings):
        line = next(x for x in source.splitlines() if x.startswith(f"    {field.name}: "))
        assert source.split(line + "\n")[1].lstrip().startswith('"""')


def test_the_first_view_alone_is_the_first_of_two():
    views = Views(16)
    images = torch.randint(256, (6, 3, 20, 20), dtype=torch.uint8)
    drawn = views.draw(6, generator=torch.Generator().manual_seed(3))
    assert torch.equal(views(images, drawn.first())[0], views(images, drawn)[0])


def test_a_central_crop_is_torchvisions_in_the_true_proportions():
    """A picture stored squashed gives what Resize and CenterCrop cut from the original."""
    from torchvision.transforms.v2 import functional as F

    original = torch.randint(256, (1, 3, 12, 18), dtype=torch.uint8)
    original = F.resize(original, [240, 360], antialias=True)  # smooth: resampling twice is fair
    stored = F.resize(original, [240, 240], antialias=True)
    views = Views(56, mean=(0, 0, 0), std=(1, 1, 1))
    ours = views.plain(stored, torch.tensor([[240, 360]]), crop=0.875)
    theirs = F.resize(F.center_crop(original, [210, 210]), [56, 56], antialias=True)
    assert (ours - theirs / 255).abs().max() < 0.02
    assert (views.plain(stored) - theirs / 255).abs().max() > 0.1


SIDES = (1, 2, 7, 1000, 40_000, 65_535, 10**9)
CROPS = (
    {},
    {"crop_scale": (1e-4, 1e-3)},
    {"crop_ratio": (0.01, 100.0)},
    {"min_overlap": 0.9},
    {"overlap": 0.3, "crop_scale": (0.05, 0.2)},
)


@pytest.mark.parametrize("crop", CROPS, ids=str)
@pytest.mark.parametrize("canvas", [1, 9, 48, 96])
@pytest.mark.parametrize("size", [1, 12, 32])
def test_images_of_any_shape_give_finite_views(size, canvas, crop):
    """A crop of 1 × 40,000 pixels is thinner than a pixel of the canvas it was squashed onto."""
    shapes = torch.cartesian_prod(torch.tensor(SIDES), torch.tensor(SIDES))
    images = torch.randint(1, 256, (len(shapes), 3, canvas, canvas), dtype=torch.uint8)
    views = Views(size, ViewSettings(operations="ae", **crop), mean=(0, 0, 0), std=(1, 1, 1))
    parameters = views.draw(
        len(shapes), generator=torch.Generator().manual_seed(canvas), shapes=shapes
    )
    made = views(images, parameters)
    # Each pixel is a mean of pixels, all of which are above 0: none is lost at a border.
    assert made.min() >= 1 / 256
    assert made.max() <= 1 + 1e-6
    assert views.plain(images, shapes, crop=0.875).min() >= 1 / 256


@pytest.mark.parametrize("start", [0.0, 0.1, 1 / 3, 0.5, 1.0])
def test_a_crop_without_width_shows_the_pixels_there(start):
    images = torch.arange(1, 9, dtype=torch.uint8).expand(1, 3, 8, 8).contiguous()
    boxes = torch.tensor([[[0.0, start, 1.0, 0.0]]])
    rows, columns = operations.crop_taps(boxes, torch.zeros(1, 1, dtype=torch.bool), (8, 8), 4)
    value = operations.crop(operations.planes(images), rows, columns).mul(255)
    expected = min(max(8 * start + 0.5, 1), 8)
    assert torch.allclose(value, torch.tensor(float(expected)), atol=0.51)


def test_local_crops_are_whole_patches_unless_their_size_is_given():
    settings = ViewSettings(local_crops=2)
    assert ViewGroups(224, settings).sizes == [224, 224, 96, 96]
    assert ViewGroups(112, settings, patch=16).sizes == [112, 112, 48, 48]
    assert ViewGroups(16, settings, patch=16).sizes == [16, 16, 16, 16]
    sized = ViewSettings(local_crops=1, local_size=50)
    assert ViewGroups(112, sized, patch=16).sizes == [112, 112, 50]
    assert ViewGroups(112, ViewSettings(), num_views=1).sizes == [112]
