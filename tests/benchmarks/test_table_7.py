"""docs/detection.md shows what table 7 and the rates of its detectors came to at scale cpu."""

import csv
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEASURES = ("box AP", "box AP50", "mask AP")


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "detection.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows():
    with (ROOT / "benchmarks/results/table_7.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def start(row):
    """The start of a detector, as the page names it."""
    names = {"baseline": row["method"], "from scratch": "random weights"}
    return names.get(row["side"], f"{row['method']} {row['side']}")


def test_the_page_has_the_numbers_of_the_table(page, rows):
    assert {row["runs"] for row in rows} == {"1"}
    values = {
        (start(row), row["measure"]): float(row["mean"]) for row in rows if row["what"] == "value"
    }
    starts = list(dict.fromkeys(name for name, _ in values))
    lines = [
        f"| {name} | {' | '.join(f'{values[name, measure]:.1f}' for measure in MEASURES)} |"
        for name in starts
    ]
    assert len(lines) == 5
    assert "\n".join(lines) in page
    # What the text says of them.
    scratch = "random weights"
    ahead = {key for key, value in values.items() if value > values[scratch, key[1]]}
    assert ahead == {("MoCo v3 + AMCL", "box AP"), ("MoCo v3 + AMCL", "mask AP")}
    text = " ".join(page.split())
    for measure, word in (("box AP", "{:.1f} points of box AP"), ("box AP50", "{:.1f} of AP50")):
        gap = abs(values["MoCo v3 + AMCL", measure] - values[scratch, measure])
        assert word.format(gap) in text


def test_the_page_has_the_gains_of_the_table(page, rows):
    gains = {
        row["method"]: f"({float(row['mean']):+.1f}, the paper has {float(row['paper']):+.1f})"
        for row in rows
        if row["what"] == "gain" and row["measure"] == "box AP"
    }
    assert set(gains) == {"MoCo v3", "LGP"}
    for gain in gains.values():
        assert gain.replace("-", "−") in " ".join(page.split())


def test_the_page_has_the_rates(page):
    kept = json.loads((ROOT / "benchmarks/results/table_7_rates.json").read_text(encoding="utf-8"))
    low, high = (f"{100 * kept[f'lr {rate}']['box_AP50']:.1f} %" for rate in (0.001, 0.003))
    assert f"AP50 was {low} at a rate of 1e-3 and {high} at 3e-3" in " ".join(page.split())
