"""The losses as users meet them: drop-in, bad input, precision, memory."""

import math
import re
import warnings

import pytest
import torch

import amcl
from amcl.temperature import (
    AdaptiveTemperature,
    ConstantTemperature,
    ScheduledTemperature,
    UncertaintyTemperature,
)


def test_second_derivatives_are_refused_not_wrong():
    z0, z1 = (torch.randn(3, 6, 8, requires_grad=True) for _ in range(2))
    for loss in (
        amcl.AMCLLoss(3, 8),
        amcl.CrossCorrelationLoss(3, AdaptiveTemperature(8, lower=0.5, upper=1.5)),
        lambda a, b: amcl.functional.pair_logit(a, b.exp()).sum(),
        lambda a, b: amcl.functional.pair_logsumexp(a, b.exp()).sum(),
        lambda a, b: amcl.functional.sigma(a * b, 0.1, 1.0).sum(),
    ):
        with pytest.raises(RuntimeError, match=r"differentiable once: leave out create_graph"):
            torch.autograd.grad(loss(z0, z1), z0, create_graph=True)


def test_a_small_loss_is_not_rounded_to_zero():
    """u⁺ − u⁻ = 20: log(1 + e^−20) is 2e-9, below float32's step at 20."""
    s = torch.tensor([[[1.0]]], requires_grad=True)
    loss = amcl.functional.softmax_contrast(
        s, torch.tensor(0.1), torch.tensor([[[-1.0]]]), torch.tensor(0.1)
    )
    loss.backward()
    assert loss.item() == pytest.approx(math.log1p(math.exp(-20)), rel=1e-4)
    assert s.grad.item() == pytest.approx(-10 * math.exp(-20), rel=1e-4)


def test_one_head_needs_no_head_dimension():
    z0, z1 = torch.randn(2, 6, 8)
    loss = amcl.AMCLLoss(1, 8)
    assert loss(z0, z1) == loss(z0[None], z1[None])


@pytest.mark.parametrize(
    ("shape", "fix"),
    [
        ((6, 3, 8), r"heads come first, use z0.transpose\(0, 1\)"),
        ((2, 6, 8), "make the loss with num_heads=2"),
        ((6, 8, 3), r"heads come first, use z0.permute\(2, 0, 1\)"),
        ((6, 8), "give the output of ProjectionHeads, or make the loss with num_heads=1"),
        ((1, 3, 6, 8), r"got \(1, 3, 6, 8\)"),
    ],
)
def test_wrong_shapes(shape, fix):
    z = torch.randn(shape)
    with pytest.raises(ValueError, match=r"z0 must be \(C, N, D\) with C = 3.*" + fix):
        amcl.AMCLLoss(3, 8)(z, z)
    with pytest.raises(ValueError, match=fix):
        amcl.CrossCorrelationLoss(3, ConstantTemperature(1.0))(z, z)


@pytest.mark.parametrize(
    ("z1", "message"),
    [
        (torch.randn(3, 5, 8), r"same N images.*\(6, 8\) and \(5, 8\)"),
        (torch.randn(3, 6, 7), r"same N images.*\(6, 8\) and \(6, 7\)"),
        (torch.randn(2, 6, 8), "z1 must be .* give the output of the 3 heads"),
        ([[1.0]], "z1 must be a tensor .*, got list"),
        (torch.zeros(3, 6, 8, dtype=torch.long), "z1 must be floating point, got torch.int64"),
        (torch.randn(3, 6, 8).index_fill(1, torch.tensor(2), torch.nan), "z1 holds 24 values"),
        (torch.randn(3, 6, 8).index_fill(1, torch.tensor(2), torch.inf), "NaN or infinite"),
    ],
)
def test_views_that_do_not_fit(z1, message):
    with pytest.raises((ValueError, TypeError), match=message):
        amcl.AMCLLoss(3, 8)(torch.randn(3, 6, 8), z1)


def test_nan_names_a_remedy_and_the_check_can_be_switched_off():
    z = torch.full((3, 6, 8), torch.nan)
    with pytest.raises(ValueError, match=r"\bz0\b.*\b144\b.*learning rate"):
        amcl.AMCLLoss(3, 8)(z, z)
    assert amcl.AMCLLoss(3, 8, validate=False)(z, z).isnan()


def test_kappa_larger_than_the_negatives_names_both():
    z0, z1 = torch.randn(2, 3, 6, 8)
    loss = amcl.AMCLLoss(3, 8, form="top_k", top_k=11)
    with pytest.raises(ValueError, match=r"top_k = 11 .* K = 10 negatives.*lower top_k"):
        loss(z0, z1)
    with pytest.raises(ValueError, match="K = 4 negatives"):
        loss(z0, z1, torch.randn(3, 4, 8))
    loss(z0, z1, torch.randn(3, 11, 8))


