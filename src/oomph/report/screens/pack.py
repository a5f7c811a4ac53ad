"""Several services on one machine, for people and for programs."""

from typing import Any

from oomph.commands import to_command, to_shell, without_secrets
from oomph.pack.pack import Packed, Placed
from oomph.report.contract.plan import SCHEMA
from oomph.report.screens.bars import bar_of_parts
from oomph.report.screens.fit import command_lines
from oomph.report.screens.plan_lines import gpus_line
from oomph.report.terminal import INDENT, Style, clean, folded, title
from oomph.units import gib

_HEADLINES = {
    "fits": ("FITS", "1;32"), "at_risk": ("STARTS, AT RISK", "1;33"), "close": ("TOO CLOSE TO CALL", "1;33"),
    "fails": ("DOES NOT FIT", "1;31"),
}  # fmt: skip


def render(packed: Packed, style: Style, *, width: int = 100, everything: bool = False) -> str:
    word, colour = _HEADLINES[packed.outcome]
    count = len(packed.placed)
    head = f"{count} services" if count else "several services"
    lines = [
        "",
        *title([style.bold(head), gpus_line(packed.cards)], width),
        "",
        f"  {style.paint(word, colour)}   {_summary(packed)}",
        *[f"{' ' * INDENT}{clean(reason)}" for reason in packed.reasons],
    ]
    if packed.placed:
        lines += ["", *_bars(packed, style, width), "", *_starts(packed, style, width), *_host(packed, style)]
    lines += [
        f"  {style.dim('note     ')}{_method(packed)}",
        *[f"  {style.dim('note     ')}{clean(note)}" for note in packed.notes],
    ]
    return "\n".join(folded(line, width) for line in lines).rstrip() + "\n"


def _summary(packed: Packed) -> str:
    if not packed.placed:
        return "no placement, order and shares hold all of them"
    how = "as they are written" if packed.as_written else "with the shares below"
    return f"all of them {how}, started in this order"


def _bars(packed: Packed, style: Style, width: int) -> list[str]:
    lines = []
    for number, card in enumerate(packed.cards):
        parts = [("others", card.used_bytes)] if card.used_bytes else []
        parts += [(clean(each.name), each.bytes_per_card) for each in packed.placed if number in each.cards]
        lines.append(f"  GPU {number}  {bar_of_parts(parts, card.total_bytes, style, width - 9)}")
    return lines


def _starts(packed: Packed, style: Style, width: int) -> list[str]:
    lines = []
    for each in packed.placed:
        where = "GPU " + ", ".join(map(str, each.cards))
        lines += [
            f"  {style.bold(str(each.place + 1))}. {style.bold(clean(each.name))}   {where}: {_detail(each)}",
            *command_lines([clean(word) for word in to_command(without_cards(each))], width),
        ]
    return lines


def _detail(each: Placed) -> str:
    kv, text = each.plan.kv, f"{gib(each.bytes_per_card)} per GPU"
    if each.asleep:
        return f"{text} asleep"
    if kv is not None:
        text += f", {kv.logged_tokens:,} tokens of KV cache, {kv.max_concurrency:.2f} requests at once"
    if each.share and each.share != each.written_share:
        text += f"; a share of {each.share:g} instead of {each.written_share:g}"
    if each.outcome != "fits":
        text += f"; {each.outcome.replace('_', ' ')}: {each.plan.verdict.risk or each.plan.verdict.first_to_break}"
    return text


def without_cards(each: Placed) -> Any:
    """The command to start: no secret in it, and the cards that it may see."""
    from msgspec.structs import replace

    visible = {k: v for k, v in each.deployment.environment.items() if k == "CUDA_VISIBLE_DEVICES"}
    return replace(without_secrets(each.deployment), environment=visible)


def _host(packed: Packed, style: Style) -> list[str]:
    of = f" of the {gib(packed.ram_bytes)} there are" if packed.ram_bytes else ""
    return [f"  {style.bold('Host')}     {gib(packed.host_bytes)}{of}, all services together"]


def _method(packed: Packed) -> str:
    measure = f" by this measure: {packed.objective}" if packed.placed and not packed.as_written else ""
    if packed.method == "CP-SAT":
        proof = f"nothing better exists{measure}" if packed.proven else "time ran out, better may exist"
        return f"by OR-Tools CP-SAT: {proof}"
    if packed.method:
        more = "not every choice was tried, better may exist; pip install 'oomph[pack]' brings OR-Tools"
        return f"by a plain search: {f'nothing better exists{measure}' if packed.proven else more}"
    return "nothing was searched"


def pack_json(packed: Packed) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "outcome": packed.outcome,
        "fits": packed.outcome in ("fits", "at_risk"),
        "as_written": packed.as_written,
        "method": packed.method,
        "proven": packed.proven,
        "objective": packed.objective,
        "reasons": list(packed.reasons),
        "notes": list(packed.notes),
        "services": [_service(each) for each in packed.placed],
        "cards": [
            {
                "gpu": card.name, "total_bytes": card.total_bytes, "used_by_others_bytes": card.used_bytes,
                "free_bytes": packed.free_of(number),
            }
            for number, card in enumerate(packed.cards)
        ],
        "host": {"need_bytes": packed.host_bytes, "ram_bytes": packed.ram_bytes},
    }  # fmt: skip


def _service(each: Placed) -> dict[str, Any]:
    kv = each.plan.kv
    return {
        "name": each.name, "model": each.plan.model, "engine": each.deployment.engine.name, "start": each.place + 1,
        "gpus": list(each.cards), "share": each.share, "written_share": each.written_share, "asleep": each.asleep,
        "bytes_per_gpu": each.bytes_per_card, "outcome": each.outcome, "tokens": kv.logged_tokens if kv else 0,
        "concurrency": kv.max_concurrency if kv else 0.0, "command": to_shell(without_cards(each)),
    }  # fmt: skip
