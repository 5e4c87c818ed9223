"""Loss of collapsed features with each temperature, as in the tables of docs/equations.md.

python benchmarks/collapse.py
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import normalize

import amcl
from amcl.temperature import AdaptiveTemperature, ConstantTemperature, Temperature

IMAGES = 32
DIM = 32


def similar_projections(s: float, groups: int = 1, seed: int = 0) -> torch.Tensor:
    """Return projections (1, N, D) of cosine s within orthogonal groups, and 0 between them."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator)).Q
    centers = basis[:groups]
    rest = basis[groups:]
    noise = normalize(torch.randn(IMAGES, DIM - groups, generator=generator), dim=1) @ rest
    z = math.sqrt(s) * centers[torch.arange(IMAGES) % groups] + math.sqrt(1 - s) * noise
    return z.unsqueeze(0)


class UngatedTemperature(AdaptiveTemperature):
    """Adaptive temperature without the gate, as in version 0.1."""

    def gate(self, z: torch.Tensor, shared: bool = False) -> torch.Tensor:
        return z.new_ones(len(z), 1, 1)


def lowest_loss(
    temperature: Temperature, z: torch.Tensor, queue: torch.Tensor | None = None, **options: Any
) -> float:
    """Return the lowest loss that φ reaches in some steps while everything else is fixed."""
    torch.manual_seed(0)
    loss = amcl.ContrastiveLoss(len(z), temperature, beta=0.1, **options)
    lowest = math.inf
    parameters = list(loss.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.01) if parameters else None
    for _ in range(60 if parameters else 1):
        value = loss(z, z, queue)
        lowest = min(lowest, value.item())
        if optimizer is not None:
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return lowest


LOSSES: dict[str, Callable[[torch.Tensor], float]] = {
    "constant τ": lambda z: lowest_loss(ConstantTemperature(0.1), z),
    "φ of fixed length alone": lambda z: lowest_loss(UngatedTemperature(DIM), z),
    "with the gate, the default": lambda z: lowest_loss(AdaptiveTemperature(DIM), z),
    '`similarity="relative"`': lambda z: lowest_loss(
        AdaptiveTemperature(DIM), z, similarity="relative"
    ),
}


def table(cases: list[torch.Tensor]) -> str:
    """Return a row for each temperature, a column for each case."""
    rows = ([name, *(f"{loss(z):.2f}" for z in cases)] for name, loss in LOSSES.items())
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    print("mean s⁻ of 0.9, 0.95, 0.99, 0.999 and 1")
    print(table([similar_projections(s) for s in (0.9, 0.95, 0.99, 0.999, 1.0)]))
    print("1, 4, 8 and 16 groups of s = 0.99")
    print(table([similar_projections(0.99, groups) for groups in (1, 4, 8, 16)]))


if __name__ == "__main__":
    main()
