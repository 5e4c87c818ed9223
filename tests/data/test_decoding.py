"""Images of any number of channels and any depth: that their values arrive, and hostile files."""

import io
import os
import struct
import sys
import zipfile
import zlib

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from amcl.data.decode import UnreadableImage, decode, decode_whole, image_format, read_header
from amcl.data.decoding import tiff as tiff_files
from amcl.data.pixel_format import RGB, PixelFormat
from amcl.data.records import FileRecord
from image_files import dicom, netpbm, png, random_values

U8, U16, FLOAT = (
    {"type": "uint8"},
    {"type": "uint16", "value_range": (0, 65535)},
    {"type": "float32", "value_range": (0, 1)},
)


def pixels_of(path, channels, canvas=None, **pixels):
    """Pixels (H, W, C) of a file at its own size."""
    header = read_header(FileRecord(str(path)), channels)
    canvas = canvas or header.height
    image, _ = decode(FileRecord(str(path)), canvas, PixelFormat(channels=channels, **pixels))
    return image.permute(1, 2, 0).numpy()


def write(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("layout", ["contig", "separate", "pages"])
@pytest.mark.parametrize("compression", [None, "zlib", "lzw"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_bands_of_a_tiff_keep_their_values(tmp_path, layout, compression, dtype):
    values = random_values(20, 20, 13, bits=8 if dtype == "uint8" else 16).astype(dtype)
    if dtype == "float32":
        values /= 65535
    planes = values if layout == "contig" else values.transpose(2, 0, 1).copy()
    options = {} if layout == "pages" else {"planarconfig": layout}
    tifffile.imwrite(
        tmp_path / "a.tif", planes, photometric="minisblack", compression=compression, **options
    )
    kind = {"uint8": U8, "uint16": U16, "float32": FLOAT}[dtype]
    assert (pixels_of(tmp_path / "a.tif", 13, **kind) == values).all()


@pytest.mark.parametrize("options", [{"bigtiff": True}, {"byteorder": ">"}, {"tile": (16, 16)}])
def test_other_layouts_of_tiff(tmp_path, options):
    values = random_values(40, 40, 6, bits=16)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, values, photometric="minisblack", planarconfig="contig", **options)
    assert (pixels_of(path, 6, **U16) == values).all()
    rgb = tmp_path / "rgb.tif"
    tifffile.imwrite(rgb, random_values(40, 40, 3), photometric="rgb", **options)
    expected = np.asarray(Image.open(rgb))
    assert (pixels_of(rgb, 3, **U8) == expected).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["tif", "png", "gray.png"])
def test_deep_images_are_turned_upright(tmp_path, kind, orientation):
    values = random_values(12, 18, 3 if kind != "gray.png" else 1, bits=16)
    stored = {
        1: values,
        2: values[:, ::-1],
        3: values[::-1, ::-1],
        4: values[::-1],
        5: values.transpose(1, 0, 2),
        6: np.rot90(values, 1),
        7: np.rot90(values, 2).transpose(1, 0, 2),
        8: np.rot90(values, -1),
    }[orientation]
    path = tmp_path / f"a.{kind}"
    if kind == "tif":
        tags = [(274, "H", 1, orientation, True)]
        tifffile.imwrite(path, np.ascontiguousarray(stored), photometric="rgb", extratags=tags)
    else:
        exif = Image.Exif()
        exif[274] = orientation
        path.write_bytes(png(np.ascontiguousarray(stored), exif=exif.tobytes()))
    pixels = PixelFormat(channels=values.shape[2], **U16)
    assert decode(FileRecord(str(path)), 18, pixels)[1] == (12, 18)
    whole = decode_whole(FileRecord(str(path)), (12, 18), pixels)
    assert (whole.permute(1, 2, 0).numpy() == values).all()


@pytest.mark.parametrize(("channels", "alpha"), [(1, False), (3, False), (2, True), (4, True)])
def test_16_bit_png_keeps_its_values(tmp_path, channels, alpha):
    values = random_values(9, 9, channels, bits=16)
    path = write(tmp_path / "a.png", png(values, alpha=alpha))
    assert (pixels_of(path, channels, **U16) == values).all()
    header = read_header(FileRecord(str(path)))
    assert (header.channels, header.alpha, header.type) == (channels - alpha, alpha, "uint16")


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u8", "f2", "f4", "f8"])
def test_gray_tiffs_of_any_type_keep_their_values(tmp_path, dtype, monkeypatch):
    """Pillow takes signed values of 8 bits for unsigned ones, and does not know some others."""
    values = np.arange(100).reshape(10, 10).astype(dtype)
    values -= 0 if dtype == "u8" else 50
    low, high = float(values.min()), float(values.max())
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, values, photometric="minisblack")
    record = FileRecord(str(path))
    header = read_header(record)
    assert (header.type, header.channels) == ("float32", 1)
    pixels = pixels_of(path, 1, type="float32", value_range=(low, high))[..., 0]
    assert np.allclose(pixels, (values.astype(float) - low) / (high - low), atol=1e-6)
    shown = pixels_of(path, 3, **U8)[..., 0].astype(float)  # for a model of 8-bit RGB
    assert (np.diff(shown.ravel()) >= 0).all()
    assert image_format(record) == "TIFF"
    if dtype in ("i1", "i8", "u8", "f2", "f8"):
        monkeypatch.setattr(tiff_files, "is_installed", lambda: False)
        with pytest.raises(UnreadableImage, match=r"tifffile.*'\.\[tiff\]'"):
            pixels_of(path, 1, type="float32", value_range=(low, high))


