"""GPUs that costs are estimated for: rates and memory as their makers publish them."""

from dataclasses import dataclass

from amcl.settings import choose


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU in a machine of eight."""

    title: str
    """Name for people."""
    memory: float
    """Bytes of memory."""
    flops_bf16: float
    """FLOPs a second in bf16, without sparsity."""
    flops_32: float
    """FLOPs a second in float32, as torch multiplies by default."""
    link: float
    """Bytes a second to the other GPUs of the machine, in one direction."""
    network: float
    """Bytes a second to other machines, one network card for each GPU."""


GPUS = {
    "a100": Gpu(
        title="A100 SXM 80 GB",
        memory=80e9,
        flops_bf16=312e12,
        flops_32=19.5e12,
        link=300e9,
        network=25e9,
    ),
    "h100": Gpu(
        title="H100 SXM 80 GB",
        memory=80e9,
        flops_bf16=989e12,
        flops_32=67e12,
        link=450e9,
        network=50e9,
    ),
}
PER_MACHINE = 8
"""GPUs of a machine."""


def gpu_of(name: str) -> Gpu:
    """Return the GPU of a name.

    Args:
        name: a100 or h100.

    Example:
        >>> gpu_of("h100").title
        'H100 SXM 80 GB'
    """
    choose("gpu", name, tuple(GPUS))
    return GPUS[name]
