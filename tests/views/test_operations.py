"""Each operation against torchvision's, image by image, with parameters of their own."""

import pytest
import torch
from torchvision.transforms.v2 import functional as V

from amcl.views import operations as ops

N = 6


def picture(height=20, width=20, n=N, seed=0):
    """Random planes (3, n, H, W) with some gray and some saturated pixels."""
    images = torch.rand(3, n, height, width, generator=torch.Generator().manual_seed(seed))
    images[:, :, 0] = images[:1, :, 0]
    images[0, :, 1], images[1, :, 1] = 1.0, 0.0
    return images


def each(images, call):
    """The literal version: one image at a time."""
    return torch.stack([call(images[:, i], i) for i in range(images.shape[1])], 1)


def cut(images, boxes, flip=None, size=20):
    flip = torch.zeros(boxes.shape[:2], dtype=torch.bool) if flip is None else flip
    return ops.crop(images, *ops.crop_taps(boxes, flip, images.shape[-2:], size))


def uniform(low, high, n=N):
    return torch.linspace(low, high, n)


def test_planes_are_channels_first_in_0_to_1():
    images = torch.randint(256, (4, 3, 5, 7), dtype=torch.uint8)
    expected = V.to_dtype(images, torch.float32, scale=True).transpose(0, 1)
    assert torch.allclose(ops.planes(images), expected, atol=1e-7)
    assert ops.planes(images).is_contiguous()


@pytest.mark.parametrize(("height", "width", "size"), [(20, 20, 20), (31, 24, 12), (64, 50, 9)])
def test_crop_is_resized_crop(height, width, size):
    images, generator = picture(height, width), torch.Generator().manual_seed(1)
    sides = torch.tensor([height, width])
    long = (3 + torch.rand(2, N, 2, generator=generator) * (sides - 3)).floor()
    start = (torch.rand(2, N, 2, generator=generator) * (sides - long + 1)).floor()
    start[0, 0], long[0, 0] = 0, sides
    boxes = torch.cat([start / sides, long / sides], -1)
    flip = torch.rand(2, N, generator=generator) < 0.5
    views = cut(images, boxes, flip, size)
    assert views.shape == (3, 2 * N, size, size)
    for view in range(2):

        def expected(image, i, view=view):
            box = [int(x) for x in (*start[view, i], *long[view, i])]
            view_i = V.resized_crop(image, *box, [size, size], antialias=True)
            return V.horizontal_flip(view_i) if flip[view, i] else view_i

        part = views[:, view * N : (view + 1) * N]
        assert torch.allclose(part, each(images, expected), atol=1e-5)


def test_whole_box_changes_nothing():
    images = picture()
    boxes = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(1, N, 4)
    assert torch.equal(cut(images, boxes), images)
    mirrored = cut(images, boxes, torch.ones(1, N, dtype=torch.bool))
    assert torch.equal(mirrored, images.flip(-1))


def test_boxes_between_pixels_move_the_picture_by_parts_of_a_pixel():
    ramp = torch.arange(16.0).expand(3, 1, 16, 16) / 16
    boxes = torch.tensor([[[0.25, 0.25, 0.5, 0.5]], [[0.25, 0.28125, 0.5, 0.5]]])
    near, far = cut(ramp, boxes, size=8).unbind(1)
    assert torch.allclose((far - near)[..., 1:-1], torch.tensor(0.5 / 16), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        (ops.BRIGHTNESS, V.adjust_brightness),
        (ops.CONTRAST, V.adjust_contrast),
        (ops.SATURATION, V.adjust_saturation),
    ],
)
def test_blends_are_torchvisions(kind, function):
    images, factor = picture(), uniform(0, 2)
    expected = each(images, lambda image, i: function(image, factor[i].item()))
    result = ops.blend(images.clone(), factor, torch.full((N,), kind))
    assert torch.allclose(result, expected, atol=1e-6)


def test_hue_is_torchvisions():
    images, shift = picture(), uniform(-0.5, 0.5)
    expected = each(images, lambda image, i: V.adjust_hue(image, shift[i].item()))
    assert torch.allclose(ops.shift_hue(images.clone(), shift), expected, atol=1e-5)


def test_a_full_turn_of_hue_and_gray_pixels_stay():
    images = picture()
    assert torch.allclose(ops.shift_hue(images.clone(), torch.ones(N)), images, atol=1e-5)
    gray = images[:1].expand(3, -1, -1, -1).clone()
    assert torch.equal(ops.shift_hue(gray.clone(), uniform(-0.5, 0.5)), gray)


def test_jitter_goes_in_each_images_own_order():
    orders = torch.cartesian_prod(*4 * [torch.arange(4)])
    orders = orders[orders.sort(-1).values.eq(torch.arange(4)).all(-1)]
    n = len(orders)
    assert n == 24
    images = picture(n=n)
    draws = torch.rand(n, 4, generator=torch.Generator().manual_seed(2))
    factors = draws * torch.tensor([1.2, 1.2, 1.2, 0.4]) + torch.tensor([0.4, 0.4, 0.4, -0.2])
    functions = (V.adjust_brightness, V.adjust_contrast, V.adjust_saturation, V.adjust_hue)

    def expected(image, i):
        for which in orders[i].tolist():
            image = functions[which](image, factors[i, which].item())
        return image

    result = ops.jitter(images.clone(), factors, orders)
    assert torch.allclose(result, each(images, expected), atol=1e-4)


def test_neutral_jitter_is_bit_identical():
    images, order = picture(), torch.rand(N, 4).argsort(-1)
    factors = torch.tensor([1.0, 1.0, 1.0, 0.0]).expand(N, 4)
    assert torch.equal(ops.jitter(images.clone(), factors, order), images)


def test_gray_is_torchvisions():
    images = picture()
    expected = each(images, lambda image, i: V.rgb_to_grayscale(image, 3))
    assert torch.allclose(ops.drop_color(images), expected, atol=1e-6)


@pytest.mark.parametrize("taps", [3, 9, 23])
def test_blur_is_gaussian_blur(taps):
    images, sigma = picture(), uniform(0.1, 2.5)
    expected = each(
        images, lambda image, i: V.gaussian_blur(image, [taps, taps], [sigma[i].item()])
    )
    assert torch.allclose(ops.blur(images, sigma, taps), expected, atol=1e-6)


def test_solarize_is_torchvisions():
    images = picture()
    images[:, :, 3] = 0.5
    assert torch.equal(ops.solarize(images, 0.5), V.solarize(images, 0.5))


def test_change_touches_the_chosen_only():
    images = picture()
    result = ops.apply_to(images.clone(), torch.tensor([1, 4]), lambda some: 1 - some)
    others = [0, 2, 3, 5]
    assert torch.equal(result[:, others], images[:, others])
    assert torch.equal(result[:, [1, 4]], 1 - images[:, [1, 4]])
