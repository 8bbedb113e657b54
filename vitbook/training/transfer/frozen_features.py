"""What a frozen body says of images, kept on disk as it is made."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from vitbook.blocks import LAST, find_layer
from vitbook.datasets.resizing import resize
from vitbook.errors import check_count
from vitbook.files import check_writable, write_atomically
from vitbook.model_utilities import digest, evaluating, weights_digest

CHUNK = 500
# Of the length of an image's features: more than float16, another batch or a GPU changes in them.
SAME = 0.02


def frozen_features(
    model: nn.Module,
    normalize: Callable[[Tensor], Tensor],
    images: UInt8[Tensor, "n channels height width"],
    image_size: int,
    folder: str | Path,
    batch_size: int = 25,
    each_patch: bool = False,
    layer: str | int | None = LAST,
) -> Iterator[Float[Tensor, "chunk features"]]:
    """The class token beside the mean of the patch tokens of a layer, chunk by chunk.

    Of a model without a class token, such as a ResNet, the mean alone; of timm's networks of maps,
    what they hand to their head. A mean does not say where something was: with ``each_patch`` the
    patch tokens stand side by side instead, in the order of the grid.

    Each chunk is kept in ``folder`` under a digest of weights, normalisation and images, with a
    digest of itself: what was cut off goes on, what was done is read, and what is damaged is
    computed anew. The first image of a chunk that is read is computed again, as weights do not tell
    all of a model: what does not agree is computed anew too.

    Args:
        model: ours or timm's, for images of ``image_size``.
        normalize: uint8 images to what the model takes, one for each.
        images: of any size; resized chunk by chunk.
        image_size: in pixels.
        folder: of the kept chunks, float16.
        batch_size: images that the model is given at once.
        each_patch: rows times columns times width numbers an image.
        layer: "last" for the tokens after the last norm, which a head on this body reads; the path
            or number of a block for its tokens, each at mean 0 and variance 1, or None for the
            block three quarters up (:func:`vitbook.blocks.find_layer`).

    Raises:
        UnknownNameError: a layer that is not there; names those that are.
        TypeError: images that are not uint8.
        ValueError: no images, or of another shape; a model that gives no tokens; a ``normalize``
            that does not give an image for each; features that are NaN or infinite, maybe only in
            float16; they are not kept.
        OSError: the folder is full or not writable.
    """
    check_count("batch_size", batch_size)
    check_count("image_size", image_size)
    _check_images(images)
    check_writable(folder)

    weights = weights_digest(model)
    layer = layer if layer == LAST else find_layer(model, layer)
    effect = _effect(normalize, images.shape[1], image_size) + " each patch" * each_patch
    effect += f" {layer}" * (layer != LAST)
    for chunk in images.split(CHUNK):
        given = model, normalize, chunk, image_size, batch_size, each_patch, layer
        about = hashlib.sha256(f"{weights} {image_size} {tuple(chunk.shape)}".encode())
        about.update(chunk.cpu().numpy().tobytes())
        about.update(effect.encode())
        path = Path(folder) / f"{about.hexdigest()[:32]}.safetensors"
        first = _computed(*given[:2], chunk[:1], *given[3:])
        found = _kept(path, len(chunk), first)
        if found is None:
            found = _computed(*given).half()
            if not found.isfinite().all():
                raise ValueError(
                    f"the features of {len(chunk)} images hold NaN or infinity as float16: "
                    "expected finite ones; look for it in images or weights"
                )
            state = {"features": found}
            write_atomically(path, save(state, metadata={"digest": digest(state)}))
        yield found.float()


def _check_images(images: Tensor) -> None:
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        kind = images.dtype if isinstance(images, Tensor) else type(images).__name__
        raise TypeError(f"images are {kind}: expected uint8, not yet normalised")
    if images.ndim != 4 or not images.numel():
        raise ValueError(
            f"images of shape {tuple(images.shape)}: expected (images, channels, height, width), "
            "one image at least"
        )


def _effect(normalize: Callable[[Tensor], Tensor], channels: int, size: int) -> str:
    """A digest of what a normalisation makes of an image with all values in all channels."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(256, (1, channels, size, size), dtype=torch.uint8, generator=generator)
    return digest({"normalized": _normalized(normalize, image).cpu().contiguous()})


