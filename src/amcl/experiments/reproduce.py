"""The paper's tables and figures: their runs, and the files that they write."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from amcl.checkpoints.run_folder import RunFolder
from amcl.config import HardwareSettings
from amcl.config.toml import unknown
from amcl.data import missing_sets
from amcl.data.named import DATASETS
from amcl.data.named import data_root as data_root_of
from amcl.errors import RunError
from amcl.experiments.estimate import Work
from amcl.experiments.experiment import run_experiment
from amcl.experiments.page import Topic, topics_of_pairs, write_page
from amcl.experiments.paper import ENTRIES, Entry
from amcl.experiments.runs import SharedRuns, check_labels
from amcl.experiments.scales import SCALES, Scale, ScaleName
from amcl.experiments.specs import AMCL, TableSpec
from amcl.settings import choose, whole_number
from amcl.sweep import Point
from amcl.sweep.workers import Tell


def entry_of(name: str) -> Entry:
    """Return the entry of this name; raise an error if there is none."""
    if name not in ENTRIES:
        raise ValueError(unknown(f"{name!r} is asked for", name, ENTRIES))
    return ENTRIES[name]


def sets_of(entry: Entry, scale: Scale, data: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the data sets that an entry is run on."""
    return tuple(data) or scale.sets(*entry.sets)


def runs_of(
    entry: Entry, scale: Scale, data: Sequence[str] = (), seeds: int | None = None
) -> list[Point]:
    """Return the runs of an entry."""
    if entry.make is None:
        return []
    specs = entry.make(scale, sets_of(entry, scale, data))
    return shared_runs(scale, Path()).points(specs, range(_count(scale, seeds)))


def work_of(
    entries: Sequence[Entry], scale: Scale, data: Sequence[str] = (), seeds: int | None = None
) -> list[Work]:
    """Return the runs of entries, each once, with everything that is measured of it.

    Args:
        entries: The entries; those without runs add nothing.
        scale: The scale.
        data: Other sets or folders than the entries have at this scale.
        seeds: Number of seeds; the default is that of the scale.
    """
    points: dict[str, Point] = {}
    sources: dict[str, set[str]] = {}
    runs = shared_runs(scale, Path())
    for entry in entries:
        if entry.make is None:
            continue
        specs = entry.make(scale, sets_of(entry, scale, data))
        of_entry = {cell.metric.source for spec in specs for cell in spec.cells}
        for point in runs.points(specs, range(_count(scale, seeds))):
            points[point.name] = point
            sources.setdefault(point.name, set()).update(of_entry)
    return [Work(point, frozenset(sources[name])) for name, point in points.items()]


def tables_of(
    entry: Entry,
    scale: Scale,
    data: Sequence[str] = (),
    data_root: str | None = None,
    detection_data: str | None = None,
) -> tuple[list[TableSpec], Mapping[str, Any]]:
    """Return the tables of an entry that has runs, and the settings of the protocols.

    Whatever the runs need and is not there is an error.

    Args:
        entry: The entry.
        scale: The scale.
        data: Other sets or folders than the entry has at this scale.
        data_root: Folder of named data sets.
        detection_data: Folder in COCO's layout that detectors are trained on.
    """
    if entry.make is None:
        raise RuntimeError(f"{entry.name} has no runs")
    sets = sets_of(entry, scale, data)
    if missing := missing_sets(sets, data_root):
        raise RunError(
            f"{entry.name} at --scale {scale.name} needs data that are not there. "
            f"{' '.join(missing)} Or choose others with --data."
        )
    specs = entry.make(scale, sets)
    _require_labels(specs, sets)
    if entry.detection:
        settings = _with_detection(entry, scale, detection_data, data_root)
        note = _note_on_images(settings["detect"].data)
        return [spec.with_note(note) for spec in specs], settings
    if detection_data is not None:
        raise ValueError(f"--detection-data is for table-7: {entry.name} trains no detectors.")
    return specs, scale.protocols


