"""The page of a curation: what it shows, what is inside the file, and how it is used."""

import base64
import html
import io
import json
import re
import shutil
from dataclasses import replace

import pytest
import torch
from PIL import Image

import browser
from amcl.curation import CurationSettings, curate
from amcl.data import MemoryImages
from amcl.errors import RunError
from amcl.report import curation_page
from amcl.report.curation import galleries as galleries_module
from amcl.report.curation import page as page_module
from amcl.report.curation.galleries import galleries, rows_to_show, thresholds
from amcl.report.curation.thumbnails import SIDE, thumbnail, thumbnail_uris
from amcl.report.curation.words import again
from browser import needs_browser
from planted_copies import QUICK, plant, smooth_picture

EVIL = "<img src=x onerror=alert(1)>\"'&.png"
CPU = {"workers": 0, "accelerator": "cpu"}


@pytest.fixture(scope="module")
def curation(tmp_path_factory):
    """A curation with copies, an odd image, leaks, a selection and a hostile name."""
    folder = tmp_path_factory.mktemp("curated")
    pictures = plant(folder / "pictures")
    Image.new("RGB", (90, 30), "red").save(pictures / EVIL)
    other = folder / "other"
    other.mkdir()
    shutil.copy(pictures / "a/06.png", other / "<b>leak.png")
    settings = replace(QUICK, select=5)
    model = "test_vit"
    return curate(model, str(pictures), folder / "out", settings, against=str(other), **CPU)


@pytest.fixture(scope="module")
def page(curation):
    return curation_page(
        curation, workers=0, command=["amcl", "curate", "m", "--out=x", "--pairs", "2"]
    )


def data_of(page):
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text()
    )
    return json.loads(text)


def test_the_data_of_the_page_are_those_of_the_curation(curation, page):
    data = data_of(page)
    paths = data["columns"]["path"]
    assert sorted(paths) == sorted(curation["path"])  # few enough for all to be shown
    rows = [curation["path"].index(path) for path in paths]
    for name, values in data["columns"].items():
        assert values == [
            pytest.approx(curation[name][row])
            if isinstance(curation[name][row], float)
            else curation[name][row]
            for row in rows
        ], name
    exact = {frozenset(paths[i] for i in images) for images, _ in data["galleries"]["exact"]}
    assert exact == {
        frozenset({"a/00.png", "b/bytes.png"}),
        frozenset({"a/02.png", "b/pixels.bmp"}),
    }
    ((near, lines),) = data["galleries"]["near"]
    assert [paths[i] for i in near] == ["a/04.png", "b/near.jpg"]
    x = torch.nn.functional.normalize(curation.features()[[rows[i] for i in near]], dim=1)
    assert lines == ["1 copy to leave out", f"cosine {float(x[0] @ x[1]):.4f}"]
    ((leak, _),) = data["galleries"]["leaks"]
    assert paths[leak[0]] == "a/06.png"
    assert data["others"] == ["<b>leak.png"]
    assert leak[1] == len(paths)
    selected = [paths[images[0]] for images, _ in data["galleries"]["selected"]]
    assert selected == (curation.folder / "selected.txt").read_text().splitlines()
    first = [paths[images[0]] for images, _ in data["galleries"]["label-first"]]
    assert first == (curation.folder / "label_first.txt").read_text().splitlines()
    assert len(data["pictures"]) == len(paths) + 1
    assert all(uri.startswith("data:image/") for uri in data["pictures"])


def test_thresholds_show_the_pairs_on_both_sides(curation, page):
    data = data_of(page)
    paths = data["columns"]["path"]
    assert [each["cosine"] for each in data["thresholds"]] == [
        each["cosine"] for each in curation.info["thresholds"]
    ]
    for each in data["thresholds"]:
        above = [cosine for _, _, cosine in each["above"]]
        below = [cosine for _, _, cosine in each["below"]]
        assert above == sorted(above)
        assert below == sorted(below, reverse=True)
        assert all(cosine >= each["cosine"] for cosine in above)
        assert all(cosine < each["cosine"] for cosine in below)
    pairs = data["thresholds"][2]["above"]
    assert {"a/04.png", "b/near.jpg"} in [{paths[i], paths[j]} for i, j, _ in pairs]


