"""Over the whole of the paper's spaces nothing crashes, and everything stays finite."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache

import optuna
import pytest
import torch
from PIL import Image
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from amcl import losses
from amcl.backbones import Backbone, BackboneSettings
from amcl.config import HardwareSettings
from amcl.config.fields import effective, value_of, with_values
from amcl.data import Batch, load_dataset
from amcl.methods import LGPSettings
from amcl.methods.masked import MaskedSettings
from amcl.recipes import recipe
from amcl.search.space import paper_space, suggest
from amcl.sweep.single_run import train_or_resume
from amcl.temperature import AdaptiveTemperature
from amcl.training import pretrain
from amcl.training.hardware import make_fabric
from amcl.training.plan import Plan
from amcl.training.pretraining_task import PretrainingTask
from amcl.training.start import first_stage, method_to_train
from amcl.training.trainer import Trainer
from amcl.views import ViewSettings

# Points of each method: fewer where a step takes long and the loss is another's.
POINTS = {
    "simclr": 32,
    "moco": 18,
    "simsiam": 30,
    "barlow": 30,
    "can": 14,
    "mocov3": 20,
    "lgp": 10,
    "byol": 14,
    "nnclr": 14,
    "dino": 18,
}
METHODS = tuple(POINTS)
SIZE, STEPS = 16, 3
CONTRASTIVE = ("simclr", "moco", "can", "mocov3", "lgp", "nnclr")
FORMS = (("softmax", 0), ("top_k", 0), ("top_k", 1), ("top_k_softmax", 0), ("top_k_softmax", 1))


class Toy(Backbone):
    """One convolution, or one block of attention: a step of milliseconds."""

    def __init__(self, settings, image_size):
        nn.Module.__init__(self)
        self.settings, self.image_size, self.dim = settings, image_size, 16
        if settings.name == "test_vit":
            size = {"img_size": image_size, "patch_size": 8, "embed_dim": self.dim}
            pool = {"num_classes": 0, "global_pool": "avg", "fc_norm": False}
            self.network = VisionTransformer(**size, depth=1, num_heads=2, **pool)
        else:
            conv = nn.Conv2d(3, self.dim, kernel_size=4, stride=4)
            pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
            self.network = nn.Sequential(conv, nn.BatchNorm2d(self.dim), nn.ReLU(), pool)


def tiny(method, data="builtin", batch_size=8):
    """The recipe of a method with AMCL, with all that costs time made small."""
    config = recipe(f"builtin-{method}-amcl")
    changed = {"projector": (16, 8)}
    if isinstance(config.method, MaskedSettings):
        changed |= {"decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
    if hasattr(config.method, "predictor"):
        changed["predictor"] = 16
    if isinstance(config.method, LGPSettings):
        changed["pull"] = 1e-5
    backbone = BackboneSettings(name="resnet10t", width=0.125, stem="standard")
    if method in ("can", "lgp"):
        backbone = BackboneSettings(name="test_vit", patch=4, pool="mean")
    return replace(
        config,
        data=replace(config.data, source=data, image_size=SIZE, workers=0),
        views=ViewSettings(operations="ae"),
        backbone=backbone,
        method=replace(config.method, **changed),
        optimizer=replace(config.optimizer, warmup_epochs=0.0, schedule="constant"),
        run=replace(config.run, epochs=1, batch_size=batch_size, probe_every=1, knn_k=3),
    )


def random_points(method):
    """Points of the spaces of a small and a large data set, in turn, as trials would have them."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=METHODS.index(method)))
    bases = itertools.cycle([tiny(method), tiny(method, "tinyimagenet", batch_size=12)])
    for base in itertools.islice(bases, POINTS[method]):
        yield with_values(base, suggest(study.ask(), paper_space(base), base))


def corners(base, forms):
    """Every corner of η, ι and β, with few or many heads and one of the forms in turn."""
    space = paper_space(base)
    ends = itertools.product(*(space[name].ends() for name in ("eta", "iota", "beta")))
    for number, (eta, iota, beta) in enumerate(ends):
        values = {"eta": eta, "iota": iota, "beta": beta}
        values["heads"] = space["heads"].ends()[number.bit_count() % 2]
        if "form" in space:
            form, end = forms[number % len(forms)]
            values |= {"form": form, "top_k": space["top_k"].ends()[end]}
        yield with_values(base, effective(base, values))


