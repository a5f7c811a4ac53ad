"""`oomph --version`: the version, the releases of the engines that are known, and how old that knowledge is."""

from datetime import date

STALE_AFTER = 60  # days: vLLM makes a release every two to three weeks


def version_text(today: date | None = None) -> str:
    from importlib.metadata import version

    from oomph.engines.registry import all_engines

    today = today or date.today()
    lines = [f"oomph {version('oomph')}"]
    for engine in all_engines():
        day = date.fromisoformat(engine.looked_at())
        releases = engine.releases()
        span = f"{releases[0]} to {releases[-1]}" if len(releases) > 1 else engine.newest() or "any release"
        age = (today - day).days
        old = f", {age} days ago" if age > 0 else ""
        stale = ": newer releases may differ" if age > STALE_AFTER else ""
        lines.append(f"  {engine.title:<14}{span:<22}looked at on {day.day} {day:%b %Y}{old}{stale}")
    return "\n".join(lines) + "\n"
