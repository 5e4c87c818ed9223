"""Runs side by side: groups, rows, means, paired differences, notes, and the command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from amcl.checkpoints.evaluations import Result
from amcl.cli.compare import main
from amcl.config import Config
from amcl.methods import MoCoSettings, SimCLRSettings
from amcl.results import Comparison, compare, read_run
from amcl.results.read import run_names
from amcl.temperature import ConstantSettings
from factories import change

AMCL = {"method": {"heads": 3, "temperature": "adaptive"}}


def make(path: Path, seed: int = 0, **sections: dict[str, Any]) -> Path:
    """A run folder without results; `sections` change fields of its configuration."""
    config = Config(method=SimCLRSettings(temperature=ConstantSettings(tau=0.5)))
    sections.setdefault("run", {})["seed"] = seed
    for name, fields in sections.items():
        if name == "method":
            config = replace(config, method=change(config.method, **fields))
        else:
            config = replace(config, **{name: replace(getattr(config, name), **fields)})
    path.mkdir(parents=True)
    (path / "config.toml").write_text(config.to_toml(), encoding="utf-8")
    return path


def put(run: Path, metrics: float | dict[str, float], **fields: Any) -> Path:
    """A result in a run folder, of knn unless told otherwise."""
    name, weights = fields.pop("name", str(run)), fields.pop("weights", run.name)
    values: dict[str, Any] = {
        "protocol": "knn",
        "data": "cifar10",
        "split": "test",
        "metrics": metrics if isinstance(metrics, dict) else {"top1": metrics},
        "model": {"name": name, "sha256": weights},
        "settings": {"k": 200, "transform": {"crop": None}},
        "seed": 0,
        "images": {"train": 100, "test": 10, "sha256": "a" * 64},
        "environment": {},
        "time": "2026-01-01T00:00:00+00:00",
    }
    return Result(**values | fields).write(run)


def made(path: Path, value: float, seed: int = 0, **sections: dict[str, Any]) -> Path:
    run = make(path, seed, **sections)
    put(run, value)
    return run


def two_groups(tmp_path: Path, base: dict[int, float], other: dict[int, float]) -> list[Path]:
    runs = [made(tmp_path / f"base-{seed}", value, seed) for seed, value in base.items()]
    return runs + [made(tmp_path / f"amcl-{s}", v, s, **AMCL) for s, v in other.items()]


def shown(found: Comparison, width: int = 200) -> str:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(found.table().to_terminal(width, repeat=2))
    return capture.get()


def notes(found: Comparison) -> str:
    return "\n".join(found.notes)


# Numbers


def test_means_and_paired_differences(tmp_path):
    base, other = {0: 0.901, 1: 0.911, 2: 0.897}, {2: 0.905, 0: 0.912, 1: 0.913, 7: 0.5}
    found = compare(two_groups(tmp_path, base, other))
    (row,) = found.rows
    for cell, values in zip(row.cells, (base, other), strict=True):
        assert cell.mean == pytest.approx(np.mean(list(values.values())))
        assert cell.std == pytest.approx(np.std(list(values.values()), ddof=1))
    differences = np.array([other[seed] - base[seed] for seed in base])
    assert row.differences[0] is None
    difference = row.differences[1]
    assert list(difference.by_seed) == [0, 1, 2]
    assert difference.mean == pytest.approx(differences.mean())
    assert difference.std == pytest.approx(differences.std(ddof=1))
    oracle = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert difference.interval == pytest.approx((oracle.low, oracle.high))


def test_numbers_as_people_read_them(tmp_path):
    found = compare(two_groups(tmp_path, {0: 0.909, 1: 0.915}, {0: 0.912, 1: 0.922}))
    text = shown(found)
    row = "knn / cifar10 test top1 (10 images) 91.2 ± 0.4% (n=2) 91.7 ± 0.7% (n=2)"
    assert row in " ".join(text.split())
    assert "difference, points" in text
    assert "+0.50 ± 0.28 (n=2)" in text  # of +0.3 and +0.7 points
    assert "[-2.04, +3.04]" in text
    assert "cannot be told apart" in text
    assert found.notes == ()


def test_one_seed_is_a_number_and_no_evidence(tmp_path):
    found = compare(two_groups(tmp_path, {0: 0.909}, {0: 0.912}))
    text = shown(found)
    assert "90.9% [60.6, 98.5]" in text  # on 10 images
    assert "±" not in text
    assert "+0.3 (n=1)" in text
    assert "cannot be told apart" in text
    assert found.rows[0].differences[1].interval is None
    assert "no evidence" in notes(found)


def test_the_best_is_marked_only_where_it_is_told_apart(tmp_path):
    near = {0: 0.50, 1: 0.52, 2: 0.51}
    far = {0: 0.60, 1: 0.63, 2: 0.61}
    noisy = {0: 0.40, 1: 0.70, 2: 0.52}
    level = compare(two_groups(tmp_path / "level", near, noisy))
    assert level.rows[0].best is None
    assert "▲" not in shown(level)
    assert "cannot be told apart" in shown(level)
    ahead = compare(two_groups(tmp_path / "ahead", near, far))
    assert ahead.rows[0].best == 1
    assert "61.3 ± 1.5% (n=3) ▲" in shown(ahead)
    assert "cannot be told apart" not in shown(ahead)
    behind = compare(two_groups(tmp_path / "behind", far, near))
    assert behind.rows[0].best == 0
    one = compare(two_groups(tmp_path / "one", {0: 0.1}, {0: 0.9}))
    assert one.rows[0].best is None  # one seed, however far apart
    assert "one seed: no evidence" in shown(one)


def test_accuracies_come_first_and_measures_without_labels_when_asked_for(tmp_path):
    run = make(tmp_path / "a")
    put(run, {"auroc": 0.9, "uniformity": -2.0}, protocol="unlabeled")
    put(run, {"train_top1": 0.9, "top1": 0.8}, protocol="linear")
    found = compare([run])
    assert [row.metric for row in found.rows] == ["top1"]
    assert "Not shown: train_top1, auroc, uniformity. --metrics all shows them" in notes(found)
    found = compare([run], metrics=["all"])
    assert found.rows[0].metric == "top1"
    assert {row.metric for row in found.rows} == {"top1", "train_top1", "auroc", "uniformity"}
    assert "Not shown" not in notes(found)


def test_different_settings_of_a_protocol_are_pointed_out(tmp_path):
    runs = [make(tmp_path / "a"), make(tmp_path / "b", **AMCL)]
    for run, k in zip(runs, (20, 200), strict=True):
        put(run, 0.5, settings={"k": k})
    found = compare(runs)
    assert [row.label for row in found.rows] == [
        "knn k=20 / cifar10 test top1", "knn k=200 / cifar10 test top1"
    ]  # fmt: skip
    assert "knn was run with different settings (k)" in notes(found)
    put(runs[0], 0.5, settings={"k": 200})
    put(runs[1], 0.5, settings={"k": 20})
    assert "different settings" not in notes(compare(runs))  # both rows have both groups


def test_numbers_that_are_no_shares_keep_their_unit(tmp_path):
    for seed, (one, other) in enumerate([(-2.34567, -2.0), (-2.44567, -2.2)]):
        put(make(tmp_path / f"base-{seed}", seed), {"uniformity": one}, protocol="unlabeled")
        run = make(tmp_path / f"amcl-{seed}", seed, **AMCL)
        put(run, {"uniformity": other}, protocol="unlabeled")
    found = compare([tmp_path / n for n in ("base-0", "base-1", "amcl-0", "amcl-1")])
    text = shown(found)
    assert "-2.396 ± 0.071 (n=2)" in text
    assert "+0.296 ± 0.071 (n=2)" in text
    assert "%" not in text
    assert "points" not in text


def test_what_a_group_lacks_is_a_dash(tmp_path):
    runs = two_groups(tmp_path, {0: 0.9, 1: 0.92}, {0: 0.95})
    put(runs[0], 0.8, protocol="linear")
    row = compare(runs).rows[1]
    assert row.cells[0].values == (0.8, None)
    assert row.cells[1].mean is None
    assert row.differences == (None, None)
    assert "linear / cifar10 test top1 (10 images)  80.0% [49.0, 94.3]" in shown(compare(runs))


# Groups


UNLEARNED = [
    ("hardware", {"precision": "32", "devices": 1, "threads": 3, "sync_norm": True}),
    ("data", {"workers": 7, "memory": 1.0, "data_root": "elsewhere"}),
    ("run", {"log_every": 3, "save_every": 2, "save_minutes": 1.0, "keep_every": 5}),
    ("run", {"probe_every": 3, "knn_k": 7, "tensorboard": True, "wandb": "project"}),
]


@pytest.mark.parametrize(("section", "fields"), UNLEARNED)
def test_what_changes_nothing_learned_makes_no_group(tmp_path, section, fields):
    runs = [made(tmp_path / "a", 0.9, 1), made(tmp_path / "b", 0.8, 0, **{section: dict(fields)})]
    (group,) = compare(runs).groups
    assert group.seeds == (0, 1)
    assert [record.path for record in group.records] == [tmp_path / "b", tmp_path / "a"]


@pytest.mark.parametrize(
    ("section", "fields"),
    [
        ("run", {"epochs": 3}),
        ("run", {"accumulate": 2}),
        ("data", {"validation": 500}),
        ("data", {"image_size": 64}),
        ("views", {"jitter": (0.4, 0.4, 0.4, 0.2)}),
        ("backbone", {"width": 0.5}),
        ("optimizer", {"lr": 0.1}),
        ("method", {"tau": 0.1}),
    ],
)
def test_all_else_makes_a_group_named_by_it(tmp_path, section, fields):
    runs = [made(tmp_path / "a", 0.9, 1), made(tmp_path / "b", 0.8, 1, **{section: dict(fields)})]
    first, second = compare(runs).names
    ((key, value),) = fields.items()
    value = ",".join(map(str, value)) if isinstance(value, tuple) else value
    assert second == f"simclr {key}={value}"
    assert first.startswith("simclr")
    assert first != second


def test_names_tell_the_method_and_what_differs(tmp_path):
    runs = two_groups(tmp_path, {0: 0.9, 1: 0.9}, {0: 0.9})
    names = list(compare(runs).names)
    assert names == ["simclr", "simclr heads=3 temperature=adaptive"]
    assert list(compare(runs[::-1]).names) == names[::-1]
    runs.append(made(tmp_path / "lr", 0.9, 0, optimizer={"lr": 0.1}))
    names = list(compare(runs).names)
    assert names[0] == "simclr lr=0.06"
    assert names[1] == "simclr heads=3 temperature=adaptive lr=0.06"
    assert names[2] == "simclr lr=0.1"


def test_names_are_short_and_notes_tell_the_rest(tmp_path):
    runs = [made(tmp_path / "base", 0.9)]
    runs.append(made(tmp_path / "amcl", 0.9, optimizer={"lr": 0.1}, **AMCL))
    found = compare(runs)
    assert list(found.names) == ["simclr", "simclr heads=3 temperature=adaptive"]
    assert "more than their names say: lr (0.06, 0.1)." in notes(found)


def test_what_only_one_method_has_needs_no_note(tmp_path):
    runs = [made(tmp_path / "simclr", 0.9), tmp_path / "moco", tmp_path / "queue"]
    for path, queue in zip(runs[1:], (4096, 8192), strict=True):
        path.mkdir()
        config = Config(method=MoCoSettings(queue=queue, temperature=ConstantSettings(tau=0.5)))
        (path / "config.toml").write_text(config.to_toml())
        put(path, 0.9)
    first_two = compare(runs[:2])
    assert list(first_two.names) == ["simclr", "moco"]
    assert "momentum" not in notes(first_two)
    names = list(compare(runs).names)
    assert names == ["simclr", "moco queue=4096", "moco queue=8192"]


def test_where_nothing_differs_the_folder_is_the_name(tmp_path):
    runs = [made(tmp_path / f"mine-{seed}", 0.9, seed) for seed in range(3)]
    found = compare(runs[:1])
    assert found.names[0] == "mine-0"
    assert "difference" not in shown(found)
    assert compare(runs).names[0] == "mine-0 and 2 more"


def test_the_baseline_comes_first(tmp_path):
    runs = two_groups(tmp_path, {0: 0.9, 1: 0.91}, {0: 0.92, 1: 0.95})
    found = compare(runs, baseline=tmp_path / "amcl-1")
    assert [group.seeds for group in found.groups] == [(0, 1), (0, 1)]
    assert found.names[1] == "simclr"
    assert found.rows[0].differences[1].mean == pytest.approx(-0.03)
    with pytest.raises(ValueError, match="none of the runs: choose from"):
        compare(runs, baseline=tmp_path / "none")


def test_a_repeated_seed_counts_but_is_not_paired(tmp_path):
    runs = two_groups(tmp_path, {0: 0.90, 1: 0.91}, {0: 0.95, 1: 0.97})
    runs.append(made(tmp_path / "again", 0.99, 0, **AMCL))
    found = compare(runs)
    assert found.rows[0].cells[1].mean == pytest.approx((0.95 + 0.97 + 0.99) / 3)
    assert list(found.rows[0].differences[1].by_seed) == [1]
    assert "seed 0 appears 2 times" in notes(found)
    assert "again" in notes(found)


def test_without_a_common_seed_there_are_no_differences(tmp_path):
    found = compare(two_groups(tmp_path, {0: 0.90}, {1: 0.95}))
    assert found.rows[0].differences == (None, None)
    assert "shares no seed with simclr" in notes(found)
    assert "difference" not in shown(found)


# Rows


def labels(found: Comparison) -> list[str]:
    return [row.label for row in found.rows]


def test_other_settings_make_another_row_and_its_label(tmp_path):
    runs = two_groups(tmp_path, {0: 0.9}, {0: 0.95})
    put(runs[0], 0.7, settings={"k": 20, "transform": {"crop": None}})
    put(runs[1], 0.8, settings={"k": 200, "transform": {"crop": 0.875}})
    put(runs[1], 0.6, protocol="linear")
    found = compare(runs)
    assert labels(found) == [
        "knn k=20 crop=none / cifar10 test top1",
        "knn k=200 crop=0.875 / cifar10 test top1",
        "knn k=200 crop=none / cifar10 test top1",
        "linear / cifar10 test top1",
    ]
    values = {row.label: [cell.mean for cell in row.cells] for row in found.rows}
    assert values["knn k=20 crop=none / cifar10 test top1"] == [0.7, None]
    assert values["knn k=200 crop=none / cifar10 test top1"] == [0.9, 0.95]


def test_other_data_splits_and_counts_make_other_rows(tmp_path):
    runs = two_groups(tmp_path, {0: 0.9}, {0: 0.95})
    put(runs[1], 0.1, data="stl10")
    put(runs[1], 0.2, split="validation")
    put(runs[1], 0.3, images={"train": 50, "test": 10, "sha256": "b" * 64})
    found = compare(runs)
    assert sorted(labels(found)) == [
        "knn / cifar10 validation top1",
        "knn / stl10 test top1",
        "knn train=100 / cifar10 test top1",
        "knn train=50 / cifar10 test top1",
    ]


def test_a_setting_and_a_count_of_one_name_are_two_things(tmp_path):
    run = make(tmp_path / "a")
    for asked in (500, 2000):
        put(run, 0.9, settings={"images": asked}, images={"images": 400, "sha256": "a" * 64})
    assert labels(compare([run])) == [f"knn images={n} / cifar10 test top1" for n in (500, 2000)]


def test_other_images_of_a_test_split_make_another_row(tmp_path):
    runs = two_groups(tmp_path, {0: 0.9, 1: 0.8}, {0: 0.95})
    put(runs[1], 0.5, images={"train": 100, "test": 10, "sha256": "b" * 64})
    found = compare(runs)
    assert labels(found) == [f"knn sha256={8 * x} / cifar10 test top1" for x in "ab"]
    assert [cell.mean for cell in found.rows[1].cells] == [0.5, None]
    assert "Judged on different images" in notes(found)


def test_metrics_can_be_chosen(tmp_path):
    run = make(tmp_path / "a")
    put(run, {"top1": 0.9, "top5": 0.99})
    put(run, {"n=10": 0.5}, protocol="few-labels", split="validation", seed=1)
    put(run, {"n=10": 0.6}, protocol="few-labels", split="validation", seed=2)
    assert len(compare([run]).rows) == 3
    found = compare([run], metrics=["top5"])
    assert labels(found) == ["knn / cifar10 test top5"]
    assert found.notes == ()
    with pytest.raises(ValueError, match=r"no run has top2: there are .*top1, top5"):
        compare([run], metrics=["top1", "top2"])


def test_seeds_of_a_protocol_are_averaged_within_a_run(tmp_path):
    runs = two_groups(tmp_path, {0: 0.9, 1: 0.8}, {0: 0.95, 1: 0.85})
    put(runs[0], 0.94, seed=1)
    (row,) = compare(runs).rows
    assert row.cells[0].values == (pytest.approx(0.92), 0.8)
    assert row.differences[1].by_seed == pytest.approx({0: 0.03, 1: 0.05})
    assert f"means over seeds of the protocol, {runs[0]} of 2." in notes(compare(runs))


def test_of_one_measurement_the_newest_counts(tmp_path):
    run = make(tmp_path / "a")
    first = put(run, 0.5)
    first.rename(first.with_name("copy.json"))
    put(run, 0.6, time="2026-01-02T00:00:00+00:00")
    assert compare([run]).rows[0].cells[0].values == (0.6,)


def test_each_seed_may_have_its_own_held_out_images(tmp_path):
    runs = []
    for name, sections in {"base": {}, "amcl": AMCL}.items():
        for seed in range(3):
            runs.append(make(tmp_path / f"{name}-{seed}", seed, **sections))
            images = {"train": 90, "validation": 10, "sha256": f"{seed}" * 64}
            put(runs[-1], 0.5 + 0.1 * seed, split="validation", images=images)
    found = compare(runs)
    (row,) = found.rows
    assert row.label == "knn / cifar10 validation top1"
    assert [len(cell.numbers) for cell in row.cells] == [3, 3]
    assert list(row.differences[1].by_seed) == [0, 1, 2]
    assert row.images["sha256"] == {str(seed): f"{seed}" * 64 for seed in range(3)}
    assert "Each seed was judged on its own held-out images: knn / cifar10" in notes(found)


def held_out(path: Path, seed: int, images: str, **sections: dict[str, Any]) -> Path:
    run = make(path, seed, **sections)
    put(run, 0.5, split="validation", images={"validation": 10, "sha256": images * 64})
    return run


def test_a_validation_split_of_its_own_needs_no_note(tmp_path):
    found = compare([held_out(tmp_path / str(seed), seed, "a") for seed in range(2)])
    assert found.notes == ()
    assert found.rows[0].images["sha256"] == "a" * 64


def test_one_seed_on_two_sets_of_held_out_images_is_in_two_rows(tmp_path):
    runs = [held_out(tmp_path / f"base-{seed}", seed, "ab"[seed]) for seed in range(2)]
    runs += [held_out(tmp_path / f"amcl-{s}", s, "cde"[s], **AMCL) for s in range(3)]
    found = compare(runs)
    assert [[len(cell.numbers) for cell in row.cells] for row in found.rows] == [[2, 0], [0, 3]]
    assert "Judged on different images" in notes(found)


def test_images_that_do_not_follow_the_seed_are_not_held_out_by_it(tmp_path):
    runs = [held_out(tmp_path / f"base-{seed}", seed, "a") for seed in range(2)]
    runs += [held_out(tmp_path / f"amcl-{seed}", seed, "b", **AMCL) for seed in (2, 3)]
    assert len(compare(runs).rows) == 2
    one_group = [held_out(tmp_path / f"more-{s}", s, "aab"[s], run={"epochs": 3}) for s in range(3)]
    rows = compare(one_group).rows
    assert [row.cells[0].values for row in rows] == [(0.5, 0.5, None), (None, None, 0.5)]


# Models


def test_only_the_newest_weights_count(tmp_path):
    run = make(tmp_path / "a")
    put(run, 0.9, weights="new" * 9, time="2026-01-03T00:00:00+00:00")
    put(run, 0.5, weights="old" * 9, time="2026-01-02T00:00:00+00:00")
    put(run, 0.4, weights="old" * 9, protocol="linear", time="2026-01-01T00:00:00+00:00")
    found = compare([run])
    assert [cell.values for row in found.rows for cell in row.cells] == [(0.9,)]
    assert notes(found) == f"{run}: 2 results of older weights left out (oldoldol)."


def test_checkpoints_have_rows_of_their_own(tmp_path):
    runs = two_groups(tmp_path, {0: 0.9}, {0: 0.95})
    for run, value in zip(runs, (0.6, 0.7), strict=True):
        name = str(run / "checkpoints" / "epoch-0100.pt")
        later = "2026-01-09T00:00:00+00:00"
        put(run, value, name=name, weights="early", time=later, settings={"k": 200})
    found = compare(runs)
    assert [row.result.checkpoint for row in found.rows] == ["", "epoch-0100.pt"]
    assert labels(found)[1] == "knn epoch-0100.pt / cifar10 test top1"
    assert [cell.mean for cell in found.rows[0].cells] == [0.9, 0.95]
    assert [cell.mean for cell in found.rows[1].cells] == [0.6, 0.7]
    assert "older weights" not in notes(found)


# Records


def test_a_run_is_a_record(tmp_path):
    run = make(tmp_path / "first", seed=3, data={"workers": 7})
    put(run, {"top1": 0.5}, weights="old", time="2026-01-01T00:00:00+00:00")
    put(run, {"top1": 0.6, "top5": 0.9}, weights="new", time="2026-01-02T00:00:00+00:00")
    put(run, {"top1": 0.1}, name=str(run / "checkpoints/epoch-0001.pt"), weights="early")
    record = read_run(run)
    assert (record.name, record.seed, record.path) == ("first", 3, run)
    assert record.metrics == {"knn_top1_test": 0.6, "knn_top5_test": 0.9}
    assert record.settings["method.temperature.tau"] == 0.5
    assert not {"data.workers", "run.seed"} & record.settings.keys()


def test_names_tell_folders_apart(tmp_path):
    assert run_names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]
    assert run_names([tmp_path / "x/0", tmp_path / "y/0"]) == ["x/0", "y/0"]


# What is wrong


def test_runs_that_cannot_be_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = made(tmp_path / "a", 0.9)
    with pytest.raises(ValueError, match="amcl compare RUN RUN"):
        compare([])
    with pytest.raises(ValueError, match="none is no run folder"):
        compare([run, Path("none")])
    with pytest.raises(ValueError, match="a is given twice"):
        compare([run, Path("a")])
    make(tmp_path / "my run")
    with pytest.raises(ValueError, match="run `amcl evaluate 'my run'` first"):
        compare([Path("my run")])


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (b"[run\n", "config.toml is damaged"),
        (b"\xff\xfe", "config.toml is damaged"),
        (b"[run]\nepochs = 3\n", "no whole number as seed"),
        (b"[run]\nseed = true\n", "no whole number as seed"),
        (b"run = 3\n", "no whole number as seed"),
    ],
)
def test_damaged_configurations(tmp_path, written, told):
    run = made(tmp_path / "a", 0.9)
    (run / "config.toml").write_bytes(written)
    with pytest.raises(ValueError, match=told):
        compare([run])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"top1": 0.9', '"top1": NaN'),
        ('"top1": 0.9', '"top1": "high"'),
        ('"split": "test"', '"split": 3'),
        ('"settings": {', '"settings": 3, "details": {'),
        ('"metrics": {', '"other": {'),
        ("{", ""),
    ],
)
def test_damaged_results(tmp_path, old, new):
    run = make(tmp_path / "a")
    file = put(run, 0.9)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=r"damaged.*: remove it and run `amcl evaluate"):
        compare([run])


# Table, file and command


def many_groups(tmp_path: Path, count: int) -> list[Path]:
    return [
        made(tmp_path / f"{lr}-{seed}", 0.8 + 0.01 * lr + 0.013 * seed * (lr % 3), seed,
             optimizer={"lr": float(lr)})
        for lr in range(1, count + 1)
        for seed in range(2)
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_table_fits_80_columns_with_whole_numbers(tmp_path, count):
    found = compare(many_groups(tmp_path, count))
    assert len(found.table().to_terminal(80, repeat=2).renderables) == 1
    text = shown(found, 80)
    assert max(map(len, text.splitlines())) <= 80
    for row in found.rows:
        for cell, difference in zip(row.cells, row.differences, strict=True):
            assert f"{100 * cell.mean:.1f} ± {100 * cell.std:.1f}%" in text
            if difference is not None:
                low, high = (f"{100 * end:+.2f}" for end in difference.interval)
                assert f"[{low}, {high}]" in text


def test_many_groups_are_shown_in_parts_that_all_have_the_baseline(tmp_path):
    found = compare(many_groups(tmp_path, 6))
    tables = found.table().to_terminal(80, repeat=2).renderables
    headers = [str(column.header) for table in tables for column in table.columns if column.header]
    assert [header.split("lr=")[1] for header in headers if "lr=" in header] == [
        *("1.0", "2.0", "3.0", "4.0"),
        *("1.0", "5.0", "6.0"),
    ]


def test_names_are_no_markup(tmp_path):
    run = make(tmp_path / "a")
    put(run, 0.9, data="[bold]pictures")
    assert "[bold]pictures" in shown(compare([run]))


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    runs = two_groups(tmp_path, {0: 0.90, 1: 0.91}, {0: 0.95, 1: 0.97})
    out = tmp_path / "deep" / "compared.json"
    args = [*map(str, runs), "--baseline", str(runs[2]), "--metrics", "top1", "--json", str(out)]
    assert main(args) == 0
    told = capsys.readouterr().out
    assert "-5.50 ± 0.71 (n=2)" in told
    assert "Differences are from simclr heads=3 temperature=adaptive" in told
    assert f"simclr: 200 epochs; {runs[0]} (seed 0), {runs[1]} (seed 1)" in told
    written = json.loads(out.read_text())
    assert written == compare(runs, baseline=runs[2]).to_dict()
    assert written["groups"][1]["runs"] == [str(run) for run in runs[:2]]
    assert written["rows"][0]["cells"][1]["values"] == [0.90, 0.91]
    assert written["rows"][0]["cells"][1]["mean"] == pytest.approx(0.905)
    difference = written["rows"][0]["differences"][1]
    assert difference["by_seed"] == pytest.approx({"0": -0.05, "1": -0.06})
    assert difference["n"] == 2
    assert written["rows"][0]["differences"][0] is None
    out.write_text("mine")
    assert main(args) == 2
    assert "exists already" in capsys.readouterr().err
    assert out.read_text() == "mine"


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert main([]) == 2
    assert "amcl compare RUN RUN" in capsys.readouterr().err
    make(tmp_path / "a")
    assert main([str(tmp_path / "a"), "--json", str(tmp_path / "x.json")]) == 2
    assert "amcl evaluate" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()
