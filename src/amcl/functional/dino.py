"""The equations of DINO (arXiv 2104.14294): targets of the teacher, and the student's loss.

Shape letters beside the usual ones: K prototypes, and s the similarities of an image with them.
"""

from collections.abc import Callable

import torch


def centered_targets(s: torch.Tensor, center: torch.Tensor, tau: float) -> torch.Tensor:
    """Return the teacher's distributions softmax((s − c)/τ) over K prototypes.

    The center keeps one prototype from winning everywhere, a low τ keeps all from being equal.

    Args:
        s: Similarities (…, K) of the teacher's output with its prototypes.
        center: Center c, which broadcasts to s: a moving average of s over batches.
        tau: Temperature τ of the teacher.

    Returns:
        Distributions (…, K).

    Example:
        >>> s = torch.tensor([[0.5, 0.1]])
        >>> centered_targets(s, center=s, tau=0.04)
        tensor([[0.5000, 0.5000]])
    """
    return ((s - center) / tau).softmax(-1)


def sinkhorn_targets(
    s: torch.Tensor,
    tau: float,
    iterations: int = 3,
    gather: Callable[[torch.Tensor], torch.Tensor] = lambda values: values,
) -> torch.Tensor:
    """Return the teacher's distributions, in which all prototypes are used equally (SwAV).

    Starting from exp(s/τ), each iteration of Sinkhorn and Knopp scales prototypes to one sum over
    the images, then images to one sum over the prototypes. It is computed on logarithms, where a
    low τ does not overflow.

    Args:
        s: Similarities (C, N, K) of the teacher's output with its prototypes.
        tau: Temperature τ of the teacher.
        iterations: Number of iterations.
        gather: Function that gathers tensors (C, 1, K) of all processes into (C, W, K).

    Returns:
        Distributions (C, N, K).

    Example:
        >>> s = torch.tensor([[[0.9, 0.8], [0.9, 0.0]]])  # both images are nearest to prototype 0
        >>> sinkhorn_targets(s, tau=0.1).argmax(-1)
        tensor([[1, 0]])
    """
    log_q = s / tau
    for _ in range(iterations):
        of_process = log_q.logsumexp(1, keepdim=True)
        log_q = log_q - gather(of_process).logsumexp(1, keepdim=True)
        log_q = log_q.log_softmax(-1)
    return log_q.exp()


def prototype_cross_entropy(
    s: torch.Tensor, targets: torch.Tensor, tau: torch.Tensor
) -> torch.Tensor:
    """Return −Σ_k q_k log softmax(s/τ)_k: the student's loss of each image.

    It is the entropy of q at least. Where τ moves and s does not, it is least where the mean of s
    under the softmax is that under q, so that it holds τ away from 0 and from infinity.

    Args:
        s: Similarities (…, N, K) of the student's output with its prototypes.
        targets: Distributions q, which broadcast together with s.
        tau: Temperatures (…, N, 1) of the student, which broadcast together with s.

    Returns:
        The cross-entropy of each image, (…, N).

    Example:
        >>> s = torch.tensor([[0.5, 0.1]])
        >>> prototype_cross_entropy(s, torch.tensor([[1.0, 0.0]]), torch.tensor([[0.1]]))
        tensor([0.0181])
    """
    return -(targets * (s / tau).log_softmax(-1)).sum(-1)
