"""A guard for operations whose derivative is written out and cannot be derived again."""

import functools
from collections.abc import Callable
from typing import Any

import torch


def first_order_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward pass: refuse `create_graph=True` rather than give wrong derivatives."""

    @functools.wraps(backward)
    def guarded(*args: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "amcl's losses are differentiable once: leave out create_graph=True (gradient "
                "penalties and Hessians need a loss in plain autograd operations)."
            )
        return backward(*args)

    return guarded
