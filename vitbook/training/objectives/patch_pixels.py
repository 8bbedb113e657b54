"""Images as patches of pixels."""

from einops import rearrange, repeat
from jaxtyping import Float, Int64
from torch import Tensor, nn

Images = Float[Tensor, "batch channels height width"]
Patches = Float[Tensor, "batch patches pixels"]


def cut(images: Images, model: nn.Module) -> Patches:
    """The patches of a model's grid, row by row; pixels likewise, channels last."""
    height, width = model.tokenizer.patch
    return rearrange(images, "b c (r p) (s q) -> b (r s) (p q c)", p=height, q=width)


def patches_at(
    patches: Float[Tensor, "batch patches features"], places: Int64[Tensor, "batch chosen"]
) -> Float[Tensor, "batch chosen features"]:
    """Of each image the patches in these places."""
    return patches.gather(1, repeat(places, "b n -> b n d", d=patches.shape[2]))


def mean_and_spread(
    patches: Patches,
) -> tuple[Float[Tensor, "batch patches 1"], Float[Tensor, "batch patches 1"]]:
    """Of each patch; the authors' variance, of one pixel less, and the number they add to it."""
    mean = patches.mean(dim=-1, keepdim=True)
    return mean, (patches.var(dim=-1, keepdim=True) + 1e-6).sqrt()
