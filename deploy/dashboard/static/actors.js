// The table of actors, by host. With many actors the hosts are closed until they are opened; a host's row has the sums.
import { find, keep, make, say } from "./dom.js";
import { amount, count, duration, number, share } from "./format.js";

const OPEN = 40; // hosts are open at first if there are no more actors than this
const MOST = 200; // most rows of one host

const COLUMNS = [
  { name: "name", head: "actor" },
  { name: "state", head: "state" },
  { name: "frames_per_second", head: "frames/s", as: number, down: true },
  { name: "lag", head: "lag", as: (value) => value.toFixed(1), down: true },
  { name: "seen", head: "last heard", as: (value) => `${value.toFixed(value < 9.95 ? 1 : 0)} s`, down: true },
  { name: "frames", head: "frames", as: amount, down: true, less: true },
  { name: "gradients", head: "applied", as: count, down: true, less: true },
  { name: "stale", head: "stale", as: count, down: true, less: true },
  { name: "refused", head: "refused", as: count, down: true, less: true },
  { name: "last_error", head: "last error", text: true },
];
const LATE = 10; // seconds without a message

export class Actors {
  constructor() {
    this.sort = "";
    this.opened = new Map();
    this.heads = COLUMNS.map((column) =>
      make("th", { scope: "col", class: this.look(column) }, make("button", { onclick: () => this.order(column) }, column.head)));
    find("actors-table").append(make("thead", {}, make("tr", {}, ...this.heads)));
    for (const id of ["filter", "errors-only"]) find(id).addEventListener("input", () => this.draw());
    this.rows = [];
    this.behind = 0;
    this.hosts = new Map();
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) entry.target.near = entry.isIntersecting;
      this.draw();
    }, { rootMargin: "400px" });
    this.order(COLUMNS[0]);
  }

  look(column) {
    return `${column.as ? "number" : column.text ? "text" : ""}${column.less ? " less" : ""}`;
  }

  order(column) {
    this.down = this.sort === column.name ? !this.down : Boolean(column.down);
    this.sort = column.name;
    this.heads.forEach((head, index) => {
      if (COLUMNS[index].name === this.sort) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.draw();
  }

  show(fields, rows, number_of, hosts, relays) {
    this.behind = relays.reduce((all, relay) => all + relay.actors, 0);
    this.hosts = new Map((hosts ?? []).map((one) => [one.name, `, processor ${share(one.processor)}, memory ${share(one.memory / one.memory_total)}`]));
    this.rows = rows.map((row) => Object.fromEntries(fields.map((name, index) => [name, row[index]])));
    find("actors").hidden = !rows.length && !number_of;
    this.draw();
  }

  draw() {
    const words = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const errors = find("errors-only").checked;
    const fits = (row) => (!errors || row.last_error) && words.every((word) => `${row.name} ${row.host} ${row.state} ${row.last_error}`.toLowerCase().includes(word));
    const rows = this.rows.filter(fits);
    const all = this.rows.length;
    const hosts = Map.groupBy ? Map.groupBy(rows, (row) => row.host) : group(rows);
    say(find("actors-count"), `${rows.length < all ? `${count(rows.length)} of ` : ""}${count(all)} on ${count(hosts.size)} host${hosts.size === 1 ? "" : "s"}${this.behind ? `, ${count(this.behind)} behind relays` : ""}`);
    const table = find("actors-table");
    const sums = new Map([...hosts].map(([host, its]) => [host, sum(its)]));
    const sign = this.down ? -1 : 1;
    const by = (host) => sums.get(host)[this.sort] ?? host;
    const names = [...hosts.keys()].sort((one, other) => sign * compare(by(one), by(other)) || compare(one, other));
    while (table.tBodies.length > names.length) table.tBodies[table.tBodies.length - 1].remove();
    while (table.tBodies.length < names.length) {
      table.append(make("tbody"));
      this.seen.observe(table.tBodies[table.tBodies.length - 1]);
    }
    names.forEach((host, index) => this.drawHost(table.tBodies[index], host, hosts.get(host), sums.get(host), Boolean(words.length || errors)));
  }

  drawHost(body, host, rows, sums, found) {
    const open = this.opened.get(host) ?? (found || this.rows.length <= OPEN);
    const sign = this.down ? -1 : 1;
    rows.sort((one, other) => sign * compare(one[this.sort], other[this.sort]) || compare(one.name, other.name));
    const shown = open ? rows.slice(0, MOST) : [];
    const more = open && rows.length > MOST ? ["more"] : [];
    const lines = keep(body, ["host", ...distinct(shown), ...more], (key) => (key === "host" ? this.hostRow() : this.row(key)));
    this.fillHost(lines[0], host, rows.length, sums, open);
    shown.forEach((row, index) => {
      const line = lines[index + 1];
      if (body.near || !line.title) this.fill(line, row); // a row far outside the view is updated when it comes near
    });
    if (more.length) say(lines[lines.length - 1].cells[0], `and ${count(rows.length - MOST)} more`);
  }

  hostRow() {
    const button = make("button", { onclick: () => { this.opened.set(button.textContent, button.getAttribute("aria-expanded") !== "true"); this.draw(); } });
    return make("tr", { class: "host" }, make("th", { scope: "rowgroup" }, button), ...COLUMNS.slice(1).map((column) => make("td", { class: this.look(column) })));
  }

  fillHost(line, host, many, sums, open) {
    const button = line.cells[0].firstElementChild;
    say(button, host);
    button.setAttribute("aria-expanded", String(open));
    const told = { ...sums, state: `${count(many)} actor${many === 1 ? "" : "s"}${this.hosts.get(host) ?? ""}`, last_error: sums.last_error ? `${sums.last_error} with errors` : "" };
    COLUMNS.slice(1).forEach((column, index) => say(line.cells[index + 1], column.as ? column.as(told[column.name]) : told[column.name]));
    line.cells[4].classList.toggle("gone", sums.seen > LATE);
    line.cells[COLUMNS.length - 1].classList.toggle("error", sums.last_error > 0);
  }

  row(key) {
    if (key === "more") return make("tr", {}, make("td", { colspan: COLUMNS.length, class: "quiet" }));
    return make("tr", {}, make("th", { scope: "row" }), ...COLUMNS.slice(1).map((column) => make("td", { class: this.look(column) })));
  }

  fill(line, row) {
    COLUMNS.forEach((column, index) => say(line.cells[index], column.as ? column.as(row[column.name]) : row[column.name]));
    line.cells[4].classList.toggle("gone", row.seen > LATE);
    line.cells[COLUMNS.length - 1].classList.toggle("error", Boolean(row.last_error));
    line.title = `process ${row.pid}${row.launcher ? `, started by ${row.launcher}` : ""}`;
  }
}

// For the actors of a host: the mean lag, the longest silence, how many have an error, and sums of all other figures.
function sum(rows) {
  const total = (name) => rows.reduce((all, row) => all + row[name], 0);
  const sums = Object.fromEntries(["frames_per_second", "frames", "gradients", "stale", "refused"].map((name) => [name, total(name)]));
  return { ...sums, lag: total("lag") / rows.length, seen: Math.max(...rows.map((row) => row.seen)), last_error: rows.filter((row) => row.last_error).length };
}

// A key for each row: actors of one host may have the same name, if they were started by hand or by two launchers.
function distinct(rows) {
  const found = new Set();
  for (const row of rows) {
    let key = `actor ${row.name}`;
    while (found.has(key)) key += " again";
    found.add(key);
  }
  return found;
}

const compare = (one, other) => (typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other);

function group(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.host, [...(found.get(row.host) ?? []), row]);
  return found;
}
