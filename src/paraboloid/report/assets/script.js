"use strict";
// Everything works from file://, without a network and without storage.

const SVG = "http://www.w3.org/2000/svg";
const tip = document.getElementById("tip");
const said = document.getElementById("said");

// ---------------------------------------------------------------- theme

const root = document.documentElement;
const themeButton = document.getElementById("theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
}

function nameTheme() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
}

function remember(theme) {
  try { sessionStorage.setItem("paraboloid-theme", theme); } catch { /* a browser may forbid it: then it is forgotten */ }
}

function remembered() {
  try { return sessionStorage.getItem("paraboloid-theme"); } catch { return null; }
}

if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  remember(root.dataset.theme);
  nameTheme();
});
prefersDark.addEventListener("change", nameTheme);
nameTheme();

// ---------------------------------------------------------------- tables

function compare(a, b) {
  // what is not a number stands last in both directions
  if (typeof a === "number" && typeof b === "number") return Number.isNaN(a) || Number.isNaN(b) ? 0 : a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true, sensitivity: "base" });
}

function keyOf(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.value === undefined) return cell.textContent.trim();
  const text = cell.dataset.value;
  return { "": NaN, nan: NaN, inf: Infinity, "-inf": -Infinity }[text] ?? Number(text);
}

function sort(table, header) {
  const up = header.getAttribute("aria-sort") !== "ascending";
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, key: keyOf(row, header.cellIndex) }));
  const missing = rows.filter((one) => Number.isNaN(one.key));
  const present = rows.filter((one) => !Number.isNaN(one.key));
  present.sort((a, b) => (up ? 1 : -1) * (a.key === b.key ? 0 : compare(a.key, b.key)));
  body.append(...[...present, ...missing].map((one) => one.row));
  for (const other of table.tHead.rows[0].cells) {
    if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
  }
  header.setAttribute("aria-sort", up ? "ascending" : "descending");
}

for (const button of document.querySelectorAll("table.sortable .sort")) {
  button.addEventListener("click", () => sort(button.closest("table"), button.closest("th")));
}

// ---------------------------------------------------------------- numbers as a reader wants them

function shown(value) {
  if (value === null || value === undefined) return "not a number";
  if (typeof value === "string") return value.replace("inf", "∞").replace("-", "−");
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 1e6)
    ? value.toExponential(4).replace(/\.?0+e/, "e").replace("e+", "e")
    : String(Number(value.toPrecision(6)));
  return text.replaceAll("-", "−");
}

function spread(low, y, high) {
  if (low === undefined || high === undefined) return shown(y);
  if ([low, y, high].every((v) => typeof v === "number")) {
    const [down, up] = [y - low, high - y];
    if (Math.abs(up - down) <= 1e-5 * (Math.abs(up) + Math.abs(down) + Math.abs(y))) return `${shown(y)} ± ${shown(Number((up + down) / 2).toPrecision(3) * 1)}`;
  }
  return `${shown(y)} (${shown(low)} to ${shown(high)})`;
}

// ---------------------------------------------------------------- values under the pointer

function along(axis, value) {
  if (typeof value !== "number" || (axis.log && value <= 0)) return NaN;
  return ((axis.log ? Math.log10(value) : value) - axis.from) / (axis.to - axis.from);
}

// all places of a panel that can be pointed at: {x, y (in the picture), series, head, text}
function placesOf(figure, panel) {
  const [left, top, right, bottom] = panel.box;
  const across = (v) => left + along(panel.x, v) * (right - left);
  const up = (v) => bottom - along(panel.y, v) * (bottom - top);
  const named = (axis, text, otherwise) => `${axis.label || otherwise}: ${text}`;
  const places = [];
  if (panel.kind === "surface") {
    panel.ys.forEach((y, row) => panel.xs.forEach((x, column) => places.push({
      x: across(x), y: up(y), series: -1, line: row, head: named(panel, shown(panel.z[row][column]), "value"),
      text: [named(panel.x, shown(x), "x"), named(panel.y, shown(y), "y")],
    })));
    return places;
  }
  panel.list.forEach((series, line) => series.y.forEach((y, i) => {
    const x = panel.kind === "bars" ? series.at[i] : panel.xs[series.x][i];
    const head = figure.series[series.series].name;
    const first = panel.kind === "bars" ? panel.labels[i] : named(panel.x, shown(x), "x");
    const value = spread(series.low?.[i], y, series.high?.[i]);
    places.push({ x: across(x), y: up(y), series: series.series, line, head, text: [first, named(panel.y, value, "y")] });
  }));
  return places;
}

