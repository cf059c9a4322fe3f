// A part of the horizontal axis, which all charts of a kind show together: chosen by dragging over one of them, by
// buttons, or by keys while the charts have the focus. A double click shows the whole axis again.

/** A drag of fewer pixels is a click. */
const DRAG_LEAST_PX = 6;
/** How far a step to the side goes, as a share of what is shown. */
const STEP = 0.25;

/**
 * The shown part of an axis, in shares of the whole: all of it at first, and never less than `least`. Buttons go into the element
 * `buttons`, and keys work in `charts`; both stay when `redraw` draws the charts anew.
 */
function newZoom({ buttons, charts }, least, redraw) {
  const zoom = { from: 0, to: 1, least };
  const show = (from, to) => {
    const width = Math.min(1, Math.max(zoom.least, to - from));
    zoom.from = Math.min(Math.max(0, (from + to - width) / 2), 1 - width);
    zoom.to = zoom.from + width;
    hideTip();
    told();
    redraw();
  };
  const wider = (factor) => {
    const [middle, half] = [(zoom.from + zoom.to) / 2, ((zoom.to - zoom.from) * factor) / 2];
    show(middle - half, middle + half);
  };
  const aside = (steps) => {
    const by = steps * STEP * (zoom.to - zoom.from);
    show(zoom.from + by, zoom.to + by);
  };
  const isWhole = () => zoom.from <= 0 && zoom.to >= 1;
  const actions = [
    { text: "−", name: "zoom out", keys: ["-"], act: () => wider(2), idle: isWhole },
    { text: "+", name: "zoom in", keys: ["+", "="], act: () => wider(0.5), idle: () => zoom.to - zoom.from <= zoom.least },
    { text: "←", name: "earlier or less", keys: ["ArrowLeft"], act: () => aside(-1), idle: () => zoom.from <= 0 },
    { text: "→", name: "later or more", keys: ["ArrowRight"], act: () => aside(1), idle: () => zoom.to >= 1 },
    { text: "whole", name: "show the whole axis", keys: ["0", "Escape"], act: () => show(0, 1), idle: isWhole },
  ];
  const made = actions.map(({ text, name, act }) => {
    const button = html("button", { type: "button", title: name }, text);
    button.setAttribute("aria-label", name);
    button.addEventListener("click", act);
    return button;
  });
  // Marked and not disabled: a button that is disabled loses the focus of the keyboard.
  const told = () => actions.forEach(({ idle }, at) => made[at].setAttribute("aria-disabled", idle()));
  told();
  if (least < 1) document.getElementById(buttons).append(...made);
  zoom.show = show;
  const place = document.getElementById(charts);
  place.tabIndex = 0;
  place.addEventListener("keydown", (event) => {
    const action = actions.find(({ keys }) => keys.includes(event.key));
    if (event.target !== place || event.ctrlKey || event.altKey || event.metaKey || action === undefined) return;
    event.preventDefault();
    action.act();
  });
  return zoom;
}

/** A scale onto the plot, as far as the axis is shown: what is not lies outside of the plot. */
function zoomed(zoom, plot, scale) {
  const times = 1 / (zoom.to - zoom.from);
  return (v) => plot.left + (scale(v) - plot.left - zoom.from * plot.width) * times;
}

/** The share of the whole axis at a place of the plot. */
const shareAt = (zoom, plot, x) => zoom.from + ((x - plot.left) / plot.width) * (zoom.to - zoom.from);

/** Whether a place is on the plot. */
const isOn = (plot, x) => x >= plot.left - 0.5 && x <= plot.right + 0.5;

/** A part of the chart that shows nothing outside of the plot. */
function clipped(root, plot) {
  const [x, y, width, height] = [plot.left, plot.top - 2, plot.width, plot.bottom - plot.top + 4];
  const part = svg("svg", { x, y, width, height, viewBox: `${x} ${y} ${width} ${height}` });
  root.append(part);
  return part;
}

/** Dragging over `area`, which is what the pointer meets on the plot, shows what was dragged over. */
function dragToZoom(zoom, root, plot, area) {
  if (zoom.least >= 1) return;
  area.classList.add("zooms");
  const band = svg("rect", { class: "band", y: plot.top, height: plot.bottom - plot.top, visibility: "hidden" });
  area.before(band);
  const at = (event) => Math.min(Math.max(inChart(root, event).x, plot.left), plot.right);
  let from = null;
  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = at(event);
    area.setPointerCapture(event.pointerId);
  });
  area.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const to = at(event);
    band.setAttribute("x", Math.min(from, to));
    band.setAttribute("width", Math.abs(to - from));
    band.setAttribute("visibility", "visible");
  });
  const end = (event) => {
    const [start, to] = [from, at(event)];
    from = null;
    band.setAttribute("visibility", "hidden");
    if (event.type === "pointercancel" || start === null || Math.abs(to - start) < DRAG_LEAST_PX) return;
    zoom.show(shareAt(zoom, plot, Math.min(start, to)), shareAt(zoom, plot, Math.max(start, to)));
  };
  area.addEventListener("pointerup", end);
  area.addEventListener("pointercancel", end);
  area.addEventListener("dblclick", () => zoom.show(0, 1));
}
