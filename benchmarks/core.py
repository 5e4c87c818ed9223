"""Cost of AMCL as ratios, measured in one run: `make bench`.

Each ratio is the median over repeats of two things timed in turns, so that a slow moment of the
machine hits both. Writes the table to benchmarks/results/core.md and the numbers to core.json.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from results_files import conditions, write_results
from torch import nn

import amcl
from amcl.temperature import AdaptiveTemperature, ConstantTemperature

FORMS = {
    "softmax": {"form": "softmax"},
    "top-κ (κ = 100)": {"form": "top_k", "top_k": 100},
    "top-κ softmax (κ = 100)": {"form": "top_k_softmax", "top_k": 100},
}


def ratio(new: Callable[[], None], old: Callable[[], None], repeats: int) -> dict[str, float]:
    """Return the median times of two calls, timed in turns, and the median of their ratios."""
    times: dict[str, list[float]] = {"new": [], "old": []}
    for call in (new, old):
        call()
    order = [("new", new), ("old", old)]
    for _ in range(repeats):
        order.reverse()
        for name, call in order:
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    ratios = [n / o for n, o in zip(times["new"], times["old"], strict=True)]
    return {
        "new_ms": 1e3 * statistics.median(times["new"]),
        "old_ms": 1e3 * statistics.median(times["old"]),
        "ratio": statistics.median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
    }


def trainer(
    backbone: nn.Module, criterion: amcl.ContrastiveLoss, views: torch.Tensor
) -> Callable[[], None]:
    """Return a training step on two views: backbone, heads, loss, backward, SGD."""
    heads = amcl.ProjectionHeads(512, 512, 128, num_heads=criterion.num_heads)
    parameters = [*backbone.parameters(), *heads.parameters(), *criterion.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.06, momentum=0.9, weight_decay=5e-4)

    def step() -> None:
        optimizer.zero_grad()
        criterion(*(heads(backbone(view)) for view in views)).backward()
        optimizer.step()

    return step


def full_step(repeats: int) -> dict[str, float]:
    """Time a step of ResNet-18 (CIFAR stem), 256 images × 2 views: C = 3 adaptive, and C = 1."""
    from torchvision.models import resnet18

    views = torch.randn(2, 256, 3, 32, 32)

    def make(criterion: amcl.ContrastiveLoss) -> Callable[[], None]:
        torch.manual_seed(0)
        backbone = resnet18()
        backbone.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        backbone.maxpool = backbone.fc = nn.Identity()
        return trainer(backbone, criterion, views)

    plain = amcl.ContrastiveLoss(1, ConstantTemperature(0.5))
    return ratio(make(amcl.AMCLLoss(3, 128).eval()), make(plain), repeats)


def heads_and_loss(repeats: int) -> dict[str, float]:
    """Time the same step on fixed features, without the backbone and its noise."""
    views = torch.randn(2, 256, 512)
    plain = amcl.ContrastiveLoss(1, ConstantTemperature(0.5))
    new = trainer(nn.Identity(), amcl.AMCLLoss(3, 128).eval(), views)
    return ratio(new, trainer(nn.Identity(), plain, views), repeats)


def loss_alone(repeats: int) -> dict[str, dict[str, float]]:
    """Time forward and backward of the loss, three heads, against lightly's NT-Xent on one."""
    from lightly.loss import NTXentLoss

    lightly = NTXentLoss(0.1)
    z = torch.randn(2, 3, 512, 128)
    plain = amcl.ContrastiveLoss(1, ConstantTemperature(0.1))
    difference = (plain(z[0, :1], z[1, :1]) - lightly(z[0, 0], z[1, 0])).abs().item()
    assert difference < 1e-5, f"with C = 1 and constant τ we differ from lightly by {difference}"

    def timed(loss: nn.Module, heads: slice | int) -> Callable[[], None]:
        z0, z1 = (view[heads].clone().requires_grad_() for view in z)
        return lambda: loss(z0, z1).backward()

    rows = {"softmax, C = 1, constant τ": ratio(timed(plain, slice(1)), timed(lightly, 0), repeats)}
    for name, form in FORMS.items():
        criterion = amcl.AMCLLoss(3, 128, **form).eval()  # nobody trains φ here
        rows[name] = ratio(timed(criterion, slice(3)), timed(lightly, 0), repeats)
    return rows


