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
};

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
  const x = logarithmic(ticks[0], ticks.at(-1), plot.left, plot.right);
  const room = plot.width / ticks.length;
  const isDecade = (t) => Number.isInteger(Number(Math.log10(t).toFixed(6)));
  const written = (t) => (room > 46 || isDecade(t) ? latencyText(t) : "");
  xAxis(root, plot, ticks, x, written, "latency of a request (log scale)");
  root.append(svg("text", { x: plot.left, y: plot.top - 10 }, "share of requests"));
  yAxis(root, plot, shares.ticks, shares.y, (s) => `${Number((s * 100).toFixed(3))} %`);
  for (const { row, index } of series) {
    const points = row.latency_cdf.map(([us, share]) => [x(us), shares.y(share)]);
    const path = stepPath([[points[0][0], plot.bottom], ...points]);
    const style = `stroke:${seriesColor(index)};stroke-dasharray:${seriesDash(index)}`;
    root.append(svg("path", { class: "curve", d: path, style }));
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
      marks.append(svg("circle", { cx: x(us), cy: y, r: 4, style }));
      return { color: seriesColor(index), name, value: latencyText(us) };
    });
    const digits = Math.max(1, Math.ceil(-Math.log10(1 - Math.min(share, 0.999999))) - 2);
    const heading = `${Number((share * 100).toFixed(digits))} % of requests took at most`;
    showTip(event, heading, rows);
  };
  onPointer(root, plot, read, () => marks.replaceChildren());
}

// ---- Timeline ----

/** More curves than these in one plot are a knot: then each design has a plot of its own. */
const CURVES_MAX = 3;

const hasGc = (row) => row.timeline.some((point) => point.gc_share > 0);
const hasHits = (row) => row.hit_ratio !== null && row.timeline.some((point) => point.hit_ratio !== null);

function drawTimeline() {
  const target = place("time");
  const series = shown().filter(({ row }) => row.timeline.length > 0);
  if (series.length === 0) return empty(target, "No course over time to show.");
  if (series.length > CURVES_MAX) return drawMultiples(target, series);
  const collecting = series.filter(({ row }) => hasGc(row));
  const caching = series.filter(({ row }) => hasHits(row));
  // Plots one below the other, each with a line of text above it.
  const strips = collecting.length > 0 ? 30 + 13 * collecting.length : 0;
  const hits = caching.length > 0 ? 166 : 0;
  const height = 26 + 200 + strips + hits + 46;
  const margin = { left: 66, right: 20, top: 26, bottom: 46 };
  const { root, plot } = frame(target, height, margin, "Throughput, garbage collection and hit ratio over time");
  const time = timeAxis(series, plot);
  const part = (top, bottom) => ({ ...plot, top, bottom });

  const throughput = part(plot.top, plot.top + 200);
  if (strips + hits > 0) xAxis(root, throughput, time.ticks, time.tickX, () => "", "");
  drawThroughput(root, throughput, series, time);
  if (strips > 0) drawStrips(root, part(throughput.bottom + 28, throughput.bottom + strips), collecting, time);
  if (hits > 0) drawHits(root, part(plot.bottom - 130, plot.bottom), caching, time);
  const last = hits > 0 ? plot.bottom - 130 : strips > 0 ? throughput.bottom + 28 : plot.top;
  xAxis(root, part(last, plot.bottom), time.ticks, time.tickX, time.text, time.name);
  timeReadOut(root, plot, series, time);
}

