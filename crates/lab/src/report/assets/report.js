// The charts of the page, drawn from the JSON that it carries. A chart whose data is missing says so
// in its place. Clicking a name in a legend takes that design out of, or back into, the line charts.

const data = JSON.parse(document.getElementById("data").textContent);
const designs = data.rows.map((row, index) => ({ row, index, name: row.design }));
const longestRun = Math.max(...designs.map(({ row }) => row.elapsed_seconds));
const shortestRun = Math.min(...designs.map(({ row }) => row.elapsed_seconds));

const view = {
  hidden: new Set(),
  /** Shares of the latency chart: by nines, or evenly. */
  tail: true,
  /** Time of the timeline: seconds, or parts of each design's own run. */
  seconds: longestRun < 4 * shortestRun,
  /** What more designs than fit into one plot are drawn by, over time. */
  course: "throughput",
};

designs.forEach(({ row }) => completeTimeline(row));
const latencyZoom = newZoom({ buttons: "cdf-zoom", charts: "cdf" }, 0.01, () => drawLatency());
// Where nobody took the course over time, the page has no place for it.
const hasTime = document.getElementById("time") !== null;
const timeZoom = hasTime && newZoom({ buttons: "time-zoom", charts: "time" }, 0.01, () => drawTimeline());

const place = (id) => {
  const element = document.getElementById(id);
  element.replaceChildren();
  return element;
};
const shown = () => designs.filter(({ index }) => !view.hidden.has(index));
const percentText = (share) => `${Number((share * 100).toFixed(1))} %`;

function empty(target, text) {
  target.append(html("p", { className: "empty" }, text));
}

// ---- Bars ----

const BARS = [
  { title: "Bandwidth", unit: "MB/s, more is better", value: (row) => row.bandwidth_mb_s },
  { title: "99th percentile latency", unit: "µs, less is better", value: (row) => row.latency_us.p99 },
  { title: "Host CPU per I/O", unit: "µs, less is better", value: (row) => row.host_cpu_us_per_io },
];

const nameWidth = (width) => Math.min(width * 0.36, 14 + 7.8 * Math.max(...designs.map((d) => d.name.length)));

/** The name of a design before its bar, cut to its place. */
function barName(root, name, x, y) {
  const fits = Math.floor(x / 7.8);
  const text = name.length > fits ? `${name.slice(0, Math.max(1, fits - 1))}…` : name;
  const element = svg("text", { class: "name", x: x - 8, y, "text-anchor": "end" }, text);
  element.append(svg("title", {}, name));
  root.append(element);
}

function drawBars() {
  const target = place("bars");
  // All places first: the width of each depends on how many stand in a line.
  const charts = BARS.map(({ title, unit }) => {
    const heading = html("h3", {}, `${title} `, html("small", {}, unit));
    return html("div", { className: "chart" }, heading);
  });
  target.append(...charts);
  BARS.forEach(({ title, value }, bar) => {
    const chart = charts[bar];
    const left = nameWidth(chart.clientWidth);
    const height = 27 * designs.length + 8;
    const { root, plot } = frame(chart, height, { left, right: 64, top: 4, bottom: 4 }, title);
    const most = Math.max(...designs.map(({ row }) => value(row)));
    const scale = linear(0, most || 1, plot.left, plot.right);
    for (const { row, index, name } of designs) {
      const y = plot.top + 27 * index;
      const end = Math.max(scale(value(row)), plot.left + 1);
      barName(root, name, left, y + 17);
      const color = `fill:${seriesColor(index)}`;
      root.append(svg("rect", { x: left, y: y + 3, width: end - left, height: 19, rx: 2, style: color }));
      root.append(svg("text", { class: "value", x: end + 6, y: y + 17 }, figure(value(row))));
    }
  });
}

// ---- Legends and choices ----

