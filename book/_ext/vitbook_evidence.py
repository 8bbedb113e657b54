"""Evidence pages: what a chapter claims, with every run behind it.

A study that has a function ``evidence`` gives `book/evidence/<chapter>`: a page outside the
contents that the search finds. It is written before Sphinx looks for its sources, and taken away
afterwards. In the chapter ``{evidence}`a claim``` is the claim's number, and leads to its rows;
``{evidence}`a claim <chapter>``` does so from elsewhere.

A study that has a function ``table`` gives its lines to download, as `book/evidence/<chapter>.csv`
and `.parquet`.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pandas as pd
from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import ReferenceRole

from vitbook.files import modules_saying
from vitbook.runs import Claim, Evidence, LedgerError, Result

FOLDER = "book/evidence"
READING = """
**How to read it.** After several seeds, "±" is the standard deviation between them. After one run
it is half of a 95 % interval, and says how far the choice of the test images alone may have moved
the number. Brackets are 95 % intervals over seeds, by Welch's t, of all seeds that the ledger has.
A seed draws the first weights, the order of the images and their changes. It draws neither the test
images nor, where a share of the data is trained on, that share: all runs have the same. So brackets
hold the luck of neither. *Epochs*: how often an image of the training was shown, on average.

**Verdicts.** Comparisons of this page that could be decided: {number}. They have two seeds or more
on both sides, and a baseline (the second side) that is not above 97 %, so which they are does not
depend on how they came out. Where all baselines of a page are above it, the logarithms of right to
wrong answers (log-odds) are tested instead, and each claim says so. They are corrected together
(Holm). *Agrees*, *contradicts*: the interval lies on one side of zero, and the corrected p is below
0.05. *A lead*: only the uncorrected p is. *Open*: the interval holds zero, so a difference is not
shown, and not excluded. *Shows*: one run, which decides nothing. *At the ceiling*: the baseline is
above 97 %, where points decide nothing.
"""


@cache
def studies(function: str = "evidence") -> dict[str, str]:
    """Chapter -> the module that has its evidence, or another function of this name."""
    found = modules_saying("vitbook.studies", f"\ndef {function}(")
    return {name.split(".")[2]: name for name in found}


@cache
def evidence_of(chapter: str) -> Evidence:
    """
    Raises:
        ExtensionError: no such study, or a claim without rows; names it.
    """
    if chapter not in studies():
        raise ExtensionError(f"no study of {chapter} has a function `evidence`: write one")
    try:
        return import_module(studies()[chapter]).evidence()
    except LedgerError as error:
        raise ExtensionError(f"evidence of {chapter}: {error}") from error


def label(chapter: str, name: str) -> str:
    return nodes.make_id(f"evidence-{chapter}-{name}")


def link(chapter: str, claim: Claim) -> str:
    return f"[{claim.name}](#{label(chapter, claim.name)})"


def page(chapter: str, evidence: Evidence) -> Iterator[str]:
    """The page's Markdown, in blocks."""
    yield f"---\norphan: true\n---\n\n# Evidence: {chapter.replace('_', ' ')}"
    yield (
        f"Every run behind the chapter {{doc}}`../{chapter}`, taken from the book's ledger when "
        "this page was built. It is not needed to follow the chapter."
    )
    if evidence.claims:
        yield READING.strip().format(number=len(evidence.chances))
        yield table(
            {
                "claim": link(chapter, claim),
                "difference": str(claim),
                "verdict": evidence.verdict(claim.name),
            }
            for claim in evidence.claims
        )
    for claim in evidence.claims:
        yield f"({label(chapter, claim.name)})=\n## {claim.name}"
        yield from section(chapter, claim, evidence)
    for one in evidence.tables:
        yield f"## {one.title}"
        yield one.note
        yield table(one.lines)
    if evidence.not_run:
        yield "## What was not run"
        yield "Hours by the rate of the same question's other runs, on the machine that made them."
        yield table(evidence.not_run)


