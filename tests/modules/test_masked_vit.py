"""A vision transformer that sees some patches: what enters it, what comes out, what is decoded."""

import math

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn

from amcl.functional import (
    patchify,
)
from amcl.modules import (
    encode_visible,
    fix_positions,
    init_xavier,
    is_vit,
    plain_vit,
    random_mask,
    visible_indices,
)
from amcl.seeds import generator
from reference import masked as literal
from toy_vits import NETWORKS, PATCH, mask_of, network_of, some_images

# masks


@pytest.mark.parametrize(
    ("tokens", "ratio", "visible"),
    [
        (64, 0.75, 16),
        (196, 0.75, 49),
        (196, 0.5, 98),
        (64, 0.0, 64),
        (10, 0.75, 2),  # 2.5
        (10, 0.8, 2),  # 1.9999999999999996 in floating point
        (100, 0.9, 10),  # 9.999999999999998
        (10, 0.99, 1),  # never none
        (1, 0.5, 1),
    ],
)
def test_each_image_shows_the_same_number_of_patches(tokens, ratio, visible):
    masked = random_mask(5, tokens, ratio, generator("a"))
    assert masked.shape == (5, tokens)
    assert masked.dtype == torch.bool
    assert ((~masked).sum(1) == visible).all()


def test_masks_follow_from_the_generator_and_rows_from_their_place():
    state = torch.get_rng_state()
    whole = random_mask(9, 49, 0.6, generator("a"))
    assert torch.equal(whole, random_mask(9, 49, 0.6, generator("a")))
    assert not torch.equal(whole, random_mask(9, 49, 0.6, generator("b")))
    assert torch.equal(random_mask(4, 49, 0.6, generator("a")), whole[:4])
    parts = generator("a")
    assert torch.equal(torch.cat([random_mask(n, 49, 0.6, parts) for n in (2, 3, 4)]), whole)
    assert torch.equal(torch.get_rng_state(), state)


def test_every_patch_is_masked_as_often():
    share = random_mask(20_000, 8, 0.75, generator("a")).float().mean(0)
    torch.testing.assert_close(share, torch.full((8,), 0.75), rtol=0, atol=0.015)  # 5 sigma


@pytest.mark.parametrize("ratio", [1.0, -0.1, float("nan")])
def test_a_ratio_is_a_share(ratio):
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        random_mask(2, 8, ratio, generator("a"))


def test_visible_indices_are_those_not_masked_in_order():
    masked = mask_of(0.7)
    expected = [[i for i, hidden in enumerate(row) if not hidden] for row in masked.tolist()]
    assert visible_indices(masked).tolist() == expected


@pytest.mark.parametrize(
    ("masked", "said"),
    [
        (torch.tensor([[True, False], [True, True]]), r"got \[0, 1\]"),
        (torch.tensor([[True, True]]), r"\[0\].*random_mask"),
        (torch.zeros(0, 4, dtype=torch.bool), r"\[\].*random_mask"),
        (torch.zeros(2, 4), r"torch\.float32.*random_mask"),
        (torch.zeros(4, dtype=torch.bool), r"\(N, L\)"),
    ],
)
def test_masks_that_cannot_be_batched_are_refused(masked, said):
    with pytest.raises(ValueError, match=said):
        visible_indices(masked)


# encoder


@pytest.mark.parametrize("name", NETWORKS)
def test_with_every_patch_visible_it_is_the_network_itself(name):
    network, images = network_of(name), some_images()
    with torch.no_grad():
        tokens = encode_visible(network, images, mask_of(0.0))
        h, own = network.forward_head(tokens), network(images)
        assert torch.equal(tokens, network.forward_features(images))
    if network.global_pool == "token":
        assert torch.equal(h, own)
    else:  # a mean over tokens that lie otherwise in memory is summed in another order
        torch.testing.assert_close(h, own)


