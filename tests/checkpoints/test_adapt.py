"""Weights for other patches, positions and channels, resampled by timm's functions."""

import pytest
import timm
import torch
from timm.layers import resample_abs_pos_embed, resample_patch_embed
from timm.models import adapt_input_conv

from amcl.checkpoints.adapt import adapted

FIRST = "patch_embed.proj.weight"


@pytest.fixture(scope="module")
def tensors():
    torch.manual_seed(2)
    return timm.create_model("test_vit", img_size=64, num_classes=0).state_dict()


def vit(**arguments):
    return timm.create_model("test_vit", num_classes=0, **arguments)


def test_what_fits_is_left_alone(tensors):
    result, notes = adapted(tensors, vit(img_size=64), "w")
    assert notes == []
    assert all(result[name] is value for name, value in tensors.items())


def test_positions_keep_those_of_the_class_token(tensors):
    network = vit(img_size=96)
    result, notes = adapted(tensors, network, "w")
    expected = resample_abs_pos_embed(tensors["pos_embed"], [6, 6], num_prefix_tokens=1)
    assert torch.equal(result["pos_embed"], expected)
    assert torch.equal(result["pos_embed"][:, 0], tensors["pos_embed"][:, 0])
    assert notes == ["position embeddings resampled from 4×4 to 6×6 patches"]
    network.load_state_dict(result)


def test_positions_of_registers_are_kept_too():
    small, large = (
        timm.create_model("vit_small_patch14_reg4_dinov2", img_size=s, depth=1, num_classes=0)
        for s in (28, 56)
    )
    result, notes = adapted(small.state_dict(), large, "w")
    large.load_state_dict(result)
    assert notes == ["position embeddings resampled from 2×2 to 4×4 patches"]


def test_patches_and_images_at_once(tensors):
    network = vit(img_size=32, patch_size=4)
    result, notes = adapted(tensors, network, "w")
    assert torch.equal(result[FIRST], resample_patch_embed(tensors[FIRST], [4, 4]))
    assert len(notes) == 2
    network.load_state_dict(result)


def test_the_same_number_of_patches_needs_no_positions(tensors):
    _, notes = adapted(tensors, vit(img_size=32, patch_size=8), "w")
    assert notes == ["patch embeddings resampled from 16×16 to 8×8 pixels"]


@pytest.mark.parametrize("channels", [1, 2, 4, 13])
def test_channels(tensors, channels):
    network = vit(img_size=64, in_chans=channels)
    result, notes = adapted(tensors, network, "w")
    assert torch.equal(result[FIRST], adapt_input_conv(channels, tensors[FIRST].clone()))
    assert notes[0].startswith(f"the first layer takes {channels} channels instead of 3")
    network.load_state_dict(result)
    images = torch.rand(1, 1, 64, 64)
    if channels == 1:  # a gray image has the features of the same image in color
        plain = vit(img_size=64)
        plain.load_state_dict(tensors)
        expected = plain.eval()(images.expand(1, 3, 64, 64))
        torch.testing.assert_close(network.eval()(images), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["resnet10t", "test_convnext", "test_efficientnet"])
def test_channels_of_convolutional_networks(name):
    network = timm.create_model(name, in_chans=4, num_classes=0)
    result, notes = adapted(timm.create_model(name, num_classes=0).state_dict(), network, "w")
    assert len(notes) == 1
    network.load_state_dict(result)


def test_other_channels_than_three_are_not_adapted():
    gray = vit(img_size=64, in_chans=1).state_dict()
    with pytest.raises(ValueError, match=r"first layer in w.* takes 1 channels.* takes 3"):
        adapted(gray, vit(img_size=64), "w")


def test_positions_that_are_no_square(tensors):
    wide = {**tensors, "pos_embed": torch.zeros(1, 1 + 4 * 5, 64)}
    with pytest.raises(ValueError, match=r"position embeddings in w are 21.*--image-size"):
        adapted(wide, vit(img_size=64), "w")


def test_another_network_is_left_to_be_refused(tensors):
    result, notes = adapted(tensors, timm.create_model("resnet10t", num_classes=0), "w")
    assert (result, notes) == (tensors, [])
