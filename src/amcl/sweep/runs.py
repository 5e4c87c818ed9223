"""Sweeps: many runs, each once, whatever interrupts them."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from amcl.evaluation import PROTOCOLS, Protocol, Protocols
from amcl.files import write_text
from amcl.settings import choose, whole_number
from amcl.sweep.folder import Finding, SweepFolder
from amcl.sweep.grid import Point
from amcl.sweep.judge import SPLITS, Split, check_split, judge
from amcl.sweep.outcome import carry_out, reason_of
from amcl.sweep.table import csv_text, line, markdown
from amcl.sweep.workers import Tell, for_workers, work_together
from amcl.training import Interrupted


def sweep(
    points: Sequence[Point],
    out: str | Path,
    *,
    jobs: int = 1,
    protocols: Sequence[Protocol] = (),
    split: Split = "validation",
    settings: Protocols | None = None,
    again: bool = False,
    others: bool = True,
    tell: Tell = print,
) -> list[Finding]:
    """Carry out runs, each once, and judge each by `protocols` on `split`.

    The same call goes on where another stopped, and new points join those of the folder. `jobs`
    processes share the work, here or on machines that share the folder. `settings`: those of the
    protocols; None: as `amcl evaluate` has them. `again`: take up runs that diverged or failed.
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
    work = partial(_work, folder, points, tuple(protocols), split, settings)
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
        everything = folder.findings(known)
        write_text(folder.path / "runs.csv", csv_text(everything))
        write_text(folder.path / "table.md", markdown(everything))
    if left := len(points) - len(found):
        tell(f"{left} of {len(points)} runs are with another process: the table is without them.")
    return found


def _work(
    folder: SweepFolder,
    points: Sequence[Point],
    protocols: tuple[Protocol, ...],
    split: Split,
    settings: Protocols | None,
    tell: Tell,
) -> None:
    """One run after the other, as far as nobody else is at it."""
    for point in points:
        with folder.claim(point.name) as mine:
            known = folder.finding(point)
            if not mine or not _missing(known, protocols, split):
                continue
            found = _find(folder, point, known, protocols, split, settings)
            folder.keep(found)
        tell(f"{len(folder.findings(points))}/{len(points)}  {line(found)}")


def _missing(known: Finding | None, protocols: tuple[Protocol, ...], split: Split) -> bool:
    """Whether something is left to do for a run."""
    if known is None or known.ending in ("diverged", "failed"):
        return known is None
    return any(not _judged(known, protocol, split) for protocol in protocols)


def _judged(known: Finding, protocol: Protocol, split: Split) -> bool:
    """Whether a run has been judged by a protocol on a split."""
    splits = ("test", "validation") if split == "auto" else (split,)
    return any(f"{protocol} {each}" in known.results for each in splits)


def _find(
    folder: SweepFolder,
    point: Point,
    known: Finding | None,
    protocols: tuple[Protocol, ...],
    split: Split,
    settings: Protocols | None,
) -> Finding:
    """Train, if that is to be done, and judge by what has not been judged by yet."""
    run = folder.run(point.name)
    outcome = carry_out(point.config, run)
    results = dict(known.results) if known else {}
    if outcome.ending in ("complete", "collapsed"):
        new = [p for p in protocols if known is None or not _judged(known, p, split)]
        try:
            results |= judge(point.config, run, new, split, settings)
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
