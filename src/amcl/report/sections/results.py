"""Results of evaluations."""

import shlex
from collections.abc import Sequence

from amcl.checkpoints.evaluations import Result, describe, format_metric
from amcl.report.blocks import Paragraph, Section
from amcl.report.runs import Run, beside, joined
from amcl.report.sections.classes import classes
from amcl.results.read import newest

HOW = (
    "The last word on a backbone: the tasks that its features serve. Numbers of different data "
    "or settings are not to be compared; `amcl compare` puts those side by side that are."
)


def results(runs: Sequence[Run]) -> Section:
    """Return a table of all results, and the commands for those that are missing."""
    table = joined(runs, ("protocol", "data", "result", "settings"), _rows, left=4)
    without = [run for run in runs if not run.results]
    commands = [f"`amcl evaluate {shlex.quote(str(run.path))}`" for run in without]
    missing = [Paragraph(f"Not evaluated yet. To do so: {command}") for command in commands]
    by_class = beside(runs, lambda run: classes(_current(run.results)))
    return Section("Evaluation", [*table, *by_class, *missing], HOW)


def _current(results: Sequence[Result]) -> list[Result]:
    """Return the results of the newest weights of the final model."""
    return [result for result in newest(results) if not result.checkpoint]


def _rows(run: Run) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    current = newest(run.results)
    for result in run.results:
        old = "" if result in current else " (older weights)"
        numbers = ", ".join(f"{name} {format_metric(result, name)}" for name in result.metrics)
        data = f"{result.data}, {result.split}"
        rows.append((result.protocol + old, data, numbers, describe(result).replace("\n", "; ")))
    return rows