def test_16_bit_color_and_float_tiffs_keep_their_values(tmp_path):
    color = random_values(9, 9, 3, bits=16)
    tifffile.imwrite(tmp_path / "a.tif", color, photometric="rgb")
    assert (pixels_of(tmp_path / "a.tif", 3, **U16) == color).all()
    signed = color.astype(np.int32) - 32768
    tifffile.imwrite(tmp_path / "b.tif", signed.astype(np.int16), photometric="rgb")
    b = pixels_of(tmp_path / "b.tif", 3, type="float32", value_range=(-32768, 32767))
    assert np.allclose(b, color / 65535, atol=1e-6)


def test_a_fourth_band_beside_color_is_read_where_four_channels_are_wanted(tmp_path):
    values = random_values(9, 9, 4)
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb", extrasamples=[0])
    assert (pixels_of(tmp_path / "a.tif", 4, **U8) == values).all()
    assert (pixels_of(tmp_path / "a.tif", 3, **U8) == values[..., :3]).all()
    assert read_header(FileRecord(str(tmp_path / "a.tif"))).channels == 3


@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", ">u2", "bool"])
@pytest.mark.parametrize("layout", ["HWC", "CHW", "fortran"])
def test_arrays_keep_their_values(tmp_path, kind, dtype, layout):
    values = random_values(10, 10, 6, bits=1 if dtype == "bool" else 8).astype(dtype)
    array = {
        "HWC": values,
        "CHW": values.transpose(2, 0, 1).copy(),
        "fortran": np.asfortranarray(values),
    }[layout]
    path = tmp_path / f"a.{kind}"
    np.save(path, array) if kind == "npy" else np.savez_compressed(path, array)
    if dtype == "bool":
        assert (pixels_of(path, 6, **U8) == values * np.uint8(255)).all()
    else:
        kind = {"uint8": U8, "float32": FLOAT}.get(dtype, U16)
        assert (pixels_of(path, 6, **kind) == values).all()


def test_an_archive_names_its_image(tmp_path):
    values = random_values(10, 10)
    np.savez(tmp_path / "a.npz", image=values, mask=values > 9)
    assert (pixels_of(tmp_path / "a.npz", 1, **U8)[..., 0] == values).all()
    np.savez(tmp_path / "b.npz", one=values, two=values)
    with pytest.raises(UnreadableImage, match="an archive of 2 arrays: it must hold one, or one"):
        read_header(FileRecord(str(tmp_path / "b.npz")))


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_dicom_keeps_its_values(tmp_path, bits):
    values = random_values(10, 10, bits=bits)
    path = dicom(tmp_path / "a.dcm", values, BitsStored=bits)
    top = 2**bits - 1
    kind = U8 if bits == 8 else {"type": "uint16", "value_range": (0, top)}
    full = 255 if bits == 8 else 65535
    shown = pixels_of(path, 1, **kind)[..., 0].astype(int)
    assert abs(shown - values * (full / top)).max() < 0.51
    path = dicom(
        tmp_path / "b.dcm", values, BitsStored=bits, PhotometricInterpretation="MONOCHROME1"
    )
    shown = pixels_of(path, 1, **kind)[..., 0].astype(int)
    assert abs(shown - (top - values) * (full / top)).max() < 0.51


def test_dicom_whose_units_are_empty_has_none(tmp_path):
    values = random_values(20, 20, bits=12)
    path = dicom(tmp_path / "a.dcm", values, BitsStored=12, RescaleSlope="", RescaleIntercept="")
    header = read_header(FileRecord(str(path)))
    assert (header.type, header.depth) == ("uint16", 12)


