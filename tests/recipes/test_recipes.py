"""Recipes hold the figures of the original papers and repositories."""

import dataclasses
from dataclasses import replace
from functools import reduce

import pytest
import torch

from amcl import recipes
from amcl.backbones import Backbone
from amcl.methods import METHODS, make_method
from amcl.views import ViewGroups
from factories import change

RESNETS = ("simclr", "moco", "simsiam", "barlow", "byol", "nnclr", "supcon", "vicreg")
VITS = ("mae", "can", "mocov3", "lgp")
SETS = ("builtin", "folder", "cifar10", "cifar100", "stl10", "tinyimagenet", "imagenet")


def figures(name, *paths):
    config = recipes.recipe(name)
    return tuple(reduce(getattr, path.split("."), config) for path in paths)


def test_there_is_a_recipe_for_each_set_and_method():
    assert {*RESNETS, *VITS, "dino"} == set(METHODS)
    wanted = {f"{data}-{method}" for data in SETS for method in METHODS}
    wanted |= {f"imagenet-{method}-large" for method in VITS}
    wanted.add("imagenet-dino-resnet50")
    wanted |= {f"{name}-amcl" for name in wanted if "-mae" not in name}
    assert set(recipes.names()) == wanted
    assert len(recipes.names()) == len(wanted)


@pytest.mark.parametrize("name", [n for n in recipes.names() if f"{n}-amcl" in recipes.names()])
def test_amcl_is_three_heads_and_adaptive_temperatures_alone(name):
    base, amcl = recipes.recipe(name), recipes.recipe(f"{name}-amcl")
    assert (base.method.heads, base.method.temperature.name) == (1, "constant")
    assert (amcl.method.heads, amcl.method.temperature.name) == (3, "adaptive")
    method = replace(
        amcl.method.with_temperature("constant"),
        heads=1,
    )
    assert replace(amcl, method=method) == base


def test_mae_has_no_amcl_form():
    with pytest.raises(ValueError, match="mae has no heads, and so no AMCL form"):
        recipes.with_amcl(recipes.recipe("imagenet-mae"))
    with pytest.raises(ValueError, match="no AMCL form"):
        recipes.recipe("imagenet-mae-amcl")


@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_recipe_is_of_its_method_and_set(data, method):
    config = recipes.recipe(f"{data}-{method}")
    assert config.method.name == method
    assert config.data.source == ("FOLDER" if data == "folder" else data)


@pytest.mark.parametrize(
    ("method", "lr"),
    [
        ("simclr", 0.06),
        ("moco", 0.08),
        ("simsiam", 0.05),
        ("barlow", 0.11),
        ("byol", 0.06),
        ("nnclr", 0.06),
    ],
)
def test_cifar10(method, lr):
    config = recipes.recipe(f"cifar10-{method}")
    optimizer = config.optimizer
    assert (optimizer.name, optimizer.lr, optimizer.lr_scaling) == ("sgd", lr, "none")
    assert (optimizer.sgd_momentum, optimizer.weight_decay) == (0.9, 5e-4)
    assert (optimizer.schedule, optimizer.warmup_epochs, optimizer.final_lr) == ("cosine", 0, 0)
    assert config.run.batch_size == 512
    assert 800 <= config.run.epochs <= 1000
    assert (config.backbone.name, config.backbone.width) == ("resnet18", 1)
    assert config.backbone.stem == "auto"  # small at 32 pixels
    views = config.views
    assert (views.operations, views.crop_scale) == ("abcde", (0.08, 1.0))
    assert (views.jitter, views.jitter_p) == ((0.4, 0.4, 0.4, 0.1), 0.8)
    assert (views.gray_p, views.blur_p, views.flip_p) == (0.2, (0.5, 0.5), 0.5)


