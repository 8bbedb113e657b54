"""Mistakes from public code, to be trained with: what do they cost a model that knows no better?

Each keeps every shape and every weight. The chapter says where each was seen. The command line
finds :data:`FAULTS`, :func:`check_fault` and :func:`plant` by their names.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vitbook.errors import UnknownNameError
from vitbook.layers import (
    Attention,
    ClassTokenHead,
    LearnedPosition,
    PatchEmbedding,
    SelfAttention,
    ShiftedPatches,
    StochasticDepth,
    resize_positions,
)
from vitbook.layers.tokenizers import check_images
from vitbook.models import create_model
from vitbook.runs import Recipe
from vitbook.studies.pitfalls import test_vit


class _OtherStatistics(PatchEmbedding):
    """Pixels between -1 and 1 come with ImageNet's usual mean and deviation instead."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(((images + 1) / 2 - 0.449) / 0.226)


class _Strips(PatchEmbedding):
    """The image is viewed as patches: strips of its rows of pixels."""

    def forward(self, images: Tensor) -> Tensor:
        check_images(images, self.channels, self.image_size)
        rows, columns = self.grid_size
        strips = images.flatten(1).unflatten(1, (rows * columns, -1))
        return F.linear(strips, self.projection.weight.flatten(1), self.projection.bias)


class _SwappedAxes(PatchEmbedding):
    """Rows and columns of the grid change places."""

    def forward(self, images: Tensor) -> Tensor:
        rows, columns = self.grid_size
        tokens = super().forward(images)
        return rearrange(tokens, "b (r c) d -> b (c r) d", r=rows, c=columns)


class _AxisShifts(ShiftedPatches):
    """Shifts by one pixel along the axes, not by half a patch along the diagonals."""

    def views(self, images: Tensor) -> Tensor:
        shifts = ((1, -1, 0, 0), (-1, 1, 0, 0), (0, 0, 1, -1), (0, 0, -1, 1))
        return torch.cat([images, *(F.pad(images, shift) for shift in shifts)], dim=1)


class _EarlyPositions(LearnedPosition):
    """Positions are added before the class token is put in front, which gets none."""

    def forward(self, tokens: Tensor) -> Tensor:
        first = self.num_prefix_tokens
        return torch.cat([tokens[:, :first], tokens[:, first:] + self.table[:-first]], dim=1)

    @torch.no_grad()
    def resize(self, grid_size: tuple[int, int], method: str = "timm_bicubic") -> None:
        """The patches' rows come first here, and what no token gets comes last."""
        patches, rest = self.table[: -self.num_prefix_tokens], self.table[-self.num_prefix_tokens :]
        patches = resize_positions(patches, self.grid_size, grid_size, 0, method)
        self.table = nn.Parameter(torch.cat([patches, rest]), self.table.requires_grad)
        self.grid_size = grid_size


class _QuerySoftmax(Attention):
    """Softmax over the queries: what a token sends sums to 1, not what it gets."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        weights = self.weights(k, q, None if mask is None else mask.mT).mT
        return weights.to(v.dtype) @ v


class _ReshapedHeads(Attention):
    """Heads are split by a reshape without a transpose: groups of tokens that are neighbours."""

    no_map = "mixes parts of tokens, and no tokens"

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        heads = q.shape[1]
        q, k, v = (rearrange(t, "b h n d -> b n (h d)").reshape(t.shape) for t in (q, k, v))
        merged = super().forward(q, k, v, mask).flatten(1).unflatten(1, (q.shape[2], -1))
        return rearrange(merged, "b n (h d) -> b h n d", h=heads)


class _ModelScale(Attention):
    """Scores are divided by the root of the model's width, not of a head's."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(q / q.shape[1] ** 0.5, k, v, mask)


class _BatchAsSequence(SelfAttention):
    """The batch is taken for the sequence: a token meets the same token of other images."""

    no_map = "mixes images, and no tokens of one"

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(tokens.transpose(0, 1)).transpose(0, 1)


class _UnscaledDepth(StochasticDepth):
    """What survives is not divided by the share that does: a branch is larger when it is used."""

    def forward(self, branch: Tensor) -> Tensor:
        dropped = super().forward(branch)
        return dropped * (1 - self.rate) if self.training else dropped


