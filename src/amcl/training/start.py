"""What a run starts from: random weights, another run's, or those of a first stage of its own."""

from dataclasses import fields, replace
from pathlib import Path

import torch

from amcl.backbones import Backbone, load_backbone
from amcl.methods import LGPSettings, MAESettings, Method, make_method
from amcl.methods.masked import MaskedSettings
from amcl.modules import is_vit
from amcl.seeds import seed_of
from amcl.training.config import Config
from amcl.training.errors import RunError
from amcl.training.run_folder import RunFolder

_CROP_AND_FLIP = "ae"  # MAE augments with these alone


def first_stage(config: Config) -> Config | None:
    """The run of MAE whose weights this one starts from; None if it needs none of its own."""
    method = config.method
    if not isinstance(method, LGPSettings) or config.run.init is not None:
        return None
    masked = {field.name: getattr(method, field.name) for field in fields(MaskedSettings)}
    letters = "".join(letter for letter in config.views.views if letter in _CROP_AND_FLIP)
    return replace(
        config,
        views=replace(
            config.views, views=letters, crop_scale=(0.2, 1.0), min_overlap=0.0, overlap=None
        ),
        method=MAESettings(**masked),
        optimizer=replace(
            config.optimizer,
            optimizer="adamw",
            lr=method.mae_lr,
            adam_betas=(0.9, 0.95),
            weight_decay=0.05,
        ),
        run=replace(config.run, epochs=method.mae_epochs),
    )


def fresh_method(config: Config, image_size: int) -> Method:
    """The method with its first, random weights, the same on every process."""
    torch.manual_seed(seed_of(config.run.seed, "weights"))
    method = make_method(config.method, Backbone(config.backbone, image_size))
    method.draw_weights()
    return method


def init_of(config: Config, folder: RunFolder) -> Path | None:
    """The backbone that a new run starts from, if it is not a random one."""
    if config.run.init is not None:
        return Path(config.run.init).expanduser()
    return folder.first_stage.backbone if first_stage(config) is not None else None


def start_from(method: Method, init: Path) -> None:
    """Give a method the backbone of another run."""
    given, own = load_backbone(init), method.backbone
    try:
        method.start_from(given.network.state_dict(), init)
    except ValueError as error:
        raise RunError(
            f"{init} holds {_network(given)}, and this run trains {_network(own)}: use the same "
            "--backbone, --width, --stem, --patch and --image-size."
        ) from error


def method_to_train(config: Config, image_size: int, init: Path | None) -> Method:
    """The method, random or from another run's backbone, as the hardware settings want it."""
    method = fresh_method(config, image_size)
    if init is not None:
        start_from(method, init)
    if config.hardware.sync_norm:
        method = torch.nn.SyncBatchNorm.convert_sync_batchnorm(method)
    if config.hardware.channels_last:
        method = method.to(memory_format=torch.channels_last)
    return method


def _network(backbone: Backbone) -> str:
    settings, network = backbone.settings, backbone.network
    patches = f" in patches of {network.patch_embed.patch_size[0]}" if is_vit(network) else ""
    size = f"{backbone.image_size} pixels{patches}"
    return f"{settings.backbone} ×{settings.width:.3g} for {size}"
