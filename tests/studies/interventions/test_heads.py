import pytest
import timm
import torch
from torch import nn

import vitbook
from vitbook.studies.interventions import ablate_heads, mean_head_outputs

MODELS = [f"{variant}vit_micro_patch2_8" for variant in ("", "linformer_", "performer_", "t2t_")]


def model_of(name="vit_micro_patch2_8"):
    torch.manual_seed(0)
    return vitbook.create_model(name).eval()


def images_of(count=3):
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def without(model, heads, means=None, images=None):
    with ablate_heads(model, heads, means):
        return model(images_of() if images is None else images)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_head_without_values_is_the_head_that_is_gone(name):
    # By hand: the rows of qkv that make the values of head 1 of layer 1 become 0.
    model, images = model_of(name), images_of()
    intact, gone, another = model(images), without(model, [(1, 1)]), without(model, [(1, 2)])
    attention = model.encoder.blocks[1].attention
    width = attention.projection.in_features
    part = slice(2 * width + width // 4, 2 * width + width // 2)
    attention.qkv.weight[part] = 0
    if attention.qkv.bias is not None:
        attention.qkv.bias[part] = 0
    torch.testing.assert_close(gone, model(images))
    assert (gone - intact).abs().max() > 1e-4 < (gone - another).abs().max()


@torch.no_grad()
def test_a_head_that_is_not_read_changes_nothing():
    model = model_of()
    model.encoder.blocks[2].attention.projection.weight[:, :16] = 0
    intact, images = model(images_of()), images_of()
    assert torch.equal(without(model, [(2, 0)]), intact)
    assert torch.equal(without(model, [(2, 0)], mean_head_outputs(model, images)), intact)
    assert not torch.equal(without(model, [(2, 1)]), intact)


@torch.no_grad()
def test_without_any_head_the_bias_of_the_projection_is_left():
    model = model_of()
    block = model.encoder.blocks[0]
    nn.init.normal_(block.attention.projection.bias)
    tokens = model.embed(images_of())
    with ablate_heads(model, [(0, head) for head in range(4)]):
        found = block(tokens)
    mixed = tokens + block.attention.projection.bias
    torch.testing.assert_close(found, mixed + block.mlp(block.norm2(mixed)))


@torch.no_grad()
def test_means_are_of_each_token_over_images():
    model, images = model_of(), images_of(5)
    means = mean_head_outputs(model, images, batch_size=2)
    seen = []
    layer = model.encoder.blocks[3].attention.projection
    handle = layer.register_forward_hook(lambda module, args, output: seen.append(args[0]))
    model(images)
    handle.remove()
    assert [tuple(mean.shape) for mean in means] == [(17, 64)] * 4
    torch.testing.assert_close(means[3], seen[0].mean(0))
    # An image that is the mean itself loses nothing; another does.
    one = mean_head_outputs(model, images[:1])
    everything = [(layer, head) for layer in range(4) for head in range(4)]
    torch.testing.assert_close(without(model, everything, one, images[:1]), model(images[:1]))
    assert (without(model, everything, one, images[1:2]) - model(images[1:2])).abs().max() > 1e-4


@torch.no_grad()
def test_the_mean_of_all_heads_leaves_no_word_of_the_image_in_the_attention():
    model, images = model_of(), images_of(2)
    means, found = mean_head_outputs(model, images), []
    hook = model.encoder.blocks[1].attention.register_forward_hook(
        lambda module, args, output: found.append(output)
    )
    without(model, [(1, head) for head in range(4)], means, images)
    hook.remove()
    assert torch.equal(found[0][0], found[0][1])


def test_no_heads_are_the_same_bits_and_nothing_is_left_behind():
    model = model_of().train()
    hooks = [len(module._forward_pre_hooks) for module in model.modules()]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    intact = model_of()(images_of())
    mean_head_outputs(model, images_of())
    assert all(module.training for module in model.modules())
    model.eval()
    assert torch.equal(without(model, []), intact)
    assert torch.equal(without(model, [], mean_head_outputs(model, images_of())), intact)
    with pytest.raises(KeyError), ablate_heads(model, [(0, 0), (0, 1)]):
        raise KeyError
    assert torch.equal(model(images_of()), intact)
    assert [len(module._forward_pre_hooks) for module in model.modules()] == hooks
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


def test_a_gradient_goes_to_the_heads_that_are_left():
    model = model_of()
    with ablate_heads(model, [(3, 0)]):
        model(images_of()).square().sum().backward()
    values = model.encoder.blocks[3].attention.qkv.weight.grad[128:].unflatten(0, (4, 16))
    assert values[0].abs().max() == 0 < values[1].abs().max()


@torch.no_grad()
def test_timm():
    model = timm.create_model("vit_tiny_patch16_224", depth=2, img_size=32).eval()
    images = torch.rand(2, 3, 32, 32)
    gone = without(model, [(1, 2)], images=images)
    model.blocks[1].attn.proj.weight[:, 128:] = 0
    torch.testing.assert_close(gone, model(images))


def test_a_model_without_heads_is_told():
    with pytest.raises(ValueError, match="ResNet has no attention whose heads are known"):
        without(vitbook.create_model("resnet8_digits"), [])
