"""Samples of pairs: every method and temperature against loops, seeds, images, pictures."""

import math

import pytest
import torch
from PIL import Image

from amcl import functional as F
from amcl.analysis import PairSettings, negatives, pair_sample, positives
from amcl.analysis import pairs as module
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import DataSet, FileImages, Labeled, MemoryImages, Probe
from amcl.methods import METHODS, make_method
from amcl.temperature import TEMPERATURES
from amcl.temperature.settings import field_names, schemes_with
from amcl.views import Views, ViewSettings
from factories import method_settings
from reference import cross_correlation
from reference import temperature as samples
from reference.cross_correlation import phi_on_samples
from reference.temperature import adaptive, sim
from reference.vicreg import less_the_mean
from schemes import items as items_of
from schemes import pair_up, phi_layers, scale_of
from toy_methods import REFUSED

SIZE, QUERIES = 16, 5
RESNET = BackboneSettings(name="resnet10t", width=0.125)
VIT = BackboneSettings(name="test_vit", patch=4, pool="mean")
DECODER = {"decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
HEADS = {"projector": (8, 5), "heads": 2}
SMALL = {
    "simclr": (RESNET, HEADS),
    "moco": (RESNET, {**HEADS, "queue": 16}),
    "simsiam": (RESNET, {**HEADS, "predictor": 16}),
    "barlow": (RESNET, HEADS),
    "supcon": (RESNET, HEADS),
    "vicreg": (RESNET, HEADS),
    "dino": (RESNET, {**HEADS, "prototypes": 16}),
    "mae": (VIT, DECODER),
    "can": (VIT, {**HEADS, **DECODER}),
    "mocov3": (VIT, {**HEADS, "predictor": 16}),
    "lgp": (VIT, {**HEADS, "predictor": 16}),
    "byol": (RESNET, {**HEADS, "predictor": 16}),
    "nnclr": (RESNET, {**HEADS, "predictor": 16, "queue": 16}),
}
SCHEMES = TEMPERATURES.names()
WITH_HEADS = [name for name in METHODS if name != "mae"]
CASES = [(m, s) for m in WITH_HEADS for s in SCHEMES if (m, s) not in REFUSED]
LIMITS = {"tau": 0.7, "tau_lower": 0.3, "tau_upper": 1.2, "tau_period": 10.0}


def make(name, temperature="constant", **options):
    backbone, small = SMALL[name]
    options = {
        k: v for k, v in options.items() if not schemes_with(k) or k in field_names(temperature)
    }
    options["temperature"] = temperature
    return make_method(method_settings(name, **small | options), Backbone(backbone, SIZE))


def pixels(n, size=24):
    return torch.randint(256, (n, 3, size, size), dtype=torch.uint8)


def data_set(train, probe=None):
    return DataSet(
        name="noise",
        train=train,
        probe=probe,
        image_size=SIZE,
        mean=(0.4, 0.5, 0.6),
        std=(0.2, 0.25, 0.3),
    )


def labeled(n=QUERIES):
    return Labeled(MemoryImages(pixels(n)), torch.arange(n) % 2)


@pytest.fixture
def data():
    return data_set(MemoryImages(pixels(8)), Probe(labeled(8), labeled(), ("a", "b"), "test"))


@pytest.fixture
def shown(monkeypatch):
    """The views that were made, batch by batch."""
    made = []
    plain = Views.__call__

    def call(self, images, parameters):
        made.append(plain(self, images, parameters))
        return made[-1]

    monkeypatch.setattr(Views, "__call__", call)
    return made


OTHERS = {
    "macl": lambda of: of.macl(0.7, 0.5, 0.0),
    "positive-scale": lambda of: of.positive_scale(1.0),
    "dystress": lambda of: of.dystress(0.3, 1.2),
    "artanh": lambda of: of.artanh,
}


def by_reference(scheme, batch0, batch1, channels):
    if channels:
        literal = scheme(cross_correlation)
        return lambda c, i, j: literal("", c, batch0, batch1, i, j)
    pair_up(batch0, batch1)
    literal = scheme(samples)
    return lambda c, i, j: literal("", c, batch0[i], batch1[j])


def tau_by_hand(method, scheme, batch0, batch1):
    """τ(c, i, j) of two lists of items, of channels for Barlow Twins."""
    temperature, channels = method.loss.temperature, method.loss.items == "channels"
    if scheme in ("constant", "learnable", "isogclr"):  # iSogCLR's images are those of training
        return lambda c, i, j: 0.7
    if scheme == "scheduled":  # at the third of ten epochs
        return lambda c, i, j: 0.3 + 0.45 * (1 + math.cos(0.6 * math.pi))
    if scheme == "uncertainty":

        def scored(c, i, j):
            scores = [item.score[c] for item in batch0]
            score = sum(scores) / len(scores) if channels else scores[i]
            return 0.7 * (1 + math.exp(-score))

        return scored
    if scheme in OTHERS:
        return by_reference(OTHERS[scheme], batch0, batch1, channels)
    if scheme == "one-sided":
        args = phi_layers(temperature), temperature.direction.tolist(), 0.3, 0.9
        literal = samples.one_sided(*args, temperature.phi_scale)
        return lambda c, i, j: literal("", c, batch0[i], batch1[j])
    sign = {"adaptive-positive": "positive", "adaptive-negative": "negative"}.get(scheme)
    branch = temperature.branch(sign or "positive")
    phi = branch.adaptive if scheme == "first-head" else branch
    literal = (phi_on_samples if channels else adaptive)(phi_layers(phi), 0.3, 0.9, scale_of(phi))

    def adapted(c, i, j):
        head = 0 if scheme == "first-head" else c
        same = i % 2 == j % 2 if method.settings.needs_labels else i == j  # there are two classes
        kind = "positive" if same or method_has_no_negatives(method) else "negative"
        if sign not in (None, kind):
            return 0.7
        if channels:
            return literal(kind, head, batch0, batch1, i, j)
        return literal(kind, head, batch0[i], batch1[j])

    return adapted


def method_has_no_negatives(method):
    return method.settings.signs == ("positive",)


def items(z, extra):
    return items_of(z.double(), extra)


def loops(value, n):
    return torch.tensor([[[value(c, i, j) for j in range(n)] for i in range(n)] for c in range(2)])


def from_mean(z, extra):
    """Unit vectors less their mean, beside the extra outputs."""
    width = z.shape[-1] - extra
    units = F.unit(z[..., :width])
    return torch.cat([units - units.mean(1, keepdim=True), z[..., width:]], dim=-1)


@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_similarities_and_temperatures_are_those_of_loops(name, scheme, data, shown):
    method = make(name, temperature=scheme, **LIMITS)
    method.before_step(3.0, 0.3)
    sample = pair_sample(method, data)
    with torch.no_grad():
        z0, z1 = method.eval().compared(list(shown[0]))
    batch0, batch1 = (items(z, method.loss.temperature.extra_outputs) for z in (z0, z1))
    if name == "vicreg":
        batch0, batch1 = less_the_mean(batch0, batch1)
    expected = loops(lambda c, i, j: sim(batch0[i].z[c], batch1[j].z[c]), QUERIES)
    torch.testing.assert_close(sample.s, expected, rtol=1e-4, atol=1e-5)
    if name == "dino":  # whose temperatures depend on projections less their mean
        extra = method.loss.temperature.extra_outputs
        batch0, batch1 = (items(from_mean(z, extra), extra) for z in (z0, z1))
    tau = loops(tau_by_hand(method, scheme, batch0, batch1), 5)  # 5 images and 5 channels
    found, other = sample.tau, sample.channel_tau
    if name == "barlow":
        found, other = other, found
    torch.testing.assert_close(found, tau, rtol=1e-4, atol=1e-5)
    assert other is None
    assert sample.num_heads == 2


@pytest.mark.parametrize("name", METHODS)
def test_features_are_those_of_the_backbone(name, data, shown):
    method = make(name).train()
    before = {key: value.clone() for key, value in method.state_dict().items()}
    sample = pair_sample(method, data)
    assert method.training
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())
    method.eval()
    with torch.no_grad():
        for view, found in zip(shown[0], (sample.h0, sample.h1), strict=True):
            torch.testing.assert_close(found, method.backbone(view))
        whole = Views(SIZE, mean=data.mean, std=data.std).plain(sample.images)
        torch.testing.assert_close(sample.h, method.backbone(whole))
    assert not sample.h.requires_grad