class _SoftmaxTwice(ClassTokenHead):
    """The head ends in a softmax, and its loss has another."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).softmax(dim=-1)


class _DecayedPositions(LearnedPosition):
    """Weight decay pulls at positions and prefix tokens too: the optimizer asks for it here."""

    decays_tables = True


# name -> the part that it acts on, and what that becomes, which says its fault itself.
FAULTS: dict[str, tuple[type[nn.Module], type[nn.Module]]] = {
    "other_statistics": (PatchEmbedding, _OtherStatistics),
    "strips": (PatchEmbedding, _Strips),
    "axis_shifts": (ShiftedPatches, _AxisShifts),
    "early_positions": (LearnedPosition, _EarlyPositions),
    "swapped_axes": (PatchEmbedding, _SwappedAxes),
    "query_softmax": (Attention, _QuerySoftmax),
    "reshaped_heads": (Attention, _ReshapedHeads),
    "model_scale": (Attention, _ModelScale),
    "batch_as_sequence": (SelfAttention, _BatchAsSequence),
    "softmax_twice": (ClassTokenHead, _SoftmaxTwice),
    "unscaled_depth": (StochasticDepth, _UnscaledDepth),
    "decayed_positions": (LearnedPosition, _DecayedPositions),
}
for _fault, (_, _wrong) in FAULTS.items():
    _wrong.fault = _fault


def check_fault(recipe: Recipe) -> None:
    """Refuse a fault that nobody knows, or that would change nothing in a run by this recipe.

    Raises:
        UnknownNameError: no such fault; names the nearest.
        ValueError: it needs what the recipe has not.
    """
    fault = recipe.fault
    if fault and fault not in FAULTS:
        raise UnknownNameError("fault", fault, FAULTS)
    if fault == "unscaled_depth" and not recipe.drop_path:
        raise ValueError(
            f"fault {fault!r} with drop_path 0: it would change nothing; set drop_path"
        )
    if fault == "softmax_twice" and recipe.objective:
        raise ValueError(
            f"fault {fault!r} with objective {recipe.objective!r}, which knows no head: "
            "it would change nothing; leave one of them out"
        )


def plant(model: nn.Module, fault: str) -> None:
    """Plant a mistake into a model, in place; its weights stay as they are.

    Args:
        fault: one of :data:`FAULTS`. "decayed_positions" acts in training alone.

    Raises:
        UnknownNameError: no such fault; names the nearest.
        ValueError: the model has no part that the fault acts on, or one that has a fault already.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.studies.pitfalls import plant
        >>> model = vitbook.create_model("vit_micro_patch2_8")
        >>> plant(model, "softmax_twice")
        >>> round(model(torch.zeros(1, 1, 8, 8)).sum().item(), 3)
        1.0
    """
    if fault not in FAULTS:
        raise UnknownNameError("fault", fault, FAULTS)
    right, wrong = FAULTS[fault]
    for part in model.modules():
        if hasattr(part, "fault") and isinstance(part, right):
            raise ValueError(
                f"fault {fault!r} in a {type(model).__name__} that has the fault {part.fault!r} "
                "there: expected a part without one, of a fresh model"
            )
    parts = [part for part in model.modules() if type(part) is right]
    if fault == "early_positions" and any(not part.num_prefix_tokens for part in parts):
        raise ValueError(
            f"fault {fault!r} in a {type(model).__name__} without a class token: expected a "
            "model that has one, such as vit_micro_patch2_8"
        )
    if not parts:
        raise ValueError(
            f"fault {fault!r} in a {type(model).__name__} without a {right.__name__}: expected a "
            f"model that has one, such as {'spt_' * (right is ShiftedPatches)}vit_micro_patch2_8"
        )
    for part in parts:
        part.__class__ = wrong  # the same weights under the same names


def about_digits(make_model: Callable[[], nn.Module]) -> AbstractContextManager:
    """Inside the block `test_vit.py` tests such a model of ours, which reads digits."""
    return patch.multiple(
        test_vit, make_model=make_model, blocks_of=lambda model: model.encoder.blocks,
        PATCH=2, SIZE=8, CHANNELS=1,
    )  # fmt: skip


def broken_laws(fault: str) -> list[str]:
    """The tests of `test_vit.py` that fail for the digits model with a mistake planted."""

    def make_model() -> nn.Module:
        model = create_model("vit_micro_patch2_8")
        if fault:
            plant(model, fault)
        return model

    broken = []
    with about_digits(make_model):
        for name in (name for name in dir(test_vit) if name.startswith("test_")):
            try:
                getattr(test_vit, name)()
            except AssertionError:
                broken.append(name.removeprefix("test_").replace("_", " "))
    return broken
