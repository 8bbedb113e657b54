"""What each block of a model holds: directions, a linear probe, the nearest neighbours."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn
from tqdm import tqdm

from vitbook import datasets
from vitbook.analysis.capture.outputs import outputs_of
from vitbook.blocks import find_layers
from vitbook.datasets.resizing import resize
from vitbook.models.catalog import fresh_twin
from vitbook.runs.measuring import Sheet, measurement
from vitbook.training.asked import DataName, FrozenModel, ImageSize, Share, stem
from vitbook.training.transfer.few_shot import NEIGHBOURS
from vitbook.training.transfer.frozen_readers import checked_size, frozen_body
from vitbook.training.transfer.linear_probe import accuracy_interval
from vitbook.training.transfer.neighbours import neighbours
from vitbook.training.transfer.ridge import RidgePath

# Of the variance of patch tokens, held by the directions that are counted.
MOST = 0.9
FOLDS = 10
BATCH = 25


def directions(covariance: Float[Tensor, "width width"], share: float = MOST) -> int:
    """How many principal directions hold this share of the variance.

    Raises:
        ValueError: tokens that are all the same.

    Example:
        >>> import torch
        >>> from vitbook.studies.feature_maps.blocks import directions
        >>> directions(torch.diag(torch.tensor([6.0, 3.0, 1.0])))
        2
    """
    found = torch.linalg.eigvalsh(covariance.double()).clamp(min=0).flip(0)
    if not found.sum() > 0:
        raise ValueError("all tokens are the same: expected some variance")
    return int((found.cumsum(0) < share * (1 - 1e-9) * found.sum()).sum()) + 1


def token_directions(tokens: Float[Tensor, "images patches width"]) -> int:
    """:func:`directions` of patch tokens, all images together, less their mean."""
    return directions(tokens.flatten(0, 1).double().T.cov())


def most_alike(tokens: Float[Tensor, "images patches width"]) -> float:
    """Of each patch, the cosine with the most similar patch of another image.

    The mean over all patches and all other images; tokens less the mean of all.
    """
    unit = F.normalize(tokens - tokens.flatten(0, 1).mean(0), dim=-1)
    found = torch.einsum("ipd, jqd -> ijpq", unit, unit).amax(3).mean(2)
    return found[~torch.eye(len(tokens), dtype=torch.bool)].mean().item()


def less(
    ours: Bool[Tensor, "images"], theirs: Bool[Tensor, "images"]
) -> tuple[float, float, float]:
    """One share less another of the same images, and the ends of its 95 % interval.

    Only images count that one of the two alone has: of a and b, :math:`(a - b) / n` with the
    error :math:`\\sqrt{a + b - (a - b)^2 / n} / n`, as in McNemar's test.

    Example:
        >>> import torch
        >>> from vitbook.studies.feature_maps.blocks import less
        >>> ours, theirs = torch.zeros(2, 100, dtype=torch.bool)
        >>> ours[:9] = True
        >>> less(ours, theirs)  # 9 - 0 of 100, and 1.96 times the root of 9 - 0.81
        (0.09, 0.0339, 0.1461)
    """
    alone = [int((one & ~other).sum()) for one, other in ((ours, theirs), (theirs, ours))]
    gap, n = alone[0] - alone[1], len(ours)
    reach = 1.96 * math.sqrt(sum(alone) - gap**2 / n)
    return tuple(round(each / n, 4) for each in (gap, gap - reach, gap + reach))


class _Blocks:
    """What all blocks say of images: features for the readers, and the tokens' covariance."""

    def __init__(self, model: nn.Module, normalize: Callable[[Tensor], Tensor], size: int):
        self.model, self.normalize, self.size = model, normalize, size
        self.paths = find_layers(model)
        self.sums: dict[str, tuple[int, Tensor, Tensor]] = {}

    def features(
        self, images: Tensor, name: str, count: bool = False
    ) -> dict[str, Float[Tensor, "images features"]]:
        """Block -> class token beside the mean of the patches, each token at variance 1."""
        prefix, found = self.model.num_prefix_tokens, {path: [] for path in self.paths}

        def read(path: str, tokens: Tensor) -> Tensor:
            tokens = F.layer_norm(tokens, tokens.shape[-1:])
            if count:
                self._add(path, tokens[:, prefix:].flatten(0, 1).double())
            mean = tokens[:, prefix:].mean(dim=1)
            return torch.cat([tokens[:, 0], mean], dim=1) if prefix else mean

        with tqdm(total=len(images), desc=name, unit="image") as bar:
            for batch in images.split(BATCH):
                ready = self.normalize(resize(batch, self.size))
                for path, each in outputs_of(self.model, ready, self.paths, read).items():
                    found[path].append(each.float().cpu())
                bar.update(len(batch))
        return {path: torch.cat(each) for path, each in found.items()}

    def _add(self, path: str, tokens: Float64[Tensor, "tokens width"]) -> None:
        n, total, squares = self.sums.get(path, (0, 0, 0))
        self.sums[path] = (
            n + len(tokens), total + tokens.sum(0), squares + tokens.T @ tokens,
        )  # fmt: skip

    def directions(self, path: str) -> int:
        n, total, squares = self.sums[path]
        return directions(squares / n - torch.outer(total / n, total / n))