def test_a_threshold_drops_as_many_images_as_it_says(curation, tmp_path):
    source = curation.info["data"]["source"]
    for each in curation.info["thresholds"][:2]:
        settings = replace(QUICK, threshold=each["cosine"])
        out = tmp_path / f"{each['cosine']}"
        other = curate("test_vit", source, out, settings, reuse=curation.folder, **CPU)
        assert len(other.rows("keep", False)) == each["dropped"]
        assert [t["cosine"] for t in other.info["thresholds"]][2] == each["cosine"]


def test_the_command_keeps_other_options(curation, page):
    words = data_of(page)["again"]
    new = curation.folder.with_name("out-2")
    assert words == f"amcl curate m --pairs 2 --out {new} --reuse {curation.folder} --threshold "
    command = [
        "amcl",
        "curate",
        "m",
        "--threshold",
        "0.9",
        "--link=l",
        "--reuse",
        "r",
        "--data",
        "d",
    ]
    assert again(curation, command).startswith("amcl curate m --data d --out ")
    assert again(curation, None).startswith("amcl curate test_vit --data ")


def test_names_are_never_html_and_nothing_is_asked_of_anyone(page):
    text = page.read_text()
    assert "<img src=x" not in text
    assert "<b>leak" not in text
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; ")
    markup = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S)
    addresses = re.findall(r'(?:src|href)="([^"]*)"', markup)
    assert {address.partition(":")[0].partition("#")[0] for address in addresses} == {"data", ""}
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in text


def test_sections_lead_with_copies_and_say_what_is_left_out(curation, page):
    text = html.unescape(
        re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page.read_text(), flags=re.S)
    )
    titles = re.findall(r'<h2 id="([^"]+)"', page.read_text())
    assert titles == [
        *("exact", "near", "threshold", "odd", "unreadable", "leaks", "label-first", "selected"),
        *("map", "all"),
    ]
    assert "broken.png" in text
    assert (
        "no column of uncertainty, uncertainty spread, ambiguity: test_vit is a backbone alone"
        in text
    )
    assert "Nothing was moved or deleted." in text


def test_more_images_than_a_page_shows(curation, monkeypatch, tmp_path):
    monkeypatch.setattr(page_module, "MOST_IMAGES", 12)
    copy = replace(curation, folder=shutil.copytree(curation.folder, tmp_path / "copy"))
    few = curation_page(copy, workers=0)
    data = data_of(few)
    assert len(data["columns"]["path"]) == 12
    assert {"a/00.png", "b/bytes.png", "a/02.png", "b/pixels.bmp"} <= set(data["columns"]["path"])
    assert "12 of 34 images" in few.read_text()
    monkeypatch.setattr(page_module, "BUDGET", len(data["pictures"][0]) + 10)
    data = data_of(curation_page(copy, workers=0))
    assert [bool(uri) for uri in data["pictures"]] == [True] + [False] * 12
    assert "1 of them have a picture" in (copy.folder / "curation.html").read_text()


def test_rows_come_in_the_order_of_the_galleries(curation):
    shown = galleries(curation)
    rows = rows_to_show(curation, shown, 10_000)
    assert sorted(rows) == list(range(len(curation)))
    assert rows[: len(shown[0].items) * 2] == [row for item in shown[0].items for row in item.rows]
    assert len(thresholds(curation)) == 5


