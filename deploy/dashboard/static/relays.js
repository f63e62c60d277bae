// The table of relays. Each row opens to show the actors of the relay's site, with their names and frames per second.
import { body, find, keep, make, say } from "./dom.js";
import { amount, count, number } from "./format.js";

const COLUMNS = [
  { head: "actors", as: (one) => count(one.actors) },
  { head: "frames/s", as: (one) => number(one.frames_per_second) },
  { head: "lag", as: (one) => one.lag.toFixed(1) },
  { head: "last heard", as: (one) => `${one.seen.toFixed(one.seen < 9.95 ? 1 : 0)} s` },
  { head: "frames", as: (one) => amount(one.frames), less: true },
  { head: "applied", as: (one) => count(one.gradients), less: true },
  { head: "stale there", as: (one) => count(one.site_stale), less: true },
  { head: "refused there", as: (one) => count(one.site_refused), less: true },
];
const PACE = COLUMNS.findIndex((column) => column.head === "frames/s") + 1;
const LAST = COLUMNS.length + 1;

export class Relays {
  constructor() {
    this.relays = [];
    this.opened = new Set();
    this.body = body(find("relays-table"), [["relay"], ...COLUMNS.map((column) => [column.head, look(column)]), ["state"]]);
  }

  show(relays) {
    this.relays = relays;
    find("relays").hidden = !relays.length;
    this.draw();
  }

  draw() {
    const lines = new Map();
    for (const relay of this.relays) {
      lines.set(`relay ${relay.name}`, (line) => this.fill(line, relay));
      if (!this.opened.has(relay.name)) continue;
      const site = Object.entries(relay.site).sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
      for (const [name, pace] of site) lines.set(`actor ${relay.name} ${name}`, (line) => fillActor(line, name, number(pace)));
      const unnamed = relay.actors - site.length;
      if (unnamed > 0) lines.set(`more ${relay.name}`, (line) => fillActor(line, `and ${count(unnamed)} more`, ""));
    }
    const rows = keep(this.body, [...lines.keys()], (key) => this.row(key));
    [...lines.values()].forEach((fill, index) => fill(rows[index]));
  }

  row(key) {
    const cells = [...COLUMNS.map((column) => make("td", { class: look(column) })), make("td", { class: "text" })];
    if (!key.startsWith("relay ")) return make("tr", {}, make("th", { scope: "row" }), ...cells);
    const name = key.slice("relay ".length);
    const button = make("button", { onclick: () => { this.opened.delete(name) || this.opened.add(name); this.draw(); } });
    return make("tr", { class: "host" }, make("th", { scope: "row" }, button), ...cells);
  }

  fill(line, relay) {
    const button = line.cells[0].firstElementChild;
    say(button, relay.name);
    button.setAttribute("aria-expanded", String(this.opened.has(relay.name)));
    COLUMNS.forEach((column, index) => say(line.cells[index + 1], column.as(relay)));
    say(line.cells[LAST], relay.last_error || relay.state);
    line.cells[LAST].classList.toggle("error", Boolean(relay.last_error));
    line.title = `process ${relay.pid} on ${relay.host}`;
  }
}

function fillActor(line, name, pace) {
  say(line.cells[0], name);
  say(line.cells[PACE], pace);
}

const look = (column) => `number${column.less ? " less" : ""}`;
