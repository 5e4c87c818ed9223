import os
import pickle
import struct
import sys

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch.nn.functional import interpolate

from amcl.data.decode import UnreadableImage, decode, size
from amcl.data.records import FileRecord


def color(pixels):
    """The mean color of (3, H, W), as whole numbers."""
    return pixels.float().mean((1, 2)).round().int().tolist()


def test_a_picture_of_the_canvas_size_keeps_its_pixels(tmp_path, picture):
    path = picture(tmp_path / "a.png", width=32, height=32)
    pixels, shape = decode(FileRecord(str(path)), 32)
    assert torch.equal(pixels.permute(1, 2, 0), torch.from_numpy(np.array(Image.open(path))))
    assert shape == (32, 32)


def test_other_sizes_are_squashed_and_remember_their_shape(tmp_path):
    halves = np.zeros((60, 200, 3), dtype=np.uint8)
    halves[:, 100:] = 255  # right half white: after squashing still the right half
    Image.fromarray(halves).save(tmp_path / "a.png")
    pixels, shape = decode(FileRecord(str(tmp_path / "a.png")), 40)
    assert pixels.shape == (3, 40, 40)
    assert shape == (60, 200)
    assert size(FileRecord(str(tmp_path / "a.png"))) == (60, 200)
    assert int(pixels[:, :, :18].max()) < 5
    assert int(pixels[:, :, 22:].min()) > 250


def test_scaling_down_does_not_alias(tmp_path):
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "a.png")
    pixels, _ = decode(FileRecord(str(tmp_path / "a.png")), 16)
    assert int(pixels.min()) > 110
    assert int(pixels.max()) < 145


@pytest.mark.parametrize("kind", ["png", "tif"])  # Pillow turns TIFFs itself
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path, orientation, kind):
    upright = np.zeros((30, 60, 3), dtype=np.uint8)
    upright[:15, :20] = 255  # a mark in the top left corner shows how it was turned
    # The pixels as a camera held so would store them: turning by the orientation undoes it.
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: np.rot90(upright, 2).transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / f"a.{kind}", exif=exif)
    pixels, shape = decode(FileRecord(str(tmp_path / f"a.{kind}")), 60)
    assert shape == (30, 60)
    assert int(pixels[:, :28, :18].min()) > 240
    assert int(pixels[:, 32:].max()) < 15
    assert int(pixels[:, :, 22:].max()) < 15


def test_large_jpegs_are_decoded_at_a_fraction(tmp_path, picture):
    path = picture(tmp_path / "a.jpg", width=512, height=256)
    drafted, shape = decode(FileRecord(str(path)), 64)
    assert shape == (256, 512)
    full = Image.open(path).resize((64, 64), Image.Resampling.BICUBIC)
    full = torch.from_numpy(np.array(full)).permute(2, 0, 1)
    assert (drafted.float() - full.float()).abs().mean() < 8


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("L", (8, 8), 100), [100, 100, 100]),
        (Image.new("1", (8, 8), 1), [255, 255, 255]),
        (Image.new("RGBA", (8, 8), (200, 0, 0, 0)), [255, 255, 255]),
        (Image.new("RGBA", (8, 8), (200, 0, 0, 255)), [200, 0, 0]),
        (Image.new("RGBA", (8, 8), (0, 0, 0, 51)), [204, 204, 204]),
        (Image.new("LA", (8, 8), (10, 0)), [255, 255, 255]),
        (Image.fromarray(np.full((8, 8), 25700, dtype=np.uint16)), [100, 100, 100]),
        (Image.fromarray(np.full((8, 8), 65535, dtype=np.uint16)), [255, 255, 255]),
    ],
    ids=["gray", "bits", "clear", "opaque", "shade", "gray-alpha", "16-bit", "16-bit-white"],
)
def test_modes_of_png(tmp_path, image, expected):
    image.save(tmp_path / "a.png")
    pixels, _ = decode(FileRecord(str(tmp_path / "a.png")), 8)
    assert color(pixels) == expected


def test_palette_with_a_transparent_color(tmp_path):
    image = Image.new("P", (8, 8), 1)
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.save(tmp_path / "opaque.png")
    image.save(tmp_path / "clear.png", transparency=1)
    image.save(tmp_path / "opaque.gif")
    assert color(decode(FileRecord(str(tmp_path / "opaque.png")), 8)[0]) == [200, 100, 50]
    assert color(decode(FileRecord(str(tmp_path / "opaque.gif")), 8)[0]) == [200, 100, 50]
    assert color(decode(FileRecord(str(tmp_path / "clear.png")), 8)[0]) == [255, 255, 255]


