"""What the paper's entries are of, and its numbers, against a second copy of its tables."""

import os
from pathlib import Path

import pytest

from amcl.config.fields import changes, spelled
from amcl.experiments import ENTRIES, SCALES
from amcl.experiments.filled_table import FilledTable
from amcl.experiments.paper.numbers import TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_8
from amcl.experiments.specs import AMCL, BASELINE, NONE, SCRATCH, SIDE
from amcl.recipes import default
from amcl.results import Measurement

PAPER = SCALES["paper"]

# The rows of the paper, as it prints them.
PRINTED_3 = """
cifar10      baseline 89.9 90.4 90.7 87.4
cifar10      + AMCL   92.2 92.9 93.0 90.0
cifar100     baseline 57.6 64.4 63.6 58.2
cifar100     + AMCL   61.8 69.3 68.9 62.1
tinyimagenet baseline 48.1 46.4 46.7 46.8 53.2 56.7
tinyimagenet + AMCL   50.0 47.8 49.0 48.3 54.9 57.8
imagenet     baseline 66.5 67.4 68.1 70.0 70.5 73.8
imagenet     + AMCL   68.1 69.3 69.6 72.7 71.6 75.0
"""
PRINTED_6 = """
a     baseline 26.3 39.9 26.4 33.7
a     + AMCL   27.0 40.3 27.0 34.7
ab    baseline 28.0 40.2 26.6 34.2
ab    + AMCL   29.0 40.9 27.3 35.1
abc   baseline 44.4 57.3 51.5 49.8
abc   + AMCL   46.2 61.0 55.4 51.3
abcd  baseline 55.4 62.7 60.7 55.0
abcd  + AMCL   58.5 66.3 67.0 58.4
abcde baseline 57.6 64.4 63.6 58.2
abcde + AMCL   61.8 69.3 68.9 62.1
"""
PRINTED_4 = {"ViT-B": (83.6, 83.2, 84.1, 83.9, 84.7), "ViT-L": (85.9, 84.1, 85.3, 85.9, 87.4)}
PRINTED_5 = """
10 61.0 71.1 64.3 64.3
20 68.5 76.4 70.4 71.3
50 73.5 79.4 74.6 76.4
100 76.5 81.4 77.7 78.4
200 78.6 81.9 79.4 80.0
500 80.6 83.7 80.0 81.7
"""
METHODS = ("SimCLR", "MoCo", "SimSiam", "Barlow Twins", "CAN", "LGP")


def rows(printed):
    for line in printed.strip().splitlines():
        first, *words = line.replace("+ AMCL", "+AMCL").split()
        side = {"baseline": BASELINE, "+AMCL": AMCL}.get(words[0])
        yield first, side, [float(word) for word in (words[1:] if side else words)]


@pytest.mark.parametrize(("printed", "table"), [(PRINTED_3, TABLE_3), (PRINTED_6, TABLE_6)])
def test_tables_by_method(printed, table):
    expected = {
        (first, side, method): value
        for first, side, values in rows(printed)
        for method, value in zip(METHODS, values, strict=False)
    }
    assert table == expected


def test_tables_of_temperatures_vits_and_cost():
    expected = {
        (first, side): value
        for first, _, values in rows(PRINTED_5)
        for side, value in zip((BASELINE, AMCL, "TaU", "TS"), values, strict=True)
    }
    assert expected == TABLE_5
    columns = [("MAE", BASELINE)]
    columns += [(m, side) for m in ("MoCo v3", "LGP") for side in (BASELINE, AMCL)]
    expected = {
        (backbone, *column): value
        for backbone, values in PRINTED_4.items()
        for column, value in zip(columns, values, strict=True)
    }
    assert expected == TABLE_4
    assert list(TABLE_8.values()) == [
        (25.6, 1.1, 3.5, 0.3),
        (25.6, 1.1, 4.1, 0.4),
        (87.0, 2.1, 68.5, 4.1),
        (194.3, 2.1, 76.1, 4.4),
    ]


@pytest.mark.parametrize("name", ["table-3", "table-4", "table-5", "table-6"])
def test_every_place_of_a_table_has_the_papers_number(name):
    specs = ENTRIES[name].make(PAPER, ENTRIES[name].sets)
    assert all(cell.paper is not None for spec in specs for cell in spec.cells)
    assert not any("none of the paper's" in note for spec in specs for note in spec.notes)


def test_numbers_of_other_sets_are_told():
    specs = ENTRIES["table-5"].make(SCALES["cpu"], ("cifar10",))
    assert "numbers are of stl10; the runs here are on cifar10" in specs[0].notes[-1]
    specs = ENTRIES["table-3"].make(SCALES["cpu"], ("cifar100", "pictures"))
    assert specs[0].notes == (
        "pictures is none of the paper's sets: beside it stand those of CIFAR-10.",
    )
    papers = {tuple(c.labels.values()): c.paper for c in specs[0].cells}
    assert papers["cifar100", AMCL, "MoCo"] == 69.3
    assert papers["pictures", AMCL, "MoCo"] == 92.9


