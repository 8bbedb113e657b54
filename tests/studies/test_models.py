from vitbook.published_counts import audit
from vitbook.studies.models import to_html


def test_the_page_says_what_the_command_says():
    row = dict(quantity="macs", model="vit_s16_t2t", printed="10.1 G", value=10.1e9)
    html = to_html(audit([row | {"source": "a paper", "why": "a <reason>"}]))
    cells = ("vit_<wbr>s16_<wbr>t2t", "10.1 G", "9.89 G", "contradicts")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in html
    assert ">a paper</th>" in html
    assert "a &lt;reason&gt;" in html and html.count("<tr>") == 4