def test_cmyk(tmp_path):
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=100)
    red, green, blue = color(decode(FileRecord(str(tmp_path / "a.jpg")), 8)[0])
    assert red > 250
    assert max(green, blue) < 5


def test_values_without_a_range_take_their_own(tmp_path):
    ramp = np.linspace(-3, 5, 64, dtype=np.float32).reshape(8, 8)
    Image.fromarray(ramp).save(tmp_path / "float.tif")
    pixels, _ = decode(FileRecord(str(tmp_path / "float.tif")), 8)
    assert (int(pixels.min()), int(pixels.max())) == (0, 255)
    ramp[0, 0] = np.nan
    Image.fromarray(ramp).save(tmp_path / "nan.tif")
    with pytest.raises(UnreadableImage, match=r"/nan\.tif: .*finite"):
        decode(FileRecord(str(tmp_path / "nan.tif")), 8)


def gray(path, values, **settings):
    """Write values of 16 bits."""
    Image.fromarray(np.asarray(values, dtype=np.uint16)).save(path, **settings)
    return str(path)


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
@pytest.mark.parametrize("kind", ["png", "tif"])
def test_fewer_bits_in_16_fill_the_range(tmp_path, bits, kind):
    ramp = np.linspace(0, 2**bits - 1, 64).round().reshape(8, 8)
    pixels, _ = decode(FileRecord(gray(tmp_path / f"a.{kind}", ramp)), 8)
    expected = np.rint(ramp * (255 / (2**bits - 1)))
    assert (pixels[0].numpy() == expected).all()
    # A darker picture of the same camera keeps its darkness, to within two bits.
    pixels, _ = decode(FileRecord(gray(tmp_path / f"b.{kind}", (ramp * 0.4).round())), 8)
    assert pixels.max() == 102


@pytest.mark.parametrize("step", [4, 16, 256, 257])
def test_dark_values_that_were_scaled_up_to_16_bits_stay_dark(tmp_path, step):
    values = np.arange(16).reshape(4, 4) * step
    pixels, _ = decode(FileRecord(gray(tmp_path / "a.png", values)), 4)
    assert (pixels[0].numpy() == np.rint(values * (255 / 65535))).all()


def test_a_tiff_may_say_its_range(tmp_path):
    values = np.arange(64).reshape(8, 8) + 1  # would fit 8 bits
    for number, tags in enumerate([{281: 4095}, {341: 4095}]):
        path = gray(tmp_path / f"{number}.tif", values, tiffinfo=tags)
        pixels, _ = decode(FileRecord(path), 8)
        assert (pixels[0].numpy() == np.rint(values * (255 / 4095))).all(), tags
    path = gray(tmp_path / "wrong.tif", values + 900, tiffinfo={281: 255})  # is above what it says
    assert decode(FileRecord(path), 8)[0].max() == round(964 * 255 / 1023)


def test_pgm_is_scaled_by_its_reader(tmp_path):
    values = np.full((4, 4), 2048, dtype=">u2")
    (tmp_path / "a.pgm").write_bytes(b"P5 4 4 4095\n" + values.tobytes())
    assert color(decode(FileRecord(str(tmp_path / "a.pgm")), 4)[0]) == [128, 128, 128]


