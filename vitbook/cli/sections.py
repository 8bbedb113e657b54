"""What each probe of ``vitbook probe`` says of a model and images."""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vitbook import analysis, plots
from vitbook.analysis.capture.layout import token_layout, token_step
from vitbook.cli.probed_model import ProbedModel
from vitbook.cli.report import Section
from vitbook.cli.token_sections import SHOWN, colors, heads
from vitbook.plots import maps_beside_images

Probe = Callable[[ProbedModel, dict[str, Tensor]], Section]
Explain = Callable[[nn.Module, Tensor], Tensor]


def _distance(probed: ProbedModel, images: dict[str, Tensor]) -> Section:
    inputs = probed.prepare(torch.stack(list(images.values())))
    grid_size, prefix = token_layout(probed.model, inputs, grid_size=None, num_prefix_tokens=None)
    uniform = analysis.uniform_attention_distance(
        grid_size, token_step(probed.model, inputs, grid_size)
    )
    found = analysis.mean_attention_distance(probed.model, inputs).cpu()
    on_prefix = analysis.mean_weight_on_prefix(probed.model, inputs).cpu()
    null = probed.fresh and {
        probed.name: analysis.mean_attention_distance(probed.fresh, inputs).cpu()
    }
    reading = (
        "A dot is a head: how far it looks, in pixels, averaged over patches and images (ViT "
        "paper, appendix D.7). The dashed line is attention alike on every patch. What a head "
        "gives the prefix tokens counts as no distance, so read the second figure beside it."
    )
    if null:
        reading += " Crosses are the same model with random weights."
    title = "Mean attention distance by layer"
    return Section(
        "distance", reading,
        {
            f"{title}, {len(images)} images": plots.distance_by_layer(
                {probed.name: found}, uniform, title, null=null
            ),
            "Weight that patches give to prefix tokens, by layer": plots.distance_by_layer(
                {probed.name: on_prefix}, prefix / (prefix + grid_size[0] * grid_size[1]),
                "Weight on prefix tokens by layer", unit="", quantity="share of the weight",
            ),
        },
        {
            "attention_distance_px": found.tolist(), "weight_on_prefix": on_prefix.tolist(),
            "uniform_px": uniform,
        },
    )  # fmt: skip


def _relevance(probed: ProbedModel, images: dict[str, Tensor]) -> Section:
    spec = getattr(probed.model, "spec", None)
    if spec is not None and not spec.num_classes:
        raise ValueError(f"{probed.name} has no classes: relevance explains what a class gets")
    return _relevance_maps(probed, images)


def _maps(title: str, explain: Explain, reading: str) -> Probe:
    """A section of one map over the patches for each image."""

    def section(probed: ProbedModel, images: dict[str, Tensor]) -> Section:
        inputs = probed.prepare(torch.stack(list(images.values())))
        columns = {title: explain(probed.model, inputs).cpu()}
        words = reading
        if probed.fresh is not None:
            columns["random weights"] = explain(probed.fresh, inputs).cpu()
            words += " Beside it, on the same scale, the same model with random weights."
        shown = dict(list(images.items())[:SHOWN])
        figure = maps_beside_images(
            shown, {name: maps[:SHOWN] for name, maps in columns.items()},
            f"{title.capitalize()}, image by image",
        )  # fmt: skip
        numbers = {
            name: {image: map.tolist() for image, map in zip(images, maps, strict=True)}
            for name, maps in columns.items()
        }
        return Section(title, words, {f"{title} of {', '.join(shown)}": figure}, numbers)

    return section


_relevance_maps = _maps(
    "relevance",
    analysis.relevance,
    "Attention times the gradient of the class that the model says, through all layers "
    "(Chefer et al. 2021).",
)


_rollout_maps = _maps(
    "rollout",
    analysis.attention_rollout,
    "How much of each patch reaches the token that is read, if layers only mixed tokens "
    "(Abnar & Zuidema 2020; ViT paper, appendix D.8): head mean, half for the residual. It "
    "knows no class and no values: it says where attention went, not what decided.",
)


