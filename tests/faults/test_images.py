"""Files in a folder of images that are none, or that decoders trip over: skipped and named."""

import os
import re
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from amcl.cli import main
from tiny_runs import picture_folder


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size, and has no pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    check = struct.pack(">I", zlib.crc32(b"IHDR" + header))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + header + check


def whole(folder: Path) -> bytes:
    return (folder / "000.png").read_bytes()


def write_text(name: str, text: str):
    return lambda folder: (folder / name).write_text(text)


def write_bytes(name: str, content: bytes):
    return lambda folder: (folder / name).write_bytes(content)


SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
EPS = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) run\n"
UNREADABLE = {
    "empty": write_bytes("odd.png", b""),
    "cut off": lambda folder: (folder / "odd.png").write_bytes(whole(folder)[:200]),
    "a wrong bit": lambda folder: (folder / "odd.png").write_bytes(
        whole(folder)[:100] + b"\xff" + whole(folder)[101:]
    ),
    "a bomb": write_bytes("odd.png", png_header(60_000, 60_000)),
    "no pixels": write_bytes("odd.png", png_header(0, 0)),
    "4 billion pixels wide": write_bytes("odd.png", png_header(2**31 - 1, 1)),
    "SVG": write_text("odd.png", SVG),
    "EPS": write_text("odd.jpg", EPS),
    "PDF": write_text("odd.jpg", "%PDF-1.7\n"),
    "HTML": write_text("odd.jpg", "<html><img src=x onerror=alert(1)></html>"),
    "a pipe": lambda folder: os.mkfifo(folder / "odd.png"),
    "a device without end": lambda folder: (folder / "odd.png").symlink_to("/dev/zero"),
    "a link to itself": lambda folder: (folder / "odd.png").symlink_to("odd.png"),
    "a link to nothing": lambda folder: (folder / "odd.png").symlink_to("nothing.png"),
    "a folder": lambda folder: (folder / "odd.png").mkdir(),
}
READ = {
    "an animation": lambda folder: Image.new("P", (9, 9)).save(
        folder / "odd.gif", save_all=True, append_images=[Image.new("P", (9, 9), 1)]
    ),
    "one pixel": lambda folder: Image.new("L", (1, 1)).save(folder / "odd.png"),
    "a line": lambda folder: Image.new("RGB", (1, 40_000)).save(folder / "odd.png"),
    "CMYK": lambda folder: Image.new("CMYK", (9, 9)).save(folder / "odd.jpg"),
    "a name that is not UTF-8": lambda folder: Image.new("L", (9, 9)).save(
        os.fsencode(folder) + b"/caf\xe9.png", format="PNG"
    ),
    "a name with a newline": lambda folder: Image.new("L", (9, 9)).save(
        folder / "a\nb\x1b[31m.png"
    ),
    "a very long name": lambda folder: Image.new("L", (9, 9)).save(folder / f"{'x' * 251}.png"),
}


@pytest.mark.parametrize("kind", [*UNREADABLE, *READ])
@pytest.mark.parametrize("memory", ["1", "0"])
def test_a_folder_with_an_odd_file(kind, memory, tmp_path, capsys, record):
    """Decoded at the start, or in worker processes during training."""
    folder = picture_folder(tmp_path / "pictures", count=8, size=16)
    {**UNREADABLE, **READ}[kind](folder)
    words = ["--data", str(folder), "--memory", memory, "--epochs", "1", "--batch-size", "3"]
    words += ["--backbone", "resnet10t", "--width", "0.125", "--image-size", "16", "--workers", "1"]
    assert main(["pretrain", *words, "--threads", "1", "--out", str(tmp_path / "run")]) == 0
    assert "\x1b" not in capsys.readouterr().err
    skipped = re.findall(r"skipped .*/(.*): ", (tmp_path / "run/log.txt").read_text())
    assert [Path(name).stem for name in skipped] == (["odd"] if kind in UNREADABLE else [])
    record("folders of images with an odd file", 1)
