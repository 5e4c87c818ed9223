"""All protocols on one model: labels, classes, features taken once, results kept."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.checkpoints.evaluations import describe
from amcl.data import DataSet, Labeled, MemoryImages, Probe, load_dataset
from amcl.evaluation import (
    PROTOCOLS,
    Evaluation,
    FewLabelsSettings,
    FinetuneSettings,
    KnnSettings,
    LinearSettings,
    Outcome,
    read_results,
    register_protocol,
)
from amcl.metrics import Transform

TRANSFORM = Transform(image_size=8)
QUICK = {
    "knn": KnnSettings(k=5),
    "linear": LinearSettings(epochs=2, min_steps=0, lrs=(0.1, 1.0)),
    "few-labels": FewLabelsSettings(per_class=(5,), draws=2),
    "finetune": FinetuneSettings(
        **{"epochs": 10, "warmup_epochs": 0, "min_steps": 0, "lr": 0.5, "batch_size": 32},
        **{"layer_decay": 1, "drop_path": 0, "mixup": 0, "cutmix": 0},
    ),
}


def colors(n, seed=0):
    """Six classes that a mean color tells apart, nearly."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 6
    center = torch.tensor(
        [[40, 9, 9], [9, 40, 9], [9, 9, 40], [40, 40, 9], [9, 40, 40], [40, 9, 40]]
    )
    noise = torch.randint(200, (n, 3, 8, 8), generator=chance)
    return Labeled(MemoryImages((center[labels][..., None, None] + noise).to(torch.uint8)), labels)


def data(split="test", **changed):
    bank, queries = colors(120), colors(60, seed=1)
    names = tuple("abcdef")
    values = {
        "name": "colors",
        "train": bank.images,
        "probe": Probe(bank, queries, names, split),
        "image_size": 8,
        "mean": (0.1,) * 3,
        "std": (0.1,) * 3,
    }
    return DataSet(**values | changed)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        return self.body(x)


def test_knn_is_scikit_learns_on_the_features():
    found = Evaluation(Counting(), data(), TRANSFORM, settings=QUICK).run("knn")
    probe = data().probe
    x, queries = (
        Counting()(TRANSFORM(part.images[torch.arange(len(part.labels))])).numpy()
        for part in (probe.bank, probe.queries)
    )
    theirs = KNeighborsClassifier(
        5, metric="cosine", algorithm="brute", weights=lambda d: np.exp((1 - d) / 0.1)
    ).fit(x, probe.bank.labels)
    assert found.metrics["top1"] == pytest.approx(theirs.score(queries, probe.queries.labels))
    assert 1 / 6 < found.metrics["top1"] < found.metrics["top5"] <= 1


def test_every_protocol_gives_numbers_that_are_kept(tmp_path):
    model = Counting()
    evaluation = Evaluation(
        model, data(), TRANSFORM, name="mine", settings=QUICK, seed=3, folder=tmp_path
    )
    names = [name for name in PROTOCOLS if not PROTOCOLS[name].own_images]
    results = [evaluation.run(protocol) for protocol in names]
    assert [result.protocol for result in results] == names
    kept = {result.protocol: result for result in read_results(tmp_path)}
    assert set(kept) == set(names)
    for result in results:
        stored = json.loads(result.path(tmp_path).read_text())
        assert stored["metrics"] == result.metrics
        assert (stored["seed"], stored["model"]["name"]) == (3, "mine")
        assert stored["settings"]["transform"]["image_size"] == 8
    for protocol in ("knn", "linear", "logistic", "finetune"):
        assert kept[protocol].metrics["top1"] > 0.3, protocol  # chance is a sixth
        assert kept[protocol].images | {"sha256": ""} == {
            **{"train": 120, "test": 60, "classes": 6},
            "sha256": "",
        }
    assert kept["few-labels"].metrics["n=5"] > 0.3
    assert kept["unlabeled"].metrics["auroc"] > 0.5
    # 120 + 60 once for all protocols on features, three times 60 for pairs; fine-tuning copies.
    assert model.seen == 180 + 180
    weights = next((tmp_path / "evaluation").glob("finetune-*.safetensors"))
    assert weights.stat().st_size > 0
    again = Evaluation(model, data(), TRANSFORM, settings=QUICK, folder=tmp_path)
    assert again.run("knn").metrics == kept["knn"].metrics
    assert model.seen == 360


