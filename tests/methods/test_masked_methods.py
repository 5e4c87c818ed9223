"""MAE and CAN: what is seen, what is predicted, what is added up, written out patch by patch."""

import pytest
import torch

from amcl.methods import METHODS
from reference import masked as literal
from toy_masked_methods import (
    IMAGES,
    PATCH,
    SIDE,
    SIZE,
    L,
    drawn_for,
    loss_of,
    make,
    seen_by,
    terms_of,
    views,
)


def same_weights(method, other):
    """Give a method all that another has and it has too, but the heads."""
    for name in ("backbone", "decoder", "noise_embedding"):
        if hasattr(method, name):
            getattr(method, name).load_state_dict(getattr(other, name).state_dict())
    return method


def painted(x, where):
    """Other pixels in some patches. x: (V, n, 3, S, S), where: (V, n, L)."""
    pixels = where.unflatten(-1, (SIDE, SIDE))
    pixels = pixels.repeat_interleave(PATCH, -1).repeat_interleave(PATCH, -2).unsqueeze(2)
    return torch.where(pixels, torch.randn_like(x), x)


# what is seen


@pytest.mark.parametrize("name", ["mae", "can"])
def test_masked_patches_are_seen_by_nobody_but_are_the_target(name):
    method, x = make(name), views()[: METHODS[name].num_views]
    drawn = drawn_for(method)
    before, terms = seen_by(method, x, drawn), terms_of(method, x, drawn)
    changed = painted(x, drawn.masked)
    after, other_terms = seen_by(method, changed, drawn), terms_of(method, changed, drawn)
    assert {"tokens", "prediction"} <= before.keys()
    for part in before:
        torch.testing.assert_close(after[part], before[part], rtol=1e-12, atol=1e-12)
    assert abs(other_terms.pop("reconstruction") - terms.pop("reconstruction")) > 1e-6
    torch.testing.assert_close(other_terms, terms)  # contrast and noise


@pytest.mark.parametrize("name", ["mae", "can"])
def test_visible_patches_are_seen_by_all_but_are_not_the_target(name):
    method, x = make(name), views()[: METHODS[name].num_views]
    drawn = drawn_for(method)
    one = torch.zeros_like(drawn.masked)
    one[0, 1, int(drawn.masked[0, 1].byte().argmin())] = True  # of one image, and visible
    before, after = seen_by(method, x, drawn), seen_by(method, painted(x, one), drawn)
    for part in before.keys() - {"level"}:
        moved = (after[part] - before[part]).abs().flatten(1).amax(1)
        assert moved[1] > 1e-6, part
        assert moved[torch.arange(len(moved)) != 1].max() < 1e-12, part
    said = method.decoder.register_forward_hook(lambda _, args, out: torch.zeros_like(out))
    terms, other = terms_of(method, x, drawn), terms_of(method, painted(x, one), drawn)
    said.remove()
    assert terms["reconstruction"] == other["reconstruction"]


@pytest.mark.parametrize(("ratio", "visible"), [(0.75, 4), (0.5, 8), (0.6, 6)])
@pytest.mark.parametrize("name", ["mae", "can"])
def test_the_encoder_gets_the_visible_tokens_and_the_class_token(name, ratio, visible):
    method, x = make(name, mask_ratio=ratio), views()[: METHODS[name].num_views]
    drawn = drawn_for(method)
    assert (~drawn.masked).sum(-1).eq(visible).all()
    tokens = seen_by(method, x, drawn)["tokens"]
    assert tokens.shape == (len(x) * IMAGES, 1 + visible, 64)


@pytest.mark.parametrize("name", ["mae", "can"])
@pytest.mark.parametrize("where", ["masked", "visible"])
def test_masked_patches_are_reconstructed_and_visible_ones_denoised(name, where):
    method, x = make(name), views()
    drawn = drawn_for(method)
    masked = drawn.masked.flatten(0, 1)
    chosen = masked if where == "masked" else ~masked
    terms = terms_of(method, x, drawn)
    worse = method.decoder.register_forward_hook(
        lambda _, args, out: out + 10 * chosen.unsqueeze(-1)
    )
    moved = {
        term for term, value in terms_of(method, x, drawn).items() if abs(value - terms[term]) > 1
    }
    worse.remove()
    there = {"masked": "reconstruction", "visible": "denoising"}[where]
    assert moved == {there} & terms.keys()


