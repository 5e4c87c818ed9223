"""Which files of a folder are read, and what is said about the others."""

import os
import sys

import pytest
from PIL import Image

from amcl.data import decode, load_dataset
from amcl.data.listing import list_images
from amcl.data.records import FileRecord


def names(listing, root):
    return [path.removeprefix(f"{root}/") for path in listing.paths]


def test_files_without_an_extension_are_known_by_their_first_bytes(tmp_path, picture):
    for number, kind in enumerate(["jpeg", "png", "webp", "tiff", "bmp", "gif"]):
        path = picture(tmp_path / f"{number}.{kind}", number)
        path.rename(tmp_path / f"picture{number}")
    picture(tmp_path / "a.png").rename(tmp_path / "2024.08.05 beach")
    (tmp_path / "README").write_text("Python, Pictures and BMW")
    (tmp_path / "empty").touch()
    listing = list_images(tmp_path)
    assert names(listing, tmp_path) == ["2024.08.05 beach", *(f"picture{n}" for n in range(6))]
    assert (listing.warnings, listing.unreadable) == ((), ())
    assert len(load_dataset(str(tmp_path), workers=0).train) == 7


def test_unknown_extensions_that_may_be_images_are_counted(tmp_path, picture):
    picture(tmp_path / "a.png")
    for number in range(3):
        picture(tmp_path / f"{number}.jpg").rename(tmp_path / f"{number}.dat")
    for name in ("b.txt", "c.json", "d.psd", "e.PSD", "f.nii"):
        (tmp_path / name).write_text("no picture")
    listing = list_images(tmp_path)
    assert names(listing, tmp_path) == ["a.png"]
    assert [warning.split(" not read")[0] for warning in listing.warnings] == [
        *("3 .dat files were", "2 .psd files were", "1 .nii file was")
    ]


def without_heif(monkeypatch):
    listing = sys.modules["amcl.data.listing"]
    monkeypatch.setattr(listing, "FORMATS", tuple(f for f in decode.FORMATS if f != "HEIF"))
    endings = tuple(e for e in decode.PICTURE_EXTENSIONS if e not in decode.HEIF_EXTENSIONS)
    monkeypatch.setattr(listing, "PICTURE_EXTENSIONS", endings)


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"


def test_heic_without_its_reader_is_counted(tmp_path, picture, monkeypatch):
    without_heif(monkeypatch)
    for name in ("IMG_1.HEIC", "IMG_2.heic", "IMG_3"):
        (tmp_path / name).write_bytes(HEIC)
    with pytest.raises(ValueError, match=r"2 \.heic files were not read: HEIC needs an extra, pip"):
        list_images(tmp_path)
    picture(tmp_path / "a.png")
    images = load_dataset(str(tmp_path), workers=0)
    assert len(images.train) == 1
    assert sorted(images.warnings) == [
        "1 file without an extension was not read: HEIC needs an extra, pip install '.[heic]'.",
        "2 .heic files were not read: HEIC needs an extra, pip install '.[heic]'.",
    ]


def test_heic_is_read_with_the_extra(tmp_path):
    pytest.importorskip("pillow_heif")
    for name in ("a.heic", "b.HEIF", "c.hif"):
        Image.new("RGB", (64, 48), (200, 20, 20)).save(tmp_path / name, format="HEIF")
    (tmp_path / "c.hif").rename(tmp_path / "c")
    images = load_dataset(str(tmp_path), workers=0)
    assert (len(images.train), images.warnings, images.unreadable) == (3, (), ())
    assert images.train.shapes.tolist() == [[48, 64]] * 3
    pixels, _ = decode.decode(FileRecord(str(tmp_path / "c")), 8)
    assert (pixels.float().mean((1, 2)) - 20).abs()[1:].max() < 12


def test_a_pipe_is_not_waited_for(tmp_path, picture):
    picture(tmp_path / "a.png")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.dat")
    assert names(list_images(tmp_path), tmp_path) == ["a.png"]