def test_equal_votes_are_kept_too(tmp_path):
    settings = {"knn": KnnSettings(k=5, tau=float("inf"))}
    evaluation = Evaluation(Counting(), data(), TRANSFORM, settings=settings, folder=tmp_path)
    assert evaluation.run("knn") == read_results(tmp_path)[0]
    assert read_results(tmp_path)[0].settings["tau"] == "inf"


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Evaluation(Counting(), data(), TRANSFORM, settings=QUICK).run("finetune")
    assert list(tmp_path.iterdir()) == []


def test_augmented_linear_probes_see_views():
    augmented = QUICK | {"linear": replace(QUICK["linear"], augment=True)}
    model = Counting()
    found = Evaluation(model, data(), TRANSFORM, settings=augmented).run("linear")
    assert found.metrics["top1"] > 0.3
    assert model.seen == 180 + 2 * 120


def test_the_supervised_baseline_is_of_the_same_backbone():
    settings = QUICK | {
        "few-labels": replace(QUICK["few-labels"], supervised=True),
        "finetune": replace(QUICK["finetune"], epochs=1, batch_size=30, min_steps=1),
    }
    backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=8)
    found = Evaluation(backbone, data(), TRANSFORM, settings=settings).run("few-labels")
    assert set(found.metrics) == {"n=5", "supervised n=5"}
    assert found.settings["finetune"]["batch_size"] == 30  # of the baseline
    assert len(found.details["draws"]["supervised n=5"]) == 2


def test_from_scratch_no_layer_learns_more_slowly():
    settings = replace(QUICK["finetune"], epochs=1, scratch=True, layer_decay=0.5)
    backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=8)
    chosen = {"finetune": settings}
    found = Evaluation(backbone, data(), TRANSFORM, settings=chosen).run("finetune")
    assert found.settings["layer_decay"] == found.details["layer_decay"] == 1


def test_precision_is_part_of_a_fine_tuning(tmp_path):
    plain = Evaluation(Counting(), data(), TRANSFORM, settings=QUICK, folder=tmp_path)
    assert plain.run("finetune").settings["precision"] == "32"
    with pytest.raises(ValueError, match="bf16"):  # on a CPU
        Evaluation(Counting(), data(), TRANSFORM, settings=QUICK, precision="bf16").run("finetune")


def test_labeled_protocols_need_labels():
    unlabeled = data(probe=None, notes=("the images do not all lie in <class>/<file>",))
    evaluation = Evaluation(Counting(), unlabeled, TRANSFORM)
    for protocol in PROTOCOLS:
        if PROTOCOLS[protocol].needs_labels:
            with pytest.raises(ValueError, match=r"needs labels.*colors/CLASS/FILE") as error:
                evaluation.run(protocol)
            assert len(str(error.value).split()) < 40
    found = evaluation.run("unlabeled")
    assert (found.split, found.images["images"]) == ("train", 120)


def keep(labeled, *classes):
    chosen = torch.isin(labeled.labels, torch.tensor(classes)).nonzero().squeeze(1)
    return labeled.subset(chosen)


@pytest.mark.parametrize("split", ["test", "validation"])
def test_classes_must_be_the_same_on_both_sides(split):
    probe = data(split).probe
    fewer = replace(probe, bank=keep(probe.bank, 0, 1, 2, 3))
    with pytest.raises(ValueError, match=r"training split has no .* of 2 of the classes \(e, f\)"):
        Evaluation(Counting(), data(probe=fewer), TRANSFORM, settings=QUICK).run("knn")
    fewer = replace(probe, queries=keep(probe.queries, 0, 1, 2, 3, 4))
    evaluation = Evaluation(Counting(), data(probe=fewer), TRANSFORM, settings=QUICK)
    if split == "validation":  # held out at random: a small class may be missing
        assert evaluation.run("knn").metrics["top1"] > 0.3
    else:
        with pytest.raises(ValueError, match=r"the test split has no .* of 1 of the classes \(f\)"):
            evaluation.run("knn")
    one = replace(probe, bank=keep(probe.bank, 0), queries=keep(probe.queries, 0))
    with pytest.raises(ValueError, match="1 class to train on"):
        Evaluation(Counting(), data(probe=one), TRANSFORM).run("linear")