def test_cifar10_heads_and_losses():
    assert figures(
        "cifar10-simclr",
        *(
            "method.temperature.tau",
            "method.projector",
            "method.projector_norm",
            "method.projector_bias",
        ),
        "method.positive_in_denominator",
    ) == (0.5, (512, 128), False, True, True)
    assert figures(
        "cifar10-moco",
        *("method.temperature.tau", "method.projector", "method.queue", "method.momentum"),
        *("method.symmetric", "method.shuffle"),
    ) == (0.1, (512, 128), 4096, 0.99, True, True)
    assert figures(
        "cifar10-simsiam",
        *(
            "method.temperature.tau",
            "method.projector",
            "method.predictor",
            "method.projector_norm",
        ),
        "method.projector_last_norm",
    ) == (1.0, (2048, 2048), 512, True, "affine")
    assert figures(
        "cifar10-barlow",
        *("method.temperature.tau", "method.projector", "method.lam", "method.projector_norm"),
        "method.projector_last_norm",
    ) == (1.0, (2048, 2048, 2048), 5e-3, True, "affine")
    assert figures(
        "cifar10-byol",
        *("method.temperature.tau", "method.projector", "method.predictor"),
        *("method.momentum", "method.momentum_end"),
    ) == (1.0, (4096, 256), 4096, 0.99, 1.0)
    assert figures(
        "cifar10-nnclr",
        *("method.temperature.tau", "method.projector", "method.predictor", "method.queue"),
    ) == (0.2, (2048, 2048, 256), 4096, 65536)


def test_cifar100_is_cifar10_for_longer():
    ten, hundred = recipes.recipe("cifar10-moco"), recipes.recipe("cifar100-moco")
    assert (hundred.data.source, hundred.run.epochs) == ("cifar100", 1000)
    assert replace(hundred, data=ten.data, run=ten.run) == ten


def test_stl10():
    for method in RESNETS:
        assert figures(
            f"stl10-{method}",
            *("optimizer.name", "optimizer.lr", "optimizer.weight_decay"),
            *("optimizer.schedule", "optimizer.final_lr", "run.batch_size", "run.epochs"),
            *("views.jitter", "views.jitter_p", "views.gray_p", "views.blur_kernel"),
            "backbone.name",
        ) == (
            *("adamw", 5e-4, 1e-4, "cosine", 1 / 50, 512, 1000),
            *((0.5, 0.5, 0.5, 0.1), 0.8, 0.2, 9, "resnet18"),
        )
    assert figures("stl10-simclr", "method.temperature.tau", "method.projector") == (
        0.07,
        (512, 128),
    )


def test_imagenet_simclr():
    assert figures(
        "imagenet-simclr",
        *("method.temperature.tau", "method.projector", "optimizer.name", "optimizer.weight_decay"),
        *("optimizer.warmup_epochs", "run.batch_size", "views.jitter", "backbone.name"),
        *("views.jitter_p", "views.blur_p", "views.blur_sigma"),
    ) == (
        *(0.1, (2048, 128), "lars", 1e-6, 10, 4096, (0.8, 0.8, 0.8, 0.2), "resnet50"),
        *(0.8, (0.5, 0.5), (0.1, 2.0)),
    )
    assert recipes.recipe("imagenet-simclr").optimizer.peak_rate(4096) == pytest.approx(4.8)


def test_imagenet_moco():
    assert figures(
        "imagenet-moco",
        *("method.temperature.tau", "method.projector", "method.queue", "method.momentum"),
        *("method.symmetric", "optimizer.name", "optimizer.lr", "optimizer.weight_decay"),
        *("run.batch_size", "views.crop_scale", "views.jitter"),
    ) == (
        *(0.2, (2048, 128), 65536, 0.999, False, "sgd", 0.03, 1e-4, 256),
        *((0.2, 1.0), (0.4, 0.4, 0.4, 0.1)),
    )


def test_imagenet_simsiam():
    assert figures(
        "imagenet-simsiam",
        *("method.projector", "method.projector_bias", "method.projector_norm"),
        *("method.projector_last_norm", "method.predictor", "method.fixed_predictor_rate"),
        *("optimizer.name", "optimizer.weight_decay", "run.batch_size"),
    ) == ((2048, 2048, 2048), False, True, "plain", 512, True, "sgd", 1e-4, 512)
    assert recipes.recipe("imagenet-simsiam").optimizer.peak_rate(512) == pytest.approx(0.1)


def test_imagenet_barlow():
    config = recipes.recipe("imagenet-barlow")
    assert figures(
        "imagenet-barlow",
        *("method.projector", "method.projector_bias", "method.projector_last_norm"),
        *("method.lam", "optimizer.name", "optimizer.weight_decay", "run.batch_size"),
    ) == ((8192, 8192, 8192), False, "plain", 0.0051, "lars", 1e-6, 2048)
    peak = config.optimizer.peak_rate(2048)
    assert peak == pytest.approx(0.2 * 8)
    assert peak * config.optimizer.bias_lr_scale == pytest.approx(0.0048 * 8)
    assert (config.views.blur_p, config.views.solarize_p) == ((1.0, 0.1), (0.0, 0.2))
    assert "s" in config.views.operations