@cache
def one_process():
    return make_fabric(HardwareSettings(accelerator="cpu", devices=1))


@pytest.fixture
def temperatures(monkeypatch):
    """The least and the greatest τ that each call gave."""
    seen, plain = [], AdaptiveTemperature.tau

    def tau(self, anchor, other, pairing):
        found = plain(self, anchor, other, pairing)
        seen.append((found.min().item(), found.max().item()))
        return found

    monkeypatch.setattr(AdaptiveTemperature, "tau", tau)
    return seen


def assert_within(temperatures, config):
    """τ lies in [η, η + ι], up to the rounding of float32."""
    eta, iota = value_of(config, "eta"), value_of(config, "iota")
    assert temperatures
    least, most = min(low for low, _ in temperatures), max(high for _, high in temperatures)
    assert eta * (1 - 1e-6) <= least <= most <= (eta + iota) * (1 + 1e-6)


def assert_finite(tensors):
    tensors = {name: value for name, value in tensors.items() if value is not None}
    assert tensors
    bad = [name for name, value in tensors.items() if not torch.isfinite(value).all()]
    assert not bad


@cache
def small_images():
    return replace(load_dataset("builtin"), image_size=SIZE)


class Bench:
    """Takes steps of training as a run does, on images of noise, and looks at all they leave."""

    def __init__(self, config):
        self.method = method_to_train(config, SIZE, None)
        self.seen, self.images = 0, config.run.batch_size
        plan = Plan(STEPS * self.images, self.images, 1, 1, 0, 0, 1)
        fabric = one_process()
        task = PretrainingTask(fabric, config, plan, small_images(), self.method)
        task.inputs = self._inputs
        self.trainer = Trainer(fabric, task)
        self.trainer.optimizer.optimizer.register_step_pre_hook(self._look_at_gradients)

    def run(self):
        before = self._weights()
        images = torch.randn(STEPS, self.images, 3, SIZE, SIZE)
        batches = iter([Batch(each, None) for each in images])
        for number in range(STEPS):
            loss, _ = self.trainer.train_step(batches, watch=number + 1 == STEPS)
            assert torch.isfinite(loss)
        assert self.seen == STEPS
        assert_finite(self.method.state_dict())
        assert_finite({name: torch.tensor(v) for name, v in self.method.log_metrics().items()})
        assert any(not torch.equal(value, before[name]) for name, value in self._weights().items())

    def _inputs(self, batch, step, part):
        """Two noisy views of each image, and the method's masks."""
        views = [batch.pixels + 0.5 * torch.randn_like(batch.pixels) for _ in range(2)]
        drawn = self.method.draw(self.images, torch.default_generator)
        return views, {} if drawn is None else {"drawn": drawn}

    def _look_at_gradients(self, *_):
        assert_finite({name: p.grad for name, p in self.method.named_parameters()})
        self.seen += 1

    def _weights(self):
        return {name: p.detach().clone() for name, p in self.method.named_parameters()}


