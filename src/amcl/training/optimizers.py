"""Optimizers and the learning rate: SGD, LARS and AdamW, warm-up and cosine."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from amcl.config import OptimizerSettings
from amcl.distributed import sum_over_ranks
from amcl.methods import Method
from amcl.modules import ProjectionHeads, Prototypes
from amcl.training.layers import lr_scales
from amcl.training.sharding import divided_dim, own_share


def make_optimizer(
    method: Method, settings: OptimizerSettings, batch_size: int
) -> torch.optim.Optimizer:
    """Return the optimizer of all that a method trains: backbone, heads, φ."""
    groups = parameter_groups(method, settings)
    lr = settings.peak_rate(batch_size)
    if settings.name == "adamw":
        return torch.optim.AdamW(groups, lr=lr, betas=settings.adam_betas)
    if settings.name == "lars":
        return LARS(groups, lr=lr, momentum=settings.sgd_momentum, trust=settings.lars_trust)
    return torch.optim.SGD(groups, lr=lr, momentum=settings.sgd_momentum)


def set_lr(optimizer: torch.optim.Optimizer, peak: float, factor: float) -> float:
    """Set the learning rate of every group for a step.

    Args:
        optimizer: Its groups have an `lr_scale`; those with `constant_lr` set ignore the factor.
        peak: The highest learning rate.
        factor: The learning rate of the step, as a share of its peak.

    Returns:
        The learning rate of groups with a scale of 1.

    Example:
        >>> weight = nn.Parameter(torch.zeros(1))
        >>> optimizer = torch.optim.SGD([{"params": weight, "lr_scale": 0.5}], lr=1.0)
        >>> set_lr(optimizer, peak=1.0, factor=0.1), optimizer.param_groups[0]["lr"]
        (0.1, 0.05)
    """
    for group in optimizer.param_groups:
        is_constant = group.get("constant_lr", False)
        group["lr"] = peak * group["lr_scale"] * (1.0 if is_constant else factor)
    return peak * factor


def set_weight_decay(optimizer: torch.optim.Optimizer, weight_decay: float) -> None:
    """Set the weight decay of every group that decays for a step.

    Args:
        optimizer: Its groups say by `decays` whether they do.
        weight_decay: The weight decay of the step.

    Example:
        >>> weight = nn.Parameter(torch.zeros(1))
        >>> optimizer = torch.optim.SGD([{"params": weight, "decays": True}], lr=1.0)
        >>> set_weight_decay(optimizer, 0.1)
        >>> optimizer.param_groups[0]["weight_decay"]
        0.1
    """
    for group in optimizer.param_groups:
        if group["decays"]:
            group["weight_decay"] = weight_decay


def parameter_groups(method: Method, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """Return parameters by how they are treated: weights or norms and biases, and by their rates.

    Weights of several heads are one tensor (C, out, in), marked so that LARS treats each head as
    the layer it is. Numbers that are learned by themselves, such as a bias of the loss, never
    decay: 0 is not where they belong.
    """
    scales = lr_scales(method, settings)
    constant = {id(p) for part in method.constant_lr_modules() for p in part.parameters()}
    of_heads = {
        id(p)
        for part in method.modules()
        if isinstance(part, (ProjectionHeads, Prototypes))
        for p in part.parameters()
        if p.ndim == 3
    }
    groups: dict[tuple[bool, bool, bool, bool, float], list[nn.Parameter]] = {}
    for parameter in method.parameters():
        if parameter.requires_grad:
            of_head = id(parameter) in of_heads
            scale = scales.get(parameter, 1.0)
            is_weight = parameter.ndim > 1
            decays = is_weight or (settings.decay_norm_and_bias and parameter.ndim > 0)
            kind = (is_weight, decays, id(parameter) in constant, of_head, scale)
            groups.setdefault(kind, []).append(parameter)
    return [
        {
            "params": parameters,
            "weight_decay": settings.weight_decay if decays else 0.0,
            "decays": decays,
            "lr_scale": scale * (1.0 if is_weight else settings.bias_lr_scale),
            "constant_lr": is_constant,
            "is_weight": is_weight,
            "per_head": per_head,
        }
        for (is_weight, decays, is_constant, per_head, scale), parameters in groups.items()
    ]


class LARS(torch.optim.Optimizer):
    """SGD whose step in each layer is in proportion to the layer's weights (You et al., 2017).

    v ← m·v + q·(g + λθ), θ ← θ − lr·v, with q = trust·‖θ‖ / ‖g + λθ‖ for weights, 1 for norms
    and biases (groups with `is_weight` false). In groups marked `per_head`, tensors (C, out, in)
    hold C layers, and each has its own q.

    Args:
        params: Parameters, or groups of them.
        lr: Learning rate.
        momentum: Momentum m.
        weight_decay: Weight decay λ.
        trust: Size of a step with a learning rate of 1, as a share of the size of the weights.

    Example:
        >>> weight = nn.Parameter(torch.ones(2, 2))
        >>> optimizer = LARS([weight], lr=1.0, trust=0.1)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([[0.9000, 0.9000],
                [0.9000, 0.9000]])
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
        state = self.state[parameter]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(parameter)
        weight, gradient, velocity = map(own_share, (parameter, parameter.grad, state["velocity"]))
        update = gradient.add(weight, alpha=group["weight_decay"])
        if group["is_weight"]:
            dims = tuple(range(1 if group["per_head"] else 0, weight.ndim))
            is_whole = divided_dim(parameter) not in dims
            update.mul_(_trust(_norm(weight, dims, is_whole), _norm(update, dims, is_whole), group))
        velocity.mul_(group["momentum"]).add_(update)
        weight.add_(velocity, alpha=-group["lr"])


def _norm(values: torch.Tensor, dims: tuple[int, ...], is_whole: bool) -> torch.Tensor:
    """Return the norm over dimensions, of the shares of all processes unless they are whole."""
    norm = torch.linalg.vector_norm(values, dim=dims, keepdim=True)
    return norm if is_whole else sum_over_ranks(norm.square()).sqrt()


def _trust(size: torch.Tensor, step: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    return torch.where((size > 0) & (step > 0), group["trust"] * size / step, 1.0)
