"""Where the heads of an attention lie side by side, before a layer mixes them."""

from torch import nn

from vitbook.analysis.capture.running import encoder_of


def mixing_layers(model: nn.Module) -> dict[nn.Linear, int]:
    """What mixes the heads' outputs, which lie side by side before it -> how many heads those are.

    Of each attention of the encoder, ours or timm's, in its order.

    Raises:
        ValueError: there is none.
    """
    part, _ = encoder_of(model)
    found = {}
    for module in part.modules():
        heads = getattr(module, "num_heads", None)
        mixing = getattr(module, "projection", getattr(module, "proj", None))
        if isinstance(heads, int) and isinstance(mixing, nn.Linear):
            found[mixing] = heads
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no attention whose heads are known to lie side by side: "
            "expected a Transformer of ours or timm's"
        )
    return found
