"""What to say when a batch does not fit into memory."""

import traceback

import torch
from torch import Tensor, nn
from torch.func import functional_call

from vitbook.devices import release_memory
from vitbook.model_utilities import evaluating
from vitbook.training.engine.loss import cross_entropy
from vitbook.training.objectives.learner import Learner


class BatchTooLargeError(MemoryError):
    """Out of memory; the message says which batch would fit."""


def is_out_of_memory(error: BaseException) -> bool:
    """CUDA's error has a class of its own; its libraries', the CPU's and MPS's have a sentence."""
    sentences = (
        *("allocate memory", "could not create a primitive", "MPS backend out of memory"),
        *("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"),
    )
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in sentences)
    )


def forget_activations(error: BaseException | None) -> None:
    """Let go of what the frames of a step that failed hold, so that less is tried without it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def largest_fitting_batch(
    model: nn.Module, image: Tensor, below: int, teacher: nn.Module | None = None
) -> int:
    """Largest half, quarter, ... of ``below`` whose training step fits into memory; 0 if none.

    From the smallest on: after a step that was too large the C library may keep what it let go,
    and a smaller one then lacks the room for kernels of its own. No gradient is left, and
    every buffer stays as it came.

    Raises:
        Exception: what a step of two images or more raises that is no lack of memory.
    """
    largest = 0
    for size in reversed([below >> i for i in range(1, below.bit_length())]):
        try:
            trial_step(model, image.expand(size, *image.shape), teacher)
        except Exception as error:
            if is_out_of_memory(error):
                break
            if size > 1:  # some models learn from no single image: batch norm over one value
                raise
        else:
            largest = size
        finally:
            model.zero_grad(set_to_none=True)
    release_memory(image.device)
    return largest


def trial_step(model: nn.Module, images: Tensor, teacher: nn.Module | None = None) -> None:
    """A step of any objective up to its gradients; every buffer stays as it came.

    Args:
        model: what :func:`~.questions.make_learner` gives.
        images: as the model takes them.
        teacher: that answers the same images.
    """
    # In a function of its own, whose end lets go of the logits and of all that led to them.
    # Batch norm counts these images in copies, and BYOL's slow weights follow in copies.
    followers = model.followers if isinstance(model, Learner) else ()
    slow = (pair for pair in model.named_parameters() if pair[0].startswith(followers))
    copies = {name: tensor.detach().clone() for name, tensor in (*model.named_buffers(), *slow)}
    if isinstance(model, Learner):
        functional_call(model, copies, (images, *model.trial_inputs(images))).loss.backward()
        return
    logits = functional_call(model, copies, images)
    if teacher is not None:  # beside what the student keeps for its gradient
        with torch.no_grad(), evaluating(teacher):
            teacher(images)
    first = logits[0] if isinstance(logits, tuple) else logits
    cross_entropy(logits, first.argmax(dim=1)).backward()


def say_what_fits(
    model: nn.Module,
    image: Tensor,
    own: int,
    processes: int,
    teacher: nn.Module | None = None,
) -> str:
    """A sentence, found by trying smaller batches.

    Args:
        image: one, "channels height width", as the model takes it.
        own: images a step of this process, which did not fit.
        processes: that share the batch.
        teacher: that answers the same images.
    """
    size = largest_fitting_batch(model, image, own, teacher) * processes
    where = "this machine" if image.device.type == "cpu" else "the GPU"
    if not size:
        return (
            f"batch_size {own * processes} does not fit into the memory of {where}, and no smaller "
            "one does (tried): take a smaller model or smaller images"
        )
    return (
        f"batch_size {own * processes} does not fit into the memory of {where}; {size} does "
        f"(tried): use batch_size={size}, and a learning rate that goes with it"
    )
