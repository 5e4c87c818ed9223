"""Seconds of training until kNN reaches some levels on CIFAR-10, by amcl and by others.

    python benchmarks/time_to_accuracy.py                # all arms; those that are done are skipped
    python benchmarks/time_to_accuracy.py --arm amcl     # some of them
    python benchmarks/time_to_accuracy.py --table        # write the page and the picture again

It needs lightly, solo-learn (as its sources: the package is older) and stable-pretraining.

Alike for all arms are the network and its first weights, the images, float32, the machine and the
judge, amcl's kNN on test images, which no setting was chosen by. Each library has its own settings
but for the number of epochs: an arm is first timed for some seconds, and then trained for as many
epochs as fit into the limit, so that its schedule ends there. The clock runs from the first step
on, and stops while features are judged. The workers that make the views of the other libraries
fill their queues meanwhile, at most four batches, which they are not charged for.

A run of amcl has two threads. The others have two processes of workers, and a training process
with two threads beside them, on the same two cores (`--workers`, `--peer-threads`).
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from amcl.drawing import (
    BLUE,
    DARK,
    FAINT,
    GREEN,
    ORANGE,
    PINK,
    SKY,
    VERMILION,
    bare,
    figure_of,
    legend_below,
    save_png,
)

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

from evidence import markdown
from peer_training import (
    LIGHTLY_BENCHMARK,
    LIGHTLY_EXAMPLE,
    LightlySettings,
    first_backbone,
    knn_of,
    normalization_of,
    pictures_of,
    train_amcl,
    train_lightly,
    train_solo_learn,
    train_stable_pretraining,
)
from results_files import conditions, in_new_process, kept_results, write_block, write_results
from step_parts import ADAMW, NETWORK

if TYPE_CHECKING:
    from torch import nn

    from amcl.config import Config
    from amcl.data import DataSet

NAME = "time_to_accuracy"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "time-to-accuracy.png"
LEVELS = (0.36, 0.4, 0.5, 0.6)
MARKS = (3, 6, 10, 15, 20, 25, 30, 40, 50, 60, 75, 90, 105, 120, 150, 180, 210, 240, 300, 420, 600)
"""Seconds of training after which an arm is judged; it is judged at the limit too."""
SMOKE = {"data": "builtin", "limit": 4.0, "pilot": 1.0, "validation": 100} | {
    "split": "validation",
    "turns": 2,
}


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A way to train."""

    label: str
    kind: str
    """The library, or amcl: the options of `amcl pretrain` are then those in `options`."""
    options: tuple[str, ...] = ()
    lightly: LightlySettings | None = None
    note: str = ""


ARMS = {
    "lightly-example": Arm(
        label="lightly, example",
        kind="lightly",
        lightly=LIGHTLY_EXAMPLE,
        note="SGD 0.06 without momentum, batch 256",
    ),
    "lightly-benchmark": Arm(
        label="lightly, benchmark",
        kind="lightly",
        lightly=LIGHTLY_BENCHMARK,
        note="SGD 0.06 with momentum, cosine, batch 128",
    ),
    "lightly-adamw": Arm(
        label="lightly, AdamW",
        kind="lightly",
        lightly=LightlySettings(
            strength=0.5,
            temperature=0.1,
            optimizer="adamw",
            lr=0.005,
            weight_decay=1e-4,
            schedule="steps",
        ),
        note="its views, head and loss, with AdamW 0.005, cosine, τ 0.1, batch 256",
    ),
    "solo-learn": Arm(
        label="solo-learn", kind="solo-learn", note="LARS 0.4, τ 0.2, head of 2048, batch 256"
    ),
    "stable-pretraining": Arm(
        label="stable-pretraining",
        kind="stable-pretraining",
        note="LARS 5, τ 0.5, head of 2048 and 2048, batch 256",
    ),
    "amcl-plain": Arm(
        label="amcl, as published",
        kind="amcl",
        options=("--plain",),
        note="its default: SGD 0.06 with momentum, τ 0.5, batch 512",
    ),
    "amcl": Arm(label="amcl", kind="amcl", note="the same with AMCL"),
    "amcl-plain-adamw": Arm(
        label="amcl, as published, AdamW",
        kind="amcl",
        options=("--plain", *ADAMW),
        note="AdamW 0.005, τ 0.1, batch norm on projections, batch 256",
    ),
    "amcl-adamw": Arm(label="amcl, AdamW", kind="amcl", options=ADAMW, note="the same with AMCL"),
}


