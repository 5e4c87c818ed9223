"""The folder of a sweep, and the study that holds its runs."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from amcl.config import Config
from amcl.config.fields import differing
from amcl.errors import RunError
from amcl.evaluation import PROTOCOLS
from amcl.files import write_text
from amcl.results import Record
from amcl.settings import choose
from amcl.sweep.engine import Trials
from amcl.sweep.evaluate import SPLITS, Split
from amcl.sweep.grid import Point, unnamed_differences
from amcl.sweep.storage import FILE, without_password
from amcl.sweep.study_folder import StudyFolder
from amcl.text_files import read_json, require, to_json

if TYPE_CHECKING:
    import optuna

DEFINITION = {"kind": "sweep"}
_POINT = "run "  # begins the name of the attribute of the study that holds a run's settings


class SweepFolder(StudyFolder):
    """The files of a sweep.

    `study.db` is its study, which holds the settings and the records of all runs; `sweep.json`
    names another storage of the study, if there is one, and the protocols. `runs` holds the run
    folders; `runs.csv` and `table.md` are made from the records.

    Args:
        path: The folder.
        storage: Address of the database with its password; "" for the one that the folder names.
        study: Name of the study in it; None for the one that the folder names.

    Example:
        >>> from pathlib import Path
        >>> SweepFolder(Path("sweeps/tau")).run("tau=0.1,seed=0")
        PosixPath('sweeps/tau/runs/tau=0.1,seed=0')
    """

    LISTING = "sweep.json"
    RUNS = "runs"

    @cached_property
    def study(self) -> "optuna.Study":
        """The study, created if there is none."""
        return self.open(DEFINITION)

    def read_points(self) -> list[Point]:
        """Return the runs of the sweep, whether they have ended or not."""
        if not self.exists():
            raise RunError(f"{self.path} is no folder of a sweep: it has no {self.listing.name}.")
        if not self.address[0] and not (self.path / FILE).is_file():
            return []
        attributes = self.study.user_attrs.items()
        entries = [entry for name, entry in attributes if name.startswith(_POINT)]
        require(entries, list[_Entry], f"the storage of {self.path}")
        return [
            Point(values=entry["values"], config=Config.from_toml(entry["config"]))
            for entry in sorted(entries, key=lambda entry: entry["order"])
        ]

    def read_protocols(self) -> tuple[tuple[str, ...], Split]:
        """Return the protocols that last evaluated the runs, and the split."""
        listing = self.read_listing()
        return tuple(listing["protocols"]), listing["split"]

    def add(
        self,
        points: Sequence[Point],
        protocols: Sequence[str] = (),
        split: Split = "validation",
    ) -> list[Point]:
        """Create the folder, or add runs to it, and return all of its runs.

        The settings of a run that has started must be the same, but for its hardware.
        """
        self._check_free()
        storage, study = self.address
        if storage:
            _ = self.study  # an error of the storage comes before anything is written here
        stored = {point.name: point for point in self.read_points()} if self.exists() else {}
        self._check_fit(stored, points)
        listing = {
            "storage": without_password(storage),
            "study": study,
            "protocols": list(protocols),
            "split": split,
        }
        write_text(self.listing, to_json(listing) + "\n")
        for point in points:
            if stored.get(point.name) != point:
                order = [*stored, point.name].index(point.name)
                entry = {"order": order, "values": point.values, "config": point.config.to_toml()}
                self.study.set_user_attr(f"{_POINT}{point.name}", entry)
                stored[point.name] = point
        return list(stored.values())

    def records(self, points: Sequence[Point] | None = None) -> list[Record]:
        """Return the records of the runs that have ended, in the order of the sweep.

        Args:
            points: Runs to read; None for all.
        """
        records = Trials(self.study).records()
        return [
            replace(
                records[point.name],
                values=point.values,
                seed=point.config.run.seed,
                path=self.run(point.name),
            )
            for point in (self.read_points() if points is None else points)
            if point.name in records
        ]

    def _check_free(self) -> None:
        """Raise an error if something else is here; hidden files do not count."""
        if not self.path.exists() or self.exists():
            return
        files = self.path.iterdir() if self.path.is_dir() else [self.path]
        if any(not file.name.startswith(".") for file in files):
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")

    def _check_fit(self, stored: dict[str, Point], points: Sequence[Point]) -> None:
        """Raise an error if a run started with other settings, or differs from others."""
        trials = Trials(self.study) if stored else None
        started = [
            point
            for name, point in stored.items()
            if self.run(name).exists()
            or (trials is not None and (trials.ended(name) or trials.in_state(name, "RUNNING")))
        ]
        for point in points:
            before = stored.get(point.name)
            if before is not None and not differing(before.config, point.config):
                continue
            for other in started:
                same = other.name == point.name
                if same:
                    changed = differing(other.config, point.config)
                else:
                    changed = unnamed_differences(other, point)
                if changed:
                    whose = "it" if same else other.name
                    raise RunError(
                        f"{self.path} holds runs of other settings: {point.name} would differ in "
                        f"{', '.join(changed)} from what {whose} began with. Give the settings of "
                        f"{self.run(other.name) / 'config.toml'}, in a sweep make {changed[0]} an "
                        "axis of the grid, or choose another folder with --out."
                    )

    def read_listing(self) -> dict[str, Any]:
        """Return the contents of `sweep.json`."""
        # Without a study, the same grid still resumes the folders of its runs.
        listing = {"storage": "", "study": self.path.resolve().name}
        try:
            listing |= read_json(self.listing)
            require(listing, _Listing, self.listing)
        except ValueError as error:
            raise RunError(str(error)) from None
        try:
            for protocol in listing["protocols"]:
                PROTOCOLS[protocol]
            choose("split", listing["split"], SPLITS)
        except ValueError as error:
            raise RunError(f"{self.listing} is damaged: {error}") from None
        return listing


class _Entry(TypedDict):
    """A run in the storage."""

    order: int
    values: dict[str, str]
    config: str


class _Listing(TypedDict):
    """Content of `sweep.json`."""

    storage: str
    study: str
    protocols: list[str]
    split: str
