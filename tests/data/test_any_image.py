"""Sets of images of any number of channels and any depth: what is chosen for them, and said."""

import hashlib
import os
import sys

import numpy as np
import pytest
import tifffile
import torch

from amcl.data import MemoryImages, decode, load_all_images, load_dataset
from amcl.data.decoding import tiff
from amcl.data.listing import list_images
from amcl.data.pixel_format import RGB, PixelFormat
from amcl.data.shards.check import Check
from amcl.data.shards.pack import pack
from amcl.data.statistics import measure
from amcl.data.stream import stream
from image_files import netpbm, png, random_values
from shard_files import write_shard


def bands(folder, count, channels=13, bits=12, **settings):
    """TIFFs of bands, each with a mean of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(count):
        values = random_values(20, 20, channels, bits=bits, seed=seed)
        values //= np.arange(1, channels + 1, dtype=values.dtype)
        tifffile.imwrite(
            folder / f"{seed:02}.tif", values, photometric="minisblack", planarconfig="contig"
        )
    return str(folder)


def pictures(folder, *kinds, each=1, side=24):
    """PNGs of (channels, bits)."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (channels, bits) in enumerate(kinds * each):
        values = random_values(side, side, channels, bits=bits, seed=number)
        (folder / f"{number:02}.png").write_bytes(png(values, alpha=channels in (2, 4)))
    return str(folder)


def load(source, **options):
    return load_dataset(source, workers=0, validation=0, **options)