class Finished(Exception):
    """Training has reached the limit or its goal."""


@dataclass
class Course:
    """The accuracy of a network while it is trained, by seconds of training alone.

    Args:
        judge: Function that returns the accuracy of a network.
        marks: Seconds after which the network is judged.
        limit: Seconds after which training ends.
        goal: Accuracy at which training ends.
    """

    judge: Callable[["nn.Module"], float]
    marks: Sequence[float]
    limit: float
    goal: float = 1.0
    points: list[dict[str, float]] = field(default_factory=list)
    _begin: float | None = None
    _judging: float = 0.0
    _latest: tuple["nn.Module", int] | None = None

    def start(self) -> None:
        """Start the clock."""
        self._begin = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the start, without those that judging took."""
        begin = self._begin
        return 0.0 if begin is None else time.perf_counter() - begin - self._judging

    def __call__(self, network: "nn.Module", images: int) -> None:
        """Judge the network if that is due, by the number of images so far."""
        seconds = self.seconds
        self._latest = (network, images)
        last = self.points[-1]["seconds"] if self.points else -1.0
        is_over = seconds >= self.limit
        if is_over or any(last < mark <= seconds for mark in self.marks):
            self.add(network, images)
            if is_over or self.points[-1]["knn"] >= self.goal:
                raise Finished

    def end(self) -> None:
        """Judge the network after the last step, unless it was judged then."""
        if self._latest is not None and self._latest[1] > self.points[-1]["images"]:
            self.add(*self._latest)

    def add(self, network: "nn.Module", images: int) -> None:
        """Judge the network now."""
        seconds = self.seconds
        begin = time.perf_counter()
        self.points.append({"seconds": seconds, "images": images, "knn": self.judge(network)})
        if self._begin is not None:
            self._judging += time.perf_counter() - begin


class Speed:
    """Images per second of training, of what follows the first step."""

    def __init__(self, seconds: float) -> None:
        self.limit = seconds
        self.images_per_second = 0.0
        self._first: tuple[float, int] | None = None

    def start(self) -> None:
        """Do nothing: the first step is not timed."""

    def __call__(self, network: "nn.Module", images: int) -> None:
        """Note the time after a step, by the number of images so far."""
        now = time.perf_counter()
        if self._first is None:
            self._first = (now, images)
            return
        seconds = now - self._first[0]
        if seconds >= self.limit:
            self.images_per_second = (images - self._first[1]) / seconds
            raise Finished


def time_to(points: Sequence[Mapping[str, float]], level: float) -> float | None:
    """Return the seconds at which the accuracy first reaches a level, or None if it does not.

    Between two points the accuracy is taken to rise along a line.

    >>> time_to([{"seconds": 0, "knn": 0.3}, {"seconds": 10, "knn": 0.5}], 0.4)
    5.0
    """
    before: Mapping[str, float] | None = None
    for point in points:
        if point["knn"] >= level:
            if before is None:
                return point["seconds"]
            share = (level - before["knn"]) / (point["knn"] - before["knn"])
            return before["seconds"] + share * (point["seconds"] - before["seconds"])
        before = point
    return None


def load(args: argparse.Namespace) -> "DataSet":
    """Return the images to train on, without those held out, and the test images to judge on."""
    from amcl.data import load_dataset

    train, test = (
        load_dataset(
            args.data,
            probe=probe,
            validation=args.validation,
            seed=args.seed,
            train_labels=True,
        )
        for probe in ("validation", args.split)
    )
    return replace(train, probe=test.probe)


def pretrain_options(args: argparse.Namespace, arm: Arm, epochs: int) -> list[str]:
    """Return the options of `amcl pretrain` of an arm."""
    return [
        *("--data", args.data, *NETWORK, *arm.options),
        *("--epochs", str(epochs), "--threads", str(args.threads), "--seed", str(args.seed)),
        *("--validation", str(args.validation), "--probe-every", str(epochs)),
    ]


def configuration(args: argparse.Namespace, arm: Arm, epochs: int) -> "Config":
    """Return the settings of `amcl pretrain` with the options of an arm."""
    from amcl.cli.pretrain import parse

    return parse(pretrain_options(args, arm, epochs)).settings


def train(
    args: argparse.Namespace, arm: Arm, data: "DataSet", epochs: int, watch: Course | Speed
) -> None:
    """Train an arm until it is through, or `watch` ends it."""
    if arm.kind == "amcl":
        train_amcl(configuration(args, arm, epochs), on_step=watch, on_start=watch.start)
        return
    torch.set_num_threads(args.peer_threads)
    network = first_backbone(configuration(args, ARMS["amcl-plain"], 1).backbone, args.seed)
    images, labels = pictures_of(data), data.labels
    shared: dict[str, Any] = {"epochs": epochs, "workers": args.workers}
    shared |= {"on_start": watch.start, "on_step": watch}
    if arm.lightly is not None:
        train_lightly(network, images, arm.lightly, **shared)
    elif arm.kind == "solo-learn":
        train_solo_learn(network, images, labels, warmup_epochs=epochs / 100, **shared)
    else:
        train_stable_pretraining(network, images, labels, **shared)


def measure_here(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """Train and judge an arm in this process."""
    arm = ARMS[name]
    torch.set_num_threads(args.threads)
    data = load(args)
    speed = Speed(args.pilot)
    with suppress(Finished):
        train(args, arm, data, 1000, speed)
    gc.collect()  # ends the workers of a DataLoader
    epochs = max(1, round(args.limit * speed.images_per_second / len(data.train)))
    normalization = normalization_of(arm.kind, data)
    course = Course(
        lambda network: knn_of(network, data, normalization, bank=args.bank),
        marks=MARKS,
        limit=1.25 * args.limit,
        goal=args.goal,
    )
    course.add(first_backbone(configuration(args, arm, 1).backbone, args.seed), 0)
    with suppress(Finished):
        train(args, arm, data, epochs, course)
        course.end()
    last = course.points[-1]
    return {
        "points": course.points,
        "epochs": epochs,
        "images_per_second": last["images"] / last["seconds"],
        "train_images": len(data.train),
        "command": f"amcl pretrain {' '.join(pretrain_options(args, arm, epochs))}"
        if arm.kind == "amcl"
        else "",
    }


def best_peer(arms: Mapping[str, Any], level: float) -> tuple[str, float] | None:
    """Return the name and seconds of the fastest arm of another library, or None."""
    times = {
        name: seconds
        for name, arm in arms.items()
        if ARMS[name].kind != "amcl" and (seconds := time_to(arm["points"], level)) is not None
    }
    return min(times.items(), key=lambda item: item[1]) if times else None


def cell(arms: Mapping[str, Any], name: str, level: float) -> str:
    """Return the seconds to a level, and for amcl their share of the best other library's."""
    points = arms[name]["points"]
    seconds = time_to(points, level)
    if seconds is None:
        return f"not in {points[-1]['seconds']:.0f} s"
    best = best_peer(arms, level)
    if ARMS[name].kind != "amcl" or best is None:
        return f"{seconds:.0f} s"
    return f"{seconds:.0f} s (× {seconds / best[1]:.2f})"