/** A small plot for each design, all with the same scales: throughput, with garbage collection shaded, and hits as a thin line. */
function drawMultiples(target, series) {
  const grid = html("div", { className: "grid-of-charts" });
  target.append(grid);
  // All places first: the width of each depends on how many stand in a line.
  const charts = series.map(({ row, name }) => {
    const told = [hasGc(row) ? "shaded: garbage collection" : "", hasHits(row) ? "thin: hit ratio, to 100 %" : ""];
    const heading = html("h3", {}, `${name} `, html("small", {}, told.filter(Boolean).join("; ")));
    return html("div", { className: "chart" }, heading);
  });
  grid.append(...charts);
  const most = Math.max(...series.flatMap(({ row }) => row.timeline.map((point) => point.mb_s)));
  const ticks = niceTicks(most, 3);
  series.forEach((design, at) => {
    const margin = { left: 62, right: 14, top: 20, bottom: 44 };
    const { root, plot } = frame(charts[at], 190, margin, `${design.name}: throughput and hit ratio over time`);
    const time = timeAxis(series, plot);
    const y = linear(0, ticks.at(-1), plot.bottom, plot.top);
    root.append(svg("text", { x: plot.left, y: plot.top - 7 }, "MB/s"));
    yAxis(root, plot, ticks, y, (t) => t.toLocaleString("en-US"));
    xAxis(root, plot, time.ticks, time.tickX, time.text, time.name);
    shadeGc(root, plot, design, time, y);
    drawCourse(root, design, time, y, (point) => point.mb_s, "none");
    if (!hasHits(design.row)) return timeReadOut(root, plot, [design], time);
    const share = linear(0, 1, plot.bottom, plot.top);
    for (const points of course(design.row, time, share, (point) => point.hit_ratio))
      root.append(svg("path", { class: "curve", d: stepPath(points), style: "stroke:var(--muted);stroke-width:1" }));
    timeReadOut(root, plot, [design], time);
  });
}

/** The horizontal axis of the timeline: seconds on the run's clock, or per cent of each run. */
function timeAxis(series, plot) {
  if (!view.seconds) {
    const x = linear(0, 1, plot.left, plot.right);
    return {
      ticks: [0, 0.2, 0.4, 0.6, 0.8, 1],
      tickX: x,
      text: (t) => `${Math.round(t * 100)} %`,
      name: "part of each design's own run",
      x: (row, t) => x(t / row.elapsed_seconds),
      at: (row, px) => linear(plot.left, plot.right, 0, row.elapsed_seconds)(px),
      heading: (px) => `after ${percentText(linear(plot.left, plot.right, 0, 1)(px))} of the run`,
    };
  }
  const most = Math.max(...series.map(({ row }) => row.elapsed_seconds));
  const unit = timeUnit(most);
  const x = linear(0, most, plot.left, plot.right);
  const back = linear(plot.left, plot.right, 0, most);
  const clock = data.rows.every((row) => row.mode === "simulated") ? "simulated time" : "time";
  const ticks = niceTicks(most * unit.scale, plot.width < 420 ? 4 : 8).filter((t) => t <= most * unit.scale);
  return {
    ticks,
    tickX: (t) => x(t / unit.scale),
    text: (t) => t.toLocaleString("en-US"),
    name: `${clock}, ${unit.name}`,
    x: (_, t) => x(t),
    at: (_, px) => back(px),
    heading: (px) => `at ${figure(back(px) * unit.scale)} ${unit.name}`,
  };
}

/** A design's course of one quantity as pixels, up to the end of its run; gaps where it has none. */
function course(row, time, y, value) {
  const parts = [[]];
  row.timeline.forEach((point, index) => {
    const end = row.timeline[index + 1]?.t_s ?? row.elapsed_seconds;
    if (value(point) === null) return parts.at(-1).length && parts.push([]);
    if (parts.at(-1).length) parts.at(-1).pop();
    const level = y(value(point));
    parts.at(-1).push([time.x(row, point.t_s), level], [time.x(row, end), level]);
  });
  return parts.filter((points) => points.length > 0);
}

function drawCourse(root, { row, index }, time, y, value, dash = seriesDash(index)) {
  const style = `stroke:${seriesColor(index)};stroke-dasharray:${dash};stroke-width:1.7`;
  for (const points of course(row, time, y, value))
    root.append(svg("path", { class: "curve", d: stepPath(points), style }));
}

