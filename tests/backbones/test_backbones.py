"""Backbones: timm's own networks, with the small stem and the widths that were asked for."""

import math
import warnings

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

from amcl.backbones import Backbone, BackboneSettings, backbone_of


def make(name, image_size, **options):
    return Backbone(BackboneSettings(name=name, **options), image_size)


def on_meta(name, image_size, **options):
    with torch.device("meta"):
        return make(name, image_size, **options).network


def shapes(network):
    return {name: value.shape for name, value in network.state_dict().items()}


def convolutions(network):
    return {name: m for name, m in network.named_modules() if isinstance(m, nn.Conv2d)}


@pytest.mark.parametrize("width", [1.0, 0.25])
@pytest.mark.parametrize("name", ["resnet18", "resnet10t"])
def test_small_stem_is_3x3_with_stride_1_and_no_pooling(name, width):
    network = make(name, 32, width=width).network
    assert isinstance(network.conv1, nn.Conv2d)
    assert network.conv1.weight.shape == (64 * width, 3, 3, 3)
    assert network.conv1.stride == (1, 1)
    assert network.conv1.bias is None
    assert not any(isinstance(m, nn.MaxPool2d) for m in network.modules())
    maps = network.act1(network.bn1(network.conv1(torch.randn(2, 3, 32, 32))))
    assert network.layer1(network.maxpool(maps)).shape[2:] == (32, 32)
    assert network.forward_features(torch.randn(2, 3, 32, 32)).shape[2:] == (4, 4)


def test_replaced_stem_starts_as_timm_starts_convolutions():
    weight = make("resnet18", 32).network.conv1.weight
    assert weight.std().item() == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.1)
    narrow = make("resnet18", 224, width=0.5).network.conv1.weight
    assert narrow.std().item() == pytest.approx(math.sqrt(2 / (32 * 49)), rel=0.1)


@pytest.mark.parametrize(
    ("stem", "image_size", "kernel"),
    [("auto", 64, 3), ("auto", 65, 7), ("standard", 32, 7), ("small", 224, 3)],
)
def test_auto_takes_the_small_stem_up_to_64_pixels(stem, image_size, kernel):
    network = on_meta("resnet18", image_size, stem=stem)
    assert network.conv1.kernel_size == (kernel, kernel)


@pytest.mark.parametrize("name", ["resnet50", "resnet10t"])
def test_as_published_it_has_timms_keys_and_shapes(name):
    with torch.device("meta"):
        published = timm.create_model(name, num_classes=0)
    assert shapes(on_meta(name, 224)) == shapes(published)


def test_weights_load_into_timms_own_network_and_compute_the_same():
    backbone = make("resnet18", 224).eval()
    published = timm.create_model("resnet18", num_classes=0).eval()
    published.load_state_dict(backbone.network.state_dict(), strict=True)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(backbone(images), published(images), rtol=0, atol=0)


def test_small_stem_changes_the_stem_alone():
    small, published = shapes(on_meta("resnet18", 32)), shapes(on_meta("resnet18", 224))
    assert small.keys() == published.keys()
    assert [name for name in small if small[name] != published[name]] == ["conv1.weight"]


def test_resnet50_of_twice_the_width_has_94_million_parameters():
    network = on_meta("resnet50", 224, width=2)
    count = sum(p.numel() for p in network.parameters())
    assert count == pytest.approx(94e6, rel=0.01)  # SimCLR, Table 1
    assert network.num_features == 4096


@pytest.mark.parametrize("width", [0.25, 2.0])
@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet10t"])
def test_width_scales_every_convolution_and_nothing_else(name, width):
    with torch.device("meta"):
        published = convolutions(timm.create_model(name, num_classes=0))
    scaled = convolutions(on_meta(name, 224, width=width))
    assert scaled.keys() == published.keys()
    for key, conv in scaled.items():
        plain = published[key]
        assert conv.out_channels == plain.out_channels * width, key
        assert conv.in_channels == (3 if plain.in_channels == 3 else plain.in_channels * width), key
        assert (conv.kernel_size, conv.stride, conv.padding) == (
            plain.kernel_size,
            plain.stride,
            plain.padding,
        ), key


