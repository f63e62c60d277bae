"""The live panel and the plain line: pure functions from a status to text.

Text from the network is stripped of control characters and never read as markup.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from rich.box import ROUNDED
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from common.host.service.logs import printable
from common.run.status import EvaluationStatus, FleetStatus, HostStatus, KeyStatus, PeerStatus, RelayStatus, RunStatus
from deploy.cli.view.formatting import NOTHING, amount, duration, number, share, size, spark

WIDTH, HEIGHT = 80, 24
"""The smallest terminal in which everything fits."""
MAX_WARNINGS = 2
MAX_RESTARTS = 3
"""Most restarted actors that are named for a launcher."""
LOW_DISK = 10**9
"""Free bytes below which there is a warning."""
_SPARK = 24
_LABEL = "cyan"
_DIM = "bright_black"
_STRONG = "bold"
_WARN = "yellow"
_BAD = "bold red"
_STATES = {
    "running": "green",
    "evaluating": "green",
    "reached": "bold green",
    "finished": "bold",
    "stopped": _WARN,
    "failed": _BAD,
}
_BUSY_WARN = 0.8


def render(status: RunStatus, returns: Sequence[float], height: int = HEIGHT) -> RenderableType:
    """The panel in at most `height` rows; actors, those with errors first, get the rows that are left.

    returns: the mean return over the course of the run.
    """
    warnings = warning_lines(notes(status)[-MAX_WARNINGS:])
    table = figures(status, returns)
    blocks: list[RenderableType] = [table, Text(), progress(status)]
    fixed = 6  # border 2, empty rows 2, progress bar 1, heading of the actors 1
    room = height - table.row_count - len(warnings) - fixed
    if status.relays and room > len(status.relays):
        blocks += [Text(), relays_table(status.relays)]
        room -= len(status.relays) + 2
    if status.actors and room >= 1:
        blocks += [Text(), actors_table(status.actors, room)]
    return frame(status, Group(*blocks, *warnings))


def frame(status: RunStatus, body: RenderableType) -> Panel:
    state = Text(printable(status.state), style=_STATES.get(status.state, "")) + Text(f" {duration(status.seconds)}")
    parts = ("a3cd", status.env, status.algorithm, status.network)
    title = Text(" · ".join(map(printable, parts)), style=_STRONG)
    title.truncate(WIDTH - 8, overflow="ellipsis")
    return Panel(
        body, box=ROUNDED, border_style=_DIM, title=title, title_align="left", subtitle=state, subtitle_align="right"
    )


def figures(status: RunStatus, returns: Sequence[float], whole: bool = False) -> Table:
    """Rows of label, value and details; `whole`: fold long details instead of cutting them."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(style=_LABEL, no_wrap=True)
    table.add_column(style=_STRONG, justify="right", no_wrap=True, min_width=9)
    table.add_column(no_wrap=not whole, overflow="fold" if whole else "ellipsis", ratio=1)
    busy_style = _WARN if status.learner_busy > _BUSY_WARN else ""
    goal = f"   goal {status.goal:g}" if status.goal is not None else ""
    episode = f"{number(status.episode_length)} steps   {number(status.episode_seconds)} s each"
    transfer = f"in {size(status.gradient_bytes)}   out {size(status.weight_bytes + status.action_bytes)}"
    epoch = f"   epoch {status.epoch}" if status.epoch > 1 else ""
    learner = f"{amount(status.parameters)} parameters on {printable(status.device)}{epoch}"
    too_few = _WARN if status.actors_now < status.actors_wanted else ""
    exchange = printable(f"{status.exchange} {status.codec}".strip())
    course = Text(spark(returns, _SPARK), style="green") + Text("  " if returns else "")
    applied = (
        Text(f"{number(status.gradients_per_second)}/s")
        + _count("stale", status.stale)
        + _count("refused", status.refused)
        + _count("duplicate", status.duplicates)
    )
    rows = [
        ("return", Text(number(status.mean_return)), course + Text(f"best {number(status.best_return)}{goal}")),
        ("episodes", Text(f"{status.episodes:,}"), Text(episode)),
        (
            "frames",
            Text(f"{status.frames:,}"),
            Text(f"agent steps   {number(status.frames_per_second)}/s   ") + saved(status),
        ),
        ("gradients", Text(f"{status.gradients:,}"), applied),
        ("lag", Text(f"{status.lag_mean:.1f}"), Text(f"p95 {status.lag_p95:.0f} steps")),
        ("learner", Text(share(status.learner_busy), style=busy_style), Text("busy   ") + Text(learner, style=_DIM)),
        ("network", Text(f"{size(status.bytes_per_second)}/s"), Text(f"{transfer}   {exchange}")),
        ("actors", Text(f"{status.actors_now} / {status.actors_wanted}", style=too_few), Text(printable(status.why))),
    ]
    if (found := status.evaluation) is not None:
        between = "" if found.low is None else f"{number(found.low)} to {number(found.high)}   "
        best = "" if status.best_evaluation is None else f"best {number(status.best_evaluation.mean)}   "
        said = Text(f"{between}{best}{found.episodes} episodes, {age(status, found)}")
        rows.insert(1, ("evaluation", Text(number(found.mean)), said))
    if status.losses:
        (first, value), *others = status.losses.items()
        losses = "  ".join([_short(first), *(f"{_short(name)} {number(loss)}" for name, loss in others)])
        rows.append(("losses", Text(number(value)), Text(losses)))
    for row in rows:
        table.add_row(*row)
    return table


