"""JPEGs decoded per second and core, by Pillow and others: `python benchmarks/decoding.py`.

Each decoder turns the bytes of a JPEG into RGB pixels on the canvas, uint8 (3, 336, 336), with the
same resizing; those that can do it decode at the reduced scale that `amcl.data.decode` takes. CPU
time of one thread, in turns, so that a slow moment of the machine hits all. Differences are those
of the pixels on the canvas from Pillow's. Decoders that are not installed are left out: simplejpeg
and PyTurboJPEG are in the extra `bench`; the latter needs the library libturbojpeg 2, too. It
writes to benchmarks/results/decoding.md and decoding.json.
"""

import argparse
import io
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, BinaryIO

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image, features
from results_files import conditions, write_results
from torch.nn.functional import interpolate

from amcl.data.decode import decode

CANVAS = 336  # that of views of 224 pixels
SIZES = {"500 × 375": (500, 375), "12 MP, 4000 × 3000": (4000, 3000)}
Pixels = torch.Tensor
Decoder = Callable[[bytes], Pixels]


class Bytes:
    """An encoded image in memory, as a record."""

    name = "memory"

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size = len(content)

    def open(self) -> BinaryIO:
        """Open it."""
        return io.BytesIO(self.content)


def photo(width: int, height: int, seed: int) -> bytes:
    """Return a JPEG of quality 90 with structure at all scales, as photographs have it."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(1, 3, height, width)
    cells = 4
    while cells < max(width, height):
        rows = max(2, cells * height // max(width, height))
        noise = torch.randn(1, 3, rows, max(2, cells), generator=generator)
        total += interpolate(noise, (height, width), mode="bicubic") * (30 / cells**0.2)
        cells *= 2
    pixels = (total[0] + 128).clamp(0, 255).to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def on_canvas(pixels: Pixels) -> Pixels:
    """Resize pixels (3, H, W) as `amcl.data.decode` does: first the width, then the height."""
    for size in ((pixels.shape[1], CANVAS), (CANVAS, CANVAS)):
        if pixels.shape[1:] != size:
            pixels = interpolate(pixels[None], size, mode="bicubic", antialias=True)[0]
    return pixels


def from_rows(pixels: np.ndarray[Any, Any]) -> Pixels:
    """Return pixels (H, W, 3) on the canvas."""
    return on_canvas(torch.from_numpy(pixels).permute(2, 0, 1))


def by_torchvision(content: bytes) -> Pixels:
    """Decode by torchvision, which has no reduced scales."""
    data = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    return on_canvas(torchvision.io.decode_jpeg(data, torchvision.io.ImageReadMode.RGB))


def decoders() -> dict[str, Decoder]:
    """Return the decoders that are installed; the first is the one that is used."""
    chosen: dict[str, Decoder] = {
        "Pillow": lambda content: decode(Bytes(content), CANVAS)[0],
        "torchvision": by_torchvision,
    }
    if find_spec("simplejpeg") is not None:
        import simplejpeg

        # The smallest scale that is no smaller than this, which Pillow takes too.
        least = {"min_height": CANVAS, "min_width": CANVAS}
        chosen["simplejpeg"] = lambda content: from_rows(
            simplejpeg.decode_jpeg(content, "RGB", **least)
        )
        fast = {**least, "fastdct": True, "fastupsample": True}
        chosen["simplejpeg, fast"] = lambda content: from_rows(
            simplejpeg.decode_jpeg(content, "RGB", **fast)
        )
    if find_spec("turbojpeg") is not None:
        chosen["PyTurboJPEG"] = turbojpeg_decoder()
    return chosen


def turbojpeg_decoder() -> Decoder:
    """Return the decoder of PyTurboJPEG, at the scale that Pillow takes."""
    from turbojpeg import TJPF_RGB, TurboJPEG

    library = TurboJPEG()

    def by_turbojpeg(content: bytes) -> Pixels:
        width, height, *_ = library.decode_header(content)
        ratio = min(width, height) // CANVAS
        scale = next(scale for scale in (8, 4, 2, 1) if scale <= max(ratio, 1))
        return from_rows(library.decode(content, TJPF_RGB, (1, scale)))

    return by_turbojpeg


def measure(rounds: int, seconds: float) -> dict[str, Any]:
    """Return the times of all decoders, and how their pixels differ: {size: {decoder: …}}."""
    results: dict[str, Any] = {}
    for name, (width, height) in SIZES.items():
        contents = [photo(width, height, seed) for seed in range(4)]
        rows = results[name] = {decoder: {} for decoder in decoders()}
        expected = [decode(Bytes(content), CANVAS)[0].int() for content in contents]
        times: dict[str, list[float]] = {decoder: [] for decoder in rows}
        order = list(decoders().items())
        repeats = {}
        for decoder, call in order:
            found = [call(content).int() for content in contents]
            errors = [(a - b).abs() for a, b in zip(found, expected, strict=True)]
            rows[decoder]["largest difference"] = max(int(e.max()) for e in errors)
            rows[decoder]["mean difference"] = statistics.mean(
                e.float().mean().item() for e in errors
            )
            start = time.process_time()
            call(contents[0])
            repeats[decoder] = max(1, round(seconds / (time.process_time() - start)))
        for _ in range(rounds):
            order.reverse()
            for decoder, call in order:
                start = time.process_time()
                for number in range(repeats[decoder]):
                    call(contents[number % len(contents)])
                times[decoder].append((time.process_time() - start) / repeats[decoder])
        for decoder, row in rows.items():
            ratios = [a / b for a, b in zip(times["Pillow"], times[decoder], strict=True)]
            row["images per second"] = 1 / statistics.median(times[decoder])
            row["times Pillow"] = [statistics.median(ratios), min(ratios), max(ratios)]
    return results


def table(results: dict[str, Any]) -> str:
    """Return the measurements in Markdown."""
    lines = [
        "| JPEG | decoder | images / s and core | times Pillow | largest difference | mean |",
        "|---|---|---|---|---|---|",
    ]
    for size, rows in results.items():
        for decoder, row in rows.items():
            ratio = "{:.2f}× ({:.2f} … {:.2f})".format(*row["times Pillow"])
            cells = [size, decoder, f"{row['images per second']:.0f}", ratio]
            cells += [str(row["largest difference"]), f"{row['mean difference']:.3f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write(results: dict[str, Any]) -> None:
    """Write the table and the numbers to files, and print the table."""
    library = features.version_feature("libjpeg_turbo")
    text = (
        f"{table(results)}\n\nFrom the bytes of a JPEG (quality 90, 4:2:0, pictures with structure "
        f"at all scales) to RGB on a canvas of {CANVAS}×{CANVAS}. Medians of rounds in turns, in "
        "brackets least and most of the ratios within a round; CPU time of one thread. Differences "
        "are of 255, from the pixels of Pillow. Measured by `python benchmarks/decoding.py` on "
        f"{conditions()}, Pillow {PIL.__version__} with libjpeg-turbo {library}, torchvision "
        f"{torchvision.__version__}.\n"
    )
    write_results("decoding", "Decoding of JPEGs", text, results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of each decoder")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each decoder in a round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    write(measure(options.rounds, options.seconds))
