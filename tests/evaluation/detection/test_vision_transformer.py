"""Maps of vision transformers: those of the plain network, windows, sizes, what is left out."""

from copy import deepcopy

import pytest
import timm
import torch
from timm.layers import resample_abs_pos_embed, resample_patch_embed
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.evaluation.detection.vision_transformer import (
    VisionTransformerMaps,
    join_windows,
    quarter_ends,
    split_windows,
    window_of,
)
from toy_vits import NETWORKS, SIZE, network_of, shaken, some_images

GRID = 8


def vit(depth=4, **options):
    sizes = {"img_size": 32, "patch_size": 4, "embed_dim": 16, "num_heads": 2, "num_classes": 0}
    return shaken(timm.models.VisionTransformer(depth=depth, **sizes | options))


def plain_maps(network, images):
    """timm's own tokens after each quarter, where no token sees class and register tokens."""
    tokens = (
        network.num_prefix_tokens + (images.shape[-1] // network.patch_embed.patch_size[0]) ** 2
    )
    seen = torch.arange(tokens) >= network.num_prefix_tokens
    return network.forward_intermediates(
        images,
        indices=quarter_ends(len(network.blocks)),
        intermediates_only=True,
        attn_mask=seen.expand(tokens, tokens),
    )


@pytest.mark.parametrize("window", [0, GRID, None])
@pytest.mark.parametrize("name", NETWORKS)
def test_windows_of_the_whole_image_are_the_plain_network(name, window):
    network = network_of(name).double().eval()
    expected = plain_maps(network, images := some_images(2).double())
    maps = VisionTransformerMaps(deepcopy(network), SIZE, window=window).eval()
    for found, one in zip(maps(images), expected, strict=True):
        assert found.shape == (2, network.embed_dim, GRID, GRID)
        torch.testing.assert_close(found, one, atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    "options",
    [
        {"reg_tokens": 3},
        {"reg_tokens": 2, "no_embed_class": True, "init_values": 0.1},
        {"qk_norm": True, "pre_norm": True},
        {"pos_embed": "none"},
        {"class_token": False, "global_pool": "avg", "dynamic_img_size": True},
    ],
)
def test_the_parts_that_vision_transformers_have(options):
    network = vit(**options).double().eval()
    expected = plain_maps(network, images := some_images(2).double())
    found = VisionTransformerMaps(deepcopy(network), SIZE, window=0).eval()(images)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)


def test_in_single_precision_they_agree_too():
    network = vit(depth=12).eval()
    expected = plain_maps(network, images := some_images(2))
    found = VisionTransformerMaps(deepcopy(network), SIZE, window=8).eval()(images)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_positions_of_a_larger_image_are_timms():
    backbone = Backbone(BackboneSettings(name="test_vit", patch=4), image_size=32)
    network = shaken(backbone.network).double().eval()
    maps = VisionTransformerMaps(deepcopy(network), 64, window=0).eval()
    first, patches = network.pos_embed[:, :1], maps.network.pos_embed
    remade = resample_abs_pos_embed(network.pos_embed, (16, 16), num_prefix_tokens=1)
    assert torch.equal(torch.cat([first, patches], dim=1), remade)
    assert "positions of 8 × 8 tokens interpolated to 16 × 16" in maps.notes
    backbone.allow_crops()
    expected = plain_maps(network, images := torch.randn(2, 3, 64, 64).double())
    torch.testing.assert_close(maps(images), expected, atol=1e-10, rtol=0)


def test_windowed_attention_is_a_loop_over_windows():
    network = vit(depth=6, init_values=0.5).double().eval()
    maps = VisionTransformerMaps(deepcopy(network), SIZE, window=4).eval()
    images = some_images(2).double()
    x = network.patch_embed(images) + network.pos_embed[:, 1:]
    expected = []
    for i, block in enumerate(network.blocks):
        h = block.norm1(x)
        if i in (1, 2, 4, 5):
            attended = block.attn(h)
        else:
            attended = torch.full_like(h, torch.nan)
            for image in range(2):
                for top in (0, 4):
                    for left in (0, 4):
                        rows, columns = range(top, top + 4), range(left, left + 4)
                        inside = [row * GRID + column for row in rows for column in columns]
                        attended[image, inside] = block.attn(h[image, inside][None])[0]
        x = x + block.ls1(attended)
        x = x + block.ls2(block.mlp(block.norm2(x)))
        if i in (1, 2, 4, 5):
            expected.append(x.transpose(1, 2).reshape(2, 16, GRID, GRID))
    torch.testing.assert_close(maps(images), expected, atol=1e-10, rtol=0)
    whole = VisionTransformerMaps(deepcopy(network), SIZE, window=0).eval()(images)
    assert all((a - b).abs().max() > 1e-3 for a, b in zip(expected, whole, strict=True))


