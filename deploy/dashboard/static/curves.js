// The curves, by BokehJS, which is loaded once there are figures. All charts share one range; each run has one source.
import { find, keep, make, say } from "./dom.js";
import { amount, axis, bytes, count, duration, label, number, share } from "./format.js";

const ASK = 2000;
const CHARTS = [
  { title: "mean return", lines: [["mean_return", "training", "--accent"], ["evaluation_return", "evaluation", "--second"]], band: ["evaluation_low", "evaluation_high", "--second"], goal: true },
  { title: "episode length, steps", lines: [["episode_length", "", "--third"]] },
  { title: "frames per second", lines: [["frames_per_second", "", "--accent"]], zero: true, as: amount },
  { title: "lag, versions", lines: [["lag_mean", "mean", "--accent"], ["lag_p95", "95 % at most", "--third"]], zero: true },
  { title: "actors", lines: [["actors", "there are", "--fourth"], ["actors_wanted", "wanted", "--quiet", "dashed"]], zero: true, step: true, as: count },
  { title: "learner busy", lines: [["learner_busy", "", "--accent"]], zero: true, as: share },
  { title: "policy loss", lines: [["policy_loss", "", "--accent"]] },
  { title: "value loss", lines: [["value_loss", "", "--accent"]] },
  { title: "entropy, nats", lines: [["entropy", "", "--accent"]] },
  { title: "gradient norm", lines: [["gradient_norm", "", "--accent"]] },
  { title: "gradients per second", lines: [["gradients_per_second", "", "--accent"]], zero: true, as: amount },
  { title: "bytes per second", lines: [["bytes_per_second", "", "--accent"]], zero: true, as: bytes },
];
const COLOURS = ["--accent", "--third", "--fourth", "--second", "--bad", "--warn"]; // of runs shown beside each other
const HEIGHT = 190;

export class Curves {
  constructor() {
    this.runs = [];
    this.run = 0;
    this.beside = new Set();
    this.over = "seconds";
    this.window = null; // null: the last `part` of the run; else [from, to]
    this.part = 1;
    this.stamp = null; // says which samples are drawn
    this.bokeh = null;
    this.listen();
  }

  show(runs, run, figures) {
    this.runs = runs;
    this.goal = figures.goal;
    if (run !== this.run) {
      this.run = run;
      this.whole();
      this.full = null; // another run has another length
      this.built = null;
    }
    this.offer();
    this.bokeh ??= load();
    if (!this.timer) {
      this.timer = true;
      this.ask();
    }
  }

  // From now on the whole run is shown.
  whole() {
    this.window = null;
    this.part = 1;
    find("span").querySelector("input").checked = true;
  }

  get chosen() {
    return [this.run, ...[...this.beside].filter((number) => number !== this.run && number < this.runs.length)];
  }

  // Runs that can be shown beside this one.
  offer() {
    const others = this.runs.filter((run) => run.number !== this.run);
    find("beside").hidden = !others.length;
    const labels = keep(find("beside"), ["legend", ...others.map((run) => String(run.number))], (key) => {
      if (key === "legend") return make("legend", {}, "beside:");
      const box = make("input", { type: "checkbox", checked: this.beside.has(Number(key)) });
      box.addEventListener("change", () => { this.beside[box.checked ? "add" : "delete"](Number(key)); this.change(); });
      return make("label", {}, box, make("span"));
    });
    others.forEach((run, index) => say(labels[index + 1].lastElementChild, label(run, this.runs)));
  }

