"""Detectors: they train and detect, take all weights of every method, and can be made again."""

import json
from dataclasses import replace

import pytest
import torch
from timm.layers import resample_abs_pos_embed
from torch import nn

from amcl.backbones import Backbone, BackboneSettings, load_backbone
from amcl.checkpoints.files import export_backbone
from amcl.evaluation.detection.heads import Anchors, roi_pool
from amcl.evaluation.detection.networks import (
    DetectorSettings,
    detector,
    detector_metadata,
    detector_of,
    parameter_groups,
)
from amcl.methods import METHODS, make_method
from toy_methods import SMALL, Patched, labels_of, settings_of
from toy_vits import shaken

SIZE = 64
TINY = DetectorSettings(channels=16, samples=16)
SIZES = {"image_size": SIZE, "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.3)}
BACKBONES = {
    "small stem": (BackboneSettings(name="resnet10t", width=0.25), 32),
    "standard stem": (BackboneSettings(name="resnet10t", width=0.25, stem="standard"), 64),
    "patch 4": (BackboneSettings(name="test_vit", patch=4), 32),
    "patch 16": (BackboneSettings(name="test_vit", stem="standard"), 64),
}
RESNET, VIT = "small stem", "patch 4"


def backbone_of(name):
    """A backbone with weights unlike those at its start, where some blocks give 0."""
    backbone = Backbone(*BACKBONES[name])
    shaken(backbone)
    return backbone


def make(name=RESNET, settings=TINY, masks=False, **options):
    model, _ = detector(backbone_of(name), 3, settings, masks=masks, **SIZES | options)
    return model


def pictures(n=2, size=SIZE):
    """Noise with a bright rectangle each, its box, class and mask; the last shows nothing."""
    images, targets = torch.rand(n, 3, size, size), []
    for i in range(n):
        mask = torch.zeros(1, size, size, dtype=torch.uint8)
        box = torch.tensor([[8.0, 4.0, 8.0 + 20 + i, 40.0]])
        mask[0, 4:40, 8 : 28 + i] = 1
        images[i, :, 4:40, 8 : 28 + i] += 1
        targets.append({"boxes": box, "labels": torch.tensor([1 + i % 3]), "masks": mask})
    targets[-1] = {key: value[:0] for key, value in targets[-1].items()}
    return list(images), targets


def losses_of(model, n=2):
    torch.manual_seed(3)
    return model(*pictures(n))


def step(model):
    """One step of SGD."""
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.5)
    sum(losses_of(model).values()).backward()
    optimizer.step()


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("name", BACKBONES)
def test_detectors_train_and_detect(name, masks):
    model = make(name, masks=masks)
    losses = losses_of(model)
    assert len(losses) == 4 + masks
    sum(losses.values()).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
    body = [p.grad.abs().max() for p in model.backbone.maps.parameters() if p.ndim > 1]
    assert all(largest > 0 for largest in body)
    model.roi_heads.score_thresh = 0.0
    with torch.no_grad():
        found = model.eval()([torch.rand(3, 48, 100), torch.rand(3, 33, 20)])
    for detections, (height, width) in zip(found, [(48, 100), (33, 20)], strict=True):
        assert 0 < len(detections["boxes"]) <= 100
        assert detections["boxes"].min() >= 0
        assert (detections["boxes"].amax(0) <= torch.tensor([width, height] * 2)).all()
        assert set(detections["labels"].tolist()) <= {1, 2, 3}
        if masks:
            assert detections["masks"].shape[1:] == (1, height, width)


