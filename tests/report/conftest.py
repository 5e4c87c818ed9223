"""Runs of a second to report on."""

from dataclasses import replace

import pytest

from amcl import recipes
from amcl.methods import HeadSettings
from amcl.training import pretrain
from tiny_runs import picture_folder, tiny_vit


def small(method="simclr", data="builtin", batch_size=80, **heads):
    """Two epochs of two steps, on the images of `few_images`."""
    config = recipes.default(data, method)
    if isinstance(config.method, HeadSettings):
        config = replace(config, method=replace(config.method, projector=(16, 8), **heads))
    return replace(
        config,
        backbone=replace(config.backbone, name="resnet10t", width=0.125),
        data=replace(config.data, workers=0),
        run=replace(config.run, epochs=2, batch_size=batch_size, probe_every=1, log_every=1),
        hardware=replace(config.hardware, threads=1),
    )


AMCL = {"heads": 2, "temperature": "adaptive"}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Finished runs by name, made once."""
    folder = tmp_path_factory.mktemp("runs")
    made = {}

    def run(name):
        if name not in made:
            pictures = folder / "pictures"
            if name in ("mae", "unlabeled") and not pictures.exists():
                picture_folder(pictures, count=24)
            configs = {
                "amcl": lambda: small(**AMCL, projector_last_norm="plain"),
                "plain": small,
                "simsiam": lambda: small("simsiam", **AMCL),
                "barlow": lambda: small("barlow", **AMCL),
                "mae": lambda: tiny_vit("mae", pictures),
                "unlabeled": lambda: small(
                    data=str(pictures), batch_size=8, projector_last_norm="plain", **AMCL
                ),
            }
            made[name] = folder / name
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("amcl.data.builtin._TRAIN", 160)
                patch.setattr("amcl.data.builtin._QUERIES", 40)
                pretrain(configs[name](), made[name])
        return made[name]

    return run
