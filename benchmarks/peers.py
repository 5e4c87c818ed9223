"""Training by amcl and by lightly on the same images: speed, memory, accuracy: `make bench-peers`.

SimCLR and Barlow Twins, each by lightly, by amcl, and by amcl with AMCL (three heads, adaptive
temperatures). Alike for all are the network and its first weights, the images, the batch, the
optimizer and its learning rate, the steps, the threads and the judge, amcl's kNN. Each arm trains
in a process of its own, whose peak memory is read before it is judged.

lightly is used as its examples for CIFAR-10 use it: its transforms on PIL images in the workers of
a DataLoader, its heads, its losses, SGD of 0.06 without momentum, decay or schedule. They switch
the blur off for 32 pixels, so amcl does too, and it takes lightly's strengths of all else, its
layers of heads, its τ and its λ. What differs is each library's own way: amcl makes its views by
the batch and keeps images with the channels innermost, lightly normalizes by ImageNet's colors.
Beside the network and the images, two things are not as in its examples: workers live on from
epoch to epoch, and there is one for each core instead of eight (`--workers`). amcl's arms do not
see torchmetrics, which only lightly brings along.

Writes benchmarks/results/peers.md and peers.json; `--smoke` tries it out and writes nothing.
"""

# An arm imports only what it needs, where it needs it, and the process that starts the arms imports
# nothing heavy: its own peak memory would be taken over by every process that it starts.
import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amcl.temperature import ConstantSettings

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

from peer_training import (
    SIZE,
    Pictures,
    first_backbone,
    knn_of,
    lightly_steps,
    loader_of,
    pictures_of,
)

if TYPE_CHECKING:
    from torch import nn

    from amcl.backbones import Backbone, BackboneSettings
    from amcl.config import Config
    from amcl.data import DataSet

RESULTS = Path(__file__).parent / "results"
METHODS = {"simclr": "SimCLR", "barlow": "Barlow Twins"}
LIBRARIES = {"lightly": "lightly", "amcl": "amcl", "amcl-heads": "amcl + AMCL"}
MEASURES = ("images_per_second", "peak_gb", "knn")
SMOKE = {"data": "builtin", "images": 512, "epochs": 2, "split": "validation"}


class Trained(NamedTuple):
    """The state of an arm at the end of its training."""

    backbone: "Backbone"
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rates: list[float]
    """Images per second of each epoch."""
    steps: int
    loss: float
    """The mean over the last epoch."""
    start_gb: float
    """Peak memory before any image was read."""
    workers: dict[str, Any]
    """Number of worker processes, and the memory of the largest that is not shared."""


def network() -> "BackboneSettings":
    """Return the network of all arms: ResNet-18 of a quarter of its width, with the small stem."""
    from amcl.backbones import BackboneSettings

    return BackboneSettings(name="resnet18", width=0.25, stem="small")


def load(args: argparse.Namespace, split: Any) -> "DataSet":
    """Return the images; those to train on are the same for each `split`."""
    from amcl.data import load_dataset

    root = Path(args.data_root) if args.data_root else None
    return load_dataset(
        args.data,
        root=root,
        probe=split,
        validation=5000,
        seed=args.seed,
        subset=args.images,
        bank=None,
    )