def test_a_method_without_heads_has_no_pairs_of_heads(data):
    sample = pair_sample(make("mae"), data)
    assert sample.s is sample.tau is sample.channel_tau is sample.bounds is None
    assert sample.num_heads == 0
    assert len(sample) == QUERIES


def test_a_constant_temperature_expands(data):
    sample = pair_sample(make("simclr", tau=0.3), data)
    assert torch.equal(sample.tau, torch.full((2, QUERIES, QUERIES), 0.3))
    assert sample.bounds is None


@pytest.mark.parametrize(
    ("scheme", "bounds"),
    [
        ("adaptive", ((0.3, 1.2), (0.3, 1.2))),
        ("first-head", ((0.3, 1.2), (0.3, 1.2))),
        ("adaptive-positive", ((0.3, 1.2), None)),
        ("adaptive-negative", (None, (0.3, 1.2))),
        ("uncertainty", (None, None)),
    ],
)
def test_bounds_are_those_of_the_signs_that_adapt(scheme, bounds, data):
    sample = pair_sample(make("simclr", temperature=scheme, phi_output="plain", **LIMITS), data)
    for found, expected in zip(
        (sample.positive_bounds, sample.negative_bounds), bounds, strict=True
    ):
        assert found == (expected and pytest.approx(expected))
    either = bounds[0] or bounds[1]
    assert sample.bounds == (either and pytest.approx(either))