  listen() {
    find("over").addEventListener("change", (event) => { this.over = event.target.value; this.whole(); this.change(); });
    find("span").addEventListener("change", (event) => { this.part = Number(event.target.value); this.window = null; this.change(); });
    for (const button of document.querySelectorAll("[data-move]")) button.addEventListener("click", () => this.move(button.dataset.move));
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };
    find("charts").addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.move(keys[event.key]);
    });
    let moved = null;
    find("charts").addEventListener("pointermove", (event) => {
      if (!moved) requestAnimationFrame(() => { this.point(moved); moved = null; });
      moved = event;
    });
    find("charts").addEventListener("pointerleave", (event) => this.point(event));
    find("charts").addEventListener("dblclick", () => this.move("all"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.built = null; this.change(); });
  }

  move(how) {
    if (!this.shown || !this.full) return;
    const [low, high] = this.full;
    let [from, to] = this.window ?? this.shown;
    const length = to - from;
    if (how === "left" || how === "right") {
      const by = Math.max(low - from, Math.min(high - to, (how === "left" ? -0.5 : 0.5) * length));
      [from, to] = [from + by, to + by];
    } else if (how === "in") [from, to] = [to - length / 2, to];
    else [from, to] = [from - length, to];
    const whole = how === "all" || (from <= low && to >= high);
    this.window = whole ? null : [Math.max(low, from), Math.min(high, to)];
    if (whole) this.part = 1;
    for (const input of find("span").querySelectorAll("input")) input.checked = !this.window && Number(input.value) === this.part;
    this.change();
  }

  change() {
    this.stamp = null;
    if (this.timer) this.ask();
  }

  async ask() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const courses = await this.fetch().catch(() => null); // the page already says that there is no answer
    const Bokeh = await this.bokeh;
    if (!Bokeh) this.bokeh = load();
    if (turn === this.turn && courses && Bokeh) this.draw(Bokeh, courses);
    setTimeout(() => turn === this.turn && this.ask(), ASK);
  }

  // The samples of all chosen runs; null: nothing has changed.
  async fetch() {
    const chosen = this.chosen;
    const stamp = chosen.map((number) => `${number}:${this.runs[number].changes}`).join();
    if (document.hidden || (this.built && this.stamp === stamp)) return null;
    const points = Math.min(1200, Math.max(300, Math.round(find("charts").clientWidth / 2)));
    const [from, to] = this.window ?? [this.full && this.part < 1 ? this.full[1] - this.part * (this.full[1] - this.full[0]) : "", ""];
    const one = async (number) => {
      const answer = await fetch(`api/course?run=${number}&over=${this.over}&from=${from}&to=${to}&points=${points}`);
      if (!answer.ok) throw new Error(answer.statusText);
      return [number, (await answer.json()).samples];
    };
    const courses = await Promise.all(chosen.map(one));
    this.stamp = stamp;
    return courses;
  }

  draw(Bokeh, courses) {
    const names = courses.map(([number]) => number).join();
    const lines = courses.map(([, samples]) => Object.keys(samples).map((name) => [name, many(samples[name], (value) => value != null)]).filter(([, points]) => points).sort().join()).join(";");
    const key = `${names} ${lines} ${this.over} ${this.goal}`;
    if (this.built !== key) {
      this.build(Bokeh, courses);
      this.built = key;
    }
    let [low, high] = [Infinity, -Infinity];
    for (const [number, samples] of courses) {
      const x = samples[this.over] ?? [];
      if (x.length) [low, high] = [Math.min(low, x[0]), Math.max(high, x[x.length - 1])];
      this.sources.get(number).data = columns(samples, this.over);
    }
    if (low > high) return;
    if (!this.window && (this.part === 1 || !this.full)) this.full = [low, high];
    else if (!this.window && this.full) this.full = [this.full[0], high];
    const begin = this.part < 1 && !this.window ? Math.max(low, high - this.part * (high - this.full[0])) : low;
    this.shown = this.window ?? [begin, high > begin ? high : begin + 1];
    this.own = true;
    [this.range.start, this.range.end] = this.shown;
    this.own = false;
    this.read(this.at);
    find("charts").dataset.points = String(courses[0][1][this.over]?.length ?? 0);
  }

  build(Bokeh, courses) {
    this.clear();
    this.sources = new Map(courses.map(([number, samples]) => [number, new Bokeh.ColumnDataSource({ data: columns(samples, this.over) })]));
    this.range = new Bokeh.Range1d({ start: 0, end: 1 });
    for (const end of ["start", "end"]) this.range.properties[end].change.connect(() => this.zoomed());
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const page = new Bokeh.Document(); // figures can share models only in one document
    const plots = [];
    for (const chart of CHARTS) {
      const there = chart.lines.filter(([name]) => courses.some(([, samples]) => samples[name]?.some((value) => value != null)));
      if (!there.length) continue;
      const [box, plot, figure] = this.chart(Bokeh, chart, there, courses.map(([number]) => number), colour);
      find("charts").append(box);
      plots.push(plot);
      page.add_root(figure);
    }
    this.views = Bokeh.embed.add_document_standalone(page, find("charts"), plots);
    this.views.then(() => plots.forEach(unstop));
  }

  clear() {
    this.readings = [];
    this.views?.then((views) => views.clear());
    find("charts").replaceChildren();
  }

  chart(Bokeh, chart, lines, numbers, colour) {
    const several = numbers.length > 1;
    const as = chart.as ?? number;
    const heading = make("h3", {}, chart.title);
    const plot = make("div", { class: "plot" });
    const figure = Bokeh.Plotting.figure({
      height: HEIGHT, sizing_mode: "stretch_width", toolbar_location: null, tools: "", min_border_left: 56, min_border_right: 8,
      x_range: this.range, y_range: new Bokeh.DataRange1d({ range_padding: 0.08, ...(chart.zero ? { start: 0 } : {}) }),
      background_fill_color: null, border_fill_color: null, outline_line_color: null, output_backend: "canvas",
    });
    const legend = several
      ? numbers.map((run, index) => [run, lines[0][0], label(this.runs[run], this.runs), COLOURS[index % COLOURS.length]])
      : lines.map(([name, text, shade, dash]) => [numbers[0], name, text, shade, dash]);
    for (const [run, name, text, shade, dash] of legend) {
      const value = make("b");
      const mark = text ? [make("i", { class: dash, style: `border-color: ${colour(shade)}` }), `${text} `] : [];
      heading.append(make("span", {}, ...mark, value));
      this.readings.push([value, run, name, as]);
    }
    numbers.forEach((run, index) => {
      const source = this.sources.get(run);
      const shade = (own) => colour(several ? COLOURS[index % COLOURS.length] : own);
      if (chart.band && lines.some(([name]) => name === "evaluation_return")) {
        figure.varea({ field: "x" }, { field: chart.band[0] }, { field: chart.band[1] }, { source, fill_color: shade(chart.band[2]), fill_alpha: 0.18 });
      }
      lines.forEach(([name, , own, dash], at) => {
        const look = { source, line_color: shade(own), line_width: several && at ? 1 : 1.6, line_dash: dash || (several && at) ? [5, 3] : [], line_join: "round" };
        if (chart.step) figure.step({ field: "x" }, { field: name }, "after", look);
        else figure.line({ field: "x" }, { field: name }, look);
        if (many(source.data[name], (value) => !Number.isNaN(value)) === 1) figure.scatter({ field: "x" }, { field: name }, { source, size: 8, fill_color: look.line_color, line_color: null });
      });
    });
    if (chart.goal && this.goal != null) { // no label: its value is at the top of the page
      figure.add_layout(new Bokeh.Span({ dimension: "width", location: this.goal, line_color: colour("--quiet"), line_dash: [2, 3], line_width: 1 }));
    }
    this.axes(Bokeh, figure, as, colour);
    if (!matchMedia("(pointer: coarse)").matches) { // on a touch screen dragging scrolls the page
      const zoom = new Bokeh.BoxZoomTool({ dimensions: "width" });
      figure.add_tools(zoom);
      figure.toolbar.active_drag = zoom;
    }
    const box = make("div", { class: "chart" }, heading, make("div", { class: "frame" }, make("div", { class: "cursor", hidden: true }), plot));
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", `${chart.title} over ${this.over === "seconds" ? "time" : "frames"}`);
    return [box, plot, figure];
  }

  axes(Bokeh, figure, as, colour) {
    const time = this.over === "seconds";
    for (const [axis, text] of [[figure.xaxis, time ? duration : amount], [figure.yaxis, as]]) {
      axis.formatter = formatter(Bokeh, text);
      Object.assign(axis, {
        axis_line_color: colour("--line"), major_tick_line_color: colour("--line"), minor_tick_line_color: null, major_tick_in: 0, major_tick_out: 4,
        major_label_text_color: colour("--quiet"), major_label_text_font_size: "11px", major_label_text_font: "system-ui, 'DejaVu Sans', sans-serif",
      });
    }
    figure.xaxis.ticker = new Bokeh.AdaptiveTicker({ desired_num_ticks: 5, ...(time ? { base: 60, mantissas: [1, 2, 5, 10, 15, 20, 30], min_interval: 1 } : {}) });
    figure.yaxis.ticker = new Bokeh.BasicTicker({ desired_num_ticks: 4, ...(as === count ? { min_interval: 1 } : {}) });
    figure.xgrid.grid_line_color = null;
    figure.ygrid.grid_line_color = colour("--line");
    figure.ygrid.grid_line_alpha = 0.7;
  }

  // Shows the values where the mouse is, in all charts at once; without a mouse those at the end.
  read(x) {
    this.at = x;
    for (const [element, run, name, as] of this.readings ?? []) {
      const data = this.sources.get(run).data;
      say(element, as(known(data[name], x == null ? data.x.length - 1 : nearest(data.x, x))));
    }
    const data = x == null ? null : this.sources?.get(this.run)?.data;
    const place = data && nearest(data.x, x);
    say(find("where"), data ? `at ${duration(data.seconds[place])}, ${count(Math.round(data.frames[place]))} frames` : "");
  }

  async point(event) {
    const plot = event.target.closest?.(".plot");
    const views = await this.views;
    const over = [...document.querySelectorAll(".plot")];
    const frame = plot && views ? views.roots[over.indexOf(plot)]?.frame.bbox : null;
    const place = frame ? (event.clientX - plot.getBoundingClientRect().left - frame.left) / frame.width : -1;
    const inside = place >= 0 && place <= 1;
    over.forEach((other, index) => {
      const line = other.previousElementSibling;
      line.hidden = !inside;
      const box = inside && views.roots[index]?.frame.bbox;
      if (box) Object.assign(line.style, { left: `${box.left + place * box.width}px`, height: `${box.height}px` });
    });
    this.read(inside ? this.range.start + place * (this.range.end - this.range.start) : null);
  }

  // Somebody drew a box: its bounds are the new window, whose samples may be finer.
  zoomed() {
    if (this.own) return;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => {
      this.window = [this.range.start, this.range.end];
      this.built = null; // a figure would keep bounds that a person has set
      for (const input of find("span").querySelectorAll("input")) input.checked = false;
      this.change();
    }, 50);
  }
}

