"""The page in a real browser: plan, move a slider until it turns red, explain the three logs, apply, copy, reload."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from oomph.facts.vllm.versions import NEWEST
from three_logs import GEMMA, QWEN, TOKENS

CHROMIUM = next(
    (p for p in ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome") if os.path.exists(p)), ""
)
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from oomph.web.server import listen, make_server

    sock = listen(0)
    at = sock.getsockname()[1]
    server = make_server(at, token="the-token")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{at}/?token=the-token"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        made = p.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield made
        made.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    made = context.new_page()
    said: list[str] = []
    made.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    made.on("pageerror", lambda e: said.append(str(e)))
    made.goto(address)
    made.wait_for_selector("#bars svg")
    yield made
    assert [s for s in said if "400" not in s] == []  # refusals are part of the work; anything else is not
    context.close()


def settled(page: Any, words: str) -> None:
    page.wait_for_function("w => document.getElementById('verdict').textContent.includes(w)", arg=words, timeout=10_000)


def choose(page: Any, model: str, gpu: str, engine: str = "0.21.0") -> None:
    page.fill("#gpu", gpu)
    page.dispatch_event("#gpu", "change")
    page.select_option("#engine", engine)
    page.fill("#model", model)
    page.dispatch_event("#model", "change")


def test_the_slider_turns_the_verdict_red(page: Any) -> None:
    choose(page, "meta-llama/Llama-3.1-8B-Instruct", "RTX 4090")
    slider = page.locator("#max_model_len")
    slider.focus()
    slider.press("Home")
    settled(page, "FITS")
    for _ in range(40):
        slider.press("ArrowRight")
        page.wait_for_timeout(60)
        if page.get_attribute("#verdict", "data-fits") == "false":
            break
    settled(page, "WILL NOT START")
    assert page.get_attribute("#verdict", "data-stage") == "kv_check"
    assert "To serve at least one request" in page.inner_text("#message")
    assert "--max-model-len" in page.input_value("#command")


def test_the_address_carries_the_plan(page: Any) -> None:
    choose(page, "Qwen/Qwen3-8B", "H100")
    page.check("#enforce_eager")
    settled(page, "FITS")
    command = page.input_value("#command")
    assert "--enforce-eager" in command
    page.reload()
    page.wait_for_selector("#bars svg")
    page.wait_for_function("c => document.getElementById('command').value === c", arg=command)
    assert page.is_checked("#enforce_eager")
    page.click("#copy")
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_a_pasted_command_is_read(page: Any) -> None:
    choose(page, "vllm serve Qwen/Qwen3-8B --max-model-len 4096 --max-num-seqs 8", "H100")
    page.wait_for_function("() => document.getElementById('command').value.includes('--max-num-seqs 8')")
    assert page.input_value("#model") == "Qwen/Qwen3-8B"


def paste(page: Any, text: str) -> None:
    page.click("#tab-explain")
    page.fill("#log", text)
    page.click("#explain")
    page.wait_for_selector("#explanation .verdict", timeout=20_000)


@pytest.mark.parametrize(
    ("log", "cause", "stage"),
    [(GEMMA, "L02", "weights_load"), (QWEN, "P05", "cudagraph_profile"), (TOKENS, "K05", "kv_alloc")],
)
def test_the_three_logs(page: Any, log: str, cause: str, stage: str) -> None:
    paste(page, log)
    assert page.get_attribute("#explanation .verdict", "data-cause") == cause
    assert page.get_attribute("#explanation .verdict", "data-stage") == stage
    assert page.locator("#explanation mark").count() >= 1


def test_apply_a_remedy_and_see_it_fit(page: Any) -> None:
    page.click("#tab-explain")
    page.fill("#log-gpu", "2x RTX 5070 Ti")
    paste(page, GEMMA)
    page.locator(".remedy", has_text="AWQ").get_by_role("button", name="Apply").first.click()
    settled(page, "FITS")


def test_compare_and_what_if(page: Any) -> None:
    choose(page, "Qwen/Qwen3-8B", "H100")
    settled(page, "FITS")
    page.click("#tab-diff")
    page.select_option("#other-engine", NEWEST)
    page.click("#compare")
    page.wait_for_selector("#comparison table")
    assert "model runner" in page.inner_text("#comparison")
    page.click("#tab-levers")
    page.click("#weigh")
    page.wait_for_selector("#levers table")
    assert "--kv-cache-dtype fp8" in page.inner_text("#levers")


def test_simulate(page: Any) -> None:
    choose(page, "Qwen/Qwen3-8B", "H100")
    settled(page, "FITS")
    page.click("#tab-simulate")
    page.fill("#sim-users", "8")
    page.click("#simulate")
    page.wait_for_selector("#simulation img", timeout=30_000)
    assert "8 users" in page.inner_text("#simulation")


def test_themes_keyboard_and_small_screens(page: Any) -> None:
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.focus("#tab-plan")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-explain", "aria-selected") == "true"
    page.keyboard.press("Home")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_labels_and_contrast(page: Any) -> None:
    """Every control has a name; text stands out from its ground in both themes (WCAG AA, 4.5)."""
    nameless = page.evaluate(
        "[...document.querySelectorAll('input,select,textarea,button')].filter(e => !(e.labels?.length"
        " || e.textContent.trim() || e.getAttribute('aria-label'))).map(e => e.id)"
    )
    assert nameless == []
    for _ in range(2):
        for name in ("--fg", "--soft", "--bad", "--good", "--accent"):
            fore, ground = (
                page.evaluate("n => getComputedStyle(document.documentElement).getPropertyValue(n)", n)
                for n in (name, "--bg")
            )
            assert contrast(fore, ground) >= 4.5, (name, fore, ground)
        page.click("#theme")


def contrast(a: str, b: str) -> float:
    def light(colour: str) -> float:
        digits = re.sub(r"[^0-9a-fA-F]", "", colour)
        if len(digits) == 3:
            digits = "".join(d * 2 for d in digits)
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    x, y = sorted((light(a), light(b)), reverse=True)
    return (x + 0.05) / (y + 0.05)


def test_axe_finds_nothing_serious(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for view in ("plan", "explain", "diff", "levers", "simulate"):
        for _ in range(2):
            page.click(f"#tab-{view}")
            found = axe.Axe().run(page).response["violations"]
            assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == []
            page.click("#theme")