def section(chapter: str, claim: Claim, evidence: Evidence) -> Iterator[str]:
    found = claim.comparison
    yield claim.sentence
    yield f"**{evidence.verdict(claim.name).capitalize()}:** {claim}{chances(claim, evidence)}."
    if claim.reported:
        yield f"Reported: {claim.reported}"
    sides = zip(claim.sides, (claim.ours, claim.theirs), (0, 1), strict=True)
    yield table(
        {
            "runs": f"{name}<br>`{rows[0].model}`",
            "accuracy": str((found.ours, found.theirs)[side]),
            "each seed": each_seed(rows),
            "steps": f"{found.steps[side]:,}",
            "epochs": f"{found.passes[side]:.1f}",
        }
        for name, rows, side in sides
    )
    notes = [f"Unequal steps, because {found.unequal}."] if found.unequal else []
    if claim.than:
        notes.append(f"Against {link(chapter, claim.than)}: {claim.than}.")
    if claim.in_log_odds and claim.test:
        notes.append(f"Tested in log-odds: {claim.test.told(2)}.")
    elif found.at_ceiling and found.odds:
        notes.append(f"In log-odds it is {found.odds.told(2)}, uncorrected.")
    planned = [f"`{name}` on {day}" for name, day in claim.planned.items()]
    if any(not row.experiment for row in (*claim.ours, *claim.theirs)):
        planned.append("some runs in no plan" if planned else "in no plan")
    notes.append(f"Planned: {', '.join(planned)}.")
    if claim.verdict() in ("open", "shows") and not claim.than and found.needs:
        notes.append(f"A gap of this size needs {found.needs} (power 80 %).")
    yield " ".join((*notes, claim.note)).strip()


def chances(claim: Claim, evidence: Evidence) -> str:
    if claim.name not in evidence.chances:
        return ""
    alone, corrected = map(chance, (claim.test.p, evidence.chances[claim.name]))
    return f"; p {alone}, by Holm {corrected}"


def chance(p: float) -> str:
    return f"= {p:.3f}" if p >= 0.001 else "< 0.001"


def each_seed(rows: Iterable[Result]) -> str:
    rows = sorted(rows, key=lambda row: row.seed)
    return ", ".join(f"{100 * row.accuracy:.2f}" for row in rows)


def table(lines: Iterable[dict[str, str]]) -> str:
    lines = list(lines)
    rows = [list(lines[0]), ["---"] * len(lines[0]), *(list(line.values()) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


class EvidenceRole(ReferenceRole):
    """A claim's number, which leads to its rows; with another chapter's name, of that one."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        here = Path(self.env.docname).name
        chapter = self.target if self.has_explicit_title else here
        try:
            claim = evidence_of(chapter)[self.title]
        except LedgerError as error:
            raise ExtensionError(f"{self.env.docname}, line {self.lineno}: {error}") from error
        link = addnodes.pending_xref(
            "", nodes.inline("", str(claim)), refdomain="std", reftype="ref", refexplicit=True,
            reftarget=label(chapter, claim.name), refdoc=self.env.docname, refwarn=True,
        )  # fmt: skip
        return [link], []


def write_pages(app) -> None:
    """For each chapter of the contents whose study has evidence, or a table."""
    folder = Path(app.srcdir) / FOLDER
    contents = getattr(app.config, "external_site_map", None)

    def told(function: str) -> Iterator[tuple[str, str]]:
        for chapter, study in studies(function).items():
            if contents is None or f"book/{chapter}" in contents:
                folder.mkdir(parents=True, exist_ok=True)
                yield chapter, study

    for chapter, _ in told("evidence"):
        text = "\n\n".join(page(chapter, evidence_of(chapter))) + "\n"
        (folder / f"{chapter}.md").write_text(text, encoding="utf-8")
    for chapter, study in told("table"):
        frame = pd.DataFrame(import_module(study).table())
        frame.to_csv(folder / f"{chapter}.csv", index=False)
        frame.to_parquet(folder / f"{chapter}.parquet", index=False)


def remove_pages(app, *_) -> None:
    folder = Path(app.srcdir) / FOLDER
    for path in folder.glob("*"):
        path.unlink()
    if folder.is_dir():
        folder.rmdir()


def setup(app):
    app.add_role("evidence", EvidenceRole())
    # The contents leave out what is there before them; what is written after them stays a page.
    app.connect("config-inited", remove_pages, priority=100)
    app.connect("builder-inited", write_pages)
    app.connect("build-finished", remove_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