def configuration(args: argparse.Namespace, method: str, library: str) -> "Config":
    """Return a run of amcl with lightly's views, heads, loss and optimizer."""
    from amcl.config import Config, DataSettings, HardwareSettings, OptimizerSettings, RunSettings
    from amcl.methods import BarlowTwinsSettings, SimCLRSettings
    from amcl.recipes import with_amcl
    from amcl.views import ViewSettings

    norms: dict[str, Any] = {"projector_norm": True, "projector_bias": False}
    arms: dict[str, tuple[ViewSettings, SimCLRSettings | BarlowTwinsSettings]] = {
        "simclr": (
            ViewSettings(operations="acde", jitter=(0.8, 0.8, 0.8, 0.2)),
            SimCLRSettings(
                projector=(512, 128),
                projector_last_norm="affine",
                **norms,
                temperature=ConstantSettings(tau=0.5),
            ),
        ),
        "barlow": (
            ViewSettings(operations="acdes", jitter=(0.4, 0.4, 0.2, 0.1), solarize_p=(0.0, 0.2)),
            BarlowTwinsSettings(lam=5e-3, projector=(2048, 2048, 2048), **norms),
        ),
    }
    views, settings = arms[method]
    config = Config(
        data=DataSettings(
            source=args.data, data_root=args.data_root, probe="none", subset=args.images
        ),
        views=views,
        backbone=network(),
        method=settings,
        optimizer=OptimizerSettings(
            lr=args.lr, sgd_momentum=args.momentum, weight_decay=0.0, schedule="constant"
        ),
        run=RunSettings(
            epochs=args.epochs,
            batch_size=args.batch_size,
            seed=args.seed,
            probe_every=args.epochs,
        ),
        hardware=HardwareSettings(accelerator="cpu", threads=args.threads),
    )
    return with_amcl(config) if library == "amcl-heads" else config


def train_amcl(args: argparse.Namespace, method: str, library: str) -> Trained:
    """Train like `amcl pretrain`; speeds are from its metrics."""
    # lightly brings torchmetrics along, which Fabric loads where it finds it, and SciPy and
    # matplotlib with it. Where amcl is installed alone there is none.
    sys.modules["torchmetrics"] = None  # type: ignore[assignment]
    from amcl.backbones import load_backbone
    from amcl.checkpoints import read_metrics
    from amcl.training import pretrain

    config = configuration(args, method, library)
    start_gb = peak_gb()
    with tempfile.TemporaryDirectory() as out:
        backbone = load_backbone(pretrain(config, Path(out) / "run"))
        rows = [row for row in read_metrics(Path(out) / "run") if row["kind"] == "epoch"]
    if backbone.normalization is None:
        raise RuntimeError("a backbone of a run has its normalization")
    return Trained(
        backbone,
        *backbone.normalization,
        rates=[row["images_per_second"] for row in rows],
        steps=rows[-1]["step"],
        loss=rows[-1]["loss"],
        start_gb=start_gb,
        workers={"number": 0, "own_gb": None},
    )


def parts_of_lightly(method: str, dim: int) -> tuple[Any, "nn.Module", "nn.Module"]:
    """Return lightly's transform, head and loss, as in its example of this method."""
    from lightly.loss import BarlowTwinsLoss, NTXentLoss  # type: ignore[import-untyped]
    from lightly.models.modules import heads  # type: ignore[import-untyped]
    from lightly.transforms import byol_transform as byol
    from lightly.transforms.simclr_transform import SimCLRTransform

    plain: dict[str, Any] = {"input_size": SIZE, "gaussian_blur": 0.0}
    if method == "simclr":
        return SimCLRTransform(**plain), heads.SimCLRProjectionHead(dim, 512, 128), NTXentLoss()
    views = byol.BYOLTransform(byol.BYOLView1Transform(**plain), byol.BYOLView2Transform(**plain))
    return views, heads.BarlowTwinsProjectionHead(dim, 2048, 2048), BarlowTwinsLoss()


def train_lightly(args: argparse.Namespace, method: str) -> Trained:
    """Train with the loop of lightly's examples."""
    import torch
    from lightly.transforms.utils import IMAGENET_NORMALIZE

    if args.threads:
        torch.set_num_threads(args.threads)
    backbone = first_backbone(network(), args.seed)
    transform, head, criterion = parts_of_lightly(method, backbone.dim)
    start_gb = peak_gb()
    data = load(args, "none")  # kept to the end: torchvision too holds all images of a subset
    pictures = Pictures(pictures_of(data), transform)
    loader = loader_of(pictures, args.batch_size, args.workers)
    parameters = [*backbone.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=args.lr, momentum=args.momentum)
    rates = []
    steps = 0
    for _ in range(args.epochs):
        start = time.perf_counter()
        total = torch.zeros(())
        for loss in lightly_steps(backbone, head, criterion, loader, optimizer):
            total += loss
            steps += 1
        rates.append(len(loader) * args.batch_size / (time.perf_counter() - start))
    return Trained(
        backbone,
        mean=tuple(IMAGENET_NORMALIZE["mean"]),
        std=tuple(IMAGENET_NORMALIZE["std"]),
        rates=rates,
        steps=steps,
        loss=total.item() / len(loader),
        start_gb=start_gb,
        workers=workers_now(),
    )