def test_dicom_in_units_of_its_own(tmp_path):
    values = random_values(10, 10, bits=11).astype(np.int16) - np.int16(1000)
    path = dicom(tmp_path / "a.dcm", values, BitsStored=12, RescaleSlope=2, RescaleIntercept=-1024)
    assert read_header(FileRecord(str(path))).type == "float32"
    pixels = pixels_of(path, 1, type="float32", value_range=(-1024, 976))[..., 0]
    assert np.allclose(pixels, values / 1000, atol=1e-6)


def test_a_range_of_values_stretches_and_cuts_16_bits_but_not_fractions(tmp_path):
    values = np.array([[0, 1000], [3000, 5000]], np.uint16)
    np.save(tmp_path / "a.npy", values)
    path = tmp_path / "a.npy"
    deep = pixels_of(path, 1, type="uint16", value_range=(1000, 3000))
    assert deep.ravel().tolist() == [0, 0, 65535, 65535]
    wide = pixels_of(path, 1, type="float32", value_range=(1000, 3000))
    assert wide.ravel().tolist() == [-0.5, 0, 1, 2]


def test_8_bit_images_in_deeper_sets_count_by_their_own_depth(tmp_path):
    path = write(tmp_path / "a.png", png(np.array([[[0], [51]], [[102], [255]]], np.uint8)))
    deep = pixels_of(path, 1, type="uint16", value_range=(0, 4095))
    assert deep.ravel().tolist() == [0, 51 * 257, 102 * 257, 65535]
    assert np.allclose(pixels_of(path, 1, **FLOAT).ravel(), [0, 0.2, 0.4, 1])


def test_gray_color_and_transparency_become_each_other(tmp_path):
    gray = write(tmp_path / "gray.pgm", netpbm(np.full((4, 4, 1), 100, np.uint8)))
    red = write(tmp_path / "red.png", png(np.full((4, 4, 3), (200, 0, 0), np.uint8)))
    clear = write(
        tmp_path / "clear.png", png(np.full((4, 4, 4), (200, 0, 0, 51), np.uint8), alpha=True)
    )
    half = np.full((4, 4, 2), (10000, 13107), np.uint16)
    shade = write(tmp_path / "shade.png", png(half, alpha=True))

    def first(path, channels, kind):
        return pixels_of(path, channels, **kind)[0, 0].tolist()

    assert first(gray, 3, U16) == [25700] * 3
    assert first(gray, 4, U8) == [100, 100, 100, 255]
    assert first(red, 1, U8) == [60]
    assert first(red, 4, U16) == [51400, 0, 0, 65535]
    assert first(clear, 4, U8) == [200, 0, 0, 51]
    assert first(clear, 3, U16) == [244 * 257, 204 * 257, 204 * 257]
    assert first(shade, 1, U16) == [round(10000 * 0.2 + 65535 * 0.8)]
    assert first(shade, 3, U16) == [54428] * 3


@pytest.mark.parametrize("channels", [1, 3])
def test_8_bit_pictures_are_as_pillow_converts_them(tmp_path, channels):
    values = random_values(16, 16, 3)
    path = write(tmp_path / "a.ppm", netpbm(values))
    mode = {1: "L", 3: "RGB"}[channels]
    expected = np.asarray(Image.fromarray(values).convert(mode)).reshape(16, 16, channels)
    difference = pixels_of(path, channels, **U8).astype(int) - expected
    assert abs(difference).max() <= (channels == 1)  # Pillow rounds down


@pytest.mark.parametrize("channels", [1, 13])
@pytest.mark.parametrize("kind", [U8, U16, FLOAT])
def test_every_type_is_resized_alike(tmp_path, channels, kind):
    """One picture in three depths is the same after it is resized, to within their steps."""
    values = random_values(40, 60, channels)
    array = {"uint8": values, "uint16": values * np.uint16(257), "float32": values / 255.0}
    np.save(tmp_path / "a.npy", array[kind["type"]])
    pixels = PixelFormat(channels=channels, **kind)
    image, shape = decode(FileRecord(str(tmp_path / "a.npy")), 16, pixels)
    assert shape == (40, 60)
    assert image.shape == (channels, 16, 16)
    assert image.dtype == pixels.dtype
    plain = torch.from_numpy(values).permute(2, 0, 1)[None]
    expected = torch.nn.functional.interpolate(
        plain.float() / 255, (16, 16), mode="bicubic", antialias=True
    )[0]
    top = {"uint8": 255, "uint16": 65535, "float32": 1}[kind["type"]]
    assert (image.float() / top - expected.clamp(0, 1)).abs().max() < (
        0.003 if kind is U8 else 2e-5 if kind is U16 else 1e-6
    )


