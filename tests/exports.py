"""Files of an export."""

import os

import torch

from amcl.checkpoints.evaluations import Result
from amcl.metrics.features import fingerprint

IMAGES = torch.randn(3, 3, 32, 32)
PLAIN = ["README.md", "backbone.safetensors", "export.json"]


def listing(folder):
    return sorted(os.listdir(folder))


def result(subject, protocol="knn", **changes):
    known = {
        "protocol": protocol,
        "data": "builtin",
        "split": "validation",
        "metrics": {"top1": 0.91234},
        "model": {"name": subject.name, "sha256": fingerprint(subject.backbone)},
        "settings": {"k": 20, "tau": 0.1, "transform": {"image_size": 32}, "nothing": None},
        "shown": ["k", "tau"] if protocol == "knn" else [],
        "seed": 0,
        "images": {"train": 2000, "validation": 500},
    }
    return Result(**(known | changes))
