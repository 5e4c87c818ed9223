"""Which numbers share a row of the table: settings, data, images, checkpoints."""

from pathlib import Path
from typing import Any

import pytest

from amcl.results import Comparison, compare
from result_files import AMCL, make, notes, put, two_groups

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