def take_steps(config, temperatures):
    temperatures.clear()
    try:
        Bench(config).run()
        assert_within(temperatures, config)
    except Exception as error:
        error.add_note(f"at {config.method}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_random_points_train(method, temperatures, monkeypatch):
    monkeypatch.setattr("amcl.training.start.Backbone", Toy)
    for config in random_points(method):
        take_steps(config, temperatures)


def test_the_points_are_200_and_all_over_the_space():
    points = [config for method in METHODS for config in random_points(method)]
    assert len(points) == 200
    assert {config.method.heads for config in points} == {2, 3, 4, 5, 6}
    for name, most in {"eta": 5, "iota": 5, "beta": 10}.items():
        values = sorted(value_of(config, name) for config in points)
        assert values[0] < 0.02 * most
        assert values[-1] > 0.9 * most
    for method in CONTRASTIVE:
        settings = [config.method for config in random_points(method)]
        assert {each.form for each in settings} == {form for form, _ in FORMS}
        most = paper_space(tiny(method))["top_k"].high
        assert max(each.top_k or 0 for each in settings) > 0.5 * most


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_corners_train(method, temperatures, monkeypatch):
    """Over the five contrastive methods, each corner meets each of the five forms."""
    monkeypatch.setattr("amcl.training.start.Backbone", Toy)
    base = tiny(method)
    turn = CONTRASTIVE.index(method) if method in CONTRASTIVE else 0
    for config in corners(base, FORMS[turn:] + FORMS[:turn]):
        take_steps(config, temperatures)


def projections(kind, heads, n=8, dim=8):
    """Two views (C, N, D), as healthy networks put them out, and those that are going wrong."""
    z = torch.randn(2, heads, n, dim)
    if kind == "equal":
        z[:] = torch.randn(dim)
    elif kind == "opposite":
        z[1] = -z[0]
    elif kind == "zero":
        z.zero_()
    return z.requires_grad_()


def loss_of(method, config, temperature):
    """The loss of a method, called as the method calls it."""
    settings = config.method
    beta, prior_tau = settings.temperature.omega(settings.dim)
    common = {"beta": beta, "prior_tau": prior_tau}
    if method == "simsiam":
        loss = losses.NegativeCosineLoss(settings.heads, temperature, **common)
        return lambda z: loss(z[0], z[1], z[0].detach(), z[1].detach())
    if method == "vicreg":
        return lambda z: losses.VICRegLoss(settings.heads, temperature, **common)(*z)
    if method == "supcon":
        loss = losses.SupervisedContrastiveLoss(settings.heads, temperature, **common)
        return lambda z: loss(*z, torch.arange(z.shape[2]) % 3)
    if method == "barlow":
        return lambda z: losses.CrossCorrelationLoss(settings.heads, temperature, **common)(*z)
    loss = losses.ContrastiveLoss(
        settings.heads, temperature, form=settings.form, top_k=settings.top_k, **common
    )
    return lambda z: loss(*z)


@pytest.mark.parametrize("kind", ["random", "equal", "opposite", "zero"])
@pytest.mark.parametrize("method", ["simclr", "simsiam", "barlow", "supcon", "vicreg"])
def test_corners_are_finite_where_temperatures_reach_their_bounds(method, kind, temperatures):
    """At its start φ gives every pair nearly the same τ; here it spans the whole range."""
    base = with_values(tiny(method, "imagenet"), {"phi_output": "plain"})
    forms = FORMS if method == "simclr" else FORMS[:1]
    for config in itertools.chain.from_iterable(corners(base, [form]) for form in forms):
        temperatures.clear()
        adaptive = config.method.make_temperature()
        with torch.no_grad():
            adaptive.phi[0].weight.copy_(20 * torch.eye(8))
        z = projections(kind, config.method.heads)
        loss = loss_of(method, config, adaptive)(z)
        loss.backward()
        told = str(config.method)
        assert torch.isfinite(loss), told
        assert torch.isfinite(z.grad).all(), told
        assert_finite({name: p.grad for name, p in adaptive.named_parameters()})
        assert_within(temperatures, config)
        if kind == "random" and method != "barlow":
            eta, iota = value_of(config, "eta"), value_of(config, "iota")
            least, most = min(low for low, _ in temperatures), max(m for _, m in temperatures)
            assert least < eta + 0.01 * iota
            assert most > eta + 0.99 * iota


def labeled_folder(path, count=40, size=20):
    """Pictures of noise in folders of two classes."""
    chance = torch.Generator().manual_seed(0)
    for i in range(count):
        place = path / ("light" if i % 2 else "dark")
        place.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(128, (size, size, 3), dtype=torch.uint8, generator=chance)
        Image.fromarray((pixels + i % 2 * 100).numpy()).save(place / f"{i:03d}.png")
    return path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return str(labeled_folder(tmp_path_factory.mktemp("data") / "pictures"))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_random_points_are_carried_out(method, pictures, tmp_path):
    endings = Counter()
    for number, point in enumerate(random_points(method)):
        config = replace(point, data=replace(point.data, source=pictures))
        if (before := first_stage(config)) is not None:
            first = tmp_path / "mae"
            if number == 0:
                pretrain(before, first)
            config = replace(config, run=replace(config.run, init=str(first)))
        record = train_or_resume(config, tmp_path / str(number))
        assert record.status in ("complete", "collapsed", "diverged"), (config.method, record)
        if record.status != "diverged":
            assert record.epoch == 1
            assert {"knn_validation", "spread"} <= record.metrics.keys()
        endings[record.status] += 1
    assert endings.total() == POINTS[method]
    assert endings["complete"] > 0
