"""What evaluations have found."""

import shlex
from collections.abc import Sequence

from amcl.evaluation.results import Result, how, spelled
from amcl.report.blocks import Paragraph, Section
from amcl.report.runs import Run, beside, joined
from amcl.report.sections.classes import classes

HOW = (
    "The last word on a backbone: what others can do with its features. Numbers of different data "
    "or settings are not to be compared; `amcl compare` puts those side by side that are."
)


def results(runs: Sequence[Run]) -> Section:
    """A table of all results, and how to get those that are missing."""
    table = joined(runs, ("protocol", "data", "found", "how"), _rows, left=4)
    without = [run for run in runs if not run.results]
    commands = [f"`amcl evaluate {shlex.quote(str(run.path))}`" for run in without]
    missing = [Paragraph(f"Not judged yet. To do so: {command}") for command in commands]
    by_class = beside(runs, lambda run: classes(_current(run.results)))
    return Section("Evaluation", [*table, *by_class, *missing], HOW)


def _current(results: Sequence[Result]) -> list[Result]:
    """Those of the weights that were judged last, of a run's own model."""
    own = [result for result in results if not result.checkpoint]
    return [result for result in own if not _is_old(result, own)]


def _rows(run: Run) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for result in run.results:
        old = " (older weights)" if _is_old(result, run.results) else ""
        found = ", ".join(f"{name} {spelled(result, name)}" for name in result.metrics)
        on, told = f"{result.data}, {result.split}", how(result).replace("\n", "; ")
        rows.append((result.protocol + old, on, found, told))
    return rows


def _is_old(result: Result, others: Sequence[Result]) -> bool:
    """Whether the same model has been judged again since, with other weights."""
    same = [other for other in others if other.checkpoint == result.checkpoint]
    return result.model.get("sha256") != same[-1].model.get("sha256")
