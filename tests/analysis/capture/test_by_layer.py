import torch

from vitbook import create_model
from vitbook.analysis import by_layer, capture_attention


def test_each_layer_is_folded_and_the_model_stays():
    model, images = create_model("vit_micro_patch2_8").train(), torch.rand(2, 1, 8, 8)
    folded = by_layer(model, images, lambda maps: maps.mean((0, 2)))
    assert model.training and not folded.requires_grad
    with torch.no_grad(), capture_attention(model.eval()) as maps:
        model(images)
    assert torch.equal(folded, torch.stack([each.mean((0, 2)) for each in maps.values()]))
