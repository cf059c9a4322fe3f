// The course of runs over time as small plots, which share one horizontal axis. Few designs are drawn into one plot for each
// figure; more would be a knot, so that each design has a plot of its own, of the figure that is chosen.

/** Designs beyond these have plots of their own. */
const CURVES_MAX = 3;

const THIN = "stroke-width:1;opacity:0.65";
const BOLD = "stroke-width:1.7";

/** What is told over time: the curves of a plot, their scale, and the read-out of a point. */
const COURSES = [
  {
    name: "throughput",
    unit: "MB/s",
    curves: [{ value: (point) => point.mb_s, style: BOLD }],
    tick: plainTick,
    told: (point) => `${figure(point.mb_s)} MB/s`,
  },
  {
    name: "latency",
    unit: "99th percentile; thin: median",
    curves: [
      { value: (point) => point.latency_us?.p99 ?? null, style: BOLD },
      { value: (point) => point.latency_us?.p50 ?? null, style: THIN },
    ],
    isLog: true,
    tick: latencyText,
    told: ({ latency_us: us }) =>
      us === null ? null : `p50 ${latencyText(us.p50)} · p99 ${latencyText(us.p99)} · p99.9 ${latencyText(us.p99_9)}`,
  },
  {
    name: "hit ratio",
    unit: "share of 4 KiB page touches",
    curves: [{ value: (point) => point.hit_ratio, style: BOLD }],
    isShare: true,
    told: (point) => (point.hit_ratio === null ? null : percentText(point.hit_ratio)),
  },
  {
    name: "write amplification",
    unit: "flash pages programmed by pages written",
    curves: [{ value: (point) => point.write_amplification, style: BOLD }],
    // Pages are programmed a while after they were written, so that it is never even: of interest where more was programmed.
    has: (row) => row.write_amplification > 1,
    tick: plainTick,
    told: (point) => (point.write_amplification === null ? null : figure(point.write_amplification)),
  },
  {
    name: "moved by collection",
    unit: "MB/s",
    curves: [{ value: (point) => point.moved_mb_s, style: BOLD }],
    tick: plainTick,
    told: (point) => `${figure(point.moved_mb_s)} MB/s, ${point.gc_moved_pages.toLocaleString("en-US")} pages`,
  },
  {
    name: "collecting",
    unit: "share of the time of the drive's cores",
    curves: [{ value: (point) => point.gc_share, style: BOLD }],
    isShare: true,
    told: (point) => percentText(point.gc_share),
  },
];

function plainTick(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 6 });
}

const PAGE_MB = 4096 / 1e6;

/** Adds to each point of a run where its interval ends, and what collection moved in it by its length. */
function completeTimeline(row) {
  row.timeline.forEach((point, index) => {
    point.end_s = row.timeline[index + 1]?.t_s ?? row.elapsed_seconds;
    point.moved_mb_s = (point.gc_moved_pages * PAGE_MB) / (point.end_s - point.t_s);
  });
}

/** All values of a course's curves over some designs, but for those that are not there. */
const valuesOf = (course, series) =>
  series.flatMap(({ row }) => course.curves.flatMap(({ value }) => row.timeline.map(value))).filter((v) => v !== null);

/** Whether there is anything to see of a run: no plot is drawn of what is 0 or absent all the time. */
const has = (course, row) => course.has?.(row) ?? course.curves.some(({ value }) => row.timeline.some((point) => value(point)));
const isThere = (course, series) => series.some(({ row }) => has(course, row));

