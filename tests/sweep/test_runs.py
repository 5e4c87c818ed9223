"""Sweeps: each run once, whatever interrupts them; and their folders."""

import csv
import json
import os
import signal
from dataclasses import replace

import pytest
import torch

from amcl.config.fields import with_values
from amcl.errors import Interrupted, RunError
from amcl.evaluation import KnnSettings
from amcl.methods import Method
from amcl.sweep import Point, SweepFolder, grid, sweep
from amcl.sweep import runs as module
from tiny_runs import interrupt_at, picture_folder, quiet

pytestmark = pytest.mark.usefixtures("few_images")


def starts(folder: SweepFolder) -> dict[str, int]:
    """How often each run was begun or gone on with."""
    return {
        run.name: len((run / "environment.jsonl").read_text().splitlines())
        for run in (folder.path / "runs").iterdir()
    }


def test_each_run_once_and_what_it_came_to(tmp_path, tiny):
    told = []
    points = grid(tiny, {"tau": ["0.1", "0.5"], "seed": ["0", "1"]})
    found = sweep(points, tmp_path / "out", tell=told.append)
    folder = SweepFolder(tmp_path / "out")
    assert [f.name for f in found] == [p.name for p in points]
    assert [line.split("  ")[0] for line in told] == ["1/4", "2/4", "3/4", "4/4"]
    backbones = [folder.run(p.name) / "backbone.safetensors" for p in points]
    assert len({b.read_bytes() for b in backbones}) == 4
    for point, record in zip(points, found, strict=True):
        assert (record.values, record.seed) == (point.values, point.config.run.seed)
        rows = (record.path / "metrics.jsonl").read_text().splitlines()
        assert record.metrics["knn_validation"] == json.loads(rows[-1])["knn_validation"]
    table = list(csv.DictReader((tmp_path / "out/runs.csv").read_text().splitlines()))
    assert [(r["tau"], r["seed"], r["status"]) for r in table] == [
        (tau, seed, "complete") for tau in ("0.1", "0.5") for seed in "01"
    ]
    assert (tmp_path / "out/table.md").read_text().count("\n") == 4
    # Again, and with more: only what is new is trained.
    assert sweep(points, tmp_path / "out", tell=told.append) == found
    more = grid(tiny, {"tau": ["0.5"], "seed": ["1", "2"]})
    assert len(sweep(more, tmp_path / "out", tell=told.append)) == 5
    assert told[4:] == [told[-1]]
    assert told[-1].startswith("5/5  tau=0.5,seed=2  knn_validation")
    assert set(starts(folder).values()) == {1}
    assert folder.read_points() == [
        Point(values=p.values, config=module.for_workers(p.config)) for p in (*points, more[1])
    ]


def test_a_sweep_that_was_stopped_goes_on(tmp_path, tiny, monkeypatch):
    points = grid(tiny, {"seed": ["0", "1", "2"]})
    out, straight = tmp_path / "my out", tmp_path / "straight"
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3, signal.SIGINT)  # the first step of the second run
        with pytest.raises(Interrupted, match="2 of 3 runs to go") as stopped:
            sweep(points, out, tell=quiet)
    assert stopped.value.exit_code == 130
    assert f"amcl sweep --out '{out}'" in str(stopped.value)
    assert len((out / "runs.csv").read_text().splitlines()) == 2
    stored = SweepFolder(out).read_points()
    assert [f.status for f in sweep(stored, out, tell=quiet)] == ["complete"] * 3
    assert starts(SweepFolder(out)) == {"seed=0": 1, "seed=1": 2, "seed=2": 1}
    found = sweep(points[1:2], straight, tell=quiet)
    files = [o / "runs/seed=1/backbone.safetensors" for o in (out, straight)]
    assert files[0].read_bytes() == files[1].read_bytes()
    (alone,) = found
    assert replace(alone, path=None) == replace(SweepFolder(out).records()[1], path=None)


def test_protocols_judge_on_validation_and_come_later_too(tmp_path, tiny, trained, monkeypatch):
    asked = []

    def judge(config, run, protocols, split, settings):
        asked.append((run.name, tuple(protocols), split))
        split = "validation" if split == "auto" else split
        return {f"{p}_top1_{split}": 0.5 for p in protocols}

    monkeypatch.setattr(module, "evaluate_run", judge)
    points = grid(tiny, {"seed": ["0", "1"]})
    out = tmp_path / "out"
    sweep(points[:1], out, protocols=["knn"], tell=quiet)
    assert asked == [("seed=0", ("knn",), "validation")]
    found = sweep(points, out, protocols=["knn", "linear"], split="auto", tell=quiet)
    assert asked[1:] == [("seed=0", ("linear",), "auto"), ("seed=1", ("knn", "linear"), "auto")]
    names = {"knn_validation", "knn_top1_validation", "linear_top1_validation"}
    assert [set(f.metrics) for f in found] == [names] * 2
    sweep(points, out, protocols=["linear", "knn"], tell=quiet)
    assert len(asked) == 3
    assert SweepFolder(out).read_protocols() == (("linear", "knn"), "validation")


