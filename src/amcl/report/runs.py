"""The runs of a page: their metrics, results and samples of pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from amcl.analysis import (
    PairSample,
    PairSettings,
    PlaneMethod,
    Temperatures,
    sample_of_run,
    separations,
    temperatures,
)
from amcl.checkpoints.evaluations import Result, read_results
from amcl.checkpoints.run_folder import RunFolder, read_metrics
from amcl.config import Config
from amcl.data.display import Bands
from amcl.errors import RunError
from amcl.metrics.unlabeled import Separation
from amcl.report.blocks import Beside, Block, Chart
from amcl.results import Table
from amcl.results.formatting import MISSING
from amcl.results.read import run_folders, run_names
from amcl.settings import choose
from amcl.text_files import read_json_lines


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Settings of a report."""

    images: int = 500
    """Largest number of images that are looked at in pairs of views: of those that the run held
    out to probe with, else of those it was trained on."""
    map: PlaneMethod = "pca"
    """Projection of features onto a plane; umap and tsne need a package each."""
    data: str | None = None
    """The images, if they were moved, or other images; none: those of the run."""
    data_root: str | None = None
    """Folder of named sets; none: that of the run."""
    curation: tuple[Path, ...] = ()
    """Folders of amcl curate with these runs, whose pages are linked."""
    seed: int = 0
    """Seed of the choice of images and of their views."""
    bands: Bands | None = None
    """Channels that pictures show as red, green and blue, counted from 1; none: the first three,
    and gray where there are one or two. Values of more than 8 bits are stretched to be seen."""

    def __post_init__(self) -> None:
        choose("map", self.map, ("pca", "umap", "tsne"))
        PairSettings(images=self.images, seed=self.seed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run with all that a page shows of it."""

    name: str
    """Name on the page."""
    path: Path
    """Folder of the run."""
    config: Config
    """Configuration of the run."""
    rows: list[dict[str, Any]]
    """Lines of metrics."""
    results: list[Result]
    """Results of `amcl evaluate`."""
    starts: list[dict[str, Any]]
    """The environment of each start."""
    sample: PairSample | None
    """Pairs of views; None if images or checkpoint are missing."""
    missing: str = ""
    """Reason why there is no sample."""

    @property
    def ended(self) -> bool:
        """True if it was trained to its end."""
        return RunFolder(self.path).backbone.is_file()

    @property
    def epochs(self) -> int:
        """Number of whole epochs that were trained."""
        return max((row["epoch"] for row in self.of("epoch")), default=0)

    @property
    def heads(self) -> int:
        """Number of heads; 0 for a method without heads."""
        method: Any = self.config.method
        return method.heads if method.has_heads else 0

    @cached_property
    def separations(self) -> dict[str, Separation]:
        """Separation of pairs after the heads and after the backbone; none without a sample."""
        return {} if self.sample is None else separations(self.sample)

    @cached_property
    def temperatures(self) -> Temperatures | None:
        """Statistics of the temperatures; None without a sample or without heads."""
        if self.sample is None or not self.sample.num_heads:
            return None
        return temperatures(self.sample)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of metrics of one kind: step, epoch, or probe."""
        return [row for row in self.rows if row["kind"] == kind]

    def describe(self) -> str:
        """Return method, heads, temperature, backbone and data in a line."""
        backbone = self.config.backbone
        width = f" ×{backbone.width:g}" if backbone.width != 1 else ""
        parts = [self.config.method.describe(), f"{backbone.name}{width}"]
        line = ", ".join([*parts, f"data {self.config.data.name}"])
        return line if self.sample is None else f"{line}; {len(self.sample)} {self.sample.source}"


def read_runs(paths: Sequence[str | Path], settings: ReportSettings) -> list[Run]:
    """Return all runs, in the order given, each once."""
    folders = run_folders(paths, "amcl report")
    names = run_names(folders)
    return [_read(path, name, settings) for path, name in zip(folders, names, strict=True)]


def beside(runs: Sequence[Run], make: Callable[[Run], Sequence[Block]]) -> list[Block]:
    """Return the blocks of one run, or those of several side by side below their names.

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
    """Return one table of the rows of all runs, with their names if they are several.

    Columns of numbers that no row has are left out.
    """
    if len(runs) == 1:
        rows = list(rows_of(runs[0]))
    else:
        header = ("run", *header)
        left += 1
        rows = [(run.name, *row) for run in runs for row in rows_of(run)]
    kept = [i for i in range(len(header)) if i < left or any(row[i] != MISSING for row in rows)]
    table = [tuple(row[i] for i in kept) for row in [header, *rows]]
    return [Table(table[0], table[1:], caption, left)] if rows else []


def in_rows(charts: Sequence[Chart], stacked: bool) -> list[Block]:
    """Return charts two by two, or one below the other where there is a column for them."""
    if stacked:
        return list(charts)
    return [Beside([("", [c]) for c in charts[i : i + 2]]) for i in range(0, len(charts), 2)]


def _read(path: Path, name: str, settings: ReportSettings) -> Run:
    folder = RunFolder(path)
    config = folder.read_config()
    sample, missing = _sample(path, settings)
    starts = path / "environment.jsonl"
    return Run(
        name=name,
        path=path,
        config=config,
        rows=read_metrics(path) if folder.metrics.is_file() else [],
        results=read_results(path),
        starts=read_json_lines(starts) if starts.is_file() else [],
        sample=sample,
        missing=missing,
    )


def _sample(path: Path, settings: ReportSettings) -> tuple[PairSample | None, str]:
    """Return the sample of a run, or the reason why its images or its checkpoint are missing."""
    pairs = PairSettings(images=settings.images, seed=settings.seed, bands=settings.bands)
    source = {"data": settings.data, "data_root": settings.data_root}
    try:
        return sample_of_run(path, pairs, **source), ""
    except (RunError, ValueError, OSError) as error:
        if (
            any(source.values()) or settings.bands is not None
        ):  # an option that cannot be met is an error
            raise
        return None, str(error)