function drawTimeline() {
  const target = place("time");
  const choice = place("time-course");
  const series = shown().filter(({ row }) => row.timeline.length > 0);
  if (series.length === 0) return empty(target, "No course over time to show.");
  const courses = COURSES.filter((course) => isThere(course, series));
  const own = series.length > CURVES_MAX;
  const chosen = courses.find(({ name }) => name === view.course) ?? courses[0];
  if (chosen === undefined) return empty(target, "Nothing happened in these runs.");
  if (own) choice.append(...courses.map((course) => courseButton(course, course === chosen)));
  const plots = own
    ? series.map((design) => ({ title: design.name, course: chosen, drawn: [design] }))
    : courses.map((course) => ({ title: capital(course.name), course, drawn: series.filter(({ row }) => has(course, row)) }));
  const grid = html("div", { className: "grid-of-charts" });
  target.append(grid);
  // All places first: the width of each depends on how many stand in a line.
  const charts = plots.map(({ title, course }) =>
    html("div", { className: "chart" }, html("h3", {}, `${title} `, html("small", {}, course.unit))),
  );
  grid.append(...charts);
  // One cross for all plots: where the pointer is in one of them.
  const crosses = [];
  plots.forEach((plot, at) => drawCourse(charts[at], plot, series, crosses));
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function courseButton(course, isChosen) {
  const button = html("button", { type: "button" }, course.name);
  button.setAttribute("aria-pressed", String(isChosen));
  button.addEventListener("click", () => {
    view.course = course.name;
    drawLines();
  });
  return button;
}

/** One plot: a course of some designs, on the time of all `series`. */
function drawCourse(box, { title, course, drawn }, series, crosses) {
  const margin = { left: 62, right: 14, top: 12, bottom: 44 };
  const { root, plot } = frame(box, 190, margin, `${title}: ${course.name} over time`);
  const time = timeAxis(series, plot);
  const { ticks, y, text } = courseScale(course, series, plot);
  yAxis(root, plot, ticks, y, text);
  xAxis(root, plot, time.ticks, time.tickX, time.text, time.name);
  const inside = clipped(root, plot);
  for (const { row, index } of drawn) {
    const dash = drawn.length > 1 ? seriesDash(index) : "none";
    for (const { value, style } of course.curves)
      for (const points of coursePoints(row, time, y, value)) {
        const line = `stroke:${seriesColor(index)};stroke-dasharray:${dash};${style}`;
        inside.append(svg("path", { class: "curve", d: stepPath(points), style: line }));
      }
  }
  timeReadOut(root, plot, course, drawn, time, crosses);
}

/** The vertical scale of a course over all designs: plots beside each other have the same. */
function courseScale(course, series, plot) {
  const values = valuesOf(course, series);
  if (course.isShare) {
    const y = linear(0, 1, plot.bottom, plot.top);
    return { ticks: [0, 0.25, 0.5, 0.75, 1], y, text: (t) => `${t * 100} %` };
  }
  const most = Math.max(...values);
  if (!course.isLog) {
    const ticks = niceTicks(most, 3);
    return { ticks, y: linear(0, ticks.at(-1), plot.bottom, plot.top), text: course.tick };
  }
  const all = latencyTicks(Math.max(Math.min(...values), 1e-3), most);
  const y = logarithmic(all[0], all.at(-1), plot.bottom, plot.top);
  const isDecade = (t) => Number.isInteger(Number(Math.log10(t).toFixed(6)));
  const decades = all.filter(isDecade);
  return { ticks: all.length > 5 && decades.length > 1 ? decades : all, y, text: course.tick };
}

/** The horizontal axis: seconds on the run's clock, or per cent of each run, as far as it is shown. */
function timeAxis(series, plot) {
  const unitOfWhole = view.seconds ? Math.max(...series.map(({ row }) => row.elapsed_seconds)) : 1;
  const whole = linear(0, unitOfWhole, plot.left, plot.right);
  const x = zoomed(timeZoom, plot, whole);
  const at = (px) => shareAt(timeZoom, plot, px) * unitOfWhole;
  const count = plot.width < 420 ? 5 : 8;
  if (!view.seconds)
    return {
      ticks: ticksBetween(at(plot.left), at(plot.right), count),
      tickX: x,
      text: (t) => percentText(t),
      name: "part of each design's own run",
      x: (row, t) => x(t / row.elapsed_seconds),
      at: (row, px) => at(px) * row.elapsed_seconds,
      heading: (px) => `after ${percentText(at(px))} of the run`,
    };
  const unit = timeUnit(unitOfWhole);
  const clock = data.rows.every((row) => row.mode === "simulated") ? "simulated time" : "time";
  return {
    ticks: ticksBetween(at(plot.left) * unit.scale, at(plot.right) * unit.scale, count),
    tickX: (t) => x(t / unit.scale),
    text: plainTick,
    name: `${clock}, ${unit.name}`,
    x: (_, t) => x(t),
    at: (_, px) => at(px),
    heading: (px) => `at ${figure(at(px) * unit.scale)} ${unit.name}`,
  };
}

/** A run's course of one figure as pixels, up to the end of the run; gaps where there is none. */
function coursePoints(row, time, y, value) {
  const parts = [[]];
  for (const point of row.timeline) {
    if (value(point) === null) {
      if (parts.at(-1).length) parts.push([]);
      continue;
    }
    if (parts.at(-1).length) parts.at(-1).pop();
    const level = y(value(point));
    parts.at(-1).push([time.x(row, point.t_s), level], [time.x(row, point.end_s), level]);
  }
  return parts.filter((points) => points.length > 0);
}

/** An upright line under the pointer, in all plots: what each design of this one did at that time. */
function timeReadOut(root, plot, course, drawn, time, crosses) {
  const cross = svg("line", { class: "cross", y1: plot.top, y2: plot.bottom, visibility: "hidden" });
  root.append(cross);
  crosses.push({ cross, plot });
  const read = (px, _, event) => {
    const share = (px - plot.left) / plot.width;
    for (const other of crosses) {
      const x = other.plot.left + share * other.plot.width;
      for (const end of ["x1", "x2"]) other.cross.setAttribute(end, x);
      other.cross.setAttribute("visibility", "visible");
    }
    const rows = drawn.map(({ row, index, name }) => {
      const t = time.at(row, px);
      const point = t <= row.elapsed_seconds ? row.timeline.findLast((p) => p.t_s <= t) : undefined;
      return { color: seriesColor(index), name, value: point ? (course.told(point) ?? "–") : "done" };
    });
    showTip(event, time.heading(px), rows);
  };
  const leave = () => crosses.forEach(({ cross: line }) => line.setAttribute("visibility", "hidden"));
  dragToZoom(timeZoom, root, plot, onPointer(root, plot, read, leave));
}
