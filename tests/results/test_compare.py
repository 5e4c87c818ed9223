"""Runs side by side: groups, rows, means, paired differences, notes, and the command."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from amcl.cli.compare import main
from amcl.results import compare, read_run
from amcl.results.read import run_names
from result_files import AMCL, made, make, notes, put, shown, two_groups

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


def test_a_folder_without_a_run_has_the_name_of_its_folder(tmp_path):
    put(tmp_path / "scratch", 0.5)  # as `amcl detect` leaves it for a timm model
    run = made(tmp_path / "first", 0.6)
    found = compare([tmp_path / "scratch", run])
    assert found.names[0] == "scratch"
    assert all(found.names)


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
    with pytest.raises(ValueError, match=r"^none .*config\.toml"):
        compare([run, Path("none")])
    with pytest.raises(ValueError, match=r"^a .*\(as .*/a\)"):
        compare([run, Path("a")])
    make(tmp_path / "my run")
    with pytest.raises(ValueError, match="run `amcl evaluate 'my run'` first"):
        compare([Path("my run")])


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (b"[run\n", "config.toml is not TOML"),
        (b"\xff\xfe", "config.toml is not a text in UTF-8"),
        (b"[run]\nepochs = 3\n", "run.seed"),
        (b"[run]\nseed = true\n", "run.seed"),
        (b"run = 3\n", "run.seed"),
        (b"[run]\nseed = 0\nepochs = []\n", "run.epochs"),
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
    with pytest.raises(ValueError, match=r"(damaged|no result).* Remove it and run `amcl evaluate"):
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
    assert "RUN ... is missing" in capsys.readouterr().err
    make(tmp_path / "a")
    assert main([str(tmp_path / "a"), "--json", str(tmp_path / "x.json")]) == 2
    assert "amcl evaluate" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()
