"""A claim has its rows on a page outside the contents, and one without rows breaks the build."""

import io
import re
from dataclasses import replace

import pandas as pd
import pytest
import vitbook_evidence
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace

from vitbook import runs
from vitbook.runs import Claim, Evidence, LedgerError, Table

(SOME,) = (row for row in runs.read() if row.name == "digits-vit_micro_patch2_8-digits-seed0")


def rows(model, *accuracies):
    return [
        replace(SOME, model=model, seed=seed, accuracy=accuracy / 100)
        for seed, accuracy in enumerate(accuracies)
    ]


def claims():
    better = Claim(
        "Larger view", "Turned is better.", ("turned", "plain"),
        rows("turned", 80, 81, 82), rows("plain", 70, 71, 73), reported="it helps (poster).",
    )  # fmt: skip
    once = Claim("One run", "It is worse.", ("turned", "plain"), better.ours[:1], better.theirs[:1])
    return better, once


def test_a_table_without_lines_is_named():
    with pytest.raises(LedgerError, match="table 'Nobody here' has no lines: leave it out, or"):
        Table("Nobody here", "", [])


@pytest.fixture
def build(tmp_path, monkeypatch):
    def run(text, evidence):
        studies = {"chapter": "vitbook.of_chapter"}
        monkeypatch.setattr(vitbook_evidence, "studies", lambda function="evidence": studies)
        lines = [{"model": "plain", "accuracy": 0.7}, {"model": "turned", "accuracy": None}]
        functions = {"evidence": evidence, "table": lambda: lines}
        module = type("Study", (), {name: staticmethod(f) for name, f in functions.items()})
        monkeypatch.setattr(vitbook_evidence, "import_module", lambda name: module)
        vitbook_evidence.evidence_of.cache_clear()
        (tmp_path / "book").mkdir(exist_ok=True)
        (tmp_path / "book" / "chapter.md").write_text(f"# A chapter\n\n{text}\n")
        (tmp_path / "index.md").write_text("# All\n\n```{toctree}\nbook/chapter\n```\n")
        warnings = io.StringIO()
        with docutils_namespace():  # what one build registers, the next one would be warned of
            Sphinx(
                tmp_path, None, tmp_path / "html", tmp_path / "trees", "html", freshenv=True,
                status=None, warning=warnings, confoverrides={
                    "extensions": ["myst_nb", "vitbook_evidence"], "nb_execution_mode": "off",
                    "exclude_patterns": ["html", "trees"],
                },
            ).build()  # fmt: skip
        return tmp_path, warnings.getvalue()

    yield run
    vitbook_evidence.evidence_of.cache_clear()


def test_a_claim_in_the_chapter_leads_to_its_rows(build):
    root, warnings = build("It gains {evidence}`Larger view`.", lambda: Evidence(claims()))
    chapter = (root / "html/book/chapter.html").read_text()
    (href, told) = re.search(
        r'It gains <a [^>]*href="([^"]+)"[^>]*><span[^>]*>([^<]+)', chapter
    ).groups()
    assert href == "evidence/chapter.html#evidence-chapter-larger-view"
    assert told == "+9.7 points (+6.5 to +12.8), 3 seeds each"
    page = (root / "html/book/evidence/chapter.html").read_text()
    words = " ".join(re.sub("<[^>]*>", " ", page).split())
    assert (
        'id="evidence-chapter-larger-view"' in page
        and "evidence" in (root / "html/searchindex.js").read_text()
    )
    assert "that could be decided: 1." in words and "81.0 ± 1.0, 3 seeds" in words
    assert "80.00, 81.00, 82.00" in words and "1,320" in words and "it helps (poster)" in words
    assert "80.0 %, one run, ±4.2 by its test images" in words
    assert "Planned: in no plan." in words and "; p = 0.002, by Holm = 0.002" in words
    assert warnings == "" and not (root / "book/evidence").exists()


def test_a_claim_of_another_chapter_is_named_with_it(build):
    root, _ = build("{evidence}`Larger view <chapter>`", lambda: Evidence(claims()))
    told = (root / "html/book/chapter.html").read_text()
    assert 'href="evidence/chapter.html#evidence-chapter-larger-view"' in told
    with pytest.raises(ExtensionError, match="no study of draw has a function `evidence`"):
        build("{evidence}`Larger view <draw>`", lambda: Evidence(claims()))


