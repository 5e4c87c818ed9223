"""benchmarks/heads_that_differ.py measures heads and robustness, and its page shows its numbers."""

import json

import pytest
import torch

from amcl.metrics.features import Transform
from amcl.training import pretrain
from amcl.views import ViewSettings
from benchmark_scripts import BENCHMARKS, load_script
from factories import small_config
from tiny_runs import picture_folder


@pytest.fixture
def benchmark(monkeypatch):
    return load_script(monkeypatch, "heads_that_differ")


@pytest.mark.parametrize(
    ("name", "show"), [("heads_that_differ", "page"), ("temperature_cost", "table")]
)
def test_the_page_shows_what_is_kept(monkeypatch, name, show):
    kept = json.loads((BENCHMARKS / "results" / f"{name}.json").read_text(encoding="utf-8"))
    page = (BENCHMARKS / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert getattr(load_script(monkeypatch, name), show)(kept) in page


def test_every_temperature_is_timed_as_its_options_say(monkeypatch):
    cost = load_script(monkeypatch, "temperature_cost")
    configs = cost.configurations(3)
    for name in cost.SCHEMES:
        assert (configs[name].method.temperature.name, configs[name].method.heads) == (name, 3)
    assert configs[cost.PENALTY].method.head_diversity == 1.0
    assert configs["adaptive"].method.head_diversity == 0.0
    kept = json.loads(
        (BENCHMARKS / "results" / "temperature_cost.json").read_text(encoding="utf-8")
    )
    for heads in cost.HEADS:
        assert kept[str(heads)].keys() == cost.configurations(heads).keys()


def test_one_kind_of_augmentation_always_happens_and_no_other(benchmark):
    images = torch.randint(256, (4, 3, 16, 16), dtype=torch.uint8)
    trained = ViewSettings(gray_p=0.2, flip_p=0.5)
    transform = Transform(image_size=16)

    def view(letters):
        views = transform.views(benchmark.only(letters, trained))
        drawn = views.draw(4, generator=torch.Generator().manual_seed(0))
        return views(images, drawn.first()).squeeze(0)

    plain = view("")
    torch.testing.assert_close(plain, transform(images))
    torch.testing.assert_close(view("e"), plain.flip(-1))
    for kind, letters in benchmark.KINDS.items():
        assert torch.equal(view(letters), plain) == (kind == "unchanged"), kind


def test_a_run_is_measured_by_its_backbone_and_by_every_head(benchmark, tmp_path):
    for split, count in (("train", 16), ("test", 6)):
        for name in ("a", "b"):
            picture_folder(tmp_path / "set" / split / name, count=count // 2, size=16)
    options = {"data": str(tmp_path / "set"), "image_size": 16, "workers": 0, "epochs": 1}
    options |= {"batch_size": 8, "probe": "none", "projector": (16, 8), "validation": 0}
    pretrain(small_config("builtin-simclr-amcl", **options), tmp_path / "run")
    found = benchmark.evaluate(tmp_path / "run")
    assert found["images"] == {"bank": 16, "test": 6}
    assert [*found["kinds"]] == [*benchmark.KINDS]
    spaces = ["backbone", "head 1", "head 2", "head 3", "all heads"]
    assert [*found["kinds"]["unchanged"]] == spaces
    for kind in benchmark.KINDS:
        for measured in found["kinds"][kind].values():
            assert all(0 <= value <= 1 for value in measured.values())
    assert found["kinds"]["flip"]["backbone"].keys() == {"knn", "own_image"}


def test_differences_are_paired_by_seed(benchmark):
    runs = {
        side: {seed: {"kinds": {"flip": {"backbone": {"knn": value}}}} for seed, value in by_seed}
        for side, by_seed in (("base", [("0", 0.4), ("1", 0.5)]), ("ours", [("1", 0.52)]))
    }
    lines = benchmark.table(runs, [("flip", "flip", "backbone", "knn")]).splitlines()
    assert lines[0] == "| | base | ours |"
    assert lines[2] == "| flip | 45.0 ± 7.1 | 52.0 (+2.0) |"


def test_an_image_finds_its_own_picture_only_where_that_is_nearest(benchmark):
    gallery = torch.tensor([[1.0, 0.0], [1.0, -0.1]])
    assert benchmark.own_image(torch.eye(2), gallery) == 0.5
