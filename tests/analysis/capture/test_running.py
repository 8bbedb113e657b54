"""What every probe refuses in the same words."""

import pytest
import torch

import vitbook
from vitbook import analysis
from vitbook.analysis.capture.layout import pixels_per_token

IMAGES, TARGETS = torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 3])
PROBES = {
    "attention_rollout": (),
    "effective_field": ("tokenizer",),
    "feature_maps": (),
    "integrated_gradients": (TARGETS,),
    "patch_occlusion": (TARGETS,),
    "relevance": (TARGETS,),
    "token_grad_cam": (TARGETS,),
}


@pytest.mark.parametrize("batch_size", [0, -1, True])
@pytest.mark.parametrize("name", PROBES)
def test_a_batch_of_no_size(name, batch_size):
    model, probe = vitbook.create_model("vit_micro_patch2_8"), getattr(analysis, name)
    with pytest.raises(ValueError, match=f"batch_size {batch_size}: expected a whole number, 1"):
        probe(model, IMAGES, *PROBES[name], batch_size=batch_size)


@pytest.mark.parametrize("grid", [(0, 2), (2, -2), (2, True)])
def test_a_grid_of_no_cells(grid):
    with pytest.raises(ValueError, match=r"a grid of \(.*\): expected \(rows, columns\), whole"):
        pixels_per_token(IMAGES, grid)


def test_what_is_no_grid_or_no_number(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.analysis import edge_maps, relevance
        model, images = vitbook.create_model("vit_micro_patch2_8"), torch.rand(2, 1, 8, 8)
        for grid in (2, (2,), (2, 2, 2), (2.0, 2.0), ("2", "2"), (2, -2), None):
            with pytest.raises(ValueError, match="a grid of .* expected .rows, columns., who"):
                edge_maps(images, grid)
        for batch_size in (2.5, None, "2"):
            with pytest.raises(ValueError, match="batch_size .* expected a whole number"):
                relevance(model, images, batch_size=batch_size)
        """
    )
