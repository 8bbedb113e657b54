"""Direct logit attribution: what each part of a model adds to its logits."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitbook.analysis.capture.outputs import first_of
from vitbook.analysis.capture.record import record_modules
from vitbook.analysis.capture.running import as_model_takes, logits_of, takes_images
from vitbook.analysis.causes.tail import Tail, find_tail, is_norm
from vitbook.model_utilities import evaluating


@takes_images()
@torch.no_grad()
def logit_contributions(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> dict[str, Float[Tensor, "batch classes"]]:
    r"""What the embedding, each attention and each MLP add to each logit.

    Behind the last block stands a sum, :math:`z_L = z_0 + \sum_l (a_l + m_l)`. With the norm's
    statistics held at those of :math:`z_L` the way to the logits is linear, and each term has its
    own share of them. Only the direct way is counted: what later layers make of a term is theirs.
    Elhage et al. 2021 ("A mathematical framework for Transformer circuits").

    Args:
        images: normalised as the model takes them.

    Returns:
        Logits by the part that adds them, ``embedding``, for each block ``PATH attention`` and
        ``PATH MLP``, and ``bias``, that of the last norm and of the head. They sum to the model's
        logits, and are float32 at least.

    Raises:
        ValueError: the model's head reads something else than a class token, a mean, or both; a
            block that does not add two parts to its tokens, such as one with the norm behind them;
            one that runs several times; something is added between two blocks.

    Example:
        >>> import torch, vitbook
        >>> from vitbook.analysis import logit_contributions
        >>> model = vitbook.create_model("vit_micro_patch2_8").eval()
        >>> images = torch.rand(2, 1, 8, 8)
        >>> found = logit_contributions(model, images)
        >>> torch.allclose(sum(found.values()), model(images), atol=1e-4)
        True
    """
    tail = find_tail(model, images)
    entered: dict[str, Tensor] = {}
    between: dict[str, list[Tensor]] = {path: [] for path in tail.blocks}
    left: dict[str, Tensor] = {}

    def before(path: str, _: nn.Module, args: tuple, kwargs: dict) -> None:
        if path in entered:
            raise ValueError(
                f"{path} of {type(model).__name__} runs several times: expected blocks that run "
                "once"
            )
        entered[path] = _first(args, kwargs)

    def at_norm(path: str, _: nn.Module, args: tuple, kwargs: dict) -> None:
        found = _first(args, kwargs)
        if found.shape == entered[path].shape:
            between[path].append(found)

    def after(path: str, _: nn.Module, args: tuple, output: Tensor | tuple) -> None:
        left[path] = first_of(output)

    def watch(path: str, module: nn.Module) -> Iterator[RemovableHandle]:
        if path in between:
            yield module.register_forward_pre_hook(partial(before, path), with_kwargs=True)
            yield module.register_forward_hook(partial(after, path))
        elif is_norm(module):
            for block in tail.blocks:
                if path.startswith(f"{block}."):
                    yield module.register_forward_pre_hook(
                        partial(at_norm, block), with_kwargs=True
                    )

    with evaluating(model), record_modules(model, watch):
        logits = logits_of(model)(as_model_takes(model, images))

    parts = {"embedding": entered[tail.blocks[0]]}
    for path in tail.blocks:
        first, *seen = between[path] or [left[path]]
        if len(seen) != 1 or not torch.equal(first, entered[path]):
            raise ValueError(
                f"{path} of {type(model).__name__} does not add an attention and an MLP to tokens "
                "that a norm reads before each: expected a block with both norms in front (Pre-LN)"
            )
        parts[f"{path} attention"] = _exact(seen[0]) - _exact(first)
        parts[f"{path} MLP"] = _exact(left[path]) - _exact(seen[0])
    for one, following in pairwise(tail.blocks):
        if not torch.equal(left[one], entered[following]):
            raise ValueError(
                f"{following} of {type(model).__name__} does not take what {one} gives: expected "
                "blocks with nothing between them, such as positions that are added there"
            )
    final = left[tail.blocks[-1]]
    added = {name: _direct(tail, part, final) for name, part in parts.items()}
    shift = getattr(tail.norm, "bias", None)
    constant = tail.head(
        tail.read(torch.zeros_like(final) if shift is None else shift.expand_as(final))
    )
    added["bias"] = _exact(constant)
    if not tail.gives(sum(added.values()), logits):
        raise ValueError(
            f"what the parts of {type(model).__name__} add is not its logits: expected a "
            f"{type(tail.norm).__name__} that divides by a deviation and multiplies with its weight"
        )
    return added


def _first(args: tuple, kwargs: dict) -> Tensor:
    """What a module takes, with its name or without."""
    return next(iter((*args, *kwargs.values())))


def _exact(tokens: Tensor) -> Tensor:
    """In float32 at least, in which differences of half precision are not rounded again."""
    return tokens.to(torch.promote_types(tokens.dtype, torch.float32))


def _direct(tail: Tail, part: Tensor, final: Tensor) -> Tensor:
    """A part of the last tokens on its way to the logits, the norm's statistics held."""
    given = getattr(tail.norm, "eps", getattr(tail.norm, "variance_epsilon", None))
    eps = torch.finfo(final.dtype).eps if given is None else given
    part, final = _exact(part), _exact(final)
    if tail.mean_first:
        part, final = tail.read(part)[:, None], tail.read(final)[:, None]
    centred, whole = part, final
    if isinstance(tail.norm, nn.LayerNorm):
        centred, whole = (each - each.mean(-1, keepdim=True) for each in (part, final))
    scaled = centred / (whole.square().mean(-1, keepdim=True) + eps).sqrt()
    if getattr(tail.norm, "weight", None) is not None:
        scaled = scaled * tail.norm.weight
    read = scaled[:, 0] if tail.mean_first else tail.read(scaled)
    return read @ tail.head.weight.T.to(read.dtype)
