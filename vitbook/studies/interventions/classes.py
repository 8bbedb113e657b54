"""Images whose labels mean what the logits of a head mean."""

from vitbook import datasets
from vitbook.errors import first_few
from vitbook.models.weights.pretrained import Pretrained


def check_classes(loaded: Pretrained, dataset: datasets.Dataset) -> None:
    """Refuse images whose labels mean something else than a head's logits.

    Raises:
        ValueError: they do.
    """
    if loaded.class_names != dataset.class_names:
        told, given = (
            f"{len(names)} classes ({first_few(names, 3)})"
            for names in (loaded.class_names, dataset.class_names)
        )
        raise ValueError(
            f"the head on {loaded.name} tells apart {told}; {dataset.provenance['name']} has "
            f"{given}: fit a head on it with `vitbook measure linear-probe`, or take other data"
        )