@pytest.mark.parametrize(
    "name", ["vit_base_patch16_rpn_224", "vit_small_patch16_18x2_224", "deit3_small_patch16_224"]
)
def test_blocks_of_other_kinds_attend_in_windows(name):
    maps = VisionTransformerMaps(timm.create_model(name, num_classes=0), 128, window=4)
    seen = []
    for attention in [m for n, m in maps.network.named_modules() if n.endswith("attn")]:
        attention.qkv.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[1]))
    with torch.no_grad():
        maps.eval()(torch.randn(1, 3, 128, 128))
    per_block = len(seen) // len(maps.network.blocks)
    expected = [64 if i in maps.ends else 16 for i in range(len(maps.network.blocks))]
    assert seen == [tokens for tokens in expected for _ in range(per_block)]


def test_windows_are_cut_in_the_order_of_reading():
    numbers = torch.arange(2 * 36).view(2, 36, 1)
    windows = split_windows(numbers, 6, 2)
    assert windows.shape == (18, 4, 1)
    assert windows[10].flatten().tolist() == [36 + 2, 36 + 3, 36 + 8, 36 + 9]
    assert torch.equal(join_windows(windows, 6, 2), numbers)


def test_paths_are_dropped_by_image():
    network = vit(drop_path_rate=0.5)
    maps = VisionTransformerMaps(network, SIZE, window=4)
    shapes = set()
    for block in network.blocks[1:]:
        block.drop_path1.register_forward_pre_hook(lambda _, args: shapes.add(args[0].shape))
    maps(some_images(3))
    assert shapes == {(3, 64, 16)}


@pytest.mark.parametrize("checkpointing", [False, True])
def test_every_parameter_gets_a_gradient(checkpointing):
    network = vit(depth=5, reg_tokens=2, global_pool="map", drop_path_rate=0.1)
    names = set(network.state_dict())
    maps = VisionTransformerMaps(network, 64, window=4, checkpointing=checkpointing)
    torch.stack([x.square().mean() for x in maps(torch.randn(2, 3, 64, 64))]).sum().backward()
    for name, parameter in maps.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    gone = names - set(network.state_dict())
    parts = {"cls_token", "reg_token", "norm", "attn_pool"}
    assert {name.partition(".")[0] for name in gone} == parts
    assert set(network.state_dict()) < names


def test_checkpointing_changes_nothing():
    torch.manual_seed(1)
    plain = VisionTransformerMaps(vit(drop_path_rate=0.5), SIZE, window=4)
    again = deepcopy(plain)
    again.checkpointing = True
    images, gradients = some_images(), []
    for maps in (plain, again):
        torch.manual_seed(2)
        sum(x.square().mean() for x in maps(images)).backward()
        gradients.append([p.grad for p in maps.parameters()])
    torch.testing.assert_close(*gradients)


def test_patches_of_fourteen_pixels_become_sixteen():
    network = vit(img_size=56, patch_size=14)
    old = network.patch_embed.proj.weight.detach().clone()
    maps = VisionTransformerMaps(network, 128)
    assert maps.notes[:2] == [
        "patches of 14 pixels resampled to 16",
        "positions of 4 × 4 tokens interpolated to 8 × 8",
    ]
    assert (maps.patch, maps.grid, maps.strides) == (16, 8, [16] * 4)
    torch.testing.assert_close(network.patch_embed.proj.weight, resample_patch_embed(old, (16, 16)))


def test_fresh_weights_are_drawn_for_the_larger_grid():
    fresh = VisionTransformerMaps(vit(), 128, scratch=True).network.pos_embed
    assert fresh.shape == (1, 32 * 32, 16)
    assert fresh.std().item() == pytest.approx(0.02, rel=0.1)
    side = fresh.view(32, 32, 16)
    assert (side[1:] * side[:-1]).mean() < 0.1 * fresh.var()  # neighbors are independent


@pytest.mark.parametrize(
    ("grid", "window", "expected"),
    [
        (64, None, 16),
        (20, None, 10),
        (14, None, 14),
        (2, None, 2),
        (34, None, 17),
        (37, None, 37),
        (20, 5, 5),
        (20, 0, 0),
    ],
)
def test_windows_fit_the_grid(grid, window, expected):
    assert window_of(grid, window, 16) == expected


def test_errors_say_what_to_mend():
    with pytest.raises(
        ValueError, match=r"8 × 8 tokens.*windows of 3 × 3: use --window with one of 1"
    ):
        VisionTransformerMaps(vit(), SIZE, window=3)
    with pytest.raises(ValueError, match=r"or --image-size 1120\."):
        window_of(64, 14, 16)
    with pytest.raises(ValueError, match=r"image_size=70 is no multiple of 32.*--image-size 64\."):
        VisionTransformerMaps(vit(), 70)
    with pytest.raises(ValueError, match=r"has 3: choose one with 4 or more"):
        VisionTransformerMaps(vit(depth=3), SIZE)
    with pytest.raises(ValueError, match=r"a Linear is not run as timm's VisionTransformer"):
        VisionTransformerMaps(nn.Linear(2, 2), SIZE)
    with pytest.raises(ValueError, match=r"not known for a ParallelScalingBlock"):
        VisionTransformerMaps(vit(block_fn=timm.models.vision_transformer.ParallelScalingBlock), 32)
    maps = VisionTransformerMaps(vit(), SIZE)
    with pytest.raises(ValueError, match=r"takes images of 32 × 32 pixels.*--image-size"):
        maps(torch.randn(1, 3, 64, 64))
