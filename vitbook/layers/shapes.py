"""The shapes that go from part to part, by name."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

Size = int | Sequence[int]  # of an image, a patch or a grid: one number, or (rows, columns)
Images = Float[Tensor, "batch channels height width"]
Tokens = Float[Tensor, "batch tokens width"]
TokensOfImages = Float[Tensor, "batch tokens token_width"]  # where an image has a width too
Logits = Float[Tensor, "batch classes"]
Maps = Float[Tensor, "batch inputs height width"]  # of a convolution
NewMaps = Float[Tensor, "batch outputs new_height new_width"]