def reproduce(
    name: str,
    *,
    scale: ScaleName = "cpu",
    out: str | Path | None = None,
    data: Sequence[str] = (),
    data_root: str | None = None,
    detection_data: str | None = None,
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
        scale: Name of the scale: sizes of data, networks and training.
        out: Folder of the runs and pages; the default is reproduce/SCALE.
        data: Other sets or folders than the entry has at this scale.
        data_root: Folder of named data sets.
        detection_data: Folder in COCO's layout that detectors are trained on; the default is that
            of the scale, or `coco` in the data folder.
        seeds: Number of seeds; the default is that of the scale.
        jobs: Number of runs at once.
        hardware: Hardware to run on.
        again: Whether to repeat runs that diverged or failed.
        tell: Function that prints a line for each run that ended.

    Returns:
        The path of the page; Markdown, CSV and PNG are beside it.

    Example:
        >>> reproduce("table-3", scale="smoke")  # doctest: +SKIP
        PosixPath('reproduce/smoke/table-3/index.html')
    """
    entry = entry_of(name)
    choose("scale", scale, tuple(SCALES))
    size = SCALES[scale]
    folder = Path(out) if out is not None else Path("reproduce") / scale
    command = _command(name, scale, out, data, data_root, detection_data, seeds, jobs)
    title = f"{name}: {entry.title}"
    if entry.count is not None:
        networks, topic, numbers = entry.count(size)
        return write_page(
            folder / name,
            title=title,
            subtitle=f"Counted on the networks of {networks}: nothing is trained.",
            topics=[topic],
            numbers=numbers,
            command=command,
        )
    specs, settings = tables_of(entry, size, data, data_root, detection_data)
    runs = shared_runs(size, folder / "runs", data_root, hardware, settings)
    return run_experiment(
        specs,
        runs,
        range(_count(size, seeds)),
        folder / name,
        title=title,
        subtitle=f"At scale {scale}: {size.about}.",
        command=command,
        more_topics=(lambda: _pairs(specs, runs)) if entry.histograms else list,
        jobs=jobs,
        again=again,
        tell=tell,
    )


def shared_runs(
    scale: Scale,
    path: Path,
    data_root: str | None = None,
    hardware: HardwareSettings | None = None,
    settings: Mapping[str, Any] | None = None,
) -> SharedRuns:
    """Return the folder of the runs that all entries of a scale share.

    Args:
        scale: The scale.
        path: The folder.
        data_root: Folder of named data sets.
        hardware: Hardware to run on.
        settings: Settings of the protocols; the default is those of the scale.
    """
    base = cache(scale.config)
    return SharedRuns(
        path=path,
        data_root=data_root,
        hardware=hardware or HardwareSettings(),
        base_of=lambda config: base(config.data.source, config.method.name),
        settings=scale.protocols if settings is None else settings,
        pairs=scale.pairs,
    )


def _count(scale: Scale, seeds: int | None) -> int:
    return scale.seeds if seeds is None else whole_number("seeds", seeds)


def _require_labels(specs: Sequence[TableSpec], sets: Sequence[str]) -> None:
    """Raise an error for folders without classes where accuracies are needed."""
    for name in sets:
        cells = [cell for spec in specs for cell in spec.cells if cell.config.data.source == name]
        if cells and name not in DATASETS and name != "builtin":
            check_labels(cells[0].config, specs, "auto")


def _with_detection(
    entry: Entry, scale: Scale, folder: str | None, root: str | None
) -> dict[str, Any]:
    """Return the settings of protocols, with the images that detectors are trained on."""
    settings = scale.protocols["detect"]
    if folder is None and settings.data is None:
        folder = str(data_root_of(Path(root) if root else None) / entry.detection)
        if not Path(folder).is_dir():
            raise RunError(
                f"{entry.name} at --scale {scale.name} trains detectors on {entry.detection}, "
                f"which is not in {folder}: put train2017/, val2017/ and annotations/ there, or "
                "name another folder with --detection-data."
            )
    return scale.protocols | {"detect": replace(settings, data=folder or settings.data)}


def _note_on_images(data: str) -> str:
    """Return a note on the images that detectors are trained on."""
    if data != "builtin":
        return f"Detectors are trained on {data}."
    return (
        "Detectors are trained on drawn pictures of circles, squares and triangles "
        "(`amcl detect --data builtin`), which say nothing of photographs."
    )


def _pairs(specs: Sequence[TableSpec], runs: SharedRuns) -> list[Topic]:
    """Return histograms and pairs of the first seed of every run."""
    folders: dict[str, Path] = {}
    for cell in specs[0].cells:
        labels = [value for name, value in cell.labels.items() if name not in ("measure", "place")]
        run = runs.run(cell.config, 0)
        if RunFolder(run).backbone.is_file():  # else it failed, and the table says so
            folders[", ".join(labels)] = run
    in_rows = sorted(folders, key=lambda name: name.endswith(AMCL))  # as in the paper
    samples = {name: runs.sample(folders[name]) for name in in_rows}
    return topics_of_pairs(samples, gallery=[n for n in samples if n.endswith(AMCL)][-1:])


def _command(
    name: str,
    scale: str,
    out: str | Path | None,
    data: Sequence[str],
    data_root: str | None,
    detection_data: str | None,
    seeds: int | None,
    jobs: int,
) -> str:
    words = ["amcl", "reproduce", name, "--scale", scale]
    words += ["--data", *data] if data else []
    words += ["--data-root", data_root] if data_root is not None else []
    words += ["--detection-data", detection_data] if detection_data is not None else []
    words += ["--jobs", str(jobs)] if jobs > 1 else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    words += ["--out", str(out)] if out is not None else []
    return shlex.join(words)
