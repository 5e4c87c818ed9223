"""Laws that hold for any input, tried on many (hypothesis)."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import example, given, settings

import amcl
from amcl.functional import sigma
from amcl.temperature import AdaptiveTemperature, SplitTemperature

seeds = st.integers(0, 2**31)
betas = st.floats(0.0, 5.0)
forms = st.sampled_from(
    [
        {"form": "softmax"},
        {"form": "softmax", "positive_in_denominator": False},
        {"form": "top_k", "top_k": 3},
        {"form": "top_k", "top_k": 3, "omega_set": "literal"},
        {"form": "top_k_softmax", "top_k": 3},
        {"form": "max"},
        {"form": "dcl"},
        {"form": "dclw"},
        {"form": "hard", "debias": 0.3},
        {"form": "sigmoid", "sigmoid_bias": -2.0},
    ]
)
sizes = st.tuples(st.integers(1, 4), st.integers(3, 7), st.integers(2, 9))


def batch(seed, *shapes):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def make(size, beta, form):
    c, _, d = size
    return amcl.ContrastiveLoss(c, AdaptiveTemperature(d), beta=beta, **form).double().eval()


@given(seeds, sizes, betas, forms)
def test_order_of_negatives_does_not_matter(seed, size, beta, form):
    c, n, d = size
    loss = make(size, beta, form)
    z0, z1, queue = batch(seed, (c, n, d), (c, n, d), (c, 8, d))
    shuffled = queue[:, torch.randperm(8)]
    torch.testing.assert_close(loss(z0, z1, shuffled), loss(z0, z1, queue))


@given(seeds, sizes, betas, forms)
def test_order_of_images_and_of_views_does_not_matter(seed, size, beta, form):
    c, n, d = size
    loss = make(size, beta, form)
    z0, z1 = batch(seed, (c, n, d), (c, n, d))
    order = torch.randperm(n)
    torch.testing.assert_close(loss(z1[:, order], z0[:, order]), loss(z0, z1))


@given(seeds, sizes, betas, forms, st.floats(1e-3, 1e3))
def test_scale_of_z_does_not_matter(seed, size, beta, form, scale):
    c, n, d = size
    loss = make(size, beta, form)
    z0, z1, lengths = batch(seed, (c, n, d), (c, n, d), (c, n, 1))
    torch.testing.assert_close(loss(z0 * lengths.exp() * scale, z1), loss(z0, z1))


@given(seeds, sizes, betas, st.integers(1, 60))
def test_supervised_blocks_do_not_change_value_or_gradients(seed, size, beta, max_pairs):
    c, n, d = size
    temperature = SplitTemperature(
        positive=AdaptiveTemperature(d), negative=AdaptiveTemperature(d)
    ).double()
    plain, blocked = (
        amcl.SupervisedContrastiveLoss(c, temperature, beta=beta, max_pairs=most).eval()
        for most in (None, max_pairs)
    )
    z0, z1 = (z.requires_grad_() for z in batch(seed, (c, n, d), (c, n, d)))
    labels = torch.arange(n) % 2
    inputs = [z0, z1, *temperature.parameters()]
    value, other = plain(z0, z1, labels), blocked(z0, z1, labels)
    torch.testing.assert_close(other, value, rtol=1e-12, atol=1e-12)
    for a, b in zip(
        torch.autograd.grad(other, inputs), torch.autograd.grad(value, inputs), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@given(seeds, sizes, betas)
def test_names_and_order_of_classes_do_not_matter(seed, size, beta):
    c, n, d = size
    loss = amcl.SupervisedContrastiveLoss(c, AdaptiveTemperature(d), beta=beta).double().eval()
    z0, z1 = batch(seed, (c, n, d), (c, n, d))
    labels, order = torch.arange(n) % 3, torch.randperm(n)
    renamed = torch.tensor([70, -2, 9])[labels]
    value = loss(z1[:, order], z0[:, order], renamed[order])
    torch.testing.assert_close(value, loss(z0, z1, labels))


@given(seeds, sizes, betas)
def test_the_mean_of_projections_does_not_matter_to_vicreg(seed, size, beta):
    c, n, d = size
    loss = amcl.VICRegLoss(c, AdaptiveTemperature(d), beta=beta).double().eval()
    z0, z1, shift = batch(seed, (c, n, d), (c, n, d), (c, 1, d))
    torch.testing.assert_close(loss(z0 + 10 * shift, z1 + 10 * shift), loss(z0, z1))
    torch.testing.assert_close(loss(z1, z0), loss(z0, z1))


@given(seeds, sizes, betas, forms)
def test_equal_heads_give_c_times_one_head(seed, size, beta, form):
    _, n, d = size
    one = make((1, n, d), beta, form)
    three = amcl.ContrastiveLoss(3, one.temperature, beta=beta, head_reduction="sum", **form)
    z0, z1 = batch(seed, (1, n, d), (1, n, d))
    torch.testing.assert_close(three(z0.expand(3, n, d), z1.expand(3, n, d)), 3 * one(z0, z1))


@given(seeds, sizes, betas, forms, st.integers(1, 60))
def test_blocks_do_not_change_value_or_gradients(seed, size, beta, form, max_pairs):
    c, n, d = size
    plain = make(size, beta, form)
    blocked = amcl.ContrastiveLoss(
        c, plain.temperature, beta=beta, max_pairs=max_pairs, **form
    ).eval()
    blocked.contrast_form = plain.contrast_form
    z0, z1 = (z.requires_grad_() for z in batch(seed, (c, n, d), (c, n, d)))
    inputs = [z0, z1, *plain.parameters()]
    value, other = plain(z0, z1), blocked(z0, z1)
    torch.testing.assert_close(other, value, rtol=1e-12, atol=1e-12)
    for a, b in zip(
        torch.autograd.grad(other, inputs), torch.autograd.grad(value, inputs), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=True), min_size=1),
    st.floats(1e-5, 2.0),
    st.floats(1e-5, 2.0),
)
@example([3.4e38, -3.4e38, 0.0], 1e-5, 2.0)
def test_tau_stays_inside_its_bounds(r, eta, iota):
    tau = sigma(torch.tensor(r, dtype=torch.float32), eta, iota)
    slack = 1e-6 * (eta + iota)  # rounding of float32
    assert (tau >= eta - slack).all()
    assert (tau <= eta + iota + slack).all()
    assert (tau > 0).all()


@given(st.floats(-50, 50), st.floats(1e-3, 10))
def test_sigma_falls_with_similarity(r, step):
    low, high = sigma(torch.tensor([r, r + step], dtype=torch.float64), 0.05, 1.0)
    assert high <= low


paper_space = {
    "eta": st.floats(1e-5, 2.0),
    "iota": st.floats(1e-5, 2.0),
    "beta": st.floats(1e-5, 10.0),
    "prior_tau": st.sampled_from([0.1, 1.0, "literal"]),
}
corner = {"eta": 1e-5, "iota": 2.0, "beta": 10.0, "prior_tau": "literal"}
floor = {"eta": 1e-5, "iota": 1e-5, "beta": 1e-5, "prior_tau": 0.1}
all_forms = st.sampled_from(
    ["contrastive", "negative_cosine", "cross_correlation", "vicreg", "supervised"]
)


def run_once(point, form, which, seed, autocast):
    torch.manual_seed(seed % 1000)
    heads = amcl.ProjectionHeads(20, 32, 16, num_heads=3)
    range_ = {k: point[k] for k in ("eta", "iota")}
    omega = {k: point[k] for k in ("beta", "prior_tau")}
    temperature = AdaptiveTemperature(16, **range_)
    with torch.no_grad():  # as if trained: φ that saturates σ on both sides
        temperature.phi[0].weight.mul_(30.0)
    if which == "contrastive":
        loss = amcl.ContrastiveLoss(3, temperature, **omega, **form)
    elif which == "negative_cosine":
        loss = amcl.NegativeCosineLoss(3, temperature, **omega)
    elif which == "supervised":
        loss = amcl.SupervisedContrastiveLoss(3, temperature, **omega)
    elif which == "vicreg":
        loss = amcl.VICRegLoss(3, temperature, **omega)
    else:
        loss = amcl.CrossCorrelationLoss(3, temperature, **omega)
    x0, x1 = torch.randn(2, 8, 20)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        z0, z1 = heads(x0), heads(x1)
        assert z0.dtype == (torch.bfloat16 if autocast else torch.float32)
        targets = (z0[0], z1[0]) if which == "negative_cosine" else ()
        targets = (torch.arange(8) % 3,) if which == "supervised" else targets
        value = loss(z0, z1, *targets)
    assert value.dtype == torch.float32
    assert value.isfinite()
    full = [h.float() if h.is_floating_point() else h for h in targets]
    assert value == loss(z0.float(), z1.float(), *full)
    value.backward()
    for name, p in [*heads.named_parameters(), *loss.named_parameters()]:
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name


@settings(max_examples=150)
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16 autocast"])
@given(st.fixed_dictionaries(paper_space), forms, all_forms, seeds)
@example(corner, {"form": "top_k", "top_k": 3, "omega_set": "literal"}, "contrastive", 0)
@example(corner, {"form": "softmax"}, "contrastive", 1)
@example(floor, {"form": "max"}, "contrastive", 2)
@example(corner, {"form": "softmax"}, "cross_correlation", 3)
@example(floor, {"form": "softmax"}, "negative_cosine", 4)
@example(corner, {"form": "softmax"}, "vicreg", 5)
@example(floor, {"form": "softmax"}, "supervised", 6)
def test_finite_over_the_search_space_of_the_paper(autocast, point, form, which, seed):
    run_once(point, form, which, seed, autocast)
