"""What tables of positions hold, and how many directions the first tokens need."""

import torch

from vitbook import analysis, datasets, runs
from vitbook.model_utilities import weights_digest
from vitbook.models import create_model
from vitbook.models.weights.pretrained import load_pretrained
from vitbook.runs import Evidence, Table
from vitbook.runs.measuring import Sheet, measurement
from vitbook.studies.filters_and_positions import (
    SMALL,
    along_rows,
    bell_table,
    directions,
    held_by,
    own_table,
    random_table,
    resized,
    straight,
)
from vitbook.training import load_checkpoint

PRETRAINED = "vit_small_patch14_focus"


@measurement(
    position_tables={
        "table": "{table}", "grid": "{grid}", "next": "{next:.2f}", "third": "{third:.2f}",
        "straight": "{straight:.2f}", "slow half": "{slow_half:.2f}", "mirror": "{mirror:.2f}",
    },
    embedding_rank={"tokens": "{tokens}", "directions": "{low} to {high}"},
)  # fmt: skip
@torch.no_grad()
def tables(sheet: Sheet) -> None:
    """Say what tables of positions hold, and how many directions a photograph's tokens need.

    Of the pretrained ViT and two small models, beside fresh, random and up-sampled tables.
    """
    sheet.expect(PRETRAINED)
    large = own_table(load_pretrained(PRETRAINED, image_size=518).model)
    real = load_pretrained(PRETRAINED)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        few = random_table(16)
        found = {
            "pretrained": large, "pretrained, made smaller": resized(large, 16),
            "random": random_table(37), "random, enlarged": resized(few, 37),
            "random, made smaller": resized(random_table(37), 16), "bell curve": bell_table(37),
        }  # fmt: skip
        for name, run in SMALL.items():
            found[name] = own_table(load_checkpoint(run).model)
            found[f"{name}, fresh"] = own_table(create_model(run.split("-")[1]))
        fresh = create_model("vit_small_patch14_dinov2", image_size=224, num_classes=0).eval()
        noise = torch.randn(1, 256, 384)
    rows = []
    for name, table in found.items():
        cosines, side = along_rows(table), table.grid_size[0]
        mirror = analysis.mirror_similarity(*table)
        numbers = {
            "next": cosines[1], "third": cosines[3], "straight": straight(table),
            "slow_half": held_by(table, min(8, side // 4)),
            "mirror": mirror.mirrored - mirror.others,
        }  # fmt: skip
        rows.append({"table": name, "grid": f"{side} × {side}"}
                    | {key: round(float(value), 4) for key, value in numbers.items()})  # fmt: skip
    settings = {
        "next, third": "mean cosine of two positions of a row, one and three steps apart",
        "straight": "share of the variance in frequencies down alone or across alone",
        "slow_half": "share in at most 8 cycles a side, or a quarter of the side if fewer",
        "mirror": "cosine of mirrored positions less that of others as far apart in the row",
        "weights": weights_digest(real.model),
    }
    sheet.write(PRETRAINED, settings, rows, "position_tables")
    images = real.normalize(datasets.load("photos", "all", image_size=224).images)
    tokens = {
        "pretrained, after the patch embedding": real.model.tokenizer(images),
        "pretrained, after block 9": analysis.layer_tokens(real.model, images)[:, 1:],
        "pretrained, after the last block": real.model.features(images)[:, 1:],
        "fresh, after the patch embedding": fresh.tokenizer(images), "noise": noise,
    }  # fmt: skip
    rows = []
    for name, each in tokens.items():
        counts = [directions(photograph) for photograph in each]
        rows.append({"tokens": name, "low": min(counts), "high": max(counts)})
    told = {"directions": "that hold 0.9 of the variance of a photograph's 256 tokens"}
    sheet.write(PRETRAINED, told, rows, "embedding_rank")


def evidence() -> Evidence:
    (tables,), (ranks,) = map(runs.measurements, ("position_tables", "embedding_rank"))
    numbers = ("next", "third", "straight", "slow_half", "mirror")
    return Evidence((), [
        Table(
            "Tables of positions",
            "Next, third: mean cosine of two positions of a row, one and three steps apart. "
            "Straight: share of the variance in frequencies down alone or across alone. Slow half: "
            "share in frequencies of at most 8 cycles a side, or of a quarter of the side if that "
            "is fewer. Mirror: cosine of positions that mirror each other left and right, less "
            "that of other positions of a row that are as far apart. Random tables hold "
            "independent numbers; those that are enlarged had 16 × 16 positions, those made "
            "smaller 37 × 37.",
            [{"table": row["table"], "grid": row["grid"]}
             | {key.replace("_", " "): f"{row[key]:z.2f}".replace("-", "−") for key in numbers}
             for row in tables.rows],
        ),
        Table(
            "Rank of the embedded patches",
            "The ViT paper's slides suggest that the rank of the input embedding may be low. "
            "Directions that hold 0.9 of the variance of the 256 tokens of a photograph, over nine "
            "photographs; 256 tokens have at most 255. Fresh filters show it as well, so it comes "
            "from the photographs. The last block of this model keeps few, block 9 many.",
            [{"tokens": row["tokens"], "directions": f"{row['low']} to {row['high']}"}
             for row in ranks.rows],
        ),
    ])  # fmt: skip
