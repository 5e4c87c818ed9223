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
from amcl.temperature import AlignmentTemperature, ConstantTemperature

IMAGES, DIM, QUEUE, PROTOTYPES = 48, 32, 256, 64
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
        bound: Greatest difference that rounding explains.
    """

    name: str
    peer: str
    make: Callable[[], Both]
    tensors: int = 2
    bound: float = BOUND


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


def vicreg() -> Both:
    """VICReg: invariance, variance and covariance."""
    from lightly.loss import VICRegLoss

    return Both(amcl.VICRegLoss(1, ConstantTemperature(1.0)), VICRegLoss())


def macl() -> Both:
    """MACL: the temperature follows the positive pairs, anchors are weighed by 1/(1 − P)."""
    from lightly.loss import MACLLoss

    ours = amcl.ContrastiveLoss(1, AlignmentTemperature(0.5, alpha=0.5))
    return Both(ours, MACLLoss(temperature=0.5, alpha=0.5))


def dino() -> Both:
    """DINO: two views of the teacher and of the student, by centered prototypes."""
    from lightly.loss import DINOLoss

    ours = amcl.DINOLoss(
        1, ConstantTemperature(0.1), num_prototypes=PROTOTYPES, teacher_tau_warmup=0
    ).double()
    theirs = DINOLoss(output_dim=PROTOTYPES, teacher_temp=0.07, warmup_teacher_temp_epochs=0)
    theirs = theirs.double()
    center = torch.randn(1, 1, PROTOTYPES, dtype=torch.float64)
    ours.center.copy_(center)
    theirs.center.copy_(center)
    prototypes = torch.nn.functional.normalize(
        torch.randn(PROTOTYPES, DIM, dtype=torch.float64), dim=-1
    )

    def of_ours(
        s0: torch.Tensor, s1: torch.Tensor, t0: torch.Tensor, t1: torch.Tensor
    ) -> torch.Tensor:
        student, teacher = ([z.unsqueeze(0) for z in views] for views in ((s0, s1), (t0, t1)))
        value: torch.Tensor = ours(student, teacher, prototypes[None], prototypes[None])
        return value

    def of_theirs(*views: torch.Tensor) -> torch.Tensor:
        logits = [torch.nn.functional.normalize(z, dim=-1) @ prototypes.mT for z in views]
        value: torch.Tensor = theirs([z.detach() for z in logits[2:]], logits[:2], epoch=50)
        return value

    return Both(of_ours, of_theirs)


# A loss that is added to both libraries gets a row here.
CASES = (
    Case("NT-Xent, τ = 0.5", "NTXentLoss", nt_xent),
    Case("InfoNCE with a queue, τ = 0.1", "NTXentLoss with a memory bank", info_nce),
    Case("DCL, τ = 0.1", "DCLLoss", dcl),
    Case("DCLW, τ = 0.1, σ = 0.5", "DCLWLoss", dclw),
    Case("negative cosine", "NegativeCosineSimilarity", negative_cosine, tensors=4),
    Case("cross-correlation, λ = 0.005", "BarlowTwinsLoss", barlow_twins),
    Case("VICReg, 25, 25, 1", "VICRegLoss", vicreg),
    # lightly adds 1e-8 to 1 − P.
    Case("MACL, τ₀ = 0.5, α = 0.5", "MACLLoss", macl, bound=1e-6),
    # lightly's temperature of the teacher is a float32 number.
    Case("DINO, τ = 0.1 and 0.07", "DINOLoss", dino, tensors=4, bound=1e-7),
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
    wrong = [c.name for c in CASES if not max(numbers[c.name].values()) < c.bound]  # or NaN
    if wrong:
        raise SystemExit(f"further from lightly's than rounding explains: {', '.join(wrong)}.")


if __name__ == "__main__":
    main()
