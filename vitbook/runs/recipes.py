"""The recipes by name."""

from vitbook.errors import UnknownNameError
from vitbook.runs.recipe import Recipe, RecipeFields
from vitbook.typed import typed

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
        # Dosovitskiy et al. 2021, table 3: ViT-B on JFT-300M, Adam with a decay of 0.1. They count
        # a warm-up of 10,000 steps, which are 0.135 passes over 303 million images.
        Recipe(
            name="vit_pre_training",
            epochs=7,
            batch_size=4096,
            learning_rate=8e-4,
            decay="linear",
            weight_decay=0.1,
            warmup_epochs=0.135,
            gradient_clip=0.0,
            crop_area=0.05,
            flip=True,
            image_size=224,
        ),
        # Touvron et al. 2021, "DeiT", table 9, for ImageNet: 300 data passes, three changed copies
        # of each image in a batch. Their rate is 5e-4 for each 512 images of a batch.
        Recipe(
            name="deit",
            epochs=100,
            batch_size=1024,
            learning_rate=1e-3,
            final_learning_rate=1e-5,
            warmup_epochs=5 / 3,
            gradient_clip=0.0,
            label_smoothing=0.1,
            drop_path=0.1,
            repeats=3,
            crop_area=0.08,
            flip=True,
            policy="randaugment",
            erasing=0.25,
            mixup=0.8,
            cutmix=1.0,
        ),
        # Yuan et al. 2021, "T2T-ViT", for T2T-ViT-14 on ImageNet; the code has ten more epochs at
        # the last rate behind its 300. T2T-ViT-7 and -12 take batches of 1,024, twice the rate and
        # a decay of 0.03, -19 and -24 a decay of 0.065.
        Recipe(
            name="t2t_vit",
            epochs=310,
            batch_size=512,
            learning_rate=5e-4,
            final_learning_rate=1e-5,
            warmup_epochs=5.0,
            gradient_clip=0.0,
            label_smoothing=0.1,
            drop_path=0.1,
            crop_area=0.08,
            flip=True,
            policy="randaugment",
            erasing=0.25,
            mixup=0.8,
            cutmix=1.0,
        ),
        # Weights that have learned elsewhere, a few passes over photographs: they move slowly,
        # their new head fast.
        Recipe(
            name="fine_tuning",
            epochs=4,
            batch_size=32,
            learning_rate=5e-5,
            head_learning_rate=1e-3,
            warmup_epochs=0.25,
            crop_area=0.5,
            flip=True,
            image_size=112,
        ),
        # Dosovitskiy et al. 2021, section 4.1 and appendix B.1.1: SGD with momentum, no weight
        # decay, images at a higher resolution than before. They choose the rate of four
        # (0.001, 0.003, 0.01, 0.03) on a part of the training data, and count steps, not epochs:
        # 10,000 of 512 images on CIFAR-10, 500 on Flowers-102.
        Recipe(
            name="vit_fine_tuning",
            optimizer="sgd",
            epochs=100,
            batch_size=512,
            learning_rate=1e-2,
            weight_decay=0.0,
            warmup_epochs=5.0,
            crop_area=0.5,
            flip=True,
            image_size=384,
        ),
    )
}


def get_recipe(name: str, /, **changes) -> Recipe:
    """A recipe by name, with some of its numbers changed.

    Raises:
        UnknownNameError: no such recipe, or no such number in it.
        ValueError: a number of another kind than the recipe's, or one that no run can have.

    Example:
        >>> from vitbook.runs import get_recipe
        >>> recipe = get_recipe("digits", epochs=5, mixup=0.2)
        >>> recipe.epochs, recipe.batch_size, recipe.mixes
        (5, 64, True)
    """
    if name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    recipe = vars(RECIPES[name])
    for field, value in changes.items():
        if field == "name" or field not in recipe:
            raise UnknownNameError("recipe field", field, recipe.keys() - {"name"})
        if type(value) in (int, float) and abs(value) >= 2**53:
            raise ValueError(f"recipe field {field} is too large: expected less than 2^53")
    return Recipe(**typed(recipe | changes, RecipeFields))