def test_without_outliers_the_least_typical_images_are_shown(curation):
    info = {**curation.info, "counts": {**curation.info["counts"], "outliers": 0}}
    table = {**curation.table, "outlier": [False] * len(curation)}
    (odd,) = [g for g in galleries(replace(curation, table=table, info=info)) if g.anchor == "odd"]
    assert "No image lies far from all others. These are the least typical" in odd.note
    assert odd.total is None
    assert len(odd.items) == min(galleries_module.MOST_FARTHEST, len(curation.rows("keep")))
    ranks = [curation["outlier_rank"][item.rows[0]] for item in odd.items]
    kept = [curation["outlier_rank"][row] for row in curation.rows("keep")]
    assert ranks == sorted(kept)[: len(ranks)]


def test_a_count_of_selected_images_without_their_column_shows_no_gallery(curation):
    table = {name: values for name, values in curation.table.items() if name != "selected"}
    info = {**curation.info, "counts": {**curation.info["counts"], "selected": 3}}
    assert "selected" not in {
        g.anchor for g in galleries(replace(curation, table=table, info=info))
    }


def test_exact_leaks_come_first_and_then_the_most_similar(curation, tmp_path):
    lines = ["a/00.png,x,0.91,near", "a/04.png,y,0.97,near", "a/06.png,z,1.000000,exact"]
    (tmp_path / "leaks.csv").write_text("\n".join(["path,other,cosine,kind", *lines, ""]))
    found = replace(curation, folder=tmp_path)
    leaks = galleries_module._leaks(found)
    assert [item.other for item in leaks.items] == ["z", "y", "x"]
    (tmp_path / "leaks.csv").write_text("path,other,cosine,kind\na/00.png,x,high,near\n")
    with pytest.raises(ValueError, match="'high' is no cosine"):
        galleries_module._leaks(found)


def test_large_groups_are_cut(curation, monkeypatch):
    monkeypatch.setattr(galleries_module, "MOST_MEMBERS", 1)
    exact = galleries(curation)[0]
    assert [len(item.rows) for item in exact.items] == [1, 1]
    assert exact.items[0].lines[0] == "1 copy to leave out, 0 of them shown"


def test_thumbnails_have_the_proportions_of_the_image():
    squashed = torch.zeros(3, SIDE, SIDE, dtype=torch.uint8)
    assert thumbnail(squashed, (20, 400)).size == (SIDE, round(20 * SIDE / 400))
    assert thumbnail(squashed, (1, 40_000)).size == (SIDE, 1)
    small = torch.randint(256, (3, 8, 9), dtype=torch.uint8)
    assert thumbnail(small).size == (9, 8)
    assert thumbnail(small).getpixel((2, 3)) == tuple(small[:, 3, 2].tolist())
    with pytest.raises(ValueError, match=r"pixels must be uint8 \(3, H, W\)"):
        thumbnail(torch.zeros(4, 8, 8, dtype=torch.uint8))
    images = MemoryImages(torch.randint(256, (3, 3, 8, 8), dtype=torch.uint8))
    uris = thumbnail_uris(images, [2, 0], 10_000)
    assert len(set(uris)) == 2
    assert thumbnail_uris(images, [2, 0], len(uris[0])) == [uris[0], ""]


@pytest.mark.parametrize("channels", [1, 13])
def test_images_of_any_channels_have_thumbnails(channels):
    dark = torch.arange(64).view(1, 1, 8, 8).expand(2, channels, 8, 8)  # of 65,535
    uris = thumbnail_uris(MemoryImages(dark.to(torch.uint16)), [0, 1], 10_000)
    content = base64.b64decode(uris[0].partition(",")[2])
    picture = Image.open(io.BytesIO(content)).convert("L")
    assert picture.size == (8, 8)
    assert picture.getextrema()[1] > 200  # stretched, so that something is seen