def test_bounds_of_channels_are_what_a_correlation_reaches(data):
    sample = pair_sample(make("barlow", temperature="adaptive"), data)
    assert sample.bounds == pytest.approx((0.5 + 1 / (1 + math.e), 0.5 + 1 / (1 + 1 / math.e)))


def test_everything_random_follows_from_the_seed(data):
    method = make("simclr", temperature="adaptive")
    state = torch.get_rng_state()
    samples = [
        pair_sample(method, data, settings=PairSettings(images=3, seed=s)) for s in (1, 1, 2)
    ]
    assert torch.equal(torch.get_rng_state(), state)
    for field in ("h", "h0", "h1", "s", "tau", "views", "images", "labels"):
        assert torch.equal(getattr(samples[0], field), getattr(samples[1], field)), field
    assert not torch.equal(samples[0].views, samples[2].views)


def test_which_images_are_drawn_follows_from_the_seed():
    stored = torch.arange(200, dtype=torch.uint8).view(-1, 1, 1, 1).expand(200, 3, 24, 24)
    method = make("simclr")
    chosen = [
        pair_sample(method, data_set(MemoryImages(stored)), settings=PairSettings(images=9, seed=s))
        .images[:, 0, 0, 0]
        .tolist()
        for s in (0, 1)
    ]
    assert chosen[0] != chosen[1]
    for images in chosen:
        assert len(set(images)) == 9
        assert images == sorted(images)


def test_images_are_the_queries_with_their_labels(data):
    sample = pair_sample(make("simclr"), data)
    queries = data.probe.queries
    assert torch.equal(sample.images, queries.images[torch.arange(QUERIES)])
    assert torch.equal(sample.labels, queries.labels)
    assert sample.classes == ("a", "b")


def test_without_labels_images_are_those_of_training():
    stored = pixels(6)
    sample = pair_sample(make("simclr"), data_set(MemoryImages(stored)))
    assert torch.equal(sample.images, stored)
    assert sample.labels is None
    assert sample.classes == ()


