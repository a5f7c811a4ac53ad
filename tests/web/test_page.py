"""The page in a real browser: paste, drop, move a control, apply, compare, search, simulate, save, reload."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Watched, drop, opened, paste, set_gpu, settled, show, wait

from oomph import plan
from three_logs import GEMMA, QWEN, TOKENS

FITS = "vllm serve Qwen/Qwen3-8B --max-model-len 16384"


@pytest.fixture
def page(tab: Watched, address: str) -> Iterator[Any]:
    with opened(tab, address) as page:
        yield page


def test_a_pasted_command_is_planned_without_a_click(page: Any) -> None:
    command = "docker run --gpus all vllm/vllm-openai:v0.21.0 --model Qwen/Qwen3-8B --max-model-len 16384"
    paste(page, command)
    settled(page, "FITS")
    assert page.inner_text("#command") == FITS
    assert page.input_value("#text") == command
    assert page.input_value("#release") == "vllm==0.21.0"


def test_the_slider_turns_the_verdict_red_and_edits_the_command(page: Any) -> None:
    paste(page, FITS)
    settled(page, "FITS")
    slider = page.locator("[name=max_model_len]")
    slider.focus()
    slider.press("End")
    settled(page, "WILL NOT START")
    assert page.get_attribute(".verdict", "data-stage") == "kv_check"
    assert "To serve at least one request" in page.text_content(".message")
    assert "--max-model-len 40960" in page.inner_text("#command")
    page.locator("[name=enforce_eager]").check()
    wait(page, "() => document.getElementById('command').textContent.includes('--enforce-eager')")


def test_an_edited_command_moves_the_controls(page: Any) -> None:
    paste(page, FITS)
    settled(page, "FITS")
    page.fill("#text", f"{FITS} --kv-cache-dtype fp8 --enforce-eager")
    page.press("#text", "Enter")
    wait(page, "() => document.querySelector('[name=kv_cache_dtype]').value === 'fp8'")
    assert page.is_checked("[name=enforce_eager]")


def test_an_applied_fix_fits_and_can_be_taken_back(page: Any) -> None:
    command, gpu = "vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2", "2x RTX 5070 Ti"
    advice = plan(command, gpu=gpu).advice
    assert advice is not None
    set_gpu(page, gpu)
    paste(page, command)
    settled(page, "WILL NOT START")
    page.locator(".verdict .apply").click()
    settled(page, "FITS")
    assert page.text_content("#command") == advice.fixes[0].command != command
    assert page.input_value("#text") == command
    page.click("#applied button")
    settled(page, "WILL NOT START")
    assert page.text_content("#command").replace("--tensor-parallel-size", "-tp") == command


def test_a_card_without_code_can_be_planned_for_a_build_of_ones_own(page: Any) -> None:
    set_gpu(page, "P40")
    paste(page, "vllm serve Qwen/Qwen3-0.6B")
    settled(page, "WILL NOT START")
    page.check("#own_build")
    settled(page, "FITS")
    assert "own_build=1" in page.url
    page.reload()
    settled(page, "FITS")
    assert page.is_checked("#own_build")
    page.uncheck("#own_build")
    settled(page, "WILL NOT START")


def test_the_address_carries_the_plan_and_no_secret(page: Any) -> None:
    paste(page, f"{FITS} --api-key hunter22 --enforce-eager")
    settled(page, "FITS")
    assert "hunter22" not in page.url and "enforce-eager" in page.url
    page.reload()
    settled(page, "FITS")
    assert page.text_content("#command") == f"{FITS} --enforce-eager"
    page.click("#copy")
    assert page.evaluate("navigator.clipboard.readText()") == f"{FITS} --enforce-eager"


def test_the_browser_s_back_returns_to_the_view_and_the_command_before(page: Any) -> None:
    paste(page, "vllm serve Qwen/Qwen3-32B")
    settled(page, "WILL NOT START")
    show(page, "what_if")
    page.wait_for_selector(".view.what-if")
    paste(page, FITS)
    settled(page, "FITS")
    page.go_back()
    page.wait_for_selector("#view:not(.stale) .view.what-if")
    page.go_back()
    settled(page, "WILL NOT START")
    assert page.input_value("#text") == "vllm serve Qwen/Qwen3-32B"
    page.go_forward()
    page.wait_for_selector("#view:not(.stale) .view.what-if")


def test_deployments_of_a_file_are_tabs(page: Any) -> None:
    services = "services:\n" + "".join(
        f"  {name}:\n    image: vllm/vllm-openai:v0.21.0\n    command: --model {model} --max-model-len 8192\n"
        for name, model in (("chat", "Qwen/Qwen3-8B"), ("large", "Qwen/Qwen3-32B"))
    )
    drop(page, "compose.yaml", services)
    settled(page, "FITS")
    tabs = page.locator("#tabs [role=tab]")
    assert tabs.all_inner_texts() == ["chat", "large"]
    tabs.nth(1).click()
    settled(page, "WILL NOT START")
    page.reload()
    settled(page, "WILL NOT START")
    assert page.locator("#tabs [aria-selected=true]").inner_text() == "large"


@pytest.mark.parametrize(
    ("log", "cause", "stage"),
    [(GEMMA, "L02", "weights_load"), (QWEN, "P05", "cudagraph_profile"), (TOKENS, "K05", "kv_alloc")],
)
def test_a_log_is_explained(page: Any, log: str, cause: str, stage: str) -> None:
    drop(page, "server.log", log)
    page.wait_for_selector(".view.explain")
    assert page.get_attribute(".view.explain", "data-cause") == cause
    assert page.get_attribute(".view.explain", "data-stage") == stage
    assert page.locator(".evidence mark").count() >= 1


def test_the_question_where_it_failed_has_two_buttons(page: Any) -> None:
    text = "It crashes during inference with vllm serve Qwen/Qwen3-8B:\ntorch.OutOfMemoryError: CUDA out of memory."
    drop(page, "post.log", f"{text} Tried to allocate 1.50 GiB.\n")
    page.wait_for_selector(".view.explain button.answer")
    assert "most likely" in page.inner_text(".verdict")
    page.get_by_role("button", name="No", exact=True).click()
    page.wait_for_selector(".view.explain[data-stage=weights_load]")
    assert page.locator("button.answer").count() == 0


def test_runs_of_a_log_are_tabs(page: Any) -> None:
    start = (
        "INFO 11-15 10:00:00 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3-8B'\n"
    )
    args = "INFO 11-15 10:00:00 [api_server.py:10] non-default args: {'model': 'Qwen/Qwen3-8B'}\n"
    died = (
        "ValueError: Free memory on device cuda:0 (10.1/23.52 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 21.64 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    drop(page, "server.log", (args + start + died) * 2)
    page.wait_for_selector(".view.explain")
    tabs = page.locator("#tabs [role=tab]")
    assert tabs.count() == 2
    lines = page.inner_text(".evidence mark >> nth=0")
    tabs.nth(0).click()
    wait(page, "l => document.querySelector('.evidence mark').innerText !== l", lines)


def test_the_first_remedy_of_a_log_stands_in_its_verdict(page: Any) -> None:
    drop(page, "server.log", QWEN)
    page.wait_for_selector(".view.explain .verdict .best .apply")
    label = page.inner_text(".verdict .best code")
    assert label not in page.locator(".works .change .label").all_inner_texts(), "it stands there once"


def test_the_start_can_be_scrubbed(page: Any) -> None:
    paste(page, "vllm serve Qwen/Qwen3-32B")
    settled(page, "WILL NOT START")
    assert "loading the weights" in page.inner_text(".scrub output") and "too much" in page.inner_text(".scrub output")
    page.focus(".scrub input")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".timeline .now .stage") == "the free-memory check"
    assert "left" in page.inner_text(".scrub output")


def test_models_have_their_size_licence_and_a_command_to_copy(page: Any) -> None:
    page.evaluate("document.querySelector('[data-form=models] [name=words]').value = 'olmo'")
    show(page, "models")
    page.wait_for_selector("#view:not(.stale) .view.models table .copy")
    heads = page.locator(".view.models table").first.locator("th").all_inner_texts()
    assert "parameters" in heads and "licence" in heads
    page.click(".view.models table .copy >> nth=0")
    assert page.evaluate("navigator.clipboard.readText()").startswith(("llama-server", "vllm", "OLLAMA", "python"))


def test_apply_a_remedy_of_a_log_and_see_it_fit(page: Any) -> None:
    set_gpu(page, "2x RTX 5070 Ti")
    drop(page, "server.log", GEMMA)
    page.wait_for_selector(".view.explain")
    page.locator(".change, .best", has_text="AWQ").get_by_role("button", name="Apply").first.click()
    settled(page, "FITS")


def test_a_model_is_inspected(page: Any) -> None:
    paste(page, "gemma-4-31b nvfp4")
    page.wait_for_selector(".treemap")
    assert "attention is still BF16" in page.inner_text(".verdict")
    show(page, "plan")
    settled(page, "WILL NOT START")


def test_what_if_sorts_and_keeps_what_is_applied(page: Any) -> None:
    paste(page, FITS)
    settled(page, "FITS")
    show(page, "what_if")
    page.wait_for_selector(".what-if table")
    assert page.locator(".what-if h2").all_inner_texts()[0] == "Flags and settings"
    flags = page.locator(".what-if .effects").first
    flags.get_by_role("button", name="tokens", exact=True).click()
    tokens = [int(x.replace(",", "")) for x in flags.locator("tbody td:nth-child(4)").all_inner_texts() if x]
    assert tokens == sorted(tokens, reverse=True)
    page.locator("tr", has_text="--kv-cache-dtype fp8").first.get_by_role("button", name="Apply").click()
    page.wait_for_selector("#applied button")
    wait(page, "() => document.getElementById('command').textContent.includes('--kv-cache-dtype fp8')")
    page.wait_for_selector(".what-if table")


def test_fit_is_a_front_whose_points_load_their_command(page: Any) -> None:
    paste(page, "Qwen/Qwen3-8B")
    page.wait_for_selector(".treemap")
    show(page, "fit")
    page.wait_for_selector(".scatter .point")
    point = page.locator(".scatter .point").last
    point.hover()
    wait(page, "() => !document.getElementById('tip').hidden")
    command = point.get_attribute("data-command")
    point.focus()
    page.keyboard.press("Enter")
    settled(page, "")
    page.wait_for_selector(".view.plan")
    assert page.text_content("#command").split()[:3] == command.split()[:3]


def test_engines_releases_and_cards(page: Any) -> None:
    show(page, "cards")
    page.wait_for_selector(".cards table")  # no model: the known ones
    paste(page, FITS)
    settled(page, "FITS")
    show(page, "compare")
    page.wait_for_selector(".compare table")
    assert "llama.cpp" in page.inner_text(".compare table")
    show(page, "diff")
    page.select_option("[data-form=diff] [name=engine]", "vllm==0.21.0")
    page.click("[data-form=diff] button")
    wait(page, "() => document.querySelector('.diff .heading')?.textContent.includes('0.21.0')")
    assert "model_runner" in page.inner_text(".diff")
    show(page, "cards")
    page.wait_for_selector(".cards .scatter")


def test_simulate_draws_charts_with_a_cursor(page: Any) -> None:
    paste(page, FITS)
    settled(page, "FITS")
    show(page, "simulate")
    page.wait_for_selector(".plot canvas")
    assert "USERS" in page.inner_text(".verdict")
    plot = page.locator(".plot .u-over").first
    plot.scroll_into_view_if_needed()
    plot.hover()
    wait(page, "() => document.querySelector('.u-legend .u-value').textContent.trim() !== '--'")


def test_an_error_is_a_sentence_beside_its_field(page: Any) -> None:
    set_gpu(page, "RTX 9")
    paste(page, FITS)
    wait(page, "() => document.getElementById('error-gpu').textContent !== ''")
    assert page.inner_text("#error-text") == ""
    set_gpu(page, "H100")
    page.fill("#text", "this is\nno command")
    page.press("#text", "Control+Enter")
    wait(page, "() => document.getElementById('error-text').textContent !== ''")
    assert page.inner_text("#error-gpu") == ""


def test_long_work_can_be_cancelled(page: Any) -> None:
    paste(page, "vllm serve Qwen/Qwen3-0.6B")
    settled(page, "FITS")
    page.evaluate("document.querySelector('[data-form=simulate] [name=users]').value = 100000")
    page.evaluate("document.querySelector('[data-form=simulate] [name=output]').value = 100000")
    show(page, "simulate")
    page.wait_for_selector("#status:not([hidden])")
    assert "Simulating" in page.inner_text("#status")
    page.click("#cancel")
    page.wait_for_selector("#status", state="hidden")


def test_save_is_the_same_view_in_one_file(page: Any, tmp_path: Path, browser: Any) -> None:
    paste(page, FITS)
    settled(page, "FITS")
    with page.expect_download() as download:
        page.click("#save")
    path = tmp_path / "plan.html"
    download.value.save_as(path)
    text = path.read_text()
    assert "<script" not in text and "default-src 'none'" in text
    context = browser.new_context()
    saved = context.new_page()
    said: list[str] = []
    saved.on("console", lambda m: said.append(m.text))
    saved.goto(path.as_uri())
    assert saved.inner_text(".verdict") == page.inner_text(".verdict") and said == []
    assert saved.evaluate("getComputedStyle(document.querySelector('.fill')).fill") != "rgb(0, 0, 0)"
    context.close()


def test_the_keyboard_is_enough(page: Any) -> None:
    page.focus("#text")
    page.keyboard.type(FITS)
    page.keyboard.press("Enter")
    settled(page, "FITS")
    page.focus("#view-plan")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "view-what_if"
    page.wait_for_selector(".what-if table")
    page.keyboard.press("End")
    page.wait_for_selector(".view.inspect")
    page.keyboard.press("Home")
    page.wait_for_selector(".view.plan")


def test_a_long_log_is_sent_as_it_is(page: Any) -> None:
    """10 MB: the page itself reads nothing of it, which would stop it from answering meanwhile."""
    line = (
        "INFO 11-15 10:00:01 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: "
        "0.0%\n"
    )
    page.evaluate(
        "([line, log]) => { window.big = new File([line.repeat(Math.ceil(1e7 / line.length)), log], 'big.log'); }",
        [line, QWEN],
    )
    page.evaluate(
        "() => { window.readings = 0; for (const name of ['text', 'arrayBuffer', 'stream', 'slice'])"
        " { const read = Blob.prototype[name];"
        " Blob.prototype[name] = function (...all) { readings += 1; return read.apply(this, all); }; } }"
    )
    page.evaluate(
        "() => { const data = new DataTransfer(); data.items.add(big); document.body.dispatchEvent("
        "new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})); }"
    )
    page.wait_for_selector(".view.explain")
    assert page.get_attribute(".view.explain", "data-cause") == "P05"
    assert page.evaluate("readings") == 0 and page.input_value("#text") == ""
    assert "big.log, 10" in page.get_attribute("#text", "placeholder")


def test_an_answer_can_be_shared_as_a_link_as_markdown_and_as_a_picture(page: Any, tmp_path: Path) -> None:
    paste(page, "vllm serve Qwen/Qwen3-32B")
    settled(page, "WILL NOT START")
    page.click("#share summary")
    page.click("#share-markdown")
    wait(page, "() => document.getElementById('share-markdown').textContent === 'Copied'")
    reply = page.evaluate("navigator.clipboard.readText()")
    assert reply.startswith("**Qwen/Qwen3-32B: WILL NOT START**") and "vllm serve Qwen/Qwen3-32B" in reply
    with page.expect_download() as download:
        page.click("#share-png")
    download.value.save_as(tmp_path / "verdict.png")
    assert (tmp_path / "verdict.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with page.expect_download() as download:
        page.click("#share-svg")
    download.value.save_as(tmp_path / "verdict.svg")
    assert (tmp_path / "verdict.svg").read_text().startswith("<svg")
