import vitbook
from vitbook.published_counts import audit
from vitbook.studies import models as study


def test_the_table_has_what_is_counted(monkeypatch):
    names = ("vit_micro_patch2_8", "resnet20")
    monkeypatch.setattr(vitbook, "list_models", lambda: names)
    first, second = study.table()
    assert first == {
        "model": "vit_micro_patch2_8", "parameters": 136_138, "multiply_adds": 2_380_928,
        "image_size": 8, "channels": 1, "classes": 10, "rows": 4, "columns": 4,
    }  # fmt: skip
    assert second["model"] == "resnet20" and first.keys() == second.keys()


def test_the_evidence_has_what_the_command_says():
    row = dict(quantity="macs", model="vit_s16_t2t", printed="10.1 G", value=10.1e9)
    figures = audit([row | {"source": "A paper, table 3", "why": "A reason."}])
    table = study._printed("A paper", figures)
    assert table.note == "contradicts 1."
    assert table.lines == [{
        "model": "vit_s16_t2t", "printed": "10.1 G MACs", "counted": "9.89 G",
        "verdict": "contradicts", "where, and why": "table 3. A reason",
    }]  # fmt: skip
