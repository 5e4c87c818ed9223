"""A sum over blocks of pairs, with the memory of one block."""

from collections.abc import Callable
from typing import Any

import torch

from amcl.functional.first_order import first_order_only
from amcl.losses.pairs import Pairs


class SumOverBlocks(torch.autograd.Function):
    """Sum of a value over blocks of pairs, which takes each block's gradient at once.

    The results of a block are dropped before the next one starts, so that memory is that of one
    block, and nothing is computed twice. It can be done because blocks are only ever summed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        block: Callable[[Pairs], torch.Tensor],
        on_gradients: Callable[[Pairs], None],
        pairs: Pairs,
        max_pairs: int | None,
        *tensors: torch.Tensor,
    ) -> torch.Tensor:
        wanted = [k for k, needed in enumerate(ctx.needs_input_grad[4:]) if needed]
        grads = [x.new_zeros(()).expand_as(x) for x in tensors]  # takes no memory
        for k in wanted:
            grads[k] = torch.zeros_like(tensors[k])
        total = tensors[0].new_zeros(())
        for heads, rows in pairs.blocks(max_pairs):
            piece = pairs.cut(heads, rows)
            leaves = [x.detach() for x in piece.tensors]
            inputs = [leaves[k].requires_grad_() for k in wanted]
            with torch.set_grad_enabled(bool(wanted)):
                value = block(piece.with_tensors(leaves))
            total += value.detach()
            if wanted:
                grads_of_block = pairs.with_tensors(grads).cut(heads, rows).tensors
                new_grads = torch.autograd.grad(value, inputs, allow_unused=True)
                for k, grad in zip(wanted, new_grads, strict=True):
                    if grad is not None:
                        grads_of_block[k].add_(grad)
        if wanted:
            on_gradients(pairs.with_tensors(grads))
        ctx.wanted = wanted
        ctx.num_inputs = len(tensors)
        ctx.save_for_backward(*(grads[k] for k in wanted))
        return total

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scaled: dict[int, torch.Tensor] = {
            k: saved * grad for k, saved in zip(ctx.wanted, ctx.saved_tensors, strict=True)
        }
        return None, None, None, None, *(scaled.get(k) for k in range(ctx.num_inputs))
