"""MAE and CAN: what is seen, what is predicted, what is added up, written out patch by patch."""

import math

import pytest
import torch

from amcl.backbones import Backbone, BackboneSettings
from amcl.methods import METHODS, CANSettings, Drawn, LGPSettings, MAESettings, make_method
from amcl.methods.masked import noise_like
from amcl.seeds import generator
from factories import method_settings
from reference import masked as literal

IMAGES, SIZE, PATCH, SIDE = 4, 16, 4, 4
L = SIDE**2
DECODER = {"mask_ratio": 0.7, "decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2}
SMALL = {
    "mae": DECODER,
    "can": DECODER | {"projector": (8, 5), "noise": 0.4},
    "lgp": {"projector": (8, 5), "predictor": 4},
}


def make(name, pool="mean", **options):
    """A method whose parameters are all unlike their start, so that each leaves its mark."""
    backbone = Backbone(BackboneSettings(name="test_vit", patch=PATCH, pool=pool), SIZE)
    method = make_method(method_settings(name, **SMALL[name] | options), backbone).double()
    with torch.no_grad():
        for parameter in method.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return method


def same_weights(method, other):
    """Give a method all that another has and it has too, but the heads."""
    for name in ("backbone", "decoder", "noise_embedding"):
        if hasattr(method, name):
            getattr(method, name).load_state_dict(getattr(other, name).state_dict())
    return method


def views(n=IMAGES):
    return torch.randn(2, n, 3, SIZE, SIZE, dtype=torch.float64)


def drawn_for(method, n=IMAGES):
    return method.draw(n, generator("drawn"))


def loss_of(method, x, drawn, **options):
    return method(x[: method.num_views], drawn=drawn, **options)


def terms_of(method, x, drawn):
    loss_of(method, x, drawn, watch=True)
    return dict(method.terms)


def seen_by(method, x, drawn):
    """What the encoder gives, what the heads read and what the decoder predicts."""
    seen = {}
    hooks = [
        method.backbone.network.norm.register_forward_hook(
            lambda _, args, out: seen.update(tokens=out)
        ),
        method.decoder.register_forward_hook(
            lambda _, args, out: seen.update(prediction=out, level=(*args, None)[2])
        ),
    ]
    if hasattr(method, "heads"):
        hooks.append(
            method.heads.register_forward_hook(
                lambda _, args, out: seen.setdefault("features", []).append(args[0])
            )
        )
    loss_of(method, x, drawn)
    for hook in hooks:
        hook.remove()
    if "features" in seen:
        seen["features"] = torch.cat(seen["features"])
    return seen


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


# what is drawn


def test_sigma_is_uniform_and_own_for_each_view_and_image():
    drawn = drawn_for(make("can", noise=0.05), n=4000)
    assert drawn.sigma.shape == drawn.seeds.shape == (2, 4000)
    levels = drawn.sigma.flatten().double().sort().values
    assert len(levels.unique()) > 7900
    assert len(drawn.seeds.unique()) == 8000
    uniform = 0.05 * (torch.arange(8000) + 0.5) / 8000
    distance = (levels - uniform).abs().max() / 0.05
    assert distance < 1.63 / math.sqrt(8000)  # Kolmogorov and Smirnov, 1 %
    assert abs(torch.corrcoef(drawn.sigma)[0, 1]) < 5 / math.sqrt(4000)


def test_masks_are_own_for_each_view():
    masked = drawn_for(make("can")).masked
    assert masked.shape == (2, IMAGES, L)
    assert len(masked.flatten(0, 1).unique(dim=0)) == 2 * IMAGES


def test_without_noise_there_is_none():
    method, x = make("can", noise=0.0), views()
    drawn = drawn_for(method)
    assert not drawn.sigma.any()
    assert not noise_like(x[0], drawn.sigma[0], drawn.seeds[0]).any()


def test_noise_of_an_image_follows_from_its_seed_alone():
    images, sigma = torch.zeros(5, 3, SIZE, SIZE), torch.rand(5) + 0.1
    seeds = torch.tensor([3, 2**61, 0, 7, 3])
    state = torch.get_rng_state()
    noise = noise_like(images, sigma, seeds)
    assert torch.equal(torch.get_rng_state(), state)
    order = torch.tensor([4, 0, 3, 1, 2])
    assert torch.equal(noise_like(images, sigma[order], seeds[order]), noise[order])
    parts = [noise_like(images[s], sigma[s], seeds[s]) for s in (slice(0, 2), slice(2, 5))]
    assert torch.equal(torch.cat(parts), noise)
    scaled = noise / sigma.view(-1, 1, 1, 1)
    torch.testing.assert_close(scaled[0], scaled[4])  # the same seed
    assert (scaled[0] - scaled[3]).abs().max() > 1


def test_noise_is_gaussian_with_its_sigma():
    sigma = torch.tensor([0.05, 1.0, 3.0], dtype=torch.float64)
    images = torch.randn(3, 3, 64, 64, dtype=torch.float64)
    noise = noise_like(images, sigma, torch.tensor([1, 2, 3])).flatten(1) / sigma.unsqueeze(1)
    normal = torch.distributions.Normal(0.0, 1.0)
    places = (torch.arange(noise.shape[1], dtype=torch.float64) + 0.5) / noise.shape[1]
    distance = (normal.cdf(noise.sort(dim=1).values) - places).abs().amax(1)
    assert (distance < 1.63 / math.sqrt(noise.shape[1])).all()


def test_the_decoder_is_told_the_noise_level_of_each_view():
    method, x = make("can"), views()
    drawn = drawn_for(method)
    waves = [literal.noise_level(sigma, 64) for sigma in drawn.sigma.flatten().tolist()]
    level = method.noise_embedding.layers(torch.tensor(waves, dtype=torch.float64))
    torch.testing.assert_close(seen_by(method, x, drawn)["level"], level)
    mae = make("mae")
    assert seen_by(mae, x, drawn_for(mae))["level"] is None


@pytest.mark.parametrize("name", ["mae", "can"])
def test_what_is_drawn_follows_from_the_generator_alone(name):
    method, state = make(name), torch.get_rng_state()
    first, again = drawn_for(method), drawn_for(method)
    other = method.draw(IMAGES, generator("other"))
    assert torch.equal(torch.get_rng_state(), state)
    for value, same in zip(first, again, strict=True):
        assert torch.equal(value, same)
    assert not torch.equal(first.masked, other.masked)
    assert not torch.equal(first.seeds, other.seeds)
    assert first.masked.shape == (method.num_views, IMAGES, L)


@pytest.mark.parametrize("name", ["mae", "can"])
def test_parts_of_a_batch_get_their_rows_of_what_is_drawn(name):
    """Mean losses of parts are the mean loss of the whole, where no image looks at another."""
    method, x = make(name), views()
    drawn = drawn_for(method)
    whole = terms_of(method, x, drawn)
    parts = []
    for start in (0, 2):
        rows = drawn.rows(start, start + 2)
        assert isinstance(rows, Drawn)
        parts.append(terms_of(method, x[:, start : start + 2], rows))
    for term in whole.keys() - {"contrast"}:
        halves = [part[term] for part in parts]
        torch.testing.assert_close(sum(halves) / 2, whole[term])
        assert abs(halves[0] - halves[1]) > 1e-6


def test_what_was_drawn_for_another_batch_is_refused():
    method = make("can")
    with pytest.raises(ValueError, match=r"\(2, 5\), and there are two views of 4.* draw\(4,"):
        loss_of(method, views(), drawn_for(method, 5))


def test_a_pooling_that_mae_would_not_train_is_refused():
    with torch.device("meta"):
        backbone = Backbone(BackboneSettings(name="vit_base_patch16_siglip_224"), 224)
        with pytest.raises(ValueError, match="pools by attention, which MAE would never train"):
            make_method(MAESettings(), backbone)


@pytest.mark.parametrize("settings", [MAESettings, CANSettings])
def test_one_patch_cannot_be_masked_in_part(settings):
    backbone = Backbone(BackboneSettings(name="test_vit", patch=16), 16)
    with pytest.raises(ValueError, match=r"as one patch, .* smaller patches"):
        make_method(settings(), backbone)


def test_a_norm_behind_the_pooling_is_refused():
    with torch.device("meta"):
        backbone = Backbone(BackboneSettings(name="vit_base_patch16_rpn_224"), 224)
        with pytest.raises(ValueError, match="its last norm behind the pooling"):
            make_method(MAESettings(), backbone)


@pytest.mark.parametrize("name", ["mae", "can"])
def test_who_gives_nothing_drawn_gets_torchs_own_chance(name):
    method, x, losses = make(name), views()[: METHODS[name].num_views], []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        losses.append(method(x).item())
    assert losses[0] == losses[1] != losses[2]


# the start, and what is refused


@pytest.mark.parametrize("name", ["mae", "can"])
def test_weights_start_as_maes_and_positions_are_fixed(name):
    method = make(name)
    method.init_weights()
    network = method.backbone.network
    bounds = {"attn.qkv": (64, 192), "attn.proj": (64, 64), "mlp.fc1": (64, 192)}
    for part, (fan_in, fan_out) in bounds.items():
        for block in network.blocks:
            layer = block.get_submodule(part)
            bound = math.sqrt(6 / (fan_in + fan_out))
            assert layer.weight.abs().max().item() == pytest.approx(bound, rel=0.02)
            assert not layer.bias.any()
    places = torch.tensor(literal.positions(64, SIDE, SIDE, True), dtype=torch.float64)
    torch.testing.assert_close(network.pos_embed[0], places, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (MAESettings, {"mask_ratio": 0.0}, "mask_ratio must lie between 0 and 1, got 0.0: it is"),
        (MAESettings, {"mask_ratio": 1.0}, r"got 1.0: .* patches not seen, 0.75 in MAE and 0.5"),
        (CANSettings, {"mask_ratio": 2}, "mask_ratio must lie between 0 and 1, got 2"),
        (LGPSettings, {"mask_ratio": -0.5}, "mask_ratio must lie between 0 and 1, got -0.5"),
        (MAESettings, {"mask_ratio": math.nan}, "got nan"),
        (
            MAESettings,
            {"decoder_dim": 100, "decoder_heads": 16},
            "decoder_dim=100 must be a multiple of 4 and of decoder_heads=16: use 64 or a multiple",
        ),
        (CANSettings, {"decoder_dim": 6, "decoder_heads": 2}, "decoder_dim=6 must be a multiple"),
        (MAESettings, {"decoder_dim": 0}, "decoder_dim must be a whole number, at least 1, got 0"),
        (MAESettings, {"decoder_depth": 0}, "decoder_depth must be a whole number"),
        (MAESettings, {"decoder_heads": 1.5}, "decoder_heads must be a whole number"),
        (CANSettings, {"noise": -0.1}, "noise must be a finite number, at least 0, got -0.1: 0 sw"),
        (CANSettings, {"contrast_weight": -1}, "contrast_weight must be a finite number"),
        (CANSettings, {"denoising_weight": math.inf}, "denoising_weight must be a finite number"),
        (
            CANSettings,
            {"contrast_weight": 0, "reconstruction_weight": 0, "denoising_weight": 0},
            "contrast_weight, reconstruction_weight, denoising_weight are all 0: there is nothing",
        ),
        (CANSettings, {"heads": 0}, "heads must be a whole number"),
    ],
)
def test_settings_are_checked(cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(**options)


def test_published_settings():
    mae, can = MAESettings(), CANSettings()
    assert (mae.mask_ratio, mae.normalize_targets) == (0.75, True)
    assert (mae.decoder_dim, mae.decoder_depth, mae.decoder_heads) == (512, 8, 16)
    assert (can.mask_ratio, can.noise, can.temperature.tau) == (0.5, 0.05, 0.1)
    weights = (can.contrast_weight, can.reconstruction_weight, can.denoising_weight)
    assert weights == (0.03, 0.67, 0.30)
    assert (can.projector, can.projector_norm) == ((4096, 4096, 128), True)


@pytest.mark.parametrize("name", ["mae", "can", "lgp"])
def test_networks_without_patches_are_refused(name):
    backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), SIZE)
    settings = METHODS[name].settings_class(**SMALL[name])
    with pytest.raises(ValueError, match=r"a ResNet is not run as .* Choose a plain vision trans"):
        make_method(settings, backbone)