function drawLegend(id, has) {
  const target = place(id);
  for (const { row, index, name } of designs.filter(({ row }) => has(row))) {
    const key = svg("svg", { width: 26, height: 12, "aria-hidden": "true" });
    const style = `stroke:${seriesColor(index)};stroke-width:3;stroke-dasharray:${seriesDash(index)}`;
    key.append(svg("line", { x1: 3, x2: 25, y1: 6, y2: 6, style }));
    const button = html("button", { type: "button", className: "key" }, key, name);
    button.setAttribute("aria-pressed", String(!view.hidden.has(index)));
    button.title = `show or hide ${name} (${row.mode})`;
    button.addEventListener("click", () => {
      if (!view.hidden.delete(index)) view.hidden.add(index);
      drawLines();
    });
    target.append(button);
  }
}

/** Two buttons of which one is pressed: sets `view[key]` to true or false. */
function drawChoice(id, key, whenTrue, whenFalse) {
  const target = place(id);
  for (const [value, text] of [[true, whenTrue], [false, whenFalse]]) {
    const button = html("button", { type: "button" }, text);
    button.setAttribute("aria-pressed", String(view[key] === value));
    button.addEventListener("click", () => {
      view[key] = value;
      drawLines();
    });
    target.append(button);
  }
}

// ---- Latency ----

/** Latencies 1, 2, 5, 10, … that span the data. */
function latencyTicks(from, to) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(from)) - 1; 10 ** power <= to * 10; power++)
    for (const m of [1, 2, 5]) ticks.push(Number((m * 10 ** power).toPrecision(3)));
  const first = ticks.findLastIndex((t) => t <= from);
  const last = ticks.findIndex((t) => t >= to && t > ticks[first]);
  return ticks.slice(Math.max(0, first), last + 1);
}

/** The vertical scale of the latency chart: its ticks, and the share at a height and back. */
function shareScale(plot, series) {
  const steps = (ticks, up, down, most) => {
    const scale = linear(0, most, plot.bottom, plot.top);
    const back = linear(plot.bottom, plot.top, 0, most);
    return { ticks, y: (share) => scale(up(share)), share: (y) => down(back(y)) };
  };
  if (!view.tail) return steps([0, 0.25, 0.5, 0.75, 1], (s) => s, (v) => v, 1);
  const requests = Math.max(...series.map(({ row }) => row.requests));
  const most = Math.min(5, Math.max(2, Math.log10(requests)));
  const ticks = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
  const nines = (share) => (share >= 1 ? most : Math.min(most, -Math.log10(1 - share)));
  return steps(ticks.filter((t) => -Math.log10(1 - t) <= most + 0.01), nines, (v) => 1 - 10 ** -v, most);
}

function drawLatency() {
  const target = place("cdf");
  const series = shown().filter(({ row }) => row.latency_cdf.length > 0);
  if (series.length === 0) return empty(target, "No latencies to show.");
  const margin = { left: 66, right: 20, top: 26, bottom: 44 };
  const { root, plot } = frame(target, 374, margin, "Cumulative distribution of latency");
  const shares = shareScale(plot, series);
  const least = Math.min(...series.map(({ row }) => Math.max(row.latency_cdf[0][0], 1e-3)));
  const most = Math.max(...series.map(({ row }) => row.latency_cdf.at(-1)[0]), least);
  const ticks = latencyTicks(least, most);
  const x = zoomed(latencyZoom, plot, logarithmic(ticks[0], ticks.at(-1), plot.left, plot.right));
  const seen = ticks.filter((t) => isOn(plot, x(t)));
  const room = plot.width / seen.length;
  const isDecade = (t) => Number.isInteger(Number(Math.log10(t).toFixed(6)));
  const written = (t) => (room > 46 || isDecade(t) ? latencyText(t) : "");
  xAxis(root, plot, seen, x, written, "latency of a request (log scale)");
  root.append(svg("text", { x: plot.left, y: plot.top - 10 }, "share of requests"));
  yAxis(root, plot, shares.ticks, shares.y, (s) => `${Number((s * 100).toFixed(3))} %`);
  const inside = clipped(root, plot);
  for (const { row, index } of series) {
    const points = row.latency_cdf.map(([us, share]) => [x(us), shares.y(share)]);
    const path = stepPath([[points[0][0], plot.bottom], ...points]);
    const style = `stroke:${seriesColor(index)};stroke-dasharray:${seriesDash(index)}`;
    inside.append(svg("path", { class: "curve", d: path, style }));
  }
  latencyReadOut(root, plot, series, shares, x);
}