function drawThroughput(root, plot, series, time) {
  const most = Math.max(...series.flatMap(({ row }) => row.timeline.map((point) => point.mb_s)));
  const ticks = niceTicks(most, 4);
  const y = linear(0, ticks.at(-1), plot.bottom, plot.top);
  root.append(svg("text", { x: plot.left, y: plot.top - 10 }, "throughput, MB/s"));
  yAxis(root, plot, ticks, y, (t) => t.toLocaleString("en-US"));
  for (const design of series) shadeGc(root, plot, design, time, y);
  for (const design of series) drawCourse(root, design, time, y, (point) => point.mb_s);
}

/** The intervals of a run in which garbage was collected, as pixels. */
function gcSpans(row, time) {
  return row.timeline.flatMap((point, index) => {
    if (point.gc_share === 0) return [];
    const x = time.x(row, point.t_s);
    const end = time.x(row, row.timeline[index + 1]?.t_s ?? row.elapsed_seconds);
    return [{ x, width: Math.max(end - x, 0.5), point }];
  });
}

/** Garbage collection shades what lies below the curve of throughput. */
function shadeGc(root, plot, { row, index }, time, y) {
  const style = `fill:${seriesColor(index)}`;
  for (const { x, width, point } of gcSpans(row, time)) {
    const top = y(point.mb_s);
    const opacity = (0.4 * point.gc_share).toFixed(3);
    root.append(svg("rect", { x, width, y: top, height: plot.bottom - top, style, opacity }));
  }
}

function drawStrips(root, plot, series, time) {
  const title = "garbage collection: darker is a larger share of the time";
  root.append(svg("text", { x: plot.left, y: plot.top - 6 }, title));
  series.forEach(({ row, index, name }, line) => {
    const y = plot.top + 13 * line;
    const text = name.length > 9 ? `${name.slice(0, 8)}…` : name;
    root.append(svg("text", { x: plot.left - 7, y: y + 10, "text-anchor": "end" }, text));
    const end = time.x(row, row.elapsed_seconds);
    const ground = { x: plot.left, y, width: end - plot.left, height: 11, style: "fill:var(--line)" };
    root.append(svg("rect", { ...ground, opacity: 0.5 }));
    for (const { x, width, point } of gcSpans(row, time)) {
      const style = `fill:${seriesColor(index)}`;
      const opacity = (0.15 + 0.85 * point.gc_share).toFixed(3);
      root.append(svg("rect", { x, width, y, height: 11, style, opacity }));
    }
  });
}

function drawHits(root, plot, series, time) {
  const y = linear(0, 1, plot.bottom, plot.top);
  root.append(svg("text", { x: plot.left, y: plot.top - 10 }, "hit ratio of 4 KiB page touches"));
  yAxis(root, plot, [0, 0.25, 0.5, 0.75, 1], y, (t) => `${t * 100} %`);
  for (const design of series) drawCourse(root, design, time, y, (point) => point.hit_ratio);
}

/** An upright line under the pointer: what each design did at that time. */
function timeReadOut(root, plot, series, time) {
  const marks = svg("g");
  root.append(marks);
  const read = (px, _, event) => {
    const { top, bottom } = plot;
    marks.replaceChildren(svg("line", { class: "cross", x1: px, x2: px, y1: top, y2: bottom }));
    const rows = series.map(({ row, index, name }) => {
      const t = time.at(row, px);
      const point = t <= row.elapsed_seconds ? row.timeline.findLast((p) => p.t_s <= t) : undefined;
      const parts = point
        ? [
            `${figure(point.mb_s)} MB/s`,
            ...(point.hit_ratio === null ? [] : [`hits ${percentText(point.hit_ratio)}`]),
            ...(hasGc(row) ? [`GC ${percentText(point.gc_share)}`] : []),
          ]
        : ["done"];
      return { color: seriesColor(index), name, value: parts.join(" · ") };
    });
    showTip(event, time.heading(px), rows);
  };
  onPointer(root, plot, read, () => marks.replaceChildren());
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
  // Where nobody took the course over time, the page has no place for it.
  if (!document.getElementById("time")) return;
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
