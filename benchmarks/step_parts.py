"""Where the time of a training step goes, and what changes it.

    python benchmarks/step_parts.py          # measure, and write results/step_parts.{md,json}
    python benchmarks/step_parts.py --smoke  # try it out, write nothing

SimCLR on the small network of docs/short-runs.md, on a machine that does nothing else. Variants are
all in memory at once and take a step in turn, on random images; parts are timed within a run.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from amcl.analysis.cost import measure_in_turns

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

from evidence import markdown
from results_files import conditions, write_block, write_results
from temperature_cost import cell, ratios

if TYPE_CHECKING:
    from amcl.config import Config

NETWORK = ("--backbone", "resnet10t", "--width", "0.25", "--stem", "standard")
ADAMW = (
    *("--optimizer", "adamw", "--lr", "0.005", "--weight-decay", "1e-4"),
    *("--no-decay-norm-and-bias", "--batch-size", "256"),
    *("--tau", "0.1", "--projector-last-norm", "plain"),
)
"""Options that suit short trainings of the small network (docs/short-runs.md)."""
SIDES = {"as published": ("--plain",), "with AMCL": ()}
WARM_UP = 3
VARIANTS: dict[str, tuple[str, ...]] = {
    "batch 256, 2 threads": ("--plain",),
    "with --compile": ("--plain", "--compile"),
    "with --no-channels-last": ("--plain", "--no-channels-last"),
    "batch 128": ("--plain", "--batch-size", "128"),
    "batch 512": ("--plain", "--batch-size", "512"),
    "1 thread": ("--plain", "--threads", "1"),
    "with AMCL": (),
    "with AMCL, 1 thread": ("--threads", "1"),
}
"""Options of the variants; the first is what the others are compared with."""


def configuration(options: Sequence[str]) -> "Config":
    """Return the settings of `amcl pretrain` with these options, on the small network."""
    from amcl.cli.pretrain import parse

    shared = ["--data", "cifar10", *NETWORK, *ADAMW, "--epochs", "1", "--threads", "2"]
    return parse([*shared, *options]).settings


def speeds_in_turns(steps: int) -> dict[str, list[float]]:
    """Return images per second of each variant in each turn."""
    costs = measure_in_turns(
        [configuration(options) for options in VARIANTS.values()], steps, images=5120
    )
    return {
        name: [round(cost.batch_size / seconds, 1) for seconds in cost.seconds]
        for name, cost in zip(VARIANTS, costs, strict=True)
    }


def parts_of_step(options: Sequence[str], steps: int) -> dict[str, list[float]]:
    """Return the milliseconds of the parts of each of some steps on CIFAR-10."""
    from amcl.training import pretrain

    config = configuration(options)
    count = (steps + WARM_UP) * config.run.batch_size
    config = replace(config, data=replace(config.data, subset=count))
    parts = Parts()
    with tempfile.TemporaryDirectory() as out, parts.timing():
        pretrain(config, Path(out) / "run")
    return {name: values[WARM_UP:] for name, values in parts.milliseconds.items()}


class Parts:
    """Milliseconds of the parts of each training step of amcl."""

    NAMES = (
        "views",
        "backbone, forward",
        "heads, forward",
        "loss, forward",
        "loss, backward",
        "heads, backward",
        "backbone, backward",
        "optimizer",
        "all else",
    )

    def __init__(self) -> None:
        self.milliseconds: dict[str, list[float]] = {name: [] for name in self.NAMES}
        self._now: dict[str, float] = {}
        self._since = 0.0
        """When the backward pass reached what it is at: the loss, the heads of a view."""

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Time the steps of trainings within this context."""
        from amcl.training.trainer import Trainer

        original = Trainer.train_step
        attached: set[int] = set()

        def train_step(trainer: Any, *args: Any, **keywords: Any) -> Any:
            if id(trainer) not in attached:
                self._attach(trainer)
                attached.add(id(trainer))
            self._now = dict.fromkeys(self.NAMES, 0.0)
            begin = time.perf_counter()
            result = original(trainer, *args, **keywords)
            total = time.perf_counter() - begin
            self._now["all else"] = total - sum(self._now.values())
            for name, seconds in self._now.items():
                self.milliseconds[name].append(1000 * seconds)
            return result

        Trainer.train_step = train_step  # type: ignore[method-assign]
        try:
            yield
        finally:
            Trainer.train_step = original  # type: ignore[method-assign]

    def _attach(self, trainer: Any) -> None:
        """Time the parts of one trainer's steps from now on."""
        method = trainer.task.method
        trainer.task.inputs = self._timed("views", trainer.task.inputs)
        trainer.optimizer.step = self._timed("optimizer", trainer.optimizer.step)
        method.backbone.forward = self._timed("backbone, forward", method.backbone.forward)
        method.heads.forward = self._timed("heads, forward", method.heads.forward)
        method.loss.forward = self._timed("loss, forward", method.loss.forward)
        method.heads.register_forward_hook(self._hook("loss, backward"))
        method.backbone.register_forward_hook(self._hook("heads, backward"))
        trainer.fabric.backward = self._timed_backward(trainer.fabric.backward)

    def _timed_backward(self, backward: Callable[..., None]) -> Callable[..., None]:
        """Return a backward pass that is the backbone's where hooks do not say otherwise."""

        def timed(*args: Any, **keywords: Any) -> None:
            begin = self._since = time.perf_counter()
            others = ("loss, backward", "heads, backward")
            backward(*args, **keywords)
            total = time.perf_counter() - begin
            self._now["backbone, backward"] += total - sum(self._now[name] for name in others)

        return timed

    def _hook(self, ends: str) -> Callable[..., None]:
        """Return a hook of outputs whose gradient ends one part of the backward pass.

        That of the first projections ends the part of the loss, and that of the features of a view
        the part of its heads. After it the backbone takes over, until the next projections.
        """

        def on_output(module: Any, inputs: Any, output: torch.Tensor) -> None:
            def on_gradient(gradient: torch.Tensor) -> None:
                now = time.perf_counter()
                if ends == "heads, backward" or not self._now[ends]:
                    self._now[ends] += now - self._since
                self._since = now

            if output.requires_grad:
                output.register_hook(on_gradient)

        return on_output

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **keywords: Any) -> Any:
            begin = time.perf_counter()
            result = call(*args, **keywords)
            self._now[name] += time.perf_counter() - begin
            return result

        return timed


