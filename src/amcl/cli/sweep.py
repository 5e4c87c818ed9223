"""`amcl sweep`: runs over a grid of settings and seeds."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.output import print_line, results_console
from amcl.cli.start import (
    Start,
    base_config,
    peek,
    read_training_options,
    refuse_unused,
    require_images,
    split_schemes,
)
from amcl.config import Config
from amcl.config.fields import differing, effective, on_machine, value_from, with_values
from amcl.errors import RunError
from amcl.evaluation import PROTOCOLS
from amcl.results.groups import MEASURED
from amcl.sweep import Point, SweepFolder, axes_of, grid, sweep
from amcl.sweep.evaluate import Split
from amcl.sweep.grid import BASES
from amcl.sweep.table import table
from amcl.temperature.settings import schemes_with
from amcl.training.display import log_to_console

HELP = Help(
    about="Carry out runs over a grid of settings and seeds, each once, and compare them.",
    examples=(
        (
            "Compare three temperatures over three seeds.",
            "amcl sweep --grid tau=0.1,0.2,0.5 seed=0,1,2 --epochs 5 --out sweeps/tau",
        ),
        (
            "Compare two recipes.",
            "amcl sweep --grid recipe=builtin-simclr,builtin-simclr-amcl seed=0,1 "
            "--out sweeps/both",
        ),
        (
            "Compare projectors by a linear probe, two runs at once.",
            "amcl sweep --grid 'projector=512 128,2048 256' --protocols linear "
            "--jobs 2 --out sweeps/projector",
        ),
        ("Resume.", "amcl sweep --out sweeps/tau"),
    ),
    details="""An axis is any option of `amcl pretrain` with its values, but for hardware; eta
and iota, for the range of τ; recipe, config, method, data or init, for what runs start from.

The same command resumes a sweep that was stopped, and so does --out alone; more values and seeds
join its runs. Each run prints a line; at the end there is a table, and runs.csv and table.md are
in the folder. The other options are those of `amcl pretrain`.""",
    main=(
        "grid",
        "out",
        "data",
        "method",
        "plain",
        "amcl",
        "epochs",
        "protocols",
        "split",
        "jobs",
        "again",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Options(Start):
    """Options of `amcl sweep`."""

    out: Path
    """Folder of the sweep; one that exists is resumed."""
    grid: tuple[str, ...] = ()
    """Axes, as in tau=0.1,0.2 seed=0,1,2: every combination is a run."""
    protocols: Annotated[tuple[str, ...], tyro.conf.arg(metavar=" ".join(PROTOCOLS.names()))] = ()
    """Judge each run by these at its end, as `amcl evaluate` does; none: by its last probe. With
    --out alone: as before."""
    split: Split = "validation"
    """Images that protocols judge on. Choose settings by validation, and report on test."""
    jobs: int = 1
    """Runs at once, each with its share of the cores, and a GPU of its own where there are some."""
    again: bool = False
    """Take up runs that diverged or failed."""
    storage: str = ""
    """Database of the records, as Optuna takes it, or a journal on a shared folder (a path that
    ends in .journal), for several machines; none: a file in --out."""
    study: str | None = None
    """Name of the sweep in the database; none: that of the folder."""


def parse(args: list[str]) -> tuple[Options, list[Point]]:
    """Return the options, and the runs that they request."""
    start = peek(args)
    if sum(word.partition("=")[0] == "--grid" for word in args) > 1:
        raise ValueError("--grid is given twice: write all axes behind one.")
    axes = axes_of(start.grid or ())
    if both := [name for name in BASES if name in axes and getattr(start, name)]:
        raise ValueError(f"--{both[0]} and the axis {both[0]} of the grid: give one of them.")
    options_by_base: dict[tuple[str, ...], Options] = {}
    bases: list[Config] = []
    of_schemes: dict[str, str] = {}  # options of schemes that only some of the runs have

    def settings_of(base_texts: Mapping[str, str]) -> Config:
        added = tuple(word for name, text in base_texts.items() for word in (f"--{name}", text))
        if added not in options_by_base:
            base = base_config([*args, *added])
            words, texts = split_schemes([*args, *added], base)
            of_schemes.update(texts)
            bases.append(base)
            options_by_base[added] = _options(words, base)
            require_images(options_by_base[added].settings)
        return options_by_base[added].settings

    if not axes:
        folder = SweepFolder(Path(start.out or ""), start.storage or "", start.study)
        return _stored(args, folder)
    points = _with_options(grid(settings_of, axes), of_schemes)
    settings = [options.settings for options in options_by_base.values()]
    refuse_unused(list(zip(bases, settings, strict=True)), args, axes)
    return next(iter(options_by_base.values())), points


def _with_options(points: list[Point], texts: Mapping[str, str]) -> list[Point]:
    """Return the runs with options of temperature schemes, each in those runs that have it."""
    changed = []
    used: set[str] = set()
    for point in points:
        values = {name: value_from(point.config, name, text) for name, text in texts.items()}
        values = effective(point.config, values)
        used |= values.keys()
        changed.append(replace(point, config=with_values(point.config, values)))
    if unused := [name for name in texts if name not in used]:
        option = unused[0].replace("_", "-")
        raise ValueError(
            f"--{option} belongs to --temperature {', '.join(schemes_with(unused[0]))}: no run of "
            "this sweep has one of these."
        )
    return changed


def _stored(args: list[str], folder: SweepFolder) -> tuple[Options, list[Point]]:
    """Return the runs of a sweep that is resumed; only hardware may change."""
    points = folder.read_points() if folder.exists() else []
    base = points[0].config if points else None
    protocols, split = folder.read_protocols() if points else ((), "validation")
    options = _options(args, base_config(args, base), protocols=protocols, split=split)
    if base is None:
        raise ValueError(
            f"there is no sweep in {folder.path} to resume: say what the runs of a new one differ "
            "in, as in --grid tau=0.1,0.2 seed=0,1,2."
        )
    if changed := differing(base, options.settings):
        raise ValueError(
            f"without --grid a sweep resumes as it began, and {', '.join(changed)} would change "
            "it: leave that out, or say what the runs differ in with --grid."
        )
    return options, [replace(p, config=on_machine(p.config, options.settings)) for p in points]


def _options(args: list[str], base: Config, **defaults: Any) -> Options:
    return read_training_options(
        Options,
        args,
        base,
        command="amcl sweep",
        help=HELP,
        out=tyro.MISSING,
        **defaults,
    )


@command("amcl sweep", "The same command resumes.")
def main(args: list[str]) -> None:
    """Run the command."""
    options, points = parse(args)
    log_to_console(logging.ERROR)
    print_line(f"{len(points)} run{'s' * (len(points) > 1)} in {options.out}")
    records = sweep(
        points,
        options.out,
        jobs=options.jobs,
        protocols=options.protocols,
        split=options.split,
        again=options.again,
        storage=options.storage,
        study=options.study,
        tell=print_line,
    )
    results = results_console()
    results.print(table(records).to_terminal(results.width))
    print_line(f"the whole table is in {options.out}: runs.csv, table.md", results)
    if records and all(record.status not in MEASURED for record in records):
        raise RunError(
            "not one run came to its end: see the reasons above or in runs.csv. --again takes "
            "them up anew."
        )
