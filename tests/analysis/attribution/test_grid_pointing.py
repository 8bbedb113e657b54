"""Collages read by models whose every logit is known."""

import pytest
import timm
import torch
from torch import nn
from torchvision.models import VisionTransformer

import vitbook
from vitbook import datasets
from vitbook.analysis import (
    COLLAGE_EXPLANATIONS,
    collage_rows,
    energy_pointing,
    explain_collages,
    occlusion_drops,
    on_grid,
    patch_occlusion,
    pointing,
    quarter_drops,
)
from vitbook.layers import ClassAndMeanHead

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
    with pytest.raises(ValueError, match="NaN"):
        energy_pointing(maps * torch.nan, mask)


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


def test_bad_questions_are_one_sentence(explained):
    vit, images, labels, _, _ = explained
    with pytest.raises(KeyError, match="unknown explanation 'Grad-CAMs': did you mean Grad-CAM"):
        explain_collages(vit, images, labels, ["Grad-CAMs"])
    for name in ("Grad-CAM", "rollout", "random"):  # also where no class is heard
        with pytest.raises(ValueError, match="from 3 to 7: expected 0 to 4"):
            explain_collages(vit, images, labels + 3, [name])
    with pytest.raises(ValueError, match=r"as the text 'CAM', expected a list: pass \['CAM'\]"):
        explain_collages(vit, images, labels, "CAM")
    with pytest.raises(ValueError, match="no names came: expected some of occlusion, "):
        explain_collages(vit, images, labels, [])
    with pytest.raises(ValueError, match="no images came"):
        explain_collages(vit, images[:0], labels[:0], ["edges"])
    with pytest.raises(ValueError, match=r"labels of shape \(2, 0\) for 2 collages"):
        quarter_drops(vit, images, labels[:, :0])
    with pytest.raises(ValueError, match="mine: maps hold NaN"):
        collage_rows({"mine": torch.full((2, 4, 4, 4), torch.nan)}, MASKS)
    for shape in ((0, 4, 4, 4), (2, 4, 0, 4)):
        with pytest.raises(ValueError, match=r"mine: maps of shape .* expected \(collages, 4 q"):
            collage_rows({"mine": torch.ones(shape)}, MASKS)
    with pytest.raises(ValueError, match="no explanation came"):
        collage_rows({}, MASKS)


@pytest.mark.parametrize(
    ("last", "says"), [(-1, "from -1 to 2: expected 0 to 9"), (10, "from 0 to 10: expected 0 to 9")]
)
def test_no_answer_for_a_class_that_is_not_there(last, says):
    model, images = vitbook.create_model("vit_micro_patch2_8"), torch.rand(2, 1, 8, 8)
    labels = torch.tensor([[0, 1, 2, last]] * 2)
    with pytest.raises(ValueError, match=says):
        quarter_drops(model, images, labels)
    with pytest.raises(ValueError, match=says):
        explain_collages(model, images, labels, ["occlusion"])


def test_energy_is_a_share_however_large_the_numbers():
    masks = torch.zeros(1, 64, 64, dtype=torch.bool)
    masks[:, :16] = True
    large = torch.full((1, 64, 64), 100.0).half()  # sums to more than a half can hold
    assert energy_pointing(large, masks).tolist() == [0.25]
    with pytest.raises(ValueError, match="infinity"):
        energy_pointing(large * 1e4, masks)


def test_what_is_of_another_kind_is_refused(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.analysis import energy_pointing, occlusion_drops, pointing, quarter_drops
        model, images = vitbook.create_model("vit_micro_patch2_8"), torch.rand(2, 1, 8, 8)
        labels = torch.tensor([[0, 1, 2, 3]] * 2)
        with pytest.raises(ValueError, match=r"shape \\(1, 4\\) for 2 collages"):
            quarter_drops(model, images, labels[:1])
        for other in (labels.float(), labels.byte(), labels > 1):
            with pytest.raises(TypeError, match="expected whole numbers, labels.long"):
                quarter_drops(model, images, other)
        with pytest.raises(ValueError, match="no images"):
            occlusion_drops(model, images[:0], (2, 2))
        with pytest.raises(TypeError, match="images are uint8"):
            occlusion_drops(model, images.byte(), (2, 2))
        for score in (pointing, energy_pointing):
            with pytest.raises(TypeError, match="masks are uint8"):
                score(torch.rand(2, 2, 2), torch.full((2, 8, 8), 255, dtype=torch.uint8))
            masks = torch.ones(2, 8, 8, dtype=torch.bool)
            with pytest.raises(TypeError, match="masks are list"):
                score(torch.rand(2, 2, 2), masks.tolist())
            with pytest.raises(TypeError, match="maps came as list"):
                score([[[1.0]]] * 2, masks)
            with pytest.raises(ValueError, match="masks of shape .8, 8.: expected .images, height"):
                score(torch.rand(2, 2, 2), masks[0])
            with pytest.raises(ValueError, match="maps of shape .2, 2, 2, 2.: expected .images"):
                score(torch.rand(2, 2, 2, 2), masks)
        from vitbook.analysis import collage_rows, relevance
        for shape in ((2, 4, 4), (2, 3, 4, 4)):
            with pytest.raises(ValueError, match="mine: maps of shape .* 4 quarters, rows"):
                collage_rows({"mine": torch.ones(shape)}, torch.ones(4, 8, 8, dtype=torch.bool))
        with pytest.raises(TypeError, match="labels came as list"):
            quarter_drops(model, images, labels.tolist())
        for targets in ([0, 1], torch.tensor([0.0, 1.0]), torch.tensor([[0], [1]]), 3):
            with pytest.raises(TypeError, match="targets are .* expected whole numbers in a row"):
                relevance(model, images, targets)
        """
    )


def test_a_model_without_attention_is_asked_what_it_can_answer():
    model = vitbook.create_model("resnet8_digits")
    images, labels = torch.rand(2, 1, 8, 8), torch.tensor([[0, 1, 2, 3]] * 2)
    told = []
    with pytest.raises(ValueError, match="ResNet has no attention for 'relevance': expected a Vis"):
        explain_collages(model, images, labels, progress=told.append)
    assert told == []  # before any of them runs
    names = ("integrated gradients", "edges", "centre", "random")
    assert list(explain_collages(model, images, labels, names)) == list(names)
    with pytest.raises(ValueError, match="a grid of 2x2 patches: expected multiples of 4"):
        explain_collages(model, images, labels, ["occlusion"])
    torchvisions = VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5)
    for name in ("CAM", "Grad-CAM, tool's layer"):
        with pytest.raises(ValueError, match="has no norm1?: expected a Vision Transformer of our"):
            explain_collages(torchvisions, torch.rand(2, 3, 32, 32), labels, [name])


def test_where_nothing_is_there_is_nothing_to_point_at():
    maps, masks = torch.rand(2, 2, 2), torch.ones(2, 8, 8, dtype=torch.bool)
    for score in (pointing, energy_pointing):
        with pytest.raises(ValueError, match="a mask has no pixel"):
            score(maps, masks & torch.tensor([True, False])[:, None, None])
        for wrong in (maps[:0], maps[:, :0]):
            with pytest.raises(ValueError, match=r"maps of shape .* expected \(images, rows, colu"):
                score(wrong, masks[: len(wrong)])
    with pytest.raises(ValueError, match="a tolerance of nan px: expected 0 or more"):
        pointing(maps, masks, torch.nan)
