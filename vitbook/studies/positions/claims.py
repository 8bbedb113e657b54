"""What the chapter on positions claims, and the rows behind it."""

from vitbook import datasets, runs
from vitbook.runs import Claim, Evidence, Result, Table, get_recipe
from vitbook.studies.positions.measures import SIZES, continued, lines_of_sizes, share_read
from vitbook.training import AtScale

# What the chapter calls a kind of position -> how names of its models begin.
KINDS = {
    "1-D table": "vit", "2-D table": "vit_pos2d", "2-D relative positions": "vit_relpos2d",
    "2-D sinusoids": "vit_sinusoid2d", "2-D rotary positions": "vit_rope",
}  # fmt: skip
# Curves of the figure of sizes -> the kind of position of 64 tokens, and how it is carried.
CARRIED = {
    "2-D table, interpolated": ("2-D table", "carried"),
    "2-D sinusoid, interpolated": ("2-D sinusoids", "carried"),
    "rotary, stretched": ("2-D rotary positions", "carried"),
    "rotary, continued": ("2-D rotary positions", "continued"),
    "control: patches shuffled": ("2-D rotary positions", "shuffled"),
}


def carried(found: AtScale) -> dict[str, list[tuple[int, float, float, float]]]:
    """Kind of position -> (pixels, mean, least and most of the seeds' accuracies in percent).

    Of digits it was measured, by ``vitbook measure resolutions``; of photographs it is here.
    """
    curves, page = {}, found.scale == "page"
    (kept,) = runs.measurements("resolutions", "digits")
    test = None if page else found.dataset()
    for name, (kind, way) in CARRIED.items():
        if page:
            model = f"{KINDS[kind]}_micro_patch1_8"
            rows = [row for row in kept.rows if (row["model"], row["way"]) == (model, way)]
            sizes, seeds = SIZES, [row["accuracy"] for row in rows]
        else:
            sizes = [test.images.shape[-1] // 8 * size for size in SIZES]
            seeds = [[_read(found, kind, seed, way, test, size) for size in sizes]
                     for seed in found.seeds]  # fmt: skip
        of_sizes = zip(*([100 * share for share in shares] for shares in seeds), strict=True)
        curves[name] = [
            (size, sum(read) / len(read), min(read), max(read))
            for size, read in zip(sizes, of_sizes, strict=True)
        ]
    return curves


def _read(
    found: AtScale, kind: str, seed: int, way: str, test: datasets.Dataset, size: int
) -> float:
    model = found.model(kind, seed, image_size=size)
    if way == "continued":
        model = continued(model, found.model(kind, seed).grid_size).to(found.device)
    return share_read(model, test, shuffled=way == "shuffled")


def _digits(body: str, patch: int) -> list[Result]:
    rows = runs.read(dataset="digits", recipe=get_recipe("digits"))
    return runs.select(rows, model=f"{body}_micro_patch{patch}_8")


def _photos(body: str) -> list[Result]:
    """Of 250,000 images shown; the table's seed 0 stands among the runs of another question."""
    asked = ("positions_photographs", "data_size")
    rows = [row for row in runs.read() if row.experiment in asked]
    return runs.select(rows, model=f"{body}_mini_patch4_32")


def read_by_kind(found: AtScale) -> dict[str, tuple[float, float, float]]:
    """Kind -> read with 64 tokens, in %: mean, least and most of the seeds."""
    of_kinds = {kind: [100 * row.accuracy for row in found.rows(kind)] for kind in KINDS}
    return {kind: (sum(read) / len(read), min(read), max(read)) for kind, read in of_kinds.items()}


def evidence() -> Evidence:
    claims = [
        Claim(
            f"Patches of {patch} × {patch} pixels",
            f"With a 1-D table and patches of {patch} × {patch} pixels, more digits are read than "
            "without positions.",
            ("1-D table", "no positions"), _digits("vit", patch), _digits("vit_nopos", patch),
        )
        for patch in (2, 4, 1)
    ]  # fmt: skip
    claims += [
        Claim(
            f"{kind[0].upper()}{kind[1:]} at one pixel a token",
            f"At one pixel a token, a model with {kind} reads more digits than one with a table.",
            (kind, "1-D table"), _digits(body, 1), _digits("vit", 1),
        )
        for kind, body in KINDS.items() if kind != "1-D table" and _digits(body, 1)
    ]  # fmt: skip
    if rotary := _photos("vit_rope"):
        claims.append(
            Claim(
                "2-D rotary positions on photographs",
                "On CIFAR-10, a model with rotary positions reads more than one with a 1-D table.",
                ("2-D rotary positions", "1-D table"), rotary, _photos("vit"),
            )
        )  # fmt: skip
    claims += [
        Claim(
            "Windows that overlap",
            "Without positions, more digits are read with windows of 4 × 4 pixels that step by two "
            "than with cut patches of 2 × 2.",
            ("overlap", "cut"), _digits("vit_overlap_nopos", 2), _digits("vit_nopos", 2),
        ),
        Claim(
            "Windows that overlap, wrapped around",
            "The same where the image is wrapped around, so that no zeros show the border.",
            ("wrapped", "cut"), _digits("vit_overlap_wrapped_nopos", 2), _digits("vit_nopos", 2),
        ),
    ]  # fmt: skip
    asked = ("positions_pixels", "positions_photographs")
    missing = runs.not_run(asked)
    return Evidence(claims, [_kinds(), _printed(), _mirrored(), _carried()], missing)


def _kinds() -> Table:
    kinds = {
        "none": "nopos", "1-D": "", "2-D": "pos2d", "sinusoid, 2-D": "sinusoid2d",
        "relative, 1-D": "relpos", "relative, 2-D": "relpos2d", "rotary, 2-D": "rope",
        "1-D in every layer": "layerpos", "1-D in every layer, shared": "sharedpos",
        "2-D in every layer": "layerpos2d", "2-D in every layer, shared": "sharedpos2d",
    }  # fmt: skip
    lines = []
    for kind, name in kinds.items():
        rows = _digits(f"vit_{name}".removesuffix("_"), 2)
        accuracies = [100 * row.accuracy for row in rows]
        lines.append({"positions": kind, "read": str(runs.summary(accuracies, 355))})
    return Table(
        "Kinds of positions where all are good enough",
        "Digits in patches of 2 × 2 pixels, 60 epochs. All but *none* are at the ceiling, so "
        "that this table does not rank them.",
        lines,
    )


def _printed() -> Table:
    lines = [
        {"positions": row["positions"], "added": row["fed"], "5-shot": f"{row['value']:.5f}"}
        for row in runs.published(quantity="5-shot accuracy")
    ]
    return Table(
        "The ViT paper's positions",
        "Dosovitskiy et al. 2021, appendix D.4: ViT-B/16, a linear head fitted to five images of "
        "each class of ImageNet. One run each.",
        lines,
    )


def _mirrored() -> Table:
    (kept,) = runs.measurements("mirrors", "cifar10")
    rows = {row.name: row for row in runs.read(few=True) if row.experiment == "positions_flip"}
    return Table(
        "Mirrored positions are alike, with flips and without",
        "Mean cosine of positions that mirror each other, minus that of others as far apart, in "
        "the table of a model of half the mini's width after five epochs of 10,000 photographs. "
        "Every seed has the mirror left and right, with flips and without, and none has it top and "
        "bottom. What of the photographs makes it is open.",
        [
            {
                "run": line["run"], "flips": "half" if rows[line["run"]].recipe["flip"] else "none",
                "left and right": f"{line['across']:.2f}", "top and bottom": f"{line['down']:.2f}",
            }
            for line in kept.rows if line["run"] in rows
        ],
    )  # fmt: skip


def _carried() -> Table:
    (kept,) = runs.measurements("resolutions", "digits")
    return Table(
        "Digits larger and smaller than those that were learned",
        "Digits of the test set, by `vitbook measure resolutions`; learned at 8 pixels. "
        "*Carried*: tables and sinusoids interpolated, angles stretched over the grid. "
        "*Continued*: angles in the steps of before. *Shuffled*: the control. Enlarged digits are "
        "smoother, as those that training turns: perhaps that is why more are read. With patches "
        "of 2 × 2 pixels, a larger image changes what a patch shows, and a table carries as well "
        "as rotary positions.",
        lines_of_sizes(kept.rows),
    )
