"""The paragraph on top of a page: what it says of runs that went well, badly, or not far."""

from dataclasses import replace

import pytest

from amcl.evaluation import Result
from amcl.report import ReportSettings
from amcl.report.compose import page_of
from amcl.report.glossary import EXPLANATIONS
from amcl.report.summary import summary
from amcl.results import Table
from report_blocks import of, read

pytestmark = pytest.mark.usefixtures("few_images")


@pytest.fixture(scope="module")
def two(runs):
    return read(runs("amcl"), runs("plain"))


def probed(run, *accuracies, spread=0.7):
    """The run with other probes, one after each epoch, and as many epochs."""
    config = replace(run.config, run=replace(run.config.run, epochs=len(accuracies)))
    epoch = run.of("epoch")[-1]
    rows = [epoch | {"epoch": i} for i in range(1, len(accuracies) + 1)]
    rows += [
        {"kind": "probe", "epoch": i, "step": i, "knn_validation": value, "spread": spread}
        for i, value in enumerate(accuracies, 1)
    ]
    return replace(run, rows=rows, config=config)


def judged(run, protocol="linear", top1=0.7, **settings):
    """The run with a result on test images."""
    result = Result(
        protocol=protocol,
        data="builtin",
        split="test",
        metrics={"top1": top1},
        model={"name": run.name, "sha256": run.name},
        settings=settings,
        seed=0,
    )
    return replace(run, results=[*run.results, result])


def test_what_was_learned_and_what_to_do_next(two):
    run = probed(two[0], 0.2, 0.3, 0.4, 0.5, 0.55, 0.6)
    text = summary([run])
    assert "k nearest neighbors classify the validation images with an accuracy of 60.0%" in text
    most = 100 * run.sample.labels.bincount().max() / len(run.sample)
    assert f"always naming the most frequent class would have about {most:.1f}%" in text
    assert f"In {100 * run.separations['backbone'].auroc:.1f}% of cases" in text
    assert "still rose by 10.0 points in the last third" in text
    assert f"amcl pretrain --resume {run.path} --epochs 12" in text
    assert f"Next, evaluate the backbone on test images: `amcl evaluate {run.path}`." in text


def test_an_evaluation_counts_more_than_a_probe(two):
    run = judged(judged(probed(two[0], 0.2, 0.2, 0.2), top1=0.712), "knn", top1=0.5)
    text = summary([run])
    assert "a linear classifier classifies the test images with an accuracy of 71.2%" in text
    assert "hardly rose" in text
    assert f"amcl export {run.path}" in text
    assert "amcl evaluate" not in text


def test_a_collapse_is_all_that_counts(two):
    text = summary([probed(two[0], 0.2, 0.1, spread=0.01)])
    assert text.startswith("The features have collapsed")
    assert "(spread 0.010)" in text
    assert "--projector-last-norm plain" in text
    assert "accuracy" not in text


def test_temperatures_that_adapt_or_do_not(two):
    run = two[0]

    def told(**values):
        heads = [replace(row, **values) for row in run.temperatures.heads]
        other = replace(run)
        other.__dict__["temperatures"] = replace(run.temperatures, heads=tuple(heads))
        return summary([other])

    spread = {"at_lower": 0.0, "at_upper": 0.0, "std": 0.05, "mean": 0.2}
    quantiles = (0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
    assert "lie between 0.1 and 0.3" in told(**spread, quantiles=quantiles)
    assert "about the same temperature" in told(**spread | {"std": 0.0001})
    text = told(**spread | {"at_upper": 0.8})
    assert "80.0% of the temperatures of positive pairs lie at the upper bound" in text
    assert "raise the temperature they vary around (`--tau`)" in text
    assert "lower the temperature they vary around" in told(**spread | {"at_lower": 0.8})
    assert "emperatures" not in summary(two[1:])  # a constant one


def test_a_run_without_labels_or_without_its_end(runs, two, tmp_path):
    (run,) = read(runs("unlabeled"))
    text = summary([replace(run, rows=[])])
    assert "accuracy" not in text
    assert f"amcl curate {run.path}" in text
    begun = replace(two[0], path=tmp_path / "begun")
    assert f"Next, finish the training: `amcl pretrain --resume {begun.path}`." in summary([begun])


def test_runs_are_compared_by_what_all_of_them_have(two):
    runs = [probed(two[0], 0.6, 0.61), probed(two[1], 0.5, 0.58)]
    text = summary(runs)
    assert "k nearest neighbors on validation images: amcl 61.0%, plain 58.0%." in text
    assert "amcl is 3.0 points ahead of plain" in text
    assert "amcl sweep --grid seed=0,1,2" in text
    assert "collapsed" not in text
    evaluated = [judged(runs[0], top1=0.5, k=1), judged(runs[1], top1=0.6, k=1)]
    assert "linear classifier on test images: plain 60.0%, amcl 50.0%." in summary(evaluated)
    others = [judged(runs[0], top1=0.5, k=1), judged(runs[1], top1=0.6, k=2)]
    assert "nearest neighbors on validation images" in summary(others)  # other settings
    data = replace(runs[1].config, data=replace(runs[1].config.data, validation=7))
    assert "No accuracy was measured" in summary([runs[0], replace(runs[1], config=data)])
    text = summary([runs[0], probed(two[1], 0.5, 0.1, spread=0.01)])
    assert text.endswith("The features of plain have collapsed.")


def test_the_page_begins_with_it_and_explains_its_numbers(two):
    page = page_of(two[:1], ReportSettings())
    assert page.summary == summary(two[:1])
    columns = {name for name, _ in page.facts}
    for title in ("Similarity of pairs", "Temperatures", "Heads"):
        (section,) = (section for section in page.sections if section.title == title)
        for table in of(section, Table):
            columns |= set(table.header[table.left :])
    assert columns - {"pairs"} <= set(EXPLANATIONS)