@pytest.mark.parametrize("pool", ["mean", "auto"])
def test_heads_read_the_mean_of_the_visible_patches_or_the_class_token(pool):
    method, x = make("can", pool=pool), views()
    seen = seen_by(method, x, drawn_for(method))
    cls_token, *patches = seen["tokens"].unbind(1)
    expected = sum(patches) / len(patches) if pool == "mean" else cls_token
    torch.testing.assert_close(seen["features"], expected)


# the losses, written out


def targets(images, normalize):
    cut = [literal.patches(image, PATCH) for image in images.tolist()]
    if normalize:
        cut = [[literal.normalized(patch) for patch in patches] for patches in cut]
    return torch.tensor(cut, dtype=torch.float64)


def encoded(network, image, masked):
    """The tokens of one image: class token and what is visible, through the blocks."""
    patches = network.patch_embed(image.unsqueeze(0)).reshape(L, -1)
    row = [network.cls_token[0, 0] + network.pos_embed[0, 0]]
    for place in range(L):
        if not masked[place]:
            row.append(patches[place] + network.pos_embed[0, 1 + place])
    return network.norm(network.blocks(torch.stack(row).unsqueeze(0)))


def mean_square(prediction, target, chosen):
    """Over the values of the chosen patches of all images."""
    errors = []
    for n in range(len(chosen)):
        for place in range(L):
            if chosen[n][place]:
                errors.append(((prediction[n, place] - target[n, place]) ** 2).mean())
    return sum(errors) / len(errors)


def nt_xent(z, tau):
    """Each of 2N views finds its partner among the 2N − 1 others, anchor by anchor."""
    n = len(z) // 2
    unit = [row / row.norm() for row in z]
    losses = []
    for i in range(2 * n):
        others = [unit[i] @ unit[j] / tau for j in range(2 * n) if j != i]
        partner = unit[i] @ unit[(i + n) % (2 * n)] / tau
        losses.append(torch.stack(others).exp().sum().log() - partner)
    return sum(losses) / len(losses)


def assert_same_loss_and_gradient(method, loss, expected, parts):
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    weights = {
        f"{part}.{name}": p
        for part in parts
        for name, p in getattr(method, part).named_parameters()
        if p.requires_grad
    }
    got = torch.autograd.grad(loss, list(weights.values()))
    wanted = torch.autograd.grad(expected, list(weights.values()))
    for name, g, w in zip(weights, got, wanted, strict=True):
        assert w.abs().max() > 0, name
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-10, msg=name)


@pytest.mark.parametrize("normalize", [True, False])
def test_mae_is_the_squared_error_of_masked_patches(normalize):
    method, (x, _) = make("mae", normalize_targets=normalize), views()
    drawn = drawn_for(method)
    masked = drawn.masked[0]
    rows = []
    for image, hidden in zip(x, masked, strict=True):
        tokens = encoded(method.backbone.network, image, hidden.tolist())
        rows.append(method.decoder(tokens, hidden.unsqueeze(0))[0])
    expected = mean_square(torch.stack(rows), targets(x, normalize), masked.tolist())
    assert_same_loss_and_gradient(
        method, method([x], drawn=drawn), expected, ("backbone", "decoder")
    )


