"""Runs of a second to report on."""

from dataclasses import replace

import pytest

from amcl import recipes
from amcl.analysis.cost import cost_of
from amcl.config.fields import with_values
from amcl.training import pretrain
from factories import change
from tiny_runs import picture_folder, tiny_vit


def small(method="simclr", data="builtin", batch_size=80, **heads):
    """Two epochs of two steps, on the images of `few_images`."""
    config = recipes.default(data, method)
    if config.method.has_heads:
        config = replace(config, method=change(config.method, projector=(16, 8), **heads))
    options = {"backbone": "resnet10t", "width": 0.125, "workers": 0, "threads": 1, "epochs": 2}
    return with_values(
        config, options | {"batch_size": batch_size, "probe_every": 1, "log_every": 1}
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


@pytest.fixture(autouse=True, scope="session")
def _counted_once():
    """What a configuration costs takes a second to count, and is the same in all tests."""
    known = {}

    def counted(config, size, channels):
        key = (config.method, config.backbone, config.run.batch_size, size, channels)
        if key not in known:
            known[key] = cost_of(config, size, channels)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amcl.report.sections.cost.cost_of", counted)
        yield
