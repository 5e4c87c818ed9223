"""`amcl reproduce`: the paper's tables and figures."""

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import print_line, results_console, show_page
from amcl.config import HardwareSettings
from amcl.data import missing_sets
from amcl.errors import Interrupted
from amcl.experiments import ENTRIES, SCALES, reproduce
from amcl.experiments.estimate import CORES, format_time, seconds
from amcl.experiments.paper import Entry
from amcl.experiments.reproduce import entry_of, sets_of, tables_of, work_of
from amcl.experiments.scales import Scale, ScaleName
from amcl.results import Table
from amcl.results.formatting import plural
from amcl.training.display import log_to_console

HELP = Help(
    about="Run what is behind a table or figure of the paper, and show it beside its numbers.",
    examples=(
        ("List tables and figures, with the time that each takes.", "amcl reproduce --list"),
        (
            "Run a table on this machine, two runs at once.",
            "amcl reproduce table-3 --scale cpu --jobs 2",
        ),
        (
            "Run figures with the paper's settings.",
            "amcl reproduce figure-5 figure-9 --scale paper --data-root /data",
        ),
        ("Run all of it in a few hours.", "amcl reproduce all --scale night --jobs 2"),
        ("See in minutes that all of it works.", "amcl reproduce all --scale smoke"),
    ),
    details="""Scales: smoke shows that all of it works, in minutes; night and cpu have a fixed part
of CIFAR-10, a narrow network, few epochs and 3 seeds: on 2 cores, night takes a few hours for all
entries, cpu some hours for each; paper has the paper's settings. Entries of one scale share their
runs in one folder, and the same command resumes where it was stopped.""",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `amcl reproduce`."""

    names: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")
    ] = ()
    """Tables and figures, as table-3 or figure-5; all: everything that can be run."""
    list: Annotated[bool, tyro.conf.arg(constructor=bool)] = False
    """Show each entry, what it needs and about how long it takes."""
    scale: ScaleName = "cpu"
    """How much of it is run."""
    out: Path | None = None
    """Where runs and tables go; none: reproduce/SCALE."""
    data: tuple[str, ...] = ()
    """Other sets or folders than the entry has at this scale."""
    data_root: str | None = None
    """Where named sets lie; none: $AMCL_DATA, or ~/.cache/amcl."""
    detection_data: str | None = None
    """Folder in COCO's layout that the detectors of table-7 are trained on; none: coco in the data
    folder (at other scales than paper: built-in pictures of shapes)."""
    seeds: int | None = None
    """Number of seeds; none: that of the scale."""
    jobs: int = 1
    """Runs at once, each with its share of the cores, and a GPU of its own where there are some."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    again: bool = False
    """Repeat runs that diverged or failed."""


@command("amcl reproduce", "The same command resumes.")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Options, args, command="amcl reproduce", help=HELP)
    scale = SCALES[options.scale]
    results = results_console()
    if options.list:
        results.print(_table(scale, options).to_terminal(results.width))
        print_line(f"Scale {scale.name}: {scale.about}.", results)
        return
    if not options.names:
        raise ValueError("name a table or figure, as in `amcl reproduce table-3`; --list has them.")
    names = [name for each in options.names for name in _expanded(each)]
    log_to_console(logging.ERROR)
    entries = {name: entry_of(name) for name in names}
    if options.detection_data and not any(entry.detection for entry in entries.values()):
        raise ValueError(
            "--detection-data is for table-7, which is not among the names: leave it out."
        )
    detection_data = {
        n: options.detection_data if e.detection else None for n, e in entries.items()
    }
    extents = {name: _extent([entry], scale, options) for name, entry in entries.items()}
    for name, entry in entries.items():
        if entry.make is not None:  # what is missing is an error before anything is run
            tables_of(entry, scale, options.data, options.data_root, detection_data[name])
    if len(entries) > 1:
        _announce("all together", _extent(list(entries.values()), scale, options), scale)
    try:
        for name, entry in entries.items():
            if entry.make is not None:
                _announce(name, extents[name], scale)
            page = reproduce(
                name,
                scale=options.scale,
                out=options.out,
                data=options.data,
                data_root=options.data_root,
                detection_data=detection_data[name],
                seeds=options.seeds,
                jobs=options.jobs,
                hardware=HardwareSettings(accelerator=options.accelerator),
                again=options.again,
                tell=print_line,
            )
            show_page(page, results)
    except Interrupted as interrupted:
        command = shlex.join(["amcl", "reproduce", *args])
        raise interrupted.with_message(
            f"stopped, everything is saved. Resume with: {command}"
        ) from interrupted


def _announce(name: str, extent: tuple[int, str], scale: Scale) -> None:
    """Print the number of runs of entries, and about how long they take."""
    runs, time = extent
    print_line(f"{name}: {plural(runs, 'run')}, about {time}, {_machine(scale)}, if all are new")


def _extent(entries: Sequence[Entry], scale: Scale, options: Options) -> tuple[int, str]:
    """Return the number of different runs of entries, and about how long they take."""
    work = work_of(entries, scale, options.data, options.seeds)
    time = seconds(work, scale.protocols, gpu=scale.name == "paper")
    return len(work), format_time(time)


def _expanded(name: str) -> list[str]:
    """Return the names that `all` stands for."""
    return list(ENTRIES) if name == "all" else [name]


def _table(scale: Scale, options: Options) -> Table:
    rows = []
    for entry in ENTRIES.values():
        if entry.make is None:
            rows.append([entry.name, entry.title, "nothing", "0", "1 min"])
        else:
            needs = ", ".join(
                f"{name} (missing)" if missing_sets([name], options.data_root) else name
                for name in sets_of(entry, scale, options.data)
            )
            if entry.detection and scale.protocols["detect"].data is None:
                needs += f", {entry.detection}"
            runs, time = _extent([entry], scale, options)
            rows.append([entry.name, entry.title, needs, str(runs), time])
    runs, time = _extent(list(ENTRIES.values()), scale, options)
    rows.append(["all", "all of them, shared runs once", "", str(runs), time])
    return Table(("entry", "what it is", "needs", "runs", _machine(scale)), rows, left=5)


def _machine(scale: Scale) -> str:
    """Return the machine that estimates of time are for."""
    return "on a GPU" if scale.name == "paper" else f"on {CORES} cores with --jobs {CORES}"
