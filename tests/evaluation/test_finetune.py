"""Fine-tuning: that it learns, what it leaves alone, that the seed decides, that it resumes."""

import math
from dataclasses import replace

import pytest
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.metrics import top_k_accuracy_score
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.data import FileImages, Labeled, MemoryImages
from amcl.errors import NonFiniteError
from amcl.evaluation.finetuning import finetune, supervised
from amcl.evaluation.finetuning.classifier import classifier, parameter_groups
from amcl.evaluation.finetuning.plan import Plan
from amcl.evaluation.finetuning.task import FinetuningTask
from amcl.training.trainer import Trainer
from toy_finetuning import (
    EVERYTHING,
    PLAIN,
    SIZE,
    TRANSFORM,
    colors,
    module,
    resnet,
    same,
    spy_on_steps,
)


def vit():
    return Backbone(BackboneSettings(name="test_vit", stem="standard"), image_size=SIZE)


@pytest.mark.parametrize(
    ("backbone", "settings"),
    [
        (resnet, PLAIN),
        (resnet, replace(PLAIN, optimizer="sgd", lr=1.0, weight_decay=1e-4, clip=1.0)),
        (resnet, replace(PLAIN, epochs=8, mixup=0.8, cutmix=1.0)),
        (vit, PLAIN),
        (module, PLAIN),
    ],
)
def test_a_toy_set_is_learned(backbone, settings):
    found = finetune(backbone(), colors(50), colors(60, seed=1), 3, TRANSFORM, settings)
    assert found.top1 > 0.9
    assert found.losses[-1] < 0.9 * found.losses[0]
    assert found.metrics() == {"top1": found.top1}
    told = found.details()
    assert told["epochs"] == settings.epochs == len(told["train_loss"])
    assert told["steps"] == 4 * settings.epochs  # 50 images in steps of at most 16
    assert told["lr"] == pytest.approx(settings.lr * 16 / 256)


def test_the_weights_are_timms_and_give_the_accuracies():
    backbone = resnet(name="test_resnet", width=1.0, stem="standard")
    test = colors(60, classes=6, seed=1)
    settings = replace(PLAIN, epochs=2, lr=2e-3)
    found = finetune(backbone, colors(48, classes=6), test, 6, TRANSFORM, settings)
    theirs = timm.create_model("test_resnet", num_classes=6)
    theirs.load_state_dict(found.state_dict)
    with torch.no_grad():
        logits = theirs.eval()((test.images[torch.arange(60)] / 255 - 0.5) / 0.25)
    for k, accuracy in ((1, found.top1), (5, found.top5)):
        assert accuracy == pytest.approx(top_k_accuracy_score(test.labels, logits, k=k))
    assert found.top1 < found.top5 < 1
    assert found.metrics()["top5"] == found.top5


@pytest.mark.parametrize(("layers", "head"), [("resnet", "fc"), ("vit", "head")])
def test_layers_learn_at_a_rate_that_falls_from_head_to_stem(layers, head):
    depth = {"resnet": 5, "vit": 7}[layers]
    below = {  # how far under the head a parameter lies
        "resnet": lambda n: 5 - int(n[5]) if n.startswith("layer") else 5,
        "vit": lambda n: 6 - int(n.split(".")[1]) if n.startswith("blocks") else 7,
    }[layers]
    network = classifier({"resnet": resnet, "vit": vit}[layers](), 3, image_size=SIZE)
    names = {id(value): name for name, value in network.named_parameters()}
    distances = set()
    for group in parameter_groups(network, 0.05, 0.5):
        for value in group["params"]:
            name = names.pop(id(value))
            distance = 0 if name.startswith(head) else 1 if name.startswith("norm") else below(name)
            distances.add(distance)
            assert group["lr_scale"] == 0.5**distance, name
            spared = value.ndim == 1 or name in ("pos_embed", "cls_token")
            assert group["weight_decay"] == (0 if spared else 0.05), name
    assert not names
    assert distances == set(range(depth + 1))


