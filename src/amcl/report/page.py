"""One self-contained HTML page: no request to anywhere, light and dark, on paper too."""

import base64
import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from amcl.drawing import svg_of
from amcl.errors import RunError
from amcl.extras import missing, needed
from amcl.files import write_text
from amcl.report.blocks import Chart, Section
from amcl.report.maps import HEIGHT, WIDTH, draw_map
from amcl.report.pictures import LOSSLESS, data_uri, shown_width

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

GENERATOR = "amcl report"
"""Name of the generator in the metadata of pages."""
_UNBROKEN = 24  # letters up to which a word of a command is not broken at a hyphen


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

        environment = _environment()
        script = _resource(environment, "page.js")
        sum_of_script = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        numbers = itertools.count(1)

        def svg(chart: Chart) -> Markup:
            return Markup(svg_of(chart.figure, chart.alt, salt=f"c{next(numbers)}"))

        return environment.get_template("page.html").render(
            page=self,
            generator=f"{GENERATOR} {version('amcl-torch')}",
            style=Markup(_resource(environment, "page.css")),
            script=Markup(script),
            sum_of_script=sum_of_script,
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


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("amcl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"uri": data_uri, "shown_width": shown_width, "draw_map": draw_map}
    environment.filters["inline"] = _inline
    environment.globals |= {"MAP_WIDTH": WIDTH, "MAP_HEIGHT": HEIGHT, "LOSSLESS": LOSSLESS}
    return environment


def _inline(text: str) -> "Markup":
    """Return text in which words between backticks are commands."""
    from markupsafe import Markup, escape

    def command(match: re.Match[str]) -> str:
        words = (f"<span>{w}</span>" if len(w) <= _UNBROKEN else w for w in match[1].split(" "))
        return f"<code>{' '.join(words)}</code>"

    return Markup(re.sub("`([^`]+)`", command, str(escape(text))))


def _resource(environment: "Environment", name: str) -> str:
    """Return the text of a file beside the templates."""
    if environment.loader is None:
        raise RuntimeError("the environment has a loader")
    text, _, _ = environment.loader.get_source(environment, name)
    return text
