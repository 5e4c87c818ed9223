"""Add the backbone of a finished and evaluated run to the models that come with amcl.

    python release/ship_weights.py RUN NAME --note "Trained on …" --baseline "untrained" FOLDER

It writes NAME.safetensors, NAME.md (the model card) and the entry of NAME in index.json, all in
src/amcl/pretrained. Every number is read from the JSON files of the run; the same run gives the
same bytes. A baseline is the folder of results that `amcl evaluate MODEL … --out FOLDER` wrote by
the same protocols on the same images.
"""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import timm

from amcl.checkpoints import LoadedModel, RunFolder, open_model
from amcl.checkpoints.card import model_card, scores_of
from amcl.checkpoints.evaluations import Result, format_metric, read_results
from amcl.errors import RunError
from amcl.files import file_digest, whole_file, write_text
from amcl.pretrained.index import FOLDER, INDEX
from amcl.results.table import Table
from amcl.text_files import read_json, read_json_lines, to_json

LARGEST = 5_000_000
"""Bytes of a file of weights, at most."""
NEEDED = ("knn", "linear")
"""Protocols that a model has to be evaluated by, once each, on test images."""


def ship(
    run: Path,
    name: str,
    *,
    notes: Sequence[str],
    baselines: Mapping[str, Path] | None = None,
    replace: bool = False,
    folder: Path = FOLDER,
) -> list[Path]:
    """Write the weights, the card and the entry of the index of a run's backbone.

    Args:
        run: The run folder.
        name: Name of the model.
        notes: Sentences that a user has to know. The first says what it was trained on: commands
            that use the model show it.
        baselines: Folders of results of other models, by what the model is.
        replace: Whether a model of this name may be replaced.
        folder: Folder of the models.

    Returns:
        The files.

    Raises:
        ValueError: The run cannot be shipped, or not under this name.
    """
    index = read_json(folder / INDEX) if (folder / INDEX).exists() else {}
    check_name(name)
    if not notes:
        raise ValueError("say with --note what the model was trained on.")
    if name in index and not replace:
        raise ValueError(f"there is a model {name!r} already: give --replace, or another name.")
    source = RunFolder(run)
    if not source.backbone.is_file():
        raise ValueError(f"{run} is no finished run: it has no {source.backbone.name}.")
    if (size := source.backbone.stat().st_size) > LARGEST:
        raise ValueError(f"{source.backbone} has {size:,} bytes, and at most {LARGEST:,} ship.")
    model = open_model(run)
    results = evaluated(model)
    beside = {label: same_results(results, path) for label, path in (baselines or {}).items()}
    entry = {
        "sha256": file_digest(source.backbone),
        "size": size,
        **facts(model),
        "run": run.resolve().name,
        "command": training_command(source),
        "notes": list(notes),
        "results": [record(result) for result in results],
        "baselines": {label: list(map(record, others)) for label, others in beside.items()},
    }
    paths = [folder / f"{name}.safetensors", folder / f"{name}.md", folder / INDEX]
    with whole_file(paths[0]) as file:
        file.write(source.backbone.read_bytes())
    write_text(paths[1], card(model, name, entry, results, beside))
    write_text(paths[2], to_json(dict(sorted((index | {name: entry}).items()))) + "\n")
    return paths


