import threading

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.analysis import gradient_norms, gradients_by_depth
from vitbook.errors import UnknownNameError
from vitbook.layers import Encoder, PostNormBlock
from vitbook.models.papers.vit import DIGITS, MICRO_BODY, vit

SECOND = "mlp.contract.weight"


def micro():
    torch.manual_seed(0)
    return vitbook.create_model("vit_micro_patch2_8")


def batch(count=7):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 1, 8, 8, generator=generator)
    return images, torch.arange(count) % 10


def test_norms_are_those_of_backward_layer_by_layer():
    model, (images, labels) = micro(), batch()
    found = gradient_norms(model, images, labels, batch_size=3)
    assert all(p.grad is None for p in model.parameters())
    F.cross_entropy(model.eval()(images), labels).backward()

    def length(parameters):
        return torch.cat([p.grad.flatten() for p in parameters]).norm().item()

    expected = {"prefix": length([model.prefix])} | {
        name: length(model.get_submodule(name).parameters())
        for name in (
            "tokenizer", "position", *(f"encoder.blocks.{n}" for n in range(4)),
            "encoder.norm", "head",
        )
    }  # fmt: skip
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_linear_model_by_hand():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False))
    images = torch.tensor([[[[1.0, 2], [3, 4]]], [[[0, 0], [0, 6]]]])
    found = gradient_norms(
        model, images, torch.tensor([0, 1]), lambda logits, labels: logits[:, 0].mean()
    )
    # The first row's gradient is the mean image, (1, 2, 3, 10) / 2; the second row's is zero.
    assert found == {"1": pytest.approx((1 + 4 + 9 + 100) ** 0.5 / 2)}


def test_modes_gradients_and_statistics_stay():
    model, (images, labels) = vitbook.create_model("resnet8_digits").train(), batch()
    model.stages[0].eval()
    F.cross_entropy(model(images), labels).backward()
    modes = [module.training for module in model.modules()]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gradients = [p.grad.clone() for p in model.parameters()]
    with torch.no_grad():
        norms = gradient_norms(model, images, labels)
    assert all(norm > 0 for norm in norms.values())
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert all(
        torch.equal(p.grad, before) for p, before in zip(model.parameters(), gradients, strict=True)
    )


def test_what_is_frozen_or_unused_counts_nothing():
    model, (images, labels) = micro(), batch()
    model.encoder.blocks[1].requires_grad_(False)
    model.spare = nn.Linear(3, 3)
    norms = gradient_norms(model, images, labels)
    assert "encoder.blocks.1" not in norms and norms["spare"] == 0
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="VisionTransformer has no parameter that learns"):
        gradient_norms(model, images, labels)


def test_timm_wrapped_and_in_half_precision():
    model = timm.create_model(
        "vit_tiny_patch16_224", depth=2, embed_dim=24, num_heads=3, img_size=(32, 64),
        num_classes=10,
    )  # fmt: skip
    images, labels = torch.randn(4, 3, 32, 64), torch.arange(4)
    norms = gradient_norms(nn.Sequential(model), images, labels)
    assert {"0.patch_embed", "0.pos_embed", "0.blocks.0", "0.blocks.1", "0.head"} <= norms.keys()
    half = gradient_norms(model.bfloat16(), images, labels)
    assert half["blocks.1"] == pytest.approx(norms["0.blocks.1"], rel=0.1)


@pytest.mark.parametrize("part", [SECOND, "mlp.contract", "attention"])
def test_one_part_of_each_block_and_nothing_else(part):
    model, (images, labels) = micro(), batch()
    found = gradient_norms(model, images, labels, part=part, batch_size=3)
    F.cross_entropy(model.eval()(images), labels).backward()
    expected = {}
    for number, block in enumerate(model.encoder.blocks):
        own = [p.grad for name, p in block.named_parameters() if f"{name}.".startswith(f"{part}.")]
        expected[f"encoder.blocks.{number}"] = torch.cat([g.flatten() for g in own]).norm().item()
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_part_that_a_block_lacks_or_that_is_frozen():
    model, (images, labels) = micro(), batch()
    with pytest.raises(
        UnknownNameError, match="mlp.contract.wait.: did you mean mlp.contract.weig"
    ):
        gradient_norms(model, images, labels, part="mlp.contract.wait")
    model.encoder.blocks[2].mlp.requires_grad_(False)
    with pytest.raises(UnknownNameError, match=r"unknown part of encoder\.blocks\.2 that learns"):
        gradient_norms(model, images, labels, part=SECOND)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with pytest.raises(ValueError, match="part 'weight': expected blocks in a ModuleList or"):
        gradient_norms(plain, images, labels, part="weight")


