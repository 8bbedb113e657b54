"""``vitbook measure detection``: the set loss beside its controls, in equal steps."""

from functools import partial
from typing import Annotated

import typer

from vitbook.runs import made_on
from vitbook.runs.measuring import Sheet, measurement
from vitbook.runs.tables import interval
from vitbook.studies.detection.canvases import SIDE, make_canvases
from vitbook.studies.detection.detector import Detector
from vitbook.studies.detection.kept import save_detector
from vitbook.studies.detection.training import ARMS, BATCH, RATE, learned_row

SUBJECT = "digits"
MAIN = "set loss"
SHOWN = {
    "arm": "{arm}", "seed": "{seed}", "AP50": "{ap50:.3f}", "AP": "{ap:.3f}",
    "duplicates": "{duplicates:.3f}", "recall at most": "{recall_at_most:.2f}",
    "seconds": "{seconds}",
}  # fmt: skip


@measurement(detection=SHOWN)
def detection(
    sheet: Sheet,
    steps: Annotated[int, typer.Option(min=1, help="Of each arm.")] = 3000,
    seeds: Annotated[int, typer.Option(min=1, help="Of each arm, from 0 on.")] = 1,
    canvases: Annotated[int, typer.Option(min=1, help="To learn from.")] = 16_000,
    held_out: Annotated[int, typer.Option(min=1, help="Canvases to ask.")] = 500,
) -> None:
    """Train small detectors of digits, with the loss of sets and with its controls.

    Beside the row the detector of the set loss, seed 0, is kept.
    """
    sheet.expect(SUBJECT)
    train, asked = make_canvases("train", canvases, 0), make_canvases("test", held_out, 2)
    about = {
        "images": f"{SIDE} x {SIDE} pixels with 1 to 5 digits of scikit-learn, 1 to 2 times as "
        "large; held-out canvases are made of held-out digits",
        "canvases": canvases, "held_out": held_out, "steps": steps, "batch": BATCH,
        "objects_held_out": sum(map(len, asked.objects)),
        "optimizer": f"AdamW, rate {RATE:g}, 5 % warm-up, linear to zero over the last 40 %",
        "ap50, ap": "COCO's average precision at IoU 0.5, and over 0.5 to 0.95; [all, low, high], "
        "95 % by a bootstrap over held-out canvases",
        "duplicates": "answers of a probability of 0.5 or more to an object beyond its first",
        "recall_at_most": "share of the held-out objects that so many queries can tell",
    }  # fmt: skip

    def keep(model: Detector, row: dict) -> None:
        kept = about | {key: row[key] for key in ("arm", "seed", "ap50", "ap")}
        save_detector(sheet.folder / "detection.safetensors", model, kept | made_on(sheet.device))

    rows = []
    for seed in range(seeds):
        for name in ARMS:
            kept = keep if (name, seed) == (MAIN, 0) else None
            make = partial(learned_row, keep=kept)
            rows.append(
                sheet.once(f"{name} {seed}", make, name, train, asked, steps, seed, sheet.device)
            )
            print(f"{name}, seed {seed}: AP50 {interval(rows[-1]['ap50'], '.3f')}", flush=True)
    sheet.write(SUBJECT, about, rows)