function columns(samples, over) {
  const data = {};
  for (const chart of CHARTS) for (const [name] of chart.lines) data[name] = [];
  const x = samples[over] ?? [];
  for (const name of [...Object.keys(data), "evaluation_low", "evaluation_high", "frames", "seconds"]) {
    data[name] = (samples[name] ?? x.map(() => null)).map((value) => value ?? NaN);
  }
  return { ...data, x };
}

// How many values are there: 0, 1 (of which a line would show nothing), or 2 for more.
function many(values, there) {
  const first = values.findIndex(there);
  return first < 0 ? 0 : values.slice(first + 1).some(there) ? 2 : 1;
}

// The index of the value nearest to x in sorted values.
function nearest(values, x) {
  let [low, high] = [0, values.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - values[low - 1] < values[low] - x ? low - 1 : low;
}

// The last known value up to index `at`; null if there is none.
function known(values, at) {
  while (at > 0 && Number.isNaN(values[at])) at -= 1;
  return Number.isNaN(values[at]) ? null : values[at];
}

// Takes the figures out of the tab order: all have the same keys, so a person who uses the keyboard stops there once.
function unstop(root) {
  for (const element of root.querySelectorAll("*")) {
    if (element.classList.contains("bk-events")) Object.assign(element, { tabIndex: -1 }).style.outline = "none";
    if (element.shadowRoot) unstop(element.shadowRoot);
  }
}

function formatter(Bokeh, text) {
  const made = new Bokeh.BasicTickFormatter();
  made.doFormat = (ticks) => (text === number ? axis(ticks) : ticks.map((tick) => text(tick).replace(".0", "")));
  return made;
}

// Loads BokehJS; null: nobody answered.
function load() {
  const script = (name) => new Promise((resolve, reject) => {
    document.head.append(make("script", { src: `bokeh/${name}`, onload: resolve, onerror: reject }));
  });
  return script("bokeh.min.js").then(() => script("bokeh-api.min.js")).then(() => window.Bokeh, () => null);
}