@pytest.mark.parametrize("negatives", ["both_views", "other_view"])
def test_too_few_images_for_negatives(negatives):
    z0, z1 = torch.randn(2, 3, 1, 8)
    loss = amcl.AMCLLoss(3, 8, negatives=negatives)
    with pytest.raises(ValueError, match="leave no negatives: give at least N = 2 images"):
        loss(z0, z1)
    with pytest.raises(ValueError, match=r"^0 .*N = 2\b.*`negatives`"):
        loss(z0, z1, torch.randn(3, 0, 8))


def test_a_queue_of_another_width():
    z0, z1 = torch.randn(2, 3, 6, 8)
    loss = amcl.AMCLLoss(3, 8)
    with pytest.raises(
        ValueError, match=r"D = 8, got \(3, 4, 9\): keep the output of the same heads"
    ):
        loss(z0, z1, torch.randn(3, 4, 9))
    with pytest.raises(ValueError, match=r"use negatives.transpose\(1, 2\)"):
        loss(z0, z1, torch.randn(3, 8, 40))
    with pytest.raises(
        ValueError, match=r"negatives must be \(C, N, D\) with C = 3.*output of the 3 heads"
    ):
        loss(z0, z1, torch.randn(2, 40, 8))


def test_things_that_are_no_projections():
    z = torch.randn(3, 6, 8)
    with pytest.raises(TypeError, match=r"z0 must be a tensor \(C, N, D\), got ndarray"):
        amcl.AMCLLoss(3, 8)(z.numpy(), z)
    with pytest.raises(TypeError, match=r"negatives must be a tensor \(C, N, D\), got bool"):
        amcl.AMCLLoss(3, 8)(z, z, True)
    with pytest.raises(ValueError, match=r"dim=9, but these are 8 wide: make .* dim=8"):
        amcl.AMCLLoss(3, 9)(z, z)
    with pytest.raises(ValueError, match=r"z0 is 1 wide, and UncertaintyTemperature takes 1 of it"):
        amcl.ContrastiveLoss(3, UncertaintyTemperature())(z[..., :1], z[..., :1])


def test_a_loss_passes_the_epoch_on():
    loss = amcl.ContrastiveLoss(3, ScheduledTemperature())
    loss.set_epoch(200)
    assert loss.temperature.epoch == 200
    with pytest.raises(ValueError, match="epoch must be a finite number, at least 0, got -1"):
        loss.set_epoch(-1)


def test_correlations_need_two_images():
    loss = amcl.CrossCorrelationLoss(3, ConstantTemperature())
    for n, d in ((1, 8), (8, 1)):
        with pytest.raises(
            ValueError, match=rf"2 images and 2 channels, got \(N, D\) = \({n}, {d}\)"
        ):
            loss(*torch.randn(2, 3, n, d))
    with pytest.raises(ValueError, match=r"\(N, D\) = \(6, 8\) and \(5, 8\)"):
        loss(torch.randn(3, 6, 8), torch.randn(3, 5, 8))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, 0, 1, 2], r"labels must be a tensor \(N,\), got list"),
        (torch.rand(6), r"whole numbers.*got torch.float32: use labels.long\(\)"),
        (torch.arange(5), r"\(N,\) with N = 6, got \(5,\)"),
        (torch.arange(12), r"got \(12,\): give one class for each image, not for each view"),
        (torch.eye(6, dtype=torch.long), r"got \(6, 6\)"),
    ],
)
def test_labels_that_do_not_fit(labels, message):
    loss = amcl.SupervisedContrastiveLoss(3, ConstantTemperature())
    z0, z1 = torch.randn(2, 3, 6, 8)
    with pytest.raises((ValueError, TypeError), match=message):
        loss(z0, z1, labels)
    with pytest.raises((ValueError, TypeError), match=message):
        loss.pair_matrix(z0, z1, labels)


def test_one_image_has_nothing_to_be_compared_with():
    loss = amcl.SupervisedContrastiveLoss(3, ConstantTemperature())
    with pytest.raises(ValueError, match="at least N = 2 images"):
        loss(*torch.randn(2, 3, 1, 8), torch.zeros(1, dtype=torch.long))


def test_variances_need_two_images():
    loss = amcl.VICRegLoss(3, ConstantTemperature(1.0))
    with pytest.raises(ValueError, match="at least 2 images, got 1: enlarge the batch"):
        loss(*torch.randn(2, 3, 1, 8))