@pytest.mark.parametrize("name", [RESNET, VIT])
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_images_without_objects_train(name, norm):
    model = make(name, replace(TINY, heads="conv", head_norm=norm), masks=True)
    images, targets = pictures(2)
    nothing = {key: value[:0] for key, value in targets[0].items()}
    losses = model(images, [nothing, nothing])
    assert losses["loss_mask"] == losses["loss_box_reg"] == losses["loss_rpn_box_reg"] == 0
    sum(losses.values()).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_some_steps_lower_the_loss():
    model = make(RESNET, replace(TINY, heads="conv"), masks=True)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=2e-3)
    totals = []
    for _ in range(12):
        total = sum(losses_of(model).values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        totals.append(total.item())
    assert sum(totals[-3:]) < 0.75 * sum(totals[:3])


def trained(name):
    """The method after a step on noise."""
    vit = SMALL[name][0] is Patched
    settings = (
        BackboneSettings(name="test_vit", patch=4, pool="mean") if vit else BACKBONES[RESNET][0]
    )
    method = make_method(settings_of(name), Backbone(settings, image_size=16))
    views = torch.randn(method.num_views, 8, 3, 16, 16)
    method.before_step(0, 0.0)
    drawn = method.draw(8, torch.Generator().manual_seed(0))
    beside = ({} if drawn is None else {"drawn": drawn}) | labels_of(method, 8)
    optimizer = torch.optim.SGD((p for p in method.parameters() if p.requires_grad), lr=0.1)
    method(views, **beside).backward()
    optimizer.step()
    method.after_step()
    return method


@pytest.mark.parametrize("norm", ["frozen", "batch"])
@pytest.mark.parametrize("name", METHODS)
def test_a_checkpoint_of_each_method_loads_completely(name, norm, tmp_path):
    method = trained(name)
    vit = SMALL[name][0] is Patched
    own = method.trained_backbone.network.state_dict()
    file = tmp_path / "backbone.safetensors"
    normalization = {"mean": SIZES["mean"], "std": SIZES["std"]}
    export_backbone(file, method.trained_backbone, normalization)
    settings = TINY if vit else replace(TINY, backbone_norm=norm)
    model, notes = detector(load_backbone(file), 3, settings, masks=False, **SIZES)
    found = model.backbone.maps.network.state_dict()
    assert set(found) <= set(own)
    for key, value in found.items():
        expected = own[key]
        if key == "pos_embed":
            expected = resample_abs_pos_embed(expected, (16, 16), num_prefix_tokens=1)[:, 1:]
            assert "positions of 4 × 4 tokens interpolated to 16 × 16" in notes
        assert torch.equal(value, expected), key
    unused = {"cls_token", "norm.weight", "norm.bias"} if vit else set()
    if not vit and norm == "frozen":
        unused = {key for key in own if key.endswith("num_batches_tracked")}
        assert unused
    assert set(own) - set(found) == unused


def norms_of(model):
    network = model.backbone.maps.network
    names = {n for n, m in network.named_modules() if "BatchNorm" in type(m).__name__}
    return {
        key: value.clone()
        for key, value in network.state_dict().items()
        if key.rpartition(".")[0] in names and value.is_floating_point()
    }


@pytest.mark.parametrize(
    ("options", "norm", "moves"),
    [
        ({}, "auto", False),
        ({"images_per_step": 16}, "auto", True),
        ({"scratch": True}, "auto", True),
        ({"images_per_step": 64}, "frozen", False),
        ({}, "batch", True),
    ],
)
def test_frozen_norm_stays_and_trained_norm_moves(options, norm, moves):
    model = make(RESNET, replace(TINY, backbone_norm=norm), **options)
    before = norms_of(model)
    assert len(before) > 30
    step(model)
    step(model)  # in the first, fresh blocks give 0
    for key, value in norms_of(model).items():
        assert torch.equal(value, before[key]) != moves, key
    assert (detector_metadata(model)["detector"]["backbone_norm"] == "batch") == moves


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("scratch", [False, True])
def test_the_seed_decides_and_the_backbone_is_left(name, scratch):
    backbone = backbone_of(name).eval().requires_grad_(False)
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    state, drawn = torch.random.get_rng_state(), []
    for seed in (0, 0, 1):
        model, _ = detector(backbone, 3, TINY, masks=True, scratch=scratch, seed=seed, **SIZES)
        drawn.append({key: value.clone() for key, value in model.state_dict().items()})
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(p.requires_grad for p in model.parameters())
    assert drawn[0].keys() == drawn[1].keys() == drawn[2].keys()
    for key, value in drawn[0].items():
        assert torch.equal(drawn[1][key], value), key
        if value.ndim > 1:
            same = key.startswith("backbone.maps.network.") and not scratch
            assert torch.equal(drawn[2][key], value) == same, key
    step(model)
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())
    assert not any(p.requires_grad or p.grad is not None for p in backbone.parameters())
    assert not backbone.training
    kept = [
        key
        for key, value in before.items()
        if value.ndim > 1 and torch.equal(drawn[0].get(f"backbone.maps.{key}", value[:0]), value)
    ]
    assert bool(kept) != scratch


