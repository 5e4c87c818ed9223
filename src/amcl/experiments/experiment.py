"""Experiments: their runs are carried out, their tables filled and their pages written."""

from collections.abc import Callable, Sequence
from pathlib import Path

from amcl.experiments.filled_table import numbers_table
from amcl.experiments.page import Topic, check_free, topic_of, write_page
from amcl.experiments.runs import SharedRuns
from amcl.experiments.specs import TableSpec
from amcl.sweep.workers import Tell


def run_experiment(
    specs: Sequence[TableSpec],
    runs: SharedRuns,
    seeds: Sequence[int],
    folder: Path,
    *,
    title: str,
    subtitle: str,
    command: str,
    more_topics: Callable[[], list[Topic]] = list,
    jobs: int,
    again: bool,
    tell: Tell,
) -> Path:
    """Carry out the runs that are missing and write the page of an experiment.

    Args:
        specs: The tables.
        runs: Folder of their runs, and the way they are evaluated.
        seeds: Seeds of the runs.
        folder: Folder of the page.
        title: Heading of the page.
        subtitle: A line below it.
        command: The command that repeats or resumes the experiment.
        more_topics: Function that returns sections behind the tables.
        jobs: Number of runs at once.
        again: Whether to repeat runs that diverged or failed.
        tell: Function that prints a line for each run that ended.

    Returns:
        The path of the page; Markdown, CSV and PNG are beside it.
    """
    check_free(folder)
    tables, judged = runs.fill(specs, seeds, jobs=jobs, again=again, resume=command, tell=tell)
    config = specs[0].cells[0].config
    points = runs.points(specs, seeds)
    images = next(
        (f"{m.images:,} " for table in tables for m in table.measurements if m.images), ""
    )
    facts = {
        "images": ", ".join(dict.fromkeys(point.config.data.name for point in points)),
        "backbone": f"{config.backbone.name} ×{config.backbone.width:g}",
        "epochs": str(config.run.epochs),
        "seeds": str(len(seeds)),
        "runs": str(len(points)),
        "judged on": f"{images}{judged}",
    }
    return write_page(
        folder,
        title=title,
        subtitle=subtitle,
        topics=[*map(topic_of, tables), *more_topics()],
        numbers=numbers_table(tables),
        command=command,
        facts=[(name, value) for name, value in facts.items() if value],
        config=config.to_toml(),
    )
