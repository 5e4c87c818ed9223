"""Estimated memory and time of training steps on one or many GPUs, from counts alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Literal

import torch

from amcl.analysis.cost.activations import activations_of
from amcl.analysis.cost.count import cost_of
from amcl.analysis.cost.gpus import PER_MACHINE, Gpu
from amcl.backbones import Backbone
from amcl.config import Config
from amcl.errors import RunError
from amcl.methods import Method, make_method
from amcl.printable import counted
from amcl.results import Table
from amcl.settings import whole_number
from amcl.training.sharding import units_of

FITS = 0.9
"""Share of the memory that may be taken: work space and fragmentation are not counted."""
_WORD = 4  # bytes of a weight: mixed precision keeps weights in float32
_STATES = {"adamw": 2, "lars": 1, "sgd": 1}  # words that an optimizer keeps of each weight

Strategy = Literal["ddp", "fsdp"]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Bytes of the weights of a method, by how they are treated."""

    trained: int
    """Weights that learn."""
    fixed: int
    """Weights that do not, such as those of momentum copies."""
    buffers: int
    """Buffers, such as queues, which are never divided."""
    units: int
    """Weights of the blocks that FSDP gathers one by one; those that learn. 0: it cannot."""
    fixed_units: int
    """The same of momentum copies."""
    largest_unit: int
    """The largest block."""

    @staticmethod
    def of(method: Method) -> "Weights":
        """Count the weights of a method."""
        try:
            units = list(units_of(method))
        except RunError:  # the blocks of the network are not known
            units = []
        of_units = [p for unit in units for p in unit.parameters()]
        return Weights(
            trained=_bytes(p for p in method.parameters() if p.requires_grad),
            fixed=_bytes(p for p in method.parameters() if not p.requires_grad),
            buffers=sum(buffer.nbytes for buffer in method.buffers()),
            units=_bytes(p for p in of_units if p.requires_grad),
            fixed_units=_bytes(p for p in of_units if not p.requires_grad),
            largest_unit=max((_bytes(unit.parameters()) for unit in units), default=0),
        )


