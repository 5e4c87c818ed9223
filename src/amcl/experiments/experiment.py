"""An experiment: its runs are carried out, its tables filled and its page written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from amcl.experiments.cases import Part
from amcl.experiments.filled import numbers_table
from amcl.experiments.page import ExperimentPage, Topic, check_free, topic_of
from amcl.experiments.runs import RunPool
from amcl.sweep.workers import Tell


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Tables of runs.

    Args:
        title: Heading of the page.
        subtitle: A line below it.
        parts: The tables.
        pool: Where their runs are, and how they are judged.
        seeds: Seeds of the runs.
        command: The command that repeats or resumes it.
        more: Returns sections behind the tables.
    """

    title: str
    subtitle: str
    parts: Sequence[Part]
    pool: RunPool
    seeds: Sequence[int]
    command: str
    more: Callable[[], list[Topic]] = list

    def carry_out(self, folder: Path, *, jobs: int, again: bool, tell: Tell) -> Path:
        """Carry out the runs that are missing and write the page.

        Args:
            folder: Folder of the page.
            jobs: Number of runs at once.
            again: Whether to repeat runs that diverged or failed.
            tell: Takes a line for each run that ended.

        Returns:
            The path of the page; Markdown, CSV and PNG lie beside it.
        """
        check_free(folder)
        filled, judged = self.pool.fill(
            self.parts, self.seeds, jobs=jobs, again=again, resume=self.command, tell=tell
        )
        config = self.parts[0].cases[0].config
        points = self.pool.points(self.parts, self.seeds)
        images = next((f"{m.images:,} " for f in filled for m in f.measurements if m.images), "")
        facts = [
            ("images", ", ".join(dict.fromkeys(point.config.data.name for point in points))),
            ("backbone", f"{config.backbone.name} ×{config.backbone.width:g}"),
            ("epochs", str(config.run.epochs)),
            ("seeds", str(len(self.seeds))),
            ("runs", str(len(points))),
            ("judged on", f"{images}{judged}"),
        ]
        page = ExperimentPage(
            title=self.title,
            subtitle=self.subtitle,
            topics=[*map(topic_of, filled), *self.more()],
            numbers=numbers_table(filled),
            command=self.command,
            facts=[(name, value) for name, value in facts if value],
            config=config.to_toml(),
        )
        return page.write(folder)