def test_folders_of_8_bit_pictures_are_what_they_were(tmp_path, monkeypatch):
    """Fingerprints decide about cached features and resumed runs; these are of version 0.1."""
    monkeypatch.chdir(tmp_path)
    files = {
        "gray.png": png(random_values(24, 24, 1, seed=1)),
        "rgb.png": png(random_values(24, 24, 3, seed=2)),
        "rgba.png": png(random_values(24, 24, 4, seed=3), alpha=True),
        "ga.png": png(random_values(24, 24, 2, seed=4), alpha=True),
        "gray.pgm": netpbm(random_values(24, 24, 1, seed=5)),
        "rgb.ppm": netpbm(random_values(24, 24, 3, seed=6)),
    }
    os.mkdir("pictures")
    for name, content in files.items():
        (tmp_path / "pictures" / name).write_bytes(content)
        os.utime(f"pictures/{name}", ns=(10**18, 10**18))
    np.save("pictures/features.npy", np.ones((6, 128)))
    data = load("pictures")
    assert data.train.fingerprint() == (
        "016eba264fb2b25298cb9bbcf206a0429e23238c339c736f0a7c89207a7694ea"
    )
    assert (data.pixels, data.mean, data.std) == (
        *(RGB, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    )
    assert data.notes == ("views of 32: chosen for a median short side of 24 pixels in 6 images",)
    images = load_all_images("pictures", image_size=16).images
    assert images.fingerprint() == (
        "f959936ce1a1ce6f258168b6af4c3651ed43c11f8a5a47b5d98e9c36de215e1d"
    )
    assert images.identity() == "f393550701378eb41938abcef704ef21b3f6981fab8bf24611e217ceacd69a3b"
    pixels = images[torch.arange(6)].numpy().tobytes()
    assert hashlib.sha256(pixels).hexdigest() == (
        "80a50f2b7aaa263e097b7b100c4fb9bf1bcb129cc36051eb58d3b21965a02acc"
    )
    for channels in (3, "auto"):
        assert load("pictures", channels=channels).train.fingerprint() == data.train.fingerprint()


@pytest.mark.parametrize("memory", [4, 0])
def test_bands_are_found_measured_and_kept(tmp_path, memory):
    data = load(bands(tmp_path / "set", 12), memory=memory)
    assert data.pixels == PixelFormat(channels=13, type="uint16", value_range=(0, 4095))
    assert (data.channels, data.train.dtype) == (13, torch.uint16)
    stored = data.train[torch.arange(12)]
    values = np.stack([tifffile.imread(tmp_path / "set" / f"{n:02}.tif") for n in range(12)])
    values = torch.from_numpy(values).permute(0, 3, 1, 2)
    assert (stored.float() - values.float() * (65535 / 4095)).abs().max() < 0.51
    flat = values.double().div(4095).transpose(0, 1).flatten(1)
    assert torch.allclose(torch.tensor(data.mean).double(), flat.mean(1), atol=1e-5)
    assert torch.allclose(torch.tensor(data.std).double(), flat.std(1, correction=0), atol=1e-5)
    assert "images of 13 channels, 16 bits: values from 0 to 4,095 count as 0 to 1" in (
        data.describe()
    )
    assert "(12 bits in use, measured in 12 files)" in data.describe()
    assert "mean and deviation of channels measured in 12 images" in data.describe()
    batch = next(stream(data.train, [torch.tensor([3, 5])], workers=0))
    assert torch.equal(batch.pixels.int(), stored.int()[[3, 5]])


def test_worker_processes_decode_bands(tmp_path):
    data = load(bands(tmp_path / "set", 8), memory=0)
    steps = torch.arange(8).split(3)
    inside = [batch.pixels.int() for batch in stream(data.train, steps, workers=0)]
    outside = [batch.pixels.int() for batch in stream(data.train, steps, workers=2)]
    assert all(map(torch.equal, inside, outside))


@pytest.mark.parametrize(
    ("kinds", "channels", "expected"),
    [
        ([(1, 8)], "auto", RGB),
        ([(1, 8)], 1, PixelFormat(channels=1)),
        ([(3, 8)], 1, PixelFormat(channels=1)),
        ([(4, 8)], "auto", RGB),
        ([(4, 8)], 4, PixelFormat(channels=4)),
        ([(3, 8)], 4, PixelFormat(channels=4)),
        ([(1, 16)], "auto", PixelFormat(channels=1, type="uint16", value_range=(0, 65535))),
        ([(1, 10)], "auto", PixelFormat(channels=1, type="uint16", value_range=(0, 1023))),
        ([(1, 10)], 3, PixelFormat(channels=3, type="uint16", value_range=(0, 1023))),
        ([(3, 16)], "auto", PixelFormat(channels=3, type="uint16", value_range=(0, 65535))),
        ([(1, 16), (3, 8)], "auto", PixelFormat(type="uint16", value_range=(0, 65535))),
        ([(1, 8), (1, 12)], "auto", PixelFormat(channels=1, type="uint16", value_range=(0, 4095))),
        ([(1, 8), (3, 8)], "auto", RGB),
    ],
)
def test_the_format_of_pictures(tmp_path, kinds, channels, expected):
    data = load(pictures(tmp_path / "set", *kinds, each=4), channels=channels)
    assert data.pixels == expected
    assert (len(data.mean), data.train.channels) == (expected.channels,) * 2
    assert data.unreadable == ()
    said = data.describe()
    assert ("channel" in said) == (expected != RGB)
    mixed_depth = len({bits > 8 for _, bits in kinds}) > 1
    assert ("images of 8 bits and of more" in said) == mixed_depth
    mixed = len({n for n, _ in kinds}) > 1 and expected != RGB
    assert ("gray and RGB images" in said) == mixed


def test_fractions_keep_theirs(tmp_path):
    (tmp_path / "set").mkdir()
    for seed in range(4):
        values = random_values(16, 16, 2, seed=seed) / 255
        np.save(tmp_path / "set" / f"{seed}.npy", values.astype(np.float32))
    data = load(str(tmp_path / "set"))
    assert data.pixels == PixelFormat(channels=2, type="float32", value_range=(0, 1))
    assert np.allclose(data.train[torch.tensor([3])][0].permute(1, 2, 0), values)
    np.save(tmp_path / "set" / "4.npy", -40 + 100 * values)
    low, high = load(str(tmp_path / "set")).pixels.value_range
    assert -41 < low < -30
    assert 50 < high < 61
    data = load(str(tmp_path / "set"), value_range=(-40.0, 60.0))
    assert data.pixels.value_range == (-40, 60)
    assert "values from -40 to 60 count as 0 to 1 (--value-range)" in data.describe()


def test_pages_are_bands_where_that_is_said(tmp_path):
    (tmp_path / "set").mkdir()
    values = random_values(7, 20, 20, bits=16)
    tifffile.imwrite(tmp_path / "set/a.tif", values, photometric="minisblack")
    data = load(str(tmp_path / "set"))
    assert (data.train[torch.tensor([0])][0].numpy() == values[0]).all()
    said = "there are TIFFs of up to 7 pages, and the first is read: --channels 7 takes gray pages"
    assert said in data.describe()
    data = load(str(tmp_path / "set"), channels=7)
    assert (data.train[torch.tensor([0])][0].numpy() == values).all()
    assert "pages" not in data.describe()


def test_images_that_cannot_follow_are_left_out_and_named(tmp_path):
    source = bands(tmp_path / "set", 6)
    pictures(tmp_path / "set", (3, 8), (1, 8))
    data = load(source)
    assert (data.channels, len(data.train)) == (13, 6)
    assert [reason for _, reason in data.unreadable] == [
        "3 channels, where 13 are expected (--channels)",
        "1 channel, where 13 are expected (--channels)",
    ]
    assert "2 of 8 images have another number of channels and are left out" in data.notes
    data = load(source, channels=3)
    assert (data.pixels, len(data.train), len(data.unreadable)) == (RGB, 2, 6)


def test_options_that_cannot_be_met_say_so(tmp_path):
    source = bands(tmp_path / "bands", 3)
    with pytest.raises(
        ValueError, match=r"^--channels 4: the images have 13\. Leave --channels out"
    ):
        load(source, channels=4)
    with pytest.raises(ValueError, match="channels must be a whole number"):
        load(source, channels=0)
    with pytest.raises(ValueError, match="value_range must be two numbers, the lower one first"):
        load(source, value_range=(5, 5))
    with pytest.raises(ValueError, match=r"8 bits.*Leave --value-range out"):
        load(pictures(tmp_path / "pictures", (3, 8)), value_range=(0, 100))
    with pytest.raises(ValueError, match=r"^--channels 1: this set is stored with 3 channels"):
        load("builtin", channels=1)
    with pytest.raises(ValueError, match=r"^--value-range: this set is stored with 8 bits"):
        load("builtin", value_range=(0, 1))


def test_models_take_images_as_they_were_trained_on_others(tmp_path):
    pixels = PixelFormat(channels=13, type="uint16", value_range=(0, 4095))
    half = ((0.5,) * 13, (0.5,) * 13)
    brighter = bands(tmp_path / "brighter", 3, bits=14)
    data = load(brighter, pixels=pixels, normalization=half)
    assert (data.pixels, data.mean, data.std) == (pixels, *half)
    assert load_all_images(brighter, image_size=16, pixels=pixels).images.pixels == pixels
    assert load_all_images(brighter, image_size=16).images.pixels.value_range == (0, 16383)
    gray = pictures(tmp_path / "gray", (1, 8))
    for load_as in (
        load,
        lambda source, **options: load_all_images(source, image_size=16, **options),
    ):
        with pytest.raises(
            ValueError,
            match=r"takes images of 13 channels, and these have 1: give others with --data",
        ):
            load_as(gray, pixels=pixels)
        with pytest.raises(ValueError, match=r"of 3 channels, and these have 13.*--channels 13"):
            load_as(brighter, pixels=RGB)
    with pytest.raises(ValueError, match=r"3 channels, and the model was trained on images of 13"):
        load("builtin", pixels=pixels)


def test_16_bit_pictures_are_8_bit_rgb_for_models_of_it(tmp_path):
    source = pictures(tmp_path / "set", (1, 12))
    images = load_all_images(source, image_size=16, pixels=RGB).images
    values = random_values(24, 24, bits=12)
    assert (images[torch.tensor([0])][0].numpy() == np.rint(values * (255 / 4095))).all()


def test_fingerprints_tell_formats_apart(tmp_path):
    source = bands(tmp_path / "set", 3)
    sets = [load(source, memory=0).train, load(source, memory=0, value_range=(0, 5000)).train]
    assert sets[0].fingerprint() != sets[1].fingerprint()
    assert sets[0].identity() != sets[1].identity()
    assert sets[0].fingerprint() == load(source, memory=0).train.fingerprint()


def test_a_subset_is_chosen_among_images_that_can_follow(tmp_path):
    source = bands(tmp_path / "set", 8)
    pictures(tmp_path / "set", (3, 8), (3, 8), (3, 8))
    data = load(source, subset=8)
    assert (len(data.train), data.channels) == (8, 13)


@pytest.mark.parametrize("kind", ["npy", "npz", "tif"])
def test_shards_of_any_images(tmp_path, kind):
    files = []
    for seed in range(6):
        values = random_values(16, 16, 5, bits=16, seed=seed)
        path = tmp_path / f"{seed}.{kind}"
        if kind == "tif":
            tifffile.imwrite(path, values, photometric="minisblack", planarconfig="contig")
        else:
            np.save(path, values) if kind == "npy" else np.savez(path, values)
        files += [(f"{seed}.{kind}", path.read_bytes()), (f"{seed}.cls", b"%d" % (seed % 2))]
    write_shard(tmp_path / "shards/0.tar", files)
    data = load(str(tmp_path / "shards"))
    assert (len(data.train), data.channels, data.train.dtype) == (6, 5, torch.uint16)
    last = data.train[torch.tensor([5])][0].permute(1, 2, 0).numpy()
    assert (last == values).all()


@pytest.mark.parametrize("kind", ["npy", "tif"])
def test_packed_sets_of_any_images(tmp_path, kind):
    for seed in range(6):
        folder = tmp_path / "set" / str(seed % 2)
        folder.mkdir(parents=True, exist_ok=True)
        values = random_values(16, 16, 5, bits=16, seed=seed)
        if kind == "tif":
            settings = {"photometric": "minisblack", "planarconfig": "contig"}
            tifffile.imwrite(folder / f"{seed}.tif", values, **settings)
        else:
            np.save(folder / f"{seed}.npy", values)
    pack(str(tmp_path / "set"), tmp_path / "shards", shard_size="10")
    assert not list(Check(str(tmp_path / "shards"), workers=0).faults())
    sets = [load(str(tmp_path / name)) for name in ("set", "shards")]
    assert sets[0].pixels == sets[1].pixels
    every = torch.arange(6)
    assert (sets[0].train[every].numpy() == sets[1].train[every].numpy()).all()
    broken = random_values(16, 16, 3)
    np.save(tmp_path / "set/0/broken.npy", broken)
    (tmp_path / "set/0/broken.npy").rename(tmp_path / f"set/0/broken.{kind}")
    faults = list(Check(str(tmp_path / "set"), workers=0).faults())
    assert [fault.reason for fault in faults] == ["3 channels, where 5 are expected (--channels)"]


def test_arrays_beside_pictures_are_no_images(tmp_path):
    source = pictures(tmp_path / "set", (3, 8))
    np.save(tmp_path / "set/features.npy", np.ones((4, 4)))
    listing = list_images(tmp_path / "set")
    assert len(listing) == 1
    assert listing.warnings == (
        "1 .npy file was not read: arrays are images only in folders without other images.",
    )
    picture = (tmp_path / "set/00.png").read_bytes()
    array = (tmp_path / "set/features.npy").read_bytes()
    write_shard(tmp_path / "shards/0.tar", [("a.png", picture), ("a.npy", array), ("b.npz", array)])
    data = load(str(tmp_path / "shards"))
    assert (len(data.train), data.unreadable) == (1, ())
    assert data.warnings == ("Other files in shards not read: 1 .npy, 1 .npz.",)
    np.save(tmp_path / "shards/mean.npy", np.ones(3))
    assert len(load(str(tmp_path / "shards")).train) == 1
    assert source


def test_without_their_packages_images_are_narrowed_or_named(tmp_path, monkeypatch):
    monkeypatch.setattr(tiff, "is_installed", lambda: False)
    data = load(pictures(tmp_path / "png", (3, 16)))
    assert data.pixels == RGB
    note = "color of more than 8 bits is narrowed to 8: pip install '.[tiff]' keeps it"
    assert note in data.notes
    (tmp_path / "tif").mkdir()
    tifffile.imwrite(tmp_path / "tif/a.tif", random_values(9, 9, 3, bits=16), photometric="rgb")
    assert note in load(str(tmp_path / "tif")).notes
    with pytest.raises(ValueError, match=r"tifffile with imagecodecs.*pip install '\.\[tiff\]'"):
        load(bands(tmp_path / "bands", 2))


def test_dicom_without_its_package_is_counted(tmp_path, monkeypatch):
    listing = sys.modules["amcl.data.listing"]
    monkeypatch.setattr(listing, "FORMATS", tuple(f for f in decode.FORMATS if f != "DICOM"))
    endings = tuple(e for e in decode.PICTURE_EXTENSIONS if e not in decode.DICOM_EXTENSIONS)
    monkeypatch.setattr(listing, "PICTURE_EXTENSIONS", endings)
    for name in ("a.dcm", "b.DCM", "IM0001"):
        (tmp_path / name).write_bytes(b"\0" * 128 + b"DICM")
    with pytest.raises(
        ValueError,
        match=r"2 \.dcm files were not read: DICOM needs an extra, pip install '\.\[dicom\]'.*"
        r"1 file without an extension was not read: DICOM needs",
    ):
        list_images(tmp_path)


def test_statistics_of_constant_channels_and_of_parts_of_large_sets(monkeypatch):
    pixels = torch.zeros(50, 2, 4, 4)
    pixels[:, 1] = torch.arange(50.0)[:, None, None]
    mean, std, measured = measure(MemoryImages(pixels))
    assert (mean, std[0], measured) == ((0, 24.5), 1, 50)
    monkeypatch.setattr(sys.modules["amcl.data.statistics"], "MOST", 5)
    mean, _, measured = measure(MemoryImages(pixels))
    assert measured == 5
    assert abs(mean[1] - 24.5) < 0.5  # from all over the set
