"""Cost of runs, against one head with a constant temperature."""

import shlex
from collections.abc import Sequence
from statistics import median

from amcl.analysis.cost import channels_of, cost_of, cost_table, image_size_of
from amcl.backbones import stored_input
from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.errors import RunError
from amcl.recipes import as_published
from amcl.report.blocks import Block, Note, Paragraph, Section
from amcl.report.runs import Run
from amcl.results import Table
from amcl.results.formatting import MISSING

HOW = (
    "Heads and temperatures are there in training alone: the trained backbone costs the same. The "
    "baseline is the same configuration with one head and a constant temperature. FLOPs are two "
    "for each multiply-add of products, convolutions and attention; an image counts with all its "
    "views."
)


def cost(runs: Sequence[Run]) -> Section:
    """Return parameters and FLOPs by count, and throughput from the runs' own metrics."""
    reasons = {run.name: _reason(run) for run in runs}
    blocks: list[Block] = [Note(f"{name}: {why}") for name, why in reasons.items() if why]
    if counted := [run for run in runs if not reasons[run.name]]:
        blocks.append(_table(counted))
    baseline = len(runs) == 1 and _baseline(runs[0].config) == runs[0].config
    name = shlex.quote(str(runs[0].path))
    blocks.append(
        Paragraph(
            "Peak memory is not recorded in training. To measure it, with the time of a step "
            f"beside that of the baseline, on this machine: `amcl cost {name} --measure`"
        )
    )
    folded = (
        "The run has one head and a constant temperature: nothing is added." if baseline else ""
    )
    return Section("Cost", blocks, HOW, folded=folded)


def _table(runs: Sequence[Run]) -> Table:
    """Return the runs side by side; one run beside its baseline."""
    names = [run.name for run in runs]
    costs = [cost_of(run.config, *_input(run)) for run in runs]
    paces = [dict(_pace(run)) for run in runs]
    if len(runs) == 1:
        names = ["this run"]
        base = _baseline(runs[0].config)
        if base is not None and base != runs[0].config:
            names.insert(0, "baseline")
            costs.insert(0, cost_of(base, *_input(runs[0])))
            paces.insert(0, {})
    labels = dict.fromkeys(label for pace in paces for label in pace)
    more = {label: [pace.get(label, MISSING) for pace in paces] for label in labels}
    return cost_table(names, costs, more=more)


def _pace(run: Run) -> list[tuple[str, str]]:
    speeds = [row["images_per_second"] for row in run.of("epoch") if row["images_per_second"] > 0]
    if not speeds:
        return []
    speed = median(speeds)
    return [
        ("images a second, in training", f"{speed:,.0f}"),
        ("seconds a step, in training", f"{run.config.run.batch_size / speed:.3g}"),
    ]


def _baseline(config: Config) -> Config | None:
    return as_published(config) if config.method.has_heads else None


def _input(run: Run) -> tuple[int, int]:
    """Return pixels a side, and channels, of the views, also where the images are gone."""
    backbone = RunFolder(run.path).backbone
    if run.sample is not None:
        return int(run.sample.views.shape[-1]), run.sample.channels
    if backbone.is_file():
        stored = stored_input(backbone)
        if stored is not None:
            channels, size = stored
            return size, channels
    return image_size_of(run.config), channels_of(run.config)


def _reason(run: Run) -> str:
    """Return why a run cannot be counted, if the size of its images is unknown; else ""."""
    try:
        _input(run)
    except (RunError, ValueError, OSError) as error:
        return f"parameters and FLOPs are missing: {error}"
    return ""