LARS = ("optimizer.name", "optimizer.weight_decay", "optimizer.decay_norm_and_bias")


def test_imagenet_byol():
    name = "imagenet-byol"
    assert figures(name, *LARS) == ("lars", 1.5e-6, False)
    assert figures(name, *RUN) == (10, "cosine", 4096, 1000)
    assert peak(name) == pytest.approx(0.2 * 4096 / 256)
    assert figures(
        name,
        *("method.projector", "method.projector_norm", "method.projector_last_norm"),
        *("method.projector_bias", "method.predictor", "method.momentum", "method.momentum_end"),
    ) == ((4096, 256), True, "none", False, 4096, 0.996, 1.0)
    assert figures(name, "views.blur_p", "views.solarize_p") == ((1.0, 0.1), (0.0, 0.2))
    assert figures(name, "views.jitter", "hardware.sync_norm") == ((0.4, 0.4, 0.2, 0.1), True)


def test_imagenet_nnclr():
    name = "imagenet-nnclr"
    assert figures(name, *LARS) == ("lars", 1e-6, False)
    assert figures(name, *RUN) == (10, "cosine", 4096, 1000)
    assert peak(name) == pytest.approx(0.3 * 4096 / 256)
    assert figures(
        name,
        *("method.temperature.tau", "method.projector", "method.projector_norm"),
        *("method.projector_last_norm", "method.predictor", "method.queue", "hardware.sync_norm"),
    ) == (0.1, (2048, 2048, 256), True, "affine", 4096, 98304, True)


def test_imagenet_vicreg():
    """The run of 1000 epochs of the original repository."""
    assert figures(
        "imagenet-vicreg",
        *("method.projector", "method.projector_norm", "method.projector_last_norm"),
        *("method.invariance_weight", "method.variance_weight", "method.covariance_weight"),
        *("optimizer.name", "optimizer.weight_decay", "optimizer.warmup_epochs"),
        *("optimizer.final_lr", "optimizer.lars_trust", "run.batch_size", "run.epochs"),
        *("views.blur_p", "views.solarize_p", "views.jitter", "views.crop_scale"),
    ) == (
        *((8192, 8192, 8192), True, "none", 25, 25, 1, "lars", 1e-6, 10, 0.001, 0.001, 2048, 1000),
        *((1.0, 0.1), (0.0, 0.2), (0.4, 0.4, 0.2, 0.1), (0.08, 1.0)),
    )
    assert recipes.recipe("imagenet-vicreg").optimizer.peak_rate(2048) == pytest.approx(1.6)


def test_cifar_vicreg():
    """The figures of solo-learn."""
    assert figures(
        "cifar10-vicreg",
        *("method.projector", "optimizer.name", "optimizer.lr", "optimizer.weight_decay"),
        *("optimizer.lars_trust", "optimizer.warmup_epochs", "run.batch_size", "run.epochs"),
        *("views.operations", "views.crop_scale", "views.jitter", "views.solarize_p"),
    ) == (
        *((2048, 2048, 2048), "lars", 0.3, 1e-4, 0.02, 10, 256, 1000),
        *("acdes", (0.2, 1.0), (0.4, 0.4, 0.2, 0.1), (0.1, 0.1)),
    )


def test_vicreg_holds_temperatures_by_omega_alone():
    scheme = recipes.recipe("cifar10-vicreg-amcl").method.temperature
    assert (scheme.tau, scheme.beta, scheme.phi_gradient) == (1.0, 1.0, False)


def test_cifar_supcon():
    """The figures of the authors' PyTorch code."""
    assert figures(
        "cifar10-supcon",
        *("method.temperature.tau", "method.projector", "optimizer.name", "optimizer.lr"),
        *("optimizer.weight_decay", "optimizer.warmup_epochs", "optimizer.final_lr"),
        *("run.batch_size", "run.epochs", "views.operations", "views.crop_scale", "views.jitter"),
    ) == (
        *(0.1, (512, 128), "sgd", 0.5, 1e-4, 10, 0.001, 1024, 1000),
        *("acde", (0.2, 1.0), (0.4, 0.4, 0.4, 0.1)),
    )
    assert recipes.recipe("cifar10-supcon").method.loss_scale == pytest.approx(0.1 / 0.07)


