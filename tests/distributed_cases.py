"""A model with heads and every loss, run on a share of a batch: in one process or in several."""

import torch
from torch import nn

import amcl
from amcl.modules import Queue
from amcl.temperature import (
    AdaptiveTemperature,
    FirstHeadTemperature,
    LearnableTemperature,
    SplitTemperature,
    UncertaintyTemperature,
)

IMAGES, INPUT, DIM, HEADS = 8, 6, 5, 2


def _contrastive(temperature=None, **options):
    return lambda: amcl.ContrastiveLoss(
        HEADS, temperature() if temperature else AdaptiveTemperature(DIM), beta=0.3, **options
    )


def _correlation(temperature=None, **options):
    return lambda: amcl.CrossCorrelationLoss(
        HEADS, temperature() if temperature else AdaptiveTemperature(DIM), beta=0.3, **options
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
    "neighbors": _contrastive(negatives="other_view"),
    "negative cosine, a target for each head": lambda: amcl.NegativeCosineLoss(
        HEADS, AdaptiveTemperature(DIM, phi_gradient=False), beta=0.3
    ),
    "negative cosine": lambda: amcl.NegativeCosineLoss(HEADS, AdaptiveTemperature(DIM), beta=0.3),
    "cross-correlation": _correlation(),
    "cross-correlation, TaU": _correlation(UncertaintyTemperature),
    "cross-correlation, φ on channels": _correlation(
        lambda: AdaptiveTemperature(IMAGES), phi_on="channels"
    ),
}
METHOD_CASES = {"byol": {}, "nnclr": {"queue": 10}}


class Model(nn.Module):
    """Heads and loss as one module, so that DDP averages the gradients of φ too."""

    def __init__(self, case: str) -> None:
        super().__init__()
        self.loss = CASES[case]()
        width = DIM + self.loss.temperature.extra_outputs
        self.heads = amcl.ProjectionHeads(INPUT, 7, width, num_heads=HEADS)
        self.queue = torch.randn(HEADS, 10, width) if case.startswith("queue") else None
        self.support = Queue(HEADS, 10, width) if case == "neighbors" else None
        self.target_for_each_head = case.endswith("a target for each head")

    def forward(self, x0: torch.Tensor, x1: torch.Tensor) -> torch.Tensor:
        z0, z1 = self.heads(x0), self.heads(x1)
        if self.support is not None:
            return self.loss(self.support.nearest(z0), z1)
        if self.target_for_each_head:
            return self.loss(z0, z1, z0.roll(1, dims=-1), z1.roll(1, dims=-1))
        if isinstance(self.loss, amcl.NegativeCosineLoss):
            return self.loss(z0, z1, x0[:, :DIM], x1[:, :DIM])
        return self.loss(z0, z1) if self.queue is None else self.loss(z0, z1, self.queue)


class WholeMethod(nn.Module):
    """A method with AMCL. Its batch norms have fixed statistics, so that images do not mix."""

    def __init__(self, case: str) -> None:
        super().__init__()
        from amcl.methods import METHODS, make_method  # where timm may have a stand-in by now

        backbone = nn.Linear(INPUT, 7)
        backbone.dim = 7
        small = {"heads": HEADS, "projector": (7, DIM), "predictor": 16, **METHOD_CASES[case]}
        settings = METHODS[case].settings_class(**small).amcl()
        self.method = make_method(settings, backbone)
        for module in self.method.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.eval()

    def forward(self, x0: torch.Tensor, x1: torch.Tensor) -> torch.Tensor:
        return self.method([x0, x1])

    def queue_after_step(self) -> dict[str, torch.Tensor]:
        """The queue, if there is one, with the projections of all processes in it."""
        self.method.after_step()
        return {name: value for name, value in self.method.named_buffers() if name == "queue.z"}


def run(case: str, rank: int, world_size: int, wrap=lambda model: model):
    """Loss and named gradients of one process's share of the same batch and model."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        model = WholeMethod(case) if case in METHOD_CASES else Model(case)
        x0, x1 = torch.randn(2, IMAGES, INPUT)
        share = slice(rank * IMAGES // world_size, (rank + 1) * IMAGES // world_size)
        wrapped = wrap(model)  # DDP averages in the backward pass, so it must live until then
        value = wrapped(x0[share], x1[share])
        value.backward()
        after = model.queue_after_step() if case in METHOD_CASES else {}
    finally:
        torch.set_default_dtype(torch.float32)
    gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    return value.detach(), gradients | after