def speeds_table(speeds: Mapping[str, Sequence[float]]) -> str:
    """Return images per second of the variants, and their ratios to the first, in Markdown."""
    first = next(iter(speeds.values()))
    rows = [
        [name, f"{statistics.median(values):.0f}", cell(ratios(values, first))]
        for name, values in speeds.items()
    ]
    return markdown(["", "images/s", "speed"], rows)


def parts_table(sides: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Return the median milliseconds and shares of the parts of a step in Markdown."""
    medians = [
        {part: statistics.median(values) for part, values in parts.items()}
        for parts in sides.values()
    ]
    totals = [sum(median.values()) for median in medians]
    rows = [
        [
            part,
            *(
                f"{m[part]:.1f} ms ({m[part] / t:.0%})"
                for m, t in zip(medians, totals, strict=True)
            ),
        ]
        for part in Parts.NAMES
    ]
    rows.append(["in all", *(f"{total:.1f} ms" for total in totals)])
    return markdown(["", *sides], rows)


def page(numbers: Mapping[str, Any]) -> str:
    """Return the tables and what they show."""
    return (
        f"{speeds_table(numbers['speeds'])}\n\n"
        "Images per second of training steps in turns (views, loss, gradient and optimizer): the "
        "median, and that of the ratios to the first row with its 95 % confidence limits.\n\n"
        f"{parts_table(numbers['parts'])}\n\n"
        "Medians of the parts of a step of 256 images with 2 threads. The parts of the backward "
        "pass are told apart by when gradients arrive."
    )


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40, help="steps of each variant")
    parser.add_argument("--smoke", action="store_true", help="two steps, and write nothing")
    args = parser.parse_args()
    steps = 2 if args.smoke else args.steps
    numbers = {
        "parts": {side: parts_of_step(options, steps) for side, options in SIDES.items()},
        "speeds": speeds_in_turns(steps),
    }
    text = page(numbers)
    if args.smoke:
        print(text)
        return
    note = f"Measured by `python benchmarks/step_parts.py --steps {steps}` on {conditions()}.\n"
    write_block(
        "step_parts", f"{speeds_table(numbers['speeds'])}\n\n{parts_table(numbers['parts'])}"
    )
    write_results("step_parts", "Parts of a training step", f"{text}\n\n{note}", numbers)


if __name__ == "__main__":
    main()
