"""Explainers made elsewhere, as this package calls its own: Captum's, grad-cam's, anybody's."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitbook.analysis.attribution.captum_maps import Logits, asked_targets, on_grid
from vitbook.analysis.capture.layout import token_layout
from vitbook.analysis.capture.running import batches, takes_images
from vitbook.errors import UnknownNameError
from vitbook.model_utilities import evaluating

Explanation = Callable[[nn.Module, Tensor, Tensor], Float[Tensor, "batch rows columns"]]
_AT_ONCE = 32
_KINDS = (
    "expected a class or object with attribute(images, target=), as Captum's; an object called "
    "with (input_tensor, targets), as pytorch-grad-cam's; a function (model, images, targets) -> "
    "maps; or a function (model) -> one of these objects"
)


def as_explanation(explainer: Any, name: str = "explainer") -> Explanation:
    """A function (model, images, targets) -> maps on the model's grid, of any explainer.

    Args:
        explainer: one of

            - a function (model, images, targets) -> maps, as :data:`~.scoring.EXPLANATIONS` holds;
            - a class that is made of a model alone and has ``attribute(images, target=targets)``,
              as ``captum.attr.Saliency``, or a function (model) that returns such an object;
            - an object of such a class, or one that is called with ``(input_tensor, targets)``, as
              ``pytorch_grad_cam.GradCAM``. It holds a model of its own: asked about another model
              of the same shape, it is lent that model's weights for the call.

            Its maps are tensors or arrays, "batch rows columns" of the model's grid, or "batch
            height width" or "batch channels height width" of its pixels, which are summed over
            the channels and over each patch.
        name: said in errors.

    Raises:
        TypeError: at once, what is none of these; when called, maps that are no tensor.
        ValueError: when called, maps of another shape, or with NaN, or an object whose model is
            another one; or an explainer that changed the model's weights.

    Example:
        >>> import torch
        >>> import vitbook
        >>> from captum.attr import InputXGradient
        >>> from vitbook.analysis import as_explanation
        >>> model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
        >>> explain = as_explanation(InputXGradient)
        >>> tuple(explain(model, torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 2])).shape)
        (3, 4, 4)
    """
    ask = _asking(explainer, name)

    @takes_images(gradients=True)
    def explain(model: nn.Module, images: Tensor, targets: Tensor | None = None) -> Tensor:
        (grid,) = token_layout(model, images, grid_size=None)
        targets = asked_targets(targets, images, model, _AT_ONCE)
        found = []
        with evaluating(model), _untouched(model, name), torch.enable_grad():
            parts = zip(
                batches(model, images.detach(), _AT_ONCE), targets.split(_AT_ONCE), strict=True
            )
            for some, classes in parts:
                maps = ask(model, some.clone().requires_grad_(), classes.to(some.device))
                found.append(_checked(maps, some, grid, name))
        return torch.cat(found)

    return explain


def load_explainer(where: str) -> Any:
    """What ``module:name`` names, as ``captum.attr:Saliency``, or ``mine:explain`` of mine.py here.

    Raises:
        ValueError: no colon, or a module that cannot be imported.
        UnknownNameError: the module has no such name.
    """
    module, colon, name = where.partition(":")
    if not (module and colon and name):
        raise ValueError(f"explainer {where!r}: expected module:function, as captum.attr:Saliency")
    here = os.getcwd()
    sys.path.insert(0, here)  # a console script does not look where it is called
    try:
        found = import_module(module)
    except (ImportError, SyntaxError, TypeError) as error:
        raise ValueError(
            f"explainer {where!r}: {error}; expected a module that is installed, or a file "
            f"{module}.py in this folder"
        ) from error
    finally:
        if here in sys.path:
            sys.path.remove(here)
    if not hasattr(found, name):
        known = [each for each, value in vars(found).items() if callable(value) and each[0] != "_"]
        raise UnknownNameError(f"function of {module}", name, known)
    return getattr(found, name)


@contextmanager
def _untouched(model: nn.Module, name: str) -> Iterator[None]:
    """Gradients and what asks for them are as they were after the block; weights must be."""
    state = [*model.parameters(), *(each for each in model.buffers() if not each.is_inference())]
    before = [(each, each.requires_grad, each.grad, each._version) for each in state]
    for each in state:
        each.grad = None
    try:
        yield
    finally:
        for each, asks, gradient, _ in before:
            each.requires_grad_(asks)
            each.grad = gradient
    if any(each._version != version for each, _, _, version in before):
        raise ValueError(
            f"{name} changed weights of the {type(model).__name__} that it was asked about: "
            "expected an explainer that leaves them; load the model again"
        )


def _asking(explainer: Any, name: str) -> Callable[[nn.Module, Tensor, Tensor], Any]:
    """(model, images, targets) -> maps in whatever form, of an explainer in whatever form."""
    if not isinstance(explainer, type):
        if _holds_a_model(explainer):
            return lambda model, *given: _of_object(explainer, model, *given)
        if _takes(explainer, 0, 0, 0):
            return explainer
    if not _takes(explainer, 0):
        came = getattr(explainer, "__name__", type(explainer).__name__)
        raise TypeError(f"{name} came as {came}{_signature(explainer)}: {_KINDS}")

    def of_factory(model: nn.Module, images: Tensor, targets: Tensor) -> Any:
        made = explainer(Logits(model))
        if not _holds_a_model(made):
            raise TypeError(f"{name} made a {type(made).__name__} of the model: {_KINDS}")
        return _call(made, images, targets)

    return of_factory


def _holds_a_model(explainer: Any) -> bool:
    """Whether it is an object of Captum's or of grad-cam's, or one that looks like it."""
    return hasattr(explainer, "attribute") or {"input_tensor", "targets"} <= {
        *getattr(_signature(explainer), "parameters", ())
    }


def _call(made: Any, images: Tensor, targets: Tensor) -> Any:
    if hasattr(made, "attribute"):
        return made.attribute(images, target=targets)
    # grad-cam asks for a function of one image's logits for each image.
    classes = [lambda logits, c=c: logits[..., c] for c in targets.tolist()]
    return made(input_tensor=images, targets=classes)


def _of_object(made: Any, model: nn.Module, images: Tensor, targets: Tensor) -> Any:
    own = next((getattr(made, at) for at in ("model", "forward_func") if hasattr(made, at)), None)
    if own is model:
        return _call(made, images, targets)
    if not isinstance(own, nn.Module):
        raise ValueError(
            f"a {type(made).__name__} that holds {type(own).__name__} and not the model: its "
            "untrained twin cannot be asked; pass its class, or a function of the model"
        )
    with _lent(own, model), evaluating(own):
        return _call(made, images, targets)


@contextmanager
def _lent(own: nn.Module, model: nn.Module) -> Iterator[None]:
    """The weights of ``model`` in ``own``, for as long as the block lasts."""
    before, given = ({k: v.clone() for k, v in m.state_dict().items()} for m in (own, model))
    shapes = [{key: value.shape for key, value in each.items()} for each in (before, given)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"an explainer of a {type(own).__name__} with {len(before)} tensors was asked about a "
            f"{type(model).__name__} with {len(given)}: expected one of the same shape"
        )
    own.load_state_dict(given)
    try:
        yield
    finally:
        own.load_state_dict(before)


def _checked(maps: Any, images: Tensor, grid: tuple[int, int], name: str) -> Tensor:
    """Maps on the grid, of what an explainer returned for these images."""
    try:
        maps = torch.as_tensor(maps).detach().to(images)
    except (TypeError, ValueError, RuntimeError) as error:
        came = type(maps).__name__
        raise TypeError(f"{name} returned a {came}: expected a tensor or an array") from error
    came, number, pixels = tuple(maps.shape), len(images), tuple(images.shape[-2:])
    if maps.ndim == 4 and maps.shape[1] in (1, images.shape[1]):
        maps = maps.sum(1)
    if tuple(maps.shape) not in ((number, *grid), (number, *pixels)):
        raise ValueError(
            f"{name} returned maps of shape {came} for images of {tuple(images.shape)}: expected "
            f"{(number, *grid)}, a number for each patch, {(number, *pixels)}, for each pixel, or "
            f"{tuple(images.shape)}"
        )
    if not maps.isfinite().all():
        raise ValueError(f"{name} returned maps with NaN or infinity: expected finite numbers")
    return maps if tuple(maps.shape[1:]) == grid else on_grid(maps, grid)


def _takes(function: Any, *given: Any) -> bool:
    try:
        _signature(function).bind(*given)
    except (TypeError, AttributeError):
        return False
    return True


def _signature(function: Any) -> inspect.Signature | str:
    """Of a callable; empty for what is none, or does not tell."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return ""
