"""Probes: look into a model, ours or not.

A probe is a pure function: tensors, or a model and images, in; tensors or a small dataclass out.
It works for any grid and any number of prefix tokens, and leaves the model as it was. Drawing
belongs in `plots` and `figures`, loading in `datasets`. `capture` is what all of it stands on.
"""

from vitbook.analysis.attention.attention_variance import (
    PARTS,
    VarianceParts,
    head_variance_parts,
    variance_parts,
)
from vitbook.analysis.attention.class_relevance import gradient_rollout, relevance
from vitbook.analysis.attention.distance import (
    attention_distance,
    mean_attention_distance,
    mean_weight_on_prefix,
    uniform_attention_distance,
    weight_on_prefix,
)
from vitbook.analysis.attention.rollout import attention_rollout
from vitbook.analysis.attribution.attn_lrp import attn_lrp
from vitbook.analysis.attribution.baselines import baseline_images, black_level
from vitbook.analysis.attribution.captum_maps import integrated_gradients, on_grid, patch_occlusion
from vitbook.analysis.attribution.faithfulness import (
    Curve,
    Interval,
    bootstrap_interval,
    deletion,
    insertion,
)
from vitbook.analysis.attribution.grad_cam import map_grad_cam, token_grad_cam
from vitbook.analysis.attribution.guided import guided_backpropagation
from vitbook.analysis.attribution.imputation import impute
from vitbook.analysis.attribution.location import pointing
from vitbook.analysis.attribution.null_maps import centre_maps, edge_maps, random_maps
from vitbook.analysis.attribution.outside import as_explanation
from vitbook.analysis.attribution.rendering import overlay, soft_masks
from vitbook.analysis.attribution.scoring import (
    CNN_EXPLANATIONS,
    EXPLANATIONS,
    Scores,
    explanations_of,
    last_attention,
    null_explanations,
    rank_correlation,
    score_explanations,
    score_rows,
)
from vitbook.analysis.capture.outputs import layer_tokens
from vitbook.analysis.capture.record import capture_attention
from vitbook.analysis.capture.streaming import by_layer
from vitbook.analysis.causes.contributions import logit_contributions
from vitbook.analysis.causes.lens import logit_lens
from vitbook.analysis.causes.patching import patched_logits
from vitbook.analysis.features.channels import ChannelHealth, dead_and_saturated, feature_maps
from vitbook.analysis.features.filters import (
    EmbeddingFilters,
    PrincipalFilters,
    as_images,
    embedding_filters,
    principal_filters,
)
from vitbook.analysis.features.positions import (
    MirrorSimilarity,
    PositionTable,
    mirror_similarity,
    position_norms,
    position_tables,
    positional_similarity,
)
from vitbook.analysis.features.receptive_field import effective_field, pixels_seen, window
from vitbook.analysis.features.similarity import cka, linear_cka, unbiased_hsic
from vitbook.analysis.features.token_components import object_mask, principal_tokens, token_colors
from vitbook.blocks import list_blocks

__all__ = [
    "CNN_EXPLANATIONS",
    "EXPLANATIONS",
    "PARTS",
    "ChannelHealth",
    "Curve",
    "EmbeddingFilters",
    "Interval",
    "MirrorSimilarity",
    "PositionTable",
    "PrincipalFilters",
    "Scores",
    "VarianceParts",
    "as_explanation",
    "as_images",
    "attention_distance",
    "attention_rollout",
    "attn_lrp",
    "baseline_images",
    "black_level",
    "bootstrap_interval",
    "by_layer",
    "capture_attention",
    "centre_maps",
    "cka",
    "dead_and_saturated",
    "deletion",
    "edge_maps",
    "effective_field",
    "embedding_filters",
    "explanations_of",
    "feature_maps",
    "gradient_rollout",
    "guided_backpropagation",
    "head_variance_parts",
    "impute",
    "insertion",
    "integrated_gradients",
    "last_attention",
    "layer_tokens",
    "linear_cka",
    "list_blocks",
    "logit_contributions",
    "logit_lens",
    "map_grad_cam",
    "mean_attention_distance",
    "mean_weight_on_prefix",
    "mirror_similarity",
    "null_explanations",
    "object_mask",
    "on_grid",
    "overlay",
    "patch_occlusion",
    "patched_logits",
    "pixels_seen",
    "pointing",
    "position_norms",
    "position_tables",
    "positional_similarity",
    "principal_filters",
    "principal_tokens",
    "random_maps",
    "rank_correlation",
    "relevance",
    "score_explanations",
    "score_rows",
    "soft_masks",
    "token_colors",
    "token_grad_cam",
    "unbiased_hsic",
    "uniform_attention_distance",
    "variance_parts",
    "weight_on_prefix",
    "window",
]