@pytest.mark.parametrize("part", [None, SECOND])
@pytest.mark.parametrize("changes", [{}, {"make_block": PostNormBlock}], ids=["pre", "post"])
def test_a_model_cut_to_its_first_blocks_is_one_of_these_blocks(changes, part):
    torch.manual_seed(0)
    model, (images, labels) = vit(**DIGITS, **MICRO_BODY, **changes), batch()
    blocks, modules = list(model.encoder.blocks), list(model.modules())
    found = gradients_by_depth(model, images, labels, (2, 4, 1), part=part, batch_size=3)
    assert list(found) == [2, 4, 1]
    for depth, norms in found.items():
        torch.manual_seed(9)
        other = vit(**DIGITS, **MICRO_BODY, **changes)
        other.load_state_dict(model.state_dict())
        last = other.encoder.norm
        other.encoder = Encoder(list(other.encoder.blocks)[:depth], 64)
        other.encoder.norm = last
        expected = gradient_norms(other, images, labels, part=part)
        paths = [f"encoder.blocks.{number}" for number in range(depth)]
        assert norms == pytest.approx([expected[path] for path in paths], rel=1e-4)
    assert list(model.modules()) == modules and list(model.encoder.blocks) == blocks


def test_a_compiled_model_has_the_same_parts():
    model, (images, labels) = micro(), batch()
    compiled = torch.compile(model)
    with torch.compiler.set_stance("force_eager"):  # its names differ, compiled or not
        found = gradient_norms(compiled, images, labels, part=SECOND)
        cut = gradients_by_depth(compiled, images, labels, [2])
    assert found == gradient_norms(model, images, labels, part=SECOND)
    assert cut == gradients_by_depth(model, images, labels, [2])


def test_a_frozen_block_is_pulled_at_by_nothing():
    model, (images, labels) = micro(), batch()
    model.encoder.blocks[1].requires_grad_(False)
    first, second, third = gradients_by_depth(model, images, labels, [3])[3]
    assert second == 0 < min(first, third)


def test_the_blocks_stand_again_after_an_error():
    model, (images, labels) = micro().train(), batch()
    modules = list(model.modules())
    with pytest.raises(ValueError, match="images hold NaN"):
        gradients_by_depth(model, images * torch.nan, labels, (1, 2))
    assert list(model.modules()) == modules and model.encoder.blocks[3].training


@pytest.mark.parametrize("depth", [0, 5, True])
def test_a_depth_that_the_model_does_not_have(depth):
    model, (images, labels) = micro(), batch()
    with pytest.raises(ValueError, match=f"depth {depth!r}: expected a whole number from 1 to 4"):
        gradients_by_depth(model, images, labels, (1, depth))


def test_the_blocks_of_other_libraries_are_cut_too():
    model = timm.create_model(
        "vit_tiny_patch16_224", depth=3, embed_dim=24, num_heads=3, img_size=(32, 64),
        num_classes=10,
    )  # fmt: skip
    images, labels = torch.randn(4, 3, 32, 64), torch.arange(4)
    found = gradients_by_depth(model, images, labels, (3, 1), part="mlp.fc2.weight")
    whole = gradient_norms(model, images, labels, part="mlp.fc2.weight")
    assert found[3] == list(whole.values()) and len(found[1]) == 1
    assert found[1][0] != found[3][0]


