"""Recipes of NNCLR."""

from dataclasses import replace

from amcl.config import Config, HardwareSettings, OptimizerSettings, RunSettings
from amcl.methods import NNCLRSettings
from amcl.recipes.registry import register_recipes
from amcl.recipes.sets import resnet, two_sided_views
from amcl.temperature import ConstantSettings

METHODS = {
    "builtin": NNCLRSettings(
        projector=(256, 64), predictor=256, queue=512, temperature=ConstantSettings(tau=0.1)
    ),
    "folder": NNCLRSettings(
        projector=(1024, 1024, 256),
        predictor=1024,
        queue=16384,
        temperature=ConstantSettings(tau=0.1),
    ),
}
_SMALL = NNCLRSettings(queue=65536, temperature=ConstantSettings(tau=0.2))


@register_recipes("nnclr")
def nnclr(data: str) -> Config:
    """Return NNCLR (arXiv 2104.14548); on ImageNet with settings that are partly unconfirmed.

    There statistics of batch norm are those of the whole batch, and views are BYOL's, as
    solo-learn has them. On small sets heads, temperature and queue are those of solo-learn; the
    optimizer is that of the set, since solo-learn's clips the rate of each layer.
    """
    config = resnet(data)
    if data == "imagenet":
        return replace(
            config,
            views=two_sided_views(),
            method=NNCLRSettings(temperature=ConstantSettings(tau=0.1)),
            optimizer=OptimizerSettings(
                name="lars", lr=0.3, lr_scaling="linear", weight_decay=1e-6, warmup_epochs=10
            ),
            run=RunSettings(epochs=1000, batch_size=4096),
            hardware=HardwareSettings(sync_norm=True),
        )
    return replace(config, method=METHODS.get(data, _SMALL))