@pytest.mark.parametrize("name", NETWORKS)
def test_leaving_patches_out_is_attention_that_never_looks_at_them(name):
    """timm's own masked attention, over all tokens, is the oracle."""
    network, images, masked = network_of(name).double().eval(), some_images().double(), mask_of(0.7)
    before = network.num_prefix_tokens
    seen = F.pad(~masked, (before, 0), value=True)  # (N, before + L)
    with torch.no_grad():
        tokens = encode_visible(network, images, masked)
        whole = network.forward_features(images, attn_mask=seen[:, None, None, :])
    expected = torch.stack([row[kept] for row, kept in zip(whole, seen, strict=True)])
    torch.testing.assert_close(tokens, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("poison", [torch.nan, 1e9])
def test_masked_patches_cannot_be_seen(poison):
    network, images, masked = network_of(), some_images(), mask_of(0.75)
    hidden = masked.view(-1, 1, 8, 8).repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3)
    spoilt = images.masked_fill(hidden, poison)
    with torch.no_grad():
        tokens = encode_visible(network, images, masked)
        assert torch.equal(encode_visible(network, spoilt, masked), tokens)
        other = encode_visible(network, images.masked_fill(~hidden, 0.0), masked)
    assert not torch.allclose(other, tokens)


def test_gradients_reach_visible_pixels_and_no_others():
    network, images, masked = network_of(), some_images().requires_grad_(), mask_of(0.75)
    encode_visible(network, images, masked).sum(-1).square().sum().backward()
    reached = patchify(images.grad, PATCH).abs().amax(-1) > 0
    assert torch.equal(reached, ~masked)


@pytest.mark.parametrize(("ratio", "tokens"), [(0.0, 65), (0.5, 33), (0.75, 17), (0.9, 7)])
def test_only_visible_tokens_enter_the_blocks(ratio, tokens):
    network, lengths = network_of(), []
    for block in network.blocks:
        block.register_forward_pre_hook(lambda _, args: lengths.append(args[0].shape[1]))
    out = encode_visible(network, some_images(), mask_of(ratio))
    assert lengths == [tokens] * len(network.blocks)
    assert out.shape == (3, tokens, network.embed_dim)


def test_dropout_of_the_embedded_patches_is_kept():
    network = network_of()
    network.pos_drop = nn.Dropout(1.0)
    with torch.no_grad():
        tokens = encode_visible(network.train(), some_images(), mask_of(0.5))
    torch.testing.assert_close(tokens, tokens[:1, :1].expand_as(tokens))


def test_gradients_are_the_same_with_checkpoints():
    network, images, masked = network_of().double(), some_images().double(), mask_of(0.5)
    grads = []
    for enable in (False, True):
        network.set_grad_checkpointing(enable)
        network.zero_grad()
        encode_visible(network, images, masked).square().mean().backward()
        grads.append([p.grad.clone() for p in network.parameters()])
    for plain, checked in zip(*grads, strict=True):
        torch.testing.assert_close(checked, plain)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("deit_tiny_distilled_patch16_224", {}, "VisionTransformerDistilled"),
        ("resnet18", {}, "a ResNet is not run"),
        ("beit_base_patch16_224", {}, "a Beit is not run"),
        ("test_vit2", {}, "1 register tokens"),
        ("vit_tiny_r_s16_p8_224", {}, "convolutional stem.*vit_tiny_patch16_224"),
        ("test_vit", {"pos_embed": "none"}, "no positions.*vit_tiny_patch16_224"),
        ("test_vit", {"patch_drop_rate": 0.5}, "patch_drop_rate"),
    ],
)
def test_networks_that_cannot_be_masked_are_refused(name, options, said):
    with torch.device("meta"):
        network = timm.create_model(name, num_classes=0, **options)
    with pytest.raises(ValueError, match=said):
        encode_visible(network, some_images(), mask_of(0.5))
    with pytest.raises(ValueError, match=said):
        fix_positions(network)


def test_sizes_that_do_not_fit_are_refused():
    network = network_of()
    with pytest.raises(ValueError, match=r"images of \(32, 32\) pixels"):
        encode_visible(network, torch.zeros(3, 3, 16, 16), mask_of(0.5))
    for masked in (mask_of(0.5, n=2), mask_of(0.5)[:, :63]):
        with pytest.raises(ValueError, match="masks of 64 patches"):
            encode_visible(network, some_images(), masked)


