from itertools import pairwise

import pytest
import timm
import torch
from torch import nn

import vitbook
from vitbook.analysis import residual_stream
from vitbook.errors import UnknownNameError


def images(count=5, channels=1, size=8):
    return torch.randn(count, channels, size, size, generator=torch.Generator().manual_seed(1))


class Adds(nn.Module):
    """A block that adds its own number to all that it takes."""

    def __init__(self, number):
        super().__init__()
        self.norm = nn.Linear(1, 1)
        self.number = number

    def forward(self, tokens):
        return tokens + self.number


def test_by_hand():
    """3 and 4 in front; a block adds 1, the next takes 5 away."""
    model = nn.Sequential(nn.ModuleList([Adds(1.0), Adds(-5.0)]))
    model.forward = lambda given: model[0][1](model[0][0](given))
    found = residual_stream(model, torch.tensor([3.0, 4.0]).view(2, 1, 1, 1), batch_size=1)
    assert found.layers == ("0.0", "0.1")
    assert found.size.tolist() == pytest.approx([12.5**0.5, 20.5**0.5, 0.5**0.5])
    assert found.change.tolist() == pytest.approx([1 / 12.5**0.5, 5 / 20.5**0.5])


@pytest.mark.parametrize("batch_size", [2, 5])
def test_the_loop_over_a_model_of_ours(batch_size):
    torch.manual_seed(0)
    model = vitbook.create_model("vit_micro_patch2_8").train()
    found = residual_stream(model, images(), batch_size=batch_size)
    with torch.no_grad():
        tokens = [model.embed(images())]
        for block in model.encoder.blocks:
            tokens.append(block(tokens[-1]))
    assert found.layers == tuple(f"encoder.blocks.{n}" for n in range(4))
    assert found.size.tolist() == pytest.approx(
        [t.square().mean().sqrt().item() for t in tokens], rel=1e-5
    )
    changes = [
        ((after - before).square().mean() / before.square().mean()).sqrt().item()
        for before, after in pairwise(tokens)
    ]
    assert found.change.tolist() == pytest.approx(changes, rel=1e-5)
    assert model.training


def test_post_norm_gives_one_behind_every_block_and_pre_norm_grows():
    torch.manual_seed(0)
    for name in ("vit_micro_patch2_8", "vit_postnorm_micro_patch2_8"):
        model = vitbook.create_model(name)
        vitbook.models.initialize(model, "xavier")
        size = residual_stream(model, images()).size
        if "postnorm" in name:
            assert size[1:].tolist() == pytest.approx([1] * 4, abs=1e-3)
        else:
            assert (size.diff() > 0).all() and size[-1] > 1


def test_the_tokenizer_s_own_blocks_are_no_part_of_the_stream():
    model = vitbook.create_model("t2t_vit_micro_patch2_8")
    found = residual_stream(model, images())
    assert all(path.startswith("encoder.blocks.") for path in found.layers)


def test_a_model_of_timm():
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=3)
    found = residual_stream(model, images(2, 3, 32))
    assert found.layers == ("blocks.0", "blocks.1", "blocks.2") and len(found.size) == 4


def test_a_compiled_model_is_seen(plain_vitbook):
    plain_vitbook(
        """
        import torch, vitbook
        from vitbook.analysis import residual_stream

        model, images = vitbook.create_model("vit_micro_patch2_8").eval(), torch.randn(3, 1, 8, 8)
        plain = residual_stream(model, images)
        compiled = torch.compile(model, backend="eager")
        compiled(images)
        seen = residual_stream(compiled, images)
        assert seen.layers == plain.layers and torch.allclose(seen.size, plain.size)
        """
    )


def test_blocks_that_are_no_stream():
    with pytest.raises(ValueError, match=r"takes \(5, 16, 8, 8\) and gives \(5, 32, 4, 4\)"):
        residual_stream(vitbook.create_model("resnet8_digits"), images())


def test_a_block_that_runs_twice_or_not():
    model = vitbook.create_model("vit_micro_patch2_8")
    model.encoder.blocks[1] = model.encoder.blocks[0]
    with pytest.raises(RuntimeError, match=r"blocks.0 of VisionTransformer ran 2 times on one"):
        residual_stream(model, images())
    model = vitbook.create_model("vit_micro_patch2_8")
    model.encoder.forward = lambda tokens: model.encoder.blocks[0](tokens)
    with pytest.raises(RuntimeError, match=r"blocks.1 of VisionTransformer ran 0 times on one"):
        residual_stream(model, images())


def test_what_cannot_be_asked():
    model = vitbook.create_model("vit_micro_patch2_8")
    with pytest.raises(UnknownNameError, match=r"encoder\.block\.0"):
        residual_stream(model, images(), layers=("encoder.block.0",))
    with pytest.raises(ValueError, match="NaN"):
        residual_stream(model, images() * float("nan"))
    with pytest.raises(ValueError, match="no layers found"):
        residual_stream(nn.Linear(2, 2), torch.ones(1, 1, 2, 2))
    with pytest.raises(ValueError, match="batch_size 0"):
        residual_stream(model, images(), batch_size=0)


class InPlace(nn.Module):
    """The block that it holds, written over what it takes."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, tokens):
        return tokens.copy_(self.block(tokens))


def test_blocks_that_write_over_what_they_take():
    model = vitbook.create_model("vit_micro_patch2_8")
    expected = residual_stream(model, images())
    for number, block in enumerate(model.encoder.blocks):
        model.encoder.blocks[number] = InPlace(block)
    found = residual_stream(model, images(), layers=expected.layers)
    assert torch.equal(found.size, expected.size) and torch.equal(found.change, expected.change)


def stacked(forward):
    """Two blocks that add, run as the model likes."""
    model = nn.Sequential(nn.ModuleList([Adds(1.0), Adds(-5.0)]))
    model.forward = lambda given: forward(model[0], given)
    return model


def test_tokens_in_front_of_the_images():
    """As in the first CLIP: the first axis says nothing of how many images there are."""
    given = torch.tensor([3.0, 4.0, 5.0]).view(3, 1, 1, 1)
    first = stacked(lambda blocks, given: blocks[1](blocks[0](given)))
    turned = stacked(
        lambda blocks, given: blocks[1](blocks[0](given.expand(-1, 7, 1, 1).transpose(0, 1)))
    )
    expected = residual_stream(first, given, batch_size=2)
    found = residual_stream(turned, given, batch_size=2)
    torch.testing.assert_close(found.size, expected.size)
    torch.testing.assert_close(found.change, expected.change)


def test_tokens_that_come_by_name():
    given = torch.tensor([3.0, 4.0]).view(2, 1, 1, 1)
    named = stacked(lambda blocks, given: blocks[1](tokens=blocks[0](tokens=given)))
    assert residual_stream(named, given).size.tolist() == pytest.approx(
        [12.5**0.5, 20.5**0.5, 0.5**0.5]
    )


def test_blocks_that_take_or_give_no_tensor():
    given = torch.ones(2, 1, 1, 1)
    model = stacked(lambda blocks, given: blocks[1](blocks[0](given)["tokens"]))
    plain = model[0][0].forward
    model[0][0].forward = lambda tokens: {"tokens": plain(tokens)}
    with pytest.raises(ValueError, match=r"0\.0 of Sequential takes .* and gives dict: ex"):
        residual_stream(model, given)
    model[0][0].forward = lambda: {"tokens": given}
    model.forward = lambda given: model[0][1](model[0][0]()["tokens"])
    with pytest.raises(ValueError, match="takes NoneType and gives dict: expected blocks around"):
        residual_stream(model, given)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
