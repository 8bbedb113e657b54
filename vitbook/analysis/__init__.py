"""Probes: look into a model, ours or not."""

from vitbook.analysis.attention_distance import (
    attention_distance,
    mean_attention_distance,
    mean_weight_on_prefix,
    uniform_attention_distance,
    weight_on_prefix,
)
from vitbook.analysis.capture import capture_attention
from vitbook.analysis.receptive_field import pixels_seen, window

__all__ = [
    "attention_distance",
    "capture_attention",
    "mean_attention_distance",
    "mean_weight_on_prefix",
    "pixels_seen",
    "uniform_attention_distance",
    "weight_on_prefix",
    "window",
]