# fixed positions


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "test_vit", "deit3_small_patch16_224"])
def test_fixed_positions(name):
    network = network_of(name)
    shapes = {key: value.shape for key, value in network.state_dict().items()}
    fix_positions(network)
    assert {key: value.shape for key, value in network.state_dict().items()} == shapes
    assert not network.pos_embed.requires_grad
    expected = literal.positions(network.embed_dim, 8, 8, cls_token=not network.no_embed_class)
    torch.testing.assert_close(network.pos_embed[0].double(), torch.tensor(expected).double())
    encode_visible(network, some_images(), mask_of(0.5)).sum().backward()
    assert network.pos_embed.grad is None
    assert all(p.grad is not None for n, p in network.named_parameters() if n != "pos_embed")


def test_a_width_without_positions_is_refused_and_nothing_changed():
    network = timm.create_model("test_vit", num_classes=0, embed_dim=62, num_heads=2)
    before = network.pos_embed.detach().clone()
    with pytest.raises(ValueError, match="4 divides, got 62"):
        fix_positions(network)
    assert network.pos_embed.requires_grad
    assert torch.equal(network.pos_embed, before)


# the start


def weights_of(network, separate_qkv):
    """Every matrix that Xavier draws, with its own bounds: a linear layer, or a third of one."""
    for name, part in network.named_modules():
        if isinstance(part, nn.Linear):
            thirds = 3 if separate_qkv and name.endswith("qkv") else 1
            yield from ((name, rows) for rows in part.weight.detach().chunk(thirds))
    kernels = network.patch_embed.proj.weight.detach()
    yield "patch_embed", kernels.reshape(len(kernels), -1)


@pytest.mark.parametrize("separate_qkv", [False, True])
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_base_patch16_siglip_gap_224"])
def test_weights_start_as_xaviers(name, separate_qkv):
    network = network_of(name)
    norms = {key: p.detach().clone() for key, p in network.named_parameters() if "norm" in key}
    positions = network.pos_embed.detach().clone()
    init_xavier(network, separate_qkv=separate_qkv)
    matrices = list(weights_of(network, separate_qkv))
    assert len(matrices) == 12 * (6 if separate_qkv else 4) + 1
    for part, weight in matrices:
        bound = math.sqrt(6 / sum(weight.shape))
        assert weight.abs().max().item() <= bound, part
        assert weight.abs().max().item() == pytest.approx(bound, rel=0.01), part
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05), part  # uniform
    for key, parameter in network.named_parameters():
        if key in norms:
            assert torch.equal(parameter, norms[key]), key
        elif key.endswith("bias"):
            assert not parameter.any(), key
    assert torch.equal(network.pos_embed, positions)
    if network.cls_token is not None:
        std = 1e-6 if separate_qkv else 0.02
        assert network.cls_token.std().item() == pytest.approx(std, rel=0.2)


def test_a_start_follows_from_the_seed_and_is_of_a_vision_transformer():
    starts = []
    for _ in range(2):
        network = network_of()
        torch.manual_seed(3)
        init_xavier(network)
        starts.append(network.blocks[-1].mlp.fc2.weight)
    assert torch.equal(*starts)
    with torch.device("meta"), pytest.raises(ValueError, match="a ResNet is not run"):
        init_xavier(timm.create_model("resnet18", num_classes=0))


@pytest.mark.parametrize(
    ("name", "vit", "plain"),
    [
        ("test_vit", True, True),
        ("vit_base_patch16_siglip_gap_224", True, True),
        ("deit_tiny_distilled_patch16_224", True, False),
        ("test_vit2", True, False),
        ("beit_base_patch16_224", False, False),
        ("resnet18", False, False),
    ],
)
def test_which_networks_are_vision_transformers_and_which_plain(name, vit, plain):
    with torch.device("meta"):
        network = timm.create_model(name, num_classes=0)
    assert is_vit(network) == vit
    if plain:
        assert plain_vit(network) is network
    else:
        with pytest.raises(ValueError, match="Choose a plain vision transformer: vit_tiny_patch16"):
            plain_vit(network)