def table(arms: Mapping[str, Any]) -> str:
    """Return the seconds to each level in Markdown."""
    rows = []
    for name in (name for name in ARMS if name in arms):
        arm = arms[name]
        cells = [ARMS[name].label, ARMS[name].note, f"{arm['images_per_second']:.0f}"]
        cells += [str(arm["epochs"]), *(cell(arms, name, level) for level in LEVELS)]
        rows.append([*cells, f"{arm['points'][-1]['knn']:.1%}"])
    levels = (f"{level:.0%}" for level in LEVELS)
    return markdown(["", "settings", "images/s", "epochs", *levels, "last kNN"], rows)


def draw(arms: Mapping[str, Any], path: Path) -> None:
    """Draw the accuracy of all arms against seconds."""
    figure = figure_of(6.4, 4.0)
    ax = figure.subplots()
    for level in LEVELS:
        ax.axhline(100 * level, color=FAINT, linewidth=1)
    others = iter((DARK, SKY, GREEN, ORANGE, PINK))
    ours = iter((BLUE, BLUE, VERMILION, VERMILION))
    styles = {"amcl-plain": "--", "amcl-plain-adamw": "--"}
    for name in (name for name in ARMS if name in arms):
        points = arms[name]["points"]
        of_amcl = ARMS[name].kind == "amcl"
        ax.plot(
            [point["seconds"] for point in points],
            [100 * point["knn"] for point in points],
            color=next(ours if of_amcl else others),
            linestyle=styles.get(name, "-"),
            linewidth=2 if of_amcl else 1.4,
            label=ARMS[name].label,
        )
    ax.set_xlabel("seconds of training", fontsize=9)
    ax.set_ylabel("kNN on test images, %", fontsize=9)
    bare(ax)
    legend_below(figure)
    save_png(figure, path)


