// The page: asks once a second and shows the answer. It keeps only what the person who looks has chosen, and events.
import { body, find, keep, make, say } from "./dom.js";
import { amount, bytes, clock, count, duration, label, NOTHING, number, share } from "./format.js";
import { Actors } from "./actors.js";
import { Curves } from "./curves.js";
import { Relays } from "./relays.js";

const ASK = 1000;
const EVENTS_SHOWN = 40;
const LAUNCHERS_SHOWN = 10;
const AS = { number, amount, bytes, share, count, duration };
const KINDS = ["run", "actors", "scaling", "launchers", "evaluation", "checkpoint", "trouble"];

const state = { run: 0, told: 0, events: [], shown: EVENTS_SHOWN, kinds: new Set(KINDS), heard: 0, turn: 0 };
const actors = new Actors();
const relays = new Relays();
const curves = new Curves();

async function ask() {
  const turn = (state.turn += 1); // the answer to an earlier question has the same events, or is of another run
  try {
    const answer = await fetch(`api/now?run=${state.run}&told=${state.told}`, { signal: AbortSignal.timeout(10000) });
    if (answer.status === 401) return location.assign("login");
    if (!answer.ok) throw new Error(await answer.text());
    const told = await answer.json();
    state.heard = performance.now();
    if (turn === state.turn) show(told);
  } catch (error) {
    if (turn === state.turn) link(`the dashboard does not answer since ${duration((performance.now() - state.heard) / 1000)}`, true);
  }
}

async function loop() {
  if (!document.hidden || !state.heard) await ask();
  setTimeout(loop, ASK);
}

function show(told) {
  const { runs, run, now } = told;
  const summary = runs[state.run];
  const figures = run.figures;
  for (const element of document.querySelectorAll("[data-figure]")) {
    const value = element.dataset.figure.split(".").reduce((found, name) => found?.[name], figures);
    say(element, AS[element.dataset.as](value));
  }
  tabs(runs);
  title(figures, summary, runs.length);
  notes(figures, summary);
  tiles(figures, run.actors, run.relays);
  connection(summary, now);
  actors.show(told.fields, run.actors, figures.actors_now, figures.hosts, run.relays);
  relays.show(run.relays);
  launchers(run.launchers);
  timeline(run, now);
  about(figures, run);
  keys(figures.keys);
  find("logout").hidden = !told.password;
  curves.show(runs, state.run, figures);
  document.body.dataset.ready = String(state.run);
}

function link(text, away) {
  say(find("link"), text);
  find("link").classList.toggle("away", away);
}

function connection(summary, now) {
  const who = summary.source === "folder" ? summary.where : "the learner";
  const at = clock(summary.away_since, now);
  const since = `since ${at} (${duration(summary.away)})`;
  if (summary.ended) link(`the learner ended at ${at} (${duration(summary.away)} ago): ${summary.ended}`, summary.state !== "finished" && summary.state !== "reached");
  else if (summary.away != null && !summary.answered) link(`waiting for ${summary.where} ${since}`, true);
  else if (summary.away != null) link(`${who} does not answer ${since}`, true);
  else link(summary.source === "folder" ? "read from its folder" : "live", false);
}

function tabs(runs) {
  find("runs").hidden = runs.length < 2;
  const buttons = keep(find("runs"), runs.map((run) => String(run.number)), (key) =>
    make("button", { onclick: () => choose(Number(key)) }));
  runs.forEach((run, index) => {
    const env = run.env ? `${run.env} ${number(run.mean_return)}` : "";
    say(buttons[index], `${label(run, runs)}${env ? ` · ${env}` : ""}${run.away == null ? "" : " · away"}`);
    buttons[index].title = run.where;
    if (run.number === state.run) buttons[index].setAttribute("aria-current", "true");
    else buttons[index].removeAttribute("aria-current");
  });
}

function choose(run) {
  Object.assign(state, { run, told: 0, shown: EVENTS_SHOWN });
  forget();
  find("settings").open = false;
  say(find("settings").querySelector("pre"), "");
  delete document.body.dataset.ready;
  ask();
}

function title(figures, summary, many) {
  const what = figures.env ? [figures.env, figures.algorithm, figures.network].filter(Boolean).join(" · ") : summary.where;
  say(find("name"), what);
  document.title = figures.env ? `${number(figures.mean_return)} ${figures.env} – a3cd` : "a3cd";
  const parts = [figures.state, duration(figures.seconds), figures.epoch > 1 && `epoch ${figures.epoch}`, summary.where];
  say(find("subtitle"), figures.env ? parts.filter(Boolean).join(" · ") : "");
  const limit = limits(figures);
  find("progress").hidden = !limit;
  if (limit) {
    find("progress").firstElementChild.value = limit[0];
    say(find("progress").lastElementChild, `${share(limit[0])}, ${limit[1]}`);
  }
}

