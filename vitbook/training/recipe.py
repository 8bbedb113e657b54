"""Recipes are data."""

from dataclasses import dataclass, fields, replace

from vitbook.errors import UnknownNameError

POLICIES = ("autoaugment_cifar10", "autoaugment_imagenet", "randaugment", "trivialaugment")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run but the model, the data and the seed.

    AdamW with a linear warm-up and a cosine. Weight decay acts on matrices and convolution kernels;
    biases, norms, tables of positions and prefix tokens do not decay.

    Attributes:
        epochs: each shows every image ``repeats`` times; a last short batch is left out.
        epoch_images: an epoch shows so many instead, pass after pass without a break, so that
            runs on small and large data sets take the same steps; 0 keeps it a whole pass.
        batch_size: images a step, over all processes.
        learning_rate: at its peak.
        final_learning_rate: at the end of the cosine.
        weight_decay: of AdamW.
        warmup_epochs: epochs until the peak.
        gradient_clip: largest norm of the gradient; 0 lets it be.
        label_smoothing: share of the target spread over all classes.
        drop_path: stochastic depth (Huang et al. 2016), of the last block.
        drop_path_grows: from 0 in the first block; else every block has the same.
        ema: decay of the exponential mean of the weights, which is what is evaluated and kept;
            0 keeps the last weights.
        repeats: times that an epoch shows each image, one after the other, each changed in its
            own way (repeated augmentation, Hoffer et al. 2020): an epoch is as many data passes.
        crop_padding: black border, in pixels, out of which each image is cropped again.
        flip: mirror each image left to right, or not, by chance.
        crop_area: smallest share of the image that a crop keeps, which is then resized
            (Szegedy et al. 2015; sides 3:4 to 4:3); 1 crops nothing.
        shift: largest shift of each image, in pixels, both ways.
        rotation: largest rotation of each image, in degrees, both ways.
        zoom: largest change of scale of each image, as a factor: 0.1 is 0.9 to 1.1.
        policy: one of :data:`POLICIES`, or None.
        policy_group: images that share one draw of the policy.
        erasing: probability that a rectangle of an image turns grey (Zhong et al. 2017).
        mixup: both parameters of the Beta of mixup (Zhang et al. 2018); 0 is no mixup.
        cutmix: the same of cutmix (Yun et al. 2019); with both, each batch takes one by chance.
        mix_probability: that a batch is mixed at all.

    Raises:
        ValueError: a number that no run can have.
    """

    name: str
    epochs: int
    batch_size: int
    learning_rate: float
    final_learning_rate: float = 0.0
    weight_decay: float = 0.05
    epoch_images: int = 0
    warmup_epochs: float = 0.0
    gradient_clip: float = 1.0
    label_smoothing: float = 0.0
    drop_path: float = 0.0
    drop_path_grows: bool = True
    ema: float = 0.0
    repeats: int = 1
    crop_padding: int = 0
    flip: bool = False
    crop_area: float = 1.0
    shift: float = 0.0
    rotation: float = 0.0
    zoom: float = 0.0
    policy: str | None = None
    policy_group: int = 8
    erasing: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    mix_probability: float = 1.0

    def __post_init__(self):
        for field in ("epochs", "batch_size", "learning_rate", "repeats", "policy_group"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{field} {getattr(self, field)}: expected more than 0")
        for field in (
            "final_learning_rate",
            "weight_decay",
            "epoch_images",
            "warmup_epochs",
            "gradient_clip",
            "crop_padding",
            "shift",
            "rotation",
            "mixup",
            "cutmix",
        ):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{field} {getattr(self, field)}: expected 0 or more")
        for field in ("label_smoothing", "zoom", "drop_path", "ema"):
            if not 0 <= getattr(self, field) < 1:
                raise ValueError(f"{field} {getattr(self, field)}: expected 0 up to, not with, 1")
        for field in ("erasing", "mix_probability"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"{field} {getattr(self, field)}: expected 0 to 1")
        if not 0 < self.crop_area <= 1:
            raise ValueError(f"crop_area {self.crop_area}: expected more than 0, up to 1")
        if self.final_learning_rate > self.learning_rate:
            raise ValueError(
                f"final_learning_rate {self.final_learning_rate:g}: expected at most the "
                f"learning rate, {self.learning_rate:g}"
            )
        if self.policy is not None and self.policy not in POLICIES:
            raise UnknownNameError("policy", self.policy, POLICIES)

    @property
    def mixes(self) -> bool:
        return (self.mixup > 0 or self.cutmix > 0) and self.mix_probability > 0


RECIPES = {
    recipe.name: recipe
    for recipe in (
        # A minute on two cores, for the chapters.
        Recipe(
            name="digits",
            epochs=60,
            batch_size=64,
            learning_rate=2e-3,
            warmup_epochs=5.0,
            label_smoothing=0.2,
            shift=0.5,
            rotation=10.0,
            zoom=0.1,
        ),
        # Digits anywhere on a larger canvas, ten images of each: small changes, many steps.
        Recipe(
            name="cluttered",
            epochs=20,
            batch_size=64,
            learning_rate=1e-3,
            warmup_epochs=1.0,
            label_smoothing=0.1,
            ema=0.99,
            shift=1.0,
            rotation=10.0,
            zoom=0.1,
        ),
        # Few passes over many small images: weak augmentation, a mean of the weights.
        Recipe(
            name="quick",
            epochs=30,
            batch_size=128,
            learning_rate=2e-3,
            warmup_epochs=2.0,
            label_smoothing=0.1,
            ema=0.998,
            crop_padding=4,
            flip=True,
        ),
        # Many passes over few larger images.
        Recipe(
            name="flowers",
            epochs=100,
            batch_size=32,
            learning_rate=2e-3,
            warmup_epochs=5.0,
            label_smoothing=0.1,
            ema=0.998,
            crop_area=0.35,
            flip=True,
        ),
        # Lee et al. 2021, "Vision Transformer for small-size datasets", by the authors' code,
        # with the learning rate that users needed to get their figures. 300 data passes.
        Recipe(
            name="sl_vit",
            epochs=100,
            batch_size=128,
            learning_rate=3e-3,
            final_learning_rate=1e-6,
            warmup_epochs=10.0,
            gradient_clip=0.0,
            label_smoothing=0.1,
            drop_path=0.1,
            drop_path_grows=False,
            repeats=3,
            crop_padding=4,
            flip=True,
            policy="autoaugment_cifar10",
            erasing=0.25,
            mixup=1.0,
            cutmix=1.0,
            mix_probability=0.5,
        ),
    )
}


def get_recipe(name: str, /, **changes) -> Recipe:
    """A recipe by name, with some of its numbers changed.

    Raises:
        UnknownNameError: no such recipe, or no such number in it.
        ValueError: a number of another kind than the recipe's, or one that no run can have.

    Example:
        >>> from vitbook.training import get_recipe
        >>> recipe = get_recipe("digits", epochs=5, mixup=0.2)
        >>> recipe.epochs, recipe.batch_size, recipe.mixes
        (5, 64, True)
    """
    if name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    recipe = RECIPES[name]
    known = {field.name: field.type for field in fields(Recipe) if field.name != "name"}
    for field, value in changes.items():
        if field not in known:
            raise UnknownNameError("recipe field", field, known)
        kind = known[field]
        if not (type(value) in (int, float) if kind is float else isinstance(value, kind)) or (
            kind is int and type(value) is bool
        ):
            raise ValueError(
                f"recipe field {field} {value!r}: expected {getattr(kind, '__name__', kind)}"
            )
        if type(value) in (int, float) and abs(value) >= 2**53:
            raise ValueError(f"recipe field {field} is too large: expected less than 2^53")
        if kind is float:
            changes[field] = float(value)
    return replace(recipe, **changes)
