"""LGP (layer grafted pre-training): MoCo v3 on the weights of MAE, lower layers moving slowly."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.methods.base import C
from amcl.methods.mae import MAESettings
from amcl.methods.masked import MaskedSettings
from amcl.methods.moco_v3 import MoCoV3, MoCoV3Settings
from amcl.methods.registry import register_method
from amcl.modules import Anchor, plain_vit
from amcl.settings import Rule, non_negative, positive_number, whole_number

_CROP_AND_FLIP = "ae"  # MAE augments with these alone


@dataclass(frozen=True, kw_only=True)
class LGPSettings(MoCoV3Settings, MaskedSettings):
    """Settings of LGP. Masks and decoder are those of its first stage, MAE; --init leaves it out.

    Example:
        >>> LGPSettings(mae_epochs=100).first_stage_epochs
        100
    """

    name: ClassVar[str] = "lgp"
    title: ClassVar[str] = "LGP"
    layer_rates: ClassVar[bool] = True

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            fields=(*(field.name for field in fields(MaskedSettings)), "mae_epochs", "mae_lr"),
            depends=("init",),
            used=lambda values: values["init"] is None,
            belongs="LGP's first stage (leave out --init, which takes it from another run)",
        ),
        Rule(
            fields=("layer_decay",),
            depends=("thirds",),
            used=lambda values: False,
            belongs="methods that do not set the rates of layers themselves",
        ),
    )

    freeze_patches: bool = False
    thirds: tuple[float, float, float] = (0.1, 0.1, 1.0)
    """The first, second and last third of the blocks learn at the learning rate times these."""
    pull: float = 0.0
    """Weight of Σ|θ − θ_MAE| over embeddings and the first half of the blocks (ViT-L: 1e-5)."""
    mae_epochs: int = 800
    """Epochs of the first stage, which has MAE's crops, flips, AdamW and weight decay."""
    mae_lr: float = 1.5e-4
    """Learning rate of the first stage, scaled as that of the second."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for scale in self.thirds:
            non_negative("thirds", scale, "0 holds a third of the blocks fixed")
        non_negative("pull", self.pull, "0 switches it off")
        whole_number("mae_epochs", self.mae_epochs)
        positive_number("mae_lr", self.mae_lr)

    def sharding_refusal(self) -> str:
        if not self.pull:
            return ""
        return (
            "the pull to the weights of the first stage compares whole weights, which no process "
            "has: use --pull 0 or --strategy ddp."
        )

    @property
    def first_stage_epochs(self) -> int:  # type: ignore[override]
        return self.mae_epochs

    def facts(self) -> list[tuple[str, str]]:
        return [fact for fact in super().facts() if fact[0] != "masked"]

    def with_first_stage(self, epochs: int) -> "LGPSettings":
        return replace(self, mae_epochs=epochs)

    def first_stage(self, config: C) -> C:
        """Return the run of MAE: its crops and flips, AdamW and weight decay."""
        whole: Any = config
        masked = {field.name: getattr(self, field.name) for field in fields(MaskedSettings)}
        letters = "".join(letter for letter in whole.views.operations if letter in _CROP_AND_FLIP)
        stage: C = replace(
            whole,
            views=replace(
                whole.views,
                operations=letters,
                crop_scale=(0.2, 1.0),
                min_overlap=0.0,
                overlap=None,
            ),
            method=MAESettings(**masked),
            optimizer=replace(
                whole.optimizer,
                name="adamw",
                lr=self.mae_lr,
                adam_betas=(0.9, 0.95),
                weight_decay=0.05,
                layer_decay=None,
                freeze_epochs=None,
                freeze_depth=None,
            ),
            run=replace(whole.run, epochs=self.mae_epochs),
        )
        return stage


@register_method(LGPSettings)
class LGP(MoCoV3):
    """LGP's second stage, and with several heads and adaptive temperatures LGP + AMCL.

    `load_backbone` takes the weights of the first stage.

    Args:
        settings: Settings of heads, temperature, learning rates and loss.
        backbone: The network that is trained, a plain vision transformer.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> vit = BackboneSettings(name="vit_tiny_patch16_224", width=0.125)
        >>> settings = LGPSettings(projector=(16, 8), predictor=8, thirds=(0.1, 0.5, 1.0))
        >>> method = LGP(settings, Backbone(vit, image_size=32))
        >>> sorted(set(method.lr_scales().values()))
        [0.1, 0.5, 1.0]
    """

    def __init__(self, settings: LGPSettings, backbone: Backbone) -> None:
        plain_vit(backbone.network)
        super().__init__(settings, backbone)
        self.thirds = settings.thirds
        self.pull = settings.pull
        self.anchor = Anchor(self._pulled()) if self.pull else None

    def init_weights(self) -> None:
        super().init_weights()
        if self.anchor is not None:
            self.anchor.reset(self._pulled())

    def load_backbone(self, weights: Mapping[str, torch.Tensor], source: object) -> None:
        super().load_backbone(weights, source)
        if self.anchor is not None:
            self.anchor.reset(self._pulled())

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        loss = super().forward(views, watch)
        if self.anchor is None:
            return loss
        distance: torch.Tensor = self.anchor(self._pulled())
        if watch:
            self.terms = {"distance": distance.detach()}
        return loss + self.pull * distance

    def lr_scales(self) -> dict[nn.Parameter, float]:
        """Return scales by thirds of the blocks; embeddings have the first, the rest the last."""
        network: Any = self.backbone.network
        depth = len(network.blocks)
        scales = dict.fromkeys(self.parameters(), self.thirds[2])
        scales.update(dict.fromkeys(self._embeddings(), self.thirds[0]))
        for number, block in enumerate(network.blocks):
            scales.update(dict.fromkeys(block.parameters(), self.thirds[3 * number // depth]))
        return scales

    def _embeddings(self) -> Iterator[nn.Parameter]:
        network: Any = self.backbone.network
        yield from network.patch_embed.parameters()
        yield from network.norm_pre.parameters()
        yield from (p for p in (network.cls_token, network.pos_embed) if p is not None)

    def _pulled(self) -> list[nn.Parameter]:
        """Return the parameters held near the first stage's: embeddings and half of the blocks."""
        network: Any = self.backbone.network
        half = network.blocks[: len(network.blocks) // 2]
        parameters = [*self._embeddings(), *half.parameters()]
        return [parameter for parameter in parameters if parameter.requires_grad]
