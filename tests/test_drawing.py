"""Figures as files and as parts of a page."""

import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from amcl.drawing import BLUE, DARK, FAINT, PALETTE, bare, figure_of, plain, save_png, svg_of


def drawing(label="loss"):
    figure = figure_of(4, 3)
    ax = figure.subplots()
    ax.plot([0, 1, 2], [3, 2, 1], color=BLUE, label=label)
    ax.scatter([0, 1], [1, 2], color=DARK)
    ax.axvline(1, color=FAINT)
    ax.set_xlabel(plain(label))
    ax.legend(frameon=False)
    bare(ax)
    return figure


def test_a_figure_becomes_an_element_of_the_page():
    text = svg_of(drawing("a <b> & τ⁺"), 'falls "fast" <at once>', "c1")
    root = ElementTree.fromstring(text)  # it is well formed, and one element
    assert root.tag == "svg"
    assert root.attrib["viewBox"] == "0 0 288 216"
    assert (root.attrib["role"], root.attrib["aria-label"]) == ("img", 'falls "fast" <at once>')
    assert not {"width", "height"} & root.attrib.keys()
    assert "--natural: 384px" in root.attrib["style"]
    words = ["".join(element.itertext()) for element in root.iter("text")]
    assert words.count("a <b> & τ⁺") == 2  # label and legend, as words
    assert "font-family" not in text
    assert {element.tag for element in root.iter()} <= {
        *("svg", "g", "defs", "path", "use", "text", "clipPath", "rect", "tspan")
    }


def test_ink_follows_the_page():
    text = svg_of(drawing(), "x", "c1")
    colors = {color.lower() for color in re.findall(r"(?:fill|stroke): ([^;\"]+)", text)}
    assert colors == {"none", "currentcolor", f"var(--blue, {BLUE.lower()})"}
    assert "stroke: currentColor; stroke-opacity: 0.25" in text  # the guide
    assert ElementTree.fromstring(text).attrib["fill"] == "currentColor"  # of words


def test_ids_of_two_figures_differ_and_each_is_known():
    first, second = (svg_of(drawing(), "x", salt) for salt in ("c1", "c2"))
    ids = re.findall(r'\bid="([^"]+)"', first)
    assert ids
    assert len(set(ids)) == len(ids)
    assert set(ids).isdisjoint(re.findall(r'\bid="([^"]+)"', second))
    assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', first)) == set(ids)
    assert first == svg_of(drawing(), "x", "c1")  # byte for byte
    with pytest.raises(ValueError, match=r"\bsalt\b.*'1 2'"):
        svg_of(drawing(), "x", "1 2")


def test_words_that_the_font_lacks_are_for_the_page_to_show():
    assert "猫と犬" in svg_of(drawing("猫と犬"), "x", "c1")


@pytest.mark.parametrize("name", ["a\x1b[31m", "caf\udce9", "a\0b\n"])
def test_names_that_xml_cannot_hold_are_escaped(name):
    text = svg_of(drawing(plain(name)), f"loss of {name}", "c1")
    root = ElementTree.fromstring(text.encode())
    assert root.attrib["aria-label"] == f"loss of {plain(name)}"
    assert plain(name) in ["".join(element.itertext()) for element in root.iter("text")]


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("font: 10px 'DejaVu Sans', 'Arial', sans-serif; text-anchor: middle", "font-size: 10px"),
        ("font: italic 700 9.5px 'DejaVu Sans'", "font-size: 9.5px; font-weight: 700"),
        ("font-size: 9px; font-family: 'DejaVu Sans'", "font-size: 9px"),
    ],
)
def test_fonts_of_old_and_new_matplotlib(style, expected):
    from amcl.drawing import _simplify_attribute

    assert _simplify_attribute("style", style).removesuffix("; text-anchor: middle") == expected


def test_a_file_of_a_figure(tmp_path):
    save_png(drawing(), tmp_path / "new/a.png")
    with Image.open(tmp_path / "new/a.png") as image:
        assert image.size == (600, 450)
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert len(list((tmp_path / "new").iterdir())) == 1


def test_colors_differ():
    assert len(set(PALETTE)) == len(PALETTE)
