// Numbers as texts for a person, as deploy/cli/view/formatting.py writes them.
export const NOTHING = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value) => (value == null ? NOTHING : whole.format(value));

// About three digits: 1,234 / 87.3 / 0.0123.
export function number(value) {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(value);
  if (size >= 10) return value.toFixed(1);
  return String(Number(value.toPrecision(3)));
}

// Ticks of one axis, with as many digits after the point as are needed to tell them apart.
export function axis(ticks) {
  if (ticks.some((tick) => Math.abs(tick) >= 10000)) return ticks.map((tick) => amount(tick).replace(".0", ""));
  const step = Math.abs(ticks[1] - ticks[0]) || Math.abs(ticks[0]) || 1;
  const digits = Math.min(8, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  return ticks.map((tick) => tick.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
}

function prefixed(value, space) {
  for (const [unit, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= unit) return `${(value / unit).toFixed(1)}${space}${prefix}`;
  }
  return `${value.toFixed(0)}${space}`;
}

// A count in about five characters: 950, 12.3k, 1.2M; bytes in decimal units: 950 B, 12.3 kB, 1.2 MB.
export const amount = (value) => (value == null ? NOTHING : prefixed(value, ""));
export const bytes = (value) => (value == null ? NOTHING : `${prefixed(value, " ")}B`);
export const share = (value) => (value == null || !Number.isFinite(value) ? NOTHING : `${(100 * value).toFixed(0)} %`);

// 1:05, 2:07:09, 3d 04:05.
export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return NOTHING;
  const two = (value) => String(value).padStart(2, "0");
  const all = Math.max(0, Math.floor(seconds));
  const [second, minute, hour, day] = [all % 60, Math.floor(all / 60) % 60, Math.floor(all / 3600) % 24, Math.floor(all / 86400)];
  if (day) return `${day}d ${two(hour)}:${two(minute)}`;
  return hour ? `${hour}:${two(minute)}:${two(second)}` : `${minute}:${two(second)}`;
}

// The time of day, with the date if it is not today's; Swedish dates are written 2026-01-31.
export function clock(time, now) {
  if (!time) return NOTHING;
  const date = new Date(1000 * time);
  const of = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date(1000 * now).toDateString() ? of : `${date.toLocaleDateString("sv")} ${of}`;
}

// A short name of a run: the last part of its folder or its address; the whole path where two have the same short name.
export function label(run, runs) {
  const short = (one) => (one.source === "folder" ? one.where.split("/").filter(Boolean).pop() : one.where.replace("tcp://", ""));
  return runs.filter((one) => short(one) === short(run)).length > 1 ? run.where : short(run);
}
