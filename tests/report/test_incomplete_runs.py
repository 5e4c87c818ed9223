"""Pages of runs that lack something: heads, negatives, labels, epochs."""

import shutil

import pytest

from amcl.errors import RunError
from amcl.report import Chart, Gallery, Map, Note, ReportSettings, report
from amcl.report.compose import page_of
from amcl.report.sections.cost import cost
from amcl.report.sections.galleries import pairs
from amcl.report.sections.heads import heads
from amcl.report.sections.similarity import similarity
from amcl.report.sections.temperatures import temperatures
from amcl.report.sections.training import training
from amcl.results import Table
from report_blocks import of, read, words
from tiny_runs import picture_folder

pytestmark = pytest.mark.usefixtures("few_images")


def test_a_method_without_heads(runs):
    (run,) = read(runs("mae"))
    assert [chart.alt.split(":")[0] for chart in of(similarity([run]), Chart)] == [
        "Histograms of positive and negative pairs after the backbone"
    ]
    assert "mae has no heads" in words(similarity([run]))
    assert "no temperatures" in temperatures([run]).folded
    assert heads([run]).folded == "mae has no heads."
    assert of(temperatures([run]), Chart) == []
    assert [row[0] for row in of(heads([run]), Table)[0].rows] == ["backbone"]
    positive, _ = of(pairs([run]), Gallery)
    assert [len(item.lines) for item in positive.items] == [1] * 12
    assert of(cost([run]), Table)[0].header == ["", "this run"]


def test_a_loss_without_negatives(runs):
    (run,) = read(runs("simsiam"))
    assert "simsiam knows no negative pairs" in words(similarity([run]))
    section = temperatures([run])
    rows, variances = of(section, Table)
    assert {row[1] for row in rows.rows} == {"positive"}
    assert [row[0] for row in variances.rows] == ["positive pairs"]
    assert not any("τ⁻" in chart.alt for chart in of(section, Chart))


def test_temperatures_of_channels(runs):
    (run,) = read(runs("barlow"))
    assert "those of channels" in words(similarity([run]))
    axes = [chart.figure.axes[0].get_xlabel() for chart in of(similarity([run]), Chart)]
    assert axes == ["cosine similarity"] * 2  # nothing is divided
    captions = [chart.caption for chart in of(temperatures([run]), Chart)]
    assert captions[0].startswith("Positive pairs of channels.")
    positive, _ = of(pairs([run]), Gallery)
    assert all(not line.startswith("τ") for item in positive.items for line in item.lines)


def test_without_labels_the_rest_is_shown(runs):
    (run,) = read(runs("unlabeled"))
    page = page_of([run], ReportSettings())
    by_title = {section.title: section for section in page.sections}
    assert list(by_title) == [
        *("Training", "Similarity of pairs", "Temperatures", "Heads", "Pairs"),
        *("Nearest neighbors", "Map", "Evaluation", "Cost", "Settings"),
    ]
    labels = [c.figure.axes[0].get_ylabel() for c in of(by_title["Training"], Chart)]
    assert labels == ["loss", "effective rank", "spread"]
    assert "no labels" in words(by_title["Training"])
    assert "no labels" in words(by_title["Heads"])
    assert of(by_title["Heads"], Table)[0].header == ("by", "own image first")
    (near,) = of(by_title["Nearest neighbors"], Gallery)
    assert all(item.good == [] for item in near.items)
    assert of(by_title["Map"], Map)[0].labels is None
    assert not any("kNN" in name for name, _ in page.facts)


def test_what_is_missing_is_said(runs, tmp_path):
    run = tmp_path / "gone"
    shutil.copytree(runs("unlabeled"), run)
    config = run / "config.toml"
    config.write_text(config.read_text().replace("pictures", "moved"))
    (read_run,) = read(run)
    page = page_of([read_run], ReportSettings())
    titles = [section.title for section in page.sections]
    assert titles == [
        *("Training", "Temperatures", "Evaluation", "Cost", "Settings"),
    ]
    (note,) = of(page.sections[0], Note)
    assert "moved" in note.text
    assert "--data" in note.text
    assert of(page.sections[0], Chart)
    assert "see Training" in words(page.sections[1])
    assert any("by epoch" in chart.alt for chart in of(page.sections[1], Chart))
    assert of(page.sections[3], Table)  # counted by the size that the backbone was trained with
    with pytest.raises(FileNotFoundError, match="nowhere"):  # what is asked for must be there
        report(run, tmp_path / "r.html", ReportSettings(data=str(tmp_path / "nowhere")))
    assert not (tmp_path / "r.html").exists()


def test_other_images_are_named_on_the_page(runs, tmp_path):
    folder = picture_folder(tmp_path / "others", count=12)
    page = report(runs("amcl"), tmp_path / "page.html", ReportSettings(data=str(folder)))
    assert page.read_text(encoding="utf-8").count("12 training images of others") == 2


def test_a_map_whose_package_is_missing(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("amcl.extras.find_spec", lambda name: name != "umap" or None)
    with pytest.raises(RunError, match=r"--map umap needs umap, .*pip install '\.\[umap\]'.*pca"):
        report(runs("amcl"), tmp_path / "page.html", ReportSettings(map="umap"))


def test_an_unfinished_run_is_shown_as_far_as_it_is(runs, tmp_path):
    run = tmp_path / "begun"
    shutil.copytree(runs("amcl"), run)
    (run / "backbone.safetensors").unlink()
    (read_run,) = read(run)
    (note,) = of(training([read_run]), Note)
    assert "has not ended: 2 of 2 epochs" in note.text
    assert f"amcl pretrain --resume {run}" in note.text
    assert read_run.sample is not None
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").unlink()
    (empty,) = read(run)
    told = words(training([empty]))
    assert "no metrics yet" in told
    assert "saved nothing yet" in told
    page = page_of([empty], ReportSettings()).html()
    assert "saved nothing yet" in page


def test_runs_are_named_once(runs, tmp_path):
    with pytest.raises(ValueError, match=r"/amcl .*\(as .*/amcl\)"):
        read(runs("amcl"), runs("amcl").parent / "amcl")
    with pytest.raises(RunError, match=r"no config\.toml"):
        read(tmp_path)
    with pytest.raises(ValueError, match="amcl report RUN RUN"):
        read()
    with pytest.raises(ValueError, match=r"\bmap\b.*'pca', 'umap', 'tsne'.*'som'"):
        ReportSettings(map="som")
