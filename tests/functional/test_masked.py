"""Masked image modeling: patches, losses and embeddings against literal loops, and their laws."""

import pytest
import torch
from timm.layers import PatchEmbed

from amcl.functional import (
    masked_reconstruction,
    noise_prediction,
    normalized_patches,
    patchify,
    sincos_levels,
    sincos_positions,
    unpatchify,
)
from reference import masked as literal

N, L, P = 3, 4, 12


def close(value, expected):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)


@pytest.fixture
def patches():
    return torch.randn(2, N, L, P, dtype=torch.float64).unbind(0)


@pytest.fixture
def masked():
    """Rows with different numbers of masked patches: the mean is over patches, not over images."""
    return torch.tensor([[1, 1, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]], dtype=torch.bool)


@pytest.mark.parametrize(("size", "patch"), [(8, 4), (6, 2), (4, 4), (3, 1)])
def test_patches(size, patch):
    images = torch.randn(2, 3, size, size, dtype=torch.float64)
    cut = patchify(images, patch)
    assert cut.tolist() == [literal.patches(image, patch) for image in images.tolist()]
    assert torch.equal(unpatchify(cut, patch), images)
    close(normalized_patches(cut), [[literal.normalized(p) for p in ps] for ps in cut.tolist()])


def test_patches_are_in_the_order_of_the_vision_transformer():
    """A patch embedding whose kernels each pick one value of a patch gives the patches."""
    patch = 4
    embed = PatchEmbed(img_size=16, patch_size=patch, embed_dim=patch**2 * 3, bias=False)
    with torch.no_grad():
        embed.proj.weight.copy_(unpatchify(torch.eye(patch**2 * 3).unsqueeze(1), patch))
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(embed(images), patchify(images, patch))


def test_normalized_patches_of_one_color_are_zero_and_finite():
    flat = torch.full((1, 2, 48), 0.7)
    assert normalized_patches(flat).abs().max() < 1e-3
    normal = normalized_patches(1e4 + torch.randn(1, 2, 48))
    torch.testing.assert_close(normal.var(-1), torch.ones(1, 2), rtol=1e-3, atol=0)


def test_losses(patches, masked):
    prediction, target = patches
    given = (prediction.tolist(), target.tolist(), masked.tolist())
    close(masked_reconstruction(prediction, target, masked), literal.mean_error(*given, True))
    close(noise_prediction(prediction, target, masked), literal.mean_error(*given, False))


@pytest.mark.parametrize("loss", [masked_reconstruction, noise_prediction])
def test_gradients(loss, patches, masked):
    prediction, target = (p.requires_grad_() for p in patches)
    assert torch.autograd.gradcheck(lambda p, t: loss(p, t, masked), (prediction, target))


def test_only_masked_patches_are_reconstructed_and_only_visible_ones_denoised(patches, masked):
    prediction, target = patches
    prediction.requires_grad_()
    (reconstruction,) = torch.autograd.grad(
        masked_reconstruction(prediction, target, masked), prediction
    )
    (noise,) = torch.autograd.grad(noise_prediction(prediction, target, masked), prediction)
    assert not reconstruction[~masked].any()
    assert reconstruction[masked].all()
    assert not noise[masked].any()
    assert noise[~masked].all()


def test_what_is_left_out_cannot_spoil_loss_or_gradient(patches, masked):
    prediction, target = (p.detach().clone() for p in patches)
    expected = masked_reconstruction(prediction, target, masked)
    prediction[~masked] = torch.nan
    prediction.requires_grad_()
    loss = masked_reconstruction(prediction, target, masked)
    loss.backward()
    assert loss == expected
    assert prediction.grad.isfinite().all()


def test_losses_of_half_precision_are_summed_in_single(masked):
    prediction, noise = torch.randn(2, N, L, P).unbind(0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = masked_reconstruction(prediction.bfloat16(), noise, masked)
    assert loss.dtype == torch.float32


@pytest.mark.parametrize("cls_token", [True, False])
@pytest.mark.parametrize(("dim", "grid"), [(8, (2, 3)), (16, (4, 4)), (4, (3, 1))])
def test_positions(dim, grid, cls_token):
    places = sincos_positions(dim, grid, cls_token=cls_token, dtype=torch.float64)
    close(places, literal.positions(dim, *grid, cls_token))
    single = sincos_positions(dim, grid, cls_token=cls_token)
    assert single.dtype == torch.float32
    assert torch.equal(single, places.float())


def test_noise_levels():
    sigma = torch.tensor([0.0, 0.013, 0.05], dtype=torch.float64)
    for dim in (4, 10, 192):
        close(sincos_levels(sigma, dim), [literal.noise_level(s, dim) for s in sigma.tolist()])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: patchify(torch.zeros(1, 3, 10, 10), 4), r"\(1, 3, 10, 10\)"),
        (lambda: patchify(torch.zeros(1, 3, 8, 4), 4), r"\(1, 3, 8, 4\)"),
        (lambda: patchify(torch.zeros(3, 8, 8), 4), r"got \(3, 8, 8\)"),
        (lambda: unpatchify(torch.zeros(1, 5, 48), 4), r"\(1, 5, 48\)"),
        (lambda: unpatchify(torch.zeros(1, 4, 47), 4), r"\(1, 4, 47\)"),
        (lambda: unpatchify(torch.zeros(4, 48), 4), r"got \(4, 48\)"),
        (lambda: sincos_positions(6, (2, 2)), "4 divides, got 6"),
        (lambda: sincos_levels(torch.zeros(2), 2), "got 2"),
        (lambda: sincos_levels(torch.zeros(2), 7), r"\beven\b.*\b7\b"),
    ],
)
def test_what_does_not_fit_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_a_loss_needs_patches_and_shapes_that_fit():
    x = torch.zeros(2, 4, 12)
    none = torch.zeros(2, 4, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"\bmasked\b.*\bmask ratio\b"):
        masked_reconstruction(x, x, none)
    with pytest.raises(ValueError, match=r"\bvisible\b.*\bmask ratio\b"):
        noise_prediction(x, x, ~none)
    with pytest.raises(ValueError, match=r"got \(2, 4, 12\), \(2, 1, 12\)"):
        masked_reconstruction(x, x[:, :1], ~none)
    with pytest.raises(ValueError, match=r"masked is \(N, L\)"):
        masked_reconstruction(x, x, ~none[:, :3])