def xavier(seed, **changes):
    """16 blocks, whose linear layers start as in Xiong et al. 2020."""
    torch.manual_seed(seed)
    model = vit(**DIGITS, **MICRO_BODY | {"depth": 16}, **changes)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    return model


def test_with_depth_the_last_block_is_pulled_less_in_pre_norm_alone():
    digits = datasets.load("digits", "train")
    images, labels = datasets.normalize(digits.images[:10]), digits.labels[:10]
    shares = {}
    for norm, changes in {"pre": {}, "post": {"make_block": PostNormBlock}}.items():
        runs = [
            gradients_by_depth(xavier(seed, **changes), images, labels, (1, 16), part=SECOND)
            for seed in range(4)
        ]
        last = {depth: sum(run[depth][-1] for run in runs) for depth in (1, 16)}
        shares[norm] = last[16] / last[1]
    # The square root of 16 is 4.
    assert shares["pre"] < 1 / 2 and shares["post"] > 2 / 3


def test_bad_input():
    model, (images, labels) = micro(), batch()
    with pytest.raises(ValueError, match="images hold NaN"):
        gradient_norms(model, images * torch.nan, labels)
    with pytest.raises(ValueError, match="no images came"):
        gradient_norms(model, images[:0], labels[:0])


def test_depths_that_are_no_whole_numbers(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.analysis import gradients_by_depth
        model = vitbook.create_model("vit_micro_patch2_8")
        for depth in (1.0, "2", None):
            with pytest.raises(ValueError, match="depth .*: expected a whole number from 1 to 4"):
                gradients_by_depth(model, torch.rand(3, 1, 8, 8), torch.arange(3), (1, depth))
        """
    )


def test_labels_that_are_too_few(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.analysis import gradient_norms
        model = vitbook.create_model("vit_micro_patch2_8")
        with pytest.raises(ValueError, match="3 labels for 7 images: expected one for each"):
            gradient_norms(model, torch.rand(7, 1, 8, 8), torch.arange(3))
        """
    )


class Named(nn.Module):
    """A block that takes its tokens by name, and more that it does not need."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *, tokens, mask=None):
        return self.block(tokens)


def test_blocks_that_are_called_by_name_are_cut_too():
    model, (images, labels) = micro(), batch()
    expected = gradients_by_depth(model, images, labels, (1, 3))
    blocks = [Named(block) for block in model.encoder.blocks]
    for number, block in enumerate(blocks):
        model.encoder.blocks[number] = block

    def forward(tokens):
        for block in model.encoder.blocks:
            tokens = block(tokens=tokens, mask=None)
        return model.encoder.norm(tokens)

    model.encoder.forward = forward
    outer = [f"encoder.blocks.{number}" for number in range(4)]
    assert gradients_by_depth(model, images, labels, (1, 3)) == expected
    assert [model.get_submodule(path) for path in outer] == blocks


def test_blocks_between_which_nothing_can_be_left_out():
    images, labels = batch()
    with pytest.raises(ValueError, match=r"of ResNet takes \(1, 16, 8, 8\) and gives \(1, 32, 4"):
        gradients_by_depth(vitbook.create_model("resnet8_digits"), images, labels, (1, 3))
    with pytest.raises(ValueError, match="no blocks found in Sequential: expected some in a Mod"):
        gradients_by_depth(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), images, labels, (1,))


def test_another_thread_does_not_meet_a_model_that_is_cut():
    """Its answers would be those of the model cut, and the blocks that it puts back nobody's."""
    model, (images, labels) = micro(), batch()
    modules, refused = list(model.modules()), []

    def ask():
        try:
            gradients_by_depth(model, images, labels, (1,))
        except RuntimeError as error:
            refused.append(str(error))

    def loss(logits, truth):
        other = threading.Thread(target=ask)
        other.start()
        other.join()
        return F.cross_entropy(logits, truth)

    gradients_by_depth(model, images, labels, (1,), loss)
    assert len(refused) == 1 and "another thread looks into this VisionTransformer" in refused[0]
    assert list(model.modules()) == modules