@pytest.mark.parametrize(("heads", "normalize"), [(1, True), (3, True), (1, False)])
def test_can_is_the_sum_of_three_terms(heads, normalize):
    """0.03 contrast of 2N views + 0.67 error of masked patches + 0.30 error of visible noise."""
    method = make("can", heads=heads, tau=0.3, normalize_targets=normalize)
    x = views()
    drawn = drawn_for(method)
    clean = x.flatten(0, 1)
    masked, sigma, seeds = (value.flatten(0, 1).tolist() for value in drawn)
    added, pooled, rows = [], [], []
    for n in range(2 * IMAGES):
        chance = torch.Generator().manual_seed(seeds[n])
        noise = sigma[n] * torch.randn(3, SIZE, SIZE, generator=chance, dtype=torch.float64)
        tokens = encoded(method.backbone.network, clean[n] + noise, masked[n])
        level = torch.tensor([literal.noise_level(sigma[n], 64)], dtype=torch.float64)
        level = method.noise_embedding.layers(level)
        rows.append(method.decoder(tokens, torch.tensor([masked[n]]), level)[0])
        pooled.append(sum(tokens[0, 1:]) / (tokens.shape[1] - 1))
        added.append(noise)
    h0, h1 = torch.stack(pooled).chunk(2)  # batch norm sees one view at a time
    contrast = 0.0
    for c in range(heads):
        g = method.heads.head(c)
        contrast += nt_xent(torch.cat([g(h0), g(h1)]), 0.3) / heads
    prediction, visible = torch.stack(rows), [[not hidden for hidden in row] for row in masked]
    reconstruction = mean_square(prediction, targets(clean, normalize), masked)
    denoising = mean_square(prediction, targets(torch.stack(added), normalize), visible)

    loss = loss_of(method, x, drawn, watch=True)
    expected = {"contrast": contrast, "reconstruction": reconstruction, "denoising": denoising}
    torch.testing.assert_close(method.terms, {k: v.detach() for k, v in expected.items()})
    total = 0.03 * contrast + 0.67 * reconstruction + 0.30 * denoising
    parts = ("backbone", "decoder", "noise_embedding")
    assert_same_loss_and_gradient(method, loss, total, parts)


def test_can_with_reconstruction_alone_is_mae_of_both_views():
    weights = {"contrast_weight": 0.0, "denoising_weight": 0.0, "reconstruction_weight": 1.0}
    can, x = make("can", noise=0.0, **weights), views()
    with torch.no_grad():  # the decoder is told nothing of noise
        for parameter in can.noise_embedding.layers[-1].parameters():
            parameter.zero_()
    mae = same_weights(make("mae"), can)
    drawn = drawn_for(can)
    loss, expected = can(x, drawn=drawn), mae(x, drawn=drawn)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    for part in ("backbone", "decoder"):
        pairs = zip(
            getattr(can, part).named_parameters(), getattr(mae, part).parameters(), strict=True
        )
        for (name, own), other in pairs:
            if own.requires_grad:
                assert other.grad.abs().max() > 0, name
                torch.testing.assert_close(own.grad, other.grad, rtol=1e-9, atol=1e-12, msg=name)
    assert not any(p.grad.any() for p in can.heads.parameters())


@pytest.mark.parametrize(
    "amcl", [{"heads": 3}, {"temperature": "adaptive"}, {"heads": 3, "temperature": "adaptive"}]
)
def test_amcl_replaces_the_contrastive_term_and_nothing_else(amcl):
    plain, x = make("can"), views()
    other = same_weights(make("can", **amcl), plain)
    drawn = drawn_for(plain)
    losses = [loss_of(method, x, drawn, watch=True) for method in (plain, other)]
    for term in ("reconstruction", "denoising"):
        torch.testing.assert_close(other.terms[term], plain.terms[term], rtol=0, atol=0)
    apart = other.terms["contrast"] - plain.terms["contrast"]
    assert abs(apart) > 1e-3
    torch.testing.assert_close(losses[1] - losses[0], 0.03 * apart)


@pytest.mark.parametrize("term", ["contrast", "reconstruction", "denoising"])
def test_every_part_that_a_term_reaches_trains_with_it_alone(term):
    others = {f"{name}_weight": 0.0 for name in ("contrast", "reconstruction", "denoising")}
    method, x = make("can", **others | {f"{term}_weight": 1.0}), views()
    loss_of(method, x, drawn_for(method)).backward()
    moved = dict.fromkeys(("backbone", "heads", "decoder", "noise_embedding"), False)
    for name, parameter in method.named_parameters():
        if parameter.grad is not None and parameter.ndim > 1:
            moved[name.split(".")[0]] |= bool(parameter.grad.any())
    of_heads = term == "contrast"
    expected = {"heads": of_heads, "decoder": not of_heads, "noise_embedding": not of_heads}
    assert moved == {"backbone": True} | expected
    assert of_heads or method.decoder.mask_token.grad.any()
