"""C heads as one batched product equal C separate MLPs: outputs, gradients, statistics."""

import pytest
import torch
from torch import nn

from amcl import ProjectionHeads

RECIPES = {
    "SimCLR, MoCo (CIFAR)": ((6, 6, 4), {}),
    "SimCLR v2": ((6, 8, 8, 4), {"norm": True}),
    "SimSiam projector (CIFAR)": ((6, 8, 8), {"norm": True, "last_norm": "affine"}),
    "SimSiam predictor": ((8, 3, 8), {"norm": True, "bias": False, "last_bias": True}),
    "SimSiam projector (ImageNet)": (
        (6, 8, 8, 8),
        {"norm": True, "bias": False, "last_norm": "plain"},
    ),
    "Barlow Twins (CIFAR)": ((6, 8, 8, 8), {"norm": True, "last_norm": "affine"}),
    "Barlow Twins (ImageNet)": (
        (6, 8, 8, 8),
        {"norm": True, "bias": False, "last_norm": "plain"},
    ),
    "MoCo v3 projector": ((6, 8, 8, 4), {"norm": True, "bias": False, "last_norm": "plain"}),
    "MoCo v3 predictor": ((4, 8, 4), {"norm": True, "bias": False, "last_norm": "plain"}),
    "CAN": ((6, 8, 8, 4), {"norm": True}),
    "linear": ((6, 4), {}),
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("shared_input", [True, False])
@pytest.mark.parametrize("num_heads", [1, 3])
def test_equal_to_separate_heads(recipe, shared_input, num_heads):
    widths, options = RECIPES[recipe]
    heads = ProjectionHeads(*widths, num_heads=num_heads, **options).double()
    with torch.no_grad():  # make norms and biases unlike their start
        for parameter in heads.parameters():
            parameter.uniform_(-1, 1)
    singles = [heads.head(c) for c in range(num_heads)]
    shape = (7, widths[0]) if shared_input else (num_heads, 7, widths[0])

    for _ in range(2):  # the second step sees running statistics that have moved
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        z = heads(x)
        expected = torch.stack([f(x if shared_input else x[c]) for c, f in enumerate(singles)])
        assert z.shape == (num_heads, 7, widths[-1])
        torch.testing.assert_close(z, expected, rtol=1e-12, atol=1e-12)
        weight = torch.randn_like(z)
        grads = torch.autograd.grad((z * weight).sum(), [x, *heads.parameters()])
        expected_grad = torch.autograd.grad((expected * weight).sum(), x)[0]
        torch.testing.assert_close(grads[0], expected_grad, rtol=1e-10, atol=1e-10)

    for c, single in enumerate(singles):
        for (name, value), other in zip(
            heads.head(c).state_dict().items(), single.state_dict().values(), strict=True
        ):
            torch.testing.assert_close(value, other, msg=name)
    heads.eval()
    for single in singles:
        single.eval()
    x = torch.randn(shape, dtype=torch.float64)
    expected = torch.stack([f(x if shared_input else x[c]) for c, f in enumerate(singles)])
    torch.testing.assert_close(heads(x), expected, rtol=1e-12, atol=1e-12)


def mlp(*layers):
    return nn.Sequential(*layers)


BY_HAND = {
    "SimCLR, MoCo (CIFAR)": lambda: mlp(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4)),
    "SimSiam projector (CIFAR)": lambda: mlp(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8)
    ),
    "SimSiam predictor": lambda: mlp(
        nn.Linear(8, 3, bias=False), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 8)
    ),
    "MoCo v3 predictor": lambda: mlp(
        nn.Linear(4, 8, bias=False),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, 4, bias=False),
        nn.BatchNorm1d(4, affine=False),
    ),
    "CAN": lambda: mlp(
        nn.Linear(6, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Linear(8, 4),
    ),
    "linear": lambda: mlp(nn.Linear(6, 4)),
}