// The nearest limit, as in the terminal's panel.
function limits(figures) {
  const found = [];
  const part = (past, left) => (past + left > 0 ? Math.min(1, past / (past + left)) : 1);
  const { frames, episodes, seconds, frames_left, episodes_left, seconds_left, frames_per_second: pace } = figures;
  if (frames_left != null) {
    const left = pace > 0 ? `, ${duration(frames_left / pace)} left` : "";
    found.push([part(frames, frames_left), `${amount(frames)} of ${amount(frames + frames_left)} frames${left}`]);
  }
  if (episodes_left != null) found.push([part(episodes, episodes_left), `${amount(episodes)} of ${amount(episodes + episodes_left)} episodes`]);
  if (seconds_left != null) found.push([part(seconds, seconds_left), `${duration(seconds_left)} left`]);
  return found.sort((one, other) => other[0] - one[0])[0];
}

function notes(figures, summary) {
  const told = [];
  if (summary.problem) told.push(["bad", summary.problem]);
  if (figures.checkpoint?.error) told.push(["bad", `checkpoint: ${figures.checkpoint.error}`]);
  for (const text of figures.health ?? []) told.push(["bad", text]);
  for (const one of figures.quarantined ?? []) told.push(["", `${one.name} (${one.place}) is kept out, ${duration(one.seconds_left)} more: ${one.why}`]);
  for (const text of figures.warnings ?? []) told.push(["", text]);
  const items = keep(find("notes"), told.map((_, index) => String(index)), () => make("li"));
  told.forEach(([kind, text], index) => {
    say(items[index], text);
    items[index].className = kind;
  });
}

function tiles(figures, rows, relays) {
  const interval = (one) => (one?.low == null ? "" : `${number(one.low)} to ${number(one.high)}, 95 %`);
  say(find("best"), [figures.best_return != null && `best ${number(figures.best_return)}`, figures.goal != null && `goal ${number(figures.goal)}`].filter(Boolean).join(", "));
  say(find("evaluation"), figures.evaluation ? interval(figures.evaluation) || `${count(figures.evaluation.episodes)} episodes` : "none yet");
  say(find("frames"), figures.frames == null ? "" : `${amount(figures.frames)} frames`);
  say(find("lag"), figures.lag_p95 == null ? "" : `95 % at most ${number(figures.lag_p95)}`);
  say(find("busy"), figures.gradients_per_second == null ? "" : `${number(figures.gradients_per_second)} gradients/s`);
  const failing = rows.filter((row) => row[10]).length + relays.filter((relay) => relay.last_error).length;
  const wanted = figures.actors_wanted == null ? "" : `of ${count(figures.actors_wanted)} wanted`;
  say(find("actors-more"), failing ? `${wanted}, ${failing} with errors` : wanted);
  find("actors-more").classList.toggle("warn", failing > 0 || figures.actors_now < figures.actors_wanted);
  find("busy").previousElementSibling.classList.toggle("warn", figures.learner_busy > 0.8);
  say(find("why"), figures.why ? `scaling: ${figures.why}` : "");
}

function launchers(found) {
  find("launchers").hidden = !found.length;
  const trouble = (one) => Number(one.gave_up || Boolean(one.why));
  const sorted = [...found].sort((one, other) => trouble(other) - trouble(one) || one.name.localeCompare(other.name, "en", { numeric: true }));
  found = state.launchers ? sorted : sorted.slice(0, LAUNCHERS_SHOWN);
  find("more-launchers").hidden = sorted.length <= LAUNCHERS_SHOWN;
  say(find("more-launchers"), state.launchers ? "fewer" : `all ${sorted.length}`);
  const names = ["slots", "ordered", "running", "starting", "failed"];
  const heads = [["launcher"], ["host"], ...names.map((name) => [name, "number"]), ["why"]];
  const rows = keep(body(find("launchers-table"), heads), found.map((one) => one.name), (name) =>
    make("tr", {}, make("th", { scope: "row" }, name), make("td"), ...names.map(() => make("td", { class: "number" })), make("td", { class: "text" })));
  found.forEach((one, index) => {
    const cells = rows[index].cells;
    const again = one.retry_seconds ? `, next try in ${duration(one.retry_seconds)}` : "";
    [one.host, ...names.map((name) => count(one[name]))].forEach((text, at) => say(cells[at + 1], text));
    const restarts = Object.entries(one.restarts ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([name, times]) => `${name} ${times}x`).join(", ");
    const started = restarts && `${one.why || again ? "; " : ""}started again: ${restarts}`;
    say(cells[7], one.gave_up ? `gave up (exit code ${one.exit_code}${again}): ${one.why}${started}` : `${one.why}${again}${started}`);
    cells[7].classList.toggle("error", one.gave_up);
  });
}

function keys(found) {
  find("keys").hidden = !found?.length;
  if (!found?.length) return;
  const heads = [["key"], ["may be"], ["peers", "number"], ["last heard", "number"]];
  const rows = keep(body(find("keys-table"), heads), found.map((one) => one.name), (name) =>
    make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "text" }), make("td", { class: "number" }), make("td", { class: "number" })));
  found.forEach((one, index) => {
    const told = [one.roles.join(", "), count(one.peers), one.seen == null ? NOTHING : `${duration(one.seen)} ago`];
    told.forEach((text, at) => say(rows[index].cells[at + 1], text));
  });
}