def test_a_page_of_one_image_and_of_no_copies(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    smooth_picture(0).save(folder / "only.png")
    curation = curate("test_vit", str(folder), tmp_path / "out", CurationSettings(), **CPU)
    page = curation_page(curation, workers=0)
    assert data_of(page)["points"] == []
    assert "None of them is a copy of another." in page.read_text()
    assert 'id="map"' not in page.read_text()


def test_a_page_is_made_anew_and_never_over_something_else(curation, page, tmp_path):
    before = page.read_bytes()
    command = ["amcl", "curate", "m", "--out=x", "--pairs", "2"]
    assert curation_page(curation, workers=0, command=command).read_bytes() == before
    other = replace(curation, folder=tmp_path)
    (tmp_path / "curation.html").write_text("<!doctype html><title>mine</title>")
    with pytest.raises(RunError, match="no page of this program"):
        curation_page(other, workers=0)
    assert "mine" in (tmp_path / "curation.html").read_text()


def test_other_images_than_those_of_the_curation_are_an_error(tmp_path):
    folder = plant(tmp_path / "pictures")
    curation = curate("test_vit", str(folder), tmp_path / "out", QUICK, **CPU)
    (folder / "a/04.png").unlink()
    with pytest.raises(ValueError, match="holds other images"):
        curation_page(curation, workers=0)
    (folder / "a/04.png").write_bytes(b"damaged")
    data = data_of(curation_page(curation, workers=0))
    missing = data["pictures"][data["columns"]["path"].index("a/04.png")]
    assert missing == ""


IN_USE = """
const at = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const wait = (time = 60) => new Promise((done) => window.setTimeout(done, time));
const found = {};
const root = document.documentElement;
found.sideways = root.scrollWidth - root.clientWidth;
const bold = all("main b").map((one) => one.textContent);
found.hostile = [all("img[src=x]").length, bold.filter((text) => text === "leak.png").length];

found.breaks = all(".gallery-of[data-gallery=exact] .name wbr").length;
found.effect = [at("#effect").textContent, at("#apply").hidden];
all("#choices input")[4].click();
found.effect.push(at("#effect").textContent, at("#apply").hidden, at("#command").textContent);
found.chosen = [...at("#histogram").querySelectorAll("text.chosen")].map((one) => one.textContent);
found.above = at("#above").textContent;
all("#choices input")[0].click();
found.below = at("#below").textContent;

const form = at("#filter");
const input = (name, value) => {
  form.elements[name].value = value;
  form.elements[name].dispatchEvent(new window.Event("input", {bubbles: true}));
  return at("#matches").textContent;
};
const rows = () => all("#table tbody tr").map((row) => row.children[1].textContent);
found.path = [input("path", "NEAR"), rows()];
input("path", "");
found.drop = [input("state", "drop"), rows()];
input("state", "");
found.size = [input("most", "30"), rows()];
input("most", "");
found.cluster = [input("cluster", "2"), rows().length];
input("cluster", "");
const sort = (name) => at(`#table th[data-name="${name}"] button`).click();
sort("outlier_rank");
const column = all("#table thead tr > *").findIndex((one) => one.dataset.name === "outlier_rank");
const cells = () => all("#table tbody tr").map((row) => Number(row.children[column].textContent));
found.sorted = [at("#table th[aria-sort]").getAttribute("aria-sort"), cells().slice(0, 3)];
sort("outlier_rank");
found.sorted.push(at("#table th[aria-sort]").getAttribute("aria-sort"), cells().slice(0, 3));
sort("duplicate_group");
found.empty = rows().length;

let blob = null;
window.URL.createObjectURL = (one) => { blob = one; return "blob:none"; };
window.HTMLAnchorElement.prototype.click = function () { found.file = this.download; };
found.bar = [at("#selection").hidden];
at(".gallery-of[data-gallery=exact] .pick-all").click();
found.bar.push(at("#selection").hidden, at("#picked").textContent);
at(".gallery-of[data-gallery=near] button.pick").click();
at(".gallery-of[data-gallery=near] button.pick").click();
at(".gallery-of[data-gallery=near] button.pick").click();
const frame = at("#frame");
frame.focus();
frame.dispatchEvent(new window.KeyboardEvent("keydown", {key: "ArrowLeft"}));
found.spoken = at(".spoken").textContent;
frame.dispatchEvent(new window.KeyboardEvent("keydown", {key: " "}));
found.pressed = all('#table button.pick[aria-pressed="true"]').length;
at("#download").click();
found.list = await blob.text();
at("#clear").click();
found.bar.push(at("#selection").hidden);

const canvas = at("#frame canvas");
const box = canvas.getBoundingClientRect();
const data = JSON.parse(at("#data").textContent);
const [x, y] = data.points[3].map((each) => each * box.width / 820);
const place = {clientX: box.left + x, clientY: box.top + y, bubbles: true};
canvas.dispatchEvent(new window.PointerEvent("pointermove", place));
found.tip = [at(".tip").hidden, at(".tip span").textContent, data.columns.path[3]];
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
found.drawn = new Set(pixels.data).size > 3;
canvas.dispatchEvent(new window.MouseEvent("click", place));
found.bar.push(at("#picked").textContent);
at("[data-zoom='2']").click();
found.ground = [window.getComputedStyle(document.body).backgroundColor];
at("#theme").click();
found.ground.push(window.getComputedStyle(document.body).backgroundColor);
await wait();
const isBroken = (one) => !one.complete || (one.src && !one.naturalWidth);
found.images = [...document.images].filter(isBroken).length;
found.unnamed = all("button").filter((one) => !one.textContent && !one.ariaLabel).length;
return found;
"""


@needs_browser
@pytest.mark.parametrize(
    ("width", "dark"), [(380, True), pytest.param(1200, False, marks=pytest.mark.slow)]
)
def test_a_page_in_use(curation, page, width, dark):
    seen = browser.try_page(page, IN_USE, width=width, dark=dark)
    assert seen.console == []
    found = seen.found
    assert found["sideways"] == 0
    assert found["hostile"] == [0, 0]
    assert EVIL in seen.text
    assert found["breaks"] >= 4  # behind the folder of each of two pairs
    infos = curation.info["thresholds"]
    before, applied, after, hidden, command = found["effect"]
    assert applied
    assert not hidden
    assert f"{infos[2]['dropped']} of 34 images are left out" in before
    assert f"{infos[4]['dropped']} of 34 images would be left out" in after
    assert float(command.split()[-1]) == pytest.approx(infos[4]["cosine"], abs=1e-6)
    assert found["chosen"] == [f"{infos[4]['cosine']:.4f}"]
    assert "near.jpg" in found["above"]
    assert "not listed" in found["below"]
    assert found["path"] == ["1 of 34 images", ["b/near.jpg"]]
    dropped = (curation.folder / "drop.txt").read_text().splitlines()
    assert found["drop"][0] == f"{len(dropped)} of 34 images"
    assert sorted(found["drop"][1]) == sorted(dropped)
    assert found["size"] == ["1 of 34 images", [EVIL]]
    second = curation["cluster"].count(2)
    assert found["cluster"] == [f"{second} of 34 images", second]
    ranks = sorted(curation["outlier_rank"])
    assert found["sorted"] == ["ascending", ranks[:3], "descending", ranks[:-4:-1]]
    assert found["empty"] == 34
    assert found["bar"] == [True, False, "2 images selected", True, "1 image selected"]
    *paths, last = found["list"].split("\n")
    assert last == ""
    assert set(dropped) - {"b/near.jpg"} < set(paths)
    assert "a/04.png" in paths
    assert found["spoken"].rpartition(", ")[0] in paths
    assert len(paths) == len(set(paths)) == found["pressed"]
    assert found["file"] == "selected_images.txt"
    assert found["tip"][0] is False
    assert found["tip"][1] in curation["path"]
    assert found["drawn"]
    grounds = ["rgb(255, 255, 255)", "rgb(21, 23, 26)"]
    assert found["ground"] == (grounds[::-1] if dark else grounds)
    assert found["images"] == 0
    assert found["unnamed"] == 0
