"""Nine colour photographs that come inside scikit-image and scikit-learn, to look at."""

from pathlib import Path

import torch
from einops import rearrange
from jaxtyping import UInt8
from torch import Tensor

from vitbook.datasets.dataset import Dataset
from vitbook.datasets.resizing import resize, stretched
from vitbook.errors import UnknownNameError, check_count
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
    size = SIZE if size is None else size
    return Dataset(
        images=torch.cat([resize(whole_photo(name)[None], size) for name in PHOTOS]),
        labels=torch.arange(len(PHOTOS)),
        class_names=tuple(PHOTOS),
        provenance={
            "name": "photos",
            "split": split,
            "source": "; ".join(f"{name}: {credit}" for name, (_, credit) in PHOTOS.items()),
            "rule": f"centre square, resized to {size} px",
        },
    )


def whole_photo(name: str, short: int | None = None) -> UInt8[Tensor, "3 height width"]:
    """One of them in the shape that it was taken in.

    Args:
        name: of a class of ``load("photos", "all")``.
        short: pixels of its shorter side, bicubic with antialiasing; by default all that it has.

    Raises:
        UnknownNameError: no such photograph.
        ValueError: a shorter side that is no whole number above 0.
        MissingPackageError: scikit-image or scikit-learn is not installed.

    Example:
        >>> from vitbook.datasets import whole_photo
        >>> tuple(whole_photo("coffee").shape), tuple(whole_photo("coffee", 224).shape)
        ((3, 400, 600), (3, 224, 336))
    """
    if name not in PHOTOS:
        raise UnknownNameError("photograph", name, PHOTOS)
    if short is not None:
        check_count("short", short)
    with from_extra("data"):
        import skimage
        import sklearn
        from skimage.io import imread

    folders = (
        Path(skimage.__file__).parent / "data",
        Path(sklearn.__file__).parent / "datasets" / "images",
    )
    file, _ = PHOTOS[name]
    pixels = imread(next(folder / file for folder in folders if (folder / file).exists()))
    photo = rearrange(torch.from_numpy(pixels[..., :3].copy()), "h w c -> c h w")
    if short is None or short == min(photo.shape[1:]):
        return photo
    height, width = (round(side * short / min(photo.shape[1:])) for side in photo.shape[1:])
    return stretched(photo[None], (height, width))[0]
