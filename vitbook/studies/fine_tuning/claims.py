"""What the chapter on fine-tuning claims, with the runs behind it."""

from vitbook import runs
from vitbook.runs import Claim, Evidence
from vitbook.studies.fine_tuning import tables
from vitbook.studies.fine_tuning.checkpoints import ranked
from vitbook.studies.fine_tuning.ledger import ADAPTERS, FRESH_RATE, MINI, NAME, fresh, told, tuned

BLOCKS = {"train_from": "encoder.blocks.8"}


def evidence() -> Evidence:
    whole, few = tuned(), "735 photographs of 84 pixels, four epochs."
    adapted = tuned(**ADAPTERS)
    pairs = [
        f"{100 * (ours.accuracy - theirs.accuracy):+.1f}".replace("-", "−")
        for ours, theirs in zip(adapted, whole, strict=True)
    ]
    by_block, above = tuned(**BLOCKS), tuned("above_resolution", MINI, "vit_mini_patch4_32",
        image_size=48, epochs=6, learning_rate=1e-3)  # fmt: skip
    starts = {start: rows for start, _, rows in ranked()}
    claims = [
        Claim(
            "Rate of fresh weights",
            "At the learning rate of the fresh weights, pretrained weights end no better.",
            ("pretrained, 5e-4", "fresh, 5e-4"), tuned(learning_rate=FRESH_RATE), fresh(), -1,
            note=f"{few} The new heads have the rate 1e-3. No other rate was tried for the fresh "
            "model.",
        ),
        Claim(
            "Start",
            "At its own rate the pretrained model ends above the fresh one.",
            ("pretrained, 5e-5", "fresh, 5e-4"), whole, fresh(),
            note=f"{few} No other rate and no more steps were tried for the fresh model, which has "
            "hardly learned its own photographs.",
        ),
        Claim(
            "Adapters",
            "Low-rank adapters do better than all weights.",
            ("adapters", "all weights"), adapted, whole,
            reported="on par or better, of language models (Hu et al. 2022).",
            note=f"{few} Runs of one seed see the same batches from the same weights, and in pairs "
            f"adapters lead by {', '.join(pairs)} points. All weights at a third of the rate, "
            f"1.6e-5, have {told(tuned(learning_rate=1.6e-5))}: the rate may be what is compared.",
        ),
        Claim(
            "Pixels",
            "Twice the side, 168 pixels, is better than 84.",
            ("168 px", "84 px"), tuned(image_size=168), whole,
            reported="higher than in pre-training is often beneficial (Dosovitskiy et al. 2021).",
            note="735 photographs, four epochs, below the 518 pixels of pre-training. More pixels "
            "bring more detail and four times the tokens; which of the two helps is not told.",
        ),
        Claim(
            "Learned elsewhere",
            "The descendant of DINOv2, 42 pixels, ends above a ViT that learned CIFAR-10.",
            ("descendant", "ViT, CIFAR-10"), starts[NAME], starts[MINI],
            note="2,939 flowers, six epochs. The models differ in size, images and objective.",
        ),
        Claim(
            "CIFAR-10 first",
            "A ViT that learned CIFAR-10 ends above the same ViT with fresh weights.",
            ("CIFAR-10 first", "fresh"), starts[MINI], starts["vit_mini_patch4_32"],
            note="2,939 flowers of 32 pixels, six epochs, one rate.",
        ),
        Claim(
            "Head alone", "The head alone ends below all weights.",
            ("head alone", "all weights"), tuned(train_from="head"), whole, -1,
            note=f"{few} The head reads the last block.",
        ),
        Claim(
            "Four blocks", "The last four blocks alone do as well as all.",
            ("last four blocks", "all weights"), by_block, whole,
            note=f"{few} A gap as uncertain as this one does not show that both are equal.",
        ),
        Claim(
            "Rates that fall", "Rates that fall to 0.75 from block to block do better than one.",
            ("falling rates", "one rate"), tuned(layer_decay=0.75), whole,
            reported="used with BEiT (Bao et al. 2022).", note=few,
        ),
        Claim(
            "The paper's optimizer", "SGD does worse than AdamW.", ("SGD, 3e-3", "AdamW, 5e-5"),
            tuned(optimizer="sgd", learning_rate=3e-3, head_learning_rate=0.0, weight_decay=0.0),
            whole, -1, note=f"{few} One rate of SGD was tried; the ViT paper tries four.",
        ),
        *(
            Claim(
                f"Other task, {dataset}", f"Pretrained ends above fresh on {dataset}.",
                ("pretrained", "fresh"),
                tuned(name, image_size=84, batch_size=16, epochs=2),
                tuned(name, "", image_size=84, batch_size=16, epochs=2, learning_rate=FRESH_RATE),
                note="A tenth of the training images, two epochs. The head alone: "
                + told(tuned(name, image_size=84, batch_size=16, epochs=2, train_from="head")),
            )
            for name, dataset in (
                ("fine_tuning_cifar10", "CIFAR-10"), ("fine_tuning_tiny", "Tiny-ImageNet")
            )
        ),
    ]  # fmt: skip
    if above:
        claims.append(Claim(
            "Above the resolution of pre-training",
            "A ViT that learned from 32 pixels is better on flowers tuned at 48 pixels than at 32.",
            ("48 px", "32 px"), above, starts[MINI],
            reported="often beneficial (Dosovitskiy et al. 2021).",
            note="2,939 flowers, six epochs, one rate. 48 pixels hold more detail than 32.",
        ))  # fmt: skip
    lacking = runs.not_run(["above_resolution"])
    return Evidence(claims, tables.all_tables(), lacking)
