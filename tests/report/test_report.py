"""What a report says of runs, read from its blocks and from the page in a browser."""

import re
from dataclasses import replace

import pytest
import torch

import browser
from amcl.analysis import scaled, separations
from amcl.checkpoints import read_metrics
from amcl.evaluation import Result
from amcl.metrics.scores import by_class
from amcl.report import Beside, Chart, Gallery, Map, Note, report
from amcl.report.sections.cost import cost
from amcl.report.sections.galleries import image_map, nearest, pairs
from amcl.report.sections.heads import heads
from amcl.report.sections.results import results
from amcl.report.sections.settings import settings
from amcl.report.sections.similarity import similarity
from amcl.report.sections.temperatures import temperatures
from amcl.report.sections.training import training
from amcl.results import Table
from browser import needs_browser
from report_blocks import of, read, words

pytestmark = pytest.mark.usefixtures("few_images")


def drawn(chart):
    """The lines of a chart by their labels."""
    (ax,) = chart.figure.axes
    return {line.get_label(): line.get_xydata() for line in ax.lines}


@pytest.fixture(scope="module")
def two(runs):
    return read(runs("amcl"), runs("plain"))


def test_curves_are_those_of_the_metrics(two):
    section = training(two)
    charts = {chart.figure.axes[0].get_ylabel(): chart for chart in of(section, Chart)}
    assert list(charts) == [
        *("loss", "kNN accuracy, validation (%)", "effective rank", "spread"),
    ]
    for run in two:
        rows = read_metrics(run.path)
        expected = [[r["epoch"], r["loss"]] for r in rows if r["kind"] == "epoch"]
        assert drawn(charts["loss"])[run.name].tolist() == expected
        knn = [[r["epoch"], 100 * r["knn_validation"]] for r in rows if r["kind"] == "probe"]
        assert drawn(charts["kNN accuracy, validation (%)"])[run.name].tolist() == knn
    assert of(section, Note) == []


def test_methods_have_losses_of_their_own(runs):
    section = training(read(runs("amcl"), runs("barlow"), runs("plain")))
    first, second = of(section, Chart)[:2]
    assert (set(drawn(first)), set(drawn(second))) == ({"amcl", "plain"}, {"barlow"})
    colors = [line.get_color() for line in first.figure.axes[0].lines]
    probes = of(section, Chart)[2].figure.axes[0].lines
    assert [line.get_color() for line in probes] == [
        *(colors[0], second.figure.axes[0].lines[0].get_color(), colors[1])
    ]  # a run has one color everywhere


def test_similarities_are_those_of_the_sample(two):
    section = similarity(two)
    (table,) = of(section, Table)
    expected = []
    for run in two:
        for where, s in separations(run.sample).items():
            means = (f"{value:.3f}" for value in list(s.metrics.values())[:3])
            expected.append((run.name, where, *means, f"{s.auroc:.4f}"))
    assert list(table.rows) == expected
    labels = [chart.figure.axes[0].get_xlabel() for chart in of(section, Chart)]
    assert labels == ["s/τ, mean over heads", "cosine similarity"] * 2
    (columns,) = (block for block in section.blocks if isinstance(block, Beside))
    assert [name for name, _ in columns.columns] == ["amcl", "plain"]


def test_temperatures_by_head_and_sign(two):
    section = temperatures(two)
    rows, variances = of(section, Table)
    assert [row[:3] for row in rows.rows] == [
        *(("amcl", "1", "positive"), ("amcl", "2", "positive")),
        *(("amcl", "1", "negative"), ("amcl", "2", "negative")),
        *(("plain", "1", "positive"), ("plain", "1", "negative")),
    ]
    tau = two[0].sample.tau
    assert rows.rows[1][3] == f"{tau[1].diagonal().mean():.3f}"
    assert rows.rows[4][3:6] == ("0.200", "0.000", "0.200")  # constant
    assert rows.rows[4][-1] == "–"
    own = torch.stack([head.diagonal() for head in tau])
    between = own.var(0, correction=0).mean()
    assert variances.rows[0][:3] == ("amcl", "positive pairs", f"{between:.2g}")
    assert len(variances.rows) == 2  # one head differs from no other
    assert "one temperature (constant)" in words(section)
    assert section.folded == ""
    courses = [chart for chart in of(section, Chart) if "by epoch" in chart.alt]
    lines = [r for r in two[0].rows if r["kind"] == "epoch"]
    assert drawn(courses[1])["head 2"].tolist() == [
        [r["epoch"], r["tau_negative/head2"]] for r in lines
    ]


