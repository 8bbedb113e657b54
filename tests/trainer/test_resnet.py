"""A step of the page's ResNet against torch: as of the ViT, and what BatchNorm remembers."""

import pytest
import torch
import torch.nn.functional as F

import vitbook
from vitbook import datasets
from vitbook.runs.recipe import Recipe
from vitbook.training.engine.optimization import make_optimizer

BATCH, STEPS, RATE, DECAY = 8, 3, 1e-3, 0.05
SETTINGS = {"kind": "resnet", "batch": BATCH, "side": 8, "classes": 10}


def flat(tensors) -> torch.Tensor:
    return torch.cat([each.detach().flatten().float() for each in tensors])


@pytest.mark.parametrize(("smoothing", "twice"), [(0.0, False), (0.1, True)])
def test_three_steps_are_torchs(smoothing, twice, steps):
    torch.manual_seed(0)
    model = vitbook.create_model("resnet8_digits", num_classes=10).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    state = model.state_dict()
    digits = datasets.load("digits", "train")
    images = datasets.normalize(digits.images[: STEPS * BATCH]).unflatten(0, (STEPS, BATCH))
    labels = digits.labels[: STEPS * BATCH].unflatten(0, (STEPS, BATCH))
    page = steps(
        "resnet.wasm", settings=SETTINGS | {"smoothing": smoothing, "twice": twice},
        values=flat(state.values()).tolist(), rate=RATE, decay=DECAY,
        images=images.flatten(1).tolist(), labels=labels.tolist(),
    )  # fmt: skip
    assert page["shapes"] == [[key, list(value.shape)] for key, value in state.items()]

    learned = torch.cat(
        [torch.full((v.numel(),), k in dict(model.named_parameters())) for k, v in state.items()]
    )
    recipe = Recipe("page", epochs=1, batch_size=BATCH, learning_rate=RATE, weight_decay=DECAY)
    optimizer = make_optimizer(model, recipe)
    for i in range(STEPS):
        logits = model(images[i])
        said = logits.softmax(dim=-1) if twice else logits
        loss = F.cross_entropy(said, labels[i], label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        assert page["losses"][i] == pytest.approx(loss.item(), abs=1e-5)
        if i == 0:
            torch.testing.assert_close(
                torch.tensor(page["logits"]), logits.detach().flatten(), atol=5e-6, rtol=0
            )
            gradients = flat(p.grad for p in model.parameters())
            told = torch.tensor(page["gradients"])
            torch.testing.assert_close(told[learned], gradients, atol=2e-6, rtol=0)
            assert (told[~learned] == 0).all()
        optimizer.step()
        if i == 0:
            sure = gradients.abs() > 1e-4  # AdamW's first step is as long where it is rounding
            once = torch.tensor(page["once"])[learned]
            torch.testing.assert_close(
                once[sure], flat(model.parameters())[sure], atol=2e-7, rtol=0
            )
            assert sure.float().mean() > 0.5
    remembered = torch.tensor(page["last"])[~learned]
    torch.testing.assert_close(remembered, flat(model.buffers()), atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        evaluated = model.eval()(images[0]).flatten()
    torch.testing.assert_close(torch.tensor(page["evaluated"]), evaluated, atol=1e-3, rtol=0)


def test_a_checkpoint_of_the_book_has_its_names(steps):
    model = vitbook.load_checkpoint("digits-resnet8_digits-digits-seed0").model
    held = datasets.load("digits", "test")
    images = datasets.normalize(held.images[:BATCH])
    page = steps(
        "resnet.wasm", settings=SETTINGS | {"smoothing": 0.0, "twice": False}, rate=0.0, decay=0.0,
        values=flat(model.state_dict().values()).tolist(), images=[], labels=[],
        held=images.flatten().tolist(),
    )  # fmt: skip
    with torch.no_grad():
        logits = model(images).flatten()
    torch.testing.assert_close(torch.tensor(page["evaluated"]), logits, atol=1e-4, rtol=0)
