"""Files of an experiment: a page, Markdown, CSV and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from amcl.analysis import PairSample, separations
from amcl.drawing import save_png
from amcl.environment import environment
from amcl.errors import RunError
from amcl.experiments.charts import chart, gains_chart, histograms
from amcl.experiments.conclusions import conclusion_of
from amcl.experiments.filled_table import FilledTable
from amcl.files import write_text
from amcl.report import Beside, Block, Chart, Code, Note, Page, Paragraph, Section
from amcl.report.page import check_replaceable
from amcl.report.sections.galleries import pair_galleries
from amcl.results import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAIRS = 6  # pairs of each kind to look at


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A section of the page, with its pictures as files.

    Args:
        name: Anchor of the section.
        title: Its heading.
        how_to_read: A sentence or two below the heading.
        blocks: Its pictures.
        conclusion: The numbers in words, and how much they rest on.
        table: Its table.
        notes: Sentences below the table.
        pictures: Figures that become files, by name.
    """

    name: str
    title: str
    how_to_read: str
    blocks: tuple[Block, ...]
    conclusion: str = ""
    table: Table | None = None
    notes: tuple[str, ...] = ()
    pictures: dict[str, "Figure"] = field(default_factory=dict)

    def section(self) -> Section:
        """Return the section of the page."""
        blocks: list[Block] = [Paragraph(self.conclusion)] if self.conclusion else []
        blocks += self.blocks
        blocks += [self.table] if self.table else []
        blocks += [Note(note) for note in self.notes]
        return Section(self.title, blocks, note=self.how_to_read, anchor=self.name)

    def markdown(self) -> list[str]:
        """Return paragraphs in Markdown."""
        paragraphs = [f"## {self.title}", self.how_to_read, self.conclusion]
        if self.table is not None:
            paragraphs += [self.table.to_markdown().rstrip(), self.table.caption]
        paragraphs += [f"Note: {note}" for note in self.notes]
        return [*paragraphs, *(f"![{name}]({name}.png)" for name in self.pictures)]


def write_page(
    folder: Path,
    *,
    title: str,
    subtitle: str,
    topics: Sequence[Topic],
    numbers: Table,
    command: str,
    facts: Sequence[tuple[str, str]] = (),
    config: str = "",
) -> Path:
    """Write the page of an experiment, with Markdown, CSV and PNG beside it.

    Args:
        folder: Folder of these files alone.
        title: Heading of the page.
        subtitle: A line below it.
        topics: Sections of the page.
        numbers: All numbers in full.
        command: The command that repeats the experiment.
        facts: Names and values at the top of the page.
        config: Settings that all runs start from, in TOML.

    Returns:
        The path of the page.
    """
    check_free(folder)
    versions = ", ".join(f"{name} {value}" for name, value in environment().items() if value)
    repeat: list[Block] = [Paragraph(f"`{command}`")]
    if config:
        repeat.append(Code(config, "settings that all runs start from"))
    repeat.append(Code(versions, "versions and machine"))
    sections = [*(topic.section() for topic in topics), Section("To repeat it", repeat)]
    page = Page(title=title, subtitle=subtitle, sections=sections, facts=facts)
    path = page.write(folder / "index.html")
    write_text(folder / "numbers.csv", numbers.to_csv())
    paragraphs = [f"# {title}", subtitle, f"`{command}`"]
    paragraphs += [paragraph for topic in topics for paragraph in topic.markdown()]
    write_text(folder / "table.md", "\n\n".join(filter(None, paragraphs)) + "\n")
    for topic in topics:
        for name, figure in topic.pictures.items():
            save_png(figure, folder / f"{name}.png")
    return path


def check_free(folder: Path) -> None:
    """Raise an error if the folder holds something that this program has not written."""
    page = folder / "index.html"
    if page.exists():
        check_replaceable(page)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not an empty folder: choose another folder with --out.")


def topic_of(filled: FilledTable) -> Topic:
    """Return a table of runs, with its pictures."""
    spec = filled.spec
    pictures = {spec.name: chart(filled)}
    blocks: list[Block] = [Chart(pictures[spec.name], _alt(filled))]
    if len(panels := filled.panels()) > 1:  # single ones wrap on a narrow screen
        charts = [Chart(chart(filled, [panel]), _alt(filled, panel)) for panel in panels]
        blocks = [Beside([("", [each]) for each in charts])]
    if (gains := gains_chart(filled)) is not None:
        pictures[f"{spec.name}-gains"] = gains
        alt = f"{spec.title}: gains here beside those of the paper; the table has the numbers."
        blocks.append(Chart(gains, alt, "Gains here and in the paper."))
    return Topic(
        name=spec.name,
        title=spec.title,
        how_to_read=spec.how_to_read,
        blocks=tuple(blocks),
        conclusion=conclusion_of(filled),
        table=filled.table(),
        notes=(*spec.notes, *filled.problems),
        pictures=pictures,
    )


def topics_of_pairs(samples: Mapping[str, PairSample], gallery: Sequence[str]) -> list[Topic]:
    """Return histograms of similarities after heads and backbone (Fig. 1, 3), and some pairs.

    Args:
        samples: Pairs of views by the name of the run.
        gallery: Names of the runs whose pairs are shown.
    """
    by_run = {name: separations(sample) for name, sample in samples.items()}
    topics = []
    for level, title in (
        ("heads", "Similarities after the heads, scaled by temperature"),
        ("backbone", "Similarities after the backbone"),
    ):
        by_level = {name: levels[level] for name, levels in by_run.items()}
        if not by_level:
            return []
        figure = histograms(by_level)
        alt = f"{title}: histograms of positive and negative pairs. " + "; ".join(
            f"{run}: overlap {s.overlap:.2f}, AUROC {s.auroc:.3f}" for run, s in by_level.items()
        )
        topics.append(
            Topic(
                name=f"histograms-{level}",
                title=title,
                how_to_read="Orange: two views of one picture; blue: views of two. The less they "
                "overlap, the better pairs are told apart. One seed; of N images, N positive and "
                "all N (N − 1) negative pairs, where the paper draws 500 of each.",
                blocks=(Chart(figure, alt),),
                pictures={f"histograms-{level}": figure},
            )
        )
    for name in gallery:
        topics.append(
            Topic(
                name="pairs",
                title=f"Pairs that are hard to tell: {name}",
                how_to_read="With similarity s and temperature τ in each head, and the cosine of "
                "the backbone's features.",
                blocks=tuple(pair_galleries(samples[name], _PAIRS)),
            )
        )
    return topics


def _alt(filled: FilledTable, panel: str = "") -> str:
    """Return a description of a picture in words."""
    spec = filled.spec
    cells = [c for c in spec.cells if not panel or c.labels[spec.panels or ""] == panel]
    measured = ", ".join(dict.fromkeys(cell.metric.label for cell in cells))
    where = f", {panel}" if panel else ""
    return f"{spec.title}{where}: {measured} against {spec.x}; the table has the numbers."