def text_of(numbers: Mapping[str, Any]) -> str:
    """Return the page."""
    settings = numbers["settings"]
    parts = [
        table(numbers["arms"]),
        f"Seconds of training until kNN (k = 200, {settings['bank']:,} labeled images) of 10,000 "
        "test images reaches a level, between two points along a line; in brackets as a multiple "
        "of the best other library's. ResNet-10 of a quarter of its width (timm's resnet10t), the "
        f"training images of {settings['data']} without {settings['validation']:,}, float32, seed "
        f"{settings['seed']}. Each arm had as many epochs as fit into {settings['limit']:g} s. "
        f"amcl: {settings['threads']} threads. Others: {settings['workers']} workers beside a "
        f"process of {settings['peer_threads']} threads, on the same cores. Measured by "
        f"`python benchmarks/{NAME}.py` on {numbers['conditions']}, "
        + ", ".join(f"{name} {value}" for name, value in numbers["versions"].items())
        + ".",
    ]
    commands = [arm["command"] for arm in numbers["arms"].values() if arm["command"]]
    listed = "\n".join(f"{command}" for command in commands)
    return "\n\n".join(parts) + f"\n\n```\n{listed}\n```\n"


def write(numbers: dict[str, Any]) -> None:
    """Write numbers, page and picture."""
    write_results(NAME, "Time to accuracy", text_of(numbers), numbers)
    write_block(NAME, table(numbers["arms"]))
    draw(numbers["arms"], PICTURE)


SETTINGS = (
    "data",
    "limit",
    "goal",
    "bank",
    "validation",
    "split",
    "seed",
    "threads",
    "workers",
    "peer_threads",
)


def start(args: argparse.Namespace) -> dict[str, Any]:
    """Return the numbers that are there, measured with the same settings, or none."""
    settings = {name: getattr(args, name) for name in SETTINGS}
    kept = None if args.smoke else kept_results(NAME, settings)
    return kept or {
        "settings": settings,
        "conditions": conditions(),
        "versions": {name: version(name) for name in ("lightly", "stable-pretraining", "timm")},
        "arms": {},
    }


def main(args: argparse.Namespace) -> None:
    """Measure what is asked for and not there yet."""
    numbers = start(args)
    for name in () if args.table else args.arm:
        if name not in numbers["arms"]:
            numbers["arms"][name] = in_new_process([name])
            print(ARMS[name].label, json.dumps(numbers["arms"][name]), flush=True)
            if not args.smoke:
                write(numbers)
    if args.smoke:
        print(text_of(numbers))
    else:
        write(numbers)


def options() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--arm", nargs="+", choices=ARMS, default=list(ARMS), help="arms to measure")
    add("--table", action="store_true", help="write page and picture again, measure nothing")
    add("--data", default="cifar10", help="cifar10, cifar100 or builtin")
    add("--limit", type=float, default=150.0, help="seconds of training of an arm")
    add("--goal", type=float, default=max(LEVELS), help="accuracy at which an arm ends")
    add("--pilot", type=float, default=5.0, help="seconds that are timed before, for the epochs")
    add("--bank", type=int, default=10000, help="labeled images of kNN")
    add("--validation", type=int, default=5000, help="images that are not trained on")
    add("--split", choices=("test", "validation"), default="test", help="images to judge on")
    add("--seed", type=int, default=0, help="first weights, order, views")
    add("--threads", type=int, default=2, help="CPU threads of amcl, and of judging")
    add("--workers", type=int, default=2, help="processes of the others' DataLoaders")
    add("--peer-threads", type=int, default=2, help="CPU threads of the others")
    add("--smoke", action="store_true", help=f"try it out, write nothing: {SMOKE}")
    add("--here", help=argparse.SUPPRESS)
    add("--out", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.smoke:
        vars(args).update(SMOKE)
    return args


if __name__ == "__main__":
    args = options()
    if args.here:
        args.out.write_text(json.dumps(measure_here(args, args.here)))
    else:
        main(args)