def test_the_first_frame_of_an_animation(tmp_path):
    frames = [Image.new("RGB", (8, 8), c) for c in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert color(decode(FileRecord(str(tmp_path / "a.gif")), 8)[0]) == [255, 0, 0]


def test_broken_exif_leaves_the_picture_as_it_is(tmp_path, picture):
    path = picture(tmp_path / "a.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert decode(FileRecord(str(path)), 40)[0].shape == (3, 40, 40)


@pytest.mark.parametrize("canvas", [24, 33, 96])
@pytest.mark.parametrize("size", [(50, 37), (37, 50), (24, 90), (90, 24), (33, 33), (7, 200)])
def test_both_sides_resized_at_once_give_the_pixels_of_one_after_the_other(
    tmp_path, picture, monkeypatch, size, canvas
):
    path = picture(tmp_path / "a.png", width=size[0], height=size[1])
    at_once, shape = decode(FileRecord(str(path)), canvas)
    monkeypatch.setattr(
        sys.modules["amcl.data.decoding.pictures"], "_STRIP", size[0]
    )  # rows one by one, then the height
    one_by_one, _ = decode(FileRecord(str(path)), canvas)
    assert shape == size[::-1]
    assert at_once.is_contiguous()
    assert torch.equal(at_once, one_by_one)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_strips_give_the_pixels_of_the_whole(tmp_path, monkeypatch, mode, orientation):
    colors = np.random.default_rng(0).integers(0, 256, (41, 57, 4), dtype=np.uint8)
    image = Image.fromarray(colors)
    if mode == "I;16":
        image = Image.fromarray(colors[..., 0].astype(np.uint16) * 12)
    elif mode == "P":
        image = image.convert("RGB").quantize(16)
    else:
        image = image.convert(mode if mode != "1" else "L").convert(mode)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = str(tmp_path / "a.png")
    image.save(path, exif=exif, **{"transparency": 3} if mode == "P" else {})
    whole, shape = decode(FileRecord(path), 24)
    monkeypatch.setattr(sys.modules["amcl.data.decoding.pictures"], "_STRIP", 300)
    strips, shape_of_strips = decode(FileRecord(path), 24)
    assert shape == shape_of_strips
    assert torch.equal(strips, whole)
    if mode in ("L", "RGB"):
        rgb = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        plain = torch.from_numpy(np.array(rgb)).permute(2, 0, 1)[None]
        expected = interpolate(plain, (24, 24), mode="bicubic", antialias=True)[0]
        assert torch.equal(whole, expected)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "I;16"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_no_copy_of_a_large_picture_is_whole(tmp_path, monkeypatch, mode, orientation):
    """Two bytes a pixel of gray would be eight as float64, and a copy in each step of four."""
    image = Image.new(mode, (200, 300))
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.png", exif=exif)
    sizes = []
    module = sys.modules["amcl.data.decoding.pictures"]
    monkeypatch.setattr(module, "_STRIP", 3000)
    for where, name in ((Image.Image, "convert"), (module.np, "asarray"), (module.np, "array")):
        plain = getattr(where, name)

        def recorded(image, *args, plain=plain, **options):
            if isinstance(image, Image.Image):
                sizes.append(image.width * image.height)
            return plain(image, *args, **options)

        monkeypatch.setattr(where, name, recorded)
    decode(FileRecord(str(tmp_path / "a.png")), 24)
    assert len(sizes) >= 20
    assert max(sizes) <= 3000


@pytest.mark.parametrize(
    ("width", "height", "reason"),
    [
        (13_000, 13_000, r"13,000 × 13,000 pixels, above the limit of 160 megapixels"),
        (1, 65_536, r"1 × 65,536 pixels, above the limit of 65,535 a side"),
    ],
)
def test_pictures_that_would_take_too_much_memory(tmp_path, width, height, reason):
    Image.new("1", (width, height)).save(tmp_path / "a.png", compress_level=1)
    with pytest.raises(UnreadableImage, match=reason):
        decode(FileRecord(str(tmp_path / "a.png")), 8)


def broken_files(folder, picture):
    """(Path, part of the reason) for every way to be broken that is known."""
    whole = picture(folder / "whole.jpg", width=200, height=200).read_bytes()
    (folder / "empty.jpg").touch()
    (folder / "text.png").write_text("not a picture")
    (folder / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "folder.jpg").mkdir()
    (folder / "gone.jpg").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe.jpg")
    huge = bytearray(picture(folder / "huge.bmp").read_bytes())
    huge[18:26] = struct.pack("<ii", 60000, 60000)
    (folder / "huge.bmp").write_bytes(huge)
    (folder / "eps.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    return {
        "empty.jpg": "0 bytes",
        "text.png": "JPEG, PNG, WEBP",
        "cut.jpg": "truncated",
        "folder.jpg": "a folder",
        "gone.jpg": "no such file",
        "pipe.jpg": "not a regular file",
        "huge.bmp": "above the limit of 160 megapixels",
        "eps.jpg": "JPEG, PNG, WEBP",
    }


def test_unreadable_files_say_why(tmp_path, picture):
    for name, reason in broken_files(tmp_path, picture).items():
        with pytest.raises(UnreadableImage, match=reason) as caught:
            decode(FileRecord(str(tmp_path / name)), 32)
        assert caught.value.path == str(tmp_path / name)
        assert str(tmp_path) not in caught.value.reason


def test_no_permission(tmp_path, picture, monkeypatch):
    path = picture(tmp_path / "a.png")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Image, "open", refuse)
    with pytest.raises(UnreadableImage, match=r"/a\.png: permission denied"):
        decode(FileRecord(str(path)), 32)


def test_the_error_survives_processes_and_odd_names():
    error = pickle.loads(pickle.dumps(UnreadableImage(os.fsdecode(b"a\xff.jpg"), "empty")))
    assert str(error) == "a\\xff.jpg: empty"