def _normalized(normalize: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    found = normalize(images)
    right = isinstance(found, Tensor) and found.is_floating_point()
    if not right or found.shape[:1] != images.shape[:1]:
        came = f"{found.dtype} of {tuple(found.shape)}" if right else type(found).__name__
        raise ValueError(
            f"normalize made {came} of {len(images)} images: expected floating point, one for each"
        )
    return found


def _kept(
    path: Path, number: int, first: Float[Tensor, "1 features"]
) -> Float[Tensor, "chunk features"] | None:
    """The chunk as it was written; None where there is none, a damaged one, or another model's."""
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        with safe_open(path, framework="pt") as file:
            told = (file.metadata() or {}).get("digest")
            found = file.get_tensor("features")
    except (OSError, SafetensorError):
        return None
    if told != digest({"features": found}) or tuple(found.shape) != (number, first.shape[1]):
        return None
    return found if (found[:1].float() - first).norm() <= SAME * first.norm() else None


def _computed(
    model: nn.Module,
    normalize: Callable[[Tensor], Tensor],
    images: Tensor,
    image_size: int,
    batch_size: int,
    each_patch: bool,
    layer: str,
) -> Float[Tensor, "chunk features"]:
    ready = _normalized(normalize, resize(images, image_size))
    return torch.cat([_read(model, batch, each_patch, layer) for batch in ready.split(batch_size)])


@torch.no_grad()
def _read(
    model: nn.Module, images: Tensor, each_patch: bool, layer: str
) -> Float[Tensor, "batch features"]:
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    with evaluating(model):  # here, as between two chunks the caller has the model
        tokens = _tokens(model, images.to(like.device, like.dtype), layer, maps=not each_patch)
        if tokens.ndim == 4:
            read = model.forward_head(tokens, pre_logits=True).float().cpu()
            if read.ndim != 2:
                raise ValueError(
                    f"the head of {type(model).__name__} makes {tuple(read.shape)} of "
                    f"{len(images)} images: expected one that pools, so no global_pool=''"
                )
            return read
    # timm's VOLO has a class token and does not count it.
    uncounted = int(getattr(model, "cls_token", None) is not None)
    prefix = getattr(model, "num_prefix_tokens", uncounted)
    if each_patch:
        return tokens[:, prefix:].flatten(1).float().cpu()
    mean = tokens[:, prefix:].mean(dim=1)
    # timm says None of a class token that is not there: then the first may be a register.
    has_class = prefix and getattr(model, "cls_token", tokens) is not None
    read = torch.cat([tokens[:, 0], mean], dim=1) if has_class else mean
    return read.float().cpu()


def _tokens(model: nn.Module, images: Tensor, layer: str, maps: bool) -> Tensor:
    """Tokens "batch tokens width"; or 4-D ``maps`` of a network whose head knows how they lie."""
    name, maps = type(model).__name__, maps and layer == LAST and hasattr(model, "forward_head")
    if layer == LAST:
        tokens_of = getattr(model, "features", None) or getattr(model, "forward_features", None)
        if not callable(tokens_of):
            raise ValueError(f"{name} gives no features: expected a model of ours or timm's")
        found, told = tokens_of(images), f"{name} gives features of"
    else:
        gave = []
        block = model.get_submodule(layer)
        handle = block.register_forward_hook(lambda *args: gave.append(args[2]))
        try:
            model(images)
        finally:
            handle.remove()
        if not gave:
            raise ValueError(f"{layer} of {name} did not run: expected a layer that is called")
        found, told = gave[-1], f"{layer} gives"
    if not isinstance(found, Tensor) or found.ndim not in (3, 3 + maps):
        is_tensor = isinstance(found, Tensor)
        came = f"shape {tuple(found.shape)}" if is_tensor else f"a {type(found).__name__}"
        raise ValueError(f"{told} {came}: expected (images, tokens, width)")
    return found if layer == LAST else F.layer_norm(found, found.shape[-1:])
