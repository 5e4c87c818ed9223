"""Losses of amcl and of lightly on the same tensors: the greatest differences.

With one head and a constant temperature a loss of amcl is the published one. Each case gives the
same random tensors, in float64, to both implementations and compares values and gradients. It needs
lightly (`pip install -e '.[bench]'`).

python benchmarks/published_losses.py

Writes benchmarks/results/published_losses.md and published_losses.json, and ends with an error if
a difference is greater than rounding explains.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
from results_files import conditions, write_results

import amcl
from amcl.temperature import ConstantTemperature

IMAGES, DIM, QUEUE = 48, 32, 256
SEEDS = 20
BOUND = 1e-10
Loss = Callable[..., torch.Tensor]


class Both(NamedTuple):
    """One loss twice: functions of the same tensors (N, D), which return scalars."""

    ours: Loss
    theirs: Loss


@dataclass(frozen=True)
class Case:
    """A loss that both libraries have.

    Args:
        name: Name of the loss, with its settings.
        peer: Name of the class in lightly.
        make: Function that makes both losses anew, for each seed.
        tensors: Number of tensors (N, D) that they take.
    """

    name: str
    peer: str
    make: Callable[[], Both]
    tensors: int = 2


def contrastive(tau: float, **options: Any) -> amcl.ContrastiveLoss:
    """Return the contrastive loss of one head and a constant temperature."""
    return amcl.ContrastiveLoss(1, ConstantTemperature(tau), **options)


# lightly is imported where it is used, so that the table can be checked without it.


def nt_xent() -> Both:
    """SimCLR: negatives from both views of the batch."""
    from lightly.loss import NTXentLoss

    return Both(contrastive(0.5), NTXentLoss(temperature=0.5))


def info_nce() -> Both:
    """MoCo: negatives from a queue."""
    from lightly.loss import NTXentLoss

    theirs = NTXentLoss(temperature=0.1, memory_bank_size=(QUEUE, DIM)).double()
    bank = theirs.memory_bank.bank
    bank.div_(bank.norm(dim=1, keepdim=True))  # of length one in float32; ours would make it exact
    queue = bank.clone().unsqueeze(0)
    ours = contrastive(0.1)
    return Both(lambda z0, z1: ours(z0, z1, queue), theirs)


def dcl() -> Both:
    """DCL: the positive is not in the denominator."""
    from lightly.loss import DCLLoss

    return Both(contrastive(0.1, form="dcl"), DCLLoss(temperature=0.1))


def dclw() -> Both:
    """DCLW: DCL with weighted positives."""
    from lightly.loss import DCLWLoss

    return Both(contrastive(0.1, form="dclw"), DCLWLoss(temperature=0.1, sigma=0.5))


def negative_cosine() -> Both:
    """SimSiam: predictions of both views, each against the projection of the other."""
    from lightly.loss import NegativeCosineSimilarity

    ours = amcl.NegativeCosineLoss(1, ConstantTemperature(1.0))
    cosine = NegativeCosineSimilarity()

    def theirs(
        p0: torch.Tensor, p1: torch.Tensor, h0: torch.Tensor, h1: torch.Tensor
    ) -> torch.Tensor:
        value: torch.Tensor = 0.5 * (cosine(p0, h1.detach()) + cosine(p1, h0.detach()))
        return value

    return Both(ours, theirs)


def barlow_twins() -> Both:
    """Barlow Twins: the correlation of channels over the batch."""
    from lightly.loss import BarlowTwinsLoss

    ours = amcl.CrossCorrelationLoss(1, ConstantTemperature(1.0), lam=5e-3)
    return Both(ours, BarlowTwinsLoss(lambda_param=5e-3))


# A loss that is added to both libraries gets a row here.
CASES = (
    Case("NT-Xent, τ = 0.5", "NTXentLoss", nt_xent),
    Case("InfoNCE with a queue, τ = 0.1", "NTXentLoss with a memory bank", info_nce),
    Case("DCL, τ = 0.1", "DCLLoss", dcl),
    Case("DCLW, τ = 0.1, σ = 0.5", "DCLWLoss", dclw),
    Case("negative cosine", "NegativeCosineSimilarity", negative_cosine, tensors=4),
    Case("cross-correlation, λ = 0.005", "BarlowTwinsLoss", barlow_twins),
)


def difference(case: Case, seed: int) -> tuple[float, float]:
    """Return how much value and gradient of both losses differ, as shares of their size."""
    torch.manual_seed(seed)
    both = case.make()
    tensors = torch.randn(case.tensors, IMAGES, DIM, dtype=torch.float64)
    tensors[1] += tensors[0]  # the two views are alike
    values, gradients = [], []
    for loss in both:
        inputs = tensors.clone().requires_grad_()
        value = loss(*inputs.unbind(0))
        value.backward()
        values.append(value.detach())
        gradients.append(inputs.grad)
    ours, theirs = gradients
    if ours is None or theirs is None:
        raise RuntimeError(f"{case.name}: a loss passed no gradient to its input.")
    of_value = ((values[0] - values[1]).abs() / values[1].abs()).item()
    return of_value, ((ours - theirs).abs().max() / theirs.abs().max()).item()


def greatest(case: Case, seeds: int = SEEDS) -> dict[str, float]:
    """Return the greatest differences of value and gradient over some seeds."""
    pairs = [difference(case, seed) for seed in range(seeds)]
    return {"value": max(v for v, _ in pairs), "gradient": max(g for _, g in pairs)}


def table(numbers: dict[str, dict[str, float]]) -> str:
    """Return a row for each case."""
    lines = [("loss", "lightly", "value", "gradient"), ("---",) * 4]
    for case in CASES:
        found = numbers[case.name]
        shown = (f"{found['value']:.0e}", f"{found['gradient']:.0e}")
        lines.append((case.name, f"`{case.peer}`", *shown))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Compare all losses, print the table and write it to a file."""
    torch.set_num_threads(1)
    numbers = {case.name: greatest(case) for case in CASES}
    text = (
        f"{table(numbers)}\n\nGreatest relative differences over {SEEDS} batches of {IMAGES} "
        f"random pairs of width {DIM}, in float64: of the value, and of the largest entry of the "
        "gradient. One head, constant temperature. Repeat with `python "
        f"benchmarks/published_losses.py`. lightly {version('lightly')}, {conditions()}.\n"
    )
    write_results("published_losses", "Published losses", text, {"differences": numbers})
    wrong = [name for name, found in numbers.items() if not max(found.values()) < BOUND]  # or NaN
    if wrong:
        raise SystemExit(f"more than {BOUND:g} from lightly's: {', '.join(wrong)}.")


if __name__ == "__main__":
    main()
