"""A model with heads and every loss, run on a share of a batch: in one process or in several."""

import torch
from torch import nn

import amcl
from amcl.modules import Prototypes
from amcl.temperature import (
    AdaptiveTemperature,
    FirstHeadTemperature,
    LearnableTemperature,
    SplitTemperature,
    UncertaintyTemperature,
)

IMAGES, INPUT, DIM, HEADS, PROTOTYPES = 8, 6, 5, 2, 9


def _contrastive(temperature=None, **options):
    return lambda: amcl.ContrastiveLoss(
        HEADS, temperature() if temperature else AdaptiveTemperature(DIM), beta=0.3, **options
    )


def _correlation(temperature=None, **options):
    return lambda: amcl.CrossCorrelationLoss(
        HEADS, temperature() if temperature else AdaptiveTemperature(DIM), beta=0.3, **options
    )


def _dino(**options):
    return lambda: amcl.DINOLoss(
        HEADS, AdaptiveTemperature(DIM), num_prototypes=PROTOTYPES, beta=0.3, **options
    )


CASES = {
    "in-batch softmax": _contrastive(),
    "in-batch decoupled": _contrastive(positive_in_denominator=False),
    "in-batch top-κ": _contrastive(form="top_k", top_k=4),
    "in-batch top-κ softmax": _contrastive(form="top_k_softmax", top_k=4),
    "in-batch, in blocks": _contrastive(max_pairs=40),
    "in-batch, learnable τ": _contrastive(LearnableTemperature),
    "in-batch, TaU": _contrastive(UncertaintyTemperature),
    "in-batch, first head": _contrastive(lambda: FirstHeadTemperature(AdaptiveTemperature(DIM))),
    "in-batch, two φ": _contrastive(
        lambda: SplitTemperature(
            positive=AdaptiveTemperature(DIM), negative=AdaptiveTemperature(DIM)
        )
    ),
    "in-batch, plain φ": _contrastive(lambda: AdaptiveTemperature(DIM, phi_output="plain")),
    "in-batch, φ that only reads": _contrastive(
        lambda: AdaptiveTemperature(DIM, phi_gradient=False)
    ),
    "other view": _contrastive(negatives="other_view"),
    "queue softmax": _contrastive(),
    "queue top-κ": _contrastive(form="top_k", top_k=4),
    "negative cosine": lambda: amcl.NegativeCosineLoss(HEADS, AdaptiveTemperature(DIM), beta=0.3),
    "DINO": _dino(),
    "DINO, Sinkhorn": _dino(centering="sinkhorn"),
    "cross-correlation": _correlation(),
    "cross-correlation, TaU": _correlation(UncertaintyTemperature),
    "cross-correlation, φ on channels": _correlation(
        lambda: AdaptiveTemperature(IMAGES), phi_on="channels"
    ),
}


class Model(nn.Module):
    """Heads and loss as one module, so that DDP averages the gradients of φ too."""

    def __init__(self, case: str) -> None:
        super().__init__()
        self.loss = CASES[case]()
        width = DIM + self.loss.temperature.extra_outputs
        self.heads = amcl.ProjectionHeads(INPUT, 7, width, num_heads=HEADS)
        self.queue = torch.randn(HEADS, 10, width) if case.startswith("queue") else None

        self.prototypes = None
        if isinstance(self.loss, amcl.DINOLoss):
            self.prototypes = Prototypes(DIM, PROTOTYPES, HEADS)

    def forward(self, x0: torch.Tensor, x1: torch.Tensor) -> torch.Tensor:
        z0, z1 = self.heads(x0), self.heads(x1)
        if isinstance(self.loss, amcl.NegativeCosineLoss):
            return self.loss(z0, z1, x0[:, :DIM], x1[:, :DIM])
        if self.prototypes is not None:
            student = z0, z1, self.heads(0.5 * x0 - x1)
            targets = x0[:, 1:].expand(HEADS, -1, -1), x1[:, 1:].expand(HEADS, -1, -1)
            return self.loss(student, targets, self.prototypes(), self.prototypes().roll(1, 1))
        return self.loss(z0, z1) if self.queue is None else self.loss(z0, z1, self.queue)


def run(case: str, rank: int, world_size: int, wrap=lambda model: model):
    """Loss and named gradients of one process's share of the same batch and model.

    The center that DINO has after the step is among the gradients.
    """
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        model = Model(case)
        x0, x1 = torch.randn(2, IMAGES, INPUT)
        share = slice(rank * IMAGES // world_size, (rank + 1) * IMAGES // world_size)
        wrapped = wrap(model)  # DDP averages in the backward pass, so it must live until then
        value = wrapped(x0[share], x1[share])
        value.backward()
        results = {name: p.grad for name, p in model.named_parameters()}
        if getattr(model.loss, "center", None) is not None:
            model.loss.update_center()
            results["center"] = model.loss.center
    finally:
        torch.set_default_dtype(torch.float32)
    return value.detach(), results
