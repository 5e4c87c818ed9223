"""Backbones on the Hugging Face hub."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from torch import nn

from amcl.backbones import (
    Backbone,
    BackboneSettings,
    Pool,
    Stem,
    own_randomness,
)
from amcl.checkpoints.card import model_card
from amcl.checkpoints.files import export_backbone
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.data.images import PerChannel
from amcl.tensor_files import read_safetensors
from amcl.views import IMAGENET_MEAN, IMAGENET_STD

WEIGHTS = "model.safetensors"


class HubBackbone(nn.Module, PyTorchModelHubMixin, library_name="amcl"):
    """A backbone that can be pushed to the hub and fetched from it: (N, C, S, S) → (N, D).

    `HubBackbone.of(open_model("runs/first")).push_to_hub("me/first")` puts a run's backbone there
    with its model card, `HubBackbone.from_pretrained("me/first")` gets it back, and
    `save_pretrained(folder)` writes what would be pushed. Weights are safetensors with timm's keys,
    which `open_model` reads too; pickled weights are refused.

    Args:
        backbone: Name of the timm model.
        image_size: Pixels a side of the images.
        width: Factor of all widths of the network.
        stem: Stem of the network, as in `BackboneSettings`.
        patch: Pixels a side of the patches of a vision transformer.
        pool: Pooling of a vision transformer.
        mean: Means of the channels that images are normalized with, as many as there are channels.
        std: Standard deviations of the channels.

    Example:
        >>> from amcl.checkpoints import open_model
        >>> hub = HubBackbone.of(open_model("resnet18", width=0.25, image_size=32))
        >>> hub(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 128])
    """

    def __init__(
        self,
        *,
        backbone: str,
        image_size: int,
        width: float = 1.0,
        stem: Stem = "auto",
        patch: int | None = None,
        pool: Pool = "auto",
        mean: PerChannel = IMAGENET_MEAN,
        std: PerChannel = IMAGENET_STD,
    ) -> None:
        super().__init__()
        if len(mean) != len(std):
            raise ValueError(
                f"mean and std must be of one number of channels, got {len(mean)} and {len(std)}."
            )
        settings = BackboneSettings(name=backbone, width=width, stem=stem, patch=patch, pool=pool)
        with own_randomness():
            self.backbone = Backbone(settings, image_size, channels=len(mean))
        # The card is made of this. It shares the weights of the backbone above.
        self.loaded_model = LoadedModel(
            name=backbone, backbone=self.backbone, mean=tuple(mean), std=tuple(std)
        )

    @staticmethod
    def of(model: LoadedModel) -> "HubBackbone":
        """Return a loaded model in the form of the hub."""
        settings = model.backbone.settings.metadata()
        size = model.backbone.image_size
        hub = HubBackbone(**settings, image_size=size, mean=model.mean, std=model.std)
        hub.backbone.load(model.backbone.network.state_dict(), model.name)
        hub.loaded_model = replace(model, backbone=hub.backbone)
        return hub.eval()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.backbone(images)
        return h

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """Return the card that is saved beside the weights, unless there is one."""
        load = (
            "from amcl.checkpoints.hub import HubBackbone\n\n"
            'backbone = HubBackbone.from_pretrained(".")  # or the name of the repository'
        )
        return ModelCard(model_card(self.loaded_model, weights=WEIGHTS, load=load))

    def _save_pretrained(self, save_directory: Path) -> None:
        export_backbone(save_directory / WEIGHTS, self.backbone, self.loaded_model.metadata())

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        **model_kwargs: Any,
    ) -> "HubBackbone":
        """Load safetensors, and all of them: the mixin itself takes pickles and leaves gaps."""
        names = ("proxies", "resume_download")  # huggingface_hub before 1 gives these to downloads
        older = {name: model_kwargs.pop(name) for name in names if name in model_kwargs}
        file = Path(model_id) / WEIGHTS
        if not Path(model_id).is_dir():
            try:
                file = Path(
                    hf_hub_download(
                        repo_id=model_id,
                        filename=WEIGHTS,
                        revision=revision,
                        cache_dir=cache_dir,
                        force_download=force_download,
                        token=token,
                        local_files_only=local_files_only,
                        **older,
                    )
                )
            except LocalEntryNotFoundError:  # not online, which its message says
                raise
            except EntryNotFoundError:
                raise _no_weights(model_id) from None
        if not file.is_file():
            raise _no_weights(model_id)
        # Last, because without a network huggingface_hub before 1 passes over the missing file.
        if not {"backbone", "image_size"} <= model_kwargs.keys():
            raise ValueError(f"{model_id} has no config.json that says which backbone it holds.")
        tensors, metadata = read_safetensors(file)
        hub = cls(**model_kwargs)
        hub.backbone.load(tensors, file)
        metadata = {**(metadata or {}), **hub.loaded_model.metadata()}
        hub.loaded_model = LoadedModel.from_metadata(model_id, hub.backbone, metadata)
        return hub.eval()


def _no_weights(model_id: str) -> ValueError:
    return ValueError(
        f"{model_id} has no {WEIGHTS}. Pickled weights are not read, for they can run code."
    )
