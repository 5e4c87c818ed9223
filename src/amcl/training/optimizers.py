"""Optimizers and the learning rate: SGD, LARS and AdamW, warm-up and cosine."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from amcl.methods import Method
from amcl.modules import ProjectionHeads
from amcl.schedule import lr_factor
from amcl.settings import Rule, choose, finite_number, positive_number


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Optimizer, learning rate and its schedule."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            fields=("sgd_momentum",),
            depends=("optimizer",),
            used=lambda values: values["optimizer"] in ("sgd", "lars"),
            belongs="SGD and LARS (--optimizer sgd)",
        ),
        Rule(
            fields=("adam_betas",),
            depends=("optimizer",),
            used=lambda values: values["optimizer"] == "adamw",
            belongs="AdamW (--optimizer adamw)",
        ),
        Rule(
            fields=("lars_trust",),
            depends=("optimizer",),
            used=lambda values: values["optimizer"] == "lars",
            belongs="LARS (--optimizer lars)",
        ),
        Rule(
            fields=("final_lr",),
            depends=("schedule",),
            used=lambda values: values["schedule"] == "cosine",
            belongs="the cosine schedule (--schedule cosine)",
        ),
    )

    optimizer: Literal["sgd", "lars", "adamw"] = "sgd"
    """SGD with momentum, LARS for large batches, AdamW."""
    lr: float = 0.06
    """The learning rate; see lr_scaling."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """none: lr as it is; linear: lr·B/256; sqrt: lr·√(B/256), for batches of B images."""
    sgd_momentum: float = 0.9
    """Momentum of SGD and LARS."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's two betas."""
    weight_decay: float = 5e-4
    """Weight decay (SGD and LARS: added to the gradient; AdamW: decoupled)."""
    decay_norm_and_bias: bool = False
    """Decay norms and biases too, as the original SGD recipes do."""
    bias_lr_scale: float = 1.0
    """Norms and biases learn at lr times this."""
    lars_trust: float = 0.001
    """LARS: the step of a layer is this share of its weights' norm, times lr."""
    warmup_epochs: float = 0.0
    """The learning rate rises from 0 over these epochs."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """After the warm-up."""
    final_lr: float = 0.0
    """Where the cosine ends, as a share of lr."""
    clip: float = 0.0
    """Clip the gradient to this norm; 0: not at all."""

    def __post_init__(self) -> None:
        choose("optimizer", self.optimizer, ("sgd", "lars", "adamw"))
        choose("lr_scaling", self.lr_scaling, ("none", "linear", "sqrt"))
        choose("schedule", self.schedule, ("cosine", "constant"))
        positive_number("lr", self.lr)
        positive_number("lars_trust", self.lars_trust)
        finite_number("sgd_momentum", self.sgd_momentum, "0.9 is usual")
        for name in ("weight_decay", "warmup_epochs", "final_lr", "clip", "bias_lr_scale"):
            finite_number(name, getattr(self, name), "0 switches it off")

    def factor(self, epoch: float, epochs: float) -> float:
        """Return the learning rate after `epoch` of `epochs`, as a share of its peak."""
        return lr_factor(epoch, epochs, self.warmup_epochs, self.schedule, self.final_lr)

    def peak_rate(self, batch_size: int) -> float:
        """The learning rate at the end of the warm-up."""
        scale = {"none": 1.0, "linear": batch_size / 256, "sqrt": math.sqrt(batch_size / 256)}
        return self.lr * scale[self.lr_scaling]


def make_optimizer(
    method: Method, settings: OptimizerSettings, batch_size: int
) -> torch.optim.Optimizer:
    """The optimizer of all that a method trains: backbone, heads, φ."""
    groups = parameter_groups(method, settings)
    lr = settings.peak_rate(batch_size)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=lr, betas=settings.adam_betas)
    if settings.optimizer == "lars":
        return LARS(groups, lr=lr, momentum=settings.sgd_momentum, trust=settings.lars_trust)
    return torch.optim.SGD(groups, lr=lr, momentum=settings.sgd_momentum)


def set_rate(optimizer: torch.optim.Optimizer, peak: float, factor: float) -> float:
    """Set every group's learning rate; returns that of the weights."""
    for group in optimizer.param_groups:
        group["lr"] = peak * group["rate_scale"] * (1.0 if group["fixed_rate"] else factor)
    return peak * factor


def parameter_groups(method: Method, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """Parameters by how they are treated: weights or norms and biases, and by their rates.

    Weights of several heads are one tensor (C, out, in), marked so that LARS treats each head as
    the layer it is.
    """
    scales = method.lr_scales()
    fixed = {id(p) for part in method.constant_lr_modules() for p in part.parameters()}
    of_heads = {
        id(p)
        for part in method.modules()
        if isinstance(part, ProjectionHeads)
        for p in part.parameters()
        if p.ndim == 3
    }
    groups: dict[tuple[bool, bool, bool, float], list[nn.Parameter]] = {}
    for parameter in method.parameters():
        if parameter.requires_grad:
            of_head, scale = id(parameter) in of_heads, scales.get(parameter, 1.0)
            kind = (parameter.ndim > 1, id(parameter) in fixed, of_head, scale)
            groups.setdefault(kind, []).append(parameter)
    decay = settings.weight_decay
    return [
        {
            "params": parameters,
            "weight_decay": decay if is_weight or settings.decay_norm_and_bias else 0.0,
            "rate_scale": scale * (1.0 if is_weight else settings.bias_lr_scale),
            "fixed_rate": is_fixed,
            "is_weight": is_weight,
            "per_head": per_head,
        }
        for (is_weight, is_fixed, per_head, scale), parameters in groups.items()
    ]


class LARS(torch.optim.Optimizer):
    """SGD whose step in each layer is in proportion to the layer's weights (You et al., 2017).

    v ← m·v + q·(g + λθ), θ ← θ − lr·v, with q = trust·‖θ‖ / ‖g + λθ‖ for weights, 1 for norms
    and biases (groups with `is_weight` false). In groups marked `per_head`, tensors (C, out, in)
    hold C layers, and each has its own q.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust": trust,
            "is_weight": True,
            "per_head": False,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)
        return loss

    def _move(self, parameter: Any, group: dict[str, Any]) -> None:
        update = parameter.grad.add(parameter, alpha=group["weight_decay"])
        if group["is_weight"]:
            update.mul_(_trust(parameter, update, group["trust"], group["per_head"]))
        state = self.state[parameter]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(parameter)
        velocity = state["velocity"].mul_(group["momentum"]).add_(update)
        parameter.add_(velocity, alpha=-group["lr"])


def _trust(
    weight: torch.Tensor, update: torch.Tensor, trust: float, per_head: bool
) -> torch.Tensor:
    dims = tuple(range(1 if per_head else 0, weight.ndim))
    size = torch.linalg.vector_norm(weight, dim=dims, keepdim=True)
    step = torch.linalg.vector_norm(update, dim=dims, keepdim=True)
    return torch.where((size > 0) & (step > 0), trust * size / step, 1.0)
