"""Pages: blocks, what is inside the file, and how a browser takes it."""

import html
import re

import pytest
import torch

import browser
from amcl.drawing import BLUE, figure_of
from amcl.errors import RunError
from amcl.report import (
    Beside,
    Chart,
    Code,
    Gallery,
    Map,
    Note,
    Page,
    Paragraph,
    Picture,
    Section,
)
from amcl.report.glossary import EXPLANATIONS
from amcl.report.maps import HEIGHT, WIDTH, draw_map
from amcl.report.pictures import data_uri, sheet_uri
from amcl.results import Cell, Table
from browser import needs_browser

EVIL = "<script>alert(1)</script>\"'&"


def chart(alt="a line"):
    figure = figure_of(4, 3)
    figure.subplots().plot([0, 1], [1, 0], color=BLUE)
    return Chart(figure, alt, "A caption.")


def pixels(*shape):
    return torch.randint(256, shape, dtype=torch.uint8)


def full_page(text=EVIL):
    """A page with every block, and a text from outside in every place."""
    pictures = [Picture([pixels(3, 8, 8), pixels(3, 90, 90)], [text, "s 0.9"], text, [True, None])]
    table = Table((text, "τ"), [(text, Cell("0.2", text, strong=True)), ("b", "1")], text)
    where = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    blocks = [
        *(Paragraph(text), Note(text), table, chart(text), Gallery(pictures, text, text)),
        Map(where, pixels(3, 3, 8, 8), [text, "b", "b"], text, text),
        Code(text, text),
        Beside([(text, [Paragraph(text), chart()]), ("", [chart()])]),
    ]
    sections = [
        Section(text, blocks, text, "first"),
        Section("Second part", [Paragraph(text)], text, folded=text),
    ]
    facts = [(text, text), ("kNN", "75%")]
    return Page(
        title=text, subtitle=text, facts=facts, sections=sections, summary=text, footer=text
    )


def test_text_from_outside_stays_text():
    page = full_page().html()
    assert "<script>alert" not in page
    words = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert words.count("alert(1)") == full_page("a-word").html().count(">a-word<")
    for value in re.findall(r'="([^"]*)"', page):
        assert "<script" not in value


def test_nothing_is_asked_of_anyone():
    page = full_page().html()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; ")
    addresses = re.findall(r"""(?:src|href)="([^"]*)"|url\(([^)]*)\)|@import""", page)
    kinds = {(first or second).partition(":")[0].partition("#")[0] for first, second in addresses}
    assert kinds == {"data", ""}  # inside, or on the page itself
    assert "http:" not in page
    assert "https:" not in page


def test_ids_on_a_page_differ():
    page = full_page().html()
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    linked = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page)
    assert {first or second for first, second in linked} <= set(ids)
    with pytest.raises(ValueError, match=r"\bloss\b.*\banchor\b"):
        Page(title="x", sections=[Section("Loss", ()), Section("loss", ())])


def test_a_page_is_written_whole_and_never_over_something_else(tmp_path):
    path = full_page().write(tmp_path / "new/report.html")
    first = path.read_text()
    assert first.startswith("<!doctype html>")
    Page(title="other", sections=()).write(path)  # a page of ours is made anew
    assert path.read_text() != first
    other = tmp_path / "thesis.html"
    other.write_text("<!doctype html><title>mine</title>")
    with pytest.raises(RunError, match=r"/thesis\.html .*--out"):
        full_page().write(other)
    with pytest.raises(RunError, match=r"/report\.html"):
        full_page().write(tmp_path)
    assert other.read_text() == "<!doctype html><title>mine</title>"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "thesis.html"]


def test_blocks_say_what_is_wrong():
    with pytest.raises(ValueError, match="must have 2 entries"):
        Table(("a", "b"), [("1",)])
    with pytest.raises(ValueError, match=r"must be uint8 \(3, H, W\), got torch.float32"):
        Picture([torch.zeros(3, 4, 4)])
    with pytest.raises(ValueError, match="each of 1 images"):
        Picture([pixels(3, 4, 4)], good=[True, False])
    with pytest.raises(ValueError, match=r"\bpoints\b.*\(N, 2\)"):
        Map(torch.tensor([[0.0, torch.nan]]), pixels(1, 3, 4, 4))
    with pytest.raises(ValueError, match="labels must be 1"):
        Map(torch.zeros(1, 2), pixels(1, 3, 4, 4), ["a", "b"])
    with pytest.raises(ValueError, match=r"\banchor\b.*''"):
        Section("…", ())


def decoded(uri):
    import base64
    import io

    import numpy as np
    from PIL import Image

    kind, data = re.fullmatch(r"data:image/(\w+);base64,(.+)", uri).groups()
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        return kind, torch.from_numpy(np.array(image)).permute(2, 0, 1)


def test_small_images_are_kept_as_they_are_and_large_ones_made_small():
    image = pixels(3, 32, 48)
    kind, seen = decoded(data_uri(image))
    assert kind == "png"
    assert torch.equal(seen, image)
    kind, seen = decoded(data_uri(pixels(3, 100, 400)))
    assert kind == "jpeg"
    assert seen.shape == (3, 36, 144)


def test_a_sheet_has_each_thumb_in_its_place():
    thumbs = torch.arange(0, 250, 50, dtype=torch.uint8).view(5, 1, 1, 1).expand(5, 3, 16, 24)
    uri, columns = sheet_uri(thumbs)
    _, sheet = decoded(uri)
    assert columns == 3
    assert sheet.shape == (3, 32, 72)
    for i in range(5):
        row, column = divmod(i, columns)
        part = sheet[:, row * 16 : row * 16 + 16, column * 24 : column * 24 + 24]
        assert (part.float() - 50 * i).abs().max() <= 3


