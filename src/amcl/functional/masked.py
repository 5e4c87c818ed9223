"""Masked image modeling: patches, their losses, and fixed sin-cos embeddings (MAE, CAN).

Shape letters: N images of S × S pixels, L patches each, P = patch²·3 values in a patch. `masked`
is (N, L), True where the encoder does not see the patch.
"""

import math

import torch
import torch.nn.functional as F

_LONGEST = 10_000.0  # the longest wave of an embedding is this much longer than the shortest


def patchify(images: torch.Tensor, patch: int) -> torch.Tensor:
    """Cut images into patches, row by row, as a vision transformer's tokens are ordered.

    Args:
        images: Images (N, C, S, S) of C channels, with S a multiple of `patch`.
        patch: Side of a patch in pixels.

    Returns:
        Patches (N, L, patch²·C); the values of a patch run over its rows, columns and channels,
        channels fastest (MAE).

    Example:
        >>> patchify(torch.zeros(2, 3, 32, 32), patch=4).shape
        torch.Size([2, 64, 48])
    """
    if images.ndim != 4 or images.shape[2] != images.shape[3] or images.shape[2] % patch:
        raise ValueError(
            f"patches of {patch} pixels are cut from square images (N, C, S, S) whose side is a "
            f"multiple of {patch}, got {tuple(images.shape)}: resize the images."
        )
    n, channels, size, _ = images.shape
    side = size // patch
    cut = images.reshape(n, channels, side, patch, side, patch)
    return cut.permute(0, 2, 4, 3, 5, 1).reshape(n, side * side, patch * patch * channels)


def unpatchify(patches: torch.Tensor, patch: int) -> torch.Tensor:
    """Put patches together again, the inverse of `patchify`.

    Args:
        patches: Patches (N, L, patch²·3) with L a square number.
        patch: Side of a patch in pixels.

    Returns:
        Images (N, C, S, S).

    Example:
        >>> images = torch.randn(2, 3, 32, 32)
        >>> torch.equal(unpatchify(patchify(images, patch=4), patch=4), images)
        True
    """
    side = math.isqrt(patches.shape[1]) if patches.ndim == 3 else 0
    if not side or side**2 != patches.shape[1] or patches.shape[2] % patch**2:
        raise ValueError(
            f"patches of {patch} pixels are (N, L, {patch**2}·channels) with L a square number, "
            f"got {tuple(patches.shape)}: leave out the class token and give the size of a patch."
        )
    n, _, values = patches.shape
    channels = values // patch**2
    cut = patches.reshape(n, side, side, patch, patch, channels)
    return cut.permute(0, 5, 1, 3, 2, 4).reshape(n, channels, side * patch, side * patch)