function setUp(plot) {
  const figure = JSON.parse(plot.querySelector("script.data").textContent);
  const off = new Set();

  for (const key of plot.querySelectorAll(".key")) {
    const toggle = () => {
      const series = Number(key.dataset.series);
      const hide = !off.has(series);
      if (hide) off.add(series); else off.delete(series);
      for (const part of plot.querySelectorAll(`[data-series="${series}"]`)) {
        part.classList.toggle("off", hide);
        if (part.hasAttribute("aria-pressed")) part.setAttribute("aria-pressed", String(!hide));
      }
      leave();
    };
    key.addEventListener("click", toggle);
    if (key.tagName !== "BUTTON") {
      key.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        toggle();
      });
    }
  }

  for (const view of plot.querySelectorAll(".view")) {
    const panel = figure.panels[Number(view.dataset.panel)];
    const picture = view.querySelector("svg.panel");
    const [left, top, right, bottom] = panel.box;
    let places = null;
    let at = -1;
    const visible = () => {
      places ??= placesOf(figure, panel).filter(
        (p) => p.x >= left - 1 && p.x <= right + 1 && p.y >= top - 1 && p.y <= bottom + 1);
      return places.filter((place) => !off.has(place.series));
    };
    const show = (place, quiet) => {
      at = places.indexOf(place);
      point(picture, place);
      const lines = [place.head, ...place.text];
      tip.replaceChildren(...lines.map((line, i) => {
        const part = document.createElement(i ? "span" : "b");
        part.textContent = line;
        part.style.display = "block";
        return part;
      }));
      if (!quiet) said.textContent = lines.join(", ");
      settle(picture, place);
    };
    const follow = (event) => {
      if (event.target.closest(".key")) return leave();
      const box = picture.getBoundingClientRect();
      const x = (event.clientX - box.left) * panel.width / box.width;
      const y = (event.clientY - box.top) * panel.height / box.height;
      let best = null;
      let nearest = Infinity;
      for (const place of visible()) {
        const distance = (place.x - x) ** 2 + (place.y - y) ** 2;
        if (distance < nearest) [best, nearest] = [place, distance];
      }
      if (best && x >= left - 12 && x <= right + 12 && y >= top - 12 && y <= bottom + 12) show(best, true); else leave();
    };
    view.addEventListener("pointermove", follow);
    view.addEventListener("pointerdown", follow);
    view.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
    view.addEventListener("blur", leave);
    view.addEventListener("focus", () => {
      if (view.matches(":focus-visible") && visible().length) show(visible()[0]);
    });
    view.addEventListener("keydown", (event) => {
      if (event.target !== view) return;
      if (event.key === "Escape") return leave();
      const now = places?.[at];
      const next = step(visible(), now && !off.has(now.series) ? now : null, event.key);
      if (!next) return;
      event.preventDefault();
      show(next);
    });
  }

  for (const button of plot.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => {
      const kind = button.dataset.download;
      const text = kind === "csv" ? csv(figure) : drawing(plot, figure);
      download(`${figure.name}.${kind}`, text, kind === "csv" ? "text/csv" : "image/svg+xml");
    });
  }
}

// left and right: along a series or row; up and down: to the nearest place of the next one
function step(places, now, key) {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };
  const move = moves[key];
  if (!move || !places.length) return null;
  if (!now) return places[0];
  if (move[1]) {
    const line = places.filter((p) => p.line === now.line);
    return line[Math.min(Math.max(line.indexOf(now) + move[1], 0), line.length - 1)];
  }
  const lines = [...new Set(places.map((p) => p.line))];
  const upwards = now.series < 0 ? -move[0] : move[0];  // rows of a surface are counted from below
  const line = lines[lines.indexOf(now.line) + upwards];
  if (line === undefined) return now;
  return places.filter((p) => p.line === line).reduce((a, b) => (Math.abs(b.x - now.x) < Math.abs(a.x - now.x) ? b : a));
}

