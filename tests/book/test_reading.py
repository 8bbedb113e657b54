"""What a reader meets beside the text: predictions, plots, tables, and the way through the book."""

import re

import pytest
from built import BUILD, CONTENT, CONTENTS, NEEDS_PAGES, soup


def pages_with(name: str) -> list[str]:
    """Those on which something is of that class, found before any page is parsed."""
    of_class = re.compile(rf'class="[^"]*{name}\b')
    return [page for page in CONTENT if of_class.search((BUILD / page).read_text("utf-8"))]


ASKING, PLOTTED = pages_with("vb-predict"), pages_with("vb-plot")
NUMBERED = [page["file"] for part in CONTENTS if "numbered" in part for page in part["chapters"]]
pytestmark = NEEDS_PAGES


@pytest.mark.parametrize("name", CONTENT)
def test_each_prediction_has_an_answer_of_its_own(name):
    boxes = [
        box
        for box in soup(name).select(".admonition")
        if box.p.get_text(strip=True) == "Predict" and box.ol
    ]
    for number, box in enumerate(boxes, 1):
        assert f"vb-predict-{number}" in box["class"], (
            f"no paragraph after box {number} names an option"
        )
        answers = soup(name).select(f".vb-answers-{number}")
        assert answers and answers[0].sourceline >= box.sourceline


def test_a_choice_opens_the_answer_and_is_remembered(visitor):
    with visitor.page("book/attention.html") as page:
        box, answer = page.locator(".vb-predict").first, page.locator(".vb-answer-fold").first
        assert not answer.evaluate("e => e.open")
        name = box.locator("p:not(.admonition-title)").first.inner_text()
        assert page.get_by_role("radiogroup", name=name, exact=True).count() == 1
        box.locator("label").nth(1).click()
        assert answer.evaluate("e => e.open") and "you chose 2" in answer.inner_text()
        assert "You chose 2" in box.locator("[role=status]").inner_text()
        box.locator("input").nth(1).press("ArrowDown")
        assert "you chose 3" in answer.inner_text()
        page.reload()
        assert page.locator(".vb-predict input:checked").get_attribute("value") == "3"
        assert page.locator(".vb-answer-fold[open]").count() == 1
        assert page.troubles == []


def test_an_answer_opens_without_a_choice_and_by_a_link_into_it(visitor):
    with visitor.page("book/vit.html") as page:
        folds = page.locator(".vb-answer-fold")
        folds.first.locator("summary").click()
        assert folds.first.evaluate("e => e.open") and "chose" not in folds.first.inner_text()
        page.evaluate("location.hash = document.querySelectorAll('.vb-answer-fold')[1].id")
        page.wait_for_function("document.querySelectorAll('.vb-answer-fold')[1].open")


@pytest.mark.parametrize("name", ASKING[:1])
def test_without_scripts_the_answer_stands_in_the_text(visitor, name):
    with visitor.page(name, scripts=False) as page:
        assert page.locator(".vb-answered").first.is_visible()
        assert page.locator(".vb-predict input").count() == 0


@pytest.mark.parametrize("name", ASKING[:1])
def test_a_lone_percent_in_the_address_breaks_nothing(visitor, name):
    with visitor.page(f"{name}#%E0%A4%A") as page:
        page.evaluate("location.hash = 'prediction-1'")
        page.wait_for_function("document.getElementById('prediction-1').open")
        assert page.troubles == []


def shades(page, name):
    """Of each word of these, and of what is behind it, how light it is: from 0 to 255."""
    return page.locator(name).evaluate_all("""all => all.map((element) => {
      const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + b / 3, 0);
      let behind = element;
      const paper = () => getComputedStyle(behind).backgroundColor;
      while (behind.parentElement && /, 0\\)/.test(paper())) behind = behind.parentElement;
      return [light(getComputedStyle(element).color), light(paper())];
    })""")


