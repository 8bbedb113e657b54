"""The pretrained model in the built page: seconds to load, and from a stroke to its answer.

One thread of WebAssembly in headless Chromium, from a server on this machine. Megabytes are what is
fetched; the seconds mean something only beside the machine's name and with nothing else running.
"""

import json
import time
from pathlib import Path
from statistics import median

import pytest
from browser import FLAGS, chromium, serve

BUILD = Path(__file__).resolve().parents[2] / "_build" / "html"
STROKES = 12
ANSWERED = """() => { const r = document.querySelector('.vitbook-figure');
  return r.found && r.found.key === r.marks.join(''); }"""


@pytest.mark.skipif(not (BUILD / "_model").exists(), reason="run `make book` first")
def test_seconds_of_a_stroke():
    from playwright.sync_api import sync_playwright

    manifest = json.loads((BUILD / "_model" / "manifest.json").read_text())
    pieces = sum(piece["bytes"] for piece in manifest["pieces"])
    graphs = sum(size["bytes"] for size in manifest["sizes"].values())
    runtime = manifest["runtime"]["wasm"]["bytes"]
    with serve(BUILD) as site, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = browser.new_page()
        page.goto(f"{site}/book/photograph.html")
        page.wait_for_selector("[data-press=load]:has-text('MB')")
        start = time.perf_counter()
        page.click("[data-press=load]")
        page.wait_for_selector(".vb-photo-results:not([hidden])", timeout=120_000)
        print(f"\nweights {(pieces + graphs) / 1e6:.1f} MB, runtime {runtime / 1e6:.1f} MB, "
              f"first answer after {time.perf_counter() - start:.1f} s")  # fmt: skip
        page.context.set_offline(True)
        page.select_option("[data-control=tool]", "blank")
        for size in manifest["sizes"]:
            page.select_option("[data-control=size]", size)
            page.wait_for_function(ANSWERED, timeout=60_000)
            pad = page.locator(".vb-photo-pad canvas").first
            side, seconds = pad.bounding_box()["width"], []
            columns = manifest["sizes"][size]["grid"][1]
            for stroke in range(STROKES):
                place = (stroke % columns + 0.5) * side / columns
                start = time.perf_counter()
                page.locator(".vb-photo-pad").click(position={"x": place, "y": side / 2})
                page.wait_for_function(ANSWERED, polling=10)
                seconds.append(time.perf_counter() - start)
            print(f"{size} px: stroke to answer, median {median(seconds):.2f} s, "
                  f"worst {max(seconds):.2f} s of {STROKES}")  # fmt: skip
        browser.close()
