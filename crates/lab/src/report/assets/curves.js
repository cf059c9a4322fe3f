// The curves of a trace: hit ratio over the size of a cache, a line for each policy.

const report = JSON.parse(document.getElementById("data").textContent);
const policies = [...new Set(report.rows.map((row) => row.policy))];
const sizes = [...new Set(report.rows.map((row) => row.cache_pages))].sort((a, b) => a - b);

/** A bound is no policy: it is grey. More policies than there are colours have other dashes. */
const color = (index) => (policies[index] === "belady" ? "var(--muted)" : seriesColor(index));
const dash = (index) => (policies[index] === "belady" ? "2 2" : index < 8 ? seriesDash(index) : "12 4");
const lineStyle = (index) => `fill:none;stroke:${color(index)};stroke-dasharray:${dash(index)};stroke-width:2`;

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (bytes >= 1024 && at + 1 < units.length) {
    bytes /= 1024;
    at += 1;
  }
  return `${figure(bytes)} ${units[at]}`;
}

const pagesText = (pages) => bytesText(pages * report.page_bytes);

function legend() {
  const place = document.getElementById("legend");
  policies.forEach((policy, index) => place.append(lineKey(lineStyle(index), policy)));
}

function draw() {
  const place = document.getElementById("curves");
  place.replaceChildren();
  const { root, plot } = frame(place, 380, { left: 52, right: 34, top: 12, bottom: 44 }, "Hit ratio by size of the cache");
  const from = sizes[0];
  const to = Math.max(sizes[sizes.length - 1], from * 2);
  const x = zoomed(zoom, plot, logarithmic(from, to, plot.left, plot.right));
  const seen = sizes.filter((pages) => isOn(plot, x(pages)));
  const most = Math.max(...report.rows.map((row) => row.hit_ratio), 0.01);
  const ticks = niceTicks(Math.min(most * 1.05, 1), 6);
  const y = linear(0, ticks[ticks.length - 1], plot.bottom, plot.top);
  // Sizes whose names would run into each other have none.
  let last = -Infinity;
  const sizeName = (pages) => {
    if (x(pages) - last < 66) return "";
    last = x(pages);
    return pagesText(pages);
  };
  xAxis(root, plot, seen, x, sizeName, "size of the cache");
  yAxis(root, plot, ticks, y, percent);
  const inside = clipped(root, plot);
  policies.forEach((policy, index) => {
    const points = report.rows
      .filter((row) => row.policy === policy)
      .map((row) => [x(row.cache_pages), y(row.hit_ratio)]);
    inside.append(polyline(points, lineStyle(index)));
  });
  const area = readNearest(root, plot, seen, x, (near) => {
    const rows = report.rows.filter((row) => row.cache_pages === near);
    const told = rows.map((row) => ({
      color: color(policies.indexOf(row.policy)),
      name: row.policy,
      value: percent(row.hit_ratio),
      order: row.hit_ratio,
    }));
    return { heading: `${pagesText(near)}, ${percent(rows[0].cache_share)} of the pages`, rows: told };
  });
  dragToZoom(zoom, root, plot, area);
}

// A part of the axis that has a size in it.
const ofAxis = sizes.map(logarithmic(sizes[0], Math.max(sizes.at(-1), sizes[0] * 2), 0, 1));
const widest = Math.max(...ofAxis.map((share, at) => share - (ofAxis[at - 1] ?? 0)), 1 - ofAxis.at(-1));
const zoom = newZoom({ buttons: "zoom", charts: "curves" }, Math.min(1, widest), draw);
legend();
draw();
addEventListener("resize", draw);