def test_files_found_unreadable_before_are_told_too():
    broken = data(unreadable=(("a.png", "no picture"), ("b.png", "no picture")))
    for protocol in ("knn", "unlabeled"):
        found = Evaluation(Counting(), broken, TRANSFORM, settings=QUICK).run(protocol)
        assert found.details["notes"] == [
            "2 unreadable files left out, the first a.png: no picture"
        ]


def test_an_unknown_protocol_is_named():
    with pytest.raises(ValueError, match="no protocol 'fewlabels': did you mean 'few-labels'"):
        Evaluation(Counting(), data(), TRANSFORM).run("fewlabels")


def test_labels_stay_with_their_images_where_files_are_broken(tmp_path):
    """Files that are decoded as they are used turn out to be broken late."""
    chance = np.random.default_rng(0)
    for split, n in (("train", 30), ("test", 10)):
        for number, name in enumerate(("dark", "light")):
            folder = tmp_path / "pictures" / split / name
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = chance.integers(100, size=(8, 8, 3)) + 150 * number
                Image.fromarray(pixels.astype("uint8")).save(folder / f"{i:02d}.png")
        for i in (0, 5):
            (tmp_path / "pictures" / split / "dark" / f"{i:02d}.png").write_bytes(b"broken")
    pictures = load_dataset(
        str(tmp_path / "pictures"), probe="test", image_size=8, memory=0, workers=0
    )
    evaluation = Evaluation(Counting(), pictures, Transform(image_size=8), settings=QUICK)
    linear = replace(QUICK["linear"], augment=True, epochs=5)
    evaluation.settings = QUICK | {
        "linear": linear,
        "knn": KnnSettings(metric="euclidean", k=3),
    }
    for protocol in ("knn", "linear", "finetune"):
        found = evaluation.run(protocol)
        assert found.metrics["top1"] == 1, protocol
        assert any("2 unreadable files" in note for note in found.details["notes"]), protocol


def uneven_data():
    """Classes of 20, 20, 20, 20, 20 and 5 training images, and 10 to 2 to be judged on."""
    probe = data().probe
    bank = torch.arange(120)[(probe.bank.labels < 5) | (torch.arange(120) < 30)]
    queries = torch.arange(60)[(probe.queries.labels < 5) | (torch.arange(60) < 12)]
    return data(
        probe=replace(probe, bank=probe.bank.subset(bank), queries=probe.queries.subset(queries))
    )


def test_k_follows_the_size_of_classes_unless_it_is_given():
    found = Evaluation(Counting(), data(), TRANSFORM).run("knn")
    assert found.settings["k"] == 20
    given = Evaluation(Counting(), data(), TRANSFORM, settings=QUICK).run("knn")
    assert given.settings["k"] == 5
    assert "k 20," in describe(found)


def test_results_tell_of_every_class(tmp_path):
    evaluation = Evaluation(Counting(), uneven_data(), TRANSFORM, settings=QUICK, folder=tmp_path)
    truth = uneven_data().probe.queries.labels
    for protocol in ("knn", "linear", "logistic", "finetune"):
        found = evaluation.run(protocol)
        kept = json.loads(found.path(tmp_path).read_text())["details"]
        counts = np.array(kept["confusion"])
        assert counts.sum(1).tolist() == truth.bincount().tolist()
        top1 = counts.trace() / len(truth)
        assert found.metrics["top1"] == pytest.approx(top1)
        shares = counts.diagonal() / counts.sum(1)
        assert found.metrics["balanced_top1"] == pytest.approx(shares.mean())
        assert kept["balanced_top1"] == found.metrics["balanced_top1"]
        per_class = kept["per_class"]
        assert [per_class[name]["top1"] for name in "abcdef"] == pytest.approx(shares)
        assert per_class["f"]["images"] == 2
        worst = counts - np.diag(counts.diagonal())
        if worst.any():
            assert kept["confused"][0]["images"] == worst.max()
        assert kept["interval"]["top1"] == pytest.approx(
            list(proportion_interval(counts.trace(), len(truth)))
        )
        assert "train_top1" not in kept["interval"]


