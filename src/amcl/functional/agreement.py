"""Agreement of heads: how alike the similarities are that they see between images."""

from collections.abc import Callable

import torch

from amcl.functional.similarity import paired, unit

_EPS = 1e-6  # similarities of a head that differ have a variance of about 0.01


def head_agreement(
    z0: torch.Tensor,
    z1: torch.Tensor,
    total: Callable[[torch.Tensor], torch.Tensor] = lambda sums: sums,
) -> torch.Tensor:
    """Return the correlation of the heads' similarities s_ij of different images i ≠ j.

    Each head's similarities sim(z_i, z'_j) of an image of the first view with every other image
    of the second are centered on their mean, and correlated with those of each other head. Heads
    that order pairs in the same way agree by 1, heads that see different aspects by about 0.

    The N × N matrices are never made: Σ_ij (a_i·b_j)(a'_i·b'_j) is the product of two matrices of
    D × D, Σ_i a_i a'_iᵀ and Σ_j b_j b'_jᵀ, which are sums over images and so over processes too.

    Args:
        z0: Projections (C, N, D) of the first view.
        z1: Projections (C, N, D) of the second view.
        total: Function that adds up the sums of all processes, with gradient.

    Returns:
        Correlations (C, C).

    Example:
        >>> z0, z1 = torch.randn(2, 1, 16, 8)
        >>> head_agreement(torch.cat([z0, z0]), torch.cat([z1, -z1])).round(decimals=2)
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    num_heads, n, _ = z0.shape
    a = unit(z0)
    b = unit(z1)
    s_pos = paired(a, b).squeeze(-1)
    first, second = torch.triu_indices(num_heads, num_heads, device=z0.device)
    sums = [
        a[first].mT @ a[second],
        b[first].mT @ b[second],
        a.sum(1),
        b.sum(1),
        s_pos.sum(1),
        (s_pos[first] * s_pos[second]).sum(1),
        z0.new_tensor([float(n)]),
    ]
    shapes = [x.shape for x in sums]
    flat = total(torch.cat([x.flatten() for x in sums]))
    parts = flat.split([shape.numel() for shape in shapes])
    a_products, b_products, a_sum, b_sum, s_sum, s_products, count = (
        x.view(shape) for x, shape in zip(parts, shapes, strict=True)
    )
    pairs = count * (count - 1.0)
    mean = ((a_sum * b_sum).sum(-1) - s_sum) / pairs
    product = ((a_products * b_products).sum((1, 2)) - s_products) / pairs
    covariance = product.new_zeros(num_heads, num_heads)
    covariance = covariance.index_put((first, second), product - mean[first] * mean[second])
    covariance = covariance + covariance.triu(1).mT
    deviation = (covariance.diagonal() + _EPS).sqrt()
    correlations: torch.Tensor = covariance / (deviation.unsqueeze(0) * deviation.unsqueeze(1))
    return correlations


def mean_agreement(agreement: torch.Tensor) -> torch.Tensor:
    """Return the mean correlation of two different heads.

    Args:
        agreement: Correlations (C, C) of `head_agreement`, of at least two heads.

    Returns:
        One value.

    Example:
        >>> mean_agreement(torch.tensor([[1.0, 0.2], [0.2, 1.0]]))
        tensor(0.2000)
    """
    first, second = torch.triu_indices(len(agreement), len(agreement), offset=1)
    return agreement[first, second].mean()