def check_name(name: str) -> None:
    """Raise an error if a model cannot have this name."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name):
        raise ValueError(f"NAME must be lowercase words and digits joined by -, got {name!r}.")
    if timm.is_model(name):
        raise ValueError(f"timm has a model {name!r}: choose another name.")


def evaluated(model: LoadedModel) -> list[Result]:
    """Return the results of exactly these weights; an error if any is missing or there twice."""
    results = scores_of(model)
    for protocol in NEEDED:
        count = [(r.protocol, r.split) for r in results].count((protocol, "test"))
        if count != 1:
            raise ValueError(
                f"{model.name} has {count} results of {protocol} on test images, and must have 1: "
                f"run `amcl evaluate {shlex.quote(model.name)} --data FOLDER --protocols "
                f"{' '.join(NEEDED)}` once, on a set with a test split."
            )
    return results


def same_results(results: Sequence[Result], folder: Path) -> list[Result]:
    """Return the results in a folder that were measured as `results` were, in their order."""

    def measured(result: Result) -> tuple[Any, ...]:
        return result.protocol, result.split, result.settings, result.seed, result.images

    others = read_results(folder)
    found = []
    for result in results:
        matches = [other for other in others if measured(other) == measured(result)]
        if len(matches) != 1:
            raise ValueError(
                f"{folder} has {len(matches)} results of {result.protocol} with the same settings, "
                "seed and images as those of the run, and must have 1."
            )
        found += matches
    return found


def facts(model: LoadedModel) -> dict[str, Any]:
    """Return what the index says of a network and its training."""
    backbone = model.backbone
    config = model.config
    if config is None:
        raise ValueError(f"{model.name} is no run folder: it has no config.toml.")
    width = backbone.settings.width
    return {
        "network": backbone.settings.name + ("" if width == 1 else f" ×{width:g}"),
        "parameters": sum(p.numel() for p in backbone.parameters()),
        "features": backbone.dim,
        "image_size": backbone.image_size,
        "method": config.method.describe(),
        "data": config.data.name,
        "images": model.images,
        "epochs": model.epoch,
    }


def training_command(run: RunFolder) -> str:
    """Return the command that trained a run; an error if it alone would not give the same run."""
    starts = read_json_lines(run.environment)
    if any("changed" in start for start in starts):
        raise ValueError(
            f"{run.path} was resumed with other settings: no single command repeats it. Train it "
            "again by one."
        )
    return repeatable(starts[0]["command"], run.path)


def repeatable(command: str, where: Path) -> str:
    """Return a command of amcl as a user types it; an error if it belongs to this machine."""
    program, *words = shlex.split(command)
    if Path(program).name not in ("__main__.py", "amcl"):
        raise ValueError(f"{where} was made by {command!r}, which is no command of amcl.")
    if machine := [word for word in words if Path(word.partition("=")[2] or word).is_absolute()]:
        raise ValueError(
            f"the command of {where} has the absolute path {machine[0]}, which no other machine "
            "has: train and evaluate in a working folder, with relative paths."
        )
    return shlex.join(["amcl", *words])


def record(result: Result) -> dict[str, Any]:
    """Return what the index says of a result."""
    command = result.environment.get("command", "")
    return {
        "protocol": result.protocol,
        "data": Path(result.data).name,
        "split": result.split,
        "seed": result.seed,
        "images": {name: count for name, count in result.images.items() if name != "sha256"},
        "metrics": result.metrics,
        "std": result.details.get("std", {}),
        "command": repeatable(command, Path(f"the result of {result.protocol}")),
    }


def card(
    model: LoadedModel,
    name: str,
    entry: Mapping[str, Any],
    results: Sequence[Result],
    beside: Mapping[str, Sequence[Result]],
) -> str:
    """Return the model card: that of an export, with notes, baselines and commands."""
    sections = []
    if entry["notes"]:
        sections.append("## What to know\n\n" + "\n".join(f"- {note}" for note in entry["notes"]))
    if beside:
        rows = [
            (
                f"{result.protocol} {metric}",
                format_metric(result, metric),
                *(format_metric(others[i], metric) for others in beside.values()),
            )
            for i, result in enumerate(results)
            for metric in result.metrics
        ]
        header = ("by the same evaluation", "this model", *beside)
        sections.append(f"## Beside others\n\n{Table(header, rows).to_markdown().rstrip()}")
    sections.append(commands(entry))
    return model_card(
        model,
        weights=f"{name}.safetensors",
        load=f"import amcl\n\nbackbone = amcl.load({json.dumps(name)})",
        license="mit",
        sections=sections,
    )


def commands(entry: Mapping[str, Any]) -> str:
    """Return the section with the commands that trained and evaluated a model, and its checksum."""
    lines = [entry["command"], *(result["command"] for result in entry["results"])]
    for others in entry["baselines"].values():
        lines += [result["command"] for result in others]
    unique = "\n".join(dict.fromkeys(lines))
    return (
        f"## How to repeat it\n\nThe run `{entry['run']}` was trained and evaluated by\n\n"
        f"```\n{unique}\n```\n\nSHA-256 of the weights: `{entry['sha256']}`."
    )


def main() -> int:
    """Run the command and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a finished, evaluated run folder")
    parser.add_argument("name", metavar="NAME", help="such as cifar10-resnet10-simclr-amcl")
    parser.add_argument(
        "--note",
        action="append",
        default=[],
        help="a sentence that a user has to know; the first says what the model was trained on",
    )
    parser.add_argument(
        "--baseline",
        action="append",
        nargs=2,
        default=[],
        metavar=("LABEL", "FOLDER"),
        help="results of another model by the same evaluation; may be given several times",
    )
    parser.add_argument("--replace", action="store_true", help="replace the model of this name")
    options = parser.parse_args()
    baselines = {label: Path(folder) for label, folder in options.baseline}
    try:
        paths = ship(
            options.run,
            options.name,
            notes=options.note,
            baselines=baselines,
            replace=options.replace,
        )
    except (ValueError, RunError, OSError) as error:
        print(f"ship_weights: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"{path} ({path.stat().st_size:,} bytes)" for path in paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
