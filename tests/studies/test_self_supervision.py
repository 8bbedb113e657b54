import pytest
import torch

from vitbook import datasets, runs
from vitbook.datasets import normalize
from vitbook.models.papers.igpt import IGPT
from vitbook.models.papers.vit import vit
from vitbook.runs import Recipe
from vitbook.studies.self_supervision import class_colors, continue_pixels, load_learner
from vitbook.training import NextPixels, load_checkpoint, run
from vitbook.training.objectives.next_pixels import grey_levels
from vitbook.training.objectives.patch_colors import color_classes
from vitbook.training.objectives.questions import LEARNERS, score


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def random_learner(**sizes):
    """Weights that are no zeros: every pixel weighs in what comes behind it."""
    torch.manual_seed(0)
    body = dict(channels=1, width=16, depth=2, num_heads=2, mlp_width=16, num_classes=3)
    learner = NextPixels(vit(**body | IGPT | sizes))
    for weight in learner.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    return learner.eval()


def test_images_are_gone_on_with_behind_their_first_rows():
    learner, images = random_learner(image_size=8), datasets.load("digits", "test").images[:3]
    made = continue_pixels(learner, images, 5, chance())
    assert torch.equal(made[:, :, :5], images[:, :, :5]) and not torch.equal(made, images)
    hidden = images.clone()
    hidden[:, :, 5:] = 77  # what stands below is not looked at
    assert torch.equal(continue_pixels(learner, hidden, 5, chance()), made)
    assert not torch.equal(continue_pixels(learner, images, 5, chance(1)), made)
    assert torch.equal(continue_pixels(learner, images, 8, chance()), images)


@torch.no_grad()
def test_pixels_are_drawn_by_their_probabilities():
    learner = random_learner(image_size=(1, 2))
    nothing = torch.zeros(20_000, 1, 1, 2, dtype=torch.uint8)
    drawn = grey_levels(continue_pixels(learner, nothing, 0, chance()))
    first = learner(normalize(nothing[:1])).logits[0, 0].softmax(dim=-1)
    counts = drawn[:, 0, 0, 0].bincount(minlength=17)
    deviation = (20_000 * first * (1 - first)).sqrt()
    assert ((counts - 20_000 * first).abs() < 4.5 * deviation).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_middle_of_a_class_is_in_it(channels):
    classes = torch.arange(8**channels)
    colors = class_colors(classes, channels)
    assert torch.equal(color_classes(colors.float()), classes)
    assert (colors.long() % 32 == 16).all()


@pytest.mark.parametrize("objective", LEARNERS)
def test_what_learned_beside_the_body_comes_back(objective, tmp_path):
    name = "igpt_micro_patch1_8" if objective == "next_pixels" else "vit_micro_patch2_8"
    recipe = Recipe("short", 1, 32, 2e-3, objective=objective, epoch_images=64)
    row = run(name, "digits", recipe, folder=tmp_path, device="cpu", progress=False)
    path = tmp_path / f"{row.name}.safetensors"
    learner, body = load_learner(path), load_checkpoint(path).model
    assert type(learner) is LEARNERS[objective] and not learner.training
    for part, weight in body.state_dict().items():
        assert torch.equal(weight, learner.model.state_dict()[part])
    scored = score(learner, datasets.load("digits", "test"))
    assert scored.pop("accuracy") == row.accuracy
    assert {key: row.curve[-1][key] for key in scored} == pytest.approx(scored, rel=1e-5)
    if objective == "byol":  # the slow copy begins as the body again
        images = torch.rand(2, 1, 8, 8)
        assert torch.equal(learner.slow_model(images), body(images))


SHIPPED = {
    row.name: row.accuracy
    for row in runs.read(unlabeled=True)
    if row.recipe.get("objective") and row.dataset == "digits"
    if (runs.data_folder() / "checkpoints" / f"{row.name}.safetensors").is_file()
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_learner_does_what_the_ledger_says(name):
    found = score(load_learner(name), datasets.load("digits", "test"))["accuracy"]
    assert found == pytest.approx(SHIPPED[name], abs=0.003)  # stored in half precision
