// The curves of a sweep: a line for each design over the first axis of numbers. Of the other axes one value each is chosen.

const report = JSON.parse(document.getElementById("data").textContent);
const along = report.axes.findIndex((axis) => axis.unit !== null);
const axis = report.axes[along];
const numbers = along < 0 ? [] : [...axis.numbers].sort((a, b) => a - b);
/** The chosen value of each other axis. */
const chosen = report.axes.map((other) => other.values[0]);

const latency = (us) => (us === 0 ? "0" : latencyText(us));

const FIGURES = [
  { name: "Bandwidth", hint: "MB/s, higher is better", of: (row) => row.bandwidth_mb_s, text: figure, told: (v) => `${figure(v)} MB/s` },
  { name: "Hit ratio", hint: "share of page touches, higher is better", of: (row) => row.hit_ratio, text: percent, told: percent },
  { name: "Mean latency", hint: "lower is better", of: (row) => row.mean_us, text: latency, told: latencyText },
  { name: "99th percentile of latency", hint: "lower is better", of: (row) => row.p99_us, text: latency, told: latencyText },
];

const color = (index) => seriesColor(index);
const lineStyle = (index) => `fill:none;stroke:${color(index)};stroke-dasharray:${seriesDash(index)};stroke-width:2`;

/** Numbers that reach over more than a power of ten are drawn by their logarithms. */
function scaleOf(from, to, low, high) {
  if (from > 0 && to / from > 8) return logarithmic(from, to, low, high);
  return linear(from, to === from ? from + 1 : to, low, high);
}

/** The rows of a design with the chosen values, by the number on the axis. */
function pointsOf(design) {
  const rows = report.rows.filter(
    (row) => row.design === design && row.axes.every((value, at) => at === along || value === chosen[at]),
  );
  const points = rows.map((row) => ({ at: axis.numbers[axis.values.indexOf(row.axes[along])], row }));
  return points.sort((a, b) => a.at - b.at);
}

function legend() {
  const place = document.getElementById("legend");
  report.designs.forEach((design, index) => place.append(lineKey(lineStyle(index), design)));
}

function choices() {
  const place = document.getElementById("choices");
  place.replaceChildren();
  report.axes.forEach((other, at) => {
    if (at === along || other.values.length < 2) return;
    const buttons = other.values.map((value) => {
      const button = html("button", { type: "button" }, value);
      button.setAttribute("aria-pressed", value === chosen[at]);
      button.addEventListener("click", () => {
        chosen[at] = value;
        choices();
        draw();
      });
      return button;
    });
    const row = html("div", { className: "bar-head" }, html("span", { className: "hint" }, other.key));
    row.append(html("span", { className: "choice" }, ...buttons));
    place.append(row);
  });
}

function draw() {
  const place = document.getElementById("charts");
  place.replaceChildren();
  const curves = report.designs.map((design, index) => ({ design, index, points: pointsOf(design) }));
  const has = (kind) => curves.some(({ points }) => points.some(({ row }) => kind.of(row) !== null));
  const kinds = FIGURES.filter(has);
  // A chart is as wide as its place, which has its width when all places are there.
  const boxes = kinds.map((kind) => {
    const box = html("div", { className: "chart" });
    box.append(html("h3", {}, `${kind.name} `, html("small", {}, kind.hint)));
    return box;
  });
  place.append(...boxes);
  kinds.forEach((kind, at) => chart(boxes[at], kind, curves));
}

function chart(place, kind, curves) {
  const { root, plot } = frame(place, 260, { left: 62, right: 22, top: 12, bottom: 44 }, `${kind.name} by ${axis.key}`);
  const x = zoomed(zoom, plot, scaleOf(numbers[0], numbers.at(-1), plot.left, plot.right));
  const seen = numbers.filter((number) => isOn(plot, x(number)));
  const values = curves.flatMap(({ points }) => points.map(({ row }) => kind.of(row)).filter((v) => v !== null));
  const ticks = niceTicks(Math.max(...values) * 1.02, 5);
  const y = linear(0, ticks[ticks.length - 1], plot.bottom, plot.top);
  const nameOf = (number) => axis.values[axis.numbers.indexOf(number)];
  // Values whose names would run into each other have none.
  let last = -Infinity;
  const shown = (number) => {
    const name = nameOf(number);
    const half = name.length * 3.6 + 4;
    if (x(number) - half < last) return "";
    last = x(number) + half;
    return name;
  };
  xAxis(root, plot, seen, x, shown, axis.key);
  yAxis(root, plot, ticks, y, kind.text);
  const inside = clipped(root, plot);
  for (const { index, points } of curves) {
    const known = points.filter(({ row }) => kind.of(row) !== null);
    const places = known.map(({ at, row }) => [x(at), y(kind.of(row))]);
    inside.append(polyline(places, lineStyle(index)));
    for (const [cx, cy] of places.filter(([cx]) => isOn(plot, cx))) root.append(svg("circle", { cx, cy, r: 3, style: `fill:${color(index)}` }));
  }
  const area = readNearest(root, plot, seen, x, (near) => {
    const rows = curves.flatMap(({ design, index, points }) => {
      const point = points.find((p) => p.at === near);
      const value = point === undefined ? null : kind.of(point.row);
      return value === null ? [] : [{ color: color(index), name: design, value: kind.told(value), order: value }];
    });
    return { heading: `${axis.key} = ${nameOf(near)}`, rows };
  });
  dragToZoom(zoom, root, plot, area);
}

let zoom;
if (along >= 0) {
  const ofAxis = numbers.map(scaleOf(numbers[0], numbers.at(-1), 0, 1));
  // A part of the axis that has a value in it.
  const widest = Math.max(...ofAxis.map((share, at) => (at === 0 ? 1 - ofAxis.at(-1) : share - ofAxis[at - 1])));
  zoom = newZoom({ buttons: "zoom", charts: "charts" }, Math.min(1, widest), draw);
  legend();
  choices();
  draw();
  addEventListener("resize", draw);
}
