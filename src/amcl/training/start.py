"""The first weights of a run: random, another run's, or those of a first stage of its own."""

from pathlib import Path

import torch

from amcl.backbones import Backbone, load_backbone
from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.errors import RunError
from amcl.files import expand_home
from amcl.methods import Method, make_method
from amcl.modules import is_vit
from amcl.seeds import seed_of


def first_stage(config: Config) -> Config | None:
    """Return the run whose weights this one starts from; None if it makes none of its own."""
    return None if config.run.init is not None else config.method.first_stage(config)


def fresh_method(config: Config, image_size: int) -> Method:
    """Return the method with its first, random weights, the same on every process."""
    torch.manual_seed(seed_of(config.run.seed, "weights"))
    method = make_method(config.method, Backbone(config.backbone, image_size))
    method.init_weights()
    return method


def init_of(config: Config, folder: RunFolder) -> Path | None:
    """Return the backbone that a new run starts from; None for a random one."""
    if config.run.init is not None:
        return expand_home(config.run.init)
    return folder.first_stage.backbone if first_stage(config) is not None else None


def init_from(method: Method, init: Path) -> None:
    """Give a method the backbone of another run."""
    source = load_backbone(init)
    try:
        method.load_backbone(source.network.state_dict(), init)
    except ValueError as error:
        raise RunError(
            f"{init} holds {_network(source)}, and this run trains {_network(method.backbone)}: "
            "use the same --backbone, --width, --stem, --patch and --image-size."
        ) from error


def method_to_train(config: Config, image_size: int, init: Path | None) -> Method:
    """Return the method, random or from another run's backbone, as the hardware wants it."""
    method = fresh_method(config, image_size)
    if init is not None:
        init_from(method, init)
    if config.hardware.sync_norm:
        method = torch.nn.SyncBatchNorm.convert_sync_batchnorm(method)
    if config.hardware.channels_last:
        method = method.to(memory_format=torch.channels_last)
    return method


def _network(backbone: Backbone) -> str:
    settings = backbone.settings
    network = backbone.network
    patches = f" in patches of {network.patch_embed.patch_size[0]}" if is_vit(network) else ""
    size = f"{backbone.image_size} pixels{patches}"
    return f"{settings.name} ×{settings.width:.3g} for {size}"
