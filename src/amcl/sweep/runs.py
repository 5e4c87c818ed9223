"""Sweeps: many runs, each once, whatever interrupts them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from amcl.evaluation import PROTOCOLS, Protocol, Protocols
from amcl.files import write_text
from amcl.results.record import Record
from amcl.settings import choose, whole_number
from amcl.sweep.folder import Finding, SweepFolder
from amcl.sweep.grid import Point
from amcl.sweep.judge import SPLITS, Split, check_split, judge, splits_for
from amcl.sweep.outcome import carry_out, reason_of
from amcl.sweep.table import line, runs_table, table
from amcl.sweep.workers import Tell, for_workers, work_together
from amcl.training import Interrupted

Wanted = Mapping[Protocol, Sequence[str]]


def sweep(
    points: Sequence[Point],
    out: str | Path,
    *,
    jobs: int = 1,
    protocols: Sequence[Protocol] = (),
    split: Split = "validation",
    settings: Protocols | None = None,
    wanted: Wanted | None = None,
    again: bool = False,
    others: bool = True,
    tell: Tell = print,
) -> list[Record]:
    """Carry out runs, each once, and judge each by `protocols` on `split`.

    The same call goes on where another stopped, and new points join those of the folder. `jobs`
    processes share the work, here or on machines that share the folder. `settings`: those of the
    protocols; None: as `amcl evaluate` has them. `wanted`: metrics that a protocol must have found,
    else it judges again. `again`: take up runs that diverged or failed.
    Returns what was found of all runs of the folder, in their order; without `others`, those of the
    folder that are not among `points` are left alone. A script that asks for several jobs needs
    `if __name__ == "__main__":` around what it does.
    """
    whole_number("jobs", jobs)
    choose("split", split, SPLITS)
    for protocol in protocols:
        choose("protocol", protocol, PROTOCOLS)
    points = [Point(values=p.values, config=for_workers(p.config)) for p in points]
    for point in points if protocols else ():
        check_split(point.config, split)
    folder = SweepFolder(Path(out))
    known = folder.add(points, protocols, split)
    asked = {point.name for point in points}
    points = [point for point in known if others or point.name in asked]
    if again:
        folder.forget(points, ("failed", "diverged"))
    asked_of = _Judging(tuple(protocols), split, settings, wanted or {})
    work = partial(_work, folder, points, asked_of)
    try:
        work_together(work, jobs, tell, folder.path / "logs")
    except Interrupted as stopped:
        left = len(points) - len(folder.findings(points))
        raise Interrupted(
            f"stopped with {left} of {len(points)} runs to go, everything is saved. Go on with: "
            f"amcl sweep --out {shlex.quote(str(folder.path))}",
            stopped.exit_code - 128,
        ) from stopped
    finally:
        found = folder.findings(points)
        everything = [finding.record for finding in folder.findings(known)]
        write_text(folder.path / "runs.csv", runs_table(everything).to_csv())
        write_text(folder.path / "table.md", table(everything).to_markdown())
    if left := len(points) - len(found):
        tell(f"{left} of {len(points)} runs are with another process: the table is without them.")
    return [finding.record for finding in found]


def _work(
    folder: SweepFolder,
    points: Sequence[Point],
    judging: "_Judging",
    tell: Tell,
) -> None:
    """One run after the other, as far as nobody else is at it."""
    for point in points:
        with folder.claim(point.name) as mine:
            known = folder.finding(point)
            if not mine or not judging.left(known):
                continue
            found = _find(folder, point, known, judging)
            folder.keep(found)
        tell(f"{len(folder.findings(points))}/{len(points)}  {line(found.record)}")


@dataclass(frozen=True)
class _Judging:
    """By what runs are judged, on which split, and which metrics that must have found."""

    protocols: tuple[Protocol, ...]
    split: Split
    settings: Protocols | None
    wanted: Wanted

    def left(self, known: Finding | None) -> bool:
        """Whether something is left to do for a run."""
        if known is None or known.ending in ("diverged", "failed"):
            return known is None
        return bool(self.missing(known))

    def missing(self, known: Finding | None) -> list[Protocol]:
        """The protocols that have not found what they should."""
        return [p for p in self.protocols if known is None or not self._done(known, p)]

    def _done(self, known: Finding, protocol: Protocol) -> bool:
        judged = [f"{protocol} {split}" for split in splits_for(protocol, self.split)]
        found = [known.results[each] for each in judged if each in known.results]
        return any({*self.wanted.get(protocol, ())} <= metrics.keys() for metrics in found)


def _find(
    folder: SweepFolder,
    point: Point,
    known: Finding | None,
    judging: _Judging,
) -> Finding:
    """Train, if that is to be done, and judge by what has not been judged by yet."""
    run = folder.run(point.name)
    outcome = carry_out(point.config, run)
    results = dict(known.results) if known else {}
    if outcome.ending in ("complete", "collapsed"):
        new = judging.missing(known)
        try:
            found = judge(point.config, run, new, judging.split, judging.settings)
            for judged, metrics in found.items():
                results[judged] = {**results.get(judged, {}), **metrics}
        except (RuntimeError, MemoryError) as error:
            outcome = replace(outcome, ending="failed", reason=f"judging: {reason_of(error)}")
    return Finding(
        name=point.name,
        values=point.values,
        ending=outcome.ending,
        reason=outcome.reason,
        epoch=outcome.epoch,
        probe=outcome.probe,
        results=results,
    )