def test_imagenet_supcon():
    """The figures of the authors' TensorFlow code, which multiplies the loss by τ."""
    assert figures(
        "imagenet-supcon",
        *("method.temperature.tau", "method.loss_scale", "method.projector", "optimizer.name"),
        *("optimizer.weight_decay", "optimizer.warmup_epochs", "run.batch_size", "run.epochs"),
    ) == (0.1, 0.1, (2048, 128), "lars", 1e-3, 12, 6144, 350)
    assert recipes.recipe("imagenet-supcon").optimizer.peak_rate(6144) == pytest.approx(9.6)


@pytest.mark.parametrize("method", RESNETS)
def test_tinyimagenet_is_cifar_with_a_resnet50(method):
    """The network is the paper's."""
    tiny, cifar = (recipes.recipe(f"{data}-{method}") for data in ("tinyimagenet", "cifar10"))
    assert (tiny.backbone.name, tiny.backbone.stem) == ("resnet50", "auto")
    assert replace(tiny, data=cifar.data, backbone=cifar.backbone) == cifar


@pytest.mark.parametrize("name", ["tiny-imagenet-can-amcl", "tiny-imagenet-simclr"])
def test_tinyimagenet_by_its_other_name(name):
    config = recipes.recipe(name)
    assert config == recipes.recipe(name.replace("tiny-imagenet", "tinyimagenet"))
    assert config.data.source == "tinyimagenet"


ADAMW = ("optimizer.name", "optimizer.weight_decay", "optimizer.adam_betas")
RUN = ("optimizer.warmup_epochs", "optimizer.schedule", "run.batch_size", "run.epochs")


def peak(name):
    config = recipes.recipe(name)
    return config.optimizer.peak_rate(config.run.batch_size)


def test_imagenet_mae():
    name = "imagenet-mae"
    assert figures(name, *ADAMW) == ("adamw", 0.05, (0.9, 0.95))
    assert figures(name, *RUN) == (40, "cosine", 4096, 800)
    assert peak(name) == pytest.approx(1.5e-4 * 4096 / 256)
    assert figures(
        name,
        *("method.mask_ratio", "method.normalize_targets", "method.decoder_dim"),
        *("method.decoder_depth", "method.decoder_heads", "views.operations", "views.crop_scale"),
        *("backbone.name", "backbone.width"),
    ) == (0.75, True, 512, 8, 16, "ae", (0.2, 1.0), "vit_base_patch16_224", 1)


def test_imagenet_can():
    name = "imagenet-can"
    assert figures(name, *ADAMW) == ("adamw", 0.05, (0.9, 0.95))
    assert figures(name, *RUN) == (40, "cosine", 4096, 800)
    assert peak(name) == pytest.approx(2.5e-4 * 4096 / 256)
    assert figures(
        name,
        *("method.projector", "method.projector_norm", "method.temperature.tau", "method.noise"),
        *("method.mask_ratio", "method.decoder_dim", "method.decoder_depth"),
        *("method.decoder_heads", "backbone.name", "backbone.pool"),
    ) == (
        *((4096, 4096, 128), True, 0.1, 0.05, 0.5, 512, 8, 16),
        *("vit_base_patch16_224", "mean"),
    )
    assert figures(
        name, *(f"method.{term}_weight" for term in ("contrast", "reconstruction", "denoising"))
    ) == (0.03, 0.67, 0.30)


MOCO_V3 = (
    *("method.projector", "method.projector_norm", "method.projector_bias"),
    *(
        "method.projector_last_norm",
        "method.predictor",
        "method.temperature.tau",
    ),
    *("method.momentum", "method.momentum_end", "method.fixed_positions"),
)


