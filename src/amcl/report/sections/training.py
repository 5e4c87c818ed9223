"""The course of training: loss and probes."""

import math
import shlex
from collections.abc import Sequence
from typing import Any

from amcl.checkpoints.run_folder import RunFolder
from amcl.report.blocks import Block, Chart, Note, Paragraph, Section
from amcl.report.runs import Run, in_rows
from amcl.results.charts import Line, curves
from amcl.results.formatting import plural

HOW = (
    "The loss should fall and level off. Probes look at the backbone's features along the way: kNN "
    "accuracy, where there are labels; the effective rank, which is how many directions the "
    "features make use of; and the spread, which is 0 if all images look the same to the backbone: "
    "the features have then collapsed."
)
_PROBES = {
    "knn_validation": ("kNN accuracy, validation (%)", 100, 5.0),
    "knn_test": ("kNN accuracy, test (%)", 100, 5.0),
    "effective_rank": ("effective rank", 1, 5.0),
    "spread": ("spread", 1, 0.1),
}
"""Label of each probe, its scale, and the least length of its axis."""


def training(runs: Sequence[Run]) -> Section:
    """Return curves of loss and probes, a line for each run, and notes on the runs."""
    blocks: list[Block] = [note for run in runs for note in _notes(run)]
    charts = _losses(runs)
    for name, (label, scale, span) in _PROBES.items():
        lines = [Line(run.name, _probes(run, name, scale), i) for i, run in enumerate(runs)]
        charts += _chart(lines, "epoch", label, span)
    blocks += in_rows(charts, stacked=False)
    if not any(name.startswith("knn") for run in runs for row in run.rows for name in row):
        blocks.append(Paragraph(_why_no_knn(runs)))
    return Section("Training", blocks, HOW)


def _chart(lines: Sequence[Line], x: str, y: str, span: float = 0.0) -> list[Chart]:
    """Return a chart with a line for each run that has points; nothing if none has."""
    drawn = [line for line in lines if line.finite_points]
    if not drawn:
        return []
    ends = [
        f"{line.label} from {line.finite_points[0][1]:.4g} to {line.finite_points[-1][1]:.4g}"
        for line in drawn
    ]
    return [Chart(curves(drawn, x, y, span=span), f"{y} by {x}: {'; '.join(ends)}")]


def _losses(runs: Sequence[Run]) -> list[Chart]:
    """Return losses by epoch, or by step before the first has ended; a chart for each method."""
    kind = "epoch" if any(run.of("epoch") for run in runs) else "step"
    methods = dict.fromkeys(run.config.method.name for run in runs)
    charts = []
    for method in methods:
        lines = [
            Line(run.name, [(row[kind], row["loss"]) for row in run.of(kind)], i)
            for i, run in enumerate(runs)
            if run.config.method.name == method
        ]
        label = f"loss of {method}" if len(methods) > 1 else "loss"
        charts += _chart(lines, kind, label)
    return charts


def _probes(run: Run, name: str, scale: float) -> list[tuple[float, float]]:
    return [(row["epoch"], scale * row[name]) for row in run.of("probe") if name in row]


def _notes(run: Run) -> list[Block]:
    notes: list[Block] = []
    if not run.rows:
        notes.append(Note(f"{run.name} has no metrics yet, and so no curves."))
    if not run.ended:
        total = run.config.run.epochs
        resume = f"amcl pretrain --resume {shlex.quote(str(run.path))}"
        newest = "" if run.sample is None else ", and what is shown is its newest checkpoint"
        notes.append(
            Note(
                f"{run.name} has not ended: {run.epochs} of {total} epochs are done{newest}. "
                f"Resume it: `{resume}`"
            )
        )
    if run.sample is None:
        notes.append(
            Note(
                f"Of {run.name}, the pictures of pairs, heads, neighbors and the map are missing: "
                f"{run.missing}"
            )
        )
    elif run.sample.unreadable:
        path, reason = run.sample.unreadable[0]
        count = len(run.sample.unreadable)
        notes.append(
            Note(
                f"{run.name}: {plural(count, 'image')} could not be read, such as {path}: {reason}"
            )
        )
    if any(_not_finite(row) for row in run.rows):
        notes.append(Note(f"{run.name}: some losses are not finite, and left out of the curves."))
    if RunFolder(run.path).first_stage.config.is_file():
        stage = shlex.quote(str(RunFolder(run.path).first_stage.path))
        notes.append(
            Paragraph(f"The first stage of {run.name} is a run too: `amcl report {stage}`")
        )
    return notes


def _not_finite(row: dict[str, Any]) -> bool:
    return "loss" in row and not math.isfinite(row["loss"])


def _why_no_knn(runs: Sequence[Run]) -> str:
    if not any(run.of("probe") for run in runs):
        every = min(run.config.run.probe_every for run in runs)
        return f"There is no probe yet: the first comes after {every} epochs (`--probe-every`)."
    return (
        "There is no accuracy here, as the images have no labels in use. The effective rank and "
        "the spread need none."
    )
