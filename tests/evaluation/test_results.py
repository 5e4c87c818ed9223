"""Results as files, and as a table."""

import io
import json

import pytest
from rich.console import Console

from amcl.checkpoints.evaluations import (
    Result,
    describe,
    format_metric,
    read_results,
    results_table,
)


def result(**changed):
    values = {
        "protocol": "knn",
        "data": "cifar10",
        "split": "test",
        "metrics": {"top1": 0.912, "top5": 0.99},
        "model": {"name": "runs/first", "sha256": "ab"},
        "settings": {"k": 200, "tau": 0.1, "metric": "cosine"},
        "shown": ["k", "tau", "metric"],
        "seed": 0,
        "images": {"train": 50000, "test": 10000, "classes": 10, "sha256": "cd"},
    }
    return Result(**values | changed)


def test_what_is_written_is_read(tmp_path):
    first, second = result(), result(protocol="linear", time="2000-01-01T00:00:00+00:00")
    for one in (first, second):
        assert one.write(tmp_path).parent == tmp_path / "evaluation"
    assert read_results(tmp_path) == [second, first]  # by time
    assert first.environment["packages"]["torch"]
    assert read_results(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    "changed",
    [
        {"protocol": "linear"},
        {"data": "stl10"},
        {"split": "validation"},
        {"settings": {"k": 20, "tau": 0.1, "metric": "cosine"}},
        {"seed": 1},
        {"images": {"train": 1}},
        {"model": {"name": "runs/first", "sha256": "other"}},
        {"model": {"name": "runs/first/checkpoints/last.pt", "sha256": "ab"}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_only_the_same_measurement_replaces_another(tmp_path, changed):
    result().write(tmp_path)
    result(metrics={"top1": 0.5}).write(tmp_path)  # measured again
    assert [r.metrics for r in read_results(tmp_path)] == [{"top1": 0.5}]
    result(**changed).write(tmp_path)
    assert len(read_results(tmp_path)) == 2


def test_a_name_of_data_cannot_leave_the_folder(tmp_path):
    path = result(data="../../etc/my pictures").write(tmp_path)
    assert path.parent == tmp_path / "evaluation"
    assert path.name.startswith("knn-my-pictures-test-")


def test_a_number_that_is_none_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        result(metrics={"top1": float("nan")}).write(tmp_path)
    assert list((tmp_path / "evaluation").glob("*")) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"protocol": "knn"}', '{"unknown": 1}', "\xff"])
def test_a_damaged_file_is_named(tmp_path, text):
    path = result().write(tmp_path)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(
        ValueError, match=rf"{path.name} is .* Remove it and run `amcl evaluate` again"
    ):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"metrics": {"top1": "all"}}, "metrics in .* top1 is 'all' instead of a number"),
        ({"metrics": {"top1": float("nan")}}, r"\.json .*finite.*`amcl evaluate`"),
        ({"metrics": {"top1": 10**400}}, "more than 64 bits"),
        ({"time": 3}, "time in .* is 3 instead of text"),
        ({"seed": True}, "seed in .* is True"),
        ({"settings": []}, r"settings in .* is \[\]"),
        ({"seed": None}, "seed in .* is None"),
        ({"details": {"notes": 3}}, "details in .* notes is 3 instead of a list"),
        ({"details": {"lr": "x"}}, "details in .* lr is 'x' instead of a number"),
        ({"details": {"hold_out_top1": 0.5}}, "details in .* hold_out_top1 is 0.5 instead of"),
        ({"details": {"std": {"top1": "x"}}}, "details in .* std.top1 is 'x' instead of a number"),
    ],
)
def test_values_must_be_what_they_should(tmp_path, changed, told):
    path = result().write(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    result(protocol="linear").write(tmp_path)
    with pytest.raises(ValueError, match=told):
        read_results(tmp_path)


def test_shares_are_in_per_cent_and_draws_have_a_spread():
    few = result(
        protocol="few-labels",
        metrics={"n=10": 0.5, "n=20": 0.6, "uniformity": -2.5},
        details={"std": {"n=10": 0.02, "n=20": None}},
    )
    assert [format_metric(few, name) for name in few.metrics] == ["50.0% ± 2.0%", "60.0%", "-2.5 ↓"]


def test_the_table_tells_numbers_settings_and_notes():
    noted = result(details={"notes": ["the images were seen"]})
    linear = result(
        protocol="linear",
        settings={"epochs": 100, "augment": True, "lrs": [0.1, 1.0]},
        shown=["epochs", "augment"],
        details={"lr": 0.1, "hold_out_images": 5000, "hold_out_top1": {"0.1": 1, "1": 0.5}},
    )
    shown = io.StringIO()
    Console(width=160, file=shown).print(results_table([noted, linear], "runs/first"))
    told = " ".join(shown.getvalue().split())
    assert "runs/first on cifar10, test" in told
    assert "top1 91.2%" in told
    assert "k 200, tau 0.1, metric cosine" in told
    assert "note: the images were seen" in told
    assert (
        "epochs 100, augment, lr 0.1 (best of 2 values, on 5,000 held-out training images)" in told
    )
    assert "50,000 train, 10,000 test, 10 classes" in told


def test_accuracies_of_few_images_come_with_their_interval():
    details = {"interval": {"top1": [0.85, 0.95]}}
    few = result(details=details, images={"train": 300, "test": 150, "classes": 10})
    assert format_metric(few, "top1") == "91.2% [85.0%, 95.0%]"
    assert "95 % interval" in describe(few)
    many = result(details=details)
    assert format_metric(many, "top1") == "91.2%"
    assert "95 % interval" not in describe(many)


def test_measures_without_labels_say_which_direction_is_better():
    found = result(protocol="unlabeled", metrics={"alignment": 0.24, "auroc": 0.9})
    assert [format_metric(found, name) for name in found.metrics] == ["0.24 ↓", "0.9 ↑"]
    assert "↑ higher is better, ↓ lower is better" in describe(found)


def test_results_of_earlier_versions_are_read(tmp_path):
    """They have no accuracy by class, no interval and no folds."""
    old = result(
        protocol="linear",
        details={"lr": 0.1, "hold_out_images": 29, "hold_out_top1": {"0.1": 1, "1": 0.5}},
    )
    old.write(tmp_path)
    assert read_results(tmp_path) == [old]
    assert "lr 0.1 (best of 2 values, on 29 held-out training images)" in describe(old)
