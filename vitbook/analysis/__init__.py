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
from vitbook.analysis.capture import capture_attention
from vitbook.analysis.receptive_field import pixels_seen, window
from vitbook.analysis.relevance import gradient_rollout, relevance
from vitbook.analysis.rollout import attention_rollout

__all__ = [
    "attention_distance",
    "attention_error",
    "attention_inputs",
    "attention_rollout",
    "capture_attention",
    "gradient_rollout",
    "low_rank_error",
    "mean_attention_distance",
    "mean_weight_on_prefix",
    "pixels_seen",
    "relative_error",
    "relevance",
    "uniform_attention_distance",
    "weight_on_prefix",
    "window",
]