def test_a_map_keeps_the_shape_of_the_points():
    points = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = draw_map(Map(points, pixels(3, 3, 200, 100), ["b", "a", "b"]))
    (left, middle, _), (right, _, kind), (x, top, _) = found.points
    assert right - left == pytest.approx(2 * (middle - top), abs=0.2)  # one scale for both
    assert x == pytest.approx((left + right) / 2)
    assert 0 < top < middle < HEIGHT  # upwards is up
    assert 0 < left < right < WIDTH
    assert found.kinds[kind].name == "a"
    assert found.named
    assert found.aspect == 0.5
    one_place = draw_map(Map(torch.zeros(2, 2), pixels(2, 3, 4, 4)))
    assert {(x, y) for x, y, _ in one_place.points} == {(WIDTH / 2, HEIGHT / 2)}
    assert not one_place.named
    many = [f"class {i}" for i in range(40)]
    crowd = draw_map(Map(torch.rand(40, 2), pixels(40, 3, 4, 4), many))
    assert not crowd.named  # more than marks could tell apart
    assert {kind.name for kind in crowd.kinds} == set(many)


@needs_browser
def test_the_browser_tells_of_errors_and_of_blocked_requests(tmp_path):
    """Otherwise silence would prove nothing."""
    page = full_page("text").html()
    planted = '<img src="https://example.org/x.png"><script>alert("no")</script></body>'
    page = page.replace("themes();\n", "themes();\nconsole.nothing();\n", 1)
    from base64 import b64encode
    from hashlib import sha256

    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.S)
    known = b64encode(sha256(script.encode()).digest()).decode()
    page = re.sub(r"sha256-[^']+", f"sha256-{known}", page)
    path = tmp_path / "planted.html"
    path.write_text(page.replace("</body>", planted))
    told = "\n".join(browser.open_page(path).console)
    assert "console.nothing is not a function" in told
    assert "https://example.org/x.png" in told
    assert "inline script violates" in told


@needs_browser
@pytest.mark.slow
def test_a_page_in_use(tmp_path):
    path = full_page().write(tmp_path / "p.html")
    seen = browser.try_page(path, browser.IN_USE, width=380, dark=True)
    assert seen.console == []
    found = seen.found
    assert found["ground"] == ["rgb(21, 23, 26)", "rgb(255, 255, 255)"]
    assert found["theme"] == ["Light", "Dark"]
    assert found["sideways"] == 0  # also on a telephone
    assert found["hidden"] == [True, False, True, False, True]
    assert found["tip"] == ["b", "-96px 0px"]
    assert found["bright"] == [False, True, True]
    assert found["spoken"] == ["image 2 of 3 b", f"image 1 of 3 {EVIL}"]  # the leftmost
    assert found["images"]
    assert "alert(1)" in seen.text


POINTED_AT = """
const term = document.querySelector("[data-explanation]");
const tip = document.querySelector("#explanation");
const found = [tip.hidden];
term.dispatchEvent(new window.PointerEvent("pointerenter"));
found.push(tip.hidden, tip.textContent, term.getAttribute("aria-describedby"));
const box = tip.getBoundingClientRect();
found.push(box.left >= 0 && box.right <= document.documentElement.clientWidth);
term.dispatchEvent(new window.PointerEvent("pointerleave"));
found.push(tip.hidden);
term.focus();
found.push(tip.hidden);
window.dispatchEvent(new window.KeyboardEvent("keydown", {key: "Escape"}));
found.push(tip.hidden, term.hasAttribute("aria-describedby"));
return found;
"""


@needs_browser
def test_numbers_are_explained_where_they_are_pointed_at(tmp_path):
    table = Table(("head", "AUROC"), [("1", "0.9")])
    page = Page(title="x", sections=[Section("a", [table])], facts=[("AUROC", "0.9")])
    assert page.html().count(f'data-explanation="{EXPLANATIONS["AUROC"]}"') == 2
    seen = browser.try_page(page.write(tmp_path / "p.html"), POINTED_AT, width=380, dark=False)
    assert seen.console == []
    assert seen.found == [
        *(True, False, EXPLANATIONS["AUROC"], "explanation", True),
        *(True, False, True, False),
    ]


def test_a_section_that_does_not_apply_is_folded_with_the_reason():
    page = Page(title="x", sections=[Section("Heads", [Paragraph("None.")], folded="One head.")])
    (part,) = re.findall(r'<details class="part">(.*?)</details>', page.html(), flags=re.S)
    assert '<h2 id="heads">Heads</h2> <span>One head.</span></summary>' in part
    assert "<p>None.</p>" in part


@needs_browser
@pytest.mark.slow
def test_on_paper_what_is_folded_is_open(tmp_path):
    def size(text):
        page = Page(title="x", sections=[Section("a", [Code(text, "config")])])
        browser.print_pdf(page.write(tmp_path / "p.html"), tmp_path / "p.pdf")
        pdf = (tmp_path / "p.pdf").read_bytes()
        assert pdf.startswith(b"%PDF")
        return len(re.findall(rb"/Type\s*/Page\b", pdf))

    assert size("line\n" * 3) == 1
    assert size("line\n" * 600) > 2


@needs_browser
@pytest.mark.slow
def test_pictures_of_a_page(tmp_path):
    from PIL import Image

    path = full_page().write(tmp_path / "p.html")
    for dark, ground in ((False, (255, 255, 255)), (True, (21, 23, 26))):
        browser.screenshot(path, tmp_path / "p.png", width=1200, height=2000, dark=dark)
        with Image.open(tmp_path / "p.png") as image:
            assert image.size == (1200, 2000)
            assert image.convert("RGB").getpixel((2, 2)) == ground
