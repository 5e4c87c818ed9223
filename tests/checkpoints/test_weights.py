"""Weights that other tools wrote are found whole, or the error says what is amiss."""

import argparse
import os

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

from amcl.checkpoints import open_model
from amcl.errors import RunError
from amcl.views import IMAGENET_MEAN

IMAGES = torch.randn(2, 3, 64, 64)
NAME = "resnet18"
OPTIONS = {"backbone": NAME, "width": 0.25}


def narrow(width=0.25, small=False):
    """A ResNet-18 with random statistics too, made without amcl."""
    planes = [int(p * width) for p in (64, 128, 256, 512)]
    network = timm.create_model(
        NAME, num_classes=10, channels=planes, stem_width=planes[0] // 2, stem_type="deep"
    )
    kernel = {"kernel_size": 3, "padding": 1} if small else {"kernel_size": 7, "padding": 3}
    network.conv1 = nn.Conv2d(3, planes[0], bias=False, stride=1 if small else 2, **kernel)
    for name, value in network.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            value.uniform_(0.5, 1.5)
    return network.eval()


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(5)
    return narrow()


@pytest.fixture(scope="module")
def state(network):
    return network.state_dict()


def pre(prefix, state):
    return {prefix + key: value for key, value in state.items()}


def saved(path, value):
    torch.save(value, path)
    return path


@torch.no_grad()
def assert_same(subject, network):
    """Features are those before the network's own classifier, exactly."""
    expected = network.forward_head(network.forward_features(IMAGES), pre_logits=True)
    assert torch.equal(subject.backbone(IMAGES), expected)


@pytest.mark.parametrize(
    ("wrap", "place"),
    [
        (lambda s: s, ""),
        (lambda s: {"state_dict": s}, "state_dict"),
        (lambda s: {"model": pre("module.", s), "epoch": 3}, "model.module"),
        (
            lambda s: {"a": {"b": {"teacher": pre("module.backbone.", s)}}},
            "a.b.teacher.module.back",
        ),
        (
            lambda s: {
                "state_dict": pre("module.encoder_q.", s),
                "optimizer": {"state": {0: {"momentum": torch.zeros(3)}}, "param_groups": [{}]},
                "args": argparse.Namespace(lr=0.1),
            },
            "state_dict.module.encoder_q",
        ),
    ],
    ids=["plain", "nested", "module", "deep", "moco"],
)
def test_weights_are_found_wherever_they_lie(tmp_path, network, state, wrap, place):
    path = saved(tmp_path / "weights.pth", wrap(state))
    subject = open_model(path, **OPTIONS)
    assert_same(subject, network)
    assert subject.name == str(path)
    assert subject.folder is None
    assert any(note.startswith(f"weights found under '{place}") for note in subject.notes) == bool(
        place
    )
    assert any(
        "left out 2 of the file's tensors" in n and "fc.weight" in n and "fc.bias" in n
        for n in subject.notes
    )
    assert subject.backbone.normalization[0] == IMAGENET_MEAN
    assert "images are normalized as ImageNet" in subject.notes


@pytest.mark.parametrize("suffix", [".pt", ".ckpt", ".bin", ".pth.tar"])
def test_weights_are_found_whatever_the_file_is_called(tmp_path, network, state, suffix):
    assert_same(open_model(saved(tmp_path / f"weights{suffix}", state), **OPTIONS), network)


def test_safetensors_of_others(tmp_path, network, state):
    save_file(pre("backbone.", state), tmp_path / "w.safetensors")
    subject = open_model(
        tmp_path / "w.safetensors", **OPTIONS, image_size=96, mean=(0, 0, 0), std=(1, 1, 1)
    )
    assert_same(subject, network)
    assert subject.backbone.image_size == 96
    assert subject.mean == (0, 0, 0)


def test_two_encoders_are_listed_and_chosen_by_prefix(tmp_path, network, state):
    other = {key: torch.zeros_like(value) for key, value in state.items()}
    both = {"state_dict": pre("encoder_q.", state) | pre("encoder_k.", other)}
    path = saved(tmp_path / "w.pth", both)
    with pytest.raises(
        ValueError,
        match=r"several times: choose a prefix, one of 'state_dict.encoder_q', 'state_dict.encode",
    ):
        open_model(path, **OPTIONS)
    for prefix in ("encoder_q", "encoder_q.", "state_dict.encoder_q"):
        assert_same(open_model(path, **OPTIONS, prefix=prefix), network)
    assert not open_model(path, **OPTIONS, prefix="encoder_k").backbone(IMAGES).any()
    with pytest.raises(ValueError, match=r"nothing of resnet18 under the prefix 'coder_q'"):
        open_model(path, **OPTIONS, prefix="coder_q")


def test_old_files_without_batch_counters(tmp_path, network, state):
    old = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
    subject = open_model(saved(tmp_path / "w.pth", old), **OPTIONS)
    assert_same(subject, network)
    assert "the file does not count batches, so batch norm's counters are 0" in subject.notes