def test_a_table_is_there_to_download(build):
    text = "{download}`CSV <evidence/chapter.csv>`, {download}`Parquet <evidence/chapter.parquet>`"
    root, warnings = build(text, lambda: Evidence(()))
    (csv,) = root.glob("html/_downloads/*/chapter.csv")
    (parquet,) = root.glob("html/_downloads/*/chapter.parquet")
    assert csv.read_text() == "model,accuracy\nplain,0.7\nturned,\n"
    assert pd.read_parquet(parquet).model.to_list() == ["plain", "turned"]
    assert "chapter.csv" not in warnings and not (root / "book/evidence").exists()


def test_a_claim_without_rows_breaks_the_build_and_is_named(build):
    def evidence():
        return Evidence([Claim("Nobody ran it", "It helps.", ("a", "b"), [], rows("b", 70))])

    with pytest.raises(ExtensionError, match=r"of chapter: claim 'Nobody ran it' .* no rows"):
        build("Text.", evidence)


def test_a_claim_that_no_study_makes_breaks_the_build(build):
    with pytest.raises(ExtensionError, match="no claim 'Smaller view': expected one of Larger"):
        build("{evidence}`Smaller view`", lambda: Evidence(claims()))


def test_unequal_steps_are_refused_or_their_reason_stands_on_the_page(build):
    longer = [
        replace(row, recipe=row.recipe | {"epochs": 120}) for row in rows("turned", 80, 81, 82)
    ]

    def evidence(**said):
        claim = Claim("Longer", "It helps.", ("a", "b"), longer, rows("plain", 70, 71, 73), **said)
        return Evidence([claim], [Table("Counts", "A note.", [{"model": "a", "said": "3"}])])

    with pytest.raises(ExtensionError, match="claim 'Longer' .* rows of unequal steps compared"):
        build("Text.", evidence)
    root, _ = build("Text.", lambda: evidence(unequal="both saw all images"))
    page = (root / "html/book/evidence/chapter.html").read_text()
    assert "Unequal steps, because both saw all images." in page and "A note." in page


def test_a_page_corrects_what_it_could_decide_together():
    near = Claim(
        "Nearly", "It helps.", ("a", "b"), rows("a", 60, 61, 62), rows("b", 57.5, 58.5, 59.5)
    )
    found = Evidence([*claims(), near])
    alone = near.test.p
    assert alone < 0.05 and found.chances["Nearly"] == pytest.approx(alone)
    assert found.chances["Larger view"] == pytest.approx(2 * found["Larger view"].test.p)
    many = Evidence([near, replace(near, name="Again"), replace(near, name="And again")])
    assert many.chances["Nearly"] == pytest.approx(3 * alone)
    assert found.verdict("One run") == "shows" and "One run" not in found.chances
    with pytest.raises(LedgerError, match="two of one name"):
        Evidence([near, near])


def test_near_the_ceiling_the_page_has_log_odds(build):
    high = Claim("High", "It helps.", ("a", "b"), rows("a", 99, 99.1), rows("b", 98, 98.3))
    root, _ = build("Text.", lambda: Evidence([high]))
    page = (root / "html/book/evidence/chapter.html").read_text()
    assert "At the ceiling:" in page and "In log-odds it is +0." in page
    decided = replace(high, in_log_odds=True)
    root, _ = build("Text.", lambda: Evidence([decided]))
    page = (root / "html/book/evidence/chapter.html").read_text()
    assert "Agrees:" in page and "Tested in log-odds: +0." in page
    assert "could be decided: 1" in page


def test_an_interaction_is_told_in_log_odds():
    better, once = claims()
    less = Claim(
        "Less", "The gain is larger.", ("a", "b"), rows("a", 90, 91, 92), rows("b", 89, 90.5, 91),
        than=better, claimed=-1,
    )  # fmt: skip
    assert re.fullmatch(r"−0\.\d\d log-odds \(−0\.\d\d to [−+]0\.\d\d\)", str(less))
    assert less.verdict() == "agrees" and less.verdict(chance=0.5) == "a lead for"
    with pytest.raises(LedgerError, match="single runs has no spread"):
        replace(less, than=once)


def test_a_small_chance_is_no_zero():
    assert [vitbook_evidence.chance(p) for p in (0.05, 0.001, 0.0001)] == [
        "= 0.050", "= 0.001", "< 0.001",
    ]  # fmt: skip
