"""Where heads put their weight together, and a register that was never trained."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from vitbook import datasets
from vitbook.analysis.capture.record import record_attention
from vitbook.model_utilities import weights_digest
from vitbook.models import create_model
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs.measuring import Sheet, measurement

NAME = "vit_small_patch14_focus"
SINK = (0, 5)  # layer 1, head 6
NEURONS = 10  # moved, as Jiang et al. 2025 move theirs


class Sinks(NamedTuple):
    """Of each layer, head and image: the patch that gets most weight from all patches.

    ``patch`` is its number, ``share`` its mean weight; ``key`` and ``value`` are the lengths of its
    key and its value over those of the median patch.
    """

    patch: Int64[Tensor, "layers heads images"]
    share: Float[Tensor, "layers heads images"]
    key: Float[Tensor, "layers heads images"]
    value: Float[Tensor, "layers heads images"]


@torch.no_grad()
def sinks(
    model: nn.Module, images: Float[Tensor, "images channels height width"], prefix: int = 1
) -> Sinks:
    """Where the patches of each head put their weight together."""
    found = []

    def look(call) -> None:
        share, patch = call.weights()[:, :, prefix:, prefix:].mean(2).max(-1)
        lengths = []
        for vectors in (call.k, call.v):
            length = vectors[:, :, prefix:].norm(dim=-1)
            lengths.append(length.gather(2, patch[..., None])[..., 0] / length.median(2).values)
        found.append([each.T for each in (patch, share, *lengths)])

    with record_attention(model, look):
        model.features(images)
    return Sinks(*(torch.stack(each) for each in zip(*found, strict=True)))


@contextmanager
def moved_neurons(model: nn.Module, neurons: Sequence[tuple[int, int]], to: int) -> Iterator[None]:
    """Neurons of the MLPs act at one token alone, as strongly as at the strongest of all tokens.

    Jiang et al. 2025 ("Vision Transformers Don't Need Trained Registers"), section 4.

    Args:
        neurons: (layer, number in the hidden layer), from 0.
        to: number of the token.
    """

    def moved(numbers: list[int], args: tuple[Tensor]) -> Tensor:
        hidden = args[0].clone()
        most = hidden[..., numbers].amax(1)
        hidden[..., numbers] = 0
        hidden[:, to, numbers] = most
        return hidden

    with ExitStack() as hooks:
        for layer in {layer for layer, _ in neurons}:
            numbers = [number for at, number in neurons if at == layer]
            contract = model.encoder.blocks[layer].mlp.contract
            hook = contract.register_forward_pre_hook(
                lambda _, args, numbers=numbers: moved(numbers, args)
            )
            hooks.callback(hook.remove)
        yield


class Run(NamedTuple):
    """What went through an encoder."""

    last: Float[Tensor, "images tokens width"]
    weights: Float[Tensor, "layers images heads tokens tokens"]
    streams: Float[Tensor, "layers images tokens width"]
    hidden: Float[Tensor, "layers images tokens hidden"]


def run_encoder(model: nn.Module, tokens: Float[Tensor, "images tokens width"]) -> Run:
    """The encoder with tokens that came from anywhere, and all that it computes of them."""
    weights, streams, hidden = [], [], []
    with ExitStack() as hooks:
        for block in model.encoder.blocks:
            after = block.register_forward_hook(lambda _, __, out: streams.append(out))
            inside = block.mlp.contract.register_forward_hook(
                lambda _, given, __: hidden.append(given[0])
            )
            hooks.callback(after.remove)
            hooks.callback(inside.remove)
        with record_attention(model, lambda call: weights.append(call.weights())):
            last = model.encoder(tokens)
    return Run(last, *(torch.stack(each) for each in (weights, streams, hidden)))


@torch.no_grad()
def untrained_registers(model: nn.Module, images: Tensor) -> list[dict]:
    """A token of zeros behind the class token, its controls, and what they draw and change.

    Nothing here is trained. The neurons moved to it are those most active at the sink.
    """
    tokens, every = model.embed(images), torch.arange(len(images))
    plain = run_encoder(model, tokens)
    at = 1 + plain.weights[SINK[0], :, SINK[1], 1:, 1:].mean(1).argmax(-1)  # the sink's token
    active = plain.hidden[:, every, at].mean(1)  # "layers hidden"
    drawn = torch.randperm(active.numel(), generator=torch.Generator().manual_seed(0))
    numbers = {"": [], "most active at the sink": active.flatten().topk(NEURONS).indices.tolist(),
               "at random": drawn[:NEURONS].tolist()}  # fmt: skip
    zeros, copy = torch.zeros_like(tokens[:, :1]), tokens[every, at][:, None]
    rows = [_row("none", plain, plain, at, 1)]
    for name, register, chosen in (
        ("zeros", zeros, ""),
        ("zeros, with ten neurons most active at the sink", zeros, "most active at the sink"),
        ("zeros, with ten neurons drawn at random", zeros, "at random"),
        ("a copy of the sink's token", copy, ""),
    ):
        neurons = [divmod(number, active.shape[1]) for number in numbers[chosen]]
        with moved_neurons(model, neurons, 1):
            found = run_encoder(model, torch.cat([tokens[:, :1], register, tokens[:, 1:]], 1))
        rows.append(_row(name, found, plain, at + 1, 2))
    return rows


def _row(name: str, found: Run, plain: Run, at: Int64[Tensor, " images"], prefix: int) -> dict:
    of_patches = found.weights[:, :, :, prefix:]  # "layers images heads patches tokens"
    sink = of_patches[SINK[0], :, SINK[1]].mean(1)[torch.arange(len(at)), at]
    lengths = found.streams[:, :, prefix:].norm(dim=-1)
    last, before = found.last[:, prefix:], plain.last[:, 1:]
    row = {
        "drawn": of_patches[..., 1].mean() if prefix > 1 else sink.new_zeros(()),
        "sink": sink.mean(), "longest": (lengths.amax(-1) / lengths.median(-1).values).max(),
        "moved": (last - before).norm() / before.norm(),
    }  # fmt: skip
    return {"register": name} | {key: round(value.item(), 4) for key, value in row.items()}


def _in_rows(weights: str, found: Sinks) -> list[dict]:
    def three(values: Tensor) -> list[float]:
        return [round(each.item(), 4) for each in (values.mean(), values.min(), values.max())]

    return [
        {"weights": weights, "layer": layer + 1, "head": head + 1,
         **{name: three(getattr(found, name)[layer, head]) for name in ("share", "key", "value")}}
        for layer in range(found.share.shape[0]) for head in range(found.share.shape[1])
    ]  # fmt: skip


@measurement(
    sinks={"of": "{weights}", "layer": "{layer}", "head": "{head}", "share": "{share:.2f}",
           "key": "{key:.2f}", "value": "{value:.2f}"},
    test_time_registers={"register": "{register}", "drawn": "{drawn:.3f}", "sink": "{sink:.2f}",
                         "longest": "{longest:.2f}", "moved": "{moved:.3f}"},
)  # fmt: skip
def attention_sinks(sheet: Sheet) -> None:
    """Find the patch on which each head of the pretrained ViT puts its weight; try a register."""
    sheet.expect(NAME)
    real = load_pretrained(NAME)
    images = real.normalize(datasets.load("photos", "all").images)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fresh = create_model("vit_small_patch14_dinov2", image_size=224, num_classes=0).eval()
    settings = {
        "images": "the nine photographs of datasets.load('photos', 'all')",
        "share": "mean weight from all patches on the patch that gets most; mean, least and most "
                 "of the photographs",
        "key, value": "that patch's length over the median patch's",
        "weights": weights_digest(real.model),
    }  # fmt: skip
    rows = _in_rows("trained", sinks(real.model, images)) + _in_rows("fresh", sinks(fresh, images))
    sheet.write(NAME, settings, rows)
    settings |= {
        "drawn": "mean weight of all patches, heads and layers on the register",
        "sink": "weight of layer 1, head 6 on its patch",
        "longest": "largest norm of a patch's token over the median, all layers and photographs",
        "moved": "change of the last patch tokens, over their length",
    }
    sheet.write(NAME, settings, untrained_registers(real.model, images), "test_time_registers")
