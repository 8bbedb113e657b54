import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from small_runs import micro

from vitbook.studies.moving_labels import LatentBlocks, blocks_on, choose_blocks
from vitbook.studies.moving_labels.blocks import block_size


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.integers(3, 16), st.integers(3, 16), st.integers(1, 5), st.integers(0, 10**6))
def test_blocks_are_rectangles_and_the_context_is_beside_them(rows, columns, batch, seed):
    blocks = choose_blocks(batch, (rows, columns), drawn(seed))
    assert blocks.targets.shape[:2] == (batch, 4) and blocks.context.shape[1] >= 1
    for image in range(batch):
        for block in blocks.targets[image]:
            down, right = (block // columns).unique(), (block % columns).unique()
            assert len(block.unique()) == len(down) * len(right) == len(block)
            assert down[-1] - down[0] == len(down) - 1 and right[-1] - right[0] == len(right) - 1
        shown = set(blocks.context[image].tolist())
        assert not shown & set(blocks.targets[image].flatten().tolist())
        assert len(shown) == blocks.context.shape[1] and max(shown) < rows * columns


def test_blocks_have_the_papers_sizes():
    sizes = {block_size((14, 14), drawn(seed)) for seed in range(300)}
    assert all(0.12 < h * w / 196 < 0.23 and 0.6 < h / w < 1.8 for h, w in sizes)
    assert len({h * w for h, w in sizes}) > 3


def test_the_context_is_as_long_as_the_shortest_and_left_out_by_chance():
    blocks = choose_blocks(64, (8, 8), drawn(3))
    free = [64 - len(each.unique()) for each in blocks.targets.flatten(1)]
    assert blocks.context.shape[1] == min(free) < max(free)
    last = [(blocks.context[i] == 63).any() for i in range(64)]
    assert any(last)  # not always the last ones are left out


def test_too_small_a_grid():
    with pytest.raises(ValueError, match="a grid of 2 x 4 patches: expected 3 x 3 at least"):
        choose_blocks(1, (2, 4), drawn())


@pytest.fixture
def learner():
    torch.manual_seed(0)
    return LatentBlocks(micro()).eval()


def test_what_is_hidden_reaches_no_prediction(learner):
    images, blocks = torch.randn(5, 1, 8, 8, generator=drawn()), choose_blocks(5, (4, 4), drawn())
    shown = torch.zeros(5, 16, dtype=torch.bool).scatter(1, blocks.context, True).view(5, 1, 4, 4)
    shown = shown.repeat_interleave(2, 2).repeat_interleave(2, 3)
    other = images.where(shown, torch.randn(5, 1, 8, 8, generator=drawn(1)))
    with torch.no_grad():
        both = [learner(given, blocks) for given in (images, other)]
    assert torch.allclose(both[0].predicted, both[1].predicted, atol=1e-6)
    assert not torch.allclose(both[0].targets, both[1].targets, atol=1e-2)


def test_each_block_of_each_image_by_itself(learner):
    images, blocks = torch.randn(3, 1, 8, 8, generator=drawn()), choose_blocks(3, (4, 4), drawn())
    with torch.no_grad():
        whole = learner(images, blocks)
        for i in range(3):
            tokens = learner.model.embed(images[i : i + 1])
            context = blocks.context[i]
            read = learner.model.encoder(
                torch.cat([tokens[:, :1], tokens[:, 1:][:, context]], dim=1)
            )
            entered = learner.enter(read)[0]
            entered[1:] += learner.places[context]
            said = F.layer_norm(learner.slow_model.features(images[i : i + 1])[0, 1:], (64,))
            for k, block in enumerate(blocks.targets[i]):
                asked = torch.stack([learner.mask + learner.places[place] for place in block])
                told = learner.predictor(torch.cat([entered, asked])[None])[0, -len(block) :]
                assert torch.allclose(learner.leave(told), whole.predicted[i, k], atol=1e-5)
                assert torch.allclose(said[block], whole.targets[i, k], atol=1e-5)
    loss = F.smooth_l1_loss(whole.predicted, whole.targets)
    assert whole.loss.item() == pytest.approx(loss.item())


def test_the_copy_follows_and_gets_no_gradient(learner):
    learner.train()
    before = learner.slow_model.prefix.clone()
    with torch.no_grad():
        learner.model.prefix += 1
    learner(torch.randn(4, 1, 8, 8), learner.choose(4, drawn())).loss.backward()
    assert torch.allclose(learner.slow_model.prefix, before + 0.01, atol=1e-6)
    assert all(weight.grad is None for weight in learner.slow_model.parameters())
    assert learner.model.tokenizer.projection.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "told"),
    [("sl_vit_micro_patch2_8", "blocks of hidden tokens of a model with"),
     ("linformer_vit_micro_patch2_8", "blocks of hidden tokens of an encoder that does not take 9"),
     ("vit_micro_patch4_8", "a grid of 2 x 2 patches: expected 3 x 3")],
)  # fmt: skip
def test_what_cannot_learn_them_is_refused(name, told):
    with pytest.raises(ValueError, match=told):
        LatentBlocks(micro(name))


def test_a_photograph_is_lit_where_it_is_shown():
    image, blocks = (
        torch.full((3, 16, 16), 200, dtype=torch.uint8),
        choose_blocks(2, (8, 8), drawn()),
    )
    parts = blocks_on(image, blocks, (8, 8))
    assert list(parts) == ["context", "block 1", "block 2", "block 3", "block 4"]
    lit = parts["context"][0, ::2, ::2].flatten() == 200
    assert set(lit.nonzero().flatten().tolist()) == set(blocks.context[0].tolist())
    assert parts["block 2"].unique().tolist() == [30, 200]
