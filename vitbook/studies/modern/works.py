"""Who has published which parts, what each work changed, and how models were trained."""

from typing import NamedTuple

from vitbook.plots import Diagram
from vitbook.runs import get_recipe

LS, REG, ROPE = {"branch": "LayerScale"}, {"registers": "four"}, {"position": "RoPE"}
GATED = {"mlp": "SwiGLU"}


class Published(NamedTuple):
    """Parts of a model that are not those of 2020, and timm's names of models that have them."""

    swapped: dict[str, str]
    timm: tuple[str, ...] = ()


# A test reads these parts in timm's models.
PUBLISHED = {
    "ViT-B, 2020": Published({}, ("vit_base_patch16_224", "deit_base_patch16_224")),
    "DeiT III-B, 2022; DINOv2-B, 2023": Published(
        LS, ("deit3_base_patch16_224", "vit_base_patch14_dinov2")
    ),
    "SigLIP-B, 2023": Published(
        {"summary": "attention pool"}, ("vit_base_patch16_siglip_224",)
    ),
    "EVA-02-B, 2023": Published(
        GATED | {"position": "table and RoPE"}, ("eva02_base_patch14_224",)
    ),
    "DINOv2-B with registers, 2024": Published(LS | REG, ("vit_base_patch14_reg4_dinov2",)),
    "DINOv2-g with registers, 2024": Published(
        LS | REG | GATED, ("vit_giant_patch14_reg4_dinov2",)
    ),
    "RoPE-ViT-B, 2024": Published(LS | ROPE, ("vit_base_patch16_rope_224",)),
    "AIMv2-L, 2024": Published(
        {"norm": "RMSNorm", "summary": "mean"} | GATED, ("aimv2_large_patch14_224",)
    ),
    "DINOv3-B, 2025": Published(LS | REG | ROPE, ("vit_base_patch16_dinov3",)),
    "DINOv3-7B, 2025": Published(LS | REG | ROPE | GATED, ("vit_7b_patch16_dinov3",)),
    "all together, this chapter": Published(
        {"norm": "RMSNorm", "attention": "QK-norm", "summary": "mean"} | LS | REG | ROPE | GATED
    ),
}  # fmt: skip


def published() -> dict[str, dict[str, str]]:
    """Name and year of a model -> its parts that are not those of 2020, as the live figure asks."""
    return {name: each.swapped for name, each in PUBLISHED.items()}


def family() -> list[Diagram]:
    """The family from 2020 to 2025, line by line: the main swaps of each work."""
    lines = {
        "The plain body stays": [
            "ViT, 2020\npatches, table, class token, Pre-LN, MLP, softmax",
            "DeiT, 2021\nas it was; a recipe and a teacher",
            "DeiT III, 2022\n+ LayerScale; another recipe",
            "ViT-22B, 2023\n+ QK-norm; attention and MLP side by side",
            "FlexiViT, NaViT, 2023\nany patch size; any shape",
        ],
        "The labels go": [
            "DINO, 2021\nas it was; a slow copy teaches",
            "BEiT, MAE, 2021\nmasked patches; BEiT: LayerScale, relative positions",
            "DINOv2, 2023\n+ LayerScale; giant: SwiGLU",
            "registers, 2024\n+ four tokens that no head reads",
            "DINOv3, 2025\ntable → RoPE; 7B: SwiGLU",
        ],
        "Words teach": [
            "CLIP, 2021\n+ a norm behind the patches",
            "SigLIP, 2023\nclass token → attention pool",
            "SigLIP 2, 2025\nalso at any shape (NaFlex)",
        ],
        "Patches or attention are swapped": [
            "T2T-ViT, 2021\npatches that overlap",
            "CaiT, 2021\n+ LayerScale; a class token for the last blocks alone",
            "EVA-02, 2023\n+ RoPE, SwiGLU",
            "SAM, 2023\nwindows, relative positions; four blocks see all",
        ],
        "Pyramids": [
            "PVT, Swin, 2021\nkeys shrunk; or windows that shift, relative positions",
            "Swin v2, 2022\nnorm behind each branch, cosine attention",
            "ConvNeXt, 2022\nCNNs answer Swin: a ResNet by a ViT's recipe",
            "Hiera, 2023\na pyramid without the extras",
        ],
    }  # fmt: skip
    return [Diagram(works, name) for name, works in lines.items()]


def recipes() -> list[dict[str, str]]:
    """How ViT-B of the first paper, of DeiT and DeiT III, and DINOv3's 7B were trained.

    ViT: Dosovitskiy et al. 2021, table 3 and appendix B.1, the row of ImageNet; what it leaves out
    is "not told". DeiT: this book's recipe of the same name. DeiT III: the command of the authors'
    repository for ImageNet-1k. DINOv3: the configuration of its first stage; its rate, 0.00005,
    times 4 sqrt(batch / 1024), as the code scales it: times 8, since 256 GPUs take 16 images each.
    """
    deit, labels = get_recipe("deit"), "ImageNet-1k, labels"
    works = ("ViT", "DeiT", "DeiT III", "DINOv3, 7B")
    lines = {
        "trained on": (labels, labels, labels, "photographs, no labels"),
        "loss": ("not told", "softmax, smoothed", "sigmoid for each class",
                 "a slow copy's answers"),
        "length": ("300 epochs", f"{deit.epochs * deit.repeats} epochs", "800 epochs",
                   "1,000,000 steps"),
        "batch": ("4,096", f"{deit.batch_size:,}", "2,048", "4,096"),
        "optimiser": ("Adam, clipped", "AdamW", "LAMB", "AdamW"),
        "learning rate": ("0.003, cosine", f"{deit.learning_rate:g}, cosine", "0.003, cosine",
                          "0.0004, constant"),
        "weight decay": ("0.3", f"{deit.weight_decay:g}", "0.05", "0.04"),
        "images changed": ("not told", f"RandAugment, mixup {deit.mixup:g}, CutMix, erasing",
                           "3-Augment, mixup 0.8, CutMix", "two large, eight small crops"),
        "dropped": ("0.1 of activations", f"{deit.drop_path:g} of branches",
                    "0.2 of branches", "0.4 of branches"),
    }  # fmt: skip
    return [{"": line} | dict(zip(works, told, strict=True)) for line, told in lines.items()]
