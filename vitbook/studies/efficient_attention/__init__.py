"""What the chapter on efficient attention measures: what each shortcut assumes, and if it holds."""

from vitbook.studies.efficient_attention.approximation import (
    attention_error,
    attention_inputs,
    low_rank_error,
    relative_error,
)
from vitbook.studies.efficient_attention.claims import evidence, merged, redrawn
from vitbook.studies.efficient_attention.fewer_tokens import (
    WAYS,
    answers,
    drop_any,
    merge_alike,
    painted,
    with_fewer,
)
from vitbook.studies.efficient_attention.redrawn_features import read_otherwise

__all__ = [
    "WAYS",
    "answers",
    "attention_error",
    "attention_inputs",
    "drop_any",
    "evidence",
    "low_rank_error",
    "merge_alike",
    "merged",
    "painted",
    "read_otherwise",
    "redrawn",
    "relative_error",
    "with_fewer",
]
