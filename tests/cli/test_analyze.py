"""`amcl analyze`: from a question to a page."""

import csv
import re

import pytest

from amcl.cli import main
from amcl.config.fields import with_values
from amcl.errors import Interrupted, RunError
from amcl.experiments import ANALYSES, analyze
from amcl.recipes import recipe
from amcl.sweep import SweepFolder
from tiny_runs import interrupt_at, picture_folder

QUICK = ["--data", "builtin", "--epochs", "1", "--batch-size", "32", "--subset", "64"]
pytestmark = pytest.mark.usefixtures("few_images")


@pytest.fixture
def quick():
    values = {"epochs": 1, "batch_size": 32, "subset": 64, "knn_k": 5}
    return with_values(recipe("builtin-simclr"), values)


@pytest.mark.slow
def test_from_a_question_to_a_page(tmp_path, capsys):
    out = ["--out", str(tmp_path / "first [red]")]  # no mark-up
    told = ["analyze", "heads", *QUICK, "--values", "1", "2", "--seeds", "0", "1", *out]
    assert main(told) == 0
    said = capsys.readouterr().out
    assert "Number of projection heads" in said
    assert "adaptive τ" in said
    folder = tmp_path / "first [red]" / "heads"
    assert "first [red]/heads/index.html" in said.replace("\n", "")
    html = (folder / "index.html").read_text()
    assert "amcl analyze heads --data builtin" in re.sub(r"<[^>]+>", "", html)
    assert (folder / "heads.png").is_file()
    with (folder / "numbers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["heads"], row["runs"]) for row in rows] == [("–", "2"), ("1", "2"), ("2", "2")]
    runs = SweepFolder(tmp_path / "first [red]" / "runs").read_points()
    assert len(runs) == 6
    # Another question to the same runs needs those only that are new.
    assert main(["analyze", "tau", *QUICK, "--values", "0.2", *out]) == 0
    assert len(SweepFolder(tmp_path / "first [red]" / "runs").read_points()) == 6 + 2  # three heads


def test_pictures_without_labels(tmp_path, quick, capsys):
    folder = str(picture_folder(tmp_path / "pictures", 40, 32))
    base = with_values(quick, {"data": folder, "subset": 32, "batch_size": 16, "workers": 0})
    page = analyze("augmentations", base, tmp_path / "out", values=("a",), metric="auroc")
    assert "AUROC of pairs" in page.read_text()
    with pytest.raises(ValueError, match=r"has no labels in use.*--metric auroc"):
        analyze("augmentations", base, tmp_path / "other", values=("a",), tell=lambda line: None)
    assert not (tmp_path / "other").exists()  # told before anything was trained


@pytest.mark.slow
def test_few_labels_are_those_asked_for(tmp_path, quick):
    def counts(values):
        page = analyze("labels", quick, tmp_path, values=values, tell=lambda line: None)
        with (page.parent / "numbers.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if row["what"] == "value"]
        return page, {row["labels a class"]: bool(row["mean"]) for row in rows}

    assert counts(("3",))[1] == {"3": True}
    # The same runs are judged again by those that have not been; six a class is all there are.
    page, found = counts(("2", "3", "7"))
    assert found == {"2": True, "3": True, "7": False}
    assert "seed 0: too few labeled images" in (page.parent / "table.md").read_text()


@pytest.mark.slow
def test_each_split_has_its_own_numbers(tmp_path, quick, monkeypatch):
    def judge(config, run, protocols, split, settings):
        return {f"{p}_top1_{split}": {"test": 0.5, "validation": 0.25}[split] for p in protocols}

    monkeypatch.setattr("amcl.sweep.runs.evaluate_run", judge)
    monkeypatch.setattr("amcl.sweep.runs.check_split", lambda config, split: None)
    for order in (("validation", "test"), ("test", "validation")):
        for split in order:
            out = tmp_path / order[0]
            page = analyze("heads", quick, out, values=("1",), split=split, tell=lambda line: None)
            shown = "50.0" if split == "test" else "25.0"
            assert f"| baseline | {shown} |" in (page.parent / "table.md").read_text()


@pytest.mark.parametrize("seeds", [(), (0, 0)])
def test_seeds_are_some_and_each_once(tmp_path, quick, seeds):
    with pytest.raises(ValueError, match=r"--seeds .*0 1 2"):
        analyze("heads", quick, tmp_path, seeds=seeds)


@pytest.mark.parametrize("name", ["index.html", "numbers.csv"])
def test_files_of_others_are_found_before_anything_is_trained(tmp_path, quick, name):
    theirs = tmp_path / "heads" / name
    theirs.parent.mkdir()
    theirs.write_text("mine")
    with pytest.raises(RunError, match="with --out"):
        analyze("heads", quick, tmp_path, values=("1",))
    assert theirs.read_text() == "mine"
    assert not (tmp_path / "runs").exists()


def test_one_wider_head_on_a_folder(tmp_path, quick):
    pictures = str(picture_folder(tmp_path / "pictures", 80, 32))
    [spec] = ANALYSES["wider"].specs(with_values(quick, {"data": pictures}), ("1",))
    assert "(0.3 of the weights)" in spec.cells[1].labels["width"]


def test_the_page_says_which_images_judged(tmp_path, quick):
    page = analyze("heads", quick, tmp_path, values=("1",), tell=lambda line: None)
    assert re.search(r"judged on.*\d+ validation images", page.read_text(), re.DOTALL)


def test_it_goes_on_where_it_was_stopped(tmp_path, quick, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        with pytest.raises(Interrupted, match=r"amcl\.experiments\.analyze\('heads'"):
            analyze("heads", quick, tmp_path, values=("2",), tell=lambda line: None)
    page = analyze("heads", quick, tmp_path, values=("2",), tell=lambda line: None)
    assert page.is_file()


def test_other_settings_into_the_same_folder_are_refused(tmp_path, quick):
    analyze("heads", quick, tmp_path, values=("1",), tell=lambda line: None)
    other = with_values(quick, {"lr": 0.123})
    with pytest.raises(RunError, match=r"\blr\b.*config\.toml.*--out"):
        analyze("heads", other, tmp_path, values=("1",), tell=lambda line: None)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["head"], "did you mean 'heads'?"),
        (["heads", "--vlues", "1"], "--vlues"),
        (["heads", "--method", "mae"], "mae has no heads"),
        (["heads", "--metric", "top1"], "--metric"),
        (["overlap", "--data", "FOLDER"], "name the folder of images"),
    ],
)
def test_what_is_refused(capsys, tmp_path, args, told):
    try:
        code = main(["analyze", *args, "--out", str(tmp_path / "out")])
    except SystemExit as left:
        code = left.code
    assert code == 2
    assert told in re.sub(r"[\s│╭╮╰╯─]+", " ", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_help_names_every_analysis(capsys):
    with pytest.raises(SystemExit):
        main(["analyze", "--help-all"])
    told = capsys.readouterr().out
    assert all(f"{name}: " in told for name in ANALYSES)
