"""Which runs are a group, and how groups are named."""

import pytest

from amcl.config import Config
from amcl.methods import MoCoSettings
from amcl.results import compare
from amcl.temperature import ConstantSettings
from result_files import AMCL, made, notes, put, shown, two_groups

# Groups


UNLEARNED = [
    ("hardware", {"precision": "32", "devices": 1, "threads": 3, "sync_norm": True}),
    ("data", {"workers": 7, "memory": 1.0, "data_root": "elsewhere"}),
    ("run", {"log_every": 3, "save_every": 2, "save_minutes": 1.0, "keep_every": 5}),
    (
        "run",
        {
            "probe_every": 3,
            "knn_k": 7,
            "tensorboard": True,
            "wandb": "project",
            "mlflow": "experiment",
        },
    ),
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
    with pytest.raises(ValueError, match=r"--baseline .*/none .*/base-0, "):
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