def test_batches_change_nothing(data, monkeypatch):
    method = make("moco", temperature="adaptive")
    whole = pair_sample(method, data)
    monkeypatch.setattr(module, "BATCH", 2)
    parts = pair_sample(method, data)
    for field in ("h", "h0", "h1", "s", "tau"):
        torch.testing.assert_close(getattr(parts, field), getattr(whole, field))
    assert torch.equal(parts.views, whole.views)


def test_views_are_the_pictures_that_were_shown(data):
    method = make("simclr")
    sample = pair_sample(method, data, ViewSettings(operations=""))  # whole pictures, made smaller
    assert sample.views.dtype == torch.uint8
    assert sample.views.shape == (2, QUERIES, 3, SIZE, SIZE)
    resized = Views(SIZE, ViewSettings(operations=""), mean=(0, 0, 0), std=(1, 1, 1)).plain(
        sample.images
    )
    for view in sample.views:
        assert (view / 255 - resized).abs().max() < 0.6 / 255
    assert not torch.equal(*pair_sample(method, data).views)


def test_the_backbone_says_how_views_are_normalized(data, shown):
    method = make("simclr")
    method.backbone.normalization = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    sample = pair_sample(method, data)
    assert shown[0].min() >= 0
    assert shown[0].max() <= 1
    assert (sample.views / 255 - shown[0]).abs().max() < 0.6 / 255


def picture_files(folder, faults=()):
    for i in range(6):
        path = folder / f"{i}.png"
        if i in faults:
            path.write_bytes(b"no picture")
        else:
            Image.fromarray(torch.full((20, 30, 3), 40 * i, dtype=torch.uint8).numpy()).save(path)
    return FileImages([str(folder / f"{i}.png") for i in range(6)], 24)


def test_unreadable_files_are_left_out_with_their_labels(tmp_path):
    files = picture_files(tmp_path, faults=(0, 3))
    queries = Labeled(files, torch.arange(6))
    data = data_set(MemoryImages(pixels(4)), Probe(labeled(), queries, tuple("abcdef"), "test"))
    sample = pair_sample(make("simclr"), data)
    assert sample.labels.tolist() == [1, 2, 4, 5]
    assert sample.images[:, 0, 0, 0].tolist() == [40, 80, 160, 200]
    assert sample.s.shape == (2, 4, 4)
    assert [path for path, _ in sample.unreadable] == [str(tmp_path / f"{i}.png") for i in (0, 3)]


def test_too_few_images_are_an_error(tmp_path):
    files = picture_files(tmp_path, faults=(0, 1, 2, 3, 4))
    with pytest.raises(ValueError, match=r"at least 2 images, and 1 of 6 can be read \(.*0\.png"):
        pair_sample(make("simclr"), data_set(files))
    with pytest.raises(ValueError, match="at least 2 images, and 1 of 1 can be read: give a set"):
        pair_sample(make("simclr"), data_set(MemoryImages(pixels(1))))


def test_damaged_weights_are_an_error(data):
    method = make("simclr")
    with torch.no_grad():
        next(method.heads.parameters()).fill_(torch.nan)
    with pytest.raises(ValueError, match="heads give values that are not finite"):
        pair_sample(method, data)
    with torch.no_grad():
        next(method.backbone.parameters()).fill_(torch.nan)
    with pytest.raises(ValueError, match="rows of h hold NaN"):
        pair_sample(method, data)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="images must be at least 2, to have pairs, got 1"):
        PairSettings(images=1)
    with pytest.raises(ValueError, match=r"\bimages\b.*\b0\b"):
        PairSettings(images=0)


def test_positives_and_negatives_are_all_pairs():
    matrix = torch.randn(2, 4, 4)
    assert torch.equal(positives(matrix), torch.stack([torch.diagonal(m) for m in matrix]))
    expected = [[m[i, j] for i in range(4) for j in range(4) if i != j] for m in matrix]
    assert torch.equal(negatives(matrix), torch.tensor(expected))