function timeline(run, now) {
  if (run.told < state.told) forget(); // they are of a dashboard that has been restarted since
  if (run.events.length) state.events = [...state.events, ...run.events].slice(-1000);
  state.told = run.told;
  const chosen = state.events.map((event, index) => [run.told - state.events.length + index, event]).filter(([, event]) => state.kinds.has(event.kind)).reverse();
  const shown = chosen.slice(0, state.shown);
  const by = new Map(shown.map(([place, event]) => [String(place), event]));
  keep(find("events"), [...by.keys()], (key) => {
    const event = by.get(key);
    return make("li", {}, make("span", { class: "quiet" }, clock(event.time, now)), make("span", { class: "quiet" }, duration(event.seconds)),
      make("span", { class: "quiet" }, event.kind), make("span", { class: `text ${event.kind}` }, event.text));
  });
  find("more-events").hidden = chosen.length <= shown.length;
}

// Empties the timeline: its items are known by the places of their events, which begin anew.
function forget() {
  state.events = [];
  find("events").replaceChildren();
}

function about(figures, run) {
  const transfer = [figures.gradient_bytes != null && `in ${bytes(figures.gradient_bytes)}`, figures.weight_bytes != null && `out ${bytes(figures.weight_bytes + (figures.action_bytes ?? 0))}`, figures.bytes_per_second != null && `${bytes(figures.bytes_per_second)}/s`];
  const unused = ["stale", "refused", "duplicates", "unknown"].filter((name) => figures[name]).map((name) => `${name} ${count(figures[name])}`);
  const best = figures.best_evaluation;
  const saved = figures.checkpoint;
  const pairs = {
    frames: figures.frames != null && `${count(figures.frames)}${figures.emulator_frames > figures.frames ? ` (${count(figures.emulator_frames)} of the emulator)` : ""}`,
    episodes: figures.episodes != null && `${count(figures.episodes)}, of ${number(figures.episode_length)} steps and ${number(figures.episode_seconds)} s each`,
    applied: figures.gradients != null && [`${count(figures.gradients)} ${figures.exchange || "gradients"}`, ...unused].join(", "),
    "best weights": best && `version ${count(best.version)}: mean return ${number(best.mean)}${best.low == null ? "" : ` (${number(best.low)} to ${number(best.high)})`} over ${count(best.episodes)} episodes`,
    evaluations: figures.evaluations ? count(figures.evaluations) : null,
    transfer: transfer.filter(Boolean).join(", "),
    exchange: [figures.exchange, figures.codec].filter(Boolean).join(", "),
    network: figures.network && `${figures.network}${figures.parameters ? `, ${amount(figures.parameters)} parameters` : ""}${figures.device ? ` on ${figures.device}` : ""}`,
    "learning rate": figures.learning_rate_factor != null && figures.learning_rate_factor !== 1 ? `times ${figures.learning_rate_factor}, after ${figures.returns_to_best} returns to the best checkpoint` : null,
    checkpoint: saved && (saved.version == null ? "none yet" : `version ${count(saved.version)}${saved.age == null ? "" : `, ${duration(saved.age)} old`}`),
    actors: figures.actors_peak != null && `at most ${count(figures.actors_peak)} at a time`,
    version: figures.version != null && count(figures.version),
    seed: figures.seed != null && String(figures.seed),
    run: figures.run && `${figures.run}, epoch ${figures.epoch}`,
    folder: figures.run_dir && `${figures.run_dir}${figures.disk_free == null ? "" : `, ${bytes(figures.disk_free)} left on its disk`}`,
    weights: figures.weights,
    software: figures.versions && Object.entries(figures.versions).map(([name, value]) => `${name} ${value}`).join(", "),
  };
  const there = Object.entries(pairs).filter(([, text]) => text);
  const items = keep(find("pairs"), there.map(([name]) => name), (name) => make("div", {}, make("dt", {}, name), make("dd")));
  there.forEach(([, text], index) => say(items[index].lastElementChild, text));
  find("settings").hidden = !run.settings;
}

async function readSettings() {
  const pre = find("settings").querySelector("pre");
  const wanted = state.run;
  if (find("settings").open && !pre.textContent) {
    const answer = await fetch(`api/settings?run=${wanted}`);
    const text = answer.ok ? await answer.text() : NOTHING;
    if (wanted === state.run) say(pre, text);
  }
}

function begin() {
  for (const kind of KINDS) {
    const box = make("input", { type: "checkbox", checked: true });
    box.addEventListener("change", () => state.kinds[box.checked ? "add" : "delete"](kind));
    find("kinds").append(make("label", {}, box, kind));
  }
  find("more-events").addEventListener("click", () => (state.shown += 200));
  find("more-launchers").addEventListener("click", () => (state.launchers = !state.launchers));
  find("settings").addEventListener("toggle", readSettings);
  document.addEventListener("visibilitychange", () => document.hidden || ask());
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); find("filter").focus(); }
    else if (/^[1-9]$/.test(event.key) && find("runs").children[Number(event.key) - 1]) choose(Number(event.key) - 1);
  });
  loop();
}

begin();
