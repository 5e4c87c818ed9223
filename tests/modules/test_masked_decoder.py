"""The decoder of masked methods, alone and behind the encoder."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from amcl.functional import (
    masked_reconstruction,
    noise_prediction,
    patchify,
    sincos_levels,
    sincos_positions,
)
from amcl.modules import (
    MaskedDecoder,
    NoiseEmbedding,
    encode_visible,
    random_mask,
)
from amcl.seeds import generator
from toy_vits import (
    PATCH,
    SIZE,
    L,
    a_decoder,
    mask_of,
    parts,
    shaken,
    some_images,
)


@pytest.mark.parametrize("cls_token", [True, False])
@pytest.mark.parametrize("ratio", [0.0, 0.75])
@pytest.mark.parametrize("with_extra", [True, False])
def test_decoder_puts_each_token_in_its_place(cls_token, ratio, with_extra):
    """Token by token: visible ones and mask tokens, plus `extra`, through one input layer."""
    decoder, masked = shaken(a_decoder().double()), mask_of(ratio)
    visible = int((~masked[0]).sum())
    tokens = torch.randn(3, cls_token + visible, 64).double()
    extra = torch.randn(3, 64).double() if with_extra else None
    weight, bias = decoder.embed.weight, decoder.embed.bias
    places = sincos_positions(32, (8, 8)).double()
    rows = []
    for n in range(3):
        kept = iter(tokens[n, cls_token:])
        row = [weight @ tokens[n, 0] + bias] if cls_token else []
        for place, hidden in zip(places, masked[n], strict=True):
            token = decoder.mask_token[0, 0] if hidden else weight @ next(kept) + bias
            if extra is not None:
                token = token + weight @ extra[n]
            row.append(token + place)
        rows.append(torch.stack(row))
    expected = decoder.predict(decoder.norm(decoder.blocks(torch.stack(rows))))[:, cls_token:]
    torch.testing.assert_close(decoder(tokens, masked, extra), expected, rtol=1e-9, atol=1e-9)
    assert expected.shape == (3, L, PATCH**2 * 3)


def test_decoder_blocks_are_pre_norm_transformer_blocks():
    """Against the formula, written out: x + attention(norm(x)), x + mlp(norm(x))."""
    block = shaken(a_decoder(depth=1).double()).blocks[0]
    x = torch.randn(2, 7, 32).double()
    normal = F.layer_norm(x, (32,), block.norm1.weight, block.norm1.bias, 1e-6)
    mixer = block.self_attn
    q, k, v = F.linear(normal, mixer.in_proj_weight, mixer.in_proj_bias).chunk(3, dim=-1)
    heads = []
    for i in range(4):
        part = slice(8 * i, 8 * i + 8)
        weights = (q[..., part] @ k[..., part].mT / 8**0.5).softmax(-1)
        heads.append(weights @ v[..., part])
    y = x + mixer.out_proj(torch.cat(heads, dim=-1))
    normal = F.layer_norm(y, (32,), block.norm2.weight, block.norm2.bias, 1e-6)
    expected = y + block.linear2(F.gelu(block.linear1(normal)))
    assert block.linear1.out_features == 4 * 32
    torch.testing.assert_close(block(x), expected, rtol=1e-9, atol=1e-9)
    with torch.no_grad():  # torch runs another kernel here
        torch.testing.assert_close(block.eval()(x), expected, rtol=1e-9, atol=1e-9)


def test_a_mask_token_says_nothing_of_its_image_but_its_place():
    decoder, masked = a_decoder(), mask_of(0.75)
    tokens = torch.randn(3, 17, 64)
    seen = []
    decoder.blocks.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    decoder(tokens, masked)
    hidden = seen[0][:, 1:] - decoder.positions[:, 1:]
    assert torch.allclose(hidden[masked], decoder.mask_token[0], atol=1e-6)
    assert torch.equal(decoder.positions[0, 0], torch.zeros(32))


def test_the_decoder_starts_as_mae():
    decoder = MaskedDecoder(192, (14, 14), 16)
    assert (len(decoder.blocks), decoder.embed.out_features) == (8, 512)
    assert decoder.blocks[0].self_attn.num_heads == 16
    assert decoder.mask_token.std().item() == pytest.approx(0.02, rel=0.1)
    for name, parameter in decoder.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif parameter.ndim == 2:  # Glorot's bounds
            assert parameter.abs().max().item() == pytest.approx(
                (6 / sum(parameter.shape)) ** 0.5, rel=1e-2
            ), name
    assert "positions" not in decoder.state_dict()


def test_tokens_must_fit_the_mask():
    decoder = a_decoder()
    for tokens in (15, 18):
        with pytest.raises(ValueError, match="show 16"):
            decoder(torch.zeros(3, tokens, 64), mask_of(0.75))
    with pytest.raises(ValueError, match="masks of 64 patches"):
        decoder(torch.zeros(3, 8, 64), random_mask(3, 32, 0.75, generator("mask")))


def test_heads_must_share_the_width():
    with pytest.raises(ValueError, match="32 is no multiple of 5 heads"):
        a_decoder(heads=5)
    with pytest.raises(ValueError, match=r"\bdepth\b.*\b0\b"):
        a_decoder(depth=0)


# noise levels, and all together


def test_noise_embedding():
    embed, sigma = NoiseEmbedding(8).double(), torch.rand(5).double()
    first, _, last = embed.layers
    hidden = (sincos_levels(sigma, 8) @ first.weight.T + first.bias).clamp(min=0)
    torch.testing.assert_close(embed(sigma), hidden @ last.weight.T + last.bias)
    assert isinstance(embed.layers[1], nn.ReLU)


def losses(parts, images, masked, sigma, noise):
    tokens = encode_visible(parts["network"], images + noise, masked)
    prediction = parts["decoder"](tokens, masked, parts["noise"](sigma))
    return (
        masked_reconstruction(prediction, patchify(images, PATCH), masked),
        noise_prediction(prediction, patchify(noise, PATCH), masked),
    )


def test_every_part_trains_with_either_loss():
    images, masked, sigma = some_images(), mask_of(0.5), torch.rand(3)
    noise = torch.randn_like(images) * sigma.view(-1, 1, 1, 1)
    for which in (0, 1):
        model = parts()
        losses(model, images, masked, sigma, noise)[which].backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.any(), name


def test_single_and_half_precision_follow_double():
    model, images, masked, sigma = parts(), some_images(), mask_of(0.5), torch.rand(3) * 0.05
    noise = torch.randn_like(images) * sigma.view(-1, 1, 1, 1)
    exact = losses(
        copy.deepcopy(model).double(), images.double(), masked, sigma.double(), noise.double()
    )
    single = losses(model, images, masked, sigma, noise)
    with torch.autocast("cpu", torch.bfloat16):
        half = losses(model, images, masked, sigma, noise)
    for e, s, h in zip(exact, single, half, strict=True):
        assert s.item() == pytest.approx(e.item(), rel=1e-5)
        assert h.item() == pytest.approx(e.item(), rel=0.1)
        assert h.dtype == torch.float32


def test_a_few_steps_learn_to_fill_in():
    """Images of one color each: what is masked can be known from what is visible."""
    model = parts()
    images = torch.randn(8, 3, 1, 1).expand(8, 3, SIZE, SIZE)
    masked = mask_of(0.75, n=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(25):
        loss, _ = losses(model, images, masked, torch.zeros(8), torch.zeros_like(images))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5 * images.var().item()  # their mean color would give 1
