"""The losses as users meet them: drop-in, bad input, precision, memory."""

import math
import re
import warnings

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import amcl
from amcl.losses.pairs import Items, Pairs, Partners
from amcl.temperature import (
    AdaptiveTemperature,
    ConstantTemperature,
    ScheduledTemperature,
    UncertaintyTemperature,
)
from schemes import SCHEMES, projections


def test_the_drop_in_line():
    z0, z1 = torch.randn(2, 3, 32, 128)
    loss = amcl.AMCLLoss(num_heads=3, dim=128)(z0, z1)
    assert loss.ndim == 0
    assert loss.isfinite()


def test_the_drop_in_is_infonce_with_an_adaptive_temperature():
    drop_in = amcl.AMCLLoss(3, 8)
    spelled_out = amcl.ContrastiveLoss(
        3, AdaptiveTemperature(8, eta=0.05, iota=0.1), beta=0.1, prior_tau=0.1
    )
    spelled_out.load_state_dict(drop_in.state_dict())
    z0, z1 = torch.randn(2, 3, 6, 8)
    assert drop_in(z0, z1) == spelled_out(z0, z1)


@pytest.mark.parametrize(
    "option",
    [
        *({"lower": 0.2, "upper": 0.4}, {"eta": 0.2}, {"iota": 0.2}),
        *({"beta": 2.0}, {"prior_tau": 0.3}, {"phi_scale": 4.0}, {"phi_output": "plain"}),
    ],
)
def test_options_of_the_drop_in_arrive(option):
    loss, plain = amcl.AMCLLoss(3, 8, **option), amcl.AMCLLoss(3, 8)
    plain.load_state_dict(loss.state_dict())
    z0, z1 = torch.randn(2, 3, 6, 8)
    assert loss(z0, z1) != plain(z0, z1)


def test_the_drop_in_has_its_range_around_its_prior():
    for given, ends in (({}, (0.5, 1.5)), ({"eta": 0.2}, (0.2, 1.2)), ({"iota": 0.6}, (0.5, 1.1))):
        temperature = amcl.AMCLLoss(3, 8, prior_tau=1.0, phi_gradient=False, **given).temperature
        assert (temperature.eta, temperature.eta + temperature.iota) == pytest.approx(ends)
        assert not temperature.phi_gradient


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
    with pytest.raises(ValueError, match="lower the learning rate, clip gradients"):
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
    with pytest.raises(ValueError, match="leave no negatives"):
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
        ({"top_k": 5}, "form='softmax' takes no top_k, got 5"),
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": 0.5}, r"AMCLLoss has no setting 'tau': the temperature .* is prior_tau"),
        ({"temperature": 0.5}, r"no setting 'temperature': .* use ContrastiveLoss\(num_heads"),
        ({"phi_deep": 2}, r"no setting 'phi_deep': accepted are .*phi_depth, phi_gradient"),
    ],
)
def test_the_drop_in_names_its_settings(options, message):
    with pytest.raises(TypeError, match=message):
        amcl.AMCLLoss(3, 8, **options)


def test_the_drop_in_takes_all_that_belongs_to_phi():
    temperature = amcl.AMCLLoss(3, 8, phi_input="raw", phi_depth=2, phi_scale=1.5).temperature
    assert (temperature.phi_input, temperature.phi_scale) == ("raw", 1.5)
    assert len(temperature.phi) == 3


@pytest.mark.parametrize(
    ("given", "prior_tau"),
    [
        ({}, 0.1),
        ({"eta": 0.2}, 0.25),
        ({"lower": 0.5, "upper": 1.5}, 1.0),
        ({"lower": 0.05, "upper": 0.5}, 0.1),
    ],
)
def test_the_prior_of_the_drop_in_lies_inside_its_range(given, prior_tau):
    assert amcl.AMCLLoss(3, 8, **given).prior_tau == pytest.approx(prior_tau)


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


