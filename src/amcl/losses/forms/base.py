"""The interface of forms of the contrastive loss, and their registry."""

from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch

from amcl import functional as F
from amcl.losses.pairs import Compared
from amcl.registry import Registry

if TYPE_CHECKING:
    from amcl.losses.contrastive import ContrastiveLoss

C = TypeVar("C", bound="type[Form]")

FORMS = Registry["type[Form]"]("form", "amcl.losses.forms", "amcl.forms")
"""All forms of the contrastive loss, with those of installed packages."""


class Form:
    """A way to combine the pairs of each anchor into its loss.

    A form reads the settings of the loss that it is called with: β, τ₀, the form of Ω.

    Example:
        >>> from amcl.losses import ContrastiveLoss
        >>> from amcl.temperature import ConstantTemperature
        >>> loss = ContrastiveLoss(1, ConstantTemperature(0.5))
        >>> tau = torch.tensor([0.5])
        >>> pairs = Compared(torch.ones(1, 2, 1), tau, torch.zeros(1, 2, 4), tau, None)
        >>> value, _ = FORMS["softmax"]().contrast(loss, pairs, prior_tau=0.5)
        >>> value  # log(1 + 4 e⁻²) of both anchors
        tensor([[0.4327, 0.4327]])
    """

    name: ClassVar[str]
    """Name on the command line and in files."""
    takes_top_k: ClassVar[bool] = False
    """True if it keeps the κ = `top_k` most similar negatives of each head."""
    fixed_kappa: ClassVar[int | None] = None
    """κ, where it is always the same."""
    has_softmax: ClassVar[bool] = True
    """True if negatives enter through a logarithm, which Ω is inside or outside of."""

    def contrast(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> tuple[torch.Tensor, Compared]:
        """Combine the pairs of each anchor.

        Args:
            loss: The loss, whose settings the form reads.
            pairs: s and τ of the positive and of the negatives of each anchor.
            prior_tau: τ₀ of Ω.

        Returns:
            The loss of each anchor, (C, N), and the pairs that entered it.
        """
        raise NotImplementedError

    def negative_terms(
        self, loss: "ContrastiveLoss", rest: torch.Tensor, pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        """Return the parts of the loss that come from negatives, for statistics.

        Args:
            loss: The loss, whose settings the form reads.
            rest: Loss of each anchor without the terms of its positive pair, (C, N).
            pairs: The pairs that `contrast` returned.
            prior_tau: τ₀ of Ω.

        Returns:
            Tensors (C, N) by name, which sum to `rest`.
        """
        return {"negative": rest}


def register_form(form: C) -> C:
    """Register a form of the contrastive loss under the name that it declares.

    The form is then available to `ContrastiveLoss` and to all methods that use it: in `amcl
    pretrain --form NAME`, in TOML files, sweeps and searches.

    Args:
        form: The class of the form.

    Returns:
        The same class, so that this function is a decorator.

    Example:
        >>> @register_form
        ... class MarginForm(Form):
        ...     name = "margin"
        ...
        ...     def contrast(self, loss, pairs, prior_tau):
        ...         hardest = pairs.s_neg.amax(-1)
        ...         return (hardest - pairs.s_pos.squeeze(-1) + 0.5).relu(), pairs
        >>> "margin" in FORMS
        True
        >>> FORMS.unregister("margin")
    """
    FORMS.register(form.name, form)
    return form


def omega_of_negatives(
    loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
) -> torch.Tensor:
    """Return Ω of the set of negatives of each anchor, (C, N)."""
    tau = pairs.tau_neg.expand_as(pairs.s_neg)
    return F.omega_of_set(tau, prior_tau, pairs.ignored, loss.omega_set)