def test_a_run_with_one_head_and_one_temperature_has_no_empty_columns(two):
    section = temperatures(two[1:])
    (rows,) = of(section, Table)
    assert rows.header == ("pairs", "mean", "std", "5%", "median", "95%")
    assert [row[:2] for row in rows.rows] == [("positive", "0.200"), ("negative", "0.200")]
    assert section.folded == "All pairs of plain have one temperature (constant)."
    assert heads(two[1:]).folded == "plain has one head, which cannot agree with another."
    assert heads(two).folded == ""


def test_temperatures_at_a_bound_are_shown(two):
    none = [
        {name: 0.0 if name.startswith("at_") else value for name, value in row.items()}
        for row in two[0].rows
    ]
    rows = [
        row | {"at_upper_negative/head2": 0.25 * row["epoch"]} if row["kind"] == "epoch" else row
        for row in none
    ]
    section = temperatures([replace(two[0], rows=rows)])
    (chart,) = [chart for chart in of(section, Chart) if "bounds by epoch" in chart.alt]
    assert drawn(chart)["τ⁻ at the upper bound"].tolist() == [[1, 25], [2, 50]]
    free = words(temperatures([replace(two[0], rows=none)]))
    assert "lie at a bound" in free  # that there are none is said


def test_heads_and_what_they_find(two):
    section = heads(two)
    (table,) = of(section, Table)
    assert [row[:2] for row in table.rows] == [
        *(("amcl", "head 1"), ("amcl", "head 2"), ("amcl", "mean of heads")),
        *(("amcl", "backbone"), ("plain", "head 1"), ("plain", "backbone")),
    ]
    s = two[0].sample.s[1]
    assert table.rows[1][2] == f"{(s.argmax(1) == torch.arange(40)).double().mean():.1%}"
    correlation, overlap, course = of(section, Chart)
    expected = [
        [row["epoch"], row["head_agreement"]]
        for row in read_metrics(two[0].path)
        if row["kind"] == "epoch"
    ]
    assert drawn(course)["heads"].tolist() == expected
    assert f"at the end {expected[-1][1]:.3f}" in course.alt
    assert "1 and 2" in correlation.alt
    assert len(correlation.figure.axes[0].texts) == 4
    assert "one head" in words(section)
    assert "2.5% and" in table.caption  # one of 40 images by chance
    assert overlap.caption.startswith("Images among the 10")


def test_galleries_have_the_views_and_their_numbers(two):
    run = two[0]
    positive, negative = of(pairs([run]), Gallery)
    tau = torch.stack([head.diagonal() for head in run.sample.tau])
    i = int(tau.mean(0).argmax())
    first = positive.items[0]
    assert torch.equal(first.images[0], run.sample.views[0, i])
    assert torch.equal(first.images[1], run.sample.views[1, i])
    assert first.lines[1] == "τ  " + "  ".join(f"{t:.2f}" for t in tau[:, i].tolist())
    assert first.title == run.sample.classes[run.sample.labels[i]]
    alike = scaled(run.sample).fill_diagonal_(-torch.inf)
    i, j = divmod(int(alike.argmax()), 40)
    assert torch.equal(negative.items[0].images[1], run.sample.views[1, j])
    (near,) = of(nearest([run]), Gallery)
    assert len(near.items) == 10
    assert near.items[0].good[0] is None
    assert {len(item.images) for item in near.items} == {7}
    (points,) = of(image_map([run], "pca", 0), Map)
    assert points.points.shape == (40, 2)
    assert points.labels[5] == run.sample.classes[run.sample.labels[5]]


def test_cost_is_held_against_the_baseline(two):
    (table,) = of(cost(two[:1]), Table)
    rows = {row[0].strip(): row[1:] for row in table.rows}
    assert table.header == ["", "baseline", "this run", "ratio"]
    assert float(rows["heads"][2]) > 1.5
    assert rows["parameters at inference, M"][2] == "1.000"
    assert rows["images a second, in training"][1] != ""
    assert "--measure" in words(cost(two[:1]))
    assert "memory" not in " ".join(rows)
    (own,) = of(cost(two[1:]), Table)
    assert own.header == ["", "this run"]
    assert "nothing is added" in cost(two[1:]).folded
    assert cost(two[:1]).folded == ""
    (both,) = of(cost(two), Table)
    assert both.header == ["", "amcl", "plain", "ratio"]