@pytest.mark.parametrize("name", ["invariance_weight", "variance_weight", "covariance_weight"])
def test_weights_of_vicreg_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be a finite number, at least 0, got -1"):
        amcl.VICRegLoss(3, ConstantTemperature(1.0), **{name: -1.0})


@pytest.mark.parametrize("shape", [(5, 8), (6, 7), (2, 6, 8)])
def test_targets_that_do_not_fit(shape):
    z, h = torch.randn(3, 6, 8), torch.randn(shape)
    with pytest.raises(ValueError, match=r"same N images|h1 must be \(C, N, D\) with C = 3"):
        amcl.NegativeCosineLoss(3, ConstantTemperature())(z, z, h, h)


def test_a_shared_target_may_keep_its_head_dimension():
    z0, z1 = torch.randn(2, 3, 6, 8)
    h0, h1 = torch.randn(2, 6, 8)
    loss = amcl.NegativeCosineLoss(3, ConstantTemperature())
    assert loss(z0, z1, h0, h1) == loss(z0, z1, h0[None], h1[None])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "topk"}, "no form 'topk': did you mean 'top_k'"),
        (
            {"form": "top_k"},
            "top_k must be a whole number, at least 1, got None: form='top_k' keeps",
        ),
        ({"form": "top_k_softmax", "top_k": 0}, "top_k must be a whole number, at least 1, got 0"),
        ({"form": "top_k", "top_k": 2.5}, "got 2.5"),
        ({"top_k": 5}, "form='softmax' takes no top_k=5: use form='top_k' or 'top_k_softmax'"),
        ({"hard_beta": 2.0}, "form='softmax' takes no hard_beta=2.0: use form='hard'"),
        ({"form": "hard", "dclw_sigma": 1}, "takes no dclw_sigma=1: use form='dclw'"),
        ({"form": "dclw", "sigmoid_bias": 0.0}, "takes no sigmoid_bias=0.0: use form='sigmoid'"),
        ({"form": "hard", "hard_beta": -1.0}, "hard_beta must be .* at least 0, got -1.0"),
        ({"form": "hard", "debias": 1.0}, "debias must be below 1, got 1.0"),
        ({"form": "hard", "debias": -0.1}, "debias must be .* at least 0, got -0.1"),
        ({"form": "dclw", "dclw_sigma": 0.0}, "dclw_sigma must be .* above 0, got 0.0"),
        ({"form": "sigmoid", "sigmoid_bias": float("inf")}, "sigmoid_bias must be .* got inf"),
        (
            {"form": "dcl", "positive_in_denominator": True},
            "form='dcl' .* leave out positive_in_denominator=True",
        ),
        (
            {"form": "sigmoid", "positive_in_denominator": False},
            "form='sigmoid' .* leave out positive_in_denominator=False",
        ),
        ({"form": "dclw", "similarity": "relative"}, "form='dclw' .* use similarity='plain'"),
        ({"form": "hard", "similarity": "relative"}, "form='hard' .* use similarity='plain'"),
        ({"form": "sigmoid", "similarity": "relative"}, "form='sigmoid' .*similarity='plain'"),
        ({"beta": -1.0}, "beta must be a finite number, at least 0, got -1.0"),
        ({"beta": float("nan")}, "beta must be a finite number, at least 0, got nan"),
        ({"prior_tau": 0.0}, "prior_tau must be a finite number above 0, got 0.0"),
        ({"prior_tau": "print"}, "above 0, got 'print': .* or 'literal'"),
        (
            {"omega_set": "literal"},
            "goes with form='top_k' or 'max', or with omega_place='outside'",
        ),
        (
            {"form": "max", "omega_place": "outside"},
            "form='max' has no softmax, so Ω is always outside",
        ),
        ({"omega_place": "in"}, "'inside', 'outside'; got 'in'"),
        ({"similarity": "cosine"}, "'relative', 'plain'; got 'cosine'"),
        ({"prior_tau": 0.1, "eta": 0.2}, "prior_tau=0.1 lies outside the range of τ, 0.2 to 0.3"),
        ({"prior_tau": 1.0, "iota": 0.4}, "prior_tau=1.0 lies outside the range of τ, 0.5 to 0.9"),
        ({"omega_set": "sum"}, "'mean', 'literal'; got 'sum'"),
        ({"head_reduction": "max"}, "'mean', 'sum'; got 'max'"),
        ({"negatives": "queue"}, "'both_views', 'other_view'; got 'queue'"),
        ({"num_heads": 0}, "num_heads must be a whole number, at least 1, got 0"),
        ({"num_heads": 3.0}, "num_heads must be a whole number, at least 1, got 3.0"),
        ({"dim": 0}, "dim must be a whole number, at least 1, got 0"),
        ({"beta": "0.1"}, "beta must be a finite number, at least 0, got '0.1'"),
        ({"beta": float("inf")}, "beta must be a finite number"),
        ({"upper": float("inf"), "lower": 0.1}, "upper must be a finite number above 0, got inf"),
        ({"max_pairs": 2.5}, "max_pairs must be a whole number"),
        ({"max_pairs": 0}, "max_pairs must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        amcl.AMCLLoss(**options)


def test_correlations_are_not_trained_toward_low_temperatures_without_a_word():
    with pytest.warns(UserWarning, match=r"τ⁺ of at most 0.138 .* lower=0.5, upper=1.5"):
        amcl.CrossCorrelationLoss(3, AdaptiveTemperature(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        amcl.CrossCorrelationLoss(3, AdaptiveTemperature(8, lower=0.5, upper=1.5))
        amcl.CrossCorrelationLoss(3, ConstantTemperature(1.0))


def test_empty_batches_and_queues_of_another_dtype_are_named():
    loss, queue = amcl.AMCLLoss(3, 8), torch.randn(3, 20, 8)
    with pytest.raises(ValueError, match=r"hold no images, got \(3, 0, 8\): skip empty batches"):
        loss(queue[:, :0], queue[:, :0], queue)
    with pytest.raises(TypeError, match=r"float64 and the views .*use negatives.to\(torch.float32"):
        loss(queue[:, :6], queue[:, 6:12], queue.double())


def test_more_bad_settings():
    with pytest.raises(TypeError, match=r"got 0.1. For a fixed number: ConstantTemperature\(0.1\)"):
        amcl.ContrastiveLoss(3, 0.1)
    with pytest.raises(ValueError, match=r"lam must be a finite number, at least 0, got -1"):
        amcl.CrossCorrelationLoss(3, ConstantTemperature(), lam=-1)
    with pytest.raises(ValueError, match="'samples', 'channels'; got 'batch'"):
        amcl.CrossCorrelationLoss(3, ConstantTemperature(), phi_on="batch")
    with pytest.raises(ValueError, match="'mean', 'sum'; got 'none'"):
        amcl.CrossCorrelationLoss(3, ConstantTemperature(), omega_reduction="none")


def test_the_settings_show_in_the_repr():
    text = repr(amcl.AMCLLoss(3, 8, form="top_k", top_k=4))
    for part in ("num_heads=3", "beta=0.1", "form='top_k', top_k=4", "eta=0.05", "Linear"):
        assert part in text
    assert re.search(
        r"lam=0.005.*\n.*value=1", repr(amcl.CrossCorrelationLoss(2, ConstantTemperature(1.0)))
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_input_is_computed_in_float32(dtype):
    z0, z1 = torch.randn(2, 3, 6, 8).to(dtype)
    loss = amcl.AMCLLoss(3, 8, eta=1e-5, iota=1e-5)
    value = loss(z0, z1)
    assert value.dtype == torch.float32
    assert value == loss(z0.float(), z1.float())


def test_zero_vectors_do_not_break_the_loss():
    z = torch.zeros(3, 6, 8, requires_grad=True)
    value = amcl.AMCLLoss(3, 8)(z, z)
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler's own, on its way in
def test_inside_a_compiled_model():
    heads, loss = amcl.ProjectionHeads(5, 6, 8), amcl.AMCLLoss(3, 8).eval()
    x0, x1 = torch.randn(2, 7, 5)
    expected = loss(heads(x0), heads(x1))
    expected.backward()
    gradients = [p.grad.clone() for p in (*heads.parameters(), *loss.parameters())]
    heads.zero_grad()
    loss.zero_grad()
    compiled = torch.compile(lambda a, b: loss(heads(a), heads(b)), backend="aot_eager")
    value = compiled(x0, x1)
    value.backward()
    torch.testing.assert_close(value, expected)
    for p, gradient in zip((*heads.parameters(), *loss.parameters()), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient)


def test_tau_u_works_with_every_loss():
    scheme = UncertaintyTemperature()
    z0, z1 = torch.randn(2, 3, 6, 9)
    h0, h1 = torch.randn(2, 6, 8)
    assert amcl.ContrastiveLoss(3, scheme)(z0, z1, torch.randn(3, 4, 9)).isfinite()
    assert amcl.NegativeCosineLoss(3, scheme)(z0, z1, h0, h1).isfinite()
    assert amcl.CrossCorrelationLoss(3, scheme)(z0, z1).isfinite()
