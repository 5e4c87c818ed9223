"""MAE in plain PyTorch: a vision transformer sees a quarter of the patches.

Run it with `python examples/mae.py`, and on a folder of images with its path behind that.
"""

import sys

import torch
from torch import nn

from amcl import functional as F
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.modules import MaskedDecoder, encode_visible, fix_positions, init_xavier, random_mask
from amcl.views import Views


class MAE(nn.Module):
    """A vision transformer and a decoder."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="test_vit"), image_size=32)
        self.network = self.backbone.network
        init_xavier(self.network)
        fix_positions(self.network)
        self.patch = self.network.patch_embed.patch_size[0]
        grid = self.network.patch_embed.grid_size
        self.decoder = MaskedDecoder(
            self.network.embed_dim, grid, self.patch, dim=64, depth=1, heads=4
        )

    def forward(self, images):
        """Return the squared error of the patches that the encoder does not see."""
        targets = F.normalized_patches(F.patchify(images, self.patch))
        n, tokens, _ = targets.shape
        masked = random_mask(n, tokens, 0.75, torch.default_generator)
        visible = encode_visible(self.network, images, masked)
        return F.masked_reconstruction(self.decoder(visible, masked), targets, masked)


def train(images, mean, std, epochs=10, batch_size=128):
    """Train on images, and return the model."""
    views = Views(32, mean=mean, std=std)
    model = MAE()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(1, epochs + 1):
        losses = []
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            loss = model(views(images[indices])[0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
    return model


if __name__ == "__main__":
    source = sys.argv[1] if len(sys.argv) > 1 else "builtin"
    data = load_dataset(source, image_size=32)
    model = train(data.train, data.mean, data.std)
    torch.save(model.backbone.state_dict(), "mae.pt")