def age(status: RunStatus, evaluation: EvaluationStatus) -> str:
    """How long ago the evaluated weights were the newest: on a busy machine the run may be far ahead of them."""
    return f"{duration(status.seconds - evaluation.seconds)} old"


def saved(status: RunStatus) -> Text:
    """What of the run is on the disk."""
    checkpoint = status.checkpoint
    known = "no checkpoint yet"
    if checkpoint.version is not None:
        known = f"checkpoint {duration(checkpoint.age)} old"
    if checkpoint.error:
        return Text(f"{known}: {printable(checkpoint.error)}", style=_BAD)
    return Text(known, style=_DIM)


def _short(name: str) -> str:
    """policy_loss: policy; gradient_norm: norm."""
    return printable(name.removesuffix("_loss").removeprefix("gradient_").replace("_", " "))


def _count(name: str, count: int) -> Text:
    return Text(f"   {name} {count:,}", style=_WARN) if count else Text()


def limit(status: RunStatus) -> tuple[float, str] | None:
    """The fraction done of the nearest limit, and a text about it; None: the run has no limit."""
    found: list[tuple[float, str]] = []
    if status.frames_left is not None:
        left = status.frames_left / status.frames_per_second if status.frames_per_second > 0 else None
        text = f"{amount(status.frames)} of {amount(status.frames + status.frames_left)} frames"
        found.append((_done(status.frames, status.frames_left), f"{text}   {duration(left)} left"))
    if status.episodes_left is not None:
        text = f"{amount(status.episodes)} of {amount(status.episodes + status.episodes_left)} episodes"
        found.append((_done(status.episodes, status.episodes_left), text))
    if status.seconds_left is not None:
        found.append((_done(status.seconds, status.seconds_left), f"{duration(status.seconds_left)} left"))
    return max(found, default=None)


def _done(past: float, left: float) -> float:
    return min(1.0, past / (past + left)) if past + left > 0 else 1.0


def progress(status: RunStatus) -> RenderableType:
    nearest = limit(status)
    if nearest is None:
        return Text("no limit is set: the run goes on until it is stopped", style=_DIM)
    fraction, text = nearest
    row = Table.grid(padding=(0, 2))
    row.add_row(ProgressBar(total=1.0, completed=fraction, width=30), Text(share(fraction), style=_STRONG), text)
    for column in row.columns:
        column.no_wrap = True
    return row