@pytest.mark.parametrize("recipe", BY_HAND)
def test_heads_are_the_layers_one_would_write_by_hand(recipe):
    widths, options = RECIPES[recipe]
    heads = ProjectionHeads(*widths, num_heads=2, **options)
    by_hand = BY_HAND[recipe]()
    assert str(heads.head(1)) == str(by_hand)
    by_hand.load_state_dict(heads.head(1).state_dict())
    x = torch.randn(7, widths[0])
    torch.testing.assert_close(heads(x)[1], by_hand(x))
    assert heads.eval().head(0).training is False


def test_weight_gradients_are_those_of_separate_heads():
    heads = ProjectionHeads(5, 6, 4, num_heads=3, norm=True).double()
    singles = [heads.head(c) for c in range(3)]
    x, weight = torch.randn(7, 5).double(), torch.randn(3, 7, 4).double()
    (heads(x) * weight).sum().backward()
    for c, single in enumerate(singles):
        (single(x) * weight[c]).sum().backward()
        for batched, plain in ((heads.layers[0], single[0]), (heads.layers[3], single[3])):
            torch.testing.assert_close(batched.weight.grad[c], plain.weight.grad)
            torch.testing.assert_close(batched.bias.grad.view(3, -1)[c], plain.bias.grad)


def test_heads_start_different_and_like_nn_linear():
    torch.manual_seed(0)
    heads = ProjectionHeads(400, 300, num_heads=3)
    first, second = heads.head(0)[0], heads.head(1)[0]
    assert not torch.equal(first.weight, second.weight)
    plain = nn.Linear(400, 300)
    assert first.weight.std().item() == pytest.approx(plain.weight.std().item(), rel=0.02)
    assert heads.layers[0].weight.abs().max() <= plain.weight.abs().max() * 1.01
    assert first.bias.std().item() == pytest.approx(plain.bias.std().item(), rel=0.15)


def test_weight_decay_by_dimension_finds_biases_and_norms():
    heads = ProjectionHeads(5, 6, 4, norm=True, last_norm="affine")
    flat = {name for name, p in heads.named_parameters() if p.ndim < 2}
    assert flat == {
        name
        for name, _ in heads.named_parameters()
        if not name.endswith("s.0.weight") and name != "layers.3.weight"
    }


def test_sync_batch_norm_conversion_keeps_the_layout():
    heads = ProjectionHeads(5, 6, 4, num_heads=3, norm=True).eval()
    x = torch.randn(7, 5)
    expected = heads(x)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(heads)
    assert any(isinstance(m, nn.SyncBatchNorm) for m in converted.modules())
    torch.testing.assert_close(converted(x), expected)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((512,), {}, r"at least two.*ProjectionHeads\(512, 512, 128\)"),
        ((512, 0), {}, "each width must be a whole number, at least 1, got 0"),
        ((512, 8.0, 4), {}, "each width must be a whole number, at least 1, got 8.0"),
        ((512, 128), {"num_heads": 0}, "num_heads must be a whole number, at least 1, got 0"),
        ((512, 128), {"last_norm": "batch"}, "'none', 'plain', 'affine'; got 'batch'"),
    ],
)
def test_bad_settings(args, options, message):
    with pytest.raises(ValueError, match=message):
        ProjectionHeads(*args, **options)


def test_bad_input_and_index():
    heads = ProjectionHeads(512, 128, num_heads=3)
    with pytest.raises(ValueError, match=r"\(N, 512\) or \(3, N, 512\), got \(4, 256\)"):
        heads(torch.randn(4, 256))
    with pytest.raises(ValueError, match=r"got \(2, 4, 512\)"):
        heads(torch.randn(2, 4, 512))
    with pytest.raises(TypeError, match=r"floating-point features, got torch\.int64"):
        heads(torch.ones(4, 512, dtype=torch.long))
    with pytest.raises(IndexError, match="head 3 of 3: choose 0 to 2"):
        heads.head(3)
    with pytest.raises(IndexError, match="head -1 of 3"):
        heads.head(-1)
