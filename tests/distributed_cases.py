"""A model with heads and every loss, run on a share of a batch: in one process or in several."""

import torch
from torch import nn

import amcl
from amcl.modules import Prototypes, Queue
from amcl.temperature import (
    AdaptiveTemperature,
    AlignmentTemperature,
    ArtanhTemperature,
    ConstantTemperature,
    FirstHeadTemperature,
    IndividualTemperature,
    LearnableTemperature,
    OneSidedTemperature,
    PositiveScaleTemperature,
    SimilarityTemperature,
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


def _supervised(temperature=None, **options):
    return lambda: amcl.SupervisedContrastiveLoss(
        HEADS, temperature() if temperature else AdaptiveTemperature(DIM), beta=0.3, **options
    )


LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 3, 4])  # some classes are in both halves, some in one


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
    "in-batch, MACL": _contrastive(lambda: AlignmentTemperature(0.2)),
    "in-batch, positive scale": _contrastive(lambda: PositiveScaleTemperature(0.3)),
    "in-batch, DySTreSS": _contrastive(SimilarityTemperature),
    "in-batch, artanh": _contrastive(ArtanhTemperature),
    "in-batch, one-sided φ": _contrastive(lambda: OneSidedTemperature(DIM)),
    "in-batch, iSogCLR": _contrastive(lambda: IndividualTemperature(gamma=0.6)),
    "in-batch, a prior for each head": lambda: amcl.AMCLLoss(HEADS, DIM, prior_tau=(0.1, 0.3)),
    "in-batch, heads that differ": _contrastive(head_diversity=0.7),
    "negative cosine, heads that differ": lambda: amcl.NegativeCosineLoss(
        HEADS, AdaptiveTemperature(DIM), beta=0.3, head_diversity=0.7
    ),
    "cross-correlation, heads that differ": _correlation(head_diversity=0.7),
    "cross-correlation, MACL": _correlation(lambda: AlignmentTemperature(reweight=False)),
    "other view": _contrastive(negatives="other_view"),
    "in-batch DCL": _contrastive(form="dcl"),
    "in-batch DCLW": _contrastive(form="dclw"),
    "in-batch DCLW, in blocks": _contrastive(form="dclw", max_pairs=40),
    "in-batch hard": _contrastive(form="hard", debias=0.3),
    "in-batch sigmoid": _contrastive(form="sigmoid", sigmoid_bias=-2.0),
    "in-batch sigmoid, in blocks": _contrastive(form="sigmoid", sigmoid_bias=-2.0, max_pairs=40),
    "other view DCLW": _contrastive(form="dclw", negatives="other_view"),
    "other view hard": _contrastive(form="hard", negatives="other_view"),
    "other view sigmoid": _contrastive(form="sigmoid", negatives="other_view"),
    "queue softmax": _contrastive(),
    "queue DCLW": _contrastive(form="dclw"),
    "queue hard": _contrastive(form="hard"),
    "queue sigmoid": _contrastive(form="sigmoid", sigmoid_bias=-2.0),
    "queue top-κ": _contrastive(form="top_k", top_k=4),
    "neighbors": _contrastive(negatives="other_view"),
    "negative cosine, a target for each head": lambda: amcl.NegativeCosineLoss(
        HEADS, AdaptiveTemperature(DIM, phi_gradient=False), beta=0.3
    ),
    "negative cosine": lambda: amcl.NegativeCosineLoss(HEADS, AdaptiveTemperature(DIM), beta=0.3),
    "supervised": _supervised(),
    "supervised, in blocks": _supervised(max_pairs=40),
    "supervised, two φ": _supervised(
        lambda: SplitTemperature(
            positive=AdaptiveTemperature(DIM), negative=AdaptiveTemperature(DIM)
        )
    ),
    "supervised, TaU": _supervised(UncertaintyTemperature),
    "VICReg": lambda: amcl.VICRegLoss(HEADS, AdaptiveTemperature(DIM), beta=0.3),
    "VICReg, constant τ": lambda: amcl.VICRegLoss(HEADS, ConstantTemperature(1.0)),
    "DINO": _dino(),
    "DINO, Sinkhorn": _dino(centering="sinkhorn"),
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

        self.prototypes = None
        if isinstance(self.loss, amcl.DINOLoss):
            self.prototypes = Prototypes(DIM, PROTOTYPES, HEADS)

    def forward(self, x0: torch.Tensor, x1: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        z0, z1 = self.heads(x0), self.heads(x1)
        if self.support is not None:
            return self.loss(self.support.nearest(z0), z1)
        if self.target_for_each_head:
            return self.loss(z0, z1, z0.roll(1, dims=-1), z1.roll(1, dims=-1))
        if isinstance(self.loss, amcl.SupervisedContrastiveLoss):
            return self.loss(z0, z1, labels)
        if isinstance(self.loss, amcl.NegativeCosineLoss):
            return self.loss(z0, z1, x0[:, :DIM], x1[:, :DIM])
        if self.prototypes is not None:
            student = z0, z1, self.heads(0.5 * x0 - x1)
            targets = x0[:, 1:].expand(HEADS, -1, -1), x1[:, 1:].expand(HEADS, -1, -1)
            return self.loss(student, targets, self.prototypes(), self.prototypes().roll(1, 1))
        return self.loss(z0, z1) if self.queue is None else self.loss(z0, z1, self.queue)

    def after_step(self) -> dict[str, torch.Tensor]:
        """The state of the loss after a step."""
        if isinstance(self.loss, amcl.DINOLoss):
            self.loss.update_center()
        return dict(self.loss.named_buffers())


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
        self.loss = self.method.loss

    def forward(self, x0: torch.Tensor, x1: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.method([x0, x1])

    def after_step(self) -> dict[str, torch.Tensor]:
        """The queue, if there is one, with the projections of all processes in it."""
        self.method.after_step()
        return {name: value for name, value in self.method.named_buffers() if name == "queue.z"}


def run(case: str, rank: int, world_size: int, wrap=lambda model: model):
    """Loss, named gradients and buffers of the loss of one process's share of a batch."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        model = WholeMethod(case) if case in METHOD_CASES else Model(case)
        x0, x1 = torch.randn(2, IMAGES, INPUT)
        share = slice(rank * IMAGES // world_size, (rank + 1) * IMAGES // world_size)
        model.loss.temperature.set_num_images(IMAGES)
        model.loss.set_images(torch.arange(IMAGES)[share])
        wrapped = wrap(model)  # DDP averages in the backward pass, so it must live until then
        value = wrapped(x0[share], x1[share], LABELS[share])
        value.backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
        after = model.after_step()
    finally:
        torch.set_default_dtype(torch.float32)
    return value.detach(), gradients | after
