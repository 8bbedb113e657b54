"""What the chapter on attention draws and measures, and the tables behind it."""

import copy
from collections.abc import Mapping
from dataclasses import replace

import matplotlib.pyplot as plt
import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int, UInt8
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

import vitbook
from vitbook import datasets, layers, measure, runs
from vitbook.analysis import capture_attention
from vitbook.models import create_model
from vitbook.models.papers.vit import SIZES, vit
from vitbook.plots import Diagram
from vitbook.plots.page import for_pages
from vitbook.plots.style import COLORS, HEAT, draw_image, finish, fitted, in_line
from vitbook.runs import Evidence, Table
from vitbook.training import predict

MICRO = "vit_micro_patch2_8"


def lookup(
    scores: Float[Tensor, "queries keys"], weights: Float[Tensor, "queries keys"]
) -> Diagram:
    """Attention from tokens to answers; its two maps are those given, from dark to light."""
    maps = [["queries\ntokens × W_Q", "→ n × d"], ["keys\ntokens × W_K", "→ n × d"]]
    compared = [maps, "Q Kᵀ / √d", "→ n × n", _tiles(scores), "softmax\nof each row", "→ n × n",
                _tiles(weights)]  # fmt: skip
    return Diagram([
        "n tokens", [compared, ["values\ntokens × W_V", "→ n × d"]], "weights × V", "→ n × d",
        "n answers",
    ], "Attention: every query meets every key")  # fmt: skip


def _tiles(matrix: Float[Tensor, "rows columns"]) -> UInt8[Tensor, "3 height width"]:
    """Each number a square of 20 pixels, with white between them."""
    low, high = matrix.min(), matrix.max()
    colors = torch.from_numpy(plt.get_cmap(HEAT)(((matrix - low) / (high - low)).numpy())[..., :3])
    squares = repeat((255 * colors).round().to(torch.uint8), "r s c -> c (r 20) (s 20)").clone()
    squares[:, ::20] = squares[:, :, ::20] = 255
    return squares


@for_pages
def photo_and_maps(
    image: UInt8[Tensor, "channels height width"],
    maps: Mapping[str, Float[Tensor, "rows columns"] | Int[Tensor, "rows columns"]],
    query: tuple[int, int],
    title: str,
) -> Figure:
    """A photograph with one patch framed, and maps over its patches, each with its own scale.

    Args:
        maps: name -> one number a patch.
        query: (row, column) of the framed patch.
    """
    down, across = in_line(1 + len(maps))
    figure, axes = plt.subplots(
        down, across, figsize=fitted(3.2 * across, 3.0 * down + 0.3), layout="constrained"
    )
    rows, columns = next(iter(maps.values())).shape
    axes = list(axes.flat)
    draw_image(axes[0], image)
    _mark_cell(axes[0], query, (image.shape[1] / rows, image.shape[2] / columns))
    axes[0].set_title("the framed patch asks")
    for axis, (name, values) in zip(axes[1:], maps.items(), strict=True):
        drawn = axis.imshow(values.cpu().numpy(), cmap=HEAT, vmin=0)
        _mark_cell(axis, query, (1.0, 1.0))
        axis.set(xticks=[], yticks=[], title=name)
        figure.colorbar(drawn, ax=axis, shrink=0.8)
    return finish(figure, title)


def _mark_cell(axes, cell: tuple[int, int], size: tuple[float, float]) -> None:
    """A frame around one cell (row, column) of a grid, whose first pixel has its centre at 0."""
    corner = (cell[1] * size[1] - 0.5, cell[0] * size[0] - 0.5)
    for color, width in (("white", 4.5), (COLORS[1], 2.5)):
        axes.add_patch(
            Rectangle(corner, size[1], size[0], fill=False, edgecolor=color, linewidth=width)
        )


def own_wins(tokens: Float[Tensor, "tokens width"]) -> int:
    """How many tokens have a larger dot product with themselves than with any other."""
    return int(((tokens @ tokens.T).argmax(1) == torch.arange(len(tokens))).sum())


def ring(count: int) -> tuple[Float[Tensor, "rings 8 16"], Float[Tensor, "rings 8 8"]]:
    """Eight tokens in a ring, and what each is to say: its two neighbours' contents.

    A token holds four random numbers, then its position as one of eight, then zeros.
    """
    contents = torch.randn(count, 8, 4)
    known = torch.cat([contents, torch.eye(8).expand(count, 8, 8), torch.zeros(count, 8, 4)], dim=2)
    return known, torch.cat([contents.roll(1, 1), contents.roll(-1, 1)], dim=2)


