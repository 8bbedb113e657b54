"""What the chapter on rollout claims of trained runs, and the tables behind it."""

import torch
from jaxtyping import Float
from scipy.stats import rankdata
from torch import Tensor

import vitbook
from vitbook import analysis, datasets, runs
from vitbook.analysis.attention.rollout import roll_out
from vitbook.files import data_folder
from vitbook.runs import Claim, Evidence, Result, Table, not_run, read_experiments
from vitbook.studies.rollout.drawings import alike
from vitbook.studies.rollout.heads import NAME

MICRO, MINI = "vit_micro_patch2_8", "vit_mini_patch4_32"
MICRO_REGISTERS, MINI_REGISTERS = "vit_registers_micro_patch2_8", "vit_registers_mini_patch4_32"


# Experiment, share of the training images -> what it is about.
ARMS = {
    ("registers_digits", 1.0): ("registers, all digits", "digits"),
    ("registers_digits", 0.1): ("registers, 143 digits", "143 digits"),
    ("registers", 1.0): ("registers, photographs", "CIFAR-10"),
}


def evidence() -> Evidence:
    rows = runs.read_all()
    made, claims = runs.answers(rows), []
    for experiment in (each for each in read_experiments() if each.name.startswith("registers")):
        done = {run: made[run] for run in experiment.runs if run in made}
        for share in sorted({run.share for run in done}, reverse=True):
            name, images = ARMS[experiment.name, share]
            ours, theirs = (
                {row.seed: row for run, row in done.items()
                 if run.share == share and ("registers" in run.model) == has}
                for has in (True, False)
            )  # fmt: skip
            paired = sorted(ours.keys() & theirs.keys())
            if paired:
                claims.append(Claim(
                    name, f"Four registers raise the accuracy of a small ViT on {images}.",
                    ("4 registers", "none"), [ours[k] for k in paired], [theirs[k] for k in paired],
                ))  # fmt: skip
    left = not_run(("registers", "registers_digits"), rows)
    return Evidence(claims, [*_measured(), _readers(rows), _of_use()], left)


def _measured() -> list[Table]:
    tables = []
    for found in runs.measurements("sinks", NAME):
        most = sorted(found.rows, key=lambda row: -row["share"][0])
        layer_one = [row for row in found.rows if row["layer"] == 1 and row["weights"] == "trained"]
        shown = [*layer_one,
                 next(row for row in most if row["layer"] > 1 and row["weights"] == "trained"),
                 next(row for row in most if row["weights"] == "fresh")]  # fmt: skip
        lines = [
            {"weights": row["weights"], "layer": str(row["layer"]), "head": str(row["head"])}
            | {name: "{:.2f} ({:.2f} to {:.2f})".format(*row[key]) for name, key in (
                ("weight on one patch", "share"), ("its key", "key"), ("its value", "value"))}
            for row in shown
        ]  # fmt: skip
        tables.append(Table(
            "On one patch",
            "Pretrained ViT-S/14, nine photographs: mean, least and most. The patch is the one "
            "that gets most weight from all patches; the lengths of its key and value are those "
            "over the median patch's. All heads of layer 1, then the largest of the other layers "
            "and of a model with fresh weights. A sink that lets a head do nothing would have "
            "small values (Bondarenko et al. 2023): here they are large.", lines))  # fmt: skip
    for found in runs.measurements("test_time_registers", NAME):
        tables.append(Table(
            "A register that was never trained",
            "As in Jiang et al. 2025 a token of zeros stands behind the class token, and neurons "
            "of the MLPs act at it alone. Their neurons write the tokens of large norm; there are "
            "none here, so the ten are those most active at the sink of layer 1, head 6. That sink "
            "is made by the queries and keys of layer 1, before any MLP: neurons cannot move it. "
            "The zeros enter layer 1 too, and take nothing from it. Even attention would give a "
            "register 0.0039; ten moved neurons change the last tokens three times as much as "
            "zeros alone.",
            [{"register": row["register"], "weight that it draws": f"{row['drawn']:.4f}",
              "weight of the sink": f"{row['sink']:.2f}",
              "largest norm over median": f"{row['longest']:.2f}",
              "last tokens move by": f"{100 * row['moved']:.1f} %"} for row in found.rows],
        ))  # fmt: skip
    return tables


@torch.no_grad()
def _readers(rows: list[Result]) -> Table:
    """Of the shipped models with registers: how much attention these draw."""
    lines = []
    for row in rows:
        file = data_folder() / "checkpoints" / f"{row.name}.safetensors"
        if row.model not in (MICRO_REGISTERS, MINI_REGISTERS) or not file.exists():
            continue
        model = vitbook.load_checkpoint(row.name).model.eval()
        test = datasets.load(row.dataset, "test") if row.dataset == "digits" else None
        if test is None:  # photographs of its size, whatever they show
            test = datasets.load("photos", "all", image_size=model.spec.image_size)
        with analysis.capture_attention(model) as maps:
            model(datasets.normalize(test.images[:100]))
        prefix = model.num_prefix_tokens
        drawn = [layer[:, :, prefix:, 1:prefix].sum(-1).mean().item() for layer in maps.values()]
        even = (prefix - 1) / next(iter(maps.values())).shape[-1]
        lines.append({
            "model": row.model, "seed": str(row.seed), "even share": f"{even:.2f}",
            "share by layer": ", ".join(f"{each:.2f}" for each in drawn),
        })  # fmt: skip
    return Table(
        "Who reads the registers",
        "Attention of the patches on all four registers together, mean of heads and images, from "
        "the first layer to the last; beside what they would draw if all tokens drew alike.",
        lines,
    )


@torch.no_grad()
def _of_use() -> Table:
    digits = datasets.load("digits", "test")
    images = datasets.normalize(digits.images[:100])
    lines = []
    for seed in range(3):
        model = vitbook.load_checkpoint(f"digits-{MICRO}-digits-seed{seed}").model.eval()
        with analysis.capture_attention(model) as maps:
            logits = model(images)
        layers = [layer.mean(1) for layer in maps.values()]
        start = torch.eye(17)[:1].expand(len(images), -1)
        tokens, said = model.embed(images), logits.argmax(1, keepdim=True)
        falls = torch.stack([
            (logits - model.head(model.encoder(torch.cat([tokens[:, :i], tokens[:, i + 1:]], 1))))
            .gather(1, said)[:, 0] for i in range(1, 17)
        ], 1)  # fmt: skip
        found = {
            "last layer": layers[-1][:, 0, 1:], "rollout": roll_out(start, layers)[:, 1:],
            "mean of the layers, no product": torch.stack(layers)[:, :, 0, 1:].mean(0),
            "relevance": analysis.relevance(model, images).flatten(1),
        }  # fmt: skip
        lines.append({"seed": str(seed)} | {
            name: f"{alike(_ranks(each), _ranks(falls)).nanmean():.2f}"
            for name, each in found.items()
        })  # fmt: skip
    return Table(
        "Is a bright patch used?",
        "Digits, three models, 100 held-out images: rank correlation over the 16 patches of a map "
        "with the fall of the answer's logit when the patch's token is left out. The product of "
        "the layers says no more than their mean.", lines)  # fmt: skip


def _ranks(maps: Float[Tensor, "images patches"]) -> Float[Tensor, "images patches"]:
    return torch.tensor(rankdata(maps.double().round(decimals=6).numpy(), axis=1))
