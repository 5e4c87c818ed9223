"""iSogCLR: a temperature for each image of the training set, in each head."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from amcl.distributed import gather
from amcl.settings import non_negative, positive_number, whole_number
from amcl.temperature.base import Temperature
from amcl.temperature.settings import SingleTauSettings, register_temperature


class IndividualTemperature(Temperature):
    """iSogCLR: τ_i of each image i and head minimizes τ_i log E exp(h_i/τ_i) + ρ τ_i.

    (Qiu et al., ICML 2023, arXiv 2305.11965; h_i is s⁻ − s⁺ and the mean is over the negatives of
    i.) The loss of an anchor, log Σ exp(h_i/τ_i), becomes this objective. The mean is a moving
    average u_i over the steps in which the image occurs, u_i ← (1 − γ) u_i + γ E exp(h_i/τ_i),
    by which the gradient of z is divided in place of the batch's own. τ_i takes a step of its own
    after each call: the gradient, averaged over both views, moves m_i ← (1 − b) m_i + b ∂/∂τ_i,
    and τ_i ← τ_i − lr · m_i, within the bounds.

    As published, the positive is not in the denominator (`positive_in_denominator=False` or
    ``form="dcl"``). With InfoNCE the same is minimized with the loss that has it.

    Three numbers of each image and head are kept in the state dict. Call `set_num_images` once and
    `set_images` with the indices of each batch, as `amcl pretrain` does. Images that are not of the
    training set, in evaluation mode, have the mean temperature.

    Args:
        init: First value of each τ_i.
        rho: Price ρ of a temperature: the higher it is, the lower temperatures become.
        lower: Lower bound of τ_i.
        upper: Upper bound of τ_i.
        lr: Step size of τ_i.
        momentum: Share b of the new gradient in m_i.
        gamma: Share γ of the new value in u_i.

    Example:
        >>> temperature = IndividualTemperature(0.1)
        >>> temperature.set_num_images(1000)
        >>> temperature.set_images(torch.tensor([7, 8]))
        >>> temperature.keys(torch.randn(1, 2, 8))[..., 0].tolist()  # τ of both images
        [[0.10000000149011612, 0.10000000149011612]]
    """

    individual_tau: torch.Tensor
    individual_gradient: torch.Tensor
    log_average: torch.Tensor

    def __init__(
        self,
        init: float = 0.1,
        *,
        rho: float = 0.3,
        lower: float = 0.05,
        upper: float = 0.7,
        lr: float = 0.01,
        momentum: float = 0.9,
        gamma: float = 0.9,
    ) -> None:
        super().__init__()
        for name, value in (("init", init), ("lower", lower), ("upper", upper), ("lr", lr)):
            positive_number(name, value, "iSogCLR uses 0.1, from 0.05 to 0.7, and steps of 0.01")
        if not lower <= init <= upper:
            raise ValueError(
                f"init={init} lies outside lower={lower} … upper={upper}: choose one inside."
            )
        for name, value in (("momentum", momentum), ("gamma", gamma)):
            if not 0 < value <= 1:
                raise ValueError(f"{name} must lie in (0, 1], got {value}: iSogCLR uses 0.9.")
        self.init = float(init)
        self.rho = non_negative("rho", rho, "iSogCLR uses 0.1 to 0.5")
        self.lower = float(lower)
        self.upper = float(upper)
        self.lr = float(lr)
        self.momentum = float(momentum)
        self.gamma = float(gamma)
        self._num_images = 0
        self._indices: torch.Tensor | None = None
        for name in _STATE:
            self.register_buffer(name, torch.empty(0, 0))

    def set_num_images(self, count: int) -> None:
        self._num_images = whole_number("the number of images", count)

    def set_images(self, indices: torch.Tensor) -> None:
        self._indices = indices

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        """Return τ_i and the logarithm of u_i of each image, (C, N, 2)."""
        num_heads, n, _ = z.shape
        if shared or not self.training:
            mean = self.individual_tau.mean(1) if self.individual_tau.numel() else None
            tau = z.new_full((num_heads,), self.init) if mean is None else mean.to(z)
            return torch.stack([tau, torch.zeros_like(tau)], -1).unsqueeze(1).expand(-1, n, 2)
        if self._indices is None or len(self._indices) != n:
            given = "none were" if self._indices is None else f"{len(self._indices)} were"
            raise ValueError(
                f"iSogCLR has a temperature for each image, and the indices of {n} images are "
                f"needed, but {given} given: call loss.set_images(indices) before each batch."
            )
        self._make_state(num_heads, z)
        indices = self._indices.to(self.individual_tau.device)
        keys = torch.stack([self.individual_tau[:, indices], self.log_average[:, indices]], -1)
        return keys.to(z).requires_grad_(torch.is_grad_enabled())

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        raise ValueError(
            "IndividualTemperature has a temperature for each image, and channels are none: use "
            "another scheme with the cross-correlation loss."
        )

    def tau(self, anchor: torch.Tensor, other: Any, pairing: Any) -> torch.Tensor:
        return anchor[..., :1]

    def objective(
        self, loss: torch.Tensor, anchor: torch.Tensor, num_negatives: int
    ) -> torch.Tensor:
        tau = anchor[..., 0]
        if not self.training:
            return tau * (loss - math.log(num_negatives) + self.rho)
        log_mean = loss.detach() - math.log(num_negatives)
        log_average = self._average(anchor[..., 1].detach(), log_mean)
        # The gradients are those of τ log u + ρτ, in which u is the moving average.
        weight = tau.detach() * torch.exp(log_mean - log_average)
        surrogate = weight * loss + tau * (log_average + self.rho)
        value = tau.detach() * (log_mean + self.rho)
        return surrogate + (value - surrogate).detach()

    @torch.no_grad()
    def update(self, losses: torch.Tensor, gradients: torch.Tensor, num_negatives: int) -> None:
        assert self._indices is not None
        indices = gather(self._indices.to(losses.device).view(1, -1, 1), check=False).flatten()
        gradient = gather(_mean_of_views(gradients[..., 0], self._indices), check=False).squeeze(-1)
        log_mean = losses - math.log(num_negatives)
        log_mean = gather(_mean_of_views(log_mean, self._indices), check=False).squeeze(-1)
        step = torch.lerp(
            self.individual_gradient[:, indices], gradient.to(self.individual_tau), self.momentum
        )
        tau = self.individual_tau[:, indices] - self.lr * step
        self.individual_gradient[:, indices] = step
        self.individual_tau[:, indices] = tau.clamp(self.lower, self.upper)
        before = self.log_average[:, indices]
        self.log_average[:, indices] = self._average(before, log_mean.to(before))

    def bounds(self) -> tuple[float, float]:
        return self.lower, self.upper

    def extra_repr(self) -> str:
        return (
            f"init={self.init:.4g}, rho={self.rho:.4g}, lower={self.lower:.4g}, "
            f"upper={self.upper:.4g}, lr={self.lr:.4g}"
        )

    def _average(self, before: torch.Tensor, log_mean: torch.Tensor) -> torch.Tensor:
        """Return log((1 − γ) u + γ g); where there is no u yet, log g."""
        if self.gamma == 1.0:
            return log_mean
        mixed = torch.logaddexp(
            before + math.log(1.0 - self.gamma), log_mean + math.log(self.gamma)
        )
        return torch.where(before == _UNKNOWN, log_mean, mixed)

    def _make_state(self, num_heads: int, z: torch.Tensor) -> None:
        """Make the state of all images, unless it is there."""
        if self.individual_tau.numel():
            return
        if not self._num_images:
            raise ValueError(
                "iSogCLR has a temperature for each image: call "
                "loss.temperature.set_num_images(count) once, with the number of training images."
            )
        for name, value in zip(_STATE, (self.init, 0.0, _UNKNOWN), strict=True):
            shape = (num_heads, self._num_images)
            setattr(self, name, torch.full(shape, value, device=z.device))

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in _STATE:  # the state of a run that has begun has the size of its images
            stored = state.get(prefix + name)
            if stored is not None:
                setattr(self, name, getattr(self, name).new_empty(stored.shape))
        super()._load_from_state_dict(state, prefix, *args)


_STATE = ("individual_tau", "individual_gradient", "log_average")
_UNKNOWN = -1e9  # of log u, before the image has occurred


def _mean_of_views(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return the mean over the views of an image, (C, N, 1), of values (C, N) or (C, 2N)."""
    views = values.view(values.shape[0], -1, len(indices))
    return views.mean(1).unsqueeze(-1)