def normalized_patches(patches: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return (x − mean) / √(variance + ε) within each patch, which MAE predicts ("norm pix").

    The variance is the unbiased one, as in MAE's code.

    Args:
        patches: Patches (N, L, P), P above 1.
        eps: ε, added to the variance.

    Returns:
        Patches of the same shape, with mean 0 and variance 1.

    Example:
        >>> normalized_patches(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[-1.0000,  0.0000,  1.0000]]])
    """
    variance, mean = torch.var_mean(patches, dim=-1, keepdim=True)
    return (patches - mean) * torch.rsqrt(variance + eps)


def masked_reconstruction(
    prediction: torch.Tensor, target: torch.Tensor, masked: torch.Tensor
) -> torch.Tensor:
    """Return the mean squared error of the patches that were *masked* (MAE).

    Args:
        prediction: Predicted patches (N, L, P). Those of visible patches do not count.
        target: Patches (N, L, P) as they are.
        masked: True where a patch was not seen, (N, L).

    Returns:
        One value.

    Example:
        >>> prediction = torch.tensor([[[1.0], [3.0]]])
        >>> masked_reconstruction(prediction, torch.zeros(1, 2, 1), torch.tensor([[False, True]]))
        tensor(9.)
    """
    return _mean_square(prediction, target, masked, "masked")


def noise_prediction(
    prediction: torch.Tensor, noise: torch.Tensor, masked: torch.Tensor
) -> torch.Tensor:
    """Return the mean squared error of the noise in the *visible* patches (CAN).

    Args:
        prediction: Predicted noise (N, L, P). That of masked patches does not count: their noise
            was never seen.
        noise: The noise (N, L, P) as it was added to the images, or `normalized_patches` of it, as
            in CAN's code.
        masked: True where a patch was not seen, (N, L).

    Returns:
        One value.

    Example:
        >>> prediction = torch.tensor([[[1.0], [3.0]]])
        >>> noise_prediction(prediction, torch.zeros(1, 2, 1), torch.tensor([[False, True]]))
        tensor(1.)
    """
    return _mean_square(prediction, noise, ~masked, "visible")


def _mean_square(
    prediction: torch.Tensor, target: torch.Tensor, chosen: torch.Tensor, name: str
) -> torch.Tensor:
    if prediction.shape != target.shape or chosen.shape != prediction.shape[:2]:
        raise ValueError(
            "prediction and target are (N, L, P) and masked is (N, L), got "
            f"{tuple(prediction.shape)}, {tuple(target.shape)} and {tuple(chosen.shape)}."
        )
    if not chosen.any():
        raise ValueError(f"no patch is {name}: choose a mask ratio above 0 and below 1.")
    # All patches have as many values, so that the mean of their means is the mean of all.
    return F.mse_loss(prediction[chosen], target[chosen])


def sincos_positions(
    dim: int,
    grid: tuple[int, int],
    *,
    cls_token: bool = False,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return the fixed embedding of the positions of patches (MAE).

    Half of the width encodes the column, the other half the row, each as sin(pω) … cos(pω) with
    ω = 10,000^(−4i/dim), i = 0 … dim/4 − 1.

    Args:
        dim: Width of the embedding, a multiple of 4.
        grid: Numbers of rows and columns of patches.
        cls_token: Put zeros for a class token in front.
        dtype: Type of the result.

    Returns:
        Embeddings (rows·cols, dim), row by row; one row more with a class token.

    Example:
        >>> sincos_positions(192, (8, 8), cls_token=True).shape
        torch.Size([65, 192])
    """
    if dim < 4 or dim % 4:
        raise ValueError(f"sin-cos positions take a width that 4 divides, got {dim}.")
    rows, cols = (torch.arange(side, dtype=torch.float64) for side in grid)
    steps = torch.arange(dim // 4, dtype=torch.float64) / (dim // 4)
    row_waves = _waves(rows, _LONGEST**-steps)
    col_waves = _waves(cols, _LONGEST**-steps)
    shape = (len(rows), len(cols), dim // 2)
    both = (col_waves.expand(shape), row_waves.unsqueeze(1).expand(shape))
    positions = torch.cat(both, dim=-1).flatten(0, 1)
    if cls_token:
        positions = torch.cat([positions.new_zeros(1, dim), positions])
    return positions.to(dtype)


def sincos_levels(sigma: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the embedding of noise levels (CAN): sin(σω) … cos(σω).

    ω = 10,000^(−i/(dim/2 − 1)), i = 0 … dim/2 − 1, as CAN's code takes it from diffusion models.

    Args:
        sigma: Noise levels σ, (N,).
        dim: Width of the embedding, even and at least 4.

    Returns:
        Embeddings (N, dim).

    Example:
        >>> sincos_levels(torch.tensor([0.0]), dim=4)
        tensor([[0., 0., 1., 1.]])
    """
    if dim < 4 or dim % 2:
        raise ValueError(f"noise levels take an even width of at least 4, got {dim}.")
    steps = torch.arange(dim // 2, dtype=sigma.dtype, device=sigma.device) / (dim // 2 - 1)
    return _waves(sigma, _LONGEST**-steps)


def _waves(values: torch.Tensor, omega: torch.Tensor) -> torch.Tensor:
    angles = values.unsqueeze(-1) * omega
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
