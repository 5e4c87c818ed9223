"""benchmarks/curation_proof.py plants what it says, and measures scores against that truth."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from amcl.data.builtin import builtin
from amcl.training import pretrain
from factories import small_config

ROOT = Path(__file__).parents[2] / "benchmarks"
MODULES = (
    *("planted_pictures", "simple_scores", "curation_measures"),
    *("curation_proof", "curation_selection"),
)


@pytest.fixture(scope="module")
def benchmark():
    """The modules by name, without leaving the folder on the path."""
    sys.path.insert(0, str(ROOT))
    yield {name: importlib.import_module(name) for name in MODULES}
    sys.path.remove(str(ROOT))
    for name in (*MODULES, "results_files"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def base(benchmark):
    """40 built-in pictures of four classes."""
    queries = builtin().probe.queries
    rows = (queries.labels < 4).nonzero().squeeze(1)[:40]
    pixels = queries.images[rows].permute(0, 2, 3, 1).contiguous().numpy()
    return benchmark["planted_pictures"].Pictures(pixels, queries.labels[rows].numpy())


@pytest.fixture(scope="module")
def planted(benchmark, base, tmp_path_factory):
    """The folder with 40 clean pictures and eight of most kinds. Do not write into it."""
    module = benchmark["planted_pictures"]
    folder = tmp_path_factory.mktemp("planted")
    share, module.SHARE = module.SHARE, 0.1
    others = module.Pictures(base.pixels[:, ::2, ::2], base.labels)
    module.plant(folder, base, others, seed=3)
    module.SHARE = share
    return folder


def pixels_of(folder, name):
    with Image.open(folder / "pictures" / name) as picture:
        return np.asarray(picture.convert("RGB")).astype(float)


def test_every_kind_is_what_its_name_says(benchmark, base, planted):
    module = benchmark["planted_pictures"]
    rows = module.read_manifest(planted)
    by_kind = {kind: [row for row in rows if row.kind == kind] for kind in {r.kind for r in rows}}
    assert {kind: len(measured) for kind, measured in by_kind.items()} == {
        **{module.CLEAN: 32, "digits": 2, "noise": 2, "other set": 4},
        **dict.fromkeys((*module.COPIES, *module.DAMAGED), 4),
    }
    assert [row.name for row in rows] == sorted(p.name for p in (planted / "pictures").iterdir())
    sources = [row.source for row in rows if row.source]
    assert len(set(sources)) == len(sources) == 20
    clean = {row.name for row in by_kind[module.CLEAN]}
    assert set(sources) <= clean  # a source is not damaged
    labels = {row.name: row.label for row in rows}
    for kind in module.COPIES:
        for row in by_kind[kind]:
            copy, source = (pixels_of(planted, name) for name in (row.name, row.source))
            assert labels[row.name] == labels[row.source]
            assert (row.name.endswith(".jpg")) == (kind == "jpeg")
            if kind == "exact":
                assert (copy == source).all()
            elif kind == "mirrored":
                assert (copy == source[:, ::-1]).all()
            elif kind == "jpeg":
                assert 0 < np.abs(copy - source).mean() < 40
            elif kind == "resized":
                assert 16 <= len(copy) <= 24
            else:
                assert copy.shape == source.shape
                assert (copy != source).any()
    for row in by_kind["occluded"]:
        flat = pixels_of(planted, row.name).reshape(-1, 3)
        most = np.unique(flat, axis=0, return_counts=True)[1].max() / len(flat)
        assert 0.2 < most < 0.6
    assert all(row.label == -1 for kind in module.FOREIGN for row in by_kind[kind])


def test_hashes_survive_what_they_are_made_for(benchmark):
    scores = benchmark["simple_scores"]
    noise = np.random.default_rng(0).integers(0, 256, (2, 6, 6, 3), dtype=np.uint8)
    one, other = (Image.fromarray(x).resize((64, 64), Image.Resampling.BICUBIC) for x in noise)
    for sign in (scores.perceptual_hash, scores.difference_hash):
        assert sign(one).abs().eq(1).all()
        same = (sign(one) == sign(one.resize((48, 48)))).sum()
        assert same >= 58 > 48 > (sign(one) == sign(other)).sum()


def test_sharpness_is_the_variance_of_the_laplacian(benchmark, tmp_path):
    pixels = np.zeros((5, 5, 3), dtype=np.uint8)
    pixels[2, 2] = 10
    Image.fromarray(pixels).save(tmp_path / "dot.png")
    # Of nine inner pixels one has −40, its four neighbors 10.
    assert benchmark["simple_scores"].sharpness(tmp_path / "dot.png") == pytest.approx(2000 / 9)


def test_auroc_and_precision_count_equal_scores_by_chance(benchmark):
    scores = benchmark["simple_scores"]
    positive = torch.tensor([True, True, False, False, False])
    values = torch.tensor([3.0, 1.0, 1.0, 1.0, 0.0])
    assert scores.auroc(values, positive) == pytest.approx((3 + 2) / 6)
    assert scores.precision(values, positive) == pytest.approx((1 + 1 / 3) / 2)
    assert scores.precision(torch.arange(5.0), positive) == 0


def test_misclassified_pictures_have_neighbors_of_another_class(benchmark):
    angle = torch.cat([torch.zeros(30), torch.full((30,), 1.5)]) + torch.linspace(0, 0.1, 60)
    labels = torch.tensor([0] * 30 + [1] * 30)
    labels[4] = 1
    wrong = benchmark["curation_measures"].misclassified(
        torch.stack([angle.cos(), angle.sin()], 1), labels
    )
    assert wrong.nonzero().flatten().tolist() == [4]


def test_a_tiny_proof_from_pictures_to_tables(benchmark, planted, monkeypatch):
    schemes = {"amcl": "adaptive", "simclr": "constant", "tau": "uncertainty"}
    for name, scheme in schemes.items():
        options = {"data": str(planted / "pictures"), "canvas": 32, "image_size": 32, "workers": 0}
        options |= {"epochs": 1, "batch_size": 20, "probe": "none", "projector": (16, 8)}
        options |= {"projector_last_norm": "plain"}
        config = small_config(
            "builtin-simclr-amcl", **options, validation=0, heads=2, temperature=scheme
        )
        pretrain(config, planted / name)
    measures, proof = benchmark["curation_measures"], benchmark["curation_proof"]
    monkeypatch.setattr(measures, "_FOLDS", 2)
    monkeypatch.setattr(measures, "_NEIGHBORS", 3)
    measured = json.loads(json.dumps(measures.measure(planted, 32, 0)))
    assert set(measured["separated"]) == set(measures.KINDS)
    for kind, scores in measured["separated"].items():
        for name, separated in scores.items():
            assert 0 <= separated["auroc"] <= 1, (kind, name)
            assert 0 <= separated["precision"] <= 1, (kind, name)
    exact = measured["separated"]["exact"]
    for name in ("same pixels", "column nearest_cosine", "nearest cosine, pHash"):
        assert exact[name]["auroc"] == pytest.approx(1), name
    assert exact["same pixels"]["precision"] == 1
    assert measured["partners"]["amcl"]["exact"] == 1
    assert set(measured["alone"]) == set(measures.ODD)
    assert measured["flags"]["exact"]["grouped"] == 1
    page = proof.page({"cifar10": {"0": measured, "1": measured}})
    assert "| same pixels | 100.0 ± 0.0 |" in page

    selection = benchmark["curation_selection"]
    monkeypatch.setattr(selection, "COUNTS", (8, 12))
    monkeypatch.setattr(selection, "SEEDS", dict.fromkeys(selection.SEEDS, 2))
    queries = builtin().probe.queries
    result = selection.measure(planted, queries.images, queries.labels, 0)
    assert set(result) == {"as found", "clean"}
    for by_rule in result.values():
        for by_count in by_rule.values():
            for accuracy in (one for measured in by_count.values() for one in measured):
                assert 0 <= accuracy["knn"] <= 1
                assert 0 <= accuracy["linear"] <= 1
    clean = [one["lost"] for by in result["clean"].values() for one in by["12"]]
    assert clean == [0] * len(clean)
    assert "| random |" in selection.page({"stl10": {"0": result}})


@pytest.mark.parametrize("name", ["curation_proof", "curation_selection"])
def test_the_page_shows_what_is_kept(benchmark, name):
    kept = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
    page = (ROOT / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert benchmark[name].page(kept) in page


def test_lost_labels_are_left_out_before_judging(benchmark):
    x = torch.eye(3)
    labels = torch.tensor([0, 1, -1])
    accuracy = benchmark["curation_selection"].judge(x, labels, x[:2], labels[:2])
    assert accuracy == {"knn": 1.0, "linear": 1.0}
