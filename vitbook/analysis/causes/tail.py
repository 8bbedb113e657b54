"""What turns the last block's tokens into logits, found by what runs behind it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.outputs import list_blocks
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import as_model_takes, logits_of
from vitbook.model_utilities import evaluating

SAME = 1e-3  # of the largest logit: more than half precision and another order of sums change


@dataclass(frozen=True)
class Tail:
    """The last norm and the classifier of a model, and how it reads tokens.

    Attributes:
        blocks: paths of the model's blocks.
        norm: behind the last block; a LayerNorm or an RMSNorm.
        head: linear, from one token's numbers to logits.
        prefix: tokens in front of the patches; -1 if the class token alone is read.
        mean_first: the mean of the patches is taken before the norm.
    """

    blocks: tuple[str, ...]
    norm: nn.Module
    head: nn.Linear
    prefix: int
    mean_first: bool

    def read(self, tokens: Float[Tensor, "batch tokens *more"]) -> Float[Tensor, "batch *more"]:
        """The class token, or the mean of the patch tokens."""
        return tokens[:, 0] if self.prefix < 0 else tokens[:, self.prefix :].mean(1)


def find_tail(model: nn.Module, images: Float[Tensor, "batch channels height width"]) -> Tail:
    """Run one image, see what comes behind the last block, and hold it against the model's logits.

    Raises:
        ValueError: no blocks, or a head that reads the tokens in another way.
    """
    blocks = list_blocks(model)
    name = type(model).__name__
    if not blocks:
        raise ValueError(f"{name} has no blocks in a ModuleList or a Sequential")
    behind: list[nn.Module] = []
    last: list[Tensor] = []

    def ended(_: nn.Module, args: tuple, output: Tensor | tuple) -> None:
        last[:] = [output[0] if isinstance(output, tuple) else output]
        behind.clear()

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if path == blocks[-1]:
            yield module.register_forward_hook(ended)
        elif not list(module.children()) and list(module.parameters(recurse=False)):
            yield module.register_forward_pre_hook(lambda ran, _: behind.append(ran))

    with torch.no_grad(), evaluating(model), record_modules(model, watch):
        logits = logits_of(model)(as_model_takes(model, images[:1]))
        norms = [module for module in behind if is_norm(module)]
        heads = [module for module in behind if isinstance(module, nn.Linear)]
        if not last or last[0].ndim != 3 or len(norms) != 1 or len(heads) != 1 or len(behind) != 2:
            ran = ", ".join(type(module).__name__ for module in behind) or "nothing"
            raise ValueError(
                f"behind the last block of {name} runs {ran}: expected a norm and one linear layer "
                "that reads a class token or a mean of tokens"
            )
        (norm,), (head,) = norms, heads
        if head.in_features != last[0].shape[-1]:
            raise ValueError(
                f"the head of {name} reads {head.in_features} numbers, a token has "
                f"{last[0].shape[-1]}: expected a head that reads one class token or one mean"
            )
        for prefix in range(-1, 6):
            for mean_first in (False, True)[: 1 + (prefix >= 0)]:
                tail = Tail(blocks, norm, head, prefix, mean_first)
                read = norm(tail.read(last[0])) if mean_first else tail.read(norm(last[0]))
                if (head(read) - logits).abs().max() <= SAME * logits.abs().max():
                    return tail
    raise ValueError(
        f"the head of {name} reads its tokens in a way that is not known: expected a class token, "
        "or a mean of the patch tokens before or behind the last norm"
    )


def is_norm(module: nn.Module) -> bool:
    return (
        isinstance(module, nn.LayerNorm | nn.RMSNorm) or "rmsnorm" in type(module).__name__.lower()
    )
