import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import timm
import torch
from torch import nn

import vitbook
from vitbook.analysis import ablate_heads, mean_head_outputs

MODELS = [f"{variant}vit_micro_patch2_8" for variant in ("", "lsa_", "linformer_", "performer_")]
MODELS += ["rot_vit_micro_patch2_8", "t2t_vit_micro_patch2_8"]


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


@pytest.mark.parametrize(
    ("heads", "told"),
    {
        ((4, 0),): "layer 4: VisionTransformer has 4, expected 0 to 3",
        ((-1, 0),): "layer -1: VisionTransformer has 4, expected 0 to 3",
        ((0, 4),): "head 4 of layer 0: there are 4, expected 0 to 3",
        ((0, -1),): "head -1 of layer 0: there are 4, expected 0 to 3",
        ((0, 1), (2, 1), (0, 1)): "head 1 of layer 0 is named twice: expected it once",
        ((True, 0),): r"head \(True, 0\): expected whole numbers",
    }.items(),
)
def test_heads_that_are_not_there(heads, told):
    with pytest.raises(ValueError, match=told), ablate_heads(model_of(), heads):
        pass


def test_a_head_that_is_no_whole_number(plain_vitbook):
    plain_vitbook(
        """
        import numpy, pytest, vitbook
        from vitbook.analysis import ablate_heads
        with pytest.raises(ValueError, match="head 9 of layer 0: there are 4"):
            with ablate_heads(vitbook.create_model("vit_micro_patch2_8"), numpy.array([[0, 9]])):
                pass
        model = vitbook.create_model("vit_micro_patch2_8")
        with pytest.raises(ValueError, match=r"head \\(0, 1.0\\): expected whole numbers"):
            with ablate_heads(model, [(0, 1.0)]):
                pass
        for heads in (3, [3], [(1,)], [(1, 2, 3)], "ab", None, [None]):
            with pytest.raises(ValueError, match="heads came as .* expected pairs .layer, head"):
                with ablate_heads(model, heads):
                    pass
        for means in (3, [0.0] * 4, [[0.0]] * 4):
            with pytest.raises(TypeError, match="means came as .* expected a tensor for each"):
                with ablate_heads(model, [(0, 0)], means):
                    pass
        """
    )


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_means_that_are_no_numbers(wrong):
    model = model_of()
    means = [mean.clone() for mean in mean_head_outputs(model, images_of())]
    means[2][3, 5] = wrong
    with pytest.raises(ValueError, match=r"blocks.2.attention: the means hold NaN or infinity"):
        without(model, [(0, 0)], means)
    with torch.no_grad():
        model.encoder.blocks[1].attention.qkv.weight[-1, 0] = wrong
    with pytest.raises(ValueError, match=r"blocks.1.attention: the means hold NaN or infinity"):
        mean_head_outputs(model, images_of())


@torch.no_grad()
def test_another_thread_is_told():
    model, images = model_of(), images_of()
    intact = model(images)
    with ThreadPoolExecutor(1) as other:
        with ablate_heads(model, [(1, 1)]), pytest.raises(RuntimeError, match="in another thread"):
            other.submit(model, images).result()
        assert torch.equal(other.submit(model, images).result(), intact)


@torch.no_grad()
def test_a_copy_made_meanwhile_has_its_heads_afterwards():
    model, images = model_of(), images_of()
    with ablate_heads(model, [(1, 1)]):
        twin, gone = copy.deepcopy(model), model(images)
        assert torch.equal(twin(images), gone)
    assert torch.equal(twin(images), model(images)) and not torch.equal(model(images), gone)


@torch.no_grad()
def test_a_compiled_model_that_has_run():
    model, images = model_of(), images_of()
    expected = without(model, [(1, 1)])
    compiled = torch.compile(model, backend="eager")
    intact = compiled(images)
    torch.testing.assert_close(without(compiled, [(1, 1)]), expected)
    means = mean_head_outputs(compiled, images)
    torch.testing.assert_close(means, mean_head_outputs(model, images))
    assert torch.equal(compiled(images), intact)


def test_models_and_means_that_do_not_fit():
    model = model_of()
    with pytest.raises(ValueError, match="MultiheadAttention.*expected our attention or timm's"):
        without(nn.TransformerEncoderLayer(8, 2), [(0, 0)])
    with pytest.raises(ValueError, match="ResNet has no attention whose heads are known"):
        without(vitbook.create_model("resnet8_digits"), [])
    means = mean_head_outputs(model, images_of())
    with pytest.raises(ValueError, match="means of 3 layers, but 4 attend"):
        without(model, [], means[:3])
    few = tuple(mean[:5] for mean in means)
    with pytest.raises(
        ValueError, match=r"attention: means of \(5, 64\), but it runs on \(17, 64\)"
    ):
        without(model, [(0, 0)], few)
    with pytest.raises(ValueError, match="images hold NaN"):
        mean_head_outputs(model, images_of() * torch.nan)
    with pytest.raises(ValueError, match="no images came"):
        mean_head_outputs(model, images_of()[:0])


def test_heads_of_shared_modules_are_not_told_apart():
    model = model_of()
    blocks = model.encoder.blocks
    blocks[1] = blocks[0]
    for probe in (lambda: mean_head_outputs(model, images_of()), lambda: without(model, [(0, 0)])):
        with pytest.raises(ValueError, match=r"blocks.1.attention shares the layer that mixes"):
            probe()
    model = model_of()
    first = model.encoder.blocks[0]
    first.register_forward_hook(lambda block, args, tokens: block.forward(tokens))  # runs it again
    with pytest.raises(ValueError, match="more than once"):
        mean_head_outputs(model, images_of())
    model = model_of()
    first, second, *_ = (block.attention for block in model.encoder.blocks)
    second.projection = first.projection
    with pytest.raises(ValueError, match="shares the layer"):
        without(model, [(0, 0), (1, 1)])