def test_tiny_width_leaves_a_channel():
    backbone = make("resnet18", 32, width=0.001).eval()
    assert backbone(torch.randn(2, 3, 32, 32)).shape == (2, 1)


@pytest.mark.parametrize(
    ("image_size", "stem", "patch"),
    [(64, "auto", 8), (96, "auto", 16), (96, "small", 12)],
)
def test_vision_transformer_is_made_for_its_images(image_size, stem, patch):
    network = on_meta("vit_tiny_patch16_224", image_size, stem=stem)
    assert network.patch_embed.patch_size == (patch, patch)
    assert network.patch_embed.num_patches == (image_size // patch) ** 2


def test_width_of_a_vision_transformer_is_a_number_of_heads():
    backbone = make("vit_tiny_patch16_224", 32, width=1 / 3)
    assert backbone.network.blocks[0].attn.num_heads == 1  # of 3, each 64 wide
    assert backbone.dim == 64
    assert backbone(torch.randn(2, 3, 32, 32)).shape == (2, 64)


def test_vision_transformer_needs_a_multiple_of_its_patch():
    with pytest.raises(
        ValueError, match=r"patches of 16 pixels, and 100 .* use an image size of 96"
    ):
        make("vit_tiny_patch16_224", 100)


@pytest.mark.parametrize(
    ("name", "image_size"),
    [("resnet18", 32), ("resnet50", 32), ("convnext_atto", 96)],
)
def test_dim_is_what_comes_out(name, image_size):
    backbone = make(name, image_size).eval()
    with torch.no_grad():
        assert backbone(torch.randn(1, 3, image_size, image_size)).shape == (1, backbone.dim)


def test_dim_is_what_comes_out_of_networks_with_a_hidden_last_layer():
    backbone = make("mobilenetv3_small_050", 96).eval()
    with torch.no_grad():
        assert backbone(torch.randn(1, 3, 96, 96)).shape == (1, backbone.dim)


@pytest.mark.parametrize(
    "name", ["test_vit", "vit_tiny_patch16_224", "vit_base_patch16_clip_quickgelu_224"]
)
def test_the_mean_of_the_patch_tokens_may_be_the_features(name):
    width = 0.1 if name.startswith("vit_base") else 1.0
    token, mean = (make(name, 32, width=width, pool=pool).eval() for pool in ("auto", "mean"))
    assert shapes(mean.network) == shapes(token.network)
    mean.load(token.network.state_dict(), "the other")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        tokens = token.network.forward_features(images)
        assert tokens.shape[1] == 1 + 64
        torch.testing.assert_close(mean.network.forward_features(images), tokens)
        torch.testing.assert_close(mean(images), sum(tokens[:, 1:].unbind(1)) / 64)
        torch.testing.assert_close(token(images), tokens[:, 0])
    assert mean.dim == token.dim == tokens.shape[2]
    assert not mean.as_published


@pytest.mark.parametrize("options", [{"pool": "mean"}, {"patch": 8}])
@pytest.mark.parametrize("name", ["resnet18", "convnext_atto"])
def test_only_vision_transformers_choose_patches_and_how_they_pool(name, options):
    with pytest.raises(ValueError, match=rf"patch and pool .* {name!r} is a \w+: leave them out"):
        make(name, 96, **options)


@pytest.mark.parametrize(("image_size", "stem"), [(32, "auto"), (96, "auto"), (32, "standard")])
def test_patches_are_of_the_size_that_is_asked_for(image_size, stem):
    network = on_meta("vit_tiny_patch16_224", image_size, stem=stem, patch=4)
    assert network.patch_embed.patch_size == (4, 4)
    assert network.patch_embed.num_patches == (image_size // 4) ** 2
    with pytest.raises(ValueError, match=r"patches of 5 pixels, and .* or other patches"):
        make("vit_tiny_patch16_224", image_size, patch=5)


@pytest.mark.parametrize("name", ["deit_tiny_distilled_patch16_224", "vit_base_patch16_siglip_224"])
def test_the_mean_takes_the_place_of_a_class_token_and_of_nothing_else(name):
    with pytest.raises(ValueError, match=r"does not end in a class token.* use pool='auto'"):
        on_meta(name, 224, pool="mean")


def test_what_pools_by_the_mean_already_stays_as_published():
    with torch.device("meta"):
        backbone = make("vit_base_patch16_siglip_gap_224", 224, pool="mean")
    assert backbone.as_published


def test_blocks_without_heads_of_their_own_have_one_width():
    assert on_meta("vit_small_patch16_18x2_224", 224).embed_dim == 384
    with pytest.raises(ValueError, match=r"width=0.5 is not known for the blocks of 'vit_small"):
        on_meta("vit_small_patch16_18x2_224", 224, width=0.5)


def test_metadata_say_patches_and_pooling_and_old_ones_mean_the_usual():
    said = {"mean": [0.5] * 3, "std": [0.25] * 3}
    other = make("test_vit", 16, patch=4, pool="mean")
    again = backbone_of(other.metadata() | said, other.network.state_dict(), "a file")
    assert again.settings == other.settings
    first = make("test_vit", 16, pool="mean")
    made, tensors = first.metadata() | said, first.network.state_dict()
    old = {name: value for name, value in made.items() if name not in ("patch", "pool")}
    again = backbone_of(old, tensors, "a file")
    assert (again.settings.patch, again.settings.pool) == (None, "auto")
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(again(images), first.network.forward_features(images)[:, 0])


def test_metadata_makes_the_same_network_again():
    first = make("resnet10t", 32, width=0.25, stem="standard")
    metadata = first.metadata()
    again = Backbone(BackboneSettings.from_metadata(metadata), metadata["image_size"])
    again.network.load_state_dict(first.network.state_dict(), strict=True)
    assert again.settings == first.settings
    assert again.image_size == 32


CODED = [
    ("resnet18", 224, {}),
    ("resnet18", 32, {}),
    ("resnet18", 96, {"width": 0.25}),
    ("resnet50", 224, {}),
    ("resnet50", 32, {"width": 0.25}),
    ("resnet10t", 96, {}),
    ("resnet10t", 96, {"width": 2.0}),
    ("resnet10t", 32, {"width": 0.25}),
    ("vit_tiny_patch16_224", 224, {}),
    ("vit_tiny_patch16_224", 32, {}),
    ("vit_tiny_patch16_224", 96, {"width": 2 / 3}),
    ("vit_tiny_patch16_224", 32, {"patch": 8, "pool": "mean"}),
    ("convnext_atto", 96, {}),
]


@pytest.mark.parametrize(("name", "image_size", "options"), CODED, ids=str)
def test_the_code_makes_the_same_network_without_amcl(name, image_size, options, tmp_path):
    backbone = make(name, image_size, **options)
    for key, value in backbone.network.named_buffers():
        if key.endswith(("running_mean", "running_var")):
            value.uniform_(0.5, 1.5)
    weights = tmp_path / 'the "best".safetensors'
    save_file(backbone.network.state_dict(), weights)
    code = backbone.code(str(weights))
    assert "amcl" not in code.replace(str(tmp_path), "")
    made = {}
    exec(code, made)
    side = image_size if name.startswith("vit") else 32  # convolutions take any
    images = torch.randn(2, 3, side, side)
    with torch.no_grad():
        assert torch.equal(made["model"](images), backbone.eval()(images))


@pytest.mark.parametrize(
    ("name", "image_size"),
    [("resnet18", 224), ("resnet50", 96), ("resnet10t", 176), ("vit_tiny_patch16_224", 224)],
)
def test_the_code_of_a_published_network_is_two_lines(name, image_size):
    backbone = make(name, image_size)
    assert backbone.as_published
    assert backbone.code("w.safetensors").splitlines() == [
        "import timm",
        "from safetensors.torch import load_file",
        "",
        f'model = timm.create_model("{name}", num_classes=0)',
        'model.load_state_dict(load_file("w.safetensors"))',
        "model = model.eval()",
    ]


@pytest.mark.parametrize(
    ("name", "image_size", "options"),
    [("resnet18", 32, {}), ("resnet18", 96, {"width": 0.5}), ("vit_tiny_patch16_224", 96, {})],
)
def test_a_changed_network_is_not_as_published(name, image_size, options):
    assert not make(name, image_size, **options).as_published


def test_drop_path_changes_neither_weights_nor_code():
    plain = make("resnet10t", 32, width=0.25)
    dropping = Backbone(plain.settings, 32, drop_path=0.5)
    assert dropping.code() == plain.code()
    dropping.load(plain.network.state_dict(), "itself")


def test_an_unknown_tag_lists_those_there_are():
    assert BackboneSettings(name="resnet18.a1_in1k").name == "resnet18.a1_in1k"
    with pytest.raises(ValueError, match=r"no 'resnet18.best': timm's weights .*resnet18.a1_in1k"):
        BackboneSettings(name="resnet18.best")


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"no timm model called 'resnet81': did you mean .*resnet"):
        BackboneSettings(name="resnet81")
    with pytest.raises(ValueError, match=r"timm.list_models\(\) lists them all"):
        BackboneSettings(name="§§§")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width must be a finite number above 0"),
        ({"width": math.nan}, "width must be a finite number above 0"),
        ({"stem": "tiny"}, "stem must be one of 'auto', 'small', 'standard'; got 'tiny'"),
        ({"patch": 0}, "patch must be a whole number, at least 1, got 0: it is in pixels"),
        ({"pool": "max"}, "pool must be one of 'auto', 'mean'; got 'max'"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        BackboneSettings(**options)


def test_image_size_is_checked():
    with pytest.raises(ValueError, match="image_size must be a whole number"):
        make("resnet18", 0)


@pytest.mark.parametrize("options", [{"width": 2.0}, {"stem": "small"}])
def test_other_families_have_neither_widths_nor_small_stems(options):
    with pytest.raises(ValueError, match="'convnext_atto' is a ConvNeXt: use"):
        make("convnext_atto", 224, **options)


def test_other_families_on_small_images_are_warned_about():
    with pytest.warns(UserWarning, match="'convnext_atto' keeps its stem .* 32 pixels"):
        make("convnext_atto", 32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("convnext_atto", 32, stem="standard")


def test_a_very_narrow_tiered_stem_has_channels():
    backbone = Backbone(BackboneSettings(name="resnet10t", width=0.0625), 32)
    assert backbone(torch.randn(2, 3, 32, 32)).isfinite().all()


def test_vision_transformers_take_crops_of_other_sizes():
    """As timm's own network does that is made to take any size."""
    backbone = make("vit_tiny_patch16_224", 32, patch=4, width=0.34).eval()
    sizes = {"img_size": 32, "patch_size": 4, "embed_dim": 64, "num_heads": 1}
    theirs = timm.create_model(
        "vit_tiny_patch16_224", num_classes=0, **sizes, dynamic_img_size=True
    ).eval()
    theirs.load_state_dict(backbone.network.state_dict())
    images, crops = torch.randn(2, 3, 32, 32), torch.randn(2, 3, 12, 12)
    before = backbone(images)
    with pytest.raises(AssertionError, match="Input height"):
        backbone(crops)
    backbone.allow_crops()
    assert torch.equal(backbone(images), before)
    assert torch.equal(backbone(crops), theirs(crops))
    assert not torch.equal(backbone(crops), before)


def test_resnets_take_crops_of_other_sizes():
    backbone = make("resnet10t", 32, width=0.25)
    backbone.allow_crops()
    assert backbone(torch.randn(2, 3, 12, 12)).shape == (2, backbone.dim)


def test_crops_are_whole_patches():
    assert make("resnet10t", 32, width=0.25).patch == 1
    backbone = make("test_vit", 32, patch=4)
    assert backbone.patch == 4
    backbone.check_crops(12)
    with pytest.raises(ValueError, match=r"local crops of 14 pixels .* --local-size 16"):
        backbone.check_crops(14)


def test_blocks_are_skipped_as_timm_does():
    backbone = make("vit_tiny_patch16_224", 32, width=0.34)
    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=0, drop_path_rate=0.2)
    backbone.set_drop_path(0.2)
    for ours, block in zip(backbone.network.blocks[1:], theirs.blocks[1:], strict=True):
        assert ours.drop_path1.drop_prob == pytest.approx(block.drop_path1.drop_prob)
        assert ours.drop_path2.drop_prob == pytest.approx(block.drop_path2.drop_prob)
