"""The learning curves of lightly's and solo-learn's SimCLR, by their code and by amcl.

    python benchmarks/known_curves.py            # all runs; those that are done are skipped
    python benchmarks/known_curves.py --jobs 2   # two runs at once, of one thread each
    python benchmarks/known_curves.py --table    # write the page and the picture again

Both libraries publish accuracies on CIFAR-10, with settings of their own. Here a small network is
trained with these settings on a part of the images, by their code and by `amcl pretrain`, from the
same first weights for each seed, and judged after every epoch by amcl's kNN on test images. Their
tables are of the best epoch on the test set (lightly) or of the last one (solo-learn): both are
shown. What is not alike is on the page.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch

from amcl.drawing import BLUE, VERMILION, bare, figure_of, legend_below, save_png
from amcl.results import Measurement
from amcl.results.formatting import format_spread

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

from evidence import markdown
from peer_training import (
    LIGHTLY_BENCHMARK,
    first_backbone,
    knn_of,
    normalization_of,
    pictures_of,
    train_amcl,
    train_lightly,
    train_solo_learn,
)
from results_files import conditions, in_new_process, kept_results, write_block, write_results
from step_parts import NETWORK

if TYPE_CHECKING:
    from torch import nn

    from amcl.config import Config
    from amcl.data import DataSet

NAME = "known_curves"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "known-curves.png"
SMOKE = {"data": "builtin", "images": 512, "epochs": 1, "queries": 100, "split": "validation"}
WARMUP = 0.1  # share of the run; solo-learn's is 10 of 1,000 epochs, about as many steps


@dataclass(frozen=True, kw_only=True)
class Published:
    """Settings that a library publishes its accuracies with."""

    label: str
    batch_size: int
    options: tuple[str, ...]
    """The same as options of `amcl pretrain`."""


PUBLISHED = {
    "lightly": Published(
        label="lightly",
        batch_size=128,
        options=(
            *("--views", "acde", "--jitter", "0.4", "0.4", "0.4", "0.1"),
            *("--batch-size", "128", "--optimizer", "sgd", "--lr", "0.06"),
            *("--sgd-momentum", "0.9", "--weight-decay", "5e-4", "--decay-norm-and-bias"),
            *("--tau", "0.5", "--projector", "512", "128", "--projector-norm"),
            *("--no-projector-bias", "--projector-last-norm", "affine"),
        ),
    ),
    "solo-learn": Published(
        label="solo-learn",
        batch_size=256,
        options=(
            *("--jitter", "0.8", "0.8", "0.8", "0.2", "--blur-kernel", "13"),
            *("--batch-size", "256", "--optimizer", "sgd", "--lr", "0.4"),
            *("--sgd-momentum", "0.9", "--weight-decay", "1e-4", "--no-decay-norm-and-bias"),
            *("--tau", "0.2", "--projector", "2048", "256"),
        ),
    ),
}
SIDES = ("theirs", "amcl")


def load(args: argparse.Namespace) -> "DataSet":
    """Return the images to train on, which kNN compares with too, and test images to judge on."""
    from amcl.data import Labeled, load_dataset
    from amcl.data.split import sample
    from amcl.seeds import seed_of

    data = load_dataset(args.data, probe=args.split, subset=args.images, train_labels=True)
    if data.probe is None or data.labels is None:
        raise RuntimeError("a set to evaluate on has labels")
    queries = data.probe.queries
    chosen = sample(len(queries.labels), args.queries, seed_of(0, "queries"))
    bank = Labeled(data.train, data.labels)
    return replace(data, probe=replace(data.probe, bank=bank, queries=queries.subset(chosen)))


def configuration(args: argparse.Namespace, name: str, seed: int) -> "Config":
    """Return the settings of `amcl pretrain` that are those of a library."""
    from amcl.cli.pretrain import parse

    return parse(pretrain_options(args, name, seed)).settings


def pretrain_options(args: argparse.Namespace, name: str, seed: int) -> list[str]:
    """Return the options of `amcl pretrain` that are the settings of a library."""
    options = ["--data", args.data, "--plain", *NETWORK, *PUBLISHED[name].options]
    options += ["--subset", str(args.images), "--epochs", str(args.epochs), "--seed", str(seed)]
    if name == "solo-learn":
        options += ["--warmup-epochs", f"{WARMUP * args.epochs:g}"]
    probe = ["--probe", args.split, "--probe-every", str(args.epochs)]
    return [*options, *probe, "--threads", "1"]


class Curve:
    """The accuracy after each epoch.

    Args:
        data: Images to judge on.
        normalization: Mean and standard deviation that the network is trained with.
        per_epoch: Images of the steps of an epoch.
    """

    def __init__(self, data: "DataSet", normalization: tuple[Any, Any], per_epoch: int) -> None:
        self.data = data
        self.normalization = normalization
        self.per_epoch = per_epoch
        self.values: list[float] = []

    def __call__(self, network: "nn.Module", images: int) -> None:
        """Judge the network after the last step of an epoch."""
        if images % self.per_epoch == 0:
            self.values.append(knn_of(network, self.data, self.normalization))


class Clipped:
    """Share of the layers whose step solo-learn's LARS clips to that of SGD, at every 10th step.

    Its step of a layer is that of SGD, times the lesser of 1 and η‖θ‖/(lr(‖g‖ + λ‖θ‖)).
    """

    def __init__(self) -> None:
        self.shares: list[float] = []
        self._steps = 0

    def __call__(self, optimizer: Any) -> None:
        """Look at the optimizer after a step, before gradients are set to zero."""
        self._steps += 1
        if self._steps % 10:
            return
        layers = []
        for group in optimizer.param_groups[:1]:  # the backbone
            for weight in group["params"]:
                if weight.ndim > 1 and weight.grad is not None:
                    size = weight.detach().norm()
                    step = weight.grad.norm() + group["weight_decay"] * size
                    layers.append(bool(group["eta"] * size >= group["lr"] * step))
        self.shares.append(fmean(layers))


def train(args: argparse.Namespace, name: str, side: str, seed: int) -> dict[str, Any]:
    """Train and judge one run in this process."""
    torch.set_num_threads(1)
    data = load(args)
    per_epoch = args.images // PUBLISHED[name].batch_size * PUBLISHED[name].batch_size
    library = name if side == "theirs" else "amcl"
    curve = Curve(data, normalization_of(library, data), per_epoch)
    if side == "amcl":
        train_amcl(configuration(args, name, seed), on_step=curve)
        return {"knn": curve.values}
    network = first_backbone(configuration(args, name, seed).backbone, seed)
    images = pictures_of(data)
    shared: dict[str, Any] = {"epochs": args.epochs, "workers": 0, "on_step": curve}
    if name == "lightly":
        train_lightly(network, images, LIGHTLY_BENCHMARK, **shared)
        return {"knn": curve.values}
    clipped = Clipped()
    train_solo_learn(
        network,
        images,
        data.labels,
        warmup_epochs=WARMUP * args.epochs,
        on_optimizer=clipped,
        **shared,
    )
    return {"knn": curve.values, "clipped": clipped.shares}


def measurement(runs: Mapping[str, Any], name: str, side: str, epoch: str) -> Measurement:
    """Return the kNN accuracy of the "last" or the "best" epoch by seed."""
    by_seed = {
        int(seed): run["knn"][-1] if epoch == "last" else max(run["knn"])
        for seed, run in runs[name][side].items()
    }
    return Measurement.of(by_seed)


def table(runs: Mapping[str, Any]) -> str:
    """Return both ways of reporting for both sides, in Markdown."""
    rows = []
    for name in (name for name in PUBLISHED if runs.get(name, {}).keys() >= set(SIDES)):
        for epoch, label in (("last", "last epoch"), ("best", "best epoch on test")):
            theirs, ours = (measurement(runs, name, side, epoch) for side in SIDES)
            gain = ours.minus(theirs)
            cells = [format_spread(m.mean, m.std, True) for m in (theirs, ours)]
            cells.append(
                "" if gain is None else format_spread(gain.mean, gain.std, True, sign=True)
            )
            seeds = f"{len(theirs.numbers)} and {len(ours.numbers)}"
            rows.append([f"{PUBLISHED[name].label}, {label}", seeds, *cells])
    return markdown(["settings", "seeds", "their code", "amcl", "difference"], rows)


def draw(runs: Mapping[str, Any], path: Path) -> None:
    """Draw the curves of both sides: a thin line for each seed, a thick one for the mean."""
    figure = figure_of(6.8, 3.4)
    for ax, name in zip(figure.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
        for side, color, label in zip(
            SIDES, (VERMILION, BLUE), ("their code", "amcl"), strict=True
        ):
            curves = [[100 * v for v in run["knn"]] for run in runs[name][side].values()]
            epochs = range(1, len(curves[0]) + 1)
            for curve in curves:
                ax.plot(epochs, curve, color=color, linewidth=0.8, alpha=0.5)
            means = [fmean(values) for values in zip(*curves, strict=True)]
            ax.plot(epochs, means, color=color, linewidth=2, label=label)
        ax.set_title(f"{PUBLISHED[name].label}'s settings", fontsize=10)
        ax.set_xlabel("epoch", fontsize=9)
        ax.set_ylabel("kNN on test images, %", fontsize=9)
        bare(ax)
    legend_below(figure)
    save_png(figure, path)


def text_of(args: argparse.Namespace, numbers: Mapping[str, Any]) -> str:
    """Return the page."""
    settings = numbers["settings"]
    names = [name for name in PUBLISHED if name in numbers["runs"]]
    commands = [f"amcl pretrain {' '.join(pretrain_options(args, name, 0))}" for name in names]
    clipped = [
        share
        for run in numbers["runs"].get("solo-learn", {}).get("theirs", {}).values()
        for share in run["clipped"]
    ]
    of_solo_learn = (
        "solo-learn resizes crops with bicubic instead of bilinear interpolation, and its LARS "
        f"clips the steps of layers to those of SGD with its rate ({fmean(clipped):.0%} of those "
        "of the backbone): amcl, whose LARS does not clip, has SGD. Its warm-up is a share of "
        f"{WARMUP:.0%} of the run."
        if clipped
        else ""
    )
    return (
        f"{table(numbers['runs'])}\n\n"
        f"kNN (k = 200) of {settings['queries']:,} test images in percent, mean ± standard "
        "deviation over seeds; differences are paired by seed, which gives the first weights. "
        "SimCLR, ResNet-10 of a quarter of its width (timm's resnet10t), "
        f"{settings['images']:,} training images of {settings['data']}, {settings['epochs']} "
        f"epochs. Measured by `python benchmarks/{NAME}.py` on {numbers['conditions']}, "
        f"lightly {version('lightly')}.\n\n"
        "Not alike: lightly lowers the rate after an epoch, amcl after a step, and normalizes by "
        f"ImageNet's colors. {of_solo_learn}".rstrip()
        + "\n\n```\n"
        + "\n".join(commands)
        + "\n```\n"
    )


SETTINGS = ("data", "images", "queries", "epochs", "split")


def start(args: argparse.Namespace) -> dict[str, Any]:
    """Return the numbers that are there, measured with the same settings, or none."""
    settings = {name: getattr(args, name) for name in SETTINGS}
    kept = None if args.smoke else kept_results(NAME, settings)
    torch.set_num_threads(1)  # as in the runs
    return kept or {"settings": settings, "conditions": conditions(), "runs": {}}


def main(args: argparse.Namespace) -> None:
    """Train what is asked for and not there yet."""
    numbers = start(args)
    runs = numbers["runs"]
    lock = Lock()

    def run(key: tuple[str, str, str]) -> None:
        name, side, seed = key
        values = in_new_process(key)
        with lock:
            runs.setdefault(name, {}).setdefault(side, {})[seed] = values
            print(*key, json.dumps(values), flush=True)
            if not args.smoke:
                write_results(NAME, "Known curves", text_of(args, numbers), numbers)

    keys = itertools.product(args.settings, SIDES, map(str, args.seeds))
    missing = [(n, side, s) for n, side, s in keys if s not in runs.get(n, {}).get(side, {})]
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run, [] if args.table else missing))
    if args.smoke:
        print(text_of(args, numbers))
    else:
        write_results(NAME, "Known curves", text_of(args, numbers), numbers)
        write_block(NAME, table(runs))
        draw(runs, PICTURE)


def options() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--settings", nargs="+", choices=PUBLISHED, default=list(PUBLISHED), help="whose")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of both sides")
    add("--data", default="cifar10", help="cifar10, cifar100 or builtin")
    add("--images", type=int, default=5120, help="images to train on")
    add("--queries", type=int, default=5000, help="images to judge on")
    add("--split", choices=("test", "validation"), default="test", help="their split")
    add("--epochs", type=int, default=20, help="passes over the images")
    add("--jobs", type=int, default=1, help="runs at once, of one thread each")
    add("--table", action="store_true", help="write page and picture again, train nothing")
    add("--smoke", action="store_true", help=f"try it out, write nothing: {SMOKE}")
    add("--here", nargs=3, help=argparse.SUPPRESS)
    add("--out", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.smoke:
        vars(args).update(SMOKE)
    return args


if __name__ == "__main__":
    args = options()
    if args.here:
        name, side, seed = args.here
        args.out.write_text(json.dumps(train(args, name, side, int(seed))))
    else:
        main(args)