class LargestTensor(TorchDispatchMode):
    """Counts the elements of the largest float32 tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.dtype == torch.float32:
                self.elements = max(self.elements, x.untyped_storage().nbytes() // 4)
        return out


@pytest.mark.parametrize("form", [{}, {"form": "top_k", "top_k": 5}])
def test_blocks_never_hold_more_pairs_than_stated(form):
    z0, z1 = torch.randn(2, 3, 64, 4, requires_grad=True).unbind(0)
    queue = torch.randn(3, 500, 4)

    def largest(max_pairs):
        with LargestTensor() as largest:
            amcl.AMCLLoss(3, 4, max_pairs=max_pairs, **form)(z0, z1, queue).backward()
        return largest.elements

    assert largest(10**9) >= 3 * 64 * 500
    assert largest(20_000) <= 20_000


def pairs_of(heads, n, m):
    """Pairs of a size, which take no memory."""

    def items(count):
        return torch.zeros(()).expand(heads, count, 8)

    anchors = Items(items(n), items(n), items(n))
    return Pairs(
        anchors, Partners(items(n), items(n)), Partners(items(m), items(m)), torch.zeros(n, 0)
    )


@pytest.mark.parametrize(
    "max_pairs", [1, 7, 500, 1000, 20_000, 32_000, 63_999, 64_000, 96_000, 10**9]
)
def test_blocks_cover_all_pairs_and_keep_the_bound(max_pairs):
    pairs = pairs_of(3, 64, 500)
    seen = torch.zeros(3, 64)
    lengths = set()
    for heads, rows in pairs.blocks(max_pairs):
        seen[heads, rows] += 1
        size = (heads.stop - heads.start) * (rows.stop - rows.start)
        assert size == 1 or size * 500 <= max_pairs
        lengths.add(rows.stop - rows.start)
    assert (seen == 1).all()
    assert len(pairs.blocks(96_000)) == 1
    assert len(pairs.blocks(64_000)) == 2  # two heads, then one
    assert len(lengths) == 1 or max(lengths) - min(lengths) <= 64 // min(lengths) + 1


def test_large_problems_are_walked_in_blocks_without_being_asked():
    assert len(pairs_of(3, 256, 256).blocks(None)) == 1
    for heads, rows in pairs_of(3, 4096, 65_536).blocks(None):
        assert (heads.stop - heads.start) * (rows.stop - rows.start) <= 128
    accelerator = pairs_of(3, 4096, 65_536)
    accelerator = accelerator.with_tensors([x.to("meta") for x in accelerator.tensors])
    assert len(accelerator.blocks(None)) < len(pairs_of(3, 4096, 65_536).blocks(None))


def test_blocks_of_correlations_give_the_same_gradients():
    temperature = AdaptiveTemperature(12).double()
    z0, z1 = (torch.randn(2, 6, 12, dtype=torch.float64, requires_grad=True) for _ in range(2))
    results = []
    for max_pairs in (10**9, 50):
        loss = amcl.CrossCorrelationLoss(2, temperature, beta=0.3, max_pairs=max_pairs)
        value = loss(z0, z1)
        results.append([value, *torch.autograd.grad(value, [z0, z1, *loss.parameters()])])
    for plain, blocked in zip(*results, strict=True):
        torch.testing.assert_close(blocked, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("form", [{}, {"form": "top_k", "top_k": 3}])
def test_blocks_of_heads_and_rows_give_the_same_gradients_for_every_scheme(scheme, form):
    temperature = SCHEMES[scheme].make(4).double()
    z0, z1 = projections(temperature, (3, 6, 4), (3, 6, 4))
    results = []
    for max_pairs in (10**9, 12 * 12, 40):  # all at once, head by head, some rows of a head
        loss = amcl.ContrastiveLoss(3, temperature, beta=0.3, max_pairs=max_pairs, **form)
        value = loss(z0, z1)
        results.append([value, *torch.autograd.grad(value, [z0, z1, *loss.parameters()])])
    for plain, *blocked in zip(*results, strict=True):
        for other in blocked:
            torch.testing.assert_close(other, plain, rtol=1e-10, atol=1e-12)


def test_numbers_of_numpy_are_numbers():
    loss = amcl.AMCLLoss(
        np.int64(3), np.int64(8), beta=np.float32(0.1), form="top_k", top_k=np.int64(2)
    )
    assert loss(*torch.randn(2, 3, 6, 8)).isfinite()


def test_in_blocks_without_gradients():
    z0, z1 = torch.randn(2, 3, 16, 4)
    loss = amcl.AMCLLoss(3, 4)
    with torch.no_grad():
        plain = loss(z0, z1)
        loss.max_pairs = 200
        torch.testing.assert_close(loss(z0, z1), plain)


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