def evaluate(args: argparse.Namespace, trained: Trained) -> float:
    """Return the kNN accuracy of images of the split against the training images."""
    return knn_of(trained.backbone, load(args, args.split), (trained.mean, trained.std))


def peak_gb() -> float:
    """Return the peak resident memory of this process so far, without its children."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def workers_now() -> dict[str, Any]:
    """Return the number of workers, and the memory of the largest that is not shared, on Linux.

    A worker begins as a copy of this process whose pages both share: as resident memory they would
    be counted twice.
    """
    files = [Path(f"/proc/{p.pid}/smaps_rollup") for p in multiprocessing.active_children()]
    private = [
        sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_"))
        for text in (file.read_text() for file in files if file.exists())
    ]
    return {"number": len(files), "own_gb": max(private) * 1024 / 1e9 if private else None}


def measure_here(args: argparse.Namespace, method: str, library: str) -> dict[str, Any]:
    """Train and evaluate one arm in this process."""
    import torch

    of_lightly = library == "lightly"
    start = time.perf_counter()
    trained = train_lightly(args, method) if of_lightly else train_amcl(args, method, library)
    measurements = {
        "images_per_second": statistics.median(trained.rates[1:] or trained.rates),
        "peak_gb": peak_gb() + (trained.workers["own_gb"] or 0.0) * trained.workers["number"],
        "start_gb": trained.start_gb,
        "workers": trained.workers,
        "seconds": time.perf_counter() - start,
        "threads": torch.get_num_threads(),
        "steps": trained.steps,
        "loss": trained.loss,
        "epochs": trained.rates,
    }
    return {"knn": evaluate(args, trained)} | measurements


def measure(method: str, library: str) -> dict[str, Any]:
    """Measure one arm, with the options of this command, in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--arm", method, library]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{METHODS[method]} by {LIBRARIES[library]} failed:\n{done.stderr}")
    measurements: dict[str, Any] = json.loads(done.stdout)
    return measurements