def test_other_runs_of_the_folder_may_be_left_alone(tmp_path, tiny, trained, monkeypatch):
    told = []

    def judge(config, run, protocols, split, settings):
        told.extend((run.name, p, settings["knn"].k) for p in protocols)
        return {f"{p}_top1_{split}": 0.5 for p in protocols}

    monkeypatch.setattr(module, "evaluate_run", judge)
    points, out = grid(tiny, {"seed": ["0", "1"]}), tmp_path / "out"
    settings = {"knn": KnnSettings(k=7)}
    sweep(points[:1], out, tell=quiet)
    arguments = {"protocols": ["knn"], "settings": settings, "others": False, "tell": quiet}
    found = sweep(points[1:], out, **arguments)
    assert [f.name for f in found] == ["seed=1"]
    assert told == [("seed=1", "knn", 7)]  # the other is not judged
    assert len((out / "runs.csv").read_text().splitlines()) == 3


def class_folder(path, splits):
    for split in splits:
        for label in ("a", "b"):
            picture_folder(path / split / label, 12, 16)
    return path


def test_the_test_split_is_opened_only_when_asked_for(tmp_path, tiny):
    """Where it cannot be read, nothing but `split="test"` minds."""
    images = class_folder(tmp_path / "images", ("train", "test"))
    for file in (images / "test").rglob("*.png"):
        file.write_bytes(b"not to be looked at")
    values = {"data": str(images), "image_size": 16, "batch_size": 8, "workers": 0}
    points = grid(with_values(tiny, {**values, "validation": 4}), {"seed": ["0"]})
    found = sweep(points, tmp_path / "out", protocols=["knn"], tell=quiet)
    assert [name for name in found[0].metrics if "top1" in name] == ["knn_top1_validation"]
    with pytest.raises((RunError, ValueError, OSError)):
        sweep(points, tmp_path / "out", protocols=["knn"], split="test", tell=quiet)


def test_what_is_wrong_is_told_before_anything_is_made(tmp_path, tiny, trained):
    points, out = grid(tiny, {"seed": ["0"]}), tmp_path / "out"
    with pytest.raises(ValueError, match=r"^builtin .*--split validation"):
        sweep(points, out, protocols=["knn"], split="test", tell=quiet)
    with pytest.raises(ValueError, match=r"'auto', 'test', 'validation'.*'tset'"):
        sweep(points, out, split="tset", tell=quiet)
    with pytest.raises(ValueError, match=r"'lienar'.*'linear'"):
        sweep(points, out, protocols=["lienar"], tell=quiet)
    with pytest.raises(ValueError, match=r"\bjobs\b.*\b0\b"):
        sweep(points, out, jobs=0, tell=quiet)
    several = [Point(values={}, config=replace(tiny, hardware=replace(tiny.hardware, devices=2)))]
    with pytest.raises(ValueError, match="leave out --devices"):
        sweep(several, out, tell=quiet)
    assert not out.exists()
    assert trained == []


def test_runs_that_failed_are_taken_up_when_asked(tmp_path, tiny, monkeypatch):
    points, out, told = grid(tiny, {"seed": ["0", "1"]}), tmp_path / "out", []
    plain = Method.__call__

    def call(self, *args, **kwargs):
        if not SweepFolder(out).records():
            raise RuntimeError("out of memory")
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Method, "__call__", call)
    found = sweep(points, out, tell=told.append)
    assert [f.status for f in found] == ["failed", "complete"]
    assert told[0] == "1/2  seed=0  failed: RuntimeError: out of memory"
    monkeypatch.setattr(Method, "__call__", plain)
    assert sweep(points, out, tell=told.append) == found
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        with pytest.raises(Interrupted, match=r"amcl sweep --out \S+ --again$"):
            sweep(points, out, again=True, tell=told.append)
    found = sweep(points, out, again=True, tell=told.append)
    assert [f.status for f in found] == ["complete", "complete"]
    assert starts(SweepFolder(out)) == {"seed=0": 3, "seed=1": 1}


def test_judging_may_fail_too(tmp_path, tiny, trained, monkeypatch):
    def judge(*args):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(module, "evaluate_run", judge)
    points = grid(tiny, {"seed": ["0", "1"]})
    found = sweep(points, tmp_path / "out", protocols=["linear"], tell=quiet)
    assert [f.status for f in found] == ["failed", "failed"]
    assert found[0].reason == "judging: OutOfMemoryError: no memory"