def test_the_rates_of_layers_are_used():
    def moved(layer_decay):
        backbone, settings = resnet(), replace(PLAIN, epochs=2, layer_decay=layer_decay)
        found = finetune(backbone, colors(32), colors(6), 3, TRANSFORM, settings).state_dict
        return [
            (found[name] - backbone.network.state_dict()[name]).norm().item()
            for name in ("conv1.weight", "layer4.0.conv1.weight")
        ]

    alike, graded = moved(1.0), moved(0.1)
    assert graded[0] < 1e-3 * alike[0]
    assert 0.02 * alike[1] < graded[1] < 0.5 * alike[1]


def test_each_step_has_its_rate_and_views(monkeypatch):
    rates, step = [], Trainer.train_step

    def spy(self, *args, **kwargs):
        loss = step(self, *args, **kwargs)
        assert self.task.views.settings == settings.view_settings()
        rates.append(sorted({group["lr"] for group in self.optimizer.param_groups}))
        return loss

    monkeypatch.setattr(Trainer, "train_step", spy)
    settings = replace(PLAIN, layer_decay=0.5, views="de", jitter=(0.1, 0.1, 0.1, 0.1))
    finetune(resnet(), colors(20), colors(6), 3, TRANSFORM, settings)
    plan = Plan.of(20, settings, seed=0)
    assert len(rates) == plan.total == 8
    for number, found in enumerate(rates):
        peak = 0.02 * 16 / 256 * plan.factor(number)
        assert found == pytest.approx([peak * 0.5**depth for depth in (5, 4, 3, 2, 1, 0)])


class Recorder(nn.Flatten):
    """Keeps what it is shown; copies share the list."""

    shown: list = []  # noqa: RUF012

    def forward(self, images):
        if self.training:
            self.shown.append(images)
        return super().forward(images)


def test_each_epoch_shows_new_views():
    Recorder.shown.clear()
    settings = replace(PLAIN, views="a")
    finetune(Recorder(), colors(1), colors(3), 3, TRANSFORM, settings)
    assert len(Recorder.shown) == len({tuple(x.flatten().tolist()) for x in Recorder.shown}) == 4


