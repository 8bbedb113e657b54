"""What each probe of ``vitbook probe`` says of a model and images."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vitbook import analysis, plots
from vitbook.analysis.capture.layout import has_class_token, token_layout, token_step
from vitbook.blocks import find_layer
from vitbook.cli.probed_model import ProbedModel
from vitbook.cli.report import Section

SHOWN = 8  # images in a figure: more are measured, not drawn
SHEETS = 3  # images whose heads are all drawn
NULL = "random weights"


@dataclass(frozen=True)
class Look:
    """A model, and images by name that it is asked about."""

    probed: ProbedModel
    images: dict[str, Tensor]

    @cached_property
    def inputs(self) -> Tensor:
        return self.probed.prepare(torch.stack(list(self.images.values())))

    @cached_property
    def layout(self) -> tuple[tuple[int, int], int]:
        """The grid of patches, and how many tokens stand before it."""
        model = self.probed.model
        return token_layout(model, self.inputs, grid_size=None, num_prefix_tokens=None)

    @property
    def shown(self) -> dict[str, Tensor]:
        return dict(list(self.images.items())[:SHOWN])

    def each(self, own: str) -> dict[str, nn.Module]:
        """The model, called ``own``, and its twin with random weights if it has learned."""
        fresh = self.probed.fresh
        return {own: self.probed.model} | ({} if fresh is None else {NULL: fresh})


@torch.no_grad()
def _colors(look: Look) -> Section:
    sheets, numbers = {}, {}
    for name, model in look.each("").items():
        behind = f", {name}" if name else ""
        layer = find_layer(model)
        maps = analysis.feature_maps(model, look.inputs[:SHOWN], [layer])[layer].float().cpu()
        rows, columns = maps.shape[2:]
        tokens = rearrange(maps, "n d r c -> n (r c) d")
        tokens = F.layer_norm(tokens, tokens.shape[-1:])
        coordinates, shares = analysis.principal_tokens(tokens, 3)
        mask = analysis.object_mask(tokens, (rows, columns), coordinates)
        found = (255 * analysis.token_colors(tokens, mask)).round().to(torch.uint8)
        sheet = rearrange(found, "n (r c) d -> n d r c", r=rows)
        sheets |= dict(zip((f"{image}{behind}" for image in look.shown), sheet, strict=True))
        numbers[f"shares of three components{behind}"] = shares.tolist()
    pictures = {f"{name}, image": image for name, image in look.shown.items()}
    return Section(
        f"Tokens of {layer}, as colours: three principal components of what stands out, as "
        "red, green and blue, the same for all images (DINOv2, section 7.4). Where two patches "
        "have one colour, their tokens are similar. What does not stand out is black.",
        {
            f"Token colours of {', '.join(look.shown)}": plots.image_grid(
                pictures | sheets, "Images and their tokens", columns=len(look.shown)
            )
        },
        numbers,
    )


def _heads(look: Look) -> Section:
    (rows, columns), prefix = look.layout
    row = 0 if prefix else rows // 2 * columns + columns // 2

    def asked(weights: Tensor) -> Tensor:
        found = weights[:, :, row, prefix:].float().cpu()
        return rearrange(found, "n h (r c) -> n h r c", r=rows)

    model = look.probed.model
    with torch.no_grad(), analysis.capture_attention(model, reduce=asked) as maps:
        model(look.inputs[:SHEETS])
    figures = {}
    for number, (name, image) in enumerate(list(look.images.items())[:SHEETS]):
        title = f"Every head on {name}"
        figures[title] = plots.head_sheet([each[number] for each in maps.values()], title, image)
    first = "the class token" if has_class_token(model) else "the first register"
    who = first if prefix else "the patch in the middle"
    return Section(
        f"What {who} reads: a line for each layer, a map for each head, each on its own scale from "
        "nothing to its largest weight.",
        figures,
    )


def _distance(look: Look) -> Section:
    name, model, fresh = look.probed.name, look.probed.model, look.probed.fresh
    grid_size, prefix = look.layout
    uniform = analysis.uniform_attention_distance(
        grid_size, token_step(model, look.inputs, grid_size)
    )
    found = analysis.mean_attention_distance(model, look.inputs).cpu()
    on_prefix = analysis.mean_weight_on_prefix(model, look.inputs).cpu()
    null = fresh and {name: analysis.mean_attention_distance(fresh, look.inputs).cpu()}
    title = "Mean attention distance by layer"
    return Section(
        "A dot is a head: how far it looks, in pixels, averaged over patches and images (ViT "
        "paper, appendix D.7). The dashed line is attention alike on every patch. What a head "
        "gives the prefix tokens counts as no distance, so read the second figure beside it."
        + " Crosses are the same model with random weights." * bool(null),
        {
            f"{title}, {len(look.images)} images": plots.distance_by_layer(
                {name: found}, uniform, title, null=null
            ),
            "Weight that patches give to prefix tokens, by layer": plots.distance_by_layer(
                {name: on_prefix}, prefix / (prefix + grid_size[0] * grid_size[1]),
                "Weight on prefix tokens by layer", unit="", quantity="share of the weight",
            ),
        },
        {
            "attention_distance_px": found.tolist(), "weight_on_prefix": on_prefix.tolist(),
            "uniform_px": uniform,
        },
    )  # fmt: skip


def _maps(
    look: Look, title: str, explain: Callable[[nn.Module, Tensor], Tensor], reading: str
) -> Section:
    """A section of one map over the patches for each image."""
    found = {name: explain(model, look.inputs).cpu() for name, model in look.each(title).items()}
    if NULL in found:
        reading += " Beside it, on the same scale, the same model with random weights."
    figure = plots.maps_beside_images(
        look.shown, {name: maps[:SHOWN] for name, maps in found.items()},
        f"{title.capitalize()}, image by image",
    )  # fmt: skip
    numbers = {
        name: {image: map.tolist() for image, map in zip(look.images, maps, strict=True)}
        for name, maps in found.items()
    }
    return Section(reading, {f"{title} of {', '.join(look.shown)}": figure}, numbers)


def _rollout(look: Look) -> Section:
    """The maps on their grid, then laid over the images."""
    section = _maps(
        look,
        "rollout",
        analysis.attention_rollout,
        "How much of each patch reaches the token that is read, if layers only mixed tokens "
        "(Abnar & Zuidema 2020; ViT paper, appendix D.8): head mean, half for the residual. It "
        "knows no class and no values: it says where attention went, not what decided.",
    )
    found = torch.tensor([section.numbers["rollout"][name] for name in look.shown])
    lit = analysis.overlay(torch.stack(list(look.shown.values())), found)
    title = "As the ViT paper's authors draw it"
    laid = plots.image_grid(dict(zip(look.shown, lit, strict=True)), title, columns=3)
    return Section(
        f"{section.reading} The last figure lays the map over its image as the authors of the "
        "paper do: enlarged, blurred by a patch, and stretched from black to full light, however "
        "even the map is.",
        section.figures | {f"{title}: {', '.join(look.shown)}": laid},
        section.numbers,
    )


def _relevance(look: Look) -> Section:
    spec = getattr(look.probed.model, "spec", None)
    if spec is not None and not spec.num_classes:
        raise ValueError(f"{look.probed.name} has no classes: relevance explains what a class gets")
    return _maps(
        look,
        "relevance",
        analysis.relevance,
        "Attention times the gradient of the class that the model says, through all layers "
        "(Chefer et al. 2021).",
    )


def _filters(look: Look) -> Section:
    found = {
        name: analysis.embedding_filters(model) for name, model in look.each("components").items()
    }
    parts = {name: analysis.principal_filters(each.filters) for name, each in found.items()}
    held = {name: f"{100 * each.shares.sum():.0f} %" for name, each in parts.items()}
    num_views = found["components"].num_views
    sheets = {
        name if num_views == 1 else f"{name}, view {view + 1}": sheet
        for name, each in parts.items()
        for view, sheet in enumerate(_sheets(each.filters, num_views))
    }
    return Section(
        "The first principal components of the filters that read the image, row by row, on one "
        f"scale whose grey is zero (ViT paper, figure 7, left): {found['components'].note}. They "
        f"hold {held['components']} of the filters' variance."
        + (f" With random weights they hold {held[NULL]}." if NULL in held else ""),
        {
            f"Principal components of the embedding filters: {', '.join(sheets)}": plots.image_grid(
                sheets, "Principal filters", columns=3
            )
        },
        {f"shares, {name}": each.shares.tolist() for name, each in parts.items()},
    )


def _sheets(filters: Tensor, num_views: int) -> Tensor:
    """All components on one sheet for each view, seven to a line."""
    shown = (255 * analysis.as_images(filters)).round().to(torch.uint8).cpu()
    framed = F.pad(shown, (1, 1, 1, 1), value=255)
    missing = -len(framed) % 7
    framed = torch.cat([framed, framed.new_full((missing, *framed.shape[1:]), 255)])
    return rearrange(framed, "(r s) (v c) p q -> v c (r p) (s q)", s=7, v=num_views)


def _positions(look: Look) -> Section:
    path, table = next(iter(analysis.position_tables(look.probed.model).items()))
    rows, columns = table.grid_size
    cosines = {
        name: analysis.positional_similarity(*analysis.position_tables(model)[path]).cpu()
        for name, model in look.each("cosines").items()
    }
    figure = plots.similarity_maps(
        {name: rearrange(each, "r c y x -> (r y) (c x)") for name, each in cosines.items()},
        "Each position's tile: its similarity to every position", tile=(rows, columns),
    )  # fmt: skip
    return Section(
        f"Cosine between the embeddings of every two positions, {path} (ViT paper, figure 7). "
        "A tile stands at its position on the grid and shows the similarity of every position to "
        "it. Stripes and round spots alone need no learning: any smooth table has them.",
        {f"Positional similarity on a grid of {rows}x{columns}": figure},
        {"norms": analysis.position_norms(*table).tolist()},
    )


PROBES: dict[str, Callable[[Look], Section]] = {
    "colors": _colors,
    "heads": _heads,
    "distance": _distance,
    "rollout": _rollout,
    "relevance": _relevance,
    "filters": _filters,
    "positions": _positions,
}