def test_settings_of_a_run_do_not_change(tmp_path, tiny, trained):
    out = tmp_path / "out"
    sweep(grid(tiny, {"seed": ["0"]}), out, tell=quiet)
    longer = with_values(tiny, {"epochs": 3, "workers": 7})
    with pytest.raises(RunError, match="seed=0 would differ in epochs from what it began with"):
        sweep(grid(longer, {"seed": ["0"]}), out, tell=quiet)
    # A seed more with other settings would be compared as if it were a seed more.
    with pytest.raises(RunError, match="seed=1 would differ in epochs from what seed=0 began with"):
        sweep(grid(longer, {"seed": ["1"]}), out, tell=quiet)
    assert [p.name for p in SweepFolder(out).read_points()] == ["seed=0"]
    sweep(grid(tiny, {"epochs": ["3"], "seed": ["0"]}), out, tell=quiet)
    hardware = replace(tiny.hardware, threads=1)
    moved = with_values(replace(tiny, hardware=hardware), {"workers": 7})
    sweep(grid(moved, {"seed": ["0"]}), out, tell=quiet)
    assert SweepFolder(out).read_points()[0].config.hardware.threads == 1
    assert trained == ["seed=0", "epochs=3,seed=0"]


def test_what_has_not_begun_may_change(tmp_path, tiny):
    """A wrong folder of images is no reason to choose another for the sweep."""
    out = tmp_path / "out"
    wrong = grid(with_values(tiny, {"data": str(tmp_path / "imagse")}), {"seed": ["0"]})
    with pytest.raises(FileNotFoundError, match="imagse"):
        sweep(wrong, out, tell=quiet)
    assert sweep(grid(tiny, {"seed": ["0"]}), out, tell=quiet)[0].status == "complete"


def test_points_of_any_names(tmp_path, tiny, trained):
    """`values` may name what no field does; such runs differ in whatever they like."""
    odd = {"variant": "ours / theirs: [x] ü", "seed": "0"}
    points = [
        Point(values={"variant": "plain"}, config=tiny),
        Point(values=odd, config=with_values(tiny, {"epochs": 2, "tau": 0.3})),
        Point(values={"variant": "plain", "seed": "1"}, config=with_values(tiny, {"epochs": 2})),
    ]
    for _ in range(2):
        assert [f.values for f in sweep(points, tmp_path / "out", tell=quiet)][1] == odd
    assert trained == [
        "variant=plain",
        "variant=ours-theirs-x-ü,seed=0",
        "variant=plain,seed=1",
    ]


def test_a_folder_of_something_else_is_left_alone(tmp_path, tiny, trained):
    (tmp_path / "thesis.tex").write_text("mine")
    for out in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(RunError, match=r"empty folder.*--out"):
            sweep(grid(tiny, {"seed": ["0"]}), out, tell=quiet)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(RunError, match=r"it has no sweep\.json"):
        SweepFolder(tmp_path).read_points()


def test_damaged_files_are_named(tmp_path, tiny, trained):
    points, out = grid(tiny, {"seed": ["0", "1"]}), tmp_path / "out"
    sweep(points, out, tell=quiet)
    listing, file = out / "sweep.json", out / "study.db"
    whole = listing.read_text()
    for old, new in (('"split"', '"spilt"'), ('"protocols": [', '"protocols": ["x"'), ("{", "[")):
        listing.write_text(whole.replace(old, new))
        with pytest.raises(RunError, match=r"sweep\.json is damaged"):
            sweep(points, out, tell=quiet)
    listing.write_text(whole)
    file.write_bytes(b"no database" * 99)
    with pytest.raises(RunError, match=r"sqlite3\.DatabaseError"):
        sweep(points, out, tell=quiet)


@pytest.mark.parametrize("changed", [{"values": {"seed": {}}}, {"values": 3}, {"config": []}])
def test_damaged_runs_in_a_storage_are_named(tmp_path, tiny, trained, changed):
    points, out = grid(tiny, {"seed": ["0"]}), tmp_path / "out"
    sweep(points, out, tell=quiet)
    study = SweepFolder(out).study
    ((name, entry),) = [(n, v) for n, v in study.user_attrs.items() if n != "amcl"]
    study.set_user_attr(name, entry | changed)
    with pytest.raises(ValueError, match=r"the storage of .*out is damaged: 0\.\w+\S* is"):
        sweep(points, out, tell=quiet)


def test_without_its_study_the_runs_are_not_trained_again(tmp_path, tiny):
    points, out = grid(tiny, {"seed": ["0"]}), tmp_path / "out"
    found = sweep(points, out, tell=quiet)
    (out / "study.db").unlink()
    (out / "sweep.json").write_text('{"protocols": [], "split": "validation"}')
    assert SweepFolder(out).read_points() == []
    assert sweep(points, out, tell=quiet) == found
    assert starts(SweepFolder(out)) == {"seed=0": 1}


def test_a_full_disk_leaves_a_sweep_that_goes_on(tmp_path, tiny, trained, monkeypatch):
    points, out = grid(tiny, {"seed": ["0", "1"]}), tmp_path / "out"

    plain, room = os.fsync, 0

    def fsync(descriptor):
        nonlocal room
        if room == 0:
            raise OSError(28, "No space left on device")
        room -= 1
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for files in range(3):  # written before the disk is full
        room = files
        with pytest.raises(OSError, match="No space left"):
            sweep(points, out, tell=quiet)
    monkeypatch.setattr(os, "fsync", plain)
    assert [f.name for f in sweep(points, out, tell=quiet)] == ["seed=0", "seed=1"]
    assert list(out.rglob("*.writing")) == []
