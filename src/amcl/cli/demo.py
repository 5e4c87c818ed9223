"""`amcl demo`: a method as published and with AMCL, side by side on the built-in set."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.table import Table

from amcl import recipes
from amcl.backbones import Backbone
from amcl.checkpoints.run_folder import RunFolder, read_metrics
from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import results_console
from amcl.config import Config
from amcl.data import load_dataset
from amcl.files import free_path
from amcl.methods import METHODS
from amcl.metrics import extract, knn_accuracy
from amcl.training import pretrain
from amcl.training.display import console, log_to_console
from amcl.training.start import first_stage
from amcl.views import Views

NEXT = """What to try next:
  amcl pretrain --data FOLDER --out runs/mine    your own pictures
  amcl pretrain --method moco                    another method
  amcl recipes                                   all recipes
  {evaluate:<47}judge it by more protocols
  {first}/metrics.jsonl tells loss, temperatures and probes of every epoch"""


HELP = Help(
    about="Train a method as published and with AMCL on the built-in set, and compare (3 minutes).",
    examples=(
        ("Compare SimCLR with SimCLR + AMCL.", "amcl demo"),
        ("Compare another method.", "amcl demo --method moco"),
        ("Take another seed.", "amcl demo --seed 1 --out runs/demo-seed-1"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Options of `amcl demo`."""

    method: str = "simclr"
    """A method with heads; can, mocov3 and lgp train vision transformers and take longer."""
    epochs: int = 20
    """Passes over the 2,000 images."""
    seed: int = 0
    """Another seed, another pair of runs."""
    out: Path | None = None
    """Where both run folders go; none: runs/demo, numbered if it exists."""


@command("amcl demo", "A run resumes from its last checkpoint with amcl pretrain --resume RUN.")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Demo, args, command="amcl demo", help=HELP)
    log_to_console()
    out = options.out or free_path(Path("runs/demo"))
    if not METHODS[options.method].settings_class.has_heads:
        raise ValueError(f"--method {options.method} has no heads, and so no AMCL form to compare.")
    base = recipes.published("builtin", options.method)
    base = replace(base, run=replace(base.run, epochs=options.epochs, seed=options.seed))
    runs = {options.method: base, f"{options.method} + AMCL": recipes.with_amcl(base)}
    accuracies = _without_training(base)
    folders = []
    for name, config in runs.items():
        folders.append(out / name.replace(" + AMCL", "-amcl"))
        console.print(f"\n[bold]{name}[/bold], in {folders[-1]}", soft_wrap=True)
        if len(folders) > 1 and first_stage(config) is not None:  # made already, by the first run
            init = str(RunFolder(folders[0]).first_stage.path)
            config = replace(config, run=replace(config.run, init=init))
        pretrain(config, folders[-1])
        probes = [row for row in read_metrics(folders[-1]) if row["kind"] == "probe"]
        accuracies[name] = probes[-1]["knn_validation"]
    table = Table("features", "kNN accuracy", title="500 held-out images, 10 classes")
    for name, accuracy in accuracies.items():
        table.add_row(name, f"{accuracy:.1%}")
    results = results_console()
    results.print()
    results.print(table)
    results.print("One seed on a toy set: a sign of life, not evidence for either method.\n")
    results.print(
        NEXT.format(first=folders[-1], evaluate=f"amcl evaluate {folders[-1]}"), markup=False
    )


def _without_training(config: Config) -> dict[str, float]:
    """Return the accuracy of kNN on raw pixels and on the features of an untrained backbone."""
    data = load_dataset("builtin")
    if data.probe is None:
        raise RuntimeError("the built-in set has labels")
    views = Views(data.image_size, mean=data.mean, std=data.std)
    torch.manual_seed(config.run.seed)
    models = {
        "raw pixels": torch.nn.Flatten(),
        "untrained backbone": Backbone(config.backbone, data.image_size),
    }
    accuracies = {}
    for name, model in models.items():
        bank, queries = (
            extract(model, part.images[torch.arange(len(part.images))].split(500), views.plain)
            for part in (data.probe.bank, data.probe.queries)
        )
        labels = data.probe.bank.labels
        truth = data.probe.queries.labels
        accuracies[name] = knn_accuracy(bank, labels, queries, truth, k=config.run.knn_k)
    return accuracies
