"""The data sets that are kept as files: one entry each."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Archive:
    """The one file that the makers of a data set offer.

    Attributes:
        url: its official address.
        num_bytes: its size.
        sha256: of its bytes.
    """

    url: str
    num_bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class ImageSet:
    """A data set kept as Parquet files in ``<root>/<name>/``.

    Attributes:
        name: as ``load`` takes it.
        title: as the ledger and the book print it.
        splits: to the number of images that the official one has; the last is held out.
        image_size: pixels a side that an image is loaded with by default.
        lossless: published as pixels, so that a JPEG of them is not the same image.
        original_size: pixels a side of an unaltered image; None where they differ.
        archive: where the official set comes from.
        terms: under which the images may be used.
        rule: how the images were split.
        shards: split -> files that its conversion makes, where that is not one.
    """

    name: str
    title: str
    splits: dict[str, int]
    image_size: int
    lossless: bool
    original_size: int | None
    archive: Archive
    terms: str
    rule: str
    shards: dict[str, int] = field(default_factory=dict)


# Sizes and sums as public loaders record them. CIFAR: torchvision's prototype datasets (sha256);
# Keras has the same two sums. The page of CIFAR redirects to cave.cs.toronto.edu. TF-Flowers:
# tensorflow_datasets/datasets/tf_flowers/checksums.tsv. Tiny-ImageNet: the sum that several
# loaders have for the file whose md5 is 90528d7ca1a48142e341f4ef8d21d0de.
IMAGE_SETS = {
    "cifar10": ImageSet(
        name="cifar10",
        title="CIFAR-10",
        splits={"train": 50_000, "test": 10_000},
        image_size=32,
        lossless=True,
        original_size=32,
        archive=Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            170_498_071,
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
        terms="research use, cite Krizhevsky 2009",
        rule="the official split",
    ),
    "cifar100": ImageSet(
        name="cifar100",
        title="CIFAR-100",
        splits={"train": 50_000, "test": 10_000},
        image_size=32,
        lossless=True,
        original_size=32,
        archive=Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            169_001_437,
            "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        ),
        terms="research use, cite Krizhevsky 2009",
        rule="the official split, 100 fine classes",
    ),
    "tf_flowers": ImageSet(
        name="tf_flowers",
        title="TF-Flowers",
        splits={"train": 2_939, "test": 731},
        image_size=160,
        lossless=False,
        original_size=None,
        archive=Archive(
            "https://storage.googleapis.com/download.tensorflow.org/example_images/"
            "flower_photos.tgz",
            228_813_984,
            "4c54ace7911aaffe13a365c34f650e71dd5bf1be0a58b464e5a7183e3e595d9c",
        ),
        terms="CC BY 2.0, credits in LICENSE.txt",
        rule="every fifth photo of a class, sorted by name, is held out",
    ),
    "tiny_imagenet": ImageSet(
        name="tiny_imagenet",
        title="Tiny-ImageNet",
        splits={"train": 100_000, "validation": 10_000},
        image_size=64,
        lossless=False,
        original_size=64,
        archive=Archive(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            248_100_043,
            "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
        ),
        terms="non-commercial research, not to be redistributed",
        rule="the official split; the official test images have no labels",
        shards={"train": 3},
    ),
}
