"""What an experiment leaves behind: a page, Markdown, CSV and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from amcl.drawing import save_png
from amcl.environment import environment
from amcl.experiments.cases import Part
from amcl.experiments.charts import chart, gains_chart, panels_of
from amcl.experiments.conclusions import conclusion_of
from amcl.experiments.tables import Filled, markdown
from amcl.files import write_text
from amcl.report import (
    Beside,
    Block,
    Chart,
    Code,
    Note,
    Page,
    Paragraph,
    Section,
    Table,
)
from amcl.report.page import check_replaceable
from amcl.training import RunError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A section of the page, with what of it becomes files."""

    name: str
    title: str
    told: str
    blocks: tuple[Block, ...]
    conclusion: str = ""
    """What the numbers say in words, and how much they rest on."""
    table: Table | None = None
    notes: tuple[str, ...] = ()
    pictures: dict[str, "Figure"] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Product:
    """The result of an experiment."""

    title: str
    subtitle: str
    topics: Sequence[Topic]
    csv: str
    command: str
    facts: Sequence[tuple[str, str]] = ()
    config: str = ""

    def write(self, folder: Path) -> Path:
        """Write everything into a folder of its own; the page."""
        check_free(folder)
        page = self._page().write(folder / "index.html")
        write_text(folder / "numbers.csv", self.csv)
        write_text(folder / "table.md", self._markdown())
        for topic in self.topics:
            for name, figure in topic.pictures.items():
                save_png(figure, folder / f"{name}.png")
        return page

    def _page(self) -> Page:
        sections = [
            Section(
                topic.title,
                [
                    *([Paragraph(topic.conclusion)] if topic.conclusion else []),
                    *topic.blocks,
                    *([topic.table] if topic.table else []),
                    *(Note(note) for note in topic.notes),
                ],
                note=topic.told,
                anchor=topic.name,
            )
            for topic in self.topics
        ]
        made = environment()
        versions = ", ".join(f"{name} {value}" for name, value in made.items() if value)
        again: list[Block] = [Paragraph(f"`{self.command}`")]
        if self.config:
            again.append(Code(self.config, "settings that all runs start from"))
        again.append(Code(versions, "versions and machine"))
        sections.append(Section("To repeat it", again))
        return Page(title=self.title, subtitle=self.subtitle, sections=sections, facts=self.facts)

    def _markdown(self) -> str:
        lines = [f"# {self.title}", "", self.subtitle, "", f"`{self.command}`", ""]
        for topic in self.topics:
            lines += [f"## {topic.title}", "", topic.told, ""]
            lines += [topic.conclusion, ""] if topic.conclusion else []
            if topic.table is not None:
                caption = [topic.table.caption, ""] if topic.table.caption else []
                lines += [markdown(topic.table), *caption]
            lines += [line for note in topic.notes for line in (f"Note: {note}", "")]
            lines += [f"![{name}]({name}.png)\n" for name in topic.pictures]
        return "\n".join(lines).rstrip() + "\n"


def check_free(folder: Path) -> None:
    """An error if the folder holds something that this program has not written."""
    page = folder / "index.html"
    if page.exists():
        check_replaceable(page)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not an empty folder: choose another place with --out.")


def topic_of(filled: Filled) -> Topic:
    """A table of runs, with its pictures."""
    part = filled.part
    pictures = {part.name: chart(filled)}
    blocks: list[Block] = [Chart(pictures[part.name], _alt(part))]
    if len(panels := panels_of(part)) > 1:  # single ones wrap on a narrow screen
        drawn = [Chart(chart(filled, [panel]), _alt(part, panel)) for panel in panels]
        blocks = [Beside([("", [each]) for each in drawn])]
    if (gains := gains_chart(filled)) is not None:
        pictures[f"{part.name}-gains"] = gains
        told = f"{part.title}: gains here beside those of the paper; the table has the numbers."
        blocks.append(Chart(gains, told, "What is gained, here and in the paper."))
    return Topic(
        name=part.name,
        title=part.title,
        told=part.told,
        blocks=tuple(blocks),
        conclusion=conclusion_of(filled),
        table=filled.table(),
        notes=(*part.notes, *filled.bad()),
        pictures=pictures,
    )


def _alt(part: Part, panel: str = "") -> str:
    """A picture in words."""
    own = [c for c in part.cases if not panel or c.labels[part.panels or ""] == panel]
    measured = ", ".join(dict.fromkeys(case.metric.label for case in own))
    where = f", {panel}" if panel else ""
    return f"{part.title}{where}: {measured} against {part.x}; the table has the numbers."
