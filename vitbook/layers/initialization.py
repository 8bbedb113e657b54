"""How weights start: truncated normal, as in the ViT code bases, or Xavier's."""

import torch
from torch import nn

# A linear layer of these names holds the queries', keys' and values' layers one upon another.
FUSED = {"qkv": 3, "kqv": 3, "kv": 2}


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A linear layer with weights from a normal of deviation 0.02 cut at two, and zero bias."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    # torch cuts at absolute values, not at deviations.
    nn.init.trunc_normal_(layer.weight, std=0.02, a=-0.04, b=0.04)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


@torch.no_grad()
def xavier_uniform_(model: nn.Module) -> None:
    r"""Draw the weights of every linear layer anew, in place; biases become zero.

    .. math:: W \sim U(-a, a), \qquad a = \sqrt{6 / (\mathrm{inputs} + \mathrm{outputs})}

    Glorot and Bengio 2010, equation 16; the first Transformer starts so, and the ViT paper's code
    in attention and MLP. A fused layer is three: queries, keys and values have an :math:`a` of
    their own. Convolutions, positions, norms and prefix tokens stay as they are.

    Example:
        >>> from vitbook import create_model
        >>> from vitbook.layers import xavier_uniform_
        >>> model = create_model("vit_micro_patch2_8")
        >>> xavier_uniform_(model)
        >>> bool(model.encoder.blocks[0].attention.qkv.weight.abs().max() <= (6 / 128) ** 0.5)
        True
    """
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            for weight in layer.weight.chunk(FUSED.get(name.rpartition(".")[2], 1)):
                nn.init.xavier_uniform_(weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


INITIALIZATIONS = {"xavier": xavier_uniform_}  # by the name that a recipe has for them