@pytest.mark.parametrize(
    ("name", "settings", "masks"),
    [
        (RESNET, TINY, True),
        (RESNET, replace(TINY, backbone_norm="batch", heads="conv"), False),
        (VIT, replace(TINY, window=4, drop_path=0.3), True),
        (VIT, replace(TINY, pyramid="simple", head_norm="batch", heads="standard"), False),
    ],
)
def test_detectors_are_made_again_from_json_and_weights(name, settings, masks):
    model = make(name, settings, masks, scratch=name == VIT, seed=5)
    step(model)
    metadata = json.loads(json.dumps(detector_metadata(model)))
    again = detector_of(metadata, model.state_dict(), "detector.safetensors")
    assert detector_metadata(again) == detector_metadata(model)
    assert "auto" not in metadata["detector"].values()
    images = [torch.rand(3, 50, 64), torch.rand(3, 64, 64)]
    for detections, expected in zip(again(images), model.eval()(images), strict=True):
        assert all(torch.equal(detections[key], value) for key, value in expected.items())


def test_damaged_metadata_and_weights_are_named():
    model = make()
    metadata, weights = detector_metadata(model), model.state_dict()
    with pytest.raises(ValueError, match=r"metadata of x.* num_classes is 'three'"):
        detector_of(metadata | {"num_classes": "three"}, weights, "x")
    with pytest.raises(
        ValueError, match=r"metadata of x describe no detector: num_classes must be"
    ):
        detector_of(metadata | {"num_classes": 0}, weights, "x")
    with pytest.raises(ValueError, match=r"metadata of x describe no detector: heads must be one"):
        detector_of(metadata | {"detector": {"heads": "none"}}, weights, "x")
    with pytest.raises(ValueError, match=r"weights in x are not those.*size mismatch"):
        detector_of(metadata | {"num_classes": 5}, weights, "x")


def test_heads_are_those_of_the_settings():
    def parts(model, kind):
        return [m for m in model.modules() if isinstance(m, kind)]

    standard, conv = make(RESNET, masks=True), make(VIT, masks=True)
    assert len(standard.rpn.head.conv) == 1
    assert len(conv.rpn.head.conv) == 2
    assert len(parts(standard.roi_heads.box_head, nn.Linear)) == 2
    assert not parts(standard, nn.GroupNorm)
    assert len(parts(conv.roi_heads.box_head, nn.Conv2d)) == 4
    assert len(parts(conv.roi_heads.box_head, nn.Linear)) == 1
    norms = [conv.backbone.pyramid.fpn, conv.roi_heads.box_head, conv.roi_heads.mask_head]
    assert [len(parts(part, nn.GroupNorm)) for part in norms] == [8, 4, 4]
    assert not parts(conv.rpn, nn.GroupNorm)
    batch = make(VIT, replace(TINY, head_norm="batch"), masks=True)
    assert len(parts(batch, nn.BatchNorm2d)) == 16
    assert parts(make(RESNET, replace(TINY, heads="conv")), nn.GroupNorm)
    published = make(VIT, DetectorSettings())
    assert published.backbone.out_channels == 64
    assert published.roi_heads.box_predictor.cls_score.weight.shape == (4, 256)
    assert published.roi_heads.fg_bg_sampler.batch_size_per_image == 64
    sizes = [DetectorSettings().for_images(size) for size in (1024, 512, 320, 128)]
    assert [s.channels for s in sizes] == [256, 256, 128, 64]
    assert [s.samples for s in sizes] == [512, 256, 160, 64]


