"""Which query tells which object, and the loss of a set."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from vitbook.extras import from_extra
from vitbook.studies.detection.boxes import corners, overlaps
from vitbook.studies.detection.canvases import Objects, check_objects
from vitbook.studies.detection.detector import Answers

BOX, GIOU = 5.0, 2.0  # weights of L1 and of generalised IoU beside that of the class, 1
# What "no object" weighs in the loss of the class. The paper has 0.1 for 100 queries, of which 93
# find nothing on average. Here 7 of 10 do: 0.1 leaves more duplicates, 0.4 learns more slowly.
NO_OBJECT = 0.2

Pairs = list[Int64[Tensor, "objects"]]  # of each image, the query of each object
Match = Callable[[Answers, Sequence[Objects]], Pairs]


@torch.no_grad()
def costs(
    answers: Answers, objects: Sequence[Objects]
) -> list[Float[Tensor, "queries objects_of_image"]]:
    r"""What it costs to give an object to a query, image by image.

    .. math:: -\hat p_q(c_i) + 5\, \lVert b_i - \hat b_q \rVert_1 - 2\, \mathrm{GIoU}(b_i, \hat b_q)

    Carion et al. 2020, section 3.1 and appendix A.4; the constant 1 of the loss of GIoU, which all
    pairs have, is left out.

    Raises:
        ValueError: as :func:`check_set`.
    """
    check_set(answers, objects)
    # scipy knows no bfloat16, and half precision would tie costs that differ.
    exact = torch.promote_types(answers.logits.dtype, torch.float32)
    shares = answers.logits.softmax(dim=-1, dtype=exact)
    most = max(map(len, objects), default=0)
    if not most:
        return [answers.logits.new_zeros(answers.logits.shape[1], 0) for _ in objects]
    labels = pad_sequence([each.labels for each in objects], batch_first=True).to(shares.device)
    boxes = pad_sequence([each.boxes for each in objects], batch_first=True).to(shares)
    of_class = shares.gather(2, labels[:, None].expand(-1, shares.shape[1], -1))
    ours, theirs = answers.boxes[:, :, None].to(shares), boxes[:, None]
    apart = (ours - theirs).abs().sum(dim=-1)
    _, shared = overlaps(corners(ours), corners(theirs))
    every = BOX * apart - of_class - GIOU * shared
    return [cost[:, : len(each)] for cost, each in zip(every, objects, strict=True)]


def check_set(answers: Answers, objects: Sequence[Objects]) -> None:
    """Refuse objects that these answers cannot tell.

    Raises:
        ValueError: as :func:`~.canvases.check_objects`, or not one list of objects for each image.
    """
    images, queries, kinds = answers.logits.shape
    if len(objects) != images:
        raise ValueError(f"objects of {len(objects)} images for {images}: expected as many")
    check_objects(objects, queries, kinds - 1)


def match_best(answers: Answers, objects: Sequence[Objects]) -> Pairs:
    """The one-to-one matching whose costs add up to the least, by the Hungarian algorithm.

    Raises:
        ValueError: as :func:`check_set`, or answers that are NaN or infinite.
    """
    with from_extra("data"):  # scikit-learn brings it
        from scipy.optimize import linear_sum_assignment
    found = []
    for cost in map(Tensor.cpu, costs(answers, objects)):
        if not cost.isfinite().all():
            raise ValueError(
                "answers hold NaN or infinity, and no query can be matched: look for it in images "
                "or weights; a lower learning rate may help"
            )
        queries, which = (torch.from_numpy(i) for i in linear_sum_assignment(cost.numpy()))
        found.append(queries[which.argsort()])
    return found


def match_from_left(answers: Answers, objects: Sequence[Objects]) -> Pairs:
    """The leftmost object belongs to the first query, and so on: a list instead of a set."""
    return [each.boxes[:, 0].argsort().argsort() for each in objects]


def set_loss(
    answers: Answers,
    objects: Sequence[Objects],
    match: Match = match_best,
    no_object: float = NO_OBJECT,
) -> Float[Tensor, ""]:
    r"""Loss of a set of answers: of the class for every query, of the box for matched ones.

    .. math::
        \mathrm{CE} + \frac{1}{N} \sum_i \Big(5\, \lVert b_i - \hat b_{\sigma(i)} \rVert_1
        + 2\, \big(1 - \mathrm{GIoU}(b_i, \hat b_{\sigma(i)})\big)\Big)

    Carion et al. 2020, equation 2 and appendix A.2. N is the number of objects in the batch. A
    query without an object is to say "no object", which weighs ``no_object`` in the mean.

    Args:
        objects: of each image; there may be none.
        match: says which query tells which object.

    Raises:
        ValueError: as :func:`check_set`, and as ``match``.
    """
    check_set(answers, objects)
    logits, boxes = answers
    device = logits.device
    queries = torch.cat(match(answers, objects)).to(device)
    images = torch.arange(len(objects)).repeat_interleave(torch.tensor([*map(len, objects)]))
    images = images.to(device)
    targets = torch.full(logits.shape[:2], logits.shape[2] - 1, device=device)
    targets[images, queries] = torch.cat([each.labels for each in objects]).to(targets)
    weights = logits.new_ones(logits.shape[2])
    weights[-1] = no_object
    loss = _weighted_mean(logits, targets, weights)
    if not len(queries):
        return loss
    told, wanted = boxes[images, queries], torch.cat([each.boxes for each in objects]).to(boxes)
    _, shared = overlaps(corners(told), corners(wanted))
    of_boxes = BOX * (told - wanted).abs().sum() + GIOU * (1 - shared).sum()
    return loss + of_boxes / len(queries)


def _weighted_mean(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), weights, reduction="sum")
    # All may weigh nothing: a batch without objects, where "no object" does not count.
    return losses / weights[targets].sum().clamp(min=1e-6)