/** A level line under the pointer: the latency of each design at that share. */
function latencyReadOut(root, plot, series, shares, x) {
  const marks = svg("g");
  root.append(marks);
  const read = (_, y, event) => {
    const share = Math.min(Math.max(shares.share(y), 0), 1);
    marks.replaceChildren(svg("line", { class: "cross", x1: plot.left, x2: plot.right, y1: y, y2: y }));
    const rows = series.map(({ row, index, name }) => {
      const [us] = row.latency_cdf.find((point) => point[1] >= share) ?? row.latency_cdf.at(-1);
      const style = `fill:${seriesColor(index)}`;
      if (isOn(plot, x(us))) marks.append(svg("circle", { cx: x(us), cy: y, r: 4, style }));
      return { color: seriesColor(index), name, value: latencyText(us) };
    });
    const digits = Math.max(1, Math.ceil(-Math.log10(1 - Math.min(share, 0.999999))) - 2);
    const heading = `${Number((share * 100).toFixed(digits))} % of requests took at most`;
    showTip(event, heading, rows);
  };
  dragToZoom(latencyZoom, root, plot, onPointer(root, plot, read, () => marks.replaceChildren()));
}

// ---- CPU ----

const NAMED = 6;
/** How many times as long as the next one a bar must be to be cut. */
const CUT_FROM = 3;

/** The categories of one side, the largest by name and the others as one. */
function categories(side) {
  const totals = new Map();
  for (const { row } of designs)
    for (const share of row.cpu_breakdown.filter((s) => s.side === side))
      totals.set(share.category, (totals.get(share.category) ?? 0) + share.us_per_io);
  const names = [...totals.keys()];
  const largest = [...names].sort((a, b) => totals.get(b) - totals.get(a)).slice(0, NAMED);
  const named = names.filter((name) => largest.includes(name));
  const list = named.map((name, k) => ({ name, color: `var(--${side}${k})`, has: (s) => s.category === name }));
  if (names.length > NAMED)
    list.push({ name: "others", color: "var(--rest)", has: (s) => !named.includes(s.category) });
  return list;
}

function drawCpu() {
  const target = place("cpu");
  const legend = place("cpu-legend");
  const sides = ["host", "drive"].map((side) => ({ side, list: categories(side) }));
  const used = sides.filter(({ list }) => list.length > 0);
  for (const { side, list } of used) {
    legend.append(html("span", { className: "side" }, `${side}:`));
    for (const { name, color } of list) {
      const swatch = html("span", { className: "swatch" });
      swatch.style.background = color;
      legend.append(html("span", { className: "key" }, swatch, name));
    }
  }
  const parts = ({ row }, { side, list }) =>
    list.map((category) => {
      const mine = row.cpu_breakdown.filter((s) => s.side === side && category.has(s));
      return { ...category, us: mine.reduce((sum, s) => sum + s.us_per_io, 0) };
    });
  const total = (list) => list.reduce((sum, { us }) => sum + us, 0);
  // One bar that is far longer than all others would leave nothing to see of them: it is cut, and says so.
  const lengths = designs.flatMap((d) => used.map((s) => total(parts(d, s)))).sort((a, b) => b - a);
  const cut = lengths.length > 2 && lengths[0] > CUT_FROM * lengths[1] && lengths[1] > 0;
  const most = cut ? 1.5 * lengths[1] : lengths[0];

  const each = 20 * used.length + 14;
  const left = nameWidth(target.clientWidth) + 42;
  const margin = { left, right: 60, top: 6, bottom: 44 };
  const height = each * designs.length + margin.top + margin.bottom;
  const { root, plot } = frame(target, height, margin, "CPU time per I/O by category");
  const ticks = niceTicks(most, plot.width < 420 ? 4 : 8);
  const x = linear(0, Math.max(most, ticks.at(-2)), plot.left, plot.right);
  xAxis(root, plot, ticks.filter((t) => x(t) <= plot.right + 1), x, String, "CPU time per I/O, µs");
  designs.forEach((design, line) => {
    const top = plot.top + each * line + 4;
    barName(root, design.name, left - 42, top + 10 * used.length + 4);
    used.forEach((side, k) => drawStack(root, plot, x, top + 20 * k, design, side.side, parts(design, side)));
  });
}