def _bytes(parameters: Any) -> int:
    return sum(_WORD * parameter.numel() for parameter in parameters)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimated cost of a step on each of several GPUs. Memory is in bytes, time in seconds."""

    devices: int
    """Number of GPUs."""
    strategy: Strategy
    """How they share the model."""
    checkpointing: bool
    """Whether activations are computed again in the backward pass."""
    images: float
    """Images a GPU and step."""
    weights: float
    """Memory of weights and buffers."""
    gradients: float
    """Memory of gradients."""
    optimizer: float
    """Memory of the optimizer's states."""
    exchange: float
    """Memory for exchange: DDP's buckets, or what FSDP has gathered."""
    activations: float
    """Memory of activations."""
    compute: float
    """Time of computation."""
    communication: float
    """Time of communication."""

    @property
    def memory(self) -> float:
        """Memory in all."""
        state = self.weights + self.gradients + self.optimizer
        return state + self.exchange + self.activations

    @property
    def seconds(self) -> float:
        """Time of a step, where communication is hidden behind computation as far as it can be."""
        return max(self.compute, self.communication)

    def fits(self, gpu: Gpu) -> bool:
        """Return whether it fits into the memory of a GPU.

        Args:
            gpu: The GPU.
        """
        return self.memory <= FITS * gpu.memory

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        return asdict(self) | {"memory": self.memory, "seconds": self.seconds}


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What an estimate takes for granted."""

    gpu: Gpu
    """The GPU."""
    utilization: float = 0.4
    """Share of its rate that is reached."""
    bandwidth: float | None = None
    """Bytes a second between GPUs; None for those of the GPU, by the number of machines."""

    def link(self, devices: int) -> float:
        """Return the bytes a second of the slowest link among this number of GPUs."""
        if self.bandwidth is not None:
            return self.bandwidth
        return self.gpu.link if devices <= PER_MACHINE else self.gpu.network

    def describe(self) -> list[str]:
        """Return sentences on all that is assumed."""
        gpu = self.gpu
        links = f"{gpu.link / 1e9:g} GB/s within a machine of {PER_MACHINE} GPUs and "
        links += f"{gpu.network / 1e9:g} GB/s between machines"
        if self.bandwidth is not None:
            links = f"{self.bandwidth / 1e9:g} GB/s"
        return [
            f"An estimate, not a measurement, for {gpu.title}: {gpu.memory / 1e9:g} GB, "
            f"{gpu.flops_bf16 / 1e12:g} TFLOP/s in bf16 ({gpu.flops_32 / 1e12:g} in float32), of "
            f"which {self.utilization:.0%} are reached; {links}, one way, for each GPU.",
            "Communication runs beside computation, so that a step takes the longer of the two. "
            "Decoding of pictures, views and the step of the optimizer are not counted.",
            "Weights, gradients and optimizer states are float32. Activations are the tensors that "
            "autograd keeps, with fused attention; pairs with images of other GPUs are not among "
            f"them. A step fits if it takes at most {FITS:.0%} of the memory, since work space and "
            "fragmentation are not counted.",
        ]


def estimates(
    config: Config,
    devices: Sequence[int],
    image_size: int,
    assumptions: Assumptions,
    channels: int = 3,
) -> list[Estimate]:
    """Estimate steps of a configuration with DDP and FSDP, with and without checkpointing.

    Args:
        config: Configuration of the training; its batch is divided among the GPUs.
        devices: Numbers of GPUs.
        image_size: Pixels a side of the views.
        assumptions: The GPU, and what is assumed of it.
        channels: Number of channels of the images.

    Returns:
        Estimates in the order of `devices`; for one GPU, those of `ddp` alone.

    Raises:
        ValueError: The batch does not divide among the GPUs.

    Example:
        >>> from amcl.analysis.cost.gpus import gpu_of
        >>> from amcl.recipes import recipe
        >>> assumptions = Assumptions(gpu=gpu_of("a100"))
        >>> first, *_ = estimates(recipe("builtin-simclr"), [1, 8], 32, assumptions)
        >>> first.devices, first.strategy, first.memory > 0
        (1, 'ddp', True)
    """
    with torch.device("meta"):
        backbone = Backbone(config.backbone, image_size, channels=channels)
        weights = Weights.of(make_method(config.method, backbone))
    bf16 = config.hardware.precision != "32"
    images = [images_of(config, count) for count in devices]
    activations = [
        activations_of(config, n, image_size, bf16=bf16, channels=channels) for n in images
    ]
    kinds = [False] if any(a.checkpointed is None for a in activations) else [False, True]
    flops = {kind: _flops(config, image_size, channels, kind) for kind in kinds}
    steps = []
    for count, activation in zip(devices, activations, strict=True):
        strategies: list[Strategy] = ["ddp", "fsdp"] if count > 1 and weights.units else ["ddp"]
        for kind, strategy in product(kinds, strategies):
            work = config.run.batch_size / count * flops[kind]
            step = _estimate(config, weights, count, strategy, assumptions)
            steps.append(
                replace(
                    step,
                    checkpointing=kind,
                    activations=activation.peak(kind),
                    compute=work / _rate(assumptions, bf16),
                )
            )
    return steps


def _rate(assumptions: Assumptions, bf16: bool) -> float:
    gpu = assumptions.gpu
    return assumptions.utilization * (gpu.flops_bf16 if bf16 else gpu.flops_32)


def _flops(config: Config, image_size: int, channels: int, checkpointing: bool) -> float:
    hardware = replace(config.hardware, activation_checkpointing=checkpointing)
    return cost_of(replace(config, hardware=hardware), image_size, channels).step_flops


def images_of(config: Config, devices: int) -> int:
    """Return the number of images that a GPU gets at once.

    Args:
        config: Configuration of the training.
        devices: Number of GPUs.

    Raises:
        ValueError: The batch does not divide among the GPUs.

    Example:
        >>> from amcl.recipes import recipe
        >>> images_of(recipe("imagenet-simclr"), 8) * 8 == recipe("imagenet-simclr").run.batch_size
        True
    """
    parts = whole_number("devices", devices) * config.run.accumulate
    if config.run.batch_size % parts:
        raise ValueError(
            f"a batch of {config.run.batch_size} does not divide among "
            f"{counted(devices, 'GPU')} and {counted(config.run.accumulate, 'part')}: choose a "
            f"multiple of {parts} for --batch-size."
        )
    return config.run.batch_size // parts


def _estimate(
    config: Config, weights: Weights, devices: int, strategy: Strategy, assumptions: Assumptions
) -> Estimate:
    """Return the estimate for one strategy, but for activations and computation."""
    states = _STATES[config.optimizer.name]
    if config.optimizer.name == "sgd" and not config.optimizer.sgd_momentum:
        states = 0
    share = devices if strategy == "fsdp" else 1
    return Estimate(
        devices=devices,
        strategy=strategy,
        checkpointing=False,
        images=config.run.batch_size / devices,
        weights=(weights.trained + weights.fixed) / share + weights.buffers,
        gradients=weights.trained / share,
        optimizer=states * weights.trained / share,
        exchange=_exchanged(weights, strategy) if devices > 1 else 0.0,
        activations=0.0,
        compute=0.0,
        communication=_sent(weights, devices, strategy) / assumptions.link(devices),
    )


def _exchanged(weights: Weights, strategy: Strategy) -> float:
    """Return the memory of DDP's buckets, or of what FSDP has gathered at once.

    FSDP gathers what is no block, with its gradients, and two blocks, with the gradients of one.
    """
    if strategy == "ddp":
        return weights.trained
    rest = weights.trained - weights.units
    fixed_rest = weights.fixed - weights.fixed_units
    return 2 * rest + fixed_rest + 3 * weights.largest_unit


def _sent(weights: Weights, devices: int, strategy: Strategy) -> float:
    """Return the bytes that a GPU sends in a step, by rings.

    DDP adds up gradients, which is as much as to divide and to gather them. FSDP gathers blocks
    forward and backward, those of momentum copies forward alone, and divides gradients.
    """
    part = (devices - 1) / devices
    if strategy == "ddp":
        return 2 * part * weights.trained
    rest = weights.trained - weights.units
    return part * (3 * weights.units + 2 * rest + weights.fixed)


def estimate_table(rows: Sequence[Estimate], gpu: Gpu) -> Table:
    """Return a table with a row for each estimate.

    Args:
        rows: The estimates.
        gpu: The GPU that they are for.

    Example:
        >>> from amcl.analysis.cost.gpus import gpu_of
        >>> from amcl.recipes import recipe
        >>> assumptions = Assumptions(gpu=gpu_of("a100"))
        >>> rows = estimates(recipe("builtin-simclr"), [1], 32, assumptions)
        >>> estimate_table(rows, assumptions.gpu).header[:3]
        ('GPUs', 'strategy', 'checkpointing')
    """
    header = (
        *("GPUs", "strategy", "checkpointing", "images a GPU", "weights", "gradients"),
        *("optimizer", "exchange", "activations", "GiB in all", "fits", "computation, s"),
        *("communication, s", "s a step", "images/s"),
    )
    return Table(header, [_cells(row, gpu) for row in rows], left=3)


def _cells(row: Estimate, gpu: Gpu) -> list[str]:
    parts = (row.weights, row.gradients, row.optimizer, row.exchange, row.activations)
    gib = [f"{value / 2**30:,.1f}" for value in (*parts, row.memory)]
    times = [f"{value:.3g}" for value in (row.compute, row.communication, row.seconds)]
    return [
        str(row.devices),
        row.strategy if row.devices > 1 else "–",
        "yes" if row.checkpointing else "no",
        f"{row.images:,.4g}",
        *gib,
        "yes" if row.fits(gpu) else "no",
        *times,
        f"{row.images * row.devices / row.seconds:,.0f}",
    ]
