"""Network parts that methods are composed of."""

from amcl.modules.heads import LastNorm, ProjectionHeads
from amcl.modules.masked_decoder import MaskedDecoder, NoiseEmbedding
from amcl.modules.masked_vit import encode_visible, fix_positions, random_mask, visible_places
from amcl.modules.momentum import MomentumCopy, Queue, cosine_momentum

__all__ = [
    "LastNorm",
    "MaskedDecoder",
    "MomentumCopy",
    "NoiseEmbedding",
    "ProjectionHeads",
    "Queue",
    "cosine_momentum",
    "encode_visible",
    "fix_positions",
    "random_mask",
    "visible_places",
]
