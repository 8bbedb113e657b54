"""Parts of a Vision Transformer, one idea a file."""

from vitbook.layers.attention import Attention, LocalitySelfAttention, SelfAttention
from vitbook.layers.encoder import MLP, Encoder, EncoderBlock, PostNormBlock, StochasticDepth
from vitbook.layers.heads import ClassTokenHead, DistilledHead, MeanPoolHead
from vitbook.layers.positions import (
    LearnedPosition,
    LearnedPosition2D,
    NoPosition,
    resize_positions,
)
from vitbook.layers.tokenizers import PatchEmbedding
from vitbook.layers.views import RotatedPatches, ShiftedPatches

__all__ = [
    "MLP",
    "Attention",
    "ClassTokenHead",
    "DistilledHead",
    "Encoder",
    "EncoderBlock",
    "LearnedPosition",
    "LearnedPosition2D",
    "LocalitySelfAttention",
    "MeanPoolHead",
    "NoPosition",
    "PatchEmbedding",
    "PostNormBlock",
    "RotatedPatches",
    "SelfAttention",
    "ShiftedPatches",
    "StochasticDepth",
    "resize_positions",
]
