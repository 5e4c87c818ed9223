"""torch.compile for backbones, without a trace in their names and state dicts."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.errors import RunError, first_line
from amcl.methods import Method
from amcl.modules import is_vit
from amcl.training.blocks import blocks_of

BACKEND = "inductor"
"""The backend of torch.compile."""


def compile_backbones(method: Method, device: torch.device) -> None:
    """Compile the backbones of a method, in place, those of momentum copies among them.

    Of a vision transformer each block is compiled: blocks share their code, and methods that mask
    patches call them without the rest. Other networks are compiled as one.

    Args:
        method: The method.
        device: The device that it is trained on.

    Raises:
        RunError: torch.compile does not work on this machine.
    """
    require_compiler(device)
    for module in method.modules():
        if isinstance(module, Backbone):
            for part in _compiled_parts(module.network):
                part.compile(backend=BACKEND)


def _compiled_parts(network: nn.Module) -> list[nn.Module]:
    return blocks_of(network) if is_vit(network) else [network]


def without_compiling() -> AbstractContextManager[Any]:
    """Run compiled modules as they were written.

    For probes, whose batches have other sizes than those of training: what a run compiles, and so
    its last digits, must not depend on them.
    """
    context: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return context


def require_compiler(device: torch.device) -> None:
    """Raise an error where torch.compile cannot make code, as without a C++ compiler.

    Args:
        device: The device that the code is for.
    """

    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    compiled: Any = torch.compile(double, backend=BACKEND)
    try:
        compiled(torch.ones(8, device=device))
    except Exception as error:  # as many kinds as there are compilers and ways to lack them
        raise RunError(
            f"--compile: torch.compile does not work on this machine ({first_line(error)}). "
            "Install a C++ compiler such as g++, or leave out --compile."
        ) from error
