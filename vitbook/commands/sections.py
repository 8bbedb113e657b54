"""What each probe of ``vitbook probe`` says of a model and pictures."""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from vitbook import analysis, plotting
from vitbook.analysis.layout import pixels_per_token, token_layout
from vitbook.commands.report import Section
from vitbook.commands.subject import Subject
from vitbook.plotting import maps_beside_pictures

SHOWN = 8  # pictures in a figure: more are measured, not drawn
Probe = Callable[[Subject, dict[str, Tensor]], Section]
Explain = Callable[[nn.Module, Tensor], Tensor]


def _distance(subject: Subject, pictures: dict[str, Tensor]) -> Section:
    images = subject.prepare(torch.stack(list(pictures.values())))
    grid_size, prefix = token_layout(subject.model, images, grid_size=None, num_prefix_tokens=None)
    uniform = analysis.uniform_attention_distance(grid_size, pixels_per_token(images, grid_size))
    found = analysis.mean_attention_distance(subject.model, images).cpu()
    on_prefix = analysis.mean_weight_on_prefix(subject.model, images).cpu()
    null = subject.fresh and {
        subject.name: analysis.mean_attention_distance(subject.fresh, images).cpu()
    }
    reading = (
        "A dot is a head: how far it looks, in pixels, averaged over patches and pictures (ViT "
        "paper, appendix D.7). The dashed line is attention alike on every patch. What a head "
        "gives the prefix tokens counts as no distance, so read the second figure beside it."
    )
    if null:
        reading += " Crosses are the same model with random weights."
    title = "Mean attention distance by layer"
    return Section(
        "distance", reading,
        {
            f"{title}, {len(pictures)} pictures": plotting.distance_by_layer(
                {subject.name: found}, uniform, title, null=null
            ),
            "Weight that patches give to prefix tokens, by layer": plotting.distance_by_layer(
                {subject.name: on_prefix}, prefix / (prefix + grid_size[0] * grid_size[1]),
                "Weight on prefix tokens by layer", unit="", quantity="share of the weight",
            ),
        },
        {
            "attention_distance_px": found.tolist(), "weight_on_prefix": on_prefix.tolist(),
            "uniform_px": uniform,
        },
    )  # fmt: skip


def _maps(title: str, explain: Explain, reading: str) -> Probe:
    """A section of one map over the patches for each picture."""

    def section(subject: Subject, pictures: dict[str, Tensor]) -> Section:
        images = subject.prepare(torch.stack(list(pictures.values())))
        columns = {title: explain(subject.model, images).cpu()}
        words = reading
        if subject.fresh is not None:
            columns["random weights"] = explain(subject.fresh, images).cpu()
            words += " Beside it, on the same scale, the same model with random weights."
        shown = dict(list(pictures.items())[:SHOWN])
        figure = maps_beside_pictures(
            shown, {name: maps[:SHOWN] for name, maps in columns.items()},
            f"{title.capitalize()}, picture by picture",
        )  # fmt: skip
        numbers = {
            name: {picture: map.tolist() for picture, map in zip(pictures, maps, strict=True)}
            for name, maps in columns.items()
        }
        return Section(title, words, {f"{title} of {', '.join(shown)}": figure}, numbers)

    return section


_rollout_maps = _maps(
    "rollout",
    analysis.attention_rollout,
    "How much of each patch reaches the token that is read, if layers only mixed tokens "
    "(Abnar & Zuidema 2020; ViT paper, appendix D.8): head mean, half for the residual. It "
    "knows no class and no values: it says where attention went, not what decided.",
)


def _rollout(subject: Subject, pictures: dict[str, Tensor]) -> Section:
    """The maps on their grid, then laid over the pictures."""
    section = _rollout_maps(subject, pictures)
    names = list(pictures)[:SHOWN]
    found = torch.tensor([section.numbers["rollout"][name] for name in names])
    lit = analysis.overlay(torch.stack([pictures[name] for name in names]), found)
    title = "As the ViT paper's authors draw it"
    section.figures[f"{title}: {', '.join(names)}"] = plotting.pictures(
        dict(zip(names, lit, strict=True)), title, columns=3
    )
    reading = section.reading + (
        " The last figure lays the map over its picture as the authors of the paper do: enlarged, "
        "blurred by a patch, and stretched from black to full light, however even the map is."
    )
    return replace(section, reading=reading)


def _filters(subject: Subject, pictures: dict[str, Tensor]) -> Section:
    found = analysis.embedding_filters(subject.model)
    parts = {"components": analysis.principal_filters(found.filters)}
    reading = (
        "The first principal components of the filters that read the picture, row by row, on one "
        f"scale whose grey is zero (ViT paper, figure 7, left): {found.note}. They hold "
        f"{100 * parts['components'].shares.sum():.0f} % of the filters' variance."
    )
    if subject.fresh is not None:
        null = analysis.principal_filters(analysis.embedding_filters(subject.fresh).filters)
        parts["random weights"] = null
        reading += f" With random weights they hold {100 * null.shares.sum():.0f} %."
    sheets = {
        name if found.num_views == 1 else f"{name}, view {view + 1}": sheet
        for name, each in parts.items()
        for view, sheet in enumerate(_sheets(each.filters, found.num_views))
    }
    figure = plotting.pictures(sheets, "Principal filters", columns=3)
    words = f"Principal components of the embedding filters: {', '.join(sheets)}"
    shares = {f"shares, {name}": each.shares.tolist() for name, each in parts.items()}
    return Section("filters", reading, {words: figure}, shares)


def _sheets(filters: Tensor, num_views: int) -> Tensor:
    """All components on one sheet for each view, seven to a line."""
    shown = (255 * analysis.as_pictures(filters)).round().to(torch.uint8).cpu()
    framed = F.pad(shown, (1, 1, 1, 1), value=255)
    missing = -len(framed) % 7
    framed = torch.cat([framed, framed.new_full((missing, *framed.shape[1:]), 255)])
    return rearrange(framed, "(r s) (v c) p q -> v c (r p) (s q)", s=7, v=num_views)


def _positions(subject: Subject, pictures: dict[str, Tensor]) -> Section:
    path, table = next(iter(analysis.position_tables(subject.model).items()))
    rows, columns = table.grid_size
    maps = {"cosines": _tiles(analysis.positional_similarity(*table))}
    if subject.fresh is not None:
        null = analysis.position_tables(subject.fresh)[path]
        maps["random weights"] = _tiles(analysis.positional_similarity(*null))
    figure = plotting.likeness(
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
    "distance": _distance,
    "rollout": _rollout,
    "relevance": _maps(
        "relevance",
        analysis.relevance,
        "Attention times the gradient of the class that the model says, through all layers "
        "(Chefer et al. 2021).",
    ),
    "filters": _filters,
    "positions": _positions,
}
