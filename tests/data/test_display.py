"""Pictures of images of any channels and type."""

import pytest
import torch

from amcl.data.display import Display, band_indices, thumbnail


def images(channels, dtype, n=3, size=20):
    values = torch.rand(n, channels, size, size)
    if dtype == torch.float32:
        return values
    return (values * torch.iinfo(dtype).max).to(torch.int32).to(dtype)


def test_rgb_is_shown_as_it_is():
    rgb = images(3, torch.uint8)
    display = Display.of(rgb)
    assert display(rgb) is rgb
    assert display.describe(3) == ""
    assert torch.equal(Display.of(rgb, (3, 2, 1))(rgb), rgb.flip(1))


@pytest.mark.parametrize("channels", [1, 2])
def test_one_and_two_channels_are_gray(channels):
    pictures = images(channels, torch.uint8)
    shown = Display.of(pictures)(pictures)
    assert torch.equal(shown, pictures[:, :1].expand(-1, 3, -1, -1))
    assert Display.of(pictures).describe(channels) == f"band 1 of {channels} in gray"


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float32])
def test_chosen_bands_are_stretched(dtype):
    bands = images(13, dtype)
    dark = (bands.float() * 0.03).to(dtype)
    display = Display.of(dark, (4, 3, 2))
    shown = display(dark)
    assert shown.shape == (3, 3, 20, 20)
    assert shown.dtype == torch.uint8
    for place, band in enumerate((3, 2, 1)):
        values, pixels = dark[:, band].float().flatten(), shown[:, place].flatten()
        order = values.argsort()
        assert (pixels[order].int().diff() >= 0).all()
        assert pixels.float().quantile(0.02) < 10
        assert pixels.float().quantile(0.98) > 245
        assert (pixels == 0).float().mean() < 0.03
    assert display.describe(13) == "bands 4, 3 and 2 of 13 as red, green and blue, stretched"


def test_views_are_stretched_as_their_images():
    bands = images(4, torch.uint16)
    display = Display.of(bands)
    assert torch.equal(display.values(bands.float() / 65535), display(bands))
    assert torch.equal(display.values(torch.full((4, 2, 2), -5.0)), torch.zeros(3, 2, 2).byte())


def test_flat_and_missing_values_are_shown():
    flat = torch.full((1, 1, 4, 4), 1000).to(torch.uint16)
    assert Display.of(flat)(flat).unique().tolist() == [128]
    missing = torch.full((1, 1, 4, 4), float("nan"))
    assert Display.of(missing)(missing).unique().tolist() == [0]
    some = images(1, torch.float32)
    some[0, 0, 0, 0] = float("inf")
    assert Display.of(some).high[0] <= 1


def test_bands_that_there_are_not():
    for bands in ((0, 1, 2), (1, 2, 14), (1, 2)):
        with pytest.raises(ValueError, match=r"--bands .* from 1 to 13"):
            band_indices(bands, 13)


def test_thumbnails_keep_their_shape():
    image = images(13, torch.uint16, n=1)[0][:, :10]
    assert thumbnail(image, 8, (1, 2, 3)).shape == (3, 4, 8)
    assert thumbnail(image, 99).shape == (3, 10, 20)
    brighter = (image.float() / 2).to(torch.uint16)
    display = Display.of(image[None])
    assert thumbnail(brighter, 8, display=display).float().mean() < 100
