"""Cost of masked image modeling as ratios, measured in one run: `make bench`.

Each ratio is the median over repeats of two steps timed in turns. FLOPs are counted by
`torch.utils.flop_counter` on one forward pass. Writes benchmarks/results/masked.md and .json.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from core import ratio
from results_files import conditions, write_results
from torch.utils.flop_counter import FlopCounterMode

from amcl import recipes
from amcl.backbones import Backbone, BackboneSettings
from amcl.config import Config
from amcl.methods import MAESettings, Method, make_method
from amcl.modules import encode_visible, random_mask
from amcl.training.optimizers import make_optimizer

TINY = "vit_tiny_patch16_224"
SIZE = 224


def encoder(masked_share: float, batch: int) -> Callable[[], None]:
    """Return a step of ViT-Ti alone: forward, backward, AdamW."""
    torch.manual_seed(0)
    network = Backbone(BackboneSettings(name=TINY), SIZE).network
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    images = torch.randn(batch, 3, SIZE, SIZE)
    tokens = network.patch_embed.num_patches
    masked = random_mask(batch, tokens, masked_share, torch.Generator().manual_seed(0))

    def step() -> None:
        optimizer.zero_grad()
        encode_visible(network, images, masked).square().mean().backward()
        optimizer.step()

    return step


def trainer(config: Config, batch: int, image_size: int = SIZE) -> Callable[[], None]:
    """Return a training step of a method: forward, backward, its optimizer."""
    method = method_of(config, image_size)
    optimizer = make_optimizer(method, config.optimizer, batch)
    views = torch.randn(method.num_views, batch, 3, image_size, image_size)

    def step() -> None:
        optimizer.zero_grad()
        method(views).backward()
        optimizer.step()
        method.after_step()

    return step


def method_of(config: Config, image_size: int) -> Method:
    """Return the method of a configuration, with random weights."""
    torch.manual_seed(0)
    return make_method(config.method, Backbone(config.backbone, image_size))


def autoencoder(masked_share: float, batch: int) -> Callable[[], None]:
    """Return a step of MAE on ViT-Ti with a decoder in proportion to it: 128 wide, 2 blocks."""
    settings = MAESettings(
        mask_ratio=masked_share, decoder_dim=128, decoder_depth=2, decoder_heads=4
    )
    base = recipes.recipe("cifar10-mae")
    return trainer(replace(base, method=settings), batch)


def can(network: str, amcl: bool) -> Config:
    """Return CAN as on ImageNet, with another network."""
    config = recipes.recipe("imagenet-can-amcl" if amcl else "imagenet-can")
    return replace(config, backbone=replace(config.backbone, name=network))


def cost(name: str, image_size: int) -> dict[str, float]:
    """Return the number of trained parameters, and the FLOPs of a forward pass per image."""
    method = method_of(recipes.recipe(name), image_size)
    images = 2
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        method(torch.randn(method.num_views, images, 3, image_size, image_size))
    trained = sum(p.numel() for p in method.parameters() if p.requires_grad)
    return {"parameters": trained, "flops": counter.get_total_flops() / images}


def main(repeats: int) -> None:
    """Measure everything, print the table and write it to a file."""
    rows: list[tuple[str, str, str, str]] = []
    numbers: dict[str, Any] = {}

    def timing(
        what: str,
        new: Callable[[], None],
        old: Callable[[], None],
        bound: str,
        times: int = repeats,
    ) -> None:
        m = numbers[what] = ratio(new, old, times)
        measured = f"{m['new_ms']:.0f} ms against {m['old_ms']:.0f} ms"
        spread = f"{m['ratio']:.3f} ({m['ratio_low']:.3f} … {m['ratio_high']:.3f})"
        rows.append((what, measured, spread, bound))
        print(f"{what}: {spread}, {measured}", flush=True)

    one = 1 / 196  # MAE needs a masked patch to learn from
    pair = encoder(0.75, 16), encoder(0.0, 16)
    timing("ViT-Ti, 75 % masked, against unmasked, batch 16", *pair, "≤ 0.5")
    pair = autoencoder(0.75, 16), autoencoder(one, 16)
    timing("MAE on ViT-Ti, 75 % masked, against one patch masked, batch 16", *pair, "")
    small = (recipes.recipe(f"cifar10-can{suffix}") for suffix in ("-amcl", ""))
    pair = tuple(trainer(config, 128, 32) for config in small)
    timing("cifar10-can-amcl against cifar10-can, 32 pixels, batch 128", *pair, "≤ 1.05")
    for batch, bound in ((8, ""), (64, "≤ 1.05")):
        pair = trainer(can(TINY, True), batch), trainer(can(TINY, False), batch)
        what = f"CAN + AMCL against CAN, heads as for ImageNet, ViT-Ti, batch {batch}"
        timing(what, *pair, bound, repeats if batch < 64 else max(repeats // 2, 1))
    for name, size in (("imagenet-can", 224), ("imagenet-lgp", 224), ("cifar10-can", 32)):
        base, ours = cost(name, size), cost(f"{name}-amcl", size)
        numbers[f"cost of {name}"] = {"published": base, "amcl": ours}
        for what, scale, unit in (("parameters", 1e6, "M"), ("flops", 1e9, "GFLOPs an image")):
            measured = f"{ours[what] / scale:.1f} against {base[what] / scale:.1f} {unit}"
            share = f"{ours[what] / base[what]:.3f}"
            rows.append((f"{name}-amcl against {name}: {what}", measured, share, ""))
            print(*rows[-1], flush=True)
    write(rows, numbers)


def write(rows: list[tuple[str, str, str, str]], numbers: dict[str, Any]) -> None:
    """Write table and numbers into the folder of results."""
    lines = [("", "measured", "ratio", "bound"), ("---",) * 4, *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    text = (
        f"{table}\n\nSteps are forward, backward and AdamW, 224 pixels, timed in turns; "
        "ratios are medians (lowest … highest). Heads of 4096 hold 36 M weights more in three than "
        "in one, whose gradient and update cost the same at any batch: they show at 8 images, and "
        "not at the thousands of the recipe. Repeat with `python benchmarks/masked.py`. "
        f"{conditions()}, float32 on CPU.\n"
    )
    write_results("masked", "Cost of masked image modeling", text, numbers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="timed pairs of steps")
    main(parser.parse_args().repeats)
