"""What a collapse costs with each temperature, as the tables of docs/equations.md have it.

python benchmarks/collapse.py
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import normalize

import amcl
from amcl.temperature import AdaptiveTemperature, ConstantTemperature, Temperature

IMAGES, DIM = 32, 32


def alike(s: float, groups: int = 1, seed: int = 0) -> torch.Tensor:
    """Projections (1, N, D) whose cosine is s within each of `groups` orthogonal groups, else 0."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator)).Q
    centers, rest = basis[:groups], basis[groups:]
    own = normalize(torch.randn(IMAGES, DIM - groups, generator=generator), dim=1) @ rest
    z = math.sqrt(s) * centers[torch.arange(IMAGES) % groups] + math.sqrt(1 - s) * own
    return z.unsqueeze(0)


class Open(AdaptiveTemperature):
    """Without the gate, as in version 0.1."""

    def gate(self, z: torch.Tensor, shared: bool = False) -> torch.Tensor:
        return z.new_ones(len(z), 1, 1)


def price(
    temperature: Temperature, z: torch.Tensor, queue: torch.Tensor | None = None, **options: Any
) -> float:
    """The least loss that φ reaches in some steps where all else is held fixed."""
    torch.manual_seed(0)
    loss = amcl.ContrastiveLoss(len(z), temperature, beta=0.1, **options)
    least = math.inf
    parameters = list(loss.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.01) if parameters else None
    for _ in range(60 if parameters else 1):
        value = loss(z, z, queue)
        least = min(least, value.item())
        if optimizer is not None:
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return least


PRICES: dict[str, Callable[[torch.Tensor], float]] = {
    "constant τ": lambda z: price(ConstantTemperature(0.1), z),
    "φ of fixed length alone": lambda z: price(Open(DIM), z),
    "with the gate, the default": lambda z: price(AdaptiveTemperature(DIM), z),
    '`similarity="relative"`': lambda z: price(AdaptiveTemperature(DIM), z, similarity="relative"),
}


def table(cases: list[torch.Tensor]) -> str:
    """A row for each temperature, a column for each case."""
    rows = ([name, *(f"{cost(z):.2f}" for z in cases)] for name, cost in PRICES.items())
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    print("mean s⁻ of 0.9, 0.95, 0.99, 0.999 and 1")
    print(table([alike(s) for s in (0.9, 0.95, 0.99, 0.999, 1.0)]))
    print("1, 4, 8 and 16 groups of s = 0.99")
    print(table([alike(0.99, groups) for groups in (1, 4, 8, 16)]))


if __name__ == "__main__":
    main()
