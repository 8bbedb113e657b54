"""Channels first or last: known, or refused."""

import pytest
import timm
import torch
import torchvision
from einops import rearrange
from torch import nn

from vitbook.analysis import dead_and_saturated, effective_field, feature_maps, map_grad_cam
from vitbook.analysis.capture.map_layout import FIRST, LAST, channels_axis


class Turned(nn.Module):
    """A convolutional network whose maps lie with their channels last between its layers."""

    def __init__(self, width=6, stride=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, stride, stride)
        self.block = Block(width)
        self.head = nn.Linear(width, 5)

    def forward(self, images):
        map = rearrange(self.stem(images), "b d r c -> b r c d")
        return self.head(self.block(map).mean((1, 2)))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, map):
        return map + self.mix(self.norm(map)).tanh()


class Straight(Turned):
    """The same network, the other way."""

    def forward(self, images):
        map = self.stem(images)
        turned = rearrange(map, "b d r c -> b r c d")
        return self.head(self.way(self.block(turned)).mean((2, 3)))

    def __init__(self, width=6, stride=4):
        super().__init__(width, stride)
        self.way = Way()


class Way(nn.Module):
    def forward(self, map):
        return rearrange(map, "b r c d -> b d r c")


def twins(**sizes):
    torch.manual_seed(0)
    turned, straight = Turned(**sizes).eval(), Straight(**sizes).eval()
    straight.load_state_dict(turned.state_dict())
    return turned, straight


@pytest.mark.parametrize("size", [(32, 32), (32, 64)])
@pytest.mark.parametrize("per_place", [False, True])
def test_grad_cam_is_that_of_the_twin_with_channels_first(size, per_place):
    turned, straight = twins()
    images, targets = torch.randn(3, 3, *size), torch.tensor([0, 3, 4])
    told = dict(targets=targets, signed=True, per_place=per_place)
    last = map_grad_cam(turned, images, layer=turned.block, **told)
    first = map_grad_cam(straight, images, layer=straight.way, **told)
    assert last.shape == (3, size[0] // 4, size[1] // 4)
    torch.testing.assert_close(last, first)
    torch.testing.assert_close(map_grad_cam(turned, images, **told), last)  # by default


@pytest.mark.parametrize("size", [(32, 32), (32, 64)])
def test_maps_and_their_health_are_those_of_the_twin(size):
    turned, straight = twins()
    images = torch.randn(3, 3, *size)
    last = feature_maps(turned, images, ["block"])["block"]
    first = feature_maps(straight, images, ["way"])["way"]
    assert torch.equal(last, first)
    assert len(dead_and_saturated({"block": last})["block"].dead) == 6
    assert torch.equal(
        effective_field(turned, images, "block"), effective_field(straight, images, "way")
    )


FAMILIES = {
    "timm's MambaOut": (lambda: timm.create_model("mambaout_femto", num_classes=5), 96),
    "timm's Swin": (lambda: timm.create_model("swin_tiny_patch4_window7_224", img_size=96,
                                              window_size=3, num_classes=5), 96),
    "torchvision's ConvNeXt": (lambda: torchvision.models.convnext_tiny(num_classes=5), 96),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_every_map_of_a_family_lies_on_the_image(name):
    make, size = FAMILIES[name]
    torch.manual_seed(0)
    model, images = make().eval(), torch.randn(1, 3, size, size)
    outputs = {}

    def keep(path):
        return lambda _, args, out: outputs.update({path: out})

    for path, module in model.named_modules():
        if path and not isinstance(module, (nn.Softmax, nn.Dropout)):
            module.register_forward_hook(keep(path))
    with torch.no_grad():
        model(images)
    told = 0
    for path, out in outputs.items():
        if isinstance(out, torch.Tensor) and out.ndim == 4 and "attn" not in path:
            axis = channels_axis(model.get_submodule(path), out, model, images)
            rows, columns = out.shape[2:] if axis == FIRST else out.shape[1:3]
            assert rows == columns, (path, tuple(out.shape))
            told += axis == LAST
    assert told


def test_mambaout_is_explained_on_its_own_grid():
    torch.manual_seed(0)
    model = timm.create_model("mambaout_femto", num_classes=5).eval()
    assert map_grad_cam(model, torch.randn(1, 3, 96, 96)).shape == (1, 3, 3)


class Cube(nn.Module):
    """Nothing tells its axes apart."""

    def forward(self, map):
        return map.tanh()


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.Sequential(nn.LayerNorm(8), nn.Tanh())])
def test_what_cannot_be_told_is_refused(norm):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.cube, self.norm = nn.Conv2d(3, 8, 4, 4), Cube(), norm
            self.head = nn.Linear(8, 5)

        def forward(self, images):
            return self.head(self.norm(self.cube(self.stem(images))).mean((1, 2)))

    model, images = Model().eval(), torch.randn(1, 3, 32, 32)
    for ask in (
        lambda: map_grad_cam(model, images, layer=model.cube),
        lambda: feature_maps(model, images, ["cube"]),
        lambda: effective_field(model, images, "cube"),
    ):
        with pytest.raises(ValueError, match=r"Cube gives \(1, 8, 8, 8\).*cannot be told"):
            ask()
    assert feature_maps(model, images, ["stem"])["stem"].shape == (1, 8, 8, 8)


