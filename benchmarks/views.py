"""Views per second on one core, against lightly and kornia: `python benchmarks/views.py`.

Two views of 256 images by all five operations of SimCLR, with equal probabilities and strengths:
lightly on PIL images one by one, kornia and amcl on batches of tensors. CPU time of one thread, in
turns, so that a slow moment of the machine hits all. Then each operation alone against kornia's,
with parameters that are drawn already. Writes to benchmarks/results/views.md and views.json.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image
from results_files import conditions, write_results

from amcl.views import IMAGENET_MEAN, IMAGENET_STD, Views, ViewSettings, operations
from amcl.views.views import _CPU_CHUNK

BATCH = 256
SIZES = (32, 96)
OPERATIONS = {"crop and flip": "ae", "jitter": "d", "grayscale": "c", "blur": "b"}


def photos(size: int) -> torch.Tensor:
    """Return smooth random images, uint8 (256, 3, size, size): noise would have no even areas."""
    noise = torch.rand(BATCH, 3, size // 4, size // 4)
    smooth = torch.nn.functional.interpolate(noise, (size, size), mode="bicubic")
    return smooth.mul(255).clamp(0, 255).to(torch.uint8)


def in_turns(calls: dict[str, Callable[[], Any]], views: int, rounds: int) -> dict[str, Any]:
    """Return median µs per view of each call, timed in turns, and the speed-up of the first.

    The speed-up is the median over rounds of the ratio within a round, with its range.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for call in calls.values():
        call()
    for _ in range(rounds):
        order.reverse()
        for name in order:
            start = time.process_time()
            calls[name]()
            times[name].append(1e6 * (time.process_time() - start) / views)
    ours, *others = calls
    result: dict[str, Any] = {"us": {name: statistics.median(times[name]) for name in calls}}
    for name in others:
        ratios = [a / b for a, b in zip(times[name], times[ours], strict=True)]
        result[name] = [statistics.median(ratios), min(ratios), max(ratios)]
    return result


def kornia_operations(size: int) -> dict[str, Any]:
    """Return kornia's five operations with our settings."""
    import kornia.augmentation as K

    s = ViewSettings()
    taps = Views(size).taps
    return {
        "crop and flip": K.AugmentationSequential(
            K.RandomResizedCrop((size, size), scale=s.crop_scale, ratio=s.crop_ratio),
            K.RandomHorizontalFlip(p=s.flip_p),
            data_keys=["input"],
        ),
        "jitter": K.ColorJitter(*s.jitter, p=s.jitter_p),
        "grayscale": K.RandomGrayscale(p=s.gray_p),
        "blur": K.RandomGaussianBlur((taps, taps), s.blur_sigma, p=s.blur_p[0]),
    }


def pipeline(size: int, rounds: int) -> dict[str, Any]:
    """Time two views of 256 images, from uint8 or PIL to normalized float32."""
    import kornia.augmentation as K
    from lightly.transforms import SimCLRTransform

    images = photos(size)
    views = Views(size)
    generator = torch.Generator().manual_seed(0)
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    lightly = SimCLRTransform(input_size=size, cj_strength=0.5)  # 0.4, 0.4, 0.4, 0.1
    kornia = K.AugmentationSequential(
        *kornia_operations(size).values(),
        K.Normalize(torch.tensor(IMAGENET_MEAN), torch.tensor(IMAGENET_STD)),
        data_keys=["input"],
    )

    def with_kornia() -> torch.Tensor:
        unit = images.float().div_(255)
        return torch.stack([kornia(unit), kornia(unit)])

    calls = {
        "amcl": lambda: views(images, views.draw(BATCH, generator=generator)),
        "lightly": lambda: [lightly(picture) for picture in pictures],
        "kornia": with_kornia,
    }
    return in_turns(calls, 2 * BATCH, rounds)


def one_operation(name: str, size: int, rounds: int) -> dict[str, Any]:
    """Time one operation on two views of 256 float images, in chunks as in `Views`."""
    unit = photos(size).float() / 255
    planes = unit.transpose(0, 1).contiguous()
    step = _CPU_CHUNK // (2 * 3 * size**2)
    views = Views(size, ViewSettings(operations=OPERATIONS[name]))
    theirs = kornia_operations(size)[name]
    drawn = views.draw(BATCH, generator=torch.Generator().manual_seed(0))
    theirs(unit)
    params = theirs._params

    def ours() -> None:
        if name == "crop and flip":
            taps = operations.crop_taps(drawn.boxes, drawn.flip, (size, size), size)
        for part in (slice(start, start + step) for start in range(0, BATCH, step)):
            if name == "crop and flip":
                rows, columns = (each.select(part) for each in taps)
                operations.crop(planes[:, part].contiguous(), rows, columns)
            else:
                views._color(planes[:, part].repeat(1, 2, 1, 1), drawn.rows(part.start, part.stop))

    def kornia() -> None:
        for _ in range(2):
            theirs(unit, params=params)

    return in_turns({"amcl": ours, "kornia": kornia}, 2 * BATCH, rounds)


def measure(rounds: int = 9) -> dict[str, Any]:
    """Return all measurements on one thread: {size: {"all": …, operation: …}}."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results: dict[str, Any] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the libraries that we compare with
            for size in SIZES:
                rows = results[str(size)] = {"all": pipeline(size, rounds)}
                for name in OPERATIONS:
                    rows[name] = one_operation(name, size, 2 * rounds)
    finally:
        torch.set_num_threads(threads)
    return results


def table(results: dict[str, Any]) -> str:
    """Return the measurements in Markdown."""
    lines = [
        "| view | operations | amcl | kornia | lightly | times kornia | times lightly |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, rows in results.items():
        for name, m in rows.items():
            times = [f"{m['us'][x]:.0f} µs" if x in m["us"] else "" for x in ("kornia", "lightly")]
            ratios = [
                "{:.1f}× ({:.1f} … {:.1f})".format(*m[x]) if x in m else ""
                for x in ("kornia", "lightly")
            ]
            cells = [f"{size} px", name, f"{m['us']['amcl']:.0f} µs", *times, *ratios]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write(results: dict[str, Any]) -> None:
    """Write the table and the numbers to files, and print the table."""
    text = (
        f"{table(results)}\n\nCPU time a view and how many times faster amcl is: medians, in "
        f"brackets least and most of the rounds. Two views of {BATCH} images, one thread, measured "
        f"by `python benchmarks/views.py` on {conditions()}, float32 on CPU.\n"
    )
    write_results("views", "Speed of the views", text, results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds of the whole pipeline")
    write(measure(parser.parse_args().rounds))