def test_strips_and_blocks_give_the_pixels_of_the_whole(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", random_values(40, 60, 7, bits=16))
    path = write(tmp_path / "b.png", png(random_values(40, 60, 4), alpha=True))
    files = [(tmp_path / "a.npy", 7), (path, 1), (path, 4)]
    whole = [pixels_of(path, channels, 16, **U16) for path, channels in files]
    modules = sys.modules
    monkeypatch.setattr(modules["amcl.data.decoding.planes"], "_STRIP", 1000)
    monkeypatch.setattr(modules["amcl.data.decoding.pictures"], "_STRIP", 300)
    monkeypatch.setattr(modules["amcl.data.decoding.formatting"], "_BLOCK", 1500)
    for (path, channels), expected in zip(files, whole, strict=True):
        assert (pixels_of(path, channels, 16, **U16) == expected).all()


def test_images_that_cannot_follow_say_why(tmp_path):
    np.save(tmp_path / "bands.npy", random_values(20, 20, 13))
    np.save(tmp_path / "fractions.npy", np.ones((9, 9), np.float32))
    np.save(tmp_path / "nan.npy", np.full((9, 9), np.nan, np.float32))
    write(tmp_path / "rgb.ppm", netpbm(random_values(9, 9, 3)))
    np.save(tmp_path / "row.npy", np.ones(9))
    for name, channels, kind, reason in (
        ("bands.npy", 3, U8, "13 channels, where 3 are expected"),
        ("rgb.ppm", 13, U8, "3 channels, where 13 are expected"),
        ("bands.npy", 1, U16, "13 channels, where 1 are expected"),
        ("fractions.npy", 1, U16, "those of this set have 16 bits"),
        ("nan.npy", 1, FLOAT, "not finite"),
        ("row.npy", 1, FLOAT, r"an array of shape \(9,\): images are H×W, H×W×C or C×H×W"),
    ):
        with pytest.raises(UnreadableImage, match=reason):
            decode(FileRecord(str(tmp_path / name)), 9, PixelFormat(channels=channels, **kind))


def test_files_of_new_formats_become_8_bit_rgb_for_models_of_it(tmp_path):
    values = random_values(9, 9, bits=12)
    shown = np.rint(values * (255 / 4095))
    np.save(tmp_path / "a.npy", values)
    dicom(tmp_path / "a.dcm", values, BitsStored=12)
    for name in ("a.npy", "a.dcm"):
        pixels, _ = decode(FileRecord(str(tmp_path / name)), 9, RGB)
        assert (pixels.numpy() == shown).all(), name


class Code:
    """What a hostile file asks to be executed."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def npy(descr, shape, data=b"", magic=b"\x93NUMPY\x01\x00", order=False):
    header = str({"descr": descr, "fortran_order": order, "shape": shape}).encode() + b"\n"
    return magic + struct.pack("<H", len(header)) + header + data


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def tiff(*tags, data=b""):
    """A TIFF of one page with entries (tag, type, count, value)."""
    entries = b"".join(struct.pack("<HHII", *tag) for tag in sorted(tags))
    body = struct.pack("<H", len(tags)) + entries + struct.pack("<I", 0)
    return b"II*\0" + struct.pack("<I", 8) + body + data


def hostile_tiff(width=9, height=9, samples=5, offset=8, count=405, **_):
    return tiff(
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, offset),
        (277, 3, 1, samples),
        (278, 4, 1, height),
        (279, 4, 1, count),
    )


def bomb(path):
    """A TIFF of 8 × 8 pixels and 5 bands whose strip unpacks to 128 megabytes."""
    packed = zlib.compressobj(9)
    data = b"".join(packed.compress(bytes(2**24)) for _ in range(8)) + packed.flush()
    tifffile.imwrite(
        path,
        random_values(8, 8, 5),
        photometric="minisblack",
        planarconfig="contig",
        compression="zlib",
    )
    offset = path.stat().st_size
    with path.open("ab") as file:
        file.write(data)
    with tifffile.TiffFile(path, mode="r+b") as file:
        tags = file.pages[0].tags
        tags["StripOffsets"].overwrite(offset)
        tags["StripByteCounts"].overwrite(len(data))


HOSTILE = {
    "pickle.npy": (None, "only numbers are read"),
    "fields.npy": (npy([("a", "<f4")], (3, 3)), "only numbers are read"),
    "complex.npy": (npy("<c8", (3, 3), bytes(72)), "only numbers are read"),
    "text.npy": (npy("<U4", (3, 3), bytes(144)), "only numbers are read"),
    "huge.npy": (npy("<f8", (2**20, 2**20)), "above the limit of 160 megapixels"),
    "wide.npy": (npy("<f8", (1, 2**17)), "above the limit of 65,535 a side"),
    "deep.npy": (npy("<f8", (30000, 1000, 1000)), "above the limit of 1,024 MiB an image"),
    "negative.npy": (npy("<f8", (-3, -3)), "."),
    "empty.npy": (npy("<f8", (0, 5)), "there is no image"),
    "cut.npy": (npy("<u2", (9, 9), bytes(100)), "truncated: 100 of 162 bytes"),
    "code.npy": (b"\x93NUMPY\x01\x00\x20\x00__import__('os').mkdir('executed')", "."),
    "long.npy": (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{" * 100, "."),
    "magic.npy": (b"\x93NUMPY\x09\x00", "only numbers|version"),
    "bomb.npz": (zipped("a.npy", npy("|u1", (2**16, 2**16), bytes(2**20))), "megapixels"),
    "short.npz": (zipped("a.npy", npy("|u1", (2**10, 2**10), bytes(99))), "truncated: 99 of"),
    "none.npz": (zipped("a.txt", b"x"), "an archive of 0 arrays"),
    "broken.npz": (zipped("a.npy", npy("|u1", (9, 9), bytes(81)))[:60], "."),
    "huge.tif": (hostile_tiff(60000, 60000), "above the limit of 160 megapixels"),
    "bands.tif": (hostile_tiff(12000, 12000, 60), "above the limit of 1,024 MiB an image"),
    "outside.tif": (hostile_tiff(offset=2**31), "truncated"),
    "short.tif": (hostile_tiff(count=405), "."),
    "zero.tif": (hostile_tiff(0, 0), "there is no image"),
    "tags.tif": (tiff((256, 4, 1, 9), (277, 3, 1, 9)), "."),
    "loop.tif": (hostile_tiff()[:-4] + struct.pack("<I", 8), "."),
    "cut.tif": (b"II*\0\x08\0\0\0\xff\xff", "."),
    "big.tif": (b"II+\0\x08\0\0\0" + bytes(8), "."),
    "cut.png": (png(random_values(40, 40, 3, bits=16))[:2000], "."),
    "huge.png": (None, "above the limit of 160 megapixels"),
    "cut.dcm": (b"\0" * 128 + b"DICM" + b"\x02\0\0\0UL\x04\0\xff\xff\0\0", "."),
    "deflated.dcm": (b"\0" * 128 + b"DICM" + b"1.2.840.10008.1.2.1.99", "deflated as a whole"),
    "bomb.tif": (None, "INSUFFICIENT_SPACE"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_unreadable_images(tmp_path, monkeypatch, capfd, caplog, name):
    monkeypatch.chdir(tmp_path)
    content, reason = HOSTILE[name]
    path = tmp_path / name
    if name == "pickle.npy":
        np.save(path, np.array([Code()], dtype=object), allow_pickle=True)
    elif name == "bomb.tif":
        bomb(path)
    elif name == "huge.png":
        small = bytearray(png(random_values(4, 4, 3, bits=16)))
        small[16:24] = struct.pack(">II", 40000, 40000)
        path.write_bytes(small)
    else:
        path.write_bytes(content)
    for channels in (3, 5):
        pixels = PixelFormat(channels=channels, type="float32", value_range=(0, 1))
        with pytest.raises(UnreadableImage, match=reason) as caught:
            decode(FileRecord(str(path)), 8, pixels)
        assert str(tmp_path) not in caught.value.reason
        assert len(caught.value.reason) <= 300
        assert (capfd.readouterr(), caplog.records) == (("", ""), [])
        assert caught.value.reason.isprintable()
    assert not (tmp_path / "executed").exists()


def test_dicom_that_claims_too_much(tmp_path):
    values = random_values(8, 8)
    pixels = PixelFormat(channels=1, **U8)
    for number, attributes in enumerate(
        [{"Rows": 60000, "Columns": 60000}, {"Rows": 9}, {"SamplesPerPixel": 2}, {"BitsStored": 40}]
    ):
        path = tmp_path / f"{number}.dcm"
        dicom(path, values, **attributes)
        with pytest.raises(UnreadableImage):
            decode(FileRecord(str(path)), 8, pixels)
