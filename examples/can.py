"""CAN with AMCL in plain PyTorch: contrast, reconstruction and denoising of masked views.

Run it with `python examples/can.py`, and on a folder of images with its path behind that.
"""

import sys

import torch
from torch import nn

import amcl
from amcl import functional as F
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.modules import (
    MaskedDecoder,
    NoiseEmbedding,
    encode_visible,
    fix_positions,
    init_xavier,
    random_mask,
)
from amcl.views import Views


class CAN(nn.Module):
    """A vision transformer, three heads, a decoder and the three losses."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="test_vit"), image_size=32)
        self.network = vit = self.backbone.network
        init_xavier(vit)
        fix_positions(vit)
        self.patch = vit.patch_embed.patch_size[0]
        self.heads = amcl.ProjectionHeads(vit.embed_dim, 256, 64, num_heads=3, norm=True)
        self.criterion = amcl.AMCLLoss(num_heads=3, dim=64, prior_tau=0.2)
        self.noise_embedding = NoiseEmbedding(vit.embed_dim)
        grid = vit.patch_embed.grid_size
        self.decoder = MaskedDecoder(vit.embed_dim, grid, self.patch, dim=64, depth=1, heads=4)

    def forward(self, view0, view1):
        """Return the loss of two views of the same images."""
        images = torch.cat([view0, view1])
        sigma = 0.05 * torch.rand(len(images))
        noise = sigma.view(-1, 1, 1, 1) * torch.randn_like(images)
        targets, noise_targets = (
            F.normalized_patches(F.patchify(x, self.patch)) for x in (images, noise)
        )
        masked = random_mask(len(images), targets.shape[1], 0.5, torch.default_generator)
        tokens = encode_visible(self.network, images + noise, masked)
        h0, h1 = self.network.forward_head(tokens).chunk(2)
        prediction = self.decoder(tokens, masked, self.noise_embedding(sigma))
        return (
            0.3 * self.criterion(self.heads(h0), self.heads(h1))
            + 0.67 * F.masked_reconstruction(prediction, targets, masked)
            + 0.3 * F.noise_prediction(prediction, noise_targets, masked)
        )


def train(images, mean, std, epochs=10, batch_size=128):
    """Train on images, and return the model."""
    views = Views(32, mean=mean, std=std)
    model = CAN()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(1, epochs + 1):
        losses = []
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            loss = model(*views(images[indices]))
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
    torch.save(model.backbone.state_dict(), "can.pt")
