"""Recipes are data."""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, TypedDict

from msgspec import Meta

from vitbook.errors import UnknownNameError
from vitbook.layers.heads import POOLS
from vitbook.layers.initialization import INITIALIZATIONS
from vitbook.typed import typed

OPTIMIZERS = ("adamw", "sgd", "muon")
DISTILLATIONS = ("soft", "hard")
HOTTEST = 10**6  # from 1e7 on the rounding of the shares is as large as their difference
TWO_VIEWS = ("simclr", "byol", "dino")
_HELD = ("free", "stopped", "fixed", "slow", "centered", "contrast")
TOKEN_LABELS = tuple(f"token_{held}" for held in _HELD)
OBJECTIVES = ("masked_patches", *TWO_VIEWS, "next_pixels", "mae", *TOKEN_LABELS, "ijepa")
DECAYS = ("cosine", "linear")
POLICIES = ("autoaugment_cifar10", "autoaugment_imagenet", "randaugment", "trivialaugment")
NAMES = {
    "optimizer": OPTIMIZERS,
    "decay": DECAYS,
    "initialization": INITIALIZATIONS,
    "pool": POOLS,
    "policy": POLICIES,
    "distillation": DISTILLATIONS,
    "objective": OBJECTIVES,
}

Count = Annotated[int, Meta(ge=1)]
CountOrNone = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
ShareBelowAll = Annotated[float, Meta(ge=0, lt=1)]
ShareAboveNothing = Annotated[float, Meta(gt=0, le=1)]


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run but the model, the data and the seed.

    The learning rate rises in a line and falls along a cosine, or in a line too. Weight decay acts
    on matrices and convolution kernels; biases, norms, tables of positions and prefix tokens do not
    decay.

    Attributes:
        epochs: each shows every image ``repeats`` times; a last short batch is left out.
        epoch_images: an epoch shows so many instead, pass after pass without a break, so that
            runs on small and large data sets take the same steps; 0 keeps it a whole pass.
        batch_size: images a step, over all processes.
        learning_rate: at its peak.
        final_learning_rate: at the end.
        decay: the way there from the peak, one of :data:`DECAYS`.
        weight_decay: of AdamW and Muon apart from the gradient, of SGD as a part of it.
        optimizer: one of :data:`OPTIMIZERS`; "muon" is for the matrices of the blocks, AdamW for
            the rest.
        momentum: of SGD, and of Muon, whose authors have 0.95.
        head_learning_rate: of the head, at its peak; 0 gives it that of the rest.
        layer_decay: each block learns at so much of the rate of the block behind it, the tokenizer
            slowest (Bao et al. 2022, "BEiT", from Clark et al. 2020); 1 is one rate for all.
        train_from: name of the first part that learns, such as "encoder.blocks.8" or "head"; what
            stands before it keeps its weights. Empty trains all.
        adapter_rank: of low-rank adapters (Hu et al. 2022, "LoRA") beside the linear layers of the
            encoder, which themselves keep their weights; they are merged in the end. 0 is none.
        weight_bits: of the encoder's linear layers while they learn (quantization-aware training);
            they are left rounded, those that do not learn too. 2 to 8; 0 rounds nothing.
        pruned: share of the same weights, the smallest of all layers, that is set to zero before
            the first step and stays zero.
        initialization: of the linear layers of a model that starts fresh: one of
            :data:`~vitbook.layers.initialization.INITIALIZATIONS`; empty as the model has it.
        image_size: in pixels, of the images and of the model; 0 is what the model is named for.
        pool: what the head reads: "class", "mean" or "class_and_mean"; empty as the model has it.
        warmup_epochs: epochs until the peak.
        warmup_parts: names of the parts that warm up, with commas between, such as
            "encoder.blocks.2,encoder.blocks.3"; all others learn at the peak from the first step
            to the end of the warm-up. Empty is the whole model.
        gradient_clip: largest norm of the gradient; 0 lets it be.
        sharpness_radius: of sharpness-aware minimisation (Foret et al. 2021, "SAM"), whose step
            takes the gradient so far uphill, on the same batch: two gradients a step. The clip is
            for the second; of the first only the direction counts. 0 is the plain step.
        label_smoothing: share of the target spread over all classes.
        dropout: share of the numbers behind each linear layer, but those to queries, keys and
            values, that is set to zero (Srivastava et al. 2014; ViT paper, appendix B.1).
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
        policy: one of :data:`POLICIES`, or None; an empty word, as TOML has no None, is none.
        policy_group: images that share one draw of the policy.
        erasing: probability that a rectangle of an image turns grey (Zhong et al. 2017).
        mixup: both parameters of the Beta of mixup (Zhang et al. 2018); 0 is no mixup.
        cutmix: the same of cutmix (Yun et al. 2019); with both, each batch takes one by chance.
        mix_probability: that a batch is mixed at all.
        distillation: how a teacher's answers are learned (Touvron et al. 2021, "DeiT", section 4):
            "soft", all its shares of the classes, or "hard", its most likely class; empty learns
            from the labels alone. See :func:`.distillation_loss`.
        temperature: by which both sides' logits are divided in soft distillation; the paper has 3.
        distillation_share: of the loss that is the teacher's, the paper's lambda; the rest is the
            labels'. The paper has 0.1 in soft distillation, and halves in hard.
        shuffled_teacher: a control: each image gets the teacher's answer to another image of its
            label in the batch, so that the answers say of an image no more than its label does.
        objective: what is learned in the place of labels, by ``vitbook.studies.self_supervision``
            and ``vitbook.studies.moving_labels``:
            "masked_patches", the colours of patches that are not shown; "simclr", "byol" or "dino",
            that two views show one image; "next_pixels", each pixel from those in front of it;
            "mae", the pixels of hidden patches from the visible quarter; "token_free" and the
            others of :data:`TOKEN_LABELS`, labels of hidden tokens that the model makes itself,
            by what holds them; "ijepa", a slow copy's tokens of hidden blocks. Empty learns labels.
        fault: name of a mistake that is planted into the model before it learns; which there are
            is for who plants it to know. Empty is none.

    Raises:
        ValueError: a number that no run can have, or what is none.
    """

    name: str
    epochs: Count
    batch_size: Count
    learning_rate: Positive
    final_learning_rate: NotNegative = 0.0
    decay: str = "cosine"
    weight_decay: NotNegative = 0.05
    optimizer: str = "adamw"
    momentum: ShareBelowAll = 0.9
    head_learning_rate: NotNegative = 0.0
    layer_decay: ShareAboveNothing = 1.0
    train_from: str = ""
    adapter_rank: CountOrNone = 0
    weight_bits: Annotated[int, Meta(ge=0, le=8)] = 0
    pruned: ShareBelowAll = 0.0
    initialization: str = ""
    image_size: CountOrNone = 0
    pool: str = ""
    epoch_images: CountOrNone = 0
    warmup_epochs: NotNegative = 0.0
    warmup_parts: str = ""
    gradient_clip: NotNegative = 1.0
    sharpness_radius: NotNegative = 0.0
    label_smoothing: ShareBelowAll = 0.0
    dropout: ShareBelowAll = 0.0
    drop_path: ShareBelowAll = 0.0
    drop_path_grows: bool = True
    ema: ShareBelowAll = 0.0
    repeats: Count = 1
    crop_padding: CountOrNone = 0
    flip: bool = False
    crop_area: ShareAboveNothing = 1.0
    shift: NotNegative = 0.0
    rotation: NotNegative = 0.0
    zoom: ShareBelowAll = 0.0
    policy: str | None = None
    policy_group: Count = 8
    erasing: Share = 0.0
    mixup: NotNegative = 0.0
    cutmix: NotNegative = 0.0
    mix_probability: Share = 1.0
    distillation: str = ""
    temperature: Annotated[float, Meta(gt=0, le=HOTTEST)] = 1.0
    distillation_share: ShareAboveNothing = 0.5
    shuffled_teacher: bool = False
    objective: str = ""
    fault: str = ""

    def __post_init__(self):
        typed(vars(self), RecipeFields)
        object.__setattr__(self, "policy", self.policy or None)
        for field, known in NAMES.items():
            name = getattr(self, field)
            if name not in (getattr(Recipe, field), *known):  # by default it may be none
                raise UnknownNameError(field, name, known)
        for sentence in (*self._contradictions(), *self._not_with_objective()):
            raise ValueError(sentence)

    @property
    def mixes(self) -> bool:
        return (self.mixup > 0 or self.cutmix > 0) and self.mix_probability > 0

    def check_taught(self, has_teacher: bool) -> None:
        """
        Raises:
            ValueError: distillation and a run without a teacher, or the reverse.
        """
        if self.distillation and not has_teacher:
            raise ValueError(
                f"recipe {self.name} has distillation {self.distillation!r} and the run no "
                "teacher: name one (vitbook train --teacher), or leave distillation empty"
            )
        if has_teacher and not self.distillation:
            raise ValueError(
                f"the run has a teacher and recipe {self.name} no distillation: set it to 'soft' "
                "or 'hard' (vitbook train --set distillation=hard), or leave the teacher out"
            )

    def _contradictions(self) -> Iterator[str]:
        if self.final_learning_rate > self.learning_rate:
            yield (
                f"final_learning_rate {self.final_learning_rate:g}: expected at most the "
                f"learning rate, {self.learning_rate:g}"
            )
        if self.warmup_parts and not self.warmup_epochs:
            yield f"warmup_parts {self.warmup_parts!r} without warmup_epochs: give both"
        if self.weight_bits == 1:
            yield "weight_bits 1: expected 2 to 8, or 0"
        ways = {name: getattr(self, name) for name in ("adapter_rank", "weight_bits", "pruned")}
        if sum(map(bool, ways.values())) > 1:
            yield f"{ways}: expected one of them, and 0 for the others"
        # A number that changes nothing would make two runs of one.
        if self.temperature != 1 and self.distillation != "soft":
            yield (
                f"temperature {self.temperature:g} with distillation {self.distillation!r}: only "
                "'soft' has one; leave it at 1"
            )
        if not self.distillation and (self.distillation_share != 0.5 or self.shuffled_teacher):
            yield (
                "distillation_share or shuffled_teacher without distillation: set it to 'soft' or "
                "'hard', or leave them out"
            )
        if self.shuffled_teacher and (self.mixes or self.repeats > 1):
            yield (
                "shuffled_teacher with mixed or repeated images: a mixed image has no one label, "
                "and a repeated one is its own neighbour; set mixup and cutmix to 0, repeats to 1"
            )

    def _not_with_objective(self) -> Iterator[str]:
        if not self.objective:
            return
        without = dict(
            distillation="", label_smoothing=0, head_learning_rate=0, layer_decay=1, pool="",
            sharpness_radius=0,
        )  # fmt: skip
        changed = [name for name, usual in without.items() if getattr(self, name) != usual]
        if changed:
            yield (
                f"{' and '.join(changed)} with objective {self.objective!r}, which knows no labels "
                "and no head, and looks once a step: set "
                f"{', '.join(f'{name}={without[name]!r}' for name in changed)}"
            )
        if self.train_from.partition(".")[0] == "head":
            yield (
                f"train_from {self.train_from!r} with objective {self.objective!r}, which knows no "
                "head: nothing of the model would learn; name an earlier part"
            )
        if self.mixes and self.objective in TWO_VIEWS:
            yield (
                f"mixed images with objective {self.objective!r}: two views show one image; set "
                "mixup and cutmix to 0"
            )
        if self.repeats > 1 and self.objective == "simclr":
            yield (
                f"repeats {self.repeats} with objective 'simclr', which tells an image from the "
                "others of its batch: it would stand among them itself; set repeats to 1"
            )


RecipeFields = TypedDict("RecipeFields", {each.name: each.type for each in fields(Recipe)})
# What a recipe has where it says nothing, and had before it could.
DEFAULTS = {each.name: each.default for each in fields(Recipe) if each.default is not MISSING}