def memory(anchors: int, max_pairs: int | None) -> dict[str, float]:
    """Return peak memory and time of one forward and backward, 65,536 negatives and 3 heads."""
    command = [sys.executable, __file__, "--memory", str(anchors), str(max_pairs or 0)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def memory_here(anchors: int, max_pairs: int) -> dict[str, float]:
    """Measure `memory` in this process."""
    unit = 1 if sys.platform == "darwin" else 1024
    start_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    z0, z1 = torch.randn(2, 3, anchors, 128, requires_grad=True)
    queue = torch.randn(3, 65_536, 128)
    criterion = amcl.AMCLLoss(3, 128, max_pairs=max_pairs or None)
    start = time.perf_counter()
    criterion(z0, z1, queue).backward()
    return {
        "seconds": time.perf_counter() - start,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9,
        "start_gb": start_peak / 1e9,
    }


def blocks_agree() -> float:
    """Return the largest relative difference of blocked and plain form, in value and gradients."""
    temperature = AdaptiveTemperature(128)
    z0, z1, queue = torch.randn(3, 3, 256, 128).unbind(0)
    results = []
    for max_pairs in (2**40, 3 * 257 * 16):
        criterion = amcl.ContrastiveLoss(3, temperature, beta=0.1, max_pairs=max_pairs)
        inputs = [z0.clone().requires_grad_(), z1.clone().requires_grad_(), *criterion.parameters()]
        value = criterion(inputs[0], inputs[1], queue)
        results.append([value, *torch.autograd.grad(value, inputs)])
    return max(((a - b).abs().max() / a.abs().max()).item() for a, b in zip(*results, strict=True))


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """Return a table in Markdown: subject, measurement, ratio and bound."""
    head = ["| what | measured | ratio or size | bound |", "|---|---|---|---|"]
    return "\n".join(head + [f"| {' | '.join(row)} |" for row in rows])


def main(repeats: int) -> None:
    """Measure everything, print the table and write it to a file."""
    torch.manual_seed(0)
    rows = []
    numbers = {}

    def timing(what: str, old: str, m: dict[str, float], bound: str) -> None:
        numbers[what] = m
        measured = f"{m['new_ms']:.0f} ms against {m['old_ms']:.0f} ms ({old})"
        spread = f"{m['ratio']:.2f}× ({m['ratio_low']:.2f} … {m['ratio_high']:.2f})"
        rows.append((what, measured, spread, bound))
        print(f"{what}: {spread}, {measured}", flush=True)

    for name, m in loss_alone(max(25, 5 * repeats)).items():
        bound = "" if "C = 1" in name else "≤ 6×, aim 4×"
        label = name if "C = 1" in name else f"{name}, C = 3, adaptive τ"
        timing(f"loss alone, N = 512, D = 128: {label}", "lightly NT-Xent, 1 head", m, bound)

    agreement = numbers["blocks_agree"] = blocks_agree()
    rows.append(("blocked form against plain", "value and gradients", f"{agreement:.1e}", "≤ 1e-6"))
    print(f"blocked against plain form: {agreement:.1e}", flush=True)
    for what, anchors, max_pairs, bound in (
        ("blocked, 4,096 anchors × 65,536 negatives × 3 heads", 4096, None, "< 2 GB"),
        ("plain, a quarter of that: 1,024 anchors", 1024, 2**40, ""),
    ):
        m = numbers[what] = memory(anchors, max_pairs)
        measured = f"{m['seconds']:.0f} s, process starts at {m['start_gb']:.2f} GB"
        rows.append((what, measured, f"peak {m['peak_gb']:.2f} GB", bound))
        print(f"{what}: peak {m['peak_gb']:.2f} GB, {measured}", flush=True)

    step = full_step(repeats)
    what = "full step, ResNet-18, 256 × 2 views of 32 px: C = 3 adaptive"
    timing(what, "C = 1, constant τ", step, "≤ 1.05×")
    parts = heads_and_loss(max(25, 5 * repeats))
    timing("its heads, loss and their update alone", "C = 1, constant τ", parts, "")
    share = numbers["added_share"] = (parts["new_ms"] - parts["old_ms"]) / step["old_ms"]
    rows.append(("what they add, as a share of the full step", "", f"{share:+.1%}", "≤ 5 %"))
    text = f"{table(rows)}\n\nMeasured by `make bench` on {conditions()}, float32 on CPU.\n"
    write_results("core", "Cost of AMCL", text, numbers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="timed pairs of full steps")
    parser.add_argument("--memory", nargs=2, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        print(json.dumps(memory_here(*args.memory)))
    else:
        main(args.repeats)