@pytest.mark.parametrize("size", [64, 320, 1024])
def test_anchors_and_levels_are_in_proportion_to_the_image(size):
    cells = Anchors(size).cell_anchors
    for i, cell in enumerate(cells):
        sides = cell[:, 2:] - cell[:, :2]
        assert sides.prod(1).sqrt().tolist() == pytest.approx([32 * 2**i * size / 1024] * 3)
        assert (sides[:, 1] / sides[:, 0]).tolist() == pytest.approx([0.5, 1, 2])
        assert cell.sum().item() == pytest.approx(0, abs=1e-4)
    pool, unit = roi_pool(7, size), size / 1024
    boxes = [torch.tensor([[0, 0, side * unit, side * unit]]) for side in (60, 130, 230, 500)]
    assert pool.map_levels(boxes).tolist() == [0, 1, 2, 3]
    assert pool.scales == [1 / 4, 1 / 8, 1 / 16, 1 / 32]


@pytest.mark.parametrize("name", [RESNET, VIT])
def test_padded_images_are_pooled_and_anchored_at_the_true_strides(name):
    model = make(name, image_size=160).eval()
    seen = {}
    model.rpn.anchor_generator.register_forward_hook(
        lambda _, args, anchors: seen.update(maps=args[1], anchors=anchors[0])
    )
    model.backbone.register_forward_pre_hook(lambda _, args: seen.update(images=args[0]))
    image = torch.rand(3, 50, 160)
    model([image])
    assert model.roi_heads.box_roi_pool.scales == [1 / 4, 1 / 8, 1 / 16, 1 / 32]
    height = 160 if name == VIT else 64
    assert seen["images"].shape == (1, 3, height, 160)
    mean, std = (torch.tensor(SIZES[key]).view(3, 1, 1) for key in ("mean", "std"))
    torch.testing.assert_close(seen["images"][0, :, :50], (image - mean) / std)
    assert not seen["images"][0, :, 50:].any()
    centers = (seen["anchors"][:, :2] + seen["anchors"][:, 2:]) / 2
    start = 0
    for x, stride in zip(seen["maps"], (4, 8, 16, 32, 64), strict=True):
        rows, columns = x.shape[-2:]
        own = centers[start : (start := start + 3 * rows * columns)]
        expected = [[stride * c, stride * r] for r in range(rows) for c in range(columns)]
        assert own[::3].tolist() == expected
    assert start == len(centers)


@pytest.mark.parametrize("name", [RESNET, VIT])
@pytest.mark.parametrize("layer_decay", [1.0, 0.5])
def test_every_trained_parameter_is_in_one_group(name, layer_decay):
    model = make(name, masks=True)
    names = {id(p): n for n, p in model.named_parameters() if p.requires_grad}
    prefix, scales, depth = "backbone.maps.network.", set(), 7 if name == VIT else 5
    for group in parameter_groups(model, 0.1, layer_decay):
        for parameter in group["params"]:
            key = names.pop(id(parameter))
            spared = parameter.ndim <= 1 or key.endswith(("bias", "pos_embed"))
            assert group["weight_decay"] == (0 if spared else 0.1), key
            if key.startswith(prefix):
                own = key.removeprefix(prefix)
                block = own.split(".")[1] if own.startswith("blocks") else own[5]
                in_layer = own.startswith(("blocks", "layer"))
                below = depth - 1 - int(block) + (name == RESNET) if in_layer else depth
                assert group["lr_scale"] == layer_decay**below, key
            else:
                assert group["lr_scale"] == 1, key
            scales.add(group["lr_scale"])
    assert not names
    assert scales == {layer_decay**i for i in range(depth + 1)}


def test_paths_are_dropped_in_vision_transformers_unless_told():
    def rates(model):
        return [m.drop_prob for m in model.modules() if type(m).__name__ == "DropPath"]

    assert max(rates(make(VIT))) == pytest.approx(0.1)
    assert rates(make(VIT, replace(TINY, drop_path=0.0))) == rates(make(RESNET)) == []
    assert max(rates(make(RESNET, replace(TINY, drop_path=0.2)))) == pytest.approx(0.2)