SIDES_WITH_GAIN = (BASELINE, AMCL, f"gain of {AMCL}")


def test_table_7_compares_with_the_same_network_from_scratch():
    [spec] = ENTRIES["table-7"].make(SCALES["cpu"], ("cifar10",))
    scratch = [cell for cell in spec.cells if cell.metric.scratch]
    assert {cell.labels[SIDE] for cell in scratch} == {SCRATCH}
    assert [c.metric.name for c in scratch] == ["box AP", "box AP50", "mask AP"]
    assert len({cell.config.backbone for cell in spec.cells}) == 1
    values = {"baseline": 0.2, AMCL: 0.3, SCRATCH: 0.1}
    measured = tuple(
        Measurement.of({0: values[cell.labels[SIDE]], 1: values[cell.labels[SIDE]]})
        for cell in spec.cells
    )
    table = FilledTable(spec, measured).table()
    assert table.header == ["backbone", "method", "side", "box AP", "box AP50", "mask AP"]
    rows = [[str(getattr(cell, "text", cell)) for cell in row] for row in table.rows]
    assert [row[1:3] for row in rows] == [
        *([method, side] for method in ("MoCo v3", "LGP") for side in SIDES_WITH_GAIN),
        [NONE, SCRATCH],
    ]
    assert rows[-1][3:] == ["10.0 ± 0.0"] * 3


def cells(name):
    """(labels, what differs from the recipe, metric) of every case, at the paper's scale."""
    for spec in ENTRIES[name].make(PAPER, ENTRIES[name].sets):
        for cell in spec.cells:
            base = default(cell.config.data.source, cell.config.method.name)
            changed = {n: spelled(value) for n, value in changes(base, cell.config).items()}
            yield spec.name, cell.labels, changed, cell.metric


def test_entries_are_frozen():
    """What the paper's entries run changes only on purpose."""
    lines = [
        f"{name} {spec} | {', '.join(f'{k}={v}' for k, v in labels.items())} | "
        f"{' '.join(f'{k}={v}' for k, v in changed.items())} | {metric.source} {metric.key}"
        for name, entry in ENTRIES.items()
        if entry.make is not None
        for spec, labels, changed, metric in cells(name)
    ]
    frozen = Path(__file__).with_name("entries.txt")
    if os.environ.get("AMCL_FREEZE"):
        frozen.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == frozen.read_text(encoding="utf-8").splitlines()


def test_temperatures_of_others_are_as_they_published_them():
    found = {labels["side"]: changed for _, labels, changed, _ in cells("table-5")}
    assert found["TaU"] == {"heads": "3", "temperature": "uncertainty", "tau": "0.1"}
    assert found["TS"] == {
        "heads": "3",
        "temperature": "scheduled",
        "tau_lower": "0.1",
        "tau_upper": "1.0",  # its period of 400 epochs is the default
    }
    assert found[AMCL] == {"heads": "3", "temperature": "adaptive"}
    assert found[BASELINE] == {}


def test_figure_7_has_constant_temperatures_where_it_says():
    found = {
        labels["side"]: changed.get("temperature", "constant")
        for spec, labels, changed, _ in cells("figure-7")
        if spec == "temperatures"
    }
    # A constant τ⁺ leaves the negative pairs to adapt.
    assert found["constant τ⁺"] == "adaptive-negative"
    assert found["constant τ⁻"] == "adaptive-positive"
    assert found["from head 1"] == "first-head"
    assert found["fully adaptive"] == "adaptive"


def test_views_and_metrics_of_figure_1_and_table_6():
    assert {labels["augmentations"] for _, labels, _, _ in cells("figure-1")} == {
        "a",
        "abc",
        "abcde",
    }
    assert {metric.source for _, _, _, metric in cells("figure-1")} == {"pairs"}
    assert {metric.source for _, _, _, metric in cells("table-6")} == {"linear"}
    for _, labels, changed, _ in cells("table-6"):
        assert changed.get("views", "abcde") == labels["augmentations"]


def test_forms_of_figure_5():
    found = {
        labels["side"]: (changed.get("form", "softmax"), changed.get("top_k", NONE))
        for spec, labels, changed, _ in cells("figure-5")
        if spec == "negatives"
    }
    assert found["softmax of all"] == ("softmax", NONE)
    assert found["mean of the top κ"][0] == "top_k"
    assert found["softmax of the top κ"][0] == "top_k_softmax"


def test_epochs_of_figure_4():
    found = {labels["epochs"] for _, labels, _, _ in cells("figure-4")}
    assert found == {"100", "200", "400"}
    for _, labels, changed, _ in cells("figure-4"):
        own = {"simclr": "200", "can": "800"}  # of the recipes
        method = "can" if "vit" in labels["backbone"] and "optimizer" not in changed else "simclr"
        assert changed.get("epochs", own[method]) == labels["epochs"]


def test_wider_heads_are_those_of_the_paper():
    widths = {labels["width"].split("×")[0] for _, labels, _, _ in cells("wider-head")}
    assert {"1", "2", "3", "4"} <= widths  # the paper's best has four times the width
