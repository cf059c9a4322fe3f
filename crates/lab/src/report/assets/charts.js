// What every chart is made of: SVG elements, scales, axes, the read-out under the pointer.
// No library: the page has to open from disk, years from now, without a network.

"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element with attributes; text goes in as text, never as markup. */
function svg(name, attributes = {}, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** An HTML element with properties and children. */
function html(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** The colour of the design at an index: it stays the same in every chart. */
const seriesColor = (index) => `var(--s${index % 8})`;

/** From the fifth design on, lines are dashed too, for print without colours. */
const seriesDash = (index) => (index % 8 < 4 ? "none" : ["7 3", "3 3", "9 3 2 3", "1 3"][index % 4]);

/** A figure to three digits or whole, as in the tables. */
function figure(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size < 0.00095) return value.toExponential(1);
  if (size < 0.095) return value.toFixed(3);
  if (size < 9.995) return value.toFixed(2);
  if (size < 99.95) return value.toFixed(1);
  return Math.round(value).toLocaleString("en-US");
}

/** Microseconds with the unit that suits them. */
function latencyText(us) {
  if (us < 1) return `${Number((us * 1e3).toPrecision(3))} ns`;
  if (us < 1e3) return `${Number(us.toPrecision(3))} µs`;
  if (us < 1e6) return `${Number((us / 1e3).toPrecision(3))} ms`;
  return `${Number((us / 1e6).toPrecision(3))} s`;
}

/** Seconds with the unit that suits a whole axis up to `most`. */
function timeUnit(most) {
  if (most < 2e-3) return { name: "µs", scale: 1e6 };
  if (most < 2) return { name: "ms", scale: 1e3 };
  if (most < 600) return { name: "s", scale: 1 };
  if (most < 36000) return { name: "min", scale: 1 / 60 };
  return { name: "h", scale: 1 / 3600 };
}

/** Round numbers from 0 to at least `most`, about `count` of them. */
function niceTicks(most, count) {
  if (!(most > 0)) return [0, 1];
  const rough = most / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let k = 0; (k - 1) * step < most * 0.9999; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

/** Round numbers between two others, about `count` of them. */
function ticksBetween(from, to, count) {
  const step = niceTicks(to - from, count)[1];
  const ticks = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + step * 1e-9; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

const linear = (from, to, low, high) => (v) => low + ((v - from) / (to - from || 1)) * (high - low);

function logarithmic(from, to, low, high) {
  const scale = linear(Math.log10(from), Math.log10(to), low, high);
  return (v) => scale(Math.log10(Math.min(Math.max(v, from), to)));
}

/** An empty chart as wide as its place, with margins: `plot` is what they leave. */
function frame(place, height, margin, label) {
  const width = Math.max(260, place.clientWidth || 700);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  place.append(root);
  const plot = {
    left: margin.left,
    right: width - margin.right,
    top: margin.top,
    bottom: height - margin.bottom,
  };
  plot.width = plot.right - plot.left;
  return { root, plot, width };
}

/** A horizontal axis: lines at ticks, their texts, and the name of the quantity below. */
function xAxis(root, plot, ticks, scale, text, name) {
  for (const tick of ticks) {
    const x = scale(tick);
    root.append(svg("line", { class: "grid", x1: x, x2: x, y1: plot.top, y2: plot.bottom }));
    const written = text(tick);
    if (written !== "")
      root.append(svg("text", { x, y: plot.bottom + 16, "text-anchor": "middle" }, written));
  }
  const { left, right, bottom } = plot;
  root.append(svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  const middle = (left + right) / 2;
  root.append(svg("text", { x: middle, y: bottom + 34, "text-anchor": "middle" }, name));
}

/** A vertical axis: lines at ticks and their texts. */
function yAxis(root, plot, ticks, scale, text) {
  for (const tick of ticks) {
    const y = scale(tick);
    root.append(svg("line", { class: "grid", x1: plot.left, x2: plot.right, y1: y, y2: y }));
    root.append(svg("text", { x: plot.left - 7, y: y + 4, "text-anchor": "end" }, text(tick)));
  }
}

/** A line that holds each value up to the next point. */
function stepPath(points) {
  let path = "";
  let lastY = 0;
  points.forEach(([x, y], index) => {
    path += index === 0 ? `M${x.toFixed(1)} ${y.toFixed(1)}` : `H${x.toFixed(1)}`;
    if (index > 0 && y !== lastY) path += `V${y.toFixed(1)}`;
    lastY = y;
  });
  return path;
}

/** A share with the digits of a figure. */
const percent = (share) => `${figure(share * 100)} %`;

/** A name in a legend that is no button, behind a piece of its line. */
function lineKey(style, name) {
  const line = svg("svg", { width: 28, height: 10 });
  line.append(svg("line", { x1: 0, x2: 28, y1: 5, y2: 5, style }));
  return html("span", { className: "key" }, line, name);
}

/** A straight line from point to point. */
function polyline(points, style) {
  const places = points.map((point) => point.map((v) => v.toFixed(1)).join(","));
  return svg("polyline", { points: places.join(" "), style });
}

const tip = () => document.getElementById("tip");

/** Shows a read-out beside the pointer: a heading and rows of colour, name, value. */
function showTip(event, heading, rows) {
  const body = rows.map(({ color, name, value }) => {
    const swatch = html("i");
    swatch.style.background = color;
    return html("tr", {}, html("td", {}, swatch, name), html("td", {}, value));
  });
  const box = tip();
  box.replaceChildren(html("b", {}, heading), html("table", {}, ...body));
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const beside = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width : event.clientX + 16;
  box.style.left = `${Math.max(4, beside)}px`;
  box.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - height - 4))}px`;
}

function hideTip() {
  tip().hidden = true;
}

/** Where the pointer is, in the chart's own units. */
const inChart = (root, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(root.getScreenCTM().inverse());

/** Calls `read(x, y, event)` in the chart's own units while the pointer is over the plot; gives what the pointer meets there. */
function onPointer(root, plot, read, leave) {
  const { left, top, bottom, width } = plot;
  const area = svg("rect", { class: "hover", x: left, y: top, width, height: bottom - top });
  const over = (event) => {
    const at = inChart(root, event);
    if (isOn(plot, at.x)) read(at.x, at.y, event);
  };
  area.addEventListener("pointermove", over);
  area.addEventListener("pointerdown", over);
  area.addEventListener("pointerleave", () => {
    hideTip();
    leave();
  });
  root.append(area);
  return area;
}

/** An upright line at the number that is nearest to the pointer: `tell` gives its heading and rows, which are shown by their `order`.
 * Gives what the pointer meets. */
function readNearest(root, plot, numbers, x, tell) {
  const mark = svg("line", { class: "axis", y1: plot.top, y2: plot.bottom, visibility: "hidden" });
  root.append(mark);
  const read = (at, _, event) => {
    const near = numbers.reduce((best, n) => (Math.abs(x(n) - at) < Math.abs(x(best) - at) ? n : best));
    mark.setAttribute("x1", x(near));
    mark.setAttribute("x2", x(near));
    mark.setAttribute("visibility", "visible");
    const { heading, rows } = tell(near);
    showTip(event, heading, rows.sort((a, b) => b.order - a.order));
  };
  return onPointer(root, plot, read, () => mark.setAttribute("visibility", "hidden"));
}