function point(picture, place) {
  document.querySelector(".cursor")?.remove();
  const circle = document.createElementNS(SVG, "circle");
  for (const [name, value] of Object.entries({ class: "cursor", cx: place.x, cy: place.y, r: 4.5 })) circle.setAttribute(name, value);
  picture.append(circle);
}

function settle(picture, place) {
  const box = picture.getBoundingClientRect();
  const scale = box.width / picture.viewBox.baseVal.width;
  tip.hidden = false;
  const [x, y] = [box.left + place.x * scale, box.top + place.y * scale];
  const left = Math.min(Math.max(x - tip.offsetWidth / 2, 8), root.clientWidth - tip.offsetWidth - 8);
  const above = y - tip.offsetHeight - 14;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${(above > 4 ? above : y + 14) + scrollY}px`;
}

function leave() {
  tip.hidden = true;
  document.querySelector(".cursor")?.remove();
}

// ---------------------------------------------------------------- downloads

function csv(figure) {
  const columns = new Set(["panel"]);
  const rows = [];
  const add = (row) => { rows.push(row); Object.keys(row).forEach((name) => columns.add(name)); };
  for (const panel of figure.panels) {
    if (panel.kind === "surface") {
      panel.ys.forEach((y, r) => panel.xs.forEach((x, c) => add({ panel: panel.title, x, y, z: panel.z[r][c] })));
      continue;
    }
    for (const series of panel.list) {
      series.y.forEach((y, i) => add({
        panel: panel.title,
        series: figure.series[series.series].name,
        ...(panel.kind === "bars" ? { label: panel.labels[i] } : { x: panel.xs[series.x][i] }),
        y,
        ...(series.low ? { low: series.low[i], high: series.high[i] } : {}),
      }));
    }
  }
  const order = ["panel", "series", "label", "x", "y", "z", "low", "high"].filter((name) => columns.has(name));
  const field = (value) => {
    const text = value === undefined ? "" : value === null ? "nan" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [order, ...rows.map((row) => order.map((name) => row[name]))].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

// the panels beside each other in one drawing, in the light theme's colours, with what is hidden left out
function drawing(plot, figure) {
  const probe = document.createElement("span");
  probe.style.colorScheme = "light";
  document.body.append(probe);
  const colour = (text) => {
    probe.style.color = text;
    return getComputedStyle(probe).color;
  };
  const make = (name, attributes, text = "") => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const names = [...plot.querySelectorAll(".legend .key:not(.off)")];
  const roof = names.length ? 26 : 0;
  const width = figure.panels.reduce((sum, panel) => sum + panel.width, 0);
  const height = roof + Math.max(...figure.panels.map((panel) => panel.height));
  const sheet = make("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "sans-serif", "stroke-linejoin": "round" });
  sheet.append(make("title", {}, figure.title), make("rect", { width, height, fill: "#ffffff" }));
  let x = 0;
  [...plot.querySelectorAll("svg.panel")].forEach((picture, i) => {
    const copy = picture.cloneNode(true);
    copy.querySelectorAll(".off, .cursor").forEach((part) => part.remove());
    for (const [key, value] of Object.entries({ x, y: roof, width: figure.panels[i].width, height: figure.panels[i].height })) copy.setAttribute(key, value);
    sheet.append(copy);
    x += figure.panels[i].width;
  });
  x = 12;
  for (const name of names) {
    const swatch = name.querySelector("svg").cloneNode(true);
    swatch.setAttribute("x", x);
    swatch.setAttribute("y", 8);
    sheet.append(swatch, make("text", { x: x + 32, y: 18, "font-size": 11.5, fill: "#1b1f26" }, name.textContent.trim()));
    x += 32 + name.querySelector("span").getBoundingClientRect().width + 20;
  }
  for (const part of sheet.querySelectorAll("[style]")) {
    part.setAttribute("style", part.getAttribute("style").replace(/var\(--[\w-]+\)/g, colour));
  }
  probe.remove();
  return `<?xml version="1.0" encoding="utf-8"?>\n${new XMLSerializer().serializeToString(sheet)}\n`;
}

function download(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

document.querySelectorAll("figure.plot").forEach(setUp);
// a finger lifts without leaving: what it showed stays until the next touch elsewhere
document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".view")) leave(); });