@pytest.mark.parametrize("name", PLOTTED[:1])
def test_code_can_be_read_without_scripts_where_all_is_dark(visitor, name):
    with visitor.page(name, scripts=False, scheme="dark") as page:
        assert page.locator("html").get_attribute("data-theme") == "light"
        assert all(abs(ink - paper) > 90 for ink, paper in shades(page, ".cell_input pre span"))


@pytest.mark.parametrize("name", PLOTTED[:1])
def test_paper_from_a_dark_page_has_dark_words_and_all_plots(visitor, name):
    with visitor.page(name, scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        for ink, paper in shades(page, "article :is(p, td, th, li)"):
            assert abs(ink - paper) > 90
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.wait_for_function(
            "[...document.querySelectorAll('.vb-light img')].every((i) => i.naturalWidth > 0)"
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PLOTTED[:1])
def test_a_plot_is_shown_once_in_the_colours_of_the_page(visitor, name, scheme):
    with visitor.page(name, scheme=scheme) as page:
        for shown in ("light", "dark"):
            plots = page.locator(f"picture.vb-{shown}")
            assert plots.count() and all(
                each.is_visible() == (shown == scheme) for each in plots.all()
            )
        images = page.locator(f"picture.vb-{scheme} img").all()
        for image in images:
            image.scroll_into_view_if_needed()
            page.wait_for_function(
                "i => i.complete && i.naturalWidth > 0", arg=image.element_handle()
            )


@pytest.mark.parametrize("name", CONTENT)
def test_no_plot_is_a_photograph_of_one(name):
    outputs = soup(name).select(".cell_output img")
    assert not [i["src"] for i in outputs if re.search(r"_images/\w{64}\.(png|webp)", i["src"])]


@pytest.mark.parametrize("name", PLOTTED)
def test_plots_are_drawn_with_the_words_of_the_page(name):
    for image in soup(name).select("picture.vb-plot img, picture.vb-wide img"):
        text = (BUILD / name).parent.joinpath(image["src"]).resolve().read_text("utf-8")
        assert "<text" in text and "DejaVu" not in text


def test_a_phone_gets_a_plot_of_its_own_width(visitor):
    with visitor.page(PLOTTED[0], width=390) as page:
        image = page.locator("picture.vb-plot.vb-light img").first
        image.scroll_into_view_if_needed()
        small = image.evaluate("i => [i.currentSrc, i.getBoundingClientRect().width]")
        source = image.evaluate("i => i.closest('picture').querySelector('source').srcset")
        assert small[0].endswith(source.rpartition("/")[2]) and 250 < small[1] <= 390


def test_long_names_of_code_fit_a_window_of_320_pixels(visitor):
    for name in ("book/attention.html", "book/experiments.html"):
        with visitor.page(name, width=320) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("name", CONTENT)
def test_tables_have_no_counted_index_and_a_true_minus(name):
    for table in soup(name).select("article table:not(.vb-names)"):
        rows = [row.find_all(["td", "th"]) for row in table.select("tbody tr")]
        first = [row[0].get_text(strip=True) for row in rows if row]
        if not table.th or not table.th.get_text(strip=True):
            assert len(first) < 2 or first != [str(place) for place in range(len(first))]
        words = " ".join(
            text for text in table.find_all(string=True) if not text.find_parent(["code", "a"])
        )
        assert not re.search(r"(?<![\w.)\]])-\.?\d", words)


def test_a_chapter_read_to_its_end_has_a_tick(visitor):
    with visitor.page("book/pitfalls.html") as page:
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        page.wait_for_function("document.querySelector('.bd-links a.vb-read')")
        page.goto(f"{visitor.site}/book/vit.html")
        ticked = page.locator(".bd-links a.vb-read")
        assert ticked.count() == 1 and "pitfalls" in ticked.get_attribute("href")
        assert page.troubles == []


def test_every_chapter_has_its_thumbnail_on_the_front_page():
    entries = soup("book/intro.html").select(".vb-chapters li")
    assert [f"book/{entry.a['href'].removesuffix('.html')}" for entry in entries] == NUMBERED
    for entry in entries:
        assert entry.img["alt"] == "" and entry.img["loading"] == "lazy" and entry.a.get_text()
