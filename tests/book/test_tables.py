"""Tables have one style, whoever wrote them."""

import pytest
import vitbook_tables
from bs4 import BeautifulSoup


def table(head, *rows, name="td", attributes='border="1" class="dataframe"'):
    heads = "".join(f"<th>{word}</th>" for word in head)
    lines = [
        f"<thead><tr style='text-align: right;'>{heads}</tr></thead>",
        "<tbody>",
        *(
            f"<tr><{name}>{first}</{name}>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>"
            for first, *rest in rows
        ),
        "</tbody>",
    ]
    return f"<table {attributes}>{''.join(lines)}</table>"


def tidy(*args, **options):
    return BeautifulSoup(vitbook_tables.tidy(table(*args, **options)), "html.parser").table


def words(tag):
    return [[cell.get_text() for cell in row.find_all(["td", "th"])] for row in tag.find_all("tr")]


def numbers(tag):
    return ["vb-number" in cell.get("class", []) for cell in tag.find("tr").find_all("th")]


@pytest.mark.parametrize("names", ["012", ["", "", ""]])
def test_an_index_that_only_counts_goes(names):
    drawn = tidy(["", "model"], *([name, "a"] for name in names), name="th")
    assert words(drawn) == [["model"], ["a"], ["a"], ["a"]]
    assert not drawn.get("border") and not drawn.find(style=True)


@pytest.mark.parametrize("names", ["123", "abc", "021"])
def test_an_index_that_says_something_stays(names):
    drawn = tidy(["", "model"], *([name, "a"] for name in names), name="th")
    assert [row[0] for row in words(drawn)] == ["", *names]


def test_the_name_of_an_index_is_a_head_and_no_line():
    html = table(["measured", "a", "b"], ["x", "1", "2"], name="th")
    html = html.replace("</thead>", "<tr><th>model</th><th></th><th></th></tr></thead>")
    drawn = BeautifulSoup(vitbook_tables.tidy(html), "html.parser").table
    assert words(drawn) == [["model", "a", "b"], ["x", "1", "2"]]


def test_numbers_stand_to_the_right_and_words_do_not():
    head = ["name", "MACs", "mixed", "interval", "seeds", "gain"]
    rows = (
        ["ViT", "17.6 G", "1", "-0.8 (-1.4 to +0.1)", "98.0, 98.6", "-1.5%"],
        ["T2T", "-", "about 2", "+3.8 [2.6, 5.0]", "97.7 98.0", ".93"],
    )
    drawn = tidy(head, *rows)
    assert numbers(drawn) == [False, True, False, True, True, True]
    assert words(drawn)[1][3:] == ["−0.8 (−1.4 to +0.1)", "98.0, 98.6", "−1.5%"]
    assert words(drawn)[2][1] == "–"


def test_a_minus_is_no_hyphen():
    cells = ["x-y", "T2T-ViT-14", "a -5", "128-736", "<code>-1</code>", '<a href="#">-1</a>', "e-5"]
    drawn = tidy(["what"], *([cell] for cell in cells))
    assert [row[0] for row in words(drawn)[1:]] == [
        *("x-y", "T2T-ViT-14", "a −5", "128–736", "-1", "-1", "e-5")
    ]


def test_numbers_of_sections_are_no_amounts():
    drawn = tidy(["see"], ['<a href="#1">1</a>, <a href="#2">2</a>'])
    assert numbers(drawn) == [False]


def test_a_phone_gets_a_row_at_a_time_where_columns_do_not_fit():
    wide = tidy(["reported", "holds when", "verdict"], ["w" * 30, "x" * 30, "agrees"])
    assert "vb-stack" in wide["class"] and wide["role"] == "table"
    cells = wide.tbody.find_all("td")
    assert [cell["data-of"] for cell in cells] == ["reported", "holds when", "verdict"]
    assert {cell["role"] for cell in cells} == {"cell"}
    narrow = tidy(["", "0", "1"], ["a", "1", "2"], ["b", "3", "4"], name="th")
    assert "vb-stack" not in narrow["class"] and not narrow.get("role")


def test_tables_of_uneven_rows_and_of_the_reference_stay_as_they_are():
    uneven = table(["a"], ["1", "2"], ["3"])
    assert numbers(BeautifulSoup(vitbook_tables.tidy(uneven), "html.parser").table) == [False]
    names = table(["a"], ["-1"], attributes='class="vb-names"')
    assert vitbook_tables.tidy(names) == names


def test_mathematics_and_links_survive():
    html = table(["a", "b"], [r"\(\tau^2 &lt; 1\)", '<a href="x.html">x &amp; y</a>'])
    tidied = vitbook_tables.tidy(html)
    assert r"\(\tau^2 &lt; 1\)" in tidied and '<a href="x.html">x &amp; y</a>' in tidied


def test_a_formula_is_left_to_mathjax_and_a_style_to_the_browser():
    formula = r'<span class="math notranslate nohighlight">\(10 ^ -5\)</span>'
    drawn = tidy(["a", "b"], [formula, "<style>p { margin: -1px }</style>-2"])
    assert words(drawn)[1] == [r"\(10 ^ -5\)", "\u22122"] and "margin: -1px" in drawn.style.string


def test_a_hyphen_that_is_code_stays_code():
    drawn = tidy(["a", "b"], ["<code>-</code>", "-"])
    assert words(drawn)[1] == ["-", "\u2013"] and drawn.code


def test_a_matrix_keeps_the_names_of_its_rows():
    drawn = tidy(["", "0", "1"], ["0", "8", "2"], ["1", "3", "7"], name="th")
    assert words(drawn) == [["", "0", "1"], ["0", "8", "2"], ["1", "3", "7"]]


def test_a_column_without_a_name_says_no_name_on_a_phone():
    drawn = tidy(["model", "", "verdict"], ["w" * 30, "x" * 30, "agrees"])
    assert [cell.get("data-of") for cell in drawn.tbody.find_all("td")] == [
        "model",
        None,
        "verdict",
    ]
