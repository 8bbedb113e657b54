"""Parts of a model, one idea a file: attention, tokenizers, positions, blocks, heads.

A part takes tensors and knows no other room. Whole networks belong in `models`; what looks at a
part from outside, in `analysis`. A part that only one paper uses may stand here if its idea can
be told alone.
"""

from vitbook.layers.adapters import LowRankLinear
from vitbook.layers.attention.blocks import (
    AxialBlock,
    AxialSelfAttention,
    BlockLocalSelfAttention,
    NeighborhoodSelfAttention,
)
from vitbook.layers.attention.linformer import LinformerSelfAttention, SequenceProjection
from vitbook.layers.attention.performer import PerformerAttention, PerformerSelfAttention
from vitbook.layers.attention.qk_norm import QKNormSelfAttention
from vitbook.layers.attention.query_pooling import QueryPoolingAttention, QueryPoolingBlock
from vitbook.layers.attention.relative import (
    RelativePosition,
    RelativePosition2D,
    RelativePositionBias,
    RelativeSelfAttention,
)
from vitbook.layers.attention.reused import (
    EvenSelfAttention,
    ReusingBlock,
    ReusingEncoder,
    ReusingSelfAttention,
    SharingSelfAttention,
)
from vitbook.layers.attention.rotary import RotaryPosition2D, RotarySelfAttention
from vitbook.layers.attention.shifted_windows import WindowSelfAttention
from vitbook.layers.attention.softmax import (
    Attention,
    CausalSelfAttention,
    EvenAttention,
    GivenAttention,
    LocalitySelfAttention,
    SelfAttention,
)
from vitbook.layers.attention.spatial_reduction import SpatialReductionAttention
from vitbook.layers.convolution import PreActivationBottleneck, StandardizedConv2d
from vitbook.layers.convolutional_mlp import ConvolutionalMLP
from vitbook.layers.convolutional_stem import ConvolutionalStem
from vitbook.layers.encoder import (
    MLP,
    Dropout,
    Encoder,
    EncoderBlock,
    PositionedEncoder,
    PostNormBlock,
    StochasticDepth,
)
from vitbook.layers.heads import (
    ClassAndMeanHead,
    ClassToken,
    ClassTokenHead,
    DistilledHead,
    MeanPoolHead,
    NormedMeanHead,
    make_head,
)
from vitbook.layers.initialization import xavier_uniform_
from vitbook.layers.layer_scale import LayerScale, LayerScaleBlock
from vitbook.layers.normalization import RMSNorm, layer_norm
from vitbook.layers.patch_dropout import PatchDropout, PatchDroppingEncoder
from vitbook.layers.patch_kernels import resize_matrix, resize_patch_kernel
from vitbook.layers.positions import (
    LearnedPosition,
    LearnedPosition2D,
    NoPosition,
    resize_positions,
)
from vitbook.layers.quantizers import (
    PrunedLinear,
    Quantized,
    QuantizedLinear,
    quantize,
)
from vitbook.layers.shrinking import (
    OnGrid,
    OverlappingMerging,
    PatchMerging,
    PyramidEncoder,
    ShrinkingEncoder,
)
from vitbook.layers.sinusoid import SinusoidPosition, SinusoidPosition2D
from vitbook.layers.swiglu import SwiGLU
from vitbook.layers.tokenizers import (
    LeaningPatches,
    NormedPatches,
    OverlappingPatches,
    PatchEmbedding,
)
from vitbook.layers.tokens_to_tokens import TokensToTokens
from vitbook.layers.views import RotatedPatches, ShiftedPatches

__all__ = [
    "MLP",
    "Attention",
    "AxialBlock",
    "AxialSelfAttention",
    "BlockLocalSelfAttention",
    "CausalSelfAttention",
    "ClassAndMeanHead",
    "ClassToken",
    "ClassTokenHead",
    "ConvolutionalMLP",
    "ConvolutionalStem",
    "DistilledHead",
    "Dropout",
    "Encoder",
    "EncoderBlock",
    "EvenAttention",
    "EvenSelfAttention",
    "GivenAttention",
    "LayerScale",
    "LayerScaleBlock",
    "LeaningPatches",
    "LearnedPosition",
    "LearnedPosition2D",
    "LinformerSelfAttention",
    "LocalitySelfAttention",
    "LowRankLinear",
    "MeanPoolHead",
    "NeighborhoodSelfAttention",
    "NoPosition",
    "NormedMeanHead",
    "NormedPatches",
    "OnGrid",
    "OverlappingMerging",
    "OverlappingPatches",
    "PatchDropout",
    "PatchDroppingEncoder",
    "PatchEmbedding",
    "PatchMerging",
    "PerformerAttention",
    "PerformerSelfAttention",
    "PositionedEncoder",
    "PostNormBlock",
    "PreActivationBottleneck",
    "PrunedLinear",
    "PyramidEncoder",
    "QKNormSelfAttention",
    "Quantized",
    "QuantizedLinear",
    "QueryPoolingAttention",
    "QueryPoolingBlock",
    "RMSNorm",
    "RelativePosition",
    "RelativePosition2D",
    "RelativePositionBias",
    "RelativeSelfAttention",
    "ReusingBlock",
    "ReusingEncoder",
    "ReusingSelfAttention",
    "RotaryPosition2D",
    "RotarySelfAttention",
    "RotatedPatches",
    "SelfAttention",
    "SequenceProjection",
    "SharingSelfAttention",
    "ShiftedPatches",
    "ShrinkingEncoder",
    "SinusoidPosition",
    "SinusoidPosition2D",
    "SpatialReductionAttention",
    "StandardizedConv2d",
    "StochasticDepth",
    "SwiGLU",
    "TokensToTokens",
    "WindowSelfAttention",
    "layer_norm",
    "make_head",
    "quantize",
    "resize_matrix",
    "resize_patch_kernel",
    "resize_positions",
    "xavier_uniform_",
]
