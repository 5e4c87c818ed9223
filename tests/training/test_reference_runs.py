"""Training is the same as it was: losses, weights and settings of each method against a record.

The record holds, for each method as published and with AMCL, the losses of the first twenty steps,
a checksum of the last weights and the resolved configuration. Sums of floating-point numbers
differ between processors in their last digits, so that losses are compared to a tolerance; with
AMCL_EXACT=1, on the machine that made the record, they are compared bit for bit, and so are the
weights. AMCL_FREEZE=1 makes the record anew.
"""

import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amcl import recipes
from amcl.backbones import BackboneSettings
from amcl.checkpoints import read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.config import Config
from amcl.methods import METHODS, HeadSettings
from amcl.methods.masked import MaskedSettings
from amcl.training import pretrain
from factories import change

RECORD = Path(__file__).with_name("reference_runs.json")
STEPS = 20
VIT = ("can", "lgp", "mae", "mocov3")
SLOW = [(name, amcl) for name in ("can", "lgp", "mocov3") for amcl in (False, True)]
CASES = [
    (name, amcl)
    for name in METHODS
    for amcl in (False, True)
    if not amcl or METHODS[name].settings_class.has_heads
]


def small_config(method: str, amcl: bool) -> Config:
    """Twenty steps of 24 images on the built-in set; LGP has five of MAE before them."""
    config = recipes.default("builtin", method)
    changed: dict[str, Any] = {}
    if isinstance(config.method, HeadSettings):
        changed |= {"projector": (32, 16), "heads": 1, "temperature": "constant"}
        if amcl:
            changed |= {"heads": 3, "temperature": "adaptive"}
    if isinstance(config.method, MaskedSettings):
        changed |= {"decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2}
    if hasattr(config.method, "predictor"):
        changed["predictor"] = 32
    if method in ("moco", "nnclr"):
        changed["queue"] = 96
    views = config.views
    if config.method.multi_crop:
        views = replace(views, local_crops=2)
    if method == "lgp":
        changed |= {"mae_epochs": 1, "pull": 1e-4}
    backbone = BackboneSettings(name="resnet10t", stem="standard", width=0.25)
    if method in VIT:
        backbone = BackboneSettings(name="test_vit", pool="mean")
    return replace(
        config,
        backbone=backbone,
        views=views,
        data=replace(config.data, workers=0, subset=120, probe="none", image_size=32),
        method=change(config.method, **changed),
        optimizer=replace(config.optimizer, warmup_epochs=0.5, lr_scaling="none", lr=1e-3),
        run=replace(config.run, epochs=4, batch_size=24, log_every=1, probe_every=4, fit=None),
        hardware=replace(config.hardware, accelerator="cpu", threads=1),
    )


def checksum(run: Path) -> str:
    """Of all weights and buffers that the method ended with."""
    state = load_checkpoint(run / "checkpoints/last.pt")["method"]
    total = hashlib.sha256()
    for name in sorted(state):
        total.update(name.encode())
        total.update(state[name].contiguous().numpy().tobytes())
    return total.hexdigest()


def trained(method: str, amcl: bool, out: Path) -> dict[str, Any]:
    config = small_config(method, amcl)
    pretrain(config, out)
    losses = [row["loss"] for row in read_metrics(out) if row["kind"] == "step"]
    return {"losses": losses, "weights": checksum(out), "config": config.to_toml()}


@pytest.mark.parametrize(
    ("method", "amcl"),
    [
        pytest.param(method, amcl, marks=pytest.mark.slow if (method, amcl) in SLOW else ())
        for method, amcl in CASES
    ],
)
def test_training_is_unchanged(method, amcl, tmp_path):
    name = f"{method}-amcl" if amcl else method
    made = trained(method, amcl, tmp_path / "run")
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if os.environ.get("AMCL_FREEZE"):
        RECORD.write_text(json.dumps({**record, name: made}, indent=1) + "\n", encoding="utf-8")
        return
    kept = record[name]
    assert len(made["losses"]) == STEPS
    if os.environ.get("AMCL_EXACT"):
        assert made["losses"] == kept["losses"]
        assert made["weights"] == kept["weights"]
    assert made["config"] == kept["config"]
    assert made["losses"] == pytest.approx(kept["losses"], rel=2e-3, abs=1e-3)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", *sys.argv[1:]]))
