"""Collages read by models whose every logit is known."""

import pytest
import timm
import torch
from torch import nn
from torchvision.models import VisionTransformer

import vitbook
from vitbook import datasets
from vitbook.analysis import on_grid, patch_occlusion
from vitbook.layers import ClassAndMeanHead
from vitbook.studies.interventions.questions import (
    COLLAGE_EXPLANATIONS,
    collage_rows,
    energy_pointing,
    explain_collages,
    occlusion_drops,
    quarter_drops,
)

BLIND = ("rollout", "last attention", "edges", "centre")


def roughness(images):
    """Variance inside of each quarter."""
    first = on_grid(images[:, 0], (2, 2)) / 16
    return (on_grid(images[:, 0] ** 2, (2, 2)) / 16 - first**2).flatten(1)


class Quarters(nn.Module):
    """Class c is as sure as quarter c is rough, less half of what quarter 3 - c is."""

    grid_size, num_prefix_tokens = (4, 4), 0

    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, images):
        rough = roughness(images)
        return self.one * (rough - rough.flip(1) / 2)


# Of each quarter, row by row.
MASKS = torch.eye(4).view(4, 2, 2).repeat_interleave(4, 1).repeat_interleave(4, 2).bool()


def collages(number=3):
    generator = torch.Generator().manual_seed(0)
    images = 1 + torch.rand(number, 1, 8, 8, generator=generator)
    labels = torch.stack([torch.randperm(4, generator=generator) for _ in range(number)])
    return images, labels, MASKS


def test_a_drop_is_the_part_of_the_logit_that_goes():
    images, _, _ = collages()
    drops = occlusion_drops(Quarters(), images, (2, 2), baseline=0.0)
    rough = roughness(images)
    assert torch.allclose(drops.flatten(2).diagonal(dim1=1, dim2=2), rough, atol=1e-6)
    assert torch.allclose(drops.flatten(2)[:, 0, 3], -rough[:, 3] / 2, atol=1e-6)
    assert drops.flatten(2)[:, 0, 1:3].abs().max() < 1e-6


def test_one_sweep_is_patch_occlusion_of_each_class():
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    images = datasets.normalize(datasets.load("digits", "test").images[:2])
    drops = occlusion_drops(model, images, (4, 4), baseline="mean", batch_size=5)
    for label in (0, 7):
        alone = patch_occlusion(model, images, torch.tensor([label] * 2), baseline="mean")
        assert torch.allclose(drops[:, label], alone, atol=1e-5)


def test_a_grid_need_not_be_square():
    images = torch.rand(1, 1, 8, 12)

    class Third(Quarters):
        def forward(self, images):
            part = images[:, 0, 4:, 8:].mean((1, 2))  # the last of 2 x 3 cells
            return torch.stack([part, 0 * part], dim=1)

    drops = occlusion_drops(Third(), images, (2, 3), baseline=0.0)[0, 0]
    assert drops[1, 2] > 0.2 and drops.flatten()[:-1].abs().max() == 0


def test_the_quarter_that_is_asked_about_is_on_the_diagonal():
    images, _, masks = collages()
    labels = torch.arange(4).expand(3, 4)  # quarter c shows class c, as the model reads it
    drops = quarter_drops(Quarters(), images, labels)
    assert torch.equal(drops.argmax(2), labels)
    turned = quarter_drops(Quarters(), images, labels.flip(1))
    assert torch.equal(turned.argmax(2), labels.flip(1))
    best = nn.functional.one_hot(drops.argmax(2), 4).float().unflatten(2, (2, 2))
    (row,) = collage_rows({"best": best}, masks)
    assert row["pointing"] == row["energy"] == [1, 1, 1]


def test_energy_counts_what_speaks_for_the_class_and_halves_of_cells():
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[0, :, :1] = True  # half of each left cell
    maps = torch.tensor([[[2.0, 1.0], [-5.0, 1.0]]])
    assert energy_pointing(maps, mask).item() == pytest.approx(0.25)
    assert energy_pointing(-maps.abs(), mask).item() == 0.25  # nothing speaks: the mask's share


def test_who_hears_no_class_has_a_quarter_whatever_it_draws():
    _, _, masks = collages()
    maps = torch.rand(7, 1, 4, 4).expand(7, 4, 4, 4)
    (row,) = collage_rows({"blind": maps}, masks)
    assert row["pointing"] == row["energy"] == [0.25, 0.25, 0.25]


@pytest.fixture(scope="module")
def explained():
    torch.manual_seed(0)
    vit = vitbook.create_model("vit_micro_patch2_8", num_classes=5)
    vit.head = ClassAndMeanHead(64, 5)
    images, labels = torch.randn(2, 1, 8, 8), torch.tensor([[0, 1, 2, 3], [4, 3, 1, 0]])
    told = []
    maps = explain_collages(vit.eval(), images, labels, progress=told.append)
    return vit, images, labels, maps, told


def test_every_explanation_gives_a_map_for_each_question(explained):
    _, _, _, maps, told = explained
    assert list(maps) == list(COLLAGE_EXPLANATIONS) == told
    for name, each in maps.items():
        assert each.shape[:2] == (2, 4) and each.isfinite().all(), name
        same = torch.equal(each[:, 0], each[:, 1])
        assert same == (name in BLIND), name


def test_four_questions_at_once_are_four_questions(explained):
    vit, images, labels, maps, _ = explained
    names = [name for name in COLLAGE_EXPLANATIONS if name != "random"]
    for name in names:
        alone = explain_collages(vit, images[1:], labels[1:, 2:3], [name])[name]
        assert torch.allclose(alone[0, 0], maps[name][1, 2], atol=1e-5), name


def test_a_model_of_timm_whose_head_reads_the_class_token():
    vit = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=5).eval()
    images, labels = torch.randn(1, 3, 64, 64), torch.tensor([[0, 1, 2, 3]])
    names = ("occlusion", "relevance", "Grad-CAM, tool's layer", "rollout", "edges", "random")
    for name, maps in explain_collages(vit, images, labels, names).items():
        assert maps.shape == (1, 4, *((2, 2) if name == "occlusion" else (4, 4)))
    with pytest.raises(ValueError, match="no patch reaches the logits"):
        explain_collages(vit, images, labels, ["CAM"])


def test_energy_is_a_share_however_large_the_numbers():
    masks = torch.zeros(1, 64, 64, dtype=torch.bool)
    masks[:, :16] = True
    large = torch.full((1, 64, 64), 100.0).half()  # sums to more than a half can hold
    assert energy_pointing(large, masks).tolist() == [0.25]


def test_what_cannot_be_asked_of_a_model():
    labels = torch.tensor([[0, 1, 2, 3]] * 2)
    with pytest.raises(ValueError, match="a grid of 2x2 patches: expected multiples of 4"):
        explain_collages(
            vitbook.create_model("resnet8_digits"), torch.rand(2, 1, 8, 8), labels, ["occlusion"]
        )
    torchvisions = VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5)
    for name in ("CAM", "Grad-CAM, tool's layer"):
        with pytest.raises(ValueError, match="has no norm1?: expected a Vision Transformer of our"):
            explain_collages(torchvisions, torch.rand(2, 3, 32, 32), labels, [name])
