"""What ``vitbook probe`` shows of tokens and heads, image by image."""

import torch
from einops import rearrange
from torch import Tensor

from vitbook import analysis, plots
from vitbook.analysis.capture.layout import has_class_token, token_layout
from vitbook.cli.probed_model import ProbedModel
from vitbook.cli.report import Section

SHOWN = 8  # images in a figure: more are measured, not drawn
SHEETS = 3  # images whose heads are all drawn


@torch.no_grad()
def colors(probed: ProbedModel, images: dict[str, Tensor]) -> Section:
    shown = dict(list(images.items())[:SHOWN])
    inputs = probed.prepare(torch.stack(list(shown.values())))
    grid_size, prefix = token_layout(probed.model, inputs, grid_size=None, num_prefix_tokens=None)
    sheets, numbers = {}, {}
    for name, model in {"": probed.model, "random weights": probed.fresh}.items():
        if model is None:
            continue
        tokens = analysis.last_tokens(model, inputs)[:, prefix:].float().cpu()
        coordinates, shares = analysis.principal_tokens(tokens, 3)
        mask = analysis.object_mask(tokens, grid_size, coordinates)
        found = analysis.token_colors(tokens, mask)
        sheet = rearrange(found, "n (r c) d -> n d r c", r=grid_size[0])
        for image, color in zip(shown, sheet, strict=True):
            sheets[f"{image}, {name}" if name else image] = (255 * color).round().to(torch.uint8)
        numbers[f"shares of three components{name and ', ' + name}"] = shares.tolist()
    pictures = dict(zip((f"{name}, image" for name in shown), shown.values(), strict=True))
    figure = plots.image_grid(pictures | sheets, "Images and their tokens", columns=len(shown))
    return Section(
        "colors",
        "Tokens after the last norm, as colours: three principal components of what stands out, as "
        "red, green and blue, the same for all images (DINOv2, section 7.4). Where two patches "
        "have one colour, their tokens are alike. What does not stand out is black.",
        {f"Token colours of {', '.join(shown)}": figure},
        numbers,
    )


def heads(probed: ProbedModel, images: dict[str, Tensor]) -> Section:
    figures = {}
    for name, image in list(images.items())[:SHEETS]:
        inputs = probed.prepare(image[None])
        grid_size, prefix = token_layout(
            probed.model, inputs, grid_size=None, num_prefix_tokens=None
        )
        row = 0 if prefix else grid_size[0] // 2 * grid_size[1] + grid_size[1] // 2

        def asked(weights: Tensor, row: int = row, prefix: int = prefix) -> Tensor:
            return weights[0, :, row, prefix:].float().cpu()

        with torch.no_grad(), analysis.capture_attention(probed.model, reduce=asked) as maps:
            probed.model(inputs)
        sheet = [rearrange(each, "h (r c) -> h r c", r=grid_size[0]) for each in maps.values()]
        figures[f"Every head on {name}"] = plots.head_sheet(sheet, f"Every head on {name}", image)
    first = "the class token" if has_class_token(probed.model) else "the first register"
    who = first if prefix else "the patch in the middle"
    return Section(
        "heads",
        f"What {who} reads: a line for each layer, a map for each head, each on its own scale from "
        "nothing to its largest weight.",
        figures,
        {},
    )
