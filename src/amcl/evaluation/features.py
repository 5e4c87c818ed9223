"""Features of a set of images, by any module that turns images into vectors."""

from collections.abc import Callable, Iterable

import torch
from torch import nn


@torch.no_grad()
def extract(
    model: nn.Module,
    batches: Iterable[torch.Tensor],
    prepare: Callable[[torch.Tensor], torch.Tensor],
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Features (N, D) of batches of images, in evaluation mode, on the CPU.

    `prepare` turns a batch as stored (uint8) into the model's input. The model's mode is put back.
    """
    training = model.training
    model.eval()
    try:
        features = [model(prepare(batch.to(device))).float().cpu() for batch in batches]
    finally:
        model.train(training)
    if not features:
        raise ValueError("there are no images to take features of.")
    return torch.cat(features)


def spread(features: torch.Tensor) -> float:
    """How far features point in different directions: 0 is collapse, 1 no common direction.

    √(1 − c) with c the mean cosine of two features. features: (N, D).
    """
    unit = torch.nn.functional.normalize(features.double(), dim=1)
    n = len(unit)
    if not unit.any():
        return 0.0
    cosine = (unit.sum(0).square().sum() - n) / max(n * (n - 1), 1)
    return float((1 - cosine).clamp(min=0.0).sqrt())


def effective_rank(features: torch.Tensor) -> float:
    """How many directions features use: exp of the entropy of their singular values (RankMe)."""
    values = torch.linalg.svdvals(features.double())
    p = values / values.sum().clamp(min=1e-12)
    return float(torch.special.entr(p).sum().exp())