def _rollout(probed: ProbedModel, images: dict[str, Tensor]) -> Section:
    """The maps on their grid, then laid over the images."""
    section = _rollout_maps(probed, images)
    names = list(images)[:SHOWN]
    found = torch.tensor([section.numbers["rollout"][name] for name in names])
    lit = analysis.overlay(torch.stack([images[name] for name in names]), found)
    title = "As the ViT paper's authors draw it"
    section.figures[f"{title}: {', '.join(names)}"] = plots.image_grid(
        dict(zip(names, lit, strict=True)), title, columns=3
    )
    reading = section.reading + (
        " The last figure lays the map over its image as the authors of the paper do: enlarged, "
        "blurred by a patch, and stretched from black to full light, however even the map is."
    )
    return replace(section, reading=reading)


def _filters(probed: ProbedModel, images: dict[str, Tensor]) -> Section:
    found = analysis.embedding_filters(probed.model)
    parts = {"components": analysis.principal_filters(found.filters)}
    reading = (
        "The first principal components of the filters that read the image, row by row, on one "
        f"scale whose grey is zero (ViT paper, figure 7, left): {found.note}. They hold "
        f"{100 * parts['components'].shares.sum():.0f} % of the filters' variance."
    )
    if probed.fresh is not None:
        null = analysis.principal_filters(analysis.embedding_filters(probed.fresh).filters)
        parts["random weights"] = null
        reading += f" With random weights they hold {100 * null.shares.sum():.0f} %."
    sheets = {
        name if found.num_views == 1 else f"{name}, view {view + 1}": sheet
        for name, each in parts.items()
        for view, sheet in enumerate(_sheets(each.filters, found.num_views))
    }
    figure = plots.image_grid(sheets, "Principal filters", columns=3)
    words = f"Principal components of the embedding filters: {', '.join(sheets)}"
    shares = {f"shares, {name}": each.shares.tolist() for name, each in parts.items()}
    return Section("filters", reading, {words: figure}, shares)


def _sheets(filters: Tensor, num_views: int) -> Tensor:
    """All components on one sheet for each view, seven to a line."""
    shown = (255 * analysis.as_images(filters)).round().to(torch.uint8).cpu()
    framed = F.pad(shown, (1, 1, 1, 1), value=255)
    missing = -len(framed) % 7
    framed = torch.cat([framed, framed.new_full((missing, *framed.shape[1:]), 255)])
    return rearrange(framed, "(r s) (v c) p q -> v c (r p) (s q)", s=7, v=num_views)


def _positions(probed: ProbedModel, images: dict[str, Tensor]) -> Section:
    path, table = next(iter(analysis.position_tables(probed.model).items()))
    rows, columns = table.grid_size
    maps = {"cosines": _tiles(analysis.positional_similarity(*table))}
    if probed.fresh is not None:
        null = analysis.position_tables(probed.fresh)[path]
        maps["random weights"] = _tiles(analysis.positional_similarity(*null))
    figure = plots.likeness(
        maps, "Each place's tile: how alike every place is", tile=(rows, columns)
    )
    return Section(
        "positions",
        f"Cosine between the vectors of every two places of {path} (ViT paper, figure 7, centre). "
        "A tile stands at its place on the grid and shows how alike every place is to it. Stripes "
        "and round spots alone need no learning: any smooth table has them.",
        {f"Positional similarity on a grid of {rows}x{columns}": figure},
        {"norms": analysis.position_norms(*table).tolist()},
    )


def _tiles(cosines: Tensor) -> Tensor:
    return rearrange(cosines.cpu(), "r c y x -> (r y) (c x)")


PROBES: dict[str, Probe] = {
    "colors": colors,
    "heads": heads,
    "distance": _distance,
    "rollout": _rollout,
    "relevance": _relevance,
    "filters": _filters,
    "positions": _positions,
}
