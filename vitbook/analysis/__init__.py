"""Probes: look into a model, ours or not."""

from vitbook.analysis.approximation import (
    attention_error,
    attention_inputs,
    low_rank_error,
    relative_error,
)
from vitbook.analysis.attention_distance import (
    attention_distance,
    mean_attention_distance,
    mean_weight_on_prefix,
    uniform_attention_distance,
    weight_on_prefix,
)
from vitbook.analysis.attribution import integrated_gradients, on_grid, patch_occlusion
from vitbook.analysis.baselines import baseline_images
from vitbook.analysis.capture import capture_attention
from vitbook.analysis.faithfulness import (
    Curve,
    Interval,
    bootstrap_interval,
    deletion,
    insertion,
    pointing,
)
from vitbook.analysis.grad_cam import token_grad_cam
from vitbook.analysis.null_maps import centre_maps, edge_maps, random_maps
from vitbook.analysis.receptive_field import pixels_seen, window

__all__ = [
    "Curve",
    "Interval",
    "attention_distance",
    "attention_error",
    "attention_inputs",
    "baseline_images",
    "bootstrap_interval",
    "capture_attention",
    "centre_maps",
    "deletion",
    "edge_maps",
    "insertion",
    "integrated_gradients",
    "low_rank_error",
    "mean_attention_distance",
    "mean_weight_on_prefix",
    "on_grid",
    "patch_occlusion",
    "pixels_seen",
    "pointing",
    "random_maps",
    "relative_error",
    "token_grad_cam",
    "uniform_attention_distance",
    "weight_on_prefix",
    "window",
]