/** One bar of parts after each other, with a read-out of all of them. */
function drawStack(root, plot, x, y, design, side, parts) {
  root.append(svg("text", { x: plot.left - 7, y: y + 13, "text-anchor": "end" }, side));
  let us = 0;
  const bar = svg("g");
  const end = plot.right + 1;
  for (const part of parts.filter((p) => p.us > 0)) {
    const [from, to] = [Math.min(x(us), end), Math.min(x(us + part.us), end)];
    const style = `fill:${part.color};stroke:var(--panel);stroke-width:1`;
    bar.append(svg("rect", { x: from, y, width: to - from, height: 17, style }));
    us += part.us;
  }
  const heading = `${design.name}, ${side}: ${figure(us)} µs per I/O`;
  const rows = parts.map(({ color, name, us: own }) => ({ color, name, value: `${figure(own)} µs` }));
  bar.addEventListener("pointermove", (event) => showTip(event, heading, rows));
  bar.addEventListener("pointerleave", hideTip);
  const taken = design.row.cpu_breakdown.some((share) => share.side === side);
  const total = taken ? figure(us) : "not taken";
  const isCut = x(us) > end;
  if (isCut) {
    const gap = `M${end - 26} ${y + 19}l8 -21M${end - 19} ${y + 19}l8 -21`;
    bar.append(svg("path", { d: gap, style: "stroke:var(--panel);stroke-width:3" }));
  }
  root.append(bar, svg("text", { class: "value", x: Math.min(x(us), end) + 6, y: y + 13 }, total));
}

// ---- The page ----

/** The charts that legends and choices act on. */
function drawLines() {
  drawLegend("cdf-legend", (row) => row.latency_cdf.length > 0);
  drawChoice("cdf-choice", "tail", "tail", "even");
  drawLatency();
  if (!hasTime) return;
  drawLegend("time-legend", (row) => row.timeline.length > 0);
  drawChoice("time-choice", "seconds", "seconds", "% of run");
  drawTimeline();
}

function draw() {
  if (designs.length === 0) return;
  drawBars();
  drawLines();
  if (document.getElementById("cpu")) drawCpu();
}

function saveJson() {
  const text = document.getElementById("data").textContent;
  const link = html("a", { href: URL.createObjectURL(new Blob([text])), download: "report.json" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

document.getElementById("save").addEventListener("click", saveJson);
let drawnWidth = 0;
new ResizeObserver(([entry]) => {
  const width = Math.round(entry.contentRect.width);
  if (width === drawnWidth) return;
  drawnWidth = width;
  requestAnimationFrame(draw);
}).observe(document.querySelector("main"));

// Paper has its own width: texts keep their size when charts are drawn for it.
const PAPER_PX = 700;
addEventListener("beforeprint", () => {
  document.body.style.width = `${PAPER_PX}px`;
  draw();
});
addEventListener("afterprint", () => {
  document.body.style.width = "";
  draw();
});
draw();