def test_half_precision_is_taken(tmp_path, network, state):
    half = {k: v.half() if v.is_floating_point() else v for k, v in state.items()}
    subject = open_model(saved(tmp_path / "w.pth", half), **OPTIONS)
    weight = subject.backbone.network.conv1.weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight, network.conv1.weight.half().float())


def test_missing_keys_are_named_and_nothing_is_taken_in_part(tmp_path, state):
    part = {k: v for k, v in state.items() if not k.startswith("layer4.1.conv")}
    path = saved(tmp_path / "w.pth", {"state_dict": pre("net.", part)})
    with pytest.raises(
        ValueError,
        match=r"under 'state_dict.net', .* 2 of 120 keys are missing: layer4.1.conv1.weight, lay",
    ):
        open_model(path, **OPTIONS)


def test_a_file_of_something_else(tmp_path):
    path = saved(tmp_path / "w.pth", {"words": {"embedding": torch.zeros(3)}})
    with pytest.raises(ValueError, match=r"holds nothing of resnet18: .* words.embedding"):
        open_model(path, **OPTIONS)
    path = saved(tmp_path / "n.pth", [1, 2, 3])
    with pytest.raises(ValueError, match=r"/n\.pth .*resnet18: .*tensors"):
        open_model(path, **OPTIONS)


@pytest.mark.parametrize("small", [True, False])
def test_another_stem_is_told(tmp_path, small):
    network = narrow(small=small)
    path = saved(tmp_path / "w.pth", network.state_dict())
    wrong, right = ("standard", "small") if small else ("small", "standard")
    with pytest.raises(ValueError, match=rf"conv1.weight is .* instead of .*--stem {right}"):
        open_model(path, **OPTIONS, stem=wrong)
    open_model(path, **OPTIONS, stem=right)


def test_another_stem_is_told_where_the_published_one_is_deep(tmp_path):
    stems = {}
    for stem in ("small", "standard"):
        options = {"width": 0.125, "stem": stem}
        network = open_model("resnet10t", **options).backbone.network
        stems[stem] = saved(tmp_path / f"{stem}.pth", network.state_dict())
    for stem, other in (("small", "standard"), ("standard", "small")):
        with pytest.raises(ValueError, match=rf"are missing: conv1.*--stem {other}"):
            open_model(stems[other], backbone="resnet10t", width=0.125, stem=stem)


def test_another_width_is_told(tmp_path, state):
    path = saved(tmp_path / "w.pth", state)
    with pytest.raises(ValueError, match=r"conv1.weight is .* Its width is 0.5 times that"):
        open_model(path, backbone=NAME, width=0.5)


def test_another_image_size_of_a_vision_transformer_is_told(tmp_path):
    network = open_model("vit_tiny_patch16_224", width=1 / 3, image_size=96).backbone.network
    path = saved(tmp_path / "w.pth", network.state_dict())
    options = {"backbone": "vit_tiny_patch16_224", "width": 1 / 3}
    with pytest.raises(ValueError, match=r"pos_embed is .*--image-size"):
        open_model(path, **options)
    open_model(path, **options, image_size=96)


def test_a_deeper_network_is_not_taken_for_a_shallower_one(tmp_path):
    """All keys and shapes of ResNet-18 are in ResNet-34 too."""
    with torch.device("meta"):
        deeper = timm.create_model("resnet34")
    path = tmp_path / "w.pth"
    torch.save(
        {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in deeper.state_dict().items()}, path
    )
    with pytest.raises(ValueError, match=r"more than resnet18 has: layer1.2.*a larger model"):
        open_model(path, backbone="resnet18")


def test_a_classifier_within_a_part_of_the_network_is_left_out(tmp_path):
    network = timm.create_model("convnext_atto", num_classes=5)
    assert {"head.norm.weight", "head.fc.weight"} <= network.state_dict().keys()
    subject = open_model(saved(tmp_path / "w.pth", network.state_dict()), backbone="convnext_atto")
    assert "left out 2 of the file's tensors: head.fc.weight, head.fc.bias" in subject.notes


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_code_in_a_file_is_not_run(tmp_path, state):
    path, trap = tmp_path / "w.pth", tmp_path / "trap"
    torch.save({"state_dict": state, "args": Payload(trap)}, path)
    with pytest.raises(RunError, match=r"it holds \S*mkdir, which is neither a tensor nor"):
        open_model(path, **OPTIONS)
    assert not trap.exists()
    torch.load(path, weights_only=False)
    assert trap.exists()


def test_no_pretrained_weights_for_a_file(tmp_path, state):
    path = saved(tmp_path / "w.pth", state)
    with pytest.raises(ValueError, match=r"/w\.pth .*\bpretrained\b"):
        open_model(path, **OPTIONS, pretrained=True)