@pytest.mark.parametrize("method", ["mocov3", "lgp"])
def test_imagenet_moco_v3_and_lgp(method):
    name = f"imagenet-{method}"
    assert figures(name, *ADAMW) == ("adamw", 0.1, (0.9, 0.999))
    assert figures(name, *RUN) == (40, "cosine", 4096, 300)
    assert peak(name) == pytest.approx(1.5e-4 * 4096 / 256)
    assert figures(name, *MOCO_V3) == (
        *((4096, 4096, 256), True, False, "plain", 4096, 0.2, 0.99, 1.0, True),
    )
    assert figures(name, "views.blur_p", "views.solarize_p") == ((1.0, 0.1), (0.0, 0.2))
    assert "s" in recipes.recipe(name).views.operations
    assert figures(name, "hardware.sync_norm", "method.freeze_patches") == (
        True,
        method == "mocov3",
    )
    assert recipes.recipe(name).method.loss_scale == pytest.approx(2 * 0.2)
    assert recipes.recipe(f"{name}-amcl").method.loss_scale == pytest.approx(2 * 0.2)


@pytest.mark.parametrize("name", [n for n in recipes.names() if n.endswith("-amcl")])
def test_amcl_changes_heads_and_temperature_and_nothing_else(name):
    """τ₀, and with it the middle of the range, is the temperature of the method as published."""
    amcl, plain = recipes.recipe(name), recipes.recipe(name.removesuffix("-amcl"))
    assert replace(amcl, method=change(amcl.method, temperature="constant", heads=1)) == plain
    assert amcl.method.temperature.typical(amcl.method.dim) == plain.method.temperature.tau
    assert sum(amcl.method.temperature.tau_range(amcl.method.dim)) / 2 == pytest.approx(
        plain.method.temperature.tau
    )


def test_imagenet_resnets_are_as_published():
    assert figures("imagenet-simclr", "method.projector_norm", "method.projector_last_norm") == (
        *(True, "affine"),
    )
    assert figures("imagenet-barlow", "optimizer.final_lr") == (0.001,)
    for method, synchronized in {"simclr": 1, "moco": 0, "simsiam": 1, "barlow": 1}.items():
        assert figures(f"imagenet-{method}", "hardware.sync_norm") == (bool(synchronized),)


def test_imagenet_lgp():
    name = "imagenet-lgp"
    assert figures(name, "method.mae_epochs", "method.mae_lr", "method.mask_ratio") == (
        *(800, 1.5e-4, 0.75),
    )
    rates = [peak(name) * share for share in recipes.recipe(name).method.thirds]
    assert rates == pytest.approx([share * 4096 / 256 for share in (1.5e-5, 1.5e-5, 1.5e-4)])
    assert figures(name, "method.pull") == (0,)


@pytest.mark.parametrize("method", VITS)
def test_imagenet_large_is_another_network_and_a_pull(method):
    base, large = (recipes.recipe(f"imagenet-{method}{suffix}") for suffix in ("", "-large"))
    assert large.backbone.name == "vit_large_patch16_224"
    if method == "lgp":
        assert large.method.pull == 1e-5
        assert large.run.batch_size == 2080
        large = replace(large, method=replace(large.method, pull=0.0), run=base.run)
    assert replace(large, backbone=base.backbone) == base


@pytest.mark.parametrize("method", VITS)
def test_tinyimagenet_of_vision_transformers(method):
    name = f"tinyimagenet-{method}"
    assert figures(name, "backbone.name", "run.epochs") == ("vit_base_patch16_224", 800)
    backbone = replace(recipes.recipe(name).backbone, width=1 / 12)  # patches are the same
    assert Backbone(backbone, 64).network.patch_embed.patch_size == (8, 8)


@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize("method", ["mae", "can", "lgp"])
def test_recipes_of_vision_transformers_fit_their_networks(data, method):
    """Patches divide images, attention heads divide the decoder: the method can be made."""
    config = recipes.recipe(f"{data}-{method}")
    size = {"imagenet": 224, "folder": 224, "stl10": 96, "tinyimagenet": 64}
    with torch.device("meta"):
        backbone = Backbone(config.backbone, size.get(data, 32))
        assert isinstance(make_method(config.method, backbone), METHODS[config.method.name])