@register_temperature
@dataclass(frozen=True, kw_only=True)
class IndividualSettings(SingleTauSettings):
    """Settings of `IndividualTemperature`. Temperatures start at tau, or the bound next to it.

    Example:
        >>> IndividualSettings(sog_rho=0.5).build(dim=128)
        IndividualTemperature(init=0.1, rho=0.5, lower=0.05, upper=0.7, lr=0.01)
    """

    name: ClassVar[str] = "isogclr"
    needs_negatives: ClassVar[bool] = True
    needs_images: ClassVar[bool] = True

    tau_lower: float | None = None
    """The least temperature; none: 0.05."""
    tau_upper: float | None = None
    """The greatest temperature; none: 0.7."""
    sog_rho: float = 0.3
    """ρ of iSogCLR, the price of a temperature: the higher it is, the lower they become."""
    sog_lr: float = 0.01
    """Step size of each image's temperature."""
    sog_gamma: float = 0.9
    """Share of the new value in the moving average of an image's negatives."""

    def build(self, dim: int) -> IndividualTemperature:
        lower, upper = self.tau_range(dim)
        return IndividualTemperature(
            min(max(self.tau, lower), upper),
            rho=self.sog_rho,
            lower=lower,
            upper=upper,
            lr=self.sog_lr,
            gamma=self.sog_gamma,
        )

    def tau_range(self, dim: int) -> tuple[float, float]:
        lower = 0.05 if self.tau_lower is None else self.tau_lower
        upper = 0.7 if self.tau_upper is None else self.tau_upper
        return lower, upper

    def summary(self, dim: int) -> str:
        lower, upper = self.tau_range(dim)
        return f"iSogCLR, from {lower:g} to {upper:g}, ρ = {self.sog_rho:g}"
