"""Colors and figures of all charts, written as files or as parts of a page."""

import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from amcl.files import whole_file
from amcl.printable import printable

if TYPE_CHECKING:  # loaded only where something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK = "#333333"
"""Color of lines and words; on a page it becomes the text color."""
FAINT = "#BBBBBB"
"""Color of guide lines; on a page it becomes the text color, nearly transparent."""
# The colors of Okabe and Ito, which color-blind readers tell apart. Their yellow is too light
# for lines on white, their black is DARK.
BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PINK = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
PALETTE = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, DARK)
"""Colors of lines and dots of different kinds, in order."""

DPI = 150
# On a page: its text color, and the colors that are lighter in dark mode.
_ON_PAGE = {
    "#000000": "currentColor",
    DARK: "currentColor",
    BLUE: f"var(--blue, {BLUE})",
    VERMILION: f"var(--vermilion, {VERMILION})",
    GREEN: f"var(--green, {GREEN})",
    SKY: f"var(--sky, {SKY})",
}


def figure_of(width: float, height: float) -> "Figure":
    """Return an empty figure of this size in inches, outside of pyplot's list."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)
    figure = Figure(figsize=(width, height), facecolor="white", layout=engine)
    FigureCanvasAgg(figure)
    return figure


def bare(ax: "Axes", inner: bool = False) -> None:
    """Remove the top and right lines of a chart, and the ticks of the y axis if `inner`."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)
    if inner:
        ax.tick_params(axis="y", length=0)


def legend_below(figure: "Figure") -> None:
    """Draw one legend for all panels, in as many columns as the figure has room for."""
    panels = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    handles = {label: handle for panel in panels for handle, label in panel}
    if not handles:
        return
    column = 0.65 + 0.08 * max(map(len, handles))  # inches: a mark, and letters of 9 points
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=max(1, min(len(handles), int(figure.get_figwidth() / column))),
        frameon=False,
        fontsize=9,
        columnspacing=1.4,
    )


def plain(text: str, length: int = 60) -> str:
    """Escape text so that it is printable and no formula, and shorten it.

    >>> plain("worth $5 and $6", 9)
    'worth \\\\$5…'
    """
    text = printable(text)
    text = text if len(text) <= length else text[: length - 1] + "…"
    if text.startswith("_"):  # such a label would be missing from the legend
        text = f" {text}"
    return text.replace("$", r"\$")


def save_png(figure: "Figure", path: Path) -> None:
    """Write a figure as a PNG file, whole or not at all."""
    with whole_file(path) as file:
        figure.savefig(file, format="png", dpi=DPI)
    figure.set_layout_engine("none")  # the layout is done, and takes longer than drawing


def on_page(color: str) -> str:
    """Return the CSS of a color that follows light and dark mode; other colors stay.

    >>> on_page(DARK), on_page(BLUE), on_page(PINK)
    ('currentColor', 'var(--blue, #0072B2)', '#CC79A7')
    """
    return _ON_PAGE.get(color.upper(), color)


def svg_of(figure: "Figure", alt: str, salt: str) -> str:
    """Return a figure as an `<svg>` element for an HTML page.

    Text stays text, in the page's font; the background is transparent; black and DARK become the
    page's text color, so that they follow light and dark mode.

    Args:
        figure: The figure.
        alt: Description for readers who cannot see it.
        salt: Prefix of its ids, different from that of other figures on the page.

    Returns:
        The element.
    """
    import matplotlib

    if not re.fullmatch(r"[A-Za-z][\w-]*", salt):
        raise ValueError(f"salt must be a letter, then letters and digits, got {salt!r}.")
    file = io.StringIO()
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}),
        warnings.catch_warnings(),
    ):
        # The fonts of the page have it.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")
        figure.savefig(file, format="svg", transparent=True)
    figure.set_layout_engine("none")
    root = ElementTree.fromstring(file.getvalue())
    _simplify(root)
    _rename_ids(root, salt)
    view = root.attrib["viewBox"]
    # An inch is 72 of matplotlib's points and 96 of a page's pixels.
    width = round(float(view.split()[2]) * 96 / 72)
    root.attrib.clear()
    root.attrib |= {"class": "drawing", "viewBox": view, "role": "img"}
    root.attrib["aria-label"] = printable(alt)
    root.attrib |= {"fill": "currentColor", "stroke-linejoin": "round"}
    root.attrib["style"] = f"--natural: {width}px"
    return ElementTree.tostring(root, encoding="unicode")


def _simplify(element: ElementTree.Element) -> None:
    """Remove namespaces, metadata, fonts and colors that the page sets."""
    element.tag = element.tag.rpartition("}")[2]
    element.tail = None
    if element.text is not None and not element.text.strip():
        element.text = None
    for child in list(element):
        if child.tag.rpartition("}")[2] in ("metadata", "style"):  # a style would rule the page
            element.remove(child)
        else:
            _simplify(child)
    for key, value in list(element.attrib.items()):
        del element.attrib[key]
        name = key.rpartition("}")[2]
        if simplified := _simplify_attribute(name, value):
            element.attrib[name] = simplified


def _simplify_attribute(key: str, value: str) -> str:
    if key == "style":
        entries = [entry.strip() for entry in value.split(";") if entry.strip()]
        return "; ".join(filter(None, map(_style, entries)))
    if key == "transform":
        return re.sub(r"rotate\(-?0(?:\.0)? [^)]*\)", "", value)
    if key in ("d", "x", "y"):
        return re.sub(r"\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", value).strip()
    return value


def _style(entry: str) -> str:
    """Return an entry of a style with the colors and font of the page."""
    name, _, value = (part.strip() for part in entry.partition(":"))
    if name == "font":
        # Before 3.11, matplotlib writes all in one: "italic 700 10px 'DejaVu Sans', sans-serif".
        size = re.search(r"[\d.]+px", value)
        if size is None:
            raise RuntimeError(f"matplotlib wrote a font in an unknown form: {value!r}")
        weight = re.search(r"\b(bold|[1-9]00)\b", value[: size.start()])
        return f"font-size: {size[0]}" + (f"; font-weight: {weight[0]}" if weight else "")
    if name == "font-family":
        return ""
    if name in ("fill", "stroke") and value.upper() == FAINT:
        return f"{name}: currentColor; {name}-opacity: 0.25"
    return f"{name}: {on_page(value)}"


def _rename_ids(root: ElementTree.Element, salt: str) -> None:
    """Prefix ids that something refers to with the salt, and remove all others."""
    link = re.compile(r"url\(#([^)]+)\)")
    used = {
        name
        for element in root.iter()
        for key, value in element.attrib.items()
        for name in ([value[1:]] if key == "href" and value[:1] == "#" else link.findall(value))
    }
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                del element.attrib[key]
                if value in used:
                    element.attrib[key] = f"{salt}-{value}"
            elif key == "href" and value.startswith("#"):
                element.attrib[key] = f"#{salt}-{value[1:]}"
            else:
                element.attrib[key] = link.sub(rf"url(#{salt}-\1)", value)
