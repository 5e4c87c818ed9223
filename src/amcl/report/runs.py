"""What a page on runs is made from: everything that is known of each."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amcl.analysis import PairSample, PairSettings, PlaneMethod, sample_of_run
from amcl.evaluation import Result, read_results
from amcl.methods import HeadSettings
from amcl.report.blocks import Beside, Block, Chart, Table
from amcl.settings import choose
from amcl.training import Config, RunError, RunFolder, read_metrics


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """What a report looks at."""

    images: int = 500
    """So many images are looked at in pairs of views, or all where there are fewer: of those that
    the run held out to probe with, else of those it was trained on."""
    map: PlaneMethod = "pca"
    """How features are put on a plane; umap and tsne need a package each."""
    data: str | None = None
    """Where the images lie, or other images; none: where the run had them."""
    data_root: str | None = None
    """Where named sets lie; none: where the run had them."""
    seed: int = 0
    """Which images, and which views of them."""

    def __post_init__(self) -> None:
        choose("map", self.map, ("pca", "umap", "tsne"))
        PairSettings(images=self.images, seed=self.seed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run as far as it can be looked at."""

    name: str
    path: Path
    config: Config
    rows: list[dict[str, Any]]
    """Lines of metrics."""
    results: list[Result]
    """Of `amcl evaluate`."""
    starts: list[dict[str, Any]]
    """The environment of each start."""
    sample: PairSample | None
    missing: str = ""
    """Why there is no sample."""

    @property
    def ended(self) -> bool:
        """Whether it was trained to its end."""
        return RunFolder(self.path).backbone.is_file()

    @property
    def epochs(self) -> int:
        """Whole epochs that were trained."""
        return max((row["epoch"] for row in self.of("epoch")), default=0)

    @property
    def heads(self) -> int:
        """C; 0 for a method without heads."""
        return self.config.method.heads if isinstance(self.config.method, HeadSettings) else 0

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Lines of metrics of one kind: step, epoch, or probe."""
        return [row for row in self.rows if row["kind"] == kind]

    def describe(self) -> str:
        """Method, heads, temperature, backbone and data in a line."""
        method, backbone = self.config.method, self.config.backbone
        parts = [method.name]
        if isinstance(method, HeadSettings):
            parts += [f"{method.heads} head{'s' * (method.heads > 1)}"]
            parts += [f"{method.temperature} temperature"]
        width = f" ×{backbone.width:g}" if backbone.width != 1 else ""
        line = ", ".join([*parts, f"{backbone.backbone}{width}", f"data {self.config.data.name}"])
        return line if self.sample is None else f"{line}; {len(self.sample)} {self.sample.source}"


def read_runs(paths: Sequence[str | Path], settings: ReportSettings) -> list[Run]:
    """All runs, in the order given, each once."""
    folders = [Path(path).expanduser() for path in paths]
    if not folders:
        raise ValueError("name the run to report on: amcl report RUN …")
    known = [folder.resolve() for folder in folders]
    for folder, place in zip(folders, known, strict=True):
        if known.count(place) > 1:
            raise ValueError(f"{folder} is given twice: leave one out.")
    return [_read(*both, settings) for both in zip(folders, names_of(known), strict=True)]


def names_of(folders: Sequence[Path]) -> list[str]:
    """The last part of each path, or as many as tell them apart.

    >>> names_of([Path("/a/first"), Path("/a/second")])
    ['first', 'second']
    >>> names_of([Path("/a/x/0"), Path("/a/y/0")])
    ['x/0', 'y/0']
    """
    for count in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = [os.sep.join(folder.parts[-count:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]


def beside(runs: Sequence[Run], make: Callable[[Run], Sequence[Block]]) -> list[Block]:
    """The blocks of one run, or those of several side by side below their names.

    Runs of which there is nothing to show have no column.
    """
    if len(runs) == 1:
        return list(make(runs[0]))
    columns = [(run.name, blocks) for run in runs if (blocks := make(run))]
    return [Beside(columns)] if columns else []


def joined(
    runs: Sequence[Run],
    header: Sequence[str],
    rows_of: Callable[[Run], Sequence[Sequence[str]]],
    caption: str = "",
    left: int = 1,
) -> list[Block]:
    """One table of the rows of all runs, named where there are several; nothing without rows."""
    if len(runs) == 1:
        rows = list(rows_of(runs[0]))
    else:
        header, left = ("run", *header), left + 1
        rows = [(run.name, *row) for run in runs for row in rows_of(run)]
    return [Table(header, rows, caption, left)] if rows else []


def in_rows(charts: Sequence[Chart], stacked: bool) -> list[Block]:
    """Charts two by two, or one below the other where there is a column for them."""
    if stacked:
        return list(charts)
    return [Beside([("", [c]) for c in charts[i : i + 2]]) for i in range(0, len(charts), 2)]


def _read(path: Path, name: str, settings: ReportSettings) -> Run:
    folder = RunFolder(path)
    config = folder.read_config()
    sample, missing = _look(path, settings)
    starts = path / "environment.jsonl"
    lines = starts.read_text(encoding="utf-8").splitlines() if starts.is_file() else []
    return Run(
        name=name,
        path=path,
        config=config,
        rows=read_metrics(path) if folder.metrics.is_file() else [],
        results=read_results(path),
        starts=[json.loads(line) for line in lines],
        sample=sample,
        missing=missing,
    )


def _look(path: Path, settings: ReportSettings) -> tuple[PairSample | None, str]:
    """The sample of a run, or why there is none: its images or its checkpoint may be gone."""
    pairs = PairSettings(images=settings.images, seed=settings.seed)
    where = {"data": settings.data, "data_root": settings.data_root}
    try:
        return sample_of_run(path, pairs, **where), ""
    except (RunError, ValueError, OSError) as error:
        if any(where.values()):  # what was asked for is told at once if it cannot be had
            raise
        return None, str(error)
