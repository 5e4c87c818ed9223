"""LGP with AMCL in plain PyTorch: MoCo v3 on the weights of MAE, lower layers moving slowly.

Run it with `python examples/lgp.py`, and on a folder of images with its path behind that.
"""

import sys

import mae
import moco_v3
import torch

from amcl.data import load_dataset
from amcl.views import Views


def parameter_groups(model, lr):
    """Return parameters with their rates: half of it for the lower two thirds of the blocks."""
    blocks = model.backbone.network.blocks
    lower = [p for block in blocks[: 2 * len(blocks) // 3] for p in block.parameters()]
    ids = {id(p) for p in lower}
    others = [p for p in model.parameters() if id(p) not in ids and p.requires_grad]
    return [{"params": lower, "lr": lr / 2}, {"params": others, "lr": lr}]


def train(images, mean, std, epochs=10, batch_size=128):
    """Train MAE, then MoCo v3 from its weights, and return the model."""
    first = mae.train(images, mean, std, epochs, batch_size)
    views = Views(32, mean=mean, std=std)
    model = moco_v3.MoCoV3()
    model.backbone.load_state_dict(first.backbone.state_dict())
    model.momentum_encoder.update(model.encoder, momentum=0.0)
    optimizer = torch.optim.AdamW(parameter_groups(model, lr=2e-3))
    for epoch in range(1, epochs + 1):
        losses = []
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            loss = model(*views(images[indices]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.update()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
    return model


if __name__ == "__main__":
    source = sys.argv[1] if len(sys.argv) > 1 else "builtin"
    data = load_dataset(source, image_size=32)
    model = train(data.train, data.mean, data.std)
    torch.save(model.backbone.state_dict(), "lgp.pt")