def proportion_interval(hits, n, z=1.959964):
    """Wilson's interval as the roots of (p − h/n)² = z² p (1 − p) / n."""
    roots = np.roots([1 + z**2 / n, -(2 * hits / n + z**2 / n), (hits / n) ** 2])
    return sorted(roots.real)


def test_few_labels_are_balanced_too(tmp_path):
    evaluation = Evaluation(Counting(), uneven_data(), TRANSFORM, settings=QUICK, folder=tmp_path)
    found = evaluation.run("few-labels")
    assert set(found.metrics) == {"n=5", "balanced n=5"}
    assert found.details["interval"].keys() == {"n=5"}
    even = Evaluation(Counting(), data(), TRANSFORM, settings=QUICK).run("few-labels")
    assert set(even.metrics) == {"n=5"}
    assert even.details["balanced"]["balanced n=5"] == pytest.approx(even.metrics["n=5"])


def test_balanced_accuracy_is_a_metric_only_where_classes_differ_in_size():
    assert "balanced_top1" not in Evaluation(Counting(), data(), TRANSFORM).run("knn").metrics


def test_very_few_images_to_be_judged_on_come_with_a_word_of_caution():
    probe = data().probe
    few = replace(probe, queries=probe.queries.subset(torch.arange(28)))
    found = Evaluation(Counting(), data(probe=few), TRANSFORM).run("knn")
    assert any("only 28 images are judged on, each worth 3.6" in n for n in found.details["notes"])
    assert not Evaluation(Counting(), data(), TRANSFORM).run("knn").details["notes"]


def test_a_linear_probe_says_how_many_epochs_few_images_had():
    settings = {"linear": LinearSettings(epochs=2, min_steps=30, lrs=(0.1,))}
    found = Evaluation(Counting(), data(), TRANSFORM, settings=settings).run("linear")
    assert found.settings["epochs"] == 30
    assert "min_steps" not in found.settings  # as results of earlier versions


@dataclass(frozen=True, kw_only=True)
class NormSettings:
    order: float = 2.0
    """Order of the norm."""


@pytest.fixture
def norm():
    """A protocol that nothing in the package knows of."""

    @register_protocol("norm", NormSettings, shown=("order",), is_default=lambda data: True)
    def run_norm(evaluation, settings):
        values = evaluation.test_features.values
        return Outcome(
            metrics={"mean_norm": values.norm(settings.order, dim=1).mean().item()},
            details={"notes": ["of the test images"]},
        )

    yield "norm"
    PROTOCOLS.unregister("norm")


def test_a_protocol_of_a_script_runs_as_a_built_in_one(norm, tmp_path):
    settings = {"norm": NormSettings(order=1.0)}
    evaluation = Evaluation(Counting(), data(), TRANSFORM, settings=settings, folder=tmp_path)
    result = evaluation.run("norm")
    assert result == read_results(tmp_path)[0]
    assert result.settings["order"] == 1.0
    expected = evaluation.test_features.values.abs().sum(1).mean().item()
    assert result.metrics == {"mean_norm": pytest.approx(expected)}
    assert "order 1.0" in describe(result)
    assert "note: of the test images" in describe(result)
    with pytest.raises(ValueError, match=r"colors/CLASS/FILE.*--labels none"):
        Evaluation(Counting(), data(probe=None), TRANSFORM).run("norm")


def test_a_name_of_a_protocol_is_taken_once(norm):
    with pytest.raises(ValueError, match=r"'norm' is registered already.*choose another name"):
        register_protocol("norm", NormSettings)(lambda evaluation, settings: None)


def test_settings_must_be_those_of_the_protocol():
    with pytest.raises(TypeError, match="'knn' must be KnnSettings, got LinearSettings"):
        Evaluation(Counting(), data(), TRANSFORM, settings={"knn": LinearSettings()})
    with pytest.raises(ValueError, match="did you mean 'knn'"):
        Evaluation(Counting(), data(), TRANSFORM, settings={"kn": KnnSettings()})
