"""One self-contained HTML page: no request to anywhere, light and dark, on paper too."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from amcl.drawing import svg_of
from amcl.errors import RunError
from amcl.extras import missing, needed
from amcl.files import write_text
from amcl.report.blocks import Chart, Section
from amcl.report.render import GENERATOR, render


@dataclass(frozen=True, kw_only=True)
class Page:
    """Sections below a title.

    Example:
        >>> from amcl.report import Paragraph
        >>> page = Page(title="My run", sections=[Section("Loss", [Paragraph("It fell.")])])
        >>> "<p>It fell.</p>" in page.html()
        True
    """

    title: str
    """Title of the page."""
    sections: Sequence[Section]
    """Sections, one below the other; their anchors must differ."""
    subtitle: str = ""
    """Line below the title."""
    facts: Sequence[tuple[str, str]] = ()
    """Key numbers on top, each with its name."""
    summary: str = ""
    """Paragraph below the key numbers: what they mean, and what to do next."""
    footer: str = ""
    """Line at the end of the page."""

    def __post_init__(self) -> None:
        anchors = [section.anchor for section in self.sections]
        twice = sorted({anchor for anchor in anchors if anchors.count(anchor) > 1})
        if twice:
            raise ValueError(
                f"anchors of sections must differ, got {', '.join(twice)} twice: give one of them "
                "another anchor."
            )

    def html(self) -> str:
        """Return the whole page as text."""
        from markupsafe import Markup

        numbers = itertools.count(1)

        def svg(chart: Chart) -> Markup:
            return Markup(svg_of(chart.figure, chart.alt, salt=f"c{next(numbers)}"))

        return render(
            "page.html",
            self,
            scripts=("common.js", "page.js"),
            svg=svg,
            number=lambda: next(numbers),
        )

    def write(self, path: str | Path) -> Path:
        """Write the page, whole or not at all; a file that is no such page is never replaced."""
        path = Path(path)
        check_replaceable(path)
        write_text(path, self.html())
        return path


def check_replaceable(path: Path) -> None:
    """Raise an error if the path exists and is not a page of this package."""
    if path.is_dir():
        raise RunError(f"{path} is a folder: name the file to write, such as {path}/report.html.")
    if not path.exists():
        return
    with path.open("rb") as file:
        start = file.read(2000)
    if f'<meta name="generator" content="{GENERATOR} '.encode() not in start:
        raise RunError(
            f"{path} exists and is no page of this program: it is left as it is. Choose another "
            "file with --out."
        )


def require_map(method: str) -> None:
    """Raise an error if the package of a projection is not installed."""
    package = {"umap": "umap", "tsne": "openTSNE"}.get(method)
    if package is not None and missing(package):
        raise RunError(f"{needed(f'--map {method}', package, method)} Or use --map pca.")
