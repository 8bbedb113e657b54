"""Nine colour photographs that come inside scikit-image and scikit-learn, to look at."""

from pathlib import Path

import torch

from vitbook.datasets.dataset import Dataset
from vitbook.datasets.resizing import from_photo
from vitbook.extras import from_extra

SIZE = 224

# name -> (where it is, whose it is by the notes of scikit-image and scikit-learn)
PHOTOS = {
    "astronaut": ("astronaut.png", "Eileen Collins, NASA, public domain"),
    "cat": ("chelsea.png", "Chelsea, Stefan van der Walt, CC0"),
    "coffee": ("coffee.png", "Rachel Michetti, CC0"),
    "rocket": ("rocket.jpg", "SpaceX, public domain"),
    "motorcycle": ("motorcycle_left.png", "D. Scharstein et al., Middlebury stereo 2014"),
    "retina": ("retina.jpg", "Mikael Haggstrom, CC0"),
    "galaxies": ("hubble_deep_field.jpg", "Hubble Deep Field, NASA, public domain"),
    "temple": ("china.jpg", "danielbuechele, Flickr, CC BY 2.0"),
    "flower": ("flower.jpg", "vultilion, Flickr, CC BY 2.0"),
}


def load_photos(split: str, size: int | None = None) -> Dataset:
    """The centre square of each photograph, resized with antialiasing.

    Args:
        size: of the square, in pixels, by default 224. The photographs have 300 to 872.

    Raises:
        MissingPackageError: scikit-image or scikit-learn is not installed.
    """
    with from_extra("data"):
        import skimage
        import sklearn
        from skimage.io import imread

    size = SIZE if size is None else size
    folders = (
        Path(skimage.__file__).parent / "data",
        Path(sklearn.__file__).parent / "datasets" / "images",
    )

    def read(file: str) -> torch.Tensor:
        path = next(folder / file for folder in folders if (folder / file).exists())
        return from_photo(imread(path), size)

    return Dataset(
        images=torch.stack([read(file) for file, _ in PHOTOS.values()]),
        labels=torch.arange(len(PHOTOS)),
        class_names=tuple(PHOTOS),
        provenance={
            "name": "photos",
            "split": split,
            "source": "; ".join(f"{name}: {credit}" for name, (_, credit) in PHOTOS.items()),
            "rule": f"centre square, resized to {size} px",
        },
    )
