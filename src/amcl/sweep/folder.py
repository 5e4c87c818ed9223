"""The folder of a sweep: its runs, and what each came to."""

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from amcl.evaluation import PROTOCOLS, Protocol
from amcl.files import write_text
from amcl.results.record import Record
from amcl.settings import choose
from amcl.sweep.fields import differing
from amcl.sweep.grid import Point, unsaid
from amcl.sweep.judge import SPLITS, Split
from amcl.sweep.outcome import ENDINGS, Ending
from amcl.training import Config, RunError


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one run of a sweep came to."""

    name: str
    values: dict[str, str]
    ending: Ending
    reason: str = ""
    epoch: int | None = None
    probe: dict[str, float] = field(default_factory=dict)
    """What the last probe found."""
    results: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each protocol found on a split: {"linear test": {"top1": 0.5}}."""

    @property
    def metrics(self) -> dict[str, float]:
        """All of it: knn_validation of the probe, linear_top1_test."""
        found = dict(self.probe)
        for judged, metrics in self.results.items():
            protocol, split = judged.split()
            found |= {f"{protocol}_{name}_{split}": value for name, value in metrics.items()}
        return found

    @property
    def record(self) -> Record:
        """The same as a row of results."""
        return Record(
            name=self.name,
            status=self.ending,
            reason=self.reason,
            seed=int(self.values["seed"]) if "seed" in self.values else None,
            values=dict(self.values),
            metrics=self.metrics,
            epoch=self.epoch,
        )


class SweepFolder:
    """The files of a sweep.

    `sweep.json` lists its runs and what they are judged by, `configs` holds their settings, `runs`
    their folders, `findings` what each came to; `runs.csv` and `table.md` are made from those.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def listing(self) -> Path:
        return self.path / "sweep.json"

    def run(self, name: str) -> Path:
        return self.path / "runs" / name

    def exists(self) -> bool:
        """Whether there is a sweep here."""
        return self.listing.is_file()

    def read_points(self) -> list[Point]:
        """The runs of the sweep, ended or not."""
        runs = self._listed()["runs"]
        return [
            Point(values=values, config=Config.from_file(self._config(name)))
            for name, values in runs.items()
        ]

    def read_judged(self) -> tuple[tuple[Protocol, ...], Split]:
        """What the runs were last judged by, and on which split."""
        listed = self._listed()
        return tuple(listed["protocols"]), listed["split"]

    def add(
        self,
        points: Sequence[Point],
        protocols: Sequence[Protocol] = (),
        split: Split = "validation",
    ) -> list[Point]:
        """Make the folder, or add runs to it; all of its runs. None that began may have changed."""
        self._check_free()
        with self._alone():
            if not self.exists():  # first of all: what is killed now is a sweep that goes on
                self._list({}, protocols, split)
            known = {point.name: point for point in self.read_points()}
            begun = [point for name, point in known.items() if self._began(name)]
            for point in points:
                before = known.get(point.name)
                if before is None or differing(before.config, point.config):
                    self._check_fits(point, begun)
            known |= {point.name: point for point in points}  # hardware may change
            for point in points:
                write_text(self._config(point.name), point.config.to_toml())
            self._list(known, protocols, split)
        return list(known.values())

    def finding(self, point: Point) -> Finding | None:
        """What a run came to, if it has ended."""
        path = self._finding(point.name)
        if not path.is_file():
            return None
        try:
            found = Finding(**json.loads(path.read_text(encoding="utf-8")))
            choose("ending", found.ending, ENDINGS)
            if found.name != point.name:
                raise ValueError(f"it names the run {found.name!r}")
        except (ValueError, TypeError) as error:
            raise RunError(f"{path} is damaged ({error}): remove it, to find it anew.") from None
        return found

    def findings(self, points: Sequence[Point]) -> list[Finding]:
        """What those runs that have ended came to."""
        return [found for point in points if (found := self.finding(point)) is not None]

    def keep(self, finding: Finding) -> None:
        """Write down what a run came to."""
        text = json.dumps(asdict(finding), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(self._finding(finding.name), text + "\n")

    def forget(self, points: Sequence[Point], endings: Sequence[Ending]) -> None:
        """Take those runs that ended in one of these ways as not ended."""
        for point in points:
            found = self.finding(point)
            if found is not None and found.ending in endings:
                self._finding(point.name).unlink()

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Take a run for this process, if no other has it; it is let go even by a crash."""
        place = self.path / "claims" / f"{name}.lock"
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def _check_free(self) -> None:
        """An error if something else is here; hidden files do not count."""
        if not self.path.exists():
            return
        held = self.path.iterdir() if self.path.is_dir() else [self.path]
        if any(not each.name.startswith(".") for each in held) and not self.exists():
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")

    def _began(self, name: str) -> bool:
        return self.run(name).exists() or self._finding(name).exists()

    def _check_fits(self, point: Point, begun: Sequence[Point]) -> None:
        """An error if a run is here with other settings, or differs from others unsaid."""
        for other in begun:
            if other.name == point.name:
                changed, whose = differing(other.config, point.config), "it"
            else:
                changed, whose = unsaid(other, point), other.name
            if changed:
                raise RunError(
                    f"{self.path} holds runs of other settings: {point.name} would differ in "
                    f"{', '.join(changed)} from what {whose} began with. Give the settings of "
                    f"{self._config(other.name)}, in a sweep make {changed[0]} an axis of the "
                    "grid, or choose another folder with --out."
                )

    def _listed(self) -> dict[str, Any]:
        """What `sweep.json` says: the values of each run, protocols and split."""
        if not self.exists():
            raise RunError(f"{self.path} is no folder of a sweep: it has no {self.listing.name}.")
        try:
            listed = json.loads(self.listing.read_text(encoding="utf-8"))
            runs = {entry["name"]: dict(entry["values"]) for entry in listed["runs"]}
            for protocol in listed["protocols"]:
                choose("protocol", protocol, PROTOCOLS)
            choose("split", listed["split"], SPLITS)
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{self.listing} is damaged: {error!r}.") from None
        return {**listed, "runs": runs}

    def _list(
        self, points: Mapping[str, Point], protocols: Sequence[Protocol], split: Split
    ) -> None:
        runs = [{"name": name, "values": point.values} for name, point in points.items()]
        listed = {"protocols": list(protocols), "split": split, "runs": runs}
        write_text(self.listing, json.dumps(listed, indent=1, ensure_ascii=False) + "\n")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While it lasts, no other process changes what the sweep holds."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _config(self, name: str) -> Path:
        return self.path / "configs" / f"{name}.toml"

    def _finding(self, name: str) -> Path:
        return self.path / "findings" / f"{name}.json"
