"""The paper's tables and figures: their runs, and the files that they write."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from amcl.checkpoints.run_folder import RunFolder
from amcl.config import HardwareSettings
from amcl.config.toml import unknown
from amcl.data import missing_sets
from amcl.data.named import NAMED
from amcl.errors import RunError
from amcl.experiments.cases import AMCL, Part
from amcl.experiments.experiment import Experiment
from amcl.experiments.page import ExperimentPage, Topic, topics_of_pairs
from amcl.experiments.paper import ENTRIES, Entry
from amcl.experiments.runs import RunPool, check_labels
from amcl.experiments.scales import SCALES, Scale, ScaleName
from amcl.settings import choose, whole_number
from amcl.sweep import Point
from amcl.sweep.workers import Tell


def entry_of(name: str) -> Entry:
    """Return the entry of this name; an error if there is none, or it is not available yet."""
    if name not in ENTRIES:
        raise ValueError(unknown(f"{name!r} is asked for", name, ENTRIES))
    if ENTRIES[name].unavailable:
        raise RunError(f"{name} cannot be reproduced: {ENTRIES[name].unavailable}.")
    return ENTRIES[name]


def sets_of(entry: Entry, scale: Scale, data: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the data sets that an entry is run on."""
    return tuple(data) or scale.sets(*entry.sets)


def runs_of(
    entry: Entry, scale: Scale, data: Sequence[str] = (), seeds: int | None = None
) -> list[Point]:
    """Return the runs behind an entry."""
    if entry.make is None:
        return []
    parts = entry.make(scale, sets_of(entry, scale, data))
    return _pool(scale, Path()).points(parts, range(_count(scale, seeds)))


def reproduce(
    name: str,
    *,
    scale: ScaleName = "cpu",
    out: str | Path | None = None,
    data: Sequence[str] = (),
    data_root: str | None = None,
    seeds: int | None = None,
    jobs: int = 1,
    hardware: HardwareSettings | None = None,
    again: bool = False,
    tell: Tell = print,
) -> Path:
    """Run the experiments behind a table or figure of the paper, and write its page.

    All entries of a scale share their runs: a run is made once, and the same call resumes after an
    interruption.

    Args:
        name: Name of the entry, such as "table-3".
        scale: How much of it is run.
        out: Folder of the runs and pages; the default is reproduce/SCALE.
        data: Other sets or folders than the entry has at this scale.
        data_root: Folder of named data sets.
        seeds: Number of seeds; the default is that of the scale.
        jobs: Number of runs at once.
        hardware: Where to run.
        again: Whether to repeat runs that diverged or failed.
        tell: Takes a line for each run that ended.

    Returns:
        The path of the page; Markdown, CSV and PNG lie beside it.
    """
    entry = entry_of(name)
    choose("scale", scale, tuple(SCALES))
    size = SCALES[scale]
    folder = Path(out) if out is not None else Path("reproduce") / scale
    command = _command(name, scale, out, data, data_root, seeds, jobs)
    title = f"{name}: {entry.title}"
    if entry.make is None:
        return _counted(entry, size, title, command).write(folder / name)
    sets = sets_of(entry, size, data)
    if missing := missing_sets(sets, data_root):
        raise RunError(
            f"{name} at --scale {scale} needs data that are not there. {' '.join(missing)} "
            "Or choose others with --data."
        )
    parts = entry.make(size, sets)
    _require_labels(parts, sets)
    pool = _pool(size, folder / "runs", data_root, hardware)
    experiment = Experiment(
        title=title,
        subtitle=f"At scale {scale}: {size.about}.",
        parts=parts,
        pool=pool,
        seeds=range(_count(size, seeds)),
        command=command,
        more=(lambda: _pairs(parts, pool)) if entry.histograms else list,
    )
    return experiment.carry_out(folder / name, jobs=jobs, again=again, tell=tell)


def _count(scale: Scale, seeds: int | None) -> int:
    return scale.seeds if seeds is None else whole_number("seeds", seeds)


def _require_labels(parts: Sequence[Part], sets: Sequence[str]) -> None:
    """Raise an error for folders without classes where accuracies are needed."""
    for name in sets:
        cases = [case for part in parts for case in part.cases if case.config.data.source == name]
        if cases and name not in NAMED and name != "builtin":
            check_labels(cases[0].config, parts, "auto")


def _pool(
    scale: Scale,
    path: Path,
    data_root: str | None = None,
    hardware: HardwareSettings | None = None,
) -> RunPool:
    return RunPool(
        path=path,
        data_root=data_root,
        hardware=hardware or HardwareSettings(),
        base_of=lambda config: scale.config(config.data.source, config.method.name),
        settings=scale.protocols,
        pairs=scale.pairs,
    )


def _counted(entry: Entry, scale: Scale, title: str, command: str) -> ExperimentPage:
    if entry.count is None:
        raise RuntimeError(f"{entry.name} has neither runs nor anything that is counted")
    counted = entry.count(scale)
    return ExperimentPage(
        title=title,
        subtitle=f"Counted on the networks of {counted.subtitle}: nothing is trained.",
        topics=[counted.topic],
        numbers=counted.numbers,
        command=command,
    )


def _pairs(parts: Sequence[Part], pool: RunPool) -> list[Topic]:
    """Return histograms and pairs of the first seed of every run."""
    runs: dict[str, Path] = {}
    for case in parts[0].cases:
        labels = [value for name, value in case.labels.items() if name not in ("measure", "place")]
        run = pool.run(case.config, 0)
        if RunFolder(run).backbone.is_file():  # else it failed, and the table says so
            runs[", ".join(labels)] = run
    in_rows = sorted(runs, key=lambda name: name.endswith(AMCL))  # as the paper has them
    samples = {name: pool.sample(runs[name]) for name in in_rows}
    return topics_of_pairs(samples, gallery=[n for n in samples if n.endswith(AMCL)][-1:])


def _command(
    name: str,
    scale: str,
    out: str | Path | None,
    data: Sequence[str],
    data_root: str | None,
    seeds: int | None,
    jobs: int,
) -> str:
    words = ["amcl", "reproduce", name, "--scale", scale]
    words += ["--data", *data] if data else []
    words += ["--data-root", data_root] if data_root is not None else []
    words += ["--jobs", str(jobs)] if jobs > 1 else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    words += ["--out", str(out)] if out is not None else []
    return shlex.join(words)
