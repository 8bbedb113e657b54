"""A prediction and its answer find one another."""

import vitbook_predictions
from docutils import nodes


def box(title="Predict", options=3):
    items = [nodes.list_item("", nodes.paragraph("", str(i))) for i in range(options)]
    listed = [nodes.enumerated_list("", *items)] if options else []
    return nodes.admonition("", nodes.title("", title), nodes.paragraph("", "What?"), *listed)


def said(words):
    return nodes.paragraph("", words)


def paired(*parts):
    document = nodes.document(None, None)
    document += nodes.section("", nodes.title("", "Head"), *parts)
    return [
        (parts.index(box), [parts.index(each) for each in answer])
        for box, answer in vitbook_predictions.pairs(document)
    ]


def test_the_first_paragraph_that_names_an_option_answers():
    assert paired(box(), said("A figure."), said("It rises (answer 3)."), said("More.")) == [
        (0, [2])
    ]


def test_what_goes_on_about_options_belongs_to_the_answer():
    parts = (box(), said("Answer 2 is right."), said("Answer 1 forgets."), said("So."))
    assert paired(*parts) == [(0, [1, 2])]


def test_each_box_has_its_own():
    parts = (box(), said("Answer 1."), said("On."), box(), said("Answers 1 and 3."))
    assert paired(*parts) == [(0, [1]), (3, [4])]


def test_a_puzzle_that_waits_gets_what_the_next_box_leaves():
    parts = (box(), said("Keep it."), box(), said("Answer 2."), said("Then."), said("Answer 3."))
    assert paired(*parts) == [(0, [5]), (2, [3])]


def test_other_boxes_tables_and_numbers_answer_nothing():
    other = nodes.admonition("", nodes.title("", "Note"), said("Answer 2."))
    assert paired(box("Note"), said("Answer 2.")) == []
    assert paired(box(options=0), said("Answer 2.")) == []
    assert paired(box(), other, said("Its 2 answers; the answer is 2."), said("answer 1")) == [
        (0, [3])
    ]


def test_a_box_without_an_answer_is_left_alone():
    assert paired(box(), said("A law settles it.")) == []
