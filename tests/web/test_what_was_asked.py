"""What was pasted stays, and the answer that is shown belongs to the question that is shown, however slow the network
and the server are and however fast the user is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browser import Watched, answered, opened, paste, settled, show, wait

from three_logs import GEMMA

DELAY = 0.25  # seconds, of the server
FITS = "vllm serve Qwen/Qwen3-8B --max-model-len 16384"
STALE = "() => document.querySelector('#view.stale')"
DOCKER = "docker run --gpus all vllm/vllm-openai:v0.21.0 --model Qwen/Qwen3-0.6B --max-model-len 8192"


@pytest.fixture
def page(tab: Watched, address: str) -> Iterator[Any]:
    with opened(tab, address) as page:
        yield page


def type_fast(page: Any, selector: str, text: str) -> None:
    page.focus(selector)
    page.press(selector, "Control+A")
    page.keyboard.type(text, delay=30)


def test_a_gpu_that_is_typed_while_a_log_is_read_is_asked_with_the_log(page: Any) -> None:
    paste(page, FITS)
    settled(page, "FITS")
    paste(page, GEMMA)
    page.keyboard.press("Tab")
    type_fast(page, "#gpu", "2x L4")
    page.keyboard.press("Tab")
    page.wait_for_selector("#view:not(.stale) .view.explain")
    answered(page)
    assert page.input_value("#text") == GEMMA
    assert page.input_value("#gpu") == "2x L4"
    assert "gemma-4-31b" in page.inner_text("#view").lower()


def test_a_gpu_that_was_selected_as_a_whole_is_typed_over_though_an_answer_names_another(page: Any) -> None:
    """The answer comes between the selection and the first key."""
    paste(page, FITS)
    settled(page, "FITS")
    page.focus("#gpu")
    page.press("#gpu", "Control+A")
    page.evaluate(
        """async () => {
            const {place} = await import("/place.js"), {drawGpu} = await import("/read.js");
            place.gpu = "2x RTX 3090";
            drawGpu();
        }"""
    )
    assert page.input_value("#gpu") == "2x RTX 3090"
    page.keyboard.type("H100")
    assert page.input_value("#gpu") == "H100"


def test_a_card_that_was_chosen_is_there_again_behind_a_log_of_another_one(page: Any) -> None:
    paste(page, GEMMA)
    page.wait_for_selector("#view:not(.stale) .view.explain")
    assert page.input_value("#gpu").startswith("2x 15.47GiB") and "not used" in page.inner_text("#kind")
    page.reload()
    page.wait_for_selector("#view:not(.stale) .view.explain")
    assert page.input_value("#gpu").startswith("2x 15.47GiB")
    paste(page, FITS)
    settled(page, "FITS")
    assert page.input_value("#gpu") == "RTX 4090"


def test_a_command_typed_fast_and_left_by_the_tab_key_is_planned_on_the_gpu_that_is_typed_next(page: Any) -> None:
    paste(page, FITS)
    settled(page, "FITS")
    type_fast(page, "#text", DOCKER)
    page.keyboard.press("Tab")
    type_fast(page, "#gpu", "2x RTX 4090")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    answered(page)
    assert page.input_value("#text") == DOCKER and page.input_value("#gpu") == "2x RTX 4090"
    assert page.inner_text("#view h1") == "Qwen/Qwen3-0.6B"
    assert "2 x RTX 4090" in page.inner_text("#view .heading")
    assert page.text_content("#command") == "vllm serve Qwen/Qwen3-0.6B --max-model-len 8192"


def test_a_view_chosen_while_a_text_is_read_is_the_view_of_that_text(page: Any) -> None:
    paste(page, FITS)
    settled(page, "FITS")
    paste(page, "vllm serve Qwen/Qwen3-32B")
    wait(page, STALE)
    show(page, "what_if")
    page.wait_for_selector("#view:not(.stale) .view.what-if")
    assert "Qwen3-32B" in page.inner_text("#view .heading")


def test_a_release_chosen_while_a_text_is_read_is_the_one_planned_with(page: Any) -> None:
    paste(page, FITS)
    wait(page, STALE)
    page.select_option("#release", "vllm==0.21.0")
    settled(page, "FITS")
    assert "0.21.0" in page.inner_text("#view .heading")


def test_undo_brings_back_what_was_pasted(page: Any) -> None:
    paste(page, DOCKER)
    settled(page, "FITS")
    page.click("#edit")
    assert page.input_value("#text") == "vllm serve Qwen/Qwen3-0.6B --max-model-len 8192"
    page.keyboard.press("Control+Z")
    assert page.input_value("#text") == DOCKER


def test_a_long_text_is_folded_once_it_is_answered_and_unfolds_where_it_is_read(page: Any) -> None:
    paste(page, GEMMA)
    page.keyboard.press("Tab")
    page.wait_for_selector("#view:not(.stale) .view.explain")
    folded = page.locator("#text").bounding_box()["height"]
    page.focus("#text")
    assert page.locator("#text").bounding_box()["height"] > folded
    assert page.input_value("#text") == GEMMA


def test_what_was_pasted_is_there_after_a_reload_and_after_back(page: Any) -> None:
    paste(page, GEMMA)
    page.wait_for_selector("#view:not(.stale) .view.explain")
    page.reload()
    page.wait_for_selector("#view:not(.stale) .view.explain")
    assert page.input_value("#text") == GEMMA and "allocated" not in page.url
    paste(page, DOCKER)
    settled(page, "FITS")
    page.go_back()
    page.wait_for_selector("#view:not(.stale) .view.explain")
    assert page.input_value("#text") == GEMMA
    page.go_forward()
    settled(page, "FITS")
    assert page.input_value("#text") == DOCKER


def test_a_draft_survives_an_answer_and_a_reload(page: Any) -> None:
    paste(page, FITS)
    page.keyboard.press("End")
    page.keyboard.type(" --enforce-eager", delay=30)
    settled(page, "FITS")
    assert page.input_value("#text") == f"{FITS} --enforce-eager"
    page.reload()
    settled(page, "FITS")
    assert page.input_value("#text") == f"{FITS} --enforce-eager"


def test_the_old_answer_cannot_be_used_while_a_new_one_is_on_its_way(page: Any) -> None:
    paste(page, "vllm serve Qwen/Qwen3-32B")
    settled(page, "WILL NOT START")
    page.evaluate("""() => {
        const view = document.getElementById('view');
        new MutationObserver(() => { window.wasInert ||= view.inert; }).observe(view, { attributes: true });
    }""")
    paste(page, FITS)
    settled(page, "FITS")
    assert page.evaluate("() => window.wasInert")
    assert not page.evaluate("() => document.getElementById('view').inert")


def test_without_a_gpu_the_page_asks_for_one_and_invents_none(tab: Watched, address: str) -> None:
    with opened(tab, address, gpu="") as page:
        paste(page, FITS)
        page.wait_for_selector("#view:not(.stale) .view.asks")
        assert page.input_value("#gpu") == "" and "15.3 GiB" in page.inner_text(".verdict")
        page.get_by_role("button", name="RTX 4090", exact=True).click()
        settled(page, "FITS")
        assert page.input_value("#gpu") == "RTX 4090" and page.input_value("#text") == FITS


def test_a_slow_network_loses_nothing(page: Any) -> None:
    link = page.context.new_cdp_session(page)
    link.send("Network.emulateNetworkConditions",
              {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 20_000})  # fmt: skip
    try:
        paste(page, DOCKER)
        page.keyboard.press("Tab")
        type_fast(page, "#gpu", "RTX 3090")
        page.keyboard.press("Tab")
        settled(page, "FITS")
        answered(page)
    finally:
        link.send("Network.emulateNetworkConditions",
                  {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})  # fmt: skip
        link.detach()
    assert "RTX 3090" in page.inner_text("#view .heading") and page.input_value("#text") == DOCKER


@pytest.mark.parametrize(
    ("question", "view", "says"),
    [
        ("can I run Qwen3-8B on a 3090?", "fit", "RTX 3090"),
        ("which embedding model fits on an RTX 3060 12GB", "models", "RTX 3060 12GB"),
        ("which GPU for Qwen3-0.6B?", "cards", "Qwen/Qwen3-0.6B"),
    ],
)
def test_a_question_in_words_is_answered_by_its_view(
    tab: Watched, address: str, question: str, view: str, says: str
) -> None:
    with opened(tab, address, gpu="") as page:
        paste(page, question)
        wait(page, "view => document.querySelector('#view:not(.stale) .view.' + view)", view)
        assert says in page.inner_text("#view") and page.input_value("#text") == question
        assert "oomph" in page.inner_text("#kind")
        page.reload()
        wait(page, "view => document.querySelector('#view:not(.stale) .view.' + view)", view)
        assert page.input_value("#text") == question


def test_what_is_not_ours_is_said_in_the_view(page: Any) -> None:
    paste(page, "how do I fine-tune Qwen3-8B on a 4090?")
    page.wait_for_selector("#view:not(.stale) .refusal")
    assert "not training" in page.inner_text("#view")
    assert page.evaluate("() => getComputedStyle(document.getElementById('error-text')).opacity") == "0", "said once"
    assert page.inner_text("#view button[data-box]") == "can I run gpt-oss-120b on 2x 4090?"


def test_a_name_that_nobody_knows_has_buttons_for_what_was_meant(page: Any) -> None:
    paste(page, "gpt-oss-12b on a 4090")
    page.wait_for_selector("#view:not(.stale) .refusal button[data-box]")
    page.locator("#view button[data-box]").first.click()
    page.wait_for_selector("#view:not(.stale) .view.fit")
    assert page.input_value("#text").startswith("openai/gpt-oss-")


def test_a_server_that_is_gone_is_said_and_can_be_asked_again(tab: Watched, page: Any) -> None:
    page.route("**/api/read*", lambda route: route.abort())
    paste(page, FITS)
    page.wait_for_selector("#view:not(.stale) .refusal[data-kind=gone]")
    page.unroute("**/api/read*")
    page.click("#view button.again")
    settled(page, "FITS")
    assert page.input_value("#text") == FITS
    tab.forget()  # the browser itself says that nobody answered