def learn_ring(
    heads: int, seed: int, *, ask_by_position: bool = False
) -> tuple[float, Float[Tensor, "heads 8 8"]]:
    """One attention layer of width 16 learns :func:`ring` for 200 steps.

    Args:
        ask_by_position: queries and keys are blind to the contents.

    Returns:
        its mean squared error on a thousand new rings, and its mean weights there.
    """
    torch.manual_seed(seed)
    layer = layers.SelfAttention(16, heads)
    nn.init.normal_(layer.qkv.weight, std=0.3)
    seen = torch.ones(48, 16)
    seen[:32, :4] = 0 if ask_by_position else 1
    layer.qkv.weight.data *= seen
    layer.qkv.weight.register_hook(lambda gradient: gradient * seen)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.03, fused=True)
    with torch.enable_grad():
        for _ in range(200):
            known, wanted = ring(32)
            loss = (layer(known)[..., :8] - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    known, wanted = ring(1000)
    with torch.no_grad(), capture_attention(layer) as maps:
        error = (layer(known)[..., :8] - wanted).square().mean().item()
    return error, next(iter(maps.values())).mean(dim=0)


def undivided(model: nn.Module) -> nn.Module:
    """A copy that does not divide by the root of d: its queries are longer by that root."""
    twin = copy.deepcopy(model)
    for block in twin.encoder.blocks:
        qkv, heads = block.attention.qkv, block.attention.num_heads
        for part in qkv.parameters():  # weights, and biases if there are any
            part.data[: qkv.in_features] *= (qkv.in_features / heads) ** 0.5
    return twin


def digit_readers() -> list[nn.Module]:
    """Three seeds of the small Vision Transformer that reads digits."""
    names = (f"digits-{MICRO}-digits-seed{seed}" for seed in range(3))
    return [vitbook.load_checkpoint(name).model.eval() for name in names]


def digits_read(model: nn.Module) -> int:
    """Held-out digits, of 355, that it reads."""
    test = datasets.load("digits", "test")
    return int((predict(model, test.images).argmax(1) == test.labels).sum())


def tokens_read(weights: Float[Tensor, "batch heads queries keys"]) -> float:
    """exp of the entropy of a row of weights, in the mean: all if even, 1 if one has all weight."""
    return torch.special.entr(weights).sum(dim=-1).exp().mean().item()


def evidence() -> Evidence:
    with torch.no_grad():
        return Evidence((), [_own_wins(), _rings(), _undivided(), _multiply_adds()])


def _own_wins() -> Table:
    photos = datasets.load("photos", "all")
    pixels = datasets.normalize(photos.images)
    patches = rearrange(pixels, "n c (r p) (s q) -> n (r s) (p q c)", p=16, q=16)
    lines = []
    for i, (name, own) in enumerate(zip(photos.class_names, patches, strict=True)):
        others = patches[torch.arange(len(patches)) != i].flatten(0, 1)
        _, sizes, directions = torch.linalg.svd(others, full_matrices=False)
        few = own @ directions[:64].T
        lines.append({
            "photograph": name, "pixels": str(own_wins(own)), "64 directions": str(own_wins(few)),
            "64 directions, divided": str(own_wins(few / sizes[:64])),
        })  # fmt: skip
    return Table(
        "Patches that choose themselves",
        "Of 196 patches of each photograph. The directions are the first right singular vectors "
        "of the patches of the other eight, and are divided by the singular values. Without the "
        "division they are the control: the same matrix, no scale of its own.",
        lines,
    )


def _rings() -> Table:
    ways = {
        "one head that asks by position": dict(heads=1, ask_by_position=True),
        "one head": dict(heads=1), "two heads": dict(heads=2),
    }  # fmt: skip
    return Table(
        "Both neighbours in a ring",
        "Mean squared error after 200 steps on new rings, seeds 0 to 2; an answer of zeros has "
        "1. All three layers have the same number of parameters. If positions alone decide the "
        "weights, the answer is one mixture of two neighbours: four numbers, of which any linear "
        "map explains at most half the variance of eight independent ones, so that the error is "
        "at least 4/8. A head whose weights also depend on the contents gets below that; why near "
        "3/8 is measured, not derived.",
        [
            {"layer": name} | {
                f"seed {seed}": f"{learn_ring(seed=seed, **how)[0]:.2f}" for seed in range(3)
            }
            for name, how in ways.items()
        ],
    )  # fmt: skip


def _undivided() -> Table:
    digits = datasets.normalize(datasets.load("digits", "test").images)
    photos = datasets.normalize(datasets.load("photos", "all").images[:1])
    trained = digit_readers()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fresh = create_model(MICRO).eval()
        one = replace(SIZES["base"], depth=1)
        wide = vit(image_size=224, patch_size=16, num_classes=10, body=one).eval()

    def told(model: nn.Module, images: Tensor) -> str:
        with capture_attention(model, reduce=tokens_read) as seen:
            model(images)
        return f"{sum(seen.values()) / len(seen):.1f}"

    cases = {
        "digits, fresh": (fresh, digits),
        **{f"digits, trained, seed {seed}": (each, digits) for seed, each in enumerate(trained)},
        "ViT-B/16, fresh, first block, a photograph": (wide, photos),
    }
    return Table(
        "With and without the division by √d",
        "Tokens that a row of weights effectively reads, mean of all layers, heads and queries: "
        "of 17 in the models of digits, of 197 in ViT-B/16. Digits read: of 355. Fresh weights "
        "have a deviation of 0.02 whatever the width, so in a narrow model fresh queries are too "
        "short for a factor of four to matter; at ViT-B's width it matters from the start. "
        "All models but the fresh ones learned with the division.",
        [
            {
                "model": name, "divided": told(model, images),
                "not divided": told(undivided(model), images),
                "digits read": " and ".join(
                    str(digits_read(each)) for each in (model, undivided(model))
                ) if "trained" in name else "",
            }
            for name, (model, images) in cases.items()
        ],
    )  # fmt: skip


def _multiply_adds() -> Table:
    lines = []
    for name in ("vit_base_patch16_224", "vit_large_patch16_224"):
        with torch.device("meta"):
            counted = measure.count_macs(create_model(name), torch.zeros(1, 3, 224, 224)) / 1e9
        (paper,) = runs.published(quantity="macs", model=name)
        lines.append({"model": f"`{name}`", "printed": paper["printed"],
                      "counted": f"{counted:.1f} G"})  # fmt: skip
    return Table(
        "Multiply-adds, printed and counted",
        "Printed in the comparison tables of Yuan et al. 2021; counted here by torch's counter, "
        "which sees matrix products and convolutions. What it does not see, norms, softmax and "
        "activations, is far less than the difference in the second line, which stays open.",
        lines,
    )