def ratios(arms: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the ratio of each measurement of amcl's arms to that of lightly."""
    theirs = arms["lightly"]
    return {
        library: {name: ours[name] / theirs[name] for name in MEASURES}
        for library, ours in arms.items()
        if library != "lightly"
    }


def table(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the measurements in Markdown."""
    lines = [
        "| method | library | images/s | × lightly | peak memory | × lightly | kNN | to lightly |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method, arms in results.items():
        for library, arm in arms.items():
            speed = memory = points = ""
            if library != "lightly":
                ratio = ratios(arms)[library]
                speed = f"{ratio['images_per_second']:.2f}"
                memory = f"{ratio['peak_gb']:.2f}"
                points = f"{100 * (arm['knn'] - arms['lightly']['knn']):+.1f} points"
            peak = f"{arm['peak_gb']:.2f} GB"
            rate = f"{arm['images_per_second']:.0f}"
            accuracy = f"{arm['knn']:.1%}"
            cells = [METHODS[method], LIBRARIES[library], rate, speed, peak, memory, accuracy]
            lines.append(f"| {' | '.join([*cells, points])} |")
    return "\n".join(lines)


def conditions(args: argparse.Namespace, threads: int) -> str:
    """Return the conditions of the measurements, and how to read them."""
    versions = f"lightly {version('lightly')}, torch {version('torch')}"
    cpu = f"{platform.machine()}, {threads} thread{'s' * (threads > 1)}"
    return (
        f"ResNet-18 ×¼ with the small stem, {args.images:,} images of {args.data} of {SIZE} "
        f"pixels, batches of {args.batch_size}, {args.epochs} epochs, SGD with a constant rate of "
        f"{args.lr:g} and momentum {args.momentum:g}, seed {args.seed}, no blur, float32. Images "
        "per second, two views of each, are the median of all epochs but the first. Peak memory is "
        "that of the training process, and what lightly's workers hold on top, without the pages "
        "that they share with it. amcl's arms do not see torchmetrics, which lightly brings along "
        "and Fabric would load, at about 0.1 GB. kNN "
        f"(k = 200) is that after the last epoch on the {args.split} split, from one seed. + AMCL: "
        "three heads, adaptive temperatures. Measured by `python benchmarks/peers.py` on "
        f"{cpu}, {versions}, Python {platform.python_version()}, on CPU.\n"
    )


def main(args: argparse.Namespace) -> None:
    """Measure all arms one after the other, print the table and write it to a file."""
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for method in args.methods:
        for library in LIBRARIES:
            arm = measure(method, library)
            results.setdefault(method, {})[library] = arm
            print(METHODS[method], LIBRARIES[library], json.dumps(arm), flush=True)
    arms = [arm for of_method in results.values() for arm in of_method.values()]
    for name in ("steps", "threads"):
        if len({arm[name] for arm in arms}) > 1:
            raise RuntimeError(f"the arms differ in their {name}: {[arm[name] for arm in arms]}")
    text = f"{table(results)}\n\n{conditions(args, arms[0]['threads'])}"
    print(f"\n{text}")
    if not args.smoke:
        write(args, results, text)


def write(
    args: argparse.Namespace, results: dict[str, dict[str, dict[str, Any]]], text: str
) -> None:
    """Write table and numbers into the folder of results."""
    settings = ("data", "images", "batch_size", "epochs", "lr", "momentum", "seed", "split")
    packages = ("amcl-torch", "lightly", "torch", "torchvision", "timm")
    numbers = {
        "machine": platform.machine(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "settings": {name: getattr(args, name) for name in settings},
        "results": results,
        "ours_over_lightly": {method: ratios(arms) for method, arms in results.items()},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "peers.md").write_text(f"# amcl and lightly\n\n{text}")
    (RESULTS / "peers.json").write_text(json.dumps(numbers, indent=1) + "\n")


def options() -> argparse.Namespace:
    """Return the options of the command."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", default="cifar10", help="cifar10, cifar100 or builtin")
    add("--data-root", help="folder of named sets; else $AMCL_DATA, or ~/.cache/amcl")
    add("--images", type=int, default=5120, help="number of training images, the same for all")
    add(
        "--split", choices=("test", "validation"), default="test", help="images of the kNN accuracy"
    )
    add("--epochs", type=int, default=12, help="speed is the median of all but the first")
    add("--batch-size", type=int, default=256, help="images a step")
    add("--lr", type=float, default=0.06, help="constant learning rate of SGD")
    add("--momentum", type=float, default=0.0, help="momentum of SGD")
    add("--seed", type=int, default=0, help="first weights, order, views")
    add("--threads", type=int, default=0, help="CPU threads of every arm; 0: as torch chooses")
    add("--workers", type=int, default=cores, help="processes of lightly's DataLoader")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--smoke", action="store_true", help=f"try it out, write nothing: {SMOKE}")
    add("--arm", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.smoke:
        vars(args).update(SMOKE)
    if (args.data, args.split) == ("builtin", "test"):  # before the first arm trains
        parser.error("the built-in set has no test split: use --split validation")
    return args


if __name__ == "__main__":
    args = options()
    if args.arm:
        with redirect_stdout(sys.stderr):
            measurements = measure_here(args, *args.arm)
        print(json.dumps(measurements))
    else:
        main(args)
