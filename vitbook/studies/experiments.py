"""What the page of experiments finds beyond the chapters' own evidence, and all runs as a table."""

from dataclasses import asdict

from vitbook import runs
from vitbook.runs import Claim, Evidence, PlannedRun, Result, read_experiments

DECIDE = ("model", "dataset", "share", "share_seed", "seed", "start", "teacher")
FOUND = ("accuracy", "data_passes", "parameters", "wall_time_s", "device", "commit")


def evidence() -> Evidence:
    rows = runs.read_all()

    def asked(experiment: str, model: str, **settings: object) -> list[Result]:
        found = runs.select(rows, experiment=experiment, model=model)
        return [row for row in found if settings.items() <= row.recipe.items()]

    flowers = asked("checkpoints", "vit_mini_patch4_32")
    return Evidence(
        (
            *_warm_up(asked),
            Claim(
                "A start from CIFAR-10",
                "On TF-Flowers, a ViT that has learned CIFAR-10 is better than a fresh one.",
                ("from CIFAR-10", "fresh"),
                [row for row in flowers if row.start.startswith("poster-")],
                [row for row in flowers if not row.start],
                note="All seeds start from one run on CIFAR-10.",
            ),
            *(
                Claim(
                    f"Positions, patches of {told}",
                    f"With patches of {told}, a ViT with positions is better than one without.",
                    ("with positions", "without"),
                    asked("scaling_digits", f"vit_micro_patch{side}_8", epochs=60),
                    asked("positions_digits", f"vit_nopos_micro_patch{side}_8"),
                )
                for told, side in (("one pixel", 1), ("4 × 4 pixels", 4))
            ),
        )
    )  # fmt: skip


def _warm_up(asked) -> list[Claim]:
    settings = dict(learning_rate=0.008, initialization="xavier")
    return [
        Claim(
            f"{told} without warm-up",
            f"At a peak rate of 0.008, {told} is worse without a warm-up than with four epochs.",
            ("no warm-up", "four epochs"),
            asked("normalization", model, warmup_epochs=0.0, **settings),
            asked("normalization", model, warmup_epochs=4.0, **settings),
            claimed=-1,
        )
        for told, model in (
            ("Post-LN", "vit_postnorm_micro_patch2_8"), ("Pre-LN", "vit_micro_patch2_8"),
        )
    ]  # fmt: skip


def table() -> list[dict[str, object]]:
    """A line for each run that was made, then for each that is planned, which has no accuracy.

    A run that several experiments ask for stands once, and names them all.
    """
    asked: dict[PlannedRun, list[str]] = {}
    for experiment in read_experiments():
        for run in dict.fromkeys(experiment.runs):
            asked.setdefault(run, []).append(experiment.name)
    made = [(PlannedRun.of(row), row) for row in runs.read_all()]
    planned = [(run, None) for run in asked.keys() - {run for run, _ in made}]
    planned.sort(key=lambda pair: (asked[pair[0]], pair[0].name))
    return [_line(run, row, asked.get(run, [])) for run, row in made + planned]


def _line(run: PlannedRun | None, row: Result | None, asked: list[str]) -> dict[str, object]:
    told, recipe = row or run, asdict(run.recipe) if run else dict(row.recipe)
    return {
        "experiment": ", ".join(asked or [told.experiment]),
        **{key: getattr(told, key) for key in DECIDE},
        "steps": run and run.steps,
        **{key: getattr(row, key, None) for key in FOUND},
        "recipe": recipe.pop("name"),
        **recipe,
    }
