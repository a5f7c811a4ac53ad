"""Every view at three sizes and in both themes, with a real case, a failing one and an empty one: nothing is cut,
nothing covers anything else, and axe finds nothing.

    python tests/web/test_screens.py FOLDER [WORDS]     writes a picture of each to look at
    python tests/web/test_screens.py --docs             makes those of docs/screens anew
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from browser import (
    Watched,
    colour_faults,
    drop,
    faults,
    launched,
    opened,
    paste,
    served,
    set_gpu,
    settled,
    show,
    wait,
    watched,
)

from three_logs import GEMMA, QWEN

if __name__ != "__main__":
    pytest.importorskip("axe_playwright_python")

SIZES = {"laptop": (1366, 768), "desk": (1920, 1080), "phone": (390, 844)}
FITS = "vllm serve Qwen/Qwen3-8B --max-model-len 16384"
FAILS = "vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --gpu-memory-utilization 0.95"
COMPOSE = "services:\n" + "".join(
    f"  {name}:\n    image: vllm/vllm-openai:v0.21.0\n    command: --model {model} --max-model-len 8192\n"
    for name, model in (("chat", "Qwen/Qwen3-8B"), ("large", "Qwen/Qwen3-32B"), ("wrong", "no-such-model"))
)


def view(command: str, name: str, cls: str = "", **fields: str) -> Callable[[Any], None]:
    """Paste a command, then open a view with these fields in its form."""

    def act(page: Any) -> None:
        for field, value in fields.items():
            page.evaluate(
                "([selector, value]) => { document.querySelector(selector).value = value; }",
                [f"[data-form={name}] [name={field}]", value],
            )
        if command:
            paste(page, command)
            wait(page, "() => document.querySelector('#view:not(.stale) .view')")
        show(page, name)
        wait(page, "c => document.querySelector('#view:not(.stale) .view.' + c)", cls or name)
        if page.locator(".plot").count():
            page.wait_for_selector(".plot canvas")

    return act


def error(act: Callable[[Any], None]) -> Callable[[Any], None]:
    """Until a sentence stands where the answer would."""

    def refused(page: Any) -> None:
        act(page)
        page.wait_for_selector("#view:not(.stale) .refusal")

    return refused


def planned(command: str, gpu: str, words: str) -> Callable[[Any], None]:
    def act(page: Any) -> None:
        set_gpu(page, gpu)
        paste(page, command)
        settled(page, words)

    return act


def explained(log: str) -> Callable[[Any], None]:
    def act(page: Any) -> None:
        drop(page, "server.log", log)
        page.wait_for_selector(".view.explain")

    return act


def broken_gpu(page: Any) -> None:
    set_gpu(page, "RTX 9")
    paste(page, FITS)


def several(page: Any) -> None:
    drop(page, "compose.yaml", COMPOSE)
    settled(page, "FITS")


def too_large(page: Any) -> None:
    paste(page, "vllm serve Qwen/Qwen3-32B")
    settled(page, "WILL NOT")
    show(page, "simulate")


CASES: dict[str, Callable[[Any], None]] = {
    "plan-empty": lambda page: None,
    "plan-fits": planned(FITS, "RTX 4090", "FITS"),
    "plan-fails": planned(FAILS, "2x RTX 3090", "WILL NOT START"),
    "plan-close": planned("vllm serve Qwen/Qwen3-8B --max-model-len 31690", "RTX 4090", "TOO CLOSE"),
    "plan-llama.cpp": planned("llama-server -hf unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M -c 32768", "RTX 3060 12GB", "SLOW"),
    "plan-sglang": planned("python -m sglang.launch_server --model-path Qwen/Qwen3-8B", "RTX 4090", ""),
    "plan-tabs": several,
    "plan-refused": error(broken_gpu),
    "explain-empty": lambda page: show(page, "explain"),
    "explain-failed": explained(GEMMA),
    "explain-memory": explained(QWEN),
    "explain-refused": error(lambda page: drop(page, "poem.log", "a poem\nof two lines\n" * 3)),
    "what_if-empty": lambda page: show(page, "what_if"),
    "what_if-fits": view(FITS, "what_if", "what-if"),
    "what_if-fails": view("vllm serve Qwen/Qwen3-32B", "what_if", "what-if"),
    "simulate-empty": lambda page: show(page, "simulate"),
    "simulate-held": view(FITS, "simulate"),
    "simulate-too-much": view(FITS, "simulate", users="24", prompt="4000", output="500"),
    "simulate-refused": error(too_large),
    "diff-empty": lambda page: show(page, "diff"),
    "diff-release": view(FITS, "diff"),
    "fit-empty": lambda page: show(page, "fit"),
    "fit-front": view("Qwen/Qwen3-8B", "fit", context="8k"),
    "fit-not-met": view("Qwen/Qwen3-32B", "fit", context="128k", users="8"),
    "cards-known": view("", "cards"),
    "cards-model": view("Qwen/Qwen3-8B", "cards"),
    "models-card": view("", "models", words="olmo"),
    "models-none": view("", "models", words="no-such-model"),
    "compare-empty": lambda page: show(page, "compare"),
    "compare-engines": view(FITS, "compare"),
    "inspect-empty": lambda page: show(page, "inspect"),
    "inspect-map": view("gemma-4-31b nvfp4", "inspect"),
    "inspect-refused": error(lambda page: paste(page, "no-such/model-at-all:Q9")),
}  # fmt: skip

# Two frames: what follows a new size is drawn in the second.
LAID_OUT = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
CUT = Path(__file__).with_name("cut.js").read_text()


# The colours alone differ between the themes, the places of things alone between the sizes.
PLACES = {"rules": {"color-contrast": {"enabled": False}, "link-in-text-block": {"enabled": False}}}


@pytest.mark.parametrize("case", CASES)
def test_a_screen(tab: Watched, address: str, case: str) -> None:
    with opened(tab, address) as page:
        CASES[case](page)
        assert colour_faults(page) + faults(page, PLACES) == [], case
        page.emulate_media(color_scheme="dark")
        assert colour_faults(page) == [], (case, "dark")
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate(LAID_OUT)
            assert page.evaluate(CUT) == [], (case, size)
        assert faults(page, PLACES) == [], (case, "phone")


# Numbers what can be used; returns how many there are, and what can be clicked but not reached by a key.
NUMBERED = """() => {
  const usable = one => one.checkVisibility() && one.offsetParent !== null && !one.disabled && one.tabIndex >= 0;
  const kinds = "a[href], button, input, select, textarea, summary, [tabindex]";
  const all = [...document.querySelectorAll(kinds)].filter(usable);
  all.forEach((one, number) => { one.dataset.number = number; });
  const clickable = [...document.querySelectorAll("[data-command], [data-copy], [data-gpu], [data-box]")];
  document.body.tabIndex = -1;
  document.body.focus();
  return [all.length, clickable.filter(one => one.checkVisibility() && one.tabIndex < 0).map(one => one.outerHTML)];
}"""
REACHED = """() => {
  const one = document.activeElement, {outlineStyle} = getComputedStyle(one);
  return [Number(one.dataset.number ?? -1), outlineStyle !== "none" || one.matches(".point")];
}"""


@pytest.mark.parametrize("case", ["plan-empty", "plan-fails", "cards-model"])
def test_the_tab_key_reaches_everything_and_shows_where_it_is(tab: Watched, address: str, case: str) -> None:
    with opened(tab, address) as page:
        CASES[case](page)
        count, unreachable = page.evaluate(NUMBERED)
        assert unreachable == [] and count > 10
        reached = {}
        for _ in range(count):
            page.keyboard.press("Tab")
            number, is_shown = page.evaluate(REACHED)
            reached[number] = is_shown
        assert set(range(count)) <= set(reached) and all(reached.values())


def test_faults_are_noticed(tab: Watched, address: str) -> None:
    with opened(tab, address) as page:
        page.evaluate("() => document.body.append(document.createElement('img'))")
        assert "image-alt" in [name for name, _ in faults(page, PLACES)]
        page.evaluate("() => { document.body.style.color = getComputedStyle(document.body).backgroundColor; }")
        assert [name for name, _ in colour_faults(page)] == ["color-contrast"]


def test_the_one_pale_cell_of_a_table_is_noticed(tab: Watched, address: str) -> None:
    """Of 200 cells that look alike three are looked at, and each that looks otherwise."""
    with opened(tab, address) as page:
        page.evaluate(
            """() => {
              const table = document.createElement("table");
              table.innerHTML = "<caption>cells</caption>" + "<tr><td>text</td></tr>".repeat(200);
              table.id = "cells";
              document.querySelector("#view").append(table);
            }"""
        )
        assert colour_faults(page) == []
        assert page.locator("#cells td[data-shade]").count() <= 3
        for place, look in (("td", "color: #ccc"), ("td", "opacity: 0.2"), ("tr", "background: #777")):
            cell = page.locator(f"#cells {place}").nth(150)
            cell.evaluate("(element, look) => { element.style = look; }", look)
            assert [name for name, _ in colour_faults(page)] == ["color-contrast"], look
            cell.evaluate("element => { element.style = ''; }")


def pictures(folder: Path, words: str) -> None:
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with served() as address, sync_playwright() as p, launched(p.chromium) as browser:
        tab = watched(browser)
        for case in (case for case in CASES if words in case):
            with opened(tab, address) as page:
                CASES[case](page)
                for size in SIZES:
                    for scheme in ("light", "dark"):
                        (folder / f"{case}-{size}-{scheme}.png").write_bytes(picture(page, size, scheme))


# All models take seconds of a core: for a picture, not for a test.
EVERY_MODEL = {"models-all": view("", "models")}
# What docs/ui.md shows: the picture's name -> the case, its size and its theme.
SHOWN: dict[str, tuple[str, str, Literal["light", "dark"]]] = {
    "plan-fits-dark": ("plan-fits", "laptop", "dark"),
    "plan-fails": ("plan-fails", "laptop", "light"),
    "what-if": ("what_if-fits", "laptop", "light"),
    "simulate": ("simulate-held", "laptop", "light"),
    "fit": ("fit-front", "laptop", "light"),
    "gpus": ("cards-model", "laptop", "light"),
    "models-dark": ("models-all", "laptop", "dark"),
    "engines": ("compare-engines", "laptop", "light"),
    "diff": ("diff-release", "laptop", "light"),
    "inspect": ("inspect-map", "laptop", "light"),
    "explain-phone-dark": ("explain-memory", "phone", "dark"),
}
# The browser itself writes WebP: a tenth of PNG's bytes.
TO_WEBP = """async png => {
  const image = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
  const canvas = Object.assign(document.createElement("canvas"), {width: image.width, height: image.height});
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", 0.8).split(",")[1];
}"""


def documented(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    with served() as address, sync_playwright() as p, launched(p.chromium) as browser:
        tab, blank = watched(browser), browser.new_page()
        for name, (case, size, scheme) in SHOWN.items():
            with opened(tab, address) as page:
                (CASES | EVERY_MODEL)[case](page)
                png = base64.b64encode(picture(page, size, scheme)).decode()
            (folder / f"{name}.webp").write_bytes(base64.b64decode(blank.evaluate(TO_WEBP, png)))


def picture(page: Any, size: str, scheme: Literal["light", "dark"]) -> bytes:
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    page.wait_for_timeout(150)
    return bytes(page.screenshot(full_page=True))


if __name__ == "__main__":
    if sys.argv[1] == "--docs":
        documented(Path(__file__).parents[2] / "docs" / "screens")
    else:
        pictures(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