def _table(name: str, numbers: tuple[str, ...], text: str, *, overflow: Literal["ellipsis", "fold"]) -> Table:
    """A table with a row of headings: a name, numbers, and a text that is cut or folded."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=22)
    for _ in numbers:
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=overflow == "ellipsis", overflow=overflow, ratio=1)
    table.add_row(*(Text(heading, style=_LABEL) for heading in (name, *numbers, text)))
    return table


def actors_table(actors: list[PeerStatus], rows: int) -> Table:
    """At most `rows` rows under a heading: actors with errors first, then by name; the last row counts the rest."""
    ordered = sorted(actors, key=lambda actor: (not actor.last_error, actor.name))
    shown = ordered if len(ordered) <= rows else ordered[: rows - 1]
    table = _table("actor", ("frames", "per s", "lag", "seen"), "state", overflow="ellipsis")
    for actor in shown:
        said = Text(printable(actor.last_error or actor.state), style=_WARN if actor.last_error else _DIM)
        figures = (amount(actor.frames), number(actor.frames_per_second), f"{actor.lag:.1f}", f"{actor.seen:.0f} s")
        table.add_row(Text(printable(actor.name)), *figures, said)
    if len(shown) < len(ordered):
        table.add_row(Text(f"and {len(ordered) - len(shown)} more", style=_DIM))
    return table


def relays_table(relays: list[RelayStatus], *, whole: bool = False) -> Table:
    """A row for each relay; `whole`: below it also one for each of its actors, as far as it names them."""
    table = _table("relay", ("actors", "frames", "per s", "lag", "seen"), "state", overflow="ellipsis")
    for relay in sorted(relays, key=lambda relay: relay.name):
        said = Text(printable(relay.last_error or relay.state), style=_WARN if relay.last_error else _DIM)
        said += _count("stale there", relay.site_stale) + _count("refused there", relay.site_refused)
        figures = (amount(relay.frames), number(relay.frames_per_second), f"{relay.lag:.1f}", f"{relay.seen:.0f} s")
        table.add_row(Text(printable(relay.name)), str(relay.actors), *figures, said)
        site = sorted(relay.site.items()) if whole else []
        for name, frames_per_second in site:
            table.add_row(Text(f"  {printable(name)}", style=_DIM), "", "", number(frames_per_second), "", "", "")
        if site and len(site) < relay.actors:
            table.add_row(Text(f"  and {relay.actors - len(site)} more", style=_DIM), *[""] * 6)
    return table


def launchers_table(launchers: list[FleetStatus]) -> Table:
    table = _table("launcher", ("slots", "ordered", "running", "starting", "failed"), "", overflow="fold")
    for launcher in launchers:
        said = Text(printable(launcher.why))
        when = f"next try in {launcher.retry_seconds} s" if launcher.retry_seconds else ""
        if launcher.gave_up:
            code = f"exit code {launcher.exit_code}"
            said = Text(f"gave up ({code}, {when or 'trying one'}): ", style=_BAD) + said
        elif when:
            said = Text(f"{when}: ", style=_WARN) + said
        if launcher.restarts:
            said += Text(f"{'; ' if said else ''}started again: {_most(launcher.restarts)}", style=_WARN)
        counts = (launcher.slots, launcher.ordered, launcher.running, launcher.starting, launcher.failed)
        table.add_row(Text(printable(launcher.name)), *map(str, counts), said)
    return table


def _most(restarts: Mapping[str, int]) -> str:
    """Which actors were started again most often, and how often."""
    most = sorted(restarts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{printable(name)} {count}x" for name, count in most[:MAX_RESTARTS]]
    return ", ".join([*named, *(["..."] if len(most) > MAX_RESTARTS else [])])


def hosts_table(hosts: list[HostStatus]) -> Table:
    table = _table("host", ("actors", "processor", "memory"), "", overflow="fold")
    for host in sorted(hosts, key=lambda host: host.name):
        memory = f"{size(host.memory)} of {size(host.memory_total)}"
        table.add_row(Text(printable(host.name)), str(host.actors), share(host.processor), memory, "")
    return table


def keys_table(keys: list[KeyStatus]) -> Table:
    table = _table("key", ("peers", "seen"), "roles", overflow="fold")
    for key in sorted(keys, key=lambda key: key.name):
        seen = NOTHING if key.seen is None else f"{duration(key.seen)} ago"
        table.add_row(
            Text(printable(key.name)), str(key.peers), seen, Text(printable(", ".join(key.roles)), style=_DIM)
        )
    return table


def notes(status: RunStatus) -> list[str]:
    """Notes to show besides the figures, the most important last."""
    out = [f"{one.name} is kept out, {one.seconds_left:.0f} s more: {one.why}" for one in status.quarantined]
    low = status.disk_free is not None and status.disk_free < LOW_DISK
    disk = [f"the disk of the run folder has {size(status.disk_free or 0)} left"] if low else []
    return [*status.warnings, *out, *status.health, *disk]


def warning_lines(warnings: list[str], whole: bool = False) -> list[Text]:
    """A line for each warning; `whole`: fold long ones instead of cutting them."""
    return [
        Text(f"! {printable(text)}", style=_WARN, no_wrap=not whole, overflow="fold" if whole else "ellipsis")
        for text in warnings
    ]


def line(status: RunStatus) -> str:
    """The run in one line, for logs and pipes."""
    parts = [
        f"frames {status.frames:,}",
        f"return {number(status.mean_return)}",
        f"length {number(status.episode_length)}",
        f"{number(status.frames_per_second)} frames/s",
        f"{number(status.gradients_per_second)} gradients/s",
        f"lag {status.lag_mean:.1f}",
        f"busy {share(status.learner_busy)}",
        f"actors {status.actors_now}/{status.actors_wanted}",
    ]
    if (found := status.evaluation) is not None:
        parts.insert(2, f"evaluated {number(found.mean)} ({age(status, found)})")
    nearest = limit(status)
    if nearest is not None:
        parts.append(f"done {share(nearest[0])}")
    if status.checkpoint.error:
        parts.append("checkpoint fails")
    if status.state != "running":
        parts.append(printable(status.state))
    return "  ".join(part.replace(NOTHING, "-") for part in parts)