def test_results_of_evaluations_are_shown(two, tmp_path):
    assert "amcl evaluate" in words(results(two[:1]))
    model = {"name": "amcl", "sha256": "1"}
    settings_ = {"k": 20, "tau": 0.1, "metric": "cosine"}
    first = Result(
        protocol="knn",
        data="builtin",
        split="validation",
        metrics={"top1": 0.51, "top5": 0.9},
        model=model,
        settings=settings_,
        seed=0,
    )
    second = replace(first, model=model | {"sha256": "2"}, metrics={"top1": 0.612})
    (table,) = of(results([replace(two[0], results=[first, second])]), Table)
    assert [row[:3] for row in table.rows] == [
        ("knn (older weights)", "builtin, validation", "top1 51.0%, top5 90.0%"),
        ("knn", "builtin, validation", "top1 61.2%"),
    ]


def judged(count, protocol="linear"):
    """A result on `count` classes, each of 4 images, of which one is taken for the next class."""
    names = [f"class {i}" for i in range(count)]
    truth = torch.arange(count).repeat_interleave(4)
    predicted = truth.clone()
    predicted[::4] = (truth[::4] + 1) % count
    return Result(
        protocol=protocol,
        data="builtin",
        split="validation",
        metrics={"top1": 0.75},
        model={"name": "amcl", "sha256": "1"},
        settings={},
        seed=0,
        details=by_class(predicted, truth, names),
    )


def test_few_classes_have_a_confusion_matrix_and_an_accuracy_each(two):
    others = [replace(judged(10, name), metrics={"top1": 0.5}) for name in ("knn", "logistic")]
    most_accurate = judged(10)
    section = results([replace(two[0], results=[others[0], most_accurate, others[1]])])
    assert "linear on builtin, validation: accuracy 75.0%, balanced accuracy" in words(section)
    (chart,) = of(section, Chart)
    texts = [text.get_text() for text in chart.figure.axes[0].texts]
    assert sorted(texts) == sorted(["3", "1"] * 10)
    assert chart.figure.axes[0].get_xticklabels()[0].get_text() == "class 0"
    table = of(section, Table)[-1]
    assert table.rows[3] == ("class 3", "75.0%", "4")
    assert len(table.rows) == 10


def test_many_classes_have_the_pairs_that_are_confused_most(two):
    section = results([replace(two[0], results=[judged(30)])])
    assert of(section, Chart) == []
    pairs, lowest = of(section, Table)[1:]
    assert pairs.rows[0] == ("class 0", "class 1", "1")
    assert (len(pairs.rows), len(lowest.rows)) == (10, 10)
    assert "of 30" in lowest.caption


def test_settings_that_differ(two):
    (table,) = of(settings(two), Table)
    assert {row[0]: row[1:] for row in table.rows} == {
        "method.heads": ("2", "1"),
        "method.temperature.name": ("adaptive", "constant"),
        "method.projector_last_norm": ("plain", "none"),
    }


@pytest.fixture(scope="module")
def whole_page(runs, tmp_path_factory):
    """The page of a run, by the one call that makes it."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    assert report(runs("amcl"), path) == path
    return path


def test_the_page_of_a_run_is_one_file(whole_page):
    assert [path.name for path in whole_page.parent.iterdir()] == ["page.html"]
    text = whole_page.read_text()
    assert len(text) < 3e6
    at_bounds = text.count("Shares of temperatures at the bounds")  # drawn where there are some
    histograms = text.count('aria-label="Histograms of τ')  # drawn where temperatures differ
    assert text.count('<svg class="drawing"') == 11 + at_bounds + histograms
    assert not re.search(r"https?:", text)


@needs_browser
def test_the_page_of_a_run_in_a_browser(whole_page, two):
    seen = browser.try_page(whole_page, browser.IN_USE, width=380, dark=True)
    assert seen.console == []
    for said in ("The most uncertain positive pairs", "AUROC", "config.toml", "40 images"):
        assert said in seen.text
    found, sample = seen.found, two[0].sample
    assert found["images"]
    assert found["theme"] == ["Light", "Dark"]
    assert found["sideways"] == 0  # nothing is wider than a telephone
    assert found["hidden"] == [True, False, True, False, True]
    classes = [sample.classes[i] for i in sample.labels.tolist()]
    assert found["tip"] == [classes[1], "-96px 0px"]
    assert found["bright"] == [name == classes[1] for name in classes]


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_pages_of_many_kinds_in_a_browser(runs, tmp_path, dark):
    names = ("amcl", "plain", "simsiam", "barlow", "mae", "unlabeled")
    path = report([runs(name) for name in names], tmp_path / "page.html")
    script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for width in (1200, 380):
        seen = browser.try_page(path, script, width=width, dark=dark)
        assert seen.console == []
        assert seen.found == 0
        assert all(name in seen.text for name in names)
