"""What turns the last block's tokens into logits, found by what runs behind it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.outputs import first_of
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import as_model_takes, logits_of
from vitbook.blocks import list_blocks
from vitbook.model_utilities import evaluating

SAME = 1e-3  # of the largest logit: more than another order of sums changes
ROUNDINGS = 8  # of half precision one alone is more


@dataclass(frozen=True)
class Tail:
    """The last norm and the classifier of a model, and how it reads tokens.

    Attributes:
        blocks: paths of the model's blocks that give tokens, in the order in which they ran.
        norm: behind the last block; a LayerNorm or an RMSNorm.
        head: linear, from what is read to logits.
        prefix: tokens in front of the patches; -1 if the class token alone is read.
        mean_first: the mean of the patches is taken before the norm.
        beside: the class token stands beside the mean of the patches, as in DINOv2's classifier.
    """

    blocks: tuple[str, ...]
    norm: nn.Module
    head: nn.Linear
    prefix: int
    mean_first: bool
    beside: bool = False

    def read(self, tokens: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch numbers"]:
        """The class token, the mean of the patch tokens, or both."""
        if self.prefix < 0:
            return tokens[:, 0]
        mean = tokens[:, self.prefix :].mean(1)
        return torch.cat([tokens[:, 0], mean], dim=1) if self.beside else mean

    def of_each(
        self, tokens: Float[Tensor, "batch tokens width"]
    ) -> Float[Tensor, "batch tokens classes"]:
        """Logits of each token, as if the head read nothing else; a class token stays beside it."""
        normed = self.norm(tokens)
        if not self.beside:
            return self.head(normed)
        alone = normed.clone()
        alone[:, : self.prefix] = normed[:, self.prefix :].mean(1, keepdim=True)
        return self.head(torch.cat([normed[:, :1].expand_as(normed), alone], dim=-1))

    def gives(self, found: Tensor, logits: Tensor) -> bool:
        """Whether logits are the model's but for rounding. The bias is in all: it says nothing."""
        eps = torch.finfo(logits.dtype).eps
        own = logits if self.head.bias is None else logits - self.head.bias
        near = max(SAME, ROUNDINGS * eps) * own.abs().max() + ROUNDINGS * eps * logits.abs().max()
        return bool((found - logits).abs().max() <= near)


def find_tail(model: nn.Module, images: Float[Tensor, "batch channels height width"]) -> Tail:
    """Run one image, see what comes behind the last block, and hold it against the model's logits.

    Raises:
        ValueError: no blocks, blocks of several widths, or a head that reads the tokens in another
            way.
    """
    paths = list_blocks(model)
    name = type(model).__name__
    if not paths:
        raise ValueError(f"{name} has no blocks in a ModuleList or a Sequential")
    behind: list[nn.Module] = []
    gave: dict[str, Tensor] = {}
    last = torch.empty(0)

    def ended(path: str, _: nn.Module, args: tuple, output: Tensor | tuple) -> None:
        nonlocal last
        last = first_of(output)
        if isinstance(last, Tensor) and last.ndim == 3:  # and no map of a stem of convolutions
            gave[path] = last
        behind.clear()

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if path in paths:
            yield module.register_forward_hook(partial(ended, path))
        elif not list(module.children()) and list(module.parameters(recurse=False)):
            yield module.register_forward_pre_hook(lambda ran, _: behind.append(ran))

    with torch.no_grad(), evaluating(model), record_modules(model, watch):
        logits = logits_of(model)(as_model_takes(model, images[:1]))
        if not isinstance(last, Tensor) or last.ndim != 3:
            shape = tuple(last.shape) if isinstance(last, Tensor) else type(last).__name__
            raise ValueError(
                f"the last block of {name} gives {shape}: expected tokens, (images, tokens, "
                "numbers)"
            )
        widths = sorted({tokens.shape[-1] for tokens in gave.values()})
        if len(widths) > 1:
            raise ValueError(
                f"the blocks of {name} give tokens of {', '.join(map(str, widths))} numbers: "
                "expected one width, which the last norm takes"
            )
        norms = [module for module in behind if is_norm(module)]
        heads = [module for module in behind if isinstance(module, nn.Linear)]
        if len(norms) != 1 or len(heads) != 1 or len(behind) != 2:
            ran = ", ".join(type(module).__name__ for module in behind) or "nothing"
            raise ValueError(
                f"behind the last block of {name} runs {ran}: expected a norm and one linear layer "
                "that reads a class token, a mean of tokens, or both"
            )
        (norm,), (head,) = norms, heads
        beside = head.in_features == 2 * last.shape[-1]
        if not beside and head.in_features != last.shape[-1]:
            raise ValueError(
                f"the head of {name} reads {head.in_features} numbers, a token has "
                f"{last.shape[-1]}: expected a head that reads a class token, a mean, or both"
            )
        # Of many tokens all means are nearly the same: the nearest one counts.
        nearest, tail = torch.inf, None
        for prefix in range(1 if beside else -1, min(6, last.shape[1])):
            for mean_first in (False, True)[: 1 + (prefix >= 0 and not beside)]:
                each = Tail(tuple(gave), norm, head, prefix, mean_first, beside)
                found = head(norm(each.read(last)) if mean_first else each.read(norm(last)))
                if (far := (found - logits).abs().max().item()) < nearest and each.gives(
                    found, logits
                ):
                    nearest, tail = far, each
    if tail is not None:
        return tail
    raise ValueError(
        f"the head of {name} reads its tokens in a way that is not known: expected a class token, "
        "a mean of the patch tokens before or behind the last norm, or a class token beside it"
    )


def is_norm(module: nn.Module) -> bool:
    return (
        isinstance(module, nn.LayerNorm | nn.RMSNorm) or "rmsnorm" in type(module).__name__.lower()
    )
