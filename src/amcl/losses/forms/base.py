"""The interface of forms of the contrastive loss, and their registry."""

from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
from torch import nn

from amcl import functional as F
from amcl.losses.pairs import Compared, Pairs
from amcl.registry import Registry

if TYPE_CHECKING:
    from amcl.losses.contrastive import ContrastiveLoss

C = TypeVar("C", bound="type[Form]")

FORMS = Registry["type[Form]"]("form", "amcl.losses.forms", "amcl.forms")
"""All forms of the contrastive loss, with those of installed packages."""


OPTIONS = ("top_k", "hard_beta", "debias", "dclw_sigma", "sigmoid_bias")
"""Settings of the contrastive loss that belong to some of its forms."""


class Form(nn.Module):
    """A way to combine the pairs of each anchor into its loss.

    A form reads the settings of the loss that it is called with: β, τ₀, the form of Ω. It is a part
    of the loss, so that its parameters, if it has any, are parameters of the loss.

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
    options: ClassVar[tuple[str, ...]] = ()
    """Other settings of the loss that belong to it; its constructor takes them as keywords."""
    fixed_kappa: ClassVar[int | None] = None
    """κ, where it is always the same."""
    has_softmax: ClassVar[bool] = True
    """True if negatives enter through a logarithm, which Ω is inside or outside of."""
    positive_in_denominator: ClassVar[bool | None] = None
    """Whether the positive is in the denominator, where the form decides it and not the user."""
    shift_invariant: ClassVar[bool] = True
    """True if the same number added to all logits of an anchor changes nothing, so that
    similarities may be measured from any level (`similarity="relative"`)."""

    @classmethod
    def takes(cls, option: str) -> bool:
        """Return whether a setting belongs to the form.

        Args:
            option: One of `OPTIONS`.

        Example:
            >>> [option for option in OPTIONS if FORMS["hard"].takes(option)]
            ['hard_beta', 'debias']
        """
        return cls.takes_top_k if option == "top_k" else option in cls.options

    def anchor_values(self, pairs: Pairs) -> torch.Tensor | None:
        """Return a value for each anchor that depends on all anchors, or on parameters.

        The loss is computed in blocks of anchors. What needs all of them is computed here, and
        `contrast` reads it as `pairs.value`. Gradients flow through it.

        Args:
            pairs: All anchors of this process, with their positives and candidates.

        Returns:
            Values (C, N, 1), or (1, N, 1) where heads share them; None if there are none.
        """
        return None

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

    def positive_terms(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        """Return the parts of the loss that come from the positive pair, for statistics.

        Args:
            loss: The loss, whose settings the form reads.
            pairs: The pairs that `contrast` returned.
            prior_tau: τ₀ of Ω.

        Returns:
            Tensors (C, N) by name.
        """
        positive = -(pairs.s_pos / pairs.tau_pos).squeeze(-1)
        omega = loss.beta * F.omega(pairs.tau_pos, prior_tau).squeeze(-1).expand_as(positive)
        return {"positive": positive, "omega_positive": omega}

    def negative_terms(
        self, loss: "ContrastiveLoss", rest: torch.Tensor, pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        """Return the parts of the loss that come from negatives, for statistics.

        Args:
            loss: The loss, whose settings the form reads.
            rest: Loss of each anchor without its `positive_terms`, (C, N).
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


def negative_and_omega(
    loss: "ContrastiveLoss", rest: torch.Tensor, pairs: Compared, prior_tau: F.Prior
) -> dict[str, torch.Tensor]:
    """Return the `negative_terms` of a form that has Ω inside or outside of a logarithm."""
    if loss.omega_place == "inside":  # then Ω⁻ is inside the logarithm
        return {"negative": rest}
    tau = pairs.tau_neg.expand_as(pairs.s_neg)
    omega = -loss.beta * F.omega_of_set(tau, prior_tau, pairs.ignored, loss.omega_set)
    return {"negative": rest - omega, "omega_negative": omega}