@measurement(
    blocks={"weights": "{weights}", "block": "{block}", "directions": "{directions}",
            "ridge": "{ridge:.1%}", "neighbours": "{neighbours:.1%}"}
)  # fmt: skip
def blocks(
    sheet: Sheet,
    dataset: DataName,
    model: FrozenModel = "vit_small_patch14_focus",
    image_size: ImageSize = None,
    share: Share = 1.0,
) -> None:
    """Read frozen tokens of each block: a linear probe, neighbours, and how many directions."""
    subject = f"{stem(model)}-{dataset}" + (f"-{share:g}" if share < 1 else "")
    sheet.expect(subject)
    split = datasets.held_out_split(dataset)
    train = datasets.take_share(datasets.load(dataset, "train"), share)
    test = datasets.load(dataset, split)
    body, normalize, about = frozen_body(model, image_size)
    size = checked_size(model, body, train)

    def rows_of(name: str, part: nn.Module) -> list[dict]:
        reader = _Blocks(part.to(sheet.device), normalize, size)
        known = reader.features(train.images, f"{name}, training images")
        asked = reader.features(test.images, f"{name}, held out", count=True)
        folds = torch.arange(len(train)) % FOLDS
        found, right = [], {"ridge": [], "neighbours": []}
        for number, path in enumerate(reader.paths):
            layer = RidgePath(known[path], train.labels, train.num_classes).best(folds)
            votes = neighbours(
                known[path], train.labels, asked[path], NEIGHBOURS, train.num_classes
            )
            logits = layer.logits(asked[path])
            for key, answers in {"ridge": logits, "neighbours": votes}.items():
                right[key].append(answers.argmax(dim=1) == test.labels)
            found.append({
                "weights": name, "block": number + 1, "layer": path,
                "directions": reader.directions(path),
                "width": len(reader.sums[path][1]),
                "ridge": accuracy_interval(logits.float(), test.labels),
                "neighbours": accuracy_interval(votes, test.labels), "penalty": layer.penalty,
            })  # fmt: skip
        for key, each in right.items():
            for row, here in zip(found, each, strict=True):
                row[f"{key}_less_last"] = less(here, each[-1])
        return found

    rows = []
    for name, part in {"learned": body, "fresh": fresh_twin(body)}.items():
        rows += sheet.once(f"{name} {about['weights']}", rows_of, name, part)
    settings = about | {
        "dataset": train.provenance["name"], "split": split, "image_size": size, "share": share,
        "training_images": len(train), "test_images": len(test), "fresh": "seed 0",
        "features": "class token beside the mean of the patch tokens, each token brought to mean 0 "
        "and variance 1",
        "directions": f"principal directions that hold {MOST:.0%} of the variance of the patch "
        "tokens of the held-out images",
        "ridge": f"features standardised, penalty chosen on {FOLDS} folds of the training images",
        "neighbours": f"{NEIGHBOURS}, by cosine", "interval": "Wilson, 95 %",
        "less_last": "than the last block, of the same images: pairs, 95 %",
    }  # fmt: skip
    sheet.write(subject, settings, rows)