def test_a_cube_in_a_network_of_convolutions_is_channels_first():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 4, 4), nn.BatchNorm2d(8), Cube(), nn.Flatten(), nn.Linear(512, 5)
    )
    assert (
        channels_axis(model[2], torch.zeros(1, 8, 8, 8), model, torch.zeros(1, 3, 32, 32)) == FIRST
    )


class FirstNorm(nn.LayerNorm):
    """As Hugging Face's ConvNextLayerNorm: one class for both ways, told apart by an argument."""

    def __init__(self, width, data_format="channels_first"):
        super().__init__(width)
        self.data_format = data_format

    def forward(self, map):
        if self.data_format != "channels_first":
            return super().forward(map)
        last = super().forward(rearrange(map, "b d r c -> b r c d"))
        return rearrange(last, "b r c d -> b d r c")


# What mixes or norms a map whose channels come first, by layers that read the last axis.
OF_MAPS = {
    "a LayerNorm that turns": lambda width, rows, columns: FirstNorm(width),
    "a LayerNorm of the whole map": lambda *shape: nn.LayerNorm(shape),
    "a linear layer along the columns": lambda width, rows, columns: nn.Linear(columns, columns),
    "Hugging Face's": lambda width, rows, columns: pytest.importorskip(
        "transformers.models.convnext.modeling_convnext"
    ).ConvNextLayerNorm(width, eps=1e-6, data_format="channels_first"),
}


@pytest.mark.parametrize("size", [(96, 64), (64, 64), (66, 98)])
@pytest.mark.parametrize("kind", OF_MAPS)
def test_a_layer_of_the_last_axis_may_give_maps_with_channels_first(kind, size):
    rows, columns = (side // 4 for side in size)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 4, 4), OF_MAPS[kind](6, rows, columns), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(6, 5),
    )  # fmt: skip
    images = torch.randn(1, 3, *size)
    assert map_grad_cam(model, images, layer=model[1]).shape == (1, rows, columns)
    assert feature_maps(model, images, ["1"])["1"].shape == (1, 6, rows, columns)


@pytest.mark.parametrize("layer", [FirstNorm(8), nn.LayerNorm((8, 8, 8)), nn.Linear(8, 8)])
def test_a_cube_of_theirs_is_refused_where_nothing_around_tells(layer):
    tail = nn.Linear(8, 8), nn.Flatten(), nn.Linear(512, 5)
    model = nn.Sequential(nn.Conv2d(3, 8, 4, 4), layer, *tail)
    with pytest.raises(ValueError, match="cannot be told"):
        channels_axis(layer, torch.zeros(1, 8, 8, 8), model, torch.zeros(1, 3, 32, 32))


def test_a_cube_behind_a_convolution_and_linear_layers_is_refused():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 4, 4), Way(), nn.Linear(8, 8), Cube(), nn.Flatten(), nn.Linear(512, 5)
    )
    with pytest.raises(ValueError, match=r"Cube gives \(1, 8, 8, 8\).*cannot be told"):
        map_grad_cam(model, torch.zeros(1, 3, 32, 32), layer=model[3])
