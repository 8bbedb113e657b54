"""Recipes are data."""

from dataclasses import dataclass, fields
from numbers import Real

from vitbook.errors import UnknownNameError, check_temperature, is_whole_number
from vitbook.layers.heads import POOLS
from vitbook.layers.initialization import INITIALIZATIONS

OPTIMIZERS = ("adamw", "sgd")
DISTILLATIONS = ("soft", "hard")
HOTTEST = 1e6  # from 1e7 on the rounding of the shares is as large as their difference
TWO_VIEWS = ("simclr", "byol")
OBJECTIVES = ("masked_patches", *TWO_VIEWS, "next_pixels", "mae")
DECAYS = ("cosine", "linear")
POLICIES = ("autoaugment_cifar10", "autoaugment_imagenet", "randaugment", "trivialaugment")


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
        weight_decay: of AdamW apart from the gradient, of SGD as a part of it.
        optimizer: one of :data:`OPTIMIZERS`.
        momentum: of SGD.
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
        policy: one of :data:`POLICIES`, or None.
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
        shuffled_teacher: a null: each image gets the teacher's answer to another image of its
            label in the batch, so that the answers say of an image no more than its label does.
        objective: what is learned in the place of labels, by ``vitbook.studies.self_supervision``:
            "masked_patches", the colours of patches that are not shown; "simclr" or "byol", that
            two views show one image; "next_pixels", each pixel from those in front of it; "mae",
            the pixels of hidden patches from the visible quarter. Empty learns labels.
        fault: name of a mistake that is planted into the model before it learns; which there are
            is for who plants it to know. Empty is none.

    Raises:
        ValueError: a number that no run can have, or what is none.
    """

    name: str
    epochs: int
    batch_size: int
    learning_rate: float
    final_learning_rate: float = 0.0
    decay: str = "cosine"
    weight_decay: float = 0.05
    optimizer: str = "adamw"
    momentum: float = 0.9
    head_learning_rate: float = 0.0
    layer_decay: float = 1.0
    train_from: str = ""
    adapter_rank: int = 0
    weight_bits: int = 0
    pruned: float = 0.0
    initialization: str = ""
    image_size: int = 0
    pool: str = ""
    epoch_images: int = 0
    warmup_epochs: float = 0.0
    warmup_parts: str = ""
    gradient_clip: float = 1.0
    sharpness_radius: float = 0.0
    label_smoothing: float = 0.0
    dropout: float = 0.0
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
    distillation: str = ""
    temperature: float = 1.0
    distillation_share: float = 0.5
    shuffled_teacher: bool = False
    objective: str = ""
    fault: str = ""

    def __post_init__(self):
        self._check_kinds()
        for field in ("epochs", "batch_size", "learning_rate", "repeats", "policy_group"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{field} {getattr(self, field)}: expected more than 0")
        for field in (
            "final_learning_rate", "weight_decay", "head_learning_rate", "adapter_rank",
            "image_size", "epoch_images", "warmup_epochs", "gradient_clip", "sharpness_radius",
            "crop_padding", "shift", "rotation", "mixup", "cutmix",
        ):  # fmt: skip
            if not getattr(self, field) >= 0:
                raise ValueError(f"{field} {getattr(self, field)}: expected 0 or more")
        for field in (
            "label_smoothing", "zoom", "dropout", "drop_path", "ema", "momentum", "pruned",
        ):  # fmt: skip
            if not 0 <= getattr(self, field) < 1:
                raise ValueError(f"{field} {getattr(self, field)}: expected 0 up to, not with, 1")
        for field in ("erasing", "mix_probability"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"{field} {getattr(self, field)}: expected 0 to 1")
        for field in ("crop_area", "layer_decay"):
            if not 0 < getattr(self, field) <= 1:
                raise ValueError(f"{field} {getattr(self, field)}: expected more than 0, up to 1")
        if self.final_learning_rate > self.learning_rate:
            raise ValueError(
                f"final_learning_rate {self.final_learning_rate:g}: expected at most the "
                f"learning rate, {self.learning_rate:g}"
            )
        if self.warmup_parts and not self.warmup_epochs:
            raise ValueError(f"warmup_parts {self.warmup_parts!r} without warmup_epochs: give both")
        if self.weight_bits and not 2 <= self.weight_bits <= 8:
            raise ValueError(f"weight_bits {self.weight_bits}: expected 2 to 8, or 0")
        ways = {name: getattr(self, name) for name in ("adapter_rank", "weight_bits", "pruned")}
        if sum(map(bool, ways.values())) > 1:
            raise ValueError(f"{ways}: expected one of them, and 0 for the others")
        if self.optimizer not in OPTIMIZERS:
            raise UnknownNameError("optimizer", self.optimizer, OPTIMIZERS)
        if self.decay not in DECAYS:
            raise UnknownNameError("decay", self.decay, DECAYS)
        for field, known in (
            ("initialization", INITIALIZATIONS),
            ("pool", POOLS),
            ("distillation", DISTILLATIONS),
            ("objective", OBJECTIVES),
        ):
            if (name := getattr(self, field)) and name not in known:
                raise UnknownNameError(field, name, known)
        if self.policy is not None and self.policy not in POLICIES:
            raise UnknownNameError("policy", self.policy, POLICIES)
        self._check_distillation()
        self._check_objective()

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

    def _check_kinds(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            right, said = {
                int: (is_whole_number(value), "a whole number"),
                float: (isinstance(value, Real) and not isinstance(value, bool), "a number"),
                bool: (isinstance(value, bool), "True or False"),
                str: (isinstance(value, str), "a text"),
            }.get(field.type, (value is None or isinstance(value, str), "a name, or None"))
            if not right:
                raise ValueError(f"{field.name} {value!r}: expected {said}")

    def _check_distillation(self) -> None:
        check_temperature(self.temperature, HOTTEST)
        if not 0 < self.distillation_share <= 1:
            raise ValueError(
                f"distillation_share {self.distillation_share}: expected more than 0, up to 1"
            )
        # A number that changes nothing would make two runs of one.
        if self.temperature != 1 and self.distillation != "soft":
            raise ValueError(
                f"temperature {self.temperature:g} with distillation {self.distillation!r}: only "
                "'soft' has one; leave it at 1"
            )
        if not self.distillation and (self.distillation_share != 0.5 or self.shuffled_teacher):
            raise ValueError(
                "distillation_share or shuffled_teacher without distillation: set it to 'soft' or "
                "'hard', or leave them out"
            )
        if self.shuffled_teacher and (self.mixes or self.repeats > 1):
            raise ValueError(
                "shuffled_teacher with mixed or repeated images: a mixed image has no one label, "
                "and a repeated one is its own neighbour; set mixup and cutmix to 0, repeats to 1"
            )

    def _check_objective(self) -> None:
        if not self.objective:
            return
        without = dict(
            distillation="", label_smoothing=0, head_learning_rate=0, layer_decay=1, pool="",
            sharpness_radius=0,
        )  # fmt: skip
        changed = [name for name, usual in without.items() if getattr(self, name) != usual]
        if changed:
            raise ValueError(
                f"{' and '.join(changed)} with objective {self.objective!r}, which knows no labels "
                "and no head, and looks once a step: set "
                f"{', '.join(f'{name}={without[name]!r}' for name in changed)}"
            )
        if self.train_from.partition(".")[0] == "head":
            raise ValueError(
                f"train_from {self.train_from!r} with objective {self.objective!r}, which knows no "
                "head: nothing of the model would learn; name an earlier part"
            )
        if self.mixes and self.objective in TWO_VIEWS:
            raise ValueError(
                f"mixed images with objective {self.objective!r}: two views show one image; set "
                "mixup and cutmix to 0"
            )
        if self.repeats > 1 and self.objective == "simclr":
            raise ValueError(
                f"repeats {self.repeats} with objective 'simclr', which tells an image from the "
                "others of its batch: it would stand among them itself; set repeats to 1"
            )