def test_gradients_are_clipped_and_weights_decay():
    backbone = resnet()
    start = backbone.network.state_dict()["conv1.weight"]

    def end(**changes):
        settings = replace(PLAIN, epochs=1, warmup_epochs=0, optimizer="sgd", **changes)
        found = finetune(backbone, colors(16), colors(6), 3, TRANSFORM, settings)
        return found.state_dict["conv1.weight"]

    still = end(lr=10.0, clip=1e-9, weight_decay=0)
    torch.testing.assert_close(still, start, atol=1e-7, rtol=0)
    assert (end(lr=10.0, weight_decay=0) - start).abs().max() > 1e-4
    # One step of Nesterov's SGD: θ − lr·1.9·λθ.
    torch.testing.assert_close(
        end(lr=16.0, clip=1e-9, weight_decay=0.1), start * (1 - 1.9 * 0.1), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("make", [resnet, module])
@pytest.mark.parametrize("training", [True, False])
def test_the_backbone_is_left_as_it_is(make, training):
    backbone = make().train(training).requires_grad_(False)
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    found = finetune(backbone, colors(32), colors(6), 3, TRANSFORM, replace(PLAIN, epochs=2))
    assert same(backbone.state_dict(), before)
    assert backbone.training == training
    assert not any(p.requires_grad or p.grad is not None for p in backbone.parameters())
    own = getattr(backbone, "network", backbone).state_dict()
    trained = {name.removeprefix("backbone."): value for name, value in found.state_dict.items()}
    moved = [name for name in own if name.endswith(("weight", "running_mean"))]
    assert not any(torch.equal(own[name], trained[name]) for name in moved)


def test_from_scratch_nothing_of_the_backbone_is_left():
    train, test = colors(32), colors(6)
    backbones = [resnet(), resnet()]
    fresh = replace(PLAIN, epochs=2, scratch=True, scratch_lr=0.04, layer_decay=0.5)
    scratch = [finetune(b, train, test, 3, TRANSFORM, fresh) for b in backbones]
    tuned = [
        finetune(b, train, test, 3, TRANSFORM, replace(fresh, scratch=False)) for b in backbones
    ]
    assert same(scratch[0].state_dict, scratch[1].state_dict)
    assert not same(tuned[0].state_dict, tuned[1].state_dict)
    assert scratch[0].details()["layer_decay"] == 1
    assert tuned[0].details()["layer_decay"] == 0.5
    assert scratch[0].details()["lr"] == 2 * tuned[0].details()["lr"] == pytest.approx(0.0025)
    # Each ends near where it started: its own weights, or others.
    own, name = backbones[0].network.state_dict(), "layer3.0.conv1.weight"
    away = [
        F.cosine_similarity(r.state_dict[name], own[name], 0).mean() for r in (tuned[0], scratch[0])
    ]
    assert away[0] > 0.5 > 0.2 > away[1].abs()


def test_the_start_is_the_backbone_or_a_fresh_network():
    backbone = resnet()
    images = torch.randn(4, 3, SIZE, SIZE)
    tuned = classifier(backbone, 3, image_size=SIZE, drop_path=0.3, seed=4).eval()
    h = backbone.eval()(images)
    torch.testing.assert_close(tuned(images), F.linear(h, tuned.fc.weight, tuned.fc.bias))
    assert any(getattr(m, "drop_prob", 0) > 0 for m in tuned.modules())
    fresh = [classifier(backbone, 3, image_size=SIZE, scratch=True, seed=s) for s in (4, 4, 5)]
    states = [net.state_dict() for net in fresh]
    assert same(states[0], states[1])
    for other in (states[2], backbone.network.state_dict()):
        assert not torch.equal(states[0]["conv1.weight"], other["conv1.weight"])


def test_the_baseline_is_training_from_scratch_on_those_images():
    backbone, train, test = vit(), colors(60), colors(30, seed=1)
    for weight in backbone.parameters():
        weight.data.fill_(torch.nan)  # nothing can be learned from here
    indices = torch.tensor([3, 7, 2, 40, 41, 42, 51])  # odd, and fewer than a batch
    settings = replace(PLAIN, min_steps=12, mixup=0.2)
    top1 = supervised(backbone, train, indices, test, 3, TRANSFORM, settings, seed=3)
    few = Labeled(MemoryImages(train.images[indices]), train.labels[indices])
    alone = finetune(backbone, few, test, 3, TRANSFORM, replace(settings, scratch=True), seed=3)
    assert alone.steps == 12
    assert top1 == alone.top1
    assert top1 > 0.6


@pytest.mark.parametrize("n", [1, 3])
def test_tiny_sets_train(n):
    found = finetune(resnet(), colors(n), colors(3), 3, TRANSFORM, replace(EVERYTHING, epochs=2))
    assert found.steps == 2
    assert all(math.isfinite(loss) for loss in found.losses)


def test_unreadable_files_are_left_out_with_their_labels(monkeypatch, tmp_path):
    def write(name, n, broken, seed):
        data, paths = colors(n, seed=seed), []
        for index in range(n):
            path = tmp_path / f"{name}{index}.png"
            pixels = data.images[torch.tensor([index])][0].permute(1, 2, 0).numpy()
            Image.fromarray(pixels).save(path)
            if index in broken:
                path.write_bytes(b"no picture")
            paths.append(str(path))
        return Labeled(FileImages(paths, SIZE), data.labels)

    seen, loss = [], FinetuningTask.loss

    def spy(self, model, batch, *args, **kwargs):
        indices, images = batch
        result = loss(self, model, batch, *args, **kwargs)
        if result is not None:
            seen.append((images.pixels, images.select(self.train.labels[indices])))
        return result

    monkeypatch.setattr(FinetuningTask, "loss", spy)
    train, test = write("train", 38, (0, 10, 20), 0), write("test", 31, (0, 4), 1)
    settings = replace(PLAIN, epochs=8)
    found = finetune(module(), train, test, 3, TRANSFORM, settings)
    assert sum(len(labels) for _, labels in seen) == 8 * 35
    for pixels, labels in seen:
        assert torch.equal(pixels.float().mean((2, 3)).argmax(1), labels)
    names = [path.rsplit("/", 1)[1] for path, _ in found.unreadable]
    assert sorted(names) == ["test0.png", "test4.png", "train0.png", "train10.png", "train20.png"]
    assert found.top1 == 1  # labels that had slipped by one would all be wrong
    assert found.details()["unreadable"] == 5
    assert found.details()["notes"] == ["5 unreadable files left out"]
    again, short = module(), replace(settings, epochs=2)
    alone, helped = (
        finetune(again, train, test, 3, TRANSFORM, short, workers=workers) for workers in (0, 2)
    )
    assert same(alone.state_dict, helped.state_dict)
    with pytest.raises(ValueError, match=r"training images .*/train1?0\.png"):
        finetune(module(), train.subset(torch.tensor([0, 10])), test, 3, TRANSFORM, settings)


def test_divergence_is_an_error(monkeypatch):
    steps = spy_on_steps(monkeypatch)
    settings = replace(PLAIN, optimizer="sgd", batch_size=2, lr=1e30)
    with pytest.raises(NonFiniteError, match=r"the loss is not finite.*lr below 1e\+30.*clip=1"):
        finetune(module(), colors(64), colors(6), 3, TRANSFORM, settings)
    assert len(steps) < 15  # and not only at the end of an epoch of 32
    last = replace(PLAIN, optimizer="sgd", epochs=1, warmup_epochs=0, lr=1e39, weight_decay=1e3)
    # By the only step, after its loss.
    with pytest.raises(NonFiniteError, match=r"weight is not finite after step 1.*lr below 1e\+39"):
        finetune(module(), colors(16), colors(6), 3, TRANSFORM, last)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layer_decay": 0.5}, "layer_decay=0.5 needs a network whose layers are known by depth"),
        ({"drop_path": 0.1}, "drop_path=0.1 needs a network that can be made again"),
        ({"scratch": True}, "scratch=True needs a network that can be made again"),
    ],
)
def test_what_other_modules_cannot_do(changes, said):
    with pytest.raises(ValueError, match=said):
        finetune(module(), colors(6), colors(6), 3, TRANSFORM, replace(PLAIN, **changes))


def test_errors_say_what_to_mend():
    train, test = colors(6), colors(6)
    with pytest.raises(ValueError, match=r"training images go from 0 to 2: with classes=2 they"):
        finetune(module(), train, test, 2, TRANSFORM, PLAIN)
    with pytest.raises(ValueError, match=r"\btest images\b.*\b1\b"):
        finetune(module(), train, test.subset(torch.arange(0)), 3, TRANSFORM, PLAIN)
    with pytest.raises(ValueError, match="precision='bf16' is for GPUs: some CPUs"):
        finetune(module(), train, test, 3, TRANSFORM, PLAIN, precision="bf16")
    with pytest.raises(ValueError, match="precision must be one of '32', 'bf16'"):
        finetune(module(), train, test, 3, TRANSFORM, PLAIN, precision="16")
    with pytest.raises(ValueError, match=r"turned 1 image into \(1, 3, 16, 16\)"):
        finetune(nn.Identity(), train, test, 3, TRANSFORM, PLAIN)
    ghost = Backbone(BackboneSettings(name="ghostnet_050"), image_size=96)
    with pytest.raises(ValueError, match="'ghostnet_050' has no drop path: set drop_path=0"):
        classifier(ghost, 3, image_size=96, drop_path=0.1)