def test_notes_say_what_was_chosen():
    def notes(name, settings=TINY, **options):
        return detector(backbone_of(name), 3, settings, masks=False, **SIZES | options)[1]

    assert notes(VIT, image_size=128) == [
        "positions of 8 × 8 tokens interpolated to 32 × 32",
        "attention in windows of 16 × 16 tokens, global in blocks 2, 3, 5, 6",
    ]
    assert notes("patch 16") == ["attention is global in all blocks"]
    found = notes(RESNET, images_per_step=32, processes=2)
    assert found[0].startswith("the stem for small images got stride 2 and max pooling")
    assert found[1:] == [
        "batch norm of the backbone is trained: it has statistics of 16 images a step",
        "each process has its own statistics of batch norm: they are synchronized on GPUs",
    ]
    few = notes(RESNET, images_per_step=31, processes=2)
    assert few[-1].startswith("batch norm of the backbone is frozen: statistics of fewer than 16")
    assert notes(RESNET, scratch=True)[1:] == [
        "batch norm of the backbone is trained: fresh weights have no statistics"
    ]


def test_batch_norm_is_synchronized_over_processes_on_gpus():
    model, notes = detector(
        *(backbone_of(RESNET), 3, replace(TINY, heads="conv", head_norm="batch")),
        **SIZES,
        masks=True,
        images_per_step=16,
        processes=2,
        device="cuda",
    )
    kinds = {type(m).__name__ for m in model.modules() if "BatchNorm" in type(m).__name__}
    assert kinds == {"SyncBatchNorm"}
    assert notes[-1] == "batch norm is synchronized over processes"
    alone = make(RESNET, replace(TINY, heads="conv", head_norm="batch"), True, images_per_step=16)
    assert list(alone.state_dict()) == list(model.state_dict())


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        (RESNET, {"window": 4}, r"window=4 is for vision transformers.*leave out --window"),
        (RESNET, {"pyramid": "simple"}, r"pyramid='simple' is for.*leave out --pyramid"),
        (RESNET, {"checkpointing": True}, r"checkpointing=True.*leave out --checkpointing"),
        (VIT, {"window": 5}, r"windows of 5 × 5: use --window with one of 1, 2, 4"),
        (VIT, {"backbone_norm": "frozen"}, r"this one has none: leave out --backbone-norm"),
    ],
)
def test_settings_that_a_backbone_cannot_have(name, changes, said):
    with pytest.raises(ValueError, match=said):
        make(name, replace(TINY, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pyramid": "bifpn"}, "pyramid must be one of 'auto', 'fpn', 'simple'"),
        ({"window": -1}, "window must be a whole number, at least 0"),
        ({"heads": "none"}, "heads must be one of 'auto', 'standard', 'conv'"),
        ({"head_norm": "layer"}, "head_norm must be one of 'group', 'batch'"),
        ({"backbone_norm": "sync"}, "backbone_norm must be one of 'auto', 'frozen', 'batch'"),
        ({"drop_path": 1.0}, "drop_path must be below 1"),
        ({"drop_path": -0.1}, "drop_path must be a finite number, at least 0"),
        ({"channels": 0}, "channels must be a whole number, at least 1"),
        ({"samples": 1.5}, "samples must be a whole number, at least 1"),
        ({"checkpointing": 1}, "checkpointing must be True or False"),
    ],
)
def test_bad_settings_are_named(changes, said):
    with pytest.raises(ValueError, match=said):
        DetectorSettings(**changes)


def test_what_is_no_backbone_is_an_error():
    with pytest.raises(ValueError, match=r"a Sequential is not: give an amcl.backbones.Backbone"):
        detector(nn.Sequential(), 3, TINY, masks=False, **SIZES)
    swin = Backbone(BackboneSettings(name="swin_tiny_patch4_window7_224"), image_size=224)
    with pytest.raises(ValueError, match=r"a SwinTransformer gives a detector no maps"):
        detector(swin, 3, TINY, masks=False, **SIZES)
    with pytest.raises(ValueError, match=r"fresh weights have none: use --backbone-norm batch"):
        make(RESNET, replace(TINY, backbone_norm="frozen"), scratch=True)
    with pytest.raises(ValueError, match=r"num_classes must be a whole number, at least 1"):
        detector(backbone_of(RESNET), 0, TINY, masks=False, **SIZES)
