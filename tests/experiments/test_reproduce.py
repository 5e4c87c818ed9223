"""The paper's tables and figures: every entry at smoke scale, and what can go wrong."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from amcl.analysis.cost import image_size_of
from amcl.backbones import Backbone
from amcl.cli import main
from amcl.errors import Interrupted
from amcl.experiments import ENTRIES, SCALES, reproduce
from amcl.experiments.estimate import seconds
from amcl.experiments.reproduce import runs_of, work_of
from amcl.methods import make_method
from amcl.results import Record
from amcl.sweep import SweepFolder
from amcl.sweep.runs import train_or_resume
from browser import needs_browser, open_page
from tiny_runs import interrupt_at, picture_folder, quiet

pytestmark = pytest.mark.usefixtures("few_images")

TOGETHER = {  # entries that share runs
    "losses": ("table-1", "table-2", "table-3"),
    "vits": ("table-4", "table-7", "figure-4"),
    "views": ("table-6", "figure-1", "figure-8"),
    "heads": ("figure-5", "figure-6", "wider-head"),
    "temperatures": ("table-5", "figure-3", "figure-7", "figure-9"),
    "cost": ("table-8", "figure-2"),
}


def test_every_entry_is_run_below():
    available = set(ENTRIES)
    assert available == {name for names in TOGETHER.values() for name in names}
    tables, figures = (
        [name for name in ENTRIES if re.fullmatch(rf"{kind}-\d+", name)]
        for kind in ("table", "figure")
    )
    assert tables == [f"table-{n}" for n in range(1, 9)]
    assert figures == [f"figure-{n}" for n in range(1, 10)]


QUICK = ("heads",)  # the others take long together


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(names, marks=() if group in QUICK else pytest.mark.slow, id=group)
        for group, names in TOGETHER.items()
    ],
)
def test_smoke(names, tmp_path):
    for name in names:
        page = reproduce(name, scale="smoke", out=tmp_path, tell=quiet)
        check_files(name, page)
    if ENTRIES[names[0]].make is None:
        return
    asked = {point.name for n in names for point in runs_of(ENTRIES[n], SCALES["smoke"])}
    made = SweepFolder(tmp_path / "runs").read_points()
    assert {point.name for point in made} == asked  # each once, whatever entries share them


def check_files(name: str, page: Path) -> None:
    """A page, Markdown, CSV and pictures, all of them filled."""
    html, folder = page.read_text(encoding="utf-8"), page.parent
    assert page.name == "index.html"
    assert f"{name}: " in html
    text = (folder / "table.md").read_text(encoding="utf-8")
    assert f"amcl reproduce {name} --scale smoke" in text
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures
    for picture in pictures:
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    with (folder / "numbers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows
    if ENTRIES[name].make is not None:
        assert all(row["mean"] for row in rows), rows
        assert "diverged" not in text
    if ENTRIES[name].histograms:
        assert "overlap" in html
        assert "histograms-heads.png" in pictures


@pytest.fixture(scope="module")
def figure_3(few_images, tmp_path_factory):
    """The page of an entry that has been run."""
    return reproduce("figure-3", scale="smoke", out=tmp_path_factory.mktemp("out"), tell=quiet)


def test_a_second_time_nothing_is_run_again(figure_3, monkeypatch):
    told, out = [], figure_3.parent.parent
    monkeypatch.setattr("amcl.sweep.runs.train_or_resume", None)
    assert reproduce("figure-3", scale="smoke", out=out, tell=told.append) == figure_3
    assert told == []


@needs_browser
def test_the_page_in_a_browser(figure_3):
    seen = open_page(figure_3)
    assert seen.console == []
    for words in (
        "figure-3: similarities after the heads and after the backbone",
        "AUROC",
        "Pairs that are hard to tell",
        "amcl reproduce figure-3 --scale smoke",
    ):
        assert words in seen.text


def test_it_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        with pytest.raises(Interrupted) as stopped:
            reproduce("figure-3", scale="smoke", out=tmp_path, tell=quiet)
    assert f"Resume with: amcl reproduce figure-3 --scale smoke --out {tmp_path}" in str(
        stopped.value
    )
    assert stopped.value.exit_code == 130
    reproduce("figure-3", scale="smoke", out=tmp_path, tell=quiet)
    starts = [
        [json.loads(line)["step"] for line in (run / "environment.jsonl").read_text().splitlines()]
        for run in (tmp_path / "runs" / "runs").iterdir()
    ]
    assert sorted(starts) == [[0], [0, 1]]  # the second start of one goes on after its first step


@pytest.mark.slow
def test_numbers_are_those_of_the_runs(tmp_path):
    reproduce("table-5", scale="smoke", out=tmp_path, seeds=2, tell=quiet)
    with (tmp_path / "table-5" / "numbers.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["what"] == "value"]
    baseline = next(r for r in rows if (r["side"], r["labels a class"]) == ("baseline", "2"))
    found = [
        record.metrics["few-labels_n=2_validation"]
        for record in SweepFolder(tmp_path / "runs").records()
        if record.name.startswith("data=builtin,method=simclr,seed")
    ]
    assert baseline["values"] == " ".join(f"{i}:{100 * v!r}" for i, v in enumerate(found))
    assert len(found) == 2


def test_a_run_that_fails_is_told_and_the_others_are_shown(tmp_path, monkeypatch):
    def fails(config, folder):
        if config.method.heads == 3:
            return Record(name=folder.name, status="diverged", reason="the loss is not finite")
        return train_or_resume(config, folder)

    monkeypatch.setattr("amcl.sweep.runs.train_or_resume", fails)
    page = reproduce("figure-3", scale="smoke", out=tmp_path, tell=quiet)
    text = (page.parent / "table.md").read_text()
    assert "| + AMCL | – | – |" in text
    assert "seed 0 diverged: the loss is not finite" in text


def test_what_is_missing_is_told_with_the_way_to_get_it(tmp_path, capsys):
    root = ["--data-root", str(tmp_path / "nowhere")]
    assert main(["reproduce", "table-3", "--scale", "paper", *root]) == 1
    told = " ".join(capsys.readouterr().err.split())
    for name in ("cifar10", "cifar-100-python", "tiny-imagenet-200", "imagenet"):
        assert name in told
    assert "amcl data cifar10" in told
    assert "choose others with --data" in told
    assert main(["reproduce", "table-3", "--data", "no/folder", "--scale", "smoke"]) == 2
    assert "'no/folder' is neither a folder nor a known data set" in capsys.readouterr().err


def test_names_and_options_that_do_not_fit(tmp_path, capsys):
    root = ["--data-root", str(tmp_path)]
    (tmp_path / "pictures").mkdir()
    data = ["--data", str(tmp_path / "pictures")]
    assert main(["reproduce", "table-7", "--scale", "paper", *root, *data]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "trains detectors on coco" in error
    assert "--detection-data" in error
    assert main(["reproduce", "table-3", "--scale", "smoke", "--detection-data", "coco"]) == 2
    assert "--detection-data is for table-7" in capsys.readouterr().err
    assert main(["reproduce", "figure-3", "table-33", "--scale", "smoke"]) == 2
    said = capsys.readouterr()
    assert "did you mean 'table-3'?" in said.err
    assert "runs" not in said.err.split("amcl reproduce:")[0]  # before anything was run
    assert main(["reproduce"]) == 2
    assert "--list has them" in capsys.readouterr().err


def test_seeds_and_labels_are_asked_for_first(tmp_path, capsys):
    assert main(["reproduce", "--list", "--scale", "smoke", "--seeds", "0"]) == 2
    assert "seeds must be a whole number" in capsys.readouterr().err
    folder = picture_folder(tmp_path / "pictures", 90)
    asked = ["reproduce", "table-6", "--scale", "smoke", "--data", str(folder)]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 2
    assert "has no labels in use" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_the_list(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["reproduce", "--list", "--scale", "smoke"]) == 0
    told = capsys.readouterr().out
    for name, entry in ENTRIES.items():
        assert name in told
        assert not entry.detection or f"{name} " in told
    assert "on 2 cores with --jobs 2" in told
    assert re.search(r"all of them, shared runs once +\d+ ", told)


def test_the_papers_scale_has_the_papers_settings():
    paper = SCALES["paper"]
    [first, *_] = runs_of(ENTRIES["table-3"], paper)
    assert (first.config.run.epochs, first.config.backbone.name) == (1000, "resnet18")
    points = runs_of(ENTRIES["table-3"], paper)
    by_set = {p.config.data.source: p.config for p in points}
    assert {name: c.run.epochs for name, c in by_set.items()} == {
        "cifar10": 1000,
        "cifar100": 1000,
        "tinyimagenet": 800,
        "imagenet": 100,
    }
    assert len({p.config.run.seed for p in points}) == 5
    vits = [p.config for p in runs_of(ENTRIES["table-4"], paper)]
    large = {config.backbone.name for config in vits}
    assert large == {"vit_base_patch16_224", "vit_large_patch16_224"}
    assert {c.run.epochs for c in vits if c.method.name != "lgp"} == {1600}
    assert {c.method.mae_epochs for c in vits if c.method.name == "lgp"} == {1600}


@pytest.mark.slow
def test_every_network_of_the_papers_scale_can_be_made():
    made = set()
    for entry in ENTRIES.values():
        for point in runs_of(entry, SCALES["paper"], seeds=1):
            config = point.config
            if (key := (config.backbone, repr(config.method), config.data.source)) not in made:
                with torch.device("meta"):
                    make_method(config.method, Backbone(config.backbone, image_size_of(config)))
                made.add(key)
    assert len(made) > 100


@pytest.mark.slow
def test_several_runs_at_once(tmp_path):
    told = []
    page = reproduce("figure-3", scale="smoke", out=tmp_path, jobs=2, tell=told.append)
    check_files("figure-3", page)
    assert len(told) == 2


def test_the_cpu_scale_is_small_and_fixed():
    for entry in ENTRIES.values():
        for point in runs_of(entry, SCALES["cpu"]):
            assert point.config.data.subset == 5000
            assert point.config.run.epochs <= 20
            assert point.config.data.source == "cifar10"
            if not point.config.backbone.name.endswith("vit"):
                assert point.config.optimizer.name == "adamw"
    cpu = SCALES["cpu"]
    hours = seconds(work_of([ENTRIES["figure-3"]], cpu), cpu.protocols, gpu=False) / 3600
    assert 0.1 < hours < 10


def test_the_cpu_scale_has_tuned_baselines():
    """Those that docs/tuning.md found: a gain over others would be none."""
    cpu = SCALES["cpu"]
    simclr, moco = cpu.config("cifar10", "simclr"), cpu.config("cifar10", "moco")
    assert (simclr.method.temperature.tau, simclr.method.projector_last_norm) == (0.1, "plain")
    assert (
        moco.method.temperature.tau,
        moco.method.temperature.typical(128),
        moco.method.momentum,
    ) == (0.2, 0.2, 0.99)
    assert simclr.optimizer.peak_rate(simclr.run.batch_size) == 0.008
    assert cpu.config("cifar10", "barlow").method.lam == 0.02
    assert not cpu.config("cifar10", "simsiam").method.fixed_predictor_rate


def test_the_night_scale_is_small_tuned_and_takes_a_night():
    night = SCALES["night"]
    work = work_of(list(ENTRIES.values()), night)
    assert len({each.point.name for each in work}) == len(work) == 393
    for config in (each.point.config for each in work):
        assert (config.data.subset, config.data.source) == (5120, "cifar10")
        steps = config.run.epochs * config.data.subset // config.run.batch_size
        assert steps == 240 or config.run.epochs in (3, 6)  # figure 4 compares lengths
        vit = config.backbone.name == "test_vit"
        assert (config.backbone.name, config.backbone.stem) == ("resnet10t", "standard") or vit
    simclr, moco = night.config("cifar10", "simclr"), night.config("cifar10", "moco")
    assert (simclr.method.temperature.tau, simclr.method.projector_last_norm) == (0.1, "plain")
    assert (moco.method.temperature.tau, moco.method.queue, moco.method.momentum) == (
        0.2,
        1024,
        0.99,
    )
    assert simclr.optimizer.peak_rate(256) == moco.optimizer.peak_rate(256) == 0.005
    assert night.config("cifar10", "simsiam").optimizer.lr == 0.0025
    assert night.config("cifar10", "barlow").method.projector == (512, 512)
    hours = seconds(work, night.protocols, gpu=False) / 3600
    assert 2 < hours < 10


def test_shared_runs_and_their_evaluation_count_once():
    night = SCALES["night"]
    entries = [ENTRIES["table-1"], ENTRIES["table-3"]]
    both, alone = work_of(entries, night), work_of(entries[1:], night)
    assert len(both) == len(alone) == 36
    time = seconds(alone, night.protocols, gpu=False)
    assert seconds(both, night.protocols, gpu=False) == pytest.approx(time)
    trained = [replace(each, sources=frozenset()) for each in alone]
    assert seconds(trained, night.protocols, gpu=False) < time


def test_an_interruption_shows_the_command_that_was_typed(tmp_path, monkeypatch, capsys):
    interrupt_at(monkeypatch, 1)
    args = ["figure-3", "table-5", "--scale", "smoke", "--out", str(tmp_path)]
    assert main(["reproduce", *args]) == 130
    error = " ".join(capsys.readouterr().err.split())
    assert f"Resume with: amcl reproduce {' '.join(args)}" in error


def test_what_is_missing_for_any_entry_is_an_error_before_anything_is_run(tmp_path, capsys):
    pictures = picture_folder(tmp_path / "pictures")
    args = ["--data", str(pictures), "--data-root", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main(["reproduce", "figure-3", "table-7", "--scale", "paper", *args]) == 1
    assert "table-7 at --scale paper trains detectors on coco" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