def test_imagenet_dino_is_that_of_the_original_repository():
    name = "imagenet-dino"
    assert figures(name, "backbone.name", "run.epochs", "run.batch_size", "method.prototypes") == (
        *("vit_small_patch16_224", 300, 1024, 65536),
    )
    assert figures(name, "method.projector", "method.projector_norm") == ((2048, 2048, 256), False)
    assert figures(
        name, "method.teacher_tau_start", "method.teacher_tau", "method.teacher_tau_warmup"
    ) == (0.04, 0.07, 30)
    assert figures(name, "method.momentum", "method.momentum_end", "method.center_momentum") == (
        *(0.996, 1.0, 0.9),
    )
    assert figures(name, "method.prototype_freeze", "method.prototype_unit_length") == (1, False)
    assert figures(name, "method.drop_path", "method.temperature.tau") == (0.1, 0.1)
    assert figures(name, "optimizer.name", "optimizer.warmup_epochs", "optimizer.clip") == (
        *("adamw", 10, 3.0),
    )
    assert figures(name, "optimizer.weight_decay", "optimizer.final_weight_decay") == (0.04, 0.4)
    assert peak(name) == pytest.approx(5e-4 * 1024 / 256)
    assert peak(name) * recipes.recipe(name).optimizer.final_lr == pytest.approx(1e-6)
    views = recipes.recipe(name).views
    assert (views.crop_scale, views.local_scale) == ((0.4, 1.0), (0.05, 0.4))
    assert (views.local_crops, views.local_size, views.local_blur_p) == (8, 96, 0.5)
    assert (views.blur_p, views.solarize_p) == ((1.0, 0.1), (0.0, 0.2))
    assert views.jitter == (0.4, 0.4, 0.2, 0.1)


def test_imagenet_dino_of_resnet50_is_that_of_the_original_repository():
    name = "imagenet-dino-resnet50"
    assert figures(name, "backbone.name", "run.epochs", "run.batch_size") == ("resnet50", 100, 512)
    assert figures(name, "optimizer.name", "optimizer.weight_decay") == ("sgd", 1e-4)
    assert figures(name, "optimizer.final_weight_decay") == (None,)
    assert peak(name) == pytest.approx(0.06)
    assert figures(name, "views.crop_scale", "views.local_scale") == ((0.14, 1.0), (0.05, 0.14))
    assert figures(name, "method.teacher_tau", "method.teacher_tau_warmup") == (0.04, 0)
    assert figures(name, "method.prototype_unit_length", "hardware.sync_norm") == (True, True)


@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_dino_on_cifar_is_that_of_solo_learn(data):
    name = f"{data}-dino"
    assert figures(name, "backbone.name", "run.epochs", "run.batch_size") == ("resnet18", 1000, 256)
    assert figures(name, "method.prototypes", "method.momentum", "method.momentum_end") == (
        *(4096, 0.9995, 1.0),
    )
    assert figures(name, "method.teacher_tau", "method.teacher_tau_warmup") == (0.07, 0)
    assert figures(name, "optimizer.name", "optimizer.lars_trust", "optimizer.weight_decay") == (
        *("lars", 0.02, 1e-6),
    )
    assert peak(name) == pytest.approx(0.3)
    assert figures(name, "views.local_crops", "views.blur_p") == (0, (0.0, 0.0))


@pytest.mark.parametrize("name", [n for n in recipes.names() if "dino" in n])
def test_local_crops_of_dino_are_whole_patches(name):
    config = recipes.recipe(name)
    size = {"imagenet": 224, "folder": 112, "stl10": 96, "tinyimagenet": 64}
    with torch.device("meta"):
        backbone = Backbone(config.backbone, size.get(name.split("-")[0], 32))
    groups = ViewGroups(backbone.image_size, config.views, patch=backbone.patch).groups
    assert len(groups) == 1 + (config.views.local_crops > 0)
    for group in groups:
        backbone.check_crops(group.size)


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(ValueError, match="no recipe 'cifar10-simcrl': did you mean cifar10-simclr"):
        recipes.recipe("cifar10-simcrl")
    with pytest.raises(ValueError, match="`amcl recipes` lists them"):
        recipes.recipe("§")


def test_default_is_that_of_the_set_or_of_folders():
    assert recipes.default("cifar10", "moco") == recipes.recipe("cifar10-moco")
    own = recipes.default("/pictures", "moco")
    folder = recipes.recipe("folder-moco")
    assert own == replace(folder, data=replace(folder.data, source="/pictures"))


@pytest.mark.parametrize("name", recipes.names())
def test_summary_is_one_line_with_the_epochs(name):
    line = recipes.summary(name)
    assert "\n" not in line
    config = recipes.recipe(name)
    first = f"{config.method.mae_epochs} of MAE and " if config.method.name == "lgp" else ""
    assert line.endswith(f"; {first}{config.run.epochs} epochs")


def test_recipes_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipes.recipe("cifar10-moco").run = None
